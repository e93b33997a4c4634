// What continuous composition and ordered memory do between their layers.
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
// What position `at` takes of one number per position.
__device__ inline real taken_of(const real *e, const real *x, whole n, whole at, bool right) {
    Reach found = reach_of(e, n, at, right);
    whole step = right ? 1 : -1;
    real sum = 0;
    for (whole away = 1; away <= found.reach; away++) sum += e[at + step * away] * x[at + step * away];
    if (found.rest > (real)0) sum += found.rest * x[at + step * (found.reach + 1)];
    return sum;
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

// The largest of one number per thread, as `team_sum` adds them up.
__device__ inline double team_max(double x) {
    __shared__ double values[1024];
    values[threadIdx.x] = x;
    __syncthreads();
    for (u32 step = blockDim.x / 2; step > 0; step /= 2) {
        if (threadIdx.x < step && values[threadIdx.x + step] > values[threadIdx.x]) values[threadIdx.x] = values[threadIdx.x + step];
        __syncthreads();
    }
    return values[0];
}
#define TINY 4e-8
// A row: the largest of its scores and 0, then E and the denominator of every position. Every thread writes positions of its own. All have
// met behind E; who reads denominators of others meets first.
__device__ inline real merge_forces(const real *s, const real *e, real *force, real *total, whole n) {
    double largest = 0;
    for (whole i = threadIdx.x; i < n; i += blockDim.x) largest = s[i] > largest ? s[i] : largest;
    real top = (real)team_max(largest);
    for (whole i = threadIdx.x; i < n; i += blockDim.x) force[i] = i > 0 && i + 2 < n ? exponential(s[i] - top) : (real)0;
    __syncthreads();
    real alone = exponential(-top) + (real)TINY;
    for (whole i = threadIdx.x; i < n; i += blockDim.x)
        total[i] = force[i] + alone + taken_of(e, force, n, i, false) + taken_of(e, force, n, i, true);
    return top;
}
TEAM(merge_probability)(const real *s, const real *e, real *c, real *force, real *total, const u32 *offsets) {
    whole first = offsets[blockIdx.x], n = offsets[blockIdx.x + 1] - first;
    merge_forces(s + first, e + first, force + first, total + first, n);
    for (whole i = threadIdx.x; i < n; i += blockDim.x) c[first + i] = force[first + i] / total[first + i];
}
// What a position gets of the gradients of those that take from it, one number each; and how the loss changes with its existence.
__device__ inline real taken_grad(const real *e, const real *x, const real *dy, const u32 *reach, const real *rest, whole n, whole p, bool right, real *change) {
    whole from = right ? 0 : p + 1, to = right ? p : n, step = right ? 1 : -1;
    real sum = 0;
    for (whole at = from; at < to; at++) {
        whole away = right ? p - at : at - p;
        if (away <= reach[at]) {
            sum += e[p] * dy[at];
            *change += dy[at] * x[p];
            if (rest[at] > (real)0) *change -= dy[at] * x[at + step * ((whole)reach[at] + 1)];
        } else if (away == (whole)reach[at] + 1 && rest[at] > (real)0) {
            sum += rest[at] * dy[at];
        }
    }
    return sum;
}
TEAM(merge_probability_grad)(const real *s, const real *e, const real *dc, real *ds, real *de, real *force, real *total, real *slopes, u32 *reach, real *rest, const u32 *offsets) {
    whole first = offsets[blockIdx.x], n = offsets[blockIdx.x + 1] - first;
    s += first, e += first, dc += first, ds += first, de += first, force += first, total += first, slopes += first;
    real top = merge_forces(s, e, force, total, n);
    // All but the tiny number goes with the largest score, which may be 0 and constant.
    double with_largest = 0;
    for (whole i = threadIdx.x; i < n; i += blockDim.x) {
        real share = dc[i] * force[i] / (total[i] * total[i]);
        slopes[i] = -share;
        ds[i] = dc[i] / total[i] - share;
        de[i] = 0;
        with_largest -= share * TINY;
    }
    with_largest = team_sum(with_largest);
    for (int right = 0; right < 2; right++) {
        // All reaches of a side stand before anybody reads those of others, and are read before the other side replaces them.
        u32 *own_reach = reach + first;
        real *own_rest = rest + first;
        for (whole i = threadIdx.x; i < n; i += blockDim.x) {
            Reach found = reach_of(e, n, i, right);
            own_reach[i] = found.reach;
            own_rest[i] = found.rest;
        }
        __syncthreads();
        for (whole i = threadIdx.x; i < n; i += blockDim.x)
            ds[i] += taken_grad(e, force, slopes, own_reach, own_rest, n, i, right, &de[i]);
        __syncthreads();
    }
    // The first of the largest scores.
    double place = -(double)n;
    for (whole i = threadIdx.x; i < n; i += blockDim.x)
        if (s[i] == top && -(double)i > place) place = -(double)i;
    whole highest = (whole)-team_max(place);
    for (whole i = threadIdx.x; i < n; i += blockDim.x) {
        ds[i] *= force[i];
        if (i == highest && s[i] > (real)0) ds[i] += (real)with_largest;
    }
}
KERNEL(any_unmerged)(const real *e, u8 *y, const u32 *offsets, whole rows) {
    EACH(row, rows)
    int count = 0;
    bool known = true;
    for (whole t = offsets[row]; t < offsets[row + 1]; t++) {
        count += e[t] > (real)0.1;
        known = known && is_finite(e[t]);
    }
    y[row] = known ? count > 3 : UNKNOWN;
}

// How far each slot is open.
__device__ inline void slots_open(const real *before, int slots, real *open) {
    real sum = before[0];
    for (int i = 0; i + 1 < slots; i++) {
        sum += before[i + 1];
        open[i] = (double)sum < 1e-5 ? (real)0 : sum;
    }
    open[slots - 1] = 1;
}
// One row of probabilities; gives what they were divided by, and the largest score.
__device__ inline real slot_probabilities(const real *beta, const real *before, int slots, real *p, real *largest) {
    slots_open(before, slots, p);
    *largest = minus_infinity();
    for (int i = 0; i < slots; i++) *largest = larger(beta[i], *largest);
    real sum = 0;
    for (int i = 0; i < slots; i++) {
        p[i] *= exponential(beta[i] - *largest);
        sum += p[i];
    }
    // The last slot is open always; only where its score is hopeless can all be 0.
    if (!(sum > (real)0)) sum = 1;
    for (int i = 0; i < slots; i++) p[i] = p[i] / sum;
    return sum;
}
KERNEL(slot_softmax)(const real *beta, const real *before, real *p, real *below, real *above, int slots, whole rows) {
    EACH(row, rows)
    whole start = (whole)row * slots;
    beta += start, before += start, p += start, below += start, above += start;
    bool first = before[0] < (real)0;
    real largest, sum = 0;
    if (!first) slot_probabilities(beta, before, slots, p, &largest);
    for (int i = 0; i < slots; i++) {
        if (first) p[i] = 0;
        sum += p[i];
        below[i] = sum;
    }
    sum = 0;
    for (int i = slots - 1; i >= 0; i--) {
        sum += p[i];
        above[i] = first ? (real)1 : sum;
    }
}
// `p` and `open` are memory of the rows.
KERNEL(slot_softmax_grad)(const real *beta, const real *before, const real *dp, const real *dbelow, const real *dabove, real *dbeta, real *dbefore, real *p, real *open, int slots, whole rows) {
    EACH(row, rows)
    whole start = (whole)row * slots;
    beta += start, before += start, dp += start, dbelow += start, dabove += start, dbeta += start, dbefore += start, p += start, open += start;
    if (before[0] < (real)0) {
        for (int i = 0; i < slots; i++) dbeta[i] = dbefore[i] = 0;
        return;
    }
    real largest, sum = slot_probabilities(beta, before, slots, p, &largest);
    slots_open(before, slots, open);
    // The gradient of p: slot j counts below in every slot from j on, above in every slot up to j.
    real later = 0;
    for (int j = slots - 1; j >= 0; j--) {
        later += dbelow[j];
        dbeta[j] = dp[j] + later;
    }
    real earlier = 0, mean = 0;
    for (int j = 0; j < slots; j++) {
        earlier += dabove[j];
        dbeta[j] += earlier;
        mean += dbeta[j] * p[j];
    }
    // The openness of slot i counts probabilities 0..=i+1; the last slot's counts none.
    real through = 0;
    for (int j = slots - 1; j >= 0; j--) {
        real slope = dbeta[j] - mean;
        dbeta[j] = p[j] * slope;
        if (j + 1 < slots) {
            if (open[j] > (real)0) through += slope * exponential(beta[j] - largest) / sum;
            dbefore[j + 1] = through;
        }
    }
    dbefore[0] = through;
}

// Every row `count` times, as slots of its own.
KERNEL(repeat_slots)(const real *x, real *y, int count, whole d, whole n) {
    EACH(i, n)
    y[i] = x[i / (count * (u32)d) * d + i % (u32)d];
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
