//! How many numbers a `top` chooses of every row, or of every unit.

use rtc_compiler::expr::{Env, EvalError, ScalarValue, eval};
use rtc_compiler::ir::attribute;
use rtc_compiler::ir::graph::Node;
use rtc_compiler::ir::types::Type;

use crate::arena::Arena;
use crate::mask::MaskRule;
use crate::rows::Axis;
use crate::settings::ExecutionFault;
use crate::storage::List;

/// Whether the numbers of a type belong to the positions of rows, each of which has one.
pub fn along_rows(ty: &Type) -> bool {
    ty.dims().len() == 2 && ty.ragged().is_some()
}

/// How many a node chooses of every row of an axis, or one number for all.
pub fn counts(
    rule: Option<&Result<MaskRule, String>>,
    node: &Node,
    axis: Option<&Axis>,
    step: u32,
    arena: &Arena,
) -> Result<List<usize>, ExecutionFault> {
    let rule = rule.map(|rule| rule.as_ref().map_err(|e| ExecutionFault::Batch(e.clone()))).transpose()?;
    let Some(expr) = rule.and_then(|rule| rule.expr.as_ref()) else {
        return Ok(arena.list([node.get(attribute::OF).steps().unwrap_or(1)]));
    };
    let wrong = |why: String| ExecutionFault::Batch(format!("the number of choices {why}"));
    let count = |length: usize| {
        let env = Env { length: length as i64, step: i64::from(step), ..Env::default() };
        match eval(expr, &env).map_err(|e: EvalError| wrong(format!("has no value: {e}")))? {
            ScalarValue::Int(n) => Ok(usize::try_from(n).unwrap_or(0)),
            other => Err(wrong(format!("must be whole, not {other:?}"))),
        }
    };
    let mut all = arena.list([]);
    for row in 0..axis.map_or(1, |axis| axis.origin.len()) {
        all.push(count(axis.map_or(0, |axis| axis.len(row)))?);
    }
    Ok(all)
}
