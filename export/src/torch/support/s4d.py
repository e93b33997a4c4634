def s4d(x, log_dt, log_decay, frequency, b, c, axis, side, lag, held=False):
<<<<<<< HEAD
    """Diagonal state spaces (S4D, arXiv 2206.11893), by the bilinear rule or with the input held between positions."""
=======
    """Diagonal state spaces (S4D, arXiv 2206.11893), discretised by the bilinear rule, or with the input held between positions."""
>>>>>>> torch-export
    dt = log_dt.double().exp()[:, None]
    step = dt * torch.complex(-log_decay.double().exp(), -frequency.double())
    if held:
        series = 1 + step / 2 + step**2 / 6 + step**3 / 24
        pole, gain = step.exp(), torch.where(step.abs() < 1e-4, series, (step.exp() - 1) / step)
    else:
        pole, gain = (1 + step / 2) / (1 - step / 2), 1 / (1 - step / 2)
    b, c = torch.view_as_complex(b.double()), torch.view_as_complex(c.double())
<<<<<<< HEAD
    if not held:
        return convolve(x, (1 + z) / (1 - z), c * b * dt / (1 - z), axis, side, lag)
    u = 2 * z
    # (exp(u) - 1) / u, near 0 from its series.
    small = u.abs() < 0.25
    near, far = torch.where(small, u, torch.zeros_like(u)), torch.where(small, torch.ones_like(u), u)
    series = torch.ones_like(u)
    for n in range(12, 1, -1):
        series = 1 + near / n * series
    rise = torch.where(small, series, (far.exp() - 1) / far)
    return convolve(x, u.exp(), c * b * dt * rise, axis, side, lag)
=======
    return convolve(x, pole, c * b * dt * gain, axis, side, lag)
>>>>>>> torch-export
