//! Incremental runs against runs over the whole row: the same logits position by position, however the row is cut into runs, for
//! every model whose answers are proved to see the past alone.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rtc_base::batch::{Batch, Given};
use rtc_base::rng::Key;
use rtc_compiler::causality::leaks;
use rtc_compiler::check::{Loader, check_form};
use rtc_compiler::incremental::incremental;
use rtc_compiler::ir::graph::Graph;
use rtc_compiler::lower::{Binding, Objective};
use rtc_compiler::pipeline;
use rtc_compiler::plan::plan;
use rtc_compiler::schema::Catalog;
use rtc_compiler::source::Source;
use rtc_exec::storage::Element;
use rtc_exec::{Executor, Halting, Past};
use rtc_task::documents;
use rtc_tests::models::{self, Model, VOCAB};
use rtc_tests::numeric::{self, batch, executor, strong};

/// Positions of the rows: over the chunks of all models, and over the length from which scans are transformed.
const LENGTHS: [usize; 4] = [1, 4, 37, 75];

/// Edits that make models see positions in other ways, tried where a model has the place.
const WAYS: &[&[&str]] = &[
    &[],
    &["self.position: rope"],
    &["self.position: none"],
    &["self.position: none", "embed.position: sinusoidal"],
    &["self.position: relative_xl"],
    &["chunkwise.positions: global"],
];

/// What a language model answers: one of its tokens.
fn binding() -> Binding {
    Binding { vocab: Some(VOCAB), classes: Some(VOCAB), objective: Objective::Each }
}

fn graph(model: &Model) -> Graph {
    pipeline::inference(&model.spec, &binding()).unwrap_or_else(|e| panic!("{}: {e}", model.name))
}

/// The values of the positions of a row from one on, by its tokens.
type Values = fn(&[u32], usize) -> Vec<Given>;

/// The logits of all positions, from runs over `first` positions, then one by one, but every seventh time three at once.
fn extended<T: Element>(
    executor: &mut Executor<T>,
    past: &mut Past<T>,
    (tokens, given): (&[u32], Values),
    first: usize,
) -> Vec<f64> {
    let (mut from, mut logits, mut n) = (0, vec![], 0);
    while from < tokens.len() {
        let count = if from == 0 { first } else { 1 + 2 * usize::from(n % 7 == 3) };
        let end = tokens.len().min(from + count);
        let given = given(&tokens[..end], from);
        let found = executor.extend(past, (&tokens[from..end], &given), Key::new(0));
        let found = found.unwrap_or_else(|f| panic!("{f}"));
        logits.extend(found.iter().map(|x| x.to_f64()));
        (from, n) = (end, n + 1);
    }
    logits
}

/// The largest difference between incremental runs and those over the whole row, over rows of several lengths.
pub(crate) fn difference<T: Element>(name: &str, executor: &mut Executor<T>, seed: u64) -> Result<f64, String> {
    difference_with(name, executor, seed, |_, _| vec![])
}

/// The same, of rows that come with values.
fn difference_with<T: Element>(
    name: &str,
    executor: &mut Executor<T>,
    seed: u64,
    given: Values,
) -> Result<f64, String> {
    let how = Arc::new(incremental(executor.plan(), "logits").map_err(|why| format!("{name}: {why}"))?);
    let mut worst = 0.0_f64;
    for (n, length) in LENGTHS.into_iter().enumerate() {
        let row = batch(&[length], VOCAB as u64, 2, seed + n as u64);
        let row = Batch { given: given(&row.tokens, 0), ..row };
        let whole = executor.run(&row, Key::new(0)).map_err(|fault| format!("{name}: {fault}"))?;
        let whole: Vec<f64> = whole.real("logits").expect("logits").iter().map(|x| x.to_f64()).collect();
        let scale = whole.iter().fold(1.0_f64, |most, x| most.max(x.abs()));
        for first in [1, 3, 30] {
            let mut past = Past::new(how.clone());
            let found = extended(executor, &mut past, (&row.tokens, given), first);
            assert_eq!((found.len(), past.positions()), (whole.len(), length), "{name}");
            let off = |(a, b): (&f64, &f64)| (a - b).abs() / scale;
            // NaN is far, too.
            let far = found.iter().zip(&whole).position(|pair| off(pair) >= 1e-5 || off(pair).is_nan());
            if let Some(at) = far {
                let (a, b) = (found[at], whole[at]);
                return Err(format!("{name}: logit {at} of {length} positions, {first} first: {a} and {b}"));
            }
            worst = found.iter().zip(&whole).map(off).fold(worst, f64::max);
        }
    }
    Ok(worst)
}

/// Every model with such edits whose answers are proved to see the past alone.
fn causal(edits: &[&str]) -> Vec<(Model, Graph)> {
    // What is computed for chosen positions alone needs the whole row.
    let models = models::all(Objective::Each, edits).into_iter().filter(|model| !model.chooses());
    let graphs = models.map(|model| (graph(&model), model)).map(|(graph, model)| (model, graph));
    graphs.filter(|(_, graph)| leaks(graph, "logits").is_empty()).collect()
}

#[test]
fn new_positions_give_what_the_whole_row_gives() {
    let (mut seen, mut faults, mut refused) = (BTreeMap::new(), vec![], BTreeMap::new());
    for edits in WAYS {
        for (model, graph) in causal(edits) {
            for seed in 1..3 {
                let mut executor = executor::<f32>(&graph, &strong(&graph, seed), Halting::Compact);
                if let Err(why) = incremental(executor.plan(), "logits") {
                    refused.insert(model.name.clone(), why.to_string());
                    continue;
                }
                match difference(&model.name, &mut executor, seed) {
                    Ok(worst) => {
                        let most = seen.entry(model.name.clone()).or_insert(0.0_f64);
                        *most = most.max(worst);
                    }
                    Err(fault) => faults.push(format!("{fault} {edits:?}")),
                }
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    // Their rows leave as a whole, by their first position or by nothing of them; positions before a row are another matter.
    let whole = ["explored", "graves", "hrm", "pondernet", "prefixed", "trm", "urm"];
    refused.retain(|name, _| !whole.contains(&name.split(':').next().unwrap_or_default()));
    assert!(refused.is_empty(), "{refused:?}");
    let named = [
        "causal_parts",
        "chunks",
        "fox",
        "gut:token_halt",
        "gutlb",
        "mega:causal",
        "moba",
        "regular_gpt",
        "s4d:causal",
        "ssmax",
        "tlb",
        "two_memories",
        "ut",
    ];
    for name in named {
        assert!(seen.contains_key(name), "{name} is not among {:?}", seen.keys());
    }
    // A scan is a transform over the row and a recurrence here; all else adds the same numbers in the same order.
    let scans = |name: &str| ["mega", "s4d"].iter().any(|scan| name.starts_with(scan));
    let other: Vec<_> = seen.iter().filter(|(name, worst)| !scans(name) && **worst > 0.0).collect();
    assert!(other.is_empty(), "not bit by bit: {other:?}");
}

/// A cache of fewer heads than read it, capped scores, and rotations of a part of the channels.
#[test]
fn shared_keys_give_what_the_whole_row_gives() {
    let mut seen = vec![];
    for edits in [WAYS[0], WAYS[1], WAYS[4]] {
        let few = ["regular_gpt", "tlb", "two_memories", "ut"];
        for (model, graph) in causal(edits).into_iter().filter(|(model, _)| few.contains(&model.name.as_str())) {
            let graph = models::with_shared_keys(&graph);
            let mut executor = executor::<f32>(&graph, &strong(&graph, 1), Halting::Compact);
            let worst = difference(&model.name, &mut executor, 1).unwrap_or_else(|fault| panic!("{fault} {edits:?}"));
            assert!(worst == 0.0, "{} {edits:?}: {worst:e} and not bit by bit", model.name);
            seen.push(model.name);
        }
    }
    assert!(seen.len() >= 9, "{seen:?}");
}

/// Values of every token: documents in masks, in a loop whose positions leave by themselves, too, and vectors in equations.
#[test]
fn values_of_tokens_come_with_new_positions() {
    let given = |tokens: &[u32], from: usize| {
        let hints = tokens[from..].iter().flat_map(|token| (0..8).map(move |n| f64::from(token * 3 + n) / 16.0));
        vec![documents(tokens, 3, from), Given { name: "hint".into(), numbers: hints.collect() }]
    };
    let attention = "state = state + attention(norm(state)) { heads: 2, mask: own(document), bias: -0.1 * document[i] * document[j] }";
    for (name, body) in [
        ("masks", attention.to_owned()),
        ("equations", format!("hint = given(state)\nstate = state + tanh(hint * state)\n{attention}")),
        ("loops", format!("loop {{\nsteps: 3\n{attention}\nstate = state + norm(state)\n}}")),
        (
            "halting",
            format!(
                "recur depthwise {{\ndepth: 4\nhalt token {{ threshold: 0.6 }}\n{attention}\nfeedforward {{ hidden: 16 }}\n}}"
            ),
        ),
    ] {
        let text = format!(
            "mask own(d) = j <= i and d[i] == d[j]\nmodel m {{\nembed {{ width: 8 }}\ndocument = given(positions(state))\n{body}\nreadout each\n}}\n"
        );
        let graph = pipeline::inference(&models::parse(&text), &binding()).unwrap_or_else(|e| panic!("{name}: {e}"));
        for seed in 1..4 {
            let mut executor = executor::<f32>(&graph, &strong(&graph, seed), Halting::Compact);
            assert_eq!(difference_with(name, &mut executor, seed, given), Ok(0.0), "{name}");
            let none = difference_with(name, &mut executor, seed, |_, _| vec![]);
            assert!(none.is_err_and(|why| why.contains("takes `document` from the examples")), "{name}");
        }
    }
}

/// Ops that no spec has, on the states of tokens.
fn convolution(body: &str) -> Graph {
    numeric::graph(&format!(
        "graph \"convolution\" {{
           %tokens = input {{name: \"tokens\"}} : u32[batch, length]
           %table = param {{name: \"table\", init: normal(0.5)}} : f32[{VOCAB}, {VOCAB}]
           %w = param {{name: \"w\", init: normal(0.5)}} : f32[{VOCAB}]
           %x = embed %tokens, %table : f32[batch, length, {VOCAB}] @ embed
           {body}
           return %y {{names: \"logits\"}}
         }}"
    ))
}

#[test]
fn convolutions_keep_the_positions_that_they_read() {
    let wide = format!("f32[batch, length, {VOCAB}]");
    let body = format!(
        "%one = shift %x {{side: left, lag: 1}} : {wide}
         %many = shift %one {{side: left, lag: 5}} : {wide}
         %far = affine %many, %w : {wide}
         %sum = map %x, %one, %far {{f: add(a, add(b, c))}} : {wide}
         %n = rms_norm %sum {{eps: 0.001}} : {wide}
         %p = softmax %n : {wide}
         %m = reduce %p {{by: max}} : f32[batch, length, 1]
         %number = squeeze %m : f32[batch, length]
         %before = shift %number {{side: left, lag: 3}} : f32[batch, length]
         %y = add_scaled %sum, %n, %before : {wide}"
    );
    let graph = convolution(&body);
    let mut executor = executor::<f32>(&graph, &strong(&graph, 1), Halting::Compact);
    assert_eq!(difference("convolution", &mut executor, 1), Ok(0.0));
}

#[test]
fn ops_along_the_row_are_named() {
    let wide = format!("f32[batch, length, {VOCAB}]");
    for (body, why) in [
        (format!("%y = shift %x {{side: right, lag: 1}} : {wide}"), "`shift` reads positions behind its own"),
        (
            format!(
                "%m = reduce %x {{by: max}} : f32[batch, length, 1]
                 %s = squeeze %m : f32[batch, length]
                 %p = softmax %s : f32[batch, length]
                 %y = mul_unit %x, %p : {wide}"
            ),
            "`softmax` goes along the row",
        ),
        (
            format!(
                "%m = reduce %x {{by: max}} : f32[batch, length, 1]
                 %s = squeeze %m : f32[batch, length]
                 %c = top %s {{of: 2}} : f32[batch, length]
                 %y = mul_unit %x, %c : {wide}"
            ),
            "`top` goes along the row",
        ),
        (
            format!(
                "%m = reduce %x {{by: max}} : f32[batch, length, 1]
                 %s = squeeze %m : f32[batch, length]
                 %y = chunks %s, %x {{carried: 0, cut: chosen, over: length, axis: chosen}} : {wide} (
                     %c: f32[batch, chosen], %z: f32[batch, chosen, {VOCAB}]
                 ) {{
                     yield %z
                 }}"
            ),
            "`chunks` computes the chosen positions of the row together",
        ),
    ] {
        assert_eq!(incremental(&plan(convolution(&body)), "logits").expect_err(why), why);
    }
}

#[test]
fn what_needs_the_whole_row_is_named() {
    let cases = [
        ("gut.rt", "gut", "`frame` of embed puts END behind the row"),
        ("tlb.rt", "tlb:fixed", "cuts the row by its length"),
        ("looped.rt", "looped", "takes as many steps as the row or the example says"),
        ("rir_grc.rt", "rir_grc", "reads positions behind its own"),
    ];
    let folder = models::Folder(Path::new(env!("CARGO_MANIFEST_DIR")).join("../specs"));
    for (file, name, why) in cases {
        let source = Source::new(file, folder.load(file).expect("the spec exists"));
        let (spec, ..) = check_form(&folder, source, Some(name), &[], &Catalog::default());
        let graph = pipeline::inference(&spec.expect("a spec without errors"), &binding()).expect("it lowers");
        let found = incremental(&plan(graph), "logits").expect_err(name);
        assert!(found.contains(why), "{name}: {found}");
    }
}
