//! Numbers, lists and shared handles in the arena: what `Vec` and `Rc` are elsewhere.
#![allow(
    unsafe_code,
    reason = "a buffer owns its block of the arena, and only plain numbers are made of bytes that nobody wrote"
)]

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use allocator_api2::boxed::Box;

use crate::arena::Arena;
use rtc_kernel::Real;

/// A growing list in the arena.
pub type List<E> = allocator_api2::vec::Vec<E, Arena>;

/// Numbers of a value in the arena.
pub type Buffer<T> = List<T>;

/// A type for which every pattern of bits is a value.
///
/// # Safety
/// It has no padding and no invariant.
pub unsafe trait Plain: Copy + 'static {}

macro_rules! plain {
    ($($number:ty),*) => {
        $(
            // SAFETY: plain numbers.
            unsafe impl Plain for $number {}
        )*
    };
}
plain!(u8, u16, u32, u64, usize, f32, f64);

/// A number type that the executor computes in: `f32`, or `f64` for parity.
pub trait Element: Real + Plain {}

impl Element for f32 {}
impl Element for f64 {}

impl Arena {
    /// `len` numbers with whatever the last user left there.
    pub fn take<E: Plain>(&self, len: usize) -> Buffer<E> {
        let mut out = List::with_capacity_in(len, self.clone());
        // SAFETY: the capacity is there; chunks begin as zeros, and every pattern of bits is a number.
        unsafe { out.set_len(len) };
        out
    }

    /// `len` times the same number.
    pub fn filled<E: Plain>(&self, len: usize, number: E) -> Buffer<E> {
        let mut out = self.take(len);
        out.fill(number);
        out
    }

    /// A copy of some numbers.
    pub fn copy<E: Plain>(&self, from: &[E]) -> Buffer<E> {
        let mut out = self.take(from.len());
        out.copy_from_slice(from);
        out
    }

    /// A list of the items.
    pub fn list<E>(&self, items: impl IntoIterator<Item = E>) -> List<E> {
        let items = items.into_iter();
        // No more room than for the items, where their number is known.
        let mut out = List::with_capacity_in(items.size_hint().0, self.clone());
        out.extend(items);
        out
    }

    /// A handle to a value that can be shared.
    pub fn share<X>(&self, value: X) -> Shared<X> {
        let counted = CountedValue { count: Cell::new(1), arena: self.clone(), value };
        let (counted, _) = Box::into_raw_with_allocator(Box::new_in(counted, self.clone()));
        // SAFETY: a box is never null.
        Shared { counted: unsafe { NonNull::new_unchecked(counted) }, owns: PhantomData }
    }
}

/// A counted handle to a value in the arena; the value goes with its last handle.
pub struct Shared<X> {
    counted: NonNull<CountedValue<X>>,
    owns: PhantomData<CountedValue<X>>,
}

struct CountedValue<X> {
    count: Cell<usize>,
    arena: Arena,
    value: X,
}

impl<X> Shared<X> {
    fn counted(&self) -> &CountedValue<X> {
        // SAFETY: the value lives as long as a handle.
        unsafe { self.counted.as_ref() }
    }

    /// The value to write, if this is its only handle.
    pub fn get_mut(&mut self) -> Option<&mut X> {
        if self.counted().count.get() > 1 {
            return None;
        }
        // SAFETY: no other handle can reach the value while this one is borrowed.
        Some(unsafe { &mut self.counted.as_mut().value })
    }

    /// The value itself, if this is its only handle.
    ///
    /// # Errors
    /// The handle, if there are others.
    pub fn try_unwrap(self) -> Result<X, Self> {
        if self.counted().count.get() > 1 {
            return Err(self);
        }
        let counted = self.counted;
        std::mem::forget(self);
        // SAFETY: this was the only handle, and it is forgotten.
        Ok(unsafe { reclaim(counted) }.value)
    }
}

/// Moves the value of the last handle out of the arena.
///
/// # Safety
/// No handle to it may be left.
unsafe fn reclaim<X>(counted: NonNull<CountedValue<X>>) -> CountedValue<X> {
    // SAFETY: it was made by a box in this arena, and nobody else can reach it.
    unsafe {
        let arena = counted.as_ref().arena.clone();
        Box::into_inner(Box::from_raw_in(counted.as_ptr(), arena))
    }
}

impl<X> Clone for Shared<X> {
    fn clone(&self) -> Self {
        let count = &self.counted().count;
        count.set(count.get() + 1);
        Self { counted: self.counted, owns: PhantomData }
    }
}

impl<X> Drop for Shared<X> {
    fn drop(&mut self) {
        let count = &self.counted().count;
        count.set(count.get() - 1);
        if count.get() == 0 {
            // SAFETY: this was the last handle.
            drop(unsafe { reclaim(self.counted) });
        }
    }
}

impl<X> Deref for Shared<X> {
    type Target = X;

    fn deref(&self) -> &X {
        &self.counted().value
    }
}

impl<X: PartialEq> PartialEq for Shared<X> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<X: fmt::Debug> fmt::Debug for Shared<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
