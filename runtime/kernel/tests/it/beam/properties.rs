//! What holds for every search: trees, numbers of beams, carried scores, and the same bits in any company.

use rtc_base::rng::{Draws, Key};
use rtc_compiler::ir::loops::Cut;
use rtc_compiler::ir::schedule::beam::{BeamRules, Count, live_after};
use rtc_kernel::Real;
use rtc_kernel::beam::align::Align;
use rtc_kernel::beam::{Compose, Overflow, Pairs, SearchRules};

use super::driver::{Batch, Plan, Run, cut};
use super::model::{Model, random};

const D: usize = 3;
const SLICE: usize = 2;

/// Lengths, rules and a fold, drawn.
fn case(draws: &mut Draws) -> (Vec<usize>, Plan<'static>) {
    let compose = [Compose::Chosen, Compose::Every][draws.below(2) as usize];
    let longest = if compose == Compose::Every { 20 } else { 60 };
    let lengths = (0..1 + draws.below(4)).map(|_| 1 + draws.below(longest) as usize).collect();
    let share = draws.below(2) == 0;
    let keep_best = draws.below(2) == 0;
    let align = [Align::Sampled { keep_best }, Align::Uniform { keep_best }, Align::String][draws.below(3) as usize];
    let arity = (draws.below(3) > 0).then(|| 2 + draws.below(9) as usize);
    let width = 1 + draws.below(7) as usize;
    let rules = SearchRules { width, compose, overflow: Overflow::Prune, share, chunk: arity.unwrap_or(0) };
    (lengths, Plan { rules, arity, align, given: None, noisy: draws.below(2) == 0 })
}

fn offsets_of(lengths: &[usize]) -> Vec<usize> {
    (0..=lengths.len()).map(|n| lengths[..n].iter().sum()).collect()
}

fn leaves<T: Real>(offsets: &[usize], keys: &[Key]) -> Vec<T> {
    let rows = offsets.windows(2).zip(keys);
    rows.flat_map(|(row, key)| (0..(row[1] - row[0]) * D).map(|i| T::from_f64(key.stream("leaves").normal(i as u64))))
        .collect()
}

fn keys(rows: usize) -> Vec<Key> {
    (0..rows as u64).map(|row| Key::new(99).at(row)).collect()
}

/// The leaves under every node, first and behind the last; fails where a node joins what does not lie side by side.
fn spans(run: &Run<f64>, leaves: usize, compose: Compose) -> Vec<(usize, usize)> {
    let mut spans: Vec<_> = (0..leaves).map(|leaf| (leaf, leaf + 1)).collect();
    for index in 0..run.record.len() {
        let step = run.record.step(index);
        assert_eq!(spans.len(), step.first_node, "step {index}");
        let Pairs { left, right } = if compose == Compose::Every { step.fresh } else { step.merges };
        for (&left, &right) in left.iter().zip(right) {
            let (left, right) = (spans[left as usize], spans[right as usize]);
            assert_eq!(left.1, right.0, "neighbours");
            spans.push((left.0, right.1));
        }
    }
    spans
}

/// Neighbours have the same number in every beam of a row, and its score is what the scorer says of them.
fn pairs_are_right(run: &Run<f64>, model: &Model<f64>, compose: Compose) {
    for row in 0..run.search.rows() {
        let mut numbers = std::collections::BTreeMap::new();
        for beam in 0..run.search.live(row) {
            let nodes = run.search.beam(row, beam);
            assert!(nodes.iter().all(|&node| (node as usize) < run.search.nodes()));
            if nodes.len() <= 2 {
                continue;
            }
            for (&pair, two) in run.search.beam_pairs(row, beam).iter().zip(nodes.windows(2)) {
                assert_eq!(*numbers.entry((two[0], two[1])).or_insert(pair), pair, "one pair has one number");
                let node = |node: u32, width: usize| run.nodes[node as usize * D..][..width].to_vec();
                let score = match compose {
                    Compose::Chosen => model.score_pairs(&[node(two[0], SLICE), node(two[1], SLICE)].concat()),
                    Compose::Every => model.score_parents(&model.compose(&[node(two[0], D), node(two[1], D)].concat())),
                };
                assert_eq!(run.pair_scores[pair as usize].to_bits(), score[0].to_bits(), "as if scored again");
            }
        }
    }
}

/// Numbers of beams and nodes are those that lengths and rules say.
fn sizes_are_right(run: &Run<f64>, chunks: &[usize], rules: SearchRules) {
    let mut live = vec![1; chunks.len() - 1];
    let mut size: Vec<usize> = chunks.windows(2).map(|chunk| chunk[1] - chunk[0]).collect();
    let steps = size.iter().max().map_or(0, |longest| longest - 1);
    for step in &run.seen[..steps] {
        for seen in step {
            live[seen.row] = live_after(live[seen.row], size[seen.row], rules.width);
            size[seen.row] -= 1;
            assert_eq!((seen.beams.len(), seen.scores.len()), (live[seen.row], live[seen.row]));
            assert!(seen.beams.iter().all(|beam| beam.len() == size[seen.row]));
            assert!(seen.scores.iter().all(|&score| score <= 1e-12), "a sum of logarithms of probabilities");
        }
    }
    assert!(size.iter().all(|&size| size == 1));
}

#[test]
fn every_root_is_a_tree_over_its_row() {
    let mut draws = Key::new(1).stream("cases").draws();
    let model = Model::<f64>::new(D, SLICE, &random(D, SLICE, 2));
    for _ in 0..80 {
        let (lengths, plan) = case(&mut draws);
        let (offsets, keys) = (offsets_of(&lengths), keys(lengths.len()));
        let batch = Batch { offsets: &offsets, keys: &keys };
        let compose = plan.rules.compose;
        let look = |run: &Run<f64>| pairs_are_right(run, &model, compose);
        let run = Run::forward_seen(&model, plan, batch, &leaves(&offsets, &keys), look);
        sizes_are_right(&run, &cut(&offsets, plan.arity).0, plan.rules);
        let spans = spans(&run, offsets[lengths.len()], compose);
        for (row, span) in offsets.windows(2).enumerate() {
            let live = run.search.live(row);
            assert!((1..=plan.rules.width).contains(&live));
            (0..live).for_each(|beam| {
                assert_eq!(
                    spans[run.search.root(row, beam) as usize],
                    (span[0], span[1]),
                    "all leaves, once, in order"
                );
            });
        }
        if plan.arity.is_none() && compose == Compose::Chosen {
            let beams = BeamRules { cut: Cut::whole(), size: plan.rules.width, every: false, soft: false };
            let merges: f64 = lengths.iter().map(|length| beams.count(*length, Count::Joined)).sum();
            let nodes = offsets[lengths.len()] + merges as usize;
            assert!(run.search.nodes() == nodes || plan.rules.share && run.search.nodes() < nodes);
        }
    }
}

#[test]
fn sharing_changes_no_bit() {
    let model = Model::<f32>::new(D, SLICE, &random(D, SLICE, 2));
    let mut draws = Key::new(1).stream("sharing").draws();
    let mut fewer = 0;
    for _ in 0..30 {
        let (lengths, plan) = case(&mut draws);
        let (offsets, keys) = (offsets_of(&lengths), keys(lengths.len()));
        let run = |share: bool| {
            let rules = SearchRules { share, compose: Compose::Chosen, ..plan.rules };
            let batch = Batch { offsets: &offsets, keys: &keys };
            Run::forward(&model, Plan { rules, ..plan }, batch, &leaves(&offsets, &keys))
        };
        let (alone, shared) = (run(false), run(true));
        assert!(alone.out.iter().map(|x| x.to_bits()).eq(shared.out.iter().map(|x| x.to_bits())));
        fewer += usize::from(shared.search.nodes() < alone.search.nodes());
    }
    assert!(fewer > 10, "beams have merges in common");
}

/// Softened beams: pairs are right, too, and what they share is not blended.
#[test]
fn softened_beams_are_beams() {
    let mut draws = Key::new(1).stream("soft").draws();
    let model = Model::<f64>::new(D, SLICE, &random(D, SLICE, 2));
    for _ in 0..40 {
        let lengths: Vec<usize> = (0..1 + draws.below(3)).map(|_| 1 + draws.below(14) as usize).collect();
        let width = 2 + draws.below(4) as usize;
        let rules =
            SearchRules { width, compose: Compose::Every, overflow: Overflow::Soften, ..SearchRules::default() };
        let arity = (draws.below(2) == 0).then_some(4);
        let plan = Plan {
            arity,
            noisy: draws.below(2) == 0,
            ..Plan::flat(SearchRules { chunk: arity.unwrap_or(0), ..rules })
        };
        let (offsets, keys) = (offsets_of(&lengths), keys(lengths.len()));
        let batch = Batch { offsets: &offsets, keys: &keys };
        let look = |run: &Run<f64>| {
            pairs_are_right(run, &model, Compose::Every);
            for blend in 0..run.search.blends().len() {
                let sum: f64 = run.search.blends().of(blend).iter().map(|term| term.share).sum();
                assert!((sum - 1.0).abs() < 1e-12, "a mean: {sum}");
            }
        };
        let run = Run::forward_seen(&model, plan, batch, &leaves(&offsets, &keys), look);
        assert!(run.out.iter().all(|x| x.is_finite()));
        assert!((0..lengths.len()).all(|row| run.search.live(row) <= width));
    }
}

/// Output and gradient of the leaves of every row, bit by bit.
fn bits(model: &Model<f32>, plan: Plan, lengths: &[usize], keys: &[Key]) -> Vec<Vec<u32>> {
    let offsets = offsets_of(lengths);
    let run = Run::forward(model, plan, Batch { offsets: &offsets, keys }, &leaves(&offsets, keys));
    let dout: Vec<f32> = (0..run.out.len()).map(|i| (1 + i % D) as f32).collect();
    let mut grads = model.zeros();
    let dleaves = run.backward(model, plan.rules.compose, &dout, &mut grads);
    let rows = run.out.chunks_exact(D).zip(offsets.windows(2));
    let numbers = rows.map(|(out, row)| out.iter().chain(&dleaves[row[0] * D..row[1] * D]));
    numbers.map(|row| row.map(|x| x.to_bits()).collect()).collect()
}

#[test]
fn rows_are_alone() {
    let mut draws = Key::new(1).stream("rows").draws();
    let model = Model::<f32>::new(D, SLICE, &random(D, SLICE, 3));
    for soft in [false, true] {
        for _ in 0..12 {
            let (mut lengths, mut plan) = case(&mut draws);
            if soft {
                plan.rules = SearchRules { compose: Compose::Every, overflow: Overflow::Soften, ..plan.rules };
                lengths.iter_mut().for_each(|length| *length = 1 + *length % 12);
            }
            let keys = keys(lengths.len());
            let together = bits(&model, plan, &lengths, &keys);
            let mut order: Vec<usize> = (0..lengths.len()).collect();
            draws.shuffle(&mut order);
            let in_order = |rows: &[usize]| {
                let lengths: Vec<usize> = rows.iter().map(|&row| lengths[row]).collect();
                let keys: Vec<Key> = rows.iter().map(|&row| keys[row]).collect();
                bits(&model, plan, &lengths, &keys)
            };
            let moved = in_order(&order);
            for (&row, moved) in order.iter().zip(&moved) {
                assert!(together[row] == *moved, "row {row} of {lengths:?} depends on its place");
                assert!(together[row] == in_order(&[row])[0], "row {row} of {lengths:?} depends on its neighbours");
            }
        }
    }
}

#[test]
fn threads_change_no_bit() {
    let model = Model::<f32>::new(D, SLICE, &random(D, SLICE, 4));
    let lengths: Vec<usize> = (0..400).map(|row| 40 + row % 21).collect();
    let keys = keys(lengths.len());
    for arity in [None, Some(20)] {
        let rules = SearchRules { width: 7, ..SearchRules::default() };
        let plan = Plan { arity, noisy: true, ..Plan::flat(rules) };
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool of threads");
            pool.install(|| bits(&model, plan, &lengths, &keys))
        };
        let one = on(1);
        assert!(one == on(2) && one == on(3), "the bits depend on the number of threads");
    }
}
