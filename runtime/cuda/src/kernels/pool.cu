// Pooling over the positions of a row, and what a unit's own number or condition does to its values.

// Sum over the positions of every row, divided by their number where `mean` is set.
KERNEL(pool)(const real *x, real *y, const u32 *offsets, int d, int mean, whole n) {
    EACH(i, n)
    whole row = i / d, c = i % d, first = offsets[row], end = offsets[row + 1];
    real sum = 0;
    for (whole t = first; t < end; t++) sum += x[t * d + c];
    whole count = end > first ? end - first : 1;
    y[i] = mean ? sum * (real)(1.0 / (double)count) : sum;
}
// The row's value at every position, or an equal part of it.
KERNEL(broadcast_rows)(const real *x, real *y, const u32 *row_of, const u32 *offsets, int d, int shared, whole n) {
    EACH(i, n)
    whole row = row_of[i / d];
    real value = x[row * d + i % d];
    y[i] = shared ? (real)(1.0 / (double)(offsets[row + 1] - offsets[row])) * value : value;
}
// Sums of every row up to each position, from its first one on or from its last one back; a thread per row and channel.
KERNEL(running_sum)(const real *x, real *y, const u32 *offsets, int d, int back, whole n) {
    EACH(i, n)
    whole row = i / d, c = i % d, first = offsets[row], end = offsets[row + 1];
    real sum = 0;
    for (whole k = 0; k < end - first; k++) {
        whole t = back ? end - 1 - k : first + k;
        sum += x[t * d + c];
        y[t * d + c] = sum;
    }
}
// One position of every row: the first (`back` is 0), or the one `back` before its end; 0 where it has none.
__device__ inline whole taken_position(whole first, whole end, int back) { return back ? end - back : first; }
KERNEL(position)(const real *x, real *y, const u32 *offsets, int d, int back, whole n) {
    EACH(i, n)
    whole row = i / d, c = i % d, first = offsets[row], end = offsets[row + 1];
    whole taken = taken_position(first, end, back);
    y[i] = end > first && taken >= first ? x[taken * d + c] : (real)0;
}
KERNEL(position_grad)(const real *dy, real *dx, const u32 *row_of, const u32 *offsets, int d, int back, whole n) {
    EACH(i, n)
    whole t = i / d, row = row_of[t];
    whole taken = taken_position(offsets[row], offsets[row + 1], back);
    dx[i] = t == taken ? dy[row * d + i % d] : (real)0;
}
// The first position with the largest value; a NaN wins. -1 in an empty row.
__device__ inline whole largest(const real *x, whole first, whole end, int d, whole c) {
    whole place = end > first ? first : -1;
    for (whole t = first + 1; t < end; t++) {
        real value = x[t * d + c], best = x[place * d + c];
        if (value > best || (is_nan(value) && !is_nan(best))) place = t;
    }
    return place;
}
KERNEL(max_pool)(const real *x, real *y, const u32 *offsets, int d, whole n) {
    EACH(i, n)
    whole row = i / d, c = i % d;
    whole place = largest(x, offsets[row], offsets[row + 1], d, c);
    y[i] = place < 0 ? (real)0 : x[place * d + c];
}
KERNEL(max_pool_grad)(const real *x, const real *dy, real *dx, const u32 *offsets, int d, whole n) {
    EACH(i, n)
    whole row = i / d, c = i % d;
    whole place = largest(x, offsets[row], offsets[row + 1], d, c);
    for (whole t = offsets[row]; t < offsets[row + 1]; t++) dx[t * d + c] = t == place ? dy[i] : (real)0;
}
// The value `lag` positions before, or behind; 0 where the row has none.
KERNEL(shift)(const real *x, real *y, const u32 *row_of, const u32 *offsets, int d, whole lag, int behind, whole n) {
    EACH(i, n)
    whole t = i / d, row = row_of[t], first = offsets[row], end = offsets[row + 1];
    bool there = lag < end - first && (behind ? t + lag < end : t - lag >= first);
    y[i] = there ? x[(behind ? t + lag : t - lag) * d + i % d] : (real)0;
}

// Over the channels of a unit: the largest number, as over positions that have one channel, and the sum or the mean.
KERNEL(largest_channel)(const real *x, real *y, int d, whole units) {
    EACH(u, units)
    y[u] = x[largest(x, (whole)u * d, ((whole)u + 1) * d, 1, 0)];
}
KERNEL(largest_channel_grad)(const real *dy, const real *x, real *dx, int d, whole units) {
    EACH(u, units)
    whole place = largest(x, (whole)u * d, ((whole)u + 1) * d, 1, 0);
    for (whole i = (whole)u * d; i < ((whole)u + 1) * d; i++) dx[i] = i == place ? dy[u] : (real)0;
}
TEAM(channel_sum)(const real *x, real *y, int d, int mean, whole units) {
    EACH_WARP(u, lane, units)
    real sum = 0;
    for (int c = lane; c < d; c += WARP) sum += x[u * d + c];
    sum = warp_sum(sum);
    if (lane == 0) y[u] = mean ? sum * (real)(1.0 / d) : sum;
}
KERNEL(broadcast_channels)(const real *x, real *y, int d, whole n) {
    EACH(i, n)
    y[i] = x[i / d];
}

// Softmax over the numbers of each unit: a warp does one. Units are rows, or even pieces of `width` numbers.
TEAM(softmax)(const real *x, real *y, const u32 *offsets, whole width, whole units) {
    EACH_WARP(u, lane, units)
    whole first = offsets ? offsets[u] * width : u * width;
    whole end = offsets ? offsets[u + 1] * width : first + width;
    real top = minus_infinity(), sum = 0;
    for (whole i = first + lane; i < end; i += WARP) top = larger(x[i], top);
    top = warp_max(top);
    for (whole i = first + lane; i < end; i += WARP) {
        y[i] = exponential(x[i] - top);
        sum += y[i];
    }
    real share = (real)1 / warp_sum(sum);
    for (whole i = first + lane; i < end; i += WARP) y[i] *= share;
}
TEAM(softmax_grad)(const real *y, const real *dy, real *dx, const u32 *offsets, whole width, whole units) {
    EACH_WARP(u, lane, units)
    whole first = offsets ? offsets[u] * width : u * width;
    whole end = offsets ? offsets[u + 1] * width : first + width;
    real mean = 0;
    for (whole i = first + lane; i < end; i += WARP) mean += y[i] * dy[i];
    mean = warp_sum(mean);
    for (whole i = first + lane; i < end; i += WARP) dx[i] = y[i] * (dy[i] - mean);
}

// 1 for the numbers that are among the `counts` largest of their row or unit, the first of equals: those before which fewer stand; NaN where one
// that counts is NaN, or it is not known whether it counts. There is one count for all, or one for every row.
KERNEL(top)(const real *x, const real *among, real *y, const u32 *row_of, const u32 *offsets, whole width, const u32 *counts, int by_row, whole n) {
    EACH(i, n)
    whole u = row_of ? row_of[i] : i / (u32)width;
    whole first = offsets ? (whole)offsets[u] : u * width;
    whole end = offsets ? (whole)offsets[u + 1] : first + width;
    whole before = 0;
    bool known = true;
    for (whole j = first; j < end; j++) {
        if (among && among[j] == 0) continue;
        known = known && !is_nan(x[j]) && !(among && is_nan(among[j]));
        before += x[j] > x[i] || (x[j] == x[i] && j < i);
    }
    y[i] = !known ? not_a_number() : !(among && among[i] == 0) && before < (whole)counts[by_row ? u : 0] ? (real)1 : (real)0;
}

// The places of the keys that match a query best. A thread has a query of a head, and keeps the best so far in order; `best` has their
// products.
KERNEL(top_keys)(const real *q, const real *k, const real *among, real *y, real *best, const u32 *row_of, const u32 *offsets, int heads, int e, int keys, int causal, whole count) {
    EACH(i, count)
    whole t = i / heads, d = (whole)heads * e;
    int head = (int)(i % heads), found = 0;
    whole first = offsets[row_of[t]], end = causal ? t + 1 : (whole)offsets[row_of[t] + 1];
    real *places = y + (whole)i * keys, *own = best + (whole)i * keys;
    for (int n = 0; n < keys; n++) places[n] = -1;
    for (whole key = first; key < end; key++) {
        if (among && among[key] == 0) continue;
        real score = 0;
        for (int c = 0; c < e; c++) score += q[t * d + head * e + c] * k[key * d + head * e + c];
        if (is_nan(score) || (among && is_nan(among[key]))) {
            for (int n = 0; n < keys; n++) places[n] = not_a_number();
            break;
        }
        // Equal ones stay before those that come later.
        int at = found;
        while (at > 0 && own[at - 1] < score) at--;
        if (at == keys) continue;
        if (found < keys) found++;
        for (int n = found - 1; n > at; n--) {
            own[n] = own[n - 1];
            places[n] = places[n - 1];
        }
        own[at] = score;
        places[at] = (real)(key - first);
    }
}

// The unit of number i: units are rows, whose positions `row_of` tells, or even pieces of `width` numbers.
#define UNIT (row_of ? row_of[i / (u32)width] : i / (u32)width)

KERNEL(mul_unit)(const real *x, const real *s, real *y, const u32 *row_of, whole width, whole n) {
    EACH(i, n)
    y[i] = s[UNIT] * x[i];
}
KERNEL(add_scaled)(const real *q, const real *h, const real *s, real *y, const u32 *row_of, whole width, whole n) {
    EACH(i, n)
    y[i] = s[UNIT] * h[i] + q[i];
}
KERNEL(mask_unit)(const real *x, const u8 *when, int value, real *y, const u32 *row_of, whole width, whole n) {
    EACH(i, n)
    u8 holds = when[UNIT];
    y[i] = holds == UNKNOWN ? not_a_number() : (holds != 0) == (value != 0) ? x[i] : (real)0;
}
KERNEL(select)(const u8 *when, const real *a, const real *b, real *y, const u32 *row_of, whole width, whole n) {
    EACH(i, n)
    u8 holds = when[UNIT];
    y[i] = holds == UNKNOWN ? not_a_number() : holds ? a[i] : b[i];
}
KERNEL(select_truth)(const u8 *when, const u8 *a, const u8 *b, u8 *y, whole n) {
    EACH(i, n)
    y[i] = when[i] == UNKNOWN ? (u8)UNKNOWN : when[i] ? a[i] : b[i];
}
// Scalar products of a and b over pieces of `piece` numbers of each unit, `pieces` of which every unit has: a warp does one, and
// those behind the end of a unit are 0.
TEAM(dot_unit)(const real *a, const real *b, real *y, const u32 *offsets, whole width, whole pieces, whole piece, whole n) {
    EACH_WARP(i, lane, n)
    whole u = (u32)i / (u32)pieces, from = (u32)i % (u32)pieces * piece;
    whole first = offsets ? offsets[u] * width : u * width;
    whole numbers = offsets ? offsets[u + 1] * width - first : width;
    int count = (int)(numbers - from < piece ? numbers - from : piece);
    a += first + from;
    b += first + from;
    real sum = 0;
#pragma unroll 4
    for (int k = lane; k < count; k += WARP) sum += a[k] * b[k];
    sum = warp_sum(sum);
    if (lane == 0) y[i] = sum;
}

// A unit with survival t goes on while 1 - t < threshold, and `step` is at most the row's length on the axis of `cap`.
KERNEL(halt_test)(const real *t, u8 *go, const u32 *row_of, int per, const u32 *cap, whole step, real threshold, whole n) {
    EACH(i, n)
    whole row = row_of ? row_of[i] : i / per;
    bool open = !cap || step <= (whole)(cap[row + 1] - cap[row]);
    go[i] = !open ? 0 : !is_finite(t[i]) ? UNKNOWN : (real)1 - t[i] < threshold;
}
KERNEL(both)(const u8 *a, const u8 *b, u8 *y, whole n) {
    EACH(i, n)
    y[i] = a[i] == 0 || b[i] == 0 ? 0 : a[i] > b[i] ? a[i] : b[i];
}
KERNEL(any)(const u8 *x, u8 *y, const u32 *offsets, int per, whole rows) {
    EACH(row, rows)
    whole first = offsets ? offsets[row] : (whole)row * per, end = offsets ? offsets[row + 1] : first + per;
    u8 found = 0;
    for (whole i = first; i < end; i++) found = x[i] > found ? x[i] : found;
    y[row] = found;
}
KERNEL(longer_than_one)(u8 *y, const u32 *offsets, whole rows) {
    EACH(row, rows)
    y[row] = offsets[row + 1] - offsets[row] > 1;
}
