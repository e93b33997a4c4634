//! The fields of a statement: each finds its place in the feature, and its value the kind and the range that are asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::build::{StatementBuilder, origin};
use super::expand::{self, Author, COPIES, StatementTree, TreeField, is_counted};
use crate::define;
use crate::diag::{Diagnostic, Kind, closest, did_you_mean, list};
use crate::expr::{Expr, most};
use crate::feature::{self, Feature};
use crate::ir::pointwise::{ACTIVATIONS, Pointwise};
use crate::resolve::{Allowed, CONSTANT, DEPTH, ExpressionType, NameBinding, Resolver, ScopeId, Typed};
use crate::schema::{Default, FieldKind, StatementField, Text, Words};
use crate::source::Span;
use crate::spec::{FieldValue, Origin, Setting};
use crate::syntax::ast;

/// Truth values of other libraries that are a mask here.
const CAUSAL: [&str; 4] = ["causal", "is_causal", "autoregressive", "bidirectional"];

impl StatementBuilder<'_, '_> {
    /// The values of all fields: written ones and plain defaults. Derived ones follow later.
    pub(super) fn fields(&mut self, tree: &StatementTree, feature: &Feature) -> BTreeMap<Text, Setting> {
        let mut values = BTreeMap::new();
        let mut seen: BTreeMap<&str, Span> = BTreeMap::new();
        for written in &tree.fields {
            let Some(field) = feature.fields.iter().find(|f| f.name == written.name.text) else {
                self.unknown_field(written, feature);
                continue;
            };
            if let Some(first) = seen.insert(&field.name, written.name.span) {
                let message = format!("`{}` is given twice", field.name);
                let diagnostic = Diagnostic::new(Kind::DuplicateField, written.name.span, message);
                self.problems.report(diagnostic.label("the second one").note(first, "the first one"));
                continue;
            }
            if let Some(value) = self.value(field, &written.value, written.scope) {
                let origin = origin(&written.author, written.value.span());
                values.insert(field.name.clone(), Setting { value, origin });
            }
        }
        for field in feature.fields.iter().filter(|f| !seen.contains_key(&*f.name)) {
            let value = match &field.default {
                Default::Required => {
                    // One that is written as an equation is reported as such.
                    let equations = tree.children.iter().flat_map(|child| &child.equations);
                    if !equations.flat_map(|(equation, _)| &equation.names).any(|name| name.text == field.name) {
                        self.missing_field(tree, field);
                    }
                    continue;
                }
                Default::Absent | Default::Derived(_) => continue,
                Default::Int(v) => FieldValue::Int(*v),
                Default::Float(v) => FieldValue::Float(*v),
                Default::Word(v) => FieldValue::Word(v.to_string()),
                Default::Truth(v) => FieldValue::Truth(*v),
            };
            values.insert(field.name.clone(), Setting { value, origin: Origin::Default });
        }
        values
    }

    fn missing_field(&mut self, tree: &StatementTree, field: &StatementField) {
        let message = format!("`{}` needs `{}`", tree.title(), field.name);
        let diagnostic = Diagnostic::new(Kind::MissingField, tree.span, message);
        let help = if field.name == COPIES && is_counted(&tree.keyword.text) {
            format!("write a number behind the keyword: `{} 4 {{ ... }}`", tree.keyword.text)
        } else {
            field.about()
        };
        self.problems.report(diagnostic.help(help));
    }

    fn unknown_field(&mut self, written: &TreeField, feature: &Feature) {
        let name = &written.name.text;
        if feature.definition().is_some_and(|definition| definition.broken) {
            // It may be a setting whose declaration has an error.
            return;
        }
        let title = feature.title();
        if name.is_empty() {
            let message = format!("no number can stand behind `{}`", feature.slot);
            self.problems.report(Diagnostic::new(Kind::UnknownVariant, written.name.span, message));
            return;
        }
        let fields = || feature.fields.iter().map(|f| &*f.name).filter(|n| *n != COPIES || !is_counted(&feature.slot));
        let message = format!("`{title}` has no field `{name}`");
        let mut diagnostic = Diagnostic::new(Kind::UnknownField, written.name.span, message);
        let is_mask = CAUSAL.contains(&&**name) && fields().any(|own| own == "mask");
        diagnostic = diagnostic.label(match is_mask {
            true => "`mask: past` sees what came before alone, `mask: all` every position".to_owned(),
            false => did_you_mean(name, fields()),
        });
        let is_statement = feature.children.iter().any(|r| r.slots.contains(&name.as_str()));
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
    fn value(&mut self, field: &StatementField, value: &ast::ValueSyntax, scope: ScopeId) -> Option<FieldValue> {
        if field.kind == FieldKind::Function {
            return self.function(field, value, scope);
        }
        let ast::ValueSyntax::Expr(expr) = value else {
            return self.wrong(field, value.span(), "this has fields of its own");
        };
        match &field.kind {
            FieldKind::Function => None,
            FieldKind::Truth => match self.resolve(expr, scope, CONSTANT)?.expr {
                Expr::Bool(v) => Some(FieldValue::Truth(v)),
                _ => self.wrong(field, expr.span, "this is a number"),
            },
            FieldKind::Int => self.whole(field, expr, scope),
            FieldKind::Float => self.real(field, expr, scope),
            FieldKind::FloatOr(words) | FieldKind::IntOr(words) => match self.stands_for(expr, scope, words) {
                Ok(name) if words.contains(&name.text.as_str()) => Some(FieldValue::Word(name.text)),
                Ok(name) if closest(&name.text, words.iter().copied()).is_some() => {
                    self.wrong(field, name.span, &did_you_mean(&name.text, words.iter().copied()))
                }
                _ if field.kind == FieldKind::IntOr(words) => self.whole(field, expr, scope),
                _ => self.real(field, expr, scope),
            },
            FieldKind::Word(choices) => self.word(field, expr, scope, choices),
            FieldKind::Mask | FieldKind::Bias => self.attention(field, expr, scope),
            // Words of equations alone have choices, and their settings are worked out with the equations.
            FieldKind::Depth | FieldKind::Choices => self.depth(field, expr, scope),
        }
    }

    fn whole(&mut self, field: &StatementField, expr: &ast::ExprSyntax, scope: ScopeId) -> Option<FieldValue> {
        let typed = self.constant(field, expr, scope)?;
        let Expr::Int(v) = typed.expr else {
            let message = format!("`{}` takes {}", field.name, field.kind.describe());
            let diagnostic = Diagnostic::new(Kind::WrongType, expr.span, message);
            let label = match typed.expr {
                Expr::Float(v) => format!("this is {v}"),
                _ => "this is not a whole number".to_owned(),
            };
            return self.problems.fail(diagnostic.label(label).help(typed.cure()));
        };
        self.in_range(field, v as f64, expr.span)?;
        Some(FieldValue::Int(v))
    }

    fn real(&mut self, field: &StatementField, expr: &ast::ExprSyntax, scope: ScopeId) -> Option<FieldValue> {
        let v = match self.constant(field, expr, scope)?.expr {
            Expr::Int(v) => v as f64,
            Expr::Float(v) => v,
            _ => return self.wrong(field, expr.span, "this is not a number"),
        };
        self.in_range(field, v, expr.span)?;
        Some(FieldValue::Float(v))
    }

    /// A number that is known now.
    fn constant(&mut self, field: &StatementField, expr: &ast::ExprSyntax, scope: ScopeId) -> Option<Typed> {
        if let Some(name) = expr.as_name() {
            let known = self.scopes.find(scope, &name.text).is_some() || self.items.named().find(&name.text).is_some();
            if !known {
                return self.wrong(field, expr.span, "this is a word that stands for no number");
            }
        }
        let typed = self.resolve(expr, scope, CONSTANT)?;
        match typed.ty {
            ExpressionType::Bool => self.wrong(field, expr.span, "this is true or false"),
            _ => Some(typed),
        }
    }

    /// One of the words; a constant or a parameter may stand for it.
    fn word(
        &mut self,
        field: &StatementField,
        expr: &ast::ExprSyntax,
        scope: ScopeId,
        choices: &Words,
    ) -> Option<FieldValue> {
        let words: Vec<&str> = choices.iter().collect();
        let name = match self.stands_for(expr, scope, &words) {
            Ok(name) => name,
            Err(span) => return self.wrong(field, span, "this is not a word"),
        };
        if choices.contains(&name.text) {
            return Some(FieldValue::Word(name.text));
        }
        let message = format!("`{}` takes {}", field.name, field.kind.describe());
        let hint = did_you_mean(&name.text, choices.iter());
        let label = if hint.is_empty() { format!("not `{}`", name.text) } else { hint };
        self.problems.fail(Diagnostic::new(Kind::WrongType, name.span, message).label(label))
    }

    /// One of the words, or the last name on the way that constants and parameters lead from an expression; else the place of
    /// what is no name.
    fn stands_for(&self, expr: &ast::ExprSyntax, scope: ScopeId, words: &[&str]) -> Result<ast::Name, Span> {
        let (mut name, mut scope) = (expr.as_name().ok_or(expr.span)?, scope);
        // Bindings lead outwards, so this ends; the bound keeps a slip in that from hanging.
        for _ in 0..1000 {
            match self.scopes.find(scope, &name.text) {
                Some(NameBinding::Written(value, outer)) if !words.contains(&name.text.as_str()) => {
                    (name, scope) = (value.as_name().ok_or(value.span)?, *outer);
                }
                _ => break,
            }
        }
        Ok(name)
    }

    /// A function of one value: of single numbers by its name, or a definition or a word of equations with its settings.
    fn function(&mut self, field: &StatementField, value: &ast::ValueSyntax, scope: ScopeId) -> Option<FieldValue> {
        let (name, body, scope) = match value {
            ast::ValueSyntax::Structured(name, body) => (name.clone(), Some(body), scope),
            ast::ValueSyntax::Expr(expr) => match self.stands_for(expr, scope, &[]) {
                Ok(name) => (name, None, scope),
                Err(span) => return self.wrong(field, span, "this is no function"),
            },
        };
        if Pointwise::named(&name.text).is_some_and(Pointwise::is_activation) {
            if let Some(body) = body {
                let message = format!("`{}` has no settings", name.text);
                return self.problems.fail(Diagnostic::new(Kind::UnknownField, body.span, message));
            }
            return Some(FieldValue::Word(name.text));
        }
        let found = self.items.feature(&name.text, "").or_else(|| define::words().iter().find(|w| w.slot == name.text));
        let Some(feature) = found.filter(|feature| feature.is_named_layer()).cloned() else {
            let own = self.items.features().filter(|f| f.is_named_layer()).map(|f| f.slot.to_string());
            let library = feature::slots().iter().flat_map(|s| &s.features).filter(|f| f.is_named_layer());
            let known: Vec<String> = own.chain(library.map(|f| f.slot.to_string())).collect();
            let hint = did_you_mean(&name.text, known.iter().map(String::as_str).chain(ACTIVATIONS));
            let is_statement = feature::slot(&name.text).is_some();
            let label = match () {
                () if is_statement => format!("`{}` is a statement and no function", name.text),
                () if hint.is_empty() => format!("there is no function `{}`", name.text),
                () => hint,
            };
            return self.wrong(field, name.span, &label);
        };
        let element = ast::BodyElement::Statement(ast::Statement {
            keyword: name.clone(),
            word: None,
            body: body.cloned(),
            span: value.span(),
        });
        let author = Author::File;
        let trees = expand::element(self.items, &element, scope, &author, self.scopes, self.problems);
        let block = self.block(trees.first()?, &feature);
        Some(FieldValue::Function(Arc::new(block)))
    }

    fn attention(&mut self, field: &StatementField, expr: &ast::ExprSyntax, scope: ScopeId) -> Option<FieldValue> {
        let is_mask = field.kind == FieldKind::Mask;
        let allowed = Allowed::of_pairs(field);
        if let Ok(name) = self.stands_for(expr, scope, allowed.words) {
            if allowed.words.contains(&name.text.as_str()) {
                return Some(FieldValue::Word(name.text));
            }
            if is_mask && name.text == "none" {
                let cure = match field.default {
                    Default::Absent => "leave it out",
                    _ => "write `all` to see every key",
                };
                return self.wrong(field, expr.span, cure);
            }
        }
        let mut resolver = Resolver::new(self.items.named(), self.scopes, self.problems, allowed);
        resolver.of_pairs(field, expr, scope).map(FieldValue::Expr)
    }

    fn depth(&mut self, field: &StatementField, expr: &ast::ExprSyntax, scope: ScopeId) -> Option<FieldValue> {
        let typed = self.resolve(expr, scope, DEPTH)?;
        match typed.expr {
            Expr::Int(v) => {
                self.in_range(field, v as f64, expr.span)?;
                Some(FieldValue::Int(v))
            }
            Expr::Given => Some(FieldValue::Expr(Expr::Given)),
            _ if typed.ty != ExpressionType::Int => {
                let message = format!("`{}` takes {}", field.name, field.kind.describe());
                let diagnostic = Diagnostic::new(Kind::WrongType, expr.span, message);
                self.problems.fail(diagnostic.label(format!("this is {}", typed.ty.describe())).help(typed.cure()))
            }
            other if other.holds_given() => self.wrong(field, expr.span, "`given` stands alone"),
            other if other.holds_draw() && !most(&other).is_finite() => {
                let message = "a drawn number of steps has no bound here";
                let help =
                    format!("write `{}: min(.., 64)`: memory and time are planned for the most steps", field.name);
                self.problems.fail(Diagnostic::new(Kind::OutOfRange, expr.span, message).help(help))
            }
            other => Some(FieldValue::Expr(other)),
        }
    }

    fn resolve(&mut self, expr: &ast::ExprSyntax, scope: ScopeId, allowed: Allowed) -> Option<Typed> {
        Resolver::new(self.items.named(), self.scopes, self.problems, allowed).expression(expr, scope)
    }

    fn wrong<T>(&mut self, field: &StatementField, span: Span, label: &str) -> Option<T> {
        let message = format!("`{}` takes {}", field.name, field.kind.describe());
        self.problems.fail(Diagnostic::new(Kind::WrongType, span, message).label(label))
    }

    fn in_range(&mut self, field: &StatementField, v: f64, span: Span) -> Option<()> {
        if field.bounds.hold(v) {
            return Some(());
        }
        let message = format!("`{}` must be {}", field.name, field.bounds.describe());
        self.problems.fail(Diagnostic::new(Kind::OutOfRange, span, message).label(format!("this is {v}")))
    }
}
