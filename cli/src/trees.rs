//! The trees of an example: those that a search found, or the one that the length decides.

use rtc_compiler::ir::loops::Cut;
use rtc_compiler::ir::schedule::{Chunk, Levels, LoopSchedule as _};
use rtc_compiler::spec::Block;
use rtc_exec::{Inference, ParseTrees};
use rtc_report::data::{Beam, RecursionTree};
use rtc_session::saved::TrainedModel;
use rtc_task::Example;

/// The most trees of a search.
const MOST: usize = 3;

/// A run of leaves: the first one, and how many they are.
type LeafSpan = (usize, usize);

/// The trees of an example, of both sides of a pair; nothing for a model that ends in no recursion.
pub(crate) fn trees(trained: &TrainedModel, example: &Example, searches: &[ParseTrees]) -> Vec<RecursionTree> {
    let fold = trained.definition.spec().and_then(|spec| spec.root.child("recurse"));
    let sides = std::iter::once(&example.tokens).chain(&example.second);
    let one = |(row, tokens): (usize, &Vec<u32>)| {
        let found: Vec<&ParseTrees> = searches.iter().filter(|search| search.row == row).collect();
        let mut trees: Vec<RecursionTree> = found.iter().map(|search| searched(search)).collect();
        if trees.is_empty() {
            let leaves = trained.positions(tokens).len();
            trees.extend(fold.map(|fold| given(fold, leaves, trained.inference)));
        }
        for tree in &mut trees {
            tree.positions = trained.positions(tokens);
            if example.second.is_some() {
                tree.place += if row == 0 { ", first sequence" } else { ", second sequence" };
            }
        }
        trees
    };
    sides.enumerate().flat_map(one).collect()
}

/// The heaviest trees of a search; beams that are the same tree are one.
fn searched(search: &ParseTrees) -> RecursionTree {
    let mut beams: Vec<Beam> = vec![];
    for beam in &search.beams {
        match beams.iter_mut().find(|known| same(&known.spans, &beam.spans)) {
            Some(known) => {
                known.weight += beam.weight;
                known.count += beam.count;
            }
            None => beams.push(beam.clone()),
        }
    }
    beams.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    beams.truncate(MOST);
    RecursionTree { place: search.label.clone(), positions: vec![], beams }
}

/// Whether two trees join the same leaves, in whatever order.
fn same(a: &[LeafSpan], b: &[LeafSpan]) -> bool {
    let sorted = |spans: &[LeafSpan]| {
        let mut spans = spans.to_vec();
        spans.sort_unstable();
        spans
    };
    a.len() == b.len() && sorted(a) == sorted(b)
}

/// The tree that a fold makes of so many leaves, whatever they are.
fn given(fold: &Block, leaves: usize, inference: Inference) -> RecursionTree {
    let elements: Vec<LeafSpan> = (0..leaves).map(|leaf| (leaf, 1)).collect();
    let mut spans = vec![];
    join(fold, &elements, inference == Inference::Flat, &mut spans);
    let beam = Beam { weight: 1.0, score: None, count: 1, spans };
    RecursionTree { place: fold.variant.to_string(), positions: vec![], beams: vec![beam] }
}

/// Notes what a fold joins on its way from its elements to one vector; gives what that vector holds.
fn join(fold: &Block, elements: &[LeafSpan], flat: bool, spans: &mut Vec<LeafSpan>) -> LeafSpan {
    let mut nodes = elements.to_vec();
    match &*fold.variant {
        "chain" => (2..=nodes.len()).for_each(|n| spans.push(whole(&nodes[..n]))),
        "balanced" => {
            let arity = if flat { nodes.len() } else { fold.int("arity").unwrap_or(2) };
            let (strict, first) = (fold.word("last_chunk") == Some("strict"), fold.word("short") == Some("first"));
            let cut = Cut { strict, first, ..Cut::plain(arity.max(2)) };
            let mut levels = Levels::new(cut, vec![nodes.len()], 0);
            while levels.alike() > 0 {
                let reduced = |Chunk { start, length, .. }| reduce(fold, &nodes[start..start + length], spans);
                nodes = levels.chunks().map(reduced).collect();
                levels.advance(1);
            }
        }
        // All at once, or a search that is part of something else and leaves no record.
        _ => all(&nodes, spans),
    }
    whole(&nodes)
}

/// The vector of a chunk.
fn reduce(fold: &Block, chunk: &[LeafSpan], spans: &mut Vec<LeafSpan>) -> LeafSpan {
    match fold.child("recurse") {
        Some(inner) => {
            join(inner, chunk, false, spans);
        }
        None => all(chunk, spans),
    }
    whole(chunk)
}

/// Notes that all of these are joined in one step.
fn all(nodes: &[LeafSpan], spans: &mut Vec<LeafSpan>) {
    if nodes.len() > 1 {
        spans.push(whole(nodes));
    }
}

/// What neighbours hold together.
fn whole(nodes: &[LeafSpan]) -> LeafSpan {
    let (start, _) = nodes.first().copied().unwrap_or_default();
    let (last, length) = nodes.last().copied().unwrap_or_default();
    (start, last + length - start)
}

#[cfg(test)]
mod tests {
    use rtc_compiler::check::{NoFiles, check};
    use rtc_compiler::schema::Catalog;
    use rtc_compiler::source::Source;

    use super::*;

    /// The tree over so many letters.
    fn tree(recurse: &str, leaves: usize, inference: Inference) -> String {
        let text = format!("model m {{\nembed {{ width: 4 }}\n{recurse}\nreadout root\n}}");
        let catalog = Catalog { vocabulary: Some(9), classes: Some(4), ..Catalog::default() };
        let spec = check(&NoFiles, Source::new("m.rt", text), None, &[], &catalog).0.expect("the spec is right");
        let fold = spec.root.child("recurse").expect("it has one");
        let mut tree = given(fold, leaves, inference);
        tree.positions = ('a'..).take(leaves).map(String::from).collect();
        tree.bracketed(&tree.beams[0]).replace(' ', "")
    }

    #[test]
    fn trees_that_lengths_decide() {
        let pairs = "recurse balanced {\narity: 2\ncell elman\n}";
        assert_eq!(tree(pairs, 5, Inference::Recursive), "(((ab)(cd))e)");
        assert_eq!(tree(pairs, 1, Inference::Recursive), "a");
        assert_eq!(tree("recurse chain { cell elman }", 4, Inference::Recursive), "(((ab)c)d)");
        let threes = "recurse balanced {\narity: 3\nrecurse chain { cell elman }\n}";
        assert_eq!(tree(threes, 7, Inference::Recursive), "((((ab)c)((de)f))g)");
        assert_eq!(tree(threes, 4, Inference::Flat), "(((ab)c)d)");
        assert_eq!(tree("recurse balanced {\narity: 3\npool mean\n}", 5, Inference::Recursive), "((abc)(de))");
    }

    #[test]
    fn equal_trees_of_a_search_are_one() {
        let beam =
            |score, weight, spans: &[LeafSpan]| Beam { score: Some(score), weight, count: 1, spans: spans.to_vec() };
        let (left, even) = ([(0, 2), (0, 3), (0, 4)], [(0, 2), (2, 2), (0, 4)]);
        let beams = vec![beam(-0.7, 0.5, &left), beam(-1.0, 0.3, &even), beam(-1.4, 0.25, &[(2, 2), (0, 2), (0, 4)])];
        let found = searched(&ParseTrees { label: "beam".to_owned(), row: 0, length: 4, beams });
        let seen: Vec<(f64, Option<f64>, usize)> = found.beams.iter().map(|b| (b.weight, b.score, b.count)).collect();
        assert_eq!(seen, [(0.55, Some(-1.0), 2), (0.5, Some(-0.7), 1)]);
    }
}
