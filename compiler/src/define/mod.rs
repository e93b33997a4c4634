//! Definitions: layers, variants of slots, and functions that are written as equations (`def`).
//!
//! A definition is a [`Feature`] like any other: its settings are its fields, its equations its lowering (`eval`). Those of
//! `specs/lib` are part of the program; a file may add its own. What equations are made of besides definitions are the words
//! of `words` and the pointwise functions of the IR.

mod atomic;
mod constant;
mod eval;
mod forms;
mod item;
mod losses;
mod names;
mod streams;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) use atomic::functions;
pub(crate) use constant::{
    Constant, FUNCTIONS as CONSTANT_FUNCTIONS, constant, constant_of, function as constant_function,
};
pub use eval::STATE;
pub(crate) use eval::{
    BoundNames, ChoiceRegion, Knows, LoopCarry, apply, apply_all, call, call_on_ends, check_loop, conditions, derived,
    keeps_positions, nexts, rank_of, repeated, results, run, starts, worked_out,
};
pub(crate) use forms::{FORMS, FormRow};
pub use item::BindingType;
pub(crate) use item::{EquationArray, LoopStep};
pub(crate) use losses::of_model as loss_of_model;
pub use names::is_built_in;
pub(crate) use names::{is_size, read_bindings, read_names, read_values};
pub(crate) use words::{BuiltInWord, all as words, norm_row as norm};

/// How much the equations of a model may be.
pub mod limits {
    pub use super::eval::{DEEPEST, MOST as MAX_EXPRESSIONS};
}

use crate::diag::{Diagnostic, Kind, Problems, did_you_mean, list};
use crate::feature::{self, Feature, Lowering, Slot, nothing_more, rows};
use crate::ir::pointwise::Pointwise;
use crate::schema::{Bounds, DROPOUT, Default, Derived, FieldKind, SIZE, StatementField, Text, Words, short};
use crate::source::{SourceId, Span};
use crate::spec::{Block, FieldValue, Setting};
use crate::syntax::ast::{Declaration, DefElement, EquationForm, FileItem, ItemKind, ValueSyntax};
use crate::syntax::{self, ast};

/// A definition as written, with what it calls.
#[derive(Debug)]
pub struct Definition {
    /// The equations.
    pub(crate) def: ast::Def,
    /// The whole definition as text, without its documentation.
    pub text: String,
    /// The same with its documentation.
    pub documented: String,
    /// Whether it is part of the program.
    pub library: bool,
    /// The word whose op stands for its equations, where it is atomic.
    pub(crate) kernel: Option<BuiltInWord>,
    /// Whether something is wrong with it as it is written, so that nothing is said where it is used.
    pub(crate) broken: bool,
    /// Whether no equation reads one of its settings, or one of those of a definition in it. Models that use it are refused.
    unread: bool,
    /// The definitions of its own file that it applies, by name. Those of the library are found by their names.
    pub(crate) uses: BTreeMap<String, Arc<Feature>>,
    /// How many definitions of its file stand on each other in it, itself included.
    height: usize,
}

/// Whether a statement is a definition with an error, or has one among its settings.
pub(crate) fn broken(block: &Block) -> bool {
    let own = match &block.feature.lower {
        Lowering::Definition(definition) | Lowering::Equations(definition) => definition.broken || definition.unread,
        _ => false,
    };
    let given = |setting: &Setting| matches!(&setting.value, FieldValue::Function(inner) if broken(inner));
    own || block.fields.values().any(given)
}

fn is_broken(feature: &Arc<Feature>) -> bool {
    feature.definition().is_some_and(|definition| definition.broken)
}

fn has_unread(feature: &Arc<Feature>) -> bool {
    feature.definition().is_some_and(|definition| definition.unread)
}

fn decides(def: &ast::Def) -> bool {
    let decides = |form| matches!(form, EquationForm::Go | EquationForm::Until | EquationForm::Loss);
    def.elements.iter().any(|element| matches!(element, DefElement::Equation(equation) if decides(equation.form)))
}

/// The kinds of settings.
pub const KINDS: [&str; 8] = ["int", "number", "probability", "bool", "word", "fn", "mask", "bias"];

/// How many definitions of a file may stand on each other.
const HIGHEST: usize = 256;

impl Definition {
    /// The equations in order.
    pub(crate) fn equations(&self) -> impl Iterator<Item = &ast::Equation> {
        self.def.elements.iter().filter_map(|element| match element {
            DefElement::Equation(equation) => Some(equation),
            _ => None,
        })
    }

    /// All expressions that it is made of, but the defaults of settings.
    pub(crate) fn values(&self) -> impl Iterator<Item = &ast::ExprSyntax> {
        self.def.elements.iter().flat_map(|element| match element {
            DefElement::Let(binding) => std::slice::from_ref(&binding.value),
            DefElement::Equation(equation) => std::slice::from_ref(&equation.value),
            DefElement::Out(values, _) => values,
            DefElement::Setting(_) | DefElement::Statement(_) => &[],
        })
    }

    /// Whether it is of the library, and a file may have a copy of another name.
    pub(crate) fn is_copied(&self) -> bool {
        self.library && self.kernel.is_none()
    }

    /// Its name, without the slot.
    pub(crate) fn name(&self) -> &str {
        &self.def.name.text
    }

    /// What its equations bind, each name once.
    pub(crate) fn bound(&self) -> impl Iterator<Item = &str> {
        let names: BTreeSet<&str> = self.equations().flat_map(|e| &e.names).map(|name| name.text.as_str()).collect();
        names.into_iter().chain(["out"])
    }

    /// What it gives, as text.
    pub(crate) fn results(&self) -> impl Iterator<Item = String> {
        self.def.elements.iter().filter_map(|element| match element {
            DefElement::Out(values, _) => {
                let values: Vec<String> = values.iter().map(syntax::expression).collect();
                Some(format!("out {}", values.join(", ")))
            }
            _ => None,
        })
    }

    /// The settings in order.
    fn settings(&self) -> impl Iterator<Item = &Declaration> {
        self.def.elements.iter().filter_map(|element| match element {
            DefElement::Setting(setting) => Some(setting),
            _ => None,
        })
    }

    /// Whether it says itself who goes on, or what is paid for that.
    pub(crate) fn decides(&self) -> bool {
        decides(&self.def)
    }

    /// The names of the values that it shows.
    pub(crate) fn shown(&self) -> impl Iterator<Item = &str> {
        let shown = self.equations().filter(|e| e.form == EquationForm::Show);
        shown.flat_map(|e| &e.names).map(|name| name.text.as_str())
    }

    /// The names of the values that it hands on from step to step.
    pub(crate) fn carried(&self) -> impl Iterator<Item = &str> {
        let carried = self.equations().filter(|e| e.form == EquationForm::Carry);
        carried.flat_map(|e| &e.names).map(|name| name.text.as_str())
    }
}

/// A run of equations in the body of a model, as a feature: what it binds stays known to the statements behind it.
pub(crate) fn equations(
    equations: Vec<ast::Equation>,
    features: &Features,
    span: Span,
    problems: &mut Problems,
) -> Feature {
    let name = |text: &str| ast::Name { text: text.to_owned(), span };
    let elements = equations.into_iter().map(DefElement::Equation).collect();
    let def = ast::Def { atomic: None, slot: None, name: name(EQUATIONS), values: vec![], elements, braces: span };
    let used =
        names::applied(&def).into_iter().filter_map(|name| Some((name.clone(), features.find(&name, "")?.clone())));
    let uses: BTreeMap<String, Arc<Feature>> = used.collect();
    let (broken, unread) = (uses.values().any(is_broken), uses.values().any(has_unread));
    names::check_run(&def, problems);
    let lines = def.elements.iter().filter_map(|element| match element {
        DefElement::Equation(equation) => Some(syntax::equation(equation)),
        _ => None,
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    let documented = text.clone();
    let definition =
        Definition { def, documented, text, library: false, kernel: None, broken, unread, uses, height: 0 };
    let lower = Lowering::Equations(Arc::new(definition));
    let row = Feature::row(EQUATIONS, "", "Equations on the values of the place.", "", lower);
    Feature { check: eval::check_body, ..row }
}

/// Whether a word attends to positions, or equations that it stands for apply one; `shared` are the names of functions that do.
pub(crate) fn attends(feature: &Feature, shared: &BTreeSet<&str>) -> bool {
    let (Lowering::Definition(definition) | Lowering::Equations(definition)) = &feature.lower else {
        return feature.attends;
    };
    names::applied(&definition.def)
        .iter()
        .any(|name| shared.contains(name.as_str()) || applies_attention(definition, name))
}

fn applies_attention(definition: &Definition, name: &str) -> bool {
    let own = definition.uses.get(name).or_else(|| words::named(name));
    own.is_some_and(|used| attends(used, &BTreeSet::new()))
}

/// Adds the names of the functions that equations in a statement share and that attend to positions.
pub(crate) fn shared_attention<'b>(block: &'b Block, found: &mut BTreeSet<&'b str>) {
    for child in &block.children {
        let Lowering::Equations(run) = &child.feature.lower else { continue };
        for equation in run.equations().filter(|equation| equation.form == EquationForm::Share) {
            let mut attends = false;
            read_names(&equation.value, &mut |name| {
                attends |= found.contains(name.text.as_str()) || applies_attention(run, &name.text);
            });
            found.extend(equation.names.iter().filter(|_| attends).map(|name| name.text.as_str()));
        }
    }
}

/// How messages call a run of equations.
pub(crate) const EQUATIONS: &str = "equations";

/// Adds a definition behind those that it applies itself; those of the library only where asked for.
pub(crate) fn collect(feature: &Arc<Feature>, library: bool, found: &mut Vec<Arc<Feature>>) {
    let (Lowering::Definition(definition) | Lowering::Equations(definition)) = &feature.lower else { return };
    if definition.library && !library || found.iter().any(|known| known.title() == feature.title()) {
        return;
    }
    definition.uses.values().for_each(|used| collect(used, library, found));
    if library {
        let named = names::applied(&definition.def);
        let in_library = named.iter().filter(|name| !definition.uses.contains_key(*name));
        let definition = |name: &String| feature::feature(name, "").or_else(|| atomic::named(name));
        in_library.filter_map(definition).for_each(|used| collect(used, library, found));
    }
    if !feature.is_equations() {
        found.push(feature.clone());
    }
}

/// The texts of the library.
const LIBRARY: &[(&str, &str)] = &[
    ("lib/atomic.rt", include_str!("../../../specs/lib/atomic.rt")),
    ("lib/recurrence.rt", include_str!("../../../specs/lib/recurrence.rt")),
    ("lib/layers.rt", include_str!("../../../specs/lib/layers.rt")),
    ("lib/scans.rt", include_str!("../../../specs/lib/scans.rt")),
    ("lib/recursion.rt", include_str!("../../../specs/lib/recursion.rt")),
    ("lib/readout.rt", include_str!("../../../specs/lib/readout.rt")),
];

/// The line of the library that a place lies in.
fn library_line(span: Span) -> Option<&'static str> {
    let n = usize::try_from(u32::MAX - span.source.0).ok()?;
    let (_, text) = LIBRARY.get(n)?;
    let start = text.get(..span.start as usize)?.rfind('\n').map_or(0, |at| at + 1);
    text.get(start..)?.lines().next().map(str::trim)
}

/// The definitions of the library that are atomic, or those that are not.
fn parsed(atomic: bool) -> Vec<FileItem> {
    let mut problems = Problems::default();
    let files = LIBRARY.iter().enumerate().filter_map(|(n, (_, text))| {
        let file = syntax::parse(SourceId(u32::MAX - n as u32), text, &mut problems)?;
        Some(file.items)
    });
    let asked = |item: &FileItem| matches!(&item.kind, ItemKind::Def(def) if def.atomic.is_some() == atomic);
    let items = files.flatten().filter(asked).collect();
    assert!(!problems.has_errors(), "in the library: {:?}", problems.iter().next());
    items
}

/// All slots, with the definitions of the library in their places.
///
/// # Panics
/// The texts are part of the program; one with an error can't be built into it, which every test would show.
pub(crate) fn library() -> Vec<Slot> {
    let mut slots = rows();
    let mut problems = Problems::default();
    let features = Features::new(&slots, parsed(false).iter(), true, &mut problems).features;
    assert!(!problems.has_errors(), "in the library: {:?}", problems.iter().next());
    for feature in features {
        match slots.iter_mut().find(|slot| slot.name == feature.slot) {
            // Rows that equations can't say stand behind those that they can.
            Some(slot) => {
                let at = slot.features.iter().take_while(|f| f.definition().is_some()).count();
                slot.features.insert(at, feature);
            }
            None => {
                let (name, doc) = (feature.slot.clone(), feature.doc.clone());
                slots.push(Slot {
                    name,
                    doc,
                    takes: &[],
                    fields: vec![],
                    check: nothing_more,
                    features: vec![feature],
                });
            }
        }
    }
    slots
}

/// The definitions of files, by what they are called.
#[derive(Default)]
pub(crate) struct Features {
    features: Vec<Arc<Feature>>,
}

impl Features {
    /// The definitions among items, but for those that are written out where they are applied; reports what is wrong with them.
    pub(crate) fn new<'i>(
        slots: &[Slot],
        items: impl Iterator<Item = &'i FileItem>,
        library: bool,
        problems: &mut Problems,
    ) -> Self {
        let mut builder = DefinitionBuilder {
            slots,
            library,
            defs: vec![],
            named: BTreeMap::new(),
            of_pairs: BTreeSet::new(),
            problems,
            built: Self::default(),
            active: vec![],
        };
        for item in items {
            match &item.kind {
                ItemKind::Def(def) => builder.add(item, def),
                ItemKind::Let(ast::Let { name, .. }) | ItemKind::Function(ast::FunctionItem { name, .. }) => {
                    builder.of_pairs.insert(&name.text);
                }
                ItemKind::Use { .. } | ItemKind::Model { .. } | ItemKind::Variant { .. } => {}
            }
        }
        for n in 0..builder.defs.len() {
            builder.build(n);
        }
        builder.built
    }

    /// The definition of a keyword and the word behind it.
    pub(crate) fn find(&self, keyword: &str, word: &str) -> Option<&Arc<Feature>> {
        self.features.iter().find(|f| f.slot == keyword && f.variant == word)
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Feature>> {
        self.features.iter()
    }
}

struct WrittenDefinition<'i> {
    item: &'i FileItem,
    def: &'i ast::Def,
}

struct DefinitionBuilder<'b, 'i> {
    slots: &'b [Slot],
    library: bool,
    defs: Vec<WrittenDefinition<'i>>,
    /// Those that are no variant of a slot, by their names: equations apply them.
    named: BTreeMap<String, usize>,
    /// The masks, biases and constants.
    of_pairs: BTreeSet<&'i str>,
    problems: &'b mut Problems,
    built: Features,
    /// The definitions being built, each applied by the one before it.
    active: Vec<usize>,
}

impl<'i> DefinitionBuilder<'_, 'i> {
    /// Lists a definition whose name is free.
    fn add(&mut self, item: &'i FileItem, def: &'i ast::Def) {
        let (keyword, word) = called(def);
        let same = |other: &&WrittenDefinition<'_>| called(other.def) == (keyword, word);
        if let Some(first) = self.defs.iter().find(same) {
            let message = format!("`{}` is defined twice", title(def));
            let diagnostic = Diagnostic::new(Kind::DuplicateName, def.name.span, message).label("the second one");
            self.problems.report(diagnostic.note(first.def.name.span, "the first one"));
            return;
        }
        let slot = self.slots.iter().find(|s| s.name == keyword);
        match (&def.slot, slot) {
            (Some(name), None) => {
                let open = || self.slots.iter().filter(|s| !s.takes.is_empty()).map(|s| &*s.name);
                let message = format!("there is no slot `{}`", name.text);
                let diagnostic = Diagnostic::new(Kind::UnknownStatement, name.span, message);
                let help = format!(
                    "definitions can be variants of {}; a layer has one name: `def {}(x)`",
                    list(open(), "and"),
                    def.name.text
                );
                self.problems.report(diagnostic.label(did_you_mean(&name.text, open())).help(help));
                return;
            }
            (Some(name), Some(slot)) if slot.takes.is_empty() => {
                let open = self.slots.iter().filter(|s| !s.takes.is_empty()).map(|s| &*s.name);
                let message = format!("no definition can be a variant of `{}`", name.text);
                let help = format!("definitions can be variants of {}", list(open, "and"));
                self.problems.report(Diagnostic::new(Kind::UnknownStatement, name.span, message).help(help));
                return;
            }
            (_, Some(slot)) if slot.feature(word).is_some() => {
                let message = format!("`{}` is in the library", title(def));
                let diagnostic = Diagnostic::new(Kind::DuplicateName, def.name.span, message);
                self.problems.report(diagnostic.label("choose another name"));
                return;
            }
            (None, slot)
                if !self.library
                    && (slot.is_some() || names::is_taken(&def.name.text) || names::is_word(&def.name.text)) =>
            {
                let what = if slot.is_some() { "a statement" } else { "a name" };
                let message = format!("`{}` is {what} of the language", def.name.text);
                let diagnostic = Diagnostic::new(Kind::DuplicateName, def.name.span, message);
                self.problems.report(diagnostic.label("choose another name"));
                return;
            }
            _ => {}
        }
        if def.slot.is_none() {
            self.named.insert(def.name.text.clone(), self.defs.len());
        }
        self.defs.push(WrittenDefinition { item, def });
    }

    /// The feature of a definition, built behind those that it applies.
    fn build(&mut self, n: usize) -> Option<Arc<Feature>> {
        let (item, def) = (self.defs[n].item, self.defs[n].def);
        let (keyword, word) = called(def);
        if let Some(known) = self.built.find(keyword, word) {
            return Some(known.clone());
        }
        if self.active.contains(&n) {
            let chain = self.active.iter().map(|n| title(self.defs[*n].def)).collect::<Vec<_>>().join(" -> ");
            let message = format!("`{}` is defined through itself", title(def));
            let help = format!("the chain: {chain} -> {}", title(def));
            return self.problems.fail(Diagnostic::new(Kind::CyclicDefinition, def.name.span, message).help(help));
        }
        if self.active.len() == HIGHEST {
            self.too_high(def);
            return None;
        }
        self.active.push(n);
        let mut uses = BTreeMap::new();
        let applied = names::applied(def);
        for name in &applied {
            if let Some(feature) = self.named.get(name).copied().and_then(|n| self.build(n)) {
                uses.insert(name.clone(), feature);
            }
        }
        self.active.pop();
        let mut height = 1 + uses.values().filter_map(|f| f.definition()).map(|d| d.height).max().unwrap_or(0);
        let slot = self.slots.iter().find(|s| s.name == keyword);
        let found = self.problems.len();
        if let Some(refused) = atomic::refused(def).filter(|_| !self.library) {
            self.problems.report(refused);
        }
        let mut fields = self.fields(def);
        for common in slot.filter(|_| !decides(def)).map_or(&[][..], |slot| &slot.fields) {
            match fields.iter().find(|own| own.name == common.name) {
                None => fields.push(common.clone()),
                Some(_) => {
                    let message = format!("every definition of `{keyword}` has a setting `{}`", common.name);
                    let diagnostic = Diagnostic::new(Kind::DuplicateName, def.name.span, message);
                    self.problems.report(diagnostic.help("take it out of this one"));
                }
            }
        }
        if height > HIGHEST {
            self.too_high(def);
            (uses, height) = (BTreeMap::new(), 1);
        } else {
            names::check(def, slot, &uses, (self.slots, &self.named, &self.of_pairs), self.problems);
        }
        let cyclic = applied.iter().any(|name| self.named.contains_key(name) && !uses.contains_key(name));
        let broken = cyclic || self.problems.len() > found || uses.values().any(is_broken);
        let mut unread = uses.values().any(has_unread);
        if !broken {
            names::check_carried(def, self.problems);
            unread |= !names::reads_settings(def, self.problems);
        }
        let (doc, source) = doc_and_source(&item.doc);
        let text = syntax::definition(def, false);
        let documented = syntax::documentation(&item.doc, "") + &syntax::definition(def, true);
        let (def, library) = (def.clone(), self.library);
        let kernel = def.atomic.filter(|_| library).and_then(|_| atomic::kernel(&def.name.text));
        let values = def.values.iter().map(|v| v.text.clone().into()).collect();
        let definition = Definition { def, text, documented, library, kernel, broken, unread, uses, height };
        let feature = Arc::new(Feature {
            slot: keyword.to_owned().into(),
            variant: word.to_owned().into(),
            doc,
            source,
            values,
            fields,
            children: &[],
            check: slot.map_or(nothing_more, |slot| slot.check),
            lower: Lowering::Definition(Arc::new(definition)),
            attends: false,
        });
        // One with an error is known all the same, so that what applies it is not reported, too.
        self.built.features.push(feature.clone());
        Some(feature)
    }

    fn too_high(&mut self, def: &ast::Def) {
        let message = format!("`{}` stands on more than {HIGHEST} definitions, each applied by the next", title(def));
        self.problems.report(Diagnostic::new(Kind::TooDeep, def.name.span, message));
    }

    /// The settings as fields.
    fn fields(&mut self, def: &ast::Def) -> Vec<StatementField> {
        let settings = def.elements.iter().filter_map(|element| match element {
            DefElement::Setting(setting) => Some(setting),
            _ => None,
        });
        let mut fields: Vec<StatementField> = vec![];
        for setting in settings {
            let field = self.field(setting, &fields);
            fields.extend(field);
        }
        fields
    }

    fn field(&mut self, setting: &Declaration, before: &[StatementField]) -> Option<StatementField> {
        let (kind, bounds) = self.kind(setting)?;
        let default = match &setting.default {
            None => Default::Required,
            Some(value) => self.default(setting, value, (&kind, bounds), before)?,
        };
        let doc = setting.doc.lines().collect::<Vec<_>>().join(" ");
        Some(StatementField {
            name: setting.name.text.clone().into(),
            kind,
            default,
            bounds,
            doc: doc.into(),
            beside: None,
        })
    }

    /// What a setting takes, and its range.
    fn kind(&mut self, setting: &Declaration) -> Option<(FieldKind, Bounds)> {
        let kind = &setting.kind;
        let wrong = |this: &mut Self, message: String, help: &str| {
            this.problems.fail(Diagnostic::new(Kind::WrongType, kind.span, message).help(help))
        };
        let plain = |kind: FieldKind, bounds: Bounds| Some((kind, bounds));
        match (kind.text.as_str(), &setting.args[..]) {
            ("int", []) => plain(FieldKind::Int, SIZE),
            ("number", []) => plain(FieldKind::Float, Bounds::ANY),
            ("int" | "number", [low, high]) => {
                let ends = [low, high].map(|end| constant(end, &|_| None).ok().and_then(|c| c.number()));
                let [Some(low), Some(high)] = ends else {
                    let message = format!("the bounds of `{}` are two numbers", kind.text);
                    return wrong(self, message, &format!("as in `{}(1, 64)`", kind.text));
                };
                if low > high {
                    return wrong(
                        self,
                        "the lower bound stands first".to_owned(),
                        &format!("as in `{}(1, 64)`", kind.text),
                    );
                }
                let of = if kind.text == "int" { FieldKind::Int } else { FieldKind::Float };
                plain(of, Bounds::closed(low, high))
            }
            ("int" | "number", _) => {
                let message = format!("`{}` has two bounds or none", kind.text);
                wrong(self, message, &format!("as in `{0}` or `{0}(1, 64)`", kind.text))
            }
            ("probability", []) => plain(FieldKind::Float, DROPOUT),
            ("bool", []) => plain(FieldKind::Truth, Bounds::ANY),
            ("fn", []) => plain(FieldKind::Function, Bounds::ANY),
            ("mask", []) => plain(FieldKind::Mask, Bounds::ANY),
            ("bias", []) => plain(FieldKind::Bias, Bounds::ANY),
            ("word", []) => wrong(self, "`word` needs its words".to_owned(), "as in `word(pre, post)`"),
            ("word", words) => {
                let names: Option<Vec<String>> = words.iter().map(|w| w.as_name().map(|n| n.text)).collect();
                let Some(names) = names else {
                    return wrong(self, "`word` takes names".to_owned(), "as in `word(pre, post)`");
                };
                if let Some((n, twice)) = names.iter().enumerate().find(|(n, name)| names[..*n].contains(name)) {
                    let message = format!("the word `{twice}` stands twice");
                    return self.problems.fail(Diagnostic::new(Kind::DuplicateName, words[n].span, message));
                }
                plain(FieldKind::Word(Words::Written(names.into())), Bounds::ANY)
            }
            (name, _) => {
                let message = match KINDS.contains(&name) {
                    true => format!("`{name}` takes nothing in parentheses"),
                    false => format!("there is no kind `{name}`"),
                };
                let known = KINDS.contains(&name);
                let label = if known { String::new() } else { did_you_mean(name, KINDS) };
                let help = if known { String::new() } else { format!("a setting is {}", list(KINDS, "or")) };
                self.problems.fail(Diagnostic::new(Kind::WrongType, kind.span, message).label(label).help(help))
            }
        }
    }

    /// What a setting is where it is not written.
    fn default(
        &mut self,
        setting: &Declaration,
        value: &ValueSyntax,
        (kind, bounds): (&FieldKind, Bounds),
        before: &[StatementField],
    ) -> Option<Default> {
        let wrong = |this: &mut Self, label: &str| {
            let message = format!("`{}` takes {}", setting.name.text, kind.describe());
            this.problems.fail(Diagnostic::new(Kind::WrongType, value.span(), message).label(label))
        };
        let ValueSyntax::Expr(expr) = value else { return wrong(self, "a default has no settings of its own") };
        let name = expr.as_name().map(|name| name.text);
        let is_word = |name: &str| matches!(kind, FieldKind::Word(words) if words.contains(name));
        if name.as_deref() == Some("none") && !is_word("none") {
            return Some(Default::Absent);
        }
        let number = |this: &mut Self, default: Default, v: f64| {
            if bounds.hold(v) {
                return Some(default);
            }
            let message = format!("`{}` must be {}", setting.name.text, bounds.describe());
            this.problems
                .fail(Diagnostic::new(Kind::OutOfRange, expr.span, message).label(format!("this is {}", short(v))))
        };
        match (kind, name) {
            (FieldKind::Word(words), Some(name)) if words.contains(&name) => Some(Default::Word(name.into())),
            // Two defaults: one where answers see only the past, the other in all other models.
            (FieldKind::Word(words), Some(name)) if name == "sees" && words.iter().eq(["past", "all"]) => {
                Some(Default::Derived(Derived::Sees("past", "all")))
            }
            (FieldKind::Word(words), name) => {
                let hint = name.map(|name| did_you_mean(&name, words.iter())).unwrap_or_default();
                wrong(self, if hint.is_empty() { "this is none of the words" } else { &hint })
            }
            (FieldKind::Mask, Some(name)) if ["past", "all"].contains(&&*name) => Some(Default::Word(name.into())),
            (FieldKind::Mask, _) => wrong(self, "a default is `past` or `all`"),
            (FieldKind::Bias, _) => wrong(self, "a default is `none`"),
            (FieldKind::Function, Some(name)) if Pointwise::named(&name).is_some_and(Pointwise::is_activation) => {
                Some(Default::Word(name.into()))
            }
            (FieldKind::Function, _) => wrong(self, "a default is a pointwise function, as `gelu`"),
            (FieldKind::Float, Some(name)) if name == "dropout" => Some(Default::Derived(Derived::ModelDropout)),
            (FieldKind::Float, Some(name)) if name == "attention_dropout" => {
                Some(Default::Derived(Derived::ModelAttentionDropout))
            }
            (FieldKind::Int, Some(name)) if name == "width" => Some(Default::Derived(Derived::Width)),
            _ => match constant(expr, &|_| None) {
                Ok(Constant::Truth(v)) if *kind == FieldKind::Truth => Some(Default::Truth(v)),
                Ok(Constant::Int(v)) if *kind == FieldKind::Int => number(self, Default::Int(v), v as f64),
                Ok(Constant::Int(v)) if *kind == FieldKind::Float => number(self, Default::Float(v as f64), v as f64),
                Ok(Constant::Float(v)) if *kind == FieldKind::Float => number(self, Default::Float(v), v),
                Ok(found) => wrong(self, &format!("this is {}", found.describe())),
                // Worked out where the definition is used: from the width and the settings before it.
                Err(_) if matches!(kind, FieldKind::Int | FieldKind::Float) => {
                    self.readable(expr, before)?;
                    let text: Arc<str> = syntax::expression(expr).into();
                    Some(Default::Derived(Derived::Written(Arc::new(expr.clone()), text)))
                }
                Err(_) => wrong(self, "this is no constant"),
            },
        }
    }

    /// Reports what the default of a number can't read, or can't do with what it reads.
    fn readable(&mut self, expr: &ast::ExprSyntax, before: &[StatementField]) -> Option<()> {
        let numbers = before.iter().filter(|field| matches!(field.kind, FieldKind::Int | FieldKind::Float));
        let known: Vec<&str> =
            ["width", "dropout", "attention_dropout"].into_iter().chain(numbers.map(|f| &*f.name)).collect();
        let mut unknown = None;
        read_values(expr, &mut |name| {
            if !known.contains(&name.text.as_str()) {
                unknown.get_or_insert_with(|| name.clone());
            }
        });
        if let Some(name) = unknown {
            let message = format!("`{}` is not known here", name.text);
            let diagnostic = Diagnostic::new(Kind::UnknownName, name.span, message);
            let label = did_you_mean(&name.text, known.iter().copied());
            let help = "a default may read `width`, `dropout`, and the numbers that are set before it";
            return self.problems.fail(diagnostic.label(label).help(help));
        }
        match constant(expr, &|_| Some(Constant::Float(2.0))) {
            Err((span, why)) if !why.ends_with("has no value") && !why.ends_with("has no value here") => {
                self.problems.fail(Diagnostic::new(Kind::WrongType, span, why))
            }
            _ => Some(()),
        }
    }
}

/// The keyword and the word behind it that statements call a definition by.
fn called(def: &ast::Def) -> (&str, &str) {
    match &def.slot {
        Some(slot) => (&slot.text, &def.name.text),
        None => (&def.name.text, ""),
    }
}

fn title(def: &ast::Def) -> String {
    let (keyword, word) = called(def);
    format!("{keyword} {word}").trim_end().to_owned()
}

/// What the documentation of a definition says, and the source that it names in its last part.
fn doc_and_source(doc: &str) -> (Text, Text) {
    let line = doc.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    match line.split_once("Source: ") {
        Some((doc, source)) => (doc.trim().to_owned().into(), source.trim_end_matches('.').to_owned().into()),
        None => (line.into(), Text::Borrowed("")),
    }
}

/// The definitions of a file, for tests of the library alone.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_has_no_error() {
        assert!(library().iter().flat_map(|slot| &slot.features).any(|f| f.definition().is_some()));
        for (name, text) in LIBRARY {
            let formatted = syntax::format(text).unwrap_or_else(|p| panic!("{name}: {:?}", p.iter().next()));
            assert!(formatted == **text, "{name} is not in canonical layout");
        }
    }
}
