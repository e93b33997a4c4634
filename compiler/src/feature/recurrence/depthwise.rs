//! Depth-wise recurrence: the layers run on their own output, with or without halting.

use super::{gate_has_feedforward, has_layers};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::expr::Expr;
use crate::feature::{Feature, Site};
use crate::schema::{Children, Default, Field, FieldKind, LAYERS, STEPS, Schema, word};
use crate::spec::Value;

/// The feature.
pub(super) const DEPTHWISE: Feature = Feature {
    schema: Schema {
        slot: "recur",
        variant: "depthwise",
        doc: "Runs its layers again and again on the whole row with the same weights (Universal Transformer).",
        fields: &[
            Field {
                name: "depth",
                kind: FieldKind::Depth,
                default: Default::Required,
                bounds: STEPS,
                doc: "number of steps, with halting the most there can be; `log(length, 2)` follows the length, `given` comes \
                      with each example",
            },
            word(
                "cap",
                &["length", "none"],
                "length",
                "`length`: with halting a row takes at most its length + 1 steps",
            ),
        ],
        children: &[
            Children::or(&["halt"], "none"),
            Children::or(&["gate"], "none"),
            Children::or(&["inject"], "none"),
            Children::any(LAYERS),
        ],
    },
    check,
};

fn check(site: &Site<'_>, problems: &mut Problems) {
    has_layers(site, problems);
    gate_has_feedforward(site, problems);
    halting_can_decide(site, problems);
}

fn halting_can_decide(site: &Site<'_>, problems: &mut Problems) {
    let Some(halt) = site.block.child("halt").filter(|h| h.variant != "none") else { return };
    let depth = site.block.fields.get("depth").map(|d| &d.value);
    if depth == Some(&Value::Int(1)) {
        problems.report(
            Diagnostic::new(Kind::HaltNeverFires, halt.span, "the halting rule has nothing to decide")
                .note(site.place("depth"), "there is only one step")
                .help("use `halt none`, or a larger depth"),
        );
    }
    let cost = halt.float("cost").unwrap_or(0.0);
    if depth == Some(&Value::Expr(Expr::Given)) && cost > 0.0 {
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
