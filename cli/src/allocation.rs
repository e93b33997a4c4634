//! The allocator of the system. Where it has no memory left the process says so and ends with the exit code of that; Rust would abort it
//! by a signal, as a fault of the program.
#![allow(unsafe_code, reason = "the allocator of the system, handed on")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use rtc_session::failure::TOO_LARGE;

/// The allocator of the system that ends the process where it fails.
pub(crate) struct OrEnd;

// SAFETY: every call is handed on to the allocator of the system, and its answers are given back as they are.
unsafe impl GlobalAlloc for OrEnd {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract.
        or_end(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract.
        or_end(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps the contract.
        or_end(unsafe { System.realloc(place, layout, size) }, size)
    }
}

/// Gives an allocation back if there is one.
fn or_end(place: *mut u8, size: usize) -> *mut u8 {
    if place.is_null() { end(size) } else { place }
}

#[cold]
fn end(size: usize) -> ! {
    static ENDING: AtomicBool = AtomicBool::new(false);
    // A message needs no memory; should it, it is left out.
    if !ENDING.swap(true, Ordering::Relaxed) {
        let _ = writeln!(std::io::stderr(), "error: there is no memory left: {size} more bytes are needed");
    }
    std::process::exit(TOO_LARGE.into())
}
