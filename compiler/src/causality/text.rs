//! The analysis as text: the reach of every node, then the proof or the paths of the leaks.

use std::cmp::Reverse;

use super::path::PathStep;
use super::{Analysis, Leak, Reach, analyse, leaks};
use crate::ir::document::names;
use crate::ir::graph::{Graph, MAIN, NodeId, RegionId};

/// Width of the column of what a node depends on.
const COLUMN: usize = 13;

/// One line per node: what it depends on, its results and its op, and its place in the spec; then the verdict on the
/// result of this name.
pub fn text(graph: &Graph, result: &str) -> String {
    let printer = ReachPrinter { graph, analysis: analyse(graph), names: names(graph) };
    let mut out = String::new();
    printer.region(MAIN, 0, &mut out);
    let leaks = leaks(graph, result);
    if leaks.is_empty() {
        return out + &format!("\n`{result}`: every position depends on the tokens up to it: proved\n");
    }
    out += &format!("\n`{result}`: positions may depend on later tokens\n");
    for leak in &leaks {
        printer.leak(leak, &mut out);
    }
    out
}

impl Reach {
    /// In a word or two, for a table.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Earlier => "earlier",
            Self::Own => "up to itself",
            Self::Whole(Reverse(0)) => "whole row",
            Self::Whole(_) => "whole chunk",
            Self::Rows => "other rows",
        }
    }
}

struct ReachPrinter<'g> {
    graph: &'g Graph,
    analysis: Analysis<'g>,
    names: Vec<String>,
}

impl ReachPrinter<'_> {
    fn region(&self, region: RegionId, indent: usize, out: &mut String) {
        for &id in self.graph.nodes(region) {
            let node = self.graph.node(id);
            let reach = node.results.iter().map(|v| self.analysis.reach(*v)).max();
            if let Some(reach) = reach {
                self.line(reach, indent, &self.head(id), &node.label, out);
            }
            let Some(body) = node.body else { continue };
            for &param in self.graph.params(body) {
                let name = format!("%{}", self.names[param.index()]);
                self.line(self.analysis.reach(param), indent + 1, &name, "", out);
            }
            self.region(body, indent + 1, out);
        }
    }

    fn line(&self, reach: Reach, indent: usize, head: &str, label: &str, out: &mut String) {
        let label = if label.is_empty() { String::new() } else { format!("  @ {label}") };
        *out += &format!("{:<COLUMN$}{}{head}{label}\n", reach.describe(), "  ".repeat(indent));
    }

    /// Results and op.
    fn head(&self, id: NodeId) -> String {
        let node = self.graph.node(id);
        let results: Vec<String> = node.results.iter().map(|v| format!("%{}", self.names[v.index()])).collect();
        format!("{} = {}", results.join(", "), node.hint())
    }

    fn leak(&self, leak: &Leak, out: &mut String) {
        let node = self.graph.node(leak.node);
        let place = if node.label.is_empty() { String::new() } else { format!(" of `{}`", node.label) };
        *out += &format!("\nleak: `{}`{place} {}\n", node.hint(), leak.why.describe());
        for PathStep { value, node, why, reach } in &leak.path {
            let note = if *node == leak.node && *why == leak.why { "   <- here" } else { "" };
            let head = format!("%{} by {}", self.names[value.index()], self.graph.node(*node).hint());
            self.line(*reach, 1, &format!("{head}{note}"), &self.graph.node(*node).label, out);
        }
    }
}
