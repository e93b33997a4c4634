//! Random numbers as values: they belong to the row and the place in it, and to nothing else.

use rtc_base::rng::Key;
use rtc_compiler::pass::inference;
use rtc_exec::Halting;
use rtc_exec::storage::Element;
use rtc_tests::numeric::{batch, executor, graph, weights};

/// Numbers of positions and of rows, before a loop and in its second step.
pub(super) const DRAWS: &str = r#"graph "draws" {
  %tokens = input {name: "tokens"} : u32[batch, length]
  %table = param {name: "table", init: zeros} : f32[7, 4]
  %a = embed %tokens, %table : f32[batch, length, 4]
  %r = mean %a : f32[batch, 4]
  %normal = normal %a {std: 0.63, stream: 1} : f32[batch, length, 4]
  %cut = normal %a {std: 2.0, cut: 1.5, stream: 2} : f32[batch, length, 4]
  %row = uniform %r {low: -1.0, high: 2.0, stream: 3} : f32[batch, 4]
  %none = full %a {value: 0.0, rank: 3} : f32[batch, length, 4]
  %step = recur %none {bound: 2} : f32[batch, length, 4] (%h: f32[batch, length, 4], %i: u32[]) {
    %n = normal %h {std: 1.0, stream: 4} : f32[batch, length, 4]
    yield %n
  }
  return %normal, %cut, %row, %step {names: "normal, cut, row, step"}
}
"#;

/// The numbers of every row, by result.
fn drawn<T: Element>(training: bool, lengths: &[usize], key: u64) -> Vec<Vec<Vec<f64>>> {
    let mut graph = graph(DRAWS);
    assert!(training || inference::run(&mut graph), "evaluation draws otherwise than training");
    let batch = batch(lengths, 7, 2, 5);
    let mut executor = executor::<T>(&graph, &weights(&graph, 1, 0.7), Halting::Compact);
    let outputs = executor.run(&batch, Key::new(key)).expect("the batch fits");
    let rows = |name: &str| {
        let numbers = outputs.real(name).expect("it is a result");
        let range = |row: usize| if name == "row" { row..row + 1 } else { batch.offsets[row]..batch.offsets[row + 1] };
        let of = |row| numbers[range(row).start * 4..range(row).end * 4].iter().map(|x| x.to_f64()).collect();
        (0..lengths.len()).map(of).collect()
    };
    ["normal", "cut", "row", "step"].map(rows).to_vec()
}

/// In training, rows draw by their number, whatever stands beside them.
#[test]
fn a_row_draws_the_same_beside_any_other() {
    let (few, many) = (drawn::<f32>(true, &[4, 1, 6], 3), drawn::<f32>(true, &[9, 1, 17, 40], 3));
    for (few, many) in few.iter().zip(&many) {
        for (row, numbers) in few.iter().enumerate() {
            let common = numbers.len().min(many[row].len());
            assert_eq!(numbers[..common], many[row][..common]);
        }
        let mut first: Vec<f64> = many.iter().map(|row| row[0]).collect();
        first.sort_by(f64::total_cmp);
        first.dedup();
        assert_eq!(first.len(), many.len(), "each row has its own numbers");
    }
    assert_ne!(few, drawn::<f32>(true, &[4, 1, 6], 4), "each update has its own numbers");
    assert_eq!(few, drawn::<f32>(true, &[4, 1, 6], 3));
}

/// In evaluation, a row draws the same at any place of any batch.
#[test]
fn a_row_is_evaluated_with_the_same_numbers_wherever_it_stands() {
    for (alone, together) in drawn::<f32>(false, &[5], 3).iter().zip(drawn::<f32>(false, &[2, 17, 5], 3)) {
        assert_eq!(alone[0], together[2]);
        assert_eq!(together[0][..4], together[1][..4]);
    }
}

#[test]
fn numbers_are_those_of_their_distribution_in_either_precision() {
    let (single, double) = (drawn::<f32>(true, &[40, 3], 3), drawn::<f64>(true, &[40, 3], 3));
    for (single, double) in single.iter().flatten().flatten().zip(double.iter().flatten().flatten()) {
        assert_eq!(*single, f64::from(*double as f32), "single precision is the rounded number");
    }
    assert!(double[1].iter().flatten().all(|x| x.abs() <= 3.0));
    assert!(double[2].iter().flatten().all(|x| (-1.0..2.0).contains(x)));
}

#[test]
fn threads_draw_the_same() {
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool of threads");
        pool.install(|| drawn::<f32>(true, &[3000, 20, 700], 3))
    };
    let one = on(1);
    assert!(one == on(2) && one == on(3));
}

/// Two loops that share a draw, the steps that they took, and what is said of them inside and outside of a loop. `PER` is `row` or `batch`.
const DEPTHS: &str = r#"graph "depths" {
  %tokens = input {name: "tokens"} : u32[batch, length]
  %table = param {name: "table", init: zeros} : f32[7, 4]
  %a = embed %tokens, %table : f32[batch, length, 4]
  %none = full %a {value: 0.0, rank: 1} : f32[batch]
  %free = recur %none {bound: max(sub(min(add(poisson(lognormal(6.0, 0.5, 2, PER, 6.0), 1, PER, 9), 1), 40), 3), 0)} : f32[batch] (%f: f32[batch], %i: u32[]) {
    %f1 = map %f {f: add(a, 1.0)} : f32[batch]
    yield %f1
  }
  %kept, %inside = recur %none, %none {bound: min(min(add(poisson(lognormal(6.0, 0.5, 2, PER, 6.0), 1, PER, 9), 1), 40), 3)} : f32[batch], f32[batch] (%k: f32[batch], %d: f32[batch], %j: u32[]) {
    %k1 = map %k {f: add(a, 1.0)} : f32[batch]
    %d1 = depth_of %k {bound: min(add(poisson(lognormal(6.0, 0.5, 2, PER, 6.0), 1, PER, 9), 1), 40)} : f32[batch]
    yield %k1, %d1
  }
  %all = depth_of %a {bound: min(add(poisson(lognormal(6.0, 0.5, 2, PER, 6.0), 1, PER, 9), 1), 40)} : f32[batch]
  return %free, %kept, %inside, %all {names: "free, kept, inside, all"}
}
"#;

/// The results by name, for every row.
fn depths(per: &str, training: bool, key: u64) -> [Vec<f64>; 4] {
    let mut graph = graph(&DEPTHS.replace("PER", per));
    assert!(training || inference::run(&mut graph), "evaluation draws no depth");
    let batch = batch(&[4, 1, 6, 3, 8], 7, 2, 5);
    let mut executor = executor::<f64>(&graph, &weights(&graph, 1, 0.7), Halting::Compact);
    let outputs = executor.run(&batch, Key::new(key)).expect("the batch fits");
    ["free", "kept", "inside", "all"].map(|name| outputs.real(name).expect("it is a result").to_vec())
}

#[test]
fn a_drawn_depth_is_the_same_wherever_it_is_read() {
    let mut seen = vec![];
    for key in 0..20 {
        for per in ["row", "batch"] {
            let [free, kept, inside, all] = depths(per, true, key);
            for row in 0..all.len() {
                assert_eq!(free[row] + kept[row], all[row], "{per}");
                assert_eq!(inside[row], all[row], "{per}");
            }
            let alike = all.iter().all(|depth| *depth == all[0]);
            assert!(alike || per == "row", "a batch has one depth: {all:?}");
            seen.extend(all);
        }
    }
    let mean = seen.iter().sum::<f64>() / seen.len() as f64;
    assert!((6.0..8.5).contains(&mean), "about 6 + 1 steps: {mean}");
    assert!(seen.iter().any(|depth| *depth != seen[0]), "updates have depths of their own");
    assert_eq!(depths("row", true, 3), depths("row", true, 3));
}

#[test]
fn evaluation_takes_the_steps_that_stand_for_the_draw() {
    for per in ["row", "batch"] {
        assert_eq!(depths(per, false, 3), [7.0, 3.0, 10.0, 10.0].map(|steps| vec![steps; 5]));
    }
}
