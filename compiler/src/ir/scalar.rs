//! An expression as a function of the numbers that it reads: the one form from which every backend is made.
//!
//! All numbers have double precision. Truth is 1 or 0, whole numbers are exact up to [`LARGEST_WHOLE`], and what has no number (a division
//! by 0, a whole number beyond that, the logarithm of 0) is NaN, as is what is made of it. The functions are those of
//! [`super::pointwise`], so that backends write, run and differentiate masks, biases and scores as they do equations, and can't disagree
//! about what has no number. A number that is infinite on the way becomes NaN where a function would make an ordinary one of it, and at the
//! end. Where the ranges of the parts show that a number can't be infinite or inexact, it is not asked.

use super::pointwise::{self, Pointwise, Scalar};
use crate::expr::{BiasFacts, BinaryOp, Expr, Func, LARGEST_WHOLE, ReadFrom, Var, bounds, is_whole, tables};
use Scalar::{Number, Operand};

/// Real numbers whose bounds stay below this are finite.
const FINITE: f64 = 1e300;

/// The kind of an expression's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// `true` or `false`.
    Truth,
    /// A whole number.
    Whole,
    /// A real number.
    Real,
}

/// A number that an expression reads. Indices and channels are functions of earlier ones.
#[derive(Clone, Debug, PartialEq)]
pub enum Leaf {
    /// A variable.
    Var(Var),
    /// The depth that comes with each example.
    Given,
    /// The number of a learned table at a place, the last index running fastest; infinite where the place is NaN.
    Table {
        /// Which table.
        table: usize,
        /// The place.
        at: Scalar,
    },
    /// A value of a position.
    Value {
        /// Which value.
        value: usize,
        /// Whether it is that of the query, else of the key.
        of_query: bool,
        /// The channel, where it has several; infinite where it is NaN.
        channel: Option<Scalar>,
    },
    /// The score before the expression.
    Score,
}

/// An expression as a function of its leaves.
#[derive(Clone, Debug, PartialEq)]
pub struct ExprScalar {
    /// The function; leaf n is its operand n.
    pub scalar: Scalar,
    /// The numbers that it reads, each once.
    pub leaves: Vec<Leaf>,
    /// The kind of its value.
    pub sort: Sort,
    /// Whether it has a number wherever the numbers that are read are finite.
    pub is_total: bool,
}

/// A truth value that is always told, without the numbers that stand for it.
#[derive(Clone, Debug, PartialEq)]
pub enum TruthScalar {
    /// `true` or `false`.
    Is(bool),
    /// `a < b`
    Less(Scalar, Scalar),
    /// `a <= b`
    LessEqual(Scalar, Scalar),
    /// `a == b`
    Equal(Scalar, Scalar),
    /// `not a`
    Not(Box<TruthScalar>),
    /// `a and b`
    And(Box<TruthScalar>, Box<TruthScalar>),
    /// `a or b`
    Or(Box<TruthScalar>, Box<TruthScalar>),
}

/// A part that is no function: a draw, or a mixture of numbers and truth values.
#[derive(Clone, Debug, PartialEq)]
pub struct Untold(pub Expr);

impl ExprScalar {
    /// The function of an expression of a graph; tables have these sizes, and a real number that is larger than `most` is none.
    ///
    /// # Errors
    /// The part that is none.
    pub fn new(
        expr: &Expr,
        uses: &[ReadFrom],
        sizes: &[Vec<usize>],
        facts: &BiasFacts<'_>,
        most: f64,
    ) -> Result<Self, Untold> {
        let mut reader = Reader { facts, sizes, uses, next: 0, leaves: vec![], is_total: true };
        let (scalar, sort) = reader.read(expr)?;
        let scalar = if sort == Sort::Real { reader.limited(scalar, expr, most) } else { scalar };
        Ok(Self { scalar, leaves: reader.leaves, sort, is_total: reader.is_total })
    }

    /// The function of an expression without learned tables.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn plain(expr: &Expr, facts: &BiasFacts<'_>) -> Result<Self, Untold> {
        Self::new(expr, &tables(expr).operands(), &[], facts, f64::MAX)
    }

    /// The truth value, where it is one and always told.
    pub fn condition(&self) -> Option<TruthScalar> {
        (self.is_total && self.sort == Sort::Truth).then(|| TruthScalar::of(&self.scalar))
    }

    /// For every leaf with a gradient its share of a cotangent: over the leaves, then the value, then the cotangent. A share that is infinite
    /// or NaN is none: the slope of `x^0.5` at 0.
    pub fn shares(&self) -> Vec<(usize, Scalar)> {
        let shares = pointwise::gradients(std::slice::from_ref(&self.scalar), self.leaves.len(), &[true]);
        let has = |leaf: &Leaf| matches!(leaf, Leaf::Table { .. } | Leaf::Value { .. } | Leaf::Score);
        let own = |(n, share): (usize, Option<Scalar>)| Some((n, share.filter(|_| has(&self.leaves[n]))?));
        shares.into_iter().enumerate().filter_map(own).collect()
    }
}

impl TruthScalar {
    fn of(x: &Scalar) -> Self {
        let both = |a, b| [a, b].map(|x| Box::new(Self::of(x)));
        let Scalar::Call(func, args) = x else { return Self::Is(*x == Number(1.0)) };
        match (func, &args[..]) {
            (Pointwise::Less, [a, b]) => Self::Less(a.clone(), b.clone()),
            (Pointwise::Equal, [a, b]) => Self::Equal(a.clone(), b.clone()),
            (Pointwise::Choose, [a, b, Number(0.0)]) => {
                let [a, b] = both(a, b);
                Self::And(a, b)
            }
            (Pointwise::Choose, [a, Number(1.0), b]) => {
                let [a, b] = both(a, b);
                Self::Or(a, b)
            }
            (_, [.., x]) => match Self::of(x) {
                Self::Less(b, a) => Self::LessEqual(a, b),
                Self::Is(holds) => Self::Is(!holds),
                other => Self::Not(Box::new(other)),
            },
            (_, []) => Self::Is(false),
        }
    }
}

/// A function as it stands, but for constants: no other last bit may change.
fn call<const N: usize>(func: Pointwise, args: [Scalar; N]) -> Scalar {
    let truth = |x: bool| Number(f64::from(u8::from(x)));
    match (func, &args[..]) {
        (Pointwise::Choose, [Number(c), a, b]) => if *c > 0.0 { a } else { b }.clone(),
        (Pointwise::Less, [Number(a), Number(b)]) => truth(a < b),
        (Pointwise::Equal, [Number(a), Number(b)]) => truth(a == b),
        (Pointwise::Minimum, [Number(a), Number(b)]) => Number(a.min(*b)),
        (Pointwise::Maximum, [Number(a), Number(b)]) => Number(a.max(*b)),
        (Pointwise::Within, [Number(a), Number(b)]) if a.abs() <= *b => Number(*a),
        (Pointwise::Floor, [Number(a)]) => Number(a.floor()),
        (Pointwise::Add | Pointwise::Sub | Pointwise::Mul | Pointwise::Div, [Number(_), Number(_)]) => {
            Scalar::call(func, args.into())
        }
        (Pointwise::Neg, [Number(x)]) => Number(-x),
        _ => Scalar::Call(func, args.into()),
    }
}

fn not(x: Scalar) -> Scalar {
    call(Pointwise::Sub, [Number(1.0), x])
}

/// A whole number from 0 up to below `size`; NaN outside.
fn inside(x: Scalar, size: f64) -> Scalar {
    let half = (size - 1.0) / 2.0;
    let around = call(Pointwise::Sub, [x, Number(half)]);
    call(Pointwise::Add, [call(Pointwise::Within, [around, Number(half)]), Number(half)])
}

struct Reader<'a> {
    facts: &'a BiasFacts<'a>,
    sizes: &'a [Vec<usize>],
    /// For every use, in reading order, what it reads.
    uses: &'a [ReadFrom],
    next: usize,
    leaves: Vec<Leaf>,
    is_total: bool,
}

impl Reader<'_> {
    fn leaf(&mut self, leaf: Leaf) -> Scalar {
        let known = self.leaves.iter().position(|known| *known == leaf);
        Operand(known.unwrap_or_else(|| {
            self.leaves.push(leaf);
            self.leaves.len() - 1
        }))
    }

    /// Whether the bounds of an expression stay within a size.
    fn stays(&self, expr: &Expr, size: f64) -> bool {
        let (low, high) = bounds(expr, self.facts);
        -size <= low && high <= size
    }

    /// Whether an expression is never 0.
    fn differs_from_0(&self, expr: &Expr) -> bool {
        let (low, high) = bounds(expr, self.facts);
        low > 0.0 || high < 0.0
    }

    /// NaN where a number is larger than a size.
    fn limited(&mut self, x: Scalar, expr: &Expr, size: f64) -> Scalar {
        if self.stays(expr, size.min(FINITE)) {
            return x;
        }
        self.is_total = false;
        call(Pointwise::Within, [x, Number(size)])
    }

    /// A number of which a function may make an ordinary one where it is infinite.
    fn finite(&self, x: Scalar, expr: &Expr) -> Scalar {
        if self.stays(expr, FINITE) { x } else { call(Pointwise::Within, [x, Number(f64::MAX)]) }
    }

    fn needs(&mut self, holds: bool) {
        self.is_total &= holds;
    }

    fn read(&mut self, expr: &Expr) -> Result<(Scalar, Sort), Untold> {
        Ok(match expr {
            Expr::Int(v) => (self.limited(Number(*v as f64), expr, LARGEST_WHOLE), Sort::Whole),
            Expr::Float(v) => (Number(*v), Sort::Real),
            Expr::Bool(v) => (Number(f64::from(u8::from(*v))), Sort::Truth),
            Expr::Var(var) => (self.leaf(Leaf::Var(*var)), Sort::Whole),
            Expr::Given => (self.leaf(Leaf::Given), Sort::Whole),
            Expr::Draw(_) => return Err(Untold(expr.clone())),
            Expr::Neg(x) => {
                let (x, sort) = self.number(x)?;
                (call(Pointwise::Neg, [x]), sort)
            }
            Expr::Not(x) => (not(self.truth(x)?), Sort::Truth),
            Expr::Binary(BinaryOp::And, a, b) => {
                (call(Pointwise::Choose, [self.truth(a)?, self.truth(b)?, Number(0.0)]), Sort::Truth)
            }
            Expr::Binary(BinaryOp::Or, a, b) => {
                (call(Pointwise::Choose, [self.truth(a)?, Number(1.0), self.truth(b)?]), Sort::Truth)
            }
            Expr::Binary(op, a, b) if op.is_boolean() => (self.compared(*op, a, b)?, Sort::Truth),
            Expr::Binary(op, a, b) => {
                let ((x, of_a), (y, of_b)) = (self.number(a)?, self.number(b)?);
                match of_a == Sort::Whole && of_b == Sort::Whole {
                    true => (self.whole(expr, *op, (x, y), (a, b)), Sort::Whole),
                    false => (self.real(expr, *op, (x, y), (a, b)), Sort::Real),
                }
            }
            Expr::Call(func, args) => self.function(expr, *func, args)?,
            Expr::Learn(_, indices) => {
                let Some(ReadFrom::Table(table)) = self.used() else { return Err(Untold(expr.clone())) };
                let sizes = self.sizes.get(table).cloned().unwrap_or_default();
                let (mut at, mut sure) = (Number(0.0), true);
                for (n, (index, size)) in indices.iter().zip(sizes).enumerate() {
                    let own = self.index(index, size as f64, &mut sure)?;
                    let rows = call(Pointwise::Mul, [at, Number(size as f64)]);
                    at = if n == 0 { own } else { call(Pointwise::Add, [rows, own]) };
                }
                (self.learned(Leaf::Table { table, at }, sure), Sort::Real)
            }
            Expr::Read(_, indices) => {
                let Some(ReadFrom::Value(value)) = self.used() else { return Err(Untold(expr.clone())) };
                let channel =
                    indices.get(1).map(|channel| self.number(channel)).transpose()?.map(|(channel, _)| channel);
                let of_query = indices.first() == Some(&Expr::Var(Var::I));
                // The verifier shows that channels lie inside.
                (self.learned(Leaf::Value { value, of_query, channel }, true), Sort::Real)
            }
            Expr::Angle => return Err(Untold(expr.clone())),
            Expr::Score => {
                self.used();
                (self.leaf(Leaf::Score), Sort::Real)
            }
        })
    }

    fn used(&mut self) -> Option<ReadFrom> {
        self.next += 1;
        self.uses.get(self.next - 1).copied()
    }

    /// An index of a table, NaN where it lies outside.
    fn index(&mut self, index: &Expr, size: f64, sure: &mut bool) -> Result<Scalar, Untold> {
        let was_total = std::mem::replace(&mut self.is_total, true);
        let (own, _) = self.number(index)?;
        let (low, high) = bounds(index, self.facts);
        let own_sure = self.is_total && low >= 0.0 && high < size;
        self.is_total = was_total && own_sure;
        *sure &= own_sure;
        Ok(if own_sure { own } else { inside(own, size) })
    }

    fn learned(&mut self, leaf: Leaf, sure: bool) -> Scalar {
        let number = self.leaf(leaf);
        if sure { number } else { call(Pointwise::Within, [number, Number(f64::MAX)]) }
    }

    fn truth(&mut self, expr: &Expr) -> Result<Scalar, Untold> {
        match self.read(expr)? {
            (x, Sort::Truth) => Ok(x),
            _ => Err(Untold(expr.clone())),
        }
    }

    fn number(&mut self, expr: &Expr) -> Result<(Scalar, Sort), Untold> {
        match self.read(expr)? {
            (_, Sort::Truth) => Err(Untold(expr.clone())),
            found => Ok(found),
        }
    }

    fn compared(&mut self, op: BinaryOp, a: &Expr, b: &Expr) -> Result<Scalar, Untold> {
        let ((x, of_a), (y, of_b)) = (self.read(a)?, self.read(b)?);
        let truths = [of_a, of_b].map(|sort| sort == Sort::Truth);
        if truths[0] != truths[1] || (truths[0] && !matches!(op, BinaryOp::Eq | BinaryOp::Ne)) {
            return Err(Untold(Expr::Binary(op, Box::new(a.clone()), Box::new(b.clone()))));
        }
        let [x, y] = [(x, a, of_a), (y, b, of_b)].map(|(x, expr, sort)| match sort {
            Sort::Real => self.finite(x, expr),
            Sort::Truth | Sort::Whole => x,
        });
        Ok(match op {
            BinaryOp::Lt => call(Pointwise::Less, [x, y]),
            BinaryOp::Le => not(call(Pointwise::Less, [y, x])),
            BinaryOp::Gt => call(Pointwise::Less, [y, x]),
            BinaryOp::Ge => not(call(Pointwise::Less, [x, y])),
            BinaryOp::Ne => not(call(Pointwise::Equal, [x, y])),
            _ => call(Pointwise::Equal, [x, y]),
        })
    }

    fn whole(&mut self, expr: &Expr, op: BinaryOp, (x, y): (Scalar, Scalar), (_, b): (&Expr, &Expr)) -> Scalar {
        let down = |x: Scalar, y: Scalar| call(Pointwise::Floor, [call(Pointwise::Div, [x, y])]);
        let value = match op {
            BinaryOp::Add => call(Pointwise::Add, [x, y]),
            BinaryOp::Sub => call(Pointwise::Sub, [x, y]),
            BinaryOp::Mul => call(Pointwise::Mul, [x, y]),
            BinaryOp::Div => {
                self.needs(self.differs_from_0(b));
                down(x, y)
            }
            BinaryOp::Rem => {
                self.needs(self.differs_from_0(b));
                // NaN for a divisor of 0, and never larger than the divisor.
                return call(Pointwise::Sub, [x.clone(), call(Pointwise::Mul, [down(x, y.clone()), y])]);
            }
            _ => {
                let is_natural = bounds(b, self.facts).0 >= 0.0;
                self.needs(is_natural);
                let y = if is_natural { y } else { inside(y, LARGEST_WHOLE) };
                // Powers of whole numbers are whole; those of a device may be a last bit off.
                call(Pointwise::Floor, [call(Pointwise::Add, [call(Pointwise::Pow, [x, y]), Number(0.5)])])
            }
        };
        self.limited(value, expr, LARGEST_WHOLE)
    }

    fn real(&mut self, expr: &Expr, op: BinaryOp, (x, y): (Scalar, Scalar), (a, b): (&Expr, &Expr)) -> Scalar {
        self.needs(self.stays(expr, FINITE));
        match op {
            BinaryOp::Add => call(Pointwise::Add, [x, y]),
            BinaryOp::Sub => call(Pointwise::Sub, [x, y]),
            BinaryOp::Mul => call(Pointwise::Mul, [x, y]),
            BinaryOp::Div => {
                self.needs(self.differs_from_0(b));
                call(Pointwise::Div, [x, self.finite(y, b)])
            }
            BinaryOp::Rem => {
                self.needs(self.differs_from_0(b));
                let down = call(Pointwise::Floor, [call(Pointwise::Div, [x.clone(), y.clone()])]);
                call(Pointwise::Sub, [x, call(Pointwise::Mul, [down, y])])
            }
            _ => {
                self.needs(bounds(a, self.facts).0 >= 0.0);
                call(Pointwise::Pow, [self.finite(x, a), self.finite(y, b)])
            }
        }
    }

    fn function(&mut self, expr: &Expr, func: Func, args: &[Expr]) -> Result<(Scalar, Sort), Untold> {
        let untold = || Untold(expr.clone());
        Ok(match (func, args) {
            (Func::When, [c, a, b]) => {
                let c = self.truth(c)?;
                let ((a, _), (b, _)) = (self.number(a)?, self.number(b)?);
                let sort = if is_whole(expr) { Sort::Whole } else { Sort::Real };
                (call(Pointwise::Choose, [c, a, b]), sort)
            }
            (Func::Min | Func::Max, [a, b]) => {
                let ((x, of_a), (y, of_b)) = (self.number(a)?, self.number(b)?);
                let sort = if of_a == Sort::Whole && of_b == Sort::Whole { Sort::Whole } else { Sort::Real };
                let func = if func == Func::Min { Pointwise::Minimum } else { Pointwise::Maximum };
                (call(func, [self.finite(x, a), self.finite(y, b)]), sort)
            }
            (Func::Log, [n, base]) => {
                let ((x, Sort::Whole), (y, Sort::Whole)) = (self.number(n)?, self.number(base)?) else {
                    return Err(untold());
                };
                self.needs(bounds(base, self.facts).0 >= 2.0);
                (call(Pointwise::LogUp, [x, y]), Sort::Whole)
            }
            (Func::Floor, [x]) => match self.number(x)? {
                (x, Sort::Whole) => (x, Sort::Whole),
                (x, _) => (self.limited(call(Pointwise::Floor, [x]), expr, LARGEST_WHOLE), Sort::Whole),
            },
            (Func::Ln, [x]) => {
                self.needs(bounds(x, self.facts).0 > 0.0);
                (call(Pointwise::Log, [self.number(x)?.0]), Sort::Real)
            }
            (Func::Sqrt, [x]) => {
                self.needs(bounds(x, self.facts).0 >= 0.0);
                (call(Pointwise::Sqrt, [self.number(x)?.0]), Sort::Real)
            }
            (Func::Exp | Func::Tanh | Func::Sigmoid, [x]) => {
                self.needs(self.stays(expr, FINITE));
                let own = self.number(x)?.0;
                let func = match func {
                    Func::Exp => Pointwise::Exp,
                    Func::Tanh => Pointwise::Tanh,
                    _ => Pointwise::Sigmoid,
                };
                (call(func, [self.finite(own, x)]), Sort::Real)
            }
            _ => return Err(untold()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::attr;
    use super::*;
    use crate::expr::{Env, EvalError, LARGEST_BIAS, Lookup, ScalarValue, eval, flat, reading};

    fn parsed(text: &str) -> Expr {
        Expr::try_from(&attr::parse(text).expect("an attribute")).expect("an expression")
    }

    /// What a function gives for its operands.
    fn value(scalar: &Scalar, operands: &[f64]) -> f64 {
        let of = |x: &Scalar| value(x, operands);
        let Scalar::Call(func, args) = scalar else {
            return if let Number(x) = scalar { *x } else { operands.get(operand(scalar)).copied().expect("a leaf") };
        };
        let x: Vec<f64> = args.iter().map(of).collect();
        let truth = |x: bool| f64::from(u8::from(x));
        match (func, &x[..]) {
            (Pointwise::Choose, [c, a, b]) => {
                if c.is_nan() {
                    f64::NAN
                } else if *c > 0.0 {
                    *a
                } else {
                    *b
                }
            }
            (_, x) if x.iter().any(|x| x.is_nan()) => f64::NAN,
            (Pointwise::Add, [a, b]) => a + b,
            (Pointwise::Sub, [a, b]) => a - b,
            (Pointwise::Mul, [a, b]) => a * b,
            (Pointwise::Div, [a, b]) => a / b,
            (Pointwise::Neg, [a]) => -a,
            (Pointwise::Less, [a, b]) => truth(a < b),
            (Pointwise::Equal, [a, b]) => truth(a == b),
            (Pointwise::Within, [a, b]) => {
                if a.abs() <= *b {
                    *a
                } else {
                    f64::NAN
                }
            }
            (Pointwise::Minimum, [a, b]) => a.min(*b),
            (Pointwise::Maximum, [a, b]) => a.max(*b),
            (Pointwise::Floor, [a]) => a.floor(),
            (Pointwise::Pow, [a, b]) => a.powf(*b),
            (Pointwise::Exp, [a]) => a.exp(),
            (Pointwise::Log, [a]) => a.ln(),
            (Pointwise::Sqrt, [a]) => a.sqrt(),
            (Pointwise::Tanh, [a]) => a.tanh(),
            (Pointwise::Sigmoid, [a]) => 1.0 / (1.0 + (-a).exp()),
            (Pointwise::LogUp, [a, b]) => {
                if *b < 2.0 {
                    return f64::NAN;
                }
                (0..).find(|k| b.powi(*k) >= *a).map_or(f64::NAN, f64::from)
            }
            other => panic!("{other:?}"),
        }
    }

    fn operand(scalar: &Scalar) -> usize {
        if let Operand(n) = scalar { *n } else { panic!("{scalar:?} is no operand") }
    }

    /// The numbers of the leaves at a place, where `table` gives those of tables and everything else that is read is `read`.
    fn numbers(of: &ExprScalar, env: &Env, table: &dyn Fn(usize, usize) -> f64, read: f64) -> Vec<f64> {
        let mut known = vec![];
        for leaf in &of.leaves {
            known.push(match leaf {
                Leaf::Var(var) => env.get(*var) as f64,
                Leaf::Given => env.given.unwrap_or(0) as f64,
                Leaf::Table { table: n, at } => {
                    let at = value(at, &known);
                    if at.is_nan() { f64::INFINITY } else { table(*n, at as usize) }
                }
                Leaf::Value { .. } | Leaf::Score => read,
            });
        }
        known
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

    fn plain(value: ScalarValue) -> f64 {
        match value {
            ScalarValue::Int(v) => v as f64,
            ScalarValue::Float(v) => v,
            ScalarValue::Bool(v) => f64::from(u8::from(v)),
        }
    }

    #[test]
    fn functions_have_the_values_of_expressions() {
        let mut state = 44;
        let (mut some, mut none) = (0, 0);
        for number in 0..6000 {
            let text = random(4, number % 2 == 0, &mut state);
            let expr = parsed(&text);
            let facts = BiasFacts { farthest: 100.0, ..BiasFacts::new(3, None) };
            let own = ExprScalar::plain(&expr, &facts).expect("nothing is drawn");
            for _ in 0..20 {
                let mut of = |n| below(&mut state, n) as i64;
                let env = Env { i: of(100), j: of(100), step: of(4), length: 1 + of(99), head: of(3), given: None };
                let told = value(&own.scalar, &numbers(&own, &env, &|_, _| 0.0, 0.0));
                match eval(&expr, &env) {
                    Ok(expected) => assert_eq!(told, plain(expected), "{expr} at {env:?}"),
                    Err(why) => assert!(told.is_nan() && !own.is_total, "{expr} at {env:?}: {told}, {why}"),
                }
                if told.is_nan() { none += 1 } else { some += 1 }
            }
        }
        assert!(some > 20_000 && none > 20_000, "{some} with a value, {none} without");
    }

    #[test]
    fn learned_numbers_have_places_inside() {
        let expr = parsed("mul(learn(sub(i, j)), learn_p(head, rem(j, 3)))");
        let sizes = [vec![2], vec![3, 3]];
        let uses = tables(&expr);
        assert_eq!(uses.names, ["", "p"]);
        let own = ExprScalar::new(&expr, &uses.operands(), &sizes, &BiasFacts::new(3, None), LARGEST_BIAS)
            .expect("nothing is drawn");
        let table =
            |n: usize, at: usize| [[0.5, 0.25].as_slice(), &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]][n][at];
        for (i, j) in (0..5).flat_map(|i| (0..5).map(move |j| (i, j))) {
            let env = Env { i, j, head: 1, ..Env::default() };
            let found: &mut Lookup<'_> =
                &mut |at, indices| flat(indices, &sizes[at], &env).map(|place| table(at, place));
            let expected = reading(&expr, &env, found).map(plain);
            let told = value(&own.scalar, &numbers(&own, &env, &table, 0.0));
            assert_eq!(expected.ok(), (!told.is_nan()).then_some(told), "at {env:?}");
            assert!(!told.is_nan() || expected == Err(EvalError::OutsideTable));
        }
    }

    /// Shares are differences of the value.
    #[test]
    fn shares_are_differences() {
        let distance = "sub(i, j)";
        let clamped = format!("log(add(1, mul(max(learn_a(head), 0.01), {distance})))");
        for text in [
            format!("add(mul(neg(learn_b(head)), {clamped}), pow({distance}, learn_c(head)))"),
            "when(lt(read_0(j), 0.1), mul(score, read_0(i)), div(tanh(score), learn_a(head)))".to_owned(),
            "rem(mul(score, 5.0), add(2.5, read_0(i)))".to_owned(),
            "min(exp(score), mul(sqrt(add(2, read_0(j))), sigmoid(learn_a(0))))".to_owned(),
        ] {
            let expr = parsed(&text);
            let uses = tables(&expr).operands();
            let sizes = [vec![2], vec![2], vec![2]];
            let own = ExprScalar::new(&expr, &uses, &sizes, &BiasFacts::new(2, None), LARGEST_BIAS).expect("no draw");
            let env = Env { i: 5, j: 2, head: 1, ..Env::default() };
            let mut leaves = numbers(&own, &env, &|n, _| [0.7, 0.3, 1.2][n], 0.4);
            leaves.iter_mut().enumerate().for_each(|(n, x)| *x += if x.fract() == 0.0 { 0.0 } else { 0.01 * n as f64 });
            let shares = own.shares();
            assert!(!shares.is_empty(), "{text}");
            for (n, share) in shares {
                let moved = |by: f64| {
                    let mut moved = leaves.clone();
                    moved[n] += by;
                    value(&own.scalar, &moved)
                };
                let difference = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                let operands = [&leaves[..], &[value(&own.scalar, &leaves), 1.0]].concat();
                let found = gradient(&share, &operands);
                assert!((difference - found).abs() < 1e-6, "{text}, {:?}: {difference}, {found}", own.leaves[n]);
            }
        }
    }

    /// The value of a share.
    fn gradient(share: &Scalar, operands: &[f64]) -> f64 {
        let Scalar::Call(func, args) = share else { return value(share, operands) };
        let x: Vec<f64> = args.iter().map(|arg| gradient(arg, operands)).collect();
        match (func, &x[..]) {
            (Pointwise::ChainMul, [a, b]) => a * b,
            (Pointwise::ChainDiv, [a, b]) => a / b,
            (Pointwise::LogisticSlope, [a, b]) => a * b * (1.0 - b),
            (Pointwise::IfPositive, [a, b]) => {
                if *a > 0.0 {
                    *b
                } else {
                    0.0
                }
            }
            _ => value(&Scalar::Call(*func, x.into_iter().map(Number).collect()), &[]),
        }
    }
}
