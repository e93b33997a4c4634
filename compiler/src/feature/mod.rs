//! The table of features: one row per variant of every slot.
//!
//! A feature is the form of a statement with its check and its lowering. What equations can say is a definition of the library
//! (`specs/lib/*.rt`, see [`crate::define`]); what they cannot is a row here, one file each: loops, kernels, searches. A new
//! variant of either sort needs nothing else: grammar, defaults, messages, graphs and reference pages follow. A case in
//! `tests/cases/lower` pins its graph.
//!
//! Features emit into the context of `lower`, and `lower` finds them in this table; `ir`, `pass` and `plan` know nothing
//! of either.

mod attention;
mod effect;
mod embed;
pub(crate) mod halting;
mod lowering;
mod markdown;
mod memory;
mod model;
mod readout;
mod recurrence;
mod recursion;
mod scan;
mod select;
mod stack;

use std::sync::{Arc, LazyLock};

pub(crate) use attention::{
    AttentionContext, attended, broken as broken_attention, geometric_fields, given_fields as dot_product_fields,
    mixed_given as dot_product, score::faults as score_faults, stops, word_fields as attention_fields,
};
pub(crate) use effect::{Idle, check as check_effect, cured, idle, says_more};
pub(crate) use lowering::{Lowering, misplaced};
pub use markdown::{explain, explained_names, linked, markdown, titles};

use crate::define::{self, Definition};
use crate::diag::Problems;
use crate::schema::{Catalog, Children, FOLDING, StatementField, Text};
use crate::source::Span;
use crate::spec::{Block, Origin};

/// One variant of one slot: its form, its check and its lowering.
#[derive(Clone)]
pub struct Feature {
    /// The keyword: `halt`.
    pub slot: Text,
    /// The word behind it: `global`; empty for slots that have one form.
    pub variant: Text,
    /// What it does, in a sentence or two.
    pub doc: Text,
    /// Where it is defined: paper, section or equation, arXiv id; `rtc` where this project defines it.
    pub source: Text,
    /// What it is applied to in equations, by name; empty for what only statements can say.
    pub values: Vec<Text>,
    /// Its fields in the order of documentation and printing.
    pub fields: Vec<StatementField>,
    /// What may stand inside its braces, in the canonical order.
    pub children: &'static [Children],
    /// Reports violations of rules over several fields or statements. Runs when all fields are filled.
    pub check: fn(&Site<'_>, &mut Problems),
    /// What it becomes in the graph.
    pub(crate) lower: Lowering,
    /// Whether it is a word of equations that attends to positions.
    pub(crate) attends: bool,
}

impl std::fmt::Debug for Feature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Feature({})", self.title())
    }
}

impl Feature {
    /// A row without fields, without anything inside, and without rules over several fields.
    pub(crate) fn row(
        slot: &'static str,
        variant: &'static str,
        doc: &'static str,
        source: &'static str,
        lower: Lowering,
    ) -> Self {
        let [slot, variant, doc, source] = [slot, variant, doc, source].map(Text::Borrowed);
        Self {
            slot,
            variant,
            doc,
            source,
            values: vec![],
            fields: vec![],
            children: &[],
            check: nothing_more,
            lower,
            attends: false,
        }
    }

    /// Keyword and variant as written: `attend self`.
    pub fn title(&self) -> String {
        if self.variant.is_empty() { self.slot.to_string() } else { format!("{} {}", self.slot, self.variant) }
    }

    /// Its equations, where it has some.
    pub fn definition(&self) -> Option<&Definition> {
        match &self.lower {
            Lowering::Definition(definition) => Some(definition),
            _ => None,
        }
    }

    /// The text of a definition that is not in the library.
    pub fn text(&self) -> Option<&str> {
        match &self.lower {
            Lowering::Equations(run) => Some(&run.text),
            _ => self.definition().filter(|d| !d.library).map(|d| d.text.as_str()),
        }
    }

    /// Whether it is a layer: a statement that makes new states of the states before it.
    pub fn is_layer(&self) -> bool {
        FOLDING.contains(&&*self.slot) || self.is_named_layer() || self.is_equations()
    }

    /// Whether it may stand where these may: it has one of the keywords, or it is a layer of a name of its own, or a run of
    /// equations, where any network may stand.
    pub fn fits(&self, rule: &Children) -> bool {
        let anywhere = self.is_named_layer() || self.is_equations();
        rule.slots.contains(&&*self.slot) || anywhere && rule.slots.contains(&"feedforward")
    }

    /// Whether it is a run of equations in a body.
    pub fn is_equations(&self) -> bool {
        matches!(self.lower, Lowering::Equations(_))
    }

    /// Whether it is a layer that is called by its own name alone.
    pub fn is_named_layer(&self) -> bool {
        self.variant.is_empty() && self.values.len() == 1
    }

    /// The names of values that it shows to what stands behind it.
    pub fn shows(&self) -> impl Iterator<Item = &str> {
        self.definition().into_iter().flat_map(Definition::shown)
    }
}

/// A keyword and its variants.
pub struct Slot {
    /// The keyword.
    pub name: Text,
    /// What the slot decides.
    pub doc: Text,
    /// What a definition of the slot is applied to; empty where definitions cannot be variants of it.
    pub takes: &'static [&'static str],
    /// Settings that every definition of the slot has, besides its own.
    pub fields: Vec<StatementField>,
    /// What holds for every definition in the slot.
    pub check: fn(&Site<'_>, &mut Problems),
    /// The variants.
    pub features: Vec<Arc<Feature>>,
}

impl Slot {
    /// A slot of these rows.
    fn new(name: &'static str, doc: &'static str, features: Vec<Feature>) -> Self {
        let features = features.into_iter().map(Arc::new).collect();
        let [name, doc] = [name, doc].map(Text::Borrowed);
        Self { name, doc, takes: &[], fields: vec![], check: nothing_more, features }
    }

    /// A slot whose variants may be definitions of these values.
    fn open(name: &'static str, doc: &'static str, takes: &'static [&'static str]) -> Self {
        Self { takes, ..Self::new(name, doc, vec![]) }
    }

    /// The variant of a name; the empty name stands for the only form of a slot without variants.
    pub fn feature(&self, variant: &str) -> Option<&Arc<Feature>> {
        self.features.iter().find(|f| f.variant == variant)
    }

    /// Whether a word follows the keyword.
    pub fn has_variants(&self) -> bool {
        self.features.iter().any(|f| !f.variant.is_empty())
    }
}

/// The slots that the library's definitions fill, or that have rows of their own, in the order of the reference.
pub(crate) fn rows() -> Vec<Slot> {
    let gate = "How much of a step's result replaces its input.";
    let inject = "How the input of a recurrence enters its later steps.";
    let leaf = "A map of every element before the outermost fold.";
    let score = "The score of merging two neighbours in a search.";
    let cell =
        "A function from two vectors to one: of neighbours in a balanced fold, of state and next element in a chain.";
    let pool = "Reduces states to one vector, without parameters.";
    let head = "From the readout to class scores, or to the number that a task asks for.";
    vec![
        model::slot(),
        embed::slot(),
        recurrence::slot(),
        recurrence::looped(),
        halting::slot(),
        Slot::open("gate", gate, &["result", "input", "normed"]),
        Slot::open("inject", inject, &["state", "input"]),
        attention::slot(),
        Slot::open("feedforward", "A network applied to every token.", &[]),
        Slot::new("norm", "A norm as a layer of its own.", vec![define::norm()]),
        scan::slot(),
        Slot::open("mega", "The layer of MEGA: moving averages, then gated attention with one head.", &[]),
        stack::slot(),
        memory::slot(),
        memory::update(),
        recursion::slot(),
        Slot::open("leaf", leaf, &["x"]),
        Slot::open("score", score, &["left", "right"]),
        select::slot(),
        select::align(),
        Slot::open("cell", cell, &["left", "right"]),
        Slot::open("pool", pool, &["x"]),
        readout::slot(),
        Slot::open("head", head, &["x"]),
    ]
}

static SLOTS: LazyLock<Vec<Slot>> = LazyLock::new(define::library);

/// All slots, in the order of the reference. Definitions of the library that are no variant of a slot come last, each a
/// slot of its own.
pub fn slots() -> &'static [Slot] {
    &SLOTS
}

/// The slot of a keyword.
pub fn slot(keyword: &str) -> Option<&'static Slot> {
    slots().iter().find(|s| s.name == keyword)
}

/// The feature of a slot and variant.
pub fn feature(keyword: &str, variant: &str) -> Option<&'static Arc<Feature>> {
    slot(keyword)?.feature(variant)
}

/// What equations apply besides definitions: words, and functions of single numbers.
pub fn words() -> impl Iterator<Item = &'static Arc<Feature>> {
    define::words().iter().chain(define::functions())
}

/// A statement in its surroundings, as a check sees it.
pub struct Site<'a> {
    /// The statement, its fields filled in as far as they have a valid value.
    pub block: &'a Block,
    /// The statements around it, the model first. Empty for the model itself.
    pub ancestors: &'a [&'a Block],
    /// The task.
    pub catalog: &'a Catalog,
    /// The place of every `--set`.
    pub overrides: &'a [Span],
}

impl<'a> Site<'a> {
    /// The place of a field's value, or of the statement if the field is not written.
    pub fn place(&self, field: &str) -> Span {
        let written = self.block.fields.get(field).and_then(|setting| match &setting.origin {
            Origin::Written(span) | Origin::Variant(_, span) => Some(*span),
            Origin::Override(n) => n.checked_sub(1).and_then(|n| self.overrides.get(n)).copied(),
            Origin::Derived(_) | Origin::Default => None,
        });
        written.unwrap_or(self.block.span)
    }

    /// How messages call the task.
    fn task(&self) -> String {
        self.catalog.task.as_ref().map_or_else(|| "the task".to_owned(), |name| format!("the task `{name}`"))
    }

    /// The statement right around this one.
    pub fn parent(&self) -> Option<&'a Block> {
        self.ancestors.last().copied()
    }

    /// Whether a statement of this slot and variant is around this one, at any distance.
    pub fn inside(&self, slot: &str, variant: &str) -> bool {
        self.ancestors.iter().any(|b| b.slot == slot && b.variant == variant)
    }

    /// The layers of this statement.
    pub fn layers(&self) -> impl Iterator<Item = &'a Block> {
        self.block.children.iter().filter(|c| c.is_layer())
    }
}

/// The check of a feature whose fields say everything.
pub(crate) fn nothing_more(_: &Site<'_>, _: &mut Problems) {}
