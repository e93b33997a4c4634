//! Numbers to test with, comparisons, and the finite-difference check of gradients.

use rtc_base::rng::Key;
use rtc_compiler::ir::pointwise::parse;
use rtc_kernel::linear::{self, NARROW};
use rtc_kernel::pointwise::MapProgram;
use rtc_kernel::product::{Orientation, Packed, product};
use rtc_kernel::{Precision, Real, Write};

/// The map `f` of some arrays.
pub(crate) fn map<T: Real>(f: &str, operands: &[&[T]], y: &mut [T]) {
    let program = MapProgram::new(&parse(f).expect("an expression"));
    program.run(operands, &mut [y], &mut vec![T::ZERO; program.scratch()]);
}

/// Odd sizes around the vector widths.
pub(crate) const SIZES: [usize; 4] = [1, 7, 17, 100];

/// Normal numbers, the same for the same name and length.
pub(crate) fn numbers(name: &str, len: usize) -> Vec<f64> {
    let key = Key::new(7).stream(name);
    (0..len as u64).map(|i| key.normal(i)).collect()
}

/// The same numbers in single precision.
pub(crate) fn singles(name: &str, len: usize) -> Vec<f32> {
    numbers(name, len).into_iter().map(|x| x as f32).collect()
}

/// Rows with these lengths, end to end.
pub(crate) fn offsets(lengths: &[usize]) -> Vec<usize> {
    let mut end = 0;
    std::iter::once(0)
        .chain(lengths.iter().map(|length| {
            end += length;
            end
        }))
        .collect()
}

/// Asserts that two arrays agree to `tolerance`, relative to 1 + their size.
#[track_caller]
pub(crate) fn close(got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len());
    for (i, (&got, &expected)) in got.iter().zip(expected).enumerate() {
        let error = (got - expected).abs() / (1.0 + expected.abs());
        assert!(error <= tolerance, "number {i}: {got} instead of {expected}");
    }
}

/// [`close`] for single precision.
#[track_caller]
pub(crate) fn close32(got: &[f32], expected: &[f64], tolerance: f64) {
    close(&got.iter().map(|&x| f64::from(x)).collect::<Vec<_>>(), expected, tolerance);
}

/// Checks `backward(inputs, dy)`, one gradient per input, against central differences of `forward(inputs)`.
#[track_caller]
pub(crate) fn check_gradients(
    inputs: &[Vec<f64>],
    forward: impl Fn(&[Vec<f64>]) -> Vec<f64>,
    backward: impl Fn(&[Vec<f64>], &[f64]) -> Vec<Vec<f64>>,
) {
    const STEP: f64 = 1e-5;
    let dy = numbers("upstream", forward(inputs).len());
    let grads = backward(inputs, &dy);
    assert_eq!(grads.len(), inputs.len());
    let loss = |inputs: &[Vec<f64>]| forward(inputs).iter().zip(&dy).map(|(y, dy)| y * dy).sum::<f64>();
    for (which, grad) in grads.iter().enumerate() {
        assert_eq!(grad.len(), inputs[which].len(), "gradient {which}");
        for (i, grad) in grad.iter().enumerate() {
            let moved = |by: f64| {
                let mut inputs = inputs.to_vec();
                inputs[which][i] += by;
                loss(&inputs)
            };
            let slope = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
            let error = (grad - slope).abs() / (1.0 + slope.abs());
            assert!(error < 1e-7, "gradient {which}, number {i}: {grad} instead of {slope}");
        }
    }
}

/// Collects what `run` writes into a fresh array of `len` numbers.
pub(crate) fn filled<T: Copy + Default>(len: usize, run: impl FnOnce(&mut [T])) -> Vec<T> {
    let mut out = vec![T::default(); len];
    run(&mut out);
    out
}

/// `y[., n] = x[., k] w[n, k]^T (+ bias)`.
pub(crate) fn linear_of<T: Real>(x: &[T], w: &[T], bias: Option<&[T]>, k: usize, y: &mut [T]) {
    if w.len() / k <= NARROW {
        return linear::narrow(x, w, k, bias, y);
    }
    let mut packed = Packed::default();
    packed.pack(w, k, Orientation::Transposed, Precision::F32);
    linear::linear(x, &packed, bias, y);
}

/// `dx[., k] (+)= dy[., n] w[n, k]`.
pub(crate) fn linear_back<T: Real>(dy: &[T], w: &[T], k: usize, dx: &mut [T], write: Write) {
    let mut packed = Packed::default();
    packed.pack(w, k, Orientation::Straight, Precision::F32);
    product(dy, &packed, dx, write);
}
