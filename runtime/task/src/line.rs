//! Text on one line: line breaks and what can't be seen are escaped, and read back.

/// The text on one line: `\n`, `\t`, `\\`, and `\x..` for other control characters; with `sides` for `|`, too, which stands between
/// the sides of a pair.
pub(super) fn written(text: &str, sides: bool) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => line.push_str("\\n"),
            '\t' => line.push_str("\\t"),
            '\\' => line.push_str("\\\\"),
            c if c.is_ascii_control() || (sides && c == '|') => line.push_str(&hex(c as u8)),
            c => line.push(c),
        }
    }
    line
}

/// A byte as an escape.
pub(super) fn hex(byte: u8) -> String {
    format!("\\x{byte:02x}")
}

/// The text of a line that [`written`] wrote, or of plain text without a backslash.
///
/// # Errors
/// A backslash that begins no escape.
pub(super) fn read(line: &str) -> Result<String, String> {
    let bytes = bytes(line, true)?;
    Ok(String::from_utf8(bytes).expect("the parts of a text with ASCII between them are a text"))
}

/// The same as bytes; without `ascii` escapes stand for any of them.
///
/// # Errors
/// A backslash that begins no escape.
pub(super) fn bytes(line: &str, ascii: bool) -> Result<Vec<u8>, String> {
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
                let below = if ascii { " below 80" } else { "" };
                let byte = digits.filter(|byte| !ascii || byte.is_ascii());
                (byte.ok_or_else(|| format!("after `\\x` two hexadecimal digits{below} are wanted"))?, 3)
            }
            _ => return Err("a backslash begins `\\n`, `\\t`, `\\x..`, or is written `\\\\`".to_owned()),
        };
        bytes.push(byte);
        rest = &escape[used..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_back() {
        for text in ["plain", "a\tb\nc\\d|e\x07", "naïve – \u{1F600}", ""] {
            for sides in [false, true] {
                let line = written(text, sides);
                assert!(!line.contains(['\n', '\t']), "{line}");
                assert!(!sides || !line.contains('|'), "{line}");
                assert_eq!(read(&line).as_deref(), Ok(text));
            }
        }
        for wrong in ["\\q", "\\", "\\x4", "\\xzz", "\\xff"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
