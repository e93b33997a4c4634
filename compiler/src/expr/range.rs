//! Bounds of the indices of learned tables: interval arithmetic, narrowed by the comparisons of the mask.

use super::{BinaryOp, Distribution, Expr, Func, ReadFrom, ScalarValue, Uses, Var, eval, tables};

/// Whole numbers are exact up to this size; larger ones are none.
pub const LARGEST_WHOLE: f64 = (1_u64 << 52) as f64;
/// The largest size of a bias: that of numbers in single precision.
pub const LARGEST_BIAS: f64 = f32::MAX as f64;

/// Facts that hold wherever a bias is evaluated.
#[derive(Clone, Copy, Debug)]
pub struct BiasFacts<'e> {
    /// Number of heads.
    pub heads: usize,
    /// The mask of the attention; none where every key is seen.
    pub mask: Option<&'e Expr>,
    /// What no position, length, step or depth exceeds; infinite where that matters not.
    pub farthest: f64,
}

impl<'e> BiasFacts<'e> {
    /// Positions and lengths have no bound.
    pub fn new(heads: usize, mask: Option<&'e Expr>) -> Self {
        Self { heads, mask, farthest: f64::INFINITY }
    }

    /// Positions and lengths are numbers of 32 bits, as in every run.
    pub fn of_rows(heads: usize, mask: Option<&'e Expr>) -> Self {
        Self { farthest: f64::from(u32::MAX), ..Self::new(heads, mask) }
    }
}

/// An index that has no bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Unbounded {
    pub index: Expr,
    /// Whether it may be negative; else it may be too large.
    pub negative: bool,
}

/// The most numbers that a table may have.
const LARGEST: f64 = 16_777_216.0;

/// The sizes of every table of a bias, in order: each index lies between 0 and its size, wherever the table is read.
///
/// # Errors
/// An index for which that can't be shown.
pub fn sizes(bias: &Expr, facts: &BiasFacts<'_>) -> Result<Vec<Vec<usize>>, Unbounded> {
    let Uses { names, uses, .. } = tables(bias);
    let mut sizes = vec![vec![]; names.len()];
    for (from, indices) in uses {
        let ReadFrom::Table(at) = from else { continue };
        for (n, size) in table(indices, facts)?.into_iter().enumerate() {
            match sizes[at].get_mut(n) {
                Some(known) => *known = size.max(*known),
                None => sizes[at].push(size),
            }
        }
    }
    Ok(sizes)
}

fn table(indices: &[Expr], facts: &BiasFacts<'_>) -> Result<Vec<usize>, Unbounded> {
    let mut sizes = vec![];
    let mut total = 1.0;
    for index in indices {
        let NumberRange { low, high } = range(index, facts);
        total *= high + 1.0;
        if low < 0.0 || total > LARGEST {
            return Err(Unbounded { index: index.clone(), negative: low < 0.0 });
        }
        sizes.push(high as usize + 1);
    }
    Ok(sizes)
}

/// The largest number that an expression can be, whatever the row; infinite where nothing in it says so.
pub fn most(expr: &Expr) -> f64 {
    range(expr, &BiasFacts::new(1, None)).high
}

/// Whether the form of an expression shows that it is never below 0.
pub(crate) fn is_natural(expr: &Expr) -> bool {
    range(expr, &BiasFacts::new(usize::MAX, None)).low >= 0.0
}

/// The least and the largest number that an expression can be, as far as its form and the mask tell.
pub(crate) fn bounds(expr: &Expr, facts: &BiasFacts<'_>) -> (f64, f64) {
    let NumberRange { low, high } = range(expr, facts);
    (low, high)
}

/// All numbers from `low` to `high`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct NumberRange {
    low: f64,
    high: f64,
}

impl NumberRange {
    const ANY: Self = Self { low: f64::NEG_INFINITY, high: f64::INFINITY };

    fn at_least(low: f64) -> Self {
        Self { low, high: f64::INFINITY }
    }

    fn only(value: f64) -> Self {
        Self { low: value, high: value }
    }

    /// What lies in both.
    fn and(self, other: Self) -> Self {
        Self { low: self.low.max(other.low), high: self.high.min(other.high) }
    }

    /// The range of a function that rises or falls in each of its two arguments: its corners tell.
    fn corners(a: Self, b: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        let all = [f(a.low, b.low), f(a.low, b.high), f(a.high, b.low), f(a.high, b.high)];
        // Infinity times 0 has no value: here the 0 is exact.
        let all = all.map(|x| if x.is_nan() { 0.0 } else { x });
        Self {
            low: all.into_iter().fold(f64::INFINITY, f64::min),
            high: all.into_iter().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    fn negated(self) -> Self {
        Self { low: -self.high, high: -self.low }
    }
}

/// The range of a number, by its form and by what the mask says of it.
fn range(expr: &Expr, facts: &BiasFacts<'_>) -> NumberRange {
    let by_form = form(expr, facts);
    facts.mask.map_or(by_form, |mask| promised(mask, expr, facts, by_form))
}

fn form(expr: &Expr, facts: &BiasFacts<'_>) -> NumberRange {
    let of = |x: &Expr| range(x, facts);
    match expr {
        Expr::Int(v) => NumberRange::only(*v as f64),
        Expr::Float(v) => NumberRange::only(*v),
        Expr::Var(Var::Head) => NumberRange { low: 0.0, high: facts.heads as f64 - 1.0 },
        Expr::Var(Var::Length) => NumberRange { low: 1.0, high: facts.farthest },
        Expr::Var(_) | Expr::Given => NumberRange { low: 0.0, high: facts.farthest },
        Expr::Neg(x) => of(x).negated(),
        Expr::Binary(op, a, b) => operator(*op, is_whole(a) && is_whole(b), of(a), of(b)),
        Expr::Call(Func::Floor, args) => args.first().map_or(NumberRange::ANY, |x| {
            let x = of(x);
            NumberRange { low: x.low.floor(), high: x.high.floor() }
        }),
        Expr::Call(Func::Ln, args) => args.first().map_or(NumberRange::ANY, |x| {
            let x = of(x);
            NumberRange { low: x.low.max(0.0).ln(), high: x.high.max(0.0).ln() }
        }),
        Expr::Call(func @ (Func::Exp | Func::Sqrt | Func::Tanh | Func::Sigmoid), args) => {
            args.first().map_or(NumberRange::ANY, |x| rising(*func, of(x)))
        }
        // Doubling reaches every whole number of 64 bits in 63 steps. Without a bound of positions a table has none either.
        Expr::Call(Func::Log, _) => {
            NumberRange { low: 0.0, high: if facts.farthest.is_finite() { 63.0 } else { f64::INFINITY } }
        }
        Expr::Call(Func::Min, args) => {
            let all = args.iter().map(of);
            all.reduce(|a, b| NumberRange { low: a.low.min(b.low), high: a.high.min(b.high) })
                .unwrap_or(NumberRange::ANY)
        }
        Expr::Call(Func::When, args) => {
            let [c, a, b] = &args[..] else { return NumberRange::ANY };
            let (a, b) = (promised(c, a, facts, of(a)), of(b));
            NumberRange { low: a.low.min(b.low), high: a.high.max(b.high) }
        }
        Expr::Call(Func::Max, args) => {
            let all = args.iter().map(of);
            all.reduce(|a, b| NumberRange { low: a.low.max(b.low), high: a.high.max(b.high) })
                .unwrap_or(NumberRange::ANY)
        }
        Expr::Draw(draw) => match (draw.distribution, &draw.args[..]) {
            (Distribution::Uniform, [a, b]) => NumberRange { low: of(a).low, high: of(b).high },
            (Distribution::Geometric, _) => NumberRange::at_least(1.0),
            _ => NumberRange::at_least(0.0),
        },
        // Parameters and values have single precision.
        Expr::Learn(..) | Expr::Read(..) | Expr::Score | Expr::Angle => {
            NumberRange { low: -f64::from(f32::MAX), high: f64::from(f32::MAX) }
        }
        Expr::Bool(_) | Expr::Not(_) => NumberRange::ANY,
    }
}

/// The range of a function that rises with its operand; without bounds where some operands have no value.
fn rising(func: Func, x: NumberRange) -> NumberRange {
    match [x.low, x.high].map(|x| func.of_real(x)) {
        [Some(low), Some(high)] if !low.is_nan() && !high.is_nan() => NumberRange { low, high },
        _ => NumberRange::ANY,
    }
}

fn operator(op: BinaryOp, whole: bool, a: NumberRange, b: NumberRange) -> NumberRange {
    match op {
        BinaryOp::Add => NumberRange { low: a.low + b.low, high: a.high + b.high },
        BinaryOp::Sub => NumberRange { low: a.low - b.high, high: a.high - b.low },
        BinaryOp::Mul => NumberRange::corners(a, b, |a, b| a * b),
        // Rounding down keeps the order, so it may be left out where a real number is divided, and changes a bound by less than 1.
        BinaryOp::Div if b.low > 0.0 => {
            let exact = NumberRange::corners(a, b, |a, b| a / b);
            NumberRange { low: exact.low.floor(), ..exact }
        }
        BinaryOp::Rem if b.low > 0.0 => {
            let small = a.low >= 0.0 && a.high < b.low;
            // Whole numbers stay at least 1 below the divisor. A real remainder is a difference of rounded numbers: it is as wrong as
            // what is divided is large.
            let wrong = a.low.abs().max(a.high.abs()) * (2.0 * f64::EPSILON);
            match whole {
                _ if small => a,
                true => NumberRange { low: 0.0, high: b.high - 1.0 },
                false if wrong.is_finite() => NumberRange { low: -wrong, high: b.high + wrong },
                false => NumberRange::ANY,
            }
        }
        BinaryOp::Pow if a.low > 0.0 || (a.low >= 0.0 && b.low >= 0.0) => NumberRange::corners(a, b, f64::powf),
        BinaryOp::Pow if a.low >= 0.0 => NumberRange::at_least(0.0),
        _ => NumberRange::ANY,
    }
}

/// Whether every number in an expression is an integer.
pub(crate) fn is_whole(expr: &Expr) -> bool {
    match expr {
        Expr::Float(_) | Expr::Learn(..) | Expr::Read(..) | Expr::Score | Expr::Angle => false,
        Expr::Call(Func::Floor, _) => true,
        Expr::Call(Func::When, args) => args.iter().skip(1).all(is_whole),
        Expr::Call(func, _) if *func == Func::Ln || func.of_real(0.0).is_some() => false,
        Expr::Draw(draw) => draw.distribution.is_whole(),
        other => other.operands().into_iter().all(is_whole),
    }
}

/// `known` of `expr`, narrowed by the comparisons that a mask makes.
fn promised(mask: &Expr, expr: &Expr, facts: &BiasFacts<'_>, known: NumberRange) -> NumberRange {
    let Expr::Binary(op, a, b) = mask else { return known };
    let (upper, lower) = match op {
        BinaryOp::And => {
            let known = promised(a, expr, facts, known);
            return promised(b, expr, facts, known);
        }
        BinaryOp::Lt => (Some(-1.0), None),
        BinaryOp::Le => (Some(0.0), None),
        BinaryOp::Gt => (None, Some(1.0)),
        BinaryOp::Ge => (None, Some(0.0)),
        BinaryOp::Eq => (Some(0.0), Some(0.0)),
        _ => return known,
    };
    if !is_whole(a) || !is_whole(b) {
        return known;
    }
    // a - b is at most `upper` and at least `lower`.
    let difference = NumberRange { low: lower.unwrap_or(f64::NEG_INFINITY), high: upper.unwrap_or(f64::INFINITY) };
    // By itself, and not by the mask again: that would have no end.
    let plain = BiasFacts { mask: None, ..*facts };
    let mut found = known;
    if **a == *expr {
        found = found.and(operator(BinaryOp::Add, true, difference, form(b, &plain)));
    }
    if **b == *expr {
        found = found.and(operator(BinaryOp::Sub, true, form(a, &plain), difference));
    }
    if let Some((sign, offset)) = same(expr, a, b) {
        let signed = if sign { difference } else { difference.negated() };
        found = found.and(NumberRange { low: signed.low + offset, high: signed.high + offset });
    }
    found
}

/// Where `expr` is `a - b` (or `b - a`, with `false`) plus a constant, as linear terms of the variables: that constant.
fn same(expr: &Expr, a: &Expr, b: &Expr) -> Option<(bool, f64)> {
    let (x, y) = (linear(expr)?, linear(a)?.plus(&linear(b)?, -1)?);
    [(true, 1), (false, -1)].into_iter().find_map(|(sign, by)| {
        let rest = x.plus(&y, -by)?;
        (rest.factors == [0; 5]).then_some((sign, rest.constant as f64))
    })
}

/// A sum of variables with constant factors.
#[derive(Clone, Debug)]
struct LinearSum {
    factors: [i64; 5],
    constant: i64,
}

impl LinearSum {
    fn plus(&self, other: &Self, by: i64) -> Option<Self> {
        let mut sum = self.clone();
        for (to, from) in sum.factors.iter_mut().zip(other.factors) {
            *to = to.checked_add(from.checked_mul(by)?)?;
        }
        sum.constant = sum.constant.checked_add(other.constant.checked_mul(by)?)?;
        Some(sum)
    }
}

fn linear(expr: &Expr) -> Option<LinearSum> {
    let zero = LinearSum { factors: [0; 5], constant: 0 };
    match expr {
        Expr::Var(var) => {
            let mut one = zero;
            one.factors[Var::ALL.iter().position(|v| v == var)?] = 1;
            Some(one)
        }
        Expr::Neg(x) => zero.plus(&linear(x)?, -1),
        Expr::Binary(BinaryOp::Add, a, b) => linear(a)?.plus(&linear(b)?, 1),
        Expr::Binary(BinaryOp::Sub, a, b) => linear(a)?.plus(&linear(b)?, -1),
        other => match eval(other, &super::Env::default()) {
            // Without variables, it is a constant.
            Ok(ScalarValue::Int(v)) if Var::ALL.iter().all(|var| !other.uses(*var)) => {
                Some(LinearSum { constant: v, ..zero })
            }
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::attr;

    fn expr(text: &str) -> Expr {
        Expr::try_from(&attr::parse(text).expect("an attribute")).expect("an expression")
    }

    fn of(bias: &str, mask: &str) -> Result<Vec<Vec<usize>>, (String, bool)> {
        let mask = expr(mask);
        let found = sizes(&expr(bias), &BiasFacts::new(4, Some(&mask)));
        found.map_err(|e| (e.index.to_string(), e.negative))
    }

    #[test]
    fn heads_hops_windows_and_buckets_have_sizes() {
        let causal = "le(j, i)";
        let dilated = "and(and(le(j, i), eq(rem(sub(i, j), pow(3, step)), 0)), lt(div(sub(i, j), pow(3, step)), 3))";
        let bucket =
            "add(min(sub(i, j), 16), min(15, floor(div(mul(16.0, log(div(max(sub(i, j), 16), 16.0))), log(8.0)))))";
        for (bias, mask, expected) in [
            ("learn(head)", "true", vec![vec![4]]),
            ("learn(head, div(sub(i, j), pow(3, step)))", dilated, vec![vec![4, 3]]),
            ("learn(min(sub(i, j), 7))", causal, vec![vec![8]]),
            ("learn(sub(i, j))", "and(le(j, i), lt(sub(i, j), 5))", vec![vec![5]]),
            ("learn(sub(j, i))", "and(ge(j, i), le(j, add(i, 2)))", vec![vec![3]]),
            ("learn(rem(i, 6))", "true", vec![vec![6]]),
            ("add(learn(head), mul(learn(min(step, 2)), 3))", "true", vec![vec![4], vec![3]]),
            ("add(learn_a(head), mul(learn_a(min(step, 6)), learn_b(head)))", "true", vec![vec![7], vec![4]]),
            (&format!("learn(head, {bucket})"), causal, vec![vec![4, 32]]),
            ("learn(add(min(max(sub(i, j), -3), 3), 3))", "true", vec![vec![7]]),
        ] {
            assert_eq!(of(bias, mask), Ok(expected), "{bias}");
        }
    }

    #[test]
    fn what_has_no_bound_is_named() {
        assert_eq!(of("learn(sub(i, j))", "le(j, i)"), Err(("i - j".to_owned(), false)));
        assert_eq!(of("learn(min(sub(i, j), 3))", "true"), Err(("min(i - j, 3)".to_owned(), true)));
        assert_eq!(of("learn(step)", "true"), Err(("step".to_owned(), false)));
    }
}
