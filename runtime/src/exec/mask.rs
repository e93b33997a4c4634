//! Expressions that the executor evaluates: attention masks, and depths over the length of a row.

use std::collections::BTreeMap;

use rtc_compiler::expr::{Env, Expr, Value, eval};
use rtc_compiler::ir::graph::{Graph, MAIN, NodeId};
use rtc_compiler::ir::types::Attr;

use crate::kernel::attention::MaskRow;

/// The expression of each node that has one, read once; a message where it can't be read.
pub(crate) type Exprs = BTreeMap<NodeId, Result<Expr, String>>;

/// The masks and bounds of a graph that are expressions.
pub(crate) fn exprs(graph: &Graph) -> Exprs {
    let of = |id: NodeId| {
        let attrs = &graph.node(id).attrs;
        let attr = attrs.get("mask").or_else(|| attrs.get("bound"))?;
        let named = matches!(attr.text(), Some("all" | "causal")) || matches!(attr, Attr::Int(_));
        (!named).then(|| (id, Expr::try_from(attr)))
    };
    graph.walk(MAIN).into_iter().filter_map(of).collect()
}

/// Marks the keys that a query sees at a step of the recurrence. An expression that fails to evaluate at a position (a
/// division by zero) hides the key.
pub(crate) fn mark(expr: &Expr, step: i64, at: MaskRow, seen: &mut [bool]) {
    let length = at.queries as i64;
    for (j, flag) in seen.iter_mut().enumerate() {
        let env = Env { i: at.query as i64, j: j as i64, step, length, head: at.head as i64, given: None };
        *flag = eval(expr, &env) == Ok(Value::Bool(true));
    }
}
