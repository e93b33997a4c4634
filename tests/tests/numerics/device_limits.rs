//! What a GPU forbids ends a run on the emulated device, too: launches beyond the limits, addresses outside of memory, threads that
//! do not meet.
#![allow(clippy::print_stderr, reason = "a skipped comparison says why")]

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;

use rtc_cuda::device::{Device, GeneratedKernel, KernelArgument, LaunchShape};
use rtc_cuda::known_results;
use rtc_cuda::memory::{DeviceArray, DevicePool, int, whole};
use rtc_tests::emulated::failing::Failing;
use rtc_tests::emulated::{Emulated, Kernels, Options, limits};

use super::device_races::FAULTY;

/// The kernels of rtc and those that are not right; nothing where there is no compiler.
pub(super) fn faulty() -> Option<Arc<Kernels>> {
    let made = GeneratedKernel { name: "faulty".to_owned(), source: FAULTY.to_owned() };
    let kernels = Kernels::compile("float", &BTreeSet::from([made]));
    if kernels.is_none() {
        eprintln!("skipped: there is no C++ compiler to run the kernels with");
    }
    kernels
}

/// A thread knows its number in 32 bits: more numbers are no result in part.
#[test]
fn more_numbers_than_threads_are_counted_are_refused() {
    let Some(kernels) = faulty() else { return };
    let device: Rc<dyn Device> = Rc::new(Emulated::direct(kernels));
    let pool = DevicePool::new(device);
    let y = pool.zeros::<f32>(8);
    pool.each("add_to", (1 << 32) + 8, &[y.arg(), y.arg(), whole((1 << 32) + 8)]);
    let told = pool.device().failure().expect("the run ends");
    assert!(told.contains("`add_to` is given 4294967304 things") && told.contains("smaller batches"), "{told}");
}

/// A device that does nothing, and one that computes, before a model is on them.
#[test]
fn a_device_that_does_nothing_is_refused() {
    let Some(kernels) = faulty() else { return };
    let works: Rc<dyn Device> = Rc::new(Emulated::direct(kernels.clone()));
    assert_eq!(known_results::check(&works), Ok(()));
    let idle: Rc<dyn Device> = Rc::new(Failing::idle(kernels, Options::default()));
    let told = known_results::check(&idle).expect_err("its results are others");
    assert!(told.contains("it computes a product as") && told.contains("which is [19.0, 22.0, 43.0, 50.0]"), "{told}");
}

/// What a launch says that is not allowed.
fn refused(
    kernels: &Arc<Kernels>,
    kernel: &str,
    grid: [u32; 3],
    threads: u32,
    args: impl Fn(&DeviceArray) -> Vec<KernelArgument>,
) -> String {
    let device: Rc<dyn Device> = Rc::new(Emulated::direct(kernels.clone()));
    let pool = DevicePool::new(device);
    let y = pool.zeros::<f32>(1024);
    let launch = || pool.device().launch(kernel, LaunchShape { grid, threads }, &args(&y));
    let problem = catch_unwind(AssertUnwindSafe(launch)).expect_err("it is not allowed");
    problem.downcast_ref::<String>().expect("a text").clone()
}

#[test]
fn launches_beyond_the_limits_are_refused() {
    let allowed = |grid, threads| limits::launch(LaunchShape { grid, threads });
    for (grid, threads) in [([1, 1, 1], 32), ([(1 << 31) - 1, 65_535, 65_535], 1024), ([7, 1, 3], 96)] {
        assert_eq!(allowed(grid, threads), Ok(()));
    }
    let beyond = [[0, 1, 1], [1, 0, 1], [1, 1, 0], [1 << 31, 1, 1], [1, 65_536, 1], [1, 1, 65_536]];
    for grid in beyond {
        assert!(allowed(grid, 32).is_err_and(|problem| problem.contains("along axis")), "{grid:?}");
    }
    for threads in [0, 1, 48, 1025, 1056] {
        assert!(allowed([1; 3], threads).is_err_and(|problem| problem.contains("threads")), "{threads}");
    }
    assert!(limits::shared(limits::SHARED).is_ok() && limits::shared(limits::SHARED + 1).is_err());
    let Some(kernels) = faulty() else { return };
    let args = |y: &DeviceArray| vec![y.arg(), y.arg(), int(64)];
    assert!(
        refused(&kernels, "right_bytes", [1, 65_536, 1], 64, args).contains("`right_bytes`: 65536 blocks along axis 1")
    );
    assert!(refused(&kernels, "right_bytes", [1; 3], 33, args).contains("blocks of 33 threads"));
    assert!(refused(&kernels, "much_shared", [1; 3], 64, args).contains("49156 bytes of shared memory"));
    assert!(refused(&kernels, "nothing", [1; 3], 64, args).contains("no such kernel"));
    assert!(refused(&kernels, "right_bytes", [1; 3], 64, |y| vec![y.arg()]).contains("3 arguments, and is given 1"));
}

#[test]
fn an_address_outside_of_memory_is_refused() {
    let Some(kernels) = faulty() else { return };
    let shifted = |bytes: i64| {
        move |y: &DeviceArray| {
            vec![KernelArgument::Address(y.at().strict_add_signed(bytes)), KernelArgument::Address(0), int(64)]
        }
    };
    for bytes in [-1, 4096 + 1] {
        assert!(refused(&kernels, "right_bytes", [1; 3], 64, shifted(bytes)).contains("not in one block"), "{bytes}");
    }
}

#[test]
fn threads_that_do_not_meet_are_found() {
    let Some(kernels) = faulty() else { return };
    let args = |y: &DeviceArray| vec![KernelArgument::Address(0), y.arg(), int(64)];
    for (kernel, expected) in [
        ("lanes_leave", "some lanes of a warp meet"),
        ("lanes_leave_an_exchange", "some lanes of a warp meet"),
        ("lanes_meet_elsewhere", "meet in another way"),
        ("threads_leave", "some threads of a block meet"),
        ("meets_with_a_mask", "with a mask"),
    ] {
        let problem = refused(&kernels, kernel, [1; 3], 64, args);
        assert!(problem.contains(expected), "{kernel}: {problem}");
    }
}

/// The variable by which the test below asks itself, in a process of its own, for an access at so many bytes from an array.
const OUTSIDE: &str = "RTC_TEST_OUTSIDE";

#[test]
fn an_access_outside_of_memory_ends_the_program() {
    let Some(kernels) = faulty() else { return };
    if let Ok(bytes) = std::env::var(OUTSIDE) {
        let device = Rc::new(Emulated::direct(kernels));
        let pool = DevicePool::new(device);
        let array = pool.zeros::<u8>(1 << 16);
        let bytes = KernelArgument::Int(bytes.parse().expect("a number"));
        pool.start("touches", [1; 3], 32, &[array.arg(), KernelArgument::Address(0), bytes]);
        return pool.device().flush();
    }
    let signal = |bytes: i64| {
        let program = std::env::current_exe().expect("it runs");
        let test = "device_limits::an_access_outside_of_memory_ends_the_program";
        let mut command = Command::new(program);
        command.args(["--exact", test, "--nocapture"]).env(OUTSIDE, bytes.to_string());
        let output = command.output().expect("it starts");
        assert!(String::from_utf8_lossy(&output.stdout).contains("running 1 test"));
        (output.status.success(), output.status.signal())
    };
    for inside in [0, (1 << 16) - 1] {
        assert_eq!(signal(inside), (true, None), "{inside}");
    }
    // SIGSEGV.
    for outside in [-1, 1 << 16, (1 << 17) - 1] {
        assert_eq!(signal(outside), (false, Some(11)), "{outside}");
    }
}
