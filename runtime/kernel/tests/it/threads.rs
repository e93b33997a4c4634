//! Every kernel gives the same bits on one, two and three threads, and with narrower vectors.

use std::sync::{Mutex, PoisonError};

use rtc_base::rng::Key;
use rtc_compiler::ir::attribute::Probabilities;
use rtc_kernel::attention::talking::{self, Talking};
use rtc_kernel::attention::{Attention, MaskKind, Offsets, ProbabilityDropout, Scores, attention, attention_grad};
use rtc_kernel::continuous::{Side, neighbours, neighbours_grad};
use rtc_kernel::linear::column_sum;
use rtc_kernel::matrix::multiply;
use rtc_kernel::muon::muon;
use rtc_kernel::optimiser::ParameterMatrix;
use rtc_kernel::optimiser::UpdateRule;
use rtc_kernel::product::{Orientation, Packed, outer, product};
use rtc_kernel::scan::ema::{EmaGrad, EmaParameters};
use rtc_kernel::scan::{Scan, scan, scan_grad};
use rtc_kernel::unit::{Groups, dot_unit};
use rtc_kernel::{Precision, Vectors, Write, clip, embedding, loss, pool, softmax};

use crate::support::{filled, offsets, singles};

/// Who sets the vectors of this process.
static TURN: Mutex<()> = Mutex::new(());

/// Runs `run` in pools of different sizes, and with every kind of vectors that this machine has, and compares every bit.
#[track_caller]
fn same_bits(run: impl Fn() -> Vec<f32> + Sync) {
    // A test that failed has left them as they were, or narrower.
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let on = |threads: usize| -> Vec<u32> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool of threads");
        pool.install(&run).into_iter().map(f32::to_bits).collect()
    };
    let one = on(1);
    assert!(one.iter().any(|&bits| bits != 0), "the kernel did something");
    assert!(one == on(2) && one == on(3), "the bits depend on the number of threads");
    for vectors in [Vectors::Avx2, Vectors::None, Vectors::Widest] {
        if vectors.allow().is_ok() {
            assert!(one == on(2), "the bits depend on the vectors: {vectors:?}");
        }
    }
}

#[test]
fn products() {
    let (m, k, n) = (1100, 100, 300);
    let (x, w, dy) = (singles("x", m * k), singles("w", n * k), singles("dy", m * n));
    for precision in [Precision::F32, Precision::Tf32, Precision::Bf16] {
        same_bits(|| {
            let mut packed = Packed::default();
            packed.pack(&w, k, Orientation::Transposed, precision);
            filled(m * n, |y| product(&x, &packed, y, Write::Replace))
        });
        same_bits(|| filled(n * k, |dw| outer(&x, &dy, dw, m, k, n, Write::Replace, precision)));
        // The same operands as 300 rows, so wide that they are copied.
        same_bits(|| {
            filled(366 * 1100, |dw| outer(&dy, &x[..300 * 366], dw, 300, 1100, 366, Write::Replace, precision))
        });
    }
    same_bits(|| filled(n, |db| column_sum(&dy, db, m, n, Write::Replace)));
}

#[test]
fn units_and_norms() {
    let (m, d) = (1000, 100);
    let (x, dy) = (singles("x", m * d), singles("dy", m * d));
    same_bits(|| filled(m, |y| dot_unit(&x, &dy, Groups::Uniform(d), y)));
    same_bits(|| filled(m * d, |y| multiply(&x[..m * 16], &dy, None, [4, 4, 25], y)));
    same_bits(|| vec![clip::squared_norm(&x) as f32]);
}

#[test]
fn updates_of_matrices() {
    let shapes = [(300, 40), (40, 300), (65, 65)];
    let mut matrices: Vec<ParameterMatrix> = vec![];
    for (rows, columns) in shapes {
        let start = matrices.last().map_or(0, |before| before.range.end);
        matrices.push(ParameterMatrix { range: start..start + rows * columns, columns, group: None });
    }
    let len = matrices[2].range.end;
    let (start, g) = (singles("w", len), singles("g", len));
    same_bits(|| {
        let (mut w, mut m) = (start.clone(), vec![0.0; len]);
        muon([&mut w, &mut m], &g, &matrices, &mut vec![], &UpdateRule::ADAMW);
        [w, m].concat()
    });
}

#[test]
fn attentions() {
    let lengths: Vec<usize> = (0..12).map(|row| row * 7 % 60).collect();
    let starts = offsets(&lengths);
    let len = starts[12] * 32;
    let [q, k, v, dout] = ["q", "k", "v", "dout"].map(|name| singles(name, len));
    let row_keys: Vec<Key> = (0..12).map(Key::new).collect();
    let dropout = Some(ProbabilityDropout { p: 0.2, row_keys: &row_keys });
    let few = MaskKind::Offsets(Offsets { list: &[0, 3], seen: &[true, false, false, true], few: true });
    for (key_heads, softcap, mask) in
        [(4, None, MaskKind::Causal), (2, Some(0.8), MaskKind::Causal), (1, None, MaskKind::All), (2, Some(0.8), few)]
    {
        let spec = Attention { key_heads, scale: 0.3, softcap, dropout, ..Attention::new(4, 8, mask) };
        let shared = len / 4 * key_heads;
        let (k, v) = (&k[..shared], &v[..shared]);
        same_bits(|| filled(len, |out| attention(&spec, &q, k, v, &starts, &starts, out)));
        same_bits(|| {
            let (mut dq, mut dk, mut dv) = (vec![0.0; len], vec![0.0; shared], vec![0.0; shared]);
            attention_grad(&spec, &q, k, v, &dout, &starts, &starts, &mut dq, &mut dk, &mut dv);
            [dq, dk, dv].concat()
        });
        let [l, p] = ["l", "p"].map(|name| singles(name, 16));
        let mixed = Talking { scores: &l, probabilities: &p };
        let plain = Scores::PLAIN;
        same_bits(|| filled(len, |out| talking::attention(&spec, &plain, &mixed, [&q, k, v], &starts, &starts, out)));
        same_bits(|| {
            let (mut dq, mut dk, mut dv) = (vec![0.0; len], vec![0.0; shared], vec![0.0; shared]);
            let (grads, mut own) = ([dq.as_mut_slice(), &mut dk, &mut dv], vec![0.0; 12 * 32]);
            let inputs = [&q, k, v, &dout];
            talking::attention_grad(&spec, &plain, &mixed, inputs, &starts, &starts, grads, [&mut [], &mut own]);
            [dq, dk, dv, own].concat()
        });
    }
}

#[test]
fn continuous_composition() {
    let starts = offsets(&[300, 0, 700, 1]);
    let d = 96;
    let (x, dy) = (singles("x", 1001 * d), singles("dy", 1001 * d));
    let e: Vec<f32> = singles("e", 1001).iter().map(|x| 1.0 / (1.0 + x.exp())).collect();
    same_bits(|| filled(1001 * d, |y| neighbours(Side::Left, &e, &starts, &x, d, y)));
    same_bits(|| {
        let (mut dx, mut de) = (vec![0.0; 1001 * d], vec![0.0; 1001]);
        neighbours_grad(Side::Right, &e, &starts, &x, d, &dy, &mut dx, &mut de);
        [dx, de].concat()
    });
}

#[test]
fn everything_else() {
    let starts = offsets(&[300, 0, 700, 1]);
    let (d, tokens) = (96, 1001);
    let x = singles("x", tokens * d);
    let ids: Vec<u32> = (0..tokens as u32).map(|i| i * 31 % 50).collect();
    same_bits(|| filled(4 * d, |y| pool::mean(&x, &starts, d, y)));
    same_bits(|| filled(4 * d, |y| pool::sum(&x, &starts, d, y)));
    same_bits(|| filled(tokens * d, |y| pool::broadcast_rows(&x[..4 * d], &starts, d, y)));
    same_bits(|| filled(tokens * d, |y| pool::running_sum(&x, &starts, d, Side::Left, y)));
    same_bits(|| filled(tokens * d, |y| pool::shift(&x, &starts, d, Side::Left, 3, y)));
    let many = offsets(&[30_000, 0, 7_000, 1, tokens * d - 37_001]);
    same_bits(|| filled(tokens * d, |y| softmax::softmax_along(&x, &many, y)));
    same_bits(|| filled(tokens * d, |dx| softmax::softmax_along_grad(&x, &x, &many, dx)));
    same_bits(|| filled(50 * d, |y| embedding::scatter_add(&x, &ids, d, y)));
    let each = singles("each", tokens);
    for kind in [Probabilities::Softmax, Probabilities::Stablemax] {
        same_bits(|| filled(tokens, |y| loss::cross_entropy_each(kind, &x, &ids, y)));
        same_bits(|| filled(tokens * d, |y| loss::cross_entropy_each_grad(kind, &x, &ids, &each, y)));
    }
    let labels: Vec<u32> = (0..x.len() as u32).map(|i| i / 3 % 2).collect();
    same_bits(|| filled(x.len(), |y| loss::binary_cross_entropy_each(&x, &labels, y)));
    same_bits(|| filled(x.len(), |y| loss::binary_cross_entropy_each_grad(&x, &labels, &x, y)));
    same_bits(|| [None, Some(&x[..])].map(|weights| loss::weighted_sum(&x, weights).sum as f32).to_vec());
}

#[test]
fn scans() {
    let (channels, modes, starts) = (40, 4, offsets(&[300, 20, 0, 700, 1]));
    let [delta, alpha, beta, gamma] = ["delta", "alpha", "beta", "gamma"].map(|name| singles(name, channels * modes));
    let (x, dy) = (singles("x", starts[5] * channels), singles("dy", starts[5] * channels));
    let parameters = EmaParameters { channels, delta: &delta, alpha: &alpha, beta: &beta, gamma: &gamma };
    let how = Scan { side: Side::Right, lag: 1 };
    same_bits(|| filled(x.len(), |y| scan(&parameters, how, &x, &starts, y)));
    same_bits(|| {
        let mut grads = [(); 4].map(|()| vec![0.0; channels * modes]);
        let mut dx = vec![0.0; x.len()];
        let family = EmaGrad::new(parameters, grads.each_mut().map(|grad| &mut grad[..]));
        scan_grad(&family, how, &x, &dy, &starts, &mut dx);
        [dx, grads.concat()].concat()
    });
}
