def slot_softmax(score, before):
    """Divides a step among the slots of an ordered memory (Shen et al. 2019), the last of which is its top: the probability of
    every slot, and its sums from both ends. A slot is open as far as the step before went up to the slot above it; no step went
    before where `before` is negative."""
    first = before[:, :1] < 0
    opened = before.cumsum(1)[:, 1:]
    opened = torch.cat([torch.where(opened < 1e-5, 0.0, opened), torch.ones_like(before[:, :1])], 1)
    p = (score - score.amax(1, keepdim=True)).exp() * opened
    total = p.sum(1, keepdim=True)
    p = p / torch.where(total > 0, total, 1.0)
    below, above = p.cumsum(1), p.flip(1).cumsum(1).flip(1)
    return torch.where(first, 0.0, p), torch.where(first, 0.0, below), torch.where(first, 1.0, above)
