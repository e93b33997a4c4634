//! The executor's pool of buffers, with counts in place of buffers: memory that was handed out once stays with the pool,
//! so what a plan takes is what the pool ever had to allocate.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Bytes of a number.
const BYTES: u64 = 4;

/// How many buffers there are of every capacity, in numbers.
pub(super) type Counts = BTreeMap<u64, u64>;

/// Hands out buffers and takes them back.
#[derive(Debug, Default)]
pub(super) struct Pool {
    free: RefCell<Counts>,
    held: RefCell<Counts>,
    allocated: Cell<u64>,
}

/// Buffers of one capacity; they return to the pool when dropped.
#[derive(Debug)]
pub(super) struct Block {
    /// The capacities that were found, with their counts.
    parts: Vec<(u64, u64)>,
    pool: Rc<Pool>,
}

/// Capacities come in steps of at most an eighth, as in the executor.
fn capacity_for(len: u64) -> u64 {
    let len = len.max(1);
    let step = (len.checked_next_power_of_two().unwrap_or(len) / 16).max(64);
    len.div_ceil(step).saturating_mul(step)
}

fn add(counts: &mut Counts, capacity: u64, count: u64) {
    let entry = counts.entry(capacity).or_default();
    *entry = entry.saturating_add(count);
}

fn subtract(counts: &mut Counts, capacity: u64, count: u64) {
    let left = counts.get(&capacity).map_or(0, |n| n.saturating_sub(count));
    if left == 0 {
        counts.remove(&capacity);
    } else {
        counts.insert(capacity, left);
    }
}

impl Pool {
    /// A buffer of `len` numbers.
    pub(super) fn take(self: &Rc<Self>, len: u64) -> Block {
        self.take_many(capacity_for(len), 1)
    }

    /// `count` buffers of a capacity. A free buffer serves that is at most a quarter larger.
    pub(super) fn take_many(self: &Rc<Self>, capacity: u64, count: u64) -> Block {
        let mut free = self.free.borrow_mut();
        let (mut parts, mut missing) = (vec![], count);
        let most = capacity.saturating_add(capacity / 4);
        for (&found, &many) in free.range(capacity..=most) {
            let taken = many.min(missing);
            parts.push((found, taken));
            missing -= taken;
            if missing == 0 {
                break;
            }
        }
        parts.iter().for_each(|(found, taken)| subtract(&mut free, *found, *taken));
        if missing > 0 {
            let more = capacity.saturating_mul(BYTES).saturating_mul(missing);
            self.allocated.set(self.allocated.get().saturating_add(more));
            parts.push((capacity, missing));
        }
        let mut held = self.held.borrow_mut();
        parts.iter().for_each(|(found, taken)| add(&mut held, *found, *taken));
        Block { parts, pool: Rc::clone(self) }
    }

    /// Bytes allocated so far.
    pub(super) fn allocated(&self) -> u64 {
        self.allocated.get()
    }

    /// The buffers that are held now.
    pub(super) fn held(&self) -> Counts {
        self.held.borrow().clone()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let (mut held, mut free) = (self.pool.held.borrow_mut(), self.pool.free.borrow_mut());
        for (capacity, count) in &self.parts {
            subtract(&mut held, *capacity, *count);
            add(&mut free, *capacity, *count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_nearly_equal_size_serve_one_another() {
        let pool = Rc::new(Pool::default());
        let first = pool.take(1000);
        assert_eq!(pool.allocated(), 4 * 1024);
        drop(first);
        // At most a quarter larger than needed: taken again. Smaller: not.
        let again = pool.take(900);
        assert_eq!(pool.allocated(), 4 * 1024);
        let other = pool.take(500);
        assert_eq!(pool.allocated(), 4 * (1024 + 512));
        assert_eq!(pool.held(), Counts::from([(512, 1), (1024, 1)]));
        drop((again, other));
        assert!(pool.held().is_empty());
        drop(pool.take_many(1024, 3));
        assert_eq!(pool.allocated(), 4 * (3 * 1024 + 512));
    }

    #[test]
    fn sizes_beyond_any_machine_are_no_overflow() {
        let pool = Rc::new(Pool::default());
        drop((pool.take(u64::MAX), pool.take(u64::MAX - 5)));
        assert_eq!(pool.allocated(), u64::MAX);
    }
}
