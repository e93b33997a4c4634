//! Problems as editors show them, by the addresses of the texts that they lie in.

use std::collections::BTreeMap;

use lsp_types::{Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, Location, NumberOrString, Range};
use rtc_compiler::check::OF_PROGRAM;
use rtc_compiler::diag::{self, Severity};
use rtc_compiler::source::Span;

use crate::world::CheckedDocument;

/// Problems by addresses.
pub(crate) type ProblemReports = BTreeMap<String, Vec<Diagnostic>>;

/// The problems of a document and of the files that it uses. The document has an entry in any case.
pub(crate) fn reports(checked: &CheckedDocument) -> ProblemReports {
    let mut found = ProblemReports::from([(checked.root().uri.clone(), vec![])]);
    for problem in checked.problems.iter() {
        let own = problem.span.and_then(|span| checked.unit(span)).filter(|unit| !unit.uri.starts_with(OF_PROGRAM));
        let unit = own.unwrap_or(checked.root());
        found.entry(unit.uri.clone()).or_default().push(report(checked, problem));
    }
    found
}

/// A problem. What has no place in any of the texts stands at the start of the document.
pub(crate) fn report(checked: &CheckedDocument, problem: &diag::Diagnostic) -> Diagnostic {
    let place = |span: Span| checked.unit(span).map(|unit| (unit.uri.as_str(), unit.text.area_of(span)));
    let related = |(span, label): &(Span, String)| {
        let (uri, range) = place(*span)?;
        Some(DiagnosticRelatedInformation { location: Location::new(uri.parse().ok()?, range), message: label.clone() })
    };
    let related: Vec<_> = problem.notes.iter().filter_map(related).collect();
    let lines =
        std::iter::once(&problem.message).chain([&problem.label]).chain(&problem.help).filter(|line| !line.is_empty());
    Diagnostic {
        range: problem.span.and_then(place).map_or_else(Range::default, |(_, range)| range),
        severity: Some(match problem.kind.severity() {
            Severity::Error => DiagnosticSeverity::ERROR,
            Severity::Warning => DiagnosticSeverity::WARNING,
        }),
        code: Some(NumberOrString::String(problem.kind.code().to_owned())),
        source: Some("rtc".to_owned()),
        message: lines.map(String::as_str).collect::<Vec<_>>().join("\n"),
        related_information: (!related.is_empty()).then_some(related),
        ..Diagnostic::default()
    }
}
