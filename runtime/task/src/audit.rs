//! An audit of the data of an experiment: sizes, lengths, classes, tokens
//! that the vocabulary does not have, and rows that several splits have.

use super::summary::spread;
use super::{Cuts, Dataset, Example, SplitDescription, Stream, Task, describe};

/// What is to be known of a split.
#[derive(Clone, Debug, PartialEq)]
pub struct Audit {
    /// Its name.
    pub split: String,
    /// Sizes, lengths and classes.
    pub description: SplitDescription,
    /// The share of its tokens that the vocabulary does not have.
    pub unknown: Option<f64>,
    /// Rows whose input stands in the training split, too; nothing where that is not held in memory.
    pub trained: Option<usize>,
    /// Rows whose input an earlier row of the split has.
    pub repeated: Option<usize>,
    /// What was left out of it.
    pub cuts: Cuts,
}

impl Audit {
    /// What was left out, a sentence each.
    pub fn left_out(&self) -> Vec<String> {
        let (Cuts { rows, tokens, unlabelled }, found) = (self.cuts, &self.description);
        let share = 100.0 * tokens as f64 / (tokens + found.tokens).max(1) as f64;
        let all = found.examples;
        let cut = || format!("{rows} of {all} rows are cut to `task.length`: {share:.1} % of the tokens are left out");
        let skipped = || match unlabelled {
            1 => "1 row without a label is skipped".to_owned(),
            many => format!("{many} rows without a label are skipped"),
        };
        [(rows > 0).then(cut), (unlabelled > 0).then(skipped)].into_iter().flatten().collect()
    }
}

/// Looks at every split of some data; `train` is the name of the one that is trained on.
pub fn audit(task: &dyn Task, data: &Dataset, train: &str) -> Vec<Audit> {
    let keys = |examples: &[Example]| examples.iter().map(Example::key).collect::<Vec<_>>();
    let mut known = keys(data.split(train));
    known.sort_unstable();
    let one = |(split, examples): (&String, &Vec<Example>)| {
        let mut own = keys(examples);
        let rows = own.len();
        let common = || own.iter().filter(|key| known.binary_search(key).is_ok()).count();
        let held = !data.streams.contains_key(train);
        let trained = if split == train { Some(0) } else { held.then(common) };
        own.sort_unstable();
        own.dedup();
        Audit {
            split: split.clone(),
            description: describe(examples),
            unknown: task.unknown().map(|unknown| share(examples, unknown)),
            trained,
            repeated: Some(rows - own.len()),
            cuts: task.cuts(split),
        }
    };
    data.streams.iter().map(|stream| streamed(task, stream)).chain(data.splits.iter().map(one)).collect()
}

/// What is known of a split without reading its rows again.
fn streamed(task: &dyn Task, (split, Stream(rows)): (&String, &Stream)) -> Audit {
    let mut lengths: Vec<usize> = (0..rows.count()).map(|row| rows.length(row)).collect();
    lengths.sort_unstable();
    let description = SplitDescription {
        examples: rows.count(),
        tokens: rows.tokens() as usize,
        lengths: spread(&lengths),
        mean_length: lengths.iter().sum::<usize>() as f64 / lengths.len().max(1) as f64,
        label_shares: rows.label_shares(),
        given: vec![],
    };
    Audit { split: split.clone(), description, unknown: None, trained: Some(0), repeated: None, cuts: task.cuts(split) }
}

/// The share of one token among all.
fn share(examples: &[Example], token: u32) -> f64 {
    let tokens = || examples.iter().flat_map(|example| example.tokens.iter().chain(example.second.iter().flatten()));
    tokens().filter(|own| **own == token).count() as f64 / tokens().count().max(1) as f64
}
