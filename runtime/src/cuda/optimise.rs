//! The optimiser on a device: the same rules as on the CPU, with moments that stay there.

use super::device::Arg;
use super::memory::{Array, Pool, flag, whole};
use crate::exec::storage::Element;
use crate::kernel::optimiser::{FOLLOW, LOOKAHEAD, rectification};
use crate::learner::UpdateRule;

/// The arrays of one update: weights, gradients, first and second moments; of neighbouring parameters.
pub(super) struct Update {
    pub(super) w: Array,
    pub(super) g: Array,
    pub(super) m: Array,
    pub(super) v: Array,
}

impl Update {
    /// Some neighbouring parameters of the arrays.
    pub(super) fn part<T: Element>(arrays: [&Array; 4], range: &std::ops::Range<usize>) -> Self {
        let [w, g, m, v] = arrays.map(|array| array.part::<T>(range.start, range.len()));
        Self { w, g, m, v }
    }

    /// What both optimisers are told first: arrays, decay, factors of the moments.
    fn args(&self, rule: &UpdateRule) -> Vec<Arg> {
        let keep = 1.0 - rule.learning_rate * rule.weight_decay;
        let numbers = [keep, rule.beta1, 1.0 - rule.beta1, rule.beta2, 1.0 - rule.beta2];
        let arrays = [&self.w, &self.g, &self.m, &self.v].map(Array::arg);
        arrays.into_iter().chain(numbers.map(Arg::Real)).collect()
    }

    /// Update number `step` (from 1) of AdamW with the gradients times `scale`.
    pub(super) fn adamw(&self, rule: &UpdateRule, scale: f64, step: u64, pool: &Pool) {
        let correction = |beta: f64| 1.0 - beta.powf(step as f64);
        let mut args = self.args(rule);
        let rate = rule.learning_rate / correction(rule.beta1);
        args.extend([rate, 1.0 / correction(rule.beta2).sqrt(), rule.epsilon, scale].map(Arg::Real));
        args.push(whole(self.w.len()));
        pool.each("adamw", self.w.len(), &args);
    }

    /// Update number `step` (from 1) of Ranger, with slow weights.
    pub(super) fn ranger(&self, slow: &Array, rule: &UpdateRule, scale: f64, step: u64, pool: &Pool) {
        let rate = rule.learning_rate / (1.0 - rule.beta1.powf(step as f64));
        let rectified = rectification(rule.beta2, step);
        let mut args = self.args(rule);
        args.push(Arg::Real(rectified.map_or(rate, |factor| rate * factor)));
        args.push(flag(rectified.is_some()));
        args.extend([rule.epsilon, scale].map(Arg::Real));
        args.push(whole(self.w.len()));
        pool.each("radam", self.w.len(), &args);
        if step.is_multiple_of(LOOKAHEAD) {
            let args = [self.w.arg(), slow.arg(), Arg::Real(FOLLOW), whole(slow.len())];
            pool.each("lookahead", slow.len(), &args);
        }
    }
}
