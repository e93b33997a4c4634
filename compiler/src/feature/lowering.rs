//! What statements become in the graph.

use super::feature;
use super::halting::Rule;
use crate::ir::graph::{InvalidNode, Value};
use crate::lower::{Lower, Place};
use crate::spec::Block;

/// The lowering of a statement, by what its slot does: whoever runs a slot can run every variant of it.
#[derive(Clone, Copy)]
pub(crate) enum Lowering {
    /// `model`: everything from the tokens to the named results.
    Model(fn(&mut Lower<'_>, &Block) -> Result<(), InvalidNode>),
    /// `embed`: the first states; sets the width of all others.
    Embed(fn(&mut Lower<'_>, &Block) -> Result<Value, InvalidNode>),
    /// `attend`, `feedforward`, `stack`, `recur`: the states of a place after the layer.
    Layer(fn(&mut Lower<'_>, &Block, &Place) -> Result<Value, InvalidNode>),
    /// `recurse`, `pool`: one vector per row, from the states of a place.
    Reduce(fn(&mut Lower<'_>, &Block, &Place) -> Result<Value, InvalidNode>),
    /// `cell`: one vector from two.
    Cell(Cell),
    /// `leaf`: the elements of a fold, from the states before it.
    Leaf(fn(&mut Lower<'_>, &Block, Value) -> Result<Value, InvalidNode>),
    /// `score`: how good a pair is.
    Score(Score),
    /// `select`, `align`: nothing of its own; the statement around it reads its fields.
    Setting,
    /// `gate`: how the result of a group is mixed with its input.
    Gate(fn(&mut Lower<'_>, &Block, &Mix) -> Result<Value, InvalidNode>),
    /// `inject`: what the layers get in a step, from the state and the input of the recurrence, in this order.
    Inject(fn(&mut Lower<'_>, &Block, Value, Value) -> Result<Value, InvalidNode>),
    /// `halt`: the rule that stops a recurrence; `None` for one that takes all its steps.
    Halt(fn(&Lower<'_>, &Block) -> Result<Option<Rule>, InvalidNode>),
    /// `memory`: the slots `f32[batch, slots, width]` before the first chunk, for rows like those of the value.
    Memory(fn(&mut Lower<'_>, &Block, Value) -> Result<Value, InvalidNode>),
    /// `update`: the slots after a chunk. The state of the place is the memory, and its `chunk` is set.
    Update(fn(&mut Lower<'_>, &Block, &Place) -> Result<Value, InvalidNode>),
    /// `readout`: what the head reads, from the final states.
    Readout(fn(&mut Lower<'_>, &Block, Value) -> Result<Value, InvalidNode>),
    /// `head`: the logits, from what was read out.
    Head(fn(&mut Lower<'_>, &Block, Value) -> Result<Value, InvalidNode>),
}

/// A function of two vectors that gives one.
#[derive(Clone, Copy)]
pub(crate) struct Cell {
    /// Vectors that it hands on besides the one that it gives; they start as zeros, and only a chain has them.
    pub(crate) memories: usize,
    /// What it gives and hands on, from what it gave and handed on before (left) and the next vector (right).
    pub(crate) step: CellStep,
}

type CellStep = fn(&mut Lower<'_>, &Block, &[Value], Value) -> Result<Vec<Value>, InvalidNode>;

/// What scores two neighbours.
#[derive(Clone, Copy)]
pub(crate) struct Score {
    /// Whether it reads what they are joined to instead of the two of them.
    pub(crate) of_parent: bool,
    /// The score `f32[batch]`, from the pair `f32[batch, pair, width]` or from the vector that it becomes.
    pub(crate) function: fn(&mut Lower<'_>, &Block, Value) -> Result<Value, InvalidNode>,
}

/// What a gate can use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix {
    /// The state after the layers of the group.
    pub(crate) result: Value,
    /// The state before them.
    pub(crate) input: Value,
    /// The normed input of the closing feed-forward.
    pub(crate) normed: Option<Value>,
}

/// The lowering of a block.
///
/// # Errors
/// A block that no feature describes.
pub(crate) fn lowering(block: &Block) -> Result<Lowering, InvalidNode> {
    let found = feature(block.slot, block.variant);
    found.map(|f| f.lower).ok_or_else(|| InvalidNode(format!("there is no `{}`", block.title())))
}

/// The fault of a block that lowers to something else than its slot asks for.
pub(crate) fn misplaced(block: &Block) -> InvalidNode {
    InvalidNode(format!("`{}` does not do what its slot does", block.title()))
}
