//! Buffers on Candle's CPU storage, kept between steps.
//!
//! A buffer that dies goes back to its pool and is handed out again, so a training step in the steady state allocates nothing: fresh
//! large allocations cost a page fault per 4 KiB, which is what slows eager frameworks down most on a CPU.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use candle_core::CpuStorage;

use crate::kernel::Real;

/// A number type that the executor computes in: `f32`, or `f64` for parity.
pub trait Element: Real {
    /// Puts a vector into Candle's storage.
    fn wrap(data: Vec<Self>) -> CpuStorage;
    /// The numbers of a storage of this type.
    fn slice(storage: &CpuStorage) -> &[Self];
    /// The numbers of a storage of this type, to write.
    fn slice_mut(storage: &mut CpuStorage) -> &mut [Self];
}

macro_rules! element {
    ($ty:ty, $variant:ident) => {
        impl Element for $ty {
            fn wrap(data: Vec<Self>) -> CpuStorage {
                CpuStorage::$variant(data)
            }

            fn slice(storage: &CpuStorage) -> &[Self] {
                match storage {
                    CpuStorage::$variant(data) => data,
                    _ => &[],
                }
            }

            fn slice_mut(storage: &mut CpuStorage) -> &mut [Self] {
                match storage {
                    CpuStorage::$variant(data) => data,
                    _ => &mut [],
                }
            }
        }
    };
}

element!(f32, F32);
element!(f64, F64);

/// Free storages by capacity.
type Free = Rc<RefCell<BTreeMap<usize, Vec<CpuStorage>>>>;

/// Hands out buffers and takes them back.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    free: Free,
    allocations: Rc<Cell<usize>>,
}

/// A buffer of the pool; it returns there when dropped. Its contents are whatever the last user left.
#[derive(Debug)]
pub struct Buffer<T: Element> {
    storage: Option<CpuStorage>,
    len: usize,
    pool: Pool,
    element: std::marker::PhantomData<T>,
}

/// Capacities come in steps of at most an eighth, so buffers of nearly equal size serve one another.
fn capacity_for(len: usize) -> usize {
    let step = (len.max(1).next_power_of_two() / 16).max(64);
    len.max(1).div_ceil(step) * step
}

impl Pool {
    /// A buffer of `len` numbers with undefined contents.
    pub fn take<T: Element>(&self, len: usize) -> Buffer<T> {
        let capacity = capacity_for(len);
        let reused = {
            let mut free = self.free.borrow_mut();
            let fitting = free.range_mut(capacity..=capacity + capacity / 4).find(|(_, list)| !list.is_empty());
            fitting.and_then(|(_, list)| list.pop())
        };
        let storage = reused.unwrap_or_else(|| {
            self.allocations.set(self.allocations.get() + 1);
            T::wrap(vec![T::ZERO; capacity])
        });
        Buffer { storage: Some(storage), len, pool: self.clone(), element: std::marker::PhantomData }
    }

    /// Number of allocations so far: constant in the steady state.
    pub fn allocations(&self) -> usize {
        self.allocations.get()
    }
}

impl<T: Element> Buffer<T> {
    /// The numbers.
    pub fn as_slice(&self) -> &[T] {
        self.storage.as_ref().map_or(&[], |s| &T::slice(s)[..self.len])
    }

    /// The numbers, to write.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        let len = self.len;
        self.storage.as_mut().map_or(&mut [], |s| &mut T::slice_mut(s)[..len])
    }
}

impl<T: Element> Drop for Buffer<T> {
    fn drop(&mut self) {
        if let Some(storage) = self.storage.take() {
            let capacity = T::slice(&storage).len();
            self.pool.free.borrow_mut().entry(capacity).or_default().push(storage);
        }
    }
}
