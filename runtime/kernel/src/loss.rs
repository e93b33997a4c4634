//! Losses with their gradients, and predictions.
//!
//! Source: rtc.

use rtc_compiler::ir::attribute::Probabilities;

use super::Real;
use super::parallel::{DisjointSlice, block, each, each_block, lane_total, sum_scalars, vectorised};

/// Items of one block: the sums are per block.
const ITEMS: usize = 64;

/// A weighted sum of losses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossSum {
    /// Sum of weight times loss.
    pub sum: f64,
    /// Sum of the weights.
    pub weight: f64,
}

impl LossSum {
    /// The weighted mean; 0 if there is no weight.
    pub fn mean(self) -> f64 {
        if self.weight == 0.0 { 0.0 } else { self.sum / self.weight }
    }
}

/// The sum of the weights: their number, if every weight is 1.
fn weight_sum<T: Real>(weights: Option<&[T]>, items: usize) -> f64 {
    weights.map_or(items as f64, |weights| weights.iter().map(|w| w.to_f64()).sum())
}

/// The cross entropy of one item, with room for as many numbers as it has logits.
fn of_classes<T: Real>(kind: Probabilities, row: &[T], label: usize, scratch: &mut [T]) -> T {
    match kind {
        Probabilities::Softmax => {
            let (largest, sum) = exponentials(row, scratch);
            sum.ln() + (largest - row[label])
        }
        Probabilities::Stablemax => {
            let (largest, sum) = stable_shares(row, scratch);
            let share = scratch[label];
            // A quotient is exact where it is no tiny number; else the difference of the logarithms is so large that it is exact enough.
            if share > T::from_f64(1e-30) {
                (sum / share).ln()
            } else {
                sum.ln() + (stable_log(largest) - stable_log(row[label]))
            }
        }
    }
}

/// `losses[item] = -log p(label)`, where the logits stand for probabilities of classes by `kind`.
pub fn cross_entropy_each<T: Real>(kind: Probabilities, logits: &[T], labels: &[u32], losses: &mut [T]) {
    let m = labels.len();
    let c = classes(logits, m);
    debug_assert_eq!(losses.len(), m);
    let out = DisjointSlice::new(losses);
    each(m.div_ceil(ITEMS), logits.len() * 4, |i| {
        T::with_scratch(c, |scratch| {
            for item in block(i, ITEMS, m) {
                let loss = of_classes(kind, &logits[item * c..(item + 1) * c], labels[item] as usize, scratch);
                // SAFETY: items are disjoint.
                unsafe { *out.at(item) = loss };
            }
        });
    });
}

/// `dlogits = dlosses (p - onehot(label)) s`, the gradient of [`cross_entropy_each`]: s is the slope of the logarithm of what p is
/// proportional to, 1 for softmax.
pub fn cross_entropy_each_grad<T: Real>(
    kind: Probabilities,
    logits: &[T],
    labels: &[u32],
    dlosses: &[T],
    dlogits: &mut [T],
) {
    let m = labels.len();
    let c = classes(logits, m);
    debug_assert!(dlogits.len() == logits.len() && dlosses.len() == m);
    let out = DisjointSlice::new(dlogits);
    each(m.div_ceil(ITEMS), logits.len() * 4, |i| {
        for item in block(i, ITEMS, m) {
            // SAFETY: items are disjoint.
            let d = unsafe { out.part(item * c..(item + 1) * c) };
            let (row, dy) = (&logits[item * c..(item + 1) * c], dlosses[item]);
            let (_, sum) = match kind {
                Probabilities::Softmax => exponentials(row, d),
                Probabilities::Stablemax => stable_shares(row, d),
            };
            let factor = dy / sum;
            vectorised!(d.iter_mut().for_each(|d| *d *= factor));
            d[labels[item] as usize] -= dy;
            if kind == Probabilities::Stablemax {
                vectorised!(d.iter_mut().zip(row).for_each(|(d, a)| *d = *d / (T::ONE + a.abs())));
            }
        }
    });
}

/// `losses[item] = log(1 + exp(-z))` with `z` the logit for label 1 and its negative for label 0.
pub fn binary_cross_entropy_each<T: Real>(logits: &[T], labels: &[u32], losses: &mut [T]) {
    debug_assert!(logits.len() == labels.len() && losses.len() == labels.len());
    let out = DisjointSlice::new(losses);
    each_block(labels.len(), 8, |range| {
        // SAFETY: blocks are disjoint.
        let losses = unsafe { out.part(range.clone()) };
        for (loss, item) in losses.iter_mut().zip(range) {
            *loss = of_logit(logits[item], labels[item]);
        }
    });
}

/// `dlogits = dlosses (sigmoid(logits) - label)`: the gradient of [`binary_cross_entropy_each`].
pub fn binary_cross_entropy_each_grad<T: Real>(logits: &[T], labels: &[u32], dlosses: &[T], dlogits: &mut [T]) {
    debug_assert!(logits.len() == labels.len() && dlogits.len() == logits.len() && dlosses.len() == labels.len());
    let out = DisjointSlice::new(dlogits);
    each_block(labels.len(), 8, |range| {
        // SAFETY: blocks are disjoint.
        let dlogits = unsafe { out.part(range.clone()) };
        for (d, item) in dlogits.iter_mut().zip(range) {
            let target = if labels[item] == 0 { T::ZERO } else { T::ONE };
            *d = (logits[item].sigmoid() - target) * dlosses[item];
        }
    });
}

/// `y[item]` = 1 where the first of the largest logits is that of the label, or a single logit is positive for a label that is not 0;
/// else 0; NaN where a logit is NaN.
pub fn right<T: Real>(logits: &[T], labels: &[u32], y: &mut [T]) {
    let c = classes(logits, labels.len());
    debug_assert_eq!(y.len(), labels.len());
    for (item, (y, &label)) in y.iter_mut().zip(labels).enumerate() {
        let row = &logits[item * c..(item + 1) * c];
        let is_right = if c == 1 { (row[0] > T::ZERO) == (label != 0) } else { first_largest(row) == label as usize };
        let is_nan = row.iter().any(|x| x.is_nan());
        *y = match is_right {
            _ if is_nan => T::NAN,
            true => T::ONE,
            false => T::ZERO,
        };
    }
}

/// The sum of some numbers, times their weights if they have any; block by block, in double precision.
pub fn weighted_sum<T: Real>(x: &[T], weights: Option<&[T]>) -> LossSum {
    let m = x.len();
    debug_assert!(weights.is_none_or(|weights| weights.len() == m));
    let sum =
        sum_scalars(m.div_ceil(ITEMS), m, |i| block(i, ITEMS, m).map(|item| weighted(x[item], weights, item)).sum());
    LossSum { sum, weight: weight_sum(weights, m) }
}

/// `dx = upstream weight / sum of weights`: the gradient of the mean of [`weighted_sum`].
pub fn weighted_mean_grad<T: Real>(weights: Option<&[T]>, upstream: f64, dx: &mut [T]) {
    let total = weight_sum(weights, dx.len());
    for (item, d) in dx.iter_mut().enumerate() {
        *d = share(weights, item, total, upstream);
    }
}

/// The binary cross entropy of one logit.
fn of_logit<T: Real>(logit: T, label: u32) -> T {
    let z = if label == 0 { logit } else { -logit };
    // `or_larger` gives 0 for NaN, but the first term is NaN then.
    (T::ONE + (-z.abs()).exp()).ln() + z.or_larger(T::ZERO)
}

/// The most probable class of every item of `logits[m, c]` (the first of equals), and its probability, which is NaN where a logit is.
pub fn predict<T: Real>(logits: &[T], class: &mut [u32], probability: &mut [f64]) {
    let c = classes(logits, class.len());
    T::with_scratch(c, |exps| {
        for (item, (class, probability)) in class.iter_mut().zip(probability).enumerate() {
            let row = &logits[item * c..(item + 1) * c];
            let best = first_largest(row);
            let (largest, sum) = exponentials(row, exps);
            *class = best as u32;
            *probability = ((row[best] - largest).exp() / sum).to_f64();
        }
    });
}

/// The first of the largest numbers; a NaN is passed over.
fn first_largest<T: Real>(row: &[T]) -> usize {
    (0..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best })
}

/// Class 1 where the logit is positive, else 0, and the probability of that class.
pub fn predict_binary<T: Real>(logits: &[T], class: &mut [u32], probability: &mut [f64]) {
    for ((class, probability), &z) in class.iter_mut().zip(probability).zip(logits) {
        *class = u32::from(z > T::ZERO);
        *probability = z.abs().sigmoid().to_f64();
    }
}

/// Number of classes of `m` items.
fn classes<T>(logits: &[T], m: usize) -> usize {
    debug_assert!(m == 0 || logits.len().is_multiple_of(m));
    logits.len().checked_div(m).unwrap_or(0)
}

fn weighted<T: Real>(loss: T, weights: Option<&[T]>, item: usize) -> f64 {
    // A weight of 0 takes an item out even if its loss is not finite.
    match weights.map(|weights| weights[item].to_f64()) {
        Some(0.0) => 0.0,
        Some(weight) => weight * loss.to_f64(),
        None => loss.to_f64(),
    }
}

fn share<T: Real>(weights: Option<&[T]>, item: usize, weight_sum: f64, upstream: f64) -> T {
    let weight = weights.map_or(1.0, |weights| weights[item].to_f64());
    T::from_f64(if weight_sum == 0.0 { 0.0 } else { upstream * weight / weight_sum })
}

/// Writes `exp(x - max)`; returns the maximum and the sum.
fn exponentials<T: Real>(x: &[T], exps: &mut [T]) -> (T, T) {
    let largest = x.iter().fold(T::NEG_INFINITY, |largest, &x| x.or_larger(largest));
    let sum = vectorised!({
        for (e, &x) in exps.iter_mut().zip(x) {
            *e = (x - largest).exp_below_one();
        }
        lane_total(exps)
    });
    (largest, sum)
}

/// Writes `g(x) / g(largest)` with `g(a) = a + 1` from 0 on and `1 / (1 - a)` below, which rises with a; returns the largest x and the
/// sum.
fn stable_shares<T: Real>(x: &[T], shares: &mut [T]) -> (T, T) {
    let grown = |a: T| if a < T::ZERO { T::ONE / (T::ONE - a) } else { a + T::ONE };
    let largest = x.iter().fold(T::NEG_INFINITY, |largest, &x| x.or_larger(largest));
    let most = grown(largest);
    let sum = vectorised!({
        for (share, &x) in shares.iter_mut().zip(x) {
            *share = grown(x) / most;
        }
        lane_total(shares)
    });
    (largest, sum)
}

/// The logarithm of `g(a)`, see [`stable_shares`].
fn stable_log<T: Real>(a: T) -> T {
    let size = (T::ONE + a.abs()).ln();
    if a < T::ZERO { -size } else { size }
}
