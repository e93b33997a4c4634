//! Operators and functions of single numbers on arrays, over all axes that they have together.

use std::sync::Arc;

use super::{Eval, NUMBERS, are, plural, streams};
use crate::define::atomic;
use crate::define::constant::{self, Constant};
use crate::define::item::{ArrayAxis, EquationArray, ExpressionValue};
use crate::diag::{Diagnostic, Kind, did_you_mean, list};
use crate::expr::BinaryOp;
use crate::ir::attribute::{self, Attrs};
use crate::ir::graph::Value;
use crate::ir::ops::Op;
use crate::ir::pointwise::{Pointwise, Scalar};
use crate::ir::types::{Dim, unprefixed};
use crate::source::Span;
use crate::syntax::ast::ExprSyntax;

impl Eval<'_, '_> {
    pub(super) fn binary(
        &mut self,
        op: BinaryOp,
        a: &ExprSyntax,
        b: &ExprSyntax,
        span: Span,
    ) -> Option<ExpressionValue> {
        // A bare word is compared with a setting of words.
        if let (BinaryOp::Eq | BinaryOp::Ne, Some((setting, other))) = (op, self.comparison(a, b)) {
            let ExpressionValue::Constant(Constant::Word(word, words)) = setting else { return None };
            let given = other.as_name().map(|name| name.text).filter(|name| words.contains(name));
            let Some(given) = given else {
                let choices = list(words.iter(), "or");
                let hint = other.as_name().map(|name| did_you_mean(&name.text, words.iter())).unwrap_or_default();
                let setting = if std::ptr::eq(other, a) { b } else { a }.as_name().map(|name| name.text);
                let message = format!("`{}` is {choices}", setting.unwrap_or_default());
                let label = if hint.is_empty() { "it is never equal to this".to_owned() } else { hint };
                return self.wrong(other.span, message, label);
            };
            return Some(ExpressionValue::Constant(Constant::Truth((word == given) == (op == BinaryOp::Eq))));
        }
        let (left, right) = (self.expr(a, None), self.expr(b, None));
        let (left, right) = (left?, right?);
        match (left, right) {
            (ExpressionValue::Constant(a), ExpressionValue::Constant(b)) => {
                self.folded(constant::binary(op, a, b), span)
            }
            (left, right) if matches!(op, BinaryOp::And | BinaryOp::Or) => {
                self.both(op, (left, a.span), (right, b.span), span)
            }
            (left, right) => {
                let symbol = format!("`{}`", op.symbol());
                let fits = (self.operand(&symbol, &left, a.span), self.operand(&symbol, &right, b.span));
                fits.0.and(fits.1)?;
                self.arithmetic(op, left, right, span)
            }
        }
    }

    /// Reports what can't be an operand of arithmetic, or of a function of single numbers.
    pub(super) fn operand(&mut self, of: &str, item: &ExpressionValue, span: Span) -> Option<()> {
        match item {
            ExpressionValue::Average(_) if ["`+`", "`-`", "`*`", "`/`"].contains(&of) => Some(()),
            ExpressionValue::Array(array) if array.truth => {
                let label = format!("this is {}", array.describe());
                let diagnostic = Diagnostic::new(Kind::WrongType, span, format!("{of} takes numbers")).label(label);
                let chain = matches!(of, "`<`" | "`<=`" | "`>`" | "`>=`");
                let help = if chain { "two comparisons are joined by `and`: `0 < x and x < 1`" } else { NUMBERS };
                self.report(diagnostic.help(help))
            }
            ExpressionValue::Constant(constant) if constant.number().is_none() => {
                self.array(item.clone(), span).map(|_| ())
            }
            ExpressionValue::Function(_)
            | ExpressionValue::Several(_)
            | ExpressionValue::Mask(_)
            | ExpressionValue::Bias(_)
            | ExpressionValue::Size(_)
            | ExpressionValue::Average(_) => self.array(item.clone(), span).map(|_| ()),
            _ => Some(()),
        }
    }

    /// The setting of words among two operands, and the other operand.
    pub(super) fn comparison<'x>(
        &self,
        a: &'x ExprSyntax,
        b: &'x ExprSyntax,
    ) -> Option<(ExpressionValue, &'x ExprSyntax)> {
        let of = |x: &ExprSyntax| {
            let name = x.as_name().filter(|name| !self.frame.names.contains_key(&name.text))?;
            let item = self.setting(&name.text)?;
            matches!(item, ExpressionValue::Constant(Constant::Word(..))).then_some(item)
        };
        of(a).map(|item| (item, b)).or_else(|| of(b).map(|item| (item, a)))
    }

    pub(in crate::define) fn arithmetic(
        &mut self,
        op: BinaryOp,
        a: ExpressionValue,
        b: ExpressionValue,
        span: Span,
    ) -> Option<ExpressionValue> {
        if matches!(a, ExpressionValue::Average(_)) || matches!(b, ExpressionValue::Average(_)) {
            return self.averages(op, (a, b), span);
        }
        let func = match op {
            BinaryOp::Lt => return self.less(a, b, span),
            BinaryOp::Gt => return self.less(b, a, span),
            // Neither of two numbers is less than the other where one of them is NaN, so these are true there.
            BinaryOp::Le | BinaryOp::Ge => {
                let (a, b) = if op == BinaryOp::Le { (b, a) } else { (a, b) };
                let less = self.less(a, b, span)?;
                let less = self.array(less, span)?;
                return self.opposite(less, span);
            }
            BinaryOp::Div if matches!(&b, ExpressionValue::Constant(c) if c.number() == Some(0.0)) => {
                return self.fail(Kind::OutOfRange, span, "a division by 0 has no value", "");
            }
            BinaryOp::Add => Pointwise::Add,
            BinaryOp::Sub => Pointwise::Sub,
            BinaryOp::Mul => Pointwise::Mul,
            BinaryOp::Div => Pointwise::Div,
            BinaryOp::Pow => return self.power(a, b, span),
            BinaryOp::Rem => return self.remainder(a, b, span),
            // Numbers are equal where neither is less than the other.
            BinaryOp::Eq | BinaryOp::Ne => {
                let (below, above) = (self.less(a.clone(), b.clone(), span)?, self.less(b, a, span)?);
                let either = self.both(BinaryOp::Or, (below, span), (above, span), span)?;
                let either = self.array(either, span)?;
                return match op {
                    BinaryOp::Eq => self.opposite(either, span),
                    _ => Some(ExpressionValue::Array(either)),
                };
            }
            BinaryOp::And | BinaryOp::Or => return self.both(op, (a, span), (b, span), span),
        };
        match (func, a, b) {
            // One op adds what is scaled, unit by unit or channel by channel.
            (Pointwise::Add, ExpressionValue::Array(q), ExpressionValue::Scaled(x, s))
            | (Pointwise::Add, ExpressionValue::Scaled(x, s), ExpressionValue::Array(q))
                if q.axes == x.axes && q.rows =>
            {
                let value = self.node(span, |l| l.one(Op::AddScaled, &[q.value, x.value, s.value], Attrs::new()))?;
                Some(ExpressionValue::Array(EquationArray { value, labels: q.labels || x.labels, ..q }))
            }
            (Pointwise::Add, ExpressionValue::Gained(x, gain), ExpressionValue::Array(bias))
            | (Pointwise::Add, ExpressionValue::Array(bias), ExpressionValue::Gained(x, gain))
                if !bias.rows && bias.axes == gain.axes =>
            {
                let operands = [x.value, gain.value, bias.value];
                let value = self.node(span, |l| l.one(Op::Affine, &operands, Attrs::new()))?;
                Some(ExpressionValue::Array(EquationArray { value, ..x }))
            }
            (Pointwise::Mul, a, b) => self.product(a, b, span),
            (func, a, b) => self.pointwise(func, vec![a, b], span),
        }
    }

    /// `a < b`
    pub(super) fn less(&mut self, a: ExpressionValue, b: ExpressionValue, span: Span) -> Option<ExpressionValue> {
        let item = self.pointwise(Pointwise::Less, vec![a, b], span)?;
        self.truth(item, span)
    }

    /// `a - b floor(a / b)`, which has the sign of b.
    fn remainder(&mut self, a: ExpressionValue, b: ExpressionValue, span: Span) -> Option<ExpressionValue> {
        let quotient = self.arithmetic(BinaryOp::Div, a.clone(), b.clone(), span)?;
        let whole = self.pointwise(Pointwise::Floor, vec![quotient], span)?;
        let product = self.arithmetic(BinaryOp::Mul, b, whole, span)?;
        self.arithmetic(BinaryOp::Sub, a, product, span)
    }

    /// What is true where a condition is not.
    pub(super) fn opposite(&mut self, x: EquationArray, span: Span) -> Option<ExpressionValue> {
        let numbers = vec![
            ExpressionValue::Constant(Constant::Float(1.0)),
            ExpressionValue::Array(EquationArray { truth: false, ..x }),
        ];
        let item = self.pointwise(Pointwise::Sub, numbers, span)?;
        self.truth(item, span)
    }

    /// Two conditions joined by `and` or `or`. A constant one is the result, or leaves the other.
    pub(super) fn both(
        &mut self,
        op: BinaryOp,
        a: (ExpressionValue, Span),
        b: (ExpressionValue, Span),
        span: Span,
    ) -> Option<ExpressionValue> {
        let (func, decides) = if op == BinaryOp::And { (Pointwise::Mul, false) } else { (Pointwise::Maximum, true) };
        let of = format!("`{}`", op.symbol());
        match (a, b) {
            ((ExpressionValue::Constant(Constant::Truth(v)), _), (other, at))
            | ((other, at), (ExpressionValue::Constant(Constant::Truth(v)), _)) => {
                let other = self.condition(other, &of, at)?;
                Some(if v == decides {
                    ExpressionValue::Constant(Constant::Truth(v))
                } else {
                    ExpressionValue::Array(other)
                })
            }
            ((a, at), (b, bt)) => {
                let (a, b) = (self.condition(a, &of, at), self.condition(b, &of, bt));
                self.joined(func, a?, b?, span)
            }
        }
    }

    pub(super) fn joined(
        &mut self,
        func: Pointwise,
        a: EquationArray,
        b: EquationArray,
        span: Span,
    ) -> Option<ExpressionValue> {
        let numbers = [a, b].map(|x| ExpressionValue::Array(EquationArray { truth: false, ..x }));
        let item = self.pointwise(func, numbers.into(), span)?;
        self.truth(item, span)
    }

    pub(super) fn truth(&mut self, item: ExpressionValue, span: Span) -> Option<ExpressionValue> {
        self.array(item, span).map(|array| ExpressionValue::Array(EquationArray { truth: true, ..array }))
    }

    /// The array of a condition.
    pub(in crate::define) fn condition(
        &mut self,
        item: ExpressionValue,
        of: &str,
        span: Span,
    ) -> Option<EquationArray> {
        let described = item.describe();
        match item {
            ExpressionValue::Array(array) if array.truth => Some(array),
            _ => {
                let message = format!("{of} needs a condition, as `x > 0`");
                self.wrong(span, message, format!("this is {described}"))
            }
        }
    }

    /// `a b`, where one of them may have a number per unit or per channel of the other.
    pub(super) fn product(&mut self, a: ExpressionValue, b: ExpressionValue, span: Span) -> Option<ExpressionValue> {
        if self.l.by_equations || matches!(a, ExpressionValue::Constant(_)) || matches!(b, ExpressionValue::Constant(_))
        {
            return self.pointwise(Pointwise::Mul, vec![a, b], span);
        }
        let (a, b) = (self.array(a, span)?, self.array(b, span)?);
        self.of_one_sequence(&[a.clone(), b.clone()], span)?;
        let (a, b) = match self.by_stream(a, b, span)? {
            (a, Some(b)) => (a, b),
            (product, None) => return Some(ExpressionValue::Array(product)),
        };
        let (a, b) = (self.of_rows(a, &b, span)?, b);
        let b = self.of_rows(b, &a, span)?;
        let scales = |s: &EquationArray, x: &EquationArray| {
            s.rows && x.rows && s.axes.len() < x.axes.len() && x.axes.starts_with(&s.axes) && s.channels().is_none()
        };
        let gains = |g: &EquationArray, x: &EquationArray| {
            !g.rows && x.rows && g.axes.len() == 1 && g.channels().is_some() && g.channels() == x.channels()
        };
        Some(match () {
            () if scales(&b, &a) => ExpressionValue::Scaled(EquationArray { labels: a.labels || b.labels, ..a }, b),
            () if scales(&a, &b) => ExpressionValue::Scaled(EquationArray { labels: a.labels || b.labels, ..b }, a),
            () if gains(&b, &a) => ExpressionValue::Gained(a, b),
            () if gains(&a, &b) => ExpressionValue::Gained(b, a),
            () => {
                return self.pointwise(
                    Pointwise::Mul,
                    vec![ExpressionValue::Array(a), ExpressionValue::Array(b)],
                    span,
                );
            }
        })
    }

    /// A single number that is learned, as one of every row of another factor; anything else as it is.
    fn of_rows(&mut self, s: EquationArray, x: &EquationArray, span: Span) -> Option<EquationArray> {
        if s.rows || !s.axes.is_empty() || !x.rows || x.axes.is_empty() {
            return Some(s);
        }
        let value = self.node(span, |l| l.one(Op::BroadcastBatch, &[s.value, x.value], Attrs::new()))?;
        Some(EquationArray { value, rows: true, ..s })
    }

    /// `a^b`; small whole powers are products, which are exact and have a gradient everywhere.
    pub(super) fn power(&mut self, a: ExpressionValue, b: ExpressionValue, span: Span) -> Option<ExpressionValue> {
        let ExpressionValue::Constant(Constant::Int(n @ 1..=8)) = b else {
            return self.pointwise(Pointwise::Pow, vec![a, b], span);
        };
        let base = ExpressionValue::Array(self.array(a, span)?);
        let mut out = base.clone();
        for _ in 1..n {
            out = self.pointwise(Pointwise::Mul, vec![out, base.clone()], span)?;
        }
        Some(out)
    }

    /// A function of single numbers, at every place of arrays that fit each other.
    pub(crate) fn pointwise(
        &mut self,
        func: Pointwise,
        items: Vec<ExpressionValue>,
        span: Span,
    ) -> Option<ExpressionValue> {
        let arity = func.def().arity;
        if items.len() != arity {
            let message = format!(
                "`{}` takes {arity} {}, and here {}",
                func.def().name,
                plural("value", arity),
                are(items.len())
            );
            return self.fail(Kind::WrongArity, span, message, "");
        }
        if let Some(feature) = atomic::named(func.def().name).filter(|_| self.l.by_equations) {
            let block = self.settings(feature, None, span)?;
            return self.enter(&Arc::new(block), items, span).map(|(out, _)| out);
        }
        let constants: Vec<Option<f64>> = items
            .iter()
            .map(|item| match item {
                ExpressionValue::Constant(constant) => constant.number(),
                _ => None,
            })
            .collect();
        let mut arrays = vec![];
        for (item, constant) in items.into_iter().zip(&constants) {
            if constant.is_none() {
                let array = self.array(item, span)?;
                self.operand(&format!("`{}`", func.def().name), &ExpressionValue::Array(array.clone()), span)?;
                arrays.push(array);
            }
        }
        let labels = arrays.iter().any(|array| array.labels);
        let arrays = self.together(arrays, span)?;
        let Some(first) = arrays.first().cloned() else {
            let message = format!("`{}` takes arrays, as `x`", func.def().name);
            return self.wrong(span, message, "these are constants");
        };
        let values: Vec<Value> = arrays.iter().map(|array| array.value).collect();
        let mut next = 0..;
        let args = constants.into_iter().map(|constant| match constant {
            Some(number) => Scalar::Number(number),
            None => Scalar::Operand(next.next().unwrap_or_default()),
        });
        let expr = Scalar::Call(func, args.collect());
        let value = self.node(span, |l| l.formula(&expr, &values))?;
        Some(ExpressionValue::Array(EquationArray { value, labels, ..first }))
    }

    /// The arrays over all of their axes: one without an axis is the same along it.
    pub(super) fn together(&mut self, arrays: Vec<EquationArray>, span: Span) -> Option<Vec<EquationArray>> {
        let Some(first) = arrays.first() else { return Some(arrays) };
        self.of_one_sequence(&arrays, span)?;
        if arrays.iter().all(|array| array.axes == first.axes && array.rows == first.rows) {
            return Some(arrays);
        }
        let arrays = self.learned_by_stream(arrays);
        let Some(units) = streams::units(&arrays) else { return self.differ(&arrays, span) };
        let mut channels: Option<Dim> = None;
        for array in &arrays {
            match (&channels, array.channels()) {
                (Some(known), Some(own)) if known != own => return self.differ(&arrays, span),
                (None, Some(own)) => channels = Some(own.clone()),
                _ => {}
            }
        }
        let rows = arrays.iter().any(|array| array.rows);
        let like = arrays.clone();
        arrays.into_iter().map(|array| self.spread(array, &units, channels.as_ref(), rows, &like, span)).collect()
    }

    /// Reports arrays whose positions are not the same: of a row, and of the row behind further ones.
    pub(crate) fn of_one_sequence(&mut self, arrays: &[EquationArray], span: Span) -> Option<()> {
        let placed = arrays.iter().filter(|array| array.rows && array.axes.first() == Some(&ArrayAxis::Positions));
        let mut all: Vec<&str> = placed.filter_map(|array| self.l.types().ty(array.value).ragged()).collect();
        all.sort_unstable();
        all.dedup();
        if all.len() < 2 || all.iter().all(|axis| unprefixed(axis).is_none()) {
            return Some(());
        }
        let mut types: Vec<String> = arrays.iter().map(|array| array.describe_in(self.l.types())).collect();
        types.sort_unstable();
        types.dedup();
        let message =
            format!("{} have not the same positions: `prefix` has put some before a row", types.join(" and "));
        let help = "`drop(x, n)` takes n positions away again";
        self.report(Diagnostic::new(Kind::WrongType, span, message).help(help))
    }

    pub(crate) fn differ<T>(&mut self, arrays: &[EquationArray], span: Span) -> Option<T> {
        let mut types: Vec<String> = vec![];
        let mut widths: Vec<String> = vec![];
        for array in arrays {
            let (ty, width) = (array.describe(), array.channels().map(Dim::to_string));
            if !types.contains(&ty) {
                types.push(ty);
            }
            widths.extend(width.filter(|width| !widths.contains(width)));
        }
        let diagnostic =
            Diagnostic::new(Kind::WrongType, span, format!("{} don't fit each other", types.join(" and ")));
        let help = match widths.len() > 1 {
            true => {
                format!("they have {} channels: `linear(..) {{ to: .. }}` changes their number", widths.join(" and "))
            }
            false => String::new(),
        };
        self.report(diagnostic.help(help))
    }

    /// An array over the axes `units` and `channels`, along which it is the same where it has them not.
    pub(super) fn spread(
        &mut self,
        array: EquationArray,
        units: &[ArrayAxis],
        channels: Option<&Dim>,
        rows: bool,
        like: &[EquationArray],
        span: Span,
    ) -> Option<EquationArray> {
        let mut x = array;
        let array_axes = x.axes.clone();
        if rows && !x.rows {
            let row = like.iter().find(|other| other.rows)?.value;
            x.value = self.node(span, |l| l.one(Op::BroadcastBatch, &[x.value, row], Attrs::new()))?;
            x.rows = true;
        }
        for axis in units.iter().filter(|axis| !array_axes.contains(axis)) {
            if let ArrayAxis::Streams(count) = axis {
                x = self.repeated(x, *count, span)?;
                continue;
            }
            let Some(along) = like.iter().find(|other| other.rows && other.axes.first() == Some(axis)) else {
                return self.differ(like, span);
            };
            x.value = self.node(span, |l| l.one(Op::BroadcastRows, &[x.value, along.value], Attrs::new()))?;
            x.axes.insert(0, axis.clone());
        }
        if let (Some(Dim::Fixed(width)), None, Some(_)) = (channels, x.channels(), x.streams()) {
            x.value = self.node(span, |l| {
                let one = l.one(Op::Unsqueeze, &[x.value], Attrs::new())?;
                l.one(Op::BroadcastChannels, &[one], Attrs::of(attribute::WIDTH, *width))
            })?;
            x.axes.push(ArrayAxis::Channels(Dim::Fixed(*width)));
        }
        if let (Some(dim), None) = (channels, x.channels()) {
            // Ones of the whole type, times the number of each unit.
            let wide = like.iter().find(|other| other.channels() == Some(dim))?.clone();
            let wide = self.spread(wide, units, channels, rows, like, span)?;
            let ones = self.node(span, |l| l.full(wide.value, 1.0, wide.rank()))?;
            x.value = self.node(span, |l| l.one(Op::MulUnit, &[ones, x.value], Attrs::new()))?;
            x.axes = wide.axes;
        }
        Some(x)
    }
}
