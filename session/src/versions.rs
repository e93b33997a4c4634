//! The versions of this program in its records and its help.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use rtc_runs::record;
use rtc_runs::saved;

/// The version, and the hash of the code that runs hold in their records.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (code ", env!("RTC_CODE"), ")");

/// The versions of this program as they stand in the results of runs: `code 3f2a, rtc 0.1.0`.
pub fn program() -> String {
    record::program(versions())
}

/// The versions of the parts of this program.
pub fn versions() -> &'static BTreeMap<String, String> {
    static VERSIONS: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
        let parts = [("rtc", env!("CARGO_PKG_VERSION")), (saved::CODE, env!("RTC_CODE"))];
        BTreeMap::from(parts.map(|(part, version)| (part.to_owned(), version.to_owned())))
    });
    &VERSIONS
}
