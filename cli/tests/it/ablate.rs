//! Grids with the real binary: killed and stopped ones end with the same table, what is finished is left alone, and what
//! must not be compared is refused.
#![cfg(unix)]

use std::fs;
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::{Answer, Place, RTC, signal};
use rtc_runs::record::sealed;
use serde_json::{Value, json};

/// Longer than any start of the binary takes.
const PATIENCE: Duration = Duration::from_secs(60);

const COMPARE: &str = "\
seeds: [1, 2]
compare:
  - tiny
  - tiny:no_gate
  - { spec: tiny, name: \"tiny, deep\", set: [depthwise.depth=4] }
";

/// A place with a grid of three models and two seeds; `more` is added to its experiment.
fn place(more: &str) -> Place {
    let place = Place::new();
    let experiment = place.read("tiny.yaml").replace("epochs: 4", "epochs: 2");
    place.write("grid.yaml", &format!("{experiment}{COMPARE}{more}"));
    place
}

fn ablate(place: &Place, args: &[&str]) -> Answer {
    place.rtc(&[&["ablate", "grid.yaml"], args].concat())
}

fn start(place: &Place, args: &[&str]) -> Child {
    place.command(RTC).args([&["ablate", "grid.yaml"], args].concat()).spawn().expect("the binary runs")
}

#[test]
fn a_grid_is_not_made_in_the_folder_of_a_run() {
    let place = place("");
    place.train(&["--run", "grid", "--max-steps", "1"]).code(0);
    let before = place.contents("grid");
    for how in [&[][..], &["--dry-run"], &["--table"]] {
        ablate(&place, how).code(2).says("runs/grid is the folder of a run").says("--grid NAME");
    }
    assert_eq!(place.contents("grid"), before);
    ablate(&place, &["--grid", "other", "--dry-run"]).code(0);
}

/// The lines that all runs of a grid have logged.
fn logged(place: &Place, grid: &str) -> usize {
    let inside = |path: &std::path::Path| -> Vec<_> {
        fs::read_dir(path).map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default()
    };
    let runs: Vec<_> = inside(&place.path("runs").join(grid)).iter().flat_map(|model| inside(model)).collect();
    let lines =
        |run: &std::path::PathBuf| fs::read_to_string(run.join("metrics.jsonl")).unwrap_or_default().lines().count();
    runs.iter().map(lines).sum()
}

/// Waits until the grid has logged so many lines; false if it has ended before.
fn wait_for_lines(place: &Place, child: &mut Child, grid: &str, lines: usize) -> bool {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if logged(place, grid) >= lines {
            return true;
        }
        if child.try_wait().expect("the state of a child").is_some() {
            return false;
        }
        sleep(Duration::from_millis(1));
    }
    panic!("the grid makes no progress");
}

/// The files of a cell that must be equal wherever it is trained.
fn numbers(place: &Place, run: &str) -> Vec<Vec<u8>> {
    let files = ["metrics.jsonl", "results.json", "spec.rt", "checkpoints/best/weights.safetensors"];
    files.map(|file| fs::read(place.path("runs").join(run).join(file)).expect(file)).to_vec()
}

#[test]
fn a_killed_grid_goes_on_to_the_same_table_and_redoes_nothing() {
    let place = place("");
    let whole = ablate(&place, &["--grid", "whole", "--jobs", "1"]);
    whole.code(0).says("0 of 6 cells are finished").says("[1/6] tiny seed 1: begins").says("[6/6] tiny, deep seed 2");
    assert!(whole.stdout.starts_with("model"), "{}", whole.stdout);
    let all = logged(&place, "whole");
    let listed: Value = serde_json::from_str(&place.read("runs/whole/grid.json")).expect("JSON");
    let rows = listed["rows"].as_array().expect("a list of rows");
    assert_eq!(rows.iter().map(|row| &row["name"]).collect::<Vec<_>>(), ["tiny", "tiny:no_gate", "tiny, deep"]);
    assert_eq!(rows[2]["cells"][1], serde_json::json!({ "seed": 2, "run": "tiny-deep/seed2" }));

    // Where it does not find the cells of the other one.
    let args = ["--grid", "killed", "--runs", "apart", "--jobs", "2"];
    for share in [1, 2, 3] {
        let mut child = start(&place, &args);
        if wait_for_lines(&place, &mut child, "../apart/killed", share * all / 4) {
            signal(&child, libc::SIGKILL);
        }
        child.wait_with_output().expect("the binary ends");
        let table = ablate(&place, &[&args[..], &["--table"]].concat());
        assert!(table.code(0).stdout.contains("seeds"), "the table of what is finished: {}", table.stdout);
    }
    // Which cells were done when it was killed depends on the machine.
    let cells =
        ["tiny", "tiny.no_gate", "tiny-deep"].iter().flat_map(|row| [1, 2].map(|seed| format!("{row}/seed{seed}")));
    let mut finished: Vec<_> = cells.map(|cell| place.path("apart/killed").join(cell)).collect();
    finished.retain(|run| run.join("results.json").is_file());
    assert!(!finished.is_empty(), "no cell was done, though three quarters of the lines were written");
    let times = || -> Vec<_> {
        let time =
            |run: &std::path::PathBuf| fs::metadata(run.join("results.json")).and_then(|file| file.modified()).ok();
        finished.iter().map(time).collect()
    };
    let before = times();
    let resumed = ablate(&place, &args);
    assert_eq!(resumed.code(0).stdout, whole.stdout);
    assert_eq!(times(), before, "finished cells are left alone");
    for cell in ["tiny/seed1", "tiny/seed2", "tiny.no_gate/seed2", "tiny-deep/seed1"] {
        assert_eq!(
            numbers(&place, &format!("../apart/killed/{cell}")),
            numbers(&place, &format!("whole/{cell}")),
            "{cell}"
        );
    }
    ablate(&place, &args).code(0).says("6 of 6 cells are finished");

    // A cell is the run that `rtc train` makes on one thread.
    let train =
        ["train", "tiny.rt:no_gate", "--experiment", "grid.yaml", "--seed", "2", "--run", "alone", "--threads", "1"];
    place.rtc(&train).code(0);
    assert_eq!(numbers(&place, "alone"), numbers(&place, "whole/tiny.no_gate/seed2"));
}

#[test]
fn a_stopped_grid_exits_with_75_and_goes_on() {
    let place = place("");
    // So long that the signal finds cells in their middle.
    let long = ["--with", "epochs=20"];
    let whole = ablate(&place, &[&long[..], &["--runs", "apart", "--quiet"]].concat());
    assert_eq!(whole.code(0).stderr, "");
    let mut child = start(&place, &[&long[..], &["--jobs", "2"]].concat());
    assert!(wait_for_lines(&place, &mut child, "grid", 30));
    signal(&child, libc::SIGINT);
    let stopped: Answer = child.wait_with_output().expect("the binary ends").into();
    assert_eq!(stopped.code(75).says("stopped with").says("the same command goes on").stdout, "");
    assert_eq!(ablate(&place, &long).code(0).says("goes on after update").stdout, whole.stdout);
}

#[test]
fn a_cell_that_fails_is_told_and_the_others_go_on() {
    let place =
        place("models:\n  tiny:no_gate:\n    optimiser: { learning_rate: 1e30 }\n    schedule: { warmup: 0 }\n");
    let broken = ablate(&place, &["--with", "seeds=[1]"]);
    broken.code(5).says("tiny:no_gate seed 1: failed: update").says("[3/3] tiny, deep seed 1: finished");
    assert!(broken.stdout.contains("tiny:no_gate [1]      0     -"), "{}", broken.stdout);
    assert!(broken.stdout.contains("[1] tiny:no_gate seed 1 failed: update"), "{}", broken.stdout);
    let json = ablate(&place, &["--with", "seeds=[1]", "--table", "--json"]).code(0).json();
    assert_eq!(json["models"][1]["cells"][0]["state"], "failed");
    assert_eq!(json["models"][1]["cells"][0]["failure"]["code"], 5);
    assert!(json["models"][0]["cells"][0]["results"]["splits"]["test"]["accuracy"].is_number(), "{json:#}");
    // Only what failed is tried again; more seeds are added to what is there.
    ablate(&place, &["--with", "seeds=[1]"]).code(5).says("2 of 3 cells are finished").says("[2/3] tiny:no_gate");
    ablate(&place, &["--with", "seeds=[1, 2]"]).code(5).says("2 of 6 cells are finished");
}

/// The seeds of the rows of a grid, shortened to one.
const ONCE: [&str; 2] = ["--with", "seeds=[1]"];

#[test]
fn what_was_changed_is_trained_anew_and_the_rest_is_taken_from_where_it_is() {
    let place = place("");
    let first = ablate(&place, &ONCE);
    first.code(0);
    let old = numbers(&place, "grid/tiny/seed1");

    // Other settings: said before they are trained, and trained beside the older runs.
    let smaller = [&ONCE[..], &["--with", "batch.size=8"]].concat();
    let changed = "tiny: batch.size was 16 and is 8 now; the older runs stay in runs/grid/tiny/seed1";
    let table = ablate(&place, &[&smaller[..], &["--table"]].concat());
    assert!(table.code(0).says(changed).stdout.contains("no run is finished yet"), "{}", table.stdout);
    ablate(&place, &smaller).code(0).says(changed).says("0 of 3 cells are finished");
    assert_eq!(numbers(&place, "grid/tiny/seed1"), old, "the older run is left alone");
    ablate(&place, &smaller).code(0).says("3 of 3 cells are finished").is_quiet_about("older runs");
    let listed: Value = serde_json::from_str(&place.read("runs/grid/grid.json")).expect("JSON");
    let run = listed["rows"][0]["cells"][0]["run"].as_str().expect("a folder").to_owned();
    assert!(run.starts_with("tiny/seed1-"), "{run}");
    place.rtc(&["eval", &format!("grid/{run}")]).code(0);

    // Back again: nothing is trained.
    let again = ablate(&place, &ONCE);
    again.code(0).says("tiny: batch.size was 8 and is 16 now").says("3 of 3 cells are finished");
    assert_eq!(again.stdout, first.stdout);

    // One row alone.
    place.write("grid.yaml", &place.read("grid.yaml").replace("depthwise.depth=4", "depthwise.depth=5"));
    let row = ablate(&place, &ONCE);
    row.code(0).says("tiny, deep: depthwise.depth was 4 and is 5 now").says("2 of 3 cells are finished");
    row.is_quiet_about("tiny:no_gate: ");

    // Another grid takes what is there already, and so does one whose rows are alike.
    let other = ablate(&place, &[&ONCE[..], &["--grid", "other"]].concat());
    other.code(0).says("3 of 3 cells are finished, 3 of them in other folders");
    assert_eq!(other.stdout, row.stdout);
    assert!(!place.path("runs/other/tiny").exists());
    let listed: Value = serde_json::from_str(&place.read("runs/other/grid.json")).expect("JSON");
    assert_eq!(listed["rows"][0]["cells"][0]["run"], "../grid/tiny/seed1");
    let experiment = place.read("tiny.yaml");
    place.write("twins.yaml", &format!("{experiment}compare: [tiny, {{ spec: tiny, name: again }}]\n"));
    place.rtc(&["ablate", "twins.yaml"]).code(0).says("[1/2] tiny seed 1: finished").is_quiet_about("[2/2]");
    assert!(!place.path("runs/twins/again").exists());
}

#[test]
fn data_that_were_changed_make_other_cells() {
    let place = place("");
    let rows = |from: usize| -> String {
        let digits = (0..10).flat_map(|a| (0..6).map(move |b| (a, b)));
        digits.skip(from).map(|(a, b)| format!("{}\t[MAX {a} {b} ]\n", a.max(b))).collect()
    };
    for (name, from) in [("train.tsv", 20), ("dev.tsv", 10), ("test.tsv", 0)] {
        place.write(name, &rows(from).lines().take(30).map(|line| format!("{line}\n")).collect::<String>());
    }
    let files = "task.data={train: train.tsv, dev: dev.tsv, test: test.tsv}";
    let args = [&ONCE[..], &["--with", files]].concat();
    ablate(&place, &args).code(0);
    ablate(&place, &args).code(0).says("3 of 3 cells are finished");
    place.write("test.tsv", &rows(5));
    let table = [&args[..], &["--table"]].concat();
    let stale = ablate(&place, &table);
    assert!(stale.code(0).says("tiny: data was ").stdout.contains("no run is finished yet"), "{}", stale.stdout);
    ablate(&place, &args).code(0).says("tiny: data was ").says("0 of 3 cells are finished");
    ablate(&place, &args).code(0).says("3 of 3 cells are finished");
    // Results outlive their data, and their table says what it does not know.
    fs::remove_file(place.path("test.tsv")).expect("the file was there");
    ablate(&place, &table).code(0).says("test.tsv").says("whether the data have changed is not known");
}

#[test]
fn runs_that_are_not_comparable_are_refused() {
    let place = place("");
    ablate(&place, &ONCE).code(0);
    // Results of other data or of another program are not put into one table without saying so.
    let results = "runs/grid/tiny/seed1/results.json";
    let good = place.read(results);
    place.edit(results, |changed| changed["identity"]["data_hash"] = "0123456789abcdef0123456789abcdef".into());
    ablate(&place, &["--with", "seeds=[1]", "--table"])
        .code(7)
        .says("tiny seed 1 was trained on other data (0123456789ab)");
    let mixed = ablate(&place, &["--with", "seeds=[1]", "--table", "--mixed"]);
    assert!(mixed.code(0).stdout.contains("tiny [1]"), "{}", mixed.stdout);
    place.write(results, &good);
    place.edit(results, |changed| changed["identity"]["versions"]["code"] = "older".into());
    ablate(&place, &["--with", "seeds=[1, 2]"]).code(7).says("trained by another program (code older");
    assert!(!place.path("runs/grid/tiny/seed2").exists(), "nothing was trained");
    place.write(results, &good);
    ablate(&place, &ONCE).code(0);
    // Another program has begun a run of another graph: it is kept, and this one's own is trained beside it.
    place.edit("runs/grid/tiny/seed1/run.json", |info| {
        info["graph_hash"] = format!("0{}", info["graph_hash"].as_str().expect("a hash")).into();
    });
    fs::remove_file(place.path(results)).expect("the results");
    ablate(&place, &ONCE).code(0).says("tiny: graph was 0").says("the older runs stay in runs/grid/tiny/seed1");
}

#[test]
fn the_table_is_written_in_every_format() {
    let place = place("");
    let text = ablate(&place, &["--with", "seeds=[1]", "--parameters", "--depth"]);
    let head: Vec<&str> = text.code(0).stdout.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(head, ["model", "parameters", "test", "depth", "test"]);
    let table = |format: &str| {
        let answer = ablate(&place, &["--with", "seeds=[1]", "--table", "--format", format]);
        answer.code(0).is_quiet_about("data:");
        answer.stdout
    };
    assert!(table("markdown").starts_with("| model"));
    assert!(table("csv").starts_with("model,test,test deviation,test low,test high,test difference,"));
    let plain = ablate(&place, &["--with", "seeds=[1]", "--table", "--format", "csv", "--plain"]);
    assert!(plain.code(0).stdout.starts_with("model,test,test deviation,notes\nmajority,"));
    assert!(table("latex").contains("\\toprule\nmodel & test \\\\\n\\midrule\n"));
    assert!(table("latex").contains("tiny:no\\_gate"));
    ablate(&place, &["--table", "--format", "html"]).code(2).says("markdown");
}

#[test]
fn rows_are_compared_with_the_baseline() {
    let place = place("");
    let seeds = ["--with", "seeds=[1, 2, 3]"];
    let text = ablate(&place, &seeds).code(0).stdout.clone();
    for told in ["mean and sample deviation over 3 seeds", "difference from tiny ", "p (examples)", "Student's t"] {
        assert!(text.contains(told), "{told} in {text}");
    }
    let other =
        ablate(&place, &[&seeds[..], &["--table", "--baseline", "tiny, deep", "--json"]].concat()).code(0).json();
    assert_eq!(other["table"]["baseline"], "tiny, deep");
    let cell = |row: usize| &other["table"]["rows"][row]["values"]["test"];
    let own = |row: usize| -> Vec<f64> {
        let cells = other["models"][row]["cells"].as_array().expect("the cells");
        cells.iter().filter_map(|cell| cell["results"]["splits"]["test"]["accuracy"].as_f64()).collect()
    };
    // The majority is the first row of the table.
    let difference = own(0).iter().zip(own(2)).map(|(own, base)| own - base).sum::<f64>() / 3.0;
    assert!((cell(1)["difference"].as_f64().expect("a number") - difference).abs() < 1e-12);
    assert!(cell(3)["difference"].is_null(), "the baseline");
    ablate(&place, &["--table", "--baseline", "tinny"]).code(2).says("there is no row `tinny`; did you mean `tiny`?");
    assert!(!ablate(&place, &[&seeds[..], &["--table", "--plain"]].concat()).code(0).stdout.contains("difference"));
}

#[test]
fn a_dry_run_lists_the_cells_and_trains_nothing() {
    let place = place("");
    let dry = ablate(&place, &["--dry-run", "--jobs", "2"]);
    let lines: Vec<&str> = dry.code(0).stdout.lines().collect();
    assert_eq!(lines.len(), 8, "{}", dry.stdout);
    assert!(lines[0].starts_with("model") && lines[0].contains("parameters") && lines[0].contains("operations"));
    assert!(lines[1].starts_with("tiny ") && lines[4].starts_with("tiny "), "{}", dry.stdout);
    assert!(lines[7].starts_with("6 cells to train in runs/grid, 2 at a time: about "), "{}", dry.stdout);
    assert!(lines[7].contains(", with every recurrence at its bound "), "{}", dry.stdout);
    assert!(!place.path("runs").exists(), "nothing is written");
    let json = ablate(&place, &["--dry-run", "--json"]).code(0).json();
    let cell = &json["cells"][1];
    assert_eq!((&cell["model"], &cell["updates"]), (&Value::from("tiny:no_gate"), &Value::from(20)));
    assert!(cell["operations"].as_f64() > Some(1e6) && cell["seconds"].as_f64() > Some(0.0), "{cell}");
    assert!(cell["seconds_at_most"].as_f64() >= cell["seconds"].as_f64(), "{cell}");
    assert!((1.0..=3.0).contains(&cell["depth"].as_f64().expect("it halts")), "{cell}");
}

#[test]
fn a_dry_run_says_the_same_operations_each_time_where_strings_are_fresh() {
    let place = Place::new();
    let task = "task:\n  name: parity_check\n  options: { train_length: 20, test_length: 22 }\n  sizes: { dev: 6, 21-22: 6 }\n\
                fresh: { lengths: each, curriculum: { from: 2, every: 10 } }";
    place.write(
        "fresh.yaml",
        &format!(
            "{task}\noptimiser: {{ learning_rate: 0.01 }}\nschedule: {{ kind: constant }}\nbatch: {{ size: 4 }}\n\
             max_steps: 300\nevaluate: [21-22]\ncompare: [tiny]\n"
        ),
    );
    let dry =
        || place.rtc(&["ablate", "fresh.yaml", "--dry-run", "--json"]).code(0).json()["cells"][0]["operations"].clone();
    let operations = dry();
    assert!(operations.as_f64() > Some(1e6));
    assert_eq!([dry(), dry()], [operations.clone(), operations]);
}

#[test]
fn mistakes_are_shown_in_the_lines_of_the_experiment() {
    let place = place("models:\n  tiny:\n    set:\n      - embed.width=8\n      - embed.widht=16\n");
    let line = 1 + place.read("grid.yaml").lines().position(|line| line.contains("widht")).expect("the mistake");
    let at = format!("grid.yaml:{line}:");
    ablate(&place, &[]).code(3).says(&at).says("- embed.widht=16").says("did you mean `width`?");
    let trained = place.rtc(&["train", "tiny.rt", "--experiment", "grid.yaml"]);
    trained.code(3).says(&at);
    assert!(!trained.stderr.contains("--set"), "{}", trained.stderr);

    let wrong = |from: &str, to: &str| {
        place.write("wrong.yaml", &place.read("grid.yaml").replace("widht", "width").replace(from, to));
        place.rtc(&["ablate", "wrong.yaml"])
    };
    wrong("  - tiny\n", "  - tny\n").code(2).says("wrong.yaml:").says("there is no spec `tny`; did you mean `tiny`?");
    wrong("tiny:no_gate", "tiny:no_gat").code(3).says("in `tiny:no_gat`").says("did you mean `no_gate`?");
    wrong("depthwise.depth=4", "depthwise.dpeth=4").code(3).says("wrong.yaml:").says("did you mean `depth`?");
    wrong("  tiny:\n", "  tinny:\n").code(2).says("`models.tinny`").says("did you mean `tiny`?");
    wrong("seeds: [1, 2]", "seeds: [1, 1]").code(2).says("names 1 twice");
    place.rtc(&["ablate", "tiny.yaml"]).code(2).says("has no `compare`");
    ablate(&place, &["--grid", "../x"]).code(2).says("is no name");
}

#[test]
fn specs_and_experiments_of_the_program_are_known_by_name() {
    let place = Place::new();
    let small = ["--with", "task.sizes={train: 64, dev: 16, test: 16, 200-300: 2, 500-600: 2, 900-1000: 2}"];
    let args =
        [&["ablate", "listops_ablation_smoke", "--dry-run", "--json", "--with", "seeds=[1]"], &small[..]].concat();
    let json = place.rtc(&args).code(0).json();
    let names: Vec<&str> = json["cells"].as_array().into_iter().flatten().filter_map(|c| c["model"].as_str()).collect();
    let expected = "transformer ut gut gut:no_gate gut:no_transition gut:token_halt gut:no_halt tlb gutlb";
    assert_eq!(names.join(" "), expected);
    place.rtc(&["check", "gut:no_gate"]).code(0);
    place.rtc(&["check", "ut_no_halt"]).code(0);
    place.rtc(&["check", "gut:nogate"]).code(3).says("did you mean `no_gate`?");
}

#[test]
fn a_cell_that_another_program_began_is_refused_before_training() {
    let place = place("");
    let (once, twice) = (["--with", "seeds=[1]"], ["--with", "seeds=[1, 2]"]);
    ablate(&place, &once).code(0);
    // It was stopped just before its end, by a program that made the same graph.
    let run = "runs/grid/tiny.no_gate/seed1";
    fs::remove_file(place.path(run).join("results.json")).expect("the results");
    place.edit(&format!("{run}/run.json"), |info| info["versions"]["code"] = "older".into());
    let began = "tiny:no_gate seed 1 was begun by another program (code older, rtc";
    ablate(&place, &twice).code(7).says(began).says("`--grid NAME`");
    // So is one whose last attempt failed: it goes on from its checkpoint.
    place.write(&format!("{run}/failure.json"), &sealed(&json!({ "code": 6, "message": "the disk was full" })));
    ablate(&place, &twice).code(7).says(began);
    assert!(!place.path("runs/grid/tiny/seed2").exists(), "nothing was trained");
    let mixed = ablate(&place, &["--with", "seeds=[1]", "--mixed"]);
    assert!(mixed.code(0).stdout.contains("tiny:no_gate [1]"), "{}", mixed.stdout);
}

#[test]
fn an_empty_split_is_broken_data_whether_it_is_trained_or_tried() {
    let place = place("");
    place.write("empty.tsv", "");
    let args = ["--with", "task.data={train: empty.tsv, dev: generated, test: generated}", "--jobs", "1"];
    ablate(&place, &args).code(4).says("the split `train` is empty");
    ablate(&place, &[&args[..], &["--dry-run"]].concat()).code(4).says("the split `train` is empty");
}

#[test]
fn a_metric_that_the_task_does_not_have_is_refused_before_training() {
    let place = place("");
    let wrong = ablate(&place, &["--metric", "loss", "--metric", "acuracy"]);
    wrong
        .code(2)
        .says("there is no metric `acuracy`; did you mean `accuracy`? (known: accuracy, loss, mean_depth, majority)");
    ablate(&place, &["--metric", "last_read", "--table"]).code(2).says("there is no metric `last_read`");
    let other = place.rtc(&["ablate", "flip_flop_smoke", "--table", "--metric", "lastread"]);
    other.code(2).says("did you mean `last_read`? (known: accuracy, loss, mean_depth, majority, last_read)");
    assert!(!place.path("runs").exists(), "nothing was trained");
    let known = ["accuracy", "loss", "mean_depth", "majority"].map(|name| ["--metric", name]).concat();
    let table = ablate(&place, &[&["--with", "seeds=[1]"], &known[..]].concat());
    assert!(table.code(0).stdout.contains("test mean_depth"), "{}", table.stdout);
}

#[test]
fn a_spec_may_be_right_only_with_its_edits() {
    let place = place("");
    place.write("odd.rt", &place.read("tiny.rt").replace("heads: 2", "heads: 3").replace("tiny", "odd"));
    place.rtc(&["check", "odd.rt"]).code(3);
    let experiment = place.read("tiny.yaml").replace("epochs: 4", "epochs: 1");
    let compare = "compare: [{ spec: odd, set: [depthwise.self.heads=2] }]\n";
    place.write("odd.yaml", &format!("{experiment}{compare}"));
    place.rtc(&["ablate", "odd.yaml", "--dry-run"]).code(0);
    // The edits of the experiment's block count for `rtc train` too.
    place.write("odd.yaml", &format!("{experiment}models:\n  odd:\n    set: [depthwise.self.heads=2]\n"));
    place.rtc(&["train", "odd.rt", "--experiment", "odd.yaml", "--max-steps", "1"]).code(0);
    let unknown = place.rtc(&["train", "odd.rt:no_gat", "--experiment", "odd.yaml"]);
    unknown.code(3).says("did you mean `no_gate`?");
}

/// A layer with a network of its own, called by these names.
fn layers(model: &str, network: &str, binding: &str) -> String {
    format!(
        "def {network}(x) {{\n    hidden: int = 16\n    {binding} = linear(x) {{ to: hidden }}\n    out linear(gelu({binding})) {{ to: width }}\n}}\n
model {model} {{\n    embed {{ width: 8, tokens: start_end }}\n    loop {{\n        steps: 2\n        {binding} = norm(state)\n        \
         state = state + {network}({binding})\n    }}\n    readout end\n}}\n"
    )
}

#[test]
fn a_model_keeps_its_cells_when_its_bindings_are_renamed() {
    let place = place("");
    let experiment = place.read("tiny.yaml");
    let compare = |model: &str| format!("{experiment}compare:\n  - {{ spec: {model}, name: layers }}\n");
    place.write("first.rt", &layers("first", "network", "up"));
    place.write("grid.yaml", &compare("first"));
    let before = ablate(&place, &ONCE);
    before.code(0);
    let old = numbers(&place, "grid/layers/seed1");

    // Every name is another: the finished cell is the same, and a grid elsewhere takes it.
    place.write("second.rt", &layers("second", "widened", "higher"));
    place.write("grid.yaml", &compare("second"));
    let after = ablate(&place, &ONCE);
    after.code(0).says("1 of 1 cell are finished").is_quiet_about("older runs");
    assert_eq!(after.stdout, before.stdout);
    ablate(&place, &[&ONCE[..], &["--grid", "other"]].concat())
        .code(0)
        .says("1 of 1 cell are finished, 1 of them in other folders");

    // A further seed joins it, and values under a renamed path are measured with the weights that it has.
    let more = ["--with", "seeds=[1, 2]"];
    ablate(&place, &more).code(0).says("1 of 2 cells are finished");
    place.write("grid.yaml", &format!("{}evaluate_at: {{ loop.higher: [norm(2 * state)] }}\n", compare("second")));
    ablate(&place, &more).code(0).says("measuring 2 models");
    place.write("grid.yaml", &compare("second"));

    // One that is not finished resumes from its checkpoint, under the names that it has.
    fs::remove_file(place.path("runs/grid/layers/seed1/results.json")).expect("the results");
    ablate(&place, &ONCE).code(0).says("goes on after update").is_quiet_about("older runs");
    assert_eq!(numbers(&place, "grid/layers/seed1"), old);
    assert!(place.read("runs/grid/layers/seed1/spec.rt").contains("model first"));

    // Another network is another cell.
    place.write("second.rt", &layers("second", "widened", "higher").replace("gelu", "relu"));
    ablate(&place, &ONCE)
        .code(0)
        .says("0 of 1 cell are finished")
        .says("the older runs stay in runs/grid/layers/seed1");
}

#[test]
fn trained_models_are_measured_with_other_steps_than_in_training() {
    let place = place("");
    let experiment = place.read("tiny.yaml").replace("epochs: 4", "epochs: 1");
    place.write("layers.rt", &layers("layers", "network", "up"));
    let write = |compare: &str, at: &str| {
        place.write("grid.yaml", &format!("{experiment}seeds: [1, 2]\ncompare: {compare}\nevaluate_at: {at}\n"));
    };

    // What can't be measured is refused before anything is trained, with the row and the edit.
    let refused = |compare: &str, at: &str, code: i32, why: &str| {
        write(compare, at);
        ablate(&place, &[]).code(code).says(why);
        assert!(!place.path("runs").exists(), "{at}");
    };
    refused("[layers]", "{ loop.steps: [] }", 2, "a value is missing");
    refused("[layers]", "{ loop.steps: [4..1] }", 2, "the first end is the smaller one");
    refused("[layers]", "{ embed.width: [4] }", 2, "`evaluate_at`: embed.width = 4: the edits change the weights");
    refused("[layers]", "{ loop.stops: [1] }", 3, "loop.stops");
    refused("[layers, tiny]", "{ loop.steps: [1] }", 3, "in `tiny`");

    write("[layers, { spec: layers, name: other, with: [evaluate_at=null] }]", "{ loop.steps: [1..3, 8] }");
    let first = ablate(&place, &["--format", "csv"]);
    first.code(0).says("measuring 2 models under the edits of `evaluate_at`");
    let tables: Vec<&str> = first.stdout.split("\n\n").collect();
    assert_eq!(tables.len(), 2, "{}", first.stdout);
    assert!(tables[1].starts_with("model,loop.steps=1,loop.steps=1 deviation,loop.steps=1 low,"), "{}", tables[1]);
    assert!(tables[1].lines().nth(1).is_some_and(|row| row.starts_with("layers,0.")), "{}", tables[1]);

    // The numbers are those of `rtc eval`, and nothing is measured twice.
    let kept: Value = serde_json::from_str(&place.read("runs/grid/layers/seed2/evaluated_at.json")).expect("JSON");
    let edits: Vec<&str> =
        kept["edits"].as_array().into_iter().flatten().filter_map(|edit| edit["edit"].as_str()).collect();
    assert_eq!(edits, ["loop.steps = 1", "loop.steps = 2", "loop.steps = 3", "loop.steps = 8"]);
    let eval = place.rtc(&["eval", "grid/layers/seed2", "--set", "loop.steps=8", "--json"]);
    let eval: Value = serde_json::from_str(&eval.code(0).stdout).expect("JSON");
    assert_eq!(kept["edits"][3]["splits"][0]["loss"], eval["splits"][0]["loss"]);
    let again = ablate(&place, &["--format", "csv"]);
    again.code(0).is_quiet_about("measuring");
    assert_eq!(again.stdout, first.stdout);
    let verified = place.rtc(&["verify", "grid/layers/seed2"]);
    assert!(verified.code(0).stdout.contains("evaluated_at.json"), "{}", verified.stdout);
    let json = ablate(&place, &["--table", "--json"]).code(0).json();
    assert_eq!(
        json["evaluate_at"]["loop.steps"]["columns"],
        json!(["loop.steps=1", "loop.steps=2", "loop.steps=3", "loop.steps=8"])
    );

    // A further value is measured alone; a file that was damaged is made again.
    write("[layers, { spec: layers, name: other, with: [evaluate_at=null] }]", "{ loop.steps: [1..3, 8, 9] }");
    ablate(&place, &[]).code(0).says("measuring 2 models").is_quiet_about("older runs");
    place.write("runs/grid/layers/seed2/evaluated_at.json", "{}\n");
    place.rtc(&["verify", "grid/layers/seed2"]).code(7);
    ablate(&place, &[]).code(0).says("measuring 1 model under");
    place.rtc(&["report", "grid"]).code(0);
    assert!(place.read("runs/grid/report.html").contains("Accuracy by loop.steps"));
}

#[test]
fn rows_of_the_command_line_take_the_place_of_those_of_the_experiment() {
    let place = place("baseline: tiny:no_gate\n");
    let rows = ["--grid", "parts", "--row", "tiny", "--row", "shallow = tiny { depthwise.depth: 2, halt none }"];
    let answer = ablate(&place, &[&ONCE[..], &rows].concat());
    answer.code(0).says("0 of 2 cells are finished");
    let names: Vec<&str> = answer.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(
        names.contains(&"tiny") && names.contains(&"shallow") && !names.contains(&"tiny:no_gate"),
        "{}",
        answer.stdout
    );
    // A row of the experiment that is the same has its cell already.
    ablate(&place, &ONCE).code(0).says("1 of 3 cells are finished, 1 of them in other folders");
    // The experiment may be one of the program, the spec a file here, and the edits those of a variant.
    let program = ["ablate", "listops_smoke", "--dry-run", "--with", "seeds=[1]", "--row", "tiny.rt { gate none }"];
    let planned = place.rtc(&program);
    assert!(
        planned.code(0).stdout.contains("tiny.rt gate none") || planned.stdout.contains("tiny gate none"),
        "{}",
        planned.stdout
    );
    let refused = |row: &str, code: i32, why: &str| {
        place.rtc(&["ablate", "grid.yaml", "--row", row]).code(code).says(why);
    };
    refused("tiny {", 2, "a row is a spec with edits");
    refused("tyni", 2, "there is no spec `tyni`");
    refused("tiny { depthwise.deep: 2 }", 3, "deep");
    place.rtc(&["ablate", "grid.yaml", "--row", "tiny", "--row", "tiny"]).code(2).says("need names that differ");
}
