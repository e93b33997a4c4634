//! The reference of all features as Markdown, for `docs/language.md`.

use std::fmt::Write;

use super::SLOTS;
use crate::schema::{Children, Default, Derived, Field, Schema};

/// The reference: one section per slot, one table per variant with fields.
pub fn markdown() -> String {
    let mut page = String::new();
    for slot in SLOTS {
        let _ = write!(page, "\n### `{}`\n\n{}\n", slot.name, slot.doc);
        for feature in slot.features {
            variant(&mut page, &feature.schema);
        }
    }
    page
}

fn variant(page: &mut String, schema: &Schema) {
    let title =
        if schema.variant.is_empty() { schema.slot.to_owned() } else { format!("{} {}", schema.slot, schema.variant) };
    let _ = write!(page, "\n**`{title}`** {}\n", schema.doc);
    if !schema.children.is_empty() {
        let inside: Vec<String> = schema.children.iter().map(children).collect();
        let _ = write!(page, "\nInside: {}.\n", inside.join("; "));
    }
    if !schema.fields.is_empty() {
        page.push_str("\n| field | takes | default | meaning |\n|---|---|---|---|\n");
        for field in schema.fields {
            let _ = writeln!(page, "| `{}` | {} | {} | {} |", field.name, takes(field), default(field), field.doc);
        }
    }
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

fn takes(field: &Field) -> String {
    let bounds = field.bounds.describe();
    let kind = field.kind.describe();
    if bounds.is_empty() { kind } else { format!("{kind}, {bounds}") }
}

fn default(field: &Field) -> String {
    match field.default {
        Default::Required => "required".to_owned(),
        Default::Absent => "none".to_owned(),
        Default::Int(v) => format!("`{v}`"),
        Default::Float(v) => format!("`{v:?}`"),
        Default::Word(v) => format!("`{v}`"),
        Default::Derived(rule @ Derived::Sees(past, all)) => format!("`{past}` or `{all}`, from `{}`", rule.text()),
        Default::Derived(rule) => format!("from `{}`", rule.text()),
    }
}
