//! Checksums of the files of a run, inside files that people can still read.
//!
//! The last field of a sealed JSON file is `sha256`: the SHA-256 of all the text before the line that it stands on, so that
//! `head -n -2 run.json | sha256sum` prints it. The last field of a sealed line of JSON is `check`: the first 16 digits of the SHA-256 of
//! the `check` of the line before it and the text before its own, so that no line can be changed, left out or moved. Before the first
//! line stands the name of what the lines belong to.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};

const FIELD: &str = "sha256";
/// Digits of a SHA-256.
const DIGITS: usize = 64;
/// Digits of it that a line has.
const LINE_DIGITS: usize = 16;

/// The SHA-256 of bytes as digits of base 16.
pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes as digits of base 16.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A JSON object with at least one field as the text of a sealed file.
pub fn sealed(object: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(object).expect("names and numbers are valid JSON");
    let fields = text.strip_suffix("\n}").expect("an object with a field");
    let text = format!("{fields},\n");
    let sum = sha256(&text);
    format!("{text}  \"{FIELD}\": \"{sum}\"\n}}\n")
}

/// Reads a sealed file; the error goes on after its name.
pub fn unsealed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let (before, after) = (format!("  \"{FIELD}\": \""), "\"\n}\n");
    let at = bytes.len().checked_sub(before.len() + DIGITS + after.len());
    let parts = at.map(|at| bytes.split_at(at)).and_then(|(text, rest)| {
        let sum = rest.strip_prefix(before.as_bytes())?.strip_suffix(after.as_bytes())?;
        Some((text, sum))
    });
    let Some((text, sum)) = parts else {
        return Err(format!(
            "does not end with its `{FIELD}`: it was cut off or changed, or written without a checksum"
        ));
    };
    if sha256(text).as_bytes() != sum {
        return Err("was changed: its SHA-256 is not the one that it was written with".to_owned());
    }
    let mut value: Value = serde_json::from_slice(bytes).map_err(|error| format!("is no JSON: {error}"))?;
    value.as_object_mut().map(|fields| fields.shift_remove(FIELD));
    T::deserialize(value).map_err(|error| format!("is not what this version of rtc writes: {error}"))
}

/// The checksums of lines, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChecksumChain(String);

impl ChecksumChain {
    /// Before the first line of what belongs to a run.
    pub(super) fn of(run: &str) -> Self {
        Self(run.to_owned())
    }

    /// The next line, with its end.
    pub(super) fn seal(&mut self, line: &Value) -> String {
        let text = line.to_string();
        let text = text.strip_suffix('}').expect("an object");
        self.step(text.as_bytes());
        format!("{text},\"check\":\"{}\"}}\n", self.0)
    }

    /// Reads the next line, without its end; the error goes on after its number.
    pub(super) fn open<T: DeserializeOwned>(&mut self, line: &[u8]) -> Result<T, String> {
        let parts = line.len().checked_sub(LINE_DIGITS + ",\"check\":\"\"}".len()).map(|at| line.split_at(at));
        let parts = parts.and_then(|(text, rest)| {
            Some((text, rest.strip_prefix(b",\"check\":\"".as_slice())?.strip_suffix(b"\"}".as_slice())?))
        });
        let Some((text, sum)) = parts else {
            return Err(
                "does not end with its `check`: it was cut off or changed, or written without a checksum".into()
            );
        };
        self.step(text);
        if self.0.as_bytes() != sum {
            return Err("or one before it was changed: its `check` is not the one that it was written with".into());
        }
        serde_json::from_slice(&[text, b"}".as_slice()].concat()).map_err(|error| format!("is none of a run: {error}"))
    }

    fn step(&mut self, text: &[u8]) {
        let mut sum = Sha256::new();
        sum.update(&self.0);
        sum.update(text);
        self.0 = hex(&sum.finalize()[..LINE_DIGITS / 2]);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_is_sealed_as_documented_and_any_change_is_found() {
        let value = json!({ "model": "gut", "seeds": [1, 2], "loss": 0.1 });
        let text = sealed(&value);
        let lines: Vec<&str> = text.lines().collect();
        let before = lines[..lines.len() - 2].join("\n") + "\n";
        assert_eq!(lines[lines.len() - 2], format!("  \"sha256\": \"{}\"", sha256(before)));
        assert_eq!(unsealed::<Value>(text.as_bytes()), Ok(value));
        for at in 0..text.len() {
            assert!(unsealed::<Value>(&text.as_bytes()[..at]).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut other = text.clone().into_bytes();
                other[at] ^= 1 << bit;
                assert!(unsealed::<Value>(&other).is_err(), "bit {bit} of {at}");
            }
        }
    }

    #[test]
    fn lines_are_sealed_in_their_order() {
        let mut chain = ChecksumChain::of("run");
        let lines = [json!({ "a": 1 }), json!({ "b": "x" }), json!({ "a": 1 })].map(|line| chain.seal(&line));
        assert_eq!(lines[0], format!("{{\"a\":1,\"check\":\"{}\"}}\n", &sha256("run{\"a\":1")[..16]));
        let read = |run: &str, lines: &[String]| {
            let mut chain = ChecksumChain::of(run);
            lines.iter().try_for_each(|line| chain.open::<Value>(line.trim_end().as_bytes()).map(drop))
        };
        assert_eq!(read("run", &lines), Ok(()));
        assert!(read("other", &lines).is_err(), "lines of another run");
        assert!(read("run", &lines[1..]).is_err() && read("run", &[lines[0].clone(), lines[2].clone()]).is_err());
        let whole = lines[0].trim_end().as_bytes();
        for at in 0..whole.len() {
            let mut other = whole.to_vec();
            other[at] ^= 1;
            assert!(ChecksumChain::of("run").open::<Value>(&other).is_err(), "{at}");
        }
    }
}
