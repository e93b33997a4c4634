//! Where parameters lie in the flat arrays of a machine.

use std::ops::Range;

use rtc_compiler::ir::types::Dim;
use rtc_compiler::plan::Plan;

/// Ranges of the parameters in the flat array, in order.
pub fn parameter_ranges(plan: &Plan) -> Vec<Range<usize>> {
    aligned_ranges(plan, 1)
}

/// The same in an array in which each parameter begins at a multiple of `align` numbers.
pub fn aligned_ranges(plan: &Plan, align: usize) -> Vec<Range<usize>> {
    let mut end = 0_usize;
    let sizes = plan.parameters.iter().map(|p| p.ty.dims().iter().filter_map(Dim::fixed).product::<usize>());
    sizes
        .map(|size| {
            let start = end.next_multiple_of(align);
            end = start + size;
            start..end
        })
        .collect()
}
