//! Models whose task is not known yet: as many classes and tokens as it has are symbols, and every stage compiles all the same.

use rtc_compiler::lower::{Binding, Objective};
use rtc_compiler::pipeline::cost::Cost;
use rtc_compiler::pipeline::{self, Forward};
use rtc_tests::numeric::checked;

/// Losses over what the head makes.
const LOSSES: [&str; 7] = [
    "loss average(answer(state))",
    "p = probabilities(state)\nloss average(-sum(p * log(max(p, 1e-30))) { over: width })",
    "p = probabilities(state)\nloss average(mean(p * p) { over: width })",
    "p = probabilities(state)\nloss average(1 - max(p) { over: width })",
    "loop {\nsteps: 3\nstate = state + linear(state)\nloss average(answer(state))\n}",
    "recur depthwise {\ndepth: 4\nhalt confident\nattend self { heads: 2 }\n}",
    "recur depthwise {\ndepth: 4\nhalt entropy\nattend self { heads: 2 }\n}",
];
const HEADS: [&str; 4] = ["", "head linear", "head tied", "head tied { softcap: 30 }"];

/// Costs and gradients of all losses with all heads, for a task that is known and one that is not.
#[test]
fn every_loss_with_every_head_has_gradients_and_costs() {
    for objective in [Objective::Classify, Objective::Each] {
        let readout = if objective == Objective::Each { "each" } else { "mean" };
        for binding in
            [Binding { objective, ..Binding::default() }, Binding { vocab: Some(5), classes: Some(5), objective }]
        {
            for (loss, head) in LOSSES.iter().flat_map(|loss| HEADS.map(|head| (*loss, head))) {
                let text = format!("model m {{\nembed {{ width: 8 }}\n{loss}\nreadout {readout}\n{head}\n}}");
                let spec = rtc_tests::spec(&text, &binding);
                let graph = pipeline::training(&spec, &binding).unwrap_or_else(|fault| panic!("{fault}: {text}"));
                checked(&graph, &text);
                let cost = Cost::of(&spec, &binding, 4, 10).unwrap_or_else(|fault| panic!("{fault}: {text}"));
                assert!(cost.at(4, 10, None).training > 0.0, "{text}");
            }
        }
    }
}

/// A weight that nothing reads is no parameter, neither of a listing nor of a checkpoint.
#[test]
fn parameters_are_those_of_the_trained_model() {
    let binding = Binding { vocab: Some(5), classes: Some(3), objective: Objective::Classify };
    let text = "model m {\nembed { width: 8 }\nunread = linear(state)\npaid = number(state)\nloss average(mean(paid^2))\n\
                readout mean\n}";
    let spec = rtc_tests::spec(text, &binding);
    let mut listed = pipeline::parameters(&spec.forward(&binding).expect("the spec has a graph"));
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    let (training, _) = pipeline::plans(&spec, &binding).expect("the spec has a plan");
    let names = |of: &[rtc_compiler::ir::graph::Parameter]| of.iter().map(|own| own.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&listed), names(&training.parameters));
    assert!(!names(&listed).iter().any(|name| name.starts_with("unread")), "{listed:?}");
    assert!(names(&listed).iter().any(|name| name.starts_with("paid")), "{listed:?}");
}
