//! Text in other encodings than UTF-8, as UTF-8.

use std::io::{self, BufRead, Read};

use encoding_rs::{Decoder, DecoderResult, Encoding};

/// Reads the text of an encoding as UTF-8. What is no text in it is an error, and not replaced.
pub(super) struct Decoded<R> {
    inner: R,
    decoder: Decoder,
    text: String,
    /// Bytes of the text that were given away.
    given: usize,
    ended: bool,
}

impl<R> Decoded<R> {
    pub(super) fn new(inner: R, encoding: &'static Encoding) -> Self {
        let decoder = encoding.new_decoder_with_bom_removal();
        Self { inner, decoder, text: String::new(), given: 0, ended: false }
    }
}

impl<R: BufRead> Read for Decoded<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.given == self.text.len() && !self.ended {
            self.text.clear();
            self.given = 0;
            let input = self.inner.fill_buf()?;
            let is_last = input.is_empty();
            let room = self.decoder.max_utf8_buffer_length_without_replacement(input.len());
            self.text.reserve(room.unwrap_or(input.len()));
            let (result, read) = self.decoder.decode_to_string_without_replacement(input, &mut self.text, is_last);
            self.inner.consume(read);
            match result {
                DecoderResult::InputEmpty => self.ended = is_last,
                DecoderResult::OutputFull => {}
                DecoderResult::Malformed(..) => {
                    let name = self.decoder.encoding().name();
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        format!("there are bytes that are no text in {name}"),
                    ));
                }
            }
        }
        let count = to.len().min(self.text.len() - self.given);
        to[..count].copy_from_slice(&self.text.as_bytes()[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use encoding_rs::{SHIFT_JIS, UTF_16LE, WINDOWS_1252};

    use super::*;

    fn read(bytes: &[u8], encoding: &'static Encoding, at_once: usize) -> io::Result<String> {
        io::read_to_string(Decoded::new(io::BufReader::with_capacity(at_once, bytes), encoding))
    }

    #[test]
    fn text_is_read_from_any_buffer() {
        let utf16: Vec<u8> = "\u{feff}größe 😀\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        for at_once in [1, 2, 3, 100] {
            assert_eq!(read(&utf16, UTF_16LE, at_once).expect("text"), "größe 😀\n");
            assert_eq!(read(b"caf\xe9 \x80\x92", WINDOWS_1252, at_once).expect("text"), "café €’");
            assert_eq!(read(b"\x93\xfa\x96\x7b", SHIFT_JIS, at_once).expect("text"), "日本");
        }
        assert!(read(b"\x93", SHIFT_JIS, 8).is_err(), "half a character");
        assert!(read(b"\x00\xd8a\x00", UTF_16LE, 8).is_err(), "half a pair");
    }
}
