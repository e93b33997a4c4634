def rms_norm(x, gain=None, *, eps, parts=1):
    """Every part of the last axis over the root of its mean square."""
    whole = x.shape
    x = x.reshape(*whole[:-1], parts, -1)
    x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    return (x if gain is None else x * gain).reshape(whole)
