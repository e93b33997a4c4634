//! What is said of a model whose halting does nothing, and what changes it.

mod support;

use serde_json::Value;
use support::Place;

const STUCK: &str = "halting does nothing";

/// A run of two updates, whose halting is where its head began.
fn trained(place: &Place, run: &str, edits: &[&str]) -> support::Answer {
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
        answer.code(0).says(STUCK).says(steps).says(cure).says("docs/halting_collapse.md");
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
