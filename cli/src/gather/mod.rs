//! The data of a report, gathered from the folders of runs: records as they lie there (`runs`, `times`), which values of specs follow
//! from others (`brief`), and probes of the trained models (`probe`, `answers`, `by_step`, `analyses`); `rows` is what is compared.

mod analyses;
mod answers;
mod brief;
mod by_step;
mod probe;
mod rows;
mod runs;

use std::path::{Path, PathBuf};

use rtc_report::RunReport;
use rtc_report::data;
use rtc_runs::grid::{CellState, GridManifest};
use rtc_runs::record::{RunFolder, SavedRun};
use rtc_session::failure::SessionFailure;
use rtc_session::folders::{folder, resolved};
use rtc_session::text::{count, duration};

use crate::terminal::Terminal;

use probe::Probe;
use rows::{ReadRun, ReportRows, RunSource};

pub(crate) use probe::ReportOptions;

/// A report, and the folders that it is about.
pub(crate) struct Gathered {
    /// The folders as they were found.
    pub(crate) folders: Vec<PathBuf>,
    /// Everything about them.
    pub(crate) report: RunReport,
}

/// A run that was read.
struct LocatedRun {
    path: PathBuf,
    saved: SavedRun,
}

/// The failure of a run that is left out of a report.
enum ProbeError {
    /// The run is broken: others can be shown without it.
    Run(SessionFailure),
    /// The inputs that were asked for are, which is no fault of any run.
    Inputs(SessionFailure),
}

impl From<SessionFailure> for ProbeError {
    fn from(failure: SessionFailure) -> Self {
        Self::Run(failure)
    }
}

/// Reads all runs in and below these folders, and probes their models.
///
/// A broken run among several is left out with a note; one that was named itself is an error, and so are broken inputs.
pub(crate) fn gather(
    named: &[PathBuf],
    options: &ReportOptions,
    terminal: &Terminal,
) -> Result<Gathered, SessionFailure> {
    let folders = named.iter().map(|path| folder(path)).collect::<Result<Vec<_>, _>>()?;
    let report = RunReport { title: title(&folders), ..RunReport::default() };
    let mut gatherer =
        Gatherer { report, probe: Probe::new(options), rows: ReportRows::default(), seen: vec![], broken: 0, terminal };
    let sources = folders.iter().map(|folder| runs::below(folder)).collect::<Result<Vec<_>, _>>()?;
    let grids = sources.iter().flatten().filter(|source| matches!(source, RunSource::Grid(..))).count();
    for source in sources.iter().flatten() {
        match source {
            RunSource::Run(path) => gatherer.unlisted(path, folders.contains(path))?,
            RunSource::Grid(folder, manifest) => gatherer.grid(folder, manifest, grids > 1)?,
        }
    }
    let Gatherer { mut report, rows, broken, .. } = gatherer;
    if report.runs.is_empty() {
        let path = named.first().map_or(Path::new("."), PathBuf::as_path);
        let why = match broken {
            0 => "none of its runs has begun".to_owned(),
            broken => format!("there is nothing but {}", count(broken, "broken run")),
        };
        return Err(SessionFailure::io("report on", path, std::io::Error::other(why)));
    }
    let (rows, tasks) = rows.finish();
    let seconds = report.runs.iter().filter_map(|run| run.seconds).reduce(|sum, seconds| sum + seconds);
    report.took = seconds.map(duration);
    // The table of a single run goes split by split.
    (report.rows, report.tasks) = (rows, if report.runs.len() > 1 { tasks } else { vec![] });
    name_models(&mut report);
    Ok(Gathered { folders, report })
}

/// Names a model that a single row has after that row, as the user does.
fn name_models(report: &mut RunReport) {
    for at in 0..report.models.len() {
        let has = |row: &&data::ReportRow| row.runs.iter().any(|run| report.runs[*run].model == at);
        let rows: Vec<&data::ReportRow> = report.rows.iter().filter(has).collect();
        let [row] = rows.as_slice() else { continue };
        let name = row.name.clone();
        let is_free = report.models.iter().enumerate().all(|(other, model)| other == at || model.name != name);
        if is_free {
            report.models[at].name = name;
        }
    }
}

/// Puts a report together, run by run.
struct Gatherer<'a> {
    report: RunReport,
    probe: Probe<'a>,
    rows: ReportRows,
    /// Runs that were read, with their numbers; broken ones have none.
    seen: Vec<(PathBuf, Option<usize>)>,
    broken: usize,
    terminal: &'a Terminal,
}

impl Gatherer<'_> {
    /// Adds a run that no grid lists.
    fn unlisted(&mut self, path: &Path, is_named: bool) -> Result<(), SessionFailure> {
        if self.seen.iter().any(|(seen, _)| seen == path) {
            return Ok(());
        }
        self.add(path, is_named, |rows, run| rows.add_unlisted(run))
    }

    /// Adds the rows of a grid with the runs that have begun.
    fn grid(&mut self, folder: &Path, manifest: &GridManifest, named: bool) -> Result<(), SessionFailure> {
        let label = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let first = self.rows.add_grid(folder, manifest, label.as_deref().filter(|_| named));
        for (n, row) in manifest.rows.iter().enumerate() {
            for cell in &row.cells {
                let path = resolved(folder, &cell.run);
                if RunFolder::exists(&path) {
                    self.add(&path, false, |rows, run| rows.put(first + n, run))?;
                }
            }
        }
        let unlisted = runs::unlisted(folder, manifest)?;
        if unlisted > 0 {
            let note = format!(
                "{}: {} below it that `rtc ablate` was not last asked for: left out",
                folder.display(),
                count(unlisted, "run")
            );
            self.note(note);
        }
        Ok(())
    }

    /// Reads a run, unless that was done, and puts it where it belongs.
    fn add(
        &mut self,
        path: &Path,
        is_named: bool,
        put: impl FnOnce(&mut ReportRows, ReadRun<'_>),
    ) -> Result<(), SessionFailure> {
        let known = self.seen.iter().find(|(seen, _)| seen == path).map(|(_, index)| *index);
        let read = match known {
            Some(None) => return Ok(()),
            Some(Some(index)) => read(path).map(|found| (index, found)),
            None => add(path, &mut self.probe, &mut self.report, self.terminal)
                .map(|found| (self.report.runs.len() - 1, found)),
        };
        let (index, (saved, state)) = match read {
            Ok(found) => found,
            Err(ProbeError::Inputs(failure)) => return Err(failure),
            Err(ProbeError::Run(failure)) if is_named => return Err(failure),
            Err(ProbeError::Run(failure)) => {
                self.broken += 1;
                self.seen.push((path.to_owned(), None));
                self.note(format!("{} is left out: {failure}", path.display()));
                return Ok(());
            }
        };
        if known.is_none() {
            self.seen.push((path.to_owned(), Some(index)));
        }
        let spec = self.report.models[self.report.runs[index].model].spec.as_ref();
        put(&mut self.rows, ReadRun { index, path, saved: &saved, state, spec });
        Ok(())
    }

    fn note(&mut self, text: String) {
        self.terminal.message(&text);
        self.report.notes.push(text);
    }
}

/// A run, and how far it is.
type FoundRun = (SavedRun, CellState);

fn read(path: &Path) -> Result<FoundRun, ProbeError> {
    let saved = SavedRun::read(path).map_err(SessionFailure::from)?;
    let state = CellState::of(path, &saved).map_err(SessionFailure::from)?;
    Ok((saved, state))
}

/// Adds a run; after an error the report is as it was.
fn add(
    path: &Path,
    probe: &mut Probe<'_>,
    report: &mut RunReport,
    terminal: &Terminal,
) -> Result<FoundRun, ProbeError> {
    let (saved, state) = read(path)?;
    let found = LocatedRun { path: path.to_owned(), saved };
    let runs::RecordedRun { mut run, spec, text } = runs::read(&found)?;
    let known = report.models.iter().position(|model| runs::same(model, &found.saved.info.model, &text));
    run.model = known.unwrap_or(report.models.len());
    // One run of a model is enough to draw, the first that has a checkpoint.
    let draw = known
        .and_then(|n| report.models.get(n))
        .is_none_or(|model| model.traces.is_empty() && model.saliency.is_none() && model.answers.is_none());
    let seen = probe.run(&found, draw, terminal)?;
    run.lengths = seen.lengths;
    let halting = found.saved.results.as_ref().and_then(|table| table.halting.clone());
    let fall = found.saved.results.as_ref().and_then(|table| table.fall.as_ref());
    let fall = fall.map(|fall| format!("the training fell from its best: {}; {}", fall.text(), fall.advice()));
    report.notes.extend(seen.note.into_iter().chain(halting).chain(fall).map(|note| format!("{}: {note}", run.name)));
    if known.is_none() {
        let name = runs::model_name(&found.saved.info, &report.models);
        report.models.push(data::Model {
            name,
            spec,
            text,
            traces: vec![],
            clouds: vec![],
            saliency: None,
            answers: None,
            steps: vec![],
        });
    }
    if let Some(model) = report.models.get_mut(run.model)
        && draw
    {
        (model.traces, model.clouds) = (seen.traces, seen.clouds);
        (model.saliency, model.steps, model.answers) = (seen.saliency, seen.steps, seen.answers);
    }
    report.runs.push(run);
    Ok((found.saved, state))
}

fn title(folders: &[PathBuf]) -> String {
    let name = |path: &PathBuf| {
        if RunFolder::exists(path) {
            return runs::run_name(path);
        }
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        name.unwrap_or_else(|| path.display().to_string())
    };
    folders.iter().map(name).collect::<Vec<_>>().join(", ")
}
