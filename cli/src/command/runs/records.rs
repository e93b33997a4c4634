//! `rtc runs records`: all that a run or a grid has recorded, for programs. What is read is checked as by every other command.

use std::path::Path;
use std::time::UNIX_EPOCH;

use rtc_runs::grid::{CellState, GridCell, GridManifest, GridRow, ListedCell, ManifestRow, Sheet, Show, to_json};
use rtc_runs::record::TrainingFault;
use rtc_runs::record::checkpoint::{self, CheckpointSlot};
use rtc_runs::record::history::History;
use rtc_runs::record::{RunFolder, SavedRun};
use rtc_session::failure::SessionFailure;
use rtc_session::folders::{find, grid, name, resolved};
use serde_json::{Value, json};

use crate::exit::{CommandResult, Exit};
use crate::grid::asked;
use crate::listing::{ListedRun, ReadExtent};
use crate::terminal::Terminal;

/// Prints the records of a run, or those of a grid where no run has this name.
pub(super) fn records(named: &Path, terminal: &Terminal) -> CommandResult {
    let records = match (find(named), grid(named)) {
        (Ok(path), _) => of_run(&path)?,
        (Err(_), Some(path)) => of_grid(&path)?,
        (Err(none), None) => return Err(none),
    };
    terminal.json(&records)?;
    Ok(Exit::Done)
}

fn of_run(path: &Path) -> Result<Value, SessionFailure> {
    let ListedRun { state, begun, labels, settings, fault, .. } = ListedRun::read(path, ReadExtent::Settings);
    fault.map_or(Ok(()), Err)?;
    let SavedRun { info, spec, results, .. } = SavedRun::read(path)?;
    let History { steps, evaluations } = History::read(path)?;
    let folder = |slot| Some(SavedRun::checkpoint(path, slot)).filter(|path| path.is_dir()).map(|path| text(&path));
    let begun = begun.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).map(|time| time.as_secs());
    Ok(json!({
        "run": text(path), "name": name(path), "state": state.word(), "begun": begun, "named": labels.experiment,
        "tags": labels.tags, "note": labels.note, "info": info, "spec": spec, "experiment": settings,
        "updates": steps, "evaluations": evaluations, "results": results,
        "checkpoints": {
            "best": folder(CheckpointSlot::Best), "last": folder(CheckpointSlot::Last), "kept": checkpoint::kept(path),
        },
    }))
}

/// The rows of a grid as its last command has listed them, with their table as far as it is.
fn of_grid(folder: &Path) -> Result<Value, SessionFailure> {
    let manifest = GridManifest::read(folder)?.unwrap_or_else(|| GridManifest::new(vec![]));
    let rows = manifest.rows.iter().map(|listed| row(folder, listed)).collect::<Result<Vec<_>, _>>()?;
    let baseline = manifest.rows.iter().position(|listed| Some(&listed.name) == manifest.baseline.as_ref());
    let show = Show { mixed: true, baseline: Some(baseline.unwrap_or(0)), ..Show::default() };
    let sheet = Sheet::new(&rows, &show).expect("runs of several programs are asked for");
    let mut records = to_json(&rows, &sheet);
    records["grid"] = text(folder).into();
    Ok(records)
}

fn row(folder: &Path, listed: &ManifestRow) -> Result<GridRow, SessionFailure> {
    let mut row = GridRow { name: listed.name.clone(), parameters: 0, data: String::new(), cells: vec![] };
    for ListedCell { seed, run } in &listed.cells {
        let path = resolved(folder, run);
        let state = if RunFolder::exists(&path) {
            let saved = SavedRun::read(&path)?;
            (row.parameters, row.data) = (saved.info.parameters, asked(&saved.experiment));
            CellState::of(&path, &saved)?
        } else {
            TrainingFault::read(&path)?.map_or(CellState::Absent, |fault| CellState::Failed(fault, None))
        };
        row.cells.push(GridCell { seed: *seed, path, state });
    }
    Ok(row)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
