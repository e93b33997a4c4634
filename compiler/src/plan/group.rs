//! Groups: steps that work unit by unit, which the runtime executes together, block of units by block of units.
//!
//! A unit is an index into all axes but the channels: a position of a row, a slot of a row's memory, a row. A linear
//! map, a norm or anything elementwise needs nothing from other units, so a chain of them can run on a few units at a
//! time: what only the chain itself reads stays in a thread's scratch, in cache, and threads meet once per group and not
//! once per step.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::{Step, reads};
use crate::ir::attribute;
use crate::ir::graph::{Graph, NodeId, Value};
use crate::ir::ops::{Flag, Op, Roles};
use crate::ir::types::{CLASSES, Dim, Type, VOCAB};

/// Channels of scratch begin at multiples of this, so that blocks begin at whole vectors.
const ALIGNMENT: usize = 16;

/// Consecutive steps of a region that run together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Which steps.
    pub steps: Range<usize>,
    /// The axes whose indices are the units; empty for a single unit.
    pub units: Vec<Dim>,
    /// Results that only the group reads. They have no buffer.
    pub inner: Vec<Inner>,
    /// Numbers of scratch per unit.
    pub scratch: usize,
    /// Numbers per unit that its steps read and write, each counted as often as it is used, and its scratch.
    pub width: usize,
}

/// Numbers that the steps of a block read and write, each counted as often as it is used: the values themselves are about a
/// quarter of it, and stay in the second-level cache.
const BLOCK_NUMBERS: usize = 1 << 18;

/// Blocks that a group should have at least, so that threads get equal shares.
const SHARES: usize = 16;

impl Group {
    /// The units of a block where there are so many; the last block may have fewer.
    pub fn block(&self, units: usize) -> usize {
        let by_cache = BLOCK_NUMBERS / self.width.max(1);
        by_cache.min(units / SHARES).next_multiple_of(8).clamp(16, 64)
    }
}

/// A value that lives in scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inner {
    pub value: Value,
    /// Where it begins, in numbers per unit.
    pub offset: usize,
}

/// The axes of a type that index its units, and the number of channels of a unit (1 while it is not known).
///
/// The last axis holds the channels, except where that is the batch or the positions of ragged rows: then every unit is one
/// number. A vector without batch is one unit.
pub fn units(ty: &Type) -> (&[Dim], usize) {
    let dims = ty.dims();
    let channel = |dim: &Dim| dim.symbol().is_none_or(|s| s == VOCAB || s == CLASSES);
    match dims.split_last() {
        Some((last, rest)) if channel(last) => (rest, last.fixed().unwrap_or(1)),
        _ => (dims, 1),
    }
}

/// The axes whose units the node works on, if it works unit by unit.
fn class(graph: &Graph, id: NodeId) -> Option<&[Dim]> {
    let node = graph.node(id);
    node.op.def().by_unit?;
    let ty = graph.ty(node.operands[0]);
    let (axes, _) = units(ty);
    // Without channels the last axis is that of the positions.
    let along = node.op.has(Flag::Lengthwise) && axes.len() == ty.dims().len();
    (!along).then_some(axes)
}

/// Brings steps that work on the same units together and names the groups. `held` values outlive the region's steps.
///
/// The order stays a topological one. A step moves forward to a group only if it reads a result of the group, or
/// if no step was left behind in between: what could be computed long before it is needed is not. None moves across
/// `early_exit`, nor across one that adds to the gradient of the same parameter: a sum has one order.
pub(super) fn group(
    graph: &Graph,
    steps: Vec<Step>,
    early_exit: Option<usize>,
    held: &BTreeSet<Value>,
) -> (Vec<Step>, Vec<Group>) {
    let needs: Vec<BTreeSet<Value>> = steps.iter().map(|s| reads(graph, s.node)).collect();
    let maker: BTreeMap<Value, usize> =
        steps.iter().enumerate().flat_map(|(n, s)| graph.node(s.node).results.iter().map(move |v| (*v, n))).collect();
    let mut readers = vec![vec![]; steps.len()];
    for (n, needs) in needs.iter().enumerate() {
        needs.iter().filter_map(|v| maker.get(v)).for_each(|m| readers[*m].push(n));
    }
    let added = added_before(graph, &steps);
    let mut done = vec![false; steps.len()];
    let mut order: Vec<usize> = Vec::with_capacity(steps.len());
    let mut ranges = vec![];
    for first in 0..steps.len() {
        if done[first] {
            continue;
        }
        let begin = order.len();
        order.push(first);
        done[first] = true;
        let Some(own) = class(graph, steps[first].node) else { continue };
        let mut inside = BTreeSet::from([first]);
        let end = early_exit.filter(|n| first < *n).unwrap_or(steps.len());
        let joins = |next: usize, done: &[bool], inside: &BTreeSet<usize>| {
            class(graph, steps[next].node) == Some(own)
                && needs[next].iter().filter_map(|v| maker.get(v)).chain(&added[next]).all(|n| done[*n])
                && by_unit(graph, &steps, &maker, inside, steps[next].node)
        };
        let mut next = first + 1;
        while next < end && (done[next] || joins(next, &done, &inside)) {
            if !std::mem::replace(&mut done[next], true) {
                order.push(next);
                inside.insert(next);
            }
            next += 1;
        }
        // Behind a step that was left only those can join that read a result of the group.
        let behind = |n: &usize, left: usize| left < *n && *n < end;
        let read = inside.iter().flat_map(|n| &readers[*n]).copied();
        let mut open: BTreeSet<usize> = read.filter(|n| behind(n, next)).collect();
        while let Some(next) = open.pop_first() {
            if !done[next] && joins(next, &done, &inside) {
                order.push(next);
                done[next] = true;
                inside.insert(next);
                open.extend(readers[next].iter().copied().filter(|n| behind(n, next)));
            }
        }
        ranges.push((begin..order.len(), own.to_vec()));
    }
    let mut slots: Vec<Option<Step>> = steps.into_iter().map(Some).collect();
    let mut steps: Vec<Step> = order.into_iter().filter_map(|n| slots[n].take()).collect();
    refresh_frees(graph, &mut steps, held);
    let groups = ranges.into_iter().map(|(range, units)| finish(graph, &mut steps, range, units, held)).collect();
    (steps, groups)
}

/// For every step the last ones before it that add to the gradients to which it adds.
fn added_before(graph: &Graph, steps: &[Step]) -> Vec<Vec<usize>> {
    let mut last: BTreeMap<&str, usize> = BTreeMap::new();
    let mut out = vec![];
    for (n, step) in steps.iter().enumerate() {
        let node = graph.node(step.node);
        let fused = node.results.iter().zip(&step.accumulates_into).filter(|(_, param)| param.is_some());
        let adding = fused.flat_map(|(value, _)| graph.users(*value)).chain([step.node]);
        let within = node.body.into_iter().flat_map(|body| graph.walk(body));
        let adding = adding.chain(within).filter(|id| graph.node(*id).op == Op::Accumulate);
        let params: BTreeSet<&str> = adding.filter_map(|id| graph.node(id).find(attribute::PARAM)).collect();
        out.push(params.into_iter().filter_map(|param| last.insert(param, n)).collect());
    }
    out
}

/// True when the node reads from the steps `inside` only what it needs unit by unit, and what they make unit by unit.
fn by_unit(
    graph: &Graph,
    steps: &[Step],
    maker: &BTreeMap<Value, usize>,
    inside: &BTreeSet<usize>,
    id: NodeId,
) -> bool {
    let node = graph.node(id);
    let whole = node.op.def().by_unit.map_or(&[][..], |r| r.whole);
    let made = |v: Value, result: fn(&Roles, usize) -> bool| {
        maker.get(&v).filter(|n| inside.contains(n)).is_some_and(|n| {
            let maker = graph.node(steps[*n].node);
            let place = maker.results.iter().position(|r| *r == v);
            place.zip(maker.op.def().by_unit).is_some_and(|(place, roles)| result(roles, place))
        })
    };
    let any = |_: &Roles, _| true;
    let sum = |roles: &Roles, place| roles.sums.contains(&place);
    node.operands.iter().enumerate().all(|(n, v)| !made(*v, if whole.contains(&n) { any } else { sum }))
}

/// Computes anew after which step each value dies.
fn refresh_frees(graph: &Graph, steps: &mut [Step], held: &BTreeSet<Value>) {
    let mut dying: BTreeSet<Value> = steps.iter_mut().flat_map(|s| std::mem::take(&mut s.frees)).collect();
    dying.retain(|v| !held.contains(v));
    for step in steps.iter_mut().rev() {
        let mut here = reads(graph, step.node);
        here.extend(graph.node(step.node).results.iter().copied());
        step.frees = here.into_iter().filter(|v| dying.remove(v)).collect();
    }
}

/// Finds what stays inside of a group and where it lies in the scratch; the rest dies after the group's last step.
fn finish(graph: &Graph, steps: &mut [Step], range: Range<usize>, units: Vec<Dim>, held: &BTreeSet<Value>) -> Group {
    let mut inner = vec![];
    let mut live: Vec<(Range<usize>, Value)> = vec![];
    let (mut scratch, mut width) = (0, 0);
    let freed: BTreeSet<Value> = steps[range.clone()].iter().flat_map(|step| &step.frees).copied().collect();
    let mut dying = vec![];
    for n in range.clone() {
        let step = &steps[n];
        let node = graph.node(step.node);
        let sums = node.op.def().by_unit.map_or(&[][..], |r| r.sums);
        let channels = node.operands.iter().chain(&node.results).map(|v| self::units(graph.ty(*v)).1);
        width += channels.sum::<usize>();
        for (k, &value) in node.results.iter().enumerate() {
            if sums.contains(&k) || held.contains(&value) || !freed.contains(&value) {
                continue;
            }
            let width = self::units(graph.ty(value)).1.next_multiple_of(ALIGNMENT);
            let offset = gap(&live, width);
            scratch = scratch.max(offset + width);
            live.push((offset..offset + width, value));
            live.sort_unstable_by_key(|(range, _)| range.start);
            inner.push(Inner { value, offset });
        }
        let frees = std::mem::take(&mut steps[n].frees);
        live.retain(|(_, value)| !frees.contains(value));
        dying.extend(frees);
        steps[n].in_place = None;
    }
    let hidden: BTreeSet<Value> = inner.iter().map(|inner: &Inner| inner.value).collect();
    dying.retain(|value| !hidden.contains(value));
    steps[range.end - 1].frees = dying;
    Group { steps: range, units, inner, scratch, width: width + scratch }
}

/// The first gap of at least this width between the ranges, which are sorted.
fn gap(live: &[(Range<usize>, Value)], width: usize) -> usize {
    let mut at = 0;
    for (range, _) in live {
        if range.start >= at + width {
            return at;
        }
        at = at.max(range.end);
    }
    at
}
