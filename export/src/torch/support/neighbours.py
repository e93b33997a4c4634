def neighbours(x, e, axis, side):
    """The nearest position on one side that exists, as a mean: going away from position i, position j gets the weight
    min(e_j, what is left of 1)."""
    exists = axis.pad(e)
    at = torch.arange(exists.shape[1], device=x.device)
    beyond = at > at[:, None] if side == "right" else at < at[:, None]
    e = torch.where(beyond, exists[:, None], 0.0)
    upto = e.cumsum(-1) if side == "right" else e.flip(-1).cumsum(-1).flip(-1)
    rest = 1 - (upto - e)
    weight = torch.where(rest > 0, torch.where(rest < e, rest, e), 0.0)
    rows = axis.pad(x)
    return axis.pack(weight @ rows if rows.dim() == 3 else (weight @ rows[..., None]).squeeze(-1))
