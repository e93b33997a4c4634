//! `extends`: an experiment laid over another one.

use std::path::Path;

use serde_yaml::{Mapping, Value};

use super::EMBEDDED;
use super::place::{self, Written, line_at};
use crate::error::{ExperimentError, unknown};

/// The key that names the experiment below.
const EXTENDS: &str = "extends";

/// The most files of a chain: more are a mistake.
const MOST: usize = 8;

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
pub(super) struct Layers(Vec<Layer>);

/// Reads the text of a file beside the experiment.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> Result<String, String>;

impl Layer {
    fn parse(name: String, text: String) -> Result<Self, ExperimentError> {
        match serde_yaml::from_str(&text) {
            Ok(fields) => Ok(Self { name, text, fields }),
            Err(error) => {
                let line = error.location().map(|location| location.line());
                Err(ExperimentError {
                    file: name,
                    line,
                    message: format!("this is not an experiment in YAML: {error}"),
                })
            }
        }
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
        place::key(&self.text, path)
    }

    pub(super) fn line_at(&self, at: usize) -> usize {
        line_at(&self.text, at)
    }

    /// Where texts stand one after the other behind the byte `from`.
    pub(super) fn written(&self, from: usize, texts: &[String]) -> Vec<Option<Written>> {
        let found = place::find(&self.text, from, texts).into_iter().zip(texts);
        found.map(|(at, text)| Some(place::written(&self.name, &self.text, at?, text.len()))).collect()
    }

    pub(super) fn error(&self, line: Option<usize>, message: impl Into<String>) -> ExperimentError {
        ExperimentError { file: self.name.clone(), line, message: message.into() }
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
            let known: Vec<&str> = EMBEDDED.iter().map(|(name, _)| *name).collect();
            return Err(self.refuse(&unknown("experiment", name, &known)));
        };
        let text = read(&file).map_err(|message| self.refuse(&message))?;
        Self::parse(file.display().to_string(), text).map(Some)
    }
}

impl Layers {
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

#[cfg(test)]
mod tests {
    use super::super::ExperimentFile;
    use super::*;

    const BASE: &str = "task: { name: listops, sizes: { train: 8, dev: 4 } }\noptimiser:\n  learning_rate: 0.1\n  clip: 1\n\
                        schedule: { kind: constant }\nbatch: { size: 2 }\nepochs: 1\nseeds: [1, 2]\nevaluate: [test]\n\
                        models:\n  gut: { optimiser: { clip: 5 } }\n  ut: { epochs: 3 }\ncompare: [gut, ut]\n";

    /// The file `own.yaml` in a folder with others.
    fn parse(own: &str, beside: &[(&str, &str)]) -> Result<ExperimentFile, String> {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in beside {
            std::fs::write(folder.path().join(name), text).expect("it can be written");
        }
        let read = |path: &Path| {
            let name = path.file_name().unwrap_or_default().display().to_string();
            std::fs::read_to_string(path).map_err(|_| format!("can't read {name}"))
        };
        let own_file = folder.path().join("own.yaml").display().to_string();
        std::fs::write(&own_file, own).expect("it can be written");
        let parsed = ExperimentFile::parse_in(folder.path(), &read, &own_file, own);
        parsed.map_err(|error| error.to_string().replace(&format!("{}/", folder.path().display()), ""))
    }

    #[test]
    fn blocks_are_merged_lists_replaced_and_null_removes() {
        let own = "extends: base\ntask: { sizes: { dev: null, test: 6 } }\nseeds: [3]\noptimiser: { clip: null }\n\
                   batch: { size: 4 }\nlog_every: 5\nmodels:\n  ut: null\n  gut: { epochs: 2, optimiser: { clip: null } }\n\
                   compare: [gut]\n";
        let file = parse(own, &[("base.yaml", BASE)]).expect("valid");
        let experiment = file.resolve(None, &[]).expect("valid");
        let sizes: Vec<_> = experiment.task.sizes.iter().map(|(name, size)| (name.as_str(), *size)).collect();
        assert_eq!(sizes, [("test", 6), ("train", 8)]);
        assert_eq!((experiment.seeds, experiment.optimiser.clip, experiment.batch.size), (vec![3], None, 4));
        assert_eq!((experiment.epochs, experiment.optimiser.learning_rate), (Some(1), 0.1));
        assert_eq!(file.models().collect::<Vec<_>>(), ["gut"]);
        let gut = file.resolve(Some("gut"), &[]).expect("valid");
        assert_eq!((gut.epochs, gut.optimiser.clip), (Some(2), None));
        assert_eq!(file.compare().len(), 1);
        // `null` gives a field its default back.
        let back = parse(
            "extends: own_base.yaml\nlog_every: null\ncompare: null\n",
            &[("own_base.yaml", &own.replace("extends: base", "extends: base.yaml")), ("base.yaml", BASE)],
        );
        let back = back.expect("valid");
        assert_eq!(back.resolve(None, &[]).expect("valid").log_every, 10);
        assert!(back.compare().is_empty());
    }

    #[test]
    fn mistakes_are_placed_in_the_file_that_has_them() {
        let case = |own: &str, base: &str, expected: &str| {
            let error = parse(own, &[("base.yaml", base)]).expect_err(expected);
            assert!(error.starts_with(expected), "{error} should say {expected}");
        };
        let own = "epochs: 2\nextends: base\n";
        case(own, &BASE.replace("clip: 1", "clipp: 1"), "base.yaml:4: optimiser: unknown field `clipp`");
        case(own, &BASE.replace("size: 2", "size: 0"), "base.yaml:6: `size` must be at least 1");
        case(own, &BASE.replace("clip: 5", "clip: -5"), "base.yaml:11: `clip` must be positive");
        case(own, &BASE.replace("clip: 1", "clip: ["), "base.yaml:6: this is not an experiment in YAML");
        case("extends: base\nbatch: { size: 0 }\n", BASE, "own.yaml:2: `size` must be at least 1");
        case("extends: base\noptimiser: { clipp: null }\n", BASE, "own.yaml:2: optimiser: unknown field `clipp`");
        case("extends: base\nepochs: null\n", BASE, "own.yaml:2: `epochs` or `max_steps`");
        case("extends: base\nbaseline: tlb\n", BASE, "own.yaml:2: `baseline`: there is no entry");
        case(
            "epochs: 1\nextends: listop_smoke\n",
            BASE,
            "own.yaml:2: `extends`: there is no experiment `listop_smoke`; did you mean `listops_smoke`?",
        );
        case("extends: other.yaml\n", BASE, "own.yaml:1: `extends`: can't read other.yaml");
        case("extends: ../base.yaml\n", BASE, "own.yaml:1: `extends`: takes the name of an experiment");
        case("extends: [base]\n", BASE, "own.yaml:1: `extends`: takes the name of an experiment");
    }

    #[test]
    fn chains_end() {
        let error = parse("extends: base\n", &[("base.yaml", "epochs: 1\nextends: own\n")]).expect_err("a cycle");
        assert!(error.starts_with("base.yaml:2: `extends`: `own.yaml` extends itself"), "{error}");
        let files: Vec<(String, String)> =
            (0..MOST).map(|n| (format!("b{n}.yaml"), format!("extends: b{}\n", n + 1))).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let error = parse("extends: b0\n", &files).expect_err("too deep");
        assert!(error.starts_with("b6.yaml:1: `extends`: more than 8 experiments"), "{error}");
    }
}
