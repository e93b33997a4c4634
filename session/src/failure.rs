//! The failure of a step of a session, with the exit code of a command that ends with it.

use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use rtc_base::disk::IoError;
use rtc_compiler::diag::Problems;
use rtc_compiler::ir::graph::InvalidNode;
use rtc_compiler::source::Sources;
use rtc_exec::learner::LearnError;
use rtc_runs::error::{CheckpointError, Error, ExperimentError};
use rtc_runs::saved::NoModel;
use rtc_task::error::DataError;

/// Exit code of a spec with errors.
pub const BAD_SPEC: u8 = 3;

/// Exit code where more memory is needed than there is, or than may be used.
pub const TOO_LARGE: u8 = 8;

/// Exit code of a command that is not done in its time.
const TOO_LONG: u8 = 9;

/// The failure of a step: opening, checking, compiling, training.
#[derive(Debug)]
pub enum SessionFailure {
    /// The arguments don't make sense together.
    Usage(String),
    /// The spec has errors.
    Spec(Box<(Problems, Sources)>),
    /// The spec can't be read as text, or can't be lowered.
    NoSpec(String),
    /// The model or its batches need more memory than there is, or than may be used.
    Memory(String),
    /// It is not done when the time of `--time-limit` is over.
    Time(Duration),
    /// Runs that can't be compared, or gone on with, without saying how they differ.
    Mixed(String),
    /// A panic: a fault of rtc.
    Panic(String),
    /// A failure of the runtime, with its own exit code.
    Runtime(Error),
}

/// Exit code where runs or checkpoints are refused.
const REFUSED: u8 = 7;

/// Exit code of a process that panicked.
pub const PANIC: u8 = 101;

impl SessionFailure {
    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Spec(_) | Self::NoSpec(_) => BAD_SPEC,
            Self::Memory(_) => TOO_LARGE,
            Self::Time(_) => TOO_LONG,
            Self::Mixed(_) => REFUSED,
            Self::Panic(_) => PANIC,
            Self::Runtime(error) => error.exit_code(),
        }
    }

    /// A failed operation of the file system.
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        IoError::at(action, path)(source).into()
    }

    /// Data that a model can't be given.
    pub fn data(file: impl Into<String>, line: Option<usize>, message: impl Into<String>) -> Self {
        DataError { file: file.into(), line, message: message.into() }.into()
    }
}

/// One sentence; that of a spec with errors is short, since its problems are a report of their own.
impl fmt::Display for SessionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spec(_) => f.write_str("the spec has errors"),
            Self::Time(limit) => write!(f, "not done after {} s, as `--time-limit` asks", limit.as_secs_f64()),
            Self::Usage(text) | Self::NoSpec(text) | Self::Memory(text) | Self::Mixed(text) | Self::Panic(text) => {
                f.write_str(text)
            }
            Self::Runtime(error) => error.fmt(f),
        }
    }
}

impl From<InvalidNode> for SessionFailure {
    fn from(invalid: InvalidNode) -> Self {
        NoModel::from(invalid).into()
    }
}

impl From<NoModel> for SessionFailure {
    fn from(NoModel(why): NoModel) -> Self {
        Self::NoSpec(why)
    }
}

impl From<Error> for SessionFailure {
    fn from(error: Error) -> Self {
        Self::Runtime(error)
    }
}

/// Failures of the runtime by their own types.
macro_rules! runtime_errors {
    ($($error:ty),*) => {$(
        impl From<$error> for SessionFailure {
            fn from(error: $error) -> Self {
                Self::Runtime(error.into())
            }
        }
    )*};
}

runtime_errors!(IoError, DataError, ExperimentError, CheckpointError, LearnError);
