//! Parity by a tree of dilated attention: what START is for, and weights set by hand with which it counts ones exactly.

use rtc_base::batch::{Batch, Labels};
use rtc_exec::Halting;
use rtc_tests::numeric::{Arrays, graph, run, weights};

/// The token that stands before a row; 0 and 1 are the bits.
const START: u32 = 2;

/// `steps` steps of attention to two keys that count the same, at distances 0 and `2^step`, each with a layer of ReLUs on the state
/// before it and on what it gives.
fn model(steps: usize) -> String {
    format!(
        "graph \"parity\" {{
         %tokens = input {{name: \"tokens\"}} : u32[batch, length]
         %table = param {{name: \"table\", init: zeros}} : f32[3, 2]
         %own = param {{name: \"own\", init: zeros}} : f32[5, 2]
         %mean = param {{name: \"mean\", init: zeros}} : f32[5, 2]
         %bias = param {{name: \"bias\", init: zeros}} : f32[5]
         %down = param {{name: \"down\", init: zeros}} : f32[2, 5]
         %x = embed %tokens, %table : f32[batch, length, 2]
         %y = recur %x {{bound: {steps}}} : f32[batch, length, 2] (%h: f32[batch, length, 2], %step: u32[]) {{
           %q = map %h {{f: mul(0.0, a)}} : f32[batch, length, 2]
           %m = attention %q, %q, %h, %step {{heads: 1, mask: and(and(le(j, i), eq(rem(sub(i, j), pow(2, step)), 0)), lt(div(sub(i, j), pow(2, step)), 2))}} : f32[batch, length, 2]
           %a = linear %h, %own, %bias : f32[batch, length, 5]
           %b = linear %m, %mean : f32[batch, length, 5]
           %s = add %a, %b : f32[batch, length, 5]
           %u = relu %s : f32[batch, length, 5]
           %n = linear %u, %down : f32[batch, length, 2]
           yield %n
         }}
         return %y {{names: \"y\"}}
         }}"
    )
}

/// States are a bit `a`, and whether START has been seen, `f`; the mean of both keys is `m`, `g`. Where START has been seen there is no
/// other key, and the bit stays: `a + f - 1`. Else it becomes the XOR of both bits, `|2 a - 2 m|`. START stays seen, or is now
/// half of the mean: `min(1, 2 g)`.
fn by_hand() -> Arrays {
    let table = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]];
    let own = [[2.0, 0.0], [-2.0, 0.0], [1.0, 1.0], [0.0, 0.0], [0.0, 0.0]];
    let mean = [[-2.0, 0.0], [2.0, 0.0], [0.0, 0.0], [0.0, 2.0], [0.0, 2.0]];
    let down = [[1.0, 1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, -1.0]];
    let arrays = [
        ("table", table.as_flattened().to_vec()),
        ("own", own.as_flattened().to_vec()),
        ("mean", mean.as_flattened().to_vec()),
        ("bias", vec![0.0, 0.0, -1.0, 0.0, -1.0]),
        ("down", down.as_flattened().to_vec()),
    ];
    arrays.map(|(name, numbers)| (name.to_owned(), numbers)).into()
}

/// The states of all positions of rows after so many steps.
fn states(weights: &Arrays, rows: &[Vec<u32>], steps: usize) -> Vec<Vec<[f64; 2]>> {
    let mut offsets = vec![0];
    rows.iter().for_each(|row| offsets.push(offsets[offsets.len() - 1] + row.len()));
    let width = rows.iter().map(Vec::len).max().unwrap_or(0);
    let labels = Labels::Class(vec![0; rows.len()]);
    let batch = Batch { offsets: offsets.clone(), tokens: rows.concat(), labels, width, depths: None, given: vec![] };
    let found = run::<f64>(&graph(&model(steps)), weights, &batch, Halting::Compact).outputs["y"].clone();
    let (found, _) = found.as_chunks::<2>();
    offsets.windows(2).map(|at| found[at[0]..at[1]].to_vec()).collect()
}

/// The bits behind START after so many steps.
fn bits(row: &[u32], steps: usize) -> Vec<u32> {
    let row = [&[START], row].concat();
    states(&by_hand(), &[row], steps)[0][1..].iter().map(|state| state[0] as u32).collect()
}

#[test]
fn xor_as_the_merge_gives_the_parities_of_all_prefixes() {
    let row = [1, 0, 1, 1, 0, 0, 0, 1];
    let expected: [&[u32]; 4] =
        [&[1, 1, 1, 0, 1, 0, 0, 1], &[1, 1, 0, 1, 0, 0, 1, 1], &[1, 1, 0, 1, 1, 1, 1, 0], &[1, 1, 0, 1, 1, 1, 1, 0]];
    for (step, expected) in expected.iter().enumerate() {
        assert_eq!(bits(&row, step + 1), *expected, "after step {step}");
    }
    // Every row of eight bits, in one batch: states are exact, and START is known to all who have seen it.
    let rows: Vec<Vec<u32>> =
        (0..256_u32).map(|n| (0..9).map(|k| if k == 0 { START } else { n >> (k - 1) & 1 }).collect()).collect();
    for (row, found) in rows.iter().zip(states(&by_hand(), &rows, 4)) {
        let mut sum = 0;
        for (token, state) in row.iter().zip(found) {
            sum += token % 2;
            assert_eq!(state, [f64::from(sum % 2), 1.0], "{row:?}");
        }
    }
}

/// A mean does not tell how many keys it is of. So without START no weights are right for both rows, whose last position has the same
/// state after any number of steps: one bit that is alone, and two equal ones.
#[test]
fn without_start_a_bit_alone_is_two_equal_ones() {
    let random = weights(&graph(&model(1)), 3, 0.8);
    for steps in [1, 3] {
        let found = states(&random, &[vec![1], vec![1, 1]], steps);
        assert_eq!(found[0][0], found[1][1], "after {steps} steps");
        let found = states(&random, &[vec![START, 1], vec![START, 1, 1]], steps);
        assert_ne!(found[0][1], found[1][2], "with START they differ");
    }
}
