//! The texts about problem kinds: `rtc explain`, `docs/diagnostics.md`, and the test that each example of the table
//! triggers exactly its kind.

use std::fmt::Write;

pub use super::table::Kind;

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The spec can't be built.
    Error,
    /// The spec can be built, but is probably not what was meant.
    Warning,
}

impl Severity {
    /// `error` or `warning`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

impl Kind {
    /// The kind of a code.
    pub fn named(code: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|kind| kind.code() == code)
    }
}

/// The text of `rtc explain CODE`; `None` for an unknown code.
pub fn explain(code: &str) -> Option<String> {
    let kind = Kind::named(code)?;
    let indent = |text: &str| text.lines().map(|line| format!("    {line}\n")).collect::<String>();
    Some(format!(
        "{}[{}]: {}\n\n{}\n\nWrong:\n\n{}\nRight:\n\n{}",
        kind.severity().word(),
        kind.code(),
        kind.summary(),
        kind.doc(),
        indent(kind.bad()),
        indent(kind.good())
    ))
}

/// The reference page of all kinds, `docs/diagnostics.md`.
pub fn markdown() -> String {
    let mut page = String::from(
        "# Diagnostics\n\nEvery problem that `rtc check` reports has one of these codes; `rtc explain CODE` prints \
         its section. This page is generated from the table in `compiler/src/diag/table.rs`.\n",
    );
    for kind in Kind::ALL {
        let _ = write!(
            page,
            "\n## {}\n\n**{}.** {} {}\n\nWrong:\n\n```rt\n{}```\n\nRight:\n\n```rt\n{}```\n",
            kind.code(),
            if kind.severity() == Severity::Error { "Error" } else { "Warning" },
            kind.summary(),
            kind.doc(),
            kind.bad(),
            kind.good()
        );
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{NoFiles, check_all};
    use crate::diag::{Style, render};
    use crate::schema::{Catalog, Objective};
    use crate::source::Source;

    #[test]
    fn examples_show_their_kind() {
        let classify = Catalog { objective: Some(Objective::Classify), ..Catalog::default() };
        let next = Catalog { objective: Some(Objective::Each), next_token: true, ..Catalog::default() };
        let mut wrong = String::new();
        for kind in Kind::ALL {
            let per_token = [Kind::LeaksFuture, Kind::NeedsPast, Kind::FramedAnswers].contains(kind);
            let catalog = if per_token { &next } else { &classify };
            for (text, expected) in [(kind.bad(), vec![*kind]), (kind.good(), Vec::new())] {
                let (_, problems, sources) = check_all(&NoFiles, Source::new("example.rt", text), catalog);
                let found: Vec<Kind> = problems.kinds().into_iter().collect();
                if found != expected {
                    let report = render(&problems, &sources, Style::Plain);
                    let _ = writeln!(wrong, "{}: expected {expected:?}\n{text}\n{report}", kind.code());
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong}");
    }

    #[test]
    fn codes_are_words_and_distinct() {
        for (n, kind) in Kind::ALL.iter().enumerate() {
            assert!(kind.code().bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{}", kind.code());
            assert!(Kind::ALL[..n].iter().all(|other| other.code() != kind.code()), "{}", kind.code());
            assert_eq!(Kind::named(kind.code()), Some(*kind));
        }
    }
}
