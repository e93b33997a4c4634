//! How a text becomes tokens, told to programs that read an exported model.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

/// The way from a text to the ids of its tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Encoding {
    /// What is replaced before the text is cut, in this order.
    pub replaced: Vec<[String; 2]>,
    /// How it is cut: `words`, `blanks`, `characters`, `bytes`, or `tokenizer.json`, which stands in a file of its own.
    pub cut: &'static str,
    /// Whether a line end is a token where other blanks are none.
    pub line_ends: bool,
    /// The characters that words are made of, as ranges of code points in hexadecimal digits; other characters stand alone.
    pub letters: Option<String>,
    /// The pieces as they stand in texts, by id; none where bytes or a `tokenizer.json` give the ids.
    pub pieces: Vec<String>,
    /// The id of all other pieces; without one, a text with another piece is an error.
    pub unknown: Option<u32>,
    /// The most tokens of a text: those behind them are cut off.
    pub length: Option<usize>,
    /// Ids before the tokens of every text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<u32>,
    /// Ids behind the tokens of every text, whatever its length.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub behind: Vec<u32>,
    /// Names in a text that are tokens themselves, with their ids: the text is cut there first.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub marks: BTreeMap<String, u32>,
    /// The `tokenizer.json`.
    #[serde(skip)]
    pub tokenizer: Option<Value>,
}

impl Encoding {
    /// Pieces with blanks between them, after some replacements.
    pub(super) fn blanks(pieces: Vec<String>, replaced: &[[&str; 2]]) -> Self {
        let replaced = replaced.iter().map(|pair| pair.map(str::to_owned)).collect();
        Self { replaced, cut: "blanks", pieces, ..Self::default() }
    }

    /// Bytes, each of which is its own id, of which the first `length` count.
    pub(super) fn bytes(length: usize) -> Self {
        Self { cut: "bytes", length: Some(length), ..Self::default() }
    }
}

/// The characters for which `holds`, as ranges of code points: `30-39 41-5a 5f`.
pub(super) fn ranges(holds: impl Fn(char) -> bool) -> String {
    let mut found: Vec<(u32, u32)> = vec![];
    for c in ('\0'..=char::MAX).filter(|c| holds(*c)).map(u32::from) {
        match found.last_mut() {
            Some((_, last)) if *last + 1 == c => *last = c,
            _ => found.push((c, c)),
        }
    }
    let range = |(first, last): &(u32, u32)| match first == last {
        true => format!("{first:x}"),
        false => format!("{first:x}-{last:x}"),
    };
    found.iter().map(range).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn ranges_are_short() {
        assert_eq!(super::ranges(|c| c.is_ascii_alphanumeric() || c == '_'), "30-39 41-5a 5f 61-7a");
    }
}
