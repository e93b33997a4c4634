def running_sum(x, axis, back=False):
    """The sum of the positions up to and including each one, or of it and those behind it."""
    rows = axis.pad(x)
    return axis.pack(rows.flip(1).cumsum(1).flip(1) if back else rows.cumsum(1))
