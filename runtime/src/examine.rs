//! Analyses of a trained model: accuracy and depth by length, the halting of single examples, the trees of searches, what its states
//! stand for, and the saliency of tokens.

pub mod components;
pub mod receptive_field;
pub mod saliency;
pub mod states;

use std::collections::BTreeMap;

use rtc_compiler::ir::graph::Graph;
use rtc_compiler::plan::Plan;
use serde::{Deserialize, Serialize};

use crate::batch::Batch;
use crate::batching::pack;
use crate::exec::storage::Element;
use crate::exec::{HaltingTrace, ParseTrees, StateTrace, Unit};
use crate::generate::Generator;
use crate::learner::{Arrays, Evaluation, LearnError, Learner};
use crate::stopping::BySteps;
use crate::task::{Example, Tally, scored};

/// The interface between analyses and a trained model, on any machine.
pub trait Examined: Learner + BySteps {
    /// What it computes in.
    type Number: Element;

    /// An evaluation with the steps of every row, the runs of its halting recurrences, and the trees of its searches.
    ///
    /// # Errors
    /// As [`Learner::evaluate`].
    fn examine(&mut self, batch: &Batch) -> Result<Examination, LearnError>;
    /// The states of all positions after every step of every recurrence over them, and the nodes of every level of folds of whole
    /// rows, in the order in which they come about.
    ///
    /// # Errors
    /// As [`Learner::evaluate`].
    fn states(&mut self, batch: &Batch) -> Result<Vec<StateTrace>, LearnError>;
    /// Whether the number of its steps comes with the examples.
    fn takes_depth(&self) -> bool;
    /// The graph of a forward pass.
    fn forward_graph(&self) -> &Graph;
    /// The weights that are evaluated, their average where there is one.
    fn weights(&self) -> Arrays;
    /// A generator with the weights that are evaluated; it computes on the processor.
    fn generator(&mut self) -> Generator<Self::Number>;
    /// For every row what [`saliency::Saliency::shares`] gives, `plan` being that of [`rtc_compiler::pipeline::slopes`] for the
    /// length of the first row.
    ///
    /// # Errors
    /// A plan that is not of this model, or a row that it can't take.
    fn saliency(&self, plan: Plan, classes: usize, rows: &[Example]) -> Result<Vec<Option<Vec<f64>>>, LearnError>;
}

/// The results of [`Examined::examine`].
#[derive(Clone, Debug, PartialEq)]
pub struct Examination {
    /// What every evaluation gives.
    pub evaluation: Evaluation,
    /// Accepted steps of every row, if the model halts.
    pub depths: Option<Vec<f64>>,
    /// The runs of its halting recurrences, in the order in which they ended.
    pub halting: Vec<HaltingTrace>,
    /// The trees that its beam searches found, search by search.
    pub trees: Vec<ParseTrees>,
}

/// Accuracy and depth on the examples of one length.
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
pub fn by_length<M: Examined + ?Sized>(
    model: &mut M,
    examples: &[Example],
    batch: usize,
) -> Result<Vec<OfLength>, LearnError> {
    let mut found: BTreeMap<usize, OfLength> = BTreeMap::new();
    for chunk in examples.chunks(batch.max(1)) {
        let chunk: Vec<&Example> = chunk.iter().collect();
        let seen = model.examine(&pack(&chunk))?;
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
pub fn trace<M: Examined + ?Sized>(model: &mut M, example: &Example) -> Result<Traced, LearnError> {
    let seen = model.examine(&pack(&[example]))?;
    let units = seen.halting.into_iter().flat_map(|run| {
        let place = run.label;
        run.units.into_iter().map(move |unit| TracedUnit { place: place.clone(), unit })
    });
    let (units, trees) = (units.collect(), seen.trees);
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
