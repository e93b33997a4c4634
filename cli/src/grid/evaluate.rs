//! Measures the finished cells of a grid again under edits of their models, as `evaluate_at` of the experiment asks.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rtc_compiler::check::Override;
use rtc_runs::experiment::EditSweep;
use rtc_runs::grid::CellState;
use rtc_runs::record::table::ResultsRow;
use rtc_runs::record::{EditResults, EvaluatedAt, RunInfo};
use rtc_session::device::DeviceChoice;
use rtc_session::failure::SessionFailure;
use rtc_session::job::Data;
use rtc_session::saved::{ModelChoice, TrainedModel};
use rtc_session::text::count;
use rtc_session::versions;
use rtc_train::{evaluate, require_finite};

use super::run::reached_without_links;
use super::{CellIndex, Grid};
use crate::progress::ProgressDisplay;
use crate::terminal::Terminal;

/// The field of experiments, which reports of mistakes name.
pub(crate) const EVALUATE_AT: &str = "evaluate_at";

impl Grid {
    /// The sweeps of all rows: each path once, with the values of every row.
    pub(crate) fn sweeps(&self) -> Vec<EditSweep> {
        let mut all: Vec<EditSweep> = vec![];
        for sweep in self.models.iter().flat_map(|member| &member.sweeps) {
            match all.iter_mut().find(|known| known.path == sweep.path) {
                Some(known) => {
                    let new = sweep.values.iter().filter(|value| !known.values.contains(value));
                    let new: Vec<String> = new.cloned().collect();
                    known.values.extend(new);
                }
                None => all.push(sweep.clone()),
            }
        }
        all
    }

    /// The finished cells that are to be measured under an edit and were not, each run once.
    pub(crate) fn unmeasured(&self) -> Result<Vec<CellIndex>, SessionFailure> {
        let rows = self.rows()?;
        let mut seen = BTreeSet::new();
        let mut found = vec![];
        for place in self.places() {
            let cell = &rows[place.model].cells[place.seed];
            let CellState::Finished(measured) = &cell.state else { continue };
            let kept = self.kept(&cell.path, &measured.data);
            let asked = self.models[place.model].sweeps.iter().flat_map(edits);
            if asked.into_iter().any(|edit| kept.get(&edit).is_none() && seen.insert((cell.path.clone(), edit))) {
                found.push(place);
            }
        }
        Ok(found)
    }

    /// What is known of a run under edits, if this program has measured it on these data.
    fn kept(&self, path: &Path, data: &str) -> EvaluatedAt {
        let is_own = |kept: &EvaluatedAt| {
            let run = RunInfo::read(path).map(|info| info.run).unwrap_or_default();
            (&*kept.run, &*kept.data, &*kept.rtc) == (&*run, data, &*versions::program())
        };
        EvaluatedAt::read(path).filter(is_own).unwrap_or_default()
    }

    /// Measures some cells under the edits of their rows. A stop ends it before the next measurement; what was measured is kept.
    pub(crate) fn evaluate(
        &self,
        places: &[CellIndex],
        data: &[Option<Arc<Data>>],
        device: DeviceChoice,
        stop: &AtomicBool,
        terminal: &Terminal,
    ) -> Result<(), SessionFailure> {
        if !places.is_empty() {
            terminal.message(&format!("measuring {} under the edits of `{EVALUATE_AT}`", count(places.len(), "model")));
        }
        for place in places {
            let data = data[place.model].as_ref().expect("the data of every model with a cell to measure was made");
            let path = self.path(*place);
            reached_without_links(&self.folder, path)?;
            let mut kept = self.kept(path, &data.hash);
            for edit in self.models[place.model].sweeps.iter().flat_map(edits) {
                if kept.get(&edit).is_some() {
                    continue;
                }
                if stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let options = ModelChoice { device, ..ModelChoice::of_run(path) };
                let model = &self.models[place.model].compiled;
                let is_renamed = RunInfo::read(path)?.is_renamed(&self.job(*place, None).info);
                let named = is_renamed.then_some(&**model);
                let mut trained = TrainedModel::open_as(&options, named, &[Override::alone(EVALUATE_AT, &edit)])?;
                let update = trained.state.progress.updates;
                let splits = measure(&mut trained, data, stop, terminal)?;
                let Some(splits) = splits else { return Ok(()) };
                splits.iter().try_for_each(|row| require_finite(row, update))?;
                (kept.run, kept.rtc) = (trained.info.run.clone(), versions::program());
                (kept.update, kept.data) = (update, data.hash.clone());
                kept.edits.push(EditResults { edit, splits });
                kept.write(path)?;
            }
        }
        Ok(())
    }
}

/// The edits of a sweep.
fn edits(sweep: &EditSweep) -> Vec<String> {
    sweep.values.iter().map(|value| sweep.edit(value)).collect()
}

/// The splits of the experiment; nothing if it was asked to stop meanwhile.
fn measure(
    trained: &mut TrainedModel,
    data: &Data,
    stop: &AtomicBool,
    terminal: &Terminal,
) -> Result<Option<Vec<ResultsRow>>, SessionFailure> {
    let mut progress = ProgressDisplay::new(terminal, stop);
    let mut rows = vec![];
    for split in trained.experiment.evaluate.clone() {
        let measurement = trained.measurement(&split, data.set.split(&split));
        match evaluate(&mut *trained.model, measurement, stop, &mut progress)? {
            Some(row) => rows.push(row),
            None => return Ok(None),
        }
    }
    Ok(Some(rows))
}
