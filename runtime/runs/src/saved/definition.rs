//! What defines a model: a spec, or a graph in the place of one.

use rtc_compiler::ir::document;
use rtc_compiler::ir::graph::{Graph, InvalidNode};
use rtc_compiler::lower::Binding;
use rtc_compiler::pipeline::{self, given::GivenGraph};
use rtc_compiler::schema::Catalog;
use rtc_compiler::spec::{self, Spec};

use crate::record::ModelForm;

/// The definition that the user named: a spec, or a graph.
#[derive(Clone, Debug)]
pub enum ModelDefinition {
    /// A spec without errors.
    Spec(Spec),
    /// A valid graph, and the name of its file for reports.
    Graph(GivenGraph, String),
}

/// Why a definition gives no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoModel(pub String);

impl From<InvalidNode> for NoModel {
    fn from(invalid: InvalidNode) -> Self {
        Self(format!("a rule of the compiler is wrong, which is a fault of rtc and not of the spec: {invalid}"))
    }
}

impl ModelDefinition {
    /// The graph that a text describes.
    ///
    /// # Errors
    /// It describes none, or one that is no model.
    pub fn graph(text: &str, file: &str) -> Result<Self, NoModel> {
        let graph = GivenGraph::read(text).map_err(|problems| refused(file, &problems))?;
        Ok(Self::Graph(graph, file.to_owned()))
    }

    /// The name of the model.
    pub fn name(&self) -> &str {
        match self {
            Self::Spec(spec) => &spec.name,
            Self::Graph(graph, _) => graph.name(),
        }
    }

    /// The spec, where it is one.
    pub fn spec(&self) -> Option<&Spec> {
        if let Self::Spec(spec) = self { Some(spec) } else { None }
    }

    /// Its normal form, as a run keeps it.
    pub fn text(&self) -> String {
        match self {
            Self::Spec(spec) => spec::text(spec),
            Self::Graph(graph, _) => graph.text(),
        }
    }

    /// What that text is.
    pub fn written(&self) -> ModelForm {
        if let Self::Spec(_) = self { ModelForm::Spec } else { ModelForm::Graph }
    }

    /// Hash of the normal form, in which names of models do not count.
    pub fn hash(&self) -> String {
        match self {
            Self::Spec(spec) => spec::hash(spec),
            Self::Graph(graph, _) => graph.hash().to_owned(),
        }
    }

    /// The forward graph for a task. A graph that does not fit the task is refused; a spec was checked for it.
    ///
    /// # Errors
    /// The problems of the graph.
    pub fn forward(&self, task: &Catalog) -> Result<Graph, NoModel> {
        match self {
            Self::Spec(spec) => Ok(pipeline::forward(spec, &Binding::from(task))?),
            Self::Graph(graph, file) => graph.forward(task).map_err(|problems| refused(file, &problems)),
        }
    }
}

/// The problems of a graph with their places, a line each.
fn refused(file: &str, problems: &[document::Problem]) -> NoModel {
    let place = |problem: &document::Problem| if problem.at.is_some() { ":" } else { ": " };
    let line = |problem: &document::Problem| format!("{file}{}{problem}", place(problem));
    NoModel(problems.iter().map(line).collect::<Vec<_>>().join("\n"))
}
