//! The backward run of a beam search: its steps from the last to the first, with tables of gradients beside those of nodes and
//! of pair scores.

use rtc_compiler::ir::graph::{Node, RegionId, Value};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::types::Attr;
use rtc_compiler::plan::{Plan, Step};

use super::beam::STEP_BITS;
use super::search::{Trace, Traced};
use super::{Part as Rows, int};
use crate::exec::rows::Env;
use crate::exec::storage::{Buffer, Element, List};
use crate::exec::value::{Tape, TapeStep, Val};
use crate::exec::{Executor, Fault};
use crate::kernel::beam::align::join_grad;
use crate::kernel::beam::marginal::marginalise_grad;
use crate::kernel::beam::nodes::{Part, blend_grad, gather, scatter_add};
use crate::kernel::beam::{Pairs, Step as Made};

/// A search while it runs backwards.
struct Back<'a, T: Element> {
    node: &'a Node,
    env: &'a Env,
    trace: &'a Trace<T>,
    /// Numbers per node.
    width: usize,
    /// Gradients of nodes, of pair scores, and of accumulated scores.
    nodes: Buffer<T>,
    pairs: Buffer<T>,
    scores: List<f64>,
    /// Cotangents of the means, and how many pairs a row joined.
    means: List<Val<T>>,
    counts: List<usize>,
    /// Contributions to captured values.
    sums: List<Buffer<T>>,
}

impl<T: Element> Executor<T> {
    /// The backward run of a `part`.
    pub(in crate::exec) fn unpart(&mut self, step: &Step, node: &Node) -> Result<(), Fault> {
        let body = node.body.expect("the verifier gives every loop a body");
        let plan = self.plan.clone();
        let Some(TapeStep { env, saved, .. }) = self.taped(step, node.operands[0]).pop() else { return Ok(()) };
        let mut params = self.values(&node.operands[1..]);
        params.extend(saved);
        let yields = self.body(&plan, body, params, &env)?.yields;
        for (result, val) in node.results.iter().zip(yields) {
            self.memory.set(*result, val);
        }
        Ok(())
    }

    /// The backward run of a `beam`. Dead code removal leaves the cotangent of the root and the gradient of the leaves.
    pub(in crate::exec) fn unbeam(&mut self, step: &Step, node: &Node, env: &Env) -> Result<(), Fault> {
        let arena = self.arena.clone();
        let (mut tape, traced) = self.traced(step, node.operands[0]);
        let trace = &*traced.trace;
        let record = &trace.lists.record;
        let mut back = self.begin_back(node, env, &traced, &tape);
        let mut joined = trace.lists.joined;
        let beams = trace.lists.search.width();
        for index in (0..record.len()).rev() {
            while tape.last().is_some_and(|taped| taped.starts[0] >> STEP_BITS == index) {
                let Some(taped) = tape.pop() else { break };
                self.part_back(&mut back, taped)?;
            }
            let shares = back.blends(record.step(index));
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
        let (leaves, sums) = (back.leaves(&traced), back.sums);
        for (result, buffer) in node.results.iter().zip(std::iter::once(leaves).chain(sums)) {
            self.memory.set_real(*result, buffer);
        }
        Ok(())
    }

    /// The steps of the tape of a search, its own ones at its last use, and how the search went.
    fn traced(&mut self, step: &Step, tape: Value) -> (List<TapeStep<T>>, Traced<T>) {
        let slot = &mut self.memory.values[tape.index()];
        let val = if step.frees.contains(&tape) { slot.take() } else { slot.clone() };
        let Some(Val::Tape(tape)) = val else { unreachable!("the verifier checks the tape") };
        let traced = tape.search.clone().expect("a search leaves its trace on its tape");
        (Tape::into_steps(tape), traced)
    }

    /// Gradients of the roots and of their scores.
    fn begin_back<'a>(
        &mut self,
        node: &'a Node,
        env: &'a Env,
        traced: &'a Traced<T>,
        tape: &[TapeStep<T>],
    ) -> Back<'a, T> {
        let (plan, arena, trace) = (self.plan.clone(), self.arena.clone(), &*traced.trace);
        let width = env.bounds(plan.graph.ty(node.operands[1])).inner;
        let (rows, beams) = (trace.offsets.len() - 1, trace.lists.search.width());
        let mut nodes = arena.filled(trace.nodes.len(), T::ZERO);
        let mut ends = arena.filled(trace.roots.len(), 0.0);
        if let Val::Real(root) = self.value(node.operands[1]) {
            let root = traced.spread(&root, width);
            marginalise_grad(trace.roots(), &trace.nodes, width, &trace.weights, &root, &mut nodes, &mut ends);
        }
        let mut scores = arena.filled(rows * beams, 0.0);
        for (row, span) in trace.offsets.windows(2).enumerate() {
            scores[row * beams..][..span[1] - span[0]].copy_from_slice(&ends[span[0]..span[1]]);
        }
        let mut counts = arena.filled(env.rows(), 0_usize);
        for step in tape.iter().filter(|step| role(&plan, step) == Some("join")) {
            match &step.rows {
                Some(rows) => rows.iter().for_each(|row| counts[*row] += 1),
                None => counts.iter_mut().for_each(|count| *count += 1),
            }
        }
        let zeroed = |of: &Value| arena.filled(env.extent(plan.graph.ty(*of)), T::ZERO);
        let (pairs, means) = (arena.filled(trace.scores.len(), T::ZERO), self.values(&node.operands[2..]));
        let sums = arena.list(node.results[1..].iter().map(zeroed));
        Back { node, env, trace, width, nodes, pairs, scores, means, counts, sums }
    }

    /// Runs a part backwards for the pairs that one run of it had.
    fn part_back(&mut self, back: &mut Back<'_, T>, taped: TapeStep<T>) -> Result<(), Fault> {
        let (plan, arena) = (self.plan.clone(), self.arena.clone());
        let role = role(&plan, &taped).unwrap_or_default();
        let TapeStep { env: here, rows, starts, saved } = taped;
        let body = back.node.body.expect("the verifier gives every loop a body");
        let (own, params) = (&plan.regions[body.index()], plan.graph.params(body));
        let rows = rows.map_or_else(|| arena.list(0..here.rows()), |rows| arena.copy(&rows));
        let pairs = back.of(&starts, role);
        let outputs = int(back.node, "outputs").unwrap_or(0);
        let (seeds, tapes) = params.split_at(1 + outputs);
        let (score, tapes) = tapes.split_last().expect("the last parameter is the cotangent of the score");
        tapes.iter().zip(saved).for_each(|(param, val)| self.memory.set(*param, val));
        if role == "join" {
            self.memory.set(seeds[0], Val::real(back.gathered(&pairs.made)));
            for (param, mean) in seeds[1..].iter().zip(&back.means) {
                let Val::Real(mean) = mean else { continue };
                let parts = rows.iter().map(|row| mean[*row] * T::from_f64(1.0 / back.counts[*row].max(1) as f64));
                self.memory.set(*param, Val::real(arena.list(parts)));
            }
        } else {
            let slopes = pairs.scored.iter().map(|pair| back.pairs[*pair]);
            self.memory.set(*score, Val::real(arena.list(slopes)));
        }
        let full = self.cut_captures(&plan, body, back.env, &rows);
        let at = own.steps.iter().position(|step| is_of(plan.graph.node(step.node), role));
        if let Some(at) = at {
            self.steps(&plan, own, at..at + 1, &here)?;
        }
        self.put_back(full);
        self.forget(params);
        let (captured, scored) = own.yields[1..].split_at(own.yields.len() - 2);
        let of_pair = if role == "join" { own.yields[0] } else { scored[0] };
        if let Some(Val::Real(dx)) = self.memory.values[of_pair.index()].take() {
            back.scatter(&pairs, &dx, role);
        }
        let part = Rows { rows: &rows, starts: &[], all: false };
        for (n, value) in captured.iter().enumerate() {
            if let Some(val) = self.memory.values[value.index()].take() {
                self.add_rows(&mut back.sums[n], &val, back.node.results[1 + n], back.env, part);
            }
        }
        Ok(())
    }
}

/// The pairs of a run of a part: their nodes, what they became, and which pairs they are.
struct Taken {
    left: List<u32>,
    right: List<u32>,
    made: List<u32>,
    scored: List<usize>,
}

impl<T: Element> Back<'_, T> {
    /// Whether pairs are joined before they are scored.
    fn joins_all(&self) -> bool {
        self.trace.lists.search.joins_all()
    }

    /// The pairs that the tape names.
    fn of(&self, starts: &[usize], role: &str) -> Taken {
        let arena = self.nodes.allocator();
        let step = self.trace.lists.record.step(starts[0] >> STEP_BITS);
        let Pairs { left, right } = if role == "join" && !self.joins_all() { step.merges } else { step.fresh };
        let places = || starts.iter().map(|at| at & ((1 << STEP_BITS) - 1));
        let first = step.first_node + step.blends.len();
        Taken {
            left: arena.list(places().map(|k| left[k])),
            right: arena.list(places().map(|k| right[k])),
            made: arena.list(places().map(|k| (first + k) as u32)),
            scored: arena.list(places().map(|k| step.first_pair + k)),
        }
    }

    /// The gradients of these nodes.
    fn gathered(&self, nodes: &[u32]) -> Buffer<T> {
        let mut out = self.nodes.allocator().take(nodes.len() * self.width);
        gather(&self.nodes, self.width, nodes, Part::alone(self.width), &mut out);
        out
    }

    /// Adds the gradients of what a part read to those of the nodes.
    fn scatter(&mut self, pairs: &Taken, dx: &[T], role: &str) {
        let width = self.width;
        if role == "score" && self.joins_all() {
            scatter_add(dx, Part::alone(width), &pairs.made, width, &mut self.nodes);
            return;
        }
        scatter_add(dx, Part::beside(width, false), &pairs.left, width, &mut self.nodes);
        scatter_add(dx, Part::beside(width, true), &pairs.right, width, &mut self.nodes);
    }

    /// The backward run of the means of softened beams; gives the gradients of their shares.
    fn blends(&mut self, step: Made<'_>) -> List<f64> {
        let (arena, width) = (self.nodes.allocator().clone(), self.width);
        let mut shares = arena.filled(step.blends.terms().len(), 0.0);
        let first = step.first_node * width;
        let mixed = arena.copy(&self.nodes[first..first + step.blends.len() * width]);
        blend_grad(step.blends, &self.trace.nodes, width, &mixed, &mut self.nodes, &mut shares);
        shares
    }

    /// The gradients of the leaves of the rows that are left.
    fn leaves(&self, traced: &Traced<T>) -> Buffer<T> {
        let (offsets, width) = (&self.trace.leaves, self.width);
        let arena = self.nodes.allocator();
        let Some(kept) = &traced.rows else {
            return arena.copy(&self.nodes[..offsets[offsets.len() - 1] * width]);
        };
        let mut out = arena.list([]);
        for &row in &***kept {
            out.extend_from_slice(&self.nodes[offsets[row] * width..offsets[row + 1] * width]);
        }
        out
    }
}

/// The role of the part that a step of the tape is a run of.
fn role<'p, T: Element>(plan: &'p Plan, step: &TapeStep<T>) -> Option<&'p str> {
    let ran = step.saved.iter().find_map(|val| match val {
        Val::Tape(tape) if !tape.steps.is_empty() => Some(tape.body),
        _ => None,
    });
    part_role(plan, ran?)
}

/// The role of the part with this body.
pub(crate) fn part_role(plan: &Plan, body: RegionId) -> Option<&str> {
    plan.graph.node(plan.graph.owner(body)?).attrs.get("role").and_then(Attr::text)
}

/// Whether a node is the backward run of the part with this role.
pub(crate) fn is_of(node: &Node, role: &str) -> bool {
    node.op == Op::Unwind && node.attrs.get("role").and_then(Attr::text) == Some(role)
}
