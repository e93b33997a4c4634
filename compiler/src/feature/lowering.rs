//! The lowering of statements to nodes.

use super::feature;
use super::halting::Rule;
use crate::ir::graph::{InvalidNode, Value};
use crate::lower::{Lower, Place};
use crate::spec::Block;

/// The lowering of a statement, one signature per slot, so every variant of a slot is interchangeable.
#[derive(Clone, Copy)]
pub(crate) enum Lowering {
    /// `model`: everything from the tokens to the named results.
    Model(fn(&mut Lower<'_>, &Block) -> Result<(), InvalidNode>),
    /// `embed`: the first states; sets the width of all states.
    Embed(fn(&mut Lower<'_>, &Block) -> Result<Value, InvalidNode>),
    /// `attend`, `feedforward`, `stack`, `recur`: the states of a place after the layer.
    Layer(fn(&mut Lower<'_>, &Block, &Place) -> Result<Value, InvalidNode>),
    /// `recurse`, `pool`: one vector per row, from the states of a place.
    Reduce(fn(&mut Lower<'_>, &Block, &Place) -> Result<Value, InvalidNode>),
    /// `cell`: one vector from two.
    Cell(Cell),
    /// `leaf`: the elements of a fold, from the states before it.
    Leaf(fn(&mut Lower<'_>, &Block, Value) -> Result<Value, InvalidNode>),
    /// `score`: the score of a pair.
    Score(Score),
    /// `select`, `align`: no nodes; the statement around it reads its fields.
    Setting,
    /// `gate`: the mixture of the result of a group and its input.
    Gate(fn(&mut Lower<'_>, &Block, &Mix) -> Result<Value, InvalidNode>),
    /// `inject`: the input of the layers in a step, from the state and the input of the recurrence, in this order.
    Inject(fn(&mut Lower<'_>, &Block, Value, Value) -> Result<Value, InvalidNode>),
    /// `halt`: the halting rule of a recurrence; `None` takes all steps.
    Halt(fn(&Lower<'_>, &Block) -> Result<Option<Rule>, InvalidNode>),
    /// `memory`: the slots `f32[batch, slots, width]` before the first chunk, for rows like those of the value.
    Memory(fn(&mut Lower<'_>, &Block, Value) -> Result<Value, InvalidNode>),
    /// `update`: the slots after a chunk. The state of the place is the memory, and its `chunk` is set.
    Update(fn(&mut Lower<'_>, &Block, &Place) -> Result<Value, InvalidNode>),
    /// `readout`: the input of the head, from the final states.
    Readout(fn(&mut Lower<'_>, &Block, Value) -> Result<Value, InvalidNode>),
    /// `head`: the logits, from the readout.
    Head(fn(&mut Lower<'_>, &Block, Value) -> Result<Value, InvalidNode>),
}

/// A function from two vectors to one.
#[derive(Clone, Copy)]
pub(crate) struct Cell {
    /// Number of further carried vectors; they start as zeros and exist in chains only.
    pub(crate) memories: usize,
    /// Result and carried vectors, from those of the step before (left) and the next vector (right).
    pub(crate) step: CellStep,
}

type CellStep = fn(&mut Lower<'_>, &Block, &[Value], Value) -> Result<Vec<Value>, InvalidNode>;

/// The score of two neighbours.
#[derive(Clone, Copy)]
pub(crate) struct Score {
    /// Whether it reads the merged node instead of the pair.
    pub(crate) of_parent: bool,
    /// The score `f32[batch]`, from the pair `f32[batch, pair, width]` or from the merged vector.
    pub(crate) function: fn(&mut Lower<'_>, &Block, Value) -> Result<Value, InvalidNode>,
}

/// The inputs of a gate.
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
/// A block without a feature.
pub(crate) fn lowering(block: &Block) -> Result<Lowering, InvalidNode> {
    let found = feature(block.slot, block.variant);
    found.map(|f| f.lower).ok_or_else(|| InvalidNode(format!("there is no `{}`", block.title())))
}

/// The fault of a block whose lowering has the signature of another slot.
pub(crate) fn misplaced(block: &Block) -> InvalidNode {
    InvalidNode(format!("`{}` does not do what its slot does", block.title()))
}
