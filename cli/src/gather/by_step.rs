//! Accuracy and confidence after every number of steps, for some lengths, of a model whose depth comes with the examples.

use std::sync::atomic::AtomicBool;

use rtc_report::data::StepCurve;
use rtc_session::failure::SessionFailure;
use rtc_session::saved::TrainedModel;
use rtc_task::{Dataset, Example, Objective};
use rtc_train::Silent;
use rtc_train::stopping::{BEYOND, Stop, evaluate_stopping};

/// How many lengths have a curve.
const CURVES: usize = 5;

/// A curve for each of some lengths, from the shortest to the longest of the evaluation splits. The numbers are those of
/// `rtc eval --steps` on the same examples.
pub(super) fn by_step(trained: &mut TrainedModel, data: &Dataset) -> Result<Vec<StepCurve>, SessionFailure> {
    // Nothing tells how sure a model is of a number.
    if trained.task.objective() == Objective::Number {
        return Ok(vec![]);
    }
    let splits = trained.experiment.evaluate.clone();
    let chosen = spread(&lengths(data, &splits));
    let mut curves = vec![];
    for (length, split) in chosen {
        let examples: Vec<Example> = of_length(data, &split, length).cloned().collect();
        let measurement = trained.measurement(&split, &examples);
        // Nothing is lost when a measurement is cut off, so signals end it at once.
        let stop = AtomicBool::new(false);
        let found = evaluate_stopping(&mut *trained.model, measurement, (Stop::Oracle, BEYOND), &stop, &mut Silent)?;
        let after = found.map_or_else(Vec::new, |found| found.steps);
        curves.push(StepCurve { length, split, examples: examples.len() as u64, after });
    }
    Ok(curves)
}

/// Every length with the split that has most examples of it, the first of equals; the shortest length first.
fn lengths(data: &Dataset, splits: &[String]) -> Vec<(usize, String)> {
    let mut all: Vec<usize> = splits.iter().flat_map(|split| data.split(split)).map(Example::measured_length).collect();
    all.sort_unstable();
    all.dedup();
    let most = |length: usize| {
        let count = |split: &&String| of_length(data, split, length).count();
        splits.iter().rev().max_by_key(count).cloned().unwrap_or_default()
    };
    all.into_iter().map(|length| (length, most(length))).collect()
}

fn of_length<'a>(data: &'a Dataset, split: &str, length: usize) -> impl Iterator<Item = &'a Example> {
    data.split(split).iter().filter(move |example| example.measured_length() == length)
}

/// Some of the lengths, evenly among them, the first and the last included.
fn spread<T: Clone>(all: &[T]) -> Vec<T> {
    if all.len() <= CURVES {
        return all.to_vec();
    }
    (0..CURVES).map(|n| all[n * (all.len() - 1) / (CURVES - 1)].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_lengths_stand_for_all() {
        let all: Vec<usize> = (21..=40).collect();
        assert_eq!(spread(&all), [21, 25, 30, 35, 40]);
        assert_eq!(spread(&all[..3]), [21, 22, 23]);
        assert!(spread::<usize>(&[]).is_empty());
    }
}
