//! Values at which a trained model is measured, one edit after the other: `rtc eval --sweep`, and `evaluate_at` of an experiment.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most values of a sweep.
pub const MOST_VALUES: usize = 1000;

/// A path of a model, and the values that edits give it.
#[derive(Clone, Debug, PartialEq)]
pub struct EditSweep {
    /// The path, as `loop.steps`.
    pub path: String,
    /// The values as edits have them, at least one.
    pub values: Vec<String>,
}

const FORM: &str = "a path and its values, as `loop.steps=1..16` or `loop.steps=1,2,4,8`";

impl EditSweep {
    /// Reads `PATH=1..16`, `PATH=1..4,8,16` or `PATH=[1, 2, 4]`. A value may be any that an edit takes.
    ///
    /// # Errors
    /// A sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (path, values) = text.split_once('=').filter(|(path, _)| !path.trim().is_empty()).ok_or(FORM)?;
        let values = values.trim();
        let listed = values.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(values);
        Self::of(path, outside_brackets(listed, &[',']))
    }

    /// The same of a list, each of whose parts is a value or a range of whole numbers.
    ///
    /// # Errors
    /// A sentence.
    pub(super) fn of(path: &str, parts: Vec<String>) -> Result<Self, String> {
        let mut values = vec![];
        for part in parts {
            match range(&part)? {
                Some(numbers) => values.extend(numbers),
                None => values.push(part),
            }
        }
        if values.is_empty() || values.iter().any(String::is_empty) {
            return Err(format!("a value is missing: write {FORM}"));
        }
        if values.len() > MOST_VALUES {
            return Err(format!("{} values are more than {MOST_VALUES}", values.len()));
        }
        Ok(Self { path: path.trim().to_owned(), values })
    }

    /// The edit that gives the path a value.
    pub fn edit(&self, value: &str) -> String {
        format!("{} = {value}", self.path)
    }
}

/// The whole numbers of `1..16`, both ends among them; nothing of any other text.
fn range(text: &str) -> Result<Option<Vec<String>>, String> {
    let end = |text: &str| text.trim().parse::<u32>().ok();
    let ends = text.split_once("..").and_then(|(low, high)| Some((end(low)?, end(high)?)));
    let Some((low, high)) = ends else { return Ok(None) };
    if low > high {
        return Err(format!("`{text}` has no number: the first end is the smaller one"));
    }
    if (high - low) as usize >= MOST_VALUES {
        return Err(format!("`{text}` has more than {MOST_VALUES} numbers"));
    }
    Ok(Some((low..=high).map(|n| n.to_string()).collect()))
}

/// The trimmed parts of a text between characters that separate, as far as they stand outside of brackets.
pub fn outside_brackets(text: &str, separators: &[char]) -> Vec<String> {
    let mut depth = 0_usize;
    let separates = |c: char| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        separators.contains(&c) && depth == 0
    };
    text.split(separates).map(|part| part.trim().to_owned()).collect()
}

/// The values at which the trained models of a grid are measured again, by path: `{ loop.steps: [1, 2, 4, 8, 16] }`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct EvaluateAt(BTreeMap<String, EditedValues>);

/// One value or range, or several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum EditedValues {
    One(EditedValue),
    Several(Vec<EditedValue>),
}

/// A value of an edit; a text may be a range, as `1..16`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum EditedValue {
    Truth(bool),
    Whole(i64),
    Number(f64),
    Text(String),
}

impl EvaluateAt {
    /// Whether nothing is measured again.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The sweeps in the order of their paths.
    ///
    /// # Errors
    /// A sentence about values that are none.
    pub fn sweeps(&self) -> Result<Vec<EditSweep>, String> {
        let text = |value: &EditedValue| match value {
            EditedValue::Truth(truth) => truth.to_string(),
            EditedValue::Whole(number) => number.to_string(),
            EditedValue::Number(number) => number.to_string(),
            EditedValue::Text(text) => text.trim().to_owned(),
        };
        let one = |(path, values): (&String, &EditedValues)| {
            let parts = match values {
                EditedValues::One(value) => vec![text(value)],
                EditedValues::Several(values) => values.iter().map(text).collect(),
            };
            EditSweep::of(path, parts).map_err(|why| format!("`evaluate_at`: `{path}`: {why}"))
        };
        self.0.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_are_ranges_lists_and_words() {
        let values = |text: &str| EditSweep::parse(text).map(|sweep| sweep.values.join("|"));
        assert_eq!(values("loop.steps=1..4"), Ok("1|2|3|4".to_owned()));
        assert_eq!(values("loop.steps = [1, 2,4]"), Ok("1|2|4".to_owned()));
        assert_eq!(
            values("gate=none,mlp { hidden: 4, bias: false }"),
            Ok("none|mlp { hidden: 4, bias: false }".to_owned())
        );
        assert_eq!(values("loop.until=sure > 0, max(sure, 1) > 0"), Ok("sure > 0|max(sure, 1) > 0".to_owned()));
        assert_eq!(values("x=3..3"), Ok("3".to_owned()));
        assert_eq!(values("x=1..3, 8,15..16"), Ok("1|2|3|8|15|16".to_owned()));
        for wrong in ["loop.steps", "=1..3", "x=", "x=1,,2", "x=3..1", "x=1,3..1", "x=0..4294967295", "x=0..1000"] {
            assert!(EditSweep::parse(wrong).is_err(), "{wrong}");
        }
        assert!(EditSweep::parse("x=1..1000").is_ok());
    }

    #[test]
    fn values_of_an_experiment_are_numbers_words_and_ranges() {
        let read = |text: &str| serde_yaml::from_str::<EvaluateAt>(text).expect("YAML").sweeps();
        let found = read("{ loop.steps: [1, 2..4, 0.5], gate: [none, true] }").expect("valid");
        assert_eq!(found.iter().map(|sweep| sweep.values.join("|")).collect::<Vec<_>>(), ["none|true", "1|2|3|4|0.5"]);
        assert_eq!(found[1].edit("2"), "loop.steps = 2");
        assert_eq!(read("{ a: 1..3 }").map(|found| found[0].values.join("|")), Ok("1|2|3".to_owned()));
        for wrong in ["{ a: [] }", "{ a: [4..1] }", "{ a: ['']}"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert_eq!(serde_yaml::from_str::<EvaluateAt>("{}").map(|at| at.is_empty()).ok(), Some(true));
    }
}
