//! How the process was started: alone, or as one of several by `mpirun` or `srun`.

/// The place of a process among those that were started with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessRank {
    /// How many there are.
    pub size: usize,
    /// The number of this one among those on its machine, from 0.
    pub local_rank: usize,
    /// How many of them are on its machine.
    pub local_size: usize,
    /// The variable of the environment that says so.
    pub variable: &'static str,
}

impl ProcessRank {
    /// That of this process, where it is one of several.
    pub fn from_environment() -> Option<Self> {
        Self::read(|name| std::env::var(name).ok())
    }

    /// The same, from variables.
    fn read(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name: &str| variable(name)?.parse::<usize>().ok();
        // A shell inside of an allocation has the variables of its tasks, too: only a step that speaks PMI starts ranks.
        let is_step = number("PMI_RANK").or(number("PMIX_RANK")).is_some();
        let sizes = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"];
        let of = |name: &'static str| {
            let size = number(name).filter(|_| is_step || !name.starts_with("SLURM"))?;
            Some((name, size))
        };
        let (variable, size) = sizes.into_iter().find_map(of).filter(|(_, size)| *size > 1)?;
        let first = |names: &[&str]| names.iter().find_map(|name| number(name));
        let local_rank = first(&["OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"]).unwrap_or(0);
        let local_size = first(&["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"]);
        // One that is not told counts all as its neighbours: too few threads are better than too many.
        let local_size = local_size.unwrap_or(size).clamp(1, size);
        Some(Self { size, local_rank, local_size, variable })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Option<ProcessRank> {
        ProcessRank::read(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn launchers_are_known_by_their_variables() {
        let launch =
            |size, local_rank, local_size, variable| Some(ProcessRank { size, local_rank, local_size, variable });
        let open =
            [("OMPI_COMM_WORLD_SIZE", "8"), ("OMPI_COMM_WORLD_LOCAL_RANK", "3"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "4")];
        assert_eq!(read(&open), launch(8, 3, 4, "OMPI_COMM_WORLD_SIZE"));
        let hydra = [("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("MPI_LOCALRANKID", "1"), ("MPI_LOCALNRANKS", "2")];
        assert_eq!(read(&hydra), launch(2, 1, 2, "PMI_SIZE"));
        let slurm = [("PMIX_RANK", "5"), ("SLURM_STEP_NUM_TASKS", "6"), ("SLURM_LOCALID", "1"), ("SLURM_NTASKS", "9")];
        assert_eq!(read(&slurm), launch(6, 1, 6, "SLURM_STEP_NUM_TASKS"));
    }

    #[test]
    fn a_process_alone_is_alone() {
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[("OMPI_COMM_WORLD_SIZE", "1")]), None);
        assert_eq!(read(&[("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0")]), None, "the shell of an allocation");
    }
}
