//! Beam searches: how many pairs a row joins and scores in a step follows from its length, so steps that are alike are walked
//! together.

use crate::ir::attribute::{self, Role};
use std::rc::Rc;

use super::loops::{EqualSteps, SizedCaptures, used_up};
use super::pool::{ByteAmount, PooledBlock};
use super::walk::{BatchSizes, MemoryWalk, SizedValue, TapeEntry};
use crate::ir::cost::Extent as _;
use crate::ir::formula::Formula;
use crate::ir::graph::{Node, NodeId, RegionId};
use crate::ir::loops::{self, Cut};
use crate::ir::number::Number;
use crate::ir::ops::Op;
use crate::ir::schedule::Axes;
use crate::ir::schedule::beam::{BeamRules, Count, TurnPairs};
use crate::ir::types::{BATCH, Dim, Type};
use crate::plan::Step;

/// The pairs of every row as rows of their own.
fn pairs(env: &BatchSizes, axis: &str, counts: &[usize]) -> (Vec<usize>, BatchSizes) {
    let rows: Vec<usize> = counts.iter().enumerate().flat_map(|(row, n)| std::iter::repeat_n(row, *n)).collect();
    let mut here = env.part(&rows);
    here.set_axis(axis, vec![2; rows.len()]);
    here.even_out(axis);
    (rows, here)
}

impl MemoryWalk<'_> {
    pub(super) fn part(&mut self, node: &Node, env: &BatchSizes) {
        let Some(body) = node.body else { return };
        let params: Vec<SizedValue> = node.operands.iter().map(|v| self.value(*v, env)).collect();
        let out = self.body(body, params, env);
        let lists = self.pool.take_bytes(self.part_tape(env, out.saved.len()));
        let tape = TapeEntry { env: env.clone(), rows: (0..env.rows).collect(), saved: out.saved, more: vec![lists] };
        self.finish(node, out.yields, vec![tape]);
    }

    pub(super) fn beam(&mut self, id: NodeId, env: &BatchSizes) {
        let node = self.plan.graph.node(id);
        let (Some(body), Some(beams)) = (node.body, BeamRules::of(node)) else { return };
        let taped = self.is_taped(node);
        let lengths = env.axis(Axes::of(node).over).to_vec();
        let lists = ByteAmount { number: super::lists::bytes(&beams, &lengths, taped), formula: None };
        let lists = self.lists.take_bytes(lists);
        let table = self.table(node, &beams, env);
        // The row of every node.
        let rows = self.pool.take(self.nodes(node, &beams, env).times(&ByteAmount::of(2, env.symbols.is_some())));
        let all = beams.turns(&lengths);
        let (mut tape, mut captures) = (vec![], SizedCaptures::new(body, env));
        for alike in all.chunk_by(|a, b| a == b) {
            let formula = self.times(node, &beams, env, &all, alike.len());
            let group = EqualSteps { rows: vec![], env: env.clone(), times: alike.len(), formula };
            self.repeat(&group, &mut tape, |walk, tape| {
                for (role, param, counts) in [(Role::Join, 0, &alike[0].joined), (Role::Score, 1, &alike[0].scored)] {
                    let (rows, here) = pairs(env, Axes::of(node).chunk, counts);
                    if rows.is_empty() {
                        continue;
                    }
                    captures.narrow(walk, &rows, &here);
                    let kept = walk.pairs(&here, env, walk.plan.regions[body.index()].saves.len());
                    let saved = walk.part_of(body, role, param, &here);
                    if taped {
                        let more = vec![walk.pool.take_bytes(kept)];
                        tape.push(TapeEntry { env: here, rows, saved, more });
                    }
                }
            });
        }
        captures.restore(self);
        drop(rows);
        let results = self.blocks(&self.given(&node.results), env);
        // The backward run reads the tables and the record to its end.
        if let Some(first) = tape.first_mut() {
            first.more.extend(table);
            first.more.push(lists);
        }
        self.finish(node, results, tape);
    }

    /// How often steps are repeated, in symbols: those of the longest stretch of a search over whole rows follow the length.
    fn times(
        &self,
        node: &Node,
        beams: &BeamRules,
        env: &BatchSizes,
        all: &[TurnPairs],
        times: usize,
    ) -> Option<Formula> {
        let sizes = env.symbols.as_ref()?;
        let longest = all.chunk_by(|a, b| a == b).map(<[TurnPairs]>::len).max();
        if beams.cut != Cut::whole() || longest != Some(times) || times <= 3 {
            return Some(Formula::of(times as f64));
        }
        let length = sizes.dim(&Dim::sym(Axes::of(node).over));
        let own = env.axis(Axes::of(node).over).first().copied().unwrap_or(0);
        Some(length.minus(&Formula::of(own as f64 - times as f64)))
    }

    /// The nodes of a search, with those that it makes.
    fn nodes(&self, node: &Node, beams: &BeamRules, env: &BatchSizes) -> ByteAmount {
        let own = env.axis(Axes::of(node).over).iter().sum::<usize>() as u64;
        self.count(node, beams, env, Count::Made).plus(&ByteAmount {
            number: own,
            formula: env.symbols.as_ref().map(|sizes| sizes.elements(&Type::real([Dim::sym(BATCH), over(node)]))),
        })
    }

    /// What is counted of a search over all rows.
    fn count(&self, node: &Node, beams: &BeamRules, env: &BatchSizes, count: Count) -> ByteAmount {
        let lengths = env.axis(Axes::of(node).over);
        let number = lengths.iter().map(|n| beams.count(*n, count)).sum::<f64>().round() as u64;
        let rows = Dim::sym(BATCH);
        let formula = env.symbols.as_ref();
        let formula = formula.map(|s| s.dim(&rows).times(&Formula::search(*beams, count, &s.dim(&over(node)))));
        ByteAmount { number, formula }
    }

    /// The tables of nodes and of pair scores.
    fn table(&self, node: &Node, beams: &BeamRules, env: &BatchSizes) -> Vec<PooledBlock> {
        let ty = self.plan.graph.ty(node.operands[0]);
        let width = ty.dims().get(2).and_then(Dim::fixed).unwrap_or(1) as u64;
        let nodes = self.nodes(node, beams, env).times(&ByteAmount::of(width, env.symbols.is_some()));
        vec![self.pool.take(nodes.plus(&self.count(node, beams, env, Count::Scored)))]
    }

    /// Runs a part on the pairs of `here`; gives what is saved of it.
    fn part_of(&mut self, body: RegionId, role: Role, param: usize, here: &BatchSizes) -> Vec<SizedValue> {
        let plan = self.plan;
        let own = &plan.regions[body.index()];
        let param = plan.graph.params(body)[param];
        let x = self.block(plan.graph.ty(param), here);
        self.set(param, x);
        if let Some(step) = own.steps.iter().find(|step| has_role(plan.graph.node(step.node), Op::Part, role)) {
            self.step_of(step, here);
        }
        let nothing = || SizedValue::Tape(Rc::new(vec![]));
        let saved = own.saves.iter().map(|v| self.values[v.index()].take().unwrap_or_else(nothing)).collect();
        for value in &own.yields {
            self.values[value.index()] = None;
        }
        saved
    }

    fn step_of(&mut self, step: &Step, env: &BatchSizes) {
        self.step(step, env);
        for value in &step.frees {
            self.values[value.index()] = None;
        }
    }

    pub(super) fn part_backward(&mut self, at: &Step, node: &Node, env: &BatchSizes) {
        let (Some(body), Some(mut tape)) = (node.body, self.taped(at, node.operands[0])) else { return };
        let mut params: Vec<SizedValue> = node.operands[1..].iter().map(|v| self.value(*v, env)).collect();
        params.extend(tape.pop().into_iter().flat_map(|step| used_up(step).0));
        let out = self.body(body, params, env);
        for (result, held) in node.results.iter().zip(out.yields) {
            self.set(*result, held);
        }
    }

    pub(super) fn beam_backward(&mut self, at: &Step, node: &Node, env: &BatchSizes) {
        let (Some(body), Some(mut tape)) = (node.body, self.taped(at, node.operands[0])) else { return };
        let forward = loops::forward(&self.plan.graph, node.operands[0]).map(|id| self.plan.graph.node(id));
        let Some((forward, beams)) = forward.and_then(|node| Some((node, BeamRules::of(node)?))) else { return };
        let plan = self.plan;
        // The gradients of both tables.
        let tables = self.table(forward, &beams, env);
        let own = &plan.regions[body.index()];
        let params = plan.graph.params(body);
        let sums = self.blocks(&self.types(&node.results[1..]), env);
        let outputs = loops::layout(&plan.graph, self.owner(body)).sliced;
        let mut captures = SizedCaptures::new(body, env);
        while let Some(step) = tape.pop() {
            let (here, rows) = (step.env.clone(), step.rows.clone());
            let (saved, lists) = used_up(step);
            let joins = saved.iter().zip(&plan.regions[self.forward_body(forward).index()].saves).any(|(held, v)| {
                let ran = matches!(held, SizedValue::Tape(tape) if !tape.is_empty());
                ran && plan.graph.producer(*v).is_some_and(|id| has_role(plan.graph.node(id), Op::Part, Role::Join))
            });
            for (param, held) in params[1 + outputs..].iter().zip(saved) {
                self.set(*param, held);
            }
            let seeds = if joins { &params[..=outputs] } else { &params[params.len() - 1..] };
            for seed in seeds {
                let held = self.block(plan.graph.ty(*seed), &here);
                self.set(*seed, held);
            }
            captures.narrow(self, &rows, &here);
            let role = if joins { Role::Join } else { Role::Score };
            if let Some(step) = own.steps.iter().find(|step| has_role(plan.graph.node(step.node), Op::Unwind, role)) {
                self.step_of(step, &here);
            }
            for value in params.iter().chain(&own.yields) {
                self.values[value.index()] = None;
            }
            drop(lists);
        }
        captures.restore(self);
        let leaves = self.blocks(&self.types(&node.results[..1]), env);
        drop(tables);
        for (result, held) in node.results.iter().zip(leaves.into_iter().chain(sums)) {
            self.set(*result, held);
        }
    }

    fn forward_body(&self, forward: &Node) -> RegionId {
        forward.body.expect("a search has a body")
    }
}

/// The axis over which a search runs.
fn over(node: &Node) -> Dim {
    Dim::sym(Axes::of(node).over)
}

/// Whether a node is the part of this role, or its backward run.
fn has_role(node: &Node, op: Op, role: Role) -> bool {
    node.op == op && node.find(attribute::ROLE) == Some(role)
}
