//! One channel of packed rows convolved with its kernel, forward and backward. Its numbers lie together here: a column.
//!
//! Short rows use the direct sum, longer ones a Fourier transform of at least twice their length, which avoids wrap-around.
//! The length of the row alone determines method and size.
//!
//! Source: rtc; convolution by Fourier transforms: Gu et al. 2022 (S4D), arXiv:2206.11893.

use realfft::num_complex::Complex;

use super::super::Real;
use super::super::parallel::{lane_dot, vectorised};
use super::modes::{Powers, RUN, columns, factors};
use super::{DoubleComplex, KernelFamily, Scan, Side};
use crate::fourier;

/// Rows up to this length are convolved directly.
pub(super) const DIRECT: usize = 64;

/// Packed rows of which one channel is read at a time.
pub(super) struct ScanRows<'a> {
    /// Where each row begins, in positions.
    pub(super) offsets: &'a [usize],
    /// Side and lag.
    pub(super) how: Scan,
    /// One bit for every size of a transform that some row takes.
    present: u128,
}

impl<'a> ScanRows<'a> {
    /// Describes packed rows.
    pub(super) fn new(offsets: &'a [usize], how: Scan) -> Self {
        const { assert!(fourier::SIZES <= 128, "there is a bit for every size") };
        let sizes = offsets.windows(2).filter_map(|ends| transformed(ends[1] - ends[0]));
        Self { offsets, how, present: sizes.fold(0, |bits, n| bits | 1 << n) }
    }

    fn lengths(&self) -> impl Iterator<Item = usize> {
        self.offsets.windows(2).map(|ends| ends[1] - ends[0])
    }

    /// The rows whose length passes, as `(first position, length)`.
    fn of(&self, fits: impl Fn(usize) -> bool) -> impl Iterator<Item = (usize, usize)> {
        self.offsets.windows(2).map(|ends| (ends[0], ends[1] - ends[0])).filter(move |(_, length)| fits(*length))
    }

    /// Copies the row of a column, from the side that is seen and from position `from` on, to the front of `out`, and fills
    /// that up with zeros.
    fn gather<T: Real>(&self, (first, length): (usize, usize), column: &[T], from: usize, out: &mut [T]) {
        let count = length.saturating_sub(from);
        let (numbers, rest) = out.split_at_mut(count);
        match self.how.side {
            Side::Left => numbers.copy_from_slice(&column[first + length - count..first + length]),
            Side::Right => {
                numbers.iter_mut().zip(column[first..first + count].iter().rev()).for_each(|(out, x)| *out = *x);
            }
        }
        rest.fill(T::ZERO);
    }

    /// Writes `values` to the positions of the row from `from` on, counted from the side that is seen, and zeros before.
    fn scatter<T: Real>(&self, (first, length): (usize, usize), values: &[T], from: usize, column: &mut [T]) {
        let count = length.saturating_sub(from);
        let row = &mut column[first..first + length];
        match self.how.side {
            Side::Left => {
                row[..length - count].fill(T::ZERO);
                row[length - count..].copy_from_slice(&values[..count]);
            }
            Side::Right => {
                row[count..].fill(T::ZERO);
                row[..count].iter_mut().rev().zip(values).for_each(|(out, value)| *out = *value);
            }
        }
    }

    /// The numbers of the sizes of all rows that are transformed, each once.
    fn sizes(&self) -> impl Iterator<Item = usize> {
        (0..fourier::SIZES).filter(|n| self.present >> n & 1 == 1)
    }
}

/// The number of the transform's size for rows of a length, unless they are convolved directly.
fn transformed(length: usize) -> Option<usize> {
    (length > DIRECT).then(|| fourier::holding(2 * length))
}

/// Sizes of the scratch of a task.
pub(super) struct ScratchSize {
    modes: usize,
    /// Numbers of a kernel, a multiple of [`RUN`].
    pub(super) taps: usize,
    signal: usize,
    spectrum: usize,
    scratch: usize,
    backward: bool,
    /// Numbers of the working type in one double.
    per_double: usize,
}

/// The scratch for these rows.
pub(super) fn size<T: Real>(rows: &ScanRows<'_>, modes: usize, backward: bool) -> ScratchSize {
    let direct = rows.lengths().filter(|length| *length <= DIRECT).max().unwrap_or(0);
    let mut size = ScratchSize {
        modes,
        taps: direct,
        signal: direct,
        spectrum: 0,
        scratch: 0,
        backward,
        per_double: size_of::<f64>() / size_of::<T>(),
    };
    for n in rows.sizes() {
        let numbers = fourier::size(n);
        size.taps = size.taps.max(numbers / 2);
        size.signal = size.signal.max(numbers);
        size.spectrum = size.spectrum.max(numbers / 2 + 1);
        size.scratch = size.scratch.max(T::transform(n).scratch());
    }
    size.taps = size.taps.max(1).next_multiple_of(RUN);
    size
}

impl ScratchSize {
    /// Lengths of the parts that hold numbers of the working type, in the order of [`ConvolutionScratch::carve`].
    fn parts(&self) -> [usize; 12] {
        let backward = |len: usize| if self.backward { len } else { 0 };
        [
            2 * self.modes * RUN,
            backward(RUN * columns(self.modes)),
            factors(self.modes),
            self.taps,
            backward(self.taps),
            self.signal,
            self.signal,
            2 * self.spectrum,
            2 * self.spectrum,
            backward(2 * self.spectrum),
            backward(2 * self.spectrum),
            2 * self.scratch,
        ]
    }

    /// Doubles of all parts together.
    pub(super) fn total(&self) -> usize {
        10 * self.modes + self.parts().iter().map(|len| self.doubles(*len)).sum::<usize>()
    }

    /// Doubles that hold `len` numbers, in whole cache lines.
    pub(super) fn doubles(&self, len: usize) -> usize {
        len.div_ceil(self.per_double).next_multiple_of(8)
    }
}

/// The memory of a task, cut from its thread's scratch.
pub(super) struct ConvolutionScratch<'s, T> {
    /// Poles of the channel; after [`Self::differentiate`], their gradients.
    pub(super) poles: &'s mut [DoubleComplex],
    /// Weights of the channel; after [`Self::differentiate`], their gradients.
    pub(super) weights: &'s mut [DoubleComplex],
    /// Sums of [`Self::differentiate`].
    sums: &'s mut [DoubleComplex],
    powers: Powers<'s, T>,
    taps: &'s mut [T],
    /// Gradients of the taps.
    d_taps: &'s mut [T],
    signals: [&'s mut [T]; 2],
    /// Spectra: of the kernel, of a signal, of another signal, and a sum over rows.
    spectra: [&'s mut [Complex<T>]; 4],
    scratch: &'s mut [Complex<T>],
}

/// Cuts doubles off the front and takes them for `len` numbers of another type.
///
/// # Safety
/// Every pattern of bits is a value of `U`.
pub(super) unsafe fn cut<'s, U>(rest: &mut &'s mut [f64], doubles: usize, len: usize) -> &'s mut [U] {
    const { assert!(align_of::<U>() <= align_of::<f64>(), "doubles are aligned for it") };
    let (part, other) = std::mem::take(rest).split_at_mut(doubles);
    *rest = other;
    assert!(len * size_of::<U>() <= size_of_val(part), "the part holds the numbers");
    // SAFETY: the caller's promise; size and alignment fit, and the part is borrowed for as long as the result.
    unsafe { std::slice::from_raw_parts_mut(part.as_mut_ptr().cast(), len) }
}

impl<'s, T: Real> ConvolutionScratch<'s, T> {
    /// Cuts the scratch.
    pub(super) fn carve(mut rest: &'s mut [f64], size: &ScratchSize) -> Self {
        let rest = &mut rest;
        let modes = size.modes;
        // SAFETY: pairs of numbers.
        let [poles, weights, sums, jumps, running] =
            [(); 5].map(|()| unsafe { cut::<DoubleComplex>(rest, 2 * modes, modes) });
        let parts = size.parts();
        let [table, turned, factors, taps, d_taps, a, b] =
            // SAFETY: numbers.
            [0, 1, 2, 3, 4, 5, 6].map(|n| unsafe { cut::<T>(rest, size.doubles(parts[n]), parts[n]) });
        let [s0, s1, s2, s3, scratch] =
            // SAFETY: pairs of numbers.
            [7, 8, 9, 10, 11].map(|n| unsafe { cut::<Complex<T>>(rest, size.doubles(parts[n]), parts[n] / 2) });
        let powers = Powers { jumps, running, table, turned, factors };
        Self { poles, weights, sums, powers, taps, d_taps, signals: [a, b], spectra: [s0, s1, s2, s3], scratch }
    }

    /// Makes the kernel of a channel.
    pub(super) fn make(&mut self, family: &impl KernelFamily<T>, channel: usize) {
        family.write(channel, self.poles, self.weights);
        self.powers.fill(self.poles);
        self.powers.taps(self.weights, self.taps);
    }

    /// Turns the gradients of the taps into those of poles and weights, in the place of these.
    ///
    /// With `S0 = sum d[l] a^l` and `S1 = sum l d[l] a^(l-1)`, they are `2 conj(S0)` for w and `2 conj(w S1)` for a.
    pub(super) fn differentiate(&mut self) {
        let Self { poles, weights, sums, powers, d_taps, .. } = self;
        powers.evaluate(d_taps, sums);
        poles.copy_from_slice(sums);
        for l in 1..d_taps.len() {
            d_taps[l - 1] = d_taps[l] * T::from_f64(l as f64);
        }
        d_taps.last_mut().into_iter().for_each(|d| *d = T::ZERO);
        powers.evaluate(d_taps, sums);
        for ((pole, weight), s1) in poles.iter_mut().zip(weights.iter_mut()).zip(&**sums) {
            let s0 = *pole;
            *pole = (*weight * s1).conj() * 2.0;
            *weight = s0.conj() * 2.0;
        }
    }
}

/// Replaces a column by its scan.
pub(super) fn forward<T: Real>(rows: &ScanRows<'_>, work: &mut ConvolutionScratch<'_, T>, column: &mut [T]) {
    let lag = rows.how.lag;
    let ConvolutionScratch { taps, signals: [signal, result], spectra: [kernel, spectrum, ..], scratch, .. } = work;
    for row in rows.of(|length| length <= DIRECT) {
        let (signal, result) = (&mut signal[..row.1], &mut result[..row.1]);
        rows.gather(row, column, 0, signal);
        direct(taps, signal, result);
        rows.scatter(row, result, lag, column);
    }
    for n in rows.sizes() {
        let size = fourier::size(n);
        let (transform, half) = (T::transform(n), size / 2 + 1);
        let (signal, kernel, spectrum) = (&mut signal[..size], &mut kernel[..half], &mut spectrum[..half]);
        let scratch = &mut scratch[..transform.scratch()];
        kernel_spectrum(n, taps, signal, kernel, scratch);
        for row in rows.of(|length| transformed(length) == Some(n)) {
            rows.gather(row, column, 0, signal);
            transform.forward(signal, spectrum, scratch);
            multiply(spectrum, kernel);
            transform.inverse(spectrum, signal, scratch);
            rows.scatter(row, signal, lag, column);
        }
    }
}

/// Replaces the gradient of a scan by that of its input `x`, and leaves the gradients of the taps in the scratch.
pub(super) fn backward<T: Real>(rows: &ScanRows<'_>, work: &mut ConvolutionScratch<'_, T>, x: &[T], column: &mut [T]) {
    let lag = rows.how.lag;
    let ConvolutionScratch {
        taps,
        d_taps,
        signals: [signal, result],
        spectra: [kernel, spectrum, other, sum],
        scratch,
        ..
    } = work;
    d_taps.fill(T::ZERO);
    for row in rows.of(|length| length <= DIRECT) {
        // Two signals and a result do not fit two buffers: the kernel's gradient takes x, then x makes room.
        let (signal, result) = (&mut signal[..row.1], &mut result[..row.1]);
        rows.gather(row, x, 0, signal);
        rows.gather(row, column, lag, result);
        direct_taps(signal, result, d_taps);
        direct_back(taps, result, signal);
        rows.scatter(row, signal, 0, column);
    }
    for n in rows.sizes() {
        let size = fourier::size(n);
        let (transform, half) = (T::transform(n), size / 2 + 1);
        let signal = &mut signal[..size];
        let [kernel, spectrum, other, sum] =
            [&mut *kernel, &mut *spectrum, &mut *other, &mut *sum].map(|part| &mut part[..half]);
        let scratch = &mut scratch[..transform.scratch()];
        kernel_spectrum(n, taps, signal, kernel, scratch);
        sum.fill(Complex { re: T::ZERO, im: T::ZERO });
        let mut longest = 0;
        for row in rows.of(|length| transformed(length) == Some(n)) {
            rows.gather(row, x, 0, signal);
            transform.forward(signal, other, scratch);
            rows.gather(row, column, lag, signal);
            transform.forward(signal, spectrum, scratch);
            correlate(spectrum, other, kernel, sum);
            transform.inverse(spectrum, signal, scratch);
            rows.scatter(row, signal, 0, column);
            longest = longest.max(row.1);
        }
        transform.inverse(sum, signal, scratch);
        let share = T::from_f64(1.0 / size as f64);
        for (d, value) in d_taps[..longest].iter_mut().zip(&*signal) {
            *d += share * *value;
        }
    }
}

/// The spectrum of the first half of a transform's length of taps, divided by the size.
fn kernel_spectrum<T: Real>(
    n: usize,
    taps: &[T],
    signal: &mut [T],
    kernel: &mut [Complex<T>],
    scratch: &mut [Complex<T>],
) {
    let half = signal.len() / 2;
    let share = T::from_f64(1.0 / signal.len() as f64);
    for (signal, tap) in signal.iter_mut().zip(&taps[..half]) {
        *signal = *tap * share;
    }
    signal[half..].fill(T::ZERO);
    T::transform(n).forward(signal, kernel, scratch);
}

/// `x *= k`, number by number.
fn multiply<T: Real>(x: &mut [Complex<T>], k: &[Complex<T>]) {
    vectorised!({
        for (x, k) in x.iter_mut().zip(k) {
            *x = Complex { re: x.re * k.re - x.im * k.im, im: x.re * k.im + x.im * k.re };
        }
    });
}

/// `sum += dy conj(x)`, then `dy *= conj(k)`.
fn correlate<T: Real>(dy: &mut [Complex<T>], x: &[Complex<T>], k: &[Complex<T>], sum: &mut [Complex<T>]) {
    vectorised!({
        for (((d, x), k), sum) in dy.iter_mut().zip(x).zip(k).zip(sum) {
            sum.re += d.re * x.re + d.im * x.im;
            sum.im += d.im * x.re - d.re * x.im;
            *d = Complex { re: d.re * k.re + d.im * k.im, im: d.im * k.re - d.re * k.im };
        }
    });
}

/// `y[t] = sum over l of taps[l] x[t - l]`.
fn direct<T: Real>(taps: &[T], x: &[T], y: &mut [T]) {
    vectorised!({
        y.fill(T::ZERO);
        for (l, &tap) in taps[..x.len()].iter().enumerate() {
            for (y, &x) in y[l..].iter_mut().zip(x) {
                *y = tap.mul_add(x, *y);
            }
        }
    });
}

/// `dx[s] = sum over l of taps[l] dy[s + l]`.
fn direct_back<T: Real>(taps: &[T], dy: &[T], dx: &mut [T]) {
    vectorised!({
        dx.fill(T::ZERO);
        for (l, &tap) in taps[..dy.len()].iter().enumerate() {
            for (dx, &dy) in dx.iter_mut().zip(&dy[l..]) {
                *dx = tap.mul_add(dy, *dx);
            }
        }
    });
}

/// `d_taps[l] += sum over t of dy[t] x[t - l]`.
fn direct_taps<T: Real>(x: &[T], dy: &[T], d_taps: &mut [T]) {
    vectorised!({
        for (l, d) in d_taps[..x.len()].iter_mut().enumerate() {
            *d += lane_dot(&dy[l..], x);
        }
    });
}
