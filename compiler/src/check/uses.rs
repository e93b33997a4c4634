//! Places of bindings: the equations of each, the expressions that read it, and the paths of edits that name it.
//!
//! Each model and variant is edited, and then read in the order in which its equations are worked out. Places keep their spans in all of
//! them, so one place joins its bindings in several models to one.

use std::collections::{BTreeMap, BTreeSet};
use std::slice::from_ref;

use super::build::joined;
use super::edit::{OLD, PathName, definitions};
use super::expand::{self, StatementTree};
use super::items::{DefinedItems, TargetModel};
use super::{MAX_EDITS, apply_edits};
use crate::define::{self, Knows, STATE, read_bindings};
use crate::diag::Problems;
use crate::resolve::{NameBinding, ScopeId, Scopes};
use crate::source::Span;
use crate::syntax::ast::{self, DefElement, EquationForm, ExprSyntax, Name};

/// The places of one binding.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BindingPlaces {
    /// Its name on the left sides of equations.
    pub definitions: Vec<Span>,
    /// Its name in expressions, and in paths of edits.
    pub uses: Vec<Span>,
}

impl BindingPlaces {
    /// All places, those of definitions first.
    pub fn places(&self) -> impl Iterator<Item = Span> {
        self.definitions.iter().chain(&self.uses).copied()
    }
}

/// Bindings of some files.
#[derive(Clone, Debug, Default)]
pub struct BindingIndex {
    pub bindings: Vec<BindingPlaces>,
    /// The last name of each path of an edit, with the place of the name or the equation that it means.
    pub paths: Vec<(Span, Span)>,
}

/// Finds the bindings of all models and variants, and of definitions that edits change. `state` is left out: it has a fixed name.
///
/// Files with errors are read as far as they can be.
pub fn bindings(files: &[ast::File]) -> BindingIndex {
    let items = DefinedItems::index(files, &mut Problems::default());
    let mut found =
        JoinedPlaces { replaced: olds(files), foreign: items.written_out_braces(), ..JoinedPlaces::default() };
    for target in files.iter().flat_map(|file| items.targets(&file.items)) {
        edited(files, &items, &target, &mut found);
    }
    found.finish()
}

/// The places of `old` in edits.
fn olds(files: &[ast::File]) -> BTreeSet<Span> {
    let edits = files.iter().flat_map(|file| &file.items).filter_map(|item| match &item.kind {
        ast::ItemKind::Variant { edits, .. } => Some(edits),
        _ => None,
    });
    let values = edits.flatten().filter_map(|edit| match &edit.kind {
        ast::EditKind::Set(_, value) | ast::EditKind::Assign(_, value) => Some(value.clone().into_expr()),
        ast::EditKind::ReplaceAt(_, ast::BodyElement::Equation(equation)) => Some(equation.value.clone()),
        _ => None,
    });
    let mut found = BTreeSet::new();
    for value in values {
        read_bindings(&value, &mut |name, _| {
            found.extend((name.text == OLD).then_some(name.span));
        });
    }
    found
}

/// Reads a model after its edits.
fn edited(files: &[ast::File], items: &DefinedItems<'_>, target: &TargetModel<'_>, found: &mut JoinedPlaces) {
    let mut problems = Problems::default();
    let Some(changed) = definitions::edited(files, target, &[], &mut problems) else {
        return body_of(items, target, &BTreeSet::new(), found);
    };
    for def in changed.files.iter().flat_map(|file| &file.items).filter_map(|item| match &item.kind {
        ast::ItemKind::Def(def) => Some(def),
        _ => None,
    }) {
        definition(def, found);
    }
    changed.named.iter().for_each(|name| found.path(name));
    let own = DefinedItems::index(&changed.files, &mut problems);
    if let Some(target) = own.target(&target.name) {
        body_of(&own, &target, &changed.done, found);
    }
}

/// Reads the body of a model after its edits but those at the places `done`.
fn body_of(items: &DefinedItems<'_>, target: &TargetModel<'_>, done: &BTreeSet<Span>, found: &mut JoinedPlaces) {
    let (mut scopes, mut problems) = (Scopes::default(), Problems::default());
    let Some(mut tree) = expand::model(items, target.model, &mut scopes, &mut problems) else { return };
    if target.variants.iter().map(|variant| variant.edits.len()).sum::<usize>() > MAX_EDITS {
        return;
    }
    let named = apply_edits(items, target, (&[], done), &mut tree, (&mut scopes, &mut problems));
    let mut reader = BodyReader { items, scopes: &scopes, found };
    reader.body(&tree, KnownNames::default());
    named.iter().for_each(|name| found.path(name));
}

/// Reads a definition: a name of it is one binding in all of its elements.
fn definition(def: &ast::Def, found: &mut JoinedPlaces) {
    let bound = def.elements.iter().flat_map(|element| match element {
        DefElement::Let(binding) => from_ref(&binding.name),
        DefElement::Setting(setting) => from_ref(&setting.name),
        DefElement::Equation(equation) => &equation.names[..],
        DefElement::Out(..) | DefElement::Statement(_) => &[],
    });
    let mut known: BTreeMap<&str, Span> = BTreeMap::new();
    for name in def.values.iter().chain(bound) {
        found.define(*known.entry(&name.text).or_insert(name.span), name.span);
    }
    for element in &def.elements {
        let values = match element {
            DefElement::Let(ast::Let { value, .. }) | DefElement::Equation(ast::Equation { value, .. }) => {
                from_ref(value)
            }
            DefElement::Out(values, _) => values,
            DefElement::Setting(_) | DefElement::Statement(_) => continue,
        };
        for value in values {
            read_bindings(value, &mut |name, _| {
                if let Some(first) = known.get(name.text.as_str()) {
                    found.read(*first, name.span);
                }
            });
        }
    }
}

/// The bindings that a place in a body knows, each by one place of it.
#[derive(Clone, Default)]
struct KnownNames {
    names: BTreeMap<String, Span>,
    /// Bindings that the loops around carry: equations inside change them.
    carried: BTreeMap<String, Span>,
}

struct BodyReader<'r, 'a> {
    items: &'r DefinedItems<'a>,
    scopes: &'r Scopes,
    found: &'r mut JoinedPlaces,
}

impl BodyReader<'_, '_> {
    /// Reads the statements and equations of a body in order.
    fn body(&mut self, tree: &StatementTree, mut known: KnownNames) {
        let mut own = BTreeMap::new();
        for child in &joined(&tree.children) {
            if child.equations.is_empty() {
                self.statement(child, &mut known);
            } else {
                self.run(child, &mut known, &mut own);
            }
        }
    }

    /// Reads a statement. Behind a loop, names that it carries are known.
    fn statement(&mut self, tree: &StatementTree, known: &mut KnownNames) {
        let word = tree.word.as_ref().map_or("", |word| word.text.as_str());
        let mut inside = match define::repeated(&tree.keyword.text, word) {
            Some(Knows::Constants) => KnownNames::default(),
            _ => known.clone(),
        };
        let carried = if tree.keyword.text == "loop" { self.starts(tree, known) } else { BTreeMap::new() };
        inside.names.extend(carried.clone());
        inside.carried.extend(carried.clone());
        self.body(tree, inside);
        known.names.extend(carried);
    }

    /// Reads the starts of a loop, which know the names around it; gives the names that it carries.
    fn starts(&mut self, tree: &StatementTree, known: &KnownNames) -> BTreeMap<String, Span> {
        let (mut carried, mut bound) = (BTreeMap::new(), BTreeSet::new());
        for (equation, scope) in joined(&tree.children).iter().flat_map(|run| &run.equations) {
            if equation.form == EquationForm::Carry {
                self.reads(&equation.value, *scope, known, &bound);
                for name in equation.names.iter().filter(|name| name.text != STATE) {
                    self.found.define(*carried.entry(name.text.clone()).or_insert(name.span), name.span);
                }
            }
            bound.extend(equation.names.iter().map(|name| name.text.clone()));
        }
        carried
    }

    /// Reads a run of equations; `own` are the bindings of the body so far.
    fn run(&mut self, run: &StatementTree, known: &mut KnownNames, own: &mut BTreeMap<String, Span>) {
        let mut bound = BTreeSet::new();
        for (equation, scope) in &run.equations {
            let is_start = |name: &Name| equation.form == EquationForm::Carry && known.carried.contains_key(&name.text);
            if !equation.names.iter().any(is_start) {
                self.reads(&equation.value, *scope, known, &bound);
            }
            for name in equation.names.iter().filter(|name| name.text != STATE) {
                let carried = known.carried.get(&name.text).copied();
                let first = carried.unwrap_or_else(|| *own.entry(name.text.clone()).or_insert(name.span));
                self.found.define(first, name.span);
                known.names.insert(name.text.clone(), first);
            }
            bound.extend(equation.names.iter().map(|name| name.text.clone()));
        }
    }

    /// Notes the bindings that an expression reads; constants hide bindings that the run has not `bound`.
    fn reads(&mut self, value: &ExprSyntax, scope: ScopeId, known: &KnownNames, bound: &BTreeSet<String>) {
        let mut names = vec![];
        read_bindings(value, &mut |name, is_function| names.push((name.clone(), is_function)));
        for (name, is_function) in names {
            let is_value = is_function || bound.contains(&name.text);
            let meant = if is_value { Some(name) } else { self.variable(name, scope) };
            if let Some((first, span)) = meant.and_then(|name| Some((known.names.get(&name.text)?, name.span))) {
                self.found.read(*first, span);
            }
        }
    }

    /// The name that settings of definitions lead to from a name; none if it is a constant.
    fn variable(&self, name: Name, scope: ScopeId) -> Option<Name> {
        let (mut name, mut scope) = (name, scope);
        while let Some(bound) = self.scopes.find(scope, &name.text) {
            let NameBinding::Written(value, outer) = bound else { return None };
            (name, scope) = (value.as_name()?, *outer);
        }
        let is_constant = self.items.named().is_constant(&name.text);
        (!is_constant).then_some(name)
    }
}

/// Places, those of one binding joined.
#[derive(Default)]
struct JoinedPlaces {
    numbers: BTreeMap<Span, usize>,
    places: Vec<JoinedPlace>,
    paths: BTreeSet<(Span, Span)>,
    /// Places of `old` in edits. A name that takes its place has its span.
    replaced: BTreeSet<Span>,
    /// The braces of definitions that are written out: places in them are names of the definition, whatever a model calls them.
    foreign: Vec<Span>,
}

struct JoinedPlace {
    span: Span,
    /// A place of the same binding; the place itself if it stands for all of them.
    towards: usize,
    is_definition: bool,
}

impl JoinedPlaces {
    fn number(&mut self, span: Span) -> usize {
        let next = self.places.len();
        let number = *self.numbers.entry(span).or_insert(next);
        if number == next {
            self.places.push(JoinedPlace { span, towards: next, is_definition: false });
        }
        number
    }

    /// The number of the place that stands for all of a binding.
    fn representative(&mut self, mut number: usize) -> usize {
        while self.places[number].towards != number {
            self.places[number].towards = self.places[self.places[number].towards].towards;
            number = self.places[number].towards;
        }
        number
    }

    fn is_foreign(&self, span: Span) -> bool {
        let holds =
            |braces: &Span| braces.source == span.source && braces.start <= span.start && span.end <= braces.end;
        self.foreign.iter().any(holds)
    }

    /// Notes that two places name the same binding.
    fn join(&mut self, one: Span, other: Span) {
        let (one, other) = (self.number(one), self.number(other));
        let (one, other) = (self.representative(one), self.representative(other));
        self.places[other].towards = one;
    }

    /// Notes a read of the binding of another place.
    fn read(&mut self, first: Span, span: Span) {
        if !self.replaced.contains(&span) && !self.is_foreign(first) && !self.is_foreign(span) {
            self.join(first, span);
        }
    }

    /// Notes a left side that names the binding of another place, or of its own.
    fn define(&mut self, first: Span, span: Span) {
        if self.is_foreign(first) || self.is_foreign(span) {
            return;
        }
        let number = self.number(span);
        self.places[number].is_definition = true;
        self.join(first, span);
    }

    /// Notes what the path of an edit names.
    fn path(&mut self, name: &PathName) {
        self.paths.insert((name.span, name.target));
        if !name.is_fixed && !self.is_foreign(name.target) {
            self.define(name.target, name.target);
            self.join(name.target, name.span);
        }
    }

    fn finish(mut self) -> BindingIndex {
        let mut bindings: BTreeMap<usize, BindingPlaces> = BTreeMap::new();
        for number in self.numbers.clone().into_values() {
            let first = self.representative(number);
            let place = &self.places[number];
            let binding = bindings.entry(first).or_default();
            let places = if place.is_definition { &mut binding.definitions } else { &mut binding.uses };
            places.push(place.span);
        }
        BindingIndex { bindings: bindings.into_values().collect(), paths: self.paths.into_iter().collect() }
    }
}
