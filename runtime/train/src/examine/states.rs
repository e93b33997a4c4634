//! The states of recurrences over positions and of folds, and what each of them can have seen: the material of a picture in which
//! states that stand for the same lie together.

use std::collections::BTreeMap;
use std::ops::Range;

use rtc_base::rng::Key;
use rtc_exec::learner::LearnError;
use rtc_exec::{Owners, StateTrace};
use rtc_task::Example;
use rtc_task::batching::pack;

use super::Examined;
use super::receptive_field::{ReceptiveField, receptive_field};

/// The states of one recurrence or fold.
#[derive(Clone, Debug, PartialEq)]
pub struct States {
    /// The place in the spec: `depthwise`.
    pub place: String,
    /// Some of its states.
    pub states: Vec<PositionState>,
}

/// The state of a position after a step, or what a level of a fold made of a part of the row.
#[derive(Clone, Debug, PartialEq)]
pub struct PositionState {
    /// Its numbers.
    pub vector: Vec<f32>,
    /// Which of the examples.
    pub example: usize,
    /// The step or level, from 0.
    pub step: usize,
    /// Between which tokens of the example all those lie that it can have seen; START and END are none.
    pub seen: Range<usize>,
}

/// The states of every recurrence over positions and of every fold of whole rows on these examples, which are no pairs; of each
/// about `most`, drawn fairly.
///
/// # Errors
/// A model that gives no finite answer, or examples that it can't take.
pub fn states<M: Examined + ?Sized>(
    model: &mut M,
    examples: &[Example],
    most: usize,
) -> Result<Vec<States>, LearnError> {
    let mut found: Vec<States> = vec![];
    let mut known = ReceptiveFields::new();
    for (n, example) in examples.iter().enumerate() {
        let stepped = model.states(&pack(&[example]))?;
        // The steps of one recurrence may lie between those of another one.
        let mut places: Vec<(&str, Vec<&StateTrace>)> = vec![];
        for one in &stepped {
            match places.iter_mut().find(|(place, _)| *place == one.label) {
                Some((_, own)) => own.push(one),
                None => places.push((&one.label, vec![one])),
            }
        }
        for (place, own) in places {
            let states = of_example(model, &own, example.tokens.len(), (n, most / examples.len().max(1)), &mut known);
            match found.iter_mut().find(|other| other.place == place) {
                Some(other) => other.states.extend(states),
                None => found.push(States { place: place.to_owned(), states }),
            }
        }
    }
    Ok(found)
}

/// Receptive fields of a recurrence's states, by the numbers of positions and steps.
type ReceptiveFields = BTreeMap<(String, usize, usize), Vec<ReceptiveField>>;

/// About `most` of the states that a recurrence or fold has on one example, which has so many tokens.
fn of_example<M: Examined + ?Sized>(
    model: &M,
    runs: &[&StateTrace],
    tokens: usize,
    (example, most): (usize, usize),
    known: &mut ReceptiveFields,
) -> Vec<PositionState> {
    let count = |one: &StateTrace| one.states.len() / one.width.max(1);
    let end = |one: &StateTrace| match &one.owners {
        Owners::Positions(start) => start + count(one),
        Owners::Parts(parts) => parts.last().map_or(0, |part| part.end),
    };
    let total: usize = runs.iter().map(|one| count(one)).sum();
    let length = runs.iter().map(|one| end(one)).max().unwrap_or(0);
    let steps = runs.iter().map(|one| one.step + 1).max().unwrap_or(0);
    // START and END stand around the tokens, or there are neither.
    let before = length.saturating_sub(tokens) / 2;
    let among = |seen: &Range<usize>| {
        let place = |at: usize| at.saturating_sub(before).min(tokens);
        place(seen.start)..place(seen.end)
    };
    let mut seen = |one: &StateTrace, at: usize| match &one.owners {
        Owners::Parts(parts) => among(&parts[at]),
        Owners::Positions(start) => {
            let fields = known
                .entry((one.label.clone(), length, steps))
                .or_insert_with(|| receptive_field(model.forward_graph(), &one.label, length, steps));
            among(&fields[one.step][start + at])
        }
    };
    let chosen = Key::new(0).stream("states").at(example as u64);
    let all =
        runs.iter().flat_map(|one| one.states.chunks(one.width.max(1)).enumerate().map(move |state| (*one, state)));
    let drawn = all.enumerate().filter(|(n, _)| chosen.uniform(*n as u64) * (total as f64) < most as f64);
    drawn
        .map(|(_, (one, (at, vector)))| PositionState {
            vector: vector.to_vec(),
            example,
            step: one.step,
            seen: seen(one, at),
        })
        .collect()
}
