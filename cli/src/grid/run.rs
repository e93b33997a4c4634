//! Trains the cells of a grid, several at a time.
//!
//! A cell is trained on one thread, so its numbers are those of `rtc train --threads 1`, and threads never wait for one
//! another. The cells that this process trains are its threads: the data is in memory once, and a kill leaves nothing behind. A panic
//! ends its cell alone. Which cells are left for it, [`super::share`] says.

use std::io::ErrorKind;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rtc_base::disk::beneath;
use rtc_runs::grid::HalvingStop;
use rtc_runs::grid::claim::Fenced;
use rtc_runs::record::TrainingFault;
use rtc_session::device::Card;
use rtc_session::failure::SessionFailure;
use rtc_session::job::{Data, Pace, lock_claimed};
use rtc_session::memory;
use rtc_session::text::{duration, number};
use rtc_session::threads;
use rtc_train::ranks::SingleRank;
use rtc_train::{Event, Observer, Outcome};

use super::board::Board;
use super::room::Rooms;
use super::share::{CellQueue, ClaimedCell, Sharing, ThreadAction};
use super::{CellIndex, Grid, Round};
use crate::live::DisplayedState;

/// The work on a grid, with its data and limits.
pub(crate) struct GridWork<'a> {
    pub(crate) grid: &'a Grid,
    /// The data of every model that has a cell to train.
    pub(crate) data: &'a [Option<Arc<Data>>],
    /// How many cells at a time.
    pub(crate) jobs: usize,
    /// What changes the speed alone.
    pub(crate) pace: Pace,
    /// The device that all share, if they compute on one.
    pub(crate) card: Option<&'a Card>,
    /// Asks all cells to stop.
    pub(crate) stop: &'a AtomicBool,
    /// Where progress is shown.
    pub(crate) board: &'a Board<'a>,
    /// The claims of this process and of others.
    pub(crate) sharing: &'a Sharing,
}

/// Cells that failed, in order, with their exit codes.
pub(crate) type Failed = Vec<(CellIndex, u8)>;

/// Trains what is not finished: all rows up to where they are compared, one update after the other, and then to their end those that
/// are left. What has begun is saved if it is asked to stop.
pub(crate) fn run(work: &GridWork<'_>) -> Result<Failed, SessionFailure> {
    let mut failed: Failed = vec![];
    let mut known: Vec<Option<HalvingStop>> = vec![];
    loop {
        let Round { until, mut places, stopped: rows } = work.grid.shared_round()?;
        places.retain(|place| !failed.iter().any(|(other, _)| other == place));
        for (model, stop) in rows.iter().enumerate().filter(|(model, stop)| known.get(*model) != Some(*stop)) {
            let Some(HalvingStop { update, rank, of }) = stop else { continue };
            let (name, update) = (&work.grid.models[model].name, number(*update as f64));
            work.board.says(&format!("{name}: stopped after update {update}, number {rank} of {of} rows on dev there"));
        }
        work.board.drop_rows(|model| rows[model].is_some());
        known = rows;
        if places.is_empty() || stopped(work) {
            return Ok(failed);
        }
        failed.extend(train_all(work, &places, until)?);
        if until.is_none() {
            return Ok(failed);
        }
    }
}

/// Trains some cells, up to an update if there is one, and waits for those that other processes train.
fn train_all(work: &GridWork<'_>, places: &[CellIndex], until: Option<u64>) -> Result<Failed, SessionFailure> {
    let queue = CellQueue::new(work, places, until);
    let failed: Mutex<Vec<(usize, u8)>> = Mutex::default();
    let broken: Mutex<Option<SessionFailure>> = Mutex::default();
    let rooms = Rooms::new(shared(work.data), work.card);
    std::thread::scope(|scope| {
        for _ in 0..work.jobs.min(places.len()).max(1) {
            scope.spawn(|| {
                loop {
                    match queue.next() {
                        Ok(ThreadAction::Train(index, taken)) => {
                            match cell(work, places[index], until, (&rooms, &taken)) {
                                Ok(CellEnd::Ended) => {}
                                Ok(CellEnd::Lost) => queue.put_back(index),
                                Err(code) => locked(&failed).push((index, code)),
                            }
                        }
                        Ok(ThreadAction::Failed(index, code)) => locked(&failed).push((index, code)),
                        Ok(ThreadAction::Wait) => work.sharing.pause(work.stop),
                        Ok(ThreadAction::Done) => break,
                        Err(failure) => {
                            locked(&broken).get_or_insert(failure);
                            break;
                        }
                    }
                }
            });
        }
    });
    if let Some(failure) = broken.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(failure);
    }
    let mut failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.sort_unstable();
    Ok(failed.into_iter().map(|(index, code)| (places[index], code)).collect())
}

/// Bytes of the data, each counted once, and of the program.
pub(super) fn shared(data: &[Option<Arc<Data>>]) -> u64 {
    let mut shared: Vec<&Arc<Data>> = vec![];
    for data in data.iter().flatten() {
        if !shared.iter().any(|other| Arc::ptr_eq(other, data)) {
            shared.push(data);
        }
    }
    shared.iter().map(|data| memory::shared(&data.set)).fold(0, u64::saturating_add)
}

pub(super) fn stopped(work: &GridWork<'_>) -> bool {
    work.stop.load(Ordering::Relaxed)
}

/// A panic between lock and unlock is impossible: what is locked is only pushed to, popped from and set.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The end of a cell's training that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellEnd {
    /// It is finished, stopped, or waits for other rows.
    Ended,
    /// Another process has taken it over.
    Lost,
}

/// Refuses the folder of a cell that a link in the folder of the grid leads to. A cell that lies elsewhere was listed there.
pub(super) fn reached_without_links(grid: &Path, cell: &Path) -> Result<(), SessionFailure> {
    let Ok(inside) = cell.strip_prefix(grid) else { return Ok(()) };
    match beneath::open_folder(grid, inside) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(SessionFailure::io("use", cell, error)),
        _ => Ok(()),
    }
}

/// Trains one cell that this process has claimed, up to an update if there is one, and says how it went. The error is its exit code.
pub(super) fn cell(
    work: &GridWork<'_>,
    place: CellIndex,
    until: Option<u64>,
    (rooms, taken): (&Rooms, &ClaimedCell),
) -> Result<CellEnd, u8> {
    let pause = AtomicBool::new(false);
    let mut observer = CellObserver::new(work, place, until, (&pause, taken));
    let path = work.grid.path(place);
    reached_without_links(&work.grid.folder, path)
        .map_err(|failure| observer.alerts(failure.code(), &failure.to_string()))?;
    // Where the folder is another's, nothing may be written into it.
    let _lock =
        lock_claimed(path, taken.over).map_err(|failure| observer.alerts(failure.code(), &failure.to_string()))?;
    let start = Instant::now();
    let ended = threads::alone(|| train(work, place, rooms, &mut observer)).flatten();
    let observer = CellObserver::new(work, place, until, (&pause, taken));
    let state = match ended {
        Ok(Some(Outcome::Finished(_))) => DisplayedState::Finished,
        Ok(Some(Outcome::Stopped { .. })) => DisplayedState::Paused,
        Ok(None) => DisplayedState::Waiting,
        Err(_) if taken.claim.is_lost() => DisplayedState::Paused,
        Err(_) => DisplayedState::Failed,
    };
    work.board.ended(place, path, state);
    let (code, message) = match ended {
        Ok(Some(Outcome::Finished(table))) => {
            let (experiment, time) = (work.grid.experiment(place), duration(start.elapsed().as_secs_f64()));
            let (score, update) = (table.best(), number(table.best_update as f64));
            observer
                .says(&format!("finished in {time}, {}", experiment.choose.sentence(&experiment.dev, &score, &update)));
            if let Some(fall) = &table.fall {
                observer.says(&format!("fell from its best: {}; {}", fall.text(), fall.advice()));
            }
            return Ok(CellEnd::Ended);
        }
        Ok(Some(Outcome::Stopped { updates })) => {
            let waits = until == Some(updates);
            let how = if waits { "waits for the other rows" } else { "stopped" };
            observer.says(&format!("{how} after update {}", number(updates as f64)));
            return Ok(CellEnd::Ended);
        }
        Ok(None) => return Ok(CellEnd::Ended),
        Err(failure) => (failure.code(), failure.to_string()),
    };
    // Asked anew: a failure may come of what the other process does in the folder.
    if taken.claim.check().is_err() && taken.claim.is_lost() {
        observer.says(&format!("goes on elsewhere: {message}"));
        return Ok(CellEnd::Lost);
    }
    if let Err(error) = (TrainingFault { code, message: message.clone() }).write(path) {
        observer.alerts(code, &error.to_string());
    }
    Err(observer.alerts(code, &message))
}

/// Trains one cell in its folder; nothing if the stop came before it began.
fn train(
    work: &GridWork<'_>,
    place: CellIndex,
    rooms: &Rooms,
    observer: &mut CellObserver<'_>,
) -> Result<Option<Outcome>, SessionFailure> {
    let path = work.grid.path(place);
    let claim = &observer.taken.claim;
    claim.check()?;
    TrainingFault::clear(path)?;
    let mut job = work.grid.job_in_folder(place, work.pace.memory)?;
    let data = work.data[place.model].as_ref().expect("the data of every model with a cell to train was made");
    let mut fitted = job.fit(path, data, work.pace, work.card)?;
    // What it was promised is what others don't have.
    fitted.limit = work.card.map(|_| fitted.need.total()).or(fitted.limit);
    let _shares = rooms.take(&job, data, &fitted)?;
    if stopped(work) {
        return Ok(None);
    }
    // Its libraries take of the memory that was waited for.
    let on = work.pace.device.open()?;
    job.computes_on(&on);
    let pause = observer.pause;
    let disk = Rc::new(Fenced::by(claim, path));
    let (ended, _) = job.train_on((disk, path), data, (fitted, work.pace.halting, on), &SingleRank, pause, observer)?;
    Ok(Some(ended))
}

/// Says when a cell begins, and what became of it, and makes it wait where rows are compared.
struct CellObserver<'a> {
    work: &'a GridWork<'a>,
    place: CellIndex,
    /// Its number among all cells, and its name.
    label: String,
    /// The update after whose evaluation it waits.
    until: Option<u64>,
    /// Asks the cell to stop.
    pause: &'a AtomicBool,
    /// The claim on it.
    taken: &'a ClaimedCell,
}

impl<'a> CellObserver<'a> {
    fn new(
        work: &'a GridWork<'a>,
        place: CellIndex,
        until: Option<u64>,
        (pause, taken): (&'a AtomicBool, &'a ClaimedCell),
    ) -> Self {
        let all = work.grid.places();
        let number = all.iter().position(|other| *other == place).map_or(0, |index| index + 1);
        let label = format!("[{number}/{}] {}", all.len(), work.grid.label(place));
        Self { work, place, label, until, pause, taken }
    }

    fn says(&self, text: &str) {
        self.work.board.says(&format!("{}: {text}", self.label));
    }

    /// Tells a failure; gives its code.
    fn alerts(&self, code: u8, message: &str) -> u8 {
        self.work.board.alerts(&format!("{}: failed: {message}", self.label));
        code
    }
}

impl Observer for CellObserver<'_> {
    fn event(&mut self, event: &Event<'_>) {
        let GridWork { board, grid, .. } = *self.work;
        let claim = &self.taken.claim;
        match event {
            Event::Started { done, total } => {
                let (at, of) = (number(*done as f64), number(*total as f64));
                match done {
                    0 => self.says(&format!("begins, {of} updates")),
                    _ => self.says(&format!("goes on after update {at} of {of}")),
                }
                claim.tell(*done, *total);
                board.started(self.place, &self.label, *done, *total);
            }
            Event::Step { update, report, tokens, .. } => {
                claim.goes_on(*update);
                board.step(self.place, *update, report, *tokens);
            }
            Event::Evaluated { update, row, .. } => {
                board.paused(self.place);
                if self.until == Some(*update) && row.split == grid.experiment(self.place).dev {
                    self.pause.store(true, Ordering::Relaxed);
                }
            }
            Event::Saved { .. } => board.paused(self.place),
            Event::Evaluating { .. } | Event::Recorded { .. } => {}
        }
        if stopped(self.work) || claim.is_lost() {
            self.pause.store(true, Ordering::Relaxed);
        }
    }
}
