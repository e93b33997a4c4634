//! The definitions of the files, by name.

use std::collections::BTreeMap;
use std::ptr;
use std::sync::Arc;

use super::write_out;
use crate::define::{Definition, Features};
use crate::diag::{Diagnostic, Kind, Problems, did_you_mean};
use crate::expr::{Func, Var};
use crate::feature::{self, Feature};
use crate::resolve::{NamedExpression, NamedExpressions};
use crate::source::Span;
use crate::syntax::ast;

/// All definitions of the loaded files.
#[derive(Default)]
pub(super) struct DefinedItems<'a> {
    models: BTreeMap<String, Model<'a>>,
    /// By model and name.
    variants: BTreeMap<(String, String), Variant<'a>>,
    /// The definitions that are written out where they are applied.
    written_out: BTreeMap<&'a str, &'a ast::Def>,
    named: NamedExpressions,
    /// The definitions with equations.
    features: Features,
}

/// A model as written.
#[derive(Clone, Copy)]
pub(super) struct Model<'a> {
    pub(super) name: &'a ast::FullName,
    pub(super) body: &'a ast::BodySyntax,
    doc: &'a str,
    span: Span,
}

/// A variant as written.
#[derive(Clone, Copy)]
pub(super) struct Variant<'a> {
    pub(super) name: &'a ast::Name,
    base: &'a ast::FullName,
    pub(super) edits: &'a [ast::Edit],
    doc: &'a str,
}

/// A model with the variants that make it, the innermost first.
#[derive(Clone)]
pub(super) struct TargetModel<'a> {
    pub(super) name: String,
    pub(super) doc: String,
    pub(super) model: Model<'a>,
    pub(super) variants: Vec<Variant<'a>>,
}

/// Whether a name belongs to the language, so that no definition may take it.
pub(super) fn is_reserved(name: &str) -> bool {
    Var::ALL.iter().any(|v| v.name() == name)
        || Func::ALL.iter().any(|f| f.name() == name)
        || ["given", "none", "past", "all", "learn", "true", "false", "and", "or", "not"].contains(&name)
}

/// Reports a definition that takes a name of the language.
pub(super) fn refuse_reserved(name: &ast::Name, problems: &mut Problems) {
    if is_reserved(&name.text) {
        let message = format!("`{}` is a name of the language", name.text);
        problems.report(Diagnostic::new(Kind::DuplicateName, name.span, message).label("choose another name"));
    }
}

impl<'a> DefinedItems<'a> {
    /// Lists the items of all files; reports names that are taken twice and variants without a base.
    pub(super) fn index(files: &'a [ast::File], problems: &mut Problems) -> Self {
        let written_out = write_out::definitions(files, problems);
        let is_applied = |item: &&ast::FileItem| match &item.kind {
            ast::ItemKind::Def(def) => {
                written_out.get(def.name.text.as_str()).is_none_or(|other| !ptr::eq(*other, def))
            }
            _ => true,
        };
        let applied = files.iter().flat_map(|f| &f.items).filter(is_applied);
        let features = Features::new(feature::slots(), applied, false, problems);
        let mut items = DefinedItems { features, written_out, ..DefinedItems::default() };
        for item in files.iter().flat_map(|f| &f.items) {
            items.add(item, problems);
        }
        items.check_bases(problems);
        items
    }

    fn add(&mut self, item: &'a ast::FileItem, problems: &mut Problems) {
        match &item.kind {
            ast::ItemKind::Use { .. } | ast::ItemKind::Def(_) => {}
            ast::ItemKind::Let(binding) => self.define(NamedExpression::Let(binding.clone()), problems),
            ast::ItemKind::Function(function) => {
                function.params.iter().flatten().for_each(|p| refuse_reserved(p, problems));
                distinct(function.params.as_deref().unwrap_or(&[]), problems);
                self.define(NamedExpression::Function(function.clone()), problems);
            }
            ast::ItemKind::Model { name, body } => match self.models.get(&name.text()) {
                Some(first) => duplicate("model", &name.text(), name.span(), first.name.span(), problems),
                None => {
                    let model = Model { name, body, doc: &item.doc, span: item.span };
                    self.models.insert(name.text(), model);
                }
            },
            ast::ItemKind::Variant { name, base, edits, .. } => {
                let key = (base.model.text.clone(), name.text.clone());
                match self.variants.get(&key) {
                    Some(first) => duplicate("variant", &name.text, name.span, first.name.span, problems),
                    None => {
                        self.variants.insert(key, Variant { name, base, edits, doc: &item.doc });
                    }
                }
            }
        }
    }

    fn define(&mut self, definition: NamedExpression, problems: &mut Problems) {
        let name = definition.name().clone();
        refuse_reserved(&name, problems);
        if let Some(first) = self.named.define(definition) {
            duplicate("name", &name.text, name.span, first.name().span, problems);
        }
    }

    /// Every variant must lead to a model.
    fn check_bases(&self, problems: &mut Problems) {
        for variant in self.variants.values() {
            let base = variant.base;
            if !self.models.contains_key(&base.model.text) && !self.models.contains_key(&base.text()) {
                let message = format!("there is no model `{}`", base.model.text);
                let hint = did_you_mean(&base.model.text, self.models.keys().map(String::as_str));
                problems.report(Diagnostic::new(Kind::UnknownModel, base.model.span, message).label(hint));
            } else if let Some(name) = base.variant.as_ref().filter(|_| !self.has(base)) {
                let message = format!("`{}` has no variant `{}`", base.model.text, name.text);
                let of_model = self.variants.keys().filter(|(m, _)| *m == base.model.text).map(|(_, v)| v.as_str());
                let hint = did_you_mean(&name.text, of_model);
                problems.report(Diagnostic::new(Kind::UnknownVariantOf, name.span, message).label(hint));
            } else if self.chain(variant).is_none() && self.is_cyclic(variant) {
                let message = format!("the variant `{}` is based on itself", variant.name.text);
                problems.report(Diagnostic::new(Kind::CyclicVariant, base.span(), message));
            }
        }
        for (model, name) in self.variants.keys() {
            let full = format!("{model}:{name}");
            if let (Some(clash), Some(variant)) =
                (self.models.get(&full), self.variants.get(&(model.clone(), name.clone())))
            {
                duplicate("model", &full, clash.span, variant.name.span, problems);
            }
        }
    }

    fn has(&self, base: &ast::FullName) -> bool {
        self.models.contains_key(&base.text()) || self.base_variant(base).is_some()
    }

    fn base_variant(&self, base: &ast::FullName) -> Option<&Variant<'a>> {
        let name = base.variant.as_ref()?;
        self.variants.get(&(base.model.text.clone(), name.text.clone()))
    }

    /// The model at the end of a variant's bases and the variants on the way, the innermost first.
    fn chain(&self, variant: &Variant<'a>) -> Option<(Model<'a>, Vec<Variant<'a>>)> {
        let mut variants = vec![*variant];
        let mut current = variant;
        while variants.len() <= self.variants.len() {
            if let Some(model) = self.models.get(&current.base.text()) {
                variants.reverse();
                return Some((*model, variants));
            }
            current = self.base_variant(current.base)?;
            variants.push(*current);
        }
        None
    }

    fn is_cyclic(&self, variant: &Variant<'a>) -> bool {
        let mut current = variant;
        for _ in 0..=self.variants.len() {
            match self.base_variant(current.base) {
                Some(next) if !self.models.contains_key(&current.base.text()) => current = next,
                _ => return false,
            }
        }
        true
    }

    /// The model or `model:variant` of a name.
    pub(super) fn target(&self, name: &str) -> Option<TargetModel<'a>> {
        if let Some(model) = self.models.get(name) {
            let doc = model.doc.to_owned();
            return Some(TargetModel { name: name.to_owned(), doc, model: *model, variants: Vec::new() });
        }
        let (model, variant) = name.split_once(':')?;
        let variant = self.variants.get(&(model.to_owned(), variant.to_owned()))?;
        let (model, variants) = self.chain(variant)?;
        let doc = if variant.doc.is_empty() { model.doc } else { variant.doc };
        Some(TargetModel { name: name.to_owned(), doc: doc.to_owned(), model, variants })
    }

    /// The models and variants that the items of one file define, in order.
    pub(super) fn targets<'s>(&'s self, items: &'s [ast::FileItem]) -> impl Iterator<Item = TargetModel<'a>> + 's {
        items.iter().filter_map(|item| match &item.kind {
            ast::ItemKind::Model { name, .. } => self.target(&name.text()),
            ast::ItemKind::Variant { name, base, .. } => self.target(&format!("{}:{}", base.model.text, name.text)),
            _ => None,
        })
    }

    /// The definition of a name, if it is written out where it is applied.
    pub(super) fn written_out(&self, name: &str) -> Option<&'a ast::Def> {
        self.written_out.get(name).copied()
    }

    /// The braces of these definitions.
    pub(super) fn written_out_braces(&self) -> Vec<Span> {
        self.written_out.values().map(|def| def.braces).collect()
    }

    /// The feature that a keyword and the word behind it name.
    pub(super) fn feature(&self, keyword: &str, word: &str) -> Option<&Arc<Feature>> {
        self.features.find(keyword, word).or_else(|| feature::feature(keyword, word))
    }

    /// The definitions of the files, to be looked up.
    pub(super) fn all_features(&self) -> &Features {
        &self.features
    }

    /// The definitions of the files.
    pub(super) fn features(&self) -> impl Iterator<Item = &Arc<Feature>> {
        self.features.iter()
    }

    /// The definition with equations of a name.
    pub(super) fn definition_named(&self, name: &str) -> Option<&Definition> {
        let mut all = self.features.iter().filter_map(|feature| feature.definition());
        all.find(|definition| definition.name() == name)
    }

    /// Masks, biases and constants.
    pub(super) fn named(&self) -> &NamedExpressions {
        &self.named
    }
}

fn duplicate(what: &str, name: &str, span: Span, first: Span, problems: &mut Problems) {
    problems.report(
        Diagnostic::new(Kind::DuplicateName, span, format!("the {what} `{name}` is defined twice"))
            .label("the second one")
            .note(first, "the first one"),
    );
}

/// Reports parameters of one name.
pub(super) fn distinct(params: &[ast::Name], problems: &mut Problems) {
    for (n, param) in params.iter().enumerate() {
        if let Some(first) = params[..n].iter().find(|p| p.text == param.text) {
            duplicate("parameter", &param.text, param.span, first.span, problems);
        }
    }
}
