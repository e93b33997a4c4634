//! Depths that come with the examples, and recurrences that go on where the last run stopped.

use rtc_compiler::expr::Expr;
use rtc_compiler::ir::graph::{MAIN, NodeId};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::plan::Plan;

use crate::arena::Arena;
use crate::machine::MachineArrays;
use crate::machine::value::Val;
use crate::mask::Exprs;
use crate::rows::Axis;
use crate::settings::ExecutionFault;
use crate::storage::List;
use rtc_base::batch::Batch;

/// A recurrence that goes on where it stopped.
#[derive(Debug)]
pub struct Resume<A: MachineArrays> {
    of: NodeId,
    /// The steps that it has made.
    steps: usize,
    /// What it carries after them; nothing before the first run.
    carried: Option<List<Val<A>>>,
}

/// The nodes that take steps as they come with the examples, and those expressions.
pub fn given(exprs: &Exprs) -> impl Iterator<Item = (NodeId, &Expr)> {
    let rules = exprs.iter().filter_map(|(id, rule)| Some((*id, rule.as_ref().ok()?.expr.as_ref()?)));
    rules.filter(|(_, expr)| expr.holds_given())
}

/// The recurrence that can go on where it stopped, the only node that asks for the depth of an example.
pub fn resumable<A: MachineArrays>(plan: &Plan, exprs: &Exprs) -> Option<Resume<A>> {
    let mut all = given(exprs);
    let ((one, expr), others) = (all.next()?, all.next());
    let node = plan.graph.node(one);
    let body = node.body?;
    let halts = plan.regions[body.index()].yields.len() > node.operands.len();
    // What knows the depth, too, may do something else in a step that is not the last one any more.
    let alone = others.is_none() && *expr == Expr::Given;
    let alone = alone && node.op == Op::Recur && plan.graph.nodes(MAIN).contains(&one);
    (alone && !halts).then_some(Resume { of: one, steps: 0, carried: None })
}

/// The given depth of every row of a batch, if the model takes one: `depth`, else that of the examples.
///
/// # Errors
/// Examples without a depth, or not one for each row.
pub fn given_depths(
    exprs: &Exprs,
    depth: Option<usize>,
    batch: &Batch,
    arena: &Arena,
) -> Result<Option<Axis>, ExecutionFault> {
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
            Err(ExecutionFault::Batch(format!("the batch has {} depths for {} rows", depths.len(), batch.rows())))
        }
        (None, None) => {
            let cure = "train it on a task that gives one, or name one with `--depth N`";
            Err(ExecutionFault::Batch(format!("the model takes its depth from the examples, which have none: {cure}")))
        }
    }
}

impl<A: MachineArrays> Resume<A> {
    /// The steps that a recurrence has made and what it carries after them, if it goes on.
    pub fn resumed(&self, of: NodeId) -> Option<(usize, List<Val<A>>)> {
        (self.of == of).then(|| Some((self.steps, self.carried.clone()?))).flatten()
    }

    /// Keeps what a recurrence carries after its last step, if it is the one that goes on.
    pub fn keep(&mut self, of: NodeId, values: &List<Val<A>>, steps: usize) {
        if self.of == of {
            (self.steps, self.carried) = (steps, Some(values.clone()));
        }
    }
}
