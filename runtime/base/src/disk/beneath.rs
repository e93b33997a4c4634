//! Names below a folder, reached without following a link.
//!
//! The folder of a run may come from another user or out of an archive, with a link, a fifo or a device under any name. Each function
//! walks from the folder to the name one component at a time, refuses links on the way, and opens regular files only, without waiting.
//! The folder itself may be reached through links: the user named it.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Component, Path};

use crate::disk::IoError;

#[cfg(not(unix))]
mod portable;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
use portable as system;
#[cfg(unix)]
use unix as system;

/// Most bytes of a file of settings: identity, spec, labels, lengths.
pub const SMALL: u64 = 1 << 26;
/// Most bytes of a record that grows with the training or the data.
pub const RECORD: u64 = 1 << 30;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// To read.
    Read,
    /// To write at its end; the file exists.
    Append,
    /// To write at its end; made if absent.
    AppendOrCreate,
    /// To cut.
    Write,
    /// To write a file that did not exist.
    CreateNew,
}

/// The kind of what a name must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    File,
    Folder,
}

/// Opens a regular file to read.
///
/// # Errors
/// The system refuses; a component of `name` is a link; the file is no regular file.
pub fn open(root: &Path, name: &Path) -> io::Result<File> {
    system::open(root, name, Access::Read)
}

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
/// Those of [`open`], and a file that is longer.
pub fn read(root: &Path, name: &Path, most: u64) -> io::Result<Vec<u8>> {
    whole(open(root, name)?, most)
}

/// Reads the file `name` of the folder `root`, see [`read`](read()).
///
/// # Errors
/// What the system says, with the path.
pub fn read_named(root: &Path, name: &str, most: u64) -> Result<Vec<u8>, IoError> {
    read(root, Path::new(name), most).map_err(IoError::at("read", &root.join(name)))
}

/// Reads an open file of at most `most` bytes.
///
/// # Errors
/// The file is longer, or memory is short.
pub fn whole(file: File, most: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    if length > most {
        return Err(io::Error::other(format!("it has {length} bytes, and at most {most} are read")));
    }
    let mut bytes = vec![];
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    bytes.try_reserve_exact(length).map_err(|_| io::Error::from(ErrorKind::OutOfMemory))?;
    // The file may grow meanwhile.
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a file to add to its end.
///
/// # Errors
/// Those of [`open`].
pub fn append(root: &Path, name: &Path) -> io::Result<File> {
    system::open(root, name, Access::Append)
}

/// Opens a file to add to its end, and makes it if there is none.
///
/// # Errors
/// Those of [`open`].
pub fn append_or_create(root: &Path, name: &Path) -> io::Result<File> {
    system::open(root, name, Access::AppendOrCreate)
}

/// Opens a file to change its length.
///
/// # Errors
/// Those of [`open`].
pub fn write(root: &Path, name: &Path) -> io::Result<File> {
    system::open(root, name, Access::Write)
}

/// Makes a file.
///
/// # Errors
/// Something of this name exists; those of [`open`].
pub fn create_new(root: &Path, name: &Path) -> io::Result<File> {
    system::open(root, name, Access::CreateNew)
}

/// Opens a folder, to sync its names.
///
/// # Errors
/// Those of [`open`], for a folder.
pub fn open_folder(root: &Path, name: &Path) -> io::Result<File> {
    system::open_folder(root, name)
}

/// Makes a folder and its parents up to `root`, where absent.
///
/// # Errors
/// A component of `name` is no folder.
pub fn create_folder(root: &Path, name: &Path) -> io::Result<()> {
    system::create_folder(root, name)
}

/// Renames within one folder. A link that is renamed, or replaced, is not followed.
///
/// # Errors
/// What the system says.
pub fn rename(root: &Path, from: &Path, to: &Path) -> io::Result<()> {
    if from.parent() != to.parent() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "the two names are in different folders"));
    }
    system::rename(root, from, to)
}

/// Gives a file a second name in its folder, which one process of several can do.
///
/// # Errors
/// Something of the second name exists, or the file system has no hard links.
pub fn link(root: &Path, from: &Path, to: &Path) -> io::Result<()> {
    if from.parent() != to.parent() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "the two names are in different folders"));
    }
    system::link(root, from, to)
}

/// Removes a file, a link or a folder with all that is in it; it may be absent.
///
/// # Errors
/// What the system says; folders nest too deep.
pub fn remove(root: &Path, name: &Path) -> io::Result<()> {
    match system::remove(root, name) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Whether anything has this path; a link counts, and is not followed.
pub fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Whether the user who runs this program owns a folder or file. Others may look at it, and nothing is written into it.
pub fn is_owned(path: &Path) -> bool {
    system::is_owned(path)
}

/// The components of a name below a folder.
fn components(name: &Path) -> io::Result<Vec<&Path>> {
    let part = |part| match part {
        Component::Normal(part) => Ok(Path::new(part)),
        _ => Err(io::Error::new(ErrorKind::InvalidInput, "the name leads out of its folder")),
    };
    name.components().filter(|part| *part != Component::CurDir).map(part).collect()
}

/// What is wrong with something that is not of the wanted kind.
fn refused(is_link: bool, wanted: FileKind) -> io::Error {
    io::Error::other(match (is_link, wanted) {
        (true, _) => "it is a link, and links in the folder of a run or a grid are not followed",
        (false, FileKind::File) => "it is no regular file",
        (false, FileKind::Folder) => "it is no folder",
    })
}

#[cfg(all(test, unix))]
mod tests;
