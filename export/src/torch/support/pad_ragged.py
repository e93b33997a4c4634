def pad_ragged(x, pad, axis, filled):
    """Every row behind as many copies of `pad` as its length along `filled` takes."""
    parts = []
    for row, length in zip(x.split(axis.lengths), filled.lengths):
        parts += [pad.expand(length - len(row), -1), row]
    return torch.cat(parts)
