//! Local names: `let` constants and parameters.

use std::collections::{BTreeMap, BTreeSet};

use super::Typed;
use crate::syntax::ast;

/// A point in the text from which some names are visible; `None` sees only what the files define.
pub(crate) type ScopeId = Option<u32>;

/// All scopes. Each entry adds one name to its parent, so the scopes of a model form a tree; entries live in one
/// list, so that dropping them does not recurse.
#[derive(Default)]
pub(crate) struct Scopes {
    entries: Vec<ScopeEntry>,
    /// Values that edits give to the `let` items of files.
    pub(crate) globals: BTreeMap<String, ast::ExprSyntax>,
    /// The names that equations of the model bind, those that are written out for a definition among them.
    pub(crate) taken: BTreeSet<String>,
    /// Those of them that are functions.
    pub(crate) shared: BTreeSet<String>,
    /// The number that the next name of a kind may have.
    numbers: BTreeMap<String, usize>,
}

struct ScopeEntry {
    parent: ScopeId,
    name: String,
    bound: NameBinding,
}

/// A value of the positions.
#[derive(Clone, Debug)]
pub(crate) struct PositionValue {
    /// What the expression calls it.
    pub(crate) name: String,
    /// How many channels it has; nothing for a number per position.
    pub(crate) channels: Option<usize>,
    /// Whether it is true or false.
    pub(crate) truth: bool,
}

/// The binding of a name.
#[derive(Clone)]
pub(crate) enum NameBinding {
    /// An expression to be read in its own scope.
    Written(ast::ExprSyntax, ScopeId),
    /// An argument that is worked out; `None` if it has errors.
    Resolved(Option<Typed>),
    /// A value of the positions, which masks and biases read.
    Value(PositionValue),
}

impl Scopes {
    /// A name that no equation of the model binds: the name itself, or with a number.
    pub(crate) fn fresh(&mut self, name: &str) -> String {
        if self.taken.insert(name.to_owned()) {
            return name.to_owned();
        }
        let next = self.numbers.entry(name.to_owned()).or_insert(2);
        loop {
            let numbered = format!("{name}_{next}");
            *next += 1;
            if self.taken.insert(numbered.clone()) {
                return numbered;
            }
        }
    }

    /// The scope that knows one name more.
    pub(crate) fn bind(&mut self, parent: ScopeId, name: &str, bound: NameBinding) -> ScopeId {
        self.entries.push(ScopeEntry { parent, name: name.to_owned(), bound });
        Some(self.entries.len() as u32 - 1)
    }

    /// Gives the name that a scope added another value, read in the same place as the old one.
    pub(crate) fn rebind(&mut self, scope: ScopeId, value: ast::ExprSyntax) {
        if let Some(entry) = scope.and_then(|n| self.entries.get_mut(n as usize)) {
            entry.bound = NameBinding::Written(value, entry.parent);
        }
    }

    /// The innermost binding of a name.
    pub(crate) fn find(&self, scope: ScopeId, name: &str) -> Option<&NameBinding> {
        let mut scope = scope;
        while let Some(n) = scope {
            let entry = &self.entries[n as usize];
            if entry.name == name {
                return Some(&entry.bound);
            }
            scope = entry.parent;
        }
        None
    }

    /// Puts something else in the place of what a name of a scope is bound to.
    pub(crate) fn replace(&mut self, mut scope: ScopeId, name: &str, bound: NameBinding) {
        while let Some(n) = scope {
            let entry = &mut self.entries[n as usize];
            if entry.name == name {
                entry.bound = bound;
                return;
            }
            scope = entry.parent;
        }
    }

    /// The names visible in a scope.
    pub(crate) fn names(&self, scope: ScopeId) -> Vec<&str> {
        let (mut scope, mut names) = (scope, Vec::new());
        while let Some(n) = scope {
            names.push(self.entries[n as usize].name.as_str());
            scope = self.entries[n as usize].parent;
        }
        names
    }
}
