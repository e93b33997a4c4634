//! Specs by their names: `file.rt` or `file.rt:variant`, or the name of one that is part of the program, as `gut`
//! or `gut:no_gate`, or a graph in the place of a spec, `file.rtir`; read and checked.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;
use std::sync::LazyLock;

use rtc_compiler::check::{Loader, NOT_FOUND, Override, check_edited, check_form, names, resolve_name};
use rtc_compiler::diag::Problems;
use rtc_compiler::ir::formula;
use rtc_compiler::schema::Catalog;
use rtc_compiler::source::{Source, Sources};
use rtc_compiler::spec::Spec;
use rtc_runs::saved::ModelDefinition;
use rtc_task::error::hint;

use crate::failure::SessionFailure;
use crate::limits;

/// The specs that are part of the program: their files' names, and their texts.
const BUILT_IN: &[(&str, &str)] = &[
    ("act.rt", include_str!("../../specs/act.rt")),
    ("bbt_grc.rt", include_str!("../../specs/bbt_grc.rt")),
    ("bt_grc.rt", include_str!("../../specs/bt_grc.rt")),
    ("cotformer.rt", include_str!("../../specs/cotformer.rt")),
    ("crvnn.rt", include_str!("../../specs/crvnn.rt")),
    ("doubling.rt", include_str!("../../specs/doubling.rt")),
    ("ebt_grc.rt", include_str!("../../specs/ebt_grc.rt")),
    ("fox.rt", include_str!("../../specs/fox.rt")),
    ("grid.rt", include_str!("../../specs/grid.rt")),
    ("gut.rt", include_str!("../../specs/gut.rt")),
    ("gutlb.rt", include_str!("../../specs/gutlb.rt")),
    ("hrm.rt", include_str!("../../specs/hrm.rt")),
    ("huginn.rt", include_str!("../../specs/huginn.rt")),
    ("hyperloop.rt", include_str!("../../specs/hyperloop.rt")),
    ("loop_index.rt", include_str!("../../specs/loop_index.rt")),
    ("looped.rt", include_str!("../../specs/looped.rt")),
    ("mega.rt", include_str!("../../specs/mega.rt")),
    ("moba.rt", include_str!("../../specs/moba.rt")),
    ("moeut.rt", include_str!("../../specs/moeut.rt")),
    ("mor.rt", include_str!("../../specs/mor.rt")),
    ("ordered_memory.rt", include_str!("../../specs/ordered_memory.rt")),
    ("ouro.rt", include_str!("../../specs/ouro.rt")),
    ("packed.rt", include_str!("../../specs/packed.rt")),
    ("parcae.rt", include_str!("../../specs/parcae.rt")),
    ("pondernet.rt", include_str!("../../specs/pondernet.rt")),
    ("regular_gpt.rt", include_str!("../../specs/regular_gpt.rt")),
    ("regular_gpt_language.rt", include_str!("../../specs/regular_gpt_language.rt")),
    ("regular_gpt_tree.rt", include_str!("../../specs/regular_gpt_tree.rt")),
    ("relaxed_recursive.rt", include_str!("../../specs/relaxed_recursive.rt")),
    ("rir_crvnn.rt", include_str!("../../specs/rir_crvnn.rt")),
    ("rir_ebt_grc.rt", include_str!("../../specs/rir_ebt_grc.rt")),
    ("rir_grc.rt", include_str!("../../specs/rir_grc.rt")),
    ("rir_om.rt", include_str!("../../specs/rir_om.rt")),
    ("rnn_grc.rt", include_str!("../../specs/rnn_grc.rt")),
    ("s4d.rt", include_str!("../../specs/s4d.rt")),
    ("ssmax.rt", include_str!("../../specs/ssmax.rt")),
    ("streaming.rt", include_str!("../../specs/streaming.rt")),
    ("tlb.rt", include_str!("../../specs/tlb.rt")),
    ("transformer.rt", include_str!("../../specs/transformer.rt")),
    ("transformer_xl.rt", include_str!("../../specs/transformer_xl.rt")),
    ("trm.rt", include_str!("../../specs/trm.rt")),
    ("urm.rt", include_str!("../../specs/urm.rt")),
    ("ut.rt", include_str!("../../specs/ut.rt")),
    ("ut_no_halt.rt", include_str!("../../specs/ut_no_halt.rt")),
];

/// The names of these files, of their further models, and of their variants of models of other files, each with its file.
static MODELS: LazyLock<Vec<(String, &str)>> = LazyLock::new(|| {
    let of = |(file, text): &(&'static str, &'static str)| {
        let stem = file.strip_suffix(".rt").unwrap_or(file).to_owned();
        let models = names(&Source::new(*file, *text));
        let varies =
            |name: &str| name.split_once(':').is_some_and(|(model, _)| models.iter().any(|other| other == model));
        let further: Vec<String> = models.iter().filter(|name| **name != stem && !varies(name)).cloned().collect();
        std::iter::once(stem).chain(further).map(|name| (name, *file)).collect::<Vec<_>>()
    };
    BUILT_IN.iter().flat_map(of).collect()
});

/// The ending of files with graphs.
const GRAPH: &str = ".rtir";

/// A spec as the user named it, or a graph in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecArg {
    /// The file.
    pub file: PathBuf,
    /// The model or variant in it; the file's own model without one.
    pub target: Option<String>,
    /// Whether the file is part of the program.
    built_in: bool,
}

impl SpecArg {
    /// Splits at the first colon behind which the path of a file ends, so that paths may hold colons too.
    pub fn parse(text: &str) -> Self {
        let disk = |file: &str, target: Option<&str>| Self {
            file: PathBuf::from(file),
            target: target.map(str::to_owned),
            built_in: false,
        };
        if Path::new(text).exists() {
            return disk(text, None);
        }
        let cuts = || text.match_indices(':').map(|(at, _)| (&text[..at], &text[at + 1..]));
        let found = cuts().find(|(file, _)| Path::new(file).is_file());
        match found.or_else(|| cuts().find(|(file, _)| file.ends_with(".rt") || file.ends_with(GRAPH))) {
            Some((file, target)) => disk(file, Some(target)),
            None => Self::built_in(text).unwrap_or_else(|| disk(text, None)),
        }
    }

    /// The spec of the program that has this name: `gut`, or `gut:no_gate`; another model of one of its files, as
    /// `doubling_layers`; or a variant in a file of its own, as `ut:no_halt`.
    pub(crate) fn built_in(text: &str) -> Option<Self> {
        let (name, target) = text.split_once(':').map_or((text, None), |(name, target)| (name, Some(target)));
        let of = |name: &str| MODELS.iter().find(|(model, _)| model == name);
        let (_, file) = of(text).or_else(|| of(name))?;
        // The file's own model needs no name.
        let target = if file.strip_suffix(".rt") == Some(name) { target } else { Some(text) };
        Some(Self { file: PathBuf::from(file), target: target.map(str::to_owned), built_in: true })
    }

    /// The names of the models that are part of the program, without their variants.
    pub fn built_in_names() -> Vec<&'static str> {
        MODELS.iter().map(|(name, _)| name.as_str()).filter(|name| !name.contains(':')).collect()
    }

    /// The names of all models and variants of the specs that are part of the program.
    pub(crate) fn built_in_models() -> Vec<String> {
        BUILT_IN.iter().flat_map(|(file, text)| names(&Source::new(*file, *text))).collect()
    }

    /// Whether it is a graph.
    pub fn is_graph(&self) -> bool {
        !self.built_in && self.name().ends_with(GRAPH)
    }

    /// The name of the file as reports show it.
    pub fn name(&self) -> String {
        self.file.display().to_string()
    }

    /// The text of the file.
    pub fn source(&self) -> Result<Source, SessionFailure> {
        // What looks like the name of a spec of the program was probably meant to be one.
        let name = self.name();
        if !self.built_in {
            refuse_experiment(&name)?;
        }
        if !self.built_in && !name.contains(['/', '\\', '.']) && !self.file.exists() {
            let name = name.split(':').next().unwrap_or_default();
            return Err(SessionFailure::Usage(rtc_task::error::unknown("spec", name, Self::built_in_names())));
        }
        let text = if self.built_in { None } else { Some(read_spec(&self.file)?) };
        let text = text.or_else(|| built_in_text(&self.name()).map(str::to_owned));
        Ok(Source::new(self.name(), text.unwrap_or_default()))
    }

    /// The files that the spec may use: those in its folder.
    pub fn loader(&self) -> SpecFolder {
        if self.built_in { SpecFolder::Program } else { SpecFolder::of(&self.file) }
    }

    /// The name of the model or variant, which is known before the spec is edited and checked.
    pub fn model_name(&self) -> Result<String, SessionFailure> {
        if self.is_graph() {
            return Ok(self.graph()?.name().to_owned());
        }
        let (name, problems, sources) = resolve_name(&self.loader(), self.source()?, self.target.as_deref());
        name.ok_or_else(|| SessionFailure::Spec(Box::new((problems, sources))))
    }

    /// The names of all models and variants of the file; none of one that can't be read.
    pub fn models(&self) -> Vec<String> {
        match self.is_graph() {
            true => self.model_name().into_iter().collect(),
            false => self.source().iter().flat_map(names).collect(),
        }
    }

    /// The graph.
    fn graph(&self) -> Result<ModelDefinition, SessionFailure> {
        let file = self.name();
        match &self.target {
            Some(target) => Err(SessionFailure::Usage(format!("{file} is a graph, which has no variant `{target}`"))),
            None => Ok(ModelDefinition::graph(&read_spec(&self.file)?, &file)?),
        }
    }

    /// Checks the spec under edits, each as `PATH=VALUE`.
    ///
    /// # Errors
    /// [`SessionFailure::Spec`] with the problems where there are errors; warnings are in the result.
    pub fn check(&self, sets: &[String], catalog: &Catalog) -> Result<CheckedDefinition, SessionFailure> {
        self.check_edited(&Override::numbered(sets), catalog)
    }

    /// As [`check`](Self::check), with edits that know where they stand.
    pub fn check_edited(&self, edits: &[Override], catalog: &Catalog) -> Result<CheckedDefinition, SessionFailure> {
        if self.is_graph() {
            let graph = self.checked_graph(edits.is_empty())?;
            graph.definition.forward(catalog)?;
            return Ok(graph);
        }
        CheckedDefinition::of(check_edited(&self.loader(), self.source()?, self.target.as_deref(), edits, catalog))
    }

    /// As [`check`](Self::check), without the proof that a model which promises to see only the past does.
    pub fn check_form(&self, sets: &[String], catalog: &Catalog) -> Result<CheckedDefinition, SessionFailure> {
        if self.is_graph() {
            return self.checked_graph(sets.is_empty());
        }
        CheckedDefinition::of(check_form(&self.loader(), self.source()?, self.target.as_deref(), sets, catalog))
    }

    /// The graph, which can't be edited: the settings that a path names are those of a spec.
    fn checked_graph(&self, is_unedited: bool) -> Result<CheckedDefinition, SessionFailure> {
        let definition = self.graph()?;
        if !is_unedited {
            return Err(SessionFailure::Usage(format!(
                "{} is a graph, and a graph has no settings that `--set`, or `set` of an experiment, could edit: edit the \
                 spec that it was made from",
                self.name()
            )));
        }
        Ok(CheckedDefinition { definition, problems: Problems::default(), sources: Sources::default() })
    }
}

/// The text of a file that is part of the program.
fn built_in_text(file: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|(name, _)| *name == file).map(|(_, text)| *text)
}

/// A spec or a graph without errors.
#[derive(Debug)]
pub struct CheckedDefinition {
    /// The definition.
    pub definition: ModelDefinition,
    /// Its warnings.
    pub problems: Problems,
    /// The texts that it was made of.
    pub sources: Sources,
}

impl CheckedDefinition {
    pub(crate) fn of((spec, problems, sources): (Option<Spec>, Problems, Sources)) -> Result<Self, SessionFailure> {
        match spec {
            Some(spec) => Ok(Self { definition: ModelDefinition::Spec(spec), problems, sources }),
            None => Err(SessionFailure::Spec(Box::new((problems, sources)))),
        }
    }
}

fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    File::open(path)?.take(limits::FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limits::FILE {
        Err(io::Error::other(format!("more than {}", formula::bytes(limits::FILE))))
    } else {
        Ok(bytes)
    }
}

/// The text of a file, without the byte order mark that some editors put before it.
fn text_of(bytes: Vec<u8>) -> Result<String, FromUtf8Error> {
    let text = String::from_utf8(bytes)?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// Refuses a file in the place of a spec whose name is that of an experiment.
pub fn refuse_experiment(name: &str) -> Result<(), SessionFailure> {
    if ![".yaml", ".yml"].iter().any(|ending| name.ends_with(ending)) {
        return Ok(());
    }
    Err(SessionFailure::Usage(format!(
        "{name} is an experiment, and a spec is wanted here: `--experiment {name}` names it, as in `rtc train gut --experiment {name}`"
    )))
}

/// Reads a spec.
pub fn read_spec(path: &Path) -> Result<String, SessionFailure> {
    read_text(path, "spec", |line, why| SessionFailure::NoSpec(format!("{}:{line}: {why}", path.display())))
}

/// Reads a text file. `what` it should be is named where the file is something else; the failure of a line that is no text is
/// made by `refuse`.
pub fn read_text(
    path: &Path,
    what: &str,
    refuse: impl FnOnce(usize, String) -> SessionFailure,
) -> Result<String, SessionFailure> {
    let bytes = read_bytes(path).map_err(|error| match error.kind() {
        ErrorKind::IsADirectory => SessionFailure::io("read", path, io::Error::other(format!("a folder is no {what}"))),
        ErrorKind::NotFound => {
            let why = format!("there is no such {what}{}", near(path));
            SessionFailure::io("read", path, io::Error::new(ErrorKind::NotFound, why))
        }
        _ => SessionFailure::io("read", path, error),
    })?;
    text_of(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
        refuse(line, format!("this {what} is not UTF-8 text"))
    })
}

/// The end of the sentence about a file that is not there: the nearest name in its folder with the same ending.
fn near(path: &Path) -> String {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(wanted) = path.file_name().and_then(OsStr::to_str) else { return String::new() };
    let files =
        fs::read_dir(folder).into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let names: Vec<String> = files.filter(|name| Path::new(name).extension() == path.extension()).collect();
    hint(wanted, &names.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Gives the texts of the files that a spec may use.
#[derive(Debug)]
pub enum SpecFolder {
    /// Those in one folder and below it.
    Disk(PathBuf),
    /// Those that are part of the program.
    Program,
}

impl SpecFolder {
    /// The folder in which a file lies.
    pub fn of(file: &Path) -> Self {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        Self::Disk(folder.unwrap_or(Path::new(".")).to_owned())
    }
}

impl Loader for SpecFolder {
    fn load(&self, path: &str) -> Result<String, String> {
        let reason = |error: io::Error| match error.kind() {
            ErrorKind::NotFound => NOT_FOUND.to_owned(),
            ErrorKind::IsADirectory => "a folder".to_owned(),
            _ => error.to_string(),
        };
        let folder = match self {
            Self::Disk(folder) => folder,
            Self::Program => return built_in_text(path).map(str::to_owned).ok_or_else(|| NOT_FOUND.to_owned()),
        };
        let root = folder.canonicalize().map_err(reason)?;
        let file = root.join(path).canonicalize().map_err(reason)?;
        if !file.starts_with(&root) {
            return Err("a link out of the folder of the spec".to_owned());
        }
        // A pipe or a device could keep the compiler waiting.
        if !file.is_file() {
            return Err(if file.is_dir() { "a folder" } else { "no plain file" }.to_owned());
        }
        text_of(read_bytes(&file).map_err(reason)?).map_err(|_| "not UTF-8 text".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_stands_behind_the_file() {
        let of = |file: &str, target: Option<&str>, built_in| SpecArg {
            file: file.into(),
            target: target.map(str::to_owned),
            built_in,
        };
        let arg = |file, target| of(file, target, false);
        assert_eq!(SpecArg::parse("a b/gut.rt"), arg("a b/gut.rt", None));
        assert_eq!(SpecArg::parse("gut.rt:no_gate"), arg("gut.rt", Some("no_gate")));
        assert_eq!(SpecArg::parse("c:d/gut.rt:gut:no_gate"), arg("c:d/gut.rt", Some("gut:no_gate")));
        assert_eq!(SpecArg::parse("gout"), arg("gout", None));
        assert_eq!(SpecArg::parse("gut"), of("gut.rt", None, true));
        assert_eq!(SpecArg::parse("gut:no_gate"), of("gut.rt", Some("no_gate"), true));
        assert_eq!(SpecArg::parse("mor_experts"), of("mor.rt", Some("mor_experts"), true));
        assert_eq!(SpecArg::parse("mor_experts:none"), of("mor.rt", Some("mor_experts:none"), true));
    }

    #[test]
    fn every_model_of_the_program_is_known_by_its_name() {
        for name in SpecArg::built_in_models() {
            let arg = SpecArg::parse(&name);
            assert_eq!(arg.model_name().expect("its file has it"), name);
        }
    }

    #[test]
    fn every_spec_of_the_repository_is_built_in() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../specs");
        let mut files: Vec<String> = fs::read_dir(folder)
            .expect("the specs lie beside the crate")
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name.ends_with(".rt"))
            .collect();
        files.sort();
        assert_eq!(files, BUILT_IN.iter().map(|(file, _)| *file).collect::<Vec<_>>());
        for (file, _) in BUILT_IN {
            let arg = SpecArg::built_in(file.trim_end_matches(".rt")).expect("it is in the table");
            assert!(arg.check(&[], &Catalog::default()).is_ok(), "{file}");
        }
    }
}
