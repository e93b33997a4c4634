//! The balanced fold and its backward run.
//!
//! Rows lie packed end to end, and so do their chunks: a level reads the nodes of the level below again with other
//! offsets, and the vectors that its body gives for all chunks of all rows are the nodes of the next level.

use rtc_compiler::ir::attribute;
use rtc_compiler::ir::graph::Node;
use rtc_compiler::ir::loops::Cut;
use rtc_compiler::ir::schedule::{Axes, Levels, LoopSchedule as _};
use rtc_compiler::plan::{Plan, Step};

use super::backward::{LoopBackward, backward, taped};
use super::{
    RowMeans, SavedCaptures, arena, body_of, counts, finish, given, is_taped, padded, plan, run_body, set_axis, shares,
    tape_of, values,
};
use crate::machine::pieces::{Pieces, RowSubset};
use crate::machine::record::{LoopTurn, Observers};
use crate::machine::value::TapeStep;
use crate::machine::{Active, ActiveOf, Machine, ValOf};
use crate::rows::Axis;
use crate::settings::ExecutionFault;
use crate::settings::Inference;
use crate::storage::List;

/// `fold`: every row is cut into chunks, and their vectors again, until one is left.
pub(super) fn fold<M: Machine>(m: &mut M, node: &Node, entered: &ActiveOf<M>) -> Result<(), ExecutionFault> {
    let (plan, arena, view, body) = (plan(m), arena(m), entered.view(), body_of(node));
    let axes = Axes::of(node);
    let whole = view.axis(axes.over).clone();
    let width = view.bounds(plan.graph.ty(node.operands[0])).inner;
    let lengths = arena.list((0..view.rows()).map(|row| whole.len(row)));
    let mut observers = Observers::begin(m, &plan.graph, node, view);
    let mut levels = Levels::new(cut(m, node), lengths, padded(view, axes.over));
    let mut nodes = m.value(node.operands[0]);
    let mut root = m.take(view.rows() * width);
    let mut means = RowMeans::new(m, given(&plan, &node.results[1..]).len(), view.rows());
    let (mut tape, mut captures) = (arena.list([]), SavedCaptures::new(body, view));
    loop {
        settle(m, &levels, &mut nodes, &mut root, width);
        if levels.alike() == 0 {
            break;
        }
        let level = levels.level();
        let chunks = arena.list(levels.chunks());
        let rows = arena.list(chunks.iter().map(|chunk| chunk.row));
        let starts = arena.list(chunks.iter().map(|chunk| chunk.start));
        let mut here = view.split(&rows);
        here.key = view.key.at(level as u64);
        if !axes.filled.is_empty() {
            set_axis(m, &mut here, axes.filled, Axis::of_lengths(chunks.iter().map(|chunk| chunk.filled), &arena));
        }
        let lengths = Axis::of_lengths(chunks.iter().map(|chunk| chunk.length), &arena);
        set_axis(m, &mut here, axes.chunk, Axis { origin: arena.copy(&starts), ..lengths });
        let here: ActiveOf<M> = here.into();
        captures.narrow(m, &plan, &RowSubset::rows(view, &rows));
        let mut out = run_body(m, &plan, body, arena.list([nodes]), &here)?;
        m.records().count_steps(1);
        means.add(m, &rows, out.yields.drain(1..));
        nodes = out.yields.pop().expect("a fold yields a vector");
        let (graph, of_body) = (&plan.graph, ActiveOf::<M>::view(&here));
        let turn = LoopTurn {
            graph,
            node,
            entered: view,
            here: of_body,
            step: level,
            rows: &rows,
            kept: &[],
            chunks: &chunks,
        };
        observers.turn(m, &turn, std::slice::from_ref(&nodes));
        drop(chunks);
        if is_taped(m, node) {
            tape.push(TapeStep { here, rows: Some(arena.share(rows)), starts, saved: out.saved });
        }
        levels.advance(1);
    }
    captures.restore(m);
    let done = std::iter::once(root).chain(means.done(m));
    let done = arena.list(done);
    observers.end(m, node, view, &done);
    finish(m, node, done, tape_of::<M>(body, tape));
    Ok(())
}

/// How the rows are cut: where the outer recursion is left out, into one chunk each.
fn cut<M: Machine>(m: &M, node: &Node) -> Cut {
    let cut = Cut::of(node).expect("the verifier asks for an arity");
    if m.common().inference == Inference::Flat && node.get(attribute::FLAT) { cut.flat() } else { cut }
}

/// The rows that are done leave: their vectors go to `root`, and the nodes of the others close up.
fn settle<M: Machine>(m: &M, levels: &Levels<List<usize>>, nodes: &mut ValOf<M>, root: &mut ValOf<M>, width: usize) {
    let arena = m.common().arena;
    let (mut done, mut own, mut rest, mut from) = (arena.list([]), arena.list([]), arena.list([]), 0);
    for (row, left) in levels.rows() {
        if levels.is_done(left) {
            done.push((from, left));
            own.push((row, left));
        } else {
            rest.push((from, left));
        }
        from += left;
    }
    if !own.is_empty() {
        let vectors = m.gather(nodes, &Pieces::new(done, arena), width);
        m.scatter(&vectors, root, &Pieces::new(own, arena), width);
        *nodes = m.gather(nodes, &Pieces::new(rest, arena), width);
    }
}

/// The backward run of a `fold`.
struct FoldBackward<M: Machine> {
    /// Cotangents of the results of all rows, `width` numbers each; nothing where none are asked for.
    root: Option<ValOf<M>>,
    width: usize,
    means: List<ValOf<M>>,
    /// Chunks of every row, in all levels.
    counts: List<usize>,
    /// The row of each element of the whole rows.
    elements: List<usize>,
    /// The level above: the row of each of its chunks, and the cotangents of its nodes.
    above: (List<usize>, Option<ValOf<M>>),
}

/// `unwind` of a `fold`, level by level from the last to the first.
pub(super) fn fold_backward<M: Machine>(
    m: &mut M,
    step: &Step,
    node: &Node,
    entered: &ActiveOf<M>,
) -> Result<(), ExecutionFault> {
    let (plan, arena, view) = (plan(m), arena(m), entered.view());
    let tape = taped(m, step, node.operands[0]).0;
    let (root, means) = node.operands[1..].split_at(node.get(attribute::CARRIED));
    let axis = view.axis(Axes::of(node).over);
    let kind = FoldBackward {
        width: root.first().map_or(0, |v| view.bounds(plan.graph.ty(*v)).inner),
        root: root.first().map(|v| m.value(*v)),
        means: values(m, means),
        counts: counts(&tape, view),
        elements: arena.list((0..view.rows()).flat_map(|row| std::iter::repeat_n(row, axis.len(row)))),
        above: (arena.list([]), None),
    };
    backward(m, node, entered, tape, kind)
}

impl<M: Machine> FoldBackward<M> {
    /// The cotangents of the vectors of the level below, of which `rows` names the row of each: those of a row that went on are
    /// nodes of the level above, those of a row that was done are its result.
    fn below(&mut self, m: &M, rows: &[usize]) -> Option<ValOf<M>> {
        let arena = m.common().arena;
        // No other handle to the cotangents stays, so that the body can use them up.
        let (went, nodes) = std::mem::replace(&mut self.above, (arena.list([]), None));
        let root = self.root.as_ref()?;
        let (mut went_on, mut done, mut own) = (arena.list([]), arena.list([]), arena.list([]));
        let (mut next, mut at) = (0, 0);
        for vectors in rows.chunk_by(|a, b| a == b) {
            let (row, len) = (vectors[0], vectors.len());
            if went.get(next) == Some(&row) {
                went_on.push((at, len));
                next += went[next..].iter().take_while(|r| **r == row).count();
            } else {
                done.push((at, len));
                own.push((row, len));
            }
            at += len;
        }
        if nodes.is_some() && done.is_empty() {
            return nodes;
        }
        let mut out = m.take(rows.len() * self.width);
        if let Some(nodes) = nodes {
            m.scatter(&nodes, &mut out, &Pieces::new(went_on, arena), self.width);
        }
        let results = m.gather(root, &Pieces::new(own, arena), self.width);
        m.scatter(&results, &mut out, &Pieces::new(done, arena), self.width);
        Some(out)
    }
}

impl<M: Machine> LoopBackward<M> for FoldBackward<M> {
    fn params(
        &mut self,
        m: &M,
        _: &Plan,
        part: &RowSubset<'_, M::Arrays>,
        _: &RowSubset<'_, M::Arrays>,
    ) -> List<ValOf<M>> {
        let mut params = m.common().arena.list(self.below(m, part.rows));
        params.extend(shares(m, &self.means, part.rows, &self.counts));
        params
    }

    fn carry(&mut self, m: &M, mut yields: List<ValOf<M>>, part: &RowSubset<'_, M::Arrays>) {
        self.above = (m.common().arena.copy(part.rows), yields.pop());
    }

    fn done(mut self, m: &M) -> List<ValOf<M>> {
        let elements = std::mem::replace(&mut self.elements, m.common().arena.list([]));
        m.common().arena.list(self.below(m, &elements))
    }
}
