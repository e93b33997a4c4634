//! Formulas outside of specs: one number computed from named numbers, as the factor of a learning-rate schedule, and the lines of an
//! optimiser.

mod update;

use std::collections::BTreeSet;

use crate::define::{CONSTANT_FUNCTIONS, Constant, constant_function, constant_of};
use crate::diag::{Problems, did_you_mean, list};
use crate::expr::BinaryOp;
use crate::source::SourceId;
use crate::syntax::ast::{ExprKind, ExprSyntax};
use crate::syntax::parse_formula;

pub use update::{MOST_KEPT, SHARED, UpdateFormula};

/// A function of one number by its name.
type NumberFunction = (&'static str, fn(f64) -> f64);

/// Functions of formulas besides those of constants.
const FUNCTIONS: [NumberFunction; 3] = [("cos", f64::cos), ("sin", f64::sin), ("tanh", f64::tanh)];

/// A formula of named numbers, in the syntax of equations.
///
/// ```
/// use rtc_compiler::formula::NumberFormula;
///
/// let factor = NumberFormula::parse("when(step < warmup, step / warmup, 1)", &["step", "warmup"])?;
/// assert_eq!(factor.value(&|name| if name == "step" { 5.0 } else { 20.0 }), Ok(0.25));
/// assert!(NumberFormula::parse("stp / 10", &["step"]).is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct NumberFormula {
    tree: ExprSyntax,
    names: BTreeSet<String>,
}

impl NumberFormula {
    /// Reads a formula that uses some of `names`, the functions of constants, `cos`, `sin`, `tanh`, and
    /// `when(condition, a, b)`.
    ///
    /// # Errors
    /// A sentence: a syntax error, or a name or a function that does not exist.
    pub fn parse(text: &str, names: &[&str]) -> Result<Self, String> {
        Self::checked(text, Some(names))
    }

    /// The same with any names, see [`Self::names`].
    ///
    /// # Errors
    /// A sentence: a syntax error, or a function that does not exist.
    pub fn of_any_names(text: &str) -> Result<Self, String> {
        Self::checked(text, None)
    }

    fn checked(text: &str, known: Option<&[&str]>) -> Result<Self, String> {
        let (tree, mut names) = (read(text)?, BTreeSet::new());
        check(&tree, known, &mut names)?;
        Ok(Self { tree, names })
    }

    /// Returns the names that the formula uses.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Whether the value is a condition, and no number.
    pub fn is_condition(&self) -> bool {
        is_condition(&self.tree)
    }

    /// Whether the formula uses a name.
    pub fn uses(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Returns the value for the numbers that `known` returns by name.
    ///
    /// # Errors
    /// A sentence: a division by 0, a root of a negative number, another value that is not finite, or no number at all.
    pub fn value(&self, known: &impl Fn(&str) -> f64) -> Result<f64, String> {
        let named = |name: &str| Some(Constant::Float(known(name)));
        let value = constant_of(&self.tree, &named, &function).map_err(|(_, why)| why)?;
        value.number().filter(|value| value.is_finite()).ok_or_else(|| format!("its value is {}", value.describe()))
    }
}

/// The tree of a formula.
fn read(text: &str) -> Result<ExprSyntax, String> {
    let mut problems = Problems::default();
    parse_formula(SourceId(0), text, &mut problems).ok_or_else(|| {
        let first = problems.iter().next().map_or_else(String::new, |problem| {
            let label = if problem.label.is_empty() { String::new() } else { format!(", {}", problem.label) };
            format!(": {}{label}", problem.message)
        });
        format!("`{text}` is no formula{first}")
    })
}

/// Whether the value of an expression is a condition.
fn is_condition(expr: &ExprSyntax) -> bool {
    use BinaryOp::{Add, And, Div, Eq, Ge, Gt, Le, Lt, Mul, Ne, Or, Pow, Rem, Sub};
    match &expr.kind {
        ExprKind::Bool(_) | ExprKind::Not(_) => true,
        ExprKind::Group(x) => is_condition(x),
        ExprKind::Binary(op, ..) => match op {
            And | Or | Eq | Ne | Lt | Le | Gt | Ge => true,
            Add | Sub | Mul | Div | Rem | Pow => false,
        },
        ExprKind::Call(name, args, _) if name.text == "when" => args.iter().skip(1).any(is_condition),
        ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Name(_)
        | ExprKind::Neg(_)
        | ExprKind::Call(..)
        | ExprKind::Indexed(..)
        | ExprKind::Learn(..)
        | ExprKind::Read(..)
        | ExprKind::Function(..)
        | ExprKind::Old(_) => false,
    }
}

/// The names of all functions, each with the number of its arguments.
fn functions() -> impl Iterator<Item = (&'static str, usize)> {
    CONSTANT_FUNCTIONS.into_iter().chain(FUNCTIONS.iter().map(|(name, _)| (*name, 1)))
}

/// A function of formulas.
fn function(name: &str, args: &[Constant]) -> Option<Result<Constant, String>> {
    let own = FUNCTIONS.iter().find(|(known, _)| *known == name);
    match (own, args) {
        (Some((_, own)), [x]) => x.number().map(|x| Ok(Constant::Float(own(x)))),
        _ => constant_function(name, args),
    }
}

/// Collects the names of a formula, and refuses functions that it cannot use, and names besides `names`.
fn check(expr: &ExprSyntax, names: Option<&[&str]>, used: &mut BTreeSet<String>) -> Result<(), String> {
    match &expr.kind {
        ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) => Ok(()),
        ExprKind::Name(name) => {
            used.insert(name.clone());
            let Some(names) = names.filter(|names| !names.contains(&&**name)) else { return Ok(()) };
            let near = did_you_mean(name, names.iter().copied());
            let near = if near.is_empty() { near } else { format!("; {near}") };
            Err(format!("`{name}` is unknown here: a formula may use {}{near}", list(names.iter().copied(), "and")))
        }
        ExprKind::Group(x) | ExprKind::Neg(x) | ExprKind::Not(x) => check(x, names, used),
        ExprKind::Binary(_, a, b) => check(a, names, used).and_then(|()| check(b, names, used)),
        ExprKind::Call(name, args, None) => {
            args.iter().try_for_each(|arg| check(arg, names, used))?;
            let is_known = functions().any(|known| known == (&*name.text, args.len()));
            if is_known || (&*name.text, args.len()) == ("when", 3) {
                return Ok(());
            }
            let of = |count: usize| functions().filter(move |(_, own)| *own == count).map(|(name, _)| name);
            let two = of(2).map(|name| format!("`{name}(a, b)`")).collect::<Vec<_>>().join(", ");
            let one = of(1).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let all = format!("{two}, `when(condition, a, b)`, and of one number {one}");
            Err(format!("there is no `{}` of {} numbers here: {all}", name.text, args.len()))
        }
        ExprKind::Call(..)
        | ExprKind::Indexed(..)
        | ExprKind::Learn(..)
        | ExprKind::Read(..)
        | ExprKind::Function(..)
        | ExprKind::Old(_) => Err("a formula has numbers, names, operators and functions".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<f64, String> {
        NumberFormula::parse(text, &["step", "total"])?.value(&|name| if name == "step" { 3.0 } else { 8.0 })
    }

    #[test]
    fn formulas_have_the_values_of_arithmetic() {
        assert_eq!(value("(step + 1) / total"), Ok(0.5));
        assert_eq!(value("min(1, step / 4) * 2 ^ -1"), Ok(0.375));
        assert_eq!(value("when(step < 1, 1 / (step - 3), 0.25)"), Ok(0.25));
        assert_eq!(value("(1 + cos(3.141592653589793 * step / 3)) / 2"), Ok(0.0));
        assert_eq!(value("when(step % 2 == 1 and not false, -1, 1)"), Ok(-1.0));
    }

    #[test]
    fn what_has_no_value_is_told() {
        for (text, why) in [
            ("1 / (step - 3)", "has no value"),
            ("sqrt(0 - step)", "`sqrt` has no value here"),
            ("step > 1", "its value is `true`"),
            ("stpe * 2", "did you mean `step`?"),
            ("cos(step, 2)", "there is no `cos` of 2 numbers here"),
            ("softmax(step)", "there is no `softmax` of 1 numbers here"),
            ("step +", "is no formula"),
            ("learn[3]", "a formula has numbers"),
        ] {
            let error = value(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
