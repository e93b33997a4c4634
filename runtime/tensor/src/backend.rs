//! Models on tensors: weights, gradients and the arrays of an optimiser lie on the host, where updates are made.

use std::sync::Arc;

use rtc_base::batch::Batch;
use rtc_base::rng::Key;
use rtc_compiler::lower::Binding;
use rtc_compiler::plan::Plan;
use rtc_exec::model::{Backend, ModelOn};
use rtc_exec::{ExecutionFault, HostMemory, Outputs, Settings};

use crate::device::TensorDevice;
use crate::exec::TensorExecutor;
use crate::value::TensorNumber;

/// A model whose steps run on tensors of Candle, computing in `T`.
pub type Model<T> = ModelOn<TensorExecutor<T>>;

/// Makes a model on a device of Candle, with the same freshly drawn parameters as on the processor.
pub fn model<T: TensorNumber>(
    training: Plan,
    inference: Plan,
    binding: Binding,
    seed: u64,
    device: TensorDevice,
) -> Model<T> {
    Model::with(TensorExecutor::new(Arc::new(training), device.0), inference, binding, seed)
}

impl<T: TensorNumber> Backend for TensorExecutor<T> {
    type Number = T;
    type Memory = HostMemory<T>;

    const ALIGN: usize = 1;

    fn memory(&self) -> HostMemory<T> {
        HostMemory::default()
    }

    fn beside(&self, plan: Plan) -> Self {
        Self::new(Arc::new(plan), self.device().clone())
    }

    fn settings(&mut self) -> &mut Settings {
        &mut self.settings
    }

    fn execute(&mut self, batch: &Batch, key: Key, _: &mut dyn FnMut()) -> Result<Outputs<T>, ExecutionFault> {
        self.run(batch, key)
    }

    fn weights(&self) -> &Vec<T> {
        self.parameters()
    }

    fn arrays(&mut self) -> (&mut Vec<T>, &mut Vec<T>) {
        self.arrays_mut()
    }
}
