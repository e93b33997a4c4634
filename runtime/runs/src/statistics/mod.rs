//! The significance of differences: deviations, 95 % intervals, paired tests, and the correction for several tests at once.
//!
//! [`seeds`] asks whether other seeds would show it too, [`examples`] whether other examples would. All p-values are two-sided:
//! the probability of a difference at least as large, either way, if there were none.

pub mod examples;
pub mod seeds;

/// The share of cases in which an interval holds the true value.
pub const LEVEL: f64 = 0.95;

/// What lies between two numbers, both included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// What lies at most `half` away from a number.
    pub(crate) fn around(middle: f64, half: f64) -> Self {
        Self { low: middle - half, high: middle + half }
    }
}

/// The mean of some numbers, in their order; nothing of none.
pub fn mean(numbers: &[f64]) -> Option<f64> {
    (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64)
}

/// The sample deviation, whose squares are divided by one less than there are numbers; nothing for fewer than two.
pub fn deviation(numbers: &[f64]) -> Option<f64> {
    let mean = mean(numbers).filter(|_| numbers.len() > 1)?;
    let squares: f64 = numbers.iter().map(|x| (x - mean) * (x - mean)).sum();
    Some((squares / (numbers.len() - 1) as f64).sqrt())
}

/// The p-values of several tests, raised so that the probability of any false finding among them is at most that of one
/// (Holm 1979, "A simple sequentially rejective multiple test procedure"). Tests without a p-value are none.
pub fn holm(found: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<(usize, f64)> = found.iter().enumerate().filter_map(|(n, p)| Some((n, (*p)?))).collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (mut raised, mut least) = (vec![None; found.len()], 0.0_f64);
    for (rank, (n, p)) in order.iter().enumerate() {
        least = least.max((order.len() - rank) as f64 * p).min(1.0);
        raised[*n] = Some(least);
    }
    raised
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        // numpy.std(.., ddof=1)
        let found = deviation(&[0.571, 0.602, 0.588, 0.595, 0.610]).expect("five numbers");
        assert!((found - 0.014_855_975_228_843_12).abs() < 1e-15, "{found}");
        assert_eq!((deviation(&[0.5]), mean(&[])), (None, None));
    }

    #[test]
    fn several_tests_are_corrected() {
        // p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm") of R, in another order and with a test that has no p-value.
        let raised = holm(&[Some(0.03), Some(0.01), None, Some(0.05), Some(0.02), Some(0.04)]);
        let expected = [Some(0.09), Some(0.05), None, Some(0.09), Some(0.08), Some(0.09)];
        for (found, expected) in raised.iter().zip(expected) {
            assert_eq!(found.is_some(), expected.is_some());
            assert!((found.unwrap_or(0.0) - expected.unwrap_or(0.0)).abs() < 1e-12, "{raised:?}");
        }
        assert_eq!(holm(&[Some(0.7), Some(0.8)]), [Some(1.0), Some(1.0)]);
        assert_eq!(holm(&[Some(0.03)]), [Some(0.03)]);
    }
}
