//! An update of the weights: which arrays an optimiser keeps, and which kernels change them.

use std::ops::Range;

use rtc_compiler::formula::{MOST_KEPT, UpdateFormula};
use rtc_kernel::optimiser::ParameterMatrix;
use rtc_kernel::optimiser::{Adam, AdamAtan2, Follow, Lion, OptimiserKind, Sgd, UpdateRule};

use crate::machine::backend::ArrayMemory;
use crate::storage::Element;

/// The arrays that optimisers keep from one update to the next, by their names in checkpoints. Each begins when it is first used.
/// What a formula keeps takes these places in the order of its lines.
pub const STATE: [&str; MOST_KEPT] = ["first_moment", "second_moment", "slow"];

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
    state: &mut OptimiserState<M::Array>,
    targets: Targets<'_>,
    rule: &UpdateRule,
    (scale, step): (f64, u64),
) {
    let len = targets.len;
    let [first, second, slow] = state;
    let m = moment(memory, first, len);
    if rule.kind == OptimiserKind::Ranger && slow.is_none() {
        memory.copy(w, slow, len);
    }
    if !targets.matrices.is_empty() {
        memory.muon([w, m], g, targets.matrices, rule);
    }
    for UpdatedRange { range, group, decays } in targets.numbers {
        let rule = rule.of_group(*group, *decays);
        let kind = rule.kind;
        match kind {
            OptimiserKind::Lion => memory.each(&Lion::new(&rule, scale), [w, m], [g], range),
            OptimiserKind::Sgd => memory.each(&Sgd::new(&rule, scale), [w, m], [g], range),
            OptimiserKind::Adamw | OptimiserKind::Muon => {
                memory.each(&Adam::with_decay(&rule, scale, step), [w, m, moment(memory, second, len)], [g], range);
            }
            OptimiserKind::Adam => {
                let rule = UpdateRule { weight_decay: 0.0, ..rule };
                memory.each(&Adam::with_decay(&rule, scale, step), [w, m, moment(memory, second, len)], [g], range);
            }
            OptimiserKind::AdamAtan2 => {
                memory.each(&AdamAtan2::new(&rule, scale, step), [w, m, moment(memory, second, len)], [g], range);
            }
            OptimiserKind::Formula => unreachable!("its updates are those of `update_by_formula`"),
            OptimiserKind::Ranger => {
                memory.each(&Adam::rectified(&rule, scale, step), [w, m, moment(memory, second, len)], [g], range);
            }
        }
        if let Some(slow) = slow.as_mut().filter(|_| kind == OptimiserKind::Ranger)
            && step.is_multiple_of(rule.lookahead.every)
        {
            memory.each(&Follow { follow: rule.lookahead.follow }, [w, slow], [], range);
        }
    }
}

/// Update number `step` (from 1) of the weights by a formula, as [`update`] does it by other rules.
///
/// # Errors
/// A sentence, where a number that parameters share has no value; nothing has changed then.
pub fn update_by_formula<T: Element, M: ArrayMemory<T>>(
    memory: &mut M,
    (w, g): (&mut M::Array, &M::Array),
    state: &mut OptimiserState<M::Array>,
    targets: Targets<'_>,
    (rule, formula): (&UpdateRule, &UpdateFormula),
    (scale, step): (f64, u64),
) -> Result<(), String> {
    let shared = |part: &UpdatedRange| rule.of_group(part.group, part.decays).shared(formula, step);
    let numbers = targets.numbers.iter().map(shared).collect::<Result<Vec<_>, _>>()?;
    for (part, numbers) in targets.numbers.iter().zip(&numbers) {
        let kept = state.iter_mut().take(formula.kept().len()).map(|array| moment(memory, array, targets.len));
        let written = [&mut *w].into_iter().chain(kept).collect();
        memory.formula(formula, (numbers, scale), written, g, &part.range);
    }
    Ok(())
}

/// Returns an array of the optimiser, of zeros if it is used for the first time.
fn moment<'a, T: Element, M: ArrayMemory<T>>(
    memory: &M,
    array: &'a mut Option<M::Array>,
    len: usize,
) -> &'a mut M::Array {
    array.get_or_insert_with(|| memory.keep(vec![T::ZERO; len]))
}
