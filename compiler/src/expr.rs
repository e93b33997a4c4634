//! Expressions of masks, biases and depths, with every name resolved.

mod derived;
mod drawn;
mod eval;
mod keys;
mod learned;
mod quotient;
mod range;
mod reach;
mod score;
mod shift;
mod simplify;

use std::fmt;

pub use derived::derived;
pub(crate) use derived::{DERIVED, either, lifted};
pub use drawn::{Chance, Distribution, Draw, Per};
pub use eval::{Env, EvalError, ScalarValue, eval, eval_with, reading};
pub use keys::{KeyBound, distances, keys};
pub use learned::{Lookup, ReadFrom, Uses, flat, tables};
pub use range::{BiasFacts, LARGEST_BIAS, LARGEST_WHOLE, Unbounded, most, sizes};
pub(crate) use range::{bounds, is_natural, is_whole};
pub use reach::{KeyReach, reach};
pub use score::{ScaledScore, ScoreExpr};
pub use shift::{by_distance, pairs_by_distance};
pub(crate) use simplify::constant;
pub use simplify::simplify;

/// A variable that an expression may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Var {
    /// Position of the query.
    I,
    /// Position of the key.
    J,
    /// Step of the depth recurrence, from 0.
    Step,
    /// Length of the row.
    Length,
    /// Attention head, from 0.
    Head,
}

/// A binary operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BinaryOp {
    /// `or`
    Or,
    /// `and`
    And,
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`, rounding down on integers
    Div,
    /// `%`, with the sign of the divisor
    Rem,
    /// `^`
    Pow,
}

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Func {
    /// `min(a, b)`
    Min,
    /// `max(a, b)`
    Max,
    /// `log(n, base)`: the smallest k with `base^k >= n`, in integers.
    Log,
    /// `log(x)`: the natural logarithm.
    Ln,
    /// `floor(x)`: the largest integer that is at most x.
    Floor,
    /// `exp(x)`
    Exp,
    /// `sqrt(x)`: the square root.
    Sqrt,
    /// `tanh(x)`: the hyperbolic tangent.
    Tanh,
    /// `sigmoid(x)`: the logistic function.
    Sigmoid,
    /// `when(c, a, b)`: the number `a` where `c` holds, else `b`; the other one is not worked out.
    When,
}

/// An expression tree.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// An integer.
    Int(i64),
    /// A real number.
    Float(f64),
    /// `true` or `false`.
    Bool(bool),
    /// A variable.
    Var(Var),
    /// The depth that comes with each example.
    Given,
    /// The score of a query and a key as it is before the expression: their product, times the scale.
    Score,
    /// The angle by which a pair of channels turns from position to position, as it is before the expression.
    Angle,
    /// `-x`
    Neg(Box<Expr>),
    /// `not x`
    Not(Box<Expr>),
    /// `a op b`
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `f(a)` or `f(a, b)`
    Call(Func, Vec<Expr>),
    /// A number that is drawn.
    Draw(Box<Draw>),
    /// `learn[index, ...]`: a learned table of its own, or `learn_name[index, ...]`: the one of that name.
    Learn(String, Vec<Expr>),
    /// `c[i]` or `c[j, head]`: what a value has at the query or the key, and in a channel. In a graph values have numbers for names, counted
    /// from 0: operands behind the learned tables.
    Read(String, Vec<Expr>),
}

impl Var {
    /// All variables.
    pub const ALL: [Var; 5] = [Var::I, Var::J, Var::Step, Var::Length, Var::Head];

    /// The name in the language.
    pub fn name(self) -> &'static str {
        match self {
            Self::I => "i",
            Self::J => "j",
            Self::Step => "step",
            Self::Length => "length",
            Self::Head => "head",
        }
    }
}

impl BinaryOp {
    /// All operators with their spelling in the language and their binding strength; a higher one binds tighter.
    const TABLE: [(Self, &str, u8); 14] = [
        (Self::Or, "or", 1),
        (Self::And, "and", 2),
        (Self::Eq, "==", 3),
        (Self::Ne, "!=", 3),
        (Self::Lt, "<", 3),
        (Self::Le, "<=", 3),
        (Self::Gt, ">", 3),
        (Self::Ge, ">=", 3),
        (Self::Add, "+", 4),
        (Self::Sub, "-", 4),
        (Self::Mul, "*", 5),
        (Self::Div, "/", 5),
        (Self::Rem, "%", 5),
        (Self::Pow, "^", 7),
    ];

    /// The operator of this spelling.
    pub fn named(symbol: &str) -> Option<Self> {
        Self::TABLE.iter().find(|(_, own, _)| *own == symbol).map(|(op, ..)| *op)
    }

    /// The spelling in the language.
    pub fn symbol(self) -> &'static str {
        Self::TABLE[self as usize].1
    }

    /// Binding strength.
    pub fn precedence(self) -> u8 {
        Self::TABLE[self as usize].2
    }

    /// The comparison of the same numbers in the other order.
    pub(crate) fn mirrored(self) -> Self {
        match self {
            Self::Lt => Self::Gt,
            Self::Le => Self::Ge,
            Self::Gt => Self::Lt,
            Self::Ge => Self::Le,
            other => other,
        }
    }

    /// Whether it compares numbers.
    pub(crate) fn is_comparison(self) -> bool {
        self.precedence() == Self::Eq.precedence()
    }

    /// Whether the result is true or false.
    pub fn is_boolean(self) -> bool {
        self.precedence() <= 3
    }
}

impl Func {
    /// All functions.
    pub const ALL: [Func; 10] = [
        Func::Min,
        Func::Max,
        Func::Log,
        Func::Ln,
        Func::Floor,
        Func::Exp,
        Func::Sqrt,
        Func::Tanh,
        Func::Sigmoid,
        Func::When,
    ];

    /// The name in the language.
    pub fn name(self) -> &'static str {
        match self {
            Self::Min => "min",
            Self::Max => "max",
            Self::Log | Self::Ln => "log",
            Self::Floor => "floor",
            Self::Exp => "exp",
            Self::Sqrt => "sqrt",
            Self::Tanh => "tanh",
            Self::Sigmoid => "sigmoid",
            Self::When => "when",
        }
    }

    /// Number of arguments.
    pub fn arity(self) -> usize {
        match self {
            Self::When => 3,
            Self::Min | Self::Max | Self::Log => 2,
            Self::Ln | Self::Floor | Self::Exp | Self::Sqrt | Self::Tanh | Self::Sigmoid => 1,
        }
    }

    /// The value for a real number, where the function has a real one for all of them; NaN or infinite where there is none.
    pub fn of_real(self, x: f64) -> Option<f64> {
        match self {
            Self::Exp => Some(x.exp()),
            Self::Sqrt => Some(x.sqrt()),
            Self::Tanh => Some(x.tanh()),
            Self::Sigmoid => Some(1.0 / (1.0 + (-x).exp())),
            Self::Min | Self::Max | Self::Log | Self::Ln | Self::Floor | Self::When => None,
        }
    }

    /// The function of this name that takes so many arguments, else the first one of the name.
    pub fn named(name: &str, arity: usize) -> Option<Self> {
        let named = || Self::ALL.into_iter().filter(|f| f.name() == name);
        named().find(|f| f.arity() == arity).or_else(|| named().next())
    }
}

/// Precedence of `not`: below the comparisons, above `and`.
const NOT: u8 = 2;
/// Precedence of unary minus: above products, below powers.
const NEG: u8 = 6;

impl Expr {
    /// The parts of an expression, in order.
    pub fn operands(&self) -> Vec<&Expr> {
        match self {
            Self::Int(_) | Self::Float(_) | Self::Bool(_) | Self::Var(_) | Self::Given | Self::Score | Self::Angle => {
                Vec::new()
            }
            Self::Neg(x) | Self::Not(x) => vec![x],
            Self::Binary(_, a, b) => vec![a, b],
            Self::Call(_, args) | Self::Learn(_, args) | Self::Read(_, args) => args.iter().collect(),
            Self::Draw(draw) => draw.args.iter().collect(),
        }
    }

    /// Whether something holds for a part of it. Asked while models run, so nothing is collected.
    pub(crate) fn any(&self, holds: &impl Fn(&Self) -> bool) -> bool {
        let among = |args: &[Self]| args.iter().any(|x| x.any(holds));
        holds(self)
            || match self {
                Self::Int(_)
                | Self::Float(_)
                | Self::Bool(_)
                | Self::Var(_)
                | Self::Given
                | Self::Score
                | Self::Angle => false,
                Self::Neg(x) | Self::Not(x) => x.any(holds),
                Self::Binary(_, a, b) => a.any(holds) || b.any(holds),
                Self::Call(_, args) | Self::Learn(_, args) | Self::Read(_, args) => among(args),
                Self::Draw(draw) => among(&draw.args),
            }
    }

    /// Whether a name is a variable of pairs of a query and a key, their score, or a word for a mask or a bias.
    pub(crate) fn is_of_pair(name: &str) -> bool {
        ["score", "past", "all", "none"].contains(&name) || Var::ALL.iter().any(|var| var.name() == name)
    }

    /// The condition of its first `when`, and the same with either of its numbers there; nothing for one inside an index.
    pub(crate) fn split_choice(&self) -> Option<(Self, Self, Self)> {
        if let Self::Call(Func::When, args) = self {
            let [c, a, b] = &args[..] else { return None };
            return Some((c.clone(), a.clone(), b.clone()));
        }
        let split = |x: &Self, put: &dyn Fn(Self) -> Self| x.split_choice().map(|(c, a, b)| (c, put(a), put(b)));
        match self {
            Self::Neg(x) => split(x, &|x| Self::Neg(Box::new(x))),
            Self::Binary(op, a, b) => split(a, &|a| Self::Binary(*op, Box::new(a), b.clone()))
                .or_else(|| split(b, &|b| Self::Binary(*op, a.clone(), Box::new(b)))),
            Self::Call(func, args) => args.iter().enumerate().find_map(|(n, arg)| {
                let put = |x| Self::Call(*func, [&args[..n], &[x], &args[n + 1..]].concat());
                split(arg, &put)
            }),
            _ => None,
        }
    }

    /// Whether it is a number as it stands.
    pub(crate) fn is_number(&self) -> bool {
        matches!(self, Self::Int(_) | Self::Float(_))
    }

    /// `j <= i`
    pub fn past() -> Self {
        Self::Binary(BinaryOp::Le, Box::new(Self::Var(Var::J)), Box::new(Self::Var(Var::I)))
    }

    /// Whether the depth that comes with an example is somewhere in it.
    pub fn holds_given(&self) -> bool {
        self.any(&|x| *x == Self::Given)
    }

    /// Whether a number is drawn somewhere in it.
    pub fn holds_draw(&self) -> bool {
        self.any(&|x| matches!(x, Self::Draw(_)))
    }

    /// Whether the variable occurs.
    pub fn uses(&self, var: Var) -> bool {
        self.any(&|x| matches!(x, Self::Var(own) if *own == var))
    }

    /// Whether the score occurs.
    pub fn holds_score(&self) -> bool {
        self.any(&|x| *x == Self::Score)
    }

    /// Whether a learned table occurs.
    pub fn is_learned(&self) -> bool {
        self.any(&|x| matches!(x, Self::Learn(..)))
    }

    /// Whether a value is read at a position.
    pub fn reads(&self) -> bool {
        self.any(&|x| matches!(x, Self::Read(..)))
    }

    /// The same with something else for every learned table and value that is read, in reading order.
    #[must_use]
    pub fn with_lookups(self, put: &mut impl FnMut(Self) -> Self) -> Self {
        let mut list = |args: Vec<Self>| args.into_iter().map(|x| x.with_lookups(put)).collect();
        match self {
            Self::Neg(x) => Self::Neg(Box::new(x.with_lookups(put))),
            Self::Not(x) => Self::Not(Box::new(x.with_lookups(put))),
            Self::Binary(op, a, b) => Self::Binary(op, Box::new(a.with_lookups(put)), Box::new(b.with_lookups(put))),
            Self::Call(func, args) => Self::Call(func, list(args)),
            Self::Learn(..) | Self::Read(..) => put(self),
            leaf => leaf,
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, outer: u8) -> fmt::Result {
        if let Some((a, b, down)) = self.parts_of_quotient() {
            return write_quotient(f, (a, b), down, outer);
        }
        let own = match self {
            Self::Binary(op, ..) => op.precedence(),
            Self::Not(_) => NOT,
            Self::Neg(_) => NEG,
            // A negative number reads back as a negation, so it binds like one.
            Self::Int(v) if *v < 0 => NEG,
            Self::Float(v) if v.is_sign_negative() => NEG,
            _ => u8::MAX,
        };
        let parens = own <= outer && own != u8::MAX;
        if parens {
            write!(f, "(")?;
        }
        match self {
            Self::Int(v) => write!(f, "{v}")?,
            Self::Float(v) => write!(f, "{v:?}")?,
            Self::Bool(v) => write!(f, "{v}")?,
            Self::Var(v) => write!(f, "{}", v.name())?,
            Self::Given => write!(f, "given")?,
            Self::Score => write!(f, "score")?,
            Self::Angle => write!(f, "angle")?,
            Self::Neg(x) => {
                write!(f, "-")?;
                x.write(f, NEG)?;
            }
            Self::Not(x) => {
                write!(f, "not ")?;
                x.write(f, NOT)?;
            }
            Self::Binary(op, a, b) => {
                // Left associative, except the power, which is right associative.
                let (left, right) = if *op == BinaryOp::Pow { (own, own - 1) } else { (own - 1, own) };
                a.write(f, left)?;
                let pad = if *op == BinaryOp::Pow { "" } else { " " };
                write!(f, "{pad}{}{pad}", op.symbol())?;
                b.write(f, right)?;
            }
            Self::Call(func, args) => {
                write!(f, "{}(", func.name())?;
                write_list(f, args)?;
                write!(f, ")")?;
            }
            Self::Draw(draw) => {
                write!(f, "{}(", draw.distribution.name())?;
                write_list(f, &draw.args)?;
                write!(f, ") {{ per: {}, evaluation: {} }}", draw.per.name(), draw.expected)?;
            }
            Self::Read(value, args) => {
                write!(
                    f,
                    "{}[",
                    if value.starts_with(|c: char| c.is_ascii_digit()) { read(value) } else { value.clone() }
                )?;
                write_list(f, args)?;
                write!(f, "]")?;
            }
            Self::Learn(table, args) => {
                write!(f, "{}[", learned(table))?;
                write_list(f, args)?;
                write!(f, "]")?;
            }
        }
        if parens {
            write!(f, ")")?;
        }
        Ok(())
    }
}

/// `floor(a / b)`, or the real quotient `a / b`.
fn write_quotient(f: &mut fmt::Formatter<'_>, (a, b): (&Expr, &Expr), down: bool, outer: u8) -> fmt::Result {
    let own = BinaryOp::Div.precedence();
    let parens = !down && own <= outer;
    write!(
        f,
        "{}",
        if down {
            "floor("
        } else if parens {
            "("
        } else {
            ""
        }
    )?;
    a.write(f, own - 1)?;
    write!(f, " / ")?;
    b.write(f, own)?;
    if down || parens { write!(f, ")") } else { Ok(()) }
}

/// How a learned table is written: `learn`, or `learn_name`.
pub fn learned(table: &str) -> String {
    if table.is_empty() { "learn".to_owned() } else { format!("learn_{table}") }
}

/// How a value that is read is written in a graph.
pub fn read(value: &str) -> String {
    format!("read_{value}")
}

fn write_list(f: &mut fmt::Formatter<'_>, items: &[Expr]) -> fmt::Result {
    for (n, item) in items.iter().enumerate() {
        if n > 0 {
            write!(f, ", ")?;
        }
        item.write(f, 0)?;
    }
    Ok(())
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}
