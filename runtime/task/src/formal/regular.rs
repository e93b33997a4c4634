//! Regular tasks of Delétang et al. 2023: even pairs, parity, cycle navigation, modular arithmetic.

use super::arithmetic::flat;
use super::{Formal, StringDraw, check, classified, classify, fair, names, numbers, option, test_length, train_length};
use crate::{Example, OptionField, Options};

/// Whether a string of bits has an odd number of unequal neighbours.
pub static EVEN_PAIRS: Formal = classify(
    ("even_pairs", "whether the number of unequal neighbours in a string of bits is odd"),
    |draw, draws| fair(draw.length, draws),
    |_, tokens| {
        check(tokens, 2)?;
        let unequal = tokens.windows(2).filter(|pair| pair[0] != pair[1]).count();
        Ok(classified(tokens, unequal as u32 % 2))
    },
);

#[rustfmt::skip]
const PARITY: [OptionField; 4] = [
    train_length(40),
    test_length(500),
    option("ones", 50, 0, 100, "percent of the bits that are 1 in training and in dev"),
    option("test_ones", 50, 0, 100, "percent of the bits that are 1 in the other splits"),
];

/// The number of ones in a string of bits modulo 2.
pub static PARITY_CHECK: Formal = Formal {
    options: &PARITY,
    ..classify(
        ("parity_check", "whether the number of ones in a string of bits is odd"),
        |draw, draws| {
            let percent = draw.options.get(if draw.longest.is_some() { "ones" } else { "test_ones" });
            (0..draw.length).map(|_| u32::from(draws.below(100) < percent)).collect()
        },
        |_, tokens| {
            check(tokens, 2)?;
            Ok(classified(tokens, tokens.iter().sum::<u32>() % 2))
        },
    )
};

/// Where a walk on a cycle of five places ends.
pub static CYCLE_NAVIGATION: Formal = Formal {
    vocabulary: |_| names(&["-1", "0", "+1"]),
    classes: |_| numbers(5),
    ..classify(
        ("cycle_navigation", "where a walk of steps -1, 0 and +1 on a cycle of five places ends"),
        |draw, draws| (0..draw.length).map(|_| draws.below(3) as u32).collect(),
        |_, tokens| {
            check(tokens, 3)?;
            // A step is one less than its id, and -1 is 4 modulo 5.
            let place = tokens.iter().fold(0, |place, token| (place + token + 4) % 5);
            Ok(classified(tokens, place))
        },
    )
};

#[rustfmt::skip]
const MODULAR: [OptionField; 4] = [
    train_length(40),
    test_length(500),
    option("modulus", 5, 2, 10, "digits and answers are below it"),
    option("plus", 1, 0, 1, "1 for a `+` before the first digit, as RegularGPT has it; 0 for none"),
];

/// The value of an expression without brackets modulo a number.
pub static MODULAR_ARITHMETIC: Formal = Formal {
    source: "Delétang et al. 2023 (Chomsky hierarchy), arXiv:2207.02098; with a leading `+`: Chi et al. 2023 (RegularGPT), arXiv:2305.03796",
    vocabulary: |options| [numbers(options.get("modulus")), names(&["+", "-", "*", "_"])].concat(),
    classes: |options| numbers(options.get("modulus")),
    options: &MODULAR,
    ..classify(
        ("modular_arithmetic", "the value modulo 5 of digits with `+`, `-` and `*` between them"),
        expression,
        modular,
    )
};

/// Digits with operators between them: an odd number of tokens, one less than an even length, not counting the first `+`.
fn expression(draw: &StringDraw<'_>, draws: &mut rtc_base::rng::Draws) -> Vec<u32> {
    let modulus = draw.options.get("modulus");
    let plus = (draw.options.get("plus") == 1).then_some(modulus as u32);
    let odd = draw.length - usize::from(draw.length.is_multiple_of(2));
    let term = |at: usize| match at % 2 {
        0 => draws.below(modulus) as u32,
        _ => (modulus + draws.below(3)) as u32,
    };
    plus.into_iter().chain((0..odd).map(term)).collect()
}

fn modular(options: &Options, tokens: &[u32]) -> Result<Example, String> {
    let modulus = options.get("modulus");
    check(tokens, modulus as u32 + 3)?;
    let text: Vec<char> = tokens.iter().map(|token| symbol(*token, modulus as u32)).collect();
    let own = if options.get("plus") == 1 {
        text.strip_prefix(&['+']).ok_or("the string does not begin with `+`")?
    } else {
        &text[..]
    };
    let class = flat(own, modulus as i64)?;
    Ok(Example { size: Some(own.len() as u32), ..classified(tokens, class as u32) })
}

fn symbol(token: u32, modulus: u32) -> char {
    if token < modulus {
        char::from_digit(token, 10).unwrap_or('0')
    } else {
        ['+', '-', '*'][(token - modulus) as usize]
    }
}
