//! Text: whether a review is positive, from its bytes (the Long Range Arena's use of IMDB, Maas et al. 2011).
//!
//! Without files reviews are generated: simple sentences with opinions, negated or not, between sentences without any;
//! the review is positive if more opinions are. It is a task of counting words and seeing `not`, and no natural language.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::{bytes, generate};
use crate::error::DataError;
use crate::files::open::regular;
use crate::files::records::rows;
use crate::held::HeldRows;
use crate::line;
use crate::pool::ExampleShare;
use crate::reading::{broken, entries, unreadable};
use crate::task::splits::by_name;
use crate::{
    DataFolder, Encoding, Example, GenerationRequest, Objective, OptionField, Options, Split, Task, TaskDescription,
    option, split,
};
use rtc_base::rng::Draws;

/// The task.
pub struct TextTask;

#[rustfmt::skip]
const SPLITS: [Split; 3] = [
    split("train", "reviews", 25_000, &["train.tsv", "train.csv", "orig_train.tsv"]),
    split("dev", "for early stopping; of the aclImdb folder this is the test set, as in the Long Range Arena", 25_000, &["dev.tsv", "dev.csv", "orig_dev.tsv"]),
    split("test", "other reviews", 25_000, &["test.tsv", "test.csv", "orig_test.tsv"]),
];

const SHARES: &[(&str, ExampleShare)] = &[("train", (0.0, 0.4)), ("dev", (0.4, 0.7)), ("test", (0.7, 1.0))];

#[rustfmt::skip]
const OPTIONS: [OptionField; 1] =
    [option("length", 4_096, 64, 65_536, "bytes read of a review; generated ones have from half of them to all")];

const NEGATIVE: u32 = 0;
const POSITIVE: u32 = 1;

const PRAISE: [&str; 12] = [
    "wonderful",
    "moving",
    "clever",
    "superb",
    "charming",
    "gripping",
    "honest",
    "brilliant",
    "funny",
    "elegant",
    "warm",
    "bold",
];
const BLAME: [&str; 12] =
    ["dull", "awful", "clumsy", "boring", "shallow", "tedious", "painful", "lazy", "stale", "cheap", "silly", "bland"];
const SUBJECTS: [&str; 10] =
    ["plot", "cast", "score", "ending", "script", "camera work", "dialogue", "lead", "pacing", "first act"];
const ASIDES: [&str; 8] = [
    "we saw it on a rainy evening",
    "my brother chose the tickets",
    "it runs for two hours",
    "the story begins in a small town",
    "there is a sequel already",
    "a friend had told us about it",
    "the book came out years ago",
    "the cinema was half empty",
];

/// A review of at most `length` bytes, and its class.
fn review(length: usize, draws: &mut Draws) -> Option<Example> {
    let wanted = length / 2 + draws.below(length as u64 / 2 + 1) as usize;
    let mut pick = |words: &[&'static str]| words[draws.below(words.len() as u64) as usize];
    let mut text = String::new();
    let mut balance = 0;
    loop {
        let mut sentence = String::new();
        let mut opinion = 0;
        if pick(&["opinion", "aside"]) == "aside" {
            sentence.push_str(pick(&ASIDES));
        } else {
            let praise = pick(&["praise", "blame"]) == "praise";
            let negated = pick(&["", "", "", "not "]);
            opinion = if praise == negated.is_empty() { 1 } else { -1 };
            let adjective = pick(if praise { &PRAISE } else { &BLAME });
            sentence = format!("the {} was {negated}{adjective}", pick(&SUBJECTS));
        }
        if text.len() + sentence.len() + 2 > wanted {
            break;
        }
        balance += opinion;
        text.push_str(&sentence);
        text.push_str(". ");
    }
    let class = match balance {
        0 => return None,
        1.. => POSITIVE,
        _ => NEGATIVE,
    };
    Some(Example::classified(bytes::tokens(text.trim_end().as_bytes(), length), class))
}

/// Opinions for and against in a generated review, read from its text: above zero it is positive.
pub fn sentiment(text: &str) -> i64 {
    let opinion = |sentence: &str| {
        let words: Vec<&str> = sentence.split_whitespace().collect();
        let Some(last) = words.last() else { return 0 };
        let value = i64::from(PRAISE.contains(last)) - i64::from(BLAME.contains(last));
        if words.contains(&"not") { -value } else { value }
    };
    text.split('.').map(opinion).sum()
}

impl Task for TextTask {
    fn about(&self) -> TaskDescription {
        TaskDescription {
            name: "text",
            doc: "whether a review is positive, byte by byte (Long Range Arena)",
            source: "Tay et al. 2021 (Long Range Arena), arXiv:2011.04006; reviews: Maas et al. 2011 (IMDB)",
            objective: Objective::Classify,
            options: &OPTIONS,
            splits: &SPLITS,
            metrics: &[],
        }
    }

    fn vocabulary(&self, _options: &Options) -> Vec<String> {
        bytes::names()
    }

    fn classes(&self, _options: &Options) -> Vec<String> {
        vec!["negative".to_owned(), "positive".to_owned()]
    }

    fn generate(&self, request: &GenerationRequest<'_>) -> Result<Vec<Example>, DataError> {
        let length = request.options.get("length") as usize;
        generate(self, request, SHARES, |draws, _| review(length, draws))
    }

    /// A table with a label and a text per row, in this order unless a header row names the columns.
    fn read(&self, path: &Path, options: &Options) -> Result<Vec<Example>, DataError> {
        let length = options.get("length") as usize;
        let mut columns = TextColumns { label: 0, text: 1, all: 2 };
        let mut held = HeldRows::default();
        for (n, row) in rows(path, true)?.enumerate() {
            let (line, row) = row?;
            match TextColumns::of_header(&row) {
                Some(named) if n == 0 => columns = named,
                _ => {
                    let example = columns.example(&row, length).map_err(|message| broken(path, line, message))?;
                    held.add(example, path, line)?;
                }
            }
        }
        Ok(held.rows)
    }

    fn read_folder(&self, folder: &DataFolder<'_>) -> Result<Option<Vec<Example>>, DataError> {
        let part = if folder.split == "train" { "train" } else { "test" };
        match folder.path.join(part).join("pos").is_dir() {
            true => reviews(&folder.path.join(part), folder).map(Some),
            false => by_name(self, folder),
        }
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

/// The columns of label and text in a row.
#[derive(Clone, Copy)]
struct TextColumns {
    label: usize,
    text: usize,
    /// Number of columns.
    all: usize,
}

impl TextColumns {
    /// The columns that a header names, if the row is one.
    fn of_header(row: &[Vec<u8>]) -> Option<Self> {
        let named = |names: &[&str]| {
            let is_one = |cell: &Vec<u8>| names.iter().any(|name| cell.eq_ignore_ascii_case(name.as_bytes()));
            row.iter().position(is_one)
        };
        let (label, text) = (named(&["sentiment", "label", "target"])?, named(&["text", "review", "source"])?);
        Some(Self { label, text, all: row.len() })
    }

    fn example(self, row: &[Vec<u8>], length: usize) -> Result<Example, String> {
        let (label, text) = match (row.get(self.label), row.get(self.text)) {
            (Some(label), Some(text)) if row.len() == self.all => (label, text),
            _ => return Err(format!("a row has {} columns, and this one has {}", self.all, row.len())),
        };
        let label = String::from_utf8_lossy(label);
        let class = match label.to_lowercase().as_str() {
            "negative" | "neg" | "0" => NEGATIVE,
            "positive" | "pos" | "1" => POSITIVE,
            _ => return Err(format!("the label `{label}` is neither positive nor negative")),
        };
        if text.is_empty() {
            return Err("the text is empty".to_owned());
        }
        Ok(Example::classified(bytes::tokens(text, length), class))
    }
}

/// The reviews of `aclImdb/train` or `aclImdb/test`: a file each in `pos` and `neg`, taken in turn in the order of their
/// numbers.
fn reviews(part: &Path, folder: &DataFolder<'_>) -> Result<Vec<Example>, DataError> {
    let sides = [(POSITIVE, files(&part.join("pos"))?), (NEGATIVE, files(&part.join("neg"))?)];
    let longest = sides.iter().map(|(_, files)| files.len()).max().unwrap_or(0);
    let in_turn =
        (0..longest).flat_map(|n| sides.iter().filter_map(move |(class, files)| Some((*class, files.get(n)?))));
    let length = folder.options.get("length");
    let read = |(class, path): (u32, &PathBuf)| {
        let mut text = Vec::new();
        let read = regular(path).and_then(|file| file.take(length).read_to_end(&mut text));
        read.map_err(|error| unreadable(path, error))?;
        if text.is_empty() {
            return Err(unreadable(path, "the review is empty"));
        }
        Ok(Example::classified(bytes::tokens(&text, length as usize), class))
    };
    in_turn.take(folder.most).map(read).collect()
}

/// The text files of a folder by the number before `_` in their names, then by name.
fn files(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let mut paths = entries(folder)?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort_by_cached_key(|path| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let number = name.split('_').next().and_then(|number| number.parse::<u64>().ok());
        (number.is_none(), number, name)
    });
    Ok(paths)
}
