//! Rotary positions, plain (RoPE) and with decay (xPos), on pairs of channels.
//!
//! Of every head the first r channels turn, or all. Pair i turns by `p w_i` with `w_i = base^(-2i/r)` at position p of its row, or by what
//! an expression makes of it ([`rotation`]); it is channels 2i and 2i + 1, or i and i + r/2. xPos besides multiplies queries by `z_i^(p/512)` and keys by `z_i^(-p/512)` with
//! `z_i = (2i/r + 0.4) / 1.4`, so that a product of both decays with the distance. Positions count from the start of the row; a
//! common shift cancels in the product.
//!
//! Source: Su et al. 2021 (RoPE), arXiv:2104.09864; Sun et al. 2022 (xPos), arXiv:2212.10554; a part of the channels, halves: Black et
//! al. 2022 (GPT-NeoX), arXiv:2204.06745.

use rtc_compiler::expr::Expr;
use rtc_compiler::ir::attribute::{self, Attrs, USUAL_BASE};
pub use rtc_compiler::ir::attribute::{Layout, PositionKind};
use rtc_compiler::ir::rotation;
use rtc_compiler::ir::types::Attr;
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

/// How the channels of a head turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rotation {
    /// What it does besides turning.
    pub kind: PositionKind,
    /// Which channels are a pair.
    pub layout: Layout,
    /// How many channels turn, from the first on; even.
    pub part: usize,
    /// The bits of the base: tables are found by the rotation.
    base: u64,
    /// A number for the expression that changes the angles; 0 for none.
    changed: u64,
}

/// A number that tells expressions apart, FNV-1a.
fn told_apart(hash: u64, attr: &Attr) -> u64 {
    let bytes = |hash: u64, bytes: &[u8]| {
        bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
    };
    match attr {
        Attr::Int(v) => bytes(hash, &v.to_le_bytes()),
        Attr::Float(v) => bytes(hash, &v.to_bits().to_le_bytes()),
        Attr::Word(text) | Attr::Text(text) => bytes(hash, text.as_bytes()),
        Attr::Call(name, args) => {
            args.iter().fold(bytes(hash, name.as_bytes()), |hash, arg| told_apart(bytes(hash, b","), arg))
        }
    }
}

impl Rotation {
    /// Neighbours among so many channels, with the usual base.
    pub fn new(kind: PositionKind, part: usize) -> Self {
        Self { kind, layout: Layout::Pairs, part, base: USUAL_BASE.to_bits(), changed: 0 }
    }

    /// That of a node, with heads of a width.
    pub fn of(attrs: &Attrs, head_width: usize) -> Self {
        let part = attrs.find(attribute::PART).unwrap_or(head_width);
        let own = Self::new(attrs.get(attribute::KIND), part);
        let changed = attrs.find(attribute::ANGLE).map_or(0, |angle| told_apart(0xcbf2_9ce4_8422_2325, angle));
        Self { changed, ..own.with_layout(attrs.get(attribute::LAYOUT)).with_base(attrs.get(attribute::BASE)) }
    }

    /// The same with other pairs.
    #[must_use]
    pub fn with_layout(self, layout: Layout) -> Self {
        Self { layout, ..self }
    }

    /// The same with another base.
    #[must_use]
    pub fn with_base(self, base: f64) -> Self {
        Self { base: base.to_bits(), ..self }
    }

    /// How far the channels of a pair are apart.
    pub fn across(self) -> usize {
        match self.layout {
            Layout::Pairs => 1,
            Layout::Half => self.part / 2,
        }
    }

    /// The pair of a channel, and whether it is the first of it.
    fn pair(self, channel: usize) -> (usize, bool) {
        match self.layout {
            Layout::Pairs => (channel / 2, channel.is_multiple_of(2)),
            Layout::Half => (channel % (self.part / 2), channel < self.part / 2),
        }
    }

    /// Cosine and sine of a pair that turns by an angle, at a position, times the decay factor.
    fn wave(self, (pair, angle): (usize, f64), position: usize) -> (f64, f64) {
        let part = 2.0 * pair as f64 / self.part as f64;
        let angle = position as f64 * angle;
        let power = position as f64 / SCALE_BASE;
        let base = (part + 0.4) / 1.4;
        let factor = match self.kind {
            PositionKind::Rope => 1.0,
            PositionKind::XposQuery => base.powf(power),
            PositionKind::XposKey => base.powf(-power),
        };
        (factor * angle.cos(), factor * angle.sin())
    }
}

/// Cosines and sines by position, times the decay factors, computed in double precision and rounded once.
///
/// Keep one for as long as a model runs: tables only grow.
#[derive(Clone, Debug, Default)]
pub struct PositionTables<T> {
    tables: BTreeMap<Rotation, RotationTable<T>>,
}

/// One table: a number per position in each array for each channel that turns.
#[derive(Clone, Debug)]
pub struct RotationTable<T> {
    rotation: Rotation,
    /// Of every pair.
    angles: Vec<f64>,
    cosines: Vec<T>,
    /// Those of the first channel of a pair with the opposite sign.
    sines: Vec<T>,
}

impl<T: Real> PositionTables<T> {
    /// No tables yet.
    pub fn new() -> Self {
        Self { tables: BTreeMap::new() }
    }

    /// The table of a rotation, as long as [`Self::upto`] has made it.
    pub fn get(&self, rotation: Rotation) -> &RotationTable<T> {
        &self.tables[&rotation]
    }

    /// The table of a rotation, with at least the first `positions` positions; `changed` is the expression of its angles.
    ///
    /// # Panics
    /// If an angle has no number, which the verifier of graphs refuses.
    pub fn upto(&mut self, rotation: Rotation, changed: Option<&Attr>, positions: usize) -> &RotationTable<T> {
        let empty = || {
            let changed = changed.map(Expr::try_from).transpose();
            let angles =
                changed.and_then(|expr| rotation::angles(rotation.part, f64::from_bits(rotation.base), expr.as_ref()));
            let angles = angles.expect("a verified node has angles");
            RotationTable { rotation, angles, cosines: Vec::new(), sines: Vec::new() }
        };
        let table = self.tables.entry(rotation).or_insert_with(empty);
        for position in table.cosines.len().checked_div(rotation.part).unwrap_or(positions)..positions {
            for channel in 0..rotation.part {
                let (pair, first) = rotation.pair(channel);
                let (cosine, sine) = rotation.wave((pair, table.angles[pair]), position);
                table.cosines.push(T::from_f64(cosine));
                table.sines.push(T::from_f64(if first { -sine } else { sine }));
            }
        }
        table
    }
}

/// Sines and cosines of positions: the first half of the channels holds `sin(p w_k)`, the second half `cos(p w_k)` with
/// `w_k = 10000^(-2k/d)`. An odd width has one sine more. Keep them for as long as a model runs: they only grow.
#[derive(Clone, Debug, Default)]
pub struct PositionCodes<T> {
    tables: BTreeMap<usize, Vec<T>>,
}

impl<T: Real> PositionCodes<T> {
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

/// Sines and cosines of any numbers: what stands in each channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waves {
    /// Where sine and cosine of one angle stand.
    pub layout: Layout,
    /// What the frequencies fall with from pair to pair.
    pub base: f64,
}

impl Waves {
    /// Those of a node.
    pub fn of(attrs: &Attrs) -> Self {
        Self { layout: attrs.get(attribute::LAYOUT), base: attrs.get(attribute::BASE) }
    }

    /// The frequency of a channel among `width`, and whether it is a cosine.
    fn channel(self, channel: usize, width: usize) -> (f64, bool) {
        let sines = width.div_ceil(2);
        let (pair, cosine) = match self.layout {
            Layout::Pairs => (channel / 2, channel % 2 == 1),
            Layout::Half => (channel % sines, channel >= sines),
        };
        (self.base.powf(-2.0 * pair as f64 / width as f64), cosine)
    }
}

/// `y[.., c]` is the sine or the cosine of `w_c n`, in double precision and rounded once.
pub fn sinusoid<T: Real>(n: &[T], waves: Waves, y: &mut [T]) {
    let width = y.len() / n.len().max(1);
    for channel in 0..width {
        let (frequency, cosine) = waves.channel(channel, width);
        for (n, y) in n.iter().zip(y.chunks_exact_mut(width)) {
            let angle = n.to_f64() * frequency;
            y[channel] = T::from_f64(if cosine { angle.cos() } else { angle.sin() });
        }
    }
}

/// The gradient of [`sinusoid`] for the numbers.
pub fn sinusoid_grad<T: Real>(dy: &[T], n: &[T], waves: Waves, dn: &mut [T]) {
    let width = dy.len() / n.len().max(1);
    dn.fill(T::ZERO);
    for channel in 0..width {
        let (frequency, cosine) = waves.channel(channel, width);
        for ((n, dn), dy) in n.iter().zip(&mut *dn).zip(dy.chunks_exact(width)) {
            let angle = n.to_f64() * frequency;
            let slope = frequency * if cosine { -angle.sin() } else { angle.cos() };
            *dn += T::from_f64(slope) * dy[channel];
        }
    }
}

/// The number of every position in its row; the first ones stand `before` positions behind its start.
pub fn positions<T: Real>(offsets: &[usize], before: usize, y: &mut [T]) {
    for row in offsets.windows(2) {
        for (n, y) in y[row[0]..row[1]].iter_mut().enumerate() {
            *y = T::from_f64((before + n) as f64);
        }
    }
}

impl<T> RotationTable<T> {
    /// Its cosines and sines, one of each for every channel of every position.
    pub fn numbers(&self) -> (&[T], &[T]) {
        (&self.cosines, &self.sines)
    }
}

/// Rotates every pair of the channels of consecutive positions, `x[positions, heads e]`, the first of which is `first`:
/// `y = (a cos - b sin, b cos + a sin)`. Channels behind those that turn stay. The table reaches as far as the positions.
pub fn rotate<T: Real>(
    x: &[T],
    table: &RotationTable<T>,
    heads: usize,
    e: usize,
    first: usize,
    direction: Direction,
    y: &mut [T],
) {
    let (width, Rotation { layout, part, .. }) = (heads * e, table.rotation);
    debug_assert!(x.len() == y.len() && x.len().is_multiple_of(width) && part.is_multiple_of(2) && part <= e);
    let sign = if direction == Direction::Transposed { -T::ONE } else { T::ONE };
    let angles = table.cosines[first * part..].chunks_exact(part).zip(table.sines[first * part..].chunks_exact(part));
    vectorised!({
        for ((x, y), (cosines, sines)) in x.chunks_exact(width).zip(y.chunks_exact_mut(width)).zip(angles) {
            for (x, y) in x.chunks_exact(e).zip(y.chunks_exact_mut(e)) {
                match layout {
                    Layout::Pairs => neighbours(&x[..part], cosines, sines, sign, &mut y[..part]),
                    Layout::Half => halves(&x[..part], cosines, sines, sign, &mut y[..part]),
                }
                if part < e {
                    y[part..].copy_from_slice(&x[part..]);
                }
            }
        }
    });
}

/// Turns pairs of neighbours.
#[inline(always)]
fn neighbours<T: Real>(x: &[T], cosines: &[T], sines: &[T], sign: T, y: &mut [T]) {
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

/// Turns pairs of a channel of the first half and one of the second.
#[inline(always)]
fn halves<T: Real>(x: &[T], cosines: &[T], sines: &[T], sign: T, y: &mut [T]) {
    let half = x.len() / 2;
    let [(a, b), (cos_a, cos_b), (sin_a, sin_b)] = [x, cosines, sines].map(|all| all.split_at(half));
    let (y_a, y_b) = y.split_at_mut(half);
    for c in 0..half {
        y_a[c] = a[c] * cos_a[c] + b[c] * (sign * sin_a[c]);
        y_b[c] = b[c] * cos_b[c] + a[c] * (sign * sin_b[c]);
    }
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
