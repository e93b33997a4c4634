//! The beam search: between its scorer and its cell, which are parts of its region, the kernels of `kernel/beam` choose on the host.
//!
//! All rows, beams and chunks take a step together: the pairs that are new are scored in one run of one part, those that are
//! chosen are joined in one run of the other. Inside a part, a row is a pair. Of the numbers of a step only the scores of new pairs
//! come to the host.

use rtc_compiler::ir::attribute::{self, Role};
use rtc_compiler::ir::graph::{Node, RegionId, Value};
use rtc_compiler::ir::loops::Cut;
use rtc_compiler::ir::ops::{Flag, Op};
use rtc_compiler::ir::schedule::beam::{BeamRules, Count};
use rtc_compiler::ir::types::{FRAMED, LENGTH};
use rtc_compiler::plan::Plan;

use super::tree_recorder::TreeRecorder;
use super::{
    RowMeans, SavedCaptures, arena, body_of, finish, given, is_taped, padded, plan, run_body, run_steps, set_axis,
    tape_of, values,
};
use crate::machine::pieces::{Pieces, RowSubset};
use crate::machine::record::ParseTrees;
use crate::machine::search::{PooledSearch, SearchTrace, TapedSearch};
use crate::machine::value::{Tape, TapeStep, Val};
use crate::machine::{Active, ActiveOf, Machine, Nodes, NumberOf, ValOf};
use crate::rows::{Axis, BatchView, row_of};
use crate::settings::ExecutionFault;
use crate::settings::Inference;
use crate::storage::List;
use rtc_kernel::beam::align::{Align, DrawSource, align};
use rtc_kernel::beam::marginal::weighed;
use rtc_kernel::beam::{Blends, Compose, Noise, Pairs, SearchRules};

/// A search while it runs.
struct SearchRun<'a, M: Machine> {
    node: &'a Node,
    view: &'a BatchView,
    body: RegionId,
    /// Numbers per node.
    width: usize,
    rules: SearchRules,
    lists: PooledSearch,
    /// The table of nodes, and the row of each of them.
    nodes: ValOf<M>,
    rows: List<usize>,
    /// The scores of all pairs.
    scores: List<NumberOf<M>>,
    /// Further numbers that joining gives.
    means: RowMeans<M>,
    captures: SavedCaptures<M>,
    tape: Option<List<TapeStep<M::Arrays>>>,
    /// Which pairs were joined, where that is recorded.
    recorder: Option<TreeRecorder>,
    /// The level, and the step in it: the same for a row whatever other rows there are.
    level: u64,
    turn: u64,
}

/// `part`: its rows are those that the search has set up.
pub(super) fn part<M: Machine>(m: &mut M, node: &Node, here: &ActiveOf<M>) -> Result<(), ExecutionFault> {
    let (plan, arena, body) = (plan(m), arena(m), body_of(node));
    let params = values(m, &node.operands);
    let out = run_body(m, &plan, body, params, here)?;
    let step = TapeStep { here: here.clone(), rows: None, starts: arena.list([]), saved: out.saved };
    let tape = arena.list(is_taped(m, node).then_some(step));
    finish(m, node, out.yields, tape_of::<M>(body, tape));
    Ok(())
}

/// `beam`: every row is searched until one node is left; the result is the mean of the roots of its beams.
pub(super) fn beam<M: Machine>(m: &mut M, node: &Node, entered: &ActiveOf<M>) -> Result<(), ExecutionFault> {
    let view = entered.view();
    let flat = m.common().inference == Inference::Flat && node.get(attribute::FLAT);
    let cut = Cut::of(node).filter(|_| !flat);
    let over = node.get(attribute::OVER);
    let whole = view.axis(over).clone();
    let mut longest = (0..view.rows()).map(|row| whole.len(row)).fold(padded(view, over), usize::max);
    let mut run = SearchRun::new(m, node, view, cut);
    let level_cut = cut.unwrap_or(Cut::whole());
    run.lists.cut(level_cut, longest, &whole.offsets);
    let lists = &mut *run.lists;
    lists.search.leaves(run.rules, &lists.chunks);
    for level in 0.. {
        run.level(m, level)?;
        if run.lists.is_last() {
            break;
        }
        run.align(m, level);
        longest = longest.div_ceil(level_cut.width(longest));
        run.lists.rise(level_cut, longest);
    }
    run.end(m);
    Ok(())
}

impl<'a, M: Machine> SearchRun<'a, M> {
    fn new(m: &mut M, node: &'a Node, view: &'a BatchView, cut: Option<Cut>) -> Self {
        let (plan, arena, body) = (plan(m), arena(m), body_of(node));
        let over = node.get(attribute::OVER);
        let whole = view.axis(over).clone();
        let width = view.bounds(plan.graph.ty(node.operands[0])).inner;
        let expected = |count: Count| expected(node, cut, &whole, count);
        let (mut scores, made) = (arena.list([]), expected(Count::Made));
        scores.reserve_exact(expected(Count::Scored));
        let mut rows = arena.list((0..view.rows()).flat_map(|row| std::iter::repeat_n(row, whole.len(row))));
        rows.reserve_exact(made);
        // The leaves of a tree that is recorded are positions of whole rows, and not nodes of a fold around the search.
        let watched = m.records().trees.is_some() && [LENGTH, FRAMED].contains(&over);
        Self {
            node,
            view,
            body,
            width,
            rules: rules(node, &plan, body, cut),
            lists: m.common().searches.acquire(),
            nodes: m.table(&m.value(node.operands[0]), made * width),
            rows,
            scores,
            means: RowMeans::new(m, given(&plan, &node.results[1..]).len(), view.rows()),
            captures: SavedCaptures::new(body, view),
            tape: is_taped(m, node).then(|| arena.list([])),
            recorder: watched.then(|| TreeRecorder::new(whole.total())),
            level: 0,
            turn: 0,
        }
    }

    /// Merges until every chunk of the level is one node.
    fn level(&mut self, m: &mut M, level: u64) -> Result<(), ExecutionFault> {
        self.lists.set_keys(self.node, self.view, level);
        (self.level, self.turn) = (level, 0);
        if self.tape.is_some() {
            let lists = &mut *self.lists;
            lists.search.record_start(&mut lists.record);
        }
        loop {
            self.score(m)?;
            if !self.lists.search.is_busy() {
                return Ok(());
            }
            let lists = &mut *self.lists;
            let chance = m.common().noise;
            let given = |site| chance.map_or(0.0, |chance| chance.noise(level, site));
            let noise = match (self.node.get(attribute::NOISE), chance) {
                (attribute::Noise::Gumbel, None) => Noise::Gumbel(&lists.keys),
                (attribute::Noise::Gumbel, Some(_)) => Noise::Given(&given),
                (attribute::Noise::None, _) => Noise::None,
            };
            let record = self.tape.is_some().then_some(&mut lists.record);
            lists.search.step(&self.scores, noise, record);
            m.records().count_steps(1);
            self.turn += 1;
            self.blend(m);
            let (merges, arena) = (self.lists.search.merges(), self.view.arena());
            let (left, right) = (arena.copy(merges.left), arena.copy(merges.right));
            self.join(m, &left, &right)?;
        }
    }

    /// Appends nodes to the table, of which these are the rows.
    fn append(&mut self, m: &M, nodes: &ValOf<M>, rows: &[usize]) {
        m.append(&mut self.nodes, self.rows.len() * self.width, nodes);
        self.rows.extend_from_slice(rows);
    }

    /// Appends the means of a softened beam to the nodes.
    fn blend(&mut self, m: &M) {
        let blends = self.lists.search.blends();
        if blends.is_empty() {
            return;
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.mixed(blends);
        }
        let mixed = m.blend(blends, &self.nodes, self.width);
        let row = |k| blends.of(k).first().map_or(0, |term| self.rows[term.node as usize]);
        let rows = self.view.arena().list((0..blends.len()).map(row));
        self.append(m, &mixed, &rows);
    }

    /// Scores the pairs that are new.
    fn score(&mut self, m: &mut M) -> Result<(), ExecutionFault> {
        let (fresh, arena) = (self.lists.search.fresh(), self.view.arena());
        if fresh.left.is_empty() {
            return Ok(());
        }
        let (left, right) = (arena.copy(fresh.left), arena.copy(fresh.right));
        let scored = match self.rules.compose {
            Compose::Chosen => m.nodes(&self.nodes, Nodes::Pairs(&left, &right), self.width),
            Compose::Every => {
                let parents = self.rows.len();
                self.join(m, &left, &right)?;
                let made = Pieces::new([(parents, self.rows.len() - parents)], arena);
                m.gather(&self.nodes, &made, self.width)
            }
        };
        let rows = arena.list(left.iter().map(|node| self.rows[*node as usize]));
        let out = self.run_part(m, Role::Score, 1, scored, rows)?;
        if let Some(scores) = out.last() {
            self.scores.extend_from_slice(&m.numbers(scores));
        }
        Ok(())
    }

    /// Joins pairs and appends what they become to the nodes.
    fn join(&mut self, m: &mut M, left: &[u32], right: &[u32]) -> Result<(), ExecutionFault> {
        if left.is_empty() {
            return Ok(());
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.joined(Pairs { left, right });
        }
        let arena = self.view.arena();
        let rows = arena.list(left.iter().map(|node| self.rows[*node as usize]));
        let pairs = m.nodes(&self.nodes, Nodes::Pairs(left, right), self.width);
        let mut out = self.run_part(m, Role::Join, 0, pairs, arena.copy(&rows))?.into_iter();
        if let Some(parents) = out.next() {
            self.append(m, &parents, &rows);
        }
        self.means.add(m, &rows, out);
        Ok(())
    }

    /// Runs a part on pairs of these rows; gives what the region yields of it.
    fn run_part(
        &mut self,
        m: &mut M,
        role: Role,
        param: usize,
        x: ValOf<M>,
        rows: List<usize>,
    ) -> Result<List<ValOf<M>>, ExecutionFault> {
        // Pairs come row by row, so what is added up over those of a row has one order.
        debug_assert!(rows.is_sorted());
        let (plan, arena) = (plan(m), arena(m));
        let own = &plan.regions[self.body.index()];
        let at = own.steps.iter().position(|step| is_part(plan.graph.node(step.node), role));
        let at = at.expect("the verifier asks for both parts");
        let mut here = self.view.split(&rows);
        here.key = self.view.key.stream("search").at(self.level).at(self.turn).at(param as u64);
        set_axis(m, &mut here, self.node.get(attribute::AXIS), Axis::of_lengths(rows.iter().map(|_| 2), &arena));
        let here = here.into();
        self.captures.narrow(m, &plan, &RowSubset::rows(self.view, &rows));
        *m.slot(plan.graph.params(self.body)[param]) = Some(x);
        run_steps(m, &plan, self.body, at..at + 1, &here)?;
        if let Some(tape) = &mut self.tape {
            let step = (self.lists.record.len() - 1) << STEP_BITS;
            let starts = arena.list((0..rows.len()).map(|k| step | k));
            let saved = arena.list(own.saves.iter().map(|value| take_tape(m, &plan, *value)));
            tape.push(TapeStep { here, rows: Some(arena.share(rows)), starts, saved });
        }
        let part = plan.graph.node(own.steps[at].node);
        let yielded = own.yields.iter().filter(|v| part.results.contains(v));
        Ok(arena.list(yielded.filter_map(|v| m.slot(*v).take())))
    }

    /// Picks which beams of the chunks of a finished level stand in which slots of the next one.
    fn align(&mut self, m: &M, level: u64) {
        let (rule, chance) = (alignment(self.node), m.common().noise);
        let lists = &mut *self.lists;
        lists.set_keys(self.node, self.view, level);
        lists.keys.iter_mut().for_each(|key| *key = key.stream("align"));
        let mut slots = std::mem::take(lists.slots());
        let given = |chunk: usize, slot: usize| chance.map_or(0, |chance| chance.beam(level, chunk, slot));
        let draws = if chance.is_some() { DrawSource::Given(&given) } else { DrawSource::Keys(&lists.keys) };
        align(&lists.search, rule, &lists.rows, draws, &mut slots);
        *lists.slots() = slots;
    }

    /// The means of the roots, and the tape.
    fn end(mut self, m: &mut M) {
        self.captures.restore(m);
        let (arena, search) = (self.view.arena(), &self.lists.search);
        let (mut roots, mut offsets) = (arena.list([]), arena.list([0]));
        for row in 0..self.view.rows() {
            roots.extend(weighed(search, row));
            offsets.push(roots.len());
        }
        let root = m.blend(Blends::new(&offsets, &roots), &self.nodes, self.width);
        let leaves = arena.copy(&self.view.axis(self.node.get(attribute::OVER)).offsets);
        if let Some(recorder) = &self.recorder {
            let of_row = |row: usize| {
                let weights: Vec<f64> = roots[offsets[row]..offsets[row + 1]].iter().map(|root| root.share).collect();
                let of_row = recorder.of_row(self.node, (row, leaves[row]..leaves[row + 1]), search, &weights);
                ParseTrees { row: row_of(self.view.ids[row]) as usize, ..of_row }
            };
            m.records().trees.iter_mut().for_each(|list| list.extend((0..self.view.rows()).map(of_row)));
        }
        let done = std::iter::once(root).chain(self.means.done(m));
        let Self { node, body, width, lists, nodes, rows, scores, tape, .. } = self;
        let trace = SearchTrace { lists, nodes, count: rows.len(), width, leaves, scores, roots, offsets };
        let search = Some(TapedSearch { trace: arena.share(trace), rows: None });
        let steps = tape.unwrap_or_else(|| arena.list([]));
        finish(m, node, done, Tape { steps, body, search });
    }
}

/// The tape of a part; an empty one for the part that has not run.
fn take_tape<M: Machine>(m: &mut M, plan: &Plan, value: Value) -> ValOf<M> {
    m.slot(value).take().unwrap_or_else(|| {
        let body = plan.graph.producer(value).and_then(|part| plan.graph.node(part).body);
        let body = body.expect("the body of a search saves the tapes of its parts");
        let arena = m.common().arena;
        Val::Tape(arena.share(tape_of::<M>(body, arena.list([]))))
    })
}

/// Where the step of the record begins in what the tape says of a pair.
pub(super) const STEP_BITS: u32 = 32;

fn is_part(node: &Node, role: Role) -> bool {
    node.op == Op::Part && node.find(attribute::ROLE) == Some(role)
}

/// How a search goes: over the chunks of a fold around it, where it has one.
fn rules(node: &Node, plan: &Plan, body: RegionId, cut: Option<Cut>) -> SearchRules {
    SearchRules {
        width: node.get(attribute::BEAMS),
        compose: node.get(attribute::COMPOSE),
        overflow: node.get(attribute::OVERFLOW),
        share: !is_random(plan, body),
        chunk: cut.map_or(0, |cut| cut.arity),
    }
}

/// How many nodes or pairs a search over these rows makes at most, if each pair is joined once.
fn expected(node: &Node, cut: Option<Cut>, whole: &Axis, count: Count) -> usize {
    let beams = BeamRules { cut: cut.unwrap_or(Cut::whole()), ..BeamRules::of(node).expect("a search has beams") };
    (0..whole.origin.len()).map(|row| beams.count(whole.len(row), count)).sum::<f64>().ceil() as usize
}

/// Which beams stand in which slots of the next level.
fn alignment(node: &Node) -> Align {
    let keep_best = node.get(attribute::KEEP_BEST);
    match node.get(attribute::ALIGN) {
        attribute::Align::Sampled => Align::Sampled { keep_best },
        attribute::Align::Uniform => Align::Uniform { keep_best },
        attribute::Align::String => Align::String,
    }
}

/// Whether equal pairs can become different nodes.
fn is_random(plan: &Plan, region: RegionId) -> bool {
    plan.regions[region.index()].steps.iter().any(|step| {
        let node = plan.graph.node(step.node);
        let rate = [attribute::P, attribute::DROPOUT].into_iter().any(|key| node.find(key).is_some_and(|p| p > 0.0));
        (node.op.has(Flag::Random) && rate) || node.body.is_some_and(|body| is_random(plan, body))
    })
}
