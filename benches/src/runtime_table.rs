//! What halting saves: the run-time table of the halting paper. A GUT that was trained briefly on ListOps runs with
//! higher and higher upper bounds; under every policy it computes the same, and takes more or less time for it.

use std::collections::BTreeMap;
use std::time::Instant;

use rtc_base::batch::Batch;
use rtc_compiler::lower::{Binding, Objective};
use rtc_compiler::pipeline;
use rtc_exec::Halting;
use rtc_exec::counter::RunCounters;
use rtc_exec::learner::{Depths, LearnError, Learner, LearnerState, UpdateRule};
use rtc_exec::model::Model;
use rtc_task::TaskSettings;
use rtc_task::batching::{Batching, Buckets, Cursor, collect};
use rtc_task::{Dataset, Example, OptionValue, load};
use serde::Serialize;

use crate::failure::Failure;
use crate::report::{Spread, aligned};
use crate::spec::checked;

/// The model that halts, by its name in the spec.
const GATED: &str = "gut";
const GUT: &str = include_str!("../../specs/gut.rt");
/// Stack of the threads, in bytes, as the `rtc` command has it.
const STACK: usize = 1 << 28;
/// Relative difference up to which two policies compute the same: sums over rows are cut elsewhere when rows leave.
const EQUAL: f64 = 1e-5;
const SEED: u64 = 1;
/// Weight of the halting cost in the training: with the paper's 0.1 so few updates lead to rows of one or two steps.
const HALTING_COST: f64 = 0.005;

/// How large everything is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    width: usize,
    heads: usize,
    hidden: usize,
    /// The longest row.
    length: usize,
    batch: usize,
    /// Batches that are timed.
    batches: usize,
    /// Updates of the training before.
    updates: u64,
    /// The upper bounds; the training runs with the second.
    bounds: [usize; 4],
}

/// The bounds of the paper, on rows as long as those it trains on.
pub(crate) const PAPER: Size = Size {
    width: 64,
    heads: 4,
    hidden: 128,
    length: 100,
    batch: 32,
    batches: 8,
    updates: 400,
    bounds: [10, 20, 30, 40],
};

/// To see that it works.
pub(crate) const TINY: Size =
    Size { width: 16, heads: 2, hidden: 16, length: 20, batch: 8, batches: 2, updates: 2, bounds: [2, 4, 6, 8] };

/// A policy by its name; without one the model has no halting head.
const POLICIES: [(&str, Option<Halting>); 4] = [
    ("compact", Some(Halting::Compact)),
    ("batch", Some(Halting::Batch)),
    ("never", Some(Halting::Never)),
    ("no_halt", None),
];

/// One policy at one bound.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Line {
    bound: usize,
    policy: &'static str,
    /// Steps that rows take on the mean.
    depth: Option<f64>,
    /// Operations of all timed training steps, 10^9, as the executor counts them.
    gflop: f64,
    /// Milliseconds of a forward pass and of a training step on a batch: mean over the batches, of each round.
    infer_ms: Vec<f64>,
    train_ms: Vec<f64>,
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Table {
    threads: usize,
    /// The largest relative difference between two policies of a bound, of losses, probabilities and gradients.
    difference: f64,
    lines: Vec<Line>,
}

/// A model under measurement.
struct Entry {
    model: Model<f32>,
    line: Line,
}

/// What a policy computes: losses and confidences, then gradients of the first batch.
struct Numbers {
    forward: Vec<f64>,
    gradients: Vec<f32>,
}

/// Measures the table on so many threads.
///
/// # Errors
/// Policies that compute different numbers; data, specs and steps that fail.
pub(crate) fn measure(size: &Size, rounds: usize, threads: usize) -> Result<Table, Failure> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).stack_size(STACK).build();
    let pool = pool.map_err(|e| Failure::Broken(e.to_string()))?;
    pool.install(|| measure_here(size, rounds, threads))
}

fn measure_here(size: &Size, rounds: usize, threads: usize) -> Result<Table, Failure> {
    let data = data(size)?;
    let batches = batches(&data, size);
    let trained = trained(&data, size)?;
    let mut entries = vec![];
    let mut difference = 0.0_f64;
    for bound in size.bounds {
        let mut first: Option<Numbers> = None;
        for (policy, halting) in POLICIES {
            let mut entry = Entry::new(size, bound, (policy, halting), &data, &trained)?;
            let numbers = entry.warm_up(&batches)?;
            match &first {
                Some(first) if halting.is_some() => difference = difference.max(apart(first, &numbers)),
                Some(_) => {}
                None => first = Some(numbers),
            }
            entries.push(entry);
        }
    }
    if difference > EQUAL {
        return Err(Failure::Differ(format!("the policies compute numbers that differ by {difference:.1e}")));
    }
    for _ in 0..rounds {
        for entry in &mut entries {
            entry.round(&batches)?;
        }
    }
    Ok(Table { threads, difference, lines: entries.into_iter().map(|entry| entry.line).collect() })
}

fn data(size: &Size) -> Result<Dataset, Failure> {
    let settings = TaskSettings {
        name: "listops".to_owned(),
        seed: SEED,
        options: BTreeMap::from([("train_length".to_owned(), OptionValue::Integer(size.length as u64))]),
        sizes: BTreeMap::from([("train".to_owned(), size.batch * (size.updates as usize).max(size.batches))]),
        ..TaskSettings::default()
    };
    load(&settings, &["train"]).map_err(|e| Failure::Broken(e.to_string()))
}

/// The timed batches: the first ones of the training.
fn batches(data: &Dataset, size: &Size) -> Vec<Batch> {
    let examples = data.split("train");
    let mut batching = Batching::new(SEED, examples, size.batch, Buckets::Length);
    (0..size.batches as u64).map(|batch| packed(examples, batching.batch(Cursor { epoch: 0, batch }))).collect()
}

fn packed(examples: &[Example], indices: &[u32]) -> Batch {
    let rows: Vec<&Example> = indices.iter().map(|n| &examples[*n as usize]).collect();
    let width = rows.iter().map(|row| row.length()).max().unwrap_or(0);
    collect(&rows, width)
}

fn failed(error: LearnError) -> Failure {
    Failure::Broken(error.to_string())
}

fn rule(learning_rate: f64) -> UpdateRule {
    let (beta1, beta2, epsilon) = (0.9, 0.98, 1e-8);
    UpdateRule { learning_rate, beta1, beta2, epsilon, weight_decay: 0.01, clip: Some(1.0), ..UpdateRule::ADAMW }
}

/// A model without training: GUT, or with another target one of its variants.
fn fresh(size: &Size, bound: usize, target: &str, data: &Dataset) -> Result<Model<f32>, Failure> {
    let sets = [
        format!("embed.width={}", size.width),
        format!("self.heads={}", size.heads),
        format!("depthwise.feedforward.hidden={}", size.hidden),
        format!("gate.hidden={}", size.hidden),
        format!("depthwise.depth={bound}"),
    ];
    let halting = [format!("depthwise.halt.cost={HALTING_COST}")];
    let sets = if target == GATED { [&sets[..], &halting].concat() } else { sets.to_vec() };
    let binding = Binding { vocab: Some(data.vocabulary), classes: Some(data.classes), objective: Objective::Classify };
    let spec = checked(GUT, Some(target), &sets, &binding).map_err(Failure::Broken)?;
    let (training, inference) = pipeline::plans(&spec, &binding).map_err(|e| Failure::Broken(e.to_string()))?;
    Ok(Model::new(training, inference, binding, SEED))
}

/// The weights after a brief training, in which the model learns to halt.
fn trained(data: &Dataset, size: &Size) -> Result<LearnerState, Failure> {
    let mut model = fresh(size, size.bounds[1], GATED, data)?;
    let examples = data.split("train");
    let mut batching = Batching::new(SEED, examples, size.batch, Buckets::Length);
    for update in 0..size.updates {
        let cursor = Cursor { epoch: 0, batch: update % batching.batches() };
        let batch = packed(examples, batching.batch(cursor));
        model.accumulate(&batch, 1.0).map_err(failed)?;
        model.update(&rule(1e-3)).map_err(failed)?;
    }
    Ok(model.state())
}

impl Entry {
    fn new(
        size: &Size,
        bound: usize,
        (policy, halting): (&'static str, Option<Halting>),
        data: &Dataset,
        trained: &LearnerState,
    ) -> Result<Self, Failure> {
        let mut model = fresh(size, bound, if halting.is_some() { GATED } else { "no_halt" }, data)?;
        if let Some(halting) = halting {
            model.restore(trained).map_err(failed)?;
            model.set_halting(halting);
        }
        let line = Line { bound, policy, depth: None, gflop: 0.0, infer_ms: vec![], train_ms: vec![] };
        Ok(Self { model, line })
    }

    /// One run of everything, counted and not timed; gives what it computed.
    fn warm_up(&mut self, batches: &[Batch]) -> Result<Numbers, Failure> {
        let mut numbers = Numbers { forward: vec![], gradients: vec![] };
        let mut depth: Option<Depths> = None;
        for batch in batches {
            let seen = self.model.evaluate(batch).map_err(failed)?;
            numbers.forward.push(seen.loss_sum);
            numbers.forward.extend(seen.confidence);
            depth = seen.depth.map(|seen| depth.unwrap_or_default().with(seen)).or(depth);
        }
        self.line.depth = depth.map(|depth| depth.mean());
        self.model.executor().records.counted = Some(RunCounters::default());
        for (n, batch) in batches.iter().enumerate() {
            numbers.forward.push(self.model.accumulate(batch, 1.0).map_err(failed)?.loss);
            if n == 0 {
                numbers.gradients.extend_from_slice(self.model.executor().gradients());
            }
            self.model.update(&rule(0.0)).map_err(failed)?;
        }
        self.line.gflop = self.model.executor().records.counted.take().map_or(0.0, |counted| counted.flops * 1e-9);
        Ok(numbers)
    }

    /// Times every batch once. Training steps have learning rate 0: the weights, and the depth with them, stay.
    fn round(&mut self, batches: &[Batch]) -> Result<(), Failure> {
        let mean = |start: Instant| start.elapsed().as_secs_f64() * 1e3 / batches.len() as f64;
        let start = Instant::now();
        for batch in batches {
            self.model.evaluate(batch).map_err(failed)?;
        }
        self.line.infer_ms.push(mean(start));
        let start = Instant::now();
        for batch in batches {
            self.model.accumulate(batch, 1.0).map_err(failed)?;
            self.model.update(&rule(0.0)).map_err(failed)?;
        }
        self.line.train_ms.push(mean(start));
        Ok(())
    }
}

/// The largest difference of two policies, relative to the largest number of its kind.
fn apart(a: &Numbers, b: &Numbers) -> f64 {
    let single = |values: &[f32]| values.iter().map(|v| f64::from(*v)).collect::<Vec<_>>();
    let kinds = [(a.forward.clone(), b.forward.clone()), (single(&a.gradients), single(&b.gradients))];
    let one = |(a, b): &(Vec<f64>, Vec<f64>)| {
        let largest = b.iter().fold(f64::MIN_POSITIVE, |m, v| m.max(v.abs()));
        let far = |(x, y): (&f64, &f64)| if (x - y).is_finite() { (x - y).abs() / largest } else { f64::INFINITY };
        if a.len() == b.len() { a.iter().zip(b).map(far).fold(0.0, f64::max) } else { f64::INFINITY }
    };
    kinds.iter().map(one).fold(0.0, f64::max)
}

impl Table {
    /// A line for every bound, a column for every policy.
    pub(crate) fn text(&self) -> String {
        let kinds: [(&str, Cell); 3] = [
            ("training step, ms", |line| time(&line.train_ms)),
            ("forward pass, ms", |line| time(&line.infer_ms)),
            ("training, GFLOP counted", |line| format!("{:.1}", line.gflop)),
        ];
        let mut out = format!(
            "GUT on ListOps, {} threads, medians per batch; the policies differ by at most {:.0e}\n",
            self.threads, self.difference
        );
        for (title, cell) in kinds {
            let mut rows = vec![
                [vec!["bound".to_owned(), "depth".to_owned()], POLICIES.map(|p| p.0.to_owned()).to_vec()].concat(),
            ];
            for group in self.lines.chunks(POLICIES.len()) {
                let depth = group[0].depth.map_or("-".to_owned(), |depth| format!("{depth:.2}"));
                let cells = group.iter().map(cell);
                rows.push([group[0].bound.to_string(), depth].into_iter().chain(cells).collect());
            }
            out += &format!("\n{title}\n{}", aligned(&rows));
        }
        out
    }
}

/// What a line has in one of the tables.
type Cell = fn(&Line) -> String;

fn time(ms: &[f64]) -> String {
    format!("{:.1}", Spread::of(ms).median)
}
