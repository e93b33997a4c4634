//! Muon: orthogonalised momentum (all singular values near 1) for the weights of linear maps.
//!
//! Source: Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks"; the length of a step is theirs, or that of
//! Liu et al. 2025, "Muon is scalable for LLM training", Eq. 4, with which learning rate and decay mean what they do in AdamW.

use super::Precision;
use super::array_update::ArrayUpdate;
use super::clip::squared_norm;
use super::elementwise::scale_assign;
use super::parallel::{DisjointSlice, each};
use super::product::{Orientation, Packed, outer, product};
use super::{Real, Write};
use crate::optimiser::{Along, Momentum, ParameterMatrix, STEPS, UpdateRule};

/// The polynomial of a step, `a x + b x^3 + c x^5`: steep at 0, so that it does not end at 1 but between 0.7 and 1.2.
pub const POLYNOMIAL: [f64; 3] = [3.4445, -4.7750, 2.0315];

/// Added to the Frobenius norm, for a gradient of zero.
pub const EPSILON: f64 = 1e-7;

/// Memory of the update of one matrix, kept from one update to the next.
#[derive(Clone, Debug, Default)]
pub struct MuonScratch<T: Real> {
    momentum: Vec<T>,
    moved: Vec<T>,
    square: Vec<T>,
    fourth: Vec<T>,
    /// Of what is orthogonalised, turned and straight, and of the squares.
    packed: [Packed<T>; 3],
}

/// An update of the matrices among the weights `w` with the gradient `g` and the momentum `m`, `b` being [`UpdateRule::momentum`]:
///
/// `m = b m + (1 - b) g; u = b m + (1 - b) g; w -= lr decay w; w -= lr size orthogonal(u)`.
///
/// Gradients are not clipped: a step has its length however long they are.
pub fn muon<T: Real>(
    [w, m]: [&mut [T]; 2],
    g: &[T],
    matrices: &[ParameterMatrix],
    scratch: &mut Vec<MuonScratch<T>>,
    rule: &UpdateRule,
) {
    debug_assert!(g.len() == w.len() && m.len() == w.len());
    scratch.resize_with(matrices.len(), MuonScratch::default);
    let (w, m, scratch) = (DisjointSlice::new(w), DisjointSlice::new(m), DisjointSlice::new(scratch));
    each(matrices.len(), usize::MAX, |i| {
        let matrix = &matrices[i];
        let rule = &rule.of_group(matrix.group, true);
        let range = || matrix.range.clone();
        // SAFETY: matrices don't overlap, and each has memory of its own.
        let (w, m, scratch) = unsafe { (w.part(range()), m.part(range()), &mut scratch.part(i..i + 1)[0]) };
        one([w, m], &g[range()], matrix, scratch, rule);
    });
}

fn one<T: Real>(
    [w, m]: [&mut [T]; 2],
    g: &[T],
    matrix: &ParameterMatrix,
    scratch: &mut MuonScratch<T>,
    rule: &UpdateRule,
) {
    let mut u = std::mem::take(&mut scratch.momentum);
    u.resize(g.len(), T::ZERO);
    Momentum::new(rule).run([m, &mut u], [g]);
    orthogonalise(&mut u, matrix.columns, scratch);
    Along::new(rule, matrix).run([w], [&u]);
    scratch.momentum = u;
}

/// Brings the singular values of `x[rows, columns]` near 1, by Newton-Schulz iteration: with S the smaller of `x x^T` and `x^T x`
/// and (a, b, c) the [`POLYNOMIAL`], every step is `x = (a + b S + c S^2) x`, or `x (...)`.
pub fn orthogonalise<T: Real>(x: &mut [T], columns: usize, scratch: &mut MuonScratch<T>) {
    let rows = x.len() / columns.max(1);
    let (tall, side) = (rows > columns, rows.min(columns));
    let [a, b, c] = POLYNOMIAL.map(T::from_f64);
    let inverse = T::from_f64(1.0 / (squared_norm(x).sqrt() + EPSILON));
    scale_assign(x, inverse);
    let MuonScratch { moved, square, fourth, packed: [turned, straight, packed], .. } = scratch;
    moved.resize(x.len(), T::ZERO);
    square.resize(side * side, T::ZERO);
    fourth.resize(side * side, T::ZERO);
    for _ in 0..STEPS {
        if tall {
            outer(x, x, square, rows, columns, columns, Write::Replace, Precision::F32);
        } else {
            turned.pack(x, columns, Orientation::Transposed, Precision::F32);
            product(x, turned, square, Write::Replace);
        }
        packed.pack(square, side, Orientation::Straight, Precision::F32);
        product(square, packed, fourth, Write::Replace);
        for (i, (y, &s)) in fourth.iter_mut().zip(&*square).enumerate() {
            let unit = if i % (side + 1) == 0 { a } else { T::ZERO };
            *y = unit + b * s + c * *y;
        }
        if tall {
            packed.pack(fourth, side, Orientation::Straight, Precision::F32);
            product(x, packed, moved, Write::Replace);
        } else {
            straight.pack(x, columns, Orientation::Straight, Precision::F32);
            product(fourth, straight, moved, Write::Replace);
        }
        x.copy_from_slice(moved);
    }
}
