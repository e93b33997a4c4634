//! Metrics of one's own as formulas, against what `rtc predict` says of every row.

use serde_json::Value;

use crate::support::Place;

const SMALL: [&str; 8] =
    ["--set", "embed.width=8", "--set", "self.heads=2", "--set", "feedforward.hidden=8", "--max-steps", "40"];

/// What the model says of every row of a file.
fn rows(place: &Place, run: &str, input: &str, more: &[&str]) -> Vec<Value> {
    let said = place.rtc(&[&["predict", run, "--input", input, "--json"], more].concat());
    said.code(0).stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

#[test]
fn formulas_of_classes_and_numbers_are_means_over_what_is_predicted() {
    let place = Place::new();
    let kinds = ["ham", "ham", "spam", "ham", "spam"];
    let row = |n: usize| format!("a mail {} {},{}\n", n % 7, ["very", "so"][n % 2], kinds[n * n % 5]);
    place.write("mail.csv", &("text,label\n".to_owned() + &(0..90).map(row).collect::<String>()));
    place.rtc(&["task", "check", "mail.csv", "--write", "mail.yaml"]).code(0);
    let metrics = "metrics: [macro_f1, { missed_cost: 'when(label == spam and predicted == ham, 10, when(label == predicted, 0, 1))' }, \
                   { brier_error: '(1 - probability) ^ 2' }, { sure_score: 'confidence * length' }]\nchoose: missed_cost\n";
    place.write("mail.yaml", &(place.read("mail.yaml") + metrics));
    let train = ["train", "transformer", "--experiment", "mail.yaml", "--run", "mail", "--json"];
    let trained = place.rtc(&[&train[..], &SMALL].concat()).code(0).json();
    assert_eq!(trained["dev_metric"]["name"], "missed_cost", "{trained}");
    let lines = place.read("runs/mail/metrics.jsonl");
    let costs =
        lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).expect("JSON")["missed_cost"].as_f64());
    let least = costs.reduce(f64::min).expect("it is measured");
    assert_eq!(trained["dev_metric"]["value"].as_f64(), Some(least), "less of a cost is better");

    let measured = place.rtc(&["eval", "runs/mail", "--data", "mail.csv", "--json"]).code(0).json();
    let numbers = &measured["splits"][0]["numbers"];
    let all = rows(&place, "runs/mail", "mail.csv", &["--probabilities"]);
    let text = |row: &Value, name: &str| row[name].as_str().expect("a name").to_owned();
    let probability = |row: &Value, class: &str| row["probabilities"][class].as_f64().expect("a probability");
    let cost = |row: &Value| match (&*text(row, "label"), &*text(row, "class")) {
        ("spam", "ham") => 10.0,
        (there, said) => f64::from(u8::from(there != said)),
    };
    let tokens = 4.0;
    for (name, expected) in [
        ("missed_cost", mean(all.iter().map(cost))),
        ("brier_error", mean(all.iter().map(|row| (1.0 - probability(row, &text(row, "label"))).powi(2)))),
        ("sure_score", mean(all.iter().map(|row| tokens * probability(row, &text(row, "class"))))),
    ] {
        let found = numbers[name].as_f64().unwrap_or_else(|| panic!("{name}: {measured}"));
        assert!((found - expected).abs() < 1e-5, "{name}: {found} instead of {expected}");
    }
    place.rtc(&["verify", "runs/mail", "--again"]).code(0);
    assert!(place.rtc(&["eval", "runs/mail"]).code(0).stdout.contains("missed cost"));

    let figures: String = (0..60).map(|n| format!("word {},{}.5\n", n % 7, n % 11)).collect();
    place.write("numbers.csv", &("text,target\n".to_owned() + &figures));
    place.rtc(&["task", "check", "numbers.csv", "--write", "numbers.yaml"]).code(0);
    place.write(
        "numbers.yaml",
        &(place.read("numbers.yaml") + "metrics: [{ relative_error: 'abs(predicted - label) / abs(label)' }]\n"),
    );
    let train = ["train", "transformer", "--experiment", "numbers.yaml", "--run", "numbers"];
    place.rtc(&[&train[..], &SMALL].concat()).code(0);
    let measured = place.rtc(&["eval", "runs/numbers", "--data", "numbers.csv", "--json"]).code(0).json();
    let all = rows(&place, "runs/numbers", "numbers.csv", &[]);
    let number = |row: &Value, name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name}: {row}"));
    let off = |row: &Value| (number(row, "number") - number(row, "label")).abs() / number(row, "label").abs();
    let expected = mean(all.iter().map(off));
    let found = measured["splits"][0]["numbers"]["relative_error"].as_f64().expect("an error");
    assert!((found - expected).abs() < 1e-4, "{found} instead of {expected}");
}

#[test]
fn formulas_that_answers_do_not_have_are_refused_before_the_training() {
    let place = Place::new();
    for (metric, why) in [
        ("{ missed: label }", "ends in `_error` or `_cost` if less is better, in `_score` if more is"),
        ("{ Missed_cost: label }", "small letters"),
        ("{ _cost: label }", "small letters"),
        ("{ calibration_error: label }", "rtc has a metric of this name"),
        ("{ a_cost: lable }", "did you mean `label`?"),
        ("{ a_cost: label + }", "is no formula"),
        ("{ a_cost: softmax(label) }", "there is no `softmax`"),
        ("{ a_cost: label, b_cost: label }", "one `name: formula`"),
        ("{ a_cost: label }, { a_cost: predicted }", "got `a_cost` twice"),
        ("{ a_cost: label == predicted }", "`when(condition, 1, 0)` makes a number of it"),
        ("{ a_cost: 'when(label > 1, not (label > 2), true)' }", "its value is a condition"),
        ("{ a_cost: 3 }", "the formula of `a_cost` is a text"),
        ("[macro_f1]", "a metric is a name, as `macro_f1`, or one `name: formula`"),
    ] {
        let with = format!("metrics=[{metric}]");
        place.train(&["--run", "refused", "--with", &with]).code(2).says(why);
        assert!(!place.path("runs/refused").exists());
    }
    // No value for an answer: it is told with the answer, and names the way out.
    place
        .train(&["--run", "divided", "--with", "metrics=[{ odd_error: '1 / (label - label)' }]"])
        .code(4)
        .says("the metric `odd_error` has no value for an answer of label")
        .says("computes one side alone");
}
