def less(a, b):
    """1 where a < b, 0 where it is not; NaN where either is NaN."""
    return torch.where(a < b, 1.0, torch.where(a >= b, 0.0, a + b))


def choose(a, b, c):
    """`b` where a > 0, `c` where it is not; NaN where `a` is NaN."""
    return torch.where(a > 0, b, torch.where(a <= 0, c, a))
