//! From the tree of statements to the spec: every statement finds its feature, every field its value.

use std::collections::{BTreeMap, BTreeSet};

use super::expand::{Author, COPIES, Tree, TreeField, is_counted};
use super::items::Items;
use super::resolve::{ATTENTION, Allowed, CONSTANT, DEPTH, Resolver, Type, Typed};
use super::scope::{Bound, ScopeId, Scopes};
use super::size;
use crate::diag::{Diagnostic, Kind, Problems, closest, did_you_mean, list};
use crate::expr::Expr;
use crate::feature::{self, Feature, Site};
use crate::schema::{Catalog, Children, Default, Derived, Field, FieldKind, Schema};
use crate::source::Span;
use crate::spec::{Block, Origin, Setting, Value};
use crate::syntax::ast;

/// The checked model; `None` if its root can't be built. Problems may have been reported in either case.
pub(super) fn build(
    items: &Items<'_>,
    scopes: &mut Scopes,
    tree: &Tree,
    catalog: &Catalog,
    overrides: &[Span],
    problems: &mut Problems,
) -> Option<Block> {
    let mut builder = Builder { items, scopes, problems, broken: BTreeSet::new() };
    let feature = tree.feature()?;
    let broken_definitions = builder.problems.has_errors();
    if broken_definitions {
        builder.broken.insert(tree.span);
    }
    let mut root = builder.block(tree, feature);
    let base = Base::of(&root);
    let mut broken = builder.broken;
    derive(&mut root, &base, overrides, &mut broken, problems);
    check(&root, &mut Vec::new(), &Context { broken_definitions, catalog, overrides, broken: &broken }, problems);
    size::check(&root, problems);
    Some(root)
}

struct Builder<'b, 'a> {
    items: &'b Items<'a>,
    scopes: &'b mut Scopes,
    problems: &'b mut Problems,
    /// Statements with a problem, and those around them: their cross-field checks would only repeat it.
    broken: BTreeSet<Span>,
}

impl Builder<'_, '_> {
    fn block(&mut self, tree: &Tree, feature: &'static Feature) -> Block {
        let before = self.problems.len();
        let schema = &feature.schema;
        let mut block = Block {
            slot: schema.slot,
            variant: schema.variant,
            fields: self.fields(tree, schema),
            children: Vec::new(),
            span: tree.span,
            origin: origin(&tree.author, tree.span),
        };
        block.children = self.children(tree, schema);
        if self.problems.len() > before {
            self.broken.insert(tree.span);
        }
        block
    }

    /// The children in the canonical order: by the rules of the schema, and as written within a rule.
    fn children(&mut self, tree: &Tree, schema: &'static Schema) -> Vec<Block> {
        let mut sorted: Vec<(usize, Block)> = Vec::new();
        let mut seen: BTreeMap<usize, Vec<Span>> = BTreeMap::new();
        for child in &tree.children {
            let Some(feature) = self.feature(child, schema) else { continue };
            let rule = schema.children.iter().position(|r| r.slots.contains(&feature.schema.slot));
            let Some(rule) = rule else {
                self.misplaced(child, schema);
                continue;
            };
            seen.entry(rule).or_default().push(child.span);
            sorted.push((rule, self.block(child, feature)));
        }
        for (n, rule) in schema.children.iter().enumerate() {
            self.count(tree, rule, seen.get(&n).map_or(&[][..], Vec::as_slice));
        }
        sorted.sort_by_key(|(rule, _)| *rule);
        sorted.into_iter().map(|(_, block)| block).collect()
    }

    fn count(&mut self, tree: &Tree, rule: &Children, spans: &[Span]) {
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
            let doc = feature::slot(slot).map_or("", |s| s.doc);
            self.problems
                .report(Diagnostic::new(Kind::MissingStatement, tree.span, message).help(format!("{slot}: {doc}")));
        }
    }

    fn misplaced(&mut self, child: &Tree, schema: &Schema) {
        let parents: Vec<String> = feature::SLOTS
            .iter()
            .flat_map(|s| s.features)
            .filter(|f| f.schema.children.iter().any(|r| r.slots.contains(&child.keyword.text.as_str())))
            .map(|f| f.schema.title())
            .collect();
        let message = format!("`{}` can't stand in `{}`", child.keyword.text, schema.title());
        let mut diagnostic = Diagnostic::new(Kind::MisplacedStatement, child.span, message);
        if !parents.is_empty() {
            diagnostic = diagnostic.help(format!("it stands in {}", list(parents.iter().map(String::as_str), "or")));
        }
        self.problems.report(diagnostic);
    }

    /// The feature that a statement names.
    fn feature(&mut self, tree: &Tree, parent: &Schema) -> Option<&'static Feature> {
        let keyword = &tree.keyword.text;
        let Some(slot) = feature::slot(keyword) else {
            self.unknown_statement(tree, parent);
            return None;
        };
        let Some(word) = &tree.word else {
            if slot.has_variants() {
                let choices = slot.features.iter().map(|f| f.schema.variant);
                let message = format!("`{keyword}` needs a variant");
                let label = format!("one of {}", list(choices, "and"));
                self.problems.report(Diagnostic::new(Kind::UnknownVariant, tree.span, message).label(label));
            }
            return slot.feature("");
        };
        if let Some(feature) = slot.feature(&word.text) {
            return Some(feature);
        }
        let diagnostic = if !slot.has_variants() {
            Diagnostic::new(Kind::UnknownVariant, word.span, format!("`{keyword}` takes no word"))
        } else if slot.planned.contains(&word.text.as_str()) {
            not_yet(&format!("{keyword} {}", word.text), word.span)
        } else {
            let choices = || slot.features.iter().map(|f| f.schema.variant);
            let elsewhere =
                feature::SLOTS.iter().find(|s| closest(keyword, [s.name]).is_some() && s.feature(&word.text).is_some());
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

    fn unknown_statement(&mut self, tree: &Tree, parent: &Schema) {
        let keyword = &tree.keyword.text;
        if feature::PLANNED.contains(&keyword.as_str()) {
            self.problems.report(not_yet(keyword, tree.keyword.span));
            return;
        }
        let here = || parent.children.iter().flat_map(|r| r.slots.iter().copied());
        let message = format!("no statement begins with `{keyword}`");
        let mut diagnostic = Diagnostic::new(Kind::UnknownStatement, tree.keyword.span, message);
        diagnostic = diagnostic.label(did_you_mean(keyword, here().chain(feature::SLOTS.iter().map(|s| s.name))));
        if self.items.block(keyword).is_some() {
            diagnostic = diagnostic.help(format!("a block is inserted with parentheses: `{keyword}()`"));
        } else if parent.fields.iter().any(|f| f.name == keyword) {
            diagnostic = diagnostic.help(format!("a field has a colon: `{keyword}: value`"));
        } else if here().next().is_some() {
            diagnostic = diagnostic.help(format!("here can stand {}", list(here(), "and")));
        } else {
            diagnostic = diagnostic.help(format!("no statement can stand in `{}`", parent.title()));
        }
        self.problems.report(diagnostic);
    }

    /// The values of all fields: written ones and plain defaults. Derived ones follow later.
    fn fields(&mut self, tree: &Tree, schema: &'static Schema) -> BTreeMap<&'static str, Setting> {
        let mut values = BTreeMap::new();
        let mut seen: BTreeMap<&str, Span> = BTreeMap::new();
        for written in &tree.fields {
            let Some(field) = schema.fields.iter().find(|f| f.name == written.name.text) else {
                self.unknown_field(written, schema);
                continue;
            };
            if let Some(first) = seen.insert(field.name, written.name.span) {
                let message = format!("`{}` is given twice", field.name);
                let diagnostic = Diagnostic::new(Kind::DuplicateField, written.name.span, message);
                self.problems.report(diagnostic.label("the second one").note(first, "the first one"));
                continue;
            }
            if let Some(value) = self.value(field, &written.value, written.scope) {
                values.insert(field.name, Setting { value, origin: origin(&written.author, written.value.span()) });
            }
        }
        for field in schema.fields.iter().filter(|f| !seen.contains_key(f.name)) {
            let value = match field.default {
                Default::Required => {
                    self.missing_field(tree, field);
                    continue;
                }
                Default::Absent | Default::Derived(_) => continue,
                Default::Int(v) => Value::Int(v),
                Default::Float(v) => Value::Float(v),
                Default::Word(v) => Value::Word(v.to_owned()),
            };
            values.insert(field.name, Setting { value, origin: Origin::Default });
        }
        values
    }

    fn missing_field(&mut self, tree: &Tree, field: &Field) {
        let message = format!("`{}` needs `{}`", tree.title(), field.name);
        let diagnostic = Diagnostic::new(Kind::MissingField, tree.span, message);
        let help = if field.name == COPIES && is_counted(&tree.keyword.text) {
            format!("write a number behind the keyword: `{} 4 {{ ... }}`", tree.keyword.text)
        } else {
            format!("`{}: ...` is {}: {}", field.name, field.kind.describe(), field.doc)
        };
        self.problems.report(diagnostic.help(help));
    }

    fn unknown_field(&mut self, written: &TreeField, schema: &Schema) {
        let name = &written.name.text;
        let title = schema.title();
        if name.is_empty() {
            let message = format!("no number can stand behind `{}`", schema.slot);
            self.problems.report(Diagnostic::new(Kind::UnknownVariant, written.name.span, message));
            return;
        }
        let fields = || schema.fields.iter().map(|f| f.name).filter(|n| *n != COPIES || !is_counted(schema.slot));
        let message = format!("`{title}` has no field `{name}`");
        let mut diagnostic = Diagnostic::new(Kind::UnknownField, written.name.span, message);
        diagnostic = diagnostic.label(did_you_mean(name, fields()));
        let is_statement = schema.children.iter().any(|r| r.slots.contains(&name.as_str()));
        diagnostic = if is_statement {
            diagnostic.help(format!("`{name}` is a statement, written without a colon"))
        } else if fields().next().is_none() {
            diagnostic.help(format!("`{title}` has no fields"))
        } else {
            diagnostic.help(format!("its fields are {}", list(fields(), "and")))
        };
        self.problems.report(diagnostic);
    }

    /// The value of a field, of the right kind and in range; `None` if a problem was reported.
    fn value(&mut self, field: &Field, value: &ast::Value, scope: ScopeId) -> Option<Value> {
        let ast::Value::Expr(expr) = value else {
            return self.wrong(field, value.span(), "this has fields of its own");
        };
        match field.kind {
            FieldKind::Int => {
                let typed = self.constant(field, expr, scope)?;
                let Expr::Int(v) = typed.expr else {
                    return self.wrong(field, expr.span, "this is not a whole number");
                };
                self.in_range(field, v as f64, expr.span)?;
                Some(Value::Int(v))
            }
            FieldKind::Float => {
                let typed = self.constant(field, expr, scope)?;
                let v = match typed.expr {
                    Expr::Int(v) => v as f64,
                    Expr::Float(v) => v,
                    _ => return self.wrong(field, expr.span, "this is not a number"),
                };
                self.in_range(field, v, expr.span)?;
                Some(Value::Float(v))
            }
            FieldKind::Word(choices, planned) => self.word(field, expr, scope, choices, planned),
            FieldKind::Mask | FieldKind::Bias => self.attention(field, expr, scope),
            FieldKind::Depth => self.depth(field, expr, scope),
        }
    }

    /// A number that is known now.
    fn constant(&mut self, field: &Field, expr: &ast::Expr, scope: ScopeId) -> Option<Typed> {
        if let Some(name) = expr.as_name() {
            let known = self.scopes.find(scope, &name.text).is_some() || self.items.definition(&name.text).is_some();
            if !known {
                return self.wrong(field, expr.span, "this is a word that stands for no number");
            }
        }
        let typed = self.resolve(expr, scope, CONSTANT)?;
        match typed.ty {
            Type::Bool => self.wrong(field, expr.span, "this is true or false"),
            _ => Some(typed),
        }
    }

    /// One of the words; a constant or a parameter may stand for it.
    fn word(
        &mut self,
        field: &Field,
        expr: &ast::Expr,
        scope: ScopeId,
        choices: &[&str],
        planned: &[&str],
    ) -> Option<Value> {
        let name = match self.stands_for(expr, scope, choices) {
            Ok(name) => name,
            Err(span) => return self.wrong(field, span, "this is not a word"),
        };
        if choices.contains(&name.text.as_str()) {
            return Some(Value::Word(name.text));
        }
        if planned.contains(&name.text.as_str()) {
            self.problems.report(not_yet(&format!("{}: {}", field.name, name.text), name.span));
            return None;
        }
        let message = format!("`{}` takes {}", field.name, field.kind.describe());
        let hint = did_you_mean(&name.text, choices.iter().copied());
        let label = if hint.is_empty() { format!("not `{}`", name.text) } else { hint };
        self.problems.report(Diagnostic::new(Kind::WrongType, name.span, message).label(label));
        None
    }

    /// One of the words, or the last name on the way that constants and parameters lead from an expression; else the place of
    /// what is no name.
    fn stands_for(&self, expr: &ast::Expr, scope: ScopeId, words: &[&str]) -> Result<ast::Name, Span> {
        let (mut name, mut scope) = (expr.as_name().ok_or(expr.span)?, scope);
        // Bindings lead outwards, so this ends; the bound keeps a slip in that from hanging.
        for _ in 0..1000 {
            match self.scopes.find(scope, &name.text) {
                Some(Bound::Written(value, outer)) if !words.contains(&name.text.as_str()) => {
                    (name, scope) = (value.as_name().ok_or(value.span)?, *outer);
                }
                _ => break,
            }
        }
        Ok(name)
    }

    fn attention(&mut self, field: &Field, expr: &ast::Expr, scope: ScopeId) -> Option<Value> {
        let is_mask = field.kind == FieldKind::Mask;
        let words: &[&str] = if is_mask { &["past", "all"] } else { &["none"] };
        if let Ok(name) = self.stands_for(expr, scope, words) {
            if words.contains(&name.text.as_str()) {
                return Some(Value::Word(name.text));
            }
            if is_mask && name.text == "none" {
                return self.wrong(field, expr.span, "write `all` to see every key");
            }
        }
        let typed = self.resolve(expr, scope, ATTENTION)?;
        if is_mask && typed.ty != Type::Bool {
            let message = "a mask must be true or false";
            self.problems.report(Diagnostic::new(Kind::MaskNotBoolean, expr.span, message).label("this is a number"));
            return None;
        }
        if !is_mask && typed.ty == Type::Bool {
            let message = "a bias must be a number";
            self.problems
                .report(Diagnostic::new(Kind::BiasNotNumber, expr.span, message).label("this is true or false"));
            return None;
        }
        if is_mask && typed.expr.is_learned() {
            return self.wrong(field, expr.span, "a mask can't hold `learn`");
        }
        Some(Value::Expr(typed.expr))
    }

    fn depth(&mut self, field: &Field, expr: &ast::Expr, scope: ScopeId) -> Option<Value> {
        let typed = self.resolve(expr, scope, DEPTH)?;
        match typed.expr {
            Expr::Int(v) => {
                self.in_range(field, v as f64, expr.span)?;
                Some(Value::Int(v))
            }
            Expr::Given => Some(Value::Expr(Expr::Given)),
            _ if typed.ty != Type::Int => self.wrong(field, expr.span, &format!("this is {}", typed.ty.describe())),
            other if holds_given(&other) => self.wrong(field, expr.span, "`given` stands alone"),
            other => Some(Value::Expr(other)),
        }
    }

    fn resolve(&mut self, expr: &ast::Expr, scope: ScopeId, allowed: Allowed) -> Option<Typed> {
        Resolver::new(self.items, self.scopes, self.problems, allowed).expression(expr, scope)
    }

    fn wrong<T>(&mut self, field: &Field, span: Span, label: &str) -> Option<T> {
        let message = format!("`{}` takes {}", field.name, field.kind.describe());
        self.problems.report(Diagnostic::new(Kind::WrongType, span, message).label(label));
        None
    }

    fn in_range(&mut self, field: &Field, v: f64, span: Span) -> Option<()> {
        if field.bounds.hold(v) {
            return Some(());
        }
        let message = format!("`{}` must be {}", field.name, field.bounds.describe());
        self.problems.report(Diagnostic::new(Kind::OutOfRange, span, message).label(format!("this is {v}")));
        None
    }
}

fn holds_given(expr: &Expr) -> bool {
    *expr == Expr::Given || expr.operands().into_iter().any(holds_given)
}

fn not_yet(words: &str, span: Span) -> Diagnostic {
    Diagnostic::new(Kind::NotSupportedYet, span, format!("`{words}` is not supported yet"))
        .label("the word is kept for a later version")
}

fn origin(author: &Author, span: Span) -> Origin {
    match author {
        Author::File => Origin::Written(span),
        Author::Variant(name) => Origin::Variant(name.clone(), span),
        Author::Override(n) => Origin::Override(*n),
        Author::Default => Origin::Default,
    }
}

/// The values that others are derived from.
struct Base {
    dropout: Option<f64>,
    attention_dropout: Option<f64>,
    width: Option<i64>,
    sees_past: bool,
}

impl Base {
    fn of(root: &Block) -> Self {
        let width = root.child("embed").and_then(|e| e.int("width"));
        Self {
            dropout: root.float("dropout"),
            attention_dropout: root.float("attention_dropout"),
            width: width.and_then(|w| i64::try_from(w).ok()),
            sees_past: root.sees_past(),
        }
    }
}

/// Works out the derived fields that nobody wrote. Where what they derive from is missing, that is reported already.
fn derive(block: &mut Block, base: &Base, overrides: &[Span], broken: &mut BTreeSet<Span>, problems: &mut Problems) {
    let schema = feature::feature(block.slot, block.variant).map(|f| &f.schema);
    for field in schema.map_or(&[][..], |s| s.fields) {
        let Default::Derived(rule) = field.default else { continue };
        if block.fields.contains_key(field.name) {
            continue;
        }
        let value = match rule {
            Derived::ModelDropout => base.dropout.map(Value::Float),
            Derived::ModelAttentionDropout => base.attention_dropout.map(Value::Float),
            Derived::Width => base.width.map(Value::Int),
            Derived::WidthPerHead => width_per_head(block, base, overrides, broken, problems),
            Derived::Sees(past, all) => Some(Value::Word(if base.sees_past { past } else { all }.to_owned())),
        };
        if let Some(value) = value {
            block.fields.insert(field.name, Setting { value, origin: Origin::Derived(rule.text().to_owned()) });
        }
    }
    for child in &mut block.children {
        derive(child, base, overrides, broken, problems);
    }
}

fn width_per_head(
    block: &Block,
    base: &Base,
    overrides: &[Span],
    broken: &mut BTreeSet<Span>,
    problems: &mut Problems,
) -> Option<Value> {
    let (width, heads) = (base.width?, i64::try_from(block.int("heads")?).ok()?);
    if heads > 0 && width % heads == 0 {
        return Some(Value::Int(width / heads));
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

struct Context<'a> {
    /// Whether statements may be missing because a block or an edit has an error.
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
    if let Some(feature) = feature::feature(block.slot, block.variant) {
        let site = Site { block, ancestors, catalog: context.catalog, overrides: context.overrides };
        let mut found = Problems::default();
        (feature.check)(&site, &mut found);
        found.iter().filter(|d| !broken || LOCAL.contains(&d.kind)).for_each(|d| problems.report(d.clone()));
    }
    ancestors.push(block);
    for child in &block.children {
        check(child, ancestors, context, problems);
    }
    ancestors.pop();
}
