//! Masks and biases in equations: expressions of a query `i` and a key `j`.
//!
//! They mean what they mean in a statement. Besides `i`, `j`, `head`, `step`, `length` and the masks, biases and constants of the file
//! they may read the numbers, masks and biases that are known at their place.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Eval;
use crate::define::constant::Constant;
use crate::define::item::ExpressionValue;
use crate::define::names::read_names;
use crate::diag::{Diagnostic, Kind};
use crate::expr::{Expr, Var};
use crate::ir::types::Dim;
use crate::resolve::{BIAS, ExpressionType, MASK, NameBinding, NamedExpressions, Resolver, Scopes, Typed};
use crate::schema::{FieldKind, StatementField};
use crate::source::Span;
use crate::spec::FieldValue;
use crate::syntax::ast::ExprSyntax;

impl Eval<'_, '_> {
    /// The mask or bias of a setting; `None` if a problem was reported.
    pub(super) fn of_pairs(&mut self, field: &StatementField, expr: &ExprSyntax) -> Option<Expr> {
        let (mut scopes, mut scope) = (Scopes::default(), None);
        let mut read: BTreeMap<String, Span> = BTreeMap::new();
        read_names(expr, &mut |name| {
            read.entry(name.text.clone()).or_insert(name.span);
        });
        for (name, span) in read {
            if let Some(item) = self.of_name(&name, span) {
                let typed = self.in_pairs(field, &name, item, span)?;
                scope = scopes.bind(scope, &name, NameBinding::Resolved(Some(typed)));
            }
        }
        // The library has no files whose names it could read.
        let named = if self.in_library() { Arc::new(NamedExpressions::default()) } else { self.l.named.clone() };
        let allowed = if field.kind == FieldKind::Mask { MASK } else { BIAS };
        Resolver::new(&named, &mut scopes, &mut self.l.problems, allowed).of_pairs(field, expr, scope)
    }

    /// What a name stands for here; nothing where it is none of this place.
    fn of_name(&mut self, name: &str, span: Span) -> Option<ExpressionValue> {
        if let Some(item) = self.frame.names.get(name) {
            return Some(item.clone());
        }
        self.setting(name)
            .or_else(|| if name == Var::Step.name() || name == "width" { self.name(name, span) } else { None })
    }

    /// What a name of this place is in an expression of pairs.
    fn in_pairs(&mut self, field: &StatementField, name: &str, item: ExpressionValue, span: Span) -> Option<Typed> {
        let typed = |expr, ty| Some(Typed::of(expr, ty));
        match item {
            ExpressionValue::Constant(Constant::Int(v)) => typed(Expr::Int(v), ExpressionType::Int),
            ExpressionValue::Constant(Constant::Float(v)) => typed(Expr::Float(v), ExpressionType::Float),
            ExpressionValue::Constant(Constant::Truth(v)) => typed(Expr::Bool(v), ExpressionType::Bool),
            ExpressionValue::Size(Dim::Fixed(n)) => typed(Expr::Int(n as i64), ExpressionType::Int),
            ExpressionValue::Mask(FieldValue::Expr(mask)) => typed(mask, ExpressionType::Bool),
            ExpressionValue::Mask(FieldValue::Word(word)) => {
                let mask = if word == "past" { Expr::past() } else { Expr::Bool(true) };
                typed(mask, ExpressionType::Bool)
            }
            ExpressionValue::Bias(FieldValue::Expr(bias)) => typed(bias, ExpressionType::Float),
            ExpressionValue::Bias(FieldValue::Word(_)) => typed(Expr::Float(0.0), ExpressionType::Float),
            ExpressionValue::Step(step) => {
                let own = self.l.steps.as_ref().is_some_and(|steps| steps.number().value == step.value);
                match own && step.before == Some(0) {
                    true => typed(Expr::Var(Var::Step), ExpressionType::Int),
                    false => {
                        let message = format!("`{name}` has no number in `{}`", field.name);
                        let diagnostic = Diagnostic::new(Kind::WrongType, span, message);
                        let (label, help) = match own {
                            true => ("gradients go through the last steps alone", "write `grad: all`"),
                            false => ("this is the step of another loop", ""),
                        };
                        self.report(diagnostic.label(label).help(help))
                    }
                }
            }
            other => {
                let message = format!("`{name}` is {}, and `{}` reads numbers alone", other.describe(), field.name);
                let diagnostic = Diagnostic::new(Kind::WrongType, span, message);
                let hides = Var::ALL.iter().any(|var| var.name() == name);
                self.report(diagnostic.help(match hides {
                    true => format!("an equation binds `{name}` here: give that value another name"),
                    false => "it may read `i`, `j`, `head`, `step`, `length`, numbers, and settings".to_owned(),
                }))
            }
        }
    }
}
