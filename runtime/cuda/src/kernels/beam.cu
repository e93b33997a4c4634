// The table of nodes of a beam search: rows are taken out of it, and gradients are added to it by `embed_grad`, in a fixed order.

// [left; right] of pairs of nodes, whose ids stand one behind the other.
KERNEL(pair_nodes)(const real *table, const u32 *ids, real *y, int d, whole n) {
    EACH(i, n)
    y[i] = table[ids[i / d] * (whole)d + i % d];
}
// Sums of nodes by shares: sum k has the terms from starts[k] on.
KERNEL(mix_nodes)(const real *table, const u32 *starts, const u32 *nodes, const real *shares, real *y, int d, whole n) {
    EACH(i, n)
    whole k = i / d, c = i % d;
    real sum = 0;
    for (u32 t = starts[k]; t < starts[k + 1]; t++) sum += shares[t] * table[nodes[t] * (whole)d + c];
    y[i] = sum;
}
// The gradient of every share, and what every term adds to the gradient of its node; `of` is the sum that a term belongs to.
TEAM(mix_shares)(const real *table, const u32 *of, const u32 *nodes, const real *dy, double *y, int d, whole terms) {
    EACH_WARP(t, lane, terms)
    double sum = 0;
    for (int c = lane; c < d; c += WARP) sum += (double)(dy[of[t] * (whole)d + c] * table[nodes[t] * (whole)d + c]);
    sum = warp_sum_double(sum);
    if (lane == 0) y[t] = sum;
}
KERNEL(mix_terms)(const u32 *of, const real *shares, const real *dy, real *y, int d, whole n) {
    EACH(i, n)
    whole t = i / d;
    y[i] = shares[t] * dy[of[t] * (whole)d + i % d];
}
