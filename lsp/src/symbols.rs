//! The outline of a document.

use lsp_types::{DocumentSymbol, SymbolKind};
use rtc_compiler::syntax::ast::{DefElement, FileItem, ItemKind, Name};

use crate::names::CheckedText;
use crate::text::IndexedText;

/// The items of a document, with the settings of definitions.
pub(crate) fn symbols(unit: &CheckedText) -> Vec<DocumentSymbol> {
    unit.file.items.iter().filter_map(|item| symbol(&unit.text, item)).collect()
}

fn symbol(text: &IndexedText, item: &FileItem) -> Option<DocumentSymbol> {
    let (name, name_span, kind, detail) = match &item.kind {
        ItemKind::Use { .. } => return None,
        ItemKind::Let(binding) => (binding.name.text.clone(), binding.name.span, SymbolKind::CONSTANT, "let"),
        ItemKind::Model { name, .. } => (name.text(), name.span(), SymbolKind::CLASS, "model"),
        ItemKind::Variant { name, base, .. } => {
            (format!("{}:{}", base.model.text, name.text), name.span, SymbolKind::CLASS, "variant")
        }
        ItemKind::Function(function) => {
            (function.name.text.clone(), function.name.span, SymbolKind::FUNCTION, function.role.word())
        }
        ItemKind::Def(def) => (def.name.text.clone(), def.name.span, SymbolKind::FUNCTION, "def"),
    };
    let children = match &item.kind {
        ItemKind::Def(def) => def
            .elements
            .iter()
            .filter_map(|element| match element {
                DefElement::Setting(setting) => Some(setting_symbol(text, &setting.name)),
                _ => None,
            })
            .collect(),
        _ => vec![],
    };
    Some(make(name, detail, kind, (text.area_of(item.span), text.area_of(name_span)), children))
}

fn setting_symbol(text: &IndexedText, name: &Name) -> DocumentSymbol {
    let area = text.area_of(name.span);
    make(name.text.clone(), "setting", SymbolKind::PROPERTY, (area, area), vec![])
}

#[allow(deprecated, reason = "the field is part of the type")]
fn make(
    name: String,
    detail: &str,
    kind: SymbolKind,
    (range, selection_range): (lsp_types::Range, lsp_types::Range),
    children: Vec<DocumentSymbol>,
) -> DocumentSymbol {
    let children = (!children.is_empty()).then_some(children);
    DocumentSymbol {
        name,
        detail: Some(detail.to_owned()),
        kind,
        tags: None,
        deprecated: None,
        range,
        selection_range,
        children,
    }
}
