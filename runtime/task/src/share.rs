//! The source of the rows of a split, as `task.data` names it: a file, a share of the training file, or a generator.

use std::collections::BTreeMap;

/// The split that others can be shares of.
pub(super) const TRAIN: &str = "train";

/// The word for a split that is generated, though others have files.
pub(super) const GENERATED: &str = "generated";

/// The source of a split's rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SplitSource<'a> {
    /// A file, or a pattern of files.
    File(&'a str),
    /// A share of the training file, from 0 to 1.
    Share(f64),
    /// A generator.
    Generated,
}

impl<'a> SplitSource<'a> {
    /// Reads what an experiment says of a split: `10%`, `generated`, or the name of a file.
    ///
    /// # Errors
    /// A sentence about a share that is none.
    pub(super) fn parse(text: &'a str) -> Result<Self, String> {
        if text == GENERATED {
            return Ok(Self::Generated);
        }
        let Some(percent) = text.trim().strip_suffix('%') else { return Ok(Self::File(text)) };
        match percent.trim().parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent < 100.0 => Ok(Self::Share(percent / 100.0)),
            _ => Err(format!("`{text}` is no share of `{TRAIN}`: a number above 0 and below 100 stands before `%`")),
        }
    }
}

/// The shares of the training file that other splits have, in the order of their names.
///
/// # Errors
/// A sentence about shares of nothing, or shares that leave nothing to train on.
pub(super) fn shares(files: &BTreeMap<String, String>) -> Result<Vec<(&str, f64)>, String> {
    let mut shares = vec![];
    for (name, text) in files {
        if let SplitSource::Share(share) = SplitSource::parse(text)? {
            shares.push((name.as_str(), share));
        }
    }
    let train = files.get(TRAIN).map(|text| SplitSource::parse(text)).transpose()?;
    match (shares.first(), train) {
        (Some((TRAIN, _)), _) | (Some(_), Some(SplitSource::Share(_))) => {
            Err(format!("`{TRAIN}` names a file, of which other splits are shares"))
        }
        (Some((name, _)), None | Some(SplitSource::Generated)) => {
            Err(format!("`{name}` is a share of `{TRAIN}`, which names no file"))
        }
        _ if shares.iter().map(|(_, share)| share).sum::<f64>() >= 1.0 => {
            Err(format!("the shares of `{TRAIN}` leave nothing to train on"))
        }
        _ => Ok(shares),
    }
}

/// Which rows are those of shares: the ones with the smallest hashes are those of the first, the ones that follow those of the
/// next, and so on, the first and the last hash of each. Rows with equal hashes stay together.
pub(super) fn ranges(mut hashes: Vec<u64>, shares: &[(&str, f64)]) -> Vec<Option<[u64; 2]>> {
    hashes.sort_unstable();
    let mut from = 0;
    let range = |(_, share): &(&str, f64)| {
        let count = ((share * hashes.len() as f64).round() as usize).max(1);
        let last = (from + count).min(hashes.len());
        let range = (from < last).then(|| [hashes[from], hashes[last - 1]]);
        from = range.map_or(from, |[_, last]| hashes.partition_point(|hash| *hash <= last));
        range
    };
    shares.iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(named: &[(&str, &str)]) -> BTreeMap<String, String> {
        named.iter().map(|(name, file)| ((*name).to_owned(), (*file).to_owned())).collect()
    }

    #[test]
    fn shares_are_those_of_a_file() {
        let good = files(&[("train", "a.csv"), ("dev", "10%"), ("test", "0.5 %"), ("other", "b.csv")]);
        assert_eq!(shares(&good), Ok(vec![("dev", 0.1), ("test", 0.005)]));
        for (wrong, why) in [
            (files(&[("train", "10%")]), "names a file"),
            (files(&[("dev", "10%")]), "which names no file"),
            (files(&[("train", "generated"), ("dev", "10%")]), "which names no file"),
            (files(&[("train", "a"), ("dev", "60%"), ("test", "40%")]), "nothing to train on"),
            (files(&[("train", "a"), ("dev", "0%")]), "is no share"),
            (files(&[("train", "a"), ("dev", "x%")]), "is no share"),
        ] {
            let error = shares(&wrong).expect_err(why);
            assert!(error.contains(why), "{error} should say {why}");
        }
    }

    #[test]
    fn ranges_follow_one_another_and_keep_equal_rows_together() {
        let hashes = vec![5, 1, 3, 3, 9, 7, 3, 8, 2, 6];
        assert_eq!(ranges(hashes, &[("dev", 0.3), ("test", 0.2)]), [Some([1, 3]), Some([5, 6])]);
        assert_eq!(ranges(vec![4], &[("dev", 0.1), ("test", 0.1)]), [Some([4, 4]), None]);
    }
}
