//! What is said of a model whose halting does nothing, and what changes it.

use crate::support::Place;
use serde_json::Value;

const STUCK: &str = "halting does nothing";

/// A run of two updates, whose halting is where its head began.
fn trained(place: &Place, run: &str, edits: &[&str]) -> crate::support::Answer {
    place.train(&[&["--max-steps", "2", "--run", run], edits].concat())
}

#[test]
fn a_model_that_is_stuck_at_an_end_is_told_so_everywhere() {
    let place = Place::new();
    // Of a probability near 1 the first step is refused already, of one near 0 no step ever is.
    for (run, bias, steps, cure) in [
        ("least", "depthwise.halt.bias=12", "0.00 steps of at most 3", "smaller `cost`"),
        ("most", "depthwise.halt.bias=-12", "3.00 steps of at most 3", "larger `cost`"),
    ] {
        let answer = trained(&place, run, &["--set", bias]);
        answer.code(0).says(STUCK).says(steps).says(cure).says("`rtc docs halting_collapse`");
        let results: Value = serde_json::from_str(&place.read(&format!("runs/{run}/results.json"))).expect("JSON");
        let note = results["halting"].as_str().expect("a note");
        assert!(note.contains(steps), "{note}");
        assert!(
            results["splits"][0]["depth_deviation"].as_f64().is_some_and(|deviation| deviation < 0.01),
            "{results}"
        );
        let measured = place.rtc(&["eval", run, "--json"]);
        assert_eq!(measured.code(0).says(STUCK).json()["halting"], results["halting"]);
        place.rtc(&["report", run, "--examples", "0"]).code(0);
        assert!(place.read(&format!("runs/{run}/report.html")).contains(STUCK));
    }
}

#[test]
fn what_halts_or_has_no_choice_is_not_accused() {
    let place = Place::new();
    trained(&place, "none", &["--set", "depthwise.halt=none"]).code(0).is_quiet_about(STUCK);
    trained(&place, "one", &["--set", "depthwise.depth=1"]).code(0).is_quiet_about(STUCK);
    // Without any training the head of each input is its own; a low threshold turns that into other numbers of steps.
    let edits = ["--set", "depthwise.halt.bias=0", "--set", "depthwise.halt.threshold=0.5", "--set", "embed.init=3"];
    let answer = trained(&place, "spread", &edits);
    let results: Value = serde_json::from_str(&place.read("runs/spread/results.json")).expect("JSON");
    let deviation = results["splits"][0]["depth_deviation"].as_f64().expect("it halts");
    assert!(deviation > 0.36, "the test needs a model that halts: {results}");
    answer.code(0).is_quiet_about(STUCK);
}

/// The edits of docs/halting_collapse.md, and its look at single chunks.
#[test]
fn the_page_about_collapse_says_what_works() {
    let place = Place::new();
    for edits in [
        &["--set", "depthwise.halt.cost=0"][..],
        &["--set", "depthwise.halt.cost=0.01", "--set", "depthwise.halt.bias=-2"],
    ] {
        trained(&place, "edited", &[edits, &["--fresh"]].concat()).code(0);
    }
    let accuracy = |args: &[&str]| place.rtc(&[&["eval", "edited", "--json"], args].concat()).code(0).json();
    let (compact, never) = (accuracy(&[]), accuracy(&["--halting", "never"]));
    assert_eq!(compact["splits"], never["splits"]);
    let line = "\"$RTC\" task sample listops --split test --count 3 --option train_length=12 --option held_out_length=12 | cut -f2 | \
                \"$RTC\" predict edited --json --show-halting";
    let lines = place.shell(line);
    let found: Vec<Value> =
        lines.code(0).stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(found.len(), 3);
    assert!(found.iter().all(|one| one["halting"][0]["steps"].as_u64().is_some()), "{}", lines.stdout);
}

const LOOPS: &str = "\
model rows {
    embed { width: 16, tokens: start_end }
    loop {
        steps: 6
        before = state
        attend self { heads: 2, position: xpos }
        feedforward { hidden: 16 }
        until mean(mean((state - before)^2)) { over: width } < 0.5
    }
    readout end
}

def gate settling(result, input) {
    until mean((result - input)^2) { over: width } < 0.5
    out result
}

model positions {
    embed { width: 16, tokens: start_end }
    recur depthwise {
        depth: 6
        gate settling
        attend self { heads: 2, position: xpos }
        feedforward { hidden: 16 }
    }
    readout end
}

model all_steps {
    embed { width: 16, tokens: start_end }
    loop {
        steps: 3
        feedforward { hidden: 16 }
    }
    readout end
}
";

/// The steps of loops that are left by a condition are counted and shown like those of a halting rule, and cost nothing.
#[test]
fn the_steps_of_loops_are_shown() {
    let place = Place::new();
    place.write("loops.rt", LOOPS);
    for (model, units) in [("rows", 1), ("positions", 6)] {
        let spec = format!("loops.rt:{model}");
        let edits = ["--experiment", "tiny.yaml", "--max-steps", "2", "--run", model];
        place.rtc(&[&["train", spec.as_str()], &edits[..]].concat()).code(0).is_quiet_about(STUCK);
        let results: Value = serde_json::from_str(&place.read(&format!("runs/{model}/results.json"))).expect("JSON");
        let depth = results["splits"][0]["mean_depth"].as_f64().unwrap_or_else(|| panic!("{results}"));
        assert!((1.0..5.9).contains(&depth), "the first step is taken always, and not all of them: {depth}");
        let first = place.read(&format!("runs/{model}/metrics.jsonl"));
        let first: Value = serde_json::from_str(first.lines().next().expect("a line")).expect("JSON");
        assert_eq!(first["loss"], first["task_loss"], "{first}");
        let row = ["predict", model, "[MAX 2 9 ]", "--json", "--show-halting"];
        let answer = place.rtc(&row).code(0).json();
        let steps = answer["steps"].as_f64().unwrap_or_else(|| panic!("{answer}"));
        let shown: Vec<f64> =
            answer["halting"].as_array().expect("a list").iter().filter_map(|unit| unit["steps"].as_f64()).collect();
        assert_eq!(shown.len(), units, "{answer}");
        assert!((shown.iter().sum::<f64>() / units as f64 - steps).abs() < 1e-6, "{answer}");
        let eval = place.rtc(&["eval", model, "--json"]).code(0).json();
        assert_eq!(eval["splits"][0]["mean_depth"], results["splits"][0]["mean_depth"]);
        place.rtc(&["eval", model]).code(0).says("--show-halting");
    }
    let line = ["train", "loops.rt:all_steps", "--experiment", "tiny.yaml", "--max-steps", "2", "--run", "all_steps"];
    place.rtc(&line).code(0);
    let answer = place.rtc(&["predict", "all_steps", "[MAX 2 9 ]", "--json"]).code(0).json();
    assert!(answer["steps"].is_null(), "{answer}");
}

const LOOPED: &str = "\
model looped {
    embed { width: 8 }
    input = state
    loop {
        steps: 3
        grad: 2
        carry z = 0 * input
        z = norm(z + linear(input + z))
    }
    state = z
    readout mean
}
";

#[test]
fn a_trained_model_is_measured_by_the_steps_that_it_takes() {
    let place = Place::new();
    place.train(&["--run", "other", "--max-steps", "1"]).code(0);
    place.write("looped.rt", LOOPED);
    place.rtc(&["train", "looped.rt", "--experiment", "tiny.yaml", "--run", "r", "--max-steps", "4"]).code(0);
    let splits = |args: &[&str]| place.rtc(&[&["eval", "r", "--json"], args].concat()).code(0).json()["splits"].clone();
    let plain = splits(&[]);
    // The equation as it was, and as many steps, are the model as it was.
    assert_eq!(splits(&["--set", "loop.steps=3", "--set", "loop.z = old"]), plain);
    let eight = splits(&["--set", "loop.steps=8"]);
    assert_ne!(eight, plain);
    let swept =
        place.rtc(&["eval", "r", "--sweep", "loop.steps=[1, 3, 8]", "--json", "-o", "steps.svg"]).code(0).json();
    let values: Vec<_> = swept["values"].as_array().expect("values").iter().map(|one| &one["splits"]).collect();
    assert_eq!([values[1], values[2]], [&plain, &eight]);
    assert!(place.read("steps.svg").contains("accuracy by loop.steps"));
    let table = place.rtc(&["eval", "r", "--sweep", "loop.steps=1..2", "-o", "steps.csv"]).code(0).stdout.clone();
    assert!(table.starts_with("loop.steps  split  accuracy (%)  loss\n1           test "), "{table}");
    let csv = place.read("steps.csv");
    assert_eq!(csv.lines().count(), 3, "{csv}");
    assert!(csv.starts_with("loop.steps,split,accuracy (%),loss\n1,test,"), "{csv}");
    // An equation, on the command line as in a variant.
    place.rtc(&["eval", "r", "--sweep", "loop.z = old, norm(z + linear(input))", "--json"]).code(0);
    place.rtc(&["eval", "r", "--set", "loop.z = norm(old)"]).code(2).says("`loop.norm.bias` would be new");
    place.rtc(&["eval", "r", "--set", "embed.width=4"]).code(2).says("the edits change the weights: `embed.table`");
    place
        .rtc(&["eval", "r", "--set", "untie loop"])
        .code(2)
        .says("`loop.linear.bias` would be f32[3, 8], and is f32[8]");
    place.rtc(&["eval", "r", "--set", "loop.stepz=3"]).code(3).says("did you mean `steps`?");
    place.rtc(&["eval", "r", "--sweep", "loop.steps=1..2", "-o", "a.txt"]).code(2).says("`.csv`, `.json` or `.svg`");
    place.rtc(&["eval", "r", "--sweep", "loop.steps=3..1"]).code(2).says("has no number");
    place.rtc(&["eval", "r", "--sweep", "loop.steps=1..2", "--steps"]).code(2).says("cannot be used with");
}
