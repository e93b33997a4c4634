//! Whether other examples would show the same, of the trained models as they are.

use statrs::distribution::{Binomial, DiscreteCDF};

use super::{Interval, LEVEL};
use rtc_base::rng::Key;

/// How often examples are drawn again. With one more, the ends of an interval are two of the numbers drawn.
const DRAWS: usize = 1999;

/// What is nearer to zero is zero: means over seeds are thirds.
const ROUNDING: f64 = 1e-12;

/// The 97.5 % point of the normal distribution.
const NORMAL: f64 = 1.959_963_984_540_054;

/// The score of one example.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExampleScore {
    /// How many of its answers are right; a mean over several seeds need not be whole.
    pub right: f64,
    /// How many of its answers count.
    pub all: f64,
}

/// How a number was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// From the counts of right and wrong examples alone: Wilson's interval, McNemar's exact test.
    Counts,
    /// By drawing examples again, with replacement.
    Bootstrap,
}

/// Two models on the same examples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairedExamples {
    /// The first one's share of right answers less the second one's.
    pub difference: f64,
    /// Where the difference on all examples lies, by the bootstrap.
    pub interval: Interval,
    /// The p-value.
    pub p: f64,
    /// How the p-value was found.
    pub method: Method,
}

/// Where the share of right answers on all examples lies: Wilson's interval where every example has one answer, by the bootstrap
/// where it has several. Nothing where no answer counts.
pub fn interval(examples: &[ExampleScore]) -> Option<(Interval, Method)> {
    let counted = counted(examples.iter().map(|one| (one.right, one.all)));
    if counted.is_empty() {
        return None;
    }
    if counted.iter().all(|(right, all)| *all == 1.0 && (*right == 0.0 || *right == 1.0)) {
        let right = counted.iter().filter(|(right, _)| *right == 1.0).count();
        return Some((wilson(right, counted.len()), Method::Counts));
    }
    Some((middle(&drawn(&counted)), Method::Bootstrap))
}

/// Compares two models, example by example: McNemar's exact test where every example has one answer that is right or
/// wrong, and the paired bootstrap else. Nothing where they were not asked the same.
pub fn paired(own: &[ExampleScore], other: &[ExampleScore]) -> Option<PairedExamples> {
    let asked = |examples: &[ExampleScore]| examples.iter().map(|one| one.all).collect::<Vec<_>>();
    if asked(own) != asked(other) {
        return None;
    }
    let differences = counted(own.iter().zip(other).map(|(own, other)| (own.right - other.right, own.all)));
    if differences.is_empty() {
        return None;
    }
    let drawn = drawn(&differences);
    let single = |one: &ExampleScore| one.all == 0.0 || one.all == 1.0 && (one.right == 0.0 || one.right == 1.0);
    let (p, method) = if own.iter().chain(other).all(single) {
        let count = |sign: f64| differences.iter().filter(|(difference, _)| *difference == sign).count() as u64;
        (mcnemar(count(1.0), count(-1.0)), Method::Counts)
    } else {
        (either_way(&drawn), Method::Bootstrap)
    };
    Some(PairedExamples { difference: ratio(&differences), interval: middle(&drawn), p, method })
}

/// Where the probability lies of which `right` of `all` cases are known (Wilson 1927, "Probable inference, the law of
/// succession, and statistical inference", without correction for continuity).
pub fn wilson(right: usize, all: usize) -> Interval {
    let (share, all, square) = (right as f64 / all as f64, all as f64, NORMAL * NORMAL);
    let scale = 1.0 + square / all;
    let half = NORMAL * (share * (1.0 - share) / all + square / (4.0 * all * all)).sqrt() / scale;
    let found = Interval::around((share + square / (2.0 * all)) / scale, half);
    Interval { low: found.low.max(0.0), high: found.high.min(1.0) }
}

/// The p-value where one of two models alone is right on `first` examples and the other alone on `second` (McNemar 1947, "Note on
/// the sampling error of the difference between correlated proportions or percentages"), by the binomial distribution.
pub fn mcnemar(first: u64, second: u64) -> f64 {
    match Binomial::new(0.5, first + second) {
        Ok(fair) if first + second > 0 => (2.0 * fair.cdf(first.min(second))).min(1.0),
        _ => 1.0,
    }
}

/// Without what does not count.
fn counted(examples: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    examples.filter(|(_, all)| *all > 0.0).collect()
}

fn ratio(examples: &[(f64, f64)]) -> f64 {
    let (right, all) = examples.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    right / all
}

/// The ratio for many draws of as many examples with replacement (Efron 1979, "Bootstrap methods"), in rising order. The
/// draws are the same for all models with as many examples.
fn drawn(examples: &[(f64, f64)]) -> Vec<f64> {
    let (key, count) = (Key::new(0).stream("bootstrap"), examples.len() as u64);
    let draw = |n: usize| {
        let key = key.at(n as u64);
        let one = |index: u64| examples[key.below(index, count) as usize];
        let (right, all) = (0..count).map(one).fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        right / all
    };
    let mut found: Vec<f64> = (0..DRAWS).map(draw).collect();
    found.sort_by(f64::total_cmp);
    found
}

/// The interval that holds all drawn numbers but the lowest and the highest of them.
fn middle(drawn: &[f64]) -> Interval {
    let outside = ((drawn.len() + 1) as f64 * (1.0 - LEVEL) / 2.0).round() as usize;
    Interval { low: drawn[outside - 1], high: drawn[drawn.len() - outside] }
}

/// Twice the share of draws on the rarer side of zero; zero is on both (Davison and Hinkley 1997, "Bootstrap methods and
/// their application").
fn either_way(drawn: &[f64]) -> f64 {
    let below = drawn.iter().filter(|x| **x <= ROUNDING).count();
    let above = drawn.iter().filter(|x| **x >= -ROUNDING).count();
    (2.0 * (below.min(above) + 1) as f64 / (drawn.len() + 1) as f64).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-10, "{found} is not {expected}");
    }

    #[test]
    fn wilsons_interval_is_that_of_the_books() {
        // 81 of 263 is Newcombe's example (1998, table I: 0.2553 to 0.3662); digits of scipy's binomtest(..).proportion_ci.
        let cases = [
            (0, 10, 0.0, 0.277_532_799_862_889_26),
            (3, 10, 0.107_791_267_406_301_02, 0.603_221_852_538_854_6),
            (81, 263, 0.255_288_519_878_274_2, 0.366_209_576_982_800_04),
            (10, 10, 0.722_467_200_137_110_7, 1.0),
            (4871, 5000, 0.969_428_209_682_728_2, 0.978_243_701_792_579_6),
        ];
        for (right, all, low, high) in cases {
            let found = wilson(right, all);
            close(found.low, low);
            close(found.high, high);
        }
    }

    #[test]
    fn mcnemars_test_is_exact() {
        // scipy.stats.binomtest(min, sum, 0.5).pvalue
        let cases = [
            (0, 0, 1.0),
            (1, 0, 1.0),
            (0, 5, 0.0625),
            (8, 2, 0.109_375),
            (12, 30, 0.007_915_897_334_896_727),
            (211, 150, 0.001_553_493_739_561_554_5),
            (4000, 4200, 0.027_972_423_571_324_654),
            (7, 7, 1.0),
        ];
        for (first, second, p) in cases {
            close(mcnemar(first, second), p);
        }
    }

    fn single(right: impl Iterator<Item = bool>) -> Vec<ExampleScore> {
        right.map(|right| ExampleScore { right: f64::from(u8::from(right)), all: 1.0 }).collect()
    }

    #[test]
    fn examples_with_one_answer_are_counted() {
        let own = single((0..400).map(|n| n % 4 != 0));
        let (found, method) = interval(&own).expect("there are answers");
        assert_eq!((found, method), (wilson(300, 400), Method::Counts));
        // The other one is wrong on the same examples, and on 40 of the others.
        let other = single((0..400).map(|n| n % 4 != 0 && n % 10 != 1 || n == 0));
        let found = paired(&own, &other).expect("the same examples");
        let alone = own.iter().zip(&other).filter(|(own, other)| own.right > other.right).count() as u64;
        assert_eq!((found.p, found.method), (mcnemar(alone, 1), Method::Counts));
        close(found.difference, (alone as f64 - 1.0) / 400.0);
        assert!(0.0 < found.interval.low && found.interval.low < found.difference, "{found:?}");
        assert_eq!(paired(&own, &own).map(|same| (same.difference, same.p)), Some((0.0, 1.0)));
    }

    /// The bootstrap of a mean comes near its normal interval.
    #[test]
    fn examples_with_several_answers_are_drawn_again() {
        let key = Key::new(7);
        let answers = |n: u64, share: f64| (0..8).filter(|at| key.at(n).uniform(*at) < share).count() as f64;
        let model = |share: f64| -> Vec<ExampleScore> {
            (0..500).map(|n| ExampleScore { right: answers(n, share), all: 8.0 }).collect()
        };
        let (own, other) = (model(0.6), model(0.5));
        let (found, method) = interval(&own).expect("there are answers");
        let half = NORMAL * (0.6_f64 * 0.4 / 4000.0).sqrt();
        let share = ratio(&own.iter().map(|one| (one.right, one.all)).collect::<Vec<_>>());
        assert_eq!(method, Method::Bootstrap);
        assert!(((found.high - found.low) / (2.0 * half) - 1.0).abs() < 0.15, "{found:?}");
        assert!(found.low < share && share < found.high);
        let found = paired(&own, &other).expect("the same examples");
        assert_eq!((found.method, found.p), (Method::Bootstrap, 0.001), "no draw is on the other side");
        let same = paired(&own, &own).expect("the same examples");
        assert_eq!((same.p, same.interval), (1.0, Interval { low: 0.0, high: 0.0 }));
    }

    #[test]
    fn what_was_not_asked_the_same_is_not_compared() {
        let own = single([true, false].into_iter());
        assert_eq!(paired(&own, &own[..1]), None);
        assert_eq!(paired(&own, &[ExampleScore { right: 1.0, all: 2.0 }; 2]), None);
        let nothing = [ExampleScore { right: 0.0, all: 0.0 }];
        assert_eq!((interval(&nothing), paired(&nothing, &nothing), interval(&[])), (None, None, None));
    }

    #[test]
    fn no_difference_is_found_as_often_as_promised() {
        let key = Key::new(3);
        let mut found = 0;
        for trial in 0..200 {
            let model = |which: u64| -> Vec<ExampleScore> {
                let right = |n: u64| key.at(trial).at(which).at(n).below(0, 5) as f64;
                (0..60).map(|n| ExampleScore { right: right(n), all: 4.0 }).collect()
            };
            found += u32::from(paired(&model(0), &model(1)).is_some_and(|pair| pair.p < 0.05));
        }
        assert!((2..=22).contains(&found), "{found} of 200 at a level of 5 %");
    }
}
