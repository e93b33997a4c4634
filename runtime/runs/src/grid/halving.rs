//! The rows of a grid that successive halving stops: a function of the records of their runs, so that every command, resumed or
//! not, decides alike.
//!
//! All rows that are left are compared at the same update, by the mean over their seeds of what counts on dev there, and the
//! best share of them goes on. A row is stopped with all its seeds.

use std::cmp::Ordering;

use super::{CellState, GridCell};
use crate::error::Error;
use crate::experiment::{Experiment, Halving};
use crate::record::history::History;

/// The reason why a row was stopped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HalvingStop {
    /// The update at which rows were compared.
    pub update: u64,
    /// Its place among them, from 1.
    pub rank: usize,
    /// How many they were.
    pub of: usize,
}

/// The status of a row at an update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RowStatus {
    /// A cell has not come so far.
    Open,
    /// A cell ended before, by itself: there is nothing to save, and nothing to compare.
    Ended,
    /// A cell failed.
    Failed,
    /// The mean score over the seeds.
    Score(f64),
}

/// Where a grid stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The rows that are stopped.
    pub stopped: Vec<Option<HalvingStop>>,
    /// The update to which the others are trained next; to their end without one.
    pub until: Option<u64>,
}

/// Decides by what is known of every row at every update of the halving.
pub fn decide(halving: &Halving, rows: usize, standing: impl Fn(usize, u64) -> RowStatus) -> Decision {
    let mut stopped: Vec<Option<HalvingStop>> = vec![None; rows];
    let mut left: Vec<usize> = (0..rows).collect();
    for &update in &halving.at {
        let standings: Vec<(usize, RowStatus)> = left.iter().map(|row| (*row, standing(*row, update))).collect();
        if standings.iter().any(|(_, standing)| *standing == RowStatus::Open) {
            return Decision { stopped, until: Some(update) };
        }
        let mut ranked: Vec<(usize, RowStatus)> =
            standings.into_iter().filter(|(_, standing)| *standing != RowStatus::Ended).collect();
        // Stable: of equal rows the first one goes on.
        ranked.sort_by(|(_, a), (_, b)| better(*a, *b));
        let (of, kept) = (ranked.len(), halving.kept(ranked.len()));
        for (place, (row, standing)) in ranked.into_iter().enumerate() {
            if place >= kept && standing != RowStatus::Failed {
                stopped[row] = Some(HalvingStop { update, rank: place + 1, of });
            }
            if place >= kept || standing == RowStatus::Failed {
                left.retain(|other| *other != row);
            }
        }
    }
    Decision { stopped, until: None }
}

/// The order in which rows go on: larger scores first, those that failed last.
fn better(a: RowStatus, b: RowStatus) -> Ordering {
    match (a, b) {
        (RowStatus::Score(a), RowStatus::Score(b)) => b.total_cmp(&a),
        (RowStatus::Score(_), _) => Ordering::Less,
        (_, RowStatus::Score(_)) => Ordering::Greater,
        _ => Ordering::Equal,
    }
}

/// What the cells of a row have recorded of an update.
///
/// # Errors
/// Records that can't be read.
pub fn standing(cells: &[GridCell], experiment: &Experiment, update: u64) -> Result<RowStatus, Error> {
    let mut scores = vec![];
    let mut ended = false;
    for cell in cells {
        if matches!(cell.state, CellState::Failed(..)) {
            return Ok(RowStatus::Failed);
        }
        match score(cell, experiment, update)? {
            Some(score) => scores.push(score),
            None if matches!(cell.state, CellState::Finished(_)) => ended = true,
            None => return Ok(RowStatus::Open),
        }
    }
    let mean = scores.iter().sum::<f64>() / scores.len().max(1) as f64;
    Ok(if ended { RowStatus::Ended } else { RowStatus::Score(mean) })
}

/// Whether a cell was measured on dev at an update.
///
/// # Errors
/// Records that can't be read.
pub fn reached(cell: &GridCell, experiment: &Experiment, update: u64) -> Result<bool, Error> {
    Ok(score(cell, experiment, update)?.is_some())
}

/// How good a cell was on dev at an update, if that was measured.
fn score(cell: &GridCell, experiment: &Experiment, update: u64) -> Result<Option<f64>, Error> {
    if cell.state == CellState::Absent {
        return Ok(None);
    }
    let history = History::read(&cell.path)?;
    let line = history.evaluations.iter().find(|line| line.split == experiment.dev && line.update == update);
    Ok(line.and_then(|line| experiment.choose.score(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halving(text: &str) -> Halving {
        Halving::parse(text).expect("valid")
    }

    #[test]
    fn the_best_go_on_and_are_compared_at_one_update() {
        // Scores of four rows after 10 and 20 updates.
        let known = [[0.1, 0.5], [0.4, 0.3], [0.4, 0.9], [0.2, 0.0]];
        let all = |row: usize, update: u64| RowStatus::Score(known[row][usize::from(update == 20)]);
        let decision = decide(&halving("1/2@10,20"), 4, all);
        let stop = |update, rank, of| Some(HalvingStop { update, rank, of });
        assert_eq!(decision.stopped, [stop(10, 4, 4), stop(20, 2, 2), None, stop(10, 3, 4)]);
        assert_eq!(decision.until, None);
        // As long as one has not come so far, nobody is stopped.
        let open = |row: usize, update: u64| if row == 3 { RowStatus::Open } else { all(row, update) };
        assert_eq!(decide(&halving("1/2@10,20"), 4, open), Decision { stopped: vec![None; 4], until: Some(10) });
        // The later update is open for those that are left alone.
        let later = |row: usize, update: u64| if update == 20 { RowStatus::Open } else { all(row, update) };
        let decision = decide(&halving("1/2@10,20"), 4, later);
        assert_eq!((decision.stopped.iter().flatten().count(), decision.until), (2, Some(20)));
    }

    #[test]
    fn rows_that_failed_come_last_and_those_that_ended_are_not_compared() {
        let rows =
            [RowStatus::Failed, RowStatus::Score(0.1), RowStatus::Ended, RowStatus::Score(0.1), RowStatus::Score(0.05)];
        let decision = decide(&halving("1/2@10"), 5, |row, _| rows[row]);
        assert_eq!(decision.stopped, [None, None, None, None, Some(HalvingStop { update: 10, rank: 3, of: 4 })]);
        assert_eq!(decision.until, None);
        // Of equal rows the first one goes on.
        let decision = decide(&halving("1/3@10"), 3, |_, _| RowStatus::Score(0.5));
        assert_eq!(decision.stopped.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, true]);
    }
}
