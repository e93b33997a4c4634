//! The optimiser on a device: the same rules as on the CPU, with moments that stay there.

use super::device::{Arg, Matrix, Product};
use super::exec::Executor;
use super::memory::{Array, Pool, int, whole};
use crate::exec::storage::Element;
use crate::kernel::muon;
use crate::kernel::optimiser::rectification;
use crate::learner::UpdateRule;

/// The arrays of one update: weights, gradients, first and second moments; of neighbouring parameters.
pub(super) struct Update {
    pub(super) w: Array,
    pub(super) g: Array,
    pub(super) m: Array,
    pub(super) v: Array,
}

/// What the kernel of an optimiser is told.
struct Numbers<'a> {
    rule: &'a UpdateRule,
    /// The learning rate, corrected for the start of the first moment.
    rate: f64,
    /// What the root of the second moment is multiplied with; 0 where it is not to be used.
    correction: f64,
    /// What gradients are multiplied with.
    scale: f64,
}

impl Update {
    /// Some neighbouring parameters of the arrays.
    pub(super) fn part<T: Element>(arrays: [&Array; 4], range: &std::ops::Range<usize>) -> Self {
        let [w, g, m, v] = arrays.map(|array| array.part::<T>(range.start, range.len()));
        Self { w, g, m, v }
    }

    /// Starts a kernel of an optimiser: what it is told lies on the device, since it changes with every update.
    fn start<T: Element>(&self, kernel: &str, numbers: Numbers, pool: &Pool) {
        let Numbers { rule, rate, correction, scale } = numbers;
        let keep = 1.0 - rule.learning_rate * rule.weight_decay;
        let moments = [rule.beta1, 1.0 - rule.beta1, rule.beta2, 1.0 - rule.beta2];
        let [beta1, rest1, beta2, rest2] = moments;
        let all = [keep, beta1, rest1, beta2, rest2, rate, correction, rule.epsilon, scale].map(T::from_f64);
        let numbers = pool.upload(&all);
        let [w, g, m, v] = [&self.w, &self.g, &self.m, &self.v].map(Array::arg);
        pool.each(kernel, self.w.len(), &[w, g, m, v, numbers.arg(), whole(self.w.len())]);
    }

    /// Update number `step` (from 1) of AdamW with the gradients times `scale`.
    pub(super) fn adamw<T: Element>(&self, rule: &UpdateRule, scale: f64, step: u64, pool: &Pool) {
        let correction = |beta: f64| 1.0 - beta.powf(step as f64);
        let rate = rule.learning_rate / correction(rule.beta1);
        let correction = 1.0 / correction(rule.beta2).sqrt();
        self.start::<T>("adamw", Numbers { rule, rate, correction, scale }, pool);
    }

    /// Update number `step` (from 1) of Ranger, with slow weights.
    pub(super) fn ranger<T: Element>(&self, slow: &Array, rule: &UpdateRule, scale: f64, step: u64, pool: &Pool) {
        let rate = rule.learning_rate / (1.0 - rule.beta1.powf(step as f64));
        let (rate, correction) = rectification(rule, step).map_or((rate, 0.0), |factor| (rate * factor, 1.0));
        self.start::<T>("radam", Numbers { rule, rate, correction, scale }, pool);
        if step.is_multiple_of(rule.lookahead.every) {
            let args = [self.w.arg(), slow.arg(), Arg::Real(rule.lookahead.follow), whole(slow.len())];
            pool.each("lookahead", slow.len(), &args);
        }
    }

    /// An update of Muon, whose arrays are those of one matrix.
    pub(super) fn muon<T: Element>(&self, matrix: &muon::Matrix, rule: &UpdateRule, on: &Executor<T>) {
        let pool = on.pool();
        let (rows, columns) = (matrix.rows(), matrix.columns);
        let keep = 1.0 - rule.learning_rate * rule.weight_decay;
        let rate = rule.learning_rate * muon::size(rule.muon_step, rows, columns);
        let numbers = pool.upload(&[keep, rate, rule.momentum, 1.0 - rule.momentum].map(T::from_f64));
        let (len, u) = (whole(self.w.len()), pool.take::<T>(self.w.len()));
        let [w, g, m, numbers] = [&self.w, &self.g, &self.m, &numbers].map(Array::arg);
        pool.each("muon_momentum", self.w.len(), &[g, m, u.arg(), numbers, len]);
        let u = orthogonal(u, rows, columns, on);
        pool.each("muon_step", self.w.len(), &[w, u.arg(), numbers, len]);
    }
}

/// As [`muon::orthogonalise`].
fn orthogonal<T: Element>(x: Array, rows: usize, columns: usize, on: &Executor<T>) -> Array {
    let pool = on.pool();
    let side = rows.min(columns);
    let squares = on.sum(&x, true);
    pool.each("shorten", x.len(), &[x.arg(), squares.arg(), Arg::Real(muon::EPSILON), whole(x.len())]);
    let (s, p) = (pool.take::<T>(side * side), pool.take::<T>(side * side));
    let (mut x, mut y) = (x, pool.take::<T>(rows * columns));
    let straight = |array: &Array, columns: usize| Matrix { at: array.at(), rows: columns, columns: 1 };
    let turned = |array: &Array, columns: usize| Matrix { at: array.at(), rows: 1, columns };
    let multiply = |a: Matrix, b: Matrix, y: &Array, [m, n, k]: [usize; 3]| {
        on.multiply(Product { a, b, y: y.at(), m, n, k, add: false });
    };
    for _ in 0..muon::STEPS {
        let here = straight(&x, columns);
        let tall = rows > columns;
        let (a, b) = if tall { (turned(&x, columns), here) } else { (here, turned(&x, columns)) };
        multiply(a, b, &s, [side, side, rows.max(columns)]);
        multiply(straight(&s, side), straight(&s, side), &p, [side, side, side]);
        let [a, b, c] = muon::POLYNOMIAL.map(Arg::Real);
        pool.each("polynomial", s.len(), &[s.arg(), p.arg(), a, b, c, int(side), whole(s.len())]);
        let (a, b) = if tall { (here, straight(&p, side)) } else { (straight(&p, side), here) };
        multiply(a, b, &y, [rows, columns, side]);
        std::mem::swap(&mut x, &mut y);
    }
    x
}
