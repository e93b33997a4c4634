//! Several files in one input: a text before the first file, then every file behind a line `=== NAME`.

use std::fs;
use std::path::{Component, Path, PathBuf};

use tempfile::TempDir;

/// What stands before the name of a file.
const MARK: &[u8] = b"\n=== ";

/// The parts of an input.
pub(super) struct Parts<'a> {
    /// What stands before the first file.
    pub(super) head: &'a [u8],
    /// Names and contents. No name leads out of the folder that the files are written to.
    pub(super) files: Vec<(&'a str, &'a [u8])>,
}

impl<'a> Parts<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        let mut cuts: Vec<usize> =
            bytes.windows(MARK.len()).enumerate().filter(|(_, w)| *w == MARK).map(|(n, _)| n).collect();
        cuts.push(bytes.len());
        let file = |cut: &[usize]| {
            let (name, content) = split_line(&bytes[cut[0] + MARK.len()..cut[1]]);
            Some((str::from_utf8(name).ok().filter(|name| is_inside(name))?, content))
        };
        Self { head: &bytes[..cuts[0]], files: cuts.windows(2).filter_map(file).collect() }
    }

    /// The first file of a name.
    pub(super) fn file(&self, name: &str) -> Option<&'a [u8]> {
        self.files.iter().find(|(own, _)| *own == name).map(|(_, content)| *content)
    }

    /// The files in a folder of their own.
    pub(super) fn written(&self) -> TempDir {
        let folder = TempDir::new().expect("a temporary folder");
        for (name, content) in &self.files {
            write(folder.path(), name, content);
        }
        folder
    }
}

/// Writes a file below a folder, where no other file stands in its way.
pub(super) fn write(folder: &Path, name: &str, content: &[u8]) {
    let path = folder.join(name);
    if fs::create_dir_all(path.parent().expect("it is inside")).is_ok() && !path.is_dir() {
        fs::write(path, content).expect("a new file");
    }
}

fn split_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    (&bytes[..end], bytes.get(end + 1..).unwrap_or_default())
}

/// Whether a name is one of a file below a folder, in letters that every file system has.
pub(super) fn is_inside(name: &str) -> bool {
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/*?".contains(&byte));
    let below = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    // No part of it is left out by the system, as the point of `a/.` is.
    let whole = Path::new(name).components().collect::<PathBuf>().as_os_str() == name;
    plain && below && whole && !name.is_empty() && name.len() < 100
}
