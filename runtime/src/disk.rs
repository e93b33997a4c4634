//! The operations on files by which runs are written.
//!
//! Whatever a training writes goes through a [`Disk`], so that tests can let any operation fail, and can lose what a cut of
//! power may lose: names in a folder that was not synced since, and content that was appended to a file or cut off from it and not
//! synced since.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::IoError;

/// Operations on files.
pub trait Disk {
    /// Makes a folder and its parents.
    fn create_folder(&self, path: &Path) -> io::Result<()>;
    /// Makes an empty file, if there is none.
    fn create(&self, path: &Path) -> io::Result<()>;
    /// Writes a new file and makes its content durable.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Adds to the end of a file that is there; what was added outlives this process at once.
    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Cuts a file to a length.
    fn truncate(&self, path: &Path, length: u64) -> io::Result<()>;
    /// Makes the content of a file durable.
    fn sync(&self, path: &Path) -> io::Result<()>;
    /// Renames a file or a folder within its folder.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a folder with all that is in it; it may be absent.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a folder durable.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
}

/// The real file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileSystem;

impl Disk for FileSystem {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn create(&self, path: &Path) -> io::Result<()> {
        OpenOptions::new().create(true).append(true).open(path).map(drop)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        OpenOptions::new().append(true).open(path)?.write_all(bytes)
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        OpenOptions::new().write(true).open(path)?.set_len(length)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_data()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

/// Writes a file so that it is there completely or not at all, also after a power failure.
///
/// # Errors
/// What the system says, with the path.
pub fn write_file(path: &Path, text: &str) -> Result<(), IoError> {
    write_on(&FileSystem, path, text)
}

/// The same on any disk.
///
/// # Errors
/// What the system says, with the path.
pub fn write_on(disk: &dyn Disk, path: &Path, text: &str) -> Result<(), IoError> {
    let fresh = path.with_extension("new");
    disk.write(&fresh, text.as_bytes()).map_err(IoError::at("write", &fresh))?;
    disk.rename(&fresh, path).map_err(IoError::at("rename", &fresh))?;
    let folder = folder_of(path);
    disk.sync_folder(folder).map_err(IoError::at("sync", folder))
}

/// Writes a file that other processes may write, too: it is that of one of them as a whole.
///
/// # Errors
/// What the system says, with the path.
pub fn write_shared(path: &Path, text: &str) -> Result<(), IoError> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let own = format!("{now:x}-{:x}-{:x}.new", process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let fresh = path.with_extension(own);
    FileSystem.write(&fresh, text.as_bytes()).map_err(IoError::at("write", &fresh))?;
    FileSystem.rename(&fresh, path).map_err(IoError::at("rename", &fresh))?;
    let folder = folder_of(path);
    FileSystem.sync_folder(folder).map_err(IoError::at("sync", folder))
}

/// The folder in which a file or a folder lies.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
