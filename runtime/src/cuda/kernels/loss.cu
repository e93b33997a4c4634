// Losses, means and sums. Sums are made in double precision, block by block, and the blocks in their order.

// The loss of each item, times its weight: a weight of 0 takes an item out even if its loss is not finite.
__device__ inline double weighed(real loss, const real *weights, whole item) {
    if (!weights) return loss;
    return weights[item] == (real)0 ? 0.0 : (double)weights[item] * (double)loss;
}
KERNEL(cross_entropy)(const real *logits, const u32 *labels, const real *weights, double *losses, int c, whole n) {
    EACH(item, n)
    const real *row = logits + item * c;
    real most = minus_infinity(), sum = 0;
    for (int j = 0; j < c; j++) most = larger(row[j], most);
    for (int j = 0; j < c; j++) sum += exponential(row[j] - most);
    losses[item] = weighed(logarithm(sum) + (most - row[labels[item]]), weights, item);
}
KERNEL(binary_cross_entropy)(const real *logits, const u32 *labels, const real *weights, double *losses, whole n) {
    EACH(item, n)
    real z = labels[item] == 0 ? logits[item] : -logits[item];
    real size = z < 0 ? -z : z;
    losses[item] = weighed(logarithm((real)1 + exponential(-size)) + larger(z, (real)0), weights, item);
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
KERNEL(cross_entropy_each)(const real *logits, const u32 *labels, real *losses, int stable, int c, whole n) {
    EACH(item, n)
    const real *row = logits + item * c;
    real most = minus_infinity(), sum = 0, label = row[labels[item]];
    for (int j = 0; j < c; j++) most = larger(row[j], most);
    for (int j = 0; j < c; j++) sum += class_share(row[j], most, stable);
    real share = class_share(label, most, stable);
    // A quotient is exact where it is no tiny number; else the difference of the logarithms is so large that it is exact enough.
    if (stable && share > (real)1e-30) losses[item] = logarithm(sum / share);
    else losses[item] = logarithm(sum) + (stable ? stable_log(most) - stable_log(label) : most - label);
}
KERNEL(cross_entropy_each_grad)(const real *dy, const real *logits, const u32 *labels, real *d, int stable, int c, whole n) {
    EACH(item, n)
    const real *row = logits + item * c;
    real most = minus_infinity(), sum = 0;
    for (int j = 0; j < c; j++) most = larger(row[j], most);
    for (int j = 0; j < c; j++) sum += class_share(row[j], most, stable);
    real part = dy[item], factor = part / sum;
    for (int j = 0; j < c; j++) {
        real slope = class_share(row[j], most, stable) * factor - ((u32)j == labels[item] ? part : (real)0);
        d[item * c + j] = stable ? slope / ((real)1 + absolute(row[j])) : slope;
    }
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
KERNEL(right)(const real *logits, const u32 *labels, real *y, int c, whole n) {
    EACH(item, n)
    const real *row = logits + item * c;
    int best = 0;
    bool known = true;
    for (int j = 0; j < c; j++) {
        best = row[j] > row[best] ? j : best;
        known = known && !is_nan(row[j]);
    }
    bool is_right = c == 1 ? (row[0] > 0) == (labels[item] != 0) : (u32)best == labels[item];
    y[item] = !known ? not_a_number() : is_right ? (real)1 : (real)0;
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
KERNEL(cross_entropy_grad)(const real *upstream, const real *logits, const u32 *labels, const real *weights, const double *total, real *d, int c, whole n) {
    EACH(item, n)
    const real *row = logits + item * c;
    real most = minus_infinity(), sum = 0;
    for (int j = 0; j < c; j++) most = larger(row[j], most);
    for (int j = 0; j < c; j++) sum += exponential(row[j] - most);
    real part = weight_share(weights, upstream, *total, item), factor = part / sum;
    for (int j = 0; j < c; j++)
        d[item * c + j] = exponential(row[j] - most) * factor - ((u32)j == labels[item] ? part : (real)0);
}
KERNEL(binary_cross_entropy_grad)(const real *upstream, const real *logits, const u32 *labels, const real *weights, const double *total, real *d, whole n) {
    EACH(item, n)
    real target = labels[item] == 0 ? (real)0 : (real)1;
    d[item] = (sigmoid(logits[item]) - target) * weight_share(weights, upstream, *total, item);
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
KERNEL(ratio)(const double *sum, const double *total, real *y) { *y = *total == 0.0 ? (real)0 : (real)(*sum / *total); }

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
