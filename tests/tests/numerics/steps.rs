//! Attention to the keys of all steps so far, in the model that it is for: a CoTFormer beside the numbers of an independent PyTorch
//! implementation, position by position, on several threads, and what it keeps for its backward run.
//!
//! Source: Mohtashami et al. 2023 (CoTFormer), arXiv:2310.10845.
#![allow(clippy::print_stderr, reason = "a skipped comparison says why")]

use rtc_base::rng::Key;
use rtc_compiler::ir::graph::{Graph, MAIN};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::pass;
use rtc_exec::Halting;
use rtc_tests::fixture::{Comparison, DOUBLE, Fixture, SINGLE, Tolerance, folder};
use rtc_tests::models::VOCAB;
use rtc_tests::numeric::{self, Arrays, Run, batch, differentiated, executor, graph, labelled_tokens, weights};

use crate::incremental::difference;

/// The type of the states, and that of the keys of all steps.
const STATE: &str = "f32[batch, length, 12]";

fn parameters(layer: &str) -> String {
    let id = layer.replace('.', "_");
    let one = |name: &str, dims: &str| {
        let own = name.replace('.', "_");
        format!("%{id}_{own} = param {{name: \"{layer}.{name}.weight\", init: ones}} : f32[{dims}]\n")
    };
    let maps = ["attn.q", "attn.k", "attn.v", "attn.o"].map(|name| one(name, "12, 12")).concat();
    let norms = ["norm1", "norm2"].map(|name| one(name, "12")).concat();
    maps + &norms + &one("ffn.up", "8, 12") + &one("ffn.down", "12, 8")
}

/// A layer from `x` to `y`, with attention to what `keys` makes of `k` and `v`.
fn layer(layer: &str, n: &str, [x, y]: [&str; 2], keys: [&str; 2], set: &str) -> String {
    let p = |name: &str| format!("%{}_{name}", layer.replace('.', "_"));
    let [q, k, v, o, up, down] = ["attn_q", "attn_k", "attn_v", "attn_o", "ffn_up", "ffn_down"].map(p);
    let [norm1, norm2] = ["norm1", "norm2"].map(p);
    let [keys, values] = keys;
    format!(
        "%n1{n} = layer_norm {x}, {norm1} {{eps: 1e-5}} : {STATE}
         %lq{n} = linear %n1{n}, {q} : {STATE}
         %lk{n} = linear %n1{n}, {k} : {STATE}
         %v{n} = linear %n1{n}, {v} : {STATE}
         %q{n} = rotate %lq{n} {{kind: rope, heads: 3}} : {STATE}
         %k{n} = rotate %lk{n} {{kind: rope, heads: 3}} : {STATE}
         {set}
         %a{n} = attention %q{n}, {keys}, {values} {{heads: 3, mask: causal}} : {STATE}
         %o{n} = linear %a{n}, {o} : {STATE}
         %h{n} = add {x}, %o{n} : {STATE}
         %n2{n} = layer_norm %h{n}, {norm2} {{eps: 1e-5}} : {STATE}
         %u{n} = linear %n2{n}, {up} : f32[batch, length, 8]
         %g{n} = gelu %u{n} : f32[batch, length, 8]
         %d{n} = linear %g{n}, {down} : {STATE}
         {y} = add %h{n}, %d{n} : {STATE}\n"
    )
}

/// A layer, a layer that is repeated, and one behind it, with the loss of an answer per token.
fn cotformer(steps: usize, vocab: usize, loss: bool) -> Graph {
    let all = format!("f32[batch, length, {steps}, 12]");
    let params = ["before.0", "core.0", "behind.0"].map(parameters).concat();
    let set = format!("%ks = slot_set %ks_in, %k1, %step : {all}\n%vs = slot_set %vs_in, %v1, %step : {all}");
    let (end, names) = match loss {
        true => (
            "%labels = input {name: \"labels\"} : u32[batch, length]
             %weights = input {name: \"weights\"} : f32[batch, length]
             %each = cross_entropy_each %logits, %labels : f32[batch, length]
             %loss = average %each, %weights : f32[]",
            ("%logits, %loss", "logits, loss"),
        ),
        false => ("", ("%logits", "logits")),
    };
    graph(&format!(
        "graph \"cotformer\" {{
         %tokens = input {{name: \"tokens\"}} : u32[batch, length]
         %table = param {{name: \"embed\", init: ones}} : f32[{vocab}, 12]
         %norm = param {{name: \"norm_f.weight\", init: ones}} : f32[12]
         {params}
         %x = embed %tokens, %table : {STATE}
         {}
         %none = full %x0 {{value: 0.0, rank: 3, count: {steps}}} : {all}
         %x1, %k_all, %v_all = recur %x0, %none, %none {{bound: {steps}}} : {STATE}, {all}, {all} (%s: {STATE}, %ks_in: {all}, %vs_in: {all}, %step: u32[]) {{
         {}
         yield %next, %ks, %vs
         }}
         {}
         %closed = layer_norm %x2, %norm {{eps: 1e-5}} : {STATE}
         %logits = linear %closed, %table : f32[batch, length, {vocab}]
         {end}
         return {} {{names: \"{}\"}}
         }}",
        layer("before.0", "0", ["%x", "%x0"], ["%k0", "%v0"], ""),
        layer("core.0", "1", ["%s", "%next"], ["%ks", "%vs, %step"], &set),
        layer("behind.0", "2", ["%x1", "%x2"], ["%k2", "%v2"], ""),
        names.0,
        names.1,
    ))
}

/// The graph of a training step as it is run.
fn trained(steps: usize) -> Graph {
    let mut graph = cotformer(steps, VOCAB, true);
    pass::optimise(&mut graph);
    let mut graph = differentiated(&graph);
    pass::optimise(&mut graph);
    pass::finish(&mut graph);
    graph
}

#[test]
fn a_cotformer_gives_the_published_numbers() {
    let folder = folder("RTC_ROUTING", "routing").join("cotformer");
    if !folder.join("meta.json").exists() {
        eprintln!("skipped: no {}", folder.display());
        return;
    }
    let fixture = Fixture::read(&folder);
    let numbers: Arrays = fixture.weights.iter().map(|(name, tensor)| (name.clone(), tensor.data.clone())).collect();
    let graph = differentiated(&cotformer(3, 9, true));
    let mut comparison = Comparison::default();
    let mut compare = |found: &Run, limit: Tolerance| {
        comparison.check("logits", &found.outputs["logits"], &fixture.logits(), 1.0, limit.outputs);
        comparison.check("loss", &found.outputs["loss"], &fixture.io["loss"].data, 1.0, limit.outputs);
        let largest = fixture.gradients.values().flat_map(|t| &t.data).fold(0.0, |m: f64, v| m.max(v.abs()));
        for (name, expected) in &fixture.gradients {
            let what = format!("gradient of {name}");
            comparison.check(&what, &found.gradients[name], &expected.data, largest * 1e-3, limit.gradients);
        }
    };
    let batch = fixture.batch();
    compare(&numeric::run::<f64>(&graph, &numbers, &batch, Halting::Compact), DOUBLE);
    compare(&numeric::run::<f32>(&graph, &numbers, &batch, Halting::Compact), SINGLE);
    assert!(comparison.faults.is_empty(), "\n{}", comparison.faults.join("\n"));
}

#[test]
fn new_positions_see_all_steps_of_the_earlier_ones() {
    let graph = cotformer(3, VOCAB, false);
    let mut executor = executor::<f64>(&graph, &weights(&graph, 3, 0.4), Halting::Compact);
    let worst = difference("cotformer", &mut executor, 5).unwrap_or_else(|fault| panic!("{fault}"));
    assert!(worst < 1e-12, "{worst}");
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let graph = trained(3);
    let (numbers, rows) =
        (weights(&graph, 3, 0.4), labelled_tokens(batch(&[70, 3, 40, 120], VOCAB as u64, 2, 5), 2, 5));
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool starts");
        pool.install(|| numeric::run::<f32>(&graph, &numbers, &rows, Halting::Compact))
    };
    let one = run(1);
    for threads in [2, 3] {
        let other = run(threads);
        assert_eq!(one.outputs, other.outputs, "{threads} threads");
        assert_eq!(one.gradients, other.gradients, "{threads} threads");
    }
}

/// No step saves an array of all steps, so twice as many steps take twice the memory and not four times.
#[test]
fn no_step_saves_the_keys_of_all_steps() {
    let rows = labelled_tokens(batch(&[40; 4], VOCAB as u64, 2, 5), 2, 5);
    let peak = |steps: usize| {
        let graph = trained(steps);
        for id in graph.walk(MAIN) {
            let node = graph.node(id);
            let whole = node.operands.iter().any(|v| graph.ty(*v).dims().len() > 3);
            assert!(node.op != Op::Save || !whole, "an array of all steps is saved");
        }
        let mut executor = executor::<f32>(&graph, &weights(&graph, 3, 0.4), Halting::Compact);
        executor.run(&rows, Key::new(1)).expect("the batch fits");
        executor.arena().usage().most as f64
    };
    let [few, many, most] = [8, 16, 32].map(peak);
    assert!((many - few) * 1.9 < most - many && most - many < (many - few) * 2.1, "{few}, {many}, {most}");
}
