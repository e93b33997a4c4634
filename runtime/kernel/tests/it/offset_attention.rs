//! Attention with a number per distance: against its definition, alone, and with more threads.

use rtc_kernel::Real;
use rtc_kernel::offset_attention::{OffsetAttention, partial_len};

use crate::support::{check_gradients, close, numbers, offsets, singles};

const WIDTH: usize = 5;
const VALUES: usize = 19;

fn forward<T: Real>(inputs: &[Vec<T>], starts: &[usize], causal: bool) -> Vec<T> {
    let [q, k, v, bias] = [0, 1, 2, 3].map(|n| &inputs[n][..]);
    let mut y = vec![T::ZERO; v.len()];
    OffsetAttention { offsets: starts, width: WIDTH, values: VALUES, causal }.forward([q, k, v, bias], &mut y);
    y
}

fn backward<T: Real>(inputs: &[Vec<T>], dy: &[T], starts: &[usize], causal: bool) -> Vec<Vec<T>> {
    let mut grads: Vec<Vec<T>> = inputs.iter().map(|x| vec![T::ZERO; x.len()]).collect();
    let [dq, dk, dv, d_bias] = &mut grads[..] else { unreachable!("there are four inputs") };
    let spec = OffsetAttention { offsets: starts, width: WIDTH, values: VALUES, causal };
    let mut partial = vec![T::ONE; partial_len(starts)];
    let [q, k, v, bias] = [0, 1, 2, 3].map(|n| &inputs[n][..]);
    spec.backward([q, k, v, bias, dy], [dq, dk, dv, d_bias], &mut partial);
    grads
}

/// Queries, keys, values and `biases` biases for these rows.
fn inputs(starts: &[usize], biases: usize) -> Vec<Vec<f64>> {
    let positions = starts[starts.len() - 1];
    let sizes = [("q", positions * WIDTH), ("k", positions * WIDTH), ("v", positions * VALUES), ("bias", biases)];
    sizes.map(|(name, len)| numbers(name, len)).to_vec()
}

fn plain(inputs: &[Vec<f64>], starts: &[usize], causal: bool) -> Vec<f64> {
    let [q, k, v, bias] = inputs else { unreachable!("there are four inputs") };
    let reach = bias.len() as isize / 2;
    let mut y = vec![0.0; v.len()];
    for ends in starts.windows(2) {
        for i in ends[0]..ends[1] {
            let last = if causal { i + 1 } else { ends[1] };
            let score = |j: usize| {
                let dot: f64 = (0..WIDTH).map(|c| q[i * WIDTH + c] * k[j * WIDTH + c]).sum();
                let distance = (j as isize - i as isize).clamp(-reach, reach);
                (dot / (WIDTH as f64).sqrt() + bias[(reach + distance) as usize]).exp()
            };
            let total: f64 = (ends[0]..last).map(score).sum();
            for j in ends[0]..last {
                for c in 0..VALUES {
                    y[i * VALUES + c] += score(j) / total * v[j * VALUES + c];
                }
            }
        }
    }
    y
}

#[test]
fn attention_is_what_it_says() {
    let starts = offsets(&[1, 40, 0, 7, 33]);
    // Biases for every distance, for fewer than that, and for none.
    for biases in [2 * 40 - 1, 9, 1] {
        let inputs = inputs(&starts, biases);
        for causal in [false, true] {
            close(&forward(&inputs, &starts, causal), &plain(&inputs, &starts, causal), 1e-12);
        }
    }
}

#[test]
fn gradients_are_slopes() {
    let starts = offsets(&[3, 1, 0, 5]);
    for (biases, causal) in [(9, false), (3, false), (11, true)] {
        check_gradients(
            &inputs(&starts, biases),
            |i| forward(i, &starts, causal),
            |i, dy| backward(i, dy, &starts, causal),
        );
    }
}

#[test]
fn rows_and_threads_change_no_bit() {
    let starts = offsets(&[70, 2, 0, 45]);
    let inputs: Vec<Vec<f32>> = inputs(&starts, 21).iter().map(|x| x.iter().map(|x| *x as f32).collect()).collect();
    let dy = singles("dy", inputs[2].len());
    let all = (forward(&inputs, &starts, false), backward(&inputs, &dy, &starts, false));
    for ends in starts.windows(2) {
        let part = |x: &[f32], width: usize| x[ends[0] * width..ends[1] * width].to_vec();
        let alone = [part(&inputs[0], WIDTH), part(&inputs[1], WIDTH), part(&inputs[2], VALUES), inputs[3].clone()];
        let own = [0, ends[1] - ends[0]];
        assert_eq!(part(&all.0, VALUES), forward(&alone, &own, false));
        let grads = backward(&alone, &part(&dy, VALUES), &own, false);
        assert_eq!(part(&all.1[0], WIDTH), grads[0]);
        assert_eq!(part(&all.1[1], WIDTH), grads[1]);
        assert_eq!(part(&all.1[2], VALUES), grads[2]);
    }
    for threads in [2, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool of threads");
        let there = pool.install(|| (forward(&inputs, &starts, false), backward(&inputs, &dy, &starts, false)));
        assert_eq!(there, all);
    }
}
