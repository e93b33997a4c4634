//! `rtc train --until`: a run that ended goes on to the bits of one that was begun with the later end, or is refused where it would not.

use std::fs;

use crate::support::Place;

fn weights(place: &Place, run: &str) -> Vec<u8> {
    fs::read(place.path(&format!("runs/{run}/checkpoints/last/weights.safetensors"))).expect("weights")
}

#[test]
fn a_finished_run_trained_on_is_one_that_was_begun_so() {
    let place = Place::new();
    place.train(&["--run", "whole", "--until", "80"]).code(0).says("update 80");
    // The experiment has 4 epochs of 10 updates.
    place.train(&["--run", "on"]).code(0);
    let short = place.contents("on");
    place.train(&["--run", "on"]).code(0).says("`--until UPDATE` trains on");
    place.train(&["--run", "on", "--until", "55"]).code(0).says("going on after update 40");
    place.train(&["--run", "on", "--until", "55"]).code(0).says("is finished");
    // Without the option the command means the run as it is; dev was measured after update 55, which is no end of an epoch.
    place.train(&["--run", "on"]).code(0).says("is finished");
    let on = place.train(&["--run", "on", "--until", "80", "--threads", "2"]);
    on.code(0).says("dev was measured after update 55, too");
    assert_eq!(weights(&place, "on"), weights(&place, "whole"));
    assert_ne!(weights(&place, "on"), short[4].1);

    place.train(&["--run", "straight"]).code(0);
    place.train(&["--run", "straight", "--until", "80"]).code(0);
    assert_eq!(place.contents("straight"), place.contents("whole"), "all records, too");
    for run in ["on", "straight", "whole"] {
        place.rtc(&["verify", &format!("runs/{run}")]).code(0);
    }
    let listed = place.rtc(&["runs", "runs", "--json"]).code(0).json().to_string();
    assert!(listed.contains("80"), "{listed}");
    let diff = place.rtc(&["train", "tiny.rt", "--experiment", "tiny.yaml", "--run", "plain"]);
    diff.code(0);
    let diff = place.rtc(&["diff", "runs/plain", "runs/straight"]);
    assert!(diff.stdout.contains("trained on to update"), "{}{}", diff.stdout, diff.stderr);
    place.rtc(&["report", "runs/straight", "--output", "page.html"]).code(0);
    assert!(place.read("page.html").contains("--until 80"), "the command that trains it again");
}

/// Every state in which a process may leave a run that it trains on.
#[test]
fn a_run_that_is_stopped_while_it_goes_on_goes_on() {
    let place = Place::new();
    place.train(&["--run", "whole", "--until", "60"]).code(0);
    place.train(&["--run", "on"]).code(0);
    // Killed after its results were removed, and before the new end was written.
    fs::copy(place.path("runs/on/run.json"), place.path("run.json")).expect("a copy");
    fs::remove_file(place.path("runs/on/results.json")).expect("results");
    place.train(&["--run", "on", "--until", "60"]).code(0);
    assert_eq!(place.contents("on"), place.contents("whole"));

    // Killed after the new end was written, and before the first update: the command without the option goes on.
    place.train(&["--run", "later"]).code(0);
    fs::remove_file(place.path("runs/later/results.json")).expect("results");
    place.edit("runs/later/run.json", |info| info["until"] = 60.into());
    place.train(&["--run", "later"]).code(0).says("going on after update 40");
    assert_eq!(place.contents("later"), place.contents("whole"));
}

#[test]
fn what_would_be_another_training_is_refused() {
    let place = Place::new();
    place.train(&["--run", "one"]).code(0);
    let before = place.contents("one");
    place.train(&["--run", "one", "--until", "30"]).code(2).says("the run ends after update 40");
    place.train(&["--run", "one", "--until", "30", "--fresh"]).code(2);
    place.train(&["--run", "two", "--until", "30"]).code(2).says("the experiment ends after update 40");
    assert!(!place.path("runs/two").exists());
    place.train(&["--run", "one", "--until", "40"]).code(0).says("is finished");

    let with = |run: &'static str, edits: &[&'static str]| {
        let edits = edits.iter().flat_map(|edit| ["--with", edit]);
        ["--run", run].into_iter().chain(edits).collect::<Vec<&str>>()
    };
    let cosine = with("cosine", &["schedule.kind=cosine"]);
    place.train(&cosine).code(0);
    let refused = place.train(&[&cosine[..], &["--until", "60"]].concat());
    refused.code(2).says("`cosine` are laid out over the 40 updates").says("`--max-steps 60` trains that one");
    place.train(&cosine).code(0).says("is finished");
    // A shape that has a length of its own is the same for any number of updates.
    let total = with("total", &["schedule={kind: linear, total: 100}"]);
    place.train(&total).code(0);
    place.train(&[&total[..], &["--until", "60"]].concat()).code(0);
    place.train(&[&with("total60", &["schedule={kind: linear, total: 100}"])[..], &["--until", "60"]].concat()).code(0);
    assert_eq!(place.contents("total"), place.contents("total60"));

    let patience = with("patience", &["patience=0", "epochs=40", "optimiser.learning_rate=0.000001"]);
    place.train(&patience).code(0);
    place.train(&[&patience[..], &["--until", "900"]].concat()).code(2).says("its `patience` was over");
    let plateau = with("plateau", &["schedule.kind=plateau", "max_steps=15"]);
    place.train(&plateau).code(0);
    place.train(&[&plateau[..], &["--until", "30"]].concat()).code(2).says("`plateau` has counted that");
    let patient = with("patient", &["patience=50", "max_steps=15"]);
    place.train(&patient).code(0);
    place.train(&[&patient[..], &["--until", "30"]].concat()).code(2).says("`patience` has counted that");
    // Where the end is one of the regular measurements patience goes on, too.
    let patient = with("patient20", &["patience=50", "max_steps=20"]);
    place.train(&patient).code(0);
    place.train(&[&patient[..], &["--until", "40"]].concat()).code(0);
    assert_eq!(place.contents("patient20")[4], place.contents("one")[4]);
    assert_eq!(place.contents("one"), before, "what is refused changes nothing");
}

/// A cell that was trained on by hand is no cell of its grid any more.
#[test]
fn a_grid_takes_no_longer_run_for_its_cell() {
    let place = Place::new();
    place.write(
        "grid.yaml",
        &(place.read("tiny.yaml") + "seeds: [1]\ncompare: [{ spec: tiny.rt }, { spec: \"tiny.rt:no_gate\" }]\n"),
    );
    let ablate = ["ablate", "grid.yaml", "--runs", "runs"];
    let table = place.rtc(&ablate).code(0).stdout.clone();
    let on = [
        "train",
        "tiny.rt",
        "--experiment",
        "grid.yaml",
        "--runs",
        "runs/grid/tiny",
        "--run",
        "seed1",
        "--until",
        "60",
    ];
    place.rtc(&on).code(0);
    let again = place.rtc(&ablate);
    again.code(0).says("trained on to update was 60").says("1 of 2 cells are finished");
    assert_eq!(again.stdout, table, "the cell was trained again, to the end of the experiment");
    let seed = place.read("runs/grid/tiny/seed1/run.json");
    assert!(seed.contains("\"until\": 60"), "the longer run is left as it is: {seed}");
}

/// Checkpoints that are kept: which ones, what they are, and that they change nothing.
#[test]
fn kept_checkpoints_are_asked_by_their_updates() {
    let place = Place::new();
    place.train(&["--run", "plain"]).code(0);
    let keeping = ["--with", "checkpoints={every: 15, keep: 2}"];
    let first = ["--run", "kept", "--with", "max_steps=30"];
    place.train(&[&first[..], &keeping].concat()).code(0);
    let kept = |run: &str| {
        let shown = place.rtc(&["runs", "records", &format!("runs/{run}")]);
        shown.code(0).json()["checkpoints"]["kept"].clone()
    };
    assert_eq!(kept("kept"), serde_json::json!([15, 30]));
    // That after update 30 has the weights of a run of 30 updates; one that is trained on keeps the newest.
    let weights = |run: &str, slot: &str| {
        let file = format!("runs/{run}/checkpoints/{slot}/weights.safetensors");
        fs::read(place.path(&file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    };
    assert_eq!(weights("kept", "update-30"), weights("kept", "last"));
    let after_30 = weights("kept", "last");
    place.train(&[&first[..], &keeping, &["--until", "50"]].concat()).code(0);
    assert_eq!(kept("kept"), serde_json::json!([30, 45]));
    assert_eq!(weights("kept", "update-30"), after_30);

    let all = ["--with", "checkpoints={every: 10}"];
    place.train(&[&["--run", "all"][..], &all].concat()).code(0);
    assert_eq!(kept("all"), serde_json::json!([10, 20, 30, 40]));
    let without_names = |run: &str| place.contents(run).into_iter().filter(|(name, _)| *name != "experiment.yaml");
    assert!(without_names("all").eq(without_names("plain")), "what is kept changes no number");
    // What to keep may change while the run goes on, and the run is the same.
    place.train(&["--run", "all"]).code(0).says("is finished");

    for command in ["eval", "predict", "export"] {
        let args: &[&str] = match command {
            "eval" => &["--split", "test"],
            "predict" => &["[MAX 2 9 ]"],
            _ => &["--format", "torch", "--output", "exported"],
        };
        place.rtc(&[&[command, "runs/all"], args, &["--checkpoint", "20"]].concat()).code(0);
        let missing = place.rtc(&[&[command, "runs/all"], args, &["--checkpoint", "25"]].concat());
        missing.code(7).says("those after the updates 10, 20, 30, 40");
    }
    place.rtc(&["eval", "runs/plain", "--checkpoint", "20"]).code(7).says("keeps only `best` and `last`");
    let told = place.rtc(&["eval", "runs/all", "--split", "dev", "--checkpoint", "20", "--json"]).code(0).json();
    let metrics = place.read("runs/all/metrics.jsonl");
    let dev = metrics.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let dev = { dev }.rfind(|line| line["split"] == "dev" && line["update"] == 20).expect("an evaluation");
    assert_eq!(told["update"], 20);
    assert_eq!(told["splits"][0]["loss"], dev["loss"], "{told}");
    // Its weights begin another run.
    let begin = "runs/all/checkpoints/update-20/weights.safetensors";
    place.train(&["--run", "branch", "--weights", begin, "--max-steps", "3"]).code(0);

    let verified = |code: i32| place.rtc(&["verify", "runs/all"]).code(code).stdout.clone();
    assert!(verified(0).contains("ok   checkpoints/update-20"));
    place.write("runs/all/checkpoints/update-20/state.json", "{}");
    let told = verified(7);
    assert!(told.lines().any(|line| line.contains("update-20") && !line.contains("ok ")), "{told}");
    place.rtc(&["eval", "runs/all", "--checkpoint", "20"]).code(7);
    place.rtc(&["eval", "runs/all", "--checkpoint", "30"]).code(0);
    place.train(&[&["--run", "none"][..], &["--with", "checkpoints={every: 0}"]].concat()).code(2).says("at least 1");
}

/// A process may be killed while it keeps a checkpoint, or removes one: the run goes on to the same folder.
#[test]
fn a_checkpoint_that_was_being_kept_is_kept_again() {
    let place = Place::new();
    let keeping = ["--with", "checkpoints={every: 10, keep: 1}"];
    place.train(&[&["--run", "whole"][..], &keeping].concat()).code(0);
    place.train(&[&["--run", "one", "--with", "max_steps=30"][..], &keeping].concat()).code(0);
    let folder = place.path("runs/one/checkpoints");
    for unfinished in ["update-20.new", "update-40.new", "update-10.old"] {
        fs::create_dir(folder.join(unfinished)).expect("a folder");
        fs::write(folder.join(unfinished).join("state.json"), "{").expect("a file");
    }
    place.train(&[&["--run", "one", "--with", "max_steps=30", "--until", "40"][..], &keeping].concat()).code(0);
    let names = |run: &str| {
        let entries = fs::read_dir(place.path(&format!("runs/{run}/checkpoints"))).expect("a folder");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names("one"), names("whole"));
}
