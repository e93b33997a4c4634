//! The products of linear maps, alone: rtc's kernels beside `gemm` and PyTorch, for the shapes of training steps.
#![allow(unsafe_code, reason = "blocks of rows write disjoint parts of a result")]

use std::time::Instant;

use rtc_base::rng::Key;
use rtc_kernel::parallel::{DisjointSlice, block, each};
use rtc_kernel::product::{Orientation, Packed, outer, product};
use rtc_kernel::{Precision, Write};
use serde::Serialize;

use crate::child::Child;
use crate::device::Place;
use crate::failure::Failure;
use crate::peak::{self, Matrix};
use crate::peer::Peer;
use crate::protocol::{Product, Request};
use crate::report::aligned;

/// The driver of the programs in PyTorch, beside this crate.
const DRIVER: &str = "products_peer.py";

/// Rows, inputs, outputs: of models of width 64 to 1,024, for batches, chunks and single rows.
const SHAPES: [[usize; 3]; 15] = [
    [10, 128, 512],
    [64, 128, 512],
    [320, 128, 128],
    [320, 128, 512],
    [320, 512, 128],
    [3200, 64, 256],
    [3200, 256, 64],
    [3200, 128, 128],
    [3200, 128, 512],
    [3200, 512, 128],
    [100, 512, 1024],
    [800, 512, 512],
    [800, 512, 1024],
    [800, 1024, 512],
    [800, 1024, 1024],
];
const TINY: [usize; 3] = [10, 32, 48];

/// Rows of a block of units, as training cuts them.
const ROWS: usize = 64;

/// What is multiplied, in the order of the answers.
const PRODUCTS: [&str; 3] = ["forward", "input", "weight"];

/// One shape. The rates, 10^9 operations per second, are those of the fastest run of each of [`PRODUCTS`].
#[derive(Clone, Debug, Serialize)]
struct Line {
    rows: usize,
    inputs: usize,
    outputs: usize,
    rtc: [f64; 3],
    /// Only in single precision.
    gemm: Option<[f64; 3]>,
    pytorch: Option<[f64; 3]>,
}

/// All of them on a number of threads.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Table {
    threads: usize,
    precision: &'static str,
    lines: Vec<Line>,
}

/// What is measured.
pub(crate) struct Wanted<'a> {
    /// One small shape, to see that it works.
    pub(crate) quick: bool,
    /// How often the programs change places.
    pub(crate) rounds: usize,
    /// The precision of the operands.
    pub(crate) place: Place,
    /// The programs in PyTorch.
    pub(crate) peer: Option<&'a Peer>,
}

/// Measures the table on so many threads.
///
/// # Errors
/// Programs that fail.
pub(crate) fn measure(wanted: &Wanted<'_>, threads: usize) -> Result<Table, Failure> {
    let precision = wanted.place.precision.into();
    let start = |peer: &Peer| Child::start("pytorch", &mut peer.command(DRIVER, threads, wanted.place));
    let mut child = wanted.peer.map(start).transpose()?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| Failure::Broken(error.to_string()))?;
    let shapes = if wanted.quick { &[TINY][..] } else { &SHAPES };
    let mut table = Table { threads, precision: Precision::name(precision), lines: vec![] };
    for &[rows, inputs, outputs] in shapes {
        let flop = 2.0 * (rows * inputs * outputs) as f64;
        let count = if wanted.quick { 1 } else { (1e9 / flop) as usize + 5 };
        let mut line = Line { rows, inputs, outputs, rtc: [0.0; 3], gemm: None, pytorch: None };
        let operands = Operands::new([rows, inputs, outputs], precision);
        for _ in 0..wanted.rounds {
            raise(&mut line.rtc, pool.install(|| operands.rates(count, Operands::rtc)));
            if precision == Precision::F32 {
                let rates = pool.install(|| operands.rates(count, Operands::gemm));
                raise(line.gemm.get_or_insert_default(), rates);
            }
            if let Some(child) = &mut child {
                let asked = Request::Product(Product { rows, inputs, outputs, count });
                let ms = child.ask(&asked)?.ms;
                let rates = std::array::from_fn(|n| flop * 1e-6 / ms.get(n).copied().unwrap_or(f64::INFINITY));
                raise(line.pytorch.get_or_insert_default(), rates);
            }
        }
        eprintln!("{}", line.cells().join("  "));
        table.lines.push(line);
    }
    Ok(table)
}

/// The larger rates.
fn raise(best: &mut [f64; 3], rates: [f64; 3]) {
    best.iter_mut().zip(rates).for_each(|(best, rate)| *best = best.max(rate));
}

/// The matrices of a linear map.
struct Operands {
    sizes: [usize; 3],
    precision: Precision,
    x: Vec<f32>,
    w: Vec<f32>,
    dy: Vec<f32>,
    packed: [Packed<f32>; 2],
}

impl Operands {
    fn new(sizes: [usize; 3], precision: Precision) -> Self {
        let [rows, inputs, outputs] = sizes;
        let numbers =
            |seed: u64, len: usize| -> Vec<f32> { (0..len as u64).map(|i| Key::new(seed).normal(i) as f32).collect() };
        let w = numbers(2, outputs * inputs);
        let packed = [Orientation::Transposed, Orientation::Straight].map(|orientation| {
            let mut packed = Packed::default();
            packed.pack(&w, inputs, orientation, precision);
            packed
        });
        Self { sizes, precision, x: numbers(1, rows * inputs), w, dy: numbers(3, rows * outputs), packed }
    }

    /// The best rate of every product.
    fn rates(&self, count: usize, run: impl Fn(&Self, usize, &mut [f32])) -> [f64; 3] {
        let [rows, inputs, outputs] = self.sizes;
        let flop = 2.0 * (rows * inputs * outputs) as f64;
        std::array::from_fn(|which| {
            let mut y = vec![0.0; [rows * outputs, rows * inputs, outputs * inputs][which]];
            let once = |_| {
                let start = Instant::now();
                run(self, which, std::hint::black_box(&mut y));
                start.elapsed().as_secs_f64()
            };
            flop * 1e-9 / (0..count).map(once).fold(f64::INFINITY, f64::min)
        })
    }

    /// A product by rtc: block of rows by block of rows, as groups do, with a weight that is packed; or a gradient of a weight.
    fn rtc(&self, which: usize, y: &mut [f32]) {
        let [rows, inputs, outputs] = self.sizes;
        let (x, inner, columns) = match which {
            0 => (&self.x, inputs, outputs),
            1 => (&self.dy, outputs, inputs),
            _ => return outer(&self.x, &self.dy, y, rows, inputs, outputs, Write::Replace, self.precision),
        };
        let y = DisjointSlice::new(y);
        each(rows.div_ceil(ROWS), rows * inner * columns / 4, |n| {
            let part = block(n, ROWS, rows);
            // SAFETY: the blocks are disjoint.
            let y = unsafe { y.part(part.start * columns..part.end * columns) };
            product(&x[part.start * inner..part.end * inner], &self.packed[which], y, Write::Replace);
        });
    }

    /// The same by `gemm`.
    fn gemm(&self, which: usize, y: &mut [f32]) {
        let [rows, inputs, outputs] = self.sizes;
        let [x, w, dy] =
            [(&self.x, inputs), (&self.w, inputs), (&self.dy, outputs)].map(|(of, width)| Matrix::new(of, width));
        let (sizes, a, b) = match which {
            0 => ([rows, outputs, inputs], x, w.turned()),
            1 => ([rows, inputs, outputs], dy, w),
            _ => ([outputs, inputs, rows], dy.turned(), x),
        };
        peak::product(sizes, a, b, y, rayon::current_num_threads());
    }
}

impl Line {
    /// The shape, and the rates of every product.
    fn cells(&self) -> Vec<String> {
        let mut cells = vec![format!("{} x {} x {}", self.rows, self.inputs, self.outputs)];
        let shown =
            |rates: Option<[f64; 3]>, n: usize| rates.map_or_else(|| "-".to_owned(), |r| format!("{:.0}", r[n]));
        for n in 0..PRODUCTS.len() {
            cells.extend([Some(self.rtc), self.gemm, self.pytorch].map(|rates| shown(rates, n)));
        }
        cells
    }
}

impl Table {
    /// A line for every shape.
    pub(crate) fn text(&self) -> String {
        let mut titles = vec!["rows x inputs x outputs".to_owned()];
        titles.extend(PRODUCTS.iter().flat_map(|of| ["rtc", "gemm", "pytorch"].map(|by| format!("{of} {by}"))));
        let rows: Vec<_> = std::iter::once(titles).chain(self.lines.iter().map(Line::cells)).collect();
        let title = format!("products in {}, GFLOP/s, {} threads", self.precision, self.threads);
        format!(
            "{title}: the fastest run of the product, and of the gradients of its input and its weight\n{}",
            aligned(&rows)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_products_are_those_of_gemm() {
        for sizes in [TINY, [70, 33, 130]] {
            let operands = Operands::new(sizes, Precision::F32);
            let [rows, inputs, outputs] = sizes;
            for (which, len) in [rows * outputs, rows * inputs, outputs * inputs].into_iter().enumerate() {
                let [mut ours, mut theirs] = [0, 1].map(|_| vec![f32::NAN; len]);
                operands.rtc(which, &mut ours);
                operands.gemm(which, &mut theirs);
                assert!(ours.iter().zip(&theirs).all(|(a, b)| (a - b).abs() < 1e-4), "{sizes:?}, {}", PRODUCTS[which]);
            }
        }
    }
}
