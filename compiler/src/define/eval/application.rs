//! Functions applied to values, and the names and shapes of the weights that this makes.

use std::sync::Arc;

use super::{Application, Eval, are, constants, plural, pointwise};
use crate::define::constant::{self, Constant};
use crate::define::item::{ArrayAxis, EquationArray, ExpressionValue, FunctionValue};
use crate::define::words;
use crate::diag::{Diagnostic, Kind};
use crate::feature::Lowering;
use crate::ir::attribute::Attrs;
use crate::ir::graph::FIXED;
use crate::ir::ops::Op;
use crate::ir::pointwise::Pointwise;
use crate::ir::types::Dim;
use crate::schema::AXIS;
use crate::source::Span;
use crate::syntax::ast::{self, ExprSyntax};

impl Eval<'_, '_> {
    /// `word(args) { settings }`
    pub(super) fn apply(
        &mut self,
        word: &ast::Name,
        args: &[ExprSyntax],
        body: Option<&ast::BodySyntax>,
        name: Option<&str>,
        span: Span,
    ) -> Option<ExpressionValue> {
        let index = self.index.take();
        let local = self.frame.names.get(&word.text).cloned().or_else(|| self.setting(&word.text));
        if let Some(ExpressionValue::Function(function)) = local {
            if let Some(body) = body {
                let message = format!("`{}` has its settings already", word.text);
                let help = format!(
                    "they stand where the function is made: `{0}: mlp {{ .. }}`, or `share {0} = mlp {{ .. }}`",
                    word.text
                );
                return self.report(Diagnostic::new(Kind::WrongType, body.span, message).help(help));
            }
            let places: Vec<Span> = args.iter().map(|arg| arg.span).collect();
            let args = self.args(args)?;
            return self.by_step(index, |this| this.applied(&function, args, &places, name, span));
        }
        let places: Vec<Span> = args.iter().map(|arg| arg.span).collect();
        if word.text == "when" {
            return self.when(args, span);
        }
        if word.text == "among" {
            return self.among(args, span);
        }
        if word.text == "whole" {
            return self.whole(args, span);
        }
        if word.text == "at" {
            return words::at(self, args, span);
        }
        if word.text == "last" && args.is_empty() && body.is_none() {
            return self.last(span);
        }
        if let Some(func) = pointwise(&word.text).filter(|func| func.def().arity == args.len() && body.is_none()) {
            let args = self.args(args)?;
            if let Some(result) = constants(&args).and_then(|known| constant::function(&word.text, &known)) {
                return self.folded(result, span);
            }
            let of = format!("`{}`", word.text);
            for (item, place) in args.iter().zip(&places) {
                self.operand(&of, item, *place)?;
            }
            return self.pointwise(func, args, span);
        }
        let Some(feature) = self.find(&word.text) else {
            let args = self.args(args)?;
            if let Some(func) = pointwise(&word.text) {
                return match body {
                    Some(body) => {
                        let message = format!("`{}` has no settings", word.text);
                        self.fail(Kind::UnknownField, body.span, message, "")
                    }
                    None => {
                        let (arity, given) = (func.def().arity, are(args.len()));
                        let message =
                            format!("`{}` takes {arity} {}, and here {given}", word.text, plural("value", arity));
                        self.fail(Kind::WrongArity, span, message, "")
                    }
                };
            }
            if let Some(result) = constants(&args).and_then(|c| constant::function(&word.text, &c)) {
                return self.folded(result, span);
            }
            if let Some(item) = self.frame.names.get(&word.text) {
                let label = format!("this is {}", item.describe());
                return self.wrong(
                    word.span,
                    format!("`{}` is a value, and only functions are applied", word.text),
                    label,
                );
            }
            return self.unknown(&word.text, word.span);
        };
        if word.text == "learn" {
            return self.wrong(span, "`learn` has its sizes in brackets: `learn[width]`", "");
        }
        let block = self.settings(&feature, body, span);
        let args = self.args(args);
        let (block, args) = (block?, args?);
        let function = FunctionValue::Block(Arc::new(block));
        self.by_step(index, |this| this.applied(&function, args, &places, name, span))
    }

    fn args(&mut self, args: &[ExprSyntax]) -> Option<Vec<ExpressionValue>> {
        let items: Vec<Option<ExpressionValue>> = args.iter().map(|arg| self.expr(arg, None)).collect();
        items.into_iter().collect()
    }

    /// A function applied to values.
    pub(super) fn applied(
        &mut self,
        function: &FunctionValue,
        args: Vec<ExpressionValue>,
        places: &[Span],
        name: Option<&str>,
        span: Span,
    ) -> Option<ExpressionValue> {
        let (block, name) = match function {
            FunctionValue::Pointwise(func) => return self.pointwise(*func, args, span),
            FunctionValue::Block(block) => (block, name),
            FunctionValue::Shared(block, place, name) => {
                // The weights are those of the place where it is shared, whoever applies it.
                let path = self.l.at_place(place);
                let taken = std::mem::take(&mut self.taken);
                let result = self.applied(&FunctionValue::Block(block.clone()), args, places, Some(name), span);
                self.taken = taken;
                self.l.back_to(path);
                return result;
            }
        };
        let takes = block.feature.values.len();
        if args.len() != takes && !words::takes(&block.feature, args.len()) {
            let title = block.title();
            let takes = words::several(&block.feature)
                .map_or_else(|| format!("{takes} {}", plural("value", takes)), str::to_owned);
            let message = format!("`{title}` takes {takes}, and here {}", are(args.len()));
            let names = block.feature.values.join(", ");
            let help = match (title.as_str(), &args[..]) {
                ("linear" | "number", [_, ExpressionValue::Array(_), ..]) => {
                    format!("`{title}(cat(a, b))` is a map of both")
                }
                ("linear", [_, ExpressionValue::Constant(Constant::Int(n))]) => {
                    format!("`linear(x) {{ to: {n} }}` sets the number of channels")
                }
                _ => format!("it is applied as `{title}({names})`"),
            };
            return self.report(Diagnostic::new(Kind::WrongArity, span, message).help(help));
        }
        // What is wrong inside the library belongs to the place in the user's text that applies it.
        let outer = if self.in_library() { self.outer } else { span };
        let outer = std::mem::replace(&mut self.outer, outer);
        let result = match (self.word(&block.feature), &block.feature.lower) {
            (Some(word), _) => {
                let call = Application { args, block: block.clone(), name, span, places: places.to_vec() };
                (word.0)(self, &call)
            }
            (None, Lowering::Definition(definition)) => match name.filter(|_| definition.kernel.is_none()) {
                // A binding is a place of its own.
                Some(name) => {
                    let place = self.fresh(name, "");
                    self.l.enter(&place);
                    let result = self.enter(block, args, span);
                    self.l.leave();
                    result
                }
                None => self.enter(block, args, span),
            }
            .map(|(out, _)| out),
            _ => self.wrong(span, format!("`{}` can't be applied to values", block.title()), ""),
        };
        self.outer = outer;
        result
    }

    /// `when(condition, a, b)`: of a constant condition, only what it chooses is worked out.
    fn when(&mut self, args: &[ExprSyntax], span: Span) -> Option<ExpressionValue> {
        let [condition, a, b] = args else {
            return self.fail(
                Kind::WrongArity,
                span,
                "`when` takes a condition and two values: `when(x > 0, x, 0)`",
                "",
            );
        };
        match self.expr(condition, None)? {
            ExpressionValue::Constant(Constant::Truth(true)) => self.expr(a, None),
            ExpressionValue::Constant(Constant::Truth(false)) => self.expr(b, None),
            ExpressionValue::Array(condition) if condition.truth => {
                let (a, b) = (self.expr(a, None), self.expr(b, None));
                let condition = ExpressionValue::Array(EquationArray { truth: false, ..condition });
                self.pointwise(Pointwise::Choose, vec![condition, a?, b?], span)
            }
            other => self.condition(other, "`when`", condition.span).map(ExpressionValue::Array),
        }
    }

    /// `learn[sizes]`: an array of weights, or `learn[]`, one number.
    pub(super) fn learn(
        &mut self,
        table: &str,
        sizes: &[ExprSyntax],
        body: Option<&ast::BodySyntax>,
        name: Option<&str>,
        span: Span,
    ) -> Option<ExpressionValue> {
        if !table.is_empty() {
            let label = format!("write `{table} = learn[..]`");
            return self.wrong(span, "weights of equations have the name of their binding", label);
        }
        // `learn[step, width]` has weights of its own for every step.
        let first = sizes.first();
        let is_step = first.is_some_and(|size| {
            let named = |name: &ast::Name| matches!(self.frame.names.get(&name.text), Some(ExpressionValue::Step(_)));
            let own = |name: &ast::Name| name.text == "step" && self.l.steps.is_some();
            size.as_name().is_some_and(|name| named(&name) || own(&name) && !self.frame.names.contains_key("step"))
        });
        if is_step {
            let step = self.index(&sizes[0])?;
            return self.by_step(Some(step), |this| this.learn(table, &sizes[1..], body, name, span));
        }
        let feature = words::learn().clone();
        let block = self.settings(&feature, body, span)?;
        let mut dims = vec![];
        for size in sizes {
            dims.push(self.size(size)?);
        }
        let axes: Vec<ArrayAxis> = dims
            .iter()
            .enumerate()
            .map(|(n, dim)| if n + 1 == dims.len() { ArrayAxis::Channels(dim.clone()) } else { ArrayAxis::Slots })
            .collect();
        if axes.len() > 3 {
            let message = format!("`learn` has at most three sizes, and here are {}", axes.len());
            return self.fail(Kind::WrongArity, span, message, "");
        }
        let name = self.fresh(name.unwrap_or("learn"), "");
        if block.word("init") == Some("uniform") {
            words::ends(self, &block, span)?;
        }
        let init = words::init(&block, dims.last().and_then(Dim::fixed).unwrap_or(1));
        let fixed = block.truth("trained") == Some(false);
        if let Some(group) = block.word("group").filter(|_| fixed) {
            let message = "weights that are not trained belong to no group of a rate";
            return self.fail(Kind::ExclusiveFields, span, message, format!("this is of `{group}`"));
        }
        let value = self.node(span, |l| {
            let value = match block.word("group") {
                Some(group) => l.param_of(group, &name, dims, init)?,
                None if fixed => l.param_of(FIXED, &name, dims, init)?,
                None => l.param(&name, dims, init)?,
            };
            if fixed { l.one(Op::Detach, &[value], Attrs::new()) } else { Ok(value) }
        })?;
        Some(ExpressionValue::Array(EquationArray { value, axes, rows: false, truth: false, labels: false }))
    }

    /// A number of channels.
    fn size(&mut self, expr: &ExprSyntax) -> Option<Dim> {
        match self.expr(expr, None)? {
            ExpressionValue::Constant(Constant::Int(n)) if AXIS.hold(n as f64) => Some(Dim::Fixed(n as usize)),
            ExpressionValue::Constant(Constant::Int(n)) => {
                let message = format!("a size must be {}", AXIS.describe());
                self.fail(Kind::OutOfRange, expr.span, message, format!("this is {n}"))
            }
            ExpressionValue::Size(dim) => Some(dim),
            other => self.wrong(expr.span, "a size is a whole number", format!("this is {}", other.describe())),
        }
    }

    /// A name for weights that no others have, by the binding or the word.
    pub(crate) fn fresh(&mut self, name: &str, inside: &str) -> String {
        let place = self.l.place();
        let key = |name: &str| format!("{place}.{name}{inside}");
        let mut next = self.taken.get(&key(name)).copied().unwrap_or(1);
        let found = loop {
            let found = if next == 1 { name.to_owned() } else { format!("{name}_{next}") };
            next += 1;
            if !self.taken.contains_key(&key(&found)) && !self.reserved.contains(&format!("{place}.{found}")) {
                break found;
            }
        };
        self.taken.entry(key(&found)).or_insert(2);
        self.taken.insert(key(name), next);
        found
    }
}
