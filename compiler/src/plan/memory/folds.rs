//! Balanced folds: every level is walked, since each takes other rows and lengths.

use crate::ir::attribute;
use std::rc::Rc;

use super::loops::SavedCaptures;
use super::walk::{Env, TapeEntry, Walk};
use crate::ir::formula::Formula;
use crate::ir::graph::Node;
use crate::ir::loops::Cut;
use crate::ir::number::Number;
use crate::ir::schedule::Levels;
use crate::ir::types::{BATCH, Dim, Type};

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
    let (over, axis) = (node.get(attribute::OVER), node.get(attribute::AXIS));
    let lengths = env.axis(over).into_owned();
    let even = lengths.windows(2).all(|pair| pair[0] == pair[1]);
    let symbols = env.symbols.as_ref().filter(|_| even);
    let mut nodes = symbols.map(|sizes| sizes.dim(&Dim::sym(over)));
    let (mut levels, mut all) = (Levels::new(cut, lengths, 0), vec![]);
    loop {
        let whole = !levels.leave();
        if levels.is_over() {
            return all;
        }
        let mut chunks = vec![];
        levels.cut(|chunk| chunks.push(chunk));
        let rows: Vec<usize> = chunks.iter().map(|chunk| chunk.row).collect();
        let mut here = env.part(&rows);
        let filled = node.find(attribute::FILLED).unwrap_or_default();
        if !filled.is_empty() {
            here.set_axis(filled, chunks.iter().map(|chunk| chunk.filled).collect());
            here.even_out(filled);
        }
        here.set_axis(axis, chunks.iter().map(|chunk| chunk.length).collect());
        here.even_out(axis);
        if let (Some(sizes), Some(length)) = (symbols, &mut nodes) {
            let last = rows.first() != rows.get(1);
            let chunks = if last { Formula::of(1.0) } else { length.pieces(&Formula::of(cut.arity as f64)) };
            let width = std::mem::replace(length, chunks.clone()).per(&chunks);
            let batch = sizes.dim(&Dim::sym(BATCH)).times(&chunks);
            let whole = Formula::of(cut.arity as f64);
            here.symbols = Some(Rc::new(sizes.with(BATCH, batch).with(filled, whole).with(axis, width)));
        }
        all.push(Level { rows, env: here, whole });
    }
}

impl Walk<'_> {
    pub(super) fn fold(&mut self, node: &Node, env: &Env) {
        let (Some(body), Some(nodes)) = (node.body, node.operands.first()) else { return };
        let given = self.types(&node.results);
        let given: Vec<Type> = given.into_iter().filter(|ty| *ty != Type::Tape).collect();
        let results = self.blocks(&given, env);
        let mut nodes = self.value(*nodes, env);
        let (mut tape, mut captures) = (vec![], SavedCaptures::new(body, env));
        let inside = self.types(self.plan.graph.params(body));
        let taped = node.results.last().is_some_and(|v| *self.plan.graph.ty(*v) == Type::Tape);
        for Level { rows, env: here, whole } in levels(node, env) {
            if !whole {
                nodes = self.block(&inside[0], &here);
            }
            // The row and the start of every chunk, and what its environment says of it.
            let more = vec![self.pool.take_bytes(here.lists(2))];
            captures.narrow(self, &rows, &here);
            let mut out = self.body(body, vec![nodes], &here);
            if taped {
                tape.push(TapeEntry { env: here, rows, saved: out.saved, more });
            }
            out.yields.truncate(1);
            let Some(vectors) = out.yields.pop() else { return };
            nodes = vectors;
        }
        captures.restore(self);
        self.finish(node, results, tape);
    }
}
