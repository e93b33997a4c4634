//! Attention against the definition, its gradients, masks and dropout.

use rtc_base::rng::Key;
use rtc_kernel::attention::{Attention, MaskKind, MaskRow, Offsets, ProbabilityDropout, attention, attention_grad};

use crate::support::{check_gradients, close, close32, filled, numbers, offsets, singles};

/// Which keys a query sees, by row, head, query and key.
type Sees<'a> = &'a dyn Fn(usize, usize, usize, usize) -> bool;

/// The definition, one query at a time.
fn reference(spec: &Attention, q: &[f64], k: &[f64], v: &[f64], qo: &[usize], ko: &[usize], sees: Sees) -> Vec<f64> {
    let (e, f) = (spec.head_width, spec.value_width);
    let [width, shared] = [spec.heads, spec.key_heads].map(|heads| heads * e);
    let mut out = vec![0.0; q.len() / e * f];
    for row in 0..qo.len() - 1 {
        for head in 0..spec.heads {
            let key_head = head * spec.key_heads / spec.heads;
            let key_at = |position: usize| position * shared + key_head * e;
            for i in 0..qo[row + 1] - qo[row] {
                let at = |position: usize| position * width + head * e;
                let query = &q[at(qo[row] + i)..][..e];
                let keys: Vec<usize> = (0..ko[row + 1] - ko[row]).filter(|&j| sees(row, head, i, j)).collect();
                let score = |j: usize| {
                    let key = &k[key_at(ko[row] + j)..][..e];
                    let score = spec.scale * query.iter().zip(key).map(|(q, k)| q * k).sum::<f64>();
                    spec.softcap.map_or(score, |c| c * (score / c).tanh())
                };
                let total: f64 = keys.iter().map(|&j| score(j).exp()).sum();
                for &j in &keys {
                    let mut p = score(j).exp() / total;
                    if let Some(dropout) = spec.dropout {
                        let key = dropout.row_keys[row].at(head as u64).at(i as u64);
                        let part = (key.bits(j as u64 / 4) >> (16 * (j % 4))) as u16;
                        let threshold = (dropout.p * 65_536.0).round();
                        p = if f64::from(part) >= threshold { p / (1.0 - threshold / 65_536.0) } else { 0.0 };
                    }
                    for c in 0..f {
                        let value = v[((ko[row] + j) * spec.key_heads + key_head) * f + c];
                        out[((qo[row] + i) * spec.heads + head) * f + c] += p * value;
                    }
                }
            }
        }
    }
    out
}

/// Numbers of queries, keys, values and results.
fn sizes(spec: &Attention, queries: usize, keys: usize) -> [usize; 4] {
    let [e, f] = [spec.head_width, spec.value_width];
    let [own, shared] = [queries * spec.heads, keys * spec.key_heads];
    [own * e, shared * e, shared * f, own * f]
}

/// Queries and keys of rows with these lengths, forward in both precisions against the definition.
fn check_forward(spec: &Attention, queries: &[usize], keys: &[usize], sees: Sees) {
    let (qo, ko) = (offsets(queries), offsets(keys));
    let [nq, nk, nv, len] = sizes(spec, qo[queries.len()], ko[keys.len()]);
    let [q, k, v] = [("q", nq), ("k", nk), ("v", nv)].map(|(name, len)| numbers(name, len));
    let expected = reference(spec, &q, &k, &v, &qo, &ko, sees);
    close(&filled(len, |out| attention(spec, &q, &k, &v, &qo, &ko, out)), &expected, 1e-12);
    let [q, k, v] = [("q", nq), ("k", nk), ("v", nv)].map(|(name, len)| singles(name, len));
    close32(&filled(len, |out| attention(spec, &q, &k, &v, &qo, &ko, out)), &expected, 1e-5);
}

fn check_backward(spec: &Attention, queries: &[usize], keys: &[usize]) {
    let (qo, ko) = (offsets(queries), offsets(keys));
    let [nq, nk, nv, len] = sizes(spec, qo[queries.len()], ko[keys.len()]);
    check_gradients(
        &[numbers("q", nq), numbers("k", nk), numbers("v", nv)],
        |x| filled(len, |out| attention(spec, &x[0], &x[1], &x[2], &qo, &ko, out)),
        |x, dout| {
            // Old content must not matter.
            let (mut dq, mut dk, mut dv) = (vec![7.0; nq], vec![7.0; nk], vec![7.0; nv]);
            attention_grad(spec, &x[0], &x[1], &x[2], dout, &qo, &ko, &mut dq, &mut dk, &mut dv);
            vec![dq, dk, dv]
        },
    );
}

#[test]
fn attention_equals_the_definition() {
    let all: Sees = &|_, _, _, _| true;
    for (heads, e) in [(1, 1), (2, 7), (2, 16), (1, 17), (3, 40)] {
        check_forward(&Attention::new(heads, e, MaskKind::All), &[1, 7, 0, 17, 100], &[3, 1, 4, 0, 33], all);
    }
    check_forward(&Attention::new(1, 4, MaskKind::All), &[300], &[300], all);
    let causal: Sees = &|_, _, i, j| j <= i;
    for n in [1, 7, 17, 100, 150] {
        check_forward(&Attention::new(2, 8, MaskKind::Causal), &[n, 0, 3], &[n, 0, 3], causal);
    }
}

/// Banded, different by head and row; even queries of the second row see nothing.
fn banded(row: usize, head: usize, i: usize, j: usize) -> bool {
    j.abs_diff(i) <= head + 1 && !(row == 1 && i.is_multiple_of(2))
}

fn banded_rule(at: MaskRow, allowed: &mut [bool]) {
    for (j, allowed) in allowed.iter_mut().enumerate() {
        *allowed = banded(at.row, at.head, at.query, j);
    }
}

#[test]
fn dense_masks_and_queries_without_keys() {
    let spec = Attention::new(2, 3, MaskKind::Dense(&banded_rule));
    check_forward(&spec, &[5, 9, 40], &[5, 9, 30], &banded);
    check_backward(&spec, &[2, 3], &[3, 4]);
    let out = filled(18, |out| attention(&spec, &[0.0; 18], &[0.0; 18], &[1.0; 18], &[0, 0, 3], &[0, 0, 3], out));
    assert_eq!(out[..6], [0.0_f64; 6], "a query without keys gives 0");
}

#[test]
fn attention_gradients() {
    check_backward(&Attention::new(1, 1, MaskKind::All), &[2], &[3]);
    check_backward(&Attention::new(2, 5, MaskKind::All), &[4, 0, 1, 2], &[3, 2, 0, 1]);
    check_backward(&Attention::new(2, 3, MaskKind::Causal), &[1, 5], &[1, 5]);
    check_backward(&Attention::new(1, 2, MaskKind::All), &[18], &[17]);
    check_backward(&Attention::new(1, 16, MaskKind::All), &[2], &[2]);
    check_backward(&Attention::new(1, 2, MaskKind::Causal), &[70], &[70]);
}

/// The keys at these distances, key by key.
const NEAR: Offsets<'_> = Offsets { list: &[0, 2], seen: &[true, false, true], few: true };

#[test]
fn shared_keys_and_capped_scores() {
    let row_keys = [Key::new(1), Key::new(2), Key::new(3)];
    let dropout = Some(ProbabilityDropout { p: 0.3, row_keys: &row_keys });
    let masks: [(MaskKind<'_>, Sees<'_>); 4] = [
        (MaskKind::All, &|_, _, _, _| true),
        (MaskKind::Causal, &|_, _, i, j| j <= i),
        (MaskKind::Dense(&banded_rule), &banded),
        (MaskKind::Offsets(NEAR), &|_, _, i, j| i == j || i == j + 2),
    ];
    for (heads, key_heads, e, value_width) in [(2, 1, 5, 5), (4, 2, 3, 17), (6, 2, 16, 16), (3, 3, 4, 1)] {
        for (scale, softcap) in [(0.9, None), (0.25, Some(0.5)), (1.5, Some(30.0))] {
            for (mask, sees) in masks {
                let spec = Attention { key_heads, value_width, scale, softcap, ..Attention::new(heads, e, mask) };
                for lengths in [[1, 7, 0], [65, 3, 130], [16, 64, 17]] {
                    check_forward(&spec, &lengths, &lengths, sees);
                }
                check_backward(&spec, &[3, 0, 5], &[3, 0, 5]);
                let spec = Attention { dropout, ..spec };
                check_forward(&spec, &[9, 1, 70], &[9, 1, 70], sees);
                check_backward(&spec, &[1, 4, 2], &[1, 4, 2]);
            }
            // More queries than keys, and the other way round.
            let spec = Attention { key_heads, value_width, scale, softcap, ..Attention::new(heads, e, MaskKind::All) };
            check_forward(&spec, &[3, 20], &[70, 2], &|_, _, _, _| true);
            check_backward(&spec, &[1, 4], &[5, 2]);
        }
    }
    // Several blocks of queries.
    let spec = Attention { key_heads: 1, softcap: Some(0.7), ..Attention::new(2, 2, MaskKind::Causal) };
    check_backward(&spec, &[70], &[70]);
}

/// Every key head as often as heads share it.
fn repeated(x: &[f64], sharing: usize, e: usize) -> Vec<f64> {
    x.chunks(e).flat_map(|head| head.repeat(sharing)).collect()
}

#[test]
fn shared_keys_are_repeated_ones() {
    let (heads, key_heads, e, lengths) = (6, 2, 5, [1, 20, 131]);
    let at = offsets(&lengths);
    let [len, shared] = [heads, key_heads].map(|heads| at[lengths.len()] * heads * e);
    let [q, dout] = ["q", "dout"].map(|name| numbers(name, len));
    let [k, v] = ["k", "v"].map(|name| numbers(name, shared));
    let [k_all, v_all] = [&k, &v].map(|x| repeated(x, heads / key_heads, e));
    for mask in [MaskKind::All, MaskKind::Causal, MaskKind::Offsets(NEAR)] {
        for softcap in [None, Some(0.8)] {
            let own = Attention { softcap, ..Attention::new(heads, e, mask) };
            let spec = Attention { key_heads, ..own };
            let out = filled(len, |out| attention(&spec, &q, &k, &v, &at, &at, out));
            assert_eq!(out, filled(len, |out| attention(&own, &q, &k_all, &v_all, &at, &at, out)), "bit by bit");
            let (mut dq, mut dk, mut dv) = (vec![7.0; len], vec![7.0; shared], vec![7.0; shared]);
            attention_grad(&spec, &q, &k, &v, &dout, &at, &at, &mut dq, &mut dk, &mut dv);
            let [mut dq_all, mut dk_all, mut dv_all] = [0; 3].map(|_| vec![7.0; len]);
            attention_grad(&own, &q, &k_all, &v_all, &dout, &at, &at, &mut dq_all, &mut dk_all, &mut dv_all);
            assert_eq!(dq, dq_all, "bit by bit");
            for (shared, all) in [(&dk, &dk_all), (&dv, &dv_all)] {
                let sum = |heads: &[f64]| (0..e).map(|c| heads.iter().skip(c).step_by(e).sum()).collect::<Vec<f64>>();
                let sums: Vec<f64> = all.chunks(e * heads / key_heads).flat_map(sum).collect();
                close(shared, &sums, 1e-14);
            }
        }
    }
}

#[test]
fn dropped_probabilities() {
    let row_keys = [Key::new(1), Key::new(2), Key::new(3)];
    let mut spec = Attention::new(2, 3, MaskKind::Causal);
    spec.dropout = Some(ProbabilityDropout { p: 0.3, row_keys: &row_keys });
    check_forward(&spec, &[5, 0, 70], &[5, 0, 70], &|_, _, i, j| j <= i);
    check_backward(&spec, &[4, 0, 3], &[4, 0, 3]);
}
