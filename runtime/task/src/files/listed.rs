//! A list of JSON objects as lines of JSON: one for each item.

use std::io::{self, BufRead, Read};

/// Where in a list a reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
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
pub(super) struct Listed<R> {
    inner: R,
    place: Place,
    /// Brackets that are open in the item.
    depth: usize,
    lines: Vec<u8>,
    given: usize,
}

impl<R> Listed<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, place: Place::Before, depth: 0, lines: vec![], given: 0 }
    }

    fn see(&mut self, byte: u8) -> Result<(), &'static str> {
        let blank = byte.is_ascii_whitespace();
        self.place = match (self.place, byte) {
            (Place::Before | Place::First | Place::Next | Place::Behind, _) if blank => return Ok(()),
            (Place::Before, b'[') => Place::First,
            // The mark of UTF-8.
            (Place::Before, 0xEF | 0xBB | 0xBF) => Place::Before,
            (Place::Before, _) => return Err("a list is wanted"),
            (Place::Behind, _) => {
                return Err("behind the list comes more: a file holds one list, or an object per line");
            }
            (Place::First, b']') => Place::Behind,
            (Place::First | Place::Next, b',' | b']') => {
                return Err("an object is wanted before this comma or bracket");
            }
            (Place::First | Place::Next, _) => {
                self.depth = 0;
                return self.inside(byte);
            }
            (Place::Item, _) => return self.inside(byte),
            (Place::Text, b'\\') => Place::Escaped,
            (Place::Text, b'"') => Place::Item,
            (Place::Text | Place::Escaped, _) => Place::Text,
        };
        // Line ends can't stand in a text of JSON; one that does is told where the line is read.
        if matches!(self.place, Place::Text | Place::Escaped | Place::Item) {
            self.lines.push(if byte == b'\n' { b' ' } else { byte });
        }
        Ok(())
    }

    /// A byte of an item outside of a text, or what ends the item.
    fn inside(&mut self, byte: u8) -> Result<(), &'static str> {
        self.place = match byte {
            b',' if self.depth == 0 => Place::Next,
            b']' if self.depth == 0 => Place::Behind,
            b'"' => Place::Text,
            _ => Place::Item,
        };
        match byte {
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.lines.push(match self.place {
            Place::Next | Place::Behind => b'\n',
            _ if byte == b'\n' || byte == b'\r' => b' ',
            _ => byte,
        });
        Ok(())
    }
}

impl<R: BufRead> Read for Listed<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.given == self.lines.len() {
            self.lines.clear();
            self.given = 0;
            let input = self.inner.fill_buf()?.to_vec();
            if input.is_empty() {
                return match self.place {
                    Place::Behind => Ok(0),
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
        io::read_to_string(Listed::new(io::BufReader::with_capacity(at_once, text.as_bytes())))
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
