//! Experiments: a YAML file, or the name of one that is part of the program.

use std::fs;
use std::path::{Path, PathBuf};

use rtc_compiler::check::Override;
use rtc_compiler::source::Source;
use rtc_runs::experiment::{ComparedModel, EMBEDDED, Experiment, ExperimentFile, LinePart, outside_brackets};
use rtc_task::TaskSettings;
use serde_json::json;

use crate::failure::SessionFailure;
use crate::folders::check_name;
use crate::spec_file::{SpecArg, read_text};

/// A folder of this name lies inside of the one with the specs.
const EXPERIMENTS: &str = "experiments";

/// An experiment as it is for a model.
pub struct ForModel {
    /// The experiment.
    pub experiment: Experiment,
    /// Its edits of the spec.
    pub edits: Vec<Override>,
    /// What the user should know of it.
    pub note: Option<String>,
}

/// Refuses rows of splits that a program would have to make without being allowed to run.
pub fn check_program(task: &TaskSettings, splits: &[&str]) -> Result<(), SessionFailure> {
    task.refusal(splits).map_or(Ok(()), |message| Err(SessionFailure::Usage(message)))
}

/// What rows of the command line are called in messages.
const ROW: &str = "--row";

/// A row of a comparison on the command line: a spec, its edits, and what the table calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExperimentRow {
    name: Option<String>,
    spec: String,
    edits: Vec<String>,
}

impl ExperimentRow {
    /// Reads `trm`, `trm { remove loop.until }` or `short = trm { loop.steps: 4, loop.y = old }`.
    ///
    /// # Errors
    /// A sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        const FORM: &str =
            "a row is a spec with edits, as `trm`, `trm { remove loop.until }` or `short = trm { loop.steps: 4 }`";
        let (head, edits) = match text.split_once('{') {
            Some((head, rest)) => (head, rest.trim_end().strip_suffix('}').ok_or(FORM)?),
            None => (text, ""),
        };
        let (name, spec) = match head.split_once('=') {
            Some((name, spec)) => (Some(name.trim().to_owned()), spec.trim()),
            None => (None, head.trim()),
        };
        if spec.is_empty() || name.as_deref() == Some("") {
            return Err(FORM.to_owned());
        }
        let mut edits = outside_brackets(edits, &[',', ';', '\n']);
        edits.retain(|edit| !edit.is_empty());
        Ok(Self { name, spec: spec.to_owned(), edits })
    }
}

/// An experiment with the place that it came from.
pub struct OpenedExperiment {
    /// The experiment.
    pub file: ExperimentFile,
    /// Its name without folders and ending.
    pub name: String,
    /// The folders in which its specs are looked for, nearest first; none for one that is part of the program.
    folders: Vec<PathBuf>,
}

impl OpenedExperiment {
    /// The experiment of the program with this name, or else the file.
    pub fn open(text: &str) -> Result<Self, SessionFailure> {
        let path = Path::new(text);
        let is_spec = path.extension().is_some_and(|ending| ending == "rt" || ending == "rtir");
        if is_spec && !path.is_dir() {
            return Err(SessionFailure::Usage(format!(
                "{text} is a spec, and `--experiment` takes a YAML file or the name of an experiment: `rtc train {text} --experiment FILE`"
            )));
        }
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let name = stem.unwrap_or_else(|| "experiment".to_owned());
        check_name("the name of an experiment", &name)?;
        let looks_like_a_file = path.components().count() > 1 || path.extension().is_some() || path.exists();
        if EMBEDDED.iter().any(|(name, _)| *name == text) || !looks_like_a_file {
            return Ok(Self { file: ExperimentFile::embedded(text)?, name, folders: vec![] });
        }
        let yaml = read_text(path, "experiment", |line, why| SessionFailure::Usage(format!("{text}:{line}: {why}")))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let is_among_specs = folder.canonicalize().is_ok_and(|folder| folder.ends_with(EXPERIMENTS));
        let above = is_among_specs.then(|| folder.join(".."));
        let folders = std::iter::once(folder.to_owned()).chain(above).collect();
        Ok(Self { file: parse_in(folder, text, &yaml)?, name, folders })
    }

    /// The experiment with these rows in the place of those of its `compare`: its layer `extends` the experiment, so that edits, names
    /// and mistakes are those of an entry in a file.
    ///
    /// # Errors
    /// As [`Self::open`], or a row is none.
    pub fn open_with_rows(text: &str, rows: &[ExperimentRow]) -> Result<Self, SessionFailure> {
        let Self { name, mut folders, .. } = Self::open(text)?;
        let beside = folders.first().cloned();
        let base = match &beside {
            Some(_) => Path::new(text).file_name().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default(),
            None => text.to_owned(),
        };
        let entry = |row: &ExperimentRow| {
            let mut entry = json!({ "spec": row.spec, "set": row.edits });
            row.name.iter().for_each(|name| entry["name"] = json!(name));
            format!("  - {entry}\n")
        };
        let rows: String = rows.iter().map(entry).collect();
        let yaml = format!("extends: {}\nbaseline: null\ngrid: null\ncompare:\n{rows}", json!(base));
        let folder = beside.unwrap_or_else(|| PathBuf::from("."));
        folders.extend((!folders.iter().any(|folder| folder == Path::new("."))).then(|| PathBuf::from(".")));
        Ok(Self { file: parse_in(&folder, ROW, &yaml)?, name, folders })
    }

    /// The same experiment, whose program may run if `run_commands`.
    pub fn permitting(self, run_commands: bool) -> Self {
        Self { file: self.file.permitting(run_commands), ..self }
    }

    /// The spec of an entry of `compare`: a file beside the experiment, one in the folder above if the experiment lies in
    /// a folder `experiments`, or one of the program.
    pub fn spec_of(&self, entry: &ComparedModel) -> Result<SpecArg, SessionFailure> {
        let unknown = |message| self.file.entry_error(entry, format!("`compare`: {message}")).into();
        self.spec_named(&entry.spec).map_err(unknown)
    }

    /// The spec that the experiment names as its `model`, looked for as those of `compare`, and last from the current folder.
    pub fn spec_of_model(&self, model: &str) -> Result<SpecArg, SessionFailure> {
        let here = SpecArg::parse(model);
        match self.spec_named(model) {
            Ok(spec) => Ok(spec),
            Err(_) if here.file.is_file() => Ok(here),
            Err(message) => Err(self.file.error_at(&["model"], format!("`model`: {message}")).into()),
        }
    }

    /// The spec of this name, with or without its ending, and with a variant or not. The error is a sentence.
    fn spec_named(&self, text: &str) -> Result<SpecArg, String> {
        if text.ends_with(".rtir") {
            let graph = self.folders.iter().map(|folder| folder.join(text)).find(|file| file.is_file());
            return graph.map(|file| SpecArg::parse(&file.display().to_string())).ok_or_else(|| {
                format!(
                    "there is no graph `{text}`{}",
                    if self.folders.is_empty() { "" } else { " beside the experiment" }
                )
            });
        }
        let (name, target) = match text.split_once(".rt") {
            Some((name, target)) => (name, target),
            None => text.split_once(':').map_or((text, ""), |(name, _)| text.split_at(name.len())),
        };
        let file = |folder: &PathBuf| Some(folder.join(format!("{name}.rt"))).filter(|file| file.is_file());
        if let Some(file) = self.folders.iter().find_map(file) {
            return Ok(SpecArg::parse(&format!("{}{target}", file.display())));
        }
        // A further model of a file beside the experiment.
        let further = || {
            let mut files = self.folders.iter().flat_map(|folder| specs_in(folder));
            let file =
                files.find(|file| SpecArg::parse(&file.display().to_string()).models().iter().any(|m| m == name))?;
            Some(SpecArg::parse(&format!("{}:{name}{target}", file.display())))
        };
        SpecArg::built_in(&format!("{name}{target}")).or_else(further).ok_or_else(|| {
            let files = self.folders.iter().flat_map(|folder| specs_in(folder));
            let stems = files.filter_map(|file| Some(file.file_stem()?.to_string_lossy().into_owned()));
            let mut known: Vec<String> =
                SpecArg::built_in_names().into_iter().map(str::to_owned).chain(stems).collect();
            known.sort();
            known.dedup();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            rtc_task::error::unknown("spec", name, &known)
        })
    }

    /// Refuses blocks under `models` for models that exist neither in the specs beside the experiment or of the
    /// program, nor in those of its `compare`, nor in `trained`.
    pub fn check_models(&self, trained: Option<&SpecArg>) -> Result<(), SessionFailure> {
        let mut known = SpecArg::built_in_models();
        let beside = self.folders.iter().flat_map(|folder| specs_in(folder));
        let compared = self.file.compare().iter().filter_map(|entry| self.spec_of(entry).ok());
        let sources = beside.map(|file| SpecArg::parse(&file.display().to_string())).chain(compared);
        for arg in sources.chain(trained.cloned()) {
            known.extend(arg.models());
        }
        known.sort();
        known.dedup();
        Ok(self.file.check_models(&known.iter().map(String::as_str).collect::<Vec<_>>())?)
    }

    /// The experiment for a model with its edits of the spec. A graph has no settings: it is what it is in every experiment, and the
    /// edits that are left out are named.
    pub fn resolve_for(&self, arg: &SpecArg, model: &str, with: &[String]) -> Result<ForModel, SessionFailure> {
        let experiment = self.file.resolve(Some(model), with)?;
        if !arg.is_graph() || experiment.set.is_empty() {
            let edits = self.overrides(model, &experiment);
            return Ok(ForModel { experiment, edits, note: None });
        }
        let left_out = experiment.set.join(", ");
        let note = format!(
            "{} is a graph, which has no settings: the edits of the experiment are left out ({left_out})",
            arg.name()
        );
        Ok(ForModel { experiment: Experiment { set: vec![], ..experiment }, edits: vec![], note: Some(note) })
    }

    /// Refuses a resolved experiment that names a file which is not there.
    ///
    /// # Errors
    /// The first such file, with its line in the experiment.
    pub fn require_files(&self, experiment: &Experiment) -> Result<(), SessionFailure> {
        self.file.absent(experiment).map_or(Ok(()), |error| Err(error.into()))
    }

    /// The edits of a resolved experiment with their places in the file, for reports of mistakes in them.
    fn overrides(&self, model: &str, experiment: &Experiment) -> Vec<Override> {
        self.placed(&experiment.set, self.file.written(model, &experiment.set))
    }

    /// The edits of an entry of `compare`.
    pub fn overrides_of(&self, entry: &ComparedModel) -> Vec<Override> {
        self.placed(&entry.set, self.file.written_in(entry))
    }

    fn placed(&self, set: &[String], places: Vec<Option<LinePart>>) -> Vec<Override> {
        let name = self.file.name();
        let one = |(text, place): (&String, Option<LinePart>)| match place {
            Some(LinePart { file, line, text, range }) => Override::inside(Source::part(file, text, line), range),
            None => Override::alone(format!("{name}: set"), text),
        };
        set.iter().zip(places).map(one).collect()
    }
}

/// An experiment whose files lie in a folder.
fn parse_in(folder: &Path, name: &str, yaml: &str) -> Result<ExperimentFile, SessionFailure> {
    let of_data = if folder == Path::new(".") { Path::new("") } else { folder };
    let read = |path: &Path| {
        let refuse = |line, why| SessionFailure::Usage(format!("{}:{line}: {why}", path.display()));
        read_text(path, "experiment", refuse).map_err(|failure| failure.to_string())
    };
    Ok(ExperimentFile::parse_in(of_data, &read, name, yaml)?)
}

/// The specs in a folder, by name. One that can't be read has none.
fn specs_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "rt"));
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_specs_with_edits_and_names() {
        let row = |text: &str| ExperimentRow::parse(text).map(|row| (row.name, row.spec, row.edits.join("|")));
        let of = |name: Option<&str>, spec: &str, edits: &str| {
            Ok((name.map(str::to_owned), spec.to_owned(), edits.to_owned()))
        };
        assert_eq!(row("trm"), of(None, "trm", ""));
        assert_eq!(row(" trm:no_halt { } "), of(None, "trm:no_halt", ""));
        assert_eq!(
            row("a b = x/y.rt { loop.y = f(a, b) { n: 1, m: 2 }; remove loop.until, halt none }"),
            of(Some("a b"), "x/y.rt", "loop.y = f(a, b) { n: 1, m: 2 }|remove loop.until|halt none")
        );
        for wrong in ["", " { }", "= trm", "a = ", "trm { loop.steps: 4", "trm { } x"] {
            assert!(ExperimentRow::parse(wrong).is_err(), "{wrong}");
        }
    }
}
