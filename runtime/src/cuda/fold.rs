//! The balanced fold on a device, and its backward run: levels and chunks are the host's, as on the CPU.

use std::rc::Rc;

use rtc_compiler::ir::graph::{Node, Value};
use rtc_compiler::ir::types::{Attr, LENGTH, Type, unframed};
use rtc_compiler::plan::Step;

use super::exec::Executor;
use super::memory::{Array, whole};
use super::pieces::Pieces;
use super::place::Place;
use super::value::{TapeStep, Val};
use crate::exec::loops::fold::{Chunks, Levels, chunk_share};
use crate::exec::loops::joined::Joined;
use crate::exec::loops::{Part, int, word};
use crate::exec::rows::Axis;
use crate::exec::storage::Element;
use crate::exec::{Fault, axis_name, set_axis};

impl<T: Element> Executor<T> {
    /// `fold`: every row is cut into chunks, and their vectors again, until one is left.
    pub(super) fn fold(&mut self, node: &Node, place: &Place) -> Result<(), Fault> {
        let body = node.body.expect("the verifier gives every loop a body");
        let (plan, env) = (self.plan.clone(), &place.env);
        let axis = word(node, "axis");
        let width = env.bounds(self.ty(node.operands[0])).inner;
        let mut at = Levels::new(node, env, self.inference);
        let mut nodes = self.real(node.operands[0]);
        let root = self.pool.take::<T>(env.rows() * width);
        let numbers = node.results[1..].iter().filter(|v| *plan.graph.ty(**v) != Type::Tape).count();
        let sums: Vec<Array> = (0..numbers).map(|_| self.pool.zeros::<T>(env.rows())).collect();
        let mut counts = vec![0_usize; env.rows()];
        let mut tape = vec![];
        let filled = node.attrs.get("filled").and_then(Attr::text).map(|name| axis_name(&self.axes, name));
        let whole_rows = unframed(word(node, "over")).0 == LENGTH;
        let mut joined = (self.stepped.is_some() && whole_rows).then(|| Joined::leaves(&at));
        for level in 0.. {
            if at.settles(level) {
                nodes = self.settle(&mut at, nodes, &root, width);
            }
            if at.going.is_empty() {
                break;
            }
            let chunks = at.chunks();
            if let Some(joined) = &mut joined {
                joined.join(&chunks);
            }
            let Chunks { rows, starts, lengths } = chunks;
            let mut here = env.split(&rows);
            here.key = env.key.at(level);
            let origin = env.arena().copy(&starts);
            if let Some(filled) = &filled {
                let lengths = lengths.iter().map(|length| at.filled(*length, level as usize));
                here.set_axis(filled.clone(), Axis::of_lengths(lengths, env.arena()));
            }
            let chunks = Axis { origin, ..Axis::of_lengths(lengths.iter().copied(), env.arena()) };
            set_axis(&self.axes, &mut here, axis, chunks);
            let here = Place::new(here);
            let full = self.cut_captures(&plan, body, place, &rows);
            let mut out = self.body(&plan, body, vec![Val::Real(nodes)], &here)?;
            self.put_back(full);
            rows.iter().for_each(|row| counts[*row] += 1);
            for (number, sum) in out.yields.drain(1..).zip(&sums) {
                let Val::Real(number) = number else { continue };
                Pieces::added(rows.iter().map(|row| (*row, 1))).add(&number, sum, 1, &self.pool);
            }
            nodes = out.yields.pop().expect("a fold yields a vector").real().clone();
            if let Some(joined) = &joined {
                let seen = self.recorded(&[Val::Real(nodes.clone())]);
                let seen = joined.stepped(node, env, level as usize, (&rows, &seen[0], width));
                self.stepped.get_or_insert_default().extend(seen);
            }
            if self.is_taped(node) {
                let rows = Some(Rc::from(&rows[..]));
                tape.push(TapeStep { place: here, rows, starts: starts.to_vec(), saved: out.saved });
            }
        }
        let shares: Vec<T> = counts.iter().map(|count| chunk_share(*count)).collect();
        if !sums.is_empty() {
            let shares = self.pool.upload(&shares);
            for sum in &sums {
                self.pool.each("multiply_by", sum.len(), &[sum.arg(), shares.arg(), whole(sum.len())]);
            }
        }
        let done = std::iter::once(root).chain(sums).map(Val::Real).collect();
        self.finish(node, body, done, tape);
        Ok(())
    }

    /// Rows that are done leave: their vectors go to `root`, and the nodes of the others close up.
    fn settle(&self, at: &mut Levels, nodes: Array, root: &Array, width: usize) -> Array {
        if !at.left.iter().any(|left| at.done(*left)) {
            return nodes;
        }
        let (mut to_root, mut rest, mut from) = (Pieces::default(), vec![], 0);
        for (row, left) in at.going.iter().zip(&at.left) {
            match at.done(*left) {
                true => to_root.push(from, *row, *left),
                false => rest.push((from, *left)),
            }
            from += left;
        }
        to_root.copy::<T>(&nodes, root, width, &self.pool);
        let rest = Pieces::packed(rest).gathered::<T>(&nodes, width, &self.pool);
        at.leave();
        rest
    }

    /// The backward run of a `fold`, level by level from the last to the first.
    pub(super) fn unfold(&mut self, step: &Step, node: &Node, place: &Place) -> Result<(), Fault> {
        let body = node.body.expect("the verifier gives every loop a body");
        let (plan, env) = (self.plan.clone(), &place.env);
        let carried = int(node, "carried").unwrap_or(0);
        let mut tape = self.taped(step, node.operands[0]);
        let (root, means) = node.operands[1..].split_at(carried);
        let width = root.first().map_or(0, |v| env.bounds(self.ty(*v)).inner);
        let root: Option<Array> = root.first().map(|v| self.real(*v));
        let means: Vec<Array> = means.iter().map(|v| self.real(*v)).collect();
        let everyone: Vec<usize> = (0..env.rows()).collect();
        let mut counts = vec![0_usize; env.rows()];
        for step in &tape {
            step.rows.as_deref().unwrap_or(&everyone).iter().for_each(|row| counts[*row] += 1);
        }
        let results = &node.results[carried..];
        let zeroed = |of: &Value| self.pool.zeros::<T>(env.extent(plan.graph.ty(*of)));
        let sums: Vec<Array> = results.iter().map(zeroed).collect();
        let mut above: (Vec<usize>, Option<Array>) = (vec![], None);
        while let Some(TapeStep { place: here, rows, saved, .. }) = tape.pop() {
            let rows = rows.as_deref().unwrap_or(&everyone).to_vec();
            let full = self.cut_captures(&plan, body, place, &rows);
            let mut params: Vec<Val> =
                root.iter().map(|root| Val::Real(self.below(&above, root, &rows, width))).collect();
            if !means.is_empty() {
                let index: Vec<u32> = rows.iter().map(|row| *row as u32).collect();
                let shares: Vec<T> = rows.iter().map(|row| chunk_share(counts[*row])).collect();
                let (index, shares) = (self.pool.upload(&index), self.pool.upload(&shares));
                for mean in &means {
                    let y = self.pool.take::<T>(rows.len());
                    let args = [mean.arg(), index.arg(), shares.arg(), y.arg(), whole(y.len())];
                    self.pool.each("share", y.len(), &args);
                    params.push(Val::Real(y));
                }
            }
            params.extend(saved);
            let mut yields = self.body(&plan, body, params, &here)?.yields;
            self.put_back(full);
            let part = Part { rows: &rows, starts: &[], all: false };
            for (n, val) in yields.drain(carried..).enumerate() {
                self.add_rows(&sums[n], &val, results[n], place, part);
            }
            if let Some(Val::Real(nodes)) = yields.pop() {
                above = (rows, Some(nodes));
            }
        }
        if let (Some(root), [first, ..]) = (&root, &node.results[..]) {
            let axis = env.axis(word(node, "over")).clone();
            let rows: Vec<usize> = (0..env.rows()).flat_map(|row| std::iter::repeat_n(row, axis.len(row))).collect();
            let below = self.below(&above, root, &rows, width);
            self.set(*first, Val::Real(below));
        }
        for (result, sum) in results.iter().zip(sums) {
            self.set(*result, Val::Real(sum));
        }
        Ok(())
    }

    /// The cotangents of the vectors of the level below the nodes of `above`, `width` numbers each; `rows` names the row of
    /// every vector. Those of rows that went on are nodes of that level, those of the others are their results.
    fn below(&self, above: &(Vec<usize>, Option<Array>), root: &Array, rows: &[usize], width: usize) -> Array {
        let (went, nodes) = above;
        if let Some(nodes) = nodes
            && nodes.len() == rows.len() * width
        {
            return nodes.clone();
        }
        let out = self.pool.take::<T>(rows.len() * width);
        let (mut of_nodes, mut of_root) = (Pieces::default(), Pieces::default());
        let (mut next, mut from, mut to) = (0, 0, 0);
        for vectors in rows.chunk_by(|a, b| a == b) {
            let (row, len) = (vectors[0], vectors.len());
            if went.get(next) == Some(&row) {
                of_nodes.push(from, to, len);
                from += len;
                next += went[next..].iter().take_while(|r| **r == row).count();
            } else {
                of_root.push(row, to, len);
            }
            to += len;
        }
        if let Some(nodes) = nodes {
            of_nodes.copy::<T>(nodes, &out, width, &self.pool);
        }
        of_root.copy::<T>(root, &out, width, &self.pool);
        out
    }
}
