//! Which beams of the chunks of a fold belong together on its next level.

use super::{Feature, Lowering, Slot};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::feature::Site;
use crate::schema::{Field, Schema, word};

/// The keyword and its variants.
pub(super) const SLOT: Slot = Slot {
    name: "align",
    doc: "Which beams of the chunks of a fold belong together on its next level.",
    features: &[SAMPLED, UNIFORM, STRING, NONE],
    planned: &[],
};

const FIRST: Field = word(
    "first",
    &["best", "drawn"],
    "best",
    "what the first slot of a chunk gets: its best beam, or a draw like the others",
);

const SAMPLED: Feature = align(
    "sampled",
    "Every chunk fills its slots with draws from its beams, with replacement, in proportion to what their scores say.",
    &[FIRST],
);
const UNIFORM: Feature =
    align("uniform", "Every chunk fills its slots with draws that are as likely for every beam.", &[FIRST]);
const STRING: Feature =
    align("string", "The beams of a rank belong together; a rank that a chunk does not have ends.", &[]);
const NONE: Feature =
    align("none", "None: every chunk gives the mean of its roots, as a search does that stands alone.", &[]);

const fn align(variant: &'static str, doc: &'static str, fields: &'static [Field]) -> Feature {
    Feature { schema: Schema { slot: "align", variant, doc, fields, children: &[] }, check, lower: Lowering::Setting }
}

fn check(site: &Site<'_>, problems: &mut Problems) {
    let Some(fold) = site.parent() else { return };
    if site.block.variant == "none" || super::recursion::aligned(fold).is_some() {
        return;
    }
    problems.report(
        Diagnostic::new(
            Kind::AlignNeedsBeams,
            site.block.span,
            format!("`{}` has no beams to bring together", site.block.title()),
        )
        .label("only a `recurse beam` that stands alone in the fold, with no `leaf` of its own, hands on its beams")
        .help("take it out, or what stands beside the search"),
    );
}
