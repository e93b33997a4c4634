//! `--threads`: how many threads compute.
//!
//! The number of threads changes no result: blocks of work are cut by shapes alone.

use std::fs;
use std::num::NonZeroUsize;
use std::thread;

use rtc_session::ranks::on_this_machine;

use crate::limits;

/// Reads `--threads`.
pub(crate) fn parse(text: &str) -> Result<NonZeroUsize, String> {
    let count = text.parse().ok().filter(|count: &NonZeroUsize| count.get() <= limits::THREADS);
    count.ok_or_else(|| format!("a whole number from 1 to {} is wanted", limits::THREADS))
}

/// Fixes the number of threads that compute, of which this one is the first: as asked, else `RAYON_NUM_THREADS`, else as many as the machine runs at once, shared by the
/// processes that were started together on it.
///
/// The variables are set for Candle, which would otherwise look the number of cores up on every matrix product. Work that came from
/// outside the pool would sleep and be woken for every kernel, thousands of times a second.
pub(crate) fn set_up(wanted: Option<usize>) {
    let given = || std::env::var("RAYON_NUM_THREADS").ok()?.parse().ok().filter(|n| (1..=limits::THREADS).contains(n));
    let available = || {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        if is_bound() { cores } else { (cores / on_this_machine()).max(1) }
    };
    let count = wanted.or_else(given).unwrap_or_else(available);
    for name in ["RAYON_NUM_THREADS", "CANDLE_NUM_THREADS"] {
        #[allow(unsafe_code, reason = "no other thread runs yet")]
        // SAFETY: `main` calls this before any thread exists but its own, which waits and reads no environment meanwhile.
        unsafe {
            std::env::set_var(name, count.to_string())
        };
    }
    // It can only fail if there is a global pool already, and nothing has made one.
    let _ = rayon::ThreadPoolBuilder::new().num_threads(count).use_current_thread().build_global();
}

/// Whether what started this process has given it some of its own cores, so that they are not shared already.
fn is_bound() -> bool {
    let status = |process: &str| fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let own = status("self");
    let parent = field(&own, "PPid:").map(status).unwrap_or_default();
    cores(&own).zip(cores(&parent)).is_some_and(|(own, parents)| own < parents)
}

/// How many cores a process may run on, by its `/proc/PID/status`.
fn cores(status: &str) -> Option<u32> {
    let digits = field(status, "Cpus_allowed:")?.chars().filter(|c| *c != ',');
    digits.map(|digit| Some(digit.to_digit(16)?.count_ones())).sum()
}

/// A field of a `/proc/PID/status`.
fn field<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::cores;

    #[test]
    fn cores_of_a_process_are_counted() {
        assert_eq!(cores("Name:\trtc\nCpus_allowed:\tff,0000000f\nCpus_allowed_list:\t0-3\n"), Some(12));
        assert_eq!(cores("Name:\trtc\n"), None);
    }
}
