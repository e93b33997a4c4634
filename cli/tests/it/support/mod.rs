//! A folder with a tiny model and a tiny experiment, and the binary running in it.
#![allow(unsafe_code, reason = "signals to children that run")]
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rtc_runs::record::{sealed, sha256, unsealed};
use serde_json::Value;
use tempfile::TempDir;

/// The binary under test.
pub(crate) const RTC: &str = env!("CARGO_BIN_EXE_rtc");

const SPEC: &str = "\
/// A gated model that halts, as small as it gets.
model tiny {
    dropout: 0.1
    embed { width: 16, tokens: start_end }
    recur depthwise {
        depth: 3
        halt global { sees: transition, threshold: 0.999, cost: 0.1 }
        gate mlp { hidden: 16 }
        attend self { heads: 2, position: xpos }
        feedforward { hidden: 16 }
    }
    readout end
}

variant no_gate of tiny { gate none }
variant no_halt of tiny { halt none }
";

const EXPERIMENT: &str = "\
task:
  name: listops
  options: { train_length: 12, held_out_length: 12, depth: 4, arguments: 3 }
  sizes: { train: 160, dev: 32, test: 32 }
optimiser: { learning_rate: 0.003, clip: 1 }
schedule: { kind: constant, warmup: 5 }
batch: { size: 16 }
epochs: 4
log_every: 1
evaluate: [test]
";

/// A temporary folder, whose name has a blank in it.
pub(crate) struct Place(TempDir);

/// What the binary answered.
pub(crate) struct Answer {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    status: Option<i32>,
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self(TempDir::with_prefix("rtc test ").expect("a temporary folder"));
        place.write("tiny.rt", SPEC);
        place.write("tiny.yaml", EXPERIMENT);
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect(name);
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Changes a file of a run as if it had been written so, with the checksum in it.
    pub(crate) fn edit(&self, name: &str, edit: impl FnOnce(&mut Value)) {
        let mut value = unsealed(&fs::read(self.path(name)).expect(name)).expect(name);
        edit(&mut value);
        self.write(name, &sealed(&value));
    }

    /// Changes a file that never changes in the folder of a run, as if the run had begun with it.
    pub(crate) fn begin_with(&self, run: &str, file: &str, text: &str) {
        self.write(&format!("{run}/{file}"), text);
        self.edit(&format!("{run}/run.json"), |info| info["files"][file] = sha256(text).into());
    }

    /// The command, to be run in the folder.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.current_dir(self.0.path()).env_remove("RAYON_NUM_THREADS").env("RTC", RTC);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs `rtc` to its end.
    pub(crate) fn rtc(&self, args: &[&str]) -> Answer {
        self.command(RTC).args(args).output().expect("the binary runs").into()
    }

    /// Runs `rtc` with an input.
    pub(crate) fn rtc_with(&self, args: &[&str], input: &str) -> Answer {
        let mut child = self.command(RTC).args(args).stdin(Stdio::piped()).spawn().expect("the binary runs");
        // It may end without reading everything.
        let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
        child.wait_with_output().expect("the binary ends").into()
    }

    /// Runs a line of bash, in which `$RTC` is the binary.
    pub(crate) fn shell(&self, line: &str) -> Answer {
        self.command("bash").args(["-c", line]).output().expect("bash runs").into()
    }

    /// Trains the tiny model in the tiny experiment.
    pub(crate) fn train(&self, args: &[&str]) -> Answer {
        self.rtc(&[&["train", "tiny.rt", "--experiment", "tiny.yaml"], args].concat())
    }

    /// Starts a training.
    pub(crate) fn start(&self, args: &[&str]) -> Child {
        let all = [&["train", "tiny.rt", "--experiment", "tiny.yaml"], args].concat();
        self.command(RTC).args(all).spawn().expect("the binary runs")
    }

    /// What must be equal between runs that make the same numbers.
    pub(crate) fn contents(&self, run: &str) -> Vec<(&'static str, Vec<u8>)> {
        let files = [
            "metrics.jsonl",
            "results.json",
            "spec.rt",
            "experiment.yaml",
            "checkpoints/last/weights.safetensors",
            "checkpoints/last/optimiser.safetensors",
            "checkpoints/best/weights.safetensors",
        ];
        let folder = self.path("runs").join(run);
        files.map(|name| (name, fs::read(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}")))).to_vec()
    }
}

/// Lets the end of a terminal end the children started from here, also where `nohup` started the tests: to ignore it is inherited.
pub(crate) fn heed_hang_up() {
    // SAFETY: the default action is no code of this process.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
}

/// Runs a command whose standard output is a terminal, and returns what this is given.
#[cfg(unix)]
pub(crate) fn on_a_terminal(command: &mut Command) -> String {
    use std::os::fd::{FromRawFd, OwnedFd};
    use std::ptr::null_mut;
    let (mut here, mut there) = (0, 0);
    // SAFETY: both numbers are of this frame; without the others a terminal has no name to be told, and the usual settings.
    let opened = unsafe { libc::openpty(&mut here, &mut there, null_mut(), null_mut(), null_mut()) };
    assert_eq!(opened, 0, "a terminal can be had");
    // SAFETY: both were opened above, and nothing else closes them.
    let (mut here, there) = unsafe { (fs::File::from_raw_fd(here), OwnedFd::from_raw_fd(there)) };
    let mut child = command.stdout(there).stderr(Stdio::null()).spawn().expect("the binary runs");
    // The end comes when nothing has the other side open any more.
    command.stdout(Stdio::null());
    let mut shown = vec![];
    // Of a terminal that is gone it is an error.
    let _ = here.read_to_end(&mut shown);
    child.wait().expect("the binary ends");
    String::from_utf8(shown).expect("rtc prints UTF-8")
}

/// Sends a signal to a child.
pub(crate) fn signal(child: &Child, signal: i32) {
    // SAFETY: sends a signal to a child that was not waited for, so that its number is still its own.
    unsafe { libc::kill(child.id() as i32, signal) };
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("rtc prints UTF-8");
        Self { stdout: text(output.stdout), stderr: text(output.stderr), status: output.status.code() }
    }
}

impl Answer {
    /// The exit code; none after a signal.
    pub(crate) fn status(&self) -> Option<i32> {
        self.status
    }

    #[track_caller]
    pub(crate) fn code(&self, expected: i32) -> &Self {
        assert_eq!(self.status, Some(expected), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// The text must be among the messages.
    #[track_caller]
    pub(crate) fn says(&self, text: &str) -> &Self {
        assert!(self.stderr.contains(text), "`{text}` is not in:\n{}", self.stderr);
        self
    }

    /// The text must not be among the messages.
    #[track_caller]
    pub(crate) fn is_quiet_about(&self, text: &str) -> &Self {
        assert!(!self.stderr.contains(text), "`{text}` is in:\n{}", self.stderr);
        self
    }

    #[track_caller]
    pub(crate) fn is_silent(&self) -> &Self {
        assert_eq!((self.stdout.as_str(), self.stderr.as_str()), ("", ""));
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}:\n{}", self.stdout))
    }
}
