//! Tasks on files of the user's own: a class per row (`table`) or pair (`pairs`), a class per token (`tagging`), a text for every text
//! (`sequences`), the next token of a text (`language`), or hidden tokens of a text (`masked`).
//!
//! `plan` is what the experiment says, `learn` what the training file adds to it: a vocabulary and classes. Both make an [`Own`], a
//! task like all others. What was learned is kept with a run, so that a trained model is understood without the training file.

mod ask;
mod classes;
mod given;
mod language;
mod learn;
mod pieces;
mod placement;
pub(crate) mod plan;
mod rows;
mod sequences;
mod task;
mod tokens;
#[cfg(feature = "tokenizers")]
mod trained;
#[cfg(not(feature = "tokenizers"))]
#[path = "no_trained.rs"]
mod trained;
mod windows;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::files::{FileCell, FileRow, paths};
use super::share::{SplitSource, TRAIN};
use super::{Cuts, Example, ExampleTarget, Files, GivenColumn, Scale, Split, Stream, Task};
use crate::Answer;
use crate::Asks;
use crate::DataSource;
use crate::TaskSettings;
use crate::error::{DataError, unknown};
use crate::reading::{MAX_LINE, broken, unreadable};
use language::{JoinedText, WindowShape};
use learn::Learned;
use placement::RowFilter;
use plan::{CustomTaskKind, TaskPlan};
use rows::TableRows;
use rtc_base::batch::Given;
use windows::{TextSource, TextWindows};

pub use learn::{MAX_CLASSES, MAX_PIECES, MAX_ROWS, MAX_TOKENIZER};
pub use plan::{MAX_LENGTH, NAMES};

/// The most bytes that a tokenizer may make of a text.
pub const MAX_GROWN: u64 = 1 << 27;

/// What a row is to a part of its file.
enum RowUse {
    /// A row of another part.
    Other,
    /// A row without a label, which is skipped.
    Unlabelled,
    /// An example, with the number of its tokens that were cut off.
    Example { example: Example, cut: usize },
}

/// A task on files.
#[derive(Clone, Debug)]
pub(super) struct Own {
    plan: TaskPlan,
    learned: Arc<Learned>,
    /// The token with which every window begins.
    begin: Option<u32>,
    /// The token that ends a document.
    document_end: Option<u32>,
    /// The splits that the experiment names.
    splits: Vec<String>,
    /// What models take from the rows.
    asked: Asks,
    /// Inputs of the splits that were read which were cut.
    cuts: Arc<Mutex<BTreeMap<String, Cuts>>>,
}

/// The field of `task` that is wrong, and a sentence; nothing for a task of another kind.
pub fn check(settings: &TaskSettings) -> Option<Result<(), (&'static str, String)>> {
    plan::check(settings)
}

/// The splits that an experiment has files for; nothing for a task of another kind.
pub(crate) fn split_names(settings: &TaskSettings) -> Option<Vec<String>> {
    CustomTaskKind::named(&settings.name)?;
    Some(match &settings.data {
        Some(DataSource::Program(_)) => settings.sizes.keys().cloned().collect(),
        _ => plan::files(settings).map_or_else(Vec::new, |files| files.keys().cloned().collect()),
    })
}

/// Opens such a task: learns from the training file, or takes what a run has `kept`. Nothing for a task of another kind.
pub(super) fn open(settings: &TaskSettings, kept: Option<&Value>) -> Option<Result<Arc<Own>, DataError>> {
    let fail = |message| DataError { file: settings.name.clone(), line: None, message };
    let plan = TaskPlan::of(settings)?;
    let open = || {
        let plan = plan.map_err(|(field, message)| fail(format!("`task.{field}`: {message}")))?;
        let splits = split_names(settings).unwrap_or_default();
        let learned = match kept {
            Some(kept) => Learned::from_kept(kept)
                .map_err(|why| fail(format!("what the run keeps of its task is broken: {why}")))?,
            None => learn::learn(&plan, settings)?,
        };
        let one = |field: &str, text: &Option<String>, role: &str| {
            let token = text.as_deref().map(|text| learned.tokens.one(text, role)).transpose();
            token.map_err(|why| fail(format!("`task.{field}`: {why}")))
        };
        let begin = one("begin", &plan.begin, "begins a text")?;
        let document_end = one("documents", &plan.documents, "ends a document")?;
        let (learned, asked) = (Arc::new(learned), settings.known.asked.clone());
        Ok(Arc::new(Own { plan, learned, begin, document_end, splits, asked, cuts: Arc::default() }))
    };
    Some(open())
}

impl Own {
    /// The tokens of a text, and how many more it has.
    fn sequence(&self, cell: &FileCell, at: usize) -> Result<(Vec<u32>, usize), String> {
        let column = &self.plan.layout.columns[at];
        let mut tokens = match cell {
            FileCell::Missing => return Err(format!("the row has no `{column}`: give it one, or remove the row")),
            FileCell::Text(text) => self.between_marks(text, |text| self.learned.tokens.encode(text))?,
            FileCell::List(items) => self.items(items).map_err(|why| format!("`{column}`: {why}"))?,
            FileCell::Lists(_) => return Err(format!("`{column}` is a list of lists, and one of tokens is wanted")),
        };
        if tokens.is_empty() {
            return Err(format!("`{column}` has no tokens: give it a text, or remove the row"));
        }
        let room = self.plan.length - usize::from(self.begin.is_some());
        let cut = tokens.len().saturating_sub(room);
        tokens.truncate(room);
        Ok((tokens, cut))
    }

    /// The tokens of a list, which is cut already.
    fn items(&self, items: &[Option<String>]) -> Result<Vec<u32>, String> {
        let tokens = &self.learned.tokens;
        let one =
            |item: &Option<String>| item.as_ref().map(|item| tokens.id(item)).ok_or("an item is `null`".to_owned());
        match tokens.cut() {
            tokens::TokenCut::Words | tokens::TokenCut::Blanks => items.iter().map(one).collect(),
            _ => {
                Err("a list is cut into tokens already, which only `tokens: words` and `tokens: blanks` take"
                    .to_owned())
            }
        }
    }

    fn class(&self, name: &str) -> Result<u32, String> {
        let column = || self.plan.layout.columns[self.plan.inputs].to_string();
        self.learned.class(name).ok_or_else(|| self.learned.no_class(name, &column()))
    }

    /// The labels of a list of tokens: `null` is not scored.
    fn labels(&self, cell: &FileCell, tokens: usize) -> Result<ExampleTarget, String> {
        if let FileCell::Lists(_) = cell {
            let column = &self.plan.layout.columns[self.plan.inputs];
            return Err(format!("`{column}` is a list of lists, and a list of labels is wanted"));
        }
        let labels = learn::labels(cell);
        same_count(tokens, labels.len())?;
        let class = labels.iter().map(|label| label.as_ref().map_or(Ok(0), |label| self.class(label)));
        let class = class.take(self.plan.length).collect::<Result<_, _>>()?;
        let weight =
            labels.iter().take(self.plan.length).map(|label| if label.is_some() { 1.0 } else { 0.0 }).collect();
        Ok(ExampleTarget::Each { class, weight })
    }

    /// The example of a row, and how many of its tokens were cut off.
    fn example(&self, cells: &[FileCell]) -> Result<(Example, usize), String> {
        let inputs = self.plan.inputs;
        let label = &cells[inputs];
        if self.plan.kind == CustomTaskKind::Sequences {
            return self.written_row(&cells[..inputs], label);
        }
        let (example, cut) = self.texts(&cells[..inputs])?;
        let label = match self.plan.kind {
            CustomTaskKind::Tagging => self.labels(label, learn::items(&cells[0]).len())?,
            _ => self.answer(label)?,
        };
        let given = self.plan.given.iter().zip(&cells[inputs + 1..]);
        let given = self.values(given, (&example, cut[0]))?;
        Ok((Example { label, given, ..example }, cut.iter().sum()))
    }

    /// Refuses a row of which no example can be made.
    fn check_row(&self, cells: &[FileCell]) -> Result<(), String> {
        let (inputs, label) = cells.split_at(self.plan.inputs);
        let has_tokens = |cell: &FileCell| matches!(cell, FileCell::Text(text) if self.learned.tokens.has_some(text));
        let is_simple =
            self.plan.given.is_empty() && matches!(self.plan.kind, CustomTaskKind::Table | CustomTaskKind::Pairs);
        // Tokens are looked up for rows in which they may be missing alone.
        if is_simple && self.plan.texts(inputs).iter().all(has_tokens) {
            return self.answer(&label[0]).map(drop);
        }
        self.example(cells).map(drop)
    }

    /// The texts of a row as an example, and how many tokens were cut off from each of two.
    fn texts(&self, cells: &[FileCell]) -> Result<(Example, [usize; 2]), String> {
        let texts = self.plan.texts(cells);
        let (own, cut) = self.sequence(&texts[0], 0)?;
        let tokens = self.begin.into_iter().chain(own).chain(self.separator()).collect();
        let (second, behind) = match texts.get(1) {
            Some(cell) => self.sequence(cell, 1).map(|(second, cut)| (Some(second), cut))?,
            None => (None, 0),
        };
        Ok((Example { second, ..Example::classified(tokens, 0) }, [cut, behind]))
    }

    /// The values of a row in their cells.
    fn values<'a>(
        &self,
        cells: impl Iterator<Item = (&'a GivenColumn, &'a FileCell)>,
        (example, cut): (&Example, usize),
    ) -> Result<Vec<Given>, String> {
        let asked = self.asked.all();
        cells.map(|(column, cell)| given::value(column, cell, (example, cut), &asked)).collect()
    }

    /// What a label asks for.
    fn answer(&self, cell: &FileCell) -> Result<ExampleTarget, String> {
        let column = &self.plan.layout.columns[self.plan.inputs];
        match self.plan.answer {
            Answer::Class => {
                let name = learn::label(cell).map_err(|why| format!("`{column}` {why}{}", correct(cell)))?;
                self.class(&name).map(ExampleTarget::Class)
            }
            Answer::Labels => {
                let names = learn::set(cell, &self.plan.separator)
                    .map_err(|why| format!("`{column}` {why}{}", correct(cell)))?;
                let mut labels = vec![false; self.learned.classes.len()];
                for name in names {
                    labels[self.class(&name)? as usize] = true;
                }
                Ok(ExampleTarget::Several(labels))
            }
            Answer::Number => {
                let number = learn::number(cell).map_err(|why| format!("`{column}` {why}{}", correct(cell)))?;
                let Scale { mean, deviation } = self.learned.scale;
                match self.learned.scale.to_model(number) {
                    answer if answer.is_finite() => Ok(ExampleTarget::Number(answer)),
                    _ => Err(format!(
                        "`{column}` is {number:e}, and the numbers of training have the mean {mean:.2e} and the deviation \
                         {deviation:.2e}: it is too far from them for single precision; correct it"
                    )),
                }
            }
        }
    }

    /// What a row is to a part of its file.
    fn use_of(&self, row: &FileRow, part: &RowFilter, hashes: Option<&[u64]>) -> Result<RowUse, String> {
        if !part.holds(row, self.plan.inputs, hashes) {
            return Ok(RowUse::Other);
        }
        if self.plan.is_skipped(&row.cells) {
            return Ok(RowUse::Unlabelled);
        }
        self.example(&row.cells).map(|(example, cut)| RowUse::Example { example, cut })
    }

    /// The examples of some files, of the rows that belong to a part, and which of them were cut.
    fn rows(&self, files: &[PathBuf], part: &RowFilter, most: usize) -> Result<(Vec<Example>, Cuts), DataError> {
        let (mut examples, mut tokens, mut cuts) = (vec![], 0, Cuts::default());
        for path in files {
            let hashes = self.learned.hashes.of(path);
            let make = |row: FileRow| (self.use_of(&row, part, hashes), FileRow { cells: vec![], ..row });
            let goes_on = self.plan.layout.batches(path)?.each(make, |made| {
                if examples.len() >= most {
                    return Ok(false);
                }
                let (found, row) = made?;
                match found.map_err(|message| self.fault(path, &row, message))? {
                    RowUse::Other => {}
                    RowUse::Unlabelled => cuts.unlabelled += 1,
                    RowUse::Example { example, cut } => {
                        cuts.add(cut);
                        tokens += example.bytes() / 4;
                        examples.push(example);
                    }
                }
                if tokens > MAX_HELD { Err(self.fault(path, &row, TOO_MANY.to_owned())) } else { Ok(true) }
            })?;
            if !goes_on {
                break;
            }
        }
        Ok((examples, cuts))
    }

    /// Remembers which rows of a split were cut.
    fn has_cut(&self, split: &str, cuts: Cuts) {
        self.cuts.lock().unwrap_or_else(PoisonError::into_inner).insert(split.to_owned(), cuts);
    }

    fn fault(&self, path: &Path, row: &FileRow, message: String) -> DataError {
        match row.offset {
            0 if row.line > 1 => unreadable(path, format!("row {}: {message}", row.line)),
            _ => broken(path, row.line, message),
        }
    }

    /// The first problems of a file.
    fn problems_of(&self, path: &Path, most: usize) -> Vec<DataError> {
        if self.plan.kind.reads_windows() {
            return self.windows(&[path.to_owned()], &RowFilter::All, usize::MAX).err().into_iter().collect();
        }
        let rows = match self.plan.layout.batches(path) {
            Ok(rows) => rows,
            Err(problem) => return vec![problem],
        };
        let problem = |row: FileRow| {
            let found = if self.plan.is_skipped(&row.cells) { Ok(()) } else { self.check_row(&row.cells) };
            found.err().map(|message| self.fault(path, &row, message))
        };
        let mut problems = vec![];
        let mut take = |found: Option<DataError>| {
            problems.extend(found);
            problems.len() < most
        };
        let end = rows.each(problem, |found| Ok(take(found.unwrap_or_else(Some))));
        problems.extend(end.err());
        problems.truncate(most);
        problems
    }

    fn windows(&self, files: &[PathBuf], part: &RowFilter, most: usize) -> Result<Vec<Example>, DataError> {
        let text = JoinedText::open(files, &self.plan.layout)?;
        let mut found = text.windows(&self.learned.tokens, self.window_shape(), part, most)?;
        if let Some(masking) = self.row_masking() {
            (0..).zip(&mut found).for_each(|(row, window)| masking.hide(row, window));
        }
        Ok(found)
    }

    /// How texts are cut into windows.
    fn window_shape(&self) -> WindowShape {
        WindowShape {
            length: self.plan.length,
            is_next_token: self.plan.kind.is_next_token(),
            begin: self.begin,
            document_end: self.document_end,
        }
    }

    fn part_of(&self, files: &[PathBuf], part: &RowFilter, most: usize) -> Result<(Vec<Example>, Cuts), DataError> {
        match self.plan.kind {
            kind if kind.reads_windows() => Ok((self.windows(files, part, most)?, Cuts::default())),
            _ => self.rows(files, part, most),
        }
    }

    /// The files of a split, and which part of them it is.
    fn found(&self, files: &Files<'_>) -> Result<Option<(Vec<PathBuf>, RowFilter)>, DataError> {
        let fail = |message| DataError { file: self.name().to_owned(), line: None, message };
        let named = files.named.get(files.split).ok_or_else(|| fail(no_file(files.split)))?;
        let (file, part) = match SplitSource::parse(named).map_err(fail)? {
            SplitSource::File(file) if files.split == TRAIN => (file, self.learned.rest()),
            SplitSource::File(file) => (file, RowFilter::All),
            SplitSource::Share(_) => {
                let train = files.named.get(TRAIN).ok_or_else(|| fail(no_file(TRAIN)))?;
                (train.as_str(), self.learned.share(files.split))
            }
            SplitSource::Generated => return Ok(None),
        };
        let paths = paths::matching(&files.settings.locate(file))?;
        Ok(Some((paths, part)))
    }

    /// The rows of a part of some files, to be read while they are needed; nothing where the files have to be unpacked.
    fn unheld(&self, files: &[PathBuf], part: &RowFilter, most: usize) -> Result<Option<Stream>, DataError> {
        if !self.plan.kind.reads_windows() {
            if !TableRows::can(self, files)? {
                return Ok(None);
            }
            let (rows, cuts) = TableRows::find(self, files, part, most)?;
            self.has_cut(TRAIN, cuts);
            return Ok(Some(Stream(Arc::new(rows))));
        }
        let text = JoinedText::open(files, &self.plan.layout)?;
        if text.is_held() {
            return Ok(None);
        }
        let source = TextSource {
            tokens: Arc::clone(&self.learned.tokens),
            shape: self.window_shape(),
            masking: self.row_masking(),
        };
        let found = TextWindows::find(text, source, part, most)?;
        Ok(Some(Stream(Arc::new(found))))
    }
}

/// What to do about a label that can't be taken.
const CORRECT: &str = ": correct it, or remove the row";

/// What can be done about a label that is none.
fn correct(label: &FileCell) -> String {
    let is_none = match label {
        FileCell::Missing => true,
        FileCell::Text(text) => text.trim().is_empty(),
        FileCell::List(_) | FileCell::Lists(_) => false,
    };
    CORRECT.to_owned() + if is_none { "; `unlabelled: skip` in `task` leaves out all rows without a label" } else { "" }
}

/// Refuses a row whose tokens do not have a label each.
fn same_count(tokens: usize, labels: usize) -> Result<(), String> {
    let count = |count: usize, thing: &str| format!("{count} {thing}{}", if count == 1 { "" } else { "s" });
    if tokens == labels {
        return Ok(());
    }
    Err(format!("the row has {} and {}: give every token one label", count(tokens, "token"), count(labels, "label")))
}

/// The split of a task on files: all the rows that there are.
pub(crate) fn split(task: &str, splits: &[String], name: &str) -> Result<Split, String> {
    if splits.iter().any(|split| split == name) {
        return Ok(Split { name: "NAME", doc: "the rows of a file", count: usize::MAX, files: &[] });
    }
    Err(format!(
        "{}: name its file under `task.data`, or a share of `train` as `10%`",
        unknown(&format!("split of {task}"), name, splits)
    ))
}

fn no_file(split: &str) -> String {
    format!("the split `{split}` has no file: name one under `task.data`, or a share of `train` as `10%`")
}

/// The largest text that is held in memory.
pub const MAX_TEXT: u64 = 64 * MAX_LINE;

/// Training files above so many bytes are read while they are needed.
const HELD: u64 = 64 << 20;

const TOO_MANY: &str = "the rows up to here take more than 1 GiB of memory, and a split that is measured, or packed, is held in memory: \
                        `task.sizes` takes the first rows of it";

/// The most tokens of a split that is held, each four bytes; a row counts with all that it takes.
pub const MAX_HELD: usize = 1 << 28;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::DataSource;
    use crate::GivenColumns;
    use crate::Options;
    use crate::load;

    /// What is held of the training split, and what is read of it row by row.
    fn both(name: &str, tokens: &str, file: &str, text: &str, given: &[&str]) -> (Vec<Example>, Stream) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(file);
        fs::write(&path, text).expect("writable");
        let files = [("train", path.display().to_string()), ("dev", "20%".to_owned())];
        let named: BTreeMap<String, String> = files.map(|(split, file)| (split.to_owned(), file)).into();
        let settings = TaskSettings {
            name: name.to_owned(),
            tokens: Some(tokens.to_owned()),
            length: Some(7),
            data: Some(DataSource::Files(named.clone())),
            given: (!given.is_empty() && name != "language")
                .then(|| GivenColumns::Same(given.iter().map(ToString::to_string).collect())),
            begin: given.contains(&"begin").then(|| "\n".to_owned()),
            documents: (given.contains(&"document") && name == "language").then(|| "\n".to_owned()),
            ..TaskSettings::default()
        };
        let own = open(&settings, None).expect("a task on files").expect("readable");
        let options = Options::default();
        let files =
            Files { named: &named, settings: &settings, options: &options, split: TRAIN, most: usize::MAX, dev: 0 };
        let (paths, part) = own.found(&files).expect("it is there").expect("a file");
        let stream = own.unheld(&paths, &part, usize::MAX).expect("readable").expect("no packed file");
        let held = load(&settings, &[TRAIN]).expect("readable").split(TRAIN).to_vec();
        let read: Vec<Example> = (0..stream.0.count()).map(|row| stream.0.row(row).expect("unchanged")).collect();
        assert_eq!(read, held, "{name} by {tokens}");
        // Of hidden tokens a stream counts all that may be hidden.
        if name != "masked" {
            assert_eq!(stream.0.label_shares(), crate::describe(&held).label_shares, "{name} by {tokens}");
        }
        let refused = || {
            let error = stream.0.row(0).expect_err("it has changed").to_string();
            assert!(error.contains("has changed while it was trained on"), "{error}");
        };
        if cfg!(unix) {
            let (other, then) = (folder.path().join("other"), path.metadata().and_then(|found| found.modified()));
            fs::write(&other, text).expect("writable");
            let other_time = fs::File::options().write(true).open(&other).expect("it is there");
            other_time.set_modified(then.expect("a time")).expect("writable");
            fs::rename(&other, &path).expect("replaced by a file of the same size and time");
            refused();
        }
        fs::write(&path, text.to_owned() + " ").expect("writable");
        refused();
        (held, stream)
    }

    fn answers_of(row: &Example) -> Vec<u32> {
        match &row.label {
            ExampleTarget::Each { class, .. } => class.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn rows_that_are_read_when_they_are_needed_are_those_that_are_held() {
        let row = |n: usize| format!("\"a, \"\"{n}\"\"\nb\",{}\r\n", n % 3);
        let table = "text,label\r\n".to_owned() + &(0..500).map(row).collect::<String>();
        let (held, stream) = both("table", "words", "a.csv", &table, &[]);
        assert!((390..=400).contains(&held.len()), "{}", held.len());
        assert!((0..held.len()).all(|row| stream.0.length(row) == held[row].length()));
        assert_eq!(stream.0.tokens() as usize, held.iter().map(|row| row.tokens.len()).sum::<usize>());
        let line = |n: usize| format!("w{n} one,{n} w{}\n", n % 3);
        let pairs = "source,target\n".to_owned() + &(0..900).map(line).collect::<String>();
        let (held, stream) = both("sequences", "words", "a.csv", &pairs, &[]);
        assert!((0..held.len()).all(|row| stream.0.length(row) == held[row].length()));
        let line =
            |n: usize| format!("{{\"text\": \"w{n} ä\", \"label\": {}, \"own\": {n}, \"two\": [1, {n}]}}\n", n % 2);
        let lines: String = (0..3_000).map(line).collect();
        let (_, plain) = both("table", "characters", "a.jsonl", &lines, &[]);
        let (held, with) = both("table", "characters", "a.jsonl", &lines, &["own", "two"]);
        assert!(held.iter().all(|row| row.given[1].numbers == [1.0, row.given[0].numbers[0]]));
        let (_, other) = both("table", "characters", "a.jsonl", &lines.replace("[1, 7]", "[2, 7]"), &["own", "two"]);
        assert_ne!(plain.0.fingerprint(), with.0.fingerprint());
        assert_ne!(other.0.fingerprint(), with.0.fingerprint(), "a value is a part of the data");
        let text: String = (0..4_000).map(|n| format!("line {n} ä, {}\n", "x".repeat(n % 50))).collect();
        let long = "\u{feff}".to_owned() + &"\r\n".repeat(3_000) + &"y".repeat(9_000) + "\r";
        let kinds = [("language", "bytes"), ("language", "characters"), ("language", "words"), ("masked", "words")];
        for (name, tokens, text) in
            kinds.into_iter().flat_map(|(name, tokens)| [(name, tokens, &text), (name, tokens, &long)])
        {
            let (held, stream) = both(name, tokens, "a.txt", text, &[]);
            if name == "language" {
                let (other, with) = both(name, tokens, "a.txt", text, &["document"]);
                assert!(
                    other.iter().zip(&held).all(|(other, own)| other.tokens == own.tokens && other.given.len() == 1)
                );
                assert_ne!(stream.0.fingerprint(), with.0.fingerprint());
                let (begun, with) = both(name, tokens, "a.txt", text, &["begin"]);
                assert_ne!(stream.0.fingerprint(), with.0.fingerprint());
                let answers = |rows: &[Example]| rows.iter().flat_map(answers_of).collect::<Vec<u32>>();
                assert_eq!(answers(&begun), [&held[0].tokens[..1], &answers(&held)[..]].concat(), "{tokens}");
                let begin = begun[0].tokens[0];
                for row in begun {
                    let answers = answers_of(&row);
                    assert_eq!(row.tokens, [&[begin], &answers[..answers.len() - 1]].concat(), "{tokens}");
                }
            }
            assert_eq!(stream.0.tokens() as usize, held.iter().map(|row| row.tokens.len()).sum::<usize>());
            assert!((0..held.len()).all(|row| stream.0.length(row) == held[row].tokens.len()));
        }
    }
}
