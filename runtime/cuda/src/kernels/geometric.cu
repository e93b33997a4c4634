// Geometric attention, head by head: a query reads the nearest key that matches it.

// The least number that weights are divided by.
#define LEAST_WEIGHT ((real)1e-12)

// How well a key matches a query, p, and 1 - p.
struct Match { real p, open; };
__device__ inline Match match_of(const real *q, const real *k, int e, real scale, const real *sides, bool front) {
    real product = 0;
    for (int c = 0; c < e; c++) product += q[c] * k[c];
    real score = scale * product + (sides ? sides[front] : (real)0);
    return {sigmoid(score), sigmoid(-score)};
}

// A thread has a query of a head, and goes away from it. Of two keys at one distance the one in front counts as nearer.
KERNEL(geometric_attention)(const real *q, const real *k, const real *v, const real *sides, real *y, const u32 *row_of, const u32 *offsets, int heads, int e, real scale, whole count) {
    EACH(i, count)
    whole t = i / heads, d = (whole)heads * e;
    int head = (int)(i % heads);
    whole first = offsets[row_of[t]], end = offsets[row_of[t] + 1];
    real *out = y + t * d + head * e;
    for (int c = 0; c < e; c++) out[c] = 0;
    real left = 1, total = 0;
    for (whole away = 1; away < end - first; away++) {
        for (int front = 1; front >= 0; front--) {
            whole key = front ? t + away : t - away;
            if (key < first || key >= end) continue;
            whole at = key * d + head * e;
            Match match = match_of(q + t * d + head * e, k + at, e, scale, sides ? sides + 2 * (whole)i : 0, front);
            real weight = match.p * left;
            total += weight;
            left *= match.open;
            for (int c = 0; c < e; c++) out[c] += weight * v[at + c];
        }
    }
    total = larger(total, LEAST_WEIGHT);
    for (int c = 0; c < e; c++) out[c] /= total;
}

// A block has a head of a row, and goes from query to query: its threads share the keys, and the first one goes from key to key. `memory`
// has four numbers for every head and position.
TEAM(geometric_attention_grad)(const real *q, const real *k, const real *v, const real *dy, const real *sides, real *dq, real *dk, real *dv, real *d_sides, real *memory, const u32 *offsets, int heads, int e, real scale, whole positions) {
    whole row = blockIdx.x / heads, d = (whole)heads * e, all = heads * positions;
    int head = blockIdx.x % heads;
    whole first = offsets[row], n = offsets[row + 1] - first, start = first * d + head * e;
    real *p = memory + head * positions + first, *open = p + all, *weights = open + all, *slopes = weights + all;
    for (whole at = threadIdx.x; at < n * e; at += blockDim.x) {
        whole place = start + at / e * d + at % e;
        dk[place] = 0;
        dv[place] = 0;
    }
    for (whole i = 0; i < n; i++) {
        whole own = start + i * d, side = 2 * ((first + i) * heads + head);
        for (whole j = threadIdx.x; j < n; j += blockDim.x) {
            whole at = start + j * d;
            Match match = match_of(q + own, k + at, e, scale, sides ? sides + side : 0, j > i);
            p[j] = match.p;
            open[j] = match.open;
            real slope = 0;
            for (int c = 0; c < e; c++) slope += dy[own + c] * v[at + c];
            slopes[j] = slope;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            real left = 1, total = 0;
            weights[i] = 0;
            for (whole away = 1; away < n; away++) {
                for (int front = 1; front >= 0; front--) {
                    whole j = front ? i + away : i - away;
                    if (j < 0 || j >= n) continue;
                    weights[j] = p[j] * left;
                    total += weights[j];
                    left *= open[j];
                }
            }
            // A sum at its bound does not move.
            bool moves = total > LEAST_WEIGHT;
            total = larger(total, LEAST_WEIGHT);
            real mean = 0, behind = 0, sums[2] = {0, 0};
            for (whole j = 0; moves && j < n; j++) mean += slopes[j] * (weights[j] / total);
            for (whole away = n - 1; away > 0; away--) {
                for (int front = 0; front < 2; front++) {
                    whole j = front ? i + away : i - away;
                    if (j < 0 || j >= n) continue;
                    real gain = weights[j] * ((slopes[j] - mean) / total);
                    slopes[j] = gain * open[j] - p[j] * behind;
                    behind += gain;
                }
            }
            slopes[i] = 0;
            for (whole j = 0; j < n; j++) {
                sums[j > i] += slopes[j];
                weights[j] /= total;
            }
            for (int front = 0; d_sides && front < 2; front++) d_sides[side + front] = sums[front];
        }
        __syncthreads();
        for (whole at = threadIdx.x; at < n * e; at += blockDim.x) {
            whole j = at / e, c = at % e, place = start + j * d + c;
            dk[place] += scale * slopes[j] * q[own + c];
            dv[place] += weights[j] * dy[own + c];
        }
        for (int c = threadIdx.x; c < e; c += blockDim.x) {
            real sum = 0;
            for (whole j = 0; j < n; j++) sum += slopes[j] * k[start + j * d + c];
            dq[own + c] = scale * sum;
        }
        __syncthreads();
    }
}
