//! Exit codes of commands that succeeded, and results of commands.

use rtc_runs::error::STOPPED;
use rtc_session::failure::SessionFailure;

/// The end of a command that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// As hoped.
    Done,
    /// The answer is no; the result says why.
    Negative,
    /// The problems of specs, or the failures of some of several files, were printed already.
    Reported(u8),
    /// The user stopped it; the same command goes on.
    Stopped,
}

impl Exit {
    /// The exit code.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Negative => 1,
            Self::Reported(code) => code,
            Self::Stopped => STOPPED,
        }
    }

    /// `Done` if `good`, else `Negative`.
    pub(crate) fn of(good: bool) -> Self {
        if good { Self::Done } else { Self::Negative }
    }
}

/// The result of a command.
pub(crate) type CommandResult = Result<Exit, SessionFailure>;
