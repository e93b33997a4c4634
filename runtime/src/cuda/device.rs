//! What the executor asks of a device: memory, copies, launches. One implementation drives a GPU; tests have another one, which
//! runs the same kernels on the host.
//!
//! Work is asynchronous and in order. A failure sticks: everything after it does nothing, and [`Device::failure`] tells what it
//! was, so that callers ask once where a run ends.

use std::fmt::Debug;

/// An argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg {
    /// A place in the device's memory; 0 is none.
    Address(u64),
    /// A number of 64 bits.
    Whole(i64),
    /// A number of 32 bits.
    Int(i32),
    /// Bits of 64.
    Bits(u64),
    /// A number of the type that the kernels compute in.
    Real(f64),
}

/// Blocks of a launch, threads of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Blocks along three axes.
    pub grid: [u32; 3],
    /// Threads of a block: one axis.
    pub threads: u32,
}

/// A matrix product `y[m, n] = a b` (plus `y` where it adds), row by row; `a[i, p]` lies at `i * rows + p * columns` numbers from
/// its address, `b[p, j]` likewise. One of the two steps is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Its first number.
    pub at: u64,
    /// From one row to the next.
    pub rows: usize,
    /// From one column to the next.
    pub columns: usize,
}

/// A kernel that is made for a plan.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generated {
    /// Its name, which says what it does: equal names are equal kernels.
    pub name: String,
    /// Its source.
    pub source: String,
}

/// A device with memory of its own. Addresses are its own, too.
pub trait Device: Debug {
    /// What it is, for people.
    fn name(&self) -> String;
    /// Threads of a block; a power of two, and whole warps.
    fn threads(&self) -> u32;
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
    /// Copies inside the device.
    fn copy(&self, from: u64, to: u64, bytes: usize);
    /// Makes bytes zero.
    fn clear(&self, at: u64, bytes: usize);
    /// Starts a kernel.
    fn launch(&self, kernel: &str, shape: Shape, args: &[Arg]);
    /// Starts a matrix product, if there is a library for it; `false` if there is none.
    fn product(&self, product: &Product) -> bool;
    /// The first failure, if there was one.
    fn failure(&self) -> Option<String>;
}
