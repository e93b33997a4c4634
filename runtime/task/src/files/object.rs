//! The JSON object of a line: its keys, each once, and its numbers with all of their digits.

use std::collections::BTreeSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use rtc_base::json::twice;

/// The fields of the object on a line, with every number as the text that [`number`] makes of it.
///
/// # Errors
/// A sentence about a line that holds something else, a key twice, or a number that is none.
pub(super) fn object(line: &str) -> Result<Map<String, Value>, String> {
    let ObjectFields(fields) = serde_json::from_str(line).map_err(|error| no_object(line, &error))?;
    let mut keys = BTreeSet::new();
    if let Some((key, _)) = fields.iter().find(|(key, _)| !keys.insert(key.as_str())) {
        return Err(twice(key));
    }
    fields.into_iter().map(|(key, raw)| value(raw, LISTS).map(|value| (key, value))).collect()
}

fn no_object(line: &str, error: &serde_json::Error) -> String {
    if line.trim_start().starts_with('[') {
        return "JSON lines are wanted, an object per line, and this is a list (pandas writes them with `orient=\"records\", \
                lines=True`)"
            .to_owned();
    }
    if line.trim() == "{" {
        return "JSON lines are wanted, an object per line, and this one spans several lines: write each without line ends (`json.dumps` \
                without `indent`); of an object that holds the rows as a list, write the list alone"
            .to_owned();
    }
    if error.is_data() {
        return "a row is a JSON object, as in `{\"text\": \"...\", \"label\": \"...\"}`".to_owned();
    }
    let why = error.to_string();
    let why = why.split(" at line ").next().unwrap_or_default();
    let returns = if line.contains('\r') {
        " (lines end with a line feed, and this one has a carriage return alone)"
    } else {
        ""
    };
    format!("this line is no JSON: {why} in column {}{returns}", error.column())
}

/// The fields of an object as they are written.
struct ObjectFields<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for ObjectFields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = ObjectFields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut all = vec![];
        while let Some(field) = fields.next_entry()? {
            all.push(field);
        }
        Ok(ObjectFields(all))
    }
}

/// Lists of lists are the deepest that a cell is.
const LISTS: usize = 2;

/// A value with lists in lists up to a depth; what is deeper is no cell, and is read as it is.
fn value(raw: &RawValue, lists: usize) -> Result<Value, String> {
    let text = raw.get();
    let whole = || serde_json::from_str(text).map_err(|error| format!("`{}` is no JSON: {error}", shown(text)));
    match text.as_bytes().first() {
        Some(b'-' | b'0'..=b'9') => number(text).map(Value::String),
        Some(b'[') if lists > 0 => {
            let items: Vec<&RawValue> = serde_json::from_str(text).map_err(|error| error.to_string())?;
            items.into_iter().map(|item| value(item, lists - 1)).collect::<Result<_, _>>().map(Value::Array)
        }
        _ => whole(),
    }
}

/// The beginning of a text.
fn shown(text: &str) -> String {
    let start: String = text.chars().take(40).collect();
    if start.len() < text.len() { start + "..." } else { start }
}

/// A number as text: its digits, without zeros at the end of a fraction. So 1.0 is 1, as in a Parquet file, and whole numbers beyond
/// 64 bits stay apart.
fn number(text: &str) -> Result<String, String> {
    let plain = if text.contains(['e', 'E']) {
        let number = text.parse().unwrap_or(f64::INFINITY);
        if !number.is_finite() {
            return Err(format!("`{}` is larger than every number in double precision", shown(text)));
        }
        number.to_string()
    } else {
        text.to_owned()
    };
    let short = if plain.contains('.') { plain.trim_end_matches('0').trim_end_matches('.') } else { &plain };
    Ok(if short == "-0" { "0".to_owned() } else { short.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_digits() {
        for (text, expected) in [
            ("7", "7"),
            ("1.0", "1"),
            ("-0.0", "0"),
            ("-0", "0"),
            ("0.50", "0.5"),
            ("100", "100"),
            ("12345678901234567890123", "12345678901234567890123"),
            ("0.1234567890123456789", "0.1234567890123456789"),
            ("1e3", "1000"),
            ("2.5E-1", "0.25"),
        ] {
            assert_eq!(number(text).as_deref(), Ok(expected));
        }
        assert!(number("1e400").is_err());
    }

    #[test]
    fn objects_have_every_key_once() {
        let found =
            object(r#"{"a": [1.0, null, [2]], "b": {"c": 1.0}, "d": true, "e": "x\u00e9"}"#).expect("an object");
        assert_eq!(Value::Object(found).to_string(), r#"{"a":["1",null,["2"]],"b":{"c":1.0},"d":true,"e":"xé"}"#);
        for (line, why) in [
            (r#"{"a": 1, "b": 2, "\u0061": 3}"#, "the key `a` stands twice"),
            ("[{\"a\": 1}]", "JSON lines are wanted"),
            ("7", "a row is a JSON object"),
            (r#"{"a": 1"#, "this line is no JSON: EOF"),
            ("{\"a\": 1}\r{\"a\": 2}", "a carriage return alone"),
            (r#"{"a": 1e400}"#, "larger than every number"),
            (r#"{"a": "\ud800"}"#, "is no JSON"),
            (r#"{"a": NaN}"#, "this line is no JSON"),
        ] {
            let error = object(line).expect_err(line);
            assert!(error.contains(why), "{line}: {error}");
        }
        let deep = format!("{{\"a\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(object(&deep).is_err(), "too deep, and no panic");
    }
}
