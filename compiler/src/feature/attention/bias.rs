//! Biases of attention: fields, the sizes of their learned tables, and their parameters.

use crate::diag::{Diagnostic, Kind, Problems};
use crate::expr::{BiasContext, BiasFacts, Env, Expr, Lack, ReadFrom, Unbounded, Uses, Var, lack, sizes, tables};
use crate::feature::{Site, says_more};
use crate::ir::attribute::{self, Attrs};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::types::{Attr, Dim};
use crate::lower::{Lower, need};
use crate::schema::{Default, FieldKind, StatementField, Text, of_kind, word};
use crate::source::Span;
use crate::spec::{Block, FieldValue};

/// The expression.
pub(super) const BIAS: StatementField = of_kind(
    "bias",
    FieldKind::Bias,
    Default::Word(Text::Borrowed("none")),
    "number added to the scaled score of query `i` and key `j`; every `learn[...]` in it is a table of learned numbers",
);

/// How the tables start.
pub(super) const BIAS_INIT: StatementField = word(
    "bias_init",
    &["normal", "uniform", "zeros"],
    "normal",
    "how the learned numbers of the bias start: normal with deviation 0.02, uniform between 0 and 1, or 0",
);

/// Reports what is wrong with the bias of a statement.
pub(super) fn check(site: &Site<'_>, problems: &mut Problems) {
    let depth = depth(site);
    let wrong = faults(site.block, depth.as_ref(), &|field| site.place(field));
    wrong.into_iter().for_each(|diagnostic| problems.report(diagnostic));
}

/// What is wrong with the bias of an attention: every index of a learned table must have a bound, and wherever the mask shows a key, the
/// bias must have a number. `depth` is the number of steps around, where it is known, and `place` that of a field.
pub(crate) fn faults(block: &Block, depth: Option<&Expr>, place: &dyn Fn(&str) -> Span) -> Vec<Diagnostic> {
    let learned = block.expr("bias").is_some_and(Expr::is_learned);
    let mut faults = vec![];
    if !learned && says_more(block, "bias_init") && block.fields.contains_key("bias") {
        let message = "`bias_init` has no effect: the bias holds no `learn`";
        let diagnostic = Diagnostic::new(Kind::IdleField, place("bias_init"), message);
        faults.push(diagnostic.help("leave it out, or write a bias with `learn[..]`, as `bias: t5`"));
    }
    let (Some(bias), Some(heads)) = (block.expr("bias"), block.int("heads")) else { return faults };
    faults.extend(several_shapes(bias, place("bias")));
    faults.extend(match table_sizes(block, bias, heads) {
        Ok(_) => lacking(block, bias, (heads, depth), place("bias")),
        Err(Unbounded { index, negative }) => {
            let side = if negative { "lower" } else { "upper" };
            let cure = match negative {
                true => format!("write `max({index}, 0)`, or use a mask that begins with `j <= i and`"),
                false => {
                    format!("write `min({index}, 127)` for a table of 128 numbers, or let the mask say `{index} < 128`")
                }
            };
            let message = format!("the index `{index}` of `learn` has no {side} bound");
            Some(Diagnostic::new(Kind::UnboundedIndex, place("bias"), message).help(cure))
        }
    });
    faults
}

/// Queries and keys of the rows in which a bias is tried.
const TRIED: i64 = 16;

/// Wherever the mask shows a key, the bias must have a number, as far as short rows tell.
fn lacking(block: &Block, bias: &Expr, (heads, depth): (usize, Option<&Expr>), place: Span) -> Option<Diagnostic> {
    let past = past(block);
    let mask = block.expr("mask").or(past.as_ref());
    // A memory has one slot at least.
    let sizes = match &*block.variant {
        "memory" => [TRIED, 1],
        "chunk" => [1, TRIED],
        _ => [TRIED, TRIED],
    };
    let around = BiasContext { mask, heads, sizes, depth };
    let Lack { at, part, why, learned } = lack(bias, &around)?;
    let Env { i, j, .. } = at;
    let mut places = format!("query {i} and key {j}");
    let reads = |var| bias.uses(var) || mask.is_some_and(|mask| mask.uses(var));
    for var in [Var::Head, Var::Step, Var::Length].into_iter().filter(|var| reads(*var)) {
        places += &format!(", {} {}", var.name(), at.get(var));
    }
    if let Some(number) = learned {
        let read = if bias.reads() { "numbers that are read" } else { "learned numbers" };
        places += &format!(", {read} of {number:?}");
    }
    let message = format!("the bias has no number for {places}, and the mask shows that key");
    let cure =
        "hide such keys, as `mask: j <= i` does for later ones, or keep the part in its range, as in `max(i - j, 0)`";
    let label = format!("`{part}`: {why}");
    Some(Diagnostic::new(Kind::OutOfRange, place, message).label(label).help(cure))
}

/// The number of steps of the recurrence whose `step` the bias reads.
fn depth(site: &Site<'_>) -> Option<Expr> {
    let around = site.ancestors.iter().rev().find(|block| ["loop", "recur", "recurse"].contains(&&*block.slot))?;
    let field = match (&*around.slot, &*around.variant) {
        ("loop", _) => "steps",
        ("recur", "depthwise") => "depth",
        _ => return None,
    };
    match &around.fields.get(field)?.value {
        FieldValue::Int(steps) => Some(Expr::Int(*steps)),
        FieldValue::Expr(steps) => Some(steps.clone()),
        _ => None,
    }
}

/// A table that is read with different numbers of indices.
fn several_shapes(bias: &Expr, place: Span) -> Vec<Diagnostic> {
    let Uses { names, uses, .. } = tables(bias);
    let table = |(table, name): (usize, &&str)| {
        let mut counts =
            uses.iter().filter(|(from, _)| *from == ReadFrom::Table(table)).map(|(_, indices)| indices.len());
        let first = counts.next()?;
        let other = counts.find(|count| *count != first)?;
        let message = format!("`learn_{name}` has {first} indices and {other}");
        let diagnostic = Diagnostic::new(Kind::WrongArity, place, message);
        Some(diagnostic.help("a name is one table: give the other one another name"))
    };
    names.iter().enumerate().filter_map(table).collect()
}

/// The mask `past`, where it is that.
fn past(block: &Block) -> Option<Expr> {
    (block.word("mask") == Some("past")).then(Expr::past)
}

/// The sizes of the tables of a bias, by what the mask of the block lets through.
fn table_sizes(block: &Block, bias: &Expr, heads: usize) -> Result<Vec<Vec<usize>>, Unbounded> {
    let past = past(block);
    sizes(bias, &BiasFacts::new(heads, block.expr("mask").or(past.as_ref())))
}

/// Adds the bias of a block to an attention; gives the parameters that are its tables: `bias`, `bias_2`, ..., and `bias_name`
/// for `learn_name`.
pub(super) fn parameters(
    l: &mut Lower<'_>,
    block: &Block,
    (heads, bias): (usize, Option<&Expr>),
    attrs: &mut Attrs,
) -> Result<Vec<Value>, InvalidNode> {
    let Some(bias) = bias else { return Ok(vec![]) };
    attrs.set(attribute::BIAS, &Attr::from(bias));
    let init = match need(block.word("bias_init"), block, "bias_init")? {
        "zeros" => "zeros".into(),
        "uniform" => Attr::call("unit", []),
        _ => Attr::call("normal", [0.02.into()]),
    };
    let sizes = table_sizes(block, bias, heads)
        .map_err(|e| InvalidNode(format!("the index `{}` of `{}` has no bound", e.index, block.title())))?;
    let names = tables(bias).names;
    let named = |n: usize| match (names[n], n) {
        ("", 0) => "bias".to_owned(),
        ("", n) => format!("bias_{}", n + 1),
        (name, _) => format!("bias_{name}"),
    };
    let table = |(n, sizes): (usize, Vec<usize>)| {
        l.param(&named(n), sizes.into_iter().map(Dim::Fixed).collect::<Vec<_>>(), init.clone())
    };
    sizes.into_iter().enumerate().map(table).collect()
}
