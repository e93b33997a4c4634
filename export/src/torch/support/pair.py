def pair(x):
    """Features of two vectors u (first half of the rows) and v: [u; v; u v; |u - v|]."""
    u, v = x.chunk(2)
    return torch.cat([u, v, u * v, (u - v).abs()], -1)
