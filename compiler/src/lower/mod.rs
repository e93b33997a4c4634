//! From a spec to a forward graph: walks the blocks and emits their equations.
//!
//! Every parameter is named after its place in the spec (`depthwise.self.query.weight`); every node carries that place as
//! its label, which is what `rtc diff` speaks in.

mod builder;
mod chunkwise;
mod depthwise;
mod head;
mod layers;
mod objective;

pub use crate::schema::Objective;
pub use builder::{Binding, Lower, Site};
pub use objective::attach_loss;

use crate::ir::graph::{Graph, Misfit};
use crate::ir::ops::Op;
use crate::ir::types::{Attr, Attrs, BATCH, Dim, Elem, LENGTH, Type, VOCAB};
use crate::spec::{Block, Spec};

/// The forward graph of a spec. Inputs: `tokens: u32[batch, length]`. Results, by name: `logits` and, for a model that
/// halts, `penalty` (weighted cost), `halting_cost` and `depth` (both per row).
///
/// # Errors
/// A spec that `check` accepted lowers without errors; a `Misfit` is a fault of a lowering rule.
pub fn lower(spec: &Spec, binding: &Binding) -> Result<Graph, Misfit> {
    let mut l = Lower::new(&spec.name, binding);
    l.residual_dropout = spec.root.float("dropout").unwrap_or(0.0);
    let embed = spec.root.child("embed").ok_or_else(|| Misfit("a model needs `embed`".to_owned()))?;
    let state = l.scoped("embed", |l| embedding(l, embed))?;
    let site = Site::at(state);
    let state = layers::group(&mut l, &spec.root, &site)?;
    let readout = spec.root.child("readout").ok_or_else(|| Misfit("a model needs `readout`".to_owned()))?;
    let pooled = l.scoped("readout", |l| head::readout(l, readout, state))?;
    let logits = l.scoped("head", |l| head::classifier(l, spec.root.child("head"), pooled))?;
    head::finish(&mut l, logits)?;
    Ok(l.into_graph())
}

/// Table lookup without scaling (notes 1.1), dropout on the tokens, then START and END where asked for.
fn embedding(l: &mut Lower<'_>, block: &Block) -> Result<crate::ir::graph::Value, Misfit> {
    let ty = Type::Tensor(Elem::Index, vec![Dim::sym(BATCH), Dim::sym(LENGTH)]);
    let tokens = l.leaf(Op::Input, "tokens", Attrs::new(), ty)?;
    let width = Dim::Fixed(l.width_of(block)?);
    let vocab = l.binding().vocab.map_or(Dim::sym(VOCAB), Dim::Fixed);
    let std = block.float("init").unwrap_or(0.02);
    let table = l.param("table", [vocab, width.clone()], Attr::call("normal", [std.into()]))?;
    let x = l.one(Op::Embed, &[tokens, table], Attrs::new())?;
    let x = l.dropout(x, block.float("dropout").unwrap_or(0.0))?;
    if block.word("tokens") != Some("start_end") {
        return Ok(x);
    }
    let start = l.param("start", [width.clone()], Attr::call("normal", [1.0.into()]))?;
    let end = l.param("end", [width], Attr::call("normal", [1.0.into()]))?;
    l.one(Op::Frame, &[x, start, end], Attrs::new())
}
