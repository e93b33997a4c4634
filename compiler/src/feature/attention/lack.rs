//! Pairs of a query and a key that a mask shows and for which a bias has no number.

use crate::expr::{
    BiasFacts, BinaryOp, Env, EvalError, Expr, LARGEST_BIAS, ScalarValue, Var, eval, reading, sizes, tables,
};
use crate::ir::scalar::ExprScalar;

/// The context in which a bias is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct BiasContext<'e> {
    /// The mask; none where every key is seen.
    pub(super) mask: Option<&'e Expr>,
    /// Number of heads.
    pub(super) heads: usize,
    /// Queries and keys of the rows that are tried.
    pub(super) sizes: [i64; 2],
    /// Number of steps of the recurrence around; none where the spec leaves it open.
    pub(super) depth: Option<&'e Expr>,
}

/// A pair without a number.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lack {
    /// Where.
    pub(super) at: Env,
    /// The innermost part without a value.
    pub(super) part: Expr,
    /// Why it has none.
    pub(super) why: EvalError,
    /// The learned number that leads there, where tables are read.
    pub(super) learned: Option<f64>,
}

/// So many steps of a recurrence are tried where their number is open, or depends on the row.
const OPEN: i64 = 2;
/// The most steps that are tried.
const STEPS: i64 = 8;
/// The longest row of all that are tried but for one.
const SHORT: i64 = 8;
/// So many heads are tried.
const HEADS: usize = 8;
/// Learned numbers, and those of values, that are tried: the same wherever one is read.
const LEARNED: [f64; 4] = [0.0, 1.0, -1.0, 0.5];

/// A pair of a short row that the mask shows and for which the bias has no number, if there is one. Nothing is tried where the ranges of
/// the parts show that there is none.
pub(super) fn lack(bias: &Expr, around: &BiasContext<'_>) -> Option<Lack> {
    let facts = BiasFacts::of_rows(around.heads, around.mask);
    let sizes = sizes(bias, &facts).ok()?;
    let uses: Vec<_> = tables(bias).uses.iter().map(|(from, _)| *from).collect();
    if ExprScalar::new(bias, &uses, &sizes, &facts, LARGEST_BIAS).ok()?.is_total {
        return None;
    }
    let uses = |var| bias.uses(var) || around.mask.is_some_and(|mask| mask.uses(var));
    let [queries, keys] = around.sizes;
    let lengths = (1..=queries).filter(|length| *length == queries || (uses(Var::Length) && *length <= SHORT));
    let heads = if uses(Var::Head) { around.heads.min(HEADS) as i64 } else { 1 };
    let steps = |length: i64| match uses(Var::Step) {
        true => around.depth.map_or(OPEN, |depth| steps(depth, length)),
        false => 1,
    };
    let is_read = |expr: &Expr| !tables(expr).uses.is_empty();
    let learned: Vec<Option<f64>> = match is_read(bias) || around.mask.is_some_and(is_read) {
        false => vec![None],
        true => LEARNED.map(Some).to_vec(),
    };
    let places = lengths.flat_map(|length| (0..length).map(move |i| (length, i)));
    places.into_iter().find_map(|(length, i)| {
        let keys = if queries == keys { length } else { keys };
        let steps = steps(length);
        let pairs =
            (0..keys).flat_map(|j| (0..steps).flat_map(move |step| (0..heads).map(move |head| (j, step, head))));
        let envs = pairs.map(|(j, step, head)| Env { i, j, step, length, head, given: None });
        let shown =
            |at: &Env, x: Option<f64>| around.mask.is_none_or(|mask| value(mask, at, x) == Ok(ScalarValue::Bool(true)));
        let tried = envs.flat_map(|at| learned.iter().map(move |x| (at, *x)));
        let mut lacking = tried.filter(|(at, x)| shown(at, *x)).filter_map(|(at, x)| found(bias, at, x));
        lacking.next()
    })
}

/// The steps that are tried in a row of a length.
fn steps(depth: &Expr, length: i64) -> i64 {
    match (depth, eval(depth, &Env { length, ..Env::default() })) {
        (Expr::Int(steps), _) => (*steps).clamp(1, STEPS),
        (_, Ok(ScalarValue::Int(steps))) => steps.clamp(OPEN, STEPS),
        _ => OPEN,
    }
}

/// What a bias lacks at a place.
fn found(bias: &Expr, at: Env, learned: Option<f64>) -> Option<Lack> {
    let lack = |part: &Expr, why| Some(Lack { at, part: part.clone(), why, learned });
    match number(bias, &at, learned) {
        Ok(value) if value.abs() <= LARGEST_BIAS => None,
        Ok(_) => lack(bias, EvalError::TooLarge),
        Err(_) => {
            let (part, why) = innermost(bias, &at, learned)?;
            lack(part, why)
        }
    }
}

/// The number of an expression whose numbers that are read are all the same.
fn number(expr: &Expr, at: &Env, learned: Option<f64>) -> Result<f64, EvalError> {
    value(expr, at, learned)?.real()
}

fn value(expr: &Expr, at: &Env, learned: Option<f64>) -> Result<ScalarValue, EvalError> {
    let mut read = |_: usize, indices: &[Expr]| {
        indices.iter().try_for_each(|index| eval(index, at).map(|_| ()))?;
        Ok(learned.unwrap_or(0.0))
    };
    reading(expr, at, &mut read)
}

/// The innermost part without a value, and why it has none.
fn innermost<'e>(expr: &'e Expr, at: &Env, learned: Option<f64>) -> Option<(&'e Expr, EvalError)> {
    let own = || value(expr, at, learned).err();
    // Truth values stop at the first part that decides.
    if let Expr::Binary(BinaryOp::And | BinaryOp::Or, a, b) = expr {
        return innermost(a, at, learned).or_else(|| own().and_then(|_| innermost(b, at, learned)));
    }
    let inside = expr.operands().into_iter().find_map(|x| innermost(x, at, learned));
    inside.or_else(|| own().map(|why| (expr, why)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::attr;

    fn of(bias: &str, mask: &str) -> Option<(String, i64, i64, EvalError)> {
        let [bias, mask] =
            [bias, mask].map(|x| Expr::try_from(&attr::parse(x).expect("an attribute")).expect("an expression"));
        let found = lack(&bias, &BiasContext { mask: Some(&mask), heads: 2, sizes: [16, 16], depth: None })?;
        Some((found.part.to_string(), found.at.i, found.at.j, found.why))
    }

    #[test]
    fn shown_pairs_without_a_number_are_found() {
        let all = "true";
        for (bias, mask, part, i, j, why) in [
            ("neg(pow(sub(i, j), 0.5))", all, "(i - j)^0.5", 0, 1, EvalError::NoRoot),
            ("log(sub(i, j))", "le(j, i)", "log(i - j)", 0, 0, EvalError::BadLogarithm),
            ("div(1.0, head)", "le(j, i)", "1.0 / head", 0, 0, EvalError::DivideByZero),
            ("rem(i, sub(step, 1))", "eq(i, 5)", "i % (step - 1)", 5, 0, EvalError::DivideByZero),
            ("log(learn(head))", all, "log(learn[head])", 0, 0, EvalError::BadLogarithm),
            ("pow(10.0, mul(3, add(i, j)))", all, "10.0^(3 * (i + j))", 0, 0, EvalError::TooLarge),
        ] {
            let found = of(bias, mask);
            let (found, places, reason) =
                found.map(|(part, i, j, why)| (part, (i, j), why)).unwrap_or_else(|| panic!("{bias}"));
            assert_eq!((found.as_str(), reason), (part, why), "{bias}");
            assert!(why == EvalError::TooLarge || places == (i, j), "{bias}: {places:?}");
        }
    }

    #[test]
    fn guarded_biases_lack_nothing() {
        for (bias, mask) in [
            ("neg(pow(sub(i, j), 0.5))", "le(j, i)"),
            ("log(sub(i, j))", "lt(j, i)"),
            ("log(max(sub(i, j), 1))", "true"),
            ("log(add(1, mul(max(learn(head), 0.01), sub(i, j))))", "le(j, i)"),
            ("div(1.0, add(head, 1))", "true"),
            ("mul(neg(pow(2.0, neg(add(head, 1)))), sub(i, j))", "true"),
            ("pow(2.0, sub(i, j))", "true"),
        ] {
            assert_eq!(of(bias, mask), None, "{bias} where {mask}");
        }
    }
}
