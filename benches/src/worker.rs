//! The side of rtc: a process that makes models and runs them as it is told.

use std::io::{BufRead, Write};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use rtc_base::batch::{Batch, Labels};
use rtc_compiler::ir::cost::{Sizes, region_cost};
use rtc_compiler::ir::graph::{Graph, MAIN};
use rtc_compiler::lower::{Binding, Objective};
use rtc_compiler::pipeline::{self, cost::Cost};
use rtc_cuda::device::{Device, DeviceCommand, DeviceMatrix, MatrixProduct};
use rtc_exec::learner::{Learner, OptimiserKind, UpdateRule};
use rtc_exec::model::Model;
use rtc_export::weights::{Weight, safetensors};
use rtc_kernel::Precision;
use rtc_task::listops::SYMBOLS;
use rtc_tests::peer::{Description, load};

use crate::device::{Kind, Place};
use crate::protocol::{Answer, Field, Job, Request, Rows, Tree};
use crate::report::mean;
use crate::spec::checked;

/// Stack of the thread that works, in bytes, as the `rtc` command has it.
const STACK: usize = 1 << 28;

/// The optimiser of both programs.
const ADAMW: UpdateRule =
    UpdateRule { beta1: 0.9, beta2: 0.98, epsilon: 1e-8, weight_decay: 0.1, clip: None, ..UpdateRule::ADAMW };

/// A model under measurement.
struct Loaded {
    model: Box<dyn Learner>,
    device: Option<Rc<dyn Device>>,
    /// Graphs of the training step and of the forward pass, where the rows are equally long and operations are counted.
    counted: Option<[Arc<Graph>; 2]>,
    rule: UpdateRule,
    batches: Vec<Batch>,
    /// Runs so far: the next one takes the batch after the last one's.
    turn: usize,
}

/// Runs until it is told to stop, on `threads` threads.
///
/// # Errors
/// Standard input or output that is closed. All else is answered.
pub(crate) fn run(threads: usize, place: Place) -> Result<(), String> {
    let work = || {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).use_current_thread();
        pool.build_global().map_err(|e| e.to_string())?;
        serve(place)
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        thread.map_err(|e| e.to_string())?.join().map_err(|_| "the worker panicked".to_owned())?
    })
}

fn serve(place: Place) -> Result<(), String> {
    say(&Answer { mib: resident("VmRSS:"), ..Answer::default() })?;
    let device = open(place)?;
    let mut loaded = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|e| e.to_string())?;
        let request = serde_json::from_str(&line).map_err(|e| e.to_string());
        if matches!(request, Ok(Request::Quit)) {
            break;
        }
        let answer =
            request.and_then(|request| answer(request, &mut loaded, (device.as_ref(), place.precision.into())));
        say(&answer.unwrap_or_else(|error| Answer { error: Some(error), ..Answer::default() }))?;
    }
    Ok(())
}

fn say(answer: &Answer) -> Result<(), String> {
    let text = serde_json::to_string(answer).map_err(|e| e.to_string())?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|e| e.to_string())
}

/// A line of `/proc/self/status` that counts KiB, in MiB; 0 where there is no such file.
fn resident(name: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse::<f64>().ok());
    value.unwrap_or(0.0) / 1024.0
}

fn answer(
    request: Request,
    loaded: &mut Option<Loaded>,
    (device, precision): (Option<&Rc<dyn Device>>, Precision),
) -> Result<Answer, String> {
    if let Request::Load(job) = request {
        // The model before goes first: two at once would show in the peak.
        *loaded = None;
        let (model, ms) = Loaded::new(&job, device, precision)?;
        *loaded = Some(model);
        return Ok(Answer { ms: vec![ms], ..Answer::default() });
    }
    if let Request::Open(tree) = request {
        *loaded = None;
        let (model, mib) = Loaded::open(&tree)?;
        *loaded = Some(model);
        return Ok(Answer { mib, ..Answer::default() });
    }
    if let Request::Field(field) = request {
        *loaded = None;
        *loaded = Some(Loaded::field(&field)?);
        return Ok(Answer::default());
    }
    let model = loaded.as_mut().ok_or("no model is loaded")?;
    match request {
        Request::Loss => model.losses(),
        Request::Steps { count } => model.steps(count),
        Request::Infer { count, rows } => model.infer(count, rows),
        Request::Peak => {
            let gflop = model.device.as_ref().map(|device| burst(&**device)).transpose()?;
            Ok(Answer { gflop, ..Answer::default() })
        }
        Request::Memory => Ok(Answer { mib: resident("VmHWM:"), ..Answer::default() }),
        Request::Load(_) | Request::Open(_) | Request::Field(_) | Request::Product(_) | Request::Quit => {
            Ok(Answer::default())
        }
    }
}

impl Loaded {
    /// The model of a job, and the milliseconds from its spec to its parameters.
    fn new(job: &Job, device: Option<&Rc<dyn Device>>, precision: Precision) -> Result<(Self, f64), String> {
        let start = Instant::now();
        let described = Description(job.spec.clone());
        let binding = described.binding();
        let spec = rtc_tests::spec(&described.source(), &binding);
        let (training, inference) = pipeline::plans(&spec, &binding).map_err(|e| e.to_string())?;
        let counted = Some([training.graph.clone(), inference.graph.clone()]);
        let mut model = Model::<f32>::new(training.clone(), inference.clone(), binding, job.seed);
        if let Some(path) = &job.weights {
            described.fill(&mut model, &load(Path::new(path))?)?;
            shift(&mut model, job.halt_shift as f32);
        }
        let model: Box<dyn Learner> = match device {
            Some(device) => {
                let there = rtc_cuda::model::<f32>(training, inference, binding, job.seed, device.clone());
                let mut there = there.map_err(|e| e.to_string())?;
                there.restore(&model.state()).map_err(|e| e.to_string())?;
                Box::new(there)
            }
            None => {
                model.set_precision(precision);
                Box::new(model)
            }
        };
        let ms = milliseconds(start);
        let rule = UpdateRule { learning_rate: job.learning_rate, ..ADAMW };
        let batches = job.batches.iter().map(|rows| packed(rows, rows.tokens.len())).collect();
        Ok((Self { model, device: device.cloned(), counted, rule, batches, turn: 0 }, ms))
    }

    /// A model of the table of lengths, and the MiB that a training step on the longest row takes.
    fn open(tree: &Tree) -> Result<(Self, f64), String> {
        let binding = Binding { vocab: Some(SYMBOLS.len()), classes: Some(10), objective: Objective::Classify };
        let spec = checked(&tree.spec, tree.target.as_deref(), &[], &binding)?;
        let longest = tree.batches.iter().flat_map(|rows| &rows.tokens).map(Vec::len).max().unwrap_or(1);
        let cost = Cost::of(&spec, &binding, 1, longest).map_err(|e| e.to_string())?.at(1, longest, None);
        let (training, inference) = pipeline::plans(&spec, &binding).map_err(|e| e.to_string())?;
        let model = Box::new(Model::<f32>::new(training, inference, binding, 0));
        let rule = UpdateRule {
            kind: OptimiserKind::Ranger,
            learning_rate: 1e-3,
            weight_decay: 1e-2,
            clip: Some(1.0),
            ..UpdateRule::ADAMW
        };
        let batches = tree.batches.iter().map(|rows| packed(rows, rows.tokens.len())).collect();
        let mib = cost.training_memory.total() as f64 / 1_048_576.0;
        Ok((Self { model, device: None, counted: None, rule, batches, turn: 0 }, mib))
    }

    /// A looped model of the field, whose weights are written for the peer.
    fn field(field: &Field) -> Result<Self, String> {
        let each = field.batches.iter().all(|rows| rows.labels.len() > rows.tokens.len());
        let objective = if each { Objective::Each } else { Objective::Classify };
        let binding = Binding { vocab: Some(field.vocabulary), classes: Some(field.vocabulary), objective };
        let spec = checked(&field.spec, field.target.as_deref(), &field.sets, &binding)?;
        let (training, inference) = pipeline::plans(&spec, &binding).map_err(|e| e.to_string())?;
        let model = Box::new(Model::<f32>::new(training, inference, binding, 0));
        let drawn = model.state().parameters.items;
        let weights: Vec<Weight<'_>> =
            drawn.iter().map(|(name, (shape, numbers))| Weight { name, shape, numbers }).collect();
        std::fs::write(&field.weights, safetensors(&weights)).map_err(|e| format!("{}: {e}", field.weights))?;
        let rule = UpdateRule { learning_rate: 1e-4, ..ADAMW };
        let batches = field.batches.iter().map(|rows| packed(rows, rows.tokens.len())).collect();
        Ok(Self { model, device: None, counted: None, rule, batches, turn: 0 })
    }

    fn losses(&mut self) -> Result<Answer, String> {
        let mut answer = Answer::default();
        for batch in &self.batches {
            answer.losses.push(self.model.accumulate(batch, 1.0).map_err(|e| e.to_string())?.loss);
            // The gradients are dropped, and the weights stay.
            let rule = UpdateRule { learning_rate: 0.0, ..self.rule };
            self.model.update(&rule).map_err(|e| e.to_string())?;
        }
        Ok(answer)
    }

    fn steps(&mut self, count: usize) -> Result<Answer, String> {
        let mut depths = vec![];
        let mut answer = Answer::default();
        for _ in 0..count {
            let batch = &self.batches[self.turn % self.batches.len()];
            self.turn += 1;
            let start = Instant::now();
            let report = self.model.accumulate(batch, 1.0).map_err(|e| e.to_string())?;
            self.model.update(&self.rule).map_err(|e| e.to_string())?;
            answer.ms.push(milliseconds(start));
            depths.extend(report.mean_depth);
        }
        answer.depth = mean(&depths);
        answer.gflop = self.counted.as_ref().map(|[step, _]| gflop(step, &self.batches[0], answer.depth));
        Ok(answer)
    }

    fn infer(&mut self, count: usize, rows: usize) -> Result<Answer, String> {
        let batches: Vec<Batch> = self.batches.iter().map(|batch| first_rows(batch, rows)).collect();
        let mut depths = vec![];
        let mut answer = Answer::default();
        for _ in 0..count {
            let batch = &batches[self.turn % batches.len()];
            self.turn += 1;
            let start = Instant::now();
            let seen = self.model.evaluate(batch).map_err(|e| e.to_string())?;
            answer.ms.push(milliseconds(start));
            depths.extend(seen.depth.map(|depth| depth.mean()));
        }
        answer.depth = mean(&depths);
        answer.gflop = self.counted.as_ref().map(|[_, pass]| gflop(pass, &batches[0], answer.depth));
        Ok(answer)
    }
}

/// The device of the worker.
fn open(place: Place) -> Result<Option<Rc<dyn Device>>, String> {
    match place.device {
        Kind::Cpu => Ok(None),
        Kind::Cuda => Ok(Some(rtc_cuda::driver::Gpu::open(place.precision.into(), place.launch.into())?)),
    }
}

/// What products of large matrices reach on a device, GFLOP/s: the best of some bursts.
fn burst(device: &dyn Device) -> Result<f64, String> {
    const SIZE: usize = 4096;
    const PRODUCTS: usize = 20;
    let bytes = SIZE * SIZE * size_of::<f32>();
    let [a, b, y] = [device.allocate(bytes)?, device.allocate(bytes)?, device.allocate(bytes)?];
    // Numbers that are not all alike: a product of zeros can be faster.
    let numbers: Vec<u8> = (0..SIZE * SIZE).flat_map(|n| ((n % 251) as f32 / 251.0 - 0.5).to_ne_bytes()).collect();
    [a, b].iter().for_each(|at| device.upload(*at, &numbers));
    let matrix = |at| DeviceMatrix::straight(at, SIZE);
    let product = DeviceCommand::Product(MatrixProduct::new(matrix(a), matrix(b), y, [SIZE; 3]));
    let mut best = 0.0_f64;
    for _ in 0..3 {
        device.start(&product);
        device.download(y, &mut [0; 4]);
        let start = Instant::now();
        (0..PRODUCTS).for_each(|_| device.start(&product));
        device.download(y, &mut [0; 4]);
        best = best.max(2e-9 * (SIZE as f64).powi(3) * PRODUCTS as f64 / start.elapsed().as_secs_f64());
    }
    [a, b, y].iter().for_each(|at| device.release(*at, bytes));
    Ok(best)
}

/// Adds to the last bias of every halting head.
fn shift(model: &mut Model<f32>, by: f32) {
    let plan = model.executor().plan().clone();
    for (parameter, range) in plan.parameters.iter().zip(rtc_exec::parameter_ranges(&plan)) {
        if parameter.name.ends_with("halt.output.bias") {
            model.executor().parameters_mut()[range].iter_mut().for_each(|bias| *bias += by);
        }
    }
}

fn packed(rows: &Rows, count: usize) -> Batch {
    let tokens = &rows.tokens[..count.min(rows.tokens.len())];
    let mut offsets = vec![0];
    offsets.extend(tokens.iter().scan(0, |end, row| {
        *end += row.len();
        Some(*end)
    }));
    let end = offsets.last().copied().unwrap_or(0);
    Batch {
        offsets,
        tokens: tokens.concat(),
        labels: if rows.labels.len() > rows.tokens.len() {
            let class = rows.labels[..end].to_vec();
            Labels::Each { weight: vec![1.0; class.len()], class }
        } else {
            Labels::Class(rows.labels[..tokens.len()].to_vec())
        },
        width: tokens.iter().map(Vec::len).max().unwrap_or(0),
        depths: None,
        given: vec![],
    }
}

fn first_rows(batch: &Batch, count: usize) -> Batch {
    let count = count.min(batch.rows());
    let labels = match &batch.labels {
        Labels::Class(labels) => Labels::Class(labels[..count].to_vec()),
        // No case asks for anything else.
        others => others.clone(),
    };
    Batch {
        offsets: batch.offsets[..=count].to_vec(),
        tokens: batch.tokens[..batch.offsets[count]].to_vec(),
        labels,
        width: batch.width,
        depths: None,
        given: vec![],
    }
}

/// What the cost model counts for a batch of equal rows in which units accept `depth` steps.
fn gflop(graph: &Graph, batch: &Batch, depth: Option<f64>) -> f64 {
    let sizes = Sizes { depth, ..Sizes::row(batch.row(0).len()) };
    region_cost(graph, MAIN, &sizes) * batch.rows() as f64 * 1e-9
}

fn milliseconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}
