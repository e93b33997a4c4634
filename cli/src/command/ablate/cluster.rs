//! Grids that several processes train: one cell alone, launchers, `--watch`.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rtc_runs::grid::CellState;
use rtc_runs::grid::claim::LEASE;
use rtc_session::device::Card;
use rtc_session::failure::SessionFailure;
use rtc_session::job::{Data, Pace, share};

use super::{Options, look_at_files, measure_under_edits, next, sheet, stopped, strangers, table, write_manifest};
use crate::exit::{CommandResult, Exit};
use crate::grid::launch::{Submission, launch as submit, line_of_variables};
use crate::grid::{Board, CellIndex, CellOutcome, Ending, Grid, GridWork, Sharing, snapshot, train_one, watch as show};
use crate::signals;
use crate::terminal::Terminal;

/// `--cell`.
pub(super) fn cell(
    options: &Options,
    grid: &mut Grid,
    text: &str,
    (pace, card): (Pace, Option<&Card>),
    terminal: &Terminal,
) -> CommandResult {
    let key = line_of_variables(text)?;
    let _lock = share(&grid.folder)?;
    let files = grid.read_from_files();
    let mut data = grid.data(&files, terminal)?;
    grid.locate(&data)?;
    let place = found(grid, &key)?;
    if data[place.model].is_none() {
        data = grid.data(&[place], terminal)?;
        grid.locate(&data)?;
    }
    let rows = grid.rows()?;
    sheet(options, grid, &rows)?;
    if !options.mixed {
        strangers(&rows, &grid.program)?;
    }
    write_manifest(grid)?;
    let stop = signals::on_stop()?;
    let sharing = Sharing::new(grid, options.lease.unwrap_or(LEASE))?;
    let board = Board::new(terminal, &rows, &grid.updates(&[place], &data)?, 1);
    let work = GridWork { grid, data: &data, jobs: 1, pace, card, stop: &stop, board: &board, sharing: &sharing };
    match train_one(&work, place)? {
        CellOutcome::Ended | CellOutcome::Elsewhere => Ok(Exit::Done),
        CellOutcome::Stopped => Ok(Exit::Stopped),
        CellOutcome::Failed(code) => Ok(Exit::Reported(code)),
    }
}

/// The cell of a name.
fn found(grid: &Grid, key: &str) -> Result<CellIndex, SessionFailure> {
    let unknown = || {
        SessionFailure::Usage(format!(
            "no cell is called `{key}`: the experiment, the data or the program are others than when it was; \
             `--launcher commands` prints the cells"
        ))
    };
    grid.places().into_iter().find(|place| !key.is_empty() && grid.key(*place) == key).ok_or_else(unknown)
}

/// `--watch`.
pub(super) fn watch(options: &Options, grid: &mut Grid, terminal: &Terminal) -> CommandResult {
    look_at_files(grid, terminal)?;
    let sharing = Sharing::new(grid, options.lease.unwrap_or(LEASE))?;
    if options.json {
        terminal.json(&snapshot(grid, &sharing)?)?;
        return Ok(Exit::Done);
    }
    let stop = signals::on_stop()?;
    if show(grid, &sharing, Ending::Over, &stop, terminal)? {
        table(options, grid, &grid.rows()?, terminal)?;
    }
    Ok(Exit::Done)
}

/// `--launcher`, but for the local one: the cells that are left are submitted and, where there is a queue, watched.
pub(super) fn launch(
    options: &Options,
    grid: &Grid,
    (places, data, sharing): (&[CellIndex], &[Option<Arc<Data>>], &Sharing),
    (pace, card): (Pace, Option<&Card>),
    terminal: &Terminal,
) -> CommandResult {
    let places = grid.distinct(places);
    if !submit(&Submission { grid, places: &places, data, pace, card, options: &options.launch }, terminal)? {
        return Ok(Exit::Done);
    }
    let stop: Arc<AtomicBool> = signals::on_stop()?;
    if !show(grid, sharing, Ending::Tried, &stop, terminal)? {
        terminal.message("the jobs stay in the queue; `--watch` shows them");
        return stopped(options, grid, terminal);
    }
    measure_under_edits(options, grid, &stop, terminal)?;
    let rows = grid.rows()?;
    table(options, grid, &rows, terminal)?;
    let failed = rows.iter().flat_map(|row| &row.cells).find_map(|cell| match &cell.state {
        CellState::Failed(fault, _) => Some(fault.code),
        _ => None,
    });
    Ok(failed.map_or_else(|| next(grid, terminal), Exit::Reported))
}
