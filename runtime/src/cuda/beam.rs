//! The beam search on a device: the host chooses, as on the CPU, from the scores of new pairs, which are the one thing that it copies
//! in a step; nodes stay on the device.

use std::rc::Rc;

use rtc_compiler::ir::graph::{Node, RegionId, Value};
use rtc_compiler::ir::loops::Cut;
use rtc_compiler::ir::search::Count;
use rtc_compiler::ir::types::Type;
use rtc_compiler::plan::Plan;

use super::exec::Executor;
use super::memory::{Array, Pool, int, whole};
use super::nodes::{Mix, Nodes, interleaved};
use super::place::Place;
use super::value::{Ids, Tape, TapeStep, Val};
use crate::exec::loops::beam::{STEP_BITS, alignment, expected, is_part, padded, rules};
use crate::exec::loops::grown::Growth;
use crate::exec::loops::search::Lent;
use crate::exec::loops::word;
use crate::exec::rows::Axis;
use crate::exec::storage::Element;
use crate::exec::{Fault, Inference, axis_name};
use crate::kernel::beam::align::{Draws, align};
use crate::kernel::beam::marginal::softmax;
use crate::kernel::beam::{Compose, Noise, Pairs, Rules};

/// How a search went, for its backward run: its lists, and the numbers that its choices hang on.
#[derive(Debug)]
pub(super) struct Trace<T: Element> {
    pub(super) lists: Lent,
    pub(super) nodes: Nodes,
    /// Where the leaves of each row begin, and the end.
    pub(super) leaves: Vec<usize>,
    /// The scores of all pairs.
    pub(super) scores: Vec<T>,
    /// The roots of all rows with their weights, and where rows begin.
    pub(super) roots: Mix,
    pub(super) weights: Vec<f64>,
    pub(super) offsets: Vec<usize>,
}

/// How a search went, as it stands on a tape.
#[derive(Clone, Debug)]
pub(super) struct Traced {
    /// A [`Trace`]: values on a device do not say of which type their numbers are.
    pub(super) trace: Rc<dyn std::any::Any>,
    /// The rows of the search that are left, where some have been left out.
    pub(super) rows: Option<Rc<[usize]>>,
}

impl Traced {
    /// The same of only some of the rows: the others get no gradient.
    pub(super) fn select(&self, rows: &[usize]) -> Self {
        let kept = rows.iter().map(|n| self.rows.as_ref().map_or(*n, |rows| rows[*n])).collect();
        Self { trace: self.trace.clone(), rows: Some(kept) }
    }
}

/// A search while it runs.
struct Run<'a, T: Element> {
    node: &'a Node,
    place: &'a Place,
    body: RegionId,
    rules: Rules,
    lists: Lent,
    nodes: Nodes,
    /// The row of every node.
    rows: Vec<usize>,
    /// The scores of all pairs.
    scores: Vec<T>,
    /// Further numbers that joining gave, summed over the pairs of a row, and how many these are.
    sums: Vec<Array>,
    counts: Vec<usize>,
    tape: Option<Vec<TapeStep>>,
    growth: Option<Growth>,
    /// The level, and the step in it.
    level: u64,
    turn: u64,
}

impl<T: Element> Executor<T> {
    /// `part`: its rows are those that the search has set up.
    pub(super) fn part(&mut self, node: &Node, place: &Place) -> Result<(), Fault> {
        let body = node.body.expect("the verifier gives every loop a body");
        let plan = self.plan.clone();
        let params = self.values(&node.operands);
        let out = self.body(&plan, body, params, place)?;
        let mut tape = vec![];
        if self.is_taped(node) {
            tape.push(TapeStep { place: place.clone(), rows: None, starts: vec![], saved: out.saved });
        }
        self.finish(node, body, out.yields, tape);
        Ok(())
    }

    /// `beam`: every row is searched until one node is left; the result is the mean of the roots of its beams.
    pub(super) fn beam(&mut self, node: &Node, place: &Place) -> Result<(), Fault> {
        let env = &place.env;
        let flat = self.inference == Inference::Flat && word(node, "flat") == "true";
        let cut = Cut::of(node).filter(|_| !flat);
        let over = word(node, "over");
        let axis = env.axis(over).clone();
        let mut longest = (0..env.rows()).map(|row| axis.len(row)).fold(padded(env, over), usize::max);
        let mut run = self.begin(node, place, cut);
        let level_cut = cut.unwrap_or(Cut::whole());
        run.lists.cut(level_cut, longest, &axis.offsets);
        let lists = &mut *run.lists;
        lists.search.leaves(run.rules, &lists.chunks);
        for level in 0.. {
            self.level(&mut run, level)?;
            if run.lists.is_last() {
                break;
            }
            run.align(level);
            longest = longest.div_ceil(level_cut.width(longest));
            run.lists.rise(level_cut, longest);
        }
        self.end(run);
        Ok(())
    }

    fn begin<'a>(&mut self, node: &'a Node, place: &'a Place, cut: Option<Cut>) -> Run<'a, T> {
        let (plan, env) = (self.plan.clone(), &place.env);
        let body = node.body.expect("the verifier gives every loop a body");
        let axis = env.axis(word(node, "over")).clone();
        let numbers = node.results[1..].iter().filter(|v| *plan.graph.ty(**v) != Type::Tape).count();
        let width = env.bounds(self.ty(node.operands[0])).inner;
        let leaves = self.real(node.operands[0]);
        Run {
            node,
            place,
            body,
            rules: rules(node, &plan, body, cut),
            lists: self.searches.lend(),
            nodes: Nodes::new::<T>(&leaves, width, expected(node, cut, &axis, Count::Made), &self.pool),
            rows: (0..env.rows()).flat_map(|row| std::iter::repeat_n(row, axis.len(row))).collect(),
            scores: Vec::with_capacity(expected(node, cut, &axis, Count::Scored)),
            sums: (0..numbers).map(|_| self.pool.zeros::<T>(env.rows())).collect(),
            counts: vec![0; env.rows()],
            tape: self.is_taped(node).then(Vec::new),
            growth: self.grown.as_ref().and_then(|_| Growth::new(node, *axis.offsets.last().unwrap_or(&0))),
            level: 0,
            turn: 0,
        }
    }

    /// Merges until every chunk of the level is one node.
    fn level(&mut self, run: &mut Run<'_, T>, level: u64) -> Result<(), Fault> {
        run.lists.set_keys(run.node, &run.place.env, level);
        (run.level, run.turn) = (level, 0);
        if run.tape.is_some() {
            let lists = &mut *run.lists;
            lists.search.record_start(&mut lists.record);
        }
        loop {
            self.score(run)?;
            if !run.lists.search.is_busy() {
                return Ok(());
            }
            let lists = &mut *run.lists;
            let noise = if word(run.node, "noise") == "gumbel" { Noise::Gumbel(&lists.keys) } else { Noise::None };
            let record = run.tape.is_some().then_some(&mut lists.record);
            lists.search.step(&run.scores, noise, record);
            run.turn += 1;
            run.blend(&self.pool);
            let merges = run.lists.search.merges();
            let (left, right) = (merges.left.to_vec(), merges.right.to_vec());
            self.join(run, &left, &right)?;
        }
    }

    /// Scores the pairs that are new, and copies the scores to the host.
    fn score(&mut self, run: &mut Run<'_, T>) -> Result<(), Fault> {
        let fresh = run.lists.search.fresh();
        if fresh.left.is_empty() {
            return Ok(());
        }
        let (left, right) = (fresh.left.to_vec(), fresh.right.to_vec());
        let scored = match run.rules.compose {
            Compose::Chosen => run.beside(&left, &right, &self.pool),
            Compose::Every => {
                let parents = run.nodes.count;
                self.join(run, &left, &right)?;
                run.nodes.from::<T>(parents, run.nodes.count - parents)
            }
        };
        let rows = left.iter().map(|node| run.rows[*node as usize]).collect();
        let out = self.run_part(run, "score", 1, scored, rows)?;
        if let Some(Val::Real(scores)) = out.last() {
            run.scores.extend(self.pool.download::<T>(scores));
        }
        Ok(())
    }

    /// Joins pairs and appends what they become to the nodes.
    fn join(&mut self, run: &mut Run<'_, T>, left: &[u32], right: &[u32]) -> Result<(), Fault> {
        if left.is_empty() {
            return Ok(());
        }
        if let Some(growth) = &mut run.growth {
            growth.joined(Pairs { left, right });
        }
        let rows: Vec<usize> = left.iter().map(|node| run.rows[*node as usize]).collect();
        run.rows.extend_from_slice(&rows);
        rows.iter().for_each(|row| run.counts[*row] += 1);
        let x = run.beside(left, right, &self.pool);
        let numbers = Ids::new(rows.iter().map(|row| *row as u32).collect());
        let out = self.run_part(run, "join", 0, x, rows)?;
        let mut out = out.iter();
        if let Some(Val::Real(parents)) = out.next() {
            run.nodes.append::<T>(parents, &self.pool);
        }
        for (number, sum) in out.zip(&run.sums) {
            let Val::Real(number) = number else { continue };
            self.scatter(&numbers, number, sum, 1);
        }
        Ok(())
    }

    /// Adds `dy[ids, width]` to the rows of a table that the ids name, each in the order of the list.
    pub(super) fn scatter(&self, ids: &Rc<Ids>, dy: &Array, table: &Array, width: usize) {
        // Searches differ from step to step, so entries without places would make nothing come again.
        let sorted = ids.sorted(0, &self.pool);
        let lists = [sorted.order.arg(), sorted.ids.arg(), sorted.ends.arg()];
        let args = [&lists[..], &[dy.arg(), table.arg(), int(width)]].concat();
        self.pool.start("embed_grad", [sorted.ids.len() as u32, 1, 1], self.pool.device().threads(), &args);
    }

    /// Runs a part on pairs of these rows; gives what the region yields of it.
    fn run_part(
        &mut self,
        run: &mut Run<'_, T>,
        role: &str,
        param: usize,
        x: Array,
        rows: Vec<usize>,
    ) -> Result<Vec<Val>, Fault> {
        let (plan, env) = (self.plan.clone(), &run.place.env);
        let own = &plan.regions[run.body.index()];
        let at = own.steps.iter().position(|step| is_part(plan.graph.node(step.node), role));
        let at = at.expect("the verifier asks for both parts");
        // Pairs come row by row, so what is added up over those of a row has one order.
        debug_assert!(rows.is_sorted());
        let mut here = env.split(&rows);
        here.key = env.key.stream("search").at(run.level).at(run.turn).at(param as u64);
        let pairs = Axis::of_lengths(rows.iter().map(|_| 2), env.arena());
        here.set_axis(axis_name(&self.axes, word(run.node, "axis")), pairs);
        let here = Place::new(here);
        let full = self.cut_captures(&plan, run.body, run.place, &rows);
        self.set(plan.graph.params(run.body)[param], Val::Real(x));
        self.steps(&plan, run.body, at..at + 1, &here)?;
        self.put_back(full);
        if let Some(tape) = &mut run.tape {
            let step = (run.lists.record.len() - 1) << STEP_BITS;
            let starts = (0..rows.len()).map(|k| step | k).collect();
            let saved = own.saves.iter().map(|value| self.take_tape(&plan, *value)).collect();
            tape.push(TapeStep { place: here, rows: Some(rows.into()), starts, saved });
        }
        let part = plan.graph.node(own.steps[at].node);
        let yielded = own.yields.iter().filter(|v| part.results.contains(v));
        Ok(yielded.filter_map(|v| self.values[v.index()].take()).collect())
    }

    /// The tape of a part; an empty one for the part that has not run.
    fn take_tape(&mut self, plan: &Plan, value: Value) -> Val {
        self.values[value.index()].take().unwrap_or_else(|| {
            let body = plan.graph.producer(value).and_then(|part| plan.graph.node(part).body);
            let body = body.expect("the body of a search saves the tapes of its parts");
            Val::Tape(Rc::new(Tape { steps: vec![], body, search: None }))
        })
    }

    /// The means of the roots, and the tape.
    fn end(&mut self, run: Run<'_, T>) {
        let Run { node, place, body, lists, nodes, scores, sums, counts, tape, growth, .. } = run;
        let env = &place.env;
        let (mut roots, mut weights, mut offsets) = (vec![], vec![], vec![0]);
        for row in 0..env.rows() {
            roots.extend((0..lists.search.live(row)).map(|beam| lists.search.root(row, beam)));
            weights.resize(roots.len(), 0.0);
            softmax(lists.search.scores(row), &mut weights[offsets[row]..]);
            offsets.push(roots.len());
        }
        if let (Some(growth), Some(grown)) = (&growth, &mut self.grown) {
            grown.extend(growth.of_rows(node, env, &lists.search, (&offsets, &weights)));
        }
        let roots = Mix::new::<T>(offsets.windows(2).map(|row| row[1] - row[0]), roots, &weights, &self.pool);
        let root = roots.mixed::<T>(&nodes, &self.pool);
        if !sums.is_empty() {
            let shares: Vec<T> = counts.iter().map(|count| T::from_f64(1.0 / (*count).max(1) as f64)).collect();
            let shares = self.pool.upload(&shares);
            for sum in &sums {
                self.pool.each("multiply_by", sum.len(), &[sum.arg(), shares.arg(), whole(sum.len())]);
            }
        }
        for (result, array) in node.results.iter().zip(std::iter::once(root).chain(sums)) {
            self.set(*result, Val::Real(array));
        }
        if let (Some(steps), Some(last)) = (tape, node.results.last()) {
            let leaves = env.axis(word(node, "over")).offsets.to_vec();
            let trace = Rc::new(Trace { lists, nodes, leaves, scores, roots, weights, offsets });
            let search = Some(Traced { trace, rows: None });
            self.set(*last, Val::Tape(Rc::new(Tape { steps, body, search })));
        }
    }
}

impl<T: Element> Run<'_, T> {
    /// `[pairs, 2, width]`: the two nodes of every pair.
    fn beside(&self, left: &[u32], right: &[u32], pool: &Pool) -> Array {
        self.nodes.gathered::<T>(&interleaved(left, right), pool)
    }

    /// Appends the means of a softened beam to the nodes.
    fn blend(&mut self, pool: &Pool) {
        let blends = self.lists.search.blends();
        if blends.is_empty() {
            return;
        }
        if let Some(growth) = &mut self.growth {
            growth.mixed(blends);
        }
        let mixed = Mix::of_blends::<T>(blends, pool).mixed::<T>(&self.nodes, pool);
        for k in 0..blends.len() {
            let row = blends.of(k).first().map_or(0, |term| self.rows[term.node as usize]);
            self.rows.push(row);
        }
        self.nodes.append::<T>(&mixed, pool);
    }

    /// Picks which beams of the chunks of a finished level stand in which slots of the next one.
    fn align(&mut self, level: u64) {
        let rule = alignment(self.node);
        let lists = &mut *self.lists;
        lists.set_keys(self.node, &self.place.env, level);
        lists.keys.iter_mut().for_each(|key| *key = key.stream("align"));
        let mut slots = std::mem::take(lists.slots());
        align(&lists.search, rule, &lists.rows, Draws::Keys(&lists.keys), &mut slots);
        *lists.slots() = slots;
    }
}
