//! Masks, biases and scores of pairs of positions as Python on tensors, from their functions; depths and counts as Python on plain numbers.

use rtc_compiler::expr::{BiasFacts, BinaryOp, Expr, Func, LARGEST_BIAS, Var, tables};
use rtc_compiler::ir::graph::{Graph, Node};
use rtc_compiler::ir::pointwise::{Pointwise, PointwiseSteps, Scalar};
use rtc_compiler::ir::scalar::{ExprScalar, Leaf, TruthScalar, Untold};
use rtc_compiler::ir::types::Attr;

use super::code::{Binds, Code};
use super::ops::{rows_of, scalar};
use super::python::repr;
use crate::Refused;

/// What expressions of pairs of positions read besides the tensors `i`, `j`, `head` and `length`.
#[derive(Clone, Copy, Debug)]
pub(super) struct PairContext<'a> {
    /// The name of the step; empty where there is none.
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

impl PairContext<'_> {
    /// Whether a mask holds: where it has no truth value it does not.
    pub(super) fn mask(&self, expr: &Expr, sections: &mut Vec<&'static str>) -> Result<String, Refused> {
        let own = ExprScalar::plain(expr, &BiasFacts::of_rows(self.heads, None)).map_err(untold)?;
        let leaves = self.leaves(&own, sections)?;
        let code = match own.condition() {
            Some(holds) => condition(&holds, &leaves, sections)?,
            None => Code::infix(">", &written(&own, &leaves, sections)?, &Code::atom("0")),
        };
        Ok(code.inside(Binds::Argument))
    }

    /// A bias or a score, asked where the mask holds; NaN where it has no number.
    pub(super) fn bias(
        &self,
        expr: &Expr,
        mask: Option<&Expr>,
        sections: &mut Vec<&'static str>,
    ) -> Result<String, Refused> {
        let (facts, uses) = (BiasFacts::of_rows(self.heads, mask), tables(expr).operands());
        let own = ExprScalar::new(expr, &uses, self.sizes, &facts, LARGEST_BIAS).map_err(untold)?;
        let leaves = self.leaves(&own, sections)?;
        Ok(written(&own, &leaves, sections)?.inside(Binds::Argument))
    }

    /// The numbers that are read.
    fn leaves(&self, own: &ExprScalar, sections: &mut Vec<&'static str>) -> Result<Vec<Code>, Refused> {
        let mut leaves = vec![];
        for leaf in &own.leaves {
            let mut place = |at: &Scalar| match at {
                Scalar::Number(x) => Ok(like(&Code::number(*x))),
                at => part(at, &leaves, !own.is_total, sections),
            };
            let code = match leaf {
                Leaf::Var(Var::Step) if self.step.is_empty() => like(&Code::atom("0")),
                Leaf::Var(Var::Step) => {
                    Code::atom(format!("torch.as_tensor({}, device=i.device)", self.step)).dot("to(i.dtype)")
                }
                Leaf::Var(var) => Code::atom(var.name()),
                Leaf::Given => return Err(Refused("`given` in a mask or a bias".to_owned())),
                Leaf::Table { table, at } => {
                    let at = place(at)?;
                    let table = self.tables.get(*table).ok_or_else(|| Refused("a table without numbers".to_owned()))?;
                    sections.push("look_up");
                    Code::call("look_up", &[&Code::atom(table), &at], &[])
                }
                Leaf::Value { value, channel, .. } => {
                    let channel = channel.as_ref().map(place).transpose()?;
                    let value = self.values.get(*value).ok_or_else(|| Refused("a value without numbers".to_owned()))?;
                    let at = if matches!(leaf, Leaf::Value { of_query: true, .. }) { "i" } else { "j" };
                    let channel = channel.map_or_else(String::new, |channel| {
                        format!(", {}", channel.dot("long()").inside(Binds::Argument))
                    });
                    Code::atom(format!("{value}[row, {at}.long(){channel}].to(i.dtype)"))
                }
                Leaf::Score => Code::atom("score.to(i.dtype)"),
            };
            leaves.push(code);
        }
        Ok(leaves)
    }
}

/// A number as a tensor of the type of positions.
fn like(number: &Code) -> Code {
    Code::call("i.new_tensor", &[number], &[])
}

/// A function on tensors. Where it may have no number, no gradient may come from there.
fn written(own: &ExprScalar, leaves: &[Code], sections: &mut Vec<&'static str>) -> Result<Code, Refused> {
    part(&own.scalar, leaves, !own.is_total, sections)
}

fn part(x: &Scalar, leaves: &[Code], in_branch: bool, sections: &mut Vec<&'static str>) -> Result<Code, Refused> {
    let code = scalar(x, leaves, &like, in_branch)?;
    sections.extend(needed(std::slice::from_ref(x)));
    if code.inside(Binds::Argument).contains("quiet(") {
        sections.push("quiet");
    }
    Ok(code)
}

/// The sections with the functions of expressions.
pub(super) fn needed(exprs: &[Scalar]) -> Vec<&'static str> {
    let section = |func| match func {
        Pointwise::Less | Pointwise::Choose => Some("conditions"),
        Pointwise::Equal | Pointwise::Within | Pointwise::Pow | Pointwise::LogUp => Some("numbers"),
        Pointwise::Lerp => Some("lerp"),
        _ => None,
    };
    PointwiseSteps::of(exprs).steps.into_iter().filter_map(|step| section(step.func)).collect()
}

/// A truth value as people write it.
fn condition(holds: &TruthScalar, leaves: &[Code], sections: &mut Vec<&'static str>) -> Result<Code, Refused> {
    let mut number = |x: &Scalar| part(x, leaves, false, sections);
    Ok(match holds {
        TruthScalar::Is(holds) => {
            let i = Code::atom("i");
            Code::infix(if *holds { "==" } else { "!=" }, &i, &i)
        }
        TruthScalar::Less(a, b) => Code::infix("<", &number(a)?, &number(b)?),
        TruthScalar::LessEqual(a, b) => Code::infix("<=", &number(a)?, &number(b)?),
        TruthScalar::Equal(a, b) => Code::infix("==", &number(a)?, &number(b)?),
        TruthScalar::Not(x) => Code::atom(format!("~{}", condition(x, leaves, sections)?.inside(Binds::Atom))),
        TruthScalar::And(a, b) | TruthScalar::Or(a, b) => {
            let symbol = if matches!(holds, TruthScalar::And(..)) { "&" } else { "|" };
            Code::infix(symbol, &condition(a, leaves, sections)?, &condition(b, leaves, sections)?)
        }
    })
}

/// A number of steps or of choices on plain numbers of Python, which are exact; where it has none, Python stops.
pub(super) fn steps_or_choices(expr: &Expr, step: &str, sections: &mut Vec<&'static str>) -> Result<String, Refused> {
    if ExprScalar::plain(expr, &BiasFacts::of_rows(1, None)).map_err(untold)?.is_total {
        return plain(expr, step, false, sections);
    }
    let text = plain(expr, step, true, sections)?;
    sections.push("defined");
    Ok(format!("defined(lambda: {text}, {})", repr(&expr.to_string())))
}

/// The text of an expression; where `limited`, whole numbers that are too large stop Python, which has them all.
fn plain(expr: &Expr, step: &str, limited: bool, sections: &mut Vec<&'static str>) -> Result<String, Refused> {
    let mut of = |x: &Expr| plain(x, step, limited, sections);
    Ok(match expr {
        Expr::Int(v) => format!("({v})"),
        Expr::Float(v) => format!("({v:?})"),
        Expr::Bool(v) => if *v { "True" } else { "False" }.to_owned(),
        Expr::Var(Var::Step) => if step.is_empty() { "0" } else { step }.to_owned(),
        Expr::Var(var) => var.name().to_owned(),
        Expr::Given => "given".to_owned(),
        Expr::Neg(x) => format!("(-{})", of(x)?),
        Expr::Not(x) => format!("(not {})", of(x)?),
        Expr::Binary(op, a, b) => {
            let is_whole = a.is_whole() && b.is_whole();
            let symbol = match op {
                BinaryOp::Div if is_whole => "//",
                BinaryOp::Pow => "**",
                op => op.symbol(),
            };
            let (a, b) = (of(a)?, of(b)?);
            match op {
                BinaryOp::Pow if limited && is_whole => format!("whole_power({a}, {b})"),
                op if limited && !op.is_boolean() => {
                    format!("{}({a} {symbol} {b})", if is_whole { "exact" } else { "finite" })
                }
                _ => format!("({a} {symbol} {b})"),
            }
        }
        Expr::Call(func, args) => {
            let texts = args.iter().map(&mut of).collect::<Result<Vec<_>, _>>()?;
            match (func, &texts[..]) {
                (Func::When, [c, a, b]) => format!("({a} if {c} else {b})"),
                (Func::Log, _) => {
                    sections.push("log");
                    format!("log({})", texts.join(", "))
                }
                (Func::Floor, [x]) if limited => format!("exact(math.floor({x}))"),
                (Func::Sigmoid, [x]) => format!("(1 / (1 + math.exp(-{x})))"),
                (Func::Min | Func::Max, _) => format!("{}({})", func.name(), texts.join(", ")),
                _ => format!("math.{}({})", func.name(), texts.join(", ")),
            }
        }
        Expr::Draw(_) => return Err(untold(Untold(expr.clone()))),
        Expr::Learn(..) | Expr::Read(..) | Expr::Score | Expr::Angle => {
            return Err(Refused("a depth that reads a table or a value".to_owned()));
        }
    })
}

fn untold(Untold(part): Untold) -> Refused {
    match part {
        Expr::Draw(_) => Refused(format!("`{part}`, which is drawn in training")),
        part => Refused(format!("`{part}`, which has no number for a query and a key")),
    }
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
    let text = steps_or_choices(&expr, "", sections)?;
    let lengths = format!("{}.lengths", rows_of(axis));
    Ok(if expr.holds_given() {
        format!("[{text} for length, given in zip({lengths}, rows.depths)]")
    } else {
        format!("[{text} for length in {lengths}]")
    })
}
