def shift(x, axis, side, lag):
    """The value `lag` positions before or behind every one, 0 where the row has none."""
    at = axis.position + (lag if side == "right" else -lag)
    exists = (at >= 0) & (at < axis.length[axis.row])
    moved = x[torch.where(exists, axis.start[axis.row] + at, 0)]
    return torch.where(exists.view(-1, *[1] * (x.dim() - 1)), moved, 0.0)
