//! Edits of equations: every binding of a body is a path, as `loop.z`, `loop.carry.z` (its start) or `loop.until`.

use super::{Editor, MOST_SHOWN, PathName, StatementPath, all, at, at_mut, candidates, path_of, walk};
use crate::check::expand::{self, Author, StatementTree};
use crate::diag::{Diagnostic, Kind, did_you_mean};
use crate::source::Span;
use crate::syntax::MAX_EXPR_TOKENS;
use crate::syntax::ast::{
    self, AddSide, BodyElement, DottedPath, Equation, EquationForm, ExprKind, ExprSyntax, ValueSyntax,
};

/// The equation that an edit replaces, where its right side reads it.
pub(in crate::check) const OLD: &str = "old";

/// An equation by the run that it stands in, and its number there.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BindingPlace {
    run: StatementPath,
    index: usize,
}

/// The answer to whether a path names a binding.
pub(super) enum Bound {
    At(BindingPlace),
    /// None has this name where the path leads.
    Not,
    /// Several have it, or not the one that is meant: this was reported.
    Refused,
}

/// The binding that the last names of a path ask for.
pub(super) struct WantedBinding<'p> {
    /// The form; any but a start where it is not said.
    form: Option<EquationForm>,
    /// The name; none for `go`, `until` and `loss`.
    name: Option<&'p ast::Name>,
    pub(super) index: Option<usize>,
    /// The statements around.
    pub(super) outer: &'p [ast::Component],
}

impl<'p> WantedBinding<'p> {
    pub(super) fn of(components: &'p [ast::Component]) -> Option<Self> {
        let (last, outer) = components.split_last()?;
        let index = last.index;
        let effects = [EquationForm::Go, EquationForm::Until, EquationForm::Loss];
        if let Some(form) = effects.into_iter().find(|form| form.word() == last.name.text) {
            return Some(Self { form: Some(form), name: None, index, outer });
        }
        let words = [EquationForm::Carry, EquationForm::Share, EquationForm::Show];
        let before = outer.split_last().filter(|(word, _)| word.index.is_none());
        let said = before.and_then(|(word, rest)| {
            words.into_iter().find(|form| form.word() == word.name.text).map(|form| (form, rest))
        });
        Some(match said {
            Some((form, outer)) => Self { form: Some(form), name: Some(&last.name), index, outer },
            None => Self { form: None, name: Some(&last.name), index, outer },
        })
    }

    /// The same inside of the outermost statement that it names.
    pub(super) fn inside(&self, outer: &'p [ast::Component]) -> Self {
        Self { outer, ..*self }
    }

    /// Whether an equation has the form and the name.
    pub(super) fn is(&self, equation: &Equation) -> bool {
        let named = self.name.is_none_or(|name| equation.names.iter().any(|own| own.text == name.text));
        named && self.form.map_or(equation.form != EquationForm::Carry && self.name.is_some(), |f| f == equation.form)
    }

    /// Whether it is this name, without a form.
    pub(super) fn is_plain(&self, text: &str) -> bool {
        self.form.is_none() && self.name.is_some_and(|name| name.text == text)
    }

    /// The same name as the start of what is carried.
    fn start(&self) -> Option<Self> {
        let start = WantedBinding { form: Some(EquationForm::Carry), ..*self };
        (self.form.is_none() && self.name.is_some()).then_some(start)
    }

    /// As a path says it.
    fn text(&self) -> String {
        let word = self.form.map_or("", EquationForm::word);
        match self.name {
            None => word.to_owned(),
            Some(name) if word.is_empty() => name.text.clone(),
            Some(name) => format!("{word}.{}", name.text),
        }
    }
}

/// The path of a name that the run of equations at a place binds.
pub(super) fn path(tree: &StatementTree, run: &[usize], form: EquationForm, name: &ast::Name) -> String {
    below(tree, run, &form.called(Some(name)))
}

/// A name of the run of equations at a place, behind the path of what is around the run.
fn below(tree: &StatementTree, run: &[usize], name: &str) -> String {
    match run.split_last() {
        Some((_, around)) if !around.is_empty() => format!("{}.{name}", path_of(tree, around)),
        _ => name.to_owned(),
    }
}

/// The right side of an equation with another one, which may read it as `old`.
///
/// # Errors
/// It would be longer than an expression may be.
pub(super) fn with_value(equation: &Equation, mut value: ExprSyntax, span: Span) -> Result<Equation, Diagnostic> {
    let one = ExprSyntax { kind: ExprKind::Int(0), span };
    let times = value.clone().put(OLD, &one);
    if times.saturating_mul(equation.value.clone().size()).saturating_add(value.size()) > MAX_EXPR_TOKENS {
        let message = format!("with what `{OLD}` stands for the expression has more than {MAX_EXPR_TOKENS} parts");
        return Err(Diagnostic::new(Kind::TooLong, value.span, message));
    }
    value.put(OLD, &equation.value);
    Ok(Equation { value, span, ..equation.clone() })
}

/// An equation in the place of another one, whose right side it may read as `old`.
///
/// # Errors
/// As of [`with_value`].
pub(super) fn in_place_of(old: &Equation, new: &Equation) -> Result<Equation, Diagnostic> {
    with_value(&Equation { value: old.value.clone(), ..new.clone() }, new.value.clone(), new.span)
}

impl Editor<'_, '_> {
    /// The statement of a path, if it names exactly one; nothing is reported.
    pub(super) fn place_of(tree: &StatementTree, components: &[ast::Component]) -> Option<StatementPath> {
        walk(tree, components).ok()
    }

    /// Whether a path names a field or a statement: these go before bindings.
    pub(super) fn names_statement(tree: &StatementTree, path: &DottedPath) -> bool {
        let Some((last, outer)) = path.components.split_last() else { return true };
        let Some(place) = Self::place_of(tree, outer) else { return false };
        let fields = at(tree, &place).feature().map_or(&[][..], |feature| &feature.fields);
        last.index.is_none() && fields.iter().any(|field| field.name == last.name.text)
            || !candidates(tree, &place, &last.name.text, !outer.is_empty()).is_empty()
    }

    /// The binding that a path names: one of the statement itself, or else of the shallowest below it.
    pub(super) fn binding(&mut self, tree: &StatementTree, path: &DottedPath) -> Bound {
        let bound = self.find_binding(tree, path);
        if let Bound::At(place) = &bound {
            self.named.extend(PathName::of(path, equation_at(tree, place)));
        }
        bound
    }

    fn find_binding(&mut self, tree: &StatementTree, path: &DottedPath) -> Bound {
        let Some(wanted) = WantedBinding::of(&path.components) else { return Bound::Not };
        let Some(around) = Self::place_of(tree, wanted.outer) else { return Bound::Not };
        let found = bound(tree, &around, |equation| wanted.is(equation));
        match (wanted.index, found.as_slice()) {
            (_, []) => self.start_instead(tree, &around, &wanted, path.span),
            (None, [only]) => Bound::At(only.clone()),
            (Some(index), several) => match index.checked_sub(1).and_then(|n| several.get(n)) {
                Some(place) => Bound::At(place.clone()),
                None => {
                    let message = format!("there is no `{}[{index}]`", wanted.text());
                    let label = format!("there are {}, counted from 1", several.len());
                    self.problems.report(Diagnostic::new(Kind::PathNotFound, path.span, message).label(label));
                    Bound::Refused
                }
            },
            (None, several) => {
                let message = format!("`{}` is bound {} times", wanted.text(), several.len());
                let mut diagnostic = Diagnostic::new(Kind::AmbiguousPath, path.span, message);
                for (n, place) in several.iter().enumerate().take(MOST_SHOWN) {
                    let label = format!("`{}[{}]`", self.path_of_binding(tree, place), n + 1);
                    diagnostic = diagnostic.note(equation_at(tree, place).span, label);
                }
                self.problems.report(diagnostic.help("say which one by its number"));
                Bound::Refused
            }
        }
    }

    /// A name that only starts where the path leads: its start is meant by `carry`.
    fn start_instead(
        &mut self,
        tree: &StatementTree,
        around: &[usize],
        wanted: &WantedBinding<'_>,
        span: Span,
    ) -> Bound {
        let Some(start) = wanted.start() else { return Bound::Not };
        let Some(place) = bound(tree, around, |equation| start.is(equation)).into_iter().next() else {
            return Bound::Not;
        };
        let name = wanted.text();
        let mut diagnostic = Diagnostic::new(Kind::PathNotFound, span, format!("`{name}` only starts here"))
            .note(equation_at(tree, &place).span, format!("`{}`", self.path_of_binding(tree, &place)));
        for (place, equation) in every(tree).into_iter().filter(|(_, equation)| wanted.is(equation)).take(MOST_SHOWN) {
            diagnostic = diagnostic.note(equation.span, format!("`{}`", self.path_of_binding(tree, &place)));
        }
        self.problems.report(diagnostic.help("name the start by `carry`, or the equation of the step by its own body"));
        Bound::Refused
    }

    /// The path that means an equation, without its number.
    fn path_of_binding(&self, tree: &StatementTree, place: &BindingPlace) -> String {
        below(tree, &place.run, &equation_at(tree, place).called())
    }

    /// `path = value`
    pub(super) fn assign(&mut self, tree: &mut StatementTree, path: &DottedPath, value: &ValueSyntax) {
        match self.binding(tree, path) {
            Bound::At(place) => self.put_value(tree, &place, value, path.span),
            Bound::Refused => {}
            Bound::Not if Self::names_statement(tree, path) => {
                let message = format!("`{}` is no binding", written(path));
                let help = "a field or a statement takes its value behind a colon: `PATH: value`";
                self.problems.report(Diagnostic::new(Kind::PathNotFound, path.span, message).help(help));
            }
            Bound::Not => self.no_such_binding(tree, path),
        }
    }

    /// Gives a binding another right side.
    pub(super) fn put_value(
        &mut self,
        tree: &mut StatementTree,
        place: &BindingPlace,
        value: &ValueSyntax,
        named: Span,
    ) {
        let mut expr = value.clone().into_expr();
        let (old, scope) = at(tree, &place.run).equations[place.index].clone();
        let Some(scope) = self.old_values(tree, &mut expr, scope) else { return };
        let span = if named.source == expr.span.source { named.to(expr.span) } else { expr.span };
        match with_value(&old, expr, span) {
            Ok(new) => at_mut(tree, &place.run).equations[place.index] = (new, scope),
            Err(problem) => self.problems.report(problem),
        }
    }

    /// A colon in the place of the `=` of an equation.
    pub(super) fn takes_equals(&mut self, tree: &StatementTree, place: &BindingPlace, path: &DottedPath) {
        let message = format!("`{}` is a binding, and no field", written(path));
        let help = format!("an equation is written with `=`: `{} = value`", written(path));
        let diagnostic = Diagnostic::new(Kind::Syntax, path.span, message);
        self.problems.report(diagnostic.note(equation_at(tree, place).span, "it is bound here").help(help));
    }

    pub(super) fn remove_binding(&self, tree: &mut StatementTree, place: &BindingPlace) {
        self.exchange(tree, place, vec![]);
    }

    /// Puts an element in the place of a binding, or beside it.
    pub(super) fn put_element(
        &mut self,
        tree: &mut StatementTree,
        place: &BindingPlace,
        element: &BodyElement,
        side: Option<AddSide>,
        author: &Author,
    ) {
        let (old, scope) = at(tree, &place.run).equations[place.index].clone();
        let mut element = element.clone();
        if let (BodyElement::Equation(equation), None) = (&mut element, side) {
            match in_place_of(&old, equation) {
                Ok(new) => *equation = new,
                Err(problem) => return self.problems.report(problem),
            }
        }
        if let (BodyElement::Equation(equation), Some(side)) = (&element, side) {
            let at = place.index + usize::from(side == AddSide::After);
            return at_mut(tree, &place.run).equations.insert(at, (equation.clone(), scope));
        }
        let new = expand::element(self.items, &element, scope, author, self.scopes, self.problems);
        match side {
            None => self.exchange(tree, place, new),
            Some(side) => {
                let mut around = new;
                let kept = at(tree, &place.run).part(place.index..=place.index);
                let end = if side == AddSide::After { 0 } else { around.len() };
                around.splice(end..end, kept);
                self.exchange(tree, place, around);
            }
        }
    }

    /// Puts statements in the place of an equation: its run ends before them, and goes on behind them.
    fn exchange(&self, tree: &mut StatementTree, place: &BindingPlace, new: Vec<StatementTree>) {
        let run = at(tree, &place.run);
        let (before, behind) = (run.part(..place.index), run.part(place.index + 1..));
        let Some((&index, parent)) = place.run.split_last() else { return };
        let all: Vec<StatementTree> = before.into_iter().chain(new).chain(behind).collect();
        at_mut(tree, parent).children.splice(index..=index, all);
    }

    /// Reports a path that names neither a statement nor a binding, with what it has instead.
    pub(super) fn no_such_binding(&mut self, tree: &StatementTree, path: &DottedPath) {
        let Some(wanted) = WantedBinding::of(&path.components) else { return };
        let Some(around) = Self::place_of(tree, wanted.outer) else {
            // A statement of the path is missing, or is one of several: that is reported.
            let _ = self.find(tree, wanted.outer);
            return;
        };
        let inside = at(tree, &around);
        if let Some(definition) = inside.feature().and_then(|f| f.definition()).filter(|d| d.is_copied()) {
            return self.of_library(definition, path.span);
        }
        let message = format!("nothing is bound as `{}` in `{}`", wanted.text(), inside.title());
        let mut diagnostic = Diagnostic::new(Kind::PathNotFound, path.span, message);
        let elsewhere: Vec<_> = every(tree).into_iter().filter(|(_, equation)| wanted.is(equation)).collect();
        let own = bound(tree, &around, |_| true);
        if !elsewhere.is_empty() {
            for (place, equation) in elsewhere.iter().take(MOST_SHOWN) {
                diagnostic = diagnostic.note(equation.span, format!("`{}`", self.path_of_binding(tree, place)));
            }
        } else if own.is_empty() {
            diagnostic = diagnostic.help(format!("`{}` binds nothing", inside.title()));
        } else {
            let names = names(tree, &around);
            diagnostic = diagnostic.label(did_you_mean(&wanted.text(), names.iter().map(String::as_str)));
            for (place, name) in own.iter().zip(&names).take(MOST_SHOWN) {
                diagnostic = diagnostic.note(equation_at(tree, place).span, format!("it binds `{name}`"));
            }
            if own.len() > MOST_SHOWN {
                let more: Vec<String> = names[MOST_SHOWN..].iter().map(|name| format!("`{name}`")).collect();
                diagnostic = diagnostic.help(format!("it also binds {}", more.join(", ")));
            }
        }
        self.problems.report(diagnostic);
    }
}

/// The text of a path.
pub(super) fn written(path: &DottedPath) -> String {
    let part = |component: &ast::Component| match component.index {
        Some(index) => format!("{}[{index}]", component.name.text),
        None => component.name.text.clone(),
    };
    path.components.iter().map(part).collect::<Vec<_>>().join(".")
}

/// Whether an equation outside all statements binds a name.
pub(super) fn is_bound(tree: &StatementTree, name: &str) -> bool {
    let runs = tree.children.iter().flat_map(|run| &run.equations);
    runs.flat_map(|(equation, _)| &equation.names).any(|bound| bound.text == name)
}

/// The names that paths call the equations of a statement by.
pub(super) fn names(tree: &StatementTree, around: &[usize]) -> Vec<String> {
    bound(tree, around, |_| true).iter().map(|place| equation_at(tree, place).called()).collect()
}

fn equation_at<'t>(tree: &'t StatementTree, place: &BindingPlace) -> &'t Equation {
    &at(tree, &place.run).equations[place.index].0
}

/// The equations of a run that stands at a path.
fn of_run<'t>(run: &'t StatementTree, path: &[usize]) -> impl Iterator<Item = (BindingPlace, &'t Equation)> {
    let path = path.to_vec();
    let place = move |index| BindingPlace { run: path.clone(), index };
    run.equations.iter().enumerate().map(move |(index, (equation, _))| (place(index), equation))
}

/// Every equation of a model.
fn every(tree: &StatementTree) -> Vec<(BindingPlace, &Equation)> {
    all(tree).flat_map(|(path, run)| of_run(run, &path).collect::<Vec<_>>()).collect()
}

/// The equations of a statement that fit, or else those of the statements below it with the fewest around them.
fn bound(tree: &StatementTree, around: &[usize], fits: impl Fn(&Equation) -> bool) -> Vec<BindingPlace> {
    let mut found: Vec<BindingPlace> = every(at(tree, around))
        .into_iter()
        .filter(|(_, equation)| fits(equation))
        .map(|(BindingPlace { run, index }, _)| BindingPlace {
            run: around.iter().copied().chain(run).collect(),
            index,
        })
        .collect();
    let depth = found.iter().map(|place| place.run.len()).min().unwrap_or(0);
    found.retain(|place| place.run.len() == depth);
    found
}
