//! The words of equations: what has weights, a kernel or an axis of its own, and is no function of single numbers.
//!
//! One row per word: what it is applied to, its settings, and what it becomes in the graph. Everything else is a definition.

use std::sync::{Arc, LazyLock};

use super::constant::Constant;
use super::eval::{Call, Eval};
use super::item::{Array, Axis, Item};
use crate::diag::Kind;
use crate::feature::{Feature, Lowering};
use crate::ir::attribute::{self, At, Attrs};
use crate::ir::ops::Op;
use crate::ir::types::{Attr, Dim};
use crate::lower::LinearInit;
use crate::schema::{
    Bounds, DROPOUT, Default, Derived, Field, FieldKind, POSITIVE, SIZE, float, int, of_kind, optional_word, word,
};
use crate::source::Span;
use crate::spec::Block;
use crate::syntax::ast::Expr;

/// What a word becomes in the graph.
#[derive(Clone, Copy)]
pub(crate) struct Word(pub(crate) fn(&mut Eval<'_, '_>, &Call<'_>) -> Option<Item>);

/// The standard deviation of `init: normal`.
const STD: Field = float("std", Default::Float(0.02), POSITIVE, "standard deviation of `init: normal`");

static WORDS: LazyLock<Vec<Arc<Feature>>> = LazyLock::new(|| {
    let rows = vec![
        row(
            "linear",
            &["x"],
            "A linear map of the channels, with weights `weight` and `bias`.",
            linear,
            vec![
                int("to", Default::Derived(Derived::Width), SIZE, "channels of the result"),
                of_kind(
                    "bias",
                    FieldKind::Truth,
                    Default::Truth(true),
                    "whether a learned number is added to every channel",
                ),
                linear_init(),
                STD,
            ],
        ),
        row(
            "number",
            &["x"],
            "One number of the channels: a linear map to one, without the axis.",
            number,
            vec![
                linear_init(),
                STD,
                float(
                    "start",
                    Default::Absent,
                    Bounds::closed(-20.0, 20.0),
                    "the bias at the start, where not by `init`",
                ),
            ],
        ),
        norm_row(),
        row("dropout", &["x", "p"], "Dropout with a probability: 0, or the value by `1 / (1 - p)`.", dropout, vec![]),
        row("cat", &["a", "b"], "Channels side by side, of two values or more.", cat, vec![]),
        row("channels", &["x", "start", "count"], "So many channels from a place on.", channels, vec![]),
        row("parts", &["x", "n"], "The channels in so many equal parts: `a, b = parts(x, 2)`.", parts, vec![]),
        row(
            "mean",
            &["x"],
            "The mean over the positions, or over the slots of a memory.",
            |e, c| pool(e, c, Op::Mean),
            vec![],
        ),
        row(
            "sum",
            &["x"],
            "The sum over the positions, or over the slots of a memory.",
            |e, c| pool(e, c, Op::Sum),
            vec![],
        ),
        row(
            "max",
            &["x"],
            "The largest value over the positions, channel by channel; `max(a, b)` is the larger of two.",
            |e, c| pool(e, c, Op::Max),
            vec![],
        ),
        row("running_mean", &["x"], "The mean over the positions up to each one.", running_mean, vec![]),
        row("zeros", &["x"], "0 everywhere, of the type of a value.", |e, c| full(e, c, 0.0), vec![]),
        row("ones", &["x"], "1 everywhere, of the type of a value.", |e, c| full(e, c, 1.0), vec![]),
        row("stop", &["x"], "The value, through which no gradient goes back.", stop, vec![]),
        learn_row(),
    ];
    rows.into_iter().map(Arc::new).collect()
});

fn row(
    name: &'static str,
    values: &[&'static str],
    doc: &'static str,
    lower: fn(&mut Eval<'_, '_>, &Call<'_>) -> Option<Item>,
    fields: Vec<Field>,
) -> Feature {
    let values = values.iter().map(|v| (*v).into()).collect();
    Feature { values, fields, ..Feature::row(name, "", doc, "", Lowering::Word(Word(lower))) }
}

fn linear_init() -> Field {
    word(
        "init",
        &["fan_in", "xavier", "normal", "zeros"],
        "fan_in",
        "how it starts: uniform in 1/sqrt(inputs); Xavier-uniform, with a bias from N(0, 1e-6); normal, or zeros, with a bias from 0",
    )
}

/// Layer norm, as a word of equations and as a layer of its own.
pub(crate) fn norm_row() -> Feature {
    let eps = Bounds { high: 1.0, ..POSITIVE };
    Feature {
        source:
            "Ba et al. 2016 (layer normalization), arXiv:1607.06450; RMS: Zhang and Sennrich 2019, arXiv:1910.07467"
                .into(),
        ..row(
            "norm",
            &["x"],
            "A norm of the channels: layer norm, or RMS norm. As a statement, of the state, for example after pre-norm layers.",
            norm,
            vec![
                optional_word(
                    "kind",
                    &["layer", "rms"],
                    "`layer` (the default): mean 0 and variance 1; `rms`: root mean square 1",
                ),
                float("eps", Default::Absent, eps, "added to the variance, or to the mean square; 1e-5 if left out"),
                of_kind(
                    "bias",
                    FieldKind::Truth,
                    Default::Absent,
                    "whether `layer` adds a learned number to every channel; true if left out",
                ),
            ],
        )
    }
}

fn learn_row() -> Feature {
    let doc = "An array of weights: `gain = learn[width] { init: ones }`.";
    let init = word("init", &["normal", "zeros", "ones", "constant"], "normal", "how the weights start");
    let at = float("at", Default::Float(0.0), Bounds::ANY, "where `init: constant` starts");
    row("learn", &[], doc, |_, _| None, vec![init, STD, at])
}

/// The row of a word.
pub(crate) fn named(name: &str) -> Option<&'static Arc<Feature>> {
    WORDS.iter().find(|word| word.slot == name)
}

/// The names of all words.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    WORDS.iter().map(|word| &*word.slot).chain(["when", "at"])
}

/// All words, in the order of the reference.
pub(crate) fn all() -> &'static [Arc<Feature>] {
    &WORDS
}

/// The row of `learn`.
pub(crate) fn learn() -> &'static Arc<Feature> {
    named("learn").expect("`learn` is in the table")
}

/// Whether a word takes as many values as are given.
pub(crate) fn takes_any(feature: &Feature) -> bool {
    feature.slot == "cat" && matches!(feature.lower, Lowering::Word(_))
}

/// How the weights of `learn` start.
pub(crate) fn init(block: &Block, _: &[Dim]) -> Attr {
    match block.word("init") {
        Some("zeros") => "zeros".into(),
        Some("ones") => "ones".into(),
        Some("constant") => Attr::call("constant", [block.float("at").unwrap_or_default().into()]),
        _ => Attr::call("normal", [block.float("std").unwrap_or(0.02).into()]),
    }
}

/// How the weights of a linear map start.
fn start(block: &Block) -> LinearInit {
    match block.word("init") {
        Some("xavier") => LinearInit::Xavier,
        Some("normal") => LinearInit::Normal(block.float("std").unwrap_or(0.02)),
        Some("zeros") => LinearInit::Normal(0.0),
        _ => match block.float("start") {
            Some(start) => LinearInit::FanInFrom(start),
            None => LinearInit::FanIn,
        },
    }
}

/// `at(x, first)`, `at(x, last)`, `at(x, before_last)`: one position of the row.
pub(super) fn at(e: &mut Eval<'_, '_>, args: &[Expr], span: Span) -> Option<Item> {
    let [x, place] = args else {
        return e.fail(Kind::WrongArity, span, "`at` takes a value and a place: `at(x, last)`", "");
    };
    let at = match place.as_name().as_ref().map(|name| name.text.as_str()) {
        Some("first") => At::First,
        Some("last") => At::Last,
        Some("before_last") => At::BeforeLast,
        _ => return e.fail(Kind::WrongType, place.span, "a place is `first`, `last` or `before_last`", ""),
    };
    let item = e.expr(x, None)?;
    let x = e.array(item, x.span)?;
    along(e, x, span, |l, value| l.one(Op::Position, &[value], Attrs::of(attribute::AT, at)))
}

/// The array of an argument.
fn arg(e: &mut Eval<'_, '_>, c: &Call<'_>, n: usize) -> Option<Array> {
    e.array(c.args[n].clone(), c.span)
}

/// The constant whole number of an argument.
fn count(e: &mut Eval<'_, '_>, c: &Call<'_>, n: usize) -> Option<usize> {
    match &c.args[n] {
        Item::Constant(Constant::Int(v)) if *v >= 0 => Some(*v as usize),
        other => {
            let (name, described) = (c.block.feature.values[n].clone(), other.describe());
            let message = format!("`{name}` of `{}` is a whole number from 0 on", c.block.slot);
            e.fail(Kind::WrongType, c.span, message, format!("this is {described}"))
        }
    }
}

/// The known number of channels of an array.
fn wide(e: &mut Eval<'_, '_>, x: &Array, c: &Call<'_>) -> Option<usize> {
    match x.channels() {
        Some(Dim::Fixed(n)) => Some(*n),
        _ => {
            let message = format!("`{}` needs channels, and {} has none that are known", c.block.slot, x.describe());
            e.fail(Kind::WrongType, c.span, message, "")
        }
    }
}

fn linear(e: &mut Eval<'_, '_>, c: &Call<'_>) -> Option<Item> {
    let x = arg(e, c, 0)?;
    wide(e, &x, c)?;
    // Without a task the number of classes is a name.
    let to = c.block.int("to").map_or_else(|| Dim::sym(c.block.word("to").unwrap_or_default()), Dim::Fixed);
    let bias = c.block.fields.get("bias").is_none_or(|s| s.value != crate::spec::Value::Truth(false));
    let name = e.fresh(c.name.unwrap_or("linear"), ".weight");
    let init = start(&c.block);
    let value = e.node(c.span, |l| l.linear_with(x.value, &name, to.clone(), &init, bias))?;
    let axes = x.units().iter().cloned().chain([Axis::Channels(to)]).collect();
    Some(Item::Array(Array { value, axes, rows: x.rows }))
}

fn number(e: &mut Eval<'_, '_>, c: &Call<'_>) -> Option<Item> {
    let x = arg(e, c, 0)?;
    wide(e, &x, c)?;
    let name = e.fresh(c.name.unwrap_or("number"), ".weight");
    let init = start(&c.block);
    let value = e.node(c.span, |l| {
        let y = l.linear(x.value, &name, Dim::Fixed(1), &init)?;
        l.one(Op::Squeeze, &[y], Attrs::new())
    })?;
    Some(Item::Array(Array { value, axes: x.units().to_vec(), rows: x.rows }))
}

fn norm(e: &mut Eval<'_, '_>, c: &Call<'_>) -> Option<Item> {
    let x = arg(e, c, 0)?;
    let channels = Dim::Fixed(wide(e, &x, c)?);
    let name = e.fresh(c.name.unwrap_or("norm"), ".weight");
    let eps = c.block.float("eps").unwrap_or(1e-5);
    let value = e.node(c.span, |l| {
        let (gain, bias) = l.norm_params_of(&name, channels)?;
        l.one(Op::LayerNorm, &[x.value, gain, bias], Attrs::of(attribute::EPS, eps))
    })?;
    Some(Item::Array(Array { value, ..x }))
}

fn dropout(e: &mut Eval<'_, '_>, c: &Call<'_>) -> Option<Item> {
    let x = arg(e, c, 0)?;
    let p = match &c.args[1] {
        Item::Constant(Constant::None) => 0.0,
        Item::Constant(constant) => constant.number().unwrap_or(f64::NAN),
        _ => f64::NAN,
    };
    if !DROPOUT.hold(p) {
        let message = format!("the probability of `dropout` is a number, {}", DROPOUT.describe());
        return e.fail(Kind::OutOfRange, c.span, message, format!("this is {}", c.args[1].describe()));
    }
    let value = e.node(c.span, |l| l.dropout(x.value, p))?;
    Some(Item::Array(Array { value, ..x }))
}

fn cat(e: &mut Eval<'_, '_>, c: &Call<'_>) -> Option<Item> {
    let mut all = vec![];
    for item in &c.args {
        all.push(e.array(item.clone(), c.span)?);
    }
    let Some(mut out) = all.first().cloned().filter(|_| all.len() > 1) else {
        return e.fail(Kind::WrongArity, c.span, "`cat` takes two values or more", "");
    };
    for next in &all[1..] {
        if next.units() != out.units() || next.rows != out.rows || next.channels().is_none() || out.channels().is_none()
        {
            let message =
                format!("`cat` of {} and {}: all axes but the channels must agree", out.describe(), next.describe());
            return e.fail(Kind::WrongType, c.span, message, "");
        }
        let total = wide(e, &out, c)? + wide(e, next, c)?;
        let value = e.node(c.span, |l| l.one(Op::Concat, &[out.value, next.value], Attrs::new()))?;
        let axes = out.units().iter().cloned().chain([Axis::Channels(Dim::Fixed(total))]).collect();
        out = Array { value, axes, rows: out.rows };
    }
    Some(Item::Array(out))
}

fn channels(e: &mut Eval<'_, '_>, c: &Call<'_>) -> Option<Item> {
    let x = arg(e, c, 0)?;
    let (start, width, all) = (count(e, c, 1)?, count(e, c, 2)?, wide(e, &x, c)?);
    if width == 0 || start.saturating_add(width) > all {
        let message = format!("channels {start} to {} of {}", start.saturating_add(width), x.describe());
        return e.fail(Kind::OutOfRange, c.span, message, format!("there are {all}"));
    }
    if width == all { Some(Item::Array(x)) } else { e.part(&x, start, width, c.span) }
}

fn parts(e: &mut Eval<'_, '_>, c: &Call<'_>) -> Option<Item> {
    let x = arg(e, c, 0)?;
    let (n, all) = (count(e, c, 1)?, wide(e, &x, c)?);
    if n < 2 || all % n != 0 {
        let message = format!("{} has no {n} equal parts", x.describe());
        return e.fail(Kind::Indivisible, c.span, message, "");
    }
    Some(Item::Several((0..n).map(|k| Item::Part(x.clone(), k * (all / n), all / n)).collect()))
}

/// An op over the second axis of the graph: the positions or the slots.
fn along(
    e: &mut Eval<'_, '_>,
    x: Array,
    span: Span,
    op: impl FnOnce(
        &mut crate::lower::Lower<'_>,
        crate::ir::graph::Value,
    ) -> Result<crate::ir::graph::Value, crate::ir::graph::InvalidNode>,
) -> Option<Item> {
    if x.units().is_empty() || !x.rows {
        let message = format!("{} has no positions", x.describe());
        return e.fail(Kind::WrongType, span, message, "");
    }
    let value = e.node(span, |l| op(l, x.value))?;
    let axes = x.axes[1..].to_vec();
    Some(Item::Array(Array { value, axes, rows: true }))
}

fn pool(e: &mut Eval<'_, '_>, c: &Call<'_>, op: Op) -> Option<Item> {
    let x = arg(e, c, 0)?;
    along(e, x, c.span, |l, value| l.one(op, &[value], Attrs::new()))
}

fn running_mean(e: &mut Eval<'_, '_>, c: &Call<'_>) -> Option<Item> {
    let x = arg(e, c, 0)?;
    let axes = x.axes.clone();
    if x.units().is_empty() || !x.rows {
        let message = format!("{} has no positions", x.describe());
        return e.fail(Kind::WrongType, c.span, message, "");
    }
    let value = e.node(c.span, |l| l.one(Op::CumulativeMean, &[x.value], Attrs::new()))?;
    Some(Item::Array(Array { value, axes, rows: true }))
}

fn full(e: &mut Eval<'_, '_>, c: &Call<'_>, number: f64) -> Option<Item> {
    let x = arg(e, c, 0)?;
    let value = e.node(c.span, |l| l.full(x.value, number, x.rank()))?;
    Some(Item::Array(Array { value, ..x }))
}

fn stop(e: &mut Eval<'_, '_>, c: &Call<'_>) -> Option<Item> {
    let x = arg(e, c, 0)?;
    let value = e.node(c.span, |l| l.one(Op::Detach, &[x.value], Attrs::new()))?;
    Some(Item::Array(Array { value, ..x }))
}
