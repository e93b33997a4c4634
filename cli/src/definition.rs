//! What defines a model: a spec, or a graph in the place of one.

use rtc_compiler::ir::graph::Graph;
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::types::{Dim, LENGTH, unprefixed};
use rtc_compiler::ir::{attribute, document, graph};
use rtc_compiler::lower::Binding;
use rtc_compiler::pipeline::{self, given::GivenGraph};
use rtc_compiler::schema::Catalog;
use rtc_compiler::spec::{self, Spec};
use rtc_runtime::record::Written;

use crate::failure::Failure;

/// What the user named: a spec, or a graph.
#[derive(Clone, Debug)]
pub(crate) enum Definition {
    /// A spec without errors.
    Spec(Spec),
    /// A valid graph, and the name of its file for reports.
    Graph(GivenGraph, String),
}

impl Definition {
    /// The graph that a text describes.
    pub(crate) fn graph(text: &str, file: &str) -> Result<Self, Failure> {
        let graph = GivenGraph::read(text).map_err(|problems| refused(file, &problems))?;
        Ok(Self::Graph(graph, file.to_owned()))
    }

    /// The name of the model.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Spec(spec) => &spec.name,
            Self::Graph(graph, _) => graph.name(),
        }
    }

    /// The spec, where it is one.
    pub(crate) fn spec(&self) -> Option<&Spec> {
        if let Self::Spec(spec) = self { Some(spec) } else { None }
    }

    /// The spec for what only a spec has.
    pub(crate) fn need_spec(&self, what: &str) -> Result<&Spec, Failure> {
        match self {
            Self::Spec(spec) => Ok(spec),
            Self::Graph(_, file) => Err(Failure::Usage(format!("{file} is a graph, and a graph has no {what}"))),
        }
    }

    /// Its normal form, as a run keeps it.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Spec(spec) => spec::text(spec),
            Self::Graph(graph, _) => graph.text(),
        }
    }

    /// What that text is.
    pub(crate) fn written(&self) -> Written {
        if let Self::Spec(_) = self { Written::Spec } else { Written::Graph }
    }

    /// Hash of the normal form, in which names of models do not count.
    pub(crate) fn hash(&self) -> String {
        match self {
            Self::Spec(spec) => spec::hash(spec),
            Self::Graph(graph, _) => graph.hash().to_owned(),
        }
    }

    /// The forward graph for a task. A graph that does not fit the task is refused; a spec was checked for it.
    pub(crate) fn forward(&self, task: &Catalog) -> Result<Graph, Failure> {
        match self {
            Self::Spec(spec) => Ok(pipeline::forward(spec, &Binding::from(task))?),
            Self::Graph(graph, file) => graph.forward(task).map_err(|problems| refused(file, &problems)),
        }
    }
}

/// The problems of a graph with their places, a line each.
fn refused(file: &str, problems: &[document::Problem]) -> Failure {
    let place = |problem: &document::Problem| if problem.at.is_some() { ":" } else { ": " };
    let line = |problem: &document::Problem| format!("{file}{}{problem}", place(problem));
    Failure::NoSpec(problems.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// Facts of a model that its forward graph tells, whatever it was made of.
pub(crate) struct Facts<'g>(pub(crate) &'g Graph);

impl Facts<'_> {
    fn nodes(&self) -> impl Iterator<Item = &graph::Node> {
        self.0.walk(graph::MAIN).into_iter().map(|id| self.0.node(id))
    }

    /// Whether rows are folded into vectors, or searched for a tree.
    pub(crate) fn folds(&self) -> bool {
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
    pub(crate) fn width(&self) -> Option<usize> {
        let embed = self.nodes().find(|node| node.op == Op::Embed)?;
        self.0.ty(embed.results[0]).dims().last().and_then(Dim::fixed)
    }

    /// The depth of the recurrence at this place, if it is a number.
    pub(crate) fn bound(&self, place: &str) -> Option<usize> {
        let found = self.nodes().find(|node| node.op == Op::Recur && node.label == place)?;
        found.find(attribute::BOUND)?.steps()
    }
}

#[cfg(test)]
mod tests {
    use rtc_compiler::ir::{hash, text};
    use rtc_runtime::task::Objective;

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
            let spec = arg.check_silently(&[], &free).expect(&name).definition;
            // A head that is tied to the tokens has a class for each.
            let (objective, classes) = match Facts(&spec.forward(&free).expect(&name)).answers_tokens() {
                true => (Objective::Each, 11),
                false => (Objective::Classify, 7),
            };
            let task =
                Catalog { vocabulary: Some(11), classes: Some(classes), objective: Some(objective), ..free.clone() };
            let printed = text::print(&spec.forward(&free).expect(&name));
            let graph = Definition::graph(&printed, &name).unwrap_or_else(|failure| panic!("{failure}"));
            assert_eq!((graph.name(), graph.text()), (spec.name(), printed));
            for task in [free, task] {
                let hash = |of: &Definition| {
                    let graph = of.forward(&task).unwrap_or_else(|failure| panic!("{name}: {failure}"));
                    hash::hash(&graph)
                };
                assert_eq!(hash(&spec), hash(&graph), "{name}");
            }
        }
    }

    impl Facts<'_> {
        fn answers_tokens(&self) -> bool {
            self.0.output("logits").is_some_and(|logits| self.0.ty(logits).ragged() == Some(LENGTH))
        }
    }
}
