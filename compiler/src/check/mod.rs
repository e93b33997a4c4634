//! From the syntax tree to the checked spec.
//!
//! The steps, one module each: `load` reads the file and those it uses; `items` lists what they define; `expand` makes the tree of
//! statements, for which `write_out` writes out definitions with loops; `edit` applies variants and `--set`; `build` gives every field a value and checks
//! the shape; then the checks of the features run, and `causal` proves what a model promises. Problems are collected on the
//! way.

mod build;
mod causal;
mod derive;
mod edit;
mod expand;
mod fields;
mod items;
mod load;
mod size;
mod uses;
mod write_out;

pub use load::{Loader, NOT_FOUND, NoFiles, OF_PROGRAM};
pub use uses::{BindingIndex, BindingPlaces, bindings};

/// How large files and models may be.
pub mod limits {
    pub use super::MAX_EDITS;
    pub use super::expand::MAX_ELEMENTS;
    pub use super::load::MAX_FILES;
    pub use super::size::{MAX_COPIED, MAX_STEPS, MAX_WALKED};
    pub use crate::resolve::{MAX_DEPTH, MAX_NODES};
}

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use crate::define;
use crate::diag::{Diagnostic, Kind, Problems, did_you_mean, list};
use crate::lower::{self, Binding};
use crate::resolve::{Allowed, Resolver, Scopes};
use crate::schema::Catalog;
use crate::source::{Source, SourceId, Sources, Span};
use crate::spec::Spec;
use crate::syntax::{self, ast};
use items::{DefinedItems, TargetModel};
use load::LoadedFiles;

/// Checks one model or variant of a file.
///
/// `target` is `model`, `model:variant` or the name of a variant; without one it is the only model of the file, or
/// the one named like the file. Every override is one edit of the language, as `depthwise.depth=20` or `gate none`.
/// The spec is given if there is no error; there may be warnings then.
pub fn check(
    loader: &dyn Loader,
    root: Source,
    target: Option<&str>,
    overrides: &[String],
    catalog: &Catalog,
) -> (Option<Spec>, Problems, Sources) {
    check_edited(loader, root, target, &Override::numbered(overrides), catalog)
}

/// As [`check`], with overrides that know where they stand.
pub fn check_edited(
    loader: &dyn Loader,
    root: Source,
    target: Option<&str>,
    overrides: &[Override],
    catalog: &Catalog,
) -> (Option<Spec>, Problems, Sources) {
    let (spec, mut problems, sources) = form(loader, root, target, overrides, catalog);
    if let Some(spec) = &spec {
        causal::prove(spec, catalog, &override_places(overrides, &sources), &mut problems);
        problems.sort();
    }
    let spec = if problems.has_errors() { None } else { spec };
    (spec, problems, sources)
}

/// As [`check`], without the proof that a model which promises to see only the past does: for looking at its leaks.
pub fn check_form(
    loader: &dyn Loader,
    root: Source,
    target: Option<&str>,
    overrides: &[String],
    catalog: &Catalog,
) -> (Option<Spec>, Problems, Sources) {
    form(loader, root, target, &Override::numbered(overrides), catalog)
}

fn form(
    loader: &dyn Loader,
    root: Source,
    target: Option<&str>,
    overrides: &[Override],
    catalog: &Catalog,
) -> (Option<Spec>, Problems, Sources) {
    let (mut problems, mut sources) = (Problems::default(), Sources::default());
    let name = root.name.clone();
    let loaded = load::load(loader, root, &mut sources, &mut problems);
    let edits = parse_overrides(overrides, &mut sources, &mut problems);
    let spec = loaded.and_then(|loaded| {
        let items = DefinedItems::index(&loaded.files, &mut problems);
        let target = find_target(&items, &loaded, target, &name, &mut problems);
        check_definitions(&items, &mut problems);
        target.and_then(|target| one(&items, &target, (&loaded.files, &edits), catalog, &mut problems))
    });
    problems.sort();
    let spec = if problems.has_errors() { None } else { spec };
    (spec, problems, sources)
}

/// The name of the model or variant that `target` means, as [`check`] would give it: found by the names in the file alone.
///
/// Nothing else of the spec is checked, so the name is given too where only edits make the spec right. The problems are those
/// of a file that can't be read, or has no such model.
pub fn resolve_name(loader: &dyn Loader, root: Source, target: Option<&str>) -> (Option<String>, Problems, Sources) {
    let (mut problems, mut sources) = (Problems::default(), Sources::default());
    let file = root.name.clone();
    let name = load::load(loader, root, &mut sources, &mut problems).and_then(|loaded| {
        let items = DefinedItems::index(&loaded.files, &mut problems);
        find_target(&items, &loaded, target, &file, &mut problems).map(|target| target.name)
    });
    problems.sort();
    (name, problems, sources)
}

/// Checks every model and variant of a file; gives those that have no error.
pub fn check_all(loader: &dyn Loader, root: Source, catalog: &Catalog) -> (Vec<Spec>, Problems, Sources) {
    let (mut problems, mut sources) = (Problems::default(), Sources::default());
    let mut specs = Vec::new();
    if let Some(loaded) = load::load(loader, root, &mut sources, &mut problems) {
        let items = DefinedItems::index(&loaded.files, &mut problems);
        check_definitions(&items, &mut problems);
        for target in items.targets(&loaded.root().items) {
            let mut own = Problems::default();
            let spec = one(&items, &target, (&loaded.files, &[]), catalog, &mut own).filter(|_| !own.has_errors());
            if let Some(spec) = &spec {
                causal::prove(spec, catalog, &[], &mut own);
            }
            specs.extend(spec.filter(|_| !own.has_errors()));
            problems.extend(own);
        }
    }
    problems.sort();
    (specs, problems, sources)
}

/// Whether a name belongs to the language: a binding of this name would be refused, or hide what it means.
pub fn is_of_language(name: &str) -> bool {
    items::is_reserved(name) || define::is_built_in(name) || name == edit::OLD
}

/// The models and variants of a file as targets: `gut`, `gut:no_gate`. Empty for a file with syntax errors.
pub fn names(source: &Source) -> Vec<String> {
    let mut problems = Problems::default();
    let Some(file) = syntax::parse(SourceId(0), &source.text, &mut problems) else { return Vec::new() };
    file.items
        .iter()
        .filter_map(|item| match &item.kind {
            ast::ItemKind::Model { name, .. } => Some(name.text()),
            ast::ItemKind::Variant { name, base, .. } => Some(format!("{}:{}", base.model.text, name.text)),
            _ => None,
        })
        .collect()
}

/// The most edits that all variants of one model may have together.
pub const MAX_EDITS: usize = 1000;

/// An edit of a model from outside its file, and where it stands: on the command line, or in an experiment.
#[derive(Clone, Debug)]
pub struct Override {
    /// The text that reports show.
    source: Source,
    /// The edit in that text, in bytes.
    range: Range<usize>,
}

impl Override {
    /// The edits of `--set` on the command line, counted from 1.
    pub fn numbered(texts: &[String]) -> Vec<Self> {
        texts.iter().enumerate().map(|(n, text)| Self::alone(format!("--set {}", n + 1), text)).collect()
    }

    /// An edit that is a text of its own, of this name in reports.
    pub fn alone(name: impl Into<String>, text: &str) -> Self {
        Self { source: Source::new(name, text), range: 0..text.len() }
    }

    /// The bytes `range` of a line of a file. The whole line if they are no range of it.
    pub fn inside(line: Source, range: Range<usize>) -> Self {
        let range = if line.text.get(range.clone()).is_some() { range } else { 0..line.text.len() };
        Self { source: line, range }
    }

    /// The edit behind as many blanks as stand before it, so that places in it are those of the source.
    fn blanked(&self) -> String {
        " ".repeat(self.range.start) + &self.source.text[self.range.clone()]
    }
}

/// An override that was parsed, and its place.
struct Edited {
    edit: Option<ast::Edit>,
    span: Span,
}

fn parse_overrides(overrides: &[Override], sources: &mut Sources, problems: &mut Problems) -> Vec<Edited> {
    let parse = |given: &Override| {
        let id = sources.add(given.source.clone());
        let edit = syntax::parse_override(id, &given.blanked(), problems);
        Edited { edit, span: Span::new(id, given.range.start, given.range.end) }
    };
    overrides.iter().map(parse).collect()
}

/// The places of the overrides: they are the last sources.
fn override_places(overrides: &[Override], sources: &Sources) -> Vec<Span> {
    let first = sources.iter().count().saturating_sub(overrides.len());
    let place =
        |(n, given): (usize, &Override)| Span::new(SourceId((first + n) as u32), given.range.start, given.range.end);
    overrides.iter().enumerate().map(place).collect()
}

/// One model from its items to its spec. Where edits change definitions, it has items of its own.
fn one(
    items: &DefinedItems<'_>,
    target: &TargetModel<'_>,
    (files, overrides): (&[ast::File], &[Edited]),
    catalog: &Catalog,
    problems: &mut Problems,
) -> Option<Spec> {
    let Some(changed) = edit::definitions::edited(files, target, overrides, problems) else {
        return with_items(items, target, (overrides, &BTreeSet::new()), catalog, problems);
    };
    let own = DefinedItems::index(&changed.files, problems);
    let target = own.target(&target.name)?;
    with_items(&own, &target, (overrides, &changed.done), catalog, problems)
}

/// As [`one`]; the edits at the places `done` have been applied.
fn with_items(
    items: &DefinedItems<'_>,
    target: &TargetModel<'_>,
    (overrides, done): (&[Edited], &BTreeSet<Span>),
    catalog: &Catalog,
    problems: &mut Problems,
) -> Option<Spec> {
    let mut scopes = Scopes::default();
    let mut tree = expand::model(items, target.model, &mut scopes, problems)?;
    let before = edit::unread::unread(&tree);
    let mut edits = target.variants.iter().flat_map(|v| v.edits);
    if let Some(edit) = edits.nth(MAX_EDITS) {
        problems.report(Diagnostic::new(Kind::TooLong, edit.span, format!("a model has more than {MAX_EDITS} edits")));
        return None;
    }
    apply_edits(items, target, (overrides, done), &mut tree, (&mut scopes, problems));
    edit::unread::report(&before, &tree, problems);
    let spans: Vec<Span> = overrides.iter().map(|o| o.span).collect();
    let root = build::build(items, &mut scopes, &tree, catalog, &spans, problems)?;
    // Its errors were reported where it stands.
    if root.any(&define::broken) {
        return None;
    }
    let named = Arc::new(items.named().edited(&scopes.globals));
    let spec = Spec { name: target.name.clone(), doc: target.doc.clone(), root, named };
    let complete = items.features().next().is_some() || spec.root.any(&|block| block.feature.definition().is_some());
    if complete && !problems.has_errors() {
        problems.extend(lower::check(&spec, &Binding::from(catalog)));
    }
    Some(spec)
}

/// Applies the edits of a model to its tree but those at the places `done`; gives the names of their paths.
fn apply_edits(
    items: &DefinedItems<'_>,
    target: &TargetModel<'_>,
    (overrides, done): (&[Edited], &BTreeSet<Span>),
    tree: &mut expand::StatementTree,
    (scopes, problems): (&mut Scopes, &mut Problems),
) -> Vec<edit::PathName> {
    let mut editor = edit::Editor { items, scopes, problems, named: vec![] };
    for variant in &target.variants {
        let author = expand::Author::Variant(variant.name.text.clone());
        for edit in variant.edits.iter().filter(|edit| !done.contains(&edit.span)) {
            editor.apply(tree, edit, &author);
        }
    }
    for (n, over) in overrides.iter().enumerate() {
        if let Some(edit) = over.edit.as_ref().filter(|edit| !done.contains(&edit.span)) {
            editor.apply(tree, edit, &expand::Author::Override(n + 1));
        }
    }
    editor.named
}

/// Checks the definitions that have no parameters, used or not.
fn check_definitions(items: &DefinedItems<'_>, problems: &mut Problems) {
    let mut scopes = Scopes::default();
    for function in items.named().functions().filter(|f| f.params.as_ref().is_none_or(Vec::is_empty)) {
        let allowed = Allowed::of_function(function.role);
        Resolver::new(items.named(), &mut scopes, problems, allowed).function(function);
    }
}

fn find_target<'a>(
    items: &DefinedItems<'a>,
    loaded: &'a LoadedFiles,
    target: Option<&str>,
    file: &str,
    problems: &mut Problems,
) -> Option<TargetModel<'a>> {
    let own: Vec<TargetModel<'a>> = items.targets(&loaded.root().items).collect();
    let models: Vec<&TargetModel<'a>> = own.iter().filter(|t| t.variants.is_empty()).collect();
    let names: Vec<&str> = own.iter().map(|t| t.name.as_str()).collect();
    let Some(wanted) = target else {
        let named = models.iter().find(|t| t.name == stem(file));
        let found = match (models.as_slice(), own.as_slice()) {
            ([only], _) => Some(*only),
            ([], [only]) => Some(only),
            _ => named.copied(),
        };
        if found.is_none() {
            let message = match own.len() {
                0 => "no model",
                _ if models.is_empty() => "several variants",
                _ => "several models",
            };
            let help = match own.len() {
                0 => "one is written `model name { ... }`".to_owned(),
                _ => format!("name one of them: {}", list(names, "or")),
            };
            problems.report(Diagnostic::nowhere(Kind::UnknownModel, format!("{file} has {message}")).help(help));
        }
        return found.cloned();
    };
    if let Some(found) = items.target(wanted) {
        return Some(found);
    }
    let by_variant: Vec<&TargetModel<'a>> =
        own.iter().filter(|t| t.variants.last().is_some_and(|v| v.name.text == wanted)).collect();
    match by_variant.as_slice() {
        [only] => return Some((*only).clone()),
        [] => {
            let kind = if wanted.contains(':') && models.iter().any(|m| wanted.starts_with(&format!("{}:", m.name))) {
                Kind::UnknownVariantOf
            } else {
                Kind::UnknownModel
            };
            let variants = own.iter().filter_map(|t| Some(t.variants.last()?.name.text.as_str()));
            let diagnostic = Diagnostic::nowhere(kind, format!("there is no model `{wanted}` in {file}"))
                .help(did_you_mean(wanted, names.iter().copied().chain(variants)))
                .help(format!("the file has {}", list(names, "and")));
            problems.report(diagnostic);
        }
        several => {
            let names: Vec<&str> = several.iter().map(|t| t.name.as_str()).collect();
            let message = format!("several models of {file} have a variant `{wanted}`");
            let help = format!("name one of them: {}", list(names, "or"));
            problems.report(Diagnostic::nowhere(Kind::UnknownModel, message).help(help));
        }
    }
    None
}

/// The name of a file without folders and ending.
fn stem(name: &str) -> String {
    let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
    file.strip_suffix(".rt").unwrap_or(file).to_owned()
}
