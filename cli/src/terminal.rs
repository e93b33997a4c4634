//! The only place that prints: results to standard output, messages and errors to standard error.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rtc_compiler::diag::{Problems, Style, render};
use rtc_compiler::source::Sources;
use serde_json::Value;

use crate::failure::Failure;
use crate::live::Screen;

/// How and how much to print.
#[derive(Debug)]
pub(crate) struct Terminal {
    quiet: bool,
    colour: bool,
    live: bool,
    /// Whether the reader of the results has closed the pipe.
    deserted: AtomicBool,
}

impl Terminal {
    /// Colours only on a terminal that has them and where `NO_COLOR` is not set.
    pub(crate) fn new(quiet: bool) -> Self {
        let live = io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { quiet, colour: live && !plain, live, deserted: AtomicBool::new(false) }
    }

    /// Whether messages are wanted.
    pub(crate) fn talks(&self) -> bool {
        !self.quiet
    }

    /// The last lines of the terminal, to show there what goes on; nothing with `--quiet` and where there is no terminal.
    pub(crate) fn screen(&self, height: usize) -> Option<Screen> {
        if self.talks() && self.live { Screen::open(height, self.colour) } else { None }
    }

    /// Prints a result. A reader that has gone away is no error: it has seen all that it wanted.
    pub(crate) fn result(&self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.deserted.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => Err(Failure::io("write", Path::new("standard output"), error)),
        }
    }

    /// Whether the reader of the results has closed the pipe, so that a command with many results can end.
    pub(crate) fn is_deserted(&self) -> bool {
        self.deserted.load(Ordering::Relaxed)
    }

    /// Prints a result for programs.
    pub(crate) fn json(&self, value: &Value) -> Result<(), Failure> {
        self.result(&format!("{value:#}\n"))
    }

    /// Prints a message, unless it should be quiet.
    pub(crate) fn message(&self, text: &str) {
        if !self.quiet {
            self.error_line(text);
        }
    }

    /// Prints the command that one would run next.
    pub(crate) fn next(&self, command: &str) {
        self.message(&format!("next: {command}"));
    }

    /// Prints a message that belongs to a failure, also if it should be quiet.
    pub(crate) fn alert(&self, text: &str) {
        self.error_line(text);
    }

    /// Prints the problems of a spec, errors and warnings; with `--quiet` only if there are errors.
    pub(crate) fn problems(&self, problems: &Problems, sources: &Sources) {
        if self.quiet && !problems.has_errors() {
            return;
        }
        let style = if self.colour { Style::Colour } else { Style::Plain };
        self.error_line(render(problems, sources, style).trim_end_matches('\n'));
    }

    /// Says what takes a while, until it is dropped; only on a terminal.
    pub(crate) fn waiting(&self, text: &str) -> Waiting {
        let shown = self.talks() && self.live;
        if shown {
            let _ = write!(io::stderr().lock(), "{text} ...");
        }
        Waiting(shown)
    }

    /// Prints why a command failed.
    pub(crate) fn report(&self, failure: &Failure) {
        if let Failure::Spec(found) = failure {
            return self.problems(&found.0, &found.1);
        }
        let word = if self.colour { "\x1b[1;31merror\x1b[0m" } else { "error" };
        self.error_line(&format!("{word}: {failure}"));
    }

    /// There is nowhere to say that standard error is closed.
    fn error_line(&self, text: &str) {
        if !text.is_empty() {
            let _ = writeln!(io::stderr().lock(), "{text}");
        }
    }
}

/// A path as a shell takes it.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:@%=,".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// Clears its line when dropped.
pub(crate) struct Waiting(bool);

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.0 {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}
