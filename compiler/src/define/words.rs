//! The words of equations: what has weights, a kernel or an axis of its own, and is no function of single numbers.
//!
//! One row per word: what it is applied to, its settings, and what it becomes in the graph. Everything else is a definition.

use std::sync::{Arc, LazyLock};

use super::atomic;
use super::constant::Constant;
use super::eval::{Application, Eval, NUMBERS};
use super::item::{ArrayAxis, EquationArray, ExpressionValue};
use super::{losses, streams};
use crate::diag::{Diagnostic, Kind, did_you_mean};
use crate::expr::{Expr, Var};
use crate::feature::{Feature, Lowering, attended, dot_product, stops};
use crate::ir::attribute::{self, At, Attrs, Discretisation, Layout, Mask, Reduction, ScanKernel, Side};
use crate::ir::graph::{INPUTS, InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::types::{Attr, BATCH, Dim, Elem, LENGTH, Type, unframed, unprefixed};
use crate::lower::{LinearInit, Lower};
use crate::schema::{
    AXIS, Bounds, DROPOUT, Default, Derived, FieldKind, POSITIVE, SIZE, SPREAD, StatementField, WEIGHT, float, int,
    of_kind, optional_word, word,
};
use crate::source::Span;
use crate::spec::{Block, FieldValue, Origin};
use crate::syntax::ast::ExprSyntax;

/// The function that puts a word into the graph.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BuiltInWord(pub(crate) fn(&mut Eval<'_, '_>, &Application<'_>) -> Option<ExpressionValue>);

/// The standard deviation of `init: normal`.
fn std() -> StatementField {
    float("std", Default::Float(0.02), SPREAD, "standard deviation of `init: normal`").beside("init", &["normal"])
}

/// A factor on the start of a weight.
fn gain() -> StatementField {
    let doc = "factor on the start of the weight, as the root of 1 over twice the layers before a residual sum; 1 if left out";
    float("gain", Default::Absent, Bounds::above_zero(1e6), doc).beside("init", &["fan_in", "xavier", "normal"])
}

/// The words that are no atomic definitions.
static ROWS: LazyLock<Vec<Arc<Feature>>> = LazyLock::new(|| {
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
                std(),
                gain(),
            ],
        ),
        row(
            "number",
            &["x"],
            "One number of the channels: a linear map to one, without the axis.",
            number,
            vec![
                linear_init(),
                std(),
                gain(),
                float(
                    "start",
                    Default::Absent,
                    Bounds::closed(-20.0, 20.0),
                    "the bias at the start, whatever `init` says of it",
                ),
                of_kind(
                    "bias",
                    FieldKind::Truth,
                    Default::Absent,
                    "whether a learned number is added; true if left out",
                ),
            ],
        ),
        norm_row(),
        row(
            "dropout",
            &["x", "p"],
            "Dropout with a probability: 0, or the value by `1 / (1 - p)`.",
            dropout,
            vec![of_kind(
                "tied",
                FieldKind::Truth,
                Default::Truth(false),
                "whether it falls on whole channels of a row",
            )],
        ),
        row("cat", &["a", "b"], "Channels side by side, of two values or more.", cat, vec![]),
        row("channels", &["x", "start", "count"], "So many channels from a place on.", channels, vec![]),
        row(
            "positions",
            &["x"],
            "The number of every position of a value in its row, or in its chunk, from 0.",
            places,
            vec![],
        ),
        row(
            "sinusoid",
            &["n"],
            "Sines and cosines of a number, as `step`, or of one for every position, as `positions(x)`: `sin(n w)` and `cos(n w)`, where w falls from pair to pair of the channels, from 1 on.",
            sinusoid,
            vec![
                int("to", Default::Derived(Derived::Width), SIZE, "channels of the result"),
                word(
                    "layout",
                    &["pairs", "half"],
                    "pairs",
                    "where sine and cosine of one w stand: side by side, or in the first and in the second half of the channels",
                ),
                float(
                    "base",
                    Default::Float(10_000.0),
                    Bounds { low: 1.0, ..POSITIVE },
                    "w is `base^(-2 k / to)` for pair k",
                ),
            ],
        ),
        row("parts", &["x", "n"], "The channels in so many equal parts: `a, b = parts(x, 2)`.", parts, vec![]),
        row("mean", &["x"], "The mean over an axis.", |e, c| pool(e, c, Op::Mean, Reduction::Mean), vec![over()]),
        row("sum", &["x"], "The sum over an axis.", |e, c| pool(e, c, Op::Sum, Reduction::Sum), vec![over()]),
        row(
            "max",
            &["x"],
            "The largest number over an axis; `max(a, b)` is the larger of two.",
            |e, c| pool(e, c, Op::Max, Reduction::Max),
            vec![over()],
        ),
        row(
            "prefix",
            &["x", "vectors"],
            "Every row behind further positions, which are the channels of a vector, one position after the other: `prefix(x, cat(a, b))` puts two before it.",
            prefix,
            vec![],
        ),
        row(
            "drop",
            &["x", "count"],
            "Every row without so many positions that `prefix` has put before it: all of one `prefix`, or of several.",
            drop_prefix,
            vec![],
        ),
        row(
            "transpose",
            &["x", "like"],
            "Rows of one length the other way round: for every channel a vector of its numbers at all positions. `transpose(y, x)` turns back, to the positions of `x`.",
            transpose,
            vec![int(
                "length",
                Default::Absent,
                SIZE,
                "how many positions every row has; given where `x` has positions",
            )],
        ),
        Feature {
            source: "Raposo et al. 2024 (mixture of depths), arXiv:2404.02258; Shazeer et al. 2017 (mixture of experts), arXiv:1701.06538".into(),
            ..row(
                "top",
                &["scores", "candidates"],
                "Where a number is one of the largest: of the channels, or of the positions where each has one number. The first of equals are taken, at least one; where candidates are given, by a condition, only those. No gradient goes through the choice.",
                top,
                vec![StatementField {
                    bounds: SIZE,
                    ..of_kind(
                        "of",
                        FieldKind::Choices,
                        Default::Required,
                        "how many, as `2` or `floor(length / 2)`; among positions it may read the `length` of the row, and in a loop the `step`",
                    )
                }],
            )
        },
        row(
            "channel",
            &["x", "n"],
            "The channel of a number, or of the `step` of a loop, counted from 0: one number for what has channels.",
            channel,
            vec![],
        ),
        row(
            "running_sum",
            &["x"],
            "The sum over the positions up to each one, or over the channels of a value without positions.",
            running_sum,
            vec![word("side", &["left", "right"], "left", "`right`: the sum over each position and those behind it")],
        ),
        row(
            "shift",
            &["x", "by"],
            "The value so many positions before, and 0 where the row has none.",
            shift,
            vec![word("side", &["left", "right"], "left", "`right`: the value so many positions behind")],
        ),
        attending(row(
            "attention",
            &["queries", "keys"],
            "Softmax attention of values to values, or of values to themselves: projections `query`, `key` and `value`, and the map `output` of what is read. Without norm and residual connection.",
            attention,
            crate::feature::attention_fields(),
        )),
        attending(row(
            "dot_product_attention",
            &["queries", "keys", "values"],
            "Softmax attention of queries, keys and values that equations make, head by head: `attention` without its linear maps. Each head has its share of the channels, and values may have others than keys: the result has as many as the values, for every head of the queries.",
            dot_product_attention,
            crate::feature::dot_product_fields(),
        )),
        row(
            "history",
            &["x"],
            "Of a value in a loop, those of this step and of all before: `attention(x, history(x))` has the positions of all of them as keys, and so has `dot_product_attention(q, history(k), history(v))`. The number of steps must be a constant.",
            |e, c| arg(e, c, 0).map(ExpressionValue::History),
            vec![],
        ),
        attending(row(
            "geometric_attention",
            &["queries", "keys", "values", "sides"],
            "Attention to the nearest key that matches, head by head: `sigmoid(score)` times `1 - sigmoid(score)` of all nearer keys, divided by the sum over the keys. A query does not see itself, and of two keys at one distance the one in front is nearer. The sides may be left out: two numbers of every head, added to the scores of keys behind and in front.",
            geometric_attention,
            crate::feature::geometric_fields(),
        )),
        Feature {
            source: "Gupta et al. 2021 (top-k attention), arXiv:2106.06899; Lu et al. 2025 (MoBA), Section 2.2, arXiv:2502.13189".into(),
            ..attending(row(
                "top_keys",
                &["queries", "keys", "candidates"],
                "The places of the keys that match a query best, by the product of both, head by head from the best on: `of` numbers for every head. The first of equals are taken; -1 stands where a query sees no more keys; where candidates are given, by a condition, only those count. No gradient goes through the choice. A mask reads them as `c[i, 0] == j`.",
                top_keys,
                vec![
                    int("heads", Default::Int(1), SIZE, "number of heads, each with its share of the channels"),
                    int("of", Default::Required, SIZE, "how many keys"),
                    direction(),
                ],
            ))
        },
        row(
            "s4d_scan",
            &["x", "log_dt", "log_decay", "frequency", "b", "c"],
            "Every channel along the row by a kernel of its own, made by a diagonal state space (S4D) of these parameters.",
            |e, c| scan(e, c, ScanKernel::S4d),
            vec![
                side(),
                lag(),
                optional_word(
                    "discretisation",
                    &["bilinear", "zoh"],
                    "`bilinear` (the default), or `zoh`, zero-order hold",
                ),
            ],
        ),
        row(
            "ema_scan",
            &["x", "delta", "alpha", "beta", "gamma"],
            "Every channel along the row by a kernel of its own, made by damped moving averages of these parameters.",
            |e, c| scan(e, c, ScanKernel::Ema),
            vec![side(), lag()],
        ),
        row(
            "neighbours",
            &["x", "e"],
            "The neighbour of every position on one side, by the existence of the positions: the mean of those next to it whose existences sum to 1.",
            neighbours,
            vec![side()],
        ),
        row(
            "unembed",
            &["x"],
            "A number for every token: the product with its vector in the table of `embed`.",
            unembed,
            vec![],
        ),
        row(
            "embedding",
            &["ids"],
            "A learned vector for each of the `tokens`, or for each thing that examples name by `given(..) { ids: 10 }`.",
            embedding,
            vec![
                int("to", Default::Derived(Derived::Width), SIZE, "channels of the vectors"),
                float("std", Default::Float(0.02), SPREAD, "standard deviation of the vectors at the start"),
            ],
        ),
        row(
            "given",
            &["x"],
            "A value that comes with each example under the name of the equation, of the type of another value; `steps = given(0)` is a number per row.",
            given,
            vec![int(
                "ids",
                Default::Absent,
                SIZE,
                "whole numbers below this, from 0 on, for `embedding`; any numbers if left out",
            )],
        ),
        row("zeros", &["x"], "0 everywhere, of the type of a value.", |e, c| full(e, c, 0.0), vec![]),
        row("ones", &["x"], "1 everywhere, of the type of a value.", |e, c| full(e, c, 1.0), vec![]),
        row(
            "normal",
            &["x"],
            "Independent normal numbers around 0, of the type of a value; drawn anew for every row, step and update, in evaluation the same for all rows.",
            |e, c| {
                let attrs = Attrs::of(attribute::STD, c.block.float("std").unwrap_or(1.0));
                drawn(e, c, Op::Normal, attrs.with_some(attribute::CUT_AT, c.block.float("cut")))
            },
            vec![
                evaluation(),
                float("std", Default::Float(1.0), Bounds::above_zero(SPREAD.high), "standard deviation"),
                float(
                    "cut",
                    Default::Absent,
                    Bounds::closed(0.1, 10.0),
                    "the largest distance from 0, in standard deviations; any if left out",
                ),
            ],
        ),
        row(
            "uniform",
            &["x"],
            "Independent numbers between two, each as likely, of the type of a value; drawn as those of `normal`.",
            |e, c| {
                let (low, high) = ends(e, &c.block, c.span)?;
                drawn(e, c, Op::Uniform, Attrs::of(attribute::LOW, low).with(attribute::HIGH, high))
            },
            vec![
                evaluation(),
                float("low", Default::Float(0.0), WEIGHT, "the least number"),
                float("high", Default::Float(1.0), WEIGHT, "what all numbers are below"),
            ],
        ),
        row(
            "stop",
            &["x"],
            "The value, through which no gradient goes back: `y = stop(y)` in a loop cuts its way between two steps.",
            stop,
            vec![],
        ),
        learn_row(),
    ];
    rows.into_iter().chain(streams::rows()).chain(losses::rows()).map(Arc::new).collect()
});

static WORDS: LazyLock<Vec<Arc<Feature>>> = LazyLock::new(|| ROWS.iter().chain(atomic::words()).cloned().collect());

pub(super) fn row(
    name: &'static str,
    values: &[&'static str],
    doc: &'static str,
    lower: fn(&mut Eval<'_, '_>, &Application<'_>) -> Option<ExpressionValue>,
    fields: Vec<StatementField>,
) -> Feature {
    let values = values.iter().map(|v| (*v).into()).collect();
    Feature { values, fields, ..Feature::row(name, "", doc, "", Lowering::Word(BuiltInWord(lower))) }
}

/// The row of a word that attends to positions.
fn attending(word: Feature) -> Feature {
    Feature { attends: true, ..word }
}

fn linear_init() -> StatementField {
    word(
        "init",
        &["fan_in", "xavier", "normal", "zeros", "identity"],
        "fan_in",
        "how it starts: uniform in 1/sqrt(inputs); Xavier-uniform, with a bias from N(0, 1e-6); normal, zeros, or 1 on the diagonal, \
         with a bias from 0. `starts` of `model` replaces the first two",
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
                float(
                    "eps",
                    Default::Absent,
                    eps,
                    "added to the variance, or to the mean square; 1e-5 and 1e-6 if left out",
                ),
                of_kind(
                    "bias",
                    FieldKind::Truth,
                    Default::Absent,
                    "whether `layer` adds a learned number to every channel; true if left out",
                )
                .beside("kind", &["", "layer"]),
                of_kind(
                    "weight",
                    FieldKind::Truth,
                    Default::Absent,
                    "whether a learned factor stands on every channel; true if left out, and only `rms` can do without",
                ),
                int(
                    "parts",
                    Default::Absent,
                    SIZE,
                    "with `rms`, equal parts of the channels, each normed by itself, with one weight for all",
                )
                .beside("kind", &["rms"]),
            ],
        )
    }
}

fn learn_row() -> Feature {
    let doc = "An array of weights: `gain = learn[width] { init: ones }`; `learn[]` is one number.";
    let starts = &["normal", "zeros", "ones", "constant", "uniform", "alternating", "s4d_inverse", "pairs_of_one"];
    let init = "how the weights start: `alternating` is 1, -1, 1, .. along the last axis with `normal` added, `s4d_inverse` the \
        frequencies of S4D-Inv, `pairs_of_one` 1, 0, 1, 0, ..";
    let of = |name, doc| float(name, Default::Float(0.0), WEIGHT, doc);
    let fields = vec![
        word("init", starts, "normal", init),
        float("std", Default::Float(0.02), SPREAD, "standard deviation of `normal` and `alternating`")
            .beside("init", &["normal", "alternating"]),
        of("at", "where `init: constant` starts").beside("init", &["constant"]),
        of("low", "the lower end of `init: uniform`").beside("init", &["uniform"]),
        of("high", "the upper end of `init: uniform`").beside("init", &["uniform"]),
        optional_word("group", &["s4d"], "the group of weights that an experiment can train at a rate of its own"),
        of_kind(
            "trained",
            FieldKind::Truth,
            Default::Absent,
            "whether they are trained; `false` keeps them as they start, saved with the model; true if left out",
        ),
    ];
    row("learn", &[], doc, |_, _| None, fields)
}

/// The row of a word.
pub(crate) fn named(name: &str) -> Option<&'static Arc<Feature>> {
    WORDS.iter().find(|word| word.slot == name)
}

/// The names of all words.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|word| &*word.slot).chain(atomic::names()).chain(["when", "among", "whole", "at"])
}

/// All words, in the order of the reference.
pub(crate) fn all() -> &'static [Arc<Feature>] {
    &WORDS
}

/// The row of `learn`.
pub(crate) fn learn() -> &'static Arc<Feature> {
    named("learn").expect("`learn` is in the table")
}

/// Whether a word takes another number of values than it has names for.
pub(crate) fn takes(feature: &Feature, values: usize) -> bool {
    match (&*feature.slot, &feature.lower) {
        ("cat", Lowering::Word(_)) => true,
        ("attention" | "top" | "transpose", Lowering::Word(_)) => values == 1,
        ("geometric_attention", Lowering::Word(_)) => values == 3,
        ("top_keys", Lowering::Word(_)) => values == 2,
        _ => false,
    }
}

/// How many values a word takes that takes another number of them than it has names for.
pub(crate) fn several(feature: &Feature) -> Option<&'static str> {
    match (&*feature.slot, &feature.lower) {
        ("cat", Lowering::Word(_)) => Some("2 values or more"),
        ("attention" | "top" | "transpose", Lowering::Word(_)) => Some("1 or 2 values"),
        ("geometric_attention", Lowering::Word(_)) => Some("3 or 4 values"),
        ("top_keys", Lowering::Word(_)) => Some("2 or 3 values"),
        ("max", Lowering::Word(_)) => Some("1 value, or 2 without settings"),
        _ => None,
    }
}

/// Whether a function may have weights: all but the words without any.
pub(crate) fn has_weights(feature: &Feature) -> bool {
    const WITH: [&str; 6] = ["linear", "number", "norm", "attention", "dot_product_attention", "embedding"];
    let is_word =
        matches!(feature.lower, Lowering::Word(_)) || feature.definition().is_some_and(|d| d.kernel.is_some());
    !is_word || WITH.contains(&&*feature.slot)
}

/// The ends of a uniform distribution, the lower one below the upper one.
pub(crate) fn ends(e: &mut Eval<'_, '_>, block: &Block, span: Span) -> Option<(f64, f64)> {
    let (low, high) = (block.float("low").unwrap_or_default(), block.float("high").unwrap_or_default());
    if low < high {
        return Some((low, high));
    }
    e.fail(Kind::OutOfRange, span, "`low` of `uniform` is below `high`", format!("from {low} to {high}"))
}

/// How the weights of `learn` start, by the size of their last axis.
pub(crate) fn init(block: &Block, last: usize) -> Attr {
    let number = |name: &str| Attr::from(block.float(name).unwrap_or_default());
    match block.word("init") {
        Some(word @ ("zeros" | "ones" | "pairs_of_one")) => word.into(),
        Some("constant") => Attr::call("constant", [number("at")]),
        Some("uniform") => Attr::call("uniform", [number("low"), number("high")]),
        Some("s4d_inverse") => Attr::call("s4d_inverse", [(2 * last).into()]),
        word => Attr::call(word.unwrap_or("normal"), [number("std")]),
    }
}

/// How the weights of a linear map start, and its bias where `start` says so.
fn start(block: &Block) -> LinearInit {
    let init = match block.word("init") {
        Some("xavier") => LinearInit::Xavier,
        Some("normal") => LinearInit::Normal(block.float("std").unwrap_or(0.02)),
        Some("zeros") => LinearInit::Normal(0.0),
        Some("identity") => LinearInit::Identity,
        _ => LinearInit::FanIn,
    };
    let init = match block.float("gain") {
        Some(gain) if gain != 1.0 => LinearInit::Scaled(Box::new(init), gain),
        _ => init,
    };
    match block.float("start") {
        Some(start) => LinearInit::From(Box::new(init), start),
        None => init,
    }
}

/// `at(x, first)`, `at(x, last)`, `at(x, before_last)`: one position of the row.
pub(super) fn at(e: &mut Eval<'_, '_>, args: &[ExprSyntax], span: Span) -> Option<ExpressionValue> {
    let [x, place] = args else {
        return e.fail(Kind::WrongArity, span, "`at` takes a value and a place: `at(x, last)`", "");
    };
    let at = match place.as_name().as_ref().map(|name| name.text.as_str()) {
        Some("first") => At::First,
        Some("last") => At::Last,
        Some("before_last") => At::BeforeLast,
        _ => {
            let places = ["first", "last", "before_last"];
            let hint = place.as_name().map(|name| did_you_mean(&name.text, places)).unwrap_or_default();
            return e.fail(Kind::WrongType, place.span, "a place is `first`, `last` or `before_last`", hint);
        }
    };
    let (item, place) = (e.expr(x, None)?, x.span);
    let x = e.array(item, place)?;
    losses::without_labels(e, &x, ("`at`", place))?;
    along(e, x, ("at", span), |l, value| l.one(Op::Position, &[value], Attrs::of(attribute::AT, at)))
}

/// The array of an argument; it is one of numbers.
pub(super) fn arg(e: &mut Eval<'_, '_>, c: &Application<'_>, n: usize) -> Option<EquationArray> {
    let x = e.array(c.args[n].clone(), c.places[n])?;
    if x.truth {
        let message = format!("`{}` takes numbers", c.block.slot);
        let diagnostic = Diagnostic::new(Kind::WrongType, c.places[n], message);
        return e.report(diagnostic.label(format!("this is {}", x.describe())).help(NUMBERS));
    }
    losses::takes(e, &x, c, n)?;
    Some(x)
}

/// An argument that has positions.
fn positions(e: &mut Eval<'_, '_>, c: &Application<'_>, n: usize) -> Option<EquationArray> {
    let x = arg(e, c, n)?;
    if x.axes.first() != Some(&ArrayAxis::Positions) || !x.rows {
        let message = format!("`{}` goes along positions, and {} has none", c.block.slot, x.describe());
        return e.fail(Kind::WrongType, c.places[n], message, "");
    }
    Some(x)
}

/// The constant whole number of an argument.
pub(super) fn count(e: &mut Eval<'_, '_>, c: &Application<'_>, n: usize) -> Option<usize> {
    match &c.args[n] {
        ExpressionValue::Constant(Constant::Int(v)) if *v >= 0 => Some(*v as usize),
        other => {
            let (name, described) = (c.block.feature.values[n].clone(), other.describe());
            let message = format!("`{name}` of `{}` is a whole number from 0 on", c.block.slot);
            let diagnostic =
                Diagnostic::new(Kind::WrongType, c.places[n], message).label(format!("this is {described}"));
            let real = matches!(other, ExpressionValue::Constant(Constant::Float(_)));
            e.report(if real { diagnostic.help("`floor(a / b)` rounds down") } else { diagnostic })
        }
    }
}

/// The known number of channels of an array.
pub(super) fn wide(e: &mut Eval<'_, '_>, x: &EquationArray, c: &Application<'_>) -> Option<usize> {
    match x.channels() {
        Some(Dim::Fixed(n)) => Some(*n),
        _ => {
            let none = if x.channels().is_some() { "as many as the task says" } else { "none" };
            let message = format!("`{}` needs channels, and {} has {none}", c.block.slot, x.describe());
            e.fail(Kind::WrongType, c.places[0], message, "")
        }
    }
}

fn linear(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let x = arg(e, c, 0)?;
    wide(e, &x, c)?;
    // Without a task the number of classes is a name.
    let to = c.block.int("to").map_or_else(|| Dim::sym(c.block.word("to").unwrap_or_default()), Dim::Fixed);
    let bias = c.block.truth("bias").unwrap_or(true);
    let name = e.fresh(c.name.unwrap_or("linear"), ".weight");
    let init = start(&c.block);
    let value = e.node(c.span, |l| l.linear_with(x.value, &name, to.clone(), &init, bias))?;
    let axes = x.units().iter().cloned().chain([ArrayAxis::Channels(to)]).collect();
    Some(ExpressionValue::Array(EquationArray { value, axes, rows: x.rows, truth: false, labels: false }))
}

fn number(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let x = arg(e, c, 0)?;
    wide(e, &x, c)?;
    let bias = c.block.truth("bias").unwrap_or(true);
    if !bias && c.block.float("start").is_some() {
        let message = "a number without a bias has no `start` of it";
        return e.fail(Kind::ExclusiveFields, c.span, message, "");
    }
    let name = e.fresh(c.name.unwrap_or("number"), ".weight");
    let init = start(&c.block);
    let value = e.node(c.span, |l| {
        let y = l.linear_with(x.value, &name, Dim::Fixed(1), &init, bias)?;
        l.one(Op::Squeeze, &[y], Attrs::new())
    })?;
    Some(ExpressionValue::Array(EquationArray {
        value,
        axes: x.units().to_vec(),
        rows: x.rows,
        truth: false,
        labels: false,
    }))
}

fn norm(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let x = arg(e, c, 0)?;
    let channels = wide(e, &x, c)?;
    let truth = |name: &str| c.block.truth(name).unwrap_or(true);
    let (rms, weight, bias) = (c.block.word("kind") == Some("rms"), truth("weight"), truth("bias"));
    let parts = c.block.int("parts").filter(|n| *n > 1);
    if let Some(n) = parts.filter(|n| channels % n != 0) {
        let message = format!("{} can't be cut into {n} equal parts", x.describe());
        return e.fail(Kind::Indivisible, c.span, message, format!("{channels} channels are not a multiple of {n}"));
    }
    if !rms && (!weight || parts.is_some()) {
        let message = "only `kind: rms` can do without a weight, or norm parts of the channels";
        return e.fail(Kind::ExclusiveFields, c.span, message, "this is a layer norm");
    }
    let name = e.fresh(c.name.unwrap_or("norm"), ".weight");
    let dims = [Dim::Fixed(channels / parts.unwrap_or(1))];
    let learned = e.node(c.span, |l| {
        l.scoped(&name, |l| {
            let gain = if weight { Some(l.param("weight", dims.clone(), "ones".into())?) } else { None };
            let bias = if bias && !rms { Some(l.param("bias", dims, "zeros".into())?) } else { None };
            Ok([gain, bias].into_iter().flatten().collect::<Vec<_>>())
        })
    })?;
    let (op, atomic, default) = if rms { (Op::RmsNorm, "rms_norm", 1e-6) } else { (Op::LayerNorm, "layer_norm", 1e-5) };
    let eps = c.block.float("eps").unwrap_or(default);
    if parts.is_none() && learned.len() == if rms { 1 } else { 2 } {
        let axes = vec![ArrayAxis::Channels(Dim::Fixed(channels))];
        let weights = learned.iter().map(|value| EquationArray {
            value: *value,
            axes: axes.clone(),
            rows: false,
            truth: false,
            labels: false,
        });
        let args = std::iter::once(x).chain(weights).map(ExpressionValue::Array).collect();
        return e.atomic(atomic, args, ("eps", FieldValue::Float(eps)), c.span);
    }
    let operands: Vec<Value> = std::iter::once(x.value).chain(learned).collect();
    let attrs = Attrs::of(attribute::EPS, eps).with_some(attribute::PARTS, parts);
    let value = e.node(c.span, |l| l.one(op, &operands, attrs))?;
    Some(ExpressionValue::Array(EquationArray { value, ..x }))
}

fn dropout(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let x = arg(e, c, 0)?;
    let p = match &c.args[1] {
        ExpressionValue::Constant(Constant::None) => 0.0,
        ExpressionValue::Constant(constant) => constant.number().unwrap_or(f64::NAN),
        _ => f64::NAN,
    };
    if !DROPOUT.hold(p) {
        let message = format!("the probability of `dropout` is a number, {}", DROPOUT.describe());
        return e.fail(Kind::OutOfRange, c.places[1], message, format!("this is {}", c.args[1].describe()));
    }
    let tied = c.block.truth("tied") == Some(true);
    let value =
        e.node(c.span, |l| by_position(l, &x, |l, x| if tied { l.tied_dropout(x, p) } else { l.dropout(x, p) }))?;
    Some(ExpressionValue::Array(EquationArray { value, ..x }))
}

fn cat(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let mut all = vec![];
    for n in 0..c.args.len() {
        all.push(arg(e, c, n)?);
    }
    e.of_one_sequence(&all, c.span)?;
    let Some(mut out) = all.first().cloned().filter(|_| all.len() > 1) else {
        return e.fail(Kind::WrongArity, c.span, "`cat` takes two values or more", "");
    };
    for next in &all[1..] {
        if next.units() != out.units() || next.rows != out.rows || next.channels().is_none() || out.channels().is_none()
        {
            let message =
                format!("`cat` of {} and {}: all axes but the channels must agree", out.describe(), next.describe());
            let spread = next.units().is_empty() != out.units().is_empty();
            let help =
                if spread { "a value is spread over the positions of x by adding it: `zeros(x) + y`" } else { "" };
            return e.report(Diagnostic::new(Kind::WrongType, c.span, message).help(help));
        }
        let total = wide(e, &out, c)? + wide(e, next, c)?;
        if !AXIS.hold(total as f64) {
            let message = format!("`cat` gives {total} channels; the most are {}", AXIS.high);
            return e.fail(Kind::OutOfRange, c.span, message, "");
        }
        let value = e.node(c.span, |l| l.one(Op::Concat, &[out.value, next.value], Attrs::new()))?;
        let axes = out.units().iter().cloned().chain([ArrayAxis::Channels(Dim::Fixed(total))]).collect();
        out = EquationArray { value, axes, rows: out.rows, truth: false, labels: false };
    }
    Some(ExpressionValue::Array(out))
}

fn channels(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let x = arg(e, c, 0)?;
    let (start, width, all) = (count(e, c, 1)?, count(e, c, 2)?, wide(e, &x, c)?);
    if width == 0 {
        return e.fail(Kind::OutOfRange, c.places[2], "`count` of `channels` is a whole number from 1 on", "this is 0");
    }
    if start.saturating_add(width) > all {
        let message = format!("{width} channels from channel {start} on, of {}", x.describe());
        return e.fail(Kind::OutOfRange, c.span, message, format!("there are {all}, counted from 0"));
    }
    if width == all { Some(ExpressionValue::Array(x)) } else { e.part(&x, start, width, c.span) }
}

fn parts(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let x = arg(e, c, 0)?;
    let (n, all) = (count(e, c, 1)?, wide(e, &x, c)?);
    if n < 2 || all % n != 0 {
        let message = format!("{} can't be cut into {n} equal parts", x.describe());
        let label =
            if n < 2 { "2 parts or more".to_owned() } else { format!("{all} channels are not a multiple of {n}") };
        return e.fail(Kind::Indivisible, c.span, message, label);
    }
    Some(ExpressionValue::Several((0..n).map(|k| ExpressionValue::Part(x.clone(), k * (all / n), all / n)).collect()))
}

/// An op over the second axis of the graph: the positions or the slots.
fn along(
    e: &mut Eval<'_, '_>,
    x: EquationArray,
    (word, span): (&str, Span),
    op: impl FnOnce(&mut Lower<'_>, Value) -> Result<Value, InvalidNode>,
) -> Option<ExpressionValue> {
    if x.units().is_empty() || !x.rows {
        let message = format!("`{word}` goes along positions, and {} has none", x.describe());
        return e.fail(Kind::WrongType, span, message, "");
    }
    let value = e.node(span, |l| op(l, x.value))?;
    let axes = x.axes[1..].to_vec();
    Some(ExpressionValue::Array(EquationArray { value, axes, rows: true, truth: false, labels: x.labels }))
}

fn over() -> StatementField {
    let doc = "the axis: `pos`, the positions or the slots of a memory, `stream`, the streams, `width`, the channels, or `last`, the channels where there are some, else the streams, else the positions; positions where there are some, if left out";
    optional_word("over", &["pos", "stream", "width", "last"], doc)
}

fn side() -> StatementField {
    word("side", &["left", "right"], "left", "the side of a position that it sees")
}

fn lag() -> StatementField {
    int("lag", Default::Int(0), Bounds::closed(0.0, 1.0), "distance of the nearest position that it sees")
}

fn direction() -> StatementField {
    let doc = "whether a position sees the whole row, or only the positions up to itself";
    word("direction", &["both", "forward"], "both", doc)
}

fn pool(e: &mut Eval<'_, '_>, c: &Application<'_>, op: Op, by: Reduction) -> Option<ExpressionValue> {
    if c.block.word("over") == Some("stream") {
        return streams::over(e, c, by);
    }
    let x = arg(e, c, 0)?;
    if c.block.word("over") == Some("last") && x.streams().is_some() && x.channels().is_none() {
        return streams::over(e, c, by);
    }
    let positions = match c.block.word("over") {
        Some("last") => x.channels().is_none(),
        Some(word) => word == "pos",
        None => !x.units().is_empty(),
    };
    if positions && x.labels && op == Op::Mean && e.l.each {
        let value = e.node(c.span, |l| losses::mean_of_labelled(l, x.value))?;
        return Some(ExpressionValue::Array(EquationArray { value, axes: vec![], ..x }));
    }
    if positions {
        return along(e, x, (&c.block.slot, c.places[0]), |l, value| l.one(op, &[value], Attrs::new()));
    }
    if x.channels().is_none() {
        wide(e, &x, c)?;
    }
    let value = e.node(c.span, |l| {
        let y = l.one(Op::Reduce, &[x.value], Attrs::of(attribute::BY, by))?;
        l.one(Op::Squeeze, &[y], Attrs::new())
    })?;
    Some(ExpressionValue::Array(EquationArray { value, axes: x.units().to_vec(), truth: false, ..x }))
}

fn places(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let x = positions(e, c, 0)?;
    let value = e.node(c.span, |l| l.one(Op::Positions, &[x.value], Attrs::new()))?;
    Some(ExpressionValue::Array(EquationArray { value, axes: vec![ArrayAxis::Positions], ..x }))
}

fn sinusoid(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let n = match (&c.args[0], e.some_value()) {
        (ExpressionValue::Constant(constant), Some(like)) if constant.number().is_some() => {
            let number = constant.number().unwrap_or_default();
            let value = e.node(c.span, |l| l.full(like, number, 0))?;
            EquationArray { value, axes: vec![], rows: false, truth: false, labels: false }
        }
        _ => arg(e, c, 0)?,
    };
    if n.channels().is_some() || n.streams().is_some() {
        let message = format!("`sinusoid` takes one number, or one for every position, and this is {}", n.describe());
        return e.fail(Kind::WrongType, c.places[0], message, "");
    }
    let width = c.block.int("to").unwrap_or(e.l.width);
    let layout = if c.block.word("layout") == Some("half") { Layout::Half } else { Layout::Pairs };
    let base = c.block.float("base").unwrap_or(attribute::USUAL_BASE);
    let attrs = Attrs::of(attribute::WIDTH, width)
        .with_some(attribute::LAYOUT, Some(layout).filter(|layout| *layout != Layout::Pairs))
        .with_some(attribute::BASE, Some(base).filter(|base| *base != 10_000.0));
    let value = e.node(c.span, |l| l.one(Op::Sinusoid, &[n.value], attrs))?;
    let axes = n.axes.iter().cloned().chain([ArrayAxis::Channels(Dim::Fixed(width))]).collect();
    Some(ExpressionValue::Array(EquationArray { value, axes, ..n }))
}

fn shift(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let (x, by) = (positions(e, c, 0)?, count(e, c, 1)?);
    if by == 0 {
        return Some(ExpressionValue::Array(x));
    }
    let attrs = facing(&c.block).with(attribute::LAG, by);
    let value = e.node(c.span, |l| l.one(Op::Shift, &[x.value], attrs))?;
    Some(ExpressionValue::Array(EquationArray { value, ..x }))
}

/// An argument that attention goes along, the history of one, or one as it is at all positions: queries or keys.
fn attends(e: &mut Eval<'_, '_>, c: &Application<'_>, n: usize) -> Option<(EquationArray, bool)> {
    let (x, history) = match &c.args[n] {
        ExpressionValue::History(x) if n > 0 => (x.clone(), true),
        ExpressionValue::Whole(x) if n > 0 => (x.clone(), false),
        _ => (arg(e, c, n)?, false),
    };
    if history {
        e.remembers(c.places[n])?;
        e.of_steps(&x, c.places[n])?;
        if c.block.word("position") == Some("relative_xl") {
            let message = "distances to the keys of earlier steps are not known to `relative_xl`";
            return e.fail(Kind::ExclusiveFields, c.span, message, "write `position: rope`, or another one");
        }
        if stops(&c.block) {
            let message = "gradients of keys with a history don't `stop` at some of them";
            return e.fail(Kind::ExclusiveFields, c.span, message, "`history(stop(x))` stops those of all");
        }
    }
    wide(e, &x, c)?;
    if x.streams().is_some() {
        let message = format!("`{}` goes along positions, and {} has streams", c.block.slot, x.describe());
        let help = "`sum(x) { over: stream }` makes one state of them, `merge(x)` puts them side by side";
        return e.report(Diagnostic::new(Kind::WrongType, c.places[n], message).help(help));
    }
    if x.units().is_empty() || !x.rows {
        let message = format!("`{}` goes along positions, and {} has none", c.block.slot, x.describe());
        return e.fail(Kind::WrongType, c.places[n], message, "");
    }
    Some((x, history))
}

/// Reports a rule over several settings of attention with heads of a width that is broken.
fn attention_rules(e: &mut Eval<'_, '_>, c: &Application<'_>, width: usize) -> Option<()> {
    if let Some((field, kind, message, _)) = crate::feature::broken_attention(&c.block, width) {
        return e.fail(kind, c.span, message, format!("see `{field}`"));
    }
    let place = |field: &str| match c.block.fields.get(field).map(|setting| &setting.origin) {
        Some(Origin::Written(span)) => *span,
        _ => c.span,
    };
    let most = e.l.steps.as_ref().and_then(|steps| steps.number().most).map(|steps| Expr::Int(steps as i64));
    let faults = crate::feature::score_faults(&c.block, most.as_ref(), &place);
    let found = faults.len();
    for diagnostic in faults {
        let _: Option<()> = e.report(diagnostic);
    }
    (found == 0).then_some(())
}

fn attention(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let (x, _) = attends(e, c, 0)?;
    let (y, history) = if c.args.len() > 1 { attends(e, c, 1)? } else { (x.clone(), false) };
    attention_rules(e, c, c.block.int("head_width")?)?;
    e.reads_fit(&c.block, [&x, &y], c.span)?;
    let name = e.fresh(c.name.unwrap_or("attention"), ".query.weight");
    let value = e.node(c.span, |l| {
        let stopped = if stops(&c.block) { Some(l.one(Op::Detach, &[y.value], Attrs::new())?) } else { None };
        l.scoped(&name, |l| attended(l, &c.block, (x.value, y.value), stopped, history))
    })?;
    let width = ArrayAxis::Channels(Dim::Fixed(e.l.width));
    let axes = x.units().iter().cloned().chain([width]).collect();
    Some(ExpressionValue::Array(EquationArray { value, axes, rows: true, truth: false, labels: false }))
}

fn dot_product_attention(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let ((q, _), (k, of_keys), (v, of_values)) = (attends(e, c, 0)?, attends(e, c, 1)?, attends(e, c, 2)?);
    if of_keys != of_values {
        let message = "keys and values of `dot_product_attention` belong together, and only one of them has a history";
        let help = "write `dot_product_attention(q, history(k), history(v))`";
        return e.report(Diagnostic::new(Kind::WrongType, c.span, message).help(help));
    }
    let heads = c.block.int("heads")?;
    let (channels, read) = (wide(e, &q, c)?, wide(e, &k, c)?);
    if channels % heads != 0 {
        let message = format!("{channels} channels of queries can't be cut into {heads} equal heads");
        return e.fail(Kind::Indivisible, c.span, message, "see `heads`");
    }
    attention_rules(e, c, channels / heads)?;
    e.reads_fit(&c.block, [&q, &k], c.span)?;
    let (key_heads, valued) = (c.block.int("key_heads").unwrap_or(heads), wide(e, &v, c)?);
    let wanted = key_heads * (channels / heads);
    e.of_one_sequence(&[k.clone(), v.clone()], c.span)?;
    if k.units() != v.units() || read != wanted || valued % key_heads != 0 {
        let message = format!("`dot_product_attention` of {}, {} and {}", q.describe(), k.describe(), v.describe());
        let help = format!(
            "heads of {} channels take keys of {wanted}, and values of a multiple of {key_heads} at the same positions",
            channels / heads
        );
        return e.report(Diagnostic::new(Kind::WrongType, c.span, message).help(help));
    }
    let name = e.fresh(c.name.unwrap_or("dot_product_attention"), "");
    let operands = [q.value, k.value, v.value];
    let value = e.node(c.span, |l| l.scoped(&name, |l| dot_product(l, &c.block, operands, of_keys)))?;
    let channels = ArrayAxis::Channels(Dim::Fixed(valued / key_heads * heads));
    let axes = q.units().iter().cloned().chain([channels]).collect();
    Some(ExpressionValue::Array(EquationArray { value, axes, ..q }))
}

fn geometric_attention(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let mut all = vec![];
    for n in 0..c.args.len() {
        all.push(arg(e, c, n)?);
    }
    e.of_one_sequence(&all, c.span)?;
    let heads = c.block.int("heads")?;
    let queries = all[0].clone();
    let channels = wide(e, &queries, c)?;
    if channels % heads != 0 {
        let message = format!("{channels} channels of queries can't be cut into {heads} equal heads");
        return e.fail(Kind::Indivisible, c.span, message, "see `heads`");
    }
    let alike = all[..3].iter().all(|x| x.axes == queries.axes && x.rows) && queries.units().len() == 1;
    let sided = |sides: &EquationArray| {
        sides.rows && sides.units() == queries.units() && sides.channels() == Some(&Dim::Fixed(2 * heads))
    };
    if !alike || !all[3..].iter().all(sided) {
        let types: Vec<String> = all.iter().map(EquationArray::describe).collect();
        let message = format!("`geometric_attention` of {}", types.join(", "));
        let help = format!(
            "queries, keys and values have the same positions and channels, and sides two numbers for each of {heads} heads"
        );
        return e.report(Diagnostic::new(Kind::WrongType, c.span, message).help(help));
    }
    let operands: Vec<Value> = all.iter().map(|x| x.value).collect();
    let attrs = Attrs::of(attribute::HEADS, heads).with_some(attribute::SCALE, c.block.float("scale"));
    let value = e.node(c.span, |l| l.one(Op::GeometricAttention, &operands, attrs))?;
    Some(ExpressionValue::Array(EquationArray { value, ..queries }))
}

fn top_keys(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let (q, k) = (arg(e, c, 0)?, arg(e, c, 1)?);
    e.of_one_sequence(&[q.clone(), k.clone()], c.span)?;
    let (heads, count) = (c.block.int("heads")?, c.block.int("of")?);
    let channels = wide(e, &q, c)?;
    if channels % heads != 0 {
        let message = format!("{channels} channels of queries can't be cut into {heads} equal heads");
        return e.fail(Kind::Indivisible, c.span, message, "see `heads`");
    }
    let along = |x: &EquationArray| matches!(x.axes[..], [ArrayAxis::Positions, ArrayAxis::Channels(_)]) && x.rows;
    if !along(&q) || k.axes != q.axes || !k.rows {
        let message = format!("`top_keys` of {} and {}", q.describe(), k.describe());
        let help = "queries and keys have the same positions and channels";
        return e.report(Diagnostic::new(Kind::WrongType, c.span, message).help(help));
    }
    let mask = if c.block.word("direction") == Some("forward") { Mask::Causal } else { Mask::All };
    let attrs = Attrs::of(attribute::HEADS, heads).with(attribute::COUNT, count).with(attribute::MASK, mask);
    let mut operands = vec![q.value, k.value];
    if let Some(item) = c.args.get(2) {
        let among = e.condition(item.clone(), "`candidates` of `top_keys`", c.places[2])?;
        losses::without_labels(e, &among, ("`top_keys`", c.places[2]))?;
        e.of_one_sequence(&[q.clone(), among.clone()], c.span)?;
        if among.axes != [ArrayAxis::Positions] || !among.rows {
            return e.differ(&[q, among], c.span);
        }
        operands.push(among.value);
    }
    let value = e.node(c.span, |l| l.one(Op::TopKeys, &operands, attrs))?;
    let axes = vec![ArrayAxis::Positions, ArrayAxis::Channels(Dim::Fixed(heads * count))];
    Some(ExpressionValue::Array(EquationArray { value, axes, ..q }))
}

/// The side that a word looks at along the row.
fn facing(block: &Block) -> Attrs {
    Attrs::of(attribute::SIDE, if block.word("side") == Some("right") { Side::Right } else { Side::Left })
}

fn prefix(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let (x, mut vectors) = (positions(e, c, 0)?, arg(e, c, 1)?);
    let (width, all) = (wide(e, &x, c)?, vectors.channels().and_then(Dim::fixed).unwrap_or(0));
    if !matches!(vectors.axes[..], [ArrayAxis::Channels(_)]) || all == 0 || all % width != 0 {
        let message = format!("`vectors` of `prefix` is one vector of {width} channels, or of a multiple of them");
        return e.fail(Kind::WrongType, c.places[1], message, format!("this is {}", vectors.describe()));
    }
    if !vectors.rows {
        vectors.value = e.node(c.span, |l| l.one(Op::BroadcastBatch, &[vectors.value, x.value], Attrs::new()))?;
    }
    let value = e.node(c.span, |l| l.one(Op::Prefix, &[x.value, vectors.value], Attrs::new()))?;
    Some(ExpressionValue::Array(EquationArray { value, ..x }))
}

fn drop_prefix(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let (mut x, count) = (positions(e, c, 0)?, count(e, c, 1)?);
    wide(e, &x, c)?;
    // All positions of one `prefix` after the other, the last one first.
    let mut rest = count;
    while rest > 0 {
        let there = e.l.graph().ty(x.value).ragged().and_then(unprefixed).map_or(0, |(count, _)| count);
        if there == 0 || there > rest {
            let message = match there {
                0 => "`drop` takes away what `prefix` has put before a row, and there is nothing before this one"
                    .to_owned(),
                there => {
                    format!("`prefix` has put {there} positions before this row, and `drop` takes away all of them")
                }
            };
            return e.fail(Kind::OutOfRange, c.span, message, format!("these would be {rest}"));
        }
        x.value = e.node(c.span, |l| l.one(Op::Unprefix, &[x.value], Attrs::of(attribute::COUNT, there)))?;
        rest -= there;
    }
    Some(ExpressionValue::Array(x))
}

fn transpose(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let length = c.block.int("length");
    if c.args.len() == 1 {
        let x = positions(e, c, 0)?;
        wide(e, &x, c)?;
        let Some(length) = length else {
            let message = "`transpose` needs the number of positions of a row";
            return e.fail(Kind::MissingField, c.span, message, "write `transpose(x) { length: 81 }`");
        };
        let value = e.node(c.span, |l| l.one(Op::Transpose, &[x.value], Attrs::of(attribute::COUNT, length)))?;
        let axes = vec![ArrayAxis::Slots, ArrayAxis::Channels(Dim::Fixed(length))];
        return Some(ExpressionValue::Array(EquationArray { value, axes, ..x }));
    }
    let (x, like) = (arg(e, c, 0)?, positions(e, c, 1)?);
    if length.is_some() || !matches!(x.axes[..], [ArrayAxis::Slots, ArrayAxis::Channels(_)]) || !x.rows {
        let message = format!("`transpose(y, x)` turns back what `transpose` has turned, and this is {}", x.describe());
        let label = if length.is_some() { "it takes no `length`" } else { "" };
        return e.fail(Kind::WrongType, c.places[0], message, label);
    }
    let value = e.node(c.span, |l| l.one(Op::TransposeBack, &[x.value, like.value], Attrs::new()))?;
    let axes = EquationArray::of(e.l.graph(), value).axes;
    Some(ExpressionValue::Array(EquationArray { value, axes, ..x }))
}

fn embedding(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let ExpressionValue::Ids(ids, axes, things) = c.args[0].clone() else {
        let message = "`embedding` takes the `tokens`, or `given(..) { ids: 10 }`";
        return e.fail(Kind::WrongType, c.places[0], message, format!("this is {}", c.args[0].describe()));
    };
    let to = c.block.int("to").unwrap_or(e.l.width);
    let name = e.fresh(c.name.unwrap_or("embedding"), ".table");
    let init = Attr::call("normal", [c.block.float("std").unwrap_or(0.02).into()]);
    let value = e.node(c.span, |l| {
        let table = l.scoped(&name, |l| l.vectors("table", [things, Dim::Fixed(to)], init))?;
        l.one(Op::Embed, &[ids, table], Attrs::new())
    })?;
    let axes = [axes, vec![ArrayAxis::Channels(Dim::Fixed(to))]].concat();
    Some(ExpressionValue::Array(EquationArray { value, axes, rows: true, truth: false, labels: false }))
}

fn given(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let Some(name) = c.name.filter(|name| !INPUTS.contains(name)) else {
        let message = match c.name {
            Some(name) => format!("`{name}` is the name of what every batch has"),
            None => "a value that comes with the examples has the name of its equation".to_owned(),
        };
        return e.fail(Kind::WrongType, c.span, message, "write it alone, as `start = given(x)`");
    };
    let like = match &c.args[0] {
        ExpressionValue::Constant(constant) if constant.number().is_some() => None,
        _ => Some(arg(e, c, 0)?),
    };
    if like.as_ref().is_some_and(|like| !like.rows) {
        let message = "what is given has the type of a value of the rows, and this is the same for all";
        return e.fail(Kind::WrongType, c.places[0], message, "");
    }
    let axes = like.as_ref().map_or(vec![], |like| like.axes.clone());
    let dims = like.map_or_else(|| vec![Dim::sym(BATCH)], |like| e.l.graph().ty(like.value).dims().to_vec());
    let is_whole = |dims: &[Dim]| match dims {
        [batch, Dim::Sym(axis), ..] => *batch == Dim::sym(BATCH) && unframed(axis).0 == LENGTH,
        [batch, ..] => *batch == Dim::sym(BATCH),
        [] => false,
    };
    if !is_whole(&dims) {
        let message =
            "what is given belongs to the rows of the examples and to their tokens, and this to parts of them";
        return e.fail(Kind::WrongType, c.places[0], message, "");
    }
    let things = c.block.int("ids");
    if things.is_some() && !matches!(axes[..], [] | [ArrayAxis::Positions]) {
        let message = "`ids` are one for each row or for each position";
        return e.fail(Kind::WrongType, c.places[0], message, format!("this is {}", super::item::describe(&axes)));
    }
    let kind = if things.is_some() { Elem::Index } else { Elem::Real };
    let value = e.node(c.span, |l| l.given(name, &Type::Tensor(kind, dims)))?;
    let Some(value) = value else {
        let message = format!("`{name}` comes with the examples, and has another type elsewhere");
        return e.fail(Kind::WrongType, c.span, message, "what is given under one name is one value");
    };
    Some(match things {
        Some(things) => ExpressionValue::Ids(value, axes, Dim::Fixed(things)),
        None => ExpressionValue::Array(EquationArray { value, axes, rows: true, truth: false, labels: false }),
    })
}

/// A convolution of every channel along the row, by parameters.
fn scan(e: &mut Eval<'_, '_>, c: &Application<'_>, kernel: ScanKernel) -> Option<ExpressionValue> {
    let x = positions(e, c, 0)?;
    wide(e, &x, c)?;
    let mut operands = vec![x.value];
    for n in 1..c.args.len() {
        operands.push(weights(e, c, n)?.value);
    }
    let held = (c.block.word("discretisation") == Some("zoh")).then_some(Discretisation::Held);
    let lag = c.block.int("lag").unwrap_or(0);
    let attrs = facing(&c.block)
        .with(attribute::KERNEL, kernel)
        .with(attribute::LAG, lag)
        .with_some(attribute::DISCRETISATION, held);
    let value = e.node(c.span, |l| l.one(Op::Scan, &operands, attrs))?;
    Some(ExpressionValue::Array(EquationArray { value, ..x }))
}

/// An argument that is the same for all rows.
pub(super) fn weights(e: &mut Eval<'_, '_>, c: &Application<'_>, n: usize) -> Option<EquationArray> {
    let x = arg(e, c, n)?;
    if x.rows {
        let message = format!("`{}` of `{}` are weights, as `learn[width]`", c.block.feature.values[n], c.block.slot);
        return e.fail(Kind::WrongType, c.places[n], message, "every row has its own of this");
    }
    Some(x)
}

/// An argument with one number per position.
fn existence(e: &mut Eval<'_, '_>, c: &Application<'_>, n: usize) -> Option<EquationArray> {
    let x = positions(e, c, n)?;
    if x.axes.len() > 1 {
        let message = format!("`{}` of `{}` is one number per position", c.block.feature.values[n], c.block.slot);
        return e.fail(Kind::WrongType, c.places[n], message, format!("this is {}", x.describe()));
    }
    Some(x)
}

fn neighbours(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let (x, exist) = (positions(e, c, 0)?, existence(e, c, 1)?);
    e.of_one_sequence(&[x.clone(), exist.clone()], c.span)?;
    let value = e.node(c.span, |l| l.one(Op::Neighbours, &[x.value, exist.value], facing(&c.block)))?;
    Some(ExpressionValue::Array(EquationArray { value, ..x }))
}

fn unembed(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let x = arg(e, c, 0)?;
    let Some(table) = e.l.table else {
        return e.fail(Kind::WrongType, c.span, "there is no table of tokens here", "");
    };
    let tokens = e.l.graph().ty(table).dims()[0].clone();
    let value = e.node(c.span, |l| l.one(Op::Linear, &[x.value, table], Attrs::new()))?;
    let axes = x.units().iter().cloned().chain([ArrayAxis::Channels(tokens)]).collect();
    Some(ExpressionValue::Array(EquationArray { value, axes, rows: x.rows, truth: false, labels: false }))
}

fn top(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let x = arg(e, c, 0)?;
    let along = x.axes == [ArrayAxis::Positions];
    if x.channels().and_then(Dim::fixed).is_none() && !along {
        let message =
            format!("`top` chooses among channels, or among positions with a number each, not of {}", x.describe());
        return e.fail(Kind::WrongType, c.places[0], message, "");
    }
    let rule = c.block.expr("of");
    if !along && rule.is_some_and(|rule| rule.uses(Var::Length)) {
        let message = "`length` is that of a row whose positions are chosen, and these are channels";
        return e.fail(
            Kind::WrongType,
            c.span,
            message,
            format!("`{}` is {}", c.block.feature.values[0], x.describe()),
        );
    }
    let count = c.block.int("of").unwrap_or(1);
    if let Some(all) = x.channels().and_then(Dim::fixed).filter(|all| count > *all) {
        let message = format!("`of` is {count}, and there are {all} channels");
        return e.fail(Kind::OutOfRange, c.span, message, "");
    }
    let (attrs, step) = e.choices(rule, count);
    let mut operands = vec![x.value];
    if let Some(item) = c.args.get(1) {
        let among = e.condition(item.clone(), "`candidates` of `top`", c.places[1])?;
        losses::without_labels(e, &among, ("`top`", c.places[1]))?;
        e.of_one_sequence(&[x.clone(), among.clone()], c.span)?;
        if among.axes != x.axes || among.rows != x.rows {
            return e.differ(&[x, among], c.span);
        }
        operands.push(among.value);
    }
    operands.extend(step);
    let value = e.node(c.span, |l| l.one(Op::Top, &operands, attrs))?;
    Some(ExpressionValue::Array(EquationArray { value, truth: true, ..x }))
}

fn channel(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let x = e.array(c.args[0].clone(), c.places[0])?;
    losses::takes(e, &x, c, 0)?;
    let all = wide(e, &x, c)?;
    let axes = x.units().to_vec();
    let value = match &c.args[1] {
        ExpressionValue::Step(step) => {
            let most = step.most.filter(|_| step.before == Some(0));
            if !x.rows || axes.len() > 1 || most.is_none_or(|most| most > all) {
                let message = format!("{} has no channel for every step", x.describe());
                let label = match most {
                    Some(most) => format!("there are {most} steps"),
                    None => "the number of steps is no constant".to_owned(),
                };
                return e.fail(Kind::WrongType, c.span, message, label);
            }
            e.node(c.span, |l| l.one(Op::SlotGet, &[x.value, step.value], Attrs::new()))?
        }
        _ => {
            let n = count(e, c, 1)?;
            if n >= all {
                let message = format!("{} has no channel {n}", x.describe());
                return e.fail(Kind::OutOfRange, c.places[1], message, format!("there are {all}, counted from 0"));
            }
            e.node(c.span, |l| {
                let one = l.channels(x.value, n, 1)?;
                l.one(Op::Squeeze, &[one], Attrs::new())
            })?
        }
    };
    Some(ExpressionValue::Array(EquationArray { value, axes, ..x }))
}

fn running_sum(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let x = arg(e, c, 0)?;
    let along = matches!(x.axes[..], [ArrayAxis::Positions, ..] | [ArrayAxis::Slots | ArrayAxis::Channels(_)]);
    if !along || !x.rows {
        let message = format!("`running_sum` goes along positions or channels, and {} has neither", x.describe());
        return e.fail(Kind::WrongType, c.places[0], message, "");
    }
    let value = e.node(c.span, |l| l.one(Op::RunningSum, &[x.value], facing(&c.block)))?;
    Some(ExpressionValue::Array(EquationArray { value, truth: false, labels: false, ..x }))
}

/// What has a number for each one of `x`, made position by position: the channels of all streams are those of their position.
fn by_position(
    l: &mut Lower<'_>,
    x: &EquationArray,
    make: impl FnOnce(&mut Lower<'_>, Value) -> Result<Value, InvalidNode>,
) -> Result<Value, InvalidNode> {
    match x.streams().filter(|_| x.channels().is_some()) {
        Some(count) => {
            let merged = l.one(Op::Merge, &[x.value], Attrs::new())?;
            let made = make(l, merged)?;
            l.one(Op::Split, &[made], Attrs::of(attribute::PARTS, count))
        }
        None => make(l, x.value),
    }
}

/// What stands for a draw in evaluation.
fn evaluation() -> StatementField {
    float(
        "evaluation",
        Default::Absent,
        Bounds::ANY,
        "what every number is in evaluation; drawn there, too, if left out",
    )
}

/// Numbers that are drawn.
fn drawn(e: &mut Eval<'_, '_>, c: &Application<'_>, op: Op, attrs: Attrs) -> Option<ExpressionValue> {
    let x = arg(e, c, 0)?;
    let attrs = attrs.with_some(attribute::EVALUATION, c.block.float("evaluation"));
    if !x.rows {
        let message = format!("`{}` draws numbers for every row, and this is the same for all", c.block.slot);
        return e.fail(Kind::WrongType, c.places[0], message, "");
    }
    let value = e.node(c.span, |l| {
        by_position(l, &x, |l, x| {
            let stream = l.stream();
            l.one(op, &[x], attrs.with(attribute::STREAM, stream))
        })
    })?;
    Some(ExpressionValue::Array(EquationArray { value, labels: false, ..x }))
}

fn full(e: &mut Eval<'_, '_>, c: &Application<'_>, number: f64) -> Option<ExpressionValue> {
    let x = arg(e, c, 0)?;
    let value = e.node(c.span, |l| l.full(x.value, number, x.rank()))?;
    Some(ExpressionValue::Array(EquationArray { value, ..x }))
}

fn stop(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let x = arg(e, c, 0)?;
    let value = e.node(c.span, |l| l.one(Op::Detach, &[x.value], Attrs::new()))?;
    Some(ExpressionValue::Array(EquationArray { value, ..x }))
}
