//! Grids on a GPU that is pretended (`tests/gpu/pretend.cpp`): how many cells are trained at a time, and what that changes. An rtc
//! without the feature `cuda` has nothing to run there.
#![cfg(all(unix, feature = "cuda"))]
#![allow(clippy::print_stderr, reason = "a skipped test says why")]

use std::path::Path;
use std::process::Command;

use crate::support::{Answer, Place};

const COMPARE: &str = "\
seeds: [1, 2]
compare: [tiny, tiny:no_gate]
";

/// Runs a line of bash in which `rtc` is the binary and `grid` trains the cells, on the pretended device; nothing where there is no
/// compiler to build that with.
fn pretended(place: &Place, line: &str) -> Option<Answer> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    if Command::new(&compiler).arg("--version").output().is_err() {
        eprintln!("skipped: there is no C++ compiler to pretend a device with");
        return None;
    }
    let device = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/gpu/pretend.sh");
    let names = "rtc() { \"$RTC\" \"$@\"; }; grid() { \"$RTC\" ablate grid.yaml --device cuda \"$@\"; }";
    let mut command = place.command(device);
    command.args(["bash", "-c", &format!("{names}; {line}")]).env("PRETEND_COUNTS", "1");
    Some(command.output().expect("bash runs").into())
}

/// A place with a grid of two models and two seeds, of few updates.
fn place() -> Place {
    let place = Place::new();
    let experiment = place.read("tiny.yaml").replace("train: 160, dev: 32, test: 32", "train: 32, dev: 8, test: 8");
    let experiment = experiment.replace("epochs: 4", "epochs: 3");
    place.write("grid.yaml", &format!("{experiment}{COMPARE}"));
    place
}

/// All that the cells of a grid below this folder have made.
fn numbers(place: &Place, runs: &str) -> Vec<Vec<u8>> {
    let cells = ["tiny/seed1", "tiny/seed2", "tiny.no_gate/seed1", "tiny.no_gate/seed2"];
    let files = ["metrics.jsonl", "results.json", "checkpoints/last/weights.safetensors"];
    let read = |cell: &str, file: &str| {
        let path = place.path(runs).join("grid").join(cell).join(file);
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    cells.iter().flat_map(|cell| files.map(|file| read(cell, file))).collect()
}

#[test]
fn cells_are_trained_side_by_side_where_they_have_room_with_the_same_bits() {
    let place = place();
    let Some(one) = pretended(&place, "PRETEND_MEMORY=4560 grid --runs one --jobs 1") else { return };
    one.code(0).says("0 of 4 cells are finished, 1 at a time").says("; 1 models and");
    assert!(one.stdout.starts_with("model"), "{}", one.stdout);

    let two = pretended(&place, "PRETEND_MEMORY=556 grid --runs two --jobs 8").expect("there was a compiler");
    two.code(0).says("a pretended device: ").says("of 300.0 MiB are free").says("room for 2");
    two.says("0 of 4 cells are finished, 2 at a time").says("; 2 models and");
    assert_eq!(two.stdout, one.stdout);
    assert!(numbers(&place, "two") == numbers(&place, "one"), "two cells at a time gave other numbers");

    let short = pretended(&place, "PRETEND_MEMORY=456 grid --runs short --jobs 8").expect("there was a compiler");
    short.code(0).says("room for 1").says("0 of 4 cells are finished, 1 at a time").says("; 1 models and");
    assert_eq!(short.stdout, one.stdout);
}

#[test]
fn cells_that_no_device_can_hold_are_refused_before_any_is_trained() {
    let place = place();
    let line = "PRETEND_MEMORY=356 grid --jobs 8; echo $?; PRETEND_MEMORY=356 grid --dry-run; echo $?";
    let Some(refused) = pretended(&place, line) else { return };
    assert_eq!(refused.code(0).stdout, "8\n8\n");
    refused.says("nothing is trained, 2 cells can't be").says("a pretended device has 100.0 MiB");
    refused.says("tiny:no_gate seed 1: training takes up to").says("`--memory` sets a limit").is_quiet_about("begins");
    assert!(!place.path("runs").exists());
}

/// With a stand-in for `sbatch`, which is told of the job and starts nothing.
#[test]
fn cells_on_a_device_are_jobs_of_a_cluster() {
    let place = place();
    let line = "mkdir bin; printf '#!/bin/sh\necho \"$@\" > submitted; echo 7\n' > bin/sbatch; chmod +x bin/sbatch; export PATH=$PWD/bin:$PATH; \
                grid --launcher slurm --launcher-option=--gres=gpu:1 --detach && \
                export SLURM_ARRAY_TASK_ID=1 && grid --cell @runs/grid/launch/cells-1";
    let Some(trained) = pretended(&place, line) else { return };
    trained.code(0).says("4 cells in the queue").says("tiny seed 1: finished in");
    assert!(place.read("submitted").contains("--gres=gpu:1"));
    let script = place.read("runs/grid/launch/slurm-1.sh");
    assert!(script.contains(" --device cuda ") && script.contains("#SBATCH --mem="), "{script}");
}

#[test]
fn a_grid_on_a_device_that_was_stopped_or_killed_goes_on_to_the_same_bits() {
    let place = place();
    // Waits for so many updates of all cells together, and sends the signal.
    let stop = "stop() { pid=$!; while kill -0 $pid && [[ $(cat cut/grid/*/*/metrics.jsonl | wc -l) -lt $2 ]]; do sleep 0.05; done \
                2> /dev/null; kill -$1 $pid; wait $pid; echo $?; }";
    // Not by a function, whose process would not be that of rtc.
    let cut = "\"$RTC\" ablate grid.yaml --device cuda --runs cut > /dev/null";
    let line = format!(
        "{stop}; export PRETEND_MEMORY=556; grid --runs whole --quiet > whole.txt || exit; {cut} & stop TERM 3; {cut} & stop KILL 10; \
         grid --runs cut > cut.txt"
    );
    let Some(answer) = pretended(&place, &line) else { return };
    assert_eq!(answer.code(0).stdout, "75\n137\n");
    answer.says("stopped with").says("goes on after update");
    assert_eq!(place.read("cut.txt"), place.read("whole.txt"));
    assert!(numbers(&place, "cut") == numbers(&place, "whole"), "a grid that was cut gave other numbers");
}
