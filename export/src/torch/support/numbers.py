def equal(a, b):
    """1 where a == b, 0 where it is not; NaN where either is NaN."""
    return torch.where(a == b, 1.0, torch.where((a < b) | (b < a), 0.0, a + b))


def within(a, most):
    """The same numbers; NaN where one is larger in size."""
    return torch.where(a.abs() <= most, a, math.nan)


def power(a, b):
    """`a` to the power `b`; NaN where either is NaN. Gradients that would be infinite, or none, are 0."""
    base, exponent = torch.broadcast_tensors(a, b)
    base = torch.where((base != 0) | (exponent >= 1), base, base.detach())
    exponent = torch.where(base > 0, exponent, exponent.detach())
    return torch.where(torch.isnan(a + b), a + b, quiet(base**exponent))


def log_up(n, base):
    """The smallest whole numbers k with base**k >= n; NaN where the base is below 2."""
    n, base = torch.broadcast_tensors(n, base)
    k, reached = torch.zeros_like(n), torch.ones_like(n)
    base = torch.where(base < 2, math.nan, base)
    while (reached < n).any():
        k, reached = k + (reached < n), torch.where(reached < n, reached * base, reached)
    return torch.where(torch.isnan(n + base), math.nan, k)
