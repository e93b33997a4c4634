//! Maps of attention: the weights are those of the formula, and give the output of the op.

use std::sync::Arc;

use rtc_base::batch::{Batch, Labels};
use rtc_base::rng::Key;
use rtc_compiler::ir::text;
use rtc_compiler::lower::{Binding, Objective};
use rtc_compiler::pipeline::plans;
use rtc_compiler::plan::plan;
use rtc_exec::learner::Learner;
use rtc_exec::model::Model;
use rtc_exec::storage::Element;
use rtc_exec::{AttendedAxis, AttentionMap, Executor, parameter_ranges};
use rtc_task::Example;
use rtc_tests::spec;
use rtc_train::examine::Examined;
use rtc_train::examine::attention::{AttendedUnits, attention};

/// Whether a query sees a key.
type VisiblePairs = fn(usize, usize) -> bool;

/// What is close enough in a precision.
trait Close: Element {
    const FAR: f64;
}

impl Close for f32 {
    const FAR: f64 = 1e-6;
}

impl Close for f64 {
    const FAR: f64 = 1e-12;
}

/// The weights of every query sum to 1 or are all 0, and weigh the values to the output.
fn consistent(map: &AttentionMap, far: f64) {
    let (heads, queries, keys) = (map.heads(), map.queries.len(), map.keys.len());
    let width = map.output.len() / (heads * queries);
    let shared = heads / (map.values.len() / (keys * width));
    for (head, query) in (0..heads).flat_map(|head| (0..queries).map(move |query| (head, query))) {
        let weights = &map.weights[(head * queries + query) * keys..][..keys];
        let sum: f64 = weights.iter().sum();
        assert!((sum - 1.0).abs() < far || sum == 0.0, "{}: {sum}", map.label);
        assert!(weights.iter().all(|weight| *weight >= 0.0));
        for n in 0..width {
            let value = |key: usize| map.values[(key * heads / shared + head / shared) * width + n];
            let output = map.output[(query * heads + head) * width + n];
            let own: f64 = (0..keys).map(|key| weights[key] * value(key)).sum();
            assert!((own - output).abs() < far * output.abs().max(1.0), "{}: {own} {output}", map.label);
        }
    }
}

/// Attention on tables of queries, keys and values: `mask` as the graph has it, and as a function of query and key.
fn against_the_formula<T: Close>(attrs: &str, sees: impl Fn(usize, usize) -> bool, seed: u64) {
    const WIDTH: usize = 6;
    const TOKENS: usize = 7;
    let (heads, key_heads) = (3, if attrs.contains("key_heads") { 1 } else { 3 });
    let narrow = WIDTH / heads * key_heads;
    let table = |name: &str, width: usize| {
        format!(
            "%{name}_table = param {{name: \"{name}\", init: zeros}} : f32[{TOKENS}, {width}]
             %{name} = embed %tokens, %{name}_table : f32[batch, length, {width}]\n"
        )
    };
    let graph = format!(
        "graph \"attended\" {{
           %tokens = input {{name: \"tokens\"}} : u32[batch, length]
           {}{}{}
           %y = attention %q, %k, %v {{heads: {heads}, {attrs}}} : f32[batch, length, {WIDTH}]  @ self
           return %y {{names: \"logits\"}}
         }}",
        table("q", WIDTH),
        table("k", narrow),
        table("v", narrow)
    );
    let mut executor = Executor::<T>::new(Arc::new(plan(text::parse(&graph).expect("it is a graph"))));
    let mut draws = Key::new(seed).stream("attended").draws();
    let drawn: Vec<f64> = executor
        .parameters_mut()
        .iter_mut()
        .map(|x| {
            *x = T::from_f64(2.0 * draws.uniform() - 1.0);
            x.to_f64()
        })
        .collect();
    let ranges = parameter_ranges(executor.plan());
    let names: Vec<String> = executor.plan().parameters.iter().map(|parameter| parameter.name.clone()).collect();
    let table = |name: &str| &drawn[ranges[names.iter().position(|n| n == name).expect("a table")].clone()];
    let lengths = [1 + draws.below(9) as usize, 1 + draws.below(9) as usize];
    let tokens: Vec<u32> = (0..lengths[0] + lengths[1]).map(|_| draws.below(TOKENS as u64) as u32).collect();
    let batch = Batch {
        offsets: vec![0, lengths[0], tokens.len()],
        labels: Labels::Each { class: vec![0; tokens.len()], weight: vec![1.0; tokens.len()] },
        width: lengths[0].max(lengths[1]),
        depths: None,
        given: vec![],
        tokens,
    };
    executor.records.attention = Some(vec![]);
    executor.run(&batch, Key::new(1)).expect("it runs");
    let found = executor.records.attention.take().expect("it was asked for");
    assert_eq!(found.len(), 2);
    for (row, map) in found.iter().enumerate() {
        consistent(map, T::FAR);
        let (own, length, width) = (batch.row(row), lengths[row], WIDTH / heads);
        assert_eq!((map.row, map.run, map.label.as_str(), map.heads()), (row, 0, "self", heads));
        assert!(
            matches!(&map.keys, AttendedAxis::Positions { places, .. } if *places == (0..length).collect::<Vec<_>>())
        );
        for (head, query) in (0..heads).flat_map(|head| (0..length).map(move |query| (head, query))) {
            let score = |key: usize| -> f64 {
                let q = &table("q")[own[query] as usize * WIDTH + head * width..][..width];
                let k = &table("k")[own[key] as usize * narrow + head * key_heads / heads * width..][..width];
                q.iter().zip(k).map(|(q, k)| q * k).sum::<f64>() / (width as f64).sqrt()
            };
            let exponentials: Vec<f64> =
                (0..length).map(|key| if sees(query, key) { score(key).exp() } else { 0.0 }).collect();
            let total: f64 = exponentials.iter().sum();
            for (key, exponential) in exponentials.iter().enumerate() {
                let weight = map.weights[(head * length + query) * length + key];
                assert!((weight - exponential / total).abs() < T::FAR, "{attrs}: {weight}");
                assert!(sees(query, key) || weight == 0.0, "{attrs}: what the mask hides weighs 0");
            }
        }
    }
}

#[test]
fn weights_are_those_of_the_softmax() {
    for seed in 0..4 {
        for keys in ["", "key_heads: 1, "] {
            let all: [(&str, VisiblePairs); 3] = [
                ("mask: all", |_, _| true),
                ("mask: causal", |i, j| j <= i),
                ("mask: and(le(j, i), lt(sub(i, j), 3))", |i, j| j <= i && i - j < 3),
            ];
            for (mask, sees) in all {
                against_the_formula::<f32>(&format!("{keys}{mask}"), sees, seed);
                against_the_formula::<f64>(&format!("{keys}{mask}"), sees, seed);
            }
        }
    }
}

/// A model of f64 whose weights are drawn.
fn model(text: &str, seed: u64) -> Model<f64> {
    let binding = Binding { vocab: Some(9), classes: Some(3), objective: Objective::Classify };
    let (training, inference) = plans(&spec(text, &binding), &binding).expect("the spec is right");
    Model::new(training, inference, binding, seed)
}

fn row(seed: u64, length: usize) -> Example {
    let mut draws = Key::new(seed).stream("row").draws();
    Example::classified((0..length).map(|_| draws.below(9) as u32).collect(), 0)
}

#[test]
fn every_kind_of_attention_weighs_its_values() {
    for (n, attend) in [
        "heads: 2, position: rope, mask: j <= i",
        "heads: 4, key_heads: 2, softcap: 2, scale: 0.7",
        "heads: 2, mask: i - j <= 2 and j - i <= 2, bias: learn[head, j - i + 2]",
        "heads: 2, position: relative_xl",
        "heads: 2, mask: j <= i, score: tanh(score) * learn[head]",
        "heads: 2, mask: j < i",
        "heads: 8",
    ]
    .into_iter()
    .enumerate()
    {
        let text =
            format!("model small {{ embed {{ width: 16 }}, stack 2 {{ attend self {{ {attend} }} }}, readout mean }}");
        let mut model = model(&text, n as u64);
        for seed in 0..3 {
            let example = row(seed, 11 + 7 * seed as usize);
            let batch = rtc_task::batching::pack(&[&example]);
            let maps = model.attended(&batch).expect("the row fits");
            assert_eq!(maps.len(), 2, "{attend}");
            maps.iter().for_each(|map| consistent(map, 1e-12));
        }
    }
}

/// Heads that talk mix probabilities with weights of any sign: their maps weigh the values of mixed heads, and sum to anything.
#[test]
fn heads_that_talk_weigh_the_values_to_the_output() {
    let mut model =
        model("model small { embed { width: 8 }, attend self { heads: 2, talking: true }, readout mean }", 3);
    // The matrices begin as the identity.
    let mut state = model.state();
    let mut draws = Key::new(3).stream("talking").draws();
    for (_, numbers) in state.parameters.items.values_mut() {
        numbers.iter_mut().for_each(|x| *x += (draws.uniform() - 0.5) as f32);
    }
    model.restore(&state).expect("the same names");
    let maps = model.attended(&rtc_task::batching::pack(&[&row(1, 9)])).expect("the row fits");
    let [map] = &maps[..] else { panic!("{} maps", maps.len()) };
    let (heads, length) = (2, 9);
    for (head, query, n) in (0..heads * length * 4).map(|at| (at % 2, at / 2 % length, at / 2 / length)) {
        let own: f64 = (0..length)
            .map(|key| map.weights[(head * length + query) * length + key] * map.values[(key * heads + head) * 4 + n])
            .sum();
        assert!((own - map.output[(query * heads + head) * 4 + n]).abs() < 1e-12);
    }
}

#[test]
fn runs_are_named_by_place_turn_and_position() {
    let chunked = "model small {
        embed { width: 8, tokens: start_end }
        recur chunkwise {
            size: 3
            memory { slots: 2, init: normal }
            recur depthwise { depth: 2, attend self { heads: 2 }, attend memory { heads: 2 }, feedforward { hidden: 8 } }
            update memory { attend chunk { heads: 2 } }
        }
        readout memory
    }";
    let mut model = model(chunked, 1);
    let found = attention(&mut model, &row(2, 5)).expect("the row fits");
    assert!(found.without.is_empty(), "{:?}", found.without);
    let places: Vec<(&str, usize)> = found.runs.iter().map(|run| (run.place.as_str(), run.turn)).collect();
    let of = |n: usize| [("chunkwise.depthwise.self", n), ("chunkwise.depthwise.memory", n)];
    let chunk = |n: usize| [of(2 * n), of(2 * n + 1)].concat().into_iter().chain([("chunkwise.update.0.chunk", n)]);
    assert_eq!(places, (0..3).flat_map(chunk).collect::<Vec<_>>());
    // Seven positions with START and END: the second chunk has those from 3 on.
    assert_eq!(found.runs[5].queries, AttendedUnits::Positions(vec![3, 4, 5]));
    assert_eq!((&found.runs[6].keys, found.runs[6].heads), (&AttendedUnits::Slots(2), 2));
    assert_eq!(found.runs[14].keys, AttendedUnits::Positions(vec![6]));
}
