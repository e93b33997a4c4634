//! `rtc-bench`: rtc beside an independent PyTorch implementation of the same models, in one run.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the command prints its tables and its progress")]

mod cases;
mod child;
mod device;
mod failure;
mod field_table;
mod lengths_table;
mod machine;
mod measure;
mod peak;
mod peer;
mod products_table;
mod protocol;
mod report;
mod runtime_table;
mod spec;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use cases::{Case, Kind};
use device::Place;
use failure::Failure;
use measure::{Amount, Bench};
use peer::Peer;
use report::Report;
use rtc_kernel::Vectors;

const NOTES: &str = "\
Both programs get the same weights and batches. Their losses without dropout must be equal to a relative 1e-5: where they
are not, all is measured and the status is 1. Training steps (dropout 0.1, AdamW, no clipping) and forward passes are timed, a few of one and a few of the other in
turn. Models that halt are trained with learning rate 0, so that their depth and their work stay as they are.

GFLOP/s is what the compiler's cost model counts for the training or inference graph at the real lengths and the mean of
accepted steps; the step that a row tries and rejects is not counted. The peak is the best burst of products of 512 x 512
matrices, each thread its own, between the rounds. First steps are counted from the start of the program; data and weights
come ready.

RTC_VECTORS=avx2 keeps all programs from using wider vectors (rtc's numbers are the same).

Exit codes:
  0   done
  1   the programs, or the policies of the run-time table, compute different numbers
  2   a mistake in the arguments
  3   the peer, or a Python with torch, is not there
  4   a program failed, or a file could not be written
";

/// Times rtc and the PyTorch implementation of the same models alternately on this machine.
#[derive(Parser)]
#[command(name = "rtc-bench", after_help = NOTES, max_term_width = 120, args_conflicts_with_subcommands = true)]
struct Options {
    #[command(subcommand)]
    role: Option<Role>,

    /// Cases by name; all but `smoke` when not given
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    cases: Vec<String>,

    /// Numbers of threads
    #[arg(long, value_delimiter = ',', value_name = "COUNTS", default_value = "1,2")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Vec<u16>,

    /// Training steps and forward passes that count, at least
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,

    /// How often the programs change places
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// The folder of recurrent_torch.py [default: ../shared/peers beside the project]
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,

    /// A Python with torch, numpy and safetensors; when not given, an environment beside the build outputs is made
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,

    /// Time the peer with torch.compile, too
    #[arg(long)]
    compile: bool,

    /// Measure rtc alone
    #[arg(long)]
    alone: bool,

    #[command(flatten)]
    place: Place,

    /// A smoke run: rtc alone, one small case, few steps
    #[arg(long, conflicts_with_all = ["cases", "compile"])]
    quick: bool,

    /// Measure instead what halting saves: GUT on ListOps with bounds 10 to 40, for every `--halting` policy; rtc alone
    #[arg(long, conflicts_with_all = ["cases", "compile", "peers", "python", "precision"])]
    runtime_table: bool,

    /// Measure instead time and memory by length: the models of "Recursion in Recursion" on single rows of ListOps; `--cases`
    /// takes their names
    #[arg(long, conflicts_with_all = ["compile", "runtime_table", "precision"])]
    lengths_table: bool,

    /// Measure instead training steps of the field's looped models beside batched PyTorch programs of the same weights; `--cases`
    /// takes their names
    #[arg(long, conflicts_with_all = ["compile", "runtime_table", "lengths_table", "peers", "precision"])]
    field_table: bool,

    /// Measure instead the products of linear maps alone, beside `gemm` and PyTorch, in `--precision` f32 or bf16
    #[arg(long, conflicts_with_all = ["cases", "compile", "runtime_table", "lengths_table", "field_table", "peers", "device"])]
    products_table: bool,

    /// With `--lengths-table`: leave out training steps of which rtc says that they take more GiB
    #[arg(long, value_name = "GIB", default_value_t = 6.0, requires = "lengths_table")]
    most_memory: f64,

    /// Write every number that was measured
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// List the cases
    #[arg(long)]
    list: bool,
}

#[derive(Subcommand)]
enum Role {
    /// Run models as standard input says
    #[command(hide = true)]
    Worker {
        #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
        threads: u16,
        #[command(flatten)]
        place: Place,
    },
}

fn main() -> ExitCode {
    let options = Options::parse();
    match Vectors::from_environment().map_err(Failure::Arguments).and_then(|()| start(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(failure.code())
        }
    }
}

/// Does what the options ask for.
fn start(options: &Options) -> Result<(), Failure> {
    if let Some(Role::Worker { threads, place }) = options.role {
        return worker::run(usize::from(threads), place).map_err(Failure::Broken);
    }
    if options.list {
        list();
        return Ok(());
    }
    println!("{}\n", machine::machine());
    match options {
        _ if options.runtime_table => runtime_table(options),
        _ if options.lengths_table => lengths_table(options),
        _ if options.field_table => field_table(options),
        _ if options.products_table => products_table(options),
        _ => run(options),
    }
}

/// Prints the run-time table for every number of threads.
fn runtime_table(options: &Options) -> Result<(), Failure> {
    let size = if options.quick { runtime_table::TINY } else { runtime_table::PAPER };
    let rounds = if options.quick { 1 } else { options.rounds as usize };
    let mut tables = vec![];
    for threads in options.threads.iter().map(|n| usize::from(*n)) {
        eprintln!("run-time table, {threads} threads");
        let table = runtime_table::measure(&size, rounds, threads)?;
        println!("{}", table.text());
        tables.push(table);
    }
    write_json(options, &tables)
}

/// Prints the table of lengths for every number of threads.
fn lengths_table(options: &Options) -> Result<(), Failure> {
    let alone = options.alone || options.quick;
    let (peers, python) = (options.peers.as_deref(), options.python.as_deref());
    let peer = if alone { None } else { Some(lengths_table::peer(peers, python)?) };
    let (steps, rounds) = if options.quick { (1, 1) } else { (options.steps as usize, options.rounds as usize) };
    let wanted = lengths_table::Wanted {
        cases: &options.cases,
        quick: options.quick,
        amount: Amount { steps, rounds },
        most_mib: options.most_memory * 1024.0,
        peer: peer.as_ref(),
    };
    let mut tables = vec![];
    for threads in options.threads.iter().map(|n| usize::from(*n)) {
        let table = lengths_table::measure(&wanted, threads)?;
        println!("{}", table.text());
        tables.push(table);
    }
    write_json(options, &tables)
}

/// Prints the table of the field's models for every number of threads.
fn field_table(options: &Options) -> Result<(), Failure> {
    let alone = options.alone || options.quick;
    let peer = if alone { None } else { Some(Peer::own(options.python.as_deref())?) };
    let (steps, rounds) = if options.quick { (1, 1) } else { (options.steps as usize, options.rounds as usize) };
    let scratch = tempfile::tempdir().map_err(|e| Failure::Broken(e.to_string()))?;
    let wanted = field_table::Wanted {
        cases: &options.cases,
        quick: options.quick,
        amount: Amount { steps, rounds },
        peer: peer.as_ref(),
        scratch: scratch.path(),
    };
    let mut tables = vec![];
    for threads in options.threads.iter().map(|n| usize::from(*n)) {
        let table = field_table::measure(&wanted, threads)?;
        println!("{}", table.text());
        tables.push(table);
    }
    write_json(options, &tables)
}

/// Prints the table of products for every number of threads.
fn products_table(options: &Options) -> Result<(), Failure> {
    let alone = options.alone || options.quick;
    let peer = if alone { None } else { Some(Peer::own(options.python.as_deref())?) };
    let rounds = if options.quick { 1 } else { options.rounds as usize };
    let wanted = products_table::Wanted { quick: options.quick, rounds, place: options.place, peer: peer.as_ref() };
    let mut tables = vec![];
    for threads in options.threads.iter().map(|n| usize::from(*n)) {
        let table = products_table::measure(&wanted, threads)?;
        println!("{}", table.text());
        tables.push(table);
    }
    write_json(options, &tables)
}

fn write_json(options: &Options, measured: &impl serde::Serialize) -> Result<(), Failure> {
    let Some(path) = &options.json else { return Ok(()) };
    let text = serde_json::to_string_pretty(measured).map_err(|e| Failure::Broken(e.to_string()))?;
    std::fs::write(path, text).map_err(|e| Failure::Broken(format!("{}: {e}", path.display())))
}

fn list() {
    let cases = cases::all();
    let width = cases.iter().map(|case| case.name.len()).max().unwrap_or(0);
    for case in &cases {
        println!("{:<width$}  {}", case.name, case.describe());
    }
}

fn run(options: &Options) -> Result<(), Failure> {
    let cases = wanted(options)?;
    let alone = options.alone || options.quick;
    let peer = if alone {
        None
    } else {
        Some(Peer::find(measure::PEER.1, options.peers.as_deref(), options.python.as_deref())?)
    };
    let scratch = tempfile::tempdir().map_err(|e| Failure::Broken(e.to_string()))?;
    let (steps, rounds) = if options.quick { (2, 1) } else { (options.steps as usize, options.rounds as usize) };
    let amount = Amount { steps, rounds };
    let place = options.place;
    let bench = Bench { peer: peer.as_ref(), compile: options.compile, place, amount, scratch: scratch.path() };
    let mut report = Report { machine: machine::machine(), ..Report::default() };
    let outcome = measure_all(&bench, &cases, options, &mut report);
    // What was measured before a failure is not lost.
    print!("{}", report.tables());
    write_json(options, &report)?;
    outcome
}

/// Measures all cases. Where losses differ, the first sentence that says so is the failure, after all has been measured.
fn measure_all(bench: &Bench<'_>, cases: &[Case], options: &Options, report: &mut Report) -> Result<(), Failure> {
    let mut differ = None;
    for case in cases {
        for threads in options.threads.iter().map(|n| usize::from(*n)) {
            eprintln!("{}, {threads} threads: {}", case.name, case.describe());
            let line = bench.measure(case, threads)?;
            eprintln!("  {}", line.summary());
            let apart = line.losses.as_ref().and_then(|losses| losses.differ.clone());
            apart.iter().for_each(|sentence| eprintln!("  {sentence}"));
            differ = differ.or(apart);
            report.lines.push(line);
            if case.kind == Kind::Spread {
                report.depths.extend(bench.depths(case, threads)?);
            }
        }
    }
    differ.map_or(Ok(()), |sentence| Err(Failure::Differ(sentence)))
}

/// The cases that are asked for.
fn wanted(options: &Options) -> Result<Vec<Case>, Failure> {
    let all = cases::all();
    if let Some(unknown) = options.cases.iter().find(|name| all.iter().all(|case| case.name != **name)) {
        return Err(Failure::Arguments(format!("there is no case `{unknown}`; --list shows them all")));
    }
    let on_card = options.place.device == device::Kind::Cuda;
    let is_wanted = |case: &Case| match (options.quick, options.cases.is_empty()) {
        (true, _) => case.name == cases::SMOKE,
        (_, true) => case.name != cases::SMOKE && case.for_cards() == on_card,
        (_, false) => options.cases.contains(&case.name),
    };
    Ok(all.into_iter().filter(is_wanted).collect())
}
