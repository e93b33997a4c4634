//! Names of values inside one method: a name is free again after the last read of its value.

use std::collections::BTreeMap;

use rtc_compiler::ir::graph::Value;

use super::python::{identifier, is_taken};

/// Names that every method uses for something else.
const FIXED: &[&str] =
    &["given", "go", "head", "i", "j", "layer", "length", "loop", "n", "pair", "part", "rows", "self", "state"];

/// The names of a method.
#[derive(Debug, Default)]
pub(super) struct MethodScope {
    of: BTreeMap<Value, String>,
    /// The last statement that reads what stands under a name.
    held: BTreeMap<String, usize>,
}

impl MethodScope {
    /// The name of a value.
    pub(super) fn name(&self, value: Value) -> Option<&str> {
        self.of.get(&value).map(String::as_str)
    }

    /// Names a value that statement `at` makes and that is read until statement `last`.
    pub(super) fn define(&mut self, value: Value, wish: &str, at: usize, last: usize) -> String {
        let name = self.fresh(wish, at, last);
        self.of.insert(value, name.clone());
        name
    }

    /// A name that is free at statement `at`, kept until `last`.
    pub(super) fn fresh(&mut self, wish: &str, at: usize, last: usize) -> String {
        let base = identifier(wish);
        let free = |name: &String| {
            !FIXED.contains(&name.as_str()) && !is_taken(name) && self.held.get(name).is_none_or(|until| *until <= at)
        };
        let numbered = (2..).map(|n| format!("{base}_{n}"));
        let name = std::iter::once(base.clone()).chain(numbered).find(free).unwrap_or(base);
        self.held.insert(name.clone(), last);
        name
    }

    /// Keeps a name until statement `last`.
    pub(super) fn hold(&mut self, name: &str, last: usize) {
        let until = self.held.entry(name.to_owned()).or_default();
        *until = last.max(*until);
    }

    /// Whether what this name holds is read behind statement `at`.
    pub(super) fn is_held(&self, name: &str, at: usize) -> bool {
        self.held.get(name).is_some_and(|until| *until > at)
    }
}
