//! `--watch`: what runs where, whoever trains it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rtc_runs::grid::CellState;
use rtc_runs::grid::claim::{ClaimStatus, Far, HeldClaim};
use rtc_session::failure::SessionFailure;
use rtc_session::text::{count, duration, number};
use serde_json::{Value, json};

use super::share::Sharing;
use super::{CellIndex, Grid};
use crate::live::{self, DisplayLine, Screen};
use crate::terminal::Terminal;

/// Between two reports where there is no terminal.
const PAUSE: Duration = Duration::from_secs(30);

/// Rows and cells that a terminal shows at most.
const MOST: usize = 40;

/// When there is nothing more to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Nothing is left to train; cells that failed are not.
    Over,
    /// The same, but cells that failed before this command began will be tried again: it has submitted them.
    Tried,
}

/// The observed state of a cell.
struct ObservedCell {
    place: CellIndex,
    state: CellState,
    held: Option<HeldClaim>,
    /// Whether somebody has tried it since the command began.
    tried: bool,
    /// Whether its last holder ended without giving it up, and nobody has taken it over yet.
    left: bool,
}

impl ObservedCell {
    fn far(&self) -> Option<Far> {
        self.held.as_ref()?.record.as_ref()?.progress
    }

    fn is_over(&self, ending: Ending) -> bool {
        match self.state {
            CellState::Finished(_) | CellState::Stopped(_) => true,
            CellState::Failed(..) => self.held.is_none() && (self.tried || ending == Ending::Over),
            CellState::Absent | CellState::Unfinished(_) => false,
        }
    }

    fn sign(&self) -> live::DisplayedState {
        match (&self.state, &self.held) {
            (CellState::Finished(_), _) => live::DisplayedState::Finished,
            (CellState::Stopped(_), _) => live::DisplayedState::Stopped,
            (_, Some(_)) => {
                let far = self.far();
                live::DisplayedState::Running(far.map_or(0.0, |far| far.update as f64 / far.total.max(1) as f64))
            }
            (CellState::Failed(..), None) => live::DisplayedState::Failed,
            (CellState::Unfinished(_), None) => live::DisplayedState::Paused,
            (CellState::Absent, None) => live::DisplayedState::Waiting,
        }
    }

    /// Who trains it, how long it takes, and when that was last said.
    fn text(&self, held: &HeldClaim) -> String {
        let who = held.record.as_ref().map_or_else(|| "a process".to_owned(), |record| record.holder.name());
        let left = self.far().as_ref().and_then(Far::seconds_left);
        let left = left.map(|seconds| format!(", about {} left", duration(seconds))).unwrap_or_default();
        format!("{who}{left}, seen {} ago", duration(held.silent.as_secs_f64()))
    }
}

/// Shows all cells until nothing is left to train, or the command is asked to stop; whether it came to the end.
pub(crate) fn watch(
    grid: &Grid,
    sharing: &Sharing,
    ending: Ending,
    stop: &AtomicBool,
    terminal: &Terminal,
) -> Result<bool, SessionFailure> {
    let mut screen: Option<Screen> = None;
    let mut said: Option<Instant> = None;
    loop {
        let seen = look(grid, sharing)?;
        let over = seen.iter().all(|cell| cell.is_over(ending));
        if over || stop.load(Ordering::Relaxed) {
            return Ok(over);
        }
        let lines = lines(grid, &seen);
        if screen.is_none() {
            screen = Screen::on(terminal, lines.len().max(grid.models.len() + 2).min(MOST));
        }
        if let Some(screen) = &mut screen {
            screen.draw(&lines);
        } else if said.is_none_or(|said| said.elapsed() >= PAUSE) {
            said = Some(Instant::now());
            report(grid, &seen).iter().for_each(|line| terminal.message(line));
        }
        sharing.pause(stop);
    }
}

/// All cells at this moment, for programs.
pub(crate) fn snapshot(grid: &Grid, sharing: &Sharing) -> Result<Value, SessionFailure> {
    let cell = |seen: &ObservedCell| {
        let mut out = json!({
            "cell": grid.key(seen.place), "model": grid.models[seen.place.model].name, "seed": grid.seed(seen.place),
            "run": grid.path(seen.place).display().to_string(), "state": seen.state.word(),
        });
        if let Some(held) = &seen.held {
            let holder = held.record.as_ref().map(|record| &record.holder);
            out["claim"] = json!({
                "host": holder.map(|holder| &holder.host), "process": holder.map(|holder| holder.pid),
                "job": holder.and_then(|holder| holder.job.as_ref()), "silent": held.silent.as_secs_f64(),
            });
        }
        if let Some(far) = seen.far() {
            out["progress"] = json!({ "update": far.update, "total": far.total, "seconds": far.seconds_left() });
        }
        out
    };
    let seen = look(grid, sharing)?;
    Ok(json!({ "grid": grid.folder.display().to_string(), "cells": seen.iter().map(cell).collect::<Vec<_>>() }))
}

fn look(grid: &Grid, sharing: &Sharing) -> Result<Vec<ObservedCell>, SessionFailure> {
    let rows = grid.rows_now()?;
    let seen = |place: CellIndex| {
        let state = rows[place.model].cells[place.seed].state.clone();
        let (held, tried, left) = match sharing.look(grid.key(place))? {
            ClaimStatus::Held(held) => (Some(held), true, false),
            ClaimStatus::Free { highest, left } => (None, sharing.was_tried(grid.key(place), highest), left),
        };
        Ok(ObservedCell { place, state, held, tried, left })
    };
    grid.places().into_iter().map(seen).collect()
}

/// How much is done, in one line.
fn summary(seen: &[ObservedCell]) -> String {
    let (ended, held) =
        (seen.iter().filter(|cell| cell.is_over(Ending::Over)), seen.iter().filter(|c| c.held.is_some()));
    let (ended, held) = (ended.count(), held.count());
    let left = seen.iter().filter_map(|cell| cell.far()?.seconds_left());
    let left = left.max_by(f64::total_cmp).map(|seconds| format!(", these for about {}", duration(seconds)));
    let dead = seen.iter().filter(|cell| cell.left && !cell.is_over(Ending::Over)).count();
    let dead =
        if dead == 0 { String::new() } else { format!(", {} left by a process that ended", number(dead as f64)) };
    let (ended, all) = (number(ended as f64), count(seen.len(), "cell"));
    format!("{ended} of {all} ended, {} being trained{}{dead}", number(held as f64), left.unwrap_or_default())
}

fn report(grid: &Grid, seen: &[ObservedCell]) -> Vec<String> {
    let one = |cell: &ObservedCell| {
        let held = cell.held.as_ref()?;
        let far = cell.far().map(|far| format!("update {}/{}, ", number(far.update as f64), number(far.total as f64)));
        Some(format!("  {}: {}{}", grid.label(cell.place), far.unwrap_or_default(), cell.text(held)))
    };
    std::iter::once(format!("grid: {}", summary(seen))).chain(seen.iter().filter_map(one)).collect()
}

fn lines(grid: &Grid, seen: &[ObservedCell]) -> Vec<DisplayLine> {
    let row = |model: usize| {
        let mut cells: Vec<&ObservedCell> = seen.iter().filter(|cell| cell.place.model == model).collect();
        cells.sort_by_key(|cell| cell.place.seed);
        DisplayLine::Cells {
            name: grid.models[model].name.clone(),
            states: cells.iter().map(|cell| cell.sign()).collect(),
        }
    };
    let run = |cell: &ObservedCell| {
        let (held, far) = (cell.held.as_ref()?, cell.far());
        let (done, total) = far.map_or((0, 0), |far| (far.update, far.total));
        Some(DisplayLine::Run { name: grid.label(cell.place), done, total, course: vec![], text: cell.text(held) })
    };
    let mut lines: Vec<DisplayLine> = (0..grid.models.len()).map(row).collect();
    lines.truncate(MOST / 2);
    lines.extend(seen.iter().filter_map(run).take(MOST - lines.len() - 1));
    lines.push(DisplayLine::Text(summary(seen)));
    lines
}
