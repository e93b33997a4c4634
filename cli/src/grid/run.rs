//! Trains the cells of a grid, several at a time.
//!
//! A cell is trained on one thread, so its numbers are those of `rtc train --threads 1`, and threads never wait for one
//! another. All cells are threads of one process: the data is in memory once, and a kill leaves nothing behind. A panic
//! ends its cell alone.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rtc_runtime::grid::Fault;
use rtc_runtime::train::{Event, Observer, Outcome};

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

/// Trains the cells. What has begun is saved if it is asked to stop.
pub(crate) fn run(work: &Work<'_>) -> Ended {
    let queue: Mutex<VecDeque<usize>> = Mutex::new((0..work.places.len()).collect());
    let ends: Mutex<Vec<(usize, Result<(), u8>)>> = Mutex::default();
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
                    let end = cell(work, work.places[index], &room);
                    locked(&ends).extend(end.map(|end| (index, end)));
                }
            });
        }
    });
    let mut ends = ends.into_inner().unwrap_or_else(PoisonError::into_inner);
    ends.sort_unstable();
    Ended {
        finished: ends.iter().filter(|(_, end)| end.is_ok()).count(),
        failed: ends.iter().filter_map(|(index, end)| Some((work.places[*index], end.err()?))).collect(),
    }
}

fn stopped(work: &Work<'_>) -> bool {
    work.stop.load(Ordering::Relaxed)
}

/// A panic between lock and unlock is impossible: both lists are only pushed to and popped from.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Trains one cell and says how it went. The error is its exit code; nothing is known of one that was stopped.
fn cell(work: &Work<'_>, place: Place, room: &Room) -> Option<Result<(), u8>> {
    let mut watch = Watch::new(work, place);
    let path = work.grid.path(place);
    let _lock = match lock(&path) {
        Ok(file) => file,
        // The folder is another's: nothing may be written into it.
        Err(failure) => return Some(Err(watch.alerts(failure.code(), &failure.to_string()))),
    };
    let start = Instant::now();
    let ended = threads::alone(|| train(work, place, room, &mut watch)).flatten();
    let watch = Watch::new(work, place);
    let (code, message) = match ended {
        Ok(Some(Outcome::Finished(table))) => {
            let (experiment, time) = (work.grid.experiment(place), duration(start.elapsed().as_secs_f64()));
            let (score, update) = (table.best(), number(table.best_update as f64));
            watch
                .says(&format!("finished in {time}, {}", experiment.choose.sentence(&experiment.dev, &score, &update)));
            return Some(Ok(()));
        }
        Ok(Some(Outcome::Stopped { updates })) => {
            watch.says(&format!("stopped after update {}", number(updates as f64)));
            return None;
        }
        Ok(None) => return None,
        Err(failure) => (failure.code(), failure.to_string()),
    };
    if let Err(error) = (Fault { code, message: message.clone() }).write(&path) {
        watch.alerts(code, &error.to_string());
    }
    Some(Err(watch.alerts(code, &message)))
}

/// Trains one cell in its folder; nothing if the stop came before it began.
fn train(work: &Work<'_>, place: Place, room: &Room, watch: &mut Watch<'_>) -> Result<Option<Outcome>, Failure> {
    let path = work.grid.path(place);
    Fault::clear(&path)?;
    let job = work.grid.job(place, work.pace.memory);
    let data = work.data[place.model].as_ref().expect("the data of every model with a cell to train was made");
    let fitted = job.fit(&path, data, work.pace)?;
    let _share = room.take(fitted.need.total().saturating_sub(memory::shared(&data.set)));
    if stopped(work) {
        return Ok(None);
    }
    Ok(Some(job.train(&path, data, (fitted, work.pace.halting, None), work.stop, watch)?))
}

/// Says when a cell begins, and what became of it.
struct Watch<'a> {
    terminal: &'a Terminal,
    /// Its number among all cells, and its name.
    label: String,
    /// When it was last heard of.
    said: Instant,
}

/// A cell that takes longer is heard of after an evaluation.
const PAUSE: Duration = Duration::from_secs(60);

impl<'a> Watch<'a> {
    fn new(work: &Work<'a>, place: Place) -> Self {
        let all = work.grid.places();
        let number = all.iter().position(|other| *other == place).map_or(0, |index| index + 1);
        Self {
            terminal: work.terminal,
            label: format!("[{number}/{}] {}", all.len(), work.grid.label(place)),
            said: Instant::now(),
        }
    }

    fn says(&self, text: &str) {
        self.terminal.message(&format!("{}: {text}", self.label));
    }

    /// Tells a failure; gives its code.
    fn alerts(&self, code: u8, message: &str) -> u8 {
        self.terminal.alert(&format!("{}: failed: {message}", self.label));
        code
    }
}

impl Observer for Watch<'_> {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { done: 0, total } => self.says(&format!("begins, {} updates", number(*total as f64))),
            Event::Started { done, total } => {
                self.says(&format!("goes on after update {} of {}", number(*done as f64), number(*total as f64)));
            }
            Event::Evaluated { update, row, .. } if self.said.elapsed() >= PAUSE => {
                let update = number(*update as f64);
                self.says(&format!("update {update}, {} on {}", row.score(), row.split));
                self.said = Instant::now();
            }
            _ => {}
        }
    }
}
