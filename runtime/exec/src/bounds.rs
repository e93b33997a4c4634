//! Between how many steps the halting recurrences of a model can stop.

use rtc_compiler::ir::attribute;
use rtc_compiler::ir::graph::{Graph, MAIN, Node, RegionId};
use rtc_compiler::ir::ops::Op;

/// The least and the most steps after which the halting recurrences of a model can stop, added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepBounds {
    /// One for each recurrence: a model that takes fewer gives its input.
    pub least: usize,
    /// Nothing where the bound follows from the length.
    pub most: Option<usize>,
}

impl StepBounds {
    /// The bounds of a model; nothing for one that does not halt, or whose halting recurrences run inside other recurrences, so that
    /// their steps add up or are weighed.
    pub fn of(graph: &Graph) -> Option<Self> {
        let mut found = vec![];
        collect(graph, MAIN, false, &mut found);
        let simple = !found.is_empty() && found.iter().all(|(nested, _)| !nested);
        let most = || found.iter().map(|(_, bound)| *bound).sum::<Option<usize>>();
        simple.then(|| Self { least: found.len(), most: most() })
    }
}

/// Every halting recurrence below a region: whether nothing simple can be said of its steps, and its bound where that is a number. It
/// runs inside something other than chunks, or it is left by a condition, which has no cost and may refuse the first step.
fn collect(graph: &Graph, region: RegionId, nested: bool, found: &mut Vec<(bool, Option<usize>)>) {
    for node in graph.nodes(region).iter().map(|id| graph.node(*id)) {
        if node.op == Op::Recur && counts(graph, node, "steps_taken") {
            found.push((true, None));
        } else if node.op == Op::Recur && counts(graph, node, "steps") {
            found.push((nested, node.get(attribute::BOUND).steps()));
        }
        if let Some(body) = node.body {
            collect(graph, body, nested || node.op != Op::Chunks, found);
        }
    }
}

/// Whether a recurrence counts the steps that it accepts, by this name.
fn counts(graph: &Graph, node: &Node, name: &str) -> bool {
    node.results.iter().any(|value| graph.hint(*value) == name)
}
