//! Sweeps with the real binary: rows of settings, the worst of which are stopped early.
#![cfg(unix)]

use crate::support::{Answer, Place, RTC, signal};
use serde_json::Value;

const GRID: &str = "\
evaluate_every: 5
seeds: [1, 2]
model: tiny
grid:
  optimiser.learning_rate: [1e-9, 3e-3]
  set: { depthwise.depth: [2, 3] }
";

/// A place with a sweep of four rows and two seeds.
fn place() -> Place {
    let place = Place::new();
    let experiment = place.read("tiny.yaml").replace("epochs: 4", "epochs: 2");
    place.write("sweep.yaml", &format!("{experiment}{GRID}"));
    place
}

fn ablate(place: &Place, args: &[&str]) -> Answer {
    place.rtc(&[&["ablate", "sweep.yaml"], args].concat())
}

/// The state of the cells of every row.
fn states(json: &Value) -> Vec<Vec<&str>> {
    let rows = json["models"].as_array().expect("rows");
    let cells = |row: &'_ Value| row["cells"].as_array().map(Vec::len);
    assert!(rows.iter().all(|row| cells(row) == Some(2)), "{json:#}");
    rows.iter()
        .map(|row| row["cells"].as_array().into_iter().flatten().filter_map(|cell| cell["state"].as_str()).collect())
        .collect()
}

#[test]
fn rows_of_a_sweep_are_named_and_trained_by_their_settings() {
    let place = place();
    let once = ["--with", "seeds=[1]"];
    let table = ablate(&place, &once);
    table.code(0).says("0 of 4 cells are finished").says("next: rtc report runs/sweep");
    for name in ["tiny learning_rate=1e-9 depth=2", "tiny learning_rate=0.003 depth=3"] {
        assert!(table.stdout.contains(name), "{}", table.stdout);
    }
    // A row is the run of the same settings by hand, and is found where that is.
    let train = ["train", "tiny.rt", "--experiment", "sweep.yaml", "--seed", "2", "--threads", "1"];
    let edits = ["--with", "optimiser.learning_rate=0.003", "--set", "depthwise.depth=3"];
    place.rtc(&[&train[..], &edits[..]].concat()).code(0).says("next: rtc report runs/");
    let wider = ablate(&place, &[]);
    wider.code(0).says("5 of 8 cells are finished, 1 of them in other folders");
    // A point more trains no other point again.
    place.write("sweep.yaml", &place.read("sweep.yaml").replace("[2, 3]", "[2, 3, 4]"));
    ablate(&place, &once).code(0).says("4 of 6 cells are finished");
    place.write("sweep.yaml", &place.read("sweep.yaml").replace("[1e-9, 3e-3]", "{ from: 1, to: 2 }"));
    ablate(&place, &[]).code(2).says("sweep.yaml:").says("`steps` says how many values");
}

#[test]
fn the_worst_rows_are_stopped_at_one_update_and_decisions_outlive_a_kill() {
    let place = place();
    let halving = ["--halving", "1/2@5,10"];
    let whole = ablate(&place, &[&["--runs", "apart"], &halving[..]].concat());
    whole.code(0).says("waits for the other rows after update 5").says("stopped after update 5, number 4 of 4 rows");
    let read = |args: &[&str]| ablate(&place, &[&["--table", "--json"], args].concat()).code(0).json();
    let json = read(&[&["--runs", "apart"], &halving[..]].concat());
    let found = states(&json);
    let count = |state: &str| found.iter().filter(|row| row.iter().all(|own| *own == state)).count();
    assert_eq!((count("finished"), count("stopped")), (1, 3), "{found:?}");
    let at = |json: &Value| -> Vec<Value> {
        let rows = json["models"].as_array().into_iter().flatten();
        rows.map(|row| row["cells"][0]["stopped"]["update"].clone()).collect()
    };
    assert_eq!(at(&json).iter().filter(|at| **at == 5).count(), 2);
    assert_eq!(at(&json).iter().filter(|at| **at == 10).count(), 1);
    let kept = found.iter().position(|row| row[0] == "finished").expect("one row is left");
    assert!(
        whole.stdout.contains("was stopped after update 5: it was number 3 of 4 rows on dev there"),
        "{}",
        whole.stdout
    );

    // The block of the experiment is what the option says.
    place.write("block.yaml", &format!("{}halving: {{ keep: 1/2, at: [5, 10] }}\n", place.read("sweep.yaml")));
    let block = place.rtc(&["ablate", "block.yaml", "--runs", "apart", "--grid", "sweep", "--table"]);
    assert_eq!(block.code(0).stdout, whole.stdout);

    // Killed again and again, it decides the same and ends with the same table.
    for _ in 0..3 {
        let args = [&["ablate", "sweep.yaml", "--jobs", "2"], &halving[..]].concat();
        let child = place.command(RTC).args(args).spawn().expect("the binary runs");
        std::thread::sleep(std::time::Duration::from_millis(400));
        signal(&child, libc::SIGKILL);
        child.wait_with_output().expect("the binary ends");
    }
    assert_eq!(ablate(&place, &halving).code(0).stdout, whole.stdout);

    // All rows to their end: as if there had been no halving, to the bit.
    let all = ablate(&place, &["--halving", "off"]);
    all.code(0).says("goes on after update 5");
    let plain = ablate(&place, &["--runs", "plain"]);
    assert_eq!(all.stdout, plain.code(0).stdout);
    // Rows that are finished are shown, whatever would have been stopped.
    let shown = read(&halving);
    assert!(states(&shown).iter().all(|row| row.iter().all(|state| *state == "finished")));
    assert_eq!(shown["models"][kept]["cells"][0]["state"], "finished");
}

#[test]
fn rows_are_compared_only_where_dev_is_measured() {
    let place = place();
    ablate(&place, &["--halving", "1/2@7"]).code(2).says("after update 7").says("`evaluate_every`");
    ablate(&place, &["--halving", "2@5"]).code(2).says("`keep` is the share");
    ablate(&place, &["--halving", "half"]).code(2).says("as in `1/3@500,1500`");
    place.write("sweep.yaml", &format!("{}halving: {{ keep: 1/2 }}\n", place.read("sweep.yaml")));
    ablate(&place, &[]).code(2).says("sweep.yaml:").says("`halving`: takes a share and updates");
}

#[test]
fn a_table_says_how_far_begun_cells_are() {
    let place = place();
    // One update after the first comparison nothing is finished.
    let mut child = place
        .command(RTC)
        .args([
            "ablate",
            "sweep.yaml",
            "--jobs",
            "1",
            "--with",
            "max_steps=100000",
            "--with",
            "epochs=null",
            "--with",
            "seeds=[1]",
        ])
        .spawn()
        .expect("the binary runs");
    let metrics = place.path("runs/sweep/tiny-learning_rate-1e-9-depth-2/seed1/metrics.jsonl");
    let begun = || std::fs::read_to_string(&metrics).unwrap_or_default().lines().count() > 20;
    for _ in 0..6000 {
        if begun() || child.try_wait().expect("the state of a child").is_some() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let table =
        ablate(&place, &["--table", "--with", "max_steps=100000", "--with", "epochs=null", "--with", "seeds=[1]"]);
    table
        .code(0)
        .says("tiny learning_rate=1e-9 depth=2 seed 1: update ")
        .says("/100,000, loss ")
        .says(" of training left");
    signal(&child, libc::SIGINT);
    let ended: Answer = child.wait_with_output().expect("the binary ends").into();
    ended.code(75);
}
