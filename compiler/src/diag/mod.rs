//! Problems found in a spec: what is wrong, where, and what would be right.

mod kinds;
mod render;
mod suggest;
mod table;

use std::collections::BTreeSet;

pub use kinds::{Kind, Severity, explain, markdown};
pub use render::{Style, json, render};
pub(crate) use suggest::function_named;
pub use suggest::{closest, did_you_mean, distance, list, same_meaning, suggested};

use crate::source::Span;

/// One problem.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// What sort of problem it is.
    pub kind: Kind,
    /// One sentence that names the things involved.
    pub message: String,
    /// The offending text; `None` for problems of the command line (an unknown target).
    pub span: Option<Span>,
    /// What stands under the offending text: what was expected, or a suggestion.
    pub label: String,
    /// Other places that matter, each with its label.
    pub notes: Vec<(Span, String)>,
    /// What can be done about it.
    pub help: Vec<String>,
}

impl Diagnostic {
    /// A problem at a place.
    pub fn new(kind: Kind, span: Span, message: impl Into<String>) -> Self {
        Self { span: Some(span), ..Self::nowhere(kind, message) }
    }

    /// A problem that has no place in any text.
    pub fn nowhere(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), span: None, label: String::new(), notes: Vec::new(), help: Vec::new() }
    }

    /// With a label under the offending text.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// With another place.
    pub fn note(mut self, span: Span, label: impl Into<String>) -> Self {
        self.notes.push((span, label.into()));
        self
    }

    /// With a line of help; an empty text adds nothing.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        let help = help.into();
        if !help.is_empty() {
            self.help.push(help);
        }
        self
    }
}

/// Problems are collected, so that one run shows all of them.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    list: Vec<Diagnostic>,
}

impl Problems {
    /// The most problems that are kept; a file with more has one cause that repeats.
    pub const MOST: usize = 200;

    /// Adds a problem. The same one may be met twice (in a model and in its variant, where a definition is written and where it
    /// is used) and is kept once.
    pub fn report(&mut self, diagnostic: Diagnostic) {
        let is_same =
            |d: &Diagnostic| (d.kind, d.span, &d.message) == (diagnostic.kind, diagnostic.span, &diagnostic.message);
        if self.list.len() < Self::MOST && !self.list.iter().any(is_same) {
            self.list.push(diagnostic);
        }
    }

    /// Adds a problem that leaves no value.
    pub(crate) fn fail<T>(&mut self, diagnostic: Diagnostic) -> Option<T> {
        self.report(diagnostic);
        None
    }

    /// Adds all problems of another collection.
    pub fn extend(&mut self, other: Problems) {
        for diagnostic in other.list {
            self.report(diagnostic);
        }
    }

    /// Puts the problems in the order of the text: those without a place first.
    pub fn sort(&mut self) {
        self.list.sort_by_key(|d| (d.span, d.kind));
    }

    /// The problems in order.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether any of them is an error.
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|d| d.kind.severity() == Severity::Error)
    }

    /// The kinds met.
    pub fn kinds(&self) -> BTreeSet<Kind> {
        self.list.iter().map(|d| d.kind).collect()
    }
}
