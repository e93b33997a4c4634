//! Shared helpers of the tests.

pub mod emulated;
pub mod models;
pub mod numeric;
pub mod peer;

use rtc_compiler::check::{Loader, check};
use rtc_compiler::diag::{Style, render};
use rtc_compiler::lower::Binding;
use rtc_compiler::schema::Catalog;
use rtc_compiler::source::Source;
use rtc_compiler::spec::Spec;

/// A loader for specs that use no other file.
struct Alone;

impl Loader for Alone {
    fn load(&self, path: &str) -> Result<String, String> {
        Err(format!("`{path}` does not exist in this test"))
    }
}

/// The checked spec of a text that holds one model.
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
    let (spec, problems, sources) = check(&Alone, Source::new("test.rt", text), None, &[], &catalog);
    spec.unwrap_or_else(|| panic!("{}\n{text}", render(&problems, &sources, Style::Plain)))
}
