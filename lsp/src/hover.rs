//! Hovers: what `rtc explain` says of a word, and where the value of a setting comes from.

use std::fmt::Write;

use rtc_compiler::diag::{Kind as Problem, Severity};
use rtc_compiler::feature::{self, Feature, linked};
use rtc_compiler::ir::pointwise::Pointwise;
use rtc_compiler::schema::StatementField;
use rtc_compiler::spec::{Block, Origin, Setting};
use rtc_compiler::syntax;

use crate::complete::restarts;
use crate::inside::{BraceContents, called, statement_of};
use crate::paths::{PathTarget, find, inside, paths};
use crate::text::IndexedText;
use crate::tokens::{CursorContext, Token, TokenKind};
use crate::world::{CheckedDocument, DocumentAnalysis};

/// What is said of the word at a byte, as Markdown, with the bytes that it is about.
pub(crate) fn hover(
    analysis: &DocumentAnalysis,
    text: &IndexedText,
    offset: usize,
) -> Option<(String, std::ops::Range<usize>)> {
    let place = CursorContext::at(&text.text, offset, &restarts());
    let word = place.word.filter(|word| word.kind == TokenKind::Word);
    let mut parts = vec![];
    if let Some(word) = word {
        // The path of an edit means one of the equations of its name.
        let named = (!analysis.names().named_by_path(0, offset).is_empty()).then(|| place.braces().0).flatten();
        let path = named.and_then(BraceContents::of).and_then(|braces| match braces {
            BraceContents::Edits(base) => path(analysis, &base, &place.element(), word),
            _ => None,
        });
        let named = || symbol(analysis, offset).or_else(|| language(analysis, &place, word));
        parts.extend(path.or_else(named));
    }
    let mut area = word.map(|word| word.start..word.end());
    for problem in analysis.said.problems.iter() {
        let Some(span) = problem.span.filter(|span| span.source.0 == 0) else { continue };
        let bytes = span.start as usize..span.end as usize;
        if bytes.contains(&offset) || bytes.end == offset {
            parts.push(code(problem.kind));
            area = area.or(Some(bytes));
        }
    }
    (!parts.is_empty()).then_some((parts.join("\n\n---\n\n"), area?))
}

/// What a code means.
fn code(kind: Problem) -> String {
    let severity = if kind.severity() == Severity::Error { "error" } else { "warning" };
    format!(
        "**{severity}[{}]** {}\n\n{}\n\nRight:\n\n```rt\n{}```",
        kind.code(),
        kind.summary(),
        kind.doc(),
        kind.good()
    )
}

/// A name of the files.
fn symbol(analysis: &DocumentAnalysis, offset: usize) -> Option<String> {
    let (key, _) = analysis.names().at(0, offset)?;
    let symbol = &analysis.names().symbols[key];
    // The point behind a source is none of its link.
    let line = |line: &str| linked(line.strip_suffix('.').unwrap_or(line)) + if line.ends_with('.') { "." } else { "" };
    let doc = symbol.doc.lines().map(line).collect::<Vec<_>>().join("\n");
    Some(format!("```rt\n{}\n```\n\n{doc}", symbol.text).trim_end().to_owned())
}

/// A word of the language.
fn language(analysis: &DocumentAnalysis, place: &CursorContext<'_>, word: Token<'_>) -> Option<String> {
    let (braces, in_brackets) = place.braces();
    let element = place.element();
    // The setting whose name or value the word is.
    let setting = match element.as_slice() {
        [name, colon] if colon.is(":") => Some(name.text),
        _ => place.next.filter(|next| next.is(":")).map(|_| word.text),
    };
    match braces.and_then(BraceContents::of).filter(|_| !in_brackets) {
        Some(BraceContents::Edits(base)) => {
            path(analysis, &base, &element, word).or_else(|| statement(analysis, place, word))
        }
        Some(BraceContents::Known(feature)) if setting.is_some() => {
            let field = feature.fields.iter().find(|field| setting.is_some_and(|name| field.name == name))?;
            let blocks = blocks_at(analysis.known(), braces?.head.first()?.start);
            let values = blocks.into_iter().filter_map(|(model, block)| Some((model, block.fields.get(&field.name)?)));
            Some(about_field(&feature, field, origins(analysis.known(), values)))
        }
        _ => statement(analysis, place, word),
    }
}

/// A path of an edit, up to its word.
fn path(analysis: &DocumentAnalysis, base: &str, element: &[Token<'_>], word: Token<'_>) -> Option<String> {
    let known = analysis.known();
    let path: String = element.iter().chain([&word]).map(|token| token.text).collect();
    let spec = known.specs.iter().find(|spec| spec.name == base)?;
    let paths = paths(spec);
    match find(&paths, &path).or_else(|| find(&paths, inside(spec, &path)))? {
        PathTarget::Field(block, field) => {
            let begin = element.first().map_or(word.start, |token| token.start);
            Some(about_field(&block.feature, field, said_on_line(analysis, &field.name, begin)))
        }
        PathTarget::Statement(block) => explained(&block.title()),
        PathTarget::Binding(equation) => Some(format!("```rt\n{}\n```\n\nnow", syntax::equation(equation))),
    }
}

/// A statement, its variant, or a word that equations apply.
fn statement(analysis: &DocumentAnalysis, place: &CursorContext<'_>, word: Token<'_>) -> Option<String> {
    let element = place.element();
    let variant = place.next.filter(|next| next.kind == TokenKind::Word).map_or("", |next| next.text);
    let keyword =
        element.first().filter(|first| first.kind == TokenKind::Word && element.len() == 1 && place.before.len() == 1);
    let titles = [
        keyword.map(|keyword| (format!("{} {}", keyword.text, word.text), keyword.start)),
        Some((format!("{} {variant}", word.text), word.start)),
        Some((word.text.to_owned(), word.start)),
    ];
    let (text, start) =
        titles.into_iter().flatten().find_map(|(title, start)| Some((explained(title.trim_end())?, start)))?;
    Some(text + &complete_statement(analysis.known(), start))
}

/// What `rtc explain` says, with links to the papers.
fn explained(title: &str) -> Option<String> {
    let function = || Pointwise::named(title).map(|function| format!("{title}: {}", function.def().doc));
    let text = feature::explain(title).or_else(function)?;
    let (keyword, variant) = title.split_once(' ').unwrap_or((title, ""));
    let feature = match statement_of(keyword, variant) {
        BraceContents::Known(feature) => Some(feature),
        _ => match called("", keyword) {
            BraceContents::Known(feature) => Some(feature),
            _ => None,
        },
    };
    let source = feature.filter(|feature| feature.source.contains("arXiv")).map(|feature| linked(&feature.source));
    let source = source.map(|source| format!("\n\nSource: {source}")).unwrap_or_default();
    Some(format!("```text\n{}\n```{source}", text.trim_end()))
}

fn about_field(feature: &Feature, field: &StatementField, values: String) -> String {
    let range = field.bounds.describe();
    let range = if range.is_empty() { range } else { format!(", {range}") };
    format!("**`{}`** of `{}` is {}{range}: {}{values}", field.name, feature.title(), field.kind.describe(), field.doc)
}

/// The statements of all models that stand at a byte of the document.
fn blocks_at(checked: &CheckedDocument, start: usize) -> Vec<(&str, &Block)> {
    fn collect<'s>(name: &'s str, block: &'s Block, start: usize, found: &mut Vec<(&'s str, &'s Block)>) {
        if block.span.source.0 == 0 && block.span.start as usize == start && block.origin != Origin::Default {
            found.push((name, block));
        }
        block.children.iter().for_each(|child| collect(name, child, start, found));
    }
    let mut found = vec![];
    checked.specs.iter().for_each(|spec| collect(&spec.name, &spec.root, start, &mut found));
    found
}

/// The complete statement at a byte, as `rtc show` prints it, and what variants change in it.
fn complete_statement(checked: &CheckedDocument, start: usize) -> String {
    let blocks = blocks_at(checked, start);
    let Some((first, block)) = blocks.first() else { return String::new() };
    if block.fields.is_empty() {
        return String::new();
    }
    let line =
        |name: &str, setting: &Setting| format!("{name}: {} // {}\n", setting.value, origin(checked, &setting.origin));
    let mut out = format!("\n\nIn `{first}`:\n\n```rt\n");
    block.fields.iter().for_each(|(name, setting)| out += &line(name, setting));
    for (model, other) in &blocks[1..] {
        let differs =
            |(name, setting): &(&_, &Setting)| block.fields.get(*name).is_some_and(|own| own.value != setting.value);
        for (name, setting) in other.fields.iter().filter(differs) {
            let _ = write!(out, "// {model}: {}", line(name, setting));
        }
    }
    out + "```"
}

/// The values that the edit which begins at a byte gives to a field.
fn said_on_line(analysis: &DocumentAnalysis, name: &str, begin: usize) -> String {
    fn collect<'s>(block: &'s Block, name: &str, fits: &dyn Fn(&Origin) -> bool, found: &mut Vec<&'s Setting>) {
        found.extend(block.fields.get(name).filter(|setting| fits(&setting.origin)));
        block.children.iter().for_each(|child| collect(child, name, fits, found));
    }
    let text = &analysis.said.root().text.text;
    let end = text[begin..].find('\n').map_or(text.len(), |at| begin + at);
    let fits = |origin: &Origin| match origin {
        Origin::Variant(_, span) => span.source.0 == 0 && (begin..end).contains(&(span.start as usize)),
        _ => false,
    };
    let mut found = vec![];
    for spec in &analysis.known().specs {
        let mut settings = vec![];
        collect(&spec.root, name, &fits, &mut settings);
        found.extend(settings.into_iter().map(|setting| (spec.name.as_str(), setting)));
    }
    origins(analysis.known(), found)
}

/// Values with their origins, equal ones once.
fn origins<'s>(checked: &CheckedDocument, values: impl IntoIterator<Item = (&'s str, &'s Setting)>) -> String {
    let mut lines: Vec<(String, Vec<&str>)> = vec![];
    for (model, setting) in values {
        let line = format!("`{}`, {}", setting.value, origin(checked, &setting.origin));
        match lines.iter_mut().find(|(known, _)| *known == line) {
            Some((_, models)) => models.push(model),
            None => lines.push((line, vec![model])),
        }
    }
    let one = |(line, models): (String, Vec<&str>)| match models.as_slice() {
        [first] => format!("\n- {line}: `{first}`"),
        [first, rest @ ..] => format!("\n- {line}: `{first}` and {} more", rest.len()),
        [] => String::new(),
    };
    let lines: String = lines.into_iter().map(one).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// Where a value comes from.
fn origin(checked: &CheckedDocument, origin: &Origin) -> String {
    let line = |span: &rtc_compiler::source::Span| {
        let Some(unit) = checked.unit(*span) else { return "the library".to_owned() };
        let line = format!("line {}", unit.text.position(span.start as usize).line + 1);
        let file = unit.uri.rsplit('/').next().unwrap_or_default();
        if span.source.0 == 0 { line } else { format!("{file}, {line}") }
    };
    match origin {
        Origin::Written(span) => line(span),
        Origin::Variant(name, span) => format!("variant {name}, {}", line(span)),
        Origin::Override(number) => format!("--set {number}"),
        Origin::Derived(rule) => format!("from {rule}"),
        Origin::Default => "default".to_owned(),
    }
}
