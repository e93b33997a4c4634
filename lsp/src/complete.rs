//! Completions: what may stand at a place, by the tables of the compiler and the names of the files.

use std::collections::BTreeMap;
use std::fs;

use lsp_types::{CompletionItem, CompletionItemKind as Is, CompletionTextEdit, TextEdit};
use rtc_compiler::define::KINDS;
use rtc_compiler::expr::{Func, Var, derived};
use rtc_compiler::feature;
use rtc_compiler::ir::pointwise::Pointwise;
use rtc_compiler::schema::FieldKind;

use crate::grammar::beginnings;
use crate::inside::{BraceContents, statement_of};
use crate::names::SymbolKey;
use crate::paths::{PathTarget, beginning, find, inside, paths, variants, words};
use crate::text::IndexedText;
use crate::tokens::{CursorContext, Token, TokenKind, tokens};
use crate::world::{DocumentAnalysis, path_of};

/// Words that begin an item where they begin a line; a `let` may also stand in an item.
pub(crate) fn restarts() -> Vec<&'static str> {
    beginnings("item").into_iter().filter(|word| *word != "let").collect()
}

/// What equations of any file apply, with what it does: words, functions of single numbers, layers of the library.
pub(crate) fn applied() -> impl Iterator<Item = (&'static str, &'static str)> {
    let layers = feature::slots().iter().flat_map(|slot| &slot.features);
    let layers = layers.filter(|layer| layer.variant.is_empty() && !layer.values.is_empty());
    let features = feature::words().chain(layers).map(|feature| (&*feature.slot, &*feature.doc));
    features.chain(Pointwise::ALL.iter().map(|function| (function.def().name, function.def().doc)))
}

/// Completions by their words.
type FittingWords = BTreeMap<String, (Is, String)>;

struct Completer<'a> {
    analysis: &'a DocumentAnalysis,
    text: &'a IndexedText,
    offset: usize,
    found: FittingWords,
}

/// The completions at a byte of a document.
pub(crate) fn complete(analysis: &DocumentAnalysis, text: &IndexedText, offset: usize) -> Vec<CompletionItem> {
    let place = CursorContext::at(&text.text, offset, &restarts());
    if place.comment {
        return vec![];
    }
    let mut completer = Completer { analysis, text, offset, found: FittingWords::new() };
    let start = completer.fill(&place).or(place.word.map(|word| word.start)).unwrap_or(offset);
    let area = text.area(start.min(offset)..offset);
    let item = |(label, (kind, detail)): (String, (Is, String))| CompletionItem {
        text_edit: Some(CompletionTextEdit::Edit(TextEdit::new(area, label.clone()))),
        kind: Some(kind),
        detail: detail.lines().next().map(str::to_owned).filter(|detail| !detail.is_empty()),
        filter_text: Some(label.clone()),
        label,
        ..CompletionItem::default()
    };
    completer.found.into_iter().map(item).collect()
}

impl Completer<'_> {
    fn add(&mut self, kind: Is, word: impl Into<String>, detail: impl Into<String>) {
        self.found.entry(word.into()).or_insert((kind, detail.into()));
    }

    fn keywords<'w>(&mut self, words: impl IntoIterator<Item = &'w str>) {
        for word in words {
            let doc = feature::explain(word).and_then(|text| text.lines().next().map(str::to_owned));
            self.add(Is::KEYWORD, word, doc.unwrap_or_default());
        }
    }

    /// Finds what fits; gives the byte at which it begins, if that is not the word.
    fn fill(&mut self, place: &CursorContext<'_>) -> Option<usize> {
        let (braces, in_brackets) = place.braces();
        let element = place.element();
        let Some(frame) = braces else { return self.item(place, &element, in_brackets) };
        let is_value = in_brackets || element.iter().any(|token| token.is("="));
        let colon = element.iter().position(|token| token.is(":"));
        match BraceContents::of(frame) {
            Some(BraceContents::Edits(base)) => return self.edit(&base, place, &element, in_brackets),
            Some(BraceContents::Definition) => match (colon, element.first()) {
                (Some(colon), _) if element.len() == colon + 1 => {
                    KINDS.iter().for_each(|kind| self.add(Is::KEYWORD, *kind, ""))
                }
                (None, None) => {
                    self.keywords(beginnings("def_element"));
                }
                _ => self.values(),
            },
            _ if is_value => self.values(),
            inside => match (colon, element.as_slice()) {
                (Some(colon), _) => {
                    let field = colon.checked_sub(1).map_or("", |at| element[at].text);
                    self.field_value(inside.as_ref(), field);
                }
                (None, []) => self.elements(inside.as_ref()),
                (None, [keyword]) => self.behind(keyword.text),
                (None, [first, ..]) if beginnings("element").contains(&first.text) => self.values(),
                (None, _) => {}
            },
        }
        None
    }

    /// Outside of all braces.
    fn item(&mut self, place: &CursorContext<'_>, element: &[Token<'_>], in_brackets: bool) -> Option<usize> {
        match element {
            [] if !in_brackets => self.keywords(beginnings("item")),
            [first] if first.is("use") => return self.files(place),
            [first, .., of] if first.is("variant") && of.is("of") => self.named(Is::CLASS, |key| match key {
                SymbolKey::Model(name) => Some(name.clone()),
                SymbolKey::Variant(base, name) => Some(format!("{base}:{name}")),
                _ => None,
            }),
            [first, _, _, model, colon] if first.is("variant") && colon.is(":") => {
                self.named(Is::CLASS, |key| match key {
                    SymbolKey::Variant(base, name) if base == model.text => Some(name.clone()),
                    _ => None,
                });
            }
            [first, _] if first.is("variant") => self.keywords(["of"]),
            [.., def] if def.is("def") => {
                let open = feature::slots().iter().filter(|slot| !slot.takes.is_empty());
                open.for_each(|slot| self.add(Is::KEYWORD, &*slot.name, &*slot.doc));
            }
            [first] if first.is("atomic") => self.keywords(["def"]),
            _ if in_brackets || element.iter().any(|token| token.is("=")) => self.values(),
            _ => {}
        }
        None
    }

    /// The files in the folder of the document.
    fn files(&mut self, place: &CursorContext<'_>) -> Option<usize> {
        let word = place.word?;
        let written = word.text.get(1..self.offset.checked_sub(word.start)?)?;
        let (folder, _) = written.rsplit_once('/').unwrap_or(("", written));
        let path = path_of(&self.analysis.said.root().uri)?;
        for entry in fs::read_dir(path.parent()?.join(folder)).into_iter().flatten().flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            match entry.path().is_dir() {
                true if !name.starts_with('.') => self.add(Is::FOLDER, format!("{name}/"), ""),
                false if name.ends_with(".rt") => self.add(Is::FILE, name, ""),
                _ => {}
            }
        }
        Some(self.offset - (written.len() - if folder.is_empty() { 0 } else { folder.len() + 1 }))
    }

    /// Adds the names of the files that are picked.
    fn named(&mut self, kind: Is, pick: impl Fn(&SymbolKey) -> Option<String>) {
        let analysis = self.analysis;
        for (key, symbol) in &analysis.names().symbols {
            pick(key).into_iter().for_each(|name| self.add(kind, name, &*symbol.doc));
        }
    }

    /// In the braces of a variant.
    fn edit(
        &mut self,
        base: &str,
        place: &CursorContext<'_>,
        element: &[Token<'_>],
        in_brackets: bool,
    ) -> Option<usize> {
        let analysis = self.analysis;
        let spec = analysis.known().specs.iter().find(|spec| spec.name == base);
        let paths = spec.map(paths).unwrap_or_default();
        let start = |tokens: &[Token<'_>]| tokens.first().or(place.word.as_ref()).map(|token| token.start);
        let path = |tokens: &[Token<'_>]| tokens.iter().map(|token| token.text).collect::<String>();
        let last = element.iter().rposition(|token| {
            ["in", "by", "after", "before", "add", "remove", "wrap", "replace", "untie", "tie"].contains(&token.text)
        });
        let behind = &element[last.map_or(0, |at| at + 1)..];
        let word = last.map(|at| element[at].text);
        if let Some(colon) = element.iter().position(|token| token.is(":")) {
            let known = find(&paths, &path(&element[..colon]));
            known.iter().flat_map(|place| place.words()).for_each(|(word, help)| self.add(Is::ENUM_MEMBER, word, help));
            let slot = colon.checked_sub(1).map_or("", |at| element[at].text);
            self.variants(slot);
            self.values();
            return None;
        }
        if in_brackets || element.iter().any(|token| token.is("=")) {
            self.values();
            return None;
        }
        // Names and points in turn: a name stands next.
        let in_path =
            behind.len().is_multiple_of(2) && behind.iter().all(|token| token.is(".") || token.kind == TokenKind::Word);
        match (word, behind) {
            (Some("in" | "by" | "add") | None, [keyword]) => self.behind(keyword.text),
            (Some("in" | "by" | "add"), []) => self.slots(),
            (Some("wrap"), [_, ..]) if !in_path => self.keywords(["in"]),
            (Some("replace"), [_, ..]) if !in_path => self.keywords(["by"]),
            (None | Some("remove" | "wrap" | "replace" | "after" | "before" | "untie" | "tie"), _) if in_path => {
                let start = start(behind);
                let text = self.text;
                let written = start.and_then(|start| text.text.get(start..self.offset)).unwrap_or_default();
                let rest = spec.map_or(written, |spec| inside(spec, written));
                self.paths(&paths, rest);
                if element.is_empty() {
                    self.keywords(beginnings("edit"));
                    self.slots();
                }
                return start.map(|_| self.offset - rest.len());
            }
            _ => {}
        }
        if word == Some("add") && !behind.is_empty() {
            self.keywords(["after", "before"]);
        }
        None
    }

    /// The paths that fit the beginning of one.
    fn paths(&mut self, paths: &BTreeMap<String, PathTarget<'_>>, written: &str) {
        for (path, place) in paths {
            beginning(path, written).into_iter().for_each(|path| self.add(Is::PROPERTY, path, place.help()));
        }
    }

    fn slots(&mut self) {
        for slot in feature::slots() {
            self.add(Is::KEYWORD, &*slot.name, &*slot.doc);
        }
        self.definitions("");
    }

    /// Definitions of the files in a slot.
    fn definitions(&mut self, slot: &str) {
        self.named(Is::FUNCTION, |key| match key {
            SymbolKey::Def(own, name) if own == slot => Some(name.clone()),
            _ => None,
        });
    }

    fn variants(&mut self, slot: &str) {
        variants(slot).into_iter().for_each(|(word, doc)| self.add(Is::ENUM_MEMBER, word, doc));
        if feature::slot(slot).is_some() {
            self.definitions(slot);
        }
    }

    /// Behind the keyword of a statement.
    fn behind(&mut self, keyword: &str) {
        match statement_of(keyword, "") {
            BraceContents::Own(..) if feature::slot(keyword).is_none() => self.values(),
            _ => self.variants(keyword),
        }
    }

    /// Fields, statements and equations in some braces.
    fn elements(&mut self, inside: Option<&BraceContents>) {
        let (mut slots, mut layers) = (vec![], false);
        match inside {
            Some(BraceContents::Known(feature)) => {
                for field in &feature.fields {
                    self.add(Is::FIELD, &*field.name, field.about());
                }
                slots.extend(feature.children.iter().flat_map(|rule| rule.slots));
                layers = slots.contains(&&"feedforward");
            }
            Some(BraceContents::Own(slot, name)) => {
                let own = self.analysis.names().settings(slot, name);
                own.into_iter()
                    .for_each(|(name, symbol)| self.add(Is::FIELD, name, format!("{} {}", symbol.text, symbol.doc)));
            }
            _ => {
                slots.extend(rtc_compiler::schema::FOLD_BODY);
                layers = true;
            }
        }
        for keyword in slots {
            let doc = feature::slot(keyword).map_or_else(String::new, |slot| slot.doc.to_string());
            self.add(Is::KEYWORD, *keyword, doc);
        }
        if layers {
            self.keywords(beginnings("element"));
            for layer in
                feature::slots().iter().flat_map(|slot| &slot.features).filter(|feature| feature.is_named_layer())
            {
                self.add(Is::FUNCTION, &*layer.slot, &*layer.doc);
            }
            self.definitions("");
        }
    }

    /// The value of a field.
    fn field_value(&mut self, inside: Option<&BraceContents>, name: &str) {
        if let Some(BraceContents::Known(feature)) = inside
            && let Some(field) = feature.fields.iter().find(|field| field.name == name)
        {
            words(&field.kind).into_iter().for_each(|word| self.add(Is::ENUM_MEMBER, word, ""));
            if matches!(field.kind, FieldKind::Word(_) | FieldKind::Truth) {
                return;
            }
        }
        if let Some(BraceContents::Own(slot, owner)) = inside {
            let own = self.analysis.names().settings(slot, owner);
            let own = own.into_iter().find(|(own, _)| *own == name).map(|(_, symbol)| symbol.text.clone());
            // The words of a setting stand in the parentheses of its kind.
            let listed = own.as_deref().and_then(|text| text.split_once(": word(")?.1.split_once(')'));
            listed.iter().flat_map(|(words, _)| words.split(", ")).for_each(|word| self.add(Is::ENUM_MEMBER, word, ""));
        }
        self.values();
    }

    /// What expressions and equations read and apply.
    fn values(&mut self) {
        let analysis = self.analysis;
        for (name, symbol) in analysis.names().values_at(&analysis.known().units, self.offset) {
            self.add(Is::VARIABLE, name, &*symbol.text);
        }
        for name in self.bound() {
            self.add(Is::VARIABLE, name, "");
        }
        self.named(Is::CONSTANT, |key| match key {
            SymbolKey::Value(name) => Some(name.clone()),
            _ => None,
        });
        self.definitions("");
        for (name, doc) in applied() {
            self.add(Is::FUNCTION, name, doc);
        }
        Var::ALL.iter().for_each(|var| self.add(Is::CONSTANT, var.name(), ""));
        Func::ALL.iter().map(|func| func.name()).chain(derived()).for_each(|name| self.add(Is::FUNCTION, name, ""));
    }

    /// The names that the item around binds before the place, where it can't be parsed yet.
    fn bound(&self) -> Vec<String> {
        let before = &self.text.text[..self.offset];
        let starts = before.match_indices('\n').map(|(at, _)| at + 1).chain([0]);
        let begins = |at: &usize| restarts().iter().any(|word| before[*at..].starts_with(word));
        let all = tokens(&before[starts.filter(begins).max().unwrap_or(0)..]);
        let bound = |pair: &[Token<'_>]| match pair {
            [name, sign] if name.kind == TokenKind::Word && (sign.is("=") || sign.is(":")) => {
                Some(name.text.to_owned())
            }
            _ => None,
        };
        let head = all.iter().take_while(|token| !token.is("{")).skip_while(|token| !token.is("("));
        let values = head.filter(|token| token.kind == TokenKind::Word).map(|token| token.text.to_owned());
        values.chain(all.windows(2).filter_map(bound)).collect()
    }
}
