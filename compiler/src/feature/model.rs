//! The model itself.

use super::{Feature, Lowering, Slot, misplaced};
use crate::define::loss_of_model;
use crate::diag::{Diagnostic, Kind};
use crate::ir::attribute::Attrs;
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::Pointwise;
use crate::ir::types::{BATCH, Dim, LENGTH, Type, unprefixed};
use crate::lower::{LayerInputs, Loss, Lower, Maps, Starts, answer, group, need, read, return_named};
use crate::schema::{Bounds, Children, DROPOUT, Default, FOLDING, Objective, SPREAD, float, optional_word};
use crate::spec::Block;

/// The keyword and its only form.
pub(super) fn slot() -> Slot {
    Slot::new("model", "The whole model: from tokens to class scores.", vec![model()])
}

fn model() -> Feature {
    Feature {
        fields: vec![
            float("dropout", Default::Float(0.0), DROPOUT, "default of every dropout"),
            float("attention_dropout", Default::Float(0.0), DROPOUT, "default of the dropout on attention weights"),
            float(
                "label_smoothing",
                Default::Absent,
                DROPOUT,
                "share of every target that is spread evenly over all classes, or over both values of a label, in training (Szegedy et al. \
                 2016, arXiv:1512.00567, Section 7): the losses of an evaluation are those of the labels; 0 if left out",
            ),
            optional_word(
                "starts",
                &["lecun", "normal", "orthogonal"],
                "how linear maps start that would start `fan_in` or `xavier`: normal, cut at 2 deviations, with deviation \
                 1/sqrt(inputs), and all other normal starts cut in the same way; normal with `starts_std`; or orthogonal, its numbers of \
                 deviation `starts_std`, and the token table as well with its own. Their biases start at 0. If left out, each map starts as it says",
            ),
            float("starts_std", Default::Absent, SPREAD, "standard deviation of `starts: normal` and `orthogonal`; 0.02 if left out")
                .beside("starts", &["normal", "orthogonal"]),
            float(
                "starts_cut",
                Default::Absent,
                Bounds::above_zero(100.0),
                "how many deviations from 0 normal starts are cut, which makes their deviation smaller; not cut if left out",
            )
            .beside("starts", &["", "normal", "orthogonal"]),
        ],
        children: const {
            &[
                Children::one(&["embed"]),
                Children::any(FOLDING),
                Children::one(&["readout"]),
                Children::or(&["head"], "classifier"),
            ]
        },
        ..Feature::row(
            "model",
            "",
            "Embeds the tokens, runs its layers in order, reads out one vector (or one per token) and classifies it.",
            "rtc",
            Lowering::Model(lower),
        )
    }
}

/// `head(readout(layers(embed(tokens))))`.
fn lower(l: &mut Lower<'_>, model: &Block) -> Result<(), InvalidNode> {
    l.residual_dropout = need(model.float("dropout"), model, "dropout")?;
    l.attention_dropout = need(model.float("attention_dropout"), model, "attention_dropout")?;
    l.label_smoothing = model.float("label_smoothing").unwrap_or(0.0);
    if l.label_smoothing > 0.0 && l.binding().objective == Objective::Number {
        let message = "`label_smoothing` is of classes and labels, and this task asks for a number";
        l.problems.report(Diagnostic::new(Kind::ObjectiveMismatch, model.span, message));
        return Err(InvalidNode(message.to_owned()));
    }
    l.sees_past = model.sees_past();
    let std = model.float("starts_std").unwrap_or(0.02);
    let maps = match model.word("starts") {
        Some("lecun") => Some(Maps::Lecun),
        Some("normal") => Some(Maps::Normal(std)),
        Some("orthogonal") => Some(Maps::Orthogonal(std)),
        _ => None,
    };
    l.starts = Starts { maps, cut: model.float("starts_cut") };
    let child = |slot| need(model.child(slot), model, slot);
    let (embed, readout, head) = (child("embed")?, child("readout")?, child("head")?);
    l.ending = Some((readout.clone(), head.clone()));
    l.each = readout.variant == "each";
    let Lowering::Embed(first) = embed.feature.lower else { return Err(misplaced(embed)) };
    let states = l.scoped("embed", |l| first(l, embed))?;
    let states = group(l, model, &LayerInputs::at(states))?;
    let read = l.scoped("readout", |l| read(l, readout, states))?;
    if l.each && l.graph().ty(read).ragged().and_then(unprefixed).is_some() {
        let message = "`readout each` has no answer for the positions that `prefix` has put before every row";
        let diagnostic = Diagnostic::new(Kind::FramedAnswers, readout.span, message);
        l.problems.report(diagnostic.help("take them away before: `state = drop(state, 1)`"));
        return Err(InvalidNode(message.to_owned()));
    }
    let logits = answer(l, head, read)?;
    results(l, logits)
}

/// The logits, what the spec pays by its own losses (`answered` where the labels are in them), and where something halts, the
/// penalty `sum of weight * mean ponder cost`, and ponder cost and depth per row, each summed over the halting recurrences. Loops
/// that are left by a condition have a depth alone.
fn results(l: &mut Lower<'_>, logits: Value) -> Result<(), InvalidNode> {
    let (mut costs, mut depth): (Option<[Value; 2]>, Option<Value>) = (None, None);
    let added = |l: &mut Lower<'_>, sum: Option<Value>, part: Value| match sum {
        Some(sum) => l.map(Pointwise::Add, &[sum, part]),
        None => Ok(part),
    };
    for one in std::mem::take(&mut l.halted) {
        if let Some(weight) = one.weight {
            let mean = l.one(Op::Average, &[one.ponder_cost], Attrs::new())?;
            let penalty = l.scaled(mean, weight)?;
            let penalty = added(l, costs.map(|[penalty, _]| penalty), penalty)?;
            costs = Some([penalty, added(l, costs.map(|[_, cost]| cost), one.ponder_cost)?]);
        }
        depth = Some(added(l, depth, one.depth)?);
    }
    let mut losses = std::mem::take(&mut l.losses);
    if l.label_smoothing > 0.0 && !losses.iter().any(|loss| loss.labels) {
        losses.push(Loss { value: loss_of_model(l, logits)?, labels: true });
    }
    let [answered, penalty] = [true, false].map(|labels| mean_losses(l, losses.iter().filter(|x| x.labels == labels)));
    let penalty = match (penalty?, costs) {
        (Some(a), Some([b, _])) => Some(l.map(Pointwise::Add, &[a, b])?),
        (a, b) => a.or(b.map(|[penalty, ..]| penalty)),
    };
    let mut results = vec![("logits", logits)];
    results.extend(answered?.map(|value| ("answered", value)));
    results.extend(penalty.map(|value| ("penalty", value)));
    results.extend(costs.map(|[_, cost]| ("halting_cost", cost)));
    results.extend(depth.map(|depth| ("depth", depth)));
    return_named(l.graph(), &results)
}

/// The sum of the means of losses over the answers of the batch.
fn mean_losses<'x>(l: &mut Lower<'_>, losses: impl Iterator<Item = &'x Loss>) -> Result<Option<Value>, InvalidNode> {
    let mut sum = None;
    for loss in losses {
        let mut operands = vec![loss.value];
        if l.rank(loss.value) == 2 {
            operands.push(l.input("weights", Type::real([BATCH, LENGTH].map(Dim::sym)))?);
        }
        let mean = l.one(Op::Average, &operands, Attrs::new())?;
        sum = Some(match sum {
            Some(sum) => l.map(Pointwise::Add, &[sum, mean])?,
            None => mean,
        });
    }
    Ok(sum)
}
