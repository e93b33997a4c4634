//! Tasks on strings of a chosen length, as rows of a table.

use std::ops::RangeInclusive;

use rtc_base::rng::Draws;

use super::{Objective, Split};
use crate::example::Example;
use crate::options::{OptionField, Options};

/// The request for one string.
#[derive(Clone, Copy, Debug)]
pub struct StringDraw<'a> {
    /// Its length, as the task counts it: bits of an operand, say.
    pub length: usize,
    /// In training the longest length of this update; nothing in a test.
    pub longest: Option<usize>,
    /// Its place in the batch or split: tasks that balance their classes take turns by it.
    pub index: u64,
    /// The complete options of the task.
    pub options: &'a Options,
}

/// A task on strings of a chosen length.
#[derive(Debug)]
pub struct Formal {
    /// The name in experiments.
    pub name: &'static str,
    /// One line of documentation.
    pub doc: &'static str,
    /// Where it is defined: paper, section, arXiv id.
    pub source: &'static str,
    /// What a model predicts.
    pub objective: Objective,
    /// The names of the tokens, by id.
    pub vocabulary: fn(&Options) -> Vec<String>,
    /// The names of the classes, by id.
    pub classes: fn(&Options) -> Vec<String>,
    /// The options; among them `train_length` and `test_length`.
    pub options: &'static [OptionField],
    /// The least length that has a string.
    pub shortest: usize,
    /// Draws the tokens of a string of the length, which is at least `shortest`.
    pub draw: fn(&StringDraw<'_>, &mut Draws) -> Vec<u32>,
    /// The example of some tokens, or why they are none.
    pub example: fn(&Options, &[u32]) -> Result<Example, String>,
}

impl Formal {
    /// The lengths of training.
    pub fn lengths(&self, options: &Options) -> RangeInclusive<usize> {
        self.shortest..=(options.get(TRAIN) as usize).max(self.shortest)
    }

    /// One example, drawn from `draws`.
    pub fn fresh(&self, draw: &StringDraw<'_>, draws: &mut Draws) -> Example {
        let tokens = (self.draw)(draw, draws);
        (self.example)(draw.options, &tokens).expect("a task understands the strings that it draws")
    }

    /// The lengths of a split, and whether it is drawn as in training.
    pub(crate) fn of_split(&self, split: &str, options: &Options) -> Result<(RangeInclusive<usize>, bool), String> {
        let trained = self.lengths(options);
        let longest = options.get(TEST) as usize;
        match split {
            "train" | "dev" => Ok((trained, true)),
            "test" => Ok((trained, false)),
            "long" if longest > *trained.end() => Ok((trained.end() + 1..=longest, false)),
            "long" => Err(format!("`long` needs a `{TEST}` above {}, the longest of training", trained.end())),
            _ => {
                let range = range(split).ok_or_else(|| format!("`{split}` is no range of lengths, as `41-500`"))?;
                Ok((*range.start().max(&self.shortest)..=*range.end().max(&self.shortest), false))
            }
        }
    }
}

/// Strings of every length in a range that no `task.sizes` names, as in the published evaluations.
const PER_LENGTH: usize = 512;
/// The longest length that can be asked for.
pub const MAX_LENGTH: u64 = 10_000;

pub(crate) const TRAIN: &str = "train_length";
pub(crate) const TEST: &str = "test_length";

/// How a split of these tasks can be named after its lengths.
pub(crate) const RANGES: &str = ", or shortest and longest length, as `41-500`";

/// The lengths of a split that is named after them, as `41-500`.
pub fn range(split: &str) -> Option<RangeInclusive<usize>> {
    let number = |text: &str| text.parse::<usize>().ok().filter(|n| (1..=MAX_LENGTH as usize).contains(n));
    let (from, to) = split.split_once('-')?;
    let (from, to) = (number(from)?, number(to)?);
    (from <= to).then_some(from..=to)
}

/// The split that is named after a range of lengths.
pub(crate) fn range_split(name: &str) -> Option<Split> {
    let lengths = range(name)?;
    let count = PER_LENGTH * (lengths.end() - lengths.start() + 1);
    Some(Split { name: "FROM-TO", doc: "strings of these lengths, in turn", count, files: &[] })
}
