//! Machine code of kernels that was compiled before, in the cache folder of the user, a quarter of its size. It is a convenience: what
//! is damaged is not there, and what can't be written is not kept.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use sha2::{Digest, Sha256};

use rtc_base::cache;

/// Texts that are kept at most; those that were written longest ago go first.
const KEPT: usize = 512;

/// Bytes of the checksum in front of the packed code.
const CHECKSUM: usize = 32;

/// A folder of machine code.
#[derive(Clone, Debug)]
pub struct Saved {
    folder: Option<PathBuf>,
}

impl Saved {
    /// The folder `kernels` of the cache of the user; nothing is saved where there is none.
    pub fn of_user() -> Self {
        Self { folder: cache::folder("kernels") }
    }

    /// This folder.
    pub fn at(folder: &Path) -> Self {
        Self { folder: Some(folder.to_owned()) }
    }

    /// What was saved under a key: all that the code depends on.
    pub fn get(&self, key: &[&str]) -> Option<Vec<u8>> {
        let bytes = fs::read(self.folder.as_ref()?.join(name(key))).ok()?;
        let (checksum, packed) = bytes.split_at_checked(CHECKSUM)?;
        if Sha256::digest(packed)[..] != *checksum {
            return None;
        }
        let mut code = vec![];
        ZlibDecoder::new(packed).read_to_end(&mut code).ok()?;
        Some(code)
    }

    /// Saves code, if that is possible. Readers see all of it or nothing.
    pub fn put(&self, key: &[&str], code: &[u8]) {
        static DRAFTS: AtomicU64 = AtomicU64::new(0);
        let Some(folder) = &self.folder else { return };
        let name = name(key);
        // Of this call alone: models are made side by side, by threads and by processes.
        let own = (std::process::id(), DRAFTS.fetch_add(1, Ordering::Relaxed));
        let draft = folder.join(format!("{name}.{}.{}", own.0, own.1));
        let mut packed = ZlibEncoder::new(vec![], Compression::default());
        let packed = packed.write_all(code).and_then(|()| packed.finish());
        let written = packed.and_then(|packed| {
            fs::create_dir_all(folder)?;
            fs::write(&draft, [&Sha256::digest(&packed)[..], &packed].concat())
        });
        if written.and_then(|()| fs::rename(&draft, folder.join(name))).is_err() {
            // Not even a part of it is left behind, where that can be helped.
            let _ = fs::remove_file(&draft);
        }
        clean(folder);
    }
}

/// Removes the oldest files if there are too many.
fn clean(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let aged = |entry: fs::DirEntry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()));
    let mut files: Vec<(SystemTime, PathBuf)> = entries.flatten().filter_map(aged).collect();
    files.sort();
    let surplus = files.len().saturating_sub(KEPT);
    for (_, path) in &files[..surplus] {
        let _ = fs::remove_file(path);
    }
}

/// The name of a file: a hash of the parts and their lengths.
fn name(key: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in key {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_found_under_its_key_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let saved = Saved::at(&folder.path().join("new"));
        assert_eq!(saved.get(&["a", "b"]), None);
        saved.put(&["a", "b"], b"code");
        assert_eq!(saved.get(&["a", "b"]), Some(b"code".to_vec()));
        assert_eq!(saved.get(&["ab", ""]), None);
        saved.put(&["a", "b"], b"other");
        assert_eq!(saved.get(&["a", "b"]), Some(b"other".to_vec()));
    }

    #[test]
    fn damage_and_a_folder_that_is_none_break_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let saved = Saved::at(folder.path());
        saved.put(&["key"], b"code");
        let file = folder.path().join(name(&["key"]));
        let whole = fs::read(&file).expect("it was written");
        for damaged in [&whole[..whole.len() - 1], &whole[..10], &[], &[&whole[..], b"!"].concat()] {
            fs::write(&file, damaged).expect("the folder is ours");
            assert_eq!(saved.get(&["key"]), None);
        }
        let no_folder = Saved::at(&file);
        no_folder.put(&["key"], b"code");
        assert_eq!(no_folder.get(&["key"]), None);
    }

    #[test]
    fn code_that_is_saved_by_several_at_once_is_whole_at_every_moment() {
        let folder = tempfile::tempdir().expect("a folder");
        let saved = Saved::at(folder.path());
        let code = vec![7; 1 << 20];
        saved.put(&["key"], &code);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..50).for_each(|_| saved.put(&["key"], &code)));
            }
            for _ in 0..200 {
                assert!(saved.get(&["key"]).is_some_and(|found| found == code));
            }
        });
        assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 1, "no draft is left behind");
    }

    #[test]
    fn old_code_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let saved = Saved::at(folder.path());
        (0..KEPT + 3).for_each(|n| saved.put(&[&n.to_string()], b"code"));
        let left = fs::read_dir(folder.path()).expect("it is there").count();
        assert_eq!(left, KEPT);
        assert!(saved.get(&[&(KEPT + 2).to_string()]).is_some());
    }
}
