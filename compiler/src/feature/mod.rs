//! The table of features: one row per variant of every slot, one file per row.
//!
//! A feature is the form of a statement with its check and its lowering. A new variant is a new file and an entry in the list of its
//! slot; grammar, defaults, messages, graphs and reference pages follow. A case in `tests/cases/lower` pins its graph.
//!
//! Features emit into the context of `lower`, and `lower` finds them in this table; `ir`, `pass` and `plan` know nothing
//! of either.

mod align;
mod attention;
mod cell;
mod embed;
mod feedforward;
mod gating;
mod halting;
mod head;
mod inject;
mod leaf;
mod lowering;
mod markdown;
mod mega;
mod memory;
mod model;
mod norm;
mod pool;
mod readout;
mod recurrence;
mod recursion;
mod scan;
mod score;
mod select;
mod stack;
mod update;

pub(crate) use lowering::{Lowering, Mix, lowering, misplaced};
pub use markdown::{explain, linked, markdown};

use crate::diag::Problems;
use crate::schema::{Catalog, Children, Field};
use crate::source::Span;
use crate::spec::{Block, Origin};

/// One variant of one slot: its form, its check and its lowering.
#[derive(Clone, Copy)]
pub struct Feature {
    /// The keyword: `halt`.
    pub slot: &'static str,
    /// The word behind it: `global`; empty for slots that have one form.
    pub variant: &'static str,
    /// What it does, in a sentence or two.
    pub doc: &'static str,
    /// Where it is defined: paper, section or equation, arXiv id; `rtc` where this project defines it.
    pub source: &'static str,
    /// Its fields in the order of documentation and printing.
    pub fields: &'static [Field],
    /// What may stand inside its braces, in the canonical order.
    pub children: &'static [Children],
    /// Reports violations of rules over several fields or statements. Runs when all fields are filled.
    pub check: fn(&Site<'_>, &mut Problems),
    /// What it becomes in the graph.
    pub(crate) lower: Lowering,
}

impl Feature {
    /// A row of this lowering that leaves out the rest: no fields, nothing inside, no rules over several fields.
    const fn plain(lower: Lowering) -> Self {
        let (slot, variant, doc, source) = ("", "", "", "");
        Self { slot, variant, doc, source, fields: &[], children: &[], check: nothing_more, lower }
    }

    /// Keyword and variant as written: `attend self`.
    pub fn title(&self) -> String {
        if self.variant.is_empty() { self.slot.to_owned() } else { format!("{} {}", self.slot, self.variant) }
    }
}

/// A keyword and its variants.
#[derive(Clone, Copy)]
pub struct Slot {
    /// The keyword.
    pub name: &'static str,
    /// What the slot decides.
    pub doc: &'static str,
    /// The variants that are built.
    pub features: &'static [Feature],
    /// Variants whose words are kept for later.
    pub planned: &'static [&'static str],
}

impl Slot {
    /// The variant of a name; the empty name stands for the only form of a slot without variants.
    pub fn feature(&self, variant: &str) -> Option<&'static Feature> {
        self.features.iter().find(|f| f.variant == variant)
    }

    /// Whether a word follows the keyword.
    pub fn has_variants(&self) -> bool {
        self.features.iter().any(|f| !f.variant.is_empty())
    }
}

/// All slots, in the order of the reference.
pub const SLOTS: &[Slot] = &[
    model::SLOT,
    embed::SLOT,
    recurrence::SLOT,
    halting::SLOT,
    gating::SLOT,
    inject::SLOT,
    attention::SLOT,
    feedforward::SLOT,
    norm::SLOT,
    scan::SLOT,
    mega::SLOT,
    stack::SLOT,
    memory::SLOT,
    update::SLOT,
    recursion::SLOT,
    leaf::SLOT,
    score::SLOT,
    select::SLOT,
    align::SLOT,
    cell::SLOT,
    pool::SLOT,
    readout::SLOT,
    head::SLOT,
];

/// Keywords that are kept for features to come.
pub const PLANNED: &[&str] = &["confidence"];

/// The slot of a keyword.
pub fn slot(keyword: &str) -> Option<&'static Slot> {
    SLOTS.iter().find(|s| s.name == keyword)
}

/// The feature of a slot and variant.
pub fn feature(keyword: &str, variant: &str) -> Option<&'static Feature> {
    slot(keyword)?.feature(variant)
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
        self.block.children.iter().filter(|c| crate::schema::FOLDING.contains(&c.slot))
    }
}

/// The check of a feature whose fields say everything.
pub(crate) fn nothing_more(_: &Site<'_>, _: &mut Problems) {}
