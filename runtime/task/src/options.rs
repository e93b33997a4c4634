//! The options of a task: declared once as data, checked against that declaration.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::unknown;

/// A whole number with bounds, declared by a task.
#[derive(Clone, Copy, Debug)]
pub struct OptionField {
    /// The name in experiments.
    pub name: &'static str,
    /// The value without one in the experiment.
    pub default: u64,
    /// Smallest value allowed.
    pub least: u64,
    /// Largest value allowed.
    pub most: u64,
    /// One line of documentation.
    pub doc: &'static str,
}

/// A field of a table of options.
pub(super) const fn option(name: &'static str, default: u64, least: u64, most: u64, doc: &'static str) -> OptionField {
    OptionField { name, default, least, most, doc }
}

/// A value as written in the experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OptionValue {
    /// A whole number.
    Integer(u64),
    /// Anything else that YAML takes for a scalar: always refused, with a message of ours.
    Other(serde_yaml::Value),
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            Self::Other(value) => f.write_str(serde_yaml::to_string(value).unwrap_or_default().trim()),
        }
    }
}

/// The complete options of a task: every declared field has a value within its bounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options(BTreeMap<&'static str, u64>);

impl Options {
    /// The value of a declared field.
    ///
    /// # Panics
    /// If the task does not declare the field, which is a mistake in the task's code.
    pub fn get(&self, name: &str) -> u64 {
        *self.0.get(name).expect("the task reads only fields that it declares")
    }
}

/// Fills in the defaults; an unknown name or a value out of bounds gives a sentence that says so.
pub fn resolve_options(
    schema: &'static [OptionField],
    given: &BTreeMap<String, OptionValue>,
) -> Result<Options, String> {
    if let Some(name) = given.keys().find(|name| schema.iter().all(|field| field.name != **name)) {
        return Err(unknown("task option", name, schema.iter().map(|field| field.name)));
    }
    let mut options = BTreeMap::new();
    for field in schema {
        let value = match given.get(field.name) {
            None => field.default,
            Some(OptionValue::Integer(value)) if (field.least..=field.most).contains(value) => *value,
            Some(value) => {
                let OptionField { name, least, most, .. } = field;
                return Err(format!("task option `{name}` must be a whole number from {least} to {most}, not {value}"));
            }
        };
        options.insert(field.name, value);
    }
    Ok(Options(options))
}
