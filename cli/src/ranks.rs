//! Trainings on several ranks: how processes find each other, and what those besides rank 0 are told of the model.

use rtc_compiler::ir::text;
use rtc_compiler::pipeline::memory::Work;
use rtc_compiler::plan::memory::{BatchShape, Target};
use rtc_compiler::schema::Catalog;
use rtc_exec::learner::LearnError;
use rtc_exec::{Halting, Inference};
use rtc_runs::experiment::{Experiment, Supervision};
use rtc_task::Objective;
use rtc_train::ranks::launch::Launch;
use rtc_train::ranks::{Alone, Balance, Beginning, RankError, Ranks, await_beginning, serve};
use serde::{Deserialize, Serialize};

use crate::definition::Definition;
use crate::device::{DeviceOptions, Place};
use crate::failure::{Exit, Failure, Outcome};
use crate::job::program;
use crate::model::{AnyModel, Compiled, Computing};

use crate::signals;

/// All that the other ranks know of a training.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Description {
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
    inference: Inference,
    /// The lengths of the rows of the largest batches.
    training: Vec<usize>,
    evaluation: Option<Vec<usize>>,
    /// Bytes that a rank holds besides a batch, and the most that it may take.
    fixed: u64,
    limit: Option<u64>,
}

const OBJECTIVES: [Objective; 5] =
    [Objective::Classify, Objective::Pair, Objective::Each, Objective::Number, Objective::Several];

/// The ranks that were started with this process. A training that would be made by each of several processes is refused.
pub(crate) fn join() -> Result<Box<dyn Ranks>, Failure> {
    match Launch::from_environment() {
        Some(launch) => open(launch).map_err(Failure::Usage),
        None => Ok(Box::new(Alone)),
    }
}

#[cfg(feature = "mpi")]
fn open(launch: Launch) -> Result<Box<dyn Ranks>, String> {
    let ranks = rtc_train::ranks::MpiRanks::join().map_err(|error| error.to_string())?;
    let (Launch { size, variable, .. }, found) = (launch, ranks.size());
    if found != size {
        return Err(format!(
            "{size} processes were started together ({variable}), and the MPI library of this rtc finds {found}: start them with the \
             `mpirun` of the library that rtc was built with, or with its `srun --mpi`"
        ));
    }
    Ok(Box::new(ranks))
}

#[cfg(not(feature = "mpi"))]
fn open(launch: Launch) -> Result<Box<dyn Ranks>, String> {
    let Launch { size, variable, .. } = launch;
    Err(format!(
        "{size} processes were started together ({variable}={size}), and this rtc was built without MPI: each would train the same \
         run; build it with `--features mpi` (tools/build-mpi.sh), or start one process, or unset {variable} for trainings that \
         have nothing to do with each other"
    ))
}

/// How many ranks there are on this machine.
pub(crate) fn on_this_machine() -> usize {
    Launch::from_environment().map_or(1, |launch| launch.local_size)
}

/// The number of this rank among those on this machine.
#[cfg(feature = "cuda")]
pub(crate) fn local_rank() -> usize {
    Launch::from_environment().map_or(0, |launch| launch.local_rank)
}

/// What is wrong with so many ranks for an experiment, if something is.
pub(crate) fn uneven(ranks: usize, experiment: &Experiment) -> Option<String> {
    let batch = &experiment.batch;
    let rows = batch.size.div_ceil(batch.accumulate.max(1)).max(1);
    let parts = batch.size.div_ceil(rows);
    let cure = "let `batch.accumulate` be a multiple of the number of ranks, for which other runs are others";
    let said = format!("{ranks} ranks share the {parts} micro-batches of an update");
    match parts {
        _ if ranks < 2 || parts.is_multiple_of(ranks) => None,
        parts if parts < ranks => Some(format!("{said}, and {} of them do nothing: {cure}", ranks - parts)),
        _ => Some(format!("{said}, and some get more than others: {cure}")),
    }
}

/// How evenly ranks have worked, for people.
pub(crate) fn balance(ranks: usize, balance: Balance) -> Option<String> {
    let imbalance = balance.imbalance().filter(|_| ranks > 1)?;
    Some(format!("{ranks} ranks: the slowest took {imbalance:.2} times as long for its micro-batches as the mean"))
}

impl Description {
    /// That of a model, with the largest batches of its training and the memory that a rank may take.
    pub(crate) fn new(
        compiled: &Compiled,
        experiment: &Experiment,
        seed: u64,
        (work, limit): (Work, Option<u64>),
        place: &Place,
    ) -> Self {
        let binding = compiled.binding;
        Self {
            program: program(),
            place: place.record(),
            graph: text::print(&compiled.graph),
            hash: compiled.graph_hash(),
            vocabulary: binding.vocab,
            classes: binding.classes,
            objective: OBJECTIVES.iter().position(|objective| *objective == binding.objective).unwrap_or_default(),
            seed,
            supervision: experiment.supervision,
            inference: experiment.inference,
            training: work.training.lengths,
            evaluation: work.evaluation.map(|shape| shape.lengths),
            fixed: work.fixed_bytes,
            limit,
        }
    }

    /// As text.
    pub(crate) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("its keys are names")
    }

    /// The model that it describes.
    fn model(self, halting: Halting, place: Place) -> Result<AnyModel, Failure> {
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
        let compiled = Compiled::new(Definition::graph(&self.graph, "the model of rank 0")?, &task)?;
        if compiled.graph_hash() != self.hash {
            return Err(differs("its graph is not that of rank 0".to_owned()));
        }
        let shape = |lengths| BatchShape { lengths, depth: None };
        let work = Work {
            training: shape(self.training),
            evaluation: self.evaluation.map(shape),
            fixed_bytes: self.fixed,
            target: if place.device.is_some() { Target::Device } else { Target::Processor },
        };
        let fitted = compiled.fit(&work, self.limit, self.supervision, place.card()?.as_ref())?;
        let how = Computing { place, memory: fitted.limit, halting, inference: self.inference, depth: None };
        compiled.model((fitted.training, fitted.inference), self.seed, how)
    }
}

fn differs(message: String) -> Failure {
    LearnError::Ranks(message).into()
}

/// What a rank besides rank 0 does: what that says. Failures are told by rank 0, which prints them.
pub(crate) fn follow(ranks: &dyn Ranks, halting: Halting, device: DeviceOptions) -> Outcome {
    // From here on a first signal asks to stop, and rank 0 says when.
    let stop = signals::on_stop()?;
    let failed = |error: RankError| Failure::from(LearnError::from(error));
    let description = match await_beginning(ranks).map_err(failed)? {
        Beginning::Model(description) => description,
        Beginning::End(code) => return Ok(Exit::Reported(code)),
    };
    let read = serde_json::from_str::<Description>(&description);
    let read = read.map_err(|error| differs(format!("the model of rank 0 can't be read: {error}")));
    let mut made = read.and_then(|description| description.model(halting, device.open()?));
    let made = made.as_deref_mut().map_err(|failure| failure.to_string());
    serve(made, ranks, &stop).map(Exit::Reported).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtc_runs::experiment::ExperimentFile;

    #[test]
    fn ranks_that_do_not_divide_the_batch_are_told_of() {
        let file = ExperimentFile::embedded("listops_smoke").expect("it is built in");
        let with = |edits: &[&str]| {
            let edits: Vec<String> = edits.iter().map(|edit| (*edit).to_owned()).collect();
            file.resolve(None, &edits).expect("valid edits")
        };
        let four = with(&["batch.size=32", "batch.accumulate=4"]);
        assert_eq!([1, 2, 4].map(|ranks| uneven(ranks, &four)), [None, None, None]);
        assert!(uneven(3, &four).is_some_and(|text| text.contains("some get more")));
        assert!(uneven(6, &four).is_some_and(|text| text.contains("2 of them do nothing")));
        // Six rows in at most four parts are three parts of two.
        let six = with(&["batch.size=6", "batch.accumulate=4"]);
        assert!(uneven(3, &six).is_none() && uneven(4, &six).is_some());
    }

    #[test]
    fn a_balance_is_told_of_several_ranks() {
        let found = Balance { slowest: 3.0, mean: 2.0 };
        assert_eq!((balance(1, found), balance(4, Balance::default())), (None, None));
        assert!(balance(4, found).is_some_and(|text| text.contains("1.50 times")));
    }
}
