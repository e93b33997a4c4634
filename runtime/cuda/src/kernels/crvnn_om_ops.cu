// Neighbours by existence, and slots.
//
// Going away from a position, the positions on one side share 1: each takes its existence, until less is left than that. So a
// position takes from some whole neighbours, and at most one more gets the rest; `reach` counts the whole ones, and `rest` is what the
// one behind them gets, 0 if there is none. All that a gradient needs follows from the two, without a sum that threads race for:
// a position looks at all those that may reach it, in their order.

struct Reach {
    whole reach;
    real rest;
};
// Of position `at` of a row of n with existences e, on the right side or the left one.
__device__ inline Reach reach_of(const real *e, whole n, whole at, bool right) {
    whole count = right ? n - 1 - at : at;
    Reach found = {0, 0};
    real left = 1;
    for (whole away = 1; away <= count && left > (real)0; away++) {
        real existence = e[right ? at + away : at - away];
        if (left < existence) {
            found.rest = left;
            break;
        }
        found.reach = away;
        left -= existence;
    }
    return found;
}
// A warp per position and piece of 128 channels; all its lanes go the same way.
TEAM(neighbours)(const real *x, const real *e, real *y, const u32 *row_of, const u32 *offsets, int right, int d, whole n) {
    EACH_WARP(t, lane, n)
    whole first = offsets[row_of[t]], count = offsets[row_of[t] + 1] - first, at = t - first, step = right ? 1 : -1;
    Reach found = reach_of(e + first, count, at, right);
    for (int c = blockIdx.y * 128 + lane; c < d && c < (int)(blockIdx.y + 1) * 128; c += WARP) {
        real sum = 0;
        for (whole away = 1; away <= found.reach; away++) sum += e[t + step * away] * x[(t + step * away) * d + c];
        if (found.rest > (real)0) sum += found.rest * x[(t + step * (found.reach + 1)) * d + c];
        y[t * d + c] = sum;
    }
}
// Of every position its reach, its rest, and how the loss changes with the rest.
TEAM(neighbours_reach)(const real *x, const real *e, const real *dy, u32 *reach, real *rest, real *slopes, const u32 *row_of, const u32 *offsets, int right, int d, whole n) {
    EACH_WARP(t, lane, n)
    whole first = offsets[row_of[t]], count = offsets[row_of[t] + 1] - first;
    Reach found = reach_of(e + first, count, t - first, right);
    whole last = right ? t + found.reach + 1 : t - found.reach - 1;
    real slope = 0;
    if (found.rest > (real)0)
        for (int c = lane; c < d; c += WARP) slope += dy[t * d + c] * x[last * d + c];
    slope = warp_sum(slope);
    if (lane == 0) {
        reach[t] = found.reach;
        rest[t] = found.rest;
        slopes[t] = slope;
    }
}
// dx and de of a position, from those on its other side that reach it.
TEAM(neighbours_grad)(const real *x, const real *e, const real *dy, const u32 *reach, const real *rest, const real *slopes, real *dx, real *de, const u32 *row_of, const u32 *offsets, int right, int d, whole n) {
    EACH_WARP(t, lane, n)
    whole first = offsets[row_of[t]], end = offsets[row_of[t] + 1];
    whole from = right ? first : t + 1, to = right ? t : end;
    int channel = blockIdx.y * 128;
    real sums[4] = {0, 0, 0, 0}, change = 0;
    for (whole at = from; at < to; at++) {
        whole away = right ? t - at : at - t;
        bool all = away <= reach[at];
        if (!all && (away != reach[at] + 1 || rest[at] == (real)0)) continue;
        real weight = all ? e[t] : rest[at];
        for (int m = 0; m < 4; m++) {
            int c = channel + m * WARP + lane;
            if (c < d) sums[m] += weight * dy[at * d + c];
        }
        if (!all || channel > 0) continue;
        real slope = 0;
        for (int c = lane; c < d; c += WARP) slope += dy[at * d + c] * x[t * d + c];
        // What exists in between takes from the rest.
        change += warp_sum(slope) - slopes[at];
    }
    for (int m = 0; m < 4; m++) {
        int c = channel + m * WARP + lane;
        if (c < d) dx[t * d + c] = sums[m];
    }
    if (lane == 0 && channel == 0) de[t] = change;
}

// One slot of every row; 0 where there is none.
KERNEL(pick_slot)(const real *x, real *y, whole slot, int slots, whole d, whole n) {
    EACH(i, n)
    y[i] = slot < slots ? x[(i / (u32)d * slots + slot) * d + i % (u32)d] : (real)0;
}
// The rows of x with one slot replaced.
KERNEL(put_slot)(const real *x, const real *new_slot, real *y, whole slot, int slots, whole d, whole n) {
    EACH(i, n)
    y[i] = i / (u32)d % slots == slot ? new_slot[i / (slots * (u32)d) * d + i % (u32)d] : x[i];
}
