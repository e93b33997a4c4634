//! Multi-head attention, by what is attended to.

mod chunk;
mod input;
mod memory;
mod this;

use super::{Site, Slot};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::schema::{Bounds, DROPOUT, Default, Derived, Field, FieldKind, SIZE, float, int};

/// The keyword and its variants.
pub(super) const SLOT: Slot = Slot {
    name: "attend",
    doc: "Pre-norm multi-head attention with a residual connection, by what is attended to.",
    features: &[this::SELF, memory::MEMORY, chunk::CHUNK, input::INPUT],
    planned: &[],
};

const HEADS: Field = int("heads", Default::Required, SIZE, "number of heads");
const HEAD_WIDTH: Field = int(
    "head_width",
    Default::Derived(Derived::WidthPerHead),
    SIZE,
    "channels of each head's queries, keys and values",
);
const MASK: Field = Field {
    name: "mask",
    kind: FieldKind::Mask,
    default: Default::Word("none"),
    bounds: Bounds::ANY,
    doc: "which keys `j` a query `i` may see",
};
const BIAS: Field = Field {
    name: "bias",
    kind: FieldKind::Bias,
    default: Default::Word("none"),
    bounds: Bounds::ANY,
    doc: "number added to the score of query `i` and key `j`",
};
const ATTENTION_DROPOUT: Field =
    float("dropout", Default::Derived(Derived::ModelAttentionDropout), DROPOUT, "dropout on the attention weights");

/// The statement must stand inside another one.
fn needs_around(site: &Site<'_>, slot: &str, variant: &str, why: &str, problems: &mut Problems) {
    if !site.inside(slot, variant) {
        let title = site.block.title();
        let around = if variant.is_empty() { slot.to_owned() } else { format!("{slot} {variant}") };
        problems.report(
            Diagnostic::new(
                Kind::MisplacedStatement,
                site.block.span,
                format!("`{title}` can only stand inside `{around}`"),
            )
            .label(why),
        );
    }
}
