//! The cache folder: files that rtc can make again.

use std::path::PathBuf;

/// The folder of this name in `rtc` in `XDG_CACHE_HOME`, or else in `.cache` of the home; nothing where neither is known.
pub fn folder(name: &str) -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    caches.map(|caches| caches.join("rtc").join(name))
}
