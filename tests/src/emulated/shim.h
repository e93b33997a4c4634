// Makes the kernels of the device a library of the host: blocks run in turn; the threads of a block are fibres, which meet where
// the block or its warps meet. Compiled as C++ in front of the kernels; `REGISTER(name)` follows for each.
//
// Blocks, warps, and threads between two meetings run in rising order, or in one that a seed gives: a kernel must not care.
// Shared memory is 0xFF, which is NaN, where a block declares it: `emulated::shared` follows each declaration (declared.rs).

#include <algorithm>
#include <cmath>
#include <iterator>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "position.h"

// What is no code of a kernel, for the checker of races.
#define HOST __attribute__((no_sanitize("thread")))

#define __device__
#define __shared__ static thread_local
#define KERNEL(name) static __attribute__((noinline)) void rtc_##name
#define TEAM(name) static __attribute__((noinline)) void rtc_##name

// A product that is rounded by itself.
static inline double __dmul_rn(double a, double b) { return a * b; }

namespace emulated {

struct Triple {
    unsigned x, y, z;
};
// Lanes that exchange values meet, too, but what they wrote to memory before may not have arrived.
enum State { READY, AT_EXCHANGE, AT_WARP, AT_BLOCK, DONE };
struct Fibre {
    void *place;
    char *stack;
    State state;
};

const unsigned LANES = MOST_LANES;

static thread_local Triple thread_index, block_index, block_size, grid_size;
static thread_local std::vector<Fibre> fibres;
static thread_local unsigned long long slots[MOST_THREADS];
// The fibre that runs, and where to go from it.
static thread_local Fibre *mine;
static thread_local void *scheduler;
static thread_local unsigned running;
// What lanes bring to the units for matrices: four numbers of the left matrix and two of the right one, or the place of a row.
static thread_local unsigned brought[MOST_THREADS][6];
static thread_local const unsigned char *rows[MOST_THREADS];
static thread_local void (*body)(void **);
static thread_local void **arguments;
// What the kernel did that a device does not allow.
static thread_local const char *fault;
// The seed of the order, or 0 for rising.
static thread_local unsigned long long order;
// Meetings by their numbers in the text, from 1 on: the one that is left out, or 0, and those that were come by.
const unsigned MEETINGS = 1024;
static thread_local unsigned left_out;
static thread_local bool come_by[MEETINGS];
__thread Position position;

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

HOST static void wait(State state) {
    mine->state = state;
    rtc_emulated_switch(&mine->place, scheduler);
}
HOST static void enter() {
    body(arguments);
    wait(DONE);
    abort();
}
static void fail(const char *what) {
    if (!fault) fault = what;
}
// A meeting of lanes that exchange values.
HOST static void exchange(unsigned mask) {
    if (mask != 0xFFFFFFFFu) fail("lanes meet with a mask, which the emulator knows no use of");
    wait(AT_EXCHANGE);
}
// Whether the meeting of this number takes place.
HOST static bool meets(unsigned number) {
    come_by[number] = true;
    return left_out != number;
}
// A variable in shared memory is declared: it holds nothing yet.
HOST __attribute__((noinline)) static void shared(void *place, size_t bytes) {
    for (unsigned n = 0; n < position.shared_count; n++)
        if (position.shared[n].at == place) return;
    if (position.shared_count == MOST_SHARED) return fail("a block has more variables in shared memory than the emulator counts");
    position.shared[position.shared_count++] = {place, bytes};
    memset(place, 0xFF, bytes);
    size_t total = 0;
    for (unsigned n = 0; n < position.shared_count; n++) total += position.shared[n].bytes;
    if (total > position.shared_bytes) position.shared_bytes = total;
}

// The numbers below `count` in the order of the seed.
struct Order {
    std::vector<unsigned> numbers;
    explicit Order(unsigned count) {
        for (unsigned n = 0; order && n < count; n++) {
            // SplitMix64.
            unsigned long long z = order += 0x9E3779B97F4A7C15ull;
            z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
            z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
            unsigned other = (z ^ (z >> 31)) % (n + 1);
            numbers.push_back(n);
            std::swap(numbers[n], numbers[other]);
        }
    }
    unsigned operator[](unsigned n) const { return numbers.empty() ? n : numbers[n]; }
};

// From here on a thread of a kernel runs, with its own variables on this stack.
HOST static void inside(unsigned n, const char *stack) {
    running = position.thread = n;
    thread_index = {n, 0, 0};
    position.stack = {stack, STACK};
    position.inside = true;
}
HOST static void resume(unsigned n) {
    mine = &fibres[n];
    inside(n, mine->stack);
    rtc_emulated_switch(&scheduler, mine->place);
    position.inside = false;
}
// Runs a warp until all of its fibres are done or at the block's meeting.
static void run_warp(unsigned first) {
    for (;;) {
        Order lanes(LANES);
        for (unsigned n = 0; n < LANES; n++)
            if (fibres[first + lanes[n]].state == READY) resume(first + lanes[n]);
        unsigned at[DONE + 1] = {};
        for (unsigned n = 0; n < LANES; n++) at[fibres[first + n].state]++;
        if (at[AT_BLOCK] + at[DONE] == LANES || fault) return;
        State met = at[AT_WARP] ? AT_WARP : AT_EXCHANGE;
        if (at[met] < LANES) return fail("some lanes of a warp meet, and others have left or meet in another way");
        for (unsigned n = 0; n < LANES; n++) fibres[first + n].state = READY;
        if (met == AT_WARP) position.warp_meetings[first / LANES]++;
    }
}
static void run_team(unsigned threads) {
    while (fibres.size() < threads) fibres.push_back({nullptr, (char *)malloc(STACK), DONE});
    for (unsigned n = 0; n < threads; n++) {
        fibres[n].place = start(fibres[n].stack);
        fibres[n].state = READY;
    }
    for (;;) {
        Order warps(threads / LANES);
        for (unsigned n = 0; n < threads / LANES && !fault; n++) run_warp(warps[n] * LANES);
        unsigned met = 0;
        for (unsigned n = 0; n < threads; n++) met += fibres[n].state == AT_BLOCK;
        if (met == 0 || fault) return;
        if (met < threads) return fail("some threads of a block meet, and others have left");
        for (unsigned n = 0; n < threads; n++) fibres[n].state = READY;
        position.block_meetings++;
    }
}
HOST static void run_block(bool team, unsigned threads) {
    const Bytes own[] = {
        {&thread_index, sizeof thread_index}, {&block_index, sizeof block_index}, {&block_size, sizeof block_size},
        {&grid_size, sizeof grid_size}, {&running, sizeof running}, {&slots, sizeof slots}, {&brought, sizeof brought},
        {&rows, sizeof rows},
    };
    static_assert(sizeof own <= sizeof position.own);
    std::copy(std::begin(own), std::end(own), position.own);
    position.shared_count = position.block_meetings = 0;
    memset(position.warp_meetings, 0, sizeof position.warp_meetings);
    if (team) return run_team(threads);
    Order all(threads);
    const char *stack = (const char *)__builtin_frame_address(0) - STACK;
    for (unsigned n = 0; n < threads; n++) {
        unsigned thread = all[n];
        inside(thread, stack);
        body(arguments);
        position.inside = false;
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
    template <size_t... N> HOST static void spread(void **args, std::index_sequence<N...>) { F(*(A *)args[N]...); }
    static const unsigned COUNT = sizeof...(A);
    HOST static void call(void **args) { spread(args, std::index_sequence_for<A...>()); }
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
template <typename N> static inline N __shfl_xor_sync(unsigned mask, N value, int step) {
    unsigned mine = emulated::running, other = mine / 32 * 32 + ((mine % 32) ^ step);
    memcpy(&emulated::slots[mine], &value, sizeof value);
    emulated::exchange(mask);
    memcpy(&value, &emulated::slots[other], sizeof value);
    emulated::exchange(mask);
    return value;
}

static inline int __any_sync(unsigned mask, int value) {
    unsigned first = emulated::running / 32 * 32;
    unsigned long long found = value != 0;
    memcpy(&emulated::slots[emulated::running], &found, sizeof found);
    emulated::exchange(mask);
    for (unsigned n = first; n < first + 32; n++) found |= emulated::slots[n];
    emulated::exchange(mask);
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
static inline unsigned *bring(const unsigned (&a)[4], unsigned b0, unsigned b1) {
    unsigned *mine = brought[running];
    for (int n = 0; n < 4; n++) mine[n] = a[n];
    mine[4] = b0, mine[5] = b1;
    exchange(0xFFFFFFFFu);
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
    exchange(0xFFFFFFFFu);
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
    emulated::exchange(0xFFFFFFFFu);
    for (int n = 0; n < 4; n++) {
        const unsigned char **rows = emulated::rows + first + n * 8;
        if (!turned) {
            memcpy(&to[n], rows[lane / 4] + lane % 4 * 4, 4);
            continue;
        }
        for (int half = 0; half < 2; half++) memcpy((unsigned char *)&to[n] + half * 2, rows[lane % 4 * 2 + half] + lane / 4 * 2, 2);
    }
    emulated::exchange(0xFFFFFFFFu);
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
// 0; 1 where there is no such kernel; 2 where it did what no device allows.
extern "C" int rtc_emulated_launch(const char *name, const unsigned *grid, unsigned threads, void **args) {
    auto found = emulated::kernels().find(name);
    if (found == emulated::kernels().end()) return 1;
    emulated::Kernel kernel = found->second;
    emulated::fault = nullptr;
    emulated::grid_size = {grid[0], grid[1], grid[2]};
    emulated::block_size = {threads, 1, 1};
    emulated::body = kernel.call;
    emulated::arguments = args;
    emulated::position.kernel = found->first.c_str();
    emulated::position.launch++;
    emulated::position.shared_bytes = 0;
    unsigned blocks = grid[0] * grid[1] * grid[2];
    emulated::Order order(blocks);
    for (unsigned n = 0; n < blocks && !emulated::fault; n++) {
        unsigned block = order[n];
        emulated::block_index = {block % grid[0], block / grid[0] % grid[1], block / grid[0] / grid[1]};
        emulated::position.block = n;
        emulated::run_block(kernel.team, threads);
    }
    return emulated::fault ? 2 : 0;
}
extern "C" const char *rtc_emulated_fault() { return emulated::fault; }
// The largest shared memory of a block of the last launch.
extern "C" size_t rtc_emulated_shared() { return emulated::position.shared_bytes; }
// A meeting that is left out from now on, or 0; and whether one was come by since this was last asked.
extern "C" void rtc_emulated_leave_out(unsigned meeting) { emulated::left_out = meeting; }
extern "C" bool rtc_emulated_come_by(unsigned meeting) { return std::exchange(emulated::come_by[meeting], false); }
// The order of what runs from now on, on this thread of the host.
extern "C" void rtc_emulated_order(unsigned long long seed) { emulated::order = seed; }
#define REGISTER(name, team) static emulated::Register register_##name(#name, emulated::Caller<rtc_##name>::call, team, emulated::Caller<rtc_##name>::COUNT);
