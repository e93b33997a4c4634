def parameter(*shape):
    """Random until weights are loaded."""
    return nn.Parameter(0.02 * torch.randn(shape))
