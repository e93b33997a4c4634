//! Definitions that hold loops or give several values: their equations are written out where an equation of a body applies one.
//!
//! `a, b = f(x, y) { n: 4 }` becomes the equations and loops of `f`, and one equation per result. Settings are constants there. A name that
//! `f` binds keeps its name, with a number where the model has it already. So weights, paths of edits, and what a run keeps of its spec are
//! those of a model without the definition.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::expand::{Expander, StatementTree};
use super::items::distinct;
use crate::define::{read_names, read_values};
use crate::diag::{Diagnostic, Kind, Problems, did_you_mean, list};
use crate::expr::BinaryOp;
use crate::resolve::{NameBinding, ScopeId, wrong_arity};
use crate::schema::FieldKind;
use crate::source::Span;
use crate::syntax::MAX_NESTING;
use crate::syntax::ast::{
    BodyElement, BodySyntax, Declaration, Def, DefElement, Equation, EquationForm, ExprKind, ExprSyntax, File,
    ItemKind, Let, Name, Statement, ValueSyntax,
};

/// The statement that a definition may hold.
const LOOP: &str = "loop";

/// The definitions of some files that are written out: those that hold a loop or give several values, and those that apply one.
pub(super) fn definitions<'a>(files: &'a [File], problems: &mut Problems) -> BTreeMap<&'a str, &'a Def> {
    let all = files.iter().flat_map(|file| &file.items).filter_map(|item| match &item.kind {
        ItemKind::Def(def) => Some(def),
        _ => None,
    });
    let mut found: BTreeMap<&str, &Def> = BTreeMap::new();
    loop {
        let before = found.len();
        for def in all.clone().filter(|def| def.slot.is_none() || holds(def)) {
            if !found.contains_key(def.name.text.as_str()) && (holds(def) || applies(def, &found)) {
                found.insert(&def.name.text, def);
            }
        }
        if found.len() == before {
            break;
        }
    }
    found.values().for_each(|def| check(def, problems));
    found
}

/// Whether a definition holds a statement or gives several values.
fn holds(def: &Def) -> bool {
    def.elements.iter().any(|element| match element {
        DefElement::Statement(_) => true,
        DefElement::Out(values, _) => values.len() > 1,
        _ => false,
    })
}

fn applies(def: &Def, known: &BTreeMap<&str, &Def>) -> bool {
    let mut found = false;
    for element in &def.elements {
        let values = match element {
            DefElement::Equation(equation) => std::slice::from_ref(&equation.value),
            DefElement::Out(values, _) => values,
            _ => continue,
        };
        let mut read = |name: &Name| found |= known.contains_key(name.text.as_str());
        values.iter().for_each(|value| read_names(value, &mut read));
    }
    found
}

/// Reports what no such definition may have, whether it is applied or not.
fn check(def: &Def, problems: &mut Problems) {
    distinct(&def.values, problems);
    let bound = bound_in(def);
    for element in &def.elements {
        if let DefElement::Setting(Declaration { name, .. }) | DefElement::Let(Let { name, .. }) = element
            && bound.contains(&name.text)
        {
            let message = format!("`{}` is a constant, and bound by an equation too", name.text);
            let problem = Diagnostic::new(Kind::DuplicateName, name.span, message);
            problems.report(problem.label("choose another name for one of them"));
        }
    }
    if let Some(slot) = &def.slot {
        let message = format!("a definition of `{}` gives one value by equations", slot.text);
        let help = "only a function may hold loops or give several values: `def name(x) { .. }`";
        problems.report(Diagnostic::new(Kind::MisplacedStatement, slot.span, message).help(help));
    }
    for element in &def.elements {
        if let DefElement::Statement(statement) = element {
            check_statement(statement, problems);
        }
    }
    let mut bound = def.elements.iter().filter_map(|element| match element {
        DefElement::Equation(equation) => equation.names.iter().find(|name| name.text == STATE),
        _ => None,
    });
    if let Some(name) = bound.next() {
        let message = "a definition has no `state`";
        let help = "it gives its result by `out`: choose another name";
        problems.report(Diagnostic::new(Kind::MisplacedStatement, name.span, message).help(help));
    }
    if !matches!(def.elements.last(), Some(DefElement::Out(..))) {
        let message = format!("`{}` has no result", def.name.text);
        let help = "end it with what it gives: `out x`, or `out x, y`";
        problems.report(Diagnostic::new(Kind::MissingStatement, def.name.span, message).help(help));
    }
}

/// The running state of a model, which definitions neither read nor change.
const STATE: &str = "state";

fn check_statement(statement: &Statement, problems: &mut Problems) {
    if statement.keyword.text != LOOP {
        let message = format!("a definition holds equations and loops, and no `{}`", statement.keyword.text);
        let help = match statement.keyword.text.as_str() {
            "stack" => "`loop { steps: 3, tied: false }` has weights of its own for every step",
            _ => "layers are applied as functions: `y = attention(x) { heads: 4 }`",
        };
        problems.report(Diagnostic::new(Kind::MisplacedStatement, statement.head(), message).help(help));
    }
    for element in statement.body.iter().flat_map(|body| &body.elements) {
        if let BodyElement::Statement(inner) = element {
            check_statement(inner, problems);
        }
    }
}

/// The names that the equations of a body and of those inside it bind.
pub(super) fn bound(elements: &[BodyElement], found: &mut BTreeSet<String>) {
    for element in elements {
        match element {
            BodyElement::Equation(equation) => found.extend(equation.names.iter().map(|name| name.text.clone())),
            BodyElement::Let(binding) => drop(found.insert(binding.name.text.clone())),
            BodyElement::Statement(Statement { body: Some(body), .. }) => bound(&body.elements, found),
            BodyElement::Statement(_) | BodyElement::Field(_) => {}
        }
    }
}

/// The names of functions that a body and those inside it share.
pub(super) fn shared(elements: &[BodyElement], found: &mut BTreeSet<String>) {
    for element in elements {
        match element {
            BodyElement::Equation(equation) if equation.form == EquationForm::Share => {
                found.extend(equation.names.iter().map(|name| name.text.clone()));
            }
            BodyElement::Statement(Statement { body: Some(body), .. }) => shared(&body.elements, found),
            _ => {}
        }
    }
}

/// The names that the equations of a definition bind, and those of its values.
fn bound_in(def: &Def) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = def.values.iter().map(|name| name.text.clone()).collect();
    for element in &def.elements {
        match element {
            DefElement::Equation(equation) => found.extend(equation.names.iter().map(|name| name.text.clone())),
            DefElement::Statement(Statement { body: Some(body), .. }) => bound(&body.elements, &mut found),
            _ => {}
        }
    }
    found
}

/// The names that the equations of a definition bind, each with the form of one of them.
fn equations_of(def: &Def) -> BTreeMap<String, EquationForm> {
    fn inside(elements: &[BodyElement], found: &mut BTreeMap<String, EquationForm>) {
        for element in elements {
            match element {
                BodyElement::Equation(equation) => note(equation, found),
                BodyElement::Statement(Statement { body: Some(body), .. }) => inside(&body.elements, found),
                _ => {}
            }
        }
    }
    fn note(equation: &Equation, found: &mut BTreeMap<String, EquationForm>) {
        found.extend(equation.names.iter().map(|name| (name.text.clone(), equation.form)));
    }
    let mut found = BTreeMap::new();
    for element in &def.elements {
        match element {
            DefElement::Equation(equation) => note(equation, &mut found),
            DefElement::Statement(Statement { body: Some(body), .. }) => inside(&body.elements, &mut found),
            _ => {}
        }
    }
    found
}

/// What the names of a definition become where it is written out.
#[derive(Default)]
struct NewNames {
    values: BTreeMap<String, String>,
    /// Names of the model that it would read, which it does not know.
    foreign: RefCell<Vec<Name>>,
    functions: BTreeMap<String, String>,
    /// The words that settings have here.
    words: BTreeMap<String, String>,
}

impl NewNames {
    /// Whether a setting that is a word is the word that it is compared with.
    fn compared(&self, a: &ExprSyntax, b: &ExprSyntax) -> Option<bool> {
        let (a, b) = (a.as_name()?.text, b.as_name()?.text);
        match (self.words.get(&a), self.words.get(&b)) {
            (Some(word), None) => Some(*word == b),
            (None, Some(word)) => Some(*word == a),
            (Some(one), Some(other)) => Some(one == other),
            (None, None) => None,
        }
    }
}

/// A call that is written out.
struct WrittenCall<'e> {
    equation: &'e Equation,
    name: &'e Name,
    args: &'e [ExprSyntax],
    settings: Option<&'e BodySyntax>,
    scope: ScopeId,
}

impl Expander<'_, '_> {
    /// Writes an equation out if it applies such a definition. One that stands inside of an expression is reported.
    pub(super) fn is_written_out(&mut self, tree: &mut StatementTree, equation: &Equation, scope: ScopeId) -> bool {
        let known = |name: &str| self.items.written_out(name).is_some();
        // A value may have the name of a definition.
        let mut values: BTreeSet<Span> = BTreeSet::new();
        read_values(&equation.value, &mut |name| {
            values.extend(self.scopes.taken.contains(&name.text).then_some(name.span))
        });
        let mut applied: Vec<Name> = vec![];
        read_names(&equation.value, &mut |name| {
            applied.extend((known(&name.text) && !values.contains(&name.span)).then(|| name.clone()));
        });
        let Some(first) = applied.first() else { return false };
        match &equation.value.kind {
            ExprKind::Call(name, args, settings)
                if equation.form == EquationForm::Plain && applied.len() == 1 && known(&name.text) =>
            {
                let call = WrittenCall { equation, name, args, settings: settings.as_ref(), scope };
                self.write_out(tree, &call);
            }
            kind => {
                let is_whole = matches!(kind, ExprKind::Call(name, ..) if name.text == first.text);
                let first = applied.iter().filter(|_| is_whole).nth(1).unwrap_or(first);
                let message = format!("`{}` holds a loop or gives several values, and stands alone", first.text);
                let help =
                    format!("bind what it gives by an equation of its own, `y = {}(..)`, and read `y`", first.text);
                self.problems.report(Diagnostic::new(Kind::MisplacedStatement, first.span, message).help(help));
            }
        }
        true
    }

    fn write_out(&mut self, tree: &mut StatementTree, call: &WrittenCall<'_>) {
        let WrittenCall { equation, name, args, scope, .. } = *call;
        let Some(def) = self.items.written_out(&name.text) else { return };
        if def.values.len() != args.len() {
            let problem = wrong_arity(&name.text, def.values.len(), args.len(), name.span, Some(def.name.span));
            return self.problems.report(problem);
        }
        let Some(DefElement::Out(results, out)) = def.elements.last() else { return };
        if results.len() != equation.names.len() {
            let values = |n: usize| if n == 1 { "1 value".to_owned() } else { format!("{n} values") };
            let message = format!(
                "`{}` gives {}, and {} a name here",
                name.text,
                values(results.len()),
                if equation.names.len() == 1 { "1 has".to_owned() } else { format!("{} have", equation.names.len()) }
            );
            let help = format!("write `{} = {}(..)`", vec!["name"; results.len()].join(", "), name.text);
            return self
                .problems
                .report(Diagnostic::new(Kind::WrongArity, equation.span, message).note(*out, "given here").help(help));
        }
        if self.active.contains(&name.text) {
            let help = format!("the chain: {} -> {}", self.active.join(" -> "), name.text);
            let message = format!("`{}` is defined through itself", name.text);
            return self.problems.report(Diagnostic::new(Kind::CyclicDefinition, name.span, message).help(help));
        }
        if self.active.len() >= MAX_NESTING {
            let message = format!("definitions with loops stand more than {MAX_NESTING} deep in each other");
            return self.problems.report(Diagnostic::new(Kind::TooDeep, self.outermost.unwrap_or(name.span), message));
        }
        if self.active.is_empty() {
            self.outermost = Some(equation.span);
        }
        self.active.push(name.text.clone());
        let (outer_scope, outer_lets) = (tree.scope, tree.lets.clone());
        let mut renaming = NewNames::default();
        let (bound, rebound) = (bound_in(def), equations_of(def));
        for bound in bound {
            let fresh = self.scopes.fresh(&bound);
            if rebound.get(&bound) == Some(&EquationForm::Share) {
                renaming.functions.insert(bound.clone(), fresh.clone());
                self.scopes.shared.insert(fresh.clone());
            }
            renaming.values.insert(bound, fresh);
        }
        for (value, arg) in def.values.iter().zip(args) {
            // A value that an equation changes, there or here, is a copy.
            let is_kept = |name: &Name| {
                equation.names.iter().all(|result| result.text != name.text) && !rebound.contains_key(&value.text)
            };
            match arg.as_name().filter(is_kept) {
                Some(name) => drop(renaming.values.insert(value.text.clone(), name.text)),
                None => {
                    let names = vec![Name { text: renaming.values[&value.text].clone(), span: value.span }];
                    let equation = Equation { form: EquationForm::Plain, names, value: arg.clone(), span: arg.span };
                    self.equation(tree, &equation, scope);
                }
            }
        }
        // No equation may bind the name of a constant: it would hide it.
        for element in &def.elements {
            let name = match element {
                DefElement::Setting(setting) if setting.kind.text != "fn" => &setting.name,
                DefElement::Let(binding) => &binding.name,
                _ => continue,
            };
            renaming.values.insert(name.text.clone(), self.scopes.fresh(&name.text));
        }
        let inner = self.settings(tree, def, call, &mut renaming);
        self.body_of(tree, def, inner, &renaming);
        for (result, value) in equation.names.iter().zip(results) {
            let value = self.renamed(value, &renaming);
            if value.as_name().is_none_or(|name| name.text != result.text) {
                let names = vec![result.clone()];
                self.equation(tree, &Equation { form: EquationForm::Plain, names, value, span: equation.span }, inner);
            }
        }
        for foreign in renaming.foreign.take() {
            let message = format!("`{}` is not defined in `{}`", foreign.text, name.text);
            let help =
                "a definition reads its values, its settings and the sizes of the model: hand it over as a value";
            self.problems.report(Diagnostic::new(Kind::UnknownName, foreign.span, message).help(help));
        }
        (tree.scope, tree.lets) = (outer_scope, outer_lets);
        self.active.pop();
        if self.active.is_empty() {
            self.outermost = None;
        }
    }

    /// Binds the settings of a definition as constants, and functions among them as functions of the body.
    fn settings(
        &mut self,
        tree: &mut StatementTree,
        def: &Def,
        call: &WrittenCall<'_>,
        renaming: &mut NewNames,
    ) -> ScopeId {
        let declared: Vec<&Declaration> = def
            .elements
            .iter()
            .filter_map(|element| match element {
                DefElement::Setting(setting) => Some(setting),
                _ => None,
            })
            .collect();
        let mut given: BTreeMap<&str, &ValueSyntax> = BTreeMap::new();
        for element in call.settings.iter().flat_map(|body| &body.elements) {
            let BodyElement::Field(field) = element else { continue };
            let name = &field.name;
            if declared.iter().all(|setting| setting.name.text != name.text) {
                let label = did_you_mean(&name.text, declared.iter().map(|setting| setting.name.text.as_str()));
                let message = format!("`{}` has no setting `{}`", def.name.text, name.text);
                self.problems.report(Diagnostic::new(Kind::UnknownField, name.span, message).label(label));
            } else if given.insert(&name.text, &field.value).is_some() {
                let message = format!("`{}` is set twice", name.text);
                self.problems.report(Diagnostic::new(Kind::DuplicateField, name.span, message));
            }
        }
        let mut inner: ScopeId = None;
        for setting in declared {
            let own = given.get(setting.name.text.as_str()).map(|value| ((*value).clone(), call.scope));
            let default = || Some((self.renamed_value(setting.default.as_ref()?, renaming), inner));
            let Some((value, scope)) = own.or_else(default) else {
                let message = format!("`{}` needs the setting `{}`", def.name.text, setting.name.text);
                let problem = Diagnostic::new(Kind::MissingField, call.name.span, message);
                self.problems.report(problem.note(setting.span, "declared here"));
                continue;
            };
            if setting.kind.text == "fn" {
                self.function(tree, setting, (&value, scope), renaming);
                continue;
            }
            let ValueSyntax::Expr(expr) = &value else {
                let message = format!("`{}` takes no function", setting.name.text);
                self.problems.report(Diagnostic::new(Kind::WrongType, value.span(), message));
                continue;
            };
            if setting.kind.text == "word" {
                let word = self.word(setting, expr, scope);
                renaming.words.extend(word.map(|word| (setting.name.text.clone(), word)));
            }
            let name = &renaming.values[&setting.name.text];
            inner = self.scopes.bind(inner, name, NameBinding::Written(expr.clone(), scope));
        }
        inner
    }

    /// A setting that is a function: its name, or a function with settings of its own, which the body shares.
    fn function(
        &mut self,
        tree: &mut StatementTree,
        setting: &Declaration,
        (value, scope): (&ValueSyntax, ScopeId),
        renaming: &mut NewNames,
    ) {
        let name = match value {
            ValueSyntax::Expr(expr) if expr.as_name().is_some() => expr.as_name().map(|name| name.text),
            _ => None,
        };
        let name = name.unwrap_or_else(|| {
            let fresh = self.scopes.fresh(&setting.name.text);
            let names = vec![Name { text: fresh.clone(), span: setting.name.span }];
            let (form, span) = (EquationForm::Share, value.span());
            self.equation(tree, &Equation { form, names, value: value.clone().into_expr(), span }, scope);
            fresh
        });
        renaming.functions.insert(setting.name.text.clone(), name);
    }

    /// The word that a setting has; one that is none of its words is reported.
    fn word(&mut self, setting: &Declaration, value: &ExprSyntax, mut scope: ScopeId) -> Option<String> {
        let mut word = value.as_name()?.text;
        // A setting of the definition around stands for its word.
        while let Some(NameBinding::Written(outer, next)) = self.scopes.find(scope, &word) {
            (word, scope) = (outer.as_name()?.text, *next);
        }
        let words = || setting.args.iter().filter_map(ExprSyntax::as_name);
        if words().any(|known| known.text == word) {
            return Some(word);
        }
        let words: Vec<String> = words().map(|name| name.text).collect();
        let known = || words.iter().map(String::as_str);
        let message = format!("`{}` must be {}", setting.name.text, list(known(), "or"));
        let label = did_you_mean(&word, known());
        self.problems.fail(Diagnostic::new(Kind::WrongType, value.span, message).label(label))
    }

    /// The equations and loops of a definition, and its constants.
    fn body_of(&mut self, tree: &mut StatementTree, def: &Def, inner: ScopeId, renaming: &NewNames) {
        let mut elements = vec![];
        for element in &def.elements {
            match element {
                DefElement::Let(binding) => elements.push(BodyElement::Let(self.renamed_let(binding, renaming))),
                DefElement::Equation(equation) => {
                    elements.push(BodyElement::Equation(self.renamed_equation(equation, renaming)));
                }
                DefElement::Statement(statement) => {
                    elements.push(BodyElement::Statement(self.renamed_statement(statement, renaming)));
                }
                DefElement::Setting(_) | DefElement::Out(..) => {}
            }
        }
        self.elements(tree, &elements, inner);
    }

    fn renamed_equation(&self, equation: &Equation, renaming: &NewNames) -> Equation {
        let name = |name: &Name| {
            let text = renaming.values.get(&name.text).unwrap_or(&name.text).clone();
            Name { text, span: name.span }
        };
        let names = equation.names.iter().map(name).collect();
        Equation { names, value: self.renamed(&equation.value, renaming), ..equation.clone() }
    }

    fn renamed_let(&self, binding: &Let, renaming: &NewNames) -> Let {
        let text = renaming.values.get(&binding.name.text).unwrap_or(&binding.name.text).clone();
        let name = Name { text, span: binding.name.span };
        Let { name, value: self.renamed(&binding.value, renaming), span: binding.span }
    }

    /// The default of a setting, which may read those before it.
    fn renamed_value(&self, value: &ValueSyntax, renaming: &NewNames) -> ValueSyntax {
        match value {
            ValueSyntax::Expr(expr) => ValueSyntax::Expr(self.renamed(expr, renaming)),
            ValueSyntax::Structured(name, body) => {
                let mut body = body.clone();
                self.rename_settings(&name.text, &mut body, renaming);
                ValueSyntax::Structured(name.clone(), body)
            }
        }
    }

    fn renamed_statement(&self, statement: &Statement, renaming: &NewNames) -> Statement {
        let mut statement = statement.clone();
        for element in statement.body.iter_mut().flat_map(|body| &mut body.elements) {
            match element {
                BodyElement::Equation(equation) => *equation = self.renamed_equation(equation, renaming),
                BodyElement::Statement(inner) => *inner = self.renamed_statement(inner, renaming),
                BodyElement::Field(field) => {
                    if let ValueSyntax::Expr(value) = &mut field.value {
                        *value = self.renamed(value, renaming);
                    }
                }
                BodyElement::Let(binding) => *binding = self.renamed_let(binding, renaming),
            }
        }
        statement
    }

    fn renamed(&self, value: &ExprSyntax, renaming: &NewNames) -> ExprSyntax {
        let mut value = value.clone();
        self.rename(&mut value, renaming);
        value
    }

    fn rename(&self, value: &mut ExprSyntax, renaming: &NewNames) {
        match &mut value.kind {
            ExprKind::Name(text) => {
                let new = renaming.values.get(text).or_else(|| renaming.functions.get(text));
                match new {
                    Some(new) => text.clone_from(new),
                    None if text == STATE || self.scopes.taken.contains(text) => {
                        renaming.foreign.borrow_mut().push(Name { text: text.clone(), span: value.span });
                    }
                    None => {}
                }
            }
            ExprKind::Binary(op @ (BinaryOp::Eq | BinaryOp::Ne), a, b) if renaming.compared(a, b).is_some() => {
                let same = renaming.compared(a, b) == Some(true);
                value.kind = ExprKind::Bool(same == (*op == BinaryOp::Eq));
            }
            ExprKind::Call(name, args, settings) => {
                args.iter_mut().for_each(|arg| self.rename(arg, renaming));
                settings.iter_mut().for_each(|settings| self.rename_settings(&name.text, settings, renaming));
                self.rename_function(name, renaming);
            }
            ExprKind::Function(name, settings) => {
                self.rename_settings(&name.text, settings, renaming);
                self.rename_function(name, renaming);
            }
            _ => value.each_part(&mut |part| self.rename(part, renaming)),
        }
    }

    fn rename_function(&self, name: &mut Name, renaming: &NewNames) {
        match renaming.functions.get(&name.text) {
            Some(new) => name.text.clone_from(new),
            None if self.scopes.shared.contains(&name.text) => renaming.foreign.borrow_mut().push(name.clone()),
            None => {}
        }
    }

    /// Settings of a function; a word among them is no value, whatever it is called.
    fn rename_settings(&self, function: &str, settings: &mut BodySyntax, renaming: &NewNames) {
        let feature = self.items.feature(function, "").cloned();
        for element in &mut settings.elements {
            let BodyElement::Field(field) = element else { continue };
            let kind = feature.iter().flat_map(|feature| &feature.fields).find(|known| known.name == field.name.text);
            let is_word = |text: &str| matches!(kind.map(|field| &field.kind), Some(FieldKind::Word(words)) if words.contains(text));
            match &mut field.value {
                ValueSyntax::Expr(value) if value.as_name().is_some_and(|name| is_word(&name.text)) => {}
                ValueSyntax::Expr(value) => self.rename(value, renaming),
                ValueSyntax::Structured(name, inner) => self.rename_settings(&name.text.clone(), inner, renaming),
            }
        }
    }
}
