//! Launchers: the cells of a grid as jobs of somebody else's queue. Each job is one command with `--cell`, and claims keep two of them
//! from training one cell.

mod estimate;
mod kubernetes;
mod queue;
mod script;
mod words;

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use rtc_base::disk::beneath;
use rtc_session::device::Card;
use rtc_session::failure::SessionFailure;
use rtc_session::folders::check_name;
use rtc_session::job::{Data, Pace};

use super::{CellIndex, Grid};
use crate::terminal::{Terminal, quoted};

use estimate::JobRequest;
pub(crate) use words::line_of_variables;

/// How the cells of a grid are started.
#[derive(Args, Clone, Debug)]
pub(crate) struct LaunchOptions {
    /// Who starts the cells
    #[arg(long, value_enum, default_value_t = Launcher::Local)]
    pub(crate) launcher: Launcher,
    /// An option for the launcher, as in `--launcher-option=--partition=gpu`; may be given again
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub(crate) launcher_option: Vec<String>,
    /// The time that every cell asks for, as the launcher takes it; three times the forecast without it
    #[arg(long, value_name = "TIME")]
    pub(crate) time: Option<String>,
    /// The memory that every cell asks for, as the launcher takes it; that of the estimate and a quarter without it
    #[arg(long, value_name = "SIZE")]
    pub(crate) mem: Option<String>,
    /// Submit the cells, and do not watch them
    #[arg(long)]
    pub(crate) detach: bool,
    /// The container image of `--launcher kubernetes`; a place to fill in without it
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,
    /// The volume claim of `--launcher kubernetes` that holds experiment and runs; a place to fill in without it
    #[arg(long, value_name = "NAME")]
    pub(crate) volume: Option<String>,
}

/// `--launcher`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Launcher {
    /// This process, and any other with the same command
    Local,
    /// Job arrays of Slurm
    Slurm,
    /// Task arrays of HyperQueue
    Hyperqueue,
    /// Print the manifest of an indexed Job of Kubernetes
    Kubernetes,
    /// Print a line of shell per cell
    Commands,
}

impl Launcher {
    /// Whether its result is what starts the cells, for another program, and no table.
    pub(crate) fn prints(self) -> bool {
        matches!(self, Self::Kubernetes | Self::Commands)
    }
}

impl LaunchOptions {
    /// Refuses options that the launcher has no use for: a run that was to have them would go on without.
    pub(crate) fn check(&self) -> Result<(), SessionFailure> {
        use Launcher::{Hyperqueue, Kubernetes, Slurm};
        let all: [(&str, bool, &[Launcher]); 6] = [
            ("--launcher-option", !self.launcher_option.is_empty(), &[Slurm, Hyperqueue]),
            ("--detach", self.detach, &[Slurm, Hyperqueue]),
            ("--time", self.time.is_some(), &[Slurm, Hyperqueue, Kubernetes]),
            ("--mem", self.mem.is_some(), &[Slurm, Hyperqueue, Kubernetes]),
            ("--image", self.image.is_some(), &[Kubernetes]),
            ("--volume", self.volume.is_some(), &[Kubernetes]),
        ];
        let texts =
            [("--time", &self.time), ("--mem", &self.mem), ("--image", &self.image), ("--volume", &self.volume)];
        let texts = texts.into_iter().filter_map(|(option, text)| Some((option, text.as_ref()?)));
        let mut texts = texts.chain(self.launcher_option.iter().map(|text| ("--launcher-option", text)));
        texts.try_for_each(|(option, text)| check_name(&format!("`{option}`"), text))?;
        match all.iter().find(|(_, given, of)| *given && !of.contains(&self.launcher)) {
            None => Ok(()),
            Some((option, _, of)) => {
                let name = |launcher: &Launcher| launcher.to_possible_value().map(|value| value.get_name().to_owned());
                let of: Vec<String> = of.iter().filter_map(name).collect();
                let memory = if *option == "--mem" { "; `--memory` sets a limit for every cell" } else { "" };
                Err(SessionFailure::Usage(format!("`{option}` is for `--launcher {}`{memory}", of.join("|"))))
            }
        }
    }
}

/// Cells that ask for the same.
pub(crate) struct JobGroup {
    request: JobRequest,
    /// Their names.
    cells: Vec<String>,
}

/// What is launched.
pub(crate) struct Submission<'a> {
    pub(crate) grid: &'a Grid,
    pub(crate) places: &'a [CellIndex],
    /// The data of every model that has one of the cells.
    pub(crate) data: &'a [Option<Arc<Data>>],
    pub(crate) pace: Pace,
    /// The device, if cells compute on one.
    pub(crate) card: Option<&'a Card>,
    pub(crate) options: &'a LaunchOptions,
}

/// Submits cells, or prints what submits them; whether there is something to watch now.
pub(crate) fn launch(submission: &Submission<'_>, terminal: &Terminal) -> Result<bool, SessionFailure> {
    let words = words::of_this_command()?;
    let keys = submission.keys();
    match submission.options.launcher {
        Launcher::Local => Ok(true),
        Launcher::Commands => {
            let [folder, program] = words::start()?.map(|path| quoted(&path));
            for key in keys {
                terminal.result(&format!("cd {folder} && {program} {}\n", words::shell(&words.with_cell(&key))))?;
            }
            Ok(false)
        }
        Launcher::Kubernetes => {
            let groups = estimate::groups(submission, terminal)?;
            terminal.result(&kubernetes::manifests(submission, &groups, &words)?)?;
            Ok(false)
        }
        Launcher::Slurm | Launcher::Hyperqueue => {
            let folder = submission.grid.folder.join("launch");
            let made = beneath::create_folder(&submission.grid.folder, Path::new("launch"));
            made.map_err(|error| SessionFailure::io("create", &folder, error))?;
            let folder = fs::canonicalize(&folder).map_err(|error| SessionFailure::io("find", &folder, error))?;
            words::in_script("the path of the grid", &folder)?;
            for group in estimate::groups(submission, terminal)? {
                queue::submit(submission, &group, (&folder, &words), terminal)?;
            }
            Ok(!submission.options.detach)
        }
    }
}

impl Submission<'_> {
    /// The names of the cells.
    fn keys(&self) -> Vec<String> {
        self.places.iter().map(|place| self.grid.key(*place).to_owned()).collect()
    }

    /// What the queue calls the jobs: the name of the grid, in letters, digits, `-`, `_` and `.`.
    fn name(&self) -> String {
        let name = self.grid.folder.file_name().unwrap_or_default().to_string_lossy();
        let safe = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' };
        format!("rtc-{}", name.chars().map(safe).collect::<String>())
    }
}

/// Writes a file under the first number that no submission has yet: an array that is still queued keeps its own.
fn numbered(folder: &Path, name: impl Fn(u64) -> String, text: &str) -> Result<(PathBuf, u64), SessionFailure> {
    for n in 1.. {
        let path = folder.join(name(n));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
                // The half-written file is of no use; that it can't be removed changes nothing about the failure.
                written
                    .inspect_err(|_| drop(fs::remove_file(&path)))
                    .map_err(|error| SessionFailure::io("write", &path, error))?;
                return Ok((path, n));
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(SessionFailure::io("create", &path, error)),
        }
    }
    unreachable!("there are more numbers than files")
}
