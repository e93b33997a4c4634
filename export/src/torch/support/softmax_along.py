def softmax_along(x, axis):
    """Softmax over the positions of every row."""
    return axis.pack(axis.pad(x).masked_fill(~axis.exists, -math.inf).softmax(-1))
