//! The operations on files by which runs are written.
//!
//! Whatever a training writes goes through a [`Disk`], so that tests can let any operation fail, and can lose what a cut of
//! power may lose: names in a folder that was not synced since, and content that was appended to a file or cut off from it and not
//! synced since.

pub mod beneath;
mod error;

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

pub use error::IoError;

/// Operations on files.
pub trait Disk {
    /// Makes a folder and its parents.
    fn create_folder(&self, path: &Path) -> io::Result<()>;
    /// Makes an empty file, if there is none.
    fn create(&self, path: &Path) -> io::Result<()>;
    /// Writes a file that did not exist, and makes its content durable.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Adds to the end of a file that is there; what was added outlives this process at once.
    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Cuts a file to a length.
    fn truncate(&self, path: &Path, length: u64) -> io::Result<()>;
    /// Makes the content of a file durable.
    fn sync(&self, path: &Path) -> io::Result<()>;
    /// Renames a file or a folder within its folder.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file, or a folder with all that is in it; it may be absent.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a folder durable.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
}

/// The real file system, for the files below one folder: see [`beneath`].
#[derive(Clone, Debug)]
pub struct FileSystem {
    root: PathBuf,
}

impl FileSystem {
    /// Writes below this folder, such as that of a run.
    pub fn below(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Opens a file that is there, to add to its end.
    ///
    /// # Errors
    /// Those of [`beneath::append`].
    pub fn open_to_append(&self, path: &Path) -> io::Result<File> {
        beneath::append(&self.root, self.name(path)?)
    }

    /// Opens a file that is there, to cut it.
    ///
    /// # Errors
    /// Those of [`beneath::write`].
    pub fn open_to_cut(&self, path: &Path) -> io::Result<File> {
        beneath::write(&self.root, self.name(path)?)
    }

    /// Puts a copy of a file in its place, so that what another process writes into the file that it has open stays out of the copy.
    ///
    /// # Errors
    /// The file is absent, or one of the operations fails.
    pub fn renew(&self, path: &Path) -> io::Result<()> {
        let mut old = beneath::open(&self.root, self.name(path)?)?;
        let fresh = draft(path);
        let name = self.name(&fresh)?;
        let mut copy = beneath::create_new(&self.root, name)?;
        let copied = io::copy(&mut old, &mut copy).and_then(|_| copy.sync_all());
        let renewed = copied.and_then(|()| self.rename(&fresh, path));
        if renewed.is_err() {
            beneath::remove(&self.root, name)?;
        }
        renewed
    }

    /// The name of a path below the folder.
    fn name<'p>(&self, path: &'p Path) -> io::Result<&'p Path> {
        let outside = || io::Error::new(ErrorKind::InvalidInput, format!("it is not below {}", self.root.display()));
        path.strip_prefix(&self.root).map_err(|_| outside())
    }
}

impl Disk for FileSystem {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        if path == self.root {
            return fs::create_dir_all(path);
        }
        beneath::create_folder(&self.root, self.name(path)?)
    }

    fn create(&self, path: &Path) -> io::Result<()> {
        beneath::append_or_create(&self.root, self.name(path)?).map(drop)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = beneath::create_new(&self.root, self.name(path)?)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.open_to_append(path)?.write_all(bytes)
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        self.open_to_cut(path)?.set_len(length)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        beneath::open(&self.root, self.name(path)?)?.sync_data()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        beneath::rename(&self.root, self.name(from)?, self.name(to)?)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        beneath::remove(&self.root, self.name(path)?)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        match self.name(path) {
            Ok(name) => beneath::open_folder(&self.root, name)?.sync_all(),
            // The folder in which the root lies has the name of the root.
            Err(_) => File::open(path)?.sync_all(),
        }
    }
}

/// Writes a file so that it is there completely or not at all, also after a power failure. Other processes may write it at the same
/// time: it is that of one of them as a whole. A link of this name is replaced, not followed.
///
/// # Errors
/// What the system says, with the path.
pub fn write_file(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), IoError> {
    write_on(&FileSystem::below(folder_of(path)), &named_in_folder(path), bytes)
}

/// Writes an output that the user named: into a device, a pipe or a socket that is there, else as [`write_file`].
///
/// # Errors
/// What the system says, with the path.
pub fn write_output(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), IoError> {
    match special(path) {
        Some(file) => file.and_then(|mut file| file.write_all(bytes.as_ref())).map_err(IoError::at("write", path)),
        None => write_file(path, bytes),
    }
}

/// Opens what has the name of an output and is no regular file, such as `/dev/null`: it must not be replaced by one. Nothing if the name is
/// free, or that of a regular file or of a folder.
pub fn special(path: &Path) -> Option<io::Result<File>> {
    let kind = fs::metadata(path).ok()?.file_type();
    (!kind.is_file() && !kind.is_dir()).then(|| OpenOptions::new().write(true).open(path))
}

/// Does what [`write_file`] does on any disk.
///
/// # Errors
/// What the system says, with the path.
pub fn write_on(disk: &dyn Disk, path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), IoError> {
    let fresh = draft(path);
    let written = disk.write(&fresh, bytes.as_ref()).map_err(IoError::at("write", &fresh));
    let written = written.and_then(|()| disk.rename(&fresh, path).map_err(IoError::at("rename", &fresh)));
    if written.is_err() {
        // What can't be removed stays: the next training removes it.
        let _ = disk.remove(&fresh);
    }
    written?;
    let folder = folder_of(path);
    disk.sync_folder(folder).map_err(IoError::at("sync", folder))
}

/// A path whose folder is written out: that of `a` is `./a`.
fn named_in_folder(path: &Path) -> PathBuf {
    path.file_name().map_or_else(|| path.to_owned(), |name| folder_of(path).join(name))
}

/// A name beside a file that no other process draws: `results.18f-2a3-0.new` for `results.json`.
fn draft(path: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    path.with_extension(format!("{now:x}-{:x}-{count:x}.{DRAFT}", process::id()))
}

/// The end of the names of drafts.
const DRAFT: &str = "new";

/// The name, without its ending, of the file whose draft has this name; such a draft is left by a process that was killed.
pub fn drafted(name: &str) -> Option<&str> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut parts = name.rsplitn(3, '.');
    let (end, drawn, stem) = (parts.next()?, parts.next()?, parts.next()?);
    let is_drawn = drawn.split('-').count() == 3 && drawn.split('-').all(is_number);
    (end == DRAFT && is_drawn).then_some(stem)
}

/// The folder in which a file or a folder lies.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
