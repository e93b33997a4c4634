//! What attention with positions relative to one another holds besides its results while it runs: the codes of all distances of the
//! batch, and for the backward run what every row and head adds to their gradients; and what every row adds to those of the matrices of
//! talking heads; and what attention to the slots of positions copies.

use super::pool::{ByteAmount, PooledBlock};
use super::walk::{BatchSizes, MemoryWalk};
use crate::ir::attribute::{self, Mask};
use crate::ir::cost::Sizes;
use crate::ir::formula::Formula;
use crate::ir::graph::{Node, Value};
use crate::ir::number::Number;
use crate::ir::ops::Op;
use crate::ir::types::{BATCH, Dim};

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
}

impl MemoryWalk<'_> {
    /// Takes these buffers; nothing for other nodes.
    pub(super) fn distances(&self, node: &Node, env: &BatchSizes) -> Vec<PooledBlock> {
        self.codes(node, env).into_iter().chain(self.mixtures(node, env)).chain(self.histories(node, env)).collect()
    }

    /// Keys and values of all steps side by side, and their gradients.
    fn histories(&self, node: &Node, env: &BatchSizes) -> Vec<PooledBlock> {
        let keys = node.operands.get(1).map(|v| self.plan.graph.ty(*v)).filter(|ty| ty.dims().len() > 3);
        let copies = match node.op {
            Op::Attention => 2,
            Op::AttentionGrad => 4,
            _ => 0,
        };
        keys.map_or_else(Vec::new, |keys| (0..copies).map(|_| self.pool.take(env.numbers(keys))).collect())
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
