//! The small algebra that plain numbers and formulas share: what sizes and costs are computed in.

use std::fmt;

use super::loops::Cut;
use super::schedule::beam::{BeamRules, Count};
use super::schedule::fold::{RowLevel, row_levels};
use super::schedule::recur::bound;
use crate::expr::Expr;

/// What sizes and costs are computed in: numbers, or formulas.
pub trait Number: Clone + fmt::Debug {
    /// A constant.
    fn of(value: f64) -> Self;
    /// The sum.
    fn plus(&self, other: &Self) -> Self;
    /// The product.
    fn times(&self, other: &Self) -> Self;
    /// The larger of the two; of formulas the one that is larger for batches of usual size.
    fn larger(&self, other: &Self) -> Self;
    /// The quotient, a mean; 0 of nothing.
    fn per(&self, other: &Self) -> Self;
    /// All chunks of a fold over a row of this length, of which many are alike: how many there are, and their nodes.
    fn fold(cut: Cut, length: &Self) -> Vec<(Self, Self)>;
    /// The levels of a fold.
    fn levels(cut: Cut, length: &Self) -> Self;
    /// What a search does with a row of this length.
    fn search(beams: BeamRules, count: Count, length: &Self) -> Self;
    /// `ceil(self / other)`, a number of chunks. Of chunks of one element there are as many as elements, also on the mean.
    fn pieces(&self, other: &Self) -> Self;
    /// The smaller of the two; a formula calls it by this letter.
    fn least(&self, other: &Self, letter: &'static str) -> Self;
    /// The value of a depth for a row of this length; 0 where it has none.
    fn depth(expr: &Expr, length: &Self) -> Self;

    /// The difference.
    fn minus(&self, other: &Self) -> Self {
        self.plus(&other.times(&Self::of(-1.0)))
    }
}

impl Number for f64 {
    fn of(value: f64) -> Self {
        value
    }

    fn plus(&self, other: &Self) -> Self {
        self + other
    }

    fn times(&self, other: &Self) -> Self {
        self * other
    }

    fn larger(&self, other: &Self) -> Self {
        self.max(*other)
    }

    fn per(&self, other: &Self) -> Self {
        if *other == 0.0 { 0.0 } else { self / other }
    }

    fn fold(cut: Cut, length: &Self) -> Vec<(Self, Self)> {
        row_levels(cut, *length).flat_map(RowLevel::chunks).collect()
    }

    fn levels(cut: Cut, length: &Self) -> Self {
        row_levels(cut, *length).count() as f64
    }

    fn search(beams: BeamRules, count: Count, length: &Self) -> Self {
        beams.count(length.ceil() as usize, count)
    }

    fn pieces(&self, other: &Self) -> Self {
        if *other <= 1.0 { *self } else { (self / other).ceil() }
    }

    fn least(&self, other: &Self, _: &'static str) -> Self {
        self.min(*other)
    }

    fn depth(expr: &Expr, length: &Self) -> Self {
        // Given depths are taken to be the length: tasks give about as many steps.
        bound(expr, *length as usize, Some(*length as i64), None).unwrap_or(0) as f64
    }
}
