//! Character language modelling: the next character of a text, and the last character of windows of growing length.
//!
//! The text is a file (`input.txt`, also with `.gz`), of which the first 90 % are for training, 5 % for dev and 5 % for the
//! tests; without a file, lines of made-up words. Training and dev count every character, the tests the last one of each
//! window alone, so that their perplexity is that of a character after so many others (Chi et al. 2023).

use std::io::Read;
use std::path::Path;

use super::{
    DataFolder, Encoding, Example, ExampleTarget, GenerationRequest, Objective, OptionField, Options, Split, Task,
    TaskDescription, option, split, splits,
};
use crate::error::DataError;
use crate::files::open::open;
use crate::reading::{find, nothing_published, unreadable};
use rtc_base::rng::{Draws, Key, spread};

/// The task.
pub struct Characters;

/// Ids are those of the printable characters of ASCII from the blank on; then the end of a line, then all that is neither.
const PRINTABLE: u32 = 95;
const NEWLINE: u32 = PRINTABLE;
const OTHER: u32 = PRINTABLE + 1;

/// How the end of a line is shown.
const LINE_END: char = '⏎';

/// The names of the published file.
const FILES: &[&str] = &["input.txt"];
/// The longest text that is read.
pub const MAX_TEXT: u64 = 1 << 28;
/// Characters of a generated text.
const GENERATED: usize = 200_000;
/// Made-up words that a generated text is made of.
const WORDS: usize = 500;

/// A part of a text, and how often the length of training its windows are long.
type WindowPart = ((f64, f64), Option<usize>);

/// Every split with the part of the text that it comes from, and how often the length of training its windows are long; nothing
/// where every character counts.
#[rustfmt::skip]
const TABLE: [(Split, WindowPart); 7] = [
    (split("train", "consecutive windows, every character is scored", 100_000, FILES), ((0.0, 0.9), None)),
    (split("dev", "the same on another part of the text", 1_000, FILES), ((0.9, 0.95), None)),
    (split("1x", "the last character of windows of the length of training", 1_000, FILES), ((0.95, 1.0), Some(1))),
    (split("2x", "of twice that length", 1_000, FILES), ((0.95, 1.0), Some(2))),
    (split("4x", "of four times that length", 1_000, FILES), ((0.95, 1.0), Some(4))),
    (split("8x", "of eight times that length", 1_000, FILES), ((0.95, 1.0), Some(8))),
    (split("16x", "of sixteen times that length", 1_000, FILES), ((0.95, 1.0), Some(16))),
];

const SPLITS: [Split; TABLE.len()] = splits(&TABLE);

const OPTIONS: [OptionField; 1] = [option("length", 512, 2, 100_000, "characters of a window of training")];

fn id(byte: u8) -> u32 {
    match byte {
        b' '..=b'~' => u32::from(byte - b' '),
        b'\n' => NEWLINE,
        _ => OTHER,
    }
}

/// A window of `length` characters and the one behind it.
fn window(text: &[u32], start: usize, length: usize, last: bool) -> Example {
    let tokens = text[start..start + length].to_vec();
    let class = text[start + 1..=start + length].to_vec();
    let weight = (1..=length).map(|at| if last && at < length { 0.0 } else { 1.0 }).collect();
    // Every character is a byte of the text.
    let text_bytes = Some(if last { 1 } else { length as u32 });
    Example { label: ExampleTarget::Each { class, weight }, text_bytes, ..Example::classified(tokens, 0) }
}

/// The windows of a split of a text, `most` of them at most.
fn windows(text: &[u32], name: &str, most: usize, options: &Options) -> Result<Vec<Example>, String> {
    let (_, ((from, to), times)) =
        TABLE.iter().find(|(split, _)| split.name == name).ok_or("there is no such split")?;
    let at = |share: f64| (share * text.len() as f64) as usize;
    let part = &text[at(*from)..at(*to)];
    let length = options.get("length") as usize * times.unwrap_or(1);
    let Some(room) = part.len().checked_sub(length + 1) else {
        return Err(format!(
            "`{name}` takes windows of {length} characters, and its part of the text has {}",
            part.len()
        ));
    };
    Ok(match times {
        None => (0..=room).step_by(length).take(most).map(|start| window(part, start, length, false)).collect(),
        // A smaller split is a prefix of a larger one.
        Some(_) => {
            let start = |n: usize| spread(n as u64, room as u64 + 1) as usize;
            (0..most).map(|n| window(part, start(n), length, true)).collect()
        }
    })
}

/// Lines of made-up words; the more often a word has been taken to be, the earlier it stands in the list.
fn made_up(seed: u64) -> Vec<u32> {
    let key = Key::new(seed).stream("characters");
    let syllables = |draws: &mut Draws| {
        let one = |draws: &mut Draws| {
            let letter = |of: &[u8], draws: &mut Draws| of[draws.below(of.len() as u64) as usize];
            [letter(b"bdfgklmnprstvz", draws), letter(b"aeiou", draws)]
        };
        (0..=draws.below(3)).flat_map(|_| one(draws)).collect::<Vec<u8>>()
    };
    let words: Vec<Vec<u8>> = (0..WORDS as u64).map(|n| syllables(&mut key.stream("words").at(n).draws())).collect();
    let mut draws = key.stream("text").draws();
    let mut text = Vec::with_capacity(GENERATED + 8);
    while text.len() < GENERATED {
        // A Zipf law: the logarithm of the rank is uniform.
        let rank = (WORDS as f64).powf(draws.uniform()) as usize;
        text.extend(words[rank.clamp(1, WORDS) - 1].iter().map(|byte| id(*byte)));
        text.push(if draws.below(8) == 0 { NEWLINE } else { id(b' ') });
    }
    text
}

fn text_of(path: &Path) -> Result<Vec<u32>, DataError> {
    let mut bytes = Vec::new();
    open(path)?.take(MAX_TEXT + 1).read_to_end(&mut bytes).map_err(|error| unreadable(path, error))?;
    if bytes.len() as u64 > MAX_TEXT {
        return Err(unreadable(path, "the text is longer than 256 MiB"));
    }
    Ok(bytes.into_iter().map(id).collect())
}

impl Task for Characters {
    fn about(&self) -> TaskDescription {
        TaskDescription {
            name: "characters",
            doc: "the next character of a text",
            source: "rtc; text: Karpathy 2015 (Tiny Shakespeare)",
            objective: Objective::Each,
            options: &OPTIONS,
            splits: &SPLITS,
            metrics: &[],
        }
    }

    fn vocabulary(&self, _options: &Options) -> Vec<String> {
        let name = |id: u32| match (id, char::from_u32(id + 32)) {
            (0, _) => "blank".to_owned(),
            (NEWLINE, _) => "newline".to_owned(),
            (OTHER, _) | (_, None) => "other".to_owned(),
            (_, Some(c)) => c.to_string(),
        };
        (0..=OTHER).map(name).collect()
    }

    fn classes(&self, options: &Options) -> Vec<String> {
        self.vocabulary(options)
    }

    /// The characters as they are; `⏎` is the end of a line, too.
    fn encode(&self, text: &str, _options: &Options) -> Result<Vec<u32>, String> {
        let token = |c: char| if c == LINE_END { NEWLINE } else { u8::try_from(c).map_or(OTHER, id) };
        Ok(text.chars().map(token).collect())
    }

    fn encoding(&self, _options: &Options) -> Encoding {
        let pieces = (b' '..=b'~').map(char::from).chain(['\n', char::REPLACEMENT_CHARACTER]);
        Encoding {
            replaced: vec![[LINE_END.to_string(), "\n".to_owned()]],
            cut: "characters",
            line_ends: true,
            pieces: pieces.map(String::from).collect(),
            unknown: Some(OTHER),
            ..Encoding::default()
        }
    }

    fn on_one_line(&self, text: &str) -> String {
        text.replace('\n', &LINE_END.to_string())
    }

    fn decode(&self, tokens: &[u32], _options: &Options) -> String {
        let shown = |token: &u32| match *token {
            NEWLINE => LINE_END,
            printable if printable < PRINTABLE => char::from_u32(printable + 32).unwrap_or(char::REPLACEMENT_CHARACTER),
            _ => char::REPLACEMENT_CHARACTER,
        };
        tokens.iter().map(shown).collect()
    }

    fn written(&self, tokens: &[u32], options: &Options) -> String {
        self.decode(tokens, options).replace(LINE_END, "\n")
    }

    fn perplexity(&self) -> bool {
        true
    }

    fn knows_bytes(&self) -> bool {
        true
    }

    fn generate(&self, request: &GenerationRequest<'_>) -> Result<Vec<Example>, DataError> {
        let fail = |message| DataError { file: self.name().into(), line: None, message };
        self.split(request.split).map_err(fail)?;
        windows(&made_up(request.seed), request.split, request.count, request.options).map_err(fail)
    }

    /// Windows of the length of training, one behind the other, of all of a text.
    fn read(&self, path: &Path, options: &Options) -> Result<Vec<Example>, DataError> {
        let (text, length) = (text_of(path)?, options.get("length") as usize);
        let Some(room) = text.len().checked_sub(length + 1) else {
            return Err(unreadable(path, format!("the text has {} characters, no window of {length}", text.len())));
        };
        Ok((0..=room).step_by(length).map(|start| window(&text, start, length, false)).collect())
    }

    fn read_folder(&self, folder: &DataFolder<'_>) -> Result<Option<Vec<Example>>, DataError> {
        let path = find(folder.path, FILES).ok_or_else(|| nothing_published(folder.path, FILES[0]))?;
        let found = windows(&text_of(&path)?, folder.split, folder.most, folder.options);
        found.map(Some).map_err(|message| unreadable(&path, message))
    }
}
