def waves(x, channels, base, pairs):
    """Sines and cosines of numbers: sin(x w_k) and cos(x w_k), with w_k = base^(-2k / channels), in pairs or one half each."""
    frequency = base ** (-2 * torch.arange((channels + 1) // 2, dtype=torch.float64, device=x.device) / channels)
    angle = x[..., None].double() * frequency
    if pairs:
        both = torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)[..., :channels]
    else:
        both = torch.cat([angle.sin(), angle[..., : channels // 2].cos()], -1)
    return both.to(x.dtype)
