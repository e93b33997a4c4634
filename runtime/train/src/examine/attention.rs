//! Where attention looks: the weights of every head, in every run of every attention, on one example.

use rtc_compiler::ir::graph::{Graph, MAIN};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::schedule::Axes;
use rtc_compiler::ir::types::{LENGTH, unframed};
use rtc_exec::learner::LearnError;
use rtc_exec::{AttendedAxis, AttentionMap};
use rtc_task::Example;
use rtc_task::batching::pack;

use super::Examined;

/// The attention of a model on one example.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExampleAttention {
    /// The runs of its attentions, in the order in which they were made.
    pub runs: Vec<AttentionRun>,
    /// A sentence on every attention that has no map.
    pub without: Vec<String>,
}

/// A run of an attention on a row.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionRun {
    /// The place in the spec: `depthwise.self`.
    pub place: String,
    /// Which run of this attention it is, from 0: the turn of a loop around it.
    pub turn: usize,
    /// The row: 1 of the second side of a pair.
    pub row: usize,
    /// Number of heads.
    pub heads: usize,
    /// What asks.
    pub queries: AttendedUnits,
    /// What is asked.
    pub keys: AttendedUnits,
    /// The weights, `[heads, queries, keys]`: those of a query sum to 1 for each head, or are all 0 where it sees no
    /// key. Heads that talk mix them, so that they sum to anything.
    pub weights: Vec<f64>,
}

/// Queries or keys of an attention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttendedUnits {
    /// Positions among the tokens and what the model puts around them: START, END, prefixes.
    Positions(Vec<usize>),
    /// Tokens of the row.
    Tokens(Vec<usize>),
    /// So many slots of a memory.
    Slots(usize),
    /// So many nodes of a fold.
    Parts(usize),
}

impl AttendedUnits {
    fn of(graph: &Graph, axis: &AttendedAxis) -> Self {
        match axis {
            AttendedAxis::Slots(count) => Self::Slots(*count),
            AttendedAxis::Positions { axis, places } => match around(graph, axis) {
                Some(0) => Self::Tokens(places.clone()),
                Some(_) => Self::Positions(places.clone()),
                None => Self::Parts(places.len()),
            },
        }
    }
}

/// How many positions stand around the tokens on the axis from which an axis was cut; nothing of an axis of nodes.
fn around(graph: &Graph, axis: &str) -> Option<usize> {
    let (base, more) = unframed(axis);
    if base == LENGTH {
        return Some(more);
    }
    let nodes = graph.walk(MAIN).into_iter().map(|id| graph.node(id));
    let cut = nodes.filter(|node| node.op == Op::Chunks).map(Axes::of);
    let over = cut.filter(|axes| more == 0 && axes.chunk == base).map(|axes| axes.over).next()?;
    around(graph, over)
}

/// The weights of all attentions of a model on one example; they are computed on the processor.
///
/// # Errors
/// A model that gives no finite answer, or an example that it can't take.
pub fn attention<M: Examined + ?Sized>(model: &mut M, example: &Example) -> Result<ExampleAttention, LearnError> {
    let maps = model.attended(&pack(&[example]))?;
    let graph = model.forward_graph();
    let run = |map: AttentionMap| AttentionRun {
        heads: map.heads(),
        queries: AttendedUnits::of(graph, &map.queries),
        keys: AttendedUnits::of(graph, &map.keys),
        place: map.label,
        turn: map.run,
        row: map.row,
        weights: map.weights,
    };
    Ok(ExampleAttention { runs: maps.into_iter().map(run).collect(), without: without(graph) })
}

/// A sentence on every attention of a graph that has no map.
fn without(graph: &Graph) -> Vec<String> {
    let why = |op: Op, dims: usize| {
        let reasons = [
            (Op::GeometricAttention, "its weights are products of probabilities along the row"),
            (Op::Attention, "its keys are those of all steps so far"),
        ];
        let found = reasons.iter().find(|(kind, _)| *kind == op);
        found.filter(|(kind, _)| *kind != Op::Attention || dims > 3).map(|(_, why)| *why)
    };
    let nodes = graph.walk(MAIN).into_iter().map(|id| graph.node(id));
    let found = nodes.filter_map(|node| {
        let dims = node.operands.get(1).map_or(0, |keys| graph.ty(*keys).dims().len());
        Some(format!("{} (`{}`) has no map: {}", node.label, node.op, why(node.op, dims)?))
    });
    found.collect()
}
