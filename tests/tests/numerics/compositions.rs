//! Continuous recursion and ordered memory: cases done by hand, and an independent implementation with its gradients.
//!
//! The numbers lie in `cases/composition/`, beside the program that made them. `RTC_COMPOSITION` names another file of its, with
//! larger cases.

use std::path::Path;

use rtc_base::batch::{Batch, Labels};
use rtc_base::rng::Key;
use rtc_compiler::ir::graph::Graph;
use rtc_compiler::ir::text;
use rtc_compiler::lower::{Binding, Objective, lower};
use rtc_compiler::pipeline;
use rtc_exec::{Halting, Inference};
use rtc_tests::models;
use rtc_tests::numeric::{Arrays, batch, differentiated, distance, executor, graph, run, weights};
use serde_json::Value as Json;

/// One row of `count` different tokens.
fn row(count: usize) -> Batch {
    Batch {
        offsets: vec![0, count],
        tokens: (0..count as u32).collect(),
        labels: Labels::Class(vec![0]),
        width: count,
        depths: None,
        given: vec![],
    }
}

/// What a graph makes of the columns of a table with a row per token; `body` gives `%y` of type `ty` from `%a`, `%b`, ...
fn of_columns(columns: &[&[f64]], ty: &str, body: &str) -> Vec<f64> {
    let (count, width) = (columns[0].len(), columns.len());
    let slice = |n: usize, name: char| {
        format!(
            "%{name}1 = slice %x {{start: {n}, width: 1}} : f32[batch, length, 1]
             %{name} = squeeze %{name}1 : f32[batch, length]\n"
        )
    };
    let slices: String = (0..width).zip('a'..).map(|(n, name)| slice(n, name)).collect();
    let graph = graph(&format!(
        "graph \"columns\" {{
        %tokens = input {{name: \"tokens\"}} : u32[batch, length]
        %table = param {{name: \"table\", init: zeros}} : f32[{count}, {width}]
        %x = embed %tokens, %table : f32[batch, length, {width}]
        {slices} {body} : {ty}
        return %y {{names: \"y\"}}
        }}"
    ));
    let table = (0..count).flat_map(|n| columns.iter().map(move |column| column[n])).collect();
    let weights: Arrays = [("table".to_owned(), table)].into();
    run::<f64>(&graph, &weights, &row(count), Halting::Compact).outputs["y"].clone()
}

/// From the left end, half of the second position and half of the third one are the nearest that exist.
#[test]
fn neighbours_of_positions_that_half_exist() {
    let (e, x) = ([1.0, 0.5, 0.7, 1.0], [1.0, 10.0, 100.0, 1000.0]);
    let ty = "f32[batch, length]";
    let right = of_columns(&[&e, &x], ty, "%y = neighbours %b, %a {side: right}");
    assert!(distance(&right, &[55.0, 70.0 + 300.0, 1000.0, 0.0]) < 1e-12, "{right:?}");
    let left = of_columns(&[&e, &x], ty, "%y = neighbours %b, %a {side: left}");
    assert!(distance(&left, &[0.0, 1.0, 5.0 + 0.5, 70.0 + 3.0]) < 1e-12, "{left:?}");
}

/// A case of the reference.
struct Case {
    json: Json,
}

impl Case {
    fn numbers(&self, key: &str) -> Vec<f64> {
        flat(&self.json[key])
    }

    fn count(&self, key: &str) -> usize {
        self.json[key].as_u64().expect("a count") as usize
    }

    fn lengths(&self) -> Vec<usize> {
        self.numbers("lengths").into_iter().map(|n| n as usize).collect()
    }

    fn name(&self) -> String {
        format!("{} in chunks of {}", self.json["kind"], self.count("arity"))
    }

    fn source(&self) -> String {
        let (kind, hidden) = (self.json["kind"].as_str().expect("a name"), self.count("hidden"));
        let slots = if kind == "ordered_memory" { format!("slots: {}, ", self.count("slots")) } else { String::new() };
        let inner = format!("recurse {kind} {{ {slots}cell grc {{ hidden: {hidden} }} }}");
        let fold = match self.count("arity") {
            0 => inner,
            arity => format!("recurse balanced {{ arity: {arity}, plan: batch, {inner} }}"),
        };
        format!("model m {{ embed {{ width: {} }}, {fold}, readout root, head linear }}", self.count("width"))
    }

    /// The graph with the loss of the reference: every result times a number of its own, which the first token of a row names.
    fn graph(&self) -> Graph {
        let (width, rows) = (self.count("width"), self.lengths().len());
        let vocab = self.numbers("x").len() / width;
        let binding = Binding { vocab: Some(vocab), classes: Some(width), objective: Objective::Classify };
        let forward = lower(&models::parse(&self.source()), &binding).expect("the model lowers");
        let printed = text::print(&forward);
        let (body, end) = printed.rsplit_once("return ").expect("a graph returns");
        let logits = end.split_whitespace().next().expect("it returns logits");
        graph(&format!(
            "{body}
            %factors = param {{name: \"factors\", init: zeros}} : f32[{vocab}, {width}]
            %each = embed %tokens, %factors : f32[batch, length, {width}]
            %own = position %each {{at: first}} : f32[batch, {width}]
            %product = mul {logits}, %own : f32[batch, {width}]
            %average = average %product : f32[]
            %loss = map %average {{f: mul({:?}, a)}} : f32[]
            return {logits}, %loss {{names: \"logits, loss\"}}
            }}",
            (rows * width) as f64
        ))
    }

    /// The weights of the reference; the head hands its input on.
    fn weights(&self, graph: &Graph) -> Arrays {
        let mut out = weights(graph, 0, 0.0);
        for (p, name) in self.json["params"].as_array().expect("names").iter().enumerate() {
            let name = name.as_str().expect("a name");
            let target = out.get_mut(name).unwrap_or_else(|| panic!("no place for {name}"));
            for (i, weight) in target.iter_mut().enumerate() {
                let wave = 0.5 * (0.7 * i as f64 + (p + 1) as f64).sin();
                *weight = match (name.contains("norm"), name.ends_with("weight")) {
                    (true, true) => 1.0 + 0.2 * wave,
                    (true, false) => 0.2 * wave,
                    _ => wave,
                };
            }
        }
        let (width, x) = (self.count("width"), self.numbers("x"));
        let size = x.len() / width / self.lengths().len();
        let unit = (0..width * width).map(|n| if n % (width + 1) == 0 { 1.0 } else { 0.0 }).collect();
        out.insert("head.output.weight".to_owned(), unit);
        let factors = out.get_mut("factors").expect("it is there");
        for (n, factor) in factors.iter_mut().enumerate() {
            let (token, channel) = (n / width, n % width);
            *factor = (0.3 * (token / size * width + channel) as f64).sin();
        }
        out.insert("embed.table".to_owned(), x);
        out
    }

    fn batch(&self) -> Batch {
        let lengths = self.lengths();
        let size = self.numbers("x").len() / self.count("width") / lengths.len();
        let starts = lengths.iter().scan(0, |at, n| {
            *at += n;
            Some(*at)
        });
        Batch {
            offsets: std::iter::once(0).chain(starts).collect(),
            tokens: lengths.iter().enumerate().flat_map(|(r, n)| (r * size..r * size + n).map(|t| t as u32)).collect(),
            labels: Labels::Class(vec![0; lengths.len()]),
            width: size,
            depths: None,
            given: vec![],
        }
    }
}

fn flat(json: &Json) -> Vec<f64> {
    match json {
        Json::Array(items) => items.iter().flat_map(flat).collect(),
        number => vec![number.as_f64().expect("a number")],
    }
}

fn cases() -> Vec<Case> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/composition/composition.json");
    let path = std::env::var_os("RTC_COMPOSITION").map_or(own, Into::into);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let cases: Vec<Json> = serde_json::from_str(&text).expect("the cases are JSON");
    cases.into_iter().map(|json| Case { json }).collect()
}

#[test]
fn compositions_agree_with_the_reference() {
    for case in cases() {
        let graph = case.graph();
        let weights = case.weights(&graph);
        let found = run::<f64>(&differentiated(&graph), &weights, &case.batch(), Halting::Compact);
        let agrees = |what: &str, found: &[f64], expected: &[f64]| {
            let far = distance(found, expected);
            assert!(far < 1e-10, "{}, {what}: {far:e} from the reference", case.name());
        };
        agrees("results", &found.outputs["logits"], &case.numbers("out"));
        agrees("gradient of the elements", &found.gradients["embed.table"], &case.numbers("dx"));
        for (name, expected) in case.json["grads"].as_object().expect("gradients by name") {
            agrees(&format!("gradient of {name}"), &found.gradients[name], &flat(expected));
        }
    }
}

/// Flat, a tree takes the whole row as one chunk, as a tree of an arity beyond its length does.
#[test]
fn flat_inference_composes_the_whole_row() {
    for inner in ["continuous { cell gru }", "ordered_memory { slots: 3, cell gru }"] {
        let answers = |arity: usize, inference: Inference| {
            let source = format!(
                "model m {{ embed {{ width: 6 }}, recurse balanced {{ arity: {arity}, recurse {inner} }}, readout root, head linear }}"
            );
            let binding = Binding { vocab: Some(9), classes: Some(3), objective: Objective::Classify };
            let graph = pipeline::inference(&models::parse(&source), &binding).expect("the model lowers");
            let mut executor = executor::<f64>(&graph, &weights(&graph, 7, 0.6), Halting::Compact);
            executor.settings.inference = inference;
            let outputs = executor.run(&batch(&[17, 1, 5, 30], 9, 3, 2), Key::new(0)).expect("the batch fits");
            outputs.real("logits").expect("logits").to_vec()
        };
        let flat = answers(3, Inference::Flat);
        assert_eq!(flat, answers(100, Inference::Recursive), "{inner}");
        assert!(distance(&flat, &answers(3, Inference::Recursive)) > 1e-3, "{inner}: chunks make a difference");
    }
}
