//! Losses over classes, and averages.

use candle_core::{D, DType, Result as Candle, Tensor, WithDType};
use rtc_compiler::ir::attribute::{self, Probabilities};
use rtc_compiler::ir::graph::Value;
use rtc_exec::node_context::NodeContext;
use rtc_kernel::Real;

use crate::exec::TensorExecutor;
use crate::value::TensorNumber;

impl<T: TensorNumber> TensorExecutor<T> {
    /// Logits of operand `logits`, the classes of the operand after it, and how many items there are.
    fn items(&self, c: &NodeContext<'_>, logits: usize) -> Candle<(Tensor, Tensor)> {
        let labels = self.index(c.operand(logits + 1));
        let x = self.real(c.operand(logits));
        let logits = x.reshape((labels.len(), x.elem_count() / labels.len()))?;
        Ok((logits, self.indices(labels)?.unsqueeze(1)?))
    }

    /// `-log softmax(logits)` of the class of every item.
    fn losses(&self, c: &NodeContext<'_>, logits: usize) -> Candle<Tensor> {
        let (x, labels) = self.items(c, logits)?;
        let largest = x.max_keepdim(D::Minus1)?;
        let sums = x.broadcast_sub(&largest)?.exp()?.sum_keepdim(D::Minus1)?;
        // NaN in any logit is NaN in the sum.
        (sums.log()? + (largest - x.gather(&labels, 1)?)?)?.flatten_all()
    }

    /// `dlosses (softmax(logits) - onehot)`
    fn losses_grad(&self, c: &NodeContext<'_>, logits: usize, dlosses: &Tensor) -> Candle<Tensor> {
        let (x, labels) = self.items(c, logits)?;
        let dlosses = dlosses.reshape((x.dim(0)?, 1))?;
        let probabilities = crate::map::softmax(&x)?.broadcast_mul(&dlosses)?;
        probabilities.scatter_add(&labels, &dlosses.neg()?, 1)?.flatten_all()
    }

    /// What the mean over items weighs them with, in double precision: the weights over their sum.
    fn shares(&self, weights: Option<&Value>, items: usize) -> Candle<Tensor> {
        let weights: Vec<f64> = match weights {
            Some(weights) => self.host_numbers(&self.real(*weights)).iter().map(|w| Real::to_f64(*w)).collect(),
            None => vec![1.0; items],
        };
        let total: f64 = weights.iter().sum();
        let shares: Vec<f64> = weights.iter().map(|w| if total == 0.0 { 0.0 } else { w / total }).collect();
        Tensor::from_vec(shares, items, &self.device)
    }

    /// The mean of some numbers, by their weights if they have any. A weight of 0 takes a number out even if it is not finite.
    pub(crate) fn average(&self, c: &NodeContext<'_>) -> Candle<Tensor> {
        let x = self.real(c.operand(0)).flatten_all()?.to_dtype(DType::F64)?;
        let shares = self.shares(c.node.operands.get(1), x.elem_count())?;
        let counted = shares.eq(0.0)?.where_cond(&shares, &(x * &shares)?)?;
        counted.sum_all()?.to_dtype(<T as WithDType>::DTYPE)
    }

    /// Its gradient.
    pub(crate) fn average_grad(&self, c: &NodeContext<'_>) -> Candle<Tensor> {
        let (upstream, items) = (self.real(c.operand(0)).to_dtype(DType::F64)?, self.real(c.operand(1)).elem_count());
        let shares = self.shares(c.node.operands.get(2), items)?;
        shares.broadcast_mul(&upstream)?.to_dtype(<T as WithDType>::DTYPE)
    }
    /// A loss for every label; nothing for probabilities that are not those of softmax.
    pub(crate) fn cross_entropy_each(&self, c: &NodeContext<'_>) -> Candle<Option<Tensor>> {
        let softmax = c.get(attribute::PROBABILITIES) == Probabilities::Softmax;
        softmax.then(|| self.losses(c, 0)).transpose()
    }

    pub(crate) fn cross_entropy_each_grad(&self, c: &NodeContext<'_>) -> Candle<Option<Tensor>> {
        let softmax = c.get(attribute::PROBABILITIES) == Probabilities::Softmax;
        softmax.then(|| self.losses_grad(c, 1, &self.real(c.operand(0)))).transpose()
    }
}
