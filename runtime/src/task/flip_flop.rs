//! Flip-flop sequences (Liu et al. 2023): a one-bit memory that is written, ignored and read.
//!
//! A sequence alternates instructions (`w`rite, `i`gnore, `r`ead) and bits. The bit after `w` is stored, the bit after `i` is
//! noise, the bit after `r` is the one stored last and is what a model has to predict.

use super::{Example, Target};

/// The symbols, in the order of their ids.
pub const SYMBOLS: [&str; 5] = ["w", "i", "r", "0", "1"];

const WRITE: u32 = 0;
const IGNORE: u32 = 1;
const READ: u32 = 2;
/// The id of bit 0; bit 1 follows.
const ZERO: u32 = 3;

/// The example of a sequence of symbol ids: inputs are the sequence one place to the right behind an `i`; the bits after `r`
/// count, with the bit as the class; every other class is 0.
///
/// # Errors
/// A sequence that is no flip-flop: not pairs of an instruction and a bit, not starting with `w`, or read differently
/// from what was written.
pub fn example(ids: &[u32]) -> Result<Example, String> {
    let (pairs, rest) = ids.as_chunks::<2>();
    if pairs.is_empty() || !rest.is_empty() {
        return Err(format!("a sequence is made of pairs, and this one has {} symbols", ids.len()));
    }
    if pairs[0][0] != WRITE {
        return Err("a sequence starts with `w`".to_owned());
    }
    let (mut class, mut weight) = (vec![0; ids.len()], vec![0.0; ids.len()]);
    let mut memory = 0;
    for (n, &[instruction, symbol]) in pairs.iter().enumerate() {
        let at = 2 * n + 1;
        let bit = symbol.checked_sub(ZERO).filter(|bit| *bit < 2);
        let bit = bit.ok_or_else(|| format!("symbol {at} is {}, which is no bit", name(symbol)))?;
        match instruction {
            WRITE => memory = bit,
            IGNORE => {}
            READ if bit == memory => (class[at], weight[at]) = (bit, 1.0),
            READ => return Err(format!("symbol {at} reads {bit}, but {memory} was written")),
            other => return Err(format!("symbol {} is {}, which is no instruction", at - 1, name(other))),
        }
    }
    let tokens = std::iter::once(IGNORE).chain(ids[..ids.len() - 1].iter().copied()).collect();
    Ok(Example { tokens, second: None, label: Target::Each { class, weight } })
}

/// Reads a sequence of symbols with blanks between them.
///
/// # Errors
/// A word that is no symbol.
pub fn parse(text: &str) -> Result<Vec<u32>, String> {
    let id = |word: &str| SYMBOLS.iter().position(|s| *s == word).map(|n| n as u32);
    text.split_whitespace()
        .map(|word| id(word).ok_or_else(|| format!("`{word}` is no symbol of a flip-flop")))
        .collect()
}

fn name(id: u32) -> String {
    SYMBOLS.get(id as usize).map_or_else(|| format!("id {id}"), |s| format!("`{s}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_count_and_have_the_stored_bit() {
        let ids = parse("w 1 r 1 i 0 r 1 w 0 i 1 r 0").expect("symbols");
        let Target::Each { class, weight } = example(&ids).expect("a flip-flop").label else { panic!("one per token") };
        let scored: Vec<(usize, u32)> = (0..ids.len()).filter(|n| weight[*n] == 1.0).map(|n| (n, class[n])).collect();
        assert_eq!(scored, [(3, 1), (7, 1), (13, 0)]);
    }

    #[test]
    fn what_is_no_flip_flop_is_refused() {
        for text in ["", "w", "w 0 r", "i 0 r 0", "w w", "w 0 0 0", "w 0 r 1"] {
            assert!(example(&parse(text).expect("symbols")).is_err(), "{text}");
        }
        assert!(parse("w 0 x 0").is_err());
        assert!(example(&[0, 9]).is_err());
    }
}
