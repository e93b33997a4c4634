//! Expressions of masks, biases and depths as operators of ONNX, in double precision, from their functions.

use rtc_compiler::expr::{BiasFacts, Expr, LARGEST_BIAS, Var, tables};
use rtc_compiler::ir::scalar::{ExprScalar, Leaf, TruthScalar, Untold};

use super::OnnxRefusal;
use super::build::OnnxBuilder;
use super::proto::{AttributeProto, DataType};

/// The names of the variables, as tensors that fit together.
#[derive(Clone, Debug, Default)]
pub(super) struct VariableNames {
    pub(super) i: Option<String>,
    pub(super) j: Option<String>,
    pub(super) step: Option<String>,
    pub(super) length: Option<String>,
    pub(super) head: Option<String>,
    pub(super) given: Option<String>,
    /// Whether a position has several keys: then `j` says whose position each is.
    pub(super) has_slots: bool,
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
    /// Heads of the attention.
    heads: usize,
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
    ) -> Self {
        Self { tables, values, ..Self::new(places, heads) }
    }

    /// Masks say nothing here: a bias is asked for all pairs.
    fn facts(&self) -> BiasFacts<'static> {
        BiasFacts::of_rows(self.heads.max(1), None)
    }
}

impl OnnxBuilder<'_> {
    /// Whether a mask holds: where it has no truth value it does not.
    pub(super) fn holds(&mut self, mask: &Expr, reads: &Reads) -> Result<String, OnnxRefusal> {
        let own = ExprScalar::plain(mask, &reads.facts()).map_err(untold)?;
        let leaves = self.leaves(&own, reads)?;
        if let Some(holds) = own.condition() {
            return self.condition(&holds, &leaves);
        }
        let (number, zero) = (self.scalar(&own.scalar, &leaves, DataType::Double)?, self.double(0.0));
        Ok(self.op("Greater", &[&number, &zero]))
    }

    /// A bias in single precision, and where it has a number, if that is not everywhere.
    pub(super) fn bias(&mut self, bias: &Expr, reads: &Reads) -> Result<(String, Option<String>), OnnxRefusal> {
        let sizes: Vec<Vec<usize>> = reads.tables.iter().map(|table| table.sizes.clone()).collect();
        let uses = tables(bias).operands();
        let own = ExprScalar::new(bias, &uses, &sizes, &reads.facts(), LARGEST_BIAS).map_err(untold)?;
        let leaves = self.leaves(&own, reads)?;
        let number = self.scalar(&own.scalar, &leaves, DataType::Double)?;
        if own.is_total {
            return Ok((self.cast(&number, DataType::Float), None));
        }
        let (defined, zero) = (self.op("Equal", &[&number, &number]), self.double(0.0));
        let number = self.op("Where", &[&defined, &number, &zero]);
        Ok((self.cast(&number, DataType::Float), Some(defined)))
    }

    /// A number of steps, which always has a value.
    pub(super) fn steps_of(&mut self, rule: &Expr, reads: &Reads) -> Result<String, OnnxRefusal> {
        let own = ExprScalar::plain(rule, &reads.facts()).map_err(untold)?;
        if !own.is_total {
            return Err(OnnxRefusal(format!(
                "the number of steps `{rule}`, which may have no value: an ONNX model has no errors"
            )));
        }
        let leaves = self.leaves(&own, reads)?;
        let number = self.scalar(&own.scalar, &leaves, DataType::Double)?;
        Ok(self.cast(&number, DataType::Int))
    }

    fn condition(&mut self, holds: &TruthScalar, leaves: &[String]) -> Result<String, OnnxRefusal> {
        Ok(match holds {
            TruthScalar::Is(holds) => self.truth(*holds),
            TruthScalar::Less(a, b) | TruthScalar::LessEqual(a, b) | TruthScalar::Equal(a, b) => {
                let operator = match holds {
                    TruthScalar::Less(..) => "Less",
                    TruthScalar::LessEqual(..) => "LessOrEqual",
                    _ => "Equal",
                };
                let a = self.scalar(a, leaves, DataType::Double)?;
                let b = self.scalar(b, leaves, DataType::Double)?;
                self.op(operator, &[&a, &b])
            }
            TruthScalar::Not(x) => {
                let x = self.condition(x, leaves)?;
                self.op("Not", &[&x])
            }
            TruthScalar::And(a, b) | TruthScalar::Or(a, b) => {
                let (a, b) = (self.condition(a, leaves)?, self.condition(b, leaves)?);
                self.op(if matches!(holds, TruthScalar::And(..)) { "And" } else { "Or" }, &[&a, &b])
            }
        })
    }

    /// The numbers that an expression reads, in double precision.
    fn leaves(&mut self, own: &ExprScalar, reads: &Reads) -> Result<Vec<String>, OnnxRefusal> {
        let mut leaves = vec![];
        for leaf in &own.leaves {
            let double = match leaf {
                Leaf::Var(var) => {
                    let name = variable(*var, &reads.places)?;
                    self.cast(&name, DataType::Double)
                }
                Leaf::Given => {
                    let name = reads.places.given.clone().ok_or_else(|| unsaid("given"))?;
                    self.cast(&name, DataType::Double)
                }
                Leaf::Score => reads.score.clone().ok_or_else(|| unsaid("score"))?,
                Leaf::Table { table, at } => {
                    let table = reads.tables.get(*table).ok_or_else(|| unsaid("learn"))?;
                    let at = self.scalar(at, &leaves, DataType::Double)?;
                    self.learned(table, &at, own.is_total)
                }
                Leaf::Value { value, of_query, channel } => {
                    let value = reads.values.get(*value).ok_or_else(|| unsaid("read"))?;
                    let channel = channel.as_ref().map(|x| self.scalar(x, &leaves, DataType::Double)).transpose()?;
                    self.at_position(value, (*of_query, &reads.places), channel.as_deref())
                }
            };
            leaves.push(double);
        }
        Ok(leaves)
    }

    /// A value `[rows, positions]` or `[rows, positions, channels]` for every query, or for every key: `[rows, heads or 1, queries or 1, keys or
    /// 1]`.
    fn at_position(
        &mut self,
        value: &PaddedValue,
        (at_query, places): (bool, &VariableNames),
        channel: Option<&str>,
    ) -> String {
        let along = if at_query { 3 } else { 2 };
        let numbers = match &places.j {
            Some(j) if places.has_slots && !at_query => {
                self.op_with("Gather", &[&value.name, j], vec![AttributeProto::int("axis", 1)])
            }
            _ => value.name.clone(),
        };
        let by_head = match (channel, value.channels) {
            (Some(channel), Some(_)) => {
                let channels = self.reshape(channel, &[-1]);
                let channels = self.cast(&channels, DataType::Int);
                let own = self.op_with("Gather", &[&numbers, &channels], vec![AttributeProto::int("axis", 2)]);
                self.transpose(&own, &[0, 2, 1])
            }
            _ => self.unsqueeze(&numbers, &[1]),
        };
        let name = self.unsqueeze(&by_head, &[along]);
        self.cast(&name, DataType::Double)
    }

    /// The number of a table at a place, the last index running fastest; infinite where the place is none, if that can be.
    fn learned(&mut self, table: &BiasTable, at: &str, exists: bool) -> String {
        let flat = self.reshape(&table.name, &[-1]);
        let axis = || vec![AttributeProto::int("axis", 0)];
        if exists {
            let place = self.cast(at, DataType::Int);
            let name = self.op_with("Gather", &[&flat, &place], axis());
            return self.cast(&name, DataType::Double);
        }
        let (zero, none) = (self.double(0.0), self.double(f64::INFINITY));
        let known = self.op("Equal", &[at, at]);
        let place = self.op("Where", &[&known, at, &zero]);
        let place = self.cast(&place, DataType::Int);
        let name = self.op_with("Gather", &[&flat, &place], axis());
        let number = self.cast(&name, DataType::Double);
        self.op("Where", &[&known, &number, &none])
    }

    /// The smallest k with `base^k >= x`, for a constant base.
    pub(super) fn log_up(&mut self, x: &str, base: f64) -> String {
        let mut powers = vec![1.0];
        while let Some(next) = powers.last().map(|power| power * base).filter(|power| *power <= f64::from(f32::MAX)) {
            powers.push(next);
        }
        let (powers, apart) = (self.doubles(&[powers.len()], &powers), self.unsqueeze(x, &[-1]));
        let below = self.op("Less", &[&powers, &apart]);
        let below = self.cast(&below, DataType::Double);
        let count = self.reduce("ReduceSum", &below, &[-1]);
        // NaN stays NaN.
        let nothing = self.op("Sub", &[x, x]);
        self.op("Add", &[&count, &nothing])
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

fn untold(Untold(part): Untold) -> OnnxRefusal {
    match part {
        Expr::Draw(_) => OnnxRefusal(format!("`{part}`, which is drawn in training")),
        part => OnnxRefusal(format!("`{part}`, which has no number for a query and a key")),
    }
}
