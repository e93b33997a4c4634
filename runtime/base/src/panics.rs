//! Panics of libraries that end no command.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether a panic of this thread is caught by [`caught`].
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`; nothing where it panics. Such a panic prints nothing: the caller says what is wrong.
pub fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_CAUGHT.get() {
                usual(panic);
            }
        }));
    });
    let outer = IS_CAUGHT.replace(true);
    let found = catch_unwind(AssertUnwindSafe(work));
    IS_CAUGHT.set(outer);
    found.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_no_value() {
        assert_eq!(caught(|| 3), Some(3));
        assert_eq!(caught(|| -> u8 { panic!("of a library") }), None);
        assert_eq!(caught(|| caught(|| -> u8 { panic!("inside") })), Some(None));
        assert!(!IS_CAUGHT.get());
    }
}
