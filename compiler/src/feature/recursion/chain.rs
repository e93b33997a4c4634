//! The chain: a cell runs along the sequence from left to right.

use super::{leaves, reducer};
use crate::define;
use crate::diag::{Diagnostic, Kind, Problems};
use crate::feature::{Feature, Lowering, Site};
use crate::ir::attribute::{self, At, Attrs, Chunking};
use crate::ir::graph::{InvalidNode, NewNode, Value};
use crate::ir::ops::Op;
use crate::lower::{Lower, Place, group, need};
use crate::schema::{Children, FOLD_BODY};
use crate::spec::Block;

/// The feature.
pub(super) fn chain() -> Feature {
    Feature {
        children: const { &[Children::or_outermost(&["leaf"], "linear"), Children::any(FOLD_BODY)] },
        check,
        ..Feature::row(
            "recurse",
            "chain",
            "A recurrent network: starting from zeros, the cell merges the state with one element after the other; \
        the last state is the result. Layers before the cell run on the whole sequence first.",
            "Ray Chowdhury and Caragea 2023 (recursion in recursion), Eq. 2, arXiv:2311.04449",
            Lowering::Reduce(lower),
        )
    }
}

fn check(site: &Site<'_>, problems: &mut Problems) {
    super::check(site, problems);
    if let Some(other) = reducer(site.block).filter(|r| r.slot != "cell") {
        let title = other.title();
        problems.report(
            Diagnostic::new(Kind::ChainNeedsCell, other.span, format!("`{title}` can't be the step of a chain"))
                .label("a chain joins its state with one element: it needs a `cell`")
                .help("use `cell grc { hidden: ... }`, or `recurse balanced` for folds in folds"),
        );
    }
}

/// `h_t = Cell(h_{t-1}, x_t)` with `h_0 = 0`: a chunk recurrence with chunks of one element.
fn lower(l: &mut Lower<'_>, block: &Block, place: &Place) -> Result<Value, InvalidNode> {
    let cell = need(block.child("cell"), block, "cell")?;
    let elements = leaves(l, block, place.state)?;
    let elements = group(l, block, &Place { state: elements, ..place.clone() })?;
    let over = l.ragged(elements)?;
    let axis = l.new_axis("item");
    let first = l.one(Op::Position, &[elements], Attrs::of(attribute::AT, At::First))?;
    let zeros = l.full(first, 0.0, 2)?;
    let region = l.graph().add_region();
    let carried = 1 + super::carried(cell);
    let ty = l.graph().ty(zeros).clone();
    let state: Vec<Value> = (0..carried).map(|_| l.graph().add_param(region, ty.clone(), "h")).collect();
    let inside = l.with_axis(elements, &axis);
    let item = l.graph().add_param(region, inside, "item");
    l.inside(region, |l| {
        let x = l.one(Op::Position, &[item], Attrs::of(attribute::AT, At::Last))?;
        let values: Vec<Value> = [state[0], x].into_iter().chain(state[1..].iter().copied()).collect();
        let next = l.scoped(&cell.variant, |l| define::results(l, cell, &values))?;
        l.emit(Op::Yield, &next, Attrs::new())
    })?;
    let operands: Vec<Value> = std::iter::repeat_n(zeros, carried).chain([elements]).collect();
    let attrs = Attrs::of(attribute::CARRIED, carried)
        .with(attribute::SIZE, 1)
        .with(attribute::CUT, Chunking::Position)
        .with(attribute::OVER, &over)
        .with(attribute::AXIS, &axis);
    let (types, body) = (vec![ty; carried], Some(region));
    let out = l.emit_loop(NewNode { op: Op::Chunks, operands, attrs, types, body, label: String::new() })?;
    l.graph().set_hint(out[0], "h");
    Ok(out[0])
}
