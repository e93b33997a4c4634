//! YAML of users, within limits: what takes the parser long, or repeats itself into more than memory holds, is refused before it is parsed.

use std::cell::Cell;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor};
use serde_yaml::{Mapping, Value};

use super::place;

/// The most bytes of a text.
pub const MOST_BYTES: usize = 1 << 20;
/// The most brackets within each other. The parser looks at all open ones at every token.
pub const MOST_OPEN: usize = 100;
/// The most bytes of all values, each counted as often as an alias repeats it.
pub const MOST_REPEATED: usize = 1 << 24;

/// What a text says.
///
/// # Errors
/// The line where one is known, and a sentence.
pub(super) fn read<V: DeserializeOwned>(text: &str) -> Result<V, (Option<usize>, String)> {
    within_limits(text)?;
    // YAML has more ends of lines than an editor counts.
    let last = text.lines().count() + 1;
    let told = |error: serde_yaml::Error| {
        let (line, why) = (error.location().map(|at| at.line().min(last)), error.to_string());
        match why.split_once(TWICE) {
            Some((_, key)) => {
                let key = key.split(" at line ").next().unwrap_or(key).trim_matches('"');
                (place::second(text, line.unwrap_or(1), key), format!("`{key}` stands twice in one block: remove one"))
            }
            None => (line, why),
        }
    };
    let left = Cell::new(MOST_REPEATED);
    if let Err(error) = Sized(&left).deserialize(serde_yaml::Deserializer::from_str(text)) {
        // What is no YAML is told by the reading itself, which knows what is wanted.
        if left.get() == 0 {
            return Err(told(error));
        }
    }
    serde_yaml::from_str(text).map_err(told)
}

/// What the reader says of a key that a block has twice.
const TWICE: &str = "duplicate entry with key ";

/// The fields of a text: what `<<` names is merged into its block, and keys that are whole numbers, as the year of a split, are
/// names.
///
/// # Errors
/// As [`read`].
pub(super) fn fields(text: &str) -> Result<Mapping, (Option<usize>, String)> {
    let mut value: Value = read(text)?;
    let line = |key: &str| place::second(text, 1, key);
    value.apply_merge().map_err(|error| (line("<<"), format!("`<<`: {error}; an alias of a block is `<<: *name`")))?;
    named(&mut value, text)?;
    serde_yaml::from_value(value).map_err(|error| (None, error.to_string()))
}

/// Makes names of the keys of all blocks of a text.
fn named(value: &mut Value, text: &str) -> Result<(), (Option<usize>, String)> {
    match value {
        Value::Mapping(block) => {
            for (key, mut value) in std::mem::take(block) {
                named(&mut value, text)?;
                let name = match key {
                    Value::String(name) => name,
                    // A number in another form, as 0x10, would be another name.
                    Value::Number(number) if !number.is_f64() && place::has_key(text, &number.to_string()) => {
                        number.to_string()
                    }
                    other => return Err(unnamed(&other, text)),
                };
                if block.insert(name.clone().into(), value).is_some() {
                    return Err((None, format!("`{name}` stands twice in one block: remove one")));
                }
            }
            Ok(())
        }
        Value::Sequence(items) => items.iter_mut().try_for_each(|item| named(item, text)),
        Value::Tagged(tagged) => named(&mut tagged.value, text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// The error of a key that is no text, as it is written there.
fn unnamed(key: &Value, text: &str) -> (Option<usize>, String) {
    let read = |word: &str| serde_yaml::from_str::<Value>(word).is_ok_and(|read| read == *key);
    match place::key_that(text, read) {
        Some((line, word)) => (Some(line), format!("the name `{word}` needs quotation marks: `\"{word}\": ...`")),
        None => {
            let key = serde_yaml::to_string(key).unwrap_or_default();
            let key = key.trim_end();
            (None, format!("the name `{key}` needs quotation marks: `\"{key}\": ...`"))
        }
    }
}

/// The value of an edit `path=value`. Of a text without quotation marks and brackets all counts: a `#` in it begins no comment.
///
/// # Errors
/// As [`read`].
pub(super) fn value(text: &str) -> Result<Value, (Option<usize>, String)> {
    let text = text.trim();
    let is_plain = !text.starts_with(['"', '\'', '[', '{', '&', '*', '!', '|', '>']);
    if is_plain && (text.starts_with('#') || text.contains(" #") || text.contains("\t#")) {
        return Ok(text.into());
    }
    let mut value = read(text)?;
    named(&mut value, text)?;
    Ok(value)
}

/// Brackets are counted wherever they stand, also in comments and strings: what people write is far below the limit.
fn within_limits(text: &str) -> Result<(), (Option<usize>, String)> {
    if text.len() > MOST_BYTES {
        return Err((None, format!("it has {} bytes, and at most {MOST_BYTES} are read", text.len())));
    }
    let mut open = 0_usize;
    for (line, number) in text.lines().zip(1..) {
        for c in line.chars() {
            match c {
                '[' | '{' => open += 1,
                ']' | '}' => open = open.saturating_sub(1),
                _ => {}
            }
        }
        if open > MOST_OPEN {
            return Err((Some(number), format!("more than {MOST_OPEN} brackets are open")));
        }
    }
    Ok(())
}

/// Goes through all values without keeping any, and takes their bytes from what is left.
struct Sized<'a>(&'a Cell<usize>);

impl Sized<'_> {
    fn take<E: Error>(&self, bytes: usize) -> Result<(), E> {
        self.0.set(self.0.get().saturating_sub(bytes + 1));
        match self.0.get() {
            0 => Err(E::custom(format_args!("its aliases (`*name`) repeat more than {MOST_REPEATED} bytes"))),
            _ => Ok(()),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Sized<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Sized<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.take(0)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.take(0)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.take(0)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.take(0)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.take(0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.take(text.len())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.take(0)?;
        while items.next_element_seed(Sized(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.take(0)?;
        while items.next_key_seed(Sized(self.0))?.is_some() {
            items.next_value_seed(Sized(self.0))?;
        }
        Ok(())
    }

    /// A value with a tag.
    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<(), A::Error> {
        let ((), value) = tagged.variant_seed(Sized(self.0))?;
        value.newtype_variant_seed(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_yaml::Value;

    #[test]
    fn what_takes_too_long_is_refused_at_once() {
        let refused = |text: &str| read::<Value>(text).expect_err("it is too much");
        assert_eq!(
            refused(&format!("a: 1\nb: {}", "[".repeat(100_000))),
            (Some(2), "more than 100 brackets are open".into())
        );
        let (line, why) = refused(&format!("a: &a {}\nb: [{}]", "x".repeat(100_000), "*a, ".repeat(5000)));
        assert!(line.is_some() && why.contains("aliases"), "{line:?}: {why}");
        // Aliases of aliases, and what has a tag, count for all that they stand for.
        let ten = |name: &str| format!("[{}]", format!("*{name}, ").repeat(10));
        let nested = format!("a: &a {}\nb: &b {}\nc: &c {}\nd: {}", "x".repeat(60_000), ten("a"), ten("b"), ten("c"));
        assert!(refused(&nested).1.contains("aliases"));
        assert!(refused(&nested.replace("d: ", "d: !tag ")).1.contains("aliases"));
        assert!(refused(&" ".repeat(MOST_BYTES + 1)).1.contains("at most 1048576"));
        assert_eq!(refused("a: [").0, Some(2), "what is no YAML keeps its line");
    }

    #[test]
    fn a_key_that_stands_twice_has_its_line() {
        let line = |text: &str| match fields(text) {
            Err((line, why)) if why.contains("stands twice in one block") => line,
            other => panic!("{other:?}"),
        };
        assert_eq!(line("a: 1\nb: 2\na: 3\n"), Some(3));
        assert_eq!(line("x:\n  b: 1\ny:\n  a: 1\n  b: { a: 2 }\n  a: 3\n"), Some(6));
        assert_eq!(line("x: 1\ny: { a: 1, a: 2 }\n"), Some(2));
        assert_eq!(line("x:\n  - a: 1\n  - a: 2\n    b: 3\n    a: 4\n"), Some(5));
        assert_eq!(line("x: 1\n2024: 1\n2024: 2\n"), Some(3));
    }

    #[test]
    fn blocks_are_merged_and_years_are_names() {
        let read = |text: &str| fields(text).map(Value::from).map_err(|(_, why)| why);
        let merged = read("a: &a { b: 1, c: 2 }\nd: { <<: *a, c: 3 }\n").expect("it merges");
        assert_eq!((&merged["d"]["b"], &merged["d"]["c"]), (&1.into(), &3.into()));
        assert_eq!(read("a: { 2024: x }").expect("a name")["a"]["2024"], "x");
        let refused = |text: &str| read(text).expect_err("it is refused");
        assert!(refused("a: { 1.50: x }").contains("the name `1.50` needs quotation marks: `\"1.50\": ...`"));
        assert!(refused("a: { true: x }").contains("the name `true` needs quotation marks"));
        assert!(refused("a: { <<: 5 }").contains("`<<`: "));
    }

    #[test]
    fn a_name_that_is_no_text_is_told_with_its_line_as_it_is_written() {
        for (text, line, name) in [
            ("a: 1\nb:\n  0x10: x\n", 3, "0x10"),
            ("a: 1\nb: { c: 1, 0o17: x }\n", 2, "0o17"),
            ("a: 1\n0b11: x\n", 2, "0b11"),
            ("a:\n  +5: x\n", 2, "+5"),
            ("a:\n  - true: x\n", 2, "true"),
            ("a: 1\n\nnull: x\n", 3, "null"),
            ("a: 1\n~: x\n", 2, "~"),
            ("a: 1\nb:\n  1.5: x\n", 3, "1.5"),
            ("a: 1\n1e3: x\n", 2, "1e3"),
        ] {
            let (found, why) = fields(text).expect_err(text);
            assert_eq!(
                (found, why),
                (Some(line), format!("the name `{name}` needs quotation marks: `\"{name}\": ...`"))
            );
        }
        assert_eq!(
            fields("a: { -5: x, 007: y, 2024: z }").map(|block| block["a"].clone()).map(|block| block["-5"].clone()),
            Ok("x".into())
        );
    }

    #[test]
    fn a_value_of_an_edit_keeps_its_number_sign() {
        let read = |text: &str| value(text).map_err(|(_, why)| why);
        assert_eq!(read("my #1.csv"), Ok("my #1.csv".into()));
        assert_eq!(read("#1.csv"), Ok("#1.csv".into()));
        assert_eq!(read("a#1.csv"), Ok("a#1.csv".into()));
        assert_eq!(read("[1, 'a #2']"), Ok(vec![Value::from(1), "a #2".into()].into()));
        assert_eq!((read("0.5"), read("\"5\"")), (Ok(0.5.into()), Ok("5".into())));
    }

    #[test]
    fn what_people_write_is_read() {
        for text in [
            "a: &a {b: [1, 2]}\nc: [*a, *a]\nd: !tag [1.5, null, true, -2]\n",
            "set: [\"self.bias=-2.0^(-2.0 * (head + 1)) * (i - j)\"]",
            "a: '[[[['",
            "# [[[\na: 1",
        ] {
            assert!(read::<Value>(text).is_ok(), "{text}");
        }
    }
}
