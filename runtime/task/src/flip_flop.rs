//! Flip-flop sequences (Liu et al. 2023): a one-bit memory that is written, ignored and read.
//!
//! A sequence alternates instructions (`w`rite, `i`gnore, `r`ead) and bits. The bit after `w` is stored, the bit after `i` is
//! noise, the bit after `r` is the one stored last and is what a model has to predict.
//!
//! The more instructions are `i`, the further back lies what has to be remembered: models are trained where 80 % are, and
//! tested where 10, 80 and 98 % are, at the length of training and at twice that.

use std::path::Path;

use super::metric::last_scored;
use super::{
    Example, ExampleTarget, GenerationRequest, Metric, Objective, OptionField, Options, Split, Task, TaskDescription,
    option, split, splits,
};
use crate::error::DataError;
use crate::fingerprint::place;
use crate::held::lines;
use crate::pool::{ExampleShare, fill, within};
use rtc_base::rng::{Draws, Key};

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
    Ok(Example { label: ExampleTarget::Each { class, weight }, ..Example::classified(tokens, 0) })
}

/// Reads a sequence of symbols, with blanks between them or without.
///
/// # Errors
/// A character that is no symbol.
pub fn parse(text: &str) -> Result<Vec<u32>, String> {
    let id = |symbol: char| SYMBOLS.iter().position(|s| s.starts_with(symbol)).map(|n| n as u32);
    text.chars()
        .filter(|symbol| !symbol.is_whitespace())
        .map(|symbol| id(symbol).ok_or_else(|| format!("`{symbol}` is no symbol of a flip-flop")))
        .collect()
}

fn name(id: u32) -> String {
    SYMBOLS.get(id as usize).map_or_else(|| format!("id {id}"), |s| format!("`{s}`"))
}

/// The task.
pub struct FlipFlop;

/// The distribution of a split's sequences.
#[derive(Clone, Copy)]
struct FlipFlopSetting {
    /// The option with the number of pairs of a sequence.
    pairs: &'static str,
    /// The share of ignored instructions in percent; that of the option `ignored` where there is none.
    ignored: Option<u64>,
}

const SHORT: &str = "pairs";
const LONG: &str = "long_pairs";

const fn setting(pairs: &'static str, ignored: u64) -> FlipFlopSetting {
    FlipFlopSetting { pairs, ignored: Some(ignored) }
}

/// As in training.
const TRAINED: FlipFlopSetting = FlipFlopSetting { pairs: SHORT, ignored: None };
const DENSE: FlipFlopSetting = setting(SHORT, 10);
const MEDIUM: FlipFlopSetting = setting(SHORT, 80);
const SPARSE: FlipFlopSetting = setting(SHORT, 98);
const LONG_DENSE: FlipFlopSetting = setting(LONG, 10);
const LONG_MEDIUM: FlipFlopSetting = setting(LONG, 80);
const LONG_SPARSE: FlipFlopSetting = setting(LONG, 98);
const MIXED: &[FlipFlopSetting] = &[TRAINED, MEDIUM, DENSE, SPARSE, LONG_MEDIUM, LONG_DENSE, LONG_SPARSE];

/// Every split with its share of all sequences, and the settings that take turns in it.
#[rustfmt::skip]
const TABLE: [(Split, (ExampleShare, &[FlipFlopSetting])); 9] = [
    (split("train", "80 % of the instructions are ignored", 160_000, &["train.txt"]), ((0.0, 0.2), &[TRAINED])),
    (split("dev", "the setting of training and the six others in turn", 7_000, &["dev.txt"]), ((0.2, 0.3), MIXED)),
    (split("test", "near-IID: as training", 10_000, &["test.txt"]), ((0.3, 0.4), &[TRAINED])),
    (split("dense", "10 % ignored", 10_000, &["dense.txt"]), ((0.4, 0.5), &[DENSE])),
    (split("medium", "80 % ignored", 10_000, &["medium.txt"]), ((0.5, 0.6), &[MEDIUM])),
    (split("sparse", "98 % ignored", 10_000, &["sparse.txt"]), ((0.6, 0.7), &[SPARSE])),
    (split("long-dense", "long, 10 % ignored", 10_000, &["long-dense.txt"]), ((0.7, 0.8), &[LONG_DENSE])),
    (split("long-medium", "long, 80 % ignored", 10_000, &["long-medium.txt"]), ((0.8, 0.9), &[LONG_MEDIUM])),
    (split("long-sparse", "long, 98 % ignored", 10_000, &["long-sparse.txt"]), ((0.9, 1.0), &[LONG_SPARSE])),
];

const SPLITS: [Split; TABLE.len()] = splits(&TABLE);

#[rustfmt::skip]
const OPTIONS: [OptionField; 3] = [
    option("pairs", 256, 2, 100_000, "pairs of an instruction and a bit in a sequence; it has twice as many symbols"),
    option("long_pairs", 512, 2, 100_000, "the same in the long splits"),
    option("ignored", 80, 0, 99, "percent of the instructions that are ignored in training and in `test`"),
];

const METRICS: &[Metric] = &[Metric {
    name: "last_read",
    doc: "accuracy on the last read bit of every sequence; `accuracy` is that on all read bits",
    count: last_scored,
}];

/// So often a sequence is drawn anew before it lies in its share; one draw in five or ten does.
const ATTEMPTS: u64 = 1_000;
/// So many candidates in a row without a new sequence mean that there are no more.
const PATIENCE: u64 = 2_000;

/// Draws a sequence: `w` first, `r` last, and between them each instruction by itself.
fn draw(pairs: usize, ignored: f64, draws: &mut Draws) -> Vec<u32> {
    let mut memory = ZERO;
    let mut ids = Vec::with_capacity(2 * pairs);
    for pair in 0..pairs {
        let instruction = match draws.uniform() {
            _ if pair == 0 => WRITE,
            _ if pair + 1 == pairs => READ,
            x if x < ignored => IGNORE,
            x if x < ignored + (1.0 - ignored) / 2.0 => WRITE,
            _ => READ,
        };
        let bit = if instruction == READ { memory } else { ZERO + draws.below(2) as u32 };
        if instruction == WRITE {
            memory = bit;
        }
        ids.extend([instruction, bit]);
    }
    ids
}

impl Task for FlipFlop {
    fn about(&self) -> TaskDescription {
        TaskDescription {
            name: "flip_flop",
            doc: "remember one bit over long stretches of noise",
            source: "Liu et al. 2023 (flip-flop language modeling), arXiv:2306.00946",
            objective: Objective::Each,
            options: &OPTIONS,
            splits: &SPLITS,
            metrics: METRICS,
        }
    }

    fn vocabulary(&self, _options: &Options) -> Vec<String> {
        SYMBOLS.map(String::from).to_vec()
    }

    fn classes(&self, _options: &Options) -> Vec<String> {
        vec!["0".to_owned(), "1".to_owned()]
    }

    fn generate(&self, request: &GenerationRequest<'_>) -> Result<Vec<Example>, DataError> {
        let fail = |message| DataError { file: self.name().into(), line: None, message };
        let row = self.split(request.split).map_err(fail)?;
        let (_, (share, settings)) =
            TABLE.iter().find(|(known, _)| known.name == row.name).expect("splits are its rows");
        let key = Key::new(request.seed).stream("flip_flop").stream(row.name);
        let candidate = |index: u64| {
            let FlipFlopSetting { pairs, ignored } = settings[index as usize % settings.len()];
            let pairs = request.options.get(pairs) as usize;
            let ignored = ignored.unwrap_or_else(|| request.options.get("ignored")) as f64 / 100.0;
            let ids = |attempt| draw(pairs, ignored, &mut key.at(index).at(attempt).draws());
            let ids = (0..ATTEMPTS).map(ids).find(|ids| within(*share, place(ids)))?;
            example(&ids).ok()
        };
        fill(request, PATIENCE, candidate).map_err(fail)
    }

    fn read(&self, path: &Path, _options: &Options) -> Result<Vec<Example>, DataError> {
        lines(path, |_, text| parse(text).and_then(|ids| example(&ids)).map(Some))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_count_and_have_the_stored_bit() {
        let ids = parse("w 1 r 1 i 0 r 1 w 0 i 1 r 0").expect("symbols");
        let ExampleTarget::Each { class, weight } = example(&ids).expect("a flip-flop").label else {
            panic!("one per token")
        };
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
