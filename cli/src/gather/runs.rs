//! The folders of runs, and what their records say.

use std::path::{Path, PathBuf};

use rtc_compiler::spec::Spec;
use rtc_report::data::{Model, Run, Score};
use rtc_runtime::experiment::Choice;
use rtc_runtime::grid::Manifest;
use rtc_runtime::record::history::{EvaluationLine, History};
use rtc_runtime::record::{RunFolder, RunInfo};
use rtc_runtime::train::Table;

use super::LocatedRun;
use super::rows::Source;
use crate::failure::Failure;
use crate::folders::{self, DEEPEST, folders_in};
use crate::grid::resolved;
use crate::model::short;
use crate::saved::{catalog_in, compile};
use crate::text::number;

/// The runs and grids in a folder: itself, or all that lie below it, in the order of their paths.
pub(super) fn below(folder: &Path) -> Result<Vec<Source>, Failure> {
    let mut found = vec![];
    collect(folder, DEEPEST, &mut found)?;
    if found.is_empty() {
        return Err(Failure::io("open", folder, std::io::Error::other("there is no run in this folder or below it")));
    }
    Ok(found)
}

/// The runs below the folder of a grid that are no cells of its rows.
pub(super) fn unlisted(folder: &Path, manifest: &Manifest) -> Result<usize, Failure> {
    let found = folders::below(folder)?.runs;
    let cells: Vec<PathBuf> =
        manifest.rows.iter().flat_map(|row| &row.cells).map(|cell| resolved(folder, &cell.run)).collect();
    Ok(found.iter().filter(|path| !cells.contains(path)).count())
}

/// Goes down the folders to runs and grids.
fn collect(folder: &Path, deep: usize, found: &mut Vec<Source>) -> Result<(), Failure> {
    if RunFolder::exists(folder) {
        found.push(Source::Run(folder.to_owned()));
        return Ok(());
    }
    if let Some(manifest) = Manifest::read(folder)? {
        found.push(Source::Grid(folder.to_owned(), manifest));
        return Ok(());
    }
    let Some(deep) = deep.checked_sub(1) else { return Ok(()) };
    folders_in(folder)?.iter().try_for_each(|path| collect(path, deep, found))
}

/// The name of a run's folder; below the folder of a grid that of its row stands before it, for every row has a `seed1`.
fn run_name(path: &Path) -> String {
    let row = path.parent().filter(|row| row.parent().is_some_and(|grid| matches!(Manifest::read(grid), Ok(Some(_)))));
    let name =
        row.and_then(Path::parent).map_or_else(|| path.file_name().map(Path::new), |grid| path.strip_prefix(grid).ok());
    name.unwrap_or(path).display().to_string()
}

/// A run as its records say, with its spec as the compiler understands it and as text.
pub(super) fn read(run: &LocatedRun) -> Result<(Run, Option<Spec>, String), Failure> {
    let LocatedRun { path, saved } = run;
    let history = History::read(path)?;
    let compiled = compile(path, saved, &catalog_in(&saved.experiment)?)?;
    let evaluations = dev(&history, &saved.experiment.dev);
    let choose = saved.experiment.choose;
    let best = saved.results.as_ref().and_then(chosen).or_else(|| best(choose, &evaluations));
    let run = Run {
        name: run_name(path),
        model: 0,
        seed: saved.info.seed,
        state: match (&saved.results, history.steps.last()) {
            (Some(_), _) => "finished".to_owned(),
            (None, Some(step)) => format!("unfinished, {} updates logged", number(step.update as f64)),
            (None, None) => "unfinished, nothing logged".to_owned(),
        },
        dev: saved.experiment.dev.clone(),
        parameters: saved.info.parameters,
        facts: facts(run),
        experiment: saved.experiment.to_yaml(),
        steps: history.steps,
        best,
        chosen: best.map_or_else(String::new, |(update, score)| {
            let said = if let Score::Error(_) = score { format!("loss {}", score.text()) } else { score.text() };
            choose.sentence(&saved.experiment.dev, &said, &number(update as f64))
        }),
        evaluations,
        results: saved.results.iter().flat_map(|table| table.rows.clone()).collect(),
        lengths: vec![],
    };
    let text = compiled.definition.text();
    Ok((run, compiled.definition.spec().cloned(), text))
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
fn chosen(table: &Table) -> Option<(u64, Score)> {
    let score = table.dev_accuracy.map(Score::Share).or(table.dev_loss.map(Score::Error))?;
    Some((table.best_update, score))
}

/// The measurement whose checkpoint counts: the last one, or the first of the best.
fn best(choose: Choice, evaluations: &[EvaluationLine]) -> Option<(u64, Score)> {
    let score = |one: &EvaluationLine| Some(choose.score(one.accuracy, one.loss?));
    let better = |best: &EvaluationLine, one: &EvaluationLine| choose == Choice::Last || score(one) > score(best);
    let measured = evaluations.iter().filter(|one| score(one).is_some());
    let best = measured.reduce(|best, one| if better(best, one) { one } else { best })?;
    Some((best.update, best.accuracy.map(Score::Share).or(best.loss.map(Score::Error))?))
}

fn facts(run: &LocatedRun) -> Vec<(String, String)> {
    let RunInfo { model, spec_hash, graph_hash, threads, versions, .. } = &run.saved.info;
    let version = versions.get("rtc").map_or("unknown", String::as_str);
    let facts = [
        ("model", model.clone()),
        ("task", run.saved.experiment.task.name.clone()),
        ("folder", run.path.display().to_string()),
        ("spec", short(spec_hash).to_owned()),
        ("graph", short(graph_hash).to_owned()),
        ("threads", threads.to_string()),
        ("rtc", version.to_owned()),
    ];
    facts.map(|(name, value)| (name.to_owned(), value)).to_vec()
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
