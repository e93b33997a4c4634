//! The walk by `openat` with `O_NOFOLLOW`: what a name is can't change between the check and the opening.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, linkat, mkdirat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

use super::{Access, FileKind, components, refused};

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Levels of folders that are removed: a run has two.
const DEEPEST: usize = 64;

pub(super) fn open(root: &Path, name: &Path, access: Access) -> io::Result<File> {
    let (folder, last) = parent(root, name)?;
    match check(&folder, last, FileKind::File) {
        Err(error) if is_absent(&error) && matches!(access, Access::AppendOrCreate | Access::CreateNew) => {}
        checked => checked?,
    }
    // A fifo that came meanwhile is opened without waiting, and refused.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | flags(access);
    let file = File::from(openat(&folder, last, flags, Mode::from_raw_mode(0o666))?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(refused(false, FileKind::File)) }
}

fn flags(access: Access) -> OFlags {
    match access {
        Access::Read => OFlags::RDONLY,
        Access::Append => OFlags::WRONLY | OFlags::APPEND,
        Access::AppendOrCreate => OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE,
        Access::Write => OFlags::WRONLY,
        Access::CreateNew => OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL,
    }
}

pub(super) fn open_folder(root: &Path, name: &Path) -> io::Result<File> {
    components(name)?.into_iter().try_fold(root_folder(root)?, |folder, part| step(&folder, part)).map(File::from)
}

pub(super) fn create_folder(root: &Path, name: &Path) -> io::Result<()> {
    let mut folder = root_folder(root)?;
    for part in components(name)? {
        match mkdirat(&folder, part, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => folder = step(&folder, part)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

pub(super) fn rename(root: &Path, from: &Path, to: &Path) -> io::Result<()> {
    let ((folder, from), (_, to)) = (parent(root, from)?, parent(root, to)?);
    Ok(renameat(&folder, from, &folder, to)?)
}

pub(super) fn link(root: &Path, from: &Path, to: &Path) -> io::Result<()> {
    let ((folder, from), (_, to)) = (parent(root, from)?, parent(root, to)?);
    Ok(linkat(&folder, from, &folder, to, AtFlags::empty())?)
}

pub(super) fn remove(root: &Path, name: &Path) -> io::Result<()> {
    let (folder, last) = parent(root, name)?;
    remove_at(&folder, last, DEEPEST)
}

fn remove_at(folder: &OwnedFd, name: &Path, deep: usize) -> io::Result<()> {
    let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
        return Ok(unlinkat(folder, name, AtFlags::empty())?);
    }
    let deep = deep.checked_sub(1).ok_or_else(|| io::Error::other("folders nest too deep"))?;
    let inside = step(folder, name)?;
    for entry in Dir::read_from(&inside)? {
        let entry = entry?;
        match entry.file_name().to_bytes() {
            b"." | b".." => {}
            name => remove_at(&inside, Path::new(OsStr::from_bytes(name)), deep)?,
        }
    }
    Ok(unlinkat(folder, name, AtFlags::REMOVEDIR)?)
}

pub(super) fn is_owned(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.uid() == rustix::process::geteuid().as_raw())
}

/// The folder of a name, and the last component.
fn parent<'n>(root: &Path, name: &'n Path) -> io::Result<(OwnedFd, &'n Path)> {
    let mut parts = components(name)?;
    let last = parts.pop().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let folder = parts.into_iter().try_fold(root_folder(root)?, |folder, part| step(&folder, part))?;
    Ok((folder, last))
}

fn root_folder(root: &Path) -> io::Result<OwnedFd> {
    let root = if root.as_os_str().is_empty() { Path::new(".") } else { root };
    Ok(rustix::fs::open(root, FOLDER, Mode::empty())?)
}

fn step(folder: &OwnedFd, part: &Path) -> io::Result<OwnedFd> {
    check(folder, part, FileKind::Folder)?;
    Ok(openat(folder, part, FOLDER | OFlags::NOFOLLOW, Mode::empty())?)
}

/// Refuses what is not of the wanted kind before anything is opened: the opening of a device may do something.
fn check(folder: &OwnedFd, name: &Path, wanted: FileKind) -> io::Result<()> {
    let found = FileType::from_raw_mode(statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode);
    let kind = match wanted {
        FileKind::File => FileType::RegularFile,
        FileKind::Folder => FileType::Directory,
    };
    if found == kind { Ok(()) } else { Err(refused(found == FileType::Symlink, wanted)) }
}

fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}
