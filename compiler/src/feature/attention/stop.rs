//! Where gradients stop: pairs of query and key from which none goes back into what keys and values are made of.

use crate::expr::Expr;
use crate::ir::attribute::Attrs;
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::lower::Lower;
use crate::schema::{Default, FieldKind, StatementField, of_kind};
use crate::spec::Block;

/// Absent in all specs that do not write it: gradients of all pairs.
pub(super) const STOP: StatementField = of_kind(
    "stop",
    FieldKind::Mask,
    Default::Absent,
    "pairs of a query `i` and a key `j` from which no gradient goes back into what keys and values are made of, as `i - j > i % 64`; their \
     maps learn from all pairs (Transformer-XL); no pair if left out",
);

/// The same where keys and values are given.
pub(super) const STOP_GIVEN: StatementField = of_kind(
    "stop",
    FieldKind::Mask,
    Default::Absent,
    "pairs of a query `i` and a key `j` from which no gradient goes back into keys and values; no pair if left out",
);

/// The pairs.
pub(super) fn rule(block: &Block) -> Option<Expr> {
    block.expr("stop").cloned().or_else(|| match block.word("stop")? {
        "past" => Some(Expr::past()),
        _ => Some(Expr::Bool(true)),
    })
}

/// The values as no gradient goes back through them, where gradients stop.
pub(super) fn detached<const N: usize>(
    l: &mut Lower<'_>,
    block: &Block,
    mut values: [Value; N],
) -> Result<Option<[Value; N]>, InvalidNode> {
    if rule(block).is_none() {
        return Ok(None);
    }
    for value in &mut values {
        *value = l.one(Op::Detach, &[*value], Attrs::new())?;
    }
    Ok(Some(values))
}
