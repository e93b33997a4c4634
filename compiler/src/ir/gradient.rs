//! Gradient rules: how cotangents of an op's results become cotangents of its operands.
//!
//! A rule may use the operands and results of the forward node freely, also from inside a loop: the `grad` pass turns
//! such uses into saved values. Unneeded nodes that a rule emits are removed afterwards, so rules need not ask
//! which operands want a gradient.

use super::attribute::{self, At, Attrs, Reduction, Side};
use super::graph::{Node, Value};
use super::ops::Op;
use super::pointwise::{self, Pointwise, Scalar};
use super::types::{Dim, Type};

/// Where a rule puts its nodes.
pub trait Backward {
    /// Emits a node into the backward region; the rule's operands fit by construction.
    fn emit(&mut self, op: Op, operands: &[Value], attrs: Attrs) -> Vec<Value>;
    /// The type of a value.
    fn ty(&self, value: Value) -> Type;
}

/// Gives one optional cotangent per operand, from one optional cotangent per result.
pub type GradientRule = fn(&mut dyn Backward, &Node, &[Option<Value>]) -> Vec<Option<Value>>;

type B<'a> = &'a mut dyn Backward;
type Out = Vec<Option<Value>>;

fn one(b: B<'_>, op: Op, operands: &[Value]) -> Option<Value> {
    with(b, op, operands, Attrs::new())
}

fn with(b: B<'_>, op: Op, operands: &[Value], attrs: Attrs) -> Option<Value> {
    b.emit(op, operands, attrs).first().copied()
}

fn several(b: B<'_>, op: Op, operands: &[Value], attrs: &Attrs) -> Out {
    b.emit(op, operands, attrs.clone()).into_iter().map(Some).collect()
}

/// The cotangent of the only result, or an early return without gradients.
macro_rules! cotangent {
    ($node:expr, $dy:expr) => {
        match $dy.first() {
            Some(Some(value)) => *value,
            _ => return vec![None; $node.operands.len()],
        }
    };
}

/// Rules for ops with one result, from its cotangent `dy`.
macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident($b:ident, $node:ident, $dy:ident) => $gradients:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name($b: B<'_>, $node: &Node, $dy: &[Option<Value>]) -> Out {
            let $dy = cotangent!($node, $dy);
            $gradients
        }
    )*};
}

/// No gradient: leaves, conditions, backward ops, and ops made by `fuse` after differentiation.
pub fn none(_: B<'_>, node: &Node, _: &[Option<Value>]) -> Out {
    vec![None; node.operands.len()]
}

rules! {
    /// `dtable[v]` collects `dy` where the id is v.
    embed(b, node, dy) => vec![None, one(b, Op::EmbedGrad, &[node.operands[0], dy, node.operands[1]])];
    /// `dy`, and for every row of the table the sum over the positions with its number.
    add_position(b, node, dy) => {
        let mut out = vec![Some(dy)];
        if let Some(table) = node.operands.get(1) {
            out.push(one(b, Op::AddPositionGrad, &[dy, *table]));
        }
        out
    };
    /// Cut into the row and what stands before it.
    pad_ragged(b, node, dy) => {
        let [x, pad] = node.operands[..] else { return vec![] };
        several(b, Op::PadRaggedGrad, &[dy, x, pad], &Attrs::new())
    };
    /// The row, and the positions before it.
    prefix(b, node, dy) => {
        let (of_x, of_v) = (last_size(b, node.operands[0]), last_size(b, node.operands[1]));
        let count = Attrs::of(attribute::COUNT, of_v / of_x);
        vec![with(b, Op::Unprefix, &[dy], count.clone()), with(b, Op::PrefixGrad, &[dy], count)]
    };
    /// Behind positions that have no gradient.
    unprefix(b, node, dy) => {
        let first = b.emit(Op::Position, &[dy], Attrs::of(attribute::AT, At::First));
        let zeros = b.emit(Op::Full, &first, Attrs::of(attribute::VALUE, 0.0).with(attribute::RANK, 2_usize))[0];
        let width = last_size(b, zeros) * node.get(attribute::COUNT);
        let zeros = b.emit(Op::Pad, &[zeros], channels(0, width))[0];
        vec![one(b, Op::Prefix, &[dy, zeros])]
    };
    /// The inverse.
    transpose(b, node, dy) => vec![one(b, Op::TransposeBack, &[dy, node.operands[0]])];
    /// The inverse.
    transpose_back(b, node, dy) => {
        let count = last_size(b, node.operands[0]);
        vec![with(b, Op::Transpose, &[dy], Attrs::of(attribute::COUNT, count)), None]
    };
    /// Cut into the row, START and END.
    frame(b, node, dy) => {
        let [x, start, end] = node.operands[..] else { return vec![] };
        several(b, Op::FrameGrad, &[dy, x, start, end], &Attrs::new())
    };
    /// Sum over the batch.
    broadcast_batch(b, node, dy) => vec![one(b, Op::SumBatch, &[dy]), None];
    /// `dy / n` at every position.
    mean(b, node, dy) => vec![with(b, Op::BroadcastRows, &[dy, node.operands[0]], Attrs::of(attribute::SHARED, true))];
    /// `dy` at every position.
    sum(b, node, dy) => vec![one(b, Op::BroadcastRows, &[dy, node.operands[0]])];
    /// The sum over the positions, or their mean where they share.
    broadcast_rows(b, node, dy) => {
        let op = if node.get(attribute::SHARED) { Op::Mean } else { Op::Sum };
        vec![one(b, op, &[dy]), None]
    };
    /// To the position that was read.
    position(b, node, dy) => vec![with(b, Op::PositionGrad, &[dy, node.operands[0]], node.attrs.clone())];
    /// To the position of the largest value.
    max(b, node, dy) => vec![one(b, Op::MaxGrad, &[dy, node.operands[0]])];
}

/// The op itself from the other side.
fn mirrored(b: B<'_>, node: &Node, dy: Value) -> Out {
    let other = match node.get(attribute::SIDE) {
        Side::Left => Side::Right,
        Side::Right => Side::Left,
    };
    vec![with(b, node.op, &[dy], node.attrs.clone().with(attribute::SIDE, other))]
}

rules! {
    /// As far to the other side.
    shift(b, node, dy) => mirrored(b, node, dy);
    /// The sum over the positions that have read each one.
    running_sum(b, node, dy) => mirrored(b, node, dy);
}

/// To all channels, or to the one with the largest number.
pub fn reduce(b: B<'_>, node: &Node, dy: &[Option<Value>]) -> Out {
    let mut dy = cotangent!(node, dy);
    let Some(width) = b.ty(node.operands[0]).dims().last().and_then(Dim::fixed) else {
        return vec![reduce_unknown(b, node, dy)];
    };
    match node.get(attribute::BY) {
        Reduction::Max => return vec![one(b, Op::ReduceMaxGrad, &[dy, node.operands[0]])],
        Reduction::Mean if width > 1 => {
            let share = Scalar::call(Pointwise::Mul, vec![Scalar::Number(1.0 / width as f64), Scalar::Operand(0)]);
            let (operands, attrs) = pointwise::map(&[share], &[dy]);
            dy = b.emit(Op::Map, &operands, attrs)[0];
        }
        Reduction::Mean | Reduction::Sum => {}
    }
    vec![with(b, Op::BroadcastChannels, &[dy], Attrs::of(attribute::WIDTH, width))]
}

/// The same over as many channels as a task has classes or tokens.
fn reduce_unknown(b: B<'_>, node: &Node, mut dy: Value) -> Option<Value> {
    let x = node.operands[0];
    let rank = b.ty(x).dims().len();
    let ones = b.emit(Op::Full, &[x], Attrs::of(attribute::VALUE, 1.0).with(attribute::RANK, rank))[0];
    match node.get(attribute::BY) {
        Reduction::Max => return one(b, Op::ReduceMaxGrad, &[dy, x]),
        Reduction::Mean => {
            let width = b.emit(Op::Reduce, &[ones], Attrs::of(attribute::BY, Reduction::Sum))[0];
            let (operands, attrs) = pointwise::map(&[Pointwise::ChainDiv.of_operands()], &[dy, width]);
            dy = b.emit(Op::Map, &operands, attrs)[0];
        }
        Reduction::Sum => {}
    }
    let dy = b.emit(Op::Squeeze, &[dy], Attrs::new())[0];
    one(b, Op::MulUnit, &[ones, dy])
}

rules! {
    /// The sum over the channels.
    broadcast_channels(b, node, dy) => vec![with(b, Op::Reduce, &[dy], Attrs::of(attribute::BY, Reduction::Sum))];
    /// From the result.
    softmax(b, node, dy) => vec![one(b, Op::SoftmaxGrad, &[node.results[0], dy])];
}

fn last_size(b: B<'_>, value: Value) -> usize {
    b.ty(value).dims().last().and_then(Dim::fixed).expect("channels have a fixed size")
}

fn channels(start: usize, width: usize) -> Attrs {
    Attrs::of(attribute::START, start).with(attribute::WIDTH, width)
}

/// Each side gets its channels.
pub fn concat(b: B<'_>, node: &Node, dy: &[Option<Value>]) -> Out {
    let dy = cotangent!(node, dy);
    let (m, n) = (last_size(b, node.operands[0]), last_size(b, node.operands[1]));
    vec![with(b, Op::Slice, &[dy], channels(0, m)), with(b, Op::Slice, &[dy], channels(m, n))]
}

/// Zeros around the channels.
pub fn slice(b: B<'_>, node: &Node, dy: &[Option<Value>]) -> Out {
    let dy = cotangent!(node, dy);
    let width = last_size(b, node.operands[0]);
    let start = node.get(attribute::START);
    vec![with(b, Op::Pad, &[dy], channels(start, width))]
}

/// The placed channels.
pub fn pad(b: B<'_>, node: &Node, dy: &[Option<Value>]) -> Out {
    let dy = cotangent!(node, dy);
    let width = last_size(b, node.operands[0]);
    let start = node.get(attribute::START);
    vec![with(b, Op::Slice, &[dy], channels(start, width))]
}

rules! {
    /// Back to the old axes.
    squeeze(b, node, dy) => vec![one(b, Op::Unsqueeze, &[dy])];
    /// Back to the old axes.
    unsqueeze(b, node, dy) => vec![one(b, Op::Squeeze, &[dy])];
    /// To the numbers.
    sinusoid(b, node, dy) => {
        let mut attrs = node.attrs.clone();
        attrs.remove(attribute::WIDTH);
        vec![with(b, Op::SinusoidGrad, &[dy, node.operands[0]], attrs)]
    };
    /// Back to one axis.
    split(b, node, dy) => vec![one(b, Op::Merge, &[dy])];
    /// Back to two axes.
    merge(b, node, dy) => {
        let dims = b.ty(node.operands[0]).dims().to_vec();
        let parts = dims.iter().rev().nth(1).and_then(Dim::fixed).expect("merged axes have fixed sizes");
        vec![with(b, Op::Split, &[dy], Attrs::of(attribute::PARTS, parts))]
    };
    /// `da = dy b^T`, `db = a^T dy`, each transposed where its operand was.
    matmul(b, node, dy) => {
        let (x, y) = (node.operands[0], node.operands[1]);
        let mut product = |operands: [Value; 2], side: Option<Side>| {
            with(b, Op::Matmul, &operands, Attrs::new().with_some(attribute::TRANSPOSED, side))
        };
        match node.find(attribute::TRANSPOSED) {
            None => vec![product([dy, y], Some(Side::Right)), product([x, dy], Some(Side::Left))],
            Some(Side::Left) => vec![product([y, dy], Some(Side::Right)), product([x, dy], None)],
            Some(Side::Right) => vec![product([dy, y], None), product([dy, x], Some(Side::Left))],
        }
    };
    /// Product rule on `u v`, sign rule on `|u - v|` (0 at equality).
    pair(b, node, dy) => vec![one(b, Op::PairGrad, &[dy, node.operands[0]])];
    /// `dx = dy w`, `dw = dy^T x`, `dbias = sum dy`.
    linear(b, node, dy) => {
        let (x, w) = (node.operands[0], node.operands[1]);
        let mut out = vec![one(b, Op::LinearGradInput, &[dy, w]), one(b, Op::LinearGradWeight, &[dy, x, w])];
        if node.operands.len() > 2 {
            out.push(one(b, Op::ColumnSum, &[dy]));
        }
        out
    };
    /// All gradients in one pass; that of a bias that is not there is left out.
    layer_norm(b, node, dy) => {
        let mut out = several(b, Op::LayerNormGrad, &[node.operands[0], node.operands[1], dy], &node.attrs);
        out.truncate(node.operands.len());
        out
    };
    /// Input and gain in one pass.
    rms_norm(b, node, dy) => {
        let mut operands = node.operands.clone();
        operands.insert(1, dy);
        several(b, Op::RmsNormGrad, &operands, &node.attrs)
    };
}

/// The slopes of the expressions: those of all operands in one map, but for cotangents that pass through unchanged.
pub fn map(b: B<'_>, node: &Node, dy: &[Option<Value>]) -> Out {
    let exprs = pointwise::results(&node.attrs).expect("the shape rule has read the expressions");
    let wanted: Vec<bool> = dy.iter().map(Option::is_some).collect();
    // Only cotangents that are there occur in what follows.
    let there = node.results.iter().zip(dy).map(|(y, dy)| dy.unwrap_or(*y));
    let values: Vec<Value> = node.operands.iter().chain(&node.results).copied().chain(there).collect();
    let shares = pointwise::gradients(&exprs, node.operands.len(), &wanted);
    let computed: Vec<Scalar> =
        shares.iter().flatten().filter(|share| matches!(share, Scalar::Call(..))).cloned().collect();
    let mut made = vec![];
    if !computed.is_empty() {
        let (operands, attrs) = pointwise::map(&computed, &values);
        made = b.emit(Op::Map, &operands, attrs);
    }
    let mut made = made.into_iter();
    let value = |share: Option<Scalar>| match share? {
        Scalar::Operand(n) => Some(values[n]),
        _ => made.next(),
    };
    shares.into_iter().map(value).collect()
}

/// `gain dy`, the sums of `x dy` and of `dy`.
pub fn affine(b: B<'_>, node: &Node, dy: &[Option<Value>]) -> Out {
    let dy = cotangent!(node, dy);
    let dx = one(b, Op::Affine, &[dy, node.operands[1]]);
    let (product, attrs) = pointwise::map(&[Pointwise::ChainMul.of_operands()], &[dy, node.operands[0]]);
    let product = b.emit(Op::Map, &product, attrs)[0];
    let mut out = vec![dx, one(b, Op::ColumnSum, &[product])];
    if node.operands.len() > 2 {
        out.push(one(b, Op::ColumnSum, &[dy]));
    }
    out
}

/// Each side where it was taken.
pub fn select(b: B<'_>, node: &Node, dy: &[Option<Value>]) -> Out {
    let dy = cotangent!(node, dy);
    let c = node.operands[0];
    vec![
        None,
        with(b, Op::MaskUnit, &[dy, c], Attrs::of(attribute::WHEN, true)),
        with(b, Op::MaskUnit, &[dy, c], Attrs::of(attribute::WHEN, false)),
    ]
}

/// The same mask on `dy`.
pub fn mask_unit(b: B<'_>, node: &Node, dy: &[Option<Value>]) -> Out {
    let dy = cotangent!(node, dy);
    vec![with(b, Op::MaskUnit, &[dy, node.operands[1]], node.attrs.clone()), None]
}

/// `s dy` and the scalar product of `dy` and x per unit.
pub fn mul_unit(b: B<'_>, node: &Node, dy: &[Option<Value>]) -> Out {
    let dy = cotangent!(node, dy);
    let (x, s) = (node.operands[0], node.operands[1]);
    let rank = b.ty(s).dims().len();
    vec![one(b, Op::MulUnit, &[dy, s]), with(b, Op::DotUnit, &[dy, x], Attrs::of(attribute::RANK, rank))]
}

/// `dy`, `s dy`, and the scalar product of `dy` and h per unit.
pub fn add_scaled(b: B<'_>, node: &Node, dy: &[Option<Value>]) -> Out {
    let dy = cotangent!(node, dy);
    let (h, s) = (node.operands[1], node.operands[2]);
    let rank = b.ty(s).dims().len();
    vec![Some(dy), one(b, Op::MulUnit, &[dy, s]), with(b, Op::DotUnit, &[dy, h], Attrs::of(attribute::RANK, rank))]
}

rules! {
    /// The same mask, drawn again.
    dropout(b, node, dy) => vec![with(b, Op::Dropout, &[dy], node.attrs.clone())];
}

/// The transposed map.
pub fn rotate(b: B<'_>, node: &Node, dy: &[Option<Value>]) -> Out {
    let dy = cotangent!(node, dy);
    let attrs = node.attrs.clone().with(attribute::TRANSPOSE, !node.get(attribute::TRANSPOSE));
    vec![with(b, Op::Rotate, &[dy], attrs)]
}

/// Queries, keys, values and what follows the counter of steps in one pass.
pub fn attention(b: B<'_>, node: &Node, dy: &[Option<Value>]) -> Out {
    let dy = cotangent!(node, dy);
    let mut operands = vec![node.operands[0], node.operands[1], node.operands[2], dy];
    operands.extend(&node.operands[3..node.behind().talking.end]);
    let mut out = several(b, Op::AttentionGrad, &operands, &node.attrs);
    // The counter of steps stands before the tables.
    if out.len() < node.operands.len() {
        out.insert(3, None);
    }
    out
}

/// Queries, keys, values and sides in one pass.
pub fn geometric_attention(b: B<'_>, node: &Node, dy: &[Option<Value>]) -> Out {
    let dy = cotangent!(node, dy);
    let operands = [&node.operands[..3], &[dy], &node.operands[3..]].concat();
    several(b, Op::GeometricAttentionGrad, &operands, &node.attrs)
}

/// One op gives the gradients of all operands, which it takes with `dy` behind them.
fn all(b: B<'_>, op: Op, node: &Node, dy: Value) -> Out {
    let operands: Vec<Value> = node.operands.iter().copied().chain([dy]).collect();
    several(b, op, &operands, &node.attrs)
}

rules! {
    /// Rows and parameters in one pass.
    scan(b, node, dy) => {
        let operands = [&[node.operands[0], dy], &node.operands[1..]].concat();
        several(b, Op::ScanGrad, &operands, &node.attrs)
    };
    /// Positions and existences in one pass.
    neighbours(b, node, dy) => all(b, Op::NeighboursGrad, node, dy);
}

/// To the slot that was read.
pub fn slot_get(b: B<'_>, node: &Node, dy: &[Option<Value>]) -> Out {
    let dy = cotangent!(node, dy);
    let (x, step) = (node.operands[0], node.operands[1]);
    let rank = b.ty(x).dims().len();
    let zeros = b.emit(Op::Full, &[x], Attrs::of(attribute::VALUE, 0.0).with(attribute::RANK, rank))[0];
    vec![one(b, Op::SlotSet, &[zeros, dy, step]), None]
}

/// The slot goes to what was put there, the others to what they were.
pub fn slot_set(b: B<'_>, node: &Node, dy: &[Option<Value>]) -> Out {
    let dy = cotangent!(node, dy);
    let (y, step) = (node.operands[1], node.operands[2]);
    let rank = b.ty(y).dims().len();
    let zeros = b.emit(Op::Full, &[y], Attrs::of(attribute::VALUE, 0.0).with(attribute::RANK, rank))[0];
    vec![one(b, Op::SlotSet, &[dy, zeros, step]), one(b, Op::SlotGet, &[dy, step]), None]
}

fn loss(b: B<'_>, op: Op, node: &Node, dy: Value) -> Out {
    let operands: Vec<Value> = std::iter::once(dy).chain(node.operands.iter().copied()).collect();
    let mut out = vec![with(b, op, &operands, node.attrs.clone())];
    out.resize(node.operands.len(), None);
    out
}

rules! {
    /// `(p - one hot) dy`, or `(sigmoid - label) dy` of a single logit; times the slope of the logarithm of `g(a)` where the probabilities are proportional to it.
    cross_entropy_each(b, node, dy) => loss(b, Op::CrossEntropyEachGrad, node, dy);
    /// `dy / count`, or `dy weight / sum of weights`.
    average(b, node, dy) => loss(b, Op::AverageGrad, node, dy);
}
