//! Grids: the models of an experiment's `compare` times its seeds, each cell a run in a folder of its own.

mod board;
mod cells;
mod dry_run;
mod evaluate;
pub(crate) mod launch;
mod one;
mod packing;
mod room;
mod run;
mod share;
mod watching;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rtc_compiler::check::Override;
use rtc_runs::experiment::{ComparedModel, EditSweep, Experiment, Halving};
use rtc_runs::grid::{
    CellState, Decision, GridCell, GridManifest, GridRow, HalvingStop, ListedCell, METRICS, ManifestRow, RowStatus,
    decide, reached, standing,
};
use rtc_runs::record::{RunFolder, SavedRun};
use rtc_session::device::ExecutionTarget;
use rtc_session::experiment_file::{ForModel, OpenedExperiment};
use rtc_session::failure::SessionFailure;
use rtc_session::folders::check_name;
use rtc_session::job::{Data, TrainingJob, program_on};
use rtc_session::model::Compiled;
use rtc_session::saved::{catalog_in, compile, edited, task_of};
use rtc_task::error::unknown;
use rtc_task::{Objective, catalog};
use rtc_train::{Feed, NUMBERS};

use crate::messages::{make_data, of_experiment_edit};
use crate::terminal::Terminal;

pub(crate) use board::Board;
use cells::{Before, Finder, Located, from_grid, look};
pub(crate) use dry_run::dry_run;
pub(crate) use evaluate::EVALUATE_AT;
pub(crate) use one::{CellOutcome, train_one};
pub(crate) use run::{Failed, GridWork, run};
pub(crate) use share::Sharing;
pub(crate) use watching::{Ending, snapshot, watch};

/// A grid: what is trained, and where.
pub(crate) struct Grid {
    /// The folder that holds the folders of the models.
    pub(crate) folder: PathBuf,
    /// The folder of all runs.
    runs: PathBuf,
    /// The name of the experiment.
    experiment: String,
    /// The rows of the table.
    models: Vec<Member>,
    /// The row that the others are compared with.
    pub(crate) baseline: usize,
    /// The runs of the cells, row by row and seed by seed.
    cells: Vec<Vec<Located>>,
    /// Whether the worst rows are stopped, and when.
    halving: Option<Halving>,
    /// What trains its cells, and on which device, as their results say it.
    pub(crate) program: String,
}

/// The cells that are trained next.
pub(crate) struct Round {
    /// The update at which rows are compared after it; the cells are trained to their end without one.
    pub(crate) until: Option<u64>,
    /// The cells.
    pub(crate) places: Vec<CellIndex>,
    /// Which rows were stopped.
    pub(crate) stopped: Vec<Option<HalvingStop>>,
}

/// One model of a grid.
pub(crate) struct Member {
    /// What the table calls it.
    name: String,
    /// The name of the folder for its runs.
    folder: String,
    /// The model.
    compiled: Arc<Compiled>,
    /// The experiment for it, with all seeds.
    experiment: Experiment,
    /// The edits under which it is measured again when it is trained.
    sweeps: Vec<EditSweep>,
}

/// Which cell of a grid: its model and its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CellIndex {
    /// Index of the model.
    pub(crate) model: usize,
    /// Index of the seed.
    pub(crate) seed: usize,
}

impl Grid {
    /// Checks and compiles every model of the experiment, and finds their runs. The mistakes of all models are printed before it
    /// gives up.
    pub(crate) fn plan(
        opened: &OpenedExperiment,
        (runs, name): (&Path, &str),
        with: &[String],
        sets: &[String],
        place: &ExecutionTarget,
        terminal: &Terminal,
    ) -> Result<Self, SessionFailure> {
        if opened.file.compare().is_empty() {
            let name = opened.file.name();
            let message = format!("the experiment `{name}` has no `compare`, the list of models that a grid compares");
            return Err(SessionFailure::Usage(message));
        }
        opened.check_models(None)?;
        let (mut models, mut wrong) = (vec![], None);
        for entry in opened.file.compare() {
            check_row(opened, entry)?;
            match member(opened, entry, with, sets, terminal) {
                Ok(model) => models.push(model),
                Err(failure @ (SessionFailure::Spec(_) | SessionFailure::NoSpec(_))) => {
                    if let Some(earlier) = wrong.replace(failure) {
                        terminal.report(&earlier);
                    }
                    terminal.alert(&format!("{}:{}: in `{}`:", entry.file, entry.line, entry.name));
                }
                Err(failure) => return Err(failure),
            }
        }
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        let halving = opened.file.halving().cloned();
        let named = |name: &str| models.iter().position(|member: &Member| member.name == name);
        let baseline = opened.file.baseline().and_then(named).unwrap_or(0);
        let folder = runs.join(name);
        let mut grid = Self {
            folder,
            runs: runs.to_owned(),
            experiment: opened.name.clone(),
            models,
            baseline,
            cells: vec![],
            halving,
            program: program_on(place),
        };
        if let Some(member) = grid.models.iter().find(|member| member.experiment.evaluate.is_empty()) {
            return Err(SessionFailure::Usage(format!(
                "`evaluate` of `{}` is `[]`, and the rows of a table are measured: name a split, as `evaluate=[test]`",
                member.name
            )));
        }
        grid.locate(&[])?;
        grid.check_halving()?;
        Ok(grid)
    }

    /// Stops the worst rows at other updates than the experiment says, or none.
    pub(crate) fn halve(&mut self, halving: Option<Halving>) -> Result<(), SessionFailure> {
        self.halving = halving;
        self.check_halving()
    }

    /// Refuses to compare rows where dev is not measured, or not alike.
    fn check_halving(&self) -> Result<(), SessionFailure> {
        let Some(halving) = &self.halving else { return Ok(()) };
        for Member { name, experiment, .. } in &self.models {
            let measured = |update: &u64| experiment.evaluate_every.is_some_and(|every| update.is_multiple_of(every));
            if let Some(update) = halving.at.iter().find(|update| !measured(update)) {
                return Err(SessionFailure::Usage(format!(
                    "halving compares rows after update {update}, where dev of `{name}` is not measured: set `evaluate_every` to a \
                     divisor of it"
                )));
            }
        }
        let measure = |member: &Member| (member.experiment.dev.clone(), member.experiment.choose.clone());
        if let Some(other) = self.models.iter().find(|member| measure(member) != measure(&self.models[0])) {
            let names = [&self.models[0].name, &other.name];
            return Err(SessionFailure::Usage(format!(
                "halving compares rows by one measure, and `dev` or `choose` of `{}` and `{}` differ",
                names[0], names[1]
            )));
        }
        Ok(())
    }

    /// Finds the runs of all cells anew: those with the data of their rows, where these are known.
    pub(crate) fn locate(&mut self, data: &[Option<Arc<Data>>]) -> Result<(), SessionFailure> {
        let mut finder = Finder::new(self);
        let mut cells: Vec<Vec<Located>> = vec![];
        for (model, member) in self.models.iter().enumerate() {
            let data = data.get(model).and_then(Option::as_ref);
            let row = (0..member.experiment.seeds.len()).map(|seed| finder.find(CellIndex { model, seed }, data));
            cells.push(row.collect::<Result<_, _>>()?);
        }
        self.cells = cells;
        Ok(())
    }

    /// What was changed since the cells were trained that a row had before, a sentence for each.
    pub(crate) fn changes(&self) -> Vec<String> {
        let mut found = vec![];
        for (member, row) in self.models.iter().zip(&self.cells) {
            let befores = row.iter().filter_map(|cell| cell.before.as_ref());
            let mut groups: Vec<(&[String], Vec<String>)> = vec![];
            for Before { path, changes } in befores {
                let path = path.display().to_string();
                match groups.iter_mut().find(|(same, _)| *same == changes) {
                    Some((_, paths)) => paths.push(path),
                    None => groups.push((changes, vec![path])),
                }
            }
            let text = |(changes, paths): (&[String], Vec<String>)| {
                format!("{}: {}; the older runs stay in {}", member.name, changes.join(", "), paths.join(", "))
            };
            found.extend(groups.into_iter().map(text));
        }
        found
    }

    /// Refuses names that are no measure of any of the tasks.
    pub(crate) fn check_metrics(&self, asked: &[String]) -> Result<(), SessionFailure> {
        let mut known: Vec<String> = METRICS.map(str::to_owned).to_vec();
        for member in &self.models {
            let (task, _) = task_of(&member.experiment)?;
            known.extend(task.about().metrics.iter().map(|metric| metric.name.to_owned()));
            known.extend(task.perplexity().then(|| "perplexity".to_owned()));
            known.extend(member.experiment.metrics.iter().map(ToString::to_string));
            let numbers = (task.objective() == Objective::Number).then_some(NUMBERS).into_iter().flatten();
            known.extend(numbers.map(str::to_owned));
        }
        let mut seen = BTreeSet::new();
        known.retain(|name| seen.insert(name.clone()));
        match asked.iter().find(|name| !known.contains(name)) {
            Some(name) => Err(SessionFailure::Usage(unknown("metric", name, &known))),
            None => Ok(()),
        }
    }

    /// All cells in the order in which they are trained: the first seed of every model, then the second, ...
    pub(crate) fn places(&self) -> Vec<CellIndex> {
        let most = self.models.iter().map(|model| model.experiment.seeds.len()).max().unwrap_or(0);
        let all = (0..most).flat_map(|seed| (0..self.models.len()).map(move |model| CellIndex { model, seed }));
        all.filter(|place| place.seed < self.experiment(*place).seeds.len()).collect()
    }

    /// The seed of a cell.
    pub(crate) fn seed(&self, place: CellIndex) -> u64 {
        self.experiment(place).seeds[place.seed]
    }

    /// The experiment of a cell, with the seeds of all.
    fn experiment(&self, place: CellIndex) -> &Experiment {
        &self.models[place.model].experiment
    }

    /// The run of a cell.
    fn cell(&self, place: CellIndex) -> &Located {
        &self.cells[place.model][place.seed]
    }

    /// The folder of a cell's run.
    pub(crate) fn path(&self, place: CellIndex) -> &Path {
        &self.cell(place).path
    }

    /// The name of a cell for programs, and for its claims: digits of the hash of what it is.
    pub(crate) fn key(&self, place: CellIndex) -> &str {
        &self.cell(place).key
    }

    /// How many cells have their run in another grid, or in none.
    pub(crate) fn elsewhere(&self) -> usize {
        self.cells.iter().flatten().filter(|cell| !cell.path.starts_with(&self.folder)).count()
    }

    /// The cells whose data are read from files, which may be other files than they were.
    pub(crate) fn read_from_files(&self) -> Vec<CellIndex> {
        let reads = |place: &CellIndex| self.experiment(*place).task.data.is_some();
        self.places().into_iter().filter(reads).collect()
    }

    /// Those of some cells that have a run of their own: of cells that are alike the first.
    pub(crate) fn distinct(&self, places: &[CellIndex]) -> Vec<CellIndex> {
        let mut seen = BTreeSet::new();
        places.iter().copied().filter(|place| seen.insert(self.path(*place))).collect()
    }

    /// The rows and their cells, as the folder of the grid says them.
    pub(crate) fn manifest(&self) -> GridManifest {
        let cell =
            |place| ListedCell { seed: self.seed(place), run: from_grid(&self.runs, &self.folder, self.path(place)) };
        let row = |(model, member): (usize, &Member)| ManifestRow {
            name: member.name.clone(),
            model: member.compiled.name().to_owned(),
            spec_hash: member.compiled.spec_hash(),
            cells: (0..member.experiment.seeds.len()).map(|seed| cell(CellIndex { model, seed })).collect(),
        };
        let rows = GridManifest::new(self.models.iter().enumerate().map(row).collect());
        rows.with_baseline(&self.models[self.baseline].name)
    }

    /// Compares with the row of this name instead of that of the experiment.
    pub(crate) fn compare_with(&mut self, name: &str) -> Result<(), SessionFailure> {
        let known: Vec<&str> = self.models.iter().map(|member| member.name.as_str()).collect();
        let found = known.iter().position(|known| *known == name);
        self.baseline = found.ok_or_else(|| SessionFailure::Usage(unknown("row", name, &known)))?;
        Ok(())
    }

    /// How messages call a cell.
    pub(crate) fn label(&self, place: CellIndex) -> String {
        format!("{} seed {}", self.models[place.model].name, self.seed(place))
    }

    /// The run of a cell. Its experiment has its own seed alone, so that a grid can be given more of them.
    pub(crate) fn job(&self, place: CellIndex, memory: Option<u64>) -> TrainingJob {
        self.job_with(&self.models[place.model].compiled, place, memory)
    }

    /// The run of a cell as its folder has it: a run that was begun resumes under the names that its model had then.
    pub(crate) fn job_in_folder(&self, place: CellIndex, memory: Option<u64>) -> Result<TrainingJob, SessionFailure> {
        let (job, path) = (self.job(place, memory), self.path(place));
        if !RunFolder::exists(path) {
            return Ok(job);
        }
        let saved = SavedRun::read(path)?;
        if !saved.info.is_renamed(&job.info) {
            return Ok(job);
        }
        let compiled = compile(path, &saved, &catalog_in(&saved.experiment)?)?;
        Ok(self.job_with(&Arc::new(compiled), place, memory))
    }

    fn job_with(&self, compiled: &Arc<Compiled>, place: CellIndex, memory: Option<u64>) -> TrainingJob {
        let experiment = &self.models[place.model].experiment;
        let seed = self.seed(place);
        let experiment = Experiment { seeds: vec![seed], ..experiment.clone() };
        let mut job = TrainingJob::new(Arc::clone(compiled), (&self.experiment, experiment), seed, memory);
        job.info.threads = 1;
        job
    }

    /// Looks at the runs of all cells. All cells of a row that was stopped are, also those that another grid has finished: a mean
    /// over some seeds is none over all.
    pub(crate) fn rows(&self) -> Result<Vec<GridRow>, SessionFailure> {
        let mut rows = self.plain_rows();
        let Decision { stopped, .. } = self.decision(&rows)?;
        for (row, stop) in rows.iter_mut().zip(stopped) {
            let is_whole = row.finished().count() == row.cells.len();
            if let Some(stop) = stop.filter(|_| !is_whole) {
                row.cells.iter_mut().for_each(|cell| cell.state = CellState::Stopped(stop));
            }
        }
        Ok(rows)
    }

    /// The same, whatever was stopped.
    fn plain_rows(&self) -> Vec<GridRow> {
        let cell = |place: CellIndex| {
            let state =
                look(self.path(place), &self.job(place, None)).unwrap_or_else(|| self.cell(place).state.clone());
            GridCell { seed: self.seed(place), path: self.path(place).to_owned(), state }
        };
        let row = |(model, member): (usize, &Member)| GridRow {
            name: member.name.clone(),
            parameters: member.compiled.parameter_count(),
            data: asked(&member.experiment),
            cells: (0..member.experiment.seeds.len()).map(|seed| cell(CellIndex { model, seed })).collect(),
        };
        self.models.iter().enumerate().map(row).collect()
    }

    /// Which rows are stopped, by what all of them have recorded.
    fn decision(&self, rows: &[GridRow]) -> Result<Decision, SessionFailure> {
        let Some(halving) = &self.halving else {
            return Ok(Decision { stopped: vec![None; rows.len()], until: None });
        };
        let mut known: BTreeMap<(usize, u64), RowStatus> = BTreeMap::new();
        for (index, row) in rows.iter().enumerate() {
            for update in &halving.at {
                let found = standing(&row.cells, &self.models[index].experiment, *update)?;
                known.insert((index, *update), found);
            }
        }
        Ok(decide(halving, rows.len(), |row, update| known[&(row, update)]))
    }

    /// What is to be trained next.
    pub(crate) fn round(&self) -> Result<Round, SessionFailure> {
        let rows = self.plain_rows();
        let Decision { stopped, until } = self.decision(&rows)?;
        let mut places = vec![];
        for place in self.places().into_iter().filter(|place| stopped[place.model].is_none()) {
            let cell = &rows[place.model].cells[place.seed];
            let waits = match until {
                Some(update) => reached(cell, self.experiment(place), update)?,
                None => false,
            };
            if !waits && !matches!(cell.state, CellState::Finished(_)) {
                places.push(place);
            }
        }
        Ok(Round { until, places: self.distinct(&places), stopped })
    }

    /// The updates that some cells have, if none stops early.
    pub(crate) fn updates(
        &self,
        places: &[CellIndex],
        data: &[Option<Arc<Data>>],
    ) -> Result<Vec<(CellIndex, u64)>, SessionFailure> {
        let of = |place: &CellIndex| {
            let (experiment, seed) = (self.experiment(*place), self.seed(*place));
            let data = data[place.model].as_ref().expect("the data of every model with a cell to train was made");
            let feed = Feed::new(experiment, &data.set, seed).map_err(SessionFailure::Usage)?;
            Ok((*place, experiment.updates(feed.batches())))
        };
        places.iter().map(of).collect()
    }

    /// The data of some cells: made once for all models whose experiments ask for the same.
    pub(crate) fn data(
        &self,
        places: &[CellIndex],
        terminal: &Terminal,
    ) -> Result<Vec<Option<Arc<Data>>>, SessionFailure> {
        let mut found: Vec<Option<Arc<Data>>> = vec![None; self.models.len()];
        for (index, member) in self.models.iter().enumerate() {
            if !places.iter().any(|place| place.model == index) {
                continue;
            }
            let wanted = asked(&member.experiment);
            let same = self.models[..index].iter().position(|other| asked(&other.experiment) == wanted);
            found[index] = match same.and_then(|same| found[same].clone()) {
                Some(data) => Some(data),
                None => Some(Arc::new(make_data(&member.experiment, terminal)?)),
            };
        }
        Ok(found)
    }
}

/// The data that an experiment asks for, in words that are equal for experiments that ask for the same.
pub(crate) fn asked(experiment: &Experiment) -> String {
    format!("{:?} {:?}", experiment.task, experiment.splits())
}

/// Refuses a row whose name has control characters.
fn check_row(opened: &OpenedExperiment, entry: &ComparedModel) -> Result<(), SessionFailure> {
    let refuse = |failure: SessionFailure| opened.file.entry_error(entry, failure.to_string()).into();
    check_name("`compare`: the name of an entry", &entry.name).map_err(refuse)
}

/// One entry of `compare`, checked and compiled.
fn member(
    opened: &OpenedExperiment,
    entry: &ComparedModel,
    with: &[String],
    sets: &[String],
    terminal: &Terminal,
) -> Result<Member, SessionFailure> {
    let arg = opened.spec_of(entry)?;
    let name = arg.model_name()?;
    let ForModel { experiment, edits, note } = opened.resolve_for(&arg, &name, &[&entry.with, with].concat())?;
    note.iter().for_each(|note| terminal.message(note));
    let seeds = &experiment.seeds;
    if let Some(twice) = seeds.iter().enumerate().find(|(n, seed)| seeds[..*n].contains(seed)) {
        return Err(SessionFailure::Usage(format!("`seeds` of the experiment names {} twice", twice.1)));
    }
    // A table needs no files: only a task that can't be opened without one asks for it.
    let absent = |failure| opened.require_files(&experiment).err().unwrap_or(failure);
    let (task, options) = task_of(&experiment).map_err(absent)?;
    let facts = catalog(&*task, &options);
    let edits = [edits, opened.overrides_of(entry), Override::numbered(sets)].concat();
    let checked = arg.check_edited(&edits, &facts).map_err(|failure| of_experiment_edit(failure, sets))?;
    terminal.problems(&checked.problems, &checked.sources);
    let compiled = Arc::new(Compiled::new(checked.definition, &facts)?);
    compiled.takes_from(&experiment)?;
    let sweeps = experiment.evaluate_at.sweeps().map_err(SessionFailure::Usage)?;
    for edit in sweeps.iter().flat_map(|sweep| sweep.values.iter().map(|value| sweep.edit(value))) {
        edited(&compiled, &[Override::alone(EVALUATE_AT, &edit)], &facts).map_err(|failure| match failure {
            SessionFailure::Usage(why) => {
                opened.file.entry_error(entry, format!("`{EVALUATE_AT}`: {edit}: {why}")).into()
            }
            failure => failure,
        })?;
    }
    Ok(Member { name: entry.name.clone(), folder: entry.folder(), compiled, experiment, sweeps })
}
