def frame(x, start, end, axis):
    """START before and END behind every row."""
    rows = [part for row in x.split(axis.lengths) for part in (start[None], row, end[None])]
    return torch.cat(rows)
