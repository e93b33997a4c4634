//! Expressions that see positions only through their distance `i - j`.

use super::{BinaryOp, Expr, ScoreExpr, Var};

/// Whether the value stays the same when `i` and `j` move together, and does not depend on the length. Such an expression
/// can be evaluated once per distance, with `j` or `i` at 0, for all pairs of positions. What is no sum of products with
/// constants must hold no position except through such parts.
pub fn by_distance(expr: &Expr) -> bool {
    if expr.uses(Var::Length) {
        return false;
    }
    if let Some(Shift(by)) = shift(expr) {
        return by == 0;
    }
    match expr {
        // `j <= i` moves on both sides alike.
        Expr::Binary(op, a, b) if op.is_boolean() => match (shift(a), shift(b)) {
            (Some(a), Some(b)) => a == b,
            _ => by_distance(a) && by_distance(b),
        },
        other => other.operands().into_iter().all(by_distance),
    }
}

/// Whether an attention can evaluate mask and bias once per distance for all heads. Where gradients go apart, or a score is more than a sum,
/// it goes pair by pair.
pub fn pairs_by_distance(mask: Option<&Expr>, score: &ScoreExpr, stop: Option<&Expr>) -> bool {
    let ScoreExpr::Parts { bias, .. } = score else { return false };
    let headless = mask.is_none_or(|mask| !mask.uses(Var::Head));
    mask.into_iter().chain(bias).all(by_distance) && headless && stop.is_none()
}

/// How much a linear term grows when `i` and `j` grow by one.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shift(i64);

/// The growth of a term that is linear in the positions, with constant factors; `None` for others.
fn shift(expr: &Expr) -> Option<Shift> {
    match expr {
        Expr::Var(Var::I | Var::J) => Some(Shift(1)),
        _ if !expr.uses(Var::I) && !expr.uses(Var::J) => Some(Shift(0)),
        Expr::Neg(x) => Some(Shift(shift(x)?.0.checked_neg()?)),
        Expr::Binary(BinaryOp::Add, a, b) => Some(Shift(shift(a)?.0.checked_add(shift(b)?.0)?)),
        Expr::Binary(BinaryOp::Sub, a, b) => Some(Shift(shift(a)?.0.checked_sub(shift(b)?.0)?)),
        Expr::Binary(BinaryOp::Mul, a, b) => match (&**a, &**b) {
            (Expr::Int(by), x) | (x, Expr::Int(by)) => Some(Shift(shift(x)?.0.checked_mul(*by)?)),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::attr;

    fn of(text: &str) -> bool {
        by_distance(&Expr::try_from(&attr::parse(text).expect("an attribute")).expect("an expression"))
    }

    #[test]
    fn windows_and_dilations_are_and_blocks_are_not() {
        for yes in [
            "le(j, i)",
            "and(le(j, i), lt(sub(i, j), 8))",
            "and(le(j, i), eq(rem(sub(i, j), pow(2, step)), 0))",
            "mul(learn(head, sub(i, j)), log(add(1, sub(i, j))))",
            "lt(add(mul(2, i), 1), mul(2, j))",
            "lt(head, step)",
        ] {
            assert!(of(yes), "{yes}");
        }
        for no in [
            "eq(div(i, 4), div(j, 4))",
            "lt(j, 4)",
            "lt(sub(i, j), length)",
            "lt(add(i, j), 8)",
            "lt(mul(i, i), mul(j, j))",
            "eq(rem(sub(i, mul(2, j)), 2), 0)",
        ] {
            assert!(!of(no), "{no}");
        }
    }
}
