//! The value of expressions modulo a number: flat ones by precedence, and fully bracketed ones.

/// The value of digits with `+`, `-` and `*` between them; `*` binds tighter, everything else goes from left to right.
///
/// # Errors
/// What is no such expression.
pub(super) fn flat(text: &[char], modulus: i64) -> Result<i64, String> {
    let (mut sum, mut product, mut sign) = (0, None, 1);
    for (at, c) in text.iter().enumerate() {
        match (at % 2, c.to_digit(10)) {
            (0, Some(digit)) => product = Some(product.unwrap_or(sign) * i64::from(digit) % modulus),
            (1, None) if *c == '*' => {}
            (1, None) if matches!(c, '+' | '-') => {
                sum += product.take().unwrap_or(0);
                sign = if *c == '-' { -1 } else { 1 };
            }
            _ => return Err(format!("`{c}` can't stand at place {} of an expression", at + 1)),
        }
    }
    match text.len() % 2 {
        1 => Ok((sum + product.unwrap_or(0)).rem_euclid(modulus)),
        _ => Err("an expression ends with a digit".to_owned()),
    }
}

/// The state inside a bracket.
#[derive(Default)]
struct BracketState {
    left: Option<i64>,
    operator: Option<char>,
    negative: bool,
}

impl BracketState {
    fn take(&mut self, value: i64, modulus: i64) -> Result<(), String> {
        let value = if std::mem::take(&mut self.negative) { -value } else { value };
        let joined = match (self.left, self.operator.take()) {
            (None, _) => value,
            (Some(left), Some('+')) => left + value,
            (Some(left), Some('-')) => left - value,
            (Some(left), Some(_)) => left * value,
            (Some(_), None) => return Err("an operator is missing".to_owned()),
        };
        self.left = Some(joined.rem_euclid(modulus));
        Ok(())
    }

    fn value(&self) -> Result<i64, String> {
        self.left.filter(|_| self.operator.is_none() && !self.negative).ok_or_else(|| "a value is missing".to_owned())
    }
}

/// The value of an expression of digits, `-` before a value, and brackets around everything else. Works without recursion, so
/// that no depth of brackets is too much.
///
/// # Errors
/// What is no such expression.
pub(super) fn bracketed(text: impl Iterator<Item = char>, modulus: i64) -> Result<i64, String> {
    let mut open = vec![BracketState::default()];
    for c in text {
        let depth = open.len();
        let here = open.last_mut().ok_or("a bracket is closed that was not opened")?;
        match c {
            '0'..='9' => here.take(i64::from(c.to_digit(10).unwrap_or(0)), modulus)?,
            '(' => open.push(BracketState::default()),
            ')' if depth > 1 => {
                let value = here.value()?;
                open.pop();
                open.last_mut().ok_or("a bracket is closed that was not opened")?.take(value, modulus)?;
            }
            '-' if (here.left.is_none() || here.operator.is_some()) && !here.negative => here.negative = true,
            // Outside of all brackets there is one value.
            '+' | '-' | '*' if depth > 1 && here.left.is_some() && here.operator.is_none() => here.operator = Some(c),
            _ => return Err(format!("`{c}` can't stand there")),
        }
    }
    match &open[..] {
        [whole] => whole.value(),
        _ => Err("a bracket is not closed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_by_hand() {
        let value = |text: &str| flat(&text.chars().collect::<Vec<_>>(), 5);
        for (text, expected) in [("1+2*3", 2), ("1-1-1", 4), ("0*1+4*3-2", 0), ("3-4*2", 0), ("2*3*4-1+0", 3), ("4", 4)]
        {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
        for text in ["", "1+", "+1", "12", "1(2"] {
            assert!(value(text).is_err(), "{text}");
        }
    }

    #[test]
    fn brackets_by_hand() {
        let value = |text: &str| bracketed(text.chars(), 5);
        for (text, expected) in
            [("3", 3), ("-3", 2), ("(4)", 4), ("(-4)", 1), ("(2*(1-4))", 4), ("((-1)-(2+2))", 0), ("(1--2)", 3)]
        {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
        for text in ["", "(", "(1", "1)", "(1+)", "(1 1)", "(12)", "1+2", "--1", "()"] {
            assert!(value(text).is_err(), "{text}");
        }
        let deep = "(".repeat(100_000) + "1" + &")".repeat(100_000);
        assert_eq!(value(&deep), Ok(1));
    }
}
