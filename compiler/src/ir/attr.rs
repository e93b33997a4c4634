//! Attributes as text: `10`, `1e-5`, `word`, `"text"`, `call(args)`, printed so that they read back.

use std::iter::Peekable;
use std::str::Chars;

use super::types::Attr;

/// How deep calls in an attribute may nest.
const NESTING: usize = 64;

/// The attribute as text. Quotes, backslashes and line breaks of a quoted text are escaped.
pub fn print(attr: &Attr) -> String {
    match attr {
        Attr::Float(v) if v.is_nan() => "nan".to_owned(),
        Attr::Text(text) => quote(text),
        Attr::Call(name, args) => format!("{name}({})", args.iter().map(print).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// A quoted text.
pub fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out += "\\n",
            '\r' => out += "\\r",
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// True for a text that can stand for itself: a letter or `_`, then letters, digits, `_`, and single `.`, `+`, `-`, `/`
/// between them.
pub fn is_word(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let joint = |c: char| matches!(c, '.' | '+' | '-' | '/');
    let plain = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    starts && text.split(joint).all(plain)
}

/// True for a name: words of letters, digits and `_` with single `.` between them, the first of which begins with no digit.
pub fn is_name(text: &str) -> bool {
    is_word(text) && !text.contains(['+', '-', '/'])
}

/// Reads an attribute.
pub fn parse(text: &str) -> Result<Attr, String> {
    let mut reader = AttributeReader { chars: text.chars().peekable(), text };
    let attr = reader.value(0)?;
    reader.spaces();
    match reader.chars.next() {
        None => Ok(attr),
        Some(_) => Err(reader.bad()),
    }
}

/// Reads a quoted text.
pub fn unquote(text: &str) -> Result<String, String> {
    match parse(text)? {
        Attr::Text(text) => Ok(text),
        _ => Err(format!("`{text}` is not a quoted text")),
    }
}

struct AttributeReader<'a> {
    chars: Peekable<Chars<'a>>,
    text: &'a str,
}

impl AttributeReader<'_> {
    fn bad(&self) -> String {
        format!("`{}` is not an attribute: expected `10`, `1e-5`, `word`, `\"text\"` or `call(args)`", self.text)
    }

    fn spaces(&mut self) {
        while self.chars.next_if(|c| c.is_whitespace()).is_some() {}
    }

    fn value(&mut self, depth: usize) -> Result<Attr, String> {
        if depth > NESTING {
            return Err(format!("calls nest deeper than {NESTING}"));
        }
        self.spaces();
        if self.chars.next_if_eq(&'"').is_some() {
            return self.quoted();
        }
        let mut word = String::new();
        while let Some(c) = self.chars.next_if(|c| c.is_ascii_alphanumeric() || "_.+-/".contains(*c)) {
            word.push(c);
        }
        if self.chars.next_if_eq(&'(').is_some() {
            return if is_word(&word) { self.call(word, depth) } else { Err(self.bad()) };
        }
        let special = matches!(word.as_str(), "inf" | "-inf" | "nan");
        let number = word.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit());
        match word.parse::<i64>() {
            Ok(v) if number => Ok(Attr::Int(v)),
            _ if number && !word.contains(['.', 'e', 'E']) => Err(format!("`{word}` is not a 64-bit integer")),
            _ if special || number => word.parse().map(Attr::Float).map_err(|_| self.bad()),
            _ if is_word(&word) => Ok(Attr::Word(word)),
            _ => Err(self.bad()),
        }
    }

    fn quoted(&mut self) -> Result<Attr, String> {
        let mut out = String::new();
        while let Some(c) = self.chars.next() {
            match c {
                '"' => return Ok(Attr::Text(out)),
                '\\' => match self.chars.next() {
                    Some('n') => out.push('\n'),
                    Some('r') => out.push('\r'),
                    Some(c @ ('"' | '\\')) => out.push(c),
                    _ => return Err(self.bad()),
                },
                c => out.push(c),
            }
        }
        Err(self.bad())
    }

    fn call(&mut self, name: String, depth: usize) -> Result<Attr, String> {
        let mut args = vec![];
        self.spaces();
        if self.chars.next_if_eq(&')').is_some() {
            return Ok(Attr::Call(name, args));
        }
        loop {
            args.push(self.value(depth + 1)?);
            self.spaces();
            match self.chars.next() {
                Some(',') => {}
                Some(')') => return Ok(Attr::Call(name, args)),
                _ => return Err(self.bad()),
            }
        }
    }
}
