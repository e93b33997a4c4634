//! Derived fields: those that are not written and follow from others, as the width of a head or the dropout of a layer.

use std::collections::BTreeSet;

use crate::define;
use crate::diag::{Diagnostic, Kind, Problems};
use crate::feature::Site;
use crate::schema::{Catalog, Default, Derived, StatementField};
use crate::source::Span;
use crate::spec::{Block, FieldValue, Origin, Setting};

/// The values that others are derived from.
pub(super) struct Base {
    dropout: Option<f64>,
    attention_dropout: Option<f64>,
    width: Option<i64>,
    sees_past: bool,
}

impl Base {
    pub(super) fn of(root: &Block) -> Self {
        let width = root.child("embed").and_then(|e| e.int("width"));
        Self {
            dropout: root.float("dropout"),
            attention_dropout: root.float("attention_dropout"),
            width: width.and_then(|w| i64::try_from(w).ok()),
            sees_past: root.sees_past(),
        }
    }
}

/// Works out the derived fields that are not written. A missing field that they derive from is reported elsewhere.
pub(super) fn derive(
    block: &mut Block,
    base: &Base,
    overrides: &[Span],
    broken: &mut BTreeSet<Span>,
    problems: &mut Problems,
) {
    let feature = block.feature.clone();
    for field in &feature.fields {
        let Default::Derived(rule) = &field.default else { continue };
        if block.fields.contains_key(&field.name) {
            continue;
        }
        let value = match rule {
            Derived::ModelDropout => base.dropout.map(FieldValue::Float),
            Derived::ModelAttentionDropout => base.attention_dropout.map(FieldValue::Float),
            Derived::Width => base.width.map(FieldValue::Int),
            Derived::WidthPerHead => width_per_head(block, base, overrides, broken, problems),
            Derived::Sees(past, all) => Some(FieldValue::Word(if base.sees_past { past } else { all }.to_string())),
            Derived::Written(..) => written(block, field, rule, base, broken, problems),
        };
        if let Some(value) = value {
            block.fields.insert(field.name.clone(), Setting { value, origin: Origin::Derived(rule.text().to_owned()) });
        }
    }
    for child in &mut block.children {
        derive(child, base, overrides, broken, problems);
    }
}

/// What an expression over the width and other settings gives.
fn written(
    block: &Block,
    field: &StatementField,
    rule: &Derived,
    base: &Base,
    broken: &mut BTreeSet<Span>,
    problems: &mut Problems,
) -> Option<FieldValue> {
    let width = usize::try_from(base.width?).ok()?;
    let [dropout, attention] = [base.dropout, base.attention_dropout].map(Option::unwrap_or_default);
    let found = define::derived(rule, width, dropout, attention, block);
    match found.and_then(|v| define::worked_out(field, v)) {
        Ok(value) => Some(value),
        Err(why) => {
            broken.insert(block.span);
            let help = format!("write `{}: ...`, which must be {}", field.name, field.range());
            let message = format!("`{}` {why}", block.title());
            problems.fail(Diagnostic::new(Kind::OutOfRange, block.span, message).help(help))
        }
    }
}

fn width_per_head(
    block: &Block,
    base: &Base,
    overrides: &[Span],
    broken: &mut BTreeSet<Span>,
    problems: &mut Problems,
) -> Option<FieldValue> {
    let (width, heads) = (base.width?, i64::try_from(block.int("heads")?).ok()?);
    if heads > 0 && width % heads == 0 {
        return Some(FieldValue::Int(width / heads));
    }
    broken.insert(block.span);
    let site = Site { block, ancestors: &[], catalog: &Catalog::default(), overrides };
    problems.report(
        Diagnostic::new(
            Kind::Indivisible,
            site.place("heads"),
            format!("{heads} heads can't share a width of {width} evenly"),
        )
        .help("change `heads` or `embed.width`, or give `head_width`"),
    );
    None
}
