//! Masks that tell the keys of a query by ranges and equalities, which a processor looks up.
//!
//! `f(i) == g(j) and ..` holds for the keys with the `g` that is the `f` of the query. What else the mask says must be a range of keys at
//! the query. A mask with `or` is one of its alternatives, each of them a range, or equalities and a range.

use super::scalar::ExprScalar;
use crate::expr::{BiasFacts, BinaryOp, Env, Expr, Var, reach, simplify};

/// The most alternatives of a join.
pub const ALTERNATIVES: usize = 8;

/// The most equalities of an alternative.
pub const SIDES: usize = 4;

/// A mask as alternatives; a key is seen where one of them holds.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyJoin {
    /// The alternatives, from the first one of the mask on.
    pub alternatives: Vec<KeyAlternative>,
}

/// Equalities of a number of the query and one of the key, and the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyAlternative {
    /// The equalities.
    pub sides: Vec<EqualSides>,
    /// What else must hold.
    pub rest: Expr,
}

/// Two equal numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct EqualSides {
    /// That of the query.
    pub of_query: Expr,
    /// That of the key.
    pub of_key: Expr,
}

/// A place inside of a row, which stands for all.
const INSIDE: Env = Env { i: 5, j: 0, step: 0, length: 9, head: 0, given: None };

impl KeyJoin {
    /// The join of a mask; `None` for a mask that is one range, or has an alternative that neither equalities nor a range tell.
    pub fn new(mask: &Expr) -> Option<Self> {
        let alternatives: Vec<KeyAlternative> =
            alternatives(mask)?.iter().map(|parts| KeyAlternative::new(parts)).collect();
        let tells = match &alternatives[..] {
            [one] => !one.sides.is_empty(),
            all => all.iter().all(|one| is_range(&one.rest)),
        };
        tells.then_some(Self { alternatives })
    }

    /// The joins of a mask: one, or of a mask that differs from head to head one for each.
    pub fn of_heads(mask: &Expr, heads: usize) -> Vec<Option<Self>> {
        match mask.uses(Var::Head) {
            true => (0..heads as i64).map(|head| Self::new(&mask.at_head(head))).collect(),
            false => vec![Self::new(mask)],
        }
    }

    /// Whether keys are sorted for it.
    pub fn sorts(&self) -> bool {
        self.alternatives.iter().any(|one| !one.sides.is_empty())
    }
}

/// The parts of a mask that must hold together, for every alternative; `None` where there are many.
fn alternatives(mask: &Expr) -> Option<Vec<Vec<&Expr>>> {
    let found = match mask {
        Expr::Binary(BinaryOp::Or, a, b) => [alternatives(a)?, alternatives(b)?].concat(),
        Expr::Binary(BinaryOp::And, a, b) => {
            let (a, b) = (alternatives(a)?, alternatives(b)?);
            a.iter().flat_map(|a| b.iter().map(|b| [&a[..], b].concat())).collect()
        }
        _ => vec![vec![mask]],
    };
    (found.len() <= ALTERNATIVES).then_some(found)
}

fn is_range(mask: &Expr) -> bool {
    reach(mask, &INSIDE, usize::MAX).exact
}

impl KeyAlternative {
    fn new(parts: &[&Expr]) -> Self {
        let (mut sides, mut rest) = (vec![], Expr::Bool(true));
        for part in parts {
            match EqualSides::new(part).filter(|_| sides.len() < SIDES) {
                Some(side) => sides.push(side),
                None => rest = Expr::Binary(BinaryOp::And, Box::new(rest), Box::new((*part).clone())),
            }
        }
        Self { sides, rest: simplify(rest) }
    }
}

impl EqualSides {
    fn new(part: &Expr) -> Option<Self> {
        let Expr::Binary(BinaryOp::Eq, a, b) = part else { return None };
        // Only sides of one sort may be equal.
        let is_sorted = ExprScalar::plain(part, &BiasFacts::of_rows(usize::MAX, None)).is_ok();
        let is_of_key = |x: &Expr, other: &Expr| x.uses(Var::J) && !x.uses(Var::I) && !other.uses(Var::J);
        let sides = |query: &Expr, key: &Expr| Some(Self { of_query: query.clone(), of_key: key.clone() });
        match (is_of_key(a, b), is_of_key(b, a)) {
            _ if is_range(part) || !is_sorted || part.uses(Var::Head) => None,
            (true, _) => sides(b, a),
            (_, true) => sides(a, b),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::attr;

    fn parsed(text: &str) -> Expr {
        Expr::try_from(&attr::parse(text).expect("an attribute")).expect("an expression")
    }

    #[test]
    fn what_has_no_equality_of_one_sort_has_no_join() {
        for text in [
            "le(j, i)",
            "or(eq(rem(i, 2), rem(j, 2)), ne(j, i))",
            "or(le(j, i), eq(rem(sub(i, j), 2), 0))",
            "and(le(j, i), lt(sub(i, j), 3))",
            "eq(i, sub(j, 1))",
            "eq(div(i, 4), div(j, 4))",
            "eq(rem(sub(i, j), 2), 0)",
            "eq(le(j, 2), rem(i, 2))",
            "eq(rem(j, 2), head)",
        ] {
            assert!(KeyJoin::new(&parsed(text)).is_none(), "{text}");
        }
        let mask = parsed("eq(rem(j, 2), head)");
        assert!(KeyJoin::of_heads(&mask, 2).iter().all(|join| join.as_ref().is_some_and(KeyJoin::sorts)));
    }
}
