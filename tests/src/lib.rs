//! Shared helpers of the tests.

pub mod choices;
pub mod cubin;
pub mod emulated;
pub mod fixture;
pub mod fuzz;
pub mod generated;
pub mod models;
pub mod numeric;
pub mod peer;
pub mod python;
pub mod subjects;
pub mod turn;

use rtc_compiler::check::check;
use rtc_compiler::diag::{Style, render};
use rtc_compiler::lower::Binding;
use rtc_compiler::schema::Catalog;
use rtc_compiler::source::Source;
use rtc_compiler::spec::Spec;

/// The checked spec of a text that holds one model, and may use the files of `specs/`.
///
/// # Panics
/// With the report, when the text has errors.
pub fn spec(text: &str, binding: &Binding) -> Spec {
    let catalog = Catalog {
        vocabulary: binding.vocab,
        classes: binding.classes,
        objective: Some(binding.objective),
        ..Catalog::default()
    };
    let (spec, problems, sources) = check(&models::library(), Source::new("test.rt", text), None, &[], &catalog);
    spec.unwrap_or_else(|| panic!("{}\n{text}", render(&problems, &sources, Style::Plain)))
}
