//! Published data files, where they are at hand: in `RTC_DATA`, or in `../shared/data` beside the project.
#![allow(clippy::print_stderr, reason = "a skipped check says so")]

use std::path::{Path, PathBuf};

/// A file or folder of the published data; without it the check is skipped, and says so.
pub(crate) fn published(name: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let path = std::env::var_os("RTC_DATA").map_or(beside, PathBuf::from).join(name);
    if !path.exists() {
        eprintln!("skipped: {} is not here", path.display());
        return None;
    }
    Some(path)
}
