//! The reference of all features: as Markdown for `docs/language.md`, one by one for `rtc explain`.

use std::fmt::Write;

use super::{Feature, slots};
use crate::define::{self, FormRow};
use crate::schema::{Children, Default, Derived, FieldKind, StatementField};

/// The reference: one section per slot, one table per variant with fields; then the words of equations.
pub fn markdown() -> String {
    let mut page = String::new();
    for slot in slots() {
        let _ = write!(page, "\n### `{}`\n\n{}\n", slot.name, slot.doc);
        for feature in &slot.features {
            variant(&mut page, feature);
        }
    }
    page.push_str("\n### Forms of equations\n\nThe words that an equation may begin with.\n");
    for FormRow { word, doc, example } in define::FORMS {
        let _ = write!(page, "\n**`{word}`** {doc}\n\n```rt\n{example}```\n");
    }
    page.push_str(
        "\n### Words of equations\n\nWhat equations apply besides definitions and the pointwise functions.\n",
    );
    for feature in define::words() {
        let values = feature.values.join(", ");
        let call =
            if values.is_empty() { format!("{}[sizes]", feature.slot) } else { format!("{}({values})", feature.slot) };
        let _ = write!(page, "\n**`{call}`** {}\n", feature.doc);
        fields(&mut page, "setting", feature);
    }
    page
}

fn variant(page: &mut String, feature: &Feature) {
    let title = feature.title();
    let _ = write!(page, "\n**`{title}`** {}\n\nSource: {}.\n", feature.doc, linked(&feature.source));
    if !feature.children.is_empty() {
        let inside: Vec<String> = feature.children.iter().map(children).collect();
        let _ = write!(page, "\nInside: {}.\n", inside.join("; "));
    }
    fields(page, "field", feature);
}

fn fields(page: &mut String, what: &str, feature: &Feature) {
    if !feature.fields.is_empty() {
        let _ = write!(page, "\n| {what} | takes | default | meaning |\n|---|---|---|---|\n");
        for field in &feature.fields {
            let _ = writeln!(page, "| `{}` | {} | {} | {} |", field.name, takes(field), default(field), field.doc);
        }
    }
}

/// A source with a link on every arXiv id.
pub fn linked(source: &str) -> String {
    let mut pieces = source.split("arXiv:");
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(piece.len());
        let (id, rest) = piece.split_at(end);
        let _ = write!(out, "[arXiv:{id}](https://arxiv.org/abs/{id}){rest}");
    }
    out
}

/// The statements and words that [`explain`] knows, with what they do.
pub fn titles() -> Vec<(String, String)> {
    let features = slots().iter().flat_map(|slot| &slot.features).chain(define::words());
    features.map(|feature| (feature.title(), feature.doc.to_string())).collect()
}

/// What a statement is, for `rtc explain`: `halt global`, or a keyword with all of its variants; a word or a form of equations.
pub fn explain(title: &str) -> Option<String> {
    let features = slots().iter().flat_map(|slot| &slot.features).chain(super::words());
    let asked = features.filter(|feature| feature.title() == title || feature.slot == title);
    let form = define::FORMS.iter().find(|form| form.word == title);
    let form = form.map(|FormRow { word, doc, example }| format!("{word}: {doc}\n\n{example}"));
    let found: Vec<String> = asked.map(|feature| explained(feature)).chain(form).collect();
    (!found.is_empty()).then(|| found.join("\n")).or_else(|| explain_in_fields(title))
}

/// Explains the name of a field, or a word that fields take: `heads`, `xpos`.
fn explain_in_fields(word: &str) -> Option<String> {
    let takes_word = |kind: &FieldKind| match kind {
        FieldKind::FloatOr(words) | FieldKind::IntOr(words) => words.contains(&word),
        FieldKind::Word(words) => words.contains(word),
        FieldKind::Int
        | FieldKind::Float
        | FieldKind::Truth
        | FieldKind::Function
        | FieldKind::Mask
        | FieldKind::Bias
        | FieldKind::Depth
        | FieldKind::Choices => false,
    };
    let features = slots().iter().flat_map(|slot| &slot.features).chain(super::words());
    let fields = features.flat_map(|feature| feature.fields.iter().map(move |field| (&**feature, field)));
    let fields: Vec<(&Feature, &StatementField)> = fields.collect();
    let line = |(feature, field): &(&Feature, &StatementField)| {
        format!(
            "  `{}` of `{}`: {} ({}; default {})\n",
            field.name,
            feature.title(),
            field.doc,
            takes(field),
            default(field)
        )
    };
    let lines = |is_meant: &dyn Fn(&StatementField) -> bool| {
        fields.iter().filter(|(_, field)| is_meant(field)).map(line).collect::<String>()
    };
    let (named, taking) = (lines(&|field| *field.name == *word), lines(&|field| takes_word(&field.kind)));
    let mut text = if named.is_empty() { named } else { format!("{word}: a field\n{named}") };
    if !taking.is_empty() {
        text += &format!("{word}: a value of\n{taking}");
    }
    (!text.is_empty()).then_some(text)
}

/// What `rtc explain` knows besides the codes of problems.
pub fn explained_names() -> impl Iterator<Item = &'static str> {
    let slots = slots().iter().map(|slot| &*slot.name);
    slots.chain(define::words().iter().map(|word| &*word.slot)).chain(define::FORMS.iter().map(|form| form.word))
}

fn explained(feature: &Feature) -> String {
    let mut out = format!("{}: {}\n", feature.title(), feature.doc);
    if !feature.source.is_empty() {
        let _ = writeln!(out, "Source: {}", feature.source);
    }
    if let Some(definition) = feature.definition() {
        out += &format!("\n{}\n\n", definition.text);
    }
    for rule in feature.children {
        let _ = writeln!(out, "  inside: {}", children(rule));
    }
    for field in &feature.fields {
        let _ = writeln!(out, "  {}: {} ({}; default {})", field.name, field.doc, takes(field), default(field));
    }
    out
}

fn children(rule: &Children) -> String {
    let slots = crate::diag::list(rule.slots.iter().copied(), "and");
    match (rule.min, rule.max, rule.absent) {
        (0, 1, Some(absent)) if rule.outermost => {
            format!("{slots} (`{absent}` if left out of the outermost one)")
        }
        (0, 1, Some(absent)) => format!("{slots} (`{absent}` if left out)"),
        (0, 1, None) => format!("{slots} (may be left out)"),
        (1, 1, _) => format!("one {slots}"),
        _ => format!("any number of {slots}"),
    }
}

fn takes(field: &StatementField) -> String {
    let bounds = field.bounds.describe();
    let kind = field.kind.describe();
    if bounds.is_empty() { kind } else { format!("{kind}, {bounds}") }
}

fn default(field: &StatementField) -> String {
    match &field.default {
        Default::Required => "required".to_owned(),
        Default::Absent => "none".to_owned(),
        Default::Int(v) => format!("`{v}`"),
        Default::Float(v) => format!("`{v:?}`"),
        Default::Word(v) => format!("`{v}`"),
        Default::Truth(v) => format!("`{v}`"),
        Default::Derived(rule @ Derived::Sees(past, all)) => format!("`{past}` or `{all}`, from `{}`", rule.text()),
        Default::Derived(rule) => format!("from `{}`", rule.text()),
    }
}
