//! Optimisers as formulas, on the processor.
//!
//! Source: rtc.

use rtc_compiler::formula::UpdateFormula;
use rtc_compiler::ir::pointwise::{Pointwise, Scalar};

use super::Real;
use super::parallel::{DisjointSlice, each_block};
use super::pointwise::MapProgram;

/// The results of a formula with its shared numbers, of gradients times `scale`.
pub fn scaled(formula: &UpdateFormula, numbers: &[f64], scale: f64) -> Vec<Scalar> {
    let gradient = || Scalar::call(Pointwise::Mul, vec![Scalar::Number(scale), Scalar::Operand(1)]);
    let operand = |n: usize| if n == 1 { gradient() } else { Scalar::Operand(n) };
    formula.with_numbers(numbers).iter().map(|result| result.with(&operand)).collect()
}

/// Changes parameters and what is kept of them by the results of a formula: operand 0 is the parameter, 1 its gradient, and then comes
/// what is kept. All are of one length.
pub fn run<T: Real>(results: &[Scalar], written: Vec<&mut [T]>, gradients: &[T]) {
    let program = MapProgram::new(results);
    let len = gradients.len();
    let written: Vec<DisjointSlice<'_, T>> = written.into_iter().map(DisjointSlice::new).collect();
    each_block(len, program.cost() as usize + written.len() + 1, |range| {
        // Results of some numbers at a time, since loops of a result may read what another one has written.
        let mut made = vec![T::ZERO; results.len() * CHUNK];
        let mut scratch = vec![T::ZERO; program.scratch()];
        for start in range.clone().step_by(CHUNK) {
            let part = start..range.end.min(start + CHUNK);
            // SAFETY: the blocks are disjoint.
            let mut arrays: Vec<&mut [T]> = written.iter().map(|array| unsafe { array.part(part.clone()) }).collect();
            let mut made: Vec<&mut [T]> = made.chunks_mut(CHUNK).map(|made| &mut made[..part.len()]).collect();
            let mut operands: Vec<&[T]> = arrays.iter().map(|array| &**array).collect();
            operands.insert(1, &gradients[part.clone()]);
            program.run(&operands, &mut made, &mut scratch);
            arrays.iter_mut().zip(&made).for_each(|(array, made)| array.copy_from_slice(made));
        }
    });
}

/// Numbers at a time, so that what lies between the loops stays in the first-level cache.
const CHUNK: usize = 1024;
