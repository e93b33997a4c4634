//! Training by an update after every step of a loop: every row of the batch is a slot in which an example stays, with what the loop carries,
//! until it is through; then the slot takes the next example in the order of the data.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::feed::Feed;
use rtc_base::batch::{Batch, Given};
use rtc_exec::learner::{Carry, FlatArrays, RemainingState};
use rtc_runs::record::checkpoint::{SlotPlaces, TrainingPosition};
use rtc_task::Example;
use rtc_task::batching::Cursor;
use rtc_task::error::DataError;

/// State that the rows of a batch carry from one update to the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CarriedState {
    /// The numbers of every carried value, row by row; nothing of a fresh row.
    rows: Vec<Option<Vec<Vec<f64>>>>,
}

impl CarriedState {
    /// Fresh rows.
    pub fn new(rows: usize) -> Self {
        Self { rows: vec![None; rows] }
    }

    /// Gives a batch, whose rows are those from `first` on, what they carry.
    pub fn give(&self, carries: &[Carry], first: usize, batch: &mut Batch) {
        for (n, carry) in carries.iter().enumerate() {
            let mut numbers = vec![];
            for row in 0..batch.rows() {
                match self.rows.get(first + row).and_then(Option::as_ref) {
                    Some(values) => numbers.extend_from_slice(&values[n]),
                    // The model starts such a row, and reads zeros here.
                    None => numbers.resize(numbers.len() + carry.numbers(batch.row(row).len()), 0.0),
                }
            }
            batch.given.push(Given { name: carry.name.clone(), numbers });
        }
    }

    /// Keeps what the rows of that batch have left. Those that are through are fresh again; gives which they are.
    pub fn keep(&mut self, carries: &[Carry], first: usize, batch: &Batch, left: &RemainingState) -> Vec<usize> {
        let mut ends = vec![0; carries.len()];
        let mut through = vec![];
        for row in 0..batch.rows() {
            let mut own = vec![];
            for ((carry, values), end) in carries.iter().zip(&left.values).zip(&mut ends) {
                let from = *end;
                *end += carry.numbers(batch.row(row).len());
                own.push(values[from..*end].to_vec());
            }
            let over = left.over[row];
            self.rows[first + row] = (!over).then_some(own);
            if over {
                through.push(first + row);
            }
        }
        through
    }
}

/// The slots of a training.
#[derive(Debug)]
pub(super) struct TrainingSlots<'a> {
    examples: Vec<Cow<'a, Example>>,
    carried: CarriedState,
    places: SlotPlaces,
    /// The examples of the batch in which the next one is.
    coming: Vec<Cow<'a, Example>>,
}

impl<'a> TrainingSlots<'a> {
    /// The first examples of a training.
    pub(super) fn new(feed: &mut Feed<'a>, size: usize) -> Result<Self, DataError> {
        let next = TrainingPosition::default();
        let mut slots = Self {
            examples: vec![],
            carried: CarriedState::new(size),
            places: SlotPlaces { slots: vec![], next },
            coming: feed.batch(next.cursor)?,
        };
        for _ in 0..size {
            let (place, example) = slots.take(feed)?;
            slots.places.slots.push(place);
            slots.examples.push(example);
        }
        Ok(slots)
    }

    /// Those of a checkpoint.
    ///
    /// # Errors
    /// A sentence where what they carry is not that of these examples.
    pub(super) fn restored(
        feed: &mut Feed<'a>,
        carries: &[Carry],
        places: &SlotPlaces,
        saved: &FlatArrays,
    ) -> Result<Self, DataError> {
        let mut batches: BTreeMap<Cursor, Vec<Cow<'a, Example>>> = BTreeMap::new();
        for cursor in places.slots.iter().chain([&places.next]).map(|place| place.cursor) {
            if let Entry::Vacant(place) = batches.entry(cursor) {
                place.insert(feed.batch(cursor)?);
            }
        }
        let lost =
            |message: &str| DataError { file: "the checkpoint".to_owned(), line: None, message: message.to_owned() };
        let example = |place: &TrainingPosition| batches[&place.cursor].get(place.row).cloned();
        let examples: Option<Vec<_>> = places.slots.iter().map(example).collect();
        let examples = examples.ok_or_else(|| lost("its slots hold examples that the data has not"))?;
        let mut rows = vec![Some(vec![]); examples.len()];
        for carry in carries {
            let values = saved.items.get(&*carry.name).map_or(&[][..], |(_, values)| values);
            let mut rest = values.iter().map(|x| f64::from(*x));
            for (row, example) in rows.iter_mut().zip(&examples) {
                let own: Vec<f64> = rest.by_ref().take(carry.numbers(example.tokens.len())).collect();
                row.iter_mut().for_each(|row| row.push(own.clone()));
            }
            let expected: usize = examples.iter().map(|example| carry.numbers(example.tokens.len())).sum();
            if values.len() != expected {
                return Err(lost("its slots are not those of this model"));
            }
        }
        let coming = batches.remove(&places.next.cursor).unwrap_or_default();
        Ok(Self { examples, carried: CarriedState { rows }, places: places.clone(), coming })
    }

    /// The next example, in the order of the data.
    fn take(&mut self, feed: &mut Feed<'a>) -> Result<(TrainingPosition, Cow<'a, Example>), DataError> {
        if self.places.next.row >= self.coming.len() {
            let cursor = feed.next(self.places.next.cursor);
            self.coming = feed.batch(cursor)?;
            self.places.next = TrainingPosition { cursor, row: 0 };
        }
        let place = self.places.next;
        self.places.next.row += 1;
        Ok((place, self.coming[place.row].clone()))
    }

    /// The micro-batches of an update, with their shares of it.
    pub(super) fn batches(&self, feed: &Feed<'_>, carries: &[Carry], parts: usize) -> Vec<(Batch, f64)> {
        let examples: Vec<&Example> = self.examples.iter().map(AsRef::as_ref).collect();
        let mut batches = feed.split(&examples, parts);
        let mut first = 0;
        for (batch, _) in &mut batches {
            self.carried.give(carries, first, batch);
            first += batch.rows();
        }
        batches
    }

    /// Keeps what the rows of a micro-batch have left, the first of which is in slot `first`, and takes the next examples into the slots
    /// of those that are through.
    pub(super) fn keep(
        &mut self,
        feed: &mut Feed<'a>,
        carries: &[Carry],
        first: usize,
        (batch, left): (&Batch, &RemainingState),
    ) -> Result<(), DataError> {
        for slot in self.carried.keep(carries, first, batch, left) {
            let (place, example) = self.take(feed)?;
            self.places.slots[slot] = place;
            self.examples[slot] = example;
        }
        Ok(())
    }

    /// The batch that the next example comes from.
    pub(super) fn cursor(&self) -> Cursor {
        self.places.next.cursor
    }

    /// What a checkpoint holds of them.
    pub(super) fn saved(&self, carries: &[Carry]) -> (SlotPlaces, FlatArrays) {
        let array = |(n, carry): (usize, &Carry)| {
            let mut numbers: Vec<f32> = vec![];
            for (row, example) in self.carried.rows.iter().zip(&self.examples) {
                match row {
                    Some(values) => numbers.extend(values[n].iter().map(|x| *x as f32)),
                    None => numbers.resize(numbers.len() + carry.numbers(example.tokens.len()), 0.0),
                }
            }
            (carry.name.to_string(), (vec![numbers.len()], numbers))
        };
        (self.places.clone(), FlatArrays { items: carries.iter().enumerate().map(array).collect() })
    }
}
