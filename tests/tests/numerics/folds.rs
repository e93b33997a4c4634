//! Folds: cases done by hand, the goldens of an independent implementation, nestings that no paper has.
//!
//! `RTC_RECURSIVE` names the file of the goldens (default `../shared/fixtures/recursive_goldens.json` beside the project); without
//! it that comparison is skipped.
#![allow(clippy::print_stderr, reason = "a skipped comparison says why")]

use std::path::{Path, PathBuf};
use std::rc::Rc;

use rtc_base::batch::{Batch, Labels};
use rtc_base::rng::Key;
use rtc_compiler::check::check;
use rtc_compiler::diag::{Style, render};
use rtc_compiler::ir::graph::Graph;
use rtc_compiler::ir::text;
use rtc_compiler::lower::{Binding, Objective};
use rtc_compiler::pass;
use rtc_compiler::pipeline;
use rtc_compiler::schema::Catalog;
use rtc_compiler::source::Source;
use rtc_compiler::spec::Spec;
use rtc_exec::learner::{Learner, UpdateRule};
use rtc_exec::model::Model as Trained;
use rtc_exec::{Halting, Inference, NoiseSource};
use rtc_tests::models::{self, CLASSES, Model, VOCAB, binding};
use rtc_tests::numeric::{
    Arrays, assert_same, batch, check_gradients, differentiated, distance, executor, graph, run, weights,
};
use serde_json::Value as Json;

/// The gated recursive cell as a definition in a file is that of the library.
#[test]
fn a_cell_of_ones_own_has_the_graph_of_the_librarys() {
    let source = Source::new("definitions.rt", include_str!("../../cases/models/definitions.rt"));
    let printed = |edits: &[String]| {
        let (spec, problems, sources) =
            check(&models::library(), source.clone(), Some("own_tree"), edits, &Catalog::default());
        let spec = spec.unwrap_or_else(|| panic!("{}", render(&problems, &sources, Style::Plain)));
        let graph = pipeline::forward(&spec, &binding(Objective::Classify)).expect("the model lowers");
        // The weights have the name of the cell, and the columns of the text its length.
        text::print(&graph).replace("own_grc", "grc").split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let own = printed(&[]);
    assert_eq!(own, printed(&["cell grc { hidden: 6 }".to_owned()]));
    assert_ne!(own, printed(&["cell grc { hidden: 7 }".to_owned()]));
}

/// Rows whose tokens are 1, 2, 3, ...
pub(super) fn counting(lengths: &[usize], width: usize) -> Batch {
    let ends = lengths.iter().scan(0, |at, n| {
        *at += n;
        Some(*at)
    });
    Batch {
        offsets: std::iter::once(0).chain(ends).collect(),
        tokens: lengths.iter().flat_map(|n| 1..=*n as u32).collect(),
        labels: Labels::Class(vec![0; lengths.len()]),
        width,
        depths: None,
        given: vec![],
    }
}

/// A fold of numbers with the cell `l + 2 r`, by the given attributes; a chain runs it through every chunk from 0.
fn of_numbers(attrs: &str, chain: bool) -> Graph {
    let pair = "%l = position %n {at: first} : f32[batch, 1]
        %r = position %n {at: last} : f32[batch, 1]
        %r2 = map %r {f: mul(2.0, a)} : f32[batch, 1]
        %j = add %l, %r2 : f32[batch, 1]
        %two = longer_than_one %n : bool[batch]
        %v = select %two, %j, %l : f32[batch, 1]";
    let through = "%f = position %n {at: first} : f32[batch, 1]
        %zero = full %f {value: 0.0, rank: 2} : f32[batch, 1]
        %v = chunks %zero, %n {carried: 1, size: 1, cut: position, over: node, axis: item} : f32[batch, 1] (%h: f32[batch, 1], %one: f32[batch, item, 1]) {
          %r = position %one {at: last} : f32[batch, 1]
          %r2 = map %r {f: mul(2.0, a)} : f32[batch, 1]
          %next = add %h, %r2 : f32[batch, 1]
          yield %next
        }";
    graph(&format!(
        "graph \"numbers\" {{
        %tokens = input {{name: \"tokens\"}} : u32[batch, length]
        %table = param {{name: \"table\", init: zeros}} : f32[100, 1]
        %x = embed %tokens, %table : f32[batch, length, 1]
        %root = fold %x {{{attrs}, over: length, axis: node}} : f32[batch, 1] (%n: f32[batch, node, 1]) {{
        {}
        yield %v
        }}
        return %root {{names: \"root\"}}
        }}",
        if chain { through } else { pair }
    ))
}

/// What such a fold makes of rows 1, 2, 3, ...
fn roots(attrs: &str, chain: bool, lengths: &[usize], width: usize) -> Vec<f64> {
    let table: Arrays = [("table".to_owned(), (0..100).map(f64::from).collect())].into();
    let graph = of_numbers(attrs, chain);
    run::<f64>(&graph, &table, &counting(lengths, width), Halting::Compact).outputs["root"].clone()
}

/// Leaves 1..7 in threes: chunks (1 2 3) (4 5 6) (7), then one of three vectors. In pairs, 7 passes up twice.
#[test]
fn folds_done_by_hand() {
    let threes = "arity: 3, last: merge, plan: row";
    assert_eq!(roots(threes, true, &[7], 7), [112.0]);
    assert_eq!(roots("arity: 2, last: merge, plan: row", false, &[7, 1, 4], 7), [89.0, 1.0, 27.0]);
    // One token never enters the fold; two and three leaves fit into one last chunk, four are three and one.
    assert_eq!(roots(threes, true, &[1, 2, 3, 4], 4), [1.0, 6.0, 12.0, 2.0 * 12.0 + 2.0 * 8.0]);
    // Five leaves of four: one chunk of five, or four and one and then both.
    assert_eq!(roots("arity: 4, last: merge, plan: row", true, &[5], 5), [30.0]);
    assert_eq!(roots("arity: 4, last: strict, plan: row", true, &[5], 5), [2.0 * 20.0 + 2.0 * 10.0]);
    // By the width of the batch: beside a row of seven, (1 2 3) (4) and then both vectors; so does the lone token.
    let by_batch = "arity: 3, last: merge, plan: batch";
    assert_eq!(roots(by_batch, true, &[7, 4, 1], 7), [112.0, 2.0 * 12.0 + 2.0 * 8.0, 4.0]);
    assert_eq!(roots(by_batch, true, &[3], 3), [12.0]);
    assert_eq!(roots(by_batch, true, &[3], 4), [24.0], "padded to four");
}

#[test]
fn a_flat_fold_takes_the_row_as_one_chunk() {
    let graph = of_numbers("arity: 3, last: strict, plan: row, flat: true", true);
    let table: Arrays = [("table".to_owned(), (0..100).map(f64::from).collect())].into();
    let mut executor = executor::<f64>(&graph, &table, Halting::Compact);
    let mut roots = |inference: Inference| {
        executor.settings.inference = inference;
        let outputs = executor.run(&counting(&[7, 1, 3], 7), Key::new(0)).expect("the batch fits");
        outputs.real("root").expect("a root").to_vec()
    };
    assert_eq!(roots(Inference::Recursive), [112.0, 1.0, 12.0]);
    assert_eq!(roots(Inference::Flat), [56.0, 1.0, 12.0], "2 (1 + ... + 7), and a token alone is its own root");
}

/// 10,000 elements make no deep call, and the thousand levels of a chain of twos are levels of a loop.
#[test]
fn long_rows_fold() {
    let graph = of_numbers("arity: 2, last: strict, plan: row", false);
    let table: Arrays = [("table".to_owned(), vec![1.0; 100])].into();
    let rows = Batch {
        tokens: vec![1; 10_000],
        offsets: vec![0, 10_000],
        labels: Labels::Class(vec![0]),
        width: 10_000,
        depths: None,
        given: vec![],
    };
    let root = run::<f64>(&graph, &table, &rows, Halting::Compact).outputs["root"][0];
    assert!(root > 1e6 && root.is_finite());
}

// The goldens.

pub(super) fn goldens() -> Option<Json> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/fixtures/recursive_goldens.json");
    let path = std::env::var_os("RTC_RECURSIVE").map_or(default, PathBuf::from);
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("skipped: there is no {}", path.display());
        return None;
    };
    Some(serde_json::from_str(&text).expect("the goldens are JSON"))
}

/// `[rows][positions][channels]` as numbers.
pub(super) fn nested(json: &Json) -> Vec<f64> {
    match json {
        Json::Array(items) => items.iter().flat_map(nested).collect(),
        number => vec![number.as_f64().expect("a number")],
    }
}

fn spec(source: &str) -> Spec {
    models::parse(source)
}

/// Parameter `p` of the reference (from 1), flat: `0.5 sin(0.7 i + p)`, a tenth of it for norms, around 1 for gains.
fn formula(name: &str, p: usize, count: usize) -> Vec<f64> {
    let norm = name.split('.').any(|part| part == "ln");
    let centre = if name.ends_with("ln.weight") { 1.0 } else { 0.0 };
    let scale = if norm { 0.1 } else { 0.5 };
    (0..count).map(|i| centre + scale * (0.7 * i as f64 + p as f64).sin()).collect()
}

/// Our name of a parameter of the reference.
pub(super) fn ours(name: &str, fold: &str, cell: &str) -> String {
    let (part, rest) = name.split_once('.').unwrap_or(("cell", name));
    let (part, rest) = if matches!(part, "up" | "down" | "ln") { ("cell", name) } else { (part, rest) };
    let place = match part {
        "lift" => format!("{fold}.leaf"),
        "tree" => format!("{}.score", cell.trim_end_matches(".grc")),
        _ => cell.to_owned(),
    };
    let rest = rest.replace("scorer.a.", "hidden.").replace("scorer.b.", "output.");
    let rest = rest.replace("lin.", "linear.").replace("ln.", "norm.");
    format!("{place}.{rest}")
}

/// Weights by the formula for a model whose head hands its input on; the rows of the embedding are the given numbers.
fn golden_weights(graph: &Graph, names: &[String], (fold, cell): (&str, &str), x: &[f64]) -> Arrays {
    let mut weights = weights(graph, 0, 0.0);
    let width = weights["head.output.bias"].len();
    for (p, name) in names.iter().enumerate().filter(|(_, name)| !name.starts_with("s4.")) {
        let target = weights.get_mut(&ours(name, fold, cell)).unwrap_or_else(|| panic!("no place for {name}"));
        *target = formula(name, p + 1, target.len());
    }
    let identity = (0..width * width).map(|n| if n % (width + 1) == 0 { 1.0 } else { 0.0 }).collect();
    weights.insert("head.output.weight".to_owned(), identity);
    weights.insert("head.output.bias".to_owned(), vec![0.0; width]);
    weights.get_mut("embed.table").expect("tokens are embedded")[..x.len()].copy_from_slice(x);
    weights
}

/// The logits of a model of width 4 for rows of positions of `x`, padded to `size`, in one batch.
fn golden_logits(source: &str, names: &[String], place: (&str, &str), x: &[f64], lengths: &[usize]) -> Vec<f64> {
    golden_search(source, names, place, x, lengths, None)
}

/// The same with these draws of a search.
pub(super) fn golden_search(
    source: &str,
    names: &[String],
    place: (&str, &str),
    x: &[f64],
    lengths: &[usize],
    noise: Option<Rc<dyn NoiseSource>>,
) -> Vec<f64> {
    let binding = Binding { vocab: Some(x.len() / 4), classes: Some(4), objective: Objective::Classify };
    let graph = pipeline::inference(&spec(source), &binding).expect("the model lowers");
    let weights = golden_weights(&graph, names, place, x);
    let size = x.len() / 4 / lengths.len();
    let mut rows = counting(lengths, size);
    rows.tokens =
        lengths.iter().enumerate().flat_map(|(row, n)| (row * size..row * size + n).map(|t| t as u32)).collect();
    let mut executor = executor::<f64>(&graph, &weights, Halting::Compact);
    executor.noise = noise;
    let outputs = executor.run(&rows, Key::new(0)).expect("the batch fits");
    outputs.real("logits").expect("the model classifies").to_vec()
}

pub(super) fn names(json: &Json) -> Vec<String> {
    let list = json.as_array().expect("a list of names");
    list.iter().map(|n| n.as_str().expect("a name").to_owned()).collect()
}

pub(super) fn lengths(json: &Json) -> Vec<usize> {
    nested(&json["lengths"]).into_iter().map(|n| n as usize).collect()
}

#[track_caller]
pub(super) fn agrees(what: &str, found: &[f64], expected: &[f64]) {
    let far = distance(found, expected);
    assert!(far < 1e-10, "{what}: {far:e} from the reference: {found:?}, {expected:?}");
}

const TREE: &str = "model m {
    embed { width: 4 }
    recurse balanced { arity: 2, cell grc { hidden: 16 } }
    readout root
    head linear
}";

#[test]
fn the_cell_and_the_binary_tree_agree_with_the_reference() {
    let Some(goldens) = goldens() else { return };
    let case = &goldens["gate3"];
    let x = [nested(&case["left"]), nested(&case["right"])].concat();
    let source = TREE.replace("cell grc", "leaf none, cell grc");
    let found = golden_logits(&source, &names(&case["order"]), ("balanced", "balanced.grc"), &x, &[2]);
    agrees("cell grc", &found, &nested(&case["out"]));

    let case = &goldens["bbt"];
    let (x, place) = (nested(&case["x"]), ("balanced", "balanced.grc"));
    let found = golden_logits(TREE, &names(&case["params"]), place, &x, &lengths(case));
    agrees("bbt_grc", &found, &nested(&case["out"]));
}

#[test]
fn recursion_in_recursion_agrees_with_the_reference() {
    let Some(goldens) = goldens() else { return };
    let case = &goldens["rir_grc_k3"];
    let (names, lengths) = (names(&case["params"]), lengths(case));
    let x = state_space::layer(&names, &nested(&case["x"]), &lengths);
    // The reference cuts by the width of the padded batch.
    let source = "model m {
        embed { width: 4 }
        recurse balanced { arity: 3, plan: batch, recurse chain { cell grc { hidden: 16 } } }
        readout root
        head linear
    }";
    let found = golden_logits(source, &names, ("balanced", "balanced.chain.grc"), &x, &lengths);
    agrees("rir_grc", &found, &nested(&case["out"]));
}

/// The S4D layer before the folds of the reference, straight from its definition, position by position.
pub(crate) mod state_space {
    use super::formula;

    /// Complex numbers, real and imaginary part.
    type C = (f64, f64);

    fn mul(a: C, b: C) -> C {
        (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
    }

    fn div(a: C, b: C) -> C {
        let norm = b.0 * b.0 + b.1 * b.1;
        mul(a, (b.0 / norm, -b.1 / norm))
    }

    /// Modes of a channel.
    const MODES: usize = 2;
    /// Channels of a position.
    const D: usize = 4;

    struct Weights<'a> {
        names: &'a [String],
    }

    impl Weights<'_> {
        fn get(&self, name: &str, count: usize) -> Vec<f64> {
            let name = format!("s4.{name}");
            let p = self.names.iter().position(|n| *n == name).expect("the reference lists it");
            formula(&name, p + 1, count)
        }
    }

    /// `K[l] = 2 Re sum_m wgt_m abar_m^l` of every channel.
    fn kernel(w: &Weights<'_>, length: usize) -> Vec<Vec<f64>> {
        let h = 2 * D;
        let (log_dt, log_re, im) = (w.get("log_dt", h), w.get("log_re", h * MODES), w.get("im", h * MODES));
        let (b, c) = (w.get("b", h * MODES * 2), w.get("c", h * MODES * 2));
        let mut out = vec![vec![0.0; length]; h];
        for channel in 0..h {
            let dt = log_dt[channel].exp();
            for mode in 0..MODES {
                let n = channel * MODES + mode;
                let half = (-0.5 * dt * log_re[n].exp(), -0.5 * dt * im[n]);
                let step = div((1.0 + half.0, half.1), (1.0 - half.0, -half.1));
                let weight = mul((b[2 * n], b[2 * n + 1]), (c[2 * n] * dt, c[2 * n + 1] * dt));
                let mut power = div(weight, (1.0 - half.0, -half.1));
                for k in &mut out[channel] {
                    *k += 2.0 * power.0;
                    power = mul(power, step);
                }
            }
        }
        out
    }

    fn gelu(x: f64) -> f64 {
        0.5 * x * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2))
    }

    /// The layer on rows of `x`, each padded to the same width: one half of the channels forwards, the other backwards, a
    /// gated linear unit, and the input added.
    pub(crate) fn layer(names: &[String], x: &[f64], lengths: &[usize]) -> Vec<f64> {
        let w = Weights { names };
        let size = x.len() / D / lengths.len();
        let (kernel, skip) = (kernel(&w, size), w.get("skip", 2 * D));
        let (mix, bias) = (w.get("mix.weight", 4 * D * D), w.get("mix.bias", 2 * D));
        let mut out = x.to_vec();
        for (row, &length) in lengths.iter().enumerate() {
            let at = |t: usize, channel: usize| x[(row * size + t) * D + channel];
            let mut y = vec![vec![0.0; 2 * D]; length];
            for channel in 0..2 * D {
                let back = channel >= D;
                let u = |t: usize| if back { at(length - 1 - t, channel - D) } else { at(t, channel) };
                for t in 0..length {
                    let sum: f64 = (0..=t).map(|s| kernel[channel][t - s] * u(s)).sum();
                    y[if back { length - 1 - t } else { t }][channel] = gelu(sum + skip[channel] * u(t));
                }
            }
            for (t, y) in y.iter().enumerate() {
                let z = |n: usize| bias[n] + (0..2 * D).map(|k| mix[n * 2 * D + k] * y[k]).sum::<f64>();
                for channel in 0..D {
                    out[(row * size + t) * D + channel] += z(channel) / (1.0 + (-z(channel + D)).exp());
                }
            }
        }
        out
    }
}

// Cells.

/// `W x + b` by the numbers of a parameter pair.
fn linear(weights: &Arrays, name: &str, x: &[f64]) -> Vec<f64> {
    let (w, b) = (&weights[&format!("{name}.weight")], &weights[&format!("{name}.bias")]);
    let row = |n: usize| w[n * x.len()..(n + 1) * x.len()].iter().zip(x).map(|(w, x)| w * x).sum::<f64>();
    (0..b.len()).map(|n| row(n) + b[n]).collect()
}

/// The next state and memory of a cell, number by number, from its definition.
fn cell(kind: &str, weights: &Arrays, state: &[f64], memory: &[f64], x: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let place = format!("chain.{kind}");
    let (a, b) = (linear(weights, &format!("{place}.input"), x), linear(weights, &format!("{place}.state"), state));
    let d = x.len();
    let gate = |block: usize, n: usize| sigmoid(a[block * d + n] + b[block * d + n]);
    let each = |f: &dyn Fn(usize) -> f64| (0..d).map(f).collect::<Vec<f64>>();
    match kind {
        "elman" => (each(&|n| (a[n] + b[n]).tanh()), vec![]),
        "gru" => {
            let new = |n: usize| (a[2 * d + n] + gate(0, n) * b[2 * d + n]).tanh();
            (each(&|n| gate(1, n) * state[n] + (1.0 - gate(1, n)) * new(n)), vec![])
        }
        _ => {
            let new = |n: usize| (a[3 * d + n] + b[3 * d + n]).tanh();
            let memory = each(&|n| gate(1, n) * memory[n] + gate(0, n) * new(n));
            (each(&|n| gate(2, n) * memory[n].tanh()), memory)
        }
    }
}

#[test]
fn plain_cells_compute_what_they_say() {
    const D: usize = 3;
    for kind in ["elman", "gru", "lstm"] {
        let source = format!(
            "model m {{ embed {{ width: {D} }}, recurse chain {{ leaf none, cell {kind} }}, readout root, head linear }}"
        );
        let binding = Binding { vocab: Some(8), classes: Some(4), objective: Objective::Classify };
        let graph = pipeline::inference(&spec(&source), &binding).expect("the model lowers");
        let weights = weights(&graph, 6, 0.8);
        let lengths = [5, 1, 7];
        let found = &run::<f64>(&graph, &weights, &counting(&lengths, 7), Halting::Compact).outputs["logits"];
        let row = |length: &usize| {
            let (mut state, mut memory) = (vec![0.0; D], vec![0.0; D]);
            for token in 1..=*length {
                let x = &weights["embed.table"][token * D..(token + 1) * D];
                (state, memory) = cell(kind, &weights, &state, &memory, x);
            }
            linear(&weights, "head.output", &state)
        };
        let expected: Vec<f64> = lengths.iter().flat_map(row).collect();
        assert!(distance(found, &expected) < 1e-12, "{kind}: {found:?}, {expected:?}");
    }
}

// Nestings.

fn nestings() -> Vec<Model> {
    models::cases("nestings.rt", Objective::Classify)
}

/// The gradients of a model are slopes of its loss.
pub(super) fn check_slopes(model: &Model) {
    let forward = model.with_loss();
    let rows = batch(&[9, 1, 14, 2], VOCAB as u64, CLASSES as u64, 4);
    let weights = weights(&forward, 4, 0.4);
    let steady: &[&str] = if model.halts() { &["depth"] } else { &[] };
    check_gradients(&model.name, (&forward, &differentiated(&forward)), &weights, &rows, Some(3), steady, 1e-6);
}

/// Passes and the three halting policies change no number of a model.
pub(super) fn check_ways_to_run(model: &Model) {
    let plain = differentiated(&model.with_loss());
    let rows = batch(&[9, 1, 14, 2, 23], VOCAB as u64, CLASSES as u64, 4);
    let weights = weights(&plain, 4, 0.4);
    let expected = run::<f64>(&plain, &weights, &rows, Halting::Compact);
    let mut optimised = plain.clone();
    pass::optimise(&mut optimised);
    pass::finish(&mut optimised);
    for halting in [Halting::Compact, Halting::Batch, Halting::Never] {
        let found = run::<f64>(&optimised, &weights, &rows, halting);
        assert_same(&format!("{} {halting:?}", model.name), &found, &expected, 1e-10);
    }
}

#[test]
fn gradients_of_nestings_are_slopes() {
    let all = nestings();
    assert!(all.len() >= 6);
    all.iter().chain(&models::cases("folds.rt", Objective::Classify)).for_each(check_slopes);
}

#[test]
fn nestings_compute_the_same_however_they_are_run() {
    nestings().iter().for_each(check_ways_to_run);
}

#[test]
fn nestings_learn() {
    for model in nestings() {
        let binding = binding(Objective::Classify);
        let (training, inference) =
            pipeline::plans(&model.spec, &binding).unwrap_or_else(|e| panic!("{}: {e}", model.name));
        let mut trained = Trained::<f32>::new(training, inference, binding, 3);
        let rule = UpdateRule { learning_rate: 0.01, weight_decay: 0.0, clip: Some(1.0), ..UpdateRule::ADAMW };
        let rows = batch(&[9, 1, 14, 2, 23, 6], VOCAB as u64, CLASSES as u64, 4);
        let mut losses = vec![];
        for _ in 0..50 {
            let report = trained.accumulate(&rows, 1.0).expect("the batch fits");
            losses.push(report.task_loss);
            trained.update(&rule).expect("the gradients are finite");
        }
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        let (first, last) = (mean(&losses[..5]), mean(&losses[45..]));
        assert!(last < 0.8 * first, "{}: {first} at first, {last} after 50 steps", model.name);
    }
}

/// Two equal chunks of a row, and equal chunks of two levels, draw masks of their own: with one mask for all of them the sum
/// over copies of one token would be a multiple of one of its terms.
#[test]
fn every_chunk_draws_masks_of_its_own() {
    let source = "graph \"masks\" {
        %tokens = input {name: \"tokens\"} : u32[batch, length]
        %table = param {name: \"table\", init: zeros} : f32[2, 1]
        %x = embed %tokens, %table : f32[batch, length, 1]
        %root, %kept = fold %x {arity: 2, last: strict, plan: row, over: length, axis: node} : f32[batch, 1], f32[batch] (%n: f32[batch, node, 1]) {
          %ones = full %n {value: 1.0, rank: 1} : f32[batch]
          %drawn = dropout %ones {p: 0.5, stream: 1} : f32[batch]
          %v = mean %n : f32[batch, 1]
          yield %v, %drawn
        }
        return %kept {names: \"kept\"}
        }";
    let graph = graph(source);
    let table: Arrays = [("table".to_owned(), vec![1.0, 1.0])].into();
    let rows = batch(&[512, 512], 2, 2, 1);
    let kept = &run::<f64>(&graph, &table, &rows, Halting::Compact).outputs["kept"];
    // 511 draws of 0 or 2 each.
    assert!(kept.iter().all(|mean| (mean - 1.0).abs() < 0.25 && *mean != 0.0 && *mean != 2.0), "{kept:?}");
    assert_ne!(kept[0], kept[1], "rows differ, too");
}
