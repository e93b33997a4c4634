//! YAML of users, within limits: what takes the parser long, or repeats itself into more than memory holds, is refused before it is parsed.

use serde::de::DeserializeOwned;

/// The most bytes of a text.
pub const MOST_BYTES: usize = 1 << 20;
/// The most brackets within each other. The parser looks at all open ones at every token.
pub const MOST_OPEN: usize = 100;
/// The most bytes that the aliases of a text may stand for: as many times the whole text.
pub const MOST_REPEATED: usize = 1 << 24;

/// What a text says.
///
/// # Errors
/// The line where one is known, and a sentence.
pub(super) fn read<V: DeserializeOwned>(text: &str) -> Result<V, (Option<usize>, String)> {
    within_limits(text)?;
    // YAML has more ends of lines than an editor counts.
    let last = text.lines().count() + 1;
    serde_yaml::from_str(text).map_err(|error| (error.location().map(|at| at.line().min(last)), error.to_string()))
}

/// Brackets and aliases are counted wherever they stand, also in comments and strings: what people write is far below the limits.
fn within_limits(text: &str) -> Result<(), (Option<usize>, String)> {
    if text.len() > MOST_BYTES {
        return Err((None, format!("it has {} bytes, and at most {MOST_BYTES} are read", text.len())));
    }
    let (mut open, mut aliases, mut before) = (0_usize, 0_usize, ' ');
    for (line, number) in text.lines().zip(1..) {
        for c in line.chars().chain(['\n']) {
            match c {
                '[' | '{' => open += 1,
                ']' | '}' => open = open.saturating_sub(1),
                c if before == '*' && !c.is_whitespace() => aliases += 1,
                _ => {}
            }
            before = c;
        }
        if open > MOST_OPEN {
            return Err((Some(number), format!("more than {MOST_OPEN} brackets are open")));
        }
        if aliases.saturating_mul(text.len()) > MOST_REPEATED {
            return Err((
                Some(number),
                format!("up to this line {aliases} aliases (`*name`) repeat parts of it, too many for its size"),
            ));
        }
    }
    Ok(())
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
        assert!(line == Some(2) && why.contains("aliases"), "{why}");
        assert!(refused(&" ".repeat(MOST_BYTES + 1)).1.contains("at most 1048576"));
        assert_eq!(refused("a: [").0, Some(2), "what is no YAML keeps its line");
    }

    #[test]
    fn what_people_write_is_read() {
        for text in [
            "a: &a {b: [1, 2]}\nc: [*a, *a]\n",
            "set: [\"self.bias=-2.0^(-2.0 * (head + 1)) * (i - j)\"]",
            "a: '[[[['",
            "# [[[\na: 1",
        ] {
            assert!(read::<Value>(text).is_ok(), "{text}");
        }
    }
}
