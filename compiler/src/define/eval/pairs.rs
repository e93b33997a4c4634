//! Masks, biases and scores in equations: expressions of a query `i` and a key `j`.
//!
//! They mean what they mean in a statement. Besides `i`, `j`, `head`, `step`, `length` and the masks, biases and constants of the file
//! they may read the numbers, masks and biases that are known at their place, and values of positions: `c[i]` and `c[j, head]`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Eval;
use crate::define::constant::Constant;
use crate::define::item::{ArrayAxis, EquationArray, ExpressionValue};
use crate::define::losses;
use crate::define::names::read_names;
use crate::diag::{Diagnostic, Kind, Problems};
use crate::expr::{Env, Expr, ReadFrom, ScalarValue, Uses, Var, eval, tables};
use crate::ir::types::Dim;
use crate::resolve::{
    Allowed, ExpressionType, NameBinding, NamedExpressions, PositionValue, Resolver, ScopeId, Scopes, Typed,
};
use crate::schema::StatementField;
use crate::source::Span;
use crate::spec::{Block, FieldValue};
use crate::syntax::ast::ExprSyntax;

impl Eval<'_, '_> {
    /// The mask or bias of a setting; `None` if a problem was reported.
    pub(super) fn of_pairs(&mut self, field: &StatementField, expr: &ExprSyntax) -> Option<Expr> {
        let allowed = Allowed::of_pairs(field);
        self.with_names(field, expr, allowed, |resolver, scope| resolver.of_pairs(field, expr, scope))
    }

    /// An expression of a setting; `None` if a problem was reported.
    pub(super) fn resolved(&mut self, field: &StatementField, expr: &ExprSyntax, allowed: Allowed) -> Option<Typed> {
        self.with_names(field, expr, allowed, |resolver, scope| resolver.expression(expr, scope))
    }

    /// Works an expression out with the names of this place.
    fn with_names<R>(
        &mut self,
        field: &StatementField,
        expr: &ExprSyntax,
        allowed: Allowed,
        work: impl FnOnce(&mut Resolver<'_>, ScopeId) -> Option<R>,
    ) -> Option<R> {
        let (mut scopes, mut scope) = (Scopes::default(), None);
        let mut read: BTreeMap<String, Span> = BTreeMap::new();
        read_names(expr, &mut |name| {
            read.entry(name.text.clone()).or_insert(name.span);
        });
        for (name, span) in read {
            if let Some(item) = self.of_name(&name, span) {
                let bound = self.in_pairs((field, allowed), &name, item, span)?;
                scope = scopes.bind(scope, &name, bound);
            }
        }
        // The library has no files whose names it could read.
        let named = if self.in_library() { Arc::new(NamedExpressions::default()) } else { self.l.named.clone() };
        let mut problems = Problems::default();
        let out = work(&mut Resolver::new(&named, &mut scopes, &mut problems, allowed), scope);
        for diagnostic in problems.iter().cloned() {
            let _: Option<()> = self.report(diagnostic);
        }
        out
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
    fn in_pairs(
        &mut self,
        (field, allowed): (&StatementField, Allowed),
        name: &str,
        item: ExpressionValue,
        span: Span,
    ) -> Option<NameBinding> {
        let typed = |expr, ty| Some(NameBinding::Resolved(Some(Typed::of(expr, ty))));
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
            item if !allowed.reads() => {
                let message = format!("`{}` takes {}", field.name, field.kind.describe());
                self.wrong(span, message, format!("this is {}", item.describe()))
            }
            ExpressionValue::Array(_)
            | ExpressionValue::Scaled(..)
            | ExpressionValue::Gained(..)
            | ExpressionValue::Part(..) => {
                let item = self.here(item);
                let array = self.array(item, span)?;
                self.readable(field, name, array, span).map(NameBinding::Value)
            }
            other => self.unreadable(field, name, &other.describe(), span),
        }
    }

    /// A value of positions, which `name[i]` and `name[j]` read.
    fn readable(
        &mut self,
        field: &StatementField,
        name: &str,
        array: EquationArray,
        span: Span,
    ) -> Option<PositionValue> {
        losses::without_labels(self, &array, (&format!("`{}`", field.name), span))?;
        let channels = match &array.axes[..] {
            [ArrayAxis::Positions] => None,
            [ArrayAxis::Positions, ArrayAxis::Channels(Dim::Fixed(n))] => Some(*n),
            _ => return self.unreadable(field, name, &array.describe(), span),
        };
        if !array.rows {
            return self.unreadable(field, name, &array.describe(), span);
        }
        Some(PositionValue { name: self.l.readable(name, array.value), channels, truth: array.truth })
    }

    fn unreadable<T>(&mut self, field: &StatementField, name: &str, what: &str, span: Span) -> Option<T> {
        let message = format!("`{name}` is {what}, which `{}` can't read", field.name);
        let diagnostic = Diagnostic::new(Kind::WrongType, span, message);
        let hides = Var::ALL.iter().any(|var| var.name() == name);
        self.report(diagnostic.help(match hides {
            true => format!("an equation binds `{name}` here: give that value another name"),
            false => "it reads `i`, `j`, `head`, `step`, `length`, numbers, settings, and numbers or channels of the positions".to_owned(),
        }))
    }

    /// Reports a value that a mask, a bias, a score or a `stop` reads where queries or keys are of another sequence.
    pub(in crate::define) fn reads_fit(
        &mut self,
        block: &Block,
        [queries, keys]: [&EquationArray; 2],
        span: Span,
    ) -> Option<()> {
        for field in ["mask", "bias", "score", "stop"] {
            let Some(rule) = block.expr(field) else { continue };
            let Uses { values, uses, .. } = tables(rule);
            for (from, indices) in uses {
                let (ReadFrom::Value(n), Some(at)) = (from, indices.first()) else { continue };
                let name = values[n];
                let (of, who) = if *at == Expr::Var(Var::I) { (queries, "query") } else { (keys, "key") };
                let value = self.l.value_read(name).map(|value| self.l.along(value, of.value));
                let channels = value.and_then(|value| self.l.types().ty(value).dims().get(2)?.fixed());
                if let (Some(channel), Some(channels)) = (indices.get(1), channels) {
                    self.channels_fit(name, (at, channel), channels, block.int("heads").unwrap_or(1), (field, span))?;
                }
                let sequence = |value| self.l.types().ty(value).dims().get(..2).map(<[Dim]>::to_vec);
                if value.is_some_and(|value| sequence(value) == sequence(of.value)) {
                    continue;
                }
                let message = format!("`{name}[{at}]` has no position of the {who}: both are of different sequences");
                return self.fail(Kind::WrongType, span, message, format!("`{field}` reads it here"));
            }
        }
        Some(())
    }

    /// Reports a channel that a head reads and that is not there.
    fn channels_fit(
        &mut self,
        name: &str,
        (at, channel): (&Expr, &Expr),
        channels: usize,
        heads: usize,
        (field, span): (&str, Span),
    ) -> Option<()> {
        for head in 0..heads {
            let found = eval(channel, &Env { head: head as i64, ..Env::default() });
            if matches!(found, Ok(ScalarValue::Int(n)) if (0..channels as i64).contains(&n)) {
                continue;
            }
            let read = found.map_or_else(|_| "none".to_owned(), |n| n.to_string());
            let message =
                format!("`{name}[{at}, {channel}]` is channel {read} for head {head}, and `{name}` has {channels}");
            let diagnostic = Diagnostic::new(Kind::OutOfRange, span, message).label(format!("`{field}` reads it here"));
            return self.report(diagnostic.help("channels and heads count from 0"));
        }
        Some(())
    }
}
