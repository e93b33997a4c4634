// What every attention over packed rows is made of, forward and backward. A warp has one query (or one key) of one head of one row;
// its lanes look at 32 keys (queries) at a time to make probabilities, and at 32 channels at a time to add values up. The maximum
// runs along, so nothing as long as a row is kept. Backward computes the probabilities again.
//
// A RULE says which keys a query looks at, in which order, and what is added to their scores; minus infinity hides a key. It numbers
// what it looks at: `keys` gives the numbers of a query, `key` the key of a number, `queries` and `query` the other way round.
//
// A warp leaves as a whole or not at all: its query and the numbers it goes through are the same in all lanes. So whoever meets in a
// shuffle or __syncwarp is the whole warp; shared memory is divided among the warps, and no warp reads what another one wrote.

// Channels that a warp adds up: 32 lanes with 4 each. Wider heads take several warps, by blockIdx.z.
#define EACH_LANE 4
#define SLICE (WARP * EACH_LANE)
#define MOST_WARPS 32

struct Attend {
    const real *q, *k, *v;
    const u32 *q_offsets, *k_offsets;
    // Heads of queries, and of keys and values: neighbouring heads share these.
    int heads, key_heads, e, ev;
    real scale;
    // What scores stay below; 0 for anything.
    real softcap;
    int causal;
    // Where queries stand among the keys, if they are some of their positions alone.
    const u32 *places;
    // Distances that are seen, rising, and a number for each head and distance, if there are some.
    const int *list;
    int listed;
    const real *values;
    // Positions relative to one another: what queries are shifted by, and the code of every distance from `last` down.
    const real *shift_k, *shift_r, *codes;
    int last;
    u32 threshold;
    real factor;
    const u64 *key;
    const u64 *ids;
};
#define ATTEND                                                                                                              \
    const real *q, const real *k, const real *v, const u32 *q_offsets, const u32 *k_offsets,                                \
        int heads, int key_heads, int e, int ev, real scale, real softcap, int causal, const u32 *places, const int *list, int listed, \
        const real *values, const real *shift_k, const real *shift_r, const real *codes, int last, u32 threshold,           \
        real factor, const u64 *key, const u64 *ids
#define GIVEN                                                                                                               \
    Attend a = {q, k, v, q_offsets, k_offsets, heads, key_heads, e, ev, scale, softcap, causal, places, list, listed, \
                values, shift_k, shift_r, codes, last, threshold, factor, key, ids};

// What the kernels of the gradients are given besides.
#define OF_QUERIES const real *dy, real *dq, real *stats, real *by_keys, real *by_codes
#define OF_KEYS const real *dy, const real *stats, real *dk, real *dv
#define OF_CODES const real *dy, const real *stats, real *d_codes, int distances, int rows
#define OF_VALUES const real *dy, const real *stats, real *d_values, int rows

// Where one head of one row lies.
struct Head {
    whole row, head, key_head, q_start, k_start, queries, keys;
    const real *q, *k, *v;
    u64 key;
};
__device__ inline Head head_at(const Attend &a, whole row, whole head) {
    Head h;
    h.row = row;
    h.head = head;
    h.q_start = a.q_offsets[h.row];
    h.k_start = a.k_offsets[h.row];
    h.queries = a.q_offsets[h.row + 1] - h.q_start;
    h.keys = a.k_offsets[h.row + 1] - h.k_start;
    h.q = a.q + (h.q_start * a.heads + h.head) * a.e;
    h.key_head = (u32)head / (u32)(a.heads / a.key_heads);
    h.k = a.k + (h.k_start * a.key_heads + h.key_head) * a.e;
    h.v = a.v + (h.k_start * a.key_heads + h.key_head) * a.ev;
    h.key = a.threshold ? key_at(key_at(*a.key, a.ids[h.row]), h.head) : 0;
    return h;
}
__device__ inline Head head_of(const Attend &a, u32 n) { return head_at(a, n / (u32)a.heads, n % (u32)a.heads); }

// Numbers from `first` up to `end`.
struct Span {
    whole first, end;
};
__device__ inline Span span(whole first, whole end) {
    Span s = {first, end};
    return s;
}

// The position of query i among those of the keys.
__device__ inline whole place_of(const Attend &a, const Head &h, whole i) { return a.places ? (whole)a.places[h.q_start + i] : i; }

// All keys, or those up to the query.
struct Plain {
    __device__ Span keys(const Attend &a, const Head &h, whole i) const {
        whole end = place_of(a, h, i) + 1;
        return span(0, a.causal && end < h.keys ? end : h.keys);
    }
    __device__ whole key(const Attend &a, whole i, whole n) const { return n; }
    __device__ Span queries(const Attend &a, const Head &h, whole j) const {
        return span(a.causal && !a.places ? j : 0, h.queries);
    }
    __device__ whole query(const Attend &a, whole j, whole n) const { return n; }
    // The number under which query i looks at the key at a distance.
    __device__ whole number(const Attend &a, whole distance) const { return 0; }
    __device__ real added(const Attend &a, const Head &h, whole i, whole j, whole n) const {
        return a.causal && j > place_of(a, h, i) ? minus_infinity() : (real)0;
    }
    __device__ Span keys_of(const Attend &a, const Head &h, whole first, whole last) const {
        return span(0, a.causal && !a.places && last + 1 < h.keys ? last + 1 : h.keys);
    }
    __device__ Span queries_of(const Attend &a, const Head &h, whole first, whole last) const { return queries(a, h, first); }
    __device__ real at(const Attend &a, const Head &h, int i, int j) const {
        return a.causal && j > (a.places ? (int)a.places[h.q_start + i] : i) ? minus_infinity() : (real)0;
    }
    __device__ bool open(const Attend &a, const Head &h, int i, int j, int queries, int keys) const {
        return !(a.causal && (a.places || j + keys - 1 > i));
    }
};

// The keys at the distances of a list, nearest first: their number is what it costs.
struct Listed {
    // How many distances are below this one.
    __device__ whole below(const Attend &a, whole distance) const {
        whole low = 0, high = a.listed;
        while (low < high) {
            whole middle = (low + high) / 2;
            if (a.list[middle] < distance) low = middle + 1;
            else high = middle;
        }
        return low;
    }
    __device__ Span keys(const Attend &a, const Head &h, whole i) const { return span(below(a, i - h.keys + 1), below(a, i + 1)); }
    __device__ whole key(const Attend &a, whole i, whole n) const { return i - a.list[n]; }
    __device__ Span queries(const Attend &a, const Head &h, whole j) const { return span(below(a, -j), below(a, h.queries - j)); }
    __device__ whole query(const Attend &a, whole j, whole n) const { return j + a.list[n]; }
    __device__ whole number(const Attend &a, whole distance) const {
        whole n = below(a, distance);
        return n < a.listed && a.list[n] == distance ? n : -1;
    }
    __device__ real added(const Attend &a, const Head &h, whole i, whole j, whole n) const {
        if (n < 0) return minus_infinity();
        return a.values ? a.values[h.head * a.listed + n] : (real)0;
    }
};

// The part of a span from `first` to `last`. It begins a whole number of tiles later, so that sums are made in the same order.
__device__ inline Span within(const Span &all, whole first, whole last) {
    Span part = all;
    if (first > part.first) part.first += (first - part.first) / WARP * WARP;
    if (last < part.end) part.end = last + 1;
    return part;
}

// The same where the distances follow one another.
struct Window {
    __device__ Span keys_of(const Attend &a, const Head &h, whole first, whole last) const {
        return cut(first - a.list[a.listed - 1], last - a.list[0] + 1, h.keys);
    }
    __device__ Span queries_of(const Attend &a, const Head &h, whole first, whole last) const {
        return cut(first + a.list[0], last + a.list[a.listed - 1] + 1, h.queries);
    }
    __device__ real at(const Attend &a, const Head &h, int i, int j) const {
        int n = i - j - a.list[0];
        if (n < 0 || n >= a.listed) return minus_infinity();
        return a.values ? a.values[h.head * a.listed + n] : (real)0;
    }
    __device__ bool open(const Attend &a, const Head &h, int i, int j, int queries, int keys) const {
        return !a.values && i - j - (keys - 1) >= a.list[0] && i - j + queries - 1 <= a.list[a.listed - 1];
    }
    __device__ Span cut(whole first, whole end, whole count) const { return span(first < 0 ? 0 : first, end < count ? end : count); }
};

// Keys that an expression shows, at distances from `nearest` to `farthest`, with what one adds: E is made for the model.
template <class E> struct Evaluated {
    E e;
    __device__ Span keys(const Attend &a, const Head &h, whole i) const {
        return within(Plain().keys(a, h, i), i - E::farthest, i - E::nearest);
    }
    __device__ whole key(const Attend &a, whole i, whole n) const { return n; }
    __device__ Span queries(const Attend &a, const Head &h, whole j) const {
        return within(Plain().queries(a, h, j), j + E::nearest, j + E::farthest);
    }
    __device__ whole query(const Attend &a, whole j, whole n) const { return n; }
    // Negative at a distance at which no key is seen.
    __device__ whole number(const Attend &a, whole distance) const { return distance < E::nearest || distance > E::farthest ? -1 : 0; }
    __device__ real added(const Attend &a, const Head &h, whole i, whole j, whole n) const {
        return a.causal && j > i ? minus_infinity() : e.added(i, j, h.queries, h.head, row_starts(h.q_start, h.k_start));
    }
    __device__ Span keys_of(const Attend &a, const Head &h, whole first, whole last) const {
        return within(Plain().keys_of(a, h, first, last), first - E::farthest, last - E::nearest);
    }
    __device__ Span queries_of(const Attend &a, const Head &h, whole first, whole last) const {
        return within(Plain().queries_of(a, h, first, last), first + E::nearest, last + E::farthest);
    }
    __device__ real at(const Attend &a, const Head &h, int i, int j) const { return added(a, h, i, j, 0); }
    __device__ bool open(const Attend &a, const Head &h, int i, int j, int queries, int keys) const { return false; }
};

// A rule over positions whose keys are those of several steps, side by side.
template <class Rule> struct Steps {
    Rule rule;
    whole steps;
    __device__ Head positions(const Head &h) const {
        Head own = h;
        own.keys = h.keys / steps;
        return own;
    }
    __device__ Span keys(const Attend &a, const Head &h, whole i) const {
        Span own = rule.keys(a, positions(h), i);
        return span(own.first * steps, own.end * steps);
    }
    __device__ whole key(const Attend &a, whole i, whole n) const { return rule.key(a, i, n / steps) * steps + n % steps; }
    __device__ Span queries(const Attend &a, const Head &h, whole j) const { return rule.queries(a, positions(h), j / steps); }
    __device__ whole query(const Attend &a, whole j, whole n) const { return rule.query(a, j / steps, n); }
    __device__ real added(const Attend &a, const Head &h, whole i, whole j, whole n) const {
        return rule.added(a, positions(h), i, j / steps, rule.number(a, i - j / steps));
    }
    __device__ Span keys_of(const Attend &a, const Head &h, whole first, whole last) const {
        Span own = rule.keys_of(a, positions(h), first, last);
        return span(own.first * steps, own.end * steps);
    }
    __device__ Span queries_of(const Attend &a, const Head &h, whole first, whole last) const {
        return rule.queries_of(a, positions(h), first / steps, last / steps);
    }
    __device__ real at(const Attend &a, const Head &h, int i, int j) const { return rule.at(a, positions(h), i, j / (int)steps); }
    __device__ bool open(const Attend &a, const Head &h, int i, int j, int queries, int keys) const { return false; }
};
template <class Rule> __device__ inline Steps<Rule> of_steps(const Rule &rule, whole steps) {
    Steps<Rule> own = {rule, steps};
    return own;
}

__device__ inline real dot(const real *a, const real *b, int n) {
    real sum = 0;
    for (int c = 0; c < n; c++) sum += a[c] * b[c];
    return sum;
}
// (a + shift) b.
__device__ inline real shifted_dot(const real *a, const real *shift, const real *b, int n) {
    real sum = 0;
    for (int c = 0; c < n; c++) sum += (a[c] + shift[c]) * b[c];
    return sum;
}
// The code of the distance between a query and a key, for one head.
__device__ inline const real *code_at(const Attend &a, const Head &h, whole distance) {
    return a.codes + ((a.last - distance) * a.heads + h.head) * a.e;
}
// The score that a product becomes, and its slope.
__device__ inline real capped(const Attend &a, real product, real more, real *slope) {
    *slope = 1;
    if (more == minus_infinity()) return more;
    if (a.softcap == (real)0) return product * a.scale + more;
    real t = hyperbolic_tangent(product * a.scale / a.softcap);
    *slope = (real)1 - t * t;
    return a.softcap * t + more;
}
// The same with a rule, which may have an expression of the score.
template <class Rule>
__device__ inline real scored(const Attend &a, const Rule &rule, const Head &h, whole i, whole j, real product, real more, real *slope) {
    return capped(a, product, more, slope);
}
template <class E>
__device__ inline real scored(const Attend &a, const Evaluated<E> &rule, const Head &h, whole i, whole j, real product, real more, real *slope) {
    if (!E::is_score) return capped(a, product, more, slope);
    RowStarts at = row_starts(h.q_start, h.k_start);
    *slope = (real)rule.e.by_score(i, j, h.queries, h.head, at, product * a.scale);
    return rule.e.number(i, j, h.queries, h.head, at, product * a.scale);
}
// The product of query i and key j.
template <bool RELATIVE> __device__ inline real product_at(const Attend &a, const Head &h, whole i, whole j) {
    const real *own = h.q + i * a.heads * a.e, *other = h.k + j * a.key_heads * a.e;
    real products = RELATIVE ? shifted_dot(own, a.shift_k + h.head * a.e, other, a.e) : dot(own, other, a.e);
    if (RELATIVE) products += shifted_dot(own, a.shift_r + h.head * a.e, code_at(a, h, i - j), a.e);
    return products;
}
// The score of query i and key j, which the rule numbers n. `slope` is its derivative by the scaled product.
template <bool RELATIVE, class Rule>
__device__ inline real score(const Attend &a, const Rule &rule, const Head &h, whole i, whole j, whole n, real *slope) {
    *slope = 1;
    real more = rule.added(a, h, i, j, n);
    if (more == minus_infinity()) return more;
    return scored(a, rule, h, i, j, product_at<RELATIVE>(a, h, i, j), more, slope);
}
__device__ inline real kept_factor(const Attend &a, const Head &h, whole i, whole j) {
    if (!a.threshold) return (real)1;
    return kept(key_at(h.key, i), j, a.threshold) ? a.factor : (real)0;
}

// One step of the running maximum: the factor for what was added up so far. 1 while no key was seen.
__device__ inline real raise(real *most, real s) {
    real next = larger(warp_max(s), *most);
    real correction = next == minus_infinity() ? (real)1 : exponential(*most - next);
    *most = next;
    return correction;
}
__device__ inline real probability(real s, real most) { return s == minus_infinity() ? (real)0 : exponential(s - most); }

template <bool RELATIVE, class Rule> __device__ inline void attend(const Attend &a, const Rule &rule, real *y) {
    __shared__ real shared_p[MOST_WARPS][WARP];
    Head h = head_of(a, blockIdx.x);
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    whole i = blockIdx.y * (whole)(blockDim.x / WARP) + warp;
    if (i >= h.queries) return;
    int first = blockIdx.z * SLICE;
    real most = minus_infinity(), sum = 0, out[EACH_LANE] = {0, 0, 0, 0};
    real *p = shared_p[warp];
    Span all = rule.keys(a, h, i);
    for (whole tile = all.first; tile < all.end; tile += WARP) {
        whole n = tile + lane, j = n < all.end ? rule.key(a, i, n) : 0;
        real unused, s = n < all.end ? score<RELATIVE>(a, rule, h, i, j, n, &unused) : minus_infinity();
        if (!__any_sync(EVERYONE, s != minus_infinity())) continue;
        real correction = raise(&most, s);
        real mine = probability(s, most);
        sum = sum * correction + warp_sum(mine);
        p[lane] = mine * kept_factor(a, h, i, j);
        __syncwarp();
        whole count = all.end - tile < WARP ? all.end - tile : WARP;
        for (int m = 0; m < EACH_LANE; m++) {
            int c = first + m * WARP + lane;
            if (c >= a.ev) break;
            real part = 0;
            for (whole t = 0; t < count; t++) part += p[t] * h.v[rule.key(a, i, tile + t) * a.key_heads * a.ev + c];
            out[m] = out[m] * correction + part;
        }
        __syncwarp();
    }
    real inverse = sum == (real)0 ? (real)0 : (real)1 / sum;
    y += ((h.q_start + i) * a.heads + h.head) * a.ev;
    for (int m = 0; m < EACH_LANE; m++) {
        int c = first + m * WARP + lane;
        if (c < a.ev) y[c] = out[m] * inverse;
    }
}

// Sums over keys that the gradient of a query is made of, for the channels of a lane: of P S x and of P D S x.
struct Sums {
    real plain[EACH_LANE], along[EACH_LANE];
};

// With P the probabilities, F the factors of dropout, S the slopes of scores and D = F (dy v^T): dS = P (D - sum P D), dq = scale dS S k.
// Leaves for every query and head the maximum, 1 / sum and sum P D. With codes of distances dq = scale dS S (k + code), whose two parts
// go to `by_keys` and `by_codes`, too.
template <bool RELATIVE, class Rule>
__device__ inline void attend_queries(const Attend &a, const Rule &rule, const real *dy, real *dq, real *stats, real *by_keys, real *by_codes) {
    __shared__ real shared_p[MOST_WARPS][WARP], shared_d[MOST_WARPS][WARP];
    Head h = head_of(a, blockIdx.x);
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    whole i = blockIdx.y * (whole)(blockDim.x / WARP) + warp;
    if (i >= h.queries) return;
    int first = blockIdx.z * SLICE;
    whole place = (h.q_start + i) * a.heads + h.head;
    real most = minus_infinity(), sum = 0, mean = 0;
    Sums of_keys = {{0, 0, 0, 0}, {0, 0, 0, 0}}, of_codes = {{0, 0, 0, 0}, {0, 0, 0, 0}};
    real *p = shared_p[warp], *d = shared_d[warp];
    Span all = rule.keys(a, h, i);
    for (whole tile = all.first; tile < all.end; tile += WARP) {
        whole n = tile + lane, j = n < all.end ? rule.key(a, i, n) : 0;
        real slope = 1, s = n < all.end ? score<RELATIVE>(a, rule, h, i, j, n, &slope) : minus_infinity();
        if (!__any_sync(EVERYONE, s != minus_infinity())) continue;
        real correction = raise(&most, s);
        real mine = probability(s, most);
        real along = mine == (real)0 ? (real)0 : mine * kept_factor(a, h, i, j) * dot(dy + place * a.ev, h.v + j * a.key_heads * a.ev, a.ev);
        sum = sum * correction + warp_sum(mine);
        mean = mean * correction + warp_sum(along);
        p[lane] = mine * slope;
        d[lane] = along * slope;
        __syncwarp();
        whole count = all.end - tile < WARP ? all.end - tile : WARP;
        for (int m = 0; m < EACH_LANE; m++) {
            int c = first + m * WARP + lane;
            if (c >= a.e) break;
            real with_p = 0, with_d = 0, code_p = 0, code_d = 0;
            for (whole t = 0; t < count; t++) {
                whole other = rule.key(a, i, tile + t);
                real value = h.k[other * a.key_heads * a.e + c];
                with_p += p[t] * value;
                with_d += d[t] * value;
                // What is not seen may lie at a distance without a code.
                if (RELATIVE && p[t] != (real)0) {
                    real code = code_at(a, h, i - other)[c];
                    code_p += p[t] * code;
                    code_d += d[t] * code;
                }
            }
            of_keys.plain[m] = of_keys.plain[m] * correction + with_p;
            of_keys.along[m] = of_keys.along[m] * correction + with_d;
            if (RELATIVE) {
                of_codes.plain[m] = of_codes.plain[m] * correction + code_p;
                of_codes.along[m] = of_codes.along[m] * correction + code_d;
            }
        }
        __syncwarp();
    }
    real inverse = sum == (real)0 ? (real)0 : (real)1 / sum;
    mean *= inverse;
    for (int m = 0; m < EACH_LANE; m++) {
        int c = first + m * WARP + lane;
        if (c >= a.e) break;
        real own = a.scale * (of_keys.along[m] - mean * of_keys.plain[m]) * inverse;
        if (RELATIVE) {
            real more = a.scale * (of_codes.along[m] - mean * of_codes.plain[m]) * inverse;
            by_keys[place * a.e + c] = own;
            by_codes[place * a.e + c] = more;
            own += more;
        }
        dq[place * a.e + c] = own;
    }
    if (lane == 0 && first == 0) {
        stats[3 * place] = most;
        stats[3 * place + 1] = inverse;
        stats[3 * place + 2] = mean;
    }
}

// What is known of query i and key j in the gradients: dS, the same times the slope of the score, and the probability after dropout.
struct Slopes {
    real d_score, d_product, with_factor;
};
template <bool RELATIVE, class Rule>
__device__ inline Slopes slopes_at(const Attend &a, const Rule &rule, const Head &h, whole i, whole j, whole n, const real *dy, const real *stats) {
    whole place = (h.q_start + i) * a.heads + h.head;
    Slopes slopes = {0, 0, 0};
    real slope, s = score<RELATIVE>(a, rule, h, i, j, n, &slope);
    real mine = s == minus_infinity() ? (real)0 : exponential(s - stats[3 * place]) * stats[3 * place + 1];
    if (mine == (real)0) return slopes;
    slopes.with_factor = mine * kept_factor(a, h, i, j);
    slopes.d_score = slopes.with_factor * dot(dy + place * a.ev, h.v + j * a.key_heads * a.ev, a.ev) - mine * stats[3 * place + 2];
    slopes.d_product = slopes.d_score * slope;
    return slopes;
}

// dk = scale (dS S)^T q and dv = (P F)^T dy, one key of a key head a warp, which goes through the heads that read it in order.
template <bool RELATIVE, class Rule>
__device__ inline void attend_keys(const Attend &a, const Rule &rule, const real *dy, const real *stats, real *dk, real *dv) {
    __shared__ real shared_p[MOST_WARPS][WARP], shared_d[MOST_WARPS][WARP];
    whole row = blockIdx.x / a.key_heads, key_head = blockIdx.x % a.key_heads, sharing = a.heads / a.key_heads;
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    whole j = blockIdx.y * (whole)(blockDim.x / WARP) + warp, k_start = a.k_offsets[row];
    if (j >= a.k_offsets[row + 1] - k_start) return;
    int first = blockIdx.z * SLICE;
    real key_sums[EACH_LANE] = {0, 0, 0, 0}, value_sums[EACH_LANE] = {0, 0, 0, 0};
    real *p = shared_p[warp], *d = shared_d[warp];
    for (whole head = key_head * sharing; head < (key_head + 1) * sharing; head++) {
        Head h = head_at(a, row, head);
        Span all = rule.queries(a, h, j);
        for (whole tile = all.first; tile < all.end; tile += WARP) {
            whole n = tile + lane;
            Slopes slopes = {0, 0, 0};
            if (n < all.end) slopes = slopes_at<RELATIVE>(a, rule, h, rule.query(a, j, n), j, n, dy, stats);
            if (!__any_sync(EVERYONE, slopes.with_factor != (real)0 || slopes.d_product != (real)0)) continue;
            p[lane] = slopes.with_factor;
            d[lane] = slopes.d_product;
            __syncwarp();
            whole count = all.end - tile < WARP ? all.end - tile : WARP;
            for (int m = 0; m < EACH_LANE; m++) {
                int c = first + m * WARP + lane;
                if (c >= a.e && c >= a.ev) break;
                real shift = RELATIVE && c < a.e ? a.shift_k[h.head * a.e + c] : (real)0;
                for (whole t = 0; t < count; t++) {
                    whole at = (h.q_start + rule.query(a, j, tile + t)) * a.heads + h.head;
                    if (c < a.e) key_sums[m] += d[t] * (RELATIVE ? a.q[at * a.e + c] + shift : a.q[at * a.e + c]);
                    if (c < a.ev) value_sums[m] += p[t] * dy[at * a.ev + c];
                }
            }
            __syncwarp();
        }
    }
    whole place = (k_start + j) * a.key_heads + key_head;
    for (int m = 0; m < EACH_LANE; m++) {
        int c = first + m * WARP + lane;
        if (c < a.e) dk[place * a.e + c] = a.scale * key_sums[m];
        if (c < a.ev) dv[place * a.ev + c] = value_sums[m];
    }
}

// The gradients of the codes of distances: a warp has one distance of one head, and goes through all rows in order.
template <bool RELATIVE, class Rule>
__device__ inline void attend_codes(const Attend &a, const Rule &rule, const real *dy, const real *stats, real *d_codes, int distances, int rows) {
    __shared__ real shared_d[MOST_WARPS][WARP];
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    whole at = blockIdx.y * (whole)(blockDim.x / WARP) + warp, head = blockIdx.x;
    if (at >= distances) return;
    int first = blockIdx.z * SLICE;
    whole distance = a.last - at, n = rule.number(a, distance);
    real sums[EACH_LANE] = {0, 0, 0, 0};
    real *d = shared_d[warp];
    for (int row = 0; n >= 0 && row < rows; row++) {
        Head h = head_at(a, row, head);
        whole end = h.queries < h.keys + distance ? h.queries : h.keys + distance;
        for (whole tile = distance > 0 ? distance : 0; tile < end; tile += WARP) {
            whole i = tile + lane;
            d[lane] = i < end ? slopes_at<RELATIVE>(a, rule, h, i, i - distance, n, dy, stats).d_product : (real)0;
            __syncwarp();
            whole count = end - tile < WARP ? end - tile : WARP;
            for (int m = 0; m < EACH_LANE; m++) {
                int c = first + m * WARP + lane;
                if (c >= a.e) break;
                real shift = a.shift_r[head * a.e + c];
                for (whole t = 0; t < count; t++) sums[m] += d[t] * (h.q[(tile + t) * a.heads * a.e + c] + shift);
            }
            __syncwarp();
        }
    }
    for (int m = 0; m < EACH_LANE; m++) {
        int c = first + m * WARP + lane;
        if (c < a.e) d_codes[(at * a.heads + head) * a.e + c] = a.scale * sums[m];
    }
}

// The gradients of the numbers of a list, `[heads, distances]`: a warp has one, and goes through all rows in order.
template <bool RELATIVE, class Rule>
__device__ inline void attend_values(const Attend &a, const Rule &rule, const real *dy, const real *stats, real *d_values, int rows) {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    whole n = blockIdx.y * (whole)(blockDim.x / WARP) + warp, head = blockIdx.x;
    if (n >= a.listed) return;
    whole distance = a.list[n];
    real sum = 0;
    for (int row = 0; row < rows; row++) {
        Head h = head_at(a, row, head);
        whole end = h.queries < h.keys + distance ? h.queries : h.keys + distance;
        for (whole i = (distance > 0 ? distance : 0) + lane; i < end; i += WARP) {
            sum += slopes_at<RELATIVE>(a, rule, h, i, i - distance, n, dy, stats).d_score;
        }
    }
    // All lanes have the same rows, so they meet here.
    sum = warp_sum(sum);
    if (lane == 0) d_values[head * a.listed + n] = sum;
}

// dS of every query and key, `[head, query, key]` of every row from `starts` on: a thread each. `scores`, where there are some, takes the
// scaled products that an expression changes.
template <bool RELATIVE, class Rule>
__device__ inline void attend_slopes(const Attend &a, const Rule &rule, const real *dy, const real *stats, real *slopes, real *scores, const u64 *starts) {
    Head h = head_of(a, blockIdx.x);
    for (whole at = blockIdx.y * (whole)blockDim.x + threadIdx.x; at < h.queries * h.keys; at += gridDim.y * (whole)blockDim.x) {
        whole pair = starts[h.row] + h.head * h.queries * h.keys + at, i = at / h.keys, j = at % h.keys;
        slopes[pair] = slopes_at<RELATIVE>(a, rule, h, i, j, 0, dy, stats).d_score;
        if (scores && slopes[pair] != (real)0) scores[pair] = product_at<RELATIVE>(a, h, i, j) * a.scale;
    }
}
