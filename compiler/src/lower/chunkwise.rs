//! The chunk recurrence: chunks from left to right with a memory carried between them (notes 1.5).

use super::builder::{Halted, Lower, Site, need};
use super::layers;
use crate::ir::graph::{Misfit, NewNode, RegionId, Value};
use crate::ir::ops::Op;
use crate::ir::types::{Attr, Attrs, Dim, Type};
use crate::spec::Block;

/// Lowers `recur chunkwise`: gives the chunk states in the order of the row, and leaves the final memory behind.
pub(super) fn recur(l: &mut Lower<'_>, block: &Block, site: &Site) -> Result<Value, Misfit> {
    let memory = need(block.child("memory"), block, "memory")?;
    let start = l.scoped("memory", |l| slots(l, memory, site.state))?;
    let over = ragged_axis(l, site.state)?;
    let axis = l.chunk_axis();
    let region = l.graph().add_region();
    let memory_type = l.graph().ty(start).clone();
    let m = l.graph().add_param(region, memory_type.clone(), "memory");
    let chunk_type = with_axis(l.graph().ty(site.state), &axis);
    let x = l.graph().add_param(region, chunk_type, "chunk");
    let ((states, next), halted) = l.inside(region, |l| {
        let global_positions = block.word("positions") == Some("global");
        let inner = Site { memory: Some(m), global_positions, ..Site::at(x) };
        let states = layers::group(l, block, &inner)?;
        let next = match block.child("update") {
            Some(update) => l.scoped("update", |l| update_memory(l, update, m, states))?,
            None => m,
        };
        Ok((states, next))
    })?;
    let sums = row_sums(l, region, &halted, site.state)?;
    let carried = 1 + sums.inits.len();
    l.graph().move_param_last(region, x);
    let mut yields = vec![next];
    yields.extend(&sums.yields);
    yields.push(states);
    l.inside(region, |l| l.emit(Op::Yield, &yields, Attrs::new()))?;
    let mut operands = vec![start];
    operands.extend(&sums.inits);
    operands.push(site.state);
    let types = operands.iter().map(|v| l.graph().ty(*v).clone()).collect();
    let attrs = chunk_attrs(block, carried, &over, &axis)?;
    let out =
        l.emit_loop(NewNode { op: Op::Chunks, operands, attrs, types, body: Some(region), label: String::new() })?;
    l.graph().set_hint(out[0], "memory");
    l.memory = Some(out[0]);
    mean_over_chunks(l, &halted, &out)?;
    Ok(out[carried])
}

/// The starting memory: one trainable array for all rows.
fn slots(l: &mut Lower<'_>, memory: &Block, like: Value) -> Result<Value, Misfit> {
    let slots = Dim::Fixed(need(memory.int("slots"), memory, "slots")?);
    let init = match memory.word("init") {
        Some("normal") => Attr::call("normal", [memory.float("std").unwrap_or(0.02).into()]),
        _ => "zeros".into(),
    };
    let width = Dim::Fixed(l.width);
    let start = l.param("slots", [slots, width], init)?;
    l.one(Op::Expand, &[start, like], Attrs::new())
}

fn ragged_axis(l: &mut Lower<'_>, state: Value) -> Result<String, Misfit> {
    let axis = l.graph().ty(state).ragged().map(str::to_owned);
    axis.ok_or_else(|| Misfit("only a sequence can be cut into chunks".to_owned()))
}

fn with_axis(ty: &Type, axis: &str) -> Type {
    let mut dims = ty.dims().to_vec();
    dims[1] = Dim::sym(axis);
    Type::real(dims)
}

fn chunk_attrs(block: &Block, carried: usize, over: &str, axis: &str) -> Result<Attrs, Misfit> {
    let cut = block.word("cut").unwrap_or("position");
    let mut attrs =
        Attrs::from([("carried", carried.into()), ("cut", cut.into()), ("over", over.into()), ("axis", axis.into())]);
    match (block.int("size"), block.int("chunks")) {
        (_, Some(count)) => attrs.insert("count", count.into()),
        (size, None) => attrs.insert("size", need(size, block, "size")?.into()),
    };
    Ok(attrs)
}

/// Each layer: `a = m + MHA(LN m, LN chunk)`, then `a + FF(LN a)` (notes 1.2, "Memory-update block").
fn update_memory(l: &mut Lower<'_>, update: &Block, memory: Value, states: Value) -> Result<Value, Misfit> {
    let mut m = memory;
    for n in 0..update.int("layers").unwrap_or(1) {
        let site = Site { chunk: Some(states), ..Site::at(m) };
        m = l.scoped(&n.to_string(), |l| layers::group(l, update, &site))?;
    }
    Ok(m)
}

/// Sums over the chunks of a row: for every halting recurrence its cost and depth, and the number of chunks.
struct RowSums {
    inits: Vec<Value>,
    yields: Vec<Value>,
}

fn row_sums(l: &mut Lower<'_>, region: RegionId, halted: &[Halted], like: Value) -> Result<RowSums, Misfit> {
    let mut sums = RowSums { inits: vec![], yields: vec![] };
    if halted.is_empty() {
        return Ok(sums);
    }
    let zero = l.full(like, 0.0, 1)?;
    let ty = l.graph().ty(zero).clone();
    for (value, hint) in halted.iter().flat_map(|h| [(h.cost, "cost"), (h.depth, "depth")]) {
        let sum = l.graph().add_param(region, ty.clone(), hint);
        let (next, _) = l.inside(region, |l| l.one(Op::Add, &[sum, value], Attrs::new()))?;
        sums.inits.push(zero);
        sums.yields.push(next);
    }
    let seen = l.graph().add_param(region, ty, "seen");
    let (next, _) = l.inside(region, |l| l.one(Op::Offset, &[seen], Attrs::from([("by", 1.0.into())])))?;
    sums.inits.push(zero);
    sums.yields.push(next);
    Ok(sums)
}

/// A row's cost is the mean over its chunks (notes 1.3, "ACT loss").
fn mean_over_chunks(l: &mut Lower<'_>, halted: &[Halted], out: &[Value]) -> Result<(), Misfit> {
    let seen = out[2 * halted.len() + usize::from(!halted.is_empty())];
    for (n, one) in halted.iter().enumerate() {
        let cost = l.one(Op::Div, &[out[1 + 2 * n], seen], Attrs::new())?;
        let depth = l.one(Op::Div, &[out[2 + 2 * n], seen], Attrs::new())?;
        l.halted.push(Halted { cost, depth, weight: one.weight });
    }
    Ok(())
}
