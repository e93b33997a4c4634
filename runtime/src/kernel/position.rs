//! Rotary positions, plain (RoPE) and with decay (xPos), on interleaved pairs of channels.
//!
//! Pair i of a head of width e turns by `p w_i` with `w_i = 10000^(-2i/e)` at position p of its row. xPos besides
//! multiplies queries by `z_i^(p/512)` and keys by `z_i^(-p/512)` with `z_i = (2i/e + 0.4) / 1.4`, so that a product
//! of both decays with the distance. Positions count from the start of the row; a common shift cancels in the product.

use std::collections::BTreeMap;

use super::Real;
use super::parallel::{Parts, block, each, vectorised};

/// The distance over which xPos applies its base once.
const SCALE_BASE: f64 = 512.0;

/// Positions of one block of work.
const POSITIONS: usize = 64;

/// What a rotation does besides turning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PositionKind {
    /// Nothing: RoPE, for queries and keys alike.
    Rope,
    /// The xPos factor of queries.
    XposQuery,
    /// The xPos factor of keys.
    XposKey,
}

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

/// One table: `e / 2` numbers per position in each array.
#[derive(Clone, Debug)]
struct Table<T> {
    cosines: Vec<T>,
    sines: Vec<T>,
}

impl<T: Real> PositionTables<T> {
    /// No tables yet.
    pub fn new() -> Self {
        Self { tables: BTreeMap::new() }
    }

    /// The table of a kind and head width, with at least the first `positions` positions.
    fn upto(&mut self, kind: PositionKind, e: usize, positions: usize) -> &Table<T> {
        let half = e / 2;
        let empty = || Table { cosines: Vec::new(), sines: Vec::new() };
        let table = self.tables.entry((kind, e)).or_insert_with(empty);
        for position in table.cosines.len().checked_div(half).unwrap_or(positions)..positions {
            for pair in 0..half {
                let (cosine, sine) = entry(kind, e, pair, position);
                table.cosines.push(T::from_f64(cosine));
                table.sines.push(T::from_f64(sine));
            }
        }
        table
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

/// Rotates every pair of `x[positions, heads e]` by the position in its row: `y = (a cos - b sin, b cos + a sin)`.
///
/// Row r begins at `offsets[r]` with position `origin[r]` (0 without origins). `e` is even.
pub fn xpos<T: Real>(
    x: &[T],
    offsets: &[usize],
    origin: Option<&[usize]>,
    heads: usize,
    e: usize,
    kind: PositionKind,
    direction: Direction,
    tables: &mut PositionTables<T>,
    y: &mut [T],
) {
    let width = heads * e;
    let rows = offsets.len() - 1;
    debug_assert!(x.len() == y.len() && x.len() == offsets[rows] * width && e.is_multiple_of(2));
    let start = |row: usize| origin.map_or(0, |origin| origin[row]);
    let longest = (0..rows).map(|row| start(row) + offsets[row + 1] - offsets[row]).max().unwrap_or(0);
    let table = tables.upto(kind, e, longest);
    let tokens = offsets[rows];
    let out = Parts::new(y);
    each(tokens.div_ceil(POSITIONS), tokens * width, |i| {
        let range = block(i, POSITIONS, tokens);
        let mut row = offsets.partition_point(|&offset| offset <= range.start) - 1;
        for token in range {
            while offsets[row + 1] <= token {
                row += 1;
            }
            let position = (start(row) + token - offsets[row]) * (e / 2);
            let cosines = &table.cosines[position..position + e / 2];
            let sines = &table.sines[position..position + e / 2];
            let at = token * width..(token + 1) * width;
            // SAFETY: tokens are disjoint.
            rotate(&x[at.clone()], cosines, sines, direction, unsafe { out.part(at) });
        }
    });
}

/// All heads of one position.
fn rotate<T: Real>(x: &[T], cosines: &[T], sines: &[T], direction: Direction, y: &mut [T]) {
    let e = 2 * cosines.len();
    let sign = if direction == Direction::Transposed { -T::ONE } else { T::ONE };
    vectorised(
        #[inline(always)]
        || {
            for (x, y) in x.chunks_exact(e).zip(y.chunks_exact_mut(e)) {
                let pairs = x.as_chunks::<2>().0.iter().zip(y.as_chunks_mut::<2>().0);
                for ((&[a, b], y), (&cosine, &sine)) in pairs.zip(cosines.iter().zip(sines)) {
                    let sine = sign * sine;
                    *y = [a * cosine - b * sine, b * cosine + a * sine];
                }
            }
        },
    );
}
