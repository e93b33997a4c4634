//! Ordered memory: the distribution of an element over the slots of the memory.
//!
//! Slot 0 is the deepest, the last one the top. One step of a model on input x, memory M and candidates N, `[rows, slots, d]` each:
//!
//! ```text
//! beta = scorer(x, N) / sqrt(d)                 ordinary ops
//! p, below, above = slot_softmax(beta, p of the step before)
//! M' = M + above (N - M)                        slot by slot: `mul_unit`
//! for slot i from the deepest on: h = x + below_i (cell(h, M'_i) - x), from h = x; N'_i = h
//! the output is the last h
//! ```
//!
//! Source: Shen et al. 2019 (ordered memory), arXiv:1910.13466.

use super::Real;
use super::parallel::{DisjointSlice, each};

/// Sums of probabilities below this close a slot.
const CLOSED: f64 = 1e-5;

/// What a step gives to the slots, `[rows, slots]` each.
#[derive(Debug)]
pub struct Division<'a, T> {
    /// The probability of each slot.
    pub p: &'a mut [T],
    /// The probability of a slot and those below it.
    pub below: &'a mut [T],
    /// The probability of a slot and those above it.
    pub above: &'a mut [T],
}

/// Divides a step by the scores `beta[rows, slots]`, given the probabilities of the step before.
///
/// `p = exp(beta - max) allowed`, made to sum to 1, where a slot is allowed as far as the step before went up to the slot above
/// it: `allowed_i = sum of before_0..=before_(i+1)`, 0 where that is below 1e-5, and 1 for the last slot. Where `before` is
/// negative there was no such step: `p` and `below` are 0 and `above` is 1.
pub fn slot_softmax<T: Real>(beta: &[T], before: &[T], slots: usize, out: Division<T>) {
    debug_assert!(out.p.len() == beta.len() && out.below.len() == beta.len() && out.above.len() == beta.len());
    let rows = beta.chunks_exact(slots).zip(before.chunks_exact(slots));
    let outs =
        out.p.chunks_exact_mut(slots).zip(out.below.chunks_exact_mut(slots).zip(out.above.chunks_exact_mut(slots)));
    for ((beta, before), (p, (below, above))) in rows.zip(outs) {
        if is_first(before) {
            p.fill(T::ZERO);
            below.fill(T::ZERO);
            above.fill(T::ONE);
            continue;
        }
        probabilities(beta, before, p);
        let mut sum = T::ZERO;
        for (below, &p) in below.iter_mut().zip(&*p) {
            sum += p;
            *below = sum;
        }
        sum = T::ZERO;
        for (above, &p) in above.iter_mut().zip(&*p).rev() {
            sum += p;
            *above = sum;
        }
    }
}

/// Whether a row takes its first step.
fn is_first<T: Real>(before: &[T]) -> bool {
    before[0] < T::ZERO
}

/// One row of probabilities; returns what they were divided by.
fn probabilities<T: Real>(beta: &[T], before: &[T], p: &mut [T]) -> T {
    allowed(before, p);
    let largest = beta.iter().fold(T::NEG_INFINITY, |largest, &beta| beta.or_larger(largest));
    let mut sum = T::ZERO;
    for (p, &beta) in p.iter_mut().zip(beta) {
        *p *= (beta - largest).exp_below_one();
        sum += *p;
    }
    // The last slot is open always; only where its score is hopeless can all be 0.
    let sum = if sum > T::ZERO { sum } else { T::ONE };
    p.iter_mut().for_each(|p| *p = *p / sum);
    sum
}

/// How far each slot is open.
fn allowed<T: Real>(before: &[T], out: &mut [T]) {
    let last = out.len() - 1;
    let mut sum = before[0];
    for (out, &next) in out.iter_mut().zip(&before[1..]) {
        sum += next;
        *out = if sum.to_f64() < CLOSED { T::ZERO } else { sum };
    }
    out[last] = T::ONE;
}

/// Gradients of [`slot_softmax`] from those of its results: overwrites `dbeta` and `dbefore`.
pub fn slot_softmax_grad<T: Real>(
    beta: &[T],
    before: &[T],
    slots: usize,
    [dp, dbelow, dabove]: [&[T]; 3],
    dbeta: &mut [T],
    dbefore: &mut [T],
) {
    debug_assert!(dp.len() == beta.len() && dbelow.len() == beta.len() && dabove.len() == beta.len());
    debug_assert!(dbeta.len() == beta.len() && dbefore.len() == beta.len());
    let (all_dbeta, all_dbefore) = (DisjointSlice::new(dbeta), DisjointSlice::new(dbefore));
    each(beta.len() / slots, beta.len() * 32, |row| {
        let at = row * slots..(row + 1) * slots;
        // SAFETY: rows are disjoint.
        let (dbeta, dbefore) = unsafe { (all_dbeta.part(at.clone()), all_dbefore.part(at.clone())) };
        let (beta, before) = (&beta[at.clone()], &before[at.clone()]);
        if is_first(before) {
            dbeta.fill(T::ZERO);
            return dbefore.fill(T::ZERO);
        }
        T::with_scratch(2 * slots, |memory| {
            let (p, open) = memory.split_at_mut(slots);
            let [dp, dbelow, dabove] = [dp, dbelow, dabove].map(|x| &x[at.clone()]);
            let sum = probabilities(beta, before, p);
            allowed(before, open);
            row_grad((beta, p, open, sum), [dp, dbelow, dabove], dbeta, dbefore);
        });
    });
}

/// One row of [`slot_softmax_grad`], from scores, probabilities, openness and the sum that was divided by.
fn row_grad<T: Real>(
    (beta, p, open, sum): (&[T], &[T], &[T], T),
    [dp, dbelow, dabove]: [&[T]; 3],
    dbeta: &mut [T],
    dbefore: &mut [T],
) {
    let slots = p.len();
    // The gradient of p: slot j counts below in every slot from j on, above in every slot up to j.
    let mut later = T::ZERO;
    for j in (0..slots).rev() {
        later += dbelow[j];
        dbeta[j] = dp[j] + later;
    }
    let (mut earlier, mut mean) = (T::ZERO, T::ZERO);
    for j in 0..slots {
        earlier += dabove[j];
        dbeta[j] += earlier;
        mean = dbeta[j].mul_add(p[j], mean);
    }
    let largest = beta.iter().fold(T::NEG_INFINITY, |largest, &beta| beta.or_larger(largest));
    // The openness of slot i counts probabilities 0..=i+1; the last slot's counts none.
    let mut through = T::ZERO;
    for j in (0..slots).rev() {
        let slope = dbeta[j] - mean;
        dbeta[j] = p[j] * slope;
        if j + 1 < slots {
            if open[j] > T::ZERO {
                through += slope * (beta[j] - largest).exp_below_one() / sum;
            }
            dbefore[j + 1] = through;
        }
    }
    dbefore[0] = through;
}

/// `y[rows, count, d]` = each row of `x[rows, d]`, `count` times.
pub fn repeat<T: Real>(x: &[T], count: usize, d: usize, y: &mut [T]) {
    debug_assert_eq!(y.len(), x.len() * count);
    for (y, x) in y.chunks_exact_mut(count * d).zip(x.chunks_exact(d)) {
        y.chunks_exact_mut(d).for_each(|y| y.copy_from_slice(x));
    }
}

/// `y[rows, d]` = slot number `slot` of each row of `x[rows, slots, d]`; 0 where there is none.
pub fn slot_get<T: Real>(x: &[T], slot: usize, slots: usize, d: usize, y: &mut [T]) {
    debug_assert_eq!(x.len(), y.len() * slots);
    if slot >= slots {
        return y.fill(T::ZERO);
    }
    for (y, x) in y.chunks_exact_mut(d).zip(x.chunks_exact(slots * d)) {
        y.copy_from_slice(&x[slot * d..(slot + 1) * d]);
    }
}

/// Overwrites slot number `slot` of each row of `x[rows, slots, d]` by `y[rows, d]`, if there is such a slot.
pub fn slot_set<T: Real>(x: &mut [T], y: &[T], slot: usize, slots: usize, d: usize) {
    debug_assert_eq!(x.len(), y.len() * slots);
    if slot >= slots {
        return;
    }
    for (y, x) in y.chunks_exact(d).zip(x.chunks_exact_mut(slots * d)) {
        x[slot * d..(slot + 1) * d].copy_from_slice(y);
    }
}
