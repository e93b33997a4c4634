//! A device as a machine that models compute on: its memory, what an update does there, and models on it.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use rtc_compiler::formula::UpdateFormula;
use rtc_compiler::lower::Binding;
use rtc_compiler::plan::Plan;

use super::device::{Device, DeviceMatrix, KernelArgument, MatrixProduct};
use super::exec::{ALIGN, DeviceExecutor};
use super::fusion;
use super::memory::{DeviceArray, DevicePool, address, int, whole};
use rtc_base::batch::Batch;
use rtc_base::rng::Key;
use rtc_exec::learner::{LearnError, UpdateRule};
use rtc_exec::model::{ArrayMemory, Backend, ModelOn};
use rtc_exec::storage::Element;
use rtc_exec::{ExecutionFault, Outputs, Settings};
use rtc_kernel::array_update::ArrayUpdate;
use rtc_kernel::muon;
use rtc_kernel::optimiser::{Along, Momentum};

/// A model with its state on a device, computing in `T`.
pub type Model<T> = ModelOn<DeviceExecutor<T>>;

/// Makes a model on a device, with the same freshly drawn parameters as on the processor.
///
/// # Errors
/// The first failure of the device.
pub fn model<T: Element>(
    training: Plan,
    inference: Plan,
    binding: Binding,
    seed: u64,
    device: Rc<dyn Device>,
) -> Result<Model<T>, LearnError> {
    let model = Model::with(DeviceExecutor::new(Arc::new(training), device), inference, binding, seed);
    model.healthy()?;
    Ok(model)
}

impl<T: Element> ArrayMemory<T> for DevicePool {
    type Array = DeviceArray;

    fn keep(&self, numbers: Vec<T>) -> DeviceArray {
        Self::keep(self, &numbers)
    }

    fn numbers(&self, array: &DeviceArray) -> Vec<T> {
        self.download(array)
    }

    fn squared_norm(&self, array: &DeviceArray) -> f64 {
        self.download::<f64>(&self.sum(array, true)).first().copied().unwrap_or(0.0)
    }

    fn each<K: ArrayUpdate<W, R>, const W: usize, const R: usize>(
        &self,
        kernel: &K,
        write: [&mut DeviceArray; W],
        read: [&DeviceArray; R],
        part: &Range<usize>,
    ) {
        // Constants lie on the device: they change with every update, and its commands are to come again.
        let constants: Vec<T> = kernel.constants().into_iter().map(T::from_f64).collect();
        let arrays = write.into_iter().map(|array| &*array).chain(read);
        let mut args: Vec<KernelArgument> = arrays.map(|array| array.part::<T>(part.start, part.len()).arg()).collect();
        let constants = (!constants.is_empty()).then(|| self.upload(&constants));
        args.extend([address(constants.as_ref()), whole(part.len())]);
        Self::each(self, K::NAME, part.len(), &args);
    }

    fn formula(
        &self,
        formula: &UpdateFormula,
        (numbers, scale): (&[f64], f64),
        written: Vec<&mut DeviceArray>,
        gradients: &DeviceArray,
        part: &Range<usize>,
    ) {
        let kernel = fusion::of_formula(formula);
        self.device().prepare(std::slice::from_ref(&kernel));
        let numbers: Vec<T> = [&scale].into_iter().chain(numbers).map(|x| T::from_f64(*x)).collect();
        let numbers = self.upload(&numbers);
        let arrays = written.into_iter().map(|array| &*array).chain([gradients]);
        let mut args: Vec<KernelArgument> = arrays.map(|array| array.part::<T>(part.start, part.len()).arg()).collect();
        args.extend([numbers.arg(), whole(part.len())]);
        Self::each(self, &kernel.name, part.len(), &args);
    }

    fn muon(
        &mut self,
        [w, m]: [&mut DeviceArray; 2],
        g: &DeviceArray,
        matrices: &[rtc_kernel::optimiser::ParameterMatrix],
        rule: &UpdateRule,
    ) {
        for matrix in matrices {
            let rule = &rule.of_group(matrix.group, true);
            let of = |array: &DeviceArray| array.part::<T>(matrix.range.start, matrix.range.len());
            let (mut u, all) = (self.take::<T>(matrix.range.len()), 0..matrix.range.len());
            ArrayMemory::<T>::each(self, &Momentum::new(rule), [&mut of(m), &mut u], [&of(g)], &all);
            let u = orthogonal::<T>(self, u, matrix.rows(), matrix.columns);
            ArrayMemory::<T>::each(self, &Along::new(rule, matrix), [&mut of(w)], [&u], &all);
        }
    }

    fn flush(&self) {
        self.device().flush();
    }

    fn failure(&self) -> Option<String> {
        self.device().failure()
    }
}

/// As [`muon::orthogonalise`].
fn orthogonal<T: Element>(pool: &DevicePool, x: DeviceArray, rows: usize, columns: usize) -> DeviceArray {
    let side = rows.min(columns);
    let squares = pool.sum(&x, true);
    pool.each("shorten", x.len(), &[x.arg(), squares.arg(), KernelArgument::Real(muon::EPSILON), whole(x.len())]);
    let (s, p) = (pool.take::<T>(side * side), pool.take::<T>(side * side));
    let (mut x, mut y) = (x, pool.take::<T>(rows * columns));
    let straight = |array: &DeviceArray, columns: usize| DeviceMatrix::straight(array.at(), columns);
    let turned = |array: &DeviceArray, columns: usize| DeviceMatrix::turned(array.at(), columns);
    let multiply = |a: DeviceMatrix, b: DeviceMatrix, y: &DeviceArray, sizes: [usize; 3]| {
        pool.multiply::<T>(MatrixProduct::new(a, b, y.at(), sizes))
    };
    for _ in 0..rtc_kernel::optimiser::STEPS {
        let here = straight(&x, columns);
        let tall = rows > columns;
        let (a, b) = if tall { (turned(&x, columns), here) } else { (here, turned(&x, columns)) };
        multiply(a, b, &s, [side, side, rows.max(columns)]);
        multiply(straight(&s, side), straight(&s, side), &p, [side, side, side]);
        let [a, b, c] = muon::POLYNOMIAL.map(KernelArgument::Real);
        pool.each("polynomial", s.len(), &[s.arg(), p.arg(), a, b, c, int(side), whole(s.len())]);
        let (a, b) = if tall { (here, straight(&p, side)) } else { (straight(&p, side), here) };
        multiply(a, b, &y, [rows, columns, side]);
        std::mem::swap(&mut x, &mut y);
    }
    x
}

impl<T: Element> Backend for DeviceExecutor<T> {
    type Number = T;
    type Memory = DevicePool;

    const ALIGN: usize = ALIGN;

    fn memory(&self) -> DevicePool {
        self.pool.clone()
    }

    fn beside(&self, plan: Plan) -> Self {
        Self::sharing(Arc::new(plan), self.pool.clone())
    }

    fn settings(&mut self) -> &mut Settings {
        &mut self.settings
    }

    fn execute(&mut self, batch: &Batch, key: Key, meanwhile: &mut dyn FnMut()) -> Result<Outputs<T>, ExecutionFault> {
        self.run_while(batch, key, meanwhile)
    }

    fn weights(&self) -> &DeviceArray {
        &self.parameters
    }

    fn arrays(&mut self) -> (&mut DeviceArray, &mut DeviceArray) {
        (&mut self.parameters, &mut self.gradients)
    }
}
