//! The progress of a grid, on standard error: a bar for every running cell and one for the grid on a terminal, lines now and then
//! elsewhere.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use rtc_runtime::learner::StepReport;

use super::CellIndex;
use crate::progress::Means;
use crate::terminal::Terminal;
use crate::text::{count, duration, number};

/// Between two reports where there is no terminal.
const PAUSE: Duration = Duration::from_secs(30);

/// Shows all cells of a grid.
pub(crate) struct Board<'a> {
    terminal: &'a Terminal,
    bars: Option<Bars>,
    cells: Mutex<Cells>,
}

/// Bars on a terminal.
struct Bars {
    all: MultiProgress,
    grid: ProgressBar,
    style: ProgressStyle,
}

/// What is known of the cells that are to be trained.
struct Cells {
    /// How many are trained at a time.
    jobs: usize,
    /// How many are to be trained, and how many of them have ended.
    to_train: usize,
    ended: usize,
    /// Updates that every cell has and has made.
    updates: BTreeMap<CellIndex, (u64, u64)>,
    running: BTreeMap<CellIndex, Running>,
    /// Seconds and updates of the cells of every model.
    speeds: BTreeMap<usize, (f64, u64)>,
    /// When the last report was printed.
    said: Instant,
}

/// A cell that is being trained.
struct Running {
    label: String,
    means: Means,
    /// When the update that is being made began.
    began: Instant,
    bar: Option<ProgressBar>,
}

impl<'a> Board<'a> {
    /// For cells that have so many updates each.
    pub(crate) fn new(terminal: &'a Terminal, updates: &[(CellIndex, u64)], jobs: usize) -> Self {
        let bars = (terminal.talks() && terminal.is_live()).then(|| {
            let plain = |_| ProgressStyle::default_bar();
            let style = ProgressStyle::with_template("{prefix}  {bar:16} {human_pos}/{human_len}  {msg}");
            let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10));
            let total = updates.iter().map(|(_, updates)| updates).sum();
            let style = style.unwrap_or_else(plain);
            let grid = all.add(ProgressBar::new(total).with_style(style.clone()).with_prefix("grid"));
            Bars { all, grid, style }
        });
        let cells = Cells {
            jobs,
            to_train: updates.len(),
            ended: 0,
            updates: updates.iter().map(|(place, updates)| (*place, (*updates, 0))).collect(),
            running: BTreeMap::new(),
            speeds: BTreeMap::new(),
            said: Instant::now(),
        };
        Self { terminal, bars, cells: Mutex::new(cells) }
    }

    /// Prints a line above the bars.
    pub(super) fn says(&self, text: &str) {
        self.above(|| self.terminal.message(text));
    }

    /// Prints a line that belongs to a failure.
    pub(super) fn alerts(&self, text: &str) {
        self.above(|| self.terminal.alert(text));
    }

    fn above(&self, print: impl FnOnce()) {
        match &self.bars {
            Some(bars) => bars.all.suspend(print),
            None => print(),
        }
    }

    /// Forgets what the cells of some rows had left to do: these were stopped.
    pub(super) fn drop_rows(&self, stopped: impl Fn(usize) -> bool) {
        let mut cells = self.cells();
        for (_, (total, done)) in cells.updates.iter_mut().filter(|(place, _)| stopped(place.model)) {
            *total = *done;
        }
        if let Some(bars) = &self.bars {
            bars.grid.set_length(cells.updates.values().map(|(total, _)| total).sum());
        }
    }

    /// A cell begins, or goes on after so many updates.
    pub(super) fn started(&self, place: CellIndex, label: &str, done: u64, total: u64) {
        let bar = self.bars.as_ref().map(|bars| {
            let bar = ProgressBar::new(total).with_style(bars.style.clone()).with_prefix(label.to_owned());
            bar.set_position(done);
            bars.all.insert_before(&bars.grid, bar)
        });
        let mut cells = self.cells();
        cells.updates.insert(place, (total, done));
        let running = Running { label: label.to_owned(), means: Means::default(), began: Instant::now(), bar };
        cells.running.insert(place, running);
    }

    /// A cell has made an update.
    pub(super) fn step(&self, place: CellIndex, update: u64, report: &StepReport, tokens: usize) {
        let mut cells = self.cells();
        cells.step(place, update, report, tokens);
        if !self.terminal.talks() {
            return;
        }
        if let Some(bars) = &self.bars {
            if let Some((running, text)) = cells.running.get(&place).zip(cells.text(place))
                && let Some(bar) = &running.bar
            {
                bar.set_position(update);
                bar.set_message(text);
            }
            bars.grid.set_position(cells.updates.values().map(|(_, done)| done).sum());
            bars.grid.set_message(cells.summary());
        } else if cells.said.elapsed() >= PAUSE {
            cells.said = Instant::now();
            let report = cells.report();
            drop(cells);
            report.iter().for_each(|line| self.terminal.message(line));
        }
    }

    /// A cell was measured or saved meanwhile, which is no part of an update.
    pub(super) fn paused(&self, place: CellIndex) {
        if let Some(running) = self.cells().running.get_mut(&place) {
            running.began = Instant::now();
        }
    }

    /// A cell is trained no longer; `done` if it came to its end.
    pub(super) fn ended(&self, place: CellIndex, done: bool) {
        let mut cells = self.cells();
        cells.ended += usize::from(done);
        if let Some(bar) = cells.running.remove(&place).and_then(|running| running.bar) {
            bar.finish_and_clear();
        }
    }

    /// Nothing that holds the lock can panic between two changes that belong together.
    fn cells(&self) -> MutexGuard<'_, Cells> {
        self.cells.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Board<'_> {
    fn drop(&mut self) {
        if let Some(bars) = &self.bars {
            bars.grid.finish_and_clear();
        }
    }
}

impl Cells {
    fn step(&mut self, place: CellIndex, update: u64, report: &StepReport, tokens: usize) {
        let Some(running) = self.running.get_mut(&place) else { return };
        let seconds = running.began.elapsed().as_secs_f64();
        running.means.add(report, tokens, seconds);
        running.began = Instant::now();
        self.updates.entry(place).or_default().1 = update;
        let speed = self.speeds.entry(place.model).or_default();
        *speed = (speed.0 + seconds, speed.1 + 1);
    }

    /// Updates, loss and time left of a running cell.
    fn text(&self, place: CellIndex) -> Option<String> {
        let (total, done) = *self.updates.get(&place)?;
        Some(self.running.get(&place)?.means.text(total.saturating_sub(done)))
    }

    /// Seconds of all updates that are left, if as many cells as now are trained at a time. A model that was not met yet is taken
    /// to be like those that were.
    fn seconds_left(&self) -> Option<f64> {
        let (seconds, updates) = self.speeds.values().fold((0.0, 0), |sum, own| (sum.0 + own.0, sum.1 + own.1));
        let mean = (updates > 0).then(|| seconds / updates as f64)?;
        let left = self.updates.iter().map(|(place, (total, done))| {
            let own = self.speeds.get(&place.model).map_or(mean, |(seconds, updates)| seconds / *updates as f64);
            own * total.saturating_sub(*done) as f64
        });
        Some(left.sum::<f64>() / self.jobs.min(self.to_train).max(1) as f64)
    }

    fn summary(&self) -> String {
        let left = self.seconds_left().map(|seconds| format!(", about {} left", duration(seconds))).unwrap_or_default();
        format!("{} of {} ended{left}", number(self.ended as f64), count(self.to_train, "cell"))
    }

    /// The grid and every running cell, a line each.
    fn report(&self) -> Vec<String> {
        let (total, done) = self.updates.values().fold((0, 0), |sum, own| (sum.0 + own.0, sum.1 + own.1));
        let updates = format!("{} of {} updates", number(done as f64), number(total as f64));
        let cell = |(place, running): (&CellIndex, &Running)| {
            let (total, done) = self.updates.get(place).copied().unwrap_or_default();
            let text = running.means.text(total.saturating_sub(done));
            format!("  {}: update {}/{}  {text}", running.label, number(done as f64), number(total as f64))
        };
        std::iter::once(format!("grid: {updates}, {}", self.summary())).chain(self.running.iter().map(cell)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_a_line_for_the_grid_and_one_for_every_running_cell() {
        let place = |model, seed| CellIndex { model, seed };
        let terminal = Terminal::new(true);
        let board = Board::new(&terminal, &[(place(0, 0), 100), (place(1, 0), 200), (place(0, 1), 100)], 2);
        board.started(place(0, 0), "[1/3] ut seed 1", 0, 100);
        board.started(place(1, 0), "[2/3] gut seed 1", 50, 200);
        let report = StepReport { loss: 1.5, scored: 4, correct: Some(1), ..StepReport::default() };
        board.step(place(1, 0), 60, &report, 32);
        let lines = board.cells().report();
        assert!(lines[0].starts_with("grid: 60 of 400 updates, 0 of 3 cells ended, about "), "{lines:?}");
        assert!(lines[2].starts_with("  [2/3] gut seed 1: update 60/200  loss 1.5000  accuracy 25.0 %"), "{lines:?}");
        board.ended(place(1, 0), true);
        let lines = board.cells().report();
        assert!(lines[0].contains("1 of 3 cells ended") && lines.len() == 2, "{lines:?}");
    }

    #[test]
    fn what_is_left_counts_every_model_by_its_own_speed() {
        let place = |model, seed| CellIndex { model, seed };
        let terminal = Terminal::new(true);
        let board = Board::new(&terminal, &[(place(0, 0), 10), (place(1, 0), 10), (place(2, 0), 10)], 2);
        let mut cells = board.cells();
        assert_eq!(cells.seconds_left(), None);
        cells.speeds = BTreeMap::from([(0, (2.0, 2)), (1, (6.0, 2))]);
        // 10 updates at 1 s, 10 at 3 s, and 10 of a model that was not met, at 2 s, two at a time.
        assert_eq!(cells.seconds_left(), Some(30.0));
    }
}
