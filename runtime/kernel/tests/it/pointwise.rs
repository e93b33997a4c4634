//! Pointwise functions and their programs, units, dropout.

use rtc_base::rng::Key;
use rtc_compiler::ir::pointwise::{Pointwise, Scalar, gradients, name, parse};
use rtc_kernel::dropout::{Keep, dropout};
use rtc_kernel::elementwise as el;
use rtc_kernel::pointwise::MapProgram;
use rtc_kernel::unit::{Groups, add_scaled, add_scaled_assign, dot_unit, mul_unit};

use crate::support::{SIZES, check_gradients, close, close32, filled, map, numbers, offsets, singles};

type Definition = fn(f64) -> f64;

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[test]
fn functions_of_one_number_equal_their_definition() {
    let cases: [(&str, Definition); 13] = [
        ("gelu(a)", |x| 0.5 * x * (1.0 + libm::erf(x / 2_f64.sqrt()))),
        ("gelu_tanh(a)", |x| x * sigmoid((8.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x))),
        ("relu(a)", |x| x.max(0.0)),
        ("sigmoid(a)", sigmoid),
        ("tanh(a)", f64::tanh),
        ("exp(a)", f64::exp),
        ("neg(a)", |x| -x),
        ("abs(a)", f64::abs),
        ("silu(a)", |x| x * sigmoid(x)),
        ("softplus(a)", |x| x.exp().ln_1p()),
        ("log(add(0.001, mul(a, a)))", |x| (0.001 + x * x).ln()),
        ("sqrt(mul(a, a))", f64::abs),
        ("rsqrt(add(1.0, mul(a, a)))", |x| 1.0 / (1.0 + x * x).sqrt()),
    ];
    for (f, reference) in cases {
        for len in SIZES {
            let x = numbers("x", len);
            let expected: Vec<f64> = x.iter().map(|&x| reference(x)).collect();
            close(&filled(len, |y| map(f, &[&x], y)), &expected, 1e-14);
            close32(&filled(len, |y| map(f, &[&singles("x", len)], y)), &expected, 1e-6);
        }
        assert!(filled(1, |y| map(f, &[&[f32::NAN]], y))[0].is_nan());
    }
}

#[test]
fn functions_at_the_ends() {
    let of = |f: &str, x: &[f32]| filled(x.len(), |y| map(f, &[x], y));
    let infinity = f32::INFINITY;
    assert_eq!(of("sign(a)", &[-3.0, -1e-40, -0.0, 0.0, 2.0, -infinity]), [-1.0, -1.0, 0.0, 0.0, 1.0, -1.0]);
    assert_eq!(of("log(a)", &[0.0, 1.0, infinity]), [-infinity, 0.0, infinity]);
    assert_eq!(of("sqrt(a)", &[0.0, 4.0, infinity]), [0.0, 2.0, infinity]);
    assert_eq!(of("rsqrt(a)", &[0.0, 4.0, infinity]), [infinity, 0.5, 0.0]);
    for f in ["log(a)", "sqrt(a)", "rsqrt(a)"] {
        assert!(of(f, &[-1.0, f32::NAN]).iter().all(|y| y.is_nan()), "{f}");
    }
    // Far below 0 it is exp, far above the number itself; in between nothing is lost, either.
    assert_eq!(of("softplus(a)", &[100.0, infinity, -infinity, 0.0]), [100.0, infinity, 0.0, 2_f32.ln()]);
    for n in -200..40 {
        let x = n as f32 * 0.37;
        let (y, exact) = (of("softplus(a)", &[x])[0], f64::from(x).exp().ln_1p());
        assert!((f64::from(y) / exact - 1.0).abs() < 4e-7, "{x}: {y} instead of {exact}");
    }
    let two = |f: &str, a: f32, b: f32| filled(1, |y| map(f, &[&[a], &[b]], y))[0];
    assert_eq!([two("less(a, b)", -infinity, infinity), two("less(a, b)", infinity, -infinity)], [1.0, 0.0]);
    assert_eq!(
        [two("maximum(a, b)", -infinity, infinity), two("minimum(a, b)", -infinity, infinity)],
        [infinity, -infinity]
    );
}

/// A function of one or more numbers is NaN where a number is NaN that it depends on.
#[test]
fn no_function_swallows_what_is_no_number() {
    for func in Pointwise::ALL {
        let operands: Vec<String> = (0..func.def().arity).map(name).collect();
        let f = format!("{}({})", func.def().name, operands.join(", "));
        for broken in 0..operands.len() {
            for others in [-1.5_f32, 0.0, 0.5] {
                let x: Vec<[f32; 1]> =
                    (0..operands.len()).map(|n| [if n == broken { f32::NAN } else { others }]).collect();
                let x: Vec<&[f32]> = x.iter().map(|x| &x[..]).collect();
                let y = filled(1, |y| map(&f, &x, y))[0];
                // What is not chosen does not matter.
                let chosen = match func {
                    Pointwise::Choose => broken == 0 || (broken == 1) == (others > 0.0),
                    Pointwise::IfPositive if broken == 0 => others != 0.0,
                    Pointwise::IfPositive => others > 0.0,
                    // Where the cotangent is 0, so is its share.
                    Pointwise::ChainMul | Pointwise::ChainDiv | Pointwise::LogisticSlope | Pointwise::MulDifference => {
                        broken == 0 || others != 0.0
                    }
                    Pointwise::Finite => false,
                    _ => true,
                };
                assert_eq!(y.is_nan(), chosen, "{f}: operand {broken} with {others}");
            }
        }
    }
}

/// Constants that are known are counted out; the others stay.
#[test]
fn simplest_forms() {
    let simplest = |f: &str| parse(f).unwrap()[0].with(&Scalar::Operand);
    for (f, simple) in [
        ("less(1.0, 2.0)", "1.0"),
        ("less(2.0, 2.0)", "0.0"),
        ("choose(0.5, a, b)", "a"),
        ("choose(-0.0, a, b)", "b"),
        ("choose(c, mul(1.0, a), a)", "a"),
        ("abs(-2.5)", "2.5"),
    ] {
        assert_eq!(simplest(f), parse(simple).unwrap()[0], "{f}");
    }
}

#[test]
fn arithmetic() {
    let (a, b, c) = (singles("a", 37), singles("b", 37), singles("c", 37));
    let places = |f: &dyn Fn(f32, f32, f32) -> f32| (0..37).map(|n| f(a[n], b[n], c[n])).collect::<Vec<_>>();
    let mapped = |f: &str| filled(37, |y| map(f, &[&a, &b, &c], y));
    assert_eq!(mapped("add(a, b)"), places(&|a, b, _| a + b));
    assert_eq!(mapped("sub(a, b)"), places(&|a, b, _| a - b));
    assert_eq!(mapped("mul(a, b)"), places(&|a, b, _| a * b));
    assert_eq!(mapped("div(a, b)"), places(&|a, b, _| a / b));
    assert_eq!(mapped("maximum(a, b)"), places(&|a, b, _| a.max(b)));
    assert_eq!(mapped("silu(a)"), mapped("mul(a, sigmoid(a))"));
    assert_eq!(mapped("minimum(a, b)"), places(&|a, b, _| a.min(b)));
    assert_eq!(mapped("less(a, b)"), places(&|a, b, _| f32::from(a < b)));
    assert_eq!(mapped("choose(a, b, c)"), places(&|a, b, c| if a > 0.0 { b } else { c }));
    assert_eq!(mapped("if_positive(a, b)"), places(&|a, b, _| if a > 0.0 { b } else { 0.0 }));
    assert_eq!(mapped("lerp(a, b, c)"), places(&|a, b, c| a * b + (1.0 - a) * c));
    assert_eq!(mapped("lerp(0.25, b, c)"), places(&|_, b, c| 0.25 * b + 0.75 * c));
    assert_eq!(mapped("mul(3.0, a)"), places(&|a, _, _| 3.0 * a));
    assert_eq!(mapped("div(a, 3.0)"), places(&|a, _, _| a / 3.0));
    let assigned = |run: &dyn Fn(&mut [f32])| {
        let mut y = a.clone();
        run(&mut y);
        y
    };
    assert_eq!(assigned(&|y| el::add_assign(y, &b)), places(&|a, b, _| a + b));
    assert_eq!(assigned(&|y| el::scale_assign(y, 3.0)), places(&|a, _, _| 3.0 * a));
}

/// Registers are written anew in every chunk, and results may be read by others.
#[test]
fn programs_with_registers_and_several_results() {
    let len = 5000;
    let (z, u, h, dy) = (numbers("z", len), numbers("u", len), numbers("h", len), numbers("dy", len));
    let f =
        "tuple(mul(mul(d, sub(b, c)), mul(sigmoid(a), sub(1.0, sigmoid(a)))), mul(d, sigmoid(a)), sigmoid(a), 2.0, b)";
    let program = MapProgram::new(&parse(f).unwrap());
    let mut results = vec![vec![0.0; len]; 5];
    let mut parts: Vec<&mut [f64]> = results.iter_mut().map(Vec::as_mut_slice).collect();
    program.run(&[&z, &u, &h, &dy], &mut parts, &mut vec![0.0; program.scratch()]);
    let expected = |f: &dyn Fn(usize, f64) -> f64| (0..len).map(|n| f(n, sigmoid(z[n]))).collect::<Vec<f64>>();
    close(&results[0], &expected(&|n, g| dy[n] * (u[n] - h[n]) * g * (1.0 - g)), 1e-14);
    close(&results[1], &expected(&|n, g| dy[n] * g), 1e-14);
    close(&results[2], &expected(&|_, g| g), 1e-14);
    assert!(results[3].iter().all(|x| *x == 2.0) && results[4] == u);
}

/// The slopes of the table, against differences.
#[test]
fn slopes_of_every_function() {
    let inputs = ["p", "q", "r"].map(|name| numbers(name, 41).iter().map(|x| x + 0.01).collect::<Vec<f64>>());
    let mut differentiated = 0;
    for func in Pointwise::ALL.iter().filter(|func| !func.def().slopes.is_empty()) {
        let arity = func.def().arity;
        let positive = matches!(func, Pointwise::Log | Pointwise::Sqrt | Pointwise::Rsqrt | Pointwise::Pow);
        let mut inputs = inputs.clone().map(|x| if positive { x.iter().map(|x| x.abs() + 0.3).collect() } else { x });
        if matches!(func, Pointwise::Within | Pointwise::LogUp) {
            inputs[1].iter_mut().for_each(|x| *x = x.abs() + 5.0);
        }
        let expr = [func.of_operands()];
        let forward = |v: &[Vec<f64>]| {
            let operands: Vec<&[f64]> = v.iter().map(Vec::as_slice).collect();
            filled(41, |y| MapProgram::new(&expr).run(&operands, &mut [y], &mut []))
        };
        let shares = gradients(&expr, arity, &[true]);
        assert!(shares.len() == arity && func.def().slopes.len() == arity, "{}", func.def().name);
        check_gradients(&inputs[..arity], forward, |v, dy| {
            let y = forward(v);
            let all: Vec<&[f64]> = v.iter().map(Vec::as_slice).chain([&y[..], dy]).collect();
            let of = |share: &Option<Scalar>| match share {
                Some(share) => {
                    let program = MapProgram::new(std::slice::from_ref(share));
                    filled(41, |dx| program.run(&all, &mut [dx], &mut vec![0.0; program.scratch()]))
                }
                None => vec![0.0; 41],
            };
            shares.iter().map(of).collect()
        });
        differentiated += 1;
    }
    assert!(differentiated > 10);
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
