//! A forecast of a grid: parameters, operations and time of every cell, without training it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rtc_compiler::ir::cost::{Sizes, region_cost};
use rtc_compiler::ir::graph::MAIN;
use rtc_compiler::pipeline;
use rtc_runs::grid::{CellState, GridRow};
use rtc_session::device::Card;
use rtc_session::failure::SessionFailure;
use rtc_session::job::{Data, Pace};
use rtc_session::rates::check_rates;
use rtc_session::text::{count, duration, number};
use rtc_session::threads;
use rtc_train::{Forecast, forecast};
use serde_json::{Value, json};

use super::room::Rooms;
use super::run::shared;
use super::{CellIndex, Grid};
use crate::terminal::Terminal;
use crate::text::columns;

/// How long each model is tried.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long one that halts is tried: at first it takes all steps that it may.
const LONGER: Duration = Duration::from_secs(3);

/// The cost of a model's cells.
#[derive(Clone, Copy, Debug, Default)]
struct CellCost {
    /// Floating-point operations of all updates, recurrences at their bounds.
    operations: f64,
    /// How many times longer it takes at most, if every recurrence runs to its bound.
    longer: f64,
    forecast: Forecast,
}

/// Seconds that are left: as it went in the moment that was tried, and with all recurrences at their bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct RemainingTime {
    expected: f64,
    most: f64,
}

/// Prints every cell with what it takes.
pub(crate) fn dry_run(
    grid: &Grid,
    rows: &[GridRow],
    (jobs, pace, card): (usize, Pace, Option<&Card>),
    as_json: bool,
    terminal: &Terminal,
) -> Result<(), SessionFailure> {
    let places = grid.places();
    let data = grid.data(&places, terminal)?;
    let own = grid.distinct(&places);
    let jobs = grid.jobs(jobs, card, (&own, &data), pace, terminal)?;
    let costs = tried(grid, &data, (jobs, pace, card))?;
    let left =
        |place: &CellIndex| if own.contains(place) { left(rows, *place, &costs) } else { RemainingTime::default() };
    let left: Vec<RemainingTime> = places.iter().map(left).collect();
    let total = |of: fn(&RemainingTime) -> f64| makespan(&left.iter().map(of).collect::<Vec<_>>(), jobs);
    let (expected, most) = (total(|left| left.expected), total(|left| left.most));
    if as_json {
        let cells = places.iter().zip(&left).map(|(place, left)| cell_json(grid, rows, *place, &costs, *left));
        return terminal.json(&json!({
            "folder": grid.folder.display().to_string(), "jobs": jobs, "seconds": expected, "seconds_at_most": most,
            "cells": cells.collect::<Vec<_>>(),
        }));
    }
    let head = ["model", "seed", "state", "parameters", "updates", "operations", "depth", "time", "at most"];
    let cells = places.iter().zip(&left).map(|(place, left)| cell_text(grid, rows, *place, &costs, *left));
    let table: Vec<Vec<String>> = std::iter::once(head.map(str::to_owned).to_vec()).chain(cells).collect();
    terminal.result(&columns(&table))?;
    let todo = left.iter().filter(|left| left.most > 0.0).count();
    let less = if grid.halving.is_some() { "; less where rows are stopped" } else { "" };
    terminal.result(&format!(
        "{} to train in {}, {} at a time: about {}, with every recurrence at its bound {}{less}\n",
        count(todo, "cell"),
        grid.folder.display(),
        jobs.min(todo.max(1)),
        duration(expected),
        duration(most)
    ))
}

/// The seconds that a whole cell of every model that has data takes at most, one at a time.
pub(super) fn at_most(
    grid: &Grid,
    data: &[Option<Arc<Data>>],
    (pace, card): (Pace, Option<&Card>),
) -> Result<Vec<f64>, SessionFailure> {
    let most = |cost: &CellCost| cost.forecast.seconds() * cost.longer;
    Ok(tried(grid, data, (1, pace, card))?.iter().map(most).collect())
}

fn state(rows: &[GridRow], place: CellIndex) -> &CellState {
    &rows[place.model].cells[place.seed].state
}

/// What a cell still takes; one that was begun counts as a whole.
fn left(rows: &[GridRow], place: CellIndex, costs: &[CellCost]) -> RemainingTime {
    let cost = &costs[place.model];
    let expected = cost.forecast.seconds();
    match state(rows, place) {
        CellState::Finished(_) | CellState::Stopped(_) => RemainingTime::default(),
        _ => RemainingTime { expected, most: expected * cost.longer },
    }
}

/// When the last of so many workers is done, if each takes the next cell as soon as it can.
fn makespan(cells: &[f64], jobs: usize) -> f64 {
    let mut workers = vec![0.0_f64; jobs.max(1)];
    for cell in cells {
        let first = workers.iter_mut().min_by(|a, b| a.total_cmp(b)).expect("there is at least one worker");
        *first += cell;
    }
    workers.into_iter().fold(0.0, f64::max)
}

/// Tries every model that has data, as many at a time as cells will be trained, so that they share the machine alike.
fn tried(
    grid: &Grid,
    data: &[Option<Arc<Data>>],
    (jobs, pace, card): (usize, Pace, Option<&Card>),
) -> Result<Vec<CellCost>, SessionFailure> {
    let (next, rooms) = (AtomicUsize::new(0), Rooms::new(shared(data), card));
    let costs: Vec<OnceLock<Result<CellCost, SessionFailure>>> = data.iter().map(|_| OnceLock::new()).collect();
    let one = |model: usize| match &data[model] {
        Some(data) => cost(grid, CellIndex { model, seed: 0 }, data, (pace, card, &rooms)),
        None => Ok(CellCost::default()),
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(data.len()) {
            scope.spawn(|| {
                let turn = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|model| *model < data.len());
                while let Some(model) = turn() {
                    costs[model].get_or_init(|| one(model));
                }
            });
        }
    });
    costs.into_iter().map(|cost| cost.into_inner().expect("every model was tried")).collect()
}

/// Trains the model of a cell for a moment, on one thread.
fn cost(
    grid: &Grid,
    place: CellIndex,
    data: &Arc<Data>,
    (pace, card, rooms): (Pace, Option<&Card>, &Rooms),
) -> Result<CellCost, SessionFailure> {
    let job = grid.job(place, None);
    check_rates(&job.experiment, &data.set, (job.info.seed, job.info.until))?;
    let halts = job.compiled.halts();
    let run = || -> Result<Forecast, SessionFailure> {
        let fitted = job.fit(grid.path(place), data, pace, card)?;
        let _shares = rooms.take(&job, data, &fitted)?;
        let mut model = job.model(fitted, pace.halting, pace.device.open()?)?;
        let patience = if halts { LONGER } else { PATIENCE };
        Ok(forecast(&mut *model, &data.set, &job.experiment, job.info.seed, patience)?)
    };
    let forecast = threads::alone(run).flatten()?;
    let graph = pipeline::training(&job.compiled.trained(job.compiled.form(&job.experiment)?)?, &job.compiled.binding)?;
    let rows = job.experiment.batch.size as f64;
    let sizes = Sizes::rows(rows, forecast.tokens / rows);
    let bound = region_cost(&graph, MAIN, &sizes);
    let taken = region_cost(&graph, MAIN, &Sizes { depth: forecast.depth, ..sizes });
    Ok(CellCost { operations: bound * forecast.updates as f64, longer: (bound / taken.max(1.0)).max(1.0), forecast })
}

fn cell_text(grid: &Grid, rows: &[GridRow], place: CellIndex, costs: &[CellCost], left: RemainingTime) -> Vec<String> {
    let (member, cost) = (&grid.models[place.model], &costs[place.model]);
    let time = |seconds| if left.most > 0.0 { duration(seconds) } else { "-".to_owned() };
    vec![
        member.name.clone(),
        grid.seed(place).to_string(),
        state(rows, place).word().to_owned(),
        number(member.compiled.parameter_count() as f64),
        number(cost.forecast.updates as f64),
        format!("{:.2e}", cost.operations),
        cost.forecast.depth.map_or("-".to_owned(), |depth| format!("{depth:.1}")),
        time(left.expected),
        time(left.most),
    ]
}

fn cell_json(grid: &Grid, rows: &[GridRow], place: CellIndex, costs: &[CellCost], left: RemainingTime) -> Value {
    let (member, cost) = (&grid.models[place.model], &costs[place.model]);
    json!({
        "model": member.name, "seed": grid.seed(place), "run": grid.path(place).display().to_string(),
        "state": state(rows, place).word(), "parameters": member.compiled.parameter_count(),
        "updates": cost.forecast.updates, "operations": cost.operations, "depth": cost.forecast.depth,
        "seconds": left.expected, "seconds_at_most": left.most,
    })
}

#[cfg(test)]
mod tests {
    use super::makespan;

    #[test]
    fn cells_are_spread_over_workers_in_their_order() {
        assert_eq!(makespan(&[3.0, 1.0, 1.0, 2.0], 1), 7.0);
        assert_eq!(makespan(&[3.0, 1.0, 1.0, 2.0], 2), 4.0);
        assert_eq!(makespan(&[], 4), 0.0);
    }
}
