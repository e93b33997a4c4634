//! Threads: how many compute, and one with a stack large enough for any nesting.
//!
//! The number of threads changes no result: blocks of work are cut by shapes alone.

use std::fs;
use std::num::NonZeroUsize;
use std::panic::{self, AssertUnwindSafe};
use std::thread;

use crate::failure::CommandFailure;
use crate::limits;
use crate::ranks::on_this_machine;
use rtc_base::memory;

/// Stack of the thread that does the work, in bytes. It is virtual memory: only what is used is ever there.
const STACK: usize = 1 << 30;
/// Where a limit on virtual memory forbids the large one, or would leave little beside it.
const SMALL_STACK: usize = 1 << 26;

/// The stack of a thread that does the work.
fn stack() -> usize {
    if memory::machine().is_none_or(|machine| machine > 4 * STACK as u64) { STACK } else { SMALL_STACK }
}

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

/// Number of threads that compute.
pub(crate) fn count() -> usize {
    rayon::current_num_threads()
}

/// Runs `work` on a thread of its own that computes alone, whatever the others do. The failure is
/// that of a panic.
pub(crate) fn alone<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, CommandFailure> {
    let pool = |stack| rayon::ThreadPoolBuilder::new().num_threads(1).stack_size(stack).build();
    let pool = pool(stack())
        .or_else(|_| pool(SMALL_STACK))
        .map_err(|error| CommandFailure::Panic(format!("no thread can be had: {error}")))?;
    // What the work leaves behind on disk is complete at every moment, and nothing else of it is looked at again.
    panic::catch_unwind(AssertUnwindSafe(|| pool.install(work))).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        CommandFailure::Panic(format!("a fault of rtc: {text}"))
    })
}

/// Runs `work` on a thread of its own; the error is what it panicked with.
pub(crate) fn on_a_large_stack<T: Send>(work: fn() -> T) -> thread::Result<T> {
    thread::scope(|scope| {
        let spawn = |size| thread::Builder::new().name("rtc".to_owned()).stack_size(size).spawn_scoped(scope, work);
        match spawn(stack()).or_else(|_| spawn(SMALL_STACK)) {
            Ok(handle) => handle.join(),
            // The system gives no more threads: the stack of this one has to do.
            Err(_) => Ok(work()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{alone, cores};

    #[test]
    fn cores_of_a_process_are_counted() {
        assert_eq!(cores("Name:\trtc\nCpus_allowed:\tff,0000000f\nCpus_allowed_list:\t0-3\n"), Some(12));
        assert_eq!(cores("Name:\trtc\n"), None);
    }

    #[test]
    fn work_that_panics_ends_alone() {
        let sum = alone(|| (rayon::current_num_threads(), 3));
        assert_eq!(sum.ok(), Some((1, 3)));
        let failure = alone(|| -> usize { panic!("no {}", "luck") }).expect_err("it panics");
        assert_eq!((failure.code(), failure.to_string()), (101, "a fault of rtc: no luck".to_owned()));
    }
}
