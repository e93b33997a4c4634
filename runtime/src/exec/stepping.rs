//! A batch after one, two, three, ... steps of the recurrence whose depth is given, every step computed once.

use rtc_compiler::expr::Expr;
use rtc_compiler::ir::graph::{MAIN, NodeId};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::plan::Plan;

use super::arena::Arena;
use super::machine::Arrays;
use super::mask::{Exprs, Rule};
use super::rows::Axis;
use super::storage::{Element, List};
use super::value::Val;
use super::{Executor, Fault, Outputs};
use crate::batch::Batch;
use crate::rng::Key;

/// Where a recurrence stopped in the last run.
#[derive(Debug)]
pub(crate) struct Stepping<A: Arrays> {
    /// The recurrence.
    of: NodeId,
    /// The steps that it has made.
    steps: usize,
    /// What it carries after them; nothing before the first run.
    carried: Option<List<Val<A>>>,
}

/// The loops whose bound comes with the examples.
pub(crate) fn given(exprs: &Exprs) -> impl Iterator<Item = NodeId> {
    let given = |rule: &Result<Rule, String>| matches!(rule, Ok(rule) if rule.expr == Some(Expr::Given));
    exprs.iter().filter(move |(_, rule)| given(rule)).map(|(id, _)| *id)
}

/// The recurrence that can go on where it stopped.
pub(crate) fn resumable(plan: &Plan, exprs: &Exprs) -> Option<NodeId> {
    let mut all = given(exprs);
    let (one, others) = (all.next()?, all.next());
    let node = plan.graph.node(one);
    let body = node.body?;
    let halts = plan.regions[body.index()].yields.len() > node.operands.len();
    let alone = others.is_none() && node.op == Op::Recur && plan.graph.nodes(MAIN).contains(&one);
    (alone && !halts).then_some(one)
}

/// The given depth of every row of a batch, if the model takes one: `depth`, else that of the examples.
///
/// # Errors
/// Examples without a depth, or not one for each row.
pub(crate) fn given_depths(
    exprs: &Exprs,
    depth: Option<usize>,
    batch: &Batch,
    arena: &Arena,
) -> Result<Option<Axis>, Fault> {
    if given(exprs).next().is_none() {
        return Ok(None);
    }
    let axis = |depths: &mut dyn Iterator<Item = usize>| Some(Axis::of_lengths(depths, arena));
    match (depth, &batch.depths) {
        (Some(depth), _) => Ok(axis(&mut std::iter::repeat_n(depth, batch.rows()))),
        (None, Some(depths)) if depths.len() == batch.rows() => {
            Ok(axis(&mut depths.iter().map(|depth| *depth as usize)))
        }
        (None, Some(depths)) => {
            Err(Fault::Batch(format!("the batch has {} depths for {} rows", depths.len(), batch.rows())))
        }
        (None, None) => {
            let cure = "train it on a task that gives one, or name one with `--depth N`";
            Err(Fault::Batch(format!("the model takes its depth from the examples, which have none: {cure}")))
        }
    }
}

impl<T: Element> Executor<T> {
    /// Whether a depth of this plan comes with the examples.
    pub fn takes_depth(&self) -> bool {
        given(&self.exprs).next().is_some()
    }

    /// The results after 1, 2, ... `most` steps of the recurrence whose depth is given. One that stands alone goes on from the
    /// step before; where there are several, or one inside another loop, or one that halts, every run begins anew.
    ///
    /// # Errors
    /// As [`Executor::run`].
    pub fn each_step(&mut self, batch: &Batch, key: Key, most: usize) -> Result<Vec<Outputs<T>>, Fault> {
        let before = self.depth;
        self.stepping = resumable(&self.plan, &self.exprs).map(Stepping::new);
        let after = |steps| {
            self.depth = Some(steps);
            self.run(batch, key)
        };
        let results = (1..=most).map(after).collect();
        self.depth = before;
        self.stepping = None;
        results
    }
}

impl<A: Arrays> Stepping<A> {
    /// Before the first run.
    pub(crate) fn new(of: NodeId) -> Self {
        Self { of, steps: 0, carried: None }
    }

    /// The steps that a recurrence has made and what it carries after them, if it goes on.
    pub(super) fn resumed(&self, of: Option<NodeId>) -> Option<(usize, List<Val<A>>)> {
        (Some(self.of) == of).then(|| Some((self.steps, self.carried.clone()?))).flatten()
    }

    /// Keeps what a recurrence carries after its last step, if it is the one that goes on.
    pub(super) fn keep(&mut self, of: Option<NodeId>, values: &List<Val<A>>, steps: usize) {
        if Some(self.of) == of {
            (self.steps, self.carried) = (steps, Some(values.clone()));
        }
    }
}
