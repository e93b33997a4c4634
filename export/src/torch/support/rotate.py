def rotate(x, heads, axis, kind="rope", whole_row=False):
    """Rotary positions on pairs of neighbouring channels of every head: RoPE (arXiv 2104.09864), or xPos (arXiv 2212.10554),
    whose queries and keys also grow and decay. Positions count along the axis, or from the start of the whole row."""
    position = axis.position.double()
    if whole_row:
        position = position + torch.tensor(axis.origins, dtype=torch.float64, device=x.device)[axis.row]
    pairs = x.shape[-1] // heads // 2
    share = torch.arange(pairs, dtype=torch.float64, device=x.device) / pairs
    angle = position[:, None, None] * 10000.0**-share
    power = {"rope": 0.0, "xpos_query": 1.0, "xpos_key": -1.0}[kind] * position[:, None, None] / 512
    scale = ((share + 0.4) / 1.4) ** power
    cos, sin = (scale * angle.cos()).to(x.dtype), (scale * angle.sin()).to(x.dtype)
    a, b = x.unflatten(-1, (heads, pairs, 2)).unbind(-1)
    return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(1)
