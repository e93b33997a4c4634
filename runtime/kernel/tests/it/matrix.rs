//! Products of the matrices of every unit, and sines and cosines of numbers.

use rtc_compiler::ir::attribute::Side;
use rtc_kernel::matrix::multiply;
use rtc_kernel::position::{Layout, Waves, sinusoid, sinusoid_grad};

use crate::support::{check_gradients, close, filled, numbers};

const UNITS: usize = 5;

/// `x[rows, columns]` of every unit the other way round.
fn turned(x: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    let unit = |x: &[f64]| {
        (0..columns).flat_map(|c| (0..rows).map(move |r| (r, c))).map(|(r, c)| x[r * columns + c]).collect::<Vec<_>>()
    };
    x.chunks_exact(rows * columns).flat_map(unit).collect()
}

#[test]
fn every_number_is_a_sum_of_products() {
    for sizes @ [rows, inner, columns] in [[1, 1, 1], [2, 3, 4], [4, 1, 7], [1, 5, 2], [3, 40, 3]] {
        let (a, b) = (numbers("a", UNITS * rows * inner), numbers("b", UNITS * inner * columns));
        let straight = filled(UNITS * rows * columns, |y| multiply(&a, &b, None, sizes, y));
        let mut expected = vec![];
        for unit in 0..UNITS {
            for row in 0..rows {
                for column in 0..columns {
                    let term = |n: usize| a[(unit * rows + row) * inner + n] * b[(unit * inner + n) * columns + column];
                    expected.push((0..inner).map(term).sum());
                }
            }
        }
        close(&straight, &expected, 1e-14);
        let left = turned(&a, rows, inner);
        close(&filled(expected.len(), |y| multiply(&left, &b, Some(Side::Left), sizes, y)), &expected, 1e-14);
        let right = turned(&b, inner, columns);
        close(&filled(expected.len(), |y| multiply(&a, &right, Some(Side::Right), sizes, y)), &expected, 1e-14);
    }
}

#[test]
fn sines_and_cosines_of_numbers() {
    let n = numbers("n", 6);
    for layout in [Layout::Pairs, Layout::Half] {
        for width in [1, 4, 5] {
            let waves = Waves { layout, base: 100.0 };
            let y = filled(n.len() * width, |y| sinusoid(&n, waves, y));
            let w = |k: usize| 100_f64.powf(-2.0 * k as f64 / width as f64);
            for (n, y) in n.iter().zip(y.chunks_exact(width)) {
                for k in 0..width / 2 {
                    let (sine, cosine) = match layout {
                        Layout::Pairs => (y[2 * k], y[2 * k + 1]),
                        Layout::Half => (y[k], y[width.div_ceil(2) + k]),
                    };
                    close(&[sine, cosine], &[(n * w(k)).sin(), (n * w(k)).cos()], 1e-14);
                }
            }
            check_gradients(
                std::slice::from_ref(&n),
                |v| filled(n.len() * width, |y| sinusoid(&v[0], waves, y)),
                |v, dy| vec![filled(n.len(), |dn| sinusoid_grad(dy, &v[0], waves, dn))],
            );
        }
    }
}
