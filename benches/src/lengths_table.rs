//! Time and memory by length: the first table of "Recursion in Recursion", all of its models on ListOps, one row at a time.

use std::collections::BTreeMap;
use std::path::Path;

use rtc_task::TaskSettings;
use rtc_task::{Example, ExampleTarget, load};
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::child::Child;
use crate::device::Place;
use crate::failure::Failure;
use crate::measure::{Amount, worker};
use crate::peer::Peer;
use crate::protocol::{Request, Rows, Tree};
use crate::report::{Spread, aligned};

/// The driver of the implementation, beside this crate, and the file that it drives.
pub(crate) const PEER: (&str, &str) = ("tree_peer.py", "rir_torch.py");
/// Rows of a range of lengths; the paper has a hundred.
const ROWS: usize = 8;
/// A program that has run for so many milliseconds on a range is not asked again.
const ENOUGH_MS: f64 = 40_000.0;
const SEED: u64 = 1;

/// A range of lengths, as its column is called, and the split whose rows of these lengths it takes.
#[derive(Clone, Copy, Debug)]
struct Range {
    name: &'static str,
    split: &'static str,
    from: usize,
    to: usize,
    /// So many rows of the split have [`ROWS`] of these lengths among them.
    among: usize,
}

const fn range(name: &'static str, split: &'static str, from: usize, to: usize, among: usize) -> Range {
    Range { name, split, from, to, among }
}

const RANGES: [Range; 4] = [
    range("200-250", "200-300", 200, 250, 40),
    range("500-600", "500-600", 500, 600, 10),
    range("900-1000", "900-1000", 900, 1000, 10),
    range("1500-2000", "lra-train", 1500, 2000, 200),
];
/// The range of `--quick`.
const TINY: [Range; 1] = [range("20-40", "test", 20, 40, 100)];

/// A model of the table.
struct Model {
    /// How `--cases` and the table call it: the spec, and the variant behind a colon.
    name: &'static str,
    text: &'static str,
    /// The same model of the implementation.
    peer: Option<(&'static str, usize)>,
    /// The longest rows on which the implementation is trained: what it keeps grows with the square of the length.
    longest: usize,
}

const fn alone(name: &'static str, text: &'static str) -> Model {
    Model { name, text, peer: None, longest: 0 }
}

const fn beside(name: &'static str, text: &'static str, peer: &'static str, beam: usize, longest: usize) -> Model {
    Model { name, text, peer: Some((peer, beam)), longest }
}

const BT_GRC: &str = include_str!("../../specs/bt_grc.rt");

const MODELS: &[Model] = &[
    alone("rnn_grc", include_str!("../../specs/rnn_grc.rt")),
    alone("mega", include_str!("../../specs/mega.rt")),
    alone("s4d", include_str!("../../specs/s4d.rt")),
    beside("bbt_grc", include_str!("../../specs/bbt_grc.rt"), "bbt", 1, usize::MAX),
    beside("rir_grc", include_str!("../../specs/rir_grc.rt"), "rir-grc", 1, usize::MAX),
    alone("ordered_memory", include_str!("../../specs/ordered_memory.rt")),
    alone("crvnn", include_str!("../../specs/crvnn.rt")),
    alone("bt_grc", BT_GRC),
    alone("bt_grc:one_soft", BT_GRC),
    beside("ebt_grc", include_str!("../../specs/ebt_grc.rt"), "ebt", 5, 1000),
    beside("rir_ebt_grc", include_str!("../../specs/rir_ebt_grc.rt"), "rir-ebt", 7, usize::MAX),
];

/// What was measured of one program on one range.
#[derive(Clone, Debug, Default, Serialize)]
struct Side {
    /// Milliseconds of every training step and of every forward pass.
    train_ms: Vec<f64>,
    infer_ms: Vec<f64>,
    /// The peak above the start, MiB; none where it was not run.
    train_mib: Option<f64>,
    infer_mib: Option<f64>,
}

/// One model on one range.
#[derive(Clone, Debug, Serialize)]
struct Line {
    model: &'static str,
    range: &'static str,
    /// Mean length of the rows.
    length: f64,
    /// What rtc says beforehand that a training step on the longest row takes, MiB.
    estimate_mib: f64,
    rtc: Side,
    pytorch: Option<Side>,
}

/// All of it on a number of threads.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Table {
    threads: usize,
    /// Training steps that are estimated to take more, MiB, are left out.
    most_mib: f64,
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
    /// Training steps that take more MiB are left out.
    pub(crate) most_mib: f64,
    /// The implementation.
    pub(crate) peer: Option<&'a Peer>,
}

/// Measures the table on so many threads.
///
/// # Errors
/// A model that is not in the table; programs that fail.
pub(crate) fn measure(wanted: &Wanted<'_>, threads: usize) -> Result<Table, Failure> {
    if let Some(unknown) = wanted.cases.iter().find(|case| MODELS.iter().all(|model| model.name != **case)) {
        let names: Vec<&str> = MODELS.iter().map(|model| model.name).collect();
        return Err(Failure::Arguments(format!("the table has no `{unknown}`, but {}", names.join(", "))));
    }
    let mut table = Table { threads, most_mib: wanted.most_mib, lines: vec![] };
    for range in if wanted.quick { &TINY[..] } else { &RANGES } {
        let rows = rows(range)?;
        for model in MODELS.iter().filter(|m| wanted.cases.is_empty() || wanted.cases.iter().any(|c| c == m.name)) {
            let line = one(model, range, &rows, wanted, threads)?;
            // Told at once: the table comes at the end, and may take half an hour.
            for (what, train) in [("forward", false), ("training", true)] {
                eprintln!("{}, {} tokens, {what}: {}", model.name, range.name, line.cells(train).join("  "));
            }
            table.lines.push(line);
        }
    }
    Ok(table)
}

/// The first rows of a range, a batch each.
fn rows(range: &Range) -> Result<Vec<Rows>, Failure> {
    let settings = TaskSettings {
        name: "listops".to_owned(),
        seed: SEED,
        options: BTreeMap::new(),
        sizes: BTreeMap::from([(range.split.to_owned(), range.among)]),
        ..TaskSettings::default()
    };
    let data = load(&settings, &[range.split]).map_err(|e| Failure::Broken(e.to_string()))?;
    let fits = |example: &&Example| (range.from..=range.to).contains(&example.length());
    let row = |example: &Example| {
        let ExampleTarget::Class(class) = example.label else { return None };
        Some(Rows { tokens: vec![example.tokens.clone()], labels: vec![class] })
    };
    Ok(data.split(range.split).iter().filter(fits).filter_map(row).take(ROWS).collect())
}

/// A program, what was measured of it, and whether it is trained.
struct Runner {
    child: Child,
    side: Side,
    trains: bool,
}

fn one(model: &Model, range: &Range, rows: &[Rows], wanted: &Wanted<'_>, threads: usize) -> Result<Line, Failure> {
    let longest = rows.iter().map(|row| row.tokens[0].len()).max().unwrap_or(0);
    let mean = rows.iter().map(|row| row.tokens[0].len() as f64).sum::<f64>() / rows.len() as f64;
    let tree = |peer: Json| {
        let target = model.name.contains(':').then(|| model.name.to_owned());
        Tree { spec: model.text.to_owned(), target, peer, batches: rows.to_vec() }
    };
    let mut runners =
        vec![Runner::start("rtc", Child::start("rtc", &mut worker(threads, Place::default())?)?, tree(Json::Null))?];
    let estimate = runners[0].side.train_mib.take().unwrap_or(0.0);
    runners[0].trains = estimate <= wanted.most_mib;
    if let (Some(peer), Some((name, beam))) = (wanted.peer, model.peer) {
        let child = Child::start("pytorch", &mut peer.command(PEER.0, threads, Place::default()))?;
        let mut runner = Runner::start("pytorch", child, tree(json!({ "model": name, "beam": beam })))?;
        runner.trains = longest <= model.longest;
        runners.push(runner);
    }
    for train in [false, true] {
        for runner in &mut runners {
            runner.run(train, 1)?;
            *runner.ms(train) = vec![];
        }
        for _ in 0..wanted.amount.rounds {
            for runner in &mut runners {
                runner.run(train, wanted.amount.per_round())?;
            }
        }
        for runner in &mut runners {
            runner.remember(train)?;
        }
    }
    let mut sides = runners.into_iter().map(|runner| runner.side);
    let rtc = sides.next().unwrap_or_default();
    Ok(Line { model: model.name, range: range.name, length: mean, estimate_mib: estimate, rtc, pytorch: sides.next() })
}

impl Runner {
    /// Loads a model. What rtc expects of a training step stands in `train_mib` then.
    fn start(name: &str, mut child: Child, tree: Tree) -> Result<Self, Failure> {
        debug_assert_eq!(name, child.name);
        let said = child.ask(&Request::Open(Box::new(tree)))?;
        let side = Side { train_mib: Some(said.mib), ..Side::default() };
        Ok(Self { child, side, trains: true })
    }

    fn ms(&mut self, train: bool) -> &mut Vec<f64> {
        if train { &mut self.side.train_ms } else { &mut self.side.infer_ms }
    }

    /// At most so many runs, one after the other as long as there is time.
    fn run(&mut self, train: bool, count: usize) -> Result<(), Failure> {
        for _ in 0..count {
            let spent: f64 = self.ms(train).iter().sum();
            if (train && !self.trains) || spent > ENOUGH_MS {
                return Ok(());
            }
            let request = if train { Request::Steps { count: 1 } } else { Request::Infer { count: 1, rows: 1 } };
            let answer = self.child.ask(&request)?;
            self.ms(train).extend(answer.ms);
        }
        Ok(())
    }

    /// Notes the peak so far: forward passes come first, and take less than training steps.
    fn remember(&mut self, train: bool) -> Result<(), Failure> {
        let peak = self.child.ask(&Request::Memory)?.mib - self.child.start_mib;
        match train {
            true => self.side.train_mib = self.trains.then_some(peak),
            false => self.side.infer_mib = Some(peak),
        }
        Ok(())
    }
}

impl Line {
    /// Times and memory: of rtc, of the implementation, and their ratio.
    fn cells(&self, train: bool) -> Vec<String> {
        let ms = |side: &Side| {
            let runs = if train { &side.train_ms } else { &side.infer_ms };
            (!runs.is_empty()).then(|| Spread::of(runs).median)
        };
        let mib = |side: &Side| if train { side.train_mib } else { side.infer_mib };
        let mut cells = vec![];
        let both = |side: &Side| [ms(side), mib(side)];
        let (ours, theirs) = (both(&self.rtc), self.pytorch.as_ref().map_or([None; 2], both));
        for (kind, (ours, theirs)) in ours.into_iter().zip(theirs).enumerate() {
            // Times as how much faster, memory as how much of it.
            let ratio = ours.zip(theirs).map(|(a, b)| if kind == 0 { b / a } else { a / b });
            cells.extend([shown(ours), shown(theirs), ratio.map_or(dash(), |r| format!("{r:.2}"))]);
        }
        cells
    }
}

fn dash() -> String {
    "-".to_owned()
}

/// Three digits or so.
fn shown(value: Option<f64>) -> String {
    value.map_or_else(dash, |v| if v < 10.0 { format!("{v:.2}") } else { format!("{v:.0}") })
}

impl Table {
    /// A line for every model and range, training first.
    pub(crate) fn text(&self) -> String {
        let mut out = format!(
            "ListOps, one row at a time, {} threads: medians, and the peak of memory above the start\n",
            self.threads
        );
        let titles = ["model", "tokens", "rtc ms", "pytorch ms", "ratio", "rtc MiB", "pytorch MiB", "ratio"];
        for (title, train) in [("training step", true), ("forward pass", false)] {
            let mut rows = vec![titles.map(str::to_owned).to_vec()];
            for line in &self.lines {
                let start = vec![line.model.to_owned(), line.range.to_owned()];
                rows.push([start, line.cells(train)].concat());
            }
            out += &format!("\n{title}\n{}", aligned(&rows));
        }
        let over = self.lines.iter().filter(|line| line.estimate_mib > self.most_mib);
        for Line { model, range, estimate_mib, .. } in over {
            out += &format!("\n{model} is not trained on {range} tokens: a step takes {estimate_mib:.0} MiB");
        }
        if out.ends_with('\n') { out } else { out + "\n" }
    }
}

/// The folder of the implementation's file, and a Python for it.
///
/// # Errors
/// [`Failure::Absent`] when one of the two is not there.
pub(crate) fn peer(folder: Option<&Path>, python: Option<&Path>) -> Result<Peer, Failure> {
    Peer::find(PEER.1, folder, python)
}
