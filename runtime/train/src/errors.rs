//! The errors of predicted numbers.

use std::collections::BTreeMap;

use rtc_task::{Example, ExampleTarget, Scale};

/// What is measured where numbers are asked for, besides the loss.
pub const NUMBERS: [&str; 3] = ["mae", "r2", "rmse"];

/// Sums over predicted numbers `x` and the numbers `y` that were asked for, in the unit of the model.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Errors {
    count: f64,
    /// Of `|x - y|`.
    absolute: f64,
    /// Of `(x - y)^2`.
    squared: f64,
    /// Mean of `y`, and the sum of its squared distances from it, kept up to date (Welford 1962).
    mean: f64,
    spread: f64,
}

impl Errors {
    /// Adds a batch of predictions in the order of the examples; those that ask for a class add nothing.
    pub(super) fn add(&mut self, examples: &[&Example], predicted: &[f64]) {
        for (example, x) in examples.iter().zip(predicted) {
            let ExampleTarget::Number(y) = example.label else { continue };
            let y = f64::from(y);
            self.count += 1.0;
            self.absolute += (x - y).abs();
            self.squared += (x - y) * (x - y);
            let before = y - self.mean;
            self.mean += before / self.count;
            self.spread += before * (y - self.mean);
        }
    }

    /// Root mean squared and mean absolute error in the unit of the task, and the share of the variance that is explained,
    /// `1 - sum (x - y)^2 / sum (y - mean)^2`, where the numbers differ; nothing if there is no number.
    pub(super) fn named(&self, scale: Scale) -> BTreeMap<String, f64> {
        if self.count == 0.0 {
            return BTreeMap::new();
        }
        let mut found = BTreeMap::from([
            ("mae".to_owned(), scale.deviation * self.absolute / self.count),
            ("rmse".to_owned(), scale.deviation * (self.squared / self.count).sqrt()),
        ]);
        if self.spread > 0.0 {
            found.insert("r2".to_owned(), 1.0 - self.squared / self.spread);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(number: f32) -> Example {
        Example { label: ExampleTarget::Number(number), ..Example::classified(vec![1], 0) }
    }

    #[test]
    fn errors_are_in_the_unit_of_the_task() {
        let examples = [asked(1.0), asked(2.0), asked(6.0)];
        let mut errors = Errors::default();
        errors.add(&[&examples[0]], &[2.0]);
        errors.add(&[&examples[1], &examples[2]], &[2.0, 4.0]);
        let found = errors.named(Scale { mean: 7.0, deviation: 10.0 });
        // Errors 1, 0, -2; the labels are 2, 1 and 3 away from their mean.
        assert!((found["mae"] - 10.0).abs() < 1e-12);
        assert!((found["rmse"] - 10.0 * (5.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        assert!((found["r2"] - (1.0 - 5.0 / 14.0)).abs() < 1e-12);
    }

    #[test]
    fn equal_numbers_leave_nothing_to_explain() {
        let example = asked(3.0);
        let mut errors = Errors::default();
        errors.add(&[&example, &example], &[3.0, 4.0]);
        assert_eq!(errors.named(Scale::default()).keys().collect::<Vec<_>>(), ["mae", "rmse"]);
        assert!(Errors::default().named(Scale::default()).is_empty());
    }
}
