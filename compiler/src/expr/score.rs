//! The score of a query and a key as an expression of their product: parts for which attention has kernels, or any other.

use super::{BinaryOp, Expr, Func};

/// The form of a score.
#[derive(Clone, Debug, PartialEq)]
pub enum ScoreExpr {
    /// The score, or `c tanh(score / c)` for a bound c, plus a number that does not depend on it.
    Parts {
        /// The bound.
        cap: Option<f64>,
        /// What is added.
        bias: Option<Expr>,
    },
    /// Any other expression of the score.
    Whole(Expr),
}

impl ScoreExpr {
    /// The score as it is.
    pub const PLAIN: Self = Self::Parts { cap: None, bias: None };

    /// The form of an expression.
    pub fn of(expr: &Expr) -> Self {
        let (first, bias) = match expr {
            Expr::Binary(BinaryOp::Add, first, bias) if !bias.holds_score() => (&**first, Some((**bias).clone())),
            Expr::Binary(BinaryOp::Add, bias, first) if !bias.holds_score() => (&**first, Some((**bias).clone())),
            Expr::Binary(BinaryOp::Sub, first, less) if !less.holds_score() => {
                (&**first, Some(Expr::Neg(less.clone())))
            }
            other => (other, None),
        };
        match (first, bounded(first)) {
            (Expr::Score, _) => Self::Parts { cap: None, bias },
            (_, Some(cap)) => Self::Parts { cap: Some(cap), bias },
            _ => Self::Whole(expr.clone()),
        }
    }

    /// The expression that is worked out for every pair of a query and a key: what is added, or the whole score.
    pub fn of_pairs(&self) -> Option<&Expr> {
        match self {
            Self::Parts { bias, .. } => bias.as_ref(),
            Self::Whole(expr) => Some(expr),
        }
    }

    /// What scores stay below before something is added, if anything.
    pub fn cap(&self) -> Option<f64> {
        match self {
            Self::Parts { cap, .. } => *cap,
            Self::Whole(_) => None,
        }
    }
}

impl Expr {
    /// The score, below a bound where there is one, plus a bias where there is one.
    pub fn score(cap: Option<f64>, bias: Option<Self>) -> Self {
        let first = cap.map_or(Self::Score, |cap| {
            let part = Self::Binary(BinaryOp::Div, Box::new(Self::Score), Box::new(Self::Float(cap)));
            let bounded = Self::Call(Func::Tanh, vec![part]);
            Self::Binary(BinaryOp::Mul, Box::new(Self::Float(cap)), Box::new(bounded))
        });
        match bias {
            Some(bias) => Self::Binary(BinaryOp::Add, Box::new(first), Box::new(bias)),
            None => first,
        }
    }
}

/// The c of `c tanh(score / c)`.
fn bounded(expr: &Expr) -> Option<f64> {
    let Expr::Binary(BinaryOp::Mul, most, tanh) = expr else { return None };
    let Expr::Call(Func::Tanh, args) = &**tanh else { return None };
    let [Expr::Binary(BinaryOp::Div, score, by)] = &args[..] else { return None };
    let number = |x: &Expr| match x {
        Expr::Int(x) => Some(*x as f64),
        Expr::Float(x) => Some(*x),
        _ => None,
    };
    (**score == Expr::Score && number(most) == number(by)).then(|| number(most)).flatten().filter(|most| *most > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::attr;

    fn of(text: &str) -> ScoreExpr {
        ScoreExpr::of(&Expr::try_from(&attr::parse(text).expect("an attribute")).expect("an expression"))
    }

    #[test]
    fn caps_and_biases_are_parts() {
        let distance = || Expr::try_from(&attr::parse("sub(i, j)").expect("an attribute")).ok();
        let parts = |cap, bias| ScoreExpr::Parts { cap, bias };
        assert_eq!(of("score"), ScoreExpr::PLAIN);
        assert_eq!(of("add(score, sub(i, j))"), parts(None, distance()));
        assert_eq!(of("add(sub(i, j), score)"), parts(None, distance()));
        let less = distance().map(|x| Expr::Neg(Box::new(x)));
        assert_eq!(of("sub(mul(2.5, tanh(div(score, 2.5))), sub(i, j))"), parts(Some(2.5), less));
        assert_eq!(of("mul(30, tanh(div(score, 30)))"), parts(Some(30.0), None));
        for cap in [None, Some(0.7)] {
            for bias in [None, distance()] {
                assert_eq!(ScoreExpr::of(&Expr::score(cap, bias.clone())), parts(cap, bias));
            }
        }
    }

    #[test]
    fn what_is_no_sum_is_whole() {
        for text in [
            "mul(score, learn(head))",
            "mul(30, tanh(div(score, 20)))",
            "mul(-30, tanh(div(score, -30)))",
            "add(score, mul(score, i))",
            "sub(i, score)",
            "neg(score)",
            "sub(i, j)",
        ] {
            assert!(matches!(of(text), ScoreExpr::Whole(_)), "{text}");
        }
    }
}
