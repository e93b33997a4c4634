//! Equations to nodes: a definition is applied by working its equations out in order.
//!
//! The rows of a batch have no axis here, so no equation can mix them. Axes are matched by what they are: an array without the
//! positions, or without the channels, of another is the same at each of them. What does not fit is reported at its place
//! with both types, and what depends on it is left out.
//!
//! Weights are named after the binding that they stand in (`up = linear(x)`), else after the word (`linear`), behind the place
//! of the statement; a name that is taken gets a number. A definition that is applied in a binding is a place of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::constant::{self, Constant};
use super::item::{Array, Axis, Function, Item, describe};
use super::names::unknown;
use super::{Definition, words};
use crate::diag::{Diagnostic, Kind, did_you_mean, list};
use crate::expr::BinaryOp;
use crate::feature::{self, Feature, Lowering, feature};
use crate::ir::attribute::{self, At, Attrs};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::{Pointwise, Scalar};
use crate::ir::types::Dim;
use crate::lower::Lower;
use crate::schema::{AXIS, Default, Derived, Field, FieldKind};
use crate::source::Span;
use crate::spec::{Block, Origin, Setting, Value as Given};
use crate::syntax::ast::{self, DefElement, Element, Expr, ExprKind, Form};

/// The most expressions that the equations of one model may be, counted wherever they are applied.
const MOST: usize = 200_000;
/// How deep expressions may stand in each other, those of the definitions that are applied included.
const DEEPEST: usize = 600;

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
    let args = values.iter().map(|value| Item::Array(Array::of(l.graph(), *value))).collect();
    applied(l, block, args)
}

/// What a definition gives for the first and the last of the elements of a sequence, each taken where it is first read.
///
/// # Errors
/// As `results`.
pub(crate) fn call_on_ends(l: &mut Lower<'_>, block: &Block, sequence: Value) -> Result<Value, InvalidNode> {
    let of = Array::of(l.graph(), sequence);
    let args = [At::First, At::Last].map(|at| Item::Position(of.clone(), at));
    applied(l, block, args.into()).map(|all| all[0])
}

/// The number of axes in the graph of what a definition gives for values: found on a copy, so nothing is left in the graph.
///
/// # Errors
/// As `results`.
pub(crate) fn rank_of(l: &mut Lower<'_>, block: &Block, values: &[Value]) -> Result<usize, InvalidNode> {
    let found = l.trial(|l| call(l, block, values).map(|value| l.rank(value)))?;
    Ok(found)
}

fn applied(l: &mut Lower<'_>, block: &Block, args: Vec<Item>) -> Result<Vec<Value>, InvalidNode> {
    let arrays: Vec<Array> = args.iter().filter_map(Item::known).collect();
    let mut eval = Eval {
        l,
        outer: block.span,
        taken: Taken::new(),
        reserved: BTreeSet::new(),
        level: 0,
        frame: Frame::default(),
    };
    let reported = || InvalidNode(format!("`{}` has an error", block.title()));
    let block = Arc::new(block.clone());
    let (out, carried) = eval.enter(&block, args, block.span).ok_or_else(reported)?;
    let place = eval.frame.out.unwrap_or(block.span);
    let out = eval.array(out, place).ok_or_else(reported)?;
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

/// What the equations of a body have bound so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    items: BTreeMap<String, Item>,
    taken: Taken,
    /// The places of the statements around, whose weights no binding may take.
    reserved: BTreeSet<String>,
}

impl Names {
    /// Keeps a name at a place for a statement.
    pub(crate) fn reserve(&mut self, place: &str, name: &str) {
        self.reserved.insert(format!("{place}.{name}"));
    }
}

/// Names that are taken, each with the number that the next one of its kind may have.
type Taken = BTreeMap<String, usize>;

/// Works a run of equations out: `state` is what the layers before it made, and what the layers behind it get.
///
/// # Errors
/// Where an equation is wrong; the context has the report.
pub(crate) fn run(l: &mut Lower<'_>, block: &Block, state: Value, names: &mut Names) -> Result<Value, InvalidNode> {
    let reported = || InvalidNode(format!("`{}` have an error", block.title()));
    let Lowering::Equations(definition) = &block.feature.lower else { return Err(reported()) };
    let before = Array::of(l.graph(), state);
    names.items.insert("state".to_owned(), Item::Array(before.clone()));
    let items = std::mem::take(&mut names.items);
    let frame = Frame { block: Some(Arc::new(block.clone())), names: items, ..Frame::default() };
    let taken = std::mem::take(&mut names.taken);
    let reserved = names.reserved.clone();
    let mut eval = Eval { l, outer: block.span, taken, reserved, level: 0, frame };
    let found = eval.l.problems.len();
    definition.equations().for_each(|equation| eval.equation(equation));
    let after = eval.frame.names.get("state").cloned().and_then(|item| eval.array(item, block.span));
    if let Some(after) = after.as_ref().filter(|after| after.axes != before.axes || !after.rows || after.truth) {
        let last = definition.equations().filter(|e| e.names.iter().any(|name| name.text == "state")).last();
        let message = format!("`state` is {}, and here it becomes {}", before.describe(), after.describe());
        let label = format!("what stands behind takes {}", before.describe());
        let place = last.map_or(block.span, |equation| equation.span);
        let cure = cure(after, &before.axes);
        let _: Option<()> = eval.report(Diagnostic::new(Kind::WrongType, place, message).label(label).help(cure));
    }
    if eval.l.problems.len() > found {
        return Err(reported());
    }
    (names.items, names.taken) = (eval.frame.names, eval.taken);
    after.map(|after| after.value).ok_or_else(reported)
}

/// The names of a definition that is being applied.
#[derive(Default)]
struct Frame {
    /// The block that it is applied as: its settings.
    block: Option<Arc<Block>>,
    names: BTreeMap<String, Item>,
    /// The names of bindings that have no value.
    failed: BTreeSet<String>,
    /// Where its result stands.
    out: Option<Span>,
}

/// One application and those inside it.
pub(crate) struct Eval<'e, 'l> {
    pub(crate) l: &'e mut Lower<'l>,
    /// The place in the user's text that an error in the library belongs to.
    outer: Span,
    /// The names of weights that are taken.
    taken: Taken,
    /// Names of places that are kept for statements.
    reserved: BTreeSet<String>,
    /// How many expressions stand around the one that is worked out.
    level: usize,
    frame: Frame,
}

/// A word or a definition that is applied.
pub(crate) struct Call<'c> {
    /// What it is applied to.
    pub(crate) args: Vec<Item>,
    /// Its settings.
    pub(crate) block: Arc<Block>,
    /// The name of the binding that it stands in alone.
    pub(crate) name: Option<&'c str>,
    pub(crate) span: Span,
    /// Where the values stand.
    pub(crate) places: Vec<Span>,
}

impl<'l> Eval<'_, 'l> {
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
    fn enter(&mut self, block: &Arc<Block>, args: Vec<Item>, span: Span) -> Option<(Item, Vec<Item>)> {
        match &block.feature.lower {
            Lowering::Definition(definition) => {
                let definition = definition.clone();
                self.define(&definition, block, args)
            }
            Lowering::Word(word) => {
                let places = vec![span; args.len()];
                let call = Call { args, block: block.clone(), name: None, span, places };
                Some(((word.0)(self, &call)?, vec![]))
            }
            _ => self.wrong(span, format!("`{}` can't be applied to values", block.title()), ""),
        }
    }

    /// Works the equations of a definition out.
    fn define(
        &mut self,
        definition: &Arc<Definition>,
        block: &Arc<Block>,
        args: Vec<Item>,
    ) -> Option<(Item, Vec<Item>)> {
        if definition.broken {
            // What is wrong with it was reported where it is written.
            return None;
        }
        let mut frame = Frame { block: Some(block.clone()), ..Frame::default() };
        let carried = definition.carried().count();
        let own = definition.def.values.len();
        let handed = args.len().saturating_sub(own);
        debug_assert!(handed == 0 || handed == carried, "a step hands on all that it carries");
        let mut args = args.into_iter();
        for (name, arg) in definition.def.values.iter().zip(args.by_ref()) {
            frame.names.insert(name.text.clone(), arg);
        }
        let mut starts = args;
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
                DefElement::Equation(equation) if equation.form == Form::Carry => {
                    let start = starts.next().or_else(|| self.expr(&equation.value, None));
                    self.bind(&equation.names[0], start);
                }
                DefElement::Equation(equation) => self.equation(equation),
                DefElement::Out(value, span) => {
                    self.frame.out = Some(*span);
                    out = self.expr(value, None);
                }
            }
        }
        let carried = definition.carried().map(|name| self.frame.names.get(name).cloned()).collect::<Option<Vec<_>>>();
        let done = std::mem::replace(&mut self.frame, outer);
        self.frame.out = self.frame.out.or(done.out.filter(|_| !definition.library));
        if self.l.problems.len() > before {
            return None;
        }
        Some((out?, carried?))
    }

    fn bind(&mut self, name: &ast::Name, value: Option<Item>) {
        match value {
            Some(value) => {
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
        let [name] = &equation.names[..] else { return self.several(equation) };
        if equation.form == Form::Share {
            let shared = self.shared(&equation.value, &name.text);
            return self.bind(name, shared);
        }
        let value = self.expr(&equation.value, (equation.form == Form::Plain).then_some(name.text.as_str()));
        let value = if equation.form == Form::Show {
            value.and_then(|value| self.array(value, equation.value.span)).map(|array| {
                self.l.shown.insert(name.text.clone(), array.value);
                Item::Array(array)
            })
        } else {
            value
        };
        self.bind(name, value);
    }

    /// A function whose weights are the same wherever it is applied.
    fn shared(&mut self, value: &Expr, name: &str) -> Option<Item> {
        let item = match &value.kind {
            ExprKind::Function(word, body) => {
                let Some(feature) = self.find(&word.text) else { return self.unknown(&word.text, word.span) };
                Item::Function(Function::Block(Arc::new(self.settings(&feature, Some(body), value.span)?)))
            }
            _ => self.expr(value, None)?,
        };
        match item {
            Item::Function(Function::Block(block)) if words::has_weights(&block.feature) => {
                let place = self.fresh(name, "");
                Some(Item::Function(Function::Shared(block, self.l.place(), place)))
            }
            Item::Function(function) => {
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
            Some(Item::Several(items)) if items.len() == equation.names.len() => items.into_iter().map(Some).collect(),
            Some(Item::Several(items)) => {
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
    pub(crate) fn expr(&mut self, expr: &Expr, name: Option<&str>) -> Option<Item> {
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

    fn worked_out(&mut self, expr: &Expr, name: Option<&str>) -> Option<Item> {
        match &expr.kind {
            ExprKind::Int(v) => Some(Item::Constant(Constant::Int(*v))),
            ExprKind::Float(v) => Some(Item::Constant(Constant::Float(*v))),
            ExprKind::Bool(v) => Some(Item::Constant(Constant::Truth(*v))),
            ExprKind::Group(x) => self.expr(x, name),
            ExprKind::Name(text) => self.name(text, expr.span),
            ExprKind::Neg(x) => match self.expr(x, None)? {
                Item::Constant(constant) => self.folded(constant::negative(constant), expr.span),
                item => {
                    self.operand("`-`", &item, x.span)?;
                    self.pointwise(Pointwise::Neg, vec![item], expr.span)
                }
            },
            ExprKind::Not(x) => match self.expr(x, None)? {
                Item::Constant(constant) => self.folded(constant::negated(constant), expr.span),
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
            ExprKind::Learn(table, sizes, body) => self.learn(table, sizes, body.as_ref(), name, expr.span),
        }
    }

    fn folded(&mut self, result: Result<Constant, String>, span: Span) -> Option<Item> {
        match result {
            Ok(constant) => Some(Item::Constant(constant)),
            Err(why) => self.fail(Kind::OutOfRange, span, why, ""),
        }
    }

    /// The value of a name.
    fn name(&mut self, text: &str, span: Span) -> Option<Item> {
        if let Some(item) = self.frame.names.get(text).cloned() {
            if !matches!(item, Item::Part(..) | Item::Position(..)) {
                return Some(item);
            }
            // Taken once, however often it is read.
            let item = Item::Array(self.array(item, span)?);
            self.frame.names.insert(text.to_owned(), item.clone());
            return Some(item);
        }
        if let Some(item) = self.setting(text) {
            return Some(item);
        }
        match text {
            "width" => return Some(Item::Constant(Constant::Int(self.l.width as i64))),
            "classes" => return Some(Item::Size(self.l.outputs())),
            _ => {}
        }
        if pointwise(text).is_some() || self.find(text).is_some() {
            return self.function(text, span).map(Item::Function);
        }
        self.unknown(text, span)
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
    fn setting(&self, name: &str) -> Option<Item> {
        let block = self.frame.block.as_ref()?;
        let field = block.feature.fields.iter().find(|f| f.name == name)?;
        Some(match block.fields.get(name).map(|setting| &setting.value) {
            None => Item::Constant(Constant::None),
            Some(Given::Int(v)) => Item::Constant(Constant::Int(*v)),
            Some(Given::Float(v)) => Item::Constant(Constant::Float(*v)),
            Some(Given::Truth(v)) => Item::Constant(Constant::Truth(*v)),
            Some(Given::Function(inner)) => Item::Function(Function::Block(inner.clone())),
            Some(value @ Given::Expr(_)) => Item::Mask(value.clone()),
            Some(value @ Given::Word(word)) => match &field.kind {
                FieldKind::Word(words) => Item::Constant(Constant::Word(word.clone(), words.clone())),
                FieldKind::Function => Item::Function(Function::Pointwise(Pointwise::named(word)?)),
                FieldKind::Int => Item::Size(Dim::sym(word)),
                _ => Item::Mask(value.clone()),
            },
        })
    }

    /// The function of a name, with all of its settings left out.
    fn function(&mut self, text: &str, span: Span) -> Option<Function> {
        if let Some(func) = pointwise(text) {
            return Some(Function::Pointwise(func));
        }
        let feature = self.find(text)?;
        let block = self.settings(&feature, None, span)?;
        Some(Function::Block(Arc::new(block)))
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

    fn binary(&mut self, op: BinaryOp, a: &Expr, b: &Expr, span: Span) -> Option<Item> {
        // A bare word is compared with a setting of words.
        if let (BinaryOp::Eq | BinaryOp::Ne, Some((setting, other))) = (op, self.comparison(a, b)) {
            let Item::Constant(Constant::Word(word, words)) = setting else { return None };
            let given = other.as_name().map(|name| name.text).filter(|name| words.contains(name));
            let Some(given) = given else {
                let choices = list(words.iter(), "or");
                let hint = other.as_name().map(|name| did_you_mean(&name.text, words.iter())).unwrap_or_default();
                let setting = if std::ptr::eq(other, a) { b } else { a }.as_name().map(|name| name.text);
                let message = format!("`{}` is {choices}", setting.unwrap_or_default());
                let label = if hint.is_empty() { "it is never equal to this".to_owned() } else { hint };
                return self.wrong(other.span, message, label);
            };
            return Some(Item::Constant(Constant::Truth((word == given) == (op == BinaryOp::Eq))));
        }
        let (left, right) = (self.expr(a, None), self.expr(b, None));
        let (left, right) = (left?, right?);
        match (left, right) {
            (Item::Constant(a), Item::Constant(b)) => self.folded(constant::binary(op, a, b), span),
            (left, right) if matches!(op, BinaryOp::And | BinaryOp::Or) => {
                self.both(op, (left, a.span), (right, b.span), span)
            }
            (left, right) => {
                let symbol = format!("`{}`", op.symbol());
                let fits = (self.operand(&symbol, &left, a.span), self.operand(&symbol, &right, b.span));
                fits.0.and(fits.1)?;
                self.arithmetic(op, left, right, span)
            }
        }
    }

    /// Reports what can't be an operand of arithmetic, or of a function of single numbers.
    fn operand(&mut self, of: &str, item: &Item, span: Span) -> Option<()> {
        match item {
            Item::Array(array) if array.truth => {
                let label = format!("this is {}", array.describe());
                let diagnostic = Diagnostic::new(Kind::WrongType, span, format!("{of} takes numbers")).label(label);
                let chain = matches!(of, "`<`" | "`<=`" | "`>`" | "`>=`");
                let help = if chain { "two comparisons are joined by `and`: `0 < x and x < 1`" } else { NUMBERS };
                self.report(diagnostic.help(help))
            }
            Item::Constant(constant) if constant.number().is_none() => self.array(item.clone(), span).map(|_| ()),
            Item::Function(_) | Item::Several(_) | Item::Mask(_) | Item::Size(_) => {
                self.array(item.clone(), span).map(|_| ())
            }
            _ => Some(()),
        }
    }

    /// The setting of words among two operands, and the other operand.
    fn comparison<'x>(&self, a: &'x Expr, b: &'x Expr) -> Option<(Item, &'x Expr)> {
        let of = |x: &Expr| {
            let name = x.as_name().filter(|name| !self.frame.names.contains_key(&name.text))?;
            let item = self.setting(&name.text)?;
            matches!(item, Item::Constant(Constant::Word(..))).then_some(item)
        };
        of(a).map(|item| (item, b)).or_else(|| of(b).map(|item| (item, a)))
    }

    fn arithmetic(&mut self, op: BinaryOp, a: Item, b: Item, span: Span) -> Option<Item> {
        let func = match op {
            BinaryOp::Lt => return self.less(a, b, span),
            BinaryOp::Gt => return self.less(b, a, span),
            // Neither of two numbers is less than the other where one of them is NaN, so these are true there.
            BinaryOp::Le => {
                let less = self.less(b, a, span)?;
                let less = self.array(less, span)?;
                return self.opposite(less, span);
            }
            BinaryOp::Ge => {
                let less = self.less(a, b, span)?;
                let less = self.array(less, span)?;
                return self.opposite(less, span);
            }
            BinaryOp::Div if matches!(&b, Item::Constant(c) if c.number() == Some(0.0)) => {
                return self.fail(Kind::OutOfRange, span, "a division by 0 has no value", "");
            }
            BinaryOp::Add => Pointwise::Add,
            BinaryOp::Sub => Pointwise::Sub,
            BinaryOp::Mul => Pointwise::Mul,
            BinaryOp::Div => Pointwise::Div,
            BinaryOp::Pow => return self.power(a, b, span),
            _ => {
                let message = format!("`{}` can't join {} and {}", op.symbol(), a.describe(), b.describe());
                let help = match op {
                    BinaryOp::Eq | BinaryOp::Ne => {
                        "arrays are compared by `<`, `<=`, `>` and `>=`; `==` is for constants"
                    }
                    _ => "it joins constants only",
                };
                return self.report(Diagnostic::new(Kind::WrongType, span, message).help(help));
            }
        };
        match (func, a, b) {
            // One op adds what is scaled, unit by unit or channel by channel.
            (Pointwise::Add, Item::Array(q), Item::Scaled(x, s))
            | (Pointwise::Add, Item::Scaled(x, s), Item::Array(q))
                if q.axes == x.axes && q.rows =>
            {
                let value = self.node(span, |l| l.one(Op::AddScaled, &[q.value, x.value, s.value], Attrs::new()))?;
                Some(Item::Array(Array { value, ..q }))
            }
            (Pointwise::Add, Item::Gained(x, gain), Item::Array(bias))
            | (Pointwise::Add, Item::Array(bias), Item::Gained(x, gain))
                if !bias.rows && bias.axes == gain.axes =>
            {
                let operands = [x.value, gain.value, bias.value];
                let value = self.node(span, |l| l.one(Op::Affine, &operands, Attrs::new()))?;
                Some(Item::Array(Array { value, ..x }))
            }
            (Pointwise::Mul, a, b) => self.product(a, b, span),
            (func, a, b) => self.pointwise(func, vec![a, b], span),
        }
    }

    /// `a < b`
    fn less(&mut self, a: Item, b: Item, span: Span) -> Option<Item> {
        let item = self.pointwise(Pointwise::Less, vec![a, b], span)?;
        self.truth(item, span)
    }

    /// What is true where a condition is not.
    fn opposite(&mut self, x: Array, span: Span) -> Option<Item> {
        let numbers = vec![Item::Constant(Constant::Float(1.0)), Item::Array(Array { truth: false, ..x })];
        let item = self.pointwise(Pointwise::Sub, numbers, span)?;
        self.truth(item, span)
    }

    /// Two conditions joined by `and` or `or`. A constant one is the result, or leaves the other.
    fn both(&mut self, op: BinaryOp, a: (Item, Span), b: (Item, Span), span: Span) -> Option<Item> {
        let (func, decides) = if op == BinaryOp::And { (Pointwise::Mul, false) } else { (Pointwise::Maximum, true) };
        let of = format!("`{}`", op.symbol());
        match (a, b) {
            ((Item::Constant(Constant::Truth(v)), _), (other, at))
            | ((other, at), (Item::Constant(Constant::Truth(v)), _)) => {
                let other = self.condition(other, &of, at)?;
                Some(if v == decides { Item::Constant(Constant::Truth(v)) } else { Item::Array(other) })
            }
            ((a, at), (b, bt)) => {
                let (a, b) = (self.condition(a, &of, at), self.condition(b, &of, bt));
                self.joined(func, a?, b?, span)
            }
        }
    }

    fn joined(&mut self, func: Pointwise, a: Array, b: Array, span: Span) -> Option<Item> {
        let numbers = [a, b].map(|x| Item::Array(Array { truth: false, ..x }));
        let item = self.pointwise(func, numbers.into(), span)?;
        self.truth(item, span)
    }

    fn truth(&mut self, item: Item, span: Span) -> Option<Item> {
        self.array(item, span).map(|array| Item::Array(Array { truth: true, ..array }))
    }

    /// The array of a condition.
    fn condition(&mut self, item: Item, of: &str, span: Span) -> Option<Array> {
        let described = item.describe();
        match item {
            Item::Array(array) if array.truth => Some(array),
            _ => {
                let message = format!("{of} needs a condition, as `x > 0`");
                self.wrong(span, message, format!("this is {described}"))
            }
        }
    }

    /// `a b`, where one of them may have a number per unit or per channel of the other.
    fn product(&mut self, a: Item, b: Item, span: Span) -> Option<Item> {
        if matches!(a, Item::Constant(_)) || matches!(b, Item::Constant(_)) {
            return self.pointwise(Pointwise::Mul, vec![a, b], span);
        }
        let (a, b) = (self.array(a, span)?, self.array(b, span)?);
        let scales = |s: &Array, x: &Array| {
            s.rows && x.rows && s.axes.len() < x.axes.len() && x.axes.starts_with(&s.axes) && s.channels().is_none()
        };
        let gains = |g: &Array, x: &Array| {
            !g.rows && x.rows && g.axes.len() == 1 && g.channels().is_some() && g.channels() == x.channels()
        };
        Some(match () {
            () if scales(&b, &a) => Item::Scaled(a, b),
            () if scales(&a, &b) => Item::Scaled(b, a),
            () if gains(&b, &a) => Item::Gained(a, b),
            () if gains(&a, &b) => Item::Gained(b, a),
            () => return self.pointwise(Pointwise::Mul, vec![Item::Array(a), Item::Array(b)], span),
        })
    }

    /// `a^n` for a small whole number.
    fn power(&mut self, a: Item, b: Item, span: Span) -> Option<Item> {
        let Item::Constant(Constant::Int(n @ 1..=8)) = b else {
            let message = "a power of an array is a whole number from 1 to 8";
            let diagnostic = Diagnostic::new(Kind::WrongType, span, message).label(format!("to {}", b.describe()));
            return self
                .report(diagnostic.help("`sqrt(x)` is the root, and `exp(p * log(x))` any power of what is above 0"));
        };
        let base = Item::Array(self.array(a, span)?);
        let mut out = base.clone();
        for _ in 1..n {
            out = self.pointwise(Pointwise::Mul, vec![out, base.clone()], span)?;
        }
        Some(out)
    }

    /// A function of single numbers, at every place of arrays that fit each other.
    pub(crate) fn pointwise(&mut self, func: Pointwise, items: Vec<Item>, span: Span) -> Option<Item> {
        let arity = func.def().arity;
        if items.len() != arity {
            let message = format!(
                "`{}` takes {arity} {}, and here {}",
                func.def().name,
                plural("value", arity),
                are(items.len())
            );
            return self.fail(Kind::WrongArity, span, message, "");
        }
        let constants: Vec<Option<f64>> = items
            .iter()
            .map(|item| match item {
                Item::Constant(constant) => constant.number(),
                _ => None,
            })
            .collect();
        let mut arrays = vec![];
        for (item, constant) in items.into_iter().zip(&constants) {
            if constant.is_none() {
                let array = self.array(item, span)?;
                self.operand(&format!("`{}`", func.def().name), &Item::Array(array.clone()), span)?;
                arrays.push(array);
            }
        }
        let arrays = self.together(arrays, span)?;
        let Some(first) = arrays.first().cloned() else {
            let message = format!("`{}` takes arrays, as `x`", func.def().name);
            return self.wrong(span, message, "these are constants");
        };
        let values: Vec<Value> = arrays.iter().map(|array| array.value).collect();
        let mut next = 0..;
        let args = constants.into_iter().map(|constant| match constant {
            Some(number) => Scalar::Number(number),
            None => Scalar::Operand(next.next().unwrap_or_default()),
        });
        let expr = Scalar::Call(func, args.collect());
        let value = self.node(span, |l| l.formula(&expr, &values))?;
        Some(Item::Array(Array { value, ..first }))
    }

    /// The arrays over all of their axes: one without an axis is the same along it.
    pub(crate) fn together(&mut self, arrays: Vec<Array>, span: Span) -> Option<Vec<Array>> {
        let Some(first) = arrays.first() else { return Some(arrays) };
        if arrays.iter().all(|array| array.axes == first.axes && array.rows == first.rows) {
            return Some(arrays);
        }
        let units: Vec<Axis> = {
            let mut longest: Vec<Axis> = vec![];
            for array in &arrays {
                let units = array.units();
                if units.iter().all(|axis| longest.contains(axis)) {
                    continue;
                }
                if !longest.iter().all(|axis| units.contains(axis)) {
                    return self.differ(&arrays, span);
                }
                longest = units.to_vec();
            }
            longest
        };
        let mut channels: Option<Dim> = None;
        for array in &arrays {
            match (&channels, array.channels()) {
                (Some(known), Some(own)) if known != own => return self.differ(&arrays, span),
                (None, Some(own)) => channels = Some(own.clone()),
                _ => {}
            }
        }
        let rows = arrays.iter().any(|array| array.rows);
        let like = arrays.clone();
        arrays.into_iter().map(|array| self.spread(array, &units, channels.as_ref(), rows, &like, span)).collect()
    }

    fn differ<T>(&mut self, arrays: &[Array], span: Span) -> Option<T> {
        let mut types: Vec<String> = vec![];
        let mut widths: Vec<String> = vec![];
        for array in arrays {
            let (ty, width) = (array.describe(), array.channels().map(Dim::to_string));
            if !types.contains(&ty) {
                types.push(ty);
            }
            widths.extend(width.filter(|width| !widths.contains(width)));
        }
        let diagnostic =
            Diagnostic::new(Kind::WrongType, span, format!("{} don't fit each other", types.join(" and ")));
        let help = match widths.len() > 1 {
            true => {
                format!("they have {} channels: `linear(..) {{ to: .. }}` changes their number", widths.join(" and "))
            }
            false => String::new(),
        };
        self.report(diagnostic.help(help))
    }

    /// An array over the axes `units` and `channels`, along which it is the same where it has them not.
    fn spread(
        &mut self,
        array: Array,
        units: &[Axis],
        channels: Option<&Dim>,
        rows: bool,
        like: &[Array],
        span: Span,
    ) -> Option<Array> {
        let mut x = array;
        if rows && !x.rows {
            let row = like.iter().find(|other| other.rows)?.value;
            x.value = self.node(span, |l| l.one(Op::BroadcastBatch, &[x.value, row], Attrs::new()))?;
            x.rows = true;
        }
        if x.units() != units {
            let Some(along) = like.iter().find(|other| other.rows && other.units() == units).map(|other| other.value)
            else {
                return self.differ(like, span);
            };
            x.value = self.node(span, |l| l.one(Op::BroadcastRows, &[x.value, along], Attrs::new()))?;
            x.axes = units.iter().cloned().chain(x.channels().cloned().map(Axis::Channels)).collect();
        }
        if let (Some(dim), None) = (channels, x.channels()) {
            // Ones of the whole type, times the number of each unit.
            let wide = like.iter().find(|other| other.channels() == Some(dim))?.clone();
            let wide = self.spread(wide, units, channels, rows, like, span)?;
            let ones = self.node(span, |l| l.full(wide.value, 1.0, wide.rank()))?;
            x.value = self.node(span, |l| l.one(Op::MulUnit, &[ones, x.value], Attrs::new()))?;
            x.axes = wide.axes;
        }
        Some(x)
    }

    /// The array that an item is.
    pub(crate) fn array(&mut self, item: Item, span: Span) -> Option<Array> {
        match item {
            Item::Array(array) => Some(array),
            Item::Scaled(x, s) => {
                let value = self.node(span, |l| l.one(Op::MulUnit, &[x.value, s.value], Attrs::new()))?;
                Some(Array { value, ..x })
            }
            Item::Gained(x, gain) => {
                let value = self.node(span, |l| l.one(Op::Affine, &[x.value, gain.value], Attrs::new()))?;
                Some(Array { value, ..x })
            }
            Item::Part(x, start, width) => {
                let Item::Array(array) = self.part(&x, start, width, span)? else { return None };
                Some(array)
            }
            Item::Position(x, at) => {
                let attrs = Attrs::of(attribute::AT, at);
                let value = self.node(span, |l| l.one(Op::Position, &[x.value], attrs))?;
                Some(Array { value, axes: x.axes[1..].to_vec(), rows: true, truth: x.truth })
            }
            other => {
                let help = match &other {
                    Item::Constant(Constant::Int(_) | Constant::Float(_)) => {
                        "`2 * ones(x)` is the number 2 wherever x has one"
                    }
                    Item::Function(_) => "a function is applied to values: `gelu(x)`",
                    Item::Several(_) => "each has a name: `a, b = parts(x, 2)`",
                    _ => "",
                };
                let diagnostic = Diagnostic::new(Kind::WrongType, span, "an array is needed here");
                self.report(diagnostic.label(format!("this is {}", other.describe())).help(help))
            }
        }
    }

    /// Channels of an array.
    pub(crate) fn part(&mut self, x: &Array, start: usize, width: usize, span: Span) -> Option<Item> {
        let value = self.node(span, |l| l.channels(x.value, start, width))?;
        let axes = x.units().iter().cloned().chain([Axis::Channels(Dim::Fixed(width))]).collect();
        Some(Item::Array(Array { value, axes, rows: x.rows, truth: false }))
    }

    /// `word(args) { settings }`
    fn apply(
        &mut self,
        word: &ast::Name,
        args: &[Expr],
        body: Option<&ast::Body>,
        name: Option<&str>,
        span: Span,
    ) -> Option<Item> {
        let local = self.frame.names.get(&word.text).cloned().or_else(|| self.setting(&word.text));
        if let Some(Item::Function(function)) = local {
            if let Some(body) = body {
                let message = format!("`{}` has its settings already", word.text);
                let help = format!(
                    "they stand where the function is made: `{0}: mlp {{ .. }}`, or `share {0} = mlp {{ .. }}`",
                    word.text
                );
                return self.report(Diagnostic::new(Kind::WrongType, body.span, message).help(help));
            }
            let places: Vec<Span> = args.iter().map(|arg| arg.span).collect();
            let args = self.args(args)?;
            return self.applied(&function, args, &places, name, span);
        }
        let places: Vec<Span> = args.iter().map(|arg| arg.span).collect();
        if word.text == "when" {
            return self.when(args, span);
        }
        if word.text == "at" {
            return words::at(self, args, span);
        }
        if let Some(func) = pointwise(&word.text).filter(|func| func.def().arity == args.len() && body.is_none()) {
            let args = self.args(args)?;
            if let Some(result) = constants(&args).and_then(|known| constant::function(&word.text, &known)) {
                return self.folded(result, span);
            }
            let of = format!("`{}`", word.text);
            for (item, place) in args.iter().zip(&places) {
                self.operand(&of, item, *place)?;
            }
            return self.pointwise(func, args, span);
        }
        let Some(feature) = self.find(&word.text) else {
            let args = self.args(args)?;
            if let Some(func) = pointwise(&word.text) {
                return match body {
                    Some(body) => {
                        let message = format!("`{}` has no settings", word.text);
                        self.fail(Kind::UnknownField, body.span, message, "")
                    }
                    None => {
                        let (arity, given) = (func.def().arity, are(args.len()));
                        let message =
                            format!("`{}` takes {arity} {}, and here {given}", word.text, plural("value", arity));
                        self.fail(Kind::WrongArity, span, message, "")
                    }
                };
            }
            if let Some(result) = constants(&args).and_then(|c| constant::function(&word.text, &c)) {
                return self.folded(result, span);
            }
            if word.text == "floor" {
                return self.wrong(span, "`floor` rounds a constant down", "this is no constant");
            }
            if let Some(item) = self.frame.names.get(&word.text) {
                let label = format!("this is {}", item.describe());
                return self.wrong(
                    word.span,
                    format!("`{}` is a value, and only functions are applied", word.text),
                    label,
                );
            }
            return self.unknown(&word.text, word.span);
        };
        if word.text == "learn" {
            return self.wrong(span, "`learn` has its sizes in brackets: `learn[width]`", "");
        }
        let block = self.settings(&feature, body, span);
        let args = self.args(args);
        let (block, args) = (block?, args?);
        self.applied(&Function::Block(Arc::new(block)), args, &places, name, span)
    }

    fn args(&mut self, args: &[Expr]) -> Option<Vec<Item>> {
        let items: Vec<Option<Item>> = args.iter().map(|arg| self.expr(arg, None)).collect();
        items.into_iter().collect()
    }

    /// A function applied to values.
    pub(crate) fn applied(
        &mut self,
        function: &Function,
        args: Vec<Item>,
        places: &[Span],
        name: Option<&str>,
        span: Span,
    ) -> Option<Item> {
        let (block, name) = match function {
            Function::Pointwise(func) => return self.pointwise(*func, args, span),
            Function::Block(block) => (block, name),
            Function::Shared(block, place, name) => {
                // The weights are those of the place where it is shared, whoever applies it.
                let path = self.l.at_place(place);
                let taken = std::mem::take(&mut self.taken);
                let result = self.applied(&Function::Block(block.clone()), args, places, Some(name), span);
                self.taken = taken;
                self.l.back_to(path);
                return result;
            }
        };
        let takes = block.feature.values.len();
        if args.len() != takes && !words::takes(&block.feature, args.len()) {
            let title = block.title();
            let takes = words::several(&block.feature)
                .map_or_else(|| format!("{takes} {}", plural("value", takes)), str::to_owned);
            let message = format!("`{title}` takes {takes}, and here {}", are(args.len()));
            let names = block.feature.values.join(", ");
            let diagnostic = Diagnostic::new(Kind::WrongArity, span, message);
            return self.report(diagnostic.help(format!("it is applied as `{title}({names})`")));
        }
        // What is wrong inside the library belongs to the place in the user's text that applies it.
        let outer = if self.in_library() { self.outer } else { span };
        let outer = std::mem::replace(&mut self.outer, outer);
        let result = match &block.feature.lower {
            Lowering::Word(word) => {
                let call = Call { args, block: block.clone(), name, span, places: places.to_vec() };
                (word.0)(self, &call)
            }
            Lowering::Definition(_) => match name {
                // A binding is a place of its own.
                Some(name) => {
                    let place = self.fresh(name, "");
                    self.l.enter(&place);
                    let result = self.enter(block, args, span);
                    self.l.leave();
                    result
                }
                None => self.enter(block, args, span),
            }
            .map(|(out, _)| out),
            _ => self.wrong(span, format!("`{}` can't be applied to values", block.title()), ""),
        };
        self.outer = outer;
        result
    }

    /// `when(condition, a, b)`: of a constant condition, only what it chooses is worked out.
    fn when(&mut self, args: &[Expr], span: Span) -> Option<Item> {
        let [condition, a, b] = args else {
            return self.fail(
                Kind::WrongArity,
                span,
                "`when` takes a condition and two values: `when(x > 0, x, 0)`",
                "",
            );
        };
        match self.expr(condition, None)? {
            Item::Constant(Constant::Truth(true)) => self.expr(a, None),
            Item::Constant(Constant::Truth(false)) => self.expr(b, None),
            Item::Array(condition) if condition.truth => {
                let (a, b) = (self.expr(a, None), self.expr(b, None));
                let condition = Item::Array(Array { truth: false, ..condition });
                self.pointwise(Pointwise::Choose, vec![condition, a?, b?], span)
            }
            other => self.condition(other, "`when`", condition.span).map(Item::Array),
        }
    }

    /// `learn[sizes]`: an array of weights.
    fn learn(
        &mut self,
        table: &str,
        sizes: &[Expr],
        body: Option<&ast::Body>,
        name: Option<&str>,
        span: Span,
    ) -> Option<Item> {
        if !table.is_empty() {
            let label = format!("write `{table} = learn[..]`");
            return self.wrong(span, "weights of equations have the name of their binding", label);
        }
        let feature = words::learn().clone();
        let block = self.settings(&feature, body, span)?;
        let mut dims = vec![];
        for size in sizes {
            dims.push(self.size(size)?);
        }
        let axes: Vec<Axis> = dims
            .iter()
            .enumerate()
            .map(|(n, dim)| if n + 1 == dims.len() { Axis::Channels(dim.clone()) } else { Axis::Slots })
            .collect();
        if axes.len() > 2 {
            let message = format!("`learn` has one size or two, and here are {}", axes.len());
            return self.fail(Kind::WrongArity, span, message, "");
        }
        let name = self.fresh(name.unwrap_or("learn"), "");
        let init = words::init(&block, &dims);
        let value = self.node(span, |l| l.param(&name, dims, init))?;
        Some(Item::Array(Array { value, axes, rows: false, truth: false }))
    }

    /// A number of channels.
    fn size(&mut self, expr: &Expr) -> Option<Dim> {
        match self.expr(expr, None)? {
            Item::Constant(Constant::Int(n)) if AXIS.hold(n as f64) => Some(Dim::Fixed(n as usize)),
            Item::Constant(Constant::Int(n)) => {
                let message = format!("a size must be {}", AXIS.describe());
                self.fail(Kind::OutOfRange, expr.span, message, format!("this is {n}"))
            }
            Item::Size(dim) => Some(dim),
            other => self.wrong(expr.span, "a size is a whole number", format!("this is {}", other.describe())),
        }
    }

    /// A name for weights that no others have, by the binding or the word.
    pub(crate) fn fresh(&mut self, name: &str, inside: &str) -> String {
        let place = self.l.place();
        let key = |name: &str| format!("{place}.{name}{inside}");
        let mut next = self.taken.get(&key(name)).copied().unwrap_or(1);
        let found = loop {
            let found = if next == 1 { name.to_owned() } else { format!("{name}_{next}") };
            next += 1;
            if !self.taken.contains_key(&key(&found)) && !self.reserved.contains(&format!("{place}.{found}")) {
                break found;
            }
        };
        self.taken.entry(key(&found)).or_insert(2);
        self.taken.insert(key(name), next);
        found
    }

    /// The settings of a definition or a word that is applied, each of the kind that its field takes.
    pub(crate) fn settings(&mut self, feature: &Arc<Feature>, body: Option<&ast::Body>, span: Span) -> Option<Block> {
        let mut block = Block {
            feature: feature.clone(),
            slot: feature.slot.clone(),
            variant: feature.variant.clone(),
            fields: BTreeMap::new(),
            children: vec![],
            span,
            origin: Origin::Written(span),
        };
        let title = feature.title();
        let mut complete = true;
        for element in body.map_or(&[][..], |body| &body.elements) {
            let Element::Field(written) = element else {
                let message = format!("`{title}` has settings only: `name: value`");
                complete = self.wrong::<()>(element.span(), message, "").is_some();
                continue;
            };
            let name = &written.name.text;
            let Some(field) = feature.fields.iter().find(|f| f.name == *name) else {
                if feature.definition().is_some_and(|d| d.broken) {
                    complete = false;
                    continue;
                }
                let names = || feature.fields.iter().map(|f| &*f.name);
                let mut diagnostic = Diagnostic::new(
                    Kind::UnknownField,
                    written.name.span,
                    format!("`{title}` has no setting `{name}`"),
                );
                diagnostic = diagnostic.label(did_you_mean(name, names()));
                diagnostic = match names().next() {
                    None => diagnostic.help(format!("`{title}` has no settings")),
                    Some(_) => diagnostic.help(format!("its settings are {}", list(names(), "and"))),
                };
                complete = self.report::<()>(diagnostic).is_some();
                continue;
            };
            match self.given(field, &written.value) {
                Some(Some(value)) => {
                    let origin = Origin::Written(written.value.span());
                    block.fields.insert(field.name.clone(), Setting { value, origin });
                }
                Some(None) => {}
                None => complete = false,
            }
        }
        for field in feature.fields.iter().filter(|_| complete).collect::<Vec<_>>() {
            if block.fields.contains_key(&field.name) {
                continue;
            }
            match self.filled(field, &block) {
                Ok(Some(value)) => {
                    block.fields.insert(field.name.clone(), Setting { value, origin: Origin::Default });
                }
                Ok(None) => {}
                Err(why) => {
                    let (kind, help) = match &field.default {
                        Default::Required => (Kind::MissingField, field.about()),
                        Default::Derived(Derived::WidthPerHead) => {
                            (Kind::Indivisible, format!("change `heads`, or write `{}: ..`", field.name))
                        }
                        _ => (Kind::OutOfRange, format!("write `{}: ..`, which must be {}", field.name, field.range())),
                    };
                    let diagnostic = Diagnostic::new(kind, span, format!("`{title}` {why}"));
                    complete = self.report::<()>(diagnostic.help(help)).is_some();
                }
            }
        }
        complete.then_some(block)
    }

    /// A setting that is written: `None` was reported, `Some(None)` leaves it out.
    fn given(&mut self, field: &Field, value: &ast::Value) -> Option<Option<Given>> {
        let span = value.span();
        let takes = format!("`{}` takes {}", field.name, field.kind.describe());
        let expr = match value {
            ast::Value::Expr(expr) => expr,
            ast::Value::Structured(name, body) if field.kind == FieldKind::Function => {
                let Some(feature) = self.find(&name.text) else { return self.unknown(&name.text, name.span) };
                let block = self.settings(&feature, Some(body), span)?;
                return Some(Some(Given::Function(Arc::new(block))));
            }
            ast::Value::Structured(..) => return self.wrong(span, takes, "this has settings of its own"),
        };
        let word = expr.as_name().map(|name| name.text);
        if let (FieldKind::Word(words), Some(word)) = (&field.kind, &word)
            && words.contains(word)
            && !self.frame.names.contains_key(word)
        {
            return Some(Some(Given::Word(word.clone())));
        }
        if let (FieldKind::Word(words), Some(word)) = (&field.kind, &word) {
            let known = self.frame.names.contains_key(word) || self.setting(word).is_some();
            if !known {
                let hint = did_you_mean(word, words.iter());
                let label = if hint.is_empty() { format!("not `{word}`") } else { hint };
                return self.wrong(span, takes, label);
            }
        }
        if let (FieldKind::Mask, Some("past" | "all")) = (&field.kind, word.as_deref()) {
            return Some(word.map(Given::Word));
        }
        if word.as_deref() == Some("none") {
            if matches!(field.default, Default::Absent) {
                return Some(None);
            }
            return self.wrong(span, takes, "it can't be left out");
        }
        if let (FieldKind::Mask, Some(name)) = (&field.kind, &word)
            && self.setting(name).is_none()
            && !self.frame.names.contains_key(name)
        {
            let help = "in a definition a mask is a setting: `mask: mask = all`, and its value stands where the definition is used";
            let diagnostic =
                Diagnostic::new(Kind::WrongType, span, format!("`{}` takes `past`, `all`, or a setting", field.name));
            return self.report(diagnostic.label(did_you_mean(name, ["past", "all"])).help(help));
        }
        let item = self.expr(expr, None)?;
        let described = item.describe();
        let value = match (&field.kind, item) {
            // What was left out by the caller is left out here.
            (_, Item::Constant(Constant::None)) => return Some(None),
            (FieldKind::Int, Item::Constant(Constant::Int(v))) => Given::Int(v),
            (FieldKind::Int, Item::Size(Dim::Fixed(n))) => Given::Int(n as i64),
            (FieldKind::Int, Item::Size(dim)) => Given::Word(dim.to_string()),
            (FieldKind::Float | FieldKind::FloatOr(_), Item::Constant(constant)) if constant.number().is_some() => {
                Given::Float(constant.number().unwrap_or_default())
            }
            (FieldKind::Truth, Item::Constant(Constant::Truth(v))) => Given::Truth(v),
            (FieldKind::Word(words), Item::Constant(Constant::Word(word, _))) if words.contains(&word) => {
                Given::Word(word)
            }
            (FieldKind::Mask, Item::Mask(value)) => value,
            (FieldKind::Function, Item::Function(Function::Pointwise(func))) => Given::Word(func.def().name.to_owned()),
            (FieldKind::Function, Item::Function(Function::Block(block))) => Given::Function(block),
            _ => {
                let hint = match (&field.kind, word) {
                    (FieldKind::Word(words), Some(word)) => did_you_mean(&word, words.iter()),
                    _ => String::new(),
                };
                let label = if hint.is_empty() { format!("this is {described}") } else { hint };
                return self.wrong(span, takes, label);
            }
        };
        let number = match value {
            Given::Int(v) => Some(v as f64),
            Given::Float(v) => Some(v),
            _ => None,
        };
        if let Some(v) = number.filter(|v| !field.bounds.hold(*v)) {
            let message = format!("`{}` must be {}", field.name, field.bounds.describe());
            return self.fail(Kind::OutOfRange, span, message, format!("this is {v}"));
        }
        Some(Some(value))
    }

    /// A setting that is not written; the error ends a sentence.
    fn filled(&self, field: &Field, block: &Block) -> Result<Option<Given>, String> {
        Ok(Some(match &field.default {
            Default::Required => return Err(format!("needs `{}`", field.name)),
            Default::Absent => return Ok(None),
            Default::Int(v) => Given::Int(*v),
            Default::Float(v) => Given::Float(*v),
            Default::Truth(v) => Given::Truth(*v),
            Default::Word(word) => Given::Word(word.to_string()),
            Default::Derived(Derived::Sees(past, all)) => {
                Given::Word(if self.l.sees_past { past } else { all }.to_string())
            }
            Default::Derived(rule) => {
                let value = derived(rule, self.l.width, self.l.residual_dropout, self.l.attention_dropout, block)?;
                worked_out(field, value)?
            }
        }))
    }

    /// Whether the result of a block is what its slot gives.
    fn fits(&mut self, feature: &Arc<Feature>, args: &[Array], out: &Array, place: Span) -> Option<()> {
        let first = args.first();
        let width = Axis::Channels(Dim::Fixed(self.l.width));
        let (wanted, why) = match &*feature.slot {
            "head" if out.channels().is_none() || out.truth => {
                let wanted = [out.units(), &[Axis::Channels(self.l.outputs())]].concat();
                (wanted, "a head gives a number for every output: `linear(x) { to: classes }`")
            }
            "score" => (vec![], "a score is one number"),
            "pool" | "readout" => (vec![width], "one vector is read of the states"),
            "halt"
                if out.rows
                    && !out.truth
                    && (out.axes.is_empty() || Some(out.axes.as_slice()) == first.map(Array::units)) =>
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
        if out.axes == wanted && out.rows && !out.truth {
            return Some(());
        }
        let message = format!("`{}` gives {}, not {}", feature.title(), out.describe(), describe(&wanted));
        let span = if feature.definition().is_some_and(|d| d.library) { self.outer } else { place };
        let help = cure(out, &wanted);
        self.l.problems.fail(Diagnostic::new(Kind::WrongType, span, message).label(why).help(help))
    }
}

/// How numbers are made of conditions.
pub(crate) const NUMBERS: &str = "`when(x > 0, 1, 0)` makes numbers of a condition";

/// What makes states of an array that has another type than they, if one word does.
fn cure(found: &Array, wanted: &[Axis]) -> &'static str {
    match (found.truth, wanted.split_last()) {
        (true, _) => NUMBERS,
        (_, Some((Axis::Channels(_), units))) if found.units() == units && found.channels().is_some() => {
            "`linear(..)` gives the width of the model"
        }
        _ => "",
    }
}

/// The value of a setting that was worked out; the error ends a sentence.
pub(crate) fn worked_out(field: &Field, value: f64) -> Result<Given, String> {
    let is_whole = value.fract() == 0.0;
    if !field.bounds.hold(value) || field.kind == FieldKind::Int && !is_whole {
        return Err(format!("works `{}` out as {value}", field.name));
    }
    Ok(if field.kind == FieldKind::Int { Given::Int(value as i64) } else { Given::Float(value) })
}

/// The value of a derived setting; the error ends a sentence.
pub(crate) fn derived(
    rule: &Derived,
    width: usize,
    dropout: f64,
    attention_dropout: f64,
    block: &Block,
) -> Result<f64, String> {
    Ok(match rule {
        Derived::ModelDropout => dropout,
        Derived::ModelAttentionDropout => attention_dropout,
        Derived::Width => width as f64,
        Derived::WidthPerHead => {
            let heads = block.int("heads").unwrap_or(1).max(1);
            if !width.is_multiple_of(heads) {
                return Err(format!("has {heads} heads, which can't share a width of {width} evenly"));
            }
            (width / heads) as f64
        }
        Derived::Sees(..) => return Err("has a word that is no number".to_owned()),
        Derived::Written(expr, text) => {
            let known = |name: &str| match name {
                "width" => Some(Constant::Int(width as i64)),
                "dropout" => Some(Constant::Float(dropout)),
                "attention_dropout" => Some(Constant::Float(attention_dropout)),
                name => match block.fields.get(name)?.value {
                    Given::Int(v) => Some(Constant::Int(v)),
                    Given::Float(v) => Some(Constant::Float(v)),
                    _ => None,
                },
            };
            let value = constant::constant(expr, &known).map_err(|(_, why)| format!("needs `{text}`: {why}"))?;
            value.number().ok_or_else(|| format!("needs a number, and `{text}` is {}", value.describe()))?
        }
    })
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

fn constants(items: &[Item]) -> Option<Vec<Constant>> {
    let constant = |item: &Item| match item {
        Item::Constant(constant) => Some(constant.clone()),
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
