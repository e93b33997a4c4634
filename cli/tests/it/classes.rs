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
        let args =
            ["train", spec, "--experiment", &yaml, "--run", file, "--with", "metrics=[macro_f1, balanced_accuracy]"];
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
    place.rtc(&[&train[..], &SMALL, &["--with", "metrics=[macro_f1]"]].concat()).code(2).says("is of classes");
    place.rtc(&[&train[..], &SMALL].concat()).code(0);
    place.rtc(&["eval", "runs/numbers", "--classes"]).code(2).says("the answers of this model are numbers");
    place.rtc(&[&train[..], &["--with", "metrics=[macro_f2]"]].concat()).code(2).says("macro_f1");
}
