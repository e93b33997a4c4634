//! Optimisers as formulas: lines of assignments, for each number of the parameters by itself.

use std::collections::{BTreeMap, BTreeSet};

use super::{function, read};
use crate::define::{Constant, constant_of};
use crate::diag::{did_you_mean, list};
use crate::expr::BinaryOp;
use crate::ir::pointwise::{Pointwise, Scalar};
use crate::syntax::ast::{ExprKind, ExprSyntax};

/// The names of the numbers that are the same for all parameters of a group, in an update: its number (from 1), the learning rate, the
/// weight decay, and fields of the optimiser.
pub const SHARED: [&str; 7] = ["step", "rate", "decay", "beta1", "beta2", "epsilon", "momentum"];

/// A parameter may keep so many numbers from one update to the next.
pub const MOST_KEPT: usize = 3;

/// The largest whole power of a number of each parameter.
const MOST_POWER: i64 = 16;

/// The most functions, operators and numbers of a value: a line stands in those that use its name, so that values could grow without end.
const MOST_PARTS: usize = 1024;

/// An optimiser as lines `name = formula`: `p` is the parameter and `g` its gradient. A name that is read before it is assigned is kept
/// from one update to the next and begins at 0; other names are of one update.
///
/// ```
/// use rtc_compiler::formula::UpdateFormula;
///
/// let sgd = UpdateFormula::parse("m = momentum * m + g\np = p - rate * m")?;
/// assert_eq!(sgd.kept(), ["m"]);
/// assert!(UpdateFormula::parse("m = 0.9 * m + g").is_err(), "it assigns no `p`");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct UpdateFormula {
    text: String,
    kept: Vec<String>,
    /// The new values of the parameter and of what is kept. Operands are those two, `g` between them, and then `shared`.
    results: Vec<Scalar>,
    shared: Vec<SharedNumber>,
}

/// A number that all parameters share.
#[derive(Clone, Debug)]
struct SharedNumber {
    value: ExprSyntax,
    /// Whether numbers of parameters are divided by it.
    divides: bool,
}

/// A line: a name and its formula.
struct Line<'a> {
    name: &'a str,
    value: ExprSyntax,
}

/// What an expression is.
#[derive(Clone)]
enum Part {
    /// The same for all parameters.
    Shared(ExprSyntax),
    /// A number for each.
    Number(Scalar),
    /// 1 or 0 for each, as it holds or not.
    Condition(Scalar),
}

impl UpdateFormula {
    /// Reads the lines, of which `;` separates several. Text after `#` is a comment.
    ///
    /// # Errors
    /// A sentence with the line: a syntax error, a name or a function that does not exist, more kept numbers than [`MOST_KEPT`], or no
    /// line that assigns `p`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = vec![];
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            for assignment in line.split(';').map(str::trim).filter(|assignment| !assignment.is_empty()) {
                lines.push(Line::read(assignment)?);
            }
        }
        if !lines.iter().any(|line| line.name == "p") {
            return Err("a line must assign `p`, the parameter, as `p = p - rate * g`".to_owned());
        }
        let kept = kept(&lines);
        if kept.len() > MOST_KEPT {
            let kept = list(kept.iter().copied(), "and");
            return Err(format!(
                "a parameter keeps at most {MOST_KEPT} numbers, and {kept} are read before they are assigned"
            ));
        }
        let mut reader = UpdateReader { arrays: 2 + kept.len(), names: BTreeMap::new(), shared: vec![] };
        let arrays = ["p", "g"].into_iter().chain(kept.iter().copied());
        reader.names = arrays.enumerate().map(|(n, name)| (name, Part::Number(Scalar::Operand(n)))).collect();
        for line in &lines {
            let value = reader.part(&line.value).map_err(|why| format!("`{} = ..`: {why}", line.name))?;
            if let Part::Condition(_) = value {
                return Err(format!("`{}` is a condition: `when(condition, 1, 0)` makes a number of it", line.name));
            }
            reader.names.insert(line.name, value);
        }
        let written = ["p"].into_iter().chain(kept.iter().copied());
        let parts: Vec<Part> = written.map(|name| reader.names[name].clone()).collect();
        let results = parts.into_iter().map(|part| reader.number(part)).collect::<Result<_, _>>()?;
        let kept = kept.into_iter().map(str::to_owned).collect();
        Ok(Self { text: text.to_owned(), kept, results, shared: reader.shared })
    }

    /// Returns the text that it was read from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the names of the numbers that are kept from one update to the next.
    pub fn kept(&self) -> &[String] {
        &self.kept
    }

    /// Whether one of [`SHARED`] is used.
    pub fn uses(&self, name: &str) -> bool {
        self.shared.iter().any(|number| reads(&number.value, name))
    }

    /// Returns how many numbers are shared.
    pub fn shared(&self) -> usize {
        self.shared.len()
    }

    /// Returns the new values of the parameter and of what is kept. Operand 0 is the parameter, 1 the gradient, then comes what is kept,
    /// then the shared numbers.
    pub fn results(&self) -> &[Scalar] {
        &self.results
    }

    /// Returns the shared numbers, where `known` has those of [`SHARED`].
    ///
    /// # Errors
    /// A sentence: a division by 0, a root of a negative number, another value that is not finite.
    pub fn numbers(&self, known: &impl Fn(&str) -> f64) -> Result<Vec<f64>, String> {
        let named = |name: &str| Some(Constant::Float(known(name)));
        let value = |shared: &SharedNumber| {
            let value = constant_of(&shared.value, &named, &function).map_err(|(_, why)| why)?;
            match (&value, value.number()) {
                (Constant::Truth(holds), _) => Ok(f64::from(u8::from(*holds))),
                (_, Some(0.0)) if shared.divides => Err("a division by 0 has no value".to_owned()),
                (_, Some(number)) if number.is_finite() => Ok(number),
                _ => Err(format!("its value is {}", value.describe())),
            }
        };
        self.shared.iter().map(value).collect()
    }

    /// Returns the results with these shared numbers.
    pub fn with_numbers(&self, numbers: &[f64]) -> Vec<Scalar> {
        let arrays = 2 + self.kept.len();
        let operand =
            |n: usize| n.checked_sub(arrays).map_or(Scalar::Operand(n), |shared| Scalar::Number(numbers[shared]));
        self.results.iter().map(|result| result.with(&operand)).collect()
    }
}

impl<'a> Line<'a> {
    fn read(line: &'a str) -> Result<Self, String> {
        let no_line = || format!("`{line}` is no line of an optimiser: `name = formula`, as `p = p - rate * g`");
        let (name, value) = line.split_once('=').filter(|(_, value)| !value.starts_with('=')).ok_or_else(no_line)?;
        let name = name.trim();
        let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !begins || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(no_line());
        }
        if SHARED.contains(&name) {
            return Err(format!("`{name}` is given and can't be assigned: give the value another name"));
        }
        Ok(Self { name, value: read(value.trim())? })
    }
}

/// The names that are read before they are assigned, in the order of their lines.
fn kept<'a>(lines: &[Line<'a>]) -> Vec<&'a str> {
    let mut kept: Vec<&str> = vec![];
    for (n, line) in lines.iter().enumerate() {
        let first = lines.iter().position(|other| other.name == line.name) == Some(n);
        let read = lines[..=n].iter().any(|before| reads(&before.value, line.name));
        if first && read && !["p", "g"].contains(&line.name) {
            kept.push(line.name);
        }
    }
    kept
}

/// Whether a name occurs in an expression.
fn reads(expr: &ExprSyntax, name: &str) -> bool {
    match &expr.kind {
        ExprKind::Name(own) => own == name,
        ExprKind::Group(x) | ExprKind::Neg(x) | ExprKind::Not(x) => reads(x, name),
        ExprKind::Binary(_, a, b) => reads(a, name) || reads(b, name),
        ExprKind::Call(_, args, _) => args.iter().any(|arg| reads(arg, name)),
        ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Bool(_)
        | ExprKind::Indexed(..)
        | ExprKind::Learn(..)
        | ExprKind::Read(..)
        | ExprKind::Function(..)
        | ExprKind::Old(_) => false,
    }
}

/// Turns formulas into expressions of single numbers.
struct UpdateReader<'a> {
    /// Operands before the shared numbers.
    arrays: usize,
    names: BTreeMap<&'a str, Part>,
    shared: Vec<SharedNumber>,
}

impl UpdateReader<'_> {
    fn part(&mut self, expr: &ExprSyntax) -> Result<Part, String> {
        let part = self.part_of_any_size(expr)?;
        if part.parts() > MOST_PARTS {
            return Err(format!(
                "the value has more than {MOST_PARTS} parts, those of the names that it uses included"
            ));
        }
        Ok(part)
    }

    fn part_of_any_size(&mut self, expr: &ExprSyntax) -> Result<Part, String> {
        let shared = |kind: ExprKind| Part::Shared(ExprSyntax { kind, span: expr.span });
        Ok(match &expr.kind {
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) => Part::Shared(expr.clone()),
            ExprKind::Name(name) => match self.names.get(&**name) {
                Some(part) => part.clone(),
                None if SHARED.contains(&&**name) => Part::Shared(expr.clone()),
                None => return Err(self.unknown(name)),
            },
            ExprKind::Group(x) => match self.part(x)? {
                Part::Shared(x) => shared(ExprKind::Group(Box::new(x))),
                other => other,
            },
            ExprKind::Neg(x) => match self.part(x)? {
                Part::Shared(x) => shared(ExprKind::Neg(Box::new(x))),
                other => Part::Number(Scalar::call(Pointwise::Neg, vec![self.number(other)?])),
            },
            ExprKind::Not(x) => match self.part(x)? {
                Part::Shared(x) => shared(ExprKind::Not(Box::new(x))),
                other => Part::Condition(opposite(self.condition(other)?)),
            },
            ExprKind::Binary(op, a, b) => match (self.part(a)?, self.part(b)?) {
                (Part::Shared(a), Part::Shared(b)) => shared(ExprKind::Binary(*op, Box::new(a), Box::new(b))),
                (a, b) => self.binary(*op, a, b)?,
            },
            ExprKind::Call(name, args, None) => {
                let parts = args.iter().map(|arg| self.part(arg)).collect::<Result<Vec<_>, _>>()?;
                let of_all: Option<Vec<ExprSyntax>> = parts.iter().map(Part::shared).collect();
                match of_all {
                    Some(args) => {
                        let call = ExprSyntax { kind: ExprKind::Call(name.clone(), args, None), span: expr.span };
                        super::check(&call, Some(&SHARED), &mut BTreeSet::new())?;
                        Part::Shared(call)
                    }
                    None => self.call(&name.text, parts)?,
                }
            }
            ExprKind::Call(..)
            | ExprKind::Indexed(..)
            | ExprKind::Learn(..)
            | ExprKind::Read(..)
            | ExprKind::Function(..)
            | ExprKind::Old(_) => return Err("a formula has numbers, names, operators and functions".to_owned()),
        })
    }

    fn unknown(&self, name: &str) -> String {
        let names: Vec<&str> = self.names.keys().copied().chain(SHARED).collect();
        let near = did_you_mean(name, names.iter().copied());
        let near = if near.is_empty() { near } else { format!("; {near}") };
        format!(
            "`{name}` is unknown here: a line may use {}, and names that lines assign{near}",
            list(["p", "g"].into_iter().chain(SHARED), "and")
        )
    }

    /// The expression of a number.
    fn number(&mut self, part: Part) -> Result<Scalar, String> {
        match part {
            Part::Number(x) => Ok(x),
            Part::Condition(_) => Err("this is a condition: `when(condition, 1, 0)` makes a number of it".to_owned()),
            Part::Shared(ExprSyntax { kind: ExprKind::Int(x), .. }) => Ok(Scalar::Number(x as f64)),
            Part::Shared(ExprSyntax { kind: ExprKind::Float(x), .. }) => Ok(Scalar::Number(x)),
            Part::Shared(expr) => Ok(self.keep(expr, false)),
        }
    }

    /// The expression of a condition, 1 or 0.
    fn condition(&mut self, part: Part) -> Result<Scalar, String> {
        match part {
            Part::Condition(x) => Ok(x),
            Part::Number(_) => Err("this is a number, and a condition is needed, as `m * g > 0`".to_owned()),
            Part::Shared(expr) => Ok(self.keep(expr, false)),
        }
    }

    fn keep(&mut self, value: ExprSyntax, divides: bool) -> Scalar {
        self.shared.push(SharedNumber { value, divides });
        Scalar::Operand(self.arrays + self.shared.len() - 1)
    }

    fn binary(&mut self, op: BinaryOp, a: Part, b: Part) -> Result<Part, String> {
        if matches!(op, BinaryOp::And | BinaryOp::Or) {
            let func = if op == BinaryOp::And { Pointwise::Mul } else { Pointwise::Maximum };
            let args = vec![self.condition(a)?, self.condition(b)?];
            return Ok(Part::Condition(Scalar::call(func, args)));
        }
        if op == BinaryOp::Pow {
            return self.power(a, &b);
        }
        let divisor = match b {
            Part::Shared(expr) if op == BinaryOp::Div => self.keep(expr, true),
            b => self.number(b)?,
        };
        let args = vec![self.number(a)?, divisor];
        let less = |[a, b]: [usize; 2]| Scalar::call(Pointwise::Less, vec![args[a].clone(), args[b].clone()]);
        Ok(match op {
            BinaryOp::Lt => Part::Condition(less([0, 1])),
            BinaryOp::Gt => Part::Condition(less([1, 0])),
            BinaryOp::Le => Part::Condition(opposite(less([1, 0]))),
            BinaryOp::Ge => Part::Condition(opposite(less([0, 1]))),
            BinaryOp::Add => Part::Number(Scalar::call(Pointwise::Add, args)),
            BinaryOp::Sub => Part::Number(Scalar::call(Pointwise::Sub, args)),
            BinaryOp::Mul => Part::Number(Scalar::call(Pointwise::Mul, args)),
            BinaryOp::Div => Part::Number(Scalar::call(Pointwise::Div, args)),
            BinaryOp::Rem | BinaryOp::Eq | BinaryOp::Ne | BinaryOp::And | BinaryOp::Or | BinaryOp::Pow => {
                return Err(format!("`{}` joins only numbers that all parameters share, as `step`", op.symbol()));
            }
        })
    }

    /// A power of a number of each parameter, as products.
    fn power(&mut self, base: Part, exponent: &Part) -> Result<Part, String> {
        let Part::Shared(ExprSyntax { kind: ExprKind::Int(n @ 1..=MOST_POWER), .. }) = exponent else {
            return Err(format!(
                "a power of a parameter, a gradient or what is kept is a whole number from 1 to {MOST_POWER}: `sqrt(x)` and \
                 `exp(c * log(x))` are others"
            ));
        };
        let base = self.number(base)?;
        let product = |x: Scalar, _| Scalar::call(Pointwise::Mul, vec![x, base.clone()]);
        Ok(Part::Number((1..*n).fold(base.clone(), product)))
    }

    fn call(&mut self, name: &str, parts: Vec<Part>) -> Result<Part, String> {
        let known = FUNCTIONS_OF_EACH.iter().find(|(known, func)| *known == name && func.def().arity == parts.len());
        if let Some((_, func)) = known {
            let args = parts.into_iter().map(|part| self.number(part)).collect::<Result<_, _>>()?;
            return Ok(Part::Number(Scalar::call(*func, args)));
        }
        match <[Part; 3]>::try_from(parts) {
            Ok([condition, yes, no]) if name == "when" => {
                let args = vec![self.condition(condition)?, self.number(yes)?, self.number(no)?];
                Ok(Part::Number(Scalar::call(Pointwise::Choose, args)))
            }
            _ => {
                let names = FUNCTIONS_OF_EACH
                    .iter()
                    .map(|(name, func)| format!("`{name}({})`", ["a", "b"][..func.def().arity].join(", ")));
                let all = names.chain(["`when(condition, a, b)`".to_owned()]).collect::<Vec<_>>().join(", ");
                Err(format!("there is no such `{name}` of numbers of each parameter: {all}"))
            }
        }
    }
}

/// Functions of numbers of each parameter.
const FUNCTIONS_OF_EACH: [(&str, Pointwise); 9] = [
    ("sqrt", Pointwise::Sqrt),
    ("exp", Pointwise::Exp),
    ("log", Pointwise::Log),
    ("abs", Pointwise::Abs),
    ("sign", Pointwise::Sign),
    ("tanh", Pointwise::Tanh),
    ("sigmoid", Pointwise::Sigmoid),
    ("min", Pointwise::Minimum),
    ("max", Pointwise::Maximum),
];

impl Part {
    fn shared(&self) -> Option<ExprSyntax> {
        match self {
            Self::Shared(expr) => Some(expr.clone()),
            Self::Number(_) | Self::Condition(_) => None,
        }
    }

    /// How many functions, operators, numbers and names there are.
    fn parts(&self) -> usize {
        fn of(scalar: &Scalar) -> usize {
            match scalar {
                Scalar::Operand(_) | Scalar::Number(_) => 1,
                Scalar::Call(_, args) => 1 + args.iter().map(of).sum::<usize>(),
            }
        }
        match self {
            Self::Shared(expr) => expr.clone().size(),
            Self::Number(scalar) | Self::Condition(scalar) => of(scalar),
        }
    }
}

/// 1 where a condition does not hold.
fn opposite(condition: Scalar) -> Scalar {
    Scalar::call(Pointwise::Sub, vec![Scalar::Number(1.0), condition])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of the results for one number of each operand.
    fn values(text: &str, operands: &[f64]) -> Vec<f64> {
        fn of(scalar: &Scalar, operands: &[f64]) -> f64 {
            match scalar {
                Scalar::Operand(n) => operands[*n],
                Scalar::Number(x) => *x,
                Scalar::Call(func, args) => {
                    let args: Vec<f64> = args.iter().map(|arg| of(arg, operands)).collect();
                    match (func, &args[..]) {
                        (Pointwise::Add, [a, b]) => a + b,
                        (Pointwise::Sub, [a, b]) => a - b,
                        (Pointwise::Mul, [a, b]) => a * b,
                        (Pointwise::Div, [a, b]) => a / b,
                        (Pointwise::Neg, [a]) => -a,
                        (Pointwise::Sqrt, [a]) => a.sqrt(),
                        (Pointwise::Sign, [a]) => a.signum(),
                        (Pointwise::Less, [a, b]) => f64::from(u8::from(a < b)),
                        (Pointwise::Choose, [a, b, c]) => {
                            if *a > 0.0 {
                                *b
                            } else {
                                *c
                            }
                        }
                        (Pointwise::Maximum, [a, b]) => a.max(*b),
                        other => panic!("{other:?}"),
                    }
                }
            }
        }
        let formula = UpdateFormula::parse(text).expect(text);
        let known = |name: &str| match name {
            "step" => 2.0,
            "rate" => 0.5,
            _ => 0.25,
        };
        let numbers = formula.numbers(&known).expect(text);
        assert_eq!(numbers.len(), formula.shared());
        formula.with_numbers(&numbers).iter().map(|result| of(result, operands)).collect()
    }

    #[test]
    fn lines_have_the_values_of_arithmetic() {
        assert_eq!(values("p = p - rate * (g + decay * p)", &[4.0, 2.0]), [2.5]);
        let adam = "m = 0.5 * m + 0.5 * g\nv = 0.75 * v + 0.25 * g ^ 2  # of squares\np = p - rate * (m / (1 - 0.5 ^ step)) / sqrt(v)";
        assert_eq!(values(adam, &[1.0, 4.0, 2.0, 0.0]), [1.0 - 0.5 * (3.0 / 0.75) / 2.0, 3.0, 4.0]);
        let lion = "p = p - rate * sign(0.75 * m + 0.25 * g); m = 0.5 * m + 0.5 * g";
        assert_eq!(values(lion, &[1.0, -8.0, 1.0]), [1.5, -3.5]);
        let cautious = "m = m + g; u = when(m * g > 0 and not g < -1, m, 0); p = p - u";
        assert_eq!(values(cautious, &[1.0, 1.0, 1.0]), [-1.0, 2.0]);
        assert_eq!(values(cautious, &[1.0, -2.0, 1.0]), [1.0, -1.0]);
        assert_eq!(values("c = 1 / step; p = when(step < 3, c * p, g)", &[4.0, 7.0]), [2.0]);
        assert_eq!(values("g = max(g, -1); p = p + g", &[4.0, -7.0]), [3.0]);
    }

    #[test]
    fn a_name_that_is_read_first_is_kept() {
        let kept = |text: &str| UpdateFormula::parse(text).map(|formula| formula.kept().to_vec()).expect(text);
        assert_eq!(kept("u = g; p = p - u"), <[&str; 0]>::default());
        assert_eq!(kept("b = b + g; p = p - b * a; a = 0.5 * a + g"), ["b", "a"]);
        assert_eq!(kept("p = p - rate * a; a = g; a = 2 * a"), ["a"]);
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        let doubled = format!("{}p = p - a", "a = g; ".to_owned() + &"a = a * a; ".repeat(40));
        let shared = format!("{}p = p - a", "a = step; ".to_owned() + &"a = a * a; ".repeat(40));
        for (text, why) in [
            ("", "must assign `p`"),
            ("m = g", "must assign `p`"),
            ("p - g", "is no line of an optimiser"),
            ("p == g", "is no line of an optimiser"),
            ("2p = g", "is no line of an optimiser"),
            ("p = p - rat * g", "`rat` is unknown here"),
            ("p = p - rat * g", "did you mean `rate`?"),
            ("p = p -", "is no formula"),
            ("rate = 2; p = p - rate * g", "`rate` is given"),
            ("p = p > g", "`p` is a condition"),
            ("p = p + (p > g)", "this is a condition"),
            ("p = when(g, 1, 2)", "a condition is needed"),
            ("p = p ^ 0.5", "whole number from 1 to 16"),
            ("p = p % 2", "`%` joins only numbers"),
            ("p = softmax(g)", "there is no such `softmax`"),
            ("p = min(g)", "there is no such `min`"),
            ("p = p * softmax(step)", "there is no `softmax` of 1 numbers"),
            ("a = a + g; b = b + g; c = c + g; d = d + g; p = p - a", "keeps at most 3 numbers"),
            (&doubled, "more than 1024 parts"),
            (&shared, "more than 1024 parts"),
        ] {
            let error = UpdateFormula::parse(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
        for text in ["p = p - g / (step - 3)", "p = p - g * (1 / (step - 3))", "p = p - g * sqrt(2 - step)"] {
            let formula = UpdateFormula::parse(text).expect(text);
            assert!(formula.numbers(&|_| 3.0).is_err_and(|why| why.contains("has no value")), "{text}");
            assert!(formula.numbers(&|_| 1.0).is_ok(), "{text}");
        }
    }
}
