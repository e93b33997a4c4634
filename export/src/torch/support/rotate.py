def rotate(x, heads, axis, kind="rope", whole_row=False, half=False, base=10000.0, part=None, angles=None):
    """Rotary positions on pairs of channels of every head: RoPE (arXiv 2104.09864), or xPos (arXiv 2212.10554), whose queries and
    keys also grow and decay. Positions count along the axis, or from the start of the whole row. A pair are neighbours, or with
    `half` a channel of the first half and one of the second. With `part` only so many channels of a head turn. Pairs turn by `angles`, or
    by those of `base`."""
    position = axis.position.double()
    if whole_row:
        position = position + torch.tensor(axis.origins, dtype=torch.float64, device=x.device)[axis.row]
    x = x.unflatten(-1, (heads, -1))
    part = part or x.shape[-1]
    pairs = part // 2
    share = torch.arange(pairs, dtype=torch.float64, device=x.device) / pairs
    turn = base**-share if angles is None else torch.tensor(angles, dtype=torch.float64, device=x.device)
    angle = position[:, None, None] * turn
    power = {"rope": 0.0, "xpos_query": 1.0, "xpos_key": -1.0}[kind] * position[:, None, None] / 512
    scale = ((share + 0.4) / 1.4) ** power
    cos, sin = (scale * angle.cos()).to(x.dtype), (scale * angle.sin()).to(x.dtype)
    pair = -2 if half else -1
    a, b = x[..., :part].unflatten(-1, (2, pairs) if half else (pairs, 2)).unbind(pair)
    turned = torch.stack([a * cos - b * sin, b * cos + a * sin], pair).flatten(-2)
    return torch.cat([turned, x[..., part:]], -1).flatten(1)
