//! Grids: models times seeds. Every cell is an ordinary run folder, and the state of the grid is what these folders say.
//!
//! [`GridManifest`] says which rows there are, [`CellState::read`] looks at one cell, [`Sheet`] is the table of all of them, [`render`] prints it. [`claim`] says
//! who trains which cell.

mod by_edit;
pub mod claim;
mod halving;
mod latex;
mod manifest;
mod measured;
mod notes;
mod render;
mod sheet;
mod worth;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::Error;
use crate::experiment::Experiment;
use crate::record::{RunFolder, RunInfo, SavedRun, TrainingFault, program};

pub use crate::record::table::less_is_better;
pub use by_edit::measured_sweeps;
pub use halving::{Decision, HalvingStop, RowStatus, decide, reached, standing};
pub use manifest::{GridManifest, ListedCell, ManifestRow};
pub use measured::MeasuredRun;
pub use render::{TableFormat, TextCell, TextTable, render, text_tables};
pub use sheet::{METRICS, Mixture, NumberStyle, Sheet, SheetRow, Show};
pub use worth::{By, Worth};

/// One model of a grid with its runs: a row of the table.
#[derive(Clone, Debug)]
pub struct GridRow {
    /// What the table calls it.
    pub name: String,
    /// Number of trainable numbers.
    pub parameters: usize,
    /// The data that its experiment asks for, in any words: rows that ask for the same must have been trained on the same.
    pub data: String,
    /// One per seed, in the order of the experiment.
    pub cells: Vec<GridCell>,
}

/// One run of a grid.
#[derive(Clone, Debug)]
pub struct GridCell {
    /// The seed of the run.
    pub seed: u64,
    /// The folder of the run.
    pub path: PathBuf,
    /// How far it is.
    pub state: CellState,
}

/// The progress of a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum CellState {
    /// Nothing was begun.
    Absent,
    /// It was begun, and can be gone on with.
    Unfinished(Begun),
    /// The last attempt failed; it can be gone on with from where it was, if it came to begin.
    Failed(TrainingFault, Option<Begun>),
    /// Successive halving stopped its row; it can be gone on with.
    Stopped(HalvingStop),
    /// It is finished.
    Finished(MeasuredRun),
}

/// What is known of a run that is not finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Versions of the programs that trained it so far in one line, as a finished run has them.
    pub versions: String,
}

impl CellState {
    /// Looks at the folder of a cell, and changes nothing in it. Nothing is said of one that holds another run: of another spec,
    /// experiment, seed or data, or, if it is not finished, of another graph. A spec whose bindings were renamed is no other one.
    ///
    /// # Errors
    /// The run can't be read.
    pub fn read(path: &Path, experiment: &Experiment, info: &RunInfo) -> Result<Option<Self>, Error> {
        if !RunFolder::exists(path) {
            return Ok(Some(TrainingFault::read(path)?.map_or(Self::Absent, |fault| Self::Failed(fault, None))));
        }
        let saved = SavedRun::read(path)?;
        let state = Self::of(path, &saved)?;
        // A finished run of a program that made another graph is no other one: the table says so, and asks.
        let mut expected = info.clone();
        let is_renamed = saved.info.is_renamed(info);
        if is_renamed || matches!(state, Self::Finished(_)) {
            expected.graph_hash.clone_from(&saved.info.graph_hash);
        }
        if is_renamed {
            expected.spec_hash.clone_from(&saved.info.spec_hash);
        }
        let same = saved.difference(experiment, &expected).is_none();
        Ok(same.then(|| match state {
            // Its graph is that of the others up to names.
            Self::Finished(mut measured) if is_renamed => {
                measured.program.graph.clone_from(&info.graph_hash);
                Self::Finished(measured)
            }
            state => state,
        }))
    }

    /// How far the run in a folder is, whichever run it is.
    ///
    /// # Errors
    /// The record of its failure can't be read.
    pub fn of(path: &Path, saved: &SavedRun) -> Result<Self, Error> {
        if let Some(measured) = saved.measured.as_ref().and_then(|results| MeasuredRun::read(path, results)) {
            return Ok(Self::Finished(measured));
        }
        let begun = Begun { versions: program(&saved.info.versions) };
        Ok(match TrainingFault::read(path)? {
            Some(fault) => Self::Failed(fault, Some(begun)),
            None => Self::Unfinished(begun),
        })
    }

    /// What is known of the run, if one was begun and is not finished.
    pub fn begun(&self) -> Option<&Begun> {
        match self {
            Self::Unfinished(begun) | Self::Failed(_, Some(begun)) => Some(begun),
            Self::Absent | Self::Failed(_, None) | Self::Stopped(_) | Self::Finished(_) => None,
        }
    }

    /// One word for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Unfinished(_) => "unfinished",
            Self::Failed(..) => "failed",
            Self::Stopped(_) => "stopped",
            Self::Finished(_) => "finished",
        }
    }
}

impl GridRow {
    /// The finished runs.
    pub fn finished(&self) -> impl Iterator<Item = (&GridCell, &MeasuredRun)> {
        self.cells.iter().filter_map(|cell| match &cell.state {
            CellState::Finished(measured) => Some((cell, measured)),
            _ => None,
        })
    }
}

/// The whole grid for programs: every cell with its state and results, and the table's notes.
pub fn to_json(rows: &[GridRow], sheet: &Sheet) -> Value {
    let cell = |cell: &GridCell| {
        let mut out = serde_json::json!({
            "seed": cell.seed, "run": cell.path.display().to_string(), "state": cell.state.word(),
        });
        match &cell.state {
            CellState::Failed(fault, _) => out["failure"] = serde_json::to_value(fault).unwrap_or_default(),
            CellState::Stopped(HalvingStop { update, rank, of }) => {
                out["stopped"] = serde_json::json!({ "update": update, "rank": rank, "of": of });
            }
            CellState::Finished(measured) => out["results"] = measured.to_json(),
            CellState::Absent | CellState::Unfinished(_) => {}
        }
        out
    };
    let row = |row: &GridRow| {
        serde_json::json!({
            "model": row.name, "parameters": row.parameters, "cells": row.cells.iter().map(cell).collect::<Vec<_>>(),
        })
    };
    serde_json::json!({ "models": rows.iter().map(row).collect::<Vec<_>>(), "table": sheet.to_json() })
}
