// What all kernels share. `real` is the number type of the whole program: float on a device, also double where the kernels are
// compared with the CPU.
//
// A KERNEL's threads know nothing of one another; the threads of a TEAM's block, or of its warps, meet. Nothing is atomic, and
// every sum has a fixed order, so the same launch gives the same bits.

typedef REAL real;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef long long whole;

// Numbers by their bits: a compiler for devices leaves a division by zero to the device.
#ifndef KERNEL
#define KERNEL(name) extern "C" __global__ void rtc_##name
#define TEAM(name) extern "C" __global__ void rtc_##name
#define MINUS_INFINITY __int_as_float(0xff800000)
#define NOT_A_NUMBER __int_as_float(0x7fffffff)
#else
#define MINUS_INFINITY (-HUGE_VAL)
#define NOT_A_NUMBER NAN
#endif

// A number in 16 bits: the upper half of a float. Values may be kept so; what is computed from them is computed in `real`.
struct bf16 {
    u16 bits;
};

#define WARP 32
#define EVERYONE 0xFFFFFFFFu

// The number of this thread among all of the launch, `i`; those at `n` and behind have no work. There are fewer than 2^32, which
// the host sees to: it takes a device many times as long to divide numbers of 64 bits.
#define EACH(i, n)                                   \
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;   \
    if (i >= (u32)(n)) return;

// The warp of this thread among all of the launch, and its lane.
#define EACH_WARP(i, lane, n)                                             \
    whole i = (blockIdx.x * (whole)blockDim.x + threadIdx.x) / WARP;      \
    int lane = threadIdx.x % WARP;                                        \
    if (i >= (n)) return;

__device__ inline float exponential(float x) { return expf(x); }
__device__ inline double exponential(double x) { return exp(x); }
__device__ inline float logarithm(float x) { return logf(x); }
__device__ inline double logarithm(double x) { return log(x); }
__device__ inline float root(float x) { return sqrtf(x); }
__device__ inline double root(double x) { return sqrt(x); }
__device__ inline float angle(float y, float x) { return atan2f(y, x); }
__device__ inline double angle(double y, double x) { return atan2(y, x); }
__device__ inline float sign(float x) { return (float)((x > 0) - (x < 0)); }
__device__ inline double sign(double x) { return (double)((x > 0) - (x < 0)); }
__device__ inline float logarithm_above_one(float x) { return log1pf(x); }
__device__ inline double logarithm_above_one(double x) { return log1p(x); }
__device__ inline float absolute(float x) { return fabsf(x); }
__device__ inline double absolute(double x) { return fabs(x); }
__device__ inline float rounded_down(float x) { return floorf(x); }
__device__ inline double rounded_down(double x) { return floor(x); }
__device__ inline float raised(float x, float y) { return powf(x, y); }
__device__ inline double raised(double x, double y) { return pow(x, y); }
__device__ inline float error_function(float x) { return erff(x); }
__device__ inline double error_function(double x) { return erf(x); }

__device__ inline float of_both(float a, float b) { return fmaxf(a, b); }
__device__ inline double of_both(double a, double b) { return fmax(a, b); }

__device__ inline bool is_nan(real x) { return x != x; }
__device__ inline real larger(real a, real b) { return a > b ? a : b; }
__device__ inline real minus_infinity() { return (real)MINUS_INFINITY; }
__device__ inline real not_a_number() { return (real)NOT_A_NUMBER; }
__device__ inline bool is_finite(real x) { return x - x == 0; }

// Truth values: a condition that was asked of a number that is not finite is neither true nor false.
#define UNKNOWN 2

// 1 / sqrt(square + eps); NaN where the square is infinite, as what is divided by that would be 0.
__device__ inline real inverse_root(real square, real eps) { return (real)1 / root(square + eps) + (square - square); }

template <class N> __device__ inline N sigmoid(N x) { return (N)1 / ((N)1 + exponential(-x)); }

// 2 sigmoid(2 x) - 1; near 0, where that loses digits, the sixth convergent of Lambert's continued fraction.
template <class N> __device__ inline N hyperbolic_tangent(N x) {
    N square = x * x;
    N above = (N)10395 + square * ((N)1260 + square * (N)21);
    N below = (N)10395 + square * ((N)4725 + square * ((N)210 + square));
    return absolute(x) < (N)0.25 ? x * (above / below) : (N)2 * sigmoid((N)2 * x) - (N)1;
}

// log(1 + exp(x)).
__device__ inline real softplus(real x) {
    return (x < 0 ? (real)0 : x) + logarithm_above_one(exponential(-absolute(x)));
}

// x Phi(x), and its slope.
__device__ inline real gelu(real x) {
    real half = (real)0.5 * x;
    return half * error_function(x * (real)0.7071067811865476) + half;
}
__device__ inline real gelu_slope(real x) {
    real below = (real)0.5 * error_function(x * (real)0.7071067811865476) + (real)0.5;
    return x * ((real)0.3989422804014327 * exponential((real)-0.5 * x * x)) + below;
}

// x sigmoid(2 z) with z = sqrt(2 / pi) (x + 0.044715 x^3), the GELU as it is approximated with tanh, and its slope.
__device__ inline real gelu_tanh_share(real x) {
    return sigmoid((real)1.595769121605731 * (x + (real)0.044715 * x * x * x));
}
__device__ inline real gelu_tanh(real x) { return x * gelu_tanh_share(x); }
__device__ inline real gelu_tanh_slope(real x) {
    real share = gelu_tanh_share(x);
    real inner = (real)1.595769121605731 * ((real)1 + (real)0.134145 * x * x);
    return x * share * ((real)1 - share) * inner + share;
}

// The smallest whole number k with base^k >= n; NaN for a base below 2.
template <class N> __device__ inline N whole_logarithm(N n, N base) {
    if (!(n == n) || !(base >= (N)2)) return (N)NOT_A_NUMBER;
    N k = 0;
    for (double reached = 1; reached < n; reached *= base) k += (N)1;
    return k;
}

// Sums over the lanes of a warp; every lane gets the same number.
__device__ inline real warp_sum(real x) {
    for (int step = WARP / 2; step > 0; step /= 2) x += __shfl_xor_sync(EVERYONE, x, step);
    return x;
}
__device__ inline double warp_sum_double(double x) {
    for (int step = WARP / 2; step > 0; step /= 2) x += __shfl_xor_sync(EVERYONE, x, step);
    return x;
}
__device__ inline real warp_max(real x) {
    for (int step = WARP / 2; step > 0; step /= 2) x = larger(__shfl_xor_sync(EVERYONE, x, step), x);
    return x;
}

// The sum over all threads of a block, whose number is a power of two, at most 1024; every thread gets it. Who asks again lets the
// block meet before.
__device__ inline double team_sum(double x) {
    __shared__ double sums[1024];
    sums[threadIdx.x] = x;
    __syncthreads();
    for (u32 step = blockDim.x / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
        __syncthreads();
    }
    return sums[0];
}

// The counter-based generator: SplitMix64's finaliser, keys below keys, and the bits of a draw.
__device__ inline u64 mix(u64 z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}
__device__ inline u64 key_at(u64 key, u64 index) {
    return mix(((key << 17) | (key >> 47)) ^ mix(index + 0x9E3779B97F4A7C15ull));
}
// Whether dropout keeps number n of a row: 16 bits of a draw belong to each, and four numbers share one.
__device__ inline u64 draw_of(u64 key, u64 n) { return mix(key + (n / 4) * 0x9E3779B97F4A7C15ull); }
__device__ inline bool is_kept(u64 draw, u64 n, u32 threshold) {
    u32 pair = n / 2 % 2 ? (u32)(draw >> 32) : (u32)draw;
    // As upper halves, what lies below does not count.
    return (n % 2 ? pair : pair << 16) >= threshold << 16;
}
__device__ inline bool kept(u64 key, u64 n, u32 threshold) { return is_kept(draw_of(key, n), n, threshold); }
// The four that share the draw of number n, a bit each.
__device__ inline u32 four_kept(u64 key, u64 n, u32 threshold) {
    u64 draw = draw_of(key, n);
    u32 bits = 0;
    for (int m = 0; m < 4; m++) bits |= (u32)is_kept(draw, m, threshold) << m;
    return bits;
}

// Which row a unit belongs to, and its number there. A ragged axis has a table; elsewhere a row has `per` units.
struct Unit {
    whole row, at;
};
__device__ inline Unit unit_of(u32 unit, const u32 *row_of, const u32 *offsets, int per) {
    Unit u;
    u.row = row_of ? row_of[unit] : unit / per;
    u.at = row_of ? unit - offsets[u.row] : unit % per;
    return u;
}
