// Makes the kernels of the device a library of the host: blocks run in turn; the threads of a block are fibres, which meet where
// the block or its warps meet. Compiled as C++ in front of the kernels; `REGISTER(name)` follows for each.

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#define __device__
#define __shared__ static thread_local
#define KERNEL(name) static void rtc_##name
#define TEAM(name) static void rtc_##name

// A product that is rounded by itself.
static inline double __dmul_rn(double a, double b) { return a * b; }

namespace emulated {

struct Triple {
    unsigned x, y, z;
};
enum State { READY, AT_WARP, AT_BLOCK, DONE };
struct Fibre {
    void *place;
    char *stack;
    State state;
};

const int LANES = 32;
const size_t STACK = 128 << 10;

static thread_local Triple thread_index, block_index, block_size, grid_size;
static thread_local std::vector<Fibre> fibres;
static thread_local std::vector<unsigned long long> slots;
static thread_local void *scheduler;
static thread_local unsigned running;
static thread_local void (*body)(void **);
static thread_local void **arguments;

// Saves what a call must keep, and goes on where another fibre stopped.
extern "C" void rtc_emulated_switch(void **from, void *to);
#if defined(__x86_64__)
asm(".text\n.local rtc_emulated_switch\nrtc_emulated_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
static void enter();
static void *start(char *stack) {
    void **top = (void **)(((size_t)stack + STACK) & ~(size_t)15);
    *--top = nullptr; // the return address of a function that never returns
    *--top = (void *)enter;
    for (int n = 0; n < 6; n++) *--top = nullptr;
    return top;
}
#elif defined(__aarch64__)
asm(".text\n.local rtc_emulated_switch\nrtc_emulated_switch:\n"
    "sub sp, sp, #160\nstp x19, x20, [sp]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\nstp x25, x26, [sp, #48]\n"
    "stp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\nstp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\n"
    "stp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
    "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
    "ldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\n"
    "ldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\nldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\n"
    "ldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\nadd sp, sp, #160\nret\n");
static void enter();
static void *start(char *stack) {
    char *top = (char *)(((size_t)stack + STACK) & ~(size_t)15) - 160;
    memset(top, 0, 160);
    ((void **)top)[11] = (void *)enter;
    return top;
}
#else
#error "the emulated device knows x86-64 and AArch64"
#endif

static void wait(State state) {
    Fibre &mine = fibres[running];
    mine.state = state;
    rtc_emulated_switch(&mine.place, scheduler);
}
static void enter() {
    body(arguments);
    wait(DONE);
    abort();
}

static void resume(unsigned n) {
    running = n;
    thread_index = {n, 0, 0};
    rtc_emulated_switch(&scheduler, fibres[n].place);
}
// Runs a warp until all of its fibres are done or at the block's meeting.
static void run_warp(unsigned first, unsigned end) {
    for (;;) {
        bool met = false;
        for (unsigned n = first; n < end; n++)
            if (fibres[n].state == READY) resume(n);
        for (unsigned n = first; n < end; n++) met |= fibres[n].state == AT_WARP;
        if (!met) return;
        for (unsigned n = first; n < end; n++) {
            if (fibres[n].state == AT_BLOCK) {
                fprintf(stderr, "some threads of a warp meet as a warp, others as a block\n");
                abort();
            }
            if (fibres[n].state == AT_WARP) fibres[n].state = READY;
        }
    }
}
static void run_team(unsigned threads) {
    slots.resize(threads);
    while (fibres.size() < threads) fibres.push_back({nullptr, (char *)malloc(STACK), DONE});
    for (unsigned n = 0; n < threads; n++) {
        fibres[n].place = start(fibres[n].stack);
        fibres[n].state = READY;
    }
    for (bool more = true; more;) {
        more = false;
        for (unsigned first = 0; first < threads; first += LANES)
            run_warp(first, first + LANES < threads ? first + LANES : threads);
        for (unsigned n = 0; n < threads; n++)
            if (fibres[n].state == AT_BLOCK) fibres[n].state = READY, more = true;
    }
}

struct Kernel {
    void (*call)(void **);
    bool team;
    unsigned parameters;
};
static std::map<std::string, Kernel> &kernels() {
    static std::map<std::string, Kernel> all;
    return all;
}

template <auto F> struct Caller;
template <typename... A, void (*F)(A...)> struct Caller<F> {
    template <size_t... N> static void spread(void **args, std::index_sequence<N...>) { F(*(A *)args[N]...); }
    static const unsigned COUNT = sizeof...(A);
    static void call(void **args) { spread(args, std::index_sequence_for<A...>()); }
};
struct Register {
    Register(const char *name, void (*call)(void **), bool team, unsigned parameters) {
        kernels()[name] = {call, team, parameters};
    }
};

} // namespace emulated

#define threadIdx (emulated::thread_index)
#define blockIdx (emulated::block_index)
#define blockDim (emulated::block_size)
#define gridDim (emulated::grid_size)

static inline void __syncthreads() { emulated::wait(emulated::AT_BLOCK); }
static inline void __syncwarp() { emulated::wait(emulated::AT_WARP); }
template <typename N> static inline N __shfl_xor_sync(unsigned, N value, int step) {
    unsigned mine = emulated::running, other = mine / 32 * 32 + ((mine % 32) ^ step);
    memcpy(&emulated::slots[mine], &value, sizeof value);
    __syncwarp();
    memcpy(&value, &emulated::slots[other], sizeof value);
    __syncwarp();
    return value;
}

static inline int __any_sync(unsigned, int value) {
    unsigned first = emulated::running / 32 * 32;
    unsigned long long found = value != 0;
    memcpy(&emulated::slots[emulated::running], &found, sizeof found);
    __syncwarp();
    for (unsigned n = first; n < first + 32; n++) found |= emulated::slots[n];
    __syncwarp();
    return found != 0;
}

static inline int __syncthreads_or(int value) {
    unsigned long long found = value != 0;
    memcpy(&emulated::slots[emulated::running], &found, sizeof found);
    __syncthreads();
    for (unsigned n = 0; n < emulated::block_size.x; n++) found |= emulated::slots[n];
    __syncthreads();
    return found != 0;
}

// The units for matrices: the lanes of a warp lay down what they bring, meet, and work out what they get.
#define EMULATED
namespace emulated {
// Of every lane: four numbers of the left matrix and two of the right one, or the place of a row.
static thread_local unsigned brought[1024][6];
static thread_local const unsigned char *rows[1024];
static inline unsigned *bring(const unsigned (&a)[4], unsigned b0, unsigned b1) {
    unsigned *mine = brought[running];
    for (int n = 0; n < 4; n++) mine[n] = a[n];
    mine[4] = b0, mine[5] = b1;
    __syncwarp();
    return brought[running / 32 * 32];
}
static inline float as_float(unsigned bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
// y += a b with `depth` terms; `left` and `right` say what a lane's numbers are.
template <class Left, class Right, class Real>
static inline void multiply(Real *const (&y)[4], int depth, const Left &left, const Right &right) {
    int lane = running % 32;
    for (int n = 0; n < 4; n++) {
        float sum = 0;
        for (int k = 0; k < depth; k++) sum += left(lane / 4 + n / 2 * 8, k) * right(k, lane % 4 * 2 + n % 2);
        *y[n] += sum;
    }
    __syncwarp();
}
} // namespace emulated

static inline unsigned bits_of_bf16(float x) {
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    if (x != x) return 0x7FFF;
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}
static inline float __uint_as_float(unsigned bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline float power_of_two(float x) { return exp2f(x); }
static inline unsigned pair_of_bf16(float low, float high) { return bits_of_bf16(low) | bits_of_bf16(high) << 16; }
static inline unsigned bits_of_tf32(float x) {
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    return x - x == 0 ? (bits + 0x1000) & ~0x1FFFu : bits;
}
static inline void load_matrices(unsigned (&to)[4], const void *row, bool turned = false) {
    unsigned lane = emulated::running % 32, first = emulated::running - lane;
    emulated::rows[emulated::running] = (const unsigned char *)row;
    __syncwarp();
    for (int n = 0; n < 4; n++) {
        const unsigned char **rows = emulated::rows + first + n * 8;
        if (!turned) {
            memcpy(&to[n], rows[lane / 4] + lane % 4 * 4, 4);
            continue;
        }
        for (int half = 0; half < 2; half++) memcpy((unsigned char *)&to[n] + half * 2, rows[lane % 4 * 2 + half] + lane / 4 * 2, 2);
    }
    __syncwarp();
}
static inline void load_turned_matrices(unsigned (&to)[4], const void *row) { load_matrices(to, row, true); }
template <class Real> static inline void multiply_bf16(Real &y0, Real &y1, Real &y2, Real &y3, const unsigned (&a)[4], unsigned b0, unsigned b1) {
    unsigned(*all)[6] = (unsigned(*)[6])emulated::bring(a, b0, b1);
    auto half = [](unsigned pair, int which) { return emulated::as_float(which ? pair & 0xFFFF0000 : pair << 16); };
    emulated::multiply<>({&y0, &y1, &y2, &y3}, 16,
        [&](int i, int k) { return half(all[i % 8 * 4 + k % 8 / 2][i / 8 + k / 8 * 2], k % 2); },
        [&](int k, int j) { return half(all[j * 4 + k % 8 / 2][4 + k / 8], k % 2); });
}
template <class Real> static inline void multiply_tf32(Real &y0, Real &y1, Real &y2, Real &y3, const unsigned (&a)[4], unsigned b0, unsigned b1) {
    unsigned(*all)[6] = (unsigned(*)[6])emulated::bring(a, b0, b1);
    emulated::multiply<>({&y0, &y1, &y2, &y3}, 8,
        [&](int i, int k) { return emulated::as_float(all[i % 8 * 4 + k % 4][i / 8 + k / 4 * 2]); },
        [&](int k, int j) { return emulated::as_float(all[j * 4 + k % 4][4 + k / 4]); });
}

// How many arguments a kernel takes; a driver would not notice that there are fewer.
extern "C" unsigned rtc_emulated_parameters(const char *name) {
    auto found = emulated::kernels().find(name);
    return found == emulated::kernels().end() ? ~0u : found->second.parameters;
}
// 0, or 1 where there is no such kernel.
extern "C" int rtc_emulated_launch(const char *name, const unsigned *grid, unsigned threads, void **args) {
    auto found = emulated::kernels().find(name);
    if (found == emulated::kernels().end()) return 1;
    emulated::Kernel kernel = found->second;
    emulated::grid_size = {grid[0], grid[1], grid[2]};
    emulated::block_size = {threads, 1, 1};
    emulated::body = kernel.call;
    emulated::arguments = args;
    for (unsigned z = 0; z < grid[2]; z++)
        for (unsigned y = 0; y < grid[1]; y++)
            for (unsigned x = 0; x < grid[0]; x++) {
                emulated::block_index = {x, y, z};
                if (kernel.team) {
                    emulated::run_team(threads);
                    continue;
                }
                for (unsigned n = 0; n < threads; n++) {
                    emulated::thread_index = {n, 0, 0};
                    kernel.call(args);
                }
            }
    return 0;
}
#define REGISTER(name, team) static emulated::Register register_##name(#name, emulated::Caller<rtc_##name>::call, team, emulated::Caller<rtc_##name>::COUNT);
