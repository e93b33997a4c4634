//! Memory of the emulated device. Pages that nobody may touch lie in front of each block and behind it, so an access outside ends the
//! program, and an address belongs to one block.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_void;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// What addresses are multiples of.
const ALIGN: usize = 256;

/// A multiple of the size of a page of any machine that tests run on.
const PAGE: usize = 1 << 16;

/// The blocks by their addresses.
#[derive(Default)]
pub(super) struct Memory {
    blocks: RefCell<BTreeMap<u64, Block>>,
}

struct Block {
    bytes: usize,
    map: *mut c_void,
    mapped: usize,
}

impl Memory {
    /// A block, which ends where its last page does as far as its alignment allows. It holds NaN.
    pub(super) fn allocate(&self, bytes: usize) -> u64 {
        let room = bytes.max(1).next_multiple_of(ALIGN);
        let pages = room.next_multiple_of(PAGE);
        let mapped = pages + 2 * PAGE;
        // SAFETY: a new map, which nobody else knows of; what becomes writable lies inside.
        let (map, at) = unsafe {
            let map = mmap_anonymous(std::ptr::null_mut(), mapped, ProtFlags::empty(), MapFlags::PRIVATE)
                .expect("the host has addresses");
            let inner = map.cast::<u8>().add(PAGE);
            mprotect(inner.cast(), pages, MprotectFlags::READ | MprotectFlags::WRITE).expect("the host has memory");
            let at = inner.add(pages - room);
            at.write_bytes(0xFF, room);
            (map, at as u64)
        };
        self.blocks.borrow_mut().insert(at, Block { bytes: room, map, mapped });
        at
    }

    /// # Panics
    /// When it is no block, or one of another size.
    pub(super) fn release(&self, at: u64, bytes: usize) {
        let block = self.blocks.borrow_mut().remove(&at).expect("a block is given back once");
        assert_eq!(block.bytes, bytes.max(1).next_multiple_of(ALIGN), "as it was taken");
        block.unmap();
    }

    /// How many bytes the block has from here to its end.
    ///
    /// # Panics
    /// When they are fewer than these, or it lies in no block.
    pub(super) fn check(&self, what: &str, at: u64, bytes: usize) -> usize {
        let blocks = self.blocks.borrow();
        let left = |(start, block): (&u64, &Block)| (start + block.bytes as u64).checked_sub(at);
        // The end of a block is where an array without numbers may lie.
        let left = blocks.range(..=at).next_back().and_then(left).filter(|left| *left >= bytes as u64);
        left.unwrap_or_else(|| panic!("{what}: {bytes} bytes from {at:#x} on are not in one block of the device"))
            as usize
    }
}

impl Block {
    fn unmap(&self) {
        // SAFETY: the map was made for this block, and nobody uses it any more.
        unsafe { munmap(self.map, self.mapped) }.expect("it is a map");
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.blocks.get_mut().values().for_each(Block::unmap);
    }
}
