//! Expressions that are made of others: the functions that equations have too, choices of conditions, and comparisons of choices.
//!
//! They become what they say, so that proofs, ranges of keys and backends know nothing of them.

use super::{BinaryOp, Expr, Func};

/// A function by what it is made of; `whole` where a whole number gives a whole one.
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
    DerivedFunction::new("relu", 1, [true, false], |x| call(Func::Max, [x[0].clone(), Expr::Int(0)])),
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

fn abs(x: &Expr) -> Expr {
    call(Func::Max, [x.clone(), negative(x)])
}

fn sign(x: &Expr) -> Expr {
    let compared = |op| both(op, x.clone(), Expr::Int(0));
    let below = call(Func::When, [compared(BinaryOp::Lt), Expr::Int(-1), Expr::Int(0)]);
    call(Func::When, [compared(BinaryOp::Gt), Expr::Int(1), below])
}

/// `log(1 + exp(x))` without overflow.
fn softplus(x: &Expr) -> Expr {
    let rest = call(Func::Exp, [negative(&abs(x))]);
    let log = call(Func::Ln, [both(BinaryOp::Add, Expr::Float(1.0), rest)]);
    both(BinaryOp::Add, call(Func::Max, [x.clone(), Expr::Int(0)]), log)
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
    match comparison.split_choice() {
        Some((c, x, y)) if size <= most => either(&c, lifted(x, 2 * size, most), lifted(y, 2 * size, most)),
        Some(_) => comparison,
        None => two_sided(comparison),
    }
}

/// `abs(x) <= r` as `x <= r and -x <= r`: two ends of a range.
fn two_sided(comparison: Expr) -> Expr {
    let Expr::Binary(op, a, b) = &comparison else { return comparison };
    let (op, x, other) = match (inside_abs(a), inside_abs(b)) {
        (Some(x), None) => (*op, x, b),
        (None, Some(x)) => (op.mirrored(), x, a),
        _ => return comparison,
    };
    let one = |x: Expr| both(op, x, (**other).clone());
    match op {
        BinaryOp::Lt | BinaryOp::Le => both(BinaryOp::And, one(x.clone()), one(negative(x))),
        BinaryOp::Gt | BinaryOp::Ge => both(BinaryOp::Or, one(x.clone()), one(negative(x))),
        _ => comparison,
    }
}

/// The x of `abs(x)`.
fn inside_abs(expr: &Expr) -> Option<&Expr> {
    let Expr::Call(Func::Max, args) = expr else { return None };
    match &args[..] {
        [x, Expr::Neg(y)] if **y == *x => Some(x),
        _ => None,
    }
}
