//! Masks, biases and depths as Python, from their terms: the value, and whether there is one.

use rtc_compiler::expr::{
    Action, BiasFacts, Care, Expr, Meaning, ReadFrom, Sort, Term, Untold, Var, bias_meaning, meaning, tables,
};
use rtc_compiler::ir::graph::{Graph, Node};
use rtc_compiler::ir::types::Attr;

use super::ops::rows_of;
use super::python::repr;
use crate::Refused;

/// The context in which an expression is evaluated.
#[derive(Clone, Copy, Debug)]
pub(super) enum EvaluationContext<'a> {
    /// For one row, with plain numbers `length` and `given`.
    Row,
    /// The same with the number of the step under this name.
    Numbers { step: &'a str },
    /// For many pairs of positions at once, with tensors `i`, `j`, `head` and `length`.
    Pairs(&'a PairContext<'a>),
}

/// The context of expressions over pairs of positions.
#[derive(Clone, Copy, Debug)]
pub(super) struct PairContext<'a> {
    /// The name of the step.
    pub(super) step: &'a str,
    /// The learned tables.
    pub(super) tables: &'a [String],
    /// Their sizes.
    pub(super) sizes: &'a [Vec<usize>],
    /// The number of heads.
    pub(super) heads: usize,
    /// The values of positions that are read, padded to rows.
    pub(super) values: &'a [String],
}

/// What a term became.
struct Python {
    text: String,
    /// Whether it can stand inside another one without parentheses.
    atom: bool,
    /// Whether it is a tensor.
    tensor: bool,
    /// How many bits a plain whole number has at most.
    bits: f64,
}

impl Python {
    fn call(name: &str, operands: &[Self]) -> Self {
        let texts: Vec<&str> = operands.iter().map(|x| x.text.as_str()).collect();
        let tensor = operands.iter().any(|x| x.tensor);
        Self { text: format!("{name}({})", texts.join(", ")), atom: true, tensor, bits: most_bits(operands) }
    }

    fn atom(&self) -> String {
        if self.atom { self.text.clone() } else { format!("({})", self.text) }
    }
}

fn most_bits(operands: &[Python]) -> f64 {
    operands.iter().map(|x| x.bits).fold(0.0, f64::max)
}

/// Bits of a position, a step or a length.
const COUNT_BITS: f64 = 31.0;

/// Writes the terms of one expression.
pub(super) struct ExpressionWriter<'a> {
    place: EvaluationContext<'a>,
    /// What every use reads, in reading order: a table, or the value of a number.
    uses: Vec<ReadFrom>,
    /// Sections that the text needs.
    pub(super) sections: Vec<&'static str>,
}

impl<'a> ExpressionWriter<'a> {
    pub(super) fn new(place: EvaluationContext<'a>, expr: &Expr) -> Self {
        let uses = tables(expr).operands();
        Self { place, uses, sections: vec![] }
    }

    fn facts<'e>(&self, mask: Option<&'e Expr>) -> BiasFacts<'e> {
        let heads = if let EvaluationContext::Pairs(pairs) = self.place { pairs.heads } else { 1 };
        BiasFacts::of_rows(heads, mask)
    }

    /// A number of steps or of choices; one that is not defined is an error of Python.
    pub(super) fn number(&mut self, expr: &Expr) -> Result<String, Refused> {
        let Meaning { value, defined } = meaning(expr, &self.facts(None), &[]).map_err(drawn)?;
        let text = self.write(&value)?.text;
        if defined == Term::Truth(true) {
            return Ok(text);
        }
        self.sections.push("defined");
        Ok(format!("defined({text}, {}, {})", self.write(&defined)?.text, repr(&expr.to_string())))
    }

    /// Whether a mask holds: where it has no truth value it does not.
    pub(super) fn mask(&mut self, expr: &Expr) -> Result<String, Refused> {
        let Meaning { value, defined } = meaning(expr, &self.facts(None), &[]).map_err(drawn)?;
        let holds = match defined {
            Term::Truth(true) => value,
            defined => Term::Apply(Action::And, vec![value, defined]),
        };
        Ok(self.write(&holds)?.text)
    }

    /// A bias, asked where the mask holds; NaN where it has no number.
    pub(super) fn bias(&mut self, expr: &Expr, mask: Option<&Expr>) -> Result<String, Refused> {
        let sizes = if let EvaluationContext::Pairs(pairs) = self.place { pairs.sizes } else { &[] };
        let Meaning { value, defined } = bias_meaning(expr, &self.facts(mask), sizes).map_err(drawn)?;
        let text = self.write(&value)?.text;
        if defined == Term::Truth(true) {
            return Ok(text);
        }
        self.sections.push("numbers");
        Ok(format!("where({}, {text}, torch.nan)", self.write(&defined)?.text))
    }

    fn write(&mut self, term: &Term) -> Result<Python, Refused> {
        let plain = |text: String| Python { text, atom: true, tensor: false, bits: COUNT_BITS };
        Ok(match term {
            Term::Truth(v) => plain(if *v { "True" } else { "False" }.to_owned()),
            Term::Whole(v) => {
                Python { atom: *v >= 0, bits: (v.unsigned_abs() as f64 + 1.0).log2(), ..plain(v.to_string()) }
            }
            Term::Real(v) => Python { atom: !v.is_sign_negative(), ..plain(format!("{v:?}")) },
            Term::Given => plain("given".to_owned()),
            Term::Var(Var::Step) => match self.place {
                EvaluationContext::Pairs(&PairContext { step, .. }) | EvaluationContext::Numbers { step }
                    if !step.is_empty() =>
                {
                    plain(step.to_owned())
                }
                _ => plain("0".to_owned()),
            },
            Term::Var(var) => {
                Python { tensor: matches!(self.place, EvaluationContext::Pairs(_)), ..plain(var.name().to_owned()) }
            }
            Term::Learned(use_, indices) => self.learned(*use_, indices)?,
            Term::Apply(action, operands) => {
                let sort = operands.first().map_or(Sort::Real, Term::sort);
                let operands = operands.iter().map(|x| self.write(x)).collect::<Result<Vec<_>, _>>()?;
                let python = self.apply(*action, sort, &operands);
                self.fitted(*action, sort, &operands, python)
            }
        })
    }

    /// Gives a plain whole number 64 bits, if it may have more, since it may meet a tensor: other terms tell that it has no value.
    fn fitted(&mut self, action: Action, sort: Sort, operands: &[Python], python: Python) -> Python {
        let bits = match action {
            Action::Times => operands.iter().map(|x| x.bits).sum(),
            Action::Plus | Action::Minus => most_bits(operands) + 1.0,
            Action::Power(_) => f64::INFINITY,
            _ => python.bits,
        };
        let is_plain = matches!(self.place, EvaluationContext::Pairs(_)) && sort == Sort::Whole && !python.tensor;
        if is_plain && bits > 63.0 {
            self.sections.push("partial");
            return Python { bits: 63.0, ..Python::call("as_whole", &[python]) };
        }
        Python { bits, ..python }
    }

    fn apply(&mut self, action: Action, sort: Sort, operands: &[Python]) -> Python {
        let tensor = operands.iter().any(|x| x.tensor);
        let infix = |symbol: &str| {
            let sides: Vec<String> = operands.iter().map(Python::atom).collect();
            Python { text: sides.join(&format!(" {symbol} ")), atom: false, tensor, bits: most_bits(operands) }
        };
        let bits = most_bits(operands);
        let prefix =
            |symbol: &str| Python { text: format!("{symbol}{}", operands[0].atom()), atom: false, tensor, bits };
        let real = sort == Sort::Real;
        match action {
            Action::Not => prefix(if tensor { "~" } else { "not " }),
            Action::And => infix(if tensor { "&" } else { "and" }),
            Action::Or => infix(if tensor { "|" } else { "or" }),
            Action::Equal => infix("=="),
            Action::Less => infix("<"),
            Action::LessEqual => infix("<="),
            Action::Negative => prefix("-"),
            Action::Plus => infix("+"),
            Action::Minus => infix("-"),
            Action::Times => infix("*"),
            Action::Quotient(Care::Sure) => infix(if real { "/" } else { "//" }),
            Action::Remainder(Care::Sure) if !real => infix("%"),
            // Powers of plain numbers may be more than Python's numbers hold.
            Action::Power(Care::Sure) if tensor || !real => infix("**"),
            other => {
                let (name, section) = named(other, real, tensor);
                self.sections.extend(section);
                Python::call(&name, operands)
            }
        }
    }

    fn learned(&mut self, use_: usize, indices: &[Term]) -> Result<Python, Refused> {
        if self.uses.get(use_) == Some(&ReadFrom::Score) {
            return Ok(Python { text: "score.double()".to_owned(), atom: true, tensor: true, bits: 0.0 });
        }
        let EvaluationContext::Pairs(pairs) = self.place else {
            return Err(Refused("a depth with a learned table".to_owned()));
        };
        let mut indices =
            indices.iter().map(|index| Ok(self.write(index)?.text)).collect::<Result<Vec<_>, Refused>>()?;
        let table = match self.uses.get(use_) {
            Some(ReadFrom::Table(table)) => pairs.tables.get(*table),
            Some(ReadFrom::Value(value)) => {
                indices.insert(0, "row".to_owned());
                pairs.values.get(*value)
            }
            Some(ReadFrom::Score) | None => None,
        };
        let table = table.ok_or_else(|| Refused("a learned table without numbers".to_owned()))?;
        Ok(Python { text: format!("{table}[{}].double()", indices.join(", ")), atom: true, tensor: true, bits: 0.0 })
    }
}

/// The function of an action, and the section that has it.
fn named(action: Action, real: bool, tensor: bool) -> (String, Option<&'static str>) {
    let of = |name: &str, section| (name.to_owned(), Some(section));
    match action {
        Action::Smaller if !tensor => ("min".to_owned(), None),
        Action::Larger if !tensor => ("max".to_owned(), None),
        Action::Smaller => of("smaller", "numbers"),
        Action::Larger => of("larger", "numbers"),
        Action::Choose => of("where", "numbers"),
        Action::ToReal if tensor => of("real", "numbers"),
        Action::ToReal => ("float".to_owned(), None),
        Action::LogUp(Care::Sure) if !tensor => of("log", "log"),
        Action::LogUp(Care::Sure) => of("log_of", "numbers"),
        Action::LogUp(Care::Needed) => of("any_log_of", "partial"),
        Action::Ln(Care::Sure) if tensor => ("torch.log".to_owned(), None),
        Action::Ln(Care::Sure) => ("math.log".to_owned(), None),
        Action::Ln(Care::Needed) => of("any_ln", "partial"),
        Action::Of(func, Care::Needed) => (format!("any_of(torch.{})", func.name()), Some("partial")),
        Action::Of(func, Care::Sure) if tensor => (format!("torch.{}", func.name()), None),
        Action::Of(func, Care::Sure) => (format!("plain(torch.{})", func.name()), Some("numbers")),
        Action::Floor(Care::Sure) if tensor => of("floor", "numbers"),
        Action::Floor(Care::Sure) => ("math.floor".to_owned(), None),
        Action::Floor(Care::Needed) => of("any_floor", "partial"),
        Action::Quotient(_) => of(if real { "any_quotient" } else { "any_floor_quotient" }, "partial"),
        Action::Remainder(_) => of(if real { "any_rest" } else { "any_remainder" }, "partial"),
        Action::Power(_) => of(if real { "any_power" } else { "any_whole_power" }, "partial"),
        Action::Index(size) => (format!("inside({size})"), Some("partial")),
        Action::Bounded => of("bounded", "partial"),
        Action::Finite => of("finite", "partial"),
        Action::FinitePower => of("finite_power", "partial"),
        Action::FloorFits => of("floor_fits", "partial"),
        Action::QuotientFits => of("quotient_fits", "partial"),
        Action::SumFits => of("sum_fits", "partial"),
        Action::DifferenceFits => of("difference_fits", "partial"),
        Action::ProductFits => of("product_fits", "partial"),
        Action::PowerFits => of("power_fits", "partial"),
        Action::Not
        | Action::And
        | Action::Or
        | Action::Equal
        | Action::Less
        | Action::LessEqual
        | Action::Negative
        | Action::Plus
        | Action::Minus
        | Action::Times => unreachable!("these are operators of Python"),
    }
}

fn drawn(Untold(part): Untold) -> Refused {
    Refused(format!("`{part}`, which is drawn in training"))
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
    let mut writer = ExpressionWriter::new(EvaluationContext::Row, &expr);
    let text = writer.number(&expr)?;
    sections.append(&mut writer.sections);
    let lengths = format!("{}.lengths", rows_of(axis));
    Ok(if expr.holds_given() {
        format!("[{text} for length, given in zip({lengths}, rows.depths)]")
    } else {
        format!("[{text} for length in {lengths}]")
    })
}
