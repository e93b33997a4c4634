def sinusoids(position, channels):
    """[positions, channels]: sin(p w_k), then cos(p w_k), with w_k = 10000^(-2k / channels)."""
    frequency = 10000.0 ** (-2 * torch.arange((channels + 1) // 2, dtype=torch.float64, device=position.device) / channels)
    angle = position[:, None].double() * frequency
    return torch.cat([angle.sin(), angle[:, : channels // 2].cos()], -1)
