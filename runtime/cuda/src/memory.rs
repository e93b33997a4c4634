//! Memory of a device: arrays that go back to a pool with their last handle.
//!
//! All work runs in one order, so an array may be used again as soon as the host has let go of it. Sizes are rounded up to an
//! eighth of a power of two: batches of other lengths find what earlier ones left. Of the free blocks of a size the one that was
//! taken from the device first is used first, so equal runs get equal addresses, whatever ran in between.
//!
//! Batches of many lengths leave free blocks of many sizes. These go back to the device before the pool would hold more than it
//! may, and all of them where the device has no room: a run needs what it uses at one time, whatever ran before.
//!
//! What the host uploads during a run lies in blocks of its own, end to end, which begin anew with the next run.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

use super::device::{Device, DeviceMatrix, DeviceRange, KernelArgument, LaunchShape, MatrixProduct, kept_size};
use super::queue::Queue;
use rtc_exec::storage::Plain;

/// The smallest block, in bytes.
const SMALLEST: usize = 256;

/// Bytes of a block of uploads, unless one is longer.
const UPLOADS: usize = 1 << 20;

/// Most blocks along the second axis of a launch.
pub(super) const MOST_BLOCKS: usize = 60_000;

/// Numbers of one block of a sum.
const SUM_NUMBERS: usize = 1 << 14;

/// The place of a block that the device has no room for: nothing is done with it.
const NOWHERE: BlockKey = (0, 0);

/// Where uploads begin within their block.
const ALIGNED: usize = 64;

/// A device and the memory taken from it. Clones share both.
#[derive(Clone)]
pub struct DevicePool {
    shared: Rc<SharedPool>,
}

struct SharedPool {
    queue: Queue,
    stock: RefCell<Stock>,
    uploads: RefCell<Vec<Uploads>>,
}

/// What was taken from the device.
#[derive(Debug, Default)]
struct Stock {
    /// The free blocks of every size.
    free: BTreeMap<usize, Free>,
    /// Blocks that were ever taken.
    count: u64,
    /// Bytes of all blocks, whether they are free or not.
    held: usize,
    /// How many they may be before free ones go back; without a bound as many as the device has.
    most: Option<usize>,
    /// The number of the run.
    run: u64,
}

/// The free blocks of a size.
#[derive(Debug, Default)]
struct Free {
    places: BTreeSet<BlockKey>,
    /// The last run that asked for one.
    asked: u64,
}

/// A block by its turn: how many were taken before it, and its address.
type BlockKey = (u64, u64);

/// A block of uploads, and how many of its bytes are in use.
struct Uploads {
    block: Rc<DeviceBlock>,
    used: usize,
}

/// A range of bytes on the device, shared by handles.
#[derive(Clone)]
pub struct DeviceArray {
    block: Rc<DeviceBlock>,
    at: u64,
    len: usize,
    /// Whether its numbers are kept in 16 bits.
    narrow: bool,
}

struct DeviceBlock {
    /// Nothing for the blocks of uploads, which the pool itself holds.
    pool: Option<DevicePool>,
    place: BlockKey,
    bytes: usize,
}

impl DevicePool {
    /// Memory of this device.
    pub fn new(device: Rc<dyn Device>) -> Self {
        let queue = Queue::new(device);
        let shared = SharedPool { queue, stock: RefCell::default(), uploads: RefCell::default() };
        Self { shared: Rc::new(shared) }
    }

    /// The way to the device.
    pub fn device(&self) -> &Queue {
        &self.shared.queue
    }

    /// Bytes that are taken from the device, in use or free for the next one who asks.
    pub fn taken(&self) -> usize {
        self.shared.stock.borrow().held
    }

    /// From now on gives free blocks back before it would hold more than so many bytes.
    pub fn hold_at_most(&self, bytes: Option<usize>) {
        self.shared.stock.borrow_mut().most = bytes;
    }

    /// A run begins: what was uploaded before and has no handle any more is not needed.
    pub fn begin(&self) {
        self.device().flush();
        self.shared.stock.borrow_mut().run += 1;
        for uploads in self.shared.uploads.borrow_mut().iter_mut() {
            if Rc::strong_count(&uploads.block) == 1 {
                uploads.used = 0;
            }
        }
    }

    /// Room for `len` numbers of type `E`, with any content.
    pub fn take<E: Plain>(&self, len: usize) -> DeviceArray {
        let bytes = rounded(len * size_of::<E>());
        let place = self.place(bytes);
        self.device().taken(place.1, len * size_of::<E>());
        DeviceArray {
            block: Rc::new(DeviceBlock { pool: Some(self.clone()), place, bytes }),
            at: place.1,
            len,
            narrow: false,
        }
    }

    /// The same for real numbers, which are kept in 16 bits if they are `narrow`.
    pub(super) fn take_kept<T: Plain>(&self, len: usize, narrow: bool) -> DeviceArray {
        match narrow {
            true => DeviceArray { narrow, ..self.take::<u16>(len) },
            false => self.take::<T>(len),
        }
    }

    /// Real numbers as they are computed with.
    pub(super) fn widened<T: Plain>(&self, x: &DeviceArray) -> DeviceArray {
        if !x.narrow {
            return x.clone();
        }
        let y = self.take::<T>(x.len);
        self.each("widen", x.len, &[x.arg(), y.arg(), whole(x.len)]);
        y
    }

    /// Writes real numbers in 16 bits.
    pub(super) fn narrow(&self, x: &DeviceArray, y: &DeviceArray) {
        self.each("narrow", x.len, &[x.arg(), y.arg(), whole(x.len)]);
    }

    /// A free block of a size that was rounded, or a new one.
    fn place(&self, bytes: usize) -> BlockKey {
        let found = self.shared.stock.borrow_mut().find(bytes);
        found.unwrap_or_else(|| self.new_place(bytes))
    }

    /// A block from the device. Where there is no room, even without all that is free here, everything fails from now on.
    fn new_place(&self, bytes: usize) -> BlockKey {
        let queue = self.device();
        if queue.has_failed() {
            return NOWHERE;
        }
        self.stay_within(bytes);
        let found = queue.allocate(bytes).or_else(|_| {
            self.release_free();
            queue.allocate(bytes)
        });
        match found {
            Ok(at) => self.shared.stock.borrow_mut().added(at, bytes),
            Err(reason) => {
                queue.fail(reason);
                NOWHERE
            }
        }
    }

    /// Gives free blocks back until so many bytes more are no more than may be held: those of the sizes first that were asked for
    /// longest ago.
    fn stay_within(&self, more: usize) {
        loop {
            let oldest = self.shared.stock.borrow_mut().beyond(more);
            match oldest {
                Some(oldest) => self.device().release(&oldest),
                None => return,
            }
        }
    }

    /// Gives all blocks back that nobody uses.
    fn release_free(&self) {
        let idle = |uploads: &mut Uploads| uploads.used == 0 && Rc::strong_count(&uploads.block) == 1;
        let idle: Vec<Uploads> = self.shared.uploads.borrow_mut().extract_if(.., idle).collect();
        let mut gone = self.shared.stock.borrow_mut().remove(|_| true);
        for Uploads { block, .. } in idle {
            self.shared.stock.borrow_mut().held -= block.bytes;
            gone.push(block.range());
        }
        self.device().release(&gone);
    }

    /// `len` zeros.
    pub fn zeros<E: Plain>(&self, len: usize) -> DeviceArray {
        let out = self.take::<E>(len);
        self.device().clear(out.at, len * size_of::<E>());
        out
    }

    /// A copy of numbers of the host for this run. What stays longer is for [`Self::keep`]: a handle to an upload keeps all that
    /// lies beside it.
    pub fn upload<E: Plain>(&self, from: &[E]) -> DeviceArray {
        let bytes = size_of_val(from);
        let has_room = |uploads: &Uploads| uploads.block.bytes - uploads.used >= bytes;
        if !self.shared.uploads.borrow().iter().any(has_room) {
            let size = rounded(bytes.max(UPLOADS));
            // Commands that are held back may still use a block that was let go of, and uploads go ahead of them.
            let block = Rc::new(DeviceBlock { pool: None, place: self.new_place(size), bytes: size });
            self.shared.uploads.borrow_mut().push(Uploads { block, used: 0 });
        }
        let mut all = self.shared.uploads.borrow_mut();
        let uploads = all.iter_mut().find(|uploads| has_room(uploads)).expect("there is one now");
        let at = uploads.block.place.1 + uploads.used as u64;
        uploads.used = (uploads.used + bytes).next_multiple_of(ALIGNED).min(uploads.block.bytes);
        self.device().upload(at, bytes_of(from));
        DeviceArray { block: uploads.block.clone(), at, len: from.len(), narrow: false }
    }

    /// Replaces numbers on the device by numbers of the host.
    pub fn write<E: Plain>(&self, to: &DeviceArray, from: &[E]) {
        debug_assert_eq!(to.len, from.len());
        self.device().write(to.at, bytes_of(from));
    }

    /// A copy of numbers of the host that stays. It gets a new block: one that was free is used by runs, which would find
    /// others in its place from now on.
    pub fn keep<E: Plain>(&self, from: &[E]) -> DeviceArray {
        let bytes = rounded(size_of_val(from));
        let place = self.new_place(bytes);
        let out = DeviceArray {
            block: Rc::new(DeviceBlock { pool: Some(self.clone()), place, bytes }),
            at: place.1,
            len: from.len(),
            narrow: false,
        };
        self.write(&out, from);
        out
    }

    /// Waits, and copies to the host.
    pub fn download<E: Plain + Default>(&self, from: &DeviceArray) -> Vec<E> {
        let mut out = vec![E::default(); from.len];
        if !out.is_empty() {
            self.device().download(from.at, bytes_of_mut(&mut out));
        }
        out
    }

    /// Starts a kernel with a thread for each of `count` things.
    pub fn each(&self, kernel: &str, count: usize, args: &[KernelArgument]) {
        self.launch(kernel, [self.thread_blocks(count), 1, 1], &counted(count, args));
    }

    /// Starts a kernel with a warp for each of `count` things.
    pub fn each_warp(&self, kernel: &str, count: usize, args: &[KernelArgument]) {
        self.launch(kernel, [self.warp_blocks(count), 1, 1], args);
    }

    /// Blocks that have a thread for each of `count` things.
    pub(super) fn thread_blocks(&self, count: usize) -> u32 {
        blocks(count, self.device().threads() as usize)
    }

    /// Blocks that have a warp for each of `count` things.
    pub(super) fn warp_blocks(&self, count: usize) -> u32 {
        blocks(count, (self.device().threads() / WARP) as usize)
    }

    /// Starts a kernel with blocks of the usual size, unless it has none.
    pub(super) fn launch(&self, kernel: &str, grid: [u32; 3], args: &[KernelArgument]) {
        self.start(kernel, grid, self.device().threads(), args);
    }

    /// Starts a kernel, unless it has no blocks.
    pub fn start(&self, kernel: &str, grid: [u32; 3], threads: u32, args: &[KernelArgument]) {
        if grid.iter().all(|n| *n > 0) {
            self.device().launch(kernel, LaunchShape { grid, threads }, args);
        }
    }

    /// Adds `x` to `y`.
    pub fn add(&self, x: &DeviceArray, y: &DeviceArray) {
        self.each("add_to", x.len(), &[x.arg(), y.arg(), whole(x.len())]);
    }

    /// A matrix product: by the library of the device, or by our own kernel.
    pub(super) fn multiply<T: Plain>(&self, product: MatrixProduct) {
        /// Rows and columns of the result that a block makes.
        const TILE: usize = 8;
        let MatrixProduct { a, b, y, m, n, k, add, bias, count, apart, .. } = product;
        // A product without terms has no matrices that a library would take.
        if m == 0 || n == 0 || (k > 0 && self.device().product(&product)) {
            return;
        }
        let steps = |x: DeviceMatrix| [KernelArgument::Address(x.at), whole(x.rows), whole(x.columns)];
        let kept = usize::from(a.narrow) + 2 * usize::from(b.narrow) + 4 * usize::from(product.narrow);
        let sizes = [flag(add), KernelArgument::Address(bias.unwrap_or(0)), int(kept), int(m), int(n), int(k)];
        let apart = [apart.a, apart.b, apart.y, apart.bias].map(whole);
        let rest = [&[KernelArgument::Address(y)][..], &sizes, &apart].concat();
        // A grid is short along its second axis, so tall results go piece by piece.
        let piece = MOST_BLOCKS * TILE;
        for first in (0..m).step_by(piece) {
            let mut args = [&steps(a)[..], &steps(b), &rest].concat();
            let size = size_of::<T>();
            let rows = piece.min(m - first);
            args[0] = KernelArgument::Address(a.at + (first * a.rows * kept_size(a.narrow, size)) as u64);
            args[6] = KernelArgument::Address(y + (first * n * kept_size(product.narrow, size)) as u64);
            args[10] = int(rows);
            let grid = [blocks(n, TILE), blocks(rows, TILE), count as u32];
            self.start("product", grid, (TILE * TILE) as u32, &args);
        }
    }

    /// Products of one form that need not wait for one another: as many as one as are equally far apart.
    pub(super) fn multiply_all<T: Plain>(&self, products: &[MatrixProduct]) {
        let mut rest = products;
        while let Some(first) = rest.first() {
            let together = |count: &usize| MatrixProduct::together(&rest[..*count], size_of::<T>());
            let most = (2..=rest.len()).rev().find_map(|count| together(&count));
            let all = most.filter(|all| self.device().multiplies_together(first, all)).unwrap_or(*first);
            self.multiply::<T>(all);
            rest = &rest[all.count..];
        }
    }

    /// The sum of some numbers, or of their squares, in double precision.
    pub(super) fn sum(&self, x: &DeviceArray, squares: bool) -> DeviceArray {
        let count = x.len().div_ceil(SUM_NUMBERS).max(1);
        let sums = self.take::<f64>(count);
        let args = [x.arg(), sums.arg(), flag(squares), whole(x.len()), whole(SUM_NUMBERS)];
        self.launch("sum_blocks", [count as u32, 1, 1], &args);
        self.sum_doubles(&sums)
    }

    /// The sum of some doubles.
    pub(super) fn sum_doubles(&self, x: &DeviceArray) -> DeviceArray {
        let y = self.take::<f64>(1);
        self.launch("sum_doubles", [1, 1, 1], &[x.arg(), y.arg(), whole(x.len())]);
        y
    }
}

/// Threads of a warp.
pub const WARP: u32 = 32;

/// Blocks of `size` that hold `count` things.
pub fn blocks(count: usize, size: usize) -> u32 {
    u32::try_from(count.div_ceil(size.max(1))).unwrap_or(u32::MAX)
}

/// The arguments of a kernel with a thread for each of so many things. A thread knows its number in 32 bits: more things are refused, where they would
/// be computed in part.
fn counted(count: usize, args: &[KernelArgument]) -> Cow<'_, [KernelArgument]> {
    match u32::try_from(count) {
        Ok(_) => args.into(),
        Err(_) => [args, &[KernelArgument::TooLarge(count)]].concat().into(),
    }
}

/// A size as an argument.
pub fn whole(n: usize) -> KernelArgument {
    KernelArgument::Whole(n as i64)
}

/// A small size as an argument.
pub fn int(n: usize) -> KernelArgument {
    i32::try_from(n).map_or(KernelArgument::TooLarge(n), KernelArgument::Int)
}

/// A flag as an argument.
pub fn flag(on: bool) -> KernelArgument {
    KernelArgument::Int(i32::from(on))
}

/// The address of an array, or none.
pub fn address(array: Option<&DeviceArray>) -> KernelArgument {
    array.map_or(KernelArgument::Address(0), DeviceArray::arg)
}

impl DeviceArray {
    /// How many numbers it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its address.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Its address as an argument.
    pub fn arg(&self) -> KernelArgument {
        KernelArgument::Address(self.at)
    }

    /// Whether its numbers are kept in 16 bits.
    pub(super) fn is_narrow(&self) -> bool {
        self.narrow
    }

    /// Bytes of a number of type `E`, as it is kept.
    pub(super) fn size<E: Plain>(&self) -> usize {
        kept_size(self.narrow, size_of::<E>())
    }

    /// `len` numbers of type `E` from `start` on.
    pub fn part<E: Plain>(&self, start: usize, len: usize) -> Self {
        let at = self.at + (start * self.size::<E>()) as u64;
        Self { block: self.block.clone(), at, len, narrow: self.narrow }
    }

    /// Whether this is the only handle to its memory.
    pub fn is_alone(&self) -> bool {
        Rc::strong_count(&self.block) == 1
    }
}

impl DeviceBlock {
    fn range(&self) -> DeviceRange {
        DeviceRange { at: self.place.1, bytes: self.bytes }
    }
}

impl Stock {
    /// The first free block of this size.
    fn find(&mut self, bytes: usize) -> Option<BlockKey> {
        let free = self.free.entry(bytes).or_default();
        free.asked = self.run;
        free.places.pop_first()
    }

    fn added(&mut self, at: u64, bytes: usize) -> BlockKey {
        self.count += 1;
        self.held += bytes;
        (self.count, at)
    }

    /// Takes the free blocks of the sizes out that were asked for longest ago, if so many bytes more were more than it may hold.
    fn beyond(&mut self, bytes: usize) -> Option<Vec<DeviceRange>> {
        self.most.filter(|most| self.held + bytes > *most)?;
        let oldest = self.free.values().filter(|free| !free.places.is_empty()).map(|free| free.asked).min()?;
        Some(self.remove(|free| free.asked == oldest))
    }

    /// Takes free blocks out.
    fn remove(&mut self, which: impl Fn(&Free) -> bool) -> Vec<DeviceRange> {
        let mut gone = vec![];
        for (bytes, free) in self.free.iter_mut().filter(|(_, free)| which(free)) {
            let places = std::mem::take(&mut free.places);
            self.held -= bytes * places.len();
            gone.extend(places.into_iter().map(|(_, at)| DeviceRange { at, bytes: *bytes }));
        }
        gone
    }
}

impl Drop for DeviceBlock {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.as_ref().filter(|_| self.place != NOWHERE) {
            pool.shared.stock.borrow_mut().free.entry(self.bytes).or_default().places.insert(self.place);
        }
    }
}

impl Drop for SharedPool {
    fn drop(&mut self) {
        let mut all = self.stock.get_mut().remove(|_| true);
        let uploads = self.uploads.get_mut().iter().filter(|uploads| uploads.block.place != NOWHERE);
        all.extend(uploads.map(|uploads| uploads.block.range()));
        self.queue.release(&all);
    }
}

/// The size of the block that holds so many bytes.
fn rounded(bytes: usize) -> usize {
    let step = (bytes.max(1).next_power_of_two() / 8).max(SMALLEST);
    bytes.max(1).next_multiple_of(step)
}

/// The bytes of some numbers.
fn bytes_of<E: Plain>(numbers: &[E]) -> &[u8] {
    // SAFETY: plain numbers have no padding.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), size_of_val(numbers)) }
}

/// The bytes of some numbers, to write.
fn bytes_of_mut<E: Plain>(numbers: &mut [E]) -> &mut [u8] {
    // SAFETY: plain numbers have no padding, and every pattern of bits is one.
    unsafe { std::slice::from_raw_parts_mut(numbers.as_mut_ptr().cast(), size_of_val(numbers)) }
}

impl fmt::Debug for DevicePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({}, {} bytes)", self.device().name(), self.taken())
    }
}

impl fmt::Debug for DeviceArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Array({:#x}, {})", self.at, self.len)
    }
}
