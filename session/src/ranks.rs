//! Trainings on several ranks: how processes find each other, and how evenly they work.

use rtc_runs::experiment::Experiment;
use rtc_train::ranks::launch::ProcessRank;
use rtc_train::ranks::{Balance, Ranks, SingleRank};

use crate::failure::SessionFailure;

/// The ranks that were started with this process. A training that would be made by each of several processes is refused.
pub fn join() -> Result<Box<dyn Ranks>, SessionFailure> {
    match ProcessRank::from_environment() {
        Some(launch) => open(launch).map_err(SessionFailure::Usage),
        None => Ok(Box::new(SingleRank)),
    }
}

#[cfg(feature = "mpi")]
fn open(launch: ProcessRank) -> Result<Box<dyn Ranks>, String> {
    let ranks = rtc_train::ranks::MpiRanks::join().map_err(|error| error.to_string())?;
    let (ProcessRank { size, variable, .. }, found) = (launch, ranks.size());
    if found != size {
        return Err(format!(
            "{size} processes were started together ({variable}), and the MPI library of this rtc finds {found}: start them with the \
             `mpirun` of the library that rtc was built with, or with its `srun --mpi`"
        ));
    }
    Ok(Box::new(ranks))
}

#[cfg(not(feature = "mpi"))]
fn open(launch: ProcessRank) -> Result<Box<dyn Ranks>, String> {
    let ProcessRank { size, variable, .. } = launch;
    Err(format!(
        "{size} processes were started together ({variable}={size}), and this rtc was built without MPI: each would train the same \
         run; build it with `--features mpi` (tools/build-mpi.sh), or start one process, or unset {variable} for trainings that \
         have nothing to do with each other"
    ))
}

/// How many ranks there are on this machine.
pub fn on_this_machine() -> usize {
    ProcessRank::from_environment().map_or(1, |launch| launch.local_size)
}

/// The number of this rank among those on this machine.
pub(crate) fn local_rank() -> usize {
    ProcessRank::from_environment().map_or(0, |launch| launch.local_rank)
}

/// What is wrong with so many ranks for an experiment, if something is.
pub fn uneven(ranks: usize, experiment: &Experiment) -> Option<String> {
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
pub fn balance(ranks: usize, balance: Balance) -> Option<String> {
    let imbalance = balance.imbalance().filter(|_| ranks > 1)?;
    Some(format!("{ranks} ranks: the slowest took {imbalance:.2} times as long for its micro-batches as the mean"))
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
