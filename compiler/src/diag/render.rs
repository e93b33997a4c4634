//! Reports for people (through annotate-snippets) and for programs (JSON).

use std::ops::Range;

use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Renderer, Snippet};
use serde_json::{Value, json};

use super::{Diagnostic, Problems, Severity};
use crate::source::{Source, SourceId, Sources, Span};

/// How a report looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Text alone.
    #[default]
    Plain,
    /// With terminal colours.
    Colour,
}

/// The report of all problems in their order, an empty line between two; ends with a line break unless empty.
pub fn render(problems: &Problems, sources: &Sources, style: Style) -> String {
    let reports: Vec<String> = problems.iter().map(|d| render_one(d, sources, style)).collect();
    let mut text = reports.join("\n\n");
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

fn render_one(diagnostic: &Diagnostic, sources: &Sources, style: Style) -> String {
    let level = match diagnostic.kind.severity() {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group = Group::with_title(level.primary_title(&diagnostic.message).id(diagnostic.kind.code()));
    for id in sources_of(diagnostic) {
        if let Some(source) = sources.get(id) {
            group = group.element(snippet(diagnostic, id, source));
        }
    }
    for help in &diagnostic.help {
        group = group.element(Level::HELP.message(help));
    }
    let renderer = match style {
        Style::Plain => Renderer::plain(),
        Style::Colour => Renderer::styled(),
    };
    renderer.render(&[group])
}

/// The sources that a problem shows: that of its place first.
fn sources_of(diagnostic: &Diagnostic) -> Vec<SourceId> {
    let mut ids: Vec<SourceId> = Vec::new();
    for span in diagnostic.span.iter().chain(diagnostic.notes.iter().map(|(span, _)| span)) {
        if !ids.contains(&span.source) {
            ids.push(span.source);
        }
    }
    ids
}

fn snippet<'a>(diagnostic: &'a Diagnostic, id: SourceId, source: &'a Source) -> Snippet<'a, Annotation<'a>> {
    let mut snippet = Snippet::source(&source.text).path(&source.name).line_start(source.first_line);
    if let Some(span) = diagnostic.span.filter(|s| s.source == id) {
        let primary = AnnotationKind::Primary.span(range(span, source));
        let primary = if diagnostic.label.is_empty() { primary } else { primary.label(&diagnostic.label) };
        snippet = snippet.annotation(primary);
    }
    for (span, label) in diagnostic.notes.iter().filter(|(span, _)| span.source == id) {
        snippet = snippet.annotation(AnnotationKind::Context.span(range(*span, source)).label(label));
    }
    snippet
}

/// The span as a range of whole characters inside the text.
fn range(span: Span, source: &Source) -> Range<usize> {
    let text = &source.text;
    let mut start = (span.start as usize).min(text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let mut end = (span.end as usize).clamp(start, text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    start..end
}

/// The problems as a JSON array. Lines and columns count from 1, the end is exclusive. What is empty is left out.
pub fn json(problems: &Problems, sources: &Sources) -> Value {
    let place = |span: Span| place(span, sources);
    let row = |d: &Diagnostic| {
        let mut row = json!({ "severity": d.kind.severity().word(), "code": d.kind.code(), "message": d.message });
        let related =
            d.notes.iter().filter_map(|(span, label)| Some(json!({ "place": place(*span)?, "label": label })));
        let related: Vec<Value> = related.collect();
        let optional = [
            ("place", d.span.and_then(place)),
            ("label", (!d.label.is_empty()).then(|| json!(d.label))),
            ("related", (!related.is_empty()).then(|| json!(related))),
            ("help", (!d.help.is_empty()).then(|| json!(d.help))),
        ];
        for (name, value) in optional {
            value.into_iter().for_each(|value| row[name] = value);
        }
        row
    };
    problems.iter().map(row).collect()
}

fn place(span: Span, sources: &Sources) -> Option<Value> {
    let source = sources.get(span.source)?;
    let (start, end) = (source.position(span.start), source.position(span.end));
    Some(json!({
        "file": source.name, "line": start.line, "column": start.column, "end_line": end.line, "end_column": end.column,
        "start_byte": span.start, "end_byte": span.end,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diag::Kind;

    fn sample() -> (Problems, Sources) {
        let (mut problems, mut sources) = (Problems::default(), Sources::default());
        let id = sources.add(Source::new("a.rt", "one\nüber two\n"));
        problems.report(Diagnostic::new(Kind::UnknownName, Span::new(id, 10, 13), "`two` is not defined").help("help"));
        (problems, sources)
    }

    #[test]
    fn json_holds_places_in_characters() {
        let (problems, sources) = sample();
        let expected = serde_json::json!([{
            "severity": "error", "code": "unknown-name", "message": "`two` is not defined",
            "place": { "file": "a.rt", "line": 2, "column": 6, "end_line": 2, "end_column": 9,
                       "start_byte": 10, "end_byte": 13 },
            "help": ["help"],
        }]);
        assert_eq!(json(&problems, &sources), expected);
    }

    #[test]
    fn colour_is_only_added_when_asked_for() {
        let (problems, sources) = sample();
        assert!(!render(&problems, &sources, Style::Plain).contains('\u{1b}'));
        assert!(render(&problems, &sources, Style::Colour).contains('\u{1b}'));
    }
}
