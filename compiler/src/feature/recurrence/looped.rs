//! `loop`: equations and layers, step by step, with any number of carried values.

use super::depthwise::depth;
use super::has_layers;
use crate::define::{self, LoopCarry};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::expr::{BinaryOp, Expr, Func, simplify};
use crate::feature::{Feature, Lowering, Site, Slot};
use crate::ir::attribute::{self, Attrs, StepBound};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::types::Attr;
use crate::lower::{BodyAdditions, CarriedValues, Halted, LayerInputs, Lower, layers, need, pay, report};
use crate::schema::{Children, Default, FieldKind, LAYERS, STEPS, StatementField, TIED, Text, of_kind};
use crate::spec::Block;

/// The keyword and its only form.
pub(in crate::feature) fn slot() -> Slot {
    Slot::new("loop", "Runs equations and layers repeatedly, with any number of carried values.", vec![looped()])
}

fn looped() -> Feature {
    Feature {
        fields: vec![
            StatementField {
                bounds: STEPS,
                ..of_kind(
                    "steps",
                    FieldKind::Depth,
                    Default::Required,
                    "number of steps, with `go` or `until` the upper bound; `log(length, 2)` depends on the length, `given` \
                comes with each example",
                )
            },
            StatementField {
                bounds: STEPS,
                ..of_kind(
                    "grad",
                    FieldKind::IntOr(&["all", "none"]),
                    Default::Word(Text::Borrowed("all")),
                    "the last steps, through which gradients go back: so many, `all` or `none`; those before are computed \
                without a tape",
                )
            },
            of_kind(
                TIED,
                FieldKind::Truth,
                Default::Absent,
                "false: every step has weights of its own, so many as there are steps; all steps have the same if left out",
            ),
        ],
        children: const { &[Children::any(LAYERS)] },
        check,
        ..Feature::row(
            "loop",
            "",
            "`loop { steps: 8, .. }`: the layers and equations inside, step after step with the same weights. `state` and the values \
            of `carry` are handed on; a step may end the loop for a row or a position by `go` and `until`.",
            "rtc",
            Lowering::Loop(lower),
        )
    }
}

fn check(site: &Site<'_>, problems: &mut Problems) {
    has_layers(site, problems);
    steps_are_known(site, problems);
    steps_have_weights(site, problems);
    define::check_loop(site, problems);
}

/// Which steps are the last ones must be known before the first.
fn steps_are_known(site: &Site<'_>, problems: &mut Problems) {
    let Some(last) = site.block.int("grad") else { return };
    let stops = define::conditions(site.block).next();
    if let Some(stop) = stops {
        problems.report(
            Diagnostic::new(
                Kind::ExclusiveFields,
                site.place("grad"),
                "which steps are the last ones is not known here",
            )
            .note(stop, "rows leave by this condition")
            .help("with `go` or `until`, write `grad: all`, or cut the gradient with `stop(x)`"),
        );
    }
    if let Some(steps) = site.block.int("steps").filter(|steps| *steps <= last) {
        problems.report(
            Diagnostic::new(Kind::OutOfRange, site.place("grad"), format!("there are {steps} steps"))
                .label("gradients go through all of them")
                .help("leave `grad` out"),
        );
    }
}

/// Whether every step has weights of its own.
fn is_untied(block: &Block) -> bool {
    block.truth(TIED) == Some(false)
}

/// Weights for every step need their number, and gradients for all.
fn steps_have_weights(site: &Site<'_>, problems: &mut Problems) {
    if !is_untied(site.block) {
        return;
    }
    if site.block.int("steps").is_none() {
        let message = "weights of their own need a number of steps";
        let diagnostic = Diagnostic::new(Kind::ExclusiveFields, site.place(TIED), message);
        problems.report(diagnostic.note(site.place("steps"), "this depends on the row").help("as `steps: 8`"));
    }
    if site.block.word("grad") != Some("all") {
        let message = "weights of their own for every step need gradients through all steps";
        let diagnostic = Diagnostic::new(Kind::ExclusiveFields, site.place(TIED), message);
        problems.report(diagnostic.note(site.place("grad"), "some steps have none").help("write `grad: all`"));
    }
}

/// The loop, or where gradients go through its last steps alone, two of them, the first of which has no tape: what it leaves
/// has no gradient.
fn lower(l: &mut Lower<'_>, block: &Block, place: &mut LayerInputs) -> Result<Value, InvalidNode> {
    let mut values = define::starts(l, block, place.state, &mut place.names)?;
    // Weights of the starts have their names before the steps take theirs.
    let before = place.clone();
    for part in runs(l, block)? {
        values = run(l, block, &before, &values, part)?;
    }
    place.names.bind(&values, false);
    let state = values.iter().find(|value| value.name == define::STATE);
    Ok(state.map_or(place.state, LoopCarry::value))
}

/// A part of the steps.
struct LoopSegment {
    bound: Attrs,
    /// Whether gradients go back through it.
    taped: bool,
    /// Steps that came before, if that is known.
    before: Option<usize>,
    /// Whether others follow.
    followed: bool,
}

/// The steps without a tape, then those with one.
fn runs(l: &mut Lower<'_>, block: &Block) -> Result<Vec<LoopSegment>, InvalidNode> {
    let steps = depth(l, block, "steps")?;
    let bound = |steps: Expr| match steps {
        Expr::Int(steps) => Attrs::of(attribute::BOUND, StepBound::Steps(usize::try_from(steps).unwrap_or(0))),
        rule => Attrs::of(attribute::BOUND, StepBound::Rule(&Attr::from(&rule))),
    };
    let Some(last) = block.int("grad") else {
        let taped = block.word("grad") != Some("none");
        return Ok(vec![LoopSegment { bound: bound(steps), taped, before: Some(0), followed: false }]);
    };
    let last = Expr::Int(last as i64);
    let rest = Expr::Binary(BinaryOp::Sub, Box::new(steps.clone()), Box::new(last.clone()));
    let free = simplify(Expr::Call(Func::Max, vec![rest, Expr::Int(0)]));
    let before = match free {
        Expr::Int(steps) => usize::try_from(steps).ok(),
        _ => None,
    };
    let taped = bound(simplify(Expr::Call(Func::Min, vec![steps, last])));
    Ok(vec![
        LoopSegment { bound: bound(free), taped: false, before: Some(0), followed: true },
        LoopSegment { bound: taped, taped: true, before, followed: false },
    ])
}

/// One run over steps, from these values on.
fn run(
    l: &mut Lower<'_>,
    block: &Block,
    before: &LayerInputs,
    values: &[LoopCarry],
    run: LoopSegment,
) -> Result<Vec<LoopCarry>, InvalidNode> {
    let mut here = LayerInputs { input: Some(before.state), ..before.clone() };
    let mut carried = CarriedValues::new(l);
    let inside: Vec<LoopCarry> = values.iter().map(|v| v.at(carried.add(l, v.value(), &v.name))).collect();
    here.names.bind(&inside, true);
    here.state = inside.iter().find(|value| value.name == define::STATE).map_or(before.state, LoopCarry::value);
    let step = carried.step(l);
    here.step = Some(step);
    let count = block.int("steps").filter(|_| is_untied(block));
    let steps = BodyAdditions::new(l, &carried, before.state, step, &run.bound).part(run.before, run.followed);
    let ((mut yields, steps), inner) = l.inside(carried.region, |l| {
        l.steps = Some(steps);
        let outer = l.by_step;
        l.by_step = count.map(|count| (step, count)).or(outer);
        layers(l, block, &mut here)?;
        l.by_step = outer;
        let next = define::nexts(l, block, here.state, &mut here.names, values)?;
        Ok((next, need(l.steps.take(), block, "body")?))
    })?;
    let sums = carried.sum(l, &inner, before.state, &mut yields)?;
    let counted = steps.count(l, &mut carried, &mut yields)?;
    let ended = steps.finish(l, &mut carried, &mut yields, None)?;
    yields.extend(ended.go);
    let mut out = carried.close(l, run.bound, step, &yields)?;
    if !run.taped {
        for value in &mut out {
            if l.graph().ty(*value).is_real() {
                *value = l.one(Op::Detach, &[*value], Attrs::new())?;
            }
        }
    }
    pay(l, &ended.losses, &out);
    for (at, weight) in sums {
        l.halted.push(Halted { ponder_cost: out[at], depth: out[at + 1], weight });
    }
    report(l, counted, &out)?;
    Ok(values.iter().zip(&out).map(|(value, out)| value.at(*out)).collect())
}
