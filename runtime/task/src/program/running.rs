//! A program that runs, and the end of its processes.
//!
//! The program leads a process group, so that its end is that of its children, too: a child that stays behind would hold the pipe that
//! is read. A signal of the terminal does not reach that group, hence the guard in it.

#[cfg(unix)]
use std::os::unix::process::CommandExt;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use super::{GRACE, ProgramRequest};
use crate::error::DataError;
use crate::reading::MAX_LINE;

/// Bytes of the error output that are shown: its end.
const SHOWN: usize = 2_000;

/// Time between two looks at a program.
const PAUSE: Duration = Duration::from_millis(10);

/// A running program. Dropping it kills the program and its children.
pub(super) struct RunningProgram {
    child: Child,
    /// The exit status, once it was asked for.
    status: Option<ExitStatus>,
    /// Kills the group as soon as this process ends, however it ends. Absent where no process can be started.
    guard: Option<Child>,
    lines: Receiver<std::io::Result<Vec<u8>>>,
    said: Receiver<String>,
    /// Whether a child held the output after the program ended.
    pub(super) is_held: bool,
}

impl RunningProgram {
    pub(super) fn start(request: &ProgramRequest<'_>) -> Result<Self, DataError> {
        let arguments = request.arguments();
        let mut command = Command::new(&arguments[0]);
        command.args(&arguments[1..]).current_dir(request.folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        #[cfg(unix)]
        command.process_group(0);
        let mut child =
            command.spawn().map_err(|error| request.fault(None, format!("can't run `{}`: {error}", arguments[0])))?;
        let guard = guard(&child);
        let (send, lines) = sync_channel(64);
        let (tell, said) = sync_channel(1);
        // Both readers end with their pipes. They are not waited for: a child that left the group may hold a pipe.
        if let Some(out) = child.stdout.take() {
            thread::spawn(move || read_lines(out, |line| send.send(line).is_ok()));
        }
        if let Some(err) = child.stderr.take() {
            thread::spawn(move || tell.send(last_words(err)));
        }
        Ok(Self { child, status: None, guard, lines, said, is_held: false })
    }

    /// Returns the next line; nothing at the end, which comes [`GRACE`] after the program's where a child holds the output.
    pub(super) fn line(
        &mut self,
        request: &ProgramRequest<'_>,
        silence: Duration,
        rows: usize,
    ) -> Result<Option<Vec<u8>>, DataError> {
        // Counted, not measured: lines that wait in the pipe are not lost where this process is stopped for a while.
        let (mut waited, mut after_end) = (Duration::ZERO, Duration::ZERO);
        loop {
            match self.lines.recv_timeout(PAUSE) {
                Ok(Ok(line)) => return Ok(Some(line)),
                Ok(Err(error)) => return Err(request.fault(Some(rows + 1), error.to_string())),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => waited += PAUSE,
            }
            if self.status(request)?.is_some() {
                after_end += PAUSE;
            }
            if after_end >= GRACE {
                self.is_held = true;
                return Ok(None);
            }
            if waited >= silence {
                let limit = silence.as_secs_f64();
                let message = format!("it printed nothing for {limit} seconds, and was stopped");
                return Err(request.fault(Some(rows + 1), message));
            }
        }
    }

    /// Returns how the program ended, and its last words.
    pub(super) fn end(
        &mut self,
        request: &ProgramRequest<'_>,
        silence: Duration,
    ) -> Result<(ExitStatus, String), DataError> {
        let mut waited = Duration::ZERO;
        let status = loop {
            match self.status(request)? {
                Some(status) => break status,
                None if waited < silence => thread::sleep(PAUSE),
                None => return Err(request.fault(None, "it closed its output and does not end, and was stopped")),
            }
            waited += PAUSE;
        };
        // Children may hold the error output.
        self.kill();
        let said = self.said.recv_timeout(GRACE).unwrap_or_default();
        Ok((status, if said.is_empty() { said } else { format!(":\n{said}") }))
    }

    fn status(&mut self, request: &ProgramRequest<'_>) -> Result<Option<ExitStatus>, DataError> {
        if self.status.is_none() {
            self.status = self.child.try_wait().map_err(|error| request.fault(None, error.to_string()))?;
        }
        Ok(self.status)
    }

    /// Kills what is left of the group. It fails where nothing is left.
    fn kill(&mut self) {
        // The number of the group is no other's while one of its processes was not waited for.
        #[cfg(unix)]
        if self.status.is_none() || self.guard.is_some() {
            use rustix::process::{Pid, Signal, kill_process_group};
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }
        // On its own, where the program left the group.
        let _ = self.child.kill();
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        self.kill();
        // Both have ended, or were killed.
        let _ = self.child.wait();
        self.guard.take().map(|mut guard| guard.wait());
    }
}

/// Starts a process in the group of a program that waits for the end of its input, which is the end of this process, and kills the group.
#[cfg(unix)]
fn guard(child: &Child) -> Option<Child> {
    let mut command = Command::new("sh");
    command.args(["-c", "read -r end; kill -KILL 0"]).process_group(child.id().cast_signed());
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
}

#[cfg(not(unix))]
fn guard(_child: &Child) -> Option<Child> {
    None
}

/// Sends the lines of a pipe until the receiver is dropped.
fn read_lines(pipe: impl Read, mut give: impl FnMut(std::io::Result<Vec<u8>>) -> bool) {
    let mut reader = BufReader::new(pipe);
    loop {
        let mut line = vec![];
        let read = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
        let line = match read {
            Ok(0) => return,
            Ok(read) if read as u64 == MAX_LINE && line.last() != Some(&b'\n') => {
                Err(std::io::Error::other("the line is longer than 16 MiB"))
            }
            Ok(_) => {
                line.truncate(line.trim_ascii_end().len());
                Ok(line)
            }
            Err(error) => Err(error),
        };
        let broken = line.is_err();
        if !give(line) || broken {
            return;
        }
    }
}

/// Returns the end of a text, without control characters.
fn last_words(pipe: impl Read) -> String {
    let mut reader = BufReader::new(pipe);
    let (mut kept, mut part) = (vec![], [0; 4096]);
    while let Ok(read @ 1..) = reader.read(&mut part) {
        kept.extend_from_slice(&part[..read]);
        kept.drain(..kept.len().saturating_sub(SHOWN));
    }
    let text = String::from_utf8_lossy(&kept);
    text.chars().filter(|c| *c == '\n' || !c.is_control()).collect::<String>().trim().to_owned()
}
