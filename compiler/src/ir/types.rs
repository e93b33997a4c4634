//! Types and attributes of the IR: what a value is, symbolically.

use std::fmt;

use crate::expr::{BinaryOp, Distribution, Draw, Expr, Func, Per, ScalarValue, Var, learned, read, simplify};

/// One axis of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dim {
    /// A known size.
    Fixed(usize),
    /// A size known only at run time (`batch`, `length`, `chunk`) or only with a task (`vocab`, `classes`).
    Sym(String),
}

/// What the elements of a tensor are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Elem {
    /// Real numbers of the working precision: `f32` normally, computed in `f64` on request.
    Real,
    /// Token ids, labels, counters.
    Index,
    /// Truth values.
    Bool,
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Type {
    /// A tensor. A symbolic second axis is ragged: each row of the batch has its own length, and the rows lie packed
    /// end to end without padding.
    Tensor(Elem, Vec<Dim>),
    /// What a forward loop saved for its backward loop, step by step.
    Tape,
}

/// Name of the batch axis.
pub const BATCH: &str = "batch";
/// Name of the axis of the tokens of a row.
pub const LENGTH: &str = "length";
/// Name of the axis of the tokens of a row with START and END around them.
pub const FRAMED: &str = "length+2";
/// Name of the batch axis counted in pairs of rows.
pub const PAIRS: &str = "batch/2";
/// Name of the vocabulary size while no task is bound.
pub const VOCAB: &str = "vocab";
/// Name of the number of outputs of the head while no task is bound.
pub const CLASSES: &str = "classes";

/// The axis inside the STARTs and ENDs around it and the positions before it, and how many positions these are: `length` and 2 of
/// `length+2`, `length` and 5 of
/// `prefix3+length+2`.
pub fn unframed(axis: &str) -> (&str, usize) {
    let (mut inner, mut more) = (axis, 0);
    while let Some((count, behind)) = unprefixed(inner) {
        (inner, more) = (behind, more + count);
    }
    let base = inner.trim_end_matches("+2");
    (base, more + inner.len() - base.len())
}

/// The axis with so many positions before those of every row: `prefix3+length`.
pub fn prefixed(axis: &str, count: usize) -> String {
    format!("prefix{count}+{axis}")
}

/// How many positions were put before those of every row last, and the axis behind them.
pub fn unprefixed(axis: &str) -> Option<(usize, &str)> {
    let (count, behind) = axis.strip_prefix("prefix")?.split_once('+')?;
    let count: u32 = count.parse().ok()?;
    Some((count as usize, behind))
}

impl Dim {
    /// A symbolic axis.
    pub fn sym(name: &str) -> Self {
        Self::Sym(name.to_owned())
    }

    /// The size, when it is known.
    pub fn fixed(&self) -> Option<usize> {
        match self {
            Self::Fixed(n) => Some(*n),
            Self::Sym(_) => None,
        }
    }

    /// The name of a symbolic axis.
    pub fn symbol(&self) -> Option<&str> {
        match self {
            Self::Fixed(_) => None,
            Self::Sym(s) => Some(s),
        }
    }
}

impl Type {
    /// A tensor of reals.
    pub fn real(dims: impl Into<Vec<Dim>>) -> Self {
        Self::Tensor(Elem::Real, dims.into())
    }

    /// The axes; none for a tape.
    pub fn dims(&self) -> &[Dim] {
        match self {
            Self::Tensor(_, dims) => dims,
            Self::Tape => &[],
        }
    }

    /// The element kind of a tensor.
    pub fn elem(&self) -> Option<Elem> {
        match self {
            Self::Tensor(elem, _) => Some(*elem),
            Self::Tape => None,
        }
    }

    /// True for a tensor of reals: the only values that can carry a gradient.
    pub fn is_real(&self) -> bool {
        self.elem() == Some(Elem::Real)
    }

    /// True when the first axis is the batch: such a value has one part per row.
    pub fn is_batched(&self) -> bool {
        self.dims().first().and_then(Dim::symbol) == Some(BATCH)
    }

    /// The axis of slots of a batched type and their number: the first axis of every row, or of every position.
    pub fn slots(&self) -> Option<(usize, usize)> {
        let axis = if self.ragged().is_some() { 2 } else { 1 };
        let count = self.dims().get(axis).and_then(Dim::fixed)?;
        Some((axis, count))
    }

    /// The ragged axis of a batched value.
    pub fn ragged(&self) -> Option<&str> {
        if self.is_batched() { self.dims().get(1).and_then(Dim::symbol) } else { None }
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(n) => write!(f, "{n}"),
            Self::Sym(s) => write!(f, "{s}"),
        }
    }
}

impl Elem {
    /// The name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            Self::Real => "f32",
            Self::Index => "u32",
            Self::Bool => "bool",
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tape => write!(f, "tape"),
            Self::Tensor(elem, dims) => {
                write!(f, "{}[", elem.name())?;
                for (n, dim) in dims.iter().enumerate() {
                    write!(f, "{}{dim}", if n > 0 { ", " } else { "" })?;
                }
                write!(f, "]")
            }
        }
    }
}

impl std::str::FromStr for Type {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "tape" {
            return Ok(Self::Tape);
        }
        let bad = || format!("`{text}` is not a type: expected `f32[batch, length, 64]` or `tape`");
        let (elem, rest) = text.split_once('[').ok_or_else(bad)?;
        let elem = [Elem::Real, Elem::Index, Elem::Bool].into_iter().find(|e| e.name() == elem).ok_or_else(bad)?;
        let inner = rest.strip_suffix(']').ok_or_else(bad)?;
        let dims = inner.split(',').map(str::trim).filter(|d| !d.is_empty());
        let dims = dims.map(|d| d.parse().map_or_else(|_| Dim::sym(d), Dim::Fixed));
        Ok(Self::Tensor(elem, dims.collect()))
    }
}

/// A constant attached to a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Attr {
    /// An integer.
    Int(i64),
    /// A real number.
    Float(f64),
    /// A bare word.
    Word(String),
    /// A quoted text: parameter and result names.
    Text(String),
    /// A call: an initialiser `normal(0.02)` or an expression in prefix form `le(j, i)`.
    Call(String, Vec<Attr>),
}

impl From<i64> for Attr {
    fn from(v: i64) -> Self {
        Self::Int(v)
    }
}

impl From<usize> for Attr {
    fn from(v: usize) -> Self {
        Self::Int(i64::try_from(v).expect("sizes fit in 63 bits"))
    }
}

impl From<f64> for Attr {
    fn from(v: f64) -> Self {
        Self::Float(v)
    }
}

impl From<&str> for Attr {
    fn from(v: &str) -> Self {
        Self::Word(v.to_owned())
    }
}

impl Attr {
    /// A call attribute.
    pub fn call(name: &str, args: impl Into<Vec<Attr>>) -> Self {
        Self::Call(name.to_owned(), args.into())
    }

    /// The integer, if this is one.
    pub fn int(&self) -> Option<i64> {
        if let Self::Int(v) = self { Some(*v) } else { None }
    }

    /// The number, if this is one.
    pub fn float(&self) -> Option<f64> {
        match self {
            Self::Int(v) => Some(*v as f64),
            Self::Float(v) => Some(*v),
            _ => None,
        }
    }

    /// The expression of a mask or a bias with 0 for the step, in its simplest form; `None` where it is no expression.
    pub fn in_first_step(&self) -> Option<Self> {
        fn zero(attr: &Attr) -> Attr {
            match attr {
                Attr::Word(word) if word == Var::Step.name() => Attr::Int(0),
                Attr::Call(name, args) => Attr::Call(name.clone(), args.iter().map(zero).collect()),
                other => other.clone(),
            }
        }
        Some(Self::from(&simplify(Expr::try_from(&zero(self)).ok()?)))
    }

    /// The word or text, if this is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Word(v) | Self::Text(v) => Some(v),
            _ => None,
        }
    }
}

impl fmt::Display for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(v) => write!(f, "{v}"),
            Self::Float(v) => write!(f, "{v:?}"),
            Self::Word(v) => write!(f, "{v}"),
            Self::Text(v) => write!(f, "\"{v}\""),
            Self::Call(name, args) => {
                write!(f, "{name}(")?;
                for (n, arg) in args.iter().enumerate() {
                    write!(f, "{}{arg}", if n > 0 { ", " } else { "" })?;
                }
                write!(f, ")")
            }
        }
    }
}

const BINARY: [(&str, BinaryOp); 14] = [
    ("or", BinaryOp::Or),
    ("and", BinaryOp::And),
    ("eq", BinaryOp::Eq),
    ("ne", BinaryOp::Ne),
    ("lt", BinaryOp::Lt),
    ("le", BinaryOp::Le),
    ("gt", BinaryOp::Gt),
    ("ge", BinaryOp::Ge),
    ("add", BinaryOp::Add),
    ("sub", BinaryOp::Sub),
    ("mul", BinaryOp::Mul),
    ("div", BinaryOp::Div),
    ("rem", BinaryOp::Rem),
    ("pow", BinaryOp::Pow),
];
const VARS: [Var; 5] = [Var::I, Var::J, Var::Step, Var::Length, Var::Head];

/// An expression of the language in the prefix form of attributes.
impl From<&Expr> for Attr {
    fn from(expr: &Expr) -> Self {
        let list = |args: &[Expr]| args.iter().map(Attr::from).collect::<Vec<_>>();
        match expr {
            Expr::Int(v) => Self::Int(*v),
            Expr::Float(v) => Self::Float(*v),
            Expr::Bool(v) => Self::Word(v.to_string()),
            Expr::Var(v) => Self::Word(v.name().to_owned()),
            Expr::Given => Self::Word("given".to_owned()),
            Expr::Score => Self::Word("score".to_owned()),
            Expr::Angle => Self::Word("angle".to_owned()),
            Expr::Neg(x) => Self::call("neg", [Self::from(&**x)]),
            Expr::Not(x) => Self::call("not", [Self::from(&**x)]),
            Expr::Binary(op, a, b) => {
                let name = BINARY.iter().find(|(_, o)| o == op).expect("every operator is listed").0;
                Self::call(name, [Self::from(&**a), Self::from(&**b)])
            }
            Expr::Call(func, args) => Self::call(func.name(), list(args)),
            Expr::Draw(draw) => {
                let expected = match draw.expected {
                    ScalarValue::Int(v) => Self::Int(v),
                    ScalarValue::Float(v) => Self::Float(v),
                    ScalarValue::Bool(v) => Self::Word(v.to_string()),
                };
                let stream = Self::Int(i64::try_from(draw.stream).expect("streams are counted from 0"));
                let more = [stream, Self::Word(draw.per.name().to_owned()), expected];
                Self::call(draw.distribution.name(), [list(&draw.args), more.to_vec()].concat())
            }
            Expr::Learn(table, args) => Self::call(&learned(table), list(args)),
            Expr::Read(value, args) => Self::call(&read(value), list(args)),
        }
    }
}

/// The expression that a prefix form stands for.
impl TryFrom<&Attr> for Expr {
    type Error = String;

    fn try_from(attr: &Attr) -> Result<Self, String> {
        match attr {
            Attr::Int(v) => Ok(Self::Int(*v)),
            Attr::Float(v) => Ok(Self::Float(*v)),
            Attr::Word(w) => match w.as_str() {
                "true" => Ok(Self::Bool(true)),
                "false" => Ok(Self::Bool(false)),
                "given" => Ok(Self::Given),
                "score" => Ok(Self::Score),
                "angle" => Ok(Self::Angle),
                name => {
                    VARS.into_iter().find(|v| v.name() == name).map(Self::Var).ok_or(format!("unknown name `{name}`"))
                }
            },
            Attr::Text(t) => Err(format!("a text `{t}` in an expression")),
            Attr::Call(name, args) if Distribution::named(name).is_some() => draw(name, args),
            Attr::Call(name, args) => call_to_expr(name, args.iter().map(Self::try_from).collect::<Result<_, _>>()?),
        }
    }
}

/// A draw: the parameters of the distribution, the stream, who shares it, and the number that stands for it where nothing is drawn.
fn draw(name: &str, args: &[Attr]) -> Result<Expr, String> {
    let wrong = || format!("`{name}` takes parameters, a stream, `row` or `batch`, and a number of its kind");
    let distribution = Distribution::named(name).ok_or_else(wrong)?;
    let (args, [stream, per, expected]) = args.split_last_chunk::<3>().ok_or_else(wrong)?;
    let stream = stream.int().and_then(|stream| u64::try_from(stream).ok()).ok_or_else(wrong)?;
    let per = per.text().and_then(Per::named).ok_or_else(wrong)?;
    let expected = match expected {
        Attr::Int(v) if distribution.is_whole() => ScalarValue::Int(*v),
        Attr::Float(v) if !distribution.is_whole() && v.is_finite() => ScalarValue::Float(*v),
        _ => return Err(wrong()),
    };
    let args: Vec<Expr> = args.iter().map(Expr::try_from).collect::<Result<_, _>>()?;
    if args.len() != distribution.arity() {
        return Err(wrong());
    }
    Ok(Expr::Draw(Box::new(Draw { distribution, args, stream, per, expected })))
}

fn call_to_expr(name: &str, mut args: Vec<Expr>) -> Result<Expr, String> {
    let wrong = format!("`{name}` does not take {} arguments", args.len());
    if let Some((_, op)) = BINARY.iter().find(|(n, _)| *n == name) {
        let (Some(b), Some(a), true) = (args.pop(), args.pop(), args.is_empty()) else { return Err(wrong) };
        return Ok(Expr::Binary(*op, Box::new(a), Box::new(b)));
    }
    if let Some(func) = Func::named(name, args.len()) {
        return if args.len() == func.arity() { Ok(Expr::Call(func, args)) } else { Err(wrong) };
    }
    match (name, args.pop()) {
        ("neg", Some(x)) if args.is_empty() => Ok(Expr::Neg(Box::new(x))),
        ("not", Some(x)) if args.is_empty() => Ok(Expr::Not(Box::new(x))),
        (name, Some(x)) if name.starts_with("read_") => {
            args.push(x);
            Ok(Expr::Read(name.strip_prefix("read_").unwrap_or_default().to_owned(), args))
        }
        (name, Some(x)) if name == "learn" || name.starts_with("learn_") => {
            args.push(x);
            Ok(Expr::Learn(name.strip_prefix("learn_").unwrap_or_default().to_owned(), args))
        }
        _ => Err(format!("unknown function `{name}`")),
    }
}
