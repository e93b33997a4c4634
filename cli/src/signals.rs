//! Signals: those that ask a training to stop, and one that would end the process where a write can fail instead.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rtc_session::failure::SessionFailure;
#[cfg(unix)]
use signal_hook::consts::{SIGHUP, SIGXFSZ};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

#[cfg(feature = "live")]
use crate::exit::Exit;

/// A flag that the first SIGINT, SIGTERM or SIGHUP sets; the second ends the process at once. SIGHUP is left ignored where it is: a
/// program that was started with `nohup` goes on when its terminal closes.
pub(crate) fn on_stop() -> Result<Arc<AtomicBool>, SessionFailure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in stopping() {
        // The order matters: at the first signal the flag is still clear when this looks at it.
        let registered = flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)));
        registered.map_err(not_handled)?;
    }
    Ok(stop)
}

/// Lets the first SIGINT, SIGTERM or SIGHUP end the process, whatever its threads do; for commands that have nothing to save.
#[cfg(feature = "live")]
pub(crate) fn end_on_stop(exit: Exit) -> Result<(), SessionFailure> {
    let always = Arc::new(AtomicBool::new(true));
    for signal in stopping() {
        let code = i32::from(exit.code());
        flag::register_conditional_shutdown(signal, code, Arc::clone(&always)).map_err(not_handled)?;
    }
    Ok(())
}

/// Returns the signals that ask a command to stop.
fn stopping() -> Vec<i32> {
    let mut signals = vec![SIGINT, SIGTERM];
    #[cfg(unix)]
    if !is_ignored(SIGHUP) {
        signals.push(SIGHUP);
    }
    signals
}

fn not_handled(error: io::Error) -> SessionFailure {
    SessionFailure::io("handle", Path::new("signals"), error)
}

/// Lets a write that goes beyond the largest size of a file (`ulimit -f`) fail, as one on a full disk does, instead of ending the process.
pub(crate) fn let_writes_fail() {
    // Where it can't be done the process ends as it would have.
    #[cfg(unix)]
    let _ = flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// Whether the process was started with this signal ignored, where the system says.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    ignores(&std::fs::read_to_string("/proc/self/status").unwrap_or_default(), signal)
}

/// Whether a signal is among those that `/proc/self/status` lists as ignored.
#[cfg(unix)]
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read() {
        let status = "Name:\trtc\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000001001\n";
        assert!(ignores(status, SIGHUP) && !ignores(status, SIGINT) && !ignores("", SIGHUP));
    }
}
