//! Threads: how many compute, one that computes alone, and one with a stack large enough for any nesting.

use std::panic::{self, AssertUnwindSafe};
use std::thread;

use rtc_base::memory;

use crate::failure::SessionFailure;

/// Stack of the thread that does the work, in bytes. It is virtual memory: only what is used is ever there.
const STACK: usize = 1 << 30;
/// Where a limit on virtual memory forbids the large one, or would leave little beside it.
const SMALL_STACK: usize = 1 << 26;

/// The stack of a thread that does the work.
fn stack() -> usize {
    if memory::machine().is_none_or(|machine| machine > 4 * STACK as u64) { STACK } else { SMALL_STACK }
}

/// Number of threads that compute.
pub fn count() -> usize {
    rayon::current_num_threads()
}

/// Runs `work` on a thread of its own that computes alone, whatever the others do.
///
/// # Errors
/// [`SessionFailure::Panic`] if `work` panics, or if the system has no more threads.
pub fn alone<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, SessionFailure> {
    let pool = |stack| rayon::ThreadPoolBuilder::new().num_threads(1).stack_size(stack).build();
    let pool = pool(stack())
        .or_else(|_| pool(SMALL_STACK))
        .map_err(|error| SessionFailure::Panic(format!("no thread can be had: {error}")))?;
    // What the work leaves behind on disk is complete at every moment, and nothing else of it is looked at again.
    panic::catch_unwind(AssertUnwindSafe(|| pool.install(work))).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        SessionFailure::Panic(format!("a fault of rtc: {text}"))
    })
}

/// Runs `work` on a thread of its own; the error is what it panicked with.
pub fn on_a_large_stack<T: Send>(work: fn() -> T) -> thread::Result<T> {
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
    use super::alone;

    #[test]
    fn work_that_panics_ends_alone() {
        let sum = alone(|| (rayon::current_num_threads(), 3));
        assert_eq!(sum.ok(), Some((1, 3)));
        let failure = alone(|| -> usize { panic!("no {}", "luck") }).expect_err("it panics");
        assert_eq!((failure.code(), failure.to_string()), (101, "a fault of rtc: no luck".to_owned()));
    }
}
