//! What the data of an experiment looks like to somebody who wonders whether it is what he means: sizes, lengths, classes, tokens
//! that the vocabulary does not have, and rows that several splits have.

use super::{Dataset, Description, Example, Task, describe};

/// What is to be known of a split.
#[derive(Clone, Debug, PartialEq)]
pub struct Audit {
    /// Its name.
    pub split: String,
    /// Sizes, lengths and classes.
    pub description: Description,
    /// The share of its tokens that the vocabulary does not have.
    pub unknown: f64,
    /// Rows whose input stands in the training split, too.
    pub trained: usize,
    /// Rows whose input an earlier row of the split has.
    pub repeated: usize,
}

/// Looks at every split of some data; `train` is the name of the one that is trained on.
pub fn audit(task: &dyn Task, data: &Dataset, train: &str) -> Vec<Audit> {
    let keys = |examples: &[Example]| examples.iter().map(Example::key).collect::<Vec<_>>();
    let mut known = keys(data.split(train));
    known.sort_unstable();
    let one = |(split, examples): (&String, &Vec<Example>)| {
        let mut own = keys(examples);
        let rows = own.len();
        let trained =
            if split == train { 0 } else { own.iter().filter(|key| known.binary_search(key).is_ok()).count() };
        own.sort_unstable();
        own.dedup();
        Audit {
            split: split.clone(),
            description: describe(examples),
            unknown: task.unknown().map_or(0.0, |unknown| share(examples, unknown)),
            trained,
            repeated: rows - own.len(),
        }
    };
    data.splits.iter().map(one).collect()
}

/// The share of one token among all.
fn share(examples: &[Example], token: u32) -> f64 {
    let tokens = || examples.iter().flat_map(|example| example.tokens.iter().chain(example.second.iter().flatten()));
    tokens().filter(|own| **own == token).count() as f64 / tokens().count().max(1) as f64
}
