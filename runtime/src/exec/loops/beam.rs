//! The beam search: between its scorer and its cell, which are parts of its region, the kernels of `kernel/beam` choose.
//!
//! All rows, beams and chunks take a step together: the pairs that are new are scored in one run of one part, those that are
//! chosen are joined in one run of the other. Inside a part, a row is a pair.

use std::rc::Rc;

use rtc_compiler::ir::graph::{Node, RegionId, Value};
use rtc_compiler::ir::loops::Cut;
use rtc_compiler::ir::ops::{Flag, Op};
use rtc_compiler::ir::search::{Beams, Count};
use rtc_compiler::ir::types::{Attr, FRAMED, LENGTH, Type};
use rtc_compiler::plan::Plan;

use super::grown::Growth;
use super::search::{Lent, Trace, Traced};
use super::{int, word};
use crate::exec::rows::{Axis, Env};
use crate::exec::storage::{Buffer, Element, List};
use crate::exec::value::{Tape, TapeStep, Val};
use crate::exec::{Executor, Fault, Inference};
use crate::kernel::beam::align::{Align, Draws, align};
use crate::kernel::beam::marginal::marginalise;
use crate::kernel::beam::nodes::{Part, blend, gather};
use crate::kernel::beam::{Compose, Noise, Overflow, Pairs, Rules};

/// A search while it runs.
struct Run<'a, T: Element> {
    node: &'a Node,
    env: &'a Env,
    body: RegionId,
    axis: Rc<str>,
    /// Numbers per node.
    width: usize,
    rules: Rules,
    lists: Lent,
    /// The table of nodes, and the row of each of them.
    nodes: Buffer<T>,
    rows: List<usize>,
    /// The scores of all pairs.
    scores: Buffer<T>,
    /// Further numbers that joining gave, summed over the pairs of a row, and how many these are.
    sums: List<Buffer<T>>,
    counts: Buffer<usize>,
    tape: Option<List<TapeStep<T>>>,
    /// Who was joined with whom, while somebody watches.
    growth: Option<Growth>,
    /// The level, and the step in it: the same for a row whatever other rows there are.
    level: u64,
    turn: u64,
}

impl<T: Element> Executor<T> {
    /// `part`: its rows are those that the search has set up.
    pub(in crate::exec) fn part(&mut self, node: &Node, env: &Env) -> Result<(), Fault> {
        let body = node.body.expect("the verifier gives every loop a body");
        let (plan, arena) = (self.plan.clone(), self.arena.clone());
        let params = self.values(&node.operands);
        let out = self.body(&plan, body, params, env)?;
        let mut tape = arena.list([]);
        if self.is_taped(node) {
            tape.push(TapeStep { env: env.clone(), rows: None, starts: arena.list([]), saved: out.saved });
        }
        self.finish(node, body, out.yields, tape);
        Ok(())
    }

    /// `beam`: every row is searched until one node is left; the result is the mean of the roots of its beams.
    pub(in crate::exec) fn beam(&mut self, node: &Node, env: &Env) -> Result<(), Fault> {
        let flat = self.inference == Inference::Flat && word(node, "flat") == "true";
        let cut = Cut::of(node).filter(|_| !flat);
        let over = word(node, "over");
        let whole = env.axis(over).clone();
        let mut longest = (0..env.rows()).map(|row| whole.len(row)).fold(padded(env, over), usize::max);
        let mut run = self.begin(node, env, cut);
        let level_cut = cut.unwrap_or(Cut::whole());
        run.lists.cut(level_cut, longest, &whole.offsets);
        let lists = &mut *run.lists;
        lists.search.leaves(run.rules, &lists.chunks);
        for level in 0.. {
            self.level(&mut run, level)?;
            if run.lists.is_last() {
                break;
            }
            self.align(&mut run, level);
            longest = longest.div_ceil(level_cut.width(longest));
            run.lists.rise(level_cut, longest);
        }
        self.end(run);
        Ok(())
    }

    fn begin<'a>(&mut self, node: &'a Node, env: &'a Env, cut: Option<Cut>) -> Run<'a, T> {
        let (plan, arena) = (self.plan.clone(), self.arena.clone());
        let body = node.body.expect("the verifier gives every loop a body");
        let whole = env.axis(word(node, "over")).clone();
        let numbers = node.results[1..].iter().filter(|v| *plan.graph.ty(**v) != Type::Tape).count();
        let rules = rules(node, &plan, body, cut);
        let (mut nodes, mut scores) = (arena.list([]), arena.list([]));
        if let Val::Real(leaves) = self.value(node.operands[0]) {
            let more = |count: Count| expected(node, cut, &whole, count);
            let width = leaves.len() / whole.total().max(1);
            nodes.reserve_exact(leaves.len() + more(Count::Made) * width);
            nodes.extend_from_slice(&leaves);
            scores.reserve_exact(more(Count::Scored));
        }
        Run {
            node,
            env,
            body,
            axis: self.axis_name(word(node, "axis")),
            width: env.bounds(self.ty(node.operands[0])).inner,
            rules,
            lists: self.searches.lend(),
            nodes,
            rows: arena.list((0..env.rows()).flat_map(|row| std::iter::repeat_n(row, whole.len(row)))),
            scores,
            sums: arena.list((0..numbers).map(|_| arena.filled(env.rows(), T::ZERO))),
            counts: arena.filled(env.rows(), 0),
            tape: self.is_taped(node).then(|| arena.list([])),
            growth: self.grown.as_ref().and_then(|_| Growth::new(node, *whole.offsets.last().unwrap_or(&0))),
            level: 0,
            turn: 0,
        }
    }

    /// Merges until every chunk of the level is one node.
    fn level(&mut self, run: &mut Run<'_, T>, level: u64) -> Result<(), Fault> {
        run.lists.set_keys(run.node, run.env, level);
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
            let chance = self.chance.as_deref();
            let given = |site| chance.map_or(0.0, |chance| chance.noise(level, site));
            let noise = match (word(run.node, "noise"), chance) {
                ("gumbel", None) => Noise::Gumbel(&lists.keys),
                ("gumbel", _) => Noise::Given(&given),
                _ => Noise::None,
            };
            let record = run.tape.is_some().then_some(&mut lists.record);
            lists.search.step(&run.scores, noise, record);
            if let Some(counted) = &mut self.counted {
                counted.steps += 1;
            }
            run.turn += 1;
            self.blend(run);
            let merges = run.lists.search.merges();
            let (left, right) = (self.arena.copy(merges.left), self.arena.copy(merges.right));
            self.join(run, &left, &right)?;
        }
    }

    /// Appends the means of a softened beam to the nodes.
    fn blend(&self, run: &mut Run<'_, T>) {
        let blends = run.lists.search.blends();
        if let Some(growth) = &mut run.growth {
            growth.mixed(blends);
        }
        let mut mixed = self.arena.take(blends.len() * run.width);
        blend(blends, &run.nodes, run.width, &mut mixed);
        for k in 0..blends.len() {
            let row = blends.of(k).first().map_or(0, |term| run.rows[term.node as usize]);
            run.rows.push(row);
        }
        run.nodes.extend_from_slice(&mixed);
    }

    /// Scores the pairs that are new.
    fn score(&mut self, run: &mut Run<'_, T>) -> Result<(), Fault> {
        let fresh = run.lists.search.fresh();
        if fresh.left.is_empty() {
            return Ok(());
        }
        let (left, right) = (self.arena.copy(fresh.left), self.arena.copy(fresh.right));
        let scored = match run.rules.compose {
            Compose::Chosen => run.beside(&left, &right),
            Compose::Every => {
                let parents = run.nodes.len();
                self.join(run, &left, &right)?;
                self.arena.copy(&run.nodes[parents..])
            }
        };
        let rows = self.arena.list(left.iter().map(|node| run.rows[*node as usize]));
        let out = self.run_part(run, "score", 1, scored, rows)?;
        if let Some(Val::Real(scores)) = out.last() {
            run.scores.extend_from_slice(scores);
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
        let rows = self.arena.list(left.iter().map(|node| run.rows[*node as usize]));
        run.rows.extend_from_slice(&rows);
        rows.iter().for_each(|row| run.counts[*row] += 1);
        let numbers = self.arena.copy(&rows);
        let out = self.run_part(run, "join", 0, run.beside(left, right), rows)?;
        let mut out = out.iter();
        if let Some(Val::Real(parents)) = out.next() {
            run.nodes.extend_from_slice(parents);
        }
        for (number, sum) in out.zip(&mut run.sums) {
            let Val::Real(number) = number else { continue };
            numbers.iter().zip(&**number).for_each(|(row, x)| sum[*row] += *x);
        }
        Ok(())
    }

    /// Runs a part on pairs of these rows; gives what the region yields of it.
    fn run_part(
        &mut self,
        run: &mut Run<'_, T>,
        role: &str,
        param: usize,
        x: Buffer<T>,
        rows: List<usize>,
    ) -> Result<List<Val<T>>, Fault> {
        let (plan, arena) = (self.plan.clone(), self.arena.clone());
        let own = &plan.regions[run.body.index()];
        let at = own.steps.iter().position(|step| is_part(plan.graph.node(step.node), role));
        let at = at.expect("the verifier asks for both parts");
        let mut here = run.env.split(&rows);
        here.key = run.env.key.stream("search").at(run.level).at(run.turn).at(param as u64);
        here.set_axis(run.axis.clone(), Axis::of_lengths(rows.iter().map(|_| 2), &arena));
        let full = self.cut_captures(&plan, run.body, run.env, &rows);
        self.memory.set(plan.graph.params(run.body)[param], Val::real(x));
        self.steps(&plan, own, at..at + 1, &here)?;
        self.put_back(full);
        if let Some(tape) = &mut run.tape {
            let step = (run.lists.record.len() - 1) << STEP_BITS;
            let starts = arena.list((0..rows.len()).map(|k| step | k));
            let saved = arena.list(own.saves.iter().map(|value| self.take_tape(&plan, *value)));
            tape.push(TapeStep { env: here, rows: Some(arena.share(rows)), starts, saved });
        }
        let part = plan.graph.node(own.steps[at].node);
        let yielded = own.yields.iter().filter(|v| part.results.contains(v));
        Ok(arena.list(yielded.filter_map(|v| self.memory.values[v.index()].take())))
    }

    /// The tape of a part; an empty one for the part that has not run.
    fn take_tape(&mut self, plan: &Plan, value: Value) -> Val<T> {
        self.memory.values[value.index()].take().unwrap_or_else(|| {
            let body = plan.graph.producer(value).and_then(|part| plan.graph.node(part).body);
            let body = body.expect("the body of a search saves the tapes of its parts");
            Val::Tape(self.arena.share(Tape { steps: self.arena.list([]), body, search: None }))
        })
    }

    /// Picks which beams of the chunks of a finished level stand in which slots of the next one.
    fn align(&self, run: &mut Run<'_, T>, level: u64) {
        let rule = alignment(run.node);
        let lists = &mut *run.lists;
        lists.set_keys(run.node, run.env, level);
        lists.keys.iter_mut().for_each(|key| *key = key.stream("align"));
        let mut slots = std::mem::take(lists.slots());
        let chance = self.chance.as_deref();
        let given = |chunk: usize, slot: usize| chance.map_or(0, |chance| chance.beam(level, chunk, slot));
        let draws = if chance.is_some() { Draws::Given(&given) } else { Draws::Keys(&lists.keys) };
        align(&lists.search, rule, &lists.rows, draws, &mut slots);
        *lists.slots() = slots;
    }

    /// The means of the roots, and the tape.
    fn end(&mut self, run: Run<'_, T>) {
        let arena = self.arena.clone();
        let Run { node, env, body, width, lists, nodes, scores, mut sums, counts, tape, growth, .. } = run;
        let new = || arena.list([]);
        let (mut roots, mut root_scores, mut offsets) = (new(), arena.list([]), arena.list([0]));
        for row in 0..env.rows() {
            roots.extend((0..lists.search.live(row)).map(|beam| lists.search.root(row, beam)));
            root_scores.extend_from_slice(lists.search.scores(row));
            offsets.push(roots.len());
        }
        let weights = arena.filled(roots.len(), 0.0);
        let leaves = arena.copy(&env.axis(word(node, "over")).offsets);
        let mut trace = Trace { lists, nodes, leaves, scores, roots, root_scores, offsets, weights };
        let mut out = arena.take(env.rows() * width);
        let mut weights = std::mem::replace(&mut trace.weights, arena.list([]));
        marginalise(trace.roots(), &trace.nodes, width, &mut weights, &mut out);
        trace.weights = weights;
        if let (Some(growth), Some(grown)) = (&growth, &mut self.grown) {
            grown.extend(growth.of_rows(node, env, &trace.lists.search, (&trace.offsets, &trace.weights)));
        }
        for sum in &mut sums {
            let mean = |(sum, count): (&mut T, &usize)| *sum *= T::from_f64(1.0 / (*count).max(1) as f64);
            sum.iter_mut().zip(&*counts).for_each(mean);
        }
        let done = std::iter::once(out).chain(sums);
        for (result, buffer) in node.results.iter().zip(done) {
            self.memory.set_real(*result, buffer);
        }
        if let (Some(steps), Some(last)) = (tape, node.results.last()) {
            let search = Some(Traced { trace: arena.share(trace), rows: None });
            self.memory.set(*last, Val::Tape(arena.share(Tape { steps, body, search })));
        }
    }
}

impl<T: Element> Run<'_, T> {
    /// `[pairs, 2, width]`: the two nodes of every pair.
    fn beside(&self, left: &[u32], right: &[u32]) -> Buffer<T> {
        let mut out = self.nodes.allocator().take(2 * left.len() * self.width);
        gather(&self.nodes, self.width, left, Part::beside(self.width, false), &mut out);
        gather(&self.nodes, self.width, right, Part::beside(self.width, true), &mut out);
        out
    }
}

/// Where the step of the record begins in what the tape says of a pair.
pub(crate) const STEP_BITS: u32 = 32;

/// The width of the padded batch, for an axis that is that of whole rows.
pub(crate) fn padded(env: &Env, over: &str) -> usize {
    match over {
        LENGTH => env.width,
        FRAMED => env.width + 2,
        _ => 0,
    }
}

pub(crate) fn is_part(node: &Node, role: &str) -> bool {
    node.op == Op::Part && node.attrs.get("role").and_then(Attr::text) == Some(role)
}

/// How a search goes: over the chunks of a fold around it, where it has one.
pub(crate) fn rules(node: &Node, plan: &Plan, body: RegionId, cut: Option<Cut>) -> Rules {
    Rules {
        width: int(node, "beams").unwrap_or(1),
        compose: if word(node, "compose") == "every" { Compose::Every } else { Compose::Chosen },
        overflow: if word(node, "overflow") == "soften" { Overflow::Soften } else { Overflow::Prune },
        share: !is_random(plan, body),
        chunk: cut.map_or(0, |cut| cut.arity),
    }
}

/// How many nodes or pairs a search over these rows makes at most, if each pair is joined once.
pub(crate) fn expected(node: &Node, cut: Option<Cut>, whole: &Axis, count: Count) -> usize {
    let beams = Beams { cut: cut.unwrap_or(Cut::whole()), ..Beams::of(node).expect("a search has beams") };
    (0..whole.origin.len()).map(|row| beams.count(whole.len(row), count)).sum::<f64>().ceil() as usize
}

/// Which beams stand in which slots of the next level.
pub(crate) fn alignment(node: &Node) -> Align {
    let keep_best = word(node, "keep_best") == "true";
    match word(node, "align") {
        "string" => Align::String,
        "uniform" => Align::Uniform { keep_best },
        _ => Align::Sampled { keep_best },
    }
}

/// Whether equal pairs can become different nodes.
fn is_random(plan: &Plan, region: RegionId) -> bool {
    plan.regions[region.index()].steps.iter().any(|step| {
        let node = plan.graph.node(step.node);
        let rate =
            ["p", "dropout"].iter().any(|name| node.attrs.get(name).and_then(Attr::float).is_some_and(|p| p > 0.0));
        (node.op.has(Flag::Random) && rate) || node.body.is_some_and(|body| is_random(plan, body))
    })
}
