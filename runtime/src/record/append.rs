//! Files that only grow, except when a resumed run cuts them back.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::error::IoError;

/// A file with a known length; writes go to its end, unbuffered, so that a killed process loses nothing written.
pub(super) struct Appender {
    path: PathBuf,
    file: File,
    length: u64,
}

impl Appender {
    pub(super) fn open(path: &Path) -> Result<Self, IoError> {
        let options = OpenOptions::new().create(true).read(true).append(true).open(path);
        let file = options.map_err(IoError::at("open", path))?;
        let length = file.metadata().map_err(IoError::at("read", path))?.len();
        Ok(Self { path: path.to_path_buf(), file, length })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn position(&self) -> u64 {
        self.length
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), IoError> {
        self.file.write_all(bytes).map_err(IoError::at("write", &self.path))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    pub(super) fn sync(&mut self) -> Result<(), IoError> {
        self.file.sync_data().map_err(IoError::at("sync", &self.path))
    }

    pub(super) fn truncate(&mut self, length: u64) -> Result<(), IoError> {
        self.file.set_len(length).map_err(IoError::at("truncate", &self.path))?;
        self.length = length;
        Ok(())
    }

    /// Removes the half line that a killed process may have left.
    pub(super) fn cut_broken_line(&mut self) -> Result<(), IoError> {
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(0)).map_err(IoError::at("read", &self.path))?;
        self.file.read_to_end(&mut bytes).map_err(IoError::at("read", &self.path))?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |index| index + 1);
        if whole < bytes.len() { self.truncate(whole as u64) } else { Ok(()) }
    }
}
