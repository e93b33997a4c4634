//! The rules by which single ops pass reaches on.

use super::mask::{self, StepCount};
use super::path::Cause;
use super::{Analysis, Reach, Why};
use crate::ir::attribute::{self, At, Side};
use crate::ir::graph::{NodeId, Value};
use crate::ir::ops::Op;
use crate::ir::types::Elem;

impl Analysis<'_> {
    /// Raises all results.
    fn raise_results(&mut self, id: NodeId, reach: Reach, from: Option<Value>, why: &Why) {
        for result in self.graph.node(id).results.clone() {
            self.raise(result, reach, Cause { node: id, from, why: why.clone() });
        }
    }

    /// As `raise_results`, for a way in which later tokens come in; nothing where that is taken for granted.
    pub(super) fn raise_leaking(&mut self, id: NodeId, reach: Reach, from: Option<Value>, why: &Why) {
        if !self.forgiven.contains(&id) {
            self.raise_results(id, reach, from, why);
        }
    }

    /// Passes the reach of the first `count` operands on, unit by unit. An operand with positions that the results do not
    /// have is read as a whole.
    pub(super) fn units(&mut self, id: NodeId, count: usize) {
        let node = self.graph.node(id);
        let taken: Vec<Value> = node.operands.iter().copied().take(count).collect();
        let (reach, from) = self.farthest(&taken);
        self.raise_results(id, reach, from, &Why::Flows);
        let axes: Vec<Option<&str>> = node.results.iter().map(|v| self.graph.ty(*v).ragged()).collect();
        for value in taken {
            let axis = self.graph.ty(value).ragged();
            if let Some(depth) = self.axis_depth(value).filter(|_| axes.iter().any(|a| *a != axis)) {
                self.raise_leaking(id, Reach::whole(depth), Some(value), &Why::Pool(node.op));
            }
        }
    }

    pub(super) fn first(&mut self, id: NodeId) {
        self.units(id, 1);
    }

    /// As `units`; where the channels are the positions themselves, all of them are read.
    pub(super) fn channels(&mut self, id: NodeId) {
        self.units(id, usize::MAX);
        let node = self.graph.node(id);
        for value in &node.operands {
            let alone = self.graph.ty(*value).dims().len() == 2;
            if let Some(depth) = self.axis_depth(*value).filter(|_| alone) {
                self.raise_leaking(id, Reach::whole(depth), Some(*value), &Why::Pool(node.op));
            }
        }
    }

    pub(super) fn pool(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let x = node.operands[0];
        self.raise_results(id, self.reach(x), Some(x), &Why::Flows);
        if let Some(depth) = self.axis_depth(x) {
            self.raise_leaking(id, Reach::whole(depth), Some(x), &Why::Pool(node.op));
        }
    }

    /// What is read from the left is the past; from the right, every position counts.
    pub(super) fn scan(&mut self, id: NodeId) {
        self.units(id, usize::MAX);
        let node = self.graph.node(id);
        let x = node.operands[0];
        let past = node.find(attribute::SIDE) == Some(Side::Left);
        if let Some(depth) = self.axis_depth(x).filter(|_| !past) {
            self.raise_leaking(id, Reach::whole(depth), Some(x), &Why::Pool(node.op));
        }
    }

    /// The first position depends on the first position alone; the last one stands where the row ends.
    pub(super) fn position(&mut self, id: NodeId) {
        match self.graph.node(id).get(attribute::AT) {
            At::First => {
                let x = self.graph.node(id).operands[0];
                self.raise_results(id, self.reach(x), Some(x), &Why::Flows);
            }
            At::Last | At::BeforeLast => self.pool(id),
        }
    }

    /// The token before a position of the framed row decides whether END stands there.
    pub(super) fn frame(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let (reach, from) = self.farthest(&node.operands);
        self.raise_results(id, reach.max(Reach::Own), from, &Why::Flows);
    }

    /// Tokens keep their order, and each knows its own place: the positions before them are part of no row.
    pub(super) fn moved(&mut self, id: NodeId) {
        let (reach, from) = self.farthest(&self.graph.node(id).operands);
        self.raise_results(id, reach, from, &Why::Flows);
    }

    /// What is given with an example belongs to its positions as its tokens do, or says nothing of any token.
    pub(super) fn input(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        match node.get(attribute::NAME) {
            name @ ("labels" | "weights") => {
                self.raise_leaking(id, Reach::whole(0), None, &Why::Input(name.to_owned()));
            }
            _ if node.results.iter().any(|value| self.graph.ty(*value).ragged().is_some()) => {
                self.raise_results(id, Reach::Own, None, &Why::Flows);
            }
            _ => {}
        }
    }

    pub(super) fn halt_test(&mut self, id: NodeId) {
        self.units(id, usize::MAX);
        let cap = self.graph.node(id).find(attribute::CAP);
        if let Some(axis) = cap {
            let depth = self.depth_of(axis, self.graph.node(id).region);
            let from = self.graph.node(id).operands.first().copied();
            self.raise_leaking(id, Reach::whole(depth), from, &Why::Cap);
        }
    }

    /// Parameters have no rows; what is made of them alone is the same for all.
    pub(super) fn rows(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let (reach, from) = self.farthest(&node.operands);
        self.raise_results(id, reach, from, &Why::Flows);
        if node.operands.iter().any(|v| self.graph.ty(*v).is_batched()) {
            self.raise_leaking(id, Reach::Rows, from, &Why::Mixes(node.op));
        }
    }

    /// Results, and what a body gets, depend on everything.
    pub(super) fn everything(&mut self, id: NodeId, why: Why) {
        let node = self.graph.node(id);
        let from = node.operands.first().copied();
        self.raise_results(id, Reach::Rows, from, &why);
        for param in node.body.map_or(&[][..], |body| self.graph.params(body)).to_vec() {
            self.raise(param, Reach::Rows, Cause { node: id, from, why: why.clone() });
        }
    }

    /// A query depends on itself, and on keys and values as far as the mask lets it see.
    pub(super) fn attention(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let [query, key, ..] = node.operands[..] else { return };
        let value = node.operands.get(2).copied().unwrap_or(key);
        let (reach, from) = self.farthest(&[query]);
        self.raise_results(id, reach, from, &Why::Flows);
        let (reach, from) = self.farthest(&node.operands[1..]);
        self.raise_results(id, reach, from, &Why::Flows);
        let axis = |v: Value| self.graph.ty(v).ragged();
        let (queries, keys) = (self.axis_depth(query), self.axis_depth(key));
        match (keys, queries) {
            // Slots have no positions. What tells how many queries there are tells the length.
            (_, Some(depth)) if mask::reads_length(node.find(attribute::SCORE)) => {
                self.raise_leaking(id, Reach::whole(depth), Some(query), &Why::Bias);
            }
            (None, Some(depth)) if mask::reads_length(node.get(attribute::MASK).rule()) => {
                self.raise_leaking(id, Reach::whole(depth), Some(query), &Why::Mask(mask::Sight::Length));
            }
            (None, _) => {}
            (Some(depth), _) if axis(query) == axis(key) || self.is_chosen_of(axis(query), axis(key)) => {
                let sight = self.sight(id);
                let why = if node.op == Op::GeometricAttention { Why::Pool(node.op) } else { Why::Mask(sight) };
                if sight != mask::Sight::Past {
                    self.raise_leaking(id, Reach::whole(depth), from.or(Some(value)), &why);
                }
            }
            (Some(depth), _) => self.raise_leaking(id, Reach::whole(depth), from.or(Some(value)), &Why::Keys),
        }
    }

    /// Whether queries of an attention provably see no key behind their own position, and mask and score do not read the length.
    pub fn sees_past(&self, id: NodeId) -> bool {
        let node = self.graph.node(id);
        self.sight(id) == mask::Sight::Past && !mask::reads_length(node.find(attribute::SCORE))
    }

    /// What the mask of an attention lets a query see.
    fn sight(&self, id: NodeId) -> mask::Sight {
        let node = self.graph.node(id);
        let heads = node.find(attribute::HEADS).unwrap_or(1);
        let is_step = |v: &&Value| self.graph.ty(**v).elem() == Some(Elem::Index);
        let steps = match node.operands.get(3).filter(is_step) {
            None => StepCount::Below(1),
            Some(step) => self.counts_steps(*step).map_or(StepCount::Any, |recur| self.steps(recur)),
        };
        mask::sight(node.get(attribute::MASK), heads, steps)
    }

    /// How many steps a recurrence takes at most.
    fn steps(&self, recur: NodeId) -> StepCount {
        self.graph.node(recur).get(attribute::BOUND).steps().map_or(StepCount::Any, StepCount::Below)
    }

    /// What a body yields, its loop passes on.
    pub(super) fn leave(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        if node.op == Op::Yield
            && let Some(owner) = self.graph.owner(node.region)
        {
            self.open.extend(self.places.get(&owner));
        }
    }
}
