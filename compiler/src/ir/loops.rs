//! The interface of loops: which operand, region parameter, yielded value and result belong together.
//!
//! A body has at most one `save`; its operands are, in order, the saved values that the `unwind` of the same tape
//! receives as its last region parameters.

use super::attribute::{self, CutBy, LastChunk, Padding, Role, Short, Single};
use super::graph::{Graph, Node, NodeId, RegionId, Value, ValueOrigin};
use super::ops::{Flag, Op};
use super::types::Type;
use crate::expr::{Expr, Var};

/// Counts of the parts of a loop's interface. Parts that an op does not have are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopLayout {
    /// Operands before the carried ones: 1 for the tape of an `unwind`.
    pub tape: usize,
    /// Carried values: operand, parameter, yielded value and result.
    pub carried: usize,
    /// Operands that the body receives slice by slice: sequences of `chunks`, cotangents of outputs of `unwind`.
    pub sliced: usize,
    /// Yielded values that the loop gives as results: outputs of `chunks`, means of `fold`, slices and captured of `unwind`.
    pub given: usize,
    /// Region parameters that come from the tape.
    pub saved: usize,
    /// 1 for the last parameter where no operand stands for it: the `step` of a `recur`, the pair that a `beam` scores.
    pub step: usize,
    /// 1 for the last yielded value where no result stands for it: the `go` condition of a `recur`, the score of a `beam`.
    pub go: usize,
}

impl LoopLayout {
    /// Number of region parameters.
    pub fn params(&self) -> usize {
        self.carried + self.sliced + self.saved + self.step
    }
}

/// The interface of a loop, from its attributes, operands and body.
pub fn layout(graph: &Graph, node: NodeId) -> LoopLayout {
    let n = graph.node(node);
    let operands = n.operands.len();
    let params = n.body.map_or(0, |b| graph.params(b).len());
    let yields = yielded(graph, node).len();
    match n.op {
        Op::Recur => {
            let go = usize::from(yields > operands);
            LoopLayout { carried: operands, step: 1, go, ..LoopLayout::default() }
        }
        // The carried value of a fold changes its type: nodes go in, a vector comes out.
        Op::Fold | Op::Part => {
            LoopLayout { carried: 1.min(operands), given: yields.saturating_sub(1), ..LoopLayout::default() }
        }
        Op::Beam => LoopLayout {
            carried: 1.min(operands),
            given: yields.saturating_sub(2),
            step: 1,
            go: 1,
            ..LoopLayout::default()
        },
        Op::Chunks => {
            let carried = n.get(attribute::CARRIED);
            let (sliced, given) = (operands.saturating_sub(carried), yields.saturating_sub(carried));
            LoopLayout { carried, sliced, given, ..LoopLayout::default() }
        }
        _ => {
            // Numbers beyond all values of the loop are as wrong as one too many, and nothing is made of that size.
            let most = operands + params + yields + 1;
            let (carried, sliced) = (n.get(attribute::CARRIED).min(most), n.get(attribute::OUTPUTS).min(most));
            // Of a beam, the cotangent of the score comes besides, and that of the scored pair goes.
            let pair = usize::from(n.has(attribute::BEAMS));
            let (given, saved) =
                (yields.saturating_sub(carried + pair), params.saturating_sub(carried + sliced + pair));
            LoopLayout { tape: 1, carried, sliced, given, saved, step: pair, go: pair }
        }
    }
}

/// What the body of a loop yields.
pub fn yielded(graph: &Graph, node: NodeId) -> &[Value] {
    let end = graph.node(node).body.and_then(|b| graph.terminator(b));
    end.map_or(&[], |end| &graph.node(end).operands)
}

/// The `save` of a region.
pub fn save(graph: &Graph, region: RegionId) -> Option<NodeId> {
    graph.nodes(region).iter().copied().find(|n| graph.node(*n).op == Op::Save)
}

/// The tape that a forward loop gives, as its last result.
pub fn tape(graph: &Graph, node: NodeId) -> Option<Value> {
    graph.node(node).results.last().copied().filter(|v| *graph.ty(*v) == Type::Tape)
}

/// Whether the bound of a recurrence is a rule of the length of the row, so that one of its carried values must be a sequence.
pub fn counts_length(graph: &Graph, node: NodeId) -> bool {
    let node = graph.node(node);
    let rule = node.find(attribute::BOUND).and_then(attribute::StepBound::rule).filter(|_| node.op == Op::Recur);
    rule.is_some_and(|rule| Expr::try_from(rule).is_ok_and(|rule| rule.uses(Var::Length)))
}

/// Whether a loop can be differentiated: it saves, and an `unwind` runs backwards what it did.
pub fn is_forward(op: Op) -> bool {
    op.has(Flag::Loop) && op != Op::Unwind
}

/// The part of a beam's region with this role.
pub fn part(graph: &Graph, region: RegionId, role: Role) -> Option<NodeId> {
    let is_part = |n: &NodeId| {
        let node = graph.node(*n);
        node.op == Op::Part && node.find(attribute::ROLE) == Some(role)
    };
    graph.nodes(region).iter().copied().find(is_part)
}

/// The forward loop that made a tape. A tape of an inner loop reaches the inner `unwind` through the tape of the loop
/// around it.
pub fn forward(graph: &Graph, tape: Value) -> Option<NodeId> {
    if *graph.ty(tape) != Type::Tape {
        return None;
    }
    match graph.def(tape) {
        ValueOrigin::Result(node, _) => is_forward(graph.node(node).op).then_some(node),
        ValueOrigin::Param(region, n) => forward(graph, saved_source(graph, region, n)?),
    }
}

/// The value that a forward loop saved for parameter `n` of the body of its `unwind`.
pub fn saved_source(graph: &Graph, region: RegionId, n: usize) -> Option<Value> {
    let unwind = graph.owner(region)?;
    if graph.node(unwind).op != Op::Unwind {
        return None;
    }
    let LoopLayout { carried, sliced, .. } = layout(graph, unwind);
    let outer = forward(graph, *graph.node(unwind).operands.first()?)?;
    let save = save(graph, graph.node(outer).body?)?;
    graph.node(save).operands.get(n.checked_sub(carried + sliced)?).copied()
}

/// The recurrence whose steps a value counts; the counter of a forward loop reaches its backward loop by the tape.
pub fn counted(graph: &Graph, step: Value) -> Option<NodeId> {
    let ValueOrigin::Param(region, n) = graph.def(step) else { return None };
    let owner = graph.owner(region)?;
    match graph.node(owner).op {
        Op::Recur => (n == graph.node(owner).operands.len()).then_some(owner),
        _ => counted(graph, saved_source(graph, region, n)?),
    }
}

/// How a balanced fold cuts the rows of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Elements of a chunk.
    pub arity: usize,
    /// Whether the last level, too, is cut at `arity`; else one chunk takes up to half as many elements more.
    pub strict: bool,
    /// Whether the longest row decides for all of them.
    pub by_batch: bool,
    /// Whether the first chunk of a row takes what is left, and not the last one.
    pub first: bool,
    /// Whether a row of one element makes a chunk, too, once.
    pub single: bool,
    /// Which short chunks are filled up to `arity`.
    pub padding: Padding,
}

impl Cut {
    /// The rule of a `fold`, or of the `unwind` of one; `None` for any other node.
    pub fn of(node: &Node) -> Option<Self> {
        Some(Self {
            arity: node.find(attribute::ARITY)?,
            strict: node.get(attribute::LAST) == LastChunk::Strict,
            by_batch: node.get(attribute::PLAN) == CutBy::Batch,
            first: node.get(attribute::SHORT) == Short::First,
            single: node.get(attribute::SINGLE) == Single::Fold,
            padding: node.get(attribute::PADDING),
        })
    }

    /// One chunk takes all elements, however many there are.
    pub fn flat(self) -> Self {
        Self { arity: usize::MAX / 2, padding: Padding::None, ..self }
    }

    /// Where the chunks of a row of `length` elements start and how many elements they have, at this width.
    pub fn chunks(self, length: usize, width: usize) -> impl Iterator<Item = (usize, usize)> {
        let count = length.div_ceil(width);
        let before = if self.first { count * width - length } else { 0 };
        (0..count).map(move |n| {
            let (start, end) = ((n * width).saturating_sub(before), ((n + 1) * width - before).min(length));
            (start, end - start)
        })
    }

    /// Whether rows of so many elements go through one more level.
    pub fn goes_on(self, length: usize, level: usize) -> bool {
        length > 1 || (self.single && level == 0 && length == 1)
    }

    /// Elements of a chunk once it is filled.
    pub fn filled(self, length: usize, level: usize) -> usize {
        match self.padding {
            Padding::Levels => length.max(self.arity),
            Padding::Input if level == 0 => length.max(self.arity),
            _ => length,
        }
    }

    /// Chunks of `arity` elements by the length of each row, the last one with up to half as many more, and none filled.
    pub fn plain(arity: usize) -> Self {
        Self { arity, strict: false, by_batch: false, first: false, single: false, padding: Padding::None }
    }

    /// One chunk takes all elements of a row.
    pub fn whole() -> Self {
        Self::plain(usize::MAX / 2)
    }

    /// Elements of a chunk (the last one may have fewer) where a row has `length` elements.
    pub fn width(&self, length: usize) -> usize {
        let chunked = self.strict || length >= self.arity + self.arity / 2;
        if chunked { self.arity } else { length.max(1) }
    }
}
