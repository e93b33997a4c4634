//! Embedding tables, START and END around each row, and learned rows that are the same for the whole batch.
//!
//! Source: rtc.

use rtc_compiler::ir::pointwise::Pointwise;

use super::beam::nodes::{self, NodeFeatures};
use super::parallel::add_to;
use super::pointwise::{FunctionArgument, apply};
use super::{Real, elementwise};

/// `y[tokens, d]` = row `ids[t]` of `table[vocabulary, d]`.
pub fn gather<T: Real>(table: &[T], ids: &[u32], d: usize, y: &mut [T]) {
    nodes::gather(table, d, ids, NodeFeatures::alone(d), y);
}

/// Adds `dy[t]` to row `ids[t]` of `dtable`, in the order of the tokens: the gradient of [`gather`].
pub fn scatter_add<T: Real>(dy: &[T], ids: &[u32], d: usize, dtable: &mut [T]) {
    nodes::scatter_add(dy, NodeFeatures::alone(d), ids, d, dtable);
}

/// `y = x + table[position]`, where positions count from the start of each row; the table reaches as far as the rows.
pub fn add_position<T: Real>(x: &[T], offsets: &[usize], table: &[T], d: usize, y: &mut [T]) {
    debug_assert!(x.len() == y.len() && offsets.last().is_some_and(|end| end * d == x.len()));
    for span in offsets.windows(2) {
        let range = span[0] * d..span[1] * d;
        let args = [
            FunctionArgument::Each(&x[range.clone()]),
            FunctionArgument::Each(&table[..range.len()]),
            FunctionArgument::All(T::ZERO),
        ];
        apply(Pointwise::Add, args, &mut y[range]);
    }
}

/// The gradient of [`add_position`] for a learned table: adds `dy` to it, row after row.
pub fn add_position_grad<T: Real>(dy: &[T], offsets: &[usize], d: usize, dtable: &mut [T]) {
    for span in offsets.windows(2) {
        let dy = &dy[span[0] * d..span[1] * d];
        elementwise::add_assign(&mut dtable[..dy.len()], dy);
    }
}

/// Each row of `x` behind as many copies of `pad[d]` as its length in `to` takes.
pub fn pad_ragged<T: Real>(x: &[T], offsets: &[usize], pad: &[T], to: &[usize], y: &mut [T]) {
    let d = pad.len();
    for (from, to) in offsets.windows(2).zip(to.windows(2)) {
        let (x, y) = (&x[from[0] * d..from[1] * d], &mut y[to[0] * d..to[1] * d]);
        let (front, row) = y.split_at_mut(y.len() - x.len());
        front.chunks_exact_mut(d).for_each(|y| y.copy_from_slice(pad));
        row.copy_from_slice(x);
    }
}

/// The gradient of [`pad_ragged`] (`offsets` of the rows as they were): overwrites `dx`, adds to `dpad`, row after row.
pub fn pad_ragged_grad<T: Real>(dy: &[T], offsets: &[usize], to: &[usize], dx: &mut [T], dpad: &mut [T]) {
    let d = dpad.len();
    for (from, to) in offsets.windows(2).zip(to.windows(2)) {
        let (dx, dy) = (&mut dx[from[0] * d..from[1] * d], &dy[to[0] * d..to[1] * d]);
        let (front, row) = dy.split_at(dy.len() - dx.len());
        front.chunks_exact(d).for_each(|dy| add_to(dpad, dy));
        dx.copy_from_slice(row);
    }
}

/// Puts `start[d]` before and `end[d]` behind every row of `x`: `y` has two positions more per row.
pub fn frame<T: Real>(x: &[T], offsets: &[usize], start: &[T], end: &[T], y: &mut [T]) {
    let d = start.len();
    debug_assert_eq!(y.len(), x.len() + 2 * (offsets.len() - 1) * d);
    for (row, span) in offsets.windows(2).enumerate() {
        let y = &mut y[(span[0] + 2 * row) * d..(span[1] + 2 * row + 2) * d];
        let inner = (span[1] - span[0]) * d;
        y[..d].copy_from_slice(start);
        y[d..d + inner].copy_from_slice(&x[span[0] * d..span[1] * d]);
        y[d + inner..].copy_from_slice(end);
    }
}

/// The gradient of [`frame`] (`offsets` of the inner rows): overwrites `dx`, adds to `dstart` and `dend`.
pub fn frame_grad<T: Real>(dy: &[T], offsets: &[usize], dx: &mut [T], dstart: &mut [T], dend: &mut [T]) {
    let d = dstart.len();
    debug_assert_eq!(dy.len(), dx.len() + 2 * (offsets.len() - 1) * d);
    for (row, span) in offsets.windows(2).enumerate() {
        let dy = &dy[(span[0] + 2 * row) * d..(span[1] + 2 * row + 2) * d];
        let inner = (span[1] - span[0]) * d;
        let dx = &mut dx[span[0] * d..span[1] * d];
        add_to(dstart, &dy[..d]);
        dx.copy_from_slice(&dy[d..d + inner]);
        add_to(dend, &dy[d + inner..]);
    }
}

/// Each row of `x` behind the positions that are its part of `v`, the same number for every row.
pub fn prefix<T: Real>(x: &[T], offsets: &[usize], v: &[T], d: usize, y: &mut [T]) {
    let rows = offsets.len() - 1;
    let more = v.len() / rows.max(1);
    debug_assert_eq!(y.len(), x.len() + rows * more);
    for (row, span) in offsets.windows(2).enumerate() {
        let y = &mut y[span[0] * d + row * more..span[1] * d + (row + 1) * more];
        y[..more].copy_from_slice(&v[row * more..(row + 1) * more]);
        y[more..].copy_from_slice(&x[span[0] * d..span[1] * d]);
    }
}

/// Each row of `x` without its first `count` positions; `offsets` are those with them.
pub fn unprefix<T: Real>(x: &[T], offsets: &[usize], count: usize, d: usize, y: &mut [T]) {
    let mut at = 0;
    for span in offsets.windows(2) {
        let row = &x[(span[0] + count) * d..span[1] * d];
        y[at..at + row.len()].copy_from_slice(row);
        at += row.len();
    }
    debug_assert_eq!(at, y.len());
}

/// The first positions of each row, side by side: the gradient of [`prefix`] for `v`.
pub fn prefix_grad<T: Real>(dy: &[T], offsets: &[usize], d: usize, dv: &mut [T]) {
    let more = dv.len() / (offsets.len() - 1).max(1);
    for (dv, start) in dv.chunks_exact_mut(more).zip(offsets) {
        dv.copy_from_slice(&dy[start * d..start * d + more]);
    }
}

/// `y[r, c, p] = x[r, p, c]`, for rows of `count` positions with `d` channels.
pub fn transpose<T: Real>(x: &[T], count: usize, d: usize, y: &mut [T]) {
    debug_assert_eq!(x.len(), y.len());
    for (x, y) in x.chunks_exact(count * d).zip(y.chunks_exact_mut(count * d)) {
        for (n, y) in y.iter_mut().enumerate() {
            *y = x[n % count * d + n / count];
        }
    }
}

/// `y` = `p[s, d]` once for each of `rows` rows, end to end: memory slots at the start of a row.
pub fn broadcast_batch<T: Real>(p: &[T], rows: usize, y: &mut [T]) {
    debug_assert_eq!(y.len(), rows * p.len());
    if !p.is_empty() {
        y.chunks_exact_mut(p.len()).for_each(|y| y.copy_from_slice(p));
    }
}
