//! The executor's arena with sizes in place of memory: free ranges are joined and serve any other size, so what a plan
//! takes is the most that was ever held at one time. A device has blocks of a few sizes, and a free one serves its own size alone, so
//! a plan takes the most that was ever held of every size.
//!
//! An amount of bytes can carry the formula that it is the value of; then the most that was held has a formula, too.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::MemoryTarget;
use super::rows::HANDLE;
use crate::ir::formula::Formula;
use crate::ir::number::Number;

/// Bytes of a number.
const BYTES: u64 = 4;

/// Blocks are multiples of this many bytes, as in the executor.
const ALIGN: u64 = 64;

/// The smallest block of a device.
const SMALLEST: u64 = 256;

/// A number of bytes, and the formula that gives it where formulas are kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ByteAmount {
    pub(super) number: u64,
    pub(super) formula: Option<Formula>,
}

/// Hands out blocks and takes them back.
#[derive(Debug, Default)]
pub(super) struct BlockPool {
    held: RefCell<ByteAmount>,
    most: RefCell<ByteAmount>,
    /// The blocks of a device by their size.
    sizes: Option<RefCell<BlockLevels>>,
}

/// Bytes that are held, and the most that were.
#[derive(Clone, Copy, Debug, Default)]
struct ByteLevel {
    held: u64,
    most: u64,
}

/// Bytes of every size of blocks, and under 0 of what comes as a sum over several.
type BlockLevels = BTreeMap<u64, ByteLevel>;

/// A block, or several; they return when dropped.
#[derive(Debug)]
pub(super) struct PooledBlock {
    bytes: ByteAmount,
    /// Its size on a device; 0 for several.
    size: u64,
    pool: Rc<BlockPool>,
}

impl ByteAmount {
    /// A constant, with a formula or without.
    pub(super) fn of(number: u64, formula: bool) -> Self {
        Self { number, formula: formula.then(|| Formula::of(number as f64)) }
    }

    fn with(self, other: &Self, number: fn(u64, u64) -> u64, formula: fn(&Formula, &Formula) -> Formula) -> Self {
        let both = |known: &Formula| other.formula.as_ref().map(|other| formula(known, other));
        Self { number: number(self.number, other.number), formula: self.formula.as_ref().and_then(both) }
    }

    /// The sum; a formula needs both.
    pub(super) fn plus(self, other: &Self) -> Self {
        self.with(other, u64::saturating_add, Formula::plus)
    }

    pub(super) fn minus(self, other: &Self) -> Self {
        self.with(other, u64::saturating_sub, Formula::minus)
    }

    pub(super) fn times(self, other: &Self) -> Self {
        self.with(other, u64::saturating_mul, Formula::times)
    }
}

/// The bytes of a block of a device that holds this many: the sizes of `runtime/cuda/src/memory.rs`.
pub(super) fn class(bytes: u64) -> u64 {
    let step = (bytes.checked_next_power_of_two().unwrap_or(bytes) / 8).max(SMALLEST);
    bytes.checked_next_multiple_of(step).unwrap_or(bytes)
}

/// The bytes of a block that holds this many.
pub(super) fn filled(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(ALIGN).unwrap_or(bytes)
}

impl BlockPool {
    /// An empty pool, which keeps formulas or does not.
    pub(super) fn new(target: MemoryTarget, formulas: bool) -> Rc<Self> {
        let nothing = ByteAmount { number: 0, formula: formulas.then(Formula::default) };
        let sizes = (target == MemoryTarget::Device).then(RefCell::default);
        Rc::new(Self { held: RefCell::new(nothing.clone()), most: RefCell::new(nothing), sizes })
    }

    /// A buffer of `len` numbers. Formulas leave out what fills blocks up.
    pub(super) fn take(self: &Rc<Self>, len: ByteAmount) -> PooledBlock {
        self.take_with(len, 0)
    }

    /// A buffer of `len` numbers with a counted handle.
    pub(super) fn take_shared(self: &Rc<Self>, len: ByteAmount) -> PooledBlock {
        self.take_with(len, HANDLE)
    }

    fn take_with(self: &Rc<Self>, len: ByteAmount, more: u64) -> PooledBlock {
        let bytes = len.number.max(1).saturating_mul(BYTES);
        let size = if self.sizes.is_some() { class(bytes) } else { 0 };
        let number = if size > 0 { size } else { filled(bytes).saturating_add(more) };
        let formula = len.formula.map(|len| len.times(&Formula::of(BYTES as f64)).plus(&Formula::of(more as f64)));
        self.block(ByteAmount { number, formula }, size)
    }

    /// This many bytes.
    pub(super) fn take_bytes(self: &Rc<Self>, bytes: ByteAmount) -> PooledBlock {
        self.block(bytes, 0)
    }

    fn block(self: &Rc<Self>, bytes: ByteAmount, size: u64) -> PooledBlock {
        let held = self.held.take().plus(&bytes);
        if held.number > self.most.borrow().number {
            self.most.replace(held.clone());
        }
        self.held.replace(held);
        if let Some(sizes) = &self.sizes {
            let mut sizes = sizes.borrow_mut();
            let level = sizes.entry(size).or_default();
            level.held = level.held.saturating_add(bytes.number);
            level.most = level.most.max(level.held);
        }
        PooledBlock { bytes, size, pool: Rc::clone(self) }
    }

    /// The most bytes that were ever held at one time; of a device of every size.
    pub(super) fn most(&self) -> ByteAmount {
        match &self.sizes {
            Some(sizes) => {
                let number = sizes.borrow().values().map(|level| level.most).fold(0, u64::saturating_add);
                ByteAmount { number, formula: None }
            }
            None => self.most.borrow().clone(),
        }
    }

    /// The bytes that are held now.
    pub(super) fn held(&self) -> ByteAmount {
        self.held.borrow().clone()
    }
}

impl Drop for PooledBlock {
    fn drop(&mut self) {
        let held = self.pool.held.take().minus(&self.bytes);
        self.pool.held.replace(held);
        if let Some(sizes) = &self.pool.sizes
            && let Some(level) = sizes.borrow_mut().get_mut(&self.size)
        {
            level.held = level.held.saturating_sub(self.bytes.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(number: u64) -> ByteAmount {
        ByteAmount { number, formula: None }
    }

    #[test]
    fn what_is_given_back_serves_any_size() {
        let pool = BlockPool::new(MemoryTarget::Processor, false);
        let first = pool.take(numbers(1000));
        assert_eq!(pool.most(), numbers(4032));
        drop(first);
        let (small, smaller) = (pool.take(numbers(500)), pool.take(numbers(450)));
        assert_eq!(pool.most(), numbers(4032));
        let more = pool.take_bytes(numbers(640));
        assert_eq!((pool.most(), pool.held()), (numbers(4544), numbers(4544)));
        drop((small, smaller, more));
        assert_eq!(pool.held(), numbers(0));
    }

    #[test]
    fn a_block_of_a_device_serves_its_own_size_alone() {
        let pool = BlockPool::new(MemoryTarget::Device, false);
        drop(pool.take(numbers(1000)));
        let (large, small) = (pool.take(numbers(990)), pool.take(numbers(500)));
        assert_eq!(pool.most(), numbers(4096 + 2048));
        drop((large, small));
        let sum = pool.take_bytes(numbers(100));
        assert_eq!((pool.most(), pool.held()), (numbers(4096 + 2048 + 100), numbers(100)));
        drop(sum);
        assert_eq!(pool.held(), numbers(0));
    }

    #[test]
    fn blocks_of_a_device_grow_by_eighths() {
        let sizes = [1, 256, 257, 5000, 1 << 20, (1 << 20) + 1].map(class);
        assert_eq!(sizes, [256, 256, 512, 5120, 1 << 20, (1 << 20) + (1 << 18)]);
    }

    #[test]
    fn sizes_beyond_any_machine_are_no_overflow() {
        let pool = BlockPool::new(MemoryTarget::Processor, false);
        drop((pool.take(numbers(u64::MAX)), pool.take(numbers(u64::MAX - 5))));
        assert_eq!(pool.most(), numbers(u64::MAX));
    }

    #[test]
    fn the_most_has_the_formula_of_its_moment() {
        let pool = BlockPool::new(MemoryTarget::Processor, true);
        let rows = |number, factor| {
            let formula = Formula::symbol("B").times(&Formula::of(factor));
            pool.take(ByteAmount { number, formula: Some(formula) })
        };
        let (first, second) = (rows(320, 10.0), rows(96, 3.0));
        drop(first);
        drop((rows(64, 2.0), second));
        assert_eq!(pool.most().formula.map(|f| f.to_string()).as_deref(), Some("52 B"));
        assert_eq!(pool.held().formula.map(|f| f.to_string()).as_deref(), Some("0"));
    }
}
