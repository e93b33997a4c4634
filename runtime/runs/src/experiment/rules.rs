//! The rules of an experiment that types cannot express.

use rtc_exec::learner::OptimiserKind;
use rtc_task::batching::{Buckets, ClassSampling};
use rtc_task::class_weights::ClassWeights;
use rtc_task::error::unknown;
use rtc_task::{
    DataSource, MAX_EXAMPLES, check_name, check_own, check_shares, formal_named, own_split, resolve_options, task_named,
};

use super::{
    BatchSettings, Choice, Curriculum, Experiment, Fresh, Lengths, MetricKind, Optimiser, SampleSettings,
    epsilon as usual_epsilon, is_all,
};
use crate::schedule::{Beta1, ScheduleKind};

/// What is wrong with a pass that is too long.
const PASS: &str = "`pass` times `size` must be at most 10000000";

/// A rule that was broken: the path of the field, and the sentence.
pub(super) type BrokenRule = (Vec<&'static str>, String);

/// All broken ones of the rules that types can't express.
pub(super) fn check(experiment: &Experiment) -> Vec<BrokenRule> {
    let Optimiser { kind, learning_rate, betas, momentum, epsilon, weight_decay, clip, most, .. } =
        experiment.optimiser;
    let Optimiser { muon_step, lookahead, rectify_from, .. } = experiment.optimiser;
    let BatchSettings { size, accumulate, .. } = experiment.batch;
    let schedule = &experiment.schedule;
    let start = schedule.start.unwrap_or(0);
    let Fresh { pass, curriculum, .. } =
        experiment.fresh.unwrap_or(Fresh { lengths: Lengths::Batch, curriculum: None, pass: 1 });
    let curriculum = curriculum.unwrap_or(Curriculum { from: 1, every: 1 });
    let bounded = experiment.epochs.is_some() || experiment.max_steps.is_some();
    let positive = |number: f64| number > 0.0 && number.is_finite();
    let has_momentum = matches!(kind, OptimiserKind::Muon | OptimiserKind::Sgd | OptimiserKind::Formula);
    let rules: &[(bool, &[&'static str], &str)] = &[
        (positive(learning_rate), &["optimiser", "learning_rate"], "`learning_rate` must be positive"),
        (betas.iter().all(|b| (0.0..1.0).contains(b)), &["optimiser", "betas"], "`betas` must lie in 0..1"),
        (
            momentum.is_none_or(|m| has_momentum && (0.0..1.0).contains(&m)),
            &["optimiser", "momentum"],
            "`momentum` belongs to `muon`, `sgd` and `formula`, and must lie in 0..1",
        ),
        (
            muon_step.is_none() || kind == OptimiserKind::Muon,
            &["optimiser", "muon_step"],
            "`muon_step` belongs to `kind: muon`",
        ),
        (
            lookahead.is_none_or(|l| kind == OptimiserKind::Ranger && l.every > 0 && (0.0..=1.0).contains(&l.follow)),
            &["optimiser", "lookahead"],
            "`lookahead` belongs to `kind: ranger`; `every` is at least 1, and `follow` lies in 0..1",
        ),
        (
            rectify_from.is_none_or(|from| kind == OptimiserKind::Ranger && from >= 4.0 && from.is_finite()),
            &["optimiser", "rectify_from"],
            "`rectify_from` belongs to `kind: ranger`, and is at least 4",
        ),
        (positive(epsilon), &["optimiser", "epsilon"], "`epsilon` must be positive"),
        (
            !matches!(kind, OptimiserKind::AdamAtan2 | OptimiserKind::Lion | OptimiserKind::Sgd)
                || epsilon == usual_epsilon(),
            &["optimiser", "epsilon"],
            "`adam_atan2`, `lion` and `sgd` divide by nothing and have no `epsilon`; leave it out",
        ),
        (
            weight_decay >= 0.0 && weight_decay.is_finite(),
            &["optimiser", "weight_decay"],
            "`weight_decay` can't be negative",
        ),
        (
            experiment.optimiser.decays() || weight_decay == 0.0,
            &["optimiser", "weight_decay"],
            "`adam` has no weight decay; leave `weight_decay` out, or use `adamw`",
        ),
        (
            is_all(&experiment.optimiser.decay) || weight_decay > 0.0,
            &["optimiser", "decay"],
            "`decay: matrices` needs a `weight_decay`",
        ),
        (positive(most.s4d), &["optimiser", "most", "s4d"], "`s4d` must be positive"),
        (clip.is_none_or(positive), &["optimiser", "clip"], "`clip` must be positive; leave it out for no clipping"),
        (size > 0, &["batch", "size"], "`size` must be at least 1"),
        (
            accumulate > 0 && accumulate <= size.max(1),
            &["batch", "accumulate"],
            "`accumulate` must lie between 1 and `size`",
        ),
        (bounded, &["epochs"], "`epochs` or `max_steps` must say when the run ends"),
        (experiment.epochs != Some(0), &["epochs"], "`epochs` must be at least 1"),
        (experiment.max_steps != Some(0), &["max_steps"], "`max_steps` must be at least 1"),
        (experiment.evaluate_every != Some(0), &["evaluate_every"], "`evaluate_every` must be at least 1"),
        (
            experiment.checkpoints.is_none_or(|kept| kept.every > 0 && kept.keep != Some(0)),
            &["checkpoints"],
            "`every` and `keep` must be at least 1",
        ),
        (
            experiment.histograms.is_none_or(|histograms| histograms.every > 0),
            &["histograms", "every"],
            "`every` must be at least 1",
        ),
        (experiment.log_every > 0, &["log_every"], "`log_every` must be at least 1"),
        (!experiment.seeds.is_empty(), &["seeds"], "`seeds` needs at least one seed"),
        (
            schedule.total.is_none_or(|total| !schedule.kind.needs_total() || total > schedule.warmup.max(start)),
            &["schedule", "total"],
            "`total` must be larger than `warmup` and `start`",
        ),
        (
            schedule.start.is_none_or(|start| start >= schedule.warmup && schedule.kind.falls()),
            &["schedule", "start"],
            "`start` belongs to `cosine` and `linear`, and is no smaller than `warmup`",
        ),
        (pass > 0, &["fresh", "pass"], "`pass` must be at least 1"),
        (curriculum.every > 0, &["fresh", "curriculum"], "`every` must be at least 1"),
        (curriculum.from > 0, &["fresh", "curriculum"], "`from` must be at least 1"),
        (
            experiment.fresh.is_none()
                || size > MAX_EXAMPLES
                || pass.saturating_mul(size as u64) <= MAX_EXAMPLES as u64,
            &["fresh", "pass"],
            PASS,
        ),
        (
            experiment.fresh.is_none() || experiment.batch.buckets == Buckets::None,
            &["batch", "buckets"],
            "`buckets: length` is for stored examples; fresh ones have `lengths` under `fresh`",
        ),
        (
            experiment.fresh.is_none() || experiment.batch.sampling == ClassSampling::Uniform,
            &["batch", "sampling"],
            "`sampling: balanced` is for stored examples",
        ),
        (
            experiment.fresh.is_none()
                || !experiment.loss.class_weights.as_ref().is_some_and(ClassWeights::are_computed),
            &["loss", "class_weights"],
            "`class_weights: balanced` is for stored examples, which can be counted; name the weights, as `{ yes: 4, no: 1 }`",
        ),
        (
            experiment.ema.is_none_or(|ema| (0.0..1.0).contains(&ema.decay)),
            &["ema", "decay"],
            "`decay` must lie in 0..1",
        ),
        (
            schedule.beta1 == Beta1::Fixed || schedule.kind == ScheduleKind::OneCycle,
            &["schedule", "beta1"],
            "`beta1: cycled` belongs to `kind: one_cycle`",
        ),
        (
            experiment.optimiser.formula.is_some() == (kind == OptimiserKind::Formula),
            &["optimiser", "formula"],
            "`kind: formula` needs a `formula`, and no other kind has one",
        ),
        (
            schedule.formula.is_some() == (schedule.kind == ScheduleKind::Formula),
            &["schedule", "formula"],
            "`kind: formula` needs a `formula`, and no other kind has one",
        ),
    ];
    let mut broken = check_task(experiment);
    broken.extend(experiment.optimiser.wrong_group().map(|message| (vec!["optimiser", "groups"], message)));
    let is_empty = experiment.optimiser.trained.as_ref().is_some_and(Vec::is_empty);
    broken.extend(
        is_empty.then(|| (vec!["optimiser", "trained"], "needs at least one name, pattern or role".to_owned())),
    );
    broken.extend(experiment.optimiser.wrong_formula().map(|message| (vec!["optimiser", "formula"], message)));
    let formula = schedule.read_formula().and_then(Result::err);
    broken.extend(formula.map(|message| (vec!["schedule", "formula"], message)));
    broken.extend(experiment.loss.check().err().map(|message| (vec!["loss", "class_weights"], message)));
    broken.extend(check_choice(experiment).err());
    let named = |kind: &MetricKind| kind.to_string();
    let twice = experiment
        .metrics
        .iter()
        .enumerate()
        .find(|(n, kind)| experiment.metrics[..*n].iter().map(named).any(|other| other == named(kind)));
    broken.extend(
        twice.map(|(_, kind)| (vec!["metrics"], format!("`metrics` must have every name once: got `{kind}` twice"))),
    );
    let samples = experiment.samples.iter().flat_map(SampleSettings::broken);
    broken.extend(samples.map(|(field, message)| (vec!["samples", field], message)));
    let of_numbers = rules.iter().filter(|(holds, ..)| !holds);
    broken.extend(of_numbers.map(|(_, path, message)| (path.to_vec(), (*message).to_owned())));
    let too_large = || format!("`size` must be at most {MAX_EXAMPLES}: got {size}. Use 32, 64, ...");
    broken.extend((size > MAX_EXAMPLES).then(|| (vec!["batch", "size"], too_large())));
    broken.extend(experiment.evaluate_at.sweeps().err().map(|message| (vec!["evaluate_at"], message)));
    broken
}

/// Refuses the name of a metric that no task and no experiment has.
fn check_choice(experiment: &Experiment) -> Result<(), BrokenRule> {
    let Some(name) = experiment.choose.metric() else { return Ok(()) };
    let mut known = Choice::names();
    known.extend(experiment.metrics.iter().map(ToString::to_string));
    match known.iter().any(|other| other == name) || MetricKind::named(name).is_some() {
        true => Ok(()),
        false => Err((vec!["choose"], unknown("choice", name, known))),
    }
}

/// The rules of `evaluate` that runs of before may break.
pub(super) fn check_evaluated(evaluate: &[String]) -> Result<(), BrokenRule> {
    match evaluate.iter().enumerate().find(|(n, name)| evaluate[..*n].contains(name)) {
        Some((_, name)) => Err((
            vec!["evaluate"],
            format!("`evaluate` must name every split once: got `{name}` twice. Remove one of the two"),
        )),
        None => Ok(()),
    }
}

/// All broken rules of the task and its splits.
fn check_task(experiment: &Experiment) -> Vec<BrokenRule> {
    let settings = &experiment.task;
    // Without the task nothing is known of its fields and splits.
    if let Err(message) = check_name(&settings.name) {
        return vec![(vec!["task", "name"], message)];
    }
    match check_own(settings) {
        Some(Err((field, message))) => return vec![(vec!["task", field], message)],
        Some(Ok(())) => {}
        None => match task_named(&settings.name) {
            Err(message) => return vec![(vec!["task", "name"], message)],
            Ok(task) => {
                if let Err(message) = resolve_options(task.about().options, &settings.options) {
                    return vec![(vec!["task", "options"], message)];
                }
            }
        },
    }
    let mut broken = vec![];
    let named = |path: &[&'static str], name: &str| {
        let found = own_split(settings, name).unwrap_or_else(|| task_named(&settings.name)?.split(name).map(drop));
        found.map_err(|message| (path.to_vec(), message)).err()
    };
    for (name, size) in &settings.sizes {
        let path = ["task", "sizes"];
        let at_least = (*size == 0).then(|| format!("the size of `{name}` must be at least 1"));
        let most = || (*size > MAX_EXAMPLES).then(|| format!("the size of `{name}` must be at most {MAX_EXAMPLES}"));
        broken.extend(named(&path, name).or_else(|| Some((path.to_vec(), at_least.or_else(most)?))));
    }
    if let Some(DataSource::Files(files)) = &settings.data {
        broken.extend(files.keys().filter_map(|name| named(&["task", "data"], name)));
        broken.extend(check_shares(files).err().map(|message| (vec!["task", "data"], message)));
    }
    if experiment.fresh.is_some() && formal_named(&settings.name).is_none() {
        let message = format!("`fresh` is for tasks on strings of a length, and {} is none", settings.name);
        broken.push((vec!["fresh"], message));
    } else if experiment.fresh.is_some() && settings.data.is_some() {
        broken.push((vec!["fresh"], "`fresh` strings are drawn, so `data` has no use".to_owned()));
    }
    broken.extend(named(&["train"], &experiment.train));
    broken.extend(named(&["dev"], &experiment.dev));
    broken.extend(experiment.evaluate.iter().filter_map(|name| named(&["evaluate"], name)));
    broken
}
