//! Numbers that are drawn: the distributions that a depth may come from.

use super::{Env, EvalError, Expr, ScalarValue, simplify};

/// No number of steps comes near it.
const MOST: f64 = 1e9;

/// What a number is drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distribution {
    /// `poisson(mean)`: a whole number from 0.
    Poisson,
    /// `lognormal(mean, sigma)`: e to a normal number of deviation sigma around `ln mean - sigma^2 / 2`, so that the mean is `mean`.
    Lognormal,
    /// `uniform(a, b)`: a whole number from a to b, both among them.
    Uniform,
    /// `geometric(p)`: the number of trials up to the first success, each of which succeeds with probability p.
    Geometric,
}

/// Who shares a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Per {
    /// Nobody: every row has its own.
    Row,
    /// All rows of a batch.
    Batch,
}

/// A number that is drawn once for an update and a row, or a batch: wherever its stream is read, it is the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Draw {
    /// What it is drawn from.
    pub distribution: Distribution,
    /// The parameters of the distribution.
    pub args: Vec<Expr>,
    /// The stream of random numbers.
    pub stream: u64,
    /// Who shares it.
    pub per: Per,
    /// What stands for it where nothing is drawn: in evaluation, and in costs.
    pub expected: ScalarValue,
}

/// Where numbers are drawn.
pub trait Chance {
    /// The number of a draw with these parameters; a distribution of one has it first.
    ///
    /// # Errors
    /// Parameters that the distribution can't have.
    fn draw(&self, draw: &Draw, parameters: [f64; 2]) -> Result<f64, EvalError>;
}

impl Distribution {
    /// All distributions.
    pub const ALL: [Self; 4] = [Self::Poisson, Self::Lognormal, Self::Uniform, Self::Geometric];

    /// The name in the language.
    pub fn name(self) -> &'static str {
        match self {
            Self::Poisson => "poisson",
            Self::Lognormal => "lognormal",
            Self::Uniform => "uniform",
            Self::Geometric => "geometric",
        }
    }

    /// Number of parameters.
    pub fn arity(self) -> usize {
        match self {
            Self::Poisson | Self::Geometric => 1,
            Self::Lognormal | Self::Uniform => 2,
        }
    }

    /// Whether it has these parameters; a distribution of one has it first.
    pub fn allows(self, [a, b]: [f64; 2]) -> bool {
        match self {
            Self::Poisson => (0.0..MOST).contains(&a),
            Self::Lognormal => a > 0.0 && b >= 0.0 && a.max(b) < MOST,
            Self::Uniform => a.ceil() <= b.floor() && b - a < MOST,
            Self::Geometric => a > 0.0 && a <= 1.0,
        }
    }

    /// What its parameters are, in words.
    pub fn parameters(self) -> &'static str {
        match self {
            Self::Poisson => "a mean that is not negative",
            Self::Lognormal => "a positive mean, and a deviation that is not negative",
            Self::Uniform => "two numbers with a whole one between them",
            Self::Geometric => "a probability above 0, at most 1",
        }
    }

    /// Whether its numbers are whole.
    pub fn is_whole(self) -> bool {
        self != Self::Lognormal
    }

    /// The distribution of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.name() == name)
    }
}

impl Per {
    /// The name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            Self::Row => "row",
            Self::Batch => "batch",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Row, Self::Batch].into_iter().find(|own| own.name() == name)
    }
}

impl Draw {
    /// The drawn number, or what stands for it where nothing is drawn.
    pub(super) fn value(&self, env: &Env, chance: Option<&dyn Chance>) -> Result<ScalarValue, EvalError> {
        let Some(chance) = chance else { return Ok(self.expected) };
        let mut parameters = [0.0; 2];
        for (parameter, arg) in parameters.iter_mut().zip(&self.args) {
            *parameter = super::eval::eval_with(arg, env, Some(chance))?.real()?;
        }
        let number = chance.draw(self, parameters)?;
        match self.distribution.is_whole() {
            _ if !number.is_finite() => Err(EvalError::TooLarge),
            true if number.abs() < i64::MAX as f64 => Ok(ScalarValue::Int(number as i64)),
            true => Err(EvalError::TooLarge),
            false => Ok(ScalarValue::Float(number)),
        }
    }
}

impl Expr {
    /// The expression with what `f` gives for some of its parts in their places.
    fn replaced(&self, f: &impl Fn(&Self) -> Option<Self>) -> Self {
        let part = |x: &Self| Box::new(x.replaced(f));
        let list = |args: &[Self]| args.iter().map(|x| x.replaced(f)).collect::<Vec<_>>();
        f(self).unwrap_or_else(|| match self {
            Self::Neg(x) => Self::Neg(part(x)),
            Self::Not(x) => Self::Not(part(x)),
            Self::Binary(op, a, b) => Self::Binary(*op, part(a), part(b)),
            Self::Call(func, args) => Self::Call(*func, list(args)),
            Self::Learn(table, args) => Self::Learn(table.clone(), list(args)),
            Self::Read(value, args) => Self::Read(value.clone(), list(args)),
            Self::Draw(draw) => Self::Draw(Box::new(Draw { args: list(&draw.args), ..(**draw).clone() })),
            leaf => leaf.clone(),
        })
    }

    /// The expression where nothing is drawn: with the numbers that stand for the draws, in its simplest form.
    #[must_use]
    pub fn without_draws(&self) -> Self {
        let expected = |x: &Self| match x {
            Self::Draw(draw) => Some(match draw.expected {
                ScalarValue::Int(v) => Self::Int(v),
                ScalarValue::Float(v) => Self::Float(v),
                ScalarValue::Bool(v) => Self::Bool(v),
            }),
            _ => None,
        };
        simplify(self.replaced(&expected))
    }

    /// The expression with a stream of random numbers for each of its draws, numbered from `first` on.
    #[must_use]
    pub fn with_streams(&self, first: u64) -> Self {
        let next = std::cell::Cell::new(first);
        self.numbered(&next)
    }

    fn numbered(&self, next: &std::cell::Cell<u64>) -> Self {
        self.replaced(&|x: &Self| match x {
            Self::Draw(draw) => {
                let stream = next.get();
                next.set(stream + 1);
                let args = draw.args.iter().map(|arg| arg.numbered(next)).collect();
                Some(Self::Draw(Box::new(Draw { stream, args, ..(**draw).clone() })))
            }
            _ => None,
        })
    }

    /// How many numbers are drawn for it.
    pub fn draws(&self) -> usize {
        let inside: usize = self.operands().into_iter().map(Self::draws).sum();
        inside + usize::from(matches!(self, Self::Draw(_)))
    }

    /// The expression in this step.
    #[must_use]
    pub fn at_step(&self, step: i64) -> Self {
        simplify(self.replaced(&|x: &Self| (*x == Self::Var(super::Var::Step)).then_some(Self::Int(step))))
    }

    /// The expression of this head.
    #[must_use]
    pub fn at_head(&self, head: i64) -> Self {
        simplify(self.replaced(&|x: &Self| (*x == Self::Var(super::Var::Head)).then_some(Self::Int(head))))
    }

    /// The expression for rows of this length.
    #[must_use]
    pub fn at_length(&self, length: i64) -> Self {
        self.replaced(&|x: &Self| (*x == Self::Var(super::Var::Length)).then_some(Self::Int(length)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::most;
    use super::*;
    use crate::ir::attr;
    use crate::ir::types::Attr;

    fn read(text: &str) -> Result<Expr, String> {
        Expr::try_from(&attr::parse(text).expect("an attribute"))
    }

    #[test]
    fn draws_read_back() {
        let text = "min(add(poisson(lognormal(32.0, 0.5, 4, batch, 32.0), 3, batch, 31), 1), 128)";
        let expr = read(text).expect("an expression");
        assert_eq!(attr::print(&Attr::from(&expr)), text);
        let shown = "min(poisson(lognormal(32.0, 0.5) { per: batch, evaluation: 32.0 }) { per: batch, evaluation: 31 } + 1, 128)";
        assert_eq!(expr.to_string(), shown);
        for wrong in [
            "poisson(3.0)",
            "poisson(3.0, 1, row, 2.5)",
            "poisson(3.0, 1, all, 3)",
            "poisson(3.0, -1, row, 3)",
            "uniform(1, 2, row, 3)",
            "lognormal(3.0, 0.5, 1, row, 3)",
            "geometric(0.5, 0.5, 1, row, 3)",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn where_nothing_is_drawn_a_number_stands_for_the_draw() {
        let free = read("max(sub(min(add(poisson(8.0, 3, row, 7), 1), 64), 4), 0)").expect("an expression");
        assert!(free.holds_draw() && !free.without_draws().holds_draw());
        assert_eq!(free.without_draws(), Expr::Int(4));
        assert_eq!(super::super::eval(&free, &Env::default()), Ok(ScalarValue::Int(4)));
        let by_length = read("min(uniform(1, length, 0, row, 5), length)").expect("an expression");
        assert_eq!(by_length.without_draws().to_string(), "min(5, length)");
    }

    #[test]
    fn a_draw_is_bounded_by_what_stands_around_it() {
        let most_of = |text: &str| most(&read(text).expect("an expression"));
        assert_eq!(most_of("poisson(3.0, 1, row, 3)"), f64::INFINITY);
        assert_eq!(most_of("max(sub(min(add(poisson(3.0, 1, row, 3), 1), 64), 4), 0)"), 60.0);
        assert_eq!(most_of("uniform(2, 16, 1, row, 9)"), 16.0);
        let by_length = read("min(geometric(0.2, 1, row, 5), length)").expect("an expression");
        assert_eq!((most(&by_length), most(&by_length.at_length(12))), (f64::INFINITY, 12.0));
    }
}
