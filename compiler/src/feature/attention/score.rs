//! Scores of attention: fields, the sizes of their learned tables, and their parameters.

use super::lack::{BiasContext, Lack, lack};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::expr::{BiasFacts, Env, Expr, ReadFrom, ScoreExpr, Unbounded, Uses, Var, sizes, tables};
use crate::feature::{Site, says_more};
use crate::ir::attribute::{self, Attrs};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::types::{Attr, Dim};
use crate::lower::Lower;
use crate::schema::{Default, FieldKind, StatementField, Text, of_kind, optional_word, word};
use crate::source::Span;
use crate::spec::{Block, FieldValue};

/// The expression.
pub(super) const BIAS: StatementField = of_kind(
    "bias",
    FieldKind::Bias,
    Default::Word(Text::Borrowed("none")),
    "number added to the scaled score of query `i` and key `j`; every `learn[...]` in it is a table of learned numbers",
);

/// What a score becomes.
pub(super) const SCORE: StatementField = of_kind(
    "score",
    FieldKind::Bias,
    Default::Absent,
    "what the `score` of query `i` and key `j`, their scaled product, becomes, as `score * learn[head]`; instead of `bias` and `softcap`",
);

/// How the tables of a score start.
pub(super) const SCORE_INIT: StatementField = optional_word(
    "score_init",
    &["ones", "normal", "uniform", "zeros"],
    "how the learned numbers of `score` start: 1 (the default), normal with deviation 0.02, uniform between 0 and 1, or 0",
);

/// How the tables of a bias start.
pub(super) const BIAS_INIT: StatementField = word(
    "bias_init",
    &["normal", "uniform", "zeros"],
    "normal",
    "how the learned numbers of the bias start: normal with deviation 0.02, uniform between 0 and 1, or 0",
);

/// The field that changes the scores of a block.
fn field(block: &Block) -> &'static str {
    if block.expr("score").is_some() { "score" } else { "bias" }
}

/// What the scores of a block become.
pub(super) fn expr(block: &Block) -> Expr {
    let written = || Expr::score(block.float("softcap"), block.expr("bias").cloned());
    block.expr("score").cloned().unwrap_or_else(written)
}

/// Reports what is wrong with the bias or the score of a statement.
pub(super) fn check(site: &Site<'_>, problems: &mut Problems) {
    let depth = depth(site);
    let wrong = faults(site.block, depth.as_ref(), &|field| site.place(field));
    wrong.into_iter().for_each(|diagnostic| problems.report(diagnostic));
}

/// What is wrong with the bias or the score of an attention: every index of a learned table must have a bound, and wherever the mask shows a
/// key, there must be a number. `depth` is the number of steps around, where it is known, and `place` that of a field.
pub(crate) fn faults(block: &Block, depth: Option<&Expr>, place: &dyn Fn(&str) -> Span) -> Vec<Diagnostic> {
    let mut faults = vec![];
    for (field, init, example) in
        [("bias", "bias_init", "bias: t5"), ("score", "score_init", "score: score * learn[head]")]
    {
        let learned = block.expr(field).is_some_and(Expr::is_learned);
        if !learned && says_more(block, init) && (field == "score" || block.fields.contains_key(field)) {
            let message = format!("`{init}` has no effect: the {field} holds no `learn`");
            let diagnostic = Diagnostic::new(Kind::IdleField, place(init), message);
            faults.push(diagnostic.help(format!("leave it out, or write a {field} with `learn[..]`, as `{example}`")));
        }
    }
    let field = field(block);
    let (Some(bias), Some(heads)) = (block.expr(field), block.int("heads")) else { return faults };
    faults.extend(several_shapes(bias, place(field)));
    faults.extend(match table_sizes(block, bias, heads) {
        Ok(_) => lacking(block, bias, (heads, depth), (field, place(field))),
        Err(Unbounded { index, negative }) => {
            let side = if negative { "lower" } else { "upper" };
            let cure = match negative {
                true => format!("write `max({index}, 0)`, or use a mask that begins with `j <= i and`"),
                false => {
                    format!("write `min({index}, 127)` for a table of 128 numbers, or let the mask say `{index} < 128`")
                }
            };
            let message = format!("the index `{index}` of `learn` has no {side} bound");
            Some(Diagnostic::new(Kind::UnboundedIndex, place(field), message).help(cure))
        }
    });
    faults
}

/// Queries and keys of the rows in which a bias is tried.
const TRIED: i64 = 16;

/// Wherever the mask shows a key, the bias or the score must have a number, as far as short rows tell.
fn lacking(
    block: &Block,
    bias: &Expr,
    (heads, depth): (usize, Option<&Expr>),
    (field, place): (&str, Span),
) -> Option<Diagnostic> {
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
        let read = if bias.reads() || bias.holds_score() { "numbers that are read" } else { "learned numbers" };
        places += &format!(", {read} of {number:?}");
    }
    let message = format!("the {field} has no number for {places}, and the mask shows that key");
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

/// Adds the score of a block to an attention; gives the parameters that are its tables: `bias`, `bias_2`, ..., and `bias_name` for
/// `learn_name`, or `score`, ...
pub(super) fn parameters(
    l: &mut Lower<'_>,
    block: &Block,
    (heads, score): (usize, &Expr),
    attrs: &mut Attrs,
) -> Result<Vec<Value>, InvalidNode> {
    if ScoreExpr::of(score) == ScoreExpr::PLAIN {
        return Ok(vec![]);
    }
    attrs.set(attribute::SCORE, &Attr::from(score));
    let field = field(block);
    let init = match block.word(if field == "score" { "score_init" } else { "bias_init" }) {
        None if field == "score" => "ones".into(),
        Some("ones") => "ones".into(),
        Some("zeros") => "zeros".into(),
        Some("uniform") => Attr::call("unit", []),
        _ => Attr::call("normal", [0.02.into()]),
    };
    let sizes = table_sizes(block, score, heads)
        .map_err(|e| InvalidNode(format!("the index `{}` of `{}` has no bound", e.index, block.title())))?;
    let names = tables(score).names;
    let chosen = |name: &str| !name.is_empty() && !name.starts_with('_');
    let taken = |number: usize| names.iter().any(|name| *name == number.to_string());
    let mut named: Vec<String> = vec![];
    for (n, name) in names.iter().enumerate() {
        let own = match n {
            _ if chosen(name) => format!("{field}_{name}"),
            0 => field.to_owned(),
            // A number that neither a name nor a table before has.
            _ => {
                let free = |number: &usize| !taken(*number) && !named.contains(&format!("{field}_{number}"));
                (n + 1..).find(free).map(|number| format!("{field}_{number}")).unwrap_or_default()
            }
        };
        named.push(own);
    }
    let table = |(n, sizes): (usize, Vec<usize>)| {
        l.param(&named[n], sizes.into_iter().map(Dim::Fixed).collect::<Vec<_>>(), init.clone())
    };
    sizes.into_iter().enumerate().map(table).collect()
}
