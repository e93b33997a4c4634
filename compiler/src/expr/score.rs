//! The score of a query and a key as an expression of their product: parts for which attention has kernels, or any other.

use super::{BinaryOp, Expr, Func, ReadFrom, Var, tables};

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

/// A score that is a multiple of what it was, plus a bias: the factor has no key in it. With both come what their uses read, in reading order.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaledScore {
    /// The factor.
    pub factor: (Expr, Vec<ReadFrom>),
    /// What is added.
    pub bias: Option<(Expr, Vec<ReadFrom>)>,
}

impl ScaledScore {
    /// The form of an expression whose uses read this; `None` where it is another one.
    pub fn of(expr: &Expr, uses: &[ReadFrom]) -> Option<Self> {
        let (own, sign) = match expr {
            Expr::Binary(op @ (BinaryOp::Add | BinaryOp::Sub), a, b) => (Some((a, b)), *op),
            _ => (None, BinaryOp::Add),
        };
        let Some((a, b)) = own else { return Some(Self { factor: factor(expr, uses)?, bias: None }) };
        let (first, second) = uses.split_at_checked(tables(a).uses.len())?;
        let (scaled, more) = match (a.holds_score(), b.holds_score()) {
            (true, false) => (Self::of(a, first)?, second),
            (false, true) if sign == BinaryOp::Add => (Self::of(b, second)?, first),
            _ => return None,
        };
        let rest = if a.holds_score() { b } else { a };
        let rest = if sign == BinaryOp::Sub { Expr::Neg(rest.clone()) } else { (**rest).clone() };
        let bias = match scaled.bias {
            Some((bias, own)) => {
                (Expr::Binary(BinaryOp::Add, Box::new(bias), Box::new(rest)), [&own[..], more].concat())
            }
            None => (rest, more.to_vec()),
        };
        Some(Self { bias: Some(bias), ..scaled })
    }
}

/// By what a product multiplies the score, with what the uses of that read.
fn factor(expr: &Expr, uses: &[ReadFrom]) -> Option<(Expr, Vec<ReadFrom>)> {
    let of_query = |expr: &Expr| !expr.any(&|part| matches!(part, Expr::Score | Expr::Var(Var::J)));
    let both = |op, a: Expr, b: Expr| Expr::Binary(op, Box::new(a), Box::new(b));
    match expr {
        Expr::Score => Some((Expr::Float(1.0), vec![])),
        Expr::Neg(x) => factor(x, uses).map(|(x, uses)| (Expr::Neg(Box::new(x)), uses)),
        Expr::Binary(op @ (BinaryOp::Mul | BinaryOp::Div), a, b) => {
            let (first, second) = uses.split_at_checked(tables(a).uses.len())?;
            if of_query(b) {
                let (own, uses) = factor(a, first)?;
                return Some((both(*op, own, (**b).clone()), [&uses[..], second].concat()));
            }
            let (own, uses) = factor(b, second).filter(|_| *op == BinaryOp::Mul && of_query(a))?;
            Some((both(*op, (**a).clone(), own), [first, &uses[..]].concat()))
        }
        _ => None,
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
    fn multiples_by_numbers_of_the_query_are_found() {
        let scaled = |text: &str| {
            let expr = Expr::try_from(&attr::parse(text).expect("an attribute")).expect("an expression");
            let found = ScaledScore::of(&expr, &tables(&expr).operands())?;
            let part = |(expr, uses): &(Expr, Vec<ReadFrom>)| format!("{expr} {uses:?}");
            Some((part(&found.factor), found.bias.as_ref().map(part)))
        };
        let of = |factor: &str, bias: Option<&str>| Some((factor.to_owned(), bias.map(str::to_owned)));
        for (text, expected) in [
            ("mul(mul(score, learn(head)), log(add(i, 1)))", of("1.0 * learn[head] * log(i + 1) [Table(0)]", None)),
            (
                "sub(add(learn(i), mul(learn(head), score)), read_1(j))",
                of("learn[head] * 1.0 [Table(1)]", Some("learn[i] + -read_1[j] [Table(0), Value(1)]")),
            ),
            ("div(neg(score), read_0(i, head))", of("-1.0 / read_0[i, head] [Value(0)]", None)),
            ("mul(score, read_0(j))", None),
            ("mul(score, score)", None),
            ("div(2, score)", None),
            ("sub(i, score)", None),
            ("tanh(score)", None),
            ("add(score, score)", None),
        ] {
            assert_eq!(scaled(text), expected, "{text}");
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
