// What works unit by unit and is more than arithmetic on one number: norms, channels side by side, rotations; and
// matrix products where no library does them.

// Mean and 1 / deviation of a row, in two passes, by a warp.
__device__ inline void statistics(const real *x, int d, real eps, int lane, real *mean, real *scale) {
    real sum = 0;
    for (int c = lane; c < d; c += WARP) sum += x[c];
    *mean = warp_sum(sum) * (real)(1.0 / d);
    real squares = 0;
    for (int c = lane; c < d; c += WARP) squares += (x[c] - *mean) * (x[c] - *mean);
    *scale = inverse_root(warp_sum(squares) * (real)(1.0 / d), eps);
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
TEAM(layer_norm)(const real *x, const real *gain, const real *bias, real *y, real eps, int d, whole rows) {
    EACH_WARP(row, lane, rows)
    x += row * d;
    y += row * d;
    real mean, scale;
    statistics(x, d, eps, lane, &mean, &scale);
    for (int c = lane; c < d; c += WARP) y[c] = (x[c] - mean) * scale * gain[c] + (bias ? bias[c] : (real)0);
}
// 1 / root of the mean square of a row, by a warp.
__device__ inline real rms_scale(const real *x, int d, real eps, int lane) {
    real squares = 0;
    for (int c = lane; c < d; c += WARP) squares += x[c] * x[c];
    return inverse_root(warp_sum(squares) * (real)(1.0 / d), eps);
}
TEAM(rms_norm)(const real *x, const real *gain, real *y, real eps, int d, whole rows) {
    EACH_WARP(row, lane, rows)
    x += row * d;
    y += row * d;
    real scale = rms_scale(x, d, eps, lane);
    for (int c = lane; c < d; c += WARP) y[c] = x[c] * scale * (gain ? gain[c] : (real)1);
}
// dx, and what the sums over the rows need.
TEAM(rms_norm_grad)(const real *x, const real *gain, const real *dy, real *dx, real *scales, real eps, int d, whole rows) {
    EACH_WARP(row, lane, rows)
    x += row * d;
    dy += row * d;
    dx += row * d;
    real scale = rms_scale(x, d, eps, lane);
    real along = 0;
    for (int c = lane; c < d; c += WARP) along += dy[c] * (gain ? gain[c] : (real)1) * (x[c] * scale);
    along = warp_sum(along) * (real)(1.0 / d);
    for (int c = lane; c < d; c += WARP) dx[c] = (dy[c] * (gain ? gain[c] : (real)1) - x[c] * scale * along) * scale;
    if (lane == 0) scales[row] = scale;
}
// dx, and what the sums over the rows need.
TEAM(layer_norm_grad)(const real *x, const real *gain, const real *dy, real *dx, real *means, real *scales, real eps, int d, whole rows) {
    EACH_WARP(row, lane, rows)
    x += row * d;
    dy += row * d;
    dx += row * d;
    real mean, scale;
    statistics(x, d, eps, lane, &mean, &scale);
    real plain = 0, along = 0;
    for (int c = lane; c < d; c += WARP) {
        real g = dy[c] * gain[c];
        plain += g;
        along += g * ((x[c] - mean) * scale);
    }
    plain = warp_sum(plain) * (real)(1.0 / d);
    along = warp_sum(along) * (real)(1.0 / d);
    for (int c = lane; c < d; c += WARP) dx[c] = (dy[c] * gain[c] - plain - (x[c] - mean) * scale * along) * scale;
    if (lane == 0) {
        means[row] = mean;
        scales[row] = scale;
    }
}
// Sums over blocks of `per` rows: of dy times the normalised x and, where there are `biases`, of dy.
KERNEL(norm_columns)(const real *x, const real *dy, const real *means, const real *scales, real *gains, real *biases, int d, whole rows, int per) {
    EACH(c, d)
    whole first = blockIdx.y * (whole)per, end = first + per < rows ? first + per : rows;
    real gain = 0, bias = 0;
    for (whole row = first; row < end; row++) {
        real g = dy[row * d + c];
        gain += g * ((x[row * d + c] - (means ? means[row] : (real)0)) * scales[row]);
        bias += g;
    }
    gains[blockIdx.y * (whole)d + c] = gain;
    if (biases) biases[blockIdx.y * (whole)d + c] = bias;
}
// Sums of columns over blocks of `per` rows; with one block, the whole sum, added to what is there where `add` is set.
KERNEL(columns)(const real *x, real *y, int d, whole rows, int per, int add) {
    EACH(c, d)
    whole first = blockIdx.y * (whole)per, end = first + per < rows ? first + per : rows;
    real *place = y + blockIdx.y * (whole)d + c;
    real sum = add ? *place : (real)0;
    for (whole row = first; row < end; row++) sum += x[row * d + c];
    *place = sum;
}

KERNEL(concat)(const real *a, const real *b, real *y, int m, int n, whole count) {
    EACH(i, count)
    whole u = i / (m + n), c = i % (m + n);
    y[i] = c < m ? a[u * m + c] : b[u * n + c - m];
}
KERNEL(slice)(const real *x, real *y, int d, int start, int width, whole count) {
    EACH(i, count)
    y[i] = x[i / width * d + start + i % width];
}
KERNEL(pad)(const real *x, real *y, int d, int start, int width, whole count) {
    EACH(i, count)
    whole c = i % width - start;
    y[i] = c >= 0 && c < d ? x[i / width * d + c] : (real)0;
}

// Turns pairs of channels by the angle of the position: of every head the first `part`, the channels of a pair `across` apart. `turn`
// is 1, or -1 for the transposed map.
KERNEL(rotate)(const real *x, real *y, const real *cosines, const real *sines, real turn, int e, int part, int across, const u32 *row_of, const u32 *offsets, const u32 *origin, const u32 *places, int per, int width, whole count) {
    EACH(i, count)
    Unit u = unit_of(i / width, row_of, offsets, per);
    int c = (int)(i % width) % e;
    if (c >= part) {
        y[i] = x[i];
        return;
    }
    whole place = ((places ? (whole)places[i / width] : u.at) + (origin ? origin[u.row] : 0)) * part + c;
    y[i] = x[i] * cosines[place] + x[c / across % 2 ? i - across : i + across] * (turn * sines[place]);
}

// y[i, j] = (y[i, j] if add) + sum over p of a[i ai + p ap] b[p bp + j bj]. Each thread has one element, tiles are
// shared; slower than a library, and right on any device.
#define TILE 8
TEAM(product)(const real *a, whole ai, whole ap, const real *b, whole bp, whole bj, real *y, int add, int m, int n, int k) {
    __shared__ real left[TILE][TILE + 1], right[TILE][TILE + 1];
    int down = threadIdx.x / TILE, across = threadIdx.x % TILE;
    whole i = blockIdx.y * (whole)TILE + down, j = blockIdx.x * (whole)TILE + across;
    real sum = 0;
    for (int first = 0; first < k; first += TILE) {
        int p = first + across, q = first + down;
        left[down][across] = i < m && p < k ? a[i * ai + p * ap] : (real)0;
        right[down][across] = j < n && q < k ? b[q * bp + j * bj] : (real)0;
        __syncthreads();
        for (int t = 0; t < TILE; t++) sum += left[down][t] * right[t][across];
        __syncthreads();
    }
    if (i < m && j < n) y[i * n + j] = (add ? y[i * n + j] : (real)0) + sum;
}
