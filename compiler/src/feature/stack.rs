//! Copies with their own weights.

use super::{Feature, Lowering, Slot, recurrence};
use crate::ir::graph::{InvalidNode, Value};
use crate::lower::{LayerInputs, Lower, group, need};
use crate::schema::{COPIES, Children, Default, LAYERS, int};
use crate::spec::Block;

/// The keyword and its only form.
pub(super) fn slot() -> Slot {
    Slot::new("stack", "Layers with weights of their own.", vec![stack()])
}

fn stack() -> Feature {
    Feature {
        fields: vec![int("copies", Default::Required, COPIES, "number of copies; written behind the keyword")],
        children: const { &[Children::any(LAYERS)] },
        check: recurrence::has_layers,
        ..Feature::row(
            "stack",
            "",
            "`stack 4 { ... }`: the layers inside, 4 times in a row, each copy with weights of its own.",
            "Vaswani et al. 2017, Section 3.1, arXiv:1706.03762",
            Lowering::Layer(|l, block, place| copies(l, block, place, "copies")),
        )
    }
}

/// As many groups one after another as a field says, each with its own parameters.
pub(super) fn copies(l: &mut Lower<'_>, block: &Block, place: &LayerInputs, field: &str) -> Result<Value, InvalidNode> {
    let mut here = place.clone();
    for n in 0..need(block.int(field), block, field)? {
        here.state = l.scoped(&n.to_string(), |l| group(l, block, &here))?;
    }
    Ok(here.state)
}
