//! Expressions of masks, biases and depths as operators of ONNX, from their terms: the value, and whether there is one.
//!
//! Whole numbers are `int64`, others double precision.

use rtc_compiler::expr::{
    self, Action, BiasFacts, Care, Expr, Func, Meaning, ReadFrom, Sort, Term, Untold, Var, bias_meaning, meaning,
};

use super::OnnxRefusal;
use super::build::OnnxBuilder;
use super::proto::{AttributeProto, DataType};

/// A value for every place where an expression is asked.
#[derive(Clone, Debug)]
struct Valued {
    name: String,
    kind: DataType,
}

/// The names of the variables, as tensors that fit together.
#[derive(Clone, Debug, Default)]
pub(super) struct VariableNames {
    pub(super) i: Option<String>,
    pub(super) j: Option<String>,
    pub(super) step: Option<String>,
    pub(super) length: Option<String>,
    pub(super) head: Option<String>,
    pub(super) given: Option<String>,
}

/// A learned table of a bias: its numbers and its sizes.
#[derive(Clone, Debug)]
pub(super) struct BiasTable {
    pub(super) name: String,
    pub(super) sizes: Vec<usize>,
}

/// A value of positions that masks and biases read: its numbers, padded to rows, and its channels, if it has some.
#[derive(Clone, Debug)]
pub(super) struct PaddedValue {
    pub(super) name: String,
    pub(super) channels: Option<usize>,
}

/// Everything that an expression reads.
#[derive(Clone, Debug, Default)]
pub(super) struct Reads {
    pub(super) places: VariableNames,
    /// The tables, in the order in which the bias reads them first.
    pub(super) tables: Vec<BiasTable>,
    /// The values of positions.
    values: Vec<PaddedValue>,
    /// The score, in double precision.
    pub(super) score: Option<String>,
    /// For every use what it reads, and whether a value is read at the query.
    uses: Vec<(ReadFrom, bool)>,
    /// Heads of the attention.
    heads: usize,
    /// Terms that have tensors already.
    known: Vec<(Term, Valued)>,
}

impl Reads {
    /// What an expression reads that has no tables.
    pub(super) fn new(places: VariableNames, heads: usize) -> Self {
        Self { places, heads, ..Self::default() }
    }

    /// What a mask or a bias reads.
    pub(super) fn of_pairs(
        (places, heads): (VariableNames, usize),
        (tables, values): (Vec<BiasTable>, Vec<PaddedValue>),
        rule: &Expr,
    ) -> Self {
        let found = expr::tables(rule);
        let at_query = found.uses.iter().map(|(_, indices)| indices.first() == Some(&Expr::Var(Var::I)));
        let uses = found.operands().into_iter().zip(at_query).collect();
        Self { tables, values, uses, ..Self::new(places, heads) }
    }

    /// Masks say nothing here: a bias is asked for all pairs.
    fn facts(&self) -> BiasFacts<'static> {
        BiasFacts::of_rows(self.heads.max(1), None)
    }
}

/// The whole numbers of 64 bits lie from minus this number up to below it.
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

const YES: Term = Term::Truth(true);

impl OnnxBuilder<'_> {
    /// Whether a mask holds: where it has no truth value it does not.
    pub(super) fn holds(&mut self, mask: &Expr, reads: &mut Reads) -> Result<String, OnnxRefusal> {
        let Meaning { value, defined } = meaning(mask, &reads.facts(), &[]).map_err(drawn)?;
        let holds = match defined {
            YES => value,
            defined => Term::Apply(Action::And, vec![value, defined]),
        };
        Ok(self.term(&holds, reads)?.name)
    }

    /// A bias in single precision, and where it has a number, if that is not everywhere.
    pub(super) fn bias(&mut self, bias: &Expr, reads: &mut Reads) -> Result<(String, Option<String>), OnnxRefusal> {
        let sizes: Vec<Vec<usize>> = reads.tables.iter().map(|table| table.sizes.clone()).collect();
        let Meaning { value, defined } = bias_meaning(bias, &reads.facts(), &sizes).map_err(drawn)?;
        let number = self.term(&value, reads)?;
        let number = self.cast(&number.name, DataType::Float);
        Ok((number, if defined == YES { None } else { Some(self.term(&defined, reads)?.name) }))
    }

    /// A number of steps, which always has a value.
    pub(super) fn steps_of(&mut self, rule: &Expr, reads: &mut Reads) -> Result<String, OnnxRefusal> {
        let Meaning { value, defined } = meaning(rule, &reads.facts(), &[]).map_err(drawn)?;
        match defined {
            YES => Ok(self.term(&value, reads)?.name),
            _ => Err(OnnxRefusal(format!(
                "the number of steps `{rule}`, which may have no value: an ONNX model has no errors"
            ))),
        }
    }

    fn term(&mut self, term: &Term, reads: &mut Reads) -> Result<Valued, OnnxRefusal> {
        if let Some((_, found)) = reads.known.iter().find(|(known, _)| known == term) {
            return Ok(found.clone());
        }
        let of = |name: String, kind: DataType| Valued { name, kind };
        let found = match term {
            Term::Truth(v) => of(self.truth(*v), DataType::Bool),
            Term::Whole(n) => of(self.int(*n), DataType::Int),
            Term::Real(x) => of(self.double(*x), DataType::Double),
            Term::Var(var) => of(variable(*var, &reads.places)?, DataType::Int),
            Term::Given => of(reads.places.given.clone().ok_or_else(|| unsaid("given"))?, DataType::Int),
            Term::Learned(at, indices) => {
                let from = reads.uses.get(*at).copied();
                if let Some((ReadFrom::Score, _)) = from {
                    return Ok(of(reads.score.clone().ok_or_else(|| unsaid("score"))?, DataType::Double));
                }
                if let Some((ReadFrom::Value(value), at_query)) = from {
                    let value = reads.values.get(value).cloned().ok_or_else(|| unsaid("read"))?;
                    let channel = indices.get(1).map(|channel| self.term(channel, reads)).transpose()?;
                    let read = of(self.at_position(&value, at_query, channel.as_ref()), DataType::Double);
                    reads.known.push((term.clone(), read.clone()));
                    return Ok(read);
                }
                let table = match from {
                    Some((ReadFrom::Table(table), _)) => reads.tables.get(table).cloned(),
                    _ => None,
                };
                let table = table.ok_or_else(|| unsaid("learn"))?;
                let indices = indices.iter().map(|x| self.term(x, reads)).collect::<Result<Vec<_>, _>>()?;
                of(self.learned(&table, &indices), DataType::Double)
            }
            Term::Apply(Action::LogUp(_), operands) => match &operands[..] {
                [x, Term::Whole(base)] if *base > 1 => {
                    let x = self.term(x, reads)?;
                    of(self.logarithm(&x.name, *base), DataType::Int)
                }
                _ => return Err(unsaid("log(n, base)` with a base that is no constant")),
            },
            Term::Apply(action, operands) => {
                let parts = operands.iter().map(|x| self.term(x, reads)).collect::<Result<Vec<_>, _>>()?;
                let names: Vec<&str> = parts.iter().map(|x| x.name.as_str()).collect();
                let whole = parts.iter().all(|x| x.kind == DataType::Int);
                let kind = match term.sort() {
                    Sort::Truth => DataType::Bool,
                    Sort::Whole => DataType::Int,
                    Sort::Real => DataType::Double,
                };
                of(self.applied(*action, &names, whole), kind)
            }
        };
        reads.known.push((term.clone(), found.clone()));
        Ok(found)
    }

    /// An operation on tensors of whole numbers, or else of real ones or truth values.
    fn applied(&mut self, action: Action, x: &[&str], whole: bool) -> String {
        let a = x[0];
        let b = x.get(1).copied().unwrap_or_default();
        match action {
            Action::Not => self.op("Not", x),
            Action::And => self.op("And", x),
            Action::Or => self.op("Or", x),
            Action::Equal => self.op("Equal", x),
            Action::Less => self.op("Less", x),
            Action::LessEqual => self.op("LessOrEqual", x),
            Action::Negative => self.op("Neg", x),
            Action::Plus => self.op("Add", x),
            Action::Minus => self.op("Sub", x),
            Action::Times => self.op("Mul", x),
            Action::Smaller => self.op("Min", x),
            Action::Larger => self.op("Max", x),
            Action::Choose => self.op("Where", x),
            Action::ToReal => self.cast(a, DataType::Double),
            Action::Quotient(care) | Action::Remainder(care) => {
                let by = match (care, whole) {
                    (Care::Sure, _) => b.to_owned(),
                    (Care::Needed, true) => self.whole_divisor(a, b),
                    (Care::Needed, false) => self.real_divisor(b),
                };
                match (matches!(action, Action::Quotient(_)), whole) {
                    (true, true) => self.floor_quotient(a, &by),
                    (true, false) => self.op("Div", &[a, &by]),
                    (false, true) => self.op("Mod", &[a, &by]),
                    (false, false) => self.rest(a, &by),
                }
            }
            Action::Power(_) if whole => self.whole_power(a, b),
            Action::Power(Care::Sure) => self.op("Pow", x),
            Action::Power(Care::Needed) => {
                let (power, one) = (self.op("Pow", x), self.double(1.0));
                let finite = self.is_finite(&power);
                self.op("Where", &[&finite, &power, &one])
            }
            Action::Of(func, Care::Sure) => self.op(real_function(func), x),
            Action::Of(func, Care::Needed) => {
                let (y, zero) = (self.op(real_function(func), x), self.double(0.0));
                let finite = self.is_finite(&y);
                self.op("Where", &[&finite, &y, &zero])
            }
            Action::Ln(Care::Sure) => self.op("Log", x),
            Action::Ln(Care::Needed) => {
                let (zero, one) = (self.double(0.0), self.double(1.0));
                let positive = self.op("Greater", &[a, &zero]);
                let read = self.op("Where", &[&positive, a, &one]);
                self.op("Log", &[&read])
            }
            Action::Floor(care) => {
                let read = match care {
                    Care::Sure => a.to_owned(),
                    Care::Needed => {
                        let (fits, zero) = (self.floor_fits(a), self.double(0.0));
                        self.op("Where", &[&fits, a, &zero])
                    }
                };
                let down = self.op("Floor", &[&read]);
                self.cast(&down, DataType::Int)
            }
            Action::Bounded => {
                let (finite, zero) = (self.is_finite(a), self.double(0.0));
                self.op("Where", &[&finite, a, &zero])
            }
            Action::Index(size) => {
                let (zero, size) = (self.int(0), self.int(size as i64));
                let (above, below) = (self.op("GreaterOrEqual", &[a, &zero]), self.op("Less", &[a, &size]));
                let inside = self.op("And", &[&above, &below]);
                self.op("Where", &[&inside, a, &zero])
            }
            Action::Finite => self.is_finite(a),
            Action::FinitePower => {
                let power = self.op("Pow", x);
                self.is_finite(&power)
            }
            Action::FloorFits => self.floor_fits(a),
            Action::QuotientFits => {
                let overflows = self.overflows(a, b);
                self.op("Not", &[&overflows])
            }
            Action::SumFits => {
                let sum = self.op("Add", x);
                let falls = self.op("Less", &[&sum, a]);
                self.as_sign_of(b, &falls)
            }
            Action::DifferenceFits => {
                let difference = self.op("Sub", x);
                let rises = self.op("Greater", &[&difference, a]);
                self.as_sign_of(b, &rises)
            }
            Action::ProductFits => self.product_fits(a, b),
            Action::PowerFits => {
                let zero = self.int(0);
                let least = self.op("Max", &[b, &zero]);
                let [a, b] = [a, &least].map(|x| self.cast(x, DataType::Double));
                let power = self.op("Pow", &[&a, &b]);
                let (most, least) = (self.double(TWO_TO_63), self.double(-TWO_TO_63));
                let (below, above) = (self.op("Less", &[&power, &most]), self.op("GreaterOrEqual", &[&power, &least]));
                self.op("And", &[&below, &above])
            }
            Action::LogUp(_) => unreachable!("logarithms need their base as a constant"),
        }
    }

    /// Whether a real number is neither infinite nor none.
    fn is_finite(&mut self, x: &str) -> String {
        let (zero, nothing) = (self.double(0.0), self.op("Sub", &[x, x]));
        self.op("Equal", &[&nothing, &zero])
    }

    /// Whether a number is below 0 exactly where something holds.
    fn as_sign_of(&mut self, x: &str, holds: &str) -> String {
        let zero = self.int(0);
        let negative = self.op("Less", &[x, &zero]);
        self.op("Equal", &[&negative, holds])
    }

    fn floor_fits(&mut self, x: &str) -> String {
        let (most, least) = (self.double(TWO_TO_63), self.double(-TWO_TO_63));
        let (below, above) = (self.op("Less", &[x, &most]), self.op("Greater", &[x, &least]));
        self.op("And", &[&below, &above])
    }

    /// Whether the quotient of two whole numbers is 2^63.
    fn overflows(&mut self, a: &str, b: &str) -> String {
        let (least, minus) = (self.int(i64::MIN), self.int(-1));
        let (of_least, by_minus) = (self.op("Equal", &[a, &least]), self.op("Equal", &[b, &minus]));
        self.op("And", &[&of_least, &by_minus])
    }

    /// The divisor of whole numbers; 1 where it would be an error.
    fn whole_divisor(&mut self, a: &str, b: &str) -> String {
        let (zero, one, overflows) = (self.int(0), self.int(1), self.overflows(a, b));
        let is_zero = self.op("Equal", &[b, &zero]);
        let none = self.op("Or", &[&is_zero, &overflows]);
        self.op("Where", &[&none, &one, b])
    }

    fn real_divisor(&mut self, b: &str) -> String {
        let (zero, one) = (self.double(0.0), self.double(1.0));
        let is_zero = self.op("Equal", &[b, &zero]);
        self.op("Where", &[&is_zero, &one, b])
    }

    /// `a / b` of whole numbers, rounded down: ONNX rounds to 0.
    fn floor_quotient(&mut self, a: &str, b: &str) -> String {
        let zero = self.int(0);
        let (quotient, rest) = (self.op("Div", &[a, b]), self.op("Mod", &[a, b]));
        let [low, below] = [a, b].map(|x| self.op("Less", &[x, &zero]));
        let (apart, exact) = (self.op("Xor", &[&low, &below]), self.op("Equal", &[&rest, &zero]));
        let inexact = self.op("Not", &[&exact]);
        let less = self.op("And", &[&apart, &inexact]);
        let less = self.cast(&less, DataType::Int);
        self.op("Sub", &[&quotient, &less])
    }

    /// `a - b floor(a / b)`
    fn rest(&mut self, a: &str, b: &str) -> String {
        let quotient = self.op("Div", &[a, b]);
        let down = self.op("Floor", &[&quotient]);
        let multiple = self.op("Mul", &[&down, b]);
        self.op("Sub", &[a, &multiple])
    }

    /// Powers of whole numbers by their bits: the operator works in double precision, which has no more than 53.
    fn whole_power(&mut self, a: &str, b: &str) -> String {
        let (zero, one, two, last) = (self.int(0), self.int(1), self.int(2), self.int(63));
        // Exponents of 64 and more have powers of 0, 1 and -1 alone: 62 and 63 give the same.
        let odd = self.op("Mod", &[b, &two]);
        let even = self.int(62);
        let most = self.op("Add", &[&even, &odd]);
        let beyond = self.op("Greater", &[b, &last]);
        let least = self.op("Max", &[b, &zero]);
        let mut rest = self.op("Where", &[&beyond, &most, &least]);
        let (mut power, mut square) = (one.clone(), a.to_owned());
        for bit in 0..6 {
            let own = self.op("Mod", &[&rest, &two]);
            let is_set = self.op("Equal", &[&own, &one]);
            let factor = self.op("Where", &[&is_set, &square, &one]);
            power = self.op("Mul", &[&power, &factor]);
            if bit < 5 {
                square = self.op("Mul", &[&square, &square]);
                rest = self.op("Div", &[&rest, &two]);
            }
        }
        power
    }

    fn product_fits(&mut self, a: &str, b: &str) -> String {
        let (zero, one, minus, least) = (self.int(0), self.int(1), self.int(-1), self.int(i64::MIN));
        let (is_zero, is_minus) = (self.op("Equal", &[a, &zero]), self.op("Equal", &[a, &minus]));
        let (either, product) = (self.op("Or", &[&is_zero, &is_minus]), self.op("Mul", &[a, b]));
        let by = self.op("Where", &[&either, &one, a]);
        let back = self.op("Div", &[&product, &by]);
        let (same, of_least) = (self.op("Equal", &[&back, b]), self.op("Equal", &[b, &least]));
        let (turns, divides) = (self.op("Not", &[&of_least]), self.op("Not", &[&either]));
        let (turned, divided) = (self.op("And", &[&is_minus, &turns]), self.op("And", &[&divides, &same]));
        let fits = self.op("Or", &[&turned, &divided]);
        self.op("Or", &[&is_zero, &fits])
    }

    /// The smallest k with `base^k >= x`.
    fn logarithm(&mut self, x: &str, base: i64) -> String {
        let mut powers = vec![1_i64];
        while let Some(next) = powers.last().and_then(|power| power.checked_mul(base)) {
            powers.push(next);
        }
        let (powers, apart) = (self.ints(&powers), self.unsqueeze(x, &[-1]));
        let below = self.op("Less", &[&powers, &apart]);
        let below = self.cast(&below, DataType::Int);
        self.reduce("ReduceSum", &below, &[-1])
    }

    /// A value `[rows, positions]` or `[rows, positions, channels]` for every query, or for every key: `[rows, heads or 1, queries or 1, keys or
    /// 1]`.
    fn at_position(&mut self, value: &PaddedValue, at_query: bool, channel: Option<&Valued>) -> String {
        let along = if at_query { 3 } else { 2 };
        let by_head = match (channel, value.channels) {
            (Some(channel), Some(_)) => {
                let channels = self.reshape(&channel.name, &[-1]);
                let own = self.op_with("Gather", &[&value.name, &channels], vec![AttributeProto::int("axis", 2)]);
                self.transpose(&own, &[0, 2, 1])
            }
            _ => self.unsqueeze(&value.name, &[1]),
        };
        let name = self.unsqueeze(&by_head, &[along]);
        self.cast(&name, DataType::Double)
    }

    /// The number of a table at some indices, which lie inside.
    fn learned(&mut self, table: &BiasTable, indices: &[Valued]) -> String {
        let mut place = self.int(0);
        for (index, size) in indices.iter().zip(&table.sizes) {
            let count = self.int(*size as i64);
            let rows = self.op("Mul", &[&place, &count]);
            place = self.op("Add", &[&rows, &index.name]);
        }
        let flat = self.reshape(&table.name, &[-1]);
        let name = self.op_with("Gather", &[&flat, &place], vec![AttributeProto::int("axis", 0)]);
        self.cast(&name, DataType::Double)
    }
}

/// The operator of a function that has a real number for every one.
fn real_function(func: Func) -> &'static str {
    match func {
        Func::Exp => "Exp",
        Func::Sqrt => "Sqrt",
        Func::Tanh => "Tanh",
        Func::Sigmoid => "Sigmoid",
        Func::Min | Func::Max | Func::Log | Func::Ln | Func::Floor | Func::When => {
            unreachable!("these have terms of their own")
        }
    }
}

fn variable(var: Var, places: &VariableNames) -> Result<String, OnnxRefusal> {
    let place = match var {
        Var::I => &places.i,
        Var::J => &places.j,
        Var::Step => &places.step,
        Var::Length => &places.length,
        Var::Head => &places.head,
    };
    place.clone().ok_or_else(|| OnnxRefusal(format!("`{}` has no value where an expression reads it", var.name())))
}

fn unsaid(what: &str) -> OnnxRefusal {
    OnnxRefusal(format!("`{what}` in an expression can't be exported as ONNX"))
}

fn drawn(Untold(part): Untold) -> OnnxRefusal {
    OnnxRefusal(format!("`{part}`, which is drawn in training"))
}
