//! The interface between the executor and a device: memory, copies, launches. One implementation drives a GPU; tests have another one, which
//! runs the same kernels on the host.
//!
//! Work is asynchronous and in order. A failure sticks: everything after it does nothing, and [`Device::failure`] tells what it
//! was, so that callers ask once where a run ends.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use crate::kernel::Precision;

/// An argument of a kernel. Arguments are equal if their bits are: 0 is not -0.
#[derive(Clone, Copy, Debug)]
pub enum Arg {
    /// A place in the device's memory; 0 is none.
    Address(u64),
    /// A number of 64 bits.
    Whole(i64),
    /// A number of 32 bits.
    Int(i32),
    /// A number of the type that the kernels compute in.
    Real(f64),
}

impl Arg {
    fn bits(self) -> (u8, u64) {
        match self {
            Self::Address(at) => (0, at),
            Self::Whole(n) => (1, n as u64),
            Self::Int(n) => (2, n as u64),
            Self::Real(x) => (3, x.to_bits()),
        }
    }
}

impl PartialEq for Arg {
    fn eq(&self, other: &Self) -> bool {
        self.bits() == other.bits()
    }
}

impl Eq for Arg {}

impl Hash for Arg {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.bits().1);
    }
}

/// Blocks of a launch, threads of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Blocks along three axes.
    pub grid: [u32; 3],
    /// Threads of a block: one axis.
    pub threads: u32,
}

/// A matrix product `y[m, n] = a b` (plus `y` where it adds), row by row; `a[i, p]` lies at `i * rows + p * columns` numbers from
/// its address, `b[p, j]` likewise. One of the two steps is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Product {
    /// The left matrix.
    pub a: Matrix,
    /// The right matrix.
    pub b: Matrix,
    /// Where the result goes.
    pub y: u64,
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Terms of each number.
    pub k: usize,
    /// Whether the result is added to what is there.
    pub add: bool,
}

/// A matrix in the device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Matrix {
    /// Its first number.
    pub at: u64,
    /// From one row to the next.
    pub rows: usize,
    /// From one column to the next.
    pub columns: usize,
}

/// A piece of work inside the device, with everything that it is told: equal commands do the same to the same places.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// A kernel.
    Launch {
        /// Its name.
        kernel: Rc<str>,
        /// Its blocks.
        shape: Shape,
        /// What it is given.
        args: Vec<Arg>,
    },
    /// A matrix product by the library of the device.
    Product(Product),
    /// A copy.
    Copy {
        /// The first byte to read.
        from: u64,
        /// The first byte to write.
        to: u64,
        /// How many.
        bytes: usize,
    },
    /// Bytes that become zero.
    Clear {
        /// The first.
        at: u64,
        /// How many.
        bytes: usize,
    },
}

/// A series of commands that a device has recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Graph(pub u64);

/// A kernel that is made for a plan.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generated {
    /// Its name, which says what it does: equal names are equal kernels.
    pub name: String,
    /// Its source.
    pub source: String,
}

/// What kernels are made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// What products are made of.
    pub precision: Precision,
    /// Whether kernels are made for the sizes of a plan, which are known to their compiler then.
    pub fixed_sizes: bool,
}

/// The memory of a device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// What nobody has taken, of this process or of another one.
    pub free: u64,
    /// All of it.
    pub total: u64,
}

/// A device with memory of its own. Addresses are its own, too.
pub trait Device: Debug {
    /// What it is, for people.
    fn name(&self) -> String;
    /// Threads of a block; a power of two, and whole warps.
    fn threads(&self) -> u32;
    /// What its kernels are made for.
    fn target(&self) -> Target;
    /// How much memory there is; nothing where the device does not say.
    fn capacity(&self) -> Option<Capacity> {
        None
    }
    /// Makes the kernels of a plan ready, besides those that every plan has.
    fn prepare(&self, kernels: &[Generated]);
    /// Takes memory, aligned to 256 bytes.
    fn allocate(&self, bytes: usize) -> u64;
    /// Gives memory back.
    fn release(&self, at: u64, bytes: usize);
    /// Copies from the host; the bytes may change after the call.
    fn upload(&self, to: u64, from: &[u8]);
    /// Waits for all work, and copies to the host.
    fn download(&self, from: u64, to: &mut [u8]);
    /// Whether it has a library for matrix products; without one they are kernels, too.
    fn multiplies(&self) -> bool;
    /// Starts a command.
    fn start(&self, command: &Command);
    /// Whether series of commands that come again are recorded and replayed.
    fn records(&self) -> bool;
    /// Makes a series of commands, each of which was started before, ready to be started with one call. Nothing runs.
    fn record(&self, commands: &[Command]) -> Graph;
    /// Starts a recorded series: the same commands with the same arguments.
    fn replay(&self, graph: Graph);
    /// Lets a recorded series go.
    fn forget(&self, graph: Graph);
    /// The first failure, if there was one.
    fn failure(&self) -> Option<String>;
}
