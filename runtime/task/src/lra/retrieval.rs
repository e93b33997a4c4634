//! Retrieval: whether two documents belong together, from their bytes (the Long Range Arena's use of the ACL Anthology
//! Network, Radev et al. 2013: whether one paper cites the other).
//!
//! Without files documents are generated: made-up words of a subject among common words; two documents belong together if
//! they are about the same subject.

use std::path::Path;

use super::{bytes, generate};
use crate::error::DataError;
use crate::files::records::rows;
use crate::held::HeldRows;
use crate::line;
use crate::pool::ExampleShare;
use crate::reading::broken;
use crate::{
    Encoding, Example, GenerationRequest, Objective, OptionField, Options, Split, Task, TaskDescription, option, split,
};
use rtc_base::rng::{Draws, Key};

/// The task.
pub struct Retrieval;

#[rustfmt::skip]
const SPLITS: [Split; 3] = [
    split("train", "pairs of documents", 147_086, &["new_aan_pairs.train.tsv", "train.tsv"]),
    split("dev", "for early stopping", 18_090, &["new_aan_pairs.eval.tsv", "dev.tsv"]),
    split("test", "other pairs", 17_437, &["new_aan_pairs.test.tsv", "test.tsv"]),
];

const SHARES: &[(&str, ExampleShare)] = &[("train", (0.0, 0.8)), ("dev", (0.8, 0.9)), ("test", (0.9, 1.0))];

#[rustfmt::skip]
const OPTIONS: [OptionField; 2] = [
    option("length", 4_096, 64, 65_536, "bytes read of a document; generated ones have from half of them to all"),
    option("subjects", 16, 2, 1_000, "subjects of the generated documents"),
];

/// Words of a subject.
const WORDS: u64 = 8;
/// One word in so many is one of the subject.
const RARITY: u64 = 3;

const COMMON: [&str; 24] = [
    "the", "of", "and", "we", "in", "a", "to", "for", "that", "model", "results", "show", "data", "is", "with",
    "method", "paper", "on", "are", "this", "as", "by", "from", "our",
];
const SYLLABLES: [&str; 20] = [
    "ba", "de", "fi", "go", "ku", "la", "me", "ni", "po", "ru", "sa", "te", "vi", "zo", "dru", "kel", "mar", "nop",
    "tis", "wex",
];

/// Word `n` of a subject: three syllables, the same for every seed. The first two number the subject and cannot be those of
/// another one below 400.
fn word(subject: u64, n: u64) -> String {
    let syllable = |index: u64| SYLLABLES[(index % SYLLABLES.len() as u64) as usize];
    let last = Key::new(subject).stream("word").below(n, SYLLABLES.len() as u64);
    let middle = subject / SYLLABLES.len() as u64;
    format!("{}{}{}{}", syllable(subject), syllable(middle), syllable(last), middle / SYLLABLES.len() as u64)
}

fn document(subject: u64, length: usize, draws: &mut Draws) -> Vec<u32> {
    let wanted = length / 2 + draws.below(length as u64 / 2 + 1) as usize;
    let mut text = String::new();
    while text.len() < wanted {
        if draws.below(RARITY) == 0 {
            text.push_str(&word(subject, draws.below(WORDS)));
        } else {
            text.push_str(COMMON[draws.below(COMMON.len() as u64) as usize]);
        }
        text.push(' ');
    }
    bytes::tokens(text.trim_end().as_bytes(), wanted)
}

/// The subject of a generated document below `subjects`: the one with most words in it.
pub fn subject(text: &str, subjects: u64) -> Option<u64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let count = |subject: u64| {
        let own: Vec<String> = (0..WORDS).map(|n| word(subject, n)).collect();
        words.iter().filter(|word| own.iter().any(|own| own == *word)).count()
    };
    (0..subjects).max_by_key(|subject| count(*subject)).filter(|subject| count(*subject) > 0)
}

fn pair(options: &Options, draws: &mut Draws) -> Example {
    let (length, subjects) = (options.get("length") as usize, options.get("subjects"));
    let same = draws.below(2) == 1;
    let first = draws.below(subjects);
    let second = if same { first } else { (first + 1 + draws.below(subjects - 1)) % subjects };
    let [tokens, second] = [first, second].map(|subject| document(subject, length, draws));
    Example { second: Some(second), ..Example::classified(tokens, u32::from(same)) }
}

impl Task for Retrieval {
    fn about(&self) -> TaskDescription {
        TaskDescription {
            name: "retrieval",
            doc: "whether two documents belong together, byte by byte (Long Range Arena)",
            source: "Tay et al. 2021 (Long Range Arena), arXiv:2011.04006; documents: Radev et al. 2013 (ACL Anthology Network)",
            objective: Objective::Pair,
            options: &OPTIONS,
            splits: &SPLITS,
            metrics: &[],
        }
    }

    fn vocabulary(&self, _options: &Options) -> Vec<String> {
        bytes::names()
    }

    fn classes(&self, _options: &Options) -> Vec<String> {
        vec!["apart".to_owned(), "together".to_owned()]
    }

    fn generate(&self, request: &GenerationRequest<'_>) -> Result<Vec<Example>, DataError> {
        generate(self, request, SHARES, |draws, _| Some(pair(request.options, draws)))
    }

    /// Rows of five columns: label, two identifiers, two texts. Quotation marks are characters like all others.
    fn read(&self, path: &Path, options: &Options) -> Result<Vec<Example>, DataError> {
        let length = options.get("length") as usize;
        let row = |row: Vec<Vec<u8>>| {
            let [label, _, _, first, second] = row.as_slice() else {
                return Err(format!(
                    "a row has a label, two identifiers and two texts, with tabs between them, and this one has {} columns",
                    row.len()
                ));
            };
            let class = match label.as_slice() {
                b"0" | b"0.0" => 0,
                b"1" | b"1.0" => 1,
                other => return Err(format!("the label `{}` is neither 0 nor 1", String::from_utf8_lossy(other))),
            };
            if first.is_empty() || second.is_empty() {
                return Err("one of the texts is empty".to_owned());
            }
            let [tokens, second] = [first, second].map(|text| bytes::tokens(text, length));
            Ok(Example { second: Some(second), ..Example::classified(tokens, class) })
        };
        let mut held = HeldRows::default();
        for found in rows(path, false)? {
            let (line, found) = found?;
            held.add(row(found).map_err(|message| broken(path, line, message))?, path, line)?;
        }
        Ok(held.rows)
    }

    fn encode(&self, text: &str, options: &Options) -> Result<Vec<u32>, String> {
        bytes::encode(text, options.get("length") as usize)
    }

    fn encoding(&self, options: &Options) -> Encoding {
        Encoding::bytes(options.get("length") as usize)
    }

    fn on_one_line(&self, text: &str) -> String {
        line::written(text, false)
    }

    fn decode(&self, tokens: &[u32], _options: &Options) -> String {
        bytes::decode(tokens)
    }
}
