//! The branch that a choice does not take has no gradient, also where it has no number: `when(x > 0, sqrt(x), x)`.

use rtc_compiler::ir::graph::Graph;
use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline::{self, Forward};
use rtc_exec::Halting;
use rtc_tests::choices::{self, CHOICES};
use rtc_tests::models::binding;
use rtc_tests::numeric::{check_gradients, differentiated, run, weights};

use super::device::{Case, compare, example};

fn graphs(equations: &str) -> (Graph, Graph, Graph) {
    let (spec, binding) = (choices::model(equations), binding(Objective::Classify));
    let forward = spec.with_loss(&binding).expect("the model has a loss");
    let training = pipeline::training(&spec, &binding).expect("the model has gradients");
    let plain = differentiated(&forward);
    (forward, plain, training)
}

/// Gradients before and after all passes equal central differences, and those of a device are the same.
#[test]
fn what_a_choice_does_not_take_has_no_gradient() {
    let (mut cases, mut broken) = (vec![], vec![]);
    for (name, equations) in CHOICES {
        let (forward, plain, training) = graphs(equations);
        let (batch, weights) = (example(&[7, 1, 4, 12, 2], Objective::Classify), weights(&forward, 5, 0.6));
        for graph in [&plain, &training] {
            let gradients = run::<f64>(graph, &weights, &batch, Halting::Compact).gradients;
            let not_finite = gradients.iter().filter(|(_, x)| x.iter().any(|x| !x.is_finite()));
            let not_finite: Vec<_> = not_finite.map(|(weight, _)| format!("{name}: {weight}")).collect();
            if not_finite.is_empty() {
                check_gradients(name, (&forward, graph), &weights, &batch, Some(6), &[], 1e-5);
            }
            broken.extend(not_finite);
        }
        cases.push(Case { name: (*name).to_owned(), graph: training, weights, batch, halting: Halting::Compact });
    }
    assert!(broken.is_empty(), "not finite:\n{}", broken.join("\n"));
    compare(&cases);
}
