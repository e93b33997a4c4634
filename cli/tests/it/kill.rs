//! Runs that are stopped or killed and go on must end with the same bits as one that was left alone.
//!
//! `tests/kill_resume.sh` does the same with more kills and a release build.
#![cfg(unix)]

use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::{Answer, Place, heed_hang_up, signal};

/// Longer than any start of the binary takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until the run has logged so many lines; false if it has ended before.
fn wait_for_lines(place: &Place, child: &mut Child, run: &str, lines: usize) -> bool {
    let start = Instant::now();
    let metrics = place.path("runs").join(run).join("metrics.jsonl");
    while start.elapsed() < PATIENCE {
        let found = std::fs::read_to_string(&metrics).unwrap_or_default().lines().count();
        if found >= lines {
            return true;
        }
        if child.try_wait().expect("the state of a child").is_some() {
            return false;
        }
        sleep(Duration::from_millis(1));
    }
    panic!("the run makes no progress");
}

fn end(child: Child) -> Answer {
    child.wait_with_output().expect("the binary ends").into()
}

/// Kills the training four times on its way to 40 updates, lets it end, and compares it with the run `whole`.
fn killed_is_whole(place: &Place, run: &str, args: &[&str]) {
    let args = [&["--run", run], args].concat();
    for lines in [5, 14, 26, 38] {
        let mut child = place.start(&args);
        if wait_for_lines(place, &mut child, run, lines) {
            signal(&child, libc::SIGKILL);
        }
        end(child);
    }
    place.train(&args).code(0);
    assert_eq!(place.contents(run), place.contents("whole"), "{args:?}");
}

#[test]
fn a_run_that_goes_on_in_another_precision_records_both() {
    let place = Place::new();
    for (first, second) in [("bf16", "f32"), ("f32", "bf16")] {
        let mut child = place.start(&["--run", first, "--precision", first]);
        assert!(wait_for_lines(&place, &mut child, first, 7), "the run must not have ended");
        signal(&child, libc::SIGINT);
        end(child).code(75);
        place.train(&["--run", first, "--precision", second]).code(0);
        let recorded = format!("\"device\": \"cpu, {first} then cpu, {second}\"");
        assert!(place.read(&format!("runs/{first}/run.json")).contains(&recorded), "{recorded}");
    }
}

#[test]
fn a_stopped_run_exits_with_75_and_goes_on_to_the_same_bits() {
    heed_hang_up();
    let place = Place::new();
    place.train(&["--run", "whole", "--threads", "1"]).code(0);
    for (name, number) in [("interrupted", libc::SIGINT), ("terminated", libc::SIGTERM), ("hung-up", libc::SIGHUP)] {
        let args = ["--run", name, "--threads", "2"];
        let mut child = place.start(&args);
        assert!(wait_for_lines(&place, &mut child, name, 7), "the run must not have ended");
        signal(&child, number);
        end(child).code(75).says("stopped after update").says("the same command goes on");
        place.train(&args).code(0).says("going on after update");
        assert_eq!(place.contents(name), place.contents("whole"), "{name}");
    }
}

/// A run that was told to ignore the end of its terminal ends by itself.
#[cfg(target_os = "linux")]
#[test]
fn a_run_that_ignores_its_terminal_goes_on() {
    let place = Place::new();
    let train = "exec \"$RTC\" train tiny.rt --experiment tiny.yaml --run kept";
    let mut child = place.command("bash").args(["-c", &format!("trap '' HUP; {train}")]).spawn().expect("bash runs");
    assert!(wait_for_lines(&place, &mut child, "kept", 7), "the run must not have ended");
    signal(&child, libc::SIGHUP);
    end(child).code(0);
}

#[test]
fn a_killed_run_goes_on_to_the_same_bits() {
    let place = Place::new();
    place.train(&["--run", "whole", "--threads", "1"]).code(0);
    for threads in ["1", "2"] {
        killed_is_whole(&place, &format!("killed{threads}"), &["--threads", threads]);
    }
}

/// Strings drawn for every update, a curriculum, averaged weights and a rate that falls at the end.
const FRESH: &str = "\
task:
  name: looped_addition
  options: { train_length: 6 }
  sizes: { dev: 16, 7-8: 8 }
fresh: { lengths: each, curriculum: { from: 1, every: 5 }, pass: 10 }
ema: { decay: 0.9, after: 12 }
optimiser: { learning_rate: 0.003, clip: 1 }
schedule: { kind: cosine, start: 20 }
batch: { size: 8 }
max_steps: 40
log_every: 1
evaluate: [7-8]
";

#[test]
fn a_killed_run_on_fresh_strings_goes_on_to_the_same_bits() {
    let place = Place::new();
    place.write("tiny.yaml", FRESH);
    place.write("tiny.rt", &place.read("tiny.rt").replace("global", "token").replace("transition", "state"));
    let set = ["--set", "embed.tokens=none"];
    place.write("tiny.rt", &place.read("tiny.rt").replace("readout end", "readout each"));
    place.train(&[&set[..], &["--run", "whole", "--threads", "1"]].concat()).code(0);
    killed_is_whole(&place, "killed", &[&set[..], &["--threads", "2"]].concat());
    let table = place.rtc(&["eval", "runs/whole", "--split", "3-4", "--json"]).code(0).json();
    let lengths = table["splits"][0]["lengths"].as_array().expect("a list");
    assert_eq!(lengths.iter().filter_map(|row| row["length"].as_u64()).collect::<Vec<_>>(), [3, 4]);
}

/// Two states that stay with their row from update to update, and rows that leave after drawn numbers of steps.
const SLOTS: &str = "\
model slots {
    embed { width: 8 }
    input = state
    loop {
        steps: 4
        carry y = zeros(input)
        carry z = zeros(input)
        z = norm(z + y + input + attention(z + y + input) { heads: 2 })
        y = norm(y + linear(gelu(linear(cat(y, z)) { to: 16 })))
        sure = number(mean(y)) { init: zeros }
        wrong = max(1 - right(y))
        loss average(mean(answer(y)))
        loss 0.5 * average(softplus(sure) - (1 - wrong) * sure)
        y = stop(y)
        z = stop(z)
        until uniform(sure) { evaluation: 1 } < 0.4
    }
    state = y
    readout each { sees: all }
}
";

const EACH_STEP: &str = "\
task:
  name: sudoku
  options: { rows: 2, columns: 2, least: 4, most: 8 }
  sizes: { train: 100, dev: 16, test: 16 }
supervision: each_step
optimiser: { learning_rate: 0.003, clip: 1 }
schedule: { kind: constant, warmup: 5 }
batch: { size: 6, accumulate: 2 }
max_steps: 40
evaluate_every: 7
log_every: 1
evaluate: [test]
";

#[test]
fn a_killed_run_goes_on_with_the_rows_in_its_slots() {
    let place = Place::new();
    place.write("tiny.rt", SLOTS);
    place.write("tiny.yaml", EACH_STEP);
    place.train(&["--run", "whole", "--threads", "1"]).code(0);
    let depths = place.read("runs/whole/metrics.jsonl");
    assert!(depths.contains("\"mean_depth\""), "rows leave:\n{depths}");
    killed_is_whole(&place, "killed", &["--threads", "2", "--memory", "1GB"]);
    let carried = |run: &str| std::fs::read(place.path("runs").join(run).join("checkpoints/last/carried.safetensors"));
    assert_eq!(carried("killed").expect("slots"), carried("whole").expect("slots"));
    place.write("tiny.rt", "model tiny { embed { width: 8 }\n attend self { heads: 2 }\n readout each { sees: all } }");
    let message = "`supervision: each_step`: an update after every step does not fit this model: a loss is paid outside of its loop";
    place.train(&["--run", "plain"]).code(2).says(message);
}

#[test]
fn a_second_process_in_the_same_folder_is_refused() {
    let place = Place::new();
    let args = ["--run", "shared", "--threads", "1"];
    let mut child = place.start(&args);
    assert!(wait_for_lines(&place, &mut child, "shared", 1));
    signal(&child, libc::SIGSTOP);
    place.train(&args).code(6).says("another process is training in this folder");
    signal(&child, libc::SIGCONT);
    end(child).code(0);
}
