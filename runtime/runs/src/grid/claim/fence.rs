//! A disk on which a run is written for as long as its cell is claimed.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::Claim;
use super::hold::Holding;
use rtc_base::disk::{Disk, FileSystem};

/// The file system, which refuses every change once another process has taken the cell over.
///
/// A process that is suspended between this question and the operation behind it may still do this one operation when it goes on.
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
        self.disk.create(path)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.held.check()?;
        self.disk.write(path, bytes)
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.held.check()?;
        self.disk.append(path, bytes)
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        self.held.check()?;
        self.disk.truncate(path, length)
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
