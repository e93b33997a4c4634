//! Inverted dropout whose mask is a pure function of a row's key and the index in the row.
//!
//! Number `n` of a row belongs to 16 bits of the draw `key.bits(n / 4)`, from the lowest for `n % 4 = 0` to the highest. The
//! number is kept if they, as an integer, are at least `t = round(p 2^16)`: the probability is a multiple of 2^-16, and the
//! factor of kept numbers is that of this probability, `1 / (1 - t 2^-16)`, so nothing is biased. The gradient is the same
//! call on the upstream gradient, and a row keeps its mask when other rows leave the batch.
//!
//! Source: Srivastava et al. 2014, JMLR 15.

use super::Real;
use super::parallel::vectorised;
use rtc_base::rng::Key;

/// Numbers of one draw.
const PER_DRAW: usize = 4;

/// Numbers whose factors are drawn at a time: whole draws.
const DRAWN: usize = 128;

/// Factors held between drawing and use: whole draws, too.
const BUFFER: usize = 1024;

/// The factors of dropout: 0 with the given probability, else `1 / (1 - p)`.
#[derive(Clone, Copy, Debug)]
pub struct Keep<T> {
    threshold: u32,
    factor: T,
}

impl<T: Real> Keep<T> {
    /// Dropout with probability `p`, rounded to a multiple of 2^-16; everything goes at 1 and above.
    pub fn new(p: f64) -> Self {
        /// Number of values of 16 bits.
        const VALUES: f64 = 65_536.0;
        let threshold = (p * VALUES).round().clamp(0.0, VALUES);
        let factor = if threshold < VALUES { VALUES / (VALUES - threshold) } else { 0.0 };
        Self { threshold: threshold as u32, factor: T::from_f64(factor) }
    }

    /// Of 16 bits, the value below which a number goes.
    pub fn threshold(self) -> u32 {
        self.threshold
    }

    /// The factor of numbers that are kept.
    pub fn factor(self) -> T {
        self.factor
    }

    /// Writes the factors of numbers `start..` of the row `key`. `start` is a multiple of 4.
    #[inline(never)]
    pub(super) fn factors(self, key: Key, start: usize, out: &mut [T]) {
        debug_assert!(start.is_multiple_of(PER_DRAW));
        vectorised!({
            for (i, out) in out.chunks_mut(DRAWN).enumerate() {
                self.some_factors(key, ((start + i * DRAWN) / PER_DRAW) as u64, out);
            }
        });
    }

    /// At most [`DRAWN`] factors from draw `first` on.
    #[inline(always)]
    fn some_factors(self, key: Key, first: u64, out: &mut [T]) {
        let mut draws = [0_u64; DRAWN / PER_DRAW];
        for (i, draw) in draws[..out.len().div_ceil(PER_DRAW)].iter_mut().enumerate() {
            *draw = key.bits(first + i as u64).to_le();
        }
        // SAFETY: the same bytes, read as four times as many integers of a quarter of the size, the lowest first.
        let parts = unsafe { &*draws.as_ptr().cast::<[u16; DRAWN]>() };
        for (out, &part) in out.iter_mut().zip(parts) {
            *out = if u32::from(u16::from_le(part)) >= self.threshold { self.factor } else { T::ZERO };
        }
    }
}

/// `y = x factor` for the numbers `start..` of one row, on the calling thread.
pub fn dropout<T: Real>(x: &[T], keep: Keep<T>, key: Key, start: usize, y: &mut [T]) {
    debug_assert_eq!(x.len(), y.len());
    let mut factors = [T::ZERO; BUFFER];
    // A piece may begin inside a draw.
    let mut skip = start % PER_DRAW;
    let mut done = 0;
    while done < y.len() {
        let count = (BUFFER - skip).min(y.len() - done);
        keep.factors(key, start + done - skip, &mut factors[..count + skip]);
        let (y, x, factors) = (&mut y[done..done + count], &x[done..done + count], &factors[skip..count + skip]);
        vectorised!(y.iter_mut().zip(x).zip(factors).for_each(|((y, &x), &f)| *y = x * f));
        done += count;
        skip = 0;
    }
}

/// `y = x factor` for some positions of `width` channels of one row, with the factors of its first `width` numbers for every
/// position: whole channels of the row go.
pub fn tied_dropout<T: Real>(x: &[T], keep: Keep<T>, key: Key, width: usize, y: &mut [T]) {
    debug_assert!(x.len() == y.len() && x.len().is_multiple_of(width));
    let mut factors = [T::ZERO; BUFFER];
    for start in (0..width).step_by(BUFFER) {
        let count = BUFFER.min(width - start);
        keep.factors(key, start, &mut factors[..count]);
        vectorised!({
            for (y, x) in y.chunks_exact_mut(width).zip(x.chunks_exact(width)) {
                let part = start..start + count;
                y[part.clone()].iter_mut().zip(&x[part]).zip(&factors).for_each(|((y, &x), &f)| *y = x * f);
            }
        });
    }
}
