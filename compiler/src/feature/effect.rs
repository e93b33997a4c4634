//! Settings without an effect: what is written must change something, or be refused.

use super::{Problems, Site};
use crate::diag::{Diagnostic, Kind, list};
use crate::schema::{Default, StatementField};
use crate::spec::{Block, FieldValue, Origin};

/// A setting that is written and has no effect, with the cure.
pub(crate) struct Idle<'b> {
    /// The setting.
    pub(crate) field: &'b StatementField,
    /// What it would need.
    pub(crate) message: String,
    /// What to do.
    pub(crate) help: String,
}

/// The settings of a statement or a word that are written, and have no effect beside its other settings.
pub(crate) fn idle(block: &Block) -> Vec<Idle<'_>> {
    block.feature.fields.iter().filter_map(|field| without_effect(block, field)).collect()
}

fn without_effect<'b>(block: &'b Block, field: &'b StatementField) -> Option<Idle<'b>> {
    let beside = field.beside?;
    let written = block.fields.get(&field.name).filter(|_| says_more(block, &field.name))?;
    let other = block.fields.get(beside.field).map(|setting| setting.value.to_string()).unwrap_or_default();
    if beside.words.contains(&other.as_str()) {
        return None;
    }
    let belongs = beside.words.iter().filter(|word| !word.is_empty()).map(|word| format!("{}: {word}", beside.field));
    let belongs: Vec<String> = belongs.collect();
    let belongs = list(belongs.iter().map(String::as_str), "or");
    let now = match other.as_str() {
        "" => format!("`{}` is left out", beside.field),
        other => format!("this has `{}: {other}`", beside.field),
    };
    let message = format!("`{}: {}` has no effect: {now}", field.name, written.value);
    let help = format!("it belongs to {belongs}; leave `{}` out, or write that", field.name);
    Some(Idle { field, message, help })
}

/// Whether a setting is written in the spec or by an edit of it, and says more than its default. The complete text of a spec writes
/// every default out.
pub(crate) fn says_more(block: &Block, name: &str) -> bool {
    let Some(setting) = block.fields.get(name) else { return false };
    let default = block.feature.fields.iter().find(|field| field.name == name).map(|field| &field.default);
    let is_default = match (default, &setting.value) {
        (Some(Default::Int(a)), FieldValue::Int(b)) => a == b,
        (Some(Default::Float(a)), FieldValue::Float(b)) => a == b,
        (Some(Default::Truth(a)), FieldValue::Truth(b)) => a == b,
        (Some(Default::Word(a)), FieldValue::Word(b)) => a == b,
        _ => false,
    };
    !is_default && !matches!(setting.origin, Origin::Default | Origin::Derived(_))
}

/// Adds the help to the report of a setting without effect. Where an edit has given a value to one of those that decide, the text of the
/// base is right, and the edit has to take the setting away.
pub(crate) fn cured<'d>(
    diagnostic: Diagnostic,
    block: &Block,
    name: &str,
    decide: impl IntoIterator<Item = &'d str>,
    help: String,
) -> Diagnostic {
    let origin = |name: &str| block.fields.get(name).map(|setting| &setting.origin);
    let edits = decide.into_iter().filter_map(|other| Some((other, origin(other)?)));
    let mut edits = edits.filter(|_| matches!(origin(name), Some(Origin::Written(_))));
    let statement = if block.is_layer() { block.name() } else { &block.slot };
    match edits.find(|(_, origin)| matches!(origin, Origin::Variant(..) | Origin::Override(_))) {
        Some((other, Origin::Variant(variant, span))) => diagnostic
            .note(*span, format!("the variant `{variant}` gives `{other}` this value"))
            .help(format!("add `remove {statement}.{name}` to the variant")),
        Some((other, _)) => {
            diagnostic.help(format!("`--set` gives `{other}` its value: add `--set \"remove {statement}.{name}\"`"))
        }
        None => diagnostic.help(help),
    }
}

/// Reports the settings of a statement, and of the functions among them, that have no effect.
pub(crate) fn check(site: &Site<'_>, problems: &mut Problems) {
    for Idle { field, message, help } in idle(site.block) {
        let diagnostic = Diagnostic::new(Kind::IdleField, site.place(&field.name), message);
        let decides = field.beside.map(|beside| beside.field);
        problems.report(cured(diagnostic, site.block, &field.name, decides, help));
    }
    for setting in site.block.fields.values() {
        if let FieldValue::Function(inner) = &setting.value {
            check(&Site { block: inner, ..*site }, problems);
        }
    }
}
