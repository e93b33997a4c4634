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
