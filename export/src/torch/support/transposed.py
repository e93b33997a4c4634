def transposed(x, axis, count):
    """[total, width] to [rows, width, count], for rows of as many positions."""
    if any(length != count for length in axis.lengths):
        raise ValueError(f"every row has {count} positions")
    return x.view(-1, count, x.shape[-1]).mT
