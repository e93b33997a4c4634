def cut_normal(like, std, cut):
    """Normal numbers of a deviation, from the distribution that is cut so many deviations from 0."""
    below = 0.5 * math.erfc(cut / math.sqrt(2))
    points = torch.empty_like(like, dtype=torch.float64).uniform_(below, 1 - below)
    return (std * torch.special.ndtri(points).clamp(-cut, cut)).to(like.dtype)
