//! The cells that are left for this process, where others train the same grid: a cell is trained by whoever holds the claim on it.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rtc_runs::grid::claim::{Claim, ClaimStatus, Claims, HeldClaim, Watch};
use rtc_runs::grid::{CellState, GridCell, GridRow, reached};
use rtc_session::failure::SessionFailure;
use rtc_session::text::count;

use super::cells::look;
use super::run::{GridWork, locked, stopped};
use super::{CellIndex, Grid, Round};
use crate::live;

/// Between two looks at the claims of others.
const PAUSE: Duration = Duration::from_secs(1);

/// How often a signal is asked for meanwhile.
const BLINK: Duration = Duration::from_millis(50);

/// How often records are read that another process may be writing.
const READS: u32 = 4;

/// The claims on the cells of a grid, as this command sees them.
pub(crate) struct Sharing {
    watch: Mutex<Watch>,
    /// The highest claims when the command began.
    first: BTreeMap<String, u64>,
    pause: Duration,
}

/// A cell that this process has claimed.
pub(crate) struct ClaimedCell {
    pub(super) claim: Claim,
    /// Whether its last holder did not give it up.
    pub(super) over: bool,
}

/// The next action of a thread.
pub(super) enum ThreadAction {
    /// Train this cell.
    Train(usize, ClaimedCell),
    /// Note that this cell failed in another process, with this exit code.
    Failed(usize, u8),
    /// Wait for other processes.
    Wait,
    /// Nothing any more.
    Done,
}

/// How it stands with a cell that nobody holds.
enum Open {
    ToTrain,
    Over,
    Failed(u8),
}

impl Sharing {
    /// For the cells of a grid as they are now, with leases of this length.
    pub(crate) fn new(grid: &Grid, lease: Duration) -> Result<Self, SessionFailure> {
        let mut watch = Watch::new(Claims::of(&grid.folder, lease));
        let mut first = BTreeMap::new();
        for place in grid.places() {
            let highest = match watch.look(grid.key(place))? {
                ClaimStatus::Free { highest, .. } => highest,
                // Its holder tries it now, whatever it has been before.
                ClaimStatus::Held(held) => held.generation - 1,
            };
            first.insert(grid.key(place).to_owned(), highest);
        }
        Ok(Self { watch: Mutex::new(watch), first, pause: PAUSE.min(lease / 12) })
    }

    /// How it stands with a cell.
    pub(super) fn look(&self, key: &str) -> Result<ClaimStatus, SessionFailure> {
        Ok(locked(&self.watch).look(key)?)
    }

    /// Whether somebody has tried a cell since the command began.
    pub(super) fn was_tried(&self, key: &str, highest: u64) -> bool {
        self.first.get(key).is_some_and(|first| highest > *first)
    }

    /// Claims a cell that is free.
    pub(super) fn take(&self, key: &str, highest: u64, over: bool) -> Result<Option<ClaimedCell>, SessionFailure> {
        let claims = locked(&self.watch).claims().clone();
        Ok(claims.take(key, highest)?.map(|claim| ClaimedCell { claim, over }))
    }

    /// Waits until it is worth looking again, or the command is asked to stop.
    pub(super) fn pause(&self, stop: &AtomicBool) {
        let start = Instant::now();
        while start.elapsed() < self.pause && !stop.load(Ordering::Relaxed) {
            thread::sleep(BLINK.min(self.pause));
        }
    }
}

impl Grid {
    /// How far a cell is now.
    pub(super) fn now(&self, place: CellIndex) -> GridCell {
        let path = self.path(place);
        // A network file system may remember that a file was absent until the folder is opened anew.
        let _ = fs::read_dir(path);
        let state = look(path, &self.job(place, None)).unwrap_or_else(|| self.cell(place).state.clone());
        GridCell { seed: self.seed(place), path: path.to_owned(), state }
    }

    /// The rows as they are now, read as in [`Self::shared_round`].
    pub(super) fn rows_now(&self) -> Result<Vec<GridRow>, SessionFailure> {
        again(|| self.rows())
    }

    /// What is to be trained next. Another process may cut a record back while it is read: then it is read again.
    pub(super) fn shared_round(&self) -> Result<Round, SessionFailure> {
        again(|| self.round())
    }
}

/// Reads what another process may be writing.
fn again<T>(read: impl Fn() -> Result<T, SessionFailure>) -> Result<T, SessionFailure> {
    for _ in 1..READS {
        if let Ok(found) = read() {
            return Ok(found);
        }
        thread::sleep(BLINK);
    }
    read()
}

/// Cells of one pass, in the order in which they are trained.
pub(super) struct CellQueue<'a> {
    work: &'a GridWork<'a>,
    places: &'a [CellIndex],
    until: Option<u64>,
    state: Mutex<RemainingCells>,
}

struct RemainingCells {
    cells: Vec<usize>,
    /// When all that are left were found to be held by others.
    held: Option<Instant>,
    /// How many they were when it was said.
    said: usize,
}

impl<'a> CellQueue<'a> {
    pub(super) fn new(work: &'a GridWork<'a>, places: &'a [CellIndex], until: Option<u64>) -> Self {
        let left = RemainingCells { cells: (0..places.len()).collect(), held: None, said: 0 };
        Self { work, places, until, state: Mutex::new(left) }
    }

    /// A cell was lost to another process, which may fall silent, too.
    pub(super) fn put_back(&self, index: usize) {
        locked(&self.state).cells.push(index);
    }

    /// The next cell that nobody holds. A thread that trains a cell has taken it out of the list.
    pub(super) fn next(&self) -> Result<ThreadAction, SessionFailure> {
        let GridWork { grid, sharing, board, .. } = *self.work;
        let mut left = locked(&self.state);
        if stopped(self.work) || left.cells.is_empty() {
            return Ok(ThreadAction::Done);
        }
        if left.held.is_some_and(|held| held.elapsed() < sharing.pause / 2) {
            return Ok(ThreadAction::Wait);
        }
        left.held = None;
        let (mut at, mut others) = (0, vec![]);
        while at < left.cells.len() {
            let index = left.cells[at];
            let (place, key) = (self.places[index], grid.key(self.places[index]));
            let (highest, over) = match sharing.look(key)? {
                ClaimStatus::Free { highest, left } => (highest, left),
                ClaimStatus::Held(held) => {
                    self.show(place, &held);
                    others.push((place, held));
                    at += 1;
                    continue;
                }
            };
            match self.open(place, highest)? {
                Open::ToTrain => {}
                end => {
                    left.cells.remove(at);
                    if let Open::Failed(code) = end {
                        board.ended_elsewhere(place, grid.path(place), live::DisplayedState::Failed);
                        return Ok(ThreadAction::Failed(index, code));
                    }
                    continue;
                }
            }
            // Nobody has held the cell since it was looked at if this is the next claim.
            if let Some(taken) = sharing.take(key, highest, over)? {
                left.cells.remove(at);
                if over {
                    board.says(&format!("{}: taken over from a process that ended or fell silent", grid.label(place)));
                }
                return Ok(ThreadAction::Train(index, taken));
            }
            at += 1;
        }
        if left.cells.is_empty() {
            return Ok(ThreadAction::Done);
        }
        left.held = Some(Instant::now());
        if left.said != others.len() {
            left.said = others.len();
            self.say(&others);
        }
        Ok(ThreadAction::Wait)
    }

    /// What is to be done with a cell that nobody holds.
    fn open(&self, place: CellIndex, highest: u64) -> Result<Open, SessionFailure> {
        let GridWork { grid, sharing, board, .. } = *self.work;
        let cell = grid.now(place);
        if let CellState::Finished(_) = cell.state {
            board.ended_elsewhere(place, grid.path(place), live::DisplayedState::Finished);
            return Ok(Open::Over);
        }
        if let CellState::Failed(fault, _) = &cell.state
            && sharing.was_tried(grid.key(place), highest)
        {
            return Ok(Open::Failed(fault.code));
        }
        match self.until {
            Some(update) if again(|| Ok(reached(&cell, grid.experiment(place), update)?))? => Ok(Open::Over),
            _ => Ok(Open::ToTrain),
        }
    }

    fn show(&self, place: CellIndex, held: &HeldClaim) {
        if let Some(far) = held.record.as_ref().and_then(|record| record.progress) {
            self.work.board.elsewhere(place, self.work.grid.path(place), (far.update, far.total));
        }
    }

    /// Says which cells this process waits for.
    fn say(&self, others: &[(CellIndex, HeldClaim)]) {
        let who = |(place, held): &(CellIndex, HeldClaim)| {
            let by = held.record.as_ref().map(|record| format!(" ({})", record.holder.name())).unwrap_or_default();
            format!("{}{by}", self.work.grid.label(*place))
        };
        let list = others.iter().map(who).collect::<Vec<_>>().join("; ");
        if !list.is_empty() {
            self.work.board.says(&format!("waits for {} of other processes: {list}", count(others.len(), "cell")));
        }
    }
}
