//! Requirements on a batch: tokens, labels and further values that a model takes.

use rtc_base::batch::{Batch, Given};
use rtc_compiler::ir::types::{Elem, Type};
use rtc_compiler::pipeline::asked::things;
use rtc_compiler::plan::Plan;

use super::MachineArrays;
use super::region::{InputName, given_node};
use super::value::Val;
use crate::rows::Axis;
use crate::settings::ExecutionFault;

/// Whether a batch has the tokens and labels that a plan takes.
pub(crate) fn check_batch(plan: &Plan, batch: &Batch) -> Result<(), ExecutionFault> {
    if batch.rows() == 0 || (0..batch.rows()).any(|r| batch.row(r).is_empty()) {
        return Err(ExecutionFault::Batch(
            "a batch needs at least one row and every row at least one token".to_owned(),
        ));
    }
    check_tokens(plan, &batch.tokens)?;
    check_ids(plan, &batch.given)?;
    known_labels(batch.labels.classes(), plan.classes.unwrap_or(usize::MAX))
}

/// Refuses a label that is none of the classes.
pub fn known_labels(labels: &[u32], classes: usize) -> Result<(), ExecutionFault> {
    match labels.iter().find(|l| **l as usize >= classes) {
        Some(label) => Err(ExecutionFault::Batch(format!("label {label} is outside the {classes} classes"))),
        None => Ok(()),
    }
}

/// What a batch gives under a name, if it has as many numbers as the model takes.
pub fn given_input<A: MachineArrays>(
    inputs: &[(InputName, Val<A>)],
    name: &str,
    expected: usize,
    len: impl FnOnce(&Val<A>) -> usize,
) -> Result<Val<A>, ExecutionFault> {
    let found = inputs.iter().find(|(known, _)| known.text() == name);
    let (_, val) = found.ok_or_else(|| {
        ExecutionFault::Batch(match name {
            "tokens" | "labels" | "weights" => format!("the batch has no `{name}`"),
            _ => format!("the model takes `{name}` from the examples, which have none"),
        })
    })?;
    match len(val) {
        len if len == expected => Ok(val.clone()),
        len => Err(ExecutionFault::Batch(format!("the batch has {len} `{name}`, the model takes {expected}"))),
    }
}

/// Whether the numbers of things that come with the examples are such numbers, and the tables of the model have a row for each.
pub(crate) fn check_ids(plan: &Plan, given: &[Given]) -> Result<(), ExecutionFault> {
    for given in given {
        let Some(ids) = given_node(plan, &given.name).map(|node| node.results[0]) else { continue };
        if plan.graph.ty(ids).elem() != Some(Elem::Index) {
            continue;
        }
        let count = things(&plan.graph, ids) as f64;
        if let Some(id) = given.numbers.iter().find(|id| !(id.fract() == 0.0 && (0.0..count).contains(*id))) {
            let name = &given.name;
            return Err(ExecutionFault::Batch(format!(
                "`{name}` is {id} in an example, and the model knows 0 to {}",
                count - 1.0
            )));
        }
    }
    Ok(())
}

/// Whether a model knows all tokens.
pub(crate) fn check_tokens(plan: &Plan, tokens: &[u32]) -> Result<(), ExecutionFault> {
    let vocab = plan.vocabulary.unwrap_or(usize::MAX);
    match tokens.iter().find(|t| **t as usize >= vocab) {
        Some(token) => Err(ExecutionFault::Batch(format!("token id {token} is outside the vocabulary of {vocab}"))),
        None => Ok(()),
    }
}

/// Refuses rows that have not the number of positions for which they are transposed.
///
/// # Errors
/// One sentence with both numbers, and what to do.
pub fn equally_long(axis: &Axis, count: usize) -> Result<(), ExecutionFault> {
    match (0..axis.offsets.len() - 1).map(|row| axis.len(row)).find(|length| *length != count) {
        Some(length) => Err(ExecutionFault::Batch(format!(
            "a row has {length} positions, and `transpose` takes rows of {count}: give rows of one length, or another `length`"
        ))),
        None => Ok(()),
    }
}

/// Refuses a row that is longer than a table of learned positions.
///
/// # Errors
/// One sentence with both numbers, and what to do.
pub fn too_few_positions(longest: usize, table: &Type) -> Result<(), ExecutionFault> {
    let known = table.dims()[0].fixed().unwrap_or(0);
    if longest <= known {
        return Ok(());
    }
    let cure = "give `embed` more `positions`, or other positions";
    Err(ExecutionFault::Batch(format!(
        "a row has {longest} tokens, and the model has learned {known} positions: {cure}"
    )))
}
