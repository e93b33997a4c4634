//! The expression of every op in PyTorch.

use rtc_compiler::expr::{Expr, ScoreExpr};
use rtc_compiler::ir::attribute::{
    self, At, Attribute, Discretisation, Layout, Mask, Origin, PositionKind, Reduction, Relative, ScanKernel, Side,
    StepBound,
};
use rtc_compiler::ir::graph::{Graph, Node, Value};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::places::is_chosen;
use rtc_compiler::ir::pointwise::{self, Pointwise, Scalar};
use rtc_compiler::ir::rotation;
use rtc_compiler::ir::types::{Attr, Dim, Elem, Type};

use super::code::{Binds, Code};
use super::expression::{PairContext, needed, row_bound, steps_or_choices};
use super::parts::ModuleParameters;
use super::python::repr;
use crate::Refused;

/// An op's view of its node: its operands as expressions.
pub(super) struct OpCall<'a> {
    pub(super) graph: &'a Graph,
    pub(super) parts: &'a ModuleParameters,
    /// Whether the node stands in a branch that a choice may not take, and may have numbers there that are not finite.
    pub(super) in_branch: bool,
    /// The slot of the copy that is written, if it is one.
    pub(super) copy: Option<&'a str>,
    pub(super) node: &'a Node,
    pub(super) operands: &'a [Code],
    /// Sections that the expression needs.
    pub(super) sections: &'a mut Vec<&'static str>,
}

/// The attributes that the translations know. With another one an op may mean something else.
const KNOWN: &[Attribute] = &[
    attribute::ALIGN.row,
    attribute::ARITY.row,
    attribute::AT.row,
    attribute::AXIS.row,
    attribute::BASE.row,
    attribute::BEAMS.row,
    attribute::BOUND.row,
    attribute::BY.row,
    attribute::CAP.row,
    attribute::CARRIED.row,
    attribute::COMPOSE.row,
    attribute::COUNT.row,
    attribute::CUT.row,
    attribute::DISCRETISATION.row,
    attribute::DRAWS.row,
    attribute::DROPOUT.row,
    attribute::EPS.row,
    attribute::EVALUATION.row,
    attribute::F.row,
    attribute::FILLED.row,
    attribute::FLAT.row,
    attribute::HEADS.row,
    attribute::HIGH.row,
    attribute::KEEP_BEST.row,
    attribute::KERNEL.row,
    attribute::KEY_HEADS.row,
    attribute::KIND.row,
    attribute::LAG.row,
    attribute::LAST.row,
    attribute::LAYOUT.row,
    attribute::LOW.row,
    attribute::MASK.row,
    attribute::NAMES.row,
    attribute::NOISE.row,
    attribute::OF.row,
    attribute::ORIGIN.row,
    attribute::OVER.row,
    attribute::OVERFLOW.row,
    attribute::P.row,
    attribute::PADDING.row,
    attribute::PART.row,
    attribute::ANGLE.row,
    attribute::PARTS.row,
    attribute::PLAN.row,
    attribute::POSITION.row,
    attribute::RANK.row,
    attribute::READS.row,
    attribute::ROLE.row,
    attribute::SCALE.row,
    attribute::SCORE.row,
    attribute::SHORT.row,
    attribute::SIDE.row,
    attribute::SINGLE.row,
    attribute::SIZE.row,
    attribute::START.row,
    attribute::STD.row,
    attribute::STOP.row,
    attribute::STREAM.row,
    attribute::TALKING.row,
    attribute::THRESHOLD.row,
    attribute::TIED.row,
    attribute::TRANSPOSE.row,
    attribute::TRANSPOSED.row,
    attribute::VALUE.row,
    attribute::WHEN.row,
    attribute::WIDTH.row,
];

/// Refuses a node with an attribute that no translation knows.
pub(super) fn known(node: &Node) -> Result<(), Refused> {
    match node.attrs.iter().find(|(name, _)| KNOWN.iter().all(|known| known.name != *name)) {
        Some((name, _)) => Err(Refused(format!("`{name}` of the op `{}`", node.op))),
        None => Ok(()),
    }
}

/// A number as Python writes it.
pub(super) fn number(value: f64) -> String {
    Code::number(value).inside(Binds::Argument)
}

/// The axis of a name.
pub(super) fn rows_of(axis: &str) -> String {
    format!("rows[{}]", repr(axis))
}

/// The ragged axis of a value as an expression; `None` where its second axis has a size.
pub(super) fn axis(ty: &Type) -> Option<String> {
    ty.ragged().map(rows_of)
}

/// Whether an expression is arithmetic of constants without a number: of those with one, the simplest form is the number.
fn is_no_number(expr: &Scalar) -> bool {
    let Scalar::Call(func, args) = expr else { return false };
    let is_arithmetic = {
        use Pointwise::{Abs, Add, Div, Lerp, Mul, Neg, Sub};
        matches!(func, Abs | Add | Div | Lerp | Mul | Neg | Sub)
    };
    is_arithmetic && args.iter().all(|arg| matches!(arg, Scalar::Number(_)) || is_no_number(arg))
}

/// The expression of a number, which a choice may not take where it stands in a branch; `constant` makes a tensor of a plain number.
pub(super) fn scalar(
    expr: &Scalar,
    operands: &[Code],
    constant: &dyn Fn(&Code) -> Code,
    in_branch: bool,
) -> Result<Code, Refused> {
    let (func, args) = match expr {
        // Constants that are no simpler have no number: Python would stop at some, and gives others that are no tensors.
        expr if is_no_number(expr) => return Ok(Code::number(f64::NAN)),
        Scalar::Call(Pointwise::Lerp, args) if in_branch => {
            let rest = Scalar::call(Pointwise::Sub, vec![Scalar::Number(1.0), args[0].clone()]);
            let parts = [[args[0].clone(), args[1].clone()], [rest, args[2].clone()]];
            (Pointwise::Add, parts.map(|part| Scalar::call(Pointwise::Mul, part.to_vec())).to_vec())
        }
        Scalar::Operand(n) => return Ok(operands[*n].clone()),
        Scalar::Number(value) => return Ok(Code::number(*value)),
        Scalar::Call(Pointwise::Add, args) if matches!(args[1], Scalar::Number(by) if by < 0.0) => {
            (Pointwise::Sub, vec![args[0].clone(), Scalar::call(Pointwise::Neg, vec![args[1].clone()])])
        }
        Scalar::Call(func, args) => (*func, args.clone()),
    };
    let below = in_branch || func.chooses();
    let mut codes =
        args.iter().map(|arg| scalar(arg, operands, constant, below)).collect::<Result<Vec<Code>, Refused>>()?;
    let is_number = |n: usize| matches!(args[n], Scalar::Number(_)) || is_no_number(&args[n]);
    let by_number = match func {
        Pointwise::Mul => is_number(0) || is_number(1),
        Pointwise::Div => is_number(1) && args[1] != Scalar::Number(0.0),
        _ => false,
    };
    let is_quiet = !by_number && ((in_branch && func.multiplies()) || func.is_steep());
    if is_quiet && func == Pointwise::Div && is_number(0) {
        // A plain number over a tensor is two operations to autograd.
        codes[0] = constant(&codes[0]);
    }
    let infix = |text: &'static str| text.strip_prefix("a ").and_then(|rest| rest.strip_suffix(" b"));
    // Operators take numbers beside tensors, and functions do not: a number is a tensor of the type of the others.
    let tensors = || {
        let of = |(n, code): (usize, &Code)| if is_number(n) { constant(code) } else { code.clone() };
        codes.iter().enumerate().map(of).collect::<Vec<Code>>()
    };
    let code = match (func, func.def().torch) {
        (_, "") => {
            let name = func.def().name;
            return Err(Refused(format!("the function `{name}`, which only backward runs have")));
        }
        (Pointwise::Neg, _) => codes[0].minus(),
        // These take plain numbers, too.
        (Pointwise::Less | Pointwise::Choose | Pointwise::Lerp, text) => Code::template(text, &codes),
        (Pointwise::Within, text) => Code::template(text, &[tensors()[0].clone(), codes[1].clone()]),
        (_, text) if infix(text).is_some() => Code::infix(infix(text).unwrap_or_default(), &codes[0], &codes[1]),
        (_, text) => match text.strip_prefix("a.") {
            Some(method) => tensors()[0].dot(method),
            None => Code::template(text, &tensors()),
        },
    };
    Ok(if is_quiet { quiet(&code) } else { code })
}

/// Expressions as arguments.
fn texts(codes: &[Code]) -> Vec<String> {
    codes.iter().map(|code| code.inside(Binds::Argument)).collect()
}

/// Numbers whose operands have no gradient where they have none.
fn quiet(code: &Code) -> Code {
    Code::call("quiet", &[code], &[])
}

impl OpCall<'_> {
    fn ty(&self, n: usize) -> &Type {
        self.graph.ty(self.node.operands[n])
    }

    /// Operand `n` as an argument.
    fn x(&self, n: usize) -> String {
        self.operands[n].inside(Binds::Argument)
    }

    /// Operand `n` in front of a point or a bracket.
    fn dot(&self, n: usize) -> String {
        self.operands[n].inside(Binds::Atom)
    }

    fn need(&mut self, section: &'static str) {
        self.sections.push(section);
    }

    /// A call of a function of the support.
    fn support(&mut self, section: &'static str, text: String) -> Code {
        self.need(section);
        Code::atom(text)
    }

    /// A call of a function along the last axis of its first argument.
    fn whole(&mut self, function: &str, args: &str) -> Code {
        if !self.in_branch {
            return Code::atom(format!("{function}({args})"));
        }
        self.support("whole", format!("whole({function}, {args})"))
    }

    /// A product, of which an operand may stand in a branch.
    fn product(&mut self, a: &Code, b: &Code) -> Code {
        if !self.in_branch {
            return Code::infix("*", a, b);
        }
        self.need("times");
        Code::call("times", &[a, b], &[])
    }

    /// The axis of operand `n`, which is ragged.
    fn along(&self, n: usize) -> Result<String, Refused> {
        axis(self.ty(n)).ok_or_else(|| Refused(format!("`{}` of a value without a ragged axis", self.node.op)))
    }

    /// A value per unit, of the shape of a whole value: a row's number beside each of its positions.
    fn lifted(&self, n: usize, whole: &Type) -> Code {
        let (unit, whole) = (self.ty(n).dims(), whole.dims());
        if unit.len() == whole.len() || unit.is_empty() {
            return self.operands[n].clone();
        }
        // Rows and positions of a ragged value are one axis.
        let packed = usize::from(matches!(whole.get(1), Some(Dim::Sym(_))));
        let index = match whole.get(1) {
            Some(Dim::Sym(axis)) if unit.len() == 1 => vec![format!("{}.row", rows_of(axis))],
            _ => vec![":".to_owned(); unit.len() - packed],
        };
        let rest = whole.len() - packed - index.len();
        let index: Vec<String> = index.into_iter().chain(std::iter::repeat_n("None".to_owned(), rest)).collect();
        self.operands[n].at(&index.join(", "))
    }

    /// The expression of a map.
    fn map(&mut self) -> Result<Code, Refused> {
        let results = pointwise::results(&self.node.attrs).map_err(Refused)?;
        self.sections.extend(needed(&results));
        match &results[..] {
            [expr] => match expr.with(&Scalar::Operand) {
                Scalar::Number(value) => Ok(Code::atom(format!("torch.full_like({}, {})", self.x(0), number(value)))),
                expr if is_no_number(&expr) => {
                    Ok(Code::atom(format!("torch.full_like({}, {})", self.x(0), number(f64::NAN))))
                }
                expr => {
                    let first = &self.operands[0];
                    let constant = |code: &Code| first.dot(&format!("new_tensor({})", code.inside(Binds::Argument)));
                    let code = scalar(&expr, self.operands, &constant, self.in_branch)?;
                    if code.inside(Binds::Argument).contains("quiet(") {
                        self.need("quiet");
                    }
                    Ok(code)
                }
            },
            _ => Err(Refused("a map with several results, which only backward runs have".to_owned())),
        }
    }

    /// The only result of the node.
    pub(super) fn code(&mut self) -> Result<Code, Refused> {
        let (node, operands) = (self.node, self.operands);
        Ok(match node.op {
            Op::Embed if self.ty(0).dims().is_empty() => Code::atom(format!("{}[{}]", self.dot(1), self.x(0))),
            Op::Embed => Code::atom(format!("F.embedding({}, {})", self.x(0), self.x(1))),
            Op::Linear | Op::LayerNorm => self.module(),
            Op::RmsNorm => {
                let gain = match self.operands.len() {
                    1 => String::new(),
                    _ => format!(", {}", self.x(1)),
                };
                let parts = match node.get(attribute::PARTS) {
                    1 => String::new(),
                    parts => format!(", parts={parts}"),
                };
                let args = format!("{}{gain}, eps={}{parts}", self.x(0), number(node.get(attribute::EPS)));
                self.need("rms_norm");
                self.whole("rms_norm", &args)
            }
            Op::Map => self.map()?,
            Op::Detach => self.operands[0].dot("detach()"),
            Op::Affine => self.affine(),
            Op::MulUnit => {
                let unit = self.lifted(1, self.ty(0));
                self.product(&operands[0], &unit)
            }
            Op::AddScaled => {
                let unit = self.lifted(2, self.ty(0));
                let scaled = self.product(&unit, &operands[1]);
                Code::infix("+", &operands[0], &scaled)
            }
            Op::Select => {
                let unit = self.lifted(0, self.ty(1));
                Code::call("torch.where", &[&unit, &self.operands[1], &self.operands[2]], &[])
            }
            Op::MaskUnit => {
                let unit = self.lifted(1, self.ty(0));
                let [x, zero] = [&self.operands[0], &Code::number(0.0)];
                let kept = if node.get(attribute::WHEN) { [&unit, x, zero] } else { [&unit, zero, x] };
                Code::call("torch.where", &kept, &[])
            }
            Op::And => Code::infix("&", &self.operands[0], &self.operands[1]),
            Op::Concat => self.concat(),
            Op::Slice => {
                let start = node.get(attribute::START);
                let end = start + node.get(attribute::WIDTH);
                self.operands[0].at(&format!("..., {start}:{end}"))
            }
            Op::Pad => {
                let own = self.ty(0).dims().last().and_then(Dim::fixed).unwrap_or(1);
                let start = node.get(attribute::START);
                let behind = node.get(attribute::WIDTH) - start - own;
                self.whole("F.pad", &format!("{}, ({start}, {behind})", self.x(0)))
            }
            Op::Reduce => {
                let method = match node.get(attribute::BY) {
                    Reduction::Max => "amax",
                    sum_or_mean => sum_or_mean.name(),
                };
                Code::atom(format!("{}.{method}(-1, keepdim=True)", self.dot(0)))
            }
            Op::BroadcastChannels => {
                Code::atom(format!("{}.repeat_interleave({}, -1)", self.dot(0), node.get(attribute::WIDTH)))
            }
            Op::Squeeze => Code::atom(format!("{}.squeeze(-1)", self.dot(0))),
            Op::Unsqueeze => Code::atom(format!("{}.unsqueeze(-1)", self.dot(0))),
            Op::Full => self.full(&number(node.get(attribute::VALUE)), ""),
            Op::True => self.full("True", ", dtype=torch.bool"),
            Op::BroadcastBatch if self.ty(0).dims().is_empty() => {
                Code::atom(format!("{}.expand(rows.count)", self.dot(0)))
            }
            Op::BroadcastBatch => Code::atom(format!("{}.expand(rows.count, {})", self.dot(0), self.minus_ones())),
            Op::Split => {
                let width = self.graph.ty(node.results[0]).dims().last().and_then(Dim::fixed).unwrap_or(1);
                Code::atom(format!("{}.unflatten(-1, ({}, {width}))", self.dot(0), node.get(attribute::PARTS)))
            }
            Op::Merge => Code::atom(format!("{}.flatten(-2)", self.dot(0))),
            Op::Matmul => {
                let side = node.find(attribute::TRANSPOSED);
                let of = |n: usize, own: Side| match side == Some(own) {
                    true => self.operands[n].dot("mT"),
                    false => self.operands[n].clone(),
                };
                let [left, right] = [of(0, Side::Left), of(1, Side::Right)];
                match self.in_branch {
                    true => {
                        let args = [left, right].map(|side| side.inside(Binds::Argument)).join(", ");
                        self.whole("torch.matmul", &args)
                    }
                    false => Code::infix("@", &left, &right),
                }
            }
            Op::Sinusoid => {
                let pairs = node.get(attribute::LAYOUT) == Layout::Pairs;
                let (width, base) = (node.get(attribute::WIDTH), number(node.get(attribute::BASE)));
                let pairs = if pairs { "True" } else { "False" };
                let text = format!("waves({}, {width}, {base}, pairs={pairs})", self.x(0));
                self.support("waves", text)
            }
            Op::SlotGet => Code::atom(format!("{}[:, {}]", self.dot(0), self.x(1))),
            Op::SlotSet => Code::atom(format!("{}.select_scatter({}, 1, {})", self.dot(0), self.x(1), self.x(2))),
            Op::StepNumber => Code::atom(format!("{}.new_full((rows.count,), {})", self.dot(1), self.x(0))),
            Op::DepthOf => self.depth_of()?,
            Op::Average if self.operands.len() == 1 => Code::atom(format!("{}.mean()", self.dot(0))),
            Op::Pair => {
                let text = format!("pair({})", self.x(0));
                self.support("pair", text)
            }
            _ => return self.along_rows(),
        })
    }

    /// Ops that see how positions belong to rows.
    fn along_rows(&mut self) -> Result<Code, Refused> {
        let node = self.node;
        Ok(match node.op {
            Op::Mean | Op::Sum | Op::Any => {
                let name = node.op.def().name;
                match axis(self.ty(0)) {
                    Some(axis) => Code::atom(format!("{axis}.{name}({})", self.x(0))),
                    None => Code::atom(format!("{}.{name}(1)", self.dot(0))),
                }
            }
            Op::Max => match axis(self.ty(0)) {
                Some(axis) => {
                    let text = format!("largest({}, {axis})", self.x(0));
                    self.support("largest", text)
                }
                None => Code::atom(format!("{}.max(1).values", self.dot(0))),
            },
            Op::Position => self.position(),
            Op::LongerThanOne => Code::infix(">", &Code::atom(format!("{}.length", self.along(0)?)), &Code::atom("1")),
            Op::BroadcastRows => match axis(self.ty(1)) {
                Some(axis) => Code::atom(format!("{}[{axis}.row]", self.dot(0))),
                None => {
                    let size = self.ty(1).dims().get(1).and_then(Dim::fixed).unwrap_or(1);
                    Code::atom(format!("torch.stack([{}] * {size}, 1)", self.x(0)))
                }
            },
            Op::RunningSum => {
                let back = node.get(attribute::SIDE) == Side::Right;
                match axis(self.ty(0)) {
                    Some(axis) => {
                        let back = if back { ", back=True" } else { "" };
                        let text = format!("running_sum({}, {axis}{back})", self.x(0));
                        self.support("running_sum", text)
                    }
                    None if back => Code::atom(format!("{}.flip(1).cumsum(1).flip(1)", self.dot(0))),
                    None => Code::atom(format!("{}.cumsum(1)", self.dot(0))),
                }
            }
            Op::Softmax => match axis(self.ty(0)).filter(|_| self.ty(0).dims().len() == 2) {
                Some(axis) => {
                    let args = format!("{}, {axis}", self.x(0));
                    self.need("softmax_along");
                    self.whole("softmax_along", &args)
                }
                None if self.in_branch => self.whole("torch.softmax", &format!("{}, -1", self.x(0))),
                None => Code::atom(format!("{}.softmax(-1)", self.dot(0))),
            },
            Op::Top => self.top()?,
            Op::Shift => {
                let (side, lag) = (node.get(attribute::SIDE), node.get(attribute::LAG));
                let text = format!("shift({}, {}, \"{side}\", {lag})", self.x(0), self.along(0)?);
                self.support("shift", text)
            }
            Op::AddPosition => self.add_position()?,
            Op::Positions => {
                let axis = self.along(0)?;
                Code::atom(format!("{axis}.position.to({}.dtype)", self.dot(0)))
            }
            Op::Frame => {
                let text = format!("frame({}, {}, {}, {})", self.x(0), self.x(1), self.x(2), self.along(0)?);
                self.support("frame", text)
            }
            Op::Prefix => {
                let text = format!("prefix({}, {}, {})", self.x(0), self.x(1), self.along(0)?);
                self.support("prefix", text)
            }
            Op::Unprefix => {
                let text = format!("unprefix({}, {}, {})", self.x(0), self.along(0)?, node.get(attribute::COUNT));
                self.support("unprefix", text)
            }
            Op::Transpose => {
                let text = format!("transposed({}, {}, {})", self.x(0), self.along(0)?, node.get(attribute::COUNT));
                self.support("transposed", text)
            }
            Op::TransposeBack => Code::atom(format!("{}.mT.flatten(0, 1)", self.dot(0))),
            Op::PadRagged => {
                let filled = node.get(attribute::AXIS);
                let filled = rows_of(filled);
                let text = format!("pad_ragged({}, {}, {}, {filled})", self.x(0), self.x(1), self.along(0)?);
                self.support("pad_ragged", text)
            }
            Op::Dropout => self.dropout()?,
            Op::Normal => {
                let drawn = self.normal();
                self.in_training(drawn)
            }
            Op::Uniform => {
                let [low, high] = [attribute::LOW, attribute::HIGH].map(|key| number(node.get(key)));
                self.in_training(Code::atom(format!("torch.empty_like({}).uniform_({low}, {high})", self.x(0))))
            }
            Op::Rotate => self.rotate()?,
            Op::Attention => self.attention()?,
            Op::GeometricAttention => {
                let heads = node.get(attribute::HEADS);
                let width = self.ty(0).dims().last().and_then(Dim::fixed).unwrap_or(heads);
                let scale = number(node.attrs.scale(width / heads));
                let sides = if self.operands.len() > 3 { self.x(3) } else { "None".to_owned() };
                let inputs = format!("{}, {}, {}, {sides}", self.x(0), self.x(1), self.x(2));
                let text = format!("geometric_attention({inputs}, {}, heads={heads}, scale={scale})", self.along(0)?);
                self.support("geometric_attention", text)
            }
            Op::TopKeys => {
                let (heads, count) = (node.get(attribute::HEADS), node.get(attribute::COUNT));
                let causal = if node.get(attribute::MASK) == Mask::Causal { "True" } else { "False" };
                let among = if self.operands.len() > 2 { self.x(2) } else { "None".to_owned() };
                let inputs = format!("{}, {}, {among}, {}", self.x(0), self.x(1), self.along(0)?);
                let text = format!("top_keys({inputs}, heads={heads}, count={count}, causal={causal})");
                self.support("top_keys", text)
            }
            Op::Scan => {
                let name = match node.get(attribute::KERNEL) {
                    ScanKernel::S4d => "s4d",
                    ScanKernel::Ema => "ema",
                };
                let inputs = texts(self.operands).join(", ");
                let (side, lag) = (node.get(attribute::SIDE), node.get(attribute::LAG));
                let held = match node.get(attribute::DISCRETISATION) {
                    Discretisation::Bilinear => "",
                    Discretisation::Held => ", held=True",
                };
                let text = format!("{name}({inputs}, {}, \"{side}\", lag={lag}{held})", self.along(0)?);
                self.support(name, text)
            }
            Op::Neighbours => {
                let text = format!(
                    "neighbours({}, {}, {}, \"{}\")",
                    self.x(0),
                    self.x(1),
                    self.along(0)?,
                    node.get(attribute::SIDE)
                );
                self.support("neighbours", text)
            }
            Op::HaltTest => self.halt_test(),
            op => return Err(Refused(format!("the op `{op}`"))),
        })
    }

    fn module(&mut self) -> Code {
        if let Some(path) = self.parts.module(self.node.operands[1]) {
            let module = self.parts.path(path, self.copy).inside(Binds::Atom);
            return self.whole(&module, &self.x(0));
        }
        let mut inputs = texts(&self.operands[1..]).join(", ");
        if self.node.op == Op::Linear {
            return self.whole("F.linear", &format!("{}, {inputs}", self.x(0)));
        }
        if self.operands.len() == 2 {
            inputs += ", None";
        }
        let width = self.ty(0).dims().last().and_then(Dim::fixed).unwrap_or(1);
        let eps = number(self.node.get(attribute::EPS));
        self.whole("F.layer_norm", &format!("{}, ({width},), {inputs}, {eps}", self.x(0)))
    }

    fn affine(&mut self) -> Code {
        let operands = self.operands;
        let scaled = self.product(&operands[0], &operands[1]);
        operands.get(2).map_or_else(|| scaled.clone(), |bias| Code::infix("+", &scaled, bias))
    }

    /// One `cat` for what is joined piece by piece.
    fn concat(&self) -> Code {
        let piece = |n: usize| {
            let text = self.x(n);
            let whole = text.strip_prefix("torch.cat([").and_then(|rest| rest.strip_suffix("], -1)"));
            whole.filter(|inner| !inner.contains("torch.cat(")).unwrap_or(&text).to_owned()
        };
        Code::atom(format!("torch.cat([{}, {}], -1)", piece(0), piece(1)))
    }

    /// The axes of a parameter that is the same for every row.
    fn minus_ones(&self) -> String {
        vec!["-1"; self.ty(0).dims().len()].join(", ")
    }

    fn full(&self, value: &str, dtype: &str) -> Code {
        let (ty, rank) = (self.ty(0), self.node.get(attribute::RANK));
        let slots = self.node.find(attribute::COUNT);
        if rank == ty.dims().len() && dtype.is_empty() && slots.is_none() {
            return Code::atom(match value {
                "0.0" => format!("torch.zeros_like({})", self.x(0)),
                "1.0" => format!("torch.ones_like({})", self.x(0)),
                _ => format!("torch.full_like({}, {value})", self.x(0)),
            });
        }
        let packed = usize::from(ty.ragged().is_some());
        let shape = match rank {
            0 => "()".to_owned(),
            1 => "(rows.count,)".to_owned(),
            _ => format!("{}.shape[:{}]", self.dot(0), rank - packed),
        };
        let shape = slots.map_or(shape, |slots| {
            let x = self.dot(0);
            format!("(*{x}.shape[:{}], {slots}, {x}.shape[{}])", rank - packed - 1, rank - packed - 1)
        });
        Code::atom(match (value, dtype) {
            ("0.0", "") => format!("{}.new_zeros({shape})", self.dot(0)),
            ("1.0", "") => format!("{}.new_ones({shape})", self.dot(0)),
            _ => format!("{}.new_full({shape}, {value}{dtype})", self.dot(0)),
        })
    }

    fn position(&mut self) -> Code {
        let at = self.node.get(attribute::AT);
        match (axis(self.ty(0)), at) {
            (Some(axis), At::BeforeLast) => {
                let text = format!("before_last({}, {axis})", self.x(0));
                self.support("before_last", text)
            }
            (Some(axis), At::First | At::Last) => Code::atom(format!("{axis}.{at}({})", self.x(0))),
            (None, At::First) => Code::atom(format!("{}[:, 0]", self.dot(0))),
            (None, At::BeforeLast) => Code::atom(format!("{}[:, -2]", self.dot(0))),
            (None, At::Last) => Code::atom(format!("{}[:, -1]", self.dot(0))),
        }
    }

    fn add_position(&mut self) -> Result<Code, Refused> {
        let axis = self.along(0)?;
        if self.operands.len() > 1 {
            self.need("add_position");
            let learned = Code::atom(format!("learned_positions({}, {axis})", self.x(1)));
            return Ok(Code::infix("+", &self.operands[0], &learned));
        }
        self.need("positions");
        let width = self.ty(0).dims().last().and_then(Dim::fixed).unwrap_or(1);
        let waves = Code::atom(format!("sinusoids({axis}.position, {width}).to({}.dtype)", self.dot(0)));
        Ok(Code::infix("+", &self.operands[0], &waves))
    }

    fn dropout(&mut self) -> Result<Code, Refused> {
        let p = number(self.node.get(attribute::P));
        if self.node.get(attribute::TIED) {
            let text = format!("tied_dropout({}, {p} * self.training, {})", self.x(0), self.along(0)?);
            return Ok(self.support("tied_dropout", text));
        }
        Ok(Code::atom(format!("F.dropout({}, {p}, self.training)", self.x(0))))
    }

    fn normal(&mut self) -> Code {
        let std = number(self.node.get(attribute::STD));
        match self.node.find(attribute::CUT_AT) {
            Some(cut) => {
                let text = format!("cut_normal({}, {std}, {})", self.x(0), number(cut));
                self.support("cut_normal", text)
            }
            None => Code::atom(format!("torch.empty_like({}).normal_(0.0, {std})", self.x(0))),
        }
    }

    /// What is drawn, or in evaluation the number that stands for it, where one does.
    fn in_training(&self, drawn: Code) -> Code {
        let Some(number_there) = self.node.find(attribute::EVALUATION) else { return drawn };
        let (drawn, x) = (drawn.inside(Binds::Comparison), self.x(0));
        Code::atom(format!("({drawn} if self.training else torch.full_like({x}, {}))", number(number_there)))
    }

    fn rotate(&mut self) -> Result<Code, Refused> {
        let node = self.node;
        if node.get(attribute::TRANSPOSE) {
            return Err(Refused("a transposed rotation".to_owned()));
        }
        let kind = match node.get(attribute::KIND) {
            PositionKind::Rope => String::new(),
            scaled @ (PositionKind::XposQuery | PositionKind::XposKey) => format!(", \"{scaled}\""),
        };
        let whole = match node.get(attribute::ORIGIN) {
            Origin::Axis => "",
            Origin::Row => ", whole_row=True",
        };
        let heads = node.get(attribute::HEADS);
        let mut along = self.along(0)?;
        if self.ty(0).ragged().is_some_and(|axis| is_chosen(self.graph, axis)) {
            along += ".spread()";
        }
        let mut text = format!("rotate({}, {heads}, {along}{kind}{whole}", self.x(0));
        if node.get(attribute::LAYOUT) == Layout::Half {
            text += ", half=True";
        }
        if let Some(base) = node.find(attribute::BASE) {
            text += &format!(", base={}", number(base));
        }
        if let Some(part) = node.find(attribute::PART) {
            text += &format!(", part={part}");
        }
        if self.node.has(attribute::ANGLE) {
            let width = self.ty(0).dims().last().and_then(Dim::fixed).unwrap_or(heads);
            let angles = rotation::of_node(&self.node.attrs, width / heads).map_err(Refused)?;
            let angles: Vec<String> = angles.into_iter().map(number).collect();
            text += &format!(", angles=[{}]", angles.join(", "));
        }
        text += ")";
        Ok(self.support("rotate", text))
    }

    fn top(&mut self) -> Result<Code, Refused> {
        let node = self.node;
        let last = node.operands.len() - 1;
        let has_step = *self.graph.ty(node.operands[last]) == Type::Tensor(Elem::Index, vec![]);
        let along = axis(self.ty(0)).filter(|_| self.ty(0).dims().len() == 2);
        let count = match node.get(attribute::OF) {
            StepBound::Steps(count) => count.to_string(),
            StepBound::Rule(rule) => {
                let expr = Expr::try_from(rule).map_err(Refused)?;
                let step = if has_step { self.dot(last) } else { String::new() };
                steps_or_choices(&expr, &step, self.sections)?
            }
        };
        let mut text = format!("top({}, ", self.x(0));
        text += &match &along {
            Some(axis) => format!("[{count} for length in {axis}.lengths], {axis}"),
            None => count,
        };
        if node.operands.len() > 1 + usize::from(has_step) {
            text += &format!(", among={}", self.x(1));
        }
        Ok(self.support("top", text + ")"))
    }

    fn depth_of(&mut self) -> Result<Code, Refused> {
        let bound = match self.node.get(attribute::BOUND) {
            StepBound::Steps(steps) => {
                return Ok(Code::atom(format!("{}.new_full((rows.count,), {steps})", self.dot(0))));
            }
            StepBound::Rule(rule) => row_bound(self.graph, self.node, rule, self.sections)?,
        };
        Ok(Code::atom(format!("{}.new_tensor({bound}).clamp(min=0)", self.dot(0))))
    }

    fn halt_test(&self) -> Code {
        let halted = Code::infix("-", &Code::atom("1"), &self.operands[0]);
        let test = Code::infix("<", &halted, &Code::number(self.node.get(attribute::THRESHOLD)));
        let Some(cap) = self.node.find(attribute::CAP) else { return test };
        let length = Code::atom(format!("{}.length", rows_of(cap)));
        let length = match self.ty(0).ragged() {
            Some(axis) => length.at(&format!("{}.row", rows_of(axis))),
            None => length,
        };
        Code::infix("&", &test, &Code::infix("<=", &self.operands[1], &length))
    }

    fn attention(&mut self) -> Result<Code, Refused> {
        let node = self.node;
        let is_step = |v: &Value| *self.graph.ty(*v) == Type::Tensor(Elem::Index, vec![]);
        let has_step = node.operands.get(3).is_some_and(is_step);
        let step = if has_step { self.dot(3) } else { String::new() };
        let behind = node.behind();
        let own = 3 + usize::from(has_step)..behind.reads.start;
        let sizes: Vec<Vec<usize>> =
            own.clone().map(|n| self.ty(n).dims().iter().filter_map(Dim::fixed).collect()).collect();
        let tables = texts(&self.operands[own]);
        let mut text = format!("{}, {}, {}", self.x(0), self.x(1), self.x(2));
        let axes = [0, 1].map(|n| axis(self.ty(n)).unwrap_or_else(|| "None".to_owned()));
        text += &format!(", heads={}, axes=({}, {})", node.get(attribute::HEADS), axes[0], axes[1]);
        if let Some(Relative::RelativeXl) = node.find(attribute::POSITION) {
            text += &format!(", relative=relative_xl({})", texts(&self.operands[behind.relative.clone()]).join(", "));
            self.need("relative");
        }
        if self.ty(1).dims().len() > 3 {
            text += &format!(", steps={} + 1", self.operands[3].inside(Binds::Sum));
        }
        if !behind.talking.is_empty() {
            text += &format!(", talking=({})", texts(&self.operands[behind.talking.clone()]).join(", "));
        }
        if let Some(key_heads) = node.find(attribute::KEY_HEADS) {
            text += &format!(", key_heads={key_heads}");
        }
        let score = node.attrs.score().map_err(Refused)?;
        for (name, value) in [("scale", node.find(attribute::SCALE)), ("softcap", score.cap())] {
            if let Some(value) = value {
                text += &format!(", {name}={}", number(value));
            }
        }
        let heads = node.get(attribute::HEADS);
        let padded = |n: usize| {
            let axis =
                axis(self.ty(n)).ok_or_else(|| Refused("a value without positions in a mask or a bias".to_owned()))?;
            let chosen = self.ty(n).ragged().is_some_and(|own| is_chosen(self.graph, own));
            Ok(format!("{axis}.{}({})", if chosen { "at_places" } else { "pad" }, self.x(n)))
        };
        let values = behind.reads.clone().map(padded).collect::<Result<Vec<_>, Refused>>()?;
        if !values.is_empty() {
            text += ", reads=True";
        }
        let pairs = PairContext { step: &step, tables: &tables, sizes: &sizes, heads, values: &values };
        match node.get(attribute::MASK) {
            Mask::All => {}
            Mask::Causal if axes[0] != axes[1] && self.ty(0).ragged().is_some_and(|own| is_chosen(self.graph, own)) => {
                text += &format!(", mask={}: {}.past(j)", self.of_pairs(), axes[0]);
            }
            Mask::Causal => text += &format!(", mask={}: j <= i", self.of_pairs()),
            Mask::Rule(rule) => text += &format!(", mask={}", self.rule(rule, &pairs)?),
        }
        if let Some(expr) = score.of_pairs() {
            let (name, told) =
                if matches!(score, ScoreExpr::Whole(_)) { ("rescored", ", score") } else { ("bias", "") };
            text += &format!(", {name}={}{told}: {}", self.of_pairs(), self.bias(expr, &pairs)?);
        }
        if let Some(stop) = node.find(attribute::STOP) {
            let others = texts(&self.operands[behind.talking.end..]).join(", ");
            text += &format!(", stop=({}, {others})", self.rule(stop, &pairs)?);
        }
        let dropout = node.get(attribute::DROPOUT);
        if dropout > 0.0 {
            text += &format!(", dropout={} * self.training", number(dropout));
        }
        self.need("attention");
        Ok(self.whole("attention", &text))
    }

    /// A mask as a function.
    fn rule(&mut self, attr: &Attr, pairs: &PairContext<'_>) -> Result<String, Refused> {
        let expr = Expr::try_from(attr).map_err(Refused)?;
        let text = pairs.mask(&expr, self.sections)?;
        Ok(format!("{}: {text}", self.of_pairs()))
    }

    /// The head of a function of masks and biases. What reads values is told the row, too.
    fn of_pairs(&self) -> &'static str {
        if self.node.get(attribute::READS) > 0 { "lambda i, j, head, length, row" } else { "lambda i, j, head, length" }
    }

    /// The number of a bias or a score, which is asked where the mask holds.
    fn bias(&mut self, expr: &Expr, pairs: &PairContext<'_>) -> Result<String, Refused> {
        let mask = match self.node.get(attribute::MASK) {
            Mask::All => None,
            Mask::Causal => Some(Expr::past()),
            Mask::Rule(rule) => Some(Expr::try_from(rule).map_err(Refused)?),
        };
        pairs.bias(expr, mask.as_ref(), self.sections)
    }
}
