//! Texts as bytes: every byte is a token, and its own id.

use crate::line;

/// The names of the 256 bytes.
pub(crate) fn names() -> Vec<String> {
    (0..=255_u8).map(|byte| if byte.is_ascii_graphic() { char::from(byte).into() } else { line::hex(byte) }).collect()
}

/// The first `length` bytes as tokens.
pub(crate) fn tokens(text: &[u8], length: usize) -> Vec<u32> {
    text.iter().take(length).map(|byte| u32::from(*byte)).collect()
}

/// The text on one line, as [`line::written`] has it with `|` escaped, too; so is what is no UTF-8.
pub(crate) fn decode(tokens: &[u32]) -> String {
    let bytes: Vec<u8> = tokens.iter().map(|token| *token as u8).collect();
    let shown = |chunk: std::str::Utf8Chunk<'_>| {
        let invalid: String = chunk.invalid().iter().map(|byte| line::hex(*byte)).collect();
        line::written(chunk.valid(), true) + &invalid
    };
    bytes.utf8_chunks().map(shown).collect()
}

/// The tokens of a line that [`decode`] wrote, or of plain text without a backslash.
///
/// # Errors
/// A backslash that begins no escape.
pub(crate) fn encode(line: &str, length: usize) -> Result<Vec<u32>, String> {
    Ok(tokens(&line::bytes(line, false)?, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_back() {
        let texts: [&[u8]; 5] = [b"plain", b"a\tb\nc\\d|e\x07", "naïve – \u{1F600}".as_bytes(), b"\xff\xfe x", b""];
        for text in texts {
            let ids = tokens(text, 1000);
            let line = decode(&ids);
            assert!(!line.contains(['\n', '\t', '|']));
            assert_eq!(encode(&line, 1000), Ok(ids));
        }
        assert_eq!(encode("abc", 2), Ok(vec![97, 98]));
        for wrong in ["\\q", "\\", "\\x4", "\\xzz", "\\xé"] {
            assert!(encode(wrong, 10).is_err(), "{wrong}");
        }
    }
}
