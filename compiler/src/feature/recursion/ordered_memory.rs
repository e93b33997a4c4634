//! Ordered memory: a chain whose state is a stack of slots.

use super::{along, empty, hands_on_a_memory, joined, repeated};
use crate::define;
use crate::diag::Problems;
use crate::feature::{Feature, Lowering, Site};
use crate::ir::attribute::{self, At, Attrs, StepBound};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::Pointwise;
use crate::ir::types::{Dim, Elem, Type};
use crate::lower::{LayerInputs, LinearInit, Lower, group, need};
use crate::schema::{Children, DROPOUT, Default, Derived, LAYERS, SIZE, float, int};
use crate::spec::Block;

/// The feature.
pub(super) fn ordered_memory() -> Feature {
    Feature {
        fields: vec![
            int("slots", Default::Required, SIZE, "slots of the memory: how deep its stack is"),
            float(
                "dropout",
                Default::Derived(Derived::ModelDropout),
                DROPOUT,
                "dropout before the layers that score the slots",
            ),
        ],
        children: const { &[Children::any(LAYERS), Children::or(&["cell"], "grc")] },
        check,
        ..Feature::row(
            "recurse",
            "ordered_memory",
            "Ordered memory: a chain whose state is a stack of slots. Scores say how deep an element goes. Slots \
        above that depth take the values of the step before; from that depth to the top, the cell merges the \
        element with one slot after the other. The result is the top slot. The elements are mapped inside, with \
        the norm of the cell. Layers before the cell run on the whole sequence first.",
            "Shen et al. 2019 (ordered memory), arXiv:1910.13466",
            Lowering::Reduce(lower),
        )
    }
}

fn check(site: &Site<'_>, problems: &mut Problems) {
    super::check(site, problems);
    hands_on_a_memory(site, problems);
}

/// The state of the chain is memory, candidates, and how the step before was divided among the slots. What depends on an element
/// alone is computed for all of them before.
fn lower(l: &mut Lower<'_>, block: &Block, place: &LayerInputs) -> Result<Value, InvalidNode> {
    let elements = group(l, block, place)?;
    let cell = need(block.child("cell"), block, "cell")?;
    let x = l.linear(elements, "input", Dim::Fixed(l.width), &LinearInit::FanIn)?;
    // The norm is that of the cell.
    let x = l.scoped(&cell.variant, |l| l.norm(x, "norm"))?;
    let query = l.scoped("query", |l| define::apply(l, "normed_linear", block, &[x]))?;
    let slots: usize = need(block.int("slots"), block, "slots")?;
    let row = empty(l, x)?;
    let attrs = Attrs::of(attribute::VALUE, 0.0).with(attribute::RANK, 2_usize).with(attribute::COUNT, slots);
    let nothing = l.one(Op::Full, &[row], attrs)?;
    // No step went before the first one.
    let before = l.full(nothing, -1.0, 2)?;
    let starts = [(nothing, "memory"), (nothing, "candidates"), (before, "p")];
    let out = along(l, &starts, &[(x, "item"), (query, "query")], |l, state, item| step(l, block, state, item))?;
    l.one(Op::Position, &[out[1]], Attrs::of(attribute::AT, At::Last))
}

/// Memory, candidates and probabilities after an element and its query.
fn step(l: &mut Lower<'_>, block: &Block, state: &[Value], item: &[Value]) -> Result<Vec<Value>, InvalidNode> {
    let (&[memory, candidates, before], &[x, query]) = (state, item) else {
        return Err(InvalidNode("a step has a state and an element".to_owned()));
    };
    let beta = define::apply(l, "slot_scores", block, &[query, candidates])?;
    let &[p, below, above] = &define::apply_all(l, "slot_shares", block, &[beta, before])?[..] else {
        return Err(InvalidNode("a step has three shares of every slot".to_owned()));
    };
    let newer = l.map(Pointwise::Sub, &[candidates, memory])?;
    let memory = l.one(Op::AddScaled, &[memory, newer, above], Attrs::new())?;
    let candidates = composed(l, block, x, (memory, below))?;
    Ok(vec![memory, candidates, p])
}

/// The new candidates, from the deepest slot to the top: `h_i = x + below_i (Cell(h_{i-1}, memory_i) - x)`, from x on.
fn composed(l: &mut Lower<'_>, block: &Block, x: Value, (memory, below): (Value, Value)) -> Result<Value, InvalidNode> {
    let cell = need(block.child("cell"), block, "cell")?;
    let rank = l.rank(memory);
    let nothing = l.full(memory, 0.0, rank)?;
    let slots: usize = need(block.int("slots"), block, "slots")?;
    let attrs = Attrs::of(attribute::BOUND, StepBound::Steps(slots));
    let starts = [(x, "h"), (nothing, "candidates")];
    let counter = (Type::Tensor(Elem::Index, vec![]), "slot");
    let out = repeated(l, (Op::Recur, attrs), &starts, &[], &[counter], |l, carried, slot| {
        let held = l.one(Op::SlotGet, &[memory, slot[0]], Attrs::new())?;
        let share = l.one(Op::SlotGet, &[below, slot[0]], Attrs::new())?;
        let joined = joined(l, cell, carried[0], held)?;
        let change = l.map(Pointwise::Sub, &[joined, x])?;
        let next = l.one(Op::AddScaled, &[x, change, share], Attrs::new())?;
        let candidates = l.one(Op::SlotSet, &[carried[1], next, slot[0]], Attrs::new())?;
        Ok(vec![next, candidates])
    })?;
    Ok(out[1])
}
