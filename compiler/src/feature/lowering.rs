//! The lowering of statements to nodes.

use std::sync::Arc;

use crate::define::{BuiltInWord, Definition};
use crate::ir::graph::{InvalidNode, Value};
use crate::lower::{LayerInputs, Lower};
use crate::spec::Block;

/// The lowering of a statement, one signature per slot, so every variant of a slot is interchangeable.
#[derive(Clone)]
pub(crate) enum Lowering {
    /// `model`: everything from the tokens to the named results.
    Model(fn(&mut Lower<'_>, &Block) -> Result<(), InvalidNode>),
    /// `embed`: the first states; sets the width of all states.
    Embed(fn(&mut Lower<'_>, &Block) -> Result<Value, InvalidNode>),
    /// `attend`, `feedforward`, `stack`, `recur`: the states of a place after the layer.
    Layer(fn(&mut Lower<'_>, &Block, &LayerInputs) -> Result<Value, InvalidNode>),
    /// `loop`: as a layer; the values that it carries are known behind it.
    Loop(fn(&mut Lower<'_>, &Block, &mut LayerInputs) -> Result<Value, InvalidNode>),
    /// `recurse`, `pool`: one vector per row, from the states of a place.
    Reduce(fn(&mut Lower<'_>, &Block, &LayerInputs) -> Result<Value, InvalidNode>),
    /// `select`, `align`, `halt none`, `memory`, `update`: what the statement around it reads, or lowers where it needs it.
    Setting,
    /// `readout`: the input of the head, from the final states.
    Readout(fn(&mut Lower<'_>, &Block, Value) -> Result<Value, InvalidNode>),
    /// Equations of a file or of the library.
    Definition(Arc<Definition>),
    /// Equations of the body that they stand in.
    Equations(Arc<Definition>),
    /// A word of equations: a layer where it stands as a statement.
    Word(BuiltInWord),
}

/// The fault of a block whose lowering has the signature of another slot.
pub(crate) fn misplaced(block: &Block) -> InvalidNode {
    InvalidNode(format!("`{}` does not do what its slot does", block.title()))
}
