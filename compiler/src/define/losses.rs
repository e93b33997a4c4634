//! The words of losses: what the answers of the task say about a value.
//!
//! A value with labels in it ([`EquationArray::labels`]) goes into losses and nothing else: no word but those listed here takes it, no
//! state, no condition and no result of a definition may be one. So no answer depends on a label.

use super::eval::{Application, Eval};
use super::item::{ArrayAxis, EquationArray, ExpressionValue};
use super::words::{arg, row};
use crate::diag::{Diagnostic, Kind};
use crate::expr::BinaryOp;
use crate::feature::Feature;
use crate::ir::attribute::{self, Attrs, Probabilities, Reduction};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::{Pointwise, Scalar};
use crate::ir::types::{BATCH, Dim, Elem, LENGTH, PAIRS, Type};
use crate::lower::{self, Loss, Lower, read};
use crate::schema::{Objective, optional_word};
use crate::source::Span;
use crate::syntax::ast::ExprSyntax;

/// The words that take values with labels in them.
const TAKE_LABELS: [&str; 7] = ["average", "mean", "sum", "max", "stop", "zeros", "ones"];

/// The rows of the table of words.
pub(super) fn rows() -> Vec<Feature> {
    vec![
        row(
            "answer",
            &["x"],
            "The loss of the answers that the model's readout and head give from states, or its head from one vector of every row: a number per row, or per token with `readout each`; 0 for tokens without a label. It goes into losses only.",
            answer,
            vec![optional_word(
                "probabilities",
                &["softmax", "stablemax"],
                "how the head's numbers become probabilities: `softmax` (the default), or `stablemax` (Prieto et al. 2025, arXiv:2501.04697)",
            )],
        ),
        row(
            "right",
            &["x"],
            "1 where the answer that the model gives from states, or from one vector of every row, is the label, else 0; 1 for tokens without a label. It goes into losses only.",
            right,
            vec![optional_word(
                "per",
                &["answer", "row"],
                "`row`: 1 where all answers of the row are right, a number per row also with `readout each`; left out, a number per answer",
            )],
        ),
        row(
            "probabilities",
            &["x"],
            "What the model's readout and head give from states, or its head from one vector of every row, as probabilities: of every class, or of every label where several may hold; per row, or per token with `readout each`.",
            probabilities,
            vec![],
        ),
        row(
            "average",
            &["x"],
            "The mean over the answers of the batch, for `loss`: of a number per row over the rows, of one per token over the tokens with a label.",
            average,
            vec![],
        ),
    ]
}

/// Reports a value with labels in it where there may be none.
pub(super) fn without_labels(e: &mut Eval<'_, '_>, x: &EquationArray, (into, span): (&str, Span)) -> Option<()> {
    if !x.labels {
        return Some(());
    }
    let message = format!("a loss cannot go into {into}: nothing of the labels may reach the answers");
    let help = "what comes of `answer(..)` and `right(..)` may be weighted, averaged and paid by `loss`";
    e.report(Diagnostic::new(Kind::LabelsLeak, span, message).label("this depends on the labels").help(help))
}

/// Reports a value with labels in it as the argument of a word that takes none.
pub(super) fn takes(e: &mut Eval<'_, '_>, x: &EquationArray, c: &Application<'_>, n: usize) -> Option<()> {
    if TAKE_LABELS.contains(&&*c.block.slot) {
        return Some(());
    }
    without_labels(e, x, (&format!("`{}`", c.block.slot), c.places[n]))
}

/// The numbers of the head for a value, and the labels.
fn answers(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<(EquationArray, Value, Value)> {
    let (x, logits) = read_out(e, c)?;
    let labels = e.node(c.span, |l| labels(l, logits))?;
    Some((x, logits, labels))
}

/// The numbers of the head for a value, and what has one of them each.
fn read_out(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<(EquationArray, Value)> {
    e.pays_whole_rows(&c.block.slot, c.span)?;
    if e.l.binding().objective == Objective::Pair {
        let message = format!("`{}` says something of one row, and this task asks about pairs of them", c.block.slot);
        return e.fail(Kind::ObjectiveMismatch, c.span, message, "");
    }
    let x = arg(e, c, 0)?;
    let each = e.l.each;
    if each && x.sequence(e.l.types()).is_some_and(|axis| axis != LENGTH) {
        let message =
            format!("`{}` takes the states of the tokens, and this is {}", c.block.slot, x.describe_in(e.l.types()));
        let help = "tokens alone are answered: `drop(x, n)` takes away the n positions before them";
        return e.report(Diagnostic::new(Kind::WrongType, c.places[0], message).help(help));
    }
    let reads = e.l.ending.as_ref().is_none_or(|(readout, _)| readout.variant != "root");
    let (states, vector) = match x.axes[..] {
        [ArrayAxis::Positions, ArrayAxis::Channels(_)] => (reads, false),
        [ArrayAxis::Channels(_)] => (false, !each),
        _ => (false, false),
    };
    if !(states || vector) || !x.rows {
        let wanted = match (each, reads) {
            (true, _) => "states",
            (false, true) => "states, or one vector of every row",
            (false, false) => "one vector of every row, as `readout root` does",
        };
        let message = format!("`{}` takes {wanted}, and this is {}", c.block.slot, x.describe());
        return e.fail(Kind::WrongType, c.places[0], message, "");
    }
    let logits = e.node(c.span, |l| logits(l, x.value, states))?;
    let axes = if states && each { vec![ArrayAxis::Positions] } else { vec![] };
    Some((EquationArray { axes, ..x }, logits))
}

fn probabilities(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let (objective, outputs) = (e.l.binding().objective, e.l.binding().outputs());
    if objective == Objective::Number {
        let message = "`probabilities` are those of classes, and this task asks for a number";
        return e.fail(Kind::ObjectiveMismatch, c.span, message, "");
    }
    let (x, logits) = read_out(e, c)?;
    let value = e.node(c.span, |l| match objective {
        Objective::Several => l.map(Pointwise::Sigmoid, &[logits]),
        // One number stands for two classes.
        _ if outputs == Some(1) => {
            let second = l.map(Pointwise::Sigmoid, &[logits])?;
            let negative = l.map(Pointwise::Neg, &[logits])?;
            let first = l.map(Pointwise::Sigmoid, &[negative])?;
            l.one(Op::Concat, &[first, second], Attrs::new())
        }
        _ => l.one(Op::Softmax, &[logits], Attrs::new()),
    })?;
    let classes = e.node(c.span, |l| l.last(value))?;
    let axes = x.axes.into_iter().chain([ArrayAxis::Channels(classes)]).collect();
    Some(ExpressionValue::Array(EquationArray { value, axes, rows: true, truth: false, labels: false }))
}

/// What the model's readout and head make of states, or its head of a vector.
fn logits(l: &mut Lower<'_>, x: Value, states: bool) -> Result<Value, InvalidNode> {
    let Some((readout, head)) = l.ending.clone() else {
        return Err(InvalidNode("there is no head here".to_owned()));
    };
    let path = l.at_place("");
    // The head of the model is that of all steps.
    let by_step = l.by_step.take();
    let read = if states { l.scoped("readout", |l| read(l, &readout, x)) } else { Ok(x) };
    let logits = read.and_then(|read| lower::answer(l, &head, read));
    l.by_step = by_step;
    l.back_to(path);
    logits
}

/// The input of the labels.
fn labels(l: &mut Lower<'_>, logits: Value) -> Result<Value, InvalidNode> {
    let index = |axes: &[&str]| Type::Tensor(Elem::Index, axes.iter().map(|axis| Dim::sym(axis)).collect());
    let ty = match l.binding().objective {
        _ if l.each => index(&[BATCH, LENGTH]),
        Objective::Several => Type::Tensor(Elem::Index, l.graph().ty(logits).dims().to_vec()),
        Objective::Number => l.graph().ty(logits).clone(),
        Objective::Pair => index(&[PAIRS]),
        Objective::Classify | Objective::Each => index(&[BATCH]),
    };
    l.input("labels", ty)
}

/// 1 for tokens that have a label, else 0.
fn weights(l: &mut Lower<'_>) -> Result<Value, InvalidNode> {
    l.input("weights", Type::real([BATCH, LENGTH].map(Dim::sym)))
}

/// `x` where a token has a label, else `other`.
fn where_labelled(l: &mut Lower<'_>, x: Value, other: f64) -> Result<Value, InvalidNode> {
    if !l.each {
        return Ok(x);
    }
    let weights = weights(l)?;
    let labelled = Scalar::Call(Pointwise::Less, vec![Scalar::Number(0.0), Scalar::Operand(1)]);
    let chosen = Scalar::Call(Pointwise::Choose, vec![labelled, Scalar::Operand(0), Scalar::Number(other)]);
    l.formula(&chosen, &[x, weights])
}

fn answer(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let (x, logits, labels) = answers(e, c)?;
    let probabilities = c.block.word("probabilities").filter(|word| *word == "stablemax");
    let probabilities = probabilities.map(|_| Probabilities::Stablemax);
    let (objective, outputs) = (e.l.binding().objective, e.l.binding().outputs());
    if probabilities.is_some() && (outputs == Some(1) || matches!(objective, Objective::Number | Objective::Several)) {
        let message = "`stablemax` makes probabilities of several classes, and here is one number per answer";
        return e.fail(Kind::ObjectiveMismatch, c.span, message, "");
    }
    if probabilities.is_some() && e.l.label_smoothing > 0.0 {
        let message = "`label_smoothing` is of `softmax`, and these probabilities are `stablemax`";
        return e.fail(Kind::ObjectiveMismatch, c.span, message, "");
    }
    let value = e.node(c.span, |l| {
        let loss = of_answers(l, logits, labels, probabilities)?;
        where_labelled(l, loss, 0.0)
    })?;
    Some(ExpressionValue::Array(EquationArray { value, axes: x.axes, rows: true, truth: false, labels: true }))
}

/// The loss of every row, pair or token from the outputs of the head and the labels: the cross entropy of its class, the mean over its
/// labels, or the squared error of its number. With label smoothing `s` the target has the probability `1 - s + s / classes` for the
/// label, and `s / classes` for every other class (Szegedy et al. 2016, arXiv:1512.00567, Section 7).
fn of_answers(
    l: &mut Lower<'_>,
    logits: Value,
    labels: Value,
    probabilities: Option<Probabilities>,
) -> Result<Value, InvalidNode> {
    let loss = match l.binding().objective {
        Objective::Number => {
            let error = l.map(Pointwise::Sub, &[logits, labels])?;
            let square = l.map(Pointwise::Mul, &[error, error])?;
            return l.one(Op::Squeeze, &[square], Attrs::new());
        }
        Objective::Several => {
            let each = l.one(Op::CrossEntropyEach, &[logits, labels], Attrs::new())?;
            reduced(l, each, Reduction::Mean)?
        }
        _ if l.binding().outputs() == Some(1) => l.one(Op::CrossEntropyEach, &[logits, labels], Attrs::new())?,
        _ => {
            let attrs = Attrs::new().with_some(attribute::PROBABILITIES, probabilities);
            l.one(Op::CrossEntropyEach, &[logits, labels], attrs)?
        }
    };
    let share = l.label_smoothing;
    if share == 0.0 {
        return Ok(loss);
    }
    let even = of_even_targets(l, logits)?;
    let part =
        |share: f64, operand| Scalar::call(Pointwise::Mul, vec![Scalar::Number(share), Scalar::Operand(operand)]);
    l.formula(&Scalar::call(Pointwise::Add, vec![part(1.0 - share, 0), part(share, 1)]), &[loss, even])
}

/// The loss of targets that give all classes, or both values of every label, the same probability: the mean of `-log p`.
fn of_even_targets(l: &mut Lower<'_>, logits: Value) -> Result<Value, InvalidNode> {
    if l.binding().objective == Objective::Several || l.binding().outputs() == Some(1) {
        let z = || Scalar::Operand(0);
        let sides = [z(), Scalar::call(Pointwise::Neg, vec![z()])].map(|z| Scalar::call(Pointwise::Softplus, vec![z]));
        let both = Scalar::call(Pointwise::Add, sides.to_vec());
        let each = l.formula(&Scalar::call(Pointwise::Mul, vec![Scalar::Number(0.5), both]), &[logits])?;
        return reduced(l, each, Reduction::Mean);
    }
    // `-log p` is the same for logits that are all moved, so the largest one has no gradient here.
    let fixed = l.one(Op::Detach, &[logits], Attrs::new())?;
    let largest = reduced(l, fixed, Reduction::Max)?;
    let (ones, down) = (l.full(logits, 1.0, l.rank(logits))?, l.map(Pointwise::Neg, &[largest])?);
    let moved = l.one(Op::AddScaled, &[logits, ones, down], Attrs::new())?;
    let exps = l.map(Pointwise::Exp, &[moved])?;
    let (sum, mean) = (reduced(l, exps, Reduction::Sum)?, reduced(l, moved, Reduction::Mean)?);
    let log = Scalar::call(Pointwise::Log, vec![Scalar::Operand(0)]);
    l.formula(&Scalar::call(Pointwise::Sub, vec![log, Scalar::Operand(1)]), &[sum, mean])
}

/// One number for the channels of every unit.
fn reduced(l: &mut Lower<'_>, x: Value, by: Reduction) -> Result<Value, InvalidNode> {
    let one = l.one(Op::Reduce, &[x], Attrs::of(attribute::BY, by))?;
    l.one(Op::Squeeze, &[one], Attrs::new())
}

/// The loss of every row, pair or token of the whole model, 0 for tokens without a label.
pub(crate) fn of_model(l: &mut Lower<'_>, logits: Value) -> Result<Value, InvalidNode> {
    let labels = labels(l, logits)?;
    let loss = of_answers(l, logits, labels, None)?;
    where_labelled(l, loss, 0.0)
}

fn right(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    if let Objective::Number | Objective::Several = e.l.binding().objective {
        let message = "`right` says whether one class is the label, and this task asks for something else";
        return e.fail(Kind::ObjectiveMismatch, c.span, message, "");
    }
    let (x, logits, labels) = answers(e, c)?;
    let whole = c.block.word("per") == Some("row") && !x.axes.is_empty();
    let value = e.node(c.span, |l| {
        let right = l.one(Op::Right, &[logits, labels], Attrs::new())?;
        let right = where_labelled(l, right, 1.0)?;
        if !whole {
            return Ok(right);
        }
        // The least of them.
        let wrong = l.map(Pointwise::Neg, &[right])?;
        let most = l.one(Op::Max, &[wrong], Attrs::new())?;
        l.map(Pointwise::Neg, &[most])
    })?;
    let axes = if whole { vec![] } else { x.axes };
    Some(ExpressionValue::Array(EquationArray { value, axes, rows: true, truth: false, labels: true }))
}

fn average(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let x = arg(e, c, 0)?;
    let fits = match x.axes[..] {
        [] => true,
        [ArrayAxis::Positions] => e.l.each && x.sequence(e.l.types()) == Some(LENGTH),
        _ => false,
    };
    if !fits || !x.rows {
        let message = format!("`average` takes one number per answer, and this is {}", x.describe_in(e.l.types()));
        let help = match x.axes[..] {
            [ArrayAxis::Positions] if e.l.each => {
                "tokens alone are answered: `drop(x, n)` takes away the n positions before them"
            }
            [ArrayAxis::Positions] => "rows are answered here: `mean(x)` makes one number per row of one per token",
            _ => "`mean(x) { over: width }` makes one number of channels",
        };
        return e.report(Diagnostic::new(Kind::WrongType, c.places[0], message).help(help));
    }
    Some(ExpressionValue::Average(x))
}

/// The mean of losses over the tokens of a row that have a label; 0 where none has.
pub(super) fn mean_of_labelled(l: &mut Lower<'_>, x: Value) -> Result<Value, InvalidNode> {
    let weights = weights(l)?;
    let weighted = l.map(Pointwise::Mul, &[x, weights])?;
    let (sum, count) = (l.one(Op::Sum, &[weighted], Attrs::new())?, l.one(Op::Sum, &[weights], Attrs::new())?);
    let none = Scalar::Call(Pointwise::Less, vec![Scalar::Number(0.0), Scalar::Operand(1)]);
    let count_or_one = Scalar::Call(Pointwise::Choose, vec![none, Scalar::Operand(1), Scalar::Number(1.0)]);
    l.formula(&Scalar::Call(Pointwise::Div, vec![Scalar::Operand(0), count_or_one]), &[sum, count])
}

impl Eval<'_, '_> {
    /// `loss value`
    pub(super) fn pays(&mut self, value: &ExprSyntax) -> Option<()> {
        self.pays_whole_rows("loss", value.span)?;
        let paid = match self.expr(value, None)? {
            ExpressionValue::Average(x) => x,
            other => {
                let message = "`loss` takes averages, as `loss 0.1 * average(x)`";
                let label = format!("this is {}", other.describe());
                return self.fail(Kind::WrongType, value.span, message, label);
            }
        };
        let loss = Loss { value: paid.value, labels: paid.labels };
        if self.l.trying && self.l.steps.is_none() {
            return Some(());
        }
        match &mut self.l.steps {
            Some(steps) => steps.losses.push(loss),
            None => self.l.losses.push(loss),
        }
        Some(())
    }

    /// Reports a word of losses where only a part of the row is seen.
    fn pays_whole_rows(&mut self, word: &str, span: Span) -> Option<()> {
        self.whole_rows(word, span)?;
        if self.l.sees_whole_rows() || self.l.trying {
            return Some(());
        }
        let message = format!("`{word}` can't stand inside a loop over parts of the row");
        let help = "losses and answers are of whole rows: they stand in the model, or in a `loop` over its states";
        self.report(Diagnostic::new(Kind::MisplacedStatement, span, message).help(help))
    }

    /// Arithmetic with averages: they may be weighted by constants, and averages of one kind added.
    pub(super) fn averages(
        &mut self,
        op: BinaryOp,
        (a, b): (ExpressionValue, ExpressionValue),
        span: Span,
    ) -> Option<ExpressionValue> {
        use BinaryOp::{Add, Div, Mul, Sub};
        let inner = |item: ExpressionValue| match item {
            ExpressionValue::Average(x) => ExpressionValue::Array(x),
            other => other,
        };
        let fits = match (op, &a, &b) {
            (Mul | Div, ExpressionValue::Average(_), ExpressionValue::Constant(_))
            | (Mul, ExpressionValue::Constant(_), ExpressionValue::Average(_)) => true,
            (Add | Sub, ExpressionValue::Average(a), ExpressionValue::Average(b)) => a.axes == b.axes,
            _ => false,
        };
        if !fits {
            let message = format!("`{}` can't join {} and {}", op.symbol(), a.describe(), b.describe());
            let help = "averages are weighted by constants, and averages of the same answers are added; \
                other losses have a `loss` of their own";
            return self.report(Diagnostic::new(Kind::WrongType, span, message).help(help));
        }
        let item = self.arithmetic(op, inner(a), inner(b), span)?;
        self.array(item, span).map(ExpressionValue::Average)
    }
}
