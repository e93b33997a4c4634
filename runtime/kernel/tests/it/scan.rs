//! Scans against the plain sum over powers, finite differences, reference numbers, and themselves.

use std::path::{Path, PathBuf};

use rtc_kernel::Real;
use rtc_kernel::scan::ema::{EmaGrad, EmaParameters};
use rtc_kernel::scan::s4d::{Discretisation, S4d, S4dGrad};
use rtc_kernel::scan::{DoubleComplex, KernelFamily, Scan, Side, scan, scan_grad};

use crate::support::{check_gradients, close, numbers, offsets};

const SCANS: [Scan; 4] = [
    Scan { side: Side::Left, lag: 0 },
    Scan { side: Side::Right, lag: 0 },
    Scan { side: Side::Right, lag: 1 },
    Scan { side: Side::Left, lag: 2 },
];

/// Parameters of `channels` channels as they start in a model: small steps, and frequencies up to 1,300.
fn started(channels: usize, modes: usize) -> Vec<Vec<f64>> {
    let uniform = |n: usize| (n as f64 * 0.618).fract();
    let log_dt = (0..channels).map(|c| 1e-3_f64.ln() + uniform(c) * 100.0_f64.ln()).collect();
    let state = 2.0 * modes as f64;
    let frequency = |n: usize| state / std::f64::consts::PI * (state / (2 * (n % modes) + 1) as f64 - 1.0);
    let all = channels * modes;
    let c = numbers("c", 2 * all).iter().map(|x| x * 0.5_f64.sqrt()).collect();
    vec![
        log_dt,
        vec![0.5_f64.ln(); all],
        (0..all).map(frequency).collect(),
        (0..2 * all).map(|n| if n % 2 == 0 { 1.0 } else { 0.0 }).collect(),
        c,
    ]
}

/// Parameters at which no gradient is small or large.
fn moderate(channels: usize, modes: usize) -> Vec<Vec<f64>> {
    let all = channels * modes;
    let around = |name: &str, len: usize, centre: f64, scale: f64| {
        numbers(name, len).iter().map(|x| centre + scale * x).collect::<Vec<f64>>()
    };
    vec![
        around("dt", channels, -1.0, 0.5),
        around("decay", all, -0.5, 0.3),
        around("frequency", all, 1.0, 1.0),
        around("b", 2 * all, 0.5, 0.5),
        around("c", 2 * all, 0.0, 1.0),
    ]
}

const RULES: [Discretisation; 2] = [Discretisation::Bilinear, Discretisation::Held];

fn s4d<T: Real>(p: &[Vec<T>]) -> S4d<'_, T> {
    by_rule(Discretisation::Bilinear, p)
}

fn by_rule<T: Real>(rule: Discretisation, p: &[Vec<T>]) -> S4d<'_, T> {
    S4d { rule, log_dt: &p[0], log_decay: &p[1], frequency: &p[2], b: &p[3], c: &p[4] }
}

fn ema<T: Real>(p: &[Vec<T>], channels: usize) -> EmaParameters<'_, T> {
    EmaParameters { channels, delta: &p[0], alpha: &p[1], beta: &p[2], gamma: &p[3] }
}

/// The first numbers of a channel's kernel, as the definition says.
fn kernel<T: Real>(family: &impl KernelFamily<T>, channel: usize, length: usize) -> Vec<f64> {
    let mut poles = vec![DoubleComplex::default(); family.modes()];
    let mut weights = poles.clone();
    family.write(channel, &mut poles, &mut weights);
    let number = |l: usize| {
        let terms = poles.iter().zip(&weights).map(|(a, w)| 2.0 * (w * (a.ln() * l as f64).exp()).re);
        terms.sum::<f64>()
    };
    (0..length).map(number).collect()
}

/// The scan as its definition says, in double precision.
fn plain<T: Real>(family: &impl KernelFamily<T>, how: Scan, x: &[T], offsets: &[usize]) -> Vec<f64> {
    let d = family.channels();
    let mut y = vec![0.0; x.len()];
    let longest = offsets.windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0);
    for c in 0..d {
        let kernel = kernel(family, c, longest);
        for ends in offsets.windows(2) {
            for t in ends[0]..ends[1] {
                for s in ends[0]..ends[1] {
                    let distance = if how.side == Side::Left { t.checked_sub(s) } else { s.checked_sub(t) };
                    let Some(l) = distance.and_then(|distance| distance.checked_sub(how.lag)) else { continue };
                    y[t * d + c] += kernel[l] * x[s * d + c].to_f64();
                }
            }
        }
    }
    y
}

fn run<T: Real>(family: &impl KernelFamily<T>, how: Scan, x: &[T], offsets: &[usize]) -> Vec<T> {
    let mut y = vec![T::ZERO; x.len()];
    scan(family, how, x, offsets, &mut y);
    y
}

/// Every length around which something changes: the direct sum, transforms of several sizes.
const LENGTHS: [usize; 9] = [1, 2, 0, 63, 64, 65, 130, 300, 7];

#[test]
fn a_scan_is_the_sum_it_says() {
    let (channels, modes) = (19, 5);
    let starts = offsets(&LENGTHS);
    let x = numbers("x", starts[LENGTHS.len()] * channels);
    let started = started(channels, modes);
    let damped = ["delta", "alpha", "beta", "gamma"].map(|name| numbers(name, channels * modes));
    for how in SCANS {
        for rule in RULES {
            let family = by_rule(rule, &started);
            close(&run(&family, how, &x, &starts), &plain(&family, how, &x, &starts), 1e-11);
        }
        let family = ema(&damped, channels);
        close(&run(&family, how, &x, &starts), &plain(&family, how, &x, &starts), 1e-11);
    }
}

/// Held between positions, a constant input of 1 drives `x' = A x + B` exactly: after n positions the output is
/// `2 Re sum C B (exp(n dt A) - 1) / A`, also where a step is so short that it needs the series.
#[test]
fn a_held_input_gives_the_continuous_answer() {
    let (channels, modes, length) = (3, 2, 90);
    let mut inputs = moderate(channels, modes);
    inputs[0] = vec![-12.0, -3.0, 0.5];
    let y = run(&by_rule(Discretisation::Held, &inputs), SCANS[0], &vec![1.0; length * channels], &[0, length]);
    let number = |list: &[f64], at: usize| DoubleComplex::new(list[2 * at], list[2 * at + 1]);
    for (at, found) in y.iter().enumerate() {
        let (n, channel) = ((at / channels + 1) as f64, at % channels);
        let term = |m: usize| {
            let m = channel * modes + m;
            let a = DoubleComplex::new(-inputs[1][m].exp(), -inputs[2][m]);
            let risen = (a * inputs[0][channel].exp() * n).exp() - 1.0;
            2.0 * (number(&inputs[4], m) * number(&inputs[3], m) * risen / a).re
        };
        let exact: f64 = (0..modes).map(term).sum();
        assert!((found - exact).abs() < 1e-10 * exact.abs().max(1.0), "{at}: {found} and {exact}");
    }
}

/// Without poles at 0: there the slope of `a^0` is not that of any power.
#[test]
fn gradients_are_slopes() {
    let (channels, modes) = (2, 3);
    let starts = offsets(&[3, 70, 1, 66]);
    let positions = starts[4] * channels;
    for how in SCANS {
        for rule in RULES {
            // The second channel has steps that are short enough for the series.
            for shortest in [-1.0, -4.0] {
                let mut inputs = moderate(channels, modes);
                inputs[0][1] = shortest;
                inputs.push(numbers("x", positions));
                let forward = |i: &[Vec<f64>]| run(&by_rule(rule, i), how, &i[5], &starts);
                check_gradients(&inputs, forward, |i, dy| grads_by_rule(rule, i, how, dy, &starts));
            }
        }
        let mut inputs = ["delta", "alpha", "beta", "gamma"].map(|name| numbers(name, channels * modes)).to_vec();
        inputs.push(numbers("x", positions));
        let forward = |i: &[Vec<f64>]| run(&ema(i, channels), how, &i[4], &starts);
        check_gradients(&inputs, forward, |i, dy| {
            let mut grads: Vec<Vec<f64>> = i.iter().map(|x| vec![0.0; x.len()]).collect();
            let [delta, alpha, beta, gamma, dx] = &mut grads[..] else { unreachable!("there are five inputs") };
            let family = EmaGrad::new(ema(i, channels), [delta, alpha, beta, gamma]);
            scan_grad(&family, how, &i[4], dy, &starts, dx);
            grads
        });
    }
}

/// Gradients of a whole S4D scan: parameters, then x.
fn s4d_grads<T: Real>(inputs: &[Vec<T>], how: Scan, dy: &[T], starts: &[usize]) -> Vec<Vec<T>> {
    grads_by_rule(Discretisation::Bilinear, inputs, how, dy, starts)
}

fn grads_by_rule<T: Real>(
    rule: Discretisation,
    inputs: &[Vec<T>],
    how: Scan,
    dy: &[T],
    starts: &[usize],
) -> Vec<Vec<T>> {
    let mut grads: Vec<Vec<T>> = inputs.iter().map(|x| vec![T::ZERO; x.len()]).collect();
    let [dt, decay, frequency, b, c, dx] = &mut grads[..] else { unreachable!("there are six inputs") };
    let family = S4dGrad::new(by_rule(rule, inputs), [dt, decay, frequency, b, c]);
    scan_grad(&family, how, &inputs[5], dy, starts, dx);
    grads
}

/// The bits of a row, and of its gradient, are those it has alone.
#[test]
fn rows_do_not_see_one_another() {
    let (channels, modes) = (21, 4);
    let starts = offsets(&LENGTHS);
    let single = |x: Vec<f64>| x.into_iter().map(|x| x as f32).collect::<Vec<f32>>();
    let x = single(numbers("x", starts[LENGTHS.len()] * channels));
    let dy = single(numbers("dy", x.len()));
    let mut inputs: Vec<Vec<f32>> = started(channels, modes).into_iter().map(single).collect();
    for how in SCANS {
        let all = run(&s4d(&inputs), how, &x, &starts);
        inputs.push(x.clone());
        let grads = s4d_grads(&inputs, how, &dy, &starts).pop().expect("the gradient of x is the last");
        inputs.pop();
        for row in starts.windows(2) {
            let range = row[0] * channels..row[1] * channels;
            let alone = [0, row[1] - row[0]];
            assert_eq!(all[range.clone()], run(&s4d(&inputs), how, &x[range.clone()], &alone), "{row:?}");
            inputs.push(x[range.clone()].to_vec());
            let dx = s4d_grads(&inputs, how, &dy[range.clone()], &alone).pop();
            inputs.pop();
            assert_eq!(Some(grads[range].to_vec()), dx, "{row:?}");
        }
    }
}

/// What `mod.rs` promises of single precision, with the kernels with which models start.
#[test]
fn single_precision_is_as_close_as_promised() {
    let (channels, modes) = (6, 32);
    let single = |x: &Vec<f64>| x.iter().map(|x| *x as f32).collect::<Vec<f32>>();
    let inputs: Vec<Vec<f32>> = started(channels, modes).iter().map(single).collect();
    for length in [50, 100, 1000, 4000, 16_384] {
        let x = single(&numbers("x", length * channels));
        let y = run(&s4d(&inputs), SCANS[0], &x, &[0, length]);
        let largest = x.iter().fold(0.0_f64, |m, x| m.max(f64::from(*x).abs()));
        for c in 0..channels {
            let kernel = kernel(&s4d(&inputs), c, length);
            let scale = kernel.iter().map(|k| k.abs()).sum::<f64>() * largest;
            // Every position of a short row, some of a long one: each is a sum over all before it.
            for t in (0..length).step_by(length.div_ceil(200)).chain([length - 1]) {
                let exact: f64 = (0..=t).map(|s| kernel[t - s] * f64::from(x[s * channels + c])).sum();
                let error = (f64::from(y[t * channels + c]) - exact).abs() / scale;
                assert!(error < 4e-7, "length {length}, channel {c}, position {t}: {error:e}");
            }
        }
    }
}

/// Extremes stay numbers: a pole at 0, a kernel that is gone at once, one that hardly decays.
#[test]
fn extreme_parameters_stay_finite() {
    let inputs: Vec<Vec<f64>> = vec![
        vec![0.0, 20.0, -20.0],
        vec![2.0_f64.ln(); 3],
        vec![0.0; 3],
        vec![1.0; 6],
        numbers("c", 6),
        numbers("x", 300),
    ];
    for rule in RULES {
        let y = run(&by_rule(rule, &inputs), SCANS[0], &inputs[5], &[0, 100]);
        let grads = grads_by_rule(rule, &inputs, SCANS[0], &y, &[0, 100]);
        assert!(y.iter().chain(grads.iter().flatten()).all(|x| x.is_finite()), "{rule:?}");
        assert!(grads[5].iter().any(|x| *x != 0.0), "{rule:?}");
    }
}

/// Reference numbers of an independent implementation.
fn goldens() -> PathBuf {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/fixtures/recursive_goldens.json");
    std::env::var_os("RTC_RECURSIVE").map_or(default, PathBuf::from)
}

#[test]
#[allow(clippy::print_stderr, reason = "a skipped comparison says why")]
fn the_reference_kernel_and_its_convolution() {
    let path = goldens();
    let Ok(text) = std::fs::read(&path) else {
        eprintln!("skipped: {} is not there (RTC_RECURSIVE names another file)", path.display());
        return;
    };
    let json: serde_json::Value = serde_json::from_slice(&text).expect("the file is JSON");
    let case = &json["s4d"];
    let flat = |name: &str| {
        fn collect(value: &serde_json::Value, out: &mut Vec<f64>) {
            match value.as_array() {
                Some(items) => items.iter().for_each(|item| collect(item, out)),
                None => out.push(value.as_f64().expect("a number")),
            }
        }
        let mut out = vec![];
        collect(&case[name], &mut out);
        out
    };
    let decay = flat("re").iter().map(|re| (-re).ln()).collect();
    let c = flat("c");
    let b = (0..c.len()).map(|n| if n % 2 == 0 { 1.0 } else { 0.0 }).collect();
    let inputs = vec![flat("log_dt"), decay, flat("im_magnitude"), b, c];
    let (u, expected) = (flat("u"), flat("kernel"));
    let length = expected.len() / 2;
    close(&run(&s4d(&inputs), SCANS[0], &u, &[0, length]), &flat("y"), 1e-10);
    let mut impulse = vec![0.0; 2 * length];
    impulse[..2].fill(1.0);
    let response = run(&s4d(&inputs), SCANS[0], &impulse, &[0, length]);
    let turned: Vec<f64> =
        (0..2).flat_map(|c| (0..length).map(move |t| (t, c))).map(|(t, c)| response[2 * t + c]).collect();
    close(&turned, &expected, 1e-10);
}

/// `pull` sees every channel once, also where no row has a position.
#[test]
fn parameters_without_positions_have_no_slope() {
    let mut inputs = moderate(2, 3);
    inputs.push(vec![]);
    let grads = s4d_grads(&inputs, SCANS[0], &[], &[0, 0]);
    assert!(grads.iter().flatten().all(|g| *g == 0.0));
}
