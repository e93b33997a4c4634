//! Searches that can be followed with a pencil: the cell is `l + 2 r`, scores are logarithms of small integers.

use rtc_compiler::ir::loops::Cut;
use rtc_compiler::ir::schedule::beam::{BeamRules, Count, live_after};
use rtc_kernel::beam::align::{Align, BeamSlots, DrawSource, align, join_grad};
use rtc_kernel::beam::marginal::weighed;
use rtc_kernel::beam::nodes::blend;
use rtc_kernel::beam::{
    BlendTerm, Blends, Candidate, Compose, Noise, NoiseSite, NoiseTarget, Overflow, Search, SearchRules, log_sum_exp,
    top_k,
};

const A: f64 = 5.0; // (a b)
const C: f64 = 11.0; // (c d)

/// The score of a pair in a sequence of values.
fn score(sequence: &[f64], at: usize) -> f64 {
    let (first, last) = (sequence[0], sequence[sequence.len() - 1]);
    let pair = (sequence[at], sequence[at + 1]);
    let number: f64 = match pair {
        (3.0, 4.0) if first == A => 4.0,
        (1.0, 2.0) if last == C => 1.0,
        (1.0, 2.0) => 6.0,
        (2.0, 3.0) => 3.0,
        (1.0, 8.0) => 9.0,
        _ => 1.0,
    };
    number.ln()
}

struct Outcome {
    roots: Vec<f64>,
    probabilities: Vec<f64>,
    mean: f64,
}

/// Searches over the leaves 1, 2, 3, 4 with that scorer, which, unlike a real one, sees the whole beam.
fn search(rules: SearchRules, noise: Noise) -> Outcome {
    let mut search = Search::default();
    let mut values = vec![1.0, 2.0, 3.0, 4.0];
    let mut scores: Vec<f64> = vec![];
    search.leaves(rules, &[0, 4]);
    loop {
        if rules.compose == Compose::Every {
            compose(&mut values, search.fresh().left, search.fresh().right);
        }
        scores.resize(search.pairs(), 0.0);
        for beam in 0..search.live(0) {
            let sequence: Vec<f64> = search.beam(0, beam).iter().map(|&node| values[node as usize]).collect();
            for (at, &pair) in search.beam_pairs(0, beam).iter().enumerate().filter(|_| sequence.len() > 2) {
                scores[pair as usize] = score(&sequence, at);
            }
        }
        if !search.is_busy() {
            break;
        }
        search.step(&scores, noise, None);
        let mut mixed = vec![0.0; search.blends().len()];
        blend(search.blends(), &values, 1, &mut mixed);
        values.extend(mixed);
        compose(&mut values, search.merges().left, search.merges().right);
    }
    let roots: Vec<BlendTerm> = weighed(&search, 0).collect();
    let mut out = [0.0];
    blend(Blends::new(&[0, roots.len()], &roots), &values, 1, &mut out);
    Outcome {
        roots: roots.iter().map(|root| values[root.node as usize]).collect(),
        probabilities: search.scores(0).iter().map(|score| score.exp()).collect(),
        mean: out[0],
    }
}

/// Appends the parents of these pairs.
fn compose(values: &mut Vec<f64>, left: &[u32], right: &[u32]) {
    for (&left, &right) in left.iter().zip(right) {
        values.push(values[left as usize] + 2.0 * values[right as usize]);
    }
}

fn beams(width: usize) -> SearchRules {
    SearchRules { width, ..SearchRules::default() }
}

#[track_caller]
fn close(got: &[f64], expected: &[f64]) {
    assert_eq!(got.len(), expected.len(), "{got:?} instead of {expected:?}");
    for (got, expected) in got.iter().zip(expected) {
        assert!((got - expected).abs() < 1e-12, "{got} instead of {expected}");
    }
}

#[test]
fn four_leaves_without_noise() {
    let one = search(beams(1), Noise::None);
    close(&one.roots, &[27.0]);
    let two = search(beams(2), Noise::None);
    close(&two.roots, &[27.0, 25.0]);
    close(&two.probabilities, &[0.48, 0.27]);
    close(&[two.mean], &[26.28]);
    let three = search(beams(3), Noise::None);
    close(&three.roots, &[27.0, 25.0, 19.0]);
    close(&[three.mean], &[21.99 / 0.87]);
    let five = search(beams(5), Noise::None);
    close(&five.roots, &[27.0, 25.0, 19.0, 27.0, 49.0]);
    close(&five.probabilities, &[0.48, 0.27, 0.12, 0.05, 0.05]);
    close(&[five.mean], &[25.79 / 0.97]);
}

#[test]
fn noise_chooses_and_is_forgotten() {
    let noise = |site: NoiseSite| match (site.step, site.draw) {
        (0, NoiseTarget::Pair { pair, .. }) => [0.0, 1.5, 2.5][pair],
        (1, NoiseTarget::Pair { beam: 1, pair }) => [0.0, 0.1][pair],
        (1, NoiseTarget::Candidate(number)) => [0.0, 0.0, 1.0, 0.0][number],
        _ => 0.0,
    };
    let outcome = search(beams(2), Noise::Given(&noise));
    close(&outcome.roots, &[25.0, 49.0]);
    close(&outcome.probabilities, &[0.27, 0.05]);
    close(&[outcome.mean], &[28.75]);
}

#[test]
fn parents_that_were_composed_first_are_the_same() {
    let outcome = search(SearchRules { compose: Compose::Every, ..beams(5) }, Noise::None);
    close(&outcome.roots, &[27.0, 25.0, 19.0, 27.0, 49.0]);
    close(&[outcome.mean], &[25.79 / 0.97]);
}

/// Six trees fit into seven beams, so nothing is chosen: a full chunk keeps the order in which they came, a shorter one has
/// the best tree first.
#[test]
fn short_chunks_are_in_order() {
    let ordered = |chunk: usize| search(SearchRules { chunk, ..beams(7) }, Noise::None).probabilities;
    close(&ordered(4), &[0.48, 0.12, 0.27, 0.03, 0.05, 0.05]);
    close(&ordered(5), &[0.48, 0.27, 0.12, 0.05, 0.05, 0.03]);
}

/// Before the second step the beams are 5 3 4 and 1 8 4. The best candidate stays, the others have shares of 9, 4 and 1 of 14:
/// 5 of 7 for the second beam, 13 of 14 for the first position. The means of parents there are 107 and 102 of 7, the old nodes
/// 15 of 7 and 4: the new nodes are 703 of 49 and 233 of 49.
#[test]
fn what_has_no_beam_is_softened() {
    let rules = SearchRules { compose: Compose::Every, overflow: Overflow::Soften, ..beams(2) };
    let outcome = search(rules, Noise::None);
    let score = (9.0 * 0.27_f64.ln() + 4.0 * 0.12_f64.ln() + 0.03_f64.ln()) / 14.0;
    assert!((score + 1.697_971).abs() < 2e-6);
    close(&outcome.probabilities, &[0.48, score.exp()]);
    let root = (703.0 + 2.0 * 233.0) / 49.0;
    close(&outcome.roots, &[27.0, root]);
    close(&[outcome.mean], &[(0.48 * 27.0 + score.exp() * root) / (0.48 + score.exp())]);
}

/// Chunks of 4 leaves, searched with three beams whose scores are then the given ones.
fn chunks(rows: &[[f64; 3]]) -> (Search, Vec<f64>) {
    let mut search = Search::default();
    let offsets: Vec<usize> = (0..=rows.len()).map(|row| 4 * row).collect();
    search.leaves(beams(3), &offsets);
    let mut scores = vec![];
    // The first merge takes each of the three pairs; later pairs have no chance, so that the order stays.
    for row in rows {
        scores.extend(row.iter().map(|p| p.ln()));
    }
    while search.is_busy() {
        search.step(&scores, Noise::None, None);
        while scores.len() < search.pairs() {
            scores.push(if scores.len() % 2 == 0 { 60.0 } else { -60.0 });
        }
    }
    (search, scores)
}

#[test]
fn aligned_chunks_are_strung_together() {
    let (search, _) = chunks(&[[0.5, 0.3, 0.2], [0.7, 0.2, 0.1]]);
    let probabilities = |search: &Search, row: usize| -> Vec<f64> {
        search.scores(row).iter().map(|score| (score.exp() * 1e6).round() / 1e6).collect()
    };
    assert_eq!(probabilities(&search, 0), [0.5, 0.3, 0.2]);
    assert_eq!(probabilities(&search, 1), [0.7, 0.2, 0.1]);
    let joined = |rule: Align, draws: DrawSource| {
        let (mut search, _) = chunks(&[[0.5, 0.3, 0.2], [0.7, 0.2, 0.1]]);
        let mut slots = BeamSlots::default();
        align(&search, rule, &[0, 2], draws, &mut slots);
        search.join(&slots, &[0, 2]);
        let mut dends = [0.0; 6];
        join_grad(&slots, &[0, 2], 3, &[1.0, 10.0, 100.0], &mut dends);
        (probabilities(&search, 0), dends)
    };
    let draws = |chunk: usize, slot: usize| [[9, 0, 1], [9, 0, 0]][chunk][slot];
    let (aligned, slopes) = joined(Align::Sampled { keep_best: true }, DrawSource::Given(&draws));
    assert_eq!(aligned, [0.35, 0.35, 0.21]);
    assert_eq!(slopes, [11.0, 100.0, 0.0, 111.0, 0.0, 0.0]);
    let (string, slopes) = joined(Align::String, DrawSource::Keys(&[]));
    assert_eq!(string, [0.35, 0.06, 0.02]);
    assert_eq!(slopes, [1.0, 10.0, 100.0, 1.0, 10.0, 100.0]);
}

#[test]
fn the_best_are_found_in_order() {
    let best = |keys: &[f64], count: usize| -> Vec<u32> {
        let mut found = vec![Candidate::default(); count];
        top_k(keys.iter().copied(), &mut found);
        found.iter().map(|candidate| candidate.position).collect()
    };
    assert_eq!(best(&[1.0, 3.0, 2.0, 3.0, 0.0], 3), [1, 3, 2]);
    assert_eq!(best(&[2.0, 2.0, 2.0], 2), [0, 1]);
    assert_eq!(best(&[f64::NAN, 1.0, f64::NAN, 2.0], 3), [3, 1, 0]);
    assert_eq!(best(&[f64::NEG_INFINITY, f64::NAN], 2), [0, 1]);
}

/// Weights that have run away give numbers that are none, and no other fault.
#[test]
fn what_is_no_number_spreads_and_harms_nothing_else() {
    for (compose, overflow) in
        [(Compose::Chosen, Overflow::Prune), (Compose::Every, Overflow::Prune), (Compose::Every, Overflow::Soften)]
    {
        for score in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut search = Search::default();
            search.leaves(SearchRules { compose, overflow, chunk: 9, ..beams(3) }, &[0, 6, 8]);
            while search.is_busy() {
                let scores = vec![score; search.pairs()];
                search.step(&scores, Noise::None, None);
            }
            assert!(search.scores(0).iter().all(|score| score.is_nan()));
            assert_eq!(search.scores(1), [0.0], "the other row");
        }
    }
}

#[test]
fn sizes_follow_from_lengths() {
    assert_eq!([5, 4, 3, 2].map(|size| live_after(1, size, 7)), [4, 3, 2, 1]);
    assert_eq!([(4, 5), (7, 5), (7, 2)].map(|(live, size)| live_after(live, size, 7)), [7, 7, 7]);
    let beams = BeamRules { cut: Cut::whole(), size: 5, every: false, soft: false };
    assert_eq!([1, 2, 3].map(|length| beams.count(length, Count::Joined)), [0.0, 1.0, 2.0 + 2.0]);
}

#[test]
fn logarithms_of_sums_do_not_overflow() {
    assert!((log_sum_exp(&[1000.0_f32, 1000.0]) - 1000.0 - 2.0_f64.ln()).abs() < 1e-4);
    assert!((log_sum_exp(&[-1000.0_f64, -1001.0, -1002.0]) + 1000.0 - 0.407_605_964_444_380_1).abs() < 1e-12);
}
