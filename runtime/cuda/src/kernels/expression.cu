// Masks, biases and scores of pairs, as functions in double precision that are made for a model: truth is 1 or 0, and what has no number is
// NaN.

// A number that is read; NaN where it is not finite.
__device__ inline double sound(double x) { return x - x == 0 ? x : x - x; }
// The number at a place; infinite where the place is none.
__device__ inline double look_up(const real *table, double at) { return at == at ? sound(table[(whole)at]) : -(double)MINUS_INFINITY; }

// What follows is for objects that are made for a model: `e.number` is a bias or a score, `e.reads()` says how many numbers of tables and
// values it has, of which `e.slope` gives the derivative by one.

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

// The biases of all heads at a distance of a list; minus infinity where there is none.
template <class E> __device__ inline void list_value(const E &e, const int *list, int listed, int heads, real *values, whole n) {
    whole distance = list[n];
    for (int head = 0; head < heads; head++) values[head * (whole)listed + n] = e.number(APART(distance), head, NO_ROWS, 0);
}

// How much a bias changes with number `entry` of a table.
template <class E> __device__ inline double slope_by(const E &e, int table, whole entry, whole i, whole j, whole length, whole head) {
    double slope = 0;
    for (int read = 0; read < e.reads(); read++) {
        if (e.table_of(read) != table) continue;
        whole place = -1;
        double own = e.slope(i, j, length, head, NO_ROWS, 0, read, place);
        if (place == entry) slope += own;
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
        for (int read = 0; read < e.reads(); read++) {
            if (e.table_of(read) != table) continue;
            whole place = -1;
            double own = 0;
            if (slope != (real)0) {
                double score = scores ? scores[at] : 0;
                own = slope * e.slope(i, j, queries, head, row_starts(q_offsets[row], k_offsets[row]), score, read, place);
            }
            bool here = place >= lowest && place < lowest + TABLE_SHARE;
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
    for (int read = 0; read < e.reads(); read++) {
        if (e.table_of(read) != value) continue;
        bool at_query = e.at_query(read);
        whole slots = at_query ? 1 : e.keys_of_position(), others = (at_query ? keys : queries) * slots;
        whole own = at_query ? position - at.q : position * slots - at.k;
        for (int head = 0; head < heads; head++) {
            for (whole other = 0; other < others; other++) {
                whole i = at_query ? own : other / slots, j = at_query ? other : own + other % slots, place = -1;
                whole pair = starts[row] + (head * queries + i) * keys + j;
                real slope = slopes[pair];
                if (slope == (real)0) continue;
                double more = slope * e.slope(i, j, queries, head, at, scores ? scores[pair] : 0, read, place);
                // A place of a value is its channel.
                if (place == entry % channels) sum += more;
            }
        }
    }
    y[entry] = (add ? y[entry] : (real)0) + (real)sum;
}
