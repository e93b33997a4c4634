//! Grids: the models of an experiment's `compare` times its seeds, each cell a run in a folder of its own.

mod dry_run;
mod room;
mod run;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rtc_compiler::check::Override;
use rtc_runtime::error::{Error, unknown};
use rtc_runtime::experiment::{Entry, Experiment};
use rtc_runtime::grid::{Cell, Listed, ListedCell, METRICS, Manifest, Row, State};

use crate::experiment_file::Opened;
use crate::failure::Failure;
use crate::job::{Data, Job, make_data};
use crate::model::{Compiled, TaskFacts};
use crate::saved::task_of;
use crate::terminal::Terminal;

pub(crate) use dry_run::dry_run;
pub(crate) use run::{Ended, Work, run};

/// A grid: what is trained, and where.
pub(crate) struct Grid {
    /// The folder that holds the folders of the models.
    pub(crate) folder: PathBuf,
    /// The rows of the table.
    models: Vec<Member>,
}

/// One model of a grid.
pub(crate) struct Member {
    /// What the table calls it.
    name: String,
    /// The name of its folder.
    folder: String,
    /// The model.
    compiled: Arc<Compiled>,
    /// The experiment for it, with all seeds.
    experiment: Experiment,
}

/// A place in a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Index of the model.
    pub(crate) model: usize,
    /// Index of the seed.
    pub(crate) seed: usize,
}

impl Grid {
    /// Checks and compiles every model of the experiment. The mistakes of all of them are printed before it gives up.
    pub(crate) fn plan(
        opened: &Opened,
        folder: PathBuf,
        with: &[String],
        sets: &[String],
        terminal: &Terminal,
    ) -> Result<Self, Failure> {
        if opened.file.compare().is_empty() {
            let name = opened.file.name();
            let message = format!("the experiment `{name}` has no `compare`, the list of models that a grid compares");
            return Err(Failure::Usage(message));
        }
        opened.check_models(None)?;
        let (mut models, mut wrong) = (vec![], None);
        for entry in opened.file.compare() {
            match member(opened, entry, with, sets, terminal) {
                Ok(model) => models.push(model),
                Err(failure @ (Failure::Spec(_) | Failure::NoSpec(_))) => {
                    if let Some(earlier) = wrong.replace(failure) {
                        terminal.report(&earlier);
                    }
                    terminal.alert(&format!("{}:{}: in `{}`:", opened.file.name(), entry.line, entry.name));
                }
                Err(failure) => return Err(failure),
            }
        }
        wrong.map_or(Ok(Self { folder, models }), Err)
    }

    /// Refuses names that are no measure of any of the tasks.
    pub(crate) fn check_metrics(&self, asked: &[String]) -> Result<(), Failure> {
        let mut known = METRICS.to_vec();
        for member in &self.models {
            let (task, _) = task_of(&member.experiment)?;
            known.extend(task.metrics().iter().map(|metric| metric.name));
            known.extend(task.perplexity().then_some("perplexity"));
        }
        let mut seen = BTreeSet::new();
        known.retain(|name| seen.insert(*name));
        match asked.iter().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(Failure::Usage(unknown("metric", name, &known))),
            None => Ok(()),
        }
    }

    /// All cells in the order in which they are trained: the first seed of every model, then the second, ...
    pub(crate) fn places(&self) -> Vec<Place> {
        let most = self.models.iter().map(|model| model.experiment.seeds.len()).max().unwrap_or(0);
        let all = (0..most).flat_map(|seed| (0..self.models.len()).map(move |model| Place { model, seed }));
        all.filter(|place| place.seed < self.experiment(*place).seeds.len()).collect()
    }

    /// The seed of a cell.
    pub(crate) fn seed(&self, place: Place) -> u64 {
        self.experiment(place).seeds[place.seed]
    }

    /// The experiment of a cell, with the seeds of all.
    fn experiment(&self, place: Place) -> &Experiment {
        &self.models[place.model].experiment
    }

    /// The folder of a cell's run.
    pub(crate) fn path(&self, place: Place) -> PathBuf {
        self.folder.join(self.inside(place))
    }

    /// The same from the folder of the grid.
    fn inside(&self, place: Place) -> PathBuf {
        Path::new(&self.models[place.model].folder).join(format!("seed{}", self.seed(place)))
    }

    /// The rows and their cells, as the folder of the grid says them.
    pub(crate) fn manifest(&self) -> Manifest {
        let cell = |place| ListedCell { seed: self.seed(place), run: self.inside(place) };
        let row = |(model, member): (usize, &Member)| Listed {
            name: member.name.clone(),
            model: member.compiled.spec.name.clone(),
            spec_hash: member.compiled.spec_hash(),
            cells: (0..member.experiment.seeds.len()).map(|seed| cell(Place { model, seed })).collect(),
        };
        Manifest::new(self.models.iter().enumerate().map(row).collect())
    }

    /// How messages call a cell.
    pub(crate) fn label(&self, place: Place) -> String {
        format!("{} seed {}", self.models[place.model].name, self.seed(place))
    }

    /// The run of a cell. Its experiment has its own seed alone, so that a grid can be given more of them.
    pub(crate) fn job(&self, place: Place, memory: Option<u64>) -> Job {
        let Member { compiled, experiment, .. } = &self.models[place.model];
        let seed = self.seed(place);
        let mut job =
            Job::new(Arc::clone(compiled), Experiment { seeds: vec![seed], ..experiment.clone() }, seed, memory);
        job.info.threads = 1;
        job
    }

    /// Looks at the folders of all cells. One that holds another run is refused.
    pub(crate) fn rows(&self) -> Result<Vec<Row>, Failure> {
        let cell = |place: Place| {
            let (job, path) = (self.job(place, None), self.path(place));
            let state = State::read(&path, &job.experiment, &job.info).map_err(foreign)?;
            Ok(Cell { seed: self.seed(place), path, state })
        };
        let row = |(model, member): (usize, &Member)| {
            let seeds = 0..member.experiment.seeds.len();
            Ok(Row {
                name: member.name.clone(),
                parameters: member.compiled.parameter_count(),
                cells: seeds.map(|seed| cell(Place { model, seed })).collect::<Result<_, Failure>>()?,
            })
        };
        self.models.iter().enumerate().map(row).collect()
    }

    /// The data of some cells: made once for all models whose experiments ask for the same.
    pub(crate) fn data(&self, places: &[Place], terminal: &Terminal) -> Result<Vec<Option<Arc<Data>>>, Failure> {
        let mut found: Vec<Option<Arc<Data>>> = vec![None; self.models.len()];
        for (index, member) in self.models.iter().enumerate() {
            if !places.iter().any(|place| place.model == index) {
                continue;
            }
            let asks = |experiment: &Experiment| {
                (experiment.task.clone(), experiment.splits().into_iter().map(str::to_owned).collect::<Vec<_>>())
            };
            let wanted = asks(&member.experiment);
            let same = self.models[..index].iter().position(|other| asks(&other.experiment) == wanted);
            found[index] = match same.and_then(|same| found[same].clone()) {
                Some(data) => Some(data),
                None => Some(Arc::new(make_data(&member.experiment, terminal)?)),
            };
        }
        Ok(found)
    }
}

/// Adds what can be done about a folder of another run.
fn foreign(error: Error) -> Failure {
    match error {
        Error::Checkpoint(mut error) => {
            error.reason.push_str("; `--grid NAME` makes a grid in a folder of its own");
            error.into()
        }
        error => error.into(),
    }
}

/// One entry of `compare`, checked and compiled.
fn member(
    opened: &Opened,
    entry: &Entry,
    with: &[String],
    sets: &[String],
    terminal: &Terminal,
) -> Result<Member, Failure> {
    let arg = opened.spec_of(entry)?;
    let name = arg.model_name()?;
    let experiment = opened.file.resolve(Some(&name), &[&entry.with, with].concat())?;
    let seeds = &experiment.seeds;
    if let Some(twice) = seeds.iter().enumerate().find(|(n, seed)| seeds[..*n].contains(seed)) {
        return Err(Failure::Usage(format!("`seeds` of the experiment names {} twice", twice.1)));
    }
    let (task, options) = task_of(&experiment)?;
    let facts = TaskFacts::of(&*task, &options);
    let edits = [opened.overrides(&name, &experiment), opened.overrides_of(entry), Override::numbered(sets)].concat();
    let checked = arg.check_edited(&edits, &facts.catalog())?;
    terminal.problems(&checked.problems, &checked.sources);
    let compiled = Arc::new(Compiled::new(checked.spec, &facts)?);
    Ok(Member { name: entry.name.clone(), folder: entry.folder(), compiled, experiment })
}
