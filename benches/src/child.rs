//! A program under measurement: a process that stays alive and answers requests.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child as Process, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use crate::failure::Failure;
use crate::protocol::{Answer, Request};

/// A running program.
#[derive(Debug)]
pub(crate) struct Child {
    /// `rtc`, `pytorch` or `compiled`.
    pub(crate) name: &'static str,
    /// Milliseconds from its start until it could be asked.
    pub(crate) start_ms: f64,
    /// Resident memory by then, MiB.
    pub(crate) start_mib: f64,
    process: Process,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Child {
    /// Starts a program and waits until it says that it is there.
    ///
    /// # Errors
    /// A program that can't be started, or ends at once.
    pub(crate) fn start(name: &'static str, command: &mut Command) -> Result<Self, Failure> {
        let start = Instant::now();
        let broken = |what: &dyn std::fmt::Display| Failure::Broken(format!("{name}: {what}"));
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|error| broken(&error))?;
        let requests = process.stdin.take().ok_or_else(|| broken(&"no standard input"))?;
        let answers = process.stdout.take().ok_or_else(|| broken(&"no standard output"))?;
        let answers = BufReader::new(answers);
        let mut child = Self { name, start_ms: 0.0, start_mib: 0.0, process, requests, answers };
        child.start_mib = child.answer()?.mib;
        child.start_ms = start.elapsed().as_secs_f64() * 1e3;
        Ok(child)
    }

    /// Asks for something and waits for it.
    ///
    /// # Errors
    /// What the program reports, or its end.
    pub(crate) fn ask(&mut self, request: &Request) -> Result<Answer, Failure> {
        let text = serde_json::to_string(request).map_err(|e| self.broken(&e))?;
        let sent = writeln!(self.requests, "{text}").and_then(|()| self.requests.flush());
        sent.map_err(|e| self.broken(&e))?;
        self.answer()
    }

    fn answer(&mut self) -> Result<Answer, Failure> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line).map_err(|e| self.broken(&e))?;
        if read == 0 {
            return Err(self.broken(&"it ended; its messages stand above"));
        }
        let answer: Answer = serde_json::from_str(&line).map_err(|e| self.broken(&format!("{e} in `{line}`")))?;
        match answer.error {
            Some(error) => Err(self.broken(&error)),
            None => Ok(answer),
        }
    }

    fn broken(&self, what: &dyn std::fmt::Display) -> Failure {
        Failure::Broken(format!("{}: {what}", self.name))
    }
}

/// No program outlives the command.
impl Drop for Child {
    fn drop(&mut self) {
        // A program that has ended already can't be killed, and that is well.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
