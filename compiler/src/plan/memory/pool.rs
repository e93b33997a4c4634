//! The executor's arena with sizes in place of memory: free ranges are joined and serve any other size, so what a plan
//! takes is the most that was ever held at one time.

use std::cell::Cell;
use std::rc::Rc;

/// Bytes of a number.
const BYTES: u64 = 4;

/// Blocks are multiples of this many bytes, as in the executor.
const ALIGN: u64 = 64;

/// Hands out blocks and takes them back.
#[derive(Debug, Default)]
pub(super) struct Pool {
    held: Cell<u64>,
    most: Cell<u64>,
}

/// A block, or several; they return when dropped.
#[derive(Debug)]
pub(super) struct Block {
    bytes: u64,
    pool: Rc<Pool>,
}

impl Pool {
    /// A buffer of `len` numbers.
    pub(super) fn take(self: &Rc<Self>, len: u64) -> Block {
        let bytes = len.max(1).saturating_mul(BYTES);
        self.take_bytes(bytes.checked_next_multiple_of(ALIGN).unwrap_or(bytes))
    }

    /// This many bytes.
    pub(super) fn take_bytes(self: &Rc<Self>, bytes: u64) -> Block {
        self.held.set(self.held.get().saturating_add(bytes));
        self.most.set(self.most.get().max(self.held.get()));
        Block { bytes, pool: Rc::clone(self) }
    }

    /// The most bytes that were ever held at one time.
    pub(super) fn most(&self) -> u64 {
        self.most.get()
    }

    /// The bytes that are held now.
    pub(super) fn held(&self) -> u64 {
        self.held.get()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.pool.held.set(self.pool.held.get().saturating_sub(self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_serves_any_size() {
        let pool = Rc::new(Pool::default());
        let first = pool.take(1000);
        assert_eq!(pool.most(), 4032);
        drop(first);
        let (small, smaller) = (pool.take(500), pool.take(450));
        assert_eq!(pool.most(), 4032);
        let more = pool.take_bytes(640);
        assert_eq!((pool.most(), pool.held()), (4544, 4544));
        drop((small, smaller, more));
        assert_eq!(pool.held(), 0);
    }

    #[test]
    fn sizes_beyond_any_machine_are_no_overflow() {
        let pool = Rc::new(Pool::default());
        drop((pool.take(u64::MAX), pool.take(u64::MAX - 5)));
        assert_eq!(pool.most(), u64::MAX);
    }
}
