//! Labels reach losses and nothing else: with other labels, every answer of every model keeps its bits, in training and in evaluation.

use std::path::Path;

use rtc_base::batch::{Batch, Labels};
use rtc_base::rng::Key;
use rtc_compiler::ir::graph::Graph;
use rtc_compiler::lower::{Binding, Objective};
use rtc_compiler::pipeline;
use rtc_compiler::spec::Spec;
use rtc_exec::Halting;
use rtc_tests::models::{self, CLASSES, VOCAB, binding};
use rtc_tests::numeric::{KEY, asking, batch, executor, weights};

/// Lengths of the rows.
const LENGTHS: [usize; 4] = [7, 1, 4, 10];

/// The batch with other labels.
fn relabelled(batch: &Batch, classes: usize) -> Batch {
    let mut other = batch.clone();
    match &mut other.labels {
        Labels::Class(class) | Labels::Each { class, .. } => {
            class.iter_mut().for_each(|class| *class = (*class + 1) % classes as u32);
        }
        others => panic!("{others:?} are not asked for"),
    }
    other
}

/// Compares a model with labels and with others; gives whether they change its loss.
fn compared(name: &str, spec: &Spec, binding: &Binding) -> bool {
    let classes = binding.classes.expect("the task is known");
    let rows = Batch { depths: Some(vec![2, 1, 3, 2]), ..batch(&LENGTHS, VOCAB as u64, classes as u64, 5) };
    let rows = asking(rows, binding.objective, 5);
    let other = relabelled(&rows, classes);
    let run = |graph: &Graph, rows: &Batch| {
        let mut executor = executor::<f32>(graph, &weights(graph, 5, 0.5), Halting::Compact);
        executor.run(rows, Key::new(KEY)).unwrap_or_else(|fault| panic!("{name}: {fault}"))
    };
    let made = [pipeline::training(spec, binding), pipeline::inference(spec, binding)];
    let mut moved = false;
    for graph in made.map(|graph| graph.unwrap_or_else(|e| panic!("{name}: {e}"))) {
        let (here, there) = (run(&graph, &rows), run(&graph, &other));
        for result in ["logits", "depth", "halting_cost"] {
            let bits = |of: &[f32]| of.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(here.real(result).map(bits), there.real(result).map(bits), "{name}: labels reach `{result}`");
        }
        assert!(here.real("logits").is_some(), "{name} gives answers");
        moved |= here.scalar("loss") != there.scalar("loss");
    }
    moved
}

#[test]
fn labels_reach_no_answer_of_a_model() {
    for objective in [Objective::Classify, Objective::Each] {
        let mut pays = 0;
        for model in models::telling(objective, &[]) {
            assert!(compared(&model.name, &model.spec, &binding(objective)), "{} learns from labels", model.name);
            pays += usize::from(model.pays());
        }
        assert!(pays >= 2, "{pays} models say their losses themselves");
    }
}

#[test]
fn labels_reach_no_answer_of_a_published_model() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/latent");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).expect("the cases exist") {
        let path = entry.expect("the folder can be read").path();
        if path.extension().is_none_or(|extension| extension != "rt") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a case is text");
        // Values that come with the examples, and rows of one length, are those of the fixtures.
        if ["given(", "transpose("].iter().any(|word| text.contains(word)) {
            continue;
        }
        let objective = if text.contains("readout each") { Objective::Each } else { Objective::Classify };
        // A head that is tied to the tokens has a class for each.
        let classes = if text.contains("head tied") { VOCAB } else { CLASSES };
        let binding = Binding { vocab: Some(VOCAB), classes: Some(classes), objective };
        let name = path.display().to_string();
        assert!(compared(&name, &rtc_tests::spec(&text, &binding), &binding), "{name} learns from labels");
        seen += 1;
    }
    assert!(seen >= 8, "{seen} cases");
}
