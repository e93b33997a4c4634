//! Slots: several vectors for every row, as the memory of ordered memory.
//!
//! Source: Shen et al. 2019 (ordered memory), arXiv:1910.13466.

use super::Real;

/// `y[rows, d]` = slot number `slot` of each row of `x[rows, slots, d]`; 0 where there is none.
pub fn slot_get<T: Real>(x: &[T], slot: usize, slots: usize, d: usize, y: &mut [T]) {
    debug_assert_eq!(x.len(), y.len() * slots);
    if slot >= slots {
        return y.fill(T::ZERO);
    }
    for (y, x) in y.chunks_exact_mut(d).zip(x.chunks_exact(slots * d)) {
        y.copy_from_slice(&x[slot * d..(slot + 1) * d]);
    }
}

/// Overwrites slot number `slot` of each row of `x[rows, slots, d]` by `y[rows, d]`, if there is such a slot.
pub fn slot_set<T: Real>(x: &mut [T], y: &[T], slot: usize, slots: usize, d: usize) {
    debug_assert_eq!(x.len(), y.len() * slots);
    if slot >= slots {
        return;
    }
    for (y, x) in y.chunks_exact(d).zip(x.chunks_exact_mut(slots * d)) {
        x[slot * d..(slot + 1) * d].copy_from_slice(y);
    }
}
