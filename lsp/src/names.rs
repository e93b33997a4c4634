//! The names of a document and of the files that it uses: where each is defined, and where it is read.
//!
//! Bindings of models, and paths of edits that name bindings, are those that the compiler finds. All other values of an item (parameters,
//! constants, settings, equations of definitions) are known in the whole item: two of one name are taken for the same.

use std::collections::BTreeMap;

use rtc_compiler::check::{self, BindingIndex, BindingPlaces};
use rtc_compiler::source::Span;
use rtc_compiler::syntax::ast::{
    BodyElement, BodySyntax, Def, DefElement, DottedPath, Edit, EditKind, Equation, ExprKind, ExprSyntax, File,
    FileItem, FullName, ItemKind, KeywordArgument, Let, Name, Statement, ValueSyntax,
};
use rtc_compiler::syntax::{equation, expression};

use crate::text::IndexedText;

/// A text of one check.
#[derive(Debug)]
pub(crate) struct CheckedText {
    pub(crate) uri: String,
    pub(crate) text: IndexedText,
    /// Its items that can be parsed.
    pub(crate) file: File,
}

/// An item by its text and its first byte.
type Id = (u32, u32);

/// The key of a name: its kind and its owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SymbolKey {
    /// A model by its whole name.
    Model(String),
    /// A variant of a model.
    Variant(String, String),
    /// A constant, a mask or a bias.
    Value(String),
    /// A definition in a slot; the slot is empty for a layer or a function.
    Def(String, String),
    /// A value of an item.
    Own(Id, String),
    /// A binding of a model, by its number.
    Binding(usize),
}

/// A name with all of its places.
#[derive(Debug, Default)]
pub(crate) struct Symbol {
    pub(crate) definitions: Vec<Span>,
    pub(crate) uses: Vec<Span>,
    /// Its comment.
    pub(crate) doc: String,
    /// How it is defined.
    pub(crate) text: String,
}

/// All names.
#[derive(Debug, Default)]
pub(crate) struct SymbolTable {
    pub(crate) symbols: BTreeMap<SymbolKey, Symbol>,
    /// The names of the values of every item.
    own: BTreeMap<Id, BTreeMap<String, ItemValue>>,
    /// The items of definitions and models.
    items: BTreeMap<SymbolKey, Id>,
    /// Places that the compiler finds, each with the key of its binding.
    bound: BTreeMap<Span, SymbolKey>,
    /// The last names of paths of edits, each with the place of its definition.
    paths: Vec<(Span, Span)>,
}

/// A value of an item.
#[derive(Debug)]
struct ItemValue {
    key: SymbolKey,
    is_setting: bool,
}

impl SymbolTable {
    pub(crate) fn of(units: &[CheckedText]) -> Self {
        let files: Vec<File> = units.iter().map(|unit| unit.file.clone()).collect();
        let BindingIndex { bindings, paths } = check::bindings(&files);
        let keyed = bindings.iter().enumerate().map(|(n, binding)| (SymbolKey::Binding(n), binding));
        let bound = keyed.flat_map(|(key, binding)| binding.places().map(move |place| (place, key.clone())));
        let mut names = Self { bound: bound.collect(), paths, ..Self::default() };
        let items = || units.iter().flat_map(|unit| unit.file.items.iter().map(move |item| (unit, item)));
        for (unit, item) in items() {
            names.define(unit, item);
        }
        names.join(&bindings);
        for (_, item) in items() {
            names.added(item);
        }
        for (_, item) in items() {
            let id = names.home(item);
            NameReader { names: &mut names, id }.item(item);
        }
        names
    }

    /// What stands at a byte of a text.
    pub(crate) fn at(&self, source: u32, offset: usize) -> Option<(&SymbolKey, Span)> {
        let inside =
            |span: &&Span| span.source.0 == source && (span.start as usize..=span.end as usize).contains(&offset);
        self.symbols.iter().find_map(|(key, symbol)| Some((key, *symbol.places().find(inside)?)))
    }

    /// The definitions of the name that a path of an edit ends with, at a byte of a text; empty elsewhere.
    pub(crate) fn named_by_path(&self, source: u32, offset: usize) -> Vec<Span> {
        let inside =
            |span: &Span| span.source.0 == source && (span.start as usize..=span.end as usize).contains(&offset);
        self.paths.iter().filter(|(name, _)| inside(name)).map(|(_, target)| *target).collect()
    }

    /// The last names of the paths of edits.
    #[cfg(test)]
    pub(crate) fn paths(&self) -> impl Iterator<Item = Span> {
        self.paths.iter().map(|(name, _)| *name)
    }

    /// Whether a name is that of a value: of a binding, a parameter or a constant.
    pub(crate) fn is_value(&self, key: &SymbolKey) -> bool {
        match key {
            SymbolKey::Binding(_) | SymbolKey::Value(_) => true,
            SymbolKey::Own(item, name) => {
                let value = self.own.get(item).and_then(|own| own.get(name));
                value.is_some_and(|value| !value.is_setting)
            }
            SymbolKey::Model(_) | SymbolKey::Variant(..) | SymbolKey::Def(..) => false,
        }
    }

    /// What already has a name that a value at a byte may not have: a constant, a parameter or a definition.
    pub(crate) fn taken(&self, units: &[CheckedText], offset: usize, name: &str) -> Option<&Symbol> {
        let name = name.to_owned();
        let id = item_at(units, offset).map(|item| self.home(item));
        let own = id.map(|id| SymbolKey::Own(id, name.clone()));
        let keys = own.into_iter().chain([SymbolKey::Value(name.clone()), SymbolKey::Def(String::new(), name)]);
        keys.filter_map(|key| self.symbols.get(&key)).next()
    }

    /// The settings of a definition.
    pub(crate) fn settings(&self, slot: &str, name: &str) -> Vec<(&str, &Symbol)> {
        let Some(id) = self.items.get(&SymbolKey::Def(slot.to_owned(), name.to_owned())) else { return vec![] };
        let settings = self.own.get(id).into_iter().flatten().filter(|(_, value)| value.is_setting);
        settings.filter_map(|(name, value)| Some((name.as_str(), self.symbols.get(&value.key)?))).collect()
    }

    /// The values of the item around a byte.
    pub(crate) fn values_at(&self, units: &[CheckedText], offset: usize) -> Vec<(&str, &Symbol)> {
        let Some(id) = item_at(units, offset).map(|item| self.home(item)) else { return vec![] };
        let own = self.own.get(&id).into_iter().flatten();
        own.filter_map(|(name, value)| Some((name.as_str(), self.symbols.get(&value.key)?))).collect()
    }

    /// The item whose values are known in an item: that of the model for a variant.
    fn home(&self, item: &FileItem) -> Id {
        let model = match &item.kind {
            ItemKind::Variant { base, .. } => [base.text(), base.model.text.clone()]
                .into_iter()
                .find_map(|name| self.items.get(&SymbolKey::Model(name))),
            _ => None,
        };
        model.copied().unwrap_or(id(item))
    }

    fn symbol(&mut self, key: SymbolKey, name: &Name, doc: &str, text: String) {
        let symbol = self.symbols.entry(key).or_default();
        if symbol.text.is_empty() {
            (symbol.doc, symbol.text) = (doc.to_owned(), text);
        }
        symbol.definitions.push(name.span);
    }

    /// Notes what an item defines.
    fn define(&mut self, unit: &CheckedText, item: &FileItem) {
        let source =
            || unit.text.text.get(item.span.start as usize..item.span.end as usize).unwrap_or_default().to_owned();
        let (doc, id) = (item.doc.as_str(), id(item));
        match &item.kind {
            ItemKind::Use { .. } => {}
            ItemKind::Let(binding) => {
                self.symbol(SymbolKey::Value(binding.name.text.clone()), &binding.name, doc, written(binding))
            }
            ItemKind::Function(function) => {
                self.symbol(SymbolKey::Value(function.name.text.clone()), &function.name, doc, source());
                let called = format!("{} {}", function.role.word(), function.name.text);
                self.params(id, function.params.iter().flatten(), &called);
            }
            ItemKind::Model { name, body } => {
                let key = SymbolKey::Model(name.text());
                self.items.insert(key.clone(), id);
                let whole = Name { text: name.text(), span: name.span() };
                self.symbol(key, &whole, doc, format!("model {}", name.text()));
                self.body(id, body);
            }
            ItemKind::Variant { name, base, .. } => {
                let key = SymbolKey::Variant(base.model.text.clone(), name.text.clone());
                self.symbol(key, name, doc, source());
            }
            ItemKind::Def(def) => {
                let slot = def.slot.as_ref().map_or("", |slot| slot.text.as_str());
                let key = SymbolKey::Def(slot.to_owned(), def.name.text.clone());
                self.items.insert(key.clone(), id);
                self.symbol(key, &def.name, doc, source());
                self.params(id, &def.values, &format!("def {}", def.name.text));
                self.equations(id, def);
            }
        }
    }

    fn own(&mut self, id: Id, name: &Name, doc: &str, text: String, is_setting: bool) {
        self.value(id, name, (SymbolKey::Own(id, name.text.clone()), is_setting), (doc, text));
    }

    fn value(&mut self, id: Id, name: &Name, (key, is_setting): (SymbolKey, bool), (doc, text): (&str, String)) {
        let value = ItemValue { key: key.clone(), is_setting };
        self.own.entry(id).or_default().entry(name.text.clone()).or_insert(value).is_setting |= is_setting;
        self.symbol(key, name, doc, text);
    }

    fn params<'n>(&mut self, id: Id, params: impl IntoIterator<Item = &'n Name>, of: &str) {
        params.into_iter().for_each(|param| self.own(id, param, "", format!("{}: a value of {of}", param.text), false));
    }

    /// Notes the bindings of an equation of a body.
    fn bindings(&mut self, id: Id, bound: &Equation) {
        for name in &bound.names {
            let key = self.bound.get(&name.span).cloned().unwrap_or_else(|| SymbolKey::Own(id, name.text.clone()));
            self.value(id, name, (key, false), ("", equation(bound)));
        }
    }

    fn body(&mut self, id: Id, body: &BodySyntax) {
        body.elements.iter().for_each(|element| self.element(id, element));
    }

    fn element(&mut self, id: Id, element: &BodyElement) {
        match element {
            BodyElement::Let(binding) => self.own(id, &binding.name, "", written(binding), false),
            BodyElement::Equation(equation) => self.bindings(id, equation),
            BodyElement::Statement(Statement { body: Some(body), .. }) => self.body(id, body),
            _ => {}
        }
    }

    /// Notes equations that the edits of a variant add.
    fn added(&mut self, item: &FileItem) {
        let ItemKind::Variant { edits, .. } = &item.kind else { return };
        for edit in edits {
            match &edit.kind {
                EditKind::Add(element, ..) | EditKind::ReplaceAt(_, element) => self.element(id(item), element),
                EditKind::Replace(statement) | EditKind::Wrap(_, statement) => {
                    statement.body.iter().for_each(|body| self.body(id(item), body));
                }
                _ => {}
            }
        }
    }

    /// Notes where the bindings are read and named by paths. One that an item defines keeps its key.
    fn join(&mut self, bindings: &[BindingPlaces]) {
        let known = self.symbols.iter().flat_map(|(key, symbol)| symbol.definitions.iter().map(move |at| (*at, key)));
        let known: BTreeMap<Span, SymbolKey> = known.map(|(at, key)| (at, key.clone())).collect();
        for (n, binding) in bindings.iter().enumerate() {
            let key = binding.definitions.iter().find_map(|at| known.get(at)).cloned().unwrap_or(SymbolKey::Binding(n));
            self.symbols.entry(key.clone()).or_default().uses.extend(&binding.uses);
            self.bound.extend(binding.places().map(|place| (place, key.clone())));
        }
    }

    fn equations(&mut self, id: Id, def: &Def) {
        for element in &def.elements {
            match element {
                DefElement::Let(binding) => self.own(id, &binding.name, "", written(binding), false),
                DefElement::Equation(equation) => self.bindings(id, equation),
                DefElement::Setting(setting) => {
                    let args: Vec<String> = setting.args.iter().map(expression).collect();
                    let args = if args.is_empty() { String::new() } else { format!("({})", args.join(", ")) };
                    let default = match &setting.default {
                        None => String::new(),
                        Some(ValueSyntax::Expr(value)) => format!(" = {}", expression(value)),
                        Some(ValueSyntax::Structured(name, _)) => format!(" = {} {{ .. }}", name.text),
                    };
                    let text = format!("{}: {}{args}{default}", setting.name.text, setting.kind.text);
                    self.own(id, &setting.name, &setting.doc, text, true);
                }
                DefElement::Statement(Statement { body: Some(body), .. }) => self.body(id, body),
                DefElement::Statement(_) | DefElement::Out(..) => {}
            }
        }
    }
}

impl Symbol {
    /// All places, those of definitions first.
    pub(crate) fn places(&self) -> impl Iterator<Item = &Span> {
        self.definitions.iter().chain(&self.uses)
    }
}

/// The item of a document around a byte.
fn item_at(units: &[CheckedText], offset: usize) -> Option<&FileItem> {
    let inside = |item: &&FileItem| (item.span.start as usize..=item.span.end as usize).contains(&offset);
    units.first()?.file.items.iter().find(inside)
}

fn id(item: &FileItem) -> Id {
    (item.span.source.0, item.span.start)
}

fn written(binding: &Let) -> String {
    format!("let {} = {}", binding.name.text, expression(&binding.value))
}

/// Notes what an item reads.
struct NameReader<'n> {
    names: &'n mut SymbolTable,
    /// The item whose values are known.
    id: Id,
}

impl NameReader<'_> {
    fn read(&mut self, key: &SymbolKey, span: Span) -> bool {
        // The compiler knows better.
        if self.names.bound.contains_key(&span) {
            return true;
        }
        let symbol = self.names.symbols.get_mut(key);
        symbol.map(|symbol| symbol.uses.push(span)).is_some()
    }

    fn item(&mut self, item: &FileItem) {
        match &item.kind {
            ItemKind::Use { .. } => {}
            ItemKind::Let(binding) => self.expr(&binding.value),
            ItemKind::Function(function) => self.expr(&function.body),
            ItemKind::Model { body, .. } => self.body(body, None),
            ItemKind::Variant { base, edits, .. } => {
                self.base(base);
                edits.iter().for_each(|edit| self.edit(edit));
            }
            ItemKind::Def(def) => {
                for element in &def.elements {
                    match element {
                        DefElement::Let(binding) => self.expr(&binding.value),
                        DefElement::Equation(equation) => self.expr(&equation.value),
                        DefElement::Out(values, _) => values.iter().for_each(|value| self.expr(value)),
                        DefElement::Statement(statement) => self.statement(statement),
                        DefElement::Setting(setting) => {
                            setting.default.iter().for_each(|value| self.value(value, ""));
                        }
                    }
                }
            }
        }
    }

    fn base(&mut self, base: &FullName) {
        if self.read(&SymbolKey::Model(base.text()), base.span()) {
            return;
        }
        self.read(&SymbolKey::Model(base.model.text.clone()), base.model.span);
        if let Some(variant) = &base.variant {
            self.read(&SymbolKey::Variant(base.model.text.clone(), variant.text.clone()), variant.span);
        }
    }

    fn edit(&mut self, edit: &Edit) {
        match &edit.kind {
            EditKind::Set(path, value) | EditKind::Assign(path, value) => {
                self.path(path);
                let slot = path.components.last().map_or("", |last| last.name.text.as_str());
                self.value(value, slot);
            }
            EditKind::Replace(statement) => self.statement(statement),
            EditKind::Remove(path) | EditKind::Tie(path, _) => self.path(path),
            EditKind::ReplaceAt(path, element) => {
                self.path(path);
                self.element(element, None);
            }
            EditKind::Wrap(path, statement) => {
                self.path(path);
                self.statement(statement);
            }
            EditKind::Add(element, _, path) => {
                self.element(element, None);
                self.path(path);
            }
            EditKind::Let(binding) => {
                self.name(&binding.name.text, binding.name.span);
                self.expr(&binding.value);
            }
        }
    }

    /// Layers that are called by their own names, and their settings.
    fn path(&mut self, path: &DottedPath) {
        let mut owner = None;
        for component in &path.components {
            let name = &component.name;
            let key = SymbolKey::Def(String::new(), name.text.clone());
            if !self.setting(owner, name) {
                self.read(&key, name.span);
            }
            owner = self.names.items.get(&key).copied();
        }
    }

    /// A setting of a definition.
    fn setting(&mut self, owner: Option<Id>, name: &Name) -> bool {
        let Some(owner) = owner else { return false };
        let value = self.names.own.get(&owner).and_then(|own| own.get(&name.text));
        let is_setting = value.is_some_and(|value| value.is_setting);
        is_setting && self.read(&SymbolKey::Own(owner, name.text.clone()), name.span)
    }

    fn body(&mut self, body: &BodySyntax, owner: Option<Id>) {
        body.elements.iter().for_each(|element| self.element(element, owner));
    }

    fn element(&mut self, element: &BodyElement, owner: Option<Id>) {
        match element {
            BodyElement::Let(binding) => self.expr(&binding.value),
            BodyElement::Field(field) => {
                self.setting(owner, &field.name);
                self.value(&field.value, &field.name.text);
            }
            BodyElement::Equation(equation) => self.expr(&equation.value),
            BodyElement::Statement(statement) => self.statement(statement),
        }
    }

    fn statement(&mut self, statement: &Statement) {
        let Statement { keyword, word, body, .. } = statement;
        let mut owner = self.def("", keyword);
        if let Some(KeywordArgument::Name(word)) = word {
            owner = self.def(&keyword.text, word).or(owner);
            if owner.is_none() {
                self.value_name(&word.text, word.span);
            }
        }
        body.iter().for_each(|body| self.body(body, owner));
    }

    /// Reads the name of a definition; gives its item.
    fn def(&mut self, slot: &str, name: &Name) -> Option<Id> {
        let key = SymbolKey::Def(slot.to_owned(), name.text.clone());
        self.read(&key, name.span).then(|| self.names.items.get(&key).copied()).flatten()
    }

    fn value(&mut self, value: &ValueSyntax, slot: &str) {
        match value {
            ValueSyntax::Expr(expr) => match expr.as_name() {
                Some(name) if self.def(slot, &name).is_some() => {}
                _ => self.expr(expr),
            },
            ValueSyntax::Structured(name, body) => {
                let owner = self.def(slot, name).or_else(|| self.def("", name));
                self.body(body, owner);
            }
        }
    }

    /// A name that is read as a value, or as a function.
    fn name(&mut self, name: &str, span: Span) {
        if !self.value_name(name, span) {
            self.read(&SymbolKey::Def(String::new(), name.to_owned()), span);
        }
    }

    fn value_name(&mut self, name: &str, span: Span) -> bool {
        self.read(&SymbolKey::Own(self.id, name.to_owned()), span)
            || self.read(&SymbolKey::Value(name.to_owned()), span)
    }

    fn expr(&mut self, expr: &ExprSyntax) {
        match &expr.kind {
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) => {}
            ExprKind::Name(name) => self.name(name, expr.span),
            ExprKind::Neg(x) | ExprKind::Not(x) | ExprKind::Group(x) => self.expr(x),
            ExprKind::Binary(_, a, b) | ExprKind::Indexed(a, b) => [a, b].into_iter().for_each(|x| self.expr(x)),
            ExprKind::Call(name, args, body) => {
                self.name(&name.text, name.span);
                // The second argument of `at` is a word.
                let values = args.iter().enumerate().filter(|(n, _)| name.text != "at" || *n == 0);
                values.for_each(|(_, arg)| self.expr(arg));
                self.settings_of(name, body.as_ref());
            }
            ExprKind::Learn(_, args, body) => {
                args.iter().for_each(|arg| self.expr(arg));
                body.iter().for_each(|body| self.body(body, None));
            }
            ExprKind::Read(base, indices) => {
                self.expr(base);
                indices.iter().for_each(|index| self.expr(index));
            }
            ExprKind::Old(path) => self.path(path),
            ExprKind::Function(name, body) => {
                self.name(&name.text, name.span);
                self.settings_of(name, Some(body));
            }
        }
    }

    fn settings_of(&mut self, name: &Name, body: Option<&BodySyntax>) {
        let owner = self.names.items.get(&SymbolKey::Def(String::new(), name.text.clone())).copied();
        body.iter().for_each(|body| self.body(body, owner));
    }
}
