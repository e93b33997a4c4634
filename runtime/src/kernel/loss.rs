//! Losses with their gradients, and predictions.
//!
//! Source: rtc.

use super::Real;
use super::parallel::{Parts, block, each, lane_total, sum_scalars, vectorised};

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
pub fn weight_sum<T: Real>(weights: Option<&[T]>, items: usize) -> f64 {
    weights.map_or(items as f64, |weights| weights.iter().map(|w| w.to_f64()).sum())
}

/// The cross-entropy of `softmax(logits[m, c])` with the classes `labels[m]`: minus log of the right probability.
pub fn cross_entropy<T: Real>(logits: &[T], labels: &[u32], weights: Option<&[T]>) -> LossSum {
    let m = labels.len();
    let c = classes(logits, m);
    let sum = sum_scalars(m.div_ceil(ITEMS), logits.len() * 4, |i| {
        T::with_scratch(c, |exps| {
            let losses = block(i, ITEMS, m).map(|item| {
                let row = &logits[item * c..(item + 1) * c];
                let (largest, sum) = exponentials(row, exps);
                let loss = sum.ln() + (largest - row[labels[item] as usize]);
                weighted(loss, weights, item)
            });
            losses.sum()
        })
    });
    LossSum { sum, weight: weight_sum(weights, m) }
}

/// `dlogits = upstream w (softmax(logits) - onehot(label)) / weight_sum`: the gradient of the mean of
/// [`cross_entropy`], for the total weight that the mean divides by.
pub fn cross_entropy_grad<T: Real>(
    logits: &[T],
    labels: &[u32],
    weights: Option<&[T]>,
    weight_sum: f64,
    upstream: f64,
    dlogits: &mut [T],
) {
    let m = labels.len();
    let c = classes(logits, m);
    debug_assert_eq!(dlogits.len(), logits.len());
    let out = Parts::new(dlogits);
    each(m.div_ceil(ITEMS), logits.len() * 4, |i| {
        for item in block(i, ITEMS, m) {
            // SAFETY: items are disjoint.
            let d = unsafe { out.part(item * c..(item + 1) * c) };
            let (_, sum) = exponentials(&logits[item * c..(item + 1) * c], d);
            let share = share(weights, item, weight_sum, upstream);
            let factor = share / sum;
            vectorised!(d.iter_mut().for_each(|d| *d *= factor));
            d[labels[item] as usize] -= share;
        }
    });
}

/// The binary cross-entropy of `sigmoid(logits[m])` with `labels[m]` (0 or 1): `log(1 + exp(-z))` of the right side.
pub fn binary_cross_entropy<T: Real>(logits: &[T], labels: &[u32], weights: Option<&[T]>) -> LossSum {
    let m = labels.len();
    debug_assert_eq!(logits.len(), m);
    let sum = sum_scalars(m.div_ceil(ITEMS), m * 16, |i| {
        block(i, ITEMS, m)
            .map(|item| {
                let z = if labels[item] == 0 { logits[item] } else { -logits[item] };
                let loss = (T::ONE + (-z.abs()).exp()).ln() + z.or_larger(T::ZERO);
                // `or_larger` gives 0 for NaN, but the first term is NaN then.
                weighted(loss, weights, item)
            })
            .sum()
    });
    LossSum { sum, weight: weight_sum(weights, m) }
}

/// `dlogits = upstream w (sigmoid(logits) - label) / weight_sum`: the gradient of the mean of
/// [`binary_cross_entropy`].
pub fn binary_cross_entropy_grad<T: Real>(
    logits: &[T],
    labels: &[u32],
    weights: Option<&[T]>,
    weight_sum: f64,
    upstream: f64,
    dlogits: &mut [T],
) {
    debug_assert!(logits.len() == labels.len() && dlogits.len() == logits.len());
    for (item, (d, (&z, &label))) in dlogits.iter_mut().zip(logits.iter().zip(labels)).enumerate() {
        let target = if label == 0 { T::ZERO } else { T::ONE };
        *d = (z.sigmoid() - target) * share(weights, item, weight_sum, upstream);
    }
}

/// The most probable class of every item of `logits[m, c]` (the first of equals), and its probability.
pub fn predict<T: Real>(logits: &[T], class: &mut [u32], probability: &mut [f64]) {
    let c = classes(logits, class.len());
    T::with_scratch(c, |exps| {
        for (item, (class, probability)) in class.iter_mut().zip(probability).enumerate() {
            let row = &logits[item * c..(item + 1) * c];
            let best = (0..c).fold(0, |best, i| if row[i] > row[best] { i } else { best });
            let (largest, sum) = exponentials(row, exps);
            *class = best as u32;
            *probability = ((row[best] - largest).exp() / sum).to_f64();
        }
    });
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
