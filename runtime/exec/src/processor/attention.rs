//! Attention: the mask and the bias of a node become what the kernel takes.
//!
//! Where mask and bias see positions only through their distance, they are evaluated once per distance. Else the bias is evaluated
//! for every pair of a query and a key.

use rtc_compiler::ir::attribute::{self, Mask};
use std::ops::Range;

use rtc_compiler::expr::{Env, Expr, KeyReach, LARGEST_BIAS, ReadFrom, ScalarValue, Var, eval, reach};
use rtc_compiler::ir::graph::Value;
use rtc_compiler::ir::places::PairPlaces;
use rtc_compiler::ir::types::{Dim, Elem};

use crate::mask::{Bias, Exprs, MaskRule};
use crate::node_context::NodeContext;
use crate::pair_join::{JoinedKeys, KeyOrder, PairJoin, RowStarts};
use crate::pair_program::{KEYS, PairNumbers, PairProgram, RowPlaces, place};
use crate::processor::Executor;
use crate::processor::ValueMemory;
use crate::processor::history::{self, SlotHistory};
use crate::rows::Axis;
use crate::settings::ExecutionFault;
use crate::storage::{Buffer, Element, List, Shared};
use rtc_kernel::Real;
use rtc_kernel::attention::{
    Attention, KeyRuns, MaskKind, MaskRow, Offsets, ProbabilityDropout, ScoreBias, Scores, SeparateGradients,
    attention_grad_with, attention_with, steps,
    talking::{self, Talking},
};
use rtc_kernel::parallel::fill;

/// A bias, or a score, at a step of the recurrence, with the numbers of its tables.
pub(super) struct ScoredBias<'e, T> {
    bias: &'e Bias,
    step: i64,
    tables: &'e [&'e [T]],
    values: &'e ValuesRead<'e, T>,
    /// By what the queries are multiplied first, where the score is a multiple of what it was.
    factor: Option<QueryFactor<'e, T>>,
}

/// By what queries are multiplied.
#[derive(Clone, Copy)]
struct QueryFactor<'e, T> {
    scored: &'e ScoredBias<'e, T>,
    /// The numbers, `[queries, heads]`.
    numbers: &'e [T],
}

/// The values that mask, bias and `stop` of an attention read at the positions of queries and keys.
pub(super) struct ValuesRead<'e, T> {
    values: &'e [ValueRead<'e, T>],
    /// Where the rows of queries, and of keys, begin.
    offsets: [&'e [usize]; 2],
    /// Where queries and keys stand in their rows.
    places: PlacesInRows<'e>,
}

/// Where queries and keys stand in their rows.
#[derive(Clone, Copy)]
enum PlacesInRows<'e> {
    /// Where they lie.
    Own,
    /// Queries, and keys, may be positions that were chosen: the places of all rows, and the positions of each row.
    Chosen([Option<(&'e [usize], &'e [usize])>; 2]),
    /// Every position has so many keys.
    Slots(usize),
}

impl<'e> PlacesInRows<'e> {
    fn chosen(axes: [&'e Axis; 2]) -> Self {
        Self::Chosen(
            axes.map(|axis| axis.chosen.as_ref().map(|chosen| (chosen.places.as_slice(), chosen.lengths.as_slice()))),
        )
    }
}

/// A value of the positions.
struct ValueRead<'e, T> {
    numbers: &'e [T],
    channels: usize,
    /// Numbers of its longest row.
    longest: usize,
}

impl<T: Element> ValuesRead<'_, T> {
    /// Where the queries and keys of a row stand.
    fn places(&self, row: usize) -> RowPlaces<'_> {
        let axes = match self.places {
            PlacesInRows::Own => return RowPlaces::Own,
            PlacesInRows::Slots(slots) => return RowPlaces::Slots(slots),
            PlacesInRows::Chosen(axes) => axes,
        };
        let part = |n: usize| self.offsets[n][row]..self.offsets[n][row + 1];
        let own = [0, 1].map(|n| axes[n].map(|(places, _)| &places[part(n)]));
        RowPlaces::Chosen(own, axes[0].map_or(part(0).len(), |(_, lengths)| lengths[row]))
    }

    /// Where the gradients of a value begin among those of all.
    fn start(&self, value: usize) -> usize {
        self.values[..value].iter().map(|value| value.longest).sum()
    }

    /// Gradients of all values of a row.
    fn len(&self) -> usize {
        self.start(self.values.len())
    }
}

/// What depends on the distance alone.
#[derive(Clone, Debug)]
pub(super) struct ByDistance<T: Element> {
    /// For which rows.
    span: DistanceSpan,
    /// Distances that are seen, rising.
    list: List<isize>,
    /// From the first to the last: whether it is.
    seen: List<bool>,
    /// Biases of every head and distance; empty without a bias.
    values: Buffer<T>,
}

/// What a run knows before it comes to an attention.
pub(super) struct Known<'k, T: Element> {
    /// What depends on distances, taken from here if it is that of this span, and left here.
    pub(super) distances: &'k mut Option<ByDistance<T>>,
    /// In an incremental run of one row, the numbers of the values that mask and bias read, of all positions so far.
    pub(super) values: Option<&'k [Vec<T>]>,
    /// Where the keys of every row begin, if positions have several.
    pub(super) keys: Option<&'k [usize]>,
}

impl<'k, T: Element> Known<'k, T> {
    /// Nothing is known.
    pub(super) fn nothing(distances: &'k mut Option<ByDistance<T>>) -> Self {
        Self { distances, values: None, keys: None }
    }

    /// Nothing but where the keys of every row begin, if positions have several.
    fn of_slots(distances: &'k mut Option<ByDistance<T>>, history: Option<&'k SlotHistory<T>>) -> Self {
        Self { distances, values: None, keys: history.map(|own| own.offsets.as_slice()) }
    }
}

/// The numbers of queries and keys between which distances occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DistanceSpan {
    pub(super) queries: usize,
    pub(super) keys: usize,
    /// Whether it is worth to know the keys of every query beforehand.
    pub(super) listed: bool,
}

impl DistanceSpan {
    /// That of the longest rows.
    pub(super) fn longest(c: &NodeContext<'_>) -> Self {
        let of = |n: usize| {
            let axis = c.axis(n);
            (0..c.view.rows()).map(|row| axis.len(row)).max().unwrap_or(0)
        };
        Self { queries: of(0), keys: of(1), listed: true }
    }
}

impl<T: Element> ScoredBias<'_, T> {
    /// Where the gradients of a table or a value begin among all of a row.
    fn start(&self, from: ReadFrom) -> usize {
        match from {
            ReadFrom::Table(table) => (0..table).map(|table| self.bias.len(table)).sum(),
            ReadFrom::Value(value) => self.len() + self.values.start(value),
            // Behind all others: no sum is kept of it.
            ReadFrom::Score => self.len() + self.values.len(),
        }
    }

    /// The numbers of a row, and the scores of the keys at hand.
    fn row<'n>(&'n self, row: usize, scores: &'n [f64]) -> RowNumbers<'n, T> {
        RowNumbers { values: self.values, row, bias: Some(self), scores }
    }

    /// Adds the bias of all keys from one on to their scores.
    fn add(&self, at: MaskRow, by: T, scores: &mut [T]) {
        for (first, scores) in (at.first..).step_by(KEYS).zip(scores.chunks_mut(KEYS)) {
            let env = place(MaskRow { first, ..at }, self.step);
            self.numbers(&env, at.row, (&[], scores.len()), |key, number| scores[key] += number * by);
        }
    }

    /// Gives `f` the number of every key from `env.j` on, of which there are so many; minus infinity, which hides the key, where there is
    /// none, and NaN where a number that is read is not finite.
    fn numbers(&self, env: &Env, row: usize, (scores, keys): (&[f64], usize), mut f: impl FnMut(usize, T)) {
        self.bias.program.run(env, keys, &self.row(row, scores), |numbers| {
            for key in 0..keys {
                let number = numbers.at(key);
                f(
                    key,
                    if number.abs() <= LARGEST_BIAS {
                        T::from_f64(number)
                    } else if number.is_nan() && numbers.is_broken(key) {
                        T::NAN
                    } else {
                        T::NEG_INFINITY
                    },
                );
            }
        });
    }

    /// Makes scores of the products of all keys from one on.
    fn rescore(&self, at: MaskRow, scale: T, scores: &mut [T]) {
        for (first, scores) in (at.first..).step_by(KEYS).zip(scores.chunks_mut(KEYS)) {
            let env = place(MaskRow { first, ..at }, self.step);
            let mut before = [0.0; KEYS];
            let before = scaled(scores, scale, &mut before);
            self.numbers(&env, at.row, (before, before.len()), |key, number| scores[key] = number);
        }
    }

    /// Turns the gradients `d` of the scores of all keys from one on into those of their products, and adds those of what is read.
    fn rescored(&self, at: MaskRow, scale: T, products: &[T], d: &mut [T], sums: &mut [T]) {
        for ((first, products), d) in (at.first..).step_by(KEYS).zip(products.chunks(KEYS)).zip(d.chunks_mut(KEYS)) {
            let env = place(MaskRow { first, ..at }, self.step);
            let (mut before, mut of_scores) = ([0.0; KEYS], [0.0; KEYS]);
            let (before, of_scores) = (scaled(products, scale, &mut before), &mut of_scores[..d.len()]);
            let by = |key: usize| d[key].to_f64();
            self.bias.program.add_slopes(&env, (d.len(), &by), &self.row(at.row, before), (sums, of_scores));
            d.iter_mut().zip(&*of_scores).for_each(|(d, slope)| *d = T::from_f64(*slope) * scale);
        }
    }

    /// Adds the gradients `by * d` of all keys from one on to those of what is read.
    fn add_gradients(&self, at: MaskRow, by: T, d: &[T], sums: &mut [T]) {
        for (first, d) in (at.first..).step_by(KEYS).zip(d.chunks(KEYS)) {
            let env = place(MaskRow { first, ..at }, self.step);
            let by = |key: usize| (d[key] * by).to_f64();
            self.bias.program.add_slopes(&env, (d.len(), &by), &self.row(at.row, &[]), (sums, &mut []));
        }
    }

    /// The number of every query and head.
    fn of_queries(&self, axis: &Axis, heads: usize, numbers: &mut [T]) {
        for (number, at) in numbers.iter_mut().zip(each_query(axis, heads)) {
            self.numbers(&place(at, self.step), at.row, (&[], 1), |_, found| *number = found);
        }
    }

    /// The queries of a node times their factors, where these have some.
    pub(super) fn queries(&self, c: &NodeContext<'_>, q: &[T]) -> Option<Buffer<T>> {
        let factor = self.factor?;
        let mut scaled = c.view.arena().copy(q);
        multiply_heads(&mut scaled, factor.numbers);
        Some(scaled)
    }

    /// Makes gradients of queries from those of the queries times their factors, and adds those of the factors to what is read: those of every
    /// row and head to theirs of `partial`.
    fn queries_back(&self, axis: &Axis, heads: usize, q: &[T], dq: &mut [T], partial: &mut [T]) {
        let (Some(factor), true) = (self.factor, !q.is_empty()) else { return };
        let (e, width) = (q.len() / factor.numbers.len(), self.len() + self.values.len());
        for ((q, dq), at) in q.chunks_exact(e).zip(dq.chunks_exact(e)).zip(each_query(axis, heads)) {
            let d = q.iter().zip(dq).fold(T::ZERO, |sum, (q, d)| sum + *q * *d);
            let sums = &mut partial[(at.row * heads + at.head) * width..][..width];
            factor.scored.add_gradients(at, T::ONE, &[d], sums);
        }
        multiply_heads(dq, factor.numbers);
    }

    /// All numbers of the tables.
    fn len(&self) -> usize {
        (0..self.tables.len()).map(|table| self.bias.len(table)).sum()
    }
}

/// Every query of an axis, head by head; their keys are none in particular.
fn each_query(axis: &Axis, heads: usize) -> impl Iterator<Item = MaskRow> {
    axis.offsets.windows(2).enumerate().flat_map(move |(row, ends)| {
        let queries = axis.before + ends[1] - ends[0];
        (axis.before..queries)
            .flat_map(move |query| (0..heads).map(move |head| MaskRow { row, head, query, queries, first: 0 }))
    })
}

/// Multiplies every head of `x` by its number.
fn multiply_heads<T: Element>(x: &mut [T], numbers: &[T]) {
    let e = x.len() / numbers.len().max(1);
    for (x, number) in x.chunks_exact_mut(e.max(1)).zip(numbers) {
        x.iter_mut().for_each(|x| *x *= *number);
    }
}

/// The scaled products, which fit into `scores`.
fn scaled<'s, T: Element>(products: &[T], scale: T, scores: &'s mut [f64]) -> &'s [f64] {
    let scores = &mut scores[..products.len()];
    scores.iter_mut().zip(products).for_each(|(score, product)| *score = (*product * scale).to_f64());
    scores
}

/// About what it costs to look the keys of a query up, in operations.
const LOOKED_UP: usize = 64;

/// What a program reads in one row.
struct RowNumbers<'e, T> {
    values: &'e ValuesRead<'e, T>,
    row: usize,
    /// The bias, whose tables it reads and whose gradients are asked for.
    bias: Option<&'e ScoredBias<'e, T>>,
    scores: &'e [f64],
}

impl<T: Element> PairNumbers<T> for RowNumbers<'_, T> {
    fn table(&self, table: usize) -> &[T] {
        self.bias.map_or(&[], |bias| bias.tables[table])
    }

    fn value(&self, value: usize, of_keys: bool) -> (&[T], usize) {
        let ValueRead { numbers, channels, .. } = self.values.values[value];
        (&numbers[self.values.offsets[usize::from(of_keys)][self.row] * channels..], channels)
    }

    fn start(&self, from: ReadFrom) -> usize {
        self.bias.map_or(0, |bias| bias.start(from))
    }

    fn scores(&self) -> &[f64] {
        self.scores
    }

    fn places(&self) -> RowPlaces<'_> {
        self.values.places(self.row)
    }
}

/// The range that holds the keys of a query, and whether it holds no others.
fn range(expr: &Expr, step: i64, at: MaskRow, places: RowPlaces<'_>) -> (Range<usize>, bool) {
    let KeyReach { keys, exact, .. } = reach(expr, &places.env(at, step), usize::MAX);
    (places.keys(keys), exact)
}

/// A rule of pairs of a query and a key, at a step of the recurrence.
#[derive(Clone, Copy)]
struct PairRule<'e> {
    expr: &'e Expr,
    program: &'e PairProgram,
    /// How the keys of a query are looked up, of each head or of all.
    joins: &'e [Option<PairJoin>],
    step: i64,
}

impl<'e> PairRule<'e> {
    fn of_mask(rule: &'e MaskRule, step: i64) -> Option<Self> {
        Some(Self { expr: rule.expr.as_ref()?, program: rule.programs[0].as_ref()?, joins: &rule.joins, step })
    }

    fn of_stop(rule: &'e MaskRule, step: i64) -> Option<Self> {
        Some(Self { expr: rule.stop.as_ref()?, program: rule.programs[1].as_ref()?, joins: &[], step })
    }

    /// Marks the keys for which it holds.
    fn mark<T: Element>(&self, values: &ValuesRead<'_, T>, at: MaskRow, holds: &mut [bool]) {
        let row = RowNumbers { values, row: at.row, bias: None, scores: &[] };
        for (first, holds) in (at.first..).step_by(KEYS).zip(holds.chunks_mut(KEYS)) {
            self.program.run(&place(MaskRow { first, ..at }, self.step), holds.len(), &row, |truths| {
                holds.iter_mut().enumerate().for_each(|(key, holds)| *holds = truths.at(key) == 1.0);
            });
        }
    }

    /// The same, of a query whose keys may be known.
    fn mark_joined<T: Element>(
        &self,
        values: &ValuesRead<'_, T>,
        joined: Option<JoinedKeys<'_>>,
        at: MaskRow,
        holds: &mut [bool],
    ) {
        match joined.and_then(|joined| joined.of(at)).filter(|found| found.is_all) {
            Some(found) => found.mark(at.first, holds),
            None => self.mark(values, at, holds),
        }
    }

    /// Operations for a key.
    fn cost(&self) -> usize {
        self.program.cost()
    }

    /// The range of keys of a query, of `keys`, and whether it holds no others.
    fn range<T: Element>(
        &self,
        values: &ValuesRead<'_, T>,
        joined: Option<JoinedKeys<'_>>,
        at: MaskRow,
        keys: usize,
    ) -> (Range<usize>, bool) {
        let keys = match range(self.expr, self.step, at, values.places(at.row)) {
            (reach, true) => return (reach, true),
            (reach, false) => reach.start.min(keys)..reach.end.min(keys),
        };
        let keys = match joined.and_then(|joined| joined.of(at)) {
            // Heads would ask one by one, and ask again for what they show.
            None if self.expr.uses(Var::Head) => return (keys, false),
            None => keys,
            Some(found) => match found.span() {
                (span, _) if span.is_empty() => return (keys.start..keys.start, true),
                (span, in_one) if found.is_all => return (span, in_one),
                (span, _) => keys.start.max(span.start)..keys.end.min(span.end),
            },
        };
        let mut found = (keys.end, keys.start, 0);
        let mut flags = [false; KEYS];
        for first in keys.clone().step_by(KEYS) {
            let flags = &mut flags[..KEYS.min(keys.end - first)];
            self.mark(values, MaskRow { first, ..at }, flags);
            for (key, _) in flags.iter().enumerate().filter(|(_, seen)| **seen) {
                found = (found.0.min(first + key), first + key + 1, found.2 + 1);
            }
        }
        let (start, end, count) = found;
        let exact = count == end.saturating_sub(start);
        if count == 0 { (keys.start..keys.start, true) } else { (start..end, exact) }
    }
}

/// The variables at a distance: positions count from the nearer one.
pub fn apart(distance: isize, step: i64, head: usize) -> Env {
    let distance = distance as i64;
    Env { i: distance.max(0), j: (-distance).max(0), step, head: head as i64, ..Env::default() }
}

impl<T: Element> Executor<T> {
    /// `attention`.
    pub(super) fn attention(&mut self, c: &NodeContext<'_>) -> Result<(), ExecutionFault> {
        let mut out = self.fresh(c, 0);
        let (codes, history) = (self.codes(c, DistanceSpan::longest(c)), self.history(c, 3));
        let mut distances = None;
        let known = Known::of_slots(&mut distances, history.as_ref());
        self.with_attention(c, 3, DistanceSpan::longest(c), known, |m, spec, bias, scored| {
            let mut inputs = [0, 1, 2].map(|n| m.real(c.operand(n)));
            let scaled = scored.and_then(|scored| scored.queries(c, inputs[0]));
            inputs[0] = scaled.as_ref().map_or(inputs[0], Buffer::as_slice);
            let (queries, keys) = (c.axis(0), c.axis(1));
            let relative = codes.as_ref().map(|codes| codes.relative(m));
            let scores = Scores { bias: *bias, relative };
            let run = |spec: &Attention<'_>, inputs, keys: &[usize], out: &mut [T]| match talking(c, m) {
                Some(mixed) => talking::attention(spec, &scores, &mixed, inputs, &queries.offsets, keys, out),
                None => attention_with(spec, &scores, inputs, &queries.offsets, keys, out),
            };
            match &history {
                Some(own) => self.by_position(c, spec, own, |spec| {
                    run(spec, [inputs[0], own.keys.as_slice(), own.values.as_slice()], &own.offsets, &mut out);
                }),
                None => run(spec, inputs, &keys.offsets, &mut out),
            }
        })?;
        self.put(c, 0, out);
        Ok(())
    }

    /// `attention_grad`.
    pub(super) fn attention_grad(&mut self, c: &NodeContext<'_>) -> Result<(), ExecutionFault> {
        let history = self.history(c, 4);
        let [mut dq, mut dk, mut dv] = [0, 1, 2].map(|n| match &history {
            Some(own) if n == 1 => self.arena.take(own.keys.len()),
            Some(own) if n == 2 => self.arena.take(own.values.len()),
            _ => self.fresh(c, n),
        });
        let exprs = self.exprs.clone();
        let stop = self.stop(&exprs, c)?;
        let last = c.node.results.len();
        let mut apart = stop.as_ref().map(|_| [2, 1].map(|n| self.fresh(c, last - n)));
        let arena = self.arena.clone();
        let (mut sums, mut more, mut matrices) = (arena.filled(0, T::ZERO), None, None);
        let codes = self.codes(c, DistanceSpan::longest(c));
        let tables = exprs
            .get(&c.step.node)
            .and_then(|rule| rule.as_ref().ok()?.bias.as_ref())
            .map_or(0, |bias| bias.sizes.len());
        let count = c.node.behind().reads.len();
        let of = |n: usize| arena.filled(c.view.extent(c.ty(c.node.results[3 + tables + n])), T::ZERO);
        let mut read_grads = arena.list((0..count).map(of));
        let mut distances = None;
        let known = Known::of_slots(&mut distances, history.as_ref());
        self.with_attention(c, 4, DistanceSpan::longest(c), known, |m, spec, bias, scored| {
            let mut inputs = [0, 1, 2, 3].map(|n| m.real(c.operand(n)));
            let scaled = scored.and_then(|scored| scored.queries(c, inputs[0]));
            inputs[0] = scaled.as_ref().map_or(inputs[0], Buffer::as_slice);
            let (queries, keys) = (c.axis(0), c.axis(1));
            let relative = codes.as_ref().map(|codes| codes.relative(m));
            let scores = Scores { bias: *bias, relative };
            let width = scores.gradients(spec.head_width);
            let mut partial = arena.take(c.view.rows() * spec.heads * width);
            let values = self.read_values(c, None);
            // A `stop` beside a history is refused, and positions that were not chosen are their own places.
            let places = PlacesInRows::chosen([&queries, &keys]);
            let read = ValuesRead { values: &values, offsets: [&queries.offsets, &keys.offsets], places };
            let rule = stop.map(|rule| {
                let read = &read;
                move |at: MaskRow, holds: &mut [bool]| rule.mark(read, at, holds)
            });
            let apart =
                rule.as_ref().zip(apart.as_mut()).map(|(rule, [dk, dv])| SeparateGradients { rule, grads: [dk, dv] });
            let out = [dq.as_mut_slice(), dk.as_mut_slice(), dv.as_mut_slice()];
            let run = |spec: &Attention<'_>, inputs, keys: &[usize]| match talking(c, m) {
                Some(mixed) => {
                    let width = 2 * spec.heads * spec.heads;
                    let mut own = arena.take(c.view.rows() * width);
                    let slopes = [partial.as_mut_slice(), own.as_mut_slice()];
                    talking::attention_grad(spec, &scores, &mixed, inputs, &queries.offsets, keys, out, slopes);
                    let (of_scores, of_probabilities) = over_rows(&mut own, width).split_at(width / 2);
                    matrices = Some([of_scores, of_probabilities].map(|grad| arena.copy(grad)));
                }
                None => attention_grad_with(spec, &scores, inputs, &queries.offsets, keys, out, apart, &mut partial),
            };
            match &history {
                Some(own) => self.by_position(c, spec, own, |spec| {
                    run(spec, [inputs[0], own.keys.as_slice(), own.values.as_slice(), inputs[3]], &own.offsets);
                }),
                None => run(spec, inputs, &keys.offsets),
            }
            // Where no key is seen, learned numbers have gradients of 0.
            if let Some(scored) = scored {
                sums = arena.filled(scored.len(), T::ZERO);
                scored.queries_back(&queries, spec.heads, m.real(c.operand(0)), &mut dq, &mut partial);
            }
            if let Some(scored) = scored {
                for ((n, grad), at) in read_grads.iter_mut().enumerate().zip(c.node.behind().reads) {
                    of_value(&partial, (spec.heads, width), scored, n, &c.axis(at).offsets, grad);
                }
            }
            if width == 0 {
                return;
            }
            let heads = over_rows(&mut partial, spec.heads * width);
            if let Some(scored) = scored {
                gathered(spec, bias, scored, heads, width, &mut sums);
            }
            more = codes.as_ref().map(|codes| codes.gradients(spec, heads, width, self));
        })?;
        if let Some(own) = &history {
            [dk, dv] = self.unpacked(c, own, &[dk, dv]);
        }
        for (n, grad) in [dq, dk, dv].into_iter().enumerate() {
            self.put(c, n, grad);
        }
        let (mut from, mut n) = (0, 3);
        while from < sums.len() {
            let len = c.view.extent(c.ty(c.node.results[n]));
            let table = self.arena.copy(&sums[from..from + len]);
            self.put(c, n, table);
            (from, n) = (from + len, n + 1);
        }
        for grad in read_grads {
            self.put(c, n, grad);
            n += 1;
        }
        for (at, grad) in more.into_iter().flatten().enumerate() {
            self.put(c, n + at, grad);
        }
        for (n, grad) in apart.into_iter().flatten().enumerate() {
            self.put(c, last - 2 + n, grad);
        }
        for (at, grad) in matrices.into_iter().flatten().enumerate() {
            self.put(c, last - 2 + at, grad);
        }
        Ok(())
    }

    /// Runs an attention on keys that lie `[positions, steps]`; its mask sees positions, unless its expressions find their places themselves.
    pub(super) fn by_position<R>(
        &self,
        c: &NodeContext<'_>,
        spec: &Attention<'_>,
        history: &SlotHistory<T>,
        run: impl FnOnce(&Attention<'_>) -> R,
    ) -> R {
        match self.exprs.get(&c.step.node) {
            Some(Ok(rule)) if rule.places == PairPlaces::Slots => run(spec),
            _ => steps::by_position(spec, history.sizes.1, run),
        }
    }

    /// Where the gradients of keys and values of a node go apart, if they do.
    fn stop<'e>(&self, exprs: &'e Exprs, c: &NodeContext<'_>) -> Result<Option<PairRule<'e>>, ExecutionFault> {
        let Some(rule) = exprs.get(&c.step.node) else { return Ok(None) };
        let rule = rule.as_ref().map_err(|e| ExecutionFault::Batch(e.clone()))?;
        let is_step = |v: &&Value| c.ty(**v).elem() == Some(Elem::Index);
        let step = c.node.operands.get(4).filter(is_step).map_or(0, |v| i64::from(self.memory.index(*v)[0]));
        Ok(PairRule::of_stop(rule, step))
    }

    /// Runs `f` with the attention that the node describes; its step and tables follow the first `fixed` operands.
    pub(super) fn with_attention(
        &self,
        c: &NodeContext<'_>,
        fixed: usize,
        span: DistanceSpan,
        known: Known<'_, T>,
        f: impl FnOnce(&ValueMemory<T>, &Attention<'_>, &ScoreBias<'_, T>, Option<&ScoredBias<'_, T>>),
    ) -> Result<(), ExecutionFault> {
        let heads = c.get(attribute::HEADS);
        let head_width = c.last(0) / heads;
        let p = c.get(attribute::DROPOUT);
        let keys = if p > 0.0 { c.view.row_keys(c.get(attribute::STREAM) as u64) } else { self.arena.list([]) };
        let dropout = (p > 0.0).then_some(ProbabilityDropout { p, row_keys: &keys });
        let softcap = self.caps.get(&c.step.node).copied();
        let bias = self.exprs.get(&c.step.node).and_then(|rule| rule.as_ref().ok()?.bias.as_ref());
        let rescored = bias.is_some_and(|bias| bias.is_score);
        let (scale, key_heads) = (c.node.attrs.scale(head_width), c.get(attribute::KEY_HEADS));
        let value_width = c.last(2) / key_heads;
        let with =
            |mask| Attention { heads, key_heads, head_width, value_width, scale, softcap, rescored, mask, dropout };
        let is_step = |v: &&Value| c.ty(**v).elem() == Some(Elem::Index);
        let step = c.node.operands.get(fixed).filter(is_step).map_or(0, |v| i64::from(self.memory.index(*v)[0]));
        let named = if c.get(attribute::MASK) == Mask::Causal { MaskKind::Causal } else { MaskKind::All };
        let asked = self.exprs.get(&c.step.node);
        let whole = whole_keys(c).filter(|_| asked.is_none() && matches!(named, MaskKind::Causal));
        if let Some((queries, chosen)) = &whole {
            let (starts, of) = (queries.offsets.as_slice(), chosen.as_slice());
            let end = |at: MaskRow| of[starts[at.row] + at.query] + 1;
            let reach = |at: MaskRow| (0..end(at), true);
            let rule = |at: MaskRow, seen: &mut [bool]| {
                seen.iter_mut().enumerate().for_each(|(j, seen)| *seen = at.first + j < end(at));
            };
            let mask = MaskKind::Within { reach: &reach, rule: &rule, runs: None };
            f(&self.memory, &with(mask), &ScoreBias::None, None);
            return Ok(());
        }
        let Some(rule) = asked else {
            f(&self.memory, &with(named), &ScoreBias::None, None);
            return Ok(());
        };
        let rule = rule.as_ref().map_err(|e| ExecutionFault::Batch(e.clone()))?;
        let first = rule.bias.as_ref().map_or(c.node.operands.len(), |bias| bias.first);
        let count = rule.bias.as_ref().map_or(0, |bias| bias.sizes.len());
        let tables = self.arena.list(c.node.operands[first..first + count].iter().map(|v| self.memory.real(*v)));
        let axes = [c.axis(0), c.axis(1)];
        let values_read = self.read_values(c, known.values);
        let offsets = match known.values {
            Some(_) => [&[0][..]; 2],
            None => [axes[0].offsets.as_slice(), axes[1].offsets.as_slice()],
        };
        let slots = history::sizes(history::slots(c), step as usize).map_or(1, |(_, steps)| steps);
        let places = match rule.places {
            PairPlaces::Own => PlacesInRows::Own,
            PairPlaces::Chosen => PlacesInRows::chosen([&axes[0], &axes[1]]),
            PairPlaces::Slots => PlacesInRows::Slots(slots),
        };
        let read = ValuesRead { values: &values_read, offsets, places };
        // What is no number hides nothing and shows nothing.
        if rule.reads.iter().flatten().any(|value| read.values[*value].numbers.iter().any(|x| !Real::is_finite(*x))) {
            let what = format!("a value that the mask of `{}` reads", c.node.label);
            return Err(ExecutionFault::NonFinite(what));
        }
        let scoring = |bias| ScoredBias { bias, step, tables: &tables, values: &read, factor: None };
        let scored = rule.bias.as_ref().map(scoring);
        if rule.by_distance {
            let found = match known.distances.take().filter(|known| known.span == span) {
                Some(found) => found,
                None => self.distances(c, rule, scored.as_ref(), (step, span)),
            };
            let found = &*known.distances.insert(found);
            let mask = MaskKind::Offsets(Offsets { list: &found.list, seen: &found.seen, few: rule.few });
            let first = found.list.first().copied().unwrap_or(0);
            let by_offset = ScoreBias::ByOffset { values: &found.values, first, span: found.seen.len() };
            let bias = if scored.is_some() { by_offset } else { ScoreBias::None };
            f(&self.memory, &with(mask), &bias, scored.as_ref());
            return Ok(());
        }
        let pairs = PairRule::of_mask(rule, step);
        let ends = known.keys.unwrap_or(axes[1].offsets.as_slice());
        let rows = RowStarts { queries: axes[0].offsets.as_slice(), keys: ends };
        let order = pairs.filter(|rule| span.listed && rule.joins.iter().any(Option::is_some)).map(|rule| {
            let numbers = |row| RowNumbers { values: &read, row, bias: None, scores: &[] };
            KeyOrder::new(rule.joins, step, rows, numbers, &self.arena)
        });
        let joined = order.as_ref().zip(pairs).map(|(order, rule)| order.keys(rule.joins, rows));
        let marked = pairs.map(|rule| {
            let read = &read;
            move |at, seen: &mut [bool]| rule.mark_joined(read, joined, at, seen)
        });
        let ranges =
            if span.listed { pairs.and_then(|rule| self.ranges((rows, heads), rule, &read, joined)) } else { None };
        let starts = rows.queries;
        let near = rule.expr.as_ref().map(|expr| {
            let (ranges, count, read) = (ranges.as_deref(), starts.last().copied().unwrap_or(0), &read);
            move |at: MaskRow| match ranges {
                Some(ranges) => {
                    let head = if ranges.len() == count { 0 } else { at.head };
                    ranges[head * count + starts[at.row] + at.query].clone()
                }
                None => range(expr, step, at, read.places(at.row)),
            }
        });
        let runs = joined.zip(near.as_ref()).map(|(joined, near)| {
            move |at: MaskRow, f: &mut dyn FnMut(Range<usize>)| match joined.of(at) {
                Some(found) => found.runs(f),
                None => f(near(at).0),
            }
        });
        let both = marked.as_ref().zip(near.as_ref());
        let mask = both.map_or(named, |(rule, reach)| {
            let runs = runs.as_ref().map(|runs| runs as &KeyRuns<'_>);
            MaskKind::Within { reach, rule, runs }
        });
        let Some(whole) = scored else {
            f(&self.memory, &with(mask), &ScoreBias::None, None);
            return Ok(());
        };
        // A factor without a number hides all keys of its query, and a shift of queries for positions has none.
        let parts = whole.bias.scaled.as_deref().filter(|_| !c.node.has(attribute::POSITION));
        let own = parts.map(|(factor, _)| scoring(factor));
        let factors = own.as_ref().map(|own| {
            let mut numbers = self.arena.take(axes[0].total() * heads);
            own.of_queries(&axes[0], heads, &mut numbers);
            numbers
        });
        let factor = own.as_ref().zip(factors.as_ref()).map(|(scored, numbers)| QueryFactor { scored, numbers });
        let factor = factor.filter(|factor| factor.numbers.iter().all(|x| Real::is_finite(*x)));
        let added = parts.filter(|_| factor.is_some()).map(|(_, bias)| bias.as_ref().map(scoring));
        let scored = &ScoredBias { factor, ..whole };
        let rescored = rescored && factor.is_none();
        let with = |mask| Attention { rescored, ..with(mask) };
        // What is added: all that there is, or what stands beside a factor.
        let rest = added.as_ref().map_or(Some(scored), Option::as_ref);
        // What the mask hides has no bias: its index may lie outside the table.
        let learned = scored.len() + read.len();
        let values = |at: MaskRow, by: T, scores: &mut [T]| {
            if let Some(rest) = rest {
                rest.add(at, by, scores);
            }
        };
        let slopes = |at: MaskRow, by: T, d: &[T], sums: &mut [T]| {
            if let Some(rest) = rest {
                rest.add_gradients(at, by, d, sums);
            }
        };
        let scores = |at: MaskRow, scale: T, scores: &mut [T]| scored.rescore(at, scale, scores);
        let both = |at: MaskRow, scale: T, products: &[T], d: &mut [T], sums: &mut [T]| {
            scored.rescored(at, scale, products, d, sums);
        };
        let bias = match rescored {
            true => ScoreBias::Rescored { rule: &scores, grad: &both, learned },
            false if rest.is_none() && learned == 0 => ScoreBias::None,
            false => ScoreBias::Dense { rule: &values, grad: &slopes, learned },
        };
        f(&self.memory, &with(mask), &bias, Some(scored));
        Ok(())
    }

    /// The values that mask, bias and `stop` of a node read; `known` are those of all positions of an incremental run.
    fn read_values<'v>(&'v self, c: &NodeContext<'_>, known: Option<&'v [Vec<T>]>) -> List<ValueRead<'v, T>> {
        let value = |(at, n): (usize, usize)| {
            let (own, axis) = (self.memory.real(c.operand(n)), c.axis(n));
            let numbers = known.map_or(own, |known| &known[at]);
            let channels = c.ty(c.operand(n)).dims().get(2).and_then(Dim::fixed).unwrap_or(1);
            let longest = (0..c.view.rows()).map(|row| axis.len(row)).max().unwrap_or(0) * channels;
            ValueRead { numbers, channels, longest }
        };
        self.arena.list(c.node.behind().reads.enumerate().map(value))
    }

    /// The range of keys of every query of the batch, of all heads at once where they do not differ; nothing where they do and keys
    /// would have to be asked one by one.
    fn ranges(
        &self,
        (rows, heads): (RowStarts<'_>, usize),
        rule: PairRule<'_>,
        values: &ValuesRead<'_, T>,
        joined: Option<JoinedKeys<'_>>,
    ) -> Option<List<(Range<usize>, bool)>> {
        let by_head = rule.expr.uses(Var::Head);
        if by_head && joined.is_none() {
            return None;
        }
        let (heads, ends) = (if by_head { heads } else { 1 }, rows.keys);
        let count = rows.queries.last().copied().unwrap_or(0);
        let mut found = self.arena.list(std::iter::repeat_n((0..0, false), count * heads));
        let cost = match joined {
            Some(_) => LOOKED_UP,
            None => rule.cost() * ends.windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0),
        };
        fill(&mut found, cost, |place| {
            let at = rows.query(place % count, place / count);
            rule.range(values, joined, at, ends[at.row + 1] - ends[at.row])
        });
        Some(found)
    }

    /// Mask and bias at every distance that occurs.
    fn distances(
        &self,
        c: &NodeContext<'_>,
        rule: &MaskRule,
        scored: Option<&ScoredBias<'_, T>>,
        (step, span): (i64, DistanceSpan),
    ) -> ByDistance<T> {
        let heads = c.get(attribute::HEADS);
        let causal = c.get(attribute::MASK) == Mask::Causal;
        let sees = |distance: isize| match &rule.expr {
            Some(expr) => eval(expr, &apart(distance, step, 0)) == Ok(ScalarValue::Bool(true)),
            None => !causal || distance >= 0,
        };
        let all = 1 - span.keys as isize..span.queries as isize;
        let list = self.arena.list(all.filter(|distance| sees(*distance)));
        let first = list.first().copied().unwrap_or(0);
        let count = list.last().map_or(0, |last| (last - first + 1) as usize);
        let mut seen = self.arena.list(std::iter::repeat_n(false, count));
        let mut values = self.arena.filled(if scored.is_some() { heads * count } else { 0 }, T::ZERO);
        for distance in &*list {
            let at = (distance - first) as usize;
            seen[at] = true;
            let Some(scored) = scored else { continue };
            for head in 0..heads {
                let value = &mut values[head * count + at];
                scored.numbers(&apart(*distance, step, head), 0, (&[], 1), |_, number| *value = number);
            }
        }
        ByDistance { span, list, seen, values }
    }
}

/// The axis of queries that were chosen among the positions of the keys, and the place of each of them there.
pub fn whole_keys(c: &NodeContext<'_>) -> Option<(Shared<Axis>, List<usize>)> {
    let [queries, keys] = [0, 1].map(|n| c.ty(c.operand(n)).ragged());
    if queries == keys || keys.is_none() {
        return None;
    }
    let axis = c.axis(0);
    let of = axis.chosen.as_ref().map(|chosen| c.view.arena().copy(&chosen.of))?;
    Some((axis, of))
}

/// The matrices of heads that talk.
pub(super) fn talking<'m, T: Element>(c: &NodeContext<'_>, memory: &'m ValueMemory<T>) -> Option<Talking<'m, T>> {
    let own = c.node.behind().talking;
    let &[scores, probabilities] = &c.node.operands[own] else { return None };
    Some(Talking { scores: memory.real(scores), probabilities: memory.real(probabilities) })
}

/// Adds the gradients of all rows, which have `width` numbers each, into those of the first one.
fn over_rows<T: Element>(partial: &mut [T], width: usize) -> &[T] {
    let (total, rest) = partial.split_at_mut(width.min(partial.len()));
    for row in rest.chunks_exact(width) {
        total.iter_mut().zip(row).for_each(|(sum, x)| *sum += *x);
    }
    total
}

/// Adds the gradients of a value that a bias reads, which stand behind those of the tables for every row and head; its rows begin at
/// `offsets`.
fn of_value<T: Element>(
    partial: &[T],
    (heads, width): (usize, usize),
    scored: &ScoredBias<'_, T>,
    n: usize,
    offsets: &[usize],
    grad: &mut [T],
) {
    let (channels, start) = (scored.values.values[n].channels, scored.len() + scored.values.start(n));
    for (row, ends) in offsets.windows(2).enumerate() {
        for head in 0..heads {
            let own = &partial[(row * heads + head) * width + start..];
            let sums = &mut grad[ends[0] * channels..ends[1] * channels];
            sums.iter_mut().zip(own).for_each(|(sum, x)| *sum += *x);
        }
    }
}

/// The gradients of the tables, from those of every head, which follow one another every `width` numbers.
fn gathered<T: Element>(
    spec: &Attention<'_>,
    bias: &ScoreBias<'_, T>,
    scored: &ScoredBias<'_, T>,
    heads: &[T],
    width: usize,
    sums: &mut [T],
) {
    let (ScoreBias::ByOffset { first, .. }, MaskKind::Offsets(offsets)) = (bias, &spec.mask) else {
        for part in heads.chunks_exact(width) {
            sums.iter_mut().zip(part).for_each(|(sum, x)| *sum += *x);
        }
        return;
    };
    for (head, part) in heads.chunks_exact(width).enumerate() {
        for distance in offsets.list {
            let by = part[(distance - first) as usize].to_f64();
            if by != 0.0 {
                let env = apart(*distance, scored.step, head);
                scored.bias.program.add_slopes(&env, (1, &|_| by), &scored.row(0, &[]), (sums, &mut []));
            }
        }
    }
}
