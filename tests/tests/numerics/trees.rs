//! Trees that are recorded of a search: whoever joins by them gets what the search gave.

use rtc_base::batch::Batch;
use rtc_base::rng::Key;
use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline;
use rtc_exec::{Beam, Halting, Inference, ParseTrees};
use rtc_tests::models::{self, CLASSES, VOCAB, binding};
use rtc_tests::numeric::{Arrays, batch, executor, weights};

/// Nodes are joined by their mean, so that a tree says what its root is.
const BEAM: &str = "recurse beam { size: 3, leaf none, score mlp, select top_k { noise: none }, pool mean }";
const WIDTH: usize = 4;

/// The value of a tree: the mean of the values of its two parts.
fn value(beam: &Beam, leaves: &[Vec<f64>]) -> Vec<f64> {
    // What has no parent yet: where it ends, and its value.
    let mut open: Vec<(usize, usize, Vec<f64>)> =
        leaves.iter().enumerate().map(|(n, leaf)| (n, n + 1, leaf.clone())).collect();
    for &(start, length) in &beam.spans {
        let at = open.iter().position(|part| part.0 == start).expect("parts come before the whole");
        let (left, right) = (open.remove(at), open.remove(at));
        assert_eq!((left.1, right.1), (right.0, start + length), "the two parts of a span fill it");
        let mean = left.2.iter().zip(&right.2).map(|(l, r)| (l + r) / 2.0).collect();
        open.insert(at, (start, start + length, mean));
    }
    assert_eq!(open.len(), 1, "one root is left");
    open.remove(0).2
}

/// Logits and trees of a model that ends in the search.
fn searched(around: &str, rows: &Batch, inference: Inference) -> (Arrays, Vec<f64>, Vec<ParseTrees>) {
    let spec = models::parse(&format!(
        "model m {{ embed {{ width: {WIDTH}, init: 1.0 }}, {}, readout root, head linear }}",
        around.replace("BEAM", BEAM)
    ));
    let graph = pipeline::inference(&spec, &binding(Objective::Classify)).expect("the model lowers");
    let weights = weights(&graph, 3, 0.8);
    let mut executor = executor::<f64>(&graph, &weights, Halting::Compact);
    executor.settings.inference = inference;
    let plain = executor.run(rows, Key::new(1)).expect("the batch fits").real("logits").expect("logits").to_vec();
    executor.records.trees = Some(vec![]);
    let watched = executor.run(rows, Key::new(1)).expect("the batch fits").real("logits").expect("logits").to_vec();
    assert_eq!(plain, watched, "watching changes no bit");
    (weights, plain, executor.records.trees.take().expect("it was set"))
}

fn parameter<'a>(weights: &'a Arrays, from: &str, to: &str) -> &'a [f64] {
    let found = weights.iter().find(|(name, _)| name.starts_with(from) && name.ends_with(to));
    found.unwrap_or_else(|| panic!("no `{from}` in {:?}", weights.keys())).1
}

#[test]
fn the_trees_of_a_search_make_its_answer() {
    let rows = batch(&[7, 1, 12, 2], VOCAB as u64, CLASSES as u64, 5);
    let nested = "recurse balanced { arity: 4, leaf none, align string, BEAM }";
    for (around, inference) in
        [("BEAM", Inference::Recursive), (nested, Inference::Recursive), (nested, Inference::Flat)]
    {
        let (weights, logits, grown) = searched(around, &rows, inference);
        assert_eq!(grown.iter().map(|one| one.row).collect::<Vec<_>>(), [0, 1, 2, 3]);
        let table = parameter(&weights, "embed", "");
        let (map, bias) = (parameter(&weights, "head", "weight"), parameter(&weights, "head", "bias"));
        for one in &grown {
            let leaf = |token: &u32| table[*token as usize * WIDTH..][..WIDTH].to_vec();
            let leaves: Vec<Vec<f64>> = rows.row(one.row).iter().map(leaf).collect();
            assert_eq!(one.length, leaves.len());
            let total: f64 = one.beams.iter().map(|beam| beam.weight).sum();
            assert!((total - 1.0).abs() < 1e-12, "{total}");
            assert!(one.beams.windows(2).all(|two| two[0].weight >= two[1].weight));
            let mut root = [0.0; WIDTH];
            for beam in &one.beams {
                let score = |beam: &Beam| beam.score.expect("a search scores its trees");
                let apart = (score(beam) - score(&one.beams[0])).exp();
                assert!((beam.weight / one.beams[0].weight - apart).abs() < 1e-9, "weights follow the scores");
                root.iter_mut().zip(value(beam, &leaves)).for_each(|(sum, x)| *sum += beam.weight * x);
            }
            for (class, bias) in bias.iter().enumerate() {
                let dot = root.iter().zip(&map[class * WIDTH..]).map(|(x, w)| x * w).sum::<f64>() + bias;
                let found = logits[one.row * CLASSES + class];
                assert!((found - dot).abs() < 1e-9, "{around}, row {}: {found} is not {dot}", one.row);
            }
        }
    }
}

/// Searches of chunks for themselves make no tree of the row: none is recorded.
#[test]
fn searches_of_chunks_alone_have_no_tree_of_the_row() {
    let rows = batch(&[7, 12], VOCAB as u64, CLASSES as u64, 5);
    let apart = "recurse balanced { arity: 4, leaf none, align none, BEAM }";
    let (_, _, grown) = searched(apart, &rows, Inference::Recursive);
    assert!(grown.is_empty(), "{grown:?}");
}
