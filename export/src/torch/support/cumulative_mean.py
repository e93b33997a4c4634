def cumulative_mean(x, axis):
    """The mean of the positions up to and including each one."""
    count = (axis.position + 1).to(x.dtype)
    return axis.pack(axis.pad(x).cumsum(1)) / count.view(-1, *[1] * (x.dim() - 1))
