//! What a step of a loop carries on, and whether a unit takes it.

use std::collections::BTreeSet;

use super::{BoundNames, Eval};
use crate::define::constant::Constant;
use crate::define::item::{ArrayAxis, EquationArray, ExpressionValue, LoopStep};
use crate::define::losses;
use crate::diag::{Diagnostic, Kind};
use crate::feature::Lowering;
use crate::ir::attribute::Attrs;
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::lower::{BodyAdditions, Lower};
use crate::source::Span;
use crate::spec::Block;
use crate::syntax::ast::{Equation, EquationForm, ExprKind, ExprSyntax};

/// A value that a loop hands on from step to step.
#[derive(Clone, Debug)]
pub(crate) struct LoopCarry {
    pub(crate) name: String,
    array: EquationArray,
}

impl LoopCarry {
    /// Its value in the graph.
    pub(crate) fn value(&self) -> Value {
        self.array.value
    }

    /// The same with another value of the graph.
    pub(crate) fn at(&self, value: Value) -> Self {
        Self { name: self.name.clone(), array: EquationArray { value, ..self.array.clone() } }
    }
}

/// What the running state is called.
pub const STATE: &str = "state";

/// The equations of a body, each with the run that it stands in.
pub(super) fn equations(block: &Block) -> impl Iterator<Item = (&Block, &Equation)> {
    block.children.iter().flat_map(|child| {
        let definition = match &child.feature.lower {
            Lowering::Equations(definition) => Some(definition),
            _ => None,
        };
        definition.into_iter().flat_map(|d| d.equations()).map(move |equation| (child, equation))
    })
}

/// Where the conditions of a loop stand.
pub(crate) fn conditions(block: &Block) -> impl Iterator<Item = Span> {
    equations(block).filter(|(_, e)| matches!(e.form, EquationForm::Go | EquationForm::Until)).map(|(_, e)| e.span)
}

/// The names that a loop carries by equations of its own.
pub(super) fn own(block: &Block) -> impl Iterator<Item = &str> {
    let carried = equations(block).filter(|(_, e)| e.form == EquationForm::Carry);
    carried.flat_map(|(_, e)| e.names.iter().map(|name| name.text.as_str()))
}

/// The names that the steps of a loop change: those of its own equations and of the loops inside.
pub(super) fn changed(block: &Block) -> BTreeSet<&str> {
    let mut names: BTreeSet<&str> = equations(block)
        .filter(|(_, e)| e.form == EquationForm::Plain)
        .flat_map(|(_, e)| e.names.iter().map(|name| name.text.as_str()))
        .collect();
    for child in &block.children {
        if child.slot == "loop" {
            let own: BTreeSet<&str> = own(child).collect();
            names.extend(changed(child).into_iter().filter(|name| !own.contains(name)));
        } else if child.is_layer() && !child.feature.is_equations() {
            names.insert(STATE);
        }
    }
    names
}

/// The values that a loop hands on, at its start: the state where a step changes it, its own by their equations, and those of the
/// loops around that it changes.
///
/// # Errors
/// Where an equation is wrong; the context has the report.
pub(crate) fn starts(
    l: &mut Lower<'_>,
    block: &Block,
    state: Value,
    names: &mut BoundNames,
) -> Result<Vec<LoopCarry>, InvalidNode> {
    let changed = changed(block);
    let mut all = vec![];
    if changed.contains(STATE) {
        all.push(LoopCarry { name: STATE.to_owned(), array: EquationArray::of(l.graph(), state) });
    }
    let own: BTreeSet<&str> = own(block).collect();
    for name in names.carried.iter().filter(|name| changed.contains(name.as_str()) && !own.contains(name.as_str())) {
        if let Some(ExpressionValue::Array(array)) = names.items.get(name) {
            all.push(LoopCarry { name: name.clone(), array: array.clone() });
        }
    }
    let reported = || InvalidNode(format!("`{}` has an error", block.title()));
    for (run, equation) in equations(block).filter(|(_, e)| e.form == EquationForm::Carry) {
        let start = names.within(l, run, state, |eval| {
            let item = eval.start(equation)?;
            eval.row_by_row(item, state, equation.value.span)
        });
        let array = start.ok_or_else(reported)?;
        let name = equation.names.first().map(|name| name.text.clone()).unwrap_or_default();
        all.push(LoopCarry { name, array });
    }
    Ok(all)
}

/// What a step leaves of the values that its loop hands on.
///
/// # Errors
/// A value that is not what it was; the context has the report.
pub(crate) fn nexts(
    l: &mut Lower<'_>,
    block: &Block,
    state: Value,
    names: &mut BoundNames,
    carried: &[LoopCarry],
) -> Result<Vec<Value>, InvalidNode> {
    let mut all = vec![];
    for carry in carried {
        if carry.name == STATE {
            keeps_positions(l, block, carry.array.value, state)?;
            all.push(state);
            continue;
        }
        let last = equations(block).filter(|(_, e)| e.names.iter().any(|name| name.text == carry.name)).last();
        let Some((run, place)) = last.map(|(run, e)| (run, e.span)).or(Some((block, block.span))) else { continue };
        let next = names.within(l, run, state, |eval| {
            let item = eval.frame.names.get(&carry.name).cloned()?;
            let next = eval.row_by_row(item, state, place)?;
            if !carry.array.labels {
                losses::without_labels(eval, &next, (&format!("`{}`, which starts without one", carry.name), place))?;
            }
            if next.is_like(&carry.array, eval.l.types()) && next.truth == carry.array.truth {
                return Some(next.value);
            }
            eval.carried_as(&carry.name, (&carry.array, &next), &[STATE], place)
        });
        all.push(next.ok_or_else(|| InvalidNode(format!("`{}` has an error", block.title())))?);
    }
    Ok(all)
}

/// How positions are taken away that a step has put before a row.
pub(crate) const DROP: &str =
    "every step has the positions of the one before: `drop(x, n)` takes away the n that `prefix` has put there";

/// Reports layers of a step that leave other positions than it began with.
///
/// # Errors
/// Where they do; the context has the report.
pub(crate) fn keeps_positions(
    l: &mut Lower<'_>,
    block: &Block,
    before: Value,
    after: Value,
) -> Result<(), InvalidNode> {
    let [before, after] = [before, after].map(|value| EquationArray::of(l.types(), value));
    if before.axes != after.axes || before.sequence(l.types()) == after.sequence(l.types()) {
        return Ok(());
    }
    let [was, is] = [&before, &after].map(|array| array.describe_in(l.types()));
    let sets = |equation: &&Equation| equation.names.iter().any(|name| name.text == STATE);
    let place =
        block.children.iter().rev().filter(|child| child.is_layer()).find_map(|child| match &child.feature.lower {
            Lowering::Equations(run) => run.equations().filter(sets).last().map(|equation| equation.span),
            _ => Some(child.span),
        });
    let message = format!("`state` is {was} before a step of `{}`, and {is} behind it", block.title());
    let diagnostic = Diagnostic::new(Kind::WrongType, place.unwrap_or(block.span), message);
    l.problems.report(diagnostic.label("the next step starts from it").help(DROP));
    Err(InvalidNode(format!("`{}` has an error", block.title())))
}

impl BoundNames {
    /// Notes what the equations of a body bind, for what reads it above them.
    pub(crate) fn expect(&mut self, block: &Block) {
        for name in equations(block).filter(|(_, e)| e.form == EquationForm::Plain).flat_map(|(_, e)| &e.names) {
            self.later.entry(name.text.clone()).or_insert(name.span);
        }
    }

    /// Binds what a loop hands on. Inside its body, the loops there may change it, too.
    pub(crate) fn bind(&mut self, carried: &[LoopCarry], inside: bool) {
        for carry in carried.iter().filter(|carry| carry.name != STATE) {
            self.items.insert(carry.name.clone(), ExpressionValue::Array(carry.array.clone()));
            if inside && !self.carried.contains(&carry.name) {
                self.carried.push(carry.name.clone());
            }
        }
    }
}

impl Eval<'_, '_> {
    /// What a loop carries at its start. What comes with the examples has the name of the carried value; weights have names of
    /// their own, as everywhere but in equations.
    fn start(&mut self, equation: &Equation) -> Option<ExpressionValue> {
        let name = equation.names.first().map(|name| name.text.as_str());
        let is_given = matches!(&equation.value.kind, ExprKind::Call(word, ..) if word.text == "given");
        self.expr(&equation.value, name.filter(|_| is_given))
    }

    /// The array of a value that every row has its own of; a number is one for each row like `like`.
    fn row_by_row(&mut self, item: ExpressionValue, like: Value, span: Span) -> Option<EquationArray> {
        let number = match &item {
            ExpressionValue::Constant(Constant::Truth(v)) => Some((f64::from(u8::from(*v)), true)),
            ExpressionValue::Constant(constant) => constant.number().map(|v| (v, false)),
            _ => None,
        };
        if let Some((number, truth)) = number {
            let value = self.node(span, |l| l.full(like, number, 1))?;
            return Some(EquationArray { value, axes: vec![], rows: true, truth, labels: false });
        }
        let mut array = self.array(item, span)?;
        if !array.rows {
            array.value = self.node(span, |l| l.one(Op::BroadcastBatch, &[array.value, like], Attrs::new()))?;
            array.rows = true;
        }
        Some(array)
    }

    /// `go` and `until`: the condition is kept for the recurrence around.
    pub(super) fn decides(&mut self, equation: &Equation) -> Option<()> {
        let word = equation.form.word();
        self.whole_rows(word, equation.span)?;
        let item = self.expr(&equation.value, None)?;
        let condition = self.condition(item, &format!("`{word}`"), equation.value.span)?;
        losses::without_labels(self, &condition, (&format!("`{word}`"), equation.value.span))?;
        if !condition.rows || !matches!(condition.axes[..], [] | [ArrayAxis::Positions]) {
            let message =
                format!("`{word}` takes true or false for every row or every position, not {}", condition.describe());
            let help = match condition.channels() {
                Some(_) => "`mean(..) { over: width }` makes one number of channels",
                None => "",
            };
            return self.report(Diagnostic::new(Kind::WrongType, equation.value.span, message).help(help));
        }
        let like = self.l.steps.as_ref().map(|steps| EquationArray::of(self.l.types(), steps.like));
        let own = condition.sequence(self.l.types());
        if let Some(like) = like.filter(|like| own.is_some() && like.sequence(self.l.types()) != own) {
            let [like, found] = [&like, &condition].map(|array| array.describe_in(self.l.types()));
            let message = format!("`{word}` decides for the positions of the state, {like}, and this is {found}");
            return self.report(Diagnostic::new(Kind::WrongType, equation.value.span, message).help(DROP));
        }
        let remembers = self.l.steps.as_ref().is_some_and(|steps| steps.remembers);
        if remembers && !condition.axes.is_empty() {
            return self.missing_steps(equation.value.span);
        }
        match (&mut self.l.steps, equation.form) {
            (Some(steps), EquationForm::Go) => steps.go.push(condition.value),
            (Some(steps), _) => steps.until.push(condition.value),
            (None, _) if self.l.trying => {}
            (None, _) => return self.no_steps(word, equation.span),
        }
        Some(())
    }

    /// The number of a step as an array: one of every row.
    pub(super) fn number_of(&mut self, step: LoopStep, span: Span) -> Option<EquationArray> {
        let Some(before) = step.before else {
            let message = "`step` has no number here: gradients go through the last steps alone, and which these are depends on the row";
            return self.fail(Kind::WrongType, span, message, "write `grad: all`");
        };
        let value = self.node(span, |l| {
            let number = l.one(Op::StepNumber, &[step.value, step.like], Attrs::new())?;
            if before == 0 { Ok(number) } else { l.shifted(number, before as f64) }
        })?;
        Some(EquationArray { value, axes: vec![], rows: true, truth: false, labels: false })
    }

    /// Reports a history where nothing is known of the steps.
    pub(in crate::define) fn remembers(&mut self, span: Span) -> Option<()> {
        self.whole_rows("history", span)?;
        let by_position = self.l.steps.as_ref().is_some_and(|steps| {
            steps.by_position || steps.go.iter().chain(&steps.until).any(|condition| self.l.rank(*condition) > 1)
        });
        if by_position {
            return self.missing_steps(span);
        }
        match self.l.steps.as_ref().map(BodyAdditions::number) {
            Some(LoopStep { most: Some(_), before: Some(0), .. }) => Some(()),
            Some(_) => {
                let message =
                    "the history of a value needs a constant number of steps, and gradients through all of them";
                self.fail(Kind::WrongType, span, message, "")
            }
            None => self.no_steps("history", span),
        }
    }

    /// Reports a history of other positions than those of the steps.
    pub(in crate::define) fn of_steps(&mut self, x: &EquationArray, span: Span) -> Option<()> {
        let like = self.l.steps.as_ref().map(|steps| EquationArray::of(self.l.types(), steps.like))?;
        if like.sequence(self.l.types()) == x.sequence(self.l.types()) {
            return Some(());
        }
        let [like, found] = [&like, x].map(|array| array.describe_in(self.l.types()));
        let message = format!("the history of a loop over {like} has its positions, and this is {found}");
        self.report(Diagnostic::new(Kind::WrongType, span, message).help(DROP))
    }

    fn missing_steps<T>(&mut self, span: Span) -> Option<T> {
        let message = "positions that leave a loop one by one have no values in later steps, which `history` reads";
        self.fail(Kind::WrongType, span, message, "let the row decide: `mean(x)` makes one number of its positions")
    }

    /// `last()`: whether no further step comes.
    pub(super) fn last(&mut self, span: Span) -> Option<ExpressionValue> {
        let Some(steps) = self.l.steps.clone() else {
            // The type alone is asked for.
            let known = self.l.trying.then_some(ExpressionValue::Constant(Constant::Truth(false)));
            return known.or_else(|| self.no_steps("last()", span));
        };
        let value = self.node(span, |l| steps.is_last(l))?;
        Some(ExpressionValue::Array(EquationArray { value, axes: vec![], rows: true, truth: true, labels: false }))
    }

    /// `word[step](..)`: with weights of its own for every step. The values that it is applied to are as without an index.
    pub(super) fn indexed(
        &mut self,
        index: &ExprSyntax,
        call: &ExprSyntax,
        name: Option<&str>,
    ) -> Option<ExpressionValue> {
        self.index = Some(self.index(index)?);
        let before = self.l.taken_by_step;
        let item = self.expr(call, name);
        if item.is_some() && self.l.taken_by_step == before {
            let message = "what has no weights is the same at every step";
            let diagnostic = Diagnostic::new(Kind::WrongType, index.span, message);
            return self.report(diagnostic.help("an index gives every step weights of its own: leave it out here"));
        }
        item
    }

    /// What is made with weights of their own for every step, where one is given.
    pub(super) fn by_step<R>(&mut self, step: Option<(Value, usize)>, work: impl FnOnce(&mut Self) -> R) -> R {
        let outer = self.l.by_step;
        self.l.by_step = step.or(outer);
        let result = work(self);
        self.l.by_step = outer;
        result
    }

    /// The step that an index is, and how many there are.
    pub(super) fn index(&mut self, index: &ExprSyntax) -> Option<(Value, usize)> {
        let step = match self.expr(index, None)? {
            ExpressionValue::Step(step) => step,
            other => {
                let message = "an index is the step of a loop: `linear[step](x)`";
                return self.fail(Kind::WrongType, index.span, message, format!("this is {}", other.describe()));
            }
        };
        match (step.most, step.before) {
            (Some(most), Some(0)) => Some((step.value, most)),
            (None, _) => {
                let message = "the index `step` has no upper bound: the number of steps depends on the row";
                self.fail(Kind::WrongType, index.span, message, "")
            }
            _ => {
                let message = "weights of their own for every step need gradients through all steps";
                self.fail(Kind::ExclusiveFields, index.span, message, "write `grad: all`")
            }
        }
    }

    pub(super) fn no_steps<T>(&mut self, word: &str, span: Span) -> Option<T> {
        let message = format!("`{word}` has no steps here");
        let help = "it belongs to a `loop`, or to a definition that is applied in one or in `recur depthwise`";
        self.report(Diagnostic::new(Kind::MisplacedStatement, span, message).help(help))
    }

    /// `carry name = start` of a definition: the value that the recurrence around hands on for it, and its number there.
    pub(super) fn handed(&mut self, equation: &Equation) -> Option<(Option<usize>, ExpressionValue)> {
        let span = equation.span;
        self.whole_rows("carry", span)?;
        let Some(steps) = &self.l.steps else {
            if self.l.trying {
                return Some((None, self.expr(&equation.value, None)?));
            }
            return self.no_steps("carry", span);
        };
        let (around, like) = (steps.around, steps.like);
        // The start is made outside. It reads nothing but types, so any value of the type stands for one of the body.
        let inside = self.frame.names.clone();
        for item in self.frame.names.values_mut() {
            if let ExpressionValue::Array(array) = item {
                array.value = like;
            }
        }
        let region = self.l.at_region(around);
        let start = self.expr(&equation.value, None).and_then(|item| self.row_by_row(item, like, span));
        self.l.at_region(region);
        self.frame.names = inside;
        let start = start?;
        let name = equation.names.first().map_or("", |name| name.text.as_str());
        let mut steps = self.l.steps.take()?;
        let (n, value) = steps.hand(self.l, start.value, name);
        self.l.steps = Some(steps);
        Some((Some(n), ExpressionValue::Array(EquationArray { value, ..start })))
    }

    /// Reports a value that is not carried as what a step leaves; its start may be shaped like one of `values`.
    fn carried_as<T>(
        &mut self,
        name: &str,
        (before, next): (&EquationArray, &EquationArray),
        values: &[&str],
        span: Span,
    ) -> Option<T> {
        let [was, is] = [before, next].map(|array| array.describe_in(self.l.types()));
        let message = format!("`{name}` is carried as {was}, but a step leaves {is}");
        let alike = |value: &&&str| match self.frame.names.get(**value) {
            Some(ExpressionValue::Array(array)) => array.axes == next.axes && !array.truth,
            _ => false,
        };
        let help = match values.iter().find(alike) {
            Some(value) if before.axes.is_empty() && !next.truth => format!("as in `carry {name} = zeros({value})`"),
            _ if before.axes == next.axes && before.truth == next.truth => DROP.to_owned(),
            _ => String::new(),
        };
        let diagnostic = Diagnostic::new(Kind::WrongType, span, message).label("the next step starts from it");
        self.report(diagnostic.help(help))
    }

    /// Hands on what a definition has made of a value that it carries.
    pub(super) fn hand_on(&mut self, equation: &Equation, n: usize, before: &ExpressionValue) -> Option<()> {
        let name = equation.names.first().map_or("", |name| name.text.as_str());
        let ExpressionValue::Array(before) = before else { return None };
        let item = self.frame.names.get(name).cloned()?;
        let next = self.row_by_row(item, before.value, equation.span)?;
        losses::without_labels(self, &next, ("what is carried", equation.span))?;
        if !next.is_like(before, self.l.types()) || next.truth != before.truth {
            let block = self.frame.block.clone();
            let values = block.iter().flat_map(|block| &block.feature.values).map(|value| &**value);
            return self.carried_as(name, (before, &next), &values.collect::<Vec<_>>(), equation.span);
        }
        if let Some(steps) = &mut self.l.steps {
            steps.set(n, next.value);
        }
        Some(())
    }
}
