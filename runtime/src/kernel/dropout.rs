//! Inverted dropout whose mask is a pure function of a row's key and the index in the row.
//!
//! Number `n` of a row belongs to the 64-bit draw `key.bits(n / 2)`: its low half if `n` is even, its high half if
//! odd. The number is kept if that half, as an integer, is at least `round(p 2^32)`. So the gradient is the same call on
//! the upstream gradient, and a row keeps its mask when other rows leave the batch.

use super::Real;
use super::parallel::{BLOCK, Parts, block, each, vectorised};
use crate::rng::Key;

/// Numbers whose factors are drawn at a time. Even, so that no draw is torn apart.
const DRAWN: usize = 64;

/// Factors held between drawing and use. Even, too.
const BUFFER: usize = 1024;

/// The factors of dropout: 0 with the given probability, else `1 / (1 - p)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keep<T> {
    threshold: u32,
    factor: T,
}

impl<T: Real> Keep<T> {
    /// Dropout with probability `p`; everything goes at 1 and above.
    pub(super) fn new(p: f64) -> Self {
        let factor = if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 };
        // The cast saturates, which drops all but one in 2^32 at p near 1; the factor 0 does the rest at 1.
        Self { threshold: (p * 4_294_967_296.0).round() as u32, factor: T::from_f64(factor) }
    }

    /// Writes the factors of numbers `start..` of the row `key`. `start` is even.
    #[inline(never)]
    pub(super) fn factors(self, key: Key, start: usize, out: &mut [T]) {
        debug_assert!(start.is_multiple_of(2));
        vectorised(
            #[inline(always)]
            || {
                for (i, out) in out.chunks_mut(DRAWN).enumerate() {
                    self.some_factors(key, (start + i * DRAWN) as u64 / 2, out);
                }
            },
        );
    }

    /// At most [`DRAWN`] factors from draw `first` on.
    #[inline(always)]
    fn some_factors(self, key: Key, first: u64, out: &mut [T]) {
        let mut draws = [0_u64; DRAWN / 2];
        for (i, draw) in draws[..out.len().div_ceil(2)].iter_mut().enumerate() {
            let bits = key.bits(first + i as u64);
            *draw = if cfg!(target_endian = "big") { bits.rotate_left(32) } else { bits };
        }
        // SAFETY: the same bytes, read as twice as many integers of half the size; the low half comes first.
        let halves = unsafe { &*draws.as_ptr().cast::<[u32; DRAWN]>() };
        for (out, &half) in out.iter_mut().zip(halves) {
            *out = if half >= self.threshold { self.factor } else { T::ZERO };
        }
    }
}

/// `y = x factor`: row r is `x[row_offsets[r]..row_offsets[r + 1]]` (offsets in elements) and draws from `row_keys[r]`.
pub fn dropout<T: Real>(x: &[T], row_offsets: &[usize], row_keys: &[Key], p: f64, y: &mut [T]) {
    debug_assert_eq!(x.len(), y.len());
    each_piece(row_offsets, row_keys, p, y, |start, y, factors| {
        for ((y, &x), &f) in y.iter_mut().zip(&x[start..]).zip(factors) {
            *y = x * f;
        }
    });
}

/// [`dropout`] in place.
pub fn dropout_assign<T: Real>(y: &mut [T], row_offsets: &[usize], row_keys: &[Key], p: f64) {
    each_piece(row_offsets, row_keys, p, y, |_, y, factors| {
        for (y, &f) in y.iter_mut().zip(factors) {
            *y *= f;
        }
    });
}

/// Runs `apply(start in y, piece of y, factors)` over all rows in short pieces.
#[inline(always)]
fn each_piece<T: Real>(
    row_offsets: &[usize],
    row_keys: &[Key],
    p: f64,
    y: &mut [T],
    apply: impl Fn(usize, &mut [T], &[T]) + Sync + Send,
) {
    debug_assert!(row_offsets.len() == row_keys.len() + 1 && row_offsets.last() == Some(&y.len()));
    let keep = Keep::<T>::new(p);
    let len = y.len();
    let out = Parts::new(y);
    each(len.div_ceil(BLOCK), len * 4, |i| {
        let range = block(i, BLOCK, len);
        // The last row that starts at or before the block.
        let mut row = row_offsets.partition_point(|&start| start <= range.start) - 1;
        let mut start = range.start;
        while start < range.end {
            if row_offsets[row + 1] <= start {
                row += 1;
                continue;
            }
            let end = range.end.min(row_offsets[row + 1]);
            // SAFETY: the blocks are disjoint, and so are their pieces by row.
            let y = unsafe { out.part(start..end) };
            piece(keep, row_keys[row], start, row_offsets[row], y, &apply);
            start = end;
        }
    });
}

/// One piece of a row that begins at element `origin`.
fn piece<T: Real>(
    keep: Keep<T>,
    key: Key,
    start: usize,
    origin: usize,
    y: &mut [T],
    apply: &impl Fn(usize, &mut [T], &[T]),
) {
    let mut factors = [T::ZERO; BUFFER];
    // A block may begin inside a pair: the first draw is then entered at its second half.
    let skip = (start - origin) % 2;
    let mut done = 0;
    while done < y.len() {
        let skip = if done == 0 { skip } else { 0 };
        let count = (BUFFER - skip).min(y.len() - done);
        keep.factors(key, start + done - skip - origin, &mut factors[..count + skip]);
        let (y, factors) = (&mut y[done..done + count], &factors[skip..count + skip]);
        vectorised(
            #[inline(always)]
            || apply(start + done, y, factors),
        );
        done += count;
    }
}
