//! Recursions: they fold (reduce) a sequence to one vector.
//!
//! A fold runs layers that keep the sequence, then one statement that does not: a cell, a pool, or another fold. The
//! variants differ in what they run those on: chunks of the row and then chunks of their vectors, the row as a chain, with or
//! without a memory of slots, or all neighbours at once while positions fade away.

mod balanced;
mod beam;
mod chain;
mod continuous;
mod ordered_memory;

use super::{Site, Slot};
use crate::define;
use crate::diag::{Diagnostic, Kind, Problems};
use crate::ir::attribute::{self, At, Attrs, Chunking};
use crate::ir::graph::{InvalidNode, NewNode, Value};
use crate::ir::ops::Op;
use crate::ir::types::Type;
use crate::lower::{Halted, Lower};
use crate::schema::Objective;
use crate::spec::Block;

/// The keyword and its variants.
pub(super) fn slot() -> Slot {
    Slot::new(
        "recurse",
        "Folds (reduces) a sequence to one vector.",
        vec![
            balanced::balanced(),
            chain::chain(),
            beam::beam(),
            continuous::continuous(),
            ordered_memory::ordered_memory(),
        ],
    )
}

/// Statements that make one vector of a sequence.
const REDUCERS: &[&str] = &["cell", "pool", "recurse"];

/// Whether a statement is a layer that keeps the sequence.
fn is_sequence_layer(block: &Block) -> bool {
    block.is_layer() && block.slot != "recurse" && !block.feature.is_equations()
}

/// The statement of a fold that makes one vector of its sequence.
fn reducer(block: &Block) -> Option<&Block> {
    block.children.iter().find(|child| REDUCERS.contains(&&*child.slot))
}

/// The search in a balanced fold whose beams live on from level to level: it is all that stands there, and maps no leaves of
/// its own.
pub(super) fn aligned(fold: &Block) -> Option<&Block> {
    let beam = reducer(fold).filter(|b| b.slot == "recurse" && b.variant == "beam")?;
    let alone = !fold.children.iter().any(is_sequence_layer);
    let kept = fold.child("align").is_none_or(|align| align.variant != "none");
    let own_leaves = beam.child("leaf").is_some_and(|leaf| leaf.variant != "none");
    (alone && kept && !own_leaves).then_some(beam)
}

/// What holds for every fold: what stands in it, and where it stands.
fn check(site: &Site<'_>, problems: &mut Problems) {
    let title = site.block.title();
    match reducer(site.block) {
        None => problems.report(
            Diagnostic::new(Kind::FoldNeedsReducer, site.block.span, format!("nothing in `{title}` makes one vector"))
                .label("its layers keep the sequence")
                .help("end it with `cell grc { hidden: ... }`, `pool mean` or another `recurse`"),
        ),
        Some(reducer) => nothing_after(reducer, &site.block.children, problems),
    }
    // A fold around looks after what stands in it.
    let parent = site.parent().filter(|parent| parent.slot != "recurse");
    if let Some(parent) = parent {
        nothing_after(site.block, &parent.children, problems);
        sees_all(site, parent, problems);
    }
}

/// Whether the cell of a fold needs a chain, which alone hands a memory on; that is reported.
fn hands_on_a_memory(site: &Site<'_>, problems: &mut Problems) -> bool {
    let Some(cell) = site.block.child("cell").filter(|cell| carried(cell) > 0) else { return false };
    problems.report(
        Diagnostic::new(Kind::CellNeedsChain, cell.span, format!("`{}` can't join two neighbours", cell.title()))
            .label("it hands on a memory besides its vector")
            .help("put it into a chain: `recurse chain { cell lstm }`"),
    );
    true
}

/// The vector of a chunk holds all of its tokens, also those behind a token that answers. A fold of the whole row leaves
/// no token to answer, which the readout reports.
fn sees_all(site: &Site<'_>, parent: &Block, problems: &mut Problems) {
    if site.catalog.objective != Some(Objective::Each) || parent.slot == "model" {
        return;
    }
    let title = site.block.title();
    let task = site.task();
    problems.report(
        Diagnostic::new(Kind::ObjectiveMismatch, site.block.span, format!("`{title}` does not fit {task}"))
            .label("its vector holds tokens that come after the one that answers")
            .help("take it out: the layers of the chunk can answer for every token"),
    );
}

/// What makes one vector of the sequence comes last: those after it would have no sequence.
fn nothing_after(reducer: &Block, siblings: &[Block], problems: &mut Problems) {
    let needs_sequence = |b: &&Block| is_sequence_layer(b) || REDUCERS.contains(&&*b.slot);
    let behind = siblings.iter().skip_while(|b| !std::ptr::eq(*b, reducer)).skip(1).find(needs_sequence);
    let Some(next) = behind else { return };
    problems.report(
        Diagnostic::new(Kind::NoSequence, next.span, format!("`{}` has no sequence to work on", next.title()))
            .note(reducer.span, "this has made one vector of it")
            .help("put it before, or take one of the two out"),
    );
}

/// The elements of a fold: the states through its `leaf`, where it has one.
fn leaves(l: &mut Lower<'_>, block: &Block, states: Value) -> Result<Value, InvalidNode> {
    let Some(leaf) = block.child("leaf") else { return Ok(states) };
    l.scoped("leaf", |l| define::call(l, leaf, &[states]))
}

/// Number of further vectors that a cell hands on. They start as zeros and exist in chains only.
fn carried(cell: &Block) -> usize {
    cell.feature.definition().map_or(0, |definition| definition.carried().count())
}

/// One vector of two, under the name of the cell.
fn joined(l: &mut Lower<'_>, cell: &Block, left: Value, right: Value) -> Result<Value, InvalidNode> {
    l.scoped(&cell.variant, |l| define::call(l, cell, &[left, right]))
}

/// Emits a loop whose body makes the next carried values of those of the step before and of what `inside` gives it. Values
/// have names for the text form; of several results with one name, the first has it.
fn repeated(
    l: &mut Lower<'_>,
    (op, attrs): (Op, Attrs),
    starts: &[(Value, &str)],
    sequences: &[Value],
    inside: &[(Type, &str)],
    body: impl FnOnce(&mut Lower<'_>, &[Value], &[Value]) -> Result<Vec<Value>, InvalidNode>,
) -> Result<Vec<Value>, InvalidNode> {
    let region = l.graph().add_region();
    let types: Vec<Type> = starts.iter().map(|(value, _)| l.graph().ty(*value).clone()).collect();
    let params = types.iter().zip(starts);
    let carried: Vec<Value> = params.map(|(ty, (_, hint))| l.graph().add_param(region, ty.clone(), hint)).collect();
    let given: Vec<Value> = inside.iter().map(|(ty, hint)| l.graph().add_param(region, ty.clone(), hint)).collect();
    l.inside(region, |l| {
        let next = body(l, &carried, &given)?;
        l.emit(Op::Yield, &next, Attrs::new())
    })?;
    let operands = starts.iter().map(|(value, _)| *value).chain(sequences.iter().copied()).collect();
    let out = l.emit_loop(NewNode { op, operands, attrs, types, body: Some(region), label: String::new() })?;
    for (n, (value, (_, hint))) in out.iter().zip(starts).enumerate() {
        if starts[..n].iter().all(|(_, other)| other != hint) {
            l.graph().set_hint(*value, hint);
        }
    }
    Ok(out)
}

/// Runs a step for every element of sequences, from left to right: a chunk recurrence with chunks of one element, of which the
/// body gets the vectors.
fn along(
    l: &mut Lower<'_>,
    starts: &[(Value, &str)],
    sequences: &[(Value, &str)],
    body: impl FnOnce(&mut Lower<'_>, &[Value], &[Value]) -> Result<Vec<Value>, InvalidNode>,
) -> Result<Vec<Value>, InvalidNode> {
    let (values, hints): (Vec<Value>, Vec<&str>) = sequences.iter().copied().unzip();
    let (over, axis) = (l.ragged(values[0])?, l.new_axis("item"));
    let inside: Vec<(Type, &str)> = values.iter().zip(hints).map(|(x, hint)| (l.with_axis(*x, &axis), hint)).collect();
    let attrs = Attrs::of(attribute::CARRIED, starts.len())
        .with(attribute::SIZE, 1)
        .with(attribute::CUT, Chunking::Position)
        .with(attribute::OVER, &over)
        .with(attribute::AXIS, &axis);
    repeated(l, (Op::Chunks, attrs), starts, &values, &inside, |l, carried, items| {
        let last = |item: &Value| l.one(Op::Position, &[*item], Attrs::of(attribute::AT, At::Last));
        let items = items.iter().map(last).collect::<Result<Vec<Value>, _>>()?;
        body(l, carried, &items)
    })
}

/// Zeros like an element of a sequence: where a state that goes along it starts.
fn empty(l: &mut Lower<'_>, sequence: Value) -> Result<Value, InvalidNode> {
    let first = l.one(Op::Position, &[sequence], Attrs::of(attribute::AT, At::First))?;
    l.full(first, 0.0, 2)
}

/// What a body that reduces hands on: its vector, then ponder cost and depth of every recurrence that halts in it.
fn yielded(l: &mut Lower<'_>, vector: Value, halted: &[Halted]) -> (Vec<Value>, Vec<Type>) {
    let yields: Vec<Value> =
        std::iter::once(vector).chain(halted.iter().flat_map(|one| [one.ponder_cost, one.depth])).collect();
    let types = yields.iter().map(|value| l.graph().ty(*value).clone()).collect();
    (yields, types)
}

/// Emits a loop that reduces a sequence, and gives its root. Ponder costs and depths are means over the runs of its body for a
/// row: its chunks, or the pairs that it joins.
fn reduce(l: &mut Lower<'_>, new: NewNode, halted: &[Halted]) -> Result<Value, InvalidNode> {
    let out = l.emit_loop(new)?;
    l.graph().set_hint(out[0], "root");
    for (n, one) in halted.iter().enumerate() {
        l.halted.push(Halted { ponder_cost: out[1 + 2 * n], depth: out[2 + 2 * n], weight: one.weight });
    }
    Ok(out[0])
}
