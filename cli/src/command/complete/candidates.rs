//! What can stand at the end of a command line: commands, options and their words from the table of arguments; names, paths
//! and words of the language from specs, experiments and tasks.
//!
//! A line that is not finished is no mistake: where a spec can't be read, there is nothing to say about it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use clap::{Arg, ArgAction, Command, CommandFactory};
use rtc_compiler::diag::{Kind, Problems};
use rtc_compiler::feature;
use rtc_compiler::ir::graph::MAIN;
use rtc_compiler::source::SourceId;
use rtc_compiler::spec::Block;
use rtc_compiler::syntax::{self, ast::ItemKind};
use rtc_lsp::paths::{PathTarget, paths};
use rtc_runs::experiment::EMBEDDED;
use rtc_runs::saved::ModelDefinition;
use rtc_session::experiment_file::OpenedExperiment;
use rtc_session::folders::{self, LAST, RUNS};
use rtc_session::model::catalog_of;
use rtc_session::spec_file::SpecArg;
use rtc_task::{OWN_TASKS, TASKS};

use crate::listing::KNOWN;

/// A word that fits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Completion {
    /// The whole word.
    pub(crate) word: String,
    /// What it means, in a line; may be empty.
    pub(crate) help: String,
}

fn candidate(word: impl Into<String>, help: impl Into<String>) -> Completion {
    let help: String = help.into();
    Completion { word: word.into(), help: help.lines().next().unwrap_or_default().to_owned() }
}

/// The source of an argument's completions, by its name in the table of arguments.
type CandidateSource = fn(&CommandLine, &str) -> Vec<Completion>;

/// Arguments whose values depend on the language, on files or on runs.
const VALUES: &[(&str, CandidateSource)] = &[
    ("spec", |_, word| specs(word)),
    ("specs", |_, word| specs(word)),
    ("a", |_, word| [specs(word), runs(word)].concat()),
    ("b", |_, word| [specs(word), runs(word)].concat()),
    ("run", |_, word| runs(word)),
    ("runs", |_, word| runs(word)),
    ("checkpoint", |_, word| [checkpoints(), files(word, &[])].concat()),
    ("experiment", |_, word| experiments(word)),
    ("task", |_, _| tasks()),
    ("name", |_, word| [tasks(), experiments(word)].concat()),
    ("set", edits),
    ("with", |line, _| settings(line)),
    ("only", |line, _| slots(line)),
    ("code", |line, _| explained(line)),
    ("sort", |_, _| fields()),
    ("columns", |_, _| fields()),
];

/// The words that fit the last one, which may be empty; the first is the program.
pub(crate) fn candidates(words: &[String]) -> Vec<Completion> {
    let Some((word, before)) = words.get(1..).and_then(<[String]>::split_last) else { return vec![] };
    let line = CommandLine::read(before);
    let mut found = line.fitting(word);
    found.retain(|candidate| candidate.word.starts_with(word.as_str()));
    found.sort();
    found.dedup_by(|a, b| a.word == b.word);
    found
}

/// A line as far as it is written.
struct CommandLine {
    command: Command,
    /// The arguments with their values so far.
    values: Vec<(String, String)>,
    /// How many values without an option there are.
    positionals: usize,
    /// The option whose value comes next.
    open: Option<Arg>,
    /// Whether `--` was written.
    ended: bool,
}

impl CommandLine {
    fn read(words: &[String]) -> Self {
        let mut command = crate::command::Cli::command();
        command.build();
        let mut line = Self { command, values: vec![], positionals: 0, open: None, ended: false };
        words.iter().for_each(|word| line.take(word));
        line
    }

    fn take(&mut self, word: &str) {
        if let Some(open) = self.open.take() {
            self.values.push((open.get_id().to_string(), word.to_owned()));
            return;
        }
        if word == "--" && !self.ended {
            self.ended = true;
        } else if word.starts_with('-') && word.len() > 1 && !self.ended {
            let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
            let option =
                self.option(name).filter(|option| matches!(option.get_action(), ArgAction::Set | ArgAction::Append));
            match (option, value) {
                (Some(option), Some(value)) => self.values.push((option.get_id().to_string(), value.to_owned())),
                (option, _) => self.open = option,
            }
        } else if let Some(inner) = self.command.find_subcommand(word).filter(|_| self.positionals == 0) {
            self.command = inner.clone();
        } else {
            let id = self.positional().map(|arg| arg.get_id().to_string());
            self.values.extend(id.map(|id| (id, word.to_owned())));
            self.positionals += 1;
        }
    }

    /// The option of this name: `--set`, or `-o`.
    fn option(&self, name: &str) -> Option<Arg> {
        let is_named = |arg: &&Arg| match name.strip_prefix("--") {
            Some(long) => arg.get_long() == Some(long),
            None => arg.get_short().is_some_and(|short| name.strip_prefix('-') == Some(short.to_string().as_str())),
        };
        self.command.get_arguments().find(is_named).cloned()
    }

    /// The argument that the next word without an option is for. The last one may take several.
    fn positional(&self) -> Option<&Arg> {
        let last = || self.command.get_positionals().last().filter(|arg| matches!(arg.get_action(), ArgAction::Append));
        self.command.get_positionals().nth(self.positionals).or_else(last)
    }

    /// The values of an argument so far.
    fn given<'l>(&'l self, ids: &'l [&str]) -> impl Iterator<Item = &'l str> {
        self.values.iter().filter(|(id, _)| ids.contains(&id.as_str())).map(|(_, value)| value.as_str())
    }

    fn fitting(&self, word: &str) -> Vec<Completion> {
        if let Some(open) = &self.open {
            return self.values_of(open, word);
        }
        if word.starts_with('-') && !self.ended {
            let Some((name, value)) = word.split_once('=') else { return self.options() };
            let values = self.option(name).map_or_else(Vec::new, |option| self.values_of(&option, value));
            let whole = |found: Completion| Completion { word: format!("{name}={}", found.word), ..found };
            return values.into_iter().map(whole).collect();
        }
        let values = self.positional().map_or_else(Vec::new, |arg| self.values_of(arg, word));
        if self.positionals == 0 { [self.commands(), values].concat() } else { values }
    }

    fn commands(&self) -> Vec<Completion> {
        let shown = self.command.get_subcommands().filter(|command| !command.is_hide_set());
        shown.map(|command| candidate(command.get_name(), about(command.get_about()))).collect()
    }

    fn options(&self) -> Vec<Completion> {
        let shown = self.command.get_arguments().filter(|arg| !arg.is_hide_set());
        let named = |arg: &Arg| Some(candidate(format!("--{}", arg.get_long()?), about(arg.get_help())));
        shown.filter_map(named).collect()
    }

    fn values_of(&self, arg: &Arg, word: &str) -> Vec<Completion> {
        let words = arg.get_possible_values();
        if !words.is_empty() {
            let shown = words.iter().filter(|word| !word.is_hide_set());
            return shown.map(|word| candidate(word.get_name(), about(word.get_help()))).collect();
        }
        let found = VALUES.iter().find(|(id, _)| *id == arg.get_id().as_str());
        found.map_or_else(Vec::new, |(_, values)| values(self, word))
    }

    /// The specs and graphs that the line names; those of its experiment where it names none. What has mistakes is left out.
    fn definitions(&self) -> Vec<ModelDefinition> {
        let catalog = catalog_of(self.given(&["task"]).next()).unwrap_or_default();
        let checked = |arg: &SpecArg| Some(arg.check(&[], &catalog).ok()?.definition);
        self.specs().iter().filter_map(checked).collect()
    }

    fn specs(&self) -> Vec<SpecArg> {
        let named: Vec<SpecArg> = self.given(&["spec", "specs", "a", "b"]).map(SpecArg::parse).collect();
        if !named.is_empty() {
            return named;
        }
        let Some(opened) = self.experiment() else { return vec![] };
        let model = opened.file.resolve(None, &[]).ok().and_then(|experiment| experiment.model);
        let model = model.and_then(|model| opened.spec_of_model(&model).ok());
        opened.file.compare().iter().filter_map(|entry| opened.spec_of(entry).ok()).chain(model).collect()
    }

    /// The experiment that the line names, or that its command takes where it names none.
    fn experiment(&self) -> Option<OpenedExperiment> {
        let default =
            || self.command.get_arguments().find(|arg| arg.get_id() == "experiment")?.get_default_values().first();
        let named = self.given(&["experiment"]).next().map(str::to_owned);
        OpenedExperiment::open(&named.or_else(|| Some(default()?.to_string_lossy().into_owned()))?).ok()
    }
}

fn about(text: Option<&clap::builder::StyledStr>) -> String {
    text.map_or_else(String::new, ToString::to_string)
}

/// Files and folders that begin like a word: those with one of these endings, or all.
fn files(word: &str, endings: &[&str]) -> Vec<Completion> {
    let (folder, _) = word.rsplit_once('/').map_or(("", word), |(folder, name)| (folder, name));
    let start = if word.contains('/') { format!("{folder}/") } else { String::new() };
    let place = if start.is_empty() { "." } else { &start };
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let named = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok().filter(|name| !name.starts_with('.'))?;
        let is_folder = entry.path().is_dir();
        let fits = is_folder || endings.is_empty() || endings.iter().any(|ending| name.ends_with(ending));
        fits.then(|| candidate(format!("{start}{name}{}", if is_folder { "/" } else { "" }), ""))
    };
    entries.filter_map(named).collect()
}

/// Built-in specs, and files; behind a colon the variants.
fn specs(word: &str) -> Vec<Completion> {
    let Some((file, _)) = word.rsplit_once(':') else {
        let built_in = SpecArg::built_in_names().into_iter().map(|name| candidate(name, "built in"));
        return built_in.chain(files(word, &[".rt", ".rtir"])).collect();
    };
    let model = |name: String| {
        let target = name.split_once(':').map_or(name.as_str(), |(_, variant)| variant);
        candidate(format!("{file}:{target}"), "")
    };
    SpecArg::parse(file).models().into_iter().map(model).collect()
}

fn experiments(word: &str) -> Vec<Completion> {
    let built_in = EMBEDDED.iter().map(|(name, _)| candidate(*name, "built in"));
    built_in.chain(files(word, &[".yaml", ".yml"])).collect()
}

/// The runs below `runs`, cells of grids included, the word for the last one, and folders.
fn runs(word: &str) -> Vec<Completion> {
    let below = folders::below(Path::new(RUNS)).unwrap_or_default().runs;
    let named = below.iter().map(|run| candidate(folders::name(run), "a run"));
    let last = (!below.is_empty()).then(|| candidate(LAST, "the run that was begun last"));
    let folders = files(word, &[]).into_iter().filter(|file| file.word.ends_with('/'));
    named.chain(last).chain(folders).collect()
}

/// The fields that every run has.
fn fields() -> Vec<Completion> {
    KNOWN.iter().map(|field| candidate(field.name, field.doc)).collect()
}

fn checkpoints() -> Vec<Completion> {
    vec![candidate("best", "the best on dev"), candidate("last", "the latest")]
}

fn tasks() -> Vec<Completion> {
    let all = TASKS.iter().map(|task| (task.name(), task.about().doc)).chain(OWN_TASKS);
    all.map(|(name, doc)| candidate(name, doc)).collect()
}

/// The settings of the experiment that the line names.
fn settings(line: &CommandLine) -> Vec<Completion> {
    let found = line.experiment().and_then(|opened| opened.file.settings().ok()).unwrap_or_default();
    let one = |path: &[String], now: String| candidate(format!("{}=", path.join(".")), format!("now {now}"));
    found.iter().map(|setting| one(&setting.path, serde_json::to_string(&setting.value).unwrap_or_default())).collect()
}

/// Slots and labels that `--only` may name.
fn slots(line: &CommandLine) -> Vec<Completion> {
    fn collect(block: &Block, found: &mut BTreeMap<String, String>) {
        for name in [&block.slot, &block.variant].into_iter().filter(|name| !name.is_empty()) {
            found.entry(name.to_string()).or_insert_with(|| block.feature.doc.to_string());
        }
        block.children.iter().for_each(|child| collect(child, found));
    }
    let mut found = BTreeMap::new();
    let catalog = catalog_of(line.given(&["task"]).next()).unwrap_or_default();
    for definition in line.definitions() {
        if let Some(spec) = definition.spec() {
            spec.root.children.iter().for_each(|child| collect(child, &mut found));
        }
        let Ok(graph) = definition.forward(&catalog) else { continue };
        for id in graph.walk(MAIN) {
            let label = &graph.node(id).label;
            if !label.is_empty() {
                found.entry(label.clone()).or_default();
            }
        }
    }
    found.into_iter().map(|(word, help)| candidate(word, help)).collect()
}

/// Codes, statements and words that `rtc explain` knows; behind a keyword its variants.
fn explained(line: &CommandLine) -> Vec<Completion> {
    let statements = feature::titles();
    let Some(keyword) = line.given(&["code"]).last() else {
        let first = statements.into_iter().map(|(title, doc)| {
            let word = title.split(' ').next().unwrap_or_default().to_owned();
            candidate(word, doc)
        });
        return first.chain(Kind::ALL.iter().map(|kind| candidate(kind.code(), kind.summary()))).collect();
    };
    let variant =
        |(title, doc): (String, String)| Some(candidate(title.strip_prefix(keyword)?.strip_prefix(' ')?, doc));
    statements.into_iter().filter_map(variant).collect()
}

/// Paths of fields and statements of the specs that the line names, and behind `=` the words that they take.
fn edits(line: &CommandLine, word: &str) -> Vec<Completion> {
    let (specs, definitions) = (line.specs(), line.definitions());
    let mut known = BTreeMap::new();
    for (path, place) in definitions.iter().filter_map(ModelDefinition::spec).flat_map(paths) {
        known.entry(path).or_insert(place);
    }
    let Some((path, _)) = word.split_once('=') else {
        return known.iter().map(|(path, place)| candidate(format!("{path}="), place.help())).collect();
    };
    let Some(place) = known.get(path) else { return vec![] };
    let own = match place {
        PathTarget::Statement(block) => specs.iter().flat_map(|spec| definitions_of(spec, &block.slot)).collect(),
        PathTarget::Field(..) | PathTarget::Binding(_) => vec![],
    };
    let words = place.words().into_iter().map(|(word, help)| candidate(word, help)).chain(own);
    words.map(|found| Completion { word: format!("{path}={}", found.word), ..found }).collect()
}

/// The definitions in the file of a spec that are variants of a slot.
fn definitions_of(spec: &SpecArg, slot: &str) -> Vec<Completion> {
    let Some(source) = spec.source().ok().filter(|_| !spec.is_graph()) else { return vec![] };
    let file = syntax::parse(SourceId(0), &source.text, &mut Problems::default());
    let items = file.into_iter().flat_map(|file| file.items);
    let name = |kind: ItemKind| match kind {
        ItemKind::Def(def) if def.slot.as_ref().is_some_and(|own| own.text == slot) => {
            Some(candidate(def.name.text, "defined in this file"))
        }
        _ => None,
    };
    items.filter_map(|item| name(item.kind)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        candidates(&words).into_iter().map(|found| found.word).collect()
    }

    #[test]
    fn every_argument_with_values_is_in_the_table_of_arguments() {
        fn ids(command: &Command, found: &mut Vec<String>) {
            found.extend(command.get_arguments().map(|arg| arg.get_id().to_string()));
            command.get_subcommands().for_each(|inner| ids(inner, found));
        }
        let (mut command, mut known) = (crate::command::Cli::command(), vec![]);
        command.build();
        ids(&command, &mut known);
        let lost: Vec<_> =
            VALUES.iter().filter(|(id, _)| !known.iter().any(|known| known == id)).map(|(id, _)| id).collect();
        assert!(lost.is_empty(), "{lost:?}");
    }

    #[test]
    fn every_path_is_one_that_set_takes() {
        for model in [
            "trm",
            "huginn",
            "mor",
            "moeut",
            "gut",
            "gutlb",
            "crvnn",
            "rir_ebt_grc",
            "regular_gpt",
            "mega",
            "ordered_memory",
        ] {
            let arg = SpecArg::parse(model);
            let spec = arg.check(&[], &rtc_compiler::schema::Catalog::default()).expect(model).definition;
            let paths = paths(spec.spec().expect("it is a spec"));
            assert!(paths.len() > 10, "{model}");
            for (path, place) in &paths {
                let now = match place {
                    PathTarget::Field(block, field) => {
                        block.fields.get(&field.name).map(|setting| setting.value.to_string())
                    }
                    PathTarget::Statement(block) => Some(block.variant.to_string()).filter(|_| block.fields.is_empty()),
                    PathTarget::Binding(_) => Some("old".to_owned()),
                };
                let Some(now) = now else { continue };
                let set = format!("{path}={now}");
                let found = arg.check(std::slice::from_ref(&set), &rtc_compiler::schema::Catalog::default());
                assert!(found.is_ok(), "{model}: {set}");
            }
        }
    }

    #[test]
    fn lines_end_in_what_fits() {
        assert!(words("rtc c").starts_with(&["check".to_owned(), "compile".to_owned()]));
        assert!(words("rtc train gut:no").contains(&"gut:no_gate".to_owned()));
        assert_eq!(words("rtc train gut --halting "), ["batch", "compact", "never"]);
        assert_eq!(words("rtc train gut --halting=n"), ["--halting=never"]);
        assert!(words("rtc diff gut gut:no_gate --only ga").contains(&"gate".to_owned()));
        assert_eq!(words("rtc -q check gut --set depthwise.dep"), ["depthwise.depth="]);
        assert!(words("rtc train no_such_spec --set ").is_empty());
        assert!(words("rtc train --experiment no_such --with ").is_empty());
        assert!(words("rtc").is_empty() && words("rtc nonsense ").is_empty());
    }
}
