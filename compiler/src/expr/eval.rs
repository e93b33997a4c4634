//! The value of an expression for given variables.

use thiserror::Error;

use super::learned::uses;
use super::range::{LARGEST_WHOLE, is_whole};
use super::{BinaryOp, Chance, Expr, Func, Lookup, Var};

/// The values of the variables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Env {
    /// Position of the query.
    pub i: i64,
    /// Position of the key.
    pub j: i64,
    /// Step of the depth recurrence, from 0.
    pub step: i64,
    /// Length of the row.
    pub length: i64,
    /// Attention head, from 0.
    pub head: i64,
    /// The depth given with the example, where there is one.
    pub given: Option<i64>,
}

/// A number or a truth value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScalarValue {
    /// An integer, at most [`LARGEST_WHOLE`] in size.
    Int(i64),
    /// A real number; always finite.
    Float(f64),
    /// `true` or `false`.
    Bool(bool),
}

/// A number: integers stay integers until they meet a real one.
#[derive(Clone, Copy)]
enum ScalarNumber {
    Int(i64),
    Float(f64),
}

/// Why an expression has no value.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum EvalError {
    /// `x / 0` or `x % 0`
    #[error("division by zero")]
    DivideByZero,
    /// An integer above [`LARGEST_WHOLE`] in size, or an infinite real number.
    #[error("the result is too large")]
    TooLarge,
    /// An integer to a negative power; the checker makes the base a real number where the exponent may be negative.
    #[error("an integer has no negative power; write the base with a point, as in `2.0`")]
    NegativePower,
    /// A negative number to a power that is not whole.
    #[error("a negative number has no power that is not whole")]
    NoRoot,
    /// A logarithm to a base below 2.
    #[error("the base of `log` must be at least 2")]
    BadBase,
    /// The logarithm of a number that is not positive.
    #[error("only a positive number has a logarithm")]
    BadLogarithm,
    /// An index of a learned table below 0 or behind its end.
    #[error("an index of `learn` lies outside the table")]
    OutsideTable,
    /// A boolean where a number is needed, or the other way round; the checker refuses such expressions.
    #[error("an operand is of the wrong kind")]
    WrongKind,
    /// A learned table has no value before training.
    #[error("a learned table has no fixed value")]
    Learned,
    /// A value of a position has no number without a row, and a score none without a query and a key.
    #[error("a value that is read at a position has no fixed number")]
    Read,
    /// A distribution with parameters that it can't have.
    #[error(
        "a distribution has no such parameters: means, deviations and ranges are positive, probabilities at most 1"
    )]
    BadParameters,
    /// `given` without an example.
    #[error("`given` has no value here")]
    NotGiven,
}

impl Env {
    /// The value of a variable.
    pub fn get(&self, var: Var) -> i64 {
        match var {
            Var::I => self.i,
            Var::J => self.j,
            Var::Step => self.step,
            Var::Length => self.length,
            Var::Head => self.head,
        }
    }
}

impl std::fmt::Display for ScalarValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Int(v) => write!(f, "{v}"),
            Self::Float(v) => write!(f, "{v:?}"),
            Self::Bool(v) => write!(f, "{v}"),
        }
    }
}

impl ScalarValue {
    /// The number as a real one.
    pub(crate) fn real(self) -> Result<f64, EvalError> {
        self.number().map(ScalarNumber::float)
    }

    fn number(self) -> Result<ScalarNumber, EvalError> {
        match self {
            Self::Int(v) => Ok(ScalarNumber::Int(v)),
            Self::Float(v) => Ok(ScalarNumber::Float(v)),
            Self::Bool(_) => Err(EvalError::WrongKind),
        }
    }

    pub(super) fn truth(self) -> Result<bool, EvalError> {
        match self {
            Self::Bool(v) => Ok(v),
            _ => Err(EvalError::WrongKind),
        }
    }

    fn integer(self) -> Result<i64, EvalError> {
        match self {
            Self::Int(v) => Ok(v),
            _ => Err(EvalError::WrongKind),
        }
    }
}

impl ScalarNumber {
    fn float(self) -> f64 {
        match self {
            Self::Int(v) => v as f64,
            Self::Float(v) => v,
        }
    }
}

/// The value of an expression, or why it has none: a part that has none leaves the whole without one, but for `and` and `or`, which go
/// from left to right and stop at the first operand that decides. Integers divide rounding down, and the remainder has the sign of the
/// divisor; real numbers divide exactly. Nothing is drawn.
pub fn eval(expr: &Expr, env: &Env) -> Result<ScalarValue, EvalError> {
    eval_with(expr, env, None)
}

/// The value of an expression whose draws come from `chance`.
pub fn eval_with(expr: &Expr, env: &Env, chance: Option<&dyn Chance>) -> Result<ScalarValue, EvalError> {
    Walk { env, chance, lookup: None, next: 0 }.value(expr)
}

/// The value of an expression whose numbers that are read `lookup(use, indices)` gives; one that is not finite is none.
///
/// # Errors
/// As for [`eval`], and what `lookup` reports.
pub fn reading(expr: &Expr, env: &Env, lookup: &mut Lookup<'_>) -> Result<ScalarValue, EvalError> {
    Walk { env, chance: None, lookup: Some(lookup), next: 0 }.value(expr)
}

struct Walk<'a, 'l> {
    env: &'a Env,
    chance: Option<&'a dyn Chance>,
    lookup: Option<&'a mut Lookup<'l>>,
    /// The use that is met next.
    next: usize,
}

impl Walk<'_, '_> {
    fn value(&mut self, expr: &Expr) -> Result<ScalarValue, EvalError> {
        Ok(match expr {
            Expr::Int(v) => ScalarValue::Int(exact(*v).ok_or(EvalError::TooLarge)?),
            Expr::Float(v) => ScalarValue::Float(*v),
            Expr::Bool(v) => ScalarValue::Bool(*v),
            Expr::Var(var) => ScalarValue::Int(self.env.get(*var)),
            Expr::Given => ScalarValue::Int(self.env.given.ok_or(EvalError::NotGiven)?),
            Expr::Neg(x) => match self.value(x)?.number()? {
                ScalarNumber::Int(v) => ScalarValue::Int(-v),
                ScalarNumber::Float(v) => ScalarValue::Float(-v),
            },
            Expr::Not(x) => ScalarValue::Bool(!self.value(x)?.truth()?),
            Expr::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                let first = self.value(a)?.truth()?;
                if first == (*op == BinaryOp::Or) {
                    self.pass(b);
                    return Ok(ScalarValue::Bool(first));
                }
                ScalarValue::Bool(self.value(b)?.truth()?)
            }
            Expr::Binary(op, a, b) => binary(*op, self.value(a)?, self.value(b)?)?,
            Expr::Call(func, args) => match args.as_slice() {
                [x] => call_one(*func, self.value(x)?)?,
                [a, b] => call(*func, self.value(a)?, self.value(b)?)?,
                [c, a, b] => {
                    let value = if self.value(c)?.truth()? {
                        let value = self.value(a)?;
                        self.pass(b);
                        value
                    } else {
                        self.pass(a);
                        self.value(b)?
                    };
                    chosen(value, [a, b])
                }
                _ => return Err(EvalError::WrongKind),
            },
            Expr::Draw(draw) => draw.value(self.env, self.chance)?,
            Expr::Learn(_, indices) => self.read(indices, EvalError::Learned)?,
            Expr::Read(_, indices) => self.read(indices, EvalError::Read)?,
            Expr::Score | Expr::Angle => self.read(&[], EvalError::Read)?,
        })
    }

    /// Counts the uses of a part that is not worked out.
    fn pass(&mut self, expr: &Expr) {
        self.next += uses(expr);
    }

    fn read(&mut self, indices: &[Expr], otherwise: EvalError) -> Result<ScalarValue, EvalError> {
        let value = self.lookup.as_mut().ok_or(otherwise)?(self.next, indices)?;
        self.next += 1;
        if value.is_finite() { Ok(ScalarValue::Float(value)) } else { Err(EvalError::TooLarge) }
    }
}

pub(super) fn binary(op: BinaryOp, a: ScalarValue, b: ScalarValue) -> Result<ScalarValue, EvalError> {
    if let (ScalarValue::Bool(a), ScalarValue::Bool(b)) = (a, b) {
        return match op {
            BinaryOp::Eq => Ok(ScalarValue::Bool(a == b)),
            BinaryOp::Ne => Ok(ScalarValue::Bool(a != b)),
            _ => Err(EvalError::WrongKind),
        };
    }
    let (a, b) = (a.number()?, b.number()?);
    if op.is_boolean() {
        return compare(op, a, b);
    }
    match (a, b) {
        (ScalarNumber::Int(a), ScalarNumber::Int(b)) => integers(op, a, b).map(ScalarValue::Int),
        (a, b) => {
            let value = reals(op, a.float(), b.float())?;
            if value.is_finite() { Ok(ScalarValue::Float(value)) } else { Err(EvalError::TooLarge) }
        }
    }
}

fn compare(op: BinaryOp, a: ScalarNumber, b: ScalarNumber) -> Result<ScalarValue, EvalError> {
    let order = match (a, b) {
        (ScalarNumber::Int(a), ScalarNumber::Int(b)) => Some(a.cmp(&b)),
        (a, b) => a.float().partial_cmp(&b.float()),
    }
    .ok_or(EvalError::TooLarge)?;
    Ok(ScalarValue::Bool(match op {
        BinaryOp::Eq => order.is_eq(),
        BinaryOp::Ne => order.is_ne(),
        BinaryOp::Lt => order.is_lt(),
        BinaryOp::Le => order.is_le(),
        BinaryOp::Gt => order.is_gt(),
        BinaryOp::Ge => order.is_ge(),
        _ => return Err(EvalError::WrongKind),
    }))
}

fn integers(op: BinaryOp, a: i64, b: i64) -> Result<i64, EvalError> {
    if matches!(op, BinaryOp::Div | BinaryOp::Rem) && b == 0 {
        return Err(EvalError::DivideByZero);
    }
    match op {
        BinaryOp::Add => a.checked_add(b),
        BinaryOp::Sub => a.checked_sub(b),
        BinaryOp::Mul => a.checked_mul(b),
        BinaryOp::Div => floor_div(a, b),
        BinaryOp::Rem => a.checked_rem(b).map(|r| if r != 0 && (r < 0) != (b < 0) { r + b } else { r }),
        BinaryOp::Pow if b < 0 => return Err(EvalError::NegativePower),
        BinaryOp::Pow => power(a, b),
        _ => return Err(EvalError::WrongKind),
    }
    .and_then(exact)
    .ok_or(EvalError::TooLarge)
}

/// A whole number, where it is exact.
fn exact(value: i64) -> Option<i64> {
    (value.unsigned_abs() as f64 <= LARGEST_WHOLE).then_some(value)
}

/// The quotient rounded down; `None` when it does not fit.
fn floor_div(a: i64, b: i64) -> Option<i64> {
    let quotient = a.checked_div(b)?;
    Some(if a % b != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient })
}

/// `a^b` for b >= 0. Only 0, 1 and -1 have powers that fit for large b.
fn power(a: i64, b: i64) -> Option<i64> {
    match (a, u32::try_from(b)) {
        (0 | 1, _) => Some(if b == 0 { 1 } else { a }),
        (-1, _) => Some(if b % 2 == 0 { 1 } else { -1 }),
        (a, Ok(b)) => a.checked_pow(b),
        (_, Err(_)) => None,
    }
}

fn reals(op: BinaryOp, a: f64, b: f64) -> Result<f64, EvalError> {
    if matches!(op, BinaryOp::Div | BinaryOp::Rem) && b == 0.0 {
        return Err(EvalError::DivideByZero);
    }
    if op == BinaryOp::Pow && ((a == 0.0 && b < 0.0) || (a < 0.0 && b.fract() != 0.0)) {
        return Err(if a == 0.0 { EvalError::DivideByZero } else { EvalError::NoRoot });
    }
    Ok(match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a / b,
        BinaryOp::Rem => a - (a / b).floor() * b,
        BinaryOp::Pow => a.powf(b),
        _ => return Err(EvalError::WrongKind),
    })
}

/// The value of a function of one argument.
pub(super) fn call_one(func: Func, x: ScalarValue) -> Result<ScalarValue, EvalError> {
    match (func, x) {
        (Func::Floor, ScalarValue::Int(v)) => Ok(ScalarValue::Int(v)),
        (Func::Floor, ScalarValue::Float(v)) if v.floor().abs() <= LARGEST_WHOLE => {
            Ok(ScalarValue::Int(v.floor() as i64))
        }
        (Func::Floor, ScalarValue::Float(_)) => Err(EvalError::TooLarge),
        (Func::Ln, x) => {
            let x = x.number()?.float();
            if x > 0.0 { Ok(ScalarValue::Float(x.ln())) } else { Err(EvalError::BadLogarithm) }
        }
        (func, x) if func.arity() == 1 => {
            let x = x.number()?.float();
            match func.of_real(x) {
                Some(value) if value.is_finite() => Ok(ScalarValue::Float(value)),
                _ if func == Func::Sqrt => Err(EvalError::NoRoot),
                _ => Err(EvalError::TooLarge),
            }
        }
        _ => Err(EvalError::WrongKind),
    }
}

pub(super) fn call(func: Func, a: ScalarValue, b: ScalarValue) -> Result<ScalarValue, EvalError> {
    if func == Func::Log {
        return log(a.integer()?, b.integer()?).map(ScalarValue::Int);
    }
    let first_smaller = match compare(BinaryOp::Le, a.number()?, b.number()?)? {
        ScalarValue::Bool(v) => v,
        _ => return Err(EvalError::WrongKind),
    };
    let pick_first = first_smaller == (func == Func::Min);
    // As in all arithmetic, one real operand makes the result real.
    let picked = if pick_first { a } else { b };
    Ok(match (a, b, picked) {
        (ScalarValue::Float(_), _, ScalarValue::Int(v)) | (_, ScalarValue::Float(_), ScalarValue::Int(v)) => {
            ScalarValue::Float(v as f64)
        }
        _ => picked,
    })
}

/// The number that `when` gives: a real one where either may be.
pub(super) fn chosen(value: ScalarValue, [a, b]: [&Expr; 2]) -> ScalarValue {
    match value {
        ScalarValue::Int(v) if !(is_whole(a) && is_whole(b)) => ScalarValue::Float(v as f64),
        value => value,
    }
}

/// The smallest k with `base^k >= n`.
fn log(n: i64, base: i64) -> Result<i64, EvalError> {
    if base < 2 {
        return Err(EvalError::BadBase);
    }
    let (mut k, mut power) = (0, 1_i64);
    while power < n {
        k += 1;
        power = power.saturating_mul(base);
    }
    Ok(k)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(v: i64) -> ScalarValue {
        ScalarValue::Int(v)
    }

    #[test]
    fn integers_divide_rounding_down() {
        for (a, b, quotient, remainder) in
            [(7, 2, 3, 1), (-7, 2, -4, 1), (7, -2, -4, -1), (-7, -2, 3, -1), (6, 3, 2, 0)]
        {
            assert_eq!(binary(BinaryOp::Div, int(a), int(b)), Ok(int(quotient)));
            assert_eq!(binary(BinaryOp::Rem, int(a), int(b)), Ok(int(remainder)));
        }
        assert_eq!(binary(BinaryOp::Div, int(1), int(0)), Err(EvalError::DivideByZero));
        assert_eq!(binary(BinaryOp::Mul, int(1 << 30), int(1 << 22)), Ok(int(1 << 52)));
        assert_eq!(binary(BinaryOp::Add, int(1 << 52), int(1)), Err(EvalError::TooLarge));
    }

    #[test]
    fn logarithms_round_up() {
        let values: Vec<_> = [0, 1, 2, 3, 4, 5, 8, 9].iter().map(|&n| log(n, 2)).collect();
        assert_eq!(values, [Ok(0), Ok(0), Ok(1), Ok(2), Ok(2), Ok(3), Ok(3), Ok(4)]);
        assert_eq!(log(i64::MAX, 2), Ok(63));
        assert_eq!(log(8, 1), Err(EvalError::BadBase));
    }

    #[test]
    fn powers_are_total() {
        assert_eq!(power(2, 10), Some(1024));
        assert_eq!(power(-1, i64::MAX), Some(-1));
        assert_eq!(power(2, 63), None);
        assert_eq!(binary(BinaryOp::Pow, int(2), int(-1)), Err(EvalError::NegativePower));
        assert_eq!(binary(BinaryOp::Pow, ScalarValue::Float(2.0), int(-1)), Ok(ScalarValue::Float(0.5)));
    }

    #[test]
    fn one_real_operand_makes_the_result_real() {
        assert_eq!(call(Func::Min, int(1), ScalarValue::Float(2.0)), Ok(ScalarValue::Float(1.0)));
        assert_eq!(call(Func::Max, int(1), int(2)), Ok(int(2)));
    }
}
