//! Sums and factors of whole arrays, in place and on all threads.
//!
//! Source: rtc.

use super::Real;
use super::parallel::{DisjointSlice, each_block, vectorised};

/// `y += x`, on all threads.
pub fn add_assign<T: Real>(y: &mut [T], x: &[T]) {
    debug_assert_eq!(x.len(), y.len());
    let out = DisjointSlice::new(y);
    each_block(x.len(), 1, |range| {
        // SAFETY: the blocks are disjoint.
        let y = unsafe { out.part(range.clone()) };
        vectorised!(y.iter_mut().zip(&x[range]).for_each(|(y, &x)| *y += x));
    });
}

/// `y *= c`, on all threads.
pub fn scale_assign<T: Real>(y: &mut [T], c: T) {
    let len = y.len();
    let out = DisjointSlice::new(y);
    each_block(len, 1, |range| {
        // SAFETY: the blocks are disjoint.
        let y = unsafe { out.part(range) };
        vectorised!(y.iter_mut().for_each(|y| *y *= c));
    });
}
