//! Quotients of whole numbers: `a / b` is the real one, and `floor(a / b)` the whole one, rounded down.
//!
//! In an expression that was worked out, a division of whole numbers rounds down, and the real quotient has a real operand:
//! `1.0 a / b`. Here these are told apart, made, and written as the language writes them.

use super::{BinaryOp, Expr, Func, range::is_natural};

impl Expr {
    /// Whether its value is a whole number, by its form.
    pub fn is_whole(&self) -> bool {
        match self {
            Self::Int(_) | Self::Var(_) | Self::Given => true,
            Self::Float(_)
            | Self::Bool(_)
            | Self::Not(_)
            | Self::Learn(..)
            | Self::Read(..)
            | Self::Score
            | Self::Angle => false,
            Self::Neg(x) => x.is_whole(),
            Self::Binary(BinaryOp::Pow, a, b) => a.is_whole() && b.is_whole() && is_natural(b),
            Self::Binary(op, a, b) => !op.is_boolean() && a.is_whole() && b.is_whole(),
            Self::Call(Func::Floor | Func::Log, _) => true,
            Self::Call(func, _) if *func == Func::Ln || func.of_real(0.0).is_some() => false,
            Self::Call(Func::When, args) => args.iter().skip(1).all(Self::is_whole),
            Self::Call(_, args) => args.iter().all(Self::is_whole),
            Self::Draw(draw) => draw.distribution.is_whole(),
        }
    }

    /// `a / b` of whole numbers: whole where they are known and b divides a, else real.
    pub(crate) fn quotient(a: Self, b: Self) -> Self {
        let real = match (&a, &b) {
            (Self::Int(x), Self::Int(y)) if x.checked_rem(*y) == Some(0) => a,
            (Self::Int(x), _) => Self::Float(*x as f64),
            _ => Self::Binary(BinaryOp::Mul, Box::new(Self::Float(1.0)), Box::new(a)),
        };
        Self::Binary(BinaryOp::Div, Box::new(real), Box::new(b))
    }

    /// `floor(a / b)` of whole numbers.
    pub(crate) fn whole_quotient(a: Self, b: Self) -> Self {
        Self::Binary(BinaryOp::Div, Box::new(a), Box::new(b))
    }

    /// The whole numbers whose quotient this is, and whether it is rounded down.
    pub(super) fn parts_of_quotient(&self) -> Option<(&Self, &Self, bool)> {
        let Self::Binary(BinaryOp::Div, a, b) = self else { return None };
        match &**a {
            a if a.is_whole() && b.is_whole() => Some((a, b, true)),
            Self::Binary(BinaryOp::Mul, one, a) if **one == Self::Float(1.0) && a.is_whole() && b.is_whole() => {
                Some((a, b, false))
            }
            _ => None,
        }
    }
}
