//! A gate from a two-layer network.

use crate::feature::feedforward::two_layers;
use crate::feature::{Feature, Lowering, Mix};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::pointwise::Pointwise;
use crate::lower::{Lower, need};
use crate::schema::{DROPOUT, Default, Derived, SIZE, float, int, word};
use crate::spec::Block;

/// The feature.
pub(super) const MLP: Feature = Feature {
    slot: "gate",
    variant: "mlp",
    doc: "`g * result + (1 - g) * input`, channel by channel, with g the sigmoid of a two-layer network on the \
          normed input of the closing feedforward.",
    source: "Ray Chowdhury and Caragea 2024, Eq. 9 to 11, arXiv:2402.00976",
    fields: &[
        int("hidden", Default::Required, SIZE, "width between the two layers"),
        word(
            "init",
            &["xavier", "fan_in"],
            "xavier",
            "how the weights start: Xavier-uniform, or uniform in 1/sqrt(inputs)",
        ),
        float("dropout", Default::Derived(Derived::ModelDropout), DROPOUT, "dropout after each of the two layers"),
    ],
    ..Feature::plain(Lowering::Gate(lower))
};

/// `g u + (1 - g) h` with `g = sigmoid(MLP(z))`: u is the result of the group, h its input, z the normed input of its
/// closing feed-forward ("Investigating Recurrent Transformers with Dynamic Halt", Eq. 9-11).
fn lower(l: &mut Lower<'_>, block: &Block, mix: &Mix) -> Result<Value, InvalidNode> {
    let normed = need(mix.normed, block, "feedforward before it")?;
    let logits = two_layers(l, block, normed)?;
    let g = l.map(Pointwise::Sigmoid, &[logits])?;
    l.map(Pointwise::Lerp, &[g, mix.result, mix.input])
}
