//! The optimiser on a device: the same rules as on the CPU, with moments that stay there.

use super::device::Arg;
use super::memory::{Array, Pool, whole};
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
        let (rate, correction) = rectification(rule.beta2, step).map_or((rate, 0.0), |factor| (rate * factor, 1.0));
        self.start::<T>("radam", Numbers { rule, rate, correction, scale }, pool);
        if step.is_multiple_of(LOOKAHEAD) {
            let args = [self.w.arg(), slow.arg(), Arg::Real(FOLLOW), whole(slow.len())];
            pool.each("lookahead", slow.len(), &args);
        }
    }
}
