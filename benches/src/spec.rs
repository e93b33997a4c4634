//! Specs that are part of the benchmark, checked for a task.

use rtc_compiler::check::{Loader, check};
use rtc_compiler::diag::{Style, render};
use rtc_compiler::lower::Binding;
use rtc_compiler::schema::Catalog;
use rtc_compiler::source::Source;
use rtc_compiler::spec::Spec;

/// No spec of the benchmark imports another one.
struct Alone;

impl Loader for Alone {
    fn load(&self, path: &str) -> Result<String, String> {
        Err(format!("`{path}` is not part of the benchmark"))
    }
}

/// The model `target` of a spec, with these edits.
///
/// # Errors
/// The diagnostics, as text.
pub(crate) fn checked(text: &str, target: Option<&str>, sets: &[String], binding: &Binding) -> Result<Spec, String> {
    let catalog = Catalog {
        vocabulary: binding.vocab,
        classes: binding.classes,
        objective: Some(binding.objective),
        ..Catalog::default()
    };
    let (spec, problems, sources) = check(&Alone, Source::new("spec", text), target, sets, &catalog);
    spec.ok_or_else(|| render(&problems, &sources, Style::Plain))
}
