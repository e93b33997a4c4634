def plain(f):
    """A function of PyTorch for plain numbers."""
    return lambda x: f(torch.tensor(x, dtype=torch.float64)).item()


def real(x):
    return x.double() if isinstance(x, torch.Tensor) else float(x)


def where(condition, yes, no):
    """`yes` where a condition holds, else `no`; of tensors, or of plain numbers."""
    if not any(isinstance(x, torch.Tensor) for x in (condition, yes, no)):
        return yes if condition else no
    yes, no = both(yes, no)
    if not isinstance(condition, torch.Tensor):
        return yes if condition else no
    return torch.where(condition, yes.to(condition.device), no.to(condition.device))


def both(a, b):
    device = next((x.device for x in (a, b) if isinstance(x, torch.Tensor)), None)
    kind = [torch.float64 if isinstance(x, float) else None for x in (a, b)]
    return torch.broadcast_tensors(*[torch.as_tensor(x, dtype=k, device=device) for x, k in zip((a, b), kind)])


def smaller(a, b):
    return torch.minimum(*both(a, b))


def larger(a, b):
    return torch.maximum(*both(a, b))


def floor(x):
    return x.floor().long()


def log_of(n, base):
    """As `log`, for many numbers."""
    n, base = both(n, base)
    k, power, most = torch.zeros_like(n), torch.ones_like(n), 2**63 - 1
    while (power < n).any():
        k, power = k + (power < n), torch.where(power > most // base, most, power * base)
    return k
