//! Tests on random tables: the number of threads changes nothing that is read of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rtc_base::rng::{Draws, Key};

use rtc_task::{DataSource, TaskSettings, TextForm, Unlabelled, load, look, open_task};

/// A table with texts and labels, of which some are wrong in some tables.
fn table(draws: &mut Draws) -> String {
    let words = ["good", "b\u{e4}d", "\"\"so\"\"", "a,b", "x\ny", "1", "...", "\u{a0}", "long-words-that-are-joined"];
    let (wrong, rows, variety) = (draws.below(3) == 0, 50 + draws.below(900), 1 + draws.below(500));
    let row = |n: u64| {
        let mut word = || match draws.below(12) {
            at @ 0..9 => words[at as usize].to_owned(),
            _ => format!("w{}", draws.below(variety)),
        };
        let text = (0..1 + n % 7).map(|_| word()).collect::<Vec<_>>().join(" ");
        match draws.below(300) {
            0 if wrong => format!("\"{text}\",\n"),
            1 if wrong => format!("\"{text}\"\n"),
            2 if wrong => format!("\"{text}\"z,1\n"),
            3 if wrong => "\" \",1\n".to_owned(),
            label => format!("\"{text}\",{}\r\n", label % 3),
        }
    };
    format!("text,label\n{}", (0..rows).map(row).collect::<String>())
}

/// Reads a table with a number of threads: the first look, what is learned, the problems and the rows, as text.
fn read(path: &Path, settings: &TaskSettings, threads: usize) -> String {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool of threads");
    pool.install(|| {
        let seen = look(path, TextForm::default()).map_err(|error| error.to_string());
        // Clones share what was learned.
        let settings = TaskSettings { known: rtc_task::TaskContext::default(), ..settings.clone() };
        let opened = open_task(&settings).map(|(task, _)| (task.kept(), task.problems(&settings, 3)));
        let opened = opened.map_err(|error| error.to_string());
        let data = load(&settings, &["train", "dev"]).map_err(|error| error.to_string());
        format!("{seen:#?}\n{opened:#?}\n{data:#?}")
    })
}

#[test]
fn threads_change_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.csv");
    let (mut right, mut wrong) = (0, 0);
    for n in 0..40 {
        let mut draws = Key::new(n).draws();
        fs::write(&path, table(&mut draws)).expect("written");
        let files = [("train", path.display().to_string()), ("dev", format!("{}%", 1 + draws.below(60)))];
        let files: BTreeMap<String, String> = files.map(|(split, file)| (split.to_owned(), file)).into();
        let settings = TaskSettings {
            name: "table".to_owned(),
            tokens: Some(["words", "blanks", "characters"][draws.below(3) as usize].to_owned()),
            vocabulary: Some(2 + draws.below(200) as usize),
            length: Some(1 + draws.below(9) as usize),
            unlabelled: (draws.below(2) == 0).then_some(Unlabelled::Skip),
            data: Some(DataSource::Files(files)),
            ..TaskSettings::default()
        };
        let alone = read(&path, &settings, 1);
        *(if alone.contains("Err(") { &mut wrong } else { &mut right }) += 1;
        for threads in [2, 3, 8] {
            assert_eq!(read(&path, &settings, threads), alone, "table {n} by {threads} threads");
        }
    }
    assert!(right > 5 && wrong > 5, "{right} {wrong}");
}
