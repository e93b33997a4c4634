//! Measures in which every class counts alike, against counts that are made of what `rtc predict` says.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::Place;

const SMALL: [&str; 8] =
    ["--set", "embed.width=8", "--set", "self.heads=2", "--set", "feedforward.hidden=8", "--max-steps", "40"];

/// Pairs of what is there and what is said, for every answer.
fn pairs(place: &Place, run: &str, input: &str, several: bool) -> Vec<(String, String)> {
    let said = place.rtc(&["predict", run, "--input", input, "--json"]);
    let mut found = vec![];
    let texts = |value: &Value| match value {
        Value::Array(all) => all.iter().map(|one| one.as_str().expect("a name").to_owned()).collect::<Vec<_>>(),
        one => vec![one.as_str().expect("a name").to_owned()],
    };
    for line in said.code(0).stdout.lines() {
        let row: Value = serde_json::from_str(line).expect("JSON");
        let (there, said) = (texts(&row["label"]), texts(&row[if several { "labels" } else { "class" }]));
        if several {
            // A label that is in both is right; in one alone it is missed, or wrongly found.
            found.extend(
                there
                    .iter()
                    .map(|label| (label.clone(), if said.contains(label) { label.clone() } else { String::new() })),
            );
            found
                .extend(said.iter().filter(|label| !there.contains(label)).map(|label| (String::new(), label.clone())));
        } else {
            assert_eq!(there.len(), said.len());
            found.extend(there.into_iter().zip(said));
        }
    }
    assert!(!found.is_empty());
    found
}

/// Labelled, predicted and right answers of every class.
fn counts(pairs: &[(String, String)]) -> BTreeMap<String, [u64; 3]> {
    let mut found: BTreeMap<String, [u64; 3]> = BTreeMap::new();
    for (there, said) in pairs {
        for (at, name) in [there, said].into_iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            found.entry(name.clone()).or_default()[at] += 1;
        }
        if there == said {
            found.entry(there.clone()).or_default()[2] += 1;
        }
    }
    found
}

#[test]
fn classes_are_counted_as_they_are_predicted() {
    let place = Place::new();
    let kinds = ["good", "good", "good", "bad", "good", "odd"];
    let row = |n: usize| format!("a film {} {}, {}\n", n % 7, ["very", "so"][n % 2], kinds[n * n % 6]);
    place.write("one.csv", &("text,label\n".to_owned() + &(0..90).map(row).collect::<String>().replace(", ", ",")));
    let labels = |n: usize| match n % 4 {
        0 => "[]",
        1 => "[\"rude\"]",
        2 => "[\"rude\", \"threat\"]",
        _ => "[\"odd\"]",
    };
    let row = |n: usize| format!("{{\"text\": \"words {} {}\", \"label\": {}}}\n", n % 5, n % 3, labels(n));
    place.write("several.jsonl", &(0..80).map(row).collect::<String>());
    let row = |n: usize| {
        let kind = |at: usize| ["X", "Y", "X", "Z"][(n + at) % 4];
        format!("{{\"tokens\": [\"a{}\", \"b\", \"c\"], \"tags\": [\"{}\", null, \"{}\"]}}\n", n % 3, kind(0), kind(2))
    };
    place.write("tags.jsonl", &(0..60).map(row).collect::<String>());
    for (file, spec, several) in [
        ("one.csv", "transformer", false),
        ("several.jsonl", "transformer", true),
        ("tags.jsonl", "transformer:causal", false),
    ] {
        let (yaml, run) = (format!("{file}.yaml"), format!("runs/{file}"));
        place.rtc(&["task", "check", file, "--write", &yaml]).code(0);
        let further = match file {
            "one.csv" => "auc, top_1, top_2, calibration_error",
            "several.jsonl" => "auc, exact, calibration_error",
            _ => "exact, edit_distance, top_1, calibration_error",
        };
        let metrics = format!("metrics=[macro_f1, balanced_accuracy, {further}]");
        let args =
            ["train", spec, "--experiment", &yaml, "--run", file, "--with", &metrics, "--with", "choose=macro_f1"];
        let trained = place.rtc(&[&args[..], &SMALL, &["--json"]].concat()).code(0).json();
        let measured = place.rtc(&["eval", &run, "--data", file, "--classes", "--json"]).code(0).json();
        let split = &measured["splits"][0];
        let expected = match file {
            // A label that is `null` is no answer.
            "tags.jsonl" => None,
            _ => Some(counts(&pairs(&place, &run, file, several))),
        };
        let rows = split["classes"].as_array().expect("classes");
        let number = |row: &Value, name: &str| row[name].as_u64().expect("a count");
        if let Some(expected) = &expected {
            assert_eq!(rows.len(), expected.len(), "{split}");
            for row in rows {
                let found = ["labelled", "predicted", "right"].map(|name| number(row, name));
                assert_eq!(found, expected[row["class"].as_str().expect("a name")], "{file}: {row}");
            }
        }
        let mean = |shares: Vec<f64>| shares.iter().sum::<f64>() / shares.len() as f64;
        let f1 = |row: &Value| {
            2.0 * number(row, "right") as f64 / (number(row, "labelled") + number(row, "predicted")) as f64
        };
        let recall = |row: &Value| number(row, "right") as f64 / number(row, "labelled") as f64;
        for (name, value) in [
            ("macro_f1", mean(rows.iter().map(f1).collect())),
            ("balanced_accuracy", mean(rows.iter().map(recall).collect())),
        ] {
            let found = split["metrics"][name].as_f64().expect("a share");
            assert!((found - value).abs() < 1e-12, "{file}: {name} {found} {value}");
            assert!(trained["splits"][0]["metrics"][name].is_number(), "{trained}");
        }
        let right: u64 = rows.iter().map(|row| number(row, "right")).sum();
        let labelled: u64 = rows.iter().map(|row| number(row, "labelled")).sum();
        if !several {
            assert_eq!(labelled, split["scored"].as_u64().expect("a count"));
            assert!((right as f64 / labelled as f64 - split["accuracy"].as_f64().expect("a share")).abs() < 1e-12);
        }
        let table = place.rtc(&["eval", &run, "--data", file, "--classes"]);
        assert!(table.code(0).stdout.contains("precision") && table.stdout.contains("macro f1"), "{}", table.stdout);
        let without = place.rtc(&["eval", &run, "--data", file, "--json"]).code(0).json();
        assert!(without["splits"][0]["classes"].is_null());
    }
    let numbers: String = (0..60).map(|n| format!("word {},{}.5\n", n % 7, n % 11)).collect();
    place.write("numbers.csv", &("text,target\n".to_owned() + &numbers));
    place.rtc(&["task", "check", "numbers.csv", "--write", "numbers.yaml"]).code(0);
    let train = ["train", "transformer", "--experiment", "numbers.yaml", "--run", "numbers"];
    place
        .rtc(&[&train[..], &SMALL, &["--with", "metrics=[macro_f1]"]].concat())
        .code(2)
        .says("needs classes or labels");
    place.rtc(&[&train[..], &SMALL].concat()).code(0);
    place.rtc(&["eval", "runs/numbers", "--classes"]).code(2).says("the answers of this model are numbers");
    place.rtc(&[&train[..], &["--with", "metrics=[macro_f2]"]].concat()).code(2).says("macro_f1");
}

/// Probabilities of all classes of every row, with the class that is there.
fn probabilities(place: &Place, run: &str, input: &str) -> Vec<(BTreeMap<String, f64>, String)> {
    let said = place.rtc(&["predict", run, "--input", input, "--json", "--probabilities"]);
    let row = |line: &str| {
        let row: Value = serde_json::from_str(line).expect("JSON");
        let all: BTreeMap<String, f64> = serde_json::from_value(row["probabilities"].clone()).expect("probabilities");
        (all, row["label"].as_str().expect("a label").to_owned())
    };
    said.code(0).stdout.lines().map(row).collect()
}

#[test]
fn metrics_of_probabilities_are_those_of_predictions() {
    let place = Place::new();
    let kinds = ["good", "good", "bad", "odd", "good", "odd", "bad"];
    let row = |n: usize| format!("a film {} {},{}\n", n % 7, ["very", "so"][n % 2], kinds[n * n % 7]);
    place.write("one.csv", &("text,label\n".to_owned() + &(0..105).map(row).collect::<String>()));
    place.rtc(&["task", "check", "one.csv", "--write", "one.yaml"]).code(0);
    let metrics = "metrics=[auc, top_1, top_2, calibration_error]";
    let args = ["train", "transformer", "--experiment", "one.yaml", "--run", "one", "--with", metrics];
    place.rtc(&[&args[..], &SMALL].concat()).code(0);
    let measured = place.rtc(&["eval", "runs/one", "--data", "one.csv", "--json"]).code(0).json();
    let split = &measured["splits"][0];
    let rows = probabilities(&place, "runs/one", "one.csv");
    let areas = rows[0].0.keys().map(|class| {
        let (own, others): (Vec<_>, Vec<_>) = rows.iter().partition(|(_, label)| label == class);
        let pairs = own.iter().flat_map(|own| others.iter().map(|other| own.0[class] - other.0[class]));
        let wins = pairs.map(|gap| if gap == 0.0 { 0.5 } else { f64::from(u8::from(gap > 0.0)) });
        wins.sum::<f64>() / (own.len() * others.len()) as f64
    });
    let areas: Vec<f64> = areas.collect();
    let auc = areas.iter().sum::<f64>() / areas.len() as f64;
    assert!((split["metrics"]["auc"].as_f64().expect("a share") - auc).abs() < 1e-3, "{split} {auc}");
    assert_eq!(split["metrics"]["top_1"], split["accuracy"]);
    let second =
        |(all, label): &&(BTreeMap<String, f64>, String)| all.values().filter(|p| **p > all[label]).count() < 2;
    let top = rows.iter().filter(second).count() as f64 / rows.len() as f64;
    assert!((split["metrics"]["top_2"].as_f64().expect("a share") - top).abs() < 1e-12, "{split} {top}");
    let mut bins = [(0.0, 0.0); 15];
    for (all, label) in &rows {
        let (class, confidence) = all.iter().max_by(|a, b| a.1.total_cmp(b.1)).expect("a class");
        let bin = &mut bins[((confidence * 15.0) as usize).min(14)];
        *bin = (bin.0 + confidence, bin.1 + f64::from(u8::from(class == label)));
    }
    let error = bins.iter().map(|(sure, right)| (sure - right).abs()).sum::<f64>() / rows.len() as f64;
    assert!(
        (split["numbers"]["calibration_error"].as_f64().expect("an error") - error).abs() < 1e-3,
        "{split} {error}"
    );
    place.rtc(&["verify", "runs/one", "--again"]).code(0);
}

#[test]
fn the_metric_that_decides_is_named_and_checked() {
    let place = Place::new();
    let row = |n: usize| format!("a film {} {},{}\n", n % 7, ["very", "so"][n % 2], ["good", "bad"][n % 3 % 2]);
    place.write("one.csv", &("text,label\n".to_owned() + &(0..90).map(row).collect::<String>()));
    place.rtc(&["task", "check", "one.csv", "--write", "one.yaml"]).code(0);
    let train = |run: &str, choose: &str| {
        let choose = format!("choose={choose}");
        let args = ["train", "transformer", "--experiment", "one.yaml", "--run", run, "--with", &choose];
        place.rtc(&[&args[..], &["--with", "evaluate_every=10"], &SMALL].concat())
    };
    for (name, less) in [("macro_f1", false), ("auc", false), ("calibration_error", true), ("accuracy", false)] {
        train(name, name).code(0).says(&format!("best {} on dev: ", name.replace('_', " ")));
        let results: Value = serde_json::from_str(&place.read(&format!("runs/{name}/results.json"))).expect("JSON");
        let of = |line: &Value| line[name].as_f64();
        let measured = place.rtc(&["runs", "records", &format!("runs/{name}")]).code(0).json();
        let lines = measured["evaluations"].as_array().expect("evaluations");
        let dev: Vec<f64> = lines.iter().filter(|line| line["split"] == "dev").filter_map(of).collect();
        let best = dev.iter().copied().reduce(if less { f64::min } else { f64::max }).expect("evaluations");
        assert_eq!(results["dev_metric"]["name"], name);
        assert!((results["dev_metric"]["value"].as_f64().expect("a number") - best).abs() < 1e-5, "{name} {dev:?}");
        place.rtc(&["verify", &format!("runs/{name}"), "--again"]).code(0);
        place.rtc(&["report", &format!("runs/{name}"), "--output", "page.html"]).code(0);
        assert!(place.read("page.html").contains(&format!("best {} on dev", name.replace('_', " "))));
    }
    train("wrong", "macro_f2").code(2).says("there is no choice `macro_f2`; did you mean `macro_f1`?");
    train("wrong", "rmse").code(2).says("there is no metric of `table` `rmse` (known: accuracy)");
    train("wrong", "edit_distance").code(2).says("needs a class for every token, and `table` has one class a row");
    assert!(!place.path("runs/wrong").exists());
}
