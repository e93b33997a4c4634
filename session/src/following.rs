//! Ranks besides rank 0: what they are told of the model, and what they do.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use rtc_compiler::formula::UpdateFormula;
use rtc_compiler::ir::text;
use rtc_compiler::pipeline::memory::LargestBatches;
use rtc_compiler::plan::memory::{BatchShape, MemoryTarget};
use rtc_compiler::schema::Catalog;
use rtc_exec::learner::LearnError;
use rtc_exec::model::ParameterGroups;
use rtc_exec::{Halting, Inference};
use rtc_runs::experiment::{Experiment, Supervision};
use rtc_runs::saved::ModelDefinition;
use rtc_task::Objective;
use rtc_train::ranks::{Beginning, RankError, Ranks, await_beginning, serve};
use serde::{Deserialize, Serialize};

use crate::device::{DeviceChoice, ExecutionTarget};
use crate::failure::SessionFailure;
use crate::model::{AnyModel, Compiled, Computing, TrainingForm};
use crate::versions::program;

/// The description of a training for the other ranks.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TrainingDescription {
    /// The program and the device, which must be the same everywhere.
    program: String,
    place: Option<String>,
    /// The forward graph, and its hash.
    graph: String,
    hash: String,
    vocabulary: Option<usize>,
    classes: Option<usize>,
    /// The place of what is asked for in [`OBJECTIVES`].
    objective: usize,
    seed: u64,
    supervision: Supervision,
    /// Whether answers have weights in the loss.
    weighted: bool,
    /// The parameters that are left as they are.
    held: BTreeSet<String>,
    inference: Inference,
    groups: ParameterGroups,
    /// The lines of the optimiser, where it is a formula.
    formula: Option<String>,
    /// The lengths of the rows of the largest batches.
    training: Vec<usize>,
    evaluation: Option<Vec<usize>>,
    /// Bytes that a rank holds besides a batch, and the most that it may take.
    fixed: u64,
    limit: Option<u64>,
}

const OBJECTIVES: [Objective; 5] =
    [Objective::Classify, Objective::Pair, Objective::Each, Objective::Number, Objective::Several];

impl TrainingDescription {
    /// That of a model, with the largest batches of its training and the memory that a rank may take.
    pub(crate) fn new(
        compiled: &Compiled,
        experiment: &Experiment,
        seed: u64,
        (work, limit): (LargestBatches, Option<u64>),
        place: &ExecutionTarget,
    ) -> Result<Self, SessionFailure> {
        let (binding, groups) = (compiled.binding, compiled.groups(experiment)?);
        let TrainingForm { supervision, weighted, held } = compiled.form(experiment)?;
        Ok(Self {
            program: program(),
            place: place.record(),
            graph: text::print(&compiled.graph),
            hash: compiled.graph_hash(),
            vocabulary: binding.vocab,
            classes: binding.classes,
            objective: OBJECTIVES.iter().position(|objective| *objective == binding.objective).unwrap_or_default(),
            seed,
            supervision,
            weighted,
            held,
            inference: experiment.inference,
            groups,
            formula: experiment.optimiser.formula.clone(),
            training: work.training.lengths,
            evaluation: work.evaluation.map(|shape| shape.lengths),
            fixed: work.fixed_bytes,
            limit,
        })
    }

    /// As text.
    pub(crate) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("its keys are names")
    }

    /// The model that it describes.
    fn model(self, halting: Halting, place: ExecutionTarget) -> Result<AnyModel, SessionFailure> {
        if self.program != program() {
            let (theirs, own) = (self.program, program());
            return Err(differs(format!(
                "rank 0 is `{theirs}`, and this is `{own}`: every rank must run the same program"
            )));
        }
        if self.place != place.record() {
            let named = |place: Option<String>| place.unwrap_or_else(|| "cpu, f32".to_owned());
            let (theirs, own) = (named(self.place), named(place.record()));
            return Err(differs(format!(
                "rank 0 computes on {theirs}, and this rank on {own}: all must have the same"
            )));
        }
        let objective = OBJECTIVES.get(self.objective).copied();
        let task = Catalog { vocabulary: self.vocabulary, classes: self.classes, objective, ..Catalog::default() };
        let compiled = Compiled::new(ModelDefinition::graph(&self.graph, "the model of rank 0")?, &task)?;
        if compiled.graph_hash() != self.hash {
            return Err(differs("its graph is not that of rank 0".to_owned()));
        }
        let shape = |lengths| BatchShape { lengths, depth: None };
        let work = LargestBatches {
            training: shape(self.training),
            evaluation: self.evaluation.map(shape),
            fixed_bytes: self.fixed,
            target: if place.device().is_some() { MemoryTarget::Device } else { MemoryTarget::Processor },
        };
        let form = TrainingForm { supervision: self.supervision, weighted: self.weighted, held: self.held };
        let fitted = compiled.fit(&work, self.limit, form, place.card()?.as_ref())?;
        let how = Computing {
            place,
            memory: fitted.limit,
            halting,
            inference: self.inference,
            groups: self.groups,
            formula: self.formula.as_deref().map(UpdateFormula::parse).transpose().map_err(SessionFailure::Usage)?,
            depth: None,
        };
        compiled.model((fitted.training, fitted.inference), self.seed, how)
    }
}

fn differs(message: String) -> SessionFailure {
    LearnError::Ranks(message).into()
}

/// Serves rank 0 until it ends the training, and returns the exit code that rank 0 names. Rank 0 tells of failures.
///
/// `stop` is the flag by which this rank is asked to stop; rank 0 says when.
pub fn follow(
    ranks: &dyn Ranks,
    halting: Halting,
    device: DeviceChoice,
    stop: &AtomicBool,
) -> Result<u8, SessionFailure> {
    let failed = |error: RankError| SessionFailure::from(LearnError::from(error));
    let description = match await_beginning(ranks).map_err(failed)? {
        Beginning::Model(description) => description,
        Beginning::End(code) => return Ok(code),
    };
    let read = serde_json::from_str::<TrainingDescription>(&description);
    let read = read.map_err(|error| differs(format!("the model of rank 0 can't be read: {error}")));
    let mut made = read.and_then(|description| description.model(halting, device.open()?));
    let made = made.as_deref_mut().map_err(|failure| failure.to_string());
    serve(made, ranks, stop).map_err(failed)
}
