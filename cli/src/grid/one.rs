//! One cell of a grid alone, as a job of a cluster trains it.

use std::sync::Mutex;

use rtc_runs::grid::CellState;
use rtc_runs::grid::claim::ClaimStatus;
use rtc_session::failure::SessionFailure;
use rtc_session::text::duration;

use super::room::Rooms;
use super::run::{CellEnd, GridWork, cell, locked, shared, stopped};
use super::share::ClaimedCell;
use super::{CellIndex, Round};

/// The outcome of the cell.
pub(crate) enum CellOutcome {
    /// It is finished, or its row is not trained any further.
    Ended,
    /// It goes on later: it was stopped, or waits for other rows.
    Stopped,
    /// Another process trains it.
    Elsewhere,
    /// It failed, with this exit code.
    Failed(u8),
}

/// Trains a cell to its end, or up to where its row has to wait for others. Where a process holds it this waits until it is known
/// whether that process is alive: a job that was queued again may find the claim that it had before.
pub(crate) fn train_one(work: &GridWork<'_>, place: CellIndex) -> Result<CellOutcome, SessionFailure> {
    let GridWork { grid, board, sharing, .. } = *work;
    let (key, label) = (grid.key(place), grid.label(place));
    let said = Mutex::new(false);
    loop {
        if stopped(work) {
            return Ok(CellOutcome::Stopped);
        }
        let (highest, over) = match sharing.look(key)? {
            ClaimStatus::Free { highest, left } => (highest, left),
            ClaimStatus::Held(held) => {
                let by = held.record.as_ref().map_or_else(String::new, |record| record.holder.name());
                if held.renewed {
                    board.says(&format!("{label}: is being trained by another process ({by}); nothing is to be done"));
                    return Ok(CellOutcome::Elsewhere);
                }
                if !std::mem::replace(&mut *locked(&said), true) {
                    board.says(&format!("{label}: has a claim ({by}) for {}", duration(held.silent.as_secs_f64())));
                }
                sharing.pause(work.stop);
                continue;
            }
        };
        if matches!(grid.now(place).state, CellState::Finished(_)) {
            board.says(&format!("{label}: is finished"));
            return Ok(CellOutcome::Ended);
        }
        let Round { until, places, stopped: rows } = grid.shared_round()?;
        if rows[place.model].is_some() {
            board.says(&format!("{label}: its row was stopped"));
            return Ok(CellOutcome::Ended);
        }
        if !places.iter().any(|other| grid.path(*other) == grid.path(place)) {
            board.says(&format!("{label}: waits for the other rows"));
            return Ok(CellOutcome::Stopped);
        }
        let Some(taken) = sharing.take(key, highest, over)? else { continue };
        match train(work, place, until, &taken) {
            Ok(CellEnd::Lost) => return Ok(CellOutcome::Elsewhere),
            Ok(CellEnd::Ended) => {}
            Err(code) => return Ok(CellOutcome::Failed(code)),
        }
    }
}

fn train(work: &GridWork<'_>, place: CellIndex, until: Option<u64>, taken: &ClaimedCell) -> Result<CellEnd, u8> {
    let rooms = Rooms::new(shared(work.data), work.card);
    cell(work, place, until, (&rooms, taken))
}
