//! The driver of rtc on libraries that pretend to be NVIDIA's: one that works when the host waits, and products that are as strict as
//! they may be.
#![allow(clippy::print_stderr, reason = "a skipped comparison says why")]

use std::process::Output;

use rtc_cuda::device::{Device, DeviceMatrix, MatrixProduct};
use rtc_cuda::driver::Gpu;
use rtc_cuda::memory::{DeviceArray, DevicePool};
use rtc_cuda::{Launching, known_results};
use rtc_kernel::Precision;
use rtc_tests::emulated::pretended::Pretended;

/// The variable by which a test below asks itself to run on the libraries, in a process of its own.
const PART: &str = "RTC_TEST_PRETENDED";

fn pretended() -> Option<Pretended> {
    let built = Pretended::build();
    if built.is_none() {
        eprintln!("skipped: there is no C++ compiler to build the libraries with");
    }
    built
}

/// Runs a test of this file again, on the libraries and with these variables.
fn again(libraries: &Pretended, test: &str, part: &str, variables: &[&str]) -> Output {
    let mut command = libraries.command(&std::env::current_exe().expect("it runs"));
    command.args(["--exact", &format!("device_pretended::{test}"), "--nocapture"]).env(PART, part);
    command.envs(variables.iter().map(|variable| (variable, "1")));
    let output = command.output().expect("it starts");
    assert!(String::from_utf8_lossy(&output.stdout).contains("running 1 test"), "{output:?}");
    output
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn gpu() -> std::rc::Rc<dyn Device> {
    let gpu = Gpu::open(Precision::F32, Launching::Graph).expect("the libraries are there");
    assert_eq!(gpu.name(), "a pretended device");
    gpu
}

/// More bytes go through pinned memory than it has, and the host waits in the end.
#[test]
fn pinned_memory_is_read_before_it_is_used_again() {
    const TEST: &str = "pinned_memory_is_read_before_it_is_used_again";
    if std::env::var_os(PART).is_some() {
        let pool = DevicePool::new(gpu());
        let count = 3 << 16;
        let number = |n: usize, at: usize| (n * 1000 + at % 1000) as f32;
        let upload = |n: usize| {
            let numbers: Vec<f32> = (0..count).map(|at| number(n, at)).collect();
            pool.upload(&numbers)
        };
        let arrays: Vec<DeviceArray> = (0..60).map(upload).collect();
        assert!(arrays.len() * count * size_of::<f32>() > 2 * (16 << 20), "the ring begins anew twice");
        for (n, array) in arrays.iter().enumerate() {
            let found = pool.download::<f32>(array);
            assert!(found.iter().enumerate().all(|(at, x)| *x == number(n, at)), "upload {n} is another one");
        }
        return;
    }
    let Some(libraries) = pretended() else { return };
    let output = again(&libraries, TEST, "ring", &["PRETEND_LAZY"]);
    assert!(output.status.success(), "{}", said(&output));
    let output = again(&libraries, TEST, "ring", &["PRETEND_LAZY", "PRETEND_HASTY"]);
    assert!(!output.status.success() && said(&output).contains("is another one"), "{}", said(&output));
}

/// Operands that begin at this part of a vector's 16 bytes: a library has no fast way for most.
#[test]
fn operands_that_are_not_aligned_are_counted() {
    const TEST: &str = "operands_that_are_not_aligned_are_counted";
    if let Ok(part) = std::env::var(PART) {
        let shift: u64 = part.parse().expect("bytes");
        let pool = DevicePool::new(gpu());
        let numbers: Vec<f32> = (0..20).map(|n| n as f32).collect();
        let (a, y) = (pool.keep(&numbers), pool.zeros::<f32>(16));
        let (a, b) = (DeviceMatrix::straight(a.at(), 4), DeviceMatrix::straight(a.at() + shift, 4));
        assert!(pool.device().product(&MatrixProduct::new(a, b, y.at(), [4; 3])));
        let found = pool.download::<f32>(&y);
        assert_eq!(pool.device().failure(), None);
        let first = (shift / 4) as f32;
        let expected: f32 = (0..4).map(|p| p as f32 * (4.0 * p as f32 + first)).sum();
        assert_eq!(found[0], expected);
        return;
    }
    let Some(libraries) = pretended() else { return };
    for (shift, count) in [("0", 0), ("16", 0), ("4", 1), ("8", 1)] {
        let output = again(&libraries, TEST, shift, &["PRETEND_COUNTS"]);
        assert!(output.status.success(), "{shift}: {}", said(&output));
        let told = format!("{count} operands aligned to less than 16 bytes");
        assert!(said(&output).contains(&told), "{shift}: {}", said(&output));
    }
}

/// A library may write a result before it has read all operands, and uses its workspace: neither may be anybody's numbers.
#[test]
fn a_result_that_is_an_operand_shows() {
    const TEST: &str = "a_result_that_is_an_operand_shows";
    if let Ok(part) = std::env::var(PART) {
        let pool = DevicePool::new(gpu());
        let numbers: Vec<f32> = (0..16).map(|n| n as f32).collect();
        let (a, y) = (pool.keep(&numbers), pool.zeros::<f32>(16));
        let matrix = DeviceMatrix::straight(a.at(), 4);
        let to = if part == "in place" { &a } else { &y };
        assert!(pool.device().product(&MatrixProduct::new(matrix, matrix, to.at(), [4; 3])));
        let found = pool.download::<f32>(to);
        assert!(found[0] == 56.0 && found[15] == 506.0, "the product is {found:?}");
        return;
    }
    let Some(libraries) = pretended() else { return };
    let output = again(&libraries, TEST, "beside", &[]);
    assert!(output.status.success(), "{}", said(&output));
    let output = again(&libraries, TEST, "in place", &[]);
    assert!(!output.status.success() && said(&output).contains("the product is [NaN"), "{}", said(&output));
}

/// Where the library has no way to do a product, it is a kernel of ours.
#[test]
fn a_product_without_a_way_is_a_kernel() {
    const TEST: &str = "a_product_without_a_way_is_a_kernel";
    if let Ok(part) = std::env::var(PART) {
        let device = gpu();
        let product = MatrixProduct::new(DeviceMatrix::straight(0, 2), DeviceMatrix::straight(0, 2), 0, [2; 3]);
        assert_eq!(device.multiplies(&product), part == "library", "what the library says of it");
        assert_eq!(known_results::check(&device), Ok(()));
        return;
    }
    let Some(libraries) = pretended() else { return };
    for (part, variables) in [("library", &[][..]), ("kernel", &["PRETEND_NO_WAY"])] {
        let output = again(&libraries, TEST, part, variables);
        assert!(output.status.success(), "{part}: {}", said(&output));
    }
}

/// Batches of ever other numbers of rows: what is known of their products has an end.
#[test]
fn forms_of_products_do_not_grow_for_ever() {
    const TEST: &str = "forms_of_products_do_not_grow_for_ever";
    if std::env::var_os(PART).is_some() {
        let device = gpu();
        for rows in 1..10_000 {
            let factors = [DeviceMatrix::straight(0, 8), DeviceMatrix::turned(0, 8)];
            assert!(device.multiplies(&MatrixProduct::new(factors[0], factors[1], 0, [rows, 8, 8])));
        }
        return;
    }
    let Some(libraries) = pretended() else { return };
    let output = again(&libraries, TEST, "forms", &["PRETEND_COUNTS"]);
    assert!(output.status.success(), "{}", said(&output));
    let count = |line: &str| {
        let count = line.strip_prefix("pretended: ")?.strip_suffix(" at the end")?.split_once(" descriptions")?.0;
        count.parse::<usize>().ok()
    };
    // Whatever is started to compile kernels says its own, which is none.
    let counted = said(&output).lines().filter_map(count).max();
    assert!(counted.is_some_and(|most| (1_000..=4_096).contains(&most)), "{}", said(&output));
}

/// The comparison of a device with the CPU, on a device of which one launch reads where it must not: the case is named, and those after it
/// run in a new process.
#[test]
fn a_fault_of_one_case_hides_no_other() {
    let Some(libraries) = pretended() else { return };
    let compare = |cases: &str, fault: Option<&str>| {
        let mut command = libraries.command(&std::env::current_exe().expect("it runs"));
        command.args(["--exact", "device::a_gpu_runs_every_op", "--nocapture"]);
        command.env("RTC_GPU", "1").env("RTC_CASES", cases).envs(fault.map(|launch| ("PRETEND_FAULT", launch)));
        let output = command.output().expect("it starts");
        let text = said(&output);
        let count = |end: &str| text.lines().filter(|line| line.ends_with(end)).count();
        (output.status.success(), [count(" agrees"), count(" DIFFERS"), count(" FAULT")], text)
    };
    let (passes, [all, differ, faults], text) = compare("softmax", None);
    assert!(passes && all > 2 && differ + faults == 0, "{text}");
    // Every process ends at its first case, until all are told.
    let (passes, counts, text) = compare("softmax", Some("1"));
    assert!(!passes && counts[2] >= 1 && counts.iter().sum::<usize>() == all, "{counts:?} of {all}: {text}");
    assert!(text.contains("ended its process"), "{text}");
}
