//! Groups of statements: layers one after another, and the gate around them.

use super::builder::{LayerInputs, Lower, need};
use crate::define::{self, BindingType, EquationArray};
use crate::feature::{AttentionContext, Lowering};
use crate::ir::graph::{InvalidNode, Value};
use crate::spec::Block;

/// Runs the layers of a block, each on the state of the one before it. The block's gate, where it has one, mixes the result with
/// the input.
pub(crate) fn group(l: &mut Lower<'_>, block: &Block, place: &LayerInputs) -> Result<Value, InvalidNode> {
    let mut here = place.clone();
    layers(l, block, &mut here)?;
    let Some(gate) = block.child("gate") else { return Ok(here.state) };
    let mut values = vec![here.state, place.state];
    for name in gate.feature.values.iter().skip(values.len()) {
        values.push(need(l.shown.get(&**name).copied(), gate, name)?);
    }
    l.scoped("gate", |l| define::call(l, gate, &values))
}

/// Runs the layers of a block in order, each at the place that the one before it leaves; what makes one vector of a sequence
/// comes last.
pub(crate) fn layers(l: &mut Lower<'_>, block: &Block, here: &mut LayerInputs) -> Result<(), InvalidNode> {
    let around = AttentionContext { step: here.step, global_positions: here.global_positions };
    let around = std::mem::replace(&mut l.around, around);
    let (path, names) = (l.place(), names(block));
    here.names.expect(block);
    for (child, name) in block.children.iter().zip(&names) {
        here.names.reserve(&path, name);
        here.names.reserve(&path, &child.slot);
    }
    for (child, name) in block.children.iter().zip(&names) {
        let gives = child.is_layer() && !matches!(child.feature.lower, Lowering::Equations(_)) || child.slot == "pool";
        let noted = gives.then(|| l.note_place(BindingType::of_statement(name, child)));
        here.state = match &child.feature.lower {
            Lowering::Layer(layer) | Lowering::Reduce(layer) => l.scoped(name, |l| layer(l, child, here))?,
            Lowering::Loop(steps) => l.scoped(name, |l| steps(l, child, here))?,
            Lowering::Definition(_) | Lowering::Word(_) if child.is_layer() || child.slot == "pool" => {
                l.scoped(name, |l| define::call(l, child, &[here.state]))?
            }
            Lowering::Equations(_) => define::run(l, child, here.state, &mut here.names)?,
            _ => here.state,
        };
        if let Some(noted) = noted {
            let ty = EquationArray::of(l.types(), here.state).describe();
            l.note_type(noted, ty);
        }
    }
    l.around = around;
    Ok(())
}

/// The statements that the nodes of a label come from: the model, then each inside the one before.
pub fn statements<'s>(root: &'s Block, label: &str) -> Vec<&'s Block> {
    let mut around = vec![root];
    for part in label.split('.') {
        let here = around[around.len() - 1];
        let named = here.children.iter().zip(names(here));
        // Layers are called by their variant, all other statements by their slot.
        let found = named.filter(|(c, name)| if c.is_layer() { name == part } else { c.slot == part });
        match found.map(|(child, _)| child).max_by_key(|c| c.is_layer()) {
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
    let layers: Vec<&Block> = block.children.iter().filter(|c| c.is_layer()).collect();
    let before = |child: &Block| {
        layers.iter().take_while(|c| !std::ptr::eq(**c, child)).filter(|c| c.name() == child.name()).count()
    };
    let name = |child: &Block| match before(child) {
        n if n > 0 && child.is_layer() => format!("{}_{}", child.name(), n + 1),
        _ => child.name().to_owned(),
    };
    block.children.iter().map(name).collect()
}
