// Kernels that are right and kernels that are not, for the tests of what finds the wrong ones. They stand behind those of rtc. All are
// given n bytes and n numbers, somewhat more than there are threads.

// Right: bytes side by side, which belong to other threads.
KERNEL(right_bytes)(u8 *y, real *, int n) {
    EACH(i, n)
    y[i] = i;
}

// Right: the same memory for numbers of one type and then of another.
TEAM(right_types)(u8 *, real *y, int n) {
    __shared__ u8 flat[8 * 256];
    real *numbers = (real *)flat;
    u32 t = threadIdx.x, last = blockDim.x - 1;
    numbers[t] = t;
    __syncthreads();
    real other = numbers[last - t];
    __syncthreads();
    flat[t] = 1;
    __syncthreads();
    y[blockIdx.x * blockDim.x + t] = other + flat[last - t];
}

// Right: every warp has its own part, and meets by itself.
TEAM(right_warps)(u8 *, real *y, int n) {
    __shared__ real own[8][WARP];
    u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    for (int round = 0; round < 3; round++) {
        own[warp][lane] = lane + round;
        __syncwarp();
        y[blockIdx.x * blockDim.x + threadIdx.x] = own[warp][lane ^ 1];
        __syncwarp();
    }
}

// The block does not meet before it reads.
TEAM(no_meeting_before)(u8 *, real *y, int n) {
    __shared__ real x[256];
    x[threadIdx.x] = 1;
    y[blockIdx.x * blockDim.x + threadIdx.x] = x[blockDim.x - 1 - threadIdx.x];
}

// The block does not meet before it writes again.
TEAM(no_meeting_behind)(u8 *, real *y, int n) {
    __shared__ real x[256];
    for (int round = 0; round < 2; round++) {
        x[threadIdx.x] = round;
        __syncthreads();
        y[blockIdx.x * blockDim.x + threadIdx.x] = x[blockDim.x - 1 - threadIdx.x];
    }
}

// A meeting of each warp is none of the block.
TEAM(meeting_of_warps_alone)(u8 *, real *y, int n) {
    __shared__ real x[256];
    x[threadIdx.x] = 1;
    __syncwarp();
    y[blockIdx.x * blockDim.x + threadIdx.x] = x[blockDim.x - 1 - threadIdx.x];
}

// Lanes exchange a value, which orders nothing that they wrote.
TEAM(exchange_is_no_meeting)(u8 *, real *y, int n) {
    __shared__ real x[256];
    x[threadIdx.x] = 1;
    real sum = warp_sum((real)1);
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum + x[threadIdx.x ^ 1];
}

// Lanes write the same place.
TEAM(lanes_write_one_place)(u8 *, real *y, int n) {
    if (threadIdx.x < 2) y[blockIdx.x] = threadIdx.x;
}

// Blocks write the same place.
TEAM(blocks_write_one_place)(u8 *, real *y, int n) {
    if (threadIdx.x == 0) y[0] = blockIdx.x;
}

// A block reads what another one writes.
KERNEL(reads_its_neighbour)(u8 *, real *y, int n) {
    EACH(i, n)
    y[i] = i + y[(i + blockDim.x) % n];
}

// Two threads write the same byte, of bytes that others write.
KERNEL(two_write_a_byte)(u8 *y, real *, int n) {
    EACH(i, n)
    y[i / 2] = i;
}

// A number that is read before the block has written it.
TEAM(reads_what_is_not_written)(u8 *, real *y, int n) {
    __shared__ real x[256];
    if (threadIdx.x > 0) x[threadIdx.x] = 1;
    __syncthreads();
    y[blockIdx.x * blockDim.x + threadIdx.x] = x[threadIdx.x];
}

// One number too far, in a block of memory that is longer than its array.
KERNEL(writes_behind)(u8 *, real *y, int n) {
    EACH(i, 1)
    y[n] = 1;
}
KERNEL(reads_behind)(u8 *y, real *x, int n) {
    EACH(i, 1)
    y[i] = x[n];
}
KERNEL(writes_before)(u8 *, real *y, int n) {
    EACH(i, 1)
    y[-1] = 1;
}

// A number behind a variable in shared memory.
TEAM(writes_behind_shared)(u8 *, real *y, int n) {
    __shared__ real x[64];
    x[threadIdx.x % 64 + 1] = 1;
    y[blockIdx.x * blockDim.x + threadIdx.x] = x[threadIdx.x % 64 + 1];
}

// A byte somewhere.
KERNEL(touches)(u8 *y, real *, int at) {
    if (blockIdx.x * blockDim.x + threadIdx.x == 0) y[at] = 1;
}

// Lanes leave before their warp meets, and threads before their block does; lanes of a warp meet in two ways.
TEAM(lanes_leave)(u8 *, real *y, int n) {
    if (threadIdx.x % WARP == 3) return;
    __syncwarp();
}
TEAM(lanes_leave_an_exchange)(u8 *, real *y, int n) {
    if (threadIdx.x % WARP == 3) return;
    y[threadIdx.x] = warp_sum((real)1);
}
TEAM(threads_leave)(u8 *, real *y, int n) {
    if (threadIdx.x < WARP) return;
    __syncthreads();
}
TEAM(lanes_meet_elsewhere)(u8 *, real *y, int n) {
    if (threadIdx.x % WARP == 3) __syncwarp();
    else warp_sum((real)1);
}
TEAM(meets_with_a_mask)(u8 *, real *y, int n) {
    y[threadIdx.x] = __shfl_xor_sync(0xFFFFu, (real)1, 1);
}

// More shared memory than a device has for a block.
TEAM(much_shared)(u8 *, real *y, int n) {
    __shared__ real x[12 * 1024 + 1];
    x[threadIdx.x] = 1;
    y[threadIdx.x] = x[threadIdx.x];
}

// The last to come wins: of blocks, of warps, of lanes, of threads that know nothing of one another.
TEAM(last_block)(u8 *, real *y, int n) { y[threadIdx.x] = blockIdx.x; }
TEAM(last_warp)(u8 *, real *y, int n) { y[threadIdx.x % WARP] = threadIdx.x / WARP; }
TEAM(last_lane)(u8 *, real *y, int n) { y[threadIdx.x / WARP] = threadIdx.x % WARP; }
KERNEL(last_thread)(u8 *, real *y, int n) {
    EACH(i, n)
    y[i / blockDim.x] = i;
}

// Shared memory that the last block left.
TEAM(left_by_the_last_block)(u8 *, real *y, int n) {
    __shared__ real x[256];
    real before = x[threadIdx.x];
    x[threadIdx.x] = 1;
    y[blockIdx.x * blockDim.x + threadIdx.x] = before;
}

// Leaves a number out.
KERNEL(forgets_one)(u8 *, real *y, int n) {
    EACH(i, n)
    if (i != n / 2) y[i] = 1;
}
