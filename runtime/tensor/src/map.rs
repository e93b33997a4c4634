//! Pointwise functions as operators of Candle: what the table of the compiler says in other words.

use candle_core::{D, DType, Result as Candle, Tensor};
use rtc_compiler::ir::pointwise::{NumberSource, Pointwise, PointwiseSteps, Scalar};
use rtc_kernel::pointwise::{FunctionArgument, apply as apply_on_host};

/// What a function is given.
#[derive(Clone, Debug)]
enum MapOperand {
    Each(Tensor),
    All(f64),
}

/// The results of a map on operands of one shape.
pub(crate) fn map(results: &[Scalar], operands: &[Tensor]) -> Candle<Vec<Tensor>> {
    let steps = PointwiseSteps::of(results);
    let mut made: Vec<Tensor> = vec![];
    let like = operands[0].clone();
    let given = |source: &NumberSource, made: &[Tensor]| match source {
        NumberSource::Operand(n) => MapOperand::Each(operands[*n].clone()),
        NumberSource::Number(x) => MapOperand::All(*x),
        NumberSource::Step(n) => MapOperand::Each(made[*n].clone()),
    };
    for step in &steps.steps {
        let args: Vec<MapOperand> = step.args.iter().map(|source| given(source, &made)).collect();
        made.push(apply(step.func, &args, &like)?);
    }
    steps.results.iter().map(|source| given(source, &made).spread(&like)).collect()
}

impl MapOperand {
    /// The number in every place.
    fn spread(&self, like: &Tensor) -> Candle<Tensor> {
        match self {
            Self::Each(x) => Ok(x.clone()),
            Self::All(x) => full(*x, like),
        }
    }
}

fn full(x: f64, like: &Tensor) -> Candle<Tensor> {
    Tensor::full(x, like.shape(), &candle_core::Device::Cpu)?.to_dtype(like.dtype())?.to_device(like.device())
}

/// `yes` where the flags are not 0, else `no`.
fn pick(flags: &Tensor, yes: &Tensor, no: &Tensor) -> Candle<Tensor> {
    debug_assert_eq!(flags.dtype(), DType::U8);
    flags.where_cond(yes, no)
}

/// `share` of a cotangent: 0 where the cotangent is.
fn chained(dy: &Tensor, share: &Tensor) -> Candle<Tensor> {
    let zeros = dy.zeros_like()?;
    pick(&dy.eq(&zeros)?, &zeros, share)
}

/// `1 / (1 + exp(-x))`
fn sigmoid(x: &Tensor) -> Candle<Tensor> {
    (x.neg()?.exp()? + 1.0)?.recip()
}

/// `b` where `a > 0`, `c` where it is not, NaN where nobody knows.
fn choose(a: &Tensor, b: &Tensor, c: &Tensor) -> Candle<Tensor> {
    let zeros = a.zeros_like()?;
    pick(&a.gt(&zeros)?, b, &pick(&a.le(&zeros)?, c, a)?)
}

/// A function of two numbers place by place, by the kernels of the processor.
fn on_host(func: Pointwise, a: &Tensor, b: &Tensor) -> Candle<Tensor> {
    let numbers = |x: &Tensor| x.flatten_all()?.to_dtype(DType::F64)?.to_vec1::<f64>();
    let (own, other) = (numbers(a)?, numbers(b)?);
    let mut y = vec![0.0; own.len()];
    apply_on_host(
        func,
        [FunctionArgument::Each(&own), FunctionArgument::Each(&other), FunctionArgument::All(0.0)],
        &mut y,
    );
    Tensor::from_vec(y, a.shape(), &candle_core::Device::Cpu)?.to_dtype(a.dtype())?.to_device(a.device())
}

/// The normal distribution function.
fn normal(x: &Tensor) -> Candle<Tensor> {
    ((x * std::f64::consts::FRAC_1_SQRT_2)?.erf()? * 0.5)? + 0.5
}

/// `sqrt(8 / pi)` and the cube of `gelu_tanh`.
const TANH: (f64, f64) = (1.595_769_121_605_731, 0.044_715);

/// `2 z`, whose sigmoid stands for the normal distribution function.
fn twice(x: &Tensor) -> Candle<Tensor> {
    let cube = (x.sqr()? * x)?;
    ((cube * TANH.1)? + x)? * TANH.0
}

/// `func` place by place.
fn apply(func: Pointwise, args: &[MapOperand], like: &Tensor) -> Candle<Tensor> {
    // A number beside a tensor needs no tensor of its own.
    match (func, args) {
        (Pointwise::Add, [MapOperand::Each(a), MapOperand::All(b)] | [MapOperand::All(b), MapOperand::Each(a)]) => {
            return a + *b;
        }
        (Pointwise::Sub, [MapOperand::Each(a), MapOperand::All(b)]) => return a - *b,
        (Pointwise::Mul, [MapOperand::Each(a), MapOperand::All(b)] | [MapOperand::All(b), MapOperand::Each(a)]) => {
            return a * *b;
        }
        _ => {}
    }
    let args = args.iter().map(|arg| arg.spread(like)).collect::<Candle<Vec<_>>>()?;
    let a = &args[0];
    let (b, c) = (args.get(1).unwrap_or(a), args.get(2).unwrap_or(a));
    let (zeros, ones) = (a.zeros_like()?, a.ones_like()?);
    match func {
        Pointwise::Add => a + b,
        Pointwise::Sub => a - b,
        Pointwise::Mul => a * b,
        Pointwise::Div => a / b,
        Pointwise::Neg => a.neg(),
        Pointwise::Abs => a.abs(),
        Pointwise::Floor => a.floor(),
        Pointwise::Sign => {
            let rest = pick(&a.eq(&zeros)?, &zeros, a)?;
            pick(&a.gt(&zeros)?, &ones, &pick(&a.lt(&zeros)?, &ones.neg()?, &rest)?)
        }
        Pointwise::Maximum => pick(&a.gt(b)?, a, &pick(&b.ge(a)?, b, &(a + b)?)?),
        Pointwise::Minimum => pick(&a.lt(b)?, a, &pick(&b.le(a)?, b, &(a + b)?)?),
        Pointwise::Less => pick(&a.lt(b)?, &ones, &pick(&a.ge(b)?, &zeros, &(a + b)?)?),
        Pointwise::Equal => pick(&a.eq(b)?, &ones, &pick(&a.lt(b)?, &zeros, &pick(&a.gt(b)?, &zeros, &(a + b)?)?)?),
        Pointwise::Within => pick(&a.abs()?.le(b)?, a, &full(f64::NAN, a)?),
        // Candle has powers by logarithms, which are not exact and have no negative bases, and no such logarithm.
        Pointwise::Pow | Pointwise::LogUp => on_host(func, a, b),
        Pointwise::Choose => choose(a, b, c),
        Pointwise::Relu => pick(&a.lt(&zeros)?, &zeros, a),
        Pointwise::IfPositive => chained(b, &choose(a, b, &zeros)?),
        Pointwise::ChainMul => chained(a, &(a * b)?),
        Pointwise::ChainDiv => chained(a, &(a / b)?),
        // 0 times what is not finite is NaN.
        Pointwise::Finite => pick(&(a * 0.0)?.eq(&zeros)?, a, &zeros),
        Pointwise::Exp => a.exp(),
        Pointwise::Log => a.log(),
        Pointwise::Sqrt => a.sqrt(),
        Pointwise::Rsqrt => a.sqrt()?.recip(),
        Pointwise::Softplus => {
            // As the processor has it: what `1 + t` rounds off is given back.
            let t = a.abs()?.neg()?.exp()?;
            let u = (&t + 1.0)?;
            let lost = ((&t - (&u - 1.0)?)? / &u)?;
            pick(&a.lt(&zeros)?, &zeros, a)? + (u.log()? + lost)?
        }
        Pointwise::Sigmoid => sigmoid(a),
        Pointwise::Silu => a * sigmoid(a)?,
        Pointwise::LogisticSlope => chained(a, &((a * b)? * (&ones - b)?)?),
        Pointwise::Tanh => a.tanh(),
        Pointwise::Gelu => a * normal(a)?,
        Pointwise::GeluSlope => {
            const DENSITY_AT_ZERO: f64 = 0.398_942_280_401_432_7;
            let density = ((a.sqr()? * -0.5)?.exp()? * DENSITY_AT_ZERO)?;
            (a * density)? + normal(a)?
        }
        Pointwise::GeluTanh => a * sigmoid(&twice(a)?)?,
        Pointwise::GeluTanhSlope => {
            let s = sigmoid(&twice(a)?)?;
            let slope = (((a.sqr()? * (3.0 * TANH.1))? + 1.0)? * TANH.0)?;
            ((a * &s)? * ((&ones - &s)? * slope)?)? + s
        }
        Pointwise::Lerp => (a * b)? + ((&ones - a)? * c)?,
        Pointwise::MulDifference => chained(a, &(a * (b - c)?)?),
    }
}

/// Softmax over the last axis.
pub(crate) fn softmax(x: &Tensor) -> Candle<Tensor> {
    let e = x.broadcast_sub(&x.max_keepdim(D::Minus1)?)?.exp()?;
    e.broadcast_div(&e.sum_keepdim(D::Minus1)?)
}

/// The gradient of [`softmax`], from its result.
pub(crate) fn softmax_grad(y: &Tensor, dy: &Tensor) -> Candle<Tensor> {
    let along = (y * dy)?.sum_keepdim(D::Minus1)?;
    y * dy.broadcast_sub(&along)?
}
