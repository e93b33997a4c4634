//! The words of streams: several states side by side, an axis between the positions and the channels.

use super::constant::Constant;
use super::eval::{Application, Eval};
use super::item::{ArrayAxis, EquationArray, ExpressionValue};
use super::words::{arg, count, row, wide};
use crate::diag::{Diagnostic, Kind};
use crate::feature::Feature;
use crate::ir::attribute::{self, Attrs, Reduction, Side};
use crate::ir::ops::Op;
use crate::ir::pointwise::Pointwise;
use crate::ir::shape::matrices;
use crate::ir::types::Dim;
use crate::schema::{AXIS, optional_word};

/// Their rows in the table of words.
pub(super) fn rows() -> Vec<Feature> {
    vec![
        row(
            "repeat",
            &["x", "n"],
            "So many streams, each of which is the value: several residual streams start so.",
            repeat,
            vec![],
        ),
        row(
            "split",
            &["x", "n"],
            "The channels as so many streams of equal width; where there are as many channels as streams, each stream has one number.",
            split,
            vec![],
        ),
        row("merge", &["x"], "The streams side by side, as channels.", merge, vec![]),
        row(
            "matmul",
            &["a", "b"],
            "The matrix product of every position: stream i of the result is the sum over j of channel j of stream i of `a` times stream j of `b`. Without streams `a` is one row, and so is the result.",
            matmul,
            vec![optional_word(
                "transposed",
                &["left", "right"],
                "which matrix is transposed before: `left`: sums over the streams of both, `right`: over the channels of both",
            )],
        ),
    ]
}

/// The sum, the mean or the largest number over the streams.
pub(super) fn over(e: &mut Eval<'_, '_>, c: &Application<'_>, by: Reduction) -> Option<ExpressionValue> {
    let (x, numbers) = match &c.args[0] {
        ExpressionValue::Scaled(x, s) if s.streams().is_some() && !x.labels && by != Reduction::Max => {
            (x.clone(), Some(s.clone()))
        }
        _ => (arg(e, c, 0)?, None),
    };
    let x = e.as_streams(x);
    let Some(count) = x.streams() else {
        let message = format!("{} has no streams", x.describe());
        let help = "`repeat(x, n)` makes streams of one value, `split(x, n)` of its channels";
        return e.report(Diagnostic::new(Kind::WrongType, c.places[0], message).help(help));
    };
    if x.channels().is_none() {
        let value = e.node(c.span, |l| {
            let y = l.one(Op::Reduce, &[x.value], Attrs::of(attribute::BY, by))?;
            l.one(Op::Squeeze, &[y], Attrs::new())
        })?;
        return Some(ExpressionValue::Array(EquationArray { value, axes: x.places().to_vec(), ..x }));
    }
    let width = wide(e, &x, c)?;
    if by == Reduction::Max {
        let all = e.node(c.span, |l| l.one(Op::Merge, &[x.value], Attrs::new()))?;
        let axes: Vec<ArrayAxis> =
            x.places().iter().cloned().chain([ArrayAxis::Channels(Dim::Fixed(count * width))]).collect();
        let all = EquationArray { value: all, axes, ..x };
        let mut largest = e.part(&all, 0, width, c.span)?;
        for n in 1..count {
            let next = e.part(&all, n * width, width, c.span)?;
            largest = e.pointwise(Pointwise::Maximum, vec![largest, next], c.span)?;
        }
        return Some(largest);
    }
    let sum = ExpressionValue::Array(e.sum_of_streams(&x, numbers.as_ref(), c.span)?);
    match by {
        Reduction::Mean => {
            let count = ExpressionValue::Constant(Constant::Float(count as f64));
            e.pointwise(Pointwise::Div, vec![sum, count], c.span)
        }
        _ => Some(sum),
    }
}

/// An argument without streams, whose number of channels is known.
fn without_streams(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<(EquationArray, usize)> {
    let x = arg(e, c, 0)?;
    let width = wide(e, &x, c)?;
    if x.streams().is_some() {
        let message = format!("`{}` makes streams, and {} has some", c.block.slot, x.describe());
        return e
            .report(Diagnostic::new(Kind::WrongType, c.places[0], message).help("`merge(x)` puts them side by side"));
    }
    Some((x, width))
}

/// A constant number of streams.
fn several(e: &mut Eval<'_, '_>, c: &Application<'_>, width: usize) -> Option<usize> {
    let n = count(e, c, 1)?;
    if n == 0 || !AXIS.hold(n.saturating_mul(width) as f64) {
        let message = format!("so many streams of {width} channels can't be");
        return e.fail(Kind::OutOfRange, c.places[1], message, format!("this is {n}"));
    }
    Some(n)
}

fn repeat(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let (x, width) = without_streams(e, c)?;
    let n = several(e, c, width)?;
    e.repeated(x, n, c.span).map(ExpressionValue::Array)
}

fn split(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let (x, width) = without_streams(e, c)?;
    let n = several(e, c, 1)?;
    if width % n != 0 {
        let message = format!("{} can't be cut into {n} equal streams", x.describe());
        return e.fail(Kind::Indivisible, c.span, message, format!("{width} channels are not a multiple of {n}"));
    }
    let mut axes: Vec<ArrayAxis> = x.units().iter().cloned().chain([ArrayAxis::Streams(n)]).collect();
    if width == n {
        return Some(ExpressionValue::Array(EquationArray { axes, ..x }));
    }
    axes.push(ArrayAxis::Channels(Dim::Fixed(width / n)));
    let value = e.node(c.span, |l| l.one(Op::Split, &[x.value], Attrs::of(attribute::PARTS, n)))?;
    Some(ExpressionValue::Array(EquationArray { value, axes, ..x }))
}

fn merge(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let x = arg(e, c, 0)?;
    let x = e.as_streams(x);
    let Some(n) = x.streams() else {
        let message = format!("`merge` puts streams side by side, and {} has none", x.describe());
        return e.fail(Kind::WrongType, c.places[0], message, "");
    };
    let mut axes = x.places().to_vec();
    if x.channels().is_none() {
        axes.push(ArrayAxis::Channels(Dim::Fixed(n)));
        return Some(ExpressionValue::Array(EquationArray { axes, ..x }));
    }
    axes.push(ArrayAxis::Channels(Dim::Fixed(n * wide(e, &x, c)?)));
    let value = e.node(c.span, |l| l.one(Op::Merge, &[x.value], Attrs::new()))?;
    Some(ExpressionValue::Array(EquationArray { value, axes, ..x }))
}

fn matmul(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let (a, b) = (arg(e, c, 0)?, arg(e, c, 1)?);
    let (a, b) = (e.as_streams(a), e.as_streams(b));
    let side = match c.block.word("transposed") {
        Some("left") => Some(Side::Left),
        Some(_) => Some(Side::Right),
        None => None,
    };
    let message = format!("`matmul` of {} and {}", a.describe(), b.describe());
    let (a, b) = e.side_by_side(a, b, c.span)?;
    // One number for each stream is one row.
    let single = a.streams().is_none() || a.channels().is_none();
    let fits = b.streams().is_some() && b.channels().is_some() && a.axes.len() > a.places().len();
    let left = match single && fits {
        true => e.node(c.span, |l| l.one(Op::Split, &[a.value], Attrs::of(attribute::PARTS, 1)))?,
        false => a.value,
    };
    let graph = e.l.graph();
    let sizes = if fits { matrices(graph.ty(left), graph.ty(b.value), side) } else { None };
    let Some([rows, _, columns]) = sizes else {
        let label = match side {
            None => "`a` has a channel for every stream of `b`",
            Some(Side::Left) => "with `transposed: left`, `a` has as many streams as `b`",
            Some(Side::Right) => "with `transposed: right`, `a` has as many channels as `b`",
        };
        return e.fail(Kind::WrongType, c.span, message, label);
    };
    let value = e.node(c.span, |l| {
        let y = l.one(Op::Matmul, &[left, b.value], Attrs::new().with_some(attribute::TRANSPOSED, side))?;
        if single && rows == 1 { l.one(Op::Merge, &[y], Attrs::new()) } else { Ok(y) }
    })?;
    let streams = if single && rows == 1 { None } else { Some(ArrayAxis::Streams(rows)) };
    let axes = b.places().iter().cloned().chain(streams).chain([ArrayAxis::Channels(Dim::Fixed(columns))]).collect();
    Some(ExpressionValue::Array(EquationArray { value, axes, ..b }))
}
