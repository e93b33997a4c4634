//! What the kernels take of a GPU, read from the machine code that NVRTC makes of them: registers, stack, shared memory, calls.
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "a skipped check says why, and figures are worth seeing")]

use std::collections::BTreeSet;

use rtc_compiler::lower::Objective;
use rtc_compiler::plan::plan;
use rtc_cuda::device::{GeneratedKernel, KernelTarget};
use rtc_cuda::driver::compile;
use rtc_cuda::generated;
use rtc_kernel::Precision;
use rtc_tests::cubin::{Usage, usage};
use rtc_tests::emulated::{limits, source};
use rtc_tests::models;

use super::device::{all_masks, all_masks_with_shared_keys, training};
use super::device_work::in_parallel;

/// Compute capabilities that are tested.
const CAPABILITIES: [i32; 4] = [80, 89, 90, 100];

/// Registers of a thread: with 128 an SM holds 512 threads.
const REGISTERS: usize = 128;

/// The same of kernels of attention, of which an SM holds 384 threads.
const REGISTERS_OF_ATTENTION: usize = 168;

/// The same of those that keep tiles of products in registers: two blocks of 128 threads fit an SM; beyond 255 a thread spills.
const REGISTERS_OF_TILES: usize = 248;

/// Bytes of stack, by the beginnings of names: a sine keeps a large angle there, and gradients that go score by score, whose rule may have
/// sines or powers, keep some numbers of a thread.
const STACK: &[(&str, usize)] =
    &[("attention_codes", 40), ("attention_slopes", 8), ("geometric_attention_grad", 8), ("s4d", 40), ("sinusoid", 40)];

/// Beginnings of the names of kernels that call a function inside of a loop: a division of 64-bit integers or one that is
/// rounded exactly, a root, a sine. All others have none there: a call costs some dozens of instructions.
const CALL: &[&str] = &[
    "add_position_grad",
    "attention",
    "cross_entropy_each",
    "embed_grad",
    "geometric_attention",
    "neighbours_grad",
    "norm_columns",
    "s4d_pull",
    "scan",
    "sinusoid",
    // Rules of masks, once for every distance or position.
    "tables",
    "values",
];

/// What a kernel takes more than it may.
fn beyond(kernel: &str, used: &Usage) -> Vec<String> {
    let name = kernel.strip_prefix("rtc_").unwrap_or(kernel);
    let begins = |list: &[&str]| list.iter().any(|start| name.starts_with(start));
    if name.contains("_tiles") && !has_sizes(name) {
        return vec![];
    }
    let registers = match name.starts_with("attention") {
        true if name.contains("_tiles") => REGISTERS_OF_TILES,
        true => REGISTERS_OF_ATTENTION,
        false => REGISTERS,
    };
    let stack = STACK.iter().find(|(start, _)| name.starts_with(start)).map_or(0, |(_, bytes)| *bytes);
    let calls = if begins(CALL) { usize::MAX } else { 0 };
    let all = [
        ("registers", used.registers, registers),
        ("bytes of stack", used.stack, stack),
        ("bytes of local memory", used.local, 0),
        ("bytes of shared memory", used.shared, limits::SHARED),
        ("calls inside of loops", used.calls_in_loops, calls),
    ];
    let over = all.into_iter().filter(|(_, used, most)| used > most);
    over.map(|(what, used, most)| format!("`{name}` takes {used} {what}, where {most} are allowed")).collect()
}

/// Whether a kernel in tiles was made for the sizes of a model, as all are that a GPU runs; those for any size are for the emulated device.
fn has_sizes(name: &str) -> bool {
    name.rsplit('_').any(|part| part.split('x').filter(|size| size.parse::<u32>().is_ok()).count() == 4)
}

/// The machine code of kernels for a capability; nothing where the compiler is missing.
fn compiled(source: &str, capability: i32) -> Vec<u8> {
    compile::compile(source, capability).unwrap_or_else(|e| panic!("sm_{capability}: {e}"))
}

fn is_there() -> bool {
    if !compile::is_there() {
        eprintln!("skipped: there is no NVRTC library");
    }
    compile::is_there()
}

/// All kernels, and those made for every spec and every mask.
#[test]
fn every_kernel_compiles_and_stays_within_its_budget() {
    if !is_there() {
        return;
    }
    let graphs = [Objective::Classify, Objective::Each].map(|objective| {
        let models = models::all(objective, &[]).into_iter();
        models.map(|model| training(&model, objective)).collect::<Vec<_>>()
    });
    let masks = all_masks().into_iter().chain(all_masks_with_shared_keys()).map(|case| case.graph);
    let plans: Vec<_> = graphs.into_iter().flatten().chain(masks).map(plan).collect();
    // The sizes of a model, and what multiplies, change attention alone.
    let made = |precision| -> BTreeSet<GeneratedKernel> {
        let target = KernelTarget { precision, fixed_sizes: true };
        plans.iter().flat_map(|plan| generated(plan, target)).collect()
    };
    let single = made(Precision::F32);
    assert!(single.len() > 20, "specs have chains");
    let mut all: Vec<(i32, BTreeSet<GeneratedKernel>)> =
        CAPABILITIES.map(|capability| (capability, single.clone())).into();
    all.extend([Precision::Tf32, Precision::Bf16].map(|precision| (90, made(precision))));
    let problems = in_parallel(all.len(), |n| {
        let (capability, made) = &all[n];
        let used = usage(&compiled(&source(made), *capability)).expect("machine code");
        assert!(used.len() > 100 + made.len() / 2 && used.values().all(|used| used.registers > 0));
        let beyond = used.iter().flat_map(|(kernel, used)| beyond(kernel, used));
        beyond.map(|problem| format!("sm_{capability}: {problem}")).collect::<Vec<_>>()
    });
    let problems = problems.concat();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Kernels that take too much, each in one way.
const GREEDY: &str = "
// Sums in an order in which all numbers are held at once.
KERNEL(many_registers)(const real *x, real *y) {
    real all[150];
    for (int n = 0; n < 150; n++) all[n] = x[n];
    __syncthreads();
    for (int m = 0; m < 150; m++) {
        real sum = 0;
        for (int n = 0; n < 150; n++) sum += all[n] * x[1000 + m * n];
        y[m] = sum;
    }
}
KERNEL(a_stack)(const int *at, real *y) {
    real all[64];
    for (int n = 0; n < 64; n++) all[at[n]] = n;
    y[0] = all[at[64]];
}
KERNEL(much_shared)(real *y) {
    __shared__ real all[48 * 256];
    all[threadIdx.x] = y[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = all[threadIdx.x ^ 1];
}
KERNEL(a_call_in_a_loop)(const whole *x, whole *y, int n) {
    for (int i = 0; i < n; i++) y[i] = x[i] / y[i];
}
KERNEL(a_call)(const whole *x, whole *y) { y[0] = x[0] / y[0]; }
";

#[test]
fn what_is_beyond_a_budget_is_found() {
    if !is_there() {
        return;
    }
    let source = format!("{}{GREEDY}", source(&BTreeSet::new()));
    for capability in CAPABILITIES {
        let used = usage(&compiled(&source, capability)).expect("machine code");
        let of = |kernel: &str| &used[&format!("rtc_{kernel}")];
        println!(
            "{capability} {:?}",
            ["many_registers", "a_stack", "much_shared", "a_call_in_a_loop", "a_call"].map(of)
        );
        let found = |kernel: &str| beyond(kernel, of(kernel)).join(" ");
        assert!(found("many_registers").contains("registers, where 128"), "{:?}", of("many_registers"));
        assert!(found("a_stack").contains("bytes of stack"), "{:?}", of("a_stack"));
        assert_eq!((found("much_shared").as_str(), of("much_shared").shared), ("", limits::SHARED));
        assert!(found("a_call_in_a_loop").contains("calls inside of loops"), "{:?}", of("a_call_in_a_loop"));
        assert_eq!((of("a_call").calls, of("a_call").calls_in_loops), (1, 0), "sm_{capability}");
    }
}
