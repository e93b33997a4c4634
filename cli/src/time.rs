//! `--time-limit`: a command that takes longer ends.

use std::process;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::limits;
use clap::Args;
use rtc_session::failure::SessionFailure;

use crate::terminal::Terminal;

/// How long a command may take.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct TimeLimit {
    /// End with code 9 after so many seconds; lines that were printed by then are complete
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    time_limit: Option<Duration>,
}

impl TimeLimit {
    /// Ends the process when the time is over: see [`limit`].
    pub(crate) fn start(self, quiet: bool) -> Result<Option<TimeGuard>, SessionFailure> {
        self.time_limit.map(|time| limit(time, quiet)).transpose()
    }
}

/// A limit that holds as long as this value.
pub(crate) struct TimeGuard {
    _over: Sender<()>,
}

/// Ends the process when the time is over, from a thread of its own: nothing that computes has to look at a clock. Files that are
/// written have another name until they are complete.
pub(crate) fn limit(time: Duration, quiet: bool) -> Result<TimeGuard, SessionFailure> {
    let (over, ended) = channel();
    let end = move || {
        if ended.recv_timeout(time) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let failure = SessionFailure::Time(time);
        Terminal::new(quiet).report(&failure);
        process::exit(failure.code().into());
    };
    let thread = thread::Builder::new().spawn(end);
    thread.map(|_| TimeGuard { _over: over }).map_err(|e| SessionFailure::Panic(format!("no thread can be had: {e}")))
}

/// Reads `--time-limit`.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|s| *s > 0.0 && *s <= limits::SECONDS as f64);
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("seconds are wanted, above 0 and at most {}", limits::SECONDS))
}
