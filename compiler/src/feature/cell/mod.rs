//! Cells: functions of two vectors that give one. In a balanced fold they join neighbours, in a chain the state and the
//! next element.

mod elman;
mod grc;
mod gru;
mod lstm;

use super::Slot;
use crate::ir::attribute::{self, Attrs};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::types::Dim;
use crate::lower::{LinearInit, Lower};

/// The keyword and its variants.
pub(super) const SLOT: Slot = Slot {
    name: "cell",
    doc: "A function from two vectors to one: of neighbours in a balanced fold, of state and next element in a chain.",
    features: &[grc::GRC, gru::GRU, lstm::LSTM, elman::ELMAN],
    planned: &[],
};

/// `blocks` times the width of the model, from one vector.
fn wide(l: &mut Lower<'_>, x: Value, name: &str, blocks: usize) -> Result<Value, InvalidNode> {
    let outputs = Dim::Fixed(blocks * l.width);
    l.linear(x, name, outputs, &LinearInit::FanIn)
}

/// Block `n` of a value that is several times as wide as the model.
fn block(l: &mut Lower<'_>, x: Value, n: usize, blocks: usize) -> Result<Value, InvalidNode> {
    let attrs = Attrs::of(attribute::START, n * l.width).with(attribute::WIDTH, blocks * l.width);
    l.one(Op::Slice, &[x], attrs)
}
