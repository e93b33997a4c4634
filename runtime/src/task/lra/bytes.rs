//! Texts as bytes: every byte is a token, and its own id.

/// The names of the 256 bytes.
pub(in crate::task) fn names() -> Vec<String> {
    (0..=255_u8).map(|byte| if byte.is_ascii_graphic() { char::from(byte).into() } else { hex(byte) }).collect()
}

fn hex(byte: u8) -> String {
    format!("\\x{byte:02x}")
}

/// The first `length` bytes as tokens.
pub(in crate::task) fn tokens(text: &[u8], length: usize) -> Vec<u32> {
    text.iter().take(length).map(|byte| u32::from(*byte)).collect()
}

/// The text on one line: `\n`, `\t`, `\\`, and `\x..` for other control characters, `|`, and what is no UTF-8.
pub(in crate::task) fn decode(tokens: &[u32]) -> String {
    let bytes: Vec<u8> = tokens.iter().map(|token| *token as u8).collect();
    let mut line = String::new();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => line.push_str("\\n"),
                '\t' => line.push_str("\\t"),
                '\\' => line.push_str("\\\\"),
                c if c.is_ascii_control() || c == '|' => line.push_str(&hex(c as u8)),
                c => line.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| line.push_str(&hex(*byte)));
    }
    line
}

/// The tokens of a line that [`decode`] wrote, or of plain text without a backslash.
///
/// # Errors
/// A backslash that begins no escape.
pub(in crate::task) fn encode(line: &str, length: usize) -> Result<Vec<u32>, String> {
    let mut bytes = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some((plain, escape)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        let (byte, used) = match escape.as_bytes().first() {
            Some(b'n') => (b'\n', 1),
            Some(b't') => (b'\t', 1),
            Some(b'\\') => (b'\\', 1),
            Some(b'x') => {
                let digits = escape.get(1..3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
                (digits.ok_or("after `\\x` two hexadecimal digits are wanted")?, 3)
            }
            _ => return Err("a backslash begins `\\n`, `\\t`, `\\x..`, or is written `\\\\`".to_owned()),
        };
        bytes.push(byte);
        rest = &escape[used..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(tokens(&bytes, length))
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
