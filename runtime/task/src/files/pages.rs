//! The sizes that the pages of a Parquet file claim, read from their headers alone: a decoder makes room for as much.
//!
//! A header is a struct in the compact protocol of Thrift. Only its sizes are read; all else is skipped.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::iter::Sum;
use std::ops::Add;

/// The claimed sizes of unpacked pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PageClaims {
    /// Bytes of all pages.
    pub(super) bytes: u64,
    /// Bytes of the largest one.
    pub(super) largest: u64,
    /// Values of all pages, those that are missing among them.
    pub(super) values: u64,
}

impl Add for PageClaims {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            largest: self.largest.max(other.largest),
            values: self.values.saturating_add(other.values),
        }
    }
}

impl Sum for PageClaims {
    fn sum<I: Iterator<Item = Self>>(claims: I) -> Self {
        claims.fold(Self::default(), Add::add)
    }
}

/// The claims of the pages of a column, which lie in `length` bytes from `start` on.
///
/// # Errors
/// The file can't be read, or its pages do not fit into these bytes.
pub(super) fn claims(file: &File, start: u64, length: u64) -> io::Result<PageClaims> {
    let mut reader = BufReader::new(file);
    reader.seek(SeekFrom::Start(start))?;
    let (mut all, mut left) = (PageClaims::default(), length);
    while left > 0 {
        let mut header = Compact(reader.by_ref().take(left));
        let page = header.page()?;
        left = header.0.limit().checked_sub(page.packed).ok_or_else(unfit)?;
        reader.seek_relative(i64::try_from(page.packed).map_err(|_| unfit())?)?;
        all = all + page.claims;
    }
    Ok(all)
}

fn unfit() -> io::Error {
    io::Error::other("its pages do not fit into their columns")
}

/// The header of a page.
struct PageHeader {
    /// Bytes in the file.
    packed: u64,
    claims: PageClaims,
}

/// The deepest structs and lists of a header: its statistics are three deep.
const DEEPEST: usize = 8;

/// The types of fields in the compact protocol.
mod kind {
    pub(super) const TRUE: u8 = 1;
    pub(super) const FALSE: u8 = 2;
    pub(super) const BYTE: u8 = 3;
    pub(super) const SHORT: u8 = 4;
    pub(super) const INT: u8 = 5;
    pub(super) const LONG: u8 = 6;
    pub(super) const DOUBLE: u8 = 7;
    pub(super) const BINARY: u8 = 8;
    pub(super) const LIST: u8 = 9;
    pub(super) const SET: u8 = 10;
    pub(super) const STRUCT: u8 = 12;
}

/// Reads the compact protocol.
struct Compact<R>(R);

impl<R: BufRead> Compact<R> {
    fn page(&mut self) -> io::Result<PageHeader> {
        let (mut packed, mut claims) = (0, PageClaims::default());
        let mut id = 0;
        while let Some(kind) = self.field(&mut id)? {
            match (id, kind) {
                (2, kind::INT) => claims.bytes = self.size()?,
                (3, kind::INT) => packed = self.size()?,
                // The headers of the kinds of pages: data, dictionary, data of the second version.
                (5 | 7 | 8, kind::STRUCT) => claims.values = claims.values.saturating_add(self.values()?),
                (_, kind) => self.skip(kind, 0)?,
            }
        }
        claims.largest = claims.bytes;
        Ok(PageHeader { packed, claims })
    }

    /// The number of values that the header of a kind of page has first.
    fn values(&mut self) -> io::Result<u64> {
        let (mut id, mut values) = (0, 0);
        while let Some(kind) = self.field(&mut id)? {
            match (id, kind) {
                (1, kind::INT) => values = self.size()?,
                (_, kind) => self.skip(kind, 1)?,
            }
        }
        Ok(values)
    }

    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.0.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    /// The type of the next field of a struct, whose number follows the one before; nothing at its end.
    fn field(&mut self, id: &mut i64) -> io::Result<Option<u8>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Ok(None);
        }
        *id = match byte >> 4 {
            0 => signed(self.varint()?),
            more => id.saturating_add(i64::from(more)),
        };
        Ok(Some(byte & 15))
    }

    fn varint(&mut self) -> io::Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Ok(number);
            }
        }
        Err(unfit())
    }

    /// A number of bytes or values.
    fn size(&mut self) -> io::Result<u64> {
        u64::try_from(signed(self.varint()?)).map_err(|_| unfit())
    }

    fn skip(&mut self, kind: u8, depth: usize) -> io::Result<()> {
        if depth > DEEPEST {
            return Err(unfit());
        }
        match kind {
            kind::TRUE | kind::FALSE => Ok(()),
            kind::BYTE => self.byte().map(drop),
            kind::SHORT | kind::INT | kind::LONG => self.varint().map(drop),
            kind::DOUBLE => self.pass(8),
            kind::BINARY => self.varint().and_then(|length| self.pass(length)),
            kind::LIST | kind::SET => self.skip_list(depth),
            kind::STRUCT => {
                let mut id = 0;
                while let Some(kind) = self.field(&mut id)? {
                    self.skip(kind, depth + 1)?;
                }
                Ok(())
            }
            _ => Err(unfit()),
        }
    }

    fn skip_list(&mut self, depth: usize) -> io::Result<()> {
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        for _ in 0..count {
            match head & 15 {
                // A truth value in a list is a byte, not a part of its type.
                kind::TRUE | kind::FALSE => self.pass(1)?,
                kind => self.skip(kind, depth + 1)?,
            }
        }
        Ok(())
    }

    /// Passes over some bytes.
    fn pass(&mut self, count: u64) -> io::Result<()> {
        let passed = io::copy(&mut self.0.by_ref().take(count), &mut io::sink())?;
        if passed == count { Ok(()) } else { Err(unfit()) }
    }
}

/// Signed numbers are written so that small ones are short: 0, -1, 1, -2.
fn signed(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A file of these bytes.
    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(bytes).expect("written");
        file
    }

    /// Data of two bytes that unpack to 2,147,483,647 with 300 values, behind statistics with a text and a list.
    const HEADER: [u8; 26] = [
        0x15, 0, 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0x15, 4, 0x2c, 0x15, 0xd8, 0x04, 0x4c, 0x18, 2, b'a', b'b', 0x19,
        0x21, 1, 0, 0, 0, 0,
    ];

    #[test]
    fn sizes_are_read_from_headers() {
        let page = [&HEADER[..], &[7, 7]].concat();
        let claimed = PageClaims { bytes: 2_147_483_647, largest: 2_147_483_647, values: 300 };
        assert_eq!(claims(&file(&page), 0, page.len() as u64).expect("a page"), claimed);
        let two = [&[9][..], &page, &page].concat();
        let both = claims(&file(&two), 1, two.len() as u64 - 1).expect("two pages");
        assert_eq!(both, claimed + claimed);
        assert_eq!(both.values, 600);
    }

    #[test]
    fn headers_that_are_cut_or_endless_are_refused() {
        let page = [&HEADER[..], &[7, 7]].concat();
        for length in 1..page.len() {
            assert!(claims(&file(&page), 0, length as u64).is_err(), "{length}");
        }
        for length in 0..HEADER.len() {
            assert!(claims(&file(&page[..length]), 0, page.len() as u64).is_err(), "{length}");
        }
        // A number without an end, structs in each other, and a list of 2^35 lists that are not there.
        for endless in [[0xff; 100], [0x1c; 100], [0xf9; 100]] {
            assert!(claims(&file(&endless), 0, 100).is_err());
        }
    }
}
