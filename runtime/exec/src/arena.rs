//! The memory of a model: a few large chunks of bytes from which everything that a run needs is taken.
//!
//! Fresh large allocations cost a page fault per 4 KiB, which is what slows eager frameworks down most on a CPU; so the
//! chunks are kept between runs, and a run in the steady state asks the system for nothing. Free ranges that touch
//! become one, so what one shape leaves serves any other: batches of other lengths and rows that halt elsewhere need no
//! more memory than the largest of them. A chunk begins as zero pages, and what is never taken from it costs nothing.
//!
//! - **Alignment.** Every block begins at a multiple of [`ALIGN`] bytes: a cache line, and the widest vector.
//! - **Order.** A large block is cut from the front of the first free range that holds it, a small one from the end of the last:
//!   the handles and lists of a run never stand between its arrays.
//! - **Bits.** Where a block lies, and what the last user left in it, decides no result.
#![allow(
    unsafe_code,
    reason = "blocks are ranges of chunks that live as long as the arena, and no two that are taken overlap"
)]

use std::alloc::Layout;
use std::cell::RefCell;
use std::ptr::NonNull;
use std::rc::Rc;

use allocator_api2::alloc::{AllocError, Allocator};

/// Every block begins at a multiple of this, in bytes, and is a multiple of it long.
pub const ALIGN: usize = 64;

/// Blocks up to this many bytes are small.
const SMALL: usize = 4096;

/// Bytes of a chunk, unless a single block needs more.
const CHUNK: usize = 256 << 20;

/// Free ranges for which there is room from the start.
const RANGES: usize = 1024;

/// Hands out blocks and takes them back. Clones share the memory, which lives as long as one of them.
#[derive(Clone, Debug, Default)]
pub struct Arena {
    heap: Rc<RefCell<Heap>>,
}

/// The memory of an arena, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArenaUsage {
    /// Times that the system was asked for memory: constant in the steady state.
    pub chunks: usize,
    /// Most that was taken at one time.
    pub most: usize,
    /// All that was ever taken: what the arena costs.
    pub touched: usize,
}

#[derive(Debug, Default)]
struct Heap {
    chunks: Vec<ArenaChunk>,
    /// What is free, ordered by chunk and place; no two ranges touch.
    free: Vec<FreeRange>,
    /// Bytes that are taken now.
    taken: usize,
    /// The largest `taken` so far.
    most: usize,
}

#[derive(Debug)]
struct ArenaChunk {
    /// Holds the memory; only `base` is used to reach it.
    _bytes: Vec<u8>,
    /// The first aligned byte.
    base: NonNull<u8>,
    len: usize,
    /// No large block ever reached beyond this byte, and no small one began before `low`.
    high: usize,
    low: usize,
}

/// Free bytes of a chunk.
#[derive(Clone, Copy, Debug)]
struct FreeRange {
    chunk: usize,
    start: usize,
    end: usize,
}

impl ArenaChunk {
    fn new(len: usize) -> Self {
        let mut bytes = vec![0_u8; len + ALIGN];
        let skipped = bytes.as_ptr().align_offset(ALIGN);
        let base = NonNull::new(bytes.as_mut_ptr().wrapping_add(skipped)).expect("inside an allocation");
        Self { _bytes: bytes, base, len, high: 0, low: len }
    }

    /// Where a block lies in this chunk, if it does.
    fn place(&self, block: NonNull<u8>) -> Option<usize> {
        let place = block.addr().get().checked_sub(self.base.addr().get())?;
        (place < self.len).then_some(place)
    }
}

impl Heap {
    /// A block of `size` bytes, a multiple of [`ALIGN`].
    fn take(&mut self, size: usize) -> NonNull<u8> {
        let fits = |range: &FreeRange| range.end - range.start >= size;
        let small = size <= SMALL;
        let found = if small { self.free.iter().rposition(fits) } else { self.free.iter().position(fits) };
        let at = found.unwrap_or_else(|| self.grow(size));
        let range = &mut self.free[at];
        let start = if small { range.end - size } else { range.start };
        match small {
            true => range.end -= size,
            false => range.start += size,
        }
        let chunk = range.chunk;
        if range.start == range.end {
            self.free.remove(at);
        }
        self.taken += size;
        self.most = self.most.max(self.taken);
        let chunk = &mut self.chunks[chunk];
        match small {
            true => chunk.low = chunk.low.min(start),
            false => chunk.high = chunk.high.max(start + size),
        }
        // SAFETY: the range lies inside the chunk.
        unsafe { chunk.base.add(start) }
    }

    /// Gets a new chunk for at least `size` bytes; gives the place of its free range.
    fn grow(&mut self, size: usize) -> usize {
        let chunk = ArenaChunk::new(size.max(CHUNK));
        self.free.reserve(RANGES);
        self.free.push(FreeRange { chunk: self.chunks.len(), start: 0, end: chunk.len });
        self.chunks.push(chunk);
        self.free.len() - 1
    }

    /// Takes a block back, and joins it with the free ranges on either side.
    fn give(&mut self, block: NonNull<u8>, size: usize) {
        let places = self.chunks.iter().enumerate().find_map(|(n, chunk)| Some((n, chunk.place(block)?)));
        let (chunk, start) = places.expect("a block lies in a chunk");
        let end = start + size;
        self.taken -= size;
        let after = self.free.partition_point(|range| (range.chunk, range.start) < (chunk, start));
        let joins_next = self.free.get(after).is_some_and(|next| next.chunk == chunk && next.start == end);
        let joins_last = after > 0 && self.free[after - 1].chunk == chunk && self.free[after - 1].end == start;
        match (joins_last, joins_next) {
            (true, true) => self.free[after - 1].end = self.free.remove(after).end,
            (true, false) => self.free[after - 1].end = end,
            (false, true) => self.free[after].start = start,
            (false, false) => self.free.insert(after, FreeRange { chunk, start, end }),
        }
    }
}

impl Arena {
    /// How much memory it uses.
    pub fn usage(&self) -> ArenaUsage {
        let heap = self.heap.borrow();
        let touched = heap.chunks.iter().map(|c| if c.low < c.high { c.len } else { c.high + c.len - c.low }).sum();
        ArenaUsage { chunks: heap.chunks.len(), most: heap.most, touched }
    }
}

fn rounded(layout: Layout) -> usize {
    layout.size().max(1).next_multiple_of(ALIGN)
}

// SAFETY: a block is a free range of a chunk, at a multiple of ALIGN and of at least the size asked for, and is free no
// more until it is given back. Chunks neither move nor go while a clone of the arena lives.
unsafe impl Allocator for Arena {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.align() > ALIGN {
            return Err(AllocError);
        }
        let block = self.heap.borrow_mut().take(rounded(layout));
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        self.heap.borrow_mut().give(block, rounded(layout));
    }
}
