//! Relative positions: scores by their definition, whatever the mask, and gradients that are slopes.

use rtc_kernel::attention::{
    Attention, MaskKind, MaskRow, Offsets, Relative, ScoreBias, Scores, attention_grad_with, attention_with,
};

use crate::support::{close, numbers, offsets};

const HEADS: usize = 2;
const WIDTH: usize = 5;
const LENGTHS: [usize; 3] = [70, 1, 19];
const STRIDE: usize = HEADS * WIDTH;
/// Distances from 69 down to -69.
const DISTANCES: usize = 139;

struct Inputs {
    q: Vec<f64>,
    k: Vec<f64>,
    v: Vec<f64>,
    shifts: [Vec<f64>; 2],
    codes: Vec<f64>,
}

impl Inputs {
    fn new() -> Self {
        let tokens: usize = LENGTHS.iter().sum();
        let [q, k, v] = ["q", "k", "v"].map(|name| numbers(name, tokens * STRIDE));
        let shifts = ["u", "position"].map(|name| numbers(name, STRIDE));
        Self { q, k, v, shifts, codes: numbers("codes", DISTANCES * STRIDE) }
    }

    fn scores(&self) -> Scores<'_, f64> {
        let relative =
            Relative { shifts: [&self.shifts[0], &self.shifts[1]], codes: &self.codes, last: DISTANCES as isize / 2 };
        Scores { bias: ScoreBias::None, relative: Some(relative) }
    }

    fn run(&self, mask: MaskKind<'_>) -> Vec<f64> {
        let (at, mut out) = (offsets(&LENGTHS), vec![7.0; self.q.len()]);
        attention_with(&spec(mask), &self.scores(), [&self.q, &self.k, &self.v], &at, &at, &mut out);
        out
    }

    /// Query by query, key by key.
    fn defined(&self, sees: impl Fn(usize, usize) -> bool) -> Vec<f64> {
        let mut out = vec![0.0; self.q.len()];
        let at = offsets(&LENGTHS);
        for (row, &length) in LENGTHS.iter().enumerate() {
            for head in 0..HEADS {
                for i in 0..length {
                    let start = |position: usize| (at[row] + position) * STRIDE + head * WIDTH;
                    let score = |j: usize| {
                        let code = (DISTANCES / 2 + j - i) * STRIDE + head * WIDTH;
                        let one = |c: usize| {
                            let (q, shift) = (self.q[start(i) + c], head * WIDTH + c);
                            (q + self.shifts[0][shift]) * self.k[start(j) + c]
                                + (q + self.shifts[1][shift]) * self.codes[code + c]
                        };
                        (0.4 * (0..WIDTH).map(one).sum::<f64>()).exp()
                    };
                    let seen: Vec<usize> = (0..length).filter(|j| sees(i, *j)).collect();
                    let total: f64 = seen.iter().map(|j| score(*j)).sum();
                    for j in seen {
                        for c in 0..WIDTH {
                            out[start(i) + c] += score(j) / total * self.v[start(j) + c];
                        }
                    }
                }
            }
        }
        out
    }
}

fn spec(mask: MaskKind<'_>) -> Attention<'_> {
    Attention { scale: 0.4, ..Attention::new(HEADS, WIDTH, mask) }
}

fn near(at: MaskRow, flags: &mut [bool]) {
    for (key, flag) in (at.first..).zip(flags) {
        *flag = key <= at.query && at.query - key < 20;
    }
}

/// The key itself and the one 17 before it, gone through one by one.
const FAR: Offsets<'_> = Offsets { list: &[0, 17], seen: &SEEN, few: true };
const SEEN: [bool; 18] = {
    let mut seen = [false; 18];
    (seen[0], seen[17]) = (true, true);
    seen
};

#[test]
fn scores_are_as_defined() {
    let inputs = Inputs::new();
    close(&inputs.run(MaskKind::All), &inputs.defined(|_, _| true), 1e-12);
    close(&inputs.run(MaskKind::Causal), &inputs.defined(|i, j| j <= i), 1e-12);
    let reach = |at: MaskRow| (at.query.saturating_sub(19)..at.query + 1, true);
    let within = MaskKind::Within { reach: &reach, rule: &near, runs: None };
    close(&inputs.run(within), &inputs.defined(|i, j| j <= i && i - j < 20), 1e-12);
    close(&inputs.run(MaskKind::Dense(&near)), &inputs.defined(|i, j| j <= i && i - j < 20), 1e-12);
    close(&inputs.run(MaskKind::Offsets(FAR)), &inputs.defined(|i, j| i == j || i == j + 17), 1e-12);
}

#[test]
fn gradients_are_slopes() {
    for mask in [MaskKind::All, MaskKind::Causal, MaskKind::Dense(&near), MaskKind::Offsets(FAR)] {
        let mut inputs = Inputs::new();
        let at = offsets(&LENGTHS);
        let dout = numbers("dout", inputs.q.len());
        let [mut dq, mut dk, mut dv] = [0; 3].map(|_| vec![7.0; inputs.q.len()]);
        let width = inputs.scores().gradients(WIDTH);
        let mut partial = vec![7.0; LENGTHS.len() * HEADS * width];
        attention_grad_with(
            &spec(mask),
            &inputs.scores(),
            [&inputs.q, &inputs.k, &inputs.v, &dout],
            &at,
            &at,
            [&mut dq, &mut dk, &mut dv],
            None,
            &mut partial,
        );
        let sum = |head: usize, n: usize| {
            (0..LENGTHS.len()).map(|row| partial[(row * HEADS + head) * width + n]).sum::<f64>()
        };
        let loss = |inputs: &Inputs| inputs.run(mask).iter().zip(&dout).map(|(a, b)| a * b).sum::<f64>();
        let mut slope = |of: fn(&mut Inputs) -> &mut [f64], n: usize| {
            let start = of(&mut inputs)[n];
            let [up, down] = [1e-5, -1e-5].map(|by| {
                of(&mut inputs)[n] = start + by;
                loss(&inputs)
            });
            of(&mut inputs)[n] = start;
            (up - down) / 2e-5
        };
        let expect = |found: f64, expected: f64| {
            assert!((found - expected).abs() < 1e-6 * (1.0 + expected.abs()), "{found} for {expected}");
        };
        for n in [0, 7, 123, 400, dq.len() - 1] {
            expect(dq[n], slope(|x| &mut x.q, n));
            expect(dk[n], slope(|x| &mut x.k, n));
            expect(dv[n], slope(|x| &mut x.v, n));
        }
        for (head, c) in [(0, 0), (0, 3), (1, 1), (1, 4)] {
            for code in [0, 52, 60, 69, 70, 75, 138] {
                expect(sum(head, code * WIDTH + c), slope(|x| &mut x.codes, code * STRIDE + head * WIDTH + c));
            }
            let shifts = DISTANCES * WIDTH;
            expect(sum(head, shifts + c), slope(|x| &mut x.shifts[0], head * WIDTH + c));
            expect(sum(head, shifts + WIDTH + c), slope(|x| &mut x.shifts[1], head * WIDTH + c));
        }
    }
}
