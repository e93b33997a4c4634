def relative_xl(u, v, weight):
    """Scores (q_i + u) k_j + (q_i + v) W s_(i-j) with the sinusoids s of the distance (Transformer-XL, arXiv 1901.02860)."""

    def scores(q, k):
        heads, width = q.shape[1], q.shape[-1]
        i, j = torch.arange(q.shape[2], device=q.device)[:, None], torch.arange(k.shape[2], device=q.device)
        distance = torch.arange(-k.shape[2] + 1, q.shape[2], device=q.device)
        code = F.linear(sinusoids(distance, weight.shape[1]).to(q.dtype), weight).unflatten(-1, (heads, width))
        content = (q + u.view(heads, 1, width)) @ k.transpose(-1, -2)
        position = (q + v.view(heads, 1, width)) @ code.permute(1, 2, 0)
        at = (i - j + k.shape[2] - 1).expand(*q.shape[:2], -1, -1)
        return content + position.gather(-1, at)

    return scores
