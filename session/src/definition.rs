//! The definition of a model, a spec or a graph in the place of one, and facts that its forward graph tells.

use rtc_compiler::ir::graph::Graph;
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::types::{Dim, LENGTH, unprefixed};
use rtc_compiler::ir::{attribute, graph};
use rtc_compiler::spec::Spec;
use rtc_runs::saved::ModelDefinition;

use crate::failure::SessionFailure;

/// The spec of a definition for what only a spec has.
pub fn need_spec<'d>(definition: &'d ModelDefinition, what: &str) -> Result<&'d Spec, SessionFailure> {
    match definition {
        ModelDefinition::Spec(spec) => Ok(spec),
        ModelDefinition::Graph(_, file) => {
            Err(SessionFailure::Usage(format!("{file} is a graph, and a graph has no {what}")))
        }
    }
}

/// Facts of a model that its forward graph tells, whatever it was made of.
#[derive(Clone, Copy, Debug)]
pub struct GraphFacts<'g>(pub &'g Graph);

impl GraphFacts<'_> {
    fn nodes(&self) -> impl Iterator<Item = &graph::Node> {
        self.0.walk(graph::MAIN).into_iter().map(|id| self.0.node(id))
    }

    /// Whether rows are folded into vectors, or searched for a tree.
    pub fn folds(&self) -> bool {
        self.nodes().any(|node| matches!(node.op, Op::Fold | Op::Beam))
    }

    /// Whether START and END stand around every row.
    pub(crate) fn is_framed(&self) -> bool {
        let of_rows = |node: &graph::Node| self.0.ty(node.operands[0]).ragged() == Some(LENGTH);
        self.nodes().any(|node| node.op == Op::Frame && of_rows(node))
    }

    /// The most positions that stand before the tokens of a row, and before START.
    pub(crate) fn prefix(&self) -> usize {
        let before = |axis: &str| {
            let inner = std::iter::successors(unprefixed(axis), |(_, behind)| unprefixed(behind));
            inner.map(|(count, _)| count).sum::<usize>()
        };
        let axes =
            self.nodes().filter(|node| node.op == Op::Prefix).filter_map(|node| self.0.ty(node.results[0]).ragged());
        axes.map(before).max().unwrap_or(0)
    }

    /// The width of the vectors of tokens.
    pub fn width(&self) -> Option<usize> {
        let embed = self.nodes().find(|node| node.op == Op::Embed && self.0.ty(node.operands[0]).is_batched())?;
        self.0.ty(embed.results[0]).dims().last().and_then(Dim::fixed)
    }

    /// The depth of the recurrence at this place, if it is a number.
    pub fn bound(&self, place: &str) -> Option<usize> {
        let found = self.nodes().find(|node| node.op == Op::Recur && node.label == place)?;
        found.find(attribute::BOUND)?.steps()
    }
}

#[cfg(test)]
mod tests {
    use rtc_compiler::ir::{hash, text};
    use rtc_compiler::schema::Catalog;
    use rtc_task::Objective;

    use super::*;
    use crate::spec_file::SpecArg;

    /// The graph of every model of the program reads back as a model, without a task and with one, and is the same.
    #[test]
    fn graphs_of_all_models_stand_in_their_places() {
        // A variant of a model may stand in the file of another.
        let named = SpecArg::built_in_models().into_iter().filter_map(|name| Some((SpecArg::built_in(&name)?, name)));
        let models: Vec<(SpecArg, String)> = named.filter(|(arg, _)| arg.model_name().is_ok()).collect();
        assert!(models.len() > 30, "{}", models.len());
        for (arg, name) in models {
            let free = Catalog::default();
            let spec = arg.check(&[], &free).expect(&name).definition;
            // A head that is tied to the tokens has a class for each.
            let (objective, classes) = match GraphFacts(&spec.forward(&free).expect(&name)).answers_tokens() {
                true => (Objective::Each, 11),
                false => (Objective::Classify, 7),
            };
            let task =
                Catalog { vocabulary: Some(11), classes: Some(classes), objective: Some(objective), ..free.clone() };
            let printed = text::print(&spec.forward(&free).expect(&name));
            let graph = ModelDefinition::graph(&printed, &name).unwrap_or_else(|failure| panic!("{failure}"));
            assert_eq!((graph.name(), graph.text()), (spec.name(), printed));
            for task in [free, task] {
                let hash = |of: &ModelDefinition| {
                    let graph = of.forward(&task).unwrap_or_else(|failure| panic!("{name}: {failure}"));
                    hash::hash(&graph)
                };
                assert_eq!(hash(&spec), hash(&graph), "{name}");
            }
        }
    }

    impl GraphFacts<'_> {
        fn answers_tokens(&self) -> bool {
            self.0.output("logits").is_some_and(|logits| self.0.ty(logits).ragged() == Some(LENGTH))
        }
    }
}
