//! A list of JSON objects as lines of JSON: one for each item.

use std::io::{self, BufRead, Read};

/// Where in a list a reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListPlace {
    /// Before the list.
    Before,
    /// Where an item may begin; the list may end here if it is empty.
    First,
    /// Where an item must begin.
    Next,
    /// In an item, outside of a text.
    Item,
    /// In a text.
    Text,
    /// In a text, after a backslash.
    Escaped,
    /// Behind the list.
    Behind,
}

/// Reads `[{..}, {..}]` as `{..}` and `{..}` on a line each, wherever its line ends are.
pub(super) struct ListReader<R> {
    inner: R,
    place: ListPlace,
    /// Brackets that are open in the item.
    depth: usize,
    lines: Vec<u8>,
    given: usize,
}

impl<R> ListReader<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, place: ListPlace::Before, depth: 0, lines: vec![], given: 0 }
    }

    fn see(&mut self, byte: u8) -> Result<(), &'static str> {
        let blank = byte.is_ascii_whitespace();
        self.place = match (self.place, byte) {
            (ListPlace::Before | ListPlace::First | ListPlace::Next | ListPlace::Behind, _) if blank => return Ok(()),
            (ListPlace::Before, b'[') => ListPlace::First,
            // The mark of UTF-8.
            (ListPlace::Before, 0xEF | 0xBB | 0xBF) => ListPlace::Before,
            (ListPlace::Before, _) => return Err("a list is wanted"),
            (ListPlace::Behind, _) => {
                return Err("behind the list comes more: a file holds one list, or an object per line");
            }
            (ListPlace::First, b']') => ListPlace::Behind,
            (ListPlace::First | ListPlace::Next, b',' | b']') => {
                return Err("an object is wanted before this comma or bracket");
            }
            (ListPlace::First | ListPlace::Next, _) => {
                self.depth = 0;
                return self.inside(byte);
            }
            (ListPlace::Item, _) => return self.inside(byte),
            (ListPlace::Text, b'\\') => ListPlace::Escaped,
            (ListPlace::Text, b'"') => ListPlace::Item,
            (ListPlace::Text | ListPlace::Escaped, _) => ListPlace::Text,
        };
        // Line ends can't stand in a text of JSON; one that does is told where the line is read.
        if matches!(self.place, ListPlace::Text | ListPlace::Escaped | ListPlace::Item) {
            self.lines.push(if byte == b'\n' { b' ' } else { byte });
        }
        Ok(())
    }

    /// A byte of an item outside of a text, or what ends the item.
    fn inside(&mut self, byte: u8) -> Result<(), &'static str> {
        self.place = match byte {
            b',' if self.depth == 0 => ListPlace::Next,
            b']' if self.depth == 0 => ListPlace::Behind,
            b'"' => ListPlace::Text,
            _ => ListPlace::Item,
        };
        match byte {
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.lines.push(match self.place {
            ListPlace::Next | ListPlace::Behind => b'\n',
            _ if byte == b'\n' || byte == b'\r' => b' ',
            _ => byte,
        });
        Ok(())
    }
}

impl<R: BufRead> Read for ListReader<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.given == self.lines.len() {
            self.lines.clear();
            self.given = 0;
            let input = self.inner.fill_buf()?.to_vec();
            if input.is_empty() {
                return match self.place {
                    ListPlace::Behind => Ok(0),
                    _ => Err(io::Error::other("the list that begins the file never ends: its `]` is missing")),
                };
            }
            self.inner.consume(input.len());
            input.into_iter().try_for_each(|byte| self.see(byte)).map_err(io::Error::other)?;
        }
        let count = to.len().min(self.lines.len() - self.given);
        to[..count].copy_from_slice(&self.lines[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, at_once: usize) -> io::Result<String> {
        io::read_to_string(ListReader::new(io::BufReader::with_capacity(at_once, text.as_bytes())))
    }

    #[test]
    fn items_are_lines() {
        let text = "\u{feff} [\n {\"a\": [1, {\"b\": \"x],\\\"\\\\\"}],\r\n  \"c\": 2},\n{\"a\": []} ,3]\n ";
        let expected = "{\"a\": [1, {\"b\": \"x],\\\"\\\\\"}],    \"c\": 2}\n{\"a\": []} \n3\n";
        for at_once in [1, 2, 7, 100] {
            assert_eq!(read(text, at_once).expect("a list"), expected);
            assert_eq!(read("[ ]", at_once).expect("an empty one"), "");
        }
        for (wrong, why) in [
            ("[{}", "never ends"),
            ("[{}, ]", "an object is wanted"),
            ("[,{}]", "an object is wanted"),
            ("[{}] {}", "behind the list"),
            ("[{}]]", "behind the list"),
            ("[\"a", "never ends"),
        ] {
            let error = read(wrong, 3).expect_err(wrong).to_string();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }
}
