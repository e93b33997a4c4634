//! The keys that a mask shows to a query: a proof that it hides later keys, or a later key that it shows.
//!
//! The proof refutes `mask and j > i` for all positions, steps and heads. A mask is true only if its parts have exact values
//! (an overflow or a division by zero hides the key), so that exact integer arithmetic speaks for it.

use super::linear::Refuter;
use crate::expr::{Env, Expr, ScalarValue, Var, eval};
use crate::ir::attribute::Mask;
use crate::ir::types::Attr;

/// What a query at position `i` sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Provably no key behind its own position.
    Past,
    /// Everything: there is no mask.
    All,
    /// At this step, query `i` sees key `j > i`.
    Later {
        /// Step of the recurrence, from 0.
        step: i64,
        /// Position of the query.
        i: i64,
        /// Position of the key.
        j: i64,
    },
    /// Perhaps later keys: neither a proof nor an example was found.
    Unproved,
    /// No later key, but which earlier ones depends on the length.
    Length,
}

/// The number of steps of the surrounding recurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepCount {
    /// Fewer than some number: the last step is one less.
    Below(usize),
    /// Unknown.
    Any,
}

/// Rows of this length are searched for a later key that is seen.
const SEARCHED: i64 = 12;
/// So many steps and heads of them.
const REPEATS: i64 = 4;

impl Sight {
    /// In words that follow the name of the op.
    pub(super) fn describe(self) -> String {
        match self {
            Self::Past => "sees no later key".to_owned(),
            Self::All => "has no mask: every position sees all others".to_owned(),
            Self::Later { step: 0, i, j } => format!("lets position {i} see position {j}"),
            Self::Later { step, i, j } => format!("lets position {i} see position {j} at step {step}"),
            Self::Unproved => "has a mask that does not provably hide later positions".to_owned(),
            Self::Length => "has a mask that depends on the length".to_owned(),
        }
    }
}

/// What the `mask` of an attention with so many heads lets a query see.
pub(super) fn sight(mask: Mask<'_>, heads: usize, steps: StepCount) -> Sight {
    let rule = match mask {
        Mask::All => return Sight::All,
        Mask::Causal => return Sight::Past,
        Mask::Rule(rule) => rule,
    };
    let Ok(expr) = Expr::try_from(rule) else { return Sight::Unproved };
    let heads = i64::try_from(heads).unwrap_or(i64::MAX);
    if !hides_later(&expr, heads, steps) {
        return later(&expr, heads, steps).unwrap_or(Sight::Unproved);
    }
    if expr.uses(Var::Length) { Sight::Length } else { Sight::Past }
}

/// Whether the mask or bias tells how long the row is.
pub(super) fn reads_length(attr: Option<&Attr>) -> bool {
    attr.and_then(|attr| Expr::try_from(attr).ok()).is_some_and(|expr| expr.uses(Var::Length))
}

/// Whether no query sees a later key.
fn hides_later(expr: &Expr, heads: i64, steps: StepCount) -> bool {
    let mut refuter = Refuter::new(2000);
    for var in Var::ALL {
        refuter.at_least(var, 0);
    }
    refuter.less(Var::I, Var::J);
    refuter.less(Var::I, Var::Length);
    refuter.less(Var::J, Var::Length);
    refuter.at_most(Var::Head, heads - 1);
    if let StepCount::Below(steps) = steps {
        refuter.at_most(Var::Step, i64::try_from(steps).unwrap_or(i64::MAX) - 1);
    }
    refuter.refutes(expr)
}

/// A later key that is seen in a short row, for some values, which are the same everywhere.
fn later(expr: &Expr, heads: i64, steps: StepCount) -> Option<Sight> {
    const VALUES: [f64; 3] = [0.0, 1e6, -1e6];
    let of = |value: f64| later_of(&expr.clone().with_lookups(&mut |_| Expr::Float(value)), heads, steps);
    VALUES[..if expr.reads() { VALUES.len() } else { 1 }].iter().find_map(|value| of(*value))
}

fn later_of(expr: &Expr, heads: i64, steps: StepCount) -> Option<Sight> {
    let repeats = |steps: usize| i64::try_from(steps).map_or(REPEATS, |steps| steps.min(REPEATS));
    let steps = if let StepCount::Below(steps) = steps { repeats(steps) } else { REPEATS };
    for step in 0..steps {
        for (i, j) in (0..SEARCHED).flat_map(|i| (i + 1..SEARCHED).map(move |j| (i, j))) {
            let seen = |head| eval(expr, &Env { i, j, step, head, length: SEARCHED, given: None });
            if (0..heads.min(REPEATS)).any(|head| seen(head) == Ok(ScalarValue::Bool(true))) {
                return Some(Sight::Later { step, i, j });
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::attr;

    fn of(mask: &str) -> Sight {
        of_steps(mask, StepCount::Any)
    }

    fn of_steps(mask: &str, steps: StepCount) -> Sight {
        sight(Mask::read(&attr::parse(mask).expect("a mask")), 2, steps)
    }

    #[test]
    fn causal_masks_are_proved() {
        for mask in [
            "causal",
            "le(j, i)",
            "lt(j, i)",
            "ge(sub(i, j), 0)",
            "not(gt(j, i))",
            "not(or(gt(j, i), eq(head, 1)))",
            "eq(i, j)",
            "false",
            "and(le(j, i), eq(rem(sub(i, j), pow(2, step)), 0))",
            "and(and(le(j, i), eq(rem(sub(i, j), pow(2, step)), 0)), lt(div(sub(i, j), pow(2, step)), 2))",
            "or(eq(j, i), and(lt(j, i), eq(head, 0)))",
            "and(le(j, i), eq(read_0(i), read_0(j)))",
            "eq(div(sub(i, j), 4), 0)",
            "eq(max(i, j), i)",
            "le(add(mul(2, j), 1), add(mul(2, i), step))",
            "and(le(j, add(i, step)), le(step, 0))",
            "eq(le(j, i), true)",
            "lt(add(j, length), i)",
        ] {
            let expected = if mask.contains("length") { Sight::Length } else { Sight::Past };
            let steps = if mask.contains("add(mul(2, j)") { StepCount::Below(2) } else { StepCount::Any };
            assert_eq!(of_steps(mask, steps), expected, "{mask}");
        }
    }

    #[test]
    fn leaks_are_shown() {
        for (mask, step, i, j) in [
            ("true", 0, 0, 1),
            ("le(j, add(i, 1))", 0, 0, 1),
            ("ge(j, i)", 0, 0, 1),
            ("le(j, add(i, step))", 1, 0, 1),
            ("or(le(j, i), eq(j, 5))", 0, 0, 5),
            ("not(and(gt(j, i), eq(head, 1)))", 0, 0, 1),
            ("lt(rem(j, 4), 2)", 0, 0, 1),
            ("eq(read_0(i), read_0(j))", 0, 0, 1),
            ("or(le(j, i), gt(read_0(j), 1.5))", 0, 0, 1),
        ] {
            assert_eq!(of(mask), Sight::Later { step, i, j }, "{mask}");
        }
        assert_eq!(of_steps("le(j, add(i, step))", StepCount::Below(1)), Sight::Past);
    }

    #[test]
    fn what_is_not_linear_is_not_accepted() {
        // Causal, but not for a reason of linear arithmetic.
        assert_eq!(of("ge(mul(sub(i, j), sub(i, j)), 9223372036854775807)"), Sight::Unproved);
        assert_eq!(of("gt(j, add(i, 100))"), Sight::Unproved);
        assert_eq!(of("or(le(j, i), and(gt(read_0(j), 1.5), lt(read_0(j), 1.6)))"), Sight::Unproved);
    }
}
