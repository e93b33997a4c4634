//! The names of a definition: each is known where it is read, and stands for one thing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::words;
use crate::diag::{Diagnostic, Kind, Problems, did_you_mean};
use crate::expr::BinaryOp;
use crate::feature::{Feature, Slot};
use crate::ir::pointwise::Pointwise;
use crate::syntax::ast::{Body, Def, DefElement, Element, Expr, ExprKind, Form, Name, Value};

/// Sizes and numbers of the model that every definition may read.
const MODEL: [&str; 2] = ["width", "classes"];

/// Whether a name belongs to the language, so that no definition, value or binding may take it.
pub(super) fn is_taken(name: &str) -> bool {
    MODEL.contains(&name)
        || ["none", "true", "false", "and", "or", "not", "learn", "out", "show", "carry", "share", "when"]
            .contains(&name)
}

/// The names that a definition applies or hands over as functions: every name in it that is not bound.
pub(super) fn applied(def: &Def) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for element in &def.elements {
        match element {
            DefElement::Let(binding) => every(&binding.value, &mut |name, _| {
                names.insert(name.text.clone());
            }),
            DefElement::Equation(equation) => every(&equation.value, &mut |name, _| {
                names.insert(name.text.clone());
            }),
            DefElement::Out(value, _) => every(value, &mut |name, _| {
                names.insert(name.text.clone());
            }),
            DefElement::Setting(_) => {}
        }
    }
    names
}

/// How a name is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Read {
    /// As a value.
    Value,
    /// As a function that is applied, or handed over with its settings.
    Function,
    /// As what may be a word: in a comparison, as a setting, as a place.
    Word,
}

/// Every name that an expression reads.
fn every(expr: &Expr, found: &mut impl FnMut(&Name, Read)) {
    read(expr, Read::Value, found);
}

fn read(expr: &Expr, how: Read, found: &mut impl FnMut(&Name, Read)) {
    match &expr.kind {
        ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) | ExprKind::Old(_) => {}
        ExprKind::Name(text) => found(&Name { text: text.clone(), span: expr.span }, how),
        ExprKind::Neg(x) | ExprKind::Not(x) | ExprKind::Group(x) => read(x, how, found),
        ExprKind::Binary(op, a, b) => {
            let how = if matches!(op, BinaryOp::Eq | BinaryOp::Ne) { Read::Word } else { Read::Value };
            read(a, how, found);
            read(b, how, found);
        }
        ExprKind::Call(name, args, body) => {
            found(name, Read::Function);
            for (n, arg) in args.iter().enumerate() {
                let how = if name.text == "at" && n == 1 { Read::Word } else { Read::Value };
                read(arg, how, found);
            }
            body.iter().for_each(|body| settings(body, found));
        }
        ExprKind::Function(name, body) => {
            found(name, Read::Function);
            settings(body, found);
        }
        ExprKind::Learn(_, sizes, body) => {
            sizes.iter().for_each(|size| read(size, Read::Value, found));
            body.iter().for_each(|body| settings(body, found));
        }
    }
}

fn settings(body: &Body, found: &mut impl FnMut(&Name, Read)) {
    for element in &body.elements {
        let Element::Field(field) = element else { continue };
        match &field.value {
            Value::Expr(expr) => read(expr, Read::Word, found),
            Value::Structured(name, body) => {
                found(name, Read::Function);
                settings(body, found);
            }
        }
    }
}

/// Reports names that are taken twice or not known, a definition without a result, and values that its slot does not have.
pub(super) fn check(
    def: &Def,
    slot: Option<&Slot>,
    uses: &BTreeMap<String, Arc<Feature>>,
    slots: &[Slot],
    problems: &mut Problems,
) {
    let functions = functions(uses, slots);
    let mut checker = Checker { def, functions, problems, known: BTreeSet::new() };
    checker.values(slot);
    let mut out = None;
    for element in &def.elements {
        if let Some(first) = out {
            let message = "nothing can stand behind `out`";
            let diagnostic = Diagnostic::new(Kind::MisplacedStatement, element.span(), message);
            checker.problems.report(diagnostic.note(first, "the result is given here"));
            break;
        }
        match element {
            DefElement::Let(binding) => {
                checker.reads(&binding.value);
                checker.bind(&binding.name, true);
            }
            DefElement::Setting(setting) => checker.bind(&setting.name, false),
            DefElement::Equation(equation) => {
                checker.reads(&equation.value);
                if equation.form == Form::Carry && def.slot.as_ref().is_none_or(|slot| slot.text != "cell") {
                    let message = "`carry` has no meaning here";
                    let diagnostic = Diagnostic::new(Kind::MisplacedStatement, equation.span, message);
                    checker.problems.report(diagnostic.help("only a `cell` hands values on from step to step"));
                }
                if equation.form == Form::Carry && !is_zeros(&equation.value) {
                    let message = "what a cell carries starts from zeros: `carry c = zeros(left)`";
                    checker.problems.report(Diagnostic::new(Kind::WrongType, equation.value.span, message));
                }
                equation.names.iter().for_each(|name| checker.bind(name, true));
            }
            DefElement::Out(value, span) => {
                checker.reads(value);
                out = Some(*span);
            }
        }
    }
    if out.is_none() {
        let message = format!("`{}` has no result", def.name.text);
        let diagnostic = Diagnostic::new(Kind::MissingStatement, def.name.span, message);
        checker.problems.report(diagnostic.help("end it with `out` and what it gives"));
    }
}

/// Reports names that the equations of a body may not bind. What they read is known where they are worked out.
pub(super) fn check_run(def: &Def, problems: &mut Problems) {
    for element in &def.elements {
        let DefElement::Equation(equation) = element else { continue };
        if let Form::Show | Form::Carry = equation.form {
            let message = "`show` and `carry` have no meaning in a body";
            problems.report(Diagnostic::new(Kind::MisplacedStatement, equation.span, message));
        }
        for name in equation.names.iter().filter(|name| is_taken(&name.text)) {
            let message = format!("`{}` is a name of the language", name.text);
            let diagnostic = Diagnostic::new(Kind::DuplicateName, name.span, message);
            problems.report(diagnostic.label("choose another name"));
        }
    }
}

fn is_zeros(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Call(name, args, None) if name.text == "zeros" && args.len() == 1)
}

struct Checker<'c> {
    def: &'c Def,
    /// The names of all functions that the definition may apply.
    functions: BTreeSet<String>,
    problems: &'c mut Problems,
    /// What is bound so far.
    known: BTreeSet<String>,
}

impl Checker<'_> {
    /// The values are those of the slot: a score may read the merged node alone, a gate further values that layers show.
    fn values(&mut self, slot: Option<&Slot>) {
        let values = &self.def.values;
        let takes = slot.map_or(&[][..], |slot| slot.takes);
        let fits = match self.def.slot.as_ref().map(|slot| slot.text.as_str()) {
            None => !values.is_empty(),
            Some("score") => (1..=2).contains(&values.len()),
            Some("gate") => values.len() >= 2,
            Some(_) => values.len() == takes.len(),
        };
        if !fits {
            let message = match slot.filter(|_| self.def.slot.is_some()) {
                Some(slot) => format!("a definition of `{}` takes {}", slot.name, takes.join(", ")),
                None => "a definition takes at least one value".to_owned(),
            };
            let diagnostic = Diagnostic::new(Kind::WrongArity, self.def.name.span, message);
            let given = format!(
                "here {} given",
                if values.len() == 1 { "1 is".to_owned() } else { format!("{} are", values.len()) }
            );
            self.problems.report(diagnostic.label(given));
        }
        for value in values {
            self.bind(value, false);
        }
    }

    /// Makes a name known. An equation may bind a name again; values and settings are distinct.
    fn bind(&mut self, name: &Name, again: bool) {
        if is_taken(&name.text) {
            let message = format!("`{}` is a name of the language", name.text);
            let diagnostic = Diagnostic::new(Kind::DuplicateName, name.span, message);
            self.problems.report(diagnostic.label("choose another name"));
            return;
        }
        if !self.known.insert(name.text.clone()) && !again {
            let message = format!("`{}` is a value or a setting already", name.text);
            let diagnostic = Diagnostic::new(Kind::DuplicateName, name.span, message);
            self.problems.report(diagnostic.label("choose another name"));
        }
    }

    fn reads(&mut self, expr: &Expr) {
        let mut unknown = vec![];
        every(expr, &mut |name, how| {
            let bound = self.known.contains(&name.text) || how != Read::Function && MODEL.contains(&&*name.text);
            if !bound && how != Read::Word && !self.is_function(&name.text, how) {
                unknown.push((name.clone(), how));
            }
        });
        for (name, how) in unknown {
            let hint = self.hint(&name.text, how);
            let message = format!("`{}` is not defined", name.text);
            self.problems.report(Diagnostic::new(Kind::UnknownName, name.span, message).label(hint));
        }
    }

    fn is_function(&self, name: &str, how: Read) -> bool {
        let constant = ["sqrt", "log", "exp", "abs", "floor", "min", "max"].contains(&name) && how == Read::Function;
        constant || self.functions.contains(name)
    }

    fn hint(&self, name: &str, how: Read) -> String {
        let known = self.known.iter().map(String::as_str).filter(|_| how == Read::Value);
        did_you_mean(name, known.chain(MODEL).chain(self.functions.iter().map(String::as_str)))
    }
}

fn functions(uses: &BTreeMap<String, Arc<Feature>>, slots: &[Slot]) -> BTreeSet<String> {
    let pointwise =
        Pointwise::ALL.iter().map(|func| func.def()).filter(|def| !def.torch.is_empty()).map(|def| def.name);
    let applied = slots.iter().filter(|slot| slot.feature("").is_some_and(|f| !f.values.is_empty()));
    let library = applied.map(|slot| slot.name.to_string());
    pointwise.chain(words::names()).map(str::to_owned).chain(library).chain(uses.keys().cloned()).collect()
}
