//! Ways in which the command ends without a result, with their exit codes.

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The two programs compute different numbers, so that comparing their speed would mean nothing.
    #[error("{0}")]
    Differ(String),
    /// A mistake in the arguments.
    #[error("{0}")]
    Arguments(String),
    /// The peer, or a Python that can run it, is not there.
    #[error("{0}")]
    Absent(String),
    /// A program that was started failed, or a file could not be written.
    #[error("{0}")]
    Broken(String),
}

impl Failure {
    /// The exit code of the command.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Differ(_) => 1,
            Self::Arguments(_) => 2,
            Self::Absent(_) => 3,
            Self::Broken(_) => 4,
        }
    }
}
