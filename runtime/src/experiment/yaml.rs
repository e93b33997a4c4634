//! YAML of users, within limits: what takes the parser long, or repeats itself into more than memory holds, is refused before it is parsed.

use std::cell::Cell;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor};

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
    let told = |error: serde_yaml::Error| (error.location().map(|at| at.line().min(last)), error.to_string());
    let left = Cell::new(MOST_REPEATED);
    if let Err(error) = Sized(&left).deserialize(serde_yaml::Deserializer::from_str(text)) {
        // What is no YAML is told by the reading itself, which knows what is wanted.
        if left.get() == 0 {
            return Err(told(error));
        }
    }
    serde_yaml::from_str(text).map_err(told)
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
