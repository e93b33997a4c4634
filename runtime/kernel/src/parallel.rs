//! Cutting of work into blocks, vectorisation, and threads.
//!
//! The number of threads determines which thread runs a block, never where a block begins.
//!
//! Source: rtc.

use std::ops::Range;

use rayon::prelude::*;

use super::Real;

/// Whether a kernel overwrites its output or adds to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// The old content is ignored.
    Replace,
    /// The result is added to the old content.
    Add,
}

/// Elements of one block of elementwise work: small enough to stay in the first-level caches.
pub const BLOCK: usize = 1 << 14;

/// Independent partial sums inside one block: a whole AVX-512 vector of `f32`, two of `f64`.
pub const LANES: usize = 16;

/// Work, in simple vectorised element operations, below which waking another thread costs more than it saves.
const WORTH: usize = 1 << 16;

/// Work that one stolen piece should hold at least.
const GRAIN: usize = 1 << 14;

/// Evaluates an expression that is compiled for the vectors of this machine; `return` leaves the expression.
macro_rules! vectorised {
    ($body:expr) => {
        $crate::vectors::run(
            // What is not inlined is compiled for the vectors that every machine has.
            #[inline(always)]
            || $body,
        )
    };
}
pub(crate) use vectorised;

/// Runs `task(i)` for every `i` below `count`, on all threads of the current pool if `work` is worth it.
///
/// Tasks must not depend on one another.
pub fn each(count: usize, work: usize, task: impl Fn(usize) + Sync + Send) {
    if count > 1 && work >= WORTH && rayon::current_num_threads() > 1 {
        let grain = (count.saturating_mul(GRAIN) / work).clamp(1, count);
        (0..count).into_par_iter().with_min_len(grain).for_each(task);
    } else {
        (0..count).for_each(task);
    }
}

/// Fills a slice with `f(index)`, each costing `cost` operations.
pub fn fill<T: Send>(out: &mut [T], cost: usize, f: impl Fn(usize) -> T + Sync + Send) {
    if out.len().saturating_mul(cost) >= WORTH && rayon::current_num_threads() > 1 {
        let grain = (GRAIN / cost.max(1)).max(1);
        out.par_iter_mut().enumerate().with_min_len(grain).for_each(|(index, out)| *out = f(index));
    } else {
        out.iter_mut().enumerate().for_each(|(index, out)| *out = f(index));
    }
}

/// Block number `index` of `0..len` cut into pieces of `size`.
pub fn block(index: usize, size: usize, len: usize) -> Range<usize> {
    index * size..len.min((index + 1) * size)
}

/// Elementwise work over `len` elements: `task(range)` for blocks of [`BLOCK`], each element costing `cost` operations.
pub fn each_block(len: usize, cost: usize, task: impl Fn(Range<usize>) + Sync + Send) {
    each(len.div_ceil(BLOCK), len * cost, |i| task(block(i, BLOCK, len)));
}

/// Runs `task(row, positions)` for every row, each position costing `cost` operations.
pub fn each_row(offsets: &[usize], cost: usize, task: impl Fn(usize, Range<usize>) + Sync + Send) {
    let rows = offsets.len() - 1;
    each(rows, (offsets[rows] - offsets[0]) * cost, |row| task(row, offsets[row]..offsets[row + 1]));
}

/// A mutable slice that tasks write disjoint parts of.
pub struct DisjointSlice<'a, T> {
    start: *mut T,
    len: usize,
    slice: std::marker::PhantomData<&'a mut [T]>,
}

// SAFETY: access goes through the unsafe methods, whose callers promise that no two tasks touch the same element.
unsafe impl<T: Send> Sync for DisjointSlice<'_, T> {}
// SAFETY: as above; the pointer stands for an exclusive borrow of the slice.
unsafe impl<T: Send> Send for DisjointSlice<'_, T> {}

impl<'a, T> DisjointSlice<'a, T> {
    /// Takes the slice for as long as the tasks run.
    pub fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len(), slice: std::marker::PhantomData }
    }

    /// The elements of `range`.
    ///
    /// # Safety
    /// No other live reference may cover an element of `range`.
    #[allow(clippy::mut_from_ref, reason = "this is the point of the type: disjoint parts through a shared handle")]
    #[inline(always)]
    pub unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        debug_assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: in bounds (a property of the blocks), and unaliased by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.end - range.start) }
    }

    /// The address of element `index`, for kernels that write strided parts.
    ///
    /// # Safety
    /// `index` must lie inside the slice or at its end.
    #[inline(always)]
    pub unsafe fn at(&self, index: usize) -> *mut T {
        debug_assert!(index <= self.len);
        // SAFETY: inside the slice by the caller's promise.
        unsafe { self.start.add(index) }
    }
}

/// Sums vectors of `width` numbers over `blocks` blocks into `out`, in the order of the blocks.
///
/// `part(block, sums)` adds the share of one block to `sums`, which starts at zero.
pub fn sum_blocks<T: Real>(
    blocks: usize,
    work: usize,
    out: &mut [T],
    write: Write,
    part: impl Fn(usize, &mut [T]) + Sync + Send,
) {
    let width = out.len();
    if write == Write::Replace {
        out.fill(T::ZERO);
    }
    if blocks == 1 && write == Write::Replace {
        return part(0, out);
    }
    T::with_scratch(blocks * width, |sums| {
        sums.fill(T::ZERO);
        let parts = DisjointSlice::new(sums);
        // SAFETY: every block has a range of its own.
        each(blocks, work, |i| part(i, unsafe { parts.part(i * width..(i + 1) * width) }));
        for sum in sums.chunks_exact(width.max(1)) {
            add_to(out, sum);
        }
    });
}

/// Adds up `part(block)` over the blocks in double precision, in the order of the blocks.
pub fn sum_scalars(blocks: usize, work: usize, part: impl Fn(usize) -> f64 + Sync + Send) -> f64 {
    f64::with_scratch(blocks, |sums| {
        let parts = DisjointSlice::new(sums);
        // SAFETY: every block has an element of its own.
        each(blocks, work, |i| unsafe { *parts.at(i) = part(i) });
        sums.iter().sum()
    })
}

/// `out += x`, on the calling thread.
pub fn add_to<T: Real>(out: &mut [T], x: &[T]) {
    vectorised!({
        for (o, &v) in out.iter_mut().zip(x) {
            *o += v;
        }
    });
}

/// The sum of `f(i)` over a slice pair with [`LANES`] partial sums in fixed order. Call it inside `vectorised!`.
#[inline(always)]
pub fn lane_sum<T: Real>(a: &[T], b: &[T], f: impl Fn(T, T) -> T) -> T {
    let mut lanes = [T::ZERO; LANES];
    let (a_blocks, a_rest) = a.as_chunks::<LANES>();
    let (b_blocks, b_rest) = b[..a.len()].as_chunks::<LANES>();
    for (x, y) in a_blocks.iter().zip(b_blocks) {
        for l in 0..LANES {
            lanes[l] += f(x[l], y[l]);
        }
    }
    for (l, (&x, &y)) in a_rest.iter().zip(b_rest).enumerate() {
        lanes[l] += f(x, y);
    }
    sum_lanes(lanes)
}

/// [`lane_sum`] of the products: the scalar product.
#[inline(always)]
pub fn lane_dot<T: Real>(a: &[T], b: &[T]) -> T {
    lane_sum(
        a,
        b,
        #[inline(always)]
        |a, b| a * b,
    )
}

/// [`lane_sum`] of the numbers themselves.
#[inline(always)]
pub fn lane_total<T: Real>(x: &[T]) -> T {
    lane_sum(
        x,
        x,
        #[inline(always)]
        |x, _| x,
    )
}

/// The sum of the lanes.
#[inline(always)]
pub fn sum_lanes<T: Real>(lanes: [T; LANES]) -> T {
    fold_lanes(lanes, |x, y| x + y)
}

/// Combines the lanes pairwise: 16 to 8, 4, 2, 1.
#[inline(always)]
pub fn fold_lanes<T: Real>(mut lanes: [T; LANES], f: impl Fn(T, T) -> T) -> T {
    let mut half = LANES / 2;
    while half > 0 {
        for l in 0..half {
            lanes[l] = f(lanes[l], lanes[l + half]);
        }
        half /= 2;
    }
    lanes[0]
}
