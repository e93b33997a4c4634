def ema(x, delta, alpha, beta, gamma, axis, side, lag):
    """Damped moving averages in several dimensions (MEGA, arXiv 2209.10655)."""
    taken = delta.double().sigmoid()
    pole = 1 - taken * alpha.double().sigmoid()
    weight = taken * beta.double() * gamma.double() / math.sqrt(delta.shape[1])
    return convolve(x, pole, weight / 2, axis, side, lag)
