//! A refuter of conditions over integers: case distinctions, then Fourier-Motzkin elimination on linear inequalities.
//!
//! Terms that are not linear (`2^step`, products of variables) are unknowns of their own, about which only little is known:
//! quotients and remainders by a positive number, `min` and `max`, and powers of a positive number. So a refutation is one, and what is not
//! refuted may still be impossible.

use std::collections::BTreeMap;

use crate::expr::{BinaryOp, Expr, Func, Var};

/// `sum of factor * unknown + constant`; as a fact, that it is at most 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct LinearForm {
    terms: BTreeMap<usize, i128>,
    constant: i128,
}

/// The most facts that elimination may make: beyond, nothing is refuted.
const FACTS: usize = 300;

/// What is known, and how much work may still be done.
pub(super) struct Refuter {
    facts: Vec<LinearForm>,
    /// Terms that are unknowns, behind the variables.
    opaque: Vec<Expr>,
    budget: usize,
}

/// A condition that shall hold, or shall not.
type SignedCondition<'e> = (&'e Expr, bool);

impl LinearForm {
    fn constant(constant: i128) -> Self {
        Self { terms: BTreeMap::new(), constant }
    }

    fn unknown(n: usize) -> Self {
        Self { terms: BTreeMap::from([(n, 1)]), constant: 0 }
    }

    /// `self + by * other`; `None` where numbers grow too large.
    fn plus(&self, other: &Self, by: i128) -> Option<Self> {
        let mut sum = self.clone();
        sum.constant = sum.constant.checked_add(other.constant.checked_mul(by)?)?;
        for (n, factor) in &other.terms {
            let entry = sum.terms.entry(*n).or_default();
            *entry = entry.checked_add(factor.checked_mul(by)?)?;
        }
        sum.terms.retain(|_, factor| *factor != 0);
        Some(sum)
    }

    fn times(&self, by: i128) -> Option<Self> {
        Self::constant(0).plus(self, by)
    }

    fn offset(mut self, by: i128) -> Option<Self> {
        self.constant = self.constant.checked_add(by)?;
        Some(self)
    }

    /// The same fact with the smallest factors: unknowns are integers, so that the constant rounds up.
    fn tightened(mut self) -> Self {
        let divisor = self.terms.values().fold(0, |d, factor| gcd(d, factor.abs()));
        if divisor > 1 {
            self.terms.values_mut().for_each(|factor| *factor /= divisor);
            self.constant = self.constant.div_euclid(divisor) + i128::from(self.constant.rem_euclid(divisor) != 0);
        }
        self
    }
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn place(var: Var) -> usize {
    Var::ALL.iter().position(|v| *v == var).unwrap_or(0)
}

impl Refuter {
    /// Nothing is known; so many cases may be tried.
    pub(super) fn new(budget: usize) -> Self {
        Self { facts: vec![], opaque: vec![], budget }
    }

    /// `var >= bound`.
    pub(super) fn at_least(&mut self, var: Var, bound: i64) {
        self.facts.push(LinearForm { terms: BTreeMap::from([(place(var), -1)]), constant: bound.into() });
    }

    /// `var <= bound`.
    pub(super) fn at_most(&mut self, var: Var, bound: i64) {
        self.facts.push(LinearForm { terms: BTreeMap::from([(place(var), 1)]), constant: -i128::from(bound) });
    }

    /// `a < b`.
    pub(super) fn less(&mut self, a: Var, b: Var) {
        self.facts.push(LinearForm { terms: BTreeMap::from([(place(a), 1), (place(b), -1)]), constant: 1 });
    }

    /// Whether the condition is never true where the facts hold.
    pub(super) fn refutes(&mut self, condition: &Expr) -> bool {
        self.impossible(vec![(condition, true)])
    }

    /// Whether the facts and all claims exclude each other. Facts are as before when it returns.
    fn impossible(&mut self, mut claims: Vec<SignedCondition<'_>>) -> bool {
        let known = self.facts.len();
        let refuted = loop {
            let Some((expr, holds)) = claims.pop() else { break infeasible(&self.facts) };
            match (expr, holds) {
                (Expr::Bool(value), _) if *value != holds => break true,
                (Expr::Not(x), _) => claims.push((x, !holds)),
                (Expr::Binary(BinaryOp::And, a, b), true) | (Expr::Binary(BinaryOp::Or, a, b), false) => {
                    claims.extend([(&**a, holds), (&**b, holds)]);
                }
                (Expr::Binary(BinaryOp::And, a, b), false) | (Expr::Binary(BinaryOp::Or, a, b), true) => {
                    break self.either(&claims, &[&[(a, holds)], &[(b, holds)]]);
                }
                (Expr::Binary(op @ (BinaryOp::Eq | BinaryOp::Ne), a, b), _) if is_condition(a) => {
                    let same = (*op == BinaryOp::Eq) == holds;
                    break self.either(&claims, &[&[(a, true), (b, same)], &[(a, false), (b, !same)]]);
                }
                (Expr::Binary(op, a, b), _) => {
                    if let Some((c, first, second)) = expr.split_choice() {
                        break self
                            .either(&claims, &[&[(&c, true), (&first, holds)], &[(&c, false), (&second, holds)]]);
                    }
                    // A comparison that can't be made linear says nothing.
                    let Some(cases) = self.comparison(*op, a, b, holds) else { continue };
                    match cases.len() {
                        1 => self.facts.extend(cases.into_iter().flatten()),
                        _ => break self.any_case(&claims, cases),
                    }
                }
                _ => {}
            }
        };
        self.facts.truncate(known);
        refuted
    }

    /// Whether the claims exclude each of the sets of further claims.
    fn either(&mut self, claims: &[SignedCondition<'_>], sets: &[&[SignedCondition<'_>]]) -> bool {
        sets.iter().all(|set| self.spend() && self.impossible([claims, set].concat()))
    }

    /// Whether the claims exclude each of the sets of facts.
    fn any_case(&mut self, claims: &[SignedCondition<'_>], cases: Vec<Vec<LinearForm>>) -> bool {
        cases.into_iter().all(|case| {
            let known = self.facts.len();
            self.facts.extend(case);
            let refuted = self.spend() && self.impossible(claims.to_vec());
            self.facts.truncate(known);
            refuted
        })
    }

    fn spend(&mut self) -> bool {
        self.budget = self.budget.saturating_sub(1);
        self.budget > 0
    }

    /// The facts in one of which a comparison holds (or not); `None` for what is no comparison of linear terms.
    fn comparison(&mut self, op: BinaryOp, a: &Expr, b: &Expr, holds: bool) -> Option<Vec<Vec<LinearForm>>> {
        let difference = self.linear(a)?.plus(&self.linear(b)?, -1)?;
        let at_most = || Some(difference.clone());
        let below = || difference.clone().offset(1);
        let at_least = || difference.times(-1);
        let above = || difference.times(-1)?.offset(1);
        Some(match (op, holds) {
            (BinaryOp::Lt, true) | (BinaryOp::Ge, false) => vec![vec![below()?]],
            (BinaryOp::Le, true) | (BinaryOp::Gt, false) => vec![vec![at_most()?]],
            (BinaryOp::Gt, true) | (BinaryOp::Le, false) => vec![vec![above()?]],
            (BinaryOp::Ge, true) | (BinaryOp::Lt, false) => vec![vec![at_least()?]],
            (BinaryOp::Eq, true) | (BinaryOp::Ne, false) => vec![vec![at_most()?, at_least()?]],
            (BinaryOp::Ne, true) | (BinaryOp::Eq, false) => vec![vec![below()?], vec![above()?]],
            _ => return None,
        })
    }

    /// An integer expression as a linear one; `None` for reals, and where numbers grow too large.
    fn linear(&mut self, expr: &Expr) -> Option<LinearForm> {
        match expr {
            Expr::Int(v) => Some(LinearForm::constant((*v).into())),
            Expr::Var(var) => Some(LinearForm::unknown(place(*var))),
            Expr::Neg(x) => self.linear(x)?.times(-1),
            Expr::Binary(BinaryOp::Add, a, b) => self.linear(a)?.plus(&self.linear(b)?, 1),
            Expr::Binary(BinaryOp::Sub, a, b) => self.linear(a)?.plus(&self.linear(b)?, -1),
            Expr::Binary(BinaryOp::Mul, a, b) => {
                let (x, y) = (self.linear(a)?, self.linear(b)?);
                match (x.terms.is_empty(), y.terms.is_empty()) {
                    (true, _) => y.times(x.constant),
                    (_, true) => x.times(y.constant),
                    _ => self.unknown(expr, |_| Some(vec![])),
                }
            }
            Expr::Binary(BinaryOp::Div, a, b) => self.divided(expr, a, b, false),
            Expr::Binary(BinaryOp::Rem, a, b) => self.divided(expr, a, b, true),
            Expr::Binary(BinaryOp::Pow, base, exponent) => {
                // Both must be integers for the power to be one.
                let base = self.linear(base)?;
                self.linear(exponent)?;
                let positive = base.terms.is_empty() && base.constant > 0;
                self.unknown(expr, |me| if positive { Some(vec![me.times(-1)?.offset(1)?]) } else { Some(vec![]) })
            }
            Expr::Call(Func::Ln | Func::Floor | Func::Exp | Func::Sqrt | Func::Tanh | Func::Sigmoid, _) => None,
            Expr::Call(func @ (Func::Min | Func::Max), args) => {
                let sign = if *func == Func::Min { 1 } else { -1 };
                let bounds = args.iter().map(|arg| self.linear(arg)).collect::<Option<Vec<_>>>()?;
                // `min` is at most, `max` at least each of its arguments.
                self.unknown(expr, |me| {
                    bounds.iter().map(|bound| me.plus(bound, -1)?.times(sign)).collect::<Option<_>>()
                })
            }
            Expr::Call(Func::Log, _) => self.unknown(expr, |me| Some(vec![me.times(-1)?])),
            _ => None,
        }
    }

    /// `floor(a / b)` and `a - b floor(a / b)`: known between bounds where `b` is a positive number.
    fn divided(&mut self, expr: &Expr, a: &Expr, b: &Expr, rest: bool) -> Option<LinearForm> {
        let (x, by) = (self.linear(a)?, self.linear(b)?);
        if !by.terms.is_empty() || by.constant <= 0 {
            return self.unknown(expr, |_| Some(vec![]));
        }
        let whole = Expr::Binary(BinaryOp::Div, Box::new(a.clone()), Box::new(b.clone()));
        let quotient = self.unknown(&whole, |me| {
            let left = x.plus(me, -by.constant)?;
            // 0 <= x - by q <= by - 1
            Some(vec![left.times(-1)?, left.offset(1 - by.constant)?])
        })?;
        if rest { x.plus(&quotient, -by.constant) } else { Some(quotient) }
    }

    /// The unknown that stands for a term, with what is known about it.
    fn unknown(
        &mut self,
        term: &Expr,
        facts: impl FnOnce(&LinearForm) -> Option<Vec<LinearForm>>,
    ) -> Option<LinearForm> {
        let n = self.opaque.iter().position(|known| known == term).unwrap_or_else(|| {
            self.opaque.push(term.clone());
            self.opaque.len() - 1
        });
        let me = LinearForm::unknown(Var::ALL.len() + n);
        let facts = facts(&me)?;
        // Facts are forgotten at the end of a case, and so are told again when the term comes back.
        self.facts.extend(facts.into_iter().filter(|fact| !self.facts.contains(fact)).collect::<Vec<_>>());
        Some(me)
    }
}

/// Whether the expression is true or false, and no number.
fn is_condition(expr: &Expr) -> bool {
    match expr {
        Expr::Bool(_) | Expr::Not(_) => true,
        Expr::Binary(op, ..) => op.is_boolean(),
        _ => false,
    }
}

/// Whether no integers satisfy all facts: eliminates one unknown after the other.
fn infeasible(facts: &[LinearForm]) -> bool {
    let mut facts: Vec<LinearForm> = facts.iter().cloned().map(LinearForm::tightened).collect();
    loop {
        facts.sort();
        facts.dedup();
        if facts.iter().any(|fact| fact.terms.is_empty() && fact.constant > 0) {
            return true;
        }
        facts.retain(|fact| !fact.terms.is_empty());
        let Some(next) = cheapest(&facts) else { return false };
        let Some(fewer) = eliminated(&facts, next) else { return false };
        facts = fewer;
    }
}

/// The unknown whose elimination makes the fewest facts.
fn cheapest(facts: &[LinearForm]) -> Option<usize> {
    let mut counts: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    for (n, factor) in facts.iter().flat_map(|fact| &fact.terms) {
        let count = counts.entry(*n).or_default();
        if *factor > 0 { count.0 += 1 } else { count.1 += 1 }
    }
    counts.into_iter().min_by_key(|(_, (above, below))| above * below).map(|(n, _)| n)
}

/// What the facts say about the other unknowns; `None` where that gets too long or too large.
fn eliminated(facts: &[LinearForm], n: usize) -> Option<Vec<LinearForm>> {
    let factor = |fact: &LinearForm| fact.terms.get(&n).copied().unwrap_or(0);
    let mut kept: Vec<LinearForm> = facts.iter().filter(|fact| factor(fact) == 0).cloned().collect();
    for upper in facts.iter().filter(|fact| factor(fact) > 0) {
        for lower in facts.iter().filter(|fact| factor(fact) < 0) {
            let sum = upper.times(-factor(lower))?.plus(lower, factor(upper))?;
            kept.push(sum.tightened());
            if kept.len() > FACTS {
                return None;
            }
        }
    }
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::{Env, ScalarValue, eval};
    use crate::ir::attr;

    fn of(condition: &str) -> Expr {
        Expr::try_from(&attr::parse(condition).expect("an attribute")).expect("a condition")
    }

    /// With `i < j`, and nothing below 0.
    fn refutes(condition: &str, budget: usize) -> bool {
        let mut refuter = Refuter::new(budget);
        Var::ALL.into_iter().for_each(|var| refuter.at_least(var, 0));
        refuter.less(Var::I, Var::J);
        refuter.refutes(&of(condition))
    }

    /// Whether it holds for some small numbers.
    fn holds(condition: &str) -> bool {
        let expr = of(condition);
        let pairs = (0..6).flat_map(|i| (i + 1..7).map(move |j| (i, j)));
        let all = pairs.flat_map(|(i, j)| (0..3).flat_map(move |step| (0..3).map(move |head| (i, j, step, head))));
        let mut all = all.map(|(i, j, step, head)| Env { i, j, step, head, length: 7, given: None });
        all.any(|env| eval(&expr, &env) == Ok(ScalarValue::Bool(true)))
    }

    #[test]
    fn what_never_holds_is_refuted() {
        for condition in [
            "false",
            "gt(i, j)",
            "not(le(i, j))",
            "ge(i, j)",
            "not(lt(i, j))",
            "eq(i, j)",
            "not(ne(i, j))",
            "ne(sub(i, i), 0)",
            "not(eq(i, add(i, 0)))",
            "lt(sub(j, i), 1)",
            "gt(neg(j), neg(i))",
            "lt(mul(sub(j, i), 2), 2)",
            "lt(mul(2, sub(j, i)), 2)",
            "lt(div(add(sub(j, i), 3), 4), 1)",
            "gt(rem(j, 4), 3)",
            "lt(rem(j, 4), 0)",
            "lt(pow(2, step), 1)",
            "eq(mul(2, i), add(mul(2, j), 1))",
            "eq(mul(6, i), add(mul(4, j), 1))",
            "gt(min(i, j), i)",
            "lt(max(i, j), j)",
            "lt(log(add(j, 1), 2), 0)",
            "eq(le(j, i), true)",
            "ne(gt(j, i), true)",
            "and(true, lt(j, i))",
            "and(lt(step, head), lt(head, step))",
            "and(or(lt(j, i), lt(step, head)), lt(head, step))",
            "or(gt(i, j), eq(j, i))",
        ] {
            assert!(refutes(condition, 2000), "{condition}");
            assert!(!holds(condition), "{condition}");
        }
    }

    #[test]
    fn what_may_hold_is_not_refuted() {
        for condition in [
            "true",
            "eq(le(j, i), false)",
            "eq(gt(j, i), true)",
            "ne(le(j, i), true)",
            "ne(j, add(i, 1))",
            "gt(j, add(i, 1))",
            "lt(neg(j), neg(i))",
            "lt(pow(0, add(step, 1)), 1)",
            "lt(pow(sub(1, i), add(step, 1)), 1)",
            "lt(div(sub(j, i), 4), 1)",
            "eq(rem(j, 4), 3)",
            "lt(mul(i, j), 1)",
            "eq(mul(6, i), sub(mul(4, j), 2))",
            "eq(min(i, j), i)",
            "or(gt(i, j), eq(head, step))",
            "and(or(lt(j, i), lt(step, head)), le(step, head))",
        ] {
            assert!(holds(condition), "{condition}");
            assert!(!refutes(condition, 2000), "{condition}");
        }
    }

    #[test]
    fn nothing_is_refuted_behind_the_budget() {
        assert!(refutes("or(gt(i, j), eq(j, i))", 3));
        assert!(!refutes("or(gt(i, j), eq(j, i))", 2));
    }
}
