// Softmax attention over packed rows, forward and backward. A warp has one query (or one key) of one head of one row; its lanes
// look at 32 keys (queries) at a time to make probabilities, and at 32 channels at a time to add values up. The maximum runs
// along, so nothing as long as a row is kept. Backward computes the probabilities again.

// Channels that a warp adds up: 32 lanes with 4 each. Wider heads take several warps, by blockIdx.z.
#define EACH_LANE 4
#define SLICE (WARP * EACH_LANE)
#define MOST_WARPS 32

struct Attend {
    const real *q, *k, *v, *bias;
    int reach;
    const u32 *q_offsets, *k_offsets;
    int heads, e, ev;
    real scale;
    int mask;
    const u8 *dense;
    const u32 *dense_starts;
    u32 threshold;
    real factor;
    const u64 *key;
    const u64 *ids;
};
#define ATTEND                                                                                                              \
    const real *q, const real *k, const real *v, const real *bias, int reach, const u32 *q_offsets, const u32 *k_offsets,  \
        int heads, int e, int ev, real scale, int mask, const u8 *dense, const u32 *dense_starts, u32 threshold,           \
        real factor, const u64 *key, const u64 *ids
#define GIVEN                                                                                                              \
    Attend a = {q, k, v, bias, reach, q_offsets, k_offsets, heads, e, ev, scale, mask, dense, dense_starts, threshold,     \
                factor, key, ids};

// Where one head of one row lies.
struct Head {
    whole row, head, q_start, k_start, queries, keys;
    const real *q, *k, *v;
    u64 key;
};
__device__ inline Head head_of(const Attend &a, whole n) {
    Head h;
    h.row = n / a.heads;
    h.head = n % a.heads;
    h.q_start = a.q_offsets[h.row];
    h.k_start = a.k_offsets[h.row];
    h.queries = a.q_offsets[h.row + 1] - h.q_start;
    h.keys = a.k_offsets[h.row + 1] - h.k_start;
    h.q = a.q + (h.q_start * a.heads + h.head) * a.e;
    h.k = a.k + (h.k_start * a.heads + h.head) * a.e;
    h.v = a.v + (h.k_start * a.heads + h.head) * a.ev;
    h.key = a.threshold ? key_at(key_at(*a.key, a.ids[h.row]), h.head) : 0;
    return h;
}
__device__ inline real dot(const real *a, const real *b, int n) {
    real sum = 0;
    for (int c = 0; c < n; c++) sum += a[c] * b[c];
    return sum;
}
// The score of query i and key j; minus infinity where the query does not see the key. Masks: 0 all, 1 causal, 2 from `dense`.
__device__ inline real score(const Attend &a, const Head &h, whole i, whole j) {
    if (i >= h.queries || j >= h.keys || (a.mask == 1 && j > i)) return minus_infinity();
    if (a.mask == 2 && !a.dense[a.dense_starts[h.row] + (h.head * h.queries + i) * h.keys + j]) return minus_infinity();
    real s = dot(h.q + i * a.heads * a.e, h.k + j * a.heads * a.e, a.e) * a.scale;
    if (a.bias) {
        whole distance = j - i, most = a.reach - 1;
        s += a.bias[most + (distance > most ? most : distance < -most ? -most : distance)];
    }
    return s;
}
__device__ inline real kept_factor(const Attend &a, const Head &h, whole i, whole j) {
    if (!a.threshold) return (real)1;
    return kept(key_at(h.key, i), j, a.threshold) ? a.factor : (real)0;
}
// Keys that query i may see at all.
__device__ inline whole keys_for(const Attend &a, const Head &h, whole i) { return a.mask == 1 && i + 1 < h.keys ? i + 1 : h.keys; }

// One step of the running maximum: the factor for what was added up so far. 1 while no key was seen.
__device__ inline real raise(real *most, real s) {
    real next = larger(warp_max(s), *most);
    real correction = next == minus_infinity() ? (real)1 : exponential(*most - next);
    *most = next;
    return correction;
}
__device__ inline real probability(real s, real most) { return s == minus_infinity() ? (real)0 : exponential(s - most); }

TEAM(attention)(ATTEND, real *y) {
    __shared__ real shared_p[MOST_WARPS][WARP];
    GIVEN
    Head h = head_of(a, blockIdx.x);
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    whole i = blockIdx.y * (whole)(blockDim.x / WARP) + warp;
    if (i >= h.queries) return;
    int first = blockIdx.z * SLICE;
    real most = minus_infinity(), sum = 0, out[EACH_LANE] = {0, 0, 0, 0};
    real *p = shared_p[warp];
    for (whole tile = 0; tile < keys_for(a, h, i); tile += WARP) {
        real s = score(a, h, i, tile + lane);
        real correction = raise(&most, s);
        real mine = probability(s, most);
        sum = sum * correction + warp_sum(mine);
        p[lane] = mine * kept_factor(a, h, i, tile + lane);
        __syncwarp();
        whole count = h.keys - tile < WARP ? h.keys - tile : WARP;
        for (int n = 0; n < EACH_LANE; n++) {
            int c = first + n * WARP + lane;
            if (c >= ev) break;
            real part = 0;
            for (whole j = 0; j < count; j++) part += p[j] * h.v[(tile + j) * heads * ev + c];
            out[n] = out[n] * correction + part;
        }
        __syncwarp();
    }
    real inverse = sum == (real)0 ? (real)0 : (real)1 / sum;
    y += ((h.q_start + i) * heads + h.head) * ev;
    for (int n = 0; n < EACH_LANE; n++) {
        int c = first + n * WARP + lane;
        if (c < ev) y[c] = out[n] * inverse;
    }
}

// With P the probabilities, F the factors of dropout and D = F (dy v^T): dS = P (D - sum P D), dq = scale dS k. Leaves for every
// query and head the maximum, 1 / sum and sum P D.
TEAM(attention_grad_queries)(ATTEND, const real *dy, real *dq, real *stats) {
    __shared__ real shared_p[MOST_WARPS][WARP], shared_d[MOST_WARPS][WARP];
    GIVEN
    Head h = head_of(a, blockIdx.x);
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    whole i = blockIdx.y * (whole)(blockDim.x / WARP) + warp;
    if (i >= h.queries) return;
    int first = blockIdx.z * SLICE;
    whole place = (h.q_start + i) * heads + h.head;
    real most = minus_infinity(), sum = 0, mean = 0, plain[EACH_LANE] = {0, 0, 0, 0}, along[EACH_LANE] = {0, 0, 0, 0};
    real *p = shared_p[warp], *d = shared_d[warp];
    for (whole tile = 0; tile < keys_for(a, h, i); tile += WARP) {
        whole key_index = tile + lane;
        real s = score(a, h, i, key_index);
        real correction = raise(&most, s);
        real mine = probability(s, most);
        real slope = mine == (real)0 ? (real)0 : mine * kept_factor(a, h, i, key_index) * dot(dy + place * ev, h.v + key_index * heads * ev, ev);
        sum = sum * correction + warp_sum(mine);
        mean = mean * correction + warp_sum(slope);
        p[lane] = mine;
        d[lane] = slope;
        __syncwarp();
        whole count = h.keys - tile < WARP ? h.keys - tile : WARP;
        for (int n = 0; n < EACH_LANE; n++) {
            int c = first + n * WARP + lane;
            if (c >= e) break;
            real with_p = 0, with_d = 0;
            for (whole j = 0; j < count; j++) {
                real value = h.k[(tile + j) * heads * e + c];
                with_p += p[j] * value;
                with_d += d[j] * value;
            }
            plain[n] = plain[n] * correction + with_p;
            along[n] = along[n] * correction + with_d;
        }
        __syncwarp();
    }
    real inverse = sum == (real)0 ? (real)0 : (real)1 / sum;
    mean *= inverse;
    for (int n = 0; n < EACH_LANE; n++) {
        int c = first + n * WARP + lane;
        if (c < e) dq[place * e + c] = scale * (along[n] - mean * plain[n]) * inverse;
    }
    if (lane == 0 && first == 0) {
        stats[3 * place] = most;
        stats[3 * place + 1] = inverse;
        stats[3 * place + 2] = mean;
    }
}

// dk = scale dS^T q and dv = (P F)^T dy, one key a warp.
TEAM(attention_grad_keys)(ATTEND, const real *dy, const real *stats, real *dk, real *dv) {
    __shared__ real shared_p[MOST_WARPS][WARP], shared_d[MOST_WARPS][WARP];
    GIVEN
    Head h = head_of(a, blockIdx.x);
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    whole j = blockIdx.y * (whole)(blockDim.x / WARP) + warp;
    if (j >= h.keys) return;
    int first = blockIdx.z * SLICE;
    real key_sums[EACH_LANE] = {0, 0, 0, 0}, value_sums[EACH_LANE] = {0, 0, 0, 0};
    real *p = shared_p[warp], *d = shared_d[warp];
    for (whole tile = mask == 1 ? j / WARP * WARP : 0; tile < h.queries; tile += WARP) {
        whole i = tile + lane;
        whole place = (h.q_start + i) * heads + h.head;
        real s = score(a, h, i, j);
        real mine = s == minus_infinity() ? (real)0 : exponential(s - stats[3 * place]) * stats[3 * place + 1];
        real with_factor = mine * kept_factor(a, h, i, j);
        real slope = mine == (real)0 ? (real)0 : with_factor * dot(dy + place * ev, h.v + j * heads * ev, ev) - mine * stats[3 * place + 2];
        p[lane] = with_factor;
        d[lane] = slope;
        __syncwarp();
        whole count = h.queries - tile < WARP ? h.queries - tile : WARP;
        for (int n = 0; n < EACH_LANE; n++) {
            int c = first + n * WARP + lane;
            for (whole t = 0; t < count; t++) {
                whole at = (h.q_start + tile + t) * heads + h.head;
                if (c < e) key_sums[n] += d[t] * q[at * e + c];
                if (c < ev) value_sums[n] += p[t] * dy[at * ev + c];
            }
        }
        __syncwarp();
    }
    whole place = (h.k_start + j) * heads + h.head;
    for (int n = 0; n < EACH_LANE; n++) {
        int c = first + n * WARP + lane;
        if (c < e) dk[place * e + c] = scale * key_sums[n];
        if (c < ev) dv[place * ev + c] = value_sums[n];
    }
}

// The gradient of the number per distance, row by row: a warp adds up one distance of one row. The distances of a row of n
// positions are 1 - n to n - 1, at 2 offset on.
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
        whole place = (h.q_start + i) * heads + h.head;
        real s = score(a, h, i, j);
        if (s == minus_infinity()) continue;
        real mine = exponential(s - stats[3 * place]) * stats[3 * place + 1];
        sum += mine * (dot(dy + place * ev, h.v + j * heads * ev, ev) - stats[3 * place + 2]);
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
