def merge_probability(score, e, axis):
    """How probable it is that a position goes into its right neighbour (CRvNN, arXiv 2106.06038). START, the last token and END
    stay."""
    top = axis.pad(score).masked_fill(~axis.exists, 0.0).amax(1).clamp(min=0)[axis.row]
    inner = (axis.position > 0) & (axis.position + 2 < axis.length[axis.row])
    force = torch.where(inner, (score - top).exp(), 0.0)
    around = neighbours(force, e, axis, "left") + neighbours(force, e, axis, "right")
    return force / (force + (-top).exp() + around + 4e-8)
