//! The processor as a machine that models compute on.

use std::ops::Range;
use std::sync::Arc;

use rtc_compiler::formula::UpdateFormula;
use rtc_compiler::plan::Plan;

use crate::learner::UpdateRule;
use crate::machine::backend::{ArrayMemory, Backend};
use crate::machine::outputs::Outputs;
use crate::processor::Executor;
use crate::settings::ExecutionFault;
use crate::settings::Settings;
use crate::storage::Element;
use rtc_base::batch::Batch;
use rtc_base::rng::Key;
use rtc_kernel::array_update::ArrayUpdate;
use rtc_kernel::clip::squared_norm;
use rtc_kernel::formula;
use rtc_kernel::muon::{MuonScratch, muon};
use rtc_kernel::optimiser::ParameterMatrix;

/// The memory of the processor, with what updates matrix by matrix keep there from one to the next.
#[derive(Debug, Default)]
pub struct HostMemory<T: Element> {
    matrices: Vec<MuonScratch<T>>,
}

impl<T: Element> ArrayMemory<T> for HostMemory<T> {
    type Array = Vec<T>;

    fn keep(&self, numbers: Vec<T>) -> Vec<T> {
        numbers
    }

    fn numbers(&self, array: &Vec<T>) -> Vec<T> {
        array.clone()
    }

    fn squared_norm(&self, array: &Vec<T>) -> f64 {
        squared_norm(array)
    }

    fn each<K: ArrayUpdate<W, R>, const W: usize, const R: usize>(
        &self,
        kernel: &K,
        write: [&mut Vec<T>; W],
        read: [&Vec<T>; R],
        part: &Range<usize>,
    ) {
        kernel.run(write.map(|array| &mut array[part.clone()]), read.map(|array| &array[part.clone()]));
    }

    fn formula(
        &self,
        formula: &UpdateFormula,
        (numbers, scale): (&[f64], f64),
        written: Vec<&mut Vec<T>>,
        gradients: &Vec<T>,
        part: &Range<usize>,
    ) {
        let written = written.into_iter().map(|array| &mut array[part.clone()]).collect();
        formula::run(&formula::scaled(formula, numbers, scale), written, &gradients[part.clone()]);
    }

    fn muon(&mut self, [w, m]: [&mut Vec<T>; 2], g: &Vec<T>, matrices: &[ParameterMatrix], rule: &UpdateRule) {
        muon([w, m], g, matrices, &mut self.matrices, rule);
    }
}

impl<T: Element> Backend for Executor<T> {
    type Number = T;
    type Memory = HostMemory<T>;

    const ALIGN: usize = 1;

    fn memory(&self) -> HostMemory<T> {
        HostMemory::default()
    }

    /// It shares the arena: executors of one model run in turn.
    fn beside(&self, plan: Plan) -> Self {
        Self::within(Arc::new(plan), self.arena.clone())
    }

    fn settings(&mut self) -> &mut Settings {
        &mut self.settings
    }

    fn execute(&mut self, batch: &Batch, key: Key, _: &mut dyn FnMut()) -> Result<Outputs<T>, ExecutionFault> {
        self.run(batch, key)
    }

    fn weights(&self) -> &Vec<T> {
        &self.memory.parameters
    }

    fn arrays(&mut self) -> (&mut Vec<T>, &mut Vec<T>) {
        self.version += 1;
        (&mut self.memory.parameters, &mut self.gradients)
    }
}
