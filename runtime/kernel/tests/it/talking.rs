//! Attention whose heads talk, against the definition, its gradients, and plain attention.

use rtc_base::rng::Key;
use rtc_kernel::attention::cache::KeyValueCache;
use rtc_kernel::attention::talking::{Talking, attend, attention, attention_grad};
use rtc_kernel::attention::{
    self as plain, Attention, MaskKind, MaskRow, Offsets, ProbabilityDropout, ScoreBias, Scores,
};

use crate::support::{check_gradients, close, close32, filled, numbers, offsets, singles};

/// Which keys a query sees, by head, query and key.
type Sees<'a> = &'a dyn Fn(usize, usize, usize) -> bool;

/// The definition on whole arrays, for one row without shared keys: scores and weights by `[head][query][key]`.
fn reference(
    spec: &Attention,
    [q, k, v, l, p]: [&[f64]; 5],
    (nq, nk): (usize, usize),
    sees: Sees,
    row: usize,
) -> Vec<f64> {
    let (heads, e, own) = (spec.heads, spec.head_width, spec.value_width);
    let width = heads * e;
    let score = |h: usize, i: usize, j: usize| {
        let products = (0..e).map(|c| q[i * width + h * e + c] * k[j * width + h * e + c]).sum::<f64>() * spec.scale;
        let capped = spec.softcap.map_or(products, |most| most * (products / most).tanh());
        if sees(h, i, j) { capped } else { 0.0 }
    };
    let mixed = |g: usize, i: usize, j: usize| (0..heads).map(|h| l[h * heads + g] * score(h, i, j)).sum::<f64>();
    let factor = |g: usize, i: usize, j: usize| {
        let Some(dropout) = spec.dropout else { return 1.0 };
        let key = dropout.row_keys[row].at(g as u64).at(i as u64);
        let part = (key.bits(j as u64 / 4) >> (16 * (j % 4))) as u16;
        let threshold = (dropout.p * 65_536.0).round();
        if f64::from(part) >= threshold { 1.0 / (1.0 - threshold / 65_536.0) } else { 0.0 }
    };
    let mut out = vec![0.0; nq * heads * own];
    for i in 0..nq {
        let probability = |g: usize, j: usize| {
            let total: f64 = (0..nk).filter(|j| sees(g, i, *j)).map(|j| mixed(g, i, j).exp()).sum();
            if sees(g, i, j) { mixed(g, i, j).exp() / total * factor(g, i, j) } else { 0.0 }
        };
        for (f, j) in (0..heads).flat_map(|f| (0..nk).map(move |j| (f, j))) {
            let weight: f64 = (0..heads).map(|g| p[g * heads + f] * probability(g, j)).sum();
            for c in 0..own {
                out[(i * heads + f) * own + c] += weight * v[(j * heads + f) * own + c];
            }
        }
    }
    out
}

fn part(x: &[f64], range: std::ops::Range<usize>) -> &[f64] {
    &x[range]
}

fn check(spec: &Attention, lengths: &[usize], sees: Sees) {
    let at = offsets(lengths);
    let [width, value_width] = [spec.head_width, spec.value_width].map(|width| spec.heads * width);
    let (total, matrix) = (at[lengths.len()], spec.heads * spec.heads);
    let sizes = [("q", total * width), ("k", total * width), ("v", total * value_width)];
    let [q, k, v] = sizes.map(|(name, len)| numbers(name, len));
    let [l, p] = ["l", "p"].map(|name| numbers(name, matrix));
    let of_row = |row: usize| {
        let own = |x, width| part(x, at[row] * width..at[row + 1] * width);
        let (rows, n) = ([own(&q, width), own(&k, width), own(&v, value_width)], lengths[row]);
        reference(spec, [rows[0], rows[1], rows[2], &l, &p], (n, n), sees, row)
    };
    let expected: Vec<f64> = (0..lengths.len()).flat_map(of_row).collect();
    let mixed = Talking { scores: &l, probabilities: &p };
    let plain = Scores::PLAIN;
    let len = total * value_width;
    close(&filled(len, |out| attention(spec, &plain, &mixed, [&q, &k, &v], &at, &at, out)), &expected, 1e-12);
    let [q, k, v] = sizes.map(|(name, len)| singles(name, len));
    let [l, p] = ["l", "p"].map(|name| singles(name, matrix));
    let mixed = Talking { scores: &l, probabilities: &p };
    let plain = Scores::PLAIN;
    close32(&filled(len, |out| attention(spec, &plain, &mixed, [&q, &k, &v], &at, &at, out)), &expected, 2e-5);
}

fn check_slopes(spec: &Attention, queries: &[usize], keys: &[usize]) {
    let (qo, ko) = (offsets(queries), offsets(keys));
    let [width, shared] = [spec.heads, spec.key_heads].map(|heads| heads * spec.head_width);
    let (nq, nk, matrix) = (qo[queries.len()] * width, ko[keys.len()] * shared, spec.heads * spec.heads);
    let [nv, len] = [nk, nq].map(|n| n / spec.head_width * spec.value_width);
    let scores = Scores::PLAIN;
    check_gradients(
        &[numbers("q", nq), numbers("k", nk), numbers("v", nv), numbers("l", matrix), numbers("p", matrix)],
        |x| {
            let mixed = Talking { scores: &x[3], probabilities: &x[4] };
            filled(len, |out| attention(spec, &scores, &mixed, [&x[0], &x[1], &x[2]], &qo, &ko, out))
        },
        |x, dout| {
            // Old content must not matter.
            let (mut dq, mut dk, mut dv) = (vec![7.0; nq], vec![7.0; nk], vec![7.0; nv]);
            let mut own = vec![7.0; queries.len() * 2 * matrix];
            let mixed = Talking { scores: &x[3], probabilities: &x[4] };
            let (inputs, grads) = ([&x[0], &x[1], &x[2], dout], [dq.as_mut_slice(), &mut dk, &mut dv]);
            attention_grad(spec, &scores, &mixed, inputs, &qo, &ko, grads, [&mut [], &mut own]);
            let sum =
                |from: usize| (from..from + matrix).map(|n| own.iter().skip(n).step_by(2 * matrix).sum()).collect();
            vec![dq, dk, dv, sum(0), sum(matrix)]
        },
    );
}

/// Different by head; the last queries of a row see nothing.
fn uneven(head: usize, i: usize, j: usize) -> bool {
    j <= i + head && i < 20
}

fn uneven_rule(at: MaskRow, allowed: &mut [bool]) {
    for (n, allowed) in allowed.iter_mut().enumerate() {
        *allowed = uneven(at.head, at.query, at.first + n);
    }
}

/// The keys at these distances.
const NEAR: Offsets<'_> = Offsets { list: &[0, 2], seen: &[true, false, true], few: true };

#[test]
fn talking_heads_are_as_defined() {
    let row_keys = [Key::new(1), Key::new(2), Key::new(3)];
    let masks: [(MaskKind<'_>, Sees<'_>); 4] = [
        (MaskKind::All, &|_, _, _| true),
        (MaskKind::Causal, &|_, i, j| j <= i),
        (MaskKind::Dense(&uneven_rule), &uneven),
        (MaskKind::Offsets(NEAR), &|_, i, j| i == j || i == j + 2),
    ];
    for (heads, e, value_width, softcap) in [(1, 3, 3, None), (2, 5, 9, Some(0.7)), (3, 16, 16, None), (4, 2, 1, None)]
    {
        for (mask, sees) in masks {
            let spec = Attention { value_width, scale: 0.6, softcap, ..Attention::new(heads, e, mask) };
            check(&spec, &[1, 7, 0], sees);
            check(&spec, &[70, 3, 130], sees);
            let dropout = Some(ProbabilityDropout { p: 0.3, row_keys: &row_keys });
            check(&Attention { dropout, ..spec }, &[9, 1, 70], sees);
        }
    }
}

#[test]
fn slopes_of_talking_heads() {
    let row_keys = [Key::new(1), Key::new(2), Key::new(3)];
    let dropout = Some(ProbabilityDropout { p: 0.3, row_keys: &row_keys });
    for (heads, key_heads, e, value_width, softcap) in [(2, 2, 3, 3, None), (4, 2, 2, 5, Some(0.7)), (3, 1, 2, 1, None)]
    {
        for mask in [MaskKind::All, MaskKind::Causal, MaskKind::Dense(&uneven_rule), MaskKind::Offsets(NEAR)] {
            let spec = Attention { key_heads, value_width, softcap, ..Attention::new(heads, e, mask) };
            check_slopes(&spec, &[3, 0, 5], &[3, 0, 5]);
            check_slopes(&Attention { dropout, ..spec }, &[1, 4, 2], &[1, 4, 2]);
        }
    }
    // Several blocks of queries; more queries than keys, and the other way round.
    check_slopes(&Attention::new(2, 1, MaskKind::Causal), &[70], &[70]);
    check_slopes(&Attention::new(2, 2, MaskKind::All), &[1, 4], &[5, 2]);
}

/// Matrices that mix nothing.
#[test]
fn silent_heads_are_plain_attention() {
    let (heads, e, lengths) = (3, 5, [1, 20, 131]);
    let at = offsets(&lengths);
    let len = at[lengths.len()] * heads * e;
    let [q, k, v] = ["q", "k", "v"].map(|name| numbers(name, len));
    let identity: Vec<f64> = (0..9).map(|n| f64::from(n / 3 == n % 3)).collect();
    let mixed = Talking { scores: &identity, probabilities: &identity };
    for mask in [MaskKind::All, MaskKind::Causal] {
        let spec = Attention::new(heads, e, mask);
        let expected = filled(len, |out| plain::attention(&spec, &q, &k, &v, &at, &at, out));
        close(
            &filled(len, |out| attention(&spec, &Scores::PLAIN, &mixed, [&q, &k, &v], &at, &at, out)),
            &expected,
            1e-13,
        );
    }
}

/// Position by position, and several at once.
#[test]
fn talking_heads_with_a_cache() {
    let (heads, key_heads, e, value_width, n) = (4, 2, 3, 5, 90);
    let [q, k, v] = [("q", heads * e), ("k", key_heads * e), ("v", key_heads * value_width)]
        .map(|(name, width)| numbers(name, n * width));
    let [l, p] = ["l", "p"].map(|name| numbers(name, heads * heads));
    let mixed = Talking { scores: &l, probabilities: &p };
    let bias: Vec<f64> = numbers("bias", heads * n);
    let values = ScoreBias::ByOffset { values: &bias, first: 0, span: n };
    let scores = Scores { bias: values, relative: None };
    let spec = Attention { key_heads, value_width, softcap: Some(2.0), ..Attention::new(heads, e, MaskKind::Causal) };
    let at = [0, n];
    let expected =
        filled(n * heads * value_width, |out| attention(&spec, &scores, &mixed, [&q, &k, &v], &at, &at, out));
    for step in [1, 7, 33] {
        let (mut cache, mut out) = (KeyValueCache::new(key_heads, [e, value_width], false), vec![]);
        let (queries, keys, values) = (step * heads * e, step * key_heads * e, step * key_heads * value_width);
        for ((q, k), v) in q.chunks(queries).zip(k.chunks(keys)).zip(v.chunks(values)) {
            cache.push(k, v);
            out.extend(filled(q.len() / e * value_width, |out| attend(&spec, &scores, &mixed, None, &cache, q, out)));
        }
        close(&out, &expected, 1e-13);
    }
}
