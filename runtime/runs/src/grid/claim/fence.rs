//! A disk on which a run is written for as long as its cell is claimed.

use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;

use super::Claim;
use super::hold::Holding;
use rtc_base::disk::{Disk, FileSystem};

/// The file system, which refuses every change once another process has taken the cell over.
///
/// A process may be suspended between this question and the operation that follows it. What it then adds to a file, or cuts from it,
/// goes to the file that it had opened before it asked, and [`Fenced::create`] of the process that took the cell over has put a copy in
/// the place of that file. A draft that it would rename was removed when the run was opened. Only a name that is not a draft's, that of
/// the checkpoint, can still be changed, once, in this instant.
#[derive(Debug)]
pub struct Fenced {
    held: Arc<Holding>,
    disk: FileSystem,
}

impl Fenced {
    /// For the folder of the run of a claimed cell.
    pub fn by(claim: &Claim, root: &Path) -> Self {
        Self { held: claim.holding(), disk: FileSystem::below(root) }
    }
}

impl Disk for Fenced {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.held.check()?;
        self.disk.create_folder(path)
    }

    fn create(&self, path: &Path) -> io::Result<()> {
        self.held.check()?;
        match self.disk.renew(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => self.disk.create(path),
            renewed => renewed,
        }
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.held.check()?;
        self.disk.write(path, bytes)
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let file = self.disk.open_to_append(path);
        self.held.check()?;
        file?.write_all(bytes)
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        let file = self.disk.open_to_cut(path);
        self.held.check()?;
        file?.set_len(length)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        self.disk.sync(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.held.check()?;
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.held.check()?;
        self.disk.remove(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.disk.sync_folder(path)
    }
}
