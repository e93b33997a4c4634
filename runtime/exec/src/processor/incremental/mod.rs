//! Incremental runs: a row grows by some positions, and only those are computed.
//!
//! The ragged axes hold the new positions alone, and say how many stand before them ([`Axis::before`]). Ops that work position
//! by position need nothing else. What looks along the row takes up what it left in the run before, in its [`CacheScope`]: the
//! place of the execution, by the loops around it and their counters. Which steps run is decided beforehand
//! ([`rtc_compiler::incremental`]).

mod catch_up;
mod extend;

use rtc_compiler::ir::attribute;
use std::collections::BTreeMap;
use std::sync::Arc;

use rtc_compiler::incremental::{Incremental, Take};
use rtc_compiler::ir::graph::{MAIN, NodeId, Value};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::types::LENGTH;
use rtc_compiler::plan::{Plan, Step};

use crate::machine::region::{InputName, given_inputs, run_region};
use crate::machine::requirements::{check_ids, check_tokens};
use crate::machine::value::Val;
use crate::node_context::NodeContext;
use crate::processor::Executor;
use crate::processor::attention::{ByDistance, DistanceSpan, Known, talking};
use crate::processor::relative::DistanceCodes;
use crate::rows::{Axis, BatchView};
use crate::settings::ExecutionFault;
use crate::storage::{Buffer, Element, List};
use catch_up::Settled;
use extend::OpenChunk;
use rtc_base::batch::Given;
use rtc_base::rng::Key;
use rtc_kernel::attention::cache::{self, TurnedCodes};
use rtc_kernel::attention::{Attention, Scores, talking};
use rtc_kernel::pool;
use rtc_kernel::scan::state::ScanState;

/// What the positions of one row have left for the next ones.
#[derive(Clone, Debug)]
pub struct Past<T: Element> {
    how: Arc<Incremental>,
    positions: usize,
    scope: CacheScope<T>,
}

/// The caches of one place of the execution.
#[derive(Clone, Debug)]
pub(super) struct CacheScope<T: Element> {
    kept: BTreeMap<NodeId, NodeCache<T>>,
    /// The places inside of a loop, by its counter.
    inner: BTreeMap<NodeId, Vec<CacheScope<T>>>,
}

/// The cache of one node, or of one group by its first node.
#[derive(Clone, Debug)]
pub(super) enum NodeCache<T: Element> {
    /// Results that are the same for all positions.
    Results(Vec<(Value, Val<T>)>),
    /// Keys and values.
    Attention(Box<Attended<T>>),
    /// Keys among which queries choose, and the number of each that says whether it counts, if there are any.
    Candidates([Vec<T>; 2]),
    /// The state of a scan.
    Scan(ScanState),
    /// The sum of a mean over the positions so far.
    Sum(Vec<T>),
    /// The last positions, as many as later ones still read.
    Latest(Vec<T>),
    /// The chunk that is not complete yet.
    Chunk(OpenChunk<T>),
    /// The states of a recurrence that halts.
    Settled(Settled<T>),
}

/// Keys and values, and what is known of distances.
#[derive(Clone, Debug)]
pub(super) struct Attended<T: Element> {
    cache: cache::KeyValueCache<T>,
    distances: Option<ByDistance<T>>,
    codes: Option<(DistanceCodes<T>, TurnedCodes<T>)>,
    /// The numbers of each value that mask and bias read, of all positions so far.
    values: Vec<Vec<T>>,
}

/// An incremental run.
#[derive(Debug)]
pub(super) struct Extending<T: Element> {
    how: Arc<Incremental>,
    scope: CacheScope<T>,
}

impl<T: Element> Default for CacheScope<T> {
    fn default() -> Self {
        Self { kept: BTreeMap::new(), inner: BTreeMap::new() }
    }
}

impl<T: Element> Past<T> {
    /// A row without positions.
    pub fn new(how: Arc<Incremental>) -> Self {
        Self { how, positions: 0, scope: CacheScope::default() }
    }

    /// How many positions there are.
    pub fn positions(&self) -> usize {
        self.positions
    }
}

impl<T: Element> Executor<T> {
    /// Adds tokens to a row, with the values of the new positions that the model takes, and gives the logits of these positions. After
    /// an error, what the row has left is not to be used.
    ///
    /// # Errors
    /// Tokens that the model does not know, more positions than it has learned, or a value that is not `given`.
    pub fn extend(
        &mut self,
        past: &mut Past<T>,
        (tokens, given): (&[u32], &[Given]),
        key: Key,
    ) -> Result<List<T>, ExecutionFault> {
        check_tokens(&self.plan, tokens)?;
        check_ids(&self.plan, given)?;
        let total = past.positions + tokens.len();
        let mut view = BatchView::new(1, key, total, &self.arena);
        let new = Axis { before: past.positions, ..Axis::of_lengths([tokens.len()], &self.arena) };
        self.set_axis(&mut view, LENGTH, new);
        self.inputs.push((InputName::Own("tokens"), Val::index(self.arena.copy(tokens))));
        let given: Vec<_> = given_inputs(self, given).collect();
        self.inputs.extend(given);
        self.extending = Some(Extending { how: past.how.clone(), scope: std::mem::take(&mut past.scope) });
        let outcome = run_region(self, MAIN, &view);
        past.scope = self.extending.take().map(|extending| extending.scope).unwrap_or_default();
        past.positions = total;
        let logits = self.plan.graph.output("logits").expect("a model gives logits");
        let logits = outcome.map(|()| self.arena.copy(self.memory.real(logits)));
        self.memory.values.fill(None);
        self.inputs.clear();
        logits
    }

    /// Takes what a node has left out of the scope.
    pub(super) fn kept(&mut self, id: NodeId) -> Option<NodeCache<T>> {
        self.extending.as_mut()?.scope.kept.remove(&id)
    }

    /// Leaves something for the next run.
    pub(super) fn keep(&mut self, id: NodeId, kept: NodeCache<T>) {
        if let Some(extending) = &mut self.extending {
            extending.scope.kept.insert(id, kept);
        }
    }

    /// Does something inside of a loop, in the scope of one of its steps.
    pub(super) fn inside<R>(&mut self, of: NodeId, counter: usize, run: impl FnOnce(&mut Self) -> R) -> R {
        let mut inner = self.extending.as_mut().and_then(|e| e.scope.inner.remove(&of)).unwrap_or_default();
        inner.resize_with(inner.len().max(counter + 1), CacheScope::default);
        self.exchange(&mut inner[counter]);
        let outcome = run(self);
        self.exchange(&mut inner[counter]);
        if let Some(extending) = &mut self.extending {
            extending.scope.inner.insert(of, inner);
        }
        outcome
    }

    fn exchange(&mut self, scope: &mut CacheScope<T>) {
        if let Some(extending) = &mut self.extending {
            std::mem::swap(&mut extending.scope, scope);
        }
    }

    /// Does something over all positions of a part of the row, as if nothing went before.
    pub(super) fn wholly<R>(&mut self, run: impl FnOnce(&mut Self) -> R) -> R {
        let extending = self.extending.take();
        let outcome = run(self);
        self.extending = extending;
        outcome
    }

    /// Forgets what is inside of a loop.
    pub(super) fn forget_inside(&mut self, of: NodeId) {
        if let Some(extending) = &mut self.extending {
            extending.scope.inner.remove(&of);
        }
    }

    /// Whether steps that go together need not run: nothing needs them, or their results are here from an earlier run.
    pub(super) fn is_known(&mut self, together: &[Step]) -> bool {
        let Some(extending) = &self.extending else { return false };
        match extending.how.take(together[0].node) {
            Take::Run => false,
            Take::Skip => true,
            Take::Once => match extending.scope.kept.get(&together[0].node) {
                Some(NodeCache::Results(results)) => {
                    for (value, val) in results {
                        self.memory.values[value.index()] = Some(val.clone());
                    }
                    true
                }
                _ => false,
            },
        }
    }

    /// Keeps the results of steps that run once.
    pub(super) fn keep_results(&mut self, plan: &Plan, together: &[Step]) {
        let Some(extending) = &mut self.extending else { return };
        if extending.how.take(together[0].node) == Take::Once {
            let results = together.iter().flat_map(|step| &plan.graph.node(step.node).results);
            let here = results.filter_map(|v| Some((*v, self.memory.values[v.index()].clone()?)));
            extending.scope.kept.insert(together[0].node, NodeCache::Results(here.collect()));
        }
    }

    /// Runs a node that looks along the row, from what it has left; false for any other node, and outside of incremental runs.
    pub(super) fn extend_along(&mut self, c: &NodeContext<'_>) -> Result<bool, ExecutionFault> {
        if self.extending.is_none() {
            return Ok(false);
        }
        let along = |n: usize| c.ty(c.operand(n)).ragged().is_some();
        match c.node.op {
            Op::Recur => self.extend_recur(c)?,
            Op::Chunks => self.extend_chunks(c)?,
            Op::Attention if along(1) => self.extend_attention(c)?,
            Op::TopKeys if along(1) => self.extend_top_keys(c),
            Op::Scan if along(0) => self.extend_scan(c),
            Op::RunningSum if along(0) => self.extend_sum(c),
            Op::Shift if along(0) => self.extend_shift(c),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// `attention` of new positions, which see those before them.
    fn extend_attention(&mut self, c: &NodeContext<'_>) -> Result<(), ExecutionFault> {
        let (id, heads, key_heads) = (c.step.node, c.get(attribute::HEADS), c.get(attribute::KEY_HEADS));
        let (head_width, widths) = (c.last(0) / heads, [1, 2].map(|n| c.last(n) / key_heads));
        let few = matches!(self.exprs.get(&id), Some(Ok(rule)) if rule.by_distance && rule.few);
        let history = self.history(c, 3);
        let by_key = few && !c.get(attribute::TALKING) && history.is_none();
        let mut own = match self.kept(id) {
            Some(NodeCache::Attention(own)) => own,
            _ => {
                let cache = match &history {
                    Some(history) => cache::KeyValueCache::of_steps(key_heads, widths, history.sizes.1),
                    None => cache::KeyValueCache::new(key_heads, widths, by_key),
                };
                Box::new(Attended {
                    cache,
                    distances: None,
                    codes: None,
                    values: vec![vec![]; c.node.behind().reads.len()],
                })
            }
        };
        match &history {
            Some(history) => own.cache.push(&history.keys, &history.values),
            None => own.cache.push(self.memory.real(c.operand(1)), self.memory.real(c.operand(2))),
        }
        for (values, n) in own.values.iter_mut().zip(c.node.behind().reads) {
            values.extend_from_slice(self.memory.real(c.operand(n)));
        }
        let span = DistanceSpan { queries: own.cache.room(), keys: 1, listed: false };
        if own.codes.as_ref().is_none_or(|(codes, _)| codes.queries() < span.queries) {
            own.codes = self.codes(c, span).map(|codes| {
                let turned = TurnedCodes::new(&codes.relative(&self.memory), heads, head_width);
                (codes, turned)
            });
        }
        let mut out = self.fresh(c, 0);
        let Attended { cache, distances, codes, values } = &mut *own;
        self.with_attention(
            c,
            3,
            span,
            Known { distances, values: Some(values.as_slice()), keys: None },
            |m, spec, bias, scored| {
                let q = m.real(c.operand(0));
                let scaled = scored.and_then(|scored| scored.queries(c, q));
                let q = scaled.as_ref().map_or(q, Buffer::as_slice);
                let relative = codes.as_ref().map(|(codes, _)| codes.relative(m));
                let scores = Scores { bias: *bias, relative };
                let turned = codes.as_ref().map(|(_, turned)| turned);
                let mut run = |spec: &Attention<'_>| match talking(c, m) {
                    Some(mixed) => talking::attend(spec, &scores, &mixed, turned, cache, q, &mut out),
                    None => cache::attend(spec, &scores, turned, cache, q, &mut out),
                };
                match &history {
                    Some(history) => self.by_position(c, spec, history, run),
                    None => run(spec),
                }
            },
        )?;
        self.put(c, 0, out);
        self.keep(id, NodeCache::Attention(own));
        Ok(())
    }

    /// `running_sum` of new positions, from the left.
    fn extend_sum(&mut self, c: &NodeContext<'_>) {
        let width = c.inner(0);
        let mut sum = match self.kept(c.step.node) {
            Some(NodeCache::Sum(sum)) => sum,
            _ => vec![T::ZERO; width],
        };
        self.produce(c, |e, c, y| pool::running_sum_behind(e.memory.real(c.operand(0)), &mut sum, y));
        self.keep(c.step.node, NodeCache::Sum(sum));
    }

    /// `shift` of new positions to the right: the last `lag` of those before them, and all new ones, are known.
    fn extend_shift(&mut self, c: &NodeContext<'_>) {
        let width = c.inner(0);
        let lag = c.get(attribute::LAG).saturating_mul(width);
        let mut known = match self.kept(c.step.node) {
            Some(NodeCache::Latest(known)) => known,
            _ => vec![],
        };
        known.extend_from_slice(self.memory.real(c.operand(0)));
        let end = known.len().saturating_sub(lag);
        self.produce(c, |_, _, y| {
            let (none, there) = y.split_at_mut(y.len() - y.len().min(end));
            none.fill(T::ZERO);
            there.copy_from_slice(&known[end - there.len()..end]);
        });
        known.drain(..end);
        self.keep(c.step.node, NodeCache::Latest(known));
    }
}
