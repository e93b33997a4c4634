//! Training steps of the field's looped models beside PyTorch: the shipped specs, and batched programs of the same equations that read
//! the weights that rtc has drawn.

use std::path::Path;

use rtc_base::rng::Key;
use serde::Serialize;

use crate::child::Child;
use crate::device::Place;
use crate::failure::Failure;
use crate::measure::{Amount, worker};
use crate::peer::Peer;
use crate::protocol::{Field, Request, Rows};
use crate::report::{Spread, aligned};

/// The driver of the programs in PyTorch, beside this crate.
const DRIVER: &str = "field_peer.py";
/// Tokens, and classes of each of them.
const VOCABULARY: usize = 20;
/// Batches that are run in turn.
const BATCHES: u64 = 4;
/// Steps that do not count.
const WARM_UP: usize = 3;
/// How far losses of the same weights may be apart, relatively.
const EQUAL: f64 = 1e-5;

/// Rows of a batch, and tokens of a row.
#[derive(Clone, Copy, Debug)]
struct Size {
    batch: usize,
    length: usize,
}

const FULL: Size = Size { batch: 32, length: 100 };
const TINY: Size = Size { batch: 2, length: 8 };

/// A model of the table: a spec, with edits that make it 128 wide; none has dropout.
struct Model {
    /// How `--cases` and the table call it: the model of the spec, and the variant behind a colon.
    name: &'static str,
    text: &'static str,
    sets: &'static [&'static str],
    /// Whether every token is answered.
    each: bool,
}

const WIDE: &str = "embed.width=128";
const MOR: &str = include_str!("../../specs/mor.rt");

const MODELS: &[Model] = &[
    Model { name: "ouro", text: include_str!("../../specs/ouro.rt"), sets: &[WIDE], each: true },
    Model { name: "cotformer", text: include_str!("../../specs/cotformer.rt"), sets: &[WIDE], each: true },
    Model {
        name: "pondernet:all_steps",
        text: include_str!("../../specs/pondernet.rt"),
        sets: &[WIDE, "feedforward.hidden=512"],
        each: false,
    },
    Model {
        name: "act",
        text: include_str!("../../specs/act.rt"),
        sets: &[WIDE, "feedforward.hidden=512"],
        each: false,
    },
    Model { name: "trm", text: include_str!("../../specs/trm.rt"), sets: &[WIDE], each: true },
    Model { name: "loop_index:embedding", text: include_str!("../../specs/loop_index.rt"), sets: &[WIDE], each: true },
    Model { name: "mor_experts", text: MOR, sets: &[WIDE], each: true },
    Model { name: "mor_experts:half", text: MOR, sets: &[WIDE], each: true },
    Model { name: "mor_experts:quarter", text: MOR, sets: &[WIDE], each: true },
];

/// One model.
#[derive(Clone, Debug, Serialize)]
struct Line {
    model: &'static str,
    /// The largest relative difference of the losses of the same weights.
    difference: Option<f64>,
    rtc_ms: Vec<f64>,
    pytorch_ms: Vec<f64>,
}

/// All of them on a number of threads.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Table {
    threads: usize,
    lines: Vec<Line>,
}

/// What is measured.
pub(crate) struct Wanted<'a> {
    /// Models by name; all if there is none.
    pub(crate) cases: &'a [String],
    /// Short rows, to see that it works.
    pub(crate) quick: bool,
    /// How much is run.
    pub(crate) amount: Amount,
    /// The programs in PyTorch.
    pub(crate) peer: Option<&'a Peer>,
    /// A folder for weights.
    pub(crate) scratch: &'a Path,
}

/// Measures the table on so many threads.
///
/// # Errors
/// A model that is not in the table; losses that differ; programs that fail.
pub(crate) fn measure(wanted: &Wanted<'_>, threads: usize) -> Result<Table, Failure> {
    if let Some(unknown) = wanted.cases.iter().find(|case| MODELS.iter().all(|model| model.name != **case)) {
        let names: Vec<&str> = MODELS.iter().map(|model| model.name).collect();
        return Err(Failure::Arguments(format!("the table has no `{unknown}`, but {}", names.join(", "))));
    }
    let size = if wanted.quick { TINY } else { FULL };
    let mut table = Table { threads, lines: vec![] };
    for model in MODELS.iter().filter(|m| wanted.cases.is_empty() || wanted.cases.iter().any(|c| c == m.name)) {
        let line = one(model, size, wanted, threads)?;
        eprintln!("{}: {}", model.name, line.cells().join("  "));
        table.lines.push(line);
    }
    Ok(table)
}

/// Random rows; every token, or every row, has a random class.
fn rows(size: Size, each: bool, batch: u64) -> Rows {
    let mut draws = Key::new(11).at(batch).draws();
    let mut below = |n: usize| draws.below(n as u64) as u32;
    let tokens = (0..size.batch).map(|_| (0..size.length).map(|_| below(VOCABULARY)).collect()).collect();
    let answers = if each { size.batch * size.length } else { size.batch };
    Rows { tokens, labels: (0..answers).map(|_| below(VOCABULARY)).collect() }
}

fn one(model: &Model, size: Size, wanted: &Wanted<'_>, threads: usize) -> Result<Line, Failure> {
    let field = Field {
        name: model.name.to_owned(),
        spec: model.text.to_owned(),
        target: Some(model.name.to_owned()),
        sets: model.sets.iter().map(|set| (*set).to_owned()).collect(),
        vocabulary: VOCABULARY,
        weights: wanted.scratch.join(format!("{}.safetensors", model.name)).to_string_lossy().into_owned(),
        batches: (0..BATCHES).map(|batch| rows(size, model.each, batch)).collect(),
    };
    // rtc is the first: it writes the weights.
    let mut children = vec![Child::start("rtc", &mut worker(threads, Place::default())?)?];
    if let Some(peer) = wanted.peer {
        children.push(Child::start("pytorch", &mut peer.command(DRIVER, threads, Place::default()))?);
    }
    let mut losses = vec![];
    for child in &mut children {
        child.ask(&Request::Field(Box::new(field.clone())))?;
        losses.push(child.ask(&Request::Loss)?.losses);
    }
    let difference = match &losses[..] {
        [ours, theirs] => Some(compare(model.name, ours, theirs)?),
        _ => None,
    };
    let mut ms = vec![vec![]; children.len()];
    for child in &mut children {
        child.ask(&Request::Steps { count: WARM_UP })?;
    }
    for _ in 0..wanted.amount.rounds {
        for (child, ms) in children.iter_mut().zip(&mut ms) {
            ms.extend(child.ask(&Request::Steps { count: wanted.amount.per_round() })?.ms);
        }
    }
    let mut ms = ms.into_iter();
    let (rtc_ms, pytorch_ms) = (ms.next().unwrap_or_default(), ms.next().unwrap_or_default());
    Ok(Line { model: model.name, difference, rtc_ms, pytorch_ms })
}

/// The largest relative difference of losses.
fn compare(name: &str, ours: &[f64], theirs: &[f64]) -> Result<f64, Failure> {
    let apart = |(a, b): (&f64, &f64)| (a - b).abs() / b.abs().max(f64::MIN_POSITIVE);
    let largest =
        ours.iter().zip(theirs).map(apart).fold(0.0, |a: f64, b| if b.is_nan() { f64::INFINITY } else { a.max(b) });
    if ours.len() == theirs.len() && largest <= EQUAL {
        return Ok(largest);
    }
    let message = format!("{name}: the losses differ by {largest:.1e}: rtc {ours:?}, pytorch {theirs:?}");
    Err(Failure::Differ(message))
}

impl Line {
    /// Times and their ratio.
    fn cells(&self) -> Vec<String> {
        let shown = |ms: &[f64]| {
            if ms.is_empty() {
                return "-".to_owned();
            }
            let Spread { median, low, high } = Spread::of(ms);
            format!("{median:.0} ({low:.0}-{high:.0})")
        };
        let ratio = Spread::of(&self.pytorch_ms).median / Spread::of(&self.rtc_ms).median;
        let ratio = if self.pytorch_ms.is_empty() { "-".to_owned() } else { format!("{ratio:.2}") };
        let difference = self.difference.map_or_else(|| "-".to_owned(), |d| format!("{d:.0e}"));
        vec![shown(&self.rtc_ms), shown(&self.pytorch_ms), ratio, difference]
    }
}

impl Table {
    /// A line for every model.
    pub(crate) fn text(&self) -> String {
        let titles = ["model", "rtc ms", "pytorch ms", "ratio", "losses apart"];
        let mut rows = vec![titles.map(str::to_owned).to_vec()];
        for line in &self.lines {
            rows.push([vec![line.model.to_owned()], line.cells()].concat());
        }
        let Size { batch, length } = FULL;
        let title =
            format!("training step, width 128, 4 heads, batch {batch}, length {length}, {} threads", self.threads);
        format!("{title}: medians, and the middle 80 %\n{}", aligned(&rows))
    }
}
