//! The balanced fold: chunks of the row, then chunks of their vectors, until one vector is left.

use super::{beam, hands_on_a_memory, leaves, reduce, reducer, yielded};
use crate::define;
use crate::diag::{Diagnostic, Kind, Problems};
use crate::feature::{Feature, Lowering, Site};
use crate::ir::attribute::{self, At, AttributeWord, Attrs, CutBy, LastChunk, Padding, Short, Single};
use crate::ir::graph::{InvalidNode, NewNode, Value};
use crate::ir::ops::Op;
use crate::ir::types::Attr;
use crate::lower::{LayerInputs, Lower, choice, group, need};
use crate::schema::{Bounds, Children, Default, FOLD_BODY, int, word};
use crate::spec::Block;

/// The feature.
pub(super) fn balanced() -> Feature {
    Feature {
        fields: vec![
            int("arity", Default::Required, ARITY, "elements of a chunk; the last chunk of a row may have fewer"),
            word(
                "last_chunk",
                LastChunk::NAMES,
                "merge",
                "`merge`: the last chunk may have up to half a chunk more, which saves a level; `strict`: at most \
                `arity` elements",
            ),
            word(
                "plan",
                CutBy::NAMES,
                "row",
                "`row`: every row is cut by its own length; `batch`: all rows are cut by the width of the padded \
                batch, as in the published code",
            ),
            word("short", Short::NAMES, "last", "which chunk of a row is the short one"),
            word(
                "single",
                Single::NAMES,
                "pass",
                "a row of one element: `pass` makes the element its vector, `fold` treats it as a chunk",
            ),
            word(
                "padding",
                Padding::NAMES,
                "none",
                "padding of a short chunk to `arity`: none, or a learned vector in front, at every level \
                (`levels`) or at the first level alone (`input`)",
            ),
        ],
        children: const {
            &[Children::or_outermost(&["leaf"], "linear"), Children::optional(&["align"]), Children::any(FOLD_BODY)]
        },
        check,
        ..Feature::row(
            "recurse",
            "balanced",
            "A balanced tree: cuts the sequence into chunks, reduces each to a vector, and repeats on these vectors \
        until one is left. Inside stands what reduces a chunk: layers, then a cell, a pool or another `recurse`.",
            "Ray Chowdhury and Caragea 2023 (recursion in recursion), Eq. 5 to 7, arXiv:2311.04449; `short`, `padding`: Chi et al. 2023 (RegularGPT), arXiv:2305.03796",
            Lowering::Reduce(lower),
        )
    }
}

const ARITY: Bounds = Bounds::closed(2.0, 1_048_576.0);

fn check(site: &Site<'_>, problems: &mut Problems) {
    super::check(site, problems);
    if hands_on_a_memory(site, problems) {
        return;
    }
    let Some(cell) = reducer(site.block).filter(|r| r.slot == "cell") else { return };
    let title = cell.title();
    if let Some(arity) = site.block.int("arity").filter(|n| *n != 2) {
        problems.report(
            Diagnostic::new(
                Kind::CellTakesTwo,
                cell.span,
                format!("`{title}` joins two vectors, and a chunk has {arity}"),
            )
            .note(site.place("arity"), "the elements of a chunk")
            .help("set `arity: 2`, or let a chain run through the chunk: `recurse chain { cell ... }`"),
        );
    }
}

/// `v_c = Body(x_c)` for every chunk c, and the same on the vectors, until one is left.
fn lower(l: &mut Lower<'_>, block: &Block, place: &LayerInputs) -> Result<Value, InvalidNode> {
    if let Some(searched) = beam::chunked(l, block, place) {
        return searched;
    }
    let nodes = leaves(l, block, place.state)?;
    let over = l.ragged(nodes)?;
    let axis = l.new_axis("node");
    let region = l.graph().add_region();
    let inside = l.with_axis(nodes, &axis);
    let x = l.graph().add_param(region, inside, "nodes");
    let pairs = block.child("cell");
    let filled = (block.word("padding") != Some("none")).then(|| l.new_axis("filled"));
    l.folds += 1;
    let (vector, halted) = l.inside(region, |l| {
        let state = match &filled {
            Some(axis) => fill(l, x, axis)?,
            None => x,
        };
        let here = LayerInputs { memory: place.memory, step: place.step, ..LayerInputs::at(state) };
        let states = group(l, block, &here)?;
        match pairs {
            Some(cell) => l.scoped(&cell.variant, |l| pair(l, cell, states)),
            None => Ok(states),
        }
    })?;
    l.folds -= 1;
    let attrs = attrs(block, (&over, &axis), pairs.is_none() && l.folds == 0)?;
    let attrs = attrs.with_some(attribute::FILLED, filled.as_deref());
    let (yields, types) = yielded(l, vector, &halted);
    l.inside(region, |l| l.emit(Op::Yield, &yields, Attrs::new()))?;
    reduce(
        l,
        NewNode { op: Op::Fold, operands: vec![nodes], attrs, types, body: Some(region), label: String::new() },
        &halted,
    )
}

fn attrs(block: &Block, (over, axis): (&str, &str), can_be_flat: bool) -> Result<Attrs, InvalidNode> {
    Ok(Attrs::of(attribute::ARITY, need(block.int("arity"), block, "arity")?)
        .with(attribute::LAST, choice(block, "last_chunk")?)
        .with(attribute::PLAN, choice(block, "plan")?)
        .with(attribute::OVER, over)
        .with(attribute::AXIS, axis)
        .with_some(attribute::SHORT, unusual(block, "short"))
        .with_some(attribute::SINGLE, unusual(block, "single"))
        .with_some(attribute::PADDING, unusual(block, "padding"))
        .with_some(attribute::FLAT, can_be_flat.then_some(true)))
}

/// The word of a field, unless it is what the absence of its attribute says.
fn unusual<W: AttributeWord>(block: &Block, field: &str) -> Option<W> {
    block.word(field).and_then(W::of_name).filter(|word| *word != W::default())
}

/// The learned vector before what is short.
fn fill(l: &mut Lower<'_>, x: Value, axis: &str) -> Result<Value, InvalidNode> {
    let width = l.last(x)?;
    let pad = l.param("pad", [width], Attr::call("normal", [0.02.into()]))?;
    l.one(Op::PadRagged, &[x, pad], Attrs::of(attribute::AXIS, axis))
}

/// The cell on the two elements of a chunk; one element alone is handed on as it is.
fn pair(l: &mut Lower<'_>, cell: &Block, states: Value) -> Result<Value, InvalidNode> {
    let left = l.one(Op::Position, &[states], Attrs::of(attribute::AT, At::First))?;
    let right = l.one(Op::Position, &[states], Attrs::of(attribute::AT, At::Last))?;
    let joined = define::call(l, cell, &[left, right])?;
    let two = l.one(Op::LongerThanOne, &[states], Attrs::new())?;
    l.one(Op::Select, &[two, joined, left], Attrs::new())
}
