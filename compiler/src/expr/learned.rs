//! Reads of an expression: learned tables, values of positions, and the score.
//!
//! Every `learn[...]` is a table of its own, every `learn_name[...]` reads the table of that name. Tables are counted in the order
//! in which they are read first, and so are values, and the places where either is read, their uses.

use super::{Env, EvalError, Expr, ScalarValue, eval};

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

/// How often an expression reads tables, values, and the number that it changes.
pub(super) fn uses(expr: &Expr) -> usize {
    match expr {
        Expr::Learn(..) | Expr::Read(..) | Expr::Score | Expr::Angle => 1,
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

#[cfg(test)]
mod tests {
    use super::super::{BinaryOp, Var};
    use super::*;

    fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
        Expr::Binary(op, Box::new(a), Box::new(b))
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
