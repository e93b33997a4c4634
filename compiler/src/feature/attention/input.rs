//! Attention to the input of the recurrence.

use super::{ATTENTION_DROPOUT, BIAS, BIAS_INIT, HEAD_WIDTH, HEADS, MASK, PROJECTION_BIAS, TALKING, across, bias};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::feature::{Feature, Lowering, Site};

/// The feature.
pub(super) fn input() -> Feature {
    Feature {
        fields: vec![HEADS, HEAD_WIDTH, MASK, BIAS, BIAS_INIT, TALKING, PROJECTION_BIAS, ATTENTION_DROPOUT],
        check,
        ..Feature::row(
            "attend",
            "input",
            "Tokens attend to the input of the depth-wise recurrence.",
            "Vaswani et al. 2017, Section 3.2.3, arXiv:1706.03762",
            Lowering::Layer(|l, block, place| across(l, block, place, place.input)),
        )
    }
}

/// The input is that of a depth recurrence. A chunk has none, of a recurrence or a fold: its positions are not the row's.
fn check(site: &Site<'_>, problems: &mut Problems) {
    bias::check(site, problems);
    let around = site.ancestors.iter().rev().find(|b| ["recur", "recurse"].contains(&&*b.slot));
    if around.is_none_or(|b| b.variant != "depthwise") {
        problems.report(
            Diagnostic::new(
                Kind::MisplacedStatement,
                site.block.span,
                "`attend input` can only stand inside `recur depthwise`",
            )
            .label("there is no input here besides the states"),
        );
    }
}
