//! Choices, and functions that are made of others.

use super::{ExpressionType, Resolver, ScopeId, Typed, real, wrong_arity};
use crate::diag::{Diagnostic, Kind};
use crate::expr::{DERIVED, Expr, Func, either, simplify};
use crate::source::Span;
use crate::syntax::ast::ExprSyntax;

impl Resolver<'_> {
    /// `when(condition, a, b)` of two numbers, or of two conditions.
    pub(super) fn choice(&mut self, args: &[ExprSyntax], span: Span, scope: ScopeId) -> Option<Typed> {
        let [c, a, b] = args else {
            return self.problems.fail(wrong_arity("when", 3, args.len(), span, None));
        };
        let found = [c, a, b].map(|arg| self.resolve(arg, scope));
        let [Some(condition), Some(first), Some(second)] = found else { return None };
        self.condition(&condition, c.span, "`when`")?;
        if first.ty.is_number() != second.ty.is_number() {
            let message = "`when` chooses one of two numbers, or one of two conditions";
            let label = format!("this is {}, and the other one {}", second.ty.describe(), first.ty.describe());
            return self.problems.fail(Diagnostic::new(Kind::WrongType, b.span, message).label(label));
        }
        let ty = if first.ty == second.ty { first.ty } else { ExpressionType::Float };
        if let Expr::Bool(holds) = condition.expr {
            let chosen = if holds { first } else { second };
            let expr = if chosen.ty == ty { chosen.expr } else { real(chosen.expr) };
            return Some(Typed { expr, ty, ..chosen });
        }
        // A choice of conditions has its own condition twice.
        let condition = match ty {
            ExpressionType::Bool if condition.expr.holds_draw() => {
                let message =
                    "a choice of conditions reads its own one twice, and a draw gives another number each time";
                let diagnostic = Diagnostic::new(Kind::WrongType, c.span, message);
                return self.problems.fail(diagnostic.label("here a number is drawn"));
            }
            ExpressionType::Bool => self.with_named_tables(condition),
            _ => condition,
        };
        let typed = self.join(vec![condition, first, second], ty, span, |parts| {
            let [c, a, b] = <[Expr; 3]>::try_from(parts).expect("three operands were given");
            match ty {
                ExpressionType::Bool => either(&c, a, b),
                _ => Expr::Call(Func::When, vec![c, a, b]),
            }
        })?;
        Some(typed.remeasured())
    }

    /// A function that is made of others; `None` where there is none of this name, and what it gives, if nothing was reported.
    pub(super) fn derived(
        &mut self,
        name: &str,
        args: &[ExprSyntax],
        span: Span,
        scope: ScopeId,
    ) -> Option<Option<Typed>> {
        let function = DERIVED.iter().find(|function| function.name == name)?;
        if args.len() != function.arity {
            return Some(self.problems.fail(wrong_arity(name, function.arity, args.len(), span, None)));
        }
        let mut operands = vec![];
        for arg in args {
            let operand = self.resolve(arg, scope);
            operands.extend(operand.filter(|typed| self.number(typed, arg.span, &format!("`{name}`")).is_some()));
        }
        if operands.len() < args.len() {
            return Some(None);
        }
        if let Some(n) = operands.iter().position(|typed| function.repeats && typed.expr.holds_draw()) {
            let message = format!("`{name}` reads its number more than once, and a draw gives another one each time");
            let diagnostic = Diagnostic::new(Kind::WrongType, args[n].span, message);
            return Some(self.problems.fail(diagnostic.label("this is drawn")));
        }
        let operands: Vec<Typed> = operands.into_iter().map(|typed| self.with_named_tables(typed)).collect();
        let whole = function.whole && operands.iter().all(|typed| typed.ty == ExpressionType::Int);
        let ty = if whole { ExpressionType::Int } else { ExpressionType::Float };
        let typed = self.join(operands, ty, span, |parts| match parts.iter().all(Expr::is_number) {
            true => simplify((function.make)(&parts)),
            false => (function.make)(&parts),
        });
        Some(typed.map(Typed::remeasured))
    }
}
