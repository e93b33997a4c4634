// Arithmetic of masks and biases, as the compiler of the language defines it. What has no value (a division by zero, a result that
// does not fit, an index outside a table) makes `ok` false; then the number does not matter.

#define LEAST_WHOLE (-9223372036854775807LL - 1)

__device__ inline whole plus(whole a, whole b, bool &ok) {
    whole sum = (whole)((u64)a + (u64)b);
    ok = ok && ((a ^ sum) & (b ^ sum)) >= 0;
    return sum;
}
__device__ inline whole minus(whole a, whole b, bool &ok) {
    whole difference = (whole)((u64)a - (u64)b);
    ok = ok && ((a ^ b) & (a ^ difference)) >= 0;
    return difference;
}
__device__ inline whole times(whole a, whole b, bool &ok) {
    whole product = (whole)((u64)a * (u64)b);
    // Factors of 32 bits always fit; a division is slow.
    if (a == (int)a && b == (int)b) return product;
    ok = ok && (a == 0 || (!(a == -1 && b == LEAST_WHOLE) && product / a == b));
    return product;
}
// Rounded down.
__device__ inline whole quotient(whole a, whole b, bool &ok) {
    if (b == 0 || (b == -1 && a == LEAST_WHOLE)) {
        ok = false;
        return 0;
    }
    whole q = a / b;
    return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}
// With the sign of the divisor.
__device__ inline whole modulo(whole a, whole b, bool &ok) {
    if (b == 0 || (b == -1 && a == LEAST_WHOLE)) {
        ok = false;
        return 0;
    }
    whole r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
__device__ inline whole power(whole a, whole b, bool &ok) {
    if (b < 0) ok = false;
    if (a == 0 || a == 1) return b == 0 ? 1 : a;
    if (a == -1) return b % 2 == 0 ? 1 : -1;
    whole result = 1;
    // Every other base leaves 64 bits within 63 factors.
    for (; b > 0 && ok; b--) result = times(result, a, ok);
    return result;
}
// The smallest k with base^k >= n.
__device__ inline whole logarithm_up(whole n, whole base, bool &ok) {
    if (base < 2) {
        ok = false;
        return 0;
    }
    whole k = 0;
    for (whole reached = 1; reached < n; k++) {
        bool fits = true;
        reached = times(reached, base, fits);
        if (!fits) reached = 9223372036854775807LL;
    }
    return k;
}

__device__ inline double finite(double x, bool &ok) {
    ok = ok && x - x == 0;
    return x;
}
// What is made of a learned number that is not finite is NaN, which is no fault of the expression.
__device__ inline double finite_of(double a, double b, double x, bool &ok) { return a == a && b == b ? finite(x, ok) : a + b; }
__device__ inline double plus(double a, double b, bool &ok) { return finite(a + b, ok); }
__device__ inline double minus(double a, double b, bool &ok) { return finite(a - b, ok); }
__device__ inline double times(double a, double b, bool &ok) { return finite(a * b, ok); }
__device__ inline double quotient(double a, double b, bool &ok) { return finite(a / b, ok); }
__device__ inline double modulo(double a, double b, bool &ok) { return finite(a - floor(a / b) * b, ok); }
__device__ inline double power(double a, double b, bool &ok) { return finite(pow(a, b), ok); }
__device__ inline double logarithm_of(double x, bool &ok) {
    ok = ok && x > 0;
    return x > 0 ? log(x) : 0;
}
__device__ inline double exp_of(double x, bool &ok) { return finite(exp(x), ok); }
__device__ inline double sqrt_of(double x, bool &ok) { return finite(sqrt(x), ok); }
__device__ inline double tanh_of(double x, bool &ok) { return finite(tanh(x), ok); }
__device__ inline double sigmoid_of(double x, bool &ok) { return finite(1 / (1 + exp(-x)), ok); }
__device__ inline whole floor_of(double x, bool &ok) {
    double down = floor(x);
    bool fits = down < 9223372036854775808.0 && down > -9223372036854775808.0;
    ok = ok && fits;
    return fits ? (whole)down : 0;
}
__device__ inline whole floor_of(whole x, bool &ok) { return x; }

// A number, and how it changes with one learned number. Operands that do not change add nothing.
struct Dual {
    double value, slope;
};
__device__ inline Dual dual(double value) {
    Dual x = {value, 0};
    return x;
}
__device__ inline Dual with_slope(double value, bool changes, double slope) {
    Dual x = {value, changes ? slope : 0};
    return x;
}
__device__ inline Dual plus(Dual a, Dual b, bool &ok) {
    return with_slope(finite_of(a.value, b.value, a.value + b.value, ok), a.slope != 0 || b.slope != 0, a.slope + b.slope);
}
__device__ inline Dual minus(Dual a, Dual b, bool &ok) {
    return with_slope(finite_of(a.value, b.value, a.value - b.value, ok), a.slope != 0 || b.slope != 0, a.slope - b.slope);
}
__device__ inline Dual times(Dual a, Dual b, bool &ok) {
    double slope = a.slope * b.value + a.value * b.slope;
    return with_slope(finite_of(a.value, b.value, a.value * b.value, ok), a.slope != 0 || b.slope != 0, slope);
}
__device__ inline Dual quotient(Dual a, Dual b, bool &ok) {
    double value = finite_of(a.value, b.value, a.value / b.value, ok);
    return with_slope(value, a.slope != 0 || b.slope != 0, (a.slope - value * b.slope) / b.value);
}
__device__ inline Dual modulo(Dual a, Dual b, bool &ok) {
    double slope = a.slope - floor(a.value / b.value) * b.slope;
    return with_slope(finite_of(a.value, b.value, a.value - floor(a.value / b.value) * b.value, ok), a.slope != 0 || b.slope != 0, slope);
}
__device__ inline Dual power(Dual a, Dual b, bool &ok) {
    double value = finite_of(a.value, b.value, pow(a.value, b.value), ok);
    double base = a.slope == 0 ? 0 : b.value * pow(a.value, b.value - 1) * a.slope;
    // A power of 0 stays what it is.
    double exponent = b.slope == 0 || a.value <= 0 ? 0 : value * log(a.value) * b.slope;
    return with_slope(value, a.slope != 0 || b.slope != 0, base + exponent);
}
__device__ inline Dual logarithm_of(Dual x, bool &ok) {
    if (x.value != x.value) return x;
    return with_slope(logarithm_of(x.value, ok), x.slope != 0, x.slope / x.value);
}
__device__ inline Dual exp_of(Dual x, bool &ok) {
    if (x.value != x.value) return x;
    double y = exp_of(x.value, ok);
    return with_slope(y, x.slope != 0, x.slope * y);
}
__device__ inline Dual sqrt_of(Dual x, bool &ok) {
    if (x.value != x.value) return x;
    double y = sqrt_of(x.value, ok);
    return with_slope(y, x.slope != 0, x.slope * (0.5 / y));
}
__device__ inline Dual tanh_of(Dual x, bool &ok) {
    if (x.value != x.value) return x;
    double y = tanh_of(x.value, ok);
    return with_slope(y, x.slope != 0, x.slope * (1 - y * y));
}
__device__ inline Dual sigmoid_of(Dual x, bool &ok) {
    if (x.value != x.value) return x;
    double y = sigmoid_of(x.value, ok);
    return with_slope(y, x.slope != 0, x.slope * (y * (1 - y)));
}
__device__ inline whole floor_of(Dual x, bool &ok) { return floor_of(x.value, ok); }

__device__ inline double number_of(double x) { return x; }
__device__ inline double number_of(Dual x) { return x.value; }

template <class N> __device__ inline N least(N a, N b) { return a <= b ? a : b; }
template <class N> __device__ inline N most(N a, N b) { return a <= b ? b : a; }
__device__ inline Dual least(Dual a, Dual b) { return a.value != a.value || a.value <= b.value ? a : b; }
// Equal numbers are as good as one another: the slope is that of the first.
__device__ inline Dual most(Dual a, Dual b) { return b.value != b.value || a.value < b.value ? b : a; }

// An index of a table, which must lie inside it.
__device__ inline whole inside(whole index, whole size, bool &ok) {
    if (index >= 0 && index < size) return index;
    ok = false;
    return 0;
}
// What is read of a table; `by` marks the number by which slopes are taken, whose place goes to `place`.
__device__ inline Dual learned(const real *table, whole at, bool by, whole &place) {
    if (by) place = at;
    double value = table[at];
    Dual x = {value - value == 0 ? value : value - value, by ? 1.0 : 0.0};
    return x;
}
// The score before an expression changes it; `by` marks that slopes are taken by it. OF_SCORE stands in the place of a use then.
#define OF_SCORE -2
__device__ inline Dual of_score(double score, bool by) {
    Dual x = {score - score == 0 ? score : score - score, by ? 1.0 : 0.0};
    return x;
}
__device__ inline whole no_whole(bool &ok) {
    ok = false;
    return 0;
}

// What follows is for objects that are made for a model: `e.bias` is an expression, `e.uses()` says how often it reads learned tables.

// Where the queries and the keys of a row begin: values of positions are read there.
struct RowStarts {
    whole q, k;
};
__device__ inline RowStarts row_starts(whole q, whole k) {
    RowStarts at = {q, k};
    return at;
}
// Expressions of distances read no values.
#define NO_ROWS row_starts(0, 0)

// Where distance d stands: positions count from the nearer one.
#define APART(d) (d) > 0 ? (d) : 0, (d) < 0 ? -(d) : 0, 0

// Whether a bias has a number: one that is larger than numbers in single precision has none, and hides the key. NaN is that of a weight.
__device__ inline bool is_bias(double number, bool ok) {
    return ok && !(number > 3.4028234663852886e38) && !(number < -3.4028234663852886e38);
}

// The biases of all heads at a distance of a list; minus infinity where there is none.
template <class E> __device__ inline void list_value(const E &e, const int *list, int listed, int heads, real *values, whole n) {
    whole distance = list[n], unused = -1;
    for (int head = 0; head < heads; head++) {
        bool ok = true;
        double number = e.bias(APART(distance), head, NO_ROWS, 0, -1, unused, ok).value;
        values[head * (whole)listed + n] = is_bias(number, ok) ? (real)number : minus_infinity();
    }
}

// How much a bias changes with number `entry` of a table.
template <class E> __device__ inline double slope_by(const E &e, int table, whole entry, whole i, whole j, whole length, whole head) {
    double slope = 0;
    for (int use = 0; use < e.uses(); use++) {
        if (e.table_of(use) != table) continue;
        bool ok = true;
        whole place = -1;
        Dual found = e.bias(i, j, length, head, NO_ROWS, 0, use, place, ok);
        finite(found.slope, ok);
        if (ok && place == entry) slope += found.slope;
    }
    return slope;
}

// The gradient of a table, a block for each of its numbers: all threads meet in `team_sum`, whatever they added up.
template <class E>
__device__ inline void list_gradient(const E &e, const int *list, int listed, int heads, const real *slopes, real *y, int table, int add) {
    double sum = 0;
    for (whole at = threadIdx.x; at < heads * (whole)listed; at += blockDim.x) {
        whole distance = list[at % listed];
        if (slopes[at] != (real)0) sum += slopes[at] * slope_by(e, table, blockIdx.x, APART(distance), at / listed);
    }
    sum = team_sum(sum);
    if (threadIdx.x == 0) y[blockIdx.x] = (add ? y[blockIdx.x] : (real)0) + (real)sum;
}
// The same where every query and key has a slope of its own, and a score where these are no sums: the numbers from blockIdx.y * TABLE_SHARE on, as sums over parts of all
// pairs, which `columns` adds up. A warp has a part, `per` pairs; each is asked once, and lanes add what they found in turn.
#define TABLE_SHARE 512
#define TABLE_WARPS 4
template <class E>
__device__ inline void pair_gradient(const E &e, const real *slopes, const real *scores, const u64 *starts, const u32 *q_offsets, const u32 *k_offsets, int rows, whole total, whole per, whole count, real *parts, int size, int table) {
    __shared__ double shared_sums[TABLE_WARPS][TABLE_SHARE];
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, row = 0;
    whole part = blockIdx.x * (whole)TABLE_WARPS + warp, lowest = blockIdx.y * (whole)TABLE_SHARE;
    if (part >= count) return;
    double *sums = shared_sums[warp];
    for (int n = lane; n < TABLE_SHARE; n += WARP) sums[n] = 0;
    __syncwarp();
    whole end = (part + 1) * per < total ? (part + 1) * per : total;
    for (whole tile = part * per; tile < end; tile += WARP) {
        whole at = tile + lane;
        real slope = at < end ? slopes[at] : (real)0;
        if (!__any_sync(EVERYONE, slope != (real)0)) continue;
        while (row + 1 < rows && at >= (whole)starts[row + 1]) row++;
        // Within a row numbers of 32 bits do.
        u32 queries = q_offsets[row + 1] - q_offsets[row], keys = k_offsets[row + 1] - k_offsets[row];
        u32 pairs = queries * keys, rest = (u32)(at - (whole)starts[row]);
        u32 head = pairs ? rest / pairs : 0, pair = rest - head * pairs, i = keys ? pair / keys : 0, j = pair - i * keys;
        for (int use = 0; use < e.uses(); use++) {
            if (e.table_of(use) != table) continue;
            bool ok = slope != (real)0;
            whole place = -1;
            double own = 0;
            if (ok) {
                double score = scores ? scores[at] : 0;
                Dual found = e.bias(i, j, queries, head, row_starts(q_offsets[row], k_offsets[row]), score, use, place, ok);
                own = (double)slope * finite(found.slope, ok);
            }
            bool here = ok && place >= lowest && place < lowest + TABLE_SHARE;
            if (!__any_sync(EVERYONE, here)) continue;
            for (int turn = 0; turn < WARP; turn++) {
                if (here && lane == turn) sums[place - lowest] += own;
                __syncwarp();
            }
        }
    }
    for (int n = lane; n < TABLE_SHARE && lowest + n < size; n += WARP) parts[part * size + lowest + n] = (real)sums[n];
}

// The gradient of number `entry` of a value that a bias reads: over all keys of the query, or queries of the key, that stand there.
template <class E>
__device__ inline void value_gradient(const E &e, const real *slopes, const real *scores, const u64 *starts, const u32 *q_offsets, const u32 *k_offsets, const u32 *row_of, int heads, int channels, real *y, int value, int add, whole entry) {
    whole position = entry / channels, row = row_of[position];
    RowStarts at = row_starts(q_offsets[row], k_offsets[row]);
    whole queries = q_offsets[row + 1] - at.q, keys = k_offsets[row + 1] - at.k;
    double sum = 0;
    for (int use = 0; use < e.uses(); use++) {
        if (e.table_of(use) != value) continue;
        bool at_query = e.at_query(use);
        whole own = position - (at_query ? at.q : at.k), others = at_query ? keys : queries;
        for (int head = 0; head < heads; head++) {
            if (e.channel_of(use, head) != entry % channels) continue;
            for (whole other = 0; other < others; other++) {
                whole i = at_query ? own : other, j = at_query ? other : own, place = -1;
                whole pair = starts[row] + (head * queries + i) * keys + j;
                real slope = slopes[pair];
                if (slope == (real)0) continue;
                bool ok = true;
                Dual found = e.bias(i, j, queries, head, at, scores ? scores[pair] : 0, use, place, ok);
                double more = (double)slope * finite(found.slope, ok);
                if (ok) sum += more;
            }
        }
    }
    y[entry] = (add ? y[entry] : (real)0) + (real)sum;
}
