//! The order of training examples, and batches made of them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Example, ExampleTarget};
use rtc_base::batch::{Batch, Given, Labels};
use rtc_base::rng::{Draws, Key};

/// How examples are grouped into batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Buckets {
    /// Uniformly shuffled, as in the papers.
    #[default]
    None,
    /// Shuffled, sorted by length inside windows of [`WINDOW`] batches, and the batches shuffled again.
    Length,
}

/// How often the rows of each class come in a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClassSampling {
    /// Every row once.
    #[default]
    Uniform,
    /// As many rows of every class: those of rare classes come several times, and those of frequent ones not in every pass.
    Balanced,
}

/// Number of batches that length buckets sort together.
pub const WINDOW: usize = 32;

/// A place in the training data: everything before it has been used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cursor {
    /// Passes over the data that are complete.
    pub epoch: u64,
    /// Batches used of the current pass.
    pub batch: u64,
}

/// Cuts the examples into batches, pass by pass. The batches of a pass depend on the seed and the pass alone.
#[derive(Clone, Debug)]
pub struct Batching {
    key: Key,
    rows: usize,
    /// The lengths of all rows, where they matter.
    lengths: Vec<u32>,
    /// The rows of every class, where each class is to come as often; else empty.
    classes: Vec<Vec<u32>>,
    size: usize,
    /// The pass that was asked for last, with its order.
    current: Option<(u64, RowOrder)>,
}

/// The order of a pass: four bytes per row, so that those of a large file find room.
#[derive(Clone, Debug)]
struct RowOrder {
    rows: Vec<u32>,
    /// Which batch of `rows` comes when, where that is not their order.
    turns: Option<Vec<u32>>,
}

impl Batching {
    /// Batches of `size` examples; the last one of a pass may be smaller.
    pub fn new(seed: u64, examples: &[Example], size: usize, buckets: Buckets) -> Self {
        Self::of_rows(seed, examples.len(), |row| examples[row].length(), (size, buckets))
    }

    /// The same for rows of which only the lengths are known.
    ///
    /// # Panics
    /// With more than 2^32 rows.
    pub fn of_rows(seed: u64, rows: usize, length: impl Fn(usize) -> usize, (size, buckets): (usize, Buckets)) -> Self {
        assert!(u32::try_from(rows).is_ok(), "rows are counted in 32 bits");
        let lengths = match buckets {
            Buckets::None => vec![],
            Buckets::Length => (0..rows).map(|row| length(row) as u32).collect(),
        };
        Self { key: Key::new(seed).stream("order"), rows, lengths, classes: vec![], size: size.max(1), current: None }
    }

    /// The same batching, with as many rows of every class in a pass; `None` for examples without one class each.
    #[must_use]
    pub fn balanced(self, examples: &[Example]) -> Option<Self> {
        let mut classes: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (row, example) in (0..).zip(examples) {
            let ExampleTarget::Class(class) = example.label else { return None };
            classes.entry(class).or_default().push(row);
        }
        Some(Self { classes: classes.into_values().collect(), ..self })
    }

    /// Number of batches of a pass.
    pub fn batches(&self) -> u64 {
        self.rows.div_ceil(self.size) as u64
    }

    /// Indices of the examples of the batch at `cursor`. The cursor must lie inside a pass.
    pub fn batch(&mut self, cursor: Cursor) -> &[u32] {
        if self.current.as_ref().is_none_or(|(epoch, _)| *epoch != cursor.epoch) {
            self.current = Some((cursor.epoch, self.order(cursor.epoch)));
        }
        let (_, RowOrder { rows, turns }) = self.current.as_ref().expect("the pass was worked out above");
        let batch = turns.as_ref().map_or(cursor.batch as usize, |turns| turns[cursor.batch as usize] as usize);
        &rows[batch * self.size..rows.len().min((batch + 1) * self.size)]
    }

    /// The cursor after the batch at `cursor`.
    pub fn next(&self, cursor: Cursor) -> Cursor {
        if cursor.batch + 1 < self.batches() {
            Cursor { batch: cursor.batch + 1, ..cursor }
        } else {
            Cursor { epoch: cursor.epoch + 1, batch: 0 }
        }
    }

    fn order(&self, epoch: u64) -> RowOrder {
        let mut draws = self.key.at(epoch).draws();
        let mut rows: Vec<u32> = (0..self.rows as u32).collect();
        if !self.classes.is_empty() {
            rows = self.of_classes(&mut draws);
        }
        draws.shuffle(&mut rows);
        if self.lengths.is_empty() {
            return RowOrder { rows, turns: None };
        }
        for window in rows.chunks_mut(self.size * WINDOW) {
            window.sort_by_key(|row| self.lengths[*row as usize]);
        }
        let mut turns: Vec<u32> = (0..self.batches() as u32).collect();
        draws.shuffle(&mut turns);
        RowOrder { rows, turns: Some(turns) }
    }

    /// The rows of a pass with equal shares of the classes. The rows of a class come in a new order whenever all of them have come.
    fn of_classes(&self, draws: &mut Draws) -> Vec<u32> {
        let count = self.classes.len();
        let mut rows = Vec::with_capacity(self.rows);
        for (n, of_class) in self.classes.iter().enumerate() {
            let (mut share, mut own) = (self.rows * (n + 1) / count - self.rows * n / count, of_class.clone());
            while share > 0 {
                draws.shuffle(&mut own);
                let taken = share.min(own.len());
                rows.extend(&own[..taken]);
                share -= taken;
            }
        }
        rows
    }
}

/// Packs examples into a batch. `width` is the padded width, at least the longest row.
///
/// For pairs the first sentences come first, then the second ones.
pub fn collect(examples: &[&Example], width: usize) -> Batch {
    let rows = examples.iter().map(|e| &e.tokens).chain(examples.iter().filter_map(|e| e.second.as_ref()));
    // The second row of a pair goes on for as many steps as its first.
    let seconds = examples.iter().filter(|e| e.second.is_some());
    let depths = examples.iter().chain(seconds).map(|e| e.depth).collect();
    let mut batch = Batch {
        offsets: vec![0],
        tokens: Vec::new(),
        labels: Labels::Class(Vec::new()),
        width,
        depths,
        given: given(examples),
    };
    for row in rows {
        batch.tokens.extend_from_slice(row);
        batch.offsets.push(batch.tokens.len());
    }
    batch.labels = labels(examples);
    batch
}

/// The values that come with some examples, row after row; those of a pair belong to both its rows.
fn given(examples: &[&Example]) -> Vec<Given> {
    let seconds = || examples.iter().filter(|example| example.second.is_some());
    let all = |(n, first): (usize, &Given)| {
        let of = |example: &&Example| example.given[n].numbers.clone();
        Given { name: first.name.clone(), numbers: examples.iter().chain(seconds()).flat_map(of).collect() }
    };
    examples.first().map_or(vec![], |first| first.given.iter().enumerate().map(all).collect())
}

/// Packs examples into a batch that is as wide as the longest of them.
pub fn pack(examples: &[&Example]) -> Batch {
    collect(examples, examples.iter().map(|example| example.length()).max().unwrap_or(0))
}

/// What some examples ask for. All examples of a task ask for the same kind of answer.
fn labels(examples: &[&Example]) -> Labels {
    let asked = || examples.iter().flat_map(|example| example.asked());
    let classes = || asked().map(|(class, _)| class).collect();
    let number =
        |example: &&Example| if let ExampleTarget::Number(number) = example.label { Some(number) } else { None };
    match examples.first().map(|example| &example.label) {
        None | Some(ExampleTarget::Class(_)) => Labels::Class(classes()),
        Some(ExampleTarget::Each { .. }) => {
            Labels::Each { class: classes(), weight: asked().map(|(_, w)| w).collect() }
        }
        Some(ExampleTarget::Number(_)) => Labels::Number(examples.iter().filter_map(number).collect()),
        Some(ExampleTarget::Several(_)) => Labels::Several(classes()),
    }
}

/// The micro-batches of one update with their shares of it.
///
/// A share is the part of the scored labels that lies in the micro-batch, so that the weighted sum of the micro-batches'
/// mean losses is the mean over the whole. Every part has the width of the whole, so that `cut: balanced` cuts alike.
pub fn split(examples: &[&Example], parts: usize) -> Vec<(Batch, f64)> {
    let width = examples.iter().map(|example| example.length()).max().unwrap_or(0);
    let total: f64 = examples.iter().map(|example| example.weight()).sum();
    let share = |part: &[&Example]| {
        if total > 0.0 { part.iter().map(|example| example.weight()).sum::<f64>() / total } else { 0.0 }
    };
    let rows = examples.len().div_ceil(parts.max(1)).max(1);
    examples.chunks(rows).map(|part| (collect(part, width), share(part))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples(count: u32) -> Vec<Example> {
        (0..count).map(|i| Example::classified(vec![i; 1 + (i as usize * 7) % 23], i % 10)).collect()
    }

    fn pass(batching: &mut Batching, epoch: u64) -> Vec<Vec<u32>> {
        (0..batching.batches()).map(|batch| batching.batch(Cursor { epoch, batch }).to_vec()).collect()
    }

    #[test]
    fn every_pass_uses_every_example_once_in_its_own_order() {
        for buckets in [Buckets::None, Buckets::Length] {
            let mut batching = Batching::new(5, &examples(1003), 10, buckets);
            let first = pass(&mut batching, 0);
            let second = pass(&mut batching, 1);
            assert_ne!(first, second);
            for order in [&first, &second] {
                let mut all: Vec<u32> = order.concat();
                all.sort_unstable();
                assert_eq!(all, (0..1003).collect::<Vec<_>>());
                assert_eq!(order.len(), 101);
            }
            assert_eq!(pass(&mut batching, 0), first, "a pass can be asked for again");
        }
    }

    #[test]
    fn balanced_passes_have_as_many_rows_of_every_class() {
        let data: Vec<Example> =
            (0..100).map(|i| Example::classified(vec![i], if i < 5 { 0 } else { 1 + i % 2 })).collect();
        for buckets in [Buckets::None, Buckets::Length] {
            let mut batching = Batching::new(5, &data, 10, buckets).balanced(&data).expect("classes");
            let first = pass(&mut batching, 0).concat();
            assert_eq!(first.len(), 100);
            let of = |class: &dyn Fn(u32) -> bool| first.iter().filter(|row| class(**row)).count();
            assert_eq!([of(&|i| i < 5), of(&|i| i >= 5 && i % 2 == 0), of(&|i| i >= 5 && i % 2 == 1)], [33, 33, 34]);
            for rare in 0..5 {
                assert!((6..=7).contains(&of(&|i| i == rare)), "all rows of a class come before one comes again");
            }
            assert_ne!(first, pass(&mut batching, 1).concat());
            assert_eq!(first, pass(&mut batching, 0).concat());
        }
        let numbers = [Example { label: ExampleTarget::Number(1.0), ..data[0].clone() }];
        assert!(Batching::new(5, &numbers, 10, Buckets::None).balanced(&numbers).is_none());
    }

    #[test]
    fn length_buckets_make_batches_of_similar_length() {
        let data = examples(1000);
        let spread = |buckets| {
            let mut batching = Batching::new(5, &data, 10, buckets);
            let range = |batch: &Vec<u32>| {
                let lengths = batch.iter().map(|i| data[*i as usize].length());
                lengths.clone().max().unwrap_or(0) - lengths.min().unwrap_or(0)
            };
            pass(&mut batching, 0).iter().map(range).sum::<usize>()
        };
        assert!(spread(Buckets::Length) * 5 < spread(Buckets::None));
    }

    #[test]
    fn parts_share_one_width_and_their_shares_add_up_to_one() {
        let data = examples(7);
        let all: Vec<&Example> = data.iter().collect();
        let parts = split(&all, 3);
        assert_eq!(parts.iter().map(|(batch, _)| batch.rows()).collect::<Vec<_>>(), [3, 3, 1]);
        assert!((parts.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-15);
        assert!(parts.iter().all(|(batch, _)| batch.width == 22));
    }

    #[test]
    fn pairs_are_stacked_first_sentences_first() {
        let own = |a: u32| vec![Given { name: "hint".into(), numbers: vec![f64::from(a) / 2.0] }];
        let second = |a: u32| Some(vec![a + 10, a + 10]);
        let pair = |a: u32| Example { second: second(a), given: own(a), ..Example::classified(vec![a], a) };
        let (one, two) = (pair(1), pair(2));
        let batch = collect(&[&one, &two], 2);
        assert_eq!(batch.tokens, [1, 2, 11, 11, 12, 12]);
        assert_eq!(batch.offsets, [0, 1, 2, 4, 6]);
        assert_eq!(batch.labels, Labels::Class(vec![1, 2]));
        assert_eq!(batch.given[0].numbers, [0.5, 1.0, 0.5, 1.0]);
    }

    #[test]
    fn every_row_of_a_batch_has_the_values_of_its_example() {
        let of = |n: u32| {
            let per_row = Given { name: "row".into(), numbers: vec![f64::from(n)] };
            let tokens: Vec<u32> = vec![n; 1 + n as usize % 3];
            let each = tokens.iter().zip(0..).flat_map(|(_, at)| [f64::from(n), f64::from(at)]).collect();
            let per_token = Given { name: "token".into(), numbers: each };
            Example { given: vec![per_row, per_token], ..Example::classified(tokens, n) }
        };
        let data: Vec<Example> = (0..50).map(of).collect();
        let mut batching = Batching::new(3, &data, 8, Buckets::Length);
        let mut seen = 0;
        for at in 0..batching.batches() {
            let rows = batching.batch(Cursor { epoch: 1, batch: at }).to_vec();
            let rows: Vec<&Example> = rows.iter().map(|row| &data[*row as usize]).collect();
            for (batch, _) in split(&rows, 3) {
                let [row, token] = &batch.given[..] else { panic!("two values") };
                for r in 0..batch.rows() {
                    let own = f64::from(batch.row(r)[0]);
                    assert_eq!(row.numbers[r], own);
                    let range = batch.offsets[r]..batch.offsets[r + 1];
                    for (place, at) in range.zip(0..) {
                        assert_eq!(token.numbers[2 * place..2 * place + 2], [own, f64::from(at)]);
                    }
                    seen += 1;
                }
            }
        }
        assert_eq!(seen, data.len());
    }
}
