//! Groups of statements: layers one after another, and the gate around them.

use super::builder::{Lower, Place};
use crate::feature::{Lowering, Mix, lowering, misplaced};
use crate::ir::graph::{Misfit, Value};
use crate::spec::Block;

/// Runs the layers of a block in order, each on the state of the one before it. The block's gate, where it has one,
/// mixes the result with the input.
pub(crate) fn group(l: &mut Lower<'_>, block: &Block, place: &Place) -> Result<Value, Misfit> {
    let mut here = place.clone();
    for (child, name) in block.children.iter().zip(&names(block)) {
        if let Lowering::Layer(layer) = lowering(child)? {
            here.state = l.scoped(name, |l| layer(l, child, &here))?;
        }
    }
    let Some(gate) = block.child("gate") else { return Ok(here.state) };
    let Lowering::Gate(combine) = lowering(gate)? else { return Err(misplaced(gate)) };
    let mix = Mix { result: here.state, input: place.state, normed: l.normed };
    l.scoped("gate", |l| combine(l, gate, &mix))
}

/// Names of the statements of a group: the variant or the slot, numbered where it occurs again.
fn names(block: &Block) -> Vec<String> {
    let own = |c: &Block| if c.variant.is_empty() { c.slot.to_owned() } else { c.variant.to_owned() };
    let all: Vec<String> = block.children.iter().map(own).collect();
    let number = |n: usize| all[..n].iter().filter(|o| **o == all[n]).count() + 1;
    let name = |n: usize| if number(n) == 1 { all[n].clone() } else { format!("{}_{}", all[n], number(n)) };
    (0..all.len()).map(name).collect()
}
