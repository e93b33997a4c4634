//! Times the main kernels at the sizes of a small Transformer: `cargo run --release --example kernel_times -- THREADS`.
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::hint::black_box;
use std::time::Instant;

use rtc_runtime::kernel::attention::{Attention, MaskKind, ProbabilityDropout, attention, attention_grad};
use rtc_runtime::kernel::linear::{Act, column_sum, linear, linear_act, linear_grad_input, linear_grad_weight};
use rtc_runtime::kernel::norm::{layer_norm, layer_norm_grad};
use rtc_runtime::kernel::{Write, dropout, elementwise};
use rtc_runtime::rng::Key;

/// Numbers that look like activations.
fn numbers(len: usize) -> Vec<f32> {
    let key = Key::new(len as u64);
    (0..len as u64).map(|i| key.normal(i) as f32).collect()
}

/// Prints the median and the best of 21 runs in microseconds.
fn time(name: &str, mut run: impl FnMut()) {
    let mut times: Vec<f64> = (0..24)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64() * 1e6
        })
        .skip(3)
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{name:<52} {:10.1} us, best {:10.1} us", times[times.len() / 2], times[0]);
}

fn products(m: usize, k: usize, n: usize) {
    let (x, w, bias, dy) = (numbers(m * k), numbers(n * k), numbers(n), numbers(m * n));
    let (mut y, mut pre) = (vec![0.0; m * n], vec![0.0; m * n]);
    let (mut dx, mut dw) = (vec![0.0; m * k], vec![0.0; n * k]);
    let name = format!("[{m},{k}]x[{k},{n}]");
    time(&format!("linear {name}"), || linear(&x, &w, Some(&bias), black_box(&mut y), m, k, n));
    time(&format!("linear_act gelu {name}"), || {
        linear_act(&x, &w, Some(&bias), Act::Gelu, black_box(&mut pre), &mut y, m, k, n);
    });
    time(&format!("linear_grad_input {name}"), || {
        linear_grad_input(&dy, &w, black_box(&mut dx), m, k, n, Write::Replace);
    });
    time(&format!("linear_grad_weight {name}"), || {
        linear_grad_weight(&x, &dy, black_box(&mut dw), m, k, n, Write::Add);
    });
}

fn attentions(rows: usize, heads: usize, n: usize, e: usize, mask: MaskKind, p: f64) {
    let total = rows * n * heads * e;
    let [q, k, v, dout] = [0, 1, 2, 3].map(|_| numbers(total));
    let (mut out, mut dq, mut dk, mut dv) = (numbers(total), numbers(total), numbers(total), numbers(total));
    let offsets: Vec<usize> = (0..=rows).map(|row| row * n).collect();
    let row_keys: Vec<Key> = (0..rows as u64).map(|row| Key::new(1).at(row)).collect();
    let dropout = (p > 0.0).then_some(ProbabilityDropout { p, row_keys: &row_keys });
    let causal = if matches!(mask, MaskKind::Causal) { " causal" } else { "" };
    let spec = Attention { heads, head_width: e, scale: (e as f64).powf(-0.5), mask, dropout };
    let name = format!("B{rows} H{heads} N{n} e{e} p{p}{causal}");
    time(&format!("attention {name}"), || attention(&spec, &q, &k, &v, &offsets, &offsets, black_box(&mut out)));
    time(&format!("attention_grad {name}"), || {
        attention_grad(&spec, &q, &k, &v, &dout, &offsets, &offsets, black_box(&mut dq), &mut dk, &mut dv);
    });
}

fn rowwise(m: usize, d: usize) {
    let (x, dy, gain, bias) = (numbers(m * d), numbers(m * d), numbers(d), numbers(d));
    let (mut y, mut sums, mut more) = (vec![0.0; m * d], vec![0.0; d], vec![0.0; d]);
    let name = format!("[{m},{d}]");
    time(&format!("gelu {name}"), || elementwise::gelu(&x, black_box(&mut y)));
    time(&format!("gelu_grad {name}"), || elementwise::gelu_grad(&x, &dy, black_box(&mut y)));
    time(&format!("sigmoid {name}"), || elementwise::sigmoid(&x, black_box(&mut y)));
    time(&format!("add {name}"), || elementwise::add(&x, &dy, black_box(&mut y)));
    time(&format!("layer_norm {name}"), || layer_norm(&x, &gain, &bias, 1e-5, black_box(&mut y)));
    time(&format!("layer_norm_grad {name}"), || {
        layer_norm_grad(&x, &gain, &dy, 1e-5, black_box(&mut y), &mut sums, &mut more);
    });
    time(&format!("column_sum {name}"), || column_sum(&x, black_box(&mut sums), m, d, Write::Replace));
    time(&format!("dropout {name}"), || {
        dropout::dropout(&x, &[0, m * d], &[Key::new(3)], 0.1, black_box(&mut y));
    });
}

fn main() {
    let threads = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool of threads");
    let only = std::env::args().nth(2);
    pool.install(|| {
        println!("{threads} threads");
        let only = only.as_deref().unwrap_or("products attentions rowwise");
        if only.contains("products") {
            all_products();
        }
        if only.contains("attentions") {
            all_attentions();
        }
        if only.contains("rowwise") {
            rowwise(3200, 512);
            rowwise(3200, 128);
            rowwise(10, 128);
        }
    });
}

fn all_products() {
    products(3200, 128, 512);
    products(3200, 512, 128);
    products(3200, 128, 128);
    products(320, 128, 512);
    products(10, 128, 512);
    products(1, 128, 128);
}

fn all_attentions() {
    attentions(32, 8, 100, 16, MaskKind::All, 0.0);
    attentions(32, 8, 100, 16, MaskKind::All, 0.1);
    attentions(32, 8, 10, 16, MaskKind::All, 0.0);
    attentions(1, 8, 10, 16, MaskKind::All, 0.0);
    attentions(4, 8, 1000, 16, MaskKind::All, 0.0);
    attentions(4, 8, 1000, 16, MaskKind::Causal, 0.0);
    attentions(32, 4, 100, 64, MaskKind::All, 0.0);
    attentions(32, 4, 100, 12, MaskKind::All, 0.0);
}
