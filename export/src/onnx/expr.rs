//! Expressions of masks, biases and depths as operators of ONNX, with the values that the language gives them.
//!
//! Whole numbers are `int64`, others double precision. Where an expression has no value (a division by zero, an index outside of a table)
//! a second tensor says so, and what stands there instead means nothing.

use rtc_compiler::expr::{BinaryOp, Expr, Func, Var};

use super::Refused;
use super::build::Builder;
use super::proto::{Attribute, Kind};

/// A value for every place where an expression is asked.
#[derive(Clone, Debug)]
pub(super) struct Valued {
    pub(super) name: String,
    kind: Kind,
    /// Where it has a value; nothing where that is everywhere.
    pub(super) known: Option<String>,
}

/// The names of the variables, as tensors that fit together.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    pub(super) i: Option<String>,
    pub(super) j: Option<String>,
    pub(super) step: Option<String>,
    pub(super) length: Option<String>,
    pub(super) head: Option<String>,
    pub(super) given: Option<String>,
}

/// A learned table of a bias: its numbers, its sizes, and its name in the language.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) called: String,
    pub(super) name: String,
    pub(super) sizes: Vec<usize>,
}

/// Everything that an expression reads.
#[derive(Clone, Debug, Default)]
pub(super) struct Reads {
    pub(super) places: Places,
    /// The tables, one for each name, and one for each use of a table without a name.
    pub(super) tables: Vec<Table>,
    /// Uses of tables so far.
    used: usize,
}

impl Reads {
    pub(super) fn new(places: Places, tables: Vec<Table>) -> Self {
        Self { places, tables, used: 0 }
    }
}

impl Builder<'_> {
    /// The value of an expression.
    pub(super) fn expression(&mut self, expr: &Expr, reads: &mut Reads) -> Result<Valued, Refused> {
        let sure = |name: String, kind: Kind| Valued { name, kind, known: None };
        Ok(match expr {
            Expr::Int(n) => sure(self.int(*n), Kind::Int),
            Expr::Float(x) => sure(self.double(*x), Kind::Double),
            Expr::Bool(v) => sure(self.truth(*v), Kind::Bool),
            Expr::Var(var) => sure(variable(*var, &reads.places)?, Kind::Int),
            Expr::Draw(_) => return Err(unsaid(expr)),
            Expr::Given => sure(reads.places.given.clone().ok_or_else(|| unsaid(expr))?, Kind::Int),
            Expr::Neg(x) => {
                let x = self.expression(x, reads)?;
                Valued { name: self.op("Neg", &[&x.name]), ..x }
            }
            Expr::Not(x) => {
                let x = self.expression(x, reads)?;
                Valued { name: self.op("Not", &[&x.name]), ..x }
            }
            Expr::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                let (a, b) = (self.expression(a, reads)?, self.expression(b, reads)?);
                self.joined(*op, a, b)
            }
            Expr::Binary(op, a, b) => {
                let (a, b) = (self.expression(a, reads)?, self.expression(b, reads)?);
                self.binary(*op, a, b).ok_or_else(|| unsaid(expr))?
            }
            Expr::Call(Func::Log, args) => match args.as_slice() {
                [x, Expr::Int(base)] if *base > 1 => {
                    let x = self.expression(x, reads)?;
                    self.logarithm(x, *base)
                }
                _ => return Err(unsaid(expr)),
            },
            Expr::Call(func, args) => {
                let args = args.iter().map(|arg| self.expression(arg, reads)).collect::<Result<Vec<_>, _>>()?;
                self.call(*func, &args).ok_or_else(|| unsaid(expr))?
            }
            Expr::Learn(called, indices) => {
                let own = reads.used;
                reads.used += usize::from(called.is_empty());
                let indices = indices.iter().map(|x| self.expression(x, reads)).collect::<Result<Vec<_>, _>>()?;
                let mut named = reads.tables.iter().filter(|table| table.called == *called);
                let table = if called.is_empty() { named.nth(own) } else { named.next() };
                let table = table.cloned().ok_or_else(|| unsaid(expr))?;
                self.learned(&table, &indices)
            }
        })
    }

    /// `and`, `or`: what the first side decides needs no second one.
    fn joined(&mut self, op: BinaryOp, a: Valued, b: Valued) -> Valued {
        let name = self.op(if op == BinaryOp::And { "And" } else { "Or" }, &[&a.name, &b.name]);
        let decided = match &b.known {
            Some(known) if op == BinaryOp::And => {
                let no = self.op("Not", &[&a.name]);
                Some(self.op("Or", &[known, &no]))
            }
            Some(known) => Some(self.op("Or", &[known, &a.name])),
            None => None,
        };
        let known = self.both_known(a.known, decided);
        Valued { name, kind: Kind::Bool, known }
    }

    fn both_known(&mut self, a: Option<String>, b: Option<String>) -> Option<String> {
        match (a, b) {
            (Some(a), Some(b)) => Some(self.op("And", &[&a, &b])),
            (a, b) => a.or(b),
        }
    }

    /// A number in double precision.
    fn real(&mut self, x: &Valued) -> String {
        if x.kind == Kind::Double { x.name.clone() } else { self.cast(&x.name, Kind::Double) }
    }

    fn binary(&mut self, op: BinaryOp, a: Valued, b: Valued) -> Option<Valued> {
        let known = self.both_known(a.known.clone(), b.known.clone());
        if a.kind == Kind::Bool || b.kind == Kind::Bool {
            let equal = self.op("Equal", &[&a.name, &b.name]);
            let name = if op == BinaryOp::Ne { self.op("Not", &[&equal]) } else { equal };
            return Some(Valued { name, kind: Kind::Bool, known });
        }
        let whole = a.kind == Kind::Int && b.kind == Kind::Int;
        let (x, y) = if whole { (a.name, b.name) } else { (self.real(&a), self.real(&b)) };
        if op.is_boolean() {
            return Some(Valued { name: self.compared(op, &x, &y), kind: Kind::Bool, known });
        }
        let kind = if whole { Kind::Int } else { Kind::Double };
        let of = |name| Some(Valued { name, kind, known: known.clone() });
        match op {
            BinaryOp::Add => of(self.op("Add", &[&x, &y])),
            BinaryOp::Sub => of(self.op("Sub", &[&x, &y])),
            BinaryOp::Mul => of(self.op("Mul", &[&x, &y])),
            BinaryOp::Div | BinaryOp::Rem => {
                let (name, divides) = self.divided(op, &x, &y, whole);
                let known = self.both_known(known, Some(divides));
                Some(Valued { name, kind, known })
            }
            BinaryOp::Pow if whole => {
                // Whole numbers have no negative power.
                let zero = self.int(0);
                let has = self.op("GreaterOrEqual", &[&y, &zero]);
                let power = self.op("Max", &[&y, &zero]);
                let name = self.op("Pow", &[&x, &power]);
                let known = self.both_known(known, Some(has));
                Some(Valued { name, kind, known })
            }
            BinaryOp::Pow => of(self.op("Pow", &[&x, &y])),
            _ => None,
        }
    }

    fn compared(&mut self, op: BinaryOp, x: &str, y: &str) -> String {
        match op {
            BinaryOp::Lt => self.op("Less", &[x, y]),
            BinaryOp::Le => self.op("LessOrEqual", &[x, y]),
            BinaryOp::Gt => self.op("Greater", &[x, y]),
            BinaryOp::Ge => self.op("GreaterOrEqual", &[x, y]),
            BinaryOp::Ne => {
                let equal = self.op("Equal", &[x, y]);
                self.op("Not", &[&equal])
            }
            _ => self.op("Equal", &[x, y]),
        }
    }

    /// Quotient or remainder, rounded down, and where the divisor is not 0.
    fn divided(&mut self, op: BinaryOp, x: &str, y: &str, whole: bool) -> (String, String) {
        let (zero, one) = if whole { (self.int(0), self.int(1)) } else { (self.double(0.0), self.double(1.0)) };
        let is_zero = self.op("Equal", &[y, &zero]);
        let divides = self.op("Not", &[&is_zero]);
        let by = self.op("Where", &[&is_zero, &one, y]);
        let name = if whole {
            let rest = self.op("Mod", &[x, &by]);
            if op == BinaryOp::Rem {
                rest
            } else {
                let multiple = self.op("Sub", &[x, &rest]);
                self.op("Div", &[&multiple, &by])
            }
        } else {
            let quotient = self.op("Div", &[x, &by]);
            if op == BinaryOp::Div {
                quotient
            } else {
                let down = self.op("Floor", &[&quotient]);
                let multiple = self.op("Mul", &[&down, &by]);
                self.op("Sub", &[x, &multiple])
            }
        };
        (name, divides)
    }

    /// The smallest k with `base^k >= x`.
    fn logarithm(&mut self, x: Valued, base: i64) -> Valued {
        let mut powers = vec![1_i64];
        while let Some(next) = powers.last().and_then(|power| power.checked_mul(base)) {
            powers.push(next);
        }
        let (powers, apart) = (self.ints(&powers), self.unsqueeze(&x.name, &[-1]));
        let below = self.op("Less", &[&powers, &apart]);
        let below = self.cast(&below, Kind::Int);
        Valued { name: self.reduce("ReduceSum", &below, &[-1]), kind: Kind::Int, known: x.known }
    }

    fn call(&mut self, func: Func, args: &[Valued]) -> Option<Valued> {
        match (func, args) {
            (Func::Floor, [x]) if x.kind == Kind::Int => Some(x.clone()),
            (Func::Floor, [x]) => {
                let down = self.op("Floor", &[&x.name]);
                Some(Valued { name: self.cast(&down, Kind::Int), kind: Kind::Int, known: x.known.clone() })
            }
            (Func::Ln, [x]) => {
                let (real, zero, one) = (self.real(x), self.double(0.0), self.double(1.0));
                let has = self.op("Greater", &[&real, &zero]);
                let positive = self.op("Where", &[&has, &real, &one]);
                let name = self.op("Log", &[&positive]);
                let known = self.both_known(x.known.clone(), Some(has));
                Some(Valued { name, kind: Kind::Double, known })
            }
            (Func::Min | Func::Max, [a, b]) => {
                let whole = a.kind == Kind::Int && b.kind == Kind::Int;
                let (x, y) = if whole { (a.name.clone(), b.name.clone()) } else { (self.real(a), self.real(b)) };
                let name = self.op(if func == Func::Min { "Min" } else { "Max" }, &[&x, &y]);
                let known = self.both_known(a.known.clone(), b.known.clone());
                Some(Valued { name, kind: if whole { Kind::Int } else { Kind::Double }, known })
            }
            _ => None,
        }
    }

    /// The number of a table at some indices; there is none outside of it.
    fn learned(&mut self, table: &Table, indices: &[Valued]) -> Valued {
        let (mut place, zero) = (self.int(0), self.int(0));
        let mut known = None;
        for (index, size) in indices.iter().zip(&table.sizes) {
            let (count, last) = (self.int(*size as i64), self.int(*size as i64 - 1));
            let above = self.op("GreaterOrEqual", &[&index.name, &zero]);
            let below = self.op("Less", &[&index.name, &count]);
            let inside = self.op("And", &[&above, &below]);
            let more = self.both_known(index.known.clone(), Some(inside));
            known = self.both_known(known, more);
            let index = self.op("Max", &[&index.name, &zero]);
            let index = self.op("Min", &[&index, &last]);
            let rows = self.op("Mul", &[&place, &count]);
            place = self.op("Add", &[&rows, &index]);
        }
        let flat = self.reshape(&table.name, &[-1]);
        let name = self.op_with("Gather", &[&flat, &place], vec![Attribute::int("axis", 0)]);
        Valued { name: self.cast(&name, Kind::Double), kind: Kind::Double, known }
    }

    /// Where an expression is true; where it has no value it is not.
    pub(super) fn holds(&mut self, value: &Valued) -> String {
        match &value.known {
            Some(known) => self.op("And", &[&value.name, known]),
            None => value.name.clone(),
        }
    }
}

fn variable(var: Var, places: &Places) -> Result<String, Refused> {
    let place = match var {
        Var::I => &places.i,
        Var::J => &places.j,
        Var::Step => &places.step,
        Var::Length => &places.length,
        Var::Head => &places.head,
    };
    place.clone().ok_or_else(|| Refused(format!("`{}` has no value where an expression reads it", var.name())))
}

fn unsaid(expr: &Expr) -> Refused {
    Refused(format!("the expression `{expr}` can't be exported as ONNX"))
}
