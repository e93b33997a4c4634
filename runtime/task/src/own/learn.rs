//! Facts of the training file: the vocabulary, the classes, and its rows in other splits.

use std::collections::{BTreeSet, HashMap};
use std::io::Read;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::language::{JoinedText, TextBlock};
use super::pieces::PieceMap;
use super::placement::{RowFilter, RowHashes, ShareRule, SplitShare, place};
use super::plan::{self, CustomTaskKind, Cutting, TaskPlan};
use super::tokens::{SavedVocabulary, TokenCut, Tokens};
use crate::Answer;
use crate::TaskSettings;
use crate::error::DataError;
use crate::files::batches::{Batches, ChunkItems, most_chunks};
use crate::files::open::regular;
use crate::files::{FileCell, FileRow, ListTexts, paths};
use crate::reading::{broken, unreadable};
use crate::scale::Scale;
use crate::share::{SplitSource, TRAIN, shares};
use rtc_base::json;
use rtc_compiler::ir::formula::bytes;

/// The most classes: more are a sign of the wrong column.
pub const MAX_CLASSES: usize = 65_536;

/// What a training file adds to an experiment.
#[derive(Debug)]
pub(super) struct Learned {
    pub(super) tokens: Arc<Tokens>,
    /// The names of the classes or labels; none where tokens or numbers are the answers.
    pub(super) classes: Vec<String>,
    ids: HashMap<String, u32>,
    /// Number of rows that are trained on; 0 where a run has kept the rest.
    pub(super) rows: usize,
    /// The unit of the numbers, where they are the answers.
    pub(super) scale: Scale,
    shares: Vec<SplitShare>,
    /// Where shares were made of rows.
    pub(super) hashes: RowHashes,
    pub(super) rule: ShareRule,
}

/// The part of [`Learned`] that a run saves.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedLearning {
    tokens: SavedVocabulary,
    classes: Vec<String>,
    #[serde(default, skip_serializing_if = "Scale::is_plain")]
    scale: Scale,
    shares: Vec<SplitShare>,
    seed: u64,
    /// See [`ShareRule::several`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    several: Option<Vec<u64>>,
}

impl Learned {
    pub(super) fn kept(&self) -> Value {
        let (classes, shares) = (self.classes.clone(), self.shares.clone());
        let (seed, several) = (self.rule.seed, self.rule.several.as_deref().cloned());
        let kept = SavedLearning { tokens: self.tokens.kept(), classes, scale: self.scale, shares, seed, several };
        serde_json::to_value(kept).expect("names and numbers are valid JSON")
    }

    pub(super) fn from_kept(kept: &Value) -> Result<Self, String> {
        let SavedLearning { tokens, classes, scale, shares, seed, several } =
            SavedLearning::deserialize(kept).map_err(|error| error.to_string())?;
        let (ids, rule) = (ids(&classes), ShareRule { seed, several: several.map(Arc::new) });
        let (tokens, hashes) = (Arc::new(Tokens::from_kept(tokens)?), RowHashes::default());
        Ok(Self { tokens, classes, ids, rows: 0, scale, shares, hashes, rule })
    }

    /// The id of a class: a file may have many of them, and every row one.
    pub(super) fn class(&self, name: &str) -> Option<u32> {
        self.ids.get(name).copied()
    }

    /// What is left of the training file.
    pub(super) fn rest(&self) -> RowFilter {
        if self.shares.is_empty() { RowFilter::All } else { RowFilter::Without(self.shares.clone(), self.rule.clone()) }
    }

    /// The part of the training file that a split has.
    pub(super) fn share(&self, split: &str) -> RowFilter {
        RowFilter::Only(self.shares.iter().filter(|share| share.split == split).cloned().collect(), self.rule.clone())
    }
}

/// The first place of each name.
fn ids(names: &[String]) -> HashMap<String, u32> {
    names.iter().enumerate().rev().map(|(id, name)| (name.clone(), id as u32)).collect()
}

/// The texts of a cell: of a list its items, else what stands between blanks.
pub(super) fn items(cell: &FileCell) -> Vec<&str> {
    match cell {
        FileCell::Missing => vec![],
        FileCell::Text(text) => text.split_whitespace().collect(),
        FileCell::List(items) => items.iter().map(|item| item.as_deref().unwrap_or_default()).collect(),
        FileCell::Lists(lists) => lists.iter().flatten().map(|item| item.as_deref().unwrap_or_default()).collect(),
    }
}

/// The labels of a cell of several; nothing where one is `null`, and none of a list of lists.
pub(super) fn labels(cell: &FileCell) -> ListTexts {
    match cell {
        FileCell::List(labels) => labels.clone(),
        FileCell::Lists(_) => vec![],
        cell => items(cell).into_iter().map(|label| Some(label.to_owned())).collect(),
    }
}

/// The one label of a cell, or what is wrong with it.
pub(super) fn label(cell: &FileCell) -> Result<String, &'static str> {
    match cell {
        FileCell::Text(text) if text.trim().is_empty() => Err("is empty"),
        FileCell::Text(text) => Ok(text.trim().to_owned()),
        FileCell::List(_) | FileCell::Lists(_) => Err("is a list, and one class is wanted"),
        FileCell::Missing => Err("is missing"),
    }
}

/// The labels of a cell of which any number may belong to a row: the items of a list, or what stands between separators.
pub(super) fn set(cell: &FileCell, separator: &str) -> Result<Vec<String>, &'static str> {
    match cell {
        FileCell::Text(text) => {
            let names = text.split(separator).map(str::trim).filter(|name| !name.is_empty());
            Ok(names.map(str::to_owned).collect())
        }
        FileCell::List(items) => items.iter().map(|item| item.clone().ok_or("has an item that is `null`")).collect(),
        FileCell::Lists(_) => Err("is a list of lists, and a list of labels is wanted"),
        FileCell::Missing => Err("is missing"),
    }
}

/// The number of a cell.
pub(super) fn number(cell: &FileCell) -> Result<f64, String> {
    let text = label(cell).map_err(|why| format!("{why}, and a number is wanted"))?;
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    match number {
        None => Err(format!("is `{text}`, which is no number")),
        Some(number) if number.abs() > LARGEST => Err(format!(
            "is `{text}`, and numbers reach from -{LARGEST:e} to {LARGEST:e}, in a larger unit where they are larger"
        )),
        Some(number) => Ok(number),
    }
}

/// Most bytes of a `tokenizer.json`.
pub const MAX_TOKENIZER: u64 = 1 << 28;

/// The largest number that is learned: errors of larger ones would not be finite.
const LARGEST: f64 = 1e300;

/// Learns from the training file.
pub(super) fn learn(plan: &TaskPlan, settings: &TaskSettings) -> Result<Learned, DataError> {
    let fail = |message| DataError { file: settings.name.clone(), line: None, message };
    let made = settings.made(&[TRAIN])?;
    let settings: &TaskSettings = &made;
    let named = plan::files(settings).ok_or_else(|| fail("`task.data` names no files".to_owned()))?;
    let train = named.get(TRAIN).ok_or_else(|| fail("`task.data` names no file for `train`".to_owned()))?;
    let SplitSource::File(train) = SplitSource::parse(train).map_err(fail)? else {
        return Err(fail("`task.data.train` must be a file".to_owned()));
    };
    let shares = shares(named).map_err(fail)?;
    let files = paths::matching(&settings.locate(train))?;
    require_class_names(plan, &files)?;
    let (shares, hashes, rule) = place(plan, &files, &shares, settings.seed)?;
    let learned = Learned {
        tokens: Arc::new(Tokens::bytes()),
        classes: vec![],
        ids: HashMap::new(),
        rows: 0,
        scale: Scale::default(),
        shares,
        hashes,
        rule,
    };
    let mut counts = FileCounts::default();
    match plan.kind {
        kind if kind.reads_windows() => counts.text(plan, &files, &learned.rest())?,
        _ => counts.rows(plan, &files, &learned)?,
    }
    let classes = counts.classes(plan, &files)?;
    let scale = Scale::of(&counts.numbers);
    let tokens = match &plan.cutting {
        Cutting::By(TokenCut::Bytes) => Tokens::bytes(),
        Cutting::By(cut) => Tokens::learned(*cut, plan.lines(), counts.pieces, plan.vocabulary),
        Cutting::File(file) => trained(settings, file)?,
    };
    let (ids, rows) = (ids(&classes), counts.rows);
    Ok(Learned { tokens: Arc::new(tokens), classes, ids, rows, scale, ..learned })
}

/// Refuses `class_names: file` if no file has names for a column that is read.
fn require_class_names(plan: &TaskPlan, files: &[PathBuf]) -> Result<(), DataError> {
    let layout = &plan.layout;
    let Some(first) = files.first().filter(|_| layout.form.class_names) else { return Ok(()) };
    for file in files {
        if layout.has_class_names(file)? {
            return Ok(());
        }
    }
    let why = "`class_names: file` needs a Parquet file of Hugging Face's `datasets` that names the classes of a column that is read, and this one \
               names none: leave it out";
    Err(unreadable(first, why))
}

/// Reads a `tokenizer.json`.
fn trained(settings: &TaskSettings, file: &str) -> Result<Tokens, DataError> {
    let path = settings.locate(file);
    let mut text = vec![];
    let read = regular(&path).and_then(|file| file.take(MAX_TOKENIZER + 1).read_to_end(&mut text));
    read.map_err(|error| unreadable(&path, error))?;
    if text.len() as u64 > MAX_TOKENIZER {
        let most = bytes(MAX_TOKENIZER);
        return Err(unreadable(
            &path,
            format!("a `tokenizer.json` has at most {most}, and this one has more: use a smaller one"),
        ));
    }
    let value = json::value(&text).map_err(|error| unreadable(&path, format!("this is no JSON: {error}")))?;
    Tokens::trained(&value, settings.vocabulary).map_err(|message| unreadable(&path, message))
}

/// The most rows that shares are made of, or numbers are learned from: something is held of each.
pub const MAX_ROWS: usize = 1 << 27;

/// The most different tokens that are counted for a vocabulary.
pub const MAX_PIECES: usize = 1 << 24;

/// Refuses a training file with more than is held of it.
pub(super) fn few(count: usize, most: usize, what: &str, path: &Path, line: usize) -> Result<(), DataError> {
    if count <= most {
        return Ok(());
    }
    Err(broken(path, line, format!("a training file has at most {most} {what}, and up to here it has more")))
}

/// Counts of a training file.
#[derive(Default)]
struct FileCounts {
    /// Rows of the files, and of these the rows that are trained on.
    all: usize,
    rows: usize,
    pieces: PieceMap<u64>,
    classes: BTreeSet<String>,
    numbers: Vec<f64>,
}

/// The counts of the chunks of batches, apart for each number of a chunk: sums and sets have no order, and are made at the end.
struct ApartCounts(Vec<Mutex<FileCounts>>);

impl Default for ApartCounts {
    fn default() -> Self {
        Self((0..most_chunks()).map(|_| Mutex::default()).collect())
    }
}

impl ApartCounts {
    /// The counts of the chunks with a number.
    fn counts(&self, number: usize) -> MutexGuard<'_, FileCounts> {
        self.0[number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> impl Iterator<Item = MutexGuard<'_, FileCounts>> {
        (0..self.0.len()).map(|number| self.counts(number))
    }

    /// The number of pieces at most.
    fn pieces(&self) -> usize {
        self.all().map(|counts| counts.pieces.len()).sum()
    }

    /// All counts, which begin again.
    fn take(&self) -> impl Iterator<Item = FileCounts> {
        self.all().map(|mut counts| mem::take(&mut *counts))
    }
}

impl FileCounts {
    fn piece(&mut self, piece: &str) {
        *self.pieces.get_or_insert(piece, 0) += 1;
    }

    fn rows(&mut self, plan: &TaskPlan, files: &[PathBuf], learned: &Learned) -> Result<(), DataError> {
        let part = learned.rest();
        let apart = ApartCounts::default();
        for path in files {
            let hashes = learned.hashes.of(path);
            let holds = |row: &FileRow| part.holds(row, plan.inputs, hashes);
            let mut batches = plan.layout.batches(path)?;
            loop {
                // A byte begins one piece at most, and one row.
                let is_near = |count: usize, most: usize| count + batches.bytes() > most;
                let counted = if is_near(self.pieces.len() + apart.pieces(), MAX_PIECES)
                    || is_near(self.numbers.len(), MAX_ROWS)
                {
                    apart.take().for_each(|counts| self.add(counts));
                    batches.next_in_turn(|mut rows| rows.try_for_each(|row| self.row(plan, &row?, holds, Some(path))))
                } else {
                    let counted = batches.next(|number, mut rows| {
                        let mut counts = apart.counts(number);
                        rows.try_for_each(|row| counts.row(plan, &row?, holds, None))
                    });
                    apart.all().for_each(|mut counts| self.numbers.append(&mut counts.numbers));
                    counted
                };
                match counted {
                    None => break,
                    Some(counted) => counted.into_iter().collect::<Result<(), DataError>>()?,
                }
            }
        }
        apart.take().for_each(|counts| self.add(counts));
        Ok(())
    }

    /// Adds the counts of other rows.
    fn add(&mut self, mut other: Self) {
        self.all += other.all;
        self.rows += other.rows;
        self.pieces.merge(other.pieces, |all, own| *all += own);
        self.classes.append(&mut other.classes);
        self.numbers.append(&mut other.numbers);
    }

    /// Counts a row that `holds` has; of a file that is named, to the most that is held.
    fn row(
        &mut self,
        plan: &TaskPlan,
        row: &FileRow,
        holds: impl Fn(&FileRow) -> bool,
        limited: Option<&Path>,
    ) -> Result<(), DataError> {
        let (inputs, rest) = row.cells.split_at(plan.inputs);
        let label = &rest[..rest.len().min(1)];
        self.all += 1;
        if !holds(row) || plan.is_skipped(&row.cells) {
            return Ok(());
        }
        self.rows += 1;
        let target = label.iter().filter(|_| plan.kind == CustomTaskKind::Sequences);
        for text in plan.texts(inputs).iter().chain(target) {
            match (text, &plan.cutting) {
                (FileCell::Text(text), Cutting::By(cut)) => cut.each(text, plan.lines(), |piece| self.piece(piece)),
                (FileCell::Text(_), Cutting::File(_)) => {}
                (list, _) => items(list).into_iter().for_each(|item| self.piece(item)),
            }
        }
        // A broken label is an error with its line, when the row becomes an example.
        match (plan.kind, plan.answer) {
            (CustomTaskKind::Sequences, _) => {}
            (CustomTaskKind::Tagging, _) => self.classes.extend(label.iter().flat_map(labels).flatten()),
            (_, Answer::Class) => self.classes.extend(label.iter().filter_map(|cell| self::label(cell).ok())),
            (_, Answer::Labels) => {
                self.classes.extend(label.iter().filter_map(|cell| set(cell, &plan.separator).ok()).flatten());
            }
            (_, Answer::Number) => self.numbers.extend(label.iter().filter_map(|cell| number(cell).ok())),
        }
        let Some(path) = limited else { return Ok(()) };
        few(self.pieces.len(), MAX_PIECES, "different tokens", path, row.line)?;
        few(self.numbers.len(), MAX_ROWS, "rows", path, row.line)
    }

    fn text(&mut self, plan: &TaskPlan, files: &[PathBuf], part: &RowFilter) -> Result<(), DataError> {
        let Cutting::By(cut) = plan.cutting else { return Ok(()) };
        if cut == TokenCut::Bytes {
            return Ok(());
        }
        let text = JoinedText::open(files, &plan.layout)?;
        let apart = ApartCounts::default();
        let mut blocks = Batches::new(text.blocks(part)?);
        let count = |number: usize, mut blocks: ChunkItems<'_, TextBlock>| {
            let mut counts = apart.counts(number);
            blocks.try_for_each(|block| {
                cut.each(&block?.text, true, |piece| counts.piece(piece));
                Ok(())
            })
        };
        while let Some(counted) = blocks.next(count) {
            counted.into_iter().collect::<Result<(), DataError>>()?;
        }
        apart.take().for_each(|counts| self.add(counts));
        Ok(())
    }

    /// The classes in order: that of their numbers if all are whole numbers, else that of their texts.
    fn classes(&self, plan: &TaskPlan, files: &[PathBuf]) -> Result<Vec<String>, DataError> {
        if plan.kind.reads_windows() || plan.answer == Answer::Number {
            return Ok(vec![]);
        }
        let mut classes: Vec<String> = self.classes.iter().cloned().collect();
        let numbers: Option<Vec<i64>> = classes.iter().map(|class| class.parse().ok()).collect();
        if numbers.is_some() {
            classes.sort_by_key(|class| class.parse::<i64>().unwrap_or_default());
        }
        let column = plan.layout.columns.get(plan.inputs).map(ToString::to_string).unwrap_or_default();
        let is_text = plan.kind == CustomTaskKind::Sequences;
        let why = match classes.len() {
            0 if self.all == 0 => "there is no row".to_owned(),
            0 if self.rows == 0 => {
                "no row is left for training: equal rows go into the same split, so that more rows are needed, or a \
                                    file for each split"
                    .to_owned()
            }
            0 if is_text => return Ok(classes),
            0 => format!("no row has a `{column}`, and classes are learned from it"),
            1 if plan.answer == Answer::Class => {
                format!("all rows have the same `{column}`, `{}`: there is nothing to learn", classes[0])
            }
            count if count > MAX_CLASSES => {
                format!("`{column}` has {count} different values: is it the column of the class?")
            }
            _ => return Ok(classes),
        };
        let path = files.first().cloned().unwrap_or_default();
        Err(broken(&path, 1, why))
    }
}
