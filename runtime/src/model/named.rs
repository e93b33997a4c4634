//! The flat array of all parameters, by their names and by the groups that learn at the same rate.

use std::ops::Range;

use rtc_compiler::ir::graph::Parameter;
use rtc_compiler::ir::types::Dim;
use rtc_compiler::plan::Plan;

use crate::exec::parameter_ranges;
use crate::kernel::Real;
use crate::learner::{Arrays, GROUPS, LearnError};

/// The ranges of the flat array that belong to one group, as long as possible.
pub(crate) fn segments(plan: &Plan) -> Vec<(Range<usize>, Option<usize>)> {
    let mut out: Vec<(Range<usize>, Option<usize>)> = vec![];
    for (parameter, range) in plan.parameters.iter().zip(parameter_ranges(plan)) {
        let group = parameter.group.as_deref().and_then(|name| GROUPS.iter().position(|group| *group == name));
        match out.last_mut() {
            Some((before, same)) if *same == group => before.end = range.end,
            _ => out.push((range, group)),
        }
    }
    out
}

/// Name, shape and place of every parameter in the flat array.
pub(crate) fn named_ranges(plan: &Plan) -> Vec<(String, Vec<usize>, Range<usize>)> {
    let dims = |p: &Parameter| p.ty.dims().iter().filter_map(Dim::fixed).collect();
    let named = plan.parameters.iter().zip(parameter_ranges(plan));
    named.map(|(p, range)| (p.name.clone(), dims(p), range)).collect()
}

/// A flat array under the names of the parameters.
pub(crate) fn named<T: Real>(plan: &Plan, flat: &[T]) -> Arrays {
    let single = |x: &T| x.to_f64() as f32;
    let items = named_ranges(plan)
        .into_iter()
        .map(|(name, dims, range)| (name, (dims, flat[range].iter().map(single).collect())));
    Arrays { items: items.collect() }
}

/// A flat array from named ones.
pub(crate) fn flat<T: Real>(plan: &Plan, arrays: &Arrays) -> Result<Vec<T>, LearnError> {
    let ranges = named_ranges(plan);
    if let Some(extra) = arrays.items.keys().find(|k| !ranges.iter().any(|(name, ..)| name == *k)) {
        return Err(LearnError::Mismatch(format!("`{extra}` is no parameter of it")));
    }
    let mut flat = vec![T::ZERO; ranges.last().map_or(0, |(_, _, range)| range.end)];
    for (name, dims, range) in ranges {
        let (shape, values) =
            arrays.items.get(&name).ok_or_else(|| LearnError::Mismatch(format!("`{name}` is missing")))?;
        if *shape != dims || values.len() != range.len() {
            return Err(LearnError::Mismatch(format!("`{name}` has shape {shape:?}, the model has {dims:?}")));
        }
        for (to, from) in flat[range].iter_mut().zip(values) {
            *to = T::from_f64(f64::from(*from));
        }
    }
    Ok(flat)
}
