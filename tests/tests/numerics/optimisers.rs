//! Optimisers: what each of them updates, at which rate, and that all of them resume.

use rtc_base::rng::Key;
use rtc_compiler::ir::cost::Sizes;
use rtc_compiler::ir::diff::diff;
use rtc_compiler::ir::graph::Parameter;
use rtc_compiler::lower::{Binding, Objective, lower};
use rtc_compiler::pipeline;
use rtc_compiler::spec::Spec;
use rtc_exec::learner::{
    DecayedParameters, FlatArrays, GROUPS, GroupRule, Learner, MOST_GROUPS, OptimiserKind, UpdateRule,
};
use rtc_exec::model::{Model, ParameterGroups, initial, matrices};
use rtc_tests::models::{self, CLASSES, VOCAB, binding, one};
use rtc_tests::numeric::{asking, batch, formula};
use rtc_train::examine::Examined;

/// Longer rows than those that are convolved directly, and shorter ones.
const LENGTHS: [usize; 3] = [70, 3, 130];

fn model(file: &str, name: &str) -> Model<f32> {
    new(&one(file, name, Objective::Classify, &[]), Objective::Classify)
}

fn new(found: &models::Model, objective: Objective) -> Model<f32> {
    let binding = binding(objective);
    let (training, inference) = pipeline::plans(&found.spec, &binding).expect("the spec has a plan");
    let mut model = Model::new(training, inference, binding, 3);
    model.set_formula(Some(formula()));
    model
}

/// The groups of a rule with a rate of the state spaces.
fn groups(rate: f64) -> [GroupRule; MOST_GROUPS] {
    let mut groups = UpdateRule::ADAMW.groups;
    groups[0].learning_rate = Some(rate);
    groups
}

/// A group with the settings of all others changes no bit; one of rate 0 keeps its parameters, and one of another decay decays so.
#[test]
fn groups_have_settings_of_their_own() {
    let rows = batch(&LENGTHS, VOCAB as u64, CLASSES as u64, 5);
    let names: Vec<String> = model("gut.rt", "gut").state().parameters.items.into_keys().collect();
    let of_group: Vec<&String> =
        names.iter().filter(|name| name.contains(".self.") || name.ends_with("bias")).collect();
    assert!(of_group.len() > 10 && names.len() > of_group.len() + 5, "{names:?}");
    let after = |kind, own: &GroupRule, weight_decay: f64| {
        let mut model = model("gut.rt", "gut");
        model.set_groups(&of_group.iter().map(|name| ((*name).clone(), GROUPS.len())).collect::<ParameterGroups>());
        let mut rule = UpdateRule { kind, learning_rate: 0.01, weight_decay, ..UpdateRule::ADAMW };
        rule.groups[GROUPS.len()] = *own;
        for _ in 0..2 {
            model.accumulate(&rows, 1.0).expect("the batch fits");
            model.update(&rule).expect("the gradients are finite");
        }
        model.state().parameters.items
    };
    let fresh = model("gut.rt", "gut").state().parameters.items;
    for kind in OptimiserKind::ALL {
        let all = after(kind, &GroupRule::default(), 0.1);
        assert_eq!(
            all,
            after(kind, &GroupRule { learning_rate: Some(0.01), weight_decay: Some(0.1) }, 0.1),
            "{kind:?}"
        );
        let frozen = after(kind, &GroupRule { learning_rate: Some(0.0), weight_decay: None }, 0.1);
        for name in &names {
            assert_eq!(frozen[name] == fresh[name], of_group.contains(&name), "{kind:?}: {name}");
        }
        if kind != OptimiserKind::Adam {
            let undecayed = after(kind, &GroupRule { learning_rate: None, weight_decay: Some(0.0) }, 0.1);
            assert_ne!(undecayed, all, "{kind:?}");
        }
    }
}

/// Muon has the weights of linear maps, and AdamW all that is left: what has one output or one axis, and these.
#[test]
fn muon_moves_the_matrices() {
    let rows = batch(&LENGTHS, VOCAB as u64, CLASSES as u64, 5);
    let halting = "chunkwise.depthwise.halt.output.weight";
    let state_space = ["b", "c", "c_backward", "frequency", "log_decay"].map(|name| format!("stack.0.s4d.{name}"));
    let mut of_s4d = state_space.clone().to_vec();
    of_s4d.extend(state_space.map(|name| name.replace('0', "1")));
    let others = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    for (file, name, others) in [
        ("gutlb.rt", "gutlb", others(&[halting, "chunkwise.memory.slots"])),
        ("s4d.rt", "s4d", of_s4d),
        ("bt_grc.rt", "bt_grc", others(&["beam.score.linear.weight"])),
        ("ut.rt", "ut", others(&["depthwise.halt.output.weight"])),
    ] {
        let mut model = model(file, name);
        model.accumulate(&rows, 1.0).expect("the batch fits");
        model.update(&UpdateRule { kind: OptimiserKind::Muon, ..UpdateRule::ADAMW }).expect("finite gradients");
        let state = model.state();
        // Muon has no second moment.
        let used = |of: &FlatArrays, name: &str| of.items[name].1.iter().any(|x| *x != 0.0);
        let mut by_adamw = vec![];
        for (parameter, (shape, _)) in &state.parameters.items {
            assert!(used(&state.optimiser["first_moment"], parameter), "{parameter} has no gradient");
            let adamw = used(&state.optimiser["second_moment"], parameter);
            assert!(adamw || shape.len() == 2, "{parameter}");
            let role = model.forward_graph().parameters().into_iter().find(|own| own.name == *parameter);
            if adamw && shape.len() > 1 && role.is_some_and(|own| own.role.is_none()) {
                by_adamw.push(parameter.clone());
            }
        }
        assert_eq!(by_adamw, others, "{name}");
    }
}

/// A model with a head of its own, whose last map is bound to a name.
fn with_head(binding: &str, last: &str) -> Spec {
    models::parse(&format!(
        "def head own(x) {{\n inner = relu(linear(x))\n {binding} = {last}\n out {binding}\n}}\n\
         model m {{\n embed {{ width: 8 }}\n state = state + linear(state)\n readout mean\n head own\n}}"
    ))
}

/// Three updates by Muon from weights that are the same but for their names.
fn losses(spec: &Spec, renamed: &dyn Fn(&str) -> String) -> Vec<u64> {
    let bound = binding(Objective::Classify);
    let (training, inference) = pipeline::plans(spec, &bound).expect("the spec has a plan");
    let graph = (*training.graph).clone();
    let mut model = Model::<f32>::new(training, inference, bound, 3);
    let mut state = model.state();
    for parameter in graph.parameters() {
        let numbers = initial::<f32>(&Parameter { name: renamed(&parameter.name), ..parameter.clone() }, Key::new(7));
        state.parameters.items.get_mut(&parameter.name).expect("it is of the model").1 = numbers;
    }
    model.restore(&state).expect("it is the same model");
    let rows = batch(&LENGTHS, VOCAB as u64, CLASSES as u64, 5);
    let rule = UpdateRule { kind: OptimiserKind::Muon, learning_rate: 0.05, ..UpdateRule::ADAMW };
    let step = |_| {
        let loss = model.accumulate(&rows, 1.0).expect("the batch fits").loss;
        model.update(&rule).expect("finite gradients");
        loss.to_bits()
    };
    (0..4).map(step).collect()
}

/// The name of a binding decides nothing: not which optimiser a weight has, and not by one bit what is learned.
#[test]
fn renaming_the_last_map_changes_no_bit() {
    for last in ["linear(inner) { to: classes }", "30 * tanh(linear(inner) { to: classes } / 30)"] {
        let first = losses(&with_head("output", last), &str::to_owned);
        for name in ["logits", "answer", "scores", "hidden"] {
            let same = |own: &str| own.replace(&format!("head.{name}."), "head.output.");
            let spec = with_head(name, last);
            assert_eq!(losses(&spec, &same), first, "{name} = {last}");
            let [left, right] = [with_head("output", last), spec]
                .map(|spec| lower(&spec, &binding(Objective::Classify)).expect("the spec has a graph"));
            assert!(diff(&left, &right, &Sizes::rows(8.0, 16.0)).is_empty(), "{name}");
        }
    }
}

/// A table of tokens that makes the answers is an embedding, and the optimiser of embeddings is AdamW (Jordan et al. 2024).
#[test]
fn muon_leaves_tied_tables_and_last_maps_to_adamw() {
    let bound = Binding { vocab: Some(VOCAB), classes: Some(VOCAB), objective: Objective::Each };
    let tied = "model m {\n embed { width: 8, position: learned, positions: 200 }\n state = state + linear(state)\n \
                readout each\n head tied\n}";
    let own = "def head own(x) {\n logits = linear(x) { to: classes, bias: false }\n out logits\n}\nmodel m {\n \
               embed { width: 8 }\n state = state + linear(state)\n readout each\n head own\n}";
    for (text, expected) in [
        (tied, [("embed.table", "embedding"), ("embed.positions", "embedding")].as_slice()),
        (own, [("embed.table", "embedding"), ("head.logits.weight", "output")].as_slice()),
    ] {
        let graph = pipeline::training(&rtc_tests::spec(text, &bound), &bound).expect("the spec has a graph");
        let named = graph.parameters();
        let roles: Vec<(&str, &str)> =
            named.iter().filter_map(|own| Some((own.name.as_str(), own.role?.name()))).collect();
        assert_eq!(roles, expected);
        let moved = matrices(&graph);
        assert_eq!(moved.len(), 1, "{text}");
        assert_eq!(moved[0].range.len(), 64, "the weight of the body");
    }
}

/// The group of the state spaces, and nothing else, follows its own rate.
#[test]
fn state_spaces_have_a_rate_of_their_own() {
    let rows = batch(&LENGTHS, VOCAB as u64, CLASSES as u64, 5);
    for kind in OptimiserKind::ALL {
        let mut model = model("s4d.rt", "s4d");
        let before = model.state().parameters.items;
        let rule = UpdateRule { kind, groups: groups(0.0), weight_decay: 0.1, ..UpdateRule::ADAMW };
        model.accumulate(&rows, 1.0).expect("the batch fits");
        model.update(&rule).expect("the gradients are finite");
        let after = model.state().parameters.items;
        let own = |name: &str| {
            let last = name.rsplit('.').next().unwrap_or_default();
            ["log_dt", "log_decay", "frequency", "b", "c", "c_backward", "skip"].contains(&last)
        };
        assert_eq!(before.keys().filter(|name| own(name)).count(), 14);
        for (name, old) in &before {
            assert_eq!(after[name] == *old, own(name), "{kind:?}: {name}");
        }
    }
}

/// With `decay: matrices` an update without gradients moves the weights of maps and embeddings, and no bias and no weight of a norm.
#[test]
fn biases_and_norms_decay_only_if_asked() {
    let rows = batch(&LENGTHS, VOCAB as u64, CLASSES as u64, 5);
    for kind in OptimiserKind::ALL.into_iter().filter(|kind| *kind != OptimiserKind::Adam) {
        let after = |weight_decay: f64, decayed: DecayedParameters| {
            let mut model = model("gut.rt", "gut");
            let rule = UpdateRule { kind, learning_rate: 0.01, weight_decay, decayed, ..UpdateRule::ADAMW };
            model.accumulate(&rows, 1.0).expect("the batch fits");
            model.update(&rule).expect("the gradients are finite");
            model.state().parameters.items
        };
        let (never, all) = (after(0.0, DecayedParameters::All), after(0.5, DecayedParameters::All));
        let matrices = after(0.5, DecayedParameters::Matrices);
        let (mut decayed, mut others) = (0, 0);
        for (name, (shape, numbers)) in &matrices {
            let expected = if shape.len() > 1 { &all[name].1 } else { &never[name].1 };
            assert_eq!(numbers, expected, "{kind:?}: {name}");
            *if shape.len() > 1 { &mut decayed } else { &mut others } += 1;
        }
        assert!(decayed > 5 && others > 5, "{decayed} {others}");
        assert_ne!(all, never);
    }
}

/// A model that is saved and restored in another one takes the same steps, to the bit; lookahead comes in between.
#[test]
fn every_optimiser_resumes() {
    let rows = batch(&LENGTHS, VOCAB as u64, CLASSES as u64, 5);
    for kind in OptimiserKind::ALL {
        let rule = UpdateRule { kind, learning_rate: 0.01, groups: groups(1e-3), clip: Some(1.0), ..UpdateRule::ADAMW };
        let step = |model: &mut Model<f32>| {
            model.accumulate(&rows, 1.0).expect("the batch fits");
            model.update(&rule).expect("the gradients are finite");
        };
        let mut through = model("s4d.rt", "s4d");
        (0..3).for_each(|_| step(&mut through));
        let saved = through.state();
        let mut resumed = model("s4d.rt", "s4d");
        step(&mut resumed);
        resumed.restore(&saved).expect("it is the same model");
        (0..9).for_each(|_| step(&mut through));
        (0..9).for_each(|_| step(&mut resumed));
        assert_eq!(through.state(), resumed.state(), "{kind:?}");
        assert_eq!(saved.optimiser.contains_key("slow"), kind == OptimiserKind::Ranger);
    }
}

/// So does every spec: what it draws depends on the update and not on what ran before.
#[test]
fn every_spec_resumes() {
    let rule = UpdateRule { learning_rate: 0.01, weight_decay: 0.1, clip: Some(1.0), ..UpdateRule::ADAMW };
    for objective in [Objective::Classify, Objective::Pair, Objective::Each] {
        let rows = |n| asking(batch(&[6, 1, 9, 4], VOCAB as u64, CLASSES as u64, n), objective, n);
        for found in models::of_turn(models::all(objective, &[])) {
            let updates = |model: &mut Model<f32>, updates: std::ops::Range<u64>| {
                for n in updates {
                    model.accumulate(&rows(n), 1.0).expect("the batch fits");
                    model.update(&rule).expect("the gradients are finite");
                }
            };
            let mut through = new(&found, objective);
            updates(&mut through, 0..4);
            let mut first = new(&found, objective);
            updates(&mut first, 0..2);
            let mut resumed = new(&found, objective);
            resumed.restore(&first.state()).expect("it is the same model");
            updates(&mut resumed, 2..4);
            assert_eq!(through.state(), resumed.state(), "{} for {objective:?}", found.name);
        }
    }
}
