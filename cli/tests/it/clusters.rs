//! Grids that several processes train, with the real binary: killed, suspended, started by stand-ins of queues. Whatever happens, the
//! table and the runs have the bytes of a grid that one process has trained.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::{Answer, Place, RTC, signal};
use serde_json::Value;

/// Longer than any of the waits takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// The cells of the grid: rows and seeds.
const CELLS: [&str; 4] = ["tiny/seed1", "tiny/seed2", "tiny.no_gate/seed1", "tiny.no_gate/seed2"];

/// A place with a grid of two models and two seeds.
fn place(epochs: u32) -> Place {
    let place = Place::new();
    let experiment = place.read("tiny.yaml").replace("epochs: 4", &format!("epochs: {epochs}"));
    place.write("grid.yaml", &format!("{experiment}seeds: [1, 2]\ncompare: [tiny, \"tiny:no_gate\"]\n"));
    place
}

fn command(place: &Place, args: &[&str]) -> Command {
    let mut command = place.command(RTC);
    command.args(["ablate", "grid.yaml"]).args(args);
    command
}

fn ablate(place: &Place, args: &[&str]) -> Answer {
    command(place, args).output().expect("the binary runs").into()
}

fn start(place: &Place, args: &[&str]) -> Child {
    command(place, args).spawn().expect("the binary runs")
}

fn end(child: Child) -> Answer {
    child.wait_with_output().expect("the binary ends").into()
}

/// Where one process has trained the grid, and its table.
fn whole(place: &Place) -> String {
    ablate(place, &["--runs", "whole", "--jobs", "1"]).code(0).stdout.clone()
}

/// The bytes of all runs of a grid, but for times.
fn numbers(place: &Place, grid: &str) -> BTreeMap<String, Vec<u8>> {
    let files = ["metrics.jsonl", "results.json", "checkpoints/last/weights.safetensors", "spec.rt"];
    let names = CELLS.iter().flat_map(|cell| files.map(|file| format!("{cell}/{file}")));
    let read = |name: String| {
        let bytes = fs::read(place.path(grid).join(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, bytes)
    };
    names.map(read).collect()
}

#[track_caller]
fn same(place: &Place, grid: &str) {
    let (found, whole) = (numbers(place, grid), numbers(place, "whole/grid"));
    let other: Vec<_> = found.iter().filter(|(name, bytes)| whole[*name] != **bytes).map(|(name, _)| name).collect();
    assert!(other.is_empty(), "{other:?}");
}

#[track_caller]
fn wait(what: &str, is: impl Fn() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < PATIENCE, "{what} does not come");
        sleep(Duration::from_millis(5));
    }
}

/// Waits until a cell has logged some lines.
fn wait_for(place: &Place, cell: &str, lines: usize) {
    let file = place.path("runs/grid").join(cell).join("metrics.jsonl");
    wait(cell, || fs::read_to_string(&file).unwrap_or_default().lines().count() >= lines);
}

#[test]
fn processes_share_a_grid_and_some_are_killed() {
    let place = place(8);
    let table = whole(&place);
    let args = ["--jobs", "1", "--lease", "3"];
    let mut processes: Vec<Child> = (0..4).map(|_| start(&place, &args)).collect();
    wait_for(&place, "tiny/seed1", 8);
    for process in processes.drain(..2) {
        signal(&process, libc::SIGKILL);
        drop(end(process));
    }
    let answers: Vec<Answer> = processes.into_iter().map(end).collect();
    for answer in &answers {
        assert_eq!(answer.code(0).stdout, table);
    }
    same(&place, "runs/grid");
    for cell in ["tiny seed 1", "tiny seed 2", "tiny:no_gate seed 1", "tiny:no_gate seed 2"] {
        let finished = format!("{cell}: finished in");
        let times: usize = answers.iter().map(|answer| answer.stderr.matches(&finished).count()).sum();
        assert!(times <= 1, "{cell} was finished {times} times");
    }
    ablate(&place, &args).code(0).says("4 of 4 cells are finished");
}

#[test]
fn a_suspended_process_loses_its_cell_and_writes_nothing_into_it() {
    let place = place(8);
    let table = whole(&place);
    let args = ["--jobs", "1", "--lease", "1"];
    let suspended = start(&place, &args);
    wait_for(&place, "tiny/seed1", 8);
    signal(&suspended, libc::SIGSTOP);
    let other = ablate(&place, &args);
    other.code(0).says("tiny seed 1: taken over from a process that ended or fell silent");
    assert_eq!(other.stdout, table);
    let before = numbers(&place, "runs/grid");
    signal(&suspended, libc::SIGCONT);
    let suspended = end(suspended);
    suspended.code(0).says("goes on elsewhere").says("was taken over by").is_quiet_about("failed");
    assert_eq!(suspended.stdout, table);
    assert_eq!(numbers(&place, "runs/grid"), before);
    same(&place, "runs/grid");
}

#[test]
fn a_cell_that_fails_in_one_process_is_not_tried_by_the_others_again() {
    let place = place(2);
    let broken = "models:\n  tiny:no_gate:\n    optimiser: { learning_rate: 1e30 }\n    schedule: { warmup: 0 }\n";
    place.write("grid.yaml", &(place.read("grid.yaml") + broken));
    let processes: Vec<Child> = (0..3).map(|_| start(&place, &["--jobs", "1", "--lease", "5"])).collect();
    for answer in processes.into_iter().map(end) {
        answer.code(5);
        assert!(answer.stdout.contains("tiny:no_gate seed 1 failed"), "{}", answer.stdout);
        assert!(answer.stderr.matches("tiny:no_gate seed 1: failed").count() <= 1, "{}", answer.stderr);
    }
}

#[test]
fn rows_are_stopped_alike_by_several_processes() {
    let place = place(4);
    let every = ["--with", "evaluate_every=10", "--halving", "1/2@10"];
    let alone = ablate(&place, &[&every[..], &["--runs", "whole", "--jobs", "1"]].concat());
    alone.code(0).says("stopped after update 10");
    let processes: Vec<Child> =
        (0..3).map(|_| start(&place, &[&every[..], &["--jobs", "1", "--lease", "5"]].concat())).collect();
    for answer in processes.into_iter().map(end) {
        assert_eq!(answer.code(0).stdout, alone.stdout);
    }
}

/// The lines of `--launcher commands`.
fn lines(place: &Place, args: &[&str]) -> Vec<String> {
    let answer = ablate(place, &[args, &["--launcher", "commands"]].concat());
    answer.code(0).stdout.lines().map(str::to_owned).collect()
}

#[test]
fn commands_train_a_cell_each() {
    let place = place(2);
    let table = whole(&place);
    let lines = lines(&place, &["--jobs", "2"]);
    assert_eq!(lines.len(), 4, "{lines:?}");
    let other = place.command("sh").args(["-c", &lines[0]]).current_dir("/").output().expect("sh runs");
    Answer::from(other).code(0).says("tiny seed 1: finished in");
    for line in &lines {
        place.shell(line).code(0);
    }
    place.shell(&lines[1]).code(0).says("tiny:no_gate seed 1: is finished");
    same(&place, "runs/grid");
    assert_eq!(ablate(&place, &["--table"]).code(0).stdout, table);
    ablate(&place, &["--cell", "0123456789abcdef"]).code(2).says("no cell is called `0123456789abcdef`");
    ablate(&place, &["--cell", "a,b"]).code(2).says("for jobs of an array");
    assert_eq!(ablate(&place, &["--launcher", "commands"]).code(0).stdout, "", "nothing is left to launch");
}

#[test]
fn a_cell_that_another_process_trains_is_left_to_it() {
    let place = place(60);
    let line = lines(&place, &["--lease", "2"]).remove(0);
    let key = line.rsplit(' ').next().expect("the name of a cell").to_owned();
    let cell = ["--lease", "2", "--cell", &key];
    let first = start(&place, &cell);
    wait_for(&place, "tiny/seed1", 8);
    ablate(&place, &cell).code(0).says("is being trained by another process");
    let seen = ablate(&place, &["--watch", "--json"]).code(0).json();
    let of_first = &seen["cells"][0];
    assert_eq!(of_first["cell"], key.as_str());
    assert_eq!(of_first["claim"]["process"], first.id());
    assert_eq!((&of_first["state"], &seen["cells"][1]["claim"]), (&"unfinished".into(), &Value::Null));
    signal(&first, libc::SIGTERM);
    end(first).code(75).says("stopped after update");
    ablate(&place, &[&cell[..], &["--with", "epochs=61"]].concat()).code(2).says("no cell is called");
}

#[test]
fn a_grid_is_watched_until_it_is_finished() {
    let place = place(4);
    let table = whole(&place);
    let watching = start(&place, &["--watch", "--lease", "5"]);
    assert_eq!(ablate(&place, &["--lease", "5"]).code(0).stdout, table);
    let watching = end(watching);
    assert_eq!(watching.code(0).says("grid: 0 of 4 cells ended").stdout, table);
}

/// Puts a program into a folder that is first in PATH.
fn stand_in(place: &Place, name: &str, text: &str) {
    fs::create_dir_all(place.path("bin")).expect("a folder");
    place.write(&format!("bin/{name}"), &format!("#!/bin/bash\nset -eu\n{text}"));
    fs::set_permissions(place.path("bin").join(name), fs::Permissions::from_mode(0o755)).expect("it can be run");
}

/// Runs a launcher with the stand-ins.
fn with_stand_ins(place: &Place, args: &[&str]) -> Answer {
    let path = format!("{}:{}", place.path("bin").display(), std::env::var("PATH").expect("a path"));
    let place = command(place, args).env("PATH", path).env("PLACE", place.path("")).output();
    place.expect("the binary runs").into()
}

/// Runs the elements of an array, the first of which gets a signal as if its time were over, and does again what is queued again.
const SBATCH: &str = r#"
echo "$@" >> "$PLACE/submitted"
script=${!#}
last=$(sed -n 's/^#SBATCH --array=1-//p' "$script")
(
    for ((task = 1; task <= last; task++)); do
        # The last task of an array has the job number of the array.
        export SLURM_ARRAY_TASK_ID=$task SLURM_ARRAY_JOB_ID=7 SLURM_JOB_ID=$((7 + task % last))
        sh "$script" > "$PLACE/out.$task" 2>&1 &
        if [ "$task" = 1 ]; then
            until [ "$(cat "$PLACE"/runs/grid/*/seed1/metrics.jsonl 2> /dev/null | wc -l)" -gt 8 ]; do sleep 0.01; done
            kill -TERM $!
        fi
        wait $! || true
    done
    while read -r id; do
        export SLURM_ARRAY_TASK_ID=${id#7_} SLURM_JOB_ID=8
        sh "$script" > "$PLACE/again.$id" 2>&1 || true
    done < "$PLACE/queued"
) > /dev/null 2>&1 &
echo 7
"#;

#[test]
fn a_job_array_of_slurm_is_trained_and_a_job_whose_time_is_over_queued_again() {
    let place = place(30);
    let table = whole(&place);
    stand_in(&place, "sbatch", SBATCH);
    stand_in(&place, "scontrol", "echo \"$2\" >> \"$PLACE/queued\"\n");
    let args = ["--launcher", "slurm", "--launcher-option=--partition=gpu", "--mem", "1G", "--lease", "5"];
    let trained = with_stand_ins(&place, &args);
    assert_eq!(trained.code(0).says("4 cells in the queue").stdout, table);
    same(&place, "runs/grid");
    assert!(place.read("out.1").contains("stopped after update"), "{}", place.read("out.1"));
    assert_eq!(place.read("queued"), "7_1\n");
    assert!(place.read("submitted").contains("--partition=gpu"));
    let script = place.read("runs/grid/launch/slurm-1.sh");
    for directive in ["--array=1-4", "--job-name=rtc-grid", "--mem=1G", "--requeue", "--signal=B:TERM@120", "--time="] {
        assert!(script.contains(&format!("\n#SBATCH {directive}")), "{directive}: {script}");
    }
    assert_eq!(place.read("runs/grid/launch/cells-1").lines().count(), 4);
}

/// Runs the tasks of an array.
const HQ: &str = r#"
[ "$1 $2" = "submit --array" ]
last=${3#1-}
echo "$@" > "$PLACE/submitted"
while [ "$1" != -- ]; do shift; done
shift
for ((task = 1; task <= last; task++)); do
    HQ_JOB_ID=1 HQ_TASK_ID=$task "$@" > "$PLACE/out.$task" 2>&1 &
done
"#;

#[test]
fn a_task_array_of_hyperqueue_is_trained() {
    let place = place(2);
    let table = whole(&place);
    stand_in(&place, "hq", HQ);
    let trained = with_stand_ins(&place, &["--launcher", "hyperqueue", "--time", "1h", "--lease", "5"]);
    assert_eq!(trained.code(0).stdout, table);
    same(&place, "runs/grid");
    let submitted = place.read("submitted");
    assert!(submitted.contains("--time-request 1h") && submitted.contains("--resource mem="), "{submitted}");
}

#[test]
fn a_queue_that_is_not_there_is_told_with_the_way_out() {
    let place = place(2);
    let run = |launcher: &str| -> Answer {
        let args = ["--launcher", launcher, "--time", "10", "--mem", "1G"];
        command(&place, &args).env("PATH", place.path("bin")).output().expect("the binary runs").into()
    };
    run("slurm").code(2).says("there is no `sbatch` here").says("--launcher commands").says("slurm-1.sh is the script");
    run("hyperqueue").code(2).says("there is no `hq` here");
    assert!(!place.path("runs/grid/claims").exists());
    stand_in(&place, "sbatch", "echo no partition >&2\nexit 3\n");
    let args = ["--launcher", "slurm", "--time", "10", "--detach"];
    with_stand_ins(&place, &args).code(6).says("can't submit with sbatch").says("no partition");
}

#[test]
fn options_that_the_launcher_has_no_use_for_are_refused() {
    let place = place(2);
    let refused = |args: &[&str], what: &str| {
        ablate(&place, args).code(2).says(what);
    };
    refused(&["--mem", "1G"], "`--mem` is for `--launcher slurm|hyperqueue|kubernetes`; `--memory` sets a limit");
    refused(&["--detach"], "`--detach` is for `--launcher slurm|hyperqueue`");
    refused(&["--launcher", "commands", "--time", "10"], "`--time` is for `--launcher slurm|hyperqueue|kubernetes`");
    refused(&["--launcher", "slurm", "--image", "rtc:1"], "`--image` is for `--launcher kubernetes`");
    refused(&["--launcher", "kubernetes", "--launcher-option=-n"], "`--launcher-option` is for");
    assert!(!place.path("runs").exists());
}

#[test]
fn a_manifest_of_kubernetes_has_the_cells_in_its_command() {
    let place = place(2);
    let args = ["--launcher", "kubernetes", "--time", "10", "--image", "rtc:1", "--volume", "shared"];
    let printed = ablate(&place, &args).code(0).stdout.clone();
    let job: Value = serde_yaml::from_str(printed.strip_prefix("---\n").expect("a document")).expect("YAML");
    let spec = &job["spec"];
    assert_eq!((&spec["completionMode"], &spec["completions"]), (&"Indexed".into(), &4.into()));
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["containers"][0]["image"], "rtc:1");
    assert_eq!(pod["volumes"][0]["persistentVolumeClaim"]["claimName"], "shared");
    let args: Vec<&str> =
        pod["containers"][0]["args"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert_eq!(args[..3], ["ablate", "grid.yaml", "--cell"]);
    let second = command(&place, &args[2..]).env("JOB_COMPLETION_INDEX", "1").output().expect("the binary runs");
    Answer::from(second).code(0).says("tiny:no_gate seed 1: finished in");
    let beyond = command(&place, &args[2..]).env("JOB_COMPLETION_INDEX", "4").output().expect("the binary runs");
    Answer::from(beyond).code(2).says("4 cells, and this job is number 5");
}

/// Runs all elements of an array, one after the other.
const EACH: &str = r#"
script=${!#}
last=$(sed -n 's/^#SBATCH --array=1-//p' "$script")
for ((task = 1; task <= last; task++)); do
    SLURM_ARRAY_TASK_ID=$task sh "$script" > "$PLACE/out.$task" 2>&1 || true
done
echo 7
"#;

#[test]
fn names_that_would_be_lines_of_a_script_are_refused() {
    let place = place(1);
    stand_in(&place, "sbatch", EACH);
    let line = "a\ntouch ran\n#";
    let slurm = ["--launcher", "slurm", "--time", "10"];
    let refused = |args: &[&str], what: &str| {
        let answer = with_stand_ins(&place, args);
        answer.code(2).says(what).says("must have no control characters: got \"");
        assert!(!place.path("ran").exists() && !place.path("submitted").exists(), "{args:?}");
    };
    refused(&["--grid", line], "`--grid`");
    for launcher in ["slurm", "hyperqueue", "kubernetes", "commands"] {
        refused(&["--launcher", launcher, "--grid", line], "`--grid`");
        refused(&["--launcher", launcher, "--runs", line], "a word of the command");
    }
    refused(&[&slurm[..2], &["--time", line]].concat(), "`--time`");
    refused(&[&slurm[..], &["--mem", "1G\r"]].concat(), "`--mem`");
    refused(&[&slurm[..], &["--launcher-option", "--qos=a\nb"]].concat(), "`--launcher-option`");
    for name in ["a\\nb", "\\e[2J"] {
        let text = format!("compare:\n  - tiny\n  - {{ spec: tiny, name: \"{name}\" }}\n");
        place.write("row.yaml", &(place.read("tiny.yaml") + &text));
        let told = "row.yaml:13: `compare`: the name of an entry must have no control characters";
        place.rtc(&["ablate", "row.yaml", "--table"]).code(2).says(told);
    }
    place.write("e\ntouch ran.yaml", &place.read("grid.yaml"));
    for command in [&["ablate"][..], &["train", "--experiment"]] {
        let answer = place.rtc(&[command, &["e\ntouch ran.yaml"]].concat());
        answer.code(2).says("the name of an experiment must have no control characters");
    }
    place.train(&["--run", line]).code(2).says("`--run` must have no control characters");
}

#[test]
fn folders_and_names_of_any_text_are_words_of_a_script() {
    let place = place(1);
    stand_in(&place, "sbatch", EACH);
    let folder = place.path("a && touch ran; $(touch ran) `touch ran` 'b\" # %j");
    fs::create_dir(&folder).expect("a new folder");
    for file in ["tiny.rt", "grid.yaml"] {
        fs::copy(place.path(file), folder.join(file)).expect("a copy");
    }
    fs::rename(folder.join("grid.yaml"), folder.join("-grid.yaml")).expect("a name");
    let path = format!("{}:{}", place.path("bin").display(), std::env::var("PATH").expect("a path"));
    let run = |args: &[&str]| -> Answer {
        let mut command = place.command(RTC);
        command.current_dir(&folder).env("PATH", &path).env("PLACE", place.path(""));
        command.arg("ablate").args(args).args(["--", "-grid.yaml"]).output().expect("the binary runs").into()
    };
    let lines = run(&["--launcher", "commands"]).code(0).stdout.clone();
    let first = lines.lines().next().expect("a cell is left");
    place.shell(first).code(0).says("tiny seed 1: finished in");
    let grid = ["--grid", "b; touch ran && $(touch ran)"];
    run(&[&grid[..], &["--launcher", "slurm", "--time", "10", "--detach"]].concat()).code(0).says("cells in the queue");
    let table = run(&[&grid[..], &["--table", "--json"]].concat()).code(0).json();
    let cells =
        table["models"].as_array().expect("rows").iter().flat_map(|row| row["cells"].as_array().expect("cells"));
    let states: Vec<&Value> = cells.map(|cell| &cell["state"]).collect();
    assert_eq!(states, [&Value::from("finished"); 4], "{}", place.read("out.1"));
    let script = fs::read_to_string(folder.join("runs").join(grid[1]).join("launch/slurm-1.sh")).expect("a script");
    assert!(script.contains("\n#SBATCH --job-name=rtc-b--touch-ran------touch-ran-\n"), "{script}");
    assert!(!place.path("ran").exists() && !folder.join("ran").exists());
}
