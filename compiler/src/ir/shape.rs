//! Shape rules: the result types of an op from its operand types and attributes.

use super::attribute::{self, AttributeKey, AttributeKind, Attrs, Relative, ScanKernel, Side};
use std::collections::BTreeSet;

use super::ops::Op;
use super::pointwise;
use super::rotation;
use super::scalar::{ExprScalar, Leaf, Untold};
use super::types::{BATCH, CLASSES, Dim, Elem, PAIRS, Type, VOCAB, prefixed, unprefixed};
use crate::expr::{self, BiasFacts, Env, Expr, ReadFrom, ScalarValue, ScoreExpr, Var, eval};

/// What a shape rule sees of a node.
#[derive(Clone, Copy, Debug)]
pub struct Signature<'a> {
    pub op: Op,
    /// Types of the operands, optional ones last.
    pub operands: &'a [Type],
    /// The attributes.
    pub attrs: &'a Attrs,
}

/// Gives the result types, or says what does not fit.
pub type ShapeRule = fn(&Signature<'_>) -> Result<Vec<Type>, String>;

impl Signature<'_> {
    fn dims(&self, n: usize) -> &[Dim] {
        self.operands[n].dims()
    }

    fn size<K>(&self, key: AttributeKey<K>) -> Result<usize, String>
    where
        K: for<'a> AttributeKind<Of<'a> = usize>,
    {
        self.attrs.find(key).ok_or(format!("`{}` needs a whole number `{}`", self.op, key.row.name))
    }

    fn mismatch(&self) -> String {
        let types: Vec<String> = self.operands.iter().map(ToString::to_string).collect();
        format!("`{}` does not take operands of types {}", self.op, types.join(", "))
    }

    fn demand(&self, fits: bool) -> Result<(), String> {
        if fits { Ok(()) } else { Err(self.mismatch()) }
    }

    /// The dims of operand `n` with the last one replaced.
    fn with_last(&self, n: usize, last: Dim) -> Result<Type, String> {
        let mut dims = self.dims(n).to_vec();
        *dims.last_mut().ok_or_else(|| self.mismatch())? = last;
        Ok(Type::real(dims))
    }
}

/// Types are written on the node: inputs, parameters, loops.
pub fn declared(_: &Signature<'_>) -> Result<Vec<Type>, String> {
    Ok(vec![])
}

/// No result.
pub fn nothing(_: &Signature<'_>) -> Result<Vec<Type>, String> {
    Ok(vec![])
}

/// The type of the first operand.
pub fn same(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    Ok(vec![s.operands[0].clone()])
}

/// Whether the first axis is that of the rows of the batch, or of pairs of them.
fn has_rows(ty: &Type) -> bool {
    ty.dims().first().and_then(Dim::symbol).is_some_and(|axis| [BATCH, PAIRS].contains(&axis))
}

/// Whether each position has at most one part of its own, which is that of its channels.
fn is_by_position(ty: &Type) -> bool {
    ty.ragged().is_none() || ty.dims().len() <= 3
}

/// The type of the operand, whose heads have the channels that are turned, in pairs. The verifier names attributes that are missing.
pub fn rotate(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    s.demand(is_by_position(&s.operands[0]) && s.dims(0).last().is_some_and(|last| last.fixed().is_some()))?;
    let Some(heads) = s.attrs.find(attribute::HEADS) else { return same(s) };
    let width = s.dims(0).last().and_then(Dim::fixed);
    let head_width = width.filter(|width| width.is_multiple_of(heads)).ok_or_else(|| s.mismatch())? / heads;
    let part = s.attrs.find(attribute::PART).unwrap_or(head_width);
    if !part.is_multiple_of(2) || part > head_width {
        return Err(format!("{part} channels of a head of {head_width} cannot be turned in pairs"));
    }
    rotation::of_node(s.attrs, head_width).and_then(|_| same(s))
}

/// Demands of operands that they are those of a `forward` op, and of the cotangents that they have the types of its results.
fn differentiates(s: &Signature<'_>, forward: ShapeRule, operands: &[Type], cotangents: &[Type]) -> Result<(), String> {
    let results = forward(&Signature { operands, ..*s }).map_err(|_| s.mismatch())?;
    s.demand(results == cotangents)
}

/// The gradient of an op for its operands, from these and the cotangent of its result, which stands last.
fn for_operands(s: &Signature<'_>, forward: ShapeRule) -> Result<Vec<Type>, String> {
    let (cotangent, operands) = s.operands.split_last().ok_or_else(|| s.mismatch())?;
    differentiates(s, forward, operands, std::slice::from_ref(cotangent))?;
    Ok(operands.to_vec())
}

/// The gradient of an op for its first operand, from the cotangent of its result, which stands first, and its operands.
fn for_first(s: &Signature<'_>, forward: ShapeRule) -> Result<Vec<Type>, String> {
    let (cotangent, operands) = s.operands.split_first().ok_or_else(|| s.mismatch())?;
    differentiates(s, forward, operands, std::slice::from_ref(cotangent))?;
    Ok(vec![operands[0].clone()])
}

/// What an attention has behind the `before` operands that it always has and a counter of steps: a table for every `learn` of
/// the score, then the vectors and the matrix of relative positions, then the matrices of talking heads. Where gradients stop, the
/// forward op has the keys and values that take them behind all that.
fn attended<'s>(s: &'s Signature<'_>, before: usize) -> Result<&'s [Type], String> {
    let mut rest = s.operands.get(before..).ok_or_else(|| s.mismatch())?;
    if s.attrs.has(attribute::STOP) {
        if s.attrs.get(attribute::TALKING) {
            return Err(format!("`{}` of heads that talk has no `stop`", s.op));
        }
        if s.op == Op::Attention {
            let (others, stopped) = rest.split_last_chunk::<2>().ok_or_else(|| s.mismatch())?;
            s.demand(stopped[..] == s.operands[1..3])?;
            rest = others;
        }
    }
    let is_step = |ty: &Type| *ty == Type::Tensor(Elem::Index, vec![]);
    let more = if rest.first().is_some_and(is_step) { &rest[1..] } else { rest };
    let rest = match (s.attrs.get(attribute::TALKING), s.attrs.find(attribute::HEADS)) {
        (true, Some(heads)) => {
            let matrix = [Dim::Fixed(heads), Dim::Fixed(heads)];
            let (rest, own) = more.split_last_chunk::<2>().ok_or_else(|| s.mismatch())?;
            s.demand(own.iter().all(|ty| ty.is_real() && *ty.dims() == matrix))?;
            rest
        }
        _ => more,
    };
    let tables = match s.attrs.find(attribute::POSITION) {
        Some(Relative::RelativeXl) => {
            let width = s.dims(0).last().and_then(Dim::fixed);
            let (tables, own) = rest.split_last_chunk::<3>().ok_or_else(|| s.mismatch())?;
            let fits = own.iter().all(|ty| ty.dims().first().and_then(Dim::fixed) == width && ty.is_real())
                && own.each_ref().map(|ty| ty.dims().len()) == [1, 1, 2];
            if fits && width.is_some() { tables } else { return Err(s.mismatch()) }
        }
        None => rest,
    };
    let (tables, values) = tables
        .split_at_checked(tables.len().wrapping_sub(s.attrs.get(attribute::READS)))
        .ok_or_else(|| s.mismatch())?;
    reads(s, values)?;
    let sized = |ty: &Type| ty.is_real() && ty.dims().iter().all(|d| d.fixed().is_some_and(|n| n > 0));
    let score = s.attrs.find(attribute::SCORE).map(Expr::try_from).transpose()?;
    if s.attrs.get(attribute::TALKING) && matches!(s.attrs.score()?, ScoreExpr::Whole(_)) {
        return Err(format!("the scores of heads that talk in `{}` have a bound and a bias alone", s.op));
    }
    let learned = score.as_ref().map(expr::tables);
    let (names, uses) = learned.map_or_else(Default::default, |learned| (learned.names, learned.uses));
    let fits = names.len() == tables.len()
        && tables.iter().all(sized)
        && uses.iter().all(|(from, indices)| match from {
            ReadFrom::Table(table) => indices.len() == tables[*table].dims().len(),
            ReadFrom::Value(_) | ReadFrom::Score => true,
        });
    if fits { Ok(more) } else { Err(s.mismatch()) }
}

/// Demands of the values that mask, score and `stop` read that they have a number, or channels, at every position of the queries or keys
/// where they are read, and that the channels are there for every head.
fn reads(s: &Signature<'_>, values: &[Type]) -> Result<(), String> {
    let heads = s.attrs.find(attribute::HEADS).unwrap_or(1) as i64;
    let score = s.attrs.find(attribute::SCORE);
    let rules = [s.attrs.find(attribute::MASK).and_then(|mask| mask.rule()), score, s.attrs.find(attribute::STOP)];
    for rule in rules.into_iter().flatten() {
        let (is_score, rule) = (Some(rule) == score, Expr::try_from(rule)?);
        if rule.holds_score() && !is_score {
            return Err(format!("`{}` has no score where a mask or `stop` reads it", s.op));
        }
        let found = expr::tables(&rule);
        // The verifier tells of draws.
        if !rule.holds_draw() {
            let refuse = |part: &Expr| format!("`{}` cannot work `{part}` out for a query and a key", s.op);
            let facts = BiasFacts::new(1, None);
            let own = ExprScalar::new(&rule, &found.operands(), &[], &facts, f64::MAX);
            if own.map_err(|Untold(part)| refuse(&part))?.leaves.contains(&Leaf::Given) {
                return Err(refuse(&Expr::Given));
            }
        }
        for (from, (_, indices)) in found.operands().into_iter().zip(&found.uses) {
            let ReadFrom::Value(n) = from else { continue };
            let ty = values.get(n).ok_or_else(|| s.mismatch())?;
            let of = |at: usize| s.dims(at).get(..2) == ty.dims().get(..2) && ty.is_real() && ty.ragged().is_some();
            let fits = match (indices, &ty.dims()[2.min(ty.dims().len())..]) {
                ([at], []) => placed(at).is_some_and(of),
                ([at, channel], [Dim::Fixed(channels)]) => {
                    let inside = |head| matches!(eval(channel, &Env { head, ..Env::default() }), Ok(ScalarValue::Int(n)) if (0..*channels as i64).contains(&n));
                    let by_head = [Var::I, Var::J, Var::Step, Var::Length].into_iter().all(|var| !channel.uses(var));
                    placed(at).is_some_and(of) && by_head && (0..heads).all(inside)
                }
                _ => false,
            };
            if !fits {
                return Err(format!("`{}` cannot read value {n} as `{rule}` does", s.op));
            }
        }
    }
    Ok(())
}

/// The operand at whose positions a value is read.
fn placed(at: &Expr) -> Option<usize> {
    match at {
        Expr::Var(Var::I) => Some(0),
        Expr::Var(Var::J) => Some(1),
        _ => None,
    }
}

/// Demands that queries divide into the heads, keys into as wide key heads, of which each serves as many heads, and values into as many
/// heads of any width.
/// The verifier names attributes that are missing.
fn heads(s: &Signature<'_>) -> Result<(), String> {
    let Some(heads) = s.attrs.find(attribute::HEADS) else { return Ok(()) };
    let key_heads = s.attrs.find(attribute::KEY_HEADS).unwrap_or(heads);
    if !heads.is_multiple_of(key_heads) {
        return Err(format!("{heads} heads cannot share {key_heads} key heads"));
    }
    let width = |n: usize| s.dims(n).last().and_then(Dim::fixed).ok_or_else(|| s.mismatch());
    let fits = width(0)?.is_multiple_of(heads) && width(1)? == width(0)? / heads * key_heads;
    s.demand(fits && width(2)?.is_multiple_of(key_heads))
}

/// Demands of keys and values with slots that the operand after the first `before` ones is the number of filled slots.
fn steps(s: &Signature<'_>, before: usize) -> Result<(), String> {
    if s.dims(1).len() < 4 {
        return Ok(());
    }
    let [queries, keys] = [0, 1].map(|n| s.dims(n).get(..2));
    let fits = s.dims(1)[..3] == s.dims(2)[..3] && queries.is_some() && queries == keys && s.dims(0).len() == 3;
    let counter = s.operands.get(before).is_some_and(|step| *step == Type::Tensor(Elem::Index, vec![]));
    s.demand(fits && counter && s.operands[1].ragged().is_some() && s.dims(1).len() == 4)?;
    if s.attrs.has(attribute::POSITION) || s.attrs.has(attribute::STOP) {
        return Err(format!(
            "`{}` to the slots of positions has no positions relative to one another and no `stop`",
            s.op
        ));
    }
    s.demand(s.operands[1].slots().is_some())
}

/// Demands queries of rows, and keys and values that stand in the same places. They may have a slot for every step.
fn places(s: &Signature<'_>) -> Result<(), String> {
    let rank = s.dims(1).len().max(3);
    let fits = [3, rank, rank].iter().zip(&s.operands[..3]).all(|(rank, x)| x.is_batched() && x.dims().len() == *rank);
    s.demand(fits && rank <= 4 && s.dims(1)[..2] == s.dims(2)[..2])
}

/// The type of the queries, with the channels of a value for every head.
pub fn attention(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    places(s)?;
    steps(s, 3)?;
    attended(s, 3)?;
    heads(s)?;
    Ok(vec![mixed(s)])
}

/// The type of the result: a mixture of values for every query.
fn mixed(s: &Signature<'_>) -> Type {
    let heads = s.attrs.find(attribute::HEADS).unwrap_or(1);
    let sharing = heads / s.attrs.find(attribute::KEY_HEADS).unwrap_or(heads).max(1);
    let mut dims = s.dims(0).to_vec();
    if let (Some(own), Some(Dim::Fixed(width))) = (dims.last_mut(), s.dims(2).last()) {
        *own = Dim::Fixed(width * sharing);
    }
    Type::real(dims)
}

/// The types of queries, keys, values and what follows the counter of steps, then of keys and values once more where gradients stop.
pub fn attention_grad(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    places(s)?;
    s.demand(s.operands[3] == mixed(s))?;
    steps(s, 4)?;
    let more = attended(s, 4)?;
    heads(s)?;
    let stopped = if s.attrs.has(attribute::STOP) { &s.operands[1..3] } else { &[] };
    Ok([&s.operands[..3], more, stopped].concat())
}

/// A gain, and a bias where there is one, for every channel of the first operand.
pub fn affine(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let last = s.dims(0).last().filter(|last| are_channels(last)).ok_or_else(|| s.mismatch())?;
    s.demand(s.operands[1..].iter().all(|ty| ty.dims() == std::slice::from_ref(last)))?;
    same(s)
}

/// Demands of the first `count` operands that they are of one type, which the heads divide, and of one behind them that it has two
/// numbers for every head.
fn geometric(s: &Signature<'_>, count: usize) -> Result<(), String> {
    let Some(heads) = s.attrs.find(attribute::HEADS) else { return Ok(()) };
    let [batch, axis, Dim::Fixed(width)] = s.dims(0) else { return Err(s.mismatch()) };
    let alike = s.operands[..count].iter().all(|ty| *ty == s.operands[0]) && s.operands[0].is_batched();
    let sides = [batch.clone(), axis.clone(), Dim::Fixed(2 * heads)];
    let sided = s.operands.get(count).is_none_or(|ty| ty.is_real() && *ty.dims() == sides);
    s.demand(s.operands[0].is_real() && width.is_multiple_of(heads) && alike && sided)
}

/// The type of the queries.
pub fn geometric_attention(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    geometric(s, 3)?;
    same(s)
}

/// The types of queries, keys, values and sides.
pub fn geometric_attention_grad(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    geometric(s, 4)?;
    Ok([&s.operands[..3], &s.operands[4..]].concat())
}

/// A place for every head and key that is chosen, at every position of the queries.
pub fn top_keys(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let ([batch, axis, Dim::Fixed(width)], false) = (s.dims(0), s.attrs.get(attribute::MASK).rule().is_some()) else {
        return Err(s.mismatch());
    };
    let (heads, count) = (s.size(attribute::HEADS)?, s.size(attribute::COUNT)?);
    let among = s.operands.get(2).is_none_or(|ty| ty.is_real() && *ty.dims() == [batch.clone(), axis.clone()]);
    let fits = s.operands[0].is_real() && s.operands[0].is_batched() && s.operands[1] == s.operands[0];
    s.demand(fits && among && heads > 0 && count > 0 && width.is_multiple_of(heads))?;
    let places = heads.checked_mul(count).ok_or_else(|| s.mismatch())?;
    Ok(vec![Type::real(vec![batch.clone(), axis.clone(), Dim::Fixed(places)])])
}

/// The channels of the rows that a scan takes.
fn scanned<'s>(s: &'s Signature<'_>) -> Result<&'s Dim, String> {
    match s.dims(0) {
        [_, _, channels @ Dim::Fixed(_)] if s.operands[0].is_batched() => Ok(channels),
        _ => Err(s.mismatch()),
    }
}

/// Rows, and the parameters of a kernel: S4D has some for every channel, for its modes, and pairs of numbers for these, a moving average
/// a number for every channel and dimension.
pub fn scan(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let channels = scanned(s)?;
    let fits = |parameters: &[Type]| match (s.attrs.find(attribute::KERNEL), parameters) {
        (Some(ScanKernel::S4d), [log_dt, of_modes @ .., b, c]) if of_modes.len() == 2 => {
            let [first, modes @ Dim::Fixed(_)] = of_modes[0].dims() else { return false };
            let pairs = [channels.clone(), modes.clone(), Dim::Fixed(2)];
            log_dt.dims() == std::slice::from_ref(channels)
                && first == channels
                && of_modes[1].dims() == of_modes[0].dims()
                && [b, c].iter().all(|ty| *ty.dims() == pairs)
        }
        (Some(ScanKernel::Ema), [delta, rest @ ..]) if rest.len() == 3 => {
            matches!(delta.dims(), [first, Dim::Fixed(_)] if first == channels) && rest.iter().all(|ty| ty == delta)
        }
        _ => false,
    };
    s.demand(s.operands[1..].iter().all(Type::is_real) && fits(&s.operands[1..]))?;
    same(s)
}

/// As [`scan`], with the cotangent behind the rows.
pub fn scan_grad(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let [x, dy, parameters @ ..] = s.operands else { return Err(s.mismatch()) };
    let operands = [std::slice::from_ref(x), parameters].concat();
    differentiates(s, scan, &operands, std::slice::from_ref(dy))?;
    Ok(operands)
}

/// All operands have one type, which is the result's.
pub fn alike(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    s.demand(s.operands.iter().all(|t| *t == s.operands[0]))?;
    same(s)
}

/// The type that all operands have, for every result.
pub fn map(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let results = pointwise::results(s.attrs)?;
    let mut used = BTreeSet::new();
    results.iter().for_each(|expr| expr.visit(&mut |n| used.extend([n])));
    let count = s.operands.len();
    if !(1..=pointwise::MOST).contains(&count) || !(1..=pointwise::MOST).contains(&results.len()) {
        return Err(format!("a map has 1 to {} operands, and as many results", pointwise::MOST));
    }
    if used.len() != count || used.last() != Some(&(count - 1)) {
        return Err(format!("the expression of a map reads {} operands, not {count}", used.len()));
    }
    s.demand(s.operands[0].is_real())?;
    Ok(vec![alike(s)?[0].clone(); results.len()])
}

/// A scalar of numbers, and of weights with their type.
pub fn average(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    s.demand(s.operands.iter().all(|t| *t == s.operands[0]))?;
    Ok(vec![Type::real([])])
}

/// As [`average`], for the numbers.
pub fn average_grad(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    for_first(s, average)
}

/// Whether there are logits of classes for every label.
fn are_classes(s: &Signature<'_>) -> bool {
    matches!(s.dims(0).split_last(), Some((last, units)) if are_channels(last) && !units.is_empty() && units == s.dims(1))
}

/// Whether logits of these types are one for every label.
pub fn single_logits(logits: &Type, labels: &Type) -> bool {
    let units = logits.dims().strip_suffix(&[Dim::Fixed(1)]);
    logits.dims() == labels.dims() || units == Some(labels.dims())
}

/// A number for each label, from the logits of its classes or from a single logit.
pub fn of_labels(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    s.demand((are_classes(s) || single_logits(&s.operands[0], &s.operands[1])) && !s.dims(1).is_empty())?;
    Ok(vec![Type::real(s.dims(1))])
}

/// As [`of_labels`], for the logits.
pub fn of_labels_grad(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    for_first(s, of_labels)
}

/// Units, and a number or a condition for each.
pub fn of_units(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    s.demand(has_rows(&s.operands[1]) && s.dims(0).starts_with(s.dims(1)))?;
    same(s)
}

/// Two arrays of units, and a number for each unit.
pub fn add_scaled(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let [q, h, unit] = s.operands else { return Err(s.mismatch()) };
    s.demand(q == h && has_rows(unit) && q.dims().starts_with(unit.dims()))?;
    same(s)
}

/// A number for each unit of two arrays.
pub fn dot_unit(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    s.demand(s.operands[0] == s.operands[1] && has_rows(&s.operands[0]) && s.size(attribute::RANK)? > 0)?;
    prefix(s)
}

/// Positions of rows, or slots.
pub fn along_rows(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    s.demand(s.operands[0].is_batched() && s.dims(0).len() > 1)?;
    same(s)
}

/// Positions with their channels, or rows.
pub fn dropout(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    s.demand(is_by_position(&s.operands[0]) && has_rows(&s.operands[0]))?;
    same(s)
}

/// The first `rank` axes of the first operand.
pub fn prefix(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let rank = s.size(attribute::RANK)?;
    let dims = s.dims(0).get(..rank).ok_or_else(|| s.mismatch())?;
    Ok(vec![Type::real(dims)])
}

/// As `prefix`, with slots before the last axis.
pub fn full(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let Some(count) = s.attrs.find(attribute::COUNT) else { return prefix(s) };
    let mut dims = prefix(s)?[0].dims().to_vec();
    s.demand(dims.len() > 1 && matches!(dims.last(), Some(Dim::Fixed(_))))?;
    dims.insert(dims.len() - 1, Dim::Fixed(count));
    Ok(vec![Type::real(dims)])
}

/// Truth values over the first `rank` axes of the first operand.
pub fn all_true(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let dims = prefix(s)?[0].dims().to_vec();
    Ok(vec![Type::Tensor(Elem::Bool, dims)])
}

/// A number for every row of the last operand.
pub fn row_number(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let like = s.operands.last().filter(|like| like.is_batched()).ok_or_else(|| s.mismatch())?;
    Ok(vec![Type::real(&like.dims()[..1])])
}

/// A counter of steps before the operand that has the rows.
pub fn step_number(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    s.demand(s.operands[0] == Type::Tensor(Elem::Index, vec![]))?;
    row_number(s)
}

/// [batch, length] ids and a [vocab, width] table; or a counter of steps, and a weight with an axis of them.
pub fn embed(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    if s.dims(0).is_empty() {
        s.demand(!s.dims(1).is_empty() && s.dims(1).iter().all(|dim| dim.fixed().is_some()))?;
        return Ok(vec![Type::real(&s.dims(1)[1..])]);
    }
    let [_, width @ Dim::Fixed(_)] = s.dims(1) else { return Err(s.mismatch()) };
    s.demand(s.operands[0].is_batched() && s.dims(0).len() <= 2)?;
    let mut dims = s.dims(0).to_vec();
    dims.push(width.clone());
    Ok(vec![Type::real(dims)])
}

/// Ids, what their rows of the table became, and the table.
pub fn embed_grad(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let [ids, dy, table] = s.operands else { return Err(s.mismatch()) };
    differentiates(s, embed, &[ids.clone(), table.clone()], std::slice::from_ref(dy))?;
    Ok(vec![table.clone()])
}

/// Positions with channels, and the table that was added.
pub fn add_position_grad(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    s.demand(s.operands[0].ragged().is_some())?;
    add_position(s)?;
    Ok(vec![s.operands[1].clone()])
}

/// Positions with channels, and a table with as many.
pub fn add_position(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let [_, _, width] = s.dims(0) else { return Err(s.mismatch()) };
    let fits = s.operands.get(1).is_none_or(|table| table.dims().len() == 2 && table.dims().last() == Some(width));
    if fits && width.fixed().is_some() { same(s) } else { Err(s.mismatch()) }
}

/// A number for every position.
pub fn positions(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    s.demand(s.operands[0].ragged().is_some())?;
    Ok(vec![Type::real(&s.dims(0)[..2])])
}

/// Channels for every number.
pub fn sinusoid(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let width = s.size(attribute::WIDTH)?;
    s.demand(s.operands[0].is_real() && width > 0)?;
    let dims = s.dims(0).iter().cloned().chain([Dim::Fixed(width)]);
    Ok(vec![Type::real(dims.collect::<Vec<_>>())])
}

/// Channels, and the numbers that they are made of.
pub fn sinusoid_grad(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let fits = matches!(s.dims(0).split_last(), Some((Dim::Fixed(1..), units)) if units == s.dims(1));
    if fits { Ok(vec![s.operands[1].clone()]) } else { Err(s.mismatch()) }
}

/// The last axis as two.
pub fn split(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let parts = s.size(attribute::PARTS)?;
    let Some((Dim::Fixed(all @ 1..), units)) = s.dims(0).split_last() else { return Err(s.mismatch()) };
    if !all.is_multiple_of(parts) {
        return Err(format!("`{}` cannot cut {all} channels into {parts} equal parts", s.op));
    }
    let dims = units.iter().cloned().chain([Dim::Fixed(parts), Dim::Fixed(all / parts)]);
    Ok(vec![Type::real(dims.collect::<Vec<_>>())])
}

/// The last two axes as one.
pub fn merge(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    match s.dims(0) {
        [units @ .., Dim::Fixed(parts), Dim::Fixed(width)] if s.operands[0].is_real() => {
            let dims = units.iter().cloned().chain([Dim::Fixed(parts * width)]);
            Ok(vec![Type::real(dims.collect::<Vec<_>>())])
        }
        _ => Err(s.mismatch()),
    }
}

/// The sizes of a product of matrices on the last two axes of `a` and `b`: rows, what the sums go over, columns. Nothing where they do
/// not fit.
pub fn matrices(a: &Type, b: &Type, transposed: Option<Side>) -> Option<[usize; 3]> {
    let ([units @ .., Dim::Fixed(m), Dim::Fixed(n)], [others @ .., Dim::Fixed(k), Dim::Fixed(l)]) =
        (a.dims(), b.dims())
    else {
        return None;
    };
    let (rows, inner) = if transposed == Some(Side::Left) { (n, m) } else { (m, n) };
    let (outer, columns) = if transposed == Some(Side::Right) { (l, k) } else { (k, l) };
    let fits = units == others
        && a.is_real()
        && b.is_real()
        && inner == outer
        && [rows, inner, columns].iter().all(|n| **n > 0);
    fits.then_some([*rows, *inner, *columns])
}

/// Rows of the first matrix, columns of the second.
pub fn matmul(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let transposed = s.attrs.find(attribute::TRANSPOSED);
    let [rows, _, columns] = matrices(&s.operands[0], &s.operands[1], transposed).ok_or_else(|| s.mismatch())?;
    let units = &s.dims(0)[..s.dims(0).len() - 2];
    let dims = units.iter().cloned().chain([Dim::Fixed(rows), Dim::Fixed(columns)]);
    Ok(vec![Type::real(dims.collect::<Vec<_>>())])
}

/// The ragged axis grows by two positions of as many channels.
pub fn frame(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let [batch, Dim::Sym(axis), width] = s.dims(0) else { return Err(s.mismatch()) };
    s.demand(s.operands[1..].iter().all(|end| end.dims() == std::slice::from_ref(width)))?;
    Ok(vec![Type::real([batch.clone(), Dim::Sym(format!("{axis}+2")), width.clone()])])
}

/// The ragged axis grows by as many positions as `v` has channels for.
pub fn with_prefix(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    match (s.dims(0), s.dims(1)) {
        ([batch, Dim::Sym(axis), Dim::Fixed(width @ 1..)], [rows, Dim::Fixed(channels @ 1..)])
            if batch == rows && channels.is_multiple_of(*width) =>
        {
            let axis = Dim::Sym(prefixed(axis, channels / width));
            Ok(vec![Type::real([batch.clone(), axis, Dim::Fixed(*width)])])
        }
        _ => Err(s.mismatch()),
    }
}

/// The ragged axis behind the positions before it.
pub fn without_prefix(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let [batch, Dim::Sym(axis), width @ Dim::Fixed(_)] = s.dims(0) else { return Err(s.mismatch()) };
    let behind = unprefixed(axis).filter(|(count, _)| Ok(*count) == s.size(attribute::COUNT));
    let (_, axis) = behind.ok_or_else(|| s.mismatch())?;
    Ok(vec![Type::real([batch.clone(), Dim::sym(axis), width.clone()])])
}

/// The positions before the ragged axis as channels.
pub fn prefix_grad(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    without_prefix(s)?;
    let [batch, _, Dim::Fixed(width)] = s.dims(0) else { return Err(s.mismatch()) };
    Ok(vec![Type::real([batch.clone(), Dim::Fixed(s.size(attribute::COUNT)? * width)])])
}

/// Channels and positions change places.
pub fn transpose(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let [batch, Dim::Sym(_), width @ Dim::Fixed(_)] = s.dims(0) else { return Err(s.mismatch()) };
    Ok(vec![Type::real([batch.clone(), width.clone(), Dim::Fixed(s.size(attribute::COUNT)?)])])
}

/// As `transpose`, to the ragged axis of `like`.
pub fn transpose_back(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    match (s.dims(0), s.dims(1)) {
        ([batch, width @ Dim::Fixed(_), Dim::Fixed(_)], [rows, axis @ Dim::Sym(_), ..]) if batch == rows => {
            Ok(vec![Type::real([batch.clone(), axis.clone(), width.clone()])])
        }
        _ => Err(s.mismatch()),
    }
}

/// The ragged axis is that of the attribute.
pub fn pad_ragged(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let axis = s.attrs.find(attribute::AXIS);
    let ([batch, Dim::Sym(_), width @ Dim::Fixed(_)], Some(axis)) = (s.dims(0), axis) else { return Err(s.mismatch()) };
    if s.dims(1) != std::slice::from_ref(width) {
        return Err(s.mismatch());
    }
    Ok(vec![Type::real([batch.clone(), Dim::sym(axis), width.clone()])])
}

/// The filled row, the row, and what fills it.
pub fn pad_ragged_grad(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    match (s.dims(0), s.dims(1), s.dims(2)) {
        ([batch, Dim::Sym(_), width @ Dim::Fixed(_)], [rows, Dim::Sym(_), channels], [pad])
            if batch == rows && width == channels && width == pad =>
        {
            Ok(s.operands[1..3].to_vec())
        }
        _ => Err(s.mismatch()),
    }
}

/// The framed row, and what it is made of.
pub fn frame_grad(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    differentiates(s, frame, &s.operands[1..], &s.operands[..1])?;
    Ok(s.operands[1..].to_vec())
}

/// The batch axis of `like` before the axes of `x`.
pub fn broadcast_batch(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let batch = s.dims(1).first().filter(|_| s.operands[1].is_batched() && !s.operands[0].is_batched());
    let mut dims = vec![batch.ok_or_else(|| s.mismatch())?.clone()];
    dims.extend_from_slice(s.dims(0));
    Ok(vec![Type::real(dims)])
}

/// Without the first axis.
pub fn without_batch(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    s.demand(s.operands[0].is_batched())?;
    Ok(vec![Type::real(&s.dims(0)[1..])])
}

/// Without the second axis.
pub fn pool(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let mut dims = s.dims(0).to_vec();
    s.demand(dims.len() >= 2 && s.operands[0].is_batched())?;
    dims.remove(1);
    Ok(vec![Type::real(dims)])
}

/// As [`pool`], for what has the axis.
pub fn pool_grad(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    for_first(s, pool)
}

/// Slots of rows or positions, and the number of one.
pub fn slot_get(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let counter = s.operands.last().is_some_and(|step| *step == Type::Tensor(Elem::Index, vec![]));
    let slots = s.operands[0].slots().filter(|_| s.operands[0].is_batched() && s.operands[0].is_real() && counter);
    let (axis, _) = slots.ok_or_else(|| s.mismatch())?;
    let mut dims = s.dims(0).to_vec();
    dims.remove(axis);
    Ok(vec![Type::real(dims)])
}

/// As `slot_get`, with what a slot holds in between.
pub fn slot_set(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    if slot_get(s)?[0] == s.operands[1] { same(s) } else { Err(s.mismatch()) }
}

/// Numbers of rows, as many as `like` has: of all positions, or of slots.
pub fn drawn(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let placed = s.operands[0].ragged().is_none() || s.dims(0).len() <= 3;
    s.demand(s.operands[0].is_real() && s.operands[0].is_batched() && placed)?;
    same(s)
}

/// Positions, and a number for each of them.
pub fn neighbours(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let channels = s.dims(0).get(2..).is_some_and(|rest| matches!(rest, [] | [Dim::Fixed(_)]));
    s.demand(channels && s.operands[0].ragged().is_some() && s.dims(0).get(..2) == Some(s.dims(1)))?;
    same(s)
}

/// As [`neighbours`].
pub fn neighbours_grad(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    for_operands(s, neighbours)
}

/// The second axis of `like` behind the batch axis of `x`, which has no positions of its own.
pub fn broadcast_rows(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    match (s.dims(0), s.dims(1)) {
        ([batch, rest @ ..], [other, axis, ..])
            if batch == other && s.operands[1].is_batched() && s.operands[0].ragged().is_none() =>
        {
            let dims = [batch, axis].into_iter().chain(rest).cloned().collect::<Vec<_>>();
            Ok(vec![Type::real(dims)])
        }
        _ => Err(s.mismatch()),
    }
}

/// Last axes side by side.
pub fn concat(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let (a, b) = (s.dims(0), s.dims(1));
    match (a, b) {
        ([rest @ .., Dim::Fixed(m)], [other @ .., Dim::Fixed(n)]) if rest == other => {
            Ok(vec![s.with_last(0, Dim::Fixed(m + n))?])
        }
        _ => Err(s.mismatch()),
    }
}

/// Some channels.
pub fn slice(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let (start, width) = (s.size(attribute::START)?, s.size(attribute::WIDTH)?);
    match s.dims(0).last() {
        Some(Dim::Fixed(n)) if width > 0 && start + width <= *n => Ok(vec![s.with_last(0, Dim::Fixed(width))?]),
        _ => Err(s.mismatch()),
    }
}

/// More channels.
pub fn pad(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let (start, width) = (s.size(attribute::START)?, s.size(attribute::WIDTH)?);
    match s.dims(0).last() {
        Some(Dim::Fixed(n)) if start + n <= width => Ok(vec![s.with_last(0, Dim::Fixed(width))?]),
        _ => Err(s.mismatch()),
    }
}

/// Without a last axis of size 1.
pub fn squeeze(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    match s.dims(0) {
        [rest @ .., Dim::Fixed(1)] => Ok(vec![Type::real(rest)]),
        _ => Err(s.mismatch()),
    }
}

/// With a last axis of size 1.
pub fn unsqueeze(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let mut dims = s.dims(0).to_vec();
    dims.push(Dim::Fixed(1));
    Ok(vec![Type::real(dims)])
}

/// Four features of each pair of rows.
pub fn pair(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let [_, Dim::Fixed(width)] = s.dims(0) else { return Err(s.mismatch()) };
    s.demand(s.operands[0].is_batched())?;
    Ok(vec![Type::real([Dim::sym(PAIRS), Dim::Fixed(4 * width)])])
}

/// As [`pair`], for the rows.
pub fn pair_grad(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    for_first(s, pair)
}

/// Last axis from inputs to outputs.
pub fn linear(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let [outputs, inputs] = s.dims(1) else { return Err(s.mismatch()) };
    let bias_fits = s.operands.get(2).is_none_or(|b| b.dims() == [outputs.clone()]);
    s.demand(s.dims(0).last() == Some(inputs) && are_channels(inputs) && are_channels(outputs) && bias_fits)?;
    Ok(vec![s.with_last(0, outputs.clone())?])
}

/// Last axis from outputs to inputs.
pub fn linear_grad_input(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let [outputs, inputs] = s.dims(1) else { return Err(s.mismatch()) };
    s.demand(s.dims(0).last() == Some(outputs))?;
    Ok(vec![s.with_last(0, inputs.clone())?])
}

/// Cotangents of the outputs, the inputs, and the weight between them.
pub fn linear_grad_weight(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let [dy, x, w] = s.operands else { return Err(s.mismatch()) };
    differentiates(s, linear, &[x.clone(), w.clone()], std::slice::from_ref(dy))?;
    Ok(vec![w.clone()])
}

/// The last axis alone.
pub fn last_axis(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let last = s.dims(0).last().ok_or_else(|| s.mismatch())?;
    Ok(vec![Type::real([last.clone()])])
}

/// Input, gain, and bias (which has the gain's type).
pub fn layer_norm_grad(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let [x, gain, dy] = s.operands else { return Err(s.mismatch()) };
    differentiates(s, affine, &[x.clone(), gain.clone()], std::slice::from_ref(dy))?;
    Ok(vec![x.clone(), gain.clone(), gain.clone()])
}

/// One channel for some.
pub fn reduce(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    s.demand(s.dims(0).last().is_some_and(are_channels))?;
    Ok(vec![s.with_last(0, Dim::Fixed(1))?])
}

/// As [`reduce`], for the channels.
pub fn reduce_grad(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    for_first(s, reduce)
}

/// Some channels for one.
pub fn broadcast_channels(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let width = s.size(attribute::WIDTH)?;
    s.demand(s.dims(0).last() == Some(&Dim::Fixed(1)) && width > 0)?;
    Ok(vec![s.with_last(0, Dim::Fixed(width))?])
}

/// As [`softmax`], with candidates in the same places.
pub fn top(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let is_step = |ty: &Type| *ty == Type::Tensor(Elem::Index, vec![]);
    let among = match s.operands {
        [_, among @ .., step] if is_step(step) => among,
        [_, among @ ..] => among,
        [] => return Err(s.mismatch()),
    };
    s.demand(among.len() <= 1 && among.iter().all(|ty| *ty == s.operands[0]))?;
    softmax(s)
}

/// Channels, or positions with a number each.
pub fn softmax(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let fits = match s.dims(0) {
        [.., last] if are_channels(last) => true,
        [_, Dim::Sym(_)] => s.operands[0].is_batched(),
        _ => false,
    };
    s.demand(fits && s.operands[0].is_real())?;
    same(s)
}

/// The result of a softmax, and its cotangent.
pub fn softmax_grad(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    s.demand(s.operands[0] == s.operands[1])?;
    softmax(s)
}

/// Whether an axis is one of channels: of a known number, or the classes or tokens of a task.
fn are_channels(axis: &Dim) -> bool {
    matches!(axis, Dim::Fixed(1..)) || axis.symbol().is_some_and(|axis| [CLASSES, VOCAB].contains(&axis))
}

/// Channels in equal parts, and a gain for the channels of a part.
pub fn rms_norm(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    normed_parts(s, 1)?;
    same(s)
}

/// Input, and gain where there is one.
pub fn rms_norm_grad(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    normed_parts(s, 2)?;
    s.demand(s.operands[0] == s.operands[1])?;
    Ok(s.operands.iter().enumerate().filter(|(n, _)| *n != 1).map(|(_, ty)| ty.clone()).collect())
}

/// Whether the last axis of the first operand has the parts of the attributes, and the operand `gain` fits them.
fn normed_parts(s: &Signature<'_>, gain: usize) -> Result<(), String> {
    let parts = s.attrs.get(attribute::PARTS);
    let Some(Dim::Fixed(width @ 1..)) = s.dims(0).last() else { return Err(s.mismatch()) };
    if !width.is_multiple_of(parts) {
        return Err(format!("`{}` cannot cut {width} channels into {parts} equal parts", s.op));
    }
    s.demand(s.operands.get(gain).is_none_or(|gain| gain.is_real() && *gain.dims() == [Dim::Fixed(width / parts)]))
}

/// `a` and `b` alike, the condition over a prefix of their axes.
pub fn select(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    let prefix = s.dims(1).get(..s.dims(0).len());
    s.demand(s.operands[1] == s.operands[2] && prefix == Some(s.dims(0)))?;
    Ok(vec![s.operands[1].clone()])
}

/// One truth value per row or position, from a number and a counter of steps.
pub fn halt_test(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    s.demand(s.operands[0].is_batched() && s.dims(0).len() <= 2 && s.dims(1).is_empty())?;
    Ok(vec![Type::Tensor(Elem::Bool, s.dims(0).to_vec())])
}

/// One truth value per row of what has a second axis.
pub fn any(s: &Signature<'_>) -> Result<Vec<Type>, String> {
    s.demand(s.operands[0].is_batched() && s.dims(0).len() >= 2)?;
    Ok(vec![Type::Tensor(Elem::Bool, s.dims(0)[..1].to_vec())])
}
