//! The error of an operation of the file system.

use std::io;
use std::path::{Path, PathBuf};

/// An operation of the file system that failed.
#[derive(Debug, thiserror::Error)]
#[error("can't {action} {}: {source}", path.display())]
pub struct IoError {
    /// The operation: `write`, `read`, `rename`, ...
    pub action: &'static str,
    /// The file or folder.
    pub path: PathBuf,
    /// The answer of the system.
    pub source: io::Error,
}

impl IoError {
    /// For `map_err`: names the action and the path of a failed operation.
    pub fn at(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self { action, path, source }
    }
}
