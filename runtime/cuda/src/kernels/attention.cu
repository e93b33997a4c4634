// What goes with an attention; its own kernels are made for the models that need them (attention_kernels.rs).

// The first `steps` of the slots of every position, of `d` numbers each, and the other way round.
KERNEL(pack_slots)(const real *x, real *y, int slots, int steps, whole d, whole n) {
    EACH(i, n)
    y[i] = x[i / (steps * d) * slots * d + i % (steps * d)];
}
KERNEL(unpack_slots)(const real *x, real *y, int slots, int steps, whole d, whole n) {
    EACH(i, n)
    whole at = i % (slots * d);
    y[i] = at < steps * d ? x[i / (slots * d) * steps * d + at] : (real)0;
}

// Sines and cosines of distances from `last` down, from those of positions: sines of distances ahead are negative.
KERNEL(distance_waves)(const real *codes, real *y, int last, int channels, whole n) {
    EACH(i, n)
    whole distance = last - (whole)(i / channels), c = i % channels;
    real wave = codes[(distance < 0 ? -distance : distance) * channels + c];
    y[i] = distance < 0 && c < (channels + 1) / 2 ? -wave : wave;
}

// The gradient of the number per distance of `offset_attention`, row by row: a warp adds up one distance of one row. The distances
// of a row of n positions are 1 - n to n - 1, at 2 offset on.
TEAM(attention_grad_distances)(ATTEND, const real *dy, const real *stats, real *sums) {
    GIVEN
    Head h = head_of(a, blockIdx.x);
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    whole n = blockIdx.y * (whole)(blockDim.x / WARP) + warp;
    if (n >= 2 * h.queries - 1) return;
    whole distance = n + 1 - h.queries;
    real sum = 0;
    for (whole i = lane; i < h.queries; i += WARP) {
        whole j = i + distance;
        if (j < 0 || j >= h.keys) continue;
        sum += slopes_at<false>(a, Plain(), h, i, j, 0, dy, stats).d_score;
    }
    sum = warp_sum(sum);
    if (lane == 0) sums[2 * h.q_start + n] = sum;
}
KERNEL(attention_distances)(const real *sums, const u32 *offsets, real *d_bias, int reach, whole rows, int add) {
    EACH(place, 2 * reach - 1)
    whole most = reach - 1;
    real total = add ? d_bias[place] : (real)0;
    for (whole row = 0; row < rows; row++) {
        whole length = offsets[row + 1] - offsets[row];
        for (whole n = 0; n < 2 * length - 1; n++) {
            whole distance = n + 1 - length;
            whole at = most + (distance > most ? most : distance < -most ? -most : distance);
            if (at == place) total += sums[2 * (whole)offsets[row] + n];
        }
    }
    d_bias[place] = total;
}
