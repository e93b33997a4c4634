//! Shares of right answers that a task reports besides the accuracy over all scored answers.

use super::Example;

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
    /// The share of right answers; nothing where none counts.
    pub fn share(self) -> Option<f64> {
        (self.all > 0).then(|| self.right as f64 / self.all as f64)
    }

    /// Adds the answers of another example.
    pub fn add(&mut self, other: Self) {
        self.right += other.right;
        self.all += other.all;
    }
}

/// What is reported where any of some labels may belong to a sequence.
pub const SEVERAL: &[Metric] = &[
    Metric {
        name: "exact",
        doc: "share of the sequences with no label wrong; `accuracy` is that of the single labels",
        count: whole,
    },
    Metric {
        name: "f1",
        doc: "micro F1: twice the labels that were rightly found, by those that were found and those that there are",
        count: found,
    },
];

/// Whether each scored answer of an example is right.
fn answers(example: &Example, predicted: &[u32]) -> impl DoubleEndedIterator<Item = bool> {
    let asked = example.asked().into_iter().enumerate().filter(|(_, (_, weight))| *weight > 0.0);
    asked.map(|(at, (class, _))| predicted.get(at) == Some(&class))
}

/// All scored answers of an example.
pub fn scored(example: &Example, predicted: &[u32]) -> Tally {
    let one = |tally: Tally, right| Tally { right: tally.right + u64::from(right), all: tally.all + 1 };
    answers(example, predicted).fold(Tally::default(), one)
}

/// The last scored answer of every sequence alone.
pub(super) fn last_scored(example: &Example, predicted: &[u32]) -> Tally {
    let last = answers(example, predicted).next_back();
    last.map_or(Tally::default(), |right| Tally { right: u64::from(right), all: 1 })
}

/// Whether every scored answer of a sequence is right; a sequence without one does not count.
pub fn whole(example: &Example, predicted: &[u32]) -> Tally {
    let all = answers(example, predicted).reduce(|all, right| all && right);
    all.map_or(Tally::default(), |right| Tally { right: u64::from(right), all: 1 })
}

/// Labels that were rightly found, among those that were found or are there: both count twice where they agree.
fn found(example: &Example, predicted: &[u32]) -> Tally {
    let pairs = example.asked().into_iter().zip(predicted);
    pairs.fold(Tally::default(), |tally, ((label, _), found)| Tally {
        right: tally.right + 2 * u64::from(label * found),
        all: tally.all + u64::from(label + found),
    })
}

/// What is reported for answers of several tokens.
pub(super) const WHOLE: &[Metric] = &[Metric {
    name: "exact",
    doc: "share of the strings with no token of the answer wrong; `accuracy` is that of the single tokens",
    count: whole,
}];

#[cfg(test)]
mod tests {
    use super::super::ExampleTarget;
    use super::*;

    #[test]
    fn labels_are_counted_one_by_one_together_and_as_found() {
        let example = Example {
            label: ExampleTarget::Several(vec![true, false, true, false]),
            ..Example::classified(vec![1], 0)
        };
        assert_eq!(scored(&example, &[1, 1, 0, 0]), Tally { right: 2, all: 4 });
        assert_eq!(whole(&example, &[1, 0, 1, 0]), Tally { right: 1, all: 1 });
        assert_eq!(whole(&example, &[1, 1, 0, 0]), Tally { right: 0, all: 1 });
        // One rightly found, one wrongly, one missing: precision and recall are a half.
        assert_eq!(found(&example, &[1, 1, 0, 0]).share(), Some(0.5));
        assert_eq!(found(&example, &[0, 0, 0, 0]), Tally { right: 0, all: 2 });
    }

    #[test]
    fn the_last_scored_answer_decides() {
        let each = |class: &[u32], weight: &[f32]| Example {
            label: ExampleTarget::Each { class: class.to_vec(), weight: weight.to_vec() },
            ..Example::classified(vec![0; class.len()], 0)
        };
        let example = each(&[1, 1, 1, 0], &[1.0, 0.0, 1.0, 0.0]);
        assert_eq!(last_scored(&example, &[0, 0, 1, 1]), Tally { right: 1, all: 1 });
        assert_eq!(last_scored(&example, &[1, 1, 0, 0]), Tally { right: 0, all: 1 });
        assert_eq!(whole(&example, &[1, 0, 1, 1]), Tally { right: 1, all: 1 });
        assert_eq!(whole(&example, &[0, 0, 1, 1]), Tally { right: 0, all: 1 });
        assert_eq!(scored(&example, &[1, 0, 0, 1]), Tally { right: 1, all: 2 });
        assert_eq!(last_scored(&each(&[1], &[0.0]), &[1]), Tally::default());
        assert_eq!(
            whole(&each(&[1], &[0.0]), &[1]),
            Tally::default(),
            "a row without an answer is neither right nor wrong"
        );
        assert_eq!(Tally::default().share(), None);
        assert_eq!(last_scored(&Example::classified(vec![1, 2], 3), &[3]), Tally { right: 1, all: 1 });
    }
}
