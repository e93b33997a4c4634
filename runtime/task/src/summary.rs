//! The summary of a split: sizes, lengths, label shares, and rows to print.

use std::collections::BTreeMap;

use super::{Example, ExampleTarget, Options, SIDES, Task};
use rtc_base::batch::Given;

/// Numbers that describe a split.
#[derive(Clone, Debug, PartialEq)]
pub struct SplitDescription {
    /// Number of examples.
    pub examples: usize,
    /// Number of tokens in all of them, both sides of pairs counted.
    pub tokens: usize,
    /// Length of the shortest, the middle (upper median) and the longest example; zeros for an empty split.
    pub lengths: [usize; 3],
    /// Mean length.
    pub mean_length: f64,
    /// Share of every class among the labels that count, by class id; only classes that occur. Of several labels the share of
    /// the examples that have each.
    pub label_shares: BTreeMap<u32, f64>,
    /// Of the values that come with the examples, in their order.
    pub given: Vec<GivenLook>,
}

/// What a value is that comes with examples.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenLook {
    /// What models call it.
    pub name: String,
    /// How many numbers an example has, the least and the most.
    pub numbers: [usize; 2],
    /// The smallest and the largest number.
    pub range: [f64; 2],
}

/// An example as text.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleRow {
    /// The tokens, separated by blanks; a pair has [`SIDES`] between its sides.
    pub text: String,
    /// The class, the classes of the tokens that count with `.` for the others, the number, or the labels with commas.
    pub label: String,
    /// The values that come with it.
    pub given: Vec<Given>,
}

/// Describes a split.
pub fn describe(examples: &[Example]) -> SplitDescription {
    let mut lengths: Vec<usize> = examples.iter().map(Example::length).collect();
    lengths.sort_unstable();
    let tokens = examples.iter().map(|e| e.tokens.len() + e.second.as_ref().map_or(0, Vec::len)).sum();
    SplitDescription {
        examples: examples.len(),
        tokens,
        lengths: spread(&lengths),
        mean_length: lengths.iter().sum::<usize>() as f64 / lengths.len().max(1) as f64,
        label_shares: label_shares(examples),
        given: given_looks(examples),
    }
}

fn given_looks(examples: &[Example]) -> Vec<GivenLook> {
    let look = |(n, first): (usize, &Given)| {
        let none = (usize::MAX, 0, f64::INFINITY, f64::NEG_INFINITY);
        let (least, most, low, high) = examples.iter().fold(none, |(least, most, low, high), example| {
            let own = &example.given[n].numbers;
            let (low, high) = own.iter().fold((low, high), |(low, high), x| (x.min(low), x.max(high)));
            (least.min(own.len()), most.max(own.len()), low, high)
        });
        GivenLook { name: first.name.to_string(), numbers: [least, most], range: [low, high] }
    };
    examples.first().map_or(vec![], |first| first.given.iter().enumerate().map(look).collect())
}

/// The shortest, the middle and the longest of sorted lengths; zeros where there are none.
pub(super) fn spread(lengths: &[usize]) -> [usize; 3] {
    let at = |index: usize| lengths.get(index).copied().unwrap_or(0);
    [at(0), at(lengths.len() / 2), at(lengths.len().saturating_sub(1))]
}

/// The accuracy of always answering the most frequent class, or for each of several labels what is most frequent for it.
/// 0 for an empty split.
pub fn majority_share(examples: &[Example]) -> f64 {
    let shares = label_shares(examples).into_values();
    match examples.first().map(|example| &example.label) {
        Some(ExampleTarget::Several(labels)) => {
            let often = shares.map(|share| share.max(1.0 - share)).sum::<f64>();
            often / labels.len().max(1) as f64
        }
        _ => shares.fold(0.0, f64::max),
    }
}

/// The share of every class among the answers that count; of several labels the share of the examples that have each.
pub(super) fn label_shares(examples: &[Example]) -> BTreeMap<u32, f64> {
    let mut counts = LabelCounts::default();
    examples.iter().for_each(|example| counts.add(example));
    counts.shares()
}

/// The answers that count, class by class.
#[derive(Clone, Debug, Default)]
pub(super) struct LabelCounts {
    weights: BTreeMap<u32, f64>,
    /// Examples that have several labels each.
    several: usize,
}

impl LabelCounts {
    /// Counts an example.
    pub(super) fn add(&mut self, example: &Example) {
        let mut add = |class: u32, weight: f64| *self.weights.entry(class).or_insert(0.0) += weight;
        match &example.label {
            ExampleTarget::Several(labels) => {
                (0..).zip(labels).for_each(|(id, label)| add(id, f64::from(u8::from(*label))));
                self.several += 1;
            }
            _ => {
                let counts = example.asked().into_iter().filter(|(_, weight)| *weight > 0.0);
                counts.for_each(|(class, weight)| add(class, f64::from(weight)));
            }
        }
    }

    /// The shares of the classes.
    pub(super) fn shares(&self) -> BTreeMap<u32, f64> {
        let total: f64 = if self.several > 0 { self.several as f64 } else { self.weights.values().sum() };
        self.weights.iter().map(|(class, weight)| (*class, weight / total)).collect()
    }
}

/// A set of labels as text: their names with commas between, `-` for none.
pub fn set_text(classes: &[String], labels: impl IntoIterator<Item = bool>) -> String {
    let named = classes.iter().zip(labels).filter(|(_, label)| *label).map(|(name, _)| name.as_str());
    let names: Vec<&str> = named.collect();
    if names.is_empty() { "-".to_owned() } else { names.join(", ") }
}

/// The first `count` examples as text.
pub fn sample(task: &dyn Task, options: &Options, examples: &[Example], count: usize) -> Vec<SampleRow> {
    let classes = task.classes(options);
    let name = |names: &[String], id: u32| names.get(id as usize).cloned().unwrap_or_else(|| format!("?{id}"));
    let words = |tokens: &[u32]| task.decode(tokens, options);
    let label = |target: &ExampleTarget| match target {
        ExampleTarget::Class(class) => name(&classes, *class),
        ExampleTarget::Each { class, weight } => {
            let shown = |(class, weight): (&u32, &f32)| if *weight > 0.0 { name(&classes, *class) } else { ".".into() };
            class.iter().zip(weight).map(shown).collect::<Vec<_>>().join(" ")
        }
        ExampleTarget::Number(number) => task.scale(options).text(f64::from(*number)),
        ExampleTarget::Several(labels) => set_text(&classes, labels.iter().copied()),
    };
    let row = |example: &Example| {
        let second = example.second.as_ref().map(|second| format!(" {SIDES} {}", words(second))).unwrap_or_default();
        let given = example.given.clone();
        SampleRow { text: words(&example.tokens) + &second, label: label(&example.label), given }
    };
    examples.iter().take(count).map(row).collect()
}
