//! Cost rules: floating-point operations of one run of a node. Multiply and add count as two.
//!
//! A rule is written once, over the algebra of [`Number`]: it gives a number for given sizes, and a formula for symbolic
//! ones. What a type measures is the business of an [`Extent`]: even rows here ([`Sizes`]), the real rows of a
//! batch in the executor.

use super::attribute::{self, Attrs, Chunking, Mask, Padding, Role, StepBound};
use std::collections::BTreeMap;

use super::formula::Formula;
use super::graph::{Graph, Node, NodeId, RegionId, Value};
use super::loops::{self, Cut};
use super::number::Number;
use super::ops::Op;
use super::pointwise::{self, Pointwise, PointwiseSteps, Scalar};
use super::schedule::beam::{BeamRules, Count};
use super::schedule::{Axes, RowDepth, Widths};
use super::shape;
use super::types::{BATCH, Dim, Type, unframed};
use crate::expr::{Expr, keys};

/// Sizes of the symbolic axes for which a cost is asked. All rows are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes<N = f64> {
    /// Size of each symbolic axis.
    pub axes: BTreeMap<String, N>,
    /// Steps that a row takes in a depth recurrence with halting, at most its bound and its cap; `None` for as many as these
    /// let it take.
    pub depth: Option<N>,
    /// Steps of the depth recurrence around.
    pub around: Option<N>,
}

/// How much a type measures.
pub trait Extent<N> {
    /// Number of elements of a tensor.
    fn elements(&self, ty: &Type) -> N;
    /// Pairs of a query and a key that it may see, over all rows.
    fn pairs(&self, queries: &Type, keys: &Type, seen: VisibleKeys) -> N;
    /// How many of so many slots, one of which every step fills, are filled after a step, on the mean over the steps. Where nobody knows how
    /// many steps there are, they are as many as slots.
    fn filled(&self, slots: usize) -> N;
}

/// The keys that a query may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisibleKeys {
    /// All of its row.
    All,
    /// Those up to its own position, where queries and keys are positions of one axis.
    Past,
    /// At most so many.
    Most(usize),
}

impl VisibleKeys {
    /// What the mask of an attention says.
    fn of(mask: Mask<'_>) -> Self {
        match mask {
            Mask::All => Self::All,
            Mask::Causal => Self::Past,
            Mask::Rule(rule) => {
                let most = Expr::try_from(rule).ok().and_then(|rule| keys(&rule));
                most.map_or(Self::All, |keys| Self::Most(keys.most))
            }
        }
    }
}

/// What a cost rule sees of a node.
pub struct Costed<'a, N> {
    /// Types of the operands.
    pub operands: Vec<&'a Type>,
    /// Types of the results.
    pub results: Vec<&'a Type>,
    /// The attributes.
    pub attrs: &'a Attrs,
    /// What types measure.
    pub sizes: &'a dyn Extent<N>,
}

/// The floating-point operations of one run of a node: one rule, in both algebras.
#[derive(Clone, Copy, Debug)]
pub struct CostRule {
    /// For given sizes.
    pub number: fn(&Costed<'_, f64>) -> f64,
    /// For symbolic sizes.
    pub formula: fn(&Costed<'_, Formula>) -> Formula,
}

/// An algebra in which rules can be asked.
pub trait Algebra: Number {
    /// Asks a rule.
    fn ask(rule: CostRule, costed: &Costed<'_, Self>) -> Self;
}

impl Algebra for f64 {
    fn ask(rule: CostRule, costed: &Costed<'_, Self>) -> Self {
        (rule.number)(costed)
    }
}

impl Algebra for Formula {
    fn ask(rule: CostRule, costed: &Costed<'_, Self>) -> Self {
        (rule.formula)(costed)
    }
}

impl Sizes {
    /// One row of `length` tokens; recurrences run to their bound.
    pub fn row(length: usize) -> Self {
        Self::rows(1.0, length as f64)
    }

    /// `rows` rows of `length` tokens each; recurrences run to their bound.
    pub fn rows(rows: f64, length: f64) -> Self {
        Self::of(rows, length, 1.0, 1.0)
    }
}

impl Sizes<Formula> {
    /// `B` rows of `n` tokens each, whose recurrences take `depth` steps where they halt.
    pub fn symbols() -> Self {
        let [rows, length, vocab, classes, depth] = ["B", "n", "vocab", "classes", "depth"].map(Formula::symbol);
        Self { depth: Some(depth), ..Self::of(rows, length, vocab, classes) }
    }
}

impl<N: Number> Sizes<N> {
    fn of(rows: N, length: N, vocab: N, classes: N) -> Self {
        let axes = [
            ("batch/2", rows.times(&N::of(0.5))),
            ("batch", rows),
            ("length", length),
            ("vocab", vocab),
            ("classes", classes),
        ];
        Self { axes: axes.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(), depth: None, around: None }
    }

    /// The size of an axis; 1 where it is unknown.
    pub fn dim(&self, dim: &Dim) -> N {
        let Dim::Sym(symbol) = dim else { return N::of(dim.fixed().unwrap_or(1) as f64) };
        let (axis, more) = unframed(symbol);
        let base = self.axes.get(axis).cloned().unwrap_or(N::of(1.0));
        if more == 0 { base } else { base.plus(&N::of(more as f64)) }
    }

    /// The same with another size of an axis.
    pub(crate) fn with(&self, axis: &str, size: N) -> Self {
        let mut out = self.clone();
        out.axes.insert(axis.to_owned(), size);
        out
    }
}

impl<N: Number> Extent<N> for Sizes<N> {
    fn elements(&self, ty: &Type) -> N {
        ty.dims().iter().fold(N::of(1.0), |all, d| all.times(&self.dim(d)))
    }

    fn pairs(&self, queries: &Type, keys: &Type, seen: VisibleKeys) -> N {
        let axis = |ty: &Type, n: usize| ty.dims().get(n).map_or(N::of(1.0), |d| self.dim(d));
        let (rows, q, k) = (axis(queries, 0), axis(queries, 1), axis(keys, 1));
        match seen {
            VisibleKeys::Past if queries.dims().get(1) == keys.dims().get(1) => {
                rows.times(&q).times(&q.plus(&N::of(1.0))).times(&N::of(0.5))
            }
            VisibleKeys::Most(most) => rows.times(&q).times(&k.least(&N::of(most as f64), "K")),
            _ => rows.times(&q).times(&k),
        }
    }

    fn filled(&self, slots: usize) -> N {
        let slots = N::of(slots as f64);
        let steps = self.around.as_ref().map_or_else(|| slots.clone(), |steps| steps.least(&slots, "R"));
        steps.plus(&N::of(1.0)).times(&N::of(0.5))
    }
}

impl<'a, N> Costed<'a, N> {
    /// A node of a graph.
    pub fn node(graph: &'a Graph, node: &'a Node, sizes: &'a dyn Extent<N>) -> Self {
        Self {
            operands: node.operands.iter().map(|v| graph.ty(*v)).collect(),
            results: node.results.iter().map(|v| graph.ty(*v)).collect(),
            attrs: &node.attrs,
            sizes,
        }
    }
}

impl<N: Number> Costed<'_, N> {
    fn largest(&self) -> N {
        let all = self.operands.iter().chain(&self.results).map(|t| self.sizes.elements(t));
        all.reduce(|a, b| a.larger(&b)).unwrap_or(N::of(0.0))
    }

    /// `factor` operations for every element of the largest operand or result.
    fn each(&self, factor: f64) -> N {
        self.largest().times(&N::of(factor))
    }

    /// The last axis of an operand, which has a size as soon as the model has one.
    fn last(&self, n: usize) -> N {
        let last = self.operands[n].dims().last().cloned();
        self.sizes.elements(&Type::real(last.into_iter().collect::<Vec<_>>()))
    }
}

/// Moves data or does nothing.
pub fn free<N: Number>(_: &Costed<'_, N>) -> N {
    N::of(0.0)
}

/// The body is costed on its own.
pub fn region<N: Number>(_: &Costed<'_, N>) -> N {
    N::of(0.0)
}

/// One operation per element.
pub fn elementwise<N: Number>(c: &Costed<'_, N>) -> N {
    c.largest()
}

/// One addition per element of what is summed.
pub fn reduction<N: Number>(c: &Costed<'_, N>) -> N {
    c.largest()
}

/// One addition per element of what is scattered, the second operand.
pub fn scatter<N: Number>(c: &Costed<'_, N>) -> N {
    c.sizes.elements(c.operands[1])
}

/// What the functions of the expression count for, once for every element.
pub fn map<N: Number>(c: &Costed<'_, N>) -> N {
    c.each(pointwise::results(c.attrs).map_or(0.0, |results| PointwiseSteps::of(&results).cost()))
}

/// About ten operations per element.
pub fn transcendental<N: Number>(c: &Costed<'_, N>) -> N {
    c.each(10.0)
}

/// Eight operations per element.
pub fn norm<N: Number>(c: &Costed<'_, N>) -> N {
    c.each(8.0)
}

/// Two operations per element of the result and per channel of the first operand; the bias is part of it.
pub fn linear<N: Number>(c: &Costed<'_, N>) -> N {
    c.sizes.elements(c.results[0]).times(&c.last(0)).times(&N::of(2.0))
}

/// Two operations per number of the result and per number that its sum goes over.
pub fn matmul<N: Number>(c: &Costed<'_, N>) -> N {
    let sizes = shape::matrices(c.operands[0], c.operands[1], c.attrs.find(attribute::TRANSPOSED));
    let inner = sizes.map_or(0, |[_, inner, _]| inner);
    c.sizes.elements(c.results[0]).times(&N::of(2.0 * inner as f64))
}

/// As the product that it differentiates.
pub fn linear_weight<N: Number>(c: &Costed<'_, N>) -> N {
    c.sizes.elements(c.operands[0]).times(&c.last(1)).times(&N::of(2.0))
}

/// Scores and mixture: two operations per query, key that it may see, and channel of the query, and two per channel of the value. The
/// softmax is part of it. Relative positions take two more per channel of the query; the map of their codes, which all rows share, is not
/// counted.
pub fn attention<N: Number>(c: &Costed<'_, N>) -> N {
    let (pairs, [scores, mixture]) = (attended(c), channels(c));
    with_mixtures(c, &pairs, 2.0, pairs.times(&scores.plus(&mixture)))
}

/// Operations of a pair for its scores, and for its part of the mixture, of all heads.
fn channels<N: Number>(c: &Costed<'_, N>) -> [N; 2] {
    let products = if c.attrs.has(attribute::POSITION) { 4.0 } else { 2.0 };
    let heads = c.attrs.get(attribute::HEADS) as f64;
    let sharing = heads / c.attrs.get(attribute::KEY_HEADS) as f64;
    [c.last(0).times(&N::of(products)), c.last(2).times(&N::of(2.0 * sharing))]
}

/// Pairs of a query and a key that it may see; a key of a position with slots is one in every slot that is filled.
fn attended<N: Number>(c: &Costed<'_, N>) -> N {
    let (queries, keys) = (c.operands[0], c.operands[1]);
    let pairs = c.sizes.pairs(queries, keys, VisibleKeys::of(c.attrs.get(attribute::MASK)));
    let slots = keys.slots().filter(|_| keys.dims().len() > 3);
    slots.map_or(pairs.clone(), |(_, slots)| pairs.times(&c.sizes.filled(slots)))
}

/// With operations for so many mixtures of the numbers that all heads have for a query and a key, where heads talk.
fn with_mixtures<N: Number>(c: &Costed<'_, N>, pairs: &N, count: f64, cost: N) -> N {
    if !c.attrs.get(attribute::TALKING) {
        return cost;
    }
    let heads = c.attrs.get(attribute::HEADS) as f64;
    cost.plus(&pairs.times(&N::of(2.0 * count * heads * heads)))
}

/// Scores again, and four products: two of them with values. Of the mixtures both again, and both back for the numbers and for the matrices.
pub fn attention_grad<N: Number>(c: &Costed<'_, N>) -> N {
    let (pairs, [scores, mixture]) = (attended(c), channels(c));
    let again = scores.times(&N::of(2.5)).plus(&c.last(0));
    let forward = with_mixtures(c, &pairs, 5.0, pairs.times(&again.plus(&mixture.times(&N::of(2.0)))));
    with_mixtures(c, &pairs, 1.0, forward)
}

/// Scores: two operations per query, key and channel.
pub fn top_keys<N: Number>(c: &Costed<'_, N>) -> N {
    let pairs = c.sizes.pairs(c.operands[0], c.operands[1], VisibleKeys::of(c.attrs.get(attribute::MASK)));
    pairs.times(&c.last(0).times(&N::of(2.0)))
}

/// Scores and mixture: four operations per query, key and channel, and thirty for the weight of a key, of which two are exponentials.
pub fn geometric_attention<N: Number>(c: &Costed<'_, N>) -> N {
    let heads = c.attrs.get(attribute::HEADS) as f64;
    let pairs = c.sizes.pairs(c.operands[0], c.operands[1], VisibleKeys::All);
    pairs.times(&c.last(0).times(&N::of(4.0)).plus(&N::of(30.0 * heads)))
}

/// Scores again, and four products.
pub fn geometric_attention_grad<N: Number>(c: &Costed<'_, N>) -> N {
    geometric_attention(c).times(&N::of(2.5))
}

/// For every number a hundred operations, which is about what two transforms of a few hundred positions take, and four per
/// mode of its channel: rows of one batch share a kernel, so this is right for one row and too much for several.
pub fn scan<N: Number>(c: &Costed<'_, N>) -> N {
    let modes = c.operands[2].dims().get(1).and_then(Dim::fixed).unwrap_or(1) as f64;
    c.sizes.elements(c.operands[0]).times(&N::of(100.0 + 4.0 * modes))
}

/// Three more transforms, and the numbers of the kernel three times.
pub fn scan_grad<N: Number>(c: &Costed<'_, N>) -> N {
    let modes = c.operands[2].dims().get(1).and_then(Dim::fixed).unwrap_or(1) as f64;
    c.sizes.elements(c.operands[0]).times(&N::of(150.0 + 12.0 * modes))
}

/// How many positions hold the neighbour of one, on the mean: one as long as existence is whole, more as it fades.
const SHARES: f64 = 2.0;

/// A product and a sum per number and position that holds it. How many do depends on the existence, so this is an estimate.
pub fn neighbours<N: Number>(c: &Costed<'_, N>) -> N {
    c.each(2.0 * SHARES)
}

/// Two products and two sums.
pub fn neighbours_grad<N: Number>(c: &Costed<'_, N>) -> N {
    c.each(4.0 * SHARES)
}

/// Floating-point operations of one run of a node, without its body.
pub fn node_cost<N: Algebra>(graph: &Graph, id: NodeId, sizes: &dyn Extent<N>) -> N {
    let node = graph.node(id);
    N::ask(node.op.def().cost, &Costed::node(graph, node, sizes))
}

/// Floating-point operations of a region for the given sizes. Only steps that rows accept are counted.
pub fn region_cost<N: Algebra>(graph: &Graph, region: RegionId, sizes: &Sizes<N>) -> N {
    let mut sum = N::of(0.0);
    for &id in graph.nodes(region) {
        sum = sum.plus(&node_cost(graph, id, sizes));
        let Some(body) = graph.node(id).body else { continue };
        for turns in turns(graph, id, sizes) {
            sum = sum.plus(&turns.steps.times(&region_cost(graph, body, &turns.sizes)));
        }
    }
    sum
}

/// Steps of a loop that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Turns<N = f64> {
    /// How many there are.
    pub steps: N,
    /// Steps that rows try and do not take, of rows that halt before the bound.
    pub rejected: N,
    /// The sizes inside.
    pub sizes: Sizes<N>,
}

/// How often a loop runs its body, and the sizes inside: for chunks the full ones, and the last one; for a fold those of all
/// rows and of a level at once. An `unwind` runs as often as the loop whose tape it has.
pub fn turns<N: Number>(graph: &Graph, id: NodeId, sizes: &Sizes<N>) -> Vec<Turns<N>> {
    let backward = graph.node(id).op == Op::Unwind;
    let tape = graph.node(id).operands.first().filter(|_| backward);
    let forward = tape.and_then(|tape| loops::forward(graph, *tape)).unwrap_or(id);
    let node = graph.node(forward);
    match node.op {
        Op::Chunks => chunks(graph, node, sizes),
        Op::Fold => fold(node, sizes),
        Op::Part => part(graph, forward, sizes),
        // The backward run sees no step that was rejected.
        Op::Beam => vec![Turns { steps: N::of(1.0), rejected: N::of(0.0), sizes: sizes.clone() }],
        _ if backward => vec![Turns { rejected: N::of(0.0), ..depth(graph, forward, sizes) }],
        _ => vec![depth(graph, forward, sizes)],
    }
}

fn chunks<N: Number>(graph: &Graph, node: &Node, sizes: &Sizes<N>) -> Vec<Turns<N>> {
    let (length, axes) = (over(node, sizes), Axes::of(node));
    if node.get(attribute::CUT) == Chunking::Chosen {
        let expected = node.operands.first().and_then(|choice| chosen(graph, *choice, &length));
        let sizes = sizes.with(axes.chunk, expected.unwrap_or(length));
        return vec![Turns { steps: N::of(1.0), rejected: N::of(0.0), sizes }];
    }
    let width = Widths::of(node).of_length(&length);
    let full = length.pieces(&width).minus(&N::of(1.0));
    let rest = length.minus(&full.times(&width));
    let one = |steps, size| Turns { steps, rejected: N::of(0.0), sizes: sizes.with(axes.chunk, size) };
    vec![one(full, width), one(N::of(1.0), rest)]
}

/// How many of `length` positions a choice takes on the mean, where the graph says so: those of a `top` along the row, its share of the
/// steps where it chooses among channels of which each step has one, and no more than each of two choices that both must hold.
fn chosen<N: Number>(graph: &Graph, choice: Value, length: &N) -> Option<N> {
    let node = graph.node(graph.producer(choice)?);
    let x = *node.operands.first()?;
    match node.op {
        Op::Top if graph.ty(x).dims().len() == 2 => {
            let steps = node.operands.last().and_then(|step| loops::counted(graph, *step));
            let steps = steps.and_then(|recur| graph.node(recur).get(attribute::BOUND).steps()).unwrap_or(1).max(1);
            let count = match node.get(attribute::OF) {
                StepBound::Steps(count) => N::of(count.max(1) as f64).least(length, "K"),
                StepBound::Rule(rule) => {
                    let rule = Expr::try_from(rule).ok()?;
                    let each = (0..steps).map(|step| N::depth(&rule.at_step(step as i64), length));
                    each.reduce(|a, b| a.plus(&b))?.times(&N::of(1.0 / steps as f64))
                }
            };
            Some(count)
        }
        Op::SlotGet => {
            let top = graph.node(graph.producer(x)?);
            let (_, slots) = graph.ty(x).slots().filter(|_| top.op == Op::Top)?;
            let count = top.get(attribute::OF).steps()?.clamp(1, slots.max(1));
            Some(length.times(&N::of(count as f64 / slots as f64)))
        }
        Op::Map => {
            let [Scalar::Call(Pointwise::Mul | Pointwise::ChainMul, _)] = &pointwise::results(&node.attrs).ok()?[..]
            else {
                return None;
            };
            let known = node.operands.iter().filter_map(|v| chosen(graph, *v, length));
            known.reduce(|a, b| a.least(&b, "K"))
        }
        _ => None,
    }
}

/// How many steps a loop takes one after the other. The chunks of a level of a fold run side by side.
pub fn sequence<N: Number>(graph: &Graph, id: NodeId, sizes: &Sizes<N>) -> N {
    let node = graph.node(id);
    match Cut::of(node).filter(|_| node.op == Op::Fold) {
        Some(cut) => N::levels(cut, &over(node, sizes)),
        None if node.op == Op::Beam => searched(node, Count::Steps, sizes),
        None => turns(graph, id, sizes).iter().fold(N::of(0.0), |sum, turns| sum.plus(&turns.steps)),
    }
}

fn fold<N: Number>(node: &Node, sizes: &Sizes<N>) -> Vec<Turns<N>> {
    let Some(cut) = Cut::of(node) else { return vec![] };
    let (rows, axes) = (sizes.dim(&Dim::sym(BATCH)), Axes::of(node));
    let alike = |(count, width): (N, N)| {
        let inside = sizes.with(BATCH, rows.times(&count)).with(axes.chunk, width.clone());
        // What is filled at one level alone is too little to count.
        let whole = if cut.padding == Padding::Levels { N::of(cut.arity as f64) } else { width };
        let inside = if axes.filled.is_empty() { inside } else { inside.with(axes.filled, whole) };
        Turns { steps: N::of(1.0), rejected: N::of(0.0), sizes: inside }
    };
    N::fold(cut, &over(node, sizes)).into_iter().map(alike).collect()
}

/// All pairs of all rows that a search joins, or that it scores, in one run: as they are in many, it is the same for what
/// works on rows.
fn part<N: Number>(graph: &Graph, id: NodeId, sizes: &Sizes<N>) -> Vec<Turns<N>> {
    let node = graph.node(id);
    let Some(search) = graph.owner(node.region).map(|owner| graph.node(owner)) else { return vec![] };
    let joins = node.get(attribute::ROLE) == Role::Join;
    let pairs = searched(search, if joins { Count::Joined } else { Count::Scored }, sizes);
    let rows = sizes.dim(&Dim::sym(BATCH)).times(&pairs);
    let sizes = sizes.with(BATCH, rows).with(Axes::of(search).chunk, N::of(2.0));
    vec![Turns { steps: N::of(1.0), rejected: N::of(0.0), sizes }]
}

/// What a search does with every row.
fn searched<N: Number>(search: &Node, count: Count, sizes: &Sizes<N>) -> N {
    BeamRules::of(search).map_or(N::of(0.0), |beams| N::search(beams, count, &over(search, sizes)))
}

/// The size of the axis that a loop cuts.
fn over<N: Number>(node: &Node, sizes: &Sizes<N>) -> N {
    sizes.dim(&Dim::sym(Axes::of(node).over))
}

fn depth<N: Number>(graph: &Graph, id: NodeId, sizes: &Sizes<N>) -> Turns<N> {
    let (rule, length) = (RowDepth::of(graph, id), |axis: &str| sizes.dim(&Dim::sym(axis)));
    let steps = rule.steps(&length, sizes.depth.as_ref());
    // Where rows stop short of the bound by less than a step on the mean, only so many can have stopped early.
    let rejected = rule.bound(&length).minus(&steps).least(&N::of(1.0), "R");
    let sizes = Sizes { around: Some(steps.clone()), ..sizes.clone() };
    Turns { steps, rejected, sizes }
}
