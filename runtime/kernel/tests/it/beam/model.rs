//! Leaf transform, gated cell and scorers out of the kernels, with gradients.

use rtc_base::rng::Key;
use rtc_compiler::ir::pointwise::parse;
use rtc_kernel::linear::{self, NARROW};
use rtc_kernel::pointwise::MapProgram;
use rtc_kernel::product::{Orientation, Packed, outer, product};
use rtc_kernel::{Precision, Real, Write, elementwise, norm};

/// What is added to the variance.
const EPS: f64 = 1e-5;

/// The map `f` of some arrays.
pub(crate) fn map<T: Real>(f: &str, operands: &[&[T]], y: &mut [T]) {
    let program = MapProgram::new(&parse(f).expect("an expression"));
    program.run(operands, &mut [y], &mut vec![T::ZERO; program.scratch()]);
}

/// A weight `[n, k]` with its bias.
struct Linear<T> {
    k: usize,
    n: usize,
    w: Vec<T>,
    b: Vec<T>,
    packed: [Packed<T>; 2],
}

impl<T: Real> Linear<T> {
    fn new(k: usize, w: &[f64], b: &[f64]) -> Self {
        let (w, b): (Vec<T>, Vec<T>) = (cast(w), cast(b));
        let mut packed = [Packed::default(), Packed::default()];
        packed[0].pack(&w, k, Orientation::Transposed, Precision::F32);
        packed[1].pack(&w, k, Orientation::Straight, Precision::F32);
        Self { k, n: b.len(), w, b, packed }
    }

    fn run(&self, x: &[T]) -> Vec<T> {
        let mut y = vec![T::ZERO; x.len() / self.k * self.n];
        if self.n <= NARROW {
            linear::narrow(x, &self.w, self.k, Some(&self.b), &mut y);
        } else {
            linear::linear(x, &self.packed[0], Some(&self.b), &mut y);
        }
        y
    }

    /// The gradient of the input; adds those of weight and bias.
    fn back(&self, x: &[T], dy: &[T], grads: &mut [Vec<T>]) -> Vec<T> {
        let [dw, db] = grads else { unreachable!("a weight and a bias") };
        outer(x, dy, dw, x.len() / self.k, self.k, self.n, Write::Add, Precision::F32);
        linear::add_rows(dy, db);
        let mut dx = vec![T::ZERO; x.len()];
        product(dy, &self.packed[1], &mut dx, Write::Replace);
        dx
    }
}

fn cast<T: Real>(x: &[f64]) -> Vec<T> {
    x.iter().map(|&x| T::from_f64(x)).collect()
}

/// Sizes of the parameters: leaf map, its norm, cell up, down, its norm, scorer of pairs (two maps), scorer of parents; each a
/// weight or gain and a bias.
pub(crate) fn sizes(d: usize, slice: usize) -> Vec<usize> {
    let map = |k: usize, n: usize| [n * k, n];
    let cell = [map(2 * d, 4 * d), map(4 * d, 4 * d)].concat();
    [map(d, d).to_vec(), vec![d, d], cell, vec![d, d], map(2 * slice, slice).to_vec(), map(slice, 1).to_vec()]
        .concat()
        .into_iter()
        .chain(map(d, 1))
        .collect()
}

/// Random parameters; gains are about 1.
pub(crate) fn random(d: usize, slice: usize, seed: u64) -> Vec<Vec<f64>> {
    let key = Key::new(seed).stream("parameters");
    let number = |p: usize, i: u64| if p == 2 || p == 8 { 1.0 } else { 0.0 } + 0.5 * key.at(p as u64).normal(i);
    let scale = |p: usize| if d > 16 && [0, 4, 6, 10].contains(&p) { 2.0 / (d as f64).sqrt() } else { 1.0 };
    let numbers = |p: usize, len: usize| (0..len as u64).map(|i| scale(p) * number(p, i)).collect();
    sizes(d, slice).iter().enumerate().map(|(p, &len)| numbers(p, len)).collect()
}

/// The model; nodes are `d` wide, the scorer of pairs reads `slice` features.
pub(crate) struct Model<T> {
    pub(crate) d: usize,
    pub(crate) slice: usize,
    leaf: Linear<T>,
    leaf_norm: [Vec<T>; 2],
    up: Linear<T>,
    down: Linear<T>,
    cell_norm: [Vec<T>; 2],
    hidden: Linear<T>,
    last: Linear<T>,
    parent: Linear<T>,
}

/// What the cell computes on the way from pairs to parents.
struct Inner<T> {
    before: Vec<T>,
    hidden: Vec<T>,
    /// Gates of left, right and new, and the new candidate: `[m, 4 d]`.
    gates: Vec<T>,
    sum: Vec<T>,
}

impl<T: Real> Model<T> {
    pub(crate) fn new(d: usize, slice: usize, p: &[Vec<f64>]) -> Self {
        Self {
            d,
            slice,
            leaf: Linear::new(d, &p[0], &p[1]),
            leaf_norm: [cast(&p[2]), cast(&p[3])],
            up: Linear::new(2 * d, &p[4], &p[5]),
            down: Linear::new(4 * d, &p[6], &p[7]),
            cell_norm: [cast(&p[8]), cast(&p[9])],
            hidden: Linear::new(2 * slice, &p[10], &p[11]),
            last: Linear::new(slice, &p[12], &p[13]),
            parent: Linear::new(d, &p[14], &p[15]),
        }
    }

    /// Zeros for every parameter.
    pub(crate) fn zeros(&self) -> Vec<Vec<T>> {
        sizes(self.d, self.slice).into_iter().map(|len| vec![T::ZERO; len]).collect()
    }

    /// `LN(W x + b)`.
    pub(crate) fn leaves(&self, x: &[T]) -> Vec<T> {
        let y = self.leaf.run(x);
        self.normed(&y, &self.leaf_norm)
    }

    pub(crate) fn leaves_back(&self, x: &[T], dy: &[T], grads: &mut [Vec<T>]) -> Vec<T> {
        let y = self.leaf.run(x);
        let dy = self.normed_back(&y, &self.leaf_norm, dy, &mut grads[2..4]);
        self.leaf.back(x, &dy, &mut grads[0..2])
    }

    /// Parents `[m, d]` of pairs `[m, 2 d]`.
    pub(crate) fn compose(&self, pairs: &[T]) -> Vec<T> {
        self.normed(&self.inner(pairs).sum, &self.cell_norm)
    }

    fn inner(&self, pairs: &[T]) -> Inner<T> {
        let d = self.d;
        let before = self.up.run(pairs);
        let mut hidden = vec![T::ZERO; before.len()];
        map("gelu(a)", &[&before], &mut hidden);
        let mut gates = self.down.run(&hidden);
        let mut sum = Vec::with_capacity(pairs.len() / 2);
        for (gates, pair) in gates.chunks_exact_mut(4 * d).zip(pairs.chunks_exact(2 * d)) {
            gates[..3 * d].iter_mut().for_each(|gate| *gate = gate.sigmoid());
            let (left, right) = pair.split_at(d);
            sum.extend(
                (0..d).map(|c| gates[c] * left[c] + gates[d + c] * right[c] + gates[2 * d + c] * gates[3 * d + c]),
            );
        }
        Inner { before, hidden, gates, sum }
    }

    /// The gradient of the pairs.
    pub(crate) fn compose_back(&self, pairs: &[T], dy: &[T], grads: &mut [Vec<T>]) -> Vec<T> {
        let d = self.d;
        let Inner { before, hidden, mut gates, sum } = self.inner(pairs);
        let dsum = self.normed_back(&sum, &self.cell_norm, dy, &mut grads[8..10]);
        let mut direct = vec![T::ZERO; pairs.len()];
        let rows = gates.chunks_exact_mut(4 * d).zip(pairs.chunks_exact(2 * d));
        for ((gates, pair), (direct, dsum)) in rows.zip(direct.chunks_exact_mut(2 * d).zip(dsum.chunks_exact(d))) {
            for c in 0..d {
                let [left, right, new, candidate] = [0, 1, 2, 3].map(|part| gates[part * d + c]);
                let slope = |gate: T| dsum[c] * gate * (T::ONE - gate);
                (direct[c], direct[d + c]) = (dsum[c] * left, dsum[c] * right);
                gates[c] = slope(left) * pair[c];
                gates[d + c] = slope(right) * pair[d + c];
                gates[2 * d + c] = slope(new) * candidate;
                gates[3 * d + c] = dsum[c] * new;
            }
        }
        let dhidden = self.down.back(&hidden, &gates, &mut grads[6..8]);
        let mut dbefore = vec![T::ZERO; before.len()];
        map("mul(b, gelu_slope(a))", &[&before, &dhidden], &mut dbefore);
        let dpairs = self.up.back(pairs, &dbefore, &mut grads[4..6]);
        elementwise::add_assign(&mut direct, &dpairs);
        direct
    }

    /// Scores of pairs `[m, 2 slice]`.
    pub(crate) fn score_pairs(&self, pairs: &[T]) -> Vec<T> {
        let before = self.hidden.run(pairs);
        let mut hidden = vec![T::ZERO; before.len()];
        map("gelu(a)", &[&before], &mut hidden);
        self.last.run(&hidden)
    }

    pub(crate) fn score_pairs_back(&self, pairs: &[T], dy: &[T], grads: &mut [Vec<T>]) -> Vec<T> {
        let before = self.hidden.run(pairs);
        let mut hidden = vec![T::ZERO; before.len()];
        map("gelu(a)", &[&before], &mut hidden);
        let dhidden = self.last.back(&hidden, dy, &mut grads[12..14]);
        map("mul(b, gelu_slope(a))", &[&before, &dhidden], &mut hidden);
        self.hidden.back(pairs, &hidden, &mut grads[10..12])
    }

    /// Scores of parents `[m, d]`.
    pub(crate) fn score_parents(&self, parents: &[T]) -> Vec<T> {
        self.parent.run(parents)
    }

    pub(crate) fn score_parents_back(&self, parents: &[T], dy: &[T], grads: &mut [Vec<T>]) -> Vec<T> {
        self.parent.back(parents, dy, &mut grads[14..16])
    }

    fn normed(&self, x: &[T], [gain, bias]: &[Vec<T>; 2]) -> Vec<T> {
        let mut y = vec![T::ZERO; x.len()];
        norm::layer_norm(x, gain, Some(bias), EPS, &mut y);
        y
    }

    fn normed_back(&self, x: &[T], [gain, _]: &[Vec<T>; 2], dy: &[T], grads: &mut [Vec<T>]) -> Vec<T> {
        let [dgain, dbias] = grads else { unreachable!("a gain and a bias") };
        let mut dx = vec![T::ZERO; x.len()];
        norm::layer_norm_grad(x, gain, dy, EPS, &mut dx, dgain, dbias);
        dx
    }
}
