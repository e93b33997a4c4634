//! The executor of plans on a device: values by id, regions, steps.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use rtc_compiler::ir::graph::{MAIN, NodeId, RegionId, Value};
use rtc_compiler::plan::Plan;

use super::active_rows::ActiveRows;
use super::bundles::Bundles;
use super::device::Device;
use super::fusion::{self, LaunchUnit};
use super::memory::{DeviceArray, DevicePool, MOST_BLOCKS};
use super::narrow;
use super::offset_lists::{self, DistanceKey};
use super::value::{DeviceValue, Ids, OnDevice};
use rtc_base::batch::Batch;
use rtc_base::rng::Key;
use rtc_exec::arena::Arena;
use rtc_exec::machine::region::{InputName, inputs, ranges_by_value, run_region, whole_batch};
use rtc_exec::machine::resume::Resume;
use rtc_exec::machine::search::Searches;
use rtc_exec::mask::{self, Exprs};
use rtc_exec::storage::Element;
use rtc_exec::{ExecutionFault, Outputs, RunRecords, Settings, aligned_ranges, axis_names, output_names};
use rtc_kernel::position::{PositionCodes, PositionTables, Rotation};

/// Where parameters begin in the flat arrays, in numbers: a vector of any width, and what the library for products wants.
pub(super) const ALIGN: usize = 64;

/// Runs one plan on a device.
pub struct DeviceExecutor<T: Element> {
    pub(super) plan: Arc<Plan>,
    pub(super) pool: DevicePool,
    pub(super) values: Vec<Option<DeviceValue<T>>>,
    pub(super) parameters: DeviceArray,
    pub(super) gradients: DeviceArray,
    /// Whether each value is kept in 16 bits, where the step that makes it can.
    pub(super) narrow: Vec<bool>,
    /// The weights in 16 bits, where there are such values.
    pub(super) narrow_weights: Option<DeviceArray>,
    /// Operands of the present step that were widened.
    wide: RefCell<BTreeMap<Value, DeviceArray>>,
    /// Where the value of a `param` node lies in `parameters`.
    pub(super) ranges: Vec<Option<Range<usize>>>,
    pub(super) by_index: Vec<Range<usize>>,
    /// The parts of the groups, by region and group.
    parts: Vec<Vec<Vec<LaunchUnit>>>,
    pub(super) bundles: Bundles,
    /// What the names of the kernels of expressions end with, by node.
    pub(super) rules: BTreeMap<NodeId, String>,
    /// The distances that masks show, and whether there are others between them.
    pub(super) lists: BTreeMap<DistanceKey, (DeviceArray, bool)>,
    pub(super) tables: PositionTables<T>,
    /// Cosines and sines on the device, and how many positions they have.
    pub(super) rotations: BTreeMap<Rotation, (usize, (DeviceArray, DeviceArray))>,
    /// Codes of positions, and on the device how many positions they have, by width.
    pub(super) codes: PositionCodes<T>,
    pub(super) waves: BTreeMap<usize, (usize, DeviceArray)>,
    pub(super) inputs: Vec<(InputName, DeviceValue<T>)>,
    outputs: Rc<[String]>,
    pub(super) axes: Vec<Rc<str>>,
    pub(super) exprs: Rc<Exprs>,
    /// What the scores of attentions stay below.
    pub(super) caps: BTreeMap<NodeId, f64>,
    /// Where what the host keeps of a run lies.
    pub(super) arena: Arena,
    /// How it runs.
    pub settings: Settings,
    /// Searches that are not running.
    pub(super) searches: Searches,
    /// The recurrence that goes on in the next run, while a batch is run for one number of steps after the other.
    pub(super) resume: Option<Resume<OnDevice<T>>>,
    /// What runs record besides their results.
    pub records: RunRecords,
}

impl<T: Element> fmt::Debug for DeviceExecutor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Executor({} parameters in {:?})", self.parameters.len(), self.pool)
    }
}

impl<T: Element> DeviceExecutor<T> {
    /// An executor with all parameters zero, in the memory of a device.
    pub fn new(plan: Arc<Plan>, device: Rc<dyn Device>) -> Self {
        Self::sharing(plan, DevicePool::new(device))
    }

    /// The same, in the memory of another one.
    pub(super) fn sharing(plan: Arc<Plan>, pool: DevicePool) -> Self {
        let (by_index, bundles) = (aligned_ranges(&plan, ALIGN), Bundles::of(&plan));
        let total = by_index.last().map_or(0, |range| range.end);
        let target = pool.device().target();
        pool.device().prepare(&super::sources::generated(&plan, target).into_iter().collect::<Vec<_>>());
        let narrow = narrow::values(&plan, target);
        let narrow_weights = narrow.contains(&true).then(|| pool.take_kept::<T>(total, true));
        Self {
            values: vec![None; plan.graph.value_count()],
            parameters: pool.zeros::<T>(total),
            gradients: pool.zeros::<T>(total),
            ranges: ranges_by_value(&plan, &by_index),
            by_index,
            parts: fusion::parts(&plan, &bundles, narrow_weights.is_some()),
            bundles,
            narrow,
            narrow_weights,
            wide: RefCell::default(),
            rules: offset_lists::names(&plan, target),
            lists: BTreeMap::new(),
            tables: PositionTables::new(),
            rotations: BTreeMap::new(),
            codes: PositionCodes::default(),
            waves: BTreeMap::new(),
            inputs: vec![],
            outputs: output_names(&plan),
            axes: axis_names(&plan),
            exprs: Rc::new(mask::exprs(&plan.graph)),
            caps: mask::caps(&plan.graph),
            arena: Arena::default(),
            settings: Settings::default(),
            searches: Searches::default(),
            resume: None,
            records: RunRecords::default(),
            pool,
            plan,
        }
    }

    /// The plan.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Where each parameter lies in the flat arrays. What lies in between is zero, and stays so.
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.by_index
    }

    /// All parameters, flat, in the order of their names.
    pub fn parameters(&self) -> &DeviceArray {
        &self.parameters
    }

    /// All gradients, flat, in the order of the parameters.
    pub fn gradients(&self) -> &DeviceArray {
        &self.gradients
    }

    /// The memory that it runs in.
    pub fn pool(&self) -> &DevicePool {
        &self.pool
    }

    /// Runs the plan on a batch; `key` is the random key of this update. Gradients are added to what is there.
    ///
    /// # Errors
    /// A batch that does not fit; with `check_finite`, the first value that is not finite; a failure of the device.
    pub fn run(&mut self, batch: &Batch, key: Key) -> Result<Outputs<T>, ExecutionFault> {
        self.run_while(batch, key, &mut || {})
    }

    /// The same; `meanwhile` is called when the device has been given all work of the run, before its results are waited for.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub(super) fn run_while(
        &mut self,
        batch: &Batch,
        key: Key,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<Outputs<T>, ExecutionFault> {
        let values = self.run_then(batch, key, None, |executor, results| {
            let joined = executor.join(results);
            executor.pool.device().flush();
            meanwhile();
            executor.on_host(&joined)
        })?;
        Ok(Outputs::new(self.outputs.clone(), values, &self.arena))
    }

    /// Runs the plan on a batch, and does something with the values of its results, which are on the device. `given` is an input that
    /// is on the device already.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub(super) fn run_then<R>(
        &mut self,
        batch: &Batch,
        key: Key,
        given: Option<(InputName, DeviceArray)>,
        then: impl FnOnce(&Self, &[Value]) -> R,
    ) -> Result<R, ExecutionFault> {
        let view = whole_batch(self, batch, key, self.settings.depth)?;
        self.pool.begin();
        self.narrow_weights();
        let inputs = inputs(self, batch);
        self.inputs.extend(inputs);
        self.inputs.extend(given.map(|(name, array)| (name, DeviceValue::Real(array))));
        let outcome = run_region(self, MAIN, &ActiveRows::from(view));
        let plan = self.plan.clone();
        self.begin_step();
        let found = outcome.map(|()| then(self, &plan.regions[MAIN.index()].yields));
        self.values.fill(None);
        self.begin_step();
        self.inputs.clear();
        match self.pool.device().failure() {
            Some(failure) => Err(ExecutionFault::Device(failure)),
            None => found,
        }
    }

    /// The value of a result by its name, among the values of all results.
    pub(super) fn result(&self, name: &str, results: &[Value]) -> Option<DeviceArray> {
        let value = results.get(self.outputs.iter().position(|known| known == name)?)?;
        if let DeviceValue::Real(_) = self.handle(*value) { Some(self.real(*value)) } else { None }
    }

    /// The results that are real numbers, end to end, and how many numbers each has. Others have none.
    fn join(&self, results: &[Value]) -> (DeviceArray, Vec<Option<usize>>) {
        let real = |value: &Value| matches!(self.handle(*value), DeviceValue::Real(_)).then(|| self.real(*value));
        let all: Vec<Option<DeviceArray>> = results.iter().map(real).collect();
        let (mut table, mut end) = (vec![], 0);
        for x in all.iter().flatten() {
            end += x.len();
            table.extend([x.at(), end as u64]);
        }
        let (y, count) = (self.pool.take::<T>(end), table.len() / 2);
        let longest = all.iter().flatten().map(DeviceArray::len).max().unwrap_or(0);
        let across = self.pool.thread_blocks(longest).min(MOST_BLOCKS as u32);
        let args = [self.pool.upload(&table).arg(), y.arg()];
        self.pool.launch("join", [across, count as u32, 1], &args);
        (y, all.iter().map(|x| Some(x.as_ref()?.len())).collect())
    }

    /// The numbers of each result.
    fn on_host(&self, (joined, lengths): &(DeviceArray, Vec<Option<usize>>)) -> Vec<Option<Vec<T>>> {
        let numbers: Vec<T> = self.pool.download(joined);
        let mut rest = &numbers[..];
        let mut next = |len: usize| {
            let (own, behind) = rest.split_at(len);
            rest = behind;
            own.to_vec()
        };
        lengths.iter().map(|len| len.map(&mut next)).collect()
    }

    pub(super) fn group(&mut self, plan: &Plan, region: RegionId, n: usize, place: &ActiveRows) {
        let own = &plan.regions[region.index()];
        let group = &own.groups[n];
        let parts = std::mem::take(&mut self.parts[region.index()][n]);
        for part in &parts {
            self.begin_step();
            match part {
                LaunchUnit::Single(step) => self.by_unit(plan, &own.steps[*step], group, place),
                LaunchUnit::Bundle(steps) => self.bundle(plan, &own.steps, steps, group, place),
                LaunchUnit::Chain(chain) => self.run_chain(plan, chain, group, place),
            }
        }
        for inner in &group.inner {
            self.values[inner.value.index()] = None;
        }
        self.parts[region.index()][n] = parts;
    }

    /// A handle to a value or a parameter.
    pub(super) fn handle(&self, value: Value) -> DeviceValue<T> {
        match (&self.values[value.index()], &self.ranges[value.index()]) {
            (Some(val), _) => val.clone(),
            (_, Some(range)) => DeviceValue::Real(self.parameters.part::<T>(range.start, range.len())),
            _ => unreachable!("the plan keeps a value until its last use"),
        }
    }

    /// The numbers of a real value or parameter, as they are computed with. What had to be widened stays until the step ends.
    pub(super) fn real(&self, value: Value) -> DeviceArray {
        let kept = self.stored(value);
        if !kept.is_narrow() {
            return kept;
        }
        self.wide.borrow_mut().entry(value).or_insert_with(|| self.pool.widened::<T>(&kept)).clone()
    }

    /// The numbers of a real value or parameter, as they are kept.
    pub(super) fn stored(&self, value: Value) -> DeviceArray {
        self.handle(value).array().clone()
    }

    /// A step begins.
    pub(super) fn begin_step(&self) {
        self.wide.borrow_mut().clear();
    }

    pub(super) fn truth(&self, value: Value) -> DeviceArray {
        match self.handle(value) {
            DeviceValue::Truth(x) => x,
            _ => unreachable!("the verifier checks element kinds"),
        }
    }

    pub(super) fn index(&self, value: Value) -> Rc<Ids> {
        match self.handle(value) {
            DeviceValue::Index(ids) => ids,
            _ => unreachable!("the verifier checks element kinds"),
        }
    }

    pub(super) fn set(&mut self, value: Value, val: DeviceValue<T>) {
        self.values[value.index()] = Some(val);
    }

    /// The numbers of a parameter, by its index.
    pub(super) fn parameter(&self, parameter: usize) -> DeviceArray {
        let range = &self.by_index[parameter];
        self.parameters.part::<T>(range.start, range.len())
    }

    /// The gradient of a parameter, by its index.
    pub(super) fn gradient(&self, parameter: usize) -> DeviceArray {
        let range = &self.by_index[parameter];
        self.gradients.part::<T>(range.start, range.len())
    }
}
