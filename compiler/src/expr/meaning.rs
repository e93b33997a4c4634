//! What an expression means: the one definition of its number and of when it has none, from which every backend is made.
//!
//! An expression becomes two terms, its value and whether it is defined. Every operation of a term has a result for all operands: a
//! division by 0 gives what is divided, the logarithm of what is not positive is 0, and so on. Backends that print terms can't disagree
//! about what has no number. Where the ranges of the parts show that an operation always has a number, the term says so.

use super::range::{BiasFacts, bounds, is_whole};
use super::{BinaryOp, Expr, Func, ReadFrom, Var};

/// What a term is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    /// `true` or `false`.
    Truth,
    /// A 64-bit integer.
    Whole,
    /// A number in double precision.
    Real,
}

/// An expression all of whose operations have a result.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// A truth value.
    Truth(bool),
    /// A whole number.
    Whole(i64),
    /// A real number.
    Real(f64),
    /// A variable, whole.
    Var(Var),
    /// The depth that comes with each example.
    Given,
    /// The number that a use of a learned table, of a value or of the score reads, the uses counted in reading order; its indices lie inside.
    Learned(usize, Vec<Term>),
    /// An operation.
    Apply(Action, Vec<Term>),
}

/// An operation of terms. Both operands of arithmetic and of comparisons are of one sort.
///
/// Operations that have no result for some operands come with [`Care`], and have the result that is said here there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `not a`
    Not,
    /// Both operands are worked out.
    And,
    /// Both operands are worked out.
    Or,
    /// `a == b` of numbers, or of truth values
    Equal,
    /// `a < b`
    Less,
    /// `a <= b`
    LessEqual,
    /// `-a`
    Negative,
    /// `a + b`; whole numbers wrap around.
    Plus,
    /// `a - b`; whole numbers wrap around.
    Minus,
    /// `a b`; whole numbers wrap around.
    Times,
    /// `a / b`, of whole numbers rounded down; `a` where it has no result.
    Quotient(Care),
    /// `a - b floor(a / b)`; that of `a` and 1 where it has no result.
    Remainder(Care),
    /// `a ^ b`; any whole number where that of whole numbers does not fit or is negative, and 1 where that of real ones is not finite.
    Power(Care),
    /// The smaller number.
    Smaller,
    /// The larger number.
    Larger,
    /// The second number where the first operand holds, else the third; both are of one sort, and are worked out.
    Choose,
    /// The smallest k with `b^k >= a`, of whole numbers; to the base 2 for a smaller base.
    LogUp(Care),
    /// The natural logarithm; 0 of what is not positive.
    Ln(Care),
    /// A function of a real number; where it has no result, what is asked with [`Care::Sure`] is infinite or none, else that of 0.
    Of(Func, Care),
    /// The largest whole number that is at most a real one; 0 where it does not fit into 64 bits.
    Floor(Care),
    /// A whole number as a real one.
    ToReal,
    /// A real number; 0 where it is infinite or none.
    Bounded,
    /// An index of a table; 0 where it lies outside.
    Index(usize),
    /// Whether a real number is neither infinite nor none.
    Finite,
    /// Whether the power of two real numbers is finite.
    FinitePower,
    /// Whether the largest whole number that is at most a real one fits into 64 bits.
    FloorFits,
    /// Whether the quotient of two whole numbers fits into 64 bits, if the divisor is not 0.
    QuotientFits,
    /// Whether the sum of two whole numbers fits into 64 bits.
    SumFits,
    /// Whether the difference of two whole numbers fits into 64 bits.
    DifferenceFits,
    /// Whether the product of two whole numbers fits into 64 bits.
    ProductFits,
    /// Whether the power of two whole numbers fits into 64 bits; the second one may be negative, which is not asked.
    PowerFits,
}

/// Whether an operation must expect operands for which it has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// The ranges of the operands show that there is always a result.
    Sure,
    /// Some operands may have none.
    Needed,
}

/// An expression as two terms.
#[derive(Clone, Debug, PartialEq)]
pub struct Meaning {
    /// The value; anything where it is not defined.
    pub value: Term,
    /// Whether there is a value.
    pub defined: Term,
}

/// What has no term: a draw.
#[derive(Clone, Debug, PartialEq)]
pub struct Untold(pub Expr);

/// Real numbers whose bounds stay below this are finite.
const FINITE: f64 = 1e300;
/// Whole numbers whose bounds stay below this fit into 64 bits.
const FITTING: f64 = 4.0e18;
/// The largest size of a bias: that of numbers in single precision.
pub const LARGEST_BIAS: f64 = f32::MAX as f64;

/// The meaning of an expression. `sizes` are those of the tables of a bias.
///
/// # Errors
/// The part that is drawn.
pub fn meaning(expr: &Expr, facts: &BiasFacts<'_>, sizes: &[Vec<usize>]) -> Result<Meaning, Untold> {
    let uses = super::tables(expr).uses.iter().map(|(from, _)| *from).collect();
    let mut reader = TermReader { facts, sizes, uses, next: 0 };
    reader.read(expr)
}

/// The meaning of a bias, a real number: one that is larger than numbers in single precision is none.
///
/// # Errors
/// As for [`meaning`].
pub fn bias_meaning(expr: &Expr, facts: &BiasFacts<'_>, sizes: &[Vec<usize>]) -> Result<Meaning, Untold> {
    let Meaning { value, defined } = meaning(expr, facts, sizes)?;
    let value = value.real();
    let fits = if within(expr, facts, LARGEST_BIAS) {
        Term::Truth(true)
    } else {
        let most = || Term::Real(LARGEST_BIAS);
        let below = Term::apply(Action::LessEqual, [value.clone(), most()]);
        below.and(Term::apply(Action::LessEqual, [Term::Real(-LARGEST_BIAS), value.clone()]))
    };
    Ok(Meaning { value, defined: defined.and(fits) })
}

/// Whether the bounds of an expression stay within a size.
fn within(expr: &Expr, facts: &BiasFacts<'_>, size: f64) -> bool {
    let (low, high) = bounds(expr, facts);
    -size <= low && high <= size
}

impl Term {
    /// An operation.
    pub(super) fn apply<const N: usize>(action: Action, operands: [Self; N]) -> Self {
        Self::Apply(action, operands.into())
    }

    /// What it is.
    pub fn sort(&self) -> Sort {
        match self {
            Self::Truth(_) => Sort::Truth,
            Self::Whole(_) | Self::Var(_) | Self::Given => Sort::Whole,
            Self::Real(_) | Self::Learned(..) => Sort::Real,
            Self::Apply(action, operands) => action.sort(operands),
        }
    }

    /// The number as a real one.
    pub(super) fn real(self) -> Self {
        match self {
            Self::Whole(v) => Self::Real(v as f64),
            other if other.sort() == Sort::Whole => Self::apply(Action::ToReal, [other]),
            other => other,
        }
    }

    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Truth(true), x) | (x, Self::Truth(true)) => x,
            (a, b) if a == b => a,
            (a, b) => Self::apply(Action::And, [a, b]),
        }
    }

    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Truth(true), _) | (_, Self::Truth(true)) => Self::Truth(true),
            (a, b) => Self::apply(Action::Or, [a, b]),
        }
    }

    fn not(self) -> Self {
        Self::apply(Action::Not, [self])
    }
}

impl Action {
    fn sort(self, operands: &[Term]) -> Sort {
        match self {
            Self::Not
            | Self::And
            | Self::Or
            | Self::Equal
            | Self::Less
            | Self::LessEqual
            | Self::Finite
            | Self::FinitePower
            | Self::FloorFits
            | Self::QuotientFits
            | Self::SumFits
            | Self::DifferenceFits
            | Self::ProductFits
            | Self::PowerFits => Sort::Truth,
            Self::LogUp(_) | Self::Floor(_) | Self::Index(_) => Sort::Whole,
            Self::Ln(_) | Self::Of(..) | Self::ToReal | Self::Bounded => Sort::Real,
            Self::Negative
            | Self::Plus
            | Self::Minus
            | Self::Times
            | Self::Quotient(_)
            | Self::Remainder(_)
            | Self::Power(_)
            | Self::Smaller
            | Self::Larger => operands.first().map_or(Sort::Real, Term::sort),
            Self::Choose => operands.get(1).map_or(Sort::Real, Term::sort),
        }
    }
}

/// Reads an expression; uses of tables are counted in reading order.
struct TermReader<'a> {
    facts: &'a BiasFacts<'a>,
    sizes: &'a [Vec<usize>],
    /// For every use what it reads.
    uses: Vec<ReadFrom>,
    next: usize,
}

const YES: Term = Term::Truth(true);

/// Arithmetic on two parts of an expression.
struct Operation<'e> {
    expr: &'e Expr,
    op: BinaryOp,
    a: &'e Expr,
    b: &'e Expr,
    /// Whether both parts are always defined.
    certain: bool,
}

impl Operation<'_> {
    fn care(&self, defined: &Term) -> Care {
        care(defined, self.certain)
    }
}

impl TermReader<'_> {
    fn read(&mut self, expr: &Expr) -> Result<Meaning, Untold> {
        let always = |value| Meaning { value, defined: YES };
        Ok(match expr {
            Expr::Int(v) => always(Term::Whole(*v)),
            Expr::Float(v) => always(Term::Real(*v)),
            Expr::Bool(v) => always(Term::Truth(*v)),
            Expr::Var(var) => always(Term::Var(*var)),
            Expr::Given => always(Term::Given),
            Expr::Draw(_) => return Err(Untold(expr.clone())),
            Expr::Neg(x) => {
                let Meaning { value, defined } = self.read(x)?;
                let fits = value.sort() == Sort::Real || within(x, self.facts, FITTING);
                let own = || Term::apply(Action::DifferenceFits, [Term::Whole(0), value.clone()]);
                let fits = if fits { YES } else { own() };
                Meaning { defined: defined.and(fits), value: Term::apply(Action::Negative, [value]) }
            }
            Expr::Not(x) => {
                let Meaning { value, defined } = self.read(x)?;
                Meaning { value: value.not(), defined }
            }
            Expr::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                let (a, b) = (self.read(a)?, self.read(b)?);
                joined(*op, a, b)
            }
            Expr::Binary(op, a, b) => {
                let (x, y) = (self.read(a)?, self.read(b)?);
                let defined = x.defined.and(y.defined);
                let own = match op.is_boolean() {
                    true => Meaning { value: compared(*op, x.value, y.value), defined: YES },
                    false => {
                        let whole = x.value.sort() == Sort::Whole && y.value.sort() == Sort::Whole;
                        let operation = Operation { expr, op: *op, a, b, certain: defined == YES };
                        match whole {
                            true => self.integers(&operation, x.value, y.value),
                            false => self.reals(&operation, x.value.real(), y.value.real()),
                        }
                    }
                };
                Meaning { defined: defined.and(own.defined), ..own }
            }
            Expr::Call(Func::When, args) => {
                let [c, a, b] = &args[..] else { return Err(Untold(expr.clone())) };
                let (c, a, b) = (self.read(c)?, self.read(a)?, self.read(b)?);
                let (x, y) = match is_whole(expr) {
                    true => (a.value, b.value),
                    false => (a.value.real(), b.value.real()),
                };
                let (holds, fails) = (c.value.clone(), c.value.clone().not());
                let rest = match a.defined == b.defined {
                    true => a.defined,
                    false => holds.and(a.defined).or(fails.and(b.defined)),
                };
                Meaning { value: Term::apply(Action::Choose, [c.value, x, y]), defined: c.defined.and(rest) }
            }
            Expr::Call(func, args) => {
                let parts = args.iter().map(|arg| self.read(arg)).collect::<Result<Vec<_>, _>>()?;
                let defined = parts.iter().fold(YES, |all, part| all.and(part.defined.clone()));
                let certain = defined == YES;
                let own = self.call(expr, *func, (args, certain), parts.into_iter().map(|part| part.value).collect());
                Meaning { defined: defined.and(own.defined), ..own }
            }
            Expr::Learn(_, indices) | Expr::Read(_, indices) => self.learned(indices)?,
            Expr::Score => self.learned(&[])?,
        })
    }

    /// Whether an expression is never 0.
    fn differs_from_0(&self, expr: &Expr) -> bool {
        let (low, high) = bounds(expr, self.facts);
        low > 0.0 || high < 0.0
    }

    fn integers(&self, own: &Operation<'_>, x: Term, y: Term) -> Meaning {
        let Operation { op, a, b, .. } = *own;
        let fitting = within(own.expr, self.facts, FITTING);
        let ask = |action| Term::apply(action, [x.clone(), y.clone()]);
        let simple =
            |action, fits| (Term::apply(action, [x.clone(), y.clone()]), if fitting { YES } else { ask(fits) });
        let (value, defined) = match op {
            BinaryOp::Add => simple(Action::Plus, Action::SumFits),
            BinaryOp::Sub => simple(Action::Minus, Action::DifferenceFits),
            BinaryOp::Div | BinaryOp::Rem => {
                let divides = if self.differs_from_0(b) { YES } else { ask_zero(&y, Term::Whole(0)) };
                let (low, high) = bounds(b, self.facts);
                let fits = low > -1.0 || high < -1.0 || within(a, self.facts, FITTING);
                let defined = divides.and(if fits { YES } else { ask(Action::QuotientFits) });
                let action = if op == BinaryOp::Div { Action::Quotient } else { Action::Remainder };
                (Term::apply(action(own.care(&defined)), [x, y]), defined)
            }
            BinaryOp::Pow => {
                let negative = bounds(b, self.facts).0 < 0.0;
                let has = Term::apply(Action::LessEqual, [Term::Whole(0), y.clone()]);
                let fits = if fitting { YES } else { ask(Action::PowerFits) };
                let defined = if negative { has.and(fits) } else { fits };
                (Term::apply(Action::Power(own.care(&defined)), [x, y]), defined)
            }
            _ => simple(Action::Times, Action::ProductFits),
        };
        Meaning { value, defined }
    }

    fn reals(&self, own: &Operation<'_>, x: Term, y: Term) -> Meaning {
        let Operation { op, a, b, .. } = *own;
        let finite = within(own.expr, self.facts, FINITE);
        let divides = || if self.differs_from_0(b) { YES } else { ask_zero(&y, Term::Real(0.0)) };
        let (action, defined) = match op {
            BinaryOp::Add => (Action::Plus, YES),
            BinaryOp::Sub => (Action::Minus, YES),
            BinaryOp::Div => (Action::Quotient(own.care(&divides())), divides()),
            BinaryOp::Rem => (Action::Remainder(own.care(&divides())), divides()),
            BinaryOp::Pow => {
                let sure = finite && bounds(a, self.facts).0 >= 0.0;
                let ask = || Term::apply(Action::FinitePower, [x.clone(), y.clone()]);
                let defined = if sure { YES } else { ask() };
                return Meaning { value: Term::apply(Action::Power(own.care(&defined)), [x, y]), defined };
            }
            _ => (Action::Times, YES),
        };
        let value = Term::apply(action, [x, y]);
        if finite {
            return Meaning { value, defined };
        }
        let is_finite = Term::apply(Action::Finite, [value.clone()]);
        Meaning { value: Term::apply(Action::Bounded, [value]), defined: defined.and(is_finite) }
    }

    fn call(&self, expr: &Expr, func: Func, (args, certain): (&[Expr], bool), parts: Vec<Term>) -> Meaning {
        let always = |value| Meaning { value, defined: YES };
        let real = parts.iter().any(|x| x.sort() == Sort::Real);
        let mut parts = parts.into_iter().map(|x| if real { x.real() } else { x });
        let (x, y) = (parts.next().unwrap_or(Term::Whole(0)), parts.next().unwrap_or(Term::Whole(0)));
        match func {
            Func::Min => always(Term::apply(Action::Smaller, [x, y])),
            Func::Max => always(Term::apply(Action::Larger, [x, y])),
            Func::Log => {
                let sure = args.get(1).is_some_and(|base| bounds(base, self.facts).0 >= 2.0);
                let has = Term::apply(Action::LessEqual, [Term::Whole(2), y.clone()]);
                let defined = if sure { YES } else { has };
                Meaning { value: Term::apply(Action::LogUp(care(&defined, certain)), [x, y]), defined }
            }
            Func::Ln => {
                let x = x.real();
                let sure = args.first().is_some_and(|x| bounds(x, self.facts).0 > 0.0);
                let has = Term::apply(Action::Less, [Term::Real(0.0), x.clone()]);
                let defined = if sure { YES } else { has };
                Meaning { value: Term::apply(Action::Ln(care(&defined, certain)), [x]), defined }
            }
            Func::Exp | Func::Sqrt | Func::Tanh | Func::Sigmoid => {
                let of = |care, x| Term::apply(Action::Of(func, care), [x]);
                let x = x.real();
                let sure = certain && within(expr, self.facts, FINITE);
                let ask = || Term::apply(Action::Finite, [of(Care::Sure, x.clone())]);
                let defined = if sure { YES } else { ask() };
                Meaning { value: of(care(&defined, certain), x), defined }
            }
            // A choice is read before its parts are.
            Func::When => always(x),
            Func::Floor if x.sort() == Sort::Whole => always(x),
            Func::Floor => {
                let sure = args.first().is_some_and(|x| within(x, self.facts, FITTING));
                let defined = if sure { YES } else { Term::apply(Action::FloorFits, [x.clone()]) };
                Meaning { value: Term::apply(Action::Floor(care(&defined, certain)), [x]), defined }
            }
        }
    }

    /// A number that is read: there is one where all indices lie inside the table. Those of values lie inside.
    fn learned(&mut self, indices: &[Expr]) -> Result<Meaning, Untold> {
        let here = self.next;
        self.next += 1;
        let table = match self.uses.get(here) {
            Some(ReadFrom::Table(table)) => self.sizes.get(*table).cloned().unwrap_or_default(),
            _ => {
                let places = indices.iter().map(|index| Ok(self.read(index)?.value)).collect::<Result<_, Untold>>()?;
                return Ok(Meaning { value: Term::Learned(here, places), defined: YES });
            }
        };
        let (mut defined, mut places) = (YES, vec![]);
        for (index, size) in indices.iter().zip(table) {
            let own = self.read(index)?;
            let (low, high) = bounds(index, self.facts);
            let value = || own.value.clone();
            let least = Term::apply(Action::LessEqual, [Term::Whole(0), value()]);
            let most = Term::apply(Action::Less, [value(), Term::Whole(size as i64)]);
            let inside = if low >= 0.0 { YES } else { least }.and(if high < size as f64 { YES } else { most });
            let sure = inside == YES && own.defined == YES;
            defined = defined.and(own.defined.clone()).and(inside);
            places.push(if sure { value() } else { Term::apply(Action::Index(size), [value()]) });
        }
        Ok(Meaning { value: Term::Learned(here, places), defined })
    }
}

/// Whether a divisor is not 0.
fn ask_zero(divisor: &Term, zero: Term) -> Term {
    Term::apply(Action::Equal, [divisor.clone(), zero]).not()
}

/// Operands that are not defined may lie outside of their ranges, so these say nothing then.
fn care(defined: &Term, certain: bool) -> Care {
    if *defined == YES && certain { Care::Sure } else { Care::Needed }
}

/// `and`, `or`: from left to right, up to the first side that decides.
fn joined(op: BinaryOp, a: Meaning, b: Meaning) -> Meaning {
    let (action, decided) = match op {
        BinaryOp::And => (Action::And, a.value.clone().not()),
        _ => (Action::Or, a.value.clone()),
    };
    let rest = if b.defined == YES { YES } else { decided.or(b.defined) };
    Meaning { value: Term::apply(action, [a.value, b.value]), defined: a.defined.and(rest) }
}

fn compared(op: BinaryOp, x: Term, y: Term) -> Term {
    if x.sort() == Sort::Truth {
        let same = Term::apply(Action::Equal, [x, y]);
        return if op == BinaryOp::Ne { same.not() } else { same };
    }
    let real = x.sort() == Sort::Real || y.sort() == Sort::Real;
    let (x, y) = if real { (x.real(), y.real()) } else { (x, y) };
    match op {
        BinaryOp::Lt => Term::apply(Action::Less, [x, y]),
        BinaryOp::Le => Term::apply(Action::LessEqual, [x, y]),
        BinaryOp::Gt => Term::apply(Action::Less, [y, x]),
        BinaryOp::Ge => Term::apply(Action::LessEqual, [y, x]),
        BinaryOp::Ne => Term::apply(Action::Equal, [x, y]).not(),
        _ => Term::apply(Action::Equal, [x, y]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Env, EvalError, ScalarValue, slope, tables};
    use super::*;
    use crate::ir::attr;

    /// What a term gives.
    fn value(term: &Term, env: &Env, learned: &dyn Fn(usize, &[i64]) -> f64) -> ScalarValue {
        let of = |term: &Term| value(term, env, learned);
        match term {
            Term::Truth(v) => ScalarValue::Bool(*v),
            Term::Whole(v) => ScalarValue::Int(*v),
            Term::Real(v) => ScalarValue::Float(*v),
            Term::Var(var) => ScalarValue::Int(env.get(*var)),
            Term::Given => ScalarValue::Int(env.given.unwrap_or(0)),
            Term::Learned(at, indices) => {
                let indices: Vec<i64> = indices.iter().map(|x| whole(of(x))).collect();
                ScalarValue::Float(learned(*at, &indices))
            }
            Term::Apply(action, operands) => {
                let parts: Vec<ScalarValue> = operands.iter().map(of).collect();
                applied(*action, &parts)
            }
        }
    }

    fn whole(value: ScalarValue) -> i64 {
        match value {
            ScalarValue::Int(v) => v,
            other => panic!("{other} is not whole"),
        }
    }

    fn applied(action: Action, parts: &[ScalarValue]) -> ScalarValue {
        match *parts {
            [ScalarValue::Bool(c), a, b] => {
                if c {
                    a
                } else {
                    b
                }
            }
            [ScalarValue::Bool(a)] => ScalarValue::Bool(!a),
            [ScalarValue::Bool(a), ScalarValue::Bool(b)] => ScalarValue::Bool(match action {
                Action::And => a && b,
                Action::Or => a || b,
                _ => a == b,
            }),
            [ScalarValue::Int(a)] => match action {
                Action::ToReal => ScalarValue::Float(a as f64),
                Action::Index(size) => ScalarValue::Int(if (0..size as i64).contains(&a) { a } else { 0 }),
                _ => ScalarValue::Int(a.wrapping_neg()),
            },
            [ScalarValue::Float(a)] => match action {
                Action::Negative => ScalarValue::Float(-a),
                Action::Ln(_) => ScalarValue::Float(if a > 0.0 { a.ln() } else { 0.0 }),
                Action::Of(func, care) => {
                    let of = |x| func.of_real(x).expect("a function of real numbers");
                    let value = of(a);
                    ScalarValue::Float(if care == Care::Sure || value.is_finite() { value } else { of(0.0) })
                }
                Action::Bounded => ScalarValue::Float(if a.is_finite() { a } else { 0.0 }),
                Action::Finite => ScalarValue::Bool(a.is_finite()),
                Action::FloorFits => ScalarValue::Bool(a.floor().abs() < 9_223_372_036_854_775_808.0),
                _ => ScalarValue::Int(if a.floor().abs() < 9_223_372_036_854_775_808.0 { a.floor() as i64 } else { 0 }),
            },
            [ScalarValue::Int(a), ScalarValue::Int(b)] => integers(action, a, b),
            [ScalarValue::Float(a), ScalarValue::Float(b)] => reals(action, a, b),
            ref other => panic!("{action:?} of {other:?}"),
        }
    }

    fn integers(action: Action, a: i64, b: i64) -> ScalarValue {
        let power = |a: i64, b: i64| {
            super::super::eval::binary(BinaryOp::Pow, ScalarValue::Int(a), ScalarValue::Int(b.max(0))).map(whole).ok()
        };
        match action {
            Action::Equal => ScalarValue::Bool(a == b),
            Action::Less => ScalarValue::Bool(a < b),
            Action::LessEqual => ScalarValue::Bool(a <= b),
            Action::SumFits => ScalarValue::Bool(a.checked_add(b).is_some()),
            Action::DifferenceFits => ScalarValue::Bool(a.checked_sub(b).is_some()),
            Action::ProductFits => ScalarValue::Bool(a.checked_mul(b).is_some()),
            Action::PowerFits => ScalarValue::Bool(b < 0 || power(a, b).is_some()),
            Action::QuotientFits => ScalarValue::Bool((a, b) != (i64::MIN, -1)),
            Action::Plus => ScalarValue::Int(a.wrapping_add(b)),
            Action::Minus => ScalarValue::Int(a.wrapping_sub(b)),
            Action::Times => ScalarValue::Int(a.wrapping_mul(b)),
            Action::Smaller => ScalarValue::Int(a.min(b)),
            Action::Larger => ScalarValue::Int(a.max(b)),
            // A wrapped power is like any other number that means nothing.
            Action::Power(_) => ScalarValue::Int(power(a, b).unwrap_or(0)),
            Action::Quotient(care) | Action::Remainder(care) => {
                let none = b == 0 || (a, b) == (i64::MIN, -1);
                assert!(care == Care::Needed || !none, "{action:?} of {a} and {b}");
                let op = if matches!(action, Action::Quotient(_)) { BinaryOp::Div } else { BinaryOp::Rem };
                super::super::eval::binary(op, ScalarValue::Int(a), ScalarValue::Int(if none { 1 } else { b }))
                    .expect("it divides")
            }
            _ => {
                assert!(action == Action::LogUp(Care::Needed) || b >= 2, "{action:?} of {a} and {b}");
                super::super::eval::call(Func::Log, ScalarValue::Int(a), ScalarValue::Int(b.max(2)))
                    .expect("a base of 2 or more")
            }
        }
    }

    fn reals(action: Action, a: f64, b: f64) -> ScalarValue {
        let by = if b == 0.0 { 1.0 } else { b };
        match action {
            Action::Equal => ScalarValue::Bool(a == b),
            Action::Less => ScalarValue::Bool(a < b),
            Action::LessEqual => ScalarValue::Bool(a <= b),
            Action::FinitePower => ScalarValue::Bool(a.powf(b).is_finite()),
            Action::Plus => ScalarValue::Float(a + b),
            Action::Minus => ScalarValue::Float(a - b),
            Action::Times => ScalarValue::Float(a * b),
            Action::Smaller => ScalarValue::Float(a.min(b)),
            Action::Larger => ScalarValue::Float(a.max(b)),
            Action::Quotient(_) => ScalarValue::Float(a / by),
            Action::Remainder(_) => ScalarValue::Float(a - (a / by).floor() * by),
            _ => ScalarValue::Float(Some(a.powf(b)).filter(|x| x.is_finite()).unwrap_or(1.0)),
        }
    }

    /// A random number below n.
    fn below(state: &mut u64, n: u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % n
    }

    fn random(depth: u64, truth: bool, state: &mut u64) -> String {
        let pick = |all: &[&str], state: &mut u64| all[below(state, all.len() as u64) as usize].to_owned();
        if truth {
            let less = depth.saturating_sub(1);
            return match below(state, if depth == 0 { 3 } else { 6 }) {
                0..3 => {
                    let op = pick(&["lt", "le", "gt", "ge", "eq", "ne"], state);
                    format!("{op}({}, {})", random(less, false, state), random(less, false, state))
                }
                3 => format!("not({})", random(less, true, state)),
                _ => {
                    let op = pick(&["and", "or", "eq", "ne"], state);
                    format!("{op}({}, {})", random(less, true, state), random(less, true, state))
                }
            };
        }
        if depth == 0 || below(state, 4) == 0 {
            return pick(
                &["i", "j", "head", "step", "length", "0", "1", "2", "3", "62", "0.5", "0.0", "1e200", "sub(i, j)"],
                state,
            );
        }
        let one = random(depth - 1, false, state);
        match below(state, 14) {
            13 => format!("when({}, {one}, {})", random(depth - 1, true, state), random(depth - 1, false, state)),
            11 | 12 => format!("{}({one})", pick(&["exp", "sqrt", "tanh", "sigmoid"], state)),
            0 => format!("neg({one})"),
            1 => format!("log({one})"),
            2 => format!("floor({one})"),
            3 => format!("log(floor({one}), {})", pick(&["2", "3", "head", "sub(i, 1)"], state)),
            _ => {
                let op = pick(&["add", "sub", "mul", "div", "rem", "pow", "min", "max"], state);
                format!("{op}({one}, {})", random(depth - 1, false, state))
            }
        }
    }

    #[test]
    fn terms_have_the_values_of_expressions() {
        let mut state = 44;
        let (mut some, mut none) = (0, 0);
        for number in 0..6000 {
            let text = random(4, number % 2 == 0, &mut state);
            let expr = Expr::try_from(&attr::parse(&text).expect("an attribute")).expect("an expression");
            let facts = BiasFacts { farthest: 100.0, ..BiasFacts::new(3, None) };
            let meaning = meaning(&expr, &facts, &[]).expect("nothing is drawn");
            for _ in 0..20 {
                let mut of = |n| below(&mut state, n) as i64;
                let env = Env { i: of(100), j: of(100), step: of(4), length: 1 + of(99), head: of(3), given: None };
                let learned = |_: usize, _: &[i64]| 0.0;
                let found = super::super::eval(&expr, &env);
                let defined = value(&meaning.defined, &env, &learned) == ScalarValue::Bool(true);
                assert_eq!(found.is_ok(), defined, "{expr} at {env:?}: {found:?}");
                if let Ok(found) = found {
                    assert_eq!(value(&meaning.value, &env, &learned), found, "{expr} at {env:?}");
                }
                if defined { some += 1 } else { none += 1 }
            }
        }
        assert!(some > 20_000 && none > 20_000, "{some} with a value, {none} without");
    }

    #[test]
    fn learned_numbers_have_indices_inside() {
        let expr = "mul(learn(sub(i, j)), learn_p(head, rem(j, 3)))";
        let expr = Expr::try_from(&attr::parse(expr).expect("an attribute")).expect("an expression");
        let sizes = [vec![2], vec![3, 3]];
        assert_eq!(tables(&expr).names, ["", "p"]);
        let meaning = meaning(&expr, &BiasFacts::new(3, None), &sizes).expect("nothing is drawn");
        for (i, j) in (0..5).flat_map(|i| (0..5).map(move |j| (i, j))) {
            let env = Env { i, j, head: 1, ..Env::default() };
            let learned = |at: usize, indices: &[i64]| {
                assert!(indices.iter().zip(&sizes[at]).all(|(n, size)| (0..*size as i64).contains(n)), "{indices:?}");
                0.5
            };
            let mut own = |at: usize, indices: &[Expr]| super::super::flat(indices, &sizes[at], &env).map(|_| 0.5);
            let found = slope(&expr, &env, &mut own, 9).map(|found| found.value);
            let defined = value(&meaning.defined, &env, &learned) == ScalarValue::Bool(true);
            assert_eq!(found.is_ok(), defined, "{found:?} at {env:?}");
            assert_eq!(value(&meaning.value, &env, &learned), ScalarValue::Float(found.unwrap_or(0.25)));
            assert!(defined || found == Err(EvalError::OutsideTable));
        }
    }
}
