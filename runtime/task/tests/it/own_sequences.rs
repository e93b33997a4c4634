//! Rows of `sequences`: an input, a separator, a target and its end.

use std::fs;
use std::path::Path;

use rtc_task::{DataSource, Example, ExampleTarget, TaskSettings, WrittenAnswer, load, open_task};

/// A task on a table of this text.
fn settings(folder: &Path, tokens: &str, text: &str) -> TaskSettings {
    let path = folder.join("rows.csv");
    fs::write(&path, text).expect("writable");
    let path = path.display().to_string();
    TaskSettings {
        name: "sequences".to_owned(),
        tokens: Some(tokens.to_owned()),
        data: Some(DataSource::Files([("train".to_owned(), path.clone()), ("dev".to_owned(), path)].into())),
        ..TaskSettings::default()
    }
}

/// The classes and weights of a row.
fn answers(row: &Example) -> (&[u32], &[f32]) {
    match &row.label {
        ExampleTarget::Each { class, weight } => (class, weight),
        other => panic!("an answer per token, and not {other:?}"),
    }
}

#[test]
fn targets_and_their_ends_are_scored_behind_the_separator() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = settings(folder.path(), "blanks", "source,target\na b,c\nb,a b c\n");
    let data = load(&settings, &["train"]).expect("readable");
    let (task, options) = open_task(&settings).expect("opened");
    // `b` comes three times, and `a` and `c` twice: both columns are counted.
    assert_eq!(task.vocabulary(&options), ["<unknown>", "b", "a", "c", "<separator>", "<end>"]);
    assert_eq!(task.classes(&options), task.vocabulary(&options));
    assert_eq!((data.vocabulary, data.classes), (6, 6));
    assert!(task.next_token(&options) && task.perplexity());
    assert_eq!(task.written_answer(), Some(WrittenAnswer { end: 5, most: 512 }));
    let [first, second] = data.split("train") else { panic!("two rows") };
    assert_eq!(first.tokens, [2, 1, 4, 3]);
    assert_eq!(answers(first), (&[1, 4, 3, 5][..], &[0.0, 0.0, 1.0, 1.0][..]));
    assert_eq!(second.tokens, [1, 4, 2, 1, 3]);
    assert_eq!(answers(second), (&[4, 2, 1, 3, 5][..], &[0.0, 1.0, 1.0, 1.0, 1.0][..]));
    // A question is an input with its separator, also where the text is empty or unknown.
    assert_eq!(task.encode("a x", &options), Ok(vec![2, 0, 4]));
    assert_eq!(task.encode(" ", &options), Ok(vec![]));
    assert_eq!(task.decode(&second.tokens, &options), "b <separator> a b c");
    assert_eq!(task.encoding(&options).behind, [4]);
}

#[test]
fn both_texts_are_cut_and_a_cut_target_has_no_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = settings(folder.path(), "characters", "source,target\nabcdef,xy\nab,vwxyz\n");
    settings.length = Some(4);
    let data = load(&settings, &["train"]).expect("readable");
    let (task, options) = open_task(&settings).expect("opened");
    let shown = |row: &Example| task.decode(&[&row.tokens[..1], answers(row).0].concat(), &options);
    let rows: Vec<String> = data.split("train").iter().map(shown).collect();
    assert_eq!(rows, ["abcd<separator>xy<end>", "ab<separator>vwxy"]);
    assert_eq!(data.split("train")[1].weight(), 4.0, "the end is no answer");
    let cuts = task.cuts("train");
    assert_eq!((cuts.rows, cuts.tokens), (2, 3));
    assert_eq!(task.cut("abcdef"), Ok(2));
    assert_eq!(task.encode("abcdef", &options).map(|tokens| tokens.len()), Ok(5));
}

#[test]
fn columns_have_names_of_their_own_and_rows_need_both() {
    let folder = tempfile::tempdir().expect("a folder");
    for (text, why) in [
        ("source,target\na,b\nc,\n", "rows.csv:3: `target` has no tokens"),
        ("source,target\na,b\n\"\",b\n", "rows.csv:3: `source` has no tokens"),
        ("text,label\na,b\n", "there is no column `source`"),
        ("source,target\n", "there is no row"),
    ] {
        let settings = settings(folder.path(), "characters", text);
        let error = load(&settings, &["train"]).expect_err(why).to_string();
        assert!(error.contains(why), "{error} should say {why}");
    }
}

#[test]
fn bytes_are_tokens_with_two_marks_behind_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = settings(folder.path(), "bytes", "source,target\nä,o\n");
    let data = load(&settings, &["train"]).expect("readable");
    assert_eq!(data.vocabulary, 258);
    assert_eq!(data.split("train")[0].tokens, [195, 164, 256, 111]);
    assert_eq!(answers(&data.split("train")[0]).0, [164, 256, 111, 257]);
}
