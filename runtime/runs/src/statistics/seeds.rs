//! Whether other seeds would show the same: Student's t ("The probable error of a mean", Biometrika 1908).

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{Interval, LEVEL, deviation, mean};

/// A deviation below this part of the numbers is one of rounding.
const ROUNDING: f64 = 1e-12;

/// Numbers of two models by the same seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairedSeeds {
    /// The mean of the first one's number less the second one's.
    pub difference: f64,
    /// Where the difference of the means over all seeds lies.
    pub interval: Interval,
    /// The p-value of the paired t-test.
    pub p: f64,
}

/// Where the mean over all seeds lies, from those of some. Nothing for fewer than two, nor for equal numbers: what does not
/// vary says nothing about how it varies.
pub fn interval(numbers: &[f64]) -> Option<Interval> {
    let (middle, error) = (mean(numbers)?, error(numbers)?);
    Some(Interval::around(middle, student(numbers)?.inverse_cdf(0.5 + LEVEL / 2.0) * error))
}

/// The same for shares, whose mean lies between 0 and 1: Student's interval of the logit of the mean, by the delta method. It
/// leaves out 0 and 1, and is as wide as the plain one where the deviation is small.
pub fn share_interval(shares: &[f64]) -> Option<Interval> {
    let (middle, error) = (mean(shares)?, error(shares)?);
    let half = student(shares)?.inverse_cdf(0.5 + LEVEL / 2.0) * error / (middle * (1.0 - middle));
    let logit = (middle / (1.0 - middle)).ln();
    let share = |logit: f64| 1.0 / (1.0 + (-logit).exp());
    Some(Interval { low: share(logit - half), high: share(logit + half) })
}

/// The paired t-test of two models, a pair of numbers per seed. Nothing for fewer than two pairs, nor where all
/// differences are equal.
pub fn paired(pairs: &[(f64, f64)]) -> Option<PairedSeeds> {
    let differences: Vec<f64> = pairs.iter().map(|(own, other)| own - other).collect();
    let largest = pairs.iter().fold(0.0_f64, |most, (own, other)| most.max(own.abs()).max(other.abs()));
    let error = error(&differences).filter(|error| *error > ROUNDING * largest)?;
    let difference = mean(&differences)?;
    let p = 2.0 * student(&differences)?.sf((difference / error).abs());
    Some(PairedSeeds { difference, interval: interval(&differences)?, p })
}

/// The deviation of the mean of some numbers that are not all equal.
fn error(numbers: &[f64]) -> Option<f64> {
    let largest = numbers.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
    let error = deviation(numbers)? / (numbers.len() as f64).sqrt();
    (error > ROUNDING * largest).then_some(error)
}

/// Student's distribution for the mean of so many numbers.
fn student(numbers: &[f64]) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, numbers.len().checked_sub(1)? as f64).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9 * expected.abs().max(1.0), "{found} is not {expected}");
    }

    /// Hours of sleep gained by ten patients with two drugs: Student's own example, with `scipy.stats.ttest_rel`'s digits.
    #[test]
    fn the_sleep_of_ten_patients() {
        let first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
        let second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
        let pairs: Vec<(f64, f64)> = first.into_iter().zip(second).collect();
        let found = paired(&pairs).expect("ten pairs");
        close(found.difference, -1.58);
        close(found.p, 0.002_832_890_197_384_273);
        close(found.interval.low, -2.459_885_763_276_983);
        close(found.interval.high, -0.700_114_236_723_017_5);
    }

    #[test]
    fn few_seeds_have_wide_intervals() {
        // scipy.stats.t.interval and ttest_rel
        let found = interval(&[0.571, 0.602, 0.588, 0.595, 0.610]).expect("five numbers");
        close(found.low, 0.574_753_870_400_138_5);
        close(found.high, 0.611_646_129_599_861_4);
        let found = paired(&[(0.5, 0.4), (0.7, 0.5)]).expect("two pairs");
        close(found.p, 0.204_832_764_699_133_45);
        close(found.interval.low, -0.485_310_236_808_734_6);
        let found = interval(&[0.0, 2.0]).expect("two numbers");
        close(found.high, 1.0 + 12.706_204_736_174_694);
    }

    #[test]
    fn an_interval_of_shares_stays_between_0_and_1() {
        let found = share_interval(&[1.0, 0.993, 0.491, 1.0, 0.509]).expect("five shares");
        // Mean 0.7986, standard error 0.121943: logit 1.377567, more and less 2.776445 * 0.121943 / 0.160838.
        close(found.low, 0.325_753_462_417_346_4);
        close(found.high, 0.970_188_304_859_319_5);
        let plain = interval(&[1.0, 0.993, 0.491, 1.0, 0.509]).expect("five shares");
        assert!(plain.high > 1.0 && found.high < 1.0 && found.low < plain.low, "{found:?}");
        // Nearly that of Student where shares differ little.
        let narrow = [0.571, 0.602, 0.588, 0.595, 0.610];
        let (found, plain) = (share_interval(&narrow).expect("five"), interval(&narrow).expect("five"));
        assert!((found.low - plain.low).abs() < 5e-4 && (found.high - plain.high).abs() < 5e-4, "{found:?} {plain:?}");
        assert_eq!((share_interval(&[1.0, 1.0]), share_interval(&[0.3]), share_interval(&[])), (None, None, None));
        let ends = share_interval(&[0.0, 1.0]).expect("two shares");
        assert!(ends.low >= 0.0 && ends.high <= 1.0, "{ends:?}");
    }

    #[test]
    fn what_does_not_vary_is_not_tested() {
        assert_eq!((interval(&[]), interval(&[0.5]), interval(&[0.5, 0.5])), (None, None, None));
        assert_eq!((paired(&[(0.5, 0.4)]), paired(&[(0.1, 0.1), (0.2, 0.2)])), (None, None));
        // Both differ by 0.1, up to the last bit.
        assert_eq!(paired(&[(0.5, 0.4), (0.7, 0.6)]), None);
    }
}
