//! The interface between a model and a machine: an executor of its plans, and arrays of a number for each parameter.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use rtc_compiler::formula::UpdateFormula;
use rtc_compiler::plan::Plan;

use crate::machine::Machine;
use crate::machine::outputs::Outputs;
use crate::machine::resume::{given, resumable};
use crate::settings::ExecutionFault;
use crate::settings::Settings;
use crate::storage::Element;
use rtc_base::batch::Batch;
use rtc_base::rng::Key;
use rtc_kernel::array_update::ArrayUpdate;
use rtc_kernel::optimiser::ParameterMatrix;
use rtc_kernel::optimiser::{Assign, UpdateRule};

/// Arrays in the memory of a machine, and what an update does with them.
pub trait ArrayMemory<T: Element>: Debug {
    /// An array.
    type Array: Debug;

    /// A new array with numbers of the host.
    fn keep(&self, numbers: Vec<T>) -> Self::Array;
    /// The numbers of an array on the host.
    fn numbers(&self, array: &Self::Array) -> Vec<T>;
    /// The sum of squares in double precision, in a fixed order.
    fn squared_norm(&self, array: &Self::Array) -> f64;
    /// Runs a kernel on a part of some arrays.
    fn each<K: ArrayUpdate<W, R>, const W: usize, const R: usize>(
        &self,
        kernel: &K,
        write: [&mut Self::Array; W],
        read: [&Self::Array; R],
        part: &Range<usize>,
    );
    /// An update of a part of some arrays by a formula with its shared numbers, of gradients times `scale`: the weights, then what it
    /// keeps, as [`run`](rtc_kernel::formula::run) has them.
    fn formula(
        &self,
        formula: &UpdateFormula,
        numbers_and_scale: (&[f64], f64),
        written: Vec<&mut Self::Array>,
        gradients: &Self::Array,
        part: &Range<usize>,
    );
    /// An update of matrices among the weights with their momentum and gradients, as [`muon`](rtc_kernel::muon::muon) has it.
    fn muon(
        &mut self,
        weights_and_momentum: [&mut Self::Array; 2],
        gradients: &Self::Array,
        matrices: &[ParameterMatrix],
        rule: &UpdateRule,
    );
    /// Lets the machine begin with what it was given.
    fn flush(&self) {}
    /// The first failure of the machine, if there was one.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Copies an array to a place that may have one already.
    fn copy(&self, from: &Self::Array, to: &mut Option<Self::Array>, len: usize) {
        let to = to.get_or_insert_with(|| self.keep(vec![T::ZERO; len]));
        self.each(&Assign {}, [to], [from], &(0..len));
    }
}

/// Runs one plan on a machine.
#[allow(private_bounds, reason = "machines are those of this crate")]
pub trait Backend: Machine + Debug {
    /// What it computes in.
    type Number: Element;
    /// Where its arrays lie.
    type Memory: ArrayMemory<Self::Number>;

    /// In its flat arrays each parameter begins at a multiple of so many numbers. What lies in between is zero, and stays so.
    const ALIGN: usize;

    /// Its memory.
    fn memory(&self) -> Self::Memory;
    /// An executor of another plan, with memory for weights of its own.
    fn beside(&self, plan: Plan) -> Self;
    /// How it runs from now on.
    fn settings(&mut self) -> &mut Settings;
    /// Runs the plan on a batch; `key` is the random key of this update. Gradients are added to what is there. A machine that is
    /// waited for calls `meanwhile` once it has been given all work.
    ///
    /// # Errors
    /// A batch that does not fit; with `check_finite`, the first value that is not finite; a failure of the machine.
    fn execute(
        &mut self,
        batch: &Batch,
        key: Key,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<Outputs<Self::Number>, ExecutionFault>;
    /// All weights, flat, in the order of their names, each where [`Self::ALIGN`] says.
    fn weights(&self) -> &BackendArray<Self>;
    /// The weights, to change, and the gradients in the same order.
    fn arrays(&mut self) -> (&mut BackendArray<Self>, &mut BackendArray<Self>);

    /// The plan.
    fn plan(&self) -> &Arc<Plan> {
        self.common().plan
    }

    /// Whether a depth of the plan comes with the examples.
    fn takes_depth(&self) -> bool {
        given(self.common().exprs).next().is_some()
    }

    /// The results after 1, 2, ... `most` steps of the recurrence whose depth is given. One that stands alone goes on from the
    /// step before; where there are several, or one inside another loop, or one that halts, every run begins anew.
    ///
    /// # Errors
    /// As [`Self::execute`].
    fn each_step(
        &mut self,
        batch: &Batch,
        key: Key,
        most: usize,
    ) -> Result<Vec<Outputs<Self::Number>>, ExecutionFault> {
        let before = self.settings().depth;
        *self.resume() = resumable(self.common().plan, self.common().exprs);
        let after = |steps| {
            self.settings().depth = Some(steps);
            self.execute(batch, key, &mut || {})
        };
        let results = (1..=most).map(after).collect();
        self.settings().depth = before;
        *self.resume() = None;
        results
    }
}

/// An array in the memory of a backend.
pub(crate) type BackendArray<B> = <<B as Backend>::Memory as ArrayMemory<<B as Backend>::Number>>::Array;
