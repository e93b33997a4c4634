//! Beam search over binary trees: every step merges two neighbours, and the best partial trees are kept.

use super::{aligned, hands_on_a_memory, joined, leaves, reduce, yielded};
use crate::define;
use crate::diag::Problems;
use crate::feature::{Feature, Lowering, Site};
use crate::ir::attribute::{self, Align, At, AttributeWord, Attrs, Compose, Draws, Overflow, Role};
use crate::ir::graph::{InvalidNode, NewNode, Value};
use crate::ir::ops::Op;
use crate::ir::types::Attr;
use crate::lower::{Halted, LayerInputs, Lower, choice, group, need};
use crate::schema::{Bounds, Children, Default, FOLD_BODY, int};
use crate::spec::Block;

/// The feature.
pub(super) fn beam() -> Feature {
    Feature {
        fields: vec![int("size", Default::Required, SIZE, "number of beams")],
        children: const {
            &[
                Children::or_outermost(&["leaf"], "linear"),
                Children::or(&["score"], "mlp"),
                Children::or(&["select"], "top_k"),
                Children::any(FOLD_BODY),
            ]
        },
        check,
        ..Feature::row(
            "recurse",
            "beam",
            "Beam search over binary trees: every step merges two neighbours, until one node is left. The best `size` \
        partial trees are kept; the result is the mean of their roots, weighted by the softmax of their scores. \
        Inside stands what merges two nodes: layers on the two, then a cell, a pool or another `recurse`.",
            "Ray Chowdhury and Caragea 2023 (beam tree), arXiv:2305.19999; Ray Chowdhury and Caragea 2023 (efficient beam tree), arXiv:2307.10779",
            Lowering::Reduce(|l, block, place| search(l, block, place, None)),
        )
    }
}

/// A step looks at the square of so many candidates.
const SIZE: Bounds = Bounds::closed(1.0, 1024.0);

fn check(site: &Site<'_>, problems: &mut Problems) {
    super::check(site, problems);
    hands_on_a_memory(site, problems);
}

/// The search over a row, or over chunks of the balanced fold around it and then over chunks of their roots.
pub(super) fn search(
    l: &mut Lower<'_>,
    block: &Block,
    place: &LayerInputs,
    fold: Option<&Block>,
) -> Result<Value, InvalidNode> {
    let nodes = leaves(l, fold.unwrap_or(block), place.state)?;
    let over = l.ragged(nodes)?;
    let axis = l.new_axis("pair");
    let score = need(block.child("score"), block, "score")?;
    let of_parent = reads_parent(score);
    let attrs = attrs(l, block, of_parent, fold, (&over, &axis))?;
    let name = if fold.is_some() { Some("beam") } else { None };
    let emit = |l: &mut Lower<'_>| {
        let body = l.graph().add_region();
        let pair = l.with_axis(nodes, &axis);
        let x = l.graph().add_param(body, pair, "nodes");
        l.folds += 1;
        let ((joined, numbers, scored), _) = l.inside(body, |l| {
            let (joined, halted) = part(l, Role::Join, x, |l, x| join(l, block, place, x))?;
            let ty = l.graph().ty(if of_parent { joined[0] } else { x }).clone();
            let y = l.graph().add_param(body, ty, "scored");
            let (scored, _) = part(l, Role::Score, y, |l, y| l.scoped("score", |l| scored_by(l, score, y)))?;
            let yields: Vec<Value> = joined.iter().chain(&scored).copied().collect();
            l.emit(Op::Yield, &yields, Attrs::new())?;
            Ok((joined, halted, scored))
        })?;
        debug_assert_eq!(scored.len(), 1);
        l.folds -= 1;
        let types = joined.iter().map(|v| l.graph().ty(*v).clone()).collect();
        let (operands, attrs, body) = (vec![nodes], attrs.clone(), Some(body));
        reduce(l, NewNode { op: Op::Beam, operands, attrs, types, body, label: String::new() }, &numbers)
    };
    match name {
        Some(name) => l.scoped(name, emit),
        None => emit(l),
    }
}

fn attrs(
    l: &Lower<'_>,
    block: &Block,
    of_parent: bool,
    fold: Option<&Block>,
    (over, axis): (&str, &str),
) -> Result<Attrs, InvalidNode> {
    let select = need(block.child("select"), block, "select")?;
    let soft = select.variant == "one_soft";
    let attrs = Attrs::of(attribute::BEAMS, need(block.int("size"), block, "size")?)
        .with(attribute::COMPOSE, if of_parent { Compose::Every } else { Compose::Chosen })
        .with(attribute::OVERFLOW, if soft { Overflow::Soften } else { Overflow::Prune })
        .with(attribute::NOISE, choice(select, "noise")?)
        .with(attribute::DRAWS, Draws::Row)
        .with(attribute::OVER, over)
        .with(attribute::AXIS, axis);
    let Some(fold) = fold else { return Ok(attrs) };
    let align = fold.child("align");
    let draws_all = align.and_then(|align| align.word("first")) == Some("drawn");
    let mut attrs = attrs
        .with(attribute::ARITY, need(fold.int("arity"), fold, "arity")?)
        .with(attribute::ALIGN, align.and_then(|align| Align::of_name(&align.variant)).unwrap_or_default())
        .with(attribute::KEEP_BEST, !draws_all)
        .with_some(attribute::FLAT, (l.folds == 0).then_some(true));
    // The text form of a search has these words in quotes.
    for (attribute, field) in [(attribute::LAST.row, "last_chunk"), (attribute::PLAN.row, "plan")] {
        attrs.insert(&attribute, Attr::Text(need(fold.word(field), fold, field)?.to_owned()));
    }
    Ok(attrs)
}

/// Whether a score is one of the merged node, and not of the pair.
fn reads_parent(score: &Block) -> bool {
    score.feature.values.len() == 1
}

/// The score `f32[batch]` of a pair `f32[batch, pair, width]`, or of a merged node.
fn scored_by(l: &mut Lower<'_>, score: &Block, of: Value) -> Result<Value, InvalidNode> {
    if reads_parent(score) { define::call(l, score, &[of]) } else { define::call_on_ends(l, score, of) }
}

/// What two nodes become.
fn join(l: &mut Lower<'_>, block: &Block, place: &LayerInputs, pair: Value) -> Result<Value, InvalidNode> {
    let here = LayerInputs { memory: place.memory, step: place.step, ..LayerInputs::at(pair) };
    let states = group(l, block, &here)?;
    let Some(cell) = block.child("cell") else { return Ok(states) };
    let left = l.one(Op::Position, &[states], Attrs::of(attribute::AT, At::First))?;
    let right = l.one(Op::Position, &[states], Attrs::of(attribute::AT, At::Last))?;
    joined(l, cell, left, right)
}

/// A part of the region: its results, and what halts in it.
fn part(
    l: &mut Lower<'_>,
    role: Role,
    x: Value,
    body: impl FnOnce(&mut Lower<'_>, Value) -> Result<Value, InvalidNode>,
) -> Result<(Vec<Value>, Vec<Halted>), InvalidNode> {
    let region = l.graph().add_region();
    let ty = l.graph().ty(x).clone();
    let param = l.graph().add_param(region, ty, if role == Role::Join { "pair" } else { "of" });
    let (result, halted) = l.inside(region, |l| body(l, param))?;
    let (yields, types) = yielded(l, result, &halted);
    l.inside(region, |l| l.emit(Op::Yield, &yields, Attrs::new()))?;
    let attrs = Attrs::of(attribute::ROLE, role);
    let new = NewNode { op: Op::Part, operands: vec![x], attrs, types, body: Some(region), label: String::new() };
    let out = l.emit_loop(new)?;
    l.graph().set_hint(out[0], if role == Role::Join { "parent" } else { "score" });
    Ok((out, halted))
}

/// Lowers a balanced fold whose searches hand on their beams; `None` for any other one.
pub(super) fn chunked(l: &mut Lower<'_>, fold: &Block, place: &LayerInputs) -> Option<Result<Value, InvalidNode>> {
    aligned(fold).map(|beam| search(l, beam, place, Some(fold)))
}
