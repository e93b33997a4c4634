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
pub(super) fn ranges(hashes: Vec<u64>, shares: &[(&str, f64)]) -> Vec<Option<[u64; 2]>> {
    let rows = hashes.len() as f64;
    cut(hashes, shares.iter().map(|(_, share)| ((share * rows).round() as usize).max(1)))
}

/// The ranges of neighbouring parts of some hashes, from the smallest on, for so many rows each.
fn cut(mut hashes: Vec<u64>, counts: impl Iterator<Item = usize>) -> Vec<Option<[u64; 2]>> {
    hashes.sort_unstable();
    let mut from = 0;
    let range = |count: usize| {
        let last = (from + count).min(hashes.len());
        let range = (from < last).then(|| [hashes[from], hashes[last - 1]]);
        from = range.map_or(from, |[_, last]| hashes.partition_point(|hash| *hash <= last));
        range
    };
    counts.map(range).collect()
}

/// The same stratum by stratum, whose hashes these are: every share has of each stratum the nearest whole numbers of rows above or
/// below its part, which add up to those of the share of all rows. The last row of a stratum is no share's.
pub(super) fn stratified(strata: Vec<Vec<u64>>, shares: &[(&str, f64)]) -> Vec<Vec<Option<[u64; 2]>>> {
    let sizes: Vec<usize> = strata.iter().map(Vec::len).collect();
    let all: usize = sizes.iter().sum();
    let mut taken = vec![0; sizes.len()];
    let mut counts = vec![vec![]; sizes.len()];
    for (_, share) in shares {
        let exact = |n: &usize| share * sizes[*n] as f64;
        let mut own: Vec<usize> = (0..sizes.len()).map(|n| exact(&n) as usize).collect();
        let wanted = ((share * all as f64).round() as usize).max(1);
        let mut missing = wanted.saturating_sub(own.iter().sum());
        // The largest remainders first; of equal ones those of the smaller strata, whose share is the less exact.
        let mut order: Vec<usize> = (0..sizes.len()).filter(|n| exact(n).fract() > 0.0).collect();
        order.sort_by(|a, b| exact(b).fract().total_cmp(&exact(a).fract()).then(sizes[*a].cmp(&sizes[*b])));
        for n in order {
            if missing > 0 && taken[n] + own[n] + 1 < sizes[n] {
                own[n] += 1;
                missing -= 1;
            }
        }
        for (n, count) in own.into_iter().enumerate() {
            taken[n] += count;
            counts[n].push(count);
        }
    }
    strata.into_iter().zip(counts).map(|(hashes, counts)| cut(hashes, counts.into_iter())).collect()
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
    fn strata_are_cut_in_equal_shares() {
        let of = |n: usize, first: u64| (0..n as u64).map(|at| first + at * 3).collect::<Vec<_>>();
        for sizes in [vec![100, 10, 4, 1], vec![7, 7, 7], vec![2, 1], vec![1000, 15, 15, 15, 15], vec![3; 30]] {
            let strata = sizes.iter().enumerate().map(|(n, size)| of(*size, n as u64 * 1000)).collect();
            let shares = [("dev", 0.1), ("test", 0.25)];
            let found = stratified(strata, &shares);
            for (at, (_, share)) in shares.iter().enumerate() {
                let count = |(n, size): (usize, &usize)| {
                    found[n][at].map_or(0, |[first, last]| {
                        of(*size, n as u64 * 1000).iter().filter(|hash| (first..=last).contains(hash)).count()
                    })
                };
                let counts: Vec<usize> = sizes.iter().enumerate().map(count).collect();
                for (count, size) in counts.iter().zip(&sizes) {
                    assert!((*count as f64 - share * *size as f64).abs() < 1.0, "{sizes:?} {share} {counts:?}");
                }
                let all = share * sizes.iter().sum::<usize>() as f64;
                assert!((counts.iter().sum::<usize>() as f64 - all).abs() <= 1.0, "{sizes:?} {share} {counts:?}");
            }
            let left = |ranges: &Vec<Option<[u64; 2]>>, hashes: Vec<u64>| {
                let is_left = |hash: &&u64| !ranges.iter().flatten().any(|[a, b]| (a..=b).contains(hash));
                hashes.iter().filter(is_left).count()
            };
            let all_are_trained =
                found.iter().enumerate().all(|(n, ranges)| left(ranges, of(sizes[n], n as u64 * 1000)) > 0);
            assert!(all_are_trained, "{sizes:?}");
        }
        let small = stratified(vec![vec![1, 1, 1], vec![2]], &[("dev", 0.1)]);
        assert_eq!(small, [[Some([1, 1])], [None]], "a share has a row");
        assert_eq!(
            stratified(vec![vec![5, 5, 5, 5, 9, 9]], &[("dev", 0.4)]),
            [[Some([5, 5])]],
            "equal rows stay together"
        );
    }

    #[test]
    fn ranges_follow_one_another_and_keep_equal_rows_together() {
        let hashes = vec![5, 1, 3, 3, 9, 7, 3, 8, 2, 6];
        assert_eq!(ranges(hashes, &[("dev", 0.3), ("test", 0.2)]), [Some([1, 3]), Some([5, 6])]);
        assert_eq!(ranges(vec![4], &[("dev", 0.1), ("test", 0.1)]), [Some([4, 4]), None]);
    }
}
