// What the units for matrices take and do: PTX, with the names of its instructions beside them. The emulated device has functions of its own.
#ifndef EMULATED

// Two numbers rounded to bfloat16, the first one in the lower half.
__device__ inline u32 pair_of_bf16(float low, float high) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
// 2^x, to 22 bits.
__device__ inline float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// A number rounded to tf32.
__device__ inline u32 bits_of_tf32(float x) {
    u32 bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

// Four matrices of eight rows of 16 bytes; lane n says where row n % 8 of matrix n / 8 begins. A lane gets 4 bytes of row lane / 4 of each.
__device__ inline void load_matrices(u32 (&to)[4], const void *row) {
    u32 at = (u32)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
}
// The same matrices of 16-bit numbers turned: a lane gets the numbers lane / 4 of two rows.
__device__ inline void load_turned_matrices(u32 (&to)[4], const void *row) {
    u32 at = (u32)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
}

// y += a b with a of 16 x 16 (8 for tf32), b of 16 x 8: y0 and y1 are of the upper eight rows.
__device__ inline void multiply_bf16(float &y0, float &y1, float &y2, float &y3, const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(y0), "+f"(y1), "+f"(y2), "+f"(y3)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void multiply_tf32(float &y0, float &y1, float &y2, float &y3, const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(y0), "+f"(y1), "+f"(y2), "+f"(y3)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif

__device__ inline real real_of(real x) { return x; }
__device__ inline real real_of(bf16 x) { return __uint_as_float((u32)x.bits << 16); }
__device__ inline void put_number(real *to, real x) { *to = x; }
__device__ inline void put_number(bf16 *to, real x) { to->bits = (u16)pair_of_bf16((float)x, 0); }

// A number of an array that is of 16 bits if it is narrow.
__device__ inline real number_at(const void *x, whole i, bool narrow) { return narrow ? real_of(((const bf16 *)x)[i]) : ((const real *)x)[i]; }
__device__ inline void put_at(void *y, whole i, real number, bool narrow) {
    if (narrow) put_number((bf16 *)y + i, number);
    else ((real *)y)[i] = number;
}
