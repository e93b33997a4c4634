def geometric_attention(query, key, value, sides, axis, heads, scale):
    """Every query reads the nearest key that matches it, of two at one distance the one in front (neural data router)."""

    def split(x):
        return axis.pad(x).unflatten(-1, (heads, -1)).transpose(1, 2)

    q, k, v = split(query), split(key), split(value)
    at = torch.arange(q.shape[2], device=q.device)
    ahead = at - at[:, None]
    scores = q @ k.transpose(2, 3) * scale
    if sides is not None:
        behind, front = split(sides).split(1, -1)
        scores = scores + torch.where(ahead < 0, behind, front)
    hidden = ~axis.exists[:, None, None] | (ahead == 0)
    # From the nearest key on: the sum of log(1 - p) of those before each.
    order = (2 * ahead.abs() - (ahead > 0).long()).argsort(1)
    away = F.logsigmoid(-scores).masked_fill(hidden, 0).gather(3, order.expand_as(scores))
    nearer = (away.cumsum(3) - away).gather(3, order.argsort(1).expand_as(scores))
    weights = (F.logsigmoid(scores) + nearer).exp().masked_fill(hidden, 0)
    weights = weights / weights.sum(-1, keepdim=True).clamp_min(1e-12)
    return axis.pack((weights @ v).transpose(1, 2).flatten(2))
