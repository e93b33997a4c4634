//! Scans: linear recurrences along the row, computed as a convolution of every channel with a long kernel of its own.

mod ema;
mod s4d;

use super::{Site, Slot};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::ir::attribute::{self, Attrs, Side};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::pointwise::Pointwise;
use crate::lower::{Lower, Place, need};
use crate::schema::{DROPOUT, Default, Derived, Field, float, word};
use crate::spec::Block;

pub(crate) use ema::average;

/// The keyword and its variants.
pub(super) fn slot() -> Slot {
    Slot::new(
        "scan",
        "A linear recurrence along the row: a convolution of every channel with a long kernel of its own.",
        vec![s4d::s4d(), ema::ema()],
    )
}

pub(super) const DIRECTION: Field = word(
    "direction",
    &["both", "forward"],
    "both",
    "whether a token sees the whole row, or only the tokens up to itself",
);
const DROPPED: Field =
    float("dropout", Default::Derived(Derived::ModelDropout), DROPOUT, "dropout of whole channels of a row");
const NORM: Field =
    word("norm", &["none", "pre", "post"], "none", "a layer norm before the scan, or on the sum with its input");

/// How a scan looks at the row.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    /// The side that is seen.
    side: Side,
    /// Distance of the nearest position that is seen.
    lag: usize,
}

/// The positions up to the own one.
pub(super) const BEFORE: View = View { side: Side::Left, lag: 0 };
/// The positions from the own one on.
pub(super) const BEHIND: View = View { side: Side::Right, lag: 0 };
/// The positions behind the own one.
pub(super) const STRICTLY_BEHIND: View = View { side: Side::Right, lag: 1 };

impl View {
    fn attrs(self) -> Attrs {
        Attrs::of(attribute::SIDE, self.side).with(attribute::LAG, self.lag)
    }
}

/// The residual connection and the norm around what a scan does to its input.
fn residual(
    l: &mut Lower<'_>,
    block: &Block,
    place: &Place,
    body: impl FnOnce(&mut Lower<'_>, Value) -> Result<Value, InvalidNode>,
) -> Result<Value, InvalidNode> {
    let norm = block.word("norm");
    let x = if norm == Some("pre") { l.norm(place.state, "norm")? } else { place.state };
    let y = body(l, x)?;
    let sum = l.map(Pointwise::Add, &[y, place.state])?;
    if norm == Some("post") { l.norm(sum, "norm") } else { Ok(sum) }
}

/// Whether the scan reads the row from both sides.
fn both(block: &Block) -> Result<bool, InvalidNode> {
    Ok(need(block.word("direction"), block, "direction")? == "both")
}

/// Reports a field that says more than its default, where there is no second direction for it.
fn needs_both(site: &Site<'_>, field: &str, default: &str, problems: &mut Problems) {
    let says_more = site.block.word(field).is_some_and(|word| word != default);
    if says_more && site.block.word("direction") == Some("forward") {
        problems.report(
            Diagnostic::new(
                Kind::ExclusiveFields,
                site.place(field),
                format!("`{field}` says what to do with a second direction, and `direction: forward` has none"),
            )
            .note(site.place("direction"), "the direction is given here")
            .help(format!("take out `{field}`, or use `direction: both`")),
        );
    }
}
