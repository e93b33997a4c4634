//! The tasks of looped transformers (Fan et al. 2024) with the full output: a query, `>`, and `#` up to a fixed width.
//!
//! The answer is read at `>` and behind it, `#` from its end to the end of the row. Every example says how many steps of the
//! loop its query takes. In training rows are as wide as the longest length of the update asks for, in a test as their own.
//! With `next_token` the answer follows `>` in the row and every token of it is asked for at the one before, then `#`; with
//! `pause` so many tokens stand before the answer.

use super::bits::{add, multiply};
use super::{Formal, StringDraw, fair, option, test_length, train_length, written};
use crate::{Example, Objective, OptionField, Options};
use rtc_base::rng::Draws;

/// The symbols of a task besides those of its queries.
#[derive(Clone, Copy, Debug)]
struct LoopedSymbols {
    /// Ends the query.
    ask: u32,
    /// Ends the answer, and fills the row.
    end: u32,
    /// Gives time before the answer.
    pause: u32,
}

/// Where a query has no operator.
const SHORT: LoopedSymbols = LoopedSymbols { ask: 2, ..LONG };
/// Where there is one, and in the task that counts.
const LONG: LoopedSymbols = LoopedSymbols { ask: 5, end: 3, pause: 4 };

fn six(marks: [&str; 4]) -> Vec<String> {
    ["0", "1"].into_iter().chain(marks).map(str::to_owned).collect()
}

/// A query followed by `>` and `#`.
fn row(mut query: Vec<u32>, marks: LoopedSymbols, width: usize) -> Vec<u32> {
    query.push(marks.ask);
    query.resize(width, marks.end);
    query
}

/// The number of curriculum that decides the width: one more than the longest length.
fn stage(draw: &StringDraw<'_>) -> usize {
    draw.longest.unwrap_or(draw.length).max(draw.length) + 1
}

fn bits(query: &[u32]) -> Result<&[u32], String> {
    if query.is_empty() || query.iter().any(|token| *token > 1) {
        Err("an operand is made of bits".to_owned())
    } else {
        Ok(query)
    }
}

fn operands(query: &[u32]) -> Result<(&[u32], &[u32]), String> {
    let at =
        query.iter().position(|token| *token == 2).ok_or("a query is two operands with an operator between them")?;
    Ok((bits(&query[..at])?, bits(&query[at + 1..])?))
}

/// A row in its parts.
struct LoopedRow<'a> {
    marks: LoopedSymbols,
    options: &'a Options,
    query: &'a [u32],
    /// What stands behind `>` and the pauses.
    rest: &'a [u32],
}

impl<'a> LoopedRow<'a> {
    fn read(options: &'a Options, tokens: &'a [u32], marks: LoopedSymbols) -> Result<Self, String> {
        let at = tokens.iter().position(|token| *token == marks.ask).ok_or("a row has a query and `>`")?;
        let (query, rest) = (&tokens[..at], &tokens[at + 1..]);
        let pauses = rest.iter().take_while(|token| **token == marks.pause).count();
        let row = Self { marks, options, query, rest: &rest[pauses..] };
        if query.is_empty() || (!row.is_open() && !next_token(options)) {
            return Err("a row is a query, `>`, and `#` to its end".to_owned());
        }
        Ok(row)
    }

    /// Whether it leaves the answer open.
    fn is_open(&self) -> bool {
        self.rest.iter().all(|token| *token == self.marks.end)
    }

    /// The example: what has to stand from `>` (or the last pause) on, the length, and the steps.
    fn solved(&self, mut answer: Vec<u32>, size: usize, steps: usize) -> Result<Example, String> {
        let LoopedSymbols { ask, end, pause } = self.marks;
        let pauses = self.options.get(PAUSE) as usize;
        let mut tokens = [self.query, &[ask], &vec![pause; pauses]].concat();
        if next_token(self.options) {
            if !self.is_open() && self.rest != answer {
                return Err("the row gives a wrong answer".to_owned());
            }
            tokens.extend_from_slice(&answer);
            answer.push(end);
        } else {
            let places = self.rest.len() + 1;
            if answer.len() > places {
                return Err(format!("the row is too narrow for its answer of {} tokens", answer.len()));
            }
            tokens.extend_from_slice(self.rest);
            answer.resize(places, end);
        }
        Ok(Example { depth: Some(steps as u32), ..written(&tokens, size, &answer, answer.len()) })
    }
}

/// Whether the answers are the next tokens.
pub(super) fn next_token(options: &Options) -> bool {
    options.get(NEXT_TOKEN) == 1
}

fn reversed(bits: &[u32]) -> Vec<u32> {
    bits.iter().rev().copied().collect()
}

/// A row of the table.
const fn looped(
    (name, doc): (&'static str, &'static str),
    options: &'static [OptionField],
    vocabulary: fn(&Options) -> Vec<String>,
    draw: fn(&StringDraw<'_>, &mut Draws) -> Vec<u32>,
    example: fn(&Options, &[u32]) -> Result<Example, String>,
) -> Formal {
    let source = "Fan et al. 2024 (looped Transformers), arXiv:2409.15647";
    let (objective, classes) = (Objective::Each, vocabulary);
    Formal { name, doc, source, objective, vocabulary, classes, options, shortest: 1, draw, example }
}

/// The options that choose the form of a row.
pub(super) const NEXT_TOKEN: &str = "next_token";
const PAUSE: &str = "pause";
const FORM: OptionField =
    option(NEXT_TOKEN, 0, 0, 1, "1: the answer follows `>`, and each of its tokens is predicted at the token before");
const PAUSES: OptionField = option(PAUSE, 0, 0, 1000, "pause tokens before the answer");

const TWENTY: [OptionField; 4] = [train_length(20), test_length(40), FORM, PAUSES];
const THIRTY: [OptionField; 4] = [train_length(19), test_length(30), FORM, PAUSES];
const SUM: [OptionField; 4] = [train_length(19), test_length(24), FORM, PAUSES];
#[rustfmt::skip]
const PRODUCT: [OptionField; 5] = [
    train_length(11),
    test_length(15),
    FORM,
    PAUSES,
    option("first", 2, 1, 100, "bits of the first operand in tests, and at most in training"),
];

/// The sum of bits modulo 2.
pub static PARITY: Formal = looped(
    ("looped_parity", "whether the number of ones is odd, in as many steps as there are bits"),
    &TWENTY,
    |_| six([">", "#", "pause", "~5"]),
    |draw, draws| row(fair(draw.length, draws), SHORT, stage(draw) + 1),
    |options, tokens| {
        let row = LoopedRow::read(options, tokens, SHORT)?;
        let query = bits(row.query)?;
        row.solved(vec![query.iter().sum::<u32>() % 2], query.len(), query.len())
    },
);

/// The query again.
pub static COPY: Formal = looped(
    ("looped_copy", "the bits again, in as many steps as there are bits"),
    &THIRTY,
    |_| six([">", "#", "pause", "~5"]),
    |draw, draws| row(fair(draw.length, draws), SHORT, 2 * (stage(draw) + 1)),
    |options, tokens| {
        let row = LoopedRow::read(options, tokens, SHORT)?;
        let query = bits(row.query)?;
        row.solved(query.to_vec(), query.len(), query.len())
    },
);

/// The sum of two numbers of as many bits, most significant first.
pub static ADDITION: Formal = looped(
    ("looped_addition", "the sum of two numbers, most significant bits first, in as many steps as an operand has bits"),
    &THIRTY,
    |_| six(["+", "#", "pause", ">"]),
    |draw, draws| {
        let (first, second) = (fair(draw.length, draws), fair(draw.length, draws));
        row([&first[..], &[2], &second].concat(), LONG, 3 * (stage(draw) + 1))
    },
    |options, tokens| {
        let row = LoopedRow::read(options, tokens, LONG)?;
        let (first, second) = operands(row.query)?;
        if first.len() != second.len() {
            return Err("both operands have as many bits".to_owned());
        }
        let sum = reversed(&add(&reversed(first), &reversed(second)));
        row.solved(sum, first.len(), first.len())
    },
);

/// The number of ones in binary.
pub static BINARY_SUM: Formal = looped(
    (
        "looped_binary_sum",
        "the number of ones in binary, least significant bits first, in as many steps as there are bits",
    ),
    &SUM,
    |_| six(["~2", "#", "pause", ">"]),
    |draw, draws| row(fair(draw.length, draws), LONG, stage(draw) + 8),
    |options, tokens| {
        let row = LoopedRow::read(options, tokens, LONG)?;
        let query = bits(row.query)?;
        let ones = query.iter().sum::<u32>();
        // No ones give no bits: the answer is empty then.
        let answer = (0..u32::BITS - ones.leading_zeros()).map(|bit| ones >> bit & 1).collect();
        row.solved(answer, query.len(), query.len())
    },
);

/// The product of two numbers.
pub static MULTIPLICATION: Formal = looped(
    (
        "looped_multiplication",
        "the product of two numbers, least significant bits first, in as many steps as both lengths multiplied",
    ),
    &PRODUCT,
    |_| six(["*", "#", "pause", ">"]),
    |draw, draws| {
        let most = draw.options.get("first");
        let first = if draw.longest.is_some() { 1 + draws.below(most) } else { most } as usize;
        let (a, b) = (fair(first, draws), fair(draw.length, draws));
        // The published width is for two bits of the first operand; every further one takes two places.
        let wider = 2 * (most as usize).saturating_sub(2);
        row([&a[..], &[2], &b].concat(), LONG, 4 * (stage(draw) + 1) + wider)
    },
    |options, tokens| {
        let row = LoopedRow::read(options, tokens, LONG)?;
        let (first, second) = operands(row.query)?;
        let product = multiply(&reversed(first), &reversed(second));
        row.solved(product, second.len(), first.len() * second.len())
    },
);

/// Number of values of the unique set.
const VALUES: u32 = 50;
const VALUE_MARKS: LoopedSymbols = LoopedSymbols { ask: 51, end: 53, pause: 52 };
/// Rows of the published table of embeddings; those that no row uses are kept, so that models have the published size.
const VALUE_IDS: u32 = 60;

fn values() -> Vec<String> {
    let name = |id| match id {
        51 => ">".to_owned(),
        52 => "pause".to_owned(),
        53 => "#".to_owned(),
        id if id < VALUES => id.to_string(),
        id => format!("~{id}"),
    };
    (0..VALUE_IDS).map(name).collect()
}

/// The distinct values of a list.
pub static UNIQUE_SET: Formal = looped(
    (
        "looped_unique_set",
        "the distinct values of a list of numbers below 50 in the order in which they first occur, in as many steps as it is long",
    ),
    &THIRTY,
    |_| values(),
    |draw, draws| {
        let query = (0..draw.length).map(|_| draws.below(u64::from(VALUES)) as u32).collect();
        row(query, VALUE_MARKS, 2 * (stage(draw) + 1))
    },
    |options, tokens| {
        let row = LoopedRow::read(options, tokens, VALUE_MARKS)?;
        let query = row.query;
        if query.iter().any(|value| *value >= VALUES) {
            return Err("a list is made of numbers below 50".to_owned());
        }
        let mut distinct: Vec<u32> = vec![];
        query.iter().for_each(|value| {
            if !distinct.contains(value) {
                distinct.push(*value)
            }
        });
        row.solved(distinct, query.len(), query.len())
    },
);
