//! The paths of a model: what variants and `--set` may name in it.

use std::collections::BTreeMap;

use rtc_compiler::feature;
use rtc_compiler::schema::{FieldKind, StatementField};
use rtc_compiler::spec::{self, Block, Spec};
use rtc_compiler::syntax::{self, ast::Equation};

/// The field or statement that a path names.
#[derive(Clone, Copy, Debug)]
pub enum PathTarget<'s> {
    /// A field of a statement.
    Field(&'s Block, &'s StatementField),
    /// A statement, which another variant may replace.
    Statement(&'s Block),
    /// An equation, which may have another right side.
    Binding(&'s Equation),
}

/// The paths of a spec, shortest statements first as an edit finds them: those of `recur` and `attend` by their variants.
pub fn paths(spec: &Spec) -> BTreeMap<String, PathTarget<'_>> {
    let mut found = BTreeMap::new();
    collect(&spec.root, "", &mut found);
    found
}

fn collect<'s>(block: &'s Block, path: &str, found: &mut BTreeMap<String, PathTarget<'s>>) {
    for field in &block.feature.fields {
        found.entry(format!("{path}{}", field.name)).or_insert(PathTarget::Field(block, field));
    }
    for (name, equation) in spec::equations(block) {
        found.entry(format!("{path}{name}")).or_insert(PathTarget::Binding(equation));
    }
    for (name, child) in spec::statements(block) {
        if !child.variant.is_empty() && !spec::is_by_variant(child) {
            found.entry(format!("{path}{name}")).or_insert(PathTarget::Statement(child));
        }
        collect(child, &format!("{path}{name}."), found);
    }
}

/// What a path names that may leave out the statements around.
pub fn find<'s>(paths: &BTreeMap<String, PathTarget<'s>>, written: &str) -> Option<PathTarget<'s>> {
    let ends = |path: &&String| path.strip_suffix(written).is_some_and(|before| before.ends_with('.'));
    paths.get(written).or_else(|| paths.get(paths.keys().find(ends)?)).copied()
}

/// A path without the name of the model that it may begin with.
pub fn inside<'w>(spec: &Spec, written: &'w str) -> &'w str {
    let model = spec.name.split(':').next().unwrap_or_default();
    let rest = [model, "model"].iter().find_map(|name| written.strip_prefix(name)?.strip_prefix('.'));
    rest.unwrap_or(written)
}

/// What is left of a path without the statements around that a path which begins so leaves out.
pub fn beginning<'p>(path: &'p str, written: &str) -> Option<&'p str> {
    let starts = std::iter::once(0).chain(path.match_indices('.').map(|(at, _)| at + 1));
    starts.map(|at| &path[at..]).find(|rest| rest.starts_with(written))
}

impl PathTarget<'_> {
    /// What it means, and its value now.
    pub fn help(&self) -> String {
        match self {
            Self::Field(block, field) => {
                let now = block.fields.get(&field.name).map(|setting| format!(" (now {})", setting.value));
                format!("{}{}", field.doc, now.unwrap_or_default())
            }
            Self::Statement(block) => format!("a variant of {} (now {})", block.slot, block.variant),
            Self::Binding(equation) => format!("an equation (now `{}`)", syntax::equation(equation)),
        }
    }

    /// The words that it takes, each with what it means. A number has none but what it is now.
    pub fn words(&self) -> Vec<(String, String)> {
        match self {
            Self::Field(block, field) => {
                let now = block.fields.get(&field.name).map(|setting| setting.value.to_string());
                let now = now.filter(|now| !now.contains(char::is_whitespace)).map(|now| (now, "now".to_owned()));
                now.into_iter()
                    .chain(words(&field.kind).into_iter().map(|word| (word.to_owned(), String::new())))
                    .collect()
            }
            Self::Statement(block) => variants(&block.slot),
            Self::Binding(_) => vec![("old".to_owned(), "what it is now".to_owned())],
        }
    }
}

/// The variants of a slot, each with what it does.
pub fn variants(slot: &str) -> Vec<(String, String)> {
    let features = feature::slot(slot).into_iter().flat_map(|slot| &slot.features);
    features
        .map(|feature| (feature.variant.to_string(), feature.doc.to_string()))
        .filter(|(word, _)| !word.is_empty())
        .collect()
}

/// The words that a field takes besides numbers and expressions.
pub fn words(kind: &FieldKind) -> Vec<&str> {
    match kind {
        FieldKind::Word(words) => words.iter().collect(),
        FieldKind::FloatOr(words) | FieldKind::IntOr(words) => words.to_vec(),
        FieldKind::Truth => vec!["true", "false"],
        FieldKind::Mask => vec!["all", "past"],
        FieldKind::Bias => vec!["none"],
        FieldKind::Depth => vec!["given"],
        FieldKind::Int | FieldKind::Float | FieldKind::Function | FieldKind::Choices => vec![],
    }
}
