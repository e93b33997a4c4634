//! Graphs in the place of specs: `file.rtir`, as `rtc compile --emit graph` prints it.

use std::fs;

use crate::support::Place;

/// A folder with the graph of the tiny model beside its spec.
fn with_graph() -> Place {
    let place = Place::new();
    place.rtc(&["compile", "tiny.rt", "-o", "tiny.rtir"]).code(0);
    place
}

/// Every command that takes a spec says the same of its graph.
#[test]
fn a_graph_is_what_its_spec_is() {
    let place = with_graph();
    let text = place.read("tiny.rtir");
    assert_eq!(place.rtc(&["compile", "tiny.rtir"]).code(0).stdout, text);
    assert_eq!(place.rtc(&["show", "tiny.rtir"]).code(0).stdout, text);
    assert_eq!(place.rtc(&["diff", "tiny.rt", "tiny.rtir"]).code(0).stdout, "the graphs are equal\n");
    place.rtc(&["diff", "tiny.rtir", "tiny.rt:no_gate", "--only", "gate"]).code(0);
    place.rtc(&["diff", "tiny.rtir", "tiny.rt:no_gate", "--only", "halt"]).code(1);
    place.rtc(&["check", "tiny.rtir", "--task", "listops"]).code(0).says("tiny.rtir: 1 model, no errors");
    let both = |args: &[&str]| {
        let of = |file: &str| place.rtc(&[&args[..1], &[file], &args[1..]].concat()).code(0).stdout.clone();
        assert_eq!(of("tiny.rt"), of("tiny.rtir"), "{args:?}");
    };
    both(&["compile", "--task", "listops"]);
    both(&["compile", "--emit", "causality"]);
    both(&["compile", "--emit", "yaml"]);
    both(&["cost", "--task", "listops", "--json"]);
    both(&["show", "--parameters"]);
}

/// A graph has neither settings nor variants, and says so.
#[test]
fn a_graph_has_no_settings() {
    let place = with_graph();
    for command in ["check", "compile", "cost", "show", "train"] {
        place.rtc(&[command, "tiny.rtir", "--set", "embed.width=8"]).code(2).says("a graph has no settings");
    }
    place.rtc(&["check", "tiny.rtir:no_gate"]).code(2).says("no variant `no_gate`");
    place.rtc(&["compile", "tiny.rtir", "--emit", "spec"]).code(2).says("a graph has no spec");
    place.rtc(&["show", "tiny.rtir", "--expand"]).code(2).says("a graph has no words");
    // The widths of an experiment are for specs: the graph is trained as it is, which is said.
    place.write("wide.yaml", &(place.read("tiny.yaml") + "models:\n  tiny: { set: [embed.width=32] }\n"));
    let args = ["train", "tiny.rtir", "--experiment", "wide.yaml", "--max-steps", "1", "--run", "r"];
    place.rtc(&args).code(0).says("the edits of the experiment are left out (embed.width=32)");
    assert!(!place.read("runs/r/experiment.yaml").contains("embed.width"));
}

/// Losses, checkpoints and results are those of the spec, to the bit, also where the run was stopped; what reads a run reads it.
#[test]
fn a_graph_trains_as_its_spec() {
    let place = with_graph();
    let train = |file: &str, run: &str, steps: &str| {
        let experiment = ["--experiment", "tiny.yaml", "--max-steps", steps, "--run", run];
        place.rtc(&[&["train", file], &experiment[..]].concat()).code(0).stdout.clone()
    };
    assert_eq!(train("tiny.rt", "of_spec", "30"), train("tiny.rtir", "of_graph", "30"));
    // The check of a line names its run, which is another one.
    let lines = |run: &str| -> Vec<String> {
        let text = place.read(&format!("runs/{run}/metrics.jsonl"));
        text.lines().map(|line| line.split(",\"check\"").next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(lines("of_spec"), lines("of_graph"));
    for file in ["checkpoints/last/weights.safetensors", "checkpoints/best/weights.safetensors"] {
        let of = |run: &str| fs::read(place.path("runs").join(run).join(file)).expect(file);
        assert!(of("of_spec") == of("of_graph"), "{file}");
    }
    assert_eq!(place.read("runs/of_graph/graph.rtir"), place.read("tiny.rtir"));
    assert!(!place.path("runs/of_graph/spec.rt").exists());
    let same = |args: &[&str]| {
        let of = |run: &str| place.rtc(&[&args[..1], &[run], &args[1..]].concat()).code(0).stdout.clone();
        assert_eq!(of("of_spec"), of("of_graph"), "{args:?}");
    };
    same(&["eval", "--split", "test"]);
    same(&["predict", "[MAX 1 2 ]", "--all"]);
    same(&["predict", "[MAX 1 2 ]", "--show-halting"]);
    place.rtc(&["export", "of_graph", "--format", "torch", "--output", "module"]).code(0);
    assert!(place.read("module/model.py").contains("\nIts graph:\n\ngraph \"tiny\" {"));
    place.rtc(&["export", "of_graph", "--format", "onnx", "--output", "model.onnx"]).code(0);
    place.rtc(&["report", "of_graph", "-o", "report.html"]).code(0);
    assert!(place.read("report.html").contains("<summary>Graph</summary>"));
    // The same command finds the finished run; another graph is another run.
    place
        .rtc(&["train", "tiny.rtir", "--experiment", "tiny.yaml", "--max-steps", "30", "--run", "of_graph"])
        .code(0)
        .says("is finished");
    place.write("tiny.rtir", &place.read("tiny.rtir").replace("p: 0.1, stream: 1", "p: 0.2, stream: 1"));
    place.rtc(&["train", "tiny.rtir", "--experiment", "tiny.yaml", "--max-steps", "30", "--run", "of_graph"]).code(7);
    place.write("runs/of_graph/graph.rtir", &place.read("tiny.rtir"));
    place.rtc(&["eval", "of_graph"]).code(7).says("its graph.rtir was changed after the training");
    place.write("runs/of_graph/graph.rtir", "graph \"tiny\" {\n  %x = nothing\n}\n");
    place.rtc(&["eval", "of_graph"]).code(7).says("its graph.rtir was changed after the training");
    // One that it was begun with, as it seems, has its place.
    place.begin_with("runs/of_graph", "graph.rtir", "graph \"tiny\" {\n  %x = nothing\n}\n");
    place.rtc(&["eval", "of_graph"]).code(7).says("graph.rtir:2:3");
}

/// Rows of a grid may be graphs beside the experiment.
#[test]
fn a_graph_is_a_row_of_a_comparison() {
    let place = with_graph();
    place.write("grid.yaml", &(place.read("tiny.yaml") + "compare: [tiny, tiny.rtir]\n"));
    let table = place.rtc(&["ablate", "grid.yaml", "--with", "max_steps=3", "--jobs", "1", "--table", "--json"]);
    let rows = table.code(0).json()["models"].as_array().map(Vec::len);
    assert_eq!(rows, Some(2), "{}", table.stdout);
    let trained =
        place.rtc(&["ablate", "grid.yaml", "--with", "max_steps=3", "--jobs", "1", "--plain", "--format", "csv"]);
    let lines: Vec<&str> = trained.code(0).stdout.lines().collect();
    let numbers = |line: &str| line.split_once(',').map(|(_, numbers)| numbers.to_owned());
    assert_eq!([lines[2], lines[3]].map(|line| line.split(',').next()), [Some("tiny"), Some("tiny.rtir")]);
    assert_eq!(numbers(lines[2]), numbers(lines[3]), "{}", trained.stdout);
    place.write("grid.yaml", &(place.read("tiny.yaml") + "compare: [tiny, other.rtir]\n"));
    place.rtc(&["ablate", "grid.yaml", "--dry-run"]).code(2).says("there is no graph `other.rtir`");
}

/// Sizes are those of the task: symbols take them, numbers must be them.
#[test]
fn a_graph_has_the_sizes_of_its_task() {
    let place = with_graph();
    place.rtc(&["compile", "tiny.rt", "--task", "listops", "-o", "fixed.rtir"]).code(0);
    place.rtc(&["check", "fixed.rtir", "--task", "listops"]).code(0);
    let wrong = place.rtc(&["check", "fixed.rtir", "--task", "parity_check"]);
    wrong.code(3).says("the graph has a vocabulary of ").says(" tokens, and `parity_check` one of ");
    wrong.says("the graph gives 10 numbers for an answer, and `parity_check` asks for 1");
    wrong.says("fixed.rtir:");
    place.rtc(&["check", "tiny.rtir", "--task", "looped_copy"]).code(3).says("asks for answers per token");
}

/// A task that asks for later tokens is given no graph that may see them.
#[test]
fn a_graph_is_proved_to_see_the_past() {
    let place = Place::new();
    let model = |mask: &str| {
        format!(
            "model m {{\n    embed {{ width: 8 }}\n    attend self {{ heads: 2, mask: {mask} }}\n    readout each {{ sees: all }}\n}}\n"
        )
    };
    for (mask, code) in [("past", 0), ("all", 3), ("j <= i + 1", 3)] {
        place.write("m.rt", &model(mask));
        place.rtc(&["compile", "m.rt", "-o", "m.rtir"]).code(0);
        let found = place.rtc(&["check", "m.rtir", "--task", "characters"]);
        found.code(code);
        if code != 0 {
            found.says("`characters` asks for later tokens, and `attention` ");
            let shown = place.rtc(&["compile", "m.rtir", "--emit", "causality", "--task", "characters"]);
            assert!(shown.code(3).stdout.contains("positions may depend on later tokens"), "{}", shown.stdout);
        }
    }
}

/// Files that are no forward graph are refused with the place, whatever is wrong with them.
#[test]
fn files_that_are_no_model_are_refused() {
    let place = with_graph();
    let good = place.read("tiny.rtir");
    let line = |text: &str| 1 + good.lines().position(|line| line.contains(text)).expect(text);
    let huge = "f32[4294967296, 4294967296]";
    for (from, to, told) in [
        ("graph \"tiny\"", "graph \"../../up\"", "`../../up` is no name of a model".to_owned()),
        ("graph \"tiny\" {", "graph tiny {", "bad.rtir:1:7: ".to_owned()),
        (
            " = embed %tokens",
            " = embed %lost",
            format!("bad.rtir:{}:3: in `%embed = embed`: `%lost`", line(" = embed %tokens")),
        ),
        ("names: \"logits, ", "names: \"answers, ", "there is no result `answers`".to_owned()),
        (
            "{name: \"tokens\"} : u32[batch, length]",
            "{name: \"labels\"} : u32[batch, length]",
            "the labels reach more than the loss".to_owned(),
        ),
        (
            "{name: \"tokens\"} : u32[batch, length]",
            "{name: \"others\"} : u32[batch, length]",
            "the only input of a model is `tokens`".to_owned(),
        ),
        ("init: normal(0.02)", "init: surprise(1)", "a parameter starts as one of zeros".to_owned()),
        ("init: normal(0.02)", "init: normal(0.02, -2.0)", "a cut of `normal` is above 0".to_owned()),
        ("} : f32[vocab, 16]", &format!("}} : {huge}"), "bad.rtir:".to_owned()),
        (
            "{name: \"head.output.weight\"",
            "{name: \"a'])\\n__import__('os').system('id')#\"",
            "`name` must be letters, digits and `_`, with a `.` between words".to_owned(),
        ),
        ("  @ head\n", "  @ \"a\\nb\"\n", "a slot must be letters, digits and `_`".to_owned()),
        ("{bound: 3}", "{bound: 4000000000000}", "at most 1000000 steps".to_owned()),
        ("{bound: 3}", "{bound: surprise(3)}", "bad.rtir:".to_owned()),
    ] {
        assert!(good.contains(from), "{from}");
        place.write("bad.rtir", &good.replacen(from, to, 1));
        for command in
            [&["check", "bad.rtir"][..], &["cost", "bad.rtir"], &["train", "bad.rtir", "--experiment", "tiny.yaml"]]
        {
            place.rtc(command).code(3).says(&told);
        }
    }
    for emit in ["grad", "optimised"] {
        let step = place.rtc(&["compile", "tiny.rt", "--emit", emit]).code(0).stdout.clone();
        place.write("step.rtir", &step);
        place.rtc(&["check", "step.rtir"]).code(3).says("the forward graph is wanted").says("step.rtir:");
    }
    place.write("empty.rtir", "");
    place.rtc(&["check", "empty.rtir"]).code(3).says("empty.rtir:1:1");
    fs::write(place.path("binary.rtir"), [0xff, 0xfe, 0]).expect("written");
    place.rtc(&["check", "binary.rtir"]).code(3).says("not UTF-8");
    place.rtc(&["check", "missing.rtir"]).code(6);
}

/// No line that was lost, doubled, moved or cut makes a panic: what is left is a model or refused.
#[test]
fn damaged_graphs_are_no_panic() {
    let place = with_graph();
    let good = place.read("tiny.rtir");
    let lines: Vec<&str> = good.lines().collect();
    let damaged = |n: usize| {
        let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        let (at, other) = (1 + n % (lines.len() - 2), (7 * n + 1) % lines.len());
        match n % 5 {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[at].clone()),
            2 => lines.swap(at, other),
            3 => lines[at] = lines[at].chars().take(lines[at].len() / 2).collect(),
            _ => {
                lines[at] = lines[at].replacen("batch", "length", 1).replacen("16", "17", 1).replacen("f32", "bool", 1)
            }
        }
        lines.join("\n")
    };
    let files: Vec<String> = (0..lines.len()).map(|n| format!("d{n}.rtir")).collect();
    files.iter().enumerate().for_each(|(n, file)| place.write(file, &damaged(n)));
    for file in &files {
        let code = place.rtc(&["compile", file, "--emit", "plan", "--batch", "4", "--task", "listops"]).status();
        assert!(matches!(code, Some(0 | 3)), "{file}: {code:?}\n{}", place.read(file));
    }
}

#[test]
fn a_difference_names_the_equations() {
    let place = Place::new();
    let found = place.rtc(&["diff", "trm", "trm:no_injection"]).code(0).stdout.clone();
    for line in [
        "- loop.carry.z: carry z = zeros(input) + start_z",
        "+ loop.carry.z: carry z = input",
        "+ loop.loop.loop.z: z = net(z + y)",
    ] {
        assert!(found.contains(line), "{line} is not in {found}");
    }
    place.rtc(&["diff", "trm", "trm:softmax", "--only", "loop.paid"]).code(0);
    place.rtc(&["diff", "trm", "trm:no_injection", "--only", "loop.carry.z"]).code(1);
    place.rtc(&["diff", "urm", "urm:no_convolution", "--only", "block.out"]).code(0);
    place.rtc(&["diff", "trm", "trm:softmax", "--only", "loop.payd"]).code(2).says("neither model has a slot `payd`");
    let json = place.rtc(&["diff", "trm", "trm:softmax", "--json"]).code(0).json();
    assert_eq!(json["equations"][0]["path"], "loop.paid");
}
