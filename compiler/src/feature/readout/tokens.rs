//! Readouts of token states. They differ only in which states they take.

use super::{fits_task, needs_sequence};
use crate::diag::Problems;
use crate::feature::{Feature, Lowering, Site};
use crate::ir::attribute::{self, At, Attrs};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::lower::Lower;
use crate::spec::Block;

/// The mean state.
pub(super) const MEAN: Feature =
    of_tokens("mean", "The mean of the states of the row, START and END included.", |l, _, states| {
        l.one(Op::Mean, &[states], Attrs::new())
    });
/// The last state.
pub(super) const END: Feature =
    of_tokens("end", "The state of END, or of the last token without `tokens: start_end`.", |l, _, states| {
        l.one(Op::Position, &[states], Attrs::of(attribute::AT, At::Last))
    });
/// The first state.
pub(super) const FIRST: Feature =
    of_tokens("first", "The state of START, or of the first token without `tokens: start_end`.", |l, _, states| {
        l.one(Op::Position, &[states], Attrs::of(attribute::AT, At::First))
    });
/// The largest value of each channel.
pub(super) const MAX: Feature = of_tokens("max", "The largest value of every channel over the row.", |l, _, states| {
    l.one(Op::Max, &[states], Attrs::new())
});

const fn of_tokens(
    variant: &'static str,
    doc: &'static str,
    lower: fn(&mut Lower<'_>, &Block, Value) -> Result<Value, InvalidNode>,
) -> Feature {
    Feature {
        slot: "readout",
        variant,
        doc,
        source: "rtc",
        fields: &[],
        children: &[],
        check,
        lower: Lowering::Readout(lower),
    }
}

fn check(site: &Site<'_>, problems: &mut Problems) {
    fits_task(site, problems);
    needs_sequence(site, problems);
}
