//! Who holds a claim: a process of a machine, and the job of a cluster that it belongs to.

use std::env;
use std::fs;
use std::process;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The name of its machine.
    pub host: String,
    /// The start of that machine, and the space of numbers in which that of the process counts; empty where the system does not say.
    boot: String,
    /// Its number.
    pub pid: u32,
    /// When it began, in the machine's own measure: numbers of processes are used again.
    start: Option<u64>,
    /// The job that it belongs to, as the launcher calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

impl Holder {
    /// This process.
    pub(super) fn this() -> Self {
        static THIS: LazyLock<Holder> = LazyLock::new(|| {
            let pid = process::id();
            Holder { host: host(), boot: boot(), pid, start: start(pid), job: job(|name| env::var(name).ok()) }
        });
        THIS.clone()
    }

    /// Whether the process has ended for certain. Of another machine that is never known, nor of other containers.
    pub(super) fn is_gone(&self, watcher: &Self) -> bool {
        let is_here = !self.boot.is_empty() && (&self.host, &self.boot) == (&watcher.host, &watcher.boot);
        // Where the first process can't be seen, others may be hidden, too.
        is_here && self.start.is_some() && start(1).is_some() && start(self.pid) != self.start
    }

    /// The machine and the process, or its job.
    pub fn name(&self) -> String {
        match &self.job {
            Some(job) => format!("{}, {job}", self.host),
            None => format!("{}, process {}", self.host, self.pid),
        }
    }
}

fn line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn host() -> String {
    let files = || line("/proc/sys/kernel/hostname").or_else(|| line("/etc/hostname"));
    files().or_else(|| env::var("HOSTNAME").ok()).unwrap_or_else(|| "unknown".to_owned())
}

fn boot() -> String {
    let space = fs::read_link("/proc/self/ns/pid").map(|link| link.display().to_string());
    match (line("/proc/sys/kernel/random/boot_id"), space) {
        (Some(boot), Ok(space)) => format!("{boot} {space}"),
        _ => String::new(),
    }
}

/// When a process began, in ticks since the start of the machine; nothing if it has ended, or the system does not say.
fn start(pid: u32) -> Option<u64> {
    started(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The same from what the system says of the process. One that was killed and not asked for yet has ended.
fn started(stat: &str) -> Option<u64> {
    // The name stands in brackets and may hold any character.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X" | "x") {
        return None;
    }
    fields.get(19)?.parse().ok()
}

/// The job that the launcher's variables name.
fn job(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let two = |first: &str, second: &str| Some((variable(first)?, variable(second)?));
    if let Some((job, task)) = two("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID") {
        return Some(format!("slurm {job}_{task}"));
    }
    if let Some(job) = variable("SLURM_JOB_ID") {
        return Some(format!("slurm {job}"));
    }
    if let Some((job, task)) = two("HQ_JOB_ID", "HQ_TASK_ID") {
        return Some(format!("hyperqueue {job}.{task}"));
    }
    variable("JOB_COMPLETION_INDEX").map(|index| format!("index {index}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_is_what_the_launcher_calls_it() {
        let of = |set: &'static [(&str, &str)]| {
            job(|name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
        };
        assert_eq!(of(&[]), None);
        let array = [("SLURM_JOB_ID", "13"), ("SLURM_ARRAY_JOB_ID", "12"), ("SLURM_ARRAY_TASK_ID", "1")].as_slice();
        assert_eq!(of(array).as_deref(), Some("slurm 12_1"));
        assert_eq!(of(&[("SLURM_JOB_ID", "13")]).as_deref(), Some("slurm 13"));
        assert_eq!(of(&[("HQ_JOB_ID", "2"), ("HQ_TASK_ID", "5")]).as_deref(), Some("hyperqueue 2.5"));
        assert_eq!(of(&[("JOB_COMPLETION_INDEX", "0")]).as_deref(), Some("index 0"));
    }

    #[test]
    fn a_process_is_known_by_its_start() {
        let stat = |state: &str| format!("7 (a) b) {state} 1{} 4242 9\n", " 0".repeat(17));
        assert_eq!((started(&stat("S")), started(&stat("Z")), started("")), (Some(4242), None, None));
        let this = Holder::this();
        assert!(!this.is_gone(&this));
        if this.start.is_some() && start(1).is_some() {
            let other = Holder { start: Some(u64::MAX), ..this.clone() };
            assert!(other.is_gone(&this), "another process has its number");
            assert!(!Holder { host: "elsewhere".to_owned(), ..other.clone() }.is_gone(&this));
            assert!(!Holder { boot: String::new(), ..other }.is_gone(&this));
        }
    }
}
