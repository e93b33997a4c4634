// Scans: every channel of every row convolved with K[l] = 2 Re sum_m w_m a_m^l, as the recurrence z = a z + x of every mode. A
// warp has one channel of one row, its lanes the modes; states are double precision.

struct Pair {
    double re, im;
};
__device__ inline Pair pair_of(double re, double im) {
    Pair p = {re, im};
    return p;
}
__device__ inline Pair times(Pair a, Pair b) { return pair_of(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re); }
__device__ inline Pair plus(Pair a, Pair b) { return pair_of(a.re + b.re, a.im + b.im); }
__device__ inline Pair conjugate(Pair a) { return pair_of(a.re, -a.im); }
__device__ inline Pair by(Pair a, double s) { return pair_of(a.re * s, a.im * s); }
__device__ inline Pair over(Pair a, Pair b) {
    double size = b.re * b.re + b.im * b.im;
    return by(times(a, conjugate(b)), 1 / size);
}

__device__ inline Pair exponential(Pair a) { return by(pair_of(cos(a.im), sin(a.im)), exp(a.re)); }
// (exp(u) - 1) / u and its slope, near 0 as the sums of their series.
__device__ inline bool is_small(Pair u) { return u.re * u.re + u.im * u.im <= 0.0625; }
__device__ inline Pair held(Pair u) {
    if (!is_small(u)) return over(plus(exponential(u), pair_of(-1, 0)), u);
    Pair sum = pair_of(1, 0);
    for (int n = 12; n >= 2; n--) sum = plus(pair_of(1, 0), times(by(u, 1.0 / n), sum));
    return sum;
}
__device__ inline Pair held_slope(Pair u) {
    if (!is_small(u)) return over(plus(exponential(u), by(held(u), -1)), u);
    Pair sum = pair_of(1, 0);
    for (int n = 12; n >= 2; n--) sum = plus(pair_of(1, 0), times(by(u, n / ((n - 1.0) * (n + 1.0))), sum));
    return by(sum, 0.5);
}

// S4D with z = dt A / 2: by the bilinear rule a = (1 + z) / (1 - z), w = C B dt / (1 - z); with the input held between two positions
// a = exp(2 z), w = C B dt (exp(2 z) - 1) / (2 z). `input` is w / (C B); slopes are by z.
struct Mode {
    double dt;
    Pair z, b, c, pole, pole_slope, weight, weight_slope, input;
};
__device__ inline Mode s4d_mode(const real *log_dt, const real *log_decay, const real *frequency, const real *b, const real *c, int hold, int modes, whole at) {
    Mode m;
    m.dt = exp((double)log_dt[(u32)at / modes]);
    m.z = by(pair_of(-exp((double)log_decay[at]), -(double)frequency[at]), m.dt / 2);
    m.b = pair_of(b[2 * at], b[2 * at + 1]);
    m.c = pair_of(c[2 * at], c[2 * at + 1]);
    Pair both = by(times(m.c, m.b), m.dt);
    if (hold) {
        Pair u = by(m.z, 2);
        m.pole = exponential(u);
        m.pole_slope = by(m.pole, 2);
        m.input = by(held(u), m.dt);
        m.weight = times(both, held(u));
        m.weight_slope = by(times(both, held_slope(u)), 2);
    } else {
        Pair below = pair_of(1 - m.z.re, -m.z.im);
        m.pole = over(pair_of(1 + m.z.re, m.z.im), below);
        m.pole_slope = over(pair_of(2, 0), times(below, below));
        m.input = over(pair_of(m.dt, 0), below);
        m.weight = over(both, below);
        m.weight_slope = over(m.weight, below);
    }
    return m;
}
// Poles and weights: 4 doubles per mode.
KERNEL(s4d_modes)(const real *log_dt, const real *log_decay, const real *frequency, const real *b, const real *c, double *out, int hold, int modes, whole n) {
    EACH(at, n)
    Mode m = s4d_mode(log_dt, log_decay, frequency, b, c, hold, modes, at);
    out[4 * at] = m.pole.re;
    out[4 * at + 1] = m.pole.im;
    out[4 * at + 2] = m.weight.re;
    out[4 * at + 3] = m.weight.im;
}
// From the gradients of poles and weights (d/d Re + i d/d Im) to those of the parameters; a thread has a channel.
KERNEL(s4d_pull)(const real *log_dt, const real *log_decay, const real *frequency, const real *b, const real *c, const double *d, real *d_dt, real *d_decay, real *d_frequency, real *db, real *dc, int hold, int modes, whole channels) {
    EACH(channel, channels)
    double sum = 0;
    for (whole at = channel * modes; at < (channel + 1) * modes; at++) {
        Mode m = s4d_mode(log_dt, log_decay, frequency, b, c, hold, modes, at);
        Pair d_pole = pair_of(d[4 * at], d[4 * at + 1]), d_weight = pair_of(d[4 * at + 2], d[4 * at + 3]);
        Pair dz = plus(times(conjugate(m.weight_slope), d_weight), times(conjugate(m.pole_slope), d_pole));
        Pair shared = times(conjugate(m.input), d_weight);
        Pair to_b = times(conjugate(m.c), shared), to_c = times(conjugate(m.b), shared);
        d_decay[at] = m.z.re * dz.re;
        d_frequency[at] = -m.dt / 2 * dz.im;
        db[2 * at] = to_b.re;
        db[2 * at + 1] = to_b.im;
        dc[2 * at] = to_c.re;
        dc[2 * at + 1] = to_c.im;
        sum += times(conjugate(m.weight), d_weight).re + times(conjugate(m.z), dz).re;
    }
    d_dt[channel] = sum;
}

__device__ inline double sigmoid_double(real x) { return 1 / (1 + exp(-(double)x)); }
// Damped moving averages: p = sigmoid(delta), a = 1 - p sigmoid(alpha), w = p beta gamma / sqrt(modes) / 2.
KERNEL(ema_modes)(const real *delta, const real *alpha, const real *beta, const real *gamma, double *out, int modes, whole n) {
    EACH(at, n)
    double taken = sigmoid_double(delta[at]);
    out[4 * at] = 1 - taken * sigmoid_double(alpha[at]);
    out[4 * at + 1] = 0;
    out[4 * at + 2] = taken * ((double)beta[at] * (double)gamma[at] / sqrt((double)modes)) / 2;
    out[4 * at + 3] = 0;
}
KERNEL(ema_pull)(const real *delta, const real *alpha, const real *beta, const real *gamma, const double *d, real *d_delta, real *d_alpha, real *d_beta, real *d_gamma, int modes, whole n) {
    EACH(at, n)
    double taken = sigmoid_double(delta[at]), forgotten = sigmoid_double(alpha[at]), size = sqrt((double)modes);
    double d_pole = d[4 * at], d_weight = d[4 * at + 2] / 2;
    d_delta[at] = (d_weight * ((double)beta[at] * (double)gamma[at] / size) - d_pole * forgotten) * taken * (1 - taken);
    d_alpha[at] = -d_pole * taken * forgotten * (1 - forgotten);
    d_beta[at] = d_weight * taken * ((double)gamma[at] / size);
    d_gamma[at] = d_weight * taken * ((double)beta[at] / size);
}

// y[t] = sum over s of K[|t - s| - lag] x[s] over the positions on one side that are at least `lag` away.
TEAM(scan)(const real *x, const double *kernel, real *y, const u32 *offsets, int right, int lag, int modes, int channels) {
    whole channel = (blockIdx.y * (whole)blockDim.x + threadIdx.x) / WARP;
    int lane = threadIdx.x % WARP;
    if (channel >= channels) return;
    whole row = blockIdx.x, first = offsets[row], length = offsets[row + 1] - first;
    kernel += 4 * channel * modes;
    for (whole t = lane; t < lag && t < length; t += WARP) y[(first + (right ? length - 1 - t : t)) * channels + channel] = 0;
    // Modes beyond 32 take further passes, which add to what the first left.
    for (int group = 0; group < modes; group += WARP) {
        int m = group + lane;
        Pair pole = m < modes ? pair_of(kernel[4 * m], kernel[4 * m + 1]) : pair_of(0, 0);
        Pair weight = m < modes ? pair_of(kernel[4 * m + 2], kernel[4 * m + 3]) : pair_of(0, 0), z = pair_of(0, 0);
        for (whole t = 0; t + lag < length; t++) {
            z = plus(times(pole, z), pair_of(x[(first + (right ? length - 1 - t : t)) * channels + channel], 0));
            double sum = warp_sum_double(2 * (weight.re * z.re - weight.im * z.im));
            if (lane == 0) {
                real *place = y + (first + (right ? length - 1 - t - lag : t + lag)) * channels + channel;
                *place = group == 0 ? (real)sum : (real)(*place + sum);
            }
        }
    }
}
// The gradients of poles and weights of one row and channel: with z' = dz/da, dw = 2 conj(sum dy z), da = 2 conj(w sum dy z').
TEAM(scan_grad)(const real *x, const real *dy, const double *kernel, double *d, const u32 *offsets, int right, int lag, int modes, int channels) {
    whole channel = (blockIdx.y * (whole)blockDim.x + threadIdx.x) / WARP;
    int lane = threadIdx.x % WARP;
    if (channel >= channels) return;
    whole row = blockIdx.x, first = offsets[row], length = offsets[row + 1] - first;
    for (int m = lane; m < modes; m += WARP) {
        const double *mode = kernel + 4 * (channel * modes + m);
        Pair pole = pair_of(mode[0], mode[1]), weight = pair_of(mode[2], mode[3]);
        Pair z = pair_of(0, 0), slope = pair_of(0, 0), states = pair_of(0, 0), slopes = pair_of(0, 0);
        for (whole t = 0; t + lag < length; t++) {
            slope = plus(times(pole, slope), z);
            z = plus(times(pole, z), pair_of(x[(first + (right ? length - 1 - t : t)) * channels + channel], 0));
            double g = dy[(first + (right ? length - 1 - t - lag : t + lag)) * channels + channel];
            states = plus(states, by(z, g));
            slopes = plus(slopes, by(slope, g));
        }
        Pair d_pole = by(conjugate(times(weight, slopes)), 2), d_weight = by(conjugate(states), 2);
        double *out = d + 4 * ((row * channels + channel) * modes + m);
        out[0] = d_pole.re;
        out[1] = d_pole.im;
        out[2] = d_weight.re;
        out[3] = d_weight.im;
    }
}
// Sums over the rows, in their order.
KERNEL(scan_rows)(const double *d, double *y, whole rows, whole n) {
    EACH(i, n)
    double sum = 0;
    for (whole row = 0; row < rows; row++) sum += d[row * n + i];
    y[i] = sum;
}
