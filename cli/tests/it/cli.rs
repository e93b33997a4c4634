//! The real binary: what every command prints and with which code it exits. Small models, small data.

use std::fs;

use crate::support::{Answer, Place};
use serde_json::Value;

#[test]
fn check_reports_all_problems_and_exits_with_3() {
    let place = Place::new();
    let good = place.rtc(&["check", "tiny.rt"]);
    good.code(0).says("3 models, no errors");
    assert_eq!(good.stdout, "");
    place.write("wrong.rt", "model m {\n    embed { width: 16, dropuot: 0.1 }\n    readout maen\n}\n");
    let wrong = place.rtc(&["check", "tiny.rt", "wrong.rt"]);
    wrong.code(3).says("did you mean `dropout`?").says("wrong.rt:2:24").says("did you mean `mean`?");
    assert!(!wrong.stderr.contains('\x1b'), "no colours where there is no terminal");
    let json = place.rtc(&["check", "wrong.rt", "--json"]).code(3).json();
    assert_eq!(json[0]["problems"].as_array().map(Vec::len), Some(2), "{json:#}");
    assert_eq!(json[0]["problems"][0]["place"]["line"], 2);
    place.rtc(&["check", "tiny.rt", "--set", "embed.width=oops"]).code(3).says("--set 1");
    place.rtc(&["check", "tiny.rt:no_gate", "--set", "embed.width=32", "--quiet"]).code(0).is_silent();
    place.rtc(&["check", "tiny.rt:nogate"]).code(3).says("`tiny:no_gate`");
}

#[test]
fn files_that_are_no_specs_give_a_message_and_a_code() {
    let place = Place::new();
    fs::create_dir(place.path("folder.rt")).expect("a new folder");
    fs::write(place.path("bytes.rt"), b"model m {\n\xff\xfe").expect("a new file");
    place.write("empty.rt", "");
    place.write("masks.rt", "mask causal = j <= i\n");
    for command in ["check", "compile", "show"] {
        place.rtc(&[command, "missing.rt"]).code(6).says("missing.rt");
        place.rtc(&[command, "folder.rt"]).code(6).says("a folder is no spec");
        place.rtc(&[command, "bytes.rt"]).code(3).says("bytes.rt:2: this spec is not UTF-8");
        place.rtc(&[command, "empty.rt"]).code(3).says("no model");
    }
    place.rtc(&["check", "masks.rt"]).code(0);
    place.rtc(&["show", "masks.rt"]).code(3).says("no model");
    place.rtc(&["fmt", "folder.rt", "bytes.rt"]).code(6).says("folder.rt").says("bytes.rt:2");
    place.rtc(&["train", "tiny.rt", "--experiment", "folder.rt"]).code(6);
    place.rtc(&["train", "tiny.rt", "--experiment", "empty.rt"]).code(2);
    fs::copy(place.path("bytes.rt"), place.path("bytes.yaml")).expect("a new file");
    place.rtc(&["train", "tiny.rt", "--experiment", "bytes.yaml"]).code(2).says("not UTF-8");
    place.write("mark.rt", &format!("\u{feff}{}", place.read("tiny.rt")));
    place.rtc(&["check", "mark.rt"]).code(0);
    place.rtc(&["train", "tiny.rt", "--experiment", "listops_smok"]).code(2).says("did you mean `listops_smoke`?");
}

#[test]
fn mistakes_name_what_was_meant() {
    let place = Place::new();
    place.write("empty.rt", "");
    place.rtc(&["check", "empty.rt", "tiny.rt"]).code(3).says("empty.rt has no model").says("model name {");
    place.rtc(&["show", "gutt"]).code(2).says("there is no spec `gutt`; did you mean `gut`?");
    place.rtc(&["show", "tiny.rt:nope"]).code(3).says("no model `nope` in tiny.rt");
    for (edit, why) in [
        ("optimiser.learning_rate=nan", "expected a number"),
        ("batch.size=0", "`size` must be at least 1"),
        ("batch", "the form key.path=value"),
    ] {
        let said = format!("tiny.yaml: the edit `{edit}`: ");
        place.train(&["--with", "log_every=2", "--with", edit]).code(2).says(&said).says(why);
    }
    place.train(&["--max-steps", "0"]).code(2).says("the edit `max_steps=0`");
    assert!(!place.path("runs").exists(), "nothing is begun");
}

#[test]
fn the_library_of_masks_is_found_from_any_folder() {
    let place = Place::new();
    let model = |mask: &str| {
        format!(
            "use \"lib/masks.rt\"\nmodel m {{\n    embed {{ width: 8 }}\n    attend self {{ heads: 2, mask: {mask} }}\n    readout mean\n}}\n"
        )
    };
    for folder in ["below", "lib"] {
        fs::create_dir(place.path(folder)).expect("a new folder");
    }
    place.write("m.rt", &model("window(4)"));
    place.rtc(&["check", "m.rt"]).code(0).says("no errors");
    place.write("below/m.rt", &model("window(4)"));
    place.rtc(&["check", "below/m.rt"]).code(0).says("no errors");
    place.write("wrong.rt", &model("windw(4)"));
    place.rtc(&["check", "wrong.rt"]).code(3).says("did you mean `window`?");
    // A file of one's own at that path is used in its place.
    place.write("lib/masks.rt", "mask near(d) = i - j < d\n");
    place.rtc(&["check", "m.rt"]).code(3).says("`window` is not defined");
    place.write("m.rt", &model("near(4)"));
    place.rtc(&["check", "m.rt"]).code(0).says("no errors");
    place.write("other.rt", "use \"lib/other.rt\"\n");
    place.rtc(&["check", "other.rt"]).code(3).says("part of the program is `lib/masks.rt`");
}

#[test]
fn every_model_of_a_file_is_known_by_its_name() {
    let place = Place::new();
    assert_eq!(place.rtc(&["show", "mor_experts", "--json"]).code(0).json()["name"], "mor_experts");
    place.rtc(&["show", "mor_expert"]).code(2).says("did you mean `mor_experts`?");
    let two = "model one {\n    embed { width: 8 }\n    feedforward { hidden: 8 }\n    readout mean\n}\n";
    place.write("two.rt", &format!("{two}{}", two.replace("one", "second")));
    let table = format!("{}compare: [tiny, second]\nseeds: [1]\n", place.read("tiny.yaml"));
    place.write("table.yaml", &table);
    let rows = place.rtc(&["ablate", "table.yaml", "--dry-run"]);
    rows.code(0);
    assert!(rows.stdout.contains("\nsecond "), "{}", rows.stdout);
}

#[test]
fn a_model_that_sees_the_future_is_shown_and_refused() {
    let place = Place::new();
    let spec = place.read("tiny.rt").replace(", tokens: start_end", "").replace("readout end", "readout each");
    place.write("each.rt", &spec);
    place.rtc(&["check", "each.rt"]).code(0);
    let shown = place.rtc(&["compile", "each.rt", "--emit", "causality"]);
    assert!(shown.code(0).stdout.contains("`logits`: every position depends on the tokens up to it: proved"));
    let leak = ["each.rt", "--set", "halt.mean=all"];
    for command in ["check", "compile"] {
        place.rtc(&[&[command], &leak[..]].concat()).code(3).says("leaks-future").says("use `mean: past`");
    }
    let refused = place.rtc(&[&["compile", "--emit", "causality"], &leak[..]].concat());
    assert!(refused.code(3).says("leaks-future").stdout.contains("<- here  @ depthwise.halt"), "{}", refused.stdout);
    place.rtc(&["compile", "each.rt", "--emit", "causality", "--inference"]).code(2);
    place.rtc(&["explain", "leaks-future"]).code(0);
}

#[test]
fn wrong_arguments_exit_with_2() {
    let place = Place::new();
    place.rtc(&[]).code(2);
    place.rtc(&["check"]).code(2);
    place.rtc(&["check", "tiny.rt", "--bogus"]).code(2).says("--bogus");
    place.rtc(&["compile", "tiny.rt", "--emit", "grpah"]).code(2).says("graph");
    place.rtc(&["compile", "tiny.rt", "--task", "listop"]).code(2).says("did you mean `listops`?");
    place.rtc(&["compile", "tiny.rt", "--emit", "grad", "--inference"]).code(2);
    if cfg!(not(feature = "cuda")) {
        place
            .rtc(&["train", "tiny.rt", "--device", "cuda"])
            .code(2)
            .says("without CUDA; build it with `--features cuda`");
        for command in [["eval", "no_such_run"], ["report", "no_such_run"], ["ablate", "no_such_grid"]] {
            place.rtc(&[&command[..], &["--device", "cuda"]].concat()).code(2).says("without CUDA");
        }
    }
    place.rtc(&["train", "tiny.rt", "--launch", "direct"]).code(2).says("`--launch` is for `--device cuda`");
    for threads in ["0", "1025", "100000000"] {
        place.rtc(&["train", "tiny.rt", "--threads", threads]).code(2).says("from 1 to 1024");
    }
    for run in ["", ".", "..", "../x", "a/../..", "/x"] {
        place.train(&["--run", run]).code(2).says("is no name");
    }
    place.rtc(&["task", "sample", "listops", "--count", "1000000000000"]).code(2).says("10000000");
    place.train(&["--with", "task.sizes.train=1000000000000"]).code(2).says("at most 10000000");
    place.train(&["--with", "task.sizes.train=-1"]).code(2).says("expected a whole number, 0 or more");
    place.rtc(&["train", "tiny.rt", "--with", "epohcs=2"]).code(2).says("did you mean `epochs`?");
    place.rtc(&["explain", "unknown-feild"]).code(2).says("did you mean `unknown-field`?");
    place.rtc(&["task", "sample", "listops", "--split", "tst"]).code(2).says("did you mean `test`?");
    place.rtc(&["eval", "no_such_run"]).code(6).says("there is no such run");
    place.rtc(&["--help"]).code(0);
}

#[test]
fn cost_prints_formulas_and_a_table() {
    let place = Place::new();
    let both = ["cost", "tiny.rt", "tiny.rt:no_halt", "--task", "listops", "--length", "20,40"];
    let answer = place.rtc(&both);
    let text = &answer.code(0).stdout;
    for part in [
        "tiny:no_halt",
        "M = min(3, n + 3)",
        "D = min(depth, M)",
        "2 D + 2",
        "sequential depth  7",
        "n^2",
        "memory training",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let json = place.rtc(&["cost", "tiny.rt", "--depth", "1.5", "--batch", "4", "--json"]).code(0).json();
    let figures = &json[0]["figures"][0];
    assert_eq!((figures["batch"].as_u64(), figures["depth"].as_f64()), (Some(4), Some(5.0)), "{json:#}");
    let bound = place.rtc(&["cost", "tiny.rt", "--batch", "4", "--json"]).code(0).json();
    assert!(figures["training"].as_f64() < bound[0]["figures"][0]["training"].as_f64(), "{json:#}");
    assert!(json[0]["formulas"]["parameters"].as_str().is_some_and(|text| text.contains("classes")), "{json:#}");
    place.rtc(&["cost", "tiny.rt", "--depth", "few"]).code(2).says("a number of steps");
    place.rtc(&["cost", "tiny.rt", "--length", "0"]).code(2);
    let searched = place.rtc(&["cost", "ebt_grc"]);
    assert!(searched.code(0).stdout.contains("  at most: beams"), "{}", searched.stdout);
    assert_eq!(place.rtc(&["cost", "ebt_grc", "--json"]).code(0).json()[0]["at_most"], true);
    let plan = place.rtc(&["compile", "ebt_grc", "--emit", "plan", "--batch", "2"]);
    assert!(plan.code(0).stdout.contains("lists of its searches"), "{}", plan.stdout);
    place.rtc(&["cost", "tiny.rt:nogate"]).code(3).says("`tiny:no_gate`");
    // Steps of a search that are alike are counted at once, however many there are.
    let long = place.rtc(&[
        "cost",
        "ebt_grc",
        "bt_grc:one_soft",
        "bbt_grc",
        "--task",
        "listops",
        "--length",
        "1000000000",
        "--json",
    ]);
    for model in long.code(0).json().as_array().expect("three models") {
        let figures = &model["figures"][0];
        assert!(figures["forward"].as_f64() > Some(1e15) && figures["memory_extended"] == true, "{figures}");
    }
    let plain = place.rtc(&["cost", "tiny.rt", "--task", "listops", "--json"]).code(0).json();
    let muon = place.rtc(&["cost", "tiny.rt", "--task", "listops", "--optimiser", "muon", "--json"]).code(0).json();
    let total = |json: &Value| json[0]["figures"][0]["training_total"].as_u64().expect("bytes");
    assert!(muon[0]["figures"][0]["update"].as_f64() > Some(1e5) && plain[0]["figures"][0]["update"].is_null());
    assert!(total(&muon) > total(&plain));
}

#[test]
fn the_model_of_an_experiment_is_found_beside_it() {
    let place = Place::new();
    fs::create_dir(place.path("mine")).expect("a new folder");
    place.write("mine/own.rt", &place.read("tiny.rt").replace("tiny", "own"));
    let experiment = place.read("tiny.yaml");
    place.write("mine/own.yaml", &format!("model: own:no_gate\n{experiment}"));
    let train =
        |more: &[&str]| place.rtc(&[&["train", "--experiment", "mine/own.yaml", "--max-steps", "1"], more].concat());
    let json = train(&["--json"]).code(0).json();
    assert_eq!(json["model"], "own:no_gate");
    // A path from the current folder is one, too.
    place.write("mine/own.yaml", &format!("model: tiny.rt\n{experiment}"));
    assert_eq!(train(&["--json"]).code(0).json()["model"], "tiny");
    place.write("mine/own.yaml", &format!("{experiment}model: ownn\n"));
    let line = experiment.lines().count() + 1;
    train(&[]).code(2).says(&format!("mine/own.yaml:{line}: `model`: there is no spec `ownn`; did you mean `own`?"));
}

#[test]
fn a_training_that_is_refused_leaves_nothing_behind() {
    let place = Place::new();
    place.train(&["--set", "embed.width=1048576"]).code(8);
    place.train(&["--with", "task.data=nothing"]).code(4);
    assert!(!place.path("runs").exists());
    place.train(&["--run", "kept", "--max-steps", "1"]).code(0);
    place.train(&["--set", "embed.width=1048576"]).code(8);
    let left: Vec<_> =
        fs::read_dir(place.path("runs")).expect("runs").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["kept"]);
}

#[test]
fn the_evaluated_splits_are_there_once() {
    let place = Place::new();
    let twice = "`evaluate` must name every split once: got `test` twice. Remove one of the two";
    for list in ["[test, test]", "[test, dev, test]"] {
        place.write("wrong.yaml", &place.read("tiny.yaml").replace("[test]", list));
        let told = format!("wrong.yaml:10: {twice}");
        place.rtc(&["train", "tiny.rt", "--experiment", "wrong.yaml"]).code(2).says(&told);
        place.rtc(&["task", "check", "wrong.yaml"]).code(2).says(&told);
        let edit = format!("evaluate={list}");
        place.train(&["--with", &edit]).code(2).says(&format!("the edit `{edit}`: {twice}"));
    }
    assert!(!place.path("runs").exists());
}

#[test]
fn a_training_without_evaluation_measures_nothing_at_its_end() {
    let place = Place::new();
    place.train(&["--run", "r", "--max-steps", "1", "--with", "evaluate=[]"]).code(0).is_quiet_about("test ");
    assert!(!place.read("runs/r/metrics.jsonl").contains("\"split\":\"test\""));
    place.rtc(&["predict", "r", "[MAX 2 9 ]"]).code(0);
    place.rtc(&["runs", "--columns", "name,evaluate"]).code(0);
    place.rtc(&["report", "r"]).code(0);
    place
        .rtc(&["eval", "r"])
        .code(2)
        .says("the run evaluates nothing (`evaluate: []`): name a split, as `--split test`");
    place.rtc(&["eval", "r", "--split", "test"]).code(0);
    // A table has nothing to compare by.
    place.write("grid.yaml", "extends: tiny.yaml\ncompare: [tiny]\n");
    place
        .rtc(&["ablate", "grid.yaml", "--with", "evaluate=[]"])
        .code(2)
        .says("is `[]`, and the rows of a table are measured: name a split, as `evaluate=[test]`");
}

#[test]
fn a_folder_that_lost_its_identity_says_what_is_missing() {
    let place = Place::new();
    place.train(&["--run", "r", "--max-steps", "1"]).code(0);
    fs::remove_file(place.path("runs/r/run.json")).expect("it is there");
    let again = place.train(&["--run", "r", "--max-steps", "1"]);
    again.code(2).says("no run.json").is_quiet_about("resume it");
    assert!(place.path("runs/r/checkpoints/last").exists());
    fs::remove_dir_all(place.path("runs/r/checkpoints")).expect("it is there");
    for later in ["metrics.jsonl", "timing.jsonl", "events.out.tfevents.0.rtc", "results.json", "answers.json"] {
        assert!(place.path("runs/r").join(later).exists(), "{later}");
        place
            .train(&["--run", "r", "--max-steps", "1"])
            .code(2)
            .says(&format!("the folder has {later} and no run.json"));
        fs::remove_file(place.path("runs/r").join(later)).expect("it is there");
    }
    // What a process leaves that was killed while it began.
    place.train(&["--run", "r", "--max-steps", "1"]).code(0);
}

#[test]
fn a_training_replaces_no_file_of_its_user() {
    for name in ["spec.rt", "experiment.yaml"] {
        let place = Place::new();
        fs::create_dir_all(place.path("runs/r")).expect("a folder");
        place.write(&format!("runs/r/{name}"), "// mine\n");
        place
            .train(&["--run", "r", "--max-steps", "1"])
            .code(2)
            .says(&format!("a file {name} that is not of this run"));
        assert_eq!(place.read(&format!("runs/r/{name}")), "// mine\n");
    }
}

#[test]
fn what_compile_writes_replaces_a_file_whole() {
    let place = Place::new();
    place.write("graph.rtir", "mine");
    std::os::unix::fs::symlink("graph.rtir", place.path("link.rtir")).expect("a link");
    place.rtc(&["compile", "gut", "--emit", "plan", "--inference", "--output", "link.rtir"]).code(0);
    assert_eq!(place.read("graph.rtir"), "mine", "the link is replaced, not followed");
    assert_ne!(place.read("link.rtir"), "mine");
    place.rtc(&["compile", "gut", "--output", "/dev/null"]).code(0);
}

#[test]
fn help_begins_with_examples() {
    let place = Place::new();
    let commands =
        "check compile fmt show explain diff cost train ablate eval predict generate export task completions";
    for command in commands.split(' ') {
        let help = place.rtc(&[command, "--help"]);
        assert!(help.code(0).stdout.starts_with("Examples:\n  rtc "), "{command}: {}", help.stdout);
    }
    assert!(place.rtc(&["--help"]).code(0).stdout.contains("Exit codes:"));
}

#[cfg(target_os = "linux")]
#[test]
fn names_that_are_not_utf8_are_no_panic() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let name = OsStr::from_bytes(b"runs \xff");
    let train = ["train", "tiny.rt", "--experiment", "tiny.yaml", "--max-steps", "1", "--run", "r", "--json", "--runs"];
    let trained: Answer =
        place.command(crate::support::RTC).args(train).arg(name).output().expect("the binary runs").into();
    trained.code(0).json();
    let run = std::path::Path::new(name).join("r");
    let measured: Answer =
        place.command(crate::support::RTC).args(["eval", "--json"]).arg(run).output().expect("it runs").into();
    measured.code(0).json();
    let spec: Answer =
        place.command(crate::support::RTC).arg("check").arg(name).output().expect("the binary runs").into();
    spec.code(2);
}

#[test]
fn compile_prints_every_stage_alike_each_time() {
    let place = Place::new();
    for stage in ["spec", "graph", "grad", "optimised", "plan", "yaml", "json", "dot", "mermaid"] {
        let args = ["compile", "tiny.rt", "--task", "listops", "--emit", stage];
        let first = place.rtc(&args);
        first.code(0).says("parameters").says("nodes");
        assert!(first.stdout.lines().count() > 5, "{stage}: {}", first.stdout);
        assert_eq!(first.stdout, place.rtc(&args).stdout, "{stage}");
    }
    place.rtc(&["compile", "tiny.rt", "--emit", "json"]).code(0).says("+").json();
    let structure = place.rtc(&["compile", "tiny.rt", "--emit", "dot", "--level", "slots"]).code(0).stdout.clone();
    assert!(structure.starts_with("digraph \"tiny\" {") && structure.contains("attend self\\nheads 2"), "{structure}");
    place.rtc(&["compile", "tiny.rt", "--level", "slots"]).code(2).says("--emit dot");
    let inference = place.rtc(&["compile", "tiny.rt", "--inference"]);
    assert!(!inference.code(0).stdout.contains("dropout"));
    let out = place.rtc(&["compile", "tiny.rt", "-o", "a graph.rtir"]);
    assert_eq!(out.code(0).stdout, "");
    assert!(place.read("a graph.rtir").starts_with("graph"));
    place.rtc(&["compile", "tiny.rt", "-o", "no/such/folder"]).code(6);
}

#[test]
fn fmt_rewrites_checks_and_filters() {
    let place = Place::new();
    let ugly = "model   m {\nembed {width:16}\n  readout mean }\n";
    place.write("a b.rt", ugly);
    let checked = place.rtc(&["fmt", "--check", "tiny.rt", "a b.rt"]);
    assert_eq!(checked.code(1).stdout, "a b.rt\n");
    let piped = place.rtc_with(&["fmt", "-"], ugly);
    place.rtc(&["fmt", "a b.rt"]).code(0);
    assert_eq!(place.read("a b.rt"), piped.code(0).stdout);
    place.rtc(&["fmt", "--check", "a b.rt"]).code(0);
    place.rtc_with(&["fmt", "-"], "model {").code(3).says("standard input");
}

#[test]
fn show_and_explain_answer_in_text_and_json() {
    let place = Place::new();
    let text = place.rtc(&["show", "tiny.rt:no_gate", "--set", "embed.width=32"]);
    text.code(0);
    assert!(text.stdout.contains("width: 32 // --set 1"), "{}", text.stdout);
    assert!(text.stdout.contains("gate none // variant no_gate"), "{}", text.stdout);
    let json = place.rtc(&["show", "tiny.rt", "--json"]).code(0).json();
    assert_eq!(json["model"]["slot"], "model");
    place.write("mine.yaml", "extends: listops_smoke\nepochs: 3\noptimiser: { clip: null }\n");
    let text = place.rtc(&["show", "--experiment", "mine.yaml"]).code(0).stdout.clone();
    for line in ["epochs: 3  # mine.yaml:2\n", "  clip: null  # mine.yaml:3\n", "  accumulate: 1  # default\n"] {
        assert!(text.contains(line), "{text}");
    }
    assert!(text.contains("  learning_rate: 0.001  # listops_smoke:"), "{text}");
    let json = place.rtc(&["show", "--experiment", "mine.yaml", "--json"]).code(0).json();
    let settings = json["settings"].as_array().expect("a list of settings");
    let epochs = settings.iter().find(|setting| setting["path"] == serde_json::json!(["epochs"])).expect("it is there");
    assert_eq!((&epochs["value"], &epochs["origin"]["place"]), (&3.into(), &"mine.yaml:2".into()));
    place.rtc(&["show"]).code(2);
    place.rtc(&["show", "--experiment", "mine.yaml", "--parameters"]).code(2).says("need a spec");
    place.write("wrong.yaml", "extends: base\n");
    place.write("base.yaml", "extends: listops_smoke\n\noptimiser:\n  clipp: 1\n");
    let wrong = place.rtc(&["show", "--experiment", "wrong.yaml"]);
    wrong.code(2).says("base.yaml:4: optimiser: unknown field `clipp`");
    assert!(place.rtc(&["explain", "unknown-field"]).code(0).stdout.contains("Wrong:"));
    let halting = place.rtc(&["explain", "halt", "global"]);
    assert!(halting.code(0).stdout.contains("\nSource: Ray Chowdhury and Caragea 2024"), "{}", halting.stdout);
    let codes = place.rtc(&["explain", "--json"]).code(0).json();
    assert!(codes.as_array().is_some_and(|codes| codes.len() > 20));
    for shell in ["bash", "zsh", "fish"] {
        assert!(place.rtc(&["completions", shell]).code(0).stdout.contains("rtc"));
    }
}

#[test]
fn diff_names_what_an_ablation_changes() {
    let place = Place::new();
    let slots = |answer: &Answer| -> Vec<String> {
        let json = answer.json();
        let slots = json["slots"].as_array().expect("a list of slots").clone();
        slots.iter().map(|slot| slot["slot"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let gate = place.rtc(&["diff", "tiny.rt", "tiny.rt:no_gate", "--json"]);
    assert!(slots(gate.code(0)).iter().all(|slot| slot.contains("gate")), "{}", gate.stdout);
    place.rtc(&["diff", "tiny.rt", "tiny.rt:no_gate", "--only", "gate"]).code(0);
    // One spec with its edits is compared with itself.
    let edited = place.rtc(&["diff", "tiny.rt", "--set", "gate none", "--only", "gate"]);
    assert!(edited.code(0).stdout.starts_with("- tiny.rt\n+ tiny.rt { gate none }\n"), "{}", edited.stdout);
    place.rtc(&["diff", "tiny.rt"]).code(2).says("name the second one, or give `--set`");
    place.rtc(&["diff", "tiny.rt", "tiny.rt:no_gate", "--only", "halt"]).code(1).says("outside `halt`");
    place.rtc(&["diff", "tiny.rt", "tiny.rt:no_halt", "--only", "halt"]).code(0).says("follow from it");
    place.rtc(&["diff", "tiny.rt", "tiny.rt:no_halt", "--only", "depthwise.halt"]).code(0);
    place.rtc(&["diff", "tiny.rt:no_gate", "tiny.rt:no_halt", "--only", "halt"]).code(1);
    place.rtc(&["diff", "tiny.rt", "tiny.rt:no_gate", "--only", "gat"]).code(2).says("did you mean `gate`?");
    assert_eq!(place.rtc(&["diff", "tiny.rt", "tiny.rt"]).code(0).stdout, "the graphs are equal\n");
    let text = place.rtc(&["diff", "tiny.rt", "tiny.rt:no_gate", "--length", "1000"]);
    assert!(text.code(0).stdout.contains("for a row of 1,000 tokens"), "{}", text.stdout);
}

/// A gate of one's own in the place of the library's changes the gate alone, and the proof says so.
#[test]
fn a_defined_gate_changes_only_the_gate() {
    let place = Place::new();
    let gate = "def gate by_motion(result, input, normed) {\n    moved = (result - input)^2\n    out lerp(sigmoid(linear(cat(normed, moved))), result, input)\n}\n\n";
    let variants = "\nvariant by_motion of tiny { gate by_motion }\nvariant further of tiny {\n    gate by_motion\n    self.heads: 4\n}\n";
    place.write("own.rt", &format!("{gate}{}{variants}", place.read("tiny.rt")));
    assert_eq!(place.rtc(&["diff", "own.rt:tiny", "tiny.rt"]).code(0).stdout, "the graphs are equal\n");
    let swapped = place.rtc(&["diff", "own.rt:tiny", "own.rt:by_motion", "--only", "gate"]);
    swapped.code(0);
    let found = place.rtc(&["diff", "own.rt:tiny", "own.rt:by_motion", "--json"]);
    let slots = found.code(0).json()["slots"].as_array().expect("a list of slots").clone();
    assert!(!slots.is_empty(), "{}", found.stdout);
    assert!(
        slots.iter().all(|slot| slot["slot"].as_str().is_some_and(|slot| slot.contains("gate"))),
        "{}",
        found.stdout
    );
    place.rtc(&["diff", "own.rt:by_motion", "own.rt:further", "--only", "gate"]).code(1).says("outside `gate`");
    place.rtc(&["diff", "own.rt:tiny", "own.rt:further", "--only", "gate"]).code(1);
}

/// The same layers under other names: in the model, in a loop of one step, from definitions, with other bindings.
const RENAMED: &str = "\
def ours(x) {
    hidden: int
    up = linear(norm(x)) { to: hidden }
    down = linear(gelu(up))
    out dropout(down, 0.1) + x
}

def theirs(y) {
    wide: int
    open = linear(norm(y)) { to: wide }
    shut = linear(gelu(open))
    out dropout(shut, 0.1) + y
}

model plain {
    embed { width: 16 }
    attend self { heads: 2, mask: j <= i }
    ours { hidden: 32 }
    ours { hidden: 32 }
    readout mean
}

model other {
    embed { width: 16 }
    attend self { heads: 2, mask: j <= i }
    theirs { wide: 32 }
    theirs { wide: 32 }
    readout mean
}

model wrapped {
    embed { width: 16 }
    recur depthwise {
        depth: 1
        attend self { heads: 2, mask: j <= i + step }
        theirs { wide: 32 }
        theirs { wide: 32 }
    }
    readout mean
}

variant more_heads of wrapped { self.heads: 4 }
variant twice of wrapped { depthwise.depth: 2 }
";

/// What has another name or stands in a loop of one step computes the same; what differs besides is told alone.
#[test]
fn diff_sees_through_names_and_loops_of_one_step() {
    let place = Place::new();
    place.write("r.rt", RENAMED);
    for (a, b, line) in [
        ("plain", "other", "  ours.up.weight is called theirs.open.weight\n"),
        ("plain", "wrapped", "  ours_2.down.bias is called depthwise.theirs_2.shut.bias\n"),
        ("wrapped", "other", "  depthwise.self.query.weight is called self.query.weight\n"),
    ] {
        let (a, b) = (format!("r.rt:{a}"), format!("r.rt:{b}"));
        let found = place.rtc(&["diff", &a, &b, "--only", "embed"]);
        let first = format!("the graphs compute the same; names of {a} and {b} differ:\n");
        assert!(found.code(0).stdout.starts_with(&first), "{}", found.stdout);
        assert!(found.stdout.contains(line), "{}", found.stdout);
        let json = place.rtc(&["diff", &a, &b, "--json"]).code(0).json();
        assert_eq!((json["equal"].as_bool(), json["slots"].as_array().map(Vec::len)), (Some(true), Some(0)));
        assert!(json["renamed"]["parameters"].as_array().is_some_and(|names| names.len() >= 8), "{json}");
    }
    let args = ["diff", "r.rt:plain", "r.rt:more_heads"];
    let heads = place.rtc(&[&args[..], &["--json"]].concat()).code(0).json();
    let slots: Vec<_> = heads["slots"].as_array().expect("slots").iter().map(|slot| slot["slot"].clone()).collect();
    assert_eq!(slots, ["depthwise.self"], "{heads}");
    assert!(heads["renamed"]["parameters"].as_array().is_some_and(|names| names.len() == 18), "{heads}");
    place.rtc(&[&args[..], &["--only", "self"]].concat()).code(0);
    place.rtc(&[&args[..], &["--only", "theirs"]].concat()).code(1).says("outside `theirs`: `depthwise.self`");
    let twice = place.rtc(&["diff", "r.rt:plain", "r.rt:twice", "--only", "depthwise"]);
    assert!(twice.code(0).stdout.contains("\n  + recur {bound: 2}"), "{}", twice.stdout);
    assert!(twice.stdout.contains("  ours.up.weight is called depthwise.theirs.open.weight\n"), "{}", twice.stdout);
}

/// What the shells ask for: names, paths and words of the language, and what stands in the files of the line.
#[test]
fn lines_are_completed() {
    let place = Place::new();
    let gate =
        "def gate by_motion(result, input, normed) {\n    out lerp(sigmoid(linear(normed)), result, input)\n}\n\n";
    place.write("own.rt", &format!("{gate}{}", place.read("tiny.rt")));
    let fits = |line: &str| -> Vec<String> {
        let words: Vec<&str> = line.split(' ').collect();
        let found = place.rtc(&[&["complete", "--"], &words[..]].concat());
        found.code(0).stdout.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect()
    };
    for (line, wanted) in [
        ("rtc tr", "train"),
        ("rtc train gut --exp", "--experiment"),
        ("rtc train gut:no_g", "gut:no_gate"),
        ("rtc check tiny.rt:no", "tiny.rt:no_halt"),
        ("rtc check ti", "tiny.rt"),
        ("rtc train --experiment listops_sm", "listops_smoke"),
        ("rtc train --experiment ti", "tiny.yaml"),
        ("rtc check gut --task list", "listops"),
        ("rtc task describe flip", "flip_flop"),
        ("rtc check own.rt --set depthwise.ga", "depthwise.gate="),
        ("rtc check own.rt --set depthwise.gate=by", "depthwise.gate=by_motion"),
        ("rtc check own.rt --set depthwise.gate=n", "depthwise.gate=none"),
        ("rtc train gut --set depthwise.self.pos", "depthwise.self.position="),
        ("rtc train gut --set depthwise.self.position=xp", "depthwise.self.position=xpos"),
        ("rtc train gut --set=depthwise.self.position=xp", "--set=depthwise.self.position=xpos"),
        ("rtc train gut --experiment tiny.yaml --with batch.s", "batch.size="),
        ("rtc diff tiny.rt tiny.rt:no_gate --only depthwise.g", "depthwise.gate"),
        ("rtc explain unknown-f", "unknown-field"),
        ("rtc explain halt gl", "global"),
        ("rtc explain lin", "linear"),
        ("rtc explain feedf", "feedforward"),
        ("rtc train gut --device ", "cpu"),
    ] {
        let found = fits(line);
        assert!(found.iter().any(|word| word == wanted), "{line}: {wanted} is not in {found:?}");
    }
    // What is not right yet is no mistake of the line.
    place.write("broken.rt", "model m {");
    for line in [
        "rtc check broken.rt --set ",
        "rtc check none.rt --set a=",
        "rtc diff none.rt none.rt --only ",
        "rtc unknown x",
        "rtc",
    ] {
        place.rtc(&[&["complete", "--"], &line.split(' ').collect::<Vec<_>>()[..]].concat()).code(0).is_silent();
    }
}

/// The script of bash hands a line over and puts what comes back into it.
#[test]
fn bash_completes_lines() {
    let place = Place::new();
    place.write("rtc.bash", &place.rtc(&["completions", "bash"]).code(0).stdout);
    let answer = |line: &str| {
        let words = "COMP_WORDS=(\"$RTC\")";
        let line = format!("COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}");
        let script = format!("source rtc.bash; {words}; {line}; _rtc; printf '%s\\n' \"${{COMPREPLY[@]}}\"");
        place.shell(&script).code(0).stdout.trim().to_owned()
    };
    assert_eq!(answer("rtc expla"), "explain");
    // bash cuts words at `:` and `=`: what stands before them is on the line already.
    assert_eq!(answer("rtc check tiny.rt:no_g"), "no_gate");
    assert_eq!(answer("rtc check tiny.rt --set depthwise.gate=no"), "none");
    assert_eq!(answer("rtc check tiny.rt --set depthwise.dep"), "depthwise.depth=");
}

#[test]
fn tasks_are_listed_described_and_sampled() {
    let place = Place::new();
    assert!(place.rtc(&["task", "list"]).code(0).stdout.starts_with("listops"));
    assert!(place.rtc(&["task", "describe", "listops"]).code(0).stdout.contains("train_length"));
    let split = place.rtc(&["task", "describe", "listops", "--split", "200-300", "--count", "20", "--json"]);
    assert_eq!(split.code(0).json()["examples"], 20);
    let args = ["task", "sample", "listops", "--option", "train_length=9", "--seed", "3", "--count", "4"];
    let sample = place.rtc(&args);
    assert_eq!(sample.code(0).stdout.lines().count(), 4);
    assert_eq!(sample.stdout, place.rtc(&args).stdout);
    let json = place.rtc(&[&args[..], &["--json"]].concat()).code(0).json();
    assert!(json[0]["text"].is_string());
}

#[test]
fn a_run_is_trained_reported_evaluated_and_asked() {
    let place = Place::new();
    let first = place.train(&["--json"]);
    let results = first.code(0).says("parameters").says("data: train").json();
    let run = results["run"].as_str().expect("the folder").to_owned();
    assert!(run.starts_with("runs/tiny-tiny-seed1-"), "{run}");
    let metrics = place.read(&format!("{run}/metrics.jsonl"));

    // The same command reports; a fresh one makes the same numbers in a new folder.
    let again = place.train(&["--json"]);
    assert_eq!(again.code(0).says("is finished").json(), results);
    let fresh = place.train(&["--json", "--fresh", "--threads", "1", "--halting", "never"]);
    assert_eq!(fresh.code(0).json()["run"], format!("{run}.2"));
    assert_eq!(place.read(&format!("{run}.2/metrics.jsonl")), metrics);
    assert!(place.train(&[]).code(0).stdout.starts_with("split"));

    let measured = place.rtc(&["eval", &run, "--json"]).code(0).json();
    assert_eq!(measured["splits"], results["splits"]);
    place.rtc(&["eval", run.trim_start_matches("runs/"), "--checkpoint", "last", "--split", "dev"]).code(0);
    place.write("rows.tsv", "9\t[MAX 2 9 ]\n1\t[MIN 1 2 ]\n");
    let rows = place.rtc(&["eval", &run, "--data", "rows.tsv", "--json"]).code(0).json();
    assert_eq!(rows["splits"][0]["examples"], 2);
    place.write("broken.tsv", "9\t[MAX 2 9 ]\n7\t[MIN 1 2 ]\n");
    place.rtc(&["eval", &run, "--data", "broken.tsv"]).code(4).says("broken.tsv:2");
    place.write("none.tsv", "");
    place.rtc(&["eval", &run, "--data", "none.tsv"]).code(4).says("no rows");

    // The head of a training file is dev, as long as in the experiment.
    fs::create_dir(place.path("published")).expect("a new folder");
    let digits = (0..10).flat_map(|a| (0..4).map(move |b| (a, b)));
    let published: String = digits.map(|(a, b)| format!("{}\t[MAX {a} {b} ]\n", a.max(b))).collect();
    place.write("published/train_d20s.tsv", &published);
    let dev = place.rtc(&["eval", &run, "--data", "published", "--split", "dev", "--json"]).code(0).json();
    assert_eq!(dev["splits"][0]["examples"], 32);
    place.rtc(&["eval", &run, "--depth", "2"]).code(2).says("`--depth` is for models with `depth: given`");

    let one = place.rtc(&["predict", &run, "[MAX 2 9 [MIN 4 7] 0]"]);
    assert_eq!(one.code(0).stdout.split('\t').count(), 4, "{}", one.stdout);
    let many = place.rtc_with(&["predict", &run, "--json"], "[MAX 1 2 ]\n\n( [SM 1 2 ] )\n");
    let answers: Vec<Value> =
        many.code(0).stdout.lines().map(|line| serde_json::from_str(line).expect("an object per line")).collect();
    assert_eq!(answers.len(), 2);
    assert!(answers[0]["confidence"].as_f64().is_some_and(|p| p > 0.0 && p <= 1.0));
    place.rtc_with(&["predict", &run], "3\n[MAX 1 x ]\n").code(4).says("standard input:2");
    place.rtc(&["predict", &run, "[MAX 1"]).code(4);
}

/// The tiny experiment on another task.
fn experiment(place: &Place, name: &str, task: &str, evaluate: &str) {
    let tiny = place.read("tiny.yaml");
    let (_, rest) = tiny.split_once("optimiser").expect("the block after the task");
    let rest = rest.replace("evaluate: [test]", evaluate);
    place.write(name, &format!("task:\n{task}optimiser{rest}"));
}

#[test]
fn pairs_are_trained_measured_and_asked() {
    let place = Place::new();
    let task = "  name: logic\n  options: { pairs: 1000 }\n  sizes: { train: 160, dev: 32, ops-7: 6 }\n";
    experiment(&place, "logic.yaml", task, "evaluate: [ops-7, ops-8]");
    let train = ["train", "tiny.rt", "--experiment", "logic.yaml", "--run", "r", "--json"];
    let results = place.rtc(&train).code(0).json();
    assert_eq!(results["splits"][0]["examples"], 6);
    assert_eq!(place.rtc(&["eval", "r", "--json"]).code(0).json()["splits"], results["splits"]);
    let one = place.rtc(&["predict", "r", "( not a ) ||| ( a ( or b ) )"]);
    assert_eq!(one.code(0).stdout.split('\t').count(), 4, "{}", one.stdout);
    let rows = place.rtc(&["task", "sample", "logic", "--option", "pairs=1000", "--count", "3"]);
    let pairs: Vec<&str> = rows.code(0).stdout.lines().filter_map(|line| line.split('\t').nth(1)).collect();
    let many = place.rtc_with(&["predict", "r", "--json"], &(pairs.join("\n") + "\n"));
    assert_eq!(many.code(0).stdout.lines().count(), 3);
    place.rtc(&["predict", "r", "( not a )"]).code(4).says("left ||| right");
    place.rtc(&["predict", "r", "a ||| ( b"]).code(4).says("right of a pair: ");
    place.write("pairs.txt", "( not a ) ||| ( a ( or b ) )\n");
    place.rtc(&["report", "r", "--examples", "0", "--inputs", "pairs.txt"]).code(0);
    assert!(place.read("runs/r/report.html").contains("pairs.txt:1, "), "the pair is drawn");
    place.write("pairs.txt", "\n( not a )\t( a ( or b ) )\n( not a )\n");
    place.rtc(&["report", "r", "--inputs", "pairs.txt"]).code(4).says("pairs.txt:3: ").says("left ||| right");
    let both = place.rtc_with(&["predict", "r"], "( not a ) ||| ( a ( or b ) )\n( not a )\t( a ( or b ) )\n");
    let lines: Vec<&str> = both.code(0).stdout.lines().collect();
    assert_eq!(lines[0], lines[1], "a tab stands between the sides as well");
    place.write("rows", "#\ta\tb\n<\ta\tb\n");
    place.rtc(&["eval", "r", "--data", "rows"]).code(4).says("rows:2");
    // In parts and in several threads the numbers stay the same, and so in parts of another size.
    let other = ["--run", "s", "--threads", "1"];
    let again = place.rtc(&[&train[..4], &other[..]].concat());
    again.code(0);
    assert_eq!(place.contents("r"), place.contents("s"));
    place.rtc(&["train", "tiny.rt", "--experiment", "logic.yaml", "--with", "batch.accumulate=3"]).code(0);
}

#[test]
fn a_task_with_an_answer_per_token_reports_its_own_metric() {
    let place = Place::new();
    let text = place.read("tiny.rt");
    place.write("tiny.rt", &(text + "\nvariant causal of tiny {\n    embed.tokens: none\n    readout each\n}\n"));
    let task = "  name: flip_flop\n  options: { pairs: 8, long_pairs: 12 }\n  sizes: { train: 160, dev: 35, dense: 32, long-sparse: 32 }\n";
    experiment(&place, "flip.yaml", task, "evaluate: [dense, long-sparse]");
    let train = ["train", "tiny.rt:causal", "--experiment", "flip.yaml", "--run", "r", "--json"];
    let results = place.rtc(&train).code(0).json();
    let row = &results["splits"][0];
    for share in [&row["metrics"]["last_read"], &row["accuracy"]] {
        assert!(share.as_f64().is_some_and(|share| (0.0..=1.0).contains(&share)), "{row}");
    }
    assert_eq!(place.rtc(&["eval", "r", "--json"]).code(0).json()["splits"], results["splits"]);
    let table = place.rtc(&["eval", "r"]);
    assert!(table.code(0).stdout.starts_with("split        examples  last read  accuracy"), "{}", table.stdout);
    assert!(place.read("runs/r/metrics.jsonl").contains("\"last_read\":"));
    let each = place.rtc(&["predict", "r", "w 0 r", "--json"]).code(0).json();
    assert_eq!(each["classes"].as_array().map(Vec::len), Some(3), "one class per token: {each}");
    assert!(
        each["classes"].as_array().is_some_and(|all| all.iter().all(|class| class == "0" || class == "1")),
        "{each}"
    );
    let least =
        each["confidence"].as_array().expect("one per token").iter().filter_map(|p| p.as_f64()).fold(1.0, f64::min);
    let line = place.rtc(&["predict", "r", "w 0 r"]).code(0).stdout.clone();
    let classes: Vec<&str> = each["classes"].as_array().expect("a list").iter().filter_map(|c| c.as_str()).collect();
    assert_eq!(line, format!("{}\t{:.1} %\t1.0\tw 0 r\n", classes.join(" "), 100.0 * least), "one step is taken");
    place.rtc(&["train", "tiny.rt", "--experiment", "flip.yaml"]).code(3).says("readout each");
}

#[test]
fn broken_data_and_divergence_have_codes_of_their_own() {
    let place = Place::new();
    place.write("train.tsv", "9\t[MAX 2 9 ]\n8\t[MAX 2 9 ]\n");
    place.train(&["--with", "task.data={train: train.tsv}"]).code(4).says("train.tsv:2");
    assert!(!place.path("runs").join("x").exists());
    fs::create_dir(place.path("nothing")).expect("a new folder");
    place.train(&["--with", "task.data=nothing"]).code(4).says("no published file");
    place.train(&["--with", "optimiser.learning_rate=1e30", "--with", "schedule.warmup=0"]).code(5).says("non-finite");
    place.rtc(&["train", "tiny.rt:no_gate", "--experiment", "tiny.yaml", "--set", "embed.widht=8"]).code(3);
}

#[test]
fn damaged_and_foreign_runs_are_refused() {
    let place = Place::new();
    place.train(&["--run", "r"]).code(0);
    place.train(&["--run", "r", "--seed", "2"]).code(7).says("seed");
    place.train(&["--run", "r", "--with", "batch.size=8"]).code(7).says("batch.size was 16 and is 8 now");
    place
        .train(&["--run", "r", "--set", "embed.width=8"])
        .code(7)
        .says("another value of the spec: ")
        .says("embed.width was 16 and is 8 now");
    let weights = place.path("runs/r/checkpoints/best/weights.safetensors");
    let good = fs::read(&weights).expect("weights");
    fs::write(&weights, &good[..good.len() - 1]).expect("cut weights");
    place
        .rtc(&["eval", "r"])
        .code(7)
        .says("bytes instead of")
        .says("no other one can stand in its place")
        .is_quiet_about("checkpoints/last");
    let mut other = good.clone();
    *other.last_mut().expect("a byte") ^= 1;
    fs::write(&weights, &other).expect("changed weights");
    place.rtc(&["predict", "r", "3"]).code(7).says("SHA-256");
    fs::write(&weights, &good).expect("the good weights");
    place.rtc(&["predict", "r", "3"]).code(0);
    let spec = place.read("runs/r/spec.rt");
    place.write("runs/r/spec.rt", &spec.replace("width: 16", "width: 32"));
    place.rtc(&["eval", "r"]).code(7).says("spec.rt was changed").says("put back the spec.rt");
    // What another version wrote: the spec is another one, or none any more.
    place.begin_with("runs/r", "spec.rt", &spec.replace("width: 16", "width: 32"));
    place.rtc(&["eval", "r"]).code(7).says("spec.rt was changed").says("put back the spec.rt");
    place.begin_with("runs/r", "spec.rt", &spec.replace("halt global", "halt globul"));
    place.rtc(&["eval", "r"]).code(7).says("runs/r").says("unknown-variant").says("put back the spec.rt");
    place.edit("runs/r/run.json", |run| run["versions"]["code"] = "0123".into());
    place.rtc(&["eval", "r"]).code(7).says("it was trained by code 0123").says("use that one, or train again");
    place.rtc(&["report", "r"]).code(7).says("it was trained by code 0123").says("line ");
    place.train(&["--run", "good"]).code(0);
    let page = place.rtc(&["report", "runs", "--examples", "0"]);
    page.code(0).says("runs/r is left out").says("unknown-variant").says("code 0123");
}

#[cfg(target_os = "linux")]
#[test]
fn what_has_no_end_or_no_room_is_refused() {
    let place = Place::new();
    place.shell("mkfifo pipe && \"$RTC\" check /dev/zero").code(6).says("more than 16 MiB");
    place.write("piped.rt", "use \"pipe\"\n");
    place.rtc(&["check", "piped.rt"]).code(3).says("no plain file");
    place.train(&["--with", "task.data={train: /dev/zero}"]).code(4).says("no regular file but a device");
    place.shell("head -c 17000000 /dev/zero > long").code(0);
    place.train(&["--with", "task.data={train: long}"]).code(4).says("longer than 16 MiB");
    place.train(&["--set", "embed.width=1048576"]).code(8).says("this machine has").says("make it narrower");
}

#[test]
fn a_precision_is_recorded_and_gives_its_own_numbers_on_any_threads() {
    let place = Place::new();
    place.train(&["--run", "single"]).code(0);
    for (run, threads) in [("half", "1"), ("on_two", "2")] {
        place.train(&["--run", run, "--precision", "bf16", "--threads", threads]).code(0);
    }
    assert_eq!(place.contents("half"), place.contents("on_two"));
    assert_ne!(place.read("runs/half/results.json"), place.read("runs/single/results.json"));
    assert!(place.read("runs/half/run.json").contains("\"device\": \"cpu, bf16\""));
    assert!(!place.read("runs/single/run.json").contains("device"));
    place.rtc(&["verify", "runs/half", "--again", "--precision", "bf16"]).code(0);
    place.rtc(&["verify", "runs/half", "--again"]).code(1).says("cpu, bf16");
    let note = "trained on cpu, bf16, and computes on cpu, f32 now";
    place.rtc(&["eval", "runs/half"]).code(0).says(note);
    place.rtc(&["predict", "runs/half", "[MAX 2 9 ]"]).code(0).says(note);
    place.rtc(&["eval", "runs/half", "--precision", "bf16"]).code(0).is_quiet_about("computes on");
    place.rtc(&["eval", "runs/single"]).code(0).is_quiet_about("computes on");
}

#[test]
fn narrower_vectors_change_no_number() {
    let place = Place::new();
    place.train(&["--run", "widest"]).code(0);
    for vectors in ["widest", "avx2", "none"] {
        let answer = place.shell(&format!(
            "RTC_VECTORS={vectors} \"$RTC\" train tiny.rt --experiment tiny.yaml --run {vectors}_again"
        ));
        if answer.status() == Some(2) {
            // A machine that has no such vectors.
            answer.says("RTC_VECTORS=avx2: this machine has no AVX2");
            continue;
        }
        answer.code(0);
        assert_eq!(place.contents(&format!("{vectors}_again")), place.contents("widest"), "{vectors}");
    }
    let unknown = place.shell("RTC_VECTORS=wide \"$RTC\" check tiny.rt");
    unknown.code(2).says("RTC_VECTORS is \"wide\"; one of widest, avx2, none is wanted");
}

#[test]
fn a_memory_limit_is_kept_recorded_and_changes_no_number() {
    let place = Place::new();
    place.train(&["--run", "free"]).code(0);
    place.train(&["--run", "limited", "--memory", "256MiB"]).code(0);
    assert_eq!(place.contents("limited"), place.contents("free"));
    assert!(place.read("runs/limited/run.json").contains("\"memory\": 268435456"));
    assert!(!place.read("runs/free/run.json").contains("memory"));
    let least = place.train(&["--run", "small", "--memory", "1MB"]);
    least.code(8).says("training within 976.6 KiB is not possible").says("takes up to").says("batch.size=N");
    assert!(!place.path("runs/small/run.json").exists(), "nothing was run");
    for wrong in ["2", "lots", "2XB", "1e9", "0"] {
        let answer = place.train(&["--memory", wrong]);
        if wrong == "2" {
            answer.code(8)
        } else {
            answer.code(2).says("2GB")
        };
    }
    let plan = ["compile", "tiny.rt", "--task", "listops", "--emit", "plan", "--batch", "8", "--length", "50"];
    let free = place.rtc(&plan);
    free.code(0);
    assert!(free.stdout.starts_with("a training step of 8 rows of 50 tokens takes at most\neverything kept"));
    let less = place.rtc(&[&plan[..], &["--memory", "700KiB"]].concat());
    assert!(less.code(0).stdout.contains("within 700.0 KiB"), "{}", less.stdout);
    assert!(less.stdout.len() > free.stdout.len(), "more is computed again");
    place.rtc(&[&plan[..], &["--memory", "1KiB"]].concat()).code(8).says("the least is");
    place.rtc(&["compile", "tiny.rt", "--memory", "1GB"]).code(2).says("--emit plan");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_and_a_reader_that_left_is_none() {
    let place = Place::new();
    place.shell("\"$RTC\" show tiny.rt > /dev/full").code(6).says("standard output");
    let gone = place.shell("set -o pipefail; \"$RTC\" compile tiny.rt --emit json | head -c 1 > /dev/null");
    gone.code(0);
    place.shell("\"$RTC\" --help | true; \"$RTC\" explain 2>&- >&- ; true").code(0);
}

#[test]
fn a_trained_fold_runs_with_and_without_its_outer_recursion() {
    let place = Place::new();
    let model = |name: &str, body: &str| {
        format!("model {name} {{\n embed {{ width: 8 }}\n recurse balanced {{ {body} }}\n readout root\n}}\n")
    };
    place.write("rir.rt", &model("rir", "arity: 3, recurse chain { cell grc { hidden: 8 } }"));
    place.write("tree.rt", &model("tree", "arity: 2, cell grc { hidden: 8 }"));
    for spec in ["rir", "tree"] {
        let args = ["--experiment", "tiny.yaml", "--max-steps", "3", "--run", spec];
        place.rtc(&[&["train", &format!("{spec}.rt")], &args[..]].concat()).code(0);
    }
    let measured = |inference: &str| place.rtc(&["eval", "rir", "--json", "--inference", inference]).code(0).json();
    let (recursive, flat) = (measured("recursive"), measured("flat"));
    assert_eq!(recursive["splits"], place.rtc(&["eval", "rir", "--json"]).code(0).json()["splits"]);
    assert_eq!((&recursive["inference"], &flat["inference"]), (&"recursive".into(), &"flat".into()));
    assert_ne!(recursive["splits"], flat["splits"], "rows of up to 12 tokens are more than one chunk of three");
    // Up to three tokens are one chunk either way.
    let tokens = ["[MAX", "3", "]"];
    let predicted = |inference: &str| {
        let args = ["predict", "rir", "--json", "--inference", inference];
        place.rtc(&[&args[..], &tokens].concat()).code(0).stdout.clone()
    };
    assert_eq!(predicted("flat"), predicted("recursive"));
    place.rtc(&["eval", "tree"]).code(0);
    place.rtc(&["eval", "tree", "--inference", "flat"]).code(2).says("tree has none that it can do without");
    place.rtc(&["predict", "tree", "--inference", "flit", "1"]).code(2).says("recursive, flat");
    // What the experiment says holds without the option. The training is the same.
    let with = ["--experiment", "tiny.yaml", "--max-steps", "3", "--with", "inference=flat", "--run"];
    place.rtc(&[&["train", "rir.rt"], &with[..], &["flat"]].concat()).code(0);
    let own = place.rtc(&["eval", "flat", "--json"]).code(0).json();
    assert_eq!((&own["inference"], &own["splits"]), (&"flat".into(), &flat["splits"]));
    let other = place.rtc(&["eval", "flat", "--json", "--inference", "recursive"]).code(0).json();
    assert_eq!(other["splits"], recursive["splits"]);
    let results: Value = serde_json::from_str(&place.read("runs/flat/results.json")).expect("JSON");
    assert_eq!(results["splits"][0]["accuracy"], own["splits"][0]["accuracy"]);
    place.rtc(&[&["train", "tree.rt"], &with[..], &["none"]].concat()).code(2).says("none that it can do without");
    assert!(!place.path("runs/none/run.json").exists(), "nothing is begun");
}

const LOOPED: &str = "\
model looped {
    embed { width: 8 }
    recur depthwise {
        depth: given
        start: zero
        inject add
        attend self { heads: 2, mask: past }
        feedforward { hidden: 8 }
        norm
    }
    readout each { sees: all }
}

variant fixed of looped {
    depthwise.depth: 3
    readout each
}
";

#[test]
fn a_looped_model_stops_by_rules_and_is_shown_step_by_step() {
    let place = Place::new();
    place.write("looped.rt", LOOPED);
    let task = "task:\n  name: looped_copy\n  options: { train_length: 3, test_length: 4 }\n  sizes: { dev: 6, 3-4: 6 }\n\
                fresh: { lengths: each }";
    place.write(
        "looped.yaml",
        &format!(
            "{task}\noptimiser: {{ learning_rate: 0.01 }}\nschedule: {{ kind: constant }}\nbatch: {{ size: 4 }}\n\
             max_steps: 3\nevaluate: [3-4]\n"
        ),
    );
    let train = |spec: &str, run: &str, more: &[&str]| {
        let args = ["train", spec, "--experiment", "looped.yaml", "--run", run];
        place.rtc(&[&args, more].concat())
    };
    train("looped.rt", "given", &[]).code(0);
    let measured = |args: &[&str]| place.rtc(&[&["eval", "given", "--json"], args].concat()).code(0).json();
    let (plain, oracle) = (measured(&[]), measured(&["--stop", "oracle", "--steps", "--beyond", "2"]));
    let (plain, row) = (&plain["splits"][0], &oracle["splits"][0]);
    assert_eq!((&row["accuracy"], &row["metrics"]), (&plain["accuracy"], &plain["metrics"]));
    assert_eq!((&oracle["stop"], &row["mean_depth"]), (&serde_json::json!("oracle"), &serde_json::json!(3.5)));
    let steps = row["steps"].as_array().expect("a list");
    assert_eq!(steps.len(), 5 + 6, "two more than the lengths 3 and 4");
    for rule in ["confidence", "sample"] {
        let found = measured(&["--stop", rule]);
        assert_eq!(found["stop"], rule);
        assert!(found["splits"][0]["steps"].is_null(), "only asked for");
        assert!((1.0..=24.0).contains(&found["splits"][0]["mean_depth"].as_f64().expect("a number")));
    }
    let table = place.rtc(&["eval", "given", "--steps", "--beyond", "1", "--split", "3-3"]).code(0).stdout.clone();
    assert_eq!(table.lines().filter(|line| line.starts_with("3-3    3 ")).count(), 4, "{table}");
    assert!(table.contains("oracle") && table.contains("surest"), "{table}");
    place.rtc(&["eval", "given", "--stop", "sample", "--depth", "2"]).code(2).says("cannot be used with");
    // What the report draws are the numbers of the evaluation.
    place.rtc(&["report", "given", "--plots", "plots"]).code(0);
    let accuracy = place.read("plots/accuracy-by-step-looped.svg");
    assert_eq!(accuracy.matches("<circle class=\"r").count(), 2 + 1, "two lengths, and the legend: {accuracy}");
    let all = measured(&["--steps"]);
    let rows = all["splits"][0]["steps"].as_array().expect("a list");
    for row in rows.iter().filter(|row| row["surest"] == true || row["due"].as_u64() > Some(0)) {
        let percent = 100.0 * row["accuracy"].as_f64().expect("a share");
        let (length, steps) = (&row["length"], &row["steps"]);
        let point = |digits: usize| {
            let share = format!("{percent:.digits$}");
            let share = if digits == 0 { &share } else { share.trim_end_matches('0').trim_end_matches('.') };
            format!("length {length}\nsteps: {steps}\nright answers (%): {share}\n")
        };
        let drawn = |text: &String| accuracy.contains(text.as_str());
        assert!((0..4).map(point).any(|text| drawn(&text)), "{row} in {accuracy}");
    }
    train("looped.rt:fixed", "fixed", &[]).code(0);
    place.rtc(&["eval", "fixed", "--steps"]).code(2).says("are for models with `depth: given`");
    // The answers as next tokens: a model that may see them is refused.
    let next = ["--with", "task.options.next_token=1"];
    train("looped.rt", "seen", &next).code(3).says("asks for later tokens");
    train("looped.rt:fixed", "next", &next).code(0);
}

#[test]
fn rows_longer_than_the_learned_positions_are_refused_with_place_and_cure() {
    let place = Place::new();
    place.write(
        "learned.rt",
        "model learned {\n    embed { width: 8, position: learned, positions: 12 }\n    attend self { heads: 2 }\n    readout mean\n}\n",
    );
    place.write(
        "learned.yaml",
        "task:\n  name: parity_check\n  options: { train_length: 10, test_length: 20 }\n  sizes: { dev: 8, test: 8, 11-20: 8 }\n\
         fresh: { lengths: batch }\noptimiser: { learning_rate: 0.01 }\nschedule: { kind: constant }\nbatch: { size: 4 }\n\
         max_steps: 3\nevaluate: [test, 11-20]\n",
    );
    let train = ["train", "learned.rt", "--experiment", "learned.yaml", "--run", "one"];
    let message = "tokens, and the model has learned 12 positions: give `embed` more `positions`";
    let whole = |answer: &Answer, place: &str| {
        answer.code(4).says(message).says(place);
        let lines = answer.stderr.lines().filter(|line| line.starts_with("error: ")).count();
        assert_eq!(lines, 1, "{}", answer.stderr);
    };
    whole(&place.rtc(&train), "11-20: a row has ");
    // The training before it is kept, and so is the rest of the evaluation.
    place.rtc(&["eval", "one", "--split", "test"]).code(0);
    place.rtc(&["eval", "one", "--checkpoint", "last", "--split", "test"]).code(0);
    whole(&place.rtc(&["eval", "one", "--split", "11-20"]), "11-20: a row has ");
    whole(&place.rtc(&["report", "one"]), "11-20: a row has ");
    whole(&place.rtc(&["predict", "one", "0 1 1 0 1 1 0 1 0 1 0 1 0"]), "a row has 13 tokens");
    // The records can be looked at without the model.
    place.rtc(&["report", "one", "--examples", "0"]).code(0);
    // Rows that are too long already in training stop it at the first of them.
    let long = ["--with", "task.options.train_length=18", "--with", "max_steps=50", "--with", "evaluate_every=50"];
    whole(&place.rtc(&[&train[..4], &long, &["--run", "two"]].concat()), "update ");
    assert!(place.path("runs/two/run.json").is_file(), "the folder of the run stays");
}
