// Moving: numbers of one value, rows and parts of rows by index, embeddings, frames, pairs.

KERNEL(fill)(real *y, real value, whole n) {
    EACH(i, n)
    y[i] = value;
}
KERNEL(fill_truth)(u8 *y, int value, whole n) {
    EACH(i, n)
    y[i] = value;
}
KERNEL(repeat)(const real *x, real *y, whole width, whole n) {
    EACH(i, n)
    y[i] = x[i % (u32)width];
}
// Numbers as they are computed with, and as they are kept in 16 bits.
KERNEL(widen)(const bf16 *x, real *y, whole n) {
    EACH(i, n)
    y[i] = real_of(x[i]);
}
KERNEL(narrow)(const real *x, bf16 *y, whole n) {
    EACH(i, n)
    put_number(y + i, x[i]);
}
KERNEL(add_to)(const real *x, real *y, whole n) {
    EACH(i, n)
    y[i] += x[i];
}
KERNEL(multiply_by)(real *y, const real *by, whole n) {
    EACH(i, n)
    y[i] *= by[i];
}

// Copies pieces. Piece p begins at unit from[3p] of x and unit from[3p + 1] of y, and has from[3p + 2] units of `width` words.
#define PIECES                                                                       \
    const u32 *piece = pieces + 3 * (whole)blockIdx.x;                               \
    whole first = piece[0] * width, to = piece[1] * width, count = piece[2] * width; \
    for (whole i = blockIdx.y * (whole)blockDim.x + threadIdx.x; i < count; i += gridDim.y * (whole)blockDim.x) \
        y[to + i] = x[first + i];

KERNEL(pieces_1)(const u8 *x, u8 *y, const u32 *pieces, whole width) { PIECES }
KERNEL(pieces_2)(const u16 *x, u16 *y, const u32 *pieces, whole width) { PIECES }
KERNEL(pieces_4)(const u32 *x, u32 *y, const u32 *pieces, whole width) { PIECES }
KERNEL(pieces_8)(const u64 *x, u64 *y, const u32 *pieces, whole width) { PIECES }

// Arrays end to end: array number blockIdx.y lies at from[2 n], and ends in y where from[2 n + 1] says.
KERNEL(join)(const u64 *from, real *y) {
    const real *x = (const real *)from[2 * blockIdx.y];
    whole first = blockIdx.y == 0 ? 0 : (whole)from[2 * blockIdx.y - 1], end = (whole)from[2 * blockIdx.y + 1];
    for (whole i = first + blockIdx.x * (whole)blockDim.x + threadIdx.x; i < end; i += gridDim.x * (whole)blockDim.x)
        y[i] = x[i - first];
}

// Adds pieces: those of a row follow one another, `repeats` of them, and are added in that order.
KERNEL(pieces_add)(const real *x, real *y, const u32 *pieces, whole width) {
    const u32 *piece = pieces + 4 * (whole)blockIdx.x;
    whole first = piece[0] * width, to = piece[1] * width, count = piece[2] * width;
    u32 repeats = piece[3];
    for (whole i = blockIdx.y * (whole)blockDim.x + threadIdx.x; i < count; i += gridDim.y * (whole)blockDim.x) {
        real sum = y[to + i];
        for (u32 n = 0; n < repeats; n++) sum += x[first + n * count + i];
        y[to + i] = sum;
    }
}

KERNEL(embed)(const u32 *ids, const real *table, real *y, int d, whole n) {
    EACH(i, n)
    y[i] = table[ids[i / d] * (whole)d + i % d];
}
KERNEL(embed_narrow)(const u32 *ids, const real *table, bf16 *y, int d, whole n) {
    EACH(i, n)
    put_number(y + i, table[ids[i / d] * (whole)d + i % d]);
}
// The tokens of one id follow one another in `order`, cut into pieces: where each ends, and the row of the table that it is added to.
// The sums of an id with several pieces go to `parts`, at the number that stands in place of the row, with PART. A block has a
// piece, and the channels from blockIdx.y on. Pieces that only fill the table have no tokens.
#define PART 0x80000000u
KERNEL(embed_grad)(const u32 *order, const u32 *pieces, const real *dy, real *table, real *parts, int d) {
    const u32 *piece = pieces + 2 * (whole)blockIdx.x;
    u32 first = blockIdx.x == 0 ? 0 : piece[-2], end = piece[0], c = blockIdx.y * blockDim.x + threadIdx.x;
    if (first == end || c >= d) return;
    bool part = piece[1] & PART;
    real *place = (part ? parts : table) + (whole)(piece[1] & ~PART) * d + c;
    real sum = part ? (real)0 : *place;
#pragma unroll 8
    for (u32 t = first; t < end; t++) sum += dy[order[t] * (whole)d + c];
    *place = sum;
}
// Adds the parts of an id from `joins[1]` to `joins[2]` to row `joins[0]`, one id a block.
KERNEL(embed_join)(const u32 *joins, const real *parts, real *table, int d) {
    const u32 *join = joins + 3 * (whole)blockIdx.x;
    u32 c = blockIdx.y * blockDim.x + threadIdx.x;
    if (join[1] == join[2] || c >= d) return;
    real *place = table + (whole)join[0] * d + c;
    real sum = *place;
    for (u32 part = join[1]; part < join[2]; part++) sum += parts[(whole)part * d + c];
    *place = sum;
}

// START before and END after every row; `row_of` and `offsets` are those of the framed axis.
KERNEL(frame)(const real *x, const real *start, const real *end, real *y, const u32 *row_of, const u32 *offsets, int d, whole n) {
    EACH(i, n)
    whole t = i / d, c = i % d, row = row_of[t];
    y[i] = t == offsets[row] ? start[c] : t + 1 == offsets[row + 1] ? end[c] : x[(t - 2 * row - 1) * d + c];
}
KERNEL(frame_grad)(const real *dy, real *dx, const u32 *inner_row_of, int d, whole n) {
    EACH(i, n)
    whole t = i / d, row = inner_row_of[t];
    dx[i] = dy[(t + 2 * row + 1) * d + i % d];
}
// The sum of the first (or last) positions of all rows.
KERNEL(frame_ends)(const real *dy, real *y, const u32 *offsets, int last, int d, int rows, int add) {
    EACH(c, d)
    real sum = add ? y[c] : (real)0;
    for (int row = 0; row < rows; row++) {
        whole t = last ? offsets[row + 1] - 1 : offsets[row];
        sum += dy[t * d + c];
    }
    y[c] = sum;
}

// Every row behind the positions that the channels of v are, `more` numbers of every row; `row_of` and `offsets` are those with them.
KERNEL(prefix)(const real *x, const real *v, real *y, const u32 *row_of, const u32 *offsets, int d, int more, whole n) {
    EACH(i, n)
    whole row = row_of[i / d], place = i - offsets[row] * (whole)d;
    y[i] = place < more ? v[row * more + place] : x[i - (row + 1) * more];
}
// Every row without its first `more` numbers; `row_of` is that of what is left.
KERNEL(unprefix)(const real *x, real *y, const u32 *row_of, int d, int more, whole n) {
    EACH(i, n)
    y[i] = x[i + ((whole)row_of[i / d] + 1) * more];
}
KERNEL(prefix_grad)(const real *dy, real *dv, const u32 *offsets, int d, int more, whole n) {
    EACH(i, n)
    dv[i] = dy[offsets[i / more] * (whole)d + i % more];
}
// Matrices the other way round, one behind the other: x[rows, columns] to y[columns, rows].
KERNEL(transpose)(const real *x, real *y, int rows, int columns, whole n) {
    EACH(i, n)
    u32 place = i % (rows * columns);
    y[i] = x[i - place + place % rows * columns + place / rows];
}

// Every position plus the code of its place in the row.
KERNEL(add_position)(const real *x, const real *codes, real *y, const u32 *row_of, const u32 *offsets, int d, whole n) {
    EACH(i, n)
    whole t = i / d, place = t - offsets[row_of[t]];
    y[i] = x[i] + codes[place * d + i % d];
}
// The number of every position in its row.
KERNEL(positions)(real *y, const u32 *row_of, const u32 *offsets, whole n) {
    EACH(i, n)
    y[i] = (real)(i - offsets[row_of[i]]);
}
// The frequency of a channel, and whether it holds a cosine. Angles are double precision, as on the CPU.
__device__ inline double frequency(int channel, int half, double base, int width, bool *cosine) {
    int sines = (width + 1) / 2;
    int pair = half ? channel % sines : channel / 2;
    *cosine = half ? channel >= sines : channel % 2 == 1;
    return pow(base, -2.0 * pair / width);
}
// Sines and cosines of numbers.
KERNEL(sinusoid)(const real *x, real *y, int half, real base, int width, whole n) {
    EACH(i, n)
    bool cosine;
    double angle = (double)x[i / width] * frequency((int)(i % width), half, base, width, &cosine);
    y[i] = (real)(cosine ? cos(angle) : sin(angle));
}
KERNEL(sinusoid_grad)(const real *dy, const real *x, real *dx, int half, real base, int width, whole n) {
    EACH(i, n)
    real sum = 0;
    for (int c = 0; c < width; c++) {
        bool cosine;
        double w = frequency(c, half, base, width, &cosine), angle = (double)x[i] * w;
        sum += (real)(w * (cosine ? -sin(angle) : cos(angle))) * dy[(whole)i * width + c];
    }
    dx[i] = sum;
}
// The gradient of a learned code: the sum over all rows that reach its place, row after row.
KERNEL(add_position_grad)(const real *dy, real *codes, const u32 *offsets, int d, whole rows, int add, whole n) {
    EACH(i, n)
    whole place = i / d;
    real sum = add ? codes[i] : (real)0;
    for (whole row = 0; row < rows; row++) {
        whole t = offsets[row] + place;
        if (t < offsets[row + 1]) sum += dy[t * d + i % d];
    }
    codes[i] = sum;
}

// Every row behind copies of `pad`: what `to` says of a row beyond what `from` says.
KERNEL(pad_ragged)(const real *x, const real *pad, real *y, const u32 *row_of, const u32 *to, const u32 *from, int d, whole n) {
    EACH(i, n)
    whole t = i / d, c = i % d, row = row_of[t];
    whole back = to[row + 1] - t, length = from[row + 1] - from[row];
    y[i] = back > length ? pad[c] : x[(from[row + 1] - back) * d + c];
}
KERNEL(pad_ragged_grad)(const real *dy, real *dx, const u32 *row_of, const u32 *to, const u32 *from, int d, whole n) {
    EACH(i, n)
    whole t = i / d, row = row_of[t];
    dx[i] = dy[(to[row + 1] - (from[row + 1] - t)) * d + i % d];
}
// The gradient of the pad, row after row: block by block of `per` rows, which `columns` adds up.
KERNEL(pad_ragged_pad_grad)(const real *dy, real *sums, const u32 *to, const u32 *from, int d, whole rows, int per) {
    EACH(c, d)
    whole first = blockIdx.y * (whole)per, end = first + per < rows ? first + per : rows;
    real sum = 0;
    for (whole row = first; row < end; row++) {
        whole count = (whole)(to[row + 1] - to[row]) - (whole)(from[row + 1] - from[row]);
        for (whole t = to[row]; t < to[row] + count; t++) sum += dy[t * d + c];
    }
    sums[blockIdx.y * (whole)d + c] = sum;
}

// [u; v; u v; |u - v|] of the rows u of the first half and v of the second.
KERNEL(pair)(const real *x, real *y, int d, whole pairs) {
    EACH(i, pairs * d)
    whole n = i / d, c = i % d;
    real u = x[i], v = x[pairs * d + i];
    real *out = y + n * 4 * d + c;
    out[0] = u;
    out[d] = v;
    out[2 * d] = u * v;
    out[3 * d] = u > v ? u - v : v - u;
}
KERNEL(pair_grad)(const real *x, const real *dy, real *dx, int d, whole pairs) {
    EACH(i, pairs * d)
    whole n = i / d, c = i % d;
    real u = x[i], v = x[pairs * d + i];
    const real *in = dy + n * 4 * d + c;
    real product = in[2 * d], distance = in[3 * d];
    real slope = u > v ? distance : u < v ? -distance : (real)0;
    dx[i] = in[0] + product * v + slope;
    dx[pairs * d + i] = in[d] + product * u - slope;
}
