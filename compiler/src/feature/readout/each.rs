//! Readout of every token.

use super::fits_task;
use crate::diag::{Diagnostic, Kind, Problems};
use crate::feature::{Feature, Lowering, Site};
use crate::schema::word;

/// The feature.
pub(super) fn each() -> Feature {
    Feature {
        fields: vec![word(
            "sees",
            &["past", "all"],
            "past",
            "`past`: an answer depends only on the tokens up to its own; the defaults of masks and means follow, \
            and the compiler proves it. `all`: on any token",
        )],
        check,
        ..Feature::row(
            "readout",
            "each",
            "The state of every token, for tasks with an answer per token.",
            "rtc",
            Lowering::Readout(|_, _, states| Ok(states)),
        )
    }
}

fn check(site: &Site<'_>, problems: &mut Problems) {
    fits_task(site, problems);
    answers_are_tokens(site, problems);
    if site.catalog.next_token && site.block.word("sees") == Some("all") {
        let task = site.task();
        problems.report(
            Diagnostic::new(
                Kind::NeedsPast,
                site.place("sees"),
                format!("{task} asks for later tokens, which this model may see"),
            )
            .label("the answers can be read off the input")
            .help("use `readout each { sees: past }`"),
        );
    }
}

/// START and END are positions without an answer.
fn answers_are_tokens(site: &Site<'_>, problems: &mut Problems) {
    let Some(embed) = site.parent().and_then(|root| root.child("embed")) else { return };
    if embed.word("tokens") == Some("start_end") {
        problems.report(
            Diagnostic::new(Kind::FramedAnswers, site.block.span, "`readout each` has no answer for START and END")
                .note(embed.span, "puts START and END around every row")
                .help("use `embed.tokens: none`"),
        );
    }
}
