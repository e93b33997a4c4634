//! Runs whose files were damaged, cut off, taken from elsewhere or written meanwhile: a command refuses them, or says what it says of
//! the whole run. Nothing else comes out with exit code 0.
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use crate::support::{Answer, Place};

const RUN: &str = "runs/r";
const NAMED: [&str; 4] = ["--run", "r", "--threads", "1"];
/// What the codes of refusals are: a broken file, and one that is not there.
const REFUSED: [i32; 2] = [7, 6];

/// All files of a folder, but locks and pages.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files(&path)),
            path if path.ends_with(".lock") || path.ends_with(".labels") || path.ends_with("report.html") => {}
            path => found.push(path),
        }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    if to.exists() {
        fs::remove_dir_all(to).expect("removable");
    }
    fs::create_dir_all(to).expect("a new folder");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        match path.is_dir() {
            true => copy(&path, &to),
            false => assert!(fs::copy(&path, &to).is_ok(), "{}", path.display()),
        }
    }
}

/// What the commands that read a run say of it.
fn answers(place: &Place) -> Vec<(&'static str, Answer, Vec<u8>)> {
    let page = place.path("page.html");
    let _ = fs::remove_file(&page);
    let rtc = |args: &[&str]| (place.rtc(args), vec![]);
    let report =
        (place.rtc(&["report", RUN, "--examples", "8", "-o", "page.html"]), fs::read(&page).unwrap_or_default());
    let told = [
        ("eval", rtc(&["eval", RUN, "--json"])),
        ("predict", rtc(&["predict", RUN, "[MAX 2 9 ]", "--all"])),
        ("predict --checkpoint last", rtc(&["predict", RUN, "[MAX 2 9 ]", "--checkpoint", "last"])),
        ("report", report),
        ("train", (place.train(&[&NAMED[..], &["--json"]].concat()), vec![])),
    ];
    told.into_iter().map(|(command, (answer, page))| (command, answer, page)).collect()
}

/// Numbers that look random, the same in every run of the test.
fn drawn(seed: &mut u64) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) as usize
}

#[test]
fn a_damaged_file_is_refused_or_changes_nothing() {
    let place = Place::new();
    place.train(&NAMED).code(0);
    place.rtc(&["report", RUN, "--examples", "8"]).code(0);
    let (run, whole) = (place.path(RUN), place.path("whole"));
    copy(&run, &whole);
    let expected = answers(&place);
    for (_, answer, _) in &expected {
        answer.code(0);
    }
    let (mut seed, mut refusals) = (7, 0);
    for file in files(&whole) {
        let (bytes, name) = (fs::read(&file).expect("a file"), file.strip_prefix(&whole).expect("inside").to_owned());
        let at = drawn(&mut seed) % bytes.len();
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (drawn(&mut seed) % 8);
        let mut digit = bytes.clone();
        if let Some(at) = bytes.iter().rposition(u8::is_ascii_digit) {
            digit[at] = if bytes[at] == b'9' { b'8' } else { bytes[at] + 1 };
        }
        let cut = &bytes[..drawn(&mut seed) % bytes.len()];
        for (what, damaged) in [("flipped", &flipped[..]), ("another digit", &digit), ("cut", cut)] {
            copy(&whole, &run);
            fs::write(run.join(&name), damaged).expect("writable");
            for ((command, answer, page), (_, good, expected)) in answers(&place).iter().zip(&expected) {
                let told = format!("{command} of {} ({what}, byte {at}): {}", name.display(), answer.stderr);
                match answer.status() {
                    Some(0) => assert_eq!((&answer.stdout, page), (&good.stdout, expected), "{told}"),
                    Some(code) if REFUSED.contains(&code) => refusals += 1,
                    code => panic!("{code:?}: {told}"),
                }
            }
        }
    }
    assert!(refusals > 100, "{refusals}");
}

#[test]
fn no_checkpoint_stands_for_another_one() {
    let place = Place::new();
    place.train(&NAMED).code(0);
    place.train(&["--run", "other", "--seed", "2"]).code(0);
    let (run, checkpoints) = (place.path(RUN), place.path(RUN).join("checkpoints"));
    assert_ne!(fs::read(checkpoints.join("best/state.json")).ok(), fs::read(checkpoints.join("last/state.json")).ok());
    let whole = place.path("whole");
    copy(&run, &whole);
    let foreign = place.path("runs/other/checkpoints/best");
    for (from, why) in [(checkpoints.join("last"), "is not the best"), (foreign, "another seed")] {
        copy(&whole, &run);
        copy(&from, &place.path("taken"));
        copy(&place.path("taken"), &checkpoints.join("best"));
        place.rtc(&["eval", RUN]).code(7);
        place.rtc(&["eval", RUN, "--checkpoint", "runs/r/checkpoints/best"]).code(7);
        place.rtc(&["verify", RUN]).code(7).is_quiet_about("panicked");
        // Neither is it measured at the end of a training.
        fs::remove_file(run.join("results.json")).expect("the results");
        place.rtc(&["eval", RUN]).code(7).says(why);
        place.train(&NAMED).code(7).says(why);
        assert!(!run.join("results.json").exists());
    }
    // The cure that is told: without the checkpoints the same run is trained again.
    fs::remove_dir_all(&checkpoints).expect("removable");
    place.train(&NAMED).code(0);
    for name in ["results.json", "metrics.jsonl", "checkpoints/best/manifest.json"] {
        assert_eq!(fs::read(run.join(name)).expect(name), fs::read(whole.join(name)).expect(name), "{name}");
    }
    // Also where the results are still there, which are then measured again.
    fs::write(checkpoints.join("best/weights.safetensors"), "damaged").expect("writable");
    place.rtc(&["eval", RUN]).code(7).says("without the folder of the checkpoints and `results.json`");
    fs::remove_dir_all(&checkpoints).expect("removable");
    fs::remove_file(run.join("results.json")).expect("it was there");
    place.train(&NAMED).code(0);
    assert_eq!(fs::read(run.join("results.json")).ok(), fs::read(whole.join("results.json")).ok());
    // So is that of results that were damaged: they are measured again.
    fs::write(run.join("results.json"), "{}").expect("writable");
    place.train(&NAMED).code(7).says("without `results.json`, `rtc train` measures the best checkpoint again");
    fs::remove_file(run.join("results.json")).expect("it was there");
    place.train(&NAMED).code(0);
    assert_eq!(fs::read(run.join("results.json")).ok(), fs::read(whole.join("results.json")).ok());
}

#[test]
fn a_damaged_best_checkpoint_is_told_before_any_update() {
    let place = Place::new();
    place.train(&[&NAMED[..], &["--max-steps", "20"]].concat()).code(0);
    let run = place.path(RUN);
    fs::remove_file(run.join("results.json")).expect("the results");
    let lines = || fs::read_to_string(run.join("timing.jsonl")).expect("a file").lines().count();
    let before = lines();
    fs::write(run.join("checkpoints/best/weights.safetensors"), "damaged").expect("writable");
    place.train(&[&NAMED[..], &["--max-steps", "20"]].concat()).code(7).says("best").says("bytes instead of");
    assert_eq!(lines(), before, "it did not begin");
}

#[test]
fn a_training_does_not_go_on_with_changed_metrics() {
    let place = Place::new();
    place.train(&NAMED).code(0);
    let run = place.path(RUN);
    fs::remove_file(run.join("results.json")).expect("the results");
    let text = place.read("runs/r/metrics.jsonl");
    place.write("runs/r/metrics.jsonl", &text.replacen("\"update\":7", "\"update\":8", 1));
    place.train(&NAMED).code(7).says("metrics.jsonl").says("line 7 or one before it was changed");
    place.write("runs/r/metrics.jsonl", &text);
    place.train(&NAMED).code(0);
    assert_eq!(place.read("runs/r/metrics.jsonl"), text);
    // Weights of a checkpoint are checked where they are given as a file, too.
    let weights = "runs/r/checkpoints/best/weights.safetensors";
    let from = ["eval", RUN, "--weights", weights];
    place.rtc(&from).code(0);
    let mut bytes = fs::read(place.path(weights)).expect("weights");
    *bytes.last_mut().expect("a byte") ^= 1;
    fs::write(place.path(weights), bytes).expect("writable");
    place.rtc(&from).code(7).says("the checkpoint was changed");
}

#[test]
fn the_experiment_and_the_data_of_a_run_are_its_own() {
    let place = Place::new();
    place.train(&NAMED).code(0);
    let text = place.read("runs/r/experiment.yaml");
    place.write("runs/r/experiment.yaml", &text.replace("  seed: 0", "  seed: 5"));
    for split in ["test", "2-4"] {
        place.rtc(&["eval", RUN, "--split", split]).code(7).says("experiment.yaml was changed");
    }
    // Even if it had begun with it, its data are others.
    place.begin_with(RUN, "experiment.yaml", &text.replace("  seed: 0", "  seed: 5"));
    place.rtc(&["eval", RUN]).code(7).says("other rows in test");
    place.rtc(&["verify", RUN, "--again"]).code(1);
}

#[test]
fn what_the_system_does_not_give_is_no_damage() {
    let place = Place::new();
    place.train(&NAMED).code(0);
    let state = place.path(RUN).join("checkpoints/best/state.json");
    fs::remove_file(&state).expect("a file");
    fs::create_dir(&state).expect("nothing is there");
    place.rtc(&["eval", RUN]).code(6).says("state.json").is_quiet_about("checkpoints/last");
    fs::remove_file(place.path(RUN).join("results.json")).expect("a file");
    fs::create_dir(place.path(RUN).join("results.json")).expect("nothing is there");
    place.train(&NAMED).code(6).says("results.json");
}

#[test]
fn a_run_that_is_trained_is_read_beside_it() {
    let place = Place::new();
    let mut child = place.start(&[&NAMED[..], &["--with", "epochs=400", "--with", "evaluate_every=1"]].concat());
    while !place.path(RUN).join("checkpoints/last/manifest.json").exists() {
        sleep(Duration::from_millis(1));
    }
    for _ in 0..20 {
        place.rtc(&["predict", RUN, "[MAX 2 9 ]", "--checkpoint", "last"]).code(0);
        place.rtc(&["verify", RUN]).code(0);
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}

#[test]
fn a_run_of_an_older_format_is_refused_clearly() {
    let place = Place::new();
    place.train(&NAMED).code(0);
    let text = place.read("runs/r/run.json");
    let lines: Vec<&str> = text.lines().collect();
    let mut old = lines[..lines.len() - 2].join("\n");
    old.truncate(old.trim_end_matches(',').len());
    place.write("runs/r/run.json", &(old + "\n}\n"));
    for command in ["eval", "report", "verify"] {
        place.rtc(&[command, RUN]).code(7);
    }
    place.rtc(&["eval", RUN]).says("does not end with its `sha256`").says("written without a checksum");
    place.write("runs/r/run.json", &text);
    place.edit("runs/r/run.json", |run| run["format"] = 1.into());
    place.rtc(&["eval", RUN]).code(7).says("its format is 1, and this program reads 2");
}

#[test]
fn verify_names_what_is_damaged_and_computes_again() {
    let place = Place::new();
    place.train(&NAMED).code(0);
    place.rtc(&["report", RUN, "--examples", "8"]).code(0);
    let whole = place.rtc(&["verify", RUN, "--again", "--threads", "2"]);
    for part in ["run.json", "metrics.jsonl", "checkpoints/best", "checkpoints/last", "again: the results on test"] {
        assert!(whole.code(0).stdout.contains(&format!("  ok   {part}\n")), "{part} in {}", whole.stdout);
    }
    let told = place.rtc(&["verify", RUN, "--json"]).code(0).json();
    assert_eq!((&told["runs"][0]["run"], &told["runs"][0]["ok"]), (&RUN.into(), &true.into()));
    // Every change of every file is found, whether a command would stumble over it or not.
    let (run, copied) = (place.path(RUN), place.path("whole"));
    copy(&run, &copied);
    let mut seed = 11;
    for file in files(&copied) {
        let name = file.strip_prefix(&copied).expect("inside").to_owned();
        let mut bytes = fs::read(&file).expect("a file");
        let at = drawn(&mut seed) % bytes.len();
        bytes[at] ^= 1;
        fs::write(run.join(&name), bytes).expect("writable");
        let told = place.rtc(&["verify", RUN]);
        // In the manifest of a checkpoint that nothing names, blanks mean nothing.
        if !["last", "best"].iter().any(|slot| name.ends_with(format!("{slot}.previous/manifest.json"))) {
            assert!(told.code(7).stdout.contains("  BAD  "), "{} byte {at}: {}", name.display(), told.stdout);
        }
        fs::copy(&file, run.join(&name)).expect("writable");
    }
    // What a killed process left of a save, or of a removal, is no checkpoint.
    for left in ["last.new", "last.old"].map(|name| run.join("checkpoints").join(name)) {
        fs::create_dir(&left).expect("a new folder");
        fs::write(left.join("state.json"), "{").expect("writable");
    }
    let told = place.rtc(&["verify", RUN]);
    assert!(!["last.new", "last.old"].iter().any(|left| told.code(0).stdout.contains(left)), "{}", told.stdout);
    // Results that were written by something else with right checksums are no results of this run.
    place.edit("runs/r/results.json", |results| results["splits"][0]["accuracy"] = 0.875.into());
    place.rtc(&["verify", RUN]).code(0);
    let again = place.rtc(&["verify", RUN, "--again"]);
    assert!(
        again.code(1).stdout.contains("BAD  again: the results on test: accuracy was 0.875 and is "),
        "{}",
        again.stdout
    );
    let both = place.rtc(&["verify", RUN, "nothing"]);
    assert!(
        both.code(6).stdout.contains("  ok   spec.rt\n") && both.stdout.contains("there is no such run"),
        "{}",
        both.stdout
    );
}

/// What is added to while a run is trained must be there to its end when it is finished.
#[test]
fn a_finished_run_has_all_that_was_added_to_its_records() {
    let place = Place::new();
    place.train(&NAMED).code(0);
    let run = place.path(RUN);
    let timing = place.read("runs/r/timing.jsonl");
    let lines: Vec<&str> = timing.split_inclusive('\n').collect();
    place.write("runs/r/timing.jsonl", &lines[..lines.len() - 1].concat());
    assert!(place.rtc(&["verify", RUN]).code(7).stdout.contains("BAD  timing.jsonl: "));
    fs::remove_file(run.join("timing.jsonl")).expect("a file");
    assert!(place.rtc(&["verify", RUN]).code(6).stdout.contains("BAD  timing.jsonl: "));
    place.write("runs/r/timing.jsonl", &timing);
    place.rtc(&["verify", RUN]).code(0);

    let events = run.join("events.out.tfevents.0.rtc");
    let bytes = fs::read(&events).expect("a file");
    // The records of all but the last line.
    let (mut at, mut ends) = (0, vec![]);
    while at < bytes.len() {
        let size = u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        at += 16 + size as usize;
        ends.push(at);
    }
    fs::write(&events, &bytes[..ends[ends.len() - 2]]).expect("writable");
    assert!(place.rtc(&["verify", RUN]).code(7).stdout.contains("has not a record for every line of metrics.jsonl"));
    fs::write(&events, &bytes).expect("writable");

    // A run that goes on needs its times for nothing but telling them.
    place.write("runs/r/timing.jsonl", &timing.replacen("\"update\":1", "\"update\":2", 1));
    fs::remove_file(run.join("results.json")).expect("a file");
    place.train(&NAMED).code(7).says("timing.jsonl").says("without this file the run goes on");
    fs::remove_file(run.join("timing.jsonl")).expect("a file");
    // One that has just begun has no events yet.
    let results = place.train(&NAMED);
    results.code(0);
    place.rtc(&["verify", RUN]).code(0);
    fs::remove_file(run.join("results.json")).expect("a file");
    for name in ["checkpoints", "events.out.tfevents.0.rtc", "metrics.jsonl", "timing.jsonl", "answers.json"] {
        let path = run.join(name);
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.expect(name);
    }
    place.rtc(&["verify", RUN]).code(0);
}

#[test]
fn a_damaged_record_of_a_failure_is_no_run_without_one() {
    let place = Place::new();
    place.train(&NAMED).code(0);
    place.write("runs/r/failure.json", "{ \"code\": 5, \"message\": \"m\" }\n");
    assert!(place.rtc(&["verify", RUN]).code(7).stdout.contains("BAD  failure.json: "));
}
