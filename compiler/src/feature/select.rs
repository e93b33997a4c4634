//! What a search keeps, and how what it keeps is combined on the next level of a fold.

use super::{Feature, Lowering, Slot, recursion};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::feature::Site;
use crate::schema::{StatementField, word};

/// The keyword of the selection and its variants.
pub(super) fn slot() -> Slot {
    let select = |variant, check, doc| {
        let noise = "`gumbel`: in training, draws from the softmax of the scores; `none`: always the best";
        let fields = vec![word("noise", &["gumbel", "none"], "gumbel", noise)];
        let source = "Ray Chowdhury and Caragea 2023 (beam tree), arXiv:2305.19999";
        Feature { fields, check, ..Feature::row("select", variant, doc, source, Lowering::Setting) }
    };
    let features = vec![
        select("top_k", super::nothing_more, "The best by the sum of log-probabilities."),
        select(
            "one_soft",
            check_soft,
            "As `top_k`, but the last beam is the weighted mean of all candidates without a beam. Needs `score parent`.",
        ),
    ];
    Slot::new("select", "Which partial trees a search keeps.", features)
}

/// A mean of beams needs all their parents.
fn check_soft(site: &Site<'_>, problems: &mut Problems) {
    let Some(score) = site.parent().and_then(|search| search.child("score")) else { return };
    if score.feature.values.len() == 1 {
        return;
    }
    let message = "`select one_soft` mixes what all pairs are joined to";
    problems.report(
        Diagnostic::new(Kind::SoftNeedsParents, site.block.span, message)
            .note(score.span, "this joins only what is chosen")
            .help("use `score parent`, or `select top_k`"),
    );
}

/// The keyword of the alignment and its variants.
pub(super) fn align() -> Slot {
    let align = |variant, doc, source, fields: Vec<StatementField>| Feature {
        fields,
        check: check_align,
        ..Feature::row("align", variant, doc, source, Lowering::Setting)
    };
    let doc = "the first slot of a chunk: its best beam, or a draw like the others";
    let first = || vec![word("first", &["best", "drawn"], "best", doc)];
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

fn check_align(site: &Site<'_>, problems: &mut Problems) {
    let Some(fold) = site.parent() else { return };
    if site.block.variant == "none" || recursion::aligned(fold).is_some() {
        return;
    }
    let message = format!("`{}` has no beams to bring together", site.block.title());
    problems.report(
        Diagnostic::new(Kind::AlignNeedsBeams, site.block.span, message)
            .label("only a `recurse beam` that stands alone in the fold, with no `leaf` of its own, hands on its beams")
            .help("take it out, or what stands beside the search"),
    );
}
