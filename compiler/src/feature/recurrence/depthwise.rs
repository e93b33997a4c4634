//! Depth-wise recurrence: the layers run on their own output, with or without halting.

use super::mixture::{HaltingMixture, StepResults};
use super::{gate_reads_shown, has_layers};
use crate::define;
use crate::diag::{Diagnostic, Kind, Problems};
use crate::expr::Expr;
use crate::feature::halting::{HaltingRule, decides};
use crate::feature::{Feature, Lowering, Site, says_more};
use crate::ir::attribute::{self, Attrs, StepBound};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::types::Attr;
use crate::lower::{BodyAdditions, CarriedValues, Halted, LayerInputs, Lower, group, need, pay, report};
use crate::schema::{Children, Default, FieldKind, LAYERS, STEPS, StatementField, by_sees, of_kind, word};
use crate::spec::{Block, FieldValue};

/// The feature.
pub(super) fn depthwise() -> Feature {
    Feature {
        fields: vec![
            StatementField {
                bounds: STEPS,
                ..of_kind(
                    "depth",
                    FieldKind::Depth,
                    Default::Required,
                    "number of steps, with halting the upper bound; `log(length, 2)` depends on the length, `given` comes with \
                each example",
                )
            },
            by_sees(
                "cap",
                &["length", "none"],
                ("none", "length"),
                "`length`: with halting a row takes at most its length + 1 steps",
            ),
            word(
                "start",
                &["input", "zero"],
                "input",
                "the first state: the input, or 0, where the input enters through `inject` alone",
            ),
        ],
        children: const {
            &[
                Children::or(&["halt"], "none"),
                Children::or(&["gate"], "none"),
                Children::or(&["inject"], "none"),
                Children::any(LAYERS),
            ]
        },
        check,
        ..Feature::row(
            "recur",
            "depthwise",
            "Runs its layers repeatedly on the whole row with the same weights (Universal Transformer).",
            "Dehghani et al. 2019 (Universal Transformer), Section 2.1, arXiv:1807.03819",
            Lowering::Layer(lower),
        )
    }
}

fn check(site: &Site<'_>, problems: &mut Problems) {
    has_layers(site, problems);
    gate_reads_shown(site, problems);
    halting_can_decide(site, problems);
    cap_acts(site, problems);
    input_enters(site, problems);
}

/// From zero, the input must come in by another way.
fn input_enters(site: &Site<'_>, problems: &mut Problems) {
    let injects = site.block.child("inject").is_some_and(|inject| inject.variant != "none");
    let attends = site.block.any(&|block| block.slot == "attend" && block.variant == "input");
    if site.block.word("start") == Some("zero") && !injects && !attends {
        problems.report(
            Diagnostic::new(Kind::InputLost, site.place("start"), "the input never enters the recurrence")
                .label("it starts from zero")
                .help("write `inject add`, or leave `start: zero` out"),
        );
    }
}

/// The cap is that of a halting rule that gives a probability.
fn cap_acts(site: &Site<'_>, problems: &mut Problems) {
    let Some(halt) = site.block.child("halt") else { return };
    let past = site.ancestors.first().is_some_and(|root| root.sees_past());
    let default = site.block.word("cap") == Some(if past { "none" } else { "length" });
    if default || !says_more(site.block, "cap") || halt.variant != "none" && !decides(halt) {
        return;
    }
    let message = format!("`cap` has no effect with `{}`", halt.title());
    problems.report(
        Diagnostic::new(Kind::IdleField, site.place("cap"), message)
            .note(halt.span, "it gives no probability to halt")
            .help("take `cap` out; `depth: min(length + 1, 10)` bounds the steps of every recurrence"),
    );
}

fn halting_can_decide(site: &Site<'_>, problems: &mut Problems) {
    let Some(halt) = site.block.child("halt").filter(|h| h.variant != "none") else { return };
    let depth = site.block.fields.get("depth").map(|d| &d.value);
    if depth == Some(&FieldValue::Int(1)) {
        problems.report(
            Diagnostic::new(Kind::HaltNeverFires, halt.span, "the halting rule has nothing to decide")
                .note(site.place("depth"), "there is only one step")
                .help("use `halt none`, or a larger depth"),
        );
    }
    let cost = halt.float("cost").unwrap_or(0.0);
    if depth == Some(&FieldValue::Expr(Expr::Given)) && cost > 0.0 {
        problems.report(
            Diagnostic::new(
                Kind::CostWithoutHalting,
                halt.span,
                format!("a halting cost of {cost} is paid for given steps"),
            )
            .note(site.place("depth"), "the number of steps comes with each example")
            .help("set `cost: 0.0`"),
        );
    }
}

/// `H_{l+1} = Block(H_l)` for `l < depth`; with halting, see [`HaltingMixture`]. A rule that decides itself gives the result of every step.
fn lower(l: &mut Lower<'_>, block: &Block, place: &LayerInputs) -> Result<Value, InvalidNode> {
    let halt = need(block.child("halt"), block, "halt")?;
    let start = match block.word("start") {
        Some("zero") => l.full(place.state, 0.0, l.rank(place.state))?,
        _ => place.state,
    };
    let rule = HaltingRule::of(l, halt, start)?;
    let mut carried = CarriedValues::new(l);
    let h = carried.add(l, start, "h");
    let begin = |rule| HaltingMixture::start(l, rule, &mut carried, (h, start));
    let mixture = rule.map(begin).transpose()?;
    let step = carried.step(l);
    let bound = bound(l, block, "depth")?;
    let mut own = BodyAdditions::new(l, &carried, place.state, step, &bound);
    own.by_position = mixture.as_ref().is_some_and(HaltingMixture::by_position);
    let cap = l.graph().ty(place.state).ragged().map(str::to_owned).filter(|_| block.word("cap") != Some("none"));
    let ((mut taken, own), inner) = l.inside(carried.region, |l| {
        l.steps = Some(own);
        let mut here = inner_place(l, block, place, h, step)?;
        let taken = match &mixture {
            None => {
                let next = group(l, block, &here)?;
                define::keeps_positions(l, block, h, next)?;
                let left = if decides(halt) { l.scoped("halt", |l| define::call(l, halt, &[h, next]))? } else { next };
                let yields = if left == next { vec![next] } else { vec![next, left] };
                StepResults { yields, go: None, live: None }
            }
            Some(mixture) => {
                here.source = mixture.keys(l)?;
                let next = group(l, block, &here)?;
                define::keeps_positions(l, block, h, next)?;
                l.scoped("halt", |l| mixture.step(l, next, step, cap.as_deref()))?
            }
        };
        Ok((taken, need(l.steps.take(), block, "body")?))
    })?;
    let result = match (&mixture, taken.yields.len()) {
        (None, 2) => {
            carried.add(l, start, "left");
            1
        }
        _ => 0,
    };
    let sums = carried.sum(l, &inner, place.state, &mut taken.yields)?;
    // A halting rule counts its steps itself.
    let counted = match &mixture {
        None => own.count(l, &mut carried, &mut taken.yields)?,
        Some(_) => None,
    };
    let ended = own.finish(l, &mut carried, &mut taken.yields, taken.live)?;
    let go = match (taken.go, ended.go) {
        // The positions that the rule lets go on are among those that both do.
        (Some(_), Some(both)) if taken.live.is_some() => Some(both),
        (Some(a), Some(b)) => Some(l.inside(carried.region, |l| l.one(Op::And, &[a, b], Attrs::new()))?.0),
        (a, b) => a.or(b),
    };
    taken.yields.extend(go);
    let out = carried.close(l, bound, step, &taken.yields)?;
    pay(l, &ended.losses, &out);
    for (at, weight) in sums {
        l.halted.push(Halted { ponder_cost: out[at], depth: out[at + 1], weight });
    }
    report(l, counted, &out)?;
    match mixture {
        Some(mixture) => l.scoped("halt", |l| mixture.settle(l, &out)),
        None => Ok(out[result]),
    }
}

/// The bound of a recurrence, by this field: a number, or an expression over the length of the row.
fn bound(l: &mut Lower<'_>, block: &Block, field: &str) -> Result<Attrs, InvalidNode> {
    Ok(match depth(l, block, field)? {
        Expr::Int(steps) => Attrs::of(attribute::BOUND, StepBound::Steps(usize::try_from(steps).unwrap_or(0))),
        rule => Attrs::of(attribute::BOUND, StepBound::Rule(&Attr::from(&rule))),
    })
}

/// The number of steps, by this field, with streams of random numbers for what is drawn.
pub(super) fn depth(l: &mut Lower<'_>, block: &Block, field: &str) -> Result<Expr, InvalidNode> {
    match &need(block.fields.get(field), block, field)?.value {
        FieldValue::Int(steps) => Ok(Expr::Int(*steps)),
        FieldValue::Expr(rule) => {
            let streams: Vec<usize> = (0..rule.draws()).map(|_| l.stream()).collect();
            Ok(rule.with_streams(streams.first().copied().unwrap_or(0) as u64))
        }
        other => Err(InvalidNode(format!("{other} is no number of steps"))),
    }
}

/// The place of the layers inside the loop.
fn inner_place(
    l: &mut Lower<'_>,
    block: &Block,
    place: &LayerInputs,
    h: Value,
    step: Value,
) -> Result<LayerInputs, InvalidNode> {
    let inject = need(block.child("inject"), block, "inject")?;
    let state = l.scoped("inject", |l| define::call(l, inject, &[h, place.state]))?;
    Ok(LayerInputs { state, source: None, input: Some(place.state), step: Some(step), ..place.clone() })
}
