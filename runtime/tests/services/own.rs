//! Tasks on files of the user's own: what is read of files that common programs write, and that broken files are refused.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use rtc_runtime::error::DataError;
use rtc_runtime::experiment::{Columns, DataSource, Known, TaskSettings};
use rtc_runtime::rng::Key;
use rtc_runtime::task::{Column, Dataset, Example, Target, load, look, open_task, sample};

/// Files that Python's csv, pandas and datasets wrote (`make.py` beside them).
fn files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/services/own_files")
}

fn settings(name: &str, tokens: &str, files: &[(&str, &str)]) -> TaskSettings {
    let data = files.iter().map(|(split, file)| ((*split).to_owned(), (*file).to_owned()));
    TaskSettings {
        name: name.to_owned(),
        tokens: Some(tokens.to_owned()),
        data: Some(DataSource::Files(data.collect())),
        ..TaskSettings::default()
    }
}

/// The rows of a split, as text with its label.
fn rows(settings: &TaskSettings, data: &Dataset, split: &str) -> Vec<(String, String)> {
    let (task, options) = open_task(settings).expect("it was opened");
    let rows = sample(&*task, &options, data.split(split), usize::MAX);
    rows.into_iter().map(|row| (row.text, row.label)).collect()
}

fn file(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn files_of_common_writers_hold_the_same_rows() {
    let expected = [
        ("a plain text", "one"),
        ("commas, and \"marks\"", "two"),
        ("two\\nlines", "one"),
        ("tabs\\tinside", "two"),
        ("naïve – 😀 | \\\\", "one"),
        (" blanks ", "two"),
        ("42", "one"),
    ]
    .map(|(text, label)| (text.to_owned(), label.to_owned()));
    let mut seen = 0;
    for entry in fs::read_dir(files()).expect("it is there") {
        let path = entry.expect("readable").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if name.starts_with("tags") || name.ends_with(".py") {
            continue;
        }
        let settings = settings("table", "characters", &[("train", &file(&path))]);
        let data = load(&settings, &["train"]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(rows(&settings, &data, "train"), expected, "{name}");
        assert_eq!(look(&path).expect("readable").rows, 7, "{name}");
        seen += 1;
    }
    assert!(seen >= 13, "{seen} files");
}

#[test]
fn lists_are_tagged() {
    for name in ["tags.jsonl", "tags.parquet"] {
        let settings = settings("tagging", "blanks", &[("train", &file(&files().join(name)))]);
        let data = load(&settings, &["train"]).unwrap_or_else(|error| panic!("{error}"));
        let expected = [("the cat sat", "D N V"), ("a dog", "D N")].map(|(text, label)| (text.into(), label.into()));
        assert_eq!(rows(&settings, &data, "train"), expected, "{name}");
    }
}

/// A folder with a table of so many rows of made-up words.
fn table(rows: usize) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let row = |n: usize| format!("w{} w{} w{},{}\n", n % 7, n % 11, n % 50, n % 3);
    let text = "text,label\n".to_owned() + &(0..rows).map(row).collect::<String>();
    fs::write(folder.path().join("train.csv"), text).expect("writable");
    let path = file(&folder.path().join("train.csv"));
    (folder, path)
}

#[test]
fn shares_are_disjoint_and_the_rest_is_learned_from() {
    let (_folder, train) = table(3_850);
    let mut settings = settings("table", "blanks", &[("train", &train), ("dev", "10%"), ("test", "20%")]);
    let splits = ["train", "dev", "test"];
    let data = load(&settings, &splits).expect("read");
    let sizes = splits.map(|split| data.split(split).len());
    assert_eq!(sizes.iter().sum::<usize>(), 3_850);
    assert!((370..=420).contains(&sizes[1]) && (740..=830).contains(&sizes[2]), "{sizes:?}");
    let keys = |split: &str| data.split(split).iter().map(Example::key).collect::<std::collections::BTreeSet<_>>();
    assert!(keys("dev").is_disjoint(&keys("train")) && keys("test").is_disjoint(&keys("train")));
    settings.known = Known::default();
    assert_eq!(load(&settings, &splits).expect("read"), data, "the same rows again");
    let other = TaskSettings { seed: 1, known: Known::default(), ..settings.clone() };
    assert_ne!(load(&other, &splits).expect("read").split("dev"), data.split("dev"));
    settings.sizes.insert("train".into(), 5);
    assert_eq!(load(&settings, &splits).expect("read").split("train"), &data.split("train")[..5]);
}

#[test]
fn the_vocabulary_is_that_of_training_alone_and_is_kept() {
    let (folder, train) = table(60);
    fs::write(folder.path().join("test.tsv"), "label\ttext\n1\tw0 novel w1\n").expect("writable");
    let test = file(&folder.path().join("test.tsv"));
    let mut settings = settings("table", "blanks", &[("train", &train), ("test", &test)]);
    settings.vocabulary = Some(6);
    let data = load(&settings, &["test"]).expect("read");
    let (task, options) = open_task(&settings).expect("opened");
    let names = task.vocabulary(&options);
    assert_eq!((names.len(), names[0].as_str(), task.unknown()), (6, "<unknown>", Some(0)));
    assert_eq!(task.classes(&options), ["0", "1", "2"], "numbers in their order");
    assert_eq!(data.split("test")[0].tokens[1], 0);
    // A run keeps what was learned: the training file is not read again.
    fs::remove_file(&train).expect("it was there");
    let mut again = settings.clone();
    again.known = Known::new(vec![], task.kept().map(Into::into));
    assert_eq!(load(&again, &["test"]).expect("read"), data);
    again.known = Default::default();
    assert!(load(&again, &["test"]).expect_err("it is gone").to_string().contains("train.csv"));
}

#[test]
fn texts_are_cut_into_windows_in_which_every_token_but_the_first_is_an_answer_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let text: String = (0..3_000).map(|n| format!("line {n}: ä{}\n", "x".repeat(n % 40))).collect();
    fs::write(folder.path().join("a.txt"), &text).expect("writable");
    let path = file(&folder.path().join("a.txt"));
    for tokens in ["characters", "bytes", "words"] {
        let mut settings = settings("language", tokens, &[("train", &path), ("dev", "25%")]);
        settings.length = Some(50);
        let data = load(&settings, &["train", "dev"]).expect("read");
        let (task, options) = open_task(&settings).expect("opened");
        assert!(task.perplexity() && task.next_token(&options));
        let answers = |split: &str| {
            let rows = data.split(split).iter();
            let class = rows.flat_map(|row| match &row.label {
                Target::Each { class, .. } => class.clone(),
                _ => panic!("an answer per token"),
            });
            [&data.split(split)[0].tokens[..1], &class.collect::<Vec<_>>()].concat()
        };
        let whole = task.encode(&text.replace('\n', "\\n"), &options).expect("all is known");
        assert_eq!([answers("train"), answers("dev")].concat(), whole, "{tokens}");
        assert!(data.split("train").iter().rev().skip(1).all(|row| row.tokens.len() == 50));
        let share = answers("dev").len() as f64 / whole.len() as f64;
        assert!((0.24..0.26).contains(&share), "{share}");
    }
}

#[test]
fn a_tokenizer_of_hugging_face_is_used_and_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let vocabulary = r#"{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":{"type":"Lowercase"},
        "pre_tokenizer":{"type":"Whitespace"},"post_processor":null,"decoder":null,
        "model":{"type":"WordLevel","vocab":{"[UNK]":0,"good":1,"bad":2},"unk_token":"[UNK]"}}"#;
    fs::write(folder.path().join("tokenizer.json"), vocabulary).expect("writable");
    fs::write(folder.path().join("a.jsonl"), "{\"text\":\"Good!\",\"label\":1}\n{\"text\":\"BAD\",\"label\":0}\n")
        .expect("writable");
    let mut settings = settings("table", "tokenizer.json", &[("train", "a.jsonl")]);
    settings.known.folders = vec![folder.path().to_owned()];
    let data = load(&settings, &["train"]).expect("read");
    let tokens: Vec<_> = data.split("train").iter().map(|row| row.tokens.clone()).collect();
    assert_eq!(tokens, [vec![1, 0], vec![2]]);
    let (task, options) = open_task(&settings).expect("opened");
    assert_eq!(task.vocabulary(&options), ["[UNK]", "good", "bad"]);
    fs::remove_file(folder.path().join("tokenizer.json")).expect("it was there");
    settings.known = Known::new(settings.known.folders.clone(), task.kept().map(Into::into));
    assert_eq!(load(&settings, &["train"]).expect("read"), data);
    fs::write(folder.path().join("tokenizer.json"), "{}").expect("writable");
    settings.known = Known::new(settings.known.folders.clone(), None);
    let error = load(&settings, &["train"]).expect_err("no tokenizer").to_string();
    assert!(error.contains("tokenizer.json: this is no tokenizer.json"), "{error}");
}

#[test]
fn pairs_columns_by_number_and_patterns() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in [("p1.csv", "a b,c,yes\nd,e,no\n"), ("p2.csv", "f,g,no\n"), ("other.csv", "x,y,yes\n")] {
        fs::write(folder.path().join(name), text).expect("writable");
    }
    let mut settings = settings("pairs", "blanks", &[("train", "p?.csv"), ("dev", "other.csv")]);
    settings.known.folders = vec![folder.path().to_owned()];
    settings.input = Some(Columns::Several(vec![Column::Place(1), Column::Place(2)]));
    settings.label = Some(Column::Place(3));
    let data = load(&settings, &["train", "dev"]).expect("read");
    let expected = [("a b ||| c", "yes"), ("d ||| e", "no"), ("f ||| g", "no")];
    assert_eq!(rows(&settings, &data, "train"), expected.map(|(text, label)| (text.to_owned(), label.to_owned())));
}

/// The start of a file for a mutation: its name, and its bytes.
fn seeds() -> Vec<(String, Vec<u8>)> {
    let names = ["pandas.csv", "python.tsv", "datasets.jsonl", "pandas.parquet", "pandas_packed.csv.gz", "tags.jsonl"];
    names.iter().map(|name| ((*name).to_owned(), fs::read(files().join(name)).expect(name))).collect()
}

/// Some bytes changed, left out, doubled or cut off.
fn mutated(bytes: &[u8], key: Key) -> Vec<u8> {
    let (mut bytes, mut draws) = (bytes.to_vec(), key.draws());
    for _ in 0..=draws.below(3) {
        let at = draws.below(bytes.len() as u64) as usize;
        let to = (at + 1 + draws.below(20) as usize).min(bytes.len());
        match draws.below(5) {
            0 => bytes[at] = draws.below(256) as u8,
            1 => drop(bytes.drain(at..to)),
            2 => bytes.truncate(at.max(1)),
            3 => bytes.insert(at, b"\"\n\r\t,{}[\0\xff"[draws.below(10) as usize]),
            _ => {
                let part = bytes[at..to].to_vec();
                bytes.splice(at..at, part);
            }
        }
        if bytes.is_empty() {
            bytes.push(b'x');
        }
    }
    bytes
}

/// Whether an error says where it is: a line, a row, or that a Parquet file as a whole is none.
fn placed(error: &DataError) -> bool {
    error.line.is_some()
        || error.message.starts_with("row ")
        || error.message.starts_with("this is no whole Parquet file")
}

#[test]
fn broken_files_are_refused_with_a_place_and_never_end_the_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut refused, mut read) = (0, 0);
    for n in 0..100 {
        for (name, bytes) in seeds() {
            let path = folder.path().join(&name);
            fs::write(&path, mutated(&bytes, Key::new(n).stream(&name))).expect("writable");
            let kind = if name.starts_with("tags") { "tagging" } else { "table" };
            let tokens = if kind == "tagging" { "blanks" } else { "words" };
            let settings = settings(kind, tokens, &[("train", &file(&path))]);
            let found = catch_unwind(AssertUnwindSafe(|| load(&settings, &["train"])));
            match found.unwrap_or_else(|_| panic!("{n} of {name} panicked")) {
                Ok(_) => read += 1,
                Err(error) => {
                    assert!(placed(&error), "{n} of {name}: {error}");
                    refused += 1;
                }
            }
            let looked = catch_unwind(AssertUnwindSafe(|| look(&path).map(|found| found.problems.len())));
            assert!(looked.is_ok(), "{n} of {name} panicked");
        }
    }
    assert!(refused > 150 && read > 20, "{refused} refused, {read} read");
}
