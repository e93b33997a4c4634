//! Attention to few keys at known distances: the same numbers as with a dense mask, forward and backward.

use rtc_base::rng::Key;
use rtc_kernel::attention::{
    Attention, KeyRule, MaskKind, MaskRow, Offsets, ProbabilityDropout, Relative, ScoreBias, Scores, SeparateGradients,
    attention_grad_with, attention_with,
};

use crate::support::{close, numbers, offsets};

/// Output, gradients of queries, keys and values, and those of what is in the scores besides, summed over the rows.
fn run(spec: &Attention<'_>, scores: Scores<'_, f64>, lengths: &[usize]) -> Vec<Vec<f64>> {
    run_apart(spec, scores, lengths, None)
}

/// As [`run`], and the gradients of keys and values that go apart, if any do.
fn run_apart(
    spec: &Attention<'_>,
    scores: Scores<'_, f64>,
    lengths: &[usize],
    rule: Option<&KeyRule<'_>>,
) -> Vec<Vec<f64>> {
    let at = offsets(lengths);
    let [len, shared] = [spec.heads, spec.key_heads].map(|heads| at[lengths.len()] * heads * spec.head_width);
    let [outputs, values] = [len, shared].map(|len| len / spec.head_width * spec.value_width);
    let [q, k, v, dout] =
        [("q", len), ("k", shared), ("v", values), ("dout", outputs)].map(|(name, len)| numbers(name, len));
    let [mut out, mut dq, mut dk, mut dv] = [outputs, len, shared, values].map(|len| vec![7.0; len]);
    attention_with(spec, &scores, [&q, &k, &v], &at, &at, &mut out);
    let width = spec.heads * scores.gradients(spec.head_width);
    let mut partial = vec![7.0; lengths.len() * width];
    let [mut other_k, mut other_v] = [shared, values].map(|len| vec![7.0; if rule.is_some() { len } else { 0 }]);
    let apart = rule.map(|rule| SeparateGradients { rule, grads: [&mut other_k, &mut other_v] });
    attention_grad_with(spec, &scores, [&q, &k, &v, &dout], &at, &at, [&mut dq, &mut dk, &mut dv], apart, &mut partial);
    let mut slopes = vec![0.0; width];
    for part in partial.chunks(width.max(1)) {
        slopes.iter_mut().zip(part).for_each(|(sum, x)| *sum += x);
    }
    vec![out, dq, dk, dv, slopes, other_k, other_v]
}

#[test]
fn random_distances_give_what_a_dense_mask_gives() {
    let lengths = [1, 40, 9, 33];
    let keys: Vec<Key> = (0..lengths.len() as u64).map(|row| Key::new(3).at(row)).collect();
    for case in 0..24_u64 {
        let draws = Key::new(11).at(case);
        let mut list: Vec<isize> =
            (0..6).map(|n| draws.below(n, 40) as isize - if case % 3 == 0 { 20 } else { 0 }).collect();
        if case % 4 == 1 {
            // A window.
            list = (list[0]..list[0] + 5).collect();
        }
        list.sort_unstable();
        list.dedup();
        let first = list[0];
        let span = (list[list.len() - 1] - first + 1) as usize;
        let seen: Vec<bool> = (0..span).map(|n| list.contains(&(first + n as isize))).collect();
        let values = numbers("bias", 2 * span);
        let dropout = (case % 2 == 0).then_some(ProbabilityDropout { p: 0.3, row_keys: &keys });
        let (key_heads, softcap) = (if case % 5 < 2 { 1 } else { 2 }, (case % 7 < 3).then_some(0.6));
        let value_width = [11, 5, 19][case as usize % 3];
        let with =
            |mask| Attention { key_heads, value_width, scale: 0.3, softcap, dropout, ..Attention::new(2, 11, mask) };
        let sees = |at: MaskRow, flags: &mut [bool]| {
            for (key, flag) in (at.first..).zip(flags) {
                *flag = list.contains(&(at.query as isize - key as isize));
            }
        };
        let [few, blocks] = [true, false].map(|few| with(MaskKind::Offsets(Offsets { list: &list, seen: &seen, few })));
        let dense = with(MaskKind::Dense(&sees));
        let reach = |at: MaskRow| {
            let inside = |key: isize| usize::try_from(key).unwrap_or(0);
            (inside(at.query as isize - list[list.len() - 1])..inside(at.query as isize - first + 1), false)
        };
        let within = with(MaskKind::Within { reach: &reach, rule: &sees, runs: None });
        let bias = ScoreBias::ByOffset { values: &values, first, span };
        let [u, v] = ["u", "v of positions"].map(|name| numbers(name, 22));
        // Distances from 39 down to -39.
        let codes = numbers("codes", 79 * 22);
        let relative = Relative { shifts: [&u, &v], codes: &codes, last: 39 };
        for (bias, relative) in
            [(ScoreBias::None, None), (bias, None), (ScoreBias::None, Some(relative)), (bias, Some(relative))]
        {
            let scores = Scores { bias, relative };
            let expected = run(&dense, scores, &lengths);
            for (got, expected) in run(&few, scores, &lengths).iter().zip(&expected) {
                close(got, expected, 1e-11);
            }
            // Keys that nobody sees leave no trace at all.
            assert_eq!(run(&blocks, scores, &lengths), expected);
            assert_eq!(run(&within, scores, &lengths), expected);
        }
    }
}

/// The first keys, two stretches that neighbouring queries choose together, and the last keys.
#[test]
fn visits_leave_the_bits_of_a_dense_mask() {
    let lengths = [300, 1, 130, 47];
    let keys: Vec<Key> = (0..lengths.len() as u64).map(|row| Key::new(3).at(row)).collect();
    let slopes = numbers("bias", 2 * 599);
    for case in 0..8_u64 {
        let ranges = |at: MaskRow| {
            let own = Key::new(17).at(case).at(at.row as u64).at(at.query as u64 / 9);
            let chosen = |n| {
                let first = own.below(n, at.query as u64 + 1) as usize;
                first..(first + 1 + own.below(n + 2, 30) as usize).min(at.query + 1)
            };
            let last = at.query.saturating_sub(5)..at.query + 1;
            let blind = case % 2 == 1 && at.query % 90 < 20;
            if blind { [0, 1, 2, 3].map(|_| 0..0) } else { [0..2.min(at.query + 1), chosen(0), chosen(1), last] }
        };
        let sees = |at: MaskRow, flags: &mut [bool]| {
            for (key, flag) in (at.first..).zip(flags) {
                *flag = ranges(at).iter().any(|range| range.contains(&key));
            }
        };
        let reach = |at: MaskRow| (0..at.query + 1, false);
        let runs = |at: MaskRow, f: &mut dyn FnMut(std::ops::Range<usize>)| ranges(at).into_iter().for_each(f);
        let dropout = (case % 4 < 2).then_some(ProbabilityDropout { p: 0.3, row_keys: &keys });
        let softcap = (case % 3 == 0).then_some(0.6);
        let with = |mask| Attention { key_heads: 1, scale: 0.3, softcap, dropout, ..Attention::new(2, 11, mask) };
        let dense = with(MaskKind::Dense(&sees));
        let visited = with(MaskKind::Within { reach: &reach, rule: &sees, runs: Some(&runs) });
        let stop = |at: MaskRow, holds: &mut [bool]| {
            (at.first..).zip(holds).for_each(|(key, holds)| *holds = key + 7 < at.query);
        };
        let bias = ScoreBias::ByOffset { values: &slopes, first: -299, span: 599 };
        for (bias, rule) in [(ScoreBias::None, None), (bias, Some(&stop as &KeyRule<'_>))] {
            let scores = Scores { bias, relative: None };
            assert_eq!(run_apart(&visited, scores, &lengths, rule), run_apart(&dense, scores, &lengths, rule));
        }
    }
}

#[test]
fn where_no_key_is_seen_everything_is_zero() {
    let none = Attention::new(1, 4, MaskKind::Offsets(Offsets { list: &[], seen: &[], few: true }));
    for part in run(&none, Scores::PLAIN, &[5, 2]) {
        assert!(part.iter().all(|x| *x == 0.0));
    }
}
