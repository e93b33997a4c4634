//! The same by paths, for systems without `openat`: every component is looked at before the whole path is used.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::{Access, FileKind, components, refused};

pub(super) fn open(root: &Path, name: &Path, access: Access) -> io::Result<File> {
    let path = parent(root, name)?;
    match check(&path, FileKind::File) {
        Err(error)
            if error.kind() == ErrorKind::NotFound && matches!(access, Access::AppendOrCreate | Access::CreateNew) => {}
        checked => checked?,
    }
    let mut options = OpenOptions::new();
    match access {
        Access::Read => options.read(true),
        Access::Append => options.append(true),
        Access::AppendOrCreate => options.append(true).create(true),
        Access::Write => options.write(true),
        Access::CreateNew => options.write(true).create_new(true),
    };
    options.open(path)
}

pub(super) fn open_folder(root: &Path, name: &Path) -> io::Result<File> {
    let path = root.join(name);
    walk(root, &components(name)?)?;
    File::open(path)
}

pub(super) fn create_folder(root: &Path, name: &Path) -> io::Result<()> {
    let mut path = root.to_owned();
    for part in components(name)? {
        path.push(part);
        match fs::create_dir(&path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => check(&path, FileKind::Folder)?,
        }
    }
    Ok(())
}

pub(super) fn rename(root: &Path, from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(parent(root, from)?, parent(root, to)?)
}

pub(super) fn link(root: &Path, from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(parent(root, from)?, parent(root, to)?)
}

pub(super) fn remove(root: &Path, name: &Path) -> io::Result<()> {
    let path = parent(root, name)?;
    if fs::symlink_metadata(&path)?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

/// There is no owner to ask for by the standard library.
pub(super) fn is_owned(_path: &Path) -> bool {
    true
}

/// The whole path of a name whose folder is reached without links.
fn parent(root: &Path, name: &Path) -> io::Result<PathBuf> {
    let parts = components(name)?;
    let (last, folders) = parts.split_last().ok_or_else(|| io::Error::from(ErrorKind::InvalidInput))?;
    Ok(walk(root, folders)?.join(last))
}

fn walk(root: &Path, folders: &[&Path]) -> io::Result<PathBuf> {
    folders.iter().try_fold(root.to_owned(), |path, part| {
        let path = path.join(part);
        check(&path, FileKind::Folder).map(|()| path)
    })
}

fn check(path: &Path, wanted: FileKind) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?.file_type();
    let fits = match wanted {
        FileKind::File => found.is_file(),
        FileKind::Folder => found.is_dir(),
    };
    if fits { Ok(()) } else { Err(refused(found.is_symlink(), wanted)) }
}
