//! Equations to nodes: a definition is applied by working its equations out in order.
//!
//! The rows of a batch have no axis here, so no equation can mix them. Axes are matched by what they are: an array without the
//! positions, or without the channels, of another is the same at each of them. What does not fit is reported at its place
//! with both types, and what depends on it is left out.
//!
//! Weights are named after the binding that they stand in (`up = linear(x)`), else after the word (`linear`), behind the place
//! of the statement; a name that is taken gets a number. A definition that is applied in a binding is a place of its own.

mod application;
mod arithmetic;
mod bodies;
mod choice;
mod pairs;
mod settings;
mod steps;
mod streams;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) use bodies::{Knows, check as check_body, check_loop, repeated};
pub(crate) use choice::ChoiceRegion;
pub(crate) use settings::{derived, worked_out};
pub use steps::STATE;
pub(crate) use steps::{LoopCarry, conditions, keeps_positions, nexts, starts};

use super::constant::{self, Constant};
use super::item::{ArrayAxis, BindingType, EquationArray, ExpressionValue, FunctionValue, describe};
use super::losses;
use super::names::{not_yet, read_values, unknown, unknown_value};
use super::{Definition, atomic, words};
use crate::diag::{Diagnostic, Kind, list};
use crate::feature::{self, Feature, Lowering, feature};
use crate::ir::attribute::{self, At, Attrs};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::Pointwise;
use crate::ir::types::Dim;
use crate::lower::Lower;
use crate::schema::{Default, Derived, FieldKind, StatementField};
use crate::source::Span;
use crate::spec::{Block, FieldValue, Origin, Setting};
use crate::syntax::ast::{self, DefElement, EquationForm, ExprKind, ExprSyntax};

/// The most expressions that the equations of one model may be, counted wherever they are applied.
pub const MOST: usize = 200_000;
/// How deep expressions may stand in each other, those of the definitions that are applied included.
pub const DEEPEST: usize = 600;

/// What a definition or a word gives for values: the first result of [`results`].
///
/// # Errors
/// As `results`.
pub(crate) fn call(l: &mut Lower<'_>, block: &Block, values: &[Value]) -> Result<Value, InvalidNode> {
    results(l, block, values).map(|all| all[0])
}

/// What a definition or a word gives for values, then what it hands on to the next step.
///
/// # Errors
/// Where an equation is wrong; the context has the report.
pub(crate) fn results(l: &mut Lower<'_>, block: &Block, values: &[Value]) -> Result<Vec<Value>, InvalidNode> {
    let args = values.iter().map(|value| ExpressionValue::Array(EquationArray::of(l.graph(), *value))).collect();
    applied(l, block, args)
}

/// What a definition gives for the first and the last of the elements of a sequence, each taken where it is first read.
///
/// # Errors
/// As `results`.
pub(crate) fn call_on_ends(l: &mut Lower<'_>, block: &Block, sequence: Value) -> Result<Value, InvalidNode> {
    let of = EquationArray::of(l.graph(), sequence);
    let args = [At::First, At::Last].map(|at| ExpressionValue::Position(of.clone(), at));
    applied(l, block, args.into()).map(|all| all[0])
}

/// The number of axes in the graph of what a definition gives for values: found on a copy, so nothing is left in the graph.
///
/// # Errors
/// As `results`.
pub(crate) fn rank_of(l: &mut Lower<'_>, block: &Block, values: &[Value]) -> Result<usize, InvalidNode> {
    l.trial(|l| call(l, block, values).map(|value| l.rank(value)))
}

/// What a definition of the library gives for values, with the settings of a statement that has fields of the same names.
///
/// # Errors
/// Where there is no such definition, or where its equations don't fit the values.
pub(crate) fn apply(l: &mut Lower<'_>, name: &str, block: &Block, values: &[Value]) -> Result<Value, InvalidNode> {
    apply_all(l, name, block, values).map(|all| all[0])
}

/// All that a definition of the library gives for values.
///
/// # Errors
/// As `apply`.
pub(crate) fn apply_all(
    l: &mut Lower<'_>,
    name: &str,
    block: &Block,
    values: &[Value],
) -> Result<Vec<Value>, InvalidNode> {
    let fault = || InvalidNode(format!("the library has no `{name}` for these values"));
    let definition = feature(name, "").and_then(|feature| match &feature.lower {
        Lowering::Definition(definition) => Some(definition),
        _ => None,
    });
    let args = values.iter().map(|value| ExpressionValue::Array(EquationArray::of(l.graph(), *value))).collect();
    let mut eval = Eval::new(l, block.span);
    let (out, _) = eval.define(definition.ok_or_else(fault)?, &Arc::new(block.clone()), args).ok_or_else(fault)?;
    let all = match out {
        ExpressionValue::Several(all) => all,
        one => vec![one],
    };
    all.into_iter().map(|one| eval.array(one, block.span).map(|one| one.value).ok_or_else(fault)).collect()
}

fn applied(l: &mut Lower<'_>, block: &Block, args: Vec<ExpressionValue>) -> Result<Vec<Value>, InvalidNode> {
    let arrays: Vec<EquationArray> = args.iter().filter_map(ExpressionValue::known).collect();
    let mut eval = Eval::new(l, block.span);
    let reported = || InvalidNode(format!("`{}` has an error", block.title()));
    let block = Arc::new(block.clone());
    let (out, carried) = eval.enter(&block, args, block.span).ok_or_else(reported)?;
    let place = eval.frame.out.unwrap_or(block.span);
    let out = eval.array(out, place).ok_or_else(reported)?;
    losses::without_labels(&mut eval, &out, ("the result", place)).ok_or_else(reported)?;
    eval.fits(&block.feature, &arrays, &out, place).ok_or_else(reported)?;
    let mut all = vec![out.value];
    let names: Vec<String> =
        block.feature.definition().into_iter().flat_map(Definition::carried).map(str::to_owned).collect();
    for (name, item) in names.iter().zip(carried) {
        let next = eval.array(item, place).ok_or_else(reported)?;
        // What a cell carries starts from zeros like one of the vectors that it gets.
        if arrays.first().is_some_and(|start| next.axes != start.axes || !next.rows || next.truth) {
            let message =
                format!("`{name}` is carried as {}, but a step leaves {}", arrays[0].describe(), next.describe());
            let _: Option<()> = eval.wrong(place, message, "the next step starts from it");
            return Err(reported());
        }
        all.push(next.value);
    }
    Ok(all)
}

/// Names that the equations of a body have bound so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct BoundNames {
    items: BTreeMap<String, ExpressionValue>,
    taken: TakenNames,
    /// The places of the statements around, whose weights no binding may take.
    reserved: BTreeSet<String>,
    /// The names that the loops around carry, in the order in which they are bound: graphs don't depend on the names themselves.
    carried: Vec<String>,
    /// The names that equations of the bodies around bind, here or below, and where.
    later: BTreeMap<String, Span>,
}

impl BoundNames {
    /// Keeps a name at a place for a statement.
    pub(crate) fn reserve(&mut self, place: &str, name: &str) {
        self.reserved.insert(format!("{place}.{name}"));
    }

    /// Works something out at a run of equations: with these names, and `state` as the state.
    fn within<R>(
        &mut self,
        l: &mut Lower<'_>,
        run: &Block,
        state: Value,
        work: impl FnOnce(&mut Eval<'_, '_>) -> R,
    ) -> R {
        self.items.insert(STATE.to_owned(), ExpressionValue::Array(EquationArray::of(l.graph(), state)));
        let names = std::mem::take(&mut self.items);
        let (block, later) = (Some(Arc::new(run.clone())), std::mem::take(&mut self.later));
        let frame = CallFrame { block, names, later, ..CallFrame::default() };
        let (taken, reserved) = (std::mem::take(&mut self.taken), self.reserved.clone());
        let mut eval = Eval { l, outer: run.span, taken, reserved, level: 0, index: None, frame };
        let result = work(&mut eval);
        (self.items, self.taken, self.later) = (eval.frame.names, eval.taken, eval.frame.later);
        result
    }
}

/// Names that are taken, each with the number that the next one of its kind may have.
type TakenNames = BTreeMap<String, usize>;

/// Works a run of equations out: `state` is what the layers before it made, and what the layers behind it get.
///
/// # Errors
/// Where an equation is wrong; the context has the report.
pub(crate) fn run(
    l: &mut Lower<'_>,
    block: &Block,
    state: Value,
    names: &mut BoundNames,
) -> Result<Value, InvalidNode> {
    let reported = || InvalidNode(format!("`{}` have an error", block.title()));
    let Lowering::Equations(definition) = &block.feature.lower else { return Err(reported()) };
    let before = EquationArray::of(l.graph(), state);
    let found = l.problems.len();
    let after = names.within(l, block, state, |eval| {
        definition.equations().filter(|e| e.form != EquationForm::Carry).for_each(|equation| eval.equation(equation));
        let after = eval.frame.names.get(STATE).cloned().and_then(|item| eval.array(item, block.span));
        let last = definition.equations().filter(|e| e.names.iter().any(|name| name.text == STATE)).last();
        let place = last.map_or(block.span, |equation| equation.span);
        losses::without_labels(eval, after.as_ref()?, ("the state", place))?;
        if let Some(after) = after.as_ref().filter(|after| after.axes != before.axes || !after.rows || after.truth) {
            let message = format!("`state` is {}, and here it becomes {}", before.describe(), after.describe());
            let label = format!("what stands behind takes {}", before.describe());
            let cure = cure(after, &before.axes);
            let _: Option<()> = eval.report(Diagnostic::new(Kind::WrongType, place, message).label(label).help(cure));
        }
        after
    });
    if l.problems.len() > found {
        return Err(reported());
    }
    after.map(|after| after.value).ok_or_else(reported)
}

/// The names of a definition that is being applied.
#[derive(Default)]
struct CallFrame {
    /// The block that it is applied as: its settings.
    block: Option<Arc<Block>>,
    names: BTreeMap<String, ExpressionValue>,
    /// The names of bindings that have no value.
    failed: BTreeSet<String>,
    /// The names that equations of the body bind, here or below, and where.
    later: BTreeMap<String, Span>,
    /// Where its result stands.
    out: Option<Span>,
    /// The settings that its equations have read.
    read: RefCell<BTreeSet<String>>,
}

/// One application and those inside it.
pub(crate) struct Eval<'e, 'l> {
    pub(crate) l: &'e mut Lower<'l>,
    /// The place in the user's text that an error in the library belongs to.
    outer: Span,
    /// The names of weights that are taken.
    taken: TakenNames,
    /// Names of places that are kept for statements.
    reserved: BTreeSet<String>,
    /// How many expressions stand around the one that is worked out.
    level: usize,
    /// The index of the call that is worked out next.
    index: Option<(Value, usize)>,
    frame: CallFrame,
}

/// A word or a definition that is applied.
pub(crate) struct Application<'c> {
    /// What it is applied to.
    pub(crate) args: Vec<ExpressionValue>,
    /// Its settings.
    pub(crate) block: Arc<Block>,
    /// The name of the binding that it stands in alone.
    pub(crate) name: Option<&'c str>,
    pub(crate) span: Span,
    /// Where the values stand.
    pub(crate) places: Vec<Span>,
}

impl<'e, 'l> Eval<'e, 'l> {
    /// An application for a statement at this place.
    fn new(l: &'e mut Lower<'l>, outer: Span) -> Self {
        Self {
            l,
            outer,
            taken: TakenNames::new(),
            reserved: BTreeSet::new(),
            level: 0,
            index: None,
            frame: CallFrame::default(),
        }
    }

    /// Reports a problem that leaves no value. One of the library belongs to the statement that uses it.
    pub(crate) fn fail<T>(
        &mut self,
        kind: Kind,
        span: Span,
        message: impl Into<String>,
        label: impl Into<String>,
    ) -> Option<T> {
        self.report(Diagnostic::new(kind, span, message).label(label))
    }

    pub(crate) fn report<T>(&mut self, mut diagnostic: Diagnostic) -> Option<T> {
        if self.in_library() {
            let name = self.frame.block.as_ref().map(|block| block.title()).unwrap_or_default();
            diagnostic.message = format!("in `{name}`: {}", diagnostic.message);
            if let Some(line) = diagnostic.span.and_then(super::library_line) {
                diagnostic = diagnostic.help(format!("its equation is `{line}`"));
            }
            diagnostic.span = Some(self.outer);
        }
        self.l.problems.fail(diagnostic)
    }

    fn wrong<T>(&mut self, span: Span, message: impl Into<String>, label: impl Into<String>) -> Option<T> {
        self.fail(Kind::WrongType, span, message, label)
    }

    /// Some value that is known here.
    pub(crate) fn some_value(&self) -> Option<Value> {
        self.frame.names.values().find_map(ExpressionValue::known).map(|array| array.value).or(self.l.table)
    }

    fn in_library(&self) -> bool {
        self.frame.block.as_ref().is_some_and(|b| b.feature.definition().is_some_and(|d| d.library))
    }

    /// A step of lowering; what it refuses is reported here.
    pub(crate) fn node<R>(
        &mut self,
        span: Span,
        step: impl FnOnce(&mut Lower<'l>) -> Result<R, InvalidNode>,
    ) -> Option<R> {
        match step(self.l) {
            Ok(value) => Some(value),
            Err(InvalidNode(why)) => self.wrong(span, why, ""),
        }
    }

    /// The result of a block for values, and what it carries on.
    fn enter(
        &mut self,
        block: &Arc<Block>,
        args: Vec<ExpressionValue>,
        span: Span,
    ) -> Option<(ExpressionValue, Vec<ExpressionValue>)> {
        if let Some(word) = self.word(&block.feature) {
            let places = vec![span; args.len()];
            let call = Application { args, block: block.clone(), name: None, span, places };
            return Some(((word.0)(self, &call)?, vec![]));
        }
        match &block.feature.lower {
            Lowering::Definition(definition) => {
                let definition = definition.clone();
                self.define(&definition, block, args)
            }
            _ => self.wrong(span, format!("`{}` can't be applied to values", block.title()), ""),
        }
    }

    /// The word that a feature is, or whose op stands for its equations.
    fn word(&self, feature: &Feature) -> Option<words::BuiltInWord> {
        match &feature.lower {
            Lowering::Word(word) => Some(*word),
            Lowering::Definition(definition) if !self.l.by_equations => definition.kernel,
            _ => None,
        }
    }

    /// An atomic definition applied to values, with a setting.
    pub(crate) fn atomic(
        &mut self,
        name: &str,
        args: Vec<ExpressionValue>,
        (setting, value): (&'static str, FieldValue),
        span: Span,
    ) -> Option<ExpressionValue> {
        let feature = atomic::named(name)?;
        let mut block = self.settings(feature, None, span)?;
        block.fields.insert(setting.into(), Setting { value, origin: Origin::Default });
        let places = vec![span; args.len()];
        self.applied(&FunctionValue::Block(Arc::new(block)), args, &places, None, span)
    }

    /// Works the equations of a definition out.
    fn define(
        &mut self,
        definition: &Arc<Definition>,
        block: &Arc<Block>,
        args: Vec<ExpressionValue>,
    ) -> Option<(ExpressionValue, Vec<ExpressionValue>)> {
        if definition.broken {
            // What is wrong with it was reported where it is written.
            return None;
        }
        let mut frame = CallFrame { block: Some(block.clone()), ..CallFrame::default() };
        let carried = definition.carried().count();
        let own = definition.def.values.len();
        let handed = args.len().saturating_sub(own);
        debug_assert!(handed == 0 || handed == carried, "a step hands on all that it carries");
        let mut args = args.into_iter();
        for (name, arg) in definition.def.values.iter().zip(args.by_ref()) {
            frame.names.insert(name.text.clone(), arg);
        }
        let mut starts = args;
        // The chain that a cell stands in hands on what it carries; all others stand in a recurrence.
        let is_cell = block.slot == "cell";
        let mut handed = vec![];
        let outer = std::mem::replace(&mut self.frame, frame);
        let before = self.l.problems.len();
        let mut out = None;
        for element in &definition.def.elements {
            match element {
                DefElement::Let(binding) => {
                    let value = self.expr(&binding.value, None);
                    self.bind(&binding.name, value);
                }
                DefElement::Setting(_) => {}
                DefElement::Equation(equation) if equation.form == EquationForm::Carry && is_cell => {
                    let start = starts.next().or_else(|| self.expr(&equation.value, None));
                    self.bind(&equation.names[0], start);
                }
                DefElement::Equation(equation) if equation.form == EquationForm::Carry => {
                    let start = self.handed(equation);
                    if let Some((Some(n), item)) = &start {
                        handed.push((equation, *n, item.clone()));
                    }
                    self.bind(&equation.names[0], start.map(|(_, item)| item));
                }
                DefElement::Equation(equation) => self.equation(equation),
                DefElement::Out(values, span) => {
                    self.frame.out = Some(*span);
                    out = match &values[..] {
                        [value] => self.expr(value, None),
                        // Only the compiler applies those of the library: where equations do, they are written out.
                        values => {
                            let all: Option<Vec<_>> = values.iter().map(|value| self.expr(value, None)).collect();
                            all.map(ExpressionValue::Several)
                        }
                    };
                }
                DefElement::Statement(_) => {}
            }
        }
        for (equation, n, before) in handed {
            self.hand_on(equation, n, &before);
        }
        let carried = definition.carried().filter(|_| is_cell).map(|name| self.frame.names.get(name).cloned());
        let carried = carried.collect::<Option<Vec<_>>>();
        let done = std::mem::replace(&mut self.frame, outer);
        self.frame.out = self.frame.out.or(done.out.filter(|_| !definition.library));
        if self.l.problems.len() == before && !self.l.trying {
            self.all_read(definition, block, &done.read.into_inner());
        }
        if self.l.problems.len() > before {
            return None;
        }
        Some((out?, carried?))
    }

    /// Reports a setting that is written where the definition is used, and that no equation has read which was worked out there.
    fn all_read(&mut self, definition: &Definition, block: &Block, read: &BTreeSet<String>) {
        let own = definition.settings().map(|setting| setting.name.text.as_str());
        for name in own.filter(|name| feature::says_more(block, name) && !read.contains(*name)) {
            let field = block.feature.fields.iter().find(|field| field.name == name);
            let default = field.and_then(|field| self.filled(field, block).ok().flatten());
            if default.as_ref() == block.fields.get(name).map(|setting| &setting.value) {
                continue;
            }
            // Others may be worked out of it.
            let derives = |field: &StatementField| match &field.default {
                Default::Derived(Derived::Written(expr, _)) if !feature::says_more(block, &field.name) => {
                    let mut found = false;
                    read_values(expr, &mut |value| found |= value.text == name);
                    found
                }
                _ => false,
            };
            if block.feature.fields.iter().any(derives) {
                continue;
            }
            let place = match block.fields.get(name).map(|setting| &setting.origin) {
                Some(Origin::Written(span) | Origin::Variant(_, span)) => *span,
                _ => block.span,
            };
            let message = format!("`{name}` has no effect on `{}` with its other settings", block.title());
            let diagnostic = Diagnostic::new(Kind::IdleField, place, message).label("no equation reads it here");
            let others = block.fields.keys().map(|other| &**other).filter(|other| *other != name);
            self.l.problems.report(feature::cured(diagnostic, block, name, others, format!("leave `{name}` out")));
        }
    }

    fn bind(&mut self, name: &ast::Name, value: Option<ExpressionValue>) {
        match value {
            Some(value) => {
                if !self.in_library() {
                    let noted = self.l.note_place(BindingType::of_equation(name));
                    self.l.note_type(noted, value.describe());
                }
                self.frame.names.insert(name.text.clone(), value);
                self.frame.failed.remove(&name.text);
            }
            // What has no value was reported; what reads it is not.
            None => {
                self.frame.names.remove(&name.text);
                self.frame.failed.insert(name.text.clone());
            }
        }
    }

    fn equation(&mut self, equation: &ast::Equation) {
        match equation.form {
            EquationForm::Go | EquationForm::Until => {
                self.decides(equation);
                return;
            }
            EquationForm::Loss => {
                self.pays(&equation.value);
                return;
            }
            _ => {}
        }
        let [name] = &equation.names[..] else { return self.several(equation) };
        if equation.form == EquationForm::Share {
            let shared = self.shared(&equation.value, &name.text);
            return self.bind(name, shared);
        }
        let value = self.expr(&equation.value, (equation.form == EquationForm::Plain).then_some(name.text.as_str()));
        let value = if equation.form == EquationForm::Show {
            value.and_then(|value| {
                let array = self.array(value, equation.value.span)?;
                losses::without_labels(self, &array, ("what is shown", equation.value.span))?;
                self.l.shown.insert(name.text.clone(), array.value);
                Some(ExpressionValue::Array(array))
            })
        } else {
            value
        };
        self.bind(name, value);
    }

    /// A function whose weights are the same wherever it is applied.
    fn shared(&mut self, value: &ExprSyntax, name: &str) -> Option<ExpressionValue> {
        let item = match &value.kind {
            ExprKind::Function(word, body) => {
                let Some(feature) = self.find(&word.text) else { return self.unknown(&word.text, word.span) };
                ExpressionValue::Function(FunctionValue::Block(Arc::new(self.settings(
                    &feature,
                    Some(body),
                    value.span,
                )?)))
            }
            _ => self.expr(value, None)?,
        };
        match item {
            ExpressionValue::Function(FunctionValue::Block(block)) if words::has_weights(&block.feature) => {
                let place = self.fresh(name, "");
                Some(ExpressionValue::Function(FunctionValue::Shared(block, self.l.place(), place)))
            }
            ExpressionValue::Function(function) => {
                let label = format!("`{}` has no weights", function.name());
                self.wrong(value.span, "`share` takes a function with weights, as `mlp { hidden: 64 }`", label)
            }
            other => {
                let label = format!("this is {}", other.describe());
                let message = "`share` takes a function with weights, as `mlp { hidden: 64 }`";
                let help = "the function stands without values behind `share`, and is applied below: `net(x)`";
                self.report(Diagnostic::new(Kind::WrongType, value.span, message).label(label).help(help))
            }
        }
    }

    fn several(&mut self, equation: &ast::Equation) {
        let value = self.expr(&equation.value, None);
        let items = match value {
            Some(ExpressionValue::Several(items)) if items.len() == equation.names.len() => {
                items.into_iter().map(Some).collect()
            }
            Some(ExpressionValue::Several(items)) => {
                let message = format!("{} names for {} values", equation.names.len(), items.len());
                let _: Option<()> = self.wrong(equation.value.span, message, "");
                vec![]
            }
            Some(other) => {
                let message = format!("{} names for one value", equation.names.len());
                let diagnostic = Diagnostic::new(Kind::WrongType, equation.value.span, message);
                let label = format!("this is {}", other.describe());
                let _: Option<()> = self.report(diagnostic.label(label).help("`parts(x, 2)` cuts a value in two"));
                vec![]
            }
            None => vec![],
        };
        for (n, name) in equation.names.iter().enumerate() {
            self.bind(name, items.get(n).cloned().flatten());
        }
    }

    /// The value of an expression; `name` is that of the binding in which it stands alone.
    pub(crate) fn expr(&mut self, expr: &ExprSyntax, name: Option<&str>) -> Option<ExpressionValue> {
        self.l.equations += 1;
        if self.l.equations > MOST {
            let message = format!("the definitions of the model are more than {MOST} expressions");
            return self.fail(Kind::TooLong, self.outer, message, "");
        }
        if self.level == DEEPEST {
            let message = format!("the equations stand more than {DEEPEST} deep in each other");
            return self.fail(Kind::TooDeep, self.outer, message, "");
        }
        self.level += 1;
        let item = self.worked_out(expr, name);
        self.level -= 1;
        item
    }

    fn worked_out(&mut self, expr: &ExprSyntax, name: Option<&str>) -> Option<ExpressionValue> {
        match &expr.kind {
            ExprKind::Int(v) => Some(ExpressionValue::Constant(Constant::Int(*v))),
            ExprKind::Float(v) => Some(ExpressionValue::Constant(Constant::Float(*v))),
            ExprKind::Bool(v) => Some(ExpressionValue::Constant(Constant::Truth(*v))),
            ExprKind::Group(x) => self.expr(x, name),
            ExprKind::Name(text) => self.name(text, expr.span),
            ExprKind::Neg(x) => match self.expr(x, None)? {
                ExpressionValue::Constant(constant) => self.folded(constant::negative(constant), expr.span),
                ExpressionValue::Average(x) => {
                    let item = self.pointwise(Pointwise::Neg, vec![ExpressionValue::Array(x)], expr.span)?;
                    self.array(item, expr.span).map(ExpressionValue::Average)
                }
                item => {
                    self.operand("`-`", &item, x.span)?;
                    self.pointwise(Pointwise::Neg, vec![item], expr.span)
                }
            },
            ExprKind::Not(x) => match self.expr(x, None)? {
                ExpressionValue::Constant(constant) => self.folded(constant::negated(constant), expr.span),
                item => {
                    let condition = self.condition(item, "`not`", x.span)?;
                    self.opposite(condition, expr.span)
                }
            },
            ExprKind::Binary(op, a, b) => self.binary(*op, a, b, expr.span),
            ExprKind::Call(word, args, body) => self.apply(word, args, body.as_ref(), name, expr.span),
            ExprKind::Old(path) => {
                self.wrong(path.span, "a value of an equation has one name", "nothing is behind the dot")
            }
            ExprKind::Function(_, body) => {
                self.wrong(body.span, "a function is applied to values: `name(x) { .. }`", "")
            }
            ExprKind::Indexed(index, call) => self.indexed(index, call, name),
            ExprKind::Read(base, _) => {
                let message = "a value is read at a position in a mask or a bias alone";
                let help = "there `c[i]` is that of the query and `c[j]` that of the key";
                self.report(Diagnostic::new(Kind::WrongType, base.span, message).help(help))
            }
            ExprKind::Learn(table, sizes, body) => self.learn(table, sizes, body.as_ref(), name, expr.span),
        }
    }

    fn folded(&mut self, result: Result<Constant, String>, span: Span) -> Option<ExpressionValue> {
        match result {
            Ok(constant) => Some(ExpressionValue::Constant(constant)),
            Err(why) => self.fail(Kind::OutOfRange, span, why, ""),
        }
    }

    /// The value of a name.
    fn name(&mut self, text: &str, span: Span) -> Option<ExpressionValue> {
        if let Some(item) = self.frame.names.get(text).cloned() {
            let item = self.here(item);
            if !matches!(item, ExpressionValue::Part(..) | ExpressionValue::Position(..)) {
                return Some(item);
            }
            // Taken once, however often it is read; but what is made among chosen positions stays there.
            let item = ExpressionValue::Array(self.array(item, span)?);
            if self.l.chosen.is_empty() && !self.l.in_whole {
                self.frame.names.insert(text.to_owned(), item.clone());
            }
            return Some(item);
        }
        // What has failed is no function or setting of the same name.
        if self.frame.failed.contains(text) {
            return None;
        }
        if let Some(item) = self.setting(text) {
            return Some(item);
        }
        match text {
            "step" => {
                return match &self.l.steps {
                    Some(steps) => Some(ExpressionValue::Step(steps.number())),
                    // The type alone is asked for.
                    None if self.l.trying => Some(ExpressionValue::Constant(Constant::Int(0))),
                    None => self.no_steps("step", span),
                };
            }
            "width" => return Some(ExpressionValue::Constant(Constant::Int(self.l.width as i64))),
            "classes" => return Some(ExpressionValue::Size(self.l.outputs())),
            "tokens" if self.l.tokens.is_some() => return self.tokens(),
            _ => {}
        }
        if pointwise(text).is_some() || self.find(text).is_some() {
            return self.function(text, span).map(ExpressionValue::Function);
        }
        self.unknown_value(text, span)
    }

    /// The ids of the tokens of a row.
    fn tokens(&mut self) -> Option<ExpressionValue> {
        let (tokens, table) = self.l.tokens.zip(self.l.table)?;
        let count = self.l.graph().ty(table).dims()[0].clone();
        Some(ExpressionValue::Ids(tokens, vec![ArrayAxis::Positions], count))
    }

    /// Reports a value of a body that is not known: those of definitions are known where they are written.
    fn unknown_value<T>(&mut self, text: &str, span: Span) -> Option<T> {
        if self.frame.failed.contains(text) {
            return None;
        }
        if let Some(equation) = self.frame.later.get(text) {
            let like = self.l.steps.as_ref().map(|_| STATE);
            let diagnostic = not_yet(text, span, *equation, like);
            return self.report(diagnostic);
        }
        let known = self.frame.names.keys().map(String::as_str);
        let diagnostic = unknown_value(text, span, feature::slot(text).is_some(), known.clone(), || {
            let are = if known.clone().count() == 1 { "the only value here is" } else { "the values here are" };
            format!("{are} {}", list(known.clone(), "and"))
        });
        self.report(diagnostic)
    }

    fn unknown<T>(&mut self, text: &str, span: Span) -> Option<T> {
        // A binding without a value was reported.
        if self.frame.failed.contains(text) {
            return None;
        }
        let mut known: Vec<String> = self.frame.names.keys().cloned().collect();
        known.extend(words::names().map(str::to_owned));
        let applied = feature::slots().iter().filter(|slot| slot.feature("").is_some_and(|f| !f.values.is_empty()));
        known.extend(applied.map(|slot| slot.name.to_string()));
        known.extend(Pointwise::ALL.iter().filter(|f| !f.def().torch.is_empty()).map(|f| f.def().name.to_owned()));
        let diagnostic = unknown(text, span, feature::slot(text).is_some(), known.iter().map(String::as_str));
        self.report(diagnostic)
    }

    /// The value of a setting of the definition that is being applied.
    fn setting(&self, name: &str) -> Option<ExpressionValue> {
        let block = self.frame.block.as_ref()?;
        let field = block.feature.fields.iter().find(|f| f.name == name)?;
        self.frame.read.borrow_mut().insert(name.to_owned());
        Some(match block.fields.get(name).map(|setting| &setting.value) {
            None => ExpressionValue::Constant(Constant::None),
            Some(FieldValue::Int(v)) => ExpressionValue::Constant(Constant::Int(*v)),
            Some(FieldValue::Float(v)) => ExpressionValue::Constant(Constant::Float(*v)),
            Some(FieldValue::Truth(v)) => ExpressionValue::Constant(Constant::Truth(*v)),
            Some(FieldValue::Function(inner)) => ExpressionValue::Function(FunctionValue::Block(inner.clone())),
            Some(value @ (FieldValue::Expr(_) | FieldValue::Word(_))) if field.kind == FieldKind::Bias => {
                ExpressionValue::Bias(value.clone())
            }
            Some(value @ FieldValue::Expr(_)) => ExpressionValue::Mask(value.clone()),
            Some(value @ FieldValue::Word(word)) => match &field.kind {
                FieldKind::Word(words) => ExpressionValue::Constant(Constant::Word(word.clone(), words.clone())),
                FieldKind::Function => ExpressionValue::Function(FunctionValue::Pointwise(Pointwise::named(word)?)),
                FieldKind::Int => ExpressionValue::Size(Dim::sym(word)),
                _ => ExpressionValue::Mask(value.clone()),
            },
        })
    }

    /// The function of a name, with all of its settings left out.
    fn function(&mut self, text: &str, span: Span) -> Option<FunctionValue> {
        if let Some(func) = pointwise(text) {
            return Some(FunctionValue::Pointwise(func));
        }
        let feature = self.find(text)?;
        let block = self.settings(&feature, None, span)?;
        Some(FunctionValue::Block(Arc::new(block)))
    }

    /// The definition or word of a name.
    fn find(&self, text: &str) -> Option<Arc<Feature>> {
        let own = self.frame.block.as_ref().and_then(|block| match &block.feature.lower {
            Lowering::Definition(definition) | Lowering::Equations(definition) => definition.uses.get(text).cloned(),
            _ => None,
        });
        own.or_else(|| words::named(text).cloned())
            .or_else(|| feature(text, "").filter(|f| !f.values.is_empty()).cloned())
    }

    /// The array that an item is.
    pub(crate) fn array(&mut self, item: ExpressionValue, span: Span) -> Option<EquationArray> {
        match item {
            ExpressionValue::Array(array) => Some(array),
            ExpressionValue::Scaled(x, s) => {
                let value = self.node(span, |l| l.one(Op::MulUnit, &[x.value, s.value], Attrs::new()))?;
                Some(EquationArray { value, ..x })
            }
            ExpressionValue::Gained(x, gain) => {
                let value = self.node(span, |l| l.one(Op::Affine, &[x.value, gain.value], Attrs::new()))?;
                Some(EquationArray { value, ..x })
            }
            ExpressionValue::Part(x, start, width) => {
                let ExpressionValue::Array(array) = self.part(&x, start, width, span)? else { return None };
                Some(array)
            }
            ExpressionValue::Position(x, at) => {
                let attrs = Attrs::of(attribute::AT, at);
                let value = self.node(span, |l| l.one(Op::Position, &[x.value], attrs))?;
                Some(EquationArray { value, axes: x.axes[1..].to_vec(), ..x })
            }
            ExpressionValue::Step(step) => self.number_of(step, span),
            other => {
                let help = match &other {
                    ExpressionValue::Constant(Constant::Int(_) | Constant::Float(_)) => {
                        "`2 * ones(x)` is the number 2 wherever x has one"
                    }
                    ExpressionValue::Function(_) => "a function is applied to values: `gelu(x)`",
                    ExpressionValue::Ids(..) => "`embedding(ids)` has a vector for each of them",
                    ExpressionValue::Several(_) => "each has a name: `a, b = parts(x, 2)`",
                    _ => "",
                };
                let diagnostic = Diagnostic::new(Kind::WrongType, span, "an array is needed here");
                self.report(diagnostic.label(format!("this is {}", other.describe())).help(help))
            }
        }
    }

    /// Channels of an array.
    pub(crate) fn part(
        &mut self,
        x: &EquationArray,
        start: usize,
        width: usize,
        span: Span,
    ) -> Option<ExpressionValue> {
        let value = self.node(span, |l| l.channels(x.value, start, width))?;
        let axes = x.units().iter().cloned().chain([ArrayAxis::Channels(Dim::Fixed(width))]).collect();
        Some(ExpressionValue::Array(EquationArray { value, axes, rows: x.rows, truth: false, labels: x.labels }))
    }

    /// Whether the result of a block is what its slot gives.
    fn fits(&mut self, feature: &Arc<Feature>, args: &[EquationArray], out: &EquationArray, place: Span) -> Option<()> {
        let first = args.first();
        let width = ArrayAxis::Channels(Dim::Fixed(self.l.width));
        let (wanted, why) = match &*feature.slot {
            "head" if out.channels().is_none() || out.truth => {
                let wanted = [out.units(), &[ArrayAxis::Channels(self.l.outputs())]].concat();
                (wanted, "a head gives a number for every output: `linear(x) { to: classes }`")
            }
            "score" => (vec![], "a score is one number"),
            "pool" | "readout" => (vec![width], "one vector is read of the states"),
            "halt" if feature.definition().is_some_and(Definition::decides) => (
                first.map_or(vec![], |x| x.axes.clone()),
                "a rule with `go`, `until` or `loss` gives the states that the recurrence leaves if the step is the last one",
            ),
            "halt"
                if out.rows
                    && !out.truth
                    && (out.axes.is_empty()
                        || first.is_some_and(|first| {
                            out.axes == first.units() && out.sequence(self.l.types()) == first.sequence(self.l.types())
                        })) =>
            {
                return Some(());
            }
            "halt" => (vec![], "the probability to halt is one number per row, or one per position"),
            "head" => {
                let outputs = self.l.outputs();
                let known = out.channels().and_then(Dim::fixed).zip(outputs.fixed());
                let Some((found, wanted)) = known.filter(|(found, wanted)| found != wanted) else { return Some(()) };
                let message = format!("`{}` gives {found} outputs, and the task takes {wanted}", feature.title());
                let span = if feature.definition().is_some_and(|d| d.library) { self.outer } else { place };
                let help = "`linear(x) { to: classes }` gives as many as the task takes";
                return self.l.problems.fail(Diagnostic::new(Kind::ObjectiveMismatch, span, message).help(help));
            }
            // A fold leaves one vector of a chunk, which a gate may hand on as it is.
            "gate" if out.axes == args[0].axes => (args[0].axes.clone(), ""),
            "gate" => (args[1].axes.clone(), "a gate gives the next state"),
            "inject" => (first.map_or(vec![], |x| x.axes.clone()), "an injection gives the next state"),
            "leaf" => (first.map_or(vec![], |x| x.axes.clone()), "a leaf gives elements like those that it gets"),
            "cell" => (first.map_or(vec![], |x| x.axes.clone()), "a cell gives a vector like those that it gets"),
            _ => (first.map_or(vec![], |x| x.axes.clone()), "a layer gives states like those that it gets"),
        };
        // A layer may make rows longer; what repeats it says whether it may.
        let types = self.l.types();
        let like = args.iter().find(|arg| arg.axes == wanted).filter(|_| SAME_POSITIONS.contains(&&*feature.slot));
        let longer = like.filter(|like| out.axes == wanted && like.sequence(types) != out.sequence(types));
        if out.axes == wanted && out.rows && !out.truth && longer.is_none() {
            return Some(());
        }
        let wanted_type = longer.map_or_else(|| describe(&wanted), |like| like.describe_in(types));
        let message = format!("`{}` gives {}, not {wanted_type}", feature.title(), out.describe_in(types));
        let span = if feature.definition().is_some_and(|d| d.library) { self.outer } else { place };
        let help = if longer.is_some() { steps::DROP } else { cure(out, &wanted) };
        self.l.problems.fail(Diagnostic::new(Kind::WrongType, span, message).label(why).help(help))
    }
}

/// The slots whose definitions give values at the positions of those that they get.
const SAME_POSITIONS: [&str; 4] = ["halt", "gate", "inject", "leaf"];

/// How numbers are made of conditions.
pub(crate) const NUMBERS: &str = "`when(x > 0, 1, 0)` makes numbers of a condition";

/// What makes states of an array that has another type than they, if one word does.
fn cure(found: &EquationArray, wanted: &[ArrayAxis]) -> &'static str {
    match (found.truth, wanted.split_last()) {
        (true, _) => NUMBERS,
        _ if found.streams().is_some() => "`mean(x) { over: stream }` makes one state of streams, and so does `sum`",
        (_, None) if found.channels().is_some() => "`number(..)` makes one number of channels, with weights",
        (_, Some((ArrayAxis::Channels(_), units))) if found.units() == units && found.channels().is_some() => {
            "`linear(..)` gives the width of the model"
        }
        _ => "",
    }
}

/// The function of single numbers that equations call by this name.
fn pointwise(name: &str) -> Option<Pointwise> {
    let name = match name {
        "min" => "minimum",
        "max" => "maximum",
        name => name,
    };
    Pointwise::named(name).filter(|func| !func.def().torch.is_empty())
}

fn constants(items: &[ExpressionValue]) -> Option<Vec<Constant>> {
    let constant = |item: &ExpressionValue| match item {
        ExpressionValue::Constant(constant) => Some(constant.clone()),
        _ => None,
    };
    items.iter().map(constant).collect()
}

fn plural(word: &str, n: usize) -> String {
    if n == 1 { word.to_owned() } else { format!("{word}s") }
}

fn are(n: usize) -> String {
    if n == 1 { "is 1".to_owned() } else { format!("are {n}") }
}
