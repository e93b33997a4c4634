//! The interface between the loops and an executor: a table of values, steps of a region, and how rows move between arrays. Nothing here is about
//! an op.

pub mod backend;
pub mod outputs;
pub mod pieces;
pub mod record;
pub mod region;
pub mod requirements;
pub mod resume;
pub mod search;
pub mod value;

use std::fmt::Debug;
use std::rc::Rc;
use std::sync::Arc;

use rtc_compiler::ir::graph::{RegionId, Value};
use rtc_compiler::plan::{Plan, Step};

use crate::arena::Arena;
use crate::machine::pieces::Pieces;
use crate::machine::record::RunRecords;
use crate::machine::resume::Resume;
use crate::machine::search::{NoiseSource, Searches};
use crate::machine::value::Val;
use crate::mask::Exprs;
use crate::rows::BatchView;
use crate::settings::ExecutionFault;
use crate::settings::Halting;
use crate::settings::Inference;
use crate::storage::{Element, List};
use rtc_base::rng::Key;
use rtc_kernel::beam::Blends;

/// The arrays of a machine's values. Clones share the numbers.
pub trait MachineArrays: Clone + Debug + 'static {
    /// The numbers of a model.
    type Number: Element;
    /// Real numbers.
    type Reals: Clone + Debug;
    /// Ids, labels, counters.
    type Ids: Clone + Debug;
    /// Truth values.
    type Truths: Clone + Debug;
    /// The rows that take part at one point, as a region sees them.
    type Active: Active;
    /// What is kept of a list of pieces.
    type Tables: Default + Debug;
}

/// The rows that take part at one point, with what a machine keeps of them.
pub trait Active: Clone + Debug + From<BatchView> {
    /// The rows.
    fn view(&self) -> &BatchView;
    /// The same rows with another key.
    fn keyed(&self, key: Key) -> Self;
}

impl Active for BatchView {
    fn view(&self) -> &BatchView {
        self
    }

    fn keyed(&self, key: Key) -> Self {
        let mut out = self.clone();
        out.key = key;
        out
    }
}

/// What all executors have.
pub struct Common<'a> {
    pub plan: &'a Arc<Plan>,
    pub arena: &'a Arena,
    /// The names of all ragged axes.
    pub axes: &'a [Rc<str>],
    pub exprs: &'a Rc<Exprs>,
    pub halting: Halting,
    pub inference: Inference,
    pub searches: &'a Searches,
    /// Draws of searches that are given.
    pub noise: Option<&'a dyn NoiseSource>,
    /// Whether the results of every node are checked.
    pub check_finite: bool,
}

/// Some nodes of a search: one after the other, or as pairs of neighbours.
#[derive(Clone, Copy)]
pub enum Nodes<'a> {
    Single(&'a [u32]),
    Pairs(&'a [u32], &'a [u32]),
}

impl Nodes<'_> {
    /// Their ids in the order of the list, those of pairs left, right, left, right, ...
    pub fn listed(self) -> Vec<u32> {
        match self {
            Self::Single(ids) => ids.to_vec(),
            Self::Pairs(left, right) => left.iter().zip(right).flat_map(|(left, right)| [*left, *right]).collect(),
        }
    }
}

/// An executor as the loops see it.
pub trait Machine: Sized {
    /// What its values are made of.
    type Arrays: MachineArrays;

    fn common(&self) -> Common<'_>;

    /// Where a run is recorded.
    fn records(&mut self) -> &mut RunRecords;

    /// Where a recurrence goes on, in a batch that is run for one number of steps after the other.
    fn resume(&mut self) -> &mut Option<Resume<Self::Arrays>>;

    /// The place of a value in the table.
    fn slot(&mut self, value: Value) -> &mut Option<ValOf<Self>>;

    /// A handle to a value or a parameter.
    fn value(&self, value: Value) -> ValOf<Self>;

    /// Executes a step.
    fn run_step(&mut self, plan: &Plan, step: &Step, here: &ActiveOf<Self>) -> Result<(), ExecutionFault>;

    /// Executes the steps of group `n` of a region.
    fn run_group(&mut self, plan: &Plan, region: RegionId, n: usize, here: &ActiveOf<Self>);

    /// Whether steps that go together need not run, in an incremental run.
    fn is_left_out(&mut self, _together: &[Step]) -> bool {
        false
    }

    /// Keeps the results of steps that run once in an incremental run.
    fn keep_once(&mut self, _plan: &Plan, _together: &[Step]) {}

    /// Room for some numbers, with any content.
    fn take(&self, len: usize) -> ValOf<Self>;

    /// Zeros.
    fn zeros(&self, len: usize) -> ValOf<Self>;

    /// Numbers of the host.
    fn upload(&self, numbers: List<NumberOf<Self>>) -> ValOf<Self>;

    /// Ids of the host.
    fn ids(&self, ids: List<u32>) -> ValOf<Self>;

    /// Real numbers, to the host.
    fn numbers(&self, val: &ValOf<Self>) -> List<NumberOf<Self>>;

    /// Truth values, to the host.
    fn truths(&self, val: &ValOf<Self>) -> List<u8>;

    /// The pieces of a value, end to end; `width` numbers per unit.
    fn gather(&self, from: &ValOf<Self>, pieces: &Pieces<Self::Arrays>, width: usize) -> ValOf<Self>;

    /// Replaces the pieces of `to` by what lies end to end in `from`. What has other handles is copied first.
    fn scatter(&self, from: &ValOf<Self>, to: &mut ValOf<Self>, pieces: &Pieces<Self::Arrays>, width: usize);

    /// Adds what lies end to end in `from` to the pieces of `to`, or to all of it. Equal pieces are neighbours, and added in order.
    fn add(&self, from: &ValOf<Self>, to: &mut ValOf<Self>, pieces: Option<&Pieces<Self::Arrays>>, width: usize);

    /// Multiplies each number by a factor.
    fn scale(&self, val: &mut ValOf<Self>, factors: List<NumberOf<Self>>);

    /// A table that begins with these numbers, with room for `more`.
    fn table(&self, first: &ValOf<Self>, more: usize) -> ValOf<Self>;

    /// Writes numbers into a table behind the first `used` ones.
    fn append(&self, table: &mut ValOf<Self>, used: usize, more: &ValOf<Self>);

    /// Nodes of a table, end to end.
    fn nodes(&self, table: &ValOf<Self>, nodes: Nodes<'_>, width: usize) -> ValOf<Self>;

    /// Adds to these nodes of a table, in the order of the list.
    fn add_nodes(&self, from: &ValOf<Self>, nodes: Nodes<'_>, table: &mut ValOf<Self>, width: usize);

    /// Weighted sums of nodes.
    fn blend(&self, blends: Blends<'_>, table: &ValOf<Self>, width: usize) -> ValOf<Self>;

    /// The backward run of [`Self::blend`]: adds to the gradients of the nodes, and gives those of the shares.
    fn blend_grad(
        &self,
        blends: Blends<'_>,
        table: &ValOf<Self>,
        dy: &ValOf<Self>,
        gradients: &mut ValOf<Self>,
        width: usize,
    ) -> List<f64>;
}

/// A value of a machine.
pub type ValOf<M> = Val<<M as Machine>::Arrays>;
/// The rows that take part, as a machine keeps them.
pub type ActiveOf<M> = <<M as Machine>::Arrays as MachineArrays>::Active;
/// A number of a machine.
pub type NumberOf<M> = <<M as Machine>::Arrays as MachineArrays>::Number;
