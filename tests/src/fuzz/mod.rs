//! What rtc reads, as functions of bytes: for any bytes they end soon, within bounded memory and without a panic, and what they
//! accept means what it says. A target is a row of [`TARGETS`] and a folder of seeds, `tests/corpus/NAME`.
//!
//! `tests/tests/fuzz.rs` gives every target its seeds and a fixed number of inputs made of them, `tests/fuzz.sh` whatever libFuzzer
//! finds for hours.

mod data;
mod editor;
mod experiments;
mod folder;
mod graphs;
mod inputs;
pub mod language;
mod runs;
mod weights;

pub use inputs::{Corpus, LONGEST};

/// A function of bytes. It panics where something does not hold.
pub type Target = fn(&[u8]);

/// The targets, by the names of their folders.
pub const TARGETS: &[(&str, Target)] = &[
    ("specs", language::specs),
    ("graphs", graphs::text),
    ("graphs_yaml", graphs::yaml),
    ("graphs_json", graphs::json),
    ("experiments", experiments::file),
    ("documents", editor::document),
    ("csv", data::rows),
    ("jsonl", data::rows),
    ("texts", data::rows),
    ("packed", data::rows),
    ("columnar", data::rows),
    ("tokenizers", data::rows),
    ("published", data::rows),
    ("pictures", data::rows),
    ("predictions", data::predictions),
    ("safetensors", weights::file),
    ("torch", weights::file),
    ("names", weights::names),
    ("runs", runs::folder),
    ("sealed", runs::sealed_file),
    ("events", runs::events),
];

/// The target of a name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}
