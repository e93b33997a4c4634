def real(x):
    return x.double() if isinstance(x, torch.Tensor) else float(x)


def both(a, b):
    device = next((x.device for x in (a, b) if isinstance(x, torch.Tensor)), None)
    return torch.broadcast_tensors(torch.as_tensor(a, device=device), torch.as_tensor(b, device=device))


def smaller(a, b):
    return torch.minimum(*both(a, b))


def larger(a, b):
    return torch.maximum(*both(a, b))


def ln(x):
    """The natural logarithm; none of what is not positive."""
    x = torch.as_tensor(x)
    return torch.where(x > 0, torch.where(x > 0, x, 1.0).log(), torch.nan)


def floor(x):
    return torch.as_tensor(x).floor().long()


def log_of(n, base):
    """As `log`, for many numbers."""
    k, power = torch.zeros_like(n), 1
    while (power < n).any():
        k, power = k + (power < n), power * base
    return k
