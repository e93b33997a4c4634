//! Tokens of a user's texts: splitting, and the vocabulary.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pieces::PieceMap;
use super::trained::TrainedTokenizer;
use crate::encoding::{Encoding, ranges};
use crate::line;
use crate::lra::bytes;

/// The cut of texts into tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TokenCut {
    /// Runs of letters, digits and `_`, and every other character that is no blank by itself.
    Words,
    /// What stands between blanks.
    Blanks,
    /// Every character (Unicode scalar value).
    Characters,
    /// Every byte of the UTF-8 text.
    Bytes,
    /// As a `tokenizer.json` of Hugging Face says.
    Trained,
}

impl TokenCut {
    /// The cuts by the names that experiments have for them.
    pub(super) const NAMED: [(&str, Self); 4] =
        [("words", Self::Words), ("blanks", Self::Blanks), ("characters", Self::Characters), ("bytes", Self::Bytes)];

    /// Calls `see` with every piece of a text. With `lines`, the end of a line is a piece of its own also where blanks are none.
    pub(super) fn each<'t>(self, text: &'t str, lines: bool, mut see: impl FnMut(&'t str)) {
        match self {
            Self::Words => runs::<true>(text, lines, see),
            Self::Blanks => runs::<false>(text, lines, see),
            Self::Characters => text.char_indices().for_each(|(at, c)| see(&text[at..at + c.len_utf8()])),
            Self::Bytes | Self::Trained => {}
        }
    }

    /// The pieces of a text, as [`TokenCut::each`] has them.
    #[cfg(test)]
    fn pieces(self, text: &str, lines: bool) -> Vec<&str> {
        let mut pieces = vec![];
        self.each(text, lines, |piece| pieces.push(piece));
        pieces
    }
}

/// Whether a word may have this character.
fn in_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether an ASCII character is no blank.
const fn is_visible(byte: u8) -> bool {
    !matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Whether a word may have an ASCII character.
const fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Calls `see` with runs of characters that belong together, and with each other one alone; blanks are left out. With `WORDS`,
/// characters of words belong together, else all that are no blanks.
fn runs<'t, const WORDS: bool>(text: &'t str, lines: bool, mut see: impl FnMut(&'t str)) {
    let bytes = text.as_bytes();
    let (mut at, mut begun) = (0, None);
    while let Some(&byte) = bytes.get(at) {
        let (together, visible, width) = if byte.is_ascii() {
            (if WORDS { is_of_word(byte) } else { is_visible(byte) }, is_visible(byte), 1)
        } else {
            let c = text[at..].chars().next().expect("a character begins here");
            let visible = !c.is_whitespace();
            (visible && (!WORDS || in_word(c)), visible, c.len_utf8())
        };
        if together {
            begun.get_or_insert(at);
        } else {
            if let Some(from) = begun.take() {
                see(&text[from..at]);
            }
            if visible || (lines && byte == b'\n') {
                see(&text[at..at + width]);
            }
        }
        at += width;
    }
    if let Some(from) = begun {
        see(&text[from..]);
    }
}

/// The token of what training does not have.
pub(super) const UNKNOWN: &str = "<unknown>";

/// So many ids of a `tokenizer.json` may have no token, and as many more as have one: a model has a row for each.
const MOST_GAPS: usize = 1 << 16;

/// A vocabulary with the way to cut texts.
#[derive(Clone)]
pub(super) struct Tokens {
    cut: TokenCut,
    /// Whether the ends of lines are tokens.
    lines: bool,
    names: Vec<String>,
    ids: PieceMap<u32>,
    trained: Option<Box<TrainedTokenizer>>,
    /// With a `tokenizer.json`: how many ids a model has, where the experiment says it.
    size: Option<usize>,
}

/// A vocabulary as a run keeps it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedVocabulary {
    cut: TokenCut,
    lines: bool,
    /// The learned names by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    vocabulary: Vec<String>,
    /// The `tokenizer.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokenizer: Option<Value>,
    /// How many ids a model has, where these are more than the tokens of the `tokenizer.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size: Option<usize>,
}

impl Tokens {
    /// The vocabulary of pieces that were counted: the most frequent ones, those with equal counts in the order of their texts,
    /// behind one token for all others.
    pub(super) fn learned(cut: TokenCut, lines: bool, counts: PieceMap<u64>, most: usize) -> Self {
        let mut pieces: Vec<(String, u64)> = counts.into_pieces().filter(|(piece, _)| *piece != UNKNOWN).collect();
        pieces.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        pieces.truncate(most.saturating_sub(1));
        let names = std::iter::once(UNKNOWN.to_owned()).chain(pieces.into_iter().map(|(piece, _)| piece));
        Self::of_names(cut, lines, names.collect())
    }

    fn of_names(cut: TokenCut, lines: bool, names: Vec<String>) -> Self {
        let mut ids = PieceMap::default();
        names.iter().enumerate().for_each(|(id, name)| *ids.get_or_insert(name, 0) = id as u32);
        Self { cut, lines, names, ids, trained: None, size: None }
    }

    /// The 256 bytes.
    pub(super) fn bytes() -> Self {
        Self { ids: PieceMap::default(), ..Self::of_names(TokenCut::Bytes, true, bytes::names()) }
    }

    /// The tokens of a `tokenizer.json`. Special tokens, truncation and padding that it asks for are left out. A model may have more ids
    /// than there are tokens: published ones fill their tables up.
    ///
    /// # Errors
    /// A sentence about a file that is none, by which a text has other tokens at every reading, or that has more tokens than ids.
    pub(super) fn trained(file: &Value, size: Option<usize>) -> Result<Self, String> {
        if let Some((field, number)) = random(&file["model"]) {
            return Err(format!(
                "`model.{field}` of this tokenizer.json is {number}: a text would have other tokens at every reading, and no \
                 result could be had again; set it to null"
            ));
        }
        let trained = TrainedTokenizer::read(file)?;
        let ids = trained.vocabulary();
        let mut known: BTreeMap<u32, String> = BTreeMap::new();
        for (name, id) in ids {
            // What a run keeps has one name for every id, and would read texts in another way.
            if let Some(other) = known.insert(id, name.clone()) {
                return Err(format!("this tokenizer.json gives the id {id} to `{other}` and to `{name}`"));
            }
        }
        let Some((&last, _)) = known.last_key_value() else {
            return Err("this tokenizer.json has no tokens".to_owned());
        };
        if last as usize > MOST_GAPS + 2 * known.len() {
            let count = known.len();
            return Err(format!(
                "this tokenizer.json has {count} tokens, and one of them has the id {last}: number them from 0"
            ));
        }
        let own = last as usize + 1;
        let count = size.unwrap_or(own);
        if count < own || count > own + MOST_GAPS {
            return Err(format!(
                "`vocabulary: {count}` is the number of ids, and this tokenizer.json has {own}: as many, or up to {MOST_GAPS} more"
            ));
        }
        let name = |id| known.get(&id).cloned().unwrap_or_else(|| format!("?{id}"));
        let names = (0..count as u32).map(name).collect();
        Ok(Self {
            trained: Some(Box::new(trained)),
            ids: PieceMap::default(),
            size: size.filter(|count| *count > own),
            ..Self::of_names(TokenCut::Trained, true, names)
        })
    }

    /// What a run keeps.
    pub(super) fn kept(&self) -> SavedVocabulary {
        let vocabulary = if self.ids.is_empty() { vec![] } else { self.names.clone() };
        let tokenizer = self.trained.as_deref().and_then(TrainedTokenizer::file);
        SavedVocabulary { cut: self.cut, lines: self.lines, vocabulary, tokenizer, size: self.size }
    }

    /// The vocabulary that a run kept.
    pub(super) fn from_kept(kept: SavedVocabulary) -> Result<Self, String> {
        match (kept.cut, &kept.tokenizer) {
            (TokenCut::Bytes, _) => Ok(Self::bytes()),
            (TokenCut::Trained, Some(file)) => Self::trained(file, kept.size),
            (TokenCut::Trained, None) => Err("the tokenizer is missing".to_owned()),
            (cut, _) if kept.vocabulary.is_empty() => Err(format!("the vocabulary of {cut:?} is empty")),
            (cut, _) => Ok(Self::of_names(cut, kept.lines, kept.vocabulary)),
        }
    }

    /// Number of tokens.
    pub(super) fn count(&self) -> usize {
        self.names.len()
    }

    /// Text between two pieces of a text.
    pub(super) fn between(&self) -> &'static str {
        if matches!(self.cut, TokenCut::Words | TokenCut::Blanks) { " " } else { "" }
    }

    /// How texts are cut.
    pub(super) fn cut(&self) -> TokenCut {
        self.cut
    }

    /// The names by id, on one line each.
    pub(super) fn names(&self) -> Vec<String> {
        let line = |name: &String| if self.cut == TokenCut::Bytes { name.clone() } else { line::written(name, false) };
        self.names.iter().map(line).collect()
    }

    /// The token that stands for what training does not have, if there is one.
    pub(super) fn unknown(&self) -> Option<u32> {
        self.ids.get(UNKNOWN)
    }

    /// The id of one piece.
    pub(super) fn id(&self, piece: &str) -> u32 {
        self.ids.get(piece).unwrap_or(0)
    }

    /// Whether a text surely has tokens.
    pub(super) fn has_some(&self, text: &str) -> bool {
        match self.cut {
            TokenCut::Words | TokenCut::Blanks => text.contains(|c: char| !c.is_whitespace()),
            TokenCut::Characters | TokenCut::Bytes => !text.is_empty(),
            TokenCut::Trained => false,
        }
    }

    /// The tokens of a text.
    pub(super) fn encode(&self, text: &str) -> Result<Vec<u32>, String> {
        match (&self.trained, self.cut) {
            (Some(trained), _) => trained.encode(text),
            (None, TokenCut::Bytes) => Ok(text.bytes().map(u32::from).collect()),
            (None, cut) => {
                let mut tokens = Vec::with_capacity(text.len() / 4);
                cut.each(text, self.lines, |piece| tokens.push(self.id(piece)));
                tokens.shrink_to_fit();
                Ok(tokens)
            }
        }
    }

    /// Returns the tokens of a text, and the bytes of the text that each stands for: those from the end of the token before to its
    /// own end, with blanks between; the last token has all that follows.
    pub(super) fn spans(&self, text: &str) -> Result<(Vec<u32>, Vec<u32>), String> {
        let (tokens, mut ends) = match (&self.trained, self.cut) {
            (Some(trained), _) => trained.ends(text)?,
            (None, TokenCut::Bytes) => (self.encode(text)?, (1..=text.len()).collect()),
            (None, cut) => {
                let (mut tokens, mut ends) = (vec![], vec![]);
                cut.each(text, self.lines, |piece| {
                    tokens.push(self.id(piece));
                    ends.push(piece.as_ptr().addr() - text.as_ptr().addr() + piece.len());
                });
                (tokens, ends)
            }
        };
        if let Some(last) = ends.last_mut() {
            *last = text.len();
        }
        let mut from = 0;
        let mut span = |end: usize| {
            let own = end.saturating_sub(from);
            from = from.max(end);
            own as u32
        };
        let spans = ends.into_iter().map(&mut span).collect();
        Ok((tokens, spans))
    }

    /// The same for other programs.
    pub(super) fn encoding(&self) -> Encoding {
        let (cut, letters) = match self.cut {
            TokenCut::Words => ("words", Some(ranges(|c| !c.is_whitespace() && in_word(c)))),
            TokenCut::Blanks => ("blanks", None),
            TokenCut::Characters => ("characters", None),
            TokenCut::Bytes => ("bytes", None),
            TokenCut::Trained => ("tokenizer.json", None),
        };
        let SavedVocabulary { vocabulary: pieces, tokenizer, .. } = self.kept();
        // What is not known has the id 0, whatever its name.
        let unknown = (!pieces.is_empty()).then_some(0);
        Encoding { cut, letters, line_ends: self.lines, pieces, unknown, tokenizer, ..Encoding::default() }
    }

    /// A text as a person writes it on one line, with escapes for line breaks and the like.
    pub(super) fn read(&self, line: &str) -> Result<Vec<u32>, String> {
        match self.cut {
            TokenCut::Bytes => bytes::encode(line, usize::MAX),
            _ => self.encode(&line::read(line)?),
        }
    }

    /// The token of a text, in which line breaks may be escapes; `role` says what the token does.
    ///
    /// # Errors
    /// A sentence about a text that is not one token of the vocabulary.
    pub(super) fn one(&self, text: &str, role: &str) -> Result<u32, String> {
        let (found, shown) = (self.read(text)?, line::written(text, false));
        match found[..] {
            [token] if self.unknown() != Some(token) => Ok(token),
            [_] => Err(format!("`{shown}` is no token of the training text")),
            [] => Err(format!("`{shown}` is no token, since blanks are between tokens: name a token that {role}")),
            _ => Err(format!(
                "`{shown}` is {} tokens, and one {role}: name one, as `\"\\n\"` for lines; `tokens: blanks` makes one of all that \
                 stands between blanks",
                found.len()
            )),
        }
    }

    /// Some tokens as text on one line; with `sides` there is no `|` in it.
    pub(super) fn written(&self, tokens: &[u32], sides: bool) -> String {
        match self.cut {
            TokenCut::Bytes => bytes::decode(tokens),
            _ => line::written(&self.text(tokens), sides),
        }
    }

    /// Some tokens as the text that they are.
    pub(super) fn text(&self, tokens: &[u32]) -> String {
        let byte = |token: &u32| u8::try_from(*token).unwrap_or(b'?');
        match (&self.trained, self.cut) {
            (_, TokenCut::Bytes) => String::from_utf8_lossy(&tokens.iter().map(byte).collect::<Vec<u8>>()).into_owned(),
            (Some(trained), _) => trained.decode(tokens),
            (None, _) => self.joined(tokens),
        }
    }

    fn joined(&self, tokens: &[u32]) -> String {
        let name = |token: &u32| self.names.get(*token as usize).map_or("?", String::as_str);
        tokens.iter().map(name).collect::<Vec<_>>().join(self.between())
    }
}

/// The field by which the model of a `tokenizer.json` draws among the ways to cut a text (BPE dropout, subword regularisation).
fn random(model: &Value) -> Option<(&'static str, &Value)> {
    let drawn =
        |field: &'static str| Some((field, model.get(field)?)).filter(|(_, number)| number.as_f64() != Some(0.0));
    ["dropout", "alpha"].into_iter().find_map(|field| drawn(field).filter(|(_, number)| !number.is_null()))
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("cut", &self.cut).field("tokens", &self.names.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(cut: TokenCut, lines: bool) -> Vec<&'static str> {
        cut.pieces("Don't  say\n5%_x!", lines)
    }

    #[test]
    fn texts_are_cut() {
        assert_eq!(words(TokenCut::Words, false), ["Don", "'", "t", "say", "5", "%", "_x", "!"]);
        assert_eq!(words(TokenCut::Words, true), ["Don", "'", "t", "say", "\n", "5", "%", "_x", "!"]);
        assert_eq!(words(TokenCut::Blanks, false), ["Don't", "say", "5%_x!"]);
        assert_eq!(TokenCut::Characters.pieces("aé", false), ["a", "é"]);
    }

    #[test]
    fn tokens_stand_for_all_bytes_of_their_text() {
        let text = " naïve,  to\n\nbe 5 ";
        for cut in [TokenCut::Words, TokenCut::Blanks, TokenCut::Characters] {
            let tokens = Tokens::of_names(cut, true, vec![UNKNOWN.to_owned(), "to".to_owned()]);
            let (found, spans) = tokens.spans(text).expect("a text");
            assert_eq!(Ok(&found), tokens.encode(text).as_ref(), "{cut:?}");
            assert_eq!((spans.len(), spans.iter().sum::<u32>()), (found.len(), text.len() as u32), "{cut:?}");
        }
        let words = Tokens::of_names(TokenCut::Words, true, vec![UNKNOWN.to_owned()]);
        assert_eq!(words.spans(text).map(|(_, spans)| spans), Ok(vec![7, 1, 4, 1, 1, 2, 3]));
        assert_eq!(Tokens::bytes().spans("ä").map(|(_, spans)| spans), Ok(vec![1, 1]));
        assert_eq!(words.spans("  "), Ok((vec![], vec![])));
    }

    #[test]
    fn the_most_frequent_pieces_are_known() {
        let mut counts = PieceMap::default();
        for (piece, count) in [("b", 2), ("a", 2), ("c", 1)] {
            *counts.get_or_insert(piece, 0) = count;
        }
        let tokens = Tokens::learned(TokenCut::Blanks, false, counts, 3);
        assert_eq!(tokens.names(), ["<unknown>", "a", "b"]);
        assert_eq!(tokens.encode("b c a"), Ok(vec![2, 0, 1]));
        let again = Tokens::from_kept(tokens.kept()).expect("it was kept");
        assert_eq!(again.names(), tokens.names());
    }
}
