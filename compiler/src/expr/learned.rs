//! Expressions with learned tables and values of positions: their value, and its derivative by one number that is read.
//!
//! Every `learn[...]` is a table of its own, every `learn_name[...]` reads the table of that name. Tables are counted in the order
//! in which they are read first, and so are values, and the places where either is read, their uses.

use super::eval::{binary, call, call_one, chosen, compare_any};
use super::{BinaryOp, Env, EvalError, Expr, Func, ScalarValue, eval};

/// A number and its derivative by one learned number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slope {
    /// The number.
    pub value: f64,
    /// Its derivative.
    pub slope: f64,
}

/// Gives the number that is read at a use, counted in reading order, with its indices.
pub type Lookup<'a> = dyn FnMut(usize, &[Expr]) -> Result<f64, EvalError> + 'a;

/// What a use reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// A learned table.
    Table(usize),
    /// A value of the positions.
    Value(usize),
    /// The score.
    Score,
}

/// The places where learned tables and values are read.
#[derive(Clone, Debug, PartialEq)]
pub struct Uses<'e> {
    /// The names of the tables; empty for one that has none.
    pub names: Vec<&'e str>,
    /// The names of the values, each once.
    pub values: Vec<&'e str>,
    /// For every use what it reads, and the indices.
    pub uses: Vec<(ReadFrom, &'e [Expr])>,
}

impl Uses<'_> {
    /// What the uses of an expression of a graph read: there the name of a value is its number among the operands that are values, and one
    /// that is no number names an operand that no node has.
    pub fn operands(&self) -> Vec<ReadFrom> {
        let operand = |from| match from {
            ReadFrom::Value(n) => ReadFrom::Value(self.values[n].parse().unwrap_or(usize::MAX)),
            other => other,
        };
        self.uses.iter().map(|(from, _)| operand(*from)).collect()
    }
}

/// The learned tables and the values of an expression, and where they are read, in reading order.
pub fn tables(expr: &Expr) -> Uses<'_> {
    let mut found = Uses { names: vec![], values: vec![], uses: vec![] };
    collect(expr, &mut found);
    found
}

/// How often an expression reads tables and values. Asked while models run, so nothing is collected.
fn uses(expr: &Expr) -> usize {
    match expr {
        Expr::Learn(..) | Expr::Read(..) | Expr::Score => 1,
        Expr::Int(_) | Expr::Float(_) | Expr::Bool(_) | Expr::Var(_) | Expr::Given => 0,
        Expr::Neg(x) | Expr::Not(x) => uses(x),
        Expr::Binary(_, a, b) => uses(a) + uses(b),
        Expr::Call(_, args) => args.iter().map(uses).sum(),
        Expr::Draw(draw) => draw.args.iter().map(uses).sum(),
    }
}

fn collect<'e>(expr: &'e Expr, found: &mut Uses<'e>) {
    if let Expr::Learn(name, indices) = expr {
        let known = found.names.iter().position(|known| !name.is_empty() && known == name);
        let table = known.unwrap_or(found.names.len());
        if known.is_none() {
            found.names.push(name);
        }
        found.uses.push((ReadFrom::Table(table), indices));
        return;
    }
    if let Expr::Read(name, indices) = expr {
        let known = found.values.iter().position(|known| known == name);
        let value = known.unwrap_or(found.values.len());
        if known.is_none() {
            found.values.push(name);
        }
        found.uses.push((ReadFrom::Value(value), indices));
        return;
    }
    if *expr == Expr::Score {
        found.uses.push((ReadFrom::Score, &[]));
    }
    for operand in expr.operands() {
        collect(operand, found);
    }
}

/// Where in a table of these sizes, laid out with the last index running fastest, the indices point.
///
/// # Errors
/// An index without a value, or outside the table.
pub fn flat(indices: &[Expr], sizes: &[usize], env: &Env) -> Result<usize, EvalError> {
    let mut at = 0;
    for (index, &size) in indices.iter().zip(sizes) {
        let ScalarValue::Int(index) = eval(index, env)? else { return Err(EvalError::WrongKind) };
        let index = usize::try_from(index).ok().filter(|index| *index < size).ok_or(EvalError::OutsideTable)?;
        at = at * size + index;
    }
    Ok(at)
}

/// The value of an expression whose learned numbers `learned(use, indices)` gives, and its derivative by the number that is
/// read at use `by` (none of them where there is no such use). What is made of a learned number that is not finite is NaN: such a number
/// is a fault of the weights, and not a place where the expression has none.
///
/// # Errors
/// As for [`eval`], and what `learned` reports.
pub fn slope(expr: &Expr, env: &Env, learned: &mut Lookup<'_>, by: usize) -> Result<Slope, EvalError> {
    let mut walk = LearnedWalk { env, learned, by, next: 0, broken: false };
    let (value, slope) = walk.number(expr)?;
    let value = value.real()?;
    // Derivatives at a border (of `x^0.5` at 0) are no numbers.
    if slope.is_finite() { Ok(Slope { value, slope }) } else { Err(EvalError::TooLarge) }
}

/// The value of an expression, true or false or a number, whose numbers that are read `learned(use, indices)` gives. Comparisons with what
/// is no number are those of floating point: only `!=` holds.
///
/// # Errors
/// As for [`slope`].
pub fn reading(expr: &Expr, env: &Env, learned: &mut Lookup<'_>) -> Result<ScalarValue, EvalError> {
    let mut walk = LearnedWalk { env, learned, by: usize::MAX, next: 0, broken: false };
    walk.number(expr).map(|(value, _)| value)
}

struct LearnedWalk<'a, 'l> {
    env: &'a Env,
    learned: &'a mut Lookup<'l>,
    by: usize,
    /// The use that is met next.
    next: usize,
    /// Whether a number that was read is not finite.
    broken: bool,
}

/// What is made of a learned number that is not finite.
const NOTHING: (ScalarValue, f64) = (ScalarValue::Float(f64::NAN), 0.0);

/// Whether an operand was made of such a number: all others are finite.
fn broken(operands: &[ScalarValue]) -> bool {
    operands.iter().any(|x| matches!(x, ScalarValue::Float(x) if x.is_nan()))
}

impl LearnedWalk<'_, '_> {
    /// What a use reads, and whether it is the one by which is derived.
    fn read(&mut self, indices: &[Expr]) -> Result<(ScalarValue, f64), EvalError> {
        let here = self.next;
        self.next += 1;
        let value = (self.learned)(here, indices)?;
        let value = if value.is_finite() { value } else { f64::NAN };
        self.broken |= value.is_nan();
        Ok((ScalarValue::Float(value), if here == self.by { 1.0 } else { 0.0 }))
    }

    fn number(&mut self, expr: &Expr) -> Result<(ScalarValue, f64), EvalError> {
        match expr {
            Expr::Learn(_, indices) | Expr::Read(_, indices) => self.read(indices),
            Expr::Score => self.read(&[]),
            Expr::Neg(x) => {
                let (x, dx) = self.number(x)?;
                if broken(&[x]) {
                    return Ok(NOTHING);
                }
                Ok((binary(BinaryOp::Sub, ScalarValue::Int(0), x)?, -dx))
            }
            Expr::Not(x) => Ok((ScalarValue::Bool(!self.number(x)?.0.truth()?), 0.0)),
            Expr::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                let first = self.number(a)?.0.truth()?;
                if first == (*op == BinaryOp::Or) {
                    // What is not worked out has uses all the same.
                    self.next += uses(b);
                    return Ok((ScalarValue::Bool(first), 0.0));
                }
                Ok((ScalarValue::Bool(self.number(b)?.0.truth()?), 0.0))
            }
            Expr::Binary(op, a, b) if op.is_boolean() => {
                let (a, b) = (self.number(a)?.0, self.number(b)?.0);
                Ok((compare_any(*op, a, b)?, 0.0))
            }
            Expr::Binary(op, a, b) => {
                let (a, b) = (self.number(a)?, self.number(b)?);
                if broken(&[a.0, b.0]) {
                    return Ok(NOTHING);
                }
                let value = binary(*op, a.0, b.0)?;
                Ok((value, operator(*op, a, b, value)?))
            }
            Expr::Call(func, args) => match args.as_slice() {
                [x] => {
                    let (x, dx) = self.number(x)?;
                    if broken(&[x]) && *func != Func::Floor {
                        return Ok(NOTHING);
                    }
                    let value = call_one(*func, x)?;
                    let slope = if dx != 0.0 { dx * func.slope(x.real()?, value.real()?) } else { 0.0 };
                    Ok((value, slope))
                }
                [a, b] => {
                    let (a, b) = (self.number(a)?, self.number(b)?);
                    if broken(&[a.0, b.0]) {
                        return Ok(NOTHING);
                    }
                    let value = call(*func, a.0, b.0)?;
                    let slope = if *func == Func::Log {
                        0.0
                    } else if value.real()? == a.0.real()? {
                        a.1
                    } else {
                        b.1
                    };
                    Ok((value, slope))
                }
                [c, a, b] => {
                    let before = std::mem::take(&mut self.broken);
                    let holds = self.number(c)?.0.truth()?;
                    // Nothing is chosen by what is no number.
                    let broken = self.broken;
                    self.broken |= before;
                    if broken {
                        self.next += uses(a) + uses(b);
                        return Ok(NOTHING);
                    }
                    let (value, slope) = if holds {
                        let found = self.number(a)?;
                        self.next += uses(b);
                        found
                    } else {
                        self.next += uses(a);
                        self.number(b)?
                    };
                    Ok((chosen(value, [a, b]), slope))
                }
                _ => Err(EvalError::WrongKind),
            },
            other => Ok((eval(other, self.env)?, 0.0)),
        }
    }
}

/// The derivative of `a op b`, which is `value`. Operands that do not change add nothing, so that no term like `0 log 0` arises.
fn operator(
    op: BinaryOp,
    (a, da): (ScalarValue, f64),
    (b, db): (ScalarValue, f64),
    value: ScalarValue,
) -> Result<f64, EvalError> {
    if (da == 0.0 && db == 0.0) || op.is_boolean() {
        return Ok(0.0);
    }
    let (a, b, value) = (a.real()?, b.real()?, value.real()?);
    Ok(match op {
        BinaryOp::Add => da + db,
        BinaryOp::Sub => da - db,
        BinaryOp::Mul => da * b + a * db,
        BinaryOp::Div => (da - value * db) / b,
        BinaryOp::Rem => da - (a / b).floor() * db,
        BinaryOp::Pow => {
            let base = if da == 0.0 { 0.0 } else { b * a.powf(b - 1.0) * da };
            // A power of 0 stays what it is.
            let exponent = if db == 0.0 || a <= 0.0 { 0.0 } else { value * a.ln() * db };
            base + exponent
        }
        _ => 0.0,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Var;
    use super::*;

    fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
        Expr::Binary(op, Box::new(a), Box::new(b))
    }

    /// `-learn[head] * log(1 + max(learn[head], 0.01) * (i - j)) + (i - j)^learn[head]`
    fn example() -> Expr {
        let table = || Expr::Learn(String::new(), vec![Expr::Var(Var::Head)]);
        let distance = || binary(BinaryOp::Sub, Expr::Var(Var::I), Expr::Var(Var::J));
        let clamped = Expr::Call(Func::Max, vec![table(), Expr::Float(0.01)]);
        let inner = binary(BinaryOp::Add, Expr::Int(1), binary(BinaryOp::Mul, clamped, distance()));
        let log = Expr::Call(Func::Ln, vec![inner]);
        let first = binary(BinaryOp::Mul, Expr::Neg(Box::new(table())), log);
        binary(BinaryOp::Add, first, binary(BinaryOp::Pow, distance(), table()))
    }

    #[test]
    fn slopes_are_differences() {
        let expr = example();
        let env = Env { i: 5, j: 2, head: 1, ..Env::default() };
        let start = [0.7, 0.3, 1.2];
        let value = |numbers: [f64; 3], by| {
            let mut learned = |table: usize, _: &[Expr]| Ok(numbers[table]);
            slope(&expr, &env, &mut learned, by).expect("it has a value")
        };
        assert_eq!(tables(&expr).names, ["", "", ""]);
        for by in 0..3 {
            let (mut up, mut down) = (start, start);
            up[by] += 1e-6;
            down[by] -= 1e-6;
            let difference = (value(up, 9).value - value(down, 9).value) / 2e-6;
            let found = value(start, by).slope;
            assert!((difference - found).abs() < 1e-6, "{by}: {difference} and {found}");
        }
    }

    #[test]
    fn tables_of_one_name_are_one() {
        let named = |name: &str| Expr::Learn(name.to_owned(), vec![Expr::Var(Var::Head)]);
        let expr = binary(
            BinaryOp::Add,
            binary(BinaryOp::Mul, named("a"), named("b")),
            binary(BinaryOp::Sub, named(""), named("a")),
        );
        let Uses { names, uses, values } = tables(&expr);
        assert_eq!((names, values.len()), (vec!["a", "b", ""], 0));
        assert_eq!(uses.iter().map(|(from, _)| *from).collect::<Vec<_>>(), [0, 1, 2, 0].map(ReadFrom::Table));
    }

    #[test]
    fn indices_must_lie_in_the_table() {
        let indices = [Expr::Var(Var::Head), Expr::Var(Var::I)];
        let at = |head, i| flat(&indices, &[2, 3], &Env { head, i, ..Env::default() });
        assert_eq!(at(1, 2), Ok(5));
        assert_eq!(at(2, 0), Err(EvalError::OutsideTable));
        assert_eq!(at(0, -1), Err(EvalError::OutsideTable));
    }
}
