//! Layer norm as a layer of its own.

use super::{Feature, Lowering, Slot};
use crate::schema::{Field, word};

/// The keyword and its only form.
pub(super) const SLOT: Slot =
    Slot { name: "norm", doc: "Layer norm as a layer of its own.", features: &[NORM], planned: &[] };

const NORM: Feature = Feature {
    slot: "norm",
    variant: "",
    doc: "Layer norm of the state, for example after pre-norm layers.",
    source: "Ba et al. 2016 (layer normalization), arXiv:1607.06450",
    ..Feature::plain(Lowering::Layer(|l, _, place| l.norm(place.state, "norm")))
};

/// Where the norm of a layer with a residual connection stands.
pub(super) const PLACE: Field = word(
    "norm",
    &["pre", "post"],
    "pre",
    "`pre`: `x + f(norm x)`; `post`: `norm(x + f(x))`, as in the original Transformer",
);
