//! The IR: text form, exports, identity, differences, passes and generated pages, on graphs written by hand.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rtc_compiler::causality::{analyse, leaks};
use rtc_compiler::incremental::incremental;
use rtc_compiler::ir::cost::Sizes;
use rtc_compiler::ir::document::{GraphDocument, NodeDoc, Problem};
use rtc_compiler::ir::graph::{Graph, MAIN};
use rtc_compiler::ir::hash::hash;
use rtc_compiler::ir::ops::{self, Op};
use rtc_compiler::ir::{diff, export, text, verify};
use rtc_compiler::lower::Objective;
use rtc_compiler::plan::cost::flops;
use rtc_compiler::plan::memory::{BatchShape, estimate};
use rtc_compiler::plan::plan;
use rtc_compiler::{pass, pipeline};
use rtc_tests::models;

fn root(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Every `.rtir` case, by path.
fn cases() -> Vec<(String, String)> {
    let mut folders = vec![root("tests/cases/ir"), root("tests/cases/passes")];
    let mut out = vec![];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rtir") {
                out.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    out.sort();
    assert!(out.len() > 10, "the cases are found");
    out
}

fn case(name: &str) -> String {
    std::fs::read_to_string(root(&format!("tests/cases/{name}.rtir"))).unwrap()
}

fn graph(source: &str) -> Graph {
    let graph = text::parse(source).unwrap_or_else(|p| panic!("{}", lines(&p)));
    verify::verify(&graph).unwrap_or_else(|v| panic!("{}", lines(&v)));
    graph
}

fn lines<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_form_reads_back() {
    for (name, source) in cases() {
        let graph = graph(&source);
        let printed = text::print(&graph);
        assert_eq!(text::print(&text::parse(&printed).unwrap()), printed, "{name}");
        assert_eq!(text::print(&export::from_yaml(&export::yaml(&graph)).unwrap()), printed, "{name}");
        assert_eq!(text::print(&export::from_json(&export::json(&graph)).unwrap()), printed, "{name}");
        assert_eq!(GraphDocument::from(&text::parse(&printed).unwrap()), GraphDocument::from(&graph), "{name}");
    }
}

#[test]
fn odd_texts_survive() {
    let source = r#"graph "a \"quoted\" \\ name" {
  %x.y_1 = input {name: "two\nlines // no comment"} : f32[batch, length+2]  @ "a label with spaces"
  %z = full %x.y_1 {value: -1e-300, rank: 0} : f32[]
  %w = full %x.y_1 {value: inf, rank: 0} : f32[]
  return %z, %w {names: "z, w"}
}
"#;
    let graph = text::parse(source).unwrap();
    assert_eq!(graph.name, "a \"quoted\" \\ name");
    let printed = text::print(&graph);
    assert_eq!(text::print(&text::parse(&printed).unwrap()), printed);
    assert!(printed.contains("value: inf"), "{printed}");
}

/// Texts that would be read as something else where a program writes a name as it is.
const HOSTILE: [&str; 20] = [
    "a\"b",
    "a'b",
    "a\nb",
    "a\rb",
    "a\0b",
    "a(b",
    "a)b",
    "a[0]",
    "a\u{2028}b",
    "a\u{85}b",
    "é",
    "a b",
    "a..b",
    ".a",
    "a.",
    "1a",
    "a, b",
    "a#b",
    "a\\",
    "__import__('os').system('id')",
];

/// What is wrong with what was read.
fn refusal(read: Result<Graph, Vec<Problem>>) -> Option<String> {
    match read {
        Err(problems) => Some(lines(&problems)),
        Ok(graph) => verify::verify(&graph).err().map(|violations| lines(&violations)),
    }
}

/// A document in every form, read back.
fn forms(document: &GraphDocument) -> Vec<Option<String>> {
    let json = serde_json::to_string(document).unwrap();
    let mut all = vec![text::parse(&text::write(document)), export::from_json(&json), export::from_yaml(&json)];
    if let Ok(graph) = document.to_graph() {
        all.extend([text::parse(&text::print(&graph)), export::from_yaml(&export::yaml(&graph))]);
    }
    all.into_iter().map(refusal).collect()
}

#[test]
fn names_are_words_in_every_form() {
    let good = GraphDocument::from(&graph(&case("ir/chunks")));
    assert_eq!(forms(&good), [None, None, None, None, None]);
    let chunks = good.nodes.iter().position(|node| node.op == "chunks").unwrap();
    let last = good.nodes.len() - 1;
    let places = [(0, "name"), (1, "name"), (1, "group"), (chunks, "axis"), (chunks, "over"), (last, "names")];
    for hostile in HOSTILE {
        let quoted = format!(
            "\"{}\"",
            hostile.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\r', "\\r")
        );
        for (node, attribute) in places {
            let mut bad = good.clone();
            bad.nodes[node].attrs.insert(attribute.to_owned(), quoted.clone());
            for found in forms(&bad) {
                let found = found.unwrap_or_else(|| panic!("{attribute}: {hostile:?} is a name"));
                let axis = found.contains("axis") || found.contains("results are");
                assert!(found.contains("must be letters, digits") || axis || attribute == "names", "{found}");
            }
        }
        let mut others = [good.clone(), good.clone(), good.clone(), good.clone()];
        hostile.clone_into(&mut others[0].nodes[4].label);
        hostile.clone_into(&mut others[1].nodes[4].results[0].name);
        others[2].nodes[4].results[0].ty = format!("f32[batch, {hostile}, 8]");
        hostile.clone_into(&mut others[3].nodes[chunks].body.as_mut().unwrap().params[0].name);
        for (n, other) in others.iter().enumerate() {
            assert!(forms(other).iter().all(Option::is_some), "place {n}: {hostile:?} is a name");
        }
    }
}

/// A text with its problems, one per line.
const PROBLEMS: &[(&str, &str)] = &[
    ("", "1:1: expected `graph \"name\" { ... }`"),
    ("graph \"g\" {\n  %x = gelu ,\n}", "2:13: expected"),
    ("graph \"g\" {\n  %x = nothing : f32[]\n}", "2:3: in `%x = nothing`: there is no op `nothing`"),
    ("graph \"g\" {\n  return %x {names: \"x\"}\n}", "2:3: in `return`: `%x` is not defined above"),
    (
        "graph \"g\" {\n  %x = input {name: \"x\", size: 3} : f32[batch]\n}",
        "`input` has no attribute `size`; it has name",
    ),
    ("graph \"g\" {\n  %x = input {name: \"x\"} : f64[batch]\n}", "`f64[batch]` is not a type"),
    ("graph \"g\" {\n  %x = input {name: \"x\"} : f32[a b]\n}", "`a b` in `f32[a b]` is not an axis"),
    ("graph \"g\" {\n  %x = input {name: \"x\"} : f32[99999999999]\n}", "is longer than"),
    ("graph \"g\" {\n  %x = input : f32[batch], f32[batch]\n}", "2:3: 1 results and 2 result types"),
    (
        "graph \"g\" {\n  %x = input {name: \"x\"} : f32[batch]\n  %x = gelu %x : f32[batch]\n}",
        "the name `%x` is taken",
    ),
    (
        "graph \"g\" {\n  %x = input {name: \"x\"} : f32[batch]\n  %y = gelu %x : f32[]\n}",
        "`gelu` gives f32[batch], not f32[]",
    ),
    (
        "graph \"g\" {\n  %x = input {name: \"x\"} : f32[batch]\n  %y = add %x : f32[batch]\n}",
        "`add` takes 2 operands, not 1",
    ),
    (
        "graph \"g\" {\n  %x = input {name: \"x\"} : f32[batch]\n  %y = full %x {rank: 1, rank: 2} : f32[batch]\n}",
        "given twice",
    ),
    (
        "graph \"g\" {\n  %x = input {name: \"x\"} : f32[batch]\n  %y = recur %x {bound: 1} : f32[batch]\n}",
        "`recur` needs a body",
    ),
    ("graph \"g\" {\n  %x = input {name: \"x\"} : f32[batch] (%y: f32[]) { }\n}", "`input` has no body"),
    (
        "graph \"g\" {\n  %x = input {name: \"x\"} : f32[batch]\n  %y = recur %x {bound: 1} : f32[batch] (%h: f32[batch], %s: u32[]) { yield %h }\n  return %h {names: \"h\"}\n}",
        "`%h` is not visible here",
    ),
    (
        "graph \"g\" {\n  %p = param {name: \"p\", init: zeros} : f32[6]\n  %y = rms_norm %p {eps: 1e-5, parts: 4} : f32[6]\n}",
        "`rms_norm` cannot cut 6 channels into 4 equal parts",
    ),
    (
        "graph \"g\" {\n  %p = param {name: \"p\", init: zeros} : f32[6]\n  %y = rms_norm %p, %p {eps: 1e-5, parts: 2} : f32[6]\n}",
        "`rms_norm` does not take operands of types f32[6], f32[6]",
    ),
    (
        "graph \"g\" {\n  %x = input {name: \"x\"} : f32[batch]\n  %y = softmax %x : f32[batch]\n}",
        "`softmax` does not take operands of types f32[batch]",
    ),
    (
        "graph \"g\" {\n  %x = input {name: \"x\"} : f32[batch, length]\n  %y = reduce %x {by: sum} : f32[batch, 1]\n}",
        "`reduce` does not take operands of types f32[batch, length]",
    ),
    ("graph \"g\" {\n  %x = full {value: 99999999999999999999, rank: 0} : f32[]\n}", "is not a 64-bit integer"),
];

#[test]
fn problems_have_a_place_and_an_expectation() {
    for (source, expected) in PROBLEMS {
        let problems = lines(&text::parse(source).expect_err(source));
        assert!(problems.contains(expected), "{source}\ngives\n{problems}\nexpected\n{expected}");
    }
    let deep = format!("graph \"g\" {{ %x = full {{value: {}", "f(".repeat(100_000));
    assert!(lines(&text::parse(&deep).unwrap_err()).contains("nest deeper"));
}

/// A small deterministic generator; the sequence is of no importance.
fn next(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

#[test]
fn no_text_makes_the_reader_panic() {
    let mut state = 1;
    let pool: Vec<char> = "%{}()[]:,@\"\\/ \nfu32x19.-+_é".chars().collect();
    for (_, source) in cases() {
        let words: Vec<&str> = source.split_whitespace().collect();
        for _ in 0..60 {
            let mut chars: Vec<char> = source.chars().collect();
            for _ in 0..=next(&mut state) % 3 {
                let at = next(&mut state) % chars.len();
                match next(&mut state) % 4 {
                    0 => drop(chars.remove(at)),
                    1 => chars.insert(at, pool[next(&mut state) % pool.len()]),
                    2 => chars[at] = pool[next(&mut state) % pool.len()],
                    _ => {
                        let word = words[next(&mut state) % words.len()];
                        chars.splice(at..at, format!(" {word} ").chars());
                    }
                }
            }
            let text: String = chars.into_iter().collect();
            // What reads and verifies also runs through every pass.
            if let Ok(mut graph) = text::parse(&text)
                && verify::verify(&graph).is_ok()
            {
                pass::optimise(&mut graph);
            }
        }
    }
}

#[test]
fn swapped_operands_never_panic() {
    let mut state = 7;
    for (_, source) in cases() {
        let document = text::read(&source).unwrap();
        let names: Vec<String> = document.nodes.iter().flat_map(|n| n.operands.clone()).collect();
        for _ in 0..100 {
            let mut mutated = document.clone();
            let nodes = mutated.nodes.len();
            let node = &mut mutated.nodes[next(&mut state) % nodes];
            let name = names[next(&mut state) % names.len()].clone();
            match next(&mut state) % 3 {
                0 if !node.operands.is_empty() => {
                    let n = next(&mut state) % node.operands.len();
                    node.operands[n] = name;
                }
                1 => drop(node.operands.pop()),
                _ => node.operands.push(name),
            }
            if let Ok(mut graph) = mutated.to_graph()
                && verify::verify(&graph).is_ok()
            {
                pass::optimise(&mut graph);
            }
        }
    }
}

#[test]
fn optimising_settles_and_is_done() {
    for (name, source) in cases() {
        let mut graph = graph(&source);
        let report = pass::optimise(&mut graph);
        assert!(report.settled, "{name}: {report}");
        let once = text::print(&graph);
        let again = pass::optimise(&mut graph);
        assert!(again.steps.iter().all(|s| !s.changed), "{name}: {again}");
        assert_eq!(text::print(&graph), once, "{name}");
    }
}

#[test]
fn the_hash_ignores_names_and_slots_only() {
    let source = case("ir/recur");
    let one = hash(&graph(&source));
    assert_eq!(one.len(), 64);
    let renamed = source.replace("%h_in", "%other").replace("\"recur\"", "\"renamed\"").replace("@ depthwise.gate", "");
    assert_eq!(hash(&graph(&renamed)), one);
    for (old, new) in [("0.999", "0.99"), ("mul(0.5", "mul(0.25"), ("gate.w", "gate.v"), ("[8, 8]", "[8, 8] ")] {
        let same = hash(&graph(&source.replace(old, new))) == one;
        assert_eq!(same, old == "[8, 8]", "{old} -> {new}");
    }
}

#[test]
fn a_difference_names_the_slot() {
    let source = case("ir/recur");
    let sizes = {
        let mut sizes = Sizes::row(10);
        sizes.axes.insert("vocab".to_owned(), 20.0);
        sizes
    };
    let compare = |other: &str| diff::diff(&graph(&source), &graph(other), &sizes);
    assert!(compare(&source).is_empty());

    let mut lines: Vec<&str> = source.lines().filter(|l| !l.contains("@ depthwise.gate")).collect();
    for line in &mut lines {
        if line.contains("yield") {
            *line = "yield %u, %less, %go";
        }
    }
    let no_gate = compare(&lines.join("\n"));
    assert_eq!(no_gate.slots.keys().collect::<Vec<_>>(), ["depthwise.gate"], "{no_gate}");
    let gate = &no_gate.slots["depthwise.gate"];
    assert_eq!((gate.parameters, gate.left.len(), gate.right.len()), ((64.0, 0.0), 4, 0));
    // Ten steps over ten tokens of width 8: a product, a sigmoid and a mixture.
    assert_eq!(gate.flops, (10.0 * (10.0 * 2.0 * 64.0 + 80.0 * 10.0 + 80.0 * 4.0), 0.0));
    assert!(no_gate.outside("gate").is_empty());
    assert!(no_gate.to_string().contains("parameters: 64 -> 0"), "{no_gate}");

    let swapped = compare(&source.replace("lerp %g, %u, %h_in", "lerp %u, %g, %h_in"));
    assert!(swapped.slots["depthwise.gate"].rewired, "{swapped}");
    assert_eq!(swapped.slots.len(), 1, "{swapped}");

    let reads = compare(&source.replace("gelu %h_in", "gelu %x"));
    assert_eq!(reads.slots.keys().collect::<Vec<_>>(), ["depthwise.feedforward"], "{reads}");
    assert_eq!(reads.slots["depthwise.feedforward"].reads_left, ["gelu 0 <- depthwise: recur parameter 0"]);
    assert_eq!(reads.slots["depthwise.feedforward"].reads_right, ["gelu 0 <- embed: embed 0"]);

    let dropped = |stream: usize| {
        let dropout = format!("%d = dropout %x {{p: 0.1, stream: {stream}}} : f32[batch, length, 8]");
        graph(&source.replace("%ones =", &format!("{dropout}\n%ones =")).replace("gelu %h_in", "gelu %d"))
    };
    assert!(diff::diff(&dropped(1), &dropped(2), &sizes).is_empty(), "streams are only numbers");

    let table = compare(&source.replace("f32[vocab, 8]", "f32[5, 8]"));
    assert_eq!(table.slots["embed"].parameters, (160.0, 40.0));
}

#[test]
fn drawings_show_loops_as_clusters() {
    let graph = graph(&case("ir/chunks"));
    let (dot, mermaid) = (export::dot(&graph), export::mermaid(&graph));
    let loops = graph.walk(MAIN).iter().filter(|n| graph.node(**n).body.is_some()).count();
    assert_eq!(dot.matches("subgraph cluster_").count(), loops);
    assert_eq!(mermaid.matches("subgraph n").count(), loops);
    assert!(mermaid.contains("n4 --> n6") && dot.contains("n4 -> n6"), "boxes are numbered in print order: {mermaid}");
    assert_eq!(dot.matches('{').count(), dot.matches('}').count());
    assert_eq!(mermaid.matches(":::param").count(), 3);
    assert!(dot.contains("fillcolor=gray92") && dot.contains("feedforward.w"), "{dot}");
}

/// Calls `f` with every node of a document, in the order of the text.
fn each_node(nodes: &mut [NodeDoc], f: &mut impl FnMut(&mut NodeDoc)) {
    for node in nodes {
        f(node);
        if let Some(body) = &mut node.body {
            each_node(&mut body.nodes, f);
        }
    }
}

/// What the compiler does with a graph that the verifier accepts.
fn use_up(graph: &Graph) {
    assert_eq!(text::print(&text::parse(&text::print(graph)).unwrap()), text::print(graph));
    let _ = (analyse(graph), leaks(graph, "logits"), hash(graph), export::dot(graph));
    let planned = plan(graph.clone());
    let _ = flops(&planned, &Sizes::row(7));
    let _ = (estimate(&planned, &BatchShape::even(3, 7)), incremental(&planned, "logits"));
    let mut optimised = graph.clone();
    pass::optimise(&mut optimised);
    pass::finish(&mut optimised);
    let _ = plan(optimised);
}

/// The graphs of all models: an attribute that a node does not have, or that has a value of another kind, is refused with a message,
/// or the graph means something without it.
#[test]
fn a_missing_or_wrong_attribute_never_stops_the_compiler() {
    let (mut tried, mut refused) = (BTreeSet::new(), 0);
    for objective in [Objective::Classify, Objective::Each] {
        for model in models::all(objective, &[]) {
            let stages =
                [pipeline::forward, pipeline::training].map(|stage| stage(&model.spec, &models::binding(objective)));
            for graph in stages.map(|graph| graph.expect("the spec lowers")) {
                let document = GraphDocument::from(&graph);
                let mut edits = vec![];
                let (mut all, mut at) = (document.clone(), 0);
                each_node(&mut all.nodes, &mut |node| {
                    for name in node.attrs.keys() {
                        let others: Vec<_> = node
                            .attrs
                            .iter()
                            .filter(|(n, _)| ["role", "beams", "arity"].contains(&n.as_str()))
                            .collect();
                        if tried.insert(format!("{} {name} {others:?}", node.op)) {
                            edits.push((at, name.clone()));
                        }
                    }
                    at += 1;
                });
                for (place, name) in edits {
                    for value in [None, Some("nothing"), Some("-1"), Some("0.5"), Some("f(x)")] {
                        let (mut edited, mut at) = (document.clone(), 0);
                        each_node(&mut edited.nodes, &mut |node| {
                            if at == place {
                                node.attrs.remove(&name);
                                node.attrs.extend(value.map(|value| (name.clone(), value.to_owned())));
                            }
                            at += 1;
                        });
                        match edited.to_graph().ok().filter(|graph| verify::verify(graph).is_ok()) {
                            Some(graph) => use_up(&graph),
                            None => refused += 1,
                        }
                    }
                }
            }
        }
    }
    assert!(tried.len() > 80 && refused > tried.len(), "{} attributes, {refused} refused", tried.len());
}

#[test]
fn passes_have_names_and_docs() {
    let all = || pass::PASSES.iter().chain(pass::LAST);
    let mut names: Vec<&str> = all().map(|p| p.name).collect();
    assert!(all().all(|p| !p.doc.is_empty()));
    assert_eq!(pass::run("unknown", &mut Graph::new("g")), None);
    names.sort_unstable();
    let mut folders: Vec<String> = std::fs::read_dir(root("tests/cases/passes"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    folders.retain(|f| names.contains(&f.as_str()));
    folders.sort_unstable();
    assert_eq!(folders, names, "every pass has cases");
}

#[test]
fn the_page_of_ops_is_current() {
    const BEGIN: &str = "<!-- generated: ops -->\n";
    const END: &str = "<!-- end -->\n";
    let path = root("docs/ops.md");
    let page = std::fs::read_to_string(&path).unwrap().replace("\r\n", "\n");
    let (head, rest) = page.split_once(BEGIN).expect("the page has a begin marker");
    let (_, tail) = rest.split_once(END).expect("the page has an end marker");
    let current = format!("{head}{BEGIN}\n{}\n{END}{tail}", ops::markdown());
    if std::env::var_os("RTC_UPDATE").is_some() {
        std::fs::write(&path, &current).unwrap();
    } else {
        assert_eq!(page, current, "docs/ops.md is old: run the tests with RTC_UPDATE=1");
    }
    assert!(Op::ALL.iter().all(|op| !op.def().doc.is_empty()));
}
