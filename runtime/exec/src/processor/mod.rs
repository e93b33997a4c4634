//! The executor on the processor: runs a plan on one batch.
//!
//! Values live in a table by value id, as counted handles to buffers in an arena; the plan says when they die. Lists of
//! rows, tapes and all else that a run needs lie in the same arena, which is kept between runs: a run in the steady state
//! allocates nothing. Parameters and their gradients are two flat arrays in the order of the parameters' names, so that
//! the optimiser, clipping and checkpoints see one array.

mod alone;
mod attended;
pub mod attention;
mod backend;
mod cpu;
mod crvnn_om_ops;
mod dispatch;
mod group;
pub mod history;
mod incremental;
mod memory;
mod relative;
mod sequence_ops;

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use rtc_base::batch::Batch;
use rtc_base::rng::Key;
use rtc_compiler::ir::graph::{MAIN, NodeId, Value};
use rtc_compiler::plan::Plan;
use rtc_kernel::pointwise::MapProgram;
use rtc_kernel::position::{PositionCodes, PositionTables};
use rtc_kernel::product::Orientation;

use crate::arena::Arena;
use crate::axes::{axis_names, set_axis};
use crate::machine::Machine;
use crate::machine::outputs::{Outputs, output_names};
use crate::machine::record::RunRecords;
use crate::machine::region::{InputName, inputs, ranges_by_value, run_region, whole_batch};
use crate::machine::resume::Resume;
use crate::machine::search::{NoiseSource, Searches};
use crate::machine::value::Val;
use crate::mask::{self, Exprs};
use crate::ranges::parameter_ranges;
use crate::rows::{Axis, BatchView};
use crate::settings::{ExecutionFault, Settings};
use crate::storage::Element;

pub use backend::HostMemory;
use group::{Pack, Partial, StepTask};
use incremental::Extending;
pub use incremental::Past;
pub(crate) use memory::ValueMemory;

/// Runs one plan.
#[derive(Debug)]
pub struct Executor<T: Element> {
    plan: Arc<Plan>,
    memory: ValueMemory<T>,
    gradients: Vec<T>,
    /// Where each parameter lies in the flat arrays, by index.
    by_index: Vec<Range<usize>>,
    arena: Arena,
    /// How often the parameters may have changed.
    version: u64,
    /// Weights in the order of their products.
    packs: BTreeMap<(Value, Orientation), Pack<T>>,
    /// Lists that groups use again.
    tasks: Vec<StepTask<T>>,
    partials: Vec<Partial<T>>,
    tables: PositionTables<T>,
    /// Searches that are not running.
    searches: Searches,
    waves: PositionCodes<T>,
    /// What the batch gives, by the names of `input` nodes.
    inputs: Vec<(InputName, Val<T>)>,
    /// The names of the results, in the order in which the graph returns them.
    outputs: Rc<[String]>,
    /// The names of all ragged axes.
    axes: Vec<Rc<str>>,
    exprs: Rc<Exprs>,
    /// What the scores of attentions stay below.
    caps: BTreeMap<NodeId, f64>,
    /// The loops of maps.
    programs: Rc<BTreeMap<NodeId, MapProgram>>,
    /// How it runs.
    pub settings: Settings,
    /// The recurrence that goes on in the next run, while a batch is run for one number of steps after the other.
    resume: Option<Resume<T>>,
    /// What earlier positions have left, in an incremental run.
    extending: Option<Extending<T>>,
    /// When set, searches take these draws instead of their own.
    pub noise: Option<Rc<dyn NoiseSource>>,
    /// What runs record besides their results.
    pub records: RunRecords,
}

impl<T: Element> Executor<T> {
    /// An executor with all parameters zero, and memory of its own.
    pub fn new(plan: Arc<Plan>) -> Self {
        Self::within(plan, Arena::default())
    }

    /// An executor with all parameters zero that runs in this arena. Executors that run in turn can share one.
    pub fn within(plan: Arc<Plan>, arena: Arena) -> Self {
        let by_index = parameter_ranges(&plan);
        let total = by_index.last().map_or(0, |r| r.end);
        let values = vec![None; plan.graph.value_count()];
        Self {
            memory: ValueMemory { values, parameters: vec![T::ZERO; total], ranges: ranges_by_value(&plan, &by_index) },
            gradients: vec![T::ZERO; total],
            by_index,
            arena,
            version: 0,
            packs: BTreeMap::new(),
            tasks: vec![],
            partials: vec![],
            tables: PositionTables::new(),
            searches: Searches::default(),
            waves: PositionCodes::default(),
            inputs: vec![],
            outputs: output_names(&plan),
            axes: axis_names(&plan),
            exprs: Rc::new(mask::exprs(&plan.graph)),
            caps: mask::caps(&plan.graph),
            programs: Rc::new(group::programs(&plan.graph)),
            settings: Settings::default(),
            resume: None,
            extending: None,
            noise: None,
            records: RunRecords::default(),
            plan,
        }
    }

    /// The plan.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// All parameters, flat, in the order of their names.
    pub fn parameters(&self) -> &[T] {
        &self.memory.parameters
    }

    /// All parameters, to write.
    pub fn parameters_mut(&mut self) -> &mut [T] {
        self.version += 1;
        &mut self.memory.parameters
    }

    /// All gradients, flat, in the order of the parameters.
    pub fn gradients(&self) -> &[T] {
        &self.gradients
    }

    /// The memory that runs happen in.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Bytes of the lists that its searches keep beside the arena, as the last run has left them.
    pub fn list_bytes(&self) -> usize {
        self.searches.bytes()
    }

    /// Runs the plan on a batch; `key` is the random key of this update. Gradients are added to what is there.
    ///
    /// # Errors
    /// A batch that does not fit; with `check_finite`, the first value that is not finite.
    pub fn run(&mut self, batch: &Batch, key: Key) -> Result<Outputs<T>, ExecutionFault> {
        let view = whole_batch(self, batch, key, self.settings.depth)?;
        let inputs = inputs(self, batch);
        self.inputs.extend(inputs);
        let outcome = run_region(self, MAIN, &view);
        let yields = self.plan.regions[MAIN.index()].yields.iter();
        let values = outcome.map(|()| self.arena.list(yields.map(|v| self.value(*v))));
        self.memory.values.fill(None);
        self.inputs.clear();
        Ok(Outputs { names: self.outputs.clone(), values: values? })
    }

    fn set_axis(&self, view: &mut BatchView, name: &str, axis: Axis) {
        set_axis(&self.axes, view, name, axis);
    }
}
