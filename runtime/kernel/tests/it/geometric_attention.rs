//! Geometric attention: against its definition, alone, and with more threads.

use rtc_kernel::Real;
use rtc_kernel::geometric_attention::GeometricAttention;

use crate::support::{check_gradients, close, numbers, offsets, singles};

const HEADS: usize = 2;
const WIDTH: usize = 6;
const E: usize = WIDTH / HEADS;
const SCALE: f64 = 0.7;

/// Queries, keys, values and, where they are given, sides.
fn forward<T: Real>(inputs: &[Vec<T>], offsets: &[usize]) -> Vec<T> {
    let mut y = vec![T::ONE; inputs[0].len()];
    let attention = GeometricAttention { offsets, heads: HEADS, width: WIDTH, scale: SCALE };
    attention.forward([0, 1, 2].map(|n| &inputs[n][..]), inputs.get(3).map(|x| &x[..]), &mut y);
    y
}

fn backward<T: Real>(inputs: &[Vec<T>], dy: &[T], offsets: &[usize]) -> Vec<Vec<T>> {
    let mut grads: Vec<Vec<T>> = inputs.iter().map(|x| vec![T::ONE; x.len()]).collect();
    let attention = GeometricAttention { offsets, heads: HEADS, width: WIDTH, scale: SCALE };
    let given = [0, 1, 2].map(|n| &inputs[n][..]);
    match &mut grads[..] {
        [dq, dk, dv] => attention.backward(given, None, dy, [dq, dk, dv], None),
        [dq, dk, dv, sides] => attention.backward(given, Some(&inputs[3]), dy, [dq, dk, dv], Some(sides)),
        _ => unreachable!("there are three inputs or four"),
    }
    grads
}

fn inputs(offsets: &[usize], count: usize) -> Vec<Vec<f64>> {
    let positions = offsets[offsets.len() - 1];
    let sizes = [("q", WIDTH), ("k", WIDTH), ("v", WIDTH), ("sides", 2 * HEADS)];
    sizes[..count].iter().map(|(name, width)| numbers(name, positions * width)).collect()
}

/// Whether key k is nearer to query i than key j.
fn is_nearer(i: usize, k: usize, j: usize) -> bool {
    k != i && (i.abs_diff(k), k < i) < (i.abs_diff(j), j < i)
}

fn plain(inputs: &[Vec<f64>], offsets: &[usize]) -> Vec<f64> {
    let [q, k, v, ..] = inputs else { unreachable!("there are three inputs or four") };
    let mut y = vec![0.0; v.len()];
    for ends in offsets.windows(2) {
        for (i, head) in (ends[0]..ends[1]).flat_map(|i| (0..HEADS).map(move |head| (i, head))) {
            let at = |position: usize, c: usize| position * WIDTH + head * E + c;
            let p = |j: usize| {
                let dot: f64 = (0..E).map(|c| q[at(i, c)] * k[at(j, c)]).sum();
                let side = inputs.get(3).map_or(0.0, |sides| sides[2 * (i * HEADS + head) + usize::from(j > i)]);
                1.0 / (1.0 + (-(SCALE * dot + side)).exp())
            };
            let weight = |j: usize| {
                let nearer = (ends[0]..ends[1]).filter(|k| is_nearer(i, *k, j));
                if i == j { 0.0 } else { p(j) * nearer.map(|k| 1.0 - p(k)).product::<f64>() }
            };
            let total = (ends[0]..ends[1]).map(weight).sum::<f64>().max(1e-12);
            for j in ends[0]..ends[1] {
                for c in 0..E {
                    y[at(i, c)] += weight(j) / total * v[at(j, c)];
                }
            }
        }
    }
    y
}

#[test]
fn attention_is_what_it_says() {
    let starts = offsets(&[1, 9, 0, 2, 17]);
    for count in [3, 4] {
        let inputs = inputs(&starts, count);
        let y = forward(&inputs, &starts);
        close(&y, &plain(&inputs, &starts), 1e-12);
        assert_eq!(y[..WIDTH], [0.0; WIDTH], "a row of one position reads nothing");
    }
}

#[test]
fn of_two_keys_at_one_distance_the_one_in_front_is_nearer() {
    // All keys match almost surely: each query reads the next position, and the last one that before it.
    let (starts, mut inputs) = (offsets(&[4]), inputs(&offsets(&[4]), 4));
    inputs[3].fill(40.0);
    let (y, v) = (forward(&inputs, &starts), &inputs[2]);
    let wanted: Vec<f64> = [1, 2, 3, 2].iter().flat_map(|j| &v[j * WIDTH..(j + 1) * WIDTH]).copied().collect();
    close(&y, &wanted, 1e-12);
}

#[test]
fn scores_of_any_size_give_finite_numbers() {
    let starts = offsets(&[6]);
    for size in [-800.0, -40.0, 40.0, 800.0] {
        let mut inputs = inputs(&starts, 4);
        inputs[3].fill(size);
        let singles: Vec<Vec<f32>> = inputs.iter().map(|x| x.iter().map(|x| *x as f32).collect()).collect();
        let numbers = [forward(&singles, &starts)].into_iter().chain(backward(&singles, &singles[2], &starts));
        assert!(numbers.flatten().all(f32::is_finite), "scores about {size}");
    }
}

#[test]
fn gradients_are_slopes() {
    let starts = offsets(&[3, 1, 0, 5]);
    for count in [3, 4] {
        check_gradients(&inputs(&starts, count), |i| forward(i, &starts), |i, dy| backward(i, dy, &starts));
    }
}

#[test]
fn rows_and_threads_change_no_bit() {
    let starts = offsets(&[70, 2, 0, 45]);
    let inputs: Vec<Vec<f32>> = inputs(&starts, 4).iter().map(|x| x.iter().map(|x| *x as f32).collect()).collect();
    let dy = singles("dy", inputs[2].len());
    let all = (forward(&inputs, &starts), backward(&inputs, &dy, &starts));
    for ends in starts.windows(2) {
        let part = |x: &[f32], width: usize| x[ends[0] * width..ends[1] * width].to_vec();
        let widths = [WIDTH, WIDTH, WIDTH, 2 * HEADS];
        let alone: Vec<Vec<f32>> = inputs.iter().zip(widths).map(|(x, width)| part(x, width)).collect();
        let own = [0, ends[1] - ends[0]];
        assert_eq!(part(&all.0, WIDTH), forward(&alone, &own));
        let grads: Vec<Vec<f32>> = all.1.iter().zip(widths).map(|(x, width)| part(x, width)).collect();
        assert_eq!(grads, backward(&alone, &part(&dy, WIDTH), &own));
    }
    for threads in [2, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool of threads");
        assert_eq!(pool.install(|| (forward(&inputs, &starts), backward(&inputs, &dy, &starts))), all);
    }
}
