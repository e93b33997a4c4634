//! Balanced folds: every level is walked, since each takes other rows and lengths.

use std::rc::Rc;

use super::walk::{Env, Held, Taped, Walk};
use crate::ir::formula::Formula;
use crate::ir::graph::Node;
use crate::ir::loops::{self, Cut};
use crate::ir::number::Number;
use crate::ir::types::{BATCH, Dim, Type};
use crate::plan::Step;

/// The chunks of all rows that a level of a fold runs on.
struct Level {
    /// The row of every chunk.
    rows: Vec<usize>,
    env: Env,
    /// True where all nodes of the level below go on.
    whole: bool,
}

/// The levels of a fold for the rows of `env`.
fn levels(node: &Node, env: &Env) -> Vec<Level> {
    let Some(cut) = Cut::of(node) else { return vec![] };
    let mut left = env.axis(node.word("over").unwrap_or_default()).into_owned();
    let even = left.windows(2).all(|pair| pair[0] == pair[1]);
    let symbols = env.symbols.as_ref().filter(|_| even);
    let mut nodes = symbols.map(|sizes| sizes.dim(&Dim::sym(node.word("over").unwrap_or_default())));
    let mut levels = vec![];
    loop {
        let longest = left.iter().copied().max().unwrap_or(0);
        if !cut.goes_on(longest, levels.len()) {
            return levels;
        }
        let (mut rows, mut lengths, mut whole) = (vec![], vec![], true);
        for (row, left) in left.iter_mut().enumerate() {
            if !cut.goes_on(*left, levels.len()) && !cut.by_batch {
                whole = false;
                continue;
            }
            let width = cut.width(if cut.by_batch { longest } else { *left });
            let count = left.div_ceil(width);
            rows.extend(std::iter::repeat_n(row, count));
            lengths.extend(cut.chunks(*left, width).map(|(_, length)| length));
            *left = count;
        }
        let mut here = env.part(&rows);
        let filled = node.word("filled").unwrap_or_default();
        if !filled.is_empty() {
            here.set_axis(filled, lengths.iter().map(|length| cut.filled(*length, levels.len())).collect());
            here.even_out(filled);
        }
        here.set_axis(node.word("axis").unwrap_or_default(), lengths);
        here.even_out(node.word("axis").unwrap_or_default());
        if let (Some(sizes), Some(length)) = (symbols, &mut nodes) {
            let chunks = match left.first() {
                None | Some(1) => Formula::of(1.0),
                Some(_) => length.pieces(&Formula::of(cut.arity as f64)),
            };
            let width = std::mem::replace(length, chunks.clone()).per(&chunks);
            let batch = sizes.dim(&Dim::sym(BATCH)).times(&chunks);
            let whole = Formula::of(cut.arity as f64);
            let inside =
                sizes.with(BATCH, batch).with(filled, whole).with(node.word("axis").unwrap_or_default(), width);
            here.symbols = Some(Rc::new(inside));
        }
        levels.push(Level { rows, env: here, whole });
    }
}

impl Walk<'_> {
    pub(super) fn fold(&mut self, node: &Node, env: &Env) {
        let (Some(body), Some(nodes)) = (node.body, node.operands.first()) else { return };
        let given = self.types(&node.results);
        let given: Vec<Type> = given.into_iter().filter(|ty| *ty != Type::Tape).collect();
        let results = self.blocks(&given, env);
        let mut nodes = self.value(*nodes, env);
        let mut tape = vec![];
        let inside = self.types(self.plan.graph.params(body));
        let taped = node.results.last().is_some_and(|v| *self.plan.graph.ty(*v) == Type::Tape);
        for Level { rows, env: here, whole } in levels(node, env) {
            if !whole {
                nodes = self.block(&inside[0], &here);
            }
            // The row and the start of every chunk, and what its environment says of it.
            let more = vec![self.pool.take_bytes(here.lists(2))];
            let uncut = self.cut(body, &here);
            let mut out = self.body(body, vec![nodes], &here);
            self.put_back(uncut);
            if taped {
                tape.push(Taped { env: here, rows, saved: out.saved, more });
            }
            out.yields.truncate(1);
            let Some(vectors) = out.yields.pop() else { return };
            nodes = vectors;
        }
        self.finish(node, results, tape);
    }

    pub(super) fn unfold(&mut self, at: &Step, node: &Node, env: &Env) {
        let slot = &mut self.values[node.operands[0].index()];
        let tape = if at.frees.contains(&node.operands[0]) { slot.take() } else { slot.clone() };
        let (Some(body), Some(Held::Tape(tape))) = (node.body, tape) else { return };
        let mut tape = Rc::unwrap_or_clone(tape);
        let parts = loops::layout(&self.plan.graph, self.owner(body));
        let seeds = self.types(&node.operands[1..]);
        let held: Vec<Held> = node.operands[1..].iter().map(|v| self.value(*v, env)).collect();
        let sums = self.blocks(&self.types(&node.results[parts.carried..]), env);
        let mut nodes = None;
        while let Some(step) = tape.pop() {
            let here = step.env.clone();
            let uncut = self.cut(body, &here);
            let mut params = self.blocks(&seeds, &here);
            if let (Some(vectors), Some(first)) = (nodes.take(), params.first_mut()) {
                *first = vectors;
            }
            let (saved, lists) = match Rc::try_unwrap(step) {
                Ok(step) => (step.saved, step.more),
                Err(shared) => (shared.saved.clone(), vec![]),
            };
            params.extend(saved);
            let mut out = self.body(body, params, &here);
            drop(lists);
            self.put_back(uncut);
            out.yields.truncate(parts.carried);
            nodes = out.yields.pop();
        }
        drop(held);
        let first = self.types(&node.results[..parts.carried]);
        let first = nodes.map_or_else(|| self.blocks(&first, env), |nodes| vec![nodes]);
        for (result, held) in node.results.iter().zip(first.into_iter().chain(sums)) {
            self.set(*result, held);
        }
    }
}
