//! Whether a task has the metrics that an experiment asks for.

use rtc_compiler::schema::Objective;
use rtc_runs::experiment::{CONFIDENCE, Experiment, LABEL, LENGTH, MetricKind, PREDICTED, PROBABILITY};
use rtc_task::error::unknown;
use rtc_task::{Options as TaskOptions, Task};
use rtc_train::{NUMBERS, named_classes};

use crate::failure::SessionFailure;

/// Refuses an experiment that asks for a metric which the answers of its task do not have.
///
/// # Errors
/// The metric, with the answers that it needs, or the metrics that there are.
pub(crate) fn require_metrics(
    experiment: &Experiment,
    task: &dyn Task,
    options: &TaskOptions,
) -> Result<(), SessionFailure> {
    let objective = task.objective();
    let classes = named_classes(experiment, task, options);
    let mut own =
        experiment.metrics.iter().filter_map(|kind| if let MetricKind::Own(own) = kind { Some(own) } else { None });
    let names: &[&str] = match objective {
        Objective::Number => &[LABEL, PREDICTED, LENGTH],
        Objective::Classify | Objective::Pair | Objective::Each | Objective::Several => {
            &[LABEL, PREDICTED, CONFIDENCE, PROBABILITY, LENGTH]
        }
    };
    own.try_for_each(|own| own.require_names(names, &classes)).map_err(SessionFailure::Usage)?;
    let missing = |kind: &MetricKind| Some((kind.clone(), missing(kind, task)?));
    if let Some((kind, needs)) = experiment.metrics.iter().find_map(missing) {
        let (field, answers) = if experiment.choose.metric() == Some(&kind.to_string()) {
            (format!("choose: {kind}"), answers(objective))
        } else {
            (format!("metrics: [{kind}]"), answers(objective))
        };
        let name = task.name();
        return Err(SessionFailure::Usage(format!(
            "`{field}` needs {needs}, and `{name}` has {answers}: leave it out"
        )));
    }
    let Some(chosen) = experiment.choose.metric() else { return Ok(()) };
    let always: &[&str] = if objective == Objective::Number { &NUMBERS } else { &["accuracy"] };
    let mut known: Vec<String> = always.iter().map(|name| (*name).to_owned()).collect();
    known.extend(experiment.metrics.iter().map(ToString::to_string));
    known.extend(task.about().metrics.iter().map(|metric| metric.name.to_owned()));
    known.extend(task.perplexity().then(|| "perplexity".to_owned()));
    if known.iter().any(|name| name == chosen) {
        return Ok(());
    }
    let what = format!("metric of `{}`", task.name());
    Err(SessionFailure::Usage(format!("`choose`: {}", unknown(&what, chosen, known))))
}

/// Refuses weights of classes that the answers of a task do not have.
///
/// # Errors
/// The nearest name, or what the answers are.
pub(crate) fn require_classes(
    experiment: &Experiment,
    (task, options): (&dyn Task, &TaskOptions),
) -> Result<(), SessionFailure> {
    let Some(weights) = &experiment.loss.class_weights else { return Ok(()) };
    let found = weights.check_names(&task.classes(options), task.objective());
    found.map_err(|why| SessionFailure::Usage(format!("`loss.class_weights`: {why}")))
}

/// Returns the answers that a metric needs, if those of the task are others.
fn missing(kind: &MetricKind, task: &dyn Task) -> Option<&'static str> {
    let objective = task.objective();
    let (fits, needs) = match kind {
        MetricKind::MacroF1 | MetricKind::BalancedAccuracy | MetricKind::CalibrationError => {
            (objective != Objective::Number, "classes or labels")
        }
        MetricKind::Auc => (
            matches!(objective, Objective::Classify | Objective::Pair | Objective::Several),
            "one class or several labels a row",
        ),
        MetricKind::Top(_) => (matches!(objective, Objective::Classify | Objective::Pair | Objective::Each), "classes"),
        MetricKind::Exact => (matches!(objective, Objective::Each | Objective::Several), "several answers a row"),
        MetricKind::EditDistance => (objective == Objective::Each, "a class for every token"),
        MetricKind::Own(_) => (true, "any"),
        MetricKind::BitsPerByte => (task.knows_bytes(), "a text whose next tokens are the answers"),
    };
    (!fits).then_some(needs)
}

/// Names the answers of a task.
fn answers(objective: Objective) -> &'static str {
    match objective {
        Objective::Classify | Objective::Pair => "one class a row",
        Objective::Each => "a class for every token",
        Objective::Several => "several labels a row",
        Objective::Number => "a number a row",
    }
}
