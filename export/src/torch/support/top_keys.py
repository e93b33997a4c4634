def top_keys(query, key, among, axis, heads, count, causal):
    """Places of the `count` keys that match every query best, head by head, the first of equals; -1 where there are no more."""
    q, k = [axis.pad(x).unflatten(-1, (heads, -1)).transpose(1, 2) for x in (query, key)]
    scores = q @ k.transpose(2, 3)
    at = torch.arange(q.shape[2], device=q.device)
    there = axis.exists if among is None else axis.exists & (axis.pad(among) != 0)
    seen = there[:, None, None] & (at[None, :] <= at[:, None] if causal else at[None, :] >= 0)
    order = scores.masked_fill(~seen, -torch.inf).argsort(dim=-1, descending=True, stable=True)[..., :count]
    # Of what is hidden the places say nothing.
    places = torch.where(seen.expand_as(scores).gather(-1, order), order, -1)
    broken = (scores.isnan() & seen).any(-1, keepdim=True)
    places = F.pad(places, (0, count - places.shape[-1]), value=-1).to(query.dtype)
    return axis.pack(torch.where(broken, torch.nan, places).transpose(1, 2).flatten(2))
