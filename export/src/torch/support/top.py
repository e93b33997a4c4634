def top(x, count, axis=None, among=None):
    """1 for the `count` largest numbers of the last axis, or of every row of an axis, the first of equals and NaN last, else 0.
    Numbers whose place in `among` is 0 do not count."""
    there = torch.ones_like(x, dtype=torch.bool) if among is None else among != 0
    numbers = torch.where(x == x, x, -torch.inf)
    if axis is not None:
        numbers, there = axis.pad(numbers), axis.pad(there)
    order = numbers.argsort(dim=-1, descending=True, stable=True)
    order = order.gather(-1, (~there).gather(-1, order).long().argsort(dim=-1, stable=True))
    count = torch.as_tensor(count, device=x.device).clamp(min=1)
    chosen = (order.argsort(dim=-1) < (count if axis is None else count[:, None])) & there
    return (chosen if axis is None else axis.pack(chosen)).to(x.dtype)
