//! The value of a ListOps expression, from its tokens alone.
//!
//! This is the judge of every label, generated or read. It shares no code with the generator.

use super::{CLOSE, OPERATORS};

/// Evaluates a token sequence: one digit, or one bracketed expression with nothing after it.
///
/// `MIN`, `MAX`: as named. `SM`: sum modulo 10. `MED`: the middle value; for an even number of arguments the mean of
/// the two middle ones, rounded down. The error says what is wrong and at which token, counted from 1.
pub fn evaluate(tokens: &[u32]) -> Result<u32, String> {
    // Open brackets with the values seen so far; an explicit stack, so no input can exhaust the call stack.
    let mut open: Vec<(u32, Vec<u32>)> = Vec::new();
    for (index, &token) in tokens.iter().enumerate() {
        let place = index + 1;
        let value = match token {
            0..=9 => token,
            CLOSE => {
                let (operator, arguments) = open.pop().ok_or(format!("token {place}: nothing is open here"))?;
                apply(operator, arguments).ok_or(format!("token {place}: an operator without arguments"))?
            }
            operator if OPERATORS.contains(&operator) => {
                open.push((operator, Vec::new()));
                continue;
            }
            other => return Err(format!("token {place}: {other} is no symbol of ListOps")),
        };
        match open.last_mut() {
            Some((_, arguments)) => arguments.push(value),
            None if place == tokens.len() => return Ok(value),
            None => return Err(format!("token {}: the expression has ended before", place + 1)),
        }
    }
    Err(if tokens.is_empty() { "the expression is empty".into() } else { "a bracket is never closed".into() })
}

fn apply(operator: u32, mut arguments: Vec<u32>) -> Option<u32> {
    arguments.sort_unstable();
    let (first, last) = (*arguments.first()?, *arguments.last()?);
    let count = arguments.len();
    Some(match operator {
        super::MIN => first,
        super::MAX => last,
        super::MED => (arguments[(count - 1) / 2] + arguments[count / 2]) / 2,
        _ => arguments.iter().sum::<u32>() % 10,
    })
}

/// The deepest operator nesting of a sequence: 0 for a digit, 1 for an operator over digits.
pub fn nesting(tokens: &[u32]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for &token in tokens {
        match token {
            CLOSE => depth = depth.saturating_sub(1),
            token if OPERATORS.contains(&token) => depth += 1,
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}
