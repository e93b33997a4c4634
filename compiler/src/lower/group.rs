//! Groups of statements: layers one after another, and the gate around them.

use super::builder::{Lower, Place};
use crate::feature::{Lowering, Mix, lowering, misplaced};
use crate::ir::graph::{InvalidNode, Value};
use crate::schema::FOLDING;
use crate::spec::Block;

/// Runs the layers of a block in order, each on the state of the one before it; what makes one vector of a sequence comes
/// last. The block's gate, where it has one, mixes the result with the input.
pub(crate) fn group(l: &mut Lower<'_>, block: &Block, place: &Place) -> Result<Value, InvalidNode> {
    let mut here = place.clone();
    for (child, name) in block.children.iter().zip(&names(block)) {
        if let Lowering::Layer(layer) | Lowering::Reduce(layer) = lowering(child)? {
            here.state = l.scoped(name, |l| layer(l, child, &here))?;
        }
    }
    let Some(gate) = block.child("gate") else { return Ok(here.state) };
    let Lowering::Gate(combine) = lowering(gate)? else { return Err(misplaced(gate)) };
    let mix = Mix { result: here.state, input: place.state, normed: l.normed };
    l.scoped("gate", |l| combine(l, gate, &mix))
}

/// The statements that the nodes of a label come from: the model, then each inside the one before.
pub fn statements<'s>(root: &'s Block, label: &str) -> Vec<&'s Block> {
    let mut around = vec![root];
    for part in label.split('.') {
        let here = around[around.len() - 1];
        let is_layer = |c: &Block| FOLDING.contains(&c.slot);
        let named = here.children.iter().zip(names(here));
        // Layers are called by their variant, all other statements by their slot.
        let found = named.filter(|(c, name)| if is_layer(c) { name == part } else { c.slot == part });
        match found.map(|(child, _)| child).max_by_key(|c| is_layer(c)) {
            Some(child) => around.push(child),
            // A copy of what is inside.
            None if part.parse::<usize>().is_ok() => {}
            None => break,
        }
    }
    around
}

/// Names of the statements of a group: the variant or the slot; a layer that occurs again is numbered.
fn names(block: &Block) -> Vec<String> {
    let own = |c: &Block| if c.variant.is_empty() { c.slot } else { c.variant };
    let layers: Vec<&Block> = block.children.iter().filter(|c| FOLDING.contains(&c.slot)).collect();
    let before = |child: &Block| {
        layers.iter().take_while(|c| !std::ptr::eq(**c, child)).filter(|c| own(c) == own(child)).count()
    };
    let name = |child: &Block| match before(child) {
        n if n > 0 && FOLDING.contains(&child.slot) => format!("{}_{}", own(child), n + 1),
        _ => own(child).to_owned(),
    };
    block.children.iter().map(name).collect()
}
