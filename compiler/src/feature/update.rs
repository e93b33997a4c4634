//! The update of the memory after a chunk.

use super::{Feature, Lowering, Site, Slot, recurrence};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::ir::graph::{InvalidNode, Value};
use crate::lower::{Lower, Place, group, need};
use crate::schema::{COPIES, Children, Default, int};
use crate::spec::Block;

/// The keyword and its variants.
pub(super) fn slot() -> Slot {
    Slot::new("update", "How the memory changes after every chunk.", vec![memory()])
}

fn memory() -> Feature {
    Feature {
        fields: vec![int(
            "layers",
            Default::Int(1),
            COPIES,
            "number of copies of the layers, each with its own weights",
        )],
        children: const { &[Children::any(&["attend", "feedforward"])] },
        check,
        ..Feature::row(
            "update",
            "memory",
            "After every chunk these layers update the slots; `attend chunk` reads the result of the chunk.",
            "Didolkar et al. 2022 (temporal latent bottleneck), arXiv:2205.14794; Ray Chowdhury and Caragea 2024, Algorithm 4, arXiv:2402.00976",
            Lowering::Update(lower),
        )
    }
}

fn check(site: &Site<'_>, problems: &mut Problems) {
    recurrence::has_layers(site, problems);
    for layer in site.layers().filter(|l| l.slot == "attend" && l.variant != "chunk") {
        problems.report(
            Diagnostic::new(
                Kind::MisplacedStatement,
                layer.span,
                format!("`{}` can't stand in `update memory`", layer.title()),
            )
            .label("the slots attend to the chunk: `attend chunk`"),
        );
    }
}

/// Each layer: `a = m + MHA(LN m, LN chunk)`, then `a + FF(LN a)`.
fn lower(l: &mut Lower<'_>, block: &Block, place: &Place) -> Result<Value, InvalidNode> {
    let mut here = place.clone();
    for n in 0..need(block.int("layers"), block, "layers")? {
        here.state = l.scoped(&n.to_string(), |l| group(l, block, &here))?;
    }
    Ok(here.state)
}
