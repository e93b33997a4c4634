//! Rotary positions, plain (RoPE) and with decay (xPos), on interleaved pairs of channels.
//!
//! Pair i of a head of width e turns by `p w_i` with `w_i = 10000^(-2i/e)` at position p of its row. xPos besides
//! multiplies queries by `z_i^(p/512)` and keys by `z_i^(-p/512)` with `z_i = (2i/e + 0.4) / 1.4`, so that a product
//! of both decays with the distance. Positions count from the start of the row; a common shift cancels in the product.
//!
//! Source: Su et al. 2021 (RoPE), arXiv:2104.09864; Sun et al. 2022 (xPos), arXiv:2212.10554.

pub use rtc_compiler::ir::attribute::PositionKind;
use std::collections::BTreeMap;

use super::Real;
use super::parallel::vectorised;

/// The distance over which xPos applies its base once.
const SCALE_BASE: f64 = 512.0;

/// Channels turned at a time.
const PIECE: usize = 8;

/// A linear map or its transpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The map itself: forward.
    Forward,
    /// The transposed map: the gradient.
    Transposed,
}

/// Cosines and sines by position, times the decay factors, computed in double precision and rounded once.
///
/// Keep one for as long as a model runs: tables only grow.
#[derive(Clone, Debug, Default)]
pub struct PositionTables<T> {
    tables: BTreeMap<(PositionKind, usize), Table<T>>,
}

/// One table: `e` numbers per position in each array, one for each channel.
#[derive(Clone, Debug)]
pub struct Table<T> {
    cosines: Vec<T>,
    /// Those of the first channel of a pair with the opposite sign.
    sines: Vec<T>,
}

impl<T: Real> PositionTables<T> {
    /// No tables yet.
    pub fn new() -> Self {
        Self { tables: BTreeMap::new() }
    }

    /// The table of a kind and head width, as long as [`Self::upto`] has made it.
    pub fn get(&self, kind: PositionKind, e: usize) -> &Table<T> {
        &self.tables[&(kind, e)]
    }

    /// The table of a kind and head width, with at least the first `positions` positions.
    pub fn upto(&mut self, kind: PositionKind, e: usize, positions: usize) -> &Table<T> {
        let empty = || Table { cosines: Vec::new(), sines: Vec::new() };
        let table = self.tables.entry((kind, e)).or_insert_with(empty);
        for position in table.cosines.len().checked_div(e).unwrap_or(positions)..positions {
            for pair in 0..e / 2 {
                let (cosine, sine) = entry(kind, e, pair, position);
                table.cosines.extend([T::from_f64(cosine); 2]);
                table.sines.extend([T::from_f64(-sine), T::from_f64(sine)]);
            }
        }
        table
    }
}

/// Sines and cosines of positions: the first half of the channels holds `sin(p w_k)`, the second half `cos(p w_k)` with
/// `w_k = 10000^(-2k/d)`. An odd width has one sine more. Keep them for as long as a model runs: they only grow.
#[derive(Clone, Debug, Default)]
pub struct Codes<T> {
    tables: BTreeMap<usize, Vec<T>>,
}

impl<T: Real> Codes<T> {
    /// Makes the codes of `d` channels reach the first `positions` positions.
    pub fn extend_to(&mut self, d: usize, positions: usize) {
        let table = self.tables.entry(d).or_default();
        for position in table.len().checked_div(d).unwrap_or(positions)..positions {
            table.extend((0..d).map(|channel| T::from_f64(code(d, channel, position))));
        }
    }

    /// The codes of `d` channels, position by position.
    pub fn of(&self, d: usize) -> &[T] {
        self.tables.get(&d).map_or(&[], Vec::as_slice)
    }
}

/// One number of the code of a position.
fn code(d: usize, channel: usize, position: usize) -> f64 {
    let sines = d.div_ceil(2);
    let frequency = |k: usize| 10_000_f64.powf(-2.0 * k as f64 / d as f64);
    if channel < sines {
        (position as f64 * frequency(channel)).sin()
    } else {
        (position as f64 * frequency(channel - sines)).cos()
    }
}

impl<T> Table<T> {
    /// Its cosines and sines, one of each for every channel of every position.
    pub fn numbers(&self) -> (&[T], &[T]) {
        (&self.cosines, &self.sines)
    }
}

/// Cosine and sine of pair `pair` at `position`, times the decay factor.
fn entry(kind: PositionKind, e: usize, pair: usize, position: usize) -> (f64, f64) {
    let part = 2.0 * pair as f64 / e as f64;
    let angle = position as f64 * 10_000_f64.powf(-part);
    let power = position as f64 / SCALE_BASE;
    let base = (part + 0.4) / 1.4;
    let factor = match kind {
        PositionKind::Rope => 1.0,
        PositionKind::XposQuery => base.powf(power),
        PositionKind::XposKey => base.powf(-power),
    };
    (factor * angle.cos(), factor * angle.sin())
}

/// Rotates every pair of the channels of consecutive positions, `x[positions, heads e]`, the first of which is `first`:
/// `y = (a cos - b sin, b cos + a sin)`. `e` is even; the table reaches as far as the positions.
pub fn rotate<T: Real>(
    x: &[T],
    table: &Table<T>,
    heads: usize,
    e: usize,
    first: usize,
    direction: Direction,
    y: &mut [T],
) {
    let width = heads * e;
    debug_assert!(x.len() == y.len() && x.len().is_multiple_of(width) && e.is_multiple_of(2));
    let sign = if direction == Direction::Transposed { -T::ONE } else { T::ONE };
    let angles = table.cosines[first * e..].chunks_exact(e).zip(table.sines[first * e..].chunks_exact(e));
    vectorised!({
        for ((x, y), (cosines, sines)) in x.chunks_exact(width).zip(y.chunks_exact_mut(width)).zip(angles) {
            for (x, y) in x.chunks_exact(e).zip(y.chunks_exact_mut(e)) {
                let (whole, rest) = x.as_chunks::<PIECE>();
                let done = whole.len() * PIECE;
                for (n, x) in whole.iter().enumerate() {
                    let at = n * PIECE..(n + 1) * PIECE;
                    turn(x, &cosines[at.clone()], &sines[at.clone()], sign, &mut y[at]);
                }
                for (n, x) in rest.as_chunks::<2>().0.iter().enumerate() {
                    let at = done + 2 * n..done + 2 * n + 2;
                    turn(x, &cosines[at.clone()], &sines[at.clone()], sign, &mut y[at]);
                }
            }
        }
    });
}

/// `y[c] = x[c] cos + x[the other of the pair] sin`.
#[inline(always)]
fn turn<T: Real, const N: usize>(x: &[T; N], cosines: &[T], sines: &[T], sign: T, y: &mut [T]) {
    let mut swapped = *x;
    for c in 0..N {
        swapped[c] = x[c ^ 1];
    }
    for c in 0..N {
        y[c] = x[c] * cosines[c] + swapped[c] * (sign * sines[c]);
    }
}
