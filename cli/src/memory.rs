//! How much memory there is, so that a model that can't fit is refused instead of killed.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::failure::Failure;

/// Refuses a model whose parameters need more bytes than the machine has. What a batch needs is not known here.
pub(crate) fn check(needed: u128) -> Result<(), Failure> {
    let total = [total(&read("/proc/meminfo")), limit(&read("/sys/fs/cgroup/memory.max"))].into_iter().flatten().min();
    match total {
        Some(total) if needed > u128::from(total) => {
            let gib = |bytes: f64| format!("{:.1} GiB", bytes / f64::from(1 << 30));
            let message = format!(
                "its parameters, gradients and moments need {}, and this machine has {}",
                gib(needed as f64),
                gib(total as f64)
            );
            Err(Failure::io("hold", Path::new("the model"), io::Error::new(ErrorKind::OutOfMemory, message)))
        }
        _ => Ok(()),
    }
}

/// The text of a file of the system; empty where there is none.
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Bytes of memory by `/proc/meminfo`, which counts in KiB.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Bytes that the control group may use; `max` is no limit.
fn limit(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_the_system_are_read() {
        assert_eq!(total("MemTotal:       24 kB\nMemFree:  1 kB\n"), Some(24 * 1024));
        assert_eq!(total(""), None);
        assert_eq!([limit("4096\n"), limit("max\n"), limit("")], [Some(4096), None, None]);
    }

    #[test]
    fn more_than_any_machine_has_is_refused() {
        if Path::new("/proc/meminfo").exists() {
            assert_eq!(check(1 << 60).map_err(|failure| failure.code()), Err(6));
        }
        assert!(check(1 << 20).is_ok());
    }
}
