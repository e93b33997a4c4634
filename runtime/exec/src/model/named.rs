//! The flat array of all parameters, by their names and by the rules that update them.

use rtc_compiler::ir::attribute;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use rtc_compiler::ir::graph::{FIXED, Graph, MAIN, Parameter};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::types::Dim;
use rtc_compiler::plan::Plan;

use crate::learner::{DecayedParameters, FlatArrays, GROUPS, LearnError, OptimiserKind, UpdateRule};
use crate::model::Backend;
use crate::ranges::aligned_ranges;
use crate::update::{Targets, UpdatedRange};
use rtc_kernel::Real;
use rtc_kernel::optimiser::ParameterMatrix;

/// Groups of parameters by the names of these: indices into [`UpdateRule::groups`].
pub type ParameterGroups = BTreeMap<String, usize>;

/// What the optimisers update number by number, and what [`OptimiserKind::Muon`] updates matrix by matrix.
#[derive(Debug)]
pub(super) struct Segments {
    all: DecayRanges,
    /// Those of a formula, which may turn the zeros between two parameters into other numbers.
    exact: DecayRanges,
    others: DecayRanges,
    matrices: Vec<ParameterMatrix>,
    /// Numbers of all parameters, those that are not trained among them.
    count: usize,
    /// Numbers of the flat array.
    len: usize,
}

/// Ranges of parameters for each choice of those that decay.
#[derive(Debug, Default)]
struct DecayRanges {
    all: Vec<UpdatedRange>,
    matrices: Vec<UpdatedRange>,
}

impl DecayRanges {
    /// Adds a parameter.
    fn add(&mut self, range: &Range<usize>, group: Option<usize>, is_matrix: bool, align: usize) {
        extend(&mut self.all, UpdatedRange { range: range.clone(), group, decays: true }, align);
        extend(&mut self.matrices, UpdatedRange { range: range.clone(), group, decays: is_matrix }, align);
    }

    fn of(&self, decayed: DecayedParameters) -> &[UpdatedRange] {
        match decayed {
            DecayedParameters::All => &self.all,
            DecayedParameters::Matrices => &self.matrices,
        }
    }
}

impl Segments {
    /// Returns the segments of the flat array of a model, whose parameters lie in the order of their names, each at a multiple of
    /// `align` numbers. `groups` names the parameters whose group is not that of the graph.
    pub(super) fn new(graph: &Graph, align: usize, groups: &ParameterGroups) -> Self {
        let (hidden, mut parameters) = (hidden(graph), graph.parameters());
        parameters.sort_by(|a, b| a.name.cmp(&b.name));
        let [all, exact, others] = [(); 3].map(|()| DecayRanges::default());
        let mut segments = Self { all, exact, others, matrices: vec![], count: 0, len: 0 };
        for parameter in &parameters {
            let (start, count) = (segments.len.next_multiple_of(align), dims(parameter).iter().product::<usize>());
            let range = start..start + count;
            segments.count += count;
            segments.len = range.end;
            if parameter.group.as_deref() == Some(FIXED) {
                continue;
            }
            let named = || GROUPS.iter().position(|group| Some(*group) == parameter.group.as_deref());
            let group = groups.get(&parameter.name).copied().or_else(named);
            let is_matrix = dims(parameter).len() > 1;
            segments.all.add(&range, group, is_matrix, align);
            segments.exact.add(&range, group, is_matrix, 1);
            match columns(parameter, &hidden) {
                Some(columns) => segments.matrices.push(ParameterMatrix { range, columns, group }),
                None => segments.others.add(&range, group, is_matrix, align),
            }
        }
        segments
    }

    /// Numbers of all parameters.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Numbers of the flat array.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// What an optimiser updates number by number, and what matrix by matrix.
    pub(super) fn of(&self, rule: &UpdateRule) -> Targets<'_> {
        let (ranges, matrices) = match rule.kind {
            OptimiserKind::Muon => (&self.others, &self.matrices[..]),
            OptimiserKind::Formula => (&self.exact, &[][..]),
            _ => (&self.all, &[][..]),
        };
        Targets { numbers: ranges.of(rule.decayed), matrices, len: self.len() }
    }
}

/// The names of the weights of linear maps without a role: Muon leaves embeddings and the last map to AdamW (Jordan et al. 2024).
fn hidden(graph: &Graph) -> HashSet<&str> {
    let linear = graph.walk(MAIN).into_iter().map(|node| graph.node(node)).filter(|node| node.op == Op::Linear);
    let weights: HashSet<_> = linear.map(|node| node.operands[1]).collect();
    let parameters = graph.nodes(MAIN).iter().map(|node| graph.node(*node)).filter(|node| node.op == Op::Param);
    let own = parameters.filter(|node| weights.contains(&node.results[0]) && !node.has(attribute::PARAMETER_ROLE));
    own.map(|node| node.get(attribute::NAME)).collect()
}

/// The columns of a parameter that Muon takes as a matrix: a hidden weight with several inputs and outputs.
fn columns(parameter: &Parameter, hidden: &HashSet<&str>) -> Option<usize> {
    match dims(parameter)[..] {
        [rows, columns] if rows.min(columns) > 1 && hidden.contains(&*parameter.name) => Some(columns),
        _ => None,
    }
}

/// The matrices that Muon updates in the model of a graph.
pub fn matrices(graph: &Graph) -> Vec<ParameterMatrix> {
    Segments::new(graph, 1, &ParameterGroups::new()).matrices
}

/// Adds a range to the last segment, if it belongs there, or begins one. The zeros between two parameters are updated with them, and
/// stay zeros.
fn extend(segments: &mut Vec<UpdatedRange>, added: UpdatedRange, align: usize) {
    match segments.last_mut() {
        Some(before)
            if (before.group, before.decays) == (added.group, added.decays)
                && before.range.end.next_multiple_of(align) == added.range.start =>
        {
            before.range.end = added.range.end;
        }
        _ => segments.push(added),
    }
}

fn dims(parameter: &Parameter) -> Vec<usize> {
    parameter.ty.dims().iter().filter_map(Dim::fixed).collect()
}

/// Name, shape and place of every parameter in the flat array of a backend.
pub(super) fn named_ranges<B: Backend>(plan: &Plan) -> Vec<(String, Vec<usize>, Range<usize>)> {
    let named = plan.parameters.iter().zip(aligned_ranges(plan, B::ALIGN));
    named.map(|(p, range)| (p.name.clone(), dims(p), range)).collect()
}

/// A flat array under the names of the parameters.
pub(super) fn named<B: Backend>(plan: &Plan, flat: &[B::Number]) -> FlatArrays {
    let single = |x: &B::Number| x.to_f64() as f32;
    let items = named_ranges::<B>(plan)
        .into_iter()
        .map(|(name, dims, range)| (name, (dims, flat[range].iter().map(single).collect())));
    FlatArrays { items: items.collect() }
}

/// A flat array from named ones.
pub(super) fn flat<B: Backend>(plan: &Plan, arrays: &FlatArrays) -> Result<Vec<B::Number>, LearnError> {
    let ranges = named_ranges::<B>(plan);
    if let Some(extra) = arrays.items.keys().find(|k| !ranges.iter().any(|(name, ..)| name == *k)) {
        return Err(LearnError::Mismatch(format!("`{extra}` is no parameter of it")));
    }
    let mut flat = vec![B::Number::ZERO; ranges.last().map_or(0, |(_, _, range)| range.end)];
    for (name, dims, range) in ranges {
        let (shape, values) =
            arrays.items.get(&name).ok_or_else(|| LearnError::Mismatch(format!("`{name}` is missing")))?;
        if *shape != dims || values.len() != range.len() {
            return Err(LearnError::Mismatch(format!("`{name}` has shape {shape:?}, the model has {dims:?}")));
        }
        for (to, from) in flat[range].iter_mut().zip(values) {
            *to = B::Number::from_f64(f64::from(*from));
        }
    }
    Ok(flat)
}
