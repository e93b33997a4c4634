//! The backward run of a beam search on a device: its steps from the last to the first, with a table of gradients beside that of the
//! nodes. Gradients of scores are the host's, as the choices were.

use rtc_compiler::ir::graph::{Node, Value};
use rtc_compiler::plan::{Plan, Step};

use super::beam::{Trace, Traced};
use super::exec::Executor;
use super::memory::{Array, int, whole};
use super::nodes::{Mix, Nodes, interleaved};
use super::pieces::Pieces;
use super::place::Place;
use super::value::{Ids, Tape, TapeStep, Val};
use crate::exec::Fault;
use crate::exec::loops::beam::STEP_BITS;
use crate::exec::loops::unbeam::{is_of, part_role};
use crate::exec::loops::{Part as Rows, int as number};
use crate::exec::storage::Element;
use crate::kernel::beam::align::join_grad;
use crate::kernel::beam::marginal::softmax_grad;
use crate::kernel::beam::{Pairs, Step as Made};

/// A search while it runs backwards.
struct Back<'a, T: Element> {
    node: &'a Node,
    place: &'a Place,
    trace: &'a Trace<T>,
    /// Gradients of nodes, of pair scores, and of accumulated scores.
    nodes: Array,
    pairs: Vec<T>,
    scores: Vec<f64>,
    /// Cotangents of the means, and how many pairs a row joined.
    means: Vec<Array>,
    counts: Vec<usize>,
    /// Contributions to captured values.
    sums: Vec<Array>,
}

impl<T: Element> Executor<T> {
    /// The backward run of a `part`.
    pub(super) fn unpart(&mut self, step: &Step, node: &Node) -> Result<(), Fault> {
        let body = node.body.expect("the verifier gives every loop a body");
        let plan = self.plan.clone();
        let Some(TapeStep { place, saved, .. }) = self.taped(step, node.operands[0]).pop() else { return Ok(()) };
        let mut params = self.values(&node.operands[1..]);
        params.extend(saved);
        let yields = self.body(&plan, body, params, &place)?.yields;
        for (result, val) in node.results.iter().zip(yields) {
            self.set(*result, val);
        }
        Ok(())
    }

    /// The backward run of a `beam`. Dead code removal leaves the cotangent of the root and the gradient of the leaves.
    pub(super) fn unbeam(&mut self, step: &Step, node: &Node, place: &Place) -> Result<(), Fault> {
        let (mut tape, traced) = self.traced(step, node.operands[0]);
        let trace = traced.trace.downcast_ref::<Trace<T>>().expect("an executor has one type of numbers");
        let record = &trace.lists.record;
        let mut back = self.begin_back(node, place, (trace, &traced), &tape);
        let mut joined = trace.lists.joined;
        let beams = trace.lists.search.width();
        for index in (0..record.len()).rev() {
            while tape.last().is_some_and(|taped| taped.starts[0] >> STEP_BITS == index) {
                let Some(taped) = tape.pop() else { break };
                self.part_back(&mut back, taped)?;
            }
            let shares = self.blends_back(&back, record.step(index));
            if !record.is_start(index) {
                record.score_grad(index, beams, &trace.scores, &shares, &mut back.scores, &mut back.pairs);
            } else if joined > 0 {
                joined -= 1;
                let joint = &trace.lists.joints[joined];
                let mut ends = vec![0.0; joint.chunks[joint.chunks.len() - 1] * beams];
                join_grad(&joint.slots, &joint.chunks, beams, &back.scores, &mut ends);
                back.scores = ends;
            }
        }
        let leaves = self.leaves_back(&back, &traced);
        for (result, array) in node.results.iter().zip(std::iter::once(leaves).chain(back.sums)) {
            self.set(*result, Val::Real(array));
        }
        Ok(())
    }

    /// The steps of the tape of a search, its own ones at its last use, and how the search went.
    fn traced(&mut self, step: &Step, tape: Value) -> (Vec<TapeStep>, Traced) {
        let slot = &mut self.values[tape.index()];
        let val = if step.frees.contains(&tape) { slot.take() } else { slot.clone() };
        let Some(Val::Tape(tape)) = val else { unreachable!("the verifier checks the tape") };
        let traced = tape.search.clone().expect("a search leaves its trace on its tape");
        (Tape::into_steps(tape), traced)
    }

    /// Gradients of the roots and of their scores.
    fn begin_back<'a>(
        &mut self,
        node: &'a Node,
        place: &'a Place,
        (trace, traced): (&'a Trace<T>, &Traced),
        tape: &[TapeStep],
    ) -> Back<'a, T> {
        let (plan, env) = (self.plan.clone(), &place.env);
        let (rows, beams) = (trace.offsets.len() - 1, trace.lists.search.width());
        let nodes = self.pool.zeros::<T>(trace.nodes.count * trace.nodes.width);
        let root = self.real(node.operands[1]);
        let root = self.spread_rows(traced, &root, (rows, trace.nodes.width));
        let mut ends = self.mix_back(&trace.roots, &trace.nodes, &root, &nodes);
        let mut scores = vec![0.0; rows * beams];
        for (row, span) in trace.offsets.windows(2).enumerate() {
            softmax_grad(&trace.weights[span[0]..span[1]], &mut ends[span[0]..span[1]]);
            scores[row * beams..][..span[1] - span[0]].copy_from_slice(&ends[span[0]..span[1]]);
        }
        let mut counts = vec![0_usize; env.rows()];
        for step in tape.iter().filter(|step| role(&plan, step) == Some("join")) {
            match &step.rows {
                Some(rows) => rows.iter().for_each(|row| counts[*row] += 1),
                None => counts.iter_mut().for_each(|count| *count += 1),
            }
        }
        let zeroed = |of: &Value| self.pool.zeros::<T>(env.extent(plan.graph.ty(*of)));
        let sums = node.results[1..].iter().map(zeroed).collect();
        let means = node.operands[2..].iter().map(|v| self.real(*v)).collect();
        let pairs = vec![T::ZERO; trace.scores.len()];
        Back { node, place, trace, nodes, pairs, scores, means, counts, sums }
    }

    /// Vectors of the rows of a search that are left as those of all rows: the others are zeros.
    fn spread_rows(&self, traced: &Traced, x: &Array, (rows, width): (usize, usize)) -> Array {
        let Some(kept) = &traced.rows else { return x.clone() };
        let all = self.pool.zeros::<T>(rows * width);
        let mut pieces = Pieces::default();
        kept.iter().enumerate().for_each(|(from, row)| pieces.push(from, *row, 1));
        pieces.copy::<T>(x, &all, width, &self.pool);
        all
    }

    /// The backward run of sums of nodes: adds to the gradients of the nodes, and gives those of the shares.
    fn mix_back(&self, mix: &Mix, table: &Nodes, dy: &Array, nodes: &Array) -> Vec<f64> {
        let terms = mix.nodes.host.len();
        if terms == 0 {
            return vec![];
        }
        let (width, slopes) = (table.width, self.pool.take::<f64>(terms));
        let ids = mix.nodes.array(&self.pool).arg();
        let args = [table.arg(), mix.of.arg(), ids, dy.arg(), slopes.arg(), int(width), whole(terms)];
        self.pool.each_warp("mix_shares", terms, &args);
        let parts = self.pool.take::<T>(terms * width);
        let args = [mix.of.arg(), mix.shares.arg(), dy.arg(), parts.arg(), int(width), whole(parts.len())];
        self.pool.each("mix_terms", parts.len(), &args);
        self.scatter(&mix.nodes, &parts, nodes, width);
        self.pool.download::<f64>(&slopes)
    }

    /// The backward run of the means of softened beams; gives the gradients of their shares.
    fn blends_back(&self, back: &Back<'_, T>, step: Made<'_>) -> Vec<f64> {
        if step.blends.is_empty() {
            return vec![];
        }
        let width = back.trace.nodes.width;
        let mixed = back.nodes.part::<T>(step.first_node * width, step.blends.len() * width);
        let mix = Mix::of_blends::<T>(step.blends, &self.pool);
        self.mix_back(&mix, &back.trace.nodes, &mixed, &back.nodes)
    }

    /// Runs a part backwards for the pairs that one run of it had.
    fn part_back(&mut self, back: &mut Back<'_, T>, taped: TapeStep) -> Result<(), Fault> {
        let plan = self.plan.clone();
        let role = role(&plan, &taped).unwrap_or_default();
        let TapeStep { place: here, rows, starts, saved } = taped;
        let body = back.node.body.expect("the verifier gives every loop a body");
        let (own, params) = (&plan.regions[body.index()], plan.graph.params(body));
        let rows = rows.map_or_else(|| (0..here.env.rows()).collect(), |rows| rows.to_vec());
        let pairs = back.of(&starts, role);
        let outputs = number(back.node, "outputs").unwrap_or(0);
        let (seeds, tapes) = params.split_at(1 + outputs);
        let (score, tapes) = tapes.split_last().expect("the last parameter is the cotangent of the score");
        tapes.iter().zip(saved).for_each(|(param, val)| self.set(*param, val));
        if role == "join" {
            let gradients = back.gathered(&pairs.made, self);
            self.set(seeds[0], Val::Real(gradients));
            self.mean_seeds(back, &rows, &seeds[1..]);
        } else {
            let slopes: Vec<T> = pairs.scored.iter().map(|pair| back.pairs[*pair]).collect();
            self.set(*score, Val::Real(self.pool.upload(&slopes)));
        }
        let full = self.cut_captures(&plan, body, back.place, &rows);
        let at = own.steps.iter().position(|step| is_of(plan.graph.node(step.node), role));
        if let Some(at) = at {
            self.steps(&plan, body, at..at + 1, &here)?;
        }
        self.put_back(full);
        self.forget(params);
        let (captured, scored) = own.yields[1..].split_at(own.yields.len() - 2);
        let of_pair = if role == "join" { own.yields[0] } else { scored[0] };
        if let Some(Val::Real(dx)) = self.values[of_pair.index()].take() {
            let ids = match role == "score" && back.joins_all() {
                true => pairs.made,
                false => interleaved(&pairs.left, &pairs.right),
            };
            self.scatter(&Ids::new(ids), &dx, &back.nodes, back.trace.nodes.width);
        }
        let part = Rows { rows: &rows, starts: &[], all: false };
        for (n, value) in captured.iter().enumerate() {
            if let Some(val) = self.values[value.index()].take() {
                self.add_rows(&back.sums[n], &val, back.node.results[1 + n], back.place, part);
            }
        }
        Ok(())
    }

    /// Every pair gets its share of the cotangents of the means of its row.
    fn mean_seeds(&mut self, back: &Back<'_, T>, rows: &[usize], seeds: &[Value]) {
        if back.means.is_empty() {
            return;
        }
        let index: Vec<u32> = rows.iter().map(|row| *row as u32).collect();
        let share = |row: &usize| T::from_f64(1.0 / back.counts[*row].max(1) as f64);
        let shares: Vec<T> = rows.iter().map(share).collect();
        let (index, shares) = (self.pool.upload(&index), self.pool.upload(&shares));
        for (param, mean) in seeds.iter().zip(&back.means) {
            let y = self.pool.take::<T>(rows.len());
            self.pool.each("share", y.len(), &[mean.arg(), index.arg(), shares.arg(), y.arg(), whole(y.len())]);
            self.set(*param, Val::Real(y));
        }
    }

    /// The gradients of the leaves of the rows that are left.
    fn leaves_back(&self, back: &Back<'_, T>, traced: &Traced) -> Array {
        let (offsets, width) = (&back.trace.leaves, back.trace.nodes.width);
        match &traced.rows {
            None => back.nodes.part::<T>(0, offsets[offsets.len() - 1] * width),
            Some(kept) => {
                let pieces = Pieces::packed(kept.iter().map(|row| (offsets[*row], offsets[row + 1] - offsets[*row])));
                pieces.gathered::<T>(&back.nodes, width, &self.pool)
            }
        }
    }
}

/// The pairs of a run of a part: their nodes, what they became, and which pairs they are.
struct Taken {
    left: Vec<u32>,
    right: Vec<u32>,
    made: Vec<u32>,
    scored: Vec<usize>,
}

impl<T: Element> Back<'_, T> {
    /// Whether pairs are joined before they are scored.
    fn joins_all(&self) -> bool {
        self.trace.lists.search.joins_all()
    }

    /// The pairs that the tape names.
    fn of(&self, starts: &[usize], role: &str) -> Taken {
        let step = self.trace.lists.record.step(starts[0] >> STEP_BITS);
        let Pairs { left, right } = if role == "join" && !self.joins_all() { step.merges } else { step.fresh };
        let places = || starts.iter().map(|at| at & ((1 << STEP_BITS) - 1));
        let first = step.first_node + step.blends.len();
        Taken {
            left: places().map(|k| left[k]).collect(),
            right: places().map(|k| right[k]).collect(),
            made: places().map(|k| (first + k) as u32).collect(),
            scored: places().map(|k| step.first_pair + k).collect(),
        }
    }

    /// The gradients of these nodes.
    fn gathered(&self, nodes: &[u32], executor: &Executor<T>) -> Array {
        let (pool, width) = (&executor.pool, self.trace.nodes.width);
        let (ids, y) = (pool.upload(nodes), pool.take::<T>(nodes.len() * width));
        pool.each("pair_nodes", y.len(), &[self.nodes.arg(), ids.arg(), y.arg(), int(width), whole(y.len())]);
        y
    }
}

/// The role of the part that a step of the tape is a run of.
fn role<'p>(plan: &'p Plan, step: &TapeStep) -> Option<&'p str> {
    let ran = step.saved.iter().find_map(|val| match val {
        Val::Tape(tape) if !tape.steps.is_empty() => Some(tape.body),
        _ => None,
    });
    part_role(plan, ran?)
}
