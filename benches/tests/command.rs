//! The command without the peer: a smoke run of rtc's side, and its exit codes.

use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rtc-bench")).args(args).output().expect("the command can be started")
}

#[test]
fn a_smoke_run_prints_times() {
    let folder = tempfile::tempdir().expect("there is a temporary folder");
    let json = folder.path().join("report.json");
    let done = bench(&["--quick", "--threads", "1,2", "--json", &json.to_string_lossy()]);
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(text.contains("Training step") && text.contains("Inference"), "{text}");
    let report = std::fs::read_to_string(json).expect("the report is there");
    let report: serde_json::Value = serde_json::from_str(&report).expect("the report is JSON");
    for (line, threads) in [(0, 1), (1, 2)] {
        let line = &report["lines"][line];
        assert_eq!(line["threads"], threads);
        assert!(line["sides"][0]["train"]["ms"][0].as_f64().is_some_and(|ms| ms > 0.0), "{line}");
        assert!(line["sides"][0]["train"]["gflop"][0].as_f64().is_some_and(|counted| counted > 0.0), "{line}");
    }
}

#[test]
fn what_is_missing_has_a_code() {
    let absent = bench(&["--cases", "gut", "--peers", "no-such-folder"]);
    assert_eq!(absent.status.code(), Some(3));
    let message = String::from_utf8_lossy(&absent.stderr).into_owned();
    assert!(message.contains("no-such-folder") && message.contains("--alone"), "{message}");
    let unknown = bench(&["--cases", "nothing", "--alone"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert_eq!(bench(&["--steps", "0"]).status.code(), Some(2));
}

#[test]
fn the_cases_are_listed() {
    let listed = bench(&["--list"]);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    for case in ["transformer", "gutlb_d64", "ut_d512", "tlb_l1000", "transformer_sdpa", "halting"] {
        assert!(text.lines().any(|line| line.split_whitespace().next() == Some(case)), "{case} in\n{text}");
    }
}
