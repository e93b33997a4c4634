//! JSON whose objects have every key once. `serde_json` takes the last of two values of one key, in silence.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Reads a text.
///
/// # Errors
/// What is no JSON, and an object with a key twice.
pub fn value(text: &[u8]) -> serde_json::Result<Value> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = Once.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// The sentence about a key that stands twice in an object.
pub fn twice(key: &str) -> String {
    format!("the key `{key}` stands twice in one object: remove one of the two")
}

/// Makes values whose objects have every key once.
struct Once;

impl<'de> DeserializeSeed<'de> for Once {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Once {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = vec![];
        while let Some(item) = items.next_element_seed(Self)? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            if all.contains_key(&key) {
                return Err(A::Error::custom(twice(&key)));
            }
            all.insert(key, fields.next_value_seed(Self)?);
        }
        Ok(Value::Object(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_serde() {
        for text in [r#"{"a": [1, -2, 3.5, null, true, "x\n"], "b": {"a": {}}}"#, "12345678901234567890123", "[]"] {
            assert_eq!(value(text.as_bytes()).expect(text), serde_json::from_str::<Value>(text).expect(text));
        }
        assert!(value(b"{} {}").is_err() && value(b"{").is_err() && value(b"").is_err());
    }

    #[test]
    fn a_key_twice_is_refused_with_its_line() {
        for text in ["{\"a\": 1,\n\"a\": 1}", "{\"b\": [{\"c\": 1,\n\"\\u0063\": 2}]}"] {
            let error = value(text.as_bytes()).expect_err(text);
            assert!(error.is_data() && error.line() == 2, "{error}");
            assert!(error.to_string().contains("stands twice in one object"), "{error}");
        }
    }
}
