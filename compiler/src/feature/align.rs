//! Alignment: the combination of beams of neighbouring chunks on the next level of a fold.

use super::{Feature, Lowering, Slot};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::feature::Site;
use crate::schema::{Field, word};

/// The keyword and its variants.
pub(super) fn slot() -> Slot {
    let first = || {
        let doc = "the first slot of a chunk: its best beam, or a draw like the others";
        vec![word("first", &["best", "drawn"], "best", doc)]
    };
    let features = vec![
        align(
            "sampled",
            "Every chunk fills its slots with draws from its beams, with replacement, in proportion to the softmax of their scores.",
            "Ray Chowdhury and Caragea 2023 (recursion in recursion), Eq. 8 and 9, arXiv:2311.04449",
            first(),
        ),
        align(
            "uniform",
            "Every chunk fills its slots with uniform draws from its beams.",
            "Ray Chowdhury and Caragea 2023 (recursion in recursion), Appendix C, arXiv:2311.04449",
            first(),
        ),
        align(
            "string",
            "Beams of equal rank belong together; a rank that some chunk lacks ends.",
            "Ray Chowdhury and Caragea 2023 (recursion in recursion), Section 3.1, arXiv:2311.04449",
            vec![],
        ),
        align("none", "No alignment: every chunk gives the mean of its roots, like a single search.", "rtc", vec![]),
    ];
    Slot::new("align", "How the beams of neighbouring chunks are combined on the next level of a fold.", features)
}

fn align(variant: &'static str, doc: &'static str, source: &'static str, fields: Vec<Field>) -> Feature {
    Feature { fields, check, ..Feature::row("align", variant, doc, source, Lowering::Setting) }
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
