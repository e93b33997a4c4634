//! What a report is made of, gathered from the folders of runs: records as they lie there (`runs`), and a closer look at
//! the trained models (`closer`, `by_step`, `analyses`).

mod analyses;
mod by_step;
mod closer;
mod runs;

use std::path::{Path, PathBuf};

use rtc_report::Report;
use rtc_report::data;
use rtc_runtime::record::SavedRun;

use crate::failure::Failure;
use crate::terminal::Terminal;
use crate::text::count;

pub(crate) use closer::Closer;

/// A report, and the folders that it is about.
pub(crate) struct Gathered {
    /// The folders as they were found.
    pub(crate) folders: Vec<PathBuf>,
    /// Everything about them.
    pub(crate) report: Report,
}

/// A run that was read.
struct Found {
    path: PathBuf,
    saved: SavedRun,
}

/// Why a run is not in a report.
enum Trouble {
    /// The run is broken: others can be shown without it.
    Run(Failure),
    /// The inputs that were asked for are, which is no fault of any run.
    Inputs(Failure),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Run(failure)
    }
}

/// Reads all runs in and below these folders, and looks closer at their models.
///
/// A broken run among several is left out with a note; one that was named itself is an error, and so are broken inputs.
pub(crate) fn gather(named: &[PathBuf], closer: &Closer, terminal: &Terminal) -> Result<Gathered, Failure> {
    let folders = named.iter().map(|path| runs::folder(path)).collect::<Result<Vec<_>, _>>()?;
    let mut report = Report { title: title(&folders), runs: vec![], models: vec![], notes: vec![] };
    let mut look = closer::Look::new(closer);
    let mut seen: Vec<PathBuf> = vec![];
    for folder in &folders {
        for path in runs::below(folder)? {
            if seen.contains(&path) {
                continue;
            }
            let added = add(&path, &mut look, &mut report, terminal);
            match added {
                Ok(()) => {}
                Err(Trouble::Inputs(failure)) => return Err(failure),
                Err(Trouble::Run(failure)) if path == *folder => return Err(failure),
                Err(Trouble::Run(failure)) => {
                    let note = format!("{} is left out: {}", path.display(), failure);
                    terminal.message(&note);
                    report.notes.push(note);
                }
            }
            seen.push(path);
        }
    }
    if report.runs.is_empty() {
        let path = named.first().map_or(Path::new("."), PathBuf::as_path);
        let broken = count(seen.len(), "broken run");
        return Err(Failure::io("report on", path, std::io::Error::other(format!("there is nothing but {broken}"))));
    }
    Ok(Gathered { folders, report })
}

/// Adds a run; after an error the report is as it was.
fn add(path: &Path, look: &mut closer::Look<'_>, report: &mut Report, terminal: &Terminal) -> Result<(), Trouble> {
    let saved = SavedRun::read(path).map_err(Failure::from)?;
    let found = Found { path: path.to_owned(), saved };
    let (mut run, spec, text) = runs::read(&found)?;
    let known = report.models.iter().position(|model| runs::same(model, &found.saved.info.model, &text));
    run.model = known.unwrap_or(report.models.len());
    // One run of a model is enough to draw, the first that has a checkpoint.
    let draw = known
        .and_then(|n| report.models.get(n))
        .is_none_or(|model| model.traces.is_empty() && model.leaning.is_none() && model.steps.is_empty());
    let seen = look.at(&found, draw, terminal)?;
    run.lengths = seen.lengths;
    let halting = found.saved.results.as_ref().and_then(|table| table.halting.clone());
    report.notes.extend(seen.note.into_iter().chain(halting).map(|note| format!("{}: {note}", run.name)));
    if known.is_none() {
        let name = runs::model_name(&found.saved.info, &report.models);
        report.models.push(data::Model {
            name,
            spec,
            text,
            traces: vec![],
            clouds: vec![],
            leaning: None,
            steps: vec![],
        });
    }
    if let Some(model) = report.models.get_mut(run.model)
        && draw
    {
        (model.traces, model.clouds) = (seen.traces, seen.clouds);
        (model.leaning, model.steps) = (seen.leaning, seen.steps);
    }
    report.runs.push(run);
    Ok(())
}

fn title(folders: &[PathBuf]) -> String {
    let name = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        name.unwrap_or_else(|| path.display().to_string())
    };
    folders.iter().map(name).collect::<Vec<_>>().join(", ")
}
