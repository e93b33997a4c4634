//! Readers of the published files.

use std::path::Path;

use super::formula::{Relation, parse, relation};
use super::{SYMBOLS, TRAINING_BUCKETS, example};
use crate::error::DataError;
use crate::held::{joined, lines};
use crate::reading::{find, nothing_published};
use crate::{DataFolder, Example, ids};

/// Every so manieth row of training is one of dev.
pub(super) const DEV_EVERY: usize = 10;

/// Reads `relation TAB formula TAB formula`; the relation is worked out again.
pub(super) fn read(path: &Path) -> Result<Vec<Example>, DataError> {
    lines(path, |_, text| row(text).map(Some))
}

fn row(text: &str) -> Result<Example, String> {
    let columns: Vec<&str> = text.split('\t').collect();
    let &[sign, left, right] = columns.as_slice() else {
        return Err(format!("a row has three columns with tabs between them, and this one has {}", columns.len()));
    };
    let label = Relation::ALL.into_iter().find(|relation| relation.sign() == sign);
    let label = label.ok_or_else(|| format!("`{sign}` is the sign of no relation"))?;
    match relation(&parse(left)?, &parse(right)?)? {
        found if found == label => Ok(example(tokens(left)?, tokens(right)?, label)),
        found => Err(format!("the label is {sign}, but the formulas are related by {}", found.sign())),
    }
}

/// The ids of symbols with blanks between them.
pub(super) fn tokens(text: &str) -> Result<Vec<u32>, String> {
    ids(text.split_whitespace(), &SYMBOLS, "symbol of a formula")
}

/// Reads a split from the folder with the files `train0` to `train12` and `test0` to `test12`: training is `train0` to
/// `train6` one after the other, of which every tenth row is one of dev.
pub(super) fn read_folder(folder: &DataFolder<'_>) -> Result<Option<Vec<Example>>, DataError> {
    let file = |kind: &str, bucket: usize| find(folder.path, &[&format!("{kind}{bucket}")]);
    let some = |kind: &str| (0..=super::LAST).any(|bucket| file(kind, bucket).is_some());
    if !some("train") && !some("test") {
        return Err(nothing_published(folder.path, "train0 or test0"));
    }
    if let Some(bucket) = super::bucket_of(folder.split) {
        return file("test", bucket).map(|path| read(&path)).transpose();
    }
    if !some("train") {
        return Ok(None);
    }
    let rows = joined(folder.path, TRAINING_BUCKETS.iter().map(|bucket| format!("train{bucket}")), read)?;
    let dev = folder.split == "dev";
    let kept = rows.into_iter().enumerate().filter(|(n, _)| ((n + 1) % DEV_EVERY == 0) == dev);
    Ok(Some(kept.map(|(_, row)| row).collect()))
}
