//! Softmax over channels and positions, and all channels in one number.

use rtc_compiler::ir::attribute::Reduction;
use rtc_kernel::channels::{broadcast, reduce, reduce_max_grad};
use rtc_kernel::softmax::{softmax, softmax_along, softmax_along_grad, softmax_grad};

use crate::support::{SIZES, check_gradients, close, close32, filled, numbers, offsets, singles};

fn reference(x: &[f64]) -> Vec<f64> {
    let sum: f64 = x.iter().map(|x| x.exp()).sum();
    x.iter().map(|x| x.exp() / sum).collect()
}

#[test]
fn softmax_equals_the_definition() {
    for d in SIZES {
        let x = numbers("x", 9 * d);
        let expected: Vec<f64> = x.chunks_exact(d).flat_map(reference).collect();
        close(&filled(9 * d, |y| softmax(&x, d, y)), &expected, 1e-14);
        close32(&filled(9 * d, |y| softmax(&singles("x", 9 * d), d, y)), &expected, 1e-6);
    }
    let starts = offsets(&[3, 0, 40, 1]);
    let x = numbers("x", 44);
    let expected: Vec<f64> = starts.windows(2).flat_map(|row| reference(&x[row[0]..row[1]])).collect();
    close(&filled(44, |y| softmax_along(&x, &starts, y)), &expected, 1e-14);
    close32(&filled(44, |y| softmax_along(&singles("x", 44), &starts, y)), &expected, 1e-6);
}

#[test]
fn softmax_of_large_numbers() {
    let of = |x: &[f32]| filled(x.len(), |y| softmax(x, x.len(), y));
    assert_eq!(of(&[1e30, 1e30, -1e30, f32::NEG_INFINITY]), [0.5, 0.5, 0.0, 0.0]);
    assert_eq!(of(&[-1e30]), [1.0]);
    assert!(of(&[0.0, f32::NAN, 1.0]).iter().all(|y| y.is_nan()));
}

#[test]
fn gradients_of_softmax() {
    for (m, d) in [(1, 1), (4, 3), (2, 33)] {
        let forward = |x: &[f64]| filled(m * d, |y| softmax(x, d, y));
        check_gradients(
            &[numbers("x", m * d)],
            |v| forward(&v[0]),
            |v, dy| vec![filled(m * d, |dx| softmax_grad(&forward(&v[0]), dy, d, dx))],
        );
    }
    let starts = offsets(&[3, 0, 20, 1]);
    let forward = |x: &[f64]| filled(24, |y| softmax_along(x, &starts, y));
    check_gradients(
        &[numbers("x", 24)],
        |v| forward(&v[0]),
        |v, dy| vec![filled(24, |dx| softmax_along_grad(&forward(&v[0]), dy, &starts, dx))],
    );
}

#[test]
fn channels_in_one_number() {
    for d in SIZES {
        let x = numbers("x", 9 * d);
        let of = |by| filled(9, |y| reduce(&x, d, by, y));
        let each = |f: &dyn Fn(&[f64]) -> f64| x.chunks_exact(d).map(f).collect::<Vec<f64>>();
        close(&of(Reduction::Sum), &each(&|x| x.iter().sum()), 1e-13);
        close(&of(Reduction::Mean), &each(&|x| x.iter().sum::<f64>() / d as f64), 1e-13);
        assert_eq!(of(Reduction::Max), each(&|x| x.iter().copied().fold(f64::NEG_INFINITY, f64::max)));
        check_gradients(
            std::slice::from_ref(&x),
            |v| filled(9, |y| reduce(&v[0], d, Reduction::Max, y)),
            |v, dy| vec![filled(9 * d, |dx| reduce_max_grad(dy, &v[0], d, dx))],
        );
        check_gradients(
            std::slice::from_ref(&x),
            |v| filled(9, |y| reduce(&v[0], d, Reduction::Sum, y)),
            |_, dy| vec![filled(9 * d, |dx| broadcast(dy, d, dx))],
        );
    }
    let max = |x: &[f32]| filled(1, |y| reduce(x, x.len(), Reduction::Max, y))[0];
    assert!(max(&[1.0, f32::NAN, 3.0]).is_nan());
    assert_eq!(max(&[f32::NEG_INFINITY; 3]), f32::NEG_INFINITY);
    let first = filled(3, |dx| reduce_max_grad(&[2.0_f32], &[1.0, 5.0, 5.0], 3, dx));
    assert_eq!(first, [0.0, 2.0, 0.0], "the first of equal ones");
}
