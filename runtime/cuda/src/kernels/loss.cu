// Losses, means and sums. Sums are made in double precision, block by block, and the blocks in their order.

// The loss of each item, times its weight: a weight of 0 takes an item out even if its loss is not finite.
__device__ inline double weighed(real loss, const real *weights, whole item) {
    if (!weights) return loss;
    return weights[item] == (real)0 ? 0.0 : (double)weights[item] * (double)loss;
}
// Probabilities of stablemax are proportional to `a + 1` from 0 on, to `1 / (1 - a)` below, which rises with a: here as a share of that
// of the largest logit, and its logarithm.
__device__ inline real stable_grown(real a) { return a < 0 ? (real)1 / ((real)1 - a) : a + (real)1; }
__device__ inline real stable_log(real a) {
    real size = logarithm((real)1 + absolute(a));
    return a < 0 ? -size : size;
}
__device__ inline real class_share(real a, real most, int stable) {
    return stable ? stable_grown(a) / stable_grown(most) : exponential(a - most);
}
// The logits of an item, by a warp: the largest of them, and the sum of the shares of all.
struct Logits {
    const real *row;
    int stable;
    real most, sum;
    __device__ inline Logits(const real *row, int c, int stable, int lane) : row(row), stable(stable), most(minus_infinity()), sum(0) {
        for (int j = lane; j < c; j += WARP) most = larger(row[j], most);
        most = warp_max(most);
        for (int j = lane; j < c; j += WARP) sum += share(j);
        sum = warp_sum(sum);
    }
    __device__ inline real share(int j) const { return class_share(row[j], most, stable); }
};
TEAM(cross_entropy_each)(const real *logits, const u32 *labels, real *losses, int stable, int c, whole n) {
    EACH_WARP(item, lane, n)
    Logits all(logits + item * c, c, stable, lane);
    if (lane > 0) return;
    real label = all.row[labels[item]], share = all.share(labels[item]);
    // A quotient is exact where it is no tiny number; else the difference of the logarithms is so large that it is exact enough.
    if (stable && share > (real)1e-30) losses[item] = logarithm(all.sum / share);
    else losses[item] = logarithm(all.sum) + (stable ? stable_log(all.most) - stable_log(label) : all.most - label);
}
// The gradient of an item whose loss counts `part`.
__device__ inline void class_slopes(const Logits &all, u32 label, real part, real *d, int c, int lane) {
    real factor = part / all.sum;
    for (int j = lane; j < c; j += WARP) {
        real slope = all.share(j) * factor - ((u32)j == label ? part : (real)0);
        d[j] = all.stable ? slope / ((real)1 + absolute(all.row[j])) : slope;
    }
}
TEAM(cross_entropy_each_grad)(const real *dy, const real *logits, const u32 *labels, real *d, int stable, int c, whole n) {
    EACH_WARP(item, lane, n)
    class_slopes(Logits(logits + item * c, c, stable, lane), labels[item], dy[item], d + item * c, c, lane);
}
KERNEL(binary_cross_entropy_each)(const real *logits, const u32 *labels, real *losses, whole n) {
    EACH(item, n)
    real z = labels[item] == 0 ? logits[item] : -logits[item];
    losses[item] = logarithm((real)1 + exponential(-absolute(z))) + larger(z, (real)0);
}
KERNEL(binary_cross_entropy_each_grad)(const real *dy, const real *logits, const u32 *labels, real *d, whole n) {
    EACH(item, n)
    d[item] = (sigmoid(logits[item]) - (labels[item] == 0 ? (real)0 : (real)1)) * dy[item];
}
// 1 where the first of the largest logits is that of the label, or where a single logit is positive for a label that is not 0; NaN where a logit is.
TEAM(right)(const real *logits, const u32 *labels, real *y, int c, whole n) {
    EACH_WARP(item, lane, n)
    const real *row = logits + item * c;
    real most = minus_infinity();
    int best = lane < c ? lane : c, unknown = 0;
    for (int j = lane; j < c; j += WARP) {
        best = row[j] > most ? j : best;
        most = larger(row[j], most);
        unknown |= is_nan(row[j]);
    }
    for (int step = WARP / 2; step > 0; step /= 2) {
        real other = __shfl_xor_sync(EVERYONE, most, step);
        int place = __shfl_xor_sync(EVERYONE, best, step);
        best = other > most || (other == most && place < best) ? place : best;
        most = larger(other, most);
    }
    unknown = __any_sync(EVERYONE, unknown);
    bool is_right = c == 1 ? (row[0] > 0) == (labels[item] != 0) : (u32)best == labels[item];
    if (lane == 0) y[item] = unknown ? not_a_number() : is_right ? (real)1 : (real)0;
}
KERNEL(weigh)(const real *x, const real *weights, double *y, whole n) {
    EACH(item, n)
    y[item] = weighed(x[item], weights, item);
}
// What an item's gradient is multiplied with; `total` is the sum of the weights.
__device__ inline real weight_share(const real *weights, const real *upstream, double total, whole item) {
    double weight = weights ? (double)weights[item] : 1.0;
    return total == 0.0 ? (real)0 : (real)((double)*upstream * weight / total);
}
// y = upstream / count everywhere.
KERNEL(average_grad)(const real *upstream, real *y, whole n) {
    EACH(i, n)
    y[i] = (real)((double)*upstream / (double)n);
}
// y = upstream weight / sum of weights.
KERNEL(weighted_average_grad)(const real *upstream, const real *weights, const double *total, real *y, whole n) {
    EACH(i, n)
    y[i] = weight_share(weights, upstream, *total, i);
}

// Sums over blocks of `per` numbers: plain, or of squares.
TEAM(sum_blocks)(const real *x, double *sums, int squares, whole n, whole per) {
    whole first = blockIdx.x * per, end = first + per < n ? first + per : n;
    double sum = 0;
    for (whole i = first + threadIdx.x; i < end; i += blockDim.x) {
        double value = x[i];
        sum += squares ? value * value : value;
    }
    sum = team_sum(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
// The sum of some doubles, by one block.
TEAM(sum_doubles)(const double *x, double *y, whole n) {
    double sum = 0;
    for (whole i = threadIdx.x; i < n; i += blockDim.x) sum += x[i];
    sum = team_sum(sum);
    if (threadIdx.x == 0) *y = sum;
}
// y = sum / total, 0 where the total is 0.
KERNEL(ratio)(const double *sum, const double *total, real *y) {
    EACH(i, 1)
    y[i] = *total == 0.0 ? (real)0 : (real)(*sum / *total);
}

// Muon: the matrices that are orthogonalised. x divided by its L2 norm.
KERNEL(shorten)(real *x, const double *squares, real epsilon, whole n) {
    EACH(i, n)
    x[i] = (real)((double)x[i] / (sqrt(*squares) + (double)epsilon));
}
// p = a + b s + c p for square matrices, p being the square of s.
KERNEL(polynomial)(const real *s, real *p, real a, real b, real c, int side, whole n) {
    EACH(i, n)
    p[i] = (i % (side + 1) == 0 ? a : (real)0) + b * s[i] + c * p[i];
}
