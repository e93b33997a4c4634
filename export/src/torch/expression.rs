//! Masks, biases and depths as Python.

use rtc_compiler::expr::{BinaryOp, Expr, Func, Var};
use rtc_compiler::ir::graph::{Graph, Node};
use rtc_compiler::ir::types::Attr;

use crate::Refused;

/// Where an expression is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place<'a> {
    /// For one row, with plain numbers `length` and `given`.
    Row,
    /// The same with the number of the step under this name.
    Numbers { step: &'a str },
    /// For many pairs of positions at once, with tensors `i`, `j`, `head` and `length`, and the step under this name.
    Pairs { step: &'a str, tables: &'a [String] },
}

/// What an expression became.
struct Python {
    text: String,
    /// Whether it can stand inside another one without parentheses.
    atom: bool,
    /// Whether it is a real number, and not a whole one or a truth value.
    real: bool,
    /// Whether it is a tensor.
    tensor: bool,
}

/// Writes one expression.
pub(super) struct Writer<'a> {
    place: Place<'a>,
    /// The table of every use of `learn`, in reading order.
    uses: Vec<usize>,
    next: usize,
    /// Sections that the text needs.
    pub(super) sections: Vec<&'static str>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(place: Place<'a>, expr: &Expr) -> Self {
        let uses = rtc_compiler::expr::tables(expr).uses.iter().map(|(table, _)| *table).collect();
        Self { place, uses, next: 0, sections: vec![] }
    }

    /// The text of an expression.
    pub(super) fn text(&mut self, expr: &Expr) -> Result<String, Refused> {
        Ok(self.write(expr)?.text)
    }

    fn write(&mut self, expr: &Expr) -> Result<Python, Refused> {
        let plain = |text: String| Python { text, atom: true, real: false, tensor: false };
        Ok(match expr {
            Expr::Int(v) => Python { atom: *v >= 0, ..plain(v.to_string()) },
            Expr::Float(v) => Python { atom: *v >= 0.0, real: true, ..plain(format!("{v:?}")) },
            Expr::Bool(v) => plain(if *v { "True" } else { "False" }.to_owned()),
            Expr::Given => plain("given".to_owned()),
            Expr::Draw(_) => return Err(Refused(format!("`{expr}`, which is drawn in training"))),
            Expr::Var(Var::Step) => match self.place {
                Place::Pairs { step, .. } | Place::Numbers { step } if !step.is_empty() => plain(step.to_owned()),
                _ => plain("0".to_owned()),
            },
            Expr::Var(var) => {
                Python { tensor: matches!(self.place, Place::Pairs { .. }), ..plain(var.name().to_owned()) }
            }
            Expr::Neg(x) => {
                let x = self.write(x)?;
                Python { text: format!("-{}", atom(&x)), atom: false, ..x }
            }
            Expr::Not(x) => {
                let x = self.write(x)?;
                let sign = if x.tensor { "~" } else { "not " };
                Python { text: format!("{sign}{}", atom(&x)), atom: false, ..x }
            }
            Expr::Binary(op, a, b) => self.binary(*op, a, b)?,
            Expr::Call(func, args) => self.call(*func, args)?,
            Expr::Learn(_, indices) => self.learned(indices)?,
        })
    }

    fn binary(&mut self, op: BinaryOp, a: &Expr, b: &Expr) -> Result<Python, Refused> {
        if matches!(op, BinaryOp::Div | BinaryOp::Rem) && !is_positive(b) {
            return Err(Refused(format!("the divisor `{b}` of an expression may be 0")));
        }
        let (mut a, mut b) = (self.write(a)?, self.write(b)?);
        let tensor = a.tensor || b.tensor;
        let real = !op.is_boolean() && (a.real || b.real);
        if real && tensor {
            for x in [&mut a, &mut b] {
                self.make_real(x);
            }
        }
        let symbol = match op {
            BinaryOp::And if tensor => "&",
            BinaryOp::Or if tensor => "|",
            BinaryOp::Div if !real => "//",
            BinaryOp::Pow => "**",
            op => op.symbol(),
        };
        Ok(Python { text: format!("{} {symbol} {}", atom(&a), atom(&b)), atom: false, real, tensor })
    }

    /// Whole numbers that meet real ones become double precision.
    fn make_real(&mut self, x: &mut Python) {
        if x.tensor && !x.real {
            self.sections.push("numbers");
            *x = Python { text: format!("real({})", x.text), atom: true, real: true, tensor: true };
        }
    }

    fn call(&mut self, func: Func, args: &[Expr]) -> Result<Python, Refused> {
        let mut args = args.iter().map(|arg| self.write(arg)).collect::<Result<Vec<_>, _>>()?;
        let tensor = args.iter().any(|arg| arg.tensor) || matches!(func, Func::Ln | Func::Floor);
        let real = match func {
            Func::Min | Func::Max => args.iter().any(|arg| arg.real),
            Func::Ln => true,
            Func::Log | Func::Floor => false,
        };
        if real {
            args.iter_mut().for_each(|arg| self.make_real(arg));
        }
        let name = match func {
            Func::Min if tensor => "smaller",
            Func::Max if tensor => "larger",
            Func::Log if tensor => "log_of",
            Func::Min => "min",
            Func::Max => "max",
            Func::Log => "log",
            Func::Ln => "ln",
            Func::Floor => "floor",
        };
        match name {
            "log" => self.sections.push("log"),
            "min" | "max" => {}
            _ => self.sections.push("numbers"),
        }
        let args: Vec<String> = args.into_iter().map(|arg| arg.text).collect();
        Ok(Python { text: format!("{name}({})", args.join(", ")), atom: true, real, tensor })
    }

    fn learned(&mut self, indices: &[Expr]) -> Result<Python, Refused> {
        let indices = indices.iter().map(|index| self.text(index)).collect::<Result<Vec<_>, _>>()?;
        let Place::Pairs { tables, .. } = self.place else {
            return Err(Refused("a depth with a learned table".to_owned()));
        };
        let table = self.uses.get(self.next).and_then(|table| tables.get(*table));
        let table = table.ok_or_else(|| Refused("a learned table without numbers".to_owned()))?;
        self.next += 1;
        self.sections.push("learned");
        let text = format!("learned({table}, {})", indices.join(", "));
        Ok(Python { text, atom: true, real: true, tensor: true })
    }
}

fn atom(x: &Python) -> String {
    if x.atom { x.text.clone() } else { format!("({})", x.text) }
}

/// Whether an expression can be seen to be above 0.
fn is_positive(expr: &Expr) -> bool {
    match expr {
        Expr::Int(v) => *v > 0,
        Expr::Float(v) => *v > 0.0,
        Expr::Var(Var::Length) => true,
        Expr::Binary(BinaryOp::Pow, base, _) => is_positive(base),
        Expr::Binary(BinaryOp::Mul, a, b) => is_positive(a) && is_positive(b),
        Expr::Binary(BinaryOp::Add, a, b) => (is_positive(a) && is_natural(b)) || (is_natural(a) && is_positive(b)),
        Expr::Call(Func::Max, args) => args.iter().any(is_positive),
        Expr::Call(Func::Min, args) => args.iter().all(is_positive),
        Expr::Call(Func::Ln, args) => matches!(args[..], [Expr::Float(v)] if v > 1.0),
        _ => false,
    }
}

/// Whether an expression can be seen to be at least 0.
fn is_natural(expr: &Expr) -> bool {
    matches!(expr, Expr::Int(0..) | Expr::Var(_)) || is_positive(expr)
}

/// The steps that the bound of a node gives every row, as a list.
pub(super) fn row_bound(
    graph: &Graph,
    node: &Node,
    rule: &Attr,
    sections: &mut Vec<&'static str>,
) -> Result<String, Refused> {
    let expr = Expr::try_from(rule).map_err(Refused)?;
    if expr == Expr::Given {
        return Ok("rows.depths".to_owned());
    }
    let ragged = node.operands.iter().find_map(|v| graph.ty(*v).ragged());
    let axis = ragged.ok_or_else(|| Refused("a depth over the length of no sequence".to_owned()))?;
    let mut writer = Writer::new(Place::Row, &expr);
    let text = writer.text(&expr)?;
    sections.append(&mut writer.sections);
    let lengths = format!("rows[\"{axis}\"].lengths");
    Ok(if expr.holds_given() {
        format!("[{text} for length, given in zip({lengths}, rows.depths)]")
    } else {
        format!("[{text} for length in {lengths}]")
    })
}
