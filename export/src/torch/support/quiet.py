def quiet(y):
    """The same numbers; where the gradient of one is 0, so are those of its operands, of the same shape: autograd's 0 * inf is NaN."""
    def hidden(dxs, dys):
        dy = dys[0]
        return tuple(torch.where(dy == 0, 0.0, dx) if dx is not None and dx.shape == dy.shape else dx for dx in dxs)
    if y.grad_fn is not None:
        y.grad_fn.register_hook(hidden)
    return y
