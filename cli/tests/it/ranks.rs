//! Processes that were started together: a program without MPI does not train the same run several times.

#![cfg(not(feature = "mpi"))]

use crate::support::{Answer, Place};

fn started(place: &Place, variables: &[(&str, &str)]) -> Answer {
    let mut command = place.command(crate::support::RTC);
    command.args(["train", "tiny.rt", "--experiment", "tiny.yaml", "--run", "r", "--max-steps", "1"]);
    command.envs(variables.iter().copied()).output().expect("the program runs").into()
}

#[test]
fn several_processes_are_refused_without_mpi() {
    let place = Place::new();
    for (variable, others) in
        [("OMPI_COMM_WORLD_SIZE", &[][..]), ("PMI_SIZE", &[("PMI_RANK", "0")]), ("SLURM_NTASKS", &[("PMIX_RANK", "2")])]
    {
        let answer = started(&place, &[others, &[(variable, "4")]].concat());
        answer.code(2).says(&format!("4 processes were started together ({variable}=4)"));
        assert!(!place.path("runs/r").exists(), "a refused training leaves no folder behind");
    }
    // A shell of an allocation, and a launcher of one process, start no ranks.
    started(&place, &[("SLURM_NTASKS", "4"), ("OMPI_COMM_WORLD_SIZE", "1")]).code(0);
}
