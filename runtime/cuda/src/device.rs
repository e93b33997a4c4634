//! The interface between the executor and a device: memory, copies, launches. One implementation drives a GPU; tests have another one, which
//! runs the same kernels on the host.
//!
//! Work is asynchronous and in order. A failure sticks: everything after it does nothing, and [`Device::failure`] tells what it
//! was, so that callers ask once where a run ends. Only a lack of memory is told at once.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use rtc_kernel::Precision;

/// An argument of a kernel. Arguments are equal if their bits are: 0 is not -0.
#[derive(Clone, Copy, Debug)]
pub enum KernelArgument {
    /// A place in the device's memory; 0 is none.
    Address(u64),
    /// A number of 64 bits.
    Whole(i64),
    /// A number of 32 bits.
    Int(i32),
    /// A number of the type that the kernels compute in.
    Real(f64),
    /// A size that 32 bits do not hold. No device is given one: the queue refuses it.
    TooLarge(usize),
}

impl KernelArgument {
    fn bits(self) -> (u8, u64) {
        match self {
            Self::Address(at) => (0, at),
            Self::Whole(n) => (1, n as u64),
            Self::Int(n) => (2, n as u64),
            Self::Real(x) => (3, x.to_bits()),
            Self::TooLarge(n) => (4, n as u64),
        }
    }
}

impl PartialEq for KernelArgument {
    fn eq(&self, other: &Self) -> bool {
        self.bits() == other.bits()
    }
}

impl Eq for KernelArgument {}

impl Hash for KernelArgument {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.bits().1);
    }
}

/// Blocks of a launch, threads of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaunchShape {
    /// Blocks along three axes.
    pub grid: [u32; 3],
    /// Threads of a block: one axis.
    pub threads: u32,
}

/// A matrix product `y[m, n] = a b` (plus `y` where it adds, plus a bias), row by row; `a[i, p]` lies at `i * rows + p * columns`
/// numbers from its address, `b[p, j]` likewise. One of the two steps is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixProduct {
    /// The left matrix.
    pub a: DeviceMatrix,
    /// The right matrix.
    pub b: DeviceMatrix,
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
    /// Where the numbers lie that are added to every row, one for each column.
    pub bias: Option<u64>,
    /// How many products there are of this form, equally far apart.
    pub count: usize,
    /// From one of them to the next, in numbers.
    pub apart: ProductDistance,
    /// Whether the result, and with it the bias, is kept in 16 bits.
    pub narrow: bool,
}

/// The distance between two products, in what they read and write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProductDistance {
    /// The left matrices.
    pub a: usize,
    /// The right ones.
    pub b: usize,
    /// The results.
    pub y: usize,
    /// The biases.
    pub bias: usize,
}

impl MatrixProduct {
    /// `y[m, n] = a b` with `k` terms.
    pub fn new(a: DeviceMatrix, b: DeviceMatrix, y: u64, [m, n, k]: [usize; 3]) -> Self {
        Self { a, b, y, m, n, k, add: false, bias: None, count: 1, apart: ProductDistance::default(), narrow: false }
    }

    /// The same, added to what is there if `add`.
    pub fn adding(self, add: bool) -> Self {
        Self { add, ..self }
    }

    /// The same with a bias, if there is one.
    pub fn biased(self, bias: Option<u64>) -> Self {
        Self { bias, ..self }
    }

    /// Several products of one form as one, which have to be equally far apart; numbers have so many bytes.
    pub fn together(products: &[Self], size: usize) -> Option<Self> {
        let (first, second) = (products.first()?, products.get(1)?);
        let apart = |narrow: bool, from: u64, to: u64| {
            Some(usize::try_from(to.checked_sub(from)?).ok()? / kept_size(narrow, size))
        };
        let bias = first.bias.zip(second.bias).map_or(Some(0), |(from, to)| apart(first.narrow, from, to))?;
        let (a, b) = (apart(first.a.narrow, first.a.at, second.a.at)?, apart(first.b.narrow, first.b.at, second.b.at)?);
        let apart = ProductDistance { a, b, y: apart(first.narrow, first.y, second.y)?, bias };
        let all = Self { count: products.len(), apart, ..*first };
        (0..products.len()).all(|n| all.member(n, size) == products[n]).then_some(all)
    }

    /// The n-th of them.
    pub fn member(&self, n: usize, size: usize) -> Self {
        let moved = |narrow: bool, at: u64, apart: usize| at + (n * apart * kept_size(narrow, size)) as u64;
        let ProductDistance { a, b, y, bias } = self.apart;
        Self {
            a: DeviceMatrix { at: moved(self.a.narrow, self.a.at, a), ..self.a },
            b: DeviceMatrix { at: moved(self.b.narrow, self.b.at, b), ..self.b },
            y: moved(self.narrow, self.y, y),
            bias: self.bias.map(|at| moved(self.narrow, at, bias)),
            count: 1,
            apart: ProductDistance::default(),
            ..*self
        }
    }
}

/// A matrix in the device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceMatrix {
    /// Its first number.
    pub at: u64,
    /// From one row to the next.
    pub rows: usize,
    /// From one column to the next.
    pub columns: usize,
    /// Whether its numbers are kept in 16 bits.
    pub narrow: bool,
}

impl DeviceMatrix {
    /// A matrix of so many columns, row by row.
    pub fn straight(at: u64, columns: usize) -> Self {
        Self { at, rows: columns, columns: 1, narrow: false }
    }

    /// The transpose of a matrix of so many columns that lies there row by row.
    pub fn turned(at: u64, columns: usize) -> Self {
        Self { at, rows: 1, columns, narrow: false }
    }

    /// The same, kept in 16 bits if it is `narrow`.
    pub fn kept(self, narrow: bool) -> Self {
        Self { narrow, ..self }
    }
}

/// A piece of work inside the device, with everything that it is told: equal commands do the same to the same places.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DeviceCommand {
    /// A kernel.
    Launch {
        /// Its name.
        kernel: Rc<str>,
        /// Its blocks.
        shape: LaunchShape,
        /// What it is given.
        args: Vec<KernelArgument>,
    },
    /// A matrix product by the library of the device.
    Product(MatrixProduct),
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
    /// A block is handed out again: nobody needs what it holds, and only its first bytes are used. Devices that
    /// [watch](Device::watches) are told, in order with the commands; it changes nothing that may be relied on.
    Taken {
        /// The first.
        at: u64,
        /// How many.
        bytes: usize,
    },
}

impl DeviceCommand {
    /// Every address that it is given.
    pub fn addresses(&self) -> Vec<u64> {
        match self {
            Self::Launch { args, .. } => {
                let address =
                    |arg: &KernelArgument| if let KernelArgument::Address(at) = arg { Some(*at) } else { None };
                args.iter().filter_map(address).collect()
            }
            Self::Product(MatrixProduct { a, b, y, bias, .. }) => [a.at, b.at, *y].into_iter().chain(*bias).collect(),
            Self::Copy { from, to, .. } => vec![*from, *to],
            Self::Clear { at, .. } | Self::Taken { at, .. } => vec![*at],
        }
    }
}

/// A range of bytes in the device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRange {
    /// The first.
    pub at: u64,
    /// How many.
    pub bytes: usize,
}

/// A series of commands that a device has recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordedGraph(pub u64);

/// A kernel that is made for a plan.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GeneratedKernel {
    /// Its name, which says what it does: equal names are equal kernels.
    pub name: String,
    /// Its source.
    pub source: String,
}

/// The target for which kernels are generated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelTarget {
    /// What products are made of.
    pub precision: Precision,
    /// Whether kernels are made for the sizes of a plan, which are known to their compiler then.
    pub fixed_sizes: bool,
}

/// The memory of a device for arrays and libraries, in bytes: what its driver is left with does not count.
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
    fn target(&self) -> KernelTarget;
    /// How much memory there is; nothing where the device does not say.
    fn capacity(&self) -> Option<Capacity> {
        None
    }
    /// Makes the kernels of a plan ready, besides those that every plan has.
    fn prepare(&self, kernels: &[GeneratedKernel]);
    /// Takes memory, aligned to 256 bytes; never at address 0.
    ///
    /// # Errors
    /// Why there is none. That is no failure yet: whoever asks may give memory back, and ask again.
    fn allocate(&self, bytes: usize) -> Result<u64, String>;
    /// Waits for all work, and gives memory back.
    fn release(&self, at: u64, bytes: usize);
    /// Copies from the host; the bytes may change after the call.
    fn upload(&self, to: u64, from: &[u8]);
    /// Waits for all work, and copies to the host.
    fn download(&self, from: u64, to: &mut [u8]);
    /// Whether it has a library with a way to do such products; others are kernels.
    fn multiplies(&self, product: &MatrixProduct) -> bool;
    /// Whether it is told what becomes of its memory. A GPU is not; tests find reads of what nobody wrote so.
    fn watches(&self) -> bool {
        false
    }
    /// Starts a command.
    fn start(&self, command: &DeviceCommand);
    /// Whether series of commands that come again are recorded and replayed.
    fn records(&self) -> bool;
    /// Makes a series of commands, each of which was started before, ready to be started with one call. Nothing runs.
    fn record(&self, commands: &[DeviceCommand]) -> RecordedGraph;
    /// Starts a recorded series: the same commands with the same arguments.
    fn replay(&self, graph: RecordedGraph);
    /// Lets a recorded series go.
    fn forget(&self, graph: RecordedGraph);
    /// The first failure, if there was one.
    fn failure(&self) -> Option<String>;
}

/// Bytes of a number that may be narrow.
pub(super) fn kept_size(narrow: bool, size: usize) -> usize {
    if narrow { size_of::<u16>() } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A product of floats at these addresses.
    fn at(a: u64, b: u64, y: u64, bias: Option<u64>) -> MatrixProduct {
        MatrixProduct::new(DeviceMatrix::straight(a, 4), DeviceMatrix::turned(b, 4), y, [2, 8, 4]).biased(bias)
    }

    #[test]
    fn products_that_are_equally_far_apart_are_one() {
        let three = [0, 1, 2].map(|n| at(64, 4000 + 800 * n, 9000 + 256 * n, Some(20_000 + 40 * n)));
        let all = MatrixProduct::together(&three, 4).expect("they are");
        assert_eq!((all.count, all.apart), (3, ProductDistance { a: 0, b: 200, y: 64, bias: 10 }));
        assert_eq!([0, 1, 2].map(|n| all.member(n, 4)), three);
        assert_eq!(MatrixProduct::together(&three[..1], 4), None, "one is no bundle");
    }

    #[test]
    fn others_are_not() {
        let first = at(64, 4000, 9000, None);
        let of = |second: MatrixProduct| MatrixProduct::together(&[first, second], 4);
        assert!(of(at(0, 4800, 9256, None)).is_none(), "the left one lies before");
        assert!(of(at(64, 4802, 9256, None)).is_none(), "no number of floats");
        assert!(of(at(64, 4800, 9256, Some(8))).is_none(), "one has a bias");
        assert!(of(MatrixProduct { k: 3, ..at(64, 4800, 9256, None) }).is_none(), "another size");
        assert!(of(at(64, 4800, 9256, None)).is_some());
        let third = at(64, 5604, 9512, None);
        assert!(
            MatrixProduct::together(&[first, at(64, 4800, 9256, None), third], 4).is_none(),
            "the third is farther"
        );
    }
}
