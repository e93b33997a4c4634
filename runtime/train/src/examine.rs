//! Analyses of a trained model: accuracy and depth by length, the halting of single examples, the trees of searches, what its states
//! stand for, and the saliency of tokens.

pub mod attention;
pub mod components;
pub mod receptive_field;
pub mod saliency;
pub mod states;

use std::collections::BTreeMap;

use rtc_compiler::ir::graph::Graph;
use rtc_compiler::plan::Plan;

use crate::examine::saliency::Saliency;
use crate::generate::Generator;
use crate::stopping::BySteps;
use rtc_base::batch::Batch;
use rtc_exec::learner::{Evaluation, FlatArrays, LearnError, Learner};
pub use rtc_exec::model::Examination;
use rtc_exec::model::{Backend, ModelOn};
use rtc_exec::storage::Element;
use rtc_exec::{AttentionMap, ParseTrees, StateTrace, UnitHalting};
use rtc_runs::record::OfLength;
use rtc_task::batching::pack;
use rtc_task::{Example, Tally, scored};

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
    /// The weights of attention for all rows, in the order in which they come about. They are computed on the processor.
    ///
    /// # Errors
    /// As [`Learner::evaluate`].
    fn attended(&mut self, batch: &Batch) -> Result<Vec<AttentionMap>, LearnError>;
    /// Whether the number of its steps comes with the examples.
    fn takes_depth(&self) -> bool;
    /// The graph of a forward pass.
    fn forward_graph(&self) -> &Graph;
    /// The weights that are evaluated, their average where there is one.
    fn weights(&self) -> FlatArrays;
    /// A generator with the weights that are evaluated; it computes on the processor.
    fn generator(&mut self) -> Generator<Self::Number>;
    /// For every row what [`saliency::Saliency::shares`] gives, `plan` being that of [`rtc_compiler::pipeline::slopes`] for the
    /// length of the first row.
    ///
    /// # Errors
    /// A plan that is not of this model, or a row that it can't take.
    fn saliency(&self, plan: Plan, classes: usize, rows: &[Example]) -> Result<Vec<Option<Vec<f64>>>, LearnError>;
}

impl<B: Backend> Examined for ModelOn<B> {
    type Number = B::Number;

    fn examine(&mut self, batch: &Batch) -> Result<Examination, LearnError> {
        self.examination(batch)
    }

    fn states(&mut self, batch: &Batch) -> Result<Vec<StateTrace>, LearnError> {
        self.state_traces(batch)
    }

    fn attended(&mut self, batch: &Batch) -> Result<Vec<AttentionMap>, LearnError> {
        self.attention_maps(batch)
    }

    fn takes_depth(&self) -> bool {
        self.depth_is_given()
    }

    fn forward_graph(&self) -> &Graph {
        self.inference_graph()
    }

    fn weights(&self) -> FlatArrays {
        self.evaluated_weights()
    }

    fn generator(&mut self) -> Generator<B::Number> {
        Generator::new(self.forward_pass())
    }

    fn saliency(&self, plan: Plan, classes: usize, rows: &[Example]) -> Result<Vec<Option<Vec<f64>>>, LearnError> {
        let Some(length) = rows.first().map(|row| row.tokens.len()) else { return Ok(vec![]) };
        let mut saliency = Saliency::new(self, plan, length, classes)?;
        rows.iter().map(|row| saliency.shares(row)).collect()
    }
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
pub struct TracedExample {
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
    pub unit: UnitHalting,
}

/// Runs the model on one example.
///
/// # Errors
/// A model that gives no finite answer, or an example that it can't take.
pub fn trace<M: Examined + ?Sized>(model: &mut M, example: &Example) -> Result<TracedExample, LearnError> {
    let seen = model.examine(&pack(&[example]))?;
    let units = seen.halting.into_iter().flat_map(|run| {
        let place = run.label;
        run.units.into_iter().map(move |unit| TracedUnit { place: place.clone(), unit })
    });
    let (units, trees) = (units.collect(), seen.trees);
    Ok(TracedExample { evaluation: seen.evaluation, units, trees })
}
