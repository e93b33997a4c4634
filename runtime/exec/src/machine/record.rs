//! What a run records besides its results: recorders, trees of searches, counts.

use std::fmt::Debug;
use std::rc::Rc;

use rtc_compiler::ir::graph::{Graph, Node, Value};
use rtc_compiler::ir::schedule::Chunk;

use crate::counter::RunCounters;
use crate::machine::{Machine, ValOf};
use crate::rows::BatchView;
use rtc_kernel::Real;

/// The records of a run besides its results; empty unless asked for.
#[derive(Debug, Default)]
pub struct RunRecords {
    recorders: Vec<Rc<dyn Recorder>>,
    /// The trees of beam searches over whole rows.
    pub trees: Option<Vec<ParseTrees>>,
    /// The weights of attention, which only the processor records.
    pub attention: Option<Vec<AttentionMap>>,
    /// What runs do.
    pub counted: Option<RunCounters>,
}

/// A recorder that executors ask at every loop, on every machine. What it records lies behind a [`std::cell::RefCell`].
pub(crate) trait Recorder: Debug {
    /// The observer of a run of this loop, which the rows of `entered` enter; nothing for a loop that is not recorded.
    fn begin(&self, graph: &Graph, node: &Node, entered: &BatchView) -> Option<Box<dyn LoopObserver>>;
}

/// The observer of one run of a loop.
pub(crate) trait LoopObserver {
    /// A turn is over; `numbers` gives those of the n-th value of its body.
    fn turn(&mut self, turn: &LoopTurn<'_>, numbers: LazyNumbers<'_>);

    /// The loop is over; `numbers` gives those of its n-th result, for all rows that entered.
    fn end(self: Box<Self>, _node: &Node, _entered: &BatchView, _numbers: LazyNumbers<'_>) {}
}

/// Numbers that come to the host when they are asked for.
pub(crate) type LazyNumbers<'a> = &'a dyn Fn(usize) -> Vec<f64>;

/// A turn of a loop: a step of a recurrence, a chunk of a chunk recurrence, a level of a fold.
pub(crate) struct LoopTurn<'a> {
    pub(crate) graph: &'a Graph,
    /// The loop.
    pub(crate) node: &'a Node,
    /// The rows that entered the loop.
    pub(crate) entered: &'a BatchView,
    /// The units that took part: rows, chunks of a fold.
    pub(crate) here: &'a BatchView,
    /// The turn, from 0.
    pub(crate) step: usize,
    /// The row of every unit, among those that entered.
    pub(crate) rows: &'a [usize],
    /// Of a depth recurrence: the units that accept the step.
    pub(crate) kept: &'a [usize],
    /// Of other loops: the chunk that every unit is.
    pub(crate) chunks: &'a [Chunk],
}

/// The observers of one run of a loop.
pub(crate) struct Observers(Vec<Box<dyn LoopObserver>>);

impl Observers {
    /// Those that the recorders of a run have for this loop.
    pub(crate) fn begin<M: Machine>(m: &mut M, graph: &Graph, node: &Node, entered: &BatchView) -> Self {
        Self(m.records().recorders.iter().filter_map(|recorder| recorder.begin(graph, node, entered)).collect())
    }

    /// Tells them of a turn that gave `values`.
    pub(crate) fn turn<M: Machine>(&mut self, m: &M, turn: &LoopTurn<'_>, values: &[ValOf<M>]) {
        let numbers = |n: usize| host_numbers(m, &values[n]);
        self.0.iter_mut().for_each(|observer| observer.turn(turn, &numbers));
    }

    /// Tells them of the end.
    pub(crate) fn end<M: Machine>(self, m: &M, node: &Node, entered: &BatchView, results: &[ValOf<M>]) {
        let numbers = |n: usize| host_numbers(m, &results[n]);
        self.0.into_iter().for_each(|observer| observer.end(node, entered, &numbers));
    }
}

fn host_numbers<M: Machine>(m: &M, val: &ValOf<M>) -> Vec<f64> {
    m.numbers(val).iter().map(|x| x.to_f64()).collect()
}

impl RunRecords {
    /// Records with a recorder more, and the recorder.
    #[allow(private_bounds, reason = "recorders are made in this crate")]
    pub fn attach<R: Recorder + Default + 'static>(&mut self) -> Rc<R> {
        let recorder = Rc::new(R::default());
        self.recorders.push(recorder.clone());
        recorder
    }

    /// Counts runs of the body of a forward loop.
    pub(crate) fn count_steps(&mut self, steps: usize) {
        if let Some(counted) = &mut self.counted {
            counted.steps += steps as u64;
        }
    }

    /// Counts rows that entered a recurrence that halts, and the steps that they took.
    pub(crate) fn count_rows(&mut self, entered: usize, accepted: usize) {
        if let Some(counted) = &mut self.counted {
            counted.entered += entered as u64;
            counted.accepted += accepted as u64;
        }
    }
}

/// The weights of an attention for one row: a loop runs it once a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionMap {
    /// The slot of the spec.
    pub label: String,
    /// The result of the node, which tells several attentions of a slot apart.
    pub result: Value,
    /// Which run of this node it is, from 0.
    pub run: usize,
    /// The row, by its index in the batch.
    pub row: usize,
    /// What asks.
    pub queries: AttendedAxis,
    /// What is asked.
    pub keys: AttendedAxis,
    /// The weights, `[heads, queries, keys]`: those of a query sum to 1 for each head, or are all 0 where it sees no
    /// key. Heads that talk mix them, so that they sum to anything.
    pub weights: Vec<f64>,
    /// The values, `[keys, numbers]`.
    pub values: Vec<f64>,
    /// The output, `[queries, heads, numbers]`.
    pub output: Vec<f64>,
}

/// Queries or keys of an attention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttendedAxis {
    /// Positions.
    Positions {
        /// The axis that they are on.
        axis: String,
        /// Where each lies in the whole row.
        places: Vec<usize>,
    },
    /// So many slots of a memory.
    Slots(usize),
}

impl AttendedAxis {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Positions { places, .. } => places.len(),
            Self::Slots(count) => *count,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl AttentionMap {
    /// Number of heads.
    pub fn heads(&self) -> usize {
        self.weights.len() / (self.queries.len() * self.keys.len()).max(1)
    }
}

/// The trees that a beam search found for one row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParseTrees {
    /// The slot of the spec.
    pub label: String,
    /// The row, by its index in the batch.
    pub row: usize,
    /// Its leaves: the positions of the row, START and END among them where the model has them.
    pub length: usize,
    /// Its beams, the heaviest first.
    pub beams: Vec<Beam>,
}

/// One tree over the positions of a sequence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Beam {
    /// The sum of the logarithms of the probabilities of its choices, in nats; of a tree that no search found, nothing.
    pub score: Option<f64>,
    /// What its root weighs in the output.
    pub weight: f64,
    /// How many beams of a search are this tree.
    pub count: usize,
    /// First leaf and number of leaves of everything that was joined, parts before the whole. Of a softened beam it is the
    /// tree that counts most in it.
    pub spans: Vec<(usize, usize)>,
}
