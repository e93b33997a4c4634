//! All mistakes of an experiment at once.
//!
//! The YAML reader stops at the first mistake. Each one is put right, by the name that is meant, by a value of [`RIGHT`] or by leaving the
//! field out, so that the reader finds the next one. The result of a repair is never returned: it finds further mistakes only.

use serde_yaml::{Mapping, Value};

use super::{Experiment, elsewhere};
use rtc_task::error::suggest;

/// The most mistakes that are reported at once.
const MOST: usize = 20;
/// The most names that are listed beside the one that is probably meant.
const FEW: usize = 8;

/// A right value of every required field.
const RIGHT: &str = "{ task: { name: listops }, optimiser: { learning_rate: 0.1 }, schedule: { kind: constant }, \
                     batch: { size: 1 }, max_steps: 1, evaluate: [] }";

/// A mistake of an experiment: the path of a field, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mistake {
    pub(super) path: Vec<String>,
    /// The path of the field of the same block that an unknown one is meant to be.
    meant: Option<Vec<String>>,
    pub(super) message: String,
}

/// The fields of an experiment, as far as they can be read.
pub(super) struct Repaired {
    /// The experiment with every mistake put right; `None` if one of them can't be.
    pub(super) experiment: Option<Experiment>,
    /// What was put right. Without a mistake the experiment is the one that the fields say.
    pub(super) mistakes: Vec<Mistake>,
}

impl Repaired {
    /// Reads the fields of an experiment.
    pub(super) fn read(mut fields: Mapping) -> Self {
        let right: Mapping = serde_yaml::from_str(RIGHT).expect("the text above is YAML");
        let mut mistakes: Vec<Mistake> = vec![];
        loop {
            // Read from text, because an error of the reader names the path of the field only then.
            let read = serde_yaml::to_string(&fields).and_then(|text| serde_yaml::from_str::<Experiment>(&text));
            let error = match read {
                Ok(experiment) => return Self { experiment: Some(experiment), mistakes },
                Err(error) => error,
            };
            let mut mistake = Mistake::of(&error);
            let share = Mistake::of_share(&mistake, &fields);
            let share_text = share.is_some().then(|| Value::from("10%"));
            mistake = share.unwrap_or(mistake);
            let path: Vec<&str> = mistake.path.iter().map(String::as_str).collect();
            let is_right = match &mistake.meant {
                Some(meant) => rename(&mut fields, &path, meant),
                None => repair(&mut fields, &path, share_text.as_ref().or_else(|| find(&right, &path))),
            };
            let is_new = !mistakes.iter().any(|known| known.covers(&mistake.path));
            mistakes.extend(Some(mistake).filter(|_| is_new));
            if !is_right || mistakes.len() >= MOST {
                return Self { experiment: None, mistakes };
            }
        }
    }

    /// Whether a field was put right, a field of it, or the block that it is in.
    pub(super) fn touches(&self, path: &[&str]) -> bool {
        let path: Vec<String> = path.iter().map(|key| (*key).to_owned()).collect();
        self.mistakes.iter().any(|mistake| mistake.covers(&path) || path.iter().zip(&mistake.path).all(|(a, b)| a == b))
    }
}

/// Returns the value at a path.
fn find<'a>(fields: &'a Mapping, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let value = fields.get(*first)?;
    if rest.is_empty() { Some(value) } else { find(value.as_mapping()?, rest) }
}

/// Puts a right value at a path, or leaves the field out; whether that changed anything.
fn repair(fields: &mut Mapping, path: &[&str], right: Option<&Value>) -> bool {
    let Some((first, rest)) = path.split_first() else { return false };
    if !rest.is_empty() {
        // A block that is no block is a mistake by itself.
        return fields.get_mut(*first).and_then(Value::as_mapping_mut).is_some_and(|block| repair(block, rest, right));
    }
    match right {
        Some(right) => fields.insert((*first).into(), right.clone()).as_ref() != Some(right),
        None => fields.remove(*first).is_some(),
    }
}

/// Gives the field at a path the last name of another path of the same block, or leaves it out where the block has that field.
fn rename(fields: &mut Mapping, path: &[&str], meant: &[String]) -> bool {
    match (path, meant) {
        ([wrong], [right]) => {
            let Some(value) = fields.remove(*wrong) else { return false };
            fields.entry(right.as_str().into()).or_insert(value);
            true
        }
        ([first, rest @ ..], [_, meant @ ..]) => {
            fields.get_mut(*first).and_then(Value::as_mapping_mut).is_some_and(|block| rename(block, rest, meant))
        }
        _ => false,
    }
}

impl Mistake {
    /// Whether the mistake is about this field, under its name or another, or about the block that it is in.
    fn covers(&self, path: &[String]) -> bool {
        path.starts_with(&self.path) || self.meant.as_deref() == Some(path)
    }

    /// Explains an error of the YAML reader, which reads `path.to.block: what is wrong at line 1 column 2`.
    fn of(error: &serde_yaml::Error) -> Self {
        let text = error.to_string();
        let message = in_words(text.split(" at line ").next().unwrap_or(&text));
        let (block, _) = block_of(&message);
        let keys = block.split(['.', '[']).filter(|key| !key.is_empty() && !key.ends_with(']'));
        let mut path: Vec<String> = keys.map(str::to_owned).collect();
        let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
        let Some((name, known)) = quoted.split_first() else { return Self { path, meant: None, message } };
        let near = if message.contains("unknown ") { suggest(name, known.iter().copied()) } else { None };
        let is_unknown = message.contains("unknown field");
        let home = if near.is_none() && is_unknown { elsewhere::cure(name, known) } else { None };
        let own = near.or_else(|| elsewhere::own_field(name, known)).filter(|_| is_unknown);
        let meant = own.map(|own| path.iter().cloned().chain([own.to_owned()]).collect());
        if is_unknown || message.contains("missing field") {
            path.push((*name).to_owned());
        }
        let head = message.split(", expected ").next().unwrap_or(&message);
        // The list of all fields of the block would hide the one that is meant.
        let message = match (home, near) {
            (Some(cure), _) => format!("{head}; {cure}"),
            (None, Some(near)) if known.len() > FEW => format!("{head}; did you mean `{near}`?"),
            (None, Some(near)) => format!("{head}; did you mean `{near}`? (known: {})", known.join(", ")),
            (None, None) => message,
        };
        Self { path, meant, message }
    }

    /// Explains a number in the place of a share or a file of `task.data`, if this is the mistake.
    fn of_share(mistake: &Self, fields: &Mapping) -> Option<Self> {
        let path: Vec<&str> = mistake.path.iter().map(String::as_str).collect();
        let files = find(fields, &path).filter(|_| path == ["task", "data"])?.as_mapping()?;
        let (split, number) = files.iter().find(|(_, value)| value.is_number())?;
        let (split, number) = (split.as_str()?, number.as_f64()?);
        let share = match number {
            _ if split == "train" => None,
            share if share > 0.0 && share < 1.0 => Some(100.0 * share),
            share => Some(share).filter(|share| (1.0..100.0).contains(share)),
        };
        let cure = match share {
            Some(share) => {
                format!("a share of the rows of `train` is written as `{split}: {}%`", (100.0 * share).round() / 100.0)
            }
            None => format!("name a file, in quotation marks if its name is a number: `{split}: \"{number}\"`"),
        };
        let path = path.into_iter().chain([split]).map(str::to_owned).collect();
        Some(Self { path, meant: None, message: format!("task.data.{split}: got the number {number}: {cure}") })
    }
}

/// Splits `path.to.block: what is wrong` into the path and the rest; the path is empty if there is none.
fn block_of(message: &str) -> (&str, &str) {
    match message.split_once(": ") {
        Some((block, what)) if !block.contains([' ', '`']) => (block, what),
        _ => ("", message),
    }
}

/// The message of the YAML reader with what it calls types of the program in words of the experiment.
fn in_words(message: &str) -> String {
    let (block, what) = block_of(message);
    if let Some(told) = what.strip_prefix("data did not match any variant of untagged enum ").and_then(any_form) {
        return told.to_owned();
    }
    let Some((found, expected)) = what.rsplit_once(", expected ") else { return message.to_owned() };
    let kinds = ["invalid type: ", "invalid value: ", "invalid length "];
    let Some(found) = kinds.iter().find_map(|kind| found.strip_prefix(kind)) else { return message.to_owned() };
    let (wanted, takes) = wanted(expected);
    let place = if block.is_empty() { String::new() } else { format!("{block}: ") };
    let (got, cure) = got(found, takes);
    format!("{place}expected {wanted}, got {got}{cure}")
}

/// The forms of a field that has several.
fn any_form(name: &str) -> Option<&'static str> {
    Some(match name {
        "DataSource" => "task.data: takes a folder, a file per split, or `command` with a program and its arguments",
        "Columns" => "task.input: takes a column by its name or number, or a list of two",
        "GivenColumns" => {
            "task.given: takes a column for each value that a model takes by `given`, as `{ puzzle: puzzle_id }`, or a list of values \
             that stand in columns of the same names, as `[puzzle]`"
        }
        "ClassWeights" => {
            "loss.class_weights: takes `balanced`, or weights of classes by their names, as `{ spam: 4, ham: 1 }`"
        }
        "Column" => "task.label: takes a column by its name or number",
        _ => return None,
    })
}

/// The value that a field takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExpectedValue {
    Number,
    Text,
    Other,
}

/// The expectation of the YAML reader in words of the experiment.
fn wanted(expected: &str) -> (String, ExpectedValue) {
    use ExpectedValue::{Number, Other, Text};
    let (words, takes) = match expected {
        "usize" | "u64" | "u32" => ("a whole number, 0 or more", Number),
        "i64" => ("a whole number", Number),
        "f64" => ("a number", Number),
        "a string" => ("a text", Text),
        "a boolean" => ("`true` or `false`", Other),
        "a sequence" => ("a list, as in `[a, b]`", Other),
        "a map" => ("a block of fields, as in `{ a: 1, b: 2 }`", Other),
        // The only list of this length are the decays of the moments.
        "an array of length 2" => ("a list of two numbers, as in `[0.9, 0.999]`", Other),
        block if block.starts_with("struct ") => ("a block of fields", Other),
        name if name.starts_with("enum ") => ("a name", Other),
        other => (other, Other),
    };
    (words.to_owned(), takes)
}

/// The value that the YAML reader found in words of the experiment, and the repair where its form alone is wrong.
fn got(found: &str, takes: ExpectedValue) -> (String, &'static str) {
    let quoted = || found.split('`').nth(1).unwrap_or(found);
    let plain = found.split(' ').next().unwrap_or(found);
    let (words, is_number) = match plain {
        "sequence" => ("a list".to_owned(), false),
        "map" => ("a block of fields".to_owned(), false),
        "unit" | "null" | "Option" => ("nothing".to_owned(), false),
        "integer" | "floating" => (format!("the number {}", quoted()), true),
        "boolean" => (format!("`{}`", quoted()), true),
        "string" => {
            let text = found.strip_prefix("string ").unwrap_or(found).trim_matches('"');
            (format!("the text `{text}`"), text.parse::<f64>().is_ok())
        }
        count if count.parse::<usize>().is_ok() => (format!("a list of {count}"), false),
        _ => (found.to_owned(), false),
    };
    let cure = match (takes, plain) {
        (ExpectedValue::Text, _) if is_number => ": put it in quotation marks",
        (ExpectedValue::Number, "string") if is_number => ": leave the quotation marks out",
        _ => "",
    };
    (words, cure)
}
