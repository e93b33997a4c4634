//! Frames: pairs of a forward region and its backward region.

use std::collections::{BTreeMap, BTreeSet};

use crate::ir::graph::{Graph, MAIN, NodeId, RegionId, Value};
use crate::ir::loops;
use crate::ir::ops::{Flag, Op};
use crate::ir::types::Type;

/// A forward region with the region that runs it backwards.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// The body of a forward loop, or the outermost region.
    pub(super) forward: RegionId,
    /// The body of its `unwind`; the outermost region is its own.
    pub(super) backward: RegionId,
}

/// All frames of a graph.
#[derive(Clone, Debug)]
pub(super) struct Frames {
    /// Loops inside others come before those around them, and the outermost region is the last.
    pub(super) inner_first: Vec<Frame>,
    /// Nodes of the outermost region that belong to the backward run: the first reader of the loss and what follows.
    backward: BTreeSet<NodeId>,
}

impl Frames {
    pub(super) fn of(graph: &Graph) -> Self {
        let mut frames = vec![Frame { forward: MAIN, backward: MAIN }];
        let loops: Vec<(NodeId, Frame)> =
            graph.walk(MAIN).into_iter().filter_map(|n| Some((n, pair(graph, n)?))).collect();
        for &(unwind, frame) in &loops {
            let alone = loops.iter().filter(|(_, f)| f.forward == frame.forward).count() == 1;
            let around = (graph.parent(frame.forward), Some(graph.node(unwind).region));
            let nested = frames.iter().any(|f| (Some(f.forward), Some(f.backward)) == around);
            if alone && nested {
                frames.push(frame);
            }
        }
        frames.reverse();
        Self { inner_first: frames, backward: turn(graph) }
    }

    /// The frame whose forward region this is.
    pub(super) fn of_forward(&self, region: RegionId) -> Option<Frame> {
        self.inner_first.iter().copied().find(|f| f.forward == region)
    }

    /// The values of every frame that its backward part reads, tapes and leaves excepted.
    pub(super) fn read(&self, graph: &Graph) -> BTreeSet<Value> {
        let mut out = BTreeSet::new();
        for frame in &self.inner_first {
            if frame.forward == MAIN {
                out.extend(self.crossing(graph));
            } else {
                let sources = saved(graph, *frame).into_iter().filter(|(param, _)| !graph.is_unused(*param));
                out.extend(sources.map(|(_, source)| source).filter(|v| graph.scope(*v) == frame.forward));
            }
        }
        out.retain(|v| *graph.ty(*v) != Type::Tape);
        out
    }

    /// True for a node of the outermost region that runs after the loss, with all inside it.
    pub(super) fn is_backward(&self, node: NodeId) -> bool {
        self.backward.contains(&node)
    }

    fn crossing(&self, graph: &Graph) -> BTreeSet<Value> {
        let read = |node: NodeId| reads(graph, node).into_iter().filter(|v| graph.scope(*v) == MAIN);
        let forward = |v: &Value| graph.producer(*v).is_some_and(|p| !self.is_backward(p) && !is_leaf(graph, p));
        self.backward.iter().flat_map(|n| read(*n)).filter(forward).collect()
    }
}

fn is_leaf(graph: &Graph, node: NodeId) -> bool {
    graph.node(node).op.has(Flag::Leaf)
}

/// The frame of an `unwind`.
fn pair(graph: &Graph, unwind: NodeId) -> Option<Frame> {
    let node = graph.node(unwind);
    if node.op != Op::Unwind {
        return None;
    }
    let forward = graph.node(loops::forward(graph, *node.operands.first()?)?).body?;
    loops::save(graph, forward)?;
    Some(Frame { forward, backward: node.body? })
}

/// The first node of the outermost region that reads the loss, and all after it. The end of the graph is none of them: it
/// is the same whether or not there is a backward run.
fn turn(graph: &Graph) -> BTreeSet<NodeId> {
    let Some(loss) = graph.output("loss") else { return BTreeSet::new() };
    let end = graph.terminator(MAIN);
    let nodes = graph.nodes(MAIN).iter().copied().filter(|n| Some(*n) != end);
    nodes.skip_while(|n| !graph.node(*n).operands.contains(&loss)).collect()
}

/// Everything that a node or its body reads from outside.
pub(super) fn reads(graph: &Graph, node: NodeId) -> BTreeSet<Value> {
    let mut out: BTreeSet<Value> = graph.node(node).operands.iter().copied().collect();
    if let Some(body) = graph.node(node).body {
        out.extend(graph.walk(body).iter().flat_map(|n| graph.node(*n).operands.clone()));
    }
    out
}

/// The parameters of a backward body that come from the tape, with what the forward body saved for them.
pub(super) fn saved(graph: &Graph, frame: Frame) -> BTreeMap<Value, Value> {
    let params = graph.params(frame.backward).iter().enumerate();
    params.filter_map(|(n, param)| Some((*param, loops::saved_source(graph, frame.backward, n)?))).collect()
}
