//! Hidden tokens of a training: every pass hides others, and a feed that begins later hides the same.

use std::collections::BTreeMap;
use std::fs;

use rtc_task::batching::Cursor;
use rtc_task::{Example, ExampleTarget};
use rtc_train::Feed;

use crate::mock::of;

/// The text of a row, which are its answers, and what the model is given of it.
fn parts(row: &Example) -> (Vec<u32>, Vec<u32>) {
    match &row.label {
        ExampleTarget::Each { class, .. } => (class.clone(), row.tokens.clone()),
        other => panic!("an answer per token, and not {other:?}"),
    }
}

/// The rows of a pass by their texts.
fn pass(feed: &mut Feed<'_>, epoch: u64) -> BTreeMap<Vec<u32>, Vec<u32>> {
    let mut rows = BTreeMap::new();
    for batch in 0..feed.batches() {
        let cursor = Cursor { epoch, batch };
        let examples = feed.examples(cursor, epoch * feed.batches() + batch).expect("stored examples");
        rows.extend(examples.iter().map(|row| parts(row)));
    }
    rows
}

#[test]
fn every_pass_hides_other_tokens_of_the_same_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("text.txt");
    fs::write(&path, (0..3_000).map(|n| format!("w{n} ")).collect::<String>()).expect("writable");
    let text = format!(
        "task: {{ name: masked, data: {{ train: '{}', dev: 20% }}, length: 40 }}\noptimiser: {{ learning_rate: 0.1 }}\n\
         schedule: {{ kind: constant }}\nbatch: {{ size: 8 }}\nepochs: 3\nevaluate: [dev]\n",
        path.display()
    );
    let (experiment, data) = of(&text, &[]);
    let mut feed = Feed::new(&experiment, &data, 7).expect("stored examples");
    let passes = [0, 1, 2].map(|epoch| pass(&mut feed, epoch));
    let measured: BTreeMap<_, _> = data.split("train").iter().map(parts).collect();
    for (n, rows) in passes.iter().enumerate() {
        assert!(rows.keys().eq(measured.keys()), "the same texts");
        for other in passes[..n].iter().chain([&measured]) {
            let same = rows.iter().filter(|(text, given)| other[*text] == **given).count();
            assert_eq!(same, 0, "pass {n} hides other tokens");
        }
    }
    // What a pass hides follows from its number: a resumed run hides it, and so does one with other weights or another order.
    for seed in [7, 8] {
        let mut later = Feed::new(&experiment, &data, seed).expect("stored examples");
        assert_eq!(pass(&mut later, 2), passes[2], "seed {seed}");
    }
}
