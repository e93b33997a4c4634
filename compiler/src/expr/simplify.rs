//! Constant folding and the identities that hold for every value.

use super::{BinaryOp, Env, EvalError, Expr, ScalarValue, eval};

/// The simplest equal expression: constants are worked out and neutral operands dropped. What has no value (a division
/// by zero) stays as it is. Simplifying twice changes nothing.
pub fn simplify(expr: Expr) -> Expr {
    let simple = match expr {
        Expr::Neg(x) => Expr::Neg(Box::new(simplify(*x))),
        Expr::Not(x) => Expr::Not(Box::new(simplify(*x))),
        Expr::Binary(op, a, b) => Expr::Binary(op, Box::new(simplify(*a)), Box::new(simplify(*b))),
        Expr::Call(func, args) => Expr::Call(func, args.into_iter().map(simplify).collect()),
        Expr::Learn(table, args) => Expr::Learn(table, args.into_iter().map(simplify).collect()),
        Expr::Read(value, args) => Expr::Read(value, args.into_iter().map(simplify).collect()),
        leaf => return leaf,
    };
    match constant(&simple) {
        Some(Ok(value)) => value,
        _ => neutral(simple),
    }
}

/// The value of a node whose operands are constants, or why it has none; `None` if an operand is not constant.
pub(crate) fn constant(expr: &Expr) -> Option<Result<Expr, EvalError>> {
    let is_constant = |x: &&Expr| matches!(x, Expr::Int(_) | Expr::Float(_) | Expr::Bool(_));
    let operands = expr.operands();
    if operands.is_empty()
        || matches!(expr, Expr::Learn(..) | Expr::Read(..) | Expr::Draw(_))
        || !operands.iter().all(is_constant)
    {
        return None;
    }
    match eval(expr, &Env::default()) {
        // The smallest integer has no literal: it would not read back.
        Ok(ScalarValue::Int(i64::MIN)) => None,
        Ok(ScalarValue::Int(v)) => Some(Ok(Expr::Int(v))),
        Ok(ScalarValue::Float(v)) => Some(Ok(Expr::Float(v))),
        Ok(ScalarValue::Bool(v)) => Some(Ok(Expr::Bool(v))),
        Err(error) => Some(Err(error)),
    }
}

/// Drops operands that change nothing. The identities keep the kind of the result: an integer stays one.
fn neutral(expr: Expr) -> Expr {
    let Expr::Binary(op, a, b) = expr else {
        return match expr {
            Expr::Neg(x) => match *x {
                Expr::Neg(y) => *y,
                x => Expr::Neg(Box::new(x)),
            },
            Expr::Not(x) => match *x {
                Expr::Not(y) => *y,
                x => Expr::Not(Box::new(x)),
            },
            other => other,
        };
    };
    match (op, &*a, &*b) {
        (BinaryOp::Add | BinaryOp::Sub, _, Expr::Int(0))
        | (BinaryOp::Mul | BinaryOp::Div | BinaryOp::Pow, _, Expr::Int(1))
        | (BinaryOp::And, _, Expr::Bool(true))
        | (BinaryOp::Or, _, Expr::Bool(false)) => *a,
        (BinaryOp::Add, Expr::Int(0), _)
        | (BinaryOp::Mul, Expr::Int(1), _)
        | (BinaryOp::And, Expr::Bool(true), _)
        | (BinaryOp::Or, Expr::Bool(false), _) => *b,
        (BinaryOp::And, Expr::Bool(false), _) => Expr::Bool(false),
        (BinaryOp::Or, Expr::Bool(true), _) => Expr::Bool(true),
        _ => Expr::Binary(op, a, b),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Var;
    use super::*;

    fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
        Expr::Binary(op, Box::new(a), Box::new(b))
    }

    #[test]
    fn folds_constants_and_drops_neutral_operands() {
        let i = Expr::Var(Var::I);
        let one = binary(BinaryOp::Sub, Expr::Int(3), Expr::Int(2));
        assert_eq!(simplify(binary(BinaryOp::Mul, i.clone(), one)), i);
        let never = binary(BinaryOp::And, Expr::Bool(false), binary(BinaryOp::Lt, i.clone(), Expr::Int(3)));
        assert_eq!(simplify(never), Expr::Bool(false));
    }

    #[test]
    fn keeps_what_has_no_value() {
        let wrong = binary(BinaryOp::Div, Expr::Int(1), Expr::Int(0));
        assert_eq!(simplify(wrong.clone()), wrong);
    }

    #[test]
    fn negative_numbers_print_so_that_they_read_back() {
        let square = binary(BinaryOp::Pow, Expr::Int(-3), Expr::Var(Var::I));
        assert_eq!(square.to_string(), "(-3)^i");
    }
}
