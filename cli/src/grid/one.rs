//! One cell of a grid alone, as a job of a cluster trains it.

use std::sync::Mutex;

use rtc_runs::grid::State;
use rtc_runs::grid::claim::Standing;

use super::room::Rooms;
use super::run::{End, Work, cell, locked, shared, stopped};
use super::share::Taken;
use super::{CellIndex, Round};
use crate::failure::Failure;
use crate::text::duration;

/// What became of the cell.
pub(crate) enum Chosen {
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
pub(crate) fn train_one(work: &Work<'_>, place: CellIndex) -> Result<Chosen, Failure> {
    let Work { grid, board, sharing, .. } = *work;
    let (key, label) = (grid.key(place), grid.label(place));
    let said = Mutex::new(false);
    loop {
        if stopped(work) {
            return Ok(Chosen::Stopped);
        }
        let (highest, over) = match sharing.look(key)? {
            Standing::Free { highest, left } => (highest, left),
            Standing::Held(held) => {
                let by = held.record.as_ref().map_or_else(String::new, |record| record.holder.name());
                if held.renewed {
                    board.says(&format!("{label}: is being trained by another process ({by}); nothing is to be done"));
                    return Ok(Chosen::Elsewhere);
                }
                if !std::mem::replace(&mut *locked(&said), true) {
                    board.says(&format!("{label}: has a claim ({by}) for {}", duration(held.silent.as_secs_f64())));
                }
                sharing.pause(work.stop);
                continue;
            }
        };
        if matches!(grid.now(place).state, State::Finished(_)) {
            board.says(&format!("{label}: is finished"));
            return Ok(Chosen::Ended);
        }
        let Round { until, places, stopped: rows } = grid.shared_round()?;
        if rows[place.model].is_some() {
            board.says(&format!("{label}: its row was stopped"));
            return Ok(Chosen::Ended);
        }
        if !places.iter().any(|other| grid.path(*other) == grid.path(place)) {
            board.says(&format!("{label}: waits for the other rows"));
            return Ok(Chosen::Stopped);
        }
        let Some(taken) = sharing.take(key, highest, over)? else { continue };
        match train(work, place, until, &taken) {
            Ok(End::Lost) => return Ok(Chosen::Elsewhere),
            Ok(End::Ended) => {}
            Err(code) => return Ok(Chosen::Failed(code)),
        }
    }
}

fn train(work: &Work<'_>, place: CellIndex, until: Option<u64>, taken: &Taken) -> Result<End, u8> {
    let rooms = Rooms::new(shared(work.data), work.card);
    cell(work, place, until, (&rooms, taken))
}
