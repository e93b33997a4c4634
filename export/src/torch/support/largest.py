def largest(x, axis):
    """The largest value of every channel of a row."""
    hidden = ~axis.exists.view(*axis.exists.shape, *[1] * (x.dim() - 1))
    return axis.pad(x).masked_fill(hidden, -math.inf).max(1).values
