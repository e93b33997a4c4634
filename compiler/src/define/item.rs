//! The values of equations: arrays with named axes, constants and functions.

use std::sync::Arc;

use super::constant::Constant;
use crate::ir::attribute::At;
use crate::ir::graph::{Graph, Value};
use crate::ir::pointwise::Pointwise;
use crate::ir::types::{BATCH, CLASSES, Dim, PAIRS, VOCAB, unprefixed};
use crate::source::Span;
use crate::spec::Block;
use crate::syntax::ast::Name;

/// An axis besides that of the rows, which equations do not see: no equation can mix rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ArrayAxis {
    /// The positions of the row, or of a chunk of it.
    Positions,
    /// The slots of a memory.
    Slots,
    /// Streams of states side by side, so many.
    Streams(usize),
    /// Channels, so many.
    Channels(Dim),
}

/// A name of a model, with the type of its value.
#[derive(Clone, Debug, PartialEq)]
pub struct BindingType {
    /// Its path, as in `loop.z` or `stack.0.attention`.
    pub path: String,
    /// The place of the name of an equation, or of the statement.
    pub span: Span,
    /// Whether an equation binds it.
    pub equation: bool,
    /// Its type: `real[pos, 64]`, or what it is in words.
    pub ty: String,
    /// The sizes of the weights below it.
    pub weights: Vec<Vec<Dim>>,
}

impl BindingType {
    /// The name of an equation, not yet with its type.
    pub(super) fn of_equation(name: &Name) -> Self {
        Self { path: name.text.clone(), span: name.span, equation: true, ty: String::new(), weights: vec![] }
    }

    /// A statement of this name, not yet with its type.
    pub(crate) fn of_statement(name: &str, block: &Block) -> Self {
        Self { path: name.to_owned(), span: block.span, equation: false, ty: String::new(), weights: vec![] }
    }
}

/// An array of numbers.
#[derive(Clone, Debug)]
pub(crate) struct EquationArray {
    pub(crate) value: Value,
    /// The axes, in order.
    pub(crate) axes: Vec<ArrayAxis>,
    /// Whether every row has its own; a weight is the same for all.
    pub(crate) rows: bool,
    /// Whether it says what is true: 1 for true, 0 for false.
    pub(crate) truth: bool,
    /// Whether the labels of the task are in it.
    pub(crate) labels: bool,
}

impl EquationArray {
    /// The array of a value of the graph whose first axis is that of the rows.
    pub(crate) fn of(graph: &Graph, value: Value) -> Self {
        let dims = graph.ty(value).dims();
        let rows = dims.first().is_some_and(|dim| [BATCH, PAIRS].map(Dim::sym).contains(dim));
        let own = if rows { &dims[1..] } else { dims };
        let axis = |(n, dim): (usize, &Dim)| match dim {
            Dim::Fixed(count) if n > 0 && n + 1 < own.len() => ArrayAxis::Streams(*count),
            Dim::Fixed(_) if n + 1 < own.len() => ArrayAxis::Slots,
            Dim::Sym(name) if ![CLASSES, VOCAB].contains(&name.as_str()) => ArrayAxis::Positions,
            _ => ArrayAxis::Channels(dim.clone()),
        };
        Self { value, axes: own.iter().enumerate().map(axis).collect(), rows, truth: false, labels: false }
    }

    /// The number of channels.
    pub(crate) fn channels(&self) -> Option<&Dim> {
        match self.axes.last() {
            Some(ArrayAxis::Channels(dim)) => Some(dim),
            _ => None,
        }
    }

    /// The number of streams.
    pub(crate) fn streams(&self) -> Option<usize> {
        self.axes.iter().find_map(|axis| match axis {
            ArrayAxis::Streams(count) => Some(*count),
            _ => None,
        })
    }

    /// The axes without streams and channels.
    pub(crate) fn places(&self) -> &[ArrayAxis] {
        match self.units() {
            [places @ .., ArrayAxis::Streams(_)] => places,
            units => units,
        }
    }

    /// The axes without the channels.
    pub(crate) fn units(&self) -> &[ArrayAxis] {
        match self.axes.split_last() {
            Some((ArrayAxis::Channels(_), units)) => units,
            _ => &self.axes,
        }
    }

    /// The type in words: `real[pos, 64]`.
    pub(crate) fn describe(&self) -> String {
        let numbers = describe(&self.axes);
        if self.truth { numbers.replacen("real", "bool", 1) } else { numbers }
    }

    /// The same with the positions that stand before those of the row: `real[1 + pos, 64]`.
    pub(crate) fn describe_in(&self, graph: &Graph) -> String {
        let before = self.sequence(graph).map_or(0, |axis| {
            let behind = |axis: &'_ str| unprefixed(axis).map(|(count, behind)| (count, behind.to_owned()));
            let mut next = behind(axis);
            let mut sum = 0;
            while let Some((count, axis)) = next {
                sum += count;
                next = behind(&axis);
            }
            sum
        });
        match before {
            0 => self.describe(),
            before => self.describe().replacen("[pos", &format!("[{before} + pos"), 1),
        }
    }

    /// The axis of the positions in the graph, where it has some: arrays of one sequence have the same.
    pub(crate) fn sequence<'g>(&self, graph: &'g Graph) -> Option<&'g str> {
        let placed = self.rows && self.axes.first() == Some(&ArrayAxis::Positions);
        if placed { graph.ty(self.value).ragged() } else { None }
    }

    /// Whether both have the same axes, and positions of one sequence.
    pub(crate) fn is_like(&self, other: &Self, graph: &Graph) -> bool {
        self.axes == other.axes && (self.sequence(graph) == other.sequence(graph) || self.rows != other.rows)
    }

    /// The number of axes in the graph.
    pub(crate) fn rank(&self) -> usize {
        self.axes.len() + usize::from(self.rows)
    }
}

/// `real[pos, 64]`
pub(crate) fn describe(axes: &[ArrayAxis]) -> String {
    let axis = |axis: &ArrayAxis| match axis {
        ArrayAxis::Positions => "pos".to_owned(),
        ArrayAxis::Slots => "slot".to_owned(),
        ArrayAxis::Streams(count) => format!("{count} streams"),
        ArrayAxis::Channels(dim) => dim.to_string(),
    };
    format!("real[{}]", axes.iter().map(axis).collect::<Vec<_>>().join(", "))
}

/// A function of values.
#[derive(Clone, Debug)]
pub(crate) enum FunctionValue {
    /// One of single numbers.
    Pointwise(Pointwise),
    /// A definition or a word with its settings.
    Block(Arc<Block>),
    /// The same with the weights of this name at this place, wherever it is applied.
    Shared(Arc<Block>, String, String),
}

impl FunctionValue {
    /// The name that it is applied by.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Pointwise(func) => func.def().name.to_owned(),
            Self::Block(block) | Self::Shared(block, ..) => block.title(),
        }
    }
}

/// The step of a loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoopStep {
    /// Its number in the graph.
    pub(crate) value: Value,
    /// Steps that came before number 0, if that is known.
    pub(crate) before: Option<usize>,
    /// How many steps there are at most, those before included; nothing where only the row says it.
    pub(crate) most: Option<usize>,
    /// States of the rows that take the step.
    pub(crate) like: Value,
}

/// The value of an expression.
#[derive(Clone, Debug)]
pub(crate) enum ExpressionValue {
    Array(EquationArray),
    /// `x s`, not computed yet: with what is added to it, it is one op. `s` has a number for every unit of `x`.
    Scaled(EquationArray, EquationArray),
    /// `gain x`, not computed yet: with a bias it is one op. `gain` has a number for every channel.
    Gained(EquationArray, EquationArray),
    /// Channels of an array from a place on, not taken yet: those that nothing reads are never taken.
    Part(EquationArray, usize, usize),
    /// One position of an array, not taken yet.
    Position(EquationArray, At),
    Constant(Constant),
    /// A number of channels that may not be known yet.
    Size(Dim),
    /// The value of a `mask` setting.
    Mask(crate::spec::FieldValue),
    /// The value of a `bias` setting.
    Bias(crate::spec::FieldValue),
    Function(FunctionValue),
    /// The mean of an array over the answers of the batch, not taken yet.
    Average(EquationArray),
    /// The step of a loop, counted from 0.
    Step(LoopStep),
    /// Numbers of things, with their axes and how many things there are: which row of a table each has.
    Ids(Value, Vec<ArrayAxis>, Dim),
    /// The values of an array at this step and all steps before.
    History(EquationArray),
    /// An array of whole rows, where all others have chosen positions alone.
    Whole(EquationArray),
    /// Several results.
    Several(Vec<ExpressionValue>),
}

impl ExpressionValue {
    /// The array that it is, if it is computed already.
    pub(crate) fn known(&self) -> Option<EquationArray> {
        match self {
            Self::Array(array) => Some(array.clone()),
            _ => None,
        }
    }

    /// What it is, for messages.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Array(x) | Self::Scaled(x, _) | Self::Gained(x, _) => x.describe(),
            Self::Part(x, _, width) => {
                let mut axes = x.units().to_vec();
                axes.push(ArrayAxis::Channels(Dim::Fixed(*width)));
                describe(&axes)
            }
            Self::Position(x, _) => describe(&x.axes[1..]),
            Self::Constant(constant) => constant.describe(),
            Self::Size(_) => "a number that the task sets".to_owned(),
            Self::Mask(_) => "a mask".to_owned(),
            Self::Bias(_) => "a bias".to_owned(),
            Self::Function(function) => format!("the function `{}`", function.name()),
            Self::Average(x) => format!("the average of {}", x.describe()),
            Self::Step(_) => "the number of a step".to_owned(),
            Self::Ids(_, axes, _) => describe(axes).replacen("real", "ids", 1),
            Self::History(x) => format!("the history of {}", x.describe()),
            Self::Whole(x) => format!("{} of whole rows", x.describe()),
            Self::Several(items) => format!("{} values", items.len()),
        }
    }
}
