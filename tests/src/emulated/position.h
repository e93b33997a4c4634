// Where in a launch the emulated device is: shim.h keeps it up to date, races.cpp reads it.
#pragma once
#include <cstddef>

namespace emulated {

struct Bytes {
    const void *at;
    size_t bytes;
};

const size_t STACK = 128 << 10;
const unsigned MOST_THREADS = 1024, MOST_LANES = 32, MOST_SHARED = 32;

struct Position {
    const char *kernel;
    // Launches so far, and blocks of this launch so far, in the order in which they run.
    unsigned launch, block;
    // The thread of the block.
    unsigned thread;
    // How often this block, and each warp of it, has met so that accesses before are ordered with those behind.
    unsigned block_meetings, warp_meetings[MOST_THREADS / MOST_LANES];
    // Whether a thread of a kernel runs, and not the emulator.
    bool inside;
    // The stack of this thread, and what of the emulator's own a thread uses: where it is, and what lanes exchange values through.
    Bytes stack, own[16];
    // The variables in shared memory that the present block has declared.
    Bytes shared[MOST_SHARED];
    unsigned shared_count;
    // The largest shared memory of a block of this launch.
    size_t shared_bytes;
};

// A copy for every thread of the host. `__thread`, as `thread_local` would ask at every use whether it has begun.
extern __thread Position position __attribute__((visibility("hidden")));

} // namespace emulated
