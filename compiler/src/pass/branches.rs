//! Nodes that only a branch of a choice reads. Where the branch is not taken, their numbers may be infinite or NaN; their cotangent is 0, and
//! so must be every gradient that comes of it.
//!
//! Maps see to that themselves: see [`pointwise`]. All other ops multiply the cotangent with their operands or results, so the backward run
//! hands them those numbers with 0 in the place of what is not finite. A number that is not finite where the branch is taken reaches the
//! loss, and ends the run there.

use std::collections::BTreeSet;

use crate::ir::graph::{Graph, MAIN, Node, NodeId, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::{self, Pointwise, Scalar};

/// What stands in branches, and which values need not be finite.
pub(super) struct Branches {
    inside: BTreeSet<NodeId>,
    unbounded: BTreeSet<Value>,
}

impl Branches {
    /// The branches of a forward graph.
    pub(super) fn of(graph: &Graph) -> Self {
        let nodes = graph.walk(MAIN);
        let (mut inside, mut unbounded) = (BTreeSet::new(), BTreeSet::new());
        // Readers stand behind what they read.
        for &id in nodes.iter().rev().filter(|id| graph.node(**id).body.is_none()) {
            let users: Vec<NodeId> = graph.node(id).results.iter().flat_map(|value| graph.users(*value)).collect();
            if !users.is_empty() && users.iter().all(|user| inside.contains(user) || chooses(graph.node(*user))) {
                inside.insert(id);
            }
        }
        for &id in &nodes {
            let node = graph.node(id);
            if node.operands.iter().any(|value| unbounded.contains(value)) || overflows(node) {
                unbounded.extend(node.results.iter().filter(|value| graph.ty(**value).is_real()));
            }
        }
        Self { inside, unbounded }
    }

    /// Whether the gradient rule of a node must not see a value as it is.
    pub(super) fn hide(&self, id: NodeId, node: &Node, value: Value) -> bool {
        node.op != Op::Map && self.inside.contains(&id) && self.unbounded.contains(&value)
    }
}

/// Whether a map has one of these functions.
fn has(node: &Node, functions: &[Pointwise]) -> bool {
    fn within(expr: &Scalar, functions: &[Pointwise]) -> bool {
        match expr {
            Scalar::Call(func, args) => functions.contains(func) || args.iter().any(|arg| within(arg, functions)),
            Scalar::Operand(_) | Scalar::Number(_) => false,
        }
    }
    let exprs = if node.op == Op::Map { pointwise::results(&node.attrs).unwrap_or_default() } else { vec![] };
    exprs.iter().any(|expr| within(expr, functions))
}

/// Whether a result of a node does not depend on every number that it reads.
fn chooses(node: &Node) -> bool {
    use Pointwise::{Choose, IfPositive, Maximum, Minimum, Relu};
    matches!(node.op, Op::Select | Op::MaskUnit) || has(node, &[Choose, IfPositive, Maximum, Minimum, Relu])
}

/// Whether a node makes numbers that are not finite of finite ones.
fn overflows(node: &Node) -> bool {
    has(node, &[Pointwise::Exp, Pointwise::Div, Pointwise::Log, Pointwise::Sqrt, Pointwise::Rsqrt])
}
