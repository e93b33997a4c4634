//! Where a name is defined and read, and what changes a document: formatting, cures of problems.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use lsp_types::{Location, Range as Area, TextEdit, Uri};
use rtc_compiler::check::OF_PROGRAM;
use rtc_compiler::diag::{Diagnostic, suggested};
use rtc_compiler::syntax::{self, ast::ItemKind};

use crate::names::Symbol;
use crate::text::IndexedText;
use crate::world::{CheckedDocument, DocumentAnalysis, World, path_of};

/// Byte ranges by the addresses of texts.
pub(crate) type EditRanges = BTreeMap<String, BTreeSet<(usize, usize)>>;

/// Where the name at a byte is defined, or the file that is used there. The path of an edit names one of several equations.
pub(crate) fn definitions(analysis: &DocumentAnalysis, offset: usize) -> Vec<Location> {
    let known = analysis.known();
    let used = known.root().file.items.iter().find_map(|item| match &item.kind {
        ItemKind::Use { path } => {
            let inside = (path.span.start as usize..=path.span.end as usize).contains(&offset);
            let file = inside.then(|| beside(&known.root().uri, &path.text)).flatten()?;
            known.units.iter().find(|unit| path_of(&unit.uri).as_ref() == Some(&file))
        }
        _ => None,
    });
    if let Some(unit) = used {
        return location(&unit.uri, Area::default()).into_iter().collect();
    }
    let place = |span: &rtc_compiler::source::Span| {
        let unit = known.unit(*span)?;
        location(&unit.uri, unit.text.area_of(*span))
    };
    let named = analysis.names().named_by_path(0, offset);
    if !named.is_empty() {
        return named.iter().filter_map(place).collect();
    }
    let Some((key, _)) = analysis.names().at(0, offset) else { return vec![] };
    analysis.names().symbols[key].definitions.iter().filter_map(place).collect()
}

fn location(uri: &str, area: Area) -> Option<Location> {
    // No editor can open a file of the program.
    if uri.starts_with(OF_PROGRAM) {
        return None;
    }
    Some(Location::new(uri.parse::<Uri>().ok()?, area))
}

/// A path from the folder of a document.
fn beside(uri: &str, written: &str) -> Option<PathBuf> {
    let mut path = path_of(uri)?.parent()?.to_owned();
    for part in Path::new(written).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    Some(path)
}

/// All places of the name at a byte, in the document, in what it uses, and in open documents that use the same; and the bytes of the name.
pub(crate) fn places(
    world: &World,
    analysis: &DocumentAnalysis,
    offset: usize,
) -> Option<(EditRanges, std::ops::Range<usize>)> {
    let (key, span) = analysis.names().at(0, offset)?;
    let symbol = &analysis.names().symbols[key];
    let defined = spots(analysis.known(), symbol.definitions.iter());
    let mut found = spots(analysis.known(), symbol.places());
    let others: Vec<String> = world.uris().map(str::to_owned).collect();
    for other in others.iter().filter_map(|uri| world.analysis(uri)) {
        let same = |symbol: &&Symbol| {
            let own = spots(other.known(), symbol.definitions.iter());
            own.iter().any(|(uri, places)| defined.get(uri).is_some_and(|known| !known.is_disjoint(places)))
        };
        for symbol in other.names().symbols.values().filter(same) {
            for (uri, places) in spots(other.known(), symbol.places()) {
                found.entry(uri).or_default().extend(places);
            }
        }
    }
    Some((found, span.start as usize..span.end as usize))
}

fn spots<'s>(checked: &CheckedDocument, spans: impl Iterator<Item = &'s rtc_compiler::source::Span>) -> EditRanges {
    let mut found = EditRanges::new();
    for span in spans {
        if let Some(unit) = checked.unit(*span) {
            found.entry(unit.uri.clone()).or_default().insert((span.start as usize, span.end as usize));
        }
    }
    found
}

/// Where the name at a byte stands.
pub(crate) fn references(
    world: &World,
    analysis: &DocumentAnalysis,
    offset: usize,
    with_definitions: bool,
) -> Vec<Location> {
    let Some((places, _)) = places(world, analysis, offset) else { return vec![] };
    let defined = match analysis.names().at(0, offset) {
        Some((key, _)) if !with_definitions => {
            spots(analysis.known(), analysis.names().symbols[key].definitions.iter())
        }
        _ => EditRanges::new(),
    };
    let mut found = vec![];
    for (uri, spots) in &places {
        let Some(text) = text_of(world, analysis, uri) else { continue };
        let kept = spots.iter().filter(|spot| !defined.get(uri).is_some_and(|known| known.contains(spot)));
        found.extend(kept.filter_map(|(start, end)| location(uri, text.area(*start..*end))));
    }
    found
}

/// A text that is open, or that a document uses.
pub(crate) fn text_of(world: &World, analysis: &DocumentAnalysis, uri: &str) -> Option<IndexedText> {
    let unit = |analysis: &DocumentAnalysis| {
        analysis.known().units.iter().find(|unit| unit.uri == uri).map(|unit| unit.text.clone())
    };
    let others = || world.uris().filter_map(|other| world.analysis(other)).find_map(|analysis| unit(&analysis));
    world.text(uri).cloned().or_else(|| unit(analysis)).or_else(others)
}

/// The canonical layout of a text, as an edit of what differs; nothing for a text that can't be parsed.
pub(crate) fn format(text: &IndexedText) -> Option<Vec<TextEdit>> {
    let formatted = syntax::format(&text.text).ok()?;
    let old = &text.text;
    if formatted == *old {
        return Some(vec![]);
    }
    let start = old.bytes().zip(formatted.bytes()).take_while(|(a, b)| a == b).count();
    let start = (0..=start).rev().find(|at| old.is_char_boundary(*at) && formatted.is_char_boundary(*at)).unwrap_or(0);
    let most = old.len().min(formatted.len()) - start;
    let same = old.bytes().rev().zip(formatted.bytes().rev()).take(most).take_while(|(a, b)| a == b).count();
    let whole =
        |same: &usize| old.is_char_boundary(old.len() - same) && formatted.is_char_boundary(formatted.len() - same);
    let same = (0..=same).rev().find(whole).unwrap_or(0);
    let new = formatted[start..formatted.len() - same].to_owned();
    Some(vec![TextEdit::new(text.area(start..old.len() - same), new)])
}

/// What a problem suggests, with the edit that does it: only what takes the problem away.
pub(crate) fn cure<'p>(
    world: &World,
    analysis: &'p DocumentAnalysis,
    problem: &'p Diagnostic,
) -> Option<(&'p str, TextEdit)> {
    let name = suggested(&problem.label)?;
    let span = problem.span.filter(|span| span.source.0 == 0)?;
    let text = &analysis.said.root().text;
    let mut cured = text.text.clone();
    cured.get(span.start as usize..span.end as usize)?;
    cured.replace_range(span.start as usize..span.end as usize, name);
    let after = world.problems(&analysis.said.root().uri, &cured);
    let stays =
        |other: &Diagnostic| other.kind == problem.kind && other.span.is_some_and(|place| place.start == span.start);
    (!after.iter().any(stays)).then(|| (name, TextEdit::new(text.area_of(span), name.to_owned())))
}
