//! The Python that runs exports.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The Python that `RTC_TORCH_PYTHON` names, if it has these packages: `torch, safetensors`.
///
/// Without it the caller is skipped: a line on standard error says why, and another one in the file that `RTC_SKIPPED` names.
#[allow(clippy::print_stderr, reason = "a skipped comparison says why")]
pub fn with(packages: &str) -> Option<PathBuf> {
    let missing = match std::env::var_os("RTC_TORCH_PYTHON") {
        None => format!("RTC_TORCH_PYTHON names no Python with {packages}"),
        Some(python) => {
            let import = ["-c", &format!("import {packages}")];
            let found = Command::new(&python).args(import).stderr(Stdio::null()).status();
            if found.is_ok_and(|status| status.success()) {
                return Some(python.into());
            }
            format!("{} has not all of {packages}", python.display())
        }
    };
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    eprintln!("skipped: {test}: {missing}");
    if let Some(list) = std::env::var_os("RTC_SKIPPED") {
        let mut list =
            std::fs::OpenOptions::new().append(true).create(true).open(list).expect("a file for what is skipped");
        writeln!(list, "{test}: {missing}").expect("a line for what is skipped");
    }
    None
}
