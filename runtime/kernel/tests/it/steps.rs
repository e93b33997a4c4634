//! Attention to the keys of several steps against the definition.

use rtc_kernel::attention::cache::{KeyValueCache, attend};
use rtc_kernel::attention::steps::{by_position, pack, unpack};
use rtc_kernel::attention::{Attention, MaskKind, MaskRow, Offsets, Scores, attention};

use crate::support::{close, filled, numbers, offsets};

/// Which positions a query sees.
type Sees<'a> = &'a dyn Fn(usize, usize) -> bool;

/// One softmax over all keys of all steps, `[positions, steps, width]`, one query at a time.
fn reference(spec: &Attention, [q, k, v]: [&[f64]; 3], at: &[usize], steps: usize, sees: Sees) -> Vec<f64> {
    let (e, width) = (spec.head_width, spec.heads * spec.head_width);
    let mut out = vec![0.0; q.len()];
    for (row, head) in (0..at.len() - 1).flat_map(|row| (0..spec.heads).map(move |head| (row, head))) {
        for i in at[row]..at[row + 1] {
            let seen = (at[row]..at[row + 1]).filter(|j| sees(i - at[row], j - at[row]));
            let keys: Vec<usize> =
                seen.flat_map(|j| (0..steps).map(move |step| (j * steps + step) * width + head * e)).collect();
            let own = i * width + head * e;
            let score = |key: usize| (0..e).map(|c| q[own + c] * k[key + c]).sum::<f64>() * spec.scale;
            let total: f64 = keys.iter().map(|key| score(*key).exp()).sum();
            for key in keys {
                let p = score(key).exp() / total;
                (0..e).for_each(|c| out[own + c] += p * v[key + c]);
            }
        }
    }
    out
}

fn near(_: MaskRow) -> (std::ops::Range<usize>, bool) {
    (0..usize::MAX, false)
}

fn rule(at: MaskRow, seen: &mut [bool]) {
    for (n, seen) in seen.iter_mut().enumerate() {
        *seen = (at.first + n) % 3 != at.query % 3;
    }
}

#[test]
fn every_position_has_the_keys_of_all_steps() {
    let at = offsets(&[1, 7, 0, 40]);
    let (heads, e) = (2, 5);
    let width = heads * e;
    let (window, hops) = ([true, true, true], [true, false, true]);
    let masks: [(MaskKind<'_>, Sees<'_>); 6] = [
        (MaskKind::All, &|_, _| true),
        (MaskKind::Causal, &|i, j| j <= i),
        (MaskKind::Offsets(Offsets { list: &[-1, 0, 1], seen: &window, few: false }), &|i, j| i.abs_diff(j) <= 1),
        (MaskKind::Offsets(Offsets { list: &[0, 2], seen: &hops, few: true }), &|i, j| i == j || i == j + 2),
        (MaskKind::Dense(&rule), &|i, j| j % 3 != i % 3),
        (MaskKind::Within { reach: &near, rule: &rule, runs: None }, &|i, j| j % 3 != i % 3),
    ];
    for steps in [1, 2, 5] {
        let q = numbers("q", at[4] * width);
        let [k, v] = ["k", "v"].map(|name| numbers(name, at[4] * steps * width));
        let keys: Vec<usize> = at.iter().map(|at| at * steps).collect();
        for (mask, sees) in masks {
            let spec = Attention::new(heads, e, mask);
            let out =
                filled(q.len(), |out| by_position(&spec, steps, |spec| attention(spec, &q, &k, &v, &at, &keys, out)));
            close(&out, &reference(&spec, [&q, &k, &v], &at, steps, sees), 1e-12);
        }
    }
}

/// Position by position, and several at once.
#[test]
fn keys_of_all_steps_in_a_cache() {
    let (heads, e, n, steps) = (2, 3, 40, 3);
    let width = heads * e;
    let q = numbers("q", n * width);
    let [k, v] = ["k", "v"].map(|name| numbers(name, n * steps * width));
    let (at, keys) = ([0, n], [0, n * steps]);
    let spec = Attention::new(heads, e, MaskKind::Causal);
    let expected =
        filled(q.len(), |out| by_position(&spec, steps, |spec| attention(spec, &q, &k, &v, &at, &keys, out)));
    for count in [1, 7] {
        let (mut cache, mut out) = (KeyValueCache::of_steps(heads, [e; 2], steps), vec![]);
        let size = count * steps * width;
        for ((q, k), v) in q.chunks(count * width).zip(k.chunks(size)).zip(v.chunks(size)) {
            cache.push(k, v);
            let new = filled(q.len(), |out| {
                by_position(&spec, steps, |spec| attend(spec, &Scores::PLAIN, None, &cache, q, out));
            });
            out.extend(new);
        }
        assert_eq!(cache.len(), n);
        close(&out, &expected, 1e-13);
    }
}

#[test]
fn slots_are_packed_and_unpacked() {
    let x: Vec<f64> = (0..12).map(f64::from).collect();
    let packed = filled(8, |packed| pack(&x, (3, 2, 2), packed));
    assert_eq!(packed, [0.0, 1.0, 2.0, 3.0, 6.0, 7.0, 8.0, 9.0]);
    let all = filled(12, |x| unpack(&packed, (3, 2, 2), 0.0, x));
    assert_eq!(all, [0.0, 1.0, 2.0, 3.0, 0.0, 0.0, 6.0, 7.0, 8.0, 9.0, 0.0, 0.0]);
}
