//! The depth recurrence: every row takes part from the first step to its last one.

use std::ops::Deref;

use super::{Chunk, LoopSchedule};
use crate::expr::{self, Chance, Env, Expr, ScalarValue, eval_with};
use crate::ir::attribute;
use crate::ir::graph::{Graph, NodeId};
use crate::ir::loops;
use crate::ir::number::Number;
use crate::ir::ops::Op;
use crate::ir::types::Attr;

/// The steps of a depth recurrence.
#[derive(Clone, Debug)]
pub struct DepthSteps<L> {
    /// How many steps every row takes; one that halts takes fewer.
    ends: L,
    step: usize,
}

impl<L: Deref<Target = [usize]>> DepthSteps<L> {
    /// Rows with these ends, from step `first` on.
    pub fn new(ends: L, first: usize) -> Self {
        Self { ends, step: first }
    }

    /// The step that comes next.
    pub fn step(&self) -> usize {
        self.step
    }

    /// Whether the end of a row lies behind the next step.
    pub fn takes(&self, row: usize) -> bool {
        self.ends[row] > self.step
    }

    /// The end of the row that has the most steps.
    pub fn longest(&self) -> usize {
        self.ends.iter().copied().max().unwrap_or(0)
    }
}

impl<L: Deref<Target = [usize]>> LoopSchedule for DepthSteps<L> {
    fn alike(&self) -> usize {
        self.ends.iter().filter_map(|end| end.checked_sub(self.step).filter(|n| *n > 0)).min().unwrap_or(0)
    }

    /// A row is not cut: it is its only element.
    fn chunks(&self) -> impl Iterator<Item = Chunk> {
        let rows = (0..self.ends.len()).filter(|row| self.takes(*row));
        rows.map(|row| Chunk { row, start: 0, length: 1, filled: 1 })
    }

    fn advance(&mut self, turns: usize) {
        self.step += turns;
    }
}

/// The rules for the number of steps of a row, besides its body.
#[derive(Clone, Debug)]
pub struct RowDepth<'a> {
    bound: DepthBound,
    /// The axis whose length the bound reads.
    axis: Option<&'a str>,
    /// The axis that caps a recurrence that halts: a row is sent away after its length on it, and one step more.
    cap: Option<&'a str>,
    halts: bool,
}

#[derive(Clone, Debug)]
enum DepthBound {
    Steps(usize),
    Rule(Expr),
}

impl<'a> RowDepth<'a> {
    /// The rule of a `recur`. A bound that is no expression counts as 0: the executor refuses it.
    pub fn of(graph: &'a Graph, id: NodeId) -> Self {
        let node = graph.node(id);
        let bound = match node.find(attribute::BOUND) {
            Some(attribute::StepBound::Steps(steps)) => DepthBound::Steps(steps),
            Some(attribute::StepBound::Rule(rule)) => {
                Expr::try_from(rule).map_or(DepthBound::Steps(0), DepthBound::Rule)
            }
            None => DepthBound::Steps(1),
        };
        let body = node.body.map_or(&[][..], |body| graph.nodes(body));
        let mut tests = body.iter().map(|id| graph.node(*id)).filter(|test| test.op == Op::HaltTest);
        Self {
            bound,
            axis: node.operands.iter().find_map(|v| graph.ty(*v).ragged()),
            cap: tests.find_map(|test| test.find(attribute::CAP)),
            halts: node.op == Op::Recur && loops::layout(graph, id).go > 0,
        }
    }

    /// The bound of a row with these lengths on its axes.
    pub fn bound<N: Number>(&self, length: &impl Fn(&str) -> N) -> N {
        match &self.bound {
            DepthBound::Steps(steps) => N::of(*steps as f64),
            DepthBound::Rule(rule) => N::depth(rule, &self.axis.map_or(N::of(1.0), length)),
        }
    }

    /// The steps that a row takes: at most its bound, where it halts its cap, and the mean depth.
    pub fn steps<N: Number>(&self, length: &impl Fn(&str) -> N, mean: Option<&N>) -> N {
        self.taken(self.bound(length), length, mean)
    }

    /// The bound and the steps of a row where every draw is as large as it can be: what memory must suffice for.
    pub fn most(&self, length: &impl Fn(&str) -> f64, mean: Option<&f64>) -> (f64, f64) {
        let bound = match &self.bound {
            DepthBound::Rule(rule) if rule.holds_draw() => {
                expr::most(&rule.at_length(self.axis.map_or(1.0, length) as i64)).max(0.0)
            }
            _ => self.bound(length),
        };
        (bound, self.taken(bound, length, mean))
    }

    /// Whether the bound is drawn.
    pub fn is_drawn(&self) -> bool {
        matches!(&self.bound, DepthBound::Rule(rule) if rule.holds_draw())
    }

    fn taken<N: Number>(&self, bound: N, length: &impl Fn(&str) -> N, mean: Option<&N>) -> N {
        let most = match self.cap {
            Some(axis) => bound.least(&length(axis).plus(&N::of(1.0)), "M"),
            None => bound,
        };
        match mean.filter(|_| self.halts) {
            Some(mean) => mean.least(&most, "D"),
            None => most,
        }
    }
}

/// The most steps that a bound gives, whatever the row; infinite where it does not say so.
pub fn most(bound: attribute::StepBound<'_>) -> f64 {
    match bound {
        attribute::StepBound::Steps(steps) => steps as f64,
        attribute::StepBound::Rule(rule) => Expr::try_from(rule).map_or(f64::INFINITY, |rule| expr::most(&rule)),
    }
}

/// A bound with the numbers that stand for its draws; nothing where it has no draw.
pub fn without_draws(bound: attribute::StepBound<'_>) -> Option<Attr> {
    let rule = Expr::try_from(bound.rule()?).ok().filter(Expr::holds_draw)?;
    Some(match rule.without_draws() {
        Expr::Int(steps) => Attr::Int(steps.max(0)),
        rule => Attr::from(&rule),
    })
}

/// Whether a rule says for every length what steps it gives at most: a number that is drawn has no bound of its own.
pub fn is_bounded(rule: &Expr) -> bool {
    !rule.holds_draw() || expr::most(&rule.at_length(1)).is_finite()
}

/// The bound that a rule gives for a row of this length, to which a depth may have been given, and for which numbers may be drawn.
///
/// # Errors
/// One sentence where it gives none.
pub fn bound(rule: &Expr, length: usize, given: Option<i64>, chance: Option<&dyn Chance>) -> Result<usize, String> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    match eval_with(rule, &Env { length, given, ..Env::default() }, chance) {
        Ok(ScalarValue::Int(n)) => Ok(usize::try_from(n).unwrap_or(0)),
        Ok(other) => Err(format!("a depth must be a whole number, not {other:?}")),
        Err(e) => Err(format!("the depth of a row has no value: {e}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_end_one_after_the_other() {
        let (mut depths, mut all) = (DepthSteps::new(vec![3, 0, 1, 3], 0), vec![]);
        while depths.alike() > 0 {
            all.push((depths.chunks().map(|chunk| chunk.row).collect::<Vec<_>>(), depths.alike()));
            depths.advance(depths.alike());
        }
        assert_eq!(all, [(vec![0, 2, 3], 1), (vec![0, 3], 2)]);
        assert_eq!(DepthSteps::new(vec![3, 1], 2).alike(), 1);
    }
}
