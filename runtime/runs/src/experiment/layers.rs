//! `extends`: an experiment laid over another one.

use std::path::Path;

use serde_yaml::{Mapping, Value};

use super::file::{SPELLINGS, one_spelling};
use super::place::{self, LinePart, line_at};
use super::{EMBEDDED, yaml};
use crate::error::ExperimentError;
use rtc_task::error::unknown;

/// The key that names the experiment below.
const EXTENDS: &str = "extends";

/// The most files of a chain: more are a mistake.
pub const MOST: usize = 8;

/// A file of an experiment.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    /// Its name in messages.
    pub(super) name: String,
    pub(super) text: String,
    fields: Mapping,
}

/// The files of an experiment: the one that was asked for, the one that it extends, and so on.
#[derive(Clone, Debug)]
pub(super) struct ExperimentLayers(Vec<Layer>);

/// Reads the text of a file beside the experiment.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> Result<String, String>;

impl Layer {
    fn parse(name: String, text: String) -> Result<Self, ExperimentError> {
        let refuse = |line: Option<usize>, message: String| ExperimentError {
            file: name.clone(),
            line,
            message,
            others: vec![],
        };
        let mut fields = yaml::fields(&text).map_err(|(line, why)| {
            let at = line.and_then(|line| text.lines().nth(line.checked_sub(1)?));
            let tab = at.is_some_and(|line| line.chars().take_while(|c| c.is_whitespace()).any(|c| c == '\t'));
            let why = if tab { "a tab indents this line, and YAML takes only blanks".to_owned() } else { why };
            refuse(line, format!("this is not an experiment in YAML: {why}"))
        })?;
        one_spelling(&mut fields).map_err(|why| {
            let at = place::key(&text, &[SPELLINGS.0]);
            refuse(at.map(|at| line_at(&text, at)), why)
        })?;
        Ok(Self { name, text, fields })
    }

    /// Whether the file says anything at this path.
    fn holds(&self, path: &[&str]) -> bool {
        let mut fields = Some(&self.fields);
        path.iter().all(|key| {
            let value =
                fields.and_then(|fields| fields.iter().find(|(known, _)| is(known, key))).map(|(_, value)| value);
            fields = value.and_then(Value::as_mapping);
            value.is_some()
        })
    }

    /// The byte at which the line of a path begins.
    fn key(&self, path: &[&str]) -> Option<usize> {
        let (other, own) = SPELLINGS;
        let spelt: Vec<&str> = path.iter().map(|key| if *key == own { other } else { key }).collect();
        place::key(&self.text, path).or_else(|| place::key(&self.text, &spelt))
    }

    pub(super) fn line_at(&self, at: usize) -> usize {
        line_at(&self.text, at)
    }

    /// Where texts stand one after the other behind the byte `from`.
    pub(super) fn written(&self, from: usize, texts: &[String]) -> Vec<Option<LinePart>> {
        let found = place::find(&self.text, from, texts).into_iter().zip(texts);
        found.map(|(at, text)| Some(place::written(&self.name, &self.text, at?, text.len()))).collect()
    }

    pub(super) fn error(&self, line: Option<usize>, message: impl Into<String>) -> ExperimentError {
        ExperimentError { file: self.name.clone(), line, message: message.into(), others: vec![] }
    }

    /// An error at the `extends` of the file.
    fn refuse(&self, message: &str) -> ExperimentError {
        self.error(self.key(&[EXTENDS]).map(|at| self.line_at(at)), format!("`{EXTENDS}`: {message}"))
    }

    /// The experiment that this one extends, if any. `beside` is the folder of the file, with what reads a file there; an
    /// experiment of the program has none.
    fn base(&self, beside: Option<(&Path, ReadFile<'_>)>) -> Result<Option<Self>, ExperimentError> {
        let Some(name) = self.fields.get(EXTENDS) else { return Ok(None) };
        let is_alone = |name: &&str| Path::new(name).file_name().is_some_and(|file| file == *name);
        let Some(name) = name.as_str().filter(is_alone) else {
            return Err(self.refuse("takes the name of an experiment of the program, or of a file in the same folder"));
        };
        if let Some((_, text)) = EMBEDDED.iter().find(|(known, _)| *known == name) {
            return Self::parse(name.to_owned(), (*text).to_owned()).map(Some);
        }
        let has_ending = Path::new(name).extension().is_some();
        let file = if has_ending { name.to_owned() } else { format!("{name}.yaml") };
        let beside = beside.map(|(folder, read)| (folder.join(file), read));
        let Some((file, read)) = beside.filter(|(file, _)| has_ending || file.is_file()) else {
            return Err(self.refuse(&unknown("experiment", name, EMBEDDED.iter().map(|(name, _)| name))));
        };
        // Its reading would wait for a pipe.
        if file.exists() && !file.is_file() {
            return Err(self.refuse(&format!("{} is no regular file", file.display())));
        }
        let text = read(&file).map_err(|message| self.refuse(&message))?;
        Self::parse(file.display().to_string(), text).map(Some)
    }
}

impl ExperimentLayers {
    /// The files of an experiment, by its name and text and where those beside it are.
    pub(super) fn read(
        name: &str,
        text: &str,
        mut beside: Option<(&Path, ReadFile<'_>)>,
    ) -> Result<Self, ExperimentError> {
        let mut own = Layer::parse(name.to_owned(), text.to_owned())?;
        let mut layers = vec![];
        while let Some(base) = own.base(beside)? {
            if layers.len() + 2 > MOST {
                return Err(own.refuse(&format!("more than {MOST} experiments extend one another")));
            }
            let is_known = |layer: &Layer| layer.name == base.name;
            if is_known(&own) || layers.iter().any(is_known) {
                return Err(own.refuse(&format!("`{}` extends itself", base.name)));
            }
            if EMBEDDED.iter().any(|(known, _)| *known == base.name) {
                beside = None;
            }
            layers.push(std::mem::replace(&mut own, base));
        }
        layers.push(own);
        Ok(Self(layers))
    }

    /// The file that was asked for.
    pub(super) fn own(&self) -> &Layer {
        &self.0[0]
    }

    /// The file of this name.
    pub(super) fn named(&self, name: &str) -> &Layer {
        self.0.iter().find(|layer| layer.name == name).unwrap_or(self.own())
    }

    /// All fields, those of a file over those of the one that it extends.
    pub(super) fn fields(&self) -> Mapping {
        let mut all = Mapping::new();
        self.0.iter().rev().for_each(|layer| merge(&mut all, &layer.fields));
        all.remove(EXTENDS);
        all
    }

    /// The file whose word on a path counts, and the byte at which its line begins.
    pub(super) fn key(&self, path: &[&str]) -> Option<(&Layer, usize)> {
        let layer = self.0.iter().find(|layer| layer.holds(path))?;
        layer.key(path).map(|at| (layer, at))
    }

    /// The file and the line whose word on a path counts.
    pub(super) fn line(&self, path: &[&str]) -> Option<(&Layer, usize)> {
        self.key(path).map(|(layer, at)| (layer, layer.line_at(at)))
    }

    /// An error at the first of some paths that stands anywhere.
    pub(super) fn error(&self, paths: &[&[&str]], message: impl Into<String>) -> ExperimentError {
        match paths.iter().find_map(|path| self.line(path)) {
            Some((layer, line)) => layer.error(Some(line), message),
            None => self.own().error(None, message),
        }
    }
}

fn is(key: &Value, name: &str) -> bool {
    match key {
        Value::String(key) => key == name,
        Value::Number(key) => key.to_string() == name,
        _ => false,
    }
}

/// Lays `patch` over `base`: blocks key by key, everything else replaced. `null` removes a field that `base` has.
pub(super) fn merge(base: &mut Mapping, patch: &Mapping) {
    for (key, value) in patch {
        match (base.get_mut(key), value) {
            (Some(Value::Mapping(old)), Value::Mapping(new)) => merge(old, new),
            (Some(old), Value::Null) if !old.is_null() => {
                base.remove(key);
            }
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}
