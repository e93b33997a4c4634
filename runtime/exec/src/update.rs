//! An update of the weights: which arrays an optimiser keeps, and which kernels change them.

use std::ops::Range;

use rtc_kernel::optimiser::ParameterMatrix;
use rtc_kernel::optimiser::{Adam, AdamAtan2, Follow, OptimiserKind, UpdateRule};

use crate::machine::backend::ArrayMemory;
use crate::storage::Element;

/// The arrays that optimisers keep from one update to the next, by their names in checkpoints. Each begins when it is first used.
pub const STATE: [&str; 3] = ["first_moment", "second_moment", "slow"];

/// The arrays of [`STATE`] on a machine.
pub type OptimiserState<A> = [Option<A>; STATE.len()];

/// Neighbouring parameters, as many as possible, that are updated alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdatedRange {
    /// Their place in the flat array.
    pub range: Range<usize>,
    /// The group of their learning rate.
    pub group: Option<usize>,
    /// Whether weight decay applies to them.
    pub decays: bool,
}

/// What an update changes in which way: neighbouring parameters with one rule, and matrices.
#[derive(Clone, Copy, Debug)]
pub struct Targets<'a> {
    /// What is updated number by number.
    pub numbers: &'a [UpdatedRange],
    /// What is updated matrix by matrix.
    pub matrices: &'a [ParameterMatrix],
    /// How many numbers there are.
    pub len: usize,
}

/// Update number `step` (from 1) of the weights with the gradients times `scale`, which is that of
/// [`clip_factor`](rtc_kernel::clip::clip_factor).
pub fn update<T: Element, M: ArrayMemory<T>>(
    memory: &mut M,
    (w, g): (&mut M::Array, &M::Array),
    [first, second, slow]: &mut OptimiserState<M::Array>,
    targets: Targets<'_>,
    rule: &UpdateRule,
    (scale, step): (f64, u64),
) {
    let len = targets.len;
    let [m, v] = [first, second].map(|moment| moment.get_or_insert_with(|| memory.keep(vec![T::ZERO; len])));
    if rule.kind == OptimiserKind::Ranger && slow.is_none() {
        memory.copy(w, slow, len);
    }
    if !targets.matrices.is_empty() {
        memory.muon([w, m], g, targets.matrices, rule);
    }
    for UpdatedRange { range, group, decays } in targets.numbers {
        let weight_decay = if *decays { rule.weight_decay } else { 0.0 };
        let rule = UpdateRule { learning_rate: rule.rate(*group), weight_decay, ..*rule };
        match rule.kind {
            OptimiserKind::Adamw | OptimiserKind::Muon => {
                memory.each(&Adam::with_decay(&rule, scale, step), [w, m, v], [g], range);
            }
            OptimiserKind::Adam => {
                let rule = UpdateRule { weight_decay: 0.0, ..rule };
                memory.each(&Adam::with_decay(&rule, scale, step), [w, m, v], [g], range);
            }
            OptimiserKind::AdamAtan2 => {
                memory.each(&AdamAtan2::new(&rule, scale, step), [w, m, v], [g], range);
            }
            OptimiserKind::Ranger => {
                memory.each(&Adam::rectified(&rule, scale, step), [w, m, v], [g], range);
                if let Some(slow) = slow.as_mut().filter(|_| step.is_multiple_of(rule.lookahead.every)) {
                    memory.each(&Follow { follow: rule.lookahead.follow }, [w, slow], [], range);
                }
            }
        }
    }
}
