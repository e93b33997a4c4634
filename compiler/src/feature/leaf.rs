//! A map of the elements of a sequence before the outermost fold.

use super::{Feature, Lowering, Slot};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::types::Dim;
use crate::lower::{LinearInit, Lower};
use crate::spec::Block;

/// The keyword and its variants.
pub(super) const SLOT: Slot = Slot {
    name: "leaf",
    doc: "A map of every element before the outermost fold.",
    features: &[LINEAR, NONE],
    planned: &[],
};

const LINEAR: Feature = Feature {
    slot: "leaf",
    variant: "linear",
    doc: "A linear map and a layer norm, so leaves have the scale of the vectors of a cell.",
    source: "Ray Chowdhury and Caragea 2023 (recursion in recursion), arXiv:2311.04449",
    ..Feature::plain(Lowering::Leaf(linear))
};

const NONE: Feature = Feature {
    slot: "leaf",
    variant: "none",
    doc: "The elements unchanged.",
    source: "rtc",
    ..Feature::plain(Lowering::Leaf(|_, _, states| Ok(states)))
};

/// `LN(W x + b)`.
fn linear(l: &mut Lower<'_>, _: &Block, states: Value) -> Result<Value, InvalidNode> {
    let width = Dim::Fixed(l.width);
    let x = l.linear(states, "linear", width, &LinearInit::FanIn)?;
    l.norm(x, "norm")
}
