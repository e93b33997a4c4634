//! Products of a scalar per unit with the values of the unit: halting probabilities weigh states.
//!
//! A unit is a row or a single position, with one scalar. Its values are contiguous.
//!
//! Source: Ray Chowdhury and Caragea 2024, Algorithm 1, arXiv:2402.00976.

use std::ops::Range;

use super::Real;
use super::parallel::{BLOCK, DisjointSlice, block, each, lane_dot, vectorised};
use super::truth;

/// Which values belong to which unit.
#[derive(Clone, Copy, Debug)]
pub enum Groups<'a> {
    /// Every unit has this many values.
    Uniform(usize),
    /// Unit u has positions `offsets[u]..offsets[u + 1]`, each with this many values.
    Offsets(&'a [usize], usize),
}

impl Groups<'_> {
    /// Number of units that share `len` values.
    pub fn units(self, len: usize) -> usize {
        match self {
            Groups::Uniform(width) => len / width,
            Groups::Offsets(offsets, _) => offsets.len() - 1,
        }
    }

    /// The values of one unit.
    #[inline(always)]
    pub fn range(self, unit: usize) -> Range<usize> {
        match self {
            Groups::Uniform(width) => unit * width..(unit + 1) * width,
            Groups::Offsets(offsets, width) => offsets[unit] * width..offsets[unit + 1] * width,
        }
    }

    /// Runs `task` over blocks of units, together about [`BLOCK`] values.
    fn each(self, len: usize, task: impl Fn(Range<usize>) + Sync + Send) {
        let units = self.units(len);
        let size = (BLOCK * units / len.max(1)).clamp(1, units.max(1));
        each(units.div_ceil(size), len, |i| task(block(i, size, units)));
    }
}

/// Writes the values of every unit: `task(u, range, y)`, where `range` says which values of an array those of unit u are.
fn write_units<T: Real>(y: &mut [T], groups: Groups, task: impl Fn(usize, Range<usize>, &mut [T]) + Sync + Send) {
    let len = y.len();
    let out = DisjointSlice::new(y);
    groups.each(len, |units| {
        vectorised!({
            for u in units {
                let range = groups.range(u);
                // SAFETY: units are disjoint.
                task(u, range.clone(), unsafe { out.part(range) });
            }
        });
    });
}

/// `y = s[u] x` for the values x of every unit u.
pub fn mul_unit<T: Real>(x: &[T], s: &[T], groups: Groups, y: &mut [T]) {
    debug_assert!(x.len() == y.len() && s.len() == groups.units(x.len()));
    write_units(
        y,
        groups,
        #[inline(always)]
        |u, range, y| y.iter_mut().zip(&x[range]).for_each(|(y, &x)| *y = s[u] * x),
    );
}

/// `out[u]` = the sum of `a b` over the values of unit u: the gradient of the scalar in [`mul_unit`].
pub fn dot_unit<T: Real>(a: &[T], b: &[T], groups: Groups, out: &mut [T]) {
    debug_assert!(a.len() == b.len() && out.len() == groups.units(a.len()));
    let out = DisjointSlice::new(out);
    groups.each(a.len(), |units| {
        vectorised!({
            for u in units {
                let range = groups.range(u);
                let sum = lane_dot(&a[range.clone()], &b[range]);
                // SAFETY: every unit has an element of its own.
                unsafe { *out.at(u) = sum };
            }
        });
    });
}

/// `y = q + s[u] h`: the mixture with one more state.
pub fn add_scaled<T: Real>(q: &[T], h: &[T], s: &[T], groups: Groups, y: &mut [T]) {
    debug_assert!(q.len() == y.len() && h.len() == y.len() && s.len() == groups.units(y.len()));
    write_units(
        y,
        groups,
        #[inline(always)]
        |u, range, y| {
            let operands = q[range.clone()].iter().zip(&h[range]);
            y.iter_mut().zip(operands).for_each(|(y, (&q, &h))| *y = s[u].mul_add(h, q));
        },
    );
}

/// `y += s[u] x`: [`mul_unit`] that adds.
pub fn add_scaled_assign<T: Real>(y: &mut [T], x: &[T], s: &[T], groups: Groups) {
    debug_assert!(x.len() == y.len() && s.len() == groups.units(y.len()));
    write_units(
        y,
        groups,
        #[inline(always)]
        |u, range, y| y.iter_mut().zip(&x[range]).for_each(|(y, &x)| *y = s[u].mul_add(x, *y)),
    );
}

/// The values of the units whose condition equals `when`, 0 elsewhere; NaN where the condition is unknown.
pub fn mask_unit<T: Real>(x: &[T], condition: &[u8], when: bool, groups: Groups, y: &mut [T]) {
    debug_assert!(x.len() == y.len() && condition.len() == groups.units(x.len()));
    for (u, &c) in condition.iter().enumerate() {
        let range = groups.range(u);
        match c {
            truth::UNKNOWN => y[range].fill(T::NAN),
            c if (c == truth::TRUE) == when => y[range.clone()].copy_from_slice(&x[range]),
            _ => y[range].fill(T::ZERO),
        }
    }
}

/// The values of `a` for the units whose condition holds, those of `b` for the others; NaN where it is unknown.
pub fn select<T: Real>(condition: &[u8], a: &[T], b: &[T], groups: Groups, y: &mut [T]) {
    debug_assert!(a.len() == y.len() && b.len() == y.len());
    for (u, &c) in condition.iter().enumerate() {
        let range = groups.range(u);
        match c {
            truth::UNKNOWN => y[range].fill(T::NAN),
            c => y[range.clone()].copy_from_slice(if c == truth::TRUE { &a[range] } else { &b[range] }),
        }
    }
}
