//! The executor: runs a plan on one batch.
//!
//! Values live in a table by value id, as counted handles to buffers in an arena; the plan says when they die. Lists of
//! rows, tapes and all else that a run needs lie in the same arena, which is kept between runs: a run in the steady state
//! allocates nothing. Parameters and their gradients are two flat arrays in the order of the parameters' names, so that
//! the optimiser, clipping and checkpoints see one array.

pub mod arena;
pub(crate) mod attention;
mod axes;
pub mod counter;
mod crvnn_om_ops;
mod dispatch;
mod group;
mod incremental;
pub(crate) mod loops;
pub(crate) mod mask;
mod memory;
pub(crate) mod node_context;
mod outputs;
mod relative;
pub mod rows;
mod seen;
mod sequence_ops;
mod stepping;
pub mod storage;
pub mod value;

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use rtc_compiler::ir::graph::{MAIN, NodeId, RegionId, Value};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::types::{Attr, Dim, LENGTH, Type};
use rtc_compiler::plan::{Plan, RegionPlan};
use serde::{Deserialize, Serialize};

use crate::batch::{Batch, Labels};
use crate::kernel::pointwise::Program;
use crate::kernel::position::{Codes, PositionTables};
use crate::kernel::product::Orientation;
use crate::rng::Key;
pub use incremental::Past;
pub use loops::Chance;
pub use outputs::Outputs;
pub use seen::{Beam, Grown, Owners, Stepped, Unit, Watched};

use arena::Arena;
pub(crate) use axes::{axis_name, axis_names, set_axis};
use counter::Counted;
use group::{Pack, Partial, Task};
use incremental::Extending;
use loops::Searches;
use mask::Exprs;
pub(crate) use memory::Memory;
pub(crate) use outputs::output_names;
use rows::{Axis, Env, GIVEN};
use stepping::Stepping;
pub(crate) use stepping::{given, given_depths, resumable};
use storage::Element;
use value::Val;

/// What rows that have halted cost in the forward run; the backward run never sees them. The results are the same for
/// all three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Halting {
    /// They leave the batch: the work follows the mean depth.
    #[default]
    Compact,
    /// They stay until every row has halted: the work follows the deepest row, as in the papers' code.
    Batch,
    /// Every recurrence runs to its bound.
    Never,
}

/// Whether rows are folded as the model was trained, or the outer recursion is left out. The weights are the same, the results
/// are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inference {
    /// Chunks, and chunks of their vectors.
    #[default]
    Recursive,
    /// The outermost balanced fold takes every row as one chunk, where what runs on a chunk can do that.
    Flat,
}

impl Inference {
    /// Whether rows are folded as in training.
    pub(crate) fn is_recursive(&self) -> bool {
        *self == Self::Recursive
    }
}

/// Why a plan can't run on a batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The batch does not fit the model.
    #[error("{0}")]
    Batch(String),
    /// A node gave a value that is not finite.
    #[error("{0} is not finite")]
    NonFinite(String),
    /// The device failed.
    #[error("{0}")]
    Device(String),
}

/// Runs one plan.
#[derive(Debug)]
pub struct Executor<T: Element> {
    plan: Arc<Plan>,
    memory: Memory<T>,
    gradients: Vec<T>,
    /// Where each parameter lies in the flat arrays, by index.
    by_index: Vec<Range<usize>>,
    arena: Arena,
    /// How often the parameters may have changed.
    version: u64,
    /// Weights in the order of their products.
    packs: BTreeMap<(Value, Orientation), Pack<T>>,
    /// Lists that groups use again.
    tasks: Vec<Task<T>>,
    partials: Vec<Partial<T>>,
    tables: PositionTables<T>,
    /// Searches that are not running.
    searches: Searches,
    waves: Codes<T>,
    /// What the batch gives, by the names of `input` nodes.
    inputs: Vec<(&'static str, Val<T>)>,
    /// The names of the results, in the order in which the graph returns them.
    outputs: Rc<[String]>,
    /// The names of all ragged axes.
    axes: Vec<Rc<str>>,
    exprs: Rc<Exprs>,
    /// The loops of maps.
    programs: Rc<BTreeMap<NodeId, Program>>,
    /// What halted rows cost.
    pub halting: Halting,
    /// Steps of every row in place of those that come with the examples.
    pub depth: Option<usize>,
    /// Where a recurrence goes on, while a batch is run for one number of steps after the other.
    stepping: Option<Stepping<T>>,
    /// What earlier positions have left, in an incremental run.
    extending: Option<Extending<T>>,
    /// Whether the outer recursion is left out.
    pub inference: Inference,
    /// When set, searches take these draws instead of their own.
    pub chance: Option<Rc<dyn Chance>>,
    /// When set, every node's results are checked, and the first one that is not finite is named.
    pub check_finite: bool,
    /// When set, the runs of halting recurrences are recorded here, in the order in which they end.
    pub watched: Option<Vec<Watched>>,
    /// When set, the trees of beam searches over whole rows are recorded here.
    pub grown: Option<Vec<Grown>>,
    /// When set, the states of recurrences over positions and the nodes of folds of whole rows are recorded here, step by step.
    pub stepped: Option<Vec<Stepped>>,
    /// When set, what runs do is counted here.
    pub counted: Option<Counted>,
}

/// Ranges of the parameters in the flat array, in order.
pub fn parameter_ranges(plan: &Plan) -> Vec<Range<usize>> {
    let mut at = 0;
    let sizes = plan.parameters.iter().map(|p| p.ty.dims().iter().filter_map(Dim::fixed).product::<usize>());
    sizes
        .map(|size| {
            at += size;
            at - size..at
        })
        .collect()
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
        let mut ranges = vec![None; plan.graph.value_count()];
        for &id in plan.graph.nodes(MAIN) {
            let node = plan.graph.node(id);
            if node.op == Op::Param {
                let name = node.attrs.get("name").and_then(Attr::text);
                let index = plan.parameters.iter().position(|p| Some(p.name.as_str()) == name);
                ranges[node.results[0].index()] = index.map(|n| by_index[n].clone());
            }
        }
        let values = vec![None; plan.graph.value_count()];
        Self {
            memory: Memory { values, parameters: vec![T::ZERO; total], ranges },
            gradients: vec![T::ZERO; total],
            by_index,
            arena,
            version: 0,
            packs: BTreeMap::new(),
            tasks: vec![],
            partials: vec![],
            tables: PositionTables::new(),
            searches: Searches::default(),
            waves: Codes::default(),
            inputs: vec![],
            outputs: output_names(&plan),
            axes: axis_names(&plan),
            exprs: Rc::new(mask::exprs(&plan.graph)),
            programs: Rc::new(group::programs(&plan.graph)),
            halting: Halting::default(),
            depth: None,
            stepping: None,
            extending: None,
            inference: Inference::default(),
            chance: None,
            check_finite: false,
            watched: None,
            grown: None,
            stepped: None,
            counted: None,
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

    /// Parameters and gradients at once, for the optimiser.
    pub fn parameters_and_gradients(&mut self) -> (&mut [T], &mut [T]) {
        self.version += 1;
        (&mut self.memory.parameters, &mut self.gradients)
    }

    /// Exchanges the parameters with those of another executor of the same model.
    pub fn swap_parameters(&mut self, other: &mut Self) {
        self.version += 1;
        other.version += 1;
        std::mem::swap(&mut self.memory.parameters, &mut other.memory.parameters);
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
    pub fn run(&mut self, batch: &Batch, key: Key) -> Result<Outputs<T>, Fault> {
        check_batch(&self.plan, batch)?;
        let depths = given_depths(&self.exprs, self.depth, batch, &self.arena)?;
        let mut env = Env::new(batch.rows(), key, batch.width, &self.arena);
        let lengths = (0..batch.rows()).map(|r| batch.row(r).len());
        self.set_axis(&mut env, LENGTH, Axis::of_lengths(lengths, &self.arena));
        if let Some(depths) = depths {
            env.set_axis(self.axis_name(GIVEN), depths);
        }
        self.set_inputs(batch);
        let outcome = self.region(MAIN, &env);
        let yields = self.plan.regions[MAIN.index()].yields.iter();
        let values = outcome.map(|()| self.arena.list(yields.map(|v| self.value(*v))));
        self.memory.values.fill(None);
        self.inputs.clear();
        Ok(Outputs { names: self.outputs.clone(), values: values? })
    }

    fn axis_name(&self, name: &str) -> Rc<str> {
        axis_name(&self.axes, name)
    }

    fn set_axis(&self, env: &mut Env, name: &str, axis: Axis) {
        set_axis(&self.axes, env, name, axis);
    }

    fn set_inputs(&mut self, batch: &Batch) {
        let labels = match &batch.labels {
            Labels::Number(numbers) => Val::real(self.arena.list(numbers.iter().map(|x| T::from_f64(f64::from(*x))))),
            labels => Val::index(self.arena.copy(labels.classes())),
        };
        self.inputs.push(("tokens", Val::index(self.arena.copy(&batch.tokens))));
        self.inputs.push(("labels", labels));
        if let Labels::Each { weight, .. } = &batch.labels {
            let weights = weight.iter().map(|w| T::from_f64(f64::from(*w)));
            self.inputs.push(("weights", Val::real(self.arena.list(weights))));
        }
    }

    /// Executes a region; what it yields and saves stays in the table.
    fn region(&mut self, region: RegionId, env: &Env) -> Result<(), Fault> {
        let plan = self.plan.clone();
        let own = &plan.regions[region.index()];
        self.forget(&own.unused);
        self.steps(&plan, own, 0..own.steps.len(), env)
    }

    /// Executes some steps of a region, in order.
    fn steps(&mut self, plan: &Plan, own: &RegionPlan, range: Range<usize>, env: &Env) -> Result<(), Fault> {
        let mut next = range.start;
        while next < range.end {
            let group = group::beginning(own, next);
            let together = group.map_or(next..next + 1, |group| group.steps.clone());
            next = together.end;
            if !self.is_left_out(&own.steps[together.clone()]) {
                match group {
                    Some(group) => self.group(plan, own, group, env),
                    None => self.execute(plan, &own.steps[together.start], env)?,
                }
                self.keep_once(plan, &own.steps[together.clone()]);
            }
            if let Some(counted) = &mut self.counted {
                counted.add(plan, &own.steps[together.clone()], env);
            }
            for step in &own.steps[together] {
                if self.check_finite {
                    self.require_finite(step.node)?;
                }
                self.forget(&step.frees);
            }
        }
        Ok(())
    }

    fn forget(&mut self, values: &[Value]) {
        for value in values {
            self.memory.values[value.index()] = None;
        }
    }

    fn require_finite(&self, node: NodeId) -> Result<(), Fault> {
        let node = self.plan.graph.node(node);
        let reals = node.results.iter().filter_map(|v| match &self.memory.values[v.index()] {
            Some(Val::Real(buffer)) => Some(buffer),
            _ => None,
        });
        for buffer in reals {
            if buffer.as_slice().iter().any(|x| !x.to_f64().is_finite()) {
                let label = if node.label.is_empty() { "the model" } else { &node.label };
                return Err(Fault::NonFinite(format!("`{}` of {label}", node.op)));
            }
        }
        Ok(())
    }

    /// A shared handle to a value; a parameter is copied into a buffer.
    fn value(&self, value: Value) -> Val<T> {
        if let Some(val) = &self.memory.values[value.index()] {
            return val.clone();
        }
        Val::real(self.arena.copy(self.memory.real(value)))
    }
}

/// Whether a batch has the tokens and labels that a plan takes.
pub(crate) fn check_batch(plan: &Plan, batch: &Batch) -> Result<(), Fault> {
    if batch.rows() == 0 || (0..batch.rows()).any(|r| batch.row(r).is_empty()) {
        return Err(Fault::Batch("a batch needs at least one row and every row at least one token".to_owned()));
    }
    check_tokens(plan, &batch.tokens)?;
    let classes = bound(plan, "head.output.bias").map_or(usize::MAX, |n| n.max(2));
    match batch.labels.classes().iter().find(|l| **l as usize >= classes) {
        Some(label) => Err(Fault::Batch(format!("label {label} is outside the {classes} classes"))),
        None => Ok(()),
    }
}

/// The first size of a parameter.
fn bound(plan: &Plan, name: &str) -> Option<usize> {
    plan.parameters.iter().find(|p| p.name == name)?.ty.dims()[0].fixed()
}

/// Whether a model knows all tokens.
fn check_tokens(plan: &Plan, tokens: &[u32]) -> Result<(), Fault> {
    let vocab = bound(plan, "embed.table").unwrap_or(usize::MAX);
    match tokens.iter().find(|t| **t as usize >= vocab) {
        Some(token) => Err(Fault::Batch(format!("token id {token} is outside the vocabulary of {vocab}"))),
        None => Ok(()),
    }
}

/// Refuses a row that is longer than a table of learned positions.
///
/// # Errors
/// One sentence with both numbers, and what to do.
pub(crate) fn too_few_positions(longest: usize, table: &Type) -> Result<(), Fault> {
    let known = table.dims()[0].fixed().unwrap_or(0);
    if longest <= known {
        return Ok(());
    }
    let cure = "give `embed` more `positions`, or other positions";
    Err(Fault::Batch(format!("a row has {longest} tokens, and the model has learned {known} positions: {cure}")))
}
