//! `rtc ablate`: trains every model of a comparison with every seed, and prints the table.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use clap::{Args, ValueEnum};
use rtc_runtime::grid::{Begun, Format, Row, Sheet, Show, State, render, to_json};

use super::train::is_name;
use crate::experiment_file::Opened;
use crate::failure::{Exit, Failure, Outcome};
use crate::grid::{Ended, Grid, Place, Work, dry_run, run as train_cells};
use crate::job::{Data, Pace, lock, on_signals, program};
use crate::memory;
use crate::saved::HaltingArg;
use crate::terminal::Terminal;
use crate::text::{count, number};
use crate::threads;

const EXAMPLES: &str = "\
Examples:
  rtc ablate listops_ablation_smoke                 every model of ListOps for a laptop
  rtc ablate my.yaml --dry-run                      the cells, with parameters, operations and time
  rtc ablate my.yaml --table --format latex         the table of what is finished so far
  rtc ablate my.yaml --jobs 4 --with seeds=[1,2,3]
  rtc ablate my.yaml --table --parameters --depth --metric loss
";

const RESUMING: &str = "\
The experiment lists what is compared: `compare: [gut, gut:no_gate, {spec: gut, name: deep, set: [depthwise.depth=20]}]`. \
Every model is trained with every seed, the first seed of all models first. A cell is an ordinary run, in \
RUNS/GRID/MODEL/seedN, trained on one thread with the same numbers as `rtc train`.

A grid that was stopped or killed goes on with the same command, and trains nothing twice. Cells that failed are tried \
again. A folder that holds another run is refused, and so is a table of runs whose data or program differ.
";

/// Arguments of `rtc ablate`.
#[derive(Args)]
#[command(before_help = EXAMPLES, after_help = RESUMING)]
pub(crate) struct Options {
    /// The experiment: a YAML file with a list `compare`, or the name of one that is built in
    experiment: String,
    /// List the cells with parameters, operations and time, and train nothing
    #[arg(long, conflicts_with = "table")]
    dry_run: bool,
    /// Print the table of what is finished, and train nothing
    #[arg(long)]
    table: bool,
    /// How many cells at a time, each on one thread; as many as the machine runs at once without it
    #[arg(long, short, value_name = "N", value_parser = threads::parse)]
    jobs: Option<NonZeroUsize>,
    /// How the table is written
    #[arg(long, value_enum, default_value_t = FormatArg::Text, conflicts_with = "json")]
    format: FormatArg,
    /// What is shown for each split, as `accuracy`, `loss`; every accuracy of the task without it
    #[arg(long, value_name = "NAME")]
    metric: Vec<String>,
    /// A column with the number of parameters
    #[arg(long)]
    parameters: bool,
    /// Columns with the largest number over the seeds, before each mean
    #[arg(long)]
    max: bool,
    /// Columns with the mean depth
    #[arg(long)]
    depth: bool,
    /// Put runs into one table whose data or program differ; notes say which
    #[arg(long)]
    mixed: bool,
    /// Edit every model, as in `embed.width=64`; comes after the edits of the experiment
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Edit the experiment, as in `epochs=2`
    #[arg(long, value_name = "PATH=VALUE")]
    with: Vec<String>,
    /// Name of the grid's folder; that of the experiment without it
    #[arg(long, value_name = "NAME")]
    grid: Option<String>,
    /// The folder that holds the runs
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    /// Stay below so much memory in every cell, as in `2GB`; changes speed alone
    #[arg(long, value_name = "SIZE", value_parser = memory::parse)]
    memory: Option<u64>,
    /// What sequences that have halted cost; changes speed alone
    #[arg(long, value_enum, default_value_t = HaltingArg::Compact)]
    halting: HaltingArg,
    /// Print cells, results and the table as JSON
    #[arg(long)]
    json: bool,
}

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormatArg {
    /// Aligned columns
    Text,
    /// A Markdown table
    Markdown,
    /// Comma-separated values with all digits
    Csv,
    /// A LaTeX tabular with the rules of booktabs
    Latex,
}

impl From<FormatArg> for Format {
    fn from(arg: FormatArg) -> Self {
        match arg {
            FormatArg::Text => Self::Text,
            FormatArg::Markdown => Self::Markdown,
            FormatArg::Csv => Self::Csv,
            FormatArg::Latex => Self::Latex,
        }
    }
}

/// Trains what is not finished, and prints the table.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> Outcome {
    let opened = Opened::open(&options.experiment)?;
    let name = options.grid.as_ref().unwrap_or(&opened.name);
    if !is_name(name) {
        return Err(Failure::Usage(format!("`--grid {name}` is no name; `--runs` says where the folder is made")));
    }
    let folder = options.runs.join(name);
    let grid = Grid::plan(&opened, folder, &options.with, &options.set, terminal)?;
    grid.check_metrics(&options.metric)?;
    let jobs = options.jobs.or(thread::available_parallelism().ok()).map_or(1, usize::from);
    let pace = Pace { memory: options.memory, halting: options.halting.into() };
    if options.dry_run {
        dry_run(&grid, &grid.rows()?, (jobs, pace), options.json, terminal)?;
        return Ok(Exit::Done);
    }
    if options.table {
        table(options, &grid.rows()?, terminal)?;
        return Ok(Exit::Done);
    }
    train(options, &grid, (jobs, pace), terminal)
}

fn train(options: &Options, grid: &Grid, (jobs, pace): (usize, Pace), terminal: &Terminal) -> Outcome {
    let _lock = lock(&grid.folder)?;
    let rows = grid.rows()?;
    sheet(options, &rows)?;
    grid.manifest().write(&grid.folder)?;
    let all = grid.places();
    let is_finished = |place: &Place| matches!(rows[place.model].cells[place.seed].state, State::Finished(_));
    let places: Vec<Place> = all.iter().copied().filter(|place| !is_finished(place)).collect();
    let before = all.len() - places.len();
    terminal.message(&format!(
        "{}: {} of {} are finished, {jobs} at a time",
        grid.folder.display(),
        number(before as f64),
        count(all.len(), "cell"),
    ));
    if places.is_empty() {
        table(options, &rows, terminal)?;
        return Ok(Exit::Done);
    }
    let data = grid.data(&places, terminal)?;
    if !options.mixed {
        strangers(&rows, &data)?;
    }
    let stop = on_signals()?;
    let ended = train_cells(&Work { grid, places: &places, data: &data, jobs, pace, stop: &stop, terminal });
    let Ended { finished, failed } = &ended;
    if stop.load(Ordering::Relaxed) && finished + failed.len() < places.len() {
        terminal.message(&format!(
            "stopped with {} of {} finished; the same command goes on, and `--table` shows them",
            number((before + finished) as f64),
            count(all.len(), "cell")
        ));
        if options.json {
            table(options, &grid.rows()?, terminal)?;
        }
        return Ok(Exit::Stopped);
    }
    table(options, &grid.rows()?, terminal)?;
    Ok(failed.first().map_or(Exit::Done, |(_, code)| Exit::Reported(*code)))
}

fn sheet(options: &Options, rows: &[Row]) -> Result<Sheet, Failure> {
    let Options { parameters, max: best, depth, mixed, .. } = *options;
    let show = Show { metrics: options.metric.clone(), parameters, best, depth, mixed };
    Sheet::new(rows, &show).map_err(|mixture| different(&mixture.0))
}

fn table(options: &Options, rows: &[Row], terminal: &Terminal) -> Result<(), Failure> {
    let sheet = sheet(options, rows)?;
    if options.json {
        return terminal.json(&to_json(rows, &sheet));
    }
    terminal.result(&render(&sheet, options.format.into()))
}

/// Refuses to train the rest of a grid on other data, or with another program, than what is finished; nor does it go on
/// with what another program began.
fn strangers(rows: &[Row], data: &[Option<Arc<Data>>]) -> Result<(), Failure> {
    let program = program();
    let mut found = vec![];
    for (row, data) in rows.iter().zip(data) {
        let hash = data.as_ref().map(|data| data.hash.as_str());
        for cell in &row.cells {
            if let Some(Begun { versions }) = cell.state.begun().filter(|begun| begun.versions != program) {
                let label = format!("{} seed {}", row.name, cell.seed);
                found.push(format!("{label} was begun by another program ({versions}) than this one ({program})"));
            }
        }
        for (cell, measured) in row.finished() {
            let label = format!("{} seed {}", row.name, cell.seed);
            if hash.is_some_and(|hash| hash != measured.data) {
                found.push(format!("{label} was trained on other data than there is now"));
            }
            if measured.program.versions != program {
                let versions = &measured.program.versions;
                found.push(format!("{label} was trained by another program ({versions}) than this one ({program})"));
            }
        }
    }
    if found.is_empty() { Ok(()) } else { Err(different(&found)) }
}

fn different(what: &[String]) -> Failure {
    let list: String = what.iter().map(|line| format!("\n  {line}")).collect();
    Failure::Mixed(format!(
        "these runs are not comparable; `--mixed` goes on and marks them, `--grid NAME` begins a new grid:{list}"
    ))
}
