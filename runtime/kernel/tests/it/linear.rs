//! Linear maps, norms, column sums.

use rtc_kernel::linear::column_sum;
use rtc_kernel::norm::{layer_norm, layer_norm_grad, rms_norm, rms_norm_grad};
use rtc_kernel::product::outer;
use rtc_kernel::{Precision, Real, Write};

use crate::support::{SIZES, check_gradients, close, close32, filled, linear_back, linear_of, numbers, singles};

fn reference(x: &[f64], w: &[f64], m: usize, k: usize, n: usize) -> Vec<f64> {
    (0..m * n).map(|i| (0..k).map(|t| x[i / n * k + t] * w[i % n * k + t]).sum()).collect()
}

fn plus<'a>(a: &[f64], b: impl IntoIterator<Item = &'a f64>) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

#[test]
fn linear_equals_the_definition() {
    for m in SIZES {
        for (k, n) in [(1, 1), (7, 17), (17, 3), (100, 7), (16, 100), (600, 5), (600, 2)] {
            let (x, w, bias) = (numbers("x", m * k), numbers("w", n * k), numbers("b", n));
            let product = reference(&x, &w, m, k, n);
            let expected = plus(&product, bias.iter().cycle());
            close(&filled(m * n, |y| linear_of(&x, &w, None, k, y)), &product, 1e-13);
            close(&filled(m * n, |y| linear_of(&x, &w, Some(&bias), k, y)), &expected, 1e-13);
            let (x, w, bias) = (singles("x", m * k), singles("w", n * k), singles("b", n));
            close32(&filled(m * n, |y| linear_of(&x, &w, Some(&bias), k, y)), &expected, 2e-5);
        }
    }
}

#[test]
fn linear_gradients() {
    for (m, k, n) in [(1, 1, 1), (7, 5, 3), (3, 17, 7), (9, 33, 40)] {
        check_gradients(
            &[numbers("x", m * k), numbers("w", n * k), numbers("b", n)],
            |v| filled(m * n, |y| linear_of(&v[0], &v[1], Some(&v[2]), k, y)),
            |v, dy| {
                vec![
                    filled(m * k, |dx| linear_back(dy, &v[1], k, dx, Write::Replace)),
                    filled(n * k, |dw| outer(&v[0], dy, dw, m, k, n, Write::Replace, Precision::F32)),
                    filled(n, |db| column_sum(dy, db, m, n, Write::Replace)),
                ]
            },
        );
    }
}

#[test]
fn gradients_add_or_replace() {
    let (m, k, n) = (200, 17, 40);
    let (x, w, dy) = (numbers("x", m * k), numbers("w", n * k), numbers("dy", m * n));
    let both = |len: usize, run: &dyn Fn(&mut [f64], Write)| {
        let old = numbers("old", len);
        let (mut replaced, mut added) = (old.clone(), old.clone());
        run(&mut replaced, Write::Replace);
        run(&mut added, Write::Add);
        close(&added, &plus(&replaced, &old), 1e-12);
        replaced
    };
    let dx = both(m * k, &|dx, write| linear_back(&dy, &w, k, dx, write));
    let dw = both(n * k, &|dw, write| outer(&x, &dy, dw, m, k, n, write, Precision::F32));
    let db = both(n, &|db, write| column_sum(&dy, db, m, n, write));
    let column = |a: &[f64], width: usize, c: usize| a.iter().skip(c).step_by(width).copied().collect::<Vec<_>>();
    close(&db, &(0..n).map(|c| column(&dy, n, c).iter().sum()).collect::<Vec<f64>>(), 1e-12);
    let transposed: Vec<f64> = (0..k).flat_map(|t| column(&w, k, t)).collect();
    close(&dx, &reference(&dy, &transposed, m, n, k), 1e-12);
    let turn = |a: &[f64], width: usize| (0..width).flat_map(|c| column(a, width, c)).collect::<Vec<_>>();
    close(&dw, &reference(&turn(&dy, n), &turn(&x, k), n, m, k), 1e-12);
}

#[test]
fn no_rows_leave_nothing() {
    let w = singles("w", 6);
    linear_of::<f32>(&[], &w, None, 3, &mut []);
    linear_back::<f32>(&[], &w, 3, &mut [], Write::Replace);
    let mut dw = [5.0_f32; 6];
    outer::<f32>(&[], &[], &mut dw, 0, 3, 2, Write::Add, Precision::F32);
    assert_eq!(dw, [5.0; 6]);
    outer::<f32>(&[], &[], &mut dw, 0, 3, 2, Write::Replace, Precision::F32);
    assert_eq!(dw, [0.0; 6]);
    let mut db = [5.0_f32; 2];
    column_sum::<f32>(&[], &mut db, 0, 2, Write::Replace);
    assert_eq!(db, [0.0; 2]);
}

/// What halting relies on: leaving rows out changes no bit of the others.
#[test]
fn rows_do_not_depend_on_their_neighbours() {
    for (k, n) in [(128, 64), (16, 5), (2, 9), (1, 20), (3, 5), (700, 40), (700, 3), (64, 1), (64, 300)] {
        let m = 300;
        let (x, w, dy) = (singles("x", m * k), singles("w", n * k), singles("dy", m * n));
        let all = filled(m * n, |y| linear_of(&x, &w, None, k, y));
        let all_dx = filled(m * k, |dx| linear_back(&dy, &w, k, dx, Write::Replace));
        for count in [1, 2, 3, 5, 8, 15, 16, 17, 33, 64, 257] {
            let first = 299 - count;
            let (x, dy) = (&x[first * k..(first + count) * k], &dy[first * n..(first + count) * n]);
            let y = filled(count * n, |y| linear_of(x, &w, None, k, y));
            assert!(y == all[first * n..(first + count) * n], "{count} rows of [{k}, {n}]");
            let dx = filled(count * k, |dx| linear_back(dy, &w, k, dx, Write::Replace));
            assert!(dx == all_dx[first * k..(first + count) * k], "gradient of {count} rows of [{k}, {n}]");
        }
    }
}

fn norm_reference(x: &[f64], gain: &[f64], bias: &[f64], eps: f64) -> Vec<f64> {
    let d = gain.len() as f64;
    x.chunks_exact(gain.len())
        .flat_map(|x| {
            let mean = x.iter().sum::<f64>() / d;
            let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / d;
            let normal = x.iter().zip(gain).zip(bias);
            normal.map(|((x, g), b)| (x - mean) / (variance + eps).sqrt() * g + b).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn layer_norm_equals_the_definition() {
    for d in SIZES {
        for m in [1, 7, 130] {
            let (x, gain, bias) = (numbers("x", m * d), numbers("gain", d), numbers("bias", d));
            let expected = norm_reference(&x, &gain, &bias, 1e-5);
            close(&filled(m * d, |y| layer_norm(&x, &gain, Some(&bias), 1e-5, y)), &expected, 1e-12);
            let (x, gain, bias) = (singles("x", m * d), singles("gain", d), singles("bias", d));
            close32(&filled(m * d, |y| layer_norm(&x, &gain, Some(&bias), 1e-5, y)), &expected, 1e-5);
        }
    }
}

#[test]
fn layer_norm_gradients() {
    for (m, d) in [(3, 2), (5, 7), (70, 3), (2, 17), (1, 33)] {
        check_gradients(
            &[numbers("x", m * d), numbers("gain", d), numbers("bias", d)],
            |v| filled(m * d, |y| layer_norm(&v[0], &v[1], Some(&v[2]), 1e-3, y)),
            |v, dy| {
                let (mut dx, mut dgain, mut dbias) = (vec![9.0; m * d], vec![0.0; d], vec![0.0; d]);
                layer_norm_grad(&v[0], &v[1], dy, 1e-3, &mut dx, &mut dgain, &mut dbias);
                vec![dx, dgain, dbias]
            },
        );
    }
}

#[test]
fn without_a_bias_none_is_added() {
    let (m, d) = (9, 17);
    let (x, gain, nothing) = (singles("x", m * d), singles("gain", d), vec![0.0; d]);
    let of = |bias| filled(m * d, |y| layer_norm(&x, &gain, bias, 1e-5, y));
    assert_eq!(of(None), of(Some(&nothing[..])));
}

fn rms_reference(x: &[f64], d: usize, gain: &[f64], eps: f64) -> Vec<f64> {
    let rows = x.chunks_exact(d).flat_map(|x| {
        let mean = x.iter().map(|x| x * x).sum::<f64>() / d as f64;
        x.iter().zip(gain).map(move |(x, g)| x / (mean + eps).sqrt() * g)
    });
    rows.collect()
}

#[test]
fn rms_norm_equals_the_definition() {
    for d in SIZES {
        for m in [1, 7, 130] {
            let (x, gain, ones) = (numbers("x", m * d), numbers("gain", d), vec![1.0; d]);
            let (with, without) = (rms_reference(&x, d, &gain, 1e-5), rms_reference(&x, d, &ones, 1e-5));
            close(&filled(m * d, |y| rms_norm(&x, d, Some(&gain), 1e-5, y)), &with, 1e-12);
            close(&filled(m * d, |y| rms_norm(&x, d, None, 1e-5, y)), &without, 1e-12);
            let (x, gain) = (singles("x", m * d), singles("gain", d));
            close32(&filled(m * d, |y| rms_norm(&x, d, Some(&gain), 1e-5, y)), &with, 1e-5);
        }
    }
}

#[test]
fn rms_norm_gradients() {
    for (m, d) in [(3, 2), (5, 7), (70, 3), (2, 17), (1, 33)] {
        check_gradients(
            &[numbers("x", m * d), numbers("gain", d)],
            |v| filled(m * d, |y| rms_norm(&v[0], d, Some(&v[1]), 1e-3, y)),
            |v, dy| {
                let (mut dx, mut dgain) = (vec![9.0; m * d], vec![0.0; d]);
                rms_norm_grad(&v[0], dy, d, Some(&v[1]), 1e-3, &mut dx, &mut dgain);
                vec![dx, dgain]
            },
        );
        check_gradients(
            &[numbers("x", m * d)],
            |v| filled(m * d, |y| rms_norm(&v[0], d, None, 1e-3, y)),
            |v, dy| vec![filled(m * d, |dx| rms_norm_grad(&v[0], dy, d, None, 1e-3, dx, &mut []))],
        );
    }
}

#[test]
fn a_constant_row_normalises_to_the_bias() {
    let y = filled(4, |y| layer_norm(&[f32::ONE; 4], &[2.0; 4], Some(&[0.5; 4]), 1e-5, y));
    assert_eq!(y, [0.5; 4]);
}
