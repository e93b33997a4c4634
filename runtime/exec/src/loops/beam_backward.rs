//! The backward run of a beam search: its steps from the last to the first, with a table of gradients beside that of the nodes.
//! Gradients of scores stay on the host, as the choices do.

use rtc_compiler::ir::attribute::{self, Role};
use rtc_compiler::ir::graph::Node;
use rtc_compiler::ir::ops::Op;
use rtc_compiler::plan::{Plan, Step};

use super::backward::taped;
use super::beam::STEP_BITS;
use super::{
    SavedCaptures, add_rows, arena, body_of, counts, forget, plan, run_body, run_steps, shares, values, zeros_of,
};
use crate::machine::pieces::{Pieces, RowSubset};
use crate::machine::search::{SearchTrace, TapedSearch};
use crate::machine::value::{TapeStep, Val};
use crate::machine::{Active, ActiveOf, Machine, MachineArrays, Nodes, NumberOf, ValOf};
use crate::rows::BatchView;
use crate::settings::ExecutionFault;
use crate::storage::List;
use rtc_kernel::Real;
use rtc_kernel::beam::Pairs;
use rtc_kernel::beam::align::join_grad;
use rtc_kernel::beam::marginal::softmax_grad;

/// A search while it runs backwards.
struct Back<'a, M: Machine> {
    node: &'a Node,
    view: &'a BatchView,
    trace: &'a SearchTrace<M::Arrays>,
    /// Gradients of nodes, of pair scores, and of accumulated scores.
    nodes: ValOf<M>,
    pairs: List<NumberOf<M>>,
    scores: List<f64>,
    /// Cotangents of the means, and how many pairs a row joined.
    means: List<ValOf<M>>,
    counts: List<usize>,
    /// Contributions to captured values.
    sums: List<ValOf<M>>,
    captures: SavedCaptures<M>,
}

/// The backward run of a `part`.
pub(super) fn part_backward<M: Machine>(m: &mut M, step: &Step, node: &Node) -> Result<(), ExecutionFault> {
    let plan = plan(m);
    let Some(TapeStep { here, saved, .. }) = taped(m, step, node.operands[0]).0.pop() else { return Ok(()) };
    let mut params = values(m, &node.operands[1..]);
    params.extend(saved);
    let yields = run_body(m, &plan, body_of(node), params, &here)?.yields;
    for (result, val) in node.results.iter().zip(yields) {
        *m.slot(*result) = Some(val);
    }
    Ok(())
}

/// The backward run of a `beam`. Dead code removal leaves the cotangent of the root and the gradient of the leaves.
pub(super) fn beam_backward<M: Machine>(
    m: &mut M,
    step: &Step,
    node: &Node,
    entered: &ActiveOf<M>,
) -> Result<(), ExecutionFault> {
    let arena = arena(m);
    let (mut tape, traced) = taped(m, step, node.operands[0]);
    let traced = traced.expect("a search leaves its trace on its tape");
    let trace = &*traced.trace;
    let record = &trace.lists.record;
    let mut back = Back::new(m, node, entered.view(), &traced, &tape);
    let mut joined = trace.lists.joined;
    let beams = trace.lists.search.width();
    for index in (0..record.len()).rev() {
        while tape.last().is_some_and(|taped| taped.starts[0] >> STEP_BITS == index) {
            let Some(taped) = tape.pop() else { break };
            back.part(m, taped)?;
        }
        let made = record.step(index);
        let first = Pieces::new([(made.first_node, made.blends.len())], &arena);
        let shares = match made.blends.is_empty() {
            true => arena.list([]),
            false => {
                let mixed = m.gather(&back.nodes, &first, trace.width);
                m.blend_grad(made.blends, &trace.nodes, &mixed, &mut back.nodes, trace.width)
            }
        };
        if !record.is_start(index) {
            record.score_grad(index, beams, &trace.scores, &shares, &mut back.scores, &mut back.pairs);
        } else if joined > 0 {
            joined -= 1;
            let joint = &trace.lists.joints[joined];
            let mut ends = arena.filled(joint.chunks[joint.chunks.len() - 1] * beams, 0.0);
            join_grad(&joint.slots, &joint.chunks, beams, &back.scores, &mut ends);
            back.scores = ends;
        }
    }
    let Back { nodes, sums, mut captures, .. } = back;
    captures.restore(m);
    // The gradients of the leaves of the rows that are left.
    let rows = traced.kept(&arena);
    let leaves = rows.iter().map(|row| (trace.leaves[*row], trace.leaves[row + 1] - trace.leaves[*row]));
    let leaves = m.gather(&nodes, &Pieces::new(leaves, &arena), trace.width);
    for (result, val) in node.results.iter().zip(std::iter::once(leaves).chain(sums)) {
        *m.slot(*result) = Some(val);
    }
    Ok(())
}

impl<'a, M: Machine> Back<'a, M> {
    /// Gradients of the roots and of their scores.
    fn new(
        m: &M,
        node: &'a Node,
        view: &'a BatchView,
        traced: &'a TapedSearch<M::Arrays>,
        tape: &[TapeStep<M::Arrays>],
    ) -> Self {
        let (plan, arena, trace) = (plan(m), arena(m), &*traced.trace);
        let (rows, beams, width) = (trace.offsets.len() - 1, trace.lists.search.width(), trace.width);
        let mut nodes = m.zeros(trace.count * width);
        let mut root = m.value(node.operands[1]);
        if let Some(kept) = &traced.rows {
            // Rows of the search that were left out get no gradient.
            let mut all = m.zeros(rows * width);
            m.scatter(&root, &mut all, &Pieces::units(kept, &arena), width);
            root = all;
        }
        let mut ends = m.blend_grad(trace.roots(), &trace.nodes, &root, &mut nodes, width);
        let mut scores = arena.filled(rows * beams, 0.0);
        for (row, span) in trace.offsets.windows(2).enumerate() {
            let (roots, ends) = (&trace.roots[span[0]..span[1]], &mut ends[span[0]..span[1]]);
            let weights = arena.list(roots.iter().map(|root| root.share));
            softmax_grad(&weights, ends);
            scores[row * beams..][..ends.len()].copy_from_slice(ends);
        }
        Self {
            node,
            view,
            trace,
            nodes,
            pairs: arena.filled(trace.scores.len(), NumberOf::<M>::ZERO),
            scores,
            means: values(m, &node.operands[2..]),
            counts: counts(tape.iter().filter(|step| role(&plan, step) == Some(Role::Join)), view),
            sums: zeros_of(m, &node.results[1..], view),
            captures: SavedCaptures::new(body_of(node), view),
        }
    }

    /// Runs a part backwards for the pairs that one run of it had.
    fn part(&mut self, m: &mut M, taped: TapeStep<M::Arrays>) -> Result<(), ExecutionFault> {
        let (plan, arena, width) = (plan(m), arena(m), self.trace.width);
        let joins = role(&plan, &taped) == Some(Role::Join);
        let TapeStep { here, rows, starts, saved } = taped;
        let body = body_of(self.node);
        let (own, params) = (&plan.regions[body.index()], plan.graph.params(body));
        let rows = rows.map_or_else(|| arena.list(0..here.view().rows()), |rows| arena.copy(&rows));
        let every = self.trace.lists.search.joins_all();
        let made = self.trace.lists.record.step(starts[0] >> STEP_BITS);
        let Pairs { left, right } = if joins && !every { made.merges } else { made.fresh };
        let places = arena.list(starts.iter().map(|at| at & ((1 << STEP_BITS) - 1)));
        let [left, right] = [left, right].map(|nodes| arena.list(places.iter().map(|k| nodes[*k])));
        let first = made.first_node + made.blends.len();
        let parents = arena.list(places.iter().map(|k| (first + k) as u32));
        let outputs = self.node.get(attribute::OUTPUTS);
        let (seeds, tapes) = params.split_at(1 + outputs);
        let (score, tapes) = tapes.split_last().expect("the last parameter is the cotangent of the score");
        for (param, val) in tapes.iter().zip(saved) {
            *m.slot(*param) = Some(val);
        }
        if joins {
            let gradients = m.nodes(&self.nodes, Nodes::Single(&parents), width);
            *m.slot(seeds[0]) = Some(gradients);
            for (param, share) in seeds[1..].iter().zip(shares(m, &self.means, &rows, &self.counts)) {
                *m.slot(*param) = Some(share);
            }
        } else {
            let slopes = arena.list(places.iter().map(|k| self.pairs[made.first_pair + k]));
            *m.slot(*score) = Some(m.upload(slopes));
        }
        let part = RowSubset::rows(self.view, &rows);
        self.captures.narrow(m, &plan, &part);
        let role = if joins { Role::Join } else { Role::Score };
        let at = own.steps.iter().position(|step| is_backward(plan.graph.node(step.node), role));
        if let Some(at) = at {
            run_steps(m, &plan, body, at..at + 1, &here)?;
        }
        forget(m, params);
        let (captured, scored) = own.yields[1..].split_at(own.yields.len() - 2);
        let of_pair = if joins { own.yields[0] } else { scored[0] };
        if let Some(dx) = m.slot(of_pair).take() {
            let read = if every && !joins { Nodes::Single(&parents) } else { Nodes::Pairs(&left, &right) };
            m.add_nodes(&dx, read, &mut self.nodes, width);
        }
        for (n, value) in captured.iter().enumerate() {
            if let Some(val) = m.slot(*value).take() {
                add_rows(m, &mut self.sums[n], &val, plan.graph.ty(self.node.results[1 + n]), &part);
            }
        }
        Ok(())
    }
}

/// The role of the part that a step of the tape is a run of.
fn role<A: MachineArrays>(plan: &Plan, step: &TapeStep<A>) -> Option<Role> {
    let ran = step.saved.iter().find_map(|val| match val {
        Val::Tape(tape) if !tape.steps.is_empty() => Some(tape.body),
        _ => None,
    });
    plan.graph.node(plan.graph.owner(ran?)?).find(attribute::ROLE)
}

/// Whether a node is the backward run of the part with this role.
fn is_backward(node: &Node, role: Role) -> bool {
    node.op == Op::Unwind && node.find(attribute::ROLE) == Some(role)
}
