//! The context-free and context-sensitive tasks of Delétang et al. 2023.
//!
//! Most answers are strings. They are written on blanks that follow the input, one per token of the answer, so a model has read
//! everything when it answers. Behind a terminator nothing counts.

use super::arithmetic::bracketed;
use super::bits::{add, multiply, root, trimmed};
use super::{Formal, StringDraw, classified, classify, fair, names, numbers, positive, written};
use crate::{Example, Objective, Options};
use rtc_base::rng::Draws;

const ZERO: &str = "0";
const ONE: &str = "1";
const BLANK: &str = "_";
const BITS: &[&str] = &[ZERO, ONE, BLANK];
const STACK: &[&str] = &[ZERO, ONE, "pop", "push0", "push1", BLANK];
const ADDITION: &[&str] = &[ZERO, ONE, "+", BLANK];
const PRODUCT: &[&str] = &[ZERO, ONE, "*", BLANK];
const HIDDEN: &[&str] = &[ZERO, ONE, "?", "pad"];
const FIVE: &[&str] = &[ZERO, ONE, "2", "3", "4", BLANK];
const BRACKETS: &[&str] = &[ZERO, ONE, "2", "3", "4", "+", "-", "*", "(", ")", BLANK];
const EQUATION: &[&str] = &[ZERO, ONE, "2", "3", "4", "+", "-", "(", ")", "x", "="];
/// Classes of an answer of bits that ends before its tokens do.
const ENDED: &[&str] = &[ZERO, ONE, "end"];
/// The terminator among the classes.
const END: u32 = 2;

/// A row whose answer is a string.
const fn string(
    called: (&'static str, &'static str),
    vocabulary: fn(&Options) -> Vec<String>,
    classes: fn(&Options) -> Vec<String>,
    shortest: usize,
    draw: fn(&StringDraw<'_>, &mut Draws) -> Vec<u32>,
    example: fn(&Options, &[u32]) -> Result<Example, String>,
) -> Formal {
    Formal { objective: Objective::Each, vocabulary, classes, shortest, ..classify(called, draw, example) }
}

/// The input of a string that ends with blanks, which are `blank` and no fewer than one.
fn input(tokens: &[u32], blank: u32, blanks: impl Fn(usize) -> usize) -> Result<&[u32], String> {
    let end = tokens.iter().position(|token| *token == blank).unwrap_or(tokens.len());
    let (own, rest) = tokens.split_at(end);
    let wanted = blanks(own.len());
    if own.is_empty() || own.iter().any(|token| *token > blank) {
        return Err("a string begins with its input".to_owned());
    }
    if rest.len() != wanted || rest.iter().any(|token| *token != blank) {
        return Err(format!("an input of {} tokens is followed by {wanted} blanks `_`", own.len()));
    }
    Ok(own)
}

/// An input followed by blanks.
fn with_blanks(mut own: Vec<u32>, blank: u32, blanks: usize) -> Vec<u32> {
    own.resize(own.len() + blanks, blank);
    own
}

/// An example whose whole answer counts.
fn answered(tokens: &[u32], own: &[u32], answer: &[u32]) -> Result<Example, String> {
    Ok(written(tokens, own.len(), answer, answer.len()))
}

/// An example whose answer counts up to its terminator; zeros follow it.
fn terminated(tokens: &[u32], own: &[u32], mut answer: Vec<u32>) -> Result<Example, String> {
    answer.push(END);
    let (scored, places) = (answer.len(), tokens.len() - own.len());
    answer.resize(places, 0);
    Ok(written(tokens, own.len(), &answer, scored.min(places)))
}

/// The string from its end.
pub static REVERSE_STRING: Formal = string(
    ("reverse_string", "a string of bits from its end to its beginning"),
    |_| names(BITS),
    |_| numbers(2),
    1,
    |draw, draws| with_blanks(fair(draw.length, draws), 2, draw.length),
    |_, tokens| {
        let own = input(tokens, 2, |length| length)?;
        answered(tokens, own, &own.iter().rev().copied().collect::<Vec<_>>())
    },
);

/// The string twice.
pub static DUPLICATE_STRING: Formal = string(
    ("duplicate_string", "a string of bits twice"),
    |_| names(BITS),
    |_| numbers(2),
    1,
    |draw, draws| with_blanks(fair(draw.length, draws), 2, 2 * draw.length),
    |_, tokens| {
        let own = input(tokens, 2, |length| 2 * length)?;
        answered(tokens, own, &own.repeat(2))
    },
);

/// Every second symbol, then the others: the second, fourth, ... first, as the released code does.
pub static ODDS_FIRST: Formal = string(
    ("odds_first", "the second, fourth, ... bit of a string, then the first, third, ..."),
    |_| names(BITS),
    |_| numbers(2),
    1,
    |draw, draws| with_blanks(fair(draw.length, draws), 2, draw.length),
    |_, tokens| {
        let own = input(tokens, 2, |length| length)?;
        let from = |start| own.iter().skip(start).step_by(2).copied();
        answered(tokens, own, &from(1).chain(from(0)).collect::<Vec<_>>())
    },
);

/// A string of five symbols in order.
pub static BUCKET_SORT: Formal = string(
    ("bucket_sort", "a string of the digits 0 to 4 in order"),
    |_| names(FIVE),
    |_| numbers(5),
    1,
    |draw, draws| with_blanks((0..draw.length).map(|_| draws.below(5) as u32).collect(), 5, draw.length),
    |_, tokens| {
        let own = input(tokens, 5, |length| length)?;
        let mut sorted = own.to_vec();
        sorted.sort_unstable();
        answered(tokens, own, &sorted)
    },
);

/// A stack after pushes and pops, its top first.
pub static STACK_MANIPULATION: Formal = string(
    ("stack_manipulation", "a stack of bits, its top last, and actions on it: what is left, top first, and its end"),
    |_| names(STACK),
    |_| names(ENDED),
    1,
    |draw, draws| {
        let stack = 1 + draws.below(draw.length.saturating_sub(1).max(1) as u64) as usize;
        let mut own = fair(stack, draws);
        own.extend((stack..draw.length).map(|_| 2 + draws.below(3) as u32));
        with_blanks(own, 5, draw.length + 1)
    },
    |_, tokens| {
        let own = input(tokens, 5, |length| length + 1)?;
        let bits = own.iter().take_while(|token| **token < 2).count();
        let (stack, actions) = own.split_at(bits);
        let mut stack = stack.to_vec();
        for action in actions {
            match action {
                0 | 1 => return Err("a bit of the stack stands behind an action".to_owned()),
                // Nothing happens to an empty stack.
                2 => drop(stack.pop()),
                push => stack.push(push - 3),
            }
        }
        stack.reverse();
        terminated(tokens, own, stack)
    },
);

/// Two numbers above 0 with a sign between them, least significant bits first; each of at least one bit.
fn pair(draw: &StringDraw<'_>, draws: &mut Draws, blanks: usize) -> Vec<u32> {
    let first = 1 + draws.below(draw.length as u64 - 2) as usize;
    let mut own = positive(first, draws);
    own.push(2);
    own.extend(positive(draw.length - 1 - first, draws));
    with_blanks(own, 3, blanks)
}

/// The operands of an input.
fn operands(own: &[u32]) -> Result<(&[u32], &[u32]), String> {
    let mut parts = own.split(|token| *token == 2);
    match (parts.next(), parts.next(), parts.next()) {
        (Some(first), Some(second), None) if !first.is_empty() && !second.is_empty() => Ok((first, second)),
        _ => Err("an input is two numbers with one sign between them".to_owned()),
    }
}

/// The sum of two numbers.
pub static BINARY_ADDITION: Formal = string(
    ("binary_addition", "the sum of two binary numbers, least significant bits first, and its end"),
    |_| names(ADDITION),
    |_| names(ENDED),
    3,
    |draw, draws| pair(draw, draws, draw.length + 1),
    |_, tokens| {
        let own = input(tokens, 3, |length| length + 1)?;
        let (first, second) = operands(own)?;
        terminated(tokens, own, trimmed(add(first, second)))
    },
);

/// The product of two numbers.
pub static BINARY_MULTIPLICATION: Formal = string(
    ("binary_multiplication", "the product of two binary numbers, least significant bits first, and its end"),
    |_| names(PRODUCT),
    |_| names(ENDED),
    3,
    |draw, draws| pair(draw, draws, draw.length),
    |_, tokens| {
        let own = input(tokens, 3, |length| length)?;
        let (first, second) = operands(own)?;
        terminated(tokens, own, trimmed(multiply(first, second)))
    },
);

/// The root of a number.
pub static COMPUTE_SQRT: Formal = string(
    ("compute_sqrt", "the root of a binary number, rounded down; most significant bits first"),
    |_| names(BITS),
    |_| numbers(2),
    1,
    |draw, draws| with_blanks(positive(draw.length, draws), 2, draw.length.div_ceil(2)),
    |_, tokens| {
        let own = input(tokens, 2, |length| length.div_ceil(2))?;
        let mut answer = root(&own.iter().rev().copied().collect::<Vec<_>>());
        answer.reverse();
        answered(tokens, own, &answer)
    },
);

/// The hidden symbol of a string that occurs twice.
pub static MISSING_DUPLICATE: Formal =
    Formal {
        vocabulary: |_| names(HIDDEN),
        shortest: 2,
        ..classify(
            ("missing_duplicate", "the bit that is hidden in a string of bits written twice"),
            |draw, draws| {
                let mut tokens = fair(draw.length / 2, draws).repeat(2);
                let hidden = draws.below(tokens.len() as u64) as usize;
                tokens[hidden] = 2;
                tokens.extend((!draw.length.is_multiple_of(2)).then_some(3));
                tokens
            },
            |_, tokens| {
                let own = tokens.strip_suffix(&[3]).unwrap_or(tokens);
                let (first, second) = own.split_at(own.len() / 2);
                let hidden = own.iter().position(|token| *token == 2);
                let fits = |(a, b): (&u32, &u32)| a == b && *a < 2 || (*a == 2 && *b < 2) || (*b == 2 && *a < 2);
                match hidden {
            Some(at)
                if own.len() % 2 == 0
                    && first.iter().zip(second).filter(|(a, b)| a != b).count() == 1
                    && first.iter().zip(second).all(fits) =>
            {
                Ok(classified(tokens, own[(at + first.len()) % own.len()]))
            }
            _ => Err("a string is two equal halves with one bit hidden by `?`, and `pad` if that makes an odd length"
                .to_owned()),
        }
            },
        )
    };

/// Modular arithmetic with brackets.
pub static MODULAR_ARITHMETIC_BRACKETS: Formal = Formal {
    vocabulary: |_| names(BRACKETS),
    classes: |_| numbers(5),
    ..classify(
        (
            "modular_arithmetic_brackets",
            "the value modulo 5 of an expression in which brackets stand around everything",
        ),
        |draw, draws| {
            let mut text = String::new();
            expression(draw.length, &['+', '-', '*'], &mut text, draws);
            ids(BRACKETS, &text)
        },
        |_, tokens| Ok(classified(tokens, bracketed(chars(BRACKETS, tokens)?.into_iter(), 5)? as u32)),
    )
};

/// The unknown digit of an equation.
pub static SOLVE_EQUATION: Formal = Formal {
    vocabulary: |_| names(EQUATION),
    classes: |_| numbers(5),
    shortest: 3,
    ..classify(
        ("solve_equation", "the digit for which an equation of sums and brackets holds modulo 5"),
        |draw, draws| {
            let mut text = String::new();
            expression(draw.length - 2, &['+', '-'], &mut text, draws);
            let digits: Vec<usize> =
                text.char_indices().filter(|(_, c)| c.is_ascii_digit()).map(|(at, _)| at).collect();
            let value = bracketed(text.chars(), 5).expect("it was made of what an expression is made of");
            let hidden = digits[draws.below(digits.len() as u64) as usize];
            text.replace_range(hidden..=hidden, "x");
            ids(EQUATION, &format!("{text}={value}"))
        },
        |_, tokens| {
            let text = chars(EQUATION, tokens)?;
            let one_x = text.iter().filter(|c| **c == 'x').count() == 1;
            let [expression @ .., '=', value] = &text[..] else {
                return Err("an equation ends with `=` and a digit".to_owned());
            };
            let value = i64::from(value.to_digit(10).ok_or("an equation ends with `=` and a digit")?);
            let put = |x: u32| {
                let x = char::from_digit(x, 10).unwrap_or('0');
                bracketed(expression.iter().map(move |c| if *c == 'x' { x } else { *c }), 5)
            };
            put(0)?;
            let solution = (0..5).find(|x| put(*x) == Ok(value));
            solution
                .filter(|_| one_x)
                .map(|x| classified(tokens, x))
                .ok_or_else(|| "an equation has one `x`".to_owned())
        },
    )
};

/// Writes an expression of exactly `length` characters.
fn expression(length: usize, operators: &[char], text: &mut String, draws: &mut Draws) {
    let digit = |draws: &mut Draws| char::from_digit(draws.below(5) as u32, 10).unwrap_or('0');
    match length {
        1 => text.push(digit(draws)),
        2 => text.extend(['-', digit(draws)]),
        3 => text.extend(['(', digit(draws), ')']),
        4 => text.extend(['(', '-', digit(draws), ')']),
        _ => {
            let left = 1 + draws.below(length as u64 - 4) as usize;
            text.push('(');
            expression(left, operators, text, draws);
            text.push(operators[draws.below(operators.len() as u64) as usize]);
            expression(length - 3 - left, operators, text, draws);
            text.push(')');
        }
    }
}

fn ids(symbols: &[&str], text: &str) -> Vec<u32> {
    let id = |c: char| symbols.iter().position(|symbol| symbol.starts_with(c)).map(|id| id as u32);
    text.chars().filter_map(id).collect()
}

fn chars(symbols: &[&str], tokens: &[u32]) -> Result<Vec<char>, String> {
    super::check(tokens, symbols.len() as u32)?;
    Ok(tokens.iter().filter_map(|token| symbols[*token as usize].chars().next()).collect())
}
