//! The table of a grid under edits of its trained models: a column per value, as `loop.steps = 8`.

use serde_json::to_value;

use super::measured::{BASELINES, measures};
use super::sheet::{Mixture, Sheet, Show};
use super::worth::NO_EXAMPLES;
use super::{CellState, GridCell, GridRow, MeasuredRun};
use crate::experiment::EditSweep;
use crate::record::EvaluatedAt;

impl Sheet {
    /// The table of the models that were measured under the edits of a sweep. A cell that was not measured yet has no number.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn by_edit(rows: &[GridRow], sweep: &EditSweep, show: &Show) -> Result<Self, Mixture> {
        let rows: Vec<GridRow> = rows.iter().map(|row| under_edits(row, sweep)).collect();
        let show = Show { parameters: false, best: false, ..show.clone() };
        let mut sheet = Self::new(&rows, &show)?;
        if sheet.columns.is_empty() {
            sheet.caption =
                format!("nothing is measured with values of {} yet: `rtc ablate` does when all is trained", sweep.path);
        }
        // Notes on trainings stand below the table of the grid, and answers to single examples are kept for the trained model only.
        sheet.notes.clear();
        sheet.rows.iter_mut().for_each(|row| row.notes.clear());
        sheet.remarks.retain(|remark| !remark.starts_with(NO_EXAMPLES));
        Ok(sheet)
    }
}

/// The sweeps whose edits the finished runs of some rows were measured under: each path with its values in the order of measurement.
pub fn measured_sweeps(rows: &[GridRow]) -> Vec<EditSweep> {
    let mut sweeps: Vec<EditSweep> = vec![];
    let runs = rows.iter().flat_map(GridRow::finished);
    for results in runs.flat_map(|(cell, _)| EvaluatedAt::read(&cell.path).unwrap_or_default().edits) {
        let Some((path, value)) = results.parts() else { continue };
        match sweeps.iter_mut().find(|sweep| sweep.path == path) {
            Some(sweep) if sweep.values.iter().any(|known| known == value) => {}
            Some(sweep) => sweep.values.push(value.to_owned()),
            None => sweeps.push(EditSweep { path: path.to_owned(), values: vec![value.to_owned()] }),
        }
    }
    sweeps
}

/// The row with the measurements under the edits in place of those of the trainings. A column is a split under an edit; those of a split stand side by side.
fn under_edits(row: &GridRow, sweep: &EditSweep) -> GridRow {
    let cell = |cell: &GridCell| {
        let CellState::Finished(measured) = &cell.state else { return cell.clone() };
        let found = EvaluatedAt::read(&cell.path).unwrap_or_default();
        let several = measured.splits.len() > 1;
        let mut splits = vec![];
        for (split, _) in &measured.splits {
            for value in &sweep.values {
                let results = found.get(&sweep.edit(value)).into_iter().flat_map(|results| &results.splits);
                let Some(results) = results.into_iter().find(|results| results.split == *split) else { continue };
                let mut all = measures(&to_value(results).unwrap_or_default(), "");
                all.retain(|measure| !BASELINES.contains(&measure.name.as_str()));
                let edit = format!("{}={value}", sweep.path);
                splits.push((if several { format!("{split} {edit}") } else { edit }, all));
            }
        }
        let state = CellState::Finished(MeasuredRun { splits, answers: None, ..measured.clone() });
        GridCell { state, ..cell.clone() }
    };
    GridRow { cells: row.cells.iter().map(cell).collect(), ..row.clone() }
}
