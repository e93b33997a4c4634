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
            c if c.is_ascii_control() || (sides && c == '|') => line.push_str(&format!("\\x{:02x}", c as u8)),
            c => line.push(c),
        }
    }
    line
}

/// The text of a line that [`written`] wrote, or of plain text without a backslash.
///
/// # Errors
/// A backslash that begins no escape.
pub(super) fn read(line: &str) -> Result<String, String> {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((plain, escape)) = rest.split_once('\\') {
        text.push_str(plain);
        let (c, used) = match escape.as_bytes().first() {
            Some(b'n') => ('\n', 1),
            Some(b't') => ('\t', 1),
            Some(b'\\') => ('\\', 1),
            Some(b'x') => {
                let digits = escape.get(1..3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
                let byte =
                    digits.filter(u8::is_ascii).ok_or("after `\\x` two hexadecimal digits below 80 are wanted")?;
                (char::from(byte), 3)
            }
            _ => return Err("a backslash begins `\\n`, `\\t`, `\\x..`, or is written `\\\\`".to_owned()),
        };
        text.push(c);
        rest = &escape[used..];
    }
    text.push_str(rest);
    Ok(text)
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
