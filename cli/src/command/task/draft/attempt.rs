//! The attempt with a written experiment: its data is loaded, a model is lowered for it, and learns from the first rows.

use std::path::Path;
use std::time::Duration;

use rtc_session::experiment_file::{ForModel, OpenedExperiment};
use rtc_session::failure::SessionFailure;
use rtc_session::model::Compiled;
use rtc_session::rates::check_rates;
use rtc_session::saved::catalog_in;
use rtc_session::spec_file::SpecArg;
use rtc_task::batching::collect;
use rtc_task::{Audit, Dataset, Example, Stream, audit, load, open_task};
use rtc_train::forecast;

use super::TaskArg;

/// Rows of which the model computes the gradient.
const ROWS: usize = 2;
/// Time of the updates that a forecast rests on.
const MOMENT: Duration = Duration::from_secs(1);

/// What an attempt has found.
pub(in super::super) struct Attempt {
    pub(in super::super) splits: Vec<Audit>,
    pub(in super::super) classes: Vec<String>,
    /// Number of parameters of the model.
    pub(in super::super) parameters: usize,
    /// Seconds that its training will take on this machine, at most; `None` unless they were asked for.
    pub(in super::super) seconds: Option<f64>,
}

/// Loads what the experiment reads, and computes the gradient of the model that it is for on the first rows; with `is_timed` trains for
/// a moment.
///
/// # Errors
/// A row that the task can't take, or an experiment or a model that is refused.
pub(in super::super) fn attempt(path: &Path, task: TaskArg, is_timed: bool) -> Result<Attempt, SessionFailure> {
    let opened = OpenedExperiment::open(&path.display().to_string())?;
    let arg = SpecArg::parse(task.model());
    let ForModel { experiment, edits, .. } = opened.resolve_for(&arg, &arg.model_name()?, &[])?;
    let (own, options) = open_task(&experiment.task)?;
    if let Some(problem) = own.problems(&experiment.task, 1).pop() {
        return Err(problem.into());
    }
    let data = load(&experiment.task, &experiment.splits())?;
    let splits = audit(&*own, &data, &experiment.train);
    if let Some(empty) = splits.iter().find(|split| split.description.examples == 0) {
        let why = format!("the split `{}` has no row: name a file for it, or give it a larger share", empty.split);
        return Err(SessionFailure::data(path.display().to_string(), None, why));
    }
    let rows = first_rows(&experiment.train, &data)?;
    let facts = catalog_in(&experiment)?;
    let compiled = Compiled::new(arg.check_edited(&edits, &facts)?.definition, &facts)?;
    check_rates(&experiment, &data, (1, None))?;
    let mut model = compiled.model(compiled.plans()?, 1, compiled.computing(&experiment)?)?;
    let all: Vec<&Example> = rows.iter().collect();
    let width = all.iter().map(|example| example.length()).max().unwrap_or(0);
    model.accumulate(&collect(&all, width), 1.0)?;
    // Classes that are tokens are none to compare.
    let is_text = matches!(task, TaskArg::Sequences | TaskArg::Language);
    let classes = if is_text { vec![] } else { own.classes(&options) };
    let seconds = match is_timed {
        true => Some(forecast(&mut *model, &data, &experiment, 1, MOMENT)?.seconds()),
        false => None,
    };
    Ok(Attempt { splits, classes, parameters: compiled.parameter_count(), seconds })
}

/// The first rows of the training split.
fn first_rows(train: &str, data: &Dataset) -> Result<Vec<Example>, SessionFailure> {
    match data.streams.get(train) {
        Some(Stream(rows)) => Ok((0..rows.count().min(ROWS)).map(|row| rows.row(row)).collect::<Result<_, _>>()?),
        None => Ok(data.split(train).iter().take(ROWS).cloned().collect()),
    }
}
