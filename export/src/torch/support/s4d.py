def s4d(x, log_dt, log_decay, frequency, b, c, axis, side, lag, held=False):
    """Diagonal state spaces (S4D, arXiv 2206.11893), discretised by the bilinear rule, or with the input held between positions."""
    dt = log_dt.double().exp()[:, None]
    step = dt * torch.complex(-log_decay.double().exp(), -frequency.double())
    if held:
        series = 1 + step / 2 + step**2 / 6 + step**3 / 24
        pole, gain = step.exp(), torch.where(step.abs() < 1e-4, series, (step.exp() - 1) / step)
    else:
        pole, gain = (1 + step / 2) / (1 - step / 2), 1 / (1 - step / 2)
    b, c = torch.view_as_complex(b.double()), torch.view_as_complex(c.double())
    return convolve(x, pole, c * b * dt * gain, axis, side, lag)
