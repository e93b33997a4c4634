//! Readout of the root of a fold.

use super::fits_task;
use crate::diag::{Diagnostic, Kind, Problems};
use crate::feature::{Feature, Lowering, Site};

/// The feature.
pub(super) fn root() -> Feature {
    Feature {
        check,
        ..Feature::row(
            "readout",
            "root",
            "The root vector of the `recurse` at the end of the model.",
            "rtc",
            Lowering::Readout(|_, _, state| Ok(state)),
        )
    }
}

fn check(site: &Site<'_>, problems: &mut Problems) {
    fits_task(site, problems);
    if site.parent().is_some_and(|root| root.child("recurse").is_none()) {
        problems.report(
            Diagnostic::new(Kind::ReadoutNeedsRecurse, site.block.span, "there is no root to read out")
                .label("needs a `recurse` as the last layer of the model")
                .help("add `recurse balanced { ... }`, or use `readout mean`, `end`, `first` or `max`"),
        );
    }
}
