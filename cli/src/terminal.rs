//! The only place that prints: results to standard output, messages and errors to standard error.
//!
//! Names and texts of files may hold characters that a terminal obeys. Messages never have them, and results only where standard
//! output is no terminal.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rtc_compiler::diag::{Problems, Style, render};
use rtc_compiler::source::Sources;
use rtc_runs::error::Error;
use rtc_session::failure::SessionFailure;
use serde_json::Value;

use crate::tips;

/// How and how much to print.
#[derive(Debug)]
pub(crate) struct Terminal {
    quiet: bool,
    colour: bool,
    live: bool,
    /// Whether results go to a terminal.
    shown: bool,
    /// Whether the reader of the results has closed the pipe.
    deserted: AtomicBool,
}

impl Terminal {
    /// Colours only on a terminal that has them and where `NO_COLOR` is not set.
    pub(crate) fn new(quiet: bool) -> Self {
        let live = io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let shown = io::stdout().is_terminal();
        Self { quiet, colour: live && !plain, live, shown, deserted: AtomicBool::new(false) }
    }

    /// Whether messages are wanted.
    pub(crate) fn talks(&self) -> bool {
        !self.quiet
    }

    /// Whether what is drawn has colours; nothing with `--quiet` and where there is no terminal to draw on.
    #[cfg(feature = "live")]
    pub(crate) fn draws(&self) -> Option<bool> {
        (self.talks() && self.live).then_some(self.colour)
    }

    /// Prints a result, byte by byte where a program reads it. A reader that has gone away is no error: it has seen all that it wanted.
    pub(crate) fn result(&self, text: &str) -> Result<(), SessionFailure> {
        self.bytes(if self.shown { visible(text) } else { Cow::Borrowed(text) }.as_bytes())
    }

    /// Writes bytes for a program to standard output.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), SessionFailure> {
        let mut out = io::stdout().lock();
        match out.write_all(bytes).and_then(|()| out.flush()) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.deserted.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => Err(SessionFailure::io("write", Path::new("standard output"), error)),
        }
    }

    /// Whether the reader of the results has closed the pipe, so that a command with many results can end.
    pub(crate) fn is_deserted(&self) -> bool {
        self.deserted.load(Ordering::Relaxed)
    }

    /// Prints a result for programs.
    pub(crate) fn json(&self, value: &Value) -> Result<(), SessionFailure> {
        self.result(&format!("{value:#}\n"))
    }

    /// Prints a message, unless it should be quiet.
    pub(crate) fn message(&self, text: &str) {
        if !self.quiet {
            error_line(&visible(text));
        }
    }

    /// Prints the command that one would run next.
    pub(crate) fn next(&self, command: &str) {
        self.message(&format!("next: {command}"));
    }

    /// Prints a message that belongs to a failure, also if it should be quiet.
    pub(crate) fn alert(&self, text: &str) {
        error_line(&visible(text));
    }

    /// Prints the problems of a spec, errors and warnings; with `--quiet` only if there are errors.
    pub(crate) fn problems(&self, problems: &Problems, sources: &Sources) {
        if self.quiet && !problems.has_errors() {
            return;
        }
        let plain = render(problems, sources, Style::Plain);
        let report = match visible(&plain) {
            // Colours are control characters themselves: a report with others has none.
            Cow::Borrowed(_) if self.colour => render(problems, sources, Style::Colour),
            report => report.into_owned(),
        };
        error_line(report.trim_end_matches('\n'));
    }

    /// Says what takes a while, until it is dropped; only on a terminal.
    pub(crate) fn waiting(&self, text: &str) -> Waiting {
        let shown = self.talks() && self.live;
        if shown {
            let _ = write!(io::stderr().lock(), "{} ...", visible(text));
        }
        Waiting(shown)
    }

    /// Prints why a command failed.
    pub(crate) fn report(&self, failure: &SessionFailure) {
        if let SessionFailure::Spec(found) = failure {
            return self.problems(&found.0, &found.1);
        }
        let word = if self.colour { "\x1b[1;31merror\x1b[0m" } else { "error" };
        let sentences = match failure {
            SessionFailure::Runtime(Error::Experiment(error)) => error.each().map(|one| one.to_string()).collect(),
            failure => vec![failure.to_string()],
        };
        sentences.iter().for_each(|sentence| error_line(&format!("{word}: {}", visible(sentence))));
    }
}

/// Prints what clap says of the arguments of a command, or the help that they ask for; its exit code.
pub(crate) fn say(mut told: clap::Error, command: &clap::Command, args: &[String]) -> u8 {
    let tip = tips::tip(&mut told, command, args);
    let styled = told.render();
    let plain = styled.to_string();
    let words = tips::in_words(&plain);
    match visible(&words) {
        // There is nowhere to say that nothing can be printed.
        Cow::Borrowed(_) if words == plain => drop(told.print()),
        Cow::Borrowed(text) => {
            let text =
                if Terminal::new(false).colour { tips::in_words(&styled.ansi().to_string()) } else { text.to_owned() };
            error_line(text.trim_end_matches('\n'));
        }
        // Colours are control characters themselves: a message with others has none.
        Cow::Owned(text) => error_line(text.trim_end_matches('\n')),
    }
    if let Some(tip) = tip {
        error_line(&visible(&format!("\n  tip: {tip}")));
    }
    u8::try_from(told.exit_code()).unwrap_or(2)
}

/// Prints a line to standard error. There is nowhere to say that it is closed.
fn error_line(text: &str) {
    if !text.is_empty() {
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}

/// A text whose control characters are escaped as in JSON, as `\u001b`, but for line feeds and tabs. So are the characters that
/// change the direction of what follows them.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    let is_hidden = |c: char| match c {
        '\n' | '\t' => false,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        c => c.is_control(),
    };
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_hidden(c) {
            write!(out, "\\u{:04x}", u32::from(c)).expect("a text takes all");
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// A path or a word as a shell takes it.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:@%=,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_escaped() {
        assert_eq!(visible("a\u{1b}[2J\u{7}b\r\u{7f}\u{9b}31m\0"), r"a\u001b[2J\u0007b\u000d\u007f\u009b31m\u0000");
        assert_eq!(visible("\u{202e}txt.exe\u{2066}\u{2069}"), r"\u202etxt.exe\u2066\u2069");
        for plain in ["", "a\tb\nc", "ä → ∞ 日本 \u{200d}", r"\u001b"] {
            assert!(matches!(visible(plain), Cow::Borrowed(text) if text == plain), "{plain}");
        }
    }

    #[test]
    fn json_stays_the_same_value() {
        let value = serde_json::json!({ "text": "a\u{9b}b\u{202e}\u{1b}" });
        let shown = visible(&value.to_string()).into_owned();
        assert!(shown.is_ascii(), "{shown}");
        assert_eq!(serde_json::from_str::<Value>(&shown).ok(), Some(value));
    }

    #[test]
    fn paths_are_one_word_of_a_shell() {
        let cases =
            [("a b", "'a b'"), ("it's", r"'it'\''s'"), ("", "''"), ("-x", "-x"), ("a\nb", "'a\nb'"), ("~", "'~'")];
        for (path, expected) in cases {
            assert_eq!(quoted(Path::new(path)), expected);
        }
    }
}
