def attention(
    query, key, value, heads, axes, mask=None, bias=None, relative=None, dropout=0.0, key_heads=None, scale=None, softcap=None,
    rescored=None, talking=None, steps=None, stop=None, reads=False,
):
    """Softmax attention, head by head; a query that sees no key gives 0. Neighbouring heads share keys and values where there are
    fewer `key_heads`. Scores are `softcap tanh(score / softcap)` where there is one.

    `axes` are those of queries and keys, None for slots [rows, slots, width]. `mask` and `bias` are functions of the positions i of
    a query and j of a key in the row, of the head and of the positions of the row; where a bias has no value, the key is hidden.
    `rescored` is a function as `bias`, which is told the score last and gives the one that stands in its place.
    `talking` are two matrices [from, to] that mix the scores and the probabilities of the heads. Where every position has the keys of
    several steps, [positions, slots, width], the first `steps` of them are seen. `stop` is a function as `mask`, then keys and values of
    the same numbers, which stand for the others where it holds: gradients from there go to them. Functions that read values are told
    the row, too.
    """
    along, to = axes
    key_heads = key_heads or heads

    def keys_of(x):
        x = x if to is None else to.pad(x)
        x = x if steps is None else x[:, :, :steps].flatten(1, 2)
        x = x.unflatten(-1, (key_heads, -1)).transpose(1, 2)
        return x.repeat_interleave(heads // key_heads, 1) if key_heads < heads else x

    q = (query if along is None else along.pad(query)).unflatten(-1, (heads, -1)).transpose(1, 2)
    k, v = keys_of(key), keys_of(value)
    exists = None if to is None else to.exists if steps is None else to.exists.repeat_interleave(steps, 1)
    product = relative or (lambda q, k: q @ k.transpose(-1, -2))
    scores = product(q, k)
    if any(f is not None for f in (mask, bias, rescored, stop)):
        rows, _, queries, keys = scores.shape
        count = torch.full((rows,), queries, device=q.device) if along is None else getattr(along, "part", along.length)
        # Positions count exactly in double precision, which not all devices have.
        exact = torch.float32 if q.device.type == "mps" else torch.float64
        grid = [torch.arange(n, device=q.device) for n in (heads, queries, keys)]
        grid[2] = grid[2] // (steps or 1)
        head, i, j = (x.to(exact).view(shape) for x, shape in zip(grid, ((-1, 1, 1), (-1, 1), -1)))
        # Chosen positions count as they stand in the row.
        if hasattr(along, "place"):
            i = along.pad(along.place).to(exact)[:, None, :, None]
        if hasattr(to, "place"):
            j = to.pad(to.place).to(exact)[:, None, None, :]
        count = count.to(exact)
        row = (torch.arange(rows, device=q.device).view(-1, 1, 1, 1),) if reads else ()
    if stop is not None:
        stopped = stop[0](i, j, head, count.view(-1, 1, 1, 1), *row)
        scores = torch.where(stopped, product(q, keys_of(stop[1])), scores)
    scores = scores / math.sqrt(q.shape[-1]) if scale is None else scores * scale
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    seen = torch.ones_like(scores, dtype=torch.bool)
    if exists is not None:
        seen = seen & exists[:, None, None]
    if along is not None:
        seen = seen & along.exists[:, None, :, None]
    if mask is not None:
        seen = seen & mask(i, j, head, count.view(-1, 1, 1, 1), *row)
    change = bias if rescored is None else rescored
    if change is not None:
        at = seen.nonzero(as_tuple=True)
        row = at[0]
        head, i, j = (x.expand(scores.shape)[at] for x in (head, i, j))
        told = ((row,) if reads else ()) + (() if rescored is None else (scores[at],))
        number = torch.as_tensor(change(i, j, head, count[row], *told), device=q.device).to(scores.dtype)
        has_value = torch.isfinite(number)
        seen = seen.index_put(at, has_value)
        scores = scores.index_put(at, torch.where(has_value, number, 0.0), accumulate=rescored is None)
    hidden = ~seen
    if talking is not None:
        scores = torch.einsum("rhij,hg->rgij", scores.masked_fill(hidden, 0.0), talking[0])
    weights = scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(hidden, 0.0)
    weights = F.dropout(weights, dropout)
    if talking is not None:
        weights = torch.einsum("rgij,gf->rfij", weights, talking[1])
    if stop is None:
        mixed = weights @ v
    else:
        mixed = weights.masked_fill(stopped, 0.0) @ v + weights.masked_fill(~stopped, 0.0) @ keys_of(stop[2])
    mixed = mixed.transpose(1, 2).flatten(2)
    return mixed if along is None else along.pack(mixed)
