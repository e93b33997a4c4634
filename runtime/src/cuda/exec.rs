//! The executor of plans on a device: values by id, regions, steps.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use rtc_compiler::ir::graph::{MAIN, NodeId, RegionId, Value};
use rtc_compiler::plan::Plan;

use super::active_rows::ActiveRows;
use super::device::Device;
use super::fusion::{self, Part};
use super::memory::{Array, Pool};
use super::offset_lists::{self, Seen};
use super::value::{Ids, OnDevice, Val};
use crate::batch::Batch;
use crate::exec::arena::Arena;
use crate::exec::loops::search::Searches;
use crate::exec::mask::{self, Exprs};
use crate::exec::region::{InputName, inputs, ranges_by_value, run_region, whole_batch};
use crate::exec::resume::Resume;
use crate::exec::storage::Element;
use crate::exec::{Fault, Outputs, Records, Settings, axis_names, output_names, parameter_ranges};
use crate::kernel::position::{Codes, PositionTables, Rotation};
use crate::rng::Key;

/// Runs one plan on a device.
pub struct Executor<T: Element> {
    pub(super) plan: Arc<Plan>,
    pub(super) pool: Pool,
    pub(super) values: Vec<Option<Val<T>>>,
    pub(super) parameters: Array,
    pub(super) gradients: Array,
    /// Where the value of a `param` node lies in `parameters`.
    ranges: Vec<Option<Range<usize>>>,
    pub(super) by_index: Vec<Range<usize>>,
    /// The parts of the groups, by region and group.
    parts: Vec<Vec<Vec<Part>>>,
    /// What the names of the kernels of expressions end with, by node.
    pub(super) rules: BTreeMap<NodeId, String>,
    /// The distances that masks show, and whether there are others between them.
    pub(super) lists: BTreeMap<Seen, (Array, bool)>,
    pub(super) tables: PositionTables<T>,
    /// Cosines and sines on the device, and how many positions they have.
    pub(super) rotations: BTreeMap<Rotation, (usize, (Array, Array))>,
    /// Codes of positions, and on the device how many positions they have, by width.
    pub(super) codes: Codes<T>,
    pub(super) waves: BTreeMap<usize, (usize, Array)>,
    pub(super) inputs: Vec<(InputName, Val<T>)>,
    outputs: Rc<[String]>,
    pub(super) axes: Vec<Rc<str>>,
    pub(super) exprs: Rc<Exprs>,
    /// Where what the host keeps of a run lies.
    pub(super) arena: Arena,
    /// How it runs.
    pub settings: Settings,
    /// Searches that are not running.
    pub(super) searches: Searches,
    /// The recurrence that goes on in the next run, while a batch is run for one number of steps after the other.
    pub(super) resume: Option<Resume<OnDevice<T>>>,
    /// What runs record besides their results.
    pub records: Records,
}

impl<T: Element> fmt::Debug for Executor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Executor({} parameters in {:?})", self.parameters.len(), self.pool)
    }
}

impl<T: Element> Executor<T> {
    /// An executor with all parameters zero, in the memory of a device.
    pub fn new(plan: Arc<Plan>, device: Rc<dyn Device>) -> Self {
        let total = parameter_ranges(&plan).last().map_or(0, |r| r.end);
        let pool = Pool::new(device);
        let parameters = pool.zeros::<T>(total);
        Self::sharing(plan, pool, parameters)
    }

    /// An executor with these parameters.
    pub(super) fn sharing(plan: Arc<Plan>, pool: Pool, parameters: Array) -> Self {
        let by_index = parameter_ranges(&plan);
        let target = pool.device().target();
        pool.device().prepare(&super::generated(&plan, target).into_iter().collect::<Vec<_>>());
        Self {
            values: vec![None; plan.graph.value_count()],
            gradients: pool.zeros::<T>(parameters.len()),
            parameters,
            ranges: ranges_by_value(&plan),
            by_index,
            parts: plan.regions.iter().map(|own| fusion::parts(&plan, own)).collect(),
            rules: offset_lists::names(&plan, target),
            lists: BTreeMap::new(),
            tables: PositionTables::new(),
            rotations: BTreeMap::new(),
            codes: Codes::default(),
            waves: BTreeMap::new(),
            inputs: vec![],
            outputs: output_names(&plan),
            axes: axis_names(&plan),
            exprs: Rc::new(mask::exprs(&plan.graph)),
            arena: Arena::default(),
            settings: Settings::default(),
            searches: Searches::default(),
            resume: None,
            records: Records::default(),
            pool,
            plan,
        }
    }

    /// The plan.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// All parameters, flat, in the order of their names.
    pub fn parameters(&self) -> &Array {
        &self.parameters
    }

    /// All gradients, flat, in the order of the parameters.
    pub fn gradients(&self) -> &Array {
        &self.gradients
    }

    /// The memory that it runs in.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Runs the plan on a batch; `key` is the random key of this update. Gradients are added to what is there.
    ///
    /// # Errors
    /// A batch that does not fit; with `check_finite`, the first value that is not finite; a failure of the device.
    pub fn run(&mut self, batch: &Batch, key: Key) -> Result<Outputs<T>, Fault> {
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
    ) -> Result<Outputs<T>, Fault> {
        let values = self.run_then(batch, key, None, |executor, results| {
            executor.pool.device().flush();
            meanwhile();
            results.iter().map(|value| executor.on_host(*value)).collect()
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
        given: Option<(InputName, Array)>,
        then: impl FnOnce(&Self, &[Value]) -> R,
    ) -> Result<R, Fault> {
        let view = whole_batch(self, batch, key, self.settings.depth)?;
        self.pool.begin();
        let inputs = inputs(self, batch);
        self.inputs.extend(inputs);
        self.inputs.extend(given.map(|(name, array)| (name, Val::Real(array))));
        let outcome = run_region(self, MAIN, &ActiveRows::from(view));
        let plan = self.plan.clone();
        let found = outcome.map(|()| then(self, &plan.regions[MAIN.index()].yields));
        self.values.fill(None);
        self.inputs.clear();
        match self.pool.device().failure() {
            Some(failure) => Err(Fault::Device(failure)),
            None => found,
        }
    }

    /// The value of a result by its name, among the values of all results.
    pub(super) fn result(&self, name: &str, results: &[Value]) -> Option<Array> {
        let value = results.get(self.outputs.iter().position(|known| known == name)?)?;
        if let Val::Real(array) = self.handle(*value) { Some(array) } else { None }
    }

    /// The numbers of a real result.
    fn on_host(&self, value: Value) -> Option<Vec<T>> {
        match self.handle(value) {
            Val::Real(x) => Some(self.pool.download(&x)),
            _ => None,
        }
    }

    pub(super) fn group(&mut self, plan: &Plan, region: RegionId, n: usize, place: &ActiveRows) {
        let own = &plan.regions[region.index()];
        let group = &own.groups[n];
        let parts = std::mem::take(&mut self.parts[region.index()][n]);
        for part in &parts {
            match part {
                Part::Single(step) => self.by_unit(plan, &own.steps[*step], group, place),
                Part::Unbiased(step) => self.linear(plan, &own.steps[*step], group, place, false),
                Part::Chain(chain) => self.run_chain(plan, chain, group, place),
            }
        }
        for inner in &group.inner {
            self.values[inner.value.index()] = None;
        }
        self.parts[region.index()][n] = parts;
    }

    /// A handle to a value or a parameter.
    pub(super) fn handle(&self, value: Value) -> Val<T> {
        match (&self.values[value.index()], &self.ranges[value.index()]) {
            (Some(val), _) => val.clone(),
            (_, Some(range)) => Val::Real(self.parameters.part::<T>(range.start, range.len())),
            _ => unreachable!("the plan keeps a value until its last use"),
        }
    }

    /// The numbers of a real value or parameter.
    pub(super) fn real(&self, value: Value) -> Array {
        self.handle(value).array().clone()
    }

    pub(super) fn truth(&self, value: Value) -> Array {
        match self.handle(value) {
            Val::Truth(x) => x,
            _ => unreachable!("the verifier checks element kinds"),
        }
    }

    pub(super) fn index(&self, value: Value) -> Rc<Ids> {
        match self.handle(value) {
            Val::Index(ids) => ids,
            _ => unreachable!("the verifier checks element kinds"),
        }
    }

    pub(super) fn set(&mut self, value: Value, val: Val<T>) {
        self.values[value.index()] = Some(val);
    }

    /// The numbers of a parameter, by its index.
    pub(super) fn parameter(&self, parameter: usize) -> Array {
        let range = &self.by_index[parameter];
        self.parameters.part::<T>(range.start, range.len())
    }

    /// The gradient of a parameter, by its index.
    pub(super) fn gradient(&self, parameter: usize) -> Array {
        let range = &self.by_index[parameter];
        self.gradients.part::<T>(range.start, range.len())
    }
}
