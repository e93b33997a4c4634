//! Splits out of generated candidates: distinct examples, and shares of a pool that can't overlap.
//!
//! Candidate `i` of a generator is a function of the seed and `i`, and splits take the candidates that belong to them in
//! order. So a split is the same for every machine, and a smaller one is a prefix of a larger one. Which split an
//! example may belong to is decided by its own hash, not by the seed: no test example can occur in any training set. `logic`
//! takes no shares: it has the published rule, and its splits are disjoint only within one seed and one number of pairs.

use std::collections::BTreeSet;

use super::{Example, GenerationRequest};
use crate::fingerprint::hash;

/// A share of all examples, as an interval of [0, 1).
pub(super) type ExampleShare = (f64, f64);

/// Every example.
pub(super) const ALL: ExampleShare = (0.0, 1.0);

/// The first `request.count` distinct candidates that are not excluded.
///
/// # Errors
/// A sentence, when `patience` candidates in a row give no new example: there are no more then.
pub(super) fn fill(
    request: &GenerationRequest<'_>,
    patience: u64,
    mut candidate: impl FnMut(u64) -> Option<Example>,
) -> Result<Vec<Example>, String> {
    // By hash: should two different examples ever share one, the second is left out, and what remains is distinct.
    let mut seen = BTreeSet::new();
    let mut examples = Vec::new();
    let (mut index, mut useless) = (0, 0);
    while examples.len() < request.count {
        let found = candidate(index);
        index += 1;
        useless += 1;
        if let Some(example) = found
            && !request.excludes(&example)
            && seen.insert(hash(&example.key()))
        {
            useless = 0;
            examples.push(example);
        }
        if useless > patience {
            let (count, split, found) = (request.count, request.split, examples.len());
            return Err(format!("{count} distinct examples were asked of `{split}`, and only {found} can be found"));
        }
    }
    Ok(examples)
}

/// Whether a place lies in a share.
pub(super) fn within((from, to): ExampleShare, place: f64) -> bool {
    from <= place && place < to
}
