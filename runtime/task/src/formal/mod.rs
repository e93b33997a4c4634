//! Tasks on strings of a chosen length: regular languages, the Chomsky hierarchy, looped arithmetic.
//!
//! Every such task is a row: how a string of a length is drawn, and what the answer to a string is. So a training can draw
//! fresh strings for every update, a split can be a range of lengths (`41-500`), and any string of a file has its answer
//! worked out. One file per family; to add a task, add a row to its family and name it in [`super::TASKS`].

mod accept;
mod arithmetic;
pub mod automaton;
mod bits;
pub mod looped;
pub mod regular;
pub mod transduce;

pub use accept::{DYCK, TOMITA};

use std::path::Path;

use super::{
    Example, ExampleTarget, GenerationRequest, Objective, OptionField, Options, Split, Task, TaskDescription, option,
    split,
};
use crate::error::DataError;
use crate::held::lines;
use crate::metric::WHOLE;
pub use crate::task::strings::{Formal, MAX_LENGTH, StringDraw, range};
use crate::task::strings::{TEST, TRAIN};
use rtc_base::rng::{Draws, Key};

/// The most tokens of a split, which is held in memory.
const MAX_TOKENS: u64 = 1 << 29;
/// Where the tasks of the Chomsky hierarchy are defined.
const CHOMSKY: &str = "Delétang et al. 2023 (Chomsky hierarchy), arXiv:2207.02098";

/// A task of the Chomsky hierarchy that asks for a bit about a string of bits, from length 1 on.
const fn classify(
    (name, doc): (&'static str, &'static str),
    draw: fn(&StringDraw<'_>, &mut Draws) -> Vec<u32>,
    example: fn(&Options, &[u32]) -> Result<Example, String>,
) -> Formal {
    Formal {
        name,
        doc,
        source: CHOMSKY,
        objective: Objective::Classify,
        vocabulary: |_| numbers(2),
        classes: |_| numbers(2),
        options: const { &[train_length(40), test_length(500)] },
        shortest: 1,
        draw,
        example,
    }
}

/// The option with the longest length of training.
const fn train_length(default: u64) -> OptionField {
    option(TRAIN, default, 1, MAX_LENGTH, "longest length of training, of dev and of test")
}

/// The option with the longest length of `long`.
const fn test_length(default: u64) -> OptionField {
    option(TEST, default, 1, MAX_LENGTH, "longest length of the split `long`, which begins above `train_length`")
}

const SPLITS: [Split; 4] = [
    split("train", "lengths up to `train_length`, each as likely as any other", 100_000, &[]),
    split("dev", "the lengths of training in turn, drawn as in training", 2_560, &[]),
    split("test", "the lengths of training in turn", 10_240, &[]),
    split("long", "the lengths above those of training, up to `test_length`, in turn", 23_000, &[]),
];

fn names(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn numbers(count: u64) -> Vec<String> {
    (0..count).map(|n| n.to_string()).collect()
}

/// Fair bits.
fn fair(length: usize, draws: &mut Draws) -> Vec<u32> {
    (0..length).map(|_| draws.below(2) as u32).collect()
}

/// The bits of a number above 0, all of that length alike.
fn positive(length: usize, draws: &mut Draws) -> Vec<u32> {
    loop {
        let bits = fair(length, draws);
        if bits.contains(&1) {
            return bits;
        }
    }
}

/// An example that asks for one class.
fn classified(tokens: &[u32], class: u32) -> Example {
    Example { size: Some(tokens.len() as u32), ..Example::classified(tokens.to_vec(), class) }
}

/// Refuses ids that are none of the first `count`, and the empty string.
fn check(tokens: &[u32], count: u32) -> Result<(), String> {
    match tokens.iter().position(|token| *token >= count) {
        _ if tokens.is_empty() => Err("there is no token".to_owned()),
        Some(at) => Err(format!("token {} can't stand here", at + 1)),
        None => Ok(()),
    }
}

impl Task for Formal {
    fn about(&self) -> TaskDescription {
        TaskDescription {
            name: self.name,
            doc: self.doc,
            source: self.source,
            objective: self.objective,
            options: self.options,
            splits: &SPLITS,
            metrics: if self.objective == Objective::Each { WHOLE } else { &[] },
        }
    }

    /// Answers of several tokens stand on blanks that the string ends with: no token is an answer, unless an option says so.
    fn next_token(&self, options: &Options) -> bool {
        self.options.iter().any(|field| field.name == looped::NEXT_TOKEN) && looped::next_token(options)
    }

    fn vocabulary(&self, options: &Options) -> Vec<String> {
        (self.vocabulary)(options)
    }

    fn classes(&self, options: &Options) -> Vec<String> {
        (self.classes)(options)
    }

    fn formal(&self) -> Option<&Formal> {
        Some(self)
    }

    /// Strings are drawn by themselves, so short ones occur more than once, and in several splits: there are only two of one bit.
    fn generate(&self, request: &GenerationRequest<'_>) -> Result<Vec<Example>, DataError> {
        let fail = |message| DataError { file: self.name.into(), line: None, message };
        self.split(request.split).map_err(fail)?;
        let (lengths, trained) = self.of_split(request.split, request.options).map_err(fail)?;
        let count = lengths.end() - lengths.start() + 1;
        let tokens = request.count as u64 * (lengths.start() + lengths.end()) as u64 / 2;
        if tokens > MAX_TOKENS {
            let (split, strings) = (request.split, request.count);
            let message =
                format!("{strings} strings of `{split}` have about {tokens} tokens: ask for fewer under `sizes`");
            return Err(fail(message));
        }
        let key = Key::new(request.seed).stream(self.name).stream(request.split);
        let one = |n: usize| {
            let mut draws = key.at(n as u64).draws();
            let turn = if request.split == "train" { draws.below(count as u64) as usize } else { n % count };
            let longest = trained.then_some(*lengths.end());
            // Those of one length take turns among themselves.
            let draw = StringDraw {
                length: lengths.start() + turn,
                longest,
                index: (n / count) as u64,
                options: request.options,
            };
            self.fresh(&draw, &mut draws)
        };
        Ok((0..request.count).map(one).collect())
    }

    /// A string per line, its tokens as [`Task::encode`] takes them; the answer is worked out.
    fn read(&self, path: &Path, options: &Options) -> Result<Vec<Example>, DataError> {
        lines(path, |_, text| (self.example)(options, &self.encode(text, options)?).map(Some))
    }
}

/// The answer of a whole string, written on the last tokens.
fn written(tokens: &[u32], size: usize, answer: &[u32], scored: usize) -> Example {
    let start = tokens.len() - answer.len();
    let (mut class, mut weight) = (vec![0; tokens.len()], vec![0.0; tokens.len()]);
    class[start..].copy_from_slice(answer);
    weight[start..start + scored].fill(1.0);
    let label = ExampleTarget::Each { class, weight };
    Example { label, size: Some(size as u32), ..Example::classified(tokens.to_vec(), 0) }
}
