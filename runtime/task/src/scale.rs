//! The unit of the numbers that a task asks for.

use serde::{Deserialize, Serialize};

/// A model answers `(number - mean) / deviation`, so that its first answers, near 0, are as good as the mean, and learning
/// rates need not follow the unit of the data.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// The number that is 0 for the model.
    pub mean: f64,
    /// What is 1 for the model; above 0.
    pub deviation: f64,
}

impl Default for Scale {
    fn default() -> Self {
        Self { mean: 0.0, deviation: 1.0 }
    }
}

impl Scale {
    /// Mean and population deviation of some numbers; 1 for the deviation where all are equal.
    pub fn of(numbers: &[f64]) -> Self {
        let largest = numbers.iter().fold(0.0_f64, |largest, number| largest.max(number.abs()));
        let plain = Self::plain(numbers);
        if plain.mean.is_finite() && plain.deviation.is_finite() && (1e-100..1e100).contains(&largest) || largest == 0.0
        {
            return plain;
        }
        // Squares of these numbers, or their sum, may be too large or too small for double precision.
        let Self { mean, deviation } = Self::plain(&numbers.iter().map(|number| number / largest).collect::<Vec<_>>());
        let deviation = deviation * if numbers.iter().any(|number| *number != numbers[0]) { largest } else { 1.0 };
        Self { mean: mean * largest, deviation }
    }

    fn plain(numbers: &[f64]) -> Self {
        let count = numbers.len().max(1) as f64;
        let mean = numbers.iter().sum::<f64>() / count;
        let variance = numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / count;
        let deviation = if variance > 0.0 { variance.sqrt() } else { 1.0 };
        Self { mean, deviation }
    }

    /// Whether numbers are as the model answers them.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// A number as the model answers it.
    pub fn to_model(self, number: f64) -> f32 {
        ((number - self.mean) / self.deviation) as f32
    }

    /// What the model answers as a number of the task.
    pub fn of_model(self, answer: f64) -> f64 {
        answer * self.deviation + self.mean
    }

    /// An answer as text: six significant digits, without zeros at the end.
    pub fn text(self, answer: f64) -> String {
        significant(self.of_model(answer))
    }
}

/// Six significant digits, which is what single precision knows of a number.
fn significant(number: f64) -> String {
    let rounded: f64 = format!("{number:.5e}").parse().unwrap_or(number);
    let plain = format!("{rounded}");
    if plain.len() <= 16 { plain } else { format!("{rounded:e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_from_the_unit_of_the_model() {
        let scale = Scale::of(&[1.0, 3.0, 5.0, 7.0]);
        assert_eq!(scale, Scale { mean: 4.0, deviation: 5.0_f64.sqrt() });
        assert!((scale.of_model(f64::from(scale.to_model(6.5))) - 6.5).abs() < 1e-6);
        assert_eq!(scale.text(0.0), "4");
        assert_eq!(Scale::of(&[2.5, 2.5]), Scale { mean: 2.5, deviation: 1.0 });
        assert_eq!(Scale::of(&[]), Scale::default());
    }

    #[test]
    fn numbers_of_every_size_have_a_deviation() {
        for unit in [1e-290, 1e-200, 1.0, 1e154, 1e200, 1e300] {
            let scale = Scale::of(&[unit, 3.0 * unit, -4.0 * unit, 0.5 * unit]);
            let (mean, deviation) = (0.125, 2.558_686_186_3);
            assert!((scale.mean / unit - mean).abs() < 1e-9, "{unit}: {scale:?}");
            assert!((scale.deviation / unit - deviation).abs() < 1e-6, "{unit}: {scale:?}");
        }
        assert_eq!(Scale::of(&[1e200, 1e200]).deviation, 1.0);
    }

    #[test]
    fn text_has_six_digits() {
        assert_eq!(significant(123_456.789), "123457");
        assert_eq!(significant(-0.1 - 0.2), "-0.3");
        assert_eq!(significant(1.5e300), "1.5e300");
        assert_eq!(significant(2.0e-9), "0.000000002");
    }
}
