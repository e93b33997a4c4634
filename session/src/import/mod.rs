//! Models in Hugging Face's format, as specs: the text, an experiment on texts with the model's tokenizer, and the map of the names of the
//! weights.

mod config;
mod family;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rtc_base::disk::write_file;
use rtc_compiler::syntax;
use rtc_runs::error::WeightsError;
use rtc_runs::weights::{TensorNames, TensorUse, WeightsFile};
use serde_json::Value;

use crate::experiment_file::OpenedExperiment;
use crate::failure::SessionFailure;
use crate::model::Compiled;
use crate::saved::catalog_in;
use crate::spec_file::SpecArg;
use crate::weights::WeightsChoice;
use config::{Config, ConfigFields};
use family::{FamilyLayer, ModelFamily, TensorRole, filled};

/// The files that an import writes.
pub const SPEC: &str = "model.rt";
/// The task of the model.
pub const EXPERIMENT: &str = "experiment.yaml";
/// The map of names.
pub const NAMES: &str = "names.json";
/// A text, where none is named.
pub const TEXT: &str = "text.txt";

/// What stands in [`TEXT`].
const SENTENCE: &str = "The quick brown fox jumps over the lazy dog.\n";

/// An imported model.
#[derive(Debug)]
pub struct Imported {
    /// Its family.
    pub family: String,
    /// The number of its parameters.
    pub parameters: String,
    /// The token with which its texts begin, if its tokenizer puts one there.
    pub begin: Option<String>,
}

/// Reads a folder with `config.json`, `tokenizer.json` and safetensors, and writes a spec, an experiment on the file `text` and a map of names
/// into a new folder. `family` is a file of a family that is none of the program's; layers that are `looped` stand in a loop of one step, which
/// gives what the published model gives.
///
/// # Errors
/// A file can't be read or written; a field of `config.json` is not known, or can't be imported; a weight is missing, is one too many, or has
/// another shape.
pub fn import(
    folder: &Path,
    output: &Path,
    text: Option<&Path>,
    family: Option<&Path>,
    looped: Option<LoopedLayers>,
) -> Result<Imported, SessionFailure> {
    let config = Config::read(&folder.join("config.json"))?;
    let family = family_of(&config, family)?;
    let file = WeightsFile::read(folder)?;
    let model = config.of_model(&family)?;
    let count = number(&config, &model, &family.layers)?;
    let layers: Vec<ConfigFields> =
        (0..count).map(|layer| config.of_layer(&model, &family, layer)).collect::<Result<_, _>>()?;
    let names = NamesInFile { file: &file, prefix: &family.prefix };
    let is_tied = model.get("tie_word_embeddings") == Some(&Value::Bool(true)) && !names.has_head(&family);
    let body = Body::of(&config, &family, &layers, looped)?;
    let about = format!("{}: {count} layers, imported from `{}`.", family.about, model_name(folder));
    let spec = spec(&family, &model, &body, (&about, is_tied)).ok_or_else(|| config.refused(TIED))?;
    let spec = syntax::format(&spec).map_err(|_| config.refused("its fields make no spec"))?;
    let tokenizer = folder.join("tokenizer.json");
    let begin = begin(&tokenizer)?;
    if output.exists() && fs::read_dir(output).map(|mut files| files.next().is_some()).unwrap_or(true) {
        let path = output.display();
        return Err(SessionFailure::Usage(format!(
            "{path} is there already, and is no empty folder: name another one"
        )));
    }
    let is_new = !output.exists();
    fs::create_dir_all(output).map_err(|error| SessionFailure::io("create", output, error))?;
    let written = || -> Result<Imported, SessionFailure> {
        let write = |name: &str, text: &[u8]| -> Result<PathBuf, SessionFailure> {
            let path = output.join(name);
            write_file(&path, text)?;
            Ok(path)
        };
        let text = match text {
            Some(text) => absolute(text)?,
            None => {
                let start = begin.clone().unwrap_or_default();
                write(TEXT, format!("{start}{SENTENCE}").as_bytes())?;
                PathBuf::from(TEXT)
            }
        };
        let ids = number(&config, &model, "vocab_size")?;
        let experiment = write(EXPERIMENT, experiment(&about, &text, &absolute(&tokenizer)?, ids).as_bytes())?;
        let path = write(SPEC, spec.as_bytes())?;
        let facts = facts(&experiment)?;
        let checked = SpecArg::parse(&path.to_string_lossy()).check(&[], &facts)?;
        let compiled = Compiled::new(checked.definition, &facts)?;
        let map = names.map(&family, &body, &layers, &compiled, is_tied)?;
        let map = serde_json::to_string_pretty(&map).map_err(|error| config.refused(&error.to_string()))?;
        let map = write(NAMES, format!("{map}\n").as_bytes())?;
        WeightsChoice { file: folder.to_owned(), names: Some(map) }.read(&compiled.graph)?;
        let parameters = compiled.parameters();
        Ok(Imported { family: family.model_type.clone(), parameters, begin: begin.clone() })
    };
    let imported = written();
    if imported.is_err() {
        // What can't be used is not left, and nothing else was there.
        [SPEC, EXPERIMENT, NAMES, TEXT].iter().for_each(|name| drop(fs::remove_file(output.join(name))));
        if is_new {
            drop(fs::remove_dir(output));
        }
    }
    imported
}

const TIED: &str = "its head is not tied, and bounds its logits, which can't be imported";

/// The family that `config.json` names, or that of a file.
fn family_of(config: &Config, file: Option<&Path>) -> Result<ModelFamily, SessionFailure> {
    if let Some(path) = file {
        let text = fs::read_to_string(path).map_err(|error| SessionFailure::io("read", path, error))?;
        let wrong = |error| SessionFailure::Usage(format!("{}: no family: {error}", path.display()));
        return ModelFamily::read(&text).map_err(wrong);
    }
    let wanted = config.model_type()?;
    let mut known = vec![];
    for family in ModelFamily::built_in() {
        if family.model_type == wanted {
            return Ok(family);
        }
        known.push(family.model_type);
    }
    let known = known.join(", ");
    Err(config.refused(&format!(
        "nothing is known of the family `{wanted}` (known: {known}); `--family FILE` names a file that describes it"
    )))
}

fn number(config: &Config, fields: &ConfigFields, name: &str) -> Result<usize, SessionFailure> {
    let found = fields.get(name).and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok());
    found.filter(|number| *number > 0).ok_or_else(|| config.refused(&format!("`{name}` is no number from 1 on")))
}

fn absolute(path: &Path) -> Result<PathBuf, SessionFailure> {
    fs::canonicalize(path).map_err(|error| SessionFailure::io("read", path, error))
}

fn model_name(folder: &Path) -> String {
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The token that the tokenizer puts before every text.
fn begin(path: &Path) -> Result<Option<String>, SessionFailure> {
    let text = fs::read(path).map_err(|error| SessionFailure::io("read", path, error))?;
    let wrong = |error: serde_json::Error| SessionFailure::Usage(format!("{}: {error}", path.display()));
    let file: Value = serde_json::from_slice(&text).map_err(wrong)?;
    let steps = match &file["post_processor"] {
        Value::Object(step) if step.contains_key("processors") => {
            step["processors"].as_array().cloned().unwrap_or_default()
        }
        step => vec![step.clone()],
    };
    let first = steps.iter().find_map(|step| step["single"].as_array()?.first()?["SpecialToken"]["id"].as_str());
    Ok(first.map(str::to_owned))
}

/// The layers as lines of a spec, and where the weights of each are.
struct Body {
    text: String,
    /// Of every layer what the names of its weights begin with.
    places: Vec<String>,
}

/// Which layers are repeated, from the first to the last one, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopedLayers {
    /// The first.
    pub first: usize,
    /// The last.
    pub last: usize,
}

/// The text of a layer, and the name of its definition.
type LayerText = (String, String);

/// The number of definitions and stacks of one name that stand in a body so far.
type NameCounts = BTreeMap<String, usize>;

impl Body {
    fn of(
        config: &Config,
        family: &ModelFamily,
        layers: &[ConfigFields],
        looped: Option<LoopedLayers>,
    ) -> Result<Self, SessionFailure> {
        let texts = match &family.layer {
            FamilyLayer::Equations { lines } => {
                let text = |fields| lines.iter().filter_map(|line| filled(line, fields)).collect::<Vec<_>>().join("\n");
                let all: Vec<LayerText> = layers.iter().map(|fields| (String::new(), text(fields))).collect();
                if all.windows(2).any(|pair| pair[0] != pair[1]) {
                    return Err(config.refused("its layers differ, and those of this family can't be imported then"));
                }
                all
            }
            FamilyLayer::Statement { .. } => {
                layers.iter().map(|fields| statement(config, family, fields)).collect::<Result<_, _>>()?
            }
        };
        let mut body = Self { text: String::new(), places: vec![] };
        let mut counts = NameCounts::new();
        let Some(LoopedLayers { first, last }) = looped else {
            body.add(&texts, "", &mut counts);
            return Ok(body);
        };
        if first > last || last >= texts.len() {
            let count = texts.len();
            return Err(SessionFailure::Usage(format!(
                "`--loop {first}..{last}`: the model has layers 0..{}",
                count - 1
            )));
        }
        body.add(&texts[..first], "", &mut counts);
        body.text += "loop {\nsteps: 1\n";
        body.add(&texts[first..=last], "loop.", &mut NameCounts::new());
        body.text += "}\n";
        body.add(&texts[last + 1..], "", &mut counts);
        Ok(body)
    }

    /// Adds layers at a place, those that repeat as a stack.
    fn add(&mut self, layers: &[LayerText], place: &str, counts: &mut NameCounts) {
        let mut at = 0;
        while at < layers.len() {
            let (period, copies) = repeated(&layers[at..]);
            let own = &layers[at..at + period];
            // Equations bind names, and have a body of their own.
            if copies == 1 && !own[0].0.is_empty() {
                let (name, line) = &own[0];
                self.text += &format!("{line}\n");
                self.places.push(format!("{place}{}.", counted(name, counts)));
                at += 1;
                continue;
            }
            let stack = counted("stack", counts);
            let lines: Vec<&str> = own.iter().map(|(_, line)| line.as_str()).collect();
            self.text += &format!("stack {copies} {{\n{}\n}}\n", lines.join("\n"));
            for copy in 0..copies {
                let mut within = NameCounts::new();
                for (name, _) in own {
                    let own = if name.is_empty() { String::new() } else { format!("{}.", counted(name, &mut within)) };
                    self.places.push(format!("{place}{stack}.{copy}.{own}"));
                }
            }
            at += period * copies;
        }
    }
}

/// A layer as a statement.
fn statement(config: &Config, family: &ModelFamily, fields: &ConfigFields) -> Result<LayerText, SessionFailure> {
    let turns = fields.get("turns") != Some(&Value::Bool(false));
    let layer = if turns { Some(&family.layer) } else { family.unturned.as_ref() };
    match layer {
        Some(FamilyLayer::Statement { name, settings }) => {
            let settings: Vec<String> = settings.iter().filter_map(|line| filled(line, fields)).collect();
            Ok((name.clone(), format!("{name} {{ {} }}", settings.join(", "))))
        }
        _ => Err(config.refused("a layer does not turn by its positions, which can't be imported")),
    }
}

/// The next place of a name in a body.
fn counted(name: &str, counts: &mut NameCounts) -> String {
    let count = counts.entry(name.to_owned()).or_default();
    *count += 1;
    if *count == 1 { name.to_owned() } else { format!("{name}_{count}") }
}

/// How many of the first items are repeated, and how often, so that most are said by fewest.
fn repeated<T: PartialEq>(items: &[T]) -> (usize, usize) {
    let copies =
        |period: usize| 1 + items.chunks_exact(period).skip(1).take_while(|next| **next == items[..period]).count();
    let all = (1..=items.len() / 2).map(|period| (period, copies(period))).filter(|(_, copies)| *copies > 1);
    all.max_by_key(|(period, copies)| (period * copies, std::cmp::Reverse(*period))).unwrap_or((1, 1))
}

/// The text of a spec; nothing where a head that is not tied has fields.
fn spec(family: &ModelFamily, model: &ConfigFields, body: &Body, (about, is_tied): (&str, bool)) -> Option<String> {
    let lines = |lines: &[String]| lines.iter().filter_map(|line| filled(line, model)).collect::<Vec<_>>();
    let tied = lines(&family.tied);
    let head = match (is_tied, tied.is_empty()) {
        (true, true) => "head tied".to_owned(),
        (true, false) => format!("head tied {{ {} }}", tied.join(", ")),
        (false, true) => "head linear { bias: false }".to_owned(),
        (false, false) => return None,
    };
    let masks = if body.text.contains("window(") { "use \"lib/masks.rt\"\n" } else { "" };
    let (embed, after) = (lines(&family.embed).join(", "), lines(&family.after).join("\n"));
    Some(format!(
        "{masks}use \"lib/pretrained.rt\"\n\n/// {about}\n/// Source: {}.\nmodel {} {{\nembed {{ {embed} }}\n{}{after}\nreadout each\n{head}\n}}\n",
        family.source.trim_end_matches('.'),
        family.model_type,
        body.text,
    ))
}

/// The task of an imported model: its tokens, on a text.
fn experiment(about: &str, text: &Path, tokenizer: &Path, ids: usize) -> String {
    let quoted = |path: &Path| Value::from(path.to_string_lossy()).to_string();
    let (text, tokenizer) = (quoted(text), quoted(tokenizer));
    format!(
        "# {about}\ntask:\n  name: language\n  data: {{ train: {text}, dev: {text} }}\n  tokens: {tokenizer}\n  vocabulary: {ids}\n  length: 512\n\
         optimiser: {{ kind: adamw, learning_rate: 0.00002 }}\nschedule: {{ kind: constant }}\nbatch: {{ size: 1 }}\nmax_steps: 100\nevaluate: [dev]\n"
    )
}

/// What the compiler is told about the task of an experiment.
fn facts(experiment: &Path) -> Result<rtc_compiler::schema::Catalog, SessionFailure> {
    let opened = OpenedExperiment::open(&experiment.to_string_lossy())?;
    catalog_in(&opened.file.resolve(None, &[])?)
}

/// The names of a file.
struct NamesInFile<'f> {
    file: &'f WeightsFile,
    /// What names begin with, if those of the file do.
    prefix: &'f str,
}

impl NamesInFile<'_> {
    /// Whether the file holds a head that is another matrix than the table of the tokens.
    fn has_head(&self, family: &ModelFamily) -> bool {
        let ours = |wanted: &str| {
            let is_it = |own: &Option<TensorRole>| matches!(own, Some(TensorRole::Named(name)) if name == wanted);
            family.names.iter().find(|(_, own)| is_it(own)).and_then(|(theirs, _)| self.there(theirs))
        };
        match (ours("embed.table"), ours("head.output.weight")) {
            (Some(table), Some(head)) => !self.file.same(&table, &head),
            _ => false,
        }
    }

    /// A name as the file has it.
    fn there(&self, name: &str) -> Option<String> {
        let all = [format!("{}{name}", self.prefix), name.to_owned()];
        all.into_iter().find(|name| self.file.has(name))
    }

    /// The uses of all tensors.
    ///
    /// # Errors
    /// Every parameter of the model that no tensor is for, every tensor that nothing is said of.
    fn map(
        &self,
        family: &ModelFamily,
        body: &Body,
        layers: &[ConfigFields],
        compiled: &Compiled,
        is_tied: bool,
    ) -> Result<TensorNames, SessionFailure> {
        let wanted: Vec<String> = compiled.graph.parameters().into_iter().map(|parameter| parameter.name).collect();
        let (mut map, mut faults, mut used) = (TensorNames::default(), vec![], vec![]);
        let mut add = |theirs: &str, own: Option<Option<TensorUse>>| {
            let Some(own) = own else { return faults.push(format!("the family has no use for `{theirs}`")) };
            let all = own.iter().flat_map(|own| own.to.iter().chain(&own.rows));
            let (is_wanted, mut all) = (all.clone().any(|name| wanted.contains(name)), all);
            match self.there(theirs) {
                Some(theirs) => {
                    let own = own.filter(|own| !is_tied || own.to != ["head.output.weight"]);
                    used.push(theirs.clone());
                    map.insert(theirs, own);
                }
                None if is_wanted => {
                    faults.push(format!(
                        "`{theirs}` is missing, of which `{}` is made",
                        all.next().map_or("", |name| name)
                    ));
                }
                None => {}
            }
        };
        for (theirs, own) in &family.names {
            add(theirs, Some(own.as_ref().and_then(|own| own.at("", &ConfigFields::new()))));
        }
        for (n, (place, fields)) in body.places.iter().zip(layers).enumerate() {
            for (theirs, own) in &family.layer_names {
                let theirs = format!("{}{theirs}", family.layer_prefix).replace("<layer>", &n.to_string());
                let count = family.experts.as_ref().filter(|_| theirs.contains("<expert>"));
                let count = count.map(|field| fields.get(field).and_then(Value::as_u64).unwrap_or(0));
                for expert in 0..count.unwrap_or(1) {
                    let mut fields = fields.clone();
                    fields.insert("expert".to_owned(), expert.into());
                    let own = own.as_ref().map(|own| own.at(place, &fields));
                    add(&theirs.replace("<expert>", &expert.to_string()), own.map_or(Some(None), |own| own.map(Some)));
                }
            }
        }
        let strange = self.file.names().filter(|name| !used.iter().any(|used| used == name));
        faults.extend(strange.map(|name| format!("`{name}` is no weight of the family `{}`", family.model_type)));
        match faults.is_empty() {
            true => Ok(map),
            false => {
                let error = WeightsError { file: self.file.name().to_owned(), faults };
                Err(rtc_runs::error::Error::from(error).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_found() {
        for (items, found) in [
            ("aaaa", (1, 4)),
            ("abab", (2, 2)),
            ("ababa", (2, 2)),
            ("aab", (1, 2)),
            ("abc", (1, 1)),
            ("aabaab", (3, 2)),
        ] {
            let items: Vec<char> = items.chars().collect();
            assert_eq!(repeated(&items), found, "{items:?}");
        }
    }
}
