def lerp(a, b, c):
    """`a b + (1 - a) c` in this order of roundings: that of `torch.lerp` is another one."""
    return a * b + (1.0 - a) * c
