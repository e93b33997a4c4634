//! Halting rules of a depth-wise recurrence.
//!
//! A rule is a definition: the probability to halt at a state, from it and the proposed next one. One number per row halts
//! rows, one per position halts positions. What the recurrence makes of the probabilities is in `recurrence::mixture`.
//!
//! A rule that says `go`, `until` or `loss` decides itself. It gives the states that the recurrence leaves if the step is the last.

use std::collections::BTreeSet;

use super::{Feature, Lowering, Site, Slot};
use crate::define::{self, Definition};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::ir::graph::{InvalidNode, Value};
use crate::lower::{Lower, need};
use crate::schema::{Default, INSIDE_UNIT, POSITIVE, float, word};
use crate::spec::{Block, FieldValue, Setting};

/// The keyword and its variants.
pub(super) fn slot() -> Slot {
    let none = Feature::row(
        "halt",
        "none",
        "Every row takes all steps; the result is the last state.",
        "Ray Chowdhury and Caragea 2024 (UT - Halt), arXiv:2402.00976",
        Lowering::Setting,
    );
    let doc = "When a depth-wise recurrence stops, for every row or every token.";
    // What the recurrence reads of every rule that gives a probability.
    let fields = vec![
        word(
            "keys",
            &["state", "mixture"],
            "state",
            "keys and values of self-attention: the last state, or the mixture of states so far",
        ),
        float(
            "threshold",
            Default::Float(0.999),
            INSIDE_UNIT,
            "halting mass at which a unit halts; the step that reaches it is rejected",
        ),
        float("cost", Default::Float(0.1), POSITIVE, "ponder cost: weight of the expected number of steps in the loss"),
    ];
    Slot { takes: &["from", "to"], fields, check, ..Slot::new("halt", doc, vec![none]) }
}

/// The mixture of states is the keys of `attend self`. What equations attend to, they say themselves.
fn check(site: &Site<'_>, problems: &mut Problems) {
    let Some(around) = site.parent().filter(|_| site.block.word("keys") == Some("mixture")) else { return };
    let (read, message) = (reads_mixture(around), "`keys: mixture` has no effect on attention in equations");
    let mut shared = BTreeSet::new();
    site.ancestors.iter().for_each(|around| define::shared_attention(around, &mut shared));
    let equation = attending(around, &shared);
    let diagnostic = Diagnostic::new(Kind::IdleField, site.place("keys"), message);
    match equation {
        Some(equation) => problems.report(
            diagnostic
                .note(equation.span, "its keys are the values that it is applied to")
                .help("write `attend self { .. }` in its place, or `keys: state`"),
        ),
        None if !read => problems.report(
            Diagnostic::new(
                Kind::IdleField,
                site.place("keys"),
                "`keys: mixture` has no effect: no `attend self` reads it",
            )
            .help("write `keys: state`, or an `attend self` among the layers of the recurrence"),
        ),
        None => {}
    }
}

/// The first layers among these that attend by equations: their own, those of a definition, or a function that is shared with them.
fn attending<'b>(block: &'b Block, shared: &BTreeSet<&str>) -> Option<&'b Block> {
    block.children.iter().find_map(|child| match &*child.slot {
        "stack" | "loop" => attending(child, shared),
        _ if child.feature.is_equations() => Some(child).filter(|child| define::attends(&child.feature, shared)),
        _ => Some(child).filter(|child| child.feature.is_named_layer() && attends_by_name(child)),
    })
}

/// Whether a definition attends, or one of the functions among its settings.
fn attends_by_name(block: &Block) -> bool {
    let given = |setting: &Setting| matches!(&setting.value, FieldValue::Function(inner) if attends_by_name(inner));
    define::attends(&block.feature, &BTreeSet::new()) || block.fields.values().any(given)
}

/// Whether self-attention among these layers has the keys of the recurrence.
fn reads_mixture(block: &Block) -> bool {
    block.children.iter().any(|child| match &*child.slot {
        "attend" => child.variant == "self",
        "stack" | "loop" => reads_mixture(child),
        _ => false,
    })
}

/// Whether a rule says itself who goes on, or what is paid for that.
pub(crate) fn decides(block: &Block) -> bool {
    block.feature.definition().is_some_and(Definition::decides)
}

/// The rule by which the units of a depth-wise recurrence halt. The recurrence carries their survival, mixture and ponder cost.
#[derive(Clone, Copy)]
pub(crate) struct HaltingRule<'b> {
    /// The definition of the probability `p_l` of every unit to halt at `H_l`.
    block: &'b Block,
    /// The unit of halting.
    pub(crate) units: HaltingUnits,
    /// Whether keys and values of self-attention are the mixture of states so far: the output if the unit halted now.
    pub(crate) mixture_keys: bool,
    /// `A_l < threshold` with the halting mass `A_l = sum_{k <= l} alpha_k` is what a unit goes on with.
    pub(crate) threshold: f64,
    /// Ponder cost: weight of the expected number of steps in the loss.
    pub(crate) cost: f64,
}

/// The unit of halting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HaltingUnits {
    /// A whole row.
    Row,
    /// A position of a row. A halted position keeps its state, to which other positions attend.
    Position,
}

impl<'b> HaltingRule<'b> {
    /// The rule of a block for states like this one; nothing where every row takes all steps, or where the rule decides itself.
    pub(crate) fn of(l: &mut Lower<'_>, block: &'b Block, state: Value) -> Result<Option<Self>, InvalidNode> {
        if block.feature.definition().is_none() || decides(block) {
            return Ok(None);
        }
        let per_row = l.scoped("halt", |l| define::rank_of(l, block, &[state, state]))? == 1;
        Ok(Some(Self {
            block,
            units: if per_row { HaltingUnits::Row } else { HaltingUnits::Position },
            mixture_keys: block.word("keys") == Some("mixture"),
            threshold: need(block.float("threshold"), block, "threshold")?,
            cost: need(block.float("cost"), block, "cost")?,
        }))
    }

    /// The probability of every unit to halt at `from`, where `to` is proposed.
    pub(crate) fn probability(&self, l: &mut Lower<'_>, from: Value, to: Value) -> Result<Value, InvalidNode> {
        define::call(l, self.block, &[from, to])
    }
}
