//! A range of keys that contains every key that a query sees.

use std::ops::Range;

use super::{BinaryOp, Env, Expr, ScalarValue, Var, eval};

/// The keys of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyReach {
    /// A range that holds all of them.
    pub keys: Range<usize>,
    /// Whether it holds no others.
    pub exact: bool,
    /// Whether a part of the mask has no value at the query: such a part hides keys that a later one of an `or` would show.
    pub fails: bool,
}

/// A range that holds every key, of `keys`, for which the mask is true at this query; it may hold others. Comparisons that
/// are linear in the key narrow it, and `floor(j / w) == x`; what else there is does not.
pub fn reach(mask: &Expr, at: &Env, keys: usize) -> KeyReach {
    let KeySpan { low, high, exact, fails } =
        within(mask, at).and(KeySpan::new(0, i64::try_from(keys).unwrap_or(i64::MAX) - 1));
    match (usize::try_from(low), usize::try_from(high)) {
        (Ok(low), Ok(high)) if low <= high => KeyReach { keys: low..high + 1, exact, fails },
        _ => KeyReach { keys: 0..0, exact: true, fails },
    }
}

/// Keys from `low` to `high`; none where that is smaller.
#[derive(Clone, Copy)]
struct KeySpan {
    low: i64,
    high: i64,
    /// Whether all of them are meant.
    exact: bool,
    /// Whether a part has no value, whatever the key.
    fails: bool,
}

impl KeySpan {
    const ALL: Self = Self::new(i64::MIN, i64::MAX);
    const NONE: Self = Self::new(i64::MAX, i64::MIN);
    /// Nothing is known.
    const ANY: Self = Self { exact: false, ..Self::ALL };

    const fn new(low: i64, high: i64) -> Self {
        Self { low, high, exact: true, fails: false }
    }

    fn and(self, other: Self) -> Self {
        let (exact, fails) = (self.exact && other.exact, self.fails || other.fails);
        Self { low: self.low.max(other.low), high: self.high.min(other.high), exact, fails }
    }

    /// What holds both. Where the first has no value there is none of both, for keys that are not known here.
    fn or(self, other: Self) -> Self {
        let (exact, fails) = (self.exact && other.exact && !self.fails, self.fails || other.fails);
        let touch = other.low <= self.high.saturating_add(1) && self.low <= other.high.saturating_add(1);
        match (self.low > self.high, other.low > other.high) {
            (true, _) => Self { exact: other.exact && !self.fails, fails, ..other },
            (_, true) => Self { exact: self.exact && !self.fails, fails, ..self },
            _ => Self { low: self.low.min(other.low), high: self.high.max(other.high), exact: exact && touch, fails },
        }
    }
}

fn within(mask: &Expr, at: &Env) -> KeySpan {
    if !mask.uses(Var::J) && !mask.reads() {
        return match eval(mask, at) {
            Ok(ScalarValue::Bool(true)) => KeySpan::ALL,
            Ok(ScalarValue::Bool(false)) => KeySpan::NONE,
            // What has no value hides the key.
            _ => KeySpan { fails: true, ..KeySpan::NONE },
        };
    }
    match mask {
        Expr::Binary(BinaryOp::And, a, b) => within(a, at).and(within(b, at)),
        Expr::Binary(BinaryOp::Or, a, b) => within(a, at).or(within(b, at)),
        Expr::Binary(op, a, b) if op.is_boolean() => compared(*op, a, b, at).unwrap_or(KeySpan::ANY),
        _ => KeySpan::ANY,
    }
}

/// The keys for which a comparison holds.
fn compared(op: BinaryOp, a: &Expr, b: &Expr, at: &Env) -> Option<KeySpan> {
    if let Some(span) = quotient(op, a, b, at).or_else(|| quotient(op.mirrored(), b, a, at)) {
        return Some(span);
    }
    let (a, b) = (line(a, at)?, line(b, at)?);
    below(op, a.minus(b)?)
}

/// `x / w op c` for x linear in the key: `w c <= x < w c + w` where it is equal.
fn quotient(op: BinaryOp, a: &Expr, c: &Expr, at: &Env) -> Option<KeySpan> {
    let Expr::Binary(BinaryOp::Div, x, w) = a else { return None };
    if c.uses(Var::J) || w.uses(Var::J) {
        return None;
    }
    let (x, w, c) = (line(x, at)?, whole(w, at).filter(|w| *w > 0)?, whole(c, at)?);
    let start = |by: i64| AffineFunction::new(0, c.checked_add(by)?.checked_mul(w)?);
    let from = |start: Option<AffineFunction>| below(BinaryOp::Ge, x.minus(start?)?);
    let upto = |start: Option<AffineFunction>| below(BinaryOp::Lt, x.minus(start?)?);
    match op {
        BinaryOp::Eq => Some(from(start(0))?.and(upto(start(1))?)),
        BinaryOp::Lt => upto(start(0)),
        BinaryOp::Le => upto(start(1)),
        BinaryOp::Gt => from(start(1)),
        BinaryOp::Ge => from(start(0)),
        _ => None,
    }
}

/// `slope j + constant`.
#[derive(Clone, Copy)]
struct AffineFunction {
    slope: i64,
    constant: i64,
}

/// Slopes and constants up to here keep `slope j + constant` within 64 bits: where a part does not fit, the key is hidden.
const LARGEST: i64 = 1 << 31;

impl AffineFunction {
    fn new(slope: i64, constant: i64) -> Option<Self> {
        let small = |x: i64| (-LARGEST..=LARGEST).contains(&x);
        (small(slope) && small(constant)).then_some(Self { slope, constant })
    }

    fn minus(self, other: Self) -> Option<Self> {
        Self::new(self.slope.checked_sub(other.slope)?, self.constant.checked_sub(other.constant)?)
    }
}

/// An integer without the key.
fn whole(expr: &Expr, at: &Env) -> Option<i64> {
    match eval(expr, at) {
        Ok(ScalarValue::Int(v)) => Some(v),
        _ => None,
    }
}

fn line(expr: &Expr, at: &Env) -> Option<AffineFunction> {
    if !expr.uses(Var::J) {
        return AffineFunction::new(0, whole(expr, at)?);
    }
    let zero = AffineFunction { slope: 0, constant: 0 };
    match expr {
        Expr::Var(Var::J) => Some(AffineFunction { slope: 1, constant: 0 }),
        Expr::Neg(x) => zero.minus(line(x, at)?),
        Expr::Binary(BinaryOp::Add, a, b) => line(a, at)?.minus(zero.minus(line(b, at)?)?),
        Expr::Binary(BinaryOp::Sub, a, b) => line(a, at)?.minus(line(b, at)?),
        // A product of two sides that read the key is no line.
        Expr::Binary(BinaryOp::Mul, a, b) if !a.uses(Var::J) || !b.uses(Var::J) => {
            let (by, of) = if a.uses(Var::J) { (whole(b, at)?, line(a, at)?) } else { (whole(a, at)?, line(b, at)?) };
            AffineFunction::new(of.slope.checked_mul(by)?, of.constant.checked_mul(by)?)
        }
        _ => None,
    }
}

/// The keys for which `line op 0`.
fn below(op: BinaryOp, AffineFunction { slope, constant }: AffineFunction) -> Option<KeySpan> {
    let (limit, turned) = (constant.checked_neg()?, slope.checked_neg()?);
    match op {
        BinaryOp::Lt => Some(at_most(slope, limit.checked_sub(1)?)),
        BinaryOp::Le => Some(at_most(slope, limit)),
        BinaryOp::Gt => Some(at_most(turned, constant.checked_sub(1)?)),
        BinaryOp::Ge => Some(at_most(turned, constant)),
        BinaryOp::Eq => {
            let both = at_most(slope, limit).and(at_most(turned, constant));
            Some(KeySpan { exact: slope.abs() <= 1, ..both })
        }
        _ => None,
    }
}

/// The keys for which `slope j <= limit`.
fn at_most(slope: i64, limit: i64) -> KeySpan {
    match slope {
        0 if limit >= 0 => KeySpan::ALL,
        0 => KeySpan::NONE,
        // The Euclidean quotient is the largest j of a positive slope, and the smallest of a negative one.
        1.. => KeySpan { high: limit.div_euclid(slope), ..KeySpan::ALL },
        _ => limit.checked_div_euclid(slope).map_or(KeySpan::NONE, |low| KeySpan { low, ..KeySpan::ALL }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::attr;

    #[test]
    fn ranges_hold_every_key_and_little_more() {
        // Masks with the most keys that a range may hold besides those that are seen.
        for (text, more) in [
            ("le(j, i)", 0),
            ("gt(j, i)", 0),
            ("and(le(j, i), lt(sub(i, j), 3))", 0),
            ("and(le(j, i), eq(div(i, 4), div(j, 4)))", 0),
            ("eq(div(j, 4), div(i, 4))", 0),
            ("and(le(mul(2, j), add(i, 1)), ge(mul(3, j), i))", 0),
            ("or(lt(j, 2), le(j, sub(i, 5)))", 0),
            ("or(lt(j, 9), lt(sub(i, j), 3))", 20),
            ("or(and(lt(j, 9), eq(rem(4, sub(i, 7)), 0)), lt(j, 12))", 20),
            ("or(eq(rem(i, sub(i, 7)), 0), lt(j, 12))", 20),
            ("or(lt(j, 12), eq(rem(i, sub(i, 7)), 0))", 0),
            ("and(le(j, i), ge(div(j, 3), 2))", 0),
            ("and(le(j, i), gt(div(j, 3), 1))", 0),
            ("and(le(j, i), le(div(sub(i, j), 2), 1))", 0),
            ("eq(j, sub(i, 2))", 0),
            ("eq(mul(2, j), i)", 1),
            ("lt(j, length)", 0),
            ("le(mul(j, sub(mul(2, i), j)), 0)", 20),
            ("ge(mul(sub(j, i), sub(j, 3)), 0)", 20),
            ("and(le(j, i), eq(rem(sub(i, j), 3), 0))", 20),
            ("not(le(j, i))", 20),
            ("ne(j, i)", 20),
        ] {
            let mask = Expr::try_from(&attr::parse(text).expect("an attribute")).expect("an expression");
            let simple = ["le(j, i)", "and(le(j, i), lt(sub(i, j), 3))", "and(le(j, i), eq(div(i, 4), div(j, 4)))"]
                .contains(&text);
            for i in 0..20 {
                let at = Env { i, length: 20, ..Env::default() };
                let KeyReach { keys: found, exact, .. } = reach(&mask, &at, 20);
                let sees = |j: usize| eval(&mask, &Env { j: j as i64, ..at }) == Ok(ScalarValue::Bool(true));
                let seen: Vec<usize> = (0..20).filter(|j| sees(*j)).collect();
                assert!(seen.iter().all(|j| found.contains(j)), "{text} at {i}: {found:?}");
                let span = seen.first().zip(seen.last()).map_or(0, |(first, last)| last - first + 1);
                assert!(found.len() <= span + more, "{text} at {i}: {found:?} for {seen:?}");
                assert!(!exact || found.len() == seen.len(), "{text} at {i}: {found:?} for {seen:?}");
                assert!(exact || !simple, "{text} at {i} is a range");
            }
        }
    }
}
