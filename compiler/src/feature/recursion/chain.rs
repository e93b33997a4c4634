//! The chain: a cell runs along the sequence from left to right.

use super::{along, empty, leaves, reducer};
use crate::define;
use crate::diag::{Diagnostic, Kind, Problems};
use crate::feature::{Feature, Lowering, Site};
use crate::ir::graph::{InvalidNode, Value};
use crate::lower::{LayerInputs, Lower, group, need};
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

/// `h_t = Cell(h_{t-1}, x_t)` with `h_0 = 0`.
fn lower(l: &mut Lower<'_>, block: &Block, place: &LayerInputs) -> Result<Value, InvalidNode> {
    let cell = need(block.child("cell"), block, "cell")?;
    let elements = leaves(l, block, place.state)?;
    let elements = group(l, block, &LayerInputs { state: elements, ..place.clone() })?;
    let zeros = empty(l, elements)?;
    let starts = vec![(zeros, "h"); 1 + super::carried(cell)];
    let out = along(l, &starts, &[(elements, "item")], |l, state, item| {
        let values = [&state[..1], item, &state[1..]].concat();
        l.scoped(&cell.variant, |l| define::results(l, cell, &values))
    })?;
    Ok(out[0])
}
