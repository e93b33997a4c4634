//! Published data files, where they are at hand: in the folder `RTC_DATA`.
#![allow(clippy::print_stderr, reason = "a skipped check says so")]

use std::path::{Path, PathBuf};

/// A file or folder of the published data; without it the check is skipped, and says so.
pub(crate) fn published(name: &str) -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("RTC_DATA") else {
        eprintln!("skipped: RTC_DATA names no folder of published data");
        return None;
    };
    let path = Path::new(&folder).join(name);
    if !path.exists() {
        eprintln!("skipped: {} is not here", path.display());
        return None;
    }
    Some(path)
}
