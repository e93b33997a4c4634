//! `rtc ablate`: trains every model of a comparison with every seed, and prints the table.

mod cluster;

use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::limits;
use clap::Args;
use rtc_runs::experiment::{EditSweep, Halving};
use rtc_runs::grid::claim::LEASE;
use rtc_runs::grid::{Begun, CellState, GridRow, Sheet, Show, TableFormat, render, to_json};
use rtc_runs::record::RunFolder;
use rtc_runs::record::history::RunProgress;
use rtc_session::device::Card;
use rtc_session::experiment_file::{ExperimentRow, OpenedExperiment};
use rtc_session::failure::SessionFailure;
use rtc_session::job::{Pace, share};
use rtc_session::memory;
use rtc_session::text::{count, duration, number};

use super::train::check_folder;
use crate::choice::choice;
use crate::exit::{CommandResult, Exit};
use crate::grid::launch::{LaunchOptions, Launcher};
use crate::grid::{Board, CellIndex, EVALUATE_AT, Failed, Grid, GridWork, Sharing, dry_run, run as train_cells};
use crate::options::{DeviceOptions, HaltingArg, ProgramOptions};
use crate::signals;
use crate::terminal::{Terminal, quoted};
use crate::threads;

const EXAMPLES: &str = "\
Examples:
  rtc ablate listops_ablation_smoke                 every model of ListOps for a laptop
  rtc ablate my.yaml --dry-run                      the cells, with parameters, operations and time
  rtc ablate my.yaml --table --format latex         the table of what is finished so far
  rtc ablate my.yaml --jobs 4 --with seeds=[1,2,3]
  rtc ablate my.yaml --halving 1/3@500,1500         a third of the rows goes on after update 500, and of these after 1,500
  rtc ablate my.yaml --table --parameters --depth --metric loss
  rtc ablate my.yaml --table --baseline my          how far every row is from the one named `my`
  rtc ablate my.yaml --launcher commands            a line of shell per cell, for any queue
  rtc ablate sudoku_smoke --grid parts --row trm --row 'trm { remove loop.until }'   rows of the command line
  rtc ablate my.yaml --watch --json                 what runs where
";

const RESUMING: &str = "\
The experiment lists what is compared: `compare: [gut, gut:no_gate, {spec: gut, name: deep, set: [depthwise.depth=20]}]`. \
Every model is trained with every seed, the first seed of all models first. A cell is an ordinary run, in \
RUNS/GRID/MODEL/seedN, trained on one thread with the same numbers as `rtc train`.

A grid that was stopped or killed goes on with the same command, and trains nothing twice. Cells that failed are tried \
again. A cell is found by what it is: where the model, the experiment or the data were changed, the rows that they change are \
trained in folders of their own (seedN-HASH), what is finished below RUNS is taken from there, and older runs are kept. \
A table of runs whose data or program differ is refused.

Several processes with the same command, on one machine or on many that share the folder of the runs, train one grid: each takes cells that no other holds, and takes over those of one that ended or fell silent. --launcher submits a job per cell to a cluster.
";

/// Arguments of `rtc ablate`.
#[derive(Args)]
#[command(before_help = EXAMPLES, after_help = RESUMING)]
pub(crate) struct Options {
    /// The experiment: a YAML file with a list `compare` or a block `grid`, or the name of one that is built in
    experiment: String,
    /// List the cells with parameters, operations and time, and train nothing
    #[arg(long, conflicts_with = "table")]
    dry_run: bool,
    #[command(flatten)]
    programs: ProgramOptions,
    /// Print the table of what is finished, and train nothing
    #[arg(long)]
    table: bool,
    /// How many cells at a time, each on one thread; as many as the machine runs at once without it, and as the memory of a device allows
    #[arg(long, short, value_name = "N", value_parser = threads::parse)]
    jobs: Option<NonZeroUsize>,
    /// How the table is written
    #[arg(long, value_enum, default_value_t = FormatArg::Text, conflicts_with = "json")]
    format: FormatArg,
    /// What is shown for each split, as `accuracy`, `loss`; every accuracy of the task, or the errors of its numbers, without it
    #[arg(long, value_name = "NAME")]
    metric: Vec<String>,
    /// A column with the number of parameters
    #[arg(long)]
    parameters: bool,
    /// Columns with the best number over the seeds, before each mean: the largest, of a loss or an error the smallest
    #[arg(long)]
    max: bool,
    /// Columns with the mean depth
    #[arg(long)]
    depth: bool,
    /// The row that the others are compared with; that of the experiment's `baseline`, or the first, without it
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    /// The means alone, without intervals and tests
    #[arg(long, conflicts_with = "baseline")]
    plain: bool,
    /// Stop the worst rows at some updates, as in `1/3@500,1500`, whatever the experiment says; `off` stops none
    #[arg(long, value_name = "KEEP@UPDATES", value_parser = halving)]
    halving: Option<HalvingArg>,
    /// Put runs into one table whose data or program differ; notes say which
    #[arg(long)]
    mixed: bool,
    /// Compare these rows and not those of the experiment: `trm`, `trm { remove loop.until }`, `short = trm { loop.steps: 4 }`
    #[arg(long, value_name = "ROW", value_parser = ExperimentRow::parse)]
    row: Vec<ExperimentRow>,
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
    #[command(flatten)]
    device: DeviceOptions,
    #[command(flatten)]
    launch: LaunchOptions,
    /// Train one cell alone, by its name in `--launcher commands`; of a list, or of the lines of `@FILE`, that of this job of an array
    #[arg(long, value_name = "CELL", conflicts_with_all = ["dry_run", "table", "launcher", "watch", "json"])]
    cell: Option<String>,
    /// Show what runs where, until nothing is left to train, and train nothing; with `--json` as it is now
    #[arg(long, conflicts_with_all = ["dry_run", "table", "launcher"])]
    watch: bool,
    /// How long a cell is kept for a process that gives no sign of life
    #[arg(long, value_name = "SECONDS", value_parser = lease)]
    lease: Option<Duration>,
    /// Print cells, results and the table as JSON
    #[arg(long)]
    json: bool,
}

/// `--lease`.
fn lease(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=limits::SECONDS as f64).contains(seconds));
    let wanted = || format!("seconds are wanted, from 0.1 to {}", limits::SECONDS);
    seconds.map(Duration::from_secs_f64).ok_or_else(wanted)
}

/// `--halving`.
#[derive(Clone, Debug)]
enum HalvingArg {
    /// No row is stopped.
    Off,
    /// The worst rows are stopped.
    At(Halving),
}

fn halving(text: &str) -> Result<HalvingArg, String> {
    if text == "off" { Ok(HalvingArg::Off) } else { Halving::parse(text).map(HalvingArg::At) }
}

choice! {
    /// `--format`.
    enum FormatArg for TableFormat {
        /// Aligned columns
        Text,
        /// A Markdown table
        Markdown,
        /// Comma-separated values with all digits
        Csv,
        /// A LaTeX tabular with the rules of booktabs
        Latex,
    }
}

/// Trains what is not finished, and prints the table.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> CommandResult {
    options.launch.check()?;
    // Every cell opens the device anew; one that can't be opened is no cell's fault.
    let device = options.device.choice();
    let place = device.open()?;
    let card = place.card()?;
    let opened = match options.row.as_slice() {
        [] => OpenedExperiment::open(&options.experiment)?,
        rows => OpenedExperiment::open_with_rows(&options.experiment, rows)?,
    };
    let opened = opened.permitting(options.programs.run_commands);
    let name = options.grid.as_ref().unwrap_or(&opened.name);
    check_folder("--grid", name)?;
    let mut grid = Grid::plan(&opened, (&options.runs, name), &options.with, &options.set, &place, terminal)?;
    // Every cell opens its own.
    drop(place);
    if RunFolder::exists(&grid.folder) {
        let folder = grid.folder.display();
        return Err(SessionFailure::Usage(format!(
            "{folder} is the folder of a run; `--grid NAME` gives the grid another one"
        )));
    }
    grid.check_metrics(&options.metric)?;
    if let Some(name) = &options.baseline {
        grid.compare_with(name)?;
    }
    let jobs = options.jobs.or(thread::available_parallelism().ok()).map_or(1, usize::from);
    let pace = Pace { memory: options.memory, halting: options.halting.into(), device };
    match &options.halving {
        None => {}
        Some(HalvingArg::Off) => grid.halve(None)?,
        Some(HalvingArg::At(halving)) => grid.halve(Some(halving.clone()))?,
    }
    if options.dry_run || options.table {
        look_at_files(&mut grid, terminal)?;
        grid.changes().iter().for_each(|change| terminal.message(change));
    }
    if options.dry_run {
        dry_run(&grid, &grid.rows()?, (jobs, pace, card.as_ref()), options.json, terminal)?;
        return Ok(Exit::Done);
    }
    if options.table {
        let rows = grid.rows()?;
        going(&rows, terminal)?;
        table(options, &grid, &rows, terminal)?;
        return Ok(Exit::Done);
    }
    if options.watch {
        return cluster::watch(options, &mut grid, terminal);
    }
    let how = (pace, card.as_ref());
    match &options.cell {
        Some(cell) => cluster::cell(options, &mut grid, cell, how, terminal),
        None => train(options, &mut grid, jobs, how, terminal),
    }
}

fn train(
    options: &Options,
    grid: &mut Grid,
    jobs: usize,
    (pace, card): (Pace, Option<&Card>),
    terminal: &Terminal,
) -> CommandResult {
    let _lock = share(&grid.folder)?;
    let wanted = [unfinished(grid)?, grid.read_from_files()].concat();
    let data = grid.data(&wanted, terminal)?;
    grid.locate(&data)?;
    let rows = grid.rows()?;
    sheet(options, grid, &rows)?;
    let all = grid.places();
    let places = unfinished(grid)?;
    grid.changes().iter().for_each(|change| terminal.message(change));
    let jobs = grid.jobs(jobs, card, (&grid.distinct(&places), &data), pace, terminal)?;
    let elsewhere = match grid.elsewhere() {
        0 => String::new(),
        some => format!(", {} of them in other folders", number(some as f64)),
    };
    let local = options.launch.launcher == Launcher::Local;
    let how = if local { format!(", {jobs} at a time") } else { String::new() };
    terminal.message(&format!(
        "{}: {} of {} are finished{elsewhere}{how}",
        grid.folder.display(),
        number(finished(&rows) as f64),
        count(all.len(), "cell"),
    ));
    if !options.mixed && !places.is_empty() {
        strangers(&rows, &grid.program)?;
    }
    write_manifest(grid)?;
    if places.is_empty() && options.launch.launcher.prints() {
        return Ok(Exit::Done);
    }
    if places.is_empty() && grid.unmeasured()?.is_empty() {
        table(options, grid, &rows, terminal)?;
        return Ok(next(grid, terminal));
    }
    let sharing = Sharing::new(grid, options.lease.unwrap_or(LEASE))?;
    if !local && !places.is_empty() {
        return cluster::launch(options, grid, (&places, &data, &sharing), (pace, card), terminal);
    }
    let stop = signals::on_stop()?;
    let board = Board::new(terminal, &rows, &grid.updates(&grid.distinct(&places), &data)?, jobs);
    let work = GridWork { grid, data: &data, jobs, pace, card, stop: &stop, board: &board, sharing: &sharing };
    let failed: Failed = train_cells(&work)?;
    drop(board);
    let left = unfinished(grid)?.into_iter().filter(|place| !failed.iter().any(|(other, _)| other == place)).count();
    if left == 0 {
        measure_under_edits(options, grid, &stop, terminal)?;
    }
    if stop.load(Ordering::Relaxed) && (left > 0 || !grid.unmeasured()?.is_empty()) {
        return stopped(options, grid, terminal);
    }
    table(options, grid, &grid.rows()?, terminal)?;
    match failed.first() {
        Some((_, code)) => Ok(Exit::Reported(*code)),
        None => Ok(next(grid, terminal)),
    }
}

/// Measures the finished cells under the edits of `evaluate_at`, as far as they were not.
fn measure_under_edits(
    options: &Options,
    grid: &Grid,
    stop: &AtomicBool,
    terminal: &Terminal,
) -> Result<(), SessionFailure> {
    let places = grid.unmeasured()?;
    let data = grid.data(&places, terminal)?;
    grid.evaluate(&places, &data, options.device.choice(), stop, terminal)
}

/// Says how far a grid is that was stopped.
fn stopped(options: &Options, grid: &Grid, terminal: &Terminal) -> CommandResult {
    let rows = grid.rows()?;
    terminal.message(&format!(
        "stopped with {} of {} finished; the same command goes on, and `--table` shows them",
        number(finished(&rows) as f64),
        count(grid.places().len(), "cell")
    ));
    if options.json {
        table(options, grid, &rows, terminal)?;
    }
    Ok(Exit::Stopped)
}

/// Writes the list of rows into the folder of the grid. Another process that fails at its start may have removed the folder, which was
/// empty for it.
fn write_manifest(grid: &Grid) -> Result<(), SessionFailure> {
    fs::create_dir_all(&grid.folder).map_err(|error| SessionFailure::io("create", &grid.folder, error))?;
    Ok(grid.manifest().write(&grid.folder)?)
}

/// Finds the runs that belong to the data as their files are now. Where these can't be read any more, that is said, and the runs are
/// those of the data as they were.
fn look_at_files(grid: &mut Grid, terminal: &Terminal) -> Result<(), SessionFailure> {
    match grid.data(&grid.read_from_files(), terminal) {
        Ok(data) => grid.locate(&data),
        Err(failure) => {
            terminal.alert(&format!("{failure}: whether the data have changed is not known"));
            Ok(())
        }
    }
}

/// Says what can be done with a grid that is finished.
fn next(grid: &Grid, terminal: &Terminal) -> Exit {
    terminal.next(&format!("rtc report {}", quoted(&grid.folder)));
    Exit::Done
}

fn finished(rows: &[GridRow]) -> usize {
    rows.iter().map(|row| row.finished().count()).sum()
}

/// The cells that are neither finished nor stopped, in the order in which they are trained.
fn unfinished(grid: &Grid) -> Result<Vec<CellIndex>, SessionFailure> {
    let rows = grid.rows()?;
    let goes_on = |place: &CellIndex| {
        let state = &rows[place.model].cells[place.seed].state;
        !matches!(state, CellState::Finished(_) | CellState::Stopped(_))
    };
    Ok(grid.places().into_iter().filter(goes_on).collect())
}

/// Says how far the cells are that have begun and are not finished, whether they are being trained now or not.
fn going(rows: &[GridRow], terminal: &Terminal) -> Result<(), SessionFailure> {
    for (row, cell) in rows.iter().flat_map(|row| row.cells.iter().map(move |cell| (row, cell))) {
        if let CellState::Unfinished(_) = cell.state
            && let Some(progress) = RunProgress::read(&cell.path)?
        {
            let RunProgress { update, total, loss, seconds } = progress;
            let loss = loss.map(|loss| format!(", loss {loss:.4}")).unwrap_or_default();
            let left =
                seconds.map(|seconds| format!(", about {} of training left", duration(seconds))).unwrap_or_default();
            let (update, total) = (number(update as f64), number(total as f64));
            terminal.message(&format!("{} seed {}: update {update}/{total}{loss}{left}", row.name, cell.seed));
        }
    }
    Ok(())
}

fn shown(options: &Options, grid: &Grid) -> Show {
    let Options { parameters, max: best, depth, mixed, .. } = *options;
    let baseline = (!options.plain).then_some(grid.baseline);
    Show { metrics: options.metric.clone(), parameters, best, depth, mixed, baseline }
}

fn sheet(options: &Options, grid: &Grid, rows: &[GridRow]) -> Result<Sheet, SessionFailure> {
    Sheet::new(rows, &shown(options, grid)).map_err(|mixture| different(&mixture.0))
}

/// The tables of the models under edits, one per path.
fn sheets_by_edit(options: &Options, grid: &Grid, rows: &[GridRow]) -> Result<Vec<(String, Sheet)>, SessionFailure> {
    let of = |sweep: EditSweep| {
        let sheet = Sheet::by_edit(rows, &sweep, &shown(options, grid)).map_err(|mixture| different(&mixture.0))?;
        Ok((sweep.path, sheet))
    };
    grid.sweeps().into_iter().map(of).collect()
}

fn table(options: &Options, grid: &Grid, rows: &[GridRow], terminal: &Terminal) -> Result<(), SessionFailure> {
    let sheet = sheet(options, grid, rows)?;
    let by_edit = sheets_by_edit(options, grid, rows)?;
    if options.json {
        let mut records = to_json(rows, &sheet);
        records["grid"] = grid.folder.display().to_string().into();
        for (path, sheet) in &by_edit {
            records[EVALUATE_AT][path] = sheet.to_json();
        }
        return terminal.json(&records);
    }
    let tables = std::iter::once(&sheet).chain(by_edit.iter().map(|(_, sheet)| sheet));
    let texts: Vec<String> = tables.map(|sheet| render(sheet, options.format.into())).collect();
    terminal.result(&texts.join("\n"))
}

/// Refuses to train the rest of a grid with another program than what is finished; nor does it go on with what another program
/// began.
fn strangers(rows: &[GridRow], program: &str) -> Result<(), SessionFailure> {
    let mut found = vec![];
    for row in rows {
        for cell in &row.cells {
            let (label, state) = (format!("{} seed {}", row.name, cell.seed), &cell.state);
            if let Some(Begun { versions }) = state.begun().filter(|begun| begun.versions != program) {
                found.push(format!("{label} was begun by another program ({versions}) than this one ({program})"));
            }
            if let CellState::Finished(measured) = state
                && measured.program.versions != program
            {
                let versions = &measured.program.versions;
                found.push(format!("{label} was trained by another program ({versions}) than this one ({program})"));
            }
        }
    }
    if found.is_empty() { Ok(()) } else { Err(different(&found)) }
}

fn different(what: &[String]) -> SessionFailure {
    let list: String = what.iter().map(|line| format!("\n  {line}")).collect();
    SessionFailure::Mixed(format!(
        "these runs are not comparable; `--mixed` goes on and marks them, `--grid NAME` begins a new grid:{list}"
    ))
}
