def log(n, base):
    """The smallest k with base**k >= n."""
    k = 0
    while base**k < n:
        k += 1
    return k
