//! Whether a string belongs to a language: Tomita's seven (1982), and brackets nested to a depth (D_n).
//!
//! Half of the strings of a length are in the language and half are not, where both exist. Strings outside are drawn fairly and
//! drawn again while they are inside; how strings inside are drawn is part of each language.

use super::{Formal, StringDraw, check, classified, classify, fair, names, option, test_length, train_length};
use crate::{Example, OptionField};
use rtc_base::rng::Draws;

/// One of Tomita's languages over the bits.
struct Language {
    /// Whether a string is in the language.
    accepts: fn(&[u32]) -> bool,
    /// Draws a string of the language, of a length that has some.
    inside: fn(usize, &mut Draws) -> Vec<u32>,
    /// Whether all strings that are drawn of a length are inside (or outside); nothing where there are both.
    only: fn(usize) -> Option<bool>,
}

/// The languages in Tomita's order, as the released code of RegularGPT has them.
const LANGUAGES: [Language; 7] = [
    Language { accepts: |s| s.iter().all(|bit| *bit == 0), inside: |length, _| vec![0; length], only: |_| None },
    Language {
        accepts: |s| s.chunks(2).all(|pair| pair == [1, 0]),
        inside: |length, _| (0..length).map(|at| 1 - at as u32 % 2).collect(),
        only: |length| (length % 2 == 1).then_some(false),
    },
    Language { accepts: third, inside: inside_third, only: |length| (length == 1).then_some(true) },
    Language {
        accepts: |s| !s.windows(3).any(|three| three == [0, 0, 0]),
        inside: inside_fourth,
        only: |length| (length < 3).then_some(true),
    },
    Language {
        accepts: |s| s.len().is_multiple_of(2) && ones(s).is_multiple_of(2),
        inside: |length, draws| until(length, draws, |s| ones(s).is_multiple_of(2)),
        only: |length| (length % 2 == 1).then_some(false),
    },
    Language {
        accepts: sixth,
        inside: |length, draws| until(length, draws, sixth),
        only: |length| (length == 1).then_some(false),
    },
    // Only 1010 of the strings of length 4 is outside; the published code counts it as a length without any.
    Language {
        accepts: |s| {
            s.iter().skip_while(|b| **b == 0).collect::<Vec<_>>().windows(2).filter(|w| w[0] != w[1]).count() <= 2
        },
        inside: inside_seventh,
        only: |length| (length <= 4).then_some(true),
    },
];

fn ones(s: &[u32]) -> u32 {
    s.iter().sum()
}

/// The number of zeros less that of ones is a multiple of 3.
fn sixth(s: &[u32]) -> bool {
    (s.len() + ones(s) as usize).is_multiple_of(3)
}

/// No odd run of ones is followed at once by an odd run of zeros.
fn third(s: &[u32]) -> bool {
    let runs: Vec<&[u32]> = s.chunk_by(|a, b| a == b).collect();
    !runs.windows(2).any(|pair| pair[0][0] == 1 && pair[0].len() % 2 == 1 && pair[1].len() % 2 == 1)
}

/// Fair strings until one is right.
fn until(length: usize, draws: &mut Draws, right: impl Fn(&[u32]) -> bool) -> Vec<u32> {
    loop {
        let found = fair(length, draws);
        if right(&found) {
            return found;
        }
    }
}

/// Runs of ones and of zeros of any length in a random order; of zeros behind an odd number of ones an even number.
fn inside_third(length: usize, draws: &mut Draws) -> Vec<u32> {
    let mut s: Vec<u32> = vec![];
    let mut run = 0;
    while s.len() < length {
        let left = (length - s.len()) as u64;
        if draws.below(2) == 1 {
            let more = draws.below(left + 1) as usize;
            run = if s.last() == Some(&1) {
                run + more
            } else if more > 0 {
                more
            } else {
                run
            };
            s.resize(s.len() + more, 1);
        } else {
            let more = if run % 2 == 0 { draws.below(left + 1) } else { 2 * draws.below(left / 2 + 1) };
            s.resize(s.len() + more as usize, 0);
        }
    }
    s
}

/// Fair bits without a third 0 in a row.
fn inside_fourth(length: usize, draws: &mut Draws) -> Vec<u32> {
    let mut s = Vec::with_capacity(length);
    while s.len() < length {
        let bit = draws.below(2) as u32;
        if bit == 1 || !s.ends_with(&[0, 0]) {
            s.push(bit);
        }
    }
    s
}

/// Zeros, ones, zeros and ones, cut at three places.
fn inside_seventh(length: usize, draws: &mut Draws) -> Vec<u32> {
    let mut cuts = [0; 3].map(|_: u64| draws.below(length as u64 + 1) as usize);
    cuts.sort_unstable();
    (0..length).map(|at| cuts.iter().filter(|cut| **cut <= at).count() as u32 % 2).collect()
}

fn draw(language: &Language, request: &StringDraw<'_>, draws: &mut Draws) -> Vec<u32> {
    let length = request.length;
    let inside = (language.only)(length).unwrap_or_else(|| request.index.is_multiple_of(2));
    if inside { (language.inside)(length, draws) } else { until(length, draws, |s| !(language.accepts)(s)) }
}

#[rustfmt::skip]
const TOMITA_OPTIONS: [OptionField; 3] = [
    train_length(50),
    test_length(100),
    option("language", 3, 1, 7, "which of the seven languages"),
];

/// The language of an option from 1 to 7.
fn language(number: u64) -> &'static Language {
    &LANGUAGES[(number as usize).clamp(1, LANGUAGES.len()) - 1]
}

/// Whether a string of bits belongs to one of Tomita's languages.
pub static TOMITA: Formal = Formal {
    source: "Tomita 1982; Bhattamishra et al. 2020, arXiv:2009.11264",
    vocabulary: |_| names(&["0", "1"]),
    classes: |_| names(&["out", "in"]),
    options: &TOMITA_OPTIONS,
    ..classify(
        ("tomita", "whether a string of bits belongs to one of Tomita's seven regular languages"),
        |request, draws| draw(language(request.options.get("language")), request, draws),
        |options, tokens| member(tokens, (language(options.get("language")).accepts)(tokens)),
    )
};

#[rustfmt::skip]
const DYCK_OPTIONS: [OptionField; 3] = [
    train_length(50),
    test_length(100),
    option("depth", 2, 1, 100, "how deep brackets may nest"),
];

/// Whether a string of brackets is balanced and nests no deeper than an option says.
pub static DYCK: Formal = Formal {
    source: "Bhattamishra et al. 2020, arXiv:2009.11264",
    vocabulary: |_| names(&["0", "1"]),
    classes: |_| names(&["out", "in"]),
    options: &DYCK_OPTIONS,
    ..classify(
        ("dyck", "whether brackets, 0 to open and 1 to close, are balanced and nest no deeper than some depth (D_n)"),
        |request, draws| {
            let depth = request.options.get("depth");
            if request.length % 2 == 1 || !request.index.is_multiple_of(2) {
                return until(request.length, draws, |s| !balanced(s, depth));
            }
            let mut s = Vec::with_capacity(request.length);
            nest(depth, request.length, &mut s, draws);
            s
        },
        |options, tokens| member(tokens, balanced(tokens, options.get("depth"))),
    )
};

fn member(tokens: &[u32], inside: bool) -> Result<Example, String> {
    check(tokens, 2)?;
    Ok(classified(tokens, u32::from(inside)))
}

fn balanced(s: &[u32], depth: u64) -> bool {
    let step = |open: u64, bracket: &u32| match bracket {
        0 => Some(open + 1).filter(|open| *open <= depth),
        _ => open.checked_sub(1),
    };
    s.iter().try_fold(0, step) == Some(0)
}

/// Writes brackets of exactly `length`, an even number: groups whose insides take about three quarters of what is left.
fn nest(depth: u64, length: usize, s: &mut Vec<u32>, draws: &mut Draws) {
    if depth == 0 {
        return;
    }
    let end = s.len() + length;
    while s.len() < end {
        let most = end - s.len() - 2;
        let wish = (0.75 + 0.075 * draws.normal()) * most as f64;
        // Negative wishes become 0 here.
        let inner = most.min(wish as usize / 2 * 2);
        s.push(0);
        nest(depth - 1, inner, s, draws);
        s.push(1);
    }
}
