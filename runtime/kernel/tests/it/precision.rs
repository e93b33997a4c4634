//! Products of rounded operands: the numbers they are rounded to, and the same bits by pairs as by numbers.

use rtc_kernel::product::{Orientation, Packed, outer, product};
use rtc_kernel::{Precision, Write};

use crate::support::{filled, singles};

/// The nearest number with `bits` bits behind the point, by its definition: one of the two neighbours, of equally near ones the even.
fn nearest(x: f32, bits: u32) -> f32 {
    let step = 1_u32 << (23 - bits);
    let below = f32::from_bits(x.to_bits() / step * step);
    let above = f32::from_bits((x.to_bits() / step + 1) * step);
    let [to_below, to_above] = [below, above].map(|near| (f64::from(near) - f64::from(x)).abs());
    let even = (x.to_bits() / step).is_multiple_of(2);
    if to_below < to_above || (to_below == to_above && even) { below } else { above }
}

fn rounded(x: &[f32], precision: Precision) -> Vec<f32> {
    match precision {
        Precision::F32 => x.to_vec(),
        Precision::Tf32 => x.iter().map(|x| nearest(*x, 10)).collect(),
        Precision::Bf16 => x.iter().map(|x| nearest(*x, 7)).collect(),
    }
}

fn packed(w: &[f32], width: usize, orientation: Orientation, precision: Precision) -> Packed<f32> {
    let mut packed = Packed::default();
    packed.pack(w, width, orientation, precision);
    packed
}

#[track_caller]
fn same(a: &[f32], b: &[f32]) {
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!(a.to_bits() == b.to_bits(), "number {i}: {a} and {b}");
    }
}

#[test]
fn products_are_those_of_the_rounded_operands() {
    for precision in [Precision::Tf32, Precision::Bf16] {
        let small = [(1, 1, 1), (3, 7, 5), (9, 33, 40), (64, 128, 96), (70, 129, 33), (300, 65, 140), (257, 40, 300)];
        // Here operands are copied, which is a matter of speed.
        for (m, k, n) in small.into_iter().chain([(300, 520, 24), (513, 512, 139)]) {
            let (x, w, dy) = (singles("x", m * k), singles("w", n * k), singles("dy", m * n));
            let [x_, w_, dy_] = [&x, &w, &dy].map(|operand| rounded(operand, precision));
            assert!(x_ != x, "something was rounded");
            for write in [Write::Replace, Write::Add] {
                for (orientation, left, left_, inner, columns) in
                    [(Orientation::Transposed, &x, &x_, k, n), (Orientation::Straight, &dy, &dy_, n, k)]
                {
                    let (b, b_) = (packed(&w, k, orientation, precision), packed(&w_, k, orientation, Precision::F32));
                    let mut y = singles("old", m * columns);
                    let mut y_ = y.clone();
                    product(left, &b, &mut y, write);
                    product(left_, &b_, &mut y_, write);
                    same(&y, &y_);
                    assert_eq!(left.len(), m * inner);
                }
                let mut dw = singles("old", n * k);
                let mut dw_ = dw.clone();
                outer(&x, &dy, &mut dw, m, k, n, write, precision);
                outer(&x_, &dy_, &mut dw_, m, k, n, write, Precision::F32);
                same(&dw, &dw_);
            }
        }
    }
}

#[test]
fn what_is_no_number_stays_none_and_what_is_too_large_is_infinite() {
    let product_of = |x: f32, precision| {
        let b = packed(&[1.0; 8], 1, Orientation::Transposed, precision);
        filled(8, |y| product(&[x], &b, y, Write::Replace))[0]
    };
    for precision in [Precision::Tf32, Precision::Bf16] {
        for nan in [f32::NAN, -f32::NAN, f32::from_bits(0x7fff_ffff), f32::from_bits(0x7f80_0001)] {
            assert!(product_of(nan, precision).is_nan(), "{:x}", nan.to_bits());
        }
        assert_eq!(product_of(f32::INFINITY, precision), f32::INFINITY);
        assert_eq!(product_of(f32::MIN, precision), f32::NEG_INFINITY);
        assert_eq!(product_of(1.0 + 2.0_f32.powi(-12), precision), 1.0, "the nearest number");
        assert_eq!(product_of(-0.0, precision).abs(), 0.0);
    }
    // Two numbers equally near: the even one.
    assert_eq!(product_of(1.0 + 2.0_f32.powi(-8), Precision::Bf16), 1.0);
    assert_eq!(product_of(1.0 + 3.0 * 2.0_f32.powi(-8), Precision::Bf16), 1.0 + 4.0 * 2.0_f32.powi(-8));
}

#[test]
fn a_sum_of_minus_zero_stays_one() {
    // An odd number of rows and of inner indices: what stands behind the last one changes no sum.
    let (m, k, n) = (3, 5, 8);
    let (x, dy) = (vec![0.0; m * k], vec![-1.0; m * n]);
    let mut dw = vec![-0.0_f32; n * k];
    outer(&x, &dy, &mut dw, m, k, n, Write::Add, Precision::Bf16);
    assert!(dw.iter().all(|sum| sum.to_bits() == (-0.0_f32).to_bits()), "{dw:?}");
    let b = packed(&vec![-0.0; n * k], k, Orientation::Transposed, Precision::Bf16);
    let mut y = vec![-0.0_f32; n];
    product(&[1.0; 5], &b, &mut y, Write::Add);
    assert!(y.iter().all(|sum| sum.to_bits() == (-0.0_f32).to_bits()), "{y:?}");
}
