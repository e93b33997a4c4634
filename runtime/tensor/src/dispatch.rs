//! From a node to operators of Candle: the one exhaustive match over the op table.

use candle_core::{Result as Candle, Tensor};
use rtc_compiler::ir::attribute;
use rtc_compiler::ir::graph::Value;
use rtc_compiler::ir::ops::Op;
use rtc_compiler::plan::group::Group;
use rtc_compiler::plan::{Plan, Step};
use rtc_exec::machine::requirements::{given_input, known_labels, too_few_positions};
use rtc_exec::machine::value::Val;
use rtc_exec::node_context::NodeContext;
use rtc_exec::rows::BatchView;
use rtc_exec::{ExecutionFault, loops};
use rtc_kernel::Real;

use crate::exec::TensorExecutor;
use crate::map::{softmax, softmax_grad};
use crate::value::{TensorNumber, TensorValue};

/// What a step gives.
enum StepOutcome {
    /// Its results.
    Reals(Vec<Tensor>),
    /// The processor has to compute them.
    ByHost,
    /// They are in the table.
    Done,
}

impl From<Tensor> for StepOutcome {
    fn from(result: Tensor) -> Self {
        Self::Reals(vec![result])
    }
}

impl From<Option<Tensor>> for StepOutcome {
    fn from(result: Option<Tensor>) -> Self {
        result.map_or(Self::ByHost, Self::from)
    }
}

/// Why a step fails.
enum StepFault {
    Candle(candle_core::Error),
    Run(ExecutionFault),
}

impl From<candle_core::Error> for StepFault {
    fn from(error: candle_core::Error) -> Self {
        Self::Candle(error)
    }
}

impl From<ExecutionFault> for StepFault {
    fn from(fault: ExecutionFault) -> Self {
        Self::Run(fault)
    }
}

impl From<StepFault> for ExecutionFault {
    fn from(fault: StepFault) -> Self {
        match fault {
            StepFault::Candle(error) => failed(error),
            StepFault::Run(fault) => fault,
        }
    }
}

impl<T: TensorNumber> TensorExecutor<T> {
    /// Runs one step and puts its results into the table.
    pub(crate) fn execute(&mut self, plan: &Plan, step: &Step, view: &BatchView) -> Result<(), ExecutionFault> {
        let c = NodeContext { plan, step, node: plan.graph.node(step.node), view };
        match self.compute(&c, None)? {
            StepOutcome::Reals(results) => self.put_all(&c, results).map_err(failed),
            StepOutcome::ByHost => self.by_host(&c, None),
            StepOutcome::Done => Ok(()),
        }
    }

    /// Runs a step of a group, and puts its results into the table.
    pub(crate) fn by_unit(&mut self, plan: &Plan, step: &Step, group: &Group, view: &BatchView) {
        let c = NodeContext { plan, step, node: plan.graph.node(step.node), view };
        let put = match self.compute(&c, Some(group)) {
            Ok(StepOutcome::Reals(results)) => self.put_all(&c, results),
            Ok(StepOutcome::ByHost) => self.by_host(&c, Some(group)).map_err(candle_core::Error::wrap),
            Ok(StepOutcome::Done) => Ok(()),
            Err(StepFault::Candle(error)) => Err(error),
            Err(StepFault::Run(fault)) => Err(candle_core::Error::wrap(fault)),
        };
        if let Err(error) = put {
            self.note(&error);
            self.put_zeros(&c);
        }
    }

    /// What a step computes; `group` is the group that it stands in.
    fn compute(&mut self, c: &NodeContext<'_>, group: Option<&Group>) -> Result<StepOutcome, StepFault> {
        let this = &*self;
        let real = |n: usize| this.real(c.operand(n));
        let extent = |n: usize| c.view.extent(c.ty(c.node.results[n]));
        // Nothing of Candle is made of values without numbers.
        let is_empty = |value: &Value| c.ty(*value).is_real() && c.view.extent(c.ty(*value)) == 0;
        let any_empty = c.node.operands.iter().chain(&c.node.results).any(is_empty);
        Ok(match c.node.op {
            Op::Param | Op::Yield | Op::Save | Op::Return => StepOutcome::Done,
            Op::Recur | Op::Chunks | Op::Fold | Op::Beam | Op::Part | Op::Unwind => {
                loops::run(self, c.step, c.view)?;
                StepOutcome::Done
            }
            Op::Squeeze | Op::Unsqueeze | Op::Split | Op::Merge | Op::Detach => {
                let same = self.handle(c.operand(0));
                self.set(c.node.results[0], same);
                StepOutcome::Done
            }
            Op::Input => {
                let len = |val: &TensorValue<T>| match val {
                    Val::Real(x) => x.elem_count(),
                    Val::Index(x) => x.len(),
                    Val::Truth(_) | Val::Tape(_) => 0,
                };
                let val = given_input(&self.inputs, c.get(attribute::NAME), extent(0), len)?;
                self.set(c.node.results[0], val);
                StepOutcome::Done
            }
            Op::Accumulate => {
                let found = c.plan.parameters.iter().position(|own| own.name == c.get(attribute::PARAM));
                let numbers = real(0);
                if let Some(parameter) = found {
                    self.add_gradient(parameter, &numbers)?;
                }
                StepOutcome::Done
            }
            Op::DepthOf => {
                let depths = loops::depths(self, c.plan, c.step.node, c.view)?;
                let depths: Vec<T> = depths.iter().map(|depth| <T as Real>::from_f64(*depth as f64)).collect();
                self.uploaded(&depths).into()
            }
            _ if any_empty => StepOutcome::ByHost,

            Op::Full => this.filled(c.get(attribute::VALUE), extent(0))?.into(),
            Op::StepNumber => this.filled(f64::from(this.index(c.operand(0))[0]), extent(0))?.into(),
            Op::Embed => this.embed(c)?.into(),
            Op::EmbedGrad => this.embed_grad(c)?.into(),
            Op::Frame => this.frame(c)?.into(),
            Op::FrameGrad => StepOutcome::Reals(this.frame_grad(c)?),
            Op::Sum => this.pooled(c, false)?.into(),
            Op::Mean => this.pooled(c, true)?.into(),
            Op::BroadcastRows => this.broadcast_rows(c)?.into(),
            Op::Position => this.position(c)?.into(),
            Op::PositionGrad => this.position_grad(c)?.into(),
            Op::Shift => this.shift(c)?.into(),
            Op::BroadcastBatch => {
                let p = real(0);
                p.unsqueeze(0)?.broadcast_as((c.view.rows(), p.elem_count()))?.contiguous()?.flatten_all()?.into()
            }
            Op::SumBatch => this.as_units(&real(0), extent(0))?.sum(0)?.into(),
            Op::MulUnit => this.mul_unit(c, 0, 1)?.into(),
            Op::AddScaled => (real(0) + this.mul_unit(c, 1, 2)?)?.into(),
            Op::DotUnit => this.dot_unit(c)?.into(),
            Op::LinearGradWeight => this.linear_grad_weight(c)?.into(),
            Op::Matmul => {
                let [rows, inner, columns] = c.matrices();
                let side = c.node.find(attribute::TRANSPOSED);
                let turned = |x: Tensor, (m, n): (usize, usize), turn: bool| {
                    let batch = x.elem_count() / (m * n);
                    if turn { x.reshape((batch, n, m))?.transpose(1, 2) } else { x.reshape((batch, m, n)) }
                };
                let a = turned(real(0), (rows, inner), side == Some(attribute::Side::Left))?;
                let b = turned(real(1), (inner, columns), side == Some(attribute::Side::Right))?;
                a.broadcast_matmul(&b)?.into()
            }
            Op::Attention => this.attention(c)?.into(),
            Op::AttentionGrad => this.attention_grad(c)?.map_or(StepOutcome::ByHost, StepOutcome::Reals),

            Op::Prefix => this.prefix(c)?.into(),
            Op::Unprefix => this.parted(c, c.get(attribute::COUNT), true)?.into(),
            Op::PrefixGrad => this.parted(c, c.get(attribute::COUNT), false)?.into(),
            Op::AddPosition => match c.node.operands.get(1) {
                Some(table) => {
                    let axis = c.axis(0);
                    let longest = axis.before + (0..c.view.rows()).map(|row| axis.len(row)).max().unwrap_or(0);
                    // The processor refuses rows that are longer than the table.
                    match too_few_positions(longest, c.ty(*table)) {
                        Ok(()) => this.add_position(c, &this.real(*table))?.into(),
                        Err(_) => StepOutcome::ByHost,
                    }
                }
                None => StepOutcome::ByHost,
            },
            Op::AddPositionGrad => this.add_position_grad(c)?.into(),
            Op::MaskUnit => {
                let (x, zeros) = (real(0), real(0).zeros_like()?);
                let (yes, no) = if c.get(attribute::WHEN) { (&x, &zeros) } else { (&zeros, &x) };
                this.chosen(c, 0, yes, no)?.into()
            }
            Op::Select if c.ty(c.operand(1)).is_real() => this.chosen(c, 1, &real(1), &real(2))?.into(),
            Op::Average => this.average(c)?.into(),
            Op::AverageGrad => this.average_grad(c)?.into(),
            Op::CrossEntropyEach if this.knows_labels(c, 0) => this.cross_entropy_each(c)?.into(),
            Op::CrossEntropyEachGrad if this.knows_labels(c, 1) => this.cross_entropy_each_grad(c)?.into(),

            Op::Linear => this.linear(c)?.into(),
            Op::LinearGradInput => this.linear_grad_input(c)?.into(),
            Op::ColumnSum => this.matrix(c, 0)?.sum(0)?.into(),
            Op::Affine => this.affine(c)?.into(),
            Op::LayerNorm => this.layer_norm(c)?.into(),
            Op::LayerNormGrad => StepOutcome::Reals(this.layer_norm_grad(c)?),
            Op::RmsNorm => this.rms_norm(c)?.into(),
            Op::RmsNormGrad => StepOutcome::Reals(this.rms_norm_grad(c)?),
            Op::Map => StepOutcome::Reals(this.mapped(c)?),
            Op::Softmax if group.is_some() => softmax(&this.matrix(c, 0)?)?.into(),
            Op::SoftmaxGrad if group.is_some() => softmax_grad(&this.matrix(c, 0)?, &this.matrix(c, 1)?)?.into(),
            Op::Reduce => this.reduced(c)?.into(),
            Op::BroadcastChannels => this.broadcast_channels(c)?.into(),
            Op::Concat => Tensor::cat(&[this.matrix(c, 0)?, this.matrix(c, 1)?], 1)?.into(),
            Op::Slice => this.slice(c)?.into(),
            Op::Pad => this.pad(c)?.into(),
            Op::Dropout => this.dropped_out(c)?.into(),
            Op::Rotate => this.rotated(c)?.into(),

            // Rules with three values, lists that the host reads, and ops that go along rows one position after the other.
            Op::True | Op::And | Op::Any | Op::LongerThanOne | Op::HaltTest => StepOutcome::ByHost,
            Op::Select | Op::Top | Op::TopKeys => StepOutcome::ByHost,
            Op::CrossEntropyEach | Op::CrossEntropyEachGrad | Op::Right => StepOutcome::ByHost,
            Op::Positions | Op::Sinusoid | Op::SinusoidGrad | Op::PadRagged | Op::PadRaggedGrad => StepOutcome::ByHost,
            Op::Transpose | Op::TransposeBack | Op::Pair | Op::PairGrad => StepOutcome::ByHost,
            Op::SlotGet | Op::SlotSet => StepOutcome::ByHost,
            Op::Max | Op::MaxGrad | Op::Softmax | Op::SoftmaxGrad => StepOutcome::ByHost,
            Op::RunningSum | Op::Scan | Op::ScanGrad => StepOutcome::ByHost,
            Op::GeometricAttention | Op::GeometricAttentionGrad => StepOutcome::ByHost,
            Op::Neighbours | Op::NeighboursGrad => StepOutcome::ByHost,
            Op::ReduceMaxGrad | Op::Normal | Op::Uniform => StepOutcome::ByHost,
        })
    }

    /// Whether every label has a logit of its own; the processor refuses others, and takes single logits.
    fn knows_labels(&self, c: &NodeContext<'_>, logits: usize) -> bool {
        !c.is_binary(logits) && known_labels(self.index(c.operand(logits + 1)), c.last(logits)).is_ok()
    }

    fn filled(&self, x: f64, len: usize) -> Candle<Tensor> {
        Tensor::full(<T as Real>::from_f64(x), len, &self.device)
    }

    /// Puts results into the table, or adds them to the gradients of weights where the plan says so.
    pub(crate) fn put_all(&mut self, c: &NodeContext<'_>, results: Vec<Tensor>) -> Candle<()> {
        for (n, result) in results.into_iter().enumerate() {
            let result = result.flatten_all()?;
            match c.step.accumulates_into[n] {
                Some(parameter) => self.add_gradient(parameter, &result)?,
                None => self.set(c.node.results[n], TensorValue::Real(result)),
            }
        }
        Ok(())
    }

    /// Zeros in the place of results that Candle has failed to make; the run goes on, and ends with the failure.
    pub(crate) fn put_zeros(&mut self, c: &NodeContext<'_>) {
        for value in &c.node.results {
            let len = c.view.extent(c.ty(*value));
            let zeros = self.kept(Tensor::zeros(len, T::DTYPE, &self.device), len);
            self.set(*value, TensorValue::Real(zeros));
        }
    }

    /// Lets the processor run a step: operands go to the host, results come back.
    pub(crate) fn by_host(&mut self, c: &NodeContext<'_>, group: Option<&Group>) -> Result<(), ExecutionFault> {
        let on_host = |value: &Value| {
            let val = match self.handle(*value) {
                TensorValue::Real(x) => Val::real(self.host_numbers(&x)),
                TensorValue::Index(ids) => Val::Index(ids),
                TensorValue::Truth(truths) => Val::Truth(truths),
                TensorValue::Tape(_) => unreachable!("only loops read tapes"),
            };
            (*value, val)
        };
        let operands: Vec<(Value, Val<T>)> = c.node.operands.iter().map(on_host).collect();
        self.host.settings = self.settings;
        let results = self.host.alone(c.plan, c.step, group, c.view, operands)?;
        for (n, result) in results.into_iter().enumerate() {
            let value = match result {
                Some(Val::Real(numbers)) => TensorValue::Real(self.uploaded(&numbers)),
                Some(Val::Index(ids)) => TensorValue::Index(ids),
                Some(Val::Truth(truths)) => TensorValue::Truth(truths),
                Some(Val::Tape(_)) | None => continue,
            };
            match (c.step.accumulates_into[n], &value) {
                (Some(parameter), TensorValue::Real(numbers)) => {
                    self.add_gradient(parameter, numbers).map_err(failed)?;
                }
                _ => self.set(c.node.results[n], value),
            }
        }
        Ok(())
    }
}

fn failed(error: candle_core::Error) -> ExecutionFault {
    ExecutionFault::Device(error.to_string())
}
