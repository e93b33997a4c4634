//! The rows of a training file that are shares of it: by the hashes of their inputs, for all rows at once or class by class.

use std::collections::BTreeMap;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::learn::{MAX_CLASSES, MAX_ROWS, few, items, label as label_of};
use super::plan::TaskPlan;
use crate::error::DataError;
use crate::files::{FileCell, FileRow};
use crate::share::{ranges, stratified};
use crate::stream::Stamp;
use rtc_base::rng::Key;

/// The hashes of the rows of files, by which they go to splits.
#[derive(Debug, Default)]
pub(super) struct RowHashes(Vec<(Stamp, Vec<u64>)>);

impl RowHashes {
    /// The most rows whose hashes are held.
    const MOST: usize = 1 << 22;

    /// The hashes of a file that has not changed, by the numbers of its records.
    pub(super) fn of(&self, path: &Path) -> Option<&[u64]> {
        let (stamp, hashes) = self.0.iter().find(|(stamp, _)| stamp.path == path)?;
        stamp.open().ok().map(|_| hashes.as_slice())
    }

    /// Adds the hash of a record of the last file.
    fn add(&mut self, number: usize, hash: u64) {
        if let Some((_, hashes)) = self.0.last_mut() {
            hashes.resize(number, 0);
            hashes.push(hash);
        }
    }
}

/// The part of the training file that another split has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SplitShare {
    pub(super) split: String,
    /// Of rows: the hashes of their inputs, from the first to the last. Of stratified rows: those of inputs with several labels.
    hashes: Option<[u64; 2]>,
    /// Of stratified rows: the same by label.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    strata: BTreeMap<String, [u64; 2]>,
    /// Of texts: the share of their bytes.
    text: [f64; 2],
}

/// How rows are placed among the shares.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ShareRule {
    pub(super) seed: u64,
    /// Where every label has its own range of hashes: the hashes of inputs that stand with several labels, in their order. These rows
    /// are a stratum of their own, so that equal inputs stay together.
    pub(super) several: Option<Arc<Vec<u64>>>,
}

impl ShareRule {
    /// The label by whose range a row is placed; nothing where there is one range for all.
    fn stratum(&self, hash: u64, label: Option<&FileCell>) -> Option<String> {
        let several = self.several.as_ref()?;
        several.binary_search(&hash).is_err().then(|| stratum(label))
    }
}

/// The name of the stratum of a row: its label, or an empty text without one.
fn stratum(label: Option<&FileCell>) -> String {
    label.and_then(|cell| label_of(cell).ok()).unwrap_or_default()
}

/// Rows of a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RowFilter {
    All,
    Only(Vec<SplitShare>, ShareRule),
    Without(Vec<SplitShare>, ShareRule),
}

impl RowFilter {
    /// Whether a row belongs to it, of which the first cells are `inputs`. Equal inputs are never in two splits. `known` are the hashes of
    /// the file, where they are known.
    pub(super) fn holds(&self, row: &FileRow, inputs: usize, known: Option<&[u64]>) -> bool {
        let among = |shares: &[SplitShare], rule: &ShareRule| {
            let known = known.and_then(|known| known.get(row.number).copied());
            let hash = known.unwrap_or_else(|| hash(&row.cells[..inputs], rule.seed));
            let stratum = rule.stratum(hash, row.cells.get(inputs));
            let range = |share: &SplitShare| match &stratum {
                Some(label) => share.strata.get(label).copied(),
                None => share.hashes,
            };
            shares.iter().filter_map(range).any(|[first, last]| (first..=last).contains(&hash))
        };
        match self {
            Self::All => true,
            Self::Only(shares, rule) => among(shares, rule),
            Self::Without(shares, rule) => !among(shares, rule),
        }
    }

    /// Which shares of the bytes of a text belong to it.
    pub(super) fn of_text(&self) -> [f64; 2] {
        match self {
            Self::All => [0.0, 1.0],
            Self::Only(shares, _) => shares.first().map_or([0.0, 0.0], |share| share.text),
            Self::Without(shares, _) => [0.0, shares.iter().map(|share| share.text[0]).fold(1.0, f64::min)],
        }
    }
}

fn hash(inputs: &[FileCell], seed: u64) -> u64 {
    let key = Key::new(seed).stream("share");
    let key = inputs.iter().fold(key, |key, cell| match cell {
        FileCell::Text(text) => text.split_whitespace().fold(key.at(1), |key, item| key.stream(item)),
        list => items(list).into_iter().fold(key.at(1), |key, item| key.stream(item)),
    });
    key.value()
}

/// Which rows, or bytes, the shares of the training file are. A share of a text is the end of it.
pub(super) fn place(
    plan: &TaskPlan,
    files: &[PathBuf],
    shares: &[(&str, f64)],
    seed: u64,
) -> Result<(Vec<SplitShare>, RowHashes, ShareRule), DataError> {
    let (mut hashes, mut known) = (vec![], RowHashes::default());
    let mut strata = Strata::default();
    if !plan.kind.reads_windows() && !shares.is_empty() {
        for path in files {
            match Stamp::of(path) {
                Ok(stamp) => known.0.push((stamp, vec![])),
                Err(_) => known.0.clear(),
            }
            let make = |row: FileRow| {
                let stratum = plan.stratify.then(|| stratum(row.cells.get(plan.inputs)));
                (hash(&row.cells[..plan.inputs], seed), stratum, row.number, row.line)
            };
            plan.layout.batches(path)?.each(make, |found| {
                let (hash, stratum, number, line) = found?;
                hashes.push(hash);
                stratum.into_iter().for_each(|label| strata.add(hash, label));
                known.add(number, hash);
                if hashes.len() > RowHashes::MOST {
                    known.0.clear();
                }
                few(hashes.len(), MAX_ROWS, "rows", path, line).map(|()| true)
            })?;
        }
    }
    let mut from = 1.0 - shares.iter().map(|(_, share)| share).sum::<f64>();
    let share = |(split, share): &(&str, f64)| {
        let text = [from, from + share];
        from += share;
        SplitShare { split: (*split).to_owned(), hashes: None, strata: BTreeMap::new(), text }
    };
    let mut placed: Vec<SplitShare> = shares.iter().map(share).collect();
    let several = if plan.stratify && !shares.is_empty() {
        Some(Arc::new(strata.place(shares, &mut placed)))
    } else {
        placed.iter_mut().zip(ranges(hashes, shares)).for_each(|(share, range)| share.hashes = range);
        None
    };
    Ok((placed, known, ShareRule { seed, several }))
}

/// The rows of a training file by label.
#[derive(Default)]
struct Strata {
    /// The places of the labels.
    labels: BTreeMap<String, u32>,
    /// The hash of every row, with the place of its label.
    rows: Vec<(u64, u32)>,
}

impl Strata {
    /// Adds a row. One without a label is no share's: it is skipped, or refused when it is read. So is a file with too many labels.
    fn add(&mut self, hash: u64, label: String) {
        if label.is_empty() || self.labels.len() > MAX_CLASSES {
            return;
        }
        let next = self.labels.len() as u32;
        let at = *self.labels.entry(label).or_insert(next);
        self.rows.push((hash, at));
    }

    /// Gives the shares their ranges, and returns the hashes of inputs with several labels.
    fn place(mut self, shares: &[(&str, f64)], placed: &mut [SplitShare]) -> Vec<u64> {
        self.rows.sort_unstable();
        let (mut several, mut of_several) = (vec![], vec![]);
        let mut strata = vec![vec![]; self.labels.len()];
        for equal in self.rows.chunk_by(|a, b| a.0 == b.0) {
            let hashes = equal.iter().map(|(hash, _)| *hash);
            match equal {
                [(hash, first), .., (_, last)] if first != last => {
                    several.push(*hash);
                    of_several.extend(hashes);
                }
                [(_, label), ..] => strata[*label as usize].extend(hashes),
                [] => {}
            }
        }
        strata.push(of_several);
        // In the order of their names: ties are broken by it.
        let names: Vec<(&String, usize)> = self.labels.iter().map(|(name, at)| (name, *at as usize)).collect();
        let mut ordered: Vec<Vec<u64>> = names.iter().map(|(_, at)| mem::take(&mut strata[*at])).collect();
        ordered.extend(strata.pop());
        let mut found = stratified(ordered, shares).into_iter();
        for (name, _) in names {
            for (share, range) in placed.iter_mut().zip(found.next().unwrap_or_default()) {
                share.strata.extend(range.map(|range| (name.clone(), range)));
            }
        }
        placed.iter_mut().zip(found.next().unwrap_or_default()).for_each(|(share, range)| share.hashes = range);
        several
    }
}
