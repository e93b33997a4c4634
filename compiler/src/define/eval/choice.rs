//! Choices: how many are taken, and what is computed for chosen positions alone.
//!
//! Inside `among(c, a, b)` every value of the row is there at the chosen positions only: a value from outside becomes a sequence that the
//! op `chunks` with `cut: chosen` gathers, where it is first read.

use super::{Eval, NUMBERS};
use crate::define::constant::Constant;
use crate::define::item::{ArrayAxis, EquationArray, ExpressionValue};
use crate::define::losses;
use crate::diag::{Diagnostic, Kind};
use crate::expr::{Env, Expr, ScalarValue, Var, eval};
use crate::ir::attribute::{self, Attrs, Chunking, StepBound};
use crate::ir::graph::{NewNode, RegionId, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::Pointwise;
use crate::ir::types::Attr;
use crate::ir::verify::uncounted;
use crate::resolve::{CHOICES, ExpressionType};
use crate::schema::StatementField;
use crate::source::Span;
use crate::spec::FieldValue;
use crate::syntax::ast::ExprSyntax;

/// A computation for chosen positions alone, while it is built.
#[derive(Clone, Debug)]
pub(crate) struct ChoiceRegion {
    region: RegionId,
    /// The axis that the choice is made of, and that of the chosen positions.
    over: String,
    axis: String,
    /// The sequences from outside, and what each is inside; the choice is the first.
    pub(crate) slices: Vec<(Value, Value)>,
}

impl Eval<'_, '_> {
    /// `among(condition, a, b)`: `a`, computed for the positions alone where the condition holds, and `b` at the others.
    pub(super) fn among(&mut self, args: &[ExprSyntax], span: Span) -> Option<ExpressionValue> {
        let [condition, a, b] = args else {
            let message = "`among` takes a condition and two values: `among(chosen, f(x), x)`";
            return self.fail(Kind::WrongArity, span, message, "");
        };
        let choice = match self.expr(condition, None)? {
            ExpressionValue::Constant(Constant::Truth(true)) => return self.expr(a, None),
            ExpressionValue::Constant(Constant::Truth(false)) => return self.expr(b, None),
            item => self.condition(item, "`among`", condition.span)?,
        };
        losses::without_labels(self, &choice, ("`among`", condition.span))?;
        if choice.axes != [ArrayAxis::Positions] || !choice.rows {
            let message = format!("`among` takes true or false for every position, not {}", choice.describe());
            let help = "`when(condition, a, b)` computes both values everywhere";
            return self.report(Diagnostic::new(Kind::WrongType, condition.span, message).help(help));
        }
        let inside = self.inside(&choice, a, span)?;
        let other = match self.expr(b, None)? {
            ExpressionValue::Constant(constant) if constant.number() == Some(0.0) => {
                return Some(ExpressionValue::Array(inside));
            }
            other => other,
        };
        self.operand("`among`", &other, b.span)?;
        let choice = ExpressionValue::Array(EquationArray { truth: false, ..choice });
        self.pointwise(Pointwise::Choose, vec![choice, ExpressionValue::Array(inside), other], span)
    }

    /// The value of an expression at chosen positions, and 0 at the others.
    fn inside(&mut self, choice: &EquationArray, a: &ExprSyntax, span: Span) -> Option<EquationArray> {
        let over = self.node(span, |l| l.ragged(choice.value))?;
        let axis = self.l.new_axis("chosen");
        let region = self.l.graph().add_region();
        let ty = self.l.with_axis(choice.value, &axis);
        let ones = self.l.graph().add_param(region, ty, "chosen");
        let own = ChoiceRegion { region, over: over.clone(), axis: axis.clone(), slices: vec![(choice.value, ones)] };
        let (names, shown) = (self.frame.names.clone(), self.l.shown.clone());
        let like = self.l.steps.as_mut().map(|steps| std::mem::replace(&mut steps.like, ones));
        self.l.chosen.push(own);
        let around = self.l.at_region(region);
        let result = self.expr(a, None).and_then(|item| {
            let value = self.at_chosen(item, ones, a.span)?;
            self.node(span, |l| l.emit(Op::Yield, &[value.value], Attrs::new()))?;
            Some(value)
        });
        self.l.at_region(around);
        let own = self.l.chosen.pop()?;
        if let (Some(steps), Some(like)) = (&mut self.l.steps, like) {
            steps.like = like;
        }
        (self.frame.names, self.l.shown) = (names, shown);
        let result = result?;
        if let Some(op) = uncounted(self.l.graph(), region, (&over, &axis)).map(|node| node.op) {
            let message = format!("`{op}` can't stand among chosen positions: it would count them one by one");
            let help = "an attention there has `position: rope`, `xpos` or `none`";
            return self.report(Diagnostic::new(Kind::WrongType, span, message).help(help));
        }
        let operands: Vec<Value> = own.slices.iter().map(|(outside, _)| *outside).collect();
        let types = vec![self.l.with_axis(result.value, &over)];
        let attrs = Attrs::of(attribute::CARRIED, 0)
            .with(attribute::CUT, Chunking::Chosen)
            .with(attribute::OVER, &over)
            .with(attribute::AXIS, &axis);
        let new = NewNode { op: Op::Chunks, operands, attrs, types, body: Some(region), label: String::new() };
        let value = self.node(span, |l| l.emit_loop(new))?[0];
        Some(EquationArray { value, ..result })
    }

    /// What is computed at chosen positions as an array that each of them has its own of.
    fn at_chosen(&mut self, item: ExpressionValue, ones: Value, span: Span) -> Option<EquationArray> {
        let like = EquationArray { axes: vec![ArrayAxis::Positions], ..EquationArray::of(self.l.graph(), ones) };
        if let ExpressionValue::Constant(constant) = &item
            && let Some(number) = constant.number()
        {
            let value = self.node(span, |l| l.full(ones, number, 2))?;
            return Some(EquationArray { value, ..like });
        }
        let array = self.array(item, span)?;
        if array.truth {
            let diagnostic = Diagnostic::new(Kind::WrongType, span, "`among` gives numbers");
            return self.report(diagnostic.label(format!("this is {}", array.describe())).help(NUMBERS));
        }
        let types = self.l.types();
        if array.rows && array.axes.first() == Some(&ArrayAxis::Positions) {
            if array.sequence(types) == like.sequence(types) {
                return Some(array);
            }
            let message =
                format!("`among` gives a value of the chosen positions, and this is {}", array.describe_in(types));
            let diagnostic = Diagnostic::new(Kind::WrongType, span, message).label("it has other positions");
            return self
                .report(diagnostic.help("`prefix` makes rows longer, and `drop` takes its positions away again"));
        }
        self.spread(array, &[ArrayAxis::Positions], None, true, &[like], span)
    }

    /// `whole(x)`: among chosen positions, a value of all positions of the row, as keys.
    pub(super) fn whole(&mut self, args: &[ExprSyntax], span: Span) -> Option<ExpressionValue> {
        let [x] = args else {
            return self.fail(Kind::WrongArity, span, "`whole` takes one value: `attention(x, whole(keys))`", "");
        };
        let levels = std::mem::take(&mut self.l.chosen);
        let before = self.l.in_whole;
        self.l.in_whole |= !levels.is_empty();
        let item = self.expr(x, None);
        (self.l.chosen, self.l.in_whole) = (levels, before);
        let array = match item? {
            item @ ExpressionValue::Whole(_) => return Some(item),
            item => self.array(item, x.span)?,
        };
        let Some(over) = self.l.chosen.last().map(|own| own.over.clone()) else {
            return Some(ExpressionValue::Array(array));
        };
        losses::without_labels(self, &array, ("`whole`", x.span))?;
        if self.l.graph().ty(array.value).ragged() != Some(over.as_str()) {
            let message = "`whole` takes what was worked out before positions were chosen";
            let label = format!("this is {} of chosen positions", array.describe());
            return self.wrong(x.span, message, label);
        }
        Some(ExpressionValue::Whole(array))
    }

    /// What a name stands for among chosen positions: of what has positions, those that are chosen.
    pub(super) fn here(&mut self, item: ExpressionValue) -> ExpressionValue {
        if self.l.chosen.is_empty() {
            return item;
        }
        match item {
            ExpressionValue::Array(x) => ExpressionValue::Array(self.chosen_of(x)),
            ExpressionValue::Scaled(x, s) => ExpressionValue::Scaled(self.chosen_of(x), self.chosen_of(s)),
            ExpressionValue::Gained(x, gain) => ExpressionValue::Gained(self.chosen_of(x), gain),
            ExpressionValue::Part(x, start, width) => ExpressionValue::Part(self.chosen_of(x), start, width),
            ExpressionValue::Position(x, at) => ExpressionValue::Position(self.chosen_of(x), at),
            ExpressionValue::Several(items) => {
                ExpressionValue::Several(items.into_iter().map(|item| self.here(item)).collect())
            }
            ExpressionValue::Step(mut step) => {
                if let Some((_, ones)) = self.l.chosen.last().and_then(|own| own.slices.first()) {
                    step.like = *ones;
                }
                ExpressionValue::Step(step)
            }
            other => other,
        }
    }

    fn chosen_of(&mut self, x: EquationArray) -> EquationArray {
        if !x.rows || x.axes.first() != Some(&ArrayAxis::Positions) {
            return x;
        }
        let mut value = x.value;
        let mut levels = std::mem::take(&mut self.l.chosen);
        for own in &mut levels {
            // What is inside already has the axis of the choice, or one that was chosen of it.
            if self.l.graph().ty(value).ragged() != Some(own.over.as_str()) {
                continue;
            }
            if let Some((_, slice)) = own.slices.iter().find(|(outside, _)| *outside == value) {
                value = *slice;
                continue;
            }
            let (ty, hint) = (self.l.with_axis(value, &own.axis), self.l.graph().hint(value).to_owned());
            let slice = self.l.graph().add_param(own.region, ty, &hint);
            own.slices.push((value, slice));
            value = slice;
        }
        self.l.chosen = levels;
        EquationArray { value, ..x }
    }

    /// Reports what belongs to whole rows where only chosen positions are.
    pub(in crate::define) fn whole_rows(&mut self, word: &str, span: Span) -> Option<()> {
        if self.l.chosen.is_empty() {
            return Some(());
        }
        let message = format!("`{word}` can't stand among chosen positions");
        let help = "it belongs to whole rows: `among(chosen, a, b)` gives a value that equations outside go on with";
        self.report(Diagnostic::new(Kind::MisplacedStatement, span, message).help(help))
    }

    /// A number of choices: a whole number, or an expression of `length` and `step`.
    pub(super) fn number_of_choices(&mut self, field: &StatementField, expr: &ExprSyntax) -> Option<FieldValue> {
        let typed = self.resolved(field, expr, CHOICES)?;
        let rule = typed.expr.clone();
        if let Expr::Int(n) = rule {
            if !field.bounds.hold(n as f64) {
                let message = format!("`{}` must be {}", field.name, field.bounds.describe());
                return self.fail(Kind::OutOfRange, expr.span, message, format!("this is {n}"));
            }
            return Some(FieldValue::Int(n));
        }
        let at = |length, step| eval(&rule, &Env { length, step, ..Env::default() });
        match at(7, 1) {
            Ok(ScalarValue::Int(_)) if typed.ty == ExpressionType::Int => Some(FieldValue::Expr(rule)),
            Ok(_) => {
                let message = format!("`{}` takes {}", field.name, field.kind.describe());
                let diagnostic = Diagnostic::new(Kind::WrongType, expr.span, message);
                let cure = if typed.cure().is_empty() { "`floor(length / 2)` rounds down" } else { typed.cure() };
                self.report(diagnostic.label(format!("this is {}", typed.ty.describe())).help(cure))
            }
            Err(why) => self.fail(Kind::OutOfRange, expr.span, format!("this has no value: {why}"), ""),
        }
    }

    /// The attribute of a number of choices, and the step that it reads.
    pub(in crate::define) fn choices(&mut self, rule: Option<&Expr>, count: usize) -> (Attrs, Option<Value>) {
        let step = rule.filter(|rule| rule.uses(Var::Step)).and_then(|_| Some(self.l.steps.as_ref()?.number().value));
        let rule = rule.map(Attr::from);
        (Attrs::of(attribute::OF, rule.as_ref().map_or(StepBound::Steps(count), StepBound::Rule)), step)
    }
}
