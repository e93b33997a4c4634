# Operations of masks, biases and depths that have no number for some operands: there they give any number, and other terms tell where.
# Operands are tensors or plain numbers.


def finite(x):
    return torch.isfinite(x) if isinstance(x, torch.Tensor) else math.isfinite(x)


def bounded(x):
    return where(finite(x), x, 0.0)


def any_of(f):
    def of(x):
        if not isinstance(x, torch.Tensor):
            y = plain(f)(x)
            return y if math.isfinite(y) else plain(f)(0.0)
        return f(torch.where(torch.isfinite(f(x)), x, 0.0))

    return of


def any_quotient(a, b):
    return a / where(b == 0, 1.0, b)


def any_rest(a, b):
    b = where(b == 0, 1.0, b)
    down = a / b
    return a - (down.floor() if isinstance(down, torch.Tensor) else math.floor(bounded(down))) * b


def quotient_fits(a, b):
    return where(b == -1, a != -(2**63), True)


def divisor(a, b):
    """What a whole number can be divided by."""
    return where(quotient_fits(a, b), where(b == 0, 1, b), 1)


def any_floor_quotient(a, b):
    return a // divisor(a, b)


def any_remainder(a, b):
    return a % divisor(a, b)


def power(a, b):
    """A power of real numbers: infinite, or none, where plain numbers of Python have an error or are complex."""
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return a**b
    try:
        return math.pow(a, b)
    except (OverflowError, ValueError):
        return math.nan


def finite_power(a, b):
    return finite(power(a, b))


def any_power(a, b):
    """Gradients that would be infinite, or none, are 0."""
    a = where(finite_power(a, b), a, 1.0)
    if isinstance(b, torch.Tensor):
        b = where(a > 0, b, b.detach()) if isinstance(a, torch.Tensor) or a <= 0 else b
    if isinstance(a, torch.Tensor):
        a = torch.where((a != 0) | torch.as_tensor(b >= 1), a, a.detach())
    return power(a, b)


def any_whole_power(a, b):
    # Only 0, 1 and -1 have powers beyond the 63rd: 62 and 63 give the same.
    return a ** where(b < 0, 0, where(b > 63, 62 + b % 2, b))


def any_log_of(n, base):
    base = where(base < 2, 2, base)
    return log_of(n, base) if isinstance(n, torch.Tensor) or isinstance(base, torch.Tensor) else log(n, base)


def any_ln(x):
    x = where(x > 0, x, 1.0)
    return x.log() if isinstance(x, torch.Tensor) else math.log(x)


def floor_fits(x):
    return (x < 2.0**63) & (x > -(2.0**63))


def any_floor(x):
    x = where(floor_fits(x), x, 0.0)
    return floor(x) if isinstance(x, torch.Tensor) else math.floor(x)


def inside(size):
    """The index of a table of a size; 0 outside of it."""
    return lambda index: where((index >= 0) & (index < size), index, 0)


def fits(x):
    return -(2**63) <= x < 2**63


def as_whole(x):
    return x if fits(x) else 0


def sum_fits(a, b):
    total = a + b
    return ((total < a) == (b < 0)) if isinstance(total, torch.Tensor) else fits(total)


def difference_fits(a, b):
    rest = a - b
    return ((rest > a) == (b < 0)) if isinstance(rest, torch.Tensor) else fits(rest)


def product_fits(a, b):
    product = a * b
    if not isinstance(product, torch.Tensor):
        return fits(product)
    by = where((a == 0) | (a == -1), 1, a)
    return where(a == 0, True, where(a == -1, quotient_fits(b, -1 + 0 * a), product // by == b))


def power_fits(a, b):
    a, b = torch.as_tensor(a).double(), torch.as_tensor(b).double()
    size = a ** b.clamp(min=0)
    return (size < 2.0**63) & (size >= -(2.0**63))
