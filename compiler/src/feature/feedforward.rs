//! The two-layer network on every token.

use super::{Feature, Lowering, Slot, norm};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::pointwise::{ACTIVATIONS, Pointwise};
use crate::ir::types::Dim;
use crate::lower::{LinearInit, Lower, Place, need};
use crate::schema::{DROPOUT, Default, Derived, SIZE, float, int, word};
use crate::spec::Block;

/// The keyword and its only form.
pub(super) const SLOT: Slot =
    Slot { name: "feedforward", doc: "A network applied to every token.", features: &[FEEDFORWARD], planned: &[] };

const FEEDFORWARD: Feature = Feature {
    slot: "feedforward",
    variant: "",
    doc: "Two-layer network on every token, with a residual connection, pre-norm by default.",
    source: "Vaswani et al. 2017, Section 3.3, arXiv:1706.03762; pre-norm: Xiong et al. 2020, arXiv:2002.04745; GELU: Hendrycks and Gimpel 2016, arXiv:1606.08415",
    fields: &[
        int("hidden", Default::Required, SIZE, "width between the two layers"),
        word(
            "activation",
            &ACTIVATIONS,
            "gelu",
            "the function between the two layers; `gelu` is exact, `gelu_tanh` its common approximation",
        ),
        word(
            "init",
            &["xavier", "fan_in"],
            "xavier",
            "how the weights start: Xavier-uniform, or uniform in 1/sqrt(inputs)",
        ),
        norm::PLACE,
        float("dropout", Default::Derived(Derived::ModelDropout), DROPOUT, "dropout after each of the two layers"),
    ],
    ..Feature::plain(Lowering::Layer(lower))
};

/// `h + FF(z)` with `z = LN h`, which a gate behind the layer shares; post-norm, `LN(h + FF(h))`.
fn lower(l: &mut Lower<'_>, block: &Block, place: &Place) -> Result<Value, InvalidNode> {
    if block.word(norm::PLACE.name) == Some("post") {
        let y = two_layers(l, block, place.state)?;
        let sum = l.map(Pointwise::Add, &[y, place.state])?;
        let out = l.norm(sum, "norm")?;
        l.normed = Some(out);
        return Ok(out);
    }
    let z = l.norm(place.state, "norm")?;
    l.normed = Some(z);
    let y = two_layers(l, block, z)?;
    l.map(Pointwise::Add, &[y, place.state])
}

/// The function between two layers: that of the field `activation`, and GELU for a feature without the field.
pub(super) fn activation(block: &Block) -> Pointwise {
    block.word("activation").and_then(Pointwise::named).unwrap_or(Pointwise::Gelu)
}

/// Linear, dropout, activation, linear, dropout: the first dropout stands before the activation, as in the papers' code.
pub(super) fn two_layers(l: &mut Lower<'_>, block: &Block, z: Value) -> Result<Value, InvalidNode> {
    let hidden = Dim::Fixed(need(block.int("hidden"), block, "hidden")?);
    let dropout = need(block.float("dropout"), block, "dropout")?;
    let init = LinearInit::of(block);
    let x = l.linear(z, "up", hidden, &init)?;
    let x = l.dropout(x, dropout)?;
    let x = l.map(activation(block), &[x])?;
    let width = Dim::Fixed(l.width);
    let x = l.linear(x, "down", width, &init)?;
    l.dropout(x, dropout)
}
