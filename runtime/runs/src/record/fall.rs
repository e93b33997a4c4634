//! A training that ends far below its best on the dev split: it diverged, or it unlearned what it had learned.

use serde::{Deserialize, Serialize};

use super::table::percent;
use crate::record::history::EvaluationLine;
use crate::statistics::examples::wilson;

/// The least share of the way from chance to the best measure that a fall takes back.
const FAR: f64 = 0.1;

/// The 97.5 % point of the normal distribution.
const NORMAL: f64 = 1.96;

/// How far the last weights of a run are below its best ones on the dev split.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fall {
    /// The dev split.
    pub split: String,
    /// `accuracy`, or `r2` where numbers are asked for.
    pub measure: String,
    /// The best measure, of which more is better.
    pub best: f64,
    /// Updates done then.
    pub best_update: u64,
    /// The measure at the end.
    pub last: f64,
    /// Updates of the whole run.
    pub last_update: u64,
    /// Updates done when the weights were saved that the results measure.
    pub kept_update: u64,
}

impl Fall {
    /// Compares the last of some measurements with the best of them. A fall is far if it takes back more than a tenth of the way
    /// from chance to the best measure, and more than the 95 % intervals of both measures over the examples explain.
    ///
    /// `chance` is the accuracy of always answering the most frequent class; the `r2` of always answering the mean is 0.
    pub fn of(
        (dev, kept_update): (&str, u64),
        measured: &[EvaluationLine],
        (examples, chance): (usize, f64),
    ) -> Option<Self> {
        let lines = || measured.iter().filter(|line| line.split == dev);
        let better = |best: (u64, f64), one: (u64, f64)| if one.1 > best.1 { one } else { best };
        let shares: Vec<(u64, f64)> = lines().filter_map(|line| Some((line.update, line.accuracy?))).collect();
        let explained = |line: &EvaluationLine| Some((line.update, line.others.get("r2")?.as_f64()?));
        let (name, found, chance) = match shares.is_empty() {
            true => ("r2", lines().filter_map(explained).collect(), 0.0),
            false => ("accuracy", shares, chance),
        };
        let (best, last) = (found.iter().copied().reduce(better)?, *found.last()?);
        let scored = lines().next_back().map_or(0, |line| usize::try_from(line.scored).unwrap_or(usize::MAX));
        // Answers of one example depend on each other.
        let count = scored.min(examples);
        let explained = if name == "r2" { as_errors(best.1, last.1, count) } else { as_shares(best.1, last.1, count) };
        let is_far = best.1 - last.1 > FAR * (best.1 - chance) && best.1 > chance && !explained;
        is_far.then(|| Self {
            split: dev.to_owned(),
            measure: name.to_owned(),
            best: best.1,
            best_update: best.0,
            last: last.1,
            last_update: last.0,
            kept_update,
        })
    }

    /// Both measures in words: `accuracy on dev 99.1 % after update 3000, 50.2 % at the end (update 6000)`.
    pub fn text(&self) -> String {
        let shown = |number: f64| if self.measure == "accuracy" { percent(number) } else { format!("{number:.3}") };
        let Self { split, measure, best_update, last_update, .. } = self;
        let (best, last) = (shown(self.best), shown(self.last));
        format!("{measure} on {split} {best} after update {best_update}, {last} at the end (update {last_update})")
    }

    /// What to make of it.
    pub fn advice(&self) -> String {
        match self.kept_update {
            kept if kept == self.last_update => {
                "the results are those of the last weights: `choose: best` keeps the best ones".to_owned()
            }
            kept => format!("the results are those of update {kept}"),
        }
    }
}

/// Whether the 95 % intervals of two shares of so many examples overlap.
fn as_shares(best: f64, last: f64, count: usize) -> bool {
    let interval = |share: f64| wilson((share * count as f64).round() as usize, count);
    count == 0 || interval(last).high >= interval(best).low
}

/// Whether the variance of so many examples explains two mean squares, which are what `r2` leaves of 1: the logarithm of each has
/// the variance `2 / count`.
fn as_errors(best: f64, last: f64, count: usize) -> bool {
    let ratio = ((1.0 - last) / (1.0 - best)).ln();
    count == 0 || ratio <= 2.0 * NORMAL * (2.0 / count as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn measured(shares: &[f64]) -> Vec<EvaluationLine> {
        let line = |(n, share): (u64, &f64)| EvaluationLine {
            split: "dev".to_owned(),
            update: 100 * n,
            accuracy: Some(*share),
            loss: Some(1.0),
            scored: 2000,
            ..EvaluationLine::default()
        };
        (1..).zip(shares).map(line).collect()
    }

    #[test]
    fn a_fall_is_far_beyond_chance_and_noise() {
        let fall = |shares: &[f64], examples: usize, chance: f64| {
            Fall::of(("dev", 400), &measured(shares), (examples, chance))
        };
        let found = fall(&[0.4, 0.991, 0.7, 0.502], 500, 0.5).expect("to chance");
        assert_eq!((found.best_update, found.last_update, found.kept_update), (200, 400, 400));
        assert_eq!(found.text(), "accuracy on dev 99.1 % after update 200, 50.2 % at the end (update 400)");
        assert!(found.advice().contains("`choose: best`"));
        for (shares, examples, why) in [
            (vec![0.4, 0.9, 0.88], 5000, "less than a tenth of the way"),
            (vec![0.9, 0.8], 20, "twenty examples explain it"),
            (vec![0.4, 0.9], 500, "it rises"),
            (vec![0.45, 0.40], 5000, "both are below chance"),
            (vec![], 500, "nothing was measured"),
        ] {
            assert_eq!(fall(&shares, examples, 0.5), None, "{why}");
        }
        let kept = Fall::of(("dev", 100), &measured(&[0.9, 0.5]), (500, 0.5)).expect("far");
        assert_eq!(kept.advice(), "the results are those of update 100");
    }

    #[test]
    fn numbers_fall_by_the_variance_that_they_explain() {
        let fall = |found: &[f64], examples: usize| {
            let mut lines = measured(found);
            for (line, r2) in lines.iter_mut().zip(found) {
                (line.accuracy, line.others) = (None, BTreeMap::from([("r2".to_owned(), (*r2).into())]));
            }
            Fall::of(("dev", 0), &lines, (examples, 0.0))
        };
        assert_eq!(fall(&[0.9, 0.2], 200).map(|fall| fall.measure), Some("r2".to_owned()));
        assert_eq!((fall(&[0.9, 0.89], 10_000), fall(&[0.5, 0.4], 20)), (None, None));
    }
}
