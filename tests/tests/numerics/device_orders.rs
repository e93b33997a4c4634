//! In whatever order a device runs blocks, warps and threads, every kernel gives the same bits.
#![allow(clippy::print_stderr, reason = "a skipped comparison says why")]

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use rtc_cuda::device::KernelTarget;
use rtc_tests::emulated::{Emulated, Kernels, Options};

use super::device_limits::faulty;
use super::device_races::run_faulty;
use super::device_work::{THREADS, Work, in_parallel, with_threads};

/// Seeds of orders; that of the rising order is 0.
const SEEDS: [u64; 3] = [1, 2, 3];

fn device(kernels: &Arc<Kernels>, threads: u32, order: u64, target: KernelTarget) -> Rc<Emulated> {
    let options = Options { threads, order, watches: true, target, ..Options::default() };
    Rc::new(Emulated::with(kernels.clone(), options))
}

#[test]
fn no_order_of_threads_changes_a_bit() {
    let all = Work::all();
    let made: BTreeSet<_> = all.iter().flat_map(Work::made).collect();
    let Some(kernels) = Kernels::compile("float", &made) else {
        eprintln!("skipped: there is no C++ compiler to run the kernels with");
        return;
    };
    let runs = with_threads(&all);
    let differing = in_parallel(runs.len(), |n| {
        let (work, threads) = (&all[runs[n].0], runs[n].1);
        let run = |seed| work.run(device(&kernels, threads, seed, work.target()));
        // Seeds take turns: what depends on an order shows in most of them.
        (run(SEEDS[n % SEEDS.len()]) != run(0)).then(|| format!("{} with {threads} threads", work.name()))
    });
    let differing: Vec<String> = differing.into_iter().flatten().collect();
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn what_depends_on_an_order_shows() {
    let Some(kernels) = faulty() else { return };
    for threads in THREADS {
        let differs = |kernel| {
            let run = |seed| run_faulty(device(&kernels, threads, seed, KernelTarget::default()), kernel);
            let rising = run(0);
            assert_eq!(run(0), rising, "{kernel}: twice the same");
            SEEDS.iter().any(|seed| run(*seed) != rising)
        };
        for kernel in ["last_block", "last_warp", "last_lane", "last_thread", "reads_its_neighbour"] {
            assert!(differs(kernel), "{kernel} with {threads} threads");
        }
        for kernel in ["right_bytes", "right_types", "right_warps"] {
            assert!(!differs(kernel), "{kernel} with {threads} threads");
        }
    }
}
