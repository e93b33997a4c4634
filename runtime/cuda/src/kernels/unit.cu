// What works unit by unit and is more than arithmetic on one number: norms, channels side by side, rotations; and
// matrix products where no library does them.

// A row of `d` numbers, each times its factor where there are factors, on which a warp works. Up to K * WARP numbers are read once
// and kept, K by each lane; with K = 0 they are read whenever they are asked for.
template <int K, class V> struct Row {
    const V *x;
    const real *factors;
    int d, lane;
    real kept[K + (K == 0)];
    __device__ inline Row(int d, int lane, const V *x, const real *factors = 0) : x(x), factors(factors), d(d), lane(lane) {
        if (K) each([&](int c, int m) { kept[m] = read(c); });
    }
    __device__ inline real read(int c) const { return factors ? real_of(x[c]) * factors[c] : real_of(x[c]); }
    // Number c, which is number m of its lane.
    __device__ inline real at(int c, int m) const { return K ? kept[m] : read(c); }
    // Calls `f(c, m)` for the numbers of this lane.
    template <class F> __device__ inline void each(F f) const {
        if (K == 0) {
            for (int c = lane; c < d; c += WARP) f(c, 0);
            return;
        }
#pragma unroll
        for (int m = 0; m < K; m++)
            if (lane + m * WARP < d) f(lane + m * WARP, m);
    }
    // The mean over the row of `f(c, m)`; every lane gets it.
    template <class F> __device__ inline real mean(F f) const {
        real sum = 0;
        each([&](int c, int m) { sum += f(c, m); });
        return warp_sum(sum) * ((real)1 / d);
    }
};
// Calls a function of rows with as many numbers kept as a row of `d` has, up to 512: more would take registers from other warps.
#define BY_WIDTH(function, d, ...)                         \
    if (d <= 4 * WARP) function<4>(d, __VA_ARGS__);        \
    else if (d <= 16 * WARP) function<16>(d, __VA_ARGS__); \
    else function<0>(d, __VA_ARGS__);

// Mean and 1 / deviation of a row, in two passes.
template <int K, class V> __device__ inline void statistics(const Row<K, V> &row, real eps, real *mean, real *scale) {
    real centre = row.mean([&](int c, int m) { return row.at(c, m); });
    real square = row.mean([&](int c, int m) { return (row.at(c, m) - centre) * (row.at(c, m) - centre); });
    *mean = centre;
    *scale = inverse_root(square, eps);
}
// The product of two matrices of every unit. A number stands at row and column by the strides of its side.
KERNEL(matmul)(const real *a, const real *b, real *y, int rows, int inner, int columns, int of_row, int of_sum, int from_sum, int from_column, whole n) {
    EACH(i, n)
    whole unit = i / (rows * columns);
    int row = (int)(i / columns % rows), column = (int)(i % columns);
    a += unit * rows * inner + (whole)row * of_row;
    b += unit * inner * columns + (whole)column * from_column;
    real sum = 0;
    for (int k = 0; k < inner; k++) sum += a[(whole)k * of_sum] * b[(whole)k * from_sum];
    y[i] = sum;
}
template <int K, class V> __device__ inline void layer_norm(int d, const V *x, const real *gain, const real *bias, V *y, real eps, int lane) {
    Row<K, V> row(d, lane, x);
    real mean, scale;
    statistics(row, eps, &mean, &scale);
    row.each([&](int c, int m) { put_number(y + c, (row.at(c, m) - mean) * scale * gain[c] + (bias ? bias[c] : (real)0)); });
}
TEAM(layer_norm)(const real *x, const real *gain, const real *bias, real *y, real eps, int d, whole rows) {
    EACH_WARP(row, lane, rows)
    BY_WIDTH(layer_norm, d, x + row * d, gain, bias, y + row * d, eps, lane)
}
TEAM(layer_norm_narrow)(const bf16 *x, const real *gain, const real *bias, bf16 *y, real eps, int d, whole rows) {
    EACH_WARP(row, lane, rows)
    BY_WIDTH(layer_norm, d, x + row * d, gain, bias, y + row * d, eps, lane)
}
// 1 / root of the mean square of a row.
template <int K, class V> __device__ inline real rms_scale(const Row<K, V> &row, real eps) {
    return inverse_root(row.mean([&](int c, int m) { return row.at(c, m) * row.at(c, m); }), eps);
}
template <int K, class V> __device__ inline void rms_norm(int d, const V *x, const real *gain, V *y, real eps, int lane) {
    Row<K, V> row(d, lane, x);
    real scale = rms_scale(row, eps);
    row.each([&](int c, int m) { put_number(y + c, row.at(c, m) * scale * (gain ? gain[c] : (real)1)); });
}
TEAM(rms_norm)(const real *x, const real *gain, real *y, real eps, int d, whole rows) {
    EACH_WARP(row, lane, rows)
    BY_WIDTH(rms_norm, d, x + row * d, gain, y + row * d, eps, lane)
}
TEAM(rms_norm_narrow)(const bf16 *x, const real *gain, bf16 *y, real eps, int d, whole rows) {
    EACH_WARP(row, lane, rows)
    BY_WIDTH(rms_norm, d, x + row * d, gain, y + row * d, eps, lane)
}
// dx, and what the sums over the rows need.
template <int K, class V> __device__ inline void rms_norm_grad(int d, const V *x, const real *gain, const V *dy, V *dx, real *scales, real eps, int lane) {
    Row<K, V> row(d, lane, x), slopes(d, lane, dy, gain);
    real scale = rms_scale(row, eps);
    real along = row.mean([&](int c, int m) { return slopes.at(c, m) * (row.at(c, m) * scale); });
    row.each([&](int c, int m) { put_number(dx + c, (slopes.at(c, m) - row.at(c, m) * scale * along) * scale); });
    if (lane == 0) *scales = scale;
}
TEAM(rms_norm_grad)(const real *x, const real *gain, const real *dy, real *dx, real *scales, real eps, int d, whole rows) {
    EACH_WARP(row, lane, rows)
    BY_WIDTH(rms_norm_grad, d, x + row * d, gain, dy + row * d, dx + row * d, scales + row, eps, lane)
}
TEAM(rms_norm_grad_narrow)(const bf16 *x, const real *gain, const bf16 *dy, bf16 *dx, real *scales, real eps, int d, whole rows) {
    EACH_WARP(row, lane, rows)
    BY_WIDTH(rms_norm_grad, d, x + row * d, gain, dy + row * d, dx + row * d, scales + row, eps, lane)
}
// dx, and what the sums over the rows need.
template <int K, class V> __device__ inline void layer_norm_grad(int d, const V *x, const real *gain, const V *dy, V *dx, real *means, real *scales, real eps, int lane) {
    Row<K, V> row(d, lane, x), slopes(d, lane, dy, gain);
    real mean, scale;
    statistics(row, eps, &mean, &scale);
    real plain = row.mean([&](int c, int m) { return slopes.at(c, m); });
    real along = row.mean([&](int c, int m) { return slopes.at(c, m) * ((row.at(c, m) - mean) * scale); });
    row.each([&](int c, int m) {
        put_number(dx + c, (slopes.at(c, m) - plain - (row.at(c, m) - mean) * scale * along) * scale);
    });
    if (lane == 0) {
        *means = mean;
        *scales = scale;
    }
}
TEAM(layer_norm_grad)(const real *x, const real *gain, const real *dy, real *dx, real *means, real *scales, real eps, int d, whole rows) {
    EACH_WARP(row, lane, rows)
    BY_WIDTH(layer_norm_grad, d, x + row * d, gain, dy + row * d, dx + row * d, means + row, scales + row, eps, lane)
}
TEAM(layer_norm_grad_narrow)(const bf16 *x, const real *gain, const bf16 *dy, bf16 *dx, real *means, real *scales, real eps, int d, whole rows) {
    EACH_WARP(row, lane, rows)
    BY_WIDTH(layer_norm_grad, d, x + row * d, gain, dy + row * d, dx + row * d, means + row, scales + row, eps, lane)
}
// Sums over rows, of columns side by side: a block has `across` of them, as many threads go through a row together, and those
// above one another share the rows. Their sums are added as a tree, so the order depends on the shape of the block alone. Threads and
// `across` are powers of two; 8 columns are a whole sector of memory.
#define SUM_THREADS 1024
#define SUM_ROUND 8
// May be asked again at once: a thread reads at the end what it alone writes at the beginning.
__device__ inline void column_total(real sum, real *y, whole c, int d, int across, int add) {
    __shared__ real sums[SUM_THREADS];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (u32 step = blockDim.x / 2; step >= across; step /= 2) {
        if (threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x < across && c < d) y[c] = (add ? y[c] : (real)0) + sums[threadIdx.x];
}
// The row of a thread in round `m` from `first` on; its column is `c`.
#define SUM_COLUMNS                                                            \
    int down = blockDim.x / across;                                            \
    whole c = blockIdx.x * (whole)across + threadIdx.x % across;               \
    for (whole first = threadIdx.x / across; c < d && first < rows; first += SUM_ROUND * down)

template <class V> __device__ inline void columns(const V *x, whole x_apart, real *y, whole y_apart, int add, int d, whole rows, int across) {
    x += blockIdx.z * x_apart, y += blockIdx.z * y_apart;
    real sum = 0;
    SUM_COLUMNS {
        // All rows of a round are asked for before the first is added.
        real terms[SUM_ROUND];
        for (int m = 0; m < SUM_ROUND; m++) {
            whole row = first + m * down;
            terms[m] = row < rows ? real_of(x[row * d + c]) : (real)0;
        }
        for (int m = 0; m < SUM_ROUND; m++) sum += terms[m];
    }
    column_total(sum, y, c, d, across, add);
}
TEAM(columns)(const real *x, whole x_apart, real *y, whole y_apart, int add, int d, whole rows, int across) { columns(x, x_apart, y, y_apart, add, d, rows, across); }
TEAM(columns_narrow)(const bf16 *x, whole x_apart, real *y, whole y_apart, int add, int d, whole rows, int across) { columns(x, x_apart, y, y_apart, add, d, rows, across); }
// The gradients of the gain and, where there is one, of the bias of a norm: of dy times the normalised x, and of dy.
template <class V> __device__ inline void norm_columns(const V *x, const V *dy, const real *means, const real *scales, real *gains, int add_gains, real *biases, int add_biases, int d, whole rows, int across) {
    real gain = 0, bias = 0;
    SUM_COLUMNS {
        real g[SUM_ROUND], normal[SUM_ROUND];
        for (int m = 0; m < SUM_ROUND; m++) {
            whole row = first + m * down;
            bool there = row < rows;
            g[m] = there ? real_of(dy[row * d + c]) : (real)0;
            normal[m] = there ? (real_of(x[row * d + c]) - (means ? means[row] : (real)0)) * scales[row] : (real)0;
        }
        for (int m = 0; m < SUM_ROUND; m++) {
            gain += g[m] * normal[m];
            bias += g[m];
        }
    }
    column_total(gain, gains, c, d, across, add_gains);
    if (biases) column_total(bias, biases, c, d, across, add_biases);
}
TEAM(norm_columns)(const real *x, const real *dy, const real *means, const real *scales, real *gains, int add_gains, real *biases, int add_biases, int d, whole rows, int across) { norm_columns(x, dy, means, scales, gains, add_gains, biases, add_biases, d, rows, across); }
TEAM(norm_columns_narrow)(const bf16 *x, const bf16 *dy, const real *means, const real *scales, real *gains, int add_gains, real *biases, int add_biases, int d, whole rows, int across) { norm_columns(x, dy, means, scales, gains, add_gains, biases, add_biases, d, rows, across); }

KERNEL(concat)(const real *a, const real *b, real *y, int m, int n, whole count) {
    EACH(i, count)
    whole u = i / (m + n), c = i % (m + n);
    y[i] = c < m ? a[u * m + c] : b[u * n + c - m];
}
KERNEL(slice)(const real *x, real *y, int d, int start, int width, whole count) {
    EACH(i, count)
    y[i] = x[(whole)(i / width) * d + start + i % width];
}
KERNEL(pad)(const real *x, real *y, int d, int start, int width, whole count) {
    EACH(i, count)
    int c = (int)(i % width) - start;
    y[i] = c >= 0 && c < d ? x[(whole)(i / width) * d + c] : (real)0;
}

// Turns pairs of channels by the angle of the position: of every head the first `part`, the channels of a pair `across` apart. `turn`
// is 1, or -1 for the transposed map.
template <class V> __device__ inline void rotate(whole i, const V *x, V *y, const real *cosines, const real *sines, real turn, int e, int part, int across, const u32 *row_of, const u32 *offsets, const u32 *origin, const u32 *places, int per, int width) {
    u32 unit = i / width;
    Unit u = unit_of(unit, row_of, offsets, per);
    int c = (int)(i - unit * width) % e;
    if (c >= part) {
        y[i] = x[i];
        return;
    }
    whole place = ((places ? (whole)places[unit] : u.at) + (origin ? origin[u.row] : 0)) * part + c;
    put_number(y + i, real_of(x[i]) * cosines[place] + real_of(x[c / across % 2 ? i - across : i + across]) * (turn * sines[place]));
}
KERNEL(rotate)(const real *x, real *y, const real *cosines, const real *sines, real turn, int e, int part, int across, const u32 *row_of, const u32 *offsets, const u32 *origin, const u32 *places, int per, int width, whole count) {
    EACH(i, count)
    rotate(i, x, y, cosines, sines, turn, e, part, across, row_of, offsets, origin, places, per, width);
}
KERNEL(rotate_narrow)(const bf16 *x, bf16 *y, const real *cosines, const real *sines, real turn, int e, int part, int across, const u32 *row_of, const u32 *offsets, const u32 *origin, const u32 *places, int per, int width, whole count) {
    EACH(i, count)
    rotate(i, x, y, cosines, sines, turn, e, part, across, row_of, offsets, origin, places, per, width);
}

// y[i, j] = (y[i, j] if add) + (bias[j] if there is one) + sum over p of a[i ai + p ap] b[p bp + j bj]. Each thread has one
// element, tiles are shared; slower than a library, and right on any device. blockIdx.z is the number of the product, each so far
// apart from the one before.
#define TILE 8
// `kept` has a bit for a, for b, and for y and the bias: whether their numbers are of 16 bits.
TEAM(product)(const void *a, whole ai, whole ap, const void *b, whole bp, whole bj, void *y, int add, const void *bias, int kept, int m, int n, int k, whole a_apart, whole b_apart, whole y_apart, whole bias_apart) {
    __shared__ real left[TILE][TILE + 1], right[TILE][TILE + 1];
    a_apart *= blockIdx.z, b_apart *= blockIdx.z, y_apart *= blockIdx.z, bias_apart *= blockIdx.z;
    int down = threadIdx.x / TILE, across = threadIdx.x % TILE;
    whole i = blockIdx.y * (whole)TILE + down, j = blockIdx.x * (whole)TILE + across;
    real sum = 0;
    for (int first = 0; first < k; first += TILE) {
        int p = first + across, q = first + down;
        left[down][across] = i < m && p < k ? number_at(a, a_apart + i * ai + p * ap, kept & 1) : (real)0;
        right[down][across] = j < n && q < k ? number_at(b, b_apart + q * bp + j * bj, kept & 2) : (real)0;
        __syncthreads();
        for (int t = 0; t < TILE; t++) sum += left[down][t] * right[t][across];
        __syncthreads();
    }
    if (i >= m || j >= n) return;
    whole place = y_apart + i * n + j;
    sum += (add ? number_at(y, place, kept & 4) : (real)0) + (bias ? number_at(bias, bias_apart + j, kept & 4) : (real)0);
    put_at(y, place, sum, kept & 4);
}
