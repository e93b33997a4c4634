//! Looking closer at a trained model: accuracy and depth by length, how single examples halt, which trees searches find, what
//! its states stand for, which tokens an answer leans on.

pub mod components;
pub mod leaning;
pub mod sight;
pub mod states;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::batching::collect;
use crate::exec::storage::Element;
use crate::exec::{ParseTrees, Unit};
use crate::learner::{Evaluation, LearnError};
use crate::model::Model;
use crate::task::{Example, Tally, scored};

/// How a model does on the examples of one length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OfLength {
    /// Tokens of an example, for a pair of the longer side; or the length that its task counts.
    pub length: usize,
    /// Number of examples.
    pub examples: u64,
    /// Number of predictions that were scored.
    pub scored: u64,
    /// How many of them were right.
    pub correct: u64,
    /// Sum over the examples of their accepted steps (for a pair the mean of both sides), if the model halts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<f64>,
}

/// Accuracy and depth by length, shortest first. Batches are cut as in an evaluation.
///
/// # Errors
/// A model that gives no finite answer, or examples that it can't take.
pub fn by_length<T: Element>(
    model: &mut Model<T>,
    examples: &[Example],
    batch: usize,
) -> Result<Vec<OfLength>, LearnError> {
    let mut found: BTreeMap<usize, OfLength> = BTreeMap::new();
    for chunk in examples.chunks(batch.max(1)) {
        let chunk: Vec<&Example> = chunk.iter().collect();
        let width = chunk.iter().map(|example| example.length()).max().unwrap_or(0);
        let seen = model.examine(&collect(&chunk, width))?;
        let mut predictions = seen.evaluation.predictions.iter().copied();
        for (n, example) in chunk.iter().enumerate() {
            let of = found.entry(example.measured_length()).or_default();
            of.length = example.measured_length();
            of.examples += 1;
            let own: Vec<u32> = predictions.by_ref().take(example.classes()).collect();
            let Tally { right, all } = scored(example, &own);
            of.scored += all;
            of.correct += right;
            if let Some(depths) = &seen.depths {
                // The second sides of pairs are the second half of the rows.
                let second = example.second.as_ref().and_then(|_| depths.get(chunk.len() + n));
                let steps = second.map_or(depths[n], |second| (depths[n] + second) / 2.0);
                of.steps = Some(of.steps.unwrap_or(0.0) + steps);
            }
        }
    }
    Ok(found.into_values().collect())
}

/// One example with what the model answers, how it halts, and its trees.
#[derive(Clone, Debug, PartialEq)]
pub struct Traced {
    /// What the model answers, and how sure it is.
    pub evaluation: Evaluation,
    /// How the units of its halting recurrences halt, recurrence by recurrence in the order in which they ended. The
    /// row of a unit is 0, or 1 for the second side of a pair.
    pub units: Vec<TracedUnit>,
    /// What its beam searches made of it, the rows as above.
    pub trees: Vec<ParseTrees>,
}

/// A unit of a halting recurrence.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedUnit {
    /// The place of the recurrence in the spec: `chunkwise.depthwise`.
    pub place: String,
    /// Which positions it has, and how it halted.
    pub unit: Unit,
}

/// Runs the model on one example.
///
/// # Errors
/// A model that gives no finite answer, or an example that it can't take.
pub fn trace<T: Element>(model: &mut Model<T>, example: &Example) -> Result<Traced, LearnError> {
    let seen = model.examine(&collect(&[example], example.length()))?;
    let units = seen.halting.into_iter().flat_map(|run| {
        let place = run.label;
        run.units.into_iter().map(move |unit| TracedUnit { place: place.clone(), unit })
    });
    let (units, trees) = (units.collect(), seen.grown);
    Ok(Traced { evaluation: seen.evaluation, units, trees })
}

impl Unit {
    /// Number of accepted steps.
    pub fn steps(&self) -> usize {
        self.survival.len()
    }

    /// The weights of the states `H_0 .. H_K` in the output, which add up to 1: the probability to stop at each of them, and
    /// for the last one all that is left.
    pub fn weights(&self) -> Vec<f64> {
        let before = std::iter::once(1.0).chain(self.survival.iter().copied());
        let stops = before.clone().zip(&self.survival).map(|(before, after)| before - after);
        stops.chain(before.last()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_what_survival_loses() {
        let unit = |survival: &[f64]| Unit { survival: survival.to_vec(), ..Unit::default() };
        assert_eq!(unit(&[]).weights(), [1.0], "a unit that stops at once gives its input");
        assert_eq!(unit(&[0.75, 0.25]).weights(), [0.25, 0.5, 0.25]);
    }
}
