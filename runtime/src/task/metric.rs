//! Shares of right answers that a task reports besides the accuracy over all scored answers.

use super::{Example, Target};

/// A share of right answers, counted example by example.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The name in results and tables, with `_` between words.
    pub name: &'static str,
    /// One line of documentation.
    pub doc: &'static str,
    /// How many answers of an example count, and how many of them are right, from what was predicted: one class for a
    /// sequence, or one per token.
    pub count: fn(&Example, &[u32]) -> Tally,
}

/// Right answers among those that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Answers that equal the label.
    pub right: u64,
    /// Answers that count.
    pub all: u64,
}

impl Tally {
    /// The share of right answers; 0 where none counts.
    pub fn share(self) -> f64 {
        if self.all == 0 { 0.0 } else { self.right as f64 / self.all as f64 }
    }

    /// Adds the answers of another example.
    pub fn add(&mut self, other: Self) {
        self.right += other.right;
        self.all += other.all;
    }
}

/// The last scored answer of every sequence alone.
pub(super) fn last_scored(example: &Example, predicted: &[u32]) -> Tally {
    let (label, found) = match &example.label {
        Target::Class(class) => (Some(*class), predicted.first()),
        Target::Each { class, weight } => {
            let last = weight.iter().rposition(|weight| *weight > 0.0);
            (last.map(|at| class[at]), last.and_then(|at| predicted.get(at)))
        }
    };
    match label {
        Some(label) => Tally { right: u64::from(found == Some(&label)), all: 1 },
        None => Tally::default(),
    }
}

/// Whether every scored answer of a sequence is right.
pub(super) fn whole(example: &Example, predicted: &[u32]) -> Tally {
    let right = match &example.label {
        Target::Class(class) => predicted.first() == Some(class),
        Target::Each { class, weight } => {
            let mut answers = class.iter().zip(weight).enumerate().filter(|(_, (_, weight))| **weight > 0.0);
            answers.all(|(at, (class, _))| predicted.get(at) == Some(class))
        }
    };
    Tally { right: u64::from(right), all: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_scored_answer_decides() {
        let each = |class: &[u32], weight: &[f32]| Example {
            tokens: vec![0; class.len()],
            second: None,
            label: Target::Each { class: class.to_vec(), weight: weight.to_vec() },
            depth: None,
            size: None,
        };
        let example = each(&[1, 1, 1, 0], &[1.0, 0.0, 1.0, 0.0]);
        assert_eq!(last_scored(&example, &[0, 0, 1, 1]), Tally { right: 1, all: 1 });
        assert_eq!(last_scored(&example, &[1, 1, 0, 0]), Tally { right: 0, all: 1 });
        assert_eq!(whole(&example, &[1, 0, 1, 1]), Tally { right: 1, all: 1 });
        assert_eq!(whole(&example, &[0, 0, 1, 1]), Tally { right: 0, all: 1 });
        assert_eq!(last_scored(&each(&[1], &[0.0]), &[1]), Tally::default());
        assert_eq!(last_scored(&Example::classified(vec![1, 2], 3), &[3]), Tally { right: 1, all: 1 });
    }
}
