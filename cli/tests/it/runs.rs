//! `rtc runs`, `rtc diff` of runs, and `@last`: lists, tags, names and removal, with runs that are damaged, missing or no runs at all.
#![cfg(unix)]

mod hostile;
use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use crate::support::{Place, signal};
use rtc_runs::record::{sealed, sha256};
use serde_json::{Value, json};

/// The names in a list, in its order.
fn names(list: &Value) -> Vec<&str> {
    list["runs"].as_array().expect("a list").iter().filter_map(|run| run["name"].as_str()).collect()
}

/// The entry of a run in a list.
fn entry<'l>(list: &'l Value, name: &str) -> &'l Value {
    let all = list["runs"].as_array().expect("a list");
    all.iter().find(|run| run["name"] == name).unwrap_or_else(|| panic!("{name} is not in {list}"))
}

/// Makes a run old: its experiment is what is written when it begins.
fn begun(place: &Place, run: &str, seconds: u64) {
    let file = fs::File::options().write(true).open(place.path(&format!("runs/{run}/experiment.yaml"))).expect(run);
    file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).expect("a time");
}

/// A run as a training of another model would have written it, with the least that a list reads.
fn write(place: &Place, name: &str, seed: usize, experiment: &str, finished: bool) {
    let folder = format!("runs/{name}");
    fs::create_dir_all(place.path(&folder)).expect("a new folder");
    let run = sha256(name);
    let file = |file: &str, text: &str| place.write(&format!("{folder}/{file}"), text);
    file("experiment.yaml", experiment);
    let files = json!({ "experiment.yaml": sha256(experiment), "spec.rt": sha256("") });
    file(
        "run.json",
        &sealed(&json!({
            "format": 2, "run": run, "model": format!("made{}", seed % 7), "seed": seed, "spec_hash": "s", "graph_hash": "g",
            "parameters": 1000 + seed, "threads": 1, "versions": {}, "files": files,
        })),
    );
    let line = |before: &mut String, text: &str| {
        *before = sha256(format!("{before}{text}"))[..16].to_owned();
        format!("{text},\"check\":\"{before}\"}}\n")
    };
    let mut before = run.clone();
    file("timing.jsonl", &line(&mut before, r#"{"what":"begins","update":0,"seconds":0.1,"total":4000"#));
    let mut before = run.clone();
    // Longer than what a list reads of it.
    let steps = (1..=80)
        .map(|n| format!(r#"{{"kind":"step","update":{},"epoch":0,"loss":0.5,"task_loss":0.25"#, n * 50 - seed % 50));
    file("metrics.jsonl", &steps.map(|text| line(&mut before, &text)).collect::<String>());
    if finished {
        let row = json!({ "split": "test", "examples": 10, "scored": 10, "accuracy": seed as f64 / 4000.0, "loss": 0.5, "mean_depth": null });
        file("results.json", &sealed(&json!({ "best_update": 50, "dev_accuracy": 0.5, "splits": [row], "run": run })));
    }
}

/// Gives a run that [`write`] made other results.
fn results(place: &Place, name: &str, fields: &Value) {
    let mut row = json!({ "split": "test", "examples": 10, "scored": 10, "loss": 0.5, "mean_depth": null });
    row.as_object_mut().expect("a row").extend(fields.as_object().expect("fields").clone());
    let found = json!({ "best_update": 50, "splits": [row], "run": sha256(name) });
    place.write(&format!("runs/{name}/results.json"), &sealed(&found));
}

#[test]
fn the_best_score_comes_first_whatever_is_measured() {
    let place = Place::new();
    let experiment = place.read("tiny.yaml");
    for (n, (name, fields)) in [
        ("a1", json!({ "accuracy": 0.2 })),
        ("a2", json!({ "accuracy": 0.9 })),
        ("p1", json!({ "perplexity": 3.0 })),
        ("p2", json!({ "perplexity": 1.5 })),
        ("p3", json!({ "perplexity": 900.0 })),
        ("r1", json!({ "numbers": { "rmse": 0.1 } })),
        ("r2", json!({ "numbers": { "rmse": 7.0 } })),
    ]
    .iter()
    .enumerate()
    {
        write(&place, name, n, &experiment, true);
        results(&place, name, fields);
    }
    let list = |args: &[&str]| place.rtc(&[&["runs", "--json"], args].concat()).code(0).json();
    assert_eq!(names(&list(&["--sort", "-score"])), ["a2", "a1", "p2", "p1", "p3", "r1", "r2"]);
    assert_eq!(names(&list(&["--sort", "score"])), ["a1", "a2", "p3", "p1", "p2", "r2", "r1"]);
    // A share asks for shares alone: a perplexity of 3 is not 300 %.
    assert_eq!(names(&list(&["--where", "score>50%"])), ["a2"]);
    assert_eq!(names(&list(&["--where", "score<2", "--where", "measure=perplexity"])), ["p2"]);
}

#[test]
fn records_are_whole_and_checked() {
    let place = Place::new();
    place.rtc(&["runs", "records", "none"]).code(6).says("there is no such run");
    place.train(&["--run", "a b"]).code(0);
    place.rtc(&["runs", "tag", "a b", "keep"]).code(0);
    let records = place.rtc(&["runs", "records", "a b"]).code(0).json();
    let read = |file: &str| place.read(&format!("runs/a b/{file}"));
    let results: Value = serde_json::from_str(&read("results.json")).expect("JSON");
    for (field, value) in [
        ("run", json!("runs/a b")),
        ("name", json!("a b")),
        ("state", json!("finished")),
        ("tags", json!(["keep"])),
        ("spec", json!(read("spec.rt"))),
        (
            "checkpoints",
            json!({ "best": "runs/a b/checkpoints/best", "last": "runs/a b/checkpoints/last", "kept": [] }),
        ),
    ] {
        assert_eq!(records[field], value, "{field}");
    }
    assert_eq!(records["results"]["splits"], results["splits"]);
    assert_eq!(records["experiment"]["optimiser"]["learning_rate"], 0.003);
    assert_eq!(records["info"]["seed"], 1);
    // Every line of the metrics, in their order.
    for (kind, field) in [("step", "updates"), ("evaluation", "evaluations")] {
        let lines = read("metrics.jsonl");
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let mut lines: Vec<Value> = lines.filter(|line| line["kind"] == kind).collect();
        lines.iter_mut().filter_map(Value::as_object_mut).for_each(|line| {
            line.retain(|name, _| !["kind", "check"].contains(&name.as_str()));
        });
        assert!(!lines.is_empty());
        assert_eq!(records[field], json!(lines), "{field}");
    }

    // A grid is the same with and without its experiment, and so is half of one.
    let experiment =
        place.read("tiny.yaml") + "compare: [tiny, \"tiny:no_gate\"]\nseeds: [1, 2]\nbaseline: \"tiny:no_gate\"\n";
    place.write("pair.yaml", &experiment);
    let grid = place.rtc(&["ablate", "pair.yaml", "--json"]).code(0).json();
    assert_eq!(grid["grid"], "runs/pair");
    assert_eq!(place.rtc(&["runs", "records", "pair"]).code(0).json(), grid);
    fs::remove_dir_all(place.path("runs/pair/tiny.no_gate/seed2")).expect("a run");
    fs::remove_file(place.path("runs/pair/tiny/seed2/results.json")).expect("the results");
    let half = place.rtc(&["runs", "records", "runs/pair"]).code(0).json();
    assert_eq!(half, place.rtc(&["ablate", "pair.yaml", "--table", "--json"]).code(0).json());
    assert_eq!(half["models"][1]["cells"][1]["state"], "absent");

    // A changed digit.
    let metrics = read("metrics.jsonl").replacen("\"update\":3,", "\"update\":4,", 1);
    place.write("runs/a b/metrics.jsonl", &metrics);
    place.rtc(&["runs", "records", "a b"]).code(7).says("metrics.jsonl");
}

#[test]
fn a_list_says_what_runs_there_are() {
    let place = Place::new();
    place.rtc(&["runs"]).code(0).says("there is no run below `runs`");
    assert_eq!(place.rtc(&["runs", "--json"]).code(0).json(), json!({ "runs": [] }));
    place.train(&["--run", "a b", "--seed", "3"]).code(0);
    place.train(&["--run", "halved", "--with", "max_steps=20", "--with", "optimiser.learning_rate=0.001"]).code(0);
    fs::remove_file(place.path("runs/halved/results.json")).expect("the results");
    let mut running = place.start(&["--run", "long", "--with", "epochs=100000", "--seed", "2"]);
    while !place.path("runs/long/checkpoints/last").exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    for (run, seconds) in [("a b", 3 * 86400), ("halved", 7200)] {
        begun(&place, run, seconds);
    }

    let list = place.rtc(&["runs", "--json"]).code(0).json();
    assert_eq!(names(&list), ["a b", "halved", "long"]);
    let whole = entry(&list, "a b");
    let results: Value = serde_json::from_str(&place.read("runs/a b/results.json")).expect("JSON");
    for (field, value) in [
        ("model", json!("tiny")),
        ("experiment", json!("tiny")),
        ("task", json!("listops")),
        ("seed", json!(3)),
        ("state", json!("finished")),
        ("updates", json!(40)),
        ("total", json!(40)),
        ("score", results["splits"][0]["accuracy"].clone()),
        ("measure", json!("accuracy")),
        ("split", json!("test")),
        ("tags", json!([])),
        ("folder", json!("runs/a b")),
    ] {
        assert_eq!(whole[field], value, "{field}");
    }
    assert!((3 * 86400..3 * 86400 + 600).contains(&whole["age"].as_u64().expect("seconds")));
    let bytes = place.shell("find 'runs/a b' -type f -printf '%s\\n' | awk '{ all += $1 } END { print all }'");
    assert_eq!(whole["size"].to_string(), bytes.stdout.trim());
    let halved = entry(&list, "halved");
    assert_eq!(
        (&halved["state"], &halved["updates"], &halved["split"]),
        (&json!("stopped"), &json!(20), &json!("dev"))
    );
    let last = place.read("runs/halved/metrics.jsonl");
    let last = last.lines().rfind(|line| line.contains(r#""split":"dev""#)).expect("dev was measured");
    assert_eq!(halved["score"], serde_json::from_str::<Value>(last).expect("JSON")["accuracy"]);
    assert_eq!(entry(&list, "long")["state"], "running");

    // The table: numbers for people, and the messages apart.
    let table = place.rtc(&["runs"]).code(0).stdout.clone();
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("name    model  experiment  seed  state     updates"), "{table}");
    assert!(
        lines[1].starts_with("a b     tiny   tiny        3     finished  40/40 ") && lines[1].contains(" % "),
        "{table}"
    );
    assert!(lines[1].contains("  3 d  ") && lines[2].contains("  2 h  ") && lines[3].contains("running"), "{table}");

    // Order, conditions, columns.
    let ordered = |args: &[&str]| {
        let list = place.rtc(&[&["runs", "--json"], args].concat()).code(0).json();
        names(&list).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(ordered(&["--sort", "-age"]), ["a b", "halved", "long"]);
    assert_eq!(ordered(&["--sort", "state,-seed"]), ["a b", "long", "halved"]);
    assert_eq!(ordered(&["--sort", "-seed"]), ["a b", "long", "halved"]);
    assert_eq!(ordered(&["--where", "state=finished"]), ["a b"]);
    assert_eq!(ordered(&["--where", "state!=finished", "--where", "age<90min"]), ["long"]);
    assert_eq!(ordered(&["--where", "optimiser.learning_rate<=0.001"]), ["halved"]);
    assert_eq!(ordered(&["--where", "optimiser.learning_rate=3e-3"]), ["a b", "long"]);
    assert_eq!(ordered(&["--where", "task.options.depth=4", "--where", "name~a"]), ["a b", "halved"]);
    assert_eq!(
        ordered(&["--where", "task.sizes.train>159", "--where", "size>1KB", "--where", "size<1GB", "halved"]),
        ["halved"]
    );
    assert_eq!(ordered(&["--where", "score>=0%", "--where", "score<=1", "--where", "updates>39", "a b"]), ["a b"]);
    assert_eq!(
        ordered(&["--where", "evaluate=test", "@last"]),
        ["long"],
        "one of a list, of the run that was begun last"
    );
    let csv = place.rtc(&["runs", "--columns", "name,seed,batch.size,note", "--format", "csv"]).code(0).stdout.clone();
    assert_eq!(csv, "name,seed,batch.size,note\na b,3,16,\nhalved,1,16,\nlong,2,16,\n");
    let markdown = place
        .rtc(&["runs", "--columns", "name,state", "--format", "markdown", "a b", "runs/halved"])
        .code(0)
        .stdout
        .clone();
    assert_eq!(markdown, "| name | state |\n| --- | --- |\n| a b | finished |\n| halved | stopped |\n");

    // What is no field, no condition, no folder.
    place.rtc(&["runs", "--sort", "models"]).code(2).says("no run has a field `models`; did you mean `model`?");
    place.rtc(&["runs", "--where", "optimiser.learning_rat=1"]).code(2).says("did you mean `optimiser.learning_rate`");
    place.rtc(&["runs", "--where", "finished"]).code(2).says("a condition is wanted");
    place.rtc(&["runs", "--where", "age<soon"]).code(2).says("a time as in");
    place.rtc(&["runs", "--where", "model>gut"]).code(2).says("`gut` is no number");
    place.rtc(&["runs", "nowhere"]).code(6).says("nowhere");
    fs::create_dir_all(place.path("empty/inside")).expect("a new folder");
    place.rtc(&["runs", "empty"]).code(6).says("there is no run in this folder or below it");

    signal(&running, libc::SIGTERM);
    assert_eq!(running.wait().expect("it ends").code(), Some(75));
    assert_eq!(entry(&place.rtc(&["runs", "--json"]).code(0).json(), "long")["state"], "stopped");
}

#[test]
fn a_damaged_run_is_a_row_and_links_are_not_followed() {
    let place = Place::new();
    place.train(&["--run", "whole", "--with", "max_steps=5"]).code(0);
    let copy = |name: &str| assert!(place.shell(&format!("cp -a runs/whole 'runs/{name}'")).status() == Some(0));
    let cases: [(&str, &str); 8] = [
        ("run.json", "does not end with its `sha256`"),
        ("results.json", "does not end with its `sha256`"),
        ("labels.json", "does not end with its `sha256`"),
        ("metrics.jsonl", "has a line without its `check`"),
        ("timing.jsonl", "has a line without its `check`"),
        ("experiment.yaml", "was changed after the training began"),
        ("results.json of another", "belongs to another run"),
        ("labels.json of another", "belongs to another run"),
    ];
    place.train(&["--run", "other", "--with", "max_steps=5", "--seed", "2"]).code(0);
    for (case, _) in cases {
        let run = format!("bad {case}");
        copy(&run);
        let (file, text) = match case.strip_suffix(" of another") {
            Some(file) => (file, place.read(&format!("runs/other/{file}"))),
            None => (case, "{}\n".to_owned()),
        };
        place.write(&format!("runs/{run}/{file}"), &text);
    }
    // A digit in the last line of the metrics.
    copy("digit");
    let metrics = place.read("runs/digit/metrics.jsonl");
    let at = metrics.rfind("\"loss\":").expect("a loss") + 9;
    let digit = if metrics.as_bytes()[at] == b'1' { "2" } else { "1" };
    place.write("runs/digit/metrics.jsonl", &format!("{}{digit}{}", &metrics[..at], &metrics[at + 1..]));
    // What is missing: only the file without which there is no run.
    copy("no run");
    fs::remove_file(place.path("runs/no run/run.json")).expect("it was there");
    copy("no timing");
    fs::remove_file(place.path("runs/no timing/timing.jsonl")).expect("it was there");
    // Links: to a run, in a circle, and to nothing.
    symlink("whole", place.path("runs/link")).expect("a link");
    symlink("..", place.path("runs/circle")).expect("a link");
    symlink("nowhere", place.path("runs/dangling")).expect("a link");
    place.write("runs/a file", "");

    let answer = place.rtc(&["runs", "--json"]);
    let list = answer.code(0).json();
    let mut expected: Vec<String> = cases.iter().map(|(case, _)| format!("bad {case}")).collect();
    expected.extend(["digit", "no timing", "other", "whole"].map(str::to_owned));
    expected.sort_unstable();
    assert_eq!(names(&list), expected);
    for (case, why) in cases {
        let run = entry(&list, &format!("bad {case}"));
        assert_eq!(run["state"], "damaged", "{case}");
        assert!(run["why"].as_str().is_some_and(|told| told.contains(why)), "{case}: {run}");
        answer.says(&format!("{case} is damaged: "));
    }
    assert!(entry(&list, "digit")["why"].as_str().is_some_and(|why| why.contains("metrics.jsonl was changed")));
    let untimed = entry(&list, "no timing");
    assert_eq!(
        (&untimed["state"], &untimed["updates"], &untimed["total"]),
        (&json!("finished"), &json!(5), &Value::Null)
    );
    assert!(entry(&list, "bad run.json")["model"].is_null() && entry(&list, "bad run.json")["size"].as_u64() > Some(0));
    // Without an experiment being asked for none is read; the others are damaged in any list.
    let table = place.rtc(&["runs", "--columns", "name,state", "--format", "csv"]).code(0).stdout.clone();
    assert!(
        table.contains("bad experiment.yaml,finished\n") && table.contains("bad results.json,damaged\n"),
        "{table}"
    );
    assert_eq!(place.rtc(&["-q", "runs"]).code(0).stderr, "");
    // The texts of others move no cursor.
    place.edit("runs/whole/labels.json", |labels| labels["note"] = "a\u{1b}[2Jb\nc".into());
    let shown = place.rtc(&["runs", "whole", "--columns", "note"]).code(0).stdout.clone();
    assert_eq!(shown, "note\na [2Jb c\n");
    assert!(place.rtc(&["verify", "bad labels.json of another"]).code(7).stdout.contains("BAD  labels.json: "));
    assert!(place.rtc(&["verify", "whole"]).code(0).stdout.contains("ok   labels.json\n"));
}

#[test]
fn tags_and_notes_change_nothing_else() {
    let place = Place::new();
    place.train(&["--run", "r", "--with", "max_steps=5"]).code(0);
    let before = place.contents("r");
    place.rtc(&["runs", "tag", "r", "good", "keep", "good"]).code(0).says("r: tags: good, keep\n");
    place.rtc(&["runs", "tag", "@last", "keep"]).code(0).says("tags: good, keep\n");
    place
        .rtc(&["runs", "note", "runs/r", " norm before, with 5 updates\n"])
        .code(0)
        .says("note: norm before, with 5 updates\n");
    place.rtc(&["runs", "tag", "r", "two words"]).code(2).says("a tag is a word");
    place.rtc(&["runs", "tag", "r", "a,b"]).code(2);
    place.rtc(&["runs", "tag", "r", ""]).code(2);
    place.rtc(&["runs", "tag", "r"]).code(2);
    place.rtc(&["runs", "untag", "r", "keep", "bad"]).code(2).says("no tag `bad`; it has good, keep");
    let run = place.rtc(&["runs", "--json", "--where", "tags=keep"]).code(0).json();
    let run = entry(&run, "r");
    assert_eq!((&run["tags"], &run["note"]), (&json!(["good", "keep"]), &json!("norm before, with 5 updates")));
    assert!(names(&place.rtc(&["runs", "--json", "--where", "tags=kee"]).code(0).json()).is_empty());
    assert!(
        place.rtc(&["runs"]).code(0).stdout.lines().all(|line| line.ends_with("tags") || line.ends_with("good,keep"))
    );
    place.rtc(&["verify", "r", "--again"]).code(0);
    place.rtc(&["runs", "untag", "r", "good", "keep"]).code(0).says("tags: none");
    place.rtc(&["runs", "note", "r", ""]).code(0).is_quiet_about("note:");
    assert_eq!(place.contents("r"), before);
    // The run is found, and is the same one, whatever is said of it.
    place.train(&["--run", "r", "--with", "max_steps=5"]).code(0).says("is finished");
    // Damaged labels are refused, with the cure; a file with no checksum is none.
    place.write("runs/r/labels.json", "{ \"tags\": [\"x\"] }\n");
    place.rtc(&["runs", "tag", "r", "y"]).code(7).says("labels.json").says("without it the run has no tags");
    place.rtc(&["eval", "r"]).code(0);
    fs::remove_file(place.path("runs/r/labels.json")).expect("it was there");
    place.rtc(&["runs", "tag", "r", "y"]).code(0).says("tags: y");
    for edit in [
        &["runs", "tag", "none", "x"][..],
        &["runs", "note", "none", "x"],
        &["runs", "rename", "none", "x"],
        &["runs", "remove", "none"],
    ] {
        place.rtc(edit).code(6).says("there is no such run");
    }
}

#[test]
fn a_renamed_run_is_gone_on_with() {
    let place = Place::new();
    let edits = ["--with", "epochs=60"];
    place.train(&[&["--run", "straight"], &edits[..]].concat()).code(0);
    // Stopped in the middle, renamed, and gone on with by the command that began it.
    let mut running = place.start(&edits);
    let list = || place.rtc(&["runs", "--json", "--where", "name!=straight", "--where", "updates>2"]);
    while names(&list().code(0).json()).is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let named = names(&list().json())[0].to_owned();
    place.rtc(&["runs", "rename", &named, "better"]).code(6).says("another process is training in this folder");
    place.rtc(&["runs", "remove", &named, "--yes"]).code(6).says("another process is training in this folder");
    signal(&running, libc::SIGTERM);
    let stopped = running.wait().expect("it ends").code();
    assert!(stopped == Some(75) || stopped == Some(0), "{stopped:?}");
    assert_eq!(place.rtc(&["runs", "rename", &named, "better"]).code(0).stdout, "runs/better\n");
    place.rtc(&["runs", "rename", "better", "best of all"]).code(0);
    let answer = place.train(&edits);
    answer.code(0).says("runs/best of all");
    assert!(!place.path("runs").join(&named).exists());
    assert_eq!(place.contents("best of all"), place.contents("straight"));
    place.train(&edits).code(0).says("runs/best of all is finished");
    // Another run of that name is another run.
    place.train(&["--run", "better", "--with", "max_steps=2"]).code(0);
    // Back to its first name it was never renamed.
    place.rtc(&["runs", "rename", "best of all", &named]).code(0);
    assert!(!place.read(&format!("runs/{named}/labels.json")).contains("\"was\""));
    place.train(&edits).code(0).says(&format!("runs/{named} is finished"));
    // A run that is begun anew takes no renamed one for itself.
    place.rtc(&["runs", "rename", &named, "old"]).code(0);
    place.train(&[&["--fresh", "--json"], &edits[..]].concat()).code(0);
    assert!(place.path("runs").join(&named).exists() && place.path("runs/old").exists());
    // Labels that can't be read are said, and stop no training.
    place.write("runs/old/labels.json", "{}\n");
    fs::rename(place.path("runs").join(&named), place.path("elsewhere")).expect("it can be moved");
    place.train(&edits).code(0).says("whether it is this run under another name is not known");

    for (new, why) in [
        ("straight", "there is a runs/straight already"),
        ("../x", "is no name"),
        ("a/b", "is no name"),
        ("", "is no name"),
        ("@last", "is no name"),
        (".", "is no name"),
    ] {
        place.rtc(&["runs", "rename", "better", new]).code(2).says(why);
    }
    symlink("better", place.path("runs/link")).expect("a link");
    for edit in [&["runs", "rename", "link", "x"][..], &["runs", "remove", "link", "--yes"]] {
        place.rtc(edit).code(2).says("runs/link is a link");
    }
    assert!(place.path("runs/better/run.json").exists());
}

#[test]
fn cells_are_listed_and_keep_their_names() {
    let place = Place::new();
    let experiment = place.read("tiny.yaml").replace("epochs: 4", "max_steps: 2");
    place.write("grid.yaml", &format!("{experiment}compare: [tiny.rt, \"tiny.rt:no_gate\"]\n"));
    place.rtc(&["train", "tiny.rt", "--experiment", "grid.yaml", "--run", "alone", "--threads", "1"]).code(0);
    place.rtc(&["ablate", "grid.yaml", "--jobs", "1"]).code(0);
    let list = place.rtc(&["runs", "--json"]).code(0).json();
    let cell = names(&list)[1].to_owned();
    assert_eq!(names(&list).len(), 2, "the first row has its run already: {list}");
    assert!(cell.starts_with("grid/") && cell.ends_with("/seed1"), "{cell}");
    assert_eq!(
        (&entry(&list, &cell)["experiment"], &entry(&list, &cell)["model"]),
        (&json!("grid"), &json!("tiny:no_gate"))
    );
    assert_eq!(names(&place.rtc(&["runs", "--json", "grid"]).code(0).json()), [&cell]);
    // The grid lists both, the one that lies beside it, too.
    for run in [&cell, "alone"] {
        place.rtc(&["runs", "rename", run, "x"]).code(2).says("is a cell of the grid").says("runs/grid");
    }
    place.rtc(&["eval", &cell]).code(0);
    place.rtc(&["runs", "remove", &cell, "--yes"]).code(0).says("which would train it again");
    assert_eq!(names(&place.rtc(&["runs", "--json"]).code(0).json()), ["alone"]);
    place.rtc(&["ablate", "grid.yaml", "--jobs", "1"]).code(0);
    assert_eq!(names(&place.rtc(&["runs", "--json"]).code(0).json()), ["alone", &cell]);
}

#[test]
fn runs_are_removed_when_that_is_said() {
    let place = Place::new();
    for name in ["a", "b c", "kept"] {
        place.train(&["--run", name, "--with", "max_steps=2"]).code(0);
    }
    symlink(place.path("tiny.rt"), place.path("runs/a/link")).expect("a link");
    symlink(place.path("runs/kept"), place.path("runs/a/folder")).expect("a link");
    let answer = place.rtc(&["runs", "remove", "a", "b c", "runs/a"]);
    answer.code(2).says("nothing was removed: `--yes` removes these runs");
    let lines: Vec<&str> = answer.stdout.lines().collect();
    assert!(
        lines.len() == 3
            && lines[0].starts_with("runs/a ")
            && lines[1].starts_with("runs/b c ")
            && lines[2].starts_with("2 runs "),
        "{lines:?}"
    );
    assert!(lines.iter().all(|line| line.ends_with("iB")), "{lines:?}");
    place.rtc(&["runs", "remove", "a", "none", "--yes"]).code(6);
    assert_eq!(names(&place.rtc(&["runs", "--json"]).code(0).json()), ["a", "b c", "kept"]);
    assert_eq!(place.rtc(&["runs", "remove", "a", "b c", "--yes", "--all-files"]).code(0).stdout, answer.stdout);
    assert!(!place.path("runs/a").exists() && !place.path("runs/b c").exists());
    // What links led to is still there, and so is the other run.
    assert!(place.path("tiny.rt").exists());
    place.rtc(&["verify", "kept"]).code(0);
    // What can't be read as a run is not removed, for it may be something else; nor is a folder that is none.
    place.write("runs/kept/run.json", "{}");
    place.rtc(&["runs", "remove", "kept", "--yes"]).code(7).says("run.json");
    assert!(place.path("runs/kept/spec.rt").exists());
    fs::create_dir(place.path("runs/mine")).expect("a new folder");
    place.write("runs/mine/file", "");
    place.rtc(&["runs", "remove", "mine", "--yes"]).code(6).says("there is no run in this folder");
    assert!(place.path("runs/mine/file").exists());
}

#[test]
fn two_runs_are_compared() {
    let place = Place::new();
    place.train(&["--run", "a", "--with", "max_steps=5"]).code(0);
    let edits = ["--with", "max_steps=7", "--with", "task.sizes.train=96", "--set", "gate none", "--seed", "2"];
    place.train(&[&["--run", "b"], &edits[..]].concat()).code(0);
    let text = place.rtc(&["diff", "a", "runs/b"]).code(0).stdout.clone();
    let lines: Vec<String> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for wanted in [
        "- runs/a: tiny",
        "+ runs/b: tiny",
        "depthwise.gate mlp none",
        "depthwise.gate.hidden 16 -",
        "max_steps 5 7",
        "task.sizes.train 160 96",
        "seed 1 2",
        "program: equal",
        "split measure - + difference",
    ] {
        assert!(lines.iter().any(|line| line == wanted), "`{wanted}` is not in\n{text}");
    }
    assert!(text.contains("\ngraph\ndepthwise.gate  [") && text.contains("\nparameters  "), "{text}");
    assert!(
        lines.iter().any(|line| line.starts_with("train 160 examples, ") && line.contains(" 96 examples, ")),
        "{text}"
    );
    let json = place.rtc(&["diff", "a", "b", "--json"]).code(0).json();
    let of = |run: &str| serde_json::from_str::<Value>(&place.read(&format!("runs/{run}/results.json"))).expect("JSON");
    let [left, right] = ["a", "b"].map(|run| of(run)["splits"][0]["accuracy"].as_f64().expect("a number"));
    let accuracy = json["results"]
        .as_array()
        .and_then(|all| all.iter().find(|one| one["split"] == "test" && one["measure"] == "accuracy"));
    let accuracy = accuracy.expect("it was measured");
    assert_eq!(
        (accuracy["left"].as_f64(), accuracy["right"].as_f64(), accuracy["difference"].as_f64()),
        (Some(left), Some(right), Some(right - left))
    );
    assert_eq!(json["graph"]["equal"], false);
    assert_eq!(json["data"]["splits"].as_array().map(Vec::len), Some(3));
    assert_eq!(json["data"]["splits"][2]["examples"], json!([160, 96]));

    // A run and itself; one that is not finished; one of another program.
    let same = place.rtc(&["diff", "a", "@last"]).code(0).stdout.clone();
    assert_ne!(same, place.rtc(&["diff", "a", "a"]).code(0).stdout, "the last one is b");
    let same = place.rtc(&["diff", "a", "a"]).code(0).stdout.clone();
    for part in ["spec: equal", "the graphs are equal", "experiment: equal", "data: equal", "program: equal", "+0.0"] {
        assert!(same.contains(part), "{part}: {same}");
    }
    fs::remove_file(place.path("runs/b/results.json")).expect("it was there");
    place.edit("runs/b/run.json", |info| info["versions"]["rtc"] = "0.0.1".into());
    let text = place.rtc(&["diff", "a", "b"]).code(0).stdout.clone();
    assert!(
        text.contains("runs/b is not finished: it has no results") && text.contains("  rtc  0.1.0  0.0.1"),
        "{text}"
    );

    // A run and a spec; specs of the same name as a run; options of specs.
    place.rtc(&["diff", "a", "tiny.rt"]).code(2).says("`a` is a run and `tiny.rt` is none");
    place.rtc(&["diff", "nothing", "b"]).code(2).says("`b` is a run and `nothing` is none");
    place.rtc(&["diff", "runs/a/spec.rt", "tiny.rt"]).code(0);
    place.rtc(&["diff", "a", "b", "--only", "gate"]).code(2).says("`--only` is for specs");
    place.train(&["--run", "gut", "--with", "max_steps=1"]).code(0);
    assert!(
        place
            .rtc(&["diff", "gut", "gut:no_gate", "--only", "gate"])
            .code(0)
            .stdout
            .starts_with("- gut\n+ gut:no_gate\n")
    );
    place.rtc(&["diff", "runs/gut", "a"]).code(0);
    place.write("runs/a/experiment.yaml", "task: {}\n");
    place.rtc(&["diff", "a", "b"]).code(7).says("experiment.yaml");
}

#[test]
fn the_last_run_is_named_by_a_word() {
    let place = Place::new();
    place.rtc(&["eval", "@last"]).code(6).says("there is no run below `runs`");
    for (name, seconds) in [("old", 500), ("in/between", 20), ("older", 900)] {
        place.train(&["--run", name, "--with", "max_steps=2"]).code(0);
        begun(&place, name, seconds);
    }
    // What is done with a run later makes it no younger.
    place.train(&["--run", "older", "--with", "max_steps=2"]).code(0);
    place.rtc(&["runs", "tag", "older", "x"]).code(0);
    assert_eq!(names(&place.rtc(&["runs", "@last", "--json"]).code(0).json()), ["in/between"]);
    assert_eq!(
        place.rtc(&["eval", "@last", "--json"]).code(0).json(),
        place.rtc(&["eval", "in/between", "--json"]).code(0).json()
    );
    place.rtc(&["predict", "@last", "[MAX 2 9 ]"]).code(0);
    assert!(place.rtc(&["verify", "@last"]).code(0).stdout.starts_with("runs/in/between\n"));
    assert_eq!(place.rtc(&["report", "@last", "--examples", "0"]).code(0).stdout, "runs/in/between/report.html\n");
    place.rtc(&["export", "@last", "--format", "torch", "--output", "exported"]).code(0);
    let found = |line: &str| {
        let words: Vec<&str> = [&["complete", "--"], &line.split('|').collect::<Vec<_>>()[..]].concat();
        let answer = place.rtc(&words).code(0).stdout.clone();
        answer.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found("rtc|eval|@"), ["@last"]);
    assert_eq!(found("rtc|eval|ol"), ["old", "older"]);
    for edit in ["tag", "records"] {
        assert_eq!(found(&format!("rtc|runs|{edit}|in/b")), ["in/between"]);
    }
    assert_eq!(found("rtc|runs|re"), ["records", "remove", "rename", "restore"]);
    assert_eq!(found("rtc|diff|old|@l"), ["@last"]);
    assert_eq!(found("rtc|runs|--sort|sc"), ["score"]);
}

#[test]
fn two_thousand_runs_are_listed() {
    let place = Place::new();
    place.train(&["--run", "template", "--with", "max_steps=1"]).code(0);
    let experiment = place.read("runs/template/experiment.yaml");
    fs::remove_dir_all(place.path("runs/template")).expect("removable");
    for n in 0..2000_usize {
        write(&place, &format!("group{}/run{n:04}", n % 20), n, &experiment, !n.is_multiple_of(4));
    }
    let list = place.rtc(&["runs", "--json"]).code(0).json();
    assert_eq!(list["runs"].as_array().map(Vec::len), Some(2000));
    for n in 0..2000_usize {
        let run = entry(&list, &format!("group{}/run{n:04}", n % 20));
        let finished = !n.is_multiple_of(4);
        assert_eq!(run["model"], format!("made{}", n % 7), "{run}");
        assert_eq!(
            (&run["seed"], &run["parameters"], &run["total"]),
            (&json!(n), &json!(1000 + n), &json!(4000)),
            "{run}"
        );
        assert_eq!(run["updates"], 4000 - n % 50, "{run}");
        assert_eq!(run["state"], if finished { "finished" } else { "stopped" }, "{run}");
        assert_eq!(run["score"], if finished { json!(n as f64 / 4000.0) } else { Value::Null }, "{run}");
    }
    let best = place.rtc(&["runs", "--where", "score>49.9%", "--sort", "-score", "--columns", "name"]);
    assert_eq!(best.code(0).stdout, "name\ngroup19/run1999\ngroup18/run1998\ngroup17/run1997\n");
    best.says("3 of 2,000 runs");
}
