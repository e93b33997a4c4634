//! Pointwise functions, and the expressions over them that a `map` computes for every number of its operands.
//!
//! A function is one row of `pointwise_functions`. Everything else follows from the row: the text form, the gradient, the
//! cost, the loop of the CPU (the runtime expands the same table), the kernel of a GPU, and the exported models.
//!
//! Operands of a map are called `a`, `b`, `c`, ... in the order of the node. A map with several results has the
//! expression `tuple(..)`. Expressions are evaluated step by step, equal parts once ([`PointwiseSteps`]).

use super::attr;
use super::attribute::{self, Attrs};
use super::graph::{Node, Value};
use super::ops::Op;
use super::types::Attr;

/// The table, as an argument for the macro `$with`. A row gives the name in the text form and in Rust, the operands, the
/// operations that it counts for, its slopes, its value on the CPU (numbers of a type `T: Real`), in CUDA C, in PyTorch, and
/// as operators of ONNX.
///
/// No row swallows NaN: what is NaN in an operand is NaN in the result, unless the result does not depend on that operand.
///
/// A slope is the share of the cotangent `dy` that an operand gets; `y` is the result. Functions without slopes come from
/// slopes of others: a graph is differentiated once. What occurs in slopes only is never exported.
///
/// A share is 0 where `dy` is 0, also where the slope is infinite or NaN: a branch that a choice does not take has no gradient. So every
/// product of `dy` with a number of the forward run is a `chain_mul` or a `chain_div`.
#[macro_export]
macro_rules! pointwise_functions {
    ($with:ident) => {
        $with! {
            /// `a + b`
            add = Add (a, b) 1, ["dy", "dy"], a + b, "a + b", "a + b", "Add(a, b)";
            /// `a - b`
            sub = Sub (a, b) 1, ["dy", "neg(dy)"], a - b, "a - b", "a - b", "Sub(a, b)";
            /// `a b`
            mul = Mul (a, b) 1, ["chain_mul(dy, b)", "chain_mul(dy, a)"], a * b, "a * b", "a * b", "Mul(a, b)";
            /// `a / b`
            div = Div (a, b) 1, ["chain_div(dy, b)", "neg(chain_mul(chain_div(dy, b), y))"], a / b, "a / b", "a / b", "Div(a, b)";
            /// `-a`
            neg = Neg (a) 1, ["neg(dy)"], -a, "-a", "-a", "Neg(a)";
            /// The absolute value; NaN stays NaN.
            abs = Abs (a) 1, ["chain_mul(dy, sign(a))"], a.abs(), "absolute(a)", "a.abs()", "Abs(a)";
            /// 1, 0 or -1, as `a` is positive, zero or negative; NaN stays NaN.
            sign = Sign (a) 1, ["0.0"], sign_of(a), "a > 0 ? (real)1 : a < 0 ? (real)-1 : a == 0 ? (real)0 : a", "a.sign()", "Sign(a)";
            /// The largest whole number that is not above `a`; NaN stays NaN.
            floor = Floor (a) 1, ["0.0"], a.floor(), "rounded_down(a)", "a.floor()", "Floor(a)";
            /// The larger of two numbers; NaN where either is NaN.
            maximum = Maximum (a, b) 1, ["if_positive(sub(a, b), dy)", "sub(dy, if_positive(sub(a, b), dy))"],
                maximum_of(a, b), "a > b ? a : b >= a ? b : a + b", "torch.maximum(a, b)", "Max(a, b)";
            /// The smaller of two numbers; NaN where either is NaN.
            minimum = Minimum (a, b) 1, ["if_positive(sub(b, a), dy)", "sub(dy, if_positive(sub(b, a), dy))"],
                minimum_of(a, b), "a < b ? a : b <= a ? b : a + b", "torch.minimum(a, b)", "Min(a, b)";
            /// 1 where `a < b`, else 0; NaN where either is NaN.
            less = Less (a, b) 1, ["0.0", "0.0"], less_of(a, b), "a < b ? (real)1 : a >= b ? (real)0 : a + b",
                "less(a, b)", "Where(Less(a, b), 1.0, Where(LessOrEqual(b, a), 0.0, Add(a, b)))";
            /// 1 where `a == b`, else 0; NaN where either is NaN.
            equal = Equal (a, b) 1, ["0.0", "0.0"], equal_of(a, b), "a == b ? (real)1 : a < b || b < a ? (real)0 : a + b",
                "equal(a, b)", "Where(Equal(a, b), 1.0, Where(Less(a, b), 0.0, Where(Less(b, a), 0.0, Add(a, b))))";
            /// `a` where its size is at most `b`, else NaN.
            within = Within (a, b) 1, ["dy", "0.0"], within_of(a, b), "absolute(a) <= b ? a : (real)NOT_A_NUMBER",
                "within(a, b)", "Where(LessOrEqual(Abs(a), b), a, Div(Sub(b, b), Sub(b, b)))";
            /// `b` where `a > 0`, else `c`; NaN where `a` is NaN.
            choose = Choose (a, b, c) 1, ["0.0", "if_positive(a, dy)", "sub(dy, if_positive(a, dy))"],
                choose_of(a, b, c), "a > 0 ? b : a <= 0 ? c : a", "choose(a, b, c)", "Where(Greater(a, 0.0), b, Where(LessOrEqual(a, 0.0), c, a))";
            /// `max(a, 0)`; NaN stays NaN.
            relu = Relu (a) 1, ["if_positive(a, dy)"], relu_of(a), "a < 0 ? (real)0 : a", "F.relu(a)", "Relu(a)";
            /// `b` where `a > 0`, else 0; NaN where `a` is NaN and `b` is not 0.
            if_positive = IfPositive (a, b) 1, ["0.0", "if_positive(a, dy)"],
                chained(b, choose_of(a, b, T::ZERO)), "b == 0 ? (real)0 : a > 0 ? b : a <= 0 ? (real)0 : a", "", "";
            /// A cotangent `a` times a slope `b`: 0 where `a` is 0, whatever `b` is.
            chain_mul = ChainMul (a, b) 1, [], chained(a, a * b), "a == 0 ? (real)0 : a * b", "", "";
            /// A cotangent `a` over `b`: 0 where `a` is 0, whatever `b` is.
            chain_div = ChainDiv (a, b) 1, [], chained(a, a / b), "a == 0 ? (real)0 : a / b", "", "";
            /// `a` where it is a finite number, else 0.
            finite = Finite (a) 1, [], finite_of(a), "a - a == 0 ? a : (real)0", "", "";
            /// `e^a`
            exp = Exp (a) 10, ["chain_mul(dy, y)"], a.exp(), "exponential(a)", "a.exp()", "Exp(a)";
            /// The natural logarithm; minus infinity for 0, NaN for negative numbers and NaN.
            log = Log (a) 10, ["chain_div(dy, a)"], a.log(), "logarithm(a)", "a.log()", "Log(a)";
            /// The square root; NaN for negative numbers and NaN.
            sqrt = Sqrt (a) 10, ["chain_div(dy, mul(2.0, y))"], a.sqrt(), "root(a)", "a.sqrt()", "Sqrt(a)";
            /// `1 / sqrt(a)`; infinity for 0, NaN for negative numbers and NaN.
            rsqrt = Rsqrt (a) 10, ["chain_mul(mul(-0.5, dy), mul(y, mul(y, y)))"], T::ONE / a.sqrt(), "(real)1 / root(a)",
                "a.rsqrt()", "Div(1.0, Sqrt(a))";
            /// `a` to the power `b`; NaN where either is NaN.
            pow = Pow (a, b) 20, ["chain_mul(dy, mul(b, pow(a, sub(b, 1.0))))", "if_positive(a, chain_mul(dy, mul(y, log(a))))"],
                pow_of(a, b), "a == a && b == b ? raised(a, b) : a + b", "power(a, b)", "Where(Equal(a, a), Where(Equal(b, b), Pow(a, b), b), a)";
            /// The smallest whole number `k` with `b^k >= a`; NaN where `b` is below 2.
            log_up = LogUp (a, b) 20, ["0.0", "0.0"], log_up_of(a, b), "whole_logarithm(a, b)", "log_up(a, b)", "";
            /// `log(1 + exp(a))`, without overflow; NaN stays NaN.
            softplus = Softplus (a) 20, ["chain_mul(dy, sigmoid(a))"], softplus_of(a), "softplus(a)", "F.softplus(a)", "Softplus(a)";
            /// `1 / (1 + exp(-a))`
            sigmoid = Sigmoid (a) 10, ["logistic_slope(dy, y)"], a.sigmoid(), "sigmoid(a)", "a.sigmoid()", "Sigmoid(a)";
            /// `a sigmoid(a)`
            silu = Silu (a) 10, ["chain_mul(dy, mul(sigmoid(a), add(1.0, mul(a, sub(1.0, sigmoid(a))))))"], a * a.sigmoid(),
                "a * sigmoid(a)", "F.silu(a)", "Mul(a, Sigmoid(a))";
            /// `a b (1 - b)`; 0 where `a` is 0, whatever `b` is.
            logistic_slope = LogisticSlope (a, b) 3, [], chained(a, a * b * (T::ONE - b)),
                "a == 0 ? (real)0 : a * b * ((real)1 - b)", "", "";
            /// The hyperbolic tangent, `2 sigmoid(2 a) - 1`.
            tanh = Tanh (a) 10, ["chain_mul(dy, sub(1.0, mul(y, y)))"], tanh_of(a), "hyperbolic_tangent(a)", "a.tanh()", "Tanh(a)";
            /// `a Phi(a)` with the exact normal distribution function.
            gelu = Gelu (a) 10, ["chain_mul(dy, gelu_slope(a))"], gelu_of(a), "gelu(a)", "F.gelu(a)",
                "Mul(Mul(a, Add(Erf(Mul(a, 0.7071067811865476)), 1.0)), 0.5)";
            /// `Phi(a) + a phi(a)`
            gelu_slope = GeluSlope (a) 10, [], gelu_slope_of(a), "gelu_slope(a)", "", "";
            /// `a sigmoid(2 z)` with `z = sqrt(2 / pi) (a + 0.044715 a^3)`: `gelu` as it is approximated with tanh.
            gelu_tanh = GeluTanh (a) 10, ["chain_mul(dy, gelu_tanh_slope(a))"], gelu_tanh_of(a), "gelu_tanh(a)", "F.gelu(a, approximate=\"tanh\")",
                "Div(a, Add(Exp(Mul(Mul(a, Add(Mul(Mul(a, a), 0.044715), 1.0)), -1.5957691216057308)), 1.0))";
            /// The slope of `gelu_tanh`.
            gelu_tanh_slope = GeluTanhSlope (a) 10, [], gelu_tanh_slope_of(a), "gelu_tanh_slope(a)", "", "";
            /// `a b + (1 - a) c`
            lerp = Lerp (a, b, c) 4, ["mul_difference(dy, b, c)", "chain_mul(dy, a)", "chain_mul(dy, sub(1.0, a))"],
                a * b + (T::ONE - a) * c, "a * b + ((real)1 - a) * c", "lerp(a, b, c)", "Add(Mul(a, b), Mul(Sub(1.0, a), c))";
            /// `a (b - c)`; 0 where `a` is 0, whatever the others are.
            mul_difference = MulDifference (a, b, c) 2, [], chained(a, a * (b - c)), "a == 0 ? (real)0 : a * (b - c)", "", "";
        }
    };
}

/// The row of a function.
#[derive(Debug)]
pub struct PointwiseDef {
    /// Name in the text form.
    pub name: &'static str,
    /// What it computes.
    pub doc: &'static str,
    /// Number of operands.
    pub arity: usize,
    /// Operations that it counts for.
    pub cost: f64,
    /// The share of the cotangent that each operand gets, in the text form.
    pub slopes: &'static [&'static str],
    /// CUDA C over `a`, `b`, `c`.
    pub cuda: &'static str,
    /// Python over `a`, `b`, `c`; empty where only backward runs need the function.
    pub torch: &'static str,
    /// Operators of ONNX over `a`, `b`, `c`; empty where only backward runs need the function.
    pub onnx: &'static str,
}

macro_rules! functions {
    ($(
        #[doc = $doc:literal]
        $text:ident = $name:ident ($($operand:ident),*) $cost:literal, [$($slope:literal),*],
            $value:expr, $cuda:literal, $torch:literal, $onnx:literal;
    )*) => {
        /// A function of single numbers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Pointwise { $(#[doc = $doc] $name,)* }

        /// Name, number of operands and PyTorch text of every function.
        const ROWS: &[(&str, usize, &str)] = &[$((stringify!($text), [$(stringify!($operand)),*].len(), $torch)),*];

        impl Pointwise {
            /// Every function, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The row of the table.
            pub fn def(self) -> &'static PointwiseDef {
                match self {
                    $(Self::$name => {
                        const DEF: PointwiseDef = PointwiseDef {
                            name: stringify!($text),
                            doc: $doc.trim_ascii(),
                            arity: [$(stringify!($operand)),*].len(),
                            cost: $cost as f64,
                            slopes: &[$($slope),*],
                            cuda: $cuda,
                            torch: $torch,
                            onnx: $onnx,
                        };
                        &DEF
                    })*
                }
            }
        }
    };
}

pointwise_functions!(functions);

/// Whether a function can stand between two layers: it has one operand, and forward runs use it.
const fn activates(row: usize) -> bool {
    let (_, arity, torch) = ROWS[row];
    arity == 1 && !torch.is_empty()
}

const fn activation_count() -> usize {
    let (mut row, mut count) = (0, 0);
    while row < ROWS.len() {
        count += activates(row) as usize;
        row += 1;
    }
    count
}

/// The names of the functions that can stand between two layers.
pub const ACTIVATIONS: [&str; activation_count()] = {
    let (mut names, mut row, mut n) = ([""; activation_count()], 0, 0);
    while row < ROWS.len() {
        if activates(row) {
            names[n] = ROWS[row].0;
            n += 1;
        }
        row += 1;
    }
    names
};

impl Pointwise {
    /// The function of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|func| func.def().name == name)
    }

    /// Whether it can stand between two layers: it has one operand, and forward runs use it.
    pub fn is_activation(self) -> bool {
        ACTIVATIONS.contains(&self.def().name)
    }

    /// Whether the result may not depend on one of the operands at all: a branch that is not taken.
    pub fn chooses(self) -> bool {
        matches!(self, Self::Choose | Self::IfPositive | Self::Maximum | Self::Minimum | Self::Relu)
    }

    /// Whether the result, or a slope, can be infinite or NaN where the operands are of usual size.
    pub fn overflows(self) -> bool {
        matches!(self, Self::Exp) || self.is_steep()
    }

    /// Whether a slope is infinite somewhere.
    pub fn is_steep(self) -> bool {
        matches!(self, Self::Div | Self::Log | Self::Sqrt | Self::Rsqrt | Self::Pow)
    }

    /// Whether its gradient is a product of the cotangent with numbers of the forward run.
    pub fn multiplies(self) -> bool {
        let products = [Self::ChainMul, Self::ChainDiv, Self::LogisticSlope, Self::MulDifference];
        self.def().slopes.iter().any(|slope| products.iter().any(|product| slope.contains(product.def().name)))
    }

    /// The function of the first operands of a map.
    pub fn of_operands(self) -> Scalar {
        Call(self, (0..self.def().arity).map(Operand).collect())
    }
}

/// A map has at most so many operands, and as many results.
pub const MOST: usize = 8;

/// The name of operand n of a map.
pub fn name(n: usize) -> String {
    char::from(b'a' + u8::try_from(n).map_or(25, |n| n.min(25))).to_string()
}

/// The operand of this name.
fn named(name: &str) -> Option<usize> {
    let &[letter @ b'a'..=b'z'] = name.as_bytes() else { return None };
    Some(usize::from(letter - b'a'))
}

/// An expression for one number of each operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// The number of an operand.
    Operand(usize),
    /// A constant.
    Number(f64),
    /// A function of expressions.
    Call(Pointwise, Vec<Scalar>),
}
use Scalar::{Call, Number, Operand};

impl Scalar {
    /// The function of these expressions, in its simplest form. Every rule keeps the bits of the result, but for the sign of
    /// a zero and for products of constants.
    pub fn call(func: Pointwise, args: Vec<Scalar>) -> Self {
        use Pointwise::{Abs, Add, ChainDiv, ChainMul, Choose, Div, Lerp, Less, Mul, MulDifference, Neg, Sub};
        let is = |x: &Scalar, number: f64| *x == Number(number);
        match (func, &args[..]) {
            (Add, [zero, x]) if is(zero, 0.0) => x.clone(),
            (Add | Sub, [x, zero]) if is(zero, 0.0) => x.clone(),
            (Mul, [one, x]) | (Mul | Div, [x, one]) if is(one, 1.0) => x.clone(),
            (Mul, [minus, x]) | (Mul, [x, minus]) if is(minus, -1.0) => Self::call(Neg, vec![x.clone()]),
            (Add | Sub | Mul | Div, [Number(x), Number(y)]) => {
                let number = match func {
                    Add => x + y,
                    Sub => x - y,
                    Mul => x * y,
                    _ => x / y,
                };
                // NaN is not equal to itself, so no form with it would ever be the simplest.
                if number.is_nan() { Call(func, args) } else { Number(number) }
            }
            (Neg, [Number(x)]) => Number(-x),
            (Abs, [Number(x)]) => Number(x.abs()),
            (Less, [Number(x), Number(y)]) => Number(if x < y { 1.0 } else { 0.0 }),
            (Choose, [Number(x), yes, no]) => {
                if *x > 0.0 {
                    yes.clone()
                } else {
                    no.clone()
                }
            }
            (Choose, [_, x, y]) if x == y => x.clone(),
            (Add, [x, Call(Neg, y)]) | (Add, [Call(Neg, y), x]) => Self::call(Sub, vec![x.clone(), y[0].clone()]),
            (Sub, [x, Call(Neg, y)]) => Self::call(Add, vec![x.clone(), y[0].clone()]),
            (Neg, [Call(Neg, x)]) => x[0].clone(),
            (Neg, [Call(Mul, xs)]) if matches!(xs[0], Number(_)) => {
                Self::call(Mul, vec![Self::call(Neg, vec![xs[0].clone()]), xs[1].clone()])
            }
            (Mul, [x, Number(y)]) => Self::call(Mul, vec![Number(*y), x.clone()]),
            (Mul, [Number(x), Call(Mul, ys)]) if matches!(ys[0], Number(_)) => {
                Self::call(Mul, vec![Self::call(Mul, vec![Number(*x), ys[0].clone()]), ys[1].clone()])
            }
            // `lerp(0, x, y)` is not y where x is infinite, nor `lerp(t, x, x)` always x: both products are rounded.
            (Lerp, [Number(t), Number(x), Number(y)]) => {
                let number = t * x + (1.0 - t) * y;
                if number.is_nan() { Call(func, args) } else { Number(number) }
            }
            (MulDifference, [one, x, y]) if is(one, 1.0) => Self::call(Sub, vec![x.clone(), y.clone()]),
            (MulDifference, [x, y, zero]) if is(zero, 0.0) => Self::call(ChainMul, vec![x.clone(), y.clone()]),
            (ChainMul | ChainDiv, [zero, _]) if is(zero, 0.0) => Number(0.0),
            (ChainMul, [Number(_), _]) => Self::call(Mul, args),
            (ChainMul, [_, Number(y)]) if y.is_finite() => Self::call(Mul, args),
            (ChainDiv, [Number(_), _]) => Self::call(Div, args),
            (ChainDiv, [_, Number(y)]) if y.is_finite() && *y != 0.0 => Self::call(Div, args),
            _ => Call(func, args),
        }
    }

    /// The expression with `operand(n)` in the place of operand n, in its simplest form.
    pub fn with(&self, operand: &impl Fn(usize) -> Scalar) -> Self {
        match self {
            Operand(n) => operand(*n),
            Number(_) => self.clone(),
            Call(func, args) => Self::call(*func, args.iter().map(|arg| arg.with(operand)).collect()),
        }
    }

    /// Calls `f` with every operand, in the order of the text form.
    pub fn visit(&self, f: &mut impl FnMut(usize)) {
        match self {
            Operand(n) => f(*n),
            Number(_) => {}
            Call(_, args) => args.iter().for_each(|arg| arg.visit(f)),
        }
    }

    /// Whether it has a function of this kind.
    pub fn has(&self, kind: fn(Pointwise) -> bool) -> bool {
        matches!(self, Call(func, args) if kind(*func) || args.iter().any(|arg| arg.has(kind)))
    }

    /// Its constants.
    pub fn numbers(&self) -> Vec<f64> {
        match self {
            Call(_, args) => args.iter().flat_map(Self::numbers).collect(),
            Operand(_) => vec![],
            Number(value) => vec![*value],
        }
    }

    /// Number of its functions, equal parts as often as they stand there.
    pub fn calls(&self) -> usize {
        match self {
            Operand(_) | Number(_) => 0,
            Call(_, args) => 1 + args.iter().map(Self::calls).sum::<usize>(),
        }
    }

    /// The expression of a prefix form over names.
    fn read(attr: &Attr, named: &impl Fn(&str) -> Option<Scalar>) -> Result<Self, String> {
        match attr {
            Attr::Float(x) if x.is_nan() => Err("a number that is none in an expression".to_owned()),
            Attr::Int(_) | Attr::Float(_) => Ok(Number(attr.float().unwrap_or_default())),
            Attr::Word(name) => named(name).ok_or_else(|| format!("there is no operand `{name}`")),
            Attr::Text(text) => Err(format!("a text `{text}` in an expression")),
            Attr::Call(name, args) => {
                let func = Pointwise::named(name).filter(|func| func.def().arity == args.len());
                let func = func.ok_or_else(|| format!("there is no function `{name}` of {} numbers", args.len()))?;
                Ok(Call(func, args.iter().map(|arg| Self::read(arg, named)).collect::<Result<_, _>>()?))
            }
        }
    }

    /// Adds to `shares` what the operands get of the cotangent `dy` of this expression; `known` gives the value that an
    /// expression has as a result already.
    fn differentiate(&self, dy: Scalar, known: &impl Fn(&Scalar) -> Option<Scalar>, shares: &mut [Option<Scalar>]) {
        match self {
            Number(_) => {}
            Operand(n) => {
                shares[*n] = Some(match shares[*n].take() {
                    Some(sum) => Self::call(Pointwise::Add, vec![sum, dy]),
                    None => dy,
                });
            }
            Call(func, args) => {
                let y = known(self).unwrap_or_else(|| self.clone());
                let named = |name: &str| match name {
                    "dy" => Some(dy.clone()),
                    "y" => Some(y.clone()),
                    _ => named(name).and_then(|n| args.get(n).cloned()),
                };
                for (slope, arg) in func.def().slopes.iter().zip(args) {
                    let slope = attr::parse(slope).and_then(|slope| Self::read(&slope, &named));
                    let share = slope.expect("the slopes of the table are expressions").with(&Operand);
                    if share != Number(0.0) {
                        arg.differentiate(share, known, shares);
                    }
                }
            }
        }
    }
}

impl From<&Scalar> for Attr {
    fn from(expr: &Scalar) -> Self {
        match expr {
            Operand(n) => Self::Word(name(*n)),
            Number(x) => Self::Float(*x),
            Call(func, args) => Self::call(func.def().name, args.iter().map(Self::from).collect::<Vec<_>>()),
        }
    }
}

/// The expression of each result of a map.
///
/// # Errors
/// One sentence where there is none, or where it is no expression over the names of operands.
pub fn results(attrs: &Attrs) -> Result<Vec<Scalar>, String> {
    read(attrs.find(attribute::F).ok_or("a map needs an expression")?)
}

/// The expressions that a text gives, as in the text form.
///
/// # Errors
/// As `results`.
pub fn parse(text: &str) -> Result<Vec<Scalar>, String> {
    read(&attr::parse(text)?)
}

fn read(attr: &Attr) -> Result<Vec<Scalar>, String> {
    let named = |name: &str| named(name).map(Operand);
    match attr {
        Attr::Call(name, parts) if name == "tuple" => parts.iter().map(|part| Scalar::read(part, &named)).collect(),
        attr => Ok(vec![Scalar::read(attr, &named)?]),
    }
}

/// The attributes of a map with these results.
pub fn attrs(results: &[Scalar]) -> Attrs {
    let parts: Vec<Attr> = results.iter().map(Attr::from).collect();
    match &parts[..] {
        [only] => Attrs::of(attribute::F, only),
        _ => Attrs::of(attribute::F, &Attr::call("tuple", parts)),
    }
}

/// Operands and attributes of a map with these results over `values`: the operands in the order of their first use, each
/// once. None are left where the simplest form of all results is a constant.
pub fn map(results: &[Scalar], values: &[Value]) -> (Vec<Value>, Attrs) {
    // Equal operands are one before they are counted: an expression over them may be simpler, and read fewer.
    let first = |n: usize| Operand(values.iter().position(|v| *v == values[n]).unwrap_or(n));
    let (mut results, mut before) = (results.to_vec(), vec![]);
    while results != before {
        before = results;
        results = before.iter().map(|expr| expr.with(&first)).collect();
    }
    let mut operands: Vec<Value> = vec![];
    results.iter().for_each(|expr| {
        expr.visit(&mut |n| {
            if !operands.contains(&values[n]) {
                operands.push(values[n]);
            }
        });
    });
    let place = |n: usize| Operand(operands.iter().position(|v| *v == values[n]).unwrap_or_default());
    let results: Vec<Scalar> = results.iter().map(|expr| expr.with(&place)).collect();
    (operands, attrs(&results))
}

/// The function that a node applies to its operands, if it does nothing else.
pub fn function(node: &Node) -> Option<Pointwise> {
    let Attr::Call(name, _) = node.find(attribute::F)? else { return None };
    Pointwise::named(name).filter(|func| node.attrs == attrs(&[func.of_operands()]))
}

/// The outermost function of a map with one result.
pub fn outermost(node: &Node) -> Option<Pointwise> {
    match (&results(&node.attrs).ok()?[..], node.op) {
        ([Call(func, _)], Op::Map) => Some(*func),
        _ => None,
    }
}

/// The gradients of the operands of a map: expressions over `operands`, `results` and the cotangents `dy` behind one another.
pub fn gradients(exprs: &[Scalar], operands: usize, dy: &[bool]) -> Vec<Option<Scalar>> {
    // What takes long is not computed again where it is a result.
    let known = |expr: &Scalar| {
        let n = exprs.iter().position(|known| known == expr)?;
        matches!(expr, Call(func, _) if func.def().cost >= LONG).then_some(Operand(operands + n))
    };
    let mut shares = vec![None; operands];
    for (n, expr) in exprs.iter().enumerate().filter(|(n, _)| dy[*n]) {
        expr.differentiate(Operand(operands + exprs.len() + n), &known, &mut shares);
    }
    shares
}

/// Operations from which on a function takes longer than reading its result from memory.
const LONG: f64 = 10.0;

/// The source of a number that a step reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NumberSource {
    /// An operand.
    Operand(usize),
    /// A constant.
    Number(f64),
    /// The result of a step before.
    Step(usize),
}

/// One function of a map.
#[derive(Clone, Debug, PartialEq)]
pub struct PointwiseStep {
    /// The function.
    pub func: Pointwise,
    /// What it takes.
    pub args: Vec<NumberSource>,
}

/// The expressions of a map, function by function, equal parts once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PointwiseSteps {
    /// The functions, each behind those that it needs.
    pub steps: Vec<PointwiseStep>,
    /// What each result is.
    pub results: Vec<NumberSource>,
}

impl PointwiseSteps {
    /// The steps of expressions.
    pub fn of(results: &[Scalar]) -> Self {
        let mut out = Self::default();
        out.results = results.iter().map(|expr| out.add(expr)).collect();
        out
    }

    fn add(&mut self, expr: &Scalar) -> NumberSource {
        match expr {
            Operand(n) => NumberSource::Operand(*n),
            Number(x) => NumberSource::Number(*x),
            Call(func, args) => {
                let step = PointwiseStep { func: *func, args: args.iter().map(|arg| self.add(arg)).collect() };
                let at = self.steps.iter().position(|known| *known == step);
                NumberSource::Step(at.unwrap_or_else(|| {
                    self.steps.push(step);
                    self.steps.len() - 1
                }))
            }
        }
    }

    /// Operations for one number of each operand.
    pub fn cost(&self) -> f64 {
        self.steps.iter().map(|step| step.func.def().cost).sum()
    }
}

/// The table of all functions as Markdown, for `docs/ops.md`.
pub fn markdown() -> String {
    let mut out = String::from("| function | operands | value |\n|---|---|---|\n");
    for func in Pointwise::ALL {
        let def = func.def();
        let operands: Vec<String> = (0..def.arity).map(name).collect();
        out += &format!("| `{}` | {} | {} |\n", def.name, operands.join(", "), def.doc);
    }
    out
}
