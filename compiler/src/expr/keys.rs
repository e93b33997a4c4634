//! A bound on the number of keys that a query sees, by the form of the mask.

use super::range::{BiasFacts, bounds};
use super::{BinaryOp, Expr, Var};

/// A bound on the keys of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyBound {
    /// At most so many keys.
    pub most: usize,
    /// Whether they may lie far from one another.
    pub strided: bool,
}

/// How many keys a query sees at most, in a row of any length; `None` where the mask's form does not tell. Known are
/// windows (`0 <= i - j < w`), blocks (`floor(i / w) == floor(j / w)`) and strides (`(i - j) % s == 0` with bounds on
/// `floor((i - j) / s)`), alone or together with other conditions.
pub fn keys(mask: &Expr) -> Option<KeyBound> {
    let facts = BiasFacts::new(1, Some(mask));
    let mut parts = vec![];
    conjuncts(mask, &mut parts);
    let distance = Expr::Binary(BinaryOp::Sub, Box::new(Expr::Var(Var::I)), Box::new(Expr::Var(Var::J)));
    let window = count(&distance, &facts);
    let found = parts.iter().filter_map(|part| stride(part, &facts).or_else(|| block(part)));
    found.chain(window.map(|most| KeyBound { most, strided: false })).min_by_key(|keys| (keys.most, keys.strided))
}

/// The least and the largest distance `i - j` at which a mask shows a key, infinite where its form does not tell: of windows, and of blocks.
pub fn distances(mask: &Expr) -> (f64, f64) {
    let mut parts = vec![];
    conjuncts(mask, &mut parts);
    let distance = Expr::Binary(BinaryOp::Sub, Box::new(Expr::Var(Var::I)), Box::new(Expr::Var(Var::J)));
    let (low, high) = bounds(&distance, &BiasFacts::new(1, Some(mask)));
    let of_block = |part: &&Expr| {
        let Expr::Binary(BinaryOp::Eq, a, b) = part else { return None };
        let (Expr::Binary(BinaryOp::Div, x, v), Expr::Binary(BinaryOp::Div, y, w)) = (&**a, &**b) else { return None };
        let Expr::Int(width) = **w else { return None };
        let places =
            matches!((&**x, &**y), (Expr::Var(Var::I), Expr::Var(Var::J)) | (Expr::Var(Var::J), Expr::Var(Var::I)));
        (places && v == w && width > 0).then_some(width as f64 - 1.0)
    };
    let most = parts.iter().filter_map(of_block).fold(f64::INFINITY, f64::min);
    (low.max(-most), high.min(most))
}

fn conjuncts<'e>(mask: &'e Expr, parts: &mut Vec<&'e Expr>) {
    match mask {
        Expr::Binary(BinaryOp::And, a, b) => {
            conjuncts(a, parts);
            conjuncts(b, parts);
        }
        other => parts.push(other),
    }
}

/// How many values an expression has, where that is bounded.
fn count(expr: &Expr, facts: &BiasFacts<'_>) -> Option<usize> {
    let (low, high) = bounds(expr, facts);
    let most = high - low + 1.0;
    (most.is_finite() && most <= f64::from(u32::MAX)).then_some(most.max(0.0) as usize)
}

/// `x % s == 0` where x moves with the key: every key has a quotient `floor(x / s)` of its own.
fn stride(part: &Expr, facts: &BiasFacts<'_>) -> Option<KeyBound> {
    let Expr::Binary(BinaryOp::Eq, rest, zero) = part else { return None };
    let Expr::Binary(BinaryOp::Rem, x, s) = &**rest else { return None };
    if **zero != Expr::Int(0) || !moves(x) || s.uses(Var::J) {
        return None;
    }
    let quotient = Expr::Binary(BinaryOp::Div, x.clone(), s.clone());
    count(&quotient, facts).map(|most| KeyBound { most, strided: true })
}

/// `floor(j / w) == x` with a constant w: the keys of one block.
fn block(part: &Expr) -> Option<KeyBound> {
    let Expr::Binary(BinaryOp::Eq, a, b) = part else { return None };
    [(a, b), (b, a)].into_iter().find_map(|(own, other)| {
        let Expr::Binary(BinaryOp::Div, key, width) = &**own else { return None };
        let Expr::Int(width) = **width else { return None };
        let most = usize::try_from(width).ok().filter(|w| *w > 0 && moves(key) && !other.uses(Var::J))?;
        Some(KeyBound { most, strided: false })
    })
}

/// Whether the value changes by one from key to key.
fn moves(expr: &Expr) -> bool {
    match expr {
        Expr::Var(Var::J) => true,
        Expr::Neg(x) => moves(x),
        Expr::Binary(BinaryOp::Add | BinaryOp::Sub, a, b) => {
            (moves(a) && !b.uses(Var::J)) || (!a.uses(Var::J) && moves(b))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::{Env, ScalarValue, eval};
    use crate::ir::attr;

    fn of(text: &str) -> Option<(usize, bool)> {
        let mask = Expr::try_from(&attr::parse(text).expect("an attribute")).expect("an expression");
        keys(&mask).map(|keys| (keys.most, keys.strided))
    }

    #[test]
    fn windows_and_blocks_have_near_keys() {
        for (mask, expected) in [
            ("and(le(j, i), lt(sub(i, j), 8))", (0.0, 7.0)),
            ("and(ge(j, sub(i, 2)), le(j, add(i, 2)))", (-2.0, 2.0)),
            ("and(le(j, i), eq(div(i, 4), div(j, 4)))", (0.0, 3.0)),
            ("eq(div(j, 4), div(i, 4))", (-3.0, 3.0)),
            ("eq(div(j, 4), div(i, 5))", (f64::NEG_INFINITY, f64::INFINITY)),
            ("and(le(j, i), le(sub(i, j), add(rem(i, 4), 3)))", (0.0, 6.0)),
            ("le(j, i)", (0.0, f64::INFINITY)),
            ("or(lt(j, 4), le(j, i))", (f64::NEG_INFINITY, f64::INFINITY)),
        ] {
            let mask = Expr::try_from(&attr::parse(mask).expect("an attribute")).expect("an expression");
            assert_eq!(distances(&mask), expected, "{mask}");
            for (i, j) in (0..30).flat_map(|i| (0..30).map(move |j| (i, j))) {
                let seen = eval(&mask, &Env { i, j, length: 30, ..Env::default() }) == Ok(ScalarValue::Bool(true));
                let distance = (i - j) as f64;
                assert!(!seen || (expected.0..=expected.1).contains(&distance), "{mask}: {i} sees {j}");
            }
        }
    }

    #[test]
    fn windows_blocks_and_strides_have_few_keys() {
        for (mask, expected) in [
            ("and(le(j, i), lt(sub(i, j), 8))", Some((8, false))),
            ("and(ge(j, sub(i, 2)), le(j, add(i, 2)))", Some((5, false))),
            ("and(le(j, i), eq(div(i, 4), div(j, 4)))", Some((4, false))),
            (
                "and(and(le(j, i), eq(rem(sub(i, j), pow(3, step)), 0)), lt(div(sub(i, j), pow(3, step)), 3))",
                Some((3, true)),
            ),
            ("and(and(le(j, i), lt(sub(i, j), 64)), eq(rem(j, 2), 0))", Some((64, false))),
            ("le(j, i)", None),
            ("or(lt(j, 4), le(j, i))", None),
            ("and(le(j, i), eq(rem(sub(i, j), 2), 0))", None),
        ] {
            assert_eq!(of(mask), expected, "{mask}");
        }
    }
}
