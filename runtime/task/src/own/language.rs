//! Texts of `language` and `masked`: read block by block, cut into windows of tokens.
//!
//! A text is tokenised block by block, where a block of up to [`BLOCK`] bytes ends at the end of a line, or else at a blank, or else
//! between two characters. So tokens depend on the text alone, and any block can be read again by itself. Ends of lines are line feeds,
//! those of a carriage return and a line feed, too; a mark at the start of a file (U+FEFF) is no part of the text; and the last line
//! of a file ends before the next file begins.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::placement::RowFilter;
use super::tokens::Tokens;
use super::{MAX_HELD, MAX_TEXT};
use crate::error::DataError;
use crate::files::batches::{BatchRecord, Batches};
use crate::files::open::open_text;
use crate::files::records::BYTE_ORDER_MARK;
use crate::files::{FileCell, FileLayout, Format};
use crate::reading::{broken, unreadable};
use crate::stream::Stamp;
use crate::{Example, ExampleTarget, documents};

/// The most bytes of a block.
const BLOCK: usize = 4096;

/// A text in one or several files, one behind the other.
#[derive(Debug)]
pub(super) struct JoinedText {
    parts: Vec<TextFile>,
    bytes: u64,
}

/// A file of the text.
#[derive(Debug)]
struct TextFile {
    path: PathBuf,
    /// Its place in the whole text.
    from: u64,
    /// Number of its bytes in the text.
    bytes: u64,
    /// Its bytes, where the file has them packed or in a column.
    held: Option<Vec<u8>>,
    /// Bytes of the mark at its start.
    mark: u64,
    /// Whether a line feed is added behind it: another file follows, and its last line has no end.
    ended: bool,
    stamp: Stamp,
}

impl TextFile {
    fn open(path: &Path, layout: &FileLayout) -> Result<Self, DataError> {
        let held = match layout.format(path)? {
            Format::Text if !layout.form.is_made(path, Format::Text)? => None,
            Format::Text => Some(unpacked(path, layout)?),
            _ => Some(column(path, layout)?),
        };
        let stamp = Stamp::of(path)?;
        let all = held.as_ref().map_or(stamp.bytes(), |held| held.len() as u64);
        let mut found = Self { path: path.to_owned(), from: 0, bytes: all, held, mark: 0, ended: false, stamp };
        let mark = BYTE_ORDER_MARK.len() as u64;
        if all >= mark && found.read(0, BYTE_ORDER_MARK.len())? == BYTE_ORDER_MARK {
            (found.mark, found.bytes) = (mark, all - mark);
        }
        Ok(found)
    }

    /// Adds an end to a last line that has none.
    fn end(&mut self) -> Result<(), DataError> {
        if self.bytes > 0 && self.read(self.bytes - 1, 1)? != b"\n" {
            self.bytes += 1;
            self.ended = true;
        }
        Ok(())
    }

    /// Some of its bytes, from one on.
    fn read(&self, at: u64, count: usize) -> Result<Vec<u8>, DataError> {
        let file = if self.held.is_some() { None } else { Some(self.file()?) };
        self.read_from(file.as_ref(), at, count)
    }

    fn file(&self) -> Result<File, DataError> {
        self.stamp.open()
    }

    /// The same, from its open file where its bytes are not held.
    fn read_from(&self, file: Option<&File>, at: u64, count: usize) -> Result<Vec<u8>, DataError> {
        let added = self.ended && at + count as u64 == self.bytes;
        let mut bytes = vec![0; count - usize::from(added)];
        match (&self.held, file) {
            (Some(held), _) => {
                let (from, count) = ((self.mark + at) as usize, bytes.len());
                bytes.copy_from_slice(&held[from..from + count]);
            }
            (None, Some(mut file)) => {
                let read = file.seek(SeekFrom::Start(self.mark + at)).and_then(|_| file.read_exact(&mut bytes));
                self.stamp.check(file)?;
                read.map_err(|error| unreadable(&self.path, error))?;
            }
            (None, None) => return self.read(at, count),
        }
        bytes.extend(added.then_some(b'\n'));
        Ok(bytes)
    }
}

impl JoinedText {
    /// Opens files. Those that are packed or have columns are unpacked into memory.
    pub(super) fn open(files: &[PathBuf], layout: &FileLayout) -> Result<Self, DataError> {
        let mut parts = files.iter().map(|path| TextFile::open(path, layout)).collect::<Result<Vec<_>, _>>()?;
        let (last, mut from) = (parts.len().saturating_sub(1), 0);
        for (n, part) in parts.iter_mut().enumerate() {
            if n < last {
                part.end()?;
            }
            part.from = from;
            from += part.bytes;
        }
        Ok(Self { parts, bytes: from })
    }

    /// Whether some of it is held in memory.
    pub(super) fn is_held(&self) -> bool {
        self.parts.iter().any(|part| part.held.is_some())
    }

    /// The blocks between two bytes, of which the first begins one.
    pub(super) fn range(&self, from: u64, to: u64) -> Blocks<'_> {
        Blocks { text: self, at: from, end: to, file: None }
    }

    /// The blocks of a part of the text, each with the byte on which it begins.
    pub(super) fn blocks(&self, part: &RowFilter) -> Result<Blocks<'_>, DataError> {
        let [from, to] = part.of_text();
        Ok(self.range(self.border(from)?, self.border(to)?))
    }

    /// Where a share of the bytes ends: behind the end of the line, or of the block, in which it does.
    fn border(&self, share: f64) -> Result<u64, DataError> {
        let at = (share * self.bytes as f64).round() as u64;
        if at == 0 || at >= self.bytes {
            return Ok(at.min(self.bytes));
        }
        let bytes = self.range(at, self.bytes).read(at)?;
        let begins = bytes.iter().position(|byte| (*byte as i8) >= -0x40).unwrap_or(0);
        let line = bytes.iter().position(|byte| *byte == b'\n');
        Ok(at + line.map_or(begins, |line| line + 1) as u64)
    }

    fn part_at(&self, at: u64) -> Option<&TextFile> {
        self.parts.iter().find(|part| (part.from..part.from + part.bytes).contains(&at))
    }

    /// Calls `take` with the blocks of a part of the text and what `encode` makes of them, until it returns false. Returns whether all
    /// were taken.
    pub(super) fn encoded<E: Send>(
        &self,
        part: &RowFilter,
        encode: impl Fn(&str) -> Result<E, String> + Sync,
        mut take: impl FnMut(EncodedBlock<E>) -> Result<bool, DataError>,
    ) -> Result<bool, DataError> {
        let encode = |block: Result<TextBlock, DataError>| {
            let TextBlock { at, end, text } = block?;
            let tokens = encode(&text).map_err(|why| self.fault(at, why))?;
            Ok(EncodedBlock { at, end, text, tokens })
        };
        let mut batches = Batches::new(self.blocks(part)?);
        while let Some(blocks) = batches.next(|_, blocks| blocks.map(encode).collect::<Vec<_>>()) {
            for block in blocks.into_iter().flatten() {
                if !take(block?)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The windows of a part of the text, `most` of them at most, one behind the other; more than are held are refused. The last
    /// window may be shorter.
    pub(super) fn windows(
        &self,
        tokens: &Tokens,
        shape: WindowShape,
        part: &RowFilter,
        most: usize,
    ) -> Result<Vec<Example>, DataError> {
        let (length, behind) = (shape.length, shape.behind());
        // A token has an answer and its weight, and may have the number of its document.
        let each = if shape.document_end.is_some() { 5 } else { 3 };
        let (mut found, held) = (vec![], MAX_HELD / each / length);
        let (mut rest, mut rest_bytes) = (vec![], vec![]);
        let encode = |text: &str| tokens.spans(text);
        let is_whole = self.encoded(part, encode, |EncodedBlock { at, tokens: (tokens, bytes), .. }| {
            rest.extend(tokens);
            rest_bytes.extend(bytes);
            let mut used = 0;
            while rest.len() - used >= length + behind && found.len() < most {
                let end = used + length + behind;
                found.push(shape.example(&rest[used..end], &rest_bytes[used..end]));
                used += length;
            }
            rest.drain(..used);
            rest_bytes.drain(..used);
            if found.len() < most && found.len() > held {
                return Err(self.fault(at, super::TOO_MANY.to_owned()));
            }
            Ok(found.len() < most)
        })?;
        if is_whole && rest.len() > behind {
            found.push(shape.example(&rest, &rest_bytes));
        }
        Ok(found)
    }

    /// An error at a byte of the text, with its line.
    pub(super) fn fault(&self, at: u64, message: String) -> DataError {
        let Some(part) = self.part_at(at) else { return DataError { file: "text".to_owned(), line: None, message } };
        let line = self.line(part, at - part.from).unwrap_or(1);
        broken(&part.path, line, message)
    }

    /// The line of a byte of a file.
    fn line(&self, part: &TextFile, at: u64) -> Option<usize> {
        let count = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count();
        if let Some(held) = &part.held {
            return Some(1 + count(held.get(..(part.mark + at) as usize)?));
        }
        let mut reader = part.file().ok()?.take(part.mark + at);
        let (mut buffer, mut lines) = (vec![0; 1 << 16], 1);
        loop {
            match reader.read(&mut buffer).ok()? {
                0 => return Some(lines),
                read => lines += count(&buffer[..read]),
            }
        }
    }
}

/// How a text becomes windows.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowShape {
    /// Tokens of a window.
    pub(super) length: usize,
    /// Whether the answer at a token is the next one; else it is the token.
    pub(super) is_next_token: bool,
    /// The token with which a window begins, where answers are next tokens.
    pub(super) begin: Option<u32>,
    /// The token that ends a document, where rows come with their numbers.
    pub(super) document_end: Option<u32>,
}

impl WindowShape {
    /// Number of tokens that a window needs behind its own.
    pub(super) fn behind(self) -> usize {
        usize::from(self.is_next_token && self.begin.is_none())
    }

    /// Returns the window of some tokens, with the bytes of the text that each stands for, and of those behind it. Every token of a
    /// text is an answer once, but the first of all where answers are next tokens and nothing stands before it.
    pub(super) fn example(self, tokens: &[u32], bytes: &[u32]) -> Example {
        if self.is_next_token {
            let begun: Vec<u32> = self.begin.into_iter().chain(tokens.iter().copied()).collect();
            let example = window(&begun);
            let given = self.document_end.map(|end| documents(&example.tokens, end, 0));
            return Example {
                text_bytes: Some(bytes[self.behind()..].iter().sum()),
                given: given.into_iter().collect(),
                ..example
            };
        }
        let label = ExampleTarget::Each { class: tokens.to_vec(), weight: vec![0.0; tokens.len()] };
        Example { label, ..Example::classified(tokens.to_vec(), 0) }
    }
}

/// A window of the tokens, every one but the last; the answers are those behind them.
pub(super) fn window(tokens: &[u32]) -> Example {
    let (class, weight) = (tokens[1..].to_vec(), vec![1.0; tokens.len() - 1]);
    Example {
        label: ExampleTarget::Each { class, weight },
        ..Example::classified(tokens[..tokens.len() - 1].to_vec(), 0)
    }
}

fn unpacked(path: &Path, layout: &FileLayout) -> Result<Vec<u8>, DataError> {
    let mut bytes = vec![];
    open_text(path, layout.form.encoding)?.take(MAX_TEXT + 1).read_to_end(&mut bytes).map_err(|error| {
        let line = 1 + bytes.iter().filter(|byte| **byte == b'\n').count();
        broken(path, line, error.to_string())
    })?;
    if bytes.len() as u64 > MAX_TEXT { Err(unreadable(path, TOO_LARGE)) } else { Ok(bytes) }
}

const TOO_LARGE: &str = "a packed text, or one in a column, is held in memory, and this one is larger than 1 GiB: unpack it into a .txt \
                         file, which is read as it is needed";

/// The texts of a column, a line each.
fn column(path: &Path, layout: &FileLayout) -> Result<Vec<u8>, DataError> {
    let mut bytes = vec![];
    layout.batches(path)?.each(
        |row| row,
        |row| {
            let row = row?;
            match row.cells.first() {
                Some(FileCell::Text(text)) => bytes.extend_from_slice(text.as_bytes()),
                _ => return Err(broken(path, row.line, format!("the row has no text in `{}`", layout.columns[0]))),
            }
            bytes.push(b'\n');
            if bytes.len() as u64 > MAX_TEXT { Err(unreadable(path, TOO_LARGE)) } else { Ok(true) }
        },
    )?;
    Ok(bytes)
}

/// A block of a text.
pub(super) struct TextBlock {
    /// The byte of the text on which it begins, and the one behind it.
    pub(super) at: u64,
    pub(super) end: u64,
    pub(super) text: String,
}

impl BatchRecord for TextBlock {
    fn bytes(&self) -> usize {
        self.text.len()
    }
}

/// A block with its tokens.
pub(super) struct EncodedBlock<E> {
    /// As those of [`TextBlock`].
    pub(super) at: u64,
    pub(super) end: u64,
    pub(super) text: String,
    pub(super) tokens: E,
}

/// The blocks of a range of a text.
pub(super) struct Blocks<'t> {
    text: &'t JoinedText,
    at: u64,
    end: u64,
    /// The file that is open, with the place of its first byte in the text.
    file: Option<(u64, File)>,
}

impl Blocks<'_> {
    /// Up to a block's bytes from `at` on, of one file.
    fn read(&mut self, at: u64) -> Result<Vec<u8>, DataError> {
        let Some(part) = self.text.part_at(at) else { return Ok(vec![]) };
        let count = (part.bytes - (at - part.from)).min(self.end.saturating_sub(at)).min(BLOCK as u64) as usize;
        if part.held.is_none() && self.file.as_ref().is_none_or(|(from, _)| *from != part.from) {
            self.file = Some((part.from, part.file()?));
        }
        part.read_from(self.file.as_ref().map(|(_, file)| file), at - part.from, count)
    }

    fn block(&mut self) -> Result<Option<TextBlock>, DataError> {
        if self.at >= self.end {
            return Ok(None);
        }
        let mut bytes = self.read(self.at)?;
        let whole = self.at + bytes.len() as u64 == self.end;
        let valid = match str::from_utf8(&bytes) {
            Ok(_) => bytes.len(),
            // A character that the block cuts in two belongs to the next one.
            Err(error) if error.error_len().is_none() && !whole && error.valid_up_to() > 0 => error.valid_up_to(),
            Err(error) => {
                let at = self.at + error.valid_up_to() as u64;
                return Err(self.text.fault(at, "this line is not UTF-8 text".to_owned()));
            }
        };
        bytes.truncate(if whole { valid } else { end_of_block(&bytes[..valid]) });
        let at = self.at;
        self.at += bytes.len() as u64;
        let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n");
        Ok(Some(TextBlock { at, end: self.at, text }))
    }
}

/// Where a block of whole characters ends: behind its last line, else its last blank, else all of it. A carriage return at its end
/// belongs to the next block, which may begin with the line feed.
fn end_of_block(bytes: &[u8]) -> usize {
    let behind = |ends: fn(&u8) -> bool| bytes.iter().rposition(ends).map(|at| at + 1);
    let blank = |byte: &u8| byte.is_ascii_whitespace() && *byte != b'\r';
    let all = bytes.strip_suffix(b"\r").unwrap_or(bytes).len().max(1);
    behind(|byte| *byte == b'\n').or_else(|| behind(blank)).unwrap_or(all)
}

impl Iterator for Blocks<'_> {
    type Item = Result<TextBlock, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.block().transpose()
    }
}
