def s4d(x, log_dt, log_decay, frequency, b, c, axis, side, lag):
    """Diagonal state spaces, discretised by the bilinear rule (S4D, arXiv 2206.11893)."""
    dt = log_dt.double().exp()[:, None]
    z = dt / 2 * torch.complex(-log_decay.double().exp(), -frequency.double())
    b, c = torch.view_as_complex(b.double()), torch.view_as_complex(c.double())
    return convolve(x, (1 + z) / (1 - z), c * b * dt / (1 - z), axis, side, lag)
