//! The balanced fold and its backward run.
//!
//! Rows lie packed end to end, and so do their chunks: a level reads the nodes of the level below again with other
//! offsets, and the vectors that its body gives for all chunks of all rows are the nodes of the next level.

use rtc_compiler::ir::graph::{Node, Value};
use rtc_compiler::ir::loops::Cut;
use rtc_compiler::ir::types::{Attr, LENGTH, Type, unframed};
use rtc_compiler::plan::Step;

use super::joined::Joined;
use super::{Part, int, word};
use crate::exec::rows::{Axis, Env};
use crate::exec::storage::{Buffer, Element, List};
use crate::exec::value::{TapeStep, Val};
use crate::exec::{Executor, Fault, Inference};

/// A fold while it runs.
struct Fold<T: Element> {
    levels: Levels,
    /// The nodes of the rows that are still going.
    nodes: Val<T>,
    /// Numbers per node.
    width: usize,
}

/// Which rows of a fold have how many nodes left.
pub(crate) struct Levels {
    cut: Cut,
    /// The rows that are still going, by their indices among those that entered.
    pub(crate) going: List<usize>,
    /// For each of those: how many nodes are left.
    pub(crate) left: List<usize>,
    /// Nodes that the longest row has left.
    longest: usize,
}

/// The chunks of a level, row by row.
pub(crate) struct Chunks {
    /// The row of every chunk, by its index among those that entered.
    pub(crate) rows: List<usize>,
    /// Where it starts among the nodes of its row.
    pub(crate) starts: List<usize>,
    pub(crate) lengths: List<usize>,
}

impl<T: Element> Executor<T> {
    /// `fold`: every row is cut into chunks, and their vectors again, until one is left.
    pub(in crate::exec) fn fold(&mut self, node: &Node, env: &Env) -> Result<(), Fault> {
        let body = node.body.expect("the verifier gives every loop a body");
        let (plan, arena) = (self.plan.clone(), self.arena.clone());
        let axis = self.axis_name(word(node, "axis"));
        let mut at = self.start(node, env);
        let mut root = arena.take(env.rows() * at.width);
        let numbers = node.results[1..].iter().filter(|v| *plan.graph.ty(**v) != Type::Tape).count();
        let mut sums: List<Buffer<T>> = arena.list((0..numbers).map(|_| arena.filled(env.rows(), T::ZERO)));
        let mut counts = arena.filled(env.rows(), 0_usize);
        let mut tape = arena.list([]);
        let filled = node.attrs.get("filled").and_then(Attr::text).map(|name| self.axis_name(name));
        let whole_rows = unframed(word(node, "over")).0 == LENGTH;
        let mut joined = (self.stepped.is_some() && whole_rows).then(|| Joined::leaves(&at.levels));
        for level in 0.. {
            if at.levels.settles(level) {
                self.settle(&mut at, &mut root);
            }
            if at.levels.going.is_empty() {
                break;
            }
            let chunks = at.levels.chunks();
            if let Some(joined) = &mut joined {
                joined.join(&chunks);
            }
            let Chunks { rows, starts, lengths } = chunks;
            let mut here = env.split(&rows);
            here.key = env.key.at(level);
            let origin = arena.copy(&starts);
            if let Some(filled) = &filled {
                let lengths = lengths.iter().map(|length| at.levels.filled(*length, level as usize));
                here.set_axis(filled.clone(), Axis::of_lengths(lengths, &arena));
            }
            self.set_axis(&mut here, &axis, Axis { origin, ..Axis::of_lengths(lengths, &arena) });
            let full = self.cut_captures(&plan, body, env, &rows);
            let params = arena.list([std::mem::replace(&mut at.nodes, Val::real(arena.take(0)))]);
            let mut out = self.body(&plan, body, params, &here)?;
            self.put_back(full);
            if let Some(counted) = &mut self.counted {
                counted.steps += 1;
            }
            rows.iter().for_each(|row| counts[*row] += 1);
            for (number, sum) in out.yields.drain(1..).zip(&mut sums) {
                let Val::Real(number) = number else { continue };
                rows.iter().zip(&**number).for_each(|(row, x)| sum[*row] += *x);
            }
            at.nodes = out.yields.pop().expect("a fold yields a vector");
            if let (Some(joined), Some(seen)) = (&joined, &mut self.stepped) {
                seen.extend(joined.stepped(node, env, level as usize, (&rows, &at.nodes, at.width)));
            }
            if self.is_taped(node) {
                tape.push(TapeStep { env: here, rows: Some(arena.share(rows)), starts, saved: out.saved });
            }
        }
        for sum in &mut sums {
            sum.iter_mut().zip(&*counts).for_each(|(sum, count)| *sum *= chunk_share(*count));
        }
        let done = arena.list(std::iter::once(root).chain(sums).map(Val::real));
        self.finish(node, body, done, tape);
        Ok(())
    }

    /// All rows with all their nodes.
    fn start(&self, node: &Node, env: &Env) -> Fold<T> {
        Fold {
            levels: Levels::new(node, env, self.inference),
            nodes: self.value(node.operands[0]),
            width: env.bounds(self.ty(node.operands[0])).inner,
        }
    }

    /// Rows that are done leave: their vectors go to `root`, and the nodes of the others close up.
    fn settle(&self, at: &mut Fold<T>, root: &mut [T]) {
        let Val::Real(nodes) = &at.nodes else { return };
        let levels = &mut at.levels;
        if !levels.left.iter().any(|left| levels.done(*left)) {
            return;
        }
        let (arena, width) = (&self.arena, at.width);
        let kept = levels.left.iter().filter(|left| !levels.done(**left)).sum::<usize>();
        let mut rest = arena.take(kept * width);
        let (mut from, mut to) = (0, 0);
        for (row, left) in levels.going.iter().zip(&levels.left) {
            let vectors = &nodes[from..from + left * width];
            from += left * width;
            if levels.done(*left) {
                root[row * width..(row + 1) * width].copy_from_slice(vectors);
            } else {
                rest[to..to + vectors.len()].copy_from_slice(vectors);
                to += vectors.len();
            }
        }
        levels.leave();
        at.nodes = Val::real(rest);
    }

    /// The backward run of a `fold`, level by level from the last to the first.
    pub(in crate::exec) fn unfold(&mut self, step: &Step, node: &Node, env: &Env) -> Result<(), Fault> {
        let body = node.body.expect("the verifier gives every loop a body");
        let (plan, arena) = (self.plan.clone(), self.arena.clone());
        let carried = int(node, "carried").unwrap_or(0);
        let mut tape = self.taped(step, node.operands[0]);
        let (root, means) = node.operands[1..].split_at(carried);
        let width = root.first().map_or(0, |v| env.bounds(self.ty(*v)).inner);
        let (root, means) = (self.values(root), self.values(means));
        let everyone = arena.list(0..env.rows());
        let counts = chunk_counts(&tape, &everyone);
        let results = &node.results[carried..];
        let zeroed = |of: &Value| arena.filled(env.extent(plan.graph.ty(*of)), T::ZERO);
        let mut sums: List<Buffer<T>> = arena.list(results.iter().map(zeroed));
        let mut above = Above { rows: arena.list([]), nodes: Val::real(arena.take(0)) };
        while let Some(TapeStep { env: here, rows, saved, .. }) = tape.pop() {
            let rows = arena.copy(rows.as_deref().unwrap_or(&everyone));
            let full = self.cut_captures(&plan, body, env, &rows);
            let mut params = arena.list(root.iter().map(|root| above.below(root, &rows, width)));
            for mean in &means {
                let Val::Real(mean) = mean else { continue };
                let parts = rows.iter().map(|row| mean[*row] * chunk_share(counts[*row]));
                params.push(Val::real(arena.list(parts)));
            }
            params.extend(saved);
            let mut yields = self.body(&plan, body, params, &here)?.yields;
            self.put_back(full);
            let part = Part { rows: &rows, starts: &[], all: false };
            for (n, val) in yields.drain(carried..).enumerate() {
                self.add_rows(&mut sums[n], &val, results[n], env, part);
            }
            if let Some(nodes) = yields.pop() {
                above = Above { rows, nodes };
            }
        }
        if let (Some(root), [first, ..]) = (root.first(), &node.results[..]) {
            let whole = env.axis(word(node, "over")).clone();
            let rows = arena.list((0..env.rows()).flat_map(|row| std::iter::repeat_n(row, whole.len(row))));
            self.memory.set(*first, above.below(root, &rows, width));
        }
        for (result, sum) in results.iter().zip(sums) {
            self.memory.set(*result, Val::real(sum));
        }
        Ok(())
    }
}

/// The factor of a mean over `count` chunks; a row without chunks has the mean 0.
pub(crate) fn chunk_share<T: Element>(count: usize) -> T {
    T::from_f64(1.0 / count.max(1) as f64)
}

/// How many chunks each of the rows that entered had, in all levels.
fn chunk_counts<T: Element>(tape: &List<TapeStep<T>>, everyone: &[usize]) -> List<usize> {
    let mut counts = tape.allocator().filled(everyone.len(), 0);
    for step in tape {
        step.rows.as_deref().map_or(everyone, |rows| rows).iter().for_each(|row| counts[*row] += 1);
    }
    counts
}

impl Levels {
    /// All rows of a batch that enter a fold, with all their nodes.
    pub(crate) fn new(node: &Node, env: &Env, inference: Inference) -> Self {
        let (over, arena) = (word(node, "over"), env.arena());
        let whole = env.axis(over);
        let cut = Cut::of(node).expect("the verifier asks for an arity");
        let flat = inference == Inference::Flat && word(node, "flat") == "true";
        // The width of the padded batch is that of whole rows.
        let padded = match unframed(over) {
            (LENGTH, more) => env.width + more,
            _ => 0,
        };
        Self {
            cut: if flat { cut.flat() } else { cut },
            going: arena.list(0..env.rows()),
            left: arena.list((0..env.rows()).map(|row| whole.len(row))),
            longest: (0..env.rows()).map(|row| whole.len(row)).fold(padded, usize::max),
        }
    }

    /// Whether a row with so many nodes left is done.
    pub(crate) fn done(&self, left: usize) -> bool {
        if self.cut.by_batch { self.longest == 1 } else { left == 1 }
    }

    /// Whether rows that are done leave before this level: one of one element may have to make a chunk first.
    pub(crate) fn settles(&self, level: u64) -> bool {
        level > 0 || !self.cut.single
    }

    /// Elements of a chunk of this level once it is filled.
    pub(crate) fn filled(&self, length: usize, level: usize) -> usize {
        self.cut.filled(length, level)
    }

    /// Goes on with the rows that are not done.
    pub(crate) fn leave(&mut self) {
        let arena = self.going.allocator();
        let staying = || self.going.iter().zip(&self.left).filter(|(_, left)| !self.done(**left));
        let (going, left) = (arena.list(staying().map(|(row, _)| *row)), arena.list(staying().map(|(_, n)| *n)));
        (self.going, self.left) = (going, left);
    }

    /// Cuts the rows that are going; the vectors of the chunks are what is left then.
    pub(crate) fn chunks(&mut self) -> Chunks {
        let arena = self.going.allocator();
        let new = || arena.list([]);
        let mut out = Chunks { rows: new(), starts: new(), lengths: new() };
        for (row, left) in self.going.iter().zip(&mut self.left) {
            let width = self.cut.width(if self.cut.by_batch { self.longest } else { *left });
            let count = left.div_ceil(width);
            out.rows.extend(std::iter::repeat_n(*row, count));
            out.starts.extend(self.cut.chunks(*left, width).map(|(start, _)| start));
            out.lengths.extend(self.cut.chunks(*left, width).map(|(_, length)| length));
            *left = count;
        }
        self.longest = self.longest.div_ceil(self.cut.width(self.longest));
        out
    }
}

/// Cotangents of the nodes of a level, in order, and the row of each chunk that they lie in.
struct Above<T: Element> {
    rows: List<usize>,
    nodes: Val<T>,
}

impl<T: Element> Above<T> {
    /// The cotangents of the vectors of the level below, `width` numbers each; `rows` names the row of every vector. Those
    /// of rows that went on are nodes of this level, those of the others are their results.
    fn below(&self, root: &Val<T>, rows: &[usize], width: usize) -> Val<T> {
        let (Val::Real(root), Val::Real(nodes)) = (root, &self.nodes) else { return root.clone() };
        if nodes.len() == rows.len() * width {
            return self.nodes.clone();
        }
        let mut out = nodes.allocator().take(rows.len() * width);
        let (mut above, mut from, mut to) = (0, 0, 0);
        for vectors in rows.chunk_by(|a, b| a == b) {
            let (row, len) = (vectors[0], vectors.len() * width);
            if self.rows.get(above) == Some(&row) {
                out[to..to + len].copy_from_slice(&nodes[from..from + len]);
                from += len;
                above += self.rows[above..].iter().take_while(|r| **r == row).count();
            } else {
                out[to..to + len].copy_from_slice(&root[row * width..row * width + len]);
            }
            to += len;
        }
        Val::real(out)
    }
}
