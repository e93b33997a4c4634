//! No kernel has a race: the checker of the emulated device sees every access of every kernel. That it finds races is shown by
//! kernels that have some, and by ours where threads do not meet.
#![allow(clippy::print_stderr, reason = "a skipped comparison says why")]

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use rtc_cuda::device::{Device, KernelTarget};
use rtc_cuda::memory::{DevicePool, int};
use rtc_tests::emulated::{Emulated, Kernels, Options, source};

use super::device_work::{THREADS, Work, in_parallel, with_threads};

/// A device whose memory the checker knows to the byte.
fn device(kernels: &Arc<Kernels>, threads: u32, target: KernelTarget) -> Rc<Emulated> {
    let options = Options { threads, watches: true, target, ..Options::default() };
    Rc::new(Emulated::with(kernels.clone(), options))
}

fn checked(source: &str) -> Option<Arc<Kernels>> {
    let kernels = Kernels::checked("float", source);
    if kernels.is_none() {
        eprintln!("skipped: there is no C++ compiler to run the kernels with");
    }
    kernels
}

/// Everything with the checker, and what came of it.
struct Checked {
    all: Vec<Work>,
    kernels: Arc<Kernels>,
    runs: Vec<Watched>,
}

/// What the checker saw of some work in blocks of so many threads.
struct Watched {
    work: usize,
    threads: u32,
    found: String,
    launched: BTreeSet<String>,
    /// The meetings that some thread came by.
    meetings: BTreeSet<usize>,
    took: Duration,
}

impl Checked {
    /// Runs a part of the work again.
    fn watch(&self, work: usize, threads: u32) -> Watched {
        let checker = self.kernels.checker().expect("it was asked for");
        let device = device(&self.kernels, threads, self.all[work].target());
        let began = Instant::now();
        self.all[work].run(device.clone());
        Watched {
            work,
            threads,
            found: checker.found(),
            launched: device.launched(),
            meetings: checker.come_by(),
            took: began.elapsed(),
        }
    }
}

static CHECKED: LazyLock<Option<Checked>> = LazyLock::new(|| {
    let all = Work::all();
    let made = all.iter().flat_map(Work::made).collect();
    let mut done = Checked { kernels: checked(&source(&made))?, all, runs: vec![] };
    let runs = with_threads(&done.all);
    done.runs = in_parallel(runs.len(), |n| done.watch(runs[n].0, runs[n].1));
    Some(done)
});

/// What copies doubles, and the gradient of learned numbers that the one rule of such heads does not have.
const NEVER: [&str; 2] = ["pieces_8", "attention_values_listed_talking_2_steps"];

#[test]
fn no_kernel_has_a_race() {
    let Some(Checked { all, kernels, runs }) = &*CHECKED else { return };
    for run in runs {
        assert_eq!(run.found, "", "{} with {} threads", all[run.work].name(), run.threads);
    }
    let launched: BTreeSet<String> = runs.iter().flat_map(|run| run.launched.clone()).collect();
    // Of a kernel that reads 16 bits and its twin that does not one is enough.
    let twin = |name: &String| name.replace("_narrow", "");
    let twins: BTreeSet<String> = launched.iter().map(twin).collect();
    let missing = kernels.names().iter().filter(|name| !twins.contains(&twin(name)) && !NEVER.contains(&name.as_str()));
    let makers = |name: &String| {
        let makes = |work: &&Work| work.made().iter().any(|made| made.name == *name);
        format!("\n{name}, made by {:?}", all.iter().filter(makes).map(Work::name).collect::<Vec<_>>())
    };
    // A part of the work has a part of the kernels.
    let is_all = std::env::var_os("RTC_WORK").is_some_and(|part| part.is_empty());
    let missing: String = if is_all { missing.map(makers).collect() } else { String::new() };
    assert!(missing.is_empty(), "these kernels never ran: {missing}");
}

/// A meeting that could be left out would be one too many, or one whose reason no test shows. Takes minutes: where `RTC_WORK` is set.
#[test]
fn the_checker_finds_every_meeting_that_is_left_out() {
    if std::env::var_os("RTC_WORK").is_none() {
        eprintln!("skipped: RTC_WORK, which may be empty, says what to run without one meeting after the other");
        return;
    }
    let Some(done) = &*CHECKED else { return };
    let checker = done.kernels.checker().expect("it was asked for");
    let missed = in_parallel(checker.meetings.len(), |meeting| {
        let mut runs: Vec<&Watched> = done.runs.iter().filter(|run| run.meetings.contains(&meeting)).collect();
        runs.sort_by_key(|run| run.took);
        let shows = |run: &&Watched| {
            checker.leave_out(Some(meeting));
            let seen = catch_unwind(AssertUnwindSafe(|| done.watch(run.work, run.threads)));
            checker.leave_out(None);
            let found = checker.found();
            seen.is_ok_and(|seen| !seen.found.is_empty()) || !found.is_empty()
        };
        let by = runs.iter().position(shows);
        by.is_none().then(|| checker.meetings[meeting].clone())
    });
    let missed: Vec<String> = missed.into_iter().flatten().collect();
    assert!(missed.is_empty(), "the checker sees nothing when these are left out: {missed:?}");
}

/// Kernels that are right and kernels that are not.
pub(super) const FAULTY: &str = include_str!("faulty.cu");

/// Runs a kernel of [`FAULTY`] in two blocks.
pub(super) fn run_faulty(device: Rc<Emulated>, kernel: &str) -> Vec<f32> {
    let threads = device.threads();
    let pool = DevicePool::new(device);
    // Its arrays end inside of a block of memory.
    let count = 2 * threads as usize + 8;
    let (bytes, numbers) = (pool.zeros::<u8>(count), pool.zeros::<f32>(count));
    pool.start(kernel, [2, 1, 1], threads, &[bytes.arg(), numbers.arg(), int(count)]);
    pool.download(&numbers)
}

/// What the checker must find in each of the kernels that are not right.
const FOUND: &[(&str, &str)] = &[
    ("no_meeting_before", "another thread writes in shared memory"),
    ("no_meeting_behind", "writes what another thread reads in shared memory"),
    ("meeting_of_warps_alone", "another thread reads in shared memory"),
    ("exchange_is_no_meeting", "reads what another thread writes in shared memory"),
    ("lanes_write_one_place", "writes what another thread writes in an array"),
    ("blocks_write_one_place", "writes what another thread writes in an array"),
    ("reads_its_neighbour", "another thread reads in an array"),
    ("two_write_a_byte", "writes what another thread writes in an array"),
    ("reads_what_is_not_written", "reads what its block did not write in shared memory"),
    ("writes_behind", "writes behind the end in an array"),
    ("reads_behind", "reads behind the end in an array"),
    ("writes_before", "writes outside of all memory"),
    ("writes_behind_shared", "writes outside of all memory"),
];

#[test]
fn the_checker_finds_what_is_wrong_and_nothing_else() {
    let Some(kernels) = checked(&format!("{}{FAULTY}", source(&BTreeSet::new()))) else { return };
    let checker = kernels.checker().expect("it was asked for");
    for threads in THREADS {
        for right in ["right_bytes", "right_types", "right_warps"] {
            run_faulty(device(&kernels, threads, KernelTarget::default()), right);
            assert_eq!(checker.found(), "", "{right}");
        }
        for (kernel, expected) in FOUND {
            run_faulty(device(&kernels, threads, KernelTarget::default()), kernel);
            let found = checker.found();
            assert!(found.contains(&format!("`{kernel}` ")) && found.contains(expected), "{kernel}: {found}");
        }
    }
}
