def unprefix(x, axis, count):
    """Every row without its first positions."""
    return torch.cat([row[count:] for row in x.split(axis.lengths)])
