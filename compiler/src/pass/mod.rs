//! Passes over the graph: each changes speed or size, never meaning.
//!
//! A pass is a row of [`PASSES`]: a name, one line of documentation and a function without state. The driver runs the
//! table in rounds until a round changes nothing, and verifies the graph after each pass in debug builds. Those of
//! [`LAST`] run once after the rounds.

pub mod branches;
pub mod carry;
pub mod cse;
pub mod dce;
pub mod fold;
pub mod fuse;
pub mod grad;
pub mod hoist;
pub mod inference;
pub mod inline;
pub mod recompute;
pub mod stops;

use std::fmt;

use crate::ir::graph::{Graph, MAIN};
use crate::ir::verify;

/// A pass.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// Its name on the command line and in the folder of its cases.
    pub name: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// Runs it once over the whole graph; true when the graph changed.
    pub run: fn(&mut Graph) -> bool,
}

/// The passes of a round, in order.
pub const PASSES: &[Pass] = &[
    Pass { name: "inline", doc: "put the body of a recurrence of one step in its place", run: inline::run },
    Pass { name: "fold", doc: "replace nodes that constants or neighbours make trivial", run: fold::run },
    Pass { name: "hoist", doc: "move what no step of a loop changes in front of the loop", run: hoist::run },
    Pass { name: "cse", doc: "let the first of equal nodes serve all", run: cse::run },
    Pass { name: "carry", doc: "let a step hand on what the next one computes of its state again", run: carry::run },
    Pass { name: "fuse", doc: "join neighbours that one kernel computes in one pass over memory", run: fuse::run },
    Pass { name: "dce", doc: "remove what no result and no effect depends on", run: dce::run },
];

/// The passes that run once after the rounds, on the graph of a training step.
pub const LAST: &[Pass] = &[Pass {
    name: "recompute",
    doc: "compute again in the backward run what costs more to keep than to compute",
    run: recompute::run,
}];

/// Rounds after which the driver stops. Real graphs settle in three or four.
const ROUNDS: usize = 16;

/// The report of `optimise`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassReport {
    /// One entry per pass and round, in order.
    pub steps: Vec<PassStep>,
    /// True when the last round changed nothing, false when the bound on rounds stopped it.
    pub settled: bool,
}

/// One pass in one round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassStep {
    /// The round, from 1.
    pub round: usize,
    pub pass: &'static str,
    /// Whether it changed the graph.
    pub changed: bool,
    /// Number of nodes before and after.
    pub nodes: (usize, usize),
}

impl fmt::Display for PassReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in self.steps.iter().filter(|s| s.changed) {
            writeln!(f, "round {} {}: {} -> {} nodes", step.round, step.pass, step.nodes.0, step.nodes.1)?;
        }
        let rounds = self.steps.last().map_or(0, |s| s.round);
        writeln!(f, "{} after {rounds} rounds", if self.settled { "settled" } else { "stopped" })
    }
}

/// Runs the table in rounds until a round changes nothing: before differentiation, so that what is simplified, fused and moved
/// out of loops need not be differentiated as it was, and after it.
pub fn optimise(graph: &mut Graph) -> PassReport {
    let mut steps = vec![];
    for round in 1..=ROUNDS {
        let first = steps.len();
        for pass in PASSES {
            steps.push(step(graph, round, pass));
        }
        if steps[first..].iter().all(|s| !s.changed) {
            return PassReport { steps, settled: true };
        }
    }
    PassReport { steps, settled: false }
}

/// Runs the passes that come after the rounds.
pub fn finish(graph: &mut Graph) -> PassReport {
    let steps = LAST.iter().map(|pass| step(graph, 1, pass)).collect();
    PassReport { steps, settled: true }
}

/// Runs the pass of this name once; `None` when there is none, else whether it changed the graph.
pub fn run(name: &str, graph: &mut Graph) -> Option<bool> {
    let pass = PASSES.iter().chain(LAST).find(|p| p.name == name)?;
    Some(step(graph, 1, pass).changed)
}

fn step(graph: &mut Graph, round: usize, pass: &Pass) -> PassStep {
    let before = graph.walk(MAIN).len();
    let changed = (pass.run)(graph);
    // Debug builds only: no input leads here, a pass that breaks a valid graph is a fault of the pass.
    if cfg!(debug_assertions)
        && let Err(violations) = verify::verify(graph)
    {
        let list: Vec<String> = violations.iter().map(ToString::to_string).collect();
        panic!("pass `{}` broke the graph:\n{}", pass.name, list.join("\n"));
    }
    PassStep { round, pass: pass.name, changed, nodes: (before, graph.walk(MAIN).len()) }
}
