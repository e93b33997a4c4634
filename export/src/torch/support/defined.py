def exact(whole):
    """A whole number, which is exact in double precision."""
    if abs(whole) > 2**52:
        raise OverflowError
    return whole


def finite(x):
    """A real number, where it is one."""
    if isinstance(x, complex) or not math.isfinite(x):
        raise OverflowError
    return x


def whole_power(a, b):
    """`a` to the power `b`, of whole numbers."""
    if b < 0:
        raise ValueError
    return exact(round(math.pow(a, b)))


def defined(number, text):
    """A number of steps or of choices, which must have a value."""
    try:
        value = number()
    except (ArithmeticError, TypeError, ValueError):
        value = math.nan
    if isinstance(value, complex) or not math.isfinite(value) or value != math.floor(value):
        raise ValueError(f"`{text}` has no value for some row")
    return value
