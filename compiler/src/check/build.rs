//! From the tree of statements to the spec: every statement finds its feature.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::derive::{Base, derive};
use super::expand::{Author, StatementTree};
use super::items::DefinedItems;
use super::size;
use crate::define::{self, EQUATIONS};
use crate::diag::{Diagnostic, Kind, Problems, closest, did_you_mean, list};
use crate::expr::{Expr, Var};
use crate::feature::{self, Feature, Site};
use crate::resolve::{CONSTANT, NameBinding, Resolver, ScopeId, Scopes};
use crate::schema::{Catalog, Children};
use crate::source::Span;
use crate::spec::{Block, Origin};
use crate::syntax::ast::{self, ExprKind};
use crate::syntax::habit;

/// A line of each statement that another one needs.
const EXAMPLES: [(&str, &str); 3] =
    [("embed", "embed { width: 64 }"), ("readout", "readout mean"), ("memory", "memory { slots: 8 }")];

/// The checked model; `None` if its root can't be built. Problems may have been reported in either case.
pub(super) fn build(
    items: &DefinedItems<'_>,
    scopes: &mut Scopes,
    tree: &StatementTree,
    catalog: &Catalog,
    overrides: &[Span],
    problems: &mut Problems,
) -> Option<Block> {
    let mut builder = StatementBuilder { items, scopes, problems, broken: BTreeSet::new() };
    let feature = tree.feature()?.clone();
    let broken_definitions = builder.problems.has_errors();
    if broken_definitions {
        builder.broken.insert(tree.span);
    }
    let mut root = builder.block(tree, &feature);
    let base = Base::of(&root);
    let mut broken = builder.broken;
    derive(&mut root, &base, overrides, &mut broken, problems);
    check(&root, &mut Vec::new(), &Context { broken_definitions, catalog, overrides, broken: &broken }, problems);
    size::check(&root, problems);
    Some(root)
}

/// Builds statements; their fields are built in `fields`.
pub(super) struct StatementBuilder<'b, 'a> {
    pub(super) items: &'b DefinedItems<'a>,
    pub(super) scopes: &'b mut Scopes,
    pub(super) problems: &'b mut Problems,
    /// Statements with a problem, and those around them: their cross-field checks would only repeat it.
    broken: BTreeSet<Span>,
}

impl StatementBuilder<'_, '_> {
    pub(super) fn block(&mut self, tree: &StatementTree, feature: &Arc<Feature>) -> Block {
        let before = self.problems.len();
        let mut block = Block {
            feature: feature.clone(),
            slot: feature.slot.clone(),
            variant: feature.variant.clone(),
            fields: self.fields(tree, feature),
            children: Vec::new(),
            span: tree.span,
            origin: origin(&tree.author, tree.span),
        };
        block.children = self.children(tree, feature);
        if self.problems.len() > before {
            self.broken.insert(tree.span);
        }
        block
    }

    /// The children in the canonical order: by the rules of its feature, and as written within a rule.
    fn children(&mut self, tree: &StatementTree, parent: &Feature) -> Vec<Block> {
        let mut sorted: Vec<(usize, Block)> = Vec::new();
        let mut seen: BTreeMap<usize, Vec<Span>> = BTreeMap::new();
        for child in &joined(&tree.children) {
            if self.is_field(child, parent) {
                continue;
            }
            let Some(feature) = self.feature(child, parent) else { continue };
            let rule = parent.children.iter().position(|r| feature.fits(r));
            let Some(rule) = rule else {
                self.misplaced(child, parent);
                continue;
            };
            seen.entry(rule).or_default().push(child.span);
            sorted.push((rule, self.block(child, &feature)));
        }
        for (n, rule) in parent.children.iter().enumerate() {
            self.count(tree, rule, seen.get(&n).map_or(&[][..], Vec::as_slice));
        }
        sorted.sort_by_key(|(rule, _)| *rule);
        sorted.into_iter().map(|(_, block)| block).collect()
    }

    /// Whether one of the equations names a field of the statement that they stand in; that is reported.
    fn is_field(&mut self, equations: &StatementTree, parent: &Feature) -> bool {
        let mut names = equations.equations.iter().flat_map(|(equation, _)| &equation.names);
        let field = |name: &&ast::Name| parent.fields.iter().any(|field| field.name == name.text);
        let Some(name) = names.find(field) else { return false };
        let message = format!("`{}` is a field of `{}`", name.text, parent.title());
        let help = format!("a field is written with a colon: `{}: value`", name.text);
        self.problems.report(Diagnostic::new(Kind::Syntax, name.span, message).label("this is an equation").help(help));
        true
    }

    fn count(&mut self, tree: &StatementTree, rule: &Children, spans: &[Span]) {
        let slot = rule.slots.first().copied().unwrap_or("");
        if let (true, [first, .., last]) = (spans.len() > rule.max, spans) {
            let message = format!("`{slot}` stands more than once in `{}`", tree.title());
            let diagnostic = Diagnostic::new(Kind::DuplicateStatement, *last, message);
            self.problems.report(diagnostic.note(*first, "the first one"));
        }
        // A statement of the slot that has an error of its own is not missing.
        let written = tree.children.iter().filter(|c| rule.slots.contains(&c.keyword.text.as_str())).count();
        if written < rule.min {
            let message = format!("`{}` needs `{slot}`", tree.title());
            let doc = feature::slot(slot).map_or("", |s| &s.doc);
            let example = EXAMPLES.iter().find(|(required, _)| *required == slot);
            let line = example.map_or_else(String::new, |(_, line)| format!("write `{line}`"));
            let diagnostic = Diagnostic::new(Kind::MissingStatement, tree.span, message);
            self.problems.report(diagnostic.help(line).help(format!("{slot}: {doc}")));
        }
    }

    fn misplaced(&mut self, child: &StatementTree, parent: &Feature) {
        let takes = |r: &Children| match child.feature() {
            Some(feature) => feature.fits(r),
            None => r.slots.contains(&child.keyword.text.as_str()),
        };
        let parents: Vec<String> = feature::slots()
            .iter()
            .flat_map(|s| &s.features)
            .filter(|f| f.children.iter().any(takes))
            .map(|f| f.title())
            .collect();
        let what = if child.equations.is_empty() { format!("`{}`", child.keyword.text) } else { EQUATIONS.to_owned() };
        let message = format!("{what} can't stand in `{}`", parent.title());
        let mut diagnostic = Diagnostic::new(Kind::MisplacedStatement, child.span, message);
        let values = child.feature().map_or(&[][..], |feature| &feature.values);
        if !child.equations.is_empty() {
            diagnostic = diagnostic.help("they stand among layers, and in definitions");
        } else if child.word.is_none() && values.len() > 1 {
            let title = child.title();
            let help = format!(
                "a layer has one value; `{title}` has {}, and equations apply it: `state = {title}({})`",
                values.len(),
                values.join(", ")
            );
            diagnostic = diagnostic.help(help);
        } else if !parents.is_empty() {
            diagnostic = diagnostic.help(format!("it stands in {}", list(parents.iter().map(String::as_str), "or")));
        }
        self.problems.report(diagnostic);
    }

    /// The feature that a statement names.
    fn feature(&mut self, tree: &StatementTree, parent: &Feature) -> Option<Arc<Feature>> {
        if !tree.equations.is_empty() {
            return Some(self.equations(tree, parent));
        }
        let keyword = &tree.keyword.text;
        if let Some(feature) = tree.feature() {
            return Some(feature.clone());
        }
        let own = self.items.features().find(|f| f.slot == *keyword && f.variant.is_empty());
        if let (Some(_), Some(word)) = (own, &tree.word) {
            let message = format!("`{keyword}` takes no word");
            return self.problems.fail(Diagnostic::new(Kind::UnknownVariant, word.span, message));
        }
        let Some(slot) = feature::slot(keyword) else {
            self.unknown_statement(tree, parent);
            return None;
        };
        let own: Vec<Arc<Feature>> = self.items.features().filter(|f| f.slot == *keyword).cloned().collect();
        let choices = || slot.features.iter().chain(&own).map(|f| &*f.variant);
        let Some(word) = &tree.word else {
            if slot.has_variants() {
                let message = format!("`{keyword}` needs a variant");
                let label = format!("one of {}", list(choices(), "and"));
                self.problems.report(Diagnostic::new(Kind::UnknownVariant, tree.span, message).label(label));
            }
            return None;
        };
        let diagnostic = if !slot.has_variants() {
            Diagnostic::new(Kind::UnknownVariant, word.span, format!("`{keyword}` takes no word"))
        } else {
            let near = |s: &&feature::Slot| closest(keyword, [&*s.name]).is_some() && s.feature(&word.text).is_some();
            let elsewhere = feature::slots().iter().find(near);
            let hint = match elsewhere {
                Some(other) => format!("did you mean `{} {}`?", other.name, word.text),
                None => did_you_mean(&word.text, choices()),
            };
            Diagnostic::new(Kind::UnknownVariant, word.span, format!("`{keyword}` has no variant `{}`", word.text))
                .label(hint)
                .help(format!("the variants are {}", list(choices(), "and")))
        };
        self.problems.report(diagnostic);
        None
    }

    /// A run of equations, the constants of the file put in.
    fn equations(&mut self, tree: &StatementTree, parent: &Feature) -> Arc<Feature> {
        let mut bound: BTreeSet<String> = BTreeSet::new();
        let mut equations = vec![];
        for (equation, scope) in &tree.equations {
            let mut equation = equation.clone();
            if define::repeated(&parent.slot, &parent.variant).is_some() {
                self.rebound_constants(&equation, *scope);
            }
            self.constants(&mut equation.value, *scope, &bound);
            bound.extend(equation.names.iter().map(|name| name.text.clone()));
            equations.push(equation);
        }
        Arc::new(define::equations(equations, self.items.all_features(), tree.span, self.problems))
    }

    /// Reports constants and parameters that an equation of a step would bind again: they would have their old value in the next one.
    fn rebound_constants(&mut self, equation: &ast::Equation, scope: ScopeId) {
        for name in &equation.names {
            let constant = self.items.named().is_constant(&name.text);
            if constant || self.scopes.find(scope, &name.text).is_some() {
                let message = format!("`{}` is a constant outside", name.text);
                let diagnostic = Diagnostic::new(Kind::RebindsOuter, name.span, message);
                let label = "this value would be that of one step alone";
                self.problems.report(diagnostic.label(label).help("choose another name"));
            }
        }
    }

    /// Puts the values of constants and parameters in the place of their names, but for names that equations bind.
    fn constants(&mut self, expr: &mut ast::ExprSyntax, scope: ScopeId, bound: &BTreeSet<String>) {
        match &mut expr.kind {
            ExprKind::Name(name) if !bound.contains(name) => {
                let constant = self.items.named().is_constant(name);
                let named = self.items.named();
                let of_pairs = |name: &str| {
                    let seen = Expr::is_of_pair(name) && name != Var::Step.name();
                    seen || named.find(name).is_some() && !named.is_constant(name)
                };
                match self.scopes.find(scope, name).cloned() {
                    Some(NameBinding::Written(value, outer)) if value.as_name().is_some() => {
                        // A name that stands for nothing is reported where it is written.
                        let mut value = value;
                        self.constants(&mut value, outer, &BTreeSet::new());
                        *expr = value;
                    }
                    // A size of the model, or what a mask or a bias sees, is known where the equation is worked out.
                    Some(NameBinding::Written(value, outer))
                        if self.reads(&value, outer, &define::is_size) || self.reads(&value, outer, &of_pairs) =>
                    {
                        let mut value = value;
                        self.constants(&mut value, outer, &BTreeSet::new());
                        expr.kind = ExprKind::Group(Box::new(value));
                    }
                    None if !constant => {}
                    _ => {
                        let mut resolver = Resolver::new(self.items.named(), self.scopes, self.problems, CONSTANT);
                        match resolver.expression(expr, scope).map(|typed| typed.expr) {
                            Some(Expr::Int(v)) => expr.kind = ExprKind::Int(v),
                            Some(Expr::Float(v)) => expr.kind = ExprKind::Float(v),
                            Some(Expr::Bool(v)) => expr.kind = ExprKind::Bool(v),
                            _ => {}
                        }
                    }
                }
            }
            ExprKind::Neg(x) | ExprKind::Not(x) | ExprKind::Group(x) => self.constants(x, scope, bound),
            ExprKind::Binary(_, a, b) | ExprKind::Indexed(a, b) => {
                self.constants(a, scope, bound);
                self.constants(b, scope, bound);
            }
            ExprKind::Call(_, args, body) | ExprKind::Learn(_, args, body) => {
                args.iter_mut().for_each(|arg| self.constants(arg, scope, bound));
                body.iter_mut().for_each(|body| self.constants_of(body, scope, bound));
            }
            // What is read at a position is no constant.
            ExprKind::Read(_, indices) => indices.iter_mut().for_each(|index| self.constants(index, scope, bound)),
            ExprKind::Function(_, body) => self.constants_of(body, scope, bound),
            _ => {}
        }
    }

    /// Whether an expression, or one that a name in it stands for, reads a name of this kind.
    fn reads(&self, expr: &ast::ExprSyntax, scope: ScopeId, kind: &dyn Fn(&str) -> bool) -> bool {
        let mut names = vec![];
        define::read_names(expr, &mut |name| names.push(name.text.clone()));
        names.iter().any(|name| match self.scopes.find(scope, name) {
            Some(NameBinding::Written(value, outer)) => self.reads(value, *outer, kind),
            Some(NameBinding::Resolved(_) | NameBinding::Value(_)) => false,
            None => kind(name),
        })
    }

    /// The same in settings, and in the settings of the functions among them.
    fn constants_of(&mut self, body: &mut ast::BodySyntax, scope: ScopeId, bound: &BTreeSet<String>) {
        for element in &mut body.elements {
            match element {
                ast::BodyElement::Field(ast::FieldSyntax { value: ast::ValueSyntax::Expr(x), .. }) => {
                    self.constants(x, scope, bound)
                }
                ast::BodyElement::Field(ast::FieldSyntax { value: ast::ValueSyntax::Structured(_, body), .. }) => {
                    self.constants_of(body, scope, bound)
                }
                _ => {}
            }
        }
    }

    fn unknown_statement(&mut self, tree: &StatementTree, parent: &Feature) {
        let keyword = &tree.keyword.text;
        let own: Vec<Arc<Feature>> = self.items.features().filter(|f| f.variant.is_empty()).cloned().collect();
        let here = || parent.children.iter().flat_map(|r| r.slots.iter().copied());
        let message = format!("no statement begins with `{keyword}`");
        let mut diagnostic = Diagnostic::new(Kind::UnknownStatement, tree.keyword.span, message);
        if !habit(keyword).is_empty() {
            self.problems.report(diagnostic.help(habit(keyword)));
            return;
        }
        diagnostic = diagnostic.label(did_you_mean(
            keyword,
            here().chain(feature::slots().iter().map(|s| &*s.name)).chain(own.iter().map(|f| &*f.slot)),
        ));
        if let Some(def) = self.items.written_out(keyword) {
            let values: Vec<&str> = def.values.iter().map(|value| value.text.as_str()).collect();
            let help = format!("an equation applies a definition with loops: `y = {keyword}({})`", values.join(", "));
            diagnostic = diagnostic.help(help);
        } else if parent.fields.iter().any(|f| f.name == *keyword) {
            diagnostic = diagnostic.help(format!("a field has a colon: `{keyword}: value`"));
        } else if here().next().is_some() {
            diagnostic = diagnostic.help(format!("here can stand {}", list(here(), "and")));
        } else {
            diagnostic = diagnostic.help(format!("no statement can stand in `{}`", parent.title()));
        }
        self.problems.report(diagnostic);
    }
}

pub(super) fn origin(author: &Author, span: Span) -> Origin {
    match author {
        Author::File => Origin::Written(span),
        Author::Variant(name) => Origin::Variant(name.clone(), span),
        Author::Override(n) => Origin::Override(*n),
        Author::Default => Origin::Default,
    }
}

struct Context<'a> {
    /// Whether statements may be missing because a definition or an edit has an error.
    broken_definitions: bool,
    catalog: &'a Catalog,
    overrides: &'a [Span],
    broken: &'a BTreeSet<Span>,
}

/// Kinds that look at one statement and those around it, so that no other problem can have caused them.
const LOCAL: [Kind; 3] = [Kind::MisplacedStatement, Kind::ObjectiveMismatch, Kind::Indivisible];

/// Runs the checks of the features. Where something inside a statement is wrong, or anything in the model for a readout,
/// most of what its check finds would only be a consequence: it is dropped.
fn check<'a>(block: &'a Block, ancestors: &mut Vec<&'a Block>, context: &Context<'_>, problems: &mut Problems) {
    let root = ancestors.first().copied().unwrap_or(block);
    let looks_around = block.slot == "readout" || context.broken_definitions;
    let broken = context.broken.contains(&block.span) || looks_around && context.broken.contains(&root.span);
    let site = Site { block, ancestors, catalog: context.catalog, overrides: context.overrides };
    let mut found = Problems::default();
    feature::check_effect(&site, &mut found);
    (block.feature.check)(&site, &mut found);
    found.iter().filter(|d| !broken || LOCAL.contains(&d.kind)).for_each(|d| problems.report(d.clone()));
    ancestors.push(block);
    for child in &block.children {
        check(child, ancestors, context, problems);
    }
    ancestors.pop();
}

/// Statements where equations between which no layer stands are one run, as they are in the canonical order.
pub(super) fn joined(children: &[StatementTree]) -> Vec<Cow<'_, StatementTree>> {
    let mut out: Vec<Cow<'_, StatementTree>> = vec![];
    for child in children {
        match out.iter_mut().rev().find(|before| before.is_layer()) {
            Some(run) if !run.equations.is_empty() && !child.equations.is_empty() => {
                run.to_mut().equations.extend(child.equations.iter().cloned());
            }
            _ => out.push(Cow::Borrowed(child)),
        }
    }
    out
}
