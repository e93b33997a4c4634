//! Attention of the row to itself.

use super::{ATTENTION_DROPOUT, BIAS, HEAD_WIDTH, HEADS, MASK};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::feature::{Feature, Site};
use crate::schema::{Bounds, Default, Field, FieldKind, Schema};

/// The feature.
pub(super) const SELF: Feature = Feature {
    schema: Schema {
        slot: "attend",
        variant: "self",
        doc: "Tokens attend to the tokens of their row, inside a chunk-wise recurrence to those of their chunk.",
        fields: &[
            HEADS,
            HEAD_WIDTH,
            Field {
                name: "position",
                kind: FieldKind::Word(&["none", "xpos", "rope"], &["sinusoidal", "relative_xl"]),
                default: Default::Word("none"),
                bounds: Bounds::ANY,
                doc: "`rope` turns queries and keys by their positions; `xpos` also lets distant ones decay",
            },
            MASK,
            BIAS,
            ATTENTION_DROPOUT,
        ],
        children: &[],
    },
    check,
};

fn check(site: &Site<'_>, problems: &mut Problems) {
    let Some(position) = site.block.word("position").filter(|p| *p != "none") else { return };
    if let Some(width) = site.block.int("head_width").filter(|w| w % 2 == 1) {
        problems.report(
            Diagnostic::new(
                Kind::Indivisible,
                site.place("position"),
                format!("`{position}` turns pairs of channels, but each head has {width}"),
            )
            .help("give an even `head_width`, or another number of heads"),
        );
    }
}
