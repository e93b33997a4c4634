//! Windows of `masked`: a share of the tokens is hidden, by the seed, the row and the pass.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rtc_task::{DataSource, Dataset, Example, ExampleTarget, TaskSettings, load, open_task};

/// A task on a text of so many words.
fn settings(folder: &Path, words: usize) -> TaskSettings {
    let text: String = (0..words).map(|n| format!("w{}{}", n * n % 97, if n % 9 == 8 { "\n" } else { " " })).collect();
    let path = folder.join("text.txt");
    fs::write(&path, text).expect("writable");
    TaskSettings {
        name: "masked".to_owned(),
        length: Some(100),
        data: Some(DataSource::Files(
            [("train".to_owned(), path.display().to_string()), ("dev".to_owned(), "30%".to_owned())].into(),
        )),
        ..TaskSettings::default()
    }
}

/// The answers of a row, and which tokens are hidden.
fn answers(row: &Example) -> (&[u32], Vec<usize>) {
    match &row.label {
        ExampleTarget::Each { class, weight } => {
            let hidden = weight.iter().enumerate().filter(|(_, weight)| **weight > 0.0).map(|(at, _)| at);
            (class, hidden.collect())
        }
        other => panic!("an answer per token, and not {other:?}"),
    }
}

fn data(settings: &TaskSettings) -> Dataset {
    let known = rtc_task::TaskContext::default();
    load(&TaskSettings { known, ..settings.clone() }, &["train", "dev"]).expect("readable")
}

#[test]
fn a_share_of_the_tokens_is_hidden_and_the_others_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = settings(folder.path(), 30_000);
    let data = load(&settings, &["train", "dev"]).expect("readable");
    let (task, options) = open_task(&settings).expect("opened");
    let names = task.vocabulary(&options);
    let mask = names.len() as u32 - 1;
    assert_eq!((names[mask as usize].as_str(), task.classes(&options)), ("<mask>", names.clone()));
    assert!(!task.next_token(&options) && task.perplexity());
    let (mut hidden, mut all, mut kinds) = (0, 0, [0; 3]);
    for row in data.split("train") {
        let (class, places) = answers(row);
        assert_eq!(places.len(), ((0.15 * class.len() as f64).round() as usize).max(1));
        assert!(class.iter().all(|class| *class < mask), "a mask is no answer");
        (hidden, all) = (hidden + places.len(), all + class.len());
        for (at, (token, class)) in row.tokens.iter().zip(class).enumerate() {
            let kind = if *token == mask { 0 } else { 1 + usize::from(token == class) };
            if places.contains(&at) { kinds[kind] += 1 } else { assert_eq!(kind, 2) }
        }
    }
    // Some random tokens are the right ones: about 1 of the 99 of the vocabulary.
    assert!((hidden as f64 / all as f64 - 0.15).abs() < 0.001, "{hidden} of {all}");
    for (kind, share) in kinds.into_iter().zip([0.8, 0.099, 0.101]) {
        let found = f64::from(kind) / hidden as f64;
        assert!((found - share).abs() < 0.025, "{found} and not {share}");
    }
    // Every token of the text is an answer, hidden or not.
    let whole: usize = ["train", "dev"].iter().flat_map(|split| data.split(split)).map(|row| row.tokens.len()).sum();
    assert_eq!(whole, 30_000 + 3_333, "words and line ends");
}

#[test]
fn measured_rows_are_fixed_and_trained_ones_are_hidden_anew_in_every_pass() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = settings(folder.path(), 4_000);
    let (first, again) = (data(&settings), data(&settings));
    assert_eq!(first, again);
    let masking = first.masking.clone().expect("tokens are hidden");
    let row = &first.split("train")[3];
    let passes: Vec<Example> = (0..20).map(|pass| masking.of_pass(row, 3, pass)).collect();
    let places: BTreeMap<Vec<usize>, ()> = passes.iter().map(|row| (answers(row).1, ())).collect();
    assert_eq!(places.len(), 20, "every pass hides other tokens");
    assert!(passes.iter().all(|pass| answers(pass).0 == answers(row).0), "the answers are the text");
    assert_eq!(masking.of_pass(&passes[7], 3, 11), passes[11], "a row that was drawn is drawn again");
    assert_ne!(masking.of_pass(row, 4, 0), passes[0]);
    let other = data(&TaskSettings { seed: 1, ..settings.clone() });
    assert_ne!(other.split("dev"), first.split("dev"));
    let many = data(&TaskSettings { share: Some(0.5), ..settings });
    assert_eq!(answers(&many.split("dev")[0]).1.len(), 50);
    assert_ne!(many.fingerprint_of("dev"), first.fingerprint_of("dev"), "the share is a part of the data");
}

#[test]
fn a_person_writes_the_mask_and_files_do_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = settings(folder.path(), 400);
    load(&settings, &["train"]).expect("readable");
    let (task, options) = open_task(&settings).expect("opened");
    let mask = task.vocabulary(&options).len() as u32 - 1;
    let tokens = task.encode("w1 <mask> w4 <mask>", &options).expect("known words");
    assert_eq!((tokens.len(), tokens[1], tokens[3]), (4, mask, mask));
    assert_eq!(task.decode(&tokens, &options), "w1 <mask> w4 <mask>");
    assert_eq!(task.encoding(&options).marks["<mask>"], mask);
    settings.known = rtc_task::TaskContext::default();
    settings.tokens = Some("characters".to_owned());
    fs::write(folder.path().join("text.txt"), "a <mask> b\n".repeat(50)).expect("writable");
    let data = load(&settings, &["train"]).expect("readable");
    let (task, options) = open_task(&settings).expect("opened");
    let mask = task.vocabulary(&options).len() as u32 - 1;
    assert!(data.split("train").iter().all(|row| !answers(row).0.contains(&mask)));
    assert_eq!(task.encode("a<mask>b", &options).map(|tokens| tokens.len()), Ok(3));
    for (share, why) in [(0.0, "got 0"), (1.0, "got 1"), (f64::NAN, "got NaN")] {
        let wrong = TaskSettings { share: Some(share), known: rtc_task::TaskContext::default(), ..settings.clone() };
        let error = load(&wrong, &["train"]).expect_err(why).to_string();
        assert!(error.contains("`share` must lie above 0 and below 1") && error.contains(why), "{error}");
    }
}
