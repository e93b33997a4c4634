//! `rtc predict`: all numbers of all classes, many sequences at once, from files and to files.

use crate::support::Place;
use serde_json::Value;

/// A folder with the trained run `r`.
fn place() -> Place {
    let place = Place::new();
    place.train(&["--run", "r", "--max-steps", "3", "--quiet"]).code(0);
    place
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("an object per line")).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn all_classes_have_their_probability_and_logit() {
    let place = place();
    let one = place.rtc(&["predict", "r", "[MAX 2 9 ]", "--all", "--top", "3", "--json"]).code(0).json();
    let (probabilities, logits) = (&one["probabilities"], &one["logits"]);
    let classes: Vec<String> = (0..10).map(|digit: u32| digit.to_string()).collect();
    let sum: f64 = classes.iter().map(|class| number(&probabilities[class])).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    let total: f64 = classes.iter().map(|class| number(&logits[class]).exp()).sum();
    for class in &classes {
        assert!((number(&probabilities[class]) - number(&logits[class]).exp() / total).abs() < 1e-9, "{one}");
    }
    let class = one["class"].as_str().expect("a class");
    assert!((number(&probabilities[class]) - number(&one["confidence"])).abs() < 1e-6, "{one}");
    let top = one["top"].as_array().expect("a list");
    assert_eq!((top.len(), top[0]["class"].as_str()), (3, Some(class)));
    assert!(top.windows(2).all(|pair| number(&pair[0]["probability"]) >= number(&pair[1]["probability"])));
    let text = place.rtc(&["predict", "r", "[MAX 2 9 ]", "--all"]).code(0).stdout.clone();
    assert_eq!(text.lines().count(), 11, "the answer, and a line per class: {text}");
    assert!(text.lines().nth(1).is_some_and(|line| line.starts_with(&format!("    {class}  "))), "{text}");
}

#[test]
fn files_are_read_and_written_in_their_order() {
    let place = place();
    let rows: Vec<String> = (0..75).map(|n| format!("[MAX {} {} ]", n % 10, n / 10)).collect();
    place.write("rows.txt", &format!("\u{feff}{}\r\n\n", rows.join("\r\n")));
    let all = ["predict", "r", "--input", "rows.txt", "--probabilities"];
    place.rtc(&[&all[..], &["--output", "many.jsonl"]].concat()).code(0).is_silent();
    place.rtc(&[&all[..], &["--output", "one.jsonl", "--batch", "1"]].concat()).code(0);
    let many = place.read("many.jsonl");
    assert_eq!(many, place.read("one.jsonl"), "how many are computed at once changes nothing");
    let answers = objects(&many);
    let texts: Vec<&str> = answers.iter().filter_map(|answer| answer["text"].as_str()).collect();
    assert_eq!(texts, rows);
    assert!(answers.iter().all(|answer| answer["steps"].is_number()), "steps of every sequence, not of the batch");

    place.rtc(&[&all[..], &["--output", "many.csv", "--top", "2"]].concat()).code(0);
    let csv = place.read("many.csv");
    let mut lines = csv.lines();
    let head = "text,class,confidence,steps,probability 0,";
    assert!(
        lines.next().is_some_and(|line| line.starts_with(head) && line.ends_with("class 2,probability 2")),
        "{csv}"
    );
    for (line, answer) in lines.by_ref().zip(&answers) {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), 4 + 10 + 4);
        assert_eq!((Some(fields[0]), Some(fields[1])), (answer["text"].as_str(), answer["class"].as_str()));
        assert_eq!(fields[4].parse::<f64>().ok(), answer["probabilities"]["0"].as_f64());
    }
    assert_eq!(csv.lines().count(), 76);
}

#[test]
fn a_class_per_token_is_a_row_per_token() {
    let place = Place::new();
    let text = place.read("tiny.rt");
    place.write("tiny.rt", &(text + "\nvariant causal of tiny {\n    embed.tokens: none\n    readout each\n}\n"));
    let tiny = place.read("tiny.yaml");
    let (_, rest) = tiny.split_once("optimiser").expect("the block after the task");
    let task = "task:\n  name: flip_flop\n  options: { pairs: 8, long_pairs: 12 }\n  sizes: { train: 160, dev: 35, dense: 32, long-sparse: 32 }\n";
    place.write("flip.yaml", &format!("{task}optimiser{}", rest.replace("[test]", "[dense, long-sparse]")));
    place.rtc(&["train", "tiny.rt:causal", "--experiment", "flip.yaml", "--run", "r", "--max-steps", "1"]).code(0);
    let one = place.rtc(&["predict", "r", "w 0 r", "--all", "--json"]).code(0).json();
    for name in ["classes", "confidence", "probabilities", "logits"] {
        assert_eq!(one[name].as_array().map(Vec::len), Some(3), "{name}: {one}");
    }
    assert_eq!(number(&one["logits"][0]["0"]), 0.0, "of two classes the logit is that of the second against the first");
    let csv =
        place.rtc_with(&["predict", "r", "--format", "csv", "--probabilities"], "w 0 r\nw 1\n").code(0).stdout.clone();
    let rows: Vec<&str> = csv.lines().collect();
    assert_eq!(rows[0], "sequence,position,token,class,confidence,steps,probability 0,probability 1");
    let places: Vec<Vec<&str>> = rows[1..].iter().map(|row| row.split(',').take(3).collect()).collect();
    let expected = [["1", "0", "w"], ["1", "1", "0"], ["1", "2", "r"], ["2", "0", "w"], ["2", "1", "1"]];
    assert_eq!(places, expected);
}

#[test]
fn what_can_not_be_read_or_written_is_said() {
    let place = place();
    place.write("rows.txt", "[MAX 1 2 ]\n\n[MAX 1 x ]\n");
    place
        .rtc(&["predict", "r", "--input", "rows.txt", "--output", "out.csv"])
        .code(4)
        .says("rows.txt:3")
        .says("`x` is no symbol");
    assert!(!place.path("out.csv").exists(), "a file takes its name when it is complete");
    assert!(!place.path("out.csv.part").exists(), "what was begun is removed");
    place.rtc(&["predict", "r", "--input", "none.txt"]).code(6).says("none.txt");
    place.rtc(&["predict", "r", "--input", "."]).code(6).says("a folder is no file of sequences");
    place.rtc(&["predict", "r", "3", "--output", "out.dat"]).code(2).says("`.jsonl` or `.csv`");
    place.rtc(&["predict", "r", "3", "--format", "csv", "--trees"]).code(2).says("no columns");
    place.rtc(&["predict", "r", "3", "--input", "rows.txt"]).code(2);
    place.write("empty.txt", "\n");
    place.rtc(&["predict", "r", "--input", "empty.txt", "--output", "empty.csv"]).code(0);
    assert_eq!(place.read("empty.csv"), "text,class,confidence,steps\n");
    std::fs::write(place.path("bytes.txt"), b"[MAX 1 2 ]\n\xff\n").expect("a file");
    let found = place.rtc(&["predict", "r", "--input", "bytes.txt"]);
    assert_eq!(found.code(4).says("bytes.txt:2").stdout.lines().count(), 1, "what came before is answered");
}

/// Trains a spec on files of rows for a moment.
fn trained(place: &Place, run: &str, task: &str, spec: &str) {
    let rest = "optimiser: { learning_rate: 0.01 }\nschedule: { kind: constant }\nbatch: { size: 16 }\nepochs: 1\nevaluate: [dev]\n";
    place.write(&format!("{run}.yaml"), &format!("task: {{ {task} }}\n{rest}"));
    place.rtc(&["train", spec, "--experiment", &format!("{run}.yaml"), "--run", run, "--quiet"]).code(0);
}

/// A folder with the spec `each`, and runs of every task on files.
fn rows() -> Place {
    let place = Place::new();
    let each = place.read("tiny.rt").replace(", tokens: start_end", "").replace("readout end", "readout each");
    place.write("each.rt", &each);
    let review = |n: usize| {
        let (word, label) = if n.is_multiple_of(3) { ("bad", "negative") } else { ("good", "positive") };
        format!("{n},\"the \"\"film\"\" {},\nwas {word}\",{label},{}.5\n", n % 11, n % 7)
    };
    place.write("reviews.csv", &("id,text,label,score\n".to_owned() + &(0..60).map(review).collect::<String>()));
    let data = "data: { train: reviews.csv, dev: 20% }, tokens: words";
    trained(&place, "table", &format!("name: table, {data}"), "tiny.rt");
    trained(&place, "number", &format!("name: table, {data}, label: score, answer: number"), "tiny.rt");
    trained(&place, "several", &format!("name: table, {data}, input: [text, score]"), "tiny.rt");
    trained(
        &place,
        "features",
        "name: table, data: { train: reviews.csv, dev: 20% }, input: [id, score], tokens: characters",
        "tiny.rt",
    );
    let pair =
        |n: usize| format!("{}\tleft {n}\tright {}\n", if n.is_multiple_of(2) { "same" } else { "other" }, n % 2);
    place.write("pairs.tsv", &("kind\ta\tb\n".to_owned() + &(0..60).map(pair).collect::<String>()));
    trained(
        &place,
        "pairs",
        "name: pairs, data: { train: pairs.tsv, dev: 20% }, input: [a, b], label: kind",
        "tiny.rt",
    );
    let tagged =
        |n: usize| format!("{{\"tokens\": [\"the\", \"cat{}\", \"sat\"], \"tags\": [\"D\", \"N\", null]}}\n", n % 5);
    place.write("tags.jsonl", &(0..60).map(tagged).collect::<String>());
    let task = "name: tagging, data: { train: tags.jsonl, dev: tags.jsonl }, input: tokens, label: tags";
    trained(&place, "tagging", task, "each.rt");
    let many = |n: usize| {
        format!(
            "{{\"text\": \"film {}\", \"label\": [\"a\"{}]}}\n",
            n % 5,
            if n.is_multiple_of(2) { ", \"b\"" } else { "" }
        )
    };
    place.write("labels.jsonl", &(0..60).map(many).collect::<String>());
    trained(
        &place,
        "labels",
        "name: table, data: { train: labels.jsonl, dev: labels.jsonl }, answer: labels",
        "tiny.rt",
    );
    place.write("text.txt", &"to be, or not to be: that is the question\n".repeat(60));
    trained(&place, "language", "name: language, data: { train: text.txt, dev: 20% }, length: 32", "each.rt");
    place
}

#[test]
fn rows_of_data_files_are_read_by_the_columns_of_the_task() {
    let place = rows();
    let text = "the \\\"film\\\",\\nwas good";
    let json = format!("{{\"label\": \"positive\", \"text\": \"{text}\"}}\n{{\"text\": \"{text} zzz\"}}\n");
    let cells = "\"the \"\"film\"\",\nwas good\"";
    let files = [
        ("few.jsonl", json.clone()),
        ("few.csv", format!("label,other,text\npositive,1,{cells}\n,2,{}\n", cells.replace("good", "good zzz"))),
        ("few.tsv", format!("text\tlabel\n{cells}\tpositive\n{}\t\n", cells.replace("good", "good zzz"))),
        ("bare.csv", format!("text\n{cells}\n{}\n", cells.replace("good", "good zzz"))),
    ];
    let mut expected: Option<Vec<Value>> = None;
    for (name, text) in &files {
        place.write(name, text);
        let found = place.rtc(&["predict", "table", "--input", name, "--json"]);
        found.code(0).says("note: 1 of 15 tokens (6.7 %) unknown to the vocabulary, in 1 of 2 inputs");
        let mut rows = objects(&found.stdout);
        assert_eq!(rows.iter().map(|row| row["unknown"].as_u64()).collect::<Vec<_>>(), [Some(0), Some(1)], "{name}");
        let label = rows[0].as_object_mut().and_then(|row| row.remove("label"));
        assert_eq!(label.is_some(), *name != "bare.csv", "{name}");
        assert!(rows[1].get("label").is_none(), "{name}: no label is no text");
        assert_eq!(*expected.get_or_insert_with(|| rows.clone()), rows, "{name}");
        // Standard input, told how it is written, is the same.
        let format = if name.ends_with("csv") { "csv" } else { &name[4..] };
        let format = if format == "jsonl" { "json" } else { format };
        let by_input = place.rtc_with(&["predict", "table", "--input-format", format, "--json"], text);
        assert_eq!(by_input.code(0).stdout, found.stdout, "{name}");
    }
    // A JSON object is a row as an argument and as a line, too.
    assert_eq!(place.rtc_with(&["predict", "table", "--json"], &json).code(0).stdout.lines().count(), 2);
    let one = place.rtc(&["predict", "table", json.lines().next().expect("a line"), "--json"]).code(0).json();
    assert_eq!((one["text"].as_str(), one["label"].as_str()), (Some("the \"film\",\\nwas good"), Some("positive")));
    let csv = place.rtc(&["predict", "table", "--input", "few.csv", "--format", "csv"]).code(0).stdout.clone();
    assert!(csv.starts_with("text,class,confidence,steps,label\n"), "{csv}");
    assert!(csv.lines().nth(1).is_some_and(|row| row.ends_with(",positive")), "{csv}");
    let text = place.rtc(&["predict", "table", "--input", "few.csv"]);
    text.code(0).says("note: line 4: 1 of 8 tokens unknown to the vocabulary");
}

#[test]
fn rows_of_every_task_are_answered() {
    let place = rows();
    for (run, file, fields) in [
        ("table", "reviews.csv", ["class", "label", "unknown"]),
        ("number", "reviews.csv", ["number", "label", "unknown"]),
        ("several", "reviews.csv", ["class", "label", "unknown"]),
        ("features", "reviews.csv", ["class", "label", "unknown"]),
        ("pairs", "pairs.tsv", ["class", "label", "unknown"]),
        ("tagging", "tags.jsonl", ["classes", "label", "unknown"]),
        ("labels", "labels.jsonl", ["labels", "label", "unknown"]),
    ] {
        let found = objects(&place.rtc(&["predict", run, "--input", file, "--json"]).code(0).stdout);
        assert_eq!(found.len(), 60, "{run}");
        for field in fields {
            assert!(found.iter().all(|row| row.get(field).is_some()), "{run}: {field} in {}", found[0]);
        }
        place.rtc(&["predict", run, "--input", file, "--output", &format!("{run}.csv")]).code(0);
        let csv = place.read(&format!("{run}.csv"));
        assert!(csv.lines().next().is_some_and(|head| head.ends_with(",label")), "{csv}");
        // The answers are those that are measured.
        let measured = place.rtc(&["eval", run, "--data", file, "--json"]).code(0).json();
        if let (Some(accuracy), "class") = (measured["splits"][0]["accuracy"].as_f64(), fields[0]) {
            let right = found.iter().filter(|row| row["class"] == row["label"]).count();
            assert!((right as f64 / 60.0 - accuracy).abs() < 1e-9, "{run}: {right} of 60, {accuracy}");
        }
    }
    let tags = &objects(&place.rtc(&["predict", "tagging", "--input", "tags.jsonl", "--json"]).stdout)[0];
    assert_eq!(tags["label"], serde_json::json!(["D", "N", null]));
    let joined = place.rtc(&["predict", "several", r"the film\n1.5", "--json"]).code(0).json();
    assert_eq!(joined["unknown"], 0, "the end of a line between columns is a token: {joined}");
    // A text per line, and a whole file as one text.
    place.write("two.txt", "to be\nor not\n");
    assert_eq!(place.rtc(&["predict", "language", "--input", "two.txt", "--json"]).code(0).stdout.lines().count(), 2);
    let whole =
        place.rtc(&["predict", "language", "--input", "two.txt", "--input-format", "text", "--json"]).code(0).json();
    assert_eq!(whole["text"], r"to be\nor not");
    assert_eq!(whole["classes"].as_array().map(Vec::len), Some(12));
    let whole = place
        .rtc_with(&["predict", "table", "--input-format", "text", "--json"], "the film\nwas\ngood\n")
        .code(0)
        .json();
    assert_eq!(whole["text"], r"the film\nwas\ngood");
    place.write("column.csv", "other,text\n1,to be\n2,or not\n");
    place.write("named.yaml", &place.read("language.yaml"));
    place.rtc(&["predict", "language", "--input", "column.csv"]).code(0);
}

#[test]
fn files_that_are_no_rows_are_refused_with_the_place() {
    let place = rows();
    for (name, text, code, why) in [
        ("other.csv", "texd,label\na,b\n", 4, "other.csv:1: there is no column `text`; did you mean `texd`?"),
        ("wide.csv", "text,label\na,b\na,b,c\n", 4, "wide.csv:3: the header has 2 columns, and this row has 3"),
        ("mark.csv", "text,label\n\"a,b\n", 4, "mark.csv:2: a quotation mark that opens in this row never closes"),
        ("hole.csv", "text,label\na,b\n,b\n", 4, "hole.csv:3: `text` has no tokens"),
        ("none.jsonl", "{\"label\": 1}\n", 4, "none.jsonl:1: the row has no `text`"),
        ("cut.jsonl", "{\"text\": \"a\"}\n{\"text\": \n", 4, "cut.jsonl:2: this line is no JSON"),
        ("empty.csv", "", 4, "empty.csv:1: the file is empty"),
        ("no.parquet", "PAR1", 4, "no.parquet: this is no whole Parquet file"),
        ("header.txt", "text,label\na good film,positive\n", 2, "`text,label` names the columns of the task"),
    ] {
        place.write(name, text);
        place.rtc(&["predict", "table", "--input", name]).code(code).says(why);
    }
    place.rtc_with(&["predict", "table"], "text,label\na,b\n").code(2).says("`--input-format csv`");
    place.rtc_with(&["predict", "table", "--input-format", "csv"], "text\n\"a\n").code(4).says("standard input:2: ");
    let plain = place
        .rtc_with(&["predict", "table", "--input-format", "lines"], "text,label\n{\"text\": 1}\n")
        .code(0)
        .stdout
        .clone();
    assert_eq!(plain.lines().count(), 2, "{plain}");
    place.rtc_with(&["predict", "table"], "good\n{\"text\": \n").code(4).says("standard input:2: this line is no JSON");
    // Built-in tasks read their published files as `rtc eval --data` does.
    place.train(&["--run", "r", "--max-steps", "3", "--quiet"]).code(0);
    place.write("rows.tsv", "9\t[MAX 2 9 ]\n3\t[MIN 3 4 ]\n");
    let found = objects(&place.rtc(&["predict", "r", "--input", "rows.tsv", "--json"]).code(0).stdout);
    assert_eq!(found.iter().map(|row| row["label"].as_str()).collect::<Vec<_>>(), [Some("9"), Some("3")]);
    place.write("rows.tsv", "[MAX 2 9 ]\n");
    place.rtc(&["predict", "r", "--input", "rows.tsv"]).code(4).says("rows.tsv").says("`--input-format lines`");
    place.rtc(&["predict", "r", "--input", "rows.tsv", "--input-format", "lines"]).code(0);
}

#[test]
fn the_experiment_says_how_files_are_written_before_their_names() {
    let place = Place::new();
    let row = |n: usize| format!("film {}\t{}\n", n % 7, if n.is_multiple_of(3) { "bad" } else { "good" });
    let rows: String = (0..60).map(row).collect();
    place.write("tabbed.csv", &rows);
    let task = "name: table, data: { train: tabbed.csv, dev: 20% }, format: tsv, input: 1, label: 2, tokens: words";
    trained(&place, "tabbed", task, "tiny.rt");
    let found = objects(&place.rtc(&["predict", "tabbed", "--input", "tabbed.csv", "--json"]).code(0).stdout);
    assert_eq!((found[0]["text"].as_str(), found[0]["label"].as_str()), (Some("film 0"), Some("bad")), "{}", found[0]);
    // The option stands before both.
    place.write("commas.tsv", &rows.replace('\t', ","));
    let commas = ["predict", "tabbed", "--input", "commas.tsv", "--json"];
    let found = objects(&place.rtc(&[&commas[..], &["--input-format", "csv"]].concat()).code(0).stdout);
    assert_eq!(found[0]["label"], "bad");
    place.rtc(&commas).code(4).says("the cells have `,` between them");
    place.rtc(&["report", "tabbed", "--inputs", "tabbed.csv"]).code(0);
    // Columns by their places have no names, so a text that begins with numbers is no header.
    let plain = place.rtc_with(&["predict", "tabbed", "--json"], "1, 2, good\n").code(0).json();
    assert_eq!(plain["text"], "1, 2, good");
}

#[test]
fn pipes_are_read_to_their_ends() {
    let place = rows();
    let many: String = (0..900).map(|n| format!("film number {n} was good,positive\n")).collect();
    place.write("many.csv", &format!("text,label\n{many}"));
    for line in [
        "\"$RTC\" predict table --input <(cat many.csv) --input-format csv --json",
        "\"$RTC\" predict table --input-format csv --json < many.csv",
        "mkfifo named.csv; cat many.csv > named.csv & \"$RTC\" predict table --input named.csv --json",
        "mkfifo packed.csv.gz; gzip < many.csv > packed.csv.gz & \"$RTC\" predict table --input packed.csv.gz --json",
    ] {
        let found = objects(&place.shell(line).code(0).stdout);
        assert_eq!(found.len(), 900, "{line}");
        assert!(found.iter().all(|row| row["label"] == "positive"), "{line}");
    }
    place
        .shell("\"$RTC\" predict table --input <(echo text; echo; echo '\"a') --input-format csv")
        .code(4)
        .says("/dev/fd/");
    place.shell("mkfifo look.csv; \"$RTC\" task check look.csv").code(4).says("is read several times");
}

#[test]
fn labels_of_files_are_a_column_whatever_the_first_row_has() {
    let place = rows();
    let csv = |run: &str, name: &str, text: &str| {
        place.write(name, text);
        let found = place.rtc(&["predict", run, "--input", name, "--format", "csv"]).code(0).stdout.clone();
        let column = found.lines().map(|line| line.rsplit(',').next().unwrap_or_default().to_owned());
        column.collect::<Vec<_>>()
    };
    assert_eq!(csv("table", "a.csv", "text,label\ngood,\nbad,negative\n"), ["label", "", "negative"]);
    let lines =
        "{\"text\": \"good\", \"label\": null}\n{\"text\": \"good\"}\n{\"text\": \"bad\", \"label\": \"negative\"}\n";
    assert_eq!(csv("table", "a.jsonl", lines), ["label", "", "", "negative"]);
    assert_eq!(csv("table", "a.txt", lines), ["label", "", "", "negative"]);
    let numbers = "text,score\ngood,nan\ngood,abc\ngood,\ngood,1.50\n";
    assert_eq!(csv("number", "n.csv", numbers), ["label", "nan", "abc", "", "1.5"]);
    let sets = "{\"text\": \"good\", \"label\": null}\n{\"text\": \"good\", \"label\": [\"a\"]}\n";
    assert_eq!(csv("labels", "s.jsonl", sets), ["label", "", "a"]);
    assert_eq!(csv("table", "l.jsonl", "{\"text\": \"good\", \"label\": [\"x\"]}\n"), ["label", "x"]);
    let tags = "{\"tokens\": [\"the\"]}\n{\"tokens\": [\"cat1\"], \"tags\": [\"N\"]}\n";
    assert_eq!(csv("tagging", "t.jsonl", tags), ["label", "", "N"]);
    // Tokens and labels that do not go together are no answer and its label.
    place.write("odd.jsonl", "{\"tokens\": [\"the\", \"cat1\"], \"tags\": [\"N\"]}\n");
    place
        .rtc(&["predict", "tagging", "--input", "odd.jsonl"])
        .code(4)
        .says("odd.jsonl:1: the row has 2 tokens and 1 label:");
    let mixed = "good\n{\"text\": \"bad\", \"label\": \"negative\"}\n";
    place
        .rtc_with(&["predict", "table", "--format", "csv"], mixed)
        .code(2)
        .says("line 2 has a label")
        .says("`--format jsonl`");
}

#[test]
fn objects_and_headers_are_told_from_texts() {
    let place = rows();
    let object = "{\"Text\": \"good film\"}";
    place.rtc(&["predict", "table", object]).code(4).says("there is no column `text`").says("`--input-format lines`");
    place
        .rtc_with(&["predict", "table"], &format!("good\n{object}\n"))
        .code(4)
        .says("standard input:2: there is no column");
    place.rtc_with(&["predict", "table"], "{\"label\": \"text\"}\n").code(4).says("there is no column `text`");
    let lines = place.rtc_with(&["predict", "table", "--input-format", "lines", "--json"], object).code(0).json();
    assert_eq!(lines["text"], object);
    place.rtc(&["predict", "table", "{ a text in braces }"]).code(0);
    for (header, line) in
        [("text", 1), ("\n \ntext,label", 3), ("id|text|label", 1), ("id;text", 1), ("label\ttext", 1)]
    {
        let found = place.rtc_with(&["predict", "table"], &format!("{header}\na good film\n"));
        found.code(2).says(&format!("standard input:{line}: ")).says("`--input-format lines`");
    }
    let texts = place.rtc_with(&["predict", "table", "--json"], "text, and more\ngood\n").code(0).stdout.clone();
    assert_eq!(texts.lines().count(), 2);
}

#[test]
fn the_input_is_never_the_output() {
    let place = rows();
    let text = place.read("reviews.csv");
    for (input, output) in
        [("of.csv", "of.csv"), ("of.csv", "./of.csv"), ("link.csv", "of.csv"), ("of.csv.part", "of.csv")]
    {
        place.write("of.csv", &text);
        place.write("of.csv.part", &text);
        if input.starts_with("link") {
            std::os::unix::fs::symlink("of.csv", place.path(input)).expect("a link");
        }
        let found = place.rtc(&["predict", "table", "--input", input, "--input-format", "csv", "--output", output]);
        found.code(2).says("would overwrite the input");
        assert_eq!((place.read("of.csv"), place.read("of.csv.part")), (text.clone(), text.clone()), "{input} {output}");
    }
}
