//! Expressions that the executor evaluates: attention masks and biases, and depths of rows.

use rtc_compiler::ir::attribute::{self, Mask, StepBound};
use std::collections::BTreeMap;

use rtc_compiler::expr::{
    Env, Expr, ReadFrom, ScalarValue, ScaledScore, ScoreExpr, Var, eval, keys, pairs_by_distance, tables,
};
use rtc_compiler::ir::graph::{Graph, MAIN, NodeId};
use rtc_compiler::ir::join::KeyJoin;
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::places::PairPlaces;
use rtc_compiler::ir::types::{Attr, Dim, Elem};

use crate::pair_join::PairJoin;
use crate::pair_program::{PairProgram, place};
use rtc_kernel::attention::MaskRow;

/// The expressions of each node that has some, read once; a message where they can't be read.
pub type Exprs = BTreeMap<NodeId, Result<MaskRule, String>>;

/// What the scores of attentions stay below before a bias is added, where there is a bound.
pub fn caps(graph: &Graph) -> BTreeMap<NodeId, f64> {
    let cap = |id: NodeId| Some((id, graph.node(id).attrs.score().ok()?.cap()?));
    graph.walk(MAIN).into_iter().filter_map(cap).collect()
}

/// The expressions of one node.
#[derive(Debug)]
pub struct MaskRule {
    /// The mask, where it is an expression; for a loop its bound, for a choice how many are chosen.
    pub expr: Option<Expr>,
    /// What changes the scores pair by pair, where there is something.
    pub bias: Option<Bias>,
    /// Where gradients of keys and values go apart, if they do.
    pub stop: Option<Expr>,
    /// The mask, and `stop`, for all keys of a query at once.
    pub programs: [Option<PairProgram>; 2],
    /// How the keys of a query are looked up, where that is possible: of the mask, or of that of each head where it has heads.
    pub joins: Vec<Option<PairJoin>>,
    /// For every use of a value in the mask, and in `stop`, which value it reads.
    pub reads: [Vec<usize>; 2],
    /// Channels of every value that is read; 1 of a number per position.
    pub channels: Vec<usize>,
    /// How queries and keys get their positions in the row.
    pub places: PairPlaces,
    /// Whether mask and bias see positions only through their distance, the mask sees no heads, and gradients do not go apart.
    pub by_distance: bool,
    /// Whether queries see so few keys, and those so far from one another, that going key by key is worth it.
    pub few: bool,
}

/// A bias with its tables, or a score.
#[derive(Debug)]
pub struct Bias {
    /// The expression.
    pub expr: Expr,
    /// Whether it is the score, and not what is added to it.
    pub is_score: bool,
    /// The sizes of its tables.
    pub sizes: Vec<Vec<usize>>,
    /// For every use what it reads.
    pub uses: Vec<ReadFrom>,
    /// The expression for all keys of a query at once.
    pub program: PairProgram,
    /// The first operand that is a table.
    pub first: usize,
    /// A score that is a multiple of what it was, plus something: the factor of every query, and what is added.
    pub scaled: Option<Box<(Bias, Option<Bias>)>>,
}

impl Bias {
    /// Numbers of one table.
    pub fn len(&self, table: usize) -> usize {
        self.sizes[table].iter().product()
    }
}

impl MaskRule {
    /// Whether mask, bias or `stop` read a variable.
    pub fn uses(&self, var: Var) -> bool {
        let bias = self.bias.as_ref().map(|bias| &bias.expr);
        [self.expr.as_ref(), bias, self.stop.as_ref()].into_iter().flatten().any(|expr| expr.uses(var))
    }
}

/// Whether an op is an attention that may have a mask and a bias.
pub fn is_attention(op: Op) -> bool {
    matches!(op, Op::Attention | Op::AttentionGrad)
}

/// So many keys side by side are gone through one by one; more of them are worth whole blocks.
const FEW: usize = 4;

/// The masks, biases and bounds of a graph that are expressions.
pub fn exprs(graph: &Graph) -> Exprs {
    let of = |id: NodeId| {
        let node = graph.node(id);
        let bound = || node.find(attribute::BOUND).or_else(|| node.find(attribute::OF)).and_then(StepBound::rule);
        let expr = node.get(attribute::MASK).rule().or_else(bound);
        let (score, stop) = (node.attrs.score(), node.find(attribute::STOP));
        let plain = score.as_ref().is_ok_and(|score| score.of_pairs().is_none());
        (!plain || expr.is_some() || stop.is_some()).then(|| (id, rule(graph, id, score, [expr, stop])))
    };
    graph.walk(MAIN).into_iter().filter_map(of).collect()
}

fn rule(
    graph: &Graph,
    id: NodeId,
    score: Result<ScoreExpr, String>,
    [expr, stop]: [Option<&Attr>; 2],
) -> Result<MaskRule, String> {
    let expr = expr.map(Expr::try_from).transpose()?;
    let stop = stop.map(Expr::try_from).transpose()?;
    let score = score?;
    let bias =
        score.of_pairs().map(|expr| biased(graph, id, expr, matches!(score, ScoreExpr::Whole(_)))).transpose()?;
    let node = graph.node(id);
    let places = PairPlaces::of(graph, node);
    let lies_there = places == PairPlaces::Own;
    let expr = match expr {
        // The past is that of positions in the row, not of numbers of queries and keys.
        None if !lies_there && node.get(attribute::MASK) == Mask::Causal => Some(Expr::past()),
        expr => expr,
    };
    let by_distance = lies_there && pairs_by_distance(expr.as_ref(), &score, stop.as_ref());
    let seen = expr.as_ref().filter(|_| lies_there).and_then(keys);
    let few = seen.is_some_and(|keys| keys.strided || keys.most <= FEW);
    let reads = [&expr, &stop].map(|expr| expr.as_ref().map_or_else(Vec::new, values));
    let program = |expr: &Option<Expr>| {
        let pairs = expr.as_ref().filter(|_| is_attention(node.op));
        pairs.map(|expr| PairProgram::new(expr, &tables(expr).operands(), &[])).transpose()
    };
    let programs = [program(&expr)?, program(&stop)?];
    let own = if is_attention(node.op) { &node.operands[node.behind().reads] } else { &[] };
    let channels = own.iter().map(|v| graph.ty(*v).dims().get(2).and_then(Dim::fixed).unwrap_or(1)).collect();
    let heads = node.find(attribute::HEADS).unwrap_or(1);
    let joins = expr.as_ref().filter(|_| is_attention(node.op) && lies_there && !by_distance);
    let joins = joins.map_or_else(Vec::new, |expr| KeyJoin::of_heads(expr, heads));
    let joins = joins.into_iter().map(|join| join.map(PairJoin::new).transpose()).collect::<Result<_, _>>()?;
    Ok(MaskRule { expr, bias, stop, programs, joins, reads, channels, places, by_distance, few })
}

fn biased(graph: &Graph, id: NodeId, expr: &Expr, is_score: bool) -> Result<Bias, String> {
    let (expr, node) = (expr.clone(), graph.node(id));
    let before = if node.op == Op::AttentionGrad { 4 } else { 3 };
    let step = node.operands.get(before).is_some_and(|v| graph.ty(*v).elem() == Some(Elem::Index));
    let first = before + usize::from(step);
    let table = |v| graph.ty(v).dims().iter().filter_map(Dim::fixed).collect();
    let end = node.behind().reads.start.max(first);
    let sizes: Vec<Vec<usize>> = node.operands[first..end].iter().map(|v| table(*v)).collect();
    let found = tables(&expr);
    let (uses, count) = (found.operands(), found.names.len());
    match sizes.len() == count {
        true => read(expr, uses, &sizes, first, is_score),
        false => Err(format!("the score `{expr}` has not one table for each `learn`")),
    }
}

/// What an expression and its parts are, with what their uses read.
fn read(expr: Expr, uses: Vec<ReadFrom>, sizes: &[Vec<usize>], first: usize, is_score: bool) -> Result<Bias, String> {
    let part = |(expr, uses)| read(expr, uses, sizes, first, false);
    let scaled = match ScaledScore::of(&expr, &uses).filter(|_| is_score) {
        Some(ScaledScore { factor, bias }) => Some(Box::new((part(factor)?, bias.map(part).transpose()?))),
        None => None,
    };
    let program = PairProgram::new(&expr, &uses, sizes)?;
    Ok(Bias { expr, is_score, sizes: sizes.to_vec(), uses, program, first, scaled })
}

/// The values that the uses of a mask read.
fn values(expr: &Expr) -> Vec<usize> {
    let value = |from| match from {
        ReadFrom::Value(n) => Some(n),
        ReadFrom::Table(_) | ReadFrom::Score => None,
    };
    tables(expr).operands().into_iter().filter_map(value).collect()
}

/// Marks the keys that a query sees at a step of the recurrence. An expression that fails to evaluate at a position (a
/// division by zero) hides the key.
pub fn mark(expr: &Expr, step: i64, at: MaskRow, seen: &mut [bool]) {
    let env = place(at, step);
    for (j, flag) in seen.iter_mut().enumerate() {
        *flag = eval(expr, &Env { j: env.j + j as i64, ..env }) == Ok(ScalarValue::Bool(true));
    }
}
