//! Elementwise kernels, gates, units, dropout.

use rtc_runtime::kernel::dropout::{Keep, dropout};
use rtc_runtime::kernel::elementwise as el;
use rtc_runtime::kernel::gate::{Gated, GatedGrad, gate, gate_grad, lerp, lerp_grad};
use rtc_runtime::kernel::unit::{Groups, add_scaled, add_scaled_assign, dot_unit, mul_unit};
use rtc_runtime::rng::Key;

use crate::support::{SIZES, check_gradients, close, close32, filled, numbers, offsets, singles};

type Map<T> = fn(&[T], &mut [T]);
type Definition = fn(f64) -> f64;

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[test]
fn unary_maps_equal_the_definition() {
    let cases: [(Map<f64>, Map<f32>, Definition); 3] = [
        (el::gelu, el::gelu, |x| 0.5 * x * (1.0 + libm::erf(x / 2_f64.sqrt()))),
        (el::relu, el::relu, |x| x.max(0.0)),
        (el::sigmoid, el::sigmoid, sigmoid),
    ];
    for (double, single, reference) in cases {
        for len in SIZES {
            let x = numbers("x", len);
            let expected: Vec<f64> = x.iter().map(|&x| reference(x)).collect();
            close(&filled(len, |y| double(&x, y)), &expected, 1e-14);
            close32(&filled(len, |y| single(&singles("x", len), y)), &expected, 1e-6);
        }
        assert!(filled(1, |y| single(&[f32::NAN], y))[0].is_nan());
    }
}

#[test]
fn unary_gradients() {
    type Grad = fn(&[f64], &[f64], &mut [f64]);
    let from_input: [(Map<f64>, Grad); 2] = [(el::gelu, el::gelu_grad), (el::relu, el::relu_grad)];
    let x = numbers("x", 41);
    for (forward, grad) in from_input {
        let run = |v: &[Vec<f64>]| filled(41, |y| forward(&v[0], y));
        check_gradients(std::slice::from_ref(&x), run, |v, dy| vec![filled(41, |dx| grad(&v[0], dy, dx))]);
    }
    let run = |v: &[Vec<f64>]| filled(41, |y| el::sigmoid(&v[0], y));
    check_gradients(&[x], run, |v, dy| vec![filled(41, |dx| el::sigmoid_grad(&run(v), dy, dx))]);
}

#[test]
fn arithmetic() {
    let (a, b) = (singles("a", 37), singles("b", 37));
    let pairs = |f: fn(f32, f32) -> f32| a.iter().zip(&b).map(|(&a, &b)| f(a, b)).collect::<Vec<_>>();
    let assigned = |run: &dyn Fn(&mut [f32])| {
        let mut y = a.clone();
        run(&mut y);
        y
    };
    assert_eq!(filled(37, |y| el::add(&a, &b, y)), pairs(|a, b| a + b));
    assert_eq!(filled(37, |y| el::sub(&a, &b, y)), pairs(|a, b| a - b));
    assert_eq!(filled(37, |y| el::mul(&a, &b, y)), pairs(|a, b| a * b));
    assert_eq!(filled(37, |y| el::div(&a, &b, y)), pairs(|a, b| a / b));
    assert_eq!(filled(37, |y| el::scale(&a, 3.0, y)), pairs(|a, _| 3.0 * a));
    assert_eq!(filled(37, |y| el::add_scalar(&a, 3.0, y)), pairs(|a, _| a + 3.0));
    assert_eq!(assigned(&|y| el::add_assign(y, &b)), pairs(|a, b| a + b));
    assert_eq!(assigned(&|y| el::scale_assign(y, 3.0)), pairs(|a, _| 3.0 * a));
}

#[test]
fn gate_gradients() {
    for len in SIZES {
        let inputs = [numbers("z", len), numbers("u", len), numbers("h", len)];
        let (z, u, h) = (&inputs[0], &inputs[1], &inputs[2]);
        let mixed: Vec<f64> = (0..len).map(|i| sigmoid(z[i]) * u[i] + (1.0 - sigmoid(z[i])) * h[i]).collect();
        close(&filled(len, |y| gate(z, u, h, y)), &mixed, 1e-14);
        type Backward = fn(Gated<f64>, &[f64], GatedGrad<f64>);
        type Forward = fn(&[f64], &[f64], &[f64], &mut [f64]);
        let cases: [(Forward, Backward); 2] = [(lerp, lerp_grad), (gate, gate_grad)];
        for (forward, backward) in cases {
            check_gradients(
                &inputs,
                |v| filled(len, |y| forward(&v[0], &v[1], &v[2], y)),
                |v, dy| {
                    let mut grads = vec![vec![0.0; len]; 3];
                    let [gate, update, state] = grads.as_mut_slice() else { unreachable!("three gradients") };
                    let inputs = Gated { gate: &v[0], update: &v[1], state: &v[2] };
                    backward(inputs, dy, GatedGrad { gate, update, state });
                    grads
                },
            );
        }
    }
}

#[test]
fn units_own_their_scalars() {
    let starts = offsets(&[3, 0, 5, 1]);
    for (groups, len) in [(Groups::Uniform(4), 20), (Groups::Uniform(1), 7), (Groups::Offsets(&starts, 7), 63)] {
        let units = groups.units(len);
        let (x, q, s) = (numbers("x", len), numbers("q", len), numbers("s", units));
        check_gradients(
            &[x.clone(), s.clone()],
            |v| filled(len, |y| mul_unit(&v[0], &v[1], groups, y)),
            |v, dy| {
                let ds = filled(units, |ds| dot_unit(dy, &v[0], groups, ds));
                vec![filled(len, |dx| mul_unit(dy, &v[1], groups, dx)), ds]
            },
        );
        let scaled = filled(len, |y| mul_unit(&x, &s, groups, y));
        let expected: Vec<f64> = scaled.iter().zip(&q).map(|(x, q)| x + q).collect();
        close(&filled(len, |y| add_scaled(&q, &x, &s, groups, y)), &expected, 1e-14);
        let mut y = q.clone();
        add_scaled_assign(&mut y, &x, &s, groups);
        close(&y, &expected, 1e-14);
    }
}

#[test]
fn dropout_masks_follow_the_key_and_the_index() {
    let key = Key::new(1).at(3);
    let len = 40_001;
    let keep = Keep::new(0.25);
    let y = filled(len, |y| dropout(&vec![1.0_f32; len], keep, key, 0, y));
    for (n, &y) in y.iter().enumerate() {
        let part = (key.bits(n as u64 / 4) >> (16 * (n % 4))) as u16;
        assert_eq!(y, if part >= 1 << 14 { 1.0 / 0.75 } else { 0.0 }, "number {n}");
    }
    let kept = y.iter().filter(|&&y| y > 0.0).count() as f64 / len as f64;
    assert!((kept - 0.75).abs() < 0.01, "kept {kept}");
    for start in [1, 2, 3, 4, 1021, 2048] {
        let part = filled(3000, |y| dropout(&[1.0_f32; 3000], keep, key, start, y));
        assert_eq!(part, y[start..start + 3000], "the mask does not depend on where a piece begins");
    }
}

#[test]
fn dropout_has_the_mean_of_its_input() {
    let key = Key::new(5);
    for p in [0.1, 0.5, 0.9] {
        let len = 1 << 20;
        let y = filled(len, |y| dropout(&vec![1.0_f64; len], Keep::new(p), key, 0, y));
        let mean = y.iter().sum::<f64>() / len as f64;
        let deviation = (p / (1.0 - p) / len as f64).sqrt();
        assert!((mean - 1.0).abs() < 4.0 * deviation, "{mean} at {p}");
    }
}

#[test]
fn dropout_at_the_ends() {
    let x = singles("x", 33);
    let run = |p| filled(33, |y| dropout(&x, Keep::new(p), Key::new(2), 0, y));
    assert_eq!(run(0.0), x);
    assert!(run(1.0).iter().all(|&y| y == 0.0));
}
