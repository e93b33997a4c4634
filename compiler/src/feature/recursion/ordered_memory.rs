//! Ordered memory: a chain whose state is a stack of slots.

use super::{hands_on_a_memory, joined};
use crate::diag::Problems;
use crate::feature::{Feature, Lowering, Site};
use crate::ir::attribute::{self, At, Attrs, Bound, Chunking};
use crate::ir::graph::{InvalidNode, NewNode, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::Pointwise;
use crate::ir::types::{Dim, Elem, Type};
use crate::lower::{LinearInit, Lower, Place, group, need};
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

/// What a step gets: the element and its query, `[batch, width]` each, memory and candidates, `[batch, slots, width]` each, and
/// how the step before was divided among the slots.
#[derive(Clone, Copy)]
struct Step {
    x: Value,
    query: Value,
    memory: Value,
    candidates: Value,
    before: Value,
}

/// A chunk recurrence with chunks of one element. What depends on an element alone is computed for all of them before.
fn lower(l: &mut Lower<'_>, block: &Block, place: &Place) -> Result<Value, InvalidNode> {
    let elements = group(l, block, place)?;
    let x = input(l, block, elements)?;
    let query = l.scoped("query", |l| projected(l, block, x))?;
    let over = l.ragged(x)?;
    let axis = l.new_axis("item");
    let first = l.one(Op::Position, &[x], Attrs::of(attribute::AT, At::First))?;
    let empty = l.full(first, 0.0, 2)?;
    let slots: usize = need(block.int("slots"), block, "slots")?;
    let empty = l.one(Op::Repeat, &[empty], Attrs::of(attribute::COUNT, slots))?;
    // No step went before the first one.
    let before = l.full(empty, -1.0, 2)?;
    let region = l.graph().add_region();
    let carried = [(empty, "memory"), (empty, "candidates"), (before, "p")];
    let [memory, candidates, before_step] = carried.map(|(value, hint)| {
        let ty = l.graph().ty(value).clone();
        l.graph().add_param(region, ty, hint)
    });
    let inside = l.with_axis(x, &axis);
    let [item, question] = ["item", "query"].map(|hint| l.graph().add_param(region, inside.clone(), hint));
    l.inside(region, |l| {
        let at = |l: &mut Lower<'_>, item| l.one(Op::Position, &[item], Attrs::of(attribute::AT, At::Last));
        let (x, query) = (at(l, item)?, at(l, question)?);
        let next = step(l, block, Step { x, query, memory, candidates, before: before_step })?;
        l.emit(Op::Yield, &next, Attrs::new())
    })?;
    let operands = vec![empty, empty, before, x, query];
    let types = operands[..3].iter().map(|v| l.graph().ty(*v).clone()).collect();
    let attrs = Attrs::of(attribute::CARRIED, carried.len())
        .with(attribute::SIZE, 1)
        .with(attribute::CUT, Chunking::Position)
        .with(attribute::OVER, &over)
        .with(attribute::AXIS, &axis);
    let out =
        l.emit_loop(NewNode { op: Op::Chunks, operands, attrs, types, body: Some(region), label: String::new() })?;
    for (value, (_, hint)) in out.iter().zip(carried) {
        l.graph().set_hint(*value, hint);
    }
    l.one(Op::Position, &[out[1]], Attrs::of(attribute::AT, At::Last))
}

/// `LN(W x + b)`; the norm is that of the cell.
fn input(l: &mut Lower<'_>, block: &Block, elements: Value) -> Result<Value, InvalidNode> {
    let cell = need(block.child("cell"), block, "cell")?;
    let width = Dim::Fixed(l.width);
    let x = l.linear(elements, "input", width, &LinearInit::FanIn)?;
    l.scoped(&cell.variant, |l| l.norm(x, "norm"))
}

/// `LN(W drop(x) + b)`.
fn projected(l: &mut Lower<'_>, block: &Block, x: Value) -> Result<Value, InvalidNode> {
    let x = dropped(l, block, x)?;
    let width = Dim::Fixed(l.width);
    let y = l.linear(x, "linear", width, &LinearInit::FanIn)?;
    l.norm(y, "norm")
}

fn dropped(l: &mut Lower<'_>, block: &Block, x: Value) -> Result<Value, InvalidNode> {
    l.dropout(x, need(block.float("dropout"), block, "dropout")?)
}

/// Memory, candidates and probabilities after an element.
fn step(l: &mut Lower<'_>, block: &Block, at: Step) -> Result<[Value; 3], InvalidNode> {
    let beta = scores(l, block, at)?;
    let divided = l.emit(Op::SlotSoftmax, &[beta, at.before], Attrs::new())?;
    let [p, below, above] = divided[..] else { return Err(InvalidNode("a step is divided in three ways".to_owned())) };
    for (value, hint) in [(p, "p"), (below, "below"), (above, "above")] {
        l.graph().set_hint(value, hint);
    }
    let newer = l.map(Pointwise::Sub, &[at.candidates, at.memory])?;
    let memory = l.one(Op::AddScaled, &[at.memory, newer, above], Attrs::new())?;
    let candidates = composed(l, block, at.x, (memory, below))?;
    Ok([memory, candidates, p])
}

/// `beta = w drop(GELU(q + LN(W drop(candidate) + b))) + b'` for every slot, divided by the root of the width.
fn scores(l: &mut Lower<'_>, block: &Block, at: Step) -> Result<Value, InvalidNode> {
    let keys = l.scoped("key", |l| projected(l, block, at.candidates))?;
    let query = l.one(Op::BroadcastRows, &[at.query, keys], Attrs::new())?;
    let z = l.map(Pointwise::Add, &[query, keys])?;
    let z = l.map(Pointwise::Gelu, &[z])?;
    let z = dropped(l, block, z)?;
    let beta = l.linear(z, "score", Dim::Fixed(1), &LinearInit::FanIn)?;
    let beta = l.one(Op::Squeeze, &[beta], Attrs::new())?;
    let by = 1.0 / (l.width as f64).sqrt();
    l.scaled(beta, by)
}

/// The new candidates, from the deepest slot to the top: `h_i = x + below_i (Cell(h_{i-1}, memory_i) - x)`, from x on.
fn composed(l: &mut Lower<'_>, block: &Block, x: Value, (memory, below): (Value, Value)) -> Result<Value, InvalidNode> {
    let cell = need(block.child("cell"), block, "cell")?;
    let rank = l.graph().ty(memory).dims().len();
    let empty = l.full(memory, 0.0, rank)?;
    let region = l.graph().add_region();
    let carried = [(x, "h"), (empty, "candidates")];
    let [h, candidates] = carried.map(|(value, hint)| {
        let ty = l.graph().ty(value).clone();
        l.graph().add_param(region, ty, hint)
    });
    let slot = l.graph().add_param(region, Type::Tensor(Elem::Index, vec![]), "slot");
    l.inside(region, |l| {
        let held = l.one(Op::SlotGet, &[memory, slot], Attrs::new())?;
        let share = l.one(Op::SlotGet, &[below, slot], Attrs::new())?;
        let joined = joined(l, cell, h, held)?;
        let change = l.map(Pointwise::Sub, &[joined, x])?;
        let next = l.one(Op::AddScaled, &[x, change, share], Attrs::new())?;
        let candidates = l.one(Op::SlotSet, &[candidates, next, slot], Attrs::new())?;
        l.emit(Op::Yield, &[next, candidates], Attrs::new())
    })?;
    let slots: usize = need(block.int("slots"), block, "slots")?;
    let types = carried.map(|(value, _)| l.graph().ty(value).clone()).to_vec();
    let (operands, attrs) = (vec![x, empty], Attrs::of(attribute::BOUND, Bound::Steps(slots)));
    let out =
        l.emit_loop(NewNode { op: Op::Recur, operands, attrs, types, body: Some(region), label: String::new() })?;
    for (value, (_, hint)) in out.iter().zip(carried) {
        l.graph().set_hint(*value, hint);
    }
    Ok(out[1])
}
