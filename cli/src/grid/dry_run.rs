//! What a grid will take: parameters, operations and time of every cell, without training it.

use std::sync::Arc;
use std::time::Duration;

use rtc_compiler::ir::cost::{Sizes, region_cost};
use rtc_compiler::ir::graph::MAIN;
use rtc_compiler::pipeline;
use rtc_runtime::grid::{Row, State};
use rtc_runtime::train::{Forecast, forecast};
use serde_json::{Value, json};

use super::{Grid, Place};
use crate::failure::Failure;
use crate::job::{Data, Pace};
use crate::terminal::Terminal;
use crate::text::{columns, count, duration, number};
use crate::threads;

/// How long each model is tried.
const PATIENCE: Duration = Duration::from_millis(500);

/// What a model's cells take.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    /// Floating-point operations of all updates, recurrences at their bounds.
    operations: f64,
    forecast: Forecast,
}

/// Prints every cell with what it takes.
pub(crate) fn dry_run(
    grid: &Grid,
    rows: &[Row],
    (jobs, pace): (usize, Pace),
    as_json: bool,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let places = grid.places();
    let data = grid.data(&places, terminal)?;
    let mut costs = vec![];
    for (index, data) in data.iter().enumerate() {
        let place = Place { model: index, seed: 0 };
        costs.push(match data {
            Some(data) => cost(grid, place, data, pace)?,
            None => Cost::default(),
        });
    }
    let left: Vec<f64> = places.iter().map(|place| seconds_left(rows, *place, &costs)).collect();
    let total = makespan(&left, jobs);
    if as_json {
        let cells = places.iter().zip(&left).map(|(place, left)| cell_json(grid, rows, *place, &costs, *left));
        return terminal.json(&json!({
            "folder": grid.folder.display().to_string(), "jobs": jobs, "seconds": total,
            "cells": cells.collect::<Vec<_>>(),
        }));
    }
    let head = ["model", "seed", "state", "parameters", "updates", "operations", "time"].map(str::to_owned).to_vec();
    let cells = places.iter().zip(&left).map(|(place, left)| cell_text(grid, rows, *place, &costs, *left));
    let table: Vec<Vec<String>> = std::iter::once(head).chain(cells).collect();
    terminal.result(&columns(&table))?;
    let todo = left.iter().filter(|left| **left > 0.0).count();
    terminal.result(&format!(
        "{} to train in {}, {} at a time: at most about {}\n",
        count(todo, "cell"),
        grid.folder.display(),
        jobs.min(todo.max(1)),
        duration(total)
    ))
}

fn state(rows: &[Row], place: Place) -> &State {
    &rows[place.model].cells[place.seed].state
}

/// Seconds that a cell still takes; one that was begun counts as a whole.
fn seconds_left(rows: &[Row], place: Place, costs: &[Cost]) -> f64 {
    match state(rows, place) {
        State::Finished(_) => 0.0,
        _ => costs[place.model].forecast.seconds(),
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

/// Trains the model of a cell for a moment, on one thread.
fn cost(grid: &Grid, place: Place, data: &Arc<Data>, pace: Pace) -> Result<Cost, Failure> {
    let job = grid.job(place, None);
    let run = || -> Result<Forecast, Failure> {
        let fitted = job.fit(&grid.path(place), data, pace)?;
        let mut model = job.compiled.model(fitted, job.info.seed, pace.halting);
        Ok(forecast(&mut model, &data.set, &job.experiment, job.info.seed, PATIENCE)?)
    };
    let forecast = threads::alone(run).flatten()?;
    let graph = pipeline::training(&job.compiled.spec, &job.compiled.binding)?;
    let rows = job.experiment.batch.size as f64;
    let sizes = Sizes::rows(rows, forecast.tokens / rows);
    Ok(Cost { operations: region_cost(&graph, MAIN, &sizes) * forecast.updates as f64, forecast })
}

fn cell_text(grid: &Grid, rows: &[Row], place: Place, costs: &[Cost], left: f64) -> Vec<String> {
    let (member, cost) = (&grid.models[place.model], &costs[place.model]);
    vec![
        member.name.clone(),
        grid.seed(place).to_string(),
        state(rows, place).word().to_owned(),
        number(member.compiled.parameter_count() as f64),
        number(cost.forecast.updates as f64),
        format!("{:.2e}", cost.operations),
        if left > 0.0 { duration(left) } else { "-".to_owned() },
    ]
}

fn cell_json(grid: &Grid, rows: &[Row], place: Place, costs: &[Cost], left: f64) -> Value {
    let (member, cost) = (&grid.models[place.model], &costs[place.model]);
    json!({
        "model": member.name, "seed": grid.seed(place), "run": grid.path(place).display().to_string(),
        "state": state(rows, place).word(), "parameters": member.compiled.parameter_count(),
        "updates": cost.forecast.updates, "operations": cost.operations, "seconds": left,
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
