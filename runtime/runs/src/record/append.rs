//! Files that only grow, except when a resumed run cuts them back.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::Value;

use super::seal::ChecksumChain;
use crate::error::{CheckpointError, Error};
use rtc_base::disk::IoError;
use rtc_base::disk::beneath::{self, RECORD};
use rtc_base::disk::{Disk, folder_of};

/// A file with a known length; writes go to its end, unbuffered, so that a killed process loses nothing written.
pub(super) struct Appender {
    disk: Rc<dyn Disk>,
    path: PathBuf,
    length: u64,
}

impl Appender {
    pub(super) fn open(disk: &Rc<dyn Disk>, path: &Path) -> Result<Self, IoError> {
        disk.create(path).map_err(IoError::at("open", path))?;
        let length = path.symlink_metadata().map_err(IoError::at("read", path))?.len();
        Ok(Self { disk: disk.clone(), path: path.to_path_buf(), length })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn position(&self) -> u64 {
        self.length
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), IoError> {
        self.disk.append(&self.path, bytes).map_err(IoError::at("write", &self.path))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    pub(super) fn sync(&mut self) -> Result<(), IoError> {
        self.disk.sync(&self.path).map_err(IoError::at("sync", &self.path))
    }

    pub(super) fn truncate(&mut self, length: u64) -> Result<(), IoError> {
        self.disk.truncate(&self.path, length).map_err(IoError::at("truncate", &self.path))?;
        self.length = length;
        Ok(())
    }

    fn bytes(&self) -> Result<Vec<u8>, IoError> {
        let (folder, name) = (folder_of(&self.path), self.path.file_name().unwrap_or_default());
        beneath::read(folder, Path::new(name), RECORD).map_err(IoError::at("read", &self.path))
    }
}

/// A file of sealed lines of JSON, see [`ChecksumChain`].
pub(super) struct SealedLines {
    file: Appender,
    run: String,
    chain: ChecksumChain,
}

impl SealedLines {
    /// Opens the lines of a run. None can be added before [`Self::keep`] or [`Self::keep_whole`] has read those that are there.
    pub(super) fn open(disk: &Rc<dyn Disk>, path: &Path, run: &str) -> Result<Self, IoError> {
        Ok(Self { file: Appender::open(disk, path)?, run: run.to_owned(), chain: ChecksumChain::of(run) })
    }

    /// Where the file is.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Its length in bytes.
    pub(super) fn position(&self) -> u64 {
        self.file.position()
    }

    /// Makes it durable.
    pub(super) fn sync(&mut self) -> Result<(), IoError> {
        self.file.sync()
    }

    /// Adds a line.
    pub(super) fn append(&mut self, line: &Value) -> Result<(), IoError> {
        let text = self.chain.seal(line);
        self.file.append(text.as_bytes())
    }

    /// Keeps so many bytes, which must be whole lines as they were written.
    pub(super) fn keep(&mut self, length: u64) -> Result<(), Error> {
        let mut bytes = self.file.bytes()?;
        bytes.truncate(length as usize);
        self.chain = self.check(&bytes)?;
        Ok(self.file.truncate(length)?)
    }

    /// Keeps all but the half line that a killed process may have left.
    pub(super) fn keep_whole(&mut self) -> Result<(), Error> {
        let bytes = self.file.bytes()?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |index| index + 1);
        self.chain = self.check(&bytes[..whole])?;
        if whole < bytes.len() { Ok(self.file.truncate(whole as u64)?) } else { Ok(()) }
    }

    fn check(&self, bytes: &[u8]) -> Result<ChecksumChain, CheckpointError> {
        let refuse = |reason| CheckpointError { path: self.path().to_path_buf(), reason, previous: None };
        let mut chain = ChecksumChain::of(&self.run);
        for (number, line) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
            let line = line.strip_suffix(b"\n").ok_or_else(|| refuse(format!("line {number} is cut off")))?;
            chain.open::<Value>(line).map_err(|why| refuse(format!("line {number} {why}")))?;
        }
        Ok(chain)
    }
}
