//! What is examined of a trained model: what its states have seen, and which tokens its answers lean on.

use rtc_compiler::ir::attribute;
use rtc_compiler::lower::{Binding, Objective};
use rtc_compiler::pipeline::{plans, slopes};
use rtc_compiler::spec::Spec;
use rtc_exec::model::Model;
use rtc_exec::parameter_ranges;
use rtc_task::batching::collect;
use rtc_task::{Example, ExampleTarget};
use rtc_tests::spec;
use rtc_train::examine::Examined;
use rtc_train::examine::receptive_field::receptive_field;
use rtc_train::examine::saliency::Saliency;
use rtc_train::examine::states::states;

/// RegularGPT with chunks of `c`, small.
fn regular(c: usize, tokens: &str) -> String {
    format!(
        "mask dilated(c) = j <= i and (i - j) % c^step == 0 and floor((i - j) / c^step) < c
         model small {{
             let c = {c}
             embed {{ width: 8, tokens: {tokens} }}
             recur depthwise {{
                 depth: max(1, log(length, c))
                 attend self {{ heads: 2, mask: dilated(c), bias: learn[head, floor((i - j) / c^step)], norm: post }}
                 feedforward {{ hidden: 12, norm: post }}
             }}
             readout end
         }}"
    )
}

/// A tree of chunks of two, whose first chunk of a level is the short one.
const TREE: &str = "model small {
    embed { width: 8 }
    recurse balanced {
        arity: 2
        last_chunk: strict
        short: first
        leaf none
        attend self { heads: 2, mask: j <= i, norm: post }
        feedforward { hidden: 12, norm: post }
        pool last
    }
    readout root
}";

const NESTED: &str = "model small {
    embed { width: 8 }
    recur depthwise {
        depth: 2
        recur depthwise {
            depth: 3
            attend self { heads: 2, mask: j <= i }
            feedforward { hidden: 12 }
        }
    }
    readout mean
}";

const HALTING: &str = "model small {
    dropout: 0.3
    embed { width: 8 }
    recur depthwise {
        depth: 3
        halt global { threshold: 0.99 }
        attend self { heads: 2, position: xpos }
        feedforward { hidden: 12 }
    }
    readout mean
}";

const EACH: &str = "model small {
    embed { width: 8 }
    attend self { heads: 2, mask: j <= i }
    feedforward { hidden: 12 }
    readout each
}";

fn binding(objective: Objective) -> Binding {
    Binding { vocab: Some(9), classes: Some(3), objective }
}

fn model(text: &str, objective: Objective) -> (Spec, Model<f64>) {
    let binding = binding(objective);
    let spec = spec(text, &binding);
    let (training, inference) = plans(&spec, &binding).expect("the spec is right");
    (spec, Model::new(training, inference, binding, 5))
}

#[test]
fn a_state_has_seen_what_the_masks_let_through() {
    for c in [2, 3] {
        let (_, model) = model(&regular(c, "none"), Objective::Classify);
        for (step, seen) in receptive_field(model.forward_graph(), "depthwise", 29, 4).into_iter().enumerate() {
            for (position, seen) in seen.into_iter().enumerate() {
                let part = (position + 1).saturating_sub(c.pow(step as u32 + 1))..position + 1;
                assert_eq!(seen, part, "chunks of {c}, step {step}, position {position}");
            }
        }
    }
    let (_, model) = model(HALTING, Objective::Classify);
    assert_eq!(
        receptive_field(model.forward_graph(), "depthwise", 3, 1),
        [vec![0..3; 3]],
        "without a mask all is seen"
    );
}

#[test]
fn states_are_those_of_every_step_and_position() {
    let (_, mut small) = model(&regular(2, "none"), Objective::Classify);
    let rows = [Example::classified(vec![1, 2, 3, 4, 5], 0), Example::classified(vec![8], 1)];
    let found = states(&mut small, &rows, 1000).expect("the rows fit");
    assert_eq!(found.iter().map(|one| one.place.as_str()).collect::<Vec<_>>(), ["depthwise"]);
    let found = &found[0].states;
    assert_eq!(found.iter().filter(|state| state.example == 0).count(), 3 * 5, "three steps for five tokens");
    assert_eq!(found.iter().filter(|state| state.example == 1).count(), 1, "one step for one token");
    assert!(found.iter().all(|state| state.vector.len() == 8));
    // States that have seen the same tokens are the same: the parts of a row that repeats itself.
    let rows = [Example::classified([3, 1, 4, 1].repeat(4), 0)];
    let found = states(&mut small, &rows, 1000).expect("the row fits").remove(0).states;
    for state in found.iter().filter(|state| state.seen.len() == 4 && state.step == 1 && state.seen.start % 4 == 0) {
        let first = found.iter().find(|other| other.step == 1 && other.seen == (0..4)).expect("there is a first part");
        let far = state.vector.iter().zip(&first.vector).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(far < 1e-6, "{:?}", state.seen);
    }
    let (_, mut nested) = model(NESTED, Objective::Classify);
    let found = states(&mut nested, &[Example::classified(vec![1, 2, 3], 0)], 1000).expect("the row fits");
    let counts: Vec<_> = found.iter().map(|one| (one.place.as_str(), one.states.len())).collect();
    assert_eq!(counts, [("depthwise.depthwise", 2 * 3 * 3), ("depthwise", 2 * 3)], "every state once");
    let (_, mut framed) = model(&regular(2, "start_end"), Objective::Classify);
    let found = states(&mut framed, &[Example::classified(vec![1, 2, 3], 0)], 1000).expect("the row fits");
    assert!(found[0].states.iter().all(|state| state.seen.end <= 3), "START and END are no tokens");
    let (_, mut halting) = model(HALTING, Objective::Classify);
    let few = states(&mut halting, &[Example::classified([1, 2, 3, 4].repeat(50), 0)], 40).expect("the row fits");
    assert!((15..80).contains(&few[0].states.len()), "about 40, not {}", few[0].states.len());
}

#[test]
fn states_of_a_tree_are_those_of_the_parts_it_joined() {
    let (_, mut tree) = model(TREE, Objective::Classify);
    let row: Vec<u32> = vec![1, 2, 3, 4, 5, 6, 7];
    let mut of = |tokens: &[u32]| {
        let mut found = states(&mut tree, &[Example::classified(tokens.to_vec(), 0)], 1000).expect("the row fits");
        assert_eq!((found.len(), found[0].place.as_str()), (1, "balanced"));
        found.remove(0).states
    };
    let found = of(&row);
    let parts: Vec<_> = found.iter().map(|state| (state.step, state.seen.clone())).collect();
    assert_eq!(parts, [(0, 0..1), (0, 1..3), (0, 3..5), (0, 5..7), (1, 0..3), (1, 3..7), (2, 0..7)]);
    // A row of one token is its own root, no level joins it.
    for state in found.iter().filter(|state| state.seen.len() > 1) {
        let alone = of(&row[state.seen.clone()]).pop().expect("a row has a root");
        let far = state.vector.iter().zip(&alone.vector).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(far < 1e-6, "{:?}", state.seen);
    }
}

/// A row in which no token stands twice: the gradient of the table is the slope by position.
#[test]
fn slopes_by_position_are_gradients_by_token() {
    let tokens = vec![4, 7, 0, 3, 8];
    let last = ExampleTarget::Each { class: vec![2, 0, 1, 1, 2], weight: vec![0.0, 0.0, 0.0, 0.0, 1.0] };
    let each = ExampleTarget::Each { class: vec![2, 0, 1, 1, 2], weight: vec![1.0; 5] };
    for (text, objective, label, asked) in [
        (regular(2, "start_end"), Objective::Classify, ExampleTarget::Class(1), ExampleTarget::Class(2)),
        (regular(3, "none"), Objective::Classify, ExampleTarget::Class(2), ExampleTarget::Class(0)),
        (EACH.to_owned(), Objective::Each, each, last),
    ] {
        let (spec, mut model) = model(&text, objective);
        let example = |label| Example { label, ..Example::classified(tokens.clone(), 0) };
        let plan = slopes(&spec, &Binding { vocab: Some(5), ..binding(objective) }).expect("the spec is right");
        let mut saliency = Saliency::new(&model, plan, 5, 3).expect("the plan is that of the model");
        let shares = saliency.shares(&example(label)).expect("the row fits").expect("some token counts");
        model.forward_backward(&collect(&[&example(asked)], 5)).expect("the row fits");
        let executor = model.executor();
        let plan = executor.plan().clone();
        let at = plan.parameters.iter().position(|p| p.name == "embed.table").expect("it has tokens");
        let table = &executor.gradients()[parameter_ranges(&plan)[at].clone()];
        let length = |token: &u32| table[*token as usize * 8..][..8].iter().map(|x| x * x).sum::<f64>().sqrt();
        let lengths: Vec<f64> = tokens.iter().map(length).collect();
        let total: f64 = lengths.iter().sum();
        for (n, share) in shares.iter().enumerate() {
            let expected = lengths[n..].iter().sum::<f64>() / total;
            assert!((share - expected).abs() < 1e-9, "{objective:?} position {n}: {share} and {expected}");
        }
        assert_eq!(saliency.shares(&Example::classified(vec![1], 0)), Ok(None), "a row of another length");
    }
}

#[test]
fn slopes_have_no_dropout() {
    let (spec, model) = model(HALTING, Objective::Classify);
    let ask = || {
        let plan =
            slopes(&spec, &Binding { vocab: Some(4), ..binding(Objective::Classify) }).expect("the spec is right");
        assert!(plan.graph.walk(rtc_compiler::ir::graph::MAIN).iter().all(|id| {
            let node = plan.graph.node(*id);
            node.get(attribute::DROPOUT) == 0.0 && !node.has(attribute::P)
        }));
        let mut saliency = Saliency::new(&model, plan, 4, 3).expect("the plan is that of the model");
        saliency.shares(&Example::classified(vec![1, 2, 1, 3], 0)).expect("the row fits").expect("some token counts")
    };
    assert_eq!(ask(), ask());
}
