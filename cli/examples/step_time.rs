//! Times training steps of a spec on random tokens: one JSON line, the counterpart of the PyTorch peer's.
//!
//! `cargo run --release --example step_time -- specs/gut.rt --set embed.width=128 --batch 32 --length 100 --threads 1`
#![allow(clippy::print_stdout, reason = "a measurement prints its result")]

use std::path::{Path, PathBuf};
use std::time::Instant;

use rtc_compiler::check::{Loader, check};
use rtc_compiler::diag::{Style, render};
use rtc_compiler::lower::Binding;
use rtc_compiler::pipeline;
use rtc_compiler::schema::{Catalog, Objective};
use rtc_compiler::source::Source;
use rtc_runtime::batch::{Batch, Labels};
use rtc_runtime::learner::{Learner, UpdateRule};
use rtc_runtime::model::Model;
use rtc_runtime::rng::Key;

struct Folder(PathBuf);

impl Loader for Folder {
    fn load(&self, path: &str) -> Result<String, String> {
        std::fs::read_to_string(self.0.join(path)).map_err(|e| e.to_string())
    }
}

/// What to measure.
struct Options {
    spec: String,
    edits: Vec<String>,
    batch: usize,
    length: usize,
    steps: usize,
    threads: usize,
    vocab: usize,
}

fn options() -> Result<Options, String> {
    let mut o =
        Options { spec: String::new(), edits: vec![], batch: 32, length: 100, steps: 30, threads: 1, vocab: 20 };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        let number = |text: String| text.parse::<usize>().map_err(|e| format!("{text}: {e}"));
        match arg.as_str() {
            "--set" => o.edits.push(value()?),
            "--batch" => o.batch = number(value()?)?,
            "--length" => o.length = number(value()?)?,
            "--steps" => o.steps = number(value()?)?,
            "--threads" => o.threads = number(value()?)?,
            "--vocab" => o.vocab = number(value()?)?,
            spec => o.spec = spec.to_owned(),
        }
    }
    if o.spec.is_empty() { Err("name a spec".to_owned()) } else { Ok(o) }
}

fn model(o: &Options) -> Result<Model<f32>, String> {
    let (file, target) =
        o.spec.split_once(".rt:").map_or((o.spec.clone(), None), |(f, t)| (format!("{f}.rt"), Some(t)));
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{file}: {e}"))?;
    let catalog =
        Catalog { task: None, vocabulary: Some(o.vocab), classes: Some(10), objective: Some(Objective::Classify) };
    let folder = Folder(Path::new(&file).parent().unwrap_or(Path::new(".")).to_owned());
    let (spec, problems, sources) = check(&folder, Source::new(&file, text), target, &o.edits, &catalog);
    let spec = spec.ok_or_else(|| render(&problems, &sources, Style::Plain))?;
    let binding = Binding::from(&catalog);
    let (training, inference) = pipeline::plans(&spec, &binding).map_err(|e| e.to_string())?;
    Ok(Model::new(training, inference, binding, 0))
}

fn batch(o: &Options, n: u64) -> Batch {
    let mut draws = Key::new(7).at(n).draws();
    Batch {
        offsets: (0..=o.batch).map(|r| r * o.length).collect(),
        tokens: (0..o.batch * o.length).map(|_| draws.below(o.vocab as u64) as u32).collect(),
        labels: Labels::Class((0..o.batch).map(|_| draws.below(10) as u32).collect()),
        width: o.length,
    }
}

/// Largest resident memory of this process, MiB.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmHWM")).unwrap_or("");
    line.split_whitespace().nth(1).and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

fn measure(o: &Options) -> Result<(), String> {
    let started = Instant::now();
    let mut model = model(o)?;
    let batches: Vec<Batch> = (0..4).map(|n| batch(o, n)).collect();
    let rule =
        UpdateRule { learning_rate: 1e-4, beta1: 0.9, beta2: 0.98, epsilon: 1e-8, weight_decay: 0.1, clip: None };
    let mut times = vec![];
    let (mut first, mut loss, mut depth) = (0.0, 0.0, None);
    for n in 0..o.steps + 3 {
        let start = Instant::now();
        let report = model.accumulate(&batches[n % 4], 1.0).map_err(|e| e.to_string())?;
        model.update(&rule).map_err(|e| e.to_string())?;
        (loss, depth) = (report.loss, report.mean_depth);
        match n {
            0 => first = started.elapsed().as_secs_f64() * 1e3,
            1 | 2 => {}
            _ => times.push(start.elapsed().as_secs_f64() * 1e3),
        }
    }
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    println!(
        "{{\"spec\": \"{}\", \"threads\": {}, \"params\": {}, \"step_ms_median\": {median:.2}, \"step_ms_min\": {:.2}, \
         \"step_ms_max\": {:.2}, \"tokens_per_s\": {:.0}, \"start_to_first_step_ms\": {first:.0}, \"loss\": {loss:.5}, \
         \"mean_depth\": {}, \"peak_rss_mb\": {:.0}}}",
        o.spec,
        o.threads,
        model.parameter_count(),
        times[0],
        times[times.len() - 1],
        (o.batch * o.length) as f64 / median * 1e3,
        depth.map_or("null".to_owned(), |d| format!("{d:.2}")),
        peak()
    );
    Ok(())
}

fn main() -> Result<(), String> {
    let o = options()?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(o.threads).build().map_err(|e| e.to_string())?;
    pool.install(|| measure(&o))
}
