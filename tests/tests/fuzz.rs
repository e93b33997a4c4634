//! Everything that rtc reads, on its seeds in `tests/corpus` and on inputs made of them: none panics, none takes long or much memory,
//! and what is accepted means what it says. See `rtc_tests::fuzz`.
//!
//! `RTC_FUZZ=100000 cargo test --release -p rtc-tests --test fuzz` is the long run, `RTC_FUZZ_TARGET=csv` one target, with
//! `RTC_FUZZ_ONE=1234` one of its inputs, or `RTC_FUZZ_ONE=FILE` what a file holds. An input that fails is written to the folder that
//! the message names; a seed of it belongs into the corpus.
#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{LazyLock, Mutex};
use std::thread::{Builder, available_parallelism, current};
use std::time::{Duration, Instant};

use rtc_base::rng::Key;
use rtc_tests::fuzz::{Corpus, TARGETS, Target};
use rustix::time::{ClockId, clock_gettime};

/// Number of inputs of every target in an ordinary test run.
const INPUTS: u64 = 2_000;

/// The longest time of the processor for an input: that of so many draws, so that it is as much work on every machine. A slow one, or one
/// whose cores other programs share, takes three times as long as a fast one for both.
const BEARABLE_DRAWS: u64 = 3 << 29;

static BEARABLE: LazyLock<Duration> = LazyLock::new(|| {
    const PART: u64 = BEARABLE_DRAWS / 64;
    let draw = || {
        let start = own_time();
        let mut draws = Key::new(3).draws();
        assert!((0..PART).fold(0, |sum, _| sum ^ draws.below(1 << 32)) < 1 << 32);
        own_time() - start
    };
    let least = (0..3).map(|_| draw()).fold(Duration::MAX, Duration::min);
    least * (BEARABLE_DRAWS / PART) as u32
});

/// After so long an input never ends.
const ENDLESS: Duration = Duration::from_secs(120);

/// The most bytes that the thread of an input holds.
const MOST_HELD: isize = 256 << 20;

/// More is not given to it: the program ends.
const MOST_GIVEN: isize = 4 << 30;

/// Failures of a target that are told.
const TOLD: usize = 10;

/// The system's allocator, which counts what every thread holds.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    static REFUSED: Cell<bool> = const { Cell::new(false) };
}

/// Notes that a thread holds more bytes, or fewer; whether it may.
fn hold(bytes: isize) -> bool {
    let held = HELD.get() + bytes;
    if held > MOST_GIVEN && bytes > 0 && !REFUSED.replace(true) {
        let told = format!("{}: it holds more than {} GiB\n", current().name().unwrap_or_default(), MOST_GIVEN >> 30);
        // The program ends: there is nobody to be told of an error.
        let _ = std::io::stderr().write_all(told.as_bytes());
        return false;
    }
    HELD.set(held);
    PEAK.set(PEAK.get().max(held));
    true
}

// SAFETY: everything is left to the system's allocator, or refused.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised by the caller.
        if hold(layout.size() as isize) { unsafe { System.alloc(layout) } } else { std::ptr::null_mut() }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised by the caller.
        if hold(layout.size() as isize) { unsafe { System.alloc_zeroed(layout) } } else { std::ptr::null_mut() }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if hold(size as isize - layout.size() as isize) {
            // SAFETY: as promised by the caller.
            unsafe { System.realloc(block, layout, size) }
        } else {
            std::ptr::null_mut()
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        hold(-(layout.size() as isize));
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What an input came to.
enum Outcome {
    Done(Duration, isize),
    Panicked(String),
    Endless,
}

/// The time of the processor that this thread has had.
fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Runs a target on an input, in a thread with its title: what ends the whole program, as a stack that overflows, names it then.
fn once(target: Target, title: &str, input: Vec<u8>) -> Outcome {
    let (send, receive) = channel();
    let run = move || {
        let (before, start) = (HELD.get(), own_time());
        PEAK.set(before);
        target(&input);
        // Nobody listens any more to one that took too long.
        let _ = send.send((own_time() - start, PEAK.get() - before));
    };
    let thread = Builder::new().name(title.to_owned()).spawn(run).expect("a thread");
    match receive.recv_timeout(ENDLESS) {
        Ok((taken, held)) => Outcome::Done(taken, held),
        Err(RecvTimeoutError::Timeout) => Outcome::Endless,
        Err(RecvTimeoutError::Disconnected) => {
            let panic = thread.join().expect_err("it panicked");
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            Outcome::Panicked(text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default())
        }
    }
}

/// What does not hold for an input.
fn fault(target: Target, title: &str, input: &[u8]) -> Option<String> {
    match once(target, title, input.to_vec()) {
        Outcome::Panicked(message) => Some(message),
        Outcome::Endless => Some(format!("it does not end within {ENDLESS:?}")),
        Outcome::Done(_, held) if held > MOST_HELD => Some(format!("it holds {} MiB", held >> 20)),
        Outcome::Done(taken, _) => {
            let again = || match once(target, title, input.to_vec()) {
                Outcome::Done(taken, _) => taken,
                Outcome::Panicked(_) | Outcome::Endless => ENDLESS,
            };
            // A busy processor doubles the time of a run now and then; the least of some is that of the input.
            let least = if taken > *BEARABLE { (0..RUNS).map(|_| again()).fold(taken, Duration::min) } else { taken };
            (least > *BEARABLE).then(|| format!("it takes {least:?} of the processor, more than {:?}", *BEARABLE))
        }
    }
}

/// Runs of an input that took too long.
const RUNS: usize = 4;

/// Where an input that failed is written.
fn kept(title: &str, input: &[u8]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz");
    let file = folder.join(title.replace(['/', ' '], "-"));
    fs::create_dir_all(folder).and_then(|()| fs::write(&file, input)).expect("the folder of the test can be written");
    file
}

/// Runs some inputs of a target; gives what failed.
fn run(name: &str, target: Target, numbers: impl Iterator<Item = u64>) -> Vec<String> {
    let (corpus, start, mut failures, mut count) = (Corpus::read(name), Instant::now(), vec![], 0);
    for number in numbers {
        let (title, input) = (corpus.title(number), corpus.input(number));
        count += 1;
        if let Some(fault) = fault(target, &title, &input) {
            failures.push(format!("{title}: {fault}\n  the input is {}", kept(&title, &input).display()));
            if failures.len() == TOLD {
                break;
            }
        }
    }
    // Not caught by the harness: the counts are wanted where nothing fails.
    let told =
        format!("{name}: {count} inputs in {:.1} s, {} failures\n", start.elapsed().as_secs_f64(), failures.len());
    std::io::stderr().write_all(told.as_bytes()).expect("the error output is open");
    failures
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn nothing_that_is_read_panics_hangs_or_grows() {
    let chosen = std::env::var("RTC_FUZZ_TARGET").ok();
    let is_chosen = |name: &str| chosen.as_ref().is_none_or(|chosen| chosen == name);
    let targets: Vec<_> = TARGETS.iter().filter(|(name, _)| is_chosen(name)).collect();
    assert!(
        !targets.is_empty(),
        "RTC_FUZZ_TARGET is one of {:?}",
        TARGETS.iter().map(|(name, _)| name).collect::<Vec<_>>()
    );
    let failures = Mutex::new(vec![]);
    if let Ok(one) = std::env::var("RTC_FUZZ_ONE") {
        for (name, target) in targets {
            let found = match one.parse() {
                Ok(number) => run(name, *target, std::iter::once(number)),
                Err(_) => fault(*target, &one, &fs::read(&one).expect("RTC_FUZZ_ONE is a number or a file"))
                    .into_iter()
                    .collect(),
            };
            failures.lock().expect("nobody panics with the lock").extend(found);
        }
    } else {
        let (inputs, next) = (number("RTC_FUZZ").unwrap_or(INPUTS), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..available_parallelism().map_or(1, usize::from) {
                scope.spawn(|| {
                    while let Some((name, target)) = targets.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                        let found = run(name, *target, 0..inputs.max(Corpus::read(name).len()));
                        failures.lock().expect("nobody panics with the lock").extend(found);
                    }
                });
            }
        });
    }
    let failures = failures.into_inner().expect("nobody panics with the lock");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Every folder of seeds belongs to a target.
#[test]
fn every_corpus_has_a_target() {
    let folders = fs::read_dir(Corpus::folder(".")).expect("the corpus is there");
    for folder in folders {
        let name = folder.expect("readable").file_name().to_string_lossy().into_owned();
        assert!(rtc_tests::fuzz::target(&name).is_some(), "tests/corpus/{name} belongs to no target");
    }
}
