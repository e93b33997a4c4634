//! Layers: attention, feed-forward, gate, stacks, and groups of them.

use super::builder::{LinearInit, Lower, Site, need};
use super::{chunkwise, depthwise};
use crate::ir::graph::{Misfit, Value};
use crate::ir::ops::Op;
use crate::ir::types::{Attr, Attrs, Dim};
use crate::spec::Block;

/// Runs the statements of a group in order. A gate mixes the group's result with its input.
pub(super) fn group(l: &mut Lower<'_>, block: &Block, site: &Site) -> Result<Value, Misfit> {
    let mut site = site.clone();
    let input = site.state;
    let mut normed = None;
    let names = names(block);
    for (child, name) in block.children.iter().zip(&names) {
        match child.slot {
            "attend" => site.state = l.scoped(name, |l| attend(l, child, &site))?,
            "feedforward" => {
                let (out, z) = l.scoped(name, |l| feedforward(l, child, site.state))?;
                (site.state, normed) = (out, Some(z));
            }
            "stack" => site.state = l.scoped(name, |l| stack(l, child, &site))?,
            "recur" if child.variant == "depthwise" => {
                site.state = l.scoped(name, |l| depthwise::recur(l, child, &site))?;
            }
            "recur" => site.state = l.scoped(name, |l| chunkwise::recur(l, child, &site))?,
            _ => {}
        }
    }
    match (block.child("gate"), normed) {
        (Some(gate), Some(z)) if gate.variant == "mlp" => l.scoped("gate", |l| mix(l, gate, z, site.state, input)),
        _ => Ok(site.state),
    }
}

/// Names of the statements of a group: the variant or the slot, numbered where it occurs again.
fn names(block: &Block) -> Vec<String> {
    let own = |c: &Block| if c.variant.is_empty() { c.slot.to_owned() } else { c.variant.to_owned() };
    let all: Vec<String> = block.children.iter().map(own).collect();
    let number = |n: usize| all[..n].iter().filter(|o| **o == all[n]).count() + 1;
    let name = |n: usize| if number(n) == 1 { all[n].clone() } else { format!("{}_{}", all[n], number(n)) };
    (0..all.len()).map(name).collect()
}

/// `copies` groups one after another, each with its own parameters.
fn stack(l: &mut Lower<'_>, block: &Block, site: &Site) -> Result<Value, Misfit> {
    let mut site = site.clone();
    for n in 0..need(block.int("copies"), block, "copies")? {
        site.state = l.scoped(&n.to_string(), |l| group(l, block, &site))?;
    }
    Ok(site.state)
}

/// `h + drop(MHA(LN h, LN source))` (notes 1.2). Self-attention norms queries and keys with the same parameters; attention
/// to something else has a norm of its own for the source.
fn attend(l: &mut Lower<'_>, block: &Block, site: &Site) -> Result<Value, Misfit> {
    let missing = || Misfit(format!("`attend {}` has nothing to attend to here", block.variant));
    let (gain, bias) = l.norm_params("norm")?;
    let queries = l.norm_with(site.state, gain, bias)?;
    let source = match block.variant {
        "self" => match site.source {
            Some(source) => l.norm_with(source, gain, bias)?,
            None => queries,
        },
        "memory" => l.norm(site.memory.ok_or_else(missing)?, "source_norm")?,
        "chunk" => l.norm(site.chunk.ok_or_else(missing)?, "source_norm")?,
        _ => l.norm(site.input.ok_or_else(missing)?, "source_norm")?,
    };
    let mixed = heads(l, block, site, queries, source)?;
    let mixed = l.dropout(mixed, l.residual_dropout)?;
    l.one(Op::Add, &[site.state, mixed], Attrs::new())
}

/// Projections, positions, attention, output projection. No biases (notes D10).
fn heads(l: &mut Lower<'_>, block: &Block, site: &Site, x: Value, source: Value) -> Result<Value, Misfit> {
    let heads = need(block.int("heads"), block, "heads")?;
    let width = heads * need(block.int("head_width"), block, "head_width")?;
    let init = LinearInit::Projection(std::f64::consts::FRAC_1_SQRT_2);
    let mut q = l.linear(x, "query", Dim::Fixed(width), &init)?;
    let mut k = l.linear(source, "key", Dim::Fixed(width), &init)?;
    let v = l.linear(source, "value", Dim::Fixed(width), &init)?;
    if let Some(position @ ("xpos" | "rope")) = block.word("position") {
        let kinds = if position == "xpos" { ["xpos_query", "xpos_key"] } else { ["rope", "rope"] };
        q = rotate(l, q, kinds[0], heads, site)?;
        k = rotate(l, k, kinds[1], heads, site)?;
    }
    let mask = match block.expr("mask") {
        Some(mask) => Attr::from(mask),
        None if l.causal() && block.variant == "self" => "causal".into(),
        None => "all".into(),
    };
    let mut attrs = Attrs::from([("heads", heads.into()), ("mask", mask)]);
    let dropout = block.float("dropout").unwrap_or(0.0);
    if dropout > 0.0 {
        attrs.extend([("dropout", dropout.into()), ("stream", l.stream())]);
    }
    let mut operands = vec![q, k, v];
    operands.extend(site.step.filter(|_| block.expr("mask").is_some()));
    let mixed = l.one(Op::Attention, &operands, attrs)?;
    let out = Dim::Fixed(l.width);
    l.linear(mixed, "output", out, &LinearInit::Projection(1.0))
}

fn rotate(l: &mut Lower<'_>, x: Value, kind: &str, heads: usize, site: &Site) -> Result<Value, Misfit> {
    let origin = if site.global_positions { "row" } else { "axis" };
    let attrs = Attrs::from([
        ("kind", kind.into()),
        ("heads", heads.into()),
        ("transpose", "false".into()),
        ("origin", origin.into()),
    ]);
    l.one(Op::Rotate, &[x], attrs)
}

/// `h + FF(LN h)` and `LN h`, which the gate shares (notes 1.2, D12).
fn feedforward(l: &mut Lower<'_>, block: &Block, h: Value) -> Result<(Value, Value), Misfit> {
    let z = l.norm(h, "norm")?;
    let y = two_layers(l, block, z)?;
    Ok((l.one(Op::Add, &[y, h], Attrs::new())?, z))
}

/// Linear, dropout, activation, linear, dropout: the dropout stands before the activation (notes 1.1).
fn two_layers(l: &mut Lower<'_>, block: &Block, z: Value) -> Result<Value, Misfit> {
    let hidden = Dim::Fixed(need(block.int("hidden"), block, "hidden")?);
    let init = LinearInit::of(block);
    let dropout = block.float("dropout").unwrap_or(0.0);
    let x = l.linear(z, "up", hidden, &init)?;
    let x = l.dropout(x, dropout)?;
    let act = if block.word("activation") == Some("relu") { Op::Relu } else { Op::Gelu };
    let x = l.one(act, &[x], Attrs::new())?;
    let width = Dim::Fixed(l.width);
    let x = l.linear(x, "down", width, &init)?;
    l.dropout(x, dropout)
}

/// `g u + (1 - g) h` with `g = sigmoid(MLP(z))`: u is the group's result, h its input (halting paper, Eq. 9-11).
fn mix(l: &mut Lower<'_>, gate: &Block, z: Value, u: Value, h: Value) -> Result<Value, Misfit> {
    let logits = two_layers(l, gate, z)?;
    let g = l.one(Op::Sigmoid, &[logits], Attrs::new())?;
    l.one(Op::Lerp, &[g, u, h], Attrs::new())
}
