//! Edits of definitions: the model that is edited gets a copy of its own.

use std::collections::BTreeSet;

use super::PathName;
use super::bindings::{WantedBinding, in_place_of, with_value, written};
use crate::check::Edited;
use crate::check::items::TargetModel;
use crate::diag::{Diagnostic, Kind, Problems};
use crate::source::Span;
use crate::syntax::ast::{self, AddSide, BodyElement, Def, DefElement, DottedPath, EditKind, EquationForm, ExprSyntax};

/// Files with edits of definitions, which are done before all others.
pub(in crate::check) struct EditedDefinitions {
    pub(in crate::check) files: Vec<ast::File>,
    /// The places of these edits.
    pub(in crate::check) done: BTreeSet<Span>,
    /// The names of their paths.
    pub(in crate::check) named: Vec<PathName>,
}

/// Does the edits of definitions among those of a model; none where there is none.
pub(in crate::check) fn edited(
    files: &[ast::File],
    target: &TargetModel<'_>,
    overrides: &[Edited],
    problems: &mut Problems,
) -> Option<EditedDefinitions> {
    let own = target.variants.iter().flat_map(|variant| variant.edits).map(|edit| (edit, false));
    let given = overrides.iter().filter_map(|over| over.edit.as_ref()).map(|edit| (edit, true));
    let mut changed: Option<EditedDefinitions> = None;
    for (edit, is_from_outside) in own.chain(given) {
        let now = changed.as_ref().map_or(files, |changed| &changed.files);
        if !names_equation(now, edit) {
            continue;
        }
        let begin = || EditedDefinitions { files: files.to_vec(), done: BTreeSet::new(), named: vec![] };
        let changed = changed.get_or_insert_with(begin);
        for def in definitions(&mut changed.files) {
            changed.named.extend(named(def, edit));
            apply(def, edit, is_from_outside, problems);
        }
        changed.done.insert(edit.span);
    }
    changed
}

/// Whether an edit names an equation of a definition: the path begins with its name, and one of its equations fits the rest.
fn names_equation(files: &[ast::File], edit: &ast::Edit) -> bool {
    let mut defs = files.iter().flat_map(|file| &file.items).filter_map(|item| match &item.kind {
        ast::ItemKind::Def(def) => Some(def),
        _ => None,
    });
    let Some(path) = edit.kind.path() else { return false };
    defs.any(|def| rest(def, path).is_some_and(|rest| !places(def, &rest).is_empty()))
}

fn definitions(files: &mut [ast::File]) -> impl Iterator<Item = &mut Def> {
    files.iter_mut().flat_map(|file| &mut file.items).filter_map(|item| match &mut item.kind {
        ast::ItemKind::Def(def) => Some(def),
        _ => None,
    })
}

/// The binding that the rest of a path asks for, after the name of a definition.
fn rest<'p>(def: &Def, path: &'p DottedPath) -> Option<WantedBinding<'p>> {
    let (first, rest) = path.components.split_first()?;
    let named = first.name.text == def.name.text && first.index.is_none();
    WantedBinding::of(rest).filter(|_| named)
}

/// The loop of a definition that a component of a path names, if it is the only one, or has this number.
fn loop_at(def: &Def, component: &ast::Component) -> Option<usize> {
    let is_named = |element: &DefElement| match element {
        DefElement::Statement(statement) => statement.keyword.text == component.name.text && statement.body.is_some(),
        _ => false,
    };
    let found: Vec<usize> = (0..def.elements.len()).filter(|at| is_named(&def.elements[*at])).collect();
    match (component.index, found.as_slice()) {
        (None, [only]) => Some(*only),
        (Some(n), several) => several.get(n.checked_sub(1)?).copied(),
        _ => None,
    }
}

/// The body of a loop in a definition as a definition of its own, without its fields.
fn body_of(def: &Def, at: usize) -> Option<Def> {
    let DefElement::Statement(statement) = def.elements.get(at)? else { return None };
    let element = |element: &BodyElement| match element {
        BodyElement::Let(binding) => Some(DefElement::Let(binding.clone())),
        BodyElement::Equation(equation) => Some(DefElement::Equation(equation.clone())),
        BodyElement::Statement(statement) => Some(DefElement::Statement(statement.clone())),
        BodyElement::Field(_) => None,
    };
    let elements = statement.body.iter().flat_map(|body| &body.elements).filter_map(element).collect();
    Some(Def { elements, ..def.clone() })
}

/// Puts an edited body back into its loop; fields stand first.
fn put_body(def: &mut Def, at: usize, body: Def) {
    let Some(DefElement::Statement(statement)) = def.elements.get_mut(at) else { return };
    let Some(old) = &mut statement.body else { return };
    old.elements.retain(|element| matches!(element, BodyElement::Field(_)));
    old.elements.extend(body.elements.into_iter().filter_map(|element| match element {
        DefElement::Let(binding) => Some(BodyElement::Let(binding)),
        DefElement::Equation(equation) => Some(BodyElement::Equation(equation)),
        DefElement::Statement(statement) => Some(BodyElement::Statement(statement)),
        DefElement::Setting(_) | DefElement::Out(..) => None,
    }));
}

/// The elements of a definition that are asked for; `out` is the last one.
fn places(def: &Def, wanted: &WantedBinding<'_>) -> Vec<usize> {
    if let Some((first, outer)) = wanted.outer.split_first() {
        let body = loop_at(def, first).and_then(|at| body_of(def, at));
        return body.map_or_else(Vec::new, |body| places(&body, &wanted.inside(outer)));
    }
    let fits = |element: &DefElement| match element {
        DefElement::Equation(equation) => wanted.is(equation),
        DefElement::Out(..) => wanted.is_plain("out"),
        DefElement::Let(_) | DefElement::Setting(_) | DefElement::Statement(_) => false,
    };
    def.elements.iter().enumerate().filter(|(_, element)| fits(element)).map(|(n, _)| n).collect()
}

/// The name at the end of an edit's path, if it means an equation of a definition.
fn named(def: &Def, edit: &ast::Edit) -> Option<PathName> {
    let path = edit.kind.path()?;
    let wanted = rest(def, path)?;
    match &def.elements[*places(def, &wanted).get(wanted.index.unwrap_or(1).checked_sub(1)?)?] {
        DefElement::Equation(equation) => PathName::of(path, equation),
        _ => None,
    }
}

fn apply(def: &mut Def, edit: &ast::Edit, is_from_outside: bool, problems: &mut Problems) {
    let Some(path) = edit.kind.path() else { return };
    if let Some(wanted) = rest(def, path) {
        apply_at(def, edit, (path, &wanted), is_from_outside, problems);
    }
}

fn apply_at(
    def: &mut Def,
    edit: &ast::Edit,
    (path, wanted): (&DottedPath, &WantedBinding<'_>),
    is_from_outside: bool,
    problems: &mut Problems,
) {
    if let Some((first, outer)) = wanted.outer.split_first() {
        let Some(at) = loop_at(def, first) else { return };
        let Some(mut body) = body_of(def, at) else { return };
        apply_at(&mut body, edit, (path, &wanted.inside(outer)), is_from_outside, problems);
        return put_body(def, at, body);
    }
    let found = places(def, wanted);
    let at = match (wanted.index, found.as_slice()) {
        (_, []) => return,
        (None, [only]) => *only,
        (Some(index), several) if (1..=several.len()).contains(&index) => several[index - 1],
        (Some(_), several) => {
            let message = format!("there is no `{}`", written(path));
            let label = format!("there are {}, counted from 1", several.len());
            return problems.report(Diagnostic::new(Kind::PathNotFound, path.span, message).label(label));
        }
        (None, several) => {
            let message = format!("`{}` is bound {} times", written(path), several.len());
            let mut diagnostic = Diagnostic::new(Kind::AmbiguousPath, path.span, message);
            for (n, at) in several.iter().enumerate() {
                diagnostic = diagnostic.note(def.elements[*at].span(), format!("`{}[{}]`", written(path), n + 1));
            }
            return problems.report(diagnostic.help("say which one by its number"));
        }
    };
    match &edit.kind {
        EditKind::Assign(_, value) => put(def, at, value.clone().into_expr(), edit, problems),
        EditKind::Set(_, value) if is_from_outside => put(def, at, value.clone().into_expr(), edit, problems),
        EditKind::Set(..) => {
            let message = format!("`{}` is a binding, and no field", written(path));
            let help = format!("an equation is written with `=`: `{} = value`", written(path));
            problems.report(Diagnostic::new(Kind::Syntax, path.span, message).help(help));
        }
        EditKind::Remove(_) => drop(def.elements.remove(at)),
        EditKind::Add(element, side, _) => {
            if let Some(element) = as_element(element, problems) {
                def.elements.insert(at + usize::from(*side == AddSide::After), element);
            }
        }
        EditKind::ReplaceAt(_, element) => {
            let new = match (&def.elements[at], as_element(element, problems)) {
                (DefElement::Equation(old), Some(DefElement::Equation(new))) => in_place_of(old, &new),
                (_, Some(DefElement::Equation(new))) => Ok(new),
                _ => return,
            };
            match new {
                Ok(new) => def.elements[at] = DefElement::Equation(new),
                Err(problem) => problems.report(problem),
            }
        }
        EditKind::Wrap(..) | EditKind::Tie(..) => {
            let message = format!("`{}` is a binding: it stands in no statement, and has no steps", written(path));
            let help = format!("it takes another right side: `{} = f(old)`", written(path));
            problems.report(Diagnostic::new(Kind::WrongType, path.span, message).help(help));
        }
        EditKind::Replace(_) | EditKind::Let(_) => {}
    }
}

fn put(def: &mut Def, at: usize, value: ExprSyntax, edit: &ast::Edit, problems: &mut Problems) {
    let right = |old: &ast::Equation| with_value(old, value.clone(), edit.span);
    match &mut def.elements[at] {
        DefElement::Equation(equation) => match right(equation) {
            Ok(new) => *equation = new,
            Err(problem) => problems.report(problem),
        },
        DefElement::Out(values, span) => {
            let [old] = values.as_mut_slice() else {
                let message = format!("`{}` gives {} values", def.name.text, values.len());
                let help = "edit the equations that they read";
                return problems.report(Diagnostic::new(Kind::WrongType, edit.span, message).help(help));
            };
            let equation = ast::Equation { form: EquationForm::Plain, names: vec![], value: old.clone(), span: *span };
            match right(&equation) {
                Ok(new) => *old = new.value,
                Err(problem) => problems.report(problem),
            }
        }
        DefElement::Let(_) | DefElement::Setting(_) | DefElement::Statement(_) => {}
    }
}

/// An element of an edit as one of a definition.
fn as_element(element: &BodyElement, problems: &mut Problems) -> Option<DefElement> {
    match element {
        BodyElement::Equation(equation) => Some(DefElement::Equation(equation.clone())),
        other => {
            let message = "a definition holds equations, and no statements";
            let help = "statements are applied as functions: `y = attention(x) { heads: 4 }`";
            problems.fail(Diagnostic::new(Kind::MisplacedStatement, other.span(), message).help(help))
        }
    }
}
