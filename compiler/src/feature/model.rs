//! The model itself.

use super::{Feature, Lowering, Slot, lowering, misplaced, nothing_more};
use crate::ir::attribute::Attrs;
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::Pointwise;
use crate::lower::{Lower, Place, group, need, return_named};
use crate::schema::{Children, DROPOUT, Default, FOLDING, float};
use crate::spec::Block;

/// The keyword and its only form.
pub(super) const SLOT: Slot =
    Slot { name: "model", doc: "The whole model: from tokens to class scores.", features: &[MODEL], planned: &[] };

const MODEL: Feature = Feature {
    slot: "model",
    variant: "",
    doc: "Embeds the tokens, runs its layers in order, reads out one vector (or one per token) and classifies it.",
    source: "rtc",
    fields: &[
        float("dropout", Default::Float(0.0), DROPOUT, "default of every dropout"),
        float("attention_dropout", Default::Float(0.0), DROPOUT, "default of the dropout on attention weights"),
    ],
    children: &[
        Children::one(&["embed"]),
        Children::any(FOLDING),
        Children::one(&["readout"]),
        Children::or(&["head"], "classifier"),
    ],
    check: nothing_more,
    lower: Lowering::Model(lower),
};

/// `head(readout(layers(embed(tokens))))`.
fn lower(l: &mut Lower<'_>, model: &Block) -> Result<(), InvalidNode> {
    l.residual_dropout = need(model.float("dropout"), model, "dropout")?;
    let child = |slot| need(model.child(slot), model, slot);
    let (embed, readout, head) = (child("embed")?, child("readout")?, child("head")?);
    let Lowering::Embed(first) = lowering(embed)? else { return Err(misplaced(embed)) };
    let Lowering::Readout(read) = lowering(readout)? else { return Err(misplaced(readout)) };
    let Lowering::Head(classify) = lowering(head)? else { return Err(misplaced(head)) };
    let states = l.scoped("embed", |l| first(l, embed))?;
    let states = group(l, model, &Place::at(states))?;
    let pooled = l.scoped("readout", |l| read(l, readout, states))?;
    let logits = l.scoped("head", |l| classify(l, head, pooled))?;
    results(l, logits)
}

/// The logits and, where something halts, the penalty `sum of weight * mean ponder cost`, and ponder cost and depth per row, each
/// summed over the halting recurrences.
fn results(l: &mut Lower<'_>, logits: Value) -> Result<(), InvalidNode> {
    let mut totals: Option<[Value; 3]> = None;
    for one in std::mem::take(&mut l.halted) {
        let mean = l.one(Op::Average, &[one.ponder_cost], Attrs::new())?;
        let penalty = l.scaled(mean, one.weight)?;
        let mut parts = [penalty, one.ponder_cost, one.depth];
        for (part, sum) in parts.iter_mut().zip(totals.iter().flatten()) {
            *part = l.map(Pointwise::Add, &[*sum, *part])?;
        }
        totals = Some(parts);
    }
    let mut results = vec![("logits", logits)];
    if let Some([penalty, ponder_cost, depth]) = totals {
        results.extend([("penalty", penalty), ("halting_cost", ponder_cost), ("depth", depth)]);
    }
    return_named(l.graph(), &results)
}
