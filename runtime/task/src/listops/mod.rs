//! ListOps: evaluate a nested expression of MIN, MAX, MED and SM over digits (Nangia and Bowman 2018), with the
//! splits by length, by number of arguments and of the Long Range Arena on which generalisation is measured.
//!
//! **One pool.** Training, dev and test of the original data are one set of distinct expressions, split at random.
//! Here the hash of an expression says to which of the three it belongs (89, 1 and 10 %), whatever the seed and the
//! sizes: the law of every part is that of a random split, and no test expression can occur in any training set.
//! 89,000 pool expressions before the limit on length, or 10,000 of the test part, correspond to the published pool
//! of 100,000.
//!
//! **Windows.** The other splits take expressions of a given range of lengths (`law.rs`), except those that belong to
//! training or dev.

mod evaluate;
mod generate;
mod law;
mod mix;
mod read;

use std::path::Path;

use super::{
    DataFolder, Encoding, Example, ExampleTarget, GenerationRequest, Objective, OptionField, Options, Split, Task,
    TaskDescription,
};
use super::{ids, option, split, splits};
use crate::error::DataError;
use crate::fingerprint::place;
use crate::pool::{ALL, ExampleShare, fill, within};
use crate::task::splits::by_name;
use generate::{ExpressionBounds, TokenWriter};
use law::LengthLaw;
use rtc_base::rng::{Draws, Key};

pub use evaluate::{evaluate, nesting};

/// Token id of `[MIN`.
pub const MIN: u32 = 10;
/// Token id of `[MAX`.
pub const MAX: u32 = 11;
/// Token id of `[MED`.
pub const MED: u32 = 12;
/// Token id of `[SM`.
pub const SM: u32 = 13;
/// Token id of `]`.
pub const CLOSE: u32 = 14;
/// Ids of the four operators.
pub const OPERATORS: [u32; 4] = [MIN, MAX, MED, SM];

/// The symbols by id. Digits are their own ids; round brackets carry no information and are dropped by the readers.
pub const SYMBOLS: [&str; 15] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "[MIN", "[MAX", "[MED", "[SM", "]"];

/// No pool expression is longer. With the default options the chance to meet the bound is below any that matters; with
/// large ones, where trees grow without end, it keeps memory in check.
const LONGEST: usize = 100_000;

/// So many candidates in a row without one new example mean that there are no more.
const PATIENCE: u64 = 3_000_000;

/// The task.
pub struct ListOps;

/// Shares of the pool by hash, as an interval of [0, 1).
const TRAIN: ExampleShare = (0.0, 0.89);
const DEV: ExampleShare = (0.89, 0.90);
const TEST: ExampleShare = (0.90, 1.0);

/// The source of a split's expressions.
#[derive(Clone, Copy)]
enum ExpressionSource {
    /// A share of the pool, with the option that limits its lengths (0 is no limit).
    Pool { share: ExampleShare, limit: &'static str },
    /// The pool's generator, lengths strictly between the two.
    Between(usize, usize),
    /// A generator with its own bounds, lengths inclusive, and a share by the hash of the first tokens.
    Window { shape: ExpressionBounds, shortest: usize, longest: usize, share: ExampleShare },
}

const LRA: ExpressionBounds = ExpressionBounds { depth: 10, arguments: 10 };

/// 100 to 1000 tokens at a depth limit of 9 with this many arguments.
const fn arguments(arguments: usize) -> ExpressionSource {
    ExpressionSource::Window {
        shape: ExpressionBounds { depth: 9, arguments },
        shortest: 100,
        longest: 1000,
        share: ALL,
    }
}

/// The Long Range Arena's own generator: more than 500 and fewer than 2000 tokens.
const fn lra(from: f64, to: f64) -> ExpressionSource {
    ExpressionSource::Window { shape: LRA, shortest: 501, longest: 1999, share: (from, to) }
}

#[rustfmt::skip]
const TABLE: [(Split, ExpressionSource); 17] = [
    (split("train", "short expressions", 79_400, &["train_d20s.tsv", "train.tsv"]), ExpressionSource::Pool { share: TRAIN, limit: "train_length" }),
    (split("dev", "for early stopping", 1_000, &["dev_d20s.tsv", "dev.tsv"]), ExpressionSource::Pool { share: DEV, limit: "held_out_length" }),
    (split("test", "near-IID: as training, but of any length", 10_000, &["test_d20s.tsv", "test.tsv"]), ExpressionSource::Pool { share: TEST, limit: "held_out_length" }),
    (split("200-300", "201 to 299 tokens", 2_000, &["test_200_300.tsv"]), ExpressionSource::Between(200, 300)),
    (split("300-400", "301 to 399 tokens", 2_000, &["test_300_400.tsv"]), ExpressionSource::Between(300, 400)),
    (split("400-500", "401 to 499 tokens", 2_000, &["test_400_500.tsv"]), ExpressionSource::Between(400, 500)),
    (split("500-600", "501 to 599 tokens", 2_000, &["test_500_600.tsv"]), ExpressionSource::Between(500, 600)),
    (split("600-700", "601 to 699 tokens", 2_000, &["test_600_700.tsv"]), ExpressionSource::Between(600, 700)),
    (split("700-800", "701 to 799 tokens", 2_000, &["test_700_800.tsv"]), ExpressionSource::Between(700, 800)),
    (split("800-900", "801 to 899 tokens", 2_000, &["test_800_900.tsv"]), ExpressionSource::Between(800, 900)),
    (split("900-1000", "901 to 999 tokens", 2_000, &["test_900_1000.tsv"]), ExpressionSource::Between(900, 1000)),
    (split("args-5", "100 to 1000 tokens, nesting at most 8", 2_000, &["test_iid_arg.tsv"]), arguments(5)),
    (split("args-10", "up to 10 arguments, 100 to 1000 tokens, nesting at most 8", 2_000, &["test_10_arg.tsv"]), arguments(10)),
    (split("args-15", "up to 15 arguments, 100 to 1000 tokens, nesting at most 8", 2_000, &["test_15_arg.tsv"]), arguments(15)),
    (split("lra", "Long Range Arena test: 501 to 1999 tokens, up to 10 arguments", 2_000, &["basic_test.tsv"]), lra(0.9, 1.0)),
    (split("lra-dev", "Long Range Arena validation", 2_000, &["basic_val.tsv"]), lra(0.8, 0.9)),
    (split("lra-train", "Long Range Arena training", 96_000, &["basic_train.tsv"]), lra(0.0, 0.8)),
];

const SPLITS: [Split; TABLE.len()] = splits(&TABLE);

#[rustfmt::skip]
const OPTIONS: [OptionField; 5] = [
    option("train_length", 100, 0, 100_000, "most tokens of a training example; 0 is no limit"),
    option("held_out_length", 0, 0, 100_000, "most tokens of an example of dev and test; 0 is no limit"),
    option("depth", 20, 2, 30, "depth limit of train, dev, test and the length splits; operators nest one less"),
    option("arguments", 5, 2, 15, "most arguments of an operator there"),
    option("mix", 0, 0, 1, "1: `train` has the examples of `lra-train`, too, spread evenly over it (ListOpsMix)"),
];

impl Task for ListOps {
    fn about(&self) -> TaskDescription {
        TaskDescription {
            name: "listops",
            doc: "evaluate nested MIN, MAX, MED and SM over digits",
            source: "Nangia and Bowman 2018, arXiv:1804.06028; splits by length: Havrylov et al. 2019, arXiv:1902.09393; `lra`: Tay et al. 2021 (Long Range Arena), arXiv:2011.04006",
            objective: Objective::Classify,
            options: &OPTIONS,
            splits: &SPLITS,
            metrics: &[],
        }
    }

    fn vocabulary(&self, _options: &Options) -> Vec<String> {
        SYMBOLS.map(String::from).to_vec()
    }

    fn classes(&self, _options: &Options) -> Vec<String> {
        SYMBOLS[..10].iter().map(|digit| digit.to_string()).collect()
    }

    fn generate(&self, request: &GenerationRequest<'_>) -> Result<Vec<Example>, DataError> {
        let fail = |message| DataError { file: self.name().into(), line: None, message };
        self.split(request.split).map_err(fail)?;
        if mix::is_mixed(request.split, request.options) {
            return mix::generate(request, |part| self.part(part));
        }
        self.part(request)
    }

    fn read(&self, path: &Path, _options: &Options) -> Result<Vec<Example>, DataError> {
        read::read(path)
    }

    /// With `mix`, training is read only where both of its files are there.
    fn read_folder(&self, folder: &DataFolder<'_>) -> Result<Option<Vec<Example>>, DataError> {
        let found = by_name(self, folder)?;
        if !mix::is_mixed(folder.split, folder.options) {
            return Ok(found);
        }
        let short = found.map(|rows| rows.into_iter().filter(|row| is_short("train", row, folder.options)).collect());
        let long = by_name(self, &DataFolder { split: mix::LONG, ..*folder })?;
        Ok(short.zip(long).map(|(short, long)| mix::spread(short, long)))
    }

    /// Round brackets are dropped, as in files, and `3]` is two symbols. The expression must be complete.
    fn encode(&self, text: &str, _options: &Options) -> Result<Vec<u32>, String> {
        let spaced = text.replace(['(', ')'], " ").replace(']', " ] ").replace('[', " [");
        let tokens = ids(spaced.split_whitespace(), &SYMBOLS, "symbol of ListOps")?;
        evaluate(&tokens).map(|_| tokens)
    }

    fn encoding(&self, options: &Options) -> Encoding {
        let replaced = [["(", " "], [")", " "], ["]", " ] "], ["[", " ["]];
        Encoding::blanks(self.vocabulary(options), &replaced)
    }

    /// The parts of a mixed split have been sorted out before.
    fn keeps(&self, split: &str, example: &Example, options: &Options) -> bool {
        mix::is_mixed(split, options) || is_short(split, example, options)
    }
}

impl ListOps {
    /// A split that comes from one source.
    fn part(&self, request: &GenerationRequest<'_>) -> Result<Vec<Example>, DataError> {
        let fail = |message| DataError { file: self.name().into(), line: None, message };
        let sampler = Sampler::new(source(request.split), request.options, request.seed).map_err(fail)?;
        let candidate = |index| {
            let (tokens, value) = sampler.candidate(index)?;
            Some(Example::classified(tokens, value))
        };
        let examples = fill(request, PATIENCE, candidate).map_err(fail)?;
        examples.iter().try_for_each(verify).map_err(fail)?;
        Ok(examples)
    }
}

/// Whether an example is no longer than its split allows.
fn is_short(split: &str, example: &Example, options: &Options) -> bool {
    match source(split) {
        ExpressionSource::Pool { limit, .. } => example.tokens.len() <= limit_of(limit, options),
        _ => true,
    }
}

/// The source of a split whose name was checked.
fn source(split: &str) -> ExpressionSource {
    let row = TABLE.iter().find(|(row, _)| row.name == split);
    row.map(|(_, source)| *source).expect("the caller has checked the split's name")
}

fn limit_of(option: &str, options: &Options) -> usize {
    match options.get(option) as usize {
        0 => LONGEST,
        limit => limit,
    }
}

/// The evaluator's word on a generated value.
fn verify(example: &Example) -> Result<(), String> {
    let judged = evaluate(&example.tokens)?;
    if example.label == ExampleTarget::Class(judged) {
        return Ok(());
    }
    Err(format!("the generator says {:?}, the evaluator {judged}", example.label))
}

/// Draws the candidates of one split; candidate `i` is a pure function of the seed and `i`.
struct Sampler {
    key: Key,
    kind: SamplerKind,
    options: [usize; 2],
}

enum SamplerKind {
    Pool { shape: ExpressionBounds, share: ExampleShare, longest: usize },
    Window { law: LengthLaw, shortest: usize, longest: usize, share: ExampleShare },
}

impl Sampler {
    fn new(source: ExpressionSource, options: &Options, seed: u64) -> Result<Self, String> {
        let pool =
            ExpressionBounds { depth: options.get("depth") as usize, arguments: options.get("arguments") as usize };
        let key = Key::new(seed).stream("listops");
        let stream = |shape: ExpressionBounds, from: usize, to: usize| {
            key.stream(&format!("depth {} arguments {} length {from} to {to}", shape.depth, shape.arguments))
        };
        let (key, kind) = match source {
            // The same candidates for every share and limit: train, dev and test are parts of one pool.
            ExpressionSource::Pool { share, limit } => {
                let longest = limit_of(limit, options);
                (stream(pool, 0, 0), SamplerKind::Pool { shape: pool, share, longest })
            }
            ExpressionSource::Between(low, high) => {
                (stream(pool, low, high), SamplerKind::window(pool, low + 1, high - 1, ALL)?)
            }
            ExpressionSource::Window { shape, shortest, longest, share } => {
                (stream(shape, shortest, longest), SamplerKind::window(shape, shortest, longest, share)?)
            }
        };
        let options = [limit_of("train_length", options), limit_of("held_out_length", options)];
        Ok(Self { key, kind, options })
    }

    /// Candidate `index` with its value, or nothing if it does not belong to the split.
    fn candidate(&self, index: u64) -> Option<(Vec<u32>, u32)> {
        let mut draws: Draws = self.key.at(index).draws();
        let mut writer = TokenWriter::default();
        match &self.kind {
            SamplerKind::Pool { shape, share, longest } => {
                let value = generate::draw(*shape, *longest, &mut draws, &mut writer)?;
                within(*share, place(&writer.tokens)).then_some((writer.tokens, value))
            }
            SamplerKind::Window { law, shortest, longest, share } => {
                let value = law.draw(*shortest..=*longest, *share, &mut draws, &mut writer)?;
                let free = !self.in_training_or_dev(&writer.tokens, place(&writer.tokens));
                free.then_some((writer.tokens, value))
            }
        }
    }

    /// Whether the pool could give this expression to training or dev.
    fn in_training_or_dev(&self, tokens: &[u32], place: f64) -> bool {
        let [train, held_out] = self.options;
        within(TRAIN, place) && tokens.len() <= train || within(DEV, place) && tokens.len() <= held_out
    }
}

impl SamplerKind {
    fn window(shape: ExpressionBounds, shortest: usize, longest: usize, share: ExampleShare) -> Result<Self, String> {
        let law = LengthLaw::new(shape, longest);
        if (shortest..=longest).all(|length| law.chance(length) <= 0.0) {
            let ExpressionBounds { depth, arguments } = shape;
            return Err(format!(
                "no expression of {shortest} to {longest} tokens exists at depth {depth} with {arguments} arguments"
            ));
        }
        Ok(Self::Window { law, shortest, longest, share })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// The conditional sampler and plain rejection must draw from the same law: compared on the mean number of
    /// operators and of digits directly below the root, over lengths 15 to 25.
    #[test]
    fn the_window_sampler_draws_what_rejection_would() {
        let shape = ExpressionBounds { depth: 5, arguments: 4 };
        let law = LengthLaw::new(shape, 25);
        let arity = |tokens: &[u32]| {
            let (mut depth, mut count) = (0, 0);
            for token in tokens {
                count += usize::from(depth == 1 && *token != CLOSE);
                depth += match *token {
                    CLOSE => -1,
                    token if OPERATORS.contains(&token) => 1,
                    _ => 0,
                };
            }
            count as f64
        };
        let mut sums = BTreeMap::from([("drawn", [0.0; 4]), ("rejected", [0.0; 4])]);
        let mut add = |name, tokens: &[u32]| {
            let sum = sums.get_mut(name).expect("both names are there");
            let numbers = [1.0, tokens.len() as f64, arity(tokens), nesting(tokens) as f64];
            sum.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
        };
        for index in 0..400_000 {
            let mut writer = TokenWriter::default();
            let key = Key::new(3).at(index);
            if generate::draw(shape, 25, &mut key.draws(), &mut writer).is_some() && writer.tokens.len() >= 15 {
                add("rejected", &writer.tokens);
            }
            if index < 30_000 {
                let mut writer = TokenWriter::default();
                law.draw(15..=25, ALL, &mut key.stream("window").draws(), &mut writer);
                add("drawn", &writer.tokens);
            }
        }
        let share: f64 = (15..=25).map(|n| law.chance(n)).sum();
        assert!((sums["rejected"][0] / 400_000.0 - share).abs() < 0.002, "share of the window is {share}");
        for (index, tolerance) in [(1, 0.08), (2, 0.03), (3, 0.03)] {
            let mean = |name: &str| sums[name][index] / sums[name][0];
            let (drawn, rejected) = (mean("drawn"), mean("rejected"));
            assert!((drawn - rejected).abs() < tolerance, "statistic {index}: {drawn} against {rejected}");
        }
    }

    #[test]
    fn the_law_of_lengths_sums_to_one_where_trees_are_small() {
        let law = LengthLaw::new(ExpressionBounds { depth: 4, arguments: 3 }, 200);
        assert!(((0..=200).map(|n| law.chance(n)).sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!(law.chance(1), 0.75);
        assert_eq!(law.chance(2), 0.0);
    }
}
