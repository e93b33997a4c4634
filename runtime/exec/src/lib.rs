//! The executor: runs a plan on one batch.
//!
//! Values live in a table by value id, as counted handles to buffers in an arena; the plan says when they die. Lists of
//! rows, tapes and all else that a run needs lie in the same arena, which is kept between runs: a run in the steady state
//! allocates nothing. Parameters and their gradients are two flat arrays in the order of the parameters' names, so that
//! the optimiser, clipping and checkpoints see one array.

pub mod arena;
pub mod attention;
mod axes;
mod backend;
pub mod bounds;
pub mod choice;
pub mod counter;
mod cpu;
mod crvnn_om_ops;
mod dispatch;
pub mod gradient_tree;
mod group;
pub mod history;
mod incremental;
pub mod learner;
pub mod loops;
pub mod machine;
pub mod mask;
mod memory;
pub mod model;
pub mod node_context;
mod outputs;
pub mod pieces;
mod record;
mod recorder;
pub mod region;
mod relative;
pub mod resume;
pub mod rows;
mod sequence_ops;
pub mod storage;
pub mod update;
pub mod value;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use rtc_compiler::ir::graph::{MAIN, NodeId, Value};
use rtc_compiler::ir::types::{Dim, Elem, Type};
use rtc_compiler::pipeline::asked::things;
use rtc_compiler::plan::Plan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use incremental::Past;
pub use loops::NoiseSource;
pub use outputs::Outputs;
pub use record::{Beam, ParseTrees, Records};
pub use recorder::{HaltingRecorder, HaltingTrace, Owners, StateRecorder, StateTrace, Unit};
use region::{InputName, given_node, inputs, ranges_by_value, run_region, whole_batch};
use rtc_base::batch::Batch;
use rtc_base::rng::Key;
use rtc_kernel::Precision;
use rtc_kernel::pointwise::Program;
use rtc_kernel::position::{Codes, PositionTables};
use rtc_kernel::product::Orientation;

use arena::Arena;
pub use axes::{axis_names, set_axis};
pub use backend::Host;
use group::{Pack, Partial, Task};
use incremental::Extending;
use loops::search::Searches;
use machine::{Arrays, Machine};
use mask::Exprs;
pub(crate) use memory::Memory;
pub use outputs::output_names;
use resume::Resume;
pub(crate) use resume::given_depths;
use rows::{Axis, BatchView};
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    pub fn is_recursive(&self) -> bool {
        *self == Self::Recursive
    }
}

/// How an executor runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// What halted rows cost.
    pub halting: Halting,
    /// Steps of every row in place of those that come with the examples.
    pub depth: Option<usize>,
    /// Whether the outer recursion is left out.
    pub inference: Inference,
    /// How exact the products of linear maps and their gradients are.
    pub precision: Precision,
    /// Whether every node's results are checked, and the first one that is not finite is named.
    pub check_finite: bool,
}

/// Why a plan can't run on a batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The batch does not fit the model.
    #[error("{0}")]
    Batch(String),
    /// A node gave a value that is not finite, or was asked to decide by one.
    #[error("{0} is not finite")]
    NonFinite(String),
    /// The device failed.
    #[error("{0}")]
    Device(String),
}

impl Fault {
    /// The same with the place of a number that is not finite, from the inside out.
    #[must_use]
    pub(crate) fn within(self, place: impl Display) -> Self {
        match self {
            Self::NonFinite(what) => Self::NonFinite(format!("{what}, {place}")),
            other => other,
        }
    }
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
    inputs: Vec<(InputName, Val<T>)>,
    /// The names of the results, in the order in which the graph returns them.
    outputs: Rc<[String]>,
    /// The names of all ragged axes.
    axes: Vec<Rc<str>>,
    exprs: Rc<Exprs>,
    /// The loops of maps.
    programs: Rc<BTreeMap<NodeId, Program>>,
    /// How it runs.
    pub settings: Settings,
    /// The recurrence that goes on in the next run, while a batch is run for one number of steps after the other.
    resume: Option<Resume<T>>,
    /// What earlier positions have left, in an incremental run.
    extending: Option<Extending<T>>,
    /// When set, searches take these draws instead of their own.
    pub noise: Option<Rc<dyn NoiseSource>>,
    /// What runs record besides their results.
    pub records: Records,
}

/// Ranges of the parameters in the flat array, in order.
pub fn parameter_ranges(plan: &Plan) -> Vec<Range<usize>> {
    aligned_ranges(plan, 1)
}

/// The same in an array in which each parameter begins at a multiple of `align` numbers.
pub fn aligned_ranges(plan: &Plan, align: usize) -> Vec<Range<usize>> {
    let mut end = 0_usize;
    let sizes = plan.parameters.iter().map(|p| p.ty.dims().iter().filter_map(Dim::fixed).product::<usize>());
    sizes
        .map(|size| {
            let start = end.next_multiple_of(align);
            end = start + size;
            start..end
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
        let values = vec![None; plan.graph.value_count()];
        Self {
            memory: Memory { values, parameters: vec![T::ZERO; total], ranges: ranges_by_value(&plan, &by_index) },
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
            settings: Settings::default(),
            resume: None,
            extending: None,
            noise: None,
            records: Records::default(),
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
    pub fn run(&mut self, batch: &Batch, key: Key) -> Result<Outputs<T>, Fault> {
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

/// Whether a batch has the tokens and labels that a plan takes.
pub(crate) fn check_batch(plan: &Plan, batch: &Batch) -> Result<(), Fault> {
    if batch.rows() == 0 || (0..batch.rows()).any(|r| batch.row(r).is_empty()) {
        return Err(Fault::Batch("a batch needs at least one row and every row at least one token".to_owned()));
    }
    check_tokens(plan, &batch.tokens)?;
    check_ids(plan, batch)?;
    known_labels(batch.labels.classes(), plan.classes.unwrap_or(usize::MAX))
}

/// Refuses a label that is none of the classes.
pub fn known_labels(labels: &[u32], classes: usize) -> Result<(), Fault> {
    match labels.iter().find(|l| **l as usize >= classes) {
        Some(label) => Err(Fault::Batch(format!("label {label} is outside the {classes} classes"))),
        None => Ok(()),
    }
}

/// What a batch gives under a name, if it has as many numbers as the model takes.
pub fn given_input<A: Arrays>(
    inputs: &[(InputName, Val<A>)],
    name: &str,
    expected: usize,
    len: impl FnOnce(&Val<A>) -> usize,
) -> Result<Val<A>, Fault> {
    let found = inputs.iter().find(|(known, _)| known.text() == name);
    let (_, val) = found.ok_or_else(|| {
        Fault::Batch(match name {
            "tokens" | "labels" | "weights" => format!("the batch has no `{name}`"),
            _ => format!("the model takes `{name}` from the examples, which have none"),
        })
    })?;
    match len(val) {
        len if len == expected => Ok(val.clone()),
        len => Err(Fault::Batch(format!("the batch has {len} `{name}`, the model takes {expected}"))),
    }
}

/// Whether the numbers of things that come with the examples are such numbers, and the tables of the model have a row for each.
fn check_ids(plan: &Plan, batch: &Batch) -> Result<(), Fault> {
    for given in &batch.given {
        let Some(ids) = given_node(plan, &given.name).map(|node| node.results[0]) else { continue };
        if plan.graph.ty(ids).elem() != Some(Elem::Index) {
            continue;
        }
        let count = things(&plan.graph, ids) as f64;
        if let Some(id) = given.numbers.iter().find(|id| !(id.fract() == 0.0 && (0.0..count).contains(*id))) {
            let name = &given.name;
            return Err(Fault::Batch(format!(
                "`{name}` is {id} in an example, and the model knows 0 to {}",
                count - 1.0
            )));
        }
    }
    Ok(())
}

/// Whether a model knows all tokens.
fn check_tokens(plan: &Plan, tokens: &[u32]) -> Result<(), Fault> {
    let vocab = plan.vocabulary.unwrap_or(usize::MAX);
    match tokens.iter().find(|t| **t as usize >= vocab) {
        Some(token) => Err(Fault::Batch(format!("token id {token} is outside the vocabulary of {vocab}"))),
        None => Ok(()),
    }
}

/// Refuses rows that have not the number of positions for which they are transposed.
///
/// # Errors
/// One sentence with both numbers, and what to do.
pub fn equally_long(axis: &Axis, count: usize) -> Result<(), Fault> {
    match (0..axis.offsets.len() - 1).map(|row| axis.len(row)).find(|length| *length != count) {
        Some(length) => Err(Fault::Batch(format!(
            "a row has {length} positions, and `transpose` takes rows of {count}: give rows of one length, or another `length`"
        ))),
        None => Ok(()),
    }
}

/// Refuses a row that is longer than a table of learned positions.
///
/// # Errors
/// One sentence with both numbers, and what to do.
pub fn too_few_positions(longest: usize, table: &Type) -> Result<(), Fault> {
    let known = table.dims()[0].fixed().unwrap_or(0);
    if longest <= known {
        return Ok(());
    }
    let cure = "give `embed` more `positions`, or other positions";
    Err(Fault::Batch(format!("a row has {longest} tokens, and the model has learned {known} positions: {cure}")))
}
