//! Models in Hugging Face's format, as specs: the text, an experiment on texts with the model's tokenizer, and the map of the names of the
//! weights.

mod config;
mod family;
mod relaxed;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use rtc_base::disk::write_file;
use rtc_compiler::check::{NoFiles, check_edited};
use rtc_compiler::ir::graph::Graph;
use rtc_compiler::pipeline;
use rtc_compiler::schema::Catalog;
use rtc_compiler::source::Source;
use rtc_compiler::syntax;
use rtc_runs::error::WeightsError;
use rtc_runs::weights::{TensorNames, TensorUse, WeightsFile, fit, packed};
use serde_json::Value;

use crate::experiment_file::OpenedExperiment;
use crate::failure::SessionFailure;
use crate::model::Compiled;
use crate::saved::catalog_in;
use crate::spec_file::{CheckedDefinition, SpecArg};
use crate::weights::{WeightsChoice, shapes};
use config::{Config, ConfigFields};
use family::{FamilyLayer, ModelFamily, TensorRole, filled};
pub use relaxed::RelaxedLayers;

/// The files that an import writes.
pub const SPEC: &str = "model.rt";
/// The task of the model.
pub const EXPERIMENT: &str = "experiment.yaml";
/// The map of names.
pub const NAMES: &str = "names.json";
/// The weights of layers that share them.
pub const WEIGHTS: &str = "weights.safetensors";
/// A text, where none is named.
pub const TEXT: &str = "text.txt";

/// The most layers, which a stack may have.
const MOST_LAYERS: usize = 1000;

/// The most experts of a layer.
const MOST_EXPERTS: usize = 1 << 16;

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

/// A folder in Hugging Face's format, read, as the text of a spec and what belongs to it.
struct PublishedFolder {
    config: Config,
    family: ModelFamily,
    file: WeightsFile,
    /// The fields of the model, and of each of its layers.
    model: ConfigFields,
    layers: Vec<ConfigFields>,
    experts: usize,
    is_tied: bool,
    body: Body,
    about: String,
    spec: String,
}

impl PublishedFolder {
    /// Reads one; `family` and `looped` as for [`import`].
    fn read(folder: &Path, family: Option<&Path>, looped: Option<LoopedLayers>) -> Result<Self, SessionFailure> {
        let config = Config::read(&folder.join("config.json"))?;
        let family = family_of(&config, family)?;
        let file = WeightsFile::read(folder)?;
        let model = config.of_model(&family)?;
        let count = number(&config, &model, &family.layers, MOST_LAYERS)?;
        let experts = family.experts.as_ref().map(|field| number(&config, &model, field, MOST_EXPERTS)).transpose()?;
        let layers: Vec<ConfigFields> =
            (0..count).map(|layer| config.of_layer(&model, &family, layer)).collect::<Result<_, _>>()?;
        let names = NamesInFile { file: &file, prefix: &family.prefix };
        let is_tied = model.get("tie_word_embeddings") == Some(&Value::Bool(true)) && !names.has_head(&family);
        let body = Body::of(&config, &family, &layers, looped)?;
        let about = format!("{}: {count} layers, imported from `{}`.", family.about, model_name(folder));
        let spec = spec(&family, &model, &body, (&about, is_tied)).ok_or_else(|| config.refused(TIED))?;
        let spec = syntax::format(&spec).map_err(|_| config.refused("its fields make no spec"))?;
        let experts = experts.unwrap_or(0);
        Ok(Self { config, family, file, model, layers, experts, is_tied, body, about, spec })
    }

    /// Its spec, compiled for a task.
    fn compiled(&self, facts: &Catalog) -> Result<Compiled, SessionFailure> {
        let source = Source::new(self.family.model_type.as_str(), self.spec.as_str());
        let checked = CheckedDefinition::of(check_edited(&NoFiles, source, None, &[], facts))?;
        Compiled::new(checked.definition, facts)
    }

    /// The same model with looped layers that share their weights: the layers are those of `self`, the body and the spec others.
    fn relaxed(&self, looped: LoopedLayers, how: RelaxedLayers) -> Result<(Body, String), SessionFailure> {
        let Self { config, family, model, layers, about, is_tied, .. } = self;
        let body = Body::relaxed((config, family), layers, looped, how)?;
        let spec = spec(family, model, &body, (about, *is_tied)).ok_or_else(|| config.refused(TIED))?;
        let spec = syntax::format(&spec).map_err(|_| config.refused("its fields make no spec"))?;
        Ok((body, spec))
    }

    /// The weights of a compiled model with a relaxed body, from those of the folder.
    fn relaxed_weights(
        &self,
        (looped, how): (LoopedLayers, RelaxedLayers),
        (body, compiled): (&Body, &Compiled),
        facts: &Catalog,
    ) -> Result<Vec<u8>, SessionFailure> {
        let base = self.compiled(facts)?;
        let names = self.names(&base)?;
        let arrays = fit(&self.file, &names, &[], &shapes(&pipeline::parameters(&base.graph)))
            .map_err(rtc_runs::error::Error::from)?;
        let own = looped.first..looped.first + (looped.last + 1 - looped.first) / how.steps;
        let places = (&self.body.places[looped.first..=looped.last], &body.places[own]);
        let refused = |why: String| SessionFailure::Usage(format!("`--rank {}`: {why}", how.rank));
        let arrays = relaxed::weights(&arrays, &shapes(&pipeline::parameters(&compiled.graph)), places, how.rank)
            .map_err(refused)?;
        packed(&arrays).map_err(|why| self.config.refused(&why))
    }

    /// The map of the names of its weights to those of the compiled spec.
    fn names(&self, compiled: &Compiled) -> Result<TensorNames, SessionFailure> {
        let Self { config, family, body, layers, .. } = self;
        let roles = roles((config, family), (body, layers), self.experts, self.is_tied)?;
        NamesInFile { file: &self.file, prefix: &family.prefix }.map(&family.model_type, roles, compiled)
    }
}

/// A published model whose weights can be replaced.
pub struct PublishedModel {
    /// Its graph.
    pub graph: Graph,
    /// The parameters of the graph by the names of the file.
    pub names: TensorNames,
    /// The weights that it has.
    pub file: WeightsFile,
}

impl PublishedModel {
    /// Reads the folder of one with the tokens of a task; `family` as for [`import`].
    ///
    /// # Errors
    /// Those of [`import`].
    pub fn read(folder: &Path, family: Option<&Path>, facts: &Catalog) -> Result<Self, SessionFailure> {
        let read = PublishedFolder::read(folder, family, None)?;
        let compiled = read.compiled(facts)?;
        let names = read.names(&compiled)?;
        Ok(Self { graph: compiled.graph, names, file: read.file })
    }
}

/// Reads a folder with `config.json`, `tokenizer.json` and safetensors, and writes a spec, an experiment on the file `text` and a map of names
/// into a new folder. `family` is a file of a family that is none of the program's; layers that are `looped` stand in a loop of one step, which
/// gives what the published model gives, or share their weights as `relaxed` says.
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
    relaxed: Option<RelaxedLayers>,
) -> Result<Imported, SessionFailure> {
    let read = PublishedFolder::read(folder, family, looped)?;
    let both = looped.zip(relaxed);
    let relaxed = both.map(|(looped, how)| read.relaxed(looped, how)).transpose()?;
    let (config, about) = (&read.config, read.about.as_str());
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
                write(TEXT, SENTENCE.as_bytes())?;
                PathBuf::from(TEXT)
            }
        };
        let ids = number(config, &read.model, "vocab_size", usize::MAX)?;
        let experiment = experiment(about, (&text, &absolute(&tokenizer)?), begin.as_deref(), ids);
        let experiment = write(EXPERIMENT, experiment.as_bytes())?;
        let path = write(SPEC, relaxed.as_ref().map_or(&read.spec, |(_, spec)| spec).as_bytes())?;
        let facts = facts(&experiment)?;
        let checked = SpecArg::parse(&path.to_string_lossy()).check(&[], &facts)?;
        let compiled = Compiled::new(checked.definition, &facts)?;
        let parameters = compiled.parameters();
        let imported = Imported { family: read.family.model_type.clone(), parameters, begin: begin.clone() };
        if let Some((how, (body, _))) = both.zip(relaxed.as_ref()) {
            write(WEIGHTS, &read.relaxed_weights(how, (body, &compiled), &facts)?)?;
            return Ok(imported);
        }
        let map = read.names(&compiled)?;
        let map = serde_json::to_string_pretty(&map).map_err(|error| config.refused(&error.to_string()))?;
        let map = write(NAMES, format!("{map}\n").as_bytes())?;
        WeightsChoice { file: folder.to_owned(), names: Some(map), drawn: vec![] }.read(&compiled.graph, 0)?;
        Ok(imported)
    };
    let imported = written();
    if imported.is_err() {
        // What can't be used is not left, and nothing else was there.
        [SPEC, EXPERIMENT, NAMES, WEIGHTS, TEXT].iter().for_each(|name| drop(fs::remove_file(output.join(name))));
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

fn number(config: &Config, fields: &ConfigFields, name: &str, most: usize) -> Result<usize, SessionFailure> {
    let found = fields.get(name).and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok());
    let fits = found.filter(|number| (1..=most).contains(number));
    let to = if most == usize::MAX { "on".to_owned() } else { format!("to {most}") };
    fits.ok_or_else(|| config.refused(&format!("`{name}` is no number from 1 {to}")))
}

fn absolute(path: &Path) -> Result<PathBuf, SessionFailure> {
    fs::canonicalize(path).map_err(|error| SessionFailure::io("read", path, error))
}

fn model_name(folder: &Path) -> String {
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.chars().filter(|c| !c.is_control()).collect()
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
        let texts = layer_texts(config, family, layers)?;
        let mut body = Self { text: String::new(), places: vec![] };
        let mut counts = NameCounts::new();
        let Some(LoopedLayers { first, last }) = looped else {
            body.add(&texts, "", &mut counts);
            return Ok(body);
        };
        within(LoopedLayers { first, last }, texts.len())?;
        body.add(&texts[..first], "", &mut counts);
        body.text += "loop {\nsteps: 1\n";
        body.add(&texts[first..=last], "loop.", &mut NameCounts::new());
        body.text += "}\n";
        body.add(&texts[last + 1..], "", &mut counts);
        Ok(body)
    }

    /// The body in which looped layers share their weights.
    fn relaxed(
        (config, family): (&Config, &ModelFamily),
        layers: &[ConfigFields],
        looped: LoopedLayers,
        how: RelaxedLayers,
    ) -> Result<Self, SessionFailure> {
        let texts = layer_texts(config, family, layers)?;
        within(looped, texts.len())?;
        let LoopedLayers { first, last } = looped;
        let (count, RelaxedLayers { steps, rank }) = (last + 1 - first, how);
        if count % steps != 0 {
            return Err(SessionFailure::Usage(format!(
                "`--steps {steps}`: {count} layers stand in the loop, and each step stands for as many of them"
            )));
        }
        let all = &texts[first..=last];
        let own = &all[..count / steps];
        let of = |(name, text): &LayerText| {
            let known = name == RELAXABLE && !text.contains(" bias:");
            let text = text.replacen(&format!("{name} {{"), &format!("relaxed_{name} {{ rank: {rank},"), 1);
            known.then(|| (format!("relaxed_{name}"), text))
        };
        let shared: Option<Vec<LayerText>> = own.iter().map(of).collect();
        let shared = shared.ok_or_else(|| config.refused(NOT_RELAXED))?;
        if all.chunks(own.len()).any(|step| step != own) {
            return Err(config.refused("the layers of its steps differ, and can't share their weights"));
        }
        let (mut body, mut counts) = (Self { text: String::new(), places: vec![] }, NameCounts::new());
        body.add(&texts[..first], "", &mut counts);
        body.text += &format!("loop {{\nsteps: {steps}\n");
        body.add(&shared, "loop.", &mut NameCounts::new());
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

/// The layers as texts.
fn layer_texts(
    config: &Config,
    family: &ModelFamily,
    layers: &[ConfigFields],
) -> Result<Vec<LayerText>, SessionFailure> {
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
    Ok(texts)
}

/// Refuses layers that a model of so many does not have.
fn within(looped: LoopedLayers, count: usize) -> Result<(), SessionFailure> {
    let LoopedLayers { first, last } = looped;
    if first <= last && last < count {
        return Ok(());
    }
    let most = count - 1;
    Err(SessionFailure::Usage(format!("`--loop {first}..{last}`: the model has layers 0..{most}")))
}

/// The layer of which `lib/pretrained.rt` has a form with low-rank maps.
const RELAXABLE: &str = "llama_layer";

const NOT_RELAXED: &str =
    "its layers have no form with low-rank maps of every step: those of Llama's form without biases have one";

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
fn experiment(about: &str, (text, tokenizer): (&Path, &Path), begin: Option<&str>, ids: usize) -> String {
    let quoted = |path: &Path| Value::from(path.to_string_lossy()).to_string();
    let (text, tokenizer) = (quoted(text), quoted(tokenizer));
    let begin = begin.map_or_else(String::new, |begin| format!("  begin: {}\n", Value::from(begin)));
    format!(
        "# {about}\ntask:\n  name: language\n  data: {{ train: {text}, dev: {text} }}\n  tokens: {tokenizer}\n  vocabulary: {ids}\n{begin}  length: 512\n\
         optimiser: {{ kind: adamw, learning_rate: 0.00002 }}\nschedule: {{ kind: constant }}\nbatch: {{ size: 1 }}\nmax_steps: 100\nevaluate: [dev]\n"
    )
}

/// What the compiler is told about the task of an experiment.
fn facts(experiment: &Path) -> Result<Catalog, SessionFailure> {
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
        match (ours("embed.table"), ours(HEAD)) {
            (Some(table), Some(head)) => !self.file.same(&table, &head),
            _ => false,
        }
    }

    /// A name as the file has it.
    fn there(&self, name: &str) -> Option<String> {
        let all = [format!("{}{name}", self.prefix), name.to_owned()];
        all.into_iter().find(|name| self.file.has(name))
    }

    /// The map of all tensors.
    ///
    /// # Errors
    /// Every parameter of the model that no tensor is for, every tensor that nothing is said of.
    fn map(&self, family: &str, roles: Vec<OwnRole>, compiled: &Compiled) -> Result<TensorNames, SessionFailure> {
        let parameters = compiled.graph.parameters();
        let wanted: BTreeSet<&str> = parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        let (mut map, mut used, mut faults) = (TensorNames::default(), BTreeSet::new(), vec![]);
        for OwnRole { theirs, own } in roles {
            let all = own.iter().flat_map(|own| own.to.iter().chain(&own.rows));
            let ours = all.clone().find(|name| wanted.contains(name.as_str())).cloned();
            match (self.there(&theirs), ours) {
                (Some(there), _) => {
                    used.insert(there.clone());
                    map.insert(there, own);
                }
                (None, Some(ours)) => faults.push(format!("`{theirs}` is missing, of which `{ours}` is made")),
                (None, None) => {}
            }
        }
        let strange = self.file.names().filter(|name| !used.contains(*name));
        faults.extend(strange.map(|name| format!("`{name}` is no weight of the family `{family}`")));
        match faults.is_empty() {
            true => Ok(map),
            false => {
                let error = WeightsError { file: self.file.name().to_owned(), faults };
                Err(rtc_runs::error::Error::from(error).into())
            }
        }
    }
}

/// What a tensor is in the model, by its name without the prefix; nothing leaves it out.
struct OwnRole {
    theirs: String,
    own: Option<TensorUse>,
}

/// The roles of the tensors of a model with so many experts in each layer.
///
/// # Errors
/// A number of a template that is none.
fn roles(
    (config, family): (&Config, &ModelFamily),
    (body, layers): (&Body, &[ConfigFields]),
    experts: usize,
    is_tied: bool,
) -> Result<Vec<OwnRole>, SessionFailure> {
    let role = |theirs: String,
                own: &Option<TensorRole>,
                place: &str,
                fields: &ConfigFields|
     -> Result<OwnRole, SessionFailure> {
        let own = own
            .as_ref()
            .map(|own| own.at(place, fields).ok_or_else(|| config.refused(&not_whole(&theirs))))
            .transpose()?;
        // The head is the table of the tokens, once more.
        let own = own.filter(|own| !is_tied || own.to != [HEAD]);
        Ok(OwnRole { theirs, own })
    };
    let mut all = vec![];
    for (theirs, own) in &family.names {
        all.push(role(theirs.clone(), own, "", &ConfigFields::new())?);
    }
    for (n, (place, fields)) in body.places.iter().zip(layers).enumerate() {
        let mut fields = fields.clone();
        for (theirs, own) in &family.layer_names {
            let theirs = format!("{}{theirs}", family.layer_prefix).replace(LAYER, &n.to_string());
            for expert in 0..if theirs.contains(EXPERT) { experts } else { 1 } {
                fields.insert("expert".to_owned(), expert.into());
                all.push(role(theirs.replace(EXPERT, &expert.to_string()), own, place, &fields)?);
            }
        }
    }
    Ok(all)
}

fn not_whole(theirs: &str) -> String {
    format!("what the family says of `{theirs}` has no whole number where one belongs")
}

/// Places of the number of a layer, and of an expert, in the names of a family.
const LAYER: &str = "<layer>";
const EXPERT: &str = "<expert>";

/// The map of a head that is not tied.
const HEAD: &str = "head.output.weight";

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
