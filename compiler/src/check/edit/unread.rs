//! Bindings that lose their last reader by an edit: they would stay as weights without use.

use std::collections::{BTreeMap, BTreeSet};

use super::{all, bindings};
use crate::check::expand::StatementTree;
use crate::define::{STATE, read_names};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::source::Span;
use crate::syntax::ast::{BodyElement, BodySyntax, ExprSyntax, ValueSyntax};

/// The bindings of a model that nothing reads, by their names: the path of each, and its place.
pub(in crate::check) fn unread(tree: &StatementTree) -> BTreeMap<String, (String, Span)> {
    let (mut bound, mut read) = (BTreeMap::new(), BTreeSet::new());
    for (place, statement) in all(tree) {
        for (equation, _) in &statement.equations {
            for name in equation.names.iter().filter(|name| name.text != STATE) {
                let path = bindings::path(tree, &place, equation.form, name);
                bound.entry(name.text.clone()).or_insert((path, name.span));
            }
            of_expr(&equation.value, &mut read);
        }
    }
    for (_, statement) in all(tree).chain([(vec![], tree)]) {
        statement.fields.iter().for_each(|field| of_value(&field.value, &mut read));
    }
    bound.retain(|name, _| !read.contains(name));
    bound
}

fn of_expr(expr: &ExprSyntax, read: &mut BTreeSet<String>) {
    read_names(expr, &mut |name| {
        read.insert(name.text.clone());
    });
}

fn of_value(value: &ValueSyntax, read: &mut BTreeSet<String>) {
    match value {
        ValueSyntax::Expr(expr) => of_expr(expr, read),
        ValueSyntax::Structured(name, body) => {
            read.insert(name.text.clone());
            of_body(body, read);
        }
    }
}

fn of_body(body: &BodySyntax, read: &mut BTreeSet<String>) {
    for element in &body.elements {
        if let BodyElement::Field(field) = element {
            of_value(&field.value, read);
        }
    }
}

/// Reports what edits left without a reader, but what had none `before`.
pub(in crate::check) fn report(
    before: &BTreeMap<String, (String, Span)>,
    tree: &StatementTree,
    problems: &mut Problems,
) {
    for (name, (path, span)) in unread(tree).into_iter().filter(|(name, _)| !before.contains_key(name)) {
        let message = format!("nothing reads `{name}` after the edits");
        let help = format!("remove it, too, by its path: `remove {path}`");
        problems.report(Diagnostic::new(Kind::UnreadBinding, span, message).help(help));
    }
}
