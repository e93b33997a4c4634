//! Trains the cells of a grid, several at a time.
//!
//! A cell is trained on one thread, so its numbers are those of `rtc train --threads 1`, and threads never wait for one
//! another. All cells are threads of one process: the data is in memory once, and a kill leaves nothing behind. A panic
//! ends its cell alone.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rtc_runtime::grid::Fault;
use rtc_runtime::train::{Event, Observer, Outcome, Table};

use super::room::Room;
use super::{Grid, Place};
use crate::failure::Failure;
use crate::job::{Data, Pace, lock};
use crate::memory;
use crate::terminal::Terminal;
use crate::text::{duration, number};
use crate::threads;

/// What is to be done.
pub(crate) struct Work<'a> {
    /// The grid.
    pub(crate) grid: &'a Grid,
    /// The cells that are not finished, in order.
    pub(crate) places: &'a [Place],
    /// The data of every model that has one of these cells.
    pub(crate) data: &'a [Option<Arc<Data>>],
    /// How many cells at a time.
    pub(crate) jobs: usize,
    /// What changes the speed alone.
    pub(crate) pace: Pace,
    /// Asks all cells to stop.
    pub(crate) stop: &'a AtomicBool,
    /// Where progress is shown.
    pub(crate) terminal: &'a Terminal,
}

/// How it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Cells that are finished now.
    pub(crate) finished: usize,
    /// Cells that failed, in order, with their exit codes.
    pub(crate) failed: Vec<(Place, u8)>,
}

/// How one cell ended.
enum CellEnd {
    Finished(Table),
    Stopped(u64),
    /// The stop came before it began.
    NotBegun,
}

/// Trains the cells. What has begun is saved if it is asked to stop.
pub(crate) fn run(work: &Work<'_>) -> Ended {
    let queue: Mutex<VecDeque<usize>> = Mutex::new((0..work.places.len()).collect());
    let ends: Mutex<Vec<(usize, Option<u8>)>> = Mutex::default();
    let mut shared: Vec<&Arc<Data>> = vec![];
    for data in work.data.iter().flatten() {
        if !shared.iter().any(|other| Arc::ptr_eq(other, data)) {
            shared.push(data);
        }
    }
    let shared = shared.iter().map(|data| memory::shared(&data.set)).fold(0, u64::saturating_add);
    let room = Room::new(memory::machine().map(|total| total.saturating_sub(shared)));
    let next = || if stopped(work) { None } else { locked(&queue).pop_front() };
    std::thread::scope(|scope| {
        for _ in 0..work.jobs.min(work.places.len()).max(1) {
            scope.spawn(|| {
                while let Some(index) = next() {
                    let outcome = cell(work, index, &room);
                    locked(&ends).extend(outcome.map(|code| (index, code)));
                }
            });
        }
    });
    let mut ends = ends.into_inner().unwrap_or_else(PoisonError::into_inner);
    ends.sort_unstable();
    Ended {
        finished: ends.iter().filter(|(_, code)| code.is_none()).count(),
        failed: ends.iter().filter_map(|(index, code)| Some((work.places[*index], (*code)?))).collect(),
    }
}

fn stopped(work: &Work<'_>) -> bool {
    work.stop.load(Ordering::Relaxed)
}

/// A panic between lock and unlock is impossible: both lists are only pushed to and popped from.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Trains one cell and says how it went. Nothing for a cell that was stopped, else its exit code if it failed.
fn cell(work: &Work<'_>, index: usize, room: &Room) -> Option<Option<u8>> {
    let place = work.places[index];
    let mut watch = Watch::new(work, place);
    let start = Instant::now();
    let ended = threads::alone(|| train(work, place, room, &mut watch));
    let watch = Watch::new(work, place);
    match ended {
        Ok(Ok(CellEnd::Finished(table))) => {
            watch.says(&format!(
                "finished in {}, best {:.1} % on {} after update {}",
                duration(start.elapsed().as_secs_f64()),
                100.0 * table.dev_accuracy,
                work.grid.models[place.model].experiment.dev,
                number(table.best_update as f64),
            ));
            Some(None)
        }
        Ok(Ok(CellEnd::Stopped(updates))) => {
            watch.says(&format!("stopped after update {}", number(updates as f64)));
            None
        }
        Ok(Ok(CellEnd::NotBegun)) => None,
        Ok(Err(failure)) => Some(Some(failed(work, place, &watch, failure.code(), &failure.to_string()))),
        Err(message) => Some(Some(failed(work, place, &watch, PANIC, &message))),
    }
}

/// The exit code of a process that panicked.
const PANIC: u8 = 101;

/// Records and tells a failure; gives its code.
fn failed(work: &Work<'_>, place: Place, watch: &Watch<'_>, code: u8, message: &str) -> u8 {
    let fault = Fault { code, message: message.to_owned() };
    if let Err(error) = fault.write(&work.grid.path(place)) {
        work.terminal.alert(&format!("{}: {error}", watch.label));
    }
    work.terminal.alert(&format!("{}: failed: {message}", watch.label));
    code
}

fn train(work: &Work<'_>, place: Place, room: &Room, watch: &mut Watch<'_>) -> Result<CellEnd, Failure> {
    let path = work.grid.path(place);
    let _lock = lock(&path)?;
    Fault::clear(&path)?;
    let job = work.grid.job(place, work.pace.memory);
    let data = work.data[place.model].as_ref().expect("the data of every model with a cell to train was made");
    let fitted = job.fit(&path, data, work.pace)?;
    let _share = room.take(fitted.need.total().saturating_sub(memory::shared(&data.set)));
    if stopped(work) {
        return Ok(CellEnd::NotBegun);
    }
    Ok(match job.train(&path, data, (fitted, work.pace.halting), work.stop, watch)? {
        Outcome::Finished(table) => CellEnd::Finished(table),
        Outcome::Stopped { updates } => CellEnd::Stopped(updates),
    })
}

/// Says when a cell begins, and what became of it.
struct Watch<'a> {
    terminal: &'a Terminal,
    /// Its number among all cells, and its name.
    label: String,
}

impl<'a> Watch<'a> {
    fn new(work: &Work<'a>, place: Place) -> Self {
        let all = work.grid.places();
        let number = all.iter().position(|other| *other == place).map_or(0, |index| index + 1);
        Self { terminal: work.terminal, label: format!("[{number}/{}] {}", all.len(), work.grid.label(place)) }
    }

    fn says(&self, text: &str) {
        self.terminal.message(&format!("{}: {text}", self.label));
    }
}

impl Observer for Watch<'_> {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { done: 0, total } => self.says(&format!("begins, {} updates", number(*total as f64))),
            Event::Started { done, total } => {
                self.says(&format!("goes on after update {} of {}", number(*done as f64), number(*total as f64)));
            }
            _ => {}
        }
    }
}
