//! Where things stand in the text of an experiment. The YAML reader keeps no places, so they are looked for by name.

use std::ops::Range;

/// A part of a line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The line, counted from 1.
    pub line: usize,
    /// Its text.
    pub text: String,
    /// The bytes of it that are meant.
    pub range: Range<usize>,
}

/// The line on which the last key of a path first stands below the others, counted from 1.
pub(super) fn line_of(text: &str, path: &[&str]) -> Option<usize> {
    key(text, path).map(|at| line_at(text, at))
}

/// The number of the line that holds the byte `at`.
pub(super) fn line_at(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The byte at which the line begins on which the last key of a path first stands below the others.
pub(super) fn key(text: &str, path: &[&str]) -> Option<usize> {
    let (mut from, mut lines) = (0, text.split_inclusive('\n').peekable());
    for key in path {
        while !stands(lines.peek()?, key) {
            from += lines.next()?.len();
        }
    }
    (!path.is_empty()).then_some(from)
}

/// The byte at which the line begins that has a key of the file itself, which nothing stands before.
pub(super) fn top(text: &str, key: &str) -> Option<usize> {
    let begins = |at: &usize| *at == 0 || text[..*at].ends_with('\n');
    text.match_indices(key)
        .map(|(at, _)| at)
        .find(|at| begins(at) && text[*at + key.len()..].trim_start().starts_with(':'))
}

/// Whether a line has this key. A colon inside of a name, as in `gut:no_gate`, ends no key.
fn stands(line: &str, key: &str) -> bool {
    let value = |rest: &str| rest.trim_start().strip_prefix(':').is_some_and(|rest| !rest.starts_with(is_name));
    line.split(['{', ',']).any(|word| word.trim_start().strip_prefix(key).is_some_and(value))
}

/// Finds texts one after the other, the first one behind the byte `from`.
pub(super) fn find(text: &str, mut from: usize, wanted: &[String]) -> Vec<Option<Written>> {
    let next = |wanted: &String| {
        let at = word(text, from, wanted)?;
        from = at + wanted.len();
        Some(written(text, at, wanted.len()))
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

fn written(text: &str, at: usize, length: usize) -> Written {
    let begin = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[begin..].lines().next().unwrap_or_default();
    Written { line: line_at(text, at), text: line.to_owned(), range: at - begin..at - begin + length }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | ':' | '/')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "models:\n  gut:no_gate: { set: [a=1] }\n  gut:\n    set:\n      # a=1 is too small\n      - aa=1\n      - a=1\n";

    #[test]
    fn keys_are_whole_names_below_one_another() {
        assert_eq!(line_of(TEXT, &["models", "gut"]), Some(3));
        assert_eq!(line_of(TEXT, &["models", "gut", "set"]), Some(4));
        assert_eq!(line_of(TEXT, &["models", "gut:no_gate", "set"]), Some(2));
        assert_eq!((line_of(TEXT, &["tlb"]), line_of(TEXT, &[])), (None, None));
        assert_eq!((top(TEXT, "set"), top(&format!("{TEXT}set: [b=2]"), "set")), (None, Some(TEXT.len())));
    }

    #[test]
    fn texts_are_found_in_their_order_as_whole_words() {
        let from = key(TEXT, &["models", "gut", "set"]).expect("it is there");
        let found = find(TEXT, from, &["a=1".to_owned()]);
        assert_eq!(found, [Some(Written { line: 7, text: "      - a=1".to_owned(), range: 8..11 })]);
        assert_eq!(find(TEXT, 0, &["a=1".to_owned()])[0].as_ref().map(|found| found.line), Some(2));
        assert_eq!(find(TEXT, from, &["b=1".to_owned(), "aa=1".to_owned()]).iter().flatten().count(), 1);
    }
}
