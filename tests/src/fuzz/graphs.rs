//! Graphs in all their forms.

use rtc_compiler::causality;
use rtc_compiler::ir::document::{GraphDocument, Problem};
use rtc_compiler::ir::graph::Graph;
use rtc_compiler::ir::{export, hash, text, verify};
use rtc_compiler::lower::Binding;
use rtc_compiler::pipeline;
use rtc_compiler::pipeline::given::GivenGraph;
use rtc_compiler::schema::Catalog;

use super::language::OBJECTIVES;

/// The text of a graph, as a graph and as a model.
pub(super) fn text(bytes: &[u8]) {
    let Ok(source) = str::from_utf8(bytes) else { return };
    form(source, text::parse);
    match GivenGraph::read(source) {
        Ok(model) => self::model(&model),
        Err(problems) => refused(&problems),
    }
}

/// A graph in YAML.
pub(super) fn yaml(bytes: &[u8]) {
    if let Ok(source) = str::from_utf8(bytes) {
        form(source, export::from_yaml);
    }
}

/// A graph in JSON.
pub(super) fn json(bytes: &[u8]) {
    if let Ok(source) = str::from_utf8(bytes) {
        form(source, export::from_json);
    }
}

/// What is read is either refused, or has every form and reads back from each.
fn form(source: &str, read: fn(&str) -> Result<Graph, Vec<Problem>>) {
    let graph = match read(source) {
        Ok(graph) => graph,
        Err(problems) => return refused(&problems),
    };
    let printed = text::print(&graph);
    for (form, again) in [
        ("text", text::parse(&printed)),
        ("YAML", export::from_yaml(&export::yaml(&graph))),
        ("JSON", export::from_json(&export::json(&graph))),
    ] {
        let again =
            again.unwrap_or_else(|problems| panic!("the {form} of a graph is refused: {problems:?}\n{printed}"));
        assert_eq!(text::print(&again), printed, "the {form} of a graph is another one");
        assert!(
            GraphDocument::from(&again) == GraphDocument::from(&graph),
            "the {form} of a graph is another one:\n{printed}"
        );
    }
    if verify::verify(&graph).is_ok() {
        hash::hash(&graph);
        export::dot(&graph);
        export::mermaid(&graph);
        causality::text(&graph, "logits");
    }
}

fn refused(problems: &[Problem]) {
    assert!(!problems.is_empty(), "a refusal without a problem");
    assert!(problems.iter().all(|problem| !problem.message.is_empty()), "{problems:?}");
}

/// What stands in the place of a spec reads back, and becomes sound plans.
fn model(model: &GivenGraph) {
    let again = GivenGraph::read(&model.text()).unwrap_or_else(|problems| panic!("{problems:?}\n{}", model.text()));
    assert_eq!((again.text(), again.hash()), (model.text(), model.hash()));
    for objective in OBJECTIVES {
        let task = Catalog {
            vocabulary: objective.map(|_| 9),
            classes: objective.map(|_| 4),
            objective,
            ..Catalog::default()
        };
        let graph = match model.forward(&task) {
            Ok(graph) => graph,
            Err(problems) => {
                refused(&problems);
                continue;
            }
        };
        let sound =
            |graph: &Graph| verify::verify(graph).unwrap_or_else(|broken| panic!("{broken:?}\n{}", text::print(graph)));
        sound(&graph);
        let binding = Binding::from(&task);
        for made in [pipeline::inference(&graph, &binding), pipeline::training(&graph, &binding)] {
            sound(&made.unwrap_or_else(|invalid| panic!("{invalid}\n{}", text::print(&graph))));
        }
    }
}
