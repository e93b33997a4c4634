//! Logical inference: which of seven relations holds between two formulas (Bowman, Potts and Manning 2015).
//!
//! Pairs are drawn as for the published data, and sorted into buckets by the larger number of operators of the two sides.
//! The first 85 % of every bucket are for training, the rest for testing. Models are trained on up to six operators and
//! tested on more.

mod formula;
mod generate;
mod read;

use std::path::Path;

use super::{
    DataFolder, Encoding, Example, GenerationRequest, Objective, OptionField, Options, Split, Task, TaskDescription,
    option, split,
};
use crate::error::DataError;
use generate::FormulaPair;
use rtc_base::rng::Key;

pub use formula::{LogicFormula, Relation, VARIABLES, parse, relation};

/// The symbols by id.
pub const SYMBOLS: [&str; 11] = ["(", ")", "not", "and", "or", "a", "b", "c", "d", "e", "f"];

const OPEN: u32 = 0;
const CLOSE: u32 = 1;
const NOT: u32 = 2;
const AND: u32 = 3;
const OR: u32 = 4;
/// The id of the first variable; the others follow.
const VARIABLE: u32 = 5;

const LAST: usize = generate::LAST;
/// Buckets that are trained on.
const TRAINING_BUCKETS: &[usize] = &[0, 1, 2, 3, 4, 5, 6];

/// The task.
pub struct Logic;

#[rustfmt::skip]
const SPLITS: [Split; 15] = [
    split("train", "at most 6 operators on a side", 121_977, &[]),
    split("dev", "the same, for early stopping", 13_552, &[]),
    split("ops-0", "no operator", 6, &[]),
    split("ops-1", "1 operator on the side with more", 410, &[]),
    split("ops-2", "2 operators", 2_198, &[]),
    split("ops-3", "3 operators", 4_104, &[]),
    split("ops-4", "4 operators", 5_361, &[]),
    split("ops-5", "5 operators", 6_027, &[]),
    split("ops-6", "6 operators", 5_816, &[]),
    split("ops-7", "7 operators", 4_707, &[]),
    split("ops-8", "8 operators", 3_347, &[]),
    split("ops-9", "9 operators", 2_230, &[]),
    split("ops-10", "10 operators", 1_444, &[]),
    split("ops-11", "11 operators", 864, &[]),
    split("ops-12", "12 operators or more", 853, &[]),
];

#[rustfmt::skip]
const OPTIONS: [OptionField; 1] =
    [option("pairs", 500_000, 1_000, 10_000_000, "drawn pairs; the number of distinct pairs decides the size of every split")];

/// The bucket of a test split.
fn bucket_of(split: &str) -> Option<usize> {
    split.strip_prefix("ops-")?.parse().ok()
}

fn example(left: Vec<u32>, right: Vec<u32>, relation: Relation) -> Example {
    let class = Relation::ALL.iter().position(|known| *known == relation).unwrap_or_default() as u32;
    Example { second: Some(right), ..Example::classified(left, class) }
}

fn text(tokens: &[u32]) -> String {
    tokens.iter().map(|id| SYMBOLS[*id as usize]).collect::<Vec<_>>().join(" ")
}

/// The example of a generated pair; its label is the calculator's, which reads the text.
fn judged(pair: FormulaPair) -> Result<Example, String> {
    let label = relation(&parse(&text(&pair.left))?, &parse(&text(&pair.right))?)?;
    Ok(example(pair.left, pair.right, label))
}

impl Task for Logic {
    fn about(&self) -> TaskDescription {
        TaskDescription {
            name: "logic",
            doc: "which of seven relations holds between two formulas of propositional logic",
            source: "Bowman, Potts and Manning 2015, arXiv:1406.1827",
            objective: Objective::Pair,
            options: &OPTIONS,
            splits: &SPLITS,
            metrics: &[],
        }
    }

    fn vocabulary(&self, _options: &Options) -> Vec<String> {
        SYMBOLS.map(String::from).to_vec()
    }

    fn classes(&self, _options: &Options) -> Vec<String> {
        Relation::ALL.map(|relation| relation.sign().to_owned()).to_vec()
    }

    /// At most `count` pairs: the pool is what it is. Training and dev come in the order in which they were drawn, so that a
    /// part of them has all numbers of operators.
    fn generate(&self, request: &GenerationRequest<'_>) -> Result<Vec<Example>, DataError> {
        let fail = |message| DataError { file: self.name().into(), line: None, message };
        self.split(request.split).map_err(fail)?;
        let tested = bucket_of(request.split);
        let wanted = tested.as_ref().map_or(TRAINING_BUCKETS, std::slice::from_ref);
        let key = Key::new(request.seed).stream("logic");
        let mut drawn = Vec::new();
        for pairs in generate::buckets(key, request.options.get("pairs"), wanted).into_values() {
            let trained = pairs.len() * 85 / 100;
            let (from, to) = if tested.is_some() { (trained, pairs.len()) } else { (0, trained) };
            drawn.extend(pairs.into_iter().take(to).skip(from));
        }
        drawn.sort_unstable_by_key(|(order, _)| *order);
        let is_dev = |n: usize| (n + 1).is_multiple_of(read::DEV_EVERY);
        let belongs = |n: usize| tested.is_some() || is_dev(n) == (request.split == "dev");
        let kept = drawn.into_iter().enumerate().filter(|(n, _)| belongs(*n)).map(|(_, (_, pair))| judged(pair));
        let kept = kept.filter(|found| found.as_ref().map_or(true, |example| !request.excludes(example)));
        let examples = kept.take(request.count).collect::<Result<Vec<_>, _>>().map_err(fail)?;
        if examples.is_empty() && request.count > 0 {
            let split = request.split;
            return Err(fail(format!("so few pairs have none for `{split}`: draw more (task option `pairs`)")));
        }
        Ok(examples)
    }

    fn read(&self, path: &Path, _options: &Options) -> Result<Vec<Example>, DataError> {
        read::read(path)
    }

    fn read_folder(&self, folder: &DataFolder<'_>) -> Result<Option<Vec<Example>>, DataError> {
        read::read_folder(folder)
    }

    /// One formula; the brackets must be complete.
    fn encode(&self, text: &str, _options: &Options) -> Result<Vec<u32>, String> {
        let spaced = text.replace('(', " ( ").replace(')', " ) ");
        parse(&spaced)?;
        read::tokens(&spaced)
    }

    fn encoding(&self, options: &Options) -> Encoding {
        Encoding::blanks(self.vocabulary(options), &[["(", " ( "], [")", " ) "]])
    }
}
