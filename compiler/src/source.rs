//! Source texts and places in them.

use std::fmt;

/// Which of the loaded texts a span lies in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u32);

/// A half-open byte range of one source text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The text that the range lies in.
    pub source: SourceId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The span of bytes `start..end` of a text.
    pub fn new(source: SourceId, start: usize, end: usize) -> Self {
        Self { source, start: start as u32, end: end as u32 }
    }

    /// The smallest span that holds both; both lie in the same text.
    pub fn to(self, other: Span) -> Self {
        Self { source: self.source, start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// A named text: a file as the user wrote its name, a line of one, or `--set 1`.
#[derive(Clone, Debug)]
pub struct Source {
    /// The name shown in reports.
    pub name: String,
    /// The whole text.
    pub text: String,
    /// The number of its first line in the file that it comes from, counted from 1.
    pub first_line: usize,
}

impl Source {
    /// A source of the given name and text.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into(), first_line: 1 }
    }

    /// A part of a file that begins on this line, counted from 1.
    pub fn part(name: impl Into<String>, text: impl Into<String>, first_line: usize) -> Self {
        Self { first_line, ..Self::new(name, text) }
    }

    /// Line and column of a byte offset, both counted from 1; columns count characters.
    pub fn position(&self, offset: u32) -> Position {
        let mut at = (offset as usize).min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        let before = &self.text[..at];
        let line_start = before.rfind('\n').map_or(0, |n| n + 1);
        Position {
            line: before.matches('\n').count() + self.first_line,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

/// The texts of one check: the file asked for, the files it uses, and one text per `--set`.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    list: Vec<Source>,
}

impl Sources {
    /// Adds a text and gives its id.
    pub fn add(&mut self, source: Source) -> SourceId {
        self.list.push(source);
        SourceId(self.list.len() as u32 - 1)
    }

    /// The text of an id; `None` for an id of other sources.
    pub fn get(&self, id: SourceId) -> Option<&Source> {
        self.list.get(id.0 as usize)
    }

    /// All texts in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (SourceId, &Source)> {
        self.list.iter().enumerate().map(|(n, source)| (SourceId(n as u32), source))
    }
}

/// A line and a column, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column in characters.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}
