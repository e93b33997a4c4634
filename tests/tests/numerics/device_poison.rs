//! Memory that nobody wrote is NaN: shared memory in every block, and an array whenever it is handed out.

use std::rc::Rc;

use rtc_cuda::device::KernelArgument;
use rtc_cuda::memory::{DevicePool, int, whole};
use rtc_tests::emulated::{Emulated, Options};

use super::device_limits::faulty;
use super::device_races::run_faulty;

#[test]
fn a_block_finds_nothing_in_shared_memory() {
    let Some(kernels) = faulty() else { return };
    for threads in [64, 256] {
        let device = Emulated::with(kernels.clone(), Options { threads, ..Options::default() });
        let found = run_faulty(Rc::new(device), "left_by_the_last_block");
        assert!(found[..2 * threads as usize].iter().all(|x| x.is_nan()), "what the block before has left");
    }
}

/// In the order of the commands, with those that are held back and replayed, too.
#[test]
fn an_array_holds_nothing_when_it_is_handed_out() {
    let Some(kernels) = faulty() else { return };
    let run = |options| {
        let pool = DevicePool::new(Rc::new(Emulated::with(kernels.clone(), options)));
        let mut seen = vec![];
        for _ in 0..5 {
            let (kept, old) = (pool.take::<f32>(64), pool.take::<f32>(64));
            pool.each("fill", 64, &[old.arg(), KernelArgument::Real(7.0), whole(64)]);
            pool.device().copy(old.at(), kept.at(), 64 * size_of::<f32>());
            drop(old);
            let new = pool.take::<f32>(60);
            pool.each("forgets_one", 60, &[KernelArgument::Address(0), new.arg(), int(60)]);
            seen.push((pool.download::<f32>(&kept), pool.download::<f32>(&new)));
        }
        seen
    };
    for records in [true, false] {
        for (kept, new) in run(Options { records, watches: true, ..Options::default() }) {
            assert!(kept.iter().all(|x| *x == 7.0), "it is used until the commands before are done");
            assert!(new.iter().enumerate().all(|(n, x)| if n == 30 { x.is_nan() } else { *x == 1.0 }), "{new:?}");
        }
    }
    // Without, what a kernel forgets looks like a number.
    assert!(run(Options::default()).iter().any(|(_, new)| new[30] == 7.0));
}
