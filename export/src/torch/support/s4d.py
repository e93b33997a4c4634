def s4d(x, log_dt, log_decay, frequency, b, c, axis, side, lag, held=False):
    """Diagonal state spaces (S4D, arXiv 2206.11893), by the bilinear rule or with the input held between positions."""
    dt = log_dt.double().exp()[:, None]
    step = dt * torch.complex(-log_decay.double().exp(), -frequency.double())
    if held:
        # (exp(step) - 1) / step, near 0 from its series: the difference would cancel there, and more so in its gradient.
        small = step.abs() < 0.25
        near, far = torch.where(small, step, torch.zeros_like(step)), torch.where(small, torch.ones_like(step), step)
        series = torch.ones_like(step)
        for n in range(12, 1, -1):
            series = 1 + near / n * series
        pole, gain = step.exp(), torch.where(small, series, (far.exp() - 1) / far)
    else:
        pole, gain = (1 + step / 2) / (1 - step / 2), 1 / (1 - step / 2)
    b, c = torch.view_as_complex(b.double()), torch.view_as_complex(c.double())
    return convolve(x, pole, c * b * dt * gain, axis, side, lag)
