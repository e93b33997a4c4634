//! The folders of runs, and what their records say.

use std::path::{Path, PathBuf};

use rtc_compiler::schema::Objective;
use rtc_compiler::spec::Spec;
use rtc_report::data::{Model, ReportRun, Score};
use rtc_runs::experiment::{Choice, Experiment};
use rtc_runs::grid::GridManifest;
use rtc_runs::record::history::{EvaluationLine, History, Times};
use rtc_runs::record::table::{ResultsTable, is_share};
use rtc_runs::record::{EvaluatedAt, RunFolder, RunInfo, watched};
use rtc_session::failure::SessionFailure;
use rtc_session::folders::{self, DEEPEST, folders_in, resolved};
use rtc_session::memory::bytes;
use rtc_session::model::short;
use rtc_session::saved::{catalog_in, compile, task_of};
use rtc_session::text::{duration, number};
use rtc_task::{Options, Task};

use super::LocatedRun;
use super::brief::with_origins;
use super::rows::RunSource;
use crate::terminal::quoted;

/// The runs and grids in a folder: itself, or all that lie below it, in the order of their paths.
pub(super) fn below(folder: &Path) -> Result<Vec<RunSource>, SessionFailure> {
    let mut found = vec![];
    collect(folder, DEEPEST, &mut found)?;
    if found.is_empty() {
        return Err(SessionFailure::io(
            "open",
            folder,
            std::io::Error::other("there is no run in this folder or below it"),
        ));
    }
    Ok(found)
}

/// The runs below the folder of a grid that are no cells of its rows.
pub(super) fn unlisted(folder: &Path, manifest: &GridManifest) -> Result<usize, SessionFailure> {
    let found = folders::below(folder)?.runs;
    let cells: Vec<PathBuf> =
        manifest.rows.iter().flat_map(|row| &row.cells).map(|cell| resolved(folder, &cell.run)).collect();
    Ok(found.iter().filter(|path| !cells.contains(path)).count())
}

/// Goes down the folders to runs and grids.
fn collect(folder: &Path, deep: usize, found: &mut Vec<RunSource>) -> Result<(), SessionFailure> {
    if RunFolder::exists(folder) {
        found.push(RunSource::Run(folder.to_owned()));
        return Ok(());
    }
    if let Some(manifest) = GridManifest::read(folder)? {
        found.push(RunSource::Grid(folder.to_owned(), manifest));
        return Ok(());
    }
    let Some(deep) = deep.checked_sub(1) else { return Ok(()) };
    folders_in(folder)?.iter().try_for_each(|path| collect(path, deep, found))
}

/// The name of a run's folder; below the folder of a grid that of its row stands before it, for every row has a `seed1`.
pub(super) fn run_name(path: &Path) -> String {
    let row =
        path.parent().filter(|row| row.parent().is_some_and(|grid| matches!(GridManifest::read(grid), Ok(Some(_)))));
    let name =
        row.and_then(Path::parent).map_or_else(|| path.file_name().map(Path::new), |grid| path.strip_prefix(grid).ok());
    name.unwrap_or(path).display().to_string()
}

/// A run as its records say.
pub(super) struct RecordedRun {
    pub(super) run: ReportRun,
    /// Its spec as the compiler understands it.
    pub(super) spec: Option<Spec>,
    /// The complete spec, or the graph.
    pub(super) text: String,
}

/// Reads what the records of a run say.
pub(super) fn read(run: &LocatedRun) -> Result<RecordedRun, SessionFailure> {
    let LocatedRun { path, saved } = run;
    let experiment = &saved.experiment;
    let history = History::read(path)?;
    let catalog = catalog_in(experiment)?;
    let compiled = compile(path, saved, &catalog)?;
    let evaluations = dev(&history, &experiment.dev);
    let choose = &experiment.choose;
    let best = saved.results.as_ref().and_then(chosen).or_else(|| best(choose, &evaluations));
    let times = Times::read(path)?;
    let (task, options) = task_of(experiment)?;
    let run = ReportRun {
        name: run_name(path),
        model: 0,
        seed: saved.info.seed,
        state: match (&saved.results, history.steps.last()) {
            (Some(_), _) => "finished".to_owned(),
            (None, Some(step)) => format!("unfinished, {} updates logged", number(step.update as f64)),
            (None, None) => "unfinished, nothing logged".to_owned(),
        },
        dev: experiment.dev.clone(),
        trained_length: trained_length(experiment, &*task, &options),
        classes: classes(&*task, &options),
        parameters: saved.info.parameters,
        seconds: times.seconds,
        total: times.total,
        command: command(run),
        facts: facts(run, &times),
        experiment: experiment.to_yaml(),
        steps: history.steps,
        best,
        chosen: best.map_or_else(String::new, |(update, score)| {
            let is_loss = matches!(score, Score::Error(_)) && choose.metric().is_none();
            let said = if is_loss { format!("loss {}", score.text()) } else { score.text() };
            choose.sentence(&experiment.dev, &said, &number(update as f64))
        }),
        evaluations,
        results: saved.results.iter().flat_map(|table| table.rows.clone()).collect(),
        lengths: vec![],
        samples: watched::samples(path)?,
        histograms: watched::histograms(path)?,
        by_edit: EvaluatedAt::read(path).map_or_else(Vec::new, |found| found.edits),
    };
    let text = compiled.definition.text();
    let spec = compiled.definition.spec().map(|spec| with_origins(spec.clone(), &catalog));
    Ok(RecordedRun { run, spec, text })
}

/// The longest length of training, where the task draws its examples up to one.
fn trained_length(experiment: &Experiment, task: &dyn Task, options: &Options) -> Option<usize> {
    let option = |name: &str| task.about().options.iter().any(|field| field.name == name).then(|| options.get(name));
    let other = experiment.task.data.is_some()
        || experiment.train != task.about().splits.first()?.name
        || experiment.fresh.is_some_and(|fresh| fresh.curriculum.is_some())
        // The mixture of ListOps has longer expressions, too.
        || option("mix") == Some(1);
    let length = option("train_length").filter(|length| *length > 0 && !other)?;
    usize::try_from(length).ok()
}

/// Number of classes of a task that asks for one class, and not for what comes next.
fn classes(task: &dyn Task, options: &Options) -> Option<usize> {
    let one = matches!(task.objective(), Objective::Classify | Objective::Pair | Objective::Each);
    let count = task.classes(options).len();
    (one && !task.next_token(options) && count > 1).then_some(count)
}

/// The command that trains a run again, from the files in its folder.
fn command(run: &LocatedRun) -> String {
    let info = &run.saved.info;
    let file = |name: &str| quoted(&run.path.join(name));
    let weights = info.start.as_ref().map(|start| format!(" --weights {}", quoted(Path::new(&start.file))));
    let until = info.until.map(|until| format!(" --until {until}"));
    format!(
        "rtc train {} --experiment {} --seed {}{}{} --run again",
        file(info.written.file()),
        file("experiment.yaml"),
        info.seed,
        weights.unwrap_or_default(),
        until.unwrap_or_default()
    )
}

/// The measurements on dev, one per update: at the end dev may have been measured once more.
fn dev(history: &History, split: &str) -> Vec<EvaluationLine> {
    let mut found: Vec<EvaluationLine> = vec![];
    for line in history.evaluations.iter().filter(|line| line.split == split) {
        if found.last().is_none_or(|last| last.update < line.update) {
            found.push(line.clone());
        }
    }
    found
}

/// What the checkpoint of the results was chosen by.
fn chosen(table: &ResultsTable) -> Option<(u64, Score)> {
    let metric = table.dev_metric.as_ref().map(|metric| of_metric(&metric.name, metric.value));
    let score = metric.or(table.dev_accuracy.map(Score::Share)).or(table.dev_loss.map(Score::Error))?;
    Some((table.best_update, score))
}

/// The measurement whose checkpoint counts: the last one, or the first of the best.
fn best(choose: &Choice, evaluations: &[EvaluationLine]) -> Option<(u64, Score)> {
    let score = |one: &EvaluationLine| choose.score(one);
    let better = |best: &EvaluationLine, one: &EvaluationLine| *choose == Choice::Last || score(one) > score(best);
    let measured = evaluations.iter().filter(|one| score(one).is_some());
    let best = measured.reduce(|best, one| if better(best, one) { one } else { best })?;
    let value = choose.value(best)?;
    let score = match choose.metric() {
        Some(name) => of_metric(name, value),
        None => best.accuracy.map(Score::Share).or(best.loss.map(Score::Error))?,
    };
    Some((best.update, score))
}

/// The score that the value of a metric is.
fn of_metric(name: &str, value: f64) -> Score {
    if is_share(name) { Score::Share(value) } else { Score::Error(value) }
}

fn facts(run: &LocatedRun, times: &Times) -> Vec<(String, String)> {
    let RunInfo { model, spec_hash, graph_hash, threads, memory, versions, .. } = &run.saved.info;
    let version = |part: &str| versions.get(part).cloned();
    let facts = [
        ("model", Some(model.clone())),
        ("task", Some(run.saved.experiment.task.name.clone())),
        ("folder", Some(run.path.display().to_string())),
        ("spec", Some(short(spec_hash).to_owned())),
        ("graph", Some(short(graph_hash).to_owned())),
        ("training took", times.seconds.map(duration)),
        ("threads", Some(threads.to_string())),
        ("device", version("device")),
        ("memory limit", memory.map(bytes)),
        ("rtc", version("rtc")),
        ("code", version("code")),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Whether a model of the report is this one.
pub(super) fn same(model: &Model, name: &str, text: &str) -> bool {
    model.text == text && (model.name == name || model.name.starts_with(&format!("{name} (")))
}

/// A name that no other model of the report has: models that differ by edits alone have their hash in it.
pub(super) fn model_name(info: &RunInfo, others: &[Model]) -> String {
    match others.iter().any(|model| model.name == info.model) {
        true => format!("{} ({})", info.model, short(&info.spec_hash)),
        false => info.model.clone(),
    }
}
