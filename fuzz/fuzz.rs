//! libFuzzer on one of the targets of `rtc_tests::fuzz`: that which `RTC_FUZZ_TARGET` names.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use rtc_tests::fuzz::{Target, target};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("RTC_FUZZ_TARGET").expect("RTC_FUZZ_TARGET names a target");
    target(&name).expect("RTC_FUZZ_TARGET names a target")
});

fuzz_target!(
    init: {
        // A panic that a reader catches is no fault; one that reaches libFuzzer ends the program all the same.
        drop(std::panic::take_hook());
    },
    |bytes: &[u8]| TARGET(bytes)
);
