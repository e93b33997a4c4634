//! What attention holds besides its results while it runs: by what a processor finds the keys of a query; with positions relative to one
//! another the codes of all distances of the batch, and for the backward run what every row and head adds to their gradients; what every row adds to those of the matrices of
//! talking heads; what is added to the gradients of a bias; and what attention to the slots of positions copies.

use super::MemoryTarget;
use super::pool::{ByteAmount, PooledBlock};
use super::walk::{BatchSizes, MemoryWalk};
use crate::expr::{Expr, ScaledScore, ScoreExpr, Var, distances, pairs_by_distance, tables};
use crate::ir::attribute::{self, Mask};
use crate::ir::cost::Sizes;
use crate::ir::formula::Formula;
use crate::ir::graph::{Node, Value};
use crate::ir::join::{KeyJoin, SIDES};
use crate::ir::number::Number;
use crate::ir::ops::Op;
use crate::ir::places::PairPlaces;
use crate::ir::types::{BATCH, Dim, Elem, Type};

/// The map that makes codes of sines and cosines, for an attention that has one: the last operand.
pub(super) fn map_of_codes(node: &Node) -> Option<Value> {
    let attends = matches!(node.op, Op::Attention | Op::AttentionGrad);
    let own = attends.then(|| node.behind().relative)?;
    node.operands[own].last().copied()
}

impl BatchSizes {
    fn amount(&self, number: usize, formula: impl FnOnce(&Sizes<Formula>) -> Formula) -> ByteAmount {
        ByteAmount { number: number as u64, formula: self.symbols.as_deref().map(formula) }
    }

    fn fixed(&self, number: usize) -> ByteAmount {
        self.amount(number, |_| Formula::of(number as f64))
    }

    /// The longest row on an axis.
    fn longest(&self, dim: &Dim) -> ByteAmount {
        match dim {
            Dim::Fixed(n) => self.fixed(*n),
            Dim::Sym(axis) => self.amount(self.axis(axis).iter().copied().max().unwrap_or(0), |sizes| sizes.dim(dim)),
        }
    }

    /// Pairs of places on two axes, of all rows.
    fn pairs(&self, a: &Dim, b: &Dim) -> ByteAmount {
        let of = |dim: &Dim, row: usize| match dim {
            Dim::Fixed(n) => *n,
            Dim::Sym(axis) => self.axis(axis).get(row).copied().unwrap_or(0),
        };
        let pairs = (0..self.rows).map(|row| of(a, row).saturating_mul(of(b, row)));
        let count = pairs.fold(0, usize::saturating_add);
        self.amount(count, |sizes| sizes.dim(&Dim::sym(BATCH)).times(&sizes.dim(a)).times(&sizes.dim(b)))
    }
}

/// Numbers of 4 bytes, as large as what a processor keeps: of a distance in a list, of the keys of a query that a join found, of those by
/// which a key is sorted, and of the range of a query.
const DISTANCE: usize = 2;
const FOUND: usize = 3;
const SORTED_BY: usize = 2 * SIDES;
const RANGE: usize = 6;

/// A value without an axis has one place.
const ONE: Dim = Dim::Fixed(1);

impl MemoryWalk<'_> {
    /// Takes these buffers; nothing for other nodes.
    pub(super) fn distances(&self, node: &Node, env: &BatchSizes) -> Vec<PooledBlock> {
        let more = self.mixtures(node, env).into_iter().chain(self.slopes(node, env)).chain(self.statistics(node, env));
        let more = more.chain(self.factors(node, env)).chain(self.histories(node, env));
        let found = self.found_keys(node, env);
        found.into_iter().chain(self.codes(node, env)).chain(more).collect()
    }

    /// Three numbers of the softmax of every query and head, which the backward run on a device keeps.
    fn statistics(&self, node: &Node, env: &BatchSizes) -> Option<PooledBlock> {
        let attends = node.op == Op::AttentionGrad && self.target == MemoryTarget::Device;
        let queries = self.plan.graph.ty(attends.then(|| node.operands[0])?).dims().get(1).unwrap_or(&ONE);
        Some(self.pool.take(env.pairs(queries, &ONE).times(&env.fixed(3 * node.get(attribute::HEADS)))))
    }

    /// The axes of the queries and of the keys.
    fn sides(&self, node: &Node) -> [&Dim; 2] {
        [0, 1].map(|n| self.plan.graph.ty(node.operands[n]).dims().get(1).unwrap_or(&ONE))
    }

    /// The distances from the first to the last one that a mask shows in the longest row.
    fn distances_seen(&self, node: &Node, mask: Option<&Expr>, env: &BatchSizes) -> ByteAmount {
        let ([queries, keys], one) = (self.sides(node), env.fixed(1));
        let (low, high) = mask.map_or((f64::NEG_INFINITY, f64::INFINITY), distances);
        let side = |dim: &Dim, most: f64| {
            let longest = env.longest(dim).minus(&one);
            if most < longest.number as f64 { env.fixed(most.max(0.0) as usize) } else { longest }
        };
        let is_causal = node.get(attribute::MASK) == Mask::Causal;
        let ahead = if is_causal { env.fixed(0) } else { side(keys, -low) };
        side(queries, high).plus(&ahead).plus(&one)
    }

    /// By what a processor finds the keys of a query: the numbers of all distances, or the range of every query, and where a mask has
    /// joins the sorted keys of every row and which of them a query sees.
    fn found_keys(&self, node: &Node, env: &BatchSizes) -> Vec<PooledBlock> {
        let is_asked = matches!(node.op, Op::Attention | Op::AttentionGrad) && self.target == MemoryTarget::Processor;
        let Some(score) = is_asked.then(|| node.attrs.score().ok()).flatten() else { return vec![] };
        let of = |attr| Expr::try_from(attr).ok();
        let (mask, stop) = (node.get(attribute::MASK).rule().and_then(of), node.find(attribute::STOP).and_then(of));
        let places = PairPlaces::of(&self.plan.graph, node);
        let heads = node.get(attribute::HEADS);
        let mask = match mask {
            None if places != PairPlaces::Own && node.get(attribute::MASK) == Mask::Causal => Some(Expr::past()),
            mask => mask,
        };
        if places == PairPlaces::Own && pairs_by_distance(mask.as_ref(), &score, stop.as_ref()) {
            if mask.is_none() && stop.is_none() && score.of_pairs().is_none() {
                return vec![];
            }
            let biases = if score.of_pairs().is_some() { heads } else { 0 };
            let each = env.fixed(biases + DISTANCE);
            return vec![self.pool.take(self.distances_seen(node, mask.as_ref(), env).times(&each))];
        }
        let Some(mask) = mask else { return vec![] };
        let [queries, keys] = self.sides(node).map(|dim| env.pairs(dim, &ONE));
        let joins = if places == PairPlaces::Own { KeyJoin::of_heads(&mask, heads) } else { vec![] };
        let joins: Vec<&KeyJoin> = joins.iter().flatten().collect();
        let by_head = mask.uses(Var::Head);
        let differing = if by_head { heads } else { 1 };
        let mut held = vec![];
        if let Some(most) = joins.iter().map(|join| join.alternatives.len()).max() {
            let lists = env.fixed(differing * most);
            held.push(self.pool.take(queries.clone().times(&lists).times(&env.fixed(FOUND))));
            if joins.iter().any(|join| join.sorts()) {
                held.push(self.pool.take(keys.clone().times(&lists)));
                drop(self.pool.take(keys.times(&env.fixed(SORTED_BY))));
            }
        }
        if !by_head || !joins.is_empty() {
            held.push(self.pool.take(queries.times(&env.fixed(differing * RANGE))));
        }
        held
    }

    /// The terms of the gradients of a bias. A processor holds for every row and head one number of each distance, or of all
    /// that a row reads; a device holds one of every distance, or of every pair of a query and a key.
    fn slopes(&self, node: &Node, env: &BatchSizes) -> Option<PooledBlock> {
        let of = |attr| Expr::try_from(attr).ok();
        let score = (node.op == Op::AttentionGrad).then(|| node.attrs.score().ok())??;
        score.of_pairs()?;
        let mask = node.get(attribute::MASK).rule().and_then(of);
        let stop = node.find(attribute::STOP).and_then(of);
        let (ty, on_device) = (|v: &Value| self.plan.graph.ty(*v), self.target == MemoryTarget::Device);
        let is_number = |v: &&Value| ty(v).elem() != Some(Elem::Index);
        let learned: Vec<&Value> = node.operands[4..node.behind().reads.end].iter().filter(is_number).collect();
        if on_device && learned.is_empty() {
            return None;
        }
        let one = env.fixed(1);
        let [queries, keys] = self.sides(node);
        let heads = env.fixed(node.get(attribute::HEADS));
        let rows = env.amount(env.rows, |sizes| sizes.dim(&Dim::sym(BATCH)));
        let places = PairPlaces::of(&self.plan.graph, node);
        let by_distance = places == PairPlaces::Own && pairs_by_distance(mask.as_ref(), &score, stop.as_ref());
        let numbers = if by_distance {
            let count = self.distances_seen(node, mask.as_ref(), env);
            if on_device { count } else { count.times(&rows) }
        } else if on_device {
            // Those of a score that is no sum are worked out again from the products.
            let each = if matches!(score, ScoreExpr::Whole(_)) { 2 } else { 1 };
            let slots =
                ty(&node.operands[1]).slots().filter(|_| places == PairPlaces::Slots).map_or(1, |(_, slots)| slots);
            env.pairs(queries, keys).times(&env.fixed(each * slots))
        } else {
            let of = |value: &Value| {
                let dims = ty(value).dims().iter().filter(|dim| **dim != Dim::sym(BATCH));
                dims.fold(one.clone(), |all, dim| all.times(&env.longest(dim)))
            };
            learned.into_iter().map(of).fold(env.fixed(0), |all, size| all.plus(&size)).times(&rows)
        };
        Some(self.pool.take(numbers.times(&heads)))
    }

    /// The queries that are multiplied before they meet keys, and by what, of every head; a device multiplies scores.
    fn factors(&self, node: &Node, env: &BatchSizes) -> Vec<PooledBlock> {
        let attends = matches!(node.op, Op::Attention | Op::AttentionGrad) && self.target != MemoryTarget::Device;
        let score = attends.then(|| node.find(attribute::SCORE)).flatten();
        let whole = score.filter(|_| !node.has(attribute::POSITION)).and_then(|score| {
            match ScoreExpr::of(&Expr::try_from(score).ok()?) {
                ScoreExpr::Whole(expr) => Some(expr),
                ScoreExpr::Parts { .. } => None,
            }
        });
        if whole.is_none_or(|expr| ScaledScore::of(&expr, &tables(&expr).operands()).is_none()) {
            return vec![];
        }
        let queries = self.plan.graph.ty(node.operands[0]);
        let heads = env.fixed(node.get(attribute::HEADS));
        let numbers = env.numbers(queries);
        let each = env.numbers(&Type::real(queries.dims()[..queries.dims().len() - 1].to_vec()));
        [numbers, each.times(&heads)].into_iter().map(|size| self.pool.take(size)).collect()
    }

    /// Keys and values of all steps side by side, and their gradients.
    fn histories(&self, node: &Node, env: &BatchSizes) -> Vec<PooledBlock> {
        let copies = match node.op {
            Op::Attention => 1,
            Op::AttentionGrad => 2,
            _ => return vec![],
        };
        let both = node.operands[1..3].iter().map(|v| self.plan.graph.ty(*v)).filter(|ty| ty.dims().len() > 3);
        both.flat_map(|ty| (0..copies).map(|_| self.pool.take(env.numbers(ty)))).collect()
    }

    fn mixtures(&self, node: &Node, env: &BatchSizes) -> Option<PooledBlock> {
        let both = node.behind().talking;
        let own = (node.op == Op::AttentionGrad && !both.is_empty()).then(|| node.get(attribute::HEADS))?;
        let rows = env.amount(env.rows, |sizes| sizes.dim(&Dim::sym(BATCH)));
        Some(self.pool.take(rows.times(&env.fixed(2 * own * own))))
    }

    fn codes(&self, node: &Node, env: &BatchSizes) -> Vec<PooledBlock> {
        let Some(map) = map_of_codes(node) else { return vec![] };
        let dims = |value: Value| self.plan.graph.ty(value).dims();
        let last = |value: Value| env.fixed(dims(value).last().and_then(Dim::fixed).unwrap_or(1));
        let longest = |n: usize| dims(node.operands[n]).get(1).map_or_else(|| env.fixed(1), |dim| env.longest(dim));
        let causal = node.get(attribute::MASK) == Mask::Causal;
        // From the longest row of queries down to 0, or to the longest row of keys ahead.
        let count = if causal { longest(0) } else { longest(0).plus(&longest(1)).minus(&env.fixed(1)) };
        let (channels, width) = (last(map), last(node.operands[0]));
        let mut sizes = vec![count.clone().times(&channels), count.clone().times(&width)];
        if node.op == Op::AttentionGrad {
            // Gradients of the codes and of both shifts by row; then those of the codes of all rows together.
            let rows = env.amount(env.rows, |sizes| sizes.dim(&Dim::sym(BATCH)));
            sizes.extend([count.clone().plus(&env.fixed(2)).times(&width).times(&rows), count.times(&width)]);
        }
        sizes.into_iter().map(|size| self.pool.take(size)).collect()
    }
}
