//! The progress of a grid, on standard error: the state of every cell and a bar for every running one on a terminal, lines now and
//! then elsewhere.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rtc_exec::learner::StepReport;
use rtc_runs::grid::{CellState, GridRow};
use rtc_session::text::{count, duration, number};

use super::CellIndex;
use crate::live::{DisplayLine, DisplayedState, Screen};
use crate::progress::RunningMeans;
use crate::terminal::Terminal;

/// Between two reports where there is no terminal.
const PAUSE: Duration = Duration::from_secs(30);

/// Lines of a terminal that the states of the cells take at most.
const MOST: usize = 24;

/// Shows all cells of a grid.
pub(crate) struct Board<'a> {
    terminal: &'a Terminal,
    /// Taken before the cells, where both are.
    screen: Option<Mutex<Screen>>,
    cells: Mutex<GridCells>,
}

/// The cells that are to be trained, and their progress.
struct GridCells {
    /// How many are trained at a time.
    jobs: usize,
    /// How many are to be trained, and how many of them have ended.
    to_train: usize,
    ended: usize,
    /// Updates that every cell has and has made.
    updates: BTreeMap<CellIndex, (u64, u64)>,
    running: BTreeMap<CellIndex, RunningCell>,
    /// The names of the rows and their cells: the folders of their runs, and what became of them.
    rows: Vec<(String, Vec<(PathBuf, DisplayedState)>)>,
    /// Seconds and updates of the cells of every model.
    speeds: BTreeMap<usize, (f64, u64)>,
    /// When the last report was printed.
    said: Instant,
}

/// A cell that is being trained.
struct RunningCell {
    label: String,
    means: RunningMeans,
    /// When the update that is being made began.
    began: Instant,
}

impl<'a> Board<'a> {
    /// For the rows of a grid, and cells of them that have so many updates each.
    pub(crate) fn new(terminal: &'a Terminal, rows: &[GridRow], updates: &[(CellIndex, u64)], jobs: usize) -> Self {
        let jobs = jobs.min(updates.len());
        let cells = GridCells {
            jobs,
            to_train: updates.len(),
            ended: 0,
            updates: updates.iter().map(|(place, updates)| (*place, (*updates, 0))).collect(),
            running: BTreeMap::new(),
            rows: rows.iter().map(|row| (row.name.clone(), row.cells.iter().map(known).collect())).collect(),
            speeds: BTreeMap::new(),
            said: Instant::now(),
        };
        let screen = Screen::on(terminal, rows.len().min(MOST) + jobs + 1).map(Mutex::new);
        Self { terminal, screen, cells: Mutex::new(cells) }
    }

    /// Prints a line above what is shown.
    pub(super) fn says(&self, text: &str) {
        if !self.above(text) {
            self.terminal.message(text);
        }
    }

    /// Prints a line that belongs to a failure.
    pub(super) fn alerts(&self, text: &str) {
        if !self.above(text) {
            self.terminal.alert(text);
        }
    }

    /// Prints a line above what is shown; whether anything is.
    fn above(&self, text: &str) -> bool {
        self.screen.as_ref().is_some_and(|screen| locked(screen).print(text))
    }

    /// Forgets what the cells of some rows had left to do: these were stopped.
    pub(super) fn drop_rows(&self, stopped: impl Fn(usize) -> bool) {
        let mut cells = self.cells();
        for (_, (total, done)) in cells.updates.iter_mut().filter(|(place, _)| stopped(place.model)) {
            *total = *done;
        }
        for (model, (_, row)) in cells.rows.iter_mut().enumerate() {
            // A row of which nothing is missing has results whatever was decided.
            if stopped(model) && row.iter().any(|(_, state)| *state != DisplayedState::Finished) {
                row.iter_mut().for_each(|(_, state)| *state = DisplayedState::Stopped);
            }
        }
    }

    /// A cell begins, or goes on after so many updates.
    pub(super) fn started(&self, place: CellIndex, label: &str, done: u64, total: u64) {
        let mut cells = self.cells();
        cells.updates.insert(place, (total, done));
        let running = RunningCell { label: label.to_owned(), means: RunningMeans::default(), began: Instant::now() };
        cells.running.insert(place, running);
    }

    /// A cell has made an update.
    pub(super) fn step(&self, place: CellIndex, update: u64, report: &StepReport, tokens: usize) {
        let mut cells = self.cells();
        cells.step(place, update, report, tokens);
        if self.screen.is_some() {
            drop(cells);
            self.draw();
        } else if self.terminal.talks() && cells.said.elapsed() >= PAUSE {
            cells.said = Instant::now();
            let report = cells.report();
            drop(cells);
            report.iter().for_each(|line| self.terminal.message(line));
        }
    }

    /// Draws the cells if it is time to, and no other thread does.
    fn draw(&self) {
        if let Some(mut screen) = self.screen.as_ref().and_then(|screen| screen.try_lock().ok())
            && screen.is_due()
        {
            let lines = self.cells().lines(screen.height());
            screen.draw(&lines);
        }
    }

    /// A cell was measured or saved meanwhile, which is no part of an update.
    pub(super) fn paused(&self, place: CellIndex) {
        if let Some(running) = self.cells().running.get_mut(&place) {
            running.began = Instant::now();
        }
    }

    /// A cell is trained no longer.
    pub(super) fn ended(&self, place: CellIndex, path: &Path, state: DisplayedState) {
        let mut cells = self.cells();
        cells.ended += usize::from(state == DisplayedState::Finished);
        cells.running.remove(&place);
        cells.mark(path, state);
    }

    /// Another process trains a cell, and has made so many updates of so many.
    pub(super) fn elsewhere(&self, place: CellIndex, path: &Path, (done, total): (u64, u64)) {
        let mut cells = self.cells();
        cells.updates.insert(place, (total, done));
        cells.mark(path, DisplayedState::Running(done as f64 / total.max(1) as f64));
        drop(cells);
        self.draw();
    }

    /// Another process has brought a cell to its end.
    pub(super) fn ended_elsewhere(&self, place: CellIndex, path: &Path, state: DisplayedState) {
        if let Some((total, done)) = self.cells().updates.get_mut(&place) {
            *done = *total;
        }
        self.ended(place, path, state);
        self.draw();
    }

    fn cells(&self) -> MutexGuard<'_, GridCells> {
        locked(&self.cells)
    }
}

/// Nothing that holds one of the locks can panic between two changes that belong together.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The folder of a cell's run, and what is known of it before it is trained.
fn known(cell: &rtc_runs::grid::GridCell) -> (PathBuf, DisplayedState) {
    let state = match cell.state {
        CellState::Absent | CellState::Failed(..) => DisplayedState::Waiting,
        CellState::Unfinished(_) => DisplayedState::Paused,
        CellState::Stopped(_) => DisplayedState::Stopped,
        CellState::Finished(_) => DisplayedState::Finished,
    };
    (cell.path.clone(), state)
}

impl GridCells {
    fn step(&mut self, place: CellIndex, update: u64, report: &StepReport, tokens: usize) {
        let Some(running) = self.running.get_mut(&place) else { return };
        let seconds = running.began.elapsed().as_secs_f64();
        running.means.add(report, tokens, seconds);
        running.began = Instant::now();
        self.updates.entry(place).or_default().1 = update;
        let speed = self.speeds.entry(place.model).or_default();
        *speed = (speed.0 + seconds, speed.1 + 1);
    }

    /// Notes what became of the cells whose run is in this folder.
    fn mark(&mut self, path: &Path, state: DisplayedState) {
        for (_, row) in &mut self.rows {
            row.iter_mut().filter(|(run, _)| run == path).for_each(|(_, known)| *known = state);
        }
    }

    /// How many updates a cell has, how many it made, and what is known of those.
    fn text(&self, place: CellIndex, means: &RunningMeans) -> (u64, u64, String) {
        let (total, done) = self.updates.get(&place).copied().unwrap_or_default();
        (total, done, means.text(total.saturating_sub(done)))
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
        let cell = |(place, running): (&CellIndex, &RunningCell)| {
            let (total, done, text) = self.text(*place, &running.means);
            format!("  {}: update {}/{}  {text}", running.label, number(done as f64), number(total as f64))
        };
        std::iter::once(format!("grid: {updates}, {}", self.summary())).chain(self.running.iter().map(cell)).collect()
    }

    /// The rows with the states of their cells, the running cells and the grid, in at most so many lines: where these are too few,
    /// the rows with running cells before the others.
    fn lines(&self, height: usize) -> Vec<DisplayLine> {
        let room = height.saturating_sub(self.jobs + 1);
        let mut shown: Vec<usize> = (0..self.rows.len()).collect();
        if shown.len() > room {
            shown.sort_by_key(|model| !self.running.keys().any(|place| place.model == *model));
            shown.truncate(room.saturating_sub(1));
            shown.sort_unstable();
        }
        let mut lines: Vec<DisplayLine> = shown.iter().map(|model| self.row(*model)).collect();
        if room > 0 && lines.len() < self.rows.len() {
            lines.push(DisplayLine::Text(format!("and {}", count(self.rows.len() - lines.len(), "row"))));
        }
        lines.extend(self.running.iter().map(|(place, running)| {
            let (total, done, text) = self.text(*place, &running.means);
            DisplayLine::Run { name: running.label.clone(), done, total, course: running.means.losses(), text }
        }));
        let (total, done) = self.updates.values().fold((0, 0), |sum, own| (sum.0 + own.0, sum.1 + own.1));
        lines.push(DisplayLine::Run { name: "grid".to_owned(), done, total, course: vec![], text: self.summary() });
        lines
    }

    fn row(&self, model: usize) -> DisplayLine {
        let (name, cells) = &self.rows[model];
        let state = |(seed, (_, known)): (usize, &(PathBuf, DisplayedState))| {
            let place = CellIndex { model, seed };
            match self.updates.get(&place) {
                Some((total, done)) if self.running.contains_key(&place) => {
                    DisplayedState::Running(*done as f64 / (*total).max(1) as f64)
                }
                _ => *known,
            }
        };
        DisplayLine::Cells { name: name.clone(), states: cells.iter().enumerate().map(state).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of two cells that did not begin.
    fn rows(names: &[&str]) -> Vec<GridRow> {
        let cell = |name: &str, seed| rtc_runs::grid::GridCell {
            seed,
            path: Path::new(name).join(seed.to_string()),
            state: CellState::Absent,
        };
        let row = |name: &&str| GridRow {
            name: (*name).to_owned(),
            parameters: 0,
            data: String::new(),
            cells: vec![cell(name, 1), cell(name, 2)],
        };
        names.iter().map(row).collect()
    }

    #[test]
    fn every_cell_has_a_state_and_running_ones_have_lines() {
        let place = |model, seed| CellIndex { model, seed };
        let terminal = Terminal::new(true);
        let rows = rows(&["ut", "gut", "tlb"]);
        let updates: Vec<_> = (0..3).flat_map(|model| [(place(model, 0), 100), (place(model, 1), 100)]).collect();
        let board = Board::new(&terminal, &rows, &updates, 2);
        board.started(place(0, 0), "ut seed 1", 0, 100);
        board.ended(place(0, 0), &rows[0].cells[0].path, DisplayedState::Finished);
        board.started(place(1, 1), "gut seed 2", 0, 100);
        board.step(place(1, 1), 50, &StepReport { loss: 2.0, ..StepReport::default() }, 8);
        board.drop_rows(|model| model == 2);
        let cells = |name: &str, states: [DisplayedState; 2]| DisplayLine::Cells {
            name: name.to_owned(),
            states: states.to_vec(),
        };
        let lines = board.cells().lines(6);
        assert_eq!(lines[0], cells("ut", [DisplayedState::Finished, DisplayedState::Waiting]));
        assert_eq!(lines[1], cells("gut", [DisplayedState::Waiting, DisplayedState::Running(0.5)]));
        assert_eq!(lines[2], cells("tlb", [DisplayedState::Stopped, DisplayedState::Stopped]));
        assert!(
            matches!(&lines[3], DisplayLine::Run { name, done: 50, course, .. } if name == "gut seed 2" && course == &[2.0])
        );
        assert!(
            matches!(&lines[4], DisplayLine::Run { name, done: 50, total: 400, .. } if name == "grid"),
            "{lines:?}"
        );
        // A row that is being trained stays where there is little room.
        let lines = board.cells().lines(5);
        assert_eq!(lines[0], cells("gut", [DisplayedState::Waiting, DisplayedState::Running(0.5)]));
        assert_eq!(lines[1], DisplayLine::Text("and 2 rows".to_owned()));
        assert_eq!(board.cells().lines(1).len(), 2, "the running cell and the grid");
    }

    #[test]
    fn a_report_has_a_line_for_the_grid_and_one_for_every_running_cell() {
        let place = |model, seed| CellIndex { model, seed };
        let terminal = Terminal::new(true);
        let board = Board::new(&terminal, &[], &[(place(0, 0), 100), (place(1, 0), 200), (place(0, 1), 100)], 2);
        board.started(place(0, 0), "[1/3] ut seed 1", 0, 100);
        board.started(place(1, 0), "[2/3] gut seed 1", 50, 200);
        let report = StepReport { loss: 1.5, scored: 4, correct: Some(1), ..StepReport::default() };
        board.step(place(1, 0), 60, &report, 32);
        let lines = board.cells().report();
        assert!(lines[0].starts_with("grid: 60 of 400 updates, 0 of 3 cells ended, about "), "{lines:?}");
        assert!(lines[2].starts_with("  [2/3] gut seed 1: update 60/200  loss 1.5000  accuracy 25.0 %"), "{lines:?}");
        board.ended(place(1, 0), Path::new(""), DisplayedState::Finished);
        let lines = board.cells().report();
        assert!(lines[0].contains("1 of 3 cells ended") && lines.len() == 2, "{lines:?}");
    }

    #[test]
    fn what_is_left_counts_every_model_by_its_own_speed() {
        let place = |model, seed| CellIndex { model, seed };
        let terminal = Terminal::new(true);
        let board = Board::new(&terminal, &[], &[(place(0, 0), 10), (place(1, 0), 10), (place(2, 0), 10)], 2);
        let mut cells = board.cells();
        assert_eq!(cells.seconds_left(), None);
        cells.speeds = BTreeMap::from([(0, (2.0, 2)), (1, (6.0, 2))]);
        // 10 updates at 1 s, 10 at 3 s, and 10 of a model that was not met, at 2 s, two at a time.
        assert_eq!(cells.seconds_left(), Some(30.0));
    }
}
