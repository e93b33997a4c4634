//! Places in the text of an experiment. The YAML reader keeps none, so keys are searched for by name and indentation.

use std::ops::Range;

/// A part of a line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinePart {
    /// The file.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// Its text.
    pub text: String,
    /// The bytes of it that are meant.
    pub range: Range<usize>,
}

/// The number of the line that holds the byte `at`.
pub(super) fn line_at(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The byte at which the line begins that holds the last key of a path, each key directly below the one before it.
pub(super) fn key(text: &str, path: &[&str]) -> Option<usize> {
    let mut found: Option<SourceLine<'_>> = None;
    for key in path {
        found = Some(match found {
            None => below(lines(text), 0, key)?,
            Some(parent) if parent.has(key) => parent,
            Some(parent) => {
                let inside = lines(text).skip_while(|line| line.at <= parent.at);
                let inside = inside.take_while(|line| line.indent > parent.indent);
                let first = inside.clone().next()?.indent;
                // A block in braces may be indented in any way.
                below(inside.clone(), first, key).or_else(|| inside.clone().find(|line| line.has(key)))?
            }
        });
    }
    found.map(|line| line.at)
}

/// A line that is neither blank nor a comment.
#[derive(Clone, Copy)]
struct SourceLine<'a> {
    at: usize,
    indent: usize,
    text: &'a str,
}

fn lines(text: &str) -> impl Iterator<Item = SourceLine<'_>> + Clone {
    let begins = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
    let line = |at: usize| {
        let line = text[at..].lines().next().unwrap_or_default();
        let text = line.trim_start();
        (!text.is_empty() && !text.starts_with('#')).then_some(SourceLine { at, indent: line.len() - text.len(), text })
    };
    begins.filter_map(line)
}

/// The line of an indentation that begins with a key, or else one that holds the key in braces.
fn below<'a>(lines: impl Iterator<Item = SourceLine<'a>> + Clone, indent: usize, key: &str) -> Option<SourceLine<'a>> {
    let mut of_block = lines.filter(|line| line.indent == indent);
    of_block.clone().find(|line| line.begins(key)).or_else(|| of_block.find(|line| line.has(key)))
}

impl SourceLine<'_> {
    /// Whether the line has this key.
    fn has(&self, key: &str) -> bool {
        self.text.split(['{', ',']).any(|part| stands(part, key))
    }

    /// Whether the line begins with this key.
    fn begins(&self, key: &str) -> bool {
        stands(self.text.trim_start_matches(['{', ' ']), key)
    }
}

/// Whether a part of a line begins with a key. A colon inside of a name, as in `gut:no_gate`, ends no key.
fn stands(part: &str, key: &str) -> bool {
    let value = |rest: &str| rest.trim_start().strip_prefix(':').is_some_and(|rest| !rest.starts_with(is_name));
    let quotes = ['"', '\''];
    let unquoted = part.trim_start().trim_start_matches("- ").trim_start_matches(quotes);
    unquoted.strip_prefix(key).is_some_and(|rest| value(rest.trim_start_matches(quotes)))
}

/// Whether a text has this key.
pub(super) fn has_key(text: &str, key: &str) -> bool {
    lines(text).any(|line| line.has(key))
}

/// The first key, with its line, that is written without quotation marks and for which a condition holds.
pub(super) fn key_that(text: &str, is_meant: impl Fn(&str) -> bool) -> Option<(usize, &str)> {
    let in_line = |line: SourceLine<'_>| {
        let from = line.at + line.indent;
        let text = &text[from..from + line.text.len()];
        let parts = text.split(['{', ',']).filter_map(|part| part.split_once(':'));
        let mut words = parts.map(|(key, _)| key.trim_start().trim_start_matches("- ").trim());
        words.find(|word| !word.is_empty() && is_meant(word)).map(|word| (from, word))
    };
    lines(text).find_map(in_line).map(|(at, word)| (line_at(text, at), word))
}

/// The line of a key that a block has twice, of which the first one stands on a line or below it: that of the second one.
pub(super) fn second(text: &str, from: usize, key: &str) -> Option<usize> {
    let column = |line: &SourceLine<'_>| line.indent + line.text.find(key).unwrap_or_default();
    let mut found = lines(text).filter(|line| line_at(text, line.at) >= from && line.has(key));
    let Some(first) = found.next() else { return Some(from) };
    let again = found.find(|line| column(line) == column(&first));
    Some(line_at(text, again.unwrap_or(first).at))
}

/// Finds texts one after the other, the first one behind the byte `from`: the byte where each stands.
pub(super) fn find(text: &str, mut from: usize, wanted: &[String]) -> Vec<Option<usize>> {
    let next = |wanted: &String| {
        let at = word(text, from, wanted)?;
        from = at + wanted.len();
        Some(at)
    };
    wanted.iter().map(next).collect()
}

/// Where a text first stands at or behind the byte `from` that is no part of a longer name, outside of comments.
pub(super) fn word(text: &str, from: usize, wanted: &str) -> Option<usize> {
    let alone = |at: &usize| {
        let (before, behind) = (&text[..*at], &text[at + wanted.len()..]);
        let line = before.rsplit('\n').next().unwrap_or(before);
        let comment = line.trim_start().starts_with('#') || line.contains(" #");
        !before.ends_with(is_name) && !behind.starts_with(is_name) && !comment
    };
    let mut places = text[from..].match_indices(wanted).map(|(at, _)| from + at);
    if wanted.is_empty() || wanted.contains('\n') { None } else { places.find(alone) }
}

/// The line of a text that stands at a byte, with the part that the text takes of it.
pub(super) fn written(file: &str, text: &str, at: usize, length: usize) -> LinePart {
    let begin = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[begin..].lines().next().unwrap_or_default();
    let range = at - begin..at - begin + length;
    LinePart { file: file.to_owned(), line: line_at(text, at), text: line.to_owned(), range }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | ':' | '/')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "models:\n  gut:no_gate: { set: [a=1] }\n  gut:\n    set:\n      # a=1 is too small\n      - aa=1\n      - a=1\n";

    fn line_of(text: &str, path: &[&str]) -> Option<usize> {
        key(text, path).map(|at| line_at(text, at))
    }

    #[test]
    fn keys_are_whole_names_directly_below_one_another() {
        assert_eq!(line_of(TEXT, &["models", "gut"]), Some(3));
        assert_eq!(line_of(TEXT, &["models", "gut", "set"]), Some(4));
        assert_eq!(line_of(TEXT, &["models", "gut:no_gate", "set"]), Some(2));
        assert_eq!((line_of(TEXT, &["tlb"]), line_of(TEXT, &[])), (None, None));
        assert_eq!((key(TEXT, &["set"]), key(&format!("{TEXT}set: [b=2]"), &["set"])), (None, Some(TEXT.len())));
        // The `clip` of another block is none of `a`.
        let text = "a:\n  b: 1\n\n# clip: 2\nm:\n  x:\n    clip: 3\n  'y': { clip: 4,\n      z: 5 }\n";
        assert_eq!((line_of(text, &["a", "clip"]), line_of(text, &["m", "z"])), (None, Some(9)));
        assert_eq!((line_of(text, &["m", "x", "clip"]), line_of(text, &["m", "y", "clip"])), (Some(7), Some(8)));
        assert_eq!(line_of(text, &["m", "y", "z"]), Some(9));
        // A key of a block in braces is none of the block around.
        let text = "a: { b: 1, c: 2 }\nd:\n  e: { f: 3 }\n  f: 4\nb: 5\n";
        assert_eq!(
            (line_of(text, &["b"]), line_of(text, &["d", "f"]), line_of(text, &["a", "c"])),
            (Some(5), Some(4), Some(1))
        );
    }

    #[test]
    fn texts_are_found_in_their_order_as_whole_words() {
        let from = key(TEXT, &["models", "gut", "set"]).expect("it is there");
        let found = |wanted: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(|text| (*text).to_owned()).collect();
            find(TEXT, from, &wanted)
        };
        let at = found(&["a=1"])[0].expect("it is there");
        let text = "      - a=1".to_owned();
        assert_eq!(written("x", TEXT, at, 3), LinePart { file: "x".to_owned(), line: 7, text, range: 8..11 });
        assert_eq!(find(TEXT, 0, &["a=1".to_owned()])[0].map(|at| line_at(TEXT, at)), Some(2));
        assert_eq!(found(&["b=1", "aa=1"]).iter().flatten().count(), 1);
    }
}
