//! Places of texts as editors count them: lines, and units of UTF-16 in a line.

use std::ops::Range;

use lsp_types::{Position, Range as Area, TextDocumentContentChangeEvent};
use rtc_compiler::source::Span;

/// A text with the places where its lines begin.
#[derive(Clone, Debug, Default)]
pub(crate) struct IndexedText {
    pub(crate) text: String,
    starts: Vec<usize>,
    /// Units of UTF-16 before every [`STRIDE`] bytes: a line may be as long as the text, and have many places.
    units: Vec<usize>,
}

/// Bytes between two places whose units are known.
const STRIDE: usize = 1024;

impl IndexedText {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let bytes = text.as_bytes();
        // A line ends in `\n`, `\r\n` or `\r`.
        let ends = |at: &usize| bytes[*at] == b'\n' || bytes[*at] == b'\r' && bytes.get(at + 1) != Some(&b'\n');
        let starts = std::iter::once(0).chain((0..bytes.len()).filter(ends).map(|at| at + 1)).collect();
        let units = strides(&text);
        Self { text, starts, units }
    }

    /// Units of UTF-16 before a byte that begins a character.
    fn units(&self, offset: usize) -> usize {
        let stride = (offset / STRIDE).min(self.units.len().saturating_sub(1));
        let from = floor(&self.text, stride * STRIDE);
        self.units.get(stride).copied().unwrap_or(0) + self.text[from..offset].encode_utf16().count()
    }

    /// The byte of a position; one behind the end of its line, or of the text, is that end.
    pub(crate) fn offset(&self, position: Position) -> usize {
        let Some(start) = self.starts.get(position.line as usize).copied() else { return self.text.len() };
        let end = self.starts.get(position.line as usize + 1).copied().unwrap_or(self.text.len());
        let line = self.text[start..end].trim_end_matches(['\r', '\n']);
        let mut units = 0;
        for (at, c) in line.char_indices() {
            units += c.len_utf16();
            if units > position.character as usize {
                return start + at;
            }
        }
        start + line.len()
    }

    /// The position of a byte.
    pub(crate) fn position(&self, offset: usize) -> Position {
        let offset = floor(&self.text, offset);
        let line = self.starts.partition_point(|start| *start <= offset) - 1;
        let units = self.units(offset) - self.units(self.starts[line]);
        Position::new(line as u32, units as u32)
    }

    pub(crate) fn area(&self, bytes: Range<usize>) -> Area {
        Area::new(self.position(bytes.start), self.position(bytes.end))
    }

    pub(crate) fn area_of(&self, span: Span) -> Area {
        self.area(span.start as usize..span.end as usize)
    }

    /// The text after a change.
    pub(crate) fn changed(self, change: TextDocumentContentChangeEvent) -> Self {
        let Some(area) = change.range else { return Self::new(change.text) };
        let (start, end) = (self.offset(area.start), self.offset(area.end));
        let mut text = self.text;
        text.replace_range(start.min(end)..end.max(start), &change.text);
        Self::new(text)
    }
}

/// The units before the character at every [`STRIDE`] bytes.
fn strides(text: &str) -> Vec<usize> {
    let (mut units, mut from) = (vec![0], 0);
    for at in (STRIDE..=text.len()).step_by(STRIDE) {
        let at = floor(text, at);
        units.push(units.last().copied().unwrap_or(0) + text[from..at].encode_utf16().count());
        from = at;
    }
    units
}

/// The first byte of the character at a place.
fn floor(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_utf16_are_counted() {
        let text = IndexedText::new("a\u{1f600}b\r\nö\rc\n");
        for (offset, line, unit) in
            [(0, 0, 0), (1, 0, 1), (5, 0, 3), (6, 0, 4), (8, 1, 0), (10, 1, 1), (11, 2, 0), (13, 3, 0)]
        {
            assert_eq!(text.position(offset), Position::new(line, unit), "{offset}");
            assert_eq!(text.offset(Position::new(line, unit)), offset);
        }
        // Inside of a pair of units, behind a line, behind the text.
        assert_eq!(text.offset(Position::new(0, 2)), 1);
        assert_eq!(text.offset(Position::new(0, 99)), 6);
        assert_eq!(text.offset(Position::new(99, 0)), 13);
        assert_eq!(text.position(99), Position::new(3, 0));
    }

    #[test]
    fn units_of_a_long_line_are_counted() {
        let long: String = "\n".to_owned() + &"aé\u{1f600}€".repeat(2_000);
        let text = IndexedText::new(long.as_str());
        let mut units = 0;
        for (at, c) in long.char_indices().skip(1) {
            assert_eq!(text.position(at), Position::new(1, units), "{at}");
            units += c.len_utf16() as u32;
        }
        assert_eq!(text.position(long.len()), Position::new(1, units));
    }

    #[test]
    fn changes_that_no_text_has_are_clamped() {
        let change = |area, text: &str| TextDocumentContentChangeEvent {
            range: Some(area),
            range_length: None,
            text: text.to_owned(),
        };
        let far = Position::new(u32::MAX, u32::MAX);
        let text = IndexedText::new("one\ntwo").changed(change(Area::new(Position::new(1, 0), far), "2"));
        assert_eq!(text.text, "one\n2");
        assert_eq!(text.changed(change(Area::new(far, Position::new(0, 3)), "")).text, "one");
    }
}
