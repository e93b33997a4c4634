//! The proof of causality on the graph of a model, with every leak as a problem in its place.

use std::collections::BTreeSet;

use crate::causality::{Leak, Sight, Why, leaks};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::feature::Site;
use crate::ir::graph::Graph;
use crate::ir::ops::Op;
use crate::lower::{Binding, lower, statements};
use crate::schema::Catalog;
use crate::source::Span;
use crate::spec::{Block, Spec};

/// Reports every way in which later tokens reach an answer of `readout each { sees: past }`.
pub(super) fn prove(spec: &Spec, catalog: &Catalog, overrides: &[Span], problems: &mut Problems) {
    let Some(readout) = spec.root.child("readout").filter(|_| spec.root.sees_past()) else { return };
    // An invalid node is a fault of the compiler, which compiling reports.
    let Ok(graph) = lower(spec, &Binding::from(catalog)) else { return };
    let mut seen = BTreeSet::new();
    for leak in leaks(&graph, "logits") {
        let found = LeakReport::of(&leak, &graph, spec, catalog, overrides);
        // Copies of a layer leak alike.
        if seen.insert((found.place, found.message.clone())) {
            let way = way(&leak, &graph, spec);
            problems.report(
                Diagnostic::new(Kind::LeaksFuture, found.place, found.message)
                    .label("later tokens come in here")
                    .note(readout.span, "an answer may depend only on the tokens up to its own")
                    .help(format!("the way to the answers: {way}"))
                    .help(found.cure),
            );
        }
    }
}

/// The report of a leak, in the words of the language.
struct LeakReport {
    place: Span,
    message: String,
    cure: &'static str,
}

impl LeakReport {
    fn of(leak: &Leak, graph: &Graph, spec: &Spec, catalog: &Catalog, overrides: &[Span]) -> Self {
        let node = graph.node(leak.node);
        let around = statements(&spec.root, &node.label);
        let (slot, field, cure) = cure(&leak.why, around.last().copied());
        let block = around.iter().rev().find(|b| slot.is_none_or(|slot| b.slot == slot)).copied().unwrap_or(&spec.root);
        let site = Site { block, ancestors: &[], catalog, overrides };
        // Where the op says more than the statement, it is named.
        let op = matches!(leak.why, Why::Pool(_) | Why::Mixes(_) | Why::Flows);
        let op = if op { format!("`{}` of ", node.op) } else { String::new() };
        let message = format!("{op}`{}` {}", block.title(), leak.why.describe());
        Self { place: site.place(field), message, cure }
    }
}

/// Slot and field in which a leak is decided, and what to write there.
fn cure(why: &Why, block: Option<&Block>) -> (Option<&'static str>, &'static str, &'static str) {
    match why {
        Why::Mask(Sight::All) => (Some("attend"), "mask", "use `mask: past`"),
        Why::Mask(Sight::Length) => (Some("attend"), "mask", "leave `length` out of the mask"),
        Why::Bias => (Some("attend"), "bias", "leave `length` out of the bias"),
        Why::Mask(_) => (Some("attend"), "mask", "use `mask: past`, or let the mask begin with `j <= i and`"),
        Why::Pool(Op::Mean) if block.is_some_and(|b| b.slot == "halt") => (Some("halt"), "mean", "use `mean: past`"),
        Why::Bound => (Some("recur"), "depth", "use a fixed number of steps; with halting, fewer of them are taken"),
        Why::Cap => (Some("recur"), "cap", "use `cap: none`"),
        Why::Cut if block.is_some_and(|b| b.word("cut") == Some("balanced")) => {
            (Some("recur"), "cut", "use `cut: position`")
        }
        Why::Cut => (Some("recur"), "chunks", "use `size`, the number of tokens of a chunk"),
        _ => (None, "", "`rtc compile --emit causality` shows what every node depends on"),
    }
}

/// The statements that a leak runs through, from the tokens to the answers.
fn way(leak: &Leak, graph: &Graph, spec: &Spec) -> String {
    let mut way: Vec<String> = vec!["tokens".to_owned()];
    for step in &leak.path {
        let around = statements(&spec.root, &graph.node(step.node).label);
        let title = around.last().filter(|_| around.len() > 1).map(|block| block.title());
        way.extend(title.filter(|title| way.last() != Some(title)));
    }
    way.join(" -> ")
}
