//! Experiment files.
//!
//! A file is parsed to a YAML value first, and laid over the one that it extends. The block of the model under `models`, and then
//! `key.path=value` edits, are laid over it, and only the result is turned into [`Experiment`], so that every way to set a
//! field is checked alike.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_yaml::{Mapping, Value};

use super::compare::{self, ComparedModel};
use super::halving::Halving;
use super::layers::{ExperimentLayers, ReadFile, merge};
use super::mistakes::Repaired;
use super::place::LinePart;
use super::rules::{check, check_evaluated};
use super::sweep::Sweep;
use super::{EMBEDDED, Experiment, elsewhere, yaml};
use crate::error::ExperimentError;
use rtc_task::error::unknown;
use rtc_task::{TaskContext, TaskSettings};

/// An experiment file: the settings, what is different for some models, and which models are compared.
#[derive(Clone, Debug)]
pub struct ExperimentFile {
    pub(super) layers: ExperimentLayers,
    base: Mapping,
    models: BTreeMap<String, Value>,
    compare: Vec<ComparedModel>,
    baseline: Option<String>,
    halving: Option<Halving>,
    /// The folder from which paths of data start, if that is not the current one.
    folder: Option<PathBuf>,
    /// Whether the program that makes its rows may run.
    permitted: bool,
    /// Whether a run was trained by it: what is refused only since then is no fault of the run.
    recorded: bool,
    /// The tasks that were asked for: equal ones share what is learned from their files.
    tasks: Arc<Mutex<Vec<TaskSettings>>>,
}

impl ExperimentFile {
    /// Parses a file and checks it for every model that it names. `name` is used in messages. It may extend an experiment of the
    /// program.
    pub fn parse(name: &str, text: &str) -> Result<Self, ExperimentError> {
        Self::of(ExperimentLayers::read(name, text, None)?, false)
    }

    /// Parses the complete experiment of a run.
    pub fn recorded(name: &str, text: &str) -> Result<Self, ExperimentError> {
        Self::of(ExperimentLayers::read(name, text, None)?, true)
    }

    /// Parses a file of a folder, which may extend another one there. Paths of data start from the folder.
    pub fn parse_in(folder: &Path, read: ReadFile<'_>, name: &str, text: &str) -> Result<Self, ExperimentError> {
        let layers = ExperimentLayers::read(name, text, Some((folder, read)))?;
        Ok(Self { folder: Some(folder.to_owned()), ..Self::of(layers, false)? })
    }

    fn of(layers: ExperimentLayers, recorded: bool) -> Result<Self, ExperimentError> {
        let mut base = layers.fields();
        // `null` takes back what a file below says.
        let mut take = |key: &str| base.remove(key).filter(|value| !value.is_null());
        let models: BTreeMap<String, Value> = match take("models") {
            None => BTreeMap::new(),
            Some(block) => serde_yaml::from_value(block)
                .map_err(|_| layers.error(&[&["models"]], "`models` holds one block per model"))?,
        };
        let compare = match take("compare") {
            None => vec![],
            Some(list) => compare::read(&layers, &list)?,
        };
        let points = take("grid");
        let (named, halving) = (take("baseline"), take("halving"));
        let compare = match points {
            None => compare,
            Some(block) => sweep(&layers, &block, &base, compare)?,
        };
        let baseline = match named {
            None => None,
            Some(row) => Some(compare::baseline(&row, &compare).map_err(|why| layers.error(&[&["baseline"]], why))?),
        };
        let halving = halving.map(|block| Halving::read(&block)).transpose();
        let halving = halving.map_err(|message| layers.error(&[&["halving"]], format!("`halving`: {message}")))?;
        let (folder, permitted, tasks) = (None, false, Arc::default());
        let file = Self { layers, base, models, compare, baseline, halving, folder, permitted, recorded, tasks };
        file.resolve(None, &[])?;
        let wrong = file.models.keys().filter_map(|model| file.resolve(Some(model), &[]).err());
        if let Some(error) = ExperimentError::all(wrong.collect()) {
            return Err(error);
        }
        // What was asked for while it was checked is not known to lie in a folder.
        Ok(Self { tasks: Arc::default(), ..file })
    }

    /// The experiment, whose program may run or not.
    #[must_use]
    pub fn permitting(self, permitted: bool) -> Self {
        // Tasks that were read before have no permission.
        Self { permitted, tasks: Arc::default(), ..self }
    }

    /// The embedded experiment of this name.
    pub fn embedded(name: &str) -> Result<Self, ExperimentError> {
        let found = EMBEDDED.iter().find(|(known, _)| *known == name);
        let (_, text) = found.ok_or_else(|| ExperimentError {
            file: name.into(),
            line: None,
            message: unknown("experiment", name, EMBEDDED.iter().map(|(name, _)| name)),
            others: vec![],
        })?;
        Self::parse(name, text)
    }

    /// The file's name in messages.
    pub fn name(&self) -> &str {
        &self.layers.own().name
    }

    /// The models that have a block of their own, by name.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.models.keys().map(String::as_str)
    }

    /// What a grid compares, in the order of its table: the entries of `compare`, or of `model`, at every point of `grid`.
    pub fn compare(&self) -> &[ComparedModel] {
        &self.compare
    }

    /// The entry of `compare` that the others are compared with, if the file names one.
    pub fn baseline(&self) -> Option<&str> {
        self.baseline.as_deref()
    }

    /// Whether the worst rows of a grid are stopped, and when.
    pub fn halving(&self) -> Option<&Halving> {
        self.halving.as_ref()
    }

    /// Refuses blocks under `models` that no model of these names can ever take: slips of the pen.
    pub fn check_models(&self, known: &[&str]) -> Result<(), ExperimentError> {
        let plain = |name: &str| name.split(':').next().map(str::to_owned).unwrap_or_default();
        let takes = |block: &str| known.iter().any(|name| *name == block || plain(name) == block);
        let Some(block) = self.models.keys().find(|block| !takes(block)) else { return Ok(()) };
        let message = format!("`models.{block}`: {}", unknown("model", block, known));
        Err(self.error_at(&["models", block], message))
    }

    /// Where the edits of a resolved experiment's `set` stand; nothing for those that don't.
    pub fn written(&self, model: &str, set: &[String]) -> Vec<Option<LinePart>> {
        let own = self.block(model).filter(|(_, block)| block.get("set").is_some());
        let found = match own {
            Some((name, _)) => self.layers.key(&["models", name, "set"]),
            None => self.layers.key(&["set"]),
        };
        found.map_or_else(|| vec![None; set.len()], |(layer, from)| layer.written(from, set))
    }

    /// Where the edits of an entry of `compare` stand.
    pub fn written_in(&self, entry: &ComparedModel) -> Vec<Option<LinePart>> {
        self.layers.named(&entry.file).written(entry.offset, &entry.set)
    }

    /// The error of an entry of `compare`.
    pub fn entry_error(&self, entry: &ComparedModel, message: String) -> ExperimentError {
        self.layers.named(&entry.file).error(Some(entry.line), message)
    }

    /// An error at the key of this path.
    pub fn error_at(&self, path: &[&str], message: String) -> ExperimentError {
        self.layers.error(&[path], message)
    }

    /// The block that a model takes: its own, else, for a variant, that of its model.
    fn block(&self, model: &str) -> Option<(&String, &Value)> {
        let plain = model.split(':').next().unwrap_or(model);
        [model, plain].into_iter().find_map(|name| self.models.get_key_value(name))
    }

    /// The experiment for a model: the file, its block under `models`, then edits of the form `optimiser.clip=1`.
    ///
    /// A variant `gut:no_gate` without a block of its own takes that of `gut`. Where the file alone is right, an error names the
    /// edit after which nothing was right any more.
    pub fn resolve(&self, model: Option<&str>, edits: &[String]) -> Result<Experiment, ExperimentError> {
        self.lay_over(model, edits).map_err(|error| match self.lay_over(model, &[]) {
            Ok(_) => self.wrong_edits(model, edits).unwrap_or(error),
            Err(error) => error,
        })
    }

    /// The edits that are wrong however many of the others are made, where the file without them is right.
    fn wrong_edits(&self, model: Option<&str>, edits: &[String]) -> Option<ExperimentError> {
        let (mut right, mut open) = (vec![], edits.to_vec());
        loop {
            let mut wrong = vec![];
            let before = open.len();
            for edit in std::mem::take(&mut open) {
                let tried = [&right[..], std::slice::from_ref(&edit)].concat();
                match self.lay_over(model, &tried) {
                    Ok(_) => right = tried,
                    Err(error) => {
                        wrong.push(self.fail(elsewhere::of_edit(&edit, &error.message)));
                        open.push(edit);
                    }
                }
            }
            // An edit may be right only where a later one is made.
            if open.len() == before || open.is_empty() {
                return ExperimentError::all(wrong);
            }
        }
    }

    fn lay_over(&self, model: Option<&str>, edits: &[String]) -> Result<Experiment, ExperimentError> {
        let mut fields = self.base.clone();
        let block = model.and_then(|model| self.block(model));
        let mut place = Vec::new();
        if let Some((name, block)) = block {
            place = vec!["models", name.as_str()];
            match block {
                Value::Mapping(block) => merge(&mut fields, block),
                _ => return Err(self.error_at(&place, format!("`models.{name}` must be a block of fields"))),
            }
        }
        for edit in edits {
            let patch = parse_edit(edit).map_err(|message| self.fail(message))?;
            merge(&mut fields, &patch);
        }
        with_program(&mut fields);
        let read = Repaired::read(fields);
        let mistakes = read.mistakes.iter().map(|mistake| (mistake.path.clone(), mistake.message.clone()));
        let mut errors: Vec<ExperimentError> =
            mistakes.map(|(path, message)| self.mistake(&place, &path, message)).collect();
        if let Some(experiment) = &read.experiment {
            let splits = || if self.recorded { None } else { check_evaluated(&experiment.evaluate).err() };
            let broken = check(experiment).into_iter().chain(splits()).filter(|(path, _)| !read.touches(path));
            errors.extend(broken.map(|(path, message)| self.broken(&place, &path, message)));
        }
        let experiment = match (read.experiment, ExperimentError::all(errors)) {
            (Some(experiment), None) => experiment,
            (_, Some(error)) => return Err(error),
            (None, None) => return Err(self.fail("it can't be read".to_owned())),
        };
        let task = self.known(experiment.task.clone());
        Ok(Experiment { task, ..experiment.measuring_its_choice() })
    }

    /// A mistake in what the file says, or the block of a model.
    fn mistake(&self, place: &[&str], path: &[String], message: String) -> ExperimentError {
        let keys: Vec<&str> = path.iter().map(String::as_str).collect();
        let above = keys.split_last().map_or(&[][..], |(_, above)| above);
        let nested: Vec<&str> = place.iter().chain(&keys).copied().collect();
        self.layers.error(&[&nested, &keys, above], message)
    }

    /// A rule that is broken.
    fn broken(&self, place: &[&str], path: &[&str], message: String) -> ExperimentError {
        // A name that stands in a block of names has a line of its own.
        let named = message.split('`').nth(1).filter(|_| matches!(path.last(), Some(&("options" | "sizes" | "data"))));
        let exact: Vec<&str> = path.iter().copied().chain(named).collect();
        let nested: Vec<&str> = place.iter().chain(&exact).copied().collect();
        self.layers.error(&[&nested, &exact, path], message.as_str())
    }

    /// A task with what is known of it.
    fn known(&self, task: TaskSettings) -> TaskSettings {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = tasks.iter().find(|same| **same == task) {
            return same.clone();
        }
        let folders = self.folder.iter().cloned().collect();
        let mut known = TaskContext::new(folders, None);
        known.permitted = self.permitted;
        let task = TaskSettings { known, ..task };
        tasks.push(task.clone());
        task
    }

    /// An error that no line has.
    fn fail(&self, message: String) -> ExperimentError {
        self.layers.own().error(None, message)
    }
}

/// The rows that the block `grid` makes of the entries of `compare`, or of the `model`.
fn sweep(
    layers: &ExperimentLayers,
    block: &Value,
    base: &Mapping,
    mut compare: Vec<ComparedModel>,
) -> Result<Vec<ComparedModel>, ExperimentError> {
    let sweep = Sweep::read(layers, block)?;
    if compare.is_empty() {
        let Some(model) = base.get("model").and_then(Value::as_str) else {
            let message = "`grid` makes rows of the entries of `compare`, or of the `model`: name one";
            return Err(layers.error(&[&["grid"]], message));
        };
        compare.push(ComparedModel::of_model(layers, model));
    }
    sweep.rows(layers, &compare)
}

/// `task: { command: [...] }` is short for a `table` whose `data` the program makes; a text is cut at blanks.
fn with_program(experiment: &mut Mapping) {
    let Some(Value::Mapping(task)) = experiment.get_mut("task") else { return };
    if task.contains_key("data") {
        return;
    }
    if let Some(command) = task.remove("command") {
        let command = match command {
            Value::String(text) => text.split_whitespace().map(Value::from).collect::<Vec<_>>().into(),
            command => command,
        };
        let data = Mapping::from_iter([(Value::from("command"), command)]);
        task.insert("data".into(), Value::Mapping(data));
        if !task.contains_key("name") {
            task.insert("name".into(), "table".into());
        }
    }
}

/// `a.b=value` as nested blocks; the value is YAML.
fn parse_edit(edit: &str) -> Result<Mapping, String> {
    let Some((path, value)) = edit.split_once('=') else {
        return Err("it must have the form key.path=value".to_owned());
    };
    let value = yaml::value(value).map_err(|(_, why)| format!("its value is no YAML: {why}"))?;
    let nest = |value, key: &str| Mapping::from_iter([(Value::from(key.trim()), value)]);
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let inside = rest.into_iter().flat_map(|rest| rest.rsplit('.')).fold(value, |value, key| nest(value, key).into());
    let mut patch = nest(inside, first);
    one_spelling(&mut patch)?;
    Ok(patch)
}

/// The other spelling of a field, which is read, too.
pub(super) const SPELLINGS: (&str, &str) = ("optimizer", "optimiser");

/// Gives the fields of an experiment, and of the blocks of its models, one spelling.
///
/// # Errors
/// A sentence about a field that is there in both.
pub(super) fn one_spelling(fields: &mut Mapping) -> Result<(), String> {
    let (other, own) = SPELLINGS;
    if let Some(value) = fields.remove(other) {
        if fields.contains_key(own) {
            return Err(format!("`{other}` and `{own}` are one field: keep one of them"));
        }
        fields.insert(own.into(), value);
    }
    let models = fields.get_mut("models").and_then(Value::as_mapping_mut);
    let mut blocks =
        models.into_iter().flat_map(|models| models.iter_mut()).filter_map(|(_, block)| block.as_mapping_mut());
    blocks.try_for_each(one_spelling)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Plateau;
    use rtc_exec::learner::{Lookahead, MuonStep, OptimiserKind};

    #[test]
    fn the_embedded_experiments_are_valid_and_models_have_their_own_numbers() {
        for (name, text) in EMBEDDED {
            ExperimentFile::parse(name, text).unwrap_or_else(|error| panic!("{error}"));
        }
        let file = ExperimentFile::embedded("listops").expect("it is embedded");
        let gut = file.resolve(Some("gut:no_gate"), &[]).expect("valid");
        let gutlb = file.resolve(Some("gutlb"), &[]).expect("valid");
        assert_eq!((gut.optimiser.learning_rate, gut.schedule.warmup), (0.05, 1000));
        assert_eq!((gutlb.optimiser.learning_rate, gutlb.schedule.warmup), (0.0125, 8000));
        assert_eq!(gutlb.optimiser.weight_decay, gut.optimiser.weight_decay);
    }

    #[test]
    fn the_resolved_experiment_reads_back() {
        let experiment =
            ExperimentFile::embedded("listops_smoke").expect("embedded").resolve(None, &[]).expect("valid");
        let again = ExperimentFile::parse("again", &experiment.to_yaml()).expect("valid").resolve(None, &[]);
        assert_eq!(again, Ok(experiment));
    }

    #[test]
    fn edits_win_over_the_file_and_are_checked() {
        let file = ExperimentFile::embedded("listops").expect("embedded");
        let edits = ["optimiser.learning_rate=0.002".to_string(), "seeds=[4, 5]".into(), "epochs=3".into()];
        let experiment = file.resolve(Some("tlb"), &edits).expect("valid");
        assert_eq!(
            (experiment.optimiser.learning_rate, experiment.seeds, experiment.epochs),
            (0.002, vec![4, 5], Some(3))
        );
        let wrong = file.resolve(None, &["optimiser.clipp=1".into()]).expect_err("no such field");
        assert!(wrong.message.contains("did you mean `clip`?"), "{wrong}");
    }

    #[test]
    fn groups_and_plateaus_change_the_rates() {
        let file = ExperimentFile::embedded("listops").expect("embedded");
        let of = |edits: &[&str]| {
            let edits: Vec<String> = edits.iter().map(|edit| (*edit).to_owned()).collect();
            file.resolve(Some("gut"), &edits)
        };
        let edits =
            ["optimiser.learning_rate=0.01", "optimiser.kind=ranger", "schedule.kind=plateau", "schedule.warmup=0"];
        let experiment = of(&edits).expect("valid");
        let halved = Plateau { halvings: 2, ..Plateau::default() };
        let rule = experiment.rule(&experiment.schedule(10), 3, halved);
        assert_eq!(
            (rule.kind, rule.learning_rate, rule.groups[0].learning_rate),
            (OptimiserKind::Ranger, 0.0025, Some(0.00025))
        );
        let constant =
            of(&["optimiser.learning_rate=0.0001", "schedule.kind=constant", "schedule.warmup=0"]).expect("valid");
        let rule = constant.rule(&constant.schedule(10), 3, halved);
        assert_eq!((rule.learning_rate, rule.groups[0].learning_rate), (0.0001, Some(0.0001)));
        let wrong = of(&["optimiser.kind=adam"]).expect_err("gut has decay");
        assert!(wrong.message.contains("`adam` has no weight decay"), "{wrong}");
        let wrong = of(&["optimiser.momentum=0.9"]).expect_err("gut has AdamW");
        assert!(wrong.message.contains("`momentum` belongs to `muon`"), "{wrong}");
        let muon = of(&["optimiser.kind=muon", "optimiser.momentum=0.9"]).expect("valid");
        assert_eq!(muon.rule(&muon.schedule(10), 3, halved).momentum, 0.9);
    }

    #[test]
    fn constants_of_optimisers_are_taken_where_they_belong() {
        let file = ExperimentFile::embedded("listops").expect("embedded");
        let of = |edits: &[&str]| {
            let edits: Vec<String> = edits.iter().map(|edit| (*edit).to_owned()).collect();
            file.resolve(Some("gut"), &edits)
        };
        let rule = |edits: &[&str]| {
            let experiment = of(edits).expect("valid");
            experiment.rule(&experiment.schedule(10), 3, Plateau::default())
        };
        let muon = rule(&["optimiser.kind=muon", "optimiser.muon_step=original"]);
        assert_eq!((muon.muon_step, muon.rectify_from), (MuonStep::Original, 5.0));
        let ranger = ["optimiser.kind=ranger", "optimiser.lookahead.every=6", "optimiser.rectify_from=4"];
        let ranger = rule(&ranger);
        assert_eq!((ranger.lookahead, ranger.rectify_from), (Lookahead { every: 6, follow: 0.8 }, 4.0));
        for (edit, why) in [
            ("optimiser.muon_step=original", "`muon_step` belongs to `kind: muon`"),
            ("optimiser.lookahead.every=0", "`lookahead` belongs to `kind: ranger`"),
            ("optimiser.rectify_from=4", "`rectify_from` belongs to `kind: ranger`"),
        ] {
            let wrong = of(&[edit]).expect_err("gut has AdamW");
            assert!(wrong.message.contains(why), "{wrong}");
        }
        // What nobody wrote is not part of what an experiment is.
        let text = of(&[]).expect("valid").to_yaml();
        assert!(!text.contains("lookahead") && !text.contains("muon_step") && !text.contains("rectify_from"), "{text}");
    }

    #[test]
    fn mistakes_are_placed_and_explained() {
        let good = "task:\n  name: listops\n  options:\n    train_length: 30\n  sizes:\n    train: 40\n\noptimiser:\n  \
                    learning_rate: 0.001\n  clip: 1\n\nschedule:\n  kind: constant\n  warmup: 100\n\nbatch:\n  size: 32\n\n\
                    epochs: 2\npatience: 10\nseeds: [1]\nevaluate: [test]\n";
        let cases = [
            (good.replace("warmup:", "wamup:"), "did you mean `warmup`?"),
            (good.replace("name: listops", "name: listop"), "did you mean `listops`?"),
            (good.replace("kind: constant", "kind: cosin"), "did you mean `cosine`?"),
            (good.replace("train_length:", "train_lenght:"), "did you mean `train_length`?"),
            (good.replace("size: 32", "size: 0"), "`size` must be at least 1"),
            (good.replace("size: 32", "size: many"), "expected a whole number, 0 or more"),
            (good.replace("train: 40", "train: 10000001"), "at most 10000000"),
            (good.replace("options:", "data: 5\n  options:"), "takes a folder, a file per split, or `command`"),
            (good.replace("[test]", "test"), "expected a list"),
            (good.replace("[test]", "[dev, test, dev]"), "`evaluate` must name every split once: got `dev` twice"),
        ];
        for (text, expected) in cases {
            let error = ExperimentFile::parse("x.yaml", &text).expect_err(expected);
            assert!(error.message.contains(expected), "{error} should say {expected}");
            let changed = good.lines().zip(text.lines()).position(|(a, b)| a != b).map(|index| index + 1);
            assert_eq!(error.line, changed, "{error}");
        }
        let error = ExperimentFile::parse("x.yaml", &good.replace("clip: 1", "clip: [")).expect_err("no YAML");
        assert!(error.line.is_some());
        // With blocks for models the result is checked instead of the text; places are still found.
        let good = EMBEDDED[0].1;
        let cases = [
            good.replacen("warmup: 1000", "wamup: 1000", 1),
            good.replacen("weight_decay: 0.1", "weight_decay: much", 1),
            good.replace("  gutlb:\n    optimiser: { learning_rate", "  gutlb:\n    optimiser: { learning_rat"),
            good.replace("  tlb:\n    optimiser: { learning_rate: 0", "  tlb:\n    optimiser: { learning_rate: -0"),
            good.replacen("patience: 10", "patients: 10", 1),
            good.replace("args-15", "args-16"),
        ];
        for text in cases {
            let error = ExperimentFile::parse("x.yaml", &text).expect_err("a mistake");
            let changed = good.lines().zip(text.lines()).position(|(a, b)| a != b).map(|index| index + 1);
            assert_eq!(error.line, changed, "{error}");
        }
    }
}
