// Attention whose heads talk: they mix their scores before the softmax and their probabilities behind it. A warp has one query, or one
// key, of a row with all its heads; a lane has the numbers of all heads for one key (query). The rest is as in attend.cu. Sums over keys
// (queries) are made in the results: each of these is touched by one lane of one warp alone.

// The matrices between heads, [from, to].
template <int HEADS> struct Talk {
    const real *scores, *probabilities;
};

// What the heads make of a query and a key: scores, 0 where one does not see the key, their slopes, and mixed scores.
template <int HEADS> struct Told {
    real own[HEADS], slope[HEADS], mixed[HEADS];
    bool seen[HEADS], any;
};

template <int HEADS> __device__ inline void tell_nothing(Told<HEADS> &told) {
    told.any = false;
    for (int h = 0; h < HEADS; h++) {
        told.own[h] = 0;
        told.slope[h] = 1;
        told.mixed[h] = minus_infinity();
        told.seen[h] = false;
    }
}

template <bool RELATIVE, int HEADS, class Rule>
__device__ inline void tell(const Attend &a, const Rule &rule, const Talk<HEADS> &t, whole row, whole i, whole j, whole n, Told<HEADS> &told) {
    told.any = false;
    for (int g = 0; g < HEADS; g++) told.mixed[g] = 0;
    for (int h = 0; h < HEADS; h++) {
        real s = score<RELATIVE>(a, rule, head_at(a, row, h), i, j, n, &told.slope[h]);
        told.seen[h] = s != minus_infinity();
        told.own[h] = told.seen[h] ? s : (real)0;
        told.any = told.any || told.seen[h];
        for (int g = 0; g < HEADS; g++) told.mixed[g] += told.own[h] * t.scores[h * HEADS + g];
    }
    for (int g = 0; g < HEADS; g++) {
        if (!told.seen[g]) told.mixed[g] = minus_infinity();
    }
}

// The largest mixed score of every head over all keys of query i, and 1 / sum of the softmax.
template <bool RELATIVE, int HEADS, class Rule>
__device__ inline void settle(const Attend &a, const Rule &rule, const Talk<HEADS> &t, whole row, whole i, Span all, int lane, real *most, real *inverse) {
    Told<HEADS> told;
    for (int g = 0; g < HEADS; g++) {
        most[g] = minus_infinity();
        inverse[g] = 0;
    }
    for (whole tile = all.first; tile < all.end; tile += WARP) {
        whole n = tile + lane;
        if (n < all.end) tell<RELATIVE>(a, rule, t, row, i, rule.key(a, i, n), n, told);
        else tell_nothing(told);
        for (int g = 0; g < HEADS; g++) {
            real correction = raise(&most[g], told.mixed[g]);
            inverse[g] = inverse[g] * correction + warp_sum(probability(told.mixed[g], most[g]));
        }
    }
    for (int g = 0; g < HEADS; g++) inverse[g] = inverse[g] == (real)0 ? (real)0 : (real)1 / inverse[g];
}

template <bool RELATIVE, int HEADS, class Rule>
__device__ inline void attend_talking(const Attend &a, const Rule &rule, const Talk<HEADS> &t, real *y) {
    __shared__ real shared_w[MOST_WARPS][WARP];
    whole row = blockIdx.x;
    Head any = head_at(a, row, 0);
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    whole i = blockIdx.y * (whole)(blockDim.x / WARP) + warp;
    if (i >= any.queries) return;
    real most[HEADS], inverse[HEADS], p[HEADS], *w = shared_w[warp];
    Span all = rule.keys(a, any, i);
    settle<RELATIVE>(a, rule, t, row, i, all, lane, most, inverse);
    y += (any.q_start + i) * HEADS * a.ev;
    for (int f = 0; f < HEADS; f++) {
        for (int c = lane; c < a.ev; c += WARP) y[f * a.ev + c] = 0;
    }
    Told<HEADS> told;
    for (whole tile = all.first; tile < all.end; tile += WARP) {
        whole n = tile + lane, j = n < all.end ? rule.key(a, i, n) : 0;
        if (n < all.end) tell<RELATIVE>(a, rule, t, row, i, j, n, told);
        else tell_nothing(told);
        if (!__any_sync(EVERYONE, told.any)) continue;
        for (int g = 0; g < HEADS; g++) {
            p[g] = probability(told.mixed[g], most[g]) * inverse[g];
            if (p[g] != (real)0) p[g] *= kept_factor(a, head_at(a, row, g), i, j);
        }
        whole count = all.end - tile < WARP ? all.end - tile : WARP;
        for (int f = 0; f < HEADS; f++) {
            real mine = 0;
            for (int g = 0; g < HEADS; g++) mine += p[g] * t.probabilities[g * HEADS + f];
            w[lane] = mine;
            __syncwarp();
            Head h = head_at(a, row, f);
            for (int c = lane; c < a.ev; c += WARP) {
                real part = 0;
                for (whole s = 0; s < count; s++) part += w[s] * h.v[rule.key(a, i, tile + s) * a.key_heads * a.ev + c];
                y[f * a.ev + c] += part;
            }
            __syncwarp();
        }
    }
}

// What the gradients know of a query and a key, for every head: the probability, the same after dropout, what the head takes of the value
// and its gradient, and the gradient of the probability.
template <int HEADS> struct Weighed {
    real p[HEADS], kept[HEADS], weight[HEADS], d_weight[HEADS], d_p[HEADS];
};

template <int HEADS>
__device__ inline void weigh(const Attend &a, const Talk<HEADS> &t, const Told<HEADS> &told, whole row, whole i, whole j, const real *dy, const real *most, const real *inverse, Weighed<HEADS> &out) {
    for (int g = 0; g < HEADS; g++) {
        Head h = head_at(a, row, g);
        out.p[g] = probability(told.mixed[g], most[g]) * inverse[g];
        out.kept[g] = told.any ? kept_factor(a, h, i, j) : (real)0;
        out.weight[g] = 0;
        out.d_weight[g] = told.any ? dot(dy + ((h.q_start + i) * HEADS + g) * a.ev, h.v + j * a.key_heads * a.ev, a.ev) : (real)0;
    }
    for (int g = 0; g < HEADS; g++) {
        real factor = out.kept[g], sum = 0;
        out.kept[g] = out.p[g] * factor;
        for (int f = 0; f < HEADS; f++) {
            real by = t.probabilities[g * HEADS + f];
            out.weight[f] += out.kept[g] * by;
            sum += out.d_weight[f] * by;
        }
        out.d_p[g] = factor * sum;
    }
}

// The gradients of the mixed scores, and of the scores of the heads themselves.
template <int HEADS>
__device__ inline void unmix(const Talk<HEADS> &t, const Told<HEADS> &told, const Weighed<HEADS> &w, const real *mean, real *d_mixed, real *d_own) {
    for (int g = 0; g < HEADS; g++) d_mixed[g] = w.p[g] * (w.d_p[g] - mean[g]);
    for (int h = 0; h < HEADS; h++) {
        d_own[h] = 0;
        if (!told.seen[h]) continue;
        for (int g = 0; g < HEADS; g++) d_own[h] += d_mixed[g] * t.scores[h * HEADS + g];
    }
}

// Gradients of a query, and what it adds to those of the matrices, [queries, from, to]. Leaves for every query and head what attend_queries
// leaves.
template <bool RELATIVE, int HEADS, class Rule>
__device__ inline void talking_queries(const Attend &a, const Rule &rule, const Talk<HEADS> &t, const real *dy, real *dq, real *stats, real *by_keys, real *by_codes, real *d_scores, real *d_probabilities) {
    __shared__ real shared_d[MOST_WARPS][WARP];
    whole row = blockIdx.x;
    Head any = head_at(a, row, 0);
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    whole i = blockIdx.y * (whole)(blockDim.x / WARP) + warp;
    if (i >= any.queries) return;
    whole place = any.q_start + i;
    real most[HEADS], inverse[HEADS], mean[HEADS], d_mixed[HEADS], d_own[HEADS], *d = shared_d[warp];
    Told<HEADS> told;
    Weighed<HEADS> w;
    Span all = rule.keys(a, any, i);
    settle<RELATIVE>(a, rule, t, row, i, all, lane, most, inverse);
    for (int g = 0; g < HEADS; g++) mean[g] = 0;
    for (whole n = all.first + lane; n < all.end; n += WARP) {
        whole j = rule.key(a, i, n);
        tell<RELATIVE>(a, rule, t, row, i, j, n, told);
        weigh(a, t, told, row, i, j, dy, most, inverse, w);
        for (int g = 0; g < HEADS; g++) mean[g] += w.p[g] * w.d_p[g];
    }
    // All lanes have the same query, so they meet here.
    for (int g = 0; g < HEADS; g++) mean[g] = warp_sum(mean[g]);
    d_scores += place * HEADS * HEADS;
    d_probabilities += place * HEADS * HEADS;
    for (int m = lane; m < HEADS * HEADS; m += WARP) d_scores[m] = d_probabilities[m] = 0;
    for (int h = 0; h < HEADS; h++) {
        whole at = (place * HEADS + h) * a.e;
        for (int c = lane; c < a.e; c += WARP) {
            dq[at + c] = 0;
            if (RELATIVE) by_keys[at + c] = by_codes[at + c] = 0;
        }
    }
    for (whole tile = all.first; tile < all.end; tile += WARP) {
        whole n = tile + lane, j = n < all.end ? rule.key(a, i, n) : 0;
        if (n < all.end) tell<RELATIVE>(a, rule, t, row, i, j, n, told);
        else tell_nothing(told);
        if (!__any_sync(EVERYONE, told.any)) continue;
        weigh(a, t, told, row, i, j, dy, most, inverse, w);
        unmix(t, told, w, mean, d_mixed, d_own);
        for (int m = 0; m < HEADS * HEADS; m++) {
            real of_scores = warp_sum(told.own[m / HEADS] * d_mixed[m % HEADS]);
            real of_probabilities = warp_sum(w.kept[m / HEADS] * w.d_weight[m % HEADS]);
            if (lane != m % WARP) continue;
            d_scores[m] += of_scores;
            d_probabilities[m] += of_probabilities;
        }
        whole count = all.end - tile < WARP ? all.end - tile : WARP;
        for (int head = 0; head < HEADS; head++) {
            d[lane] = d_own[head] * told.slope[head];
            __syncwarp();
            Head h = head_at(a, row, head);
            whole at = (place * HEADS + head) * a.e;
            for (int c = lane; c < a.e; c += WARP) {
                real own = 0, more = 0;
                for (whole s = 0; s < count; s++) {
                    // What is not seen may lie at a distance without a code.
                    if (d[s] == (real)0) continue;
                    whole other = rule.key(a, i, tile + s);
                    own += d[s] * h.k[other * a.key_heads * a.e + c];
                    if (RELATIVE) more += d[s] * code_at(a, h, i - other)[c];
                }
                dq[at + c] += a.scale * (own + more);
                if (!RELATIVE) continue;
                by_keys[at + c] += a.scale * own;
                by_codes[at + c] += a.scale * more;
            }
            __syncwarp();
        }
    }
    if (lane != 0) return;
    for (int g = 0; g < HEADS; g++) {
        stats[3 * (place * HEADS + g)] = most[g];
        stats[3 * (place * HEADS + g) + 1] = inverse[g];
        stats[3 * (place * HEADS + g) + 2] = mean[g];
    }
}

// What `stats` say of the heads of a query.
template <int HEADS>
__device__ inline void known(const real *stats, whole place, real *most, real *inverse, real *mean) {
    for (int g = 0; g < HEADS; g++) {
        const real *own = stats + 3 * (place * HEADS + g);
        most[g] = own[0];
        inverse[g] = own[1];
        mean[g] = own[2];
    }
}

// dk and dv of one key of all heads a warp.
template <bool RELATIVE, int HEADS, class Rule>
__device__ inline void talking_keys(const Attend &a, const Rule &rule, const Talk<HEADS> &t, const real *dy, const real *stats, real *dk, real *dv) {
    __shared__ real shared_p[MOST_WARPS][WARP], shared_d[MOST_WARPS][WARP];
    whole row = blockIdx.x;
    Head any = head_at(a, row, 0);
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, sharing = HEADS / a.key_heads;
    whole j = blockIdx.y * (whole)(blockDim.x / WARP) + warp;
    if (j >= any.keys) return;
    real most[HEADS], inverse[HEADS], mean[HEADS], d_mixed[HEADS], d_own[HEADS];
    real *p = shared_p[warp], *d = shared_d[warp];
    Told<HEADS> told;
    Weighed<HEADS> w;
    dk += (any.k_start + j) * a.key_heads * a.e;
    dv += (any.k_start + j) * a.key_heads * a.ev;
    for (int h = 0; h < a.key_heads; h++) {
        for (int c = lane; c < a.e; c += WARP) dk[h * a.e + c] = 0;
        for (int c = lane; c < a.ev; c += WARP) dv[h * a.ev + c] = 0;
    }
    Span all = rule.queries(a, any, j);
    for (whole tile = all.first; tile < all.end; tile += WARP) {
        whole n = tile + lane, i = n < all.end ? rule.query(a, j, n) : 0;
        if (n < all.end) tell<RELATIVE>(a, rule, t, row, i, j, n, told);
        else tell_nothing(told);
        if (!__any_sync(EVERYONE, told.any)) continue;
        known<HEADS>(stats, any.q_start + i, most, inverse, mean);
        weigh(a, t, told, row, i, j, dy, most, inverse, w);
        unmix(t, told, w, mean, d_mixed, d_own);
        whole count = all.end - tile < WARP ? all.end - tile : WARP;
        for (int head = 0; head < HEADS; head++) {
            p[lane] = w.weight[head];
            d[lane] = d_own[head] * told.slope[head];
            __syncwarp();
            int key_head = head / sharing;
            for (int c = lane; c < a.e || c < a.ev; c += WARP) {
                real of_key = 0, of_value = 0;
                real shift = RELATIVE && c < a.e ? a.shift_k[head * a.e + c] : (real)0;
                for (whole s = 0; s < count; s++) {
                    whole at = (any.q_start + rule.query(a, j, tile + s)) * HEADS + head;
                    if (c < a.e) of_key += d[s] * (RELATIVE ? a.q[at * a.e + c] + shift : a.q[at * a.e + c]);
                    if (c < a.ev) of_value += p[s] * dy[at * a.ev + c];
                }
                if (c < a.e) dk[key_head * a.e + c] += a.scale * of_key;
                if (c < a.ev) dv[key_head * a.ev + c] += of_value;
            }
            __syncwarp();
        }
    }
}

// A rule with heads that talk, for what asks for the gradients of one score after the other.
template <int HEADS, class Rule> struct Talking {
    Rule rule;
    Talk<HEADS> talk;
    __device__ whole number(const Attend &a, whole distance) const { return rule.number(a, distance); }
};
template <int HEADS, class Rule> __device__ inline Talking<HEADS, Rule> talking(const Rule &rule, const Talk<HEADS> &talk) {
    Talking<HEADS, Rule> both = {rule, talk};
    return both;
}
template <bool RELATIVE, int HEADS, class Rule>
__device__ inline Slopes slopes_at(const Attend &a, const Talking<HEADS, Rule> &rule, const Head &h, whole i, whole j, whole n, const real *dy, const real *stats) {
    real most[HEADS], inverse[HEADS], mean[HEADS], d_mixed[HEADS], d_own[HEADS];
    Told<HEADS> told;
    Weighed<HEADS> w;
    tell<RELATIVE>(a, rule.rule, rule.talk, h.row, i, j, n, told);
    known<HEADS>(stats, h.q_start + i, most, inverse, mean);
    weigh(a, rule.talk, told, h.row, i, j, dy, most, inverse, w);
    unmix(rule.talk, told, w, mean, d_mixed, d_own);
    Slopes slopes = {d_own[h.head], d_own[h.head] * told.slope[h.head], w.weight[h.head]};
    return slopes;
}
