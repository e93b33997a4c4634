//! Pairs of numbers of bfloat16, and what multiplies them on x86 with AVX-512-BF16.
//!
//! Source: bfloat16 as in Kalamkar et al. 2019, arXiv:1905.12322; rtc.

/// The nearest number with so many bits fewer, of two equally near ones the even one; what is not a number stays none.
#[inline(always)]
pub(super) fn rounded(x: f32, dropped: u32) -> f32 {
    if x.is_nan() {
        // One whose upper bits say so, too.
        return f32::NAN;
    }
    let bits = x.to_bits();
    let half = (1 << (dropped - 1)) - 1 + ((bits >> dropped) & 1);
    f32::from_bits((bits + half) >> dropped << dropped)
}

/// Both numbers rounded, the first in the upper half. The halves that belong to no number are never looked at as one.
#[inline(always)]
pub(super) fn pair(high: f32, low: f32) -> f32 {
    f32::from_bits(rounded(high, 16).to_bits() & 0xffff_0000 | rounded(low, 16).to_bits() >> 16)
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{__m512, __m512bh, _mm512_dpbf16_ps};
    use std::mem::transmute_copy;

    use pulp::WithSimd;
    use pulp::x86::V4;

    use crate::Vectors;

    pub(crate) fn available() -> bool {
        Vectors::allowed() == Vectors::Widest && there().is_some()
    }

    /// The machine's vectors, if it multiplies pairs.
    fn there() -> Option<V4> {
        V4::try_new().filter(|_| is_x86_feature_detected!("avx512bf16"))
    }

    #[inline(always)]
    pub(crate) fn fused<V: Copy>(a: V, b: V, c: V) -> V {
        assert!(size_of::<V>() == size_of::<__m512>());
        // SAFETY: the vectors are of the size that the instruction takes, and it is there: this runs inside of `dispatch` alone.
        unsafe {
            let [a, b]: [__m512bh; 2] = [transmute_copy(&a), transmute_copy(&b)];
            transmute_copy(&_mm512_dpbf16_ps(transmute_copy(&c), a, b))
        }
    }

    pub(crate) fn dispatch<R>(op: impl WithSimd<Output = R>) -> R {
        let simd = there().expect("pairs are made where they can be multiplied");
        // SAFETY: the machine has these vectors.
        unsafe { with_features(simd, op) }
    }

    /// The features of [`V4`] and the one for pairs.
    #[target_feature(
        enable = "avx,avx2,avx512bf16,avx512bw,avx512cd,avx512dq,avx512f,avx512vl,bmi1,bmi2,fma,lzcnt,popcnt,sse4.2"
    )]
    unsafe fn with_features<R>(simd: V4, op: impl WithSimd<Output = R>) -> R {
        op.with_simd(simd)
    }
}
#[cfg(target_arch = "x86_64")]
pub(super) use x86::{available, dispatch, fused};

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn available() -> bool {
    false
}
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn fused<V>(_: V, _: V, _: V) -> V {
    unreachable!("no such vectors on this machine")
}
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn dispatch<R>(_: impl pulp::WithSimd<Output = R>) -> R {
    unreachable!("no such vectors on this machine")
}
