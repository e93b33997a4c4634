//! One vector of a sequence without parameters.

use super::{Feature, Lowering, Slot, nothing_more};
use crate::ir::attribute::{self, At, Attrs};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::lower::{Lower, Place};
use crate::spec::Block;

/// The keyword and its variants.
pub(super) const SLOT: Slot = Slot {
    name: "pool",
    doc: "Reduces states to one vector, without parameters.",
    features: &[
        of_states("mean", "The mean of the states.", |l, _, place| l.one(Op::Mean, &[place.state], Attrs::new())),
        of_states("first", "The first state.", |l, _, place| at(l, place, At::First)),
        of_states("last", "The last state.", |l, _, place| at(l, place, At::Last)),
        of_states("max", "The largest value of every channel.", |l, _, place| {
            l.one(Op::Max, &[place.state], Attrs::new())
        }),
    ],
    planned: &[],
};

const fn of_states(
    variant: &'static str,
    doc: &'static str,
    lower: fn(&mut Lower<'_>, &Block, &Place) -> Result<Value, InvalidNode>,
) -> Feature {
    Feature {
        slot: "pool",
        variant,
        doc,
        source: "rtc",
        fields: &[],
        children: &[],
        check: nothing_more,
        lower: Lowering::Reduce(lower),
    }
}

fn at(l: &mut Lower<'_>, place: &Place, end: At) -> Result<Value, InvalidNode> {
    l.one(Op::Position, &[place.state], Attrs::of(attribute::AT, end))
}
