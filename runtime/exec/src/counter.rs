//! Counters of a run, for comparison with the plan: steps, operations, rows. Nothing is counted unless asked for.

use rtc_compiler::ir::cost::{Extent, VisibleKeys, node_cost};
use rtc_compiler::ir::types::{Dim, Type};
use rtc_compiler::plan::{Plan, Step};

use crate::rows::BatchView;

/// Counters of an executor; they add up over its runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunCounters {
    /// Floating-point operations: the cost rule of every kernel that was called, at the sizes of that call.
    pub flops: f64,
    /// Runs of the bodies of forward loops, one after the other.
    pub steps: u64,
    /// Rows that entered recurrences that halt.
    pub entered: u64,
    /// Steps that those rows took.
    pub accepted: u64,
}

impl RunCounters {
    /// Steps that a row took on the mean; nothing where no recurrence halts.
    pub fn mean_depth(&self) -> Option<f64> {
        (self.entered > 0).then(|| self.accepted as f64 / self.entered as f64)
    }

    /// Adds the operations of these steps.
    pub(super) fn add(&mut self, plan: &Plan, steps: &[Step], view: &BatchView) {
        self.flops += steps.iter().map(|step| node_cost::<f64>(&plan.graph, step.node, view)).sum::<f64>();
    }
}

/// The rows of a batch as they are.
impl Extent<f64> for BatchView {
    fn elements(&self, ty: &Type) -> f64 {
        self.extent(ty) as f64
    }

    fn pairs(&self, queries: &Type, keys: &Type, seen: VisibleKeys) -> f64 {
        let length = |ty: &Type, row: usize| match ty.dims().get(1) {
            Some(Dim::Sym(axis)) => self.axis(axis).len(row) as f64,
            Some(Dim::Fixed(size)) => *size as f64,
            None => 1.0,
        };
        let triangle = seen == VisibleKeys::Past && queries.dims().get(1) == keys.dims().get(1);
        let row = |row: usize| match (length(queries, row), length(keys, row)) {
            (q, _) if triangle => q * (q + 1.0) / 2.0,
            (q, k) => match seen {
                VisibleKeys::Most(most) => q * k.min(most as f64),
                _ => q * k,
            },
        };
        (0..self.rows()).map(row).sum()
    }

    fn filled(&self, slots: usize) -> f64 {
        (slots as f64 + 1.0) / 2.0
    }
}
