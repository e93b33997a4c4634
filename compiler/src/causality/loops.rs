//! The rules by which loops pass reaches on.

use std::collections::BTreeSet;

use super::path::Cause;
use super::{Analysis, Reach, Why};
use crate::expr::{Expr, Var};
use crate::ir::attribute::{self, Chunking};
use crate::ir::graph::{Node, NodeId, RegionId, Value};
use crate::ir::loops;
use crate::ir::ops::Op;

impl Analysis<'_> {
    /// Raises a value to the reach of another one, which the loop passes on.
    fn pass(&mut self, id: NodeId, from: Value, to: Value) {
        self.raise(to, self.reach(from), Cause { node: id, from: Some(from), why: Why::Flows });
    }

    /// A carried value depends on its start and on what the body yields; its result besides on how often the body runs.
    pub(super) fn recur(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let Some(body) = node.body else { return };
        let (params, yields) = (self.graph.params(body).to_vec(), loops::yielded(self.graph, id).to_vec());
        let bound = self.bound_reach(id);
        for (n, &start) in node.operands.iter().enumerate() {
            let (Some(&param), Some(&result)) = (params.get(n), node.results.get(n)) else { break };
            self.pass(id, start, param);
            self.pass(id, start, result);
            let Some(&next) = yields.get(n).filter(|next| **next != param) else { continue };
            self.pass(id, next, param);
            self.pass(id, next, result);
            if let Some(reach) = bound.filter(|_| !self.forgiven.contains(&id)) {
                self.raise(result, reach, Cause { node: id, from: Some(start), why: Why::Bound });
            }
            if let Some(&go) = yields.get(node.operands.len()).filter(|go| !self.outlives(body, **go, n)) {
                let why = if self.reach(go).leaks() { Why::Go } else { Why::Flows };
                self.raise(result, self.reach(go), Cause { node: id, from: Some(go), why });
            }
        }
    }

    /// How many steps a bound gives is what the bound tells.
    pub(super) fn depth(&mut self, id: NodeId) {
        if let Some(reach) = self.bound_reach(id) {
            let from = self.graph.node(id).operands.first().copied();
            self.raise_leaking(id, reach, from, &Why::Bound);
        }
    }

    /// What a bound tells: a number nothing, an expression the length of the row.
    fn bound_reach(&self, id: NodeId) -> Option<Reach> {
        let node = self.graph.node(id);
        let bound = node.get(attribute::BOUND).rule()?;
        let fixed = Expr::try_from(bound).is_ok_and(|e| !e.uses(Var::Length) && !e.holds_given());
        let depth = node.operands.iter().find_map(|v| self.axis_depth(*v)).unwrap_or(0);
        (!fixed).then(|| Reach::whole(depth))
    }

    /// Whether result `n` of a recurrence that halts is what it would be if all steps up to the bound were taken.
    pub fn stays(&self, recur: NodeId, n: usize) -> bool {
        let (body, go) = (self.graph.node(recur).body, loops::yielded(self.graph, recur).last());
        body.zip(go).is_some_and(|(body, go)| self.outlives(body, *go, n))
    }

    /// Whether carried value `n` is what it would be if the loop ran on after `go` has become false: each position keeps it
    /// from the step on in which its own flag falls, flags stay down, and `go` is that any of them is up.
    ///
    /// Flags stay down where a carried condition `live` lies between them: the flag of a step holds only where `live` does, and
    /// `live` of the next step only where the flag did. So neither rises again. With `go` alone the flag itself is carried;
    /// with `until`, what is carried is the flag of those whose last step this was not.
    fn outlives(&self, body: RegionId, go: Value, n: usize) -> bool {
        let (params, yields) = (self.graph.params(body), self.yielded(body));
        let Some(flag) = self.made(go, Op::Any).map(|any| any.operands[0]) else { return false };
        let stays_down =
            yields.iter().zip(params).any(|(next, live)| self.implies(*next, flag) && self.implies(flag, *live));
        let kept = yields.get(n).and_then(|next| self.made(*next, Op::Select));
        stays_down && kept.is_some_and(|select| select.operands[0] == flag && params.get(n) == select.operands.get(2))
    }

    /// Whether a condition holds only where another one does: it is that one, or `and` joins others with it.
    fn implies(&self, condition: Value, other: Value) -> bool {
        let (mut open, mut seen) = (vec![condition], BTreeSet::new());
        while let Some(value) = open.pop() {
            if value == other {
                return true;
            }
            let joined = self.made(value, Op::And).filter(|_| seen.insert(value));
            open.extend(joined.into_iter().flat_map(|and| &and.operands));
        }
        false
    }

    /// The node that makes a value, if it is one of this op.
    fn made(&self, value: Value, op: Op) -> Option<&Node> {
        self.graph.producer(value).map(|id| self.graph.node(id)).filter(|node| node.op == op)
    }

    fn yielded(&self, body: RegionId) -> &[Value] {
        self.graph.terminator(body).map_or(&[], |end| &self.graph.node(end).operands)
    }

    /// What a chunk carries to the next one lies before it there; what it gives for its positions stays with them.
    pub(super) fn chunks(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let Some(body) = node.body else { return };
        let inside = self.depths[body.index()];
        let carried = loops::layout(self.graph, id).carried;
        let (params, yields) = (self.graph.params(body).to_vec(), loops::yielded(self.graph, id).to_vec());
        self.cut(id, body);
        let pass = |from| Cause { node: id, from: Some(from), why: Why::Flows };
        for (&param, &start) in params.iter().zip(&node.operands) {
            self.pass(id, start, param);
        }
        if let Some(&choice) = node.operands.first().filter(|_| node.get(attribute::CUT) == Chunking::Chosen) {
            // Which positions are there says something of the choice, whatever is computed for them.
            params.iter().chain(&node.results).for_each(|value| self.pass(id, choice, *value));
            node.results.iter().zip(&yields).for_each(|(result, next)| self.pass(id, *next, *result));
            return;
        }
        for (n, &next) in yields.iter().enumerate() {
            let Some(&result) = node.results.get(n) else { break };
            let reach = self.reach(next);
            if n >= carried {
                self.raise(result, given(reach, inside), pass(next));
                continue;
            }
            let (start, param) = (node.operands[n], params[n]);
            self.pass(id, start, result);
            if next != param {
                self.raise(param, if within(reach, inside) { Reach::Earlier } else { reach }, pass(next));
                let reach = if within(reach, inside) { Reach::whole(inside - 1) } else { reach };
                self.raise(result, reach, Cause { node: id, from: Some(next), why: Why::Last });
            }
        }
    }

    /// The vector of a fold is known after the last node, and how nodes are brought together hangs on their number: nothing
    /// inside knows less than all positions.
    pub(super) fn fold(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let (Some(body), Some(&nodes)) = (node.body, node.operands.first()) else { return };
        let params = self.graph.params(body).to_vec();
        let inside = params.iter().copied().chain(node.results.iter().copied());
        let whole = self.axis_depth(nodes).map(Reach::whole).filter(|_| !self.forgiven.contains(&id));
        for value in inside.collect::<Vec<_>>() {
            self.pass(id, nodes, value);
            if let Some(reach) = whole {
                self.raise(value, reach, Cause { node: id, from: Some(nodes), why: Why::Pool(node.op) });
            }
        }
        for next in loops::yielded(self.graph, id).to_vec() {
            params.iter().chain(&node.results).for_each(|value| self.pass(id, next, *value));
        }
    }

    /// Rows of their own that do not look at one another.
    pub(super) fn part(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let (Some(body), Some(&x)) = (node.body, node.operands.first()) else { return };
        for param in self.graph.params(body).to_vec() {
            self.pass(id, x, param);
        }
        for (result, next) in node.results.iter().zip(loops::yielded(self.graph, id).to_vec()) {
            self.pass(id, next, *result);
        }
    }

    /// Where the length decides how chunks are cut, every value inside depends on it, if only through its position there.
    fn cut(&mut self, id: NodeId, body: RegionId) {
        let node = self.graph.node(id);
        let reach = match node.get(attribute::CUT) {
            Chunking::Chosen => return,
            Chunking::Position if !node.has(attribute::COUNT) => return,
            Chunking::Position => Reach::whole(self.depths[body.index()] - 1),
            Chunking::Balanced => Reach::Rows,
        };
        let done = self.graph.params(body).first().is_none_or(|param| self.reach(*param) >= reach);
        if done || self.forgiven.contains(&id) {
            return;
        }
        let from = node.operands.last().copied();
        let results = self.graph.walk(body).into_iter().flat_map(|id| self.graph.node(id).results.clone());
        let bodies = self.graph.walk(body).into_iter().filter_map(|id| self.graph.node(id).body);
        let params = bodies.chain([body]).flat_map(|body| self.graph.params(body).to_vec());
        for value in params.chain(results).collect::<Vec<_>>() {
            self.raise(value, reach, Cause { node: id, from, why: Why::Cut });
        }
    }
}

/// Whether a reach ends inside the chunk.
fn within(reach: Reach, inside: usize) -> bool {
    reach <= Reach::whole(inside)
}

/// The reach of a position outside, of which the chunk gives the value.
fn given(reach: Reach, inside: usize) -> Reach {
    match reach {
        Reach::Earlier => Reach::Own,
        Reach::Whole(_) if within(reach, inside) => Reach::whole(inside - 1),
        other => other,
    }
}
