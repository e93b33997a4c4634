//! What stands in the braces around a place, by what stands before them.

use std::sync::Arc;

use rtc_compiler::feature::{self, Feature};

use crate::tokens::{OpenBracket, Token, TokenKind};

/// The kind of the contents of braces.
#[derive(Clone, Debug)]
pub(crate) enum BraceContents {
    /// Edits of a model or a variant.
    Edits(String),
    /// Settings and equations.
    Definition,
    /// Fields and statements, or settings: those of a form of the language.
    Known(Arc<Feature>),
    /// Settings of a name that the files may define, in a slot or in none.
    Own(String, String),
}

impl BraceContents {
    pub(crate) fn of(frame: &OpenBracket<'_>) -> Option<Self> {
        let head: Vec<Token<'_>> = frame.head.iter().copied().filter(|token| token.kind != TokenKind::Quoted).collect();
        match head.first()?.text {
            "variant" => {
                let of = head.iter().position(|token| token.is("of"))?;
                return Some(Self::Edits(head[of + 1..].iter().map(|token| token.text).collect()));
            }
            "def" | "atomic" => return Some(Self::Definition),
            "model" => return feature::feature("model", "").cloned().map(Self::Known),
            _ => {}
        }
        let words = || head.iter().rev().filter(|token| token.kind == TokenKind::Word);
        let sign = head.iter().rposition(|token| token.is(":") || token.is("="));
        if head.last()?.is(")") || head.last()?.is("]") {
            return Some(called("", words().next()?.text));
        }
        if let Some(sign) = sign {
            // `depthwise.gate: mlp { .. }` names the variant of a slot.
            let slot = sign.checked_sub(1).filter(|_| head[sign].is(":")).map_or("", |at| head[at].text);
            return Some(called(
                slot,
                head.get(sign + 1..)?.iter().rev().find(|token| token.kind == TokenKind::Word)?.text,
            ));
        }
        // `wrap path in statement {`, `add statement`: the statement stands behind the word.
        let edit = head.iter().rposition(|token| token.is("in") || token.is("by") || token.is("add"));
        let statement = &head[edit.map_or(0, |at| at + 1)..];
        let keyword = statement.first()?.text;
        let word = statement.get(1).filter(|token| token.kind == TokenKind::Word).map_or("", |token| token.text);
        Some(statement_of(keyword, word))
    }
}

/// What a statement is.
pub(crate) fn statement_of(keyword: &str, word: &str) -> BraceContents {
    // What is behind the keyword of `stack` is a number, or a name of one.
    let known = feature::feature(keyword, word).or_else(|| feature::feature(keyword, ""));
    match known {
        Some(feature) => BraceContents::Known(feature.clone()),
        None if word.is_empty() => BraceContents::Own(String::new(), keyword.to_owned()),
        None => BraceContents::Own(keyword.to_owned(), word.to_owned()),
    }
}

/// What is called by a name, in the place of a slot or in an equation.
pub(crate) fn called(slot: &str, name: &str) -> BraceContents {
    let word = || feature::words().find(|word| word.slot == name);
    match feature::feature(slot, name).or_else(|| feature::feature(name, "")).or_else(word) {
        Some(feature) => BraceContents::Known(feature.clone()),
        None => BraceContents::Own(String::new(), name.to_owned()),
    }
}
