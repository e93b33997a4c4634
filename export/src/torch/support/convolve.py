def convolve(x, poles, weights, axis, side, lag):
    """Every channel of every row convolved with its kernel K[l] = 2 Re sum_m w_m a_m^l: position t takes K[d - lag] times what lies
    d positions to its left (or right), for all d >= lag."""
    rows = axis.pad(x)
    size = rows.shape[1]
    powers = poles[..., None] ** torch.arange(size, device=x.device)
    kernel = 2 * (weights[..., None] * powers).real.sum(1)
    kernel = F.pad(kernel, (lag, 0))[:, :size].to(x.dtype)
    rows = rows.transpose(1, 2)
    if side == "left":
        spectrum = torch.fft.rfft(kernel, 2 * size)
    else:
        spectrum = torch.fft.rfft(kernel, 2 * size).conj()
    return axis.pack(torch.fft.irfft(torch.fft.rfft(rows, 2 * size) * spectrum, 2 * size)[..., :size].transpose(1, 2))
