def prefix(x, vectors, axis):
    """Every row behind the positions that the channels of its vector are."""
    vectors = vectors.unflatten(1, (-1, x.shape[-1]))
    rows = [part for before, row in zip(vectors, x.split(axis.lengths)) for part in (before, row)]
    return torch.cat(rows)
