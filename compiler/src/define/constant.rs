//! Constants of definitions: numbers, truth values and words that are known before anything runs.

use crate::expr::BinaryOp;
use crate::schema::Words;
use crate::source::Span;
use crate::syntax::ast::{ExprKind, ExprSyntax};

/// A value that is known before anything runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Constant {
    Int(i64),
    Float(f64),
    Truth(bool),
    /// One of some words.
    Word(String, Words),
    /// A setting that was left out.
    None,
}

impl Constant {
    /// The number, if it is one.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::Int(v) => Some(*v as f64),
            Self::Float(v) => Some(*v),
            _ => None,
        }
    }

    /// What it is, for messages.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Int(v) => format!("the number {v}"),
            Self::Float(v) => format!("the number {v:?}"),
            Self::Truth(v) => format!("`{v}`"),
            Self::Word(word, _) => format!("the word `{word}`"),
            Self::None => "a setting that was left out".to_owned(),
        }
    }
}

/// The reason why an expression has no constant value, and the place.
pub(crate) type NotConstant = (Span, String);

/// A function of constants by its name; `None` if there is none of this name for so many.
type Functions = dyn Fn(&str, &[Constant]) -> Option<Result<Constant, String>>;

/// The functions of constants, each with the number of its arguments.
pub(crate) const FUNCTIONS: [(&str, usize); 7] =
    [("min", 2), ("max", 2), ("sqrt", 1), ("log", 1), ("exp", 1), ("abs", 1), ("floor", 1)];

/// Whether constants have a function of this name.
pub(crate) fn is_function(name: &str) -> bool {
    FUNCTIONS.iter().any(|(known, _)| *known == name)
}

/// The value of an expression over constants that `known` gives.
pub(crate) fn constant(expr: &ExprSyntax, known: &dyn Fn(&str) -> Option<Constant>) -> Result<Constant, NotConstant> {
    constant_of(expr, known, &function)
}

/// The same with other functions. Of `when(condition, a, b)` only the chosen side is evaluated.
pub(crate) fn constant_of(
    expr: &ExprSyntax,
    known: &dyn Fn(&str) -> Option<Constant>,
    functions: &Functions,
) -> Result<Constant, NotConstant> {
    let of = |x: &ExprSyntax| constant_of(x, known, functions);
    let at = |result: Result<Constant, String>| result.map_err(|why| (expr.span, why));
    match &expr.kind {
        ExprKind::Int(v) => Ok(Constant::Int(*v)),
        ExprKind::Float(v) => Ok(Constant::Float(*v)),
        ExprKind::Bool(v) => Ok(Constant::Truth(*v)),
        ExprKind::Group(x) => of(x),
        ExprKind::Name(name) => known(name).ok_or_else(|| (expr.span, format!("`{name}` is no constant"))),
        ExprKind::Neg(x) => at(negative(of(x)?)),
        ExprKind::Not(x) => at(negated(of(x)?)),
        ExprKind::Binary(op, a, b) => at(binary(*op, of(a)?, of(b)?)),
        ExprKind::Call(name, args, None) if name.text == "when" && args.len() == 3 => match of(&args[0])? {
            Constant::Truth(holds) => of(&args[if holds { 1 } else { 2 }]),
            other => Err((args[0].span, format!("`when` needs a condition, and this is {}", other.describe()))),
        },
        ExprKind::Call(name, args, None) => {
            let args = args.iter().map(of).collect::<Result<Vec<_>, _>>()?;
            at(functions(&name.text, &args).unwrap_or_else(|| Err(format!("there is no constant `{}(..)`", name.text))))
        }
        ExprKind::Call(..)
        | ExprKind::Indexed(..)
        | ExprKind::Learn(..)
        | ExprKind::Read(..)
        | ExprKind::Function(..)
        | ExprKind::Old(_) => Err((expr.span, "this is no constant".to_owned())),
    }
}

/// `-x`
pub(crate) fn negative(x: Constant) -> Result<Constant, String> {
    match x {
        Constant::Int(v) => v.checked_neg().map(Constant::Int).ok_or_else(too_large),
        Constant::Float(v) => Ok(Constant::Float(-v)),
        other => Err(format!("`-` needs a number, and this is {}", other.describe())),
    }
}

/// `not x`
pub(crate) fn negated(x: Constant) -> Result<Constant, String> {
    match x {
        Constant::Truth(v) => Ok(Constant::Truth(!v)),
        other => Err(format!("`not` needs a condition, and this is {}", other.describe())),
    }
}

/// `a op b`. A quotient of whole numbers is whole where it comes out so, else real.
pub(crate) fn binary(op: BinaryOp, a: Constant, b: Constant) -> Result<Constant, String> {
    use BinaryOp::{Add, And, Div, Eq, Ge, Gt, Le, Lt, Mul, Ne, Or, Pow, Rem, Sub};
    match (op, &a, &b) {
        (And, Constant::Truth(a), Constant::Truth(b)) => Ok(Constant::Truth(*a && *b)),
        (Or, Constant::Truth(a), Constant::Truth(b)) => Ok(Constant::Truth(*a || *b)),
        (Eq, Constant::Truth(a), Constant::Truth(b)) => Ok(Constant::Truth(a == b)),
        (Ne, Constant::Truth(a), Constant::Truth(b)) => Ok(Constant::Truth(a != b)),
        (Eq, Constant::Word(a, _), Constant::Word(b, _)) => Ok(Constant::Truth(a == b)),
        (Ne, Constant::Word(a, _), Constant::Word(b, _)) => Ok(Constant::Truth(a != b)),
        (Div, Constant::Int(a), Constant::Int(b)) => match (a.checked_rem(*b), a.checked_div(*b)) {
            (Some(0), Some(v)) => Ok(Constant::Int(v)),
            (Some(_), _) => Ok(Constant::Float(*a as f64 / *b as f64)),
            _ => Err(format!("{a} / {b} has no value")),
        },
        // A negative power of a whole number is a real one.
        (Add | Sub | Mul | Rem | Pow, Constant::Int(a), Constant::Int(b)) if op != Pow || *b >= 0 => {
            let value = match op {
                Add => a.checked_add(*b),
                Sub => a.checked_sub(*b),
                Mul => a.checked_mul(*b),
                Rem => a.checked_rem_euclid(*b),
                _ => u32::try_from(*b).ok().and_then(|b| a.checked_pow(b)),
            };
            value.map(Constant::Int).ok_or_else(|| format!("{a} {} {b} has no value", op.symbol()))
        }
        _ => match (a.number(), b.number()) {
            (Some(x), Some(y)) => {
                let value = match op {
                    Add => x + y,
                    Sub => x - y,
                    Mul => x * y,
                    Div => x / y,
                    Rem => x.rem_euclid(y),
                    Pow => x.powf(y),
                    Eq => return Ok(Constant::Truth(x == y)),
                    Ne => return Ok(Constant::Truth(x != y)),
                    Lt => return Ok(Constant::Truth(x < y)),
                    Le => return Ok(Constant::Truth(x <= y)),
                    Gt => return Ok(Constant::Truth(x > y)),
                    Ge => return Ok(Constant::Truth(x >= y)),
                    And | Or => return Err(format!("`{}` needs conditions", op.symbol())),
                };
                if value.is_finite() {
                    Ok(Constant::Float(value))
                } else {
                    Err(format!("{x} {} {y} has no value", op.symbol()))
                }
            }
            _ => Err(format!("`{}` can't join {} and {}", op.symbol(), a.describe(), b.describe())),
        },
    }
}

/// A function of constants; `None` if there is none of this name for so many.
pub(crate) fn function(name: &str, args: &[Constant]) -> Option<Result<Constant, String>> {
    let numbers: Option<Vec<f64>> = args.iter().map(Constant::number).collect();
    let value = match (name, args, numbers?.as_slice()) {
        ("min", [Constant::Int(a), Constant::Int(b)], _) => return Some(Ok(Constant::Int(*a.min(b)))),
        ("max", [Constant::Int(a), Constant::Int(b)], _) => return Some(Ok(Constant::Int(*a.max(b)))),
        ("min", _, [a, b]) => a.min(*b),
        ("max", _, [a, b]) => a.max(*b),
        ("sqrt", _, [x]) => x.sqrt(),
        ("log", _, [x]) => x.ln(),
        ("exp", _, [x]) => x.exp(),
        ("abs", _, [x]) => x.abs(),
        ("floor", _, [x]) => return Some(whole(x.floor())),
        _ => return None,
    };
    let written = || format!("`{name}` has no value here");
    Some(if value.is_finite() { Ok(Constant::Float(value)) } else { Err(written()) })
}

fn whole(x: f64) -> Result<Constant, String> {
    if x.abs() < 9.0e15 { Ok(Constant::Int(x as i64)) } else { Err(too_large()) }
}

fn too_large() -> String {
    "the number is too large".to_owned()
}
