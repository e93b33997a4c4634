//! Bundles: products of one form that need not wait for one another run as one, which fills a device better and is one launch. Such
//! are the queries and the keys of an attention, the two maps of a gated layer, forward and backward.
//!
//! The products of a bundle are equally far apart, in all that they read and write. Weights lie where the names of the parameters put
//! them; results and their gradients get seats in one block, in the order of the weights. Two products always have equal distances;
//! of more, those run together whose weights do.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use rtc_compiler::ir::attribute;
use rtc_compiler::ir::graph::{MAIN, Node, NodeId, Value};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::types::Type;
use rtc_compiler::plan::group::Group;
use rtc_compiler::plan::{Plan, RegionPlan};

use super::memory::{DeviceArray, DevicePool};
use rtc_exec::storage::Plain;

/// Numbers between the starts of two seats are a multiple of this, so that all seats are aligned as blocks are.
const ALIGNED: usize = 64;

/// Steps of a region whose products run together.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bundle {
    /// Which, in the order of their weights.
    pub(super) steps: Vec<usize>,
    /// The one of these in whose place they run.
    pub(super) place: usize,
}

/// Where a value lies: a row of seats, and which of them.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seat {
    row: usize,
    at: usize,
}

/// The bundles of a plan, by region, and the seats of their values.
#[derive(Debug, Default)]
pub(super) struct Bundles {
    pub(super) regions: Vec<Vec<Bundle>>,
    /// Outside of groups: all steps, by region and number, for the node in whose place they run, and none for the others.
    pub(super) outside: BTreeMap<NodeId, Vec<(usize, usize)>>,
    seats: BTreeMap<Value, Seat>,
    rows: RefCell<Vec<SeatRow>>,
}

/// Seats side by side.
#[derive(Debug)]
struct SeatRow {
    seats: usize,
    /// The block that is being filled, the numbers of a seat, and which seats are taken.
    block: Option<(DeviceArray, usize, BTreeSet<usize>)>,
}

/// Common properties of the steps of a bundle: the op, the operand of the maps, the types of factor and weight, and what else must be equal.
type BundleForm<'a> = (Op, Value, &'a Type, &'a Type, [bool; 2]);

/// A region in which bundles are looked for.
struct BundleRegion<'a> {
    plan: &'a Plan,
    /// The numbers of parameters, by the values of their nodes.
    parameters: &'a BTreeMap<Value, usize>,
    own: &'a RegionPlan,
    /// The step that makes a value, where one of this region does.
    makers: BTreeMap<Value, usize>,
    /// The operand of the map of whose result a value is the gradient.
    operands: BTreeMap<Value, Value>,
}

impl Bundles {
    pub(super) fn of(plan: &Plan) -> Self {
        let (graph, mut out) = (&plan.graph, Self::default());
        let nodes = graph.nodes(MAIN).iter().map(|id| graph.node(*id)).filter(|node| node.op == Op::Param);
        let number =
            |node: &Node| plan.parameters.iter().position(|p| node.find(attribute::NAME) == Some(p.name.as_str()));
        let parameters = nodes.filter_map(|node| Some((node.results[0], number(node)?))).collect();
        for (n, own) in plan.regions.iter().enumerate() {
            let region = BundleRegion::new(plan, own, &parameters);
            let (bundles, outside) = region.bundles();
            for bundle in bundles.iter().chain(&outside) {
                region.values(bundle).into_iter().for_each(|values| out.seat(values));
            }
            for bundle in outside {
                let all: Vec<_> = bundle.steps.iter().map(|step| (n, *step)).collect();
                let of = |step: usize| if step == bundle.place { all.clone() } else { vec![] };
                out.outside.extend(bundle.steps.iter().map(|step| (own.steps[*step].node, of(*step))));
            }
            out.regions.push(bundles);
        }
        out
    }

    /// Gives values seats side by side, unless one of them has one already.
    fn seat(&mut self, values: Vec<Value>) {
        let distinct = values.iter().collect::<BTreeSet<_>>().len() == values.len();
        if distinct && values.iter().all(|value| !self.seats.contains_key(value)) {
            let rows = self.rows.get_mut();
            let row = rows.len();
            rows.push(SeatRow { seats: values.len(), block: None });
            self.seats.extend(values.into_iter().enumerate().map(|(at, value)| (value, Seat { row, at })));
        }
    }

    /// Room for a value of so many numbers, in 16 bits if it is narrow: its seat, or a block of its own.
    pub(super) fn room<E: Plain>(&self, value: Value, len: usize, narrow: bool, pool: &DevicePool) -> DeviceArray {
        let Some(Seat { row, at }) = self.seats.get(&value).copied() else { return pool.take_kept::<E>(len, narrow) };
        let SeatRow { seats, block } = &mut self.rows.borrow_mut()[row];
        let apart = len.next_multiple_of(ALIGNED);
        // A run that ended early leaves a block behind that is not full.
        let fits = block
            .as_ref()
            .is_some_and(|(array, own, taken)| *own == len && array.is_narrow() == narrow && !taken.contains(&at));
        if !fits {
            *block = Some((pool.take_kept::<E>(*seats * apart, narrow), len, BTreeSet::new()));
        }
        let (array, _, taken) = block.as_mut().expect("there is one now");
        let part = array.part::<E>(at * apart, len);
        taken.insert(at);
        if taken.len() == *seats {
            *block = None;
        }
        part
    }
}

impl<'a> BundleRegion<'a> {
    fn new(plan: &'a Plan, own: &'a RegionPlan, parameters: &'a BTreeMap<Value, usize>) -> Self {
        let nodes = own.steps.iter().map(|step| plan.graph.node(step.node));
        let makers = nodes.clone().enumerate().flat_map(|(n, node)| node.results.iter().map(move |value| (*value, n)));
        let maps = nodes.filter(|node| node.op == Op::LinearGradWeight);
        let operands = maps.map(|node| (node.operands[0], node.operands[1])).collect();
        Self { plan, parameters, own, makers: makers.collect(), operands }
    }

    fn node(&self, step: usize) -> &'a Node {
        self.plan.graph.node(self.own.steps[step].node)
    }

    /// The number of the parameter that is the weight of a step, or of whose gradient it is a part. Parameters lie in this order.
    fn weight(&self, step: usize) -> Option<usize> {
        let node = self.node(step);
        match node.op {
            Op::Linear | Op::LinearGradInput => self.parameters.get(&node.operands[1]).copied(),
            _ => self.own.steps[step].accumulates_into[0],
        }
    }

    fn form(&self, step: usize) -> Option<BundleForm<'a>> {
        let (node, graph) = (self.node(step), &self.plan.graph);
        let ty = |value: Value| graph.ty(value);
        let kept = |value: &Value| self.own.saves.contains(value) || self.own.yields.contains(value);
        match node.op {
            // What is kept for the backward run must not keep alive what is not.
            Op::Linear => {
                let flags = [node.operands.len() > 2, kept(&node.results[0])];
                Some((node.op, node.operands[0], ty(node.results[0]), ty(node.operands[1]), flags))
            }
            Op::LinearGradInput => {
                let operand = *self.operands.get(&node.operands[0])?;
                Some((node.op, operand, ty(node.operands[0]), ty(node.operands[1]), [kept(&node.results[0]); 2]))
            }
            Op::LinearGradWeight | Op::ColumnSum => {
                let operand = *self.operands.get(&node.operands[0])?;
                Some((node.op, operand, ty(node.operands[0]), ty(node.results[0]), [false; 2]))
            }
            _ => None,
        }
    }

    /// The bundles in groups, and those outside.
    fn bundles(&self) -> (Vec<Bundle>, Vec<Bundle>) {
        let (groups, count) = (&self.own.groups, self.own.steps.len());
        let inside = groups.iter().flat_map(|group| self.among(group.steps.clone())).collect();
        let grouped = |step: &usize| groups.iter().any(|group| group.steps.contains(step));
        // Rows leave at the early exit.
        let middle = self.own.early_exit.unwrap_or(count);
        let alone = [0..middle, middle..count].into_iter();
        (inside, alone.flat_map(|steps| self.among(steps.filter(|step| !grouped(step)))).collect())
    }

    /// The bundles among some steps.
    fn among(&self, steps: impl Iterator<Item = usize>) -> Vec<Bundle> {
        let mut found: Vec<(BundleForm<'a>, Vec<usize>)> = vec![];
        for step in steps {
            let Some(form) = self.form(step).filter(|_| self.weight(step).is_some()) else { continue };
            match found.iter_mut().find(|(other, _)| *other == form) {
                Some((_, steps)) => steps.push(step),
                None => found.push((form, vec![step])),
            }
        }
        found.into_iter().filter_map(|(_, steps)| self.bundle(steps)).collect()
    }

    /// Steps of one form as a bundle, if there are several, and a place where none of them comes too early or too late.
    fn bundle(&self, mut steps: Vec<usize>) -> Option<Bundle> {
        let (first, last) = (*steps.first()?, *steps.last()?);
        steps.sort_by_key(|step| self.weight(*step));
        let weights: BTreeSet<_> = steps.iter().map(|step| self.weight(*step)).collect();
        if steps.len() < 2 || weights.len() < steps.len() {
            return None;
        }
        let known = |step: &usize| {
            self.node(*step).operands.iter().all(|value| self.makers.get(value).is_none_or(|maker| *maker < first))
        };
        let unread = |step: &usize| {
            let results = &self.node(*step).results;
            (first..last).all(|reader| self.node(reader).operands.iter().all(|value| !results.contains(value)))
        };
        // What a step outside of groups reads for the last time is gone behind it.
        let waits = self.node(first).op != Op::LinearGradWeight;
        let place = match steps.iter().all(known) {
            true => first,
            false if waits && steps.iter().all(unread) => last,
            false => return None,
        };
        Some(Bundle { steps, place })
    }

    /// The values that lie side by side for a bundle.
    fn values(&self, bundle: &Bundle) -> Vec<Vec<Value>> {
        let of = |pick: fn(&Node) -> Value| bundle.steps.iter().map(|step| pick(self.node(*step))).collect();
        match self.node(bundle.place).op {
            Op::Linear => vec![of(|node| node.results[0])],
            Op::LinearGradInput => vec![of(|node| node.operands[0]), of(|node| node.results[0])],
            _ => vec![of(|node| node.operands[0])],
        }
    }
}

/// What runs in a group, in order: one step, or a bundle.
pub(super) fn order(group: &Group, bundles: &[Bundle]) -> Vec<Vec<usize>> {
    let of = |step: usize| bundles.iter().find(|bundle| bundle.steps.contains(&step));
    let runs = |step: usize| match of(step) {
        None => Some(vec![step]),
        Some(bundle) => (bundle.place == step).then(|| bundle.steps.clone()),
    };
    group.steps.clone().filter_map(runs).collect()
}
