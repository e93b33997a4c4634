//! Models whose attention reads pairs of positions, beside PyTorch forms that are written from their equations: answers, loss and all
//! gradients, in double precision. `masks_torch.py` has the other side; it knows nothing of rtc but the names of weights.

use rtc_base::batch::{Batch, Given, Labels};
use rtc_compiler::ir::types::Dim;
use rtc_compiler::lower::{Objective, attach_loss, lower};
use rtc_compiler::spec::Spec;
use rtc_exec::Halting;
use rtc_tests::models::{self, VOCAB, binding};
use rtc_tests::numeric::{batch, differentiated, distance, labelled_tokens, run, weights};
use rtc_tests::python::Process;
use serde_json::{Map, Value as Json, json};

/// How far both may be from one another.
const LIMIT: f64 = 1e-10;

/// What masks, biases and scores choose, and the functions that they share with equations.
const FUNCTIONS: &str = "
model functions {
    embed { width: 8 }
    state = state + attention(norm(state)) {
        heads: 2, mask: past and abs(i - j) <= when(head == 0, 3, 30)
        score: softplus(score) + 0.1 * silu(score - learn[head]) + 0.2 * relu(3 - i + j)
    }
    c = number(state)
    state = state + attention(norm(state)) {
        heads: 2, mask: when(head == 0, past, c[j] < 0.5 and past or i == j)
        bias: when(c[j] > 0, relu(c[i]) - abs(c[j]), -rsqrt(1 + i - j) * sign(c[i])) + lerp(sigmoid(c[j]), c[i], learn[head])
    }
    readout each
}";

/// Values that are wider than keys, as MEGA has them, and narrower ones.
const WIDTHS: &str = "
use \"lib/masks.rt\"
model widths {
    embed { width: 8 }
    query = linear(state) { to: 4 }
    key = linear(state) { to: 2 }
    value = linear(state) { to: 5 }
    wide = dot_product_attention(query, key, value) { heads: 2, key_heads: 1, mask: j <= i, bias: offsets(5) }
    output = linear(wide)
    state = state + output
    query = linear(state)
    key = linear(state)
    value = linear(state) { to: 6 }
    narrow = dot_product_attention(query, key, value) { heads: 2, mask: j <= i, position: rope }
    output = linear(narrow)
    state = state + output
    readout each
}";

/// The specs, with rows that are longer than their windows, and further edits.
const SPECS: &[(&str, &str, &[usize], &[&str])] = &[
    ("fox.rt", "fox", &[23, 1, 40], &[]),
    ("fox.rt", "one_gate", &[23, 1, 40], &[]),
    ("streaming.rt", "streaming", &[47, 5, 30], &[]),
    ("streaming.rt", "no_sinks", &[47, 5, 30], &[]),
    ("streaming.rt", "spans", &[47, 5, 30], &[]),
    ("grid.rt", "grid", &[81, 81], &["let heads = 4"]),
    ("grid.rt", "axial", &[81, 30], &[]),
    ("grid.rt", "near", &[81, 30], &[]),
    ("moba.rt", "moba", &[90, 5, 71], &[]),
    ("moba.rt", "whole", &[90, 5, 71], &[]),
    ("moba.rt", "own", &[90, 5, 71], &[]),
    ("ssmax.rt", "ssmax", &[40, 1, 23], &[]),
    ("ssmax.rt", "fixed", &[40, 1, 23], &[]),
    ("ssmax.rt", "with_bias", &[40, 1, 23], &[]),
    ("packed.rt", "packed", &[40, 3, 22], &[]),
    ("packed.rt", "joined", &[40, 3, 22], &[]),
    ("packed.rt", "windows", &[40, 3, 22], &["let heads = 4"]),
];

/// Texts of 3 to 6 tokens, one after the other.
fn documents(rows: &Batch) -> Given {
    let number = |row: &[usize]| (0..row[1] - row[0]).map(|at| (at * at / 9 % 4) as f64).collect::<Vec<_>>();
    Given { name: "document".into(), numbers: rows.offsets.windows(2).flat_map(number).collect() }
}

fn compare(name: &str, spec: &Spec, rows: &Batch, python: &mut Process) {
    let binding = binding(Objective::Each);
    let graph = lower(spec, &binding).and_then(|mut graph| attach_loss(&mut graph, &binding).map(|()| graph));
    let graph = differentiated(&graph.unwrap_or_else(|e| panic!("{name}: {e}")));
    let weights = weights(&graph, 17, 0.4);
    let ours = run::<f64>(&graph, &weights, rows, Halting::Compact);
    let sizes = graph.parameters().into_iter().map(|parameter| {
        let dims: Vec<usize> = parameter.ty.dims().iter().filter_map(Dim::fixed).collect();
        (parameter.name, json!(dims))
    });
    let sizes: Map<String, Json> = sizes.collect();
    let Labels::Each { class, weight } = &rows.labels else { panic!("every token has a label") };
    let given: Map<String, Json> =
        rows.given.iter().map(|given| (given.name.to_string(), json!(given.numbers))).collect();
    let answer = python.ask(&json!({
        "model": name, "weights": weights, "sizes": sizes, "offsets": rows.offsets, "tokens": rows.tokens,
        "labels": class, "weight": weight, "given": given,
    }));
    let numbers = |json: &Json| -> Vec<f64> {
        json.as_array().into_iter().flatten().map(|x| x.as_f64().unwrap_or(f64::NAN)).collect()
    };
    let mut far = vec![];
    let mut check = |what: &str, ours: &[f64], theirs: &Json| {
        let distance = distance(ours, &numbers(theirs));
        if distance > LIMIT {
            far.push(format!("{what}: {distance:.1e}"));
        }
    };
    check("logits", &ours.outputs["logits"], &answer["logits"]);
    check("loss", &ours.outputs["loss"], &answer["loss"]);
    for (weight, gradient) in &ours.gradients {
        check(weight, gradient, &answer["gradients"][weight]);
    }
    assert!(far.is_empty(), "{name} differs from PyTorch: {}", far.join(", "));
    assert!(ours.gradients.len() > 3, "{name} has weights");
}

#[test]
fn masks_and_biases_of_pairs_are_those_of_pytorch() {
    let Some(mut python) = Process::start("masks_torch.py") else { return };
    for (n, (file, name, lengths, edits)) in SPECS.iter().enumerate() {
        let spec = models::one(file, name, Objective::Each, edits).spec;
        let mut rows = labelled_tokens(batch(lengths, VOCAB as u64, 2, 40 + n as u64), 2, 9);
        if *file == "packed.rt" {
            rows.given = vec![documents(&rows)];
        }
        compare(name, &spec, &rows, &mut python);
    }
    let rows = labelled_tokens(batch(&[13, 1, 7], VOCAB as u64, 2, 61), 2, 9);
    let places = models::cases("places_of_pairs.rt", Objective::Each);
    assert_eq!(places.len(), 3, "every model answers for each token");
    places.iter().for_each(|model| compare(&model.name, &model.spec, &rows, &mut python));
    compare("widths", &models::parse(WIDTHS), &rows, &mut python);
    compare("functions", &models::parse(FUNCTIONS), &rows, &mut python);
}
