// Attention in tiles: a block has 64 queries of one head of one row (64 keys for the gradients of keys), its rows, and goes through the
// keys (queries), its columns, 32 at a time. A warp has 16 rows. What both sides are is staged in shared memory, 64 channels at a time; a
// lane has some numbers of a tile in registers. The maximum runs along, so nothing as long as a row is kept. Backward computes the
// probabilities again: the gradient of queries goes through the keys twice, once for what the softmax sums, once for the slopes.
//
// An ENGINE multiplies: `Single` in the type of the kernels, `Tf32` and `Bf16` with operands of fewer bits, on the units for matrices,
// whose sums are single precision. It says which rows, columns and channels are those of a lane.
//
// Barriers are met by whole blocks: a block leaves as a whole, and whether a tile is passed over is decided by all threads.

#define TILE_ROWS 64
#define TILE_COLUMNS 32
#define TILE_CHANNELS 64
#define TILE_WARPS 4
// From one row to the next: rows that are read together lie in other banks.
#define CHANNEL_STEP (TILE_CHANNELS + 4)
#define COLUMN_STEP (TILE_COLUMNS + 4)

// Loops over what a lane has are unrolled: its numbers are in registers.
#define UNROLLED _Pragma("unroll")

// Four numbers that are read and written together.
struct alignas(4 * sizeof(real)) Four {
    real x[4];
};

__device__ inline int no_more(whole n, int most) { return n < most ? (int)n : most; }

// Four numbers as they are kept.
template <class V> struct Kept : Four {
    __device__ Four numbers() const { return *this; }
    __device__ void set(int n, V number) { this->x[n] = number; }
};
template <> struct alignas(8) Kept<bf16> {
    u32 pairs[2];
    __device__ Four numbers() const {
        Four four = {{upper(pairs[0] << 16), upper(pairs[0]), upper(pairs[1] << 16), upper(pairs[1])}};
        return four;
    }
    __device__ void set(int n, bf16 number) {
        u32 own = (u32)number.bits << n % 2 * 16, other = n % 2 ? 0xFFFFu : 0xFFFF0000u;
        pairs[n / 2] = (pairs[n / 2] & other) | own;
    }
    __device__ static real upper(u32 bits) {
        bf16 number = {(u16)(bits >> 16)};
        return real_of(number);
    }
};

// Rows of numbers in the device's memory, `step` apart, of which those from `first` up to `end` are there; others are zeros. A shift is
// added to each, if there is one.
template <class V> struct Rows {
    const V *at;
    int step, first, end;
    const real *shift;
};
// At most `most` rows from the n-th one on. Of one head among `heads`, with rows of `width` numbers each, of which `count` begin at `start`.
template <class V>
__device__ inline Rows<V> rows_of(const void *base, whole start, int heads, whole head, int width, int n, whole count, int most, const real *shift) {
    const V *at = (const V *)base + ((start + n) * heads + head) * width;
    Rows<V> rows = {at, heads * width, 0, no_more(count - n, most), shift};
    return rows;
}

// Four channels of a row from c on, which lie at a place; zeros outside. Rows of a multiple of four begin at one, as arrays do.
template <class V> __device__ inline Kept<V> kept_of(const Rows<V> &from, const V *at, int row, int c, int width) {
    Kept<V> four = {};
    if (row < from.first || row >= from.end || c >= width) return four;
    int count = width - c < 4 ? width - c : 4;
    if (width % 4 == 0) {
        four = *(const Kept<V> *)at;
        count = 4;
    } else {
        UNROLLED
        for (int x = 0; x < 4; x++) {
            if (x < count) four.set(x, at[x]);
        }
    }
    if (from.shift) {
        UNROLLED
        for (int x = 0; x < 4; x++) {
            V sum;
            put_number(&sum, four.numbers().x[x] + (x < count ? from.shift[c + x] : (real)0));
            four.set(x, sum);
        }
    }
    return four;
}

// Calls `put(row, channel, four)` for COUNT rows of CHANNELS channels from `first` on, the threads of a block side by side. A thread
// reads a few of its numbers before it puts the first one.
template <int COUNT, int CHANNELS, class V, class Put>
__device__ inline void stage(const Rows<V> &from, int first, int width, const Put &put) {
    const int FOURS = CHANNELS / 4, AT_ONCE = TILE_WARPS * WARP / FOURS, TIMES = COUNT / AT_ONCE;
    const int FEW = TIMES % 4 == 0 ? 4 : TIMES % 3 == 0 ? 3 : 2;
    static_assert(TIMES % FEW == 0, "no row behind the last one is put");
    int row = threadIdx.x / FOURS, c = threadIdx.x % FOURS * 4;
    const V *at = from.at + row * from.step + first + c;
    UNROLLED
    for (int few = 0; few < TIMES; few += FEW) {
        Kept<V> fours[FEW];
        UNROLLED
        for (int n = 0; n < FEW; n++) fours[n] = kept_of(from, at + (few + n) * AT_ONCE * from.step, (few + n) * AT_ONCE + row, first + c, width);
        UNROLLED
        for (int n = 0; n < FEW; n++) put((few + n) * AT_ONCE + row, c, fours[n]);
    }
}

// The first of the channels that a block makes of heads of this width.
__device__ inline int slice_of(int width) { return width <= TILE_CHANNELS ? 0 : blockIdx.z * TILE_CHANNELS; }

// A piece of the scores: where it begins, and how many rows and columns it has.
struct Tile {
    int row, column, rows, columns;
};
__device__ inline int tile_warp() { return threadIdx.x / WARP * 16; }
__device__ inline int tile_lane() { return threadIdx.x % WARP; }

// A maximum that can be taken off: 0 where nothing is seen, so that what is hidden stays 0 behind the exponential.
__device__ inline real finite_part(real most) { return most == minus_infinity() ? (real)0 : most; }

// Sums and maxima over the lanes that share a row.
template <class E> __device__ inline real row_sum(real x) {
    for (int step = E::REACH / 2; step > 0; step /= 2) x += __shfl_xor_sync(EVERYONE, x, step);
    return x;
}
template <class E> __device__ inline real row_max(real x) {
    for (int step = E::REACH / 2; step > 0; step /= 2) x = of_both(__shfl_xor_sync(EVERYONE, x, step), x);
    return x;
}

// Products in the type of the kernels. A lane has four neighbouring rows, four neighbouring columns, and four channels of every 32. Of
// rows in shared memory every fourth one comes first, so that lanes read neighbours.
struct Single {
    static const int ROWS = 4, COLUMNS = 4, CHANNELS = 8, REACH = 8;
    // Whether rows stay in shared memory for all columns.
    static const bool KEEPS_ROWS = false;
    // Channels between whose rows codes of distances are staged, and how many distances a tile has.
    static const int HALF = 32, HALF_STEP = HALF + 4, DISTANCES = TILE_ROWS + TILE_COLUMNS;
    struct Shared {
        real left[TILE_ROWS * CHANNEL_STEP], rest[(TILE_COLUMNS * CHANNEL_STEP) + (TILE_ROWS * COLUMN_STEP)];
        __device__ real *right() { return rest; }
        __device__ real *weights() { return rest + TILE_COLUMNS * CHANNEL_STEP; }
    };
    __device__ static int row(int r) { return tile_warp() + tile_lane() / 8 * 4 + r; }
    __device__ static int column(int c) { return tile_lane() % 8 * 4 + c; }
    __device__ static int channel(int c) { return tile_lane() % 8 * 4 + c / 4 * 32 + c % 4; }
    // Where rows, columns and distances lie. Lanes read the r-th row of theirs, so those lie side by side.
    __device__ static int row_place(int n) { return n / 16 * 16 + n % 4 * 4 + n % 16 / 4; }
    __device__ static int column_place(int n) { return n % 4 * 8 + n / 4; }
    __device__ static int distance_place(int n) { return n % 4 * (DISTANCES / 4) + n / 4; }
    __device__ static int own_row(int r) { return tile_warp() + r * 4 + tile_lane() / 8; }
    __device__ static int own_column(int c) { return c * 8 + tile_lane() % 8; }
    __device__ static Four four(const real *from) { return *(const Four *)from; }
    // e^(x - base).
    __device__ static real exponential_from(real x, real base) { return exponential(x - base); }

    // Which numbers of a lane dropout keeps, a bit each; `draws` has the key of each query of the tile.
    template <bool BY_ROW> __device__ static u32 kept_bits(const Tile &t, const u64 *draws, u32 threshold) {
        u32 bits = 0;
        UNROLLED
        for (int n = 0; n < 4; n++) {
            u32 four = BY_ROW ? four_kept(draws[row(n)], t.column + column(0), threshold) : four_kept(draws[column(n)], t.row + row(0), threshold);
            UNROLLED
            for (int m = 0; m < 4; m++) bits |= (four >> m & 1) << (BY_ROW ? n * COLUMNS + m : m * COLUMNS + n);
        }
        return bits;
    }

    // x[row][column] += left right^T.
    template <class V>
    __device__ static void score(real (&x)[ROWS][COLUMNS], Shared &s, int, bool, const Rows<V> &left, const Rows<V> &right, int width) {
        for (int first = 0; first < width; first += TILE_CHANNELS) {
            __syncthreads();
            stage<TILE_ROWS, TILE_CHANNELS>(left, first, width, [&](int n, int c, const Kept<V> &x) {
                *(Four *)(s.left + row_place(n) * CHANNEL_STEP + c) = x.numbers();
            });
            stage<TILE_COLUMNS, TILE_CHANNELS>(right, first, width, [&](int n, int c, const Kept<V> &x) {
                *(Four *)(s.right() + column_place(n) * CHANNEL_STEP + c) = x.numbers();
            });
            __syncthreads();
            if (tile_warp() >= left.end) continue;
            int end = no_more(width - first, TILE_CHANNELS);
            const real *rows = s.left + own_row(0) * CHANNEL_STEP, *columns = s.right() + own_column(0) * CHANNEL_STEP;
            for (int k = 0; k < end; k += 4) {
                Four a[ROWS], b[COLUMNS];
                UNROLLED
                for (int r = 0; r < ROWS; r++) a[r] = four(rows + r * 4 * CHANNEL_STEP + k);
                UNROLLED
                for (int c = 0; c < COLUMNS; c++) b[c] = four(columns + c * 8 * CHANNEL_STEP + k);
                UNROLLED
                for (int m = 0; m < 4; m++) {
                    UNROLLED
                    for (int r = 0; r < ROWS; r++) {
                        UNROLLED
                        for (int c = 0; c < COLUMNS; c++) x[r][c] += a[r].x[m] * b[c].x[m];
                    }
                }
            }
        }
    }

    // Weights for `weigh`, in which the block meets before they are read.
    __device__ static void keep(Shared &s, const real (&x)[ROWS][COLUMNS]) {
        __syncwarp();
        UNROLLED
        for (int r = 0; r < ROWS; r++) {
            Four four = {{x[r][0], x[r][1], x[r][2], x[r][3]}};
            *(Four *)(s.weights() + own_row(r) * COLUMN_STEP + column(0)) = four;
        }
    }

    // out[row][channel] += weights right, for 64 channels from `first` on.
    template <class V>
    __device__ static void weigh(real (&out)[ROWS][CHANNELS], Shared &s, const real (&x)[ROWS][COLUMNS], const Rows<V> &right, int first, int width, bool idle) {
        keep(s, x);
        __syncthreads();
        stage<TILE_COLUMNS, TILE_CHANNELS>(right, first, width, [&](int n, int c, const Kept<V> &x) {
            *(Four *)(s.right() + n * CHANNEL_STEP + c) = x.numbers();
        });
        __syncthreads();
        if (idle) return;
        const real *weights = s.weights() + own_row(0) * COLUMN_STEP, *channels = s.right() + channel(0);
        UNROLLED
        for (int m = 0; m < CHANNELS / 4; m++) {
            if (first + m * HALF >= width) break;
            for (int k = 0; k < TILE_COLUMNS; k += 4) {
                Four w[ROWS];
                UNROLLED
                for (int r = 0; r < ROWS; r++) w[r] = four(weights + r * 4 * COLUMN_STEP + k);
                UNROLLED
                for (int n = 0; n < 4; n++) {
                    Four v = four(channels + (k + n) * CHANNEL_STEP + m * HALF);
                    UNROLLED
                    for (int r = 0; r < ROWS; r++) {
                        UNROLLED
                        for (int y = 0; y < 4; y++) out[r][m * 4 + y] += w[r].x[n] * v.x[y];
                    }
                }
            }
        }
    }

    // Codes of the distances of a tile from `lowest` on. There are none for distances at which no query sees a key.
    __device__ static Rows<real> distances(const Attend &a, const Head &h, int lowest) {
        int least = a.causal ? 0 : 1 - (int)h.keys;
        Rows<real> codes = {a.codes + ((whole)(a.last - lowest) * a.heads + h.head) * a.e, -a.heads * a.e, 0, no_more(h.queries - lowest, DISTANCES), 0};
        if (least > lowest) codes.first = no_more(least - lowest, DISTANCES);
        return codes;
    }
    __device__ static void stage_codes(real *to, const Rows<real> &codes, int first, int width) {
        stage<DISTANCES, HALF>(codes, first, width, [&](int n, int c, const Kept<real> &x) {
            *(Four *)(to + distance_place(n) * HALF_STEP + c) = x.numbers();
        });
    }

    // x[row][column] += query code, with queries as rows or as columns.
    template <bool BY_ROW, class V>
    __device__ static void score_codes(real (&x)[ROWS][COLUMNS], Shared &s, const Rows<V> &queries, const Rows<real> &d, int width, bool idle) {
        // Codes take more room than columns do: weights are made later.
        real *codes = BY_ROW ? s.rest : s.left, *own = BY_ROW ? s.left : s.rest;
        for (int first = 0; first < width; first += HALF) {
            __syncthreads();
            if (BY_ROW) {
                stage<TILE_ROWS, HALF>(queries, first, width, [&](int n, int c, const Kept<V> &x) {
                    *(Four *)(own + row_place(n) * HALF_STEP + c) = x.numbers();
                });
            } else {
                stage<TILE_COLUMNS, HALF>(queries, first, width, [&](int n, int c, const Kept<V> &x) {
                    *(Four *)(own + column_place(n) * HALF_STEP + c) = x.numbers();
                });
            }
            stage_codes(codes, d, first, width);
            __syncthreads();
            if (idle) continue;
            int end = no_more(width - first, HALF);
            int nearest = BY_ROW ? row(0) - column(0) + TILE_COLUMNS - 4 : column(0) - row(0) + TILE_ROWS - 4;
            for (int k = 0; k < end; k += 4) {
                Four q[4], code[7];
                UNROLLED
                for (int n = 0; n < 4; n++) q[n] = four(own + (BY_ROW ? own_row(n) : own_column(n)) * HALF_STEP + k);
                UNROLLED
                for (int n = 0; n < 7; n++) code[n] = four(codes + distance_place(nearest + n) * HALF_STEP + k);
                UNROLLED
                for (int m = 0; m < 4; m++) {
                    UNROLLED
                    for (int r = 0; r < ROWS; r++) {
                        UNROLLED
                        for (int c = 0; c < COLUMNS; c++) {
                            x[r][c] += q[BY_ROW ? r : c].x[m] * code[BY_ROW ? r - c + 3 : c - r + 3].x[m];
                        }
                    }
                }
            }
        }
        // Weights are kept where codes were.
        if (BY_ROW) __syncthreads();
    }

    // out[row][channel] += weights codes, of weights that were kept.
    __device__ static void weigh_codes(real (&out)[ROWS][CHANNELS], Shared &s, const Rows<real> &d, int first, int width, bool idle) {
        const real *weights = s.weights() + own_row(0) * COLUMN_STEP;
        UNROLLED
        for (int m = 0; m < CHANNELS / 4; m++) {
            if (first + m * HALF >= width) break;
            __syncthreads();
            stage_codes(s.left, d, first + m * HALF, width);
            __syncthreads();
            if (idle) continue;
            for (int k = 0; k < TILE_COLUMNS; k += 4) {
                Four w[ROWS], code[7];
                int nearest = row(0) - k + TILE_COLUMNS - 4;
                UNROLLED
                for (int r = 0; r < ROWS; r++) w[r] = four(weights + r * 4 * COLUMN_STEP + k);
                UNROLLED
                for (int n = 0; n < 7; n++) code[n] = four(s.left + distance_place(nearest + n) * HALF_STEP + channel(0));
                UNROLLED
                for (int n = 0; n < 4; n++) {
                    UNROLLED
                    for (int r = 0; r < ROWS; r++) {
                        UNROLLED
                        for (int y = 0; y < 4; y++) out[r][m * 4 + y] += w[r].x[n] * code[r - n + 3].x[y];
                    }
                }
            }
        }
    }
};

// Products on the units for matrices: a warp has a fragment of 16 rows. A lane has rows n and n + 8, and pairs of columns and of channels.
struct Fragments {
    static const int ROWS = 2, COLUMNS = 8, CHANNELS = 16, REACH = 4;
    __device__ static int row(int r) { return tile_warp() + tile_lane() / 4 + r * 8; }
    __device__ static int column(int c) { return tile_lane() % 4 * 2 + c / 2 * 8 + c % 2; }
    __device__ static int channel(int c) { return column(c); }
    static const bool KEEPS_ROWS = true;
    // e^(x - base), as exact as the operands are.
    __device__ static real exponential_from(real x, real base) {
        const float LOG2_E = 1.4426950408889634f;
        return power_of_two((float)x * LOG2_E - (float)base * LOG2_E);
    }

    // Lanes whose keys share draws share the work: the keys of a lane and its next neighbour if they are columns, of four rows else.
    template <bool BY_ROW> __device__ static u32 kept_bits(const Tile &t, const u64 *draws, u32 threshold) {
        const int SHARING = BY_ROW ? 2 : 4, STEP = BY_ROW ? 1 : 4, FOURS = BY_ROW ? 8 : 16;
        int lane = tile_lane(), turn = lane / STEP % SHARING, within = BY_ROW ? turn * 2 : turn;
        u32 mine = 0;
        UNROLLED
        for (int n = 0; n < FOURS / SHARING; n++) {
            // Four number n SHARING + turn of rows and pairs of columns, or of rows and columns.
            int four = n * SHARING + turn;
            u64 key = draws[BY_ROW ? tile_warp() + lane / 4 + four % 2 * 8 : lane % 4 * 2 + four / 4 * 8 + four / 2 % 2];
            int j = BY_ROW ? t.column + four / 2 * 8 + lane % 4 * 2 : t.row + tile_warp() + lane / 4 + four % 2 * 8;
            mine |= four_kept(key, j, threshold) << n * 4;
        }
        u32 bits = 0;
        UNROLLED
        for (int other = 0; other < SHARING; other++) {
            u32 theirs = other ? __shfl_xor_sync(EVERYONE, mine, other * STEP) : mine;
            int from = turn ^ other;
            UNROLLED
            for (int n = 0; n < FOURS / SHARING; n++) {
                int four = n * SHARING + from;
                if (BY_ROW) bits |= (theirs >> (n * 4 + within) & 3) << (four % 2 * COLUMNS + four / 2 * 2);
                else bits |= (theirs >> (n * 4 + within) & 1) << (four % 2 * COLUMNS + four / 2);
            }
        }
        return bits;
    }
};

// Operands of 8 bits behind the leading one; a row of 64 takes 16 bytes more than it has, so that eight lie in other banks.
struct Bf16 : Fragments {
    static const int STEP = TILE_CHANNELS + 8;
    struct alignas(16) Shared {
        u16 left[2][TILE_ROWS * STEP], right[TILE_COLUMNS * STEP];
    };
    // Four numbers as pairs.
    struct alignas(8) Pairs {
        u32 x[2];
    };
    __device__ static void put(u16 *to, const Kept<real> &x) {
        Pairs pairs = {{pair_of_bf16(x.x[0], x.x[1]), pair_of_bf16(x.x[2], x.x[3])}};
        *(Pairs *)to = pairs;
    }
    __device__ static void put(u16 *to, const Kept<bf16> &x) { *(Kept<bf16> *)to = x; }

    template <class V>
    __device__ static void score(real (&x)[ROWS][COLUMNS], Shared &s, int side, bool again, const Rows<V> &left, const Rows<V> &right, int width) {
        u16 *rows = s.left[side];
        int lane = tile_lane();
        for (int first = 0; first < width; first += TILE_CHANNELS) {
            __syncthreads();
            if (!again || width > TILE_CHANNELS) {
                stage<TILE_ROWS, TILE_CHANNELS>(left, first, width, [&](int n, int c, const Kept<V> &x) { put(rows + n * STEP + c, x); });
            }
            stage<TILE_COLUMNS, TILE_CHANNELS>(right, first, width, [&](int n, int c, const Kept<V> &x) { put(s.right + n * STEP + c, x); });
            __syncthreads();
            if (tile_warp() >= left.end) continue;
            int end = no_more(width - first, TILE_CHANNELS);
            for (int k = 0; k < end; k += 16) {
                u32 a[4], b[4];
                load_matrices(a, rows + (tile_warp() + lane % 16) * STEP + k + lane / 16 * 8);
                UNROLLED
                for (int n = 0; n < 2; n++) {
                    load_matrices(b, s.right + (n * 16 + lane % 8 + lane / 16 * 8) * STEP + k + lane / 8 % 2 * 8);
                    UNROLLED
                    for (int m = 0; m < 2; m++) {
                        int c = n * 4 + m * 2;
                        multiply_bf16(x[0][c], x[0][c + 1], x[1][c], x[1][c + 1], a, b[m * 2], b[m * 2 + 1]);
                    }
                }
            }
        }
    }

    template <class V>
    __device__ static void weigh(real (&out)[ROWS][CHANNELS], Shared &s, const real (&x)[ROWS][COLUMNS], const Rows<V> &right, int first, int width, bool idle) {
        int lane = tile_lane();
        __syncthreads();
        stage<TILE_COLUMNS, TILE_CHANNELS>(right, first, width, [&](int n, int c, const Kept<V> &x) { put(s.right + n * STEP + c, x); });
        __syncthreads();
        if (idle) return;
        for (int k = 0; k < TILE_COLUMNS / 16; k++) {
            // What a lane has of the scores is what it must have of the left matrix.
            u32 a[4], b[4];
            UNROLLED
            for (int n = 0; n < 4; n++) a[n] = pair_of_bf16(x[n % 2][k * 4 + n / 2 * 2], x[n % 2][k * 4 + n / 2 * 2 + 1]);
            UNROLLED
            for (int n = 0; n < TILE_CHANNELS / 16; n++) {
                if (first + n * 16 >= width) break;
                load_turned_matrices(b, s.right + (k * 16 + lane % 16) * STEP + n * 16 + lane / 16 * 8);
                UNROLLED
                for (int m = 0; m < 2; m++) {
                    int c = n * 4 + m * 2;
                    multiply_bf16(out[0][c], out[0][c + 1], out[1][c], out[1][c + 1], a, b[m * 2], b[m * 2 + 1]);
                }
            }
        }
    }
};

// Operands of 10 bits behind the leading one.
struct Tf32 : Fragments {
    static const int STEP = CHANNEL_STEP;
    struct alignas(16) Shared {
        u32 left[2][TILE_ROWS * STEP], right[TILE_COLUMNS * STEP];
    };
    struct alignas(16) Fours {
        u32 x[4];
    };
    template <class V> __device__ static void put(u32 *to, const Kept<V> &kept) {
        Four x = kept.numbers();
        Fours fours = {{bits_of_tf32(x.x[0]), bits_of_tf32(x.x[1]), bits_of_tf32(x.x[2]), bits_of_tf32(x.x[3])}};
        *(Fours *)to = fours;
    }

    template <class V>
    __device__ static void score(real (&x)[ROWS][COLUMNS], Shared &s, int side, bool again, const Rows<V> &left, const Rows<V> &right, int width) {
        u32 *rows = s.left[side];
        int lane = tile_lane();
        for (int first = 0; first < width; first += TILE_CHANNELS) {
            __syncthreads();
            if (!again || width > TILE_CHANNELS) {
                stage<TILE_ROWS, TILE_CHANNELS>(left, first, width, [&](int n, int c, const Kept<V> &x) { put(rows + n * STEP + c, x); });
            }
            stage<TILE_COLUMNS, TILE_CHANNELS>(right, first, width, [&](int n, int c, const Kept<V> &x) { put(s.right + n * STEP + c, x); });
            __syncthreads();
            if (tile_warp() >= left.end) continue;
            int end = no_more(width - first, TILE_CHANNELS);
            for (int k = 0; k < end; k += 8) {
                u32 a[4], b[4];
                load_matrices(a, rows + (tile_warp() + lane % 16) * STEP + k + lane / 16 * 4);
                UNROLLED
                for (int n = 0; n < 2; n++) {
                    load_matrices(b, s.right + (n * 16 + lane % 8 + lane / 16 * 8) * STEP + k + lane / 8 % 2 * 4);
                    UNROLLED
                    for (int m = 0; m < 2; m++) {
                        int c = n * 4 + m * 2;
                        multiply_tf32(x[0][c], x[0][c + 1], x[1][c], x[1][c + 1], a, b[m * 2], b[m * 2 + 1]);
                    }
                }
            }
        }
    }

    template <class V>
    __device__ static void weigh(real (&out)[ROWS][CHANNELS], Shared &s, const real (&x)[ROWS][COLUMNS], const Rows<V> &right, int first, int width, bool idle) {
        int lane = tile_lane();
        __syncthreads();
        stage<TILE_COLUMNS, TILE_CHANNELS>(right, first, width, [&](int n, int c, const Kept<V> &x) { put(s.right + n * STEP + c, x); });
        __syncthreads();
        if (idle) return;
        for (int k = 0; k < TILE_COLUMNS / 8; k++) {
            // A lane has scores of neighbouring columns; the unit takes terms in any order, so these are terms t and t + 4 to it.
            u32 a[4];
            UNROLLED
            for (int n = 0; n < 4; n++) a[n] = bits_of_tf32(x[n % 2][k * 2 + n / 2]);
            const u32 *b = s.right + (k * 8 + lane % 4 * 2) * STEP + lane / 4;
            UNROLLED
            for (int n = 0; n < TILE_CHANNELS / 8; n++) {
                if (first + n * 8 >= width) break;
                multiply_tf32(out[0][n * 2], out[0][n * 2 + 1], out[1][n * 2], out[1][n * 2 + 1], a, b[n * 8], b[STEP + n * 8]);
            }
        }
    }
};

// What is added to the scores of a lane, minus infinity where a key is hidden or there is none. With queries as rows, or as columns.
// Whether there is anything else. Rows behind the last one may have any scores, as nobody asks for their results.
template <class E, bool BY_ROW, class Rule>
__device__ inline bool look(const Attend &a, const Rule &rule, const Head &h, const Tile &t, real (&more)[E::ROWS][E::COLUMNS]) {
    bool open = t.columns == TILE_COLUMNS && rule.open(a, h, BY_ROW ? t.row : t.column, BY_ROW ? t.column : t.row,
                                                       BY_ROW ? TILE_ROWS : TILE_COLUMNS, BY_ROW ? TILE_COLUMNS : TILE_ROWS);
    bool seen = open;
    UNROLLED
    for (int r = 0; r < E::ROWS; r++) {
        UNROLLED
        for (int c = 0; c < E::COLUMNS; c++) {
            more[r][c] = 0;
            if (open) continue;
            bool there = E::row(r) < t.rows && E::column(c) < t.columns;
            int row = t.row + E::row(r), column = t.column + E::column(c);
            more[r][c] = there ? rule.at(a, h, BY_ROW ? row : column, BY_ROW ? column : row) : minus_infinity();
            seen = seen || more[r][c] != minus_infinity();
        }
    }
    return seen;
}

// What dropout leaves of the numbers of a lane.
template <class E, bool BY_ROW>
__device__ inline void drop(const Attend &a, const Tile &t, const u64 *draws, real (&x)[E::ROWS][E::COLUMNS]) {
    u32 bits = E::template kept_bits<BY_ROW>(t, draws, a.threshold);
    UNROLLED
    for (int r = 0; r < E::ROWS; r++) {
        UNROLLED
        for (int c = 0; c < E::COLUMNS; c++) x[r][c] = bits >> (r * E::COLUMNS + c) & 1 ? x[r][c] * a.factor : (real)0;
    }
}
// The keys of the draws of `count` queries from i on.
__device__ inline void draw_keys(const Attend &a, const Head &h, int i, int count, u64 *draws) {
    if (a.threshold && (int)threadIdx.x < count) draws[threadIdx.x] = key_at(h.key, i + threadIdx.x);
}

// The products of the queries and keys of a tile. Queries are given as they meet keys, shifted where there are codes of distances.
template <class E, bool RELATIVE, bool BY_ROW, class V>
__device__ inline void tile_products(const Attend &a, const Head &h, const Tile &t, typename E::Shared &s, bool again, Rows<V> queries, const Rows<V> &keys, bool idle, real (&x)[E::ROWS][E::COLUMNS]) {
    E::score(x, s, 0, again, BY_ROW ? queries : keys, BY_ROW ? keys : queries, a.e);
    if constexpr (RELATIVE) {
        queries.shift = a.shift_r + h.head * a.e;
        int lowest = BY_ROW ? t.row - t.column - (TILE_COLUMNS - 1) : t.column - t.row - (TILE_ROWS - 1);
        E::template score_codes<BY_ROW>(x, s, queries, E::distances(a, h, lowest), a.e, idle);
    }
}

// Queries, keys, values and results, and their gradients, are kept as V.
template <class E, class V, bool RELATIVE, class Rule> __device__ inline void tile_attend(const Attend &a, const Rule &rule, real *y) {
    __shared__ typename E::Shared s;
    __shared__ u64 draws[TILE_ROWS];
    Head h = head_of(a, blockIdx.x);
    // The last queries see the most keys, and begin first.
    int first = (gridDim.y - 1 - blockIdx.y) * TILE_ROWS;
    if (first >= h.queries) return;
    int begin = slice_of(a.ev);
    Tile t = {first, 0, no_more(h.queries - first, TILE_ROWS), 0};
    bool idle = tile_warp() >= t.rows;
    Rows<V> queries = rows_of<V>(a.q, h.q_start, a.heads, h.head, a.e, first, h.queries, TILE_ROWS, RELATIVE ? a.shift_k + h.head * a.e : 0);
    draw_keys(a, h, first, TILE_ROWS, draws);
    real out[E::ROWS][E::CHANNELS] = {}, most[E::ROWS], sum[E::ROWS];
    UNROLLED
    for (int r = 0; r < E::ROWS; r++) {
        most[r] = minus_infinity();
        sum[r] = 0;
    }
    // Whether the rows were staged before.
    bool again = false;
    Span all = rule.keys_of(a, h, first, first + t.rows - 1);
    for (t.column = (int)all.first / TILE_COLUMNS * TILE_COLUMNS; t.column < all.end; t.column += TILE_COLUMNS) {
        t.columns = no_more(h.keys - t.column, TILE_COLUMNS);
        real x[E::ROWS][E::COLUMNS] = {}, more[E::ROWS][E::COLUMNS];
        if (!__syncthreads_or(look<E, true>(a, rule, h, t, more))) continue;
        tile_products<E, RELATIVE, true>(a, h, t, s, again, queries, rows_of<V>(a.k, h.k_start, a.key_heads, h.key_head, a.e, t.column, h.keys, TILE_COLUMNS, 0), idle, x);
        UNROLLED
        for (int r = 0; r < E::ROWS; r++) {
            real top = most[r];
            UNROLLED
            for (int c = 0; c < E::COLUMNS; c++) {
                real unused;
                x[r][c] = capped(a, x[r][c], more[r][c], &unused);
                top = of_both(x[r][c], top);
            }
            top = row_max<E>(top);
            // While no key was seen all sums are 0.
            real base = finite_part(top), correction = E::exponential_from(most[r], base);
            most[r] = top;
            sum[r] *= correction;
            UNROLLED
            for (int c = 0; c < E::COLUMNS; c++) {
                x[r][c] = E::exponential_from(x[r][c], base);
                sum[r] += x[r][c];
            }
            UNROLLED
            for (int c = 0; c < E::CHANNELS; c++) out[r][c] *= correction;
        }
        again = E::KEEPS_ROWS;
        if (a.threshold) drop<E, true>(a, t, draws, x);
        E::weigh(out, s, x, rows_of<V>(a.v, h.k_start, a.key_heads, h.key_head, a.ev, t.column, h.keys, TILE_COLUMNS, 0), begin, a.ev, idle);
    }
    UNROLLED
    for (int r = 0; r < E::ROWS; r++) {
        real total = row_sum<E>(sum[r]), inverse = total == (real)0 ? (real)0 : (real)1 / total;
        if (E::row(r) >= t.rows) continue;
        V *to = (V *)y + ((h.q_start + first + E::row(r)) * a.heads + h.head) * a.ev;
        UNROLLED
        for (int c = 0; c < E::CHANNELS; c++) {
            int channel = begin + E::channel(c);
            if (channel < a.ev) put_number(to + channel, out[r][c] * inverse);
        }
    }
}

// dq = scale dS S k, as in attend.cu, and what the gradients of keys need: for every query and head the maximum, 1 / sum and sum P D.
template <class E, class V, bool RELATIVE, class Rule>
__device__ inline void tile_queries(const Attend &a, const Rule &rule, const real *dy, real *dq, real *stats, real *by_keys, real *by_codes) {
    __shared__ typename E::Shared s;
    __shared__ u64 draws[TILE_ROWS];
    Head h = head_of(a, blockIdx.x);
    int first = (gridDim.y - 1 - blockIdx.y) * TILE_ROWS;
    if (first >= h.queries) return;
    int begin = slice_of(a.e);
    Tile t = {first, 0, no_more(h.queries - first, TILE_ROWS), 0};
    bool idle = tile_warp() >= t.rows;
    Rows<V> queries = rows_of<V>(a.q, h.q_start, a.heads, h.head, a.e, first, h.queries, TILE_ROWS, RELATIVE ? a.shift_k + h.head * a.e : 0);
    Rows<V> slopes = rows_of<V>(dy, h.q_start, a.heads, h.head, a.ev, first, h.queries, TILE_ROWS, 0);
    draw_keys(a, h, first, TILE_ROWS, draws);
    real own[E::ROWS][E::CHANNELS] = {}, by_code[E::ROWS][E::CHANNELS] = {}, most[E::ROWS], inverse[E::ROWS], mean[E::ROWS];
    UNROLLED
    for (int r = 0; r < E::ROWS; r++) {
        most[r] = minus_infinity();
        // The sum, until all keys have been seen.
        inverse[r] = 0;
        mean[r] = 0;
    }
    bool again = false;
    Span all = rule.keys_of(a, h, first, first + t.rows - 1);
    for (int pass = 0; pass < 2; pass++) {
        for (t.column = (int)all.first / TILE_COLUMNS * TILE_COLUMNS; t.column < all.end; t.column += TILE_COLUMNS) {
            t.columns = no_more(h.keys - t.column, TILE_COLUMNS);
            real p[E::ROWS][E::COLUMNS] = {}, d[E::ROWS][E::COLUMNS] = {}, more[E::ROWS][E::COLUMNS];
            if (!__syncthreads_or(look<E, true>(a, rule, h, t, more))) continue;
            Rows<V> keys = rows_of<V>(a.k, h.k_start, a.key_heads, h.key_head, a.e, t.column, h.keys, TILE_COLUMNS, 0);
            tile_products<E, RELATIVE, true>(a, h, t, s, again, queries, keys, idle, p);
            UNROLLED
            for (int r = 0; r < E::ROWS; r++) {
                UNROLLED
                for (int c = 0; c < E::COLUMNS; c++) p[r][c] = capped(a, p[r][c], more[r][c], &more[r][c]);
            }
            E::score(d, s, 1, again, slopes, rows_of<V>(a.v, h.k_start, a.key_heads, h.key_head, a.ev, t.column, h.keys, TILE_COLUMNS, 0), a.ev);
            again = E::KEEPS_ROWS;
            if (a.threshold) drop<E, true>(a, t, draws, d);
            if (pass == 0) {
                UNROLLED
                for (int r = 0; r < E::ROWS; r++) {
                    real top = most[r];
                    UNROLLED
                    for (int c = 0; c < E::COLUMNS; c++) top = of_both(p[r][c], top);
                    top = row_max<E>(top);
                    real base = finite_part(top), correction = E::exponential_from(most[r], base);
                    most[r] = top;
                    inverse[r] *= correction;
                    mean[r] *= correction;
                    UNROLLED
                    for (int c = 0; c < E::COLUMNS; c++) {
                        real mine = E::exponential_from(p[r][c], base);
                        inverse[r] += mine;
                        mean[r] += mine * d[r][c];
                    }
                }
                continue;
            }
            UNROLLED
            for (int r = 0; r < E::ROWS; r++) {
                UNROLLED
                for (int c = 0; c < E::COLUMNS; c++) {
                    p[r][c] = E::exponential_from(p[r][c], finite_part(most[r])) * inverse[r] * (d[r][c] - mean[r]) * more[r][c];
                }
            }
            E::weigh(own, s, p, keys, begin, a.e, idle);
            if constexpr (RELATIVE) E::weigh_codes(by_code, s, E::distances(a, h, t.row - t.column - (TILE_COLUMNS - 1)), begin, a.e, idle);
        }
        for (int r = 0; r < E::ROWS && pass == 0; r++) {
            real total = row_sum<E>(inverse[r]);
            inverse[r] = total == (real)0 ? (real)0 : (real)1 / total;
            mean[r] = row_sum<E>(mean[r]) * inverse[r];
        }
    }
    UNROLLED
    for (int r = 0; r < E::ROWS; r++) {
        if (E::row(r) >= t.rows) continue;
        whole place = (h.q_start + first + E::row(r)) * a.heads + h.head;
        UNROLLED
        for (int c = 0; c < E::CHANNELS; c++) {
            int channel = begin + E::channel(c);
            if (channel >= a.e) continue;
            real sum = a.scale * own[r][c];
            if (RELATIVE) {
                real more = a.scale * by_code[r][c];
                by_keys[place * a.e + channel] = sum;
                by_codes[place * a.e + channel] = more;
                sum += more;
            }
            put_number((V *)dq + place * a.e + channel, sum);
        }
        if (begin == 0 && E::column(0) == 0) {
            stats[3 * place] = most[r];
            stats[3 * place + 1] = inverse[r];
            stats[3 * place + 2] = mean[r];
        }
    }
}

// dk = scale (dS S)^T q and dv = (P F)^T dy: keys are the rows. A block goes through the heads that read a key head in order.
template <class E, class V, bool RELATIVE, class Rule>
__device__ inline void tile_keys(const Attend &a, const Rule &rule, const real *dy, const real *stats, real *dk, real *dv) {
    __shared__ typename E::Shared s;
    __shared__ u64 draws[TILE_COLUMNS];
    __shared__ real known[3 * TILE_COLUMNS];
    whole row = blockIdx.x / a.key_heads, key_head = blockIdx.x % a.key_heads, sharing = a.heads / a.key_heads;
    int first = blockIdx.y * TILE_ROWS;
    whole k_start = a.k_offsets[row], count = a.k_offsets[row + 1] - k_start;
    if (first >= count) return;
    int begin = slice_of(a.e > a.ev ? a.e : a.ev);
    Tile t = {first, 0, no_more(count - first, TILE_ROWS), 0};
    bool idle = tile_warp() >= t.rows;
    real of_keys[E::ROWS][E::CHANNELS] = {}, of_values[E::ROWS][E::CHANNELS] = {};
    // Keys and values are the same for all heads that read them.
    bool again = false;
    for (whole head = key_head * sharing; head < (key_head + 1) * sharing; head++) {
        Head h = head_at(a, row, head);
        Rows<V> keys = rows_of<V>(a.k, h.k_start, a.key_heads, h.key_head, a.e, first, h.keys, TILE_ROWS, 0);
        Rows<V> values = rows_of<V>(a.v, h.k_start, a.key_heads, h.key_head, a.ev, first, h.keys, TILE_ROWS, 0);
        Span all = rule.queries_of(a, h, first, first + t.rows - 1);
        for (t.column = (int)all.first / TILE_COLUMNS * TILE_COLUMNS; t.column < all.end; t.column += TILE_COLUMNS) {
            t.columns = no_more(h.queries - t.column, TILE_COLUMNS);
            real p[E::ROWS][E::COLUMNS] = {}, d[E::ROWS][E::COLUMNS] = {}, more[E::ROWS][E::COLUMNS];
            if (!__syncthreads_or(look<E, false>(a, rule, h, t, more))) continue;
            // Those behind the last query, too: they are read, for weights that are 0.
            draw_keys(a, h, t.column, TILE_COLUMNS, draws);
            for (int n = threadIdx.x; n < 3 * t.columns; n += TILE_WARPS * WARP) {
                known[n] = stats[3 * ((h.q_start + t.column + n / 3) * a.heads + h.head) + n % 3];
            }
            Rows<V> queries = rows_of<V>(a.q, h.q_start, a.heads, h.head, a.e, t.column, h.queries, TILE_COLUMNS, RELATIVE ? a.shift_k + h.head * a.e : 0);
            Rows<V> slopes = rows_of<V>(dy, h.q_start, a.heads, h.head, a.ev, t.column, h.queries, TILE_COLUMNS, 0);
            tile_products<E, RELATIVE, false>(a, h, t, s, again, queries, keys, idle, p);
            UNROLLED
            for (int c = 0; c < E::COLUMNS; c++) {
                // A column behind the last one has no numbers, and hides all its keys.
                const real *own = known + 3 * (E::column(c) < t.columns ? E::column(c) : 0);
                UNROLLED
                for (int r = 0; r < E::ROWS; r++) {
                    real slope, score = capped(a, p[r][c], more[r][c], &slope);
                    p[r][c] = E::exponential_from(score, finite_part(own[0])) * own[1];
                    more[r][c] = slope;
                }
            }
            E::score(d, s, 1, again, values, slopes, a.ev);
            again = E::KEEPS_ROWS;
            // d becomes the slopes of products, and `of` what values are weighed by.
            real of[E::ROWS][E::COLUMNS];
            UNROLLED
            for (int r = 0; r < E::ROWS; r++) {
                UNROLLED
                for (int c = 0; c < E::COLUMNS; c++) of[r][c] = p[r][c];
            }
            if (a.threshold) drop<E, false>(a, t, draws, of);
            UNROLLED
            for (int r = 0; r < E::ROWS; r++) {
                UNROLLED
                for (int c = 0; c < E::COLUMNS; c++) {
                    const real *own = known + 3 * (E::column(c) < t.columns ? E::column(c) : 0);
                    d[r][c] = (of[r][c] * d[r][c] - p[r][c] * own[2]) * more[r][c];
                }
            }
            E::weigh(of_values, s, of, slopes, begin, a.ev, idle);
            E::weigh(of_keys, s, d, queries, begin, a.e, idle);
        }
    }
    UNROLLED
    for (int r = 0; r < E::ROWS; r++) {
        if (E::row(r) >= t.rows) continue;
        whole place = (k_start + first + E::row(r)) * a.key_heads + key_head;
        UNROLLED
        for (int c = 0; c < E::CHANNELS; c++) {
            int channel = begin + E::channel(c);
            if (channel < a.e) put_number((V *)dk + place * a.e + channel, a.scale * of_keys[r][c]);
            if (channel < a.ev) put_number((V *)dv + place * a.ev + channel, of_values[r][c]);
        }
    }
}
