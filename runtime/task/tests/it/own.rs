//! Tasks on files of the user's own: what is read of files that common programs write, and that broken files are refused.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use rtc_base::rng::Key;
use rtc_task::error::DataError;
use rtc_task::{Column, Dataset, Example, ExampleTarget, TextForm, load, look, open_task, sample};
use rtc_task::{Columns, DataSource, TaskContext, TaskSettings};

/// Files that Python's csv, pandas and datasets wrote (`make.py` beside them).
fn files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/own_files")
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
        assert_eq!(look(&path, TextForm::default()).expect("readable").rows, 7, "{name}");
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
    settings.known = TaskContext::default();
    assert_eq!(load(&settings, &splits).expect("read"), data, "the same rows again");
    let other = TaskSettings { seed: 1, known: TaskContext::default(), ..settings.clone() };
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
    again.known = TaskContext::new(vec![], task.kept().map(Into::into));
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
                ExampleTarget::Each { class, .. } => class.clone(),
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
    settings.known = TaskContext::new(settings.known.folders.clone(), task.kept().map(Into::into));
    assert_eq!(load(&settings, &["train"]).expect("read"), data);
    fs::write(folder.path().join("tokenizer.json"), "{}").expect("writable");
    settings.known = TaskContext::new(settings.known.folders.clone(), None);
    let error = load(&settings, &["train"]).expect_err("no tokenizer").to_string();
    assert!(error.contains("tokenizer.json: this is no tokenizer.json"), "{error}");
}

#[test]
fn windows_know_the_bytes_of_their_text_whatever_the_tokens_are() {
    let folder = tempfile::tempdir().expect("a folder");
    // The small letters of `İ` have more bytes than it has.
    let tokenizer = r#"{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":{"type":"Lowercase"},
        "pre_tokenizer":{"type":"Whitespace"},"post_processor":null,"decoder":null,
        "model":{"type":"WordLevel","vocab":{"[UNK]":0,"good":1,"bad":2},"unk_token":"[UNK]"}}"#;
    fs::write(folder.path().join("tokenizer.json"), tokenizer).expect("writable");
    let text = "Good  bAd İİ!\n\n bad, é\n".repeat(700);
    fs::write(folder.path().join("a.txt"), &text).expect("writable");
    for (tokens, first) in [("bytes", 1), ("characters", 1), ("words", 4), ("blanks", 4), ("tokenizer.json", 4)] {
        let mut settings = settings("language", tokens, &[("train", "a.txt")]);
        settings.known.folders = vec![folder.path().to_owned()];
        settings.length = Some(7);
        let data = load(&settings, &["train"]).expect("read");
        let rows = data.split("train");
        let bytes: u32 = rows.iter().map(|row| row.text_bytes.expect("a text")).sum();
        assert_eq!(bytes as usize + first, text.len(), "{tokens}");
        if tokens == "bytes" {
            assert!(rows.iter().all(|row| row.text_bytes == Some(row.tokens.len() as u32)));
        }
    }
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
            let looked =
                catch_unwind(AssertUnwindSafe(|| look(&path, TextForm::default()).map(|found| found.problems.len())));
            assert!(looked.is_ok(), "{n} of {name} panicked");
        }
    }
    assert!(refused > 150 && read > 20, "{refused} refused, {read} read");
}

/// The task of some files of a temporary folder.
fn written(name: &str, tokens: &str, files: &[(&str, &str, &[u8])]) -> (tempfile::TempDir, TaskSettings) {
    let folder = tempfile::tempdir().expect("a folder");
    files.iter().for_each(|(_, file, bytes)| fs::write(folder.path().join(file), bytes).expect("writable"));
    let named: Vec<(&str, &str)> =
        files.iter().filter(|(split, ..)| !split.is_empty()).map(|(split, file, _)| (*split, *file)).collect();
    let mut settings = settings(name, tokens, &named);
    settings.known.folders = vec![folder.path().to_owned()];
    (folder, settings)
}

/// What is said of a training file.
fn refused(file: &str, text: &[u8]) -> String {
    let (_folder, settings) = written("table", "words", &[("train", file, text)]);
    load(&settings, &["train"]).expect_err(file).to_string()
}

#[test]
fn numbers_of_json_lines_are_those_of_other_files() {
    let row = |n: usize, label: &str| format!("{{\"text\": \"word {n}\", \"label\": {label}}}\n");
    let labels = ["12345678901234567890123", "7", "12345678901234567890124", "7"];
    let lines: String = (0..40).map(|n| row(n, labels[n % 4])).collect();
    let (_folder, settings) = written("table", "words", &[("train", "a.jsonl", lines.as_bytes())]);
    load(&settings, &["train"]).expect("read");
    let (task, options) = open_task(&settings).expect("opened");
    assert_eq!(task.classes(&options), ["12345678901234567890123", "12345678901234567890124", "7"]);
    let table = "text,label\n".to_owned() + &(0..40).map(|n| format!("word {n},{}\n", n % 2)).collect::<String>();
    let dev: String =
        [(0, "0.0"), (1, "1.0"), (2, "-0.0"), (3, "1e0"), (4, "0")].map(|(n, label)| row(n, label)).concat();
    let (_folder, settings) =
        written("table", "words", &[("train", "a.csv", table.as_bytes()), ("dev", "b.jsonl", dev.as_bytes())]);
    let data = load(&settings, &["train", "dev"]).expect("1.0 and 1 are one class");
    let found: Vec<String> = rows(&settings, &data, "dev").into_iter().map(|(_, label)| label).collect();
    assert_eq!(found, ["0", "1", "0", "1", "0"]);
    // Items of lists, and numbers in texts, too.
    let lines = "{\"text\": [1.0, \"b\"], \"label\": [2.0, 3]}\n{\"text\": [1, \"b\"], \"label\": [2, 3.0]}\n";
    let (_folder, settings) = written("tagging", "blanks", &[("train", "a.jsonl", lines.as_bytes())]);
    let data = load(&settings, &["train"]).expect("read");
    let found = rows(&settings, &data, "train");
    assert_eq!(found[0], found[1]);
}

#[test]
fn names_that_stand_twice_are_refused() {
    let twice = b"{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\", \"label\": 0, \"label\": 1}\n";
    assert!(refused("a.jsonl", twice).contains("a.jsonl:2: the key `label` stands twice"));
    let unread = b"{\"text\": \"a\", \"label\": 1, \"x\": 1, \"\\u0078\": 2}\n";
    assert!(refused("a.jsonl", unread).contains("a.jsonl:1: the key `x` stands twice"));
    assert!(refused("a.csv", b"text,label,label\na,1,2\n").contains("the header names the column `label` twice"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/twice.parquet");
    let error = load(&settings("table", "words", &[("train", &file(&path))]), &["train"]).expect_err("two columns");
    assert!(error.to_string().contains("the file has the column `label` twice"), "{error}");
    assert!(look(&path, TextForm::default()).expect_err("two columns").to_string().contains("twice"));
}

#[test]
fn tables_of_other_shapes_are_refused_with_the_reason() {
    for (name, text, why) in [
        ("blank.tsv", &b"text\tlabel\ngood\tyes\n \t \nbad\tno\n"[..], "blank.tsv:3: `text` has no tokens"),
        ("blank.csv", b"text,label\ngood,yes\n , \nbad,no\n", "blank.csv:3: `text` has no tokens"),
        ("tabs.tsv", b"text\tlabel\ngood\tyes\n\t\nbad\tno\n", "`text` has no tokens"),
        ("returns.csv", b"text,label\rgood,yes\rbad,no\r", "returns.csv:1: this row has a carriage return"),
        ("one.csv", b"text,label\ngood,yes\rbad,no\n", "one.csv:2: this row has a carriage return"),
        ("semicolons.csv", b"text;label\ngood;yes\nbad;no\n", "the cells have `;` between them, and `,` is wanted"),
        ("tabs.csv", b"text\tlabel\ngood\tyes\nbad\tno\n", "the cells have a tab between them"),
        ("commas.tsv", b"text,label\ngood,yes\nbad,no\n", "the cells have `,` between them, and a tab is wanted"),
        ("empty.csv", b"", "empty.csv:1: the file is empty"),
        ("header.csv", b"text,label\n", "there is no row"),
        ("empty.jsonl", b"", "there is no row"),
        (
            "returns.jsonl",
            b"{\"text\": \"a\", \"label\": 1}\r{\"text\": \"b\", \"label\": 0}\r",
            "a carriage return alone",
        ),
        ("nan.jsonl", b"{\"text\": \"a\", \"label\": NaN}\n", "this line is no JSON"),
        ("huge.jsonl", b"{\"text\": \"a\", \"label\": 1e999}\n", "larger than every number in double precision"),
    ] {
        let error = refused(name, text);
        assert!(error.contains(why) && error.len() < 600, "{name}: {error}");
    }
    // A blank line is no row, a quoted cell may hold a carriage return, and the last line feed may be lost.
    let text = b"\xEF\xBB\xBF\"text\",label\r\n\"a\rb\",yes\r\n  \r\nbad,no\r";
    let (_folder, settings) = written("table", "words", &[("train", "a.csv", text)]);
    let data = load(&settings, &["train"]).expect("read");
    assert_eq!(
        rows(&settings, &data, "train"),
        [("a b", "yes"), ("bad", "no")].map(|(a, b)| (a.to_owned(), b.to_owned()))
    );
}

#[test]
fn texts_begin_behind_their_mark_and_end_before_the_next_one() {
    let text: String =
        (0..900).map(|n| format!("line {n}: {}\n", "x ".repeat(n % 40))).collect::<String>() + &"y".repeat(9_000);
    let of = |files: &[(&str, &str, &[u8])], tokens: &str| {
        let (_folder, mut settings) = written("language", tokens, files);
        settings.length = Some(50);
        let data = load(&settings, &["train"]).expect("read");
        let (task, options) = open_task(&settings).expect("opened");
        (data.split("train").to_vec(), task.vocabulary(&options))
    };
    let returns = text.replace('\n', "\r\n");
    let (marked, both) = ("\u{feff}".to_owned() + &text, "\u{feff}".to_owned() + &returns);
    let halves = text.split_at(text.find("line 450").expect("it is there"));
    let mark = || "\u{feff}".to_owned();
    let parts = [mark() + halves.0.trim_end_matches('\n'), mark() + &halves.1.replace('\n', "\r\n")];
    for tokens in ["characters", "words", "bytes"] {
        let plain = of(&[("train", "a.txt", text.as_bytes())], tokens);
        for other in [&returns, &marked, &both] {
            assert!(of(&[("train", "a.txt", other.as_bytes())], tokens) == plain, "{tokens}");
        }
        let (first, second) = (parts[0].as_bytes(), parts[1].as_bytes());
        let files = [("p1.txt", first), ("p2.txt", b"\xEF\xBB\xBF"), ("p3.txt", second)];
        let folder = tempfile::tempdir().expect("a folder");
        files.iter().for_each(|(file, bytes)| fs::write(folder.path().join(file), bytes).expect("writable"));
        let mut settings = settings("language", tokens, &[("train", "p*.txt")]);
        (settings.known.folders, settings.length) = (vec![folder.path().to_owned()], Some(50));
        let data = load(&settings, &["train"]).expect("read");
        let joined = |rows: &[Example]| rows.iter().flat_map(|row| row.tokens.clone()).collect::<Vec<_>>();
        assert_eq!(joined(data.split("train")), joined(&plain.0), "{tokens}");
    }
}

#[test]
fn a_tokenizer_that_draws_is_refused() {
    let model = |more: &str| {
        format!(
            r#"{{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,"pre_tokenizer":null,
            "post_processor":null,"decoder":null,"model":{{"type":"BPE",{more}"unk_token":null,
            "continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,
            "vocab":{{"a":0,"b":1,"ab":2}},"merges":[["a","b"]]}}}}"#
        )
    };
    let rows = b"{\"text\": \"abab\", \"label\": 1}\n{\"text\": \"ba\", \"label\": 0}\n";
    for (more, why) in [
        (r#""dropout":0.1,"#, "`model.dropout` of this tokenizer.json is 0.1"),
        (r#""dropout":0.1,"dropout":null,"#, "the key `dropout` stands twice"),
        (r#""dropout":null,"#, ""),
        (r#""dropout":0.0,"#, ""),
        ("", ""),
    ] {
        let json = model(more);
        let files: [(&str, &str, &[u8]); 2] = [("train", "a.jsonl", rows), ("", "tokenizer.json", json.as_bytes())];
        let (_folder, settings) = written("table", "tokenizer.json", &files);
        let found = load(&settings, &["train"]).map(|data| data.split("train")[0].tokens.clone());
        match found {
            Ok(tokens) => assert!(why.is_empty() && tokens == [2, 2], "{more}: {tokens:?}"),
            Err(error) => assert!(!why.is_empty() && error.to_string().contains(why), "{more}: {error}"),
        }
    }
}

#[test]
fn numbers_of_every_size_are_answers_and_those_out_of_reach_are_refused() {
    let table = |unit: f64| {
        "text,label\n".to_owned() + &(0..30).map(|n| format!("w{n},{:e}\n", unit * n as f64)).collect::<String>()
    };
    for unit in [1e-200, 1.0, 1e154, 1e200] {
        let mut own = written("table", "words", &[("train", "a.csv", table(unit).as_bytes())]);
        own.1.answer = Some(rtc_task::Answer::Number);
        let data = load(&own.1, &["train"]).expect("read");
        let number = |row: &Example| if let ExampleTarget::Number(number) = row.label { number } else { f32::NAN };
        let sum: f32 = data.split("train").iter().map(|row| number(row).powi(2)).sum();
        assert!((sum / 30.0 - 1.0).abs() < 1e-3, "{unit:e}: {sum}");
    }
    for (dev, why) in [("good,1e154\n", "too far from them for single precision"), ("good,1e305\n", "in a larger unit")]
    {
        let dev = "text,label\nw,1\n".to_owned() + dev;
        let files = [("train", "a.csv", table(1.0).into_bytes()), ("dev", "b.csv", dev.into_bytes())];
        let mut own =
            written("table", "words", &files.each_ref().map(|(split, file, text)| (*split, *file, &text[..])));
        own.1.answer = Some(rtc_task::Answer::Number);
        let error = load(&own.1, &["train", "dev"]).expect_err(why).to_string();
        assert!(error.contains("b.csv:3: `label` ") || error.contains("b.csv: row 3: `label` "), "{error}");
        assert!(error.contains(why), "{error}");
    }
}
