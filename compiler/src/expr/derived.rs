//! Expressions that are made of others: the functions that equations have too, choices of conditions, and comparisons of choices.
//!
//! They become what they say, so that proofs, ranges of keys and backends know nothing of them.

use super::{BinaryOp, Expr, Func};

/// A function that is made of others; `whole` if whole numbers give a whole one.
pub(crate) struct DerivedFunction {
    pub(crate) name: &'static str,
    pub(crate) arity: usize,
    pub(crate) whole: bool,
    /// Whether an operand stands in it more than once.
    pub(crate) repeats: bool,
    pub(crate) make: fn(&[Expr]) -> Expr,
}

impl DerivedFunction {
    const fn new(name: &'static str, arity: usize, [whole, repeats]: [bool; 2], make: fn(&[Expr]) -> Expr) -> Self {
        Self { name, arity, whole, repeats, make }
    }
}

/// The functions of equations that are made of others here; [`crate::ir::pointwise`] has what they compute.
pub(crate) const DERIVED: [DerivedFunction; 7] = [
    DerivedFunction::new("abs", 1, [true, true], |x| abs(&x[0])),
    DerivedFunction::new("sign", 1, [true, true], |x| sign(&x[0])),
    DerivedFunction::new("relu", 1, [true, true], |x| relu(&x[0])),
    DerivedFunction::new("rsqrt", 1, [false, false], |x| one_over(call(Func::Sqrt, [x[0].clone()]))),
    DerivedFunction::new("softplus", 1, [false, true], |x| softplus(&x[0])),
    DerivedFunction::new("silu", 1, [false, true], |x| {
        both(BinaryOp::Mul, x[0].clone(), call(Func::Sigmoid, [x[0].clone()]))
    }),
    DerivedFunction::new("lerp", 3, [false, true], |x| lerp(&x[0], &x[1], &x[2])),
];

/// The names of functions that are made of others.
pub fn derived() -> impl Iterator<Item = &'static str> {
    DERIVED.iter().map(|function| function.name)
}

fn both(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    Expr::Binary(op, Box::new(a), Box::new(b))
}

fn call<const N: usize>(func: Func, args: [Expr; N]) -> Expr {
    Expr::Call(func, args.into())
}

fn negative(x: &Expr) -> Expr {
    Expr::Neg(Box::new(x.clone()))
}

fn not(x: &Expr) -> Expr {
    Expr::Not(Box::new(x.clone()))
}

fn one_over(x: Expr) -> Expr {
    both(BinaryOp::Div, Expr::Float(1.0), x)
}

fn larger(x: &Expr, other: Expr) -> Expr {
    call(Func::Max, [x.clone(), other])
}

/// `above` for a number above 0, `below` for one below, and 0 for 0.
fn by_sign(x: &Expr, above: Expr, below: Expr) -> Expr {
    let compared = |op| both(op, x.clone(), Expr::Int(0));
    let other = call(Func::When, [compared(BinaryOp::Lt), below, Expr::Int(0)]);
    call(Func::When, [compared(BinaryOp::Gt), above, other])
}

/// The slope at 0 is 0, as in equations.
fn abs(x: &Expr) -> Expr {
    if x.is_whole() { larger(x, negative(x)) } else { by_sign(x, x.clone(), negative(x)) }
}

fn sign(x: &Expr) -> Expr {
    by_sign(x, Expr::Int(1), Expr::Int(-1))
}

/// The slope at 0 is 0, as in equations.
fn relu(x: &Expr) -> Expr {
    match x.is_whole() {
        true => larger(x, Expr::Int(0)),
        false => call(Func::When, [both(BinaryOp::Gt, x.clone(), Expr::Int(0)), x.clone(), Expr::Int(0)]),
    }
}

/// `log(1 + exp(x))` without overflow. Both larger numbers are the first one at 0, so that the slopes add up to that of the function.
fn softplus(x: &Expr) -> Expr {
    let rest = call(Func::Exp, [negative(&larger(x, negative(x)))]);
    let log = call(Func::Ln, [both(BinaryOp::Add, Expr::Float(1.0), rest)]);
    both(BinaryOp::Add, larger(x, Expr::Int(0)), log)
}

fn lerp(t: &Expr, a: &Expr, b: &Expr) -> Expr {
    let rest = both(BinaryOp::Sub, Expr::Float(1.0), t.clone());
    both(BinaryOp::Add, both(BinaryOp::Mul, t.clone(), a.clone()), both(BinaryOp::Mul, rest, b.clone()))
}

/// `a` where the condition holds, else `b`, of conditions.
pub(crate) fn either(condition: &Expr, a: Expr, b: Expr) -> Expr {
    both(BinaryOp::Or, both(BinaryOp::And, condition.clone(), a), both(BinaryOp::And, not(condition), b))
}

/// A comparison of choices as a choice of comparisons, if it has at most so many parts, and one of an absolute value as two.
pub(crate) fn lifted(comparison: Expr, size: usize, most: usize) -> Expr {
    let comparison = match two_sided(comparison) {
        Ok(both) => return both,
        Err(comparison) => comparison,
    };
    match comparison.split_choice() {
        Some((c, x, y)) if size <= most => either(&c, lifted(x, 2 * size, most), lifted(y, 2 * size, most)),
        _ => comparison,
    }
}

/// `abs(x) <= r` as `x <= r and -x <= r`: two ends of a range. Any other comparison, and one that holds further choices, is an error.
fn two_sided(comparison: Expr) -> Result<Expr, Expr> {
    let Expr::Binary(op, a, b) = &comparison else { return Err(comparison) };
    let (op, x, other) = match (inside_abs(a), inside_abs(b)) {
        (Some(x), None) => (*op, x, b),
        (None, Some(x)) => (op.mirrored(), x, a),
        _ => return Err(comparison),
    };
    if [x, other].iter().any(|part| part.split_choice().is_some()) {
        return Err(comparison);
    }
    let one = |x: Expr| both(op, x, (**other).clone());
    match op {
        BinaryOp::Lt | BinaryOp::Le => Ok(both(BinaryOp::And, one(x.clone()), one(negative(x)))),
        BinaryOp::Gt | BinaryOp::Ge => Ok(both(BinaryOp::Or, one(x.clone()), one(negative(x)))),
        _ => Err(comparison),
    }
}

/// The x of `abs(x)`.
fn inside_abs(expr: &Expr) -> Option<&Expr> {
    let Expr::Call(func @ (Func::Max | Func::When), args) = expr else { return None };
    let x = if *func == Func::Max { &args[0] } else { &args[1] };
    (abs(x) == *expr).then_some(x)
}
