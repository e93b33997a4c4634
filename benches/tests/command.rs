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
    assert!(text.lines().next().is_some_and(|line| line.contains("vectors widest")), "{text}");
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
fn the_run_time_table_compares_policies() {
    let folder = tempfile::tempdir().expect("there is a temporary folder");
    let json = folder.path().join("table.json");
    let done = bench(&["--runtime-table", "--quick", "--threads", "1", "--json", &json.to_string_lossy()]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(["compact", "batch", "never", "no_halt"].iter().all(|policy| text.contains(policy)), "{text}");
    let tables = std::fs::read_to_string(json).expect("the table is there");
    let tables: serde_json::Value = serde_json::from_str(&tables).expect("the table is JSON");
    let lines = tables[0]["lines"].as_array().expect("there are lines");
    let counted = |bound: u64, policy: &str| {
        let line = lines.iter().find(|line| line["bound"] == bound && line["policy"] == policy);
        line.and_then(|line| line["gflop"].as_f64()).expect("every bound has every policy")
    };
    assert!(counted(2, "compact") <= counted(2, "batch") && counted(2, "batch") <= counted(2, "never"));
    assert!(counted(4, "never") > 1.5 * counted(2, "never"));
    assert!(tables[0]["difference"].as_f64().is_some_and(|difference| difference < 1e-5), "{tables}");
}

#[test]
fn the_lengths_table_has_every_model() {
    let folder = tempfile::tempdir().expect("there is a temporary folder");
    let json = folder.path().join("table.json");
    let done = bench(&["--lengths-table", "--quick", "--threads", "1", "--json", &json.to_string_lossy()]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(text.contains("training step") && text.contains("forward pass"), "{text}");
    let tables = std::fs::read_to_string(json).expect("the table is there");
    let tables: serde_json::Value = serde_json::from_str(&tables).expect("the table is JSON");
    let lines = tables[0]["lines"].as_array().expect("there are lines");
    for model in ["rnn_grc", "mega", "ordered_memory", "crvnn", "bt_grc:one_soft", "ebt_grc", "rir_ebt_grc"] {
        let line = lines.iter().find(|line| line["model"] == model).expect(model);
        let positive = |of: &serde_json::Value| of.as_f64().is_some_and(|number| number > 0.0);
        assert!(positive(&line["rtc"]["train_ms"][0]) && positive(&line["rtc"]["infer_ms"][0]), "{line}");
        assert!(positive(&line["estimate_mib"]) && line["pytorch"].is_null(), "{line}");
        assert!(line["length"].as_f64().is_some_and(|length| (20.0..=40.0).contains(&length)), "{line}");
    }
}

#[test]
fn the_products_table_has_rates() {
    let folder = tempfile::tempdir().expect("there is a temporary folder");
    let json = folder.path().join("table.json");
    for precision in ["f32", "bf16"] {
        let file = json.to_string_lossy();
        let done =
            bench(&["--products-table", "--quick", "--threads", "1,2", "--precision", precision, "--json", &file]);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(text.contains(&format!("products in {precision}")) && text.contains("weight rtc"), "{text}");
        let tables = std::fs::read_to_string(&json).expect("the table is there");
        let tables: serde_json::Value = serde_json::from_str(&tables).expect("the table is JSON");
        for (table, threads) in [(0, 1), (1, 2)] {
            let (table, positive) = (&tables[table], |rate: &serde_json::Value| rate.as_f64().is_some_and(|r| r > 0.0));
            assert_eq!(table["threads"], threads);
            let line = &table["lines"][0];
            assert!((0..3).all(|n| positive(&line["rtc"][n])), "{line}");
            assert_eq!((0..3).all(|n| positive(&line["gemm"][n])), precision == "f32", "{line}");
        }
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
    // A table that is measured in one precision alone says so.
    assert_eq!(bench(&["--lengths-table", "--quick", "--precision", "bf16"]).status.code(), Some(2));
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
