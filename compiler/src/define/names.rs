//! The names of a definition: each is known where it is read, and stands for one thing.

use std::collections::{BTreeMap, BTreeSet};
use std::slice::from_ref;
use std::sync::Arc;

use super::{STATE, constant, words};
use crate::diag::{Diagnostic, Kind, Problems, did_you_mean, list, same_meaning};
use crate::expr::{BinaryOp, Expr};
use crate::feature::{Feature, Slot};
use crate::ir::pointwise::Pointwise;
use crate::source::Span;
use crate::syntax::ast::{
    BodyElement, BodySyntax, Def, DefElement, Equation, EquationForm, ExprKind, ExprSyntax, Name, ValueSyntax,
};

/// Sizes, numbers and values of the model that every definition may read.
const MODEL: [&str; 3] = ["width", "classes", "tokens"];

/// Whether a name is one of them.
pub(crate) fn is_size(name: &str) -> bool {
    MODEL.contains(&name)
}

/// The length of a row, which numbers of choices read; elsewhere it is refused where the equation is worked out.
const LENGTH: &str = "length";

/// Whether a name belongs to the language, so that no definition, value or binding may take it.
pub(super) fn is_taken(name: &str) -> bool {
    [
        "width", "classes", "none", "true", "false", "and", "or", "not", "learn", "out", "show", "carry", "share",
        "when", "go", "until", "loss",
    ]
    .contains(&name)
}

/// Whether equations apply a function of this name that is no definition.
pub(super) fn is_word(name: &str) -> bool {
    Pointwise::named(name).is_some() || constant::is_function(name) || words::names().any(|word| word == name)
}

/// Whether a name has a meaning in equations without a binding: a word, a function, or a value of the model.
pub fn is_built_in(name: &str) -> bool {
    is_taken(name) || is_word(name) || MODEL.contains(&name) || [LENGTH, STATE].contains(&name)
}

/// The report of a name that stands for nothing, with the nearest of those that are known.
pub(super) fn unknown<'k>(
    name: &str,
    span: Span,
    is_statement: bool,
    known: impl IntoIterator<Item = &'k str>,
) -> Diagnostic {
    let diagnostic = Diagnostic::new(Kind::UnknownName, span, format!("`{name}` is not defined"));
    match is_statement {
        // The name nearest to a statement is so by chance.
        true => diagnostic
            .label(same_meaning(name, known))
            .help(format!("`{name}` is a statement; equations can't apply it")),
        false => diagnostic.label(did_you_mean(name, known)),
    }
}

/// The report of a value that stands for nothing, with the nearest of those that are known, or what is said of all of them. No
/// function is near: none is a value.
pub(super) fn unknown_value<'k>(
    name: &str,
    span: Span,
    is_statement: bool,
    known: impl IntoIterator<Item = &'k str>,
    all: impl FnOnce() -> String,
) -> Diagnostic {
    let diagnostic = unknown(name, span, is_statement, known.into_iter().chain(MODEL));
    if diagnostic.label.is_empty() { diagnostic.help(all()) } else { diagnostic }
}

/// The report of a name that is read above its equation; `like` is a value of the place where steps are taken.
pub(super) fn not_yet(name: &str, span: Span, equation: Span, like: Option<&str>) -> Diagnostic {
    let diagnostic = Diagnostic::new(Kind::UnknownName, span, format!("`{name}` is not defined yet"));
    let diagnostic = diagnostic.note(equation, "it gets its value here");
    let kept =
        like.map(|like| format!("; a value kept from step to step starts above: `carry {name} = zeros({like})`"));
    diagnostic.help(format!("equations are worked out from top to bottom{}", kept.unwrap_or_default()))
}

/// The names that a definition applies or hands over as functions: every name in it that is not bound.
pub(super) fn applied(def: &Def) -> BTreeSet<String> {
    let mut bound: BTreeSet<&str> = def.values.iter().map(|value| value.text.as_str()).collect();
    let mut names = BTreeSet::new();
    for element in &def.elements {
        let (values, binds): (&[ExprSyntax], &[Name]) = match element {
            DefElement::Let(binding) => (from_ref(&binding.value), from_ref(&binding.name)),
            DefElement::Equation(equation) => (from_ref(&equation.value), &equation.names),
            DefElement::Out(values, _) => (values, &[]),
            DefElement::Statement(_) => continue,
            DefElement::Setting(setting) => {
                bound.insert(&setting.name.text);
                continue;
            }
        };
        for value in values {
            every(value, &mut |name, how| {
                // A word of a setting that is called as the definition is no application of it.
                let own = matches!(how, NameUse::Word | NameUse::Position) && name.text == def.name.text;
                if how.is_function() || !own && !bound.contains(name.text.as_str()) {
                    names.insert(name.text.clone());
                }
            });
        }
        bound.extend(binds.iter().map(|name| name.text.as_str()));
    }
    names
}

/// Every name that an expression reads as a value.
pub(crate) fn read_values(expr: &ExprSyntax, found: &mut impl FnMut(&Name)) {
    every(expr, &mut |name, how| {
        if !how.is_function() {
            found(name);
        }
    });
}

/// Every name that an expression reads, as a value or as a function.
pub(crate) fn read_names(expr: &ExprSyntax, found: &mut impl FnMut(&Name)) {
    every(expr, &mut |name, _| found(name));
}

/// Every name that an expression may read from a binding, and whether it is applied as a function.
pub(crate) fn read_bindings(expr: &ExprSyntax, found: &mut impl FnMut(&Name, bool)) {
    every(expr, &mut |name, how| {
        if how != NameUse::Position {
            found(name, how.is_function());
        }
    });
}

/// The use of a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NameUse {
    /// As a value.
    Value,
    /// As a function that is applied, or handed over with its settings.
    Function,
    /// As what may be a word: in a comparison, as a setting.
    Word,
    /// As the second argument of `at`, which is always a word.
    Position,
    /// As a value in a larger expression of a setting, which may be a mask or a bias: they read positions, too, and what files name.
    OfPairs,
    /// As a function that is applied there.
    PairFunction,
}

impl NameUse {
    fn is_function(self) -> bool {
        matches!(self, Self::Function | Self::PairFunction)
    }

    fn is_of_pairs(self) -> bool {
        matches!(self, Self::OfPairs | Self::PairFunction)
    }
}

/// Every name that an expression reads.
fn every(expr: &ExprSyntax, found: &mut impl FnMut(&Name, NameUse)) {
    read(expr, NameUse::Value, found);
}

fn read(expr: &ExprSyntax, how: NameUse, found: &mut dyn FnMut(&Name, NameUse)) {
    match &expr.kind {
        ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) | ExprKind::Old(_) => {}
        ExprKind::Name(text) => found(&Name { text: text.clone(), span: expr.span }, how),
        ExprKind::Neg(x) | ExprKind::Not(x) | ExprKind::Group(x) => read(x, how, found),
        ExprKind::Binary(op, a, b) => {
            let how = if matches!(op, BinaryOp::Eq | BinaryOp::Ne) { NameUse::Word } else { NameUse::Value };
            read(a, how, found);
            read(b, how, found);
        }
        ExprKind::Call(name, args, body) => {
            found(name, NameUse::Function);
            for (n, arg) in args.iter().enumerate() {
                let how = if name.text == "at" && n == 1 { NameUse::Position } else { NameUse::Value };
                read(arg, how, found);
            }
            body.iter().for_each(|body| settings(body, found));
        }
        ExprKind::Indexed(index, call) => {
            read(index, NameUse::Value, found);
            read(call, how, found);
        }
        ExprKind::Function(name, body) => {
            found(name, NameUse::Function);
            settings(body, found);
        }
        ExprKind::Read(base, indices) => {
            read(base, NameUse::Value, found);
            indices.iter().for_each(|index| read(index, NameUse::Value, found));
        }
        ExprKind::Learn(_, sizes, body) => {
            sizes.iter().for_each(|size| read(size, NameUse::Value, found));
            body.iter().for_each(|body| settings(body, found));
        }
    }
}

fn settings(body: &BodySyntax, found: &mut dyn FnMut(&Name, NameUse)) {
    for element in &body.elements {
        let BodyElement::Field(field) = element else { continue };
        match &field.value {
            ValueSyntax::Expr(expr) => read(expr, NameUse::Word, &mut |name, how| {
                found(
                    name,
                    match how {
                        NameUse::Value => NameUse::OfPairs,
                        NameUse::Function => NameUse::PairFunction,
                        how => how,
                    },
                );
            }),
            ValueSyntax::Structured(name, body) => {
                found(name, NameUse::Function);
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
    (slots, own, of_pairs): (&[Slot], &BTreeMap<String, usize>, &BTreeSet<&str>),
    problems: &mut Problems,
) {
    let functions = functions(uses, slots);
    let mut checker = NameChecker { def, functions, own, slots, of_pairs, problems, known: BTreeMap::new() };
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
                checker.reads(&binding.value, NameUse::Value);
                checker.bind(&binding.name, true);
            }
            DefElement::Setting(setting) => checker.bind(&setting.name, false),
            DefElement::Equation(equation) => {
                let how = if equation.form == EquationForm::Share { NameUse::Function } else { NameUse::Value };
                checker.reads(&equation.value, how);
                checker.steps(equation);
                equation.names.iter().for_each(|name| checker.bind(name, true));
            }
            DefElement::Out(values, span) => {
                values.iter().for_each(|value| checker.reads(value, NameUse::Value));
                out = Some(*span);
            }
            DefElement::Statement(_) => {}
        }
    }
    if out.is_none() {
        let message = format!("`{}` has no result", def.name.text);
        let diagnostic = Diagnostic::new(Kind::MissingStatement, def.name.span, message);
        let last = def.elements.iter().rev().find_map(|element| match element {
            DefElement::Equation(equation) => equation.names.last().map(|name| name.text.as_str()),
            _ => None,
        });
        let example = last.or(def.values.first().map(|value| value.text.as_str())).unwrap_or("x");
        checker.problems.report(diagnostic.help(format!("end it with what it gives: `out {example}`")));
    }
}

/// Warns of what a definition carries and no equation changes.
pub(super) fn check_carried(def: &Def, problems: &mut Problems) {
    let of = |form: EquationForm| {
        let equations = def.elements.iter().filter_map(move |element| match element {
            DefElement::Equation(equation) if equation.form == form => Some(equation),
            _ => None,
        });
        equations.flat_map(|equation| &equation.names)
    };
    let bound: BTreeSet<&str> = of(EquationForm::Plain).map(|name| name.text.as_str()).collect();
    let unchanged = of(EquationForm::Carry).filter(|name| !bound.contains(name.text.as_str()));
    unchanged.for_each(|name| problems.report(never_changes(name)));
}

/// Returns whether something in the definition reads each of its settings, and reports the others.
pub(super) fn reads_settings(def: &Def, problems: &mut Problems) -> bool {
    let mut found: BTreeSet<String> = BTreeSet::new();
    let mut settings = vec![];
    for element in &def.elements {
        let values = match element {
            DefElement::Let(binding) => from_ref(&binding.value),
            DefElement::Equation(equation) => from_ref(&equation.value),
            DefElement::Out(values, _) => values,
            DefElement::Statement(_) => continue,
            DefElement::Setting(setting) => {
                settings.push(&setting.name);
                match &setting.default {
                    // A name of the model that is its own says nothing: `dropout: probability = dropout`.
                    Some(ValueSyntax::Expr(value))
                        if value.as_name().is_none_or(|name| name.text != setting.name.text) =>
                    {
                        from_ref(value)
                    }
                    _ => continue,
                }
            }
        };
        for value in values {
            every(value, &mut |name, _| {
                found.insert(name.text.clone());
            });
        }
    }
    settings.retain(|name| !found.contains(&name.text));
    for name in &settings {
        let message = format!("no equation reads the setting `{}`", name.text);
        let diagnostic = Diagnostic::new(Kind::IdleField, name.span, message);
        problems.report(diagnostic.help("take it out, or let an equation read it"));
    }
    settings.is_empty()
}

/// The warning of a value that is carried and never changes.
pub(super) fn never_changes(name: &Name) -> Diagnostic {
    let message = format!("`{}` is carried and never changes", name.text);
    let diagnostic = Diagnostic::new(Kind::UnchangedCarry, name.span, message).label("every step reads the start");
    diagnostic.help(format!("an equation below makes the value of the next step: `{} = ..`", name.text))
}

/// Reports names that the equations of a body may not bind. What they read is known where they are worked out.
pub(super) fn check_run(def: &Def, problems: &mut Problems) {
    for element in &def.elements {
        let DefElement::Equation(equation) = element else { continue };
        for name in equation.names.iter().filter(|name| is_taken(&name.text)) {
            let message = format!("`{}` is a name of the language", name.text);
            let diagnostic = Diagnostic::new(Kind::DuplicateName, name.span, message);
            problems.report(diagnostic.label("choose another name"));
        }
    }
}

fn is_zeros(expr: &ExprSyntax) -> bool {
    matches!(&expr.kind, ExprKind::Call(name, args, None) if name.text == "zeros" && args.len() == 1)
}

/// Whether what a definition carries can start from this: it reads the types of values and nothing else of them.
fn is_start(expr: &ExprSyntax) -> bool {
    match &expr.kind {
        ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) | ExprKind::Learn(..) => true,
        ExprKind::Neg(x) | ExprKind::Group(x) => is_start(x),
        ExprKind::Binary(_, a, b) => is_start(a) && is_start(b),
        ExprKind::Call(name, args, None) if ["zeros", "ones"].contains(&name.text.as_str()) => {
            args.iter().all(|arg| arg.as_name().is_some())
        }
        _ => false,
    }
}

/// Slots whose definitions stand in no step of a loop.
const WITHOUT_STEPS: [&str; 5] = ["leaf", "score", "pool", "readout", "head"];

struct NameChecker<'c> {
    def: &'c Def,
    /// The names of all functions that the definition may apply.
    functions: BTreeSet<&'c str>,
    /// The names of all definitions of the files: one that is applied through itself has been reported.
    own: &'c BTreeMap<String, usize>,
    slots: &'c [Slot],
    /// The names of masks, biases and constants of the files.
    of_pairs: &'c BTreeSet<&'c str>,
    problems: &'c mut Problems,
    /// What is bound so far, and where first.
    known: BTreeMap<String, Span>,
}

impl NameChecker<'_> {
    /// Reports what a definition hands on or ends where it has no steps, and a start that is none.
    fn steps(&mut self, equation: &Equation) {
        let slot = self.def.slot.as_ref().map(|slot| slot.text.as_str());
        let is_cell = slot == Some("cell");
        let misplaced = match equation.form {
            EquationForm::Carry => !self.has_steps(),
            EquationForm::Go | EquationForm::Until => is_cell || !self.has_steps(),
            _ => return,
        };
        if misplaced {
            let message =
                format!("a `{}` has no steps: `{}` has no meaning here", slot.unwrap_or(""), equation.form.word());
            self.problems.report(Diagnostic::new(Kind::MisplacedStatement, equation.span, message));
        } else if equation.form == EquationForm::Carry && is_cell && !is_zeros(&equation.value) {
            let message = "what a cell carries starts from zeros: `carry c = zeros(left)`";
            self.problems.report(Diagnostic::new(Kind::WrongType, equation.value.span, message));
        } else if equation.form == EquationForm::Carry && !is_start(&equation.value) {
            let message = "what a definition carries starts from numbers, weights, and `zeros` or `ones` of a value";
            let diagnostic = Diagnostic::new(Kind::WrongType, equation.value.span, message);
            self.problems
                .report(diagnostic.help("it is made before the first step, where the value itself is not known"));
        }
    }

    /// Whether the definition may stand in a step of a loop.
    fn has_steps(&self) -> bool {
        self.def.slot.as_ref().is_none_or(|slot| !WITHOUT_STEPS.contains(&&*slot.text))
    }

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
                Some(slot) if slot.name == "gate" => {
                    "a `gate` has the values `result` and `input`, then any that the layer before it shows".to_owned()
                }
                Some(slot) if slot.name == "score" => {
                    "a `score` has the values `left` and `right`, or `parent`, the merged node".to_owned()
                }
                Some(slot) => {
                    let word = if takes.len() == 1 { "value" } else { "values" };
                    format!("a `{}` has the {word} {}", slot.name, list(takes.iter().copied(), "and"))
                }
                None => "a definition has at least one value: `def name(x)`".to_owned(),
            };
            let diagnostic = Diagnostic::new(Kind::WrongArity, self.def.name.span, message);
            let given = match values.len() {
                0 => "here is none".to_owned(),
                1 => "here is 1".to_owned(),
                n => format!("here are {n}"),
            };
            self.problems.report(diagnostic.label(given));
        }
        if fits {
            self.by_position(slot, takes);
        }
        for value in values {
            self.bind(value, false);
        }
    }

    /// Values go by position, so none has the name of another value of the slot.
    fn by_position(&mut self, slot: Option<&Slot>, takes: &[&str]) {
        // A gate gets the values behind the second one by name.
        let counted = if slot.is_some_and(|slot| slot.name == "gate") { 2 } else { takes.len() };
        let own = self.def.values.iter().zip(takes).take(counted);
        let Some((value, is)) =
            own.clone().find(|(value, is)| value.text != **is && takes[..counted].contains(&&*value.text))
        else {
            return;
        };
        let keyword = slot.map_or("", |slot| &slot.name);
        let message = format!("`{}` is the name of another value: this one is `{is}`", value.text);
        let diagnostic = Diagnostic::new(Kind::DuplicateName, value.span, message).label("values go by position");
        let order = own.map(|(_, is)| *is).collect::<Vec<_>>().join(", ");
        let help =
            format!("a `{keyword}` has its values in this order: `({order})`; names of your own may stand there");
        self.problems.report(diagnostic.help(help));
    }

    /// Makes a name known. An equation may bind a name again; values and settings are distinct.
    fn bind(&mut self, name: &Name, again: bool) {
        if is_taken(&name.text) {
            let message = format!("`{}` is a name of the language", name.text);
            let diagnostic = Diagnostic::new(Kind::DuplicateName, name.span, message);
            self.problems.report(diagnostic.label("choose another name"));
        }
        match self.known.get(&name.text) {
            Some(first) if !again => {
                let message = format!("`{}` is a value or a setting already", name.text);
                let diagnostic = Diagnostic::new(Kind::DuplicateName, name.span, message);
                self.problems.report(diagnostic.label("choose another name").note(*first, "the first one"));
            }
            Some(_) => {}
            None => {
                self.known.insert(name.text.clone(), name.span);
            }
        }
    }

    fn reads(&mut self, expr: &ExprSyntax, how: NameUse) {
        let mut missing = vec![];
        let steps = self.has_steps();
        read(expr, how, &mut |name, how| {
            let of_pairs =
                how.is_of_pairs() && (Expr::is_of_pair(&name.text) || self.of_pairs.contains(name.text.as_str()));
            let given = match how {
                _ if of_pairs => true,
                NameUse::Function | NameUse::PairFunction => steps && name.text == "last",
                _ => MODEL.contains(&&*name.text) || name.text == LENGTH || steps && name.text == "step",
            };
            let bound = self.known.contains_key(&name.text) || given;
            let is_word = matches!(how, NameUse::Word | NameUse::Position);
            if !bound && !is_word && !self.is_function(&name.text, how) {
                missing.push((name.clone(), how));
            }
        });
        for (name, how) in missing {
            let bound = self.def.elements.iter().find_map(|element| match element {
                DefElement::Equation(equation) => {
                    let found = equation.names.iter().find(|bound| bound.text == name.text);
                    found.map(|bound| (bound, equation.form == EquationForm::Plain))
                }
                DefElement::Let(binding) => Some((&binding.name, false)).filter(|(bound, _)| bound.text == name.text),
                DefElement::Setting(setting) => {
                    Some((&setting.name, false)).filter(|(bound, _)| bound.text == name.text)
                }
                DefElement::Out(..) | DefElement::Statement(_) => None,
            });
            if let Some((bound, may_be_kept)) = bound {
                let like = self.def.values.first().filter(|_| steps && may_be_kept).map(|value| value.text.as_str());
                self.problems.report(not_yet(&name.text, name.span, bound.span, like));
                continue;
            }
            let is_statement = self.slots.iter().any(|slot| slot.name == name.text);
            let own = self.known.keys().map(String::as_str);
            let functions = self.functions.iter().copied().chain(self.own.keys().map(String::as_str));
            let of_pairs = self.of_pairs.iter().copied().filter(|_| how.is_of_pairs());
            let own = own.chain(of_pairs);
            let diagnostic = match how {
                NameUse::Function | NameUse::PairFunction => {
                    unknown(&name.text, name.span, is_statement, functions.chain(own))
                }
                _ => unknown_value(&name.text, name.span, is_statement, own, || {
                    let values = list(self.def.values.iter().map(|value| value.text.as_str()), "and");
                    let are = if self.def.values.len() == 1 { "value of `{}` is" } else { "values of `{}` are" };
                    format!("the {} {values}", are.replace("{}", &self.def.name.text))
                }),
            };
            self.problems.report(diagnostic);
        }
    }

    fn is_function(&self, name: &str, how: NameUse) -> bool {
        let constant = constant::is_function(name) && how.is_function();
        constant || self.functions.contains(name) || self.own.contains_key(name)
    }
}

fn functions<'f>(uses: &'f BTreeMap<String, Arc<Feature>>, slots: &'f [Slot]) -> BTreeSet<&'f str> {
    let applicable = Pointwise::ALL.iter().map(|func| func.def()).filter(|def| !def.torch.is_empty());
    let fixed = applicable.map(|def| def.name).chain(words::names()).map(|name| -> &'f str { name });
    let applied = slots.iter().filter(|slot| slot.feature("").is_some_and(|f| !f.values.is_empty()));
    let library = applied.map(|slot| &*slot.name);
    fixed.chain(library).chain(uses.keys().map(String::as_str)).collect()
}
