//! The settings of a task on a user's files, checked without reading any file.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::given;
use super::learn::items;
use crate::Answer;
use crate::Columns;
use crate::DataSource;
use crate::GivenColumn;
use crate::Quotes;
use crate::TaskSettings;
use crate::Unlabelled;
use crate::files::{self, Column, FileCell, FileLayout, TextForm};
use crate::own::tokens::TokenCut;
use crate::share::{GENERATED, SplitSource, TRAIN};
use crate::task::{ClassNames, DecimalMark};

/// The kinds of such tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CustomTaskKind {
    Table,
    Pairs,
    Tagging,
    Sequences,
    Language,
    Masked,
}

/// The names of these tasks in experiments, with a line of documentation each.
pub const NAMES: [(&str, &str); 6] = [
    ("table", "a class, a number or several labels per row of a file of your own"),
    ("pairs", "a class per pair of texts of a file of your own"),
    ("tagging", "a class per token of rows of a file of your own"),
    ("sequences", "a text written behind each input of a file of your own"),
    ("language", "the next token of texts of your own"),
    ("masked", "the hidden tokens of texts of your own"),
];

const KINDS: [CustomTaskKind; 6] = [
    CustomTaskKind::Table,
    CustomTaskKind::Pairs,
    CustomTaskKind::Tagging,
    CustomTaskKind::Sequences,
    CustomTaskKind::Language,
    CustomTaskKind::Masked,
];

impl CustomTaskKind {
    pub(super) fn named(name: &str) -> Option<Self> {
        NAMES.iter().zip(KINDS).find(|((own, _), _)| *own == name).map(|(_, kind)| kind)
    }

    pub(super) fn name(self) -> &'static str {
        NAMES[self as usize].0
    }

    pub(super) fn doc(self) -> &'static str {
        NAMES[self as usize].1
    }

    /// Whether every answer is a later token of the row.
    pub(super) fn is_next_token(self) -> bool {
        matches!(self, Self::Sequences | Self::Language)
    }

    /// Whether the answers are tokens.
    pub(super) fn answers_tokens(self) -> bool {
        matches!(self, Self::Sequences | Self::Language | Self::Masked)
    }

    /// Whether windows of texts take the place of rows.
    pub(super) fn reads_windows(self) -> bool {
        matches!(self, Self::Language | Self::Masked)
    }
}

/// How texts become tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cutting {
    By(TokenCut),
    /// As the `tokenizer.json` at this path says.
    File(String),
}

/// A task on files, as an experiment has it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TaskPlan {
    pub(super) kind: CustomTaskKind,
    /// The columns of the input, then that of the label, then those of the values that come with the rows.
    pub(super) layout: FileLayout,
    /// How many columns are input.
    pub(super) inputs: usize,
    /// These values.
    pub(super) given: Vec<GivenColumn>,
    pub(super) answer: Answer,
    /// What stands between several labels.
    pub(super) separator: String,
    pub(super) cutting: Cutting,
    /// Whether rows without a label are skipped.
    pub(super) skips: bool,
    /// The most tokens of an input; of a window in `language`.
    pub(super) length: usize,
    /// The most tokens of a vocabulary.
    pub(super) vocabulary: usize,
    /// Share of the tokens that `masked` hides.
    pub(super) share: f64,
    /// Whether shares of the training file have the same part of every class.
    pub(super) stratify: bool,
    /// The text of the token with which every window begins.
    pub(super) begin: Option<String>,
    /// The text of the token that ends a document.
    pub(super) documents: Option<String>,
}

/// Without `task.length`: the most tokens of an input, and the tokens of a window.
const LENGTH: usize = 512;
const WINDOW: usize = 256;
/// Without `task.separator`: what stands between several labels.
const SEPARATOR: &str = ",";
/// The largest `task.length`.
pub const MAX_LENGTH: usize = 1 << 20;
/// Without `task.share`: the share of hidden tokens.
const SHARE: f64 = 0.15;
/// Without `task.vocabulary`: the most tokens of a vocabulary.
const VOCABULARY: usize = 50_000;

/// A rule that was broken: the field of `task`, and the sentence.
pub(super) type BrokenTaskRule = (&'static str, String);

impl TaskPlan {
    /// The plan of an experiment; nothing if its task is none of these.
    pub(super) fn of(settings: &TaskSettings) -> Option<Result<Self, BrokenTaskRule>> {
        CustomTaskKind::named(&settings.name).map(|kind| Self::new(kind, settings))
    }

    fn new(kind: CustomTaskKind, settings: &TaskSettings) -> Result<Self, BrokenTaskRule> {
        if let Some(name) = settings.options.keys().next() {
            let message =
                format!("`{}` has no options, and `{name}` is one: its fields stand in `task` itself", kind.name());
            return Err(("options", message));
        }
        let given = given::columns(kind, settings)?;
        let inputs = inputs(kind, settings)?;
        let labels = label(kind, settings)?;
        if let Some(label) = labels.iter().find(|label| inputs.contains(label)) {
            return Err(("label", format!("`{label}` is an input, too: a label that the model reads is no question")));
        }
        if let Some(column) = given.iter().find(|given| labels.iter().any(|label| *label == given.column)) {
            let message = format!(
                "`{}` reads the label `{}`: a label that the model reads is no question",
                column.name, column.column
            );
            return Err(("given", message));
        }
        let before_given = inputs.len() + labels.iter().count();
        let columns = inputs.iter().cloned().chain(labels);
        let columns: Vec<Column> = columns.chain(given.iter().map(|given| given.column.clone())).collect();
        let length = settings.length.unwrap_or(if kind.reads_windows() { WINDOW } else { LENGTH });
        if !(1..=MAX_LENGTH).contains(&length) {
            return Err(("length", format!("`length` must lie between 1 and {MAX_LENGTH}")));
        }
        let vocabulary = settings.vocabulary.unwrap_or(VOCABULARY);
        if vocabulary < 2 {
            return Err(("vocabulary", "`vocabulary` must be at least 2".to_owned()));
        }
        let (answer, separator) = answer(kind, settings)?;
        let is_number = |at: &usize| *at >= before_given || *at >= inputs.len() && answer == Answer::Number;
        let commas = match settings.decimal.unwrap_or_default() {
            DecimalMark::Point => vec![],
            DecimalMark::Comma => (0..columns.len()).filter(is_number).collect(),
        };
        let layout = FileLayout { format: settings.format, columns, form: form(settings)?, commas };
        let (inputs, cutting) = (inputs.len(), cutting(kind, settings)?);
        let skips = settings.unlabelled == Some(Unlabelled::Skip);
        if skips && !matches!(kind, CustomTaskKind::Table | CustomTaskKind::Pairs) {
            let message =
                "`unlabelled: skip` is for rows with one label: of `tagging` a label that is `null` is not scored";
            return Err(("unlabelled", message.to_owned()));
        }
        let (share, stratify) = (share(kind, settings)?, stratify(kind, answer, settings)?);
        Ok(Self {
            kind,
            layout,
            inputs,
            given,
            answer,
            separator,
            cutting,
            skips,
            length,
            vocabulary,
            share,
            stratify,
            begin: begin(kind, settings)?,
            documents: documents(kind, settings)?,
        })
    }

    /// Whether a row is skipped because it has no label. Of several labels an empty text has none, which is an answer.
    pub(super) fn is_skipped(&self, cells: &[FileCell]) -> bool {
        self.skips
            && match cells.get(self.inputs) {
                Some(FileCell::Missing) => true,
                Some(FileCell::Text(text)) => self.answer != Answer::Labels && text.trim().is_empty(),
                _ => false,
            }
    }

    /// Whether several columns make one text.
    fn joins(&self) -> bool {
        self.kind == CustomTaskKind::Table && self.inputs > 1
    }

    /// Whether the end of a line is a token also where blanks are none.
    pub(super) fn lines(&self) -> bool {
        self.kind.answers_tokens() || self.joins()
    }

    /// The texts of a row: those of its cells, or one with the text of each cell on a line of its own.
    pub(super) fn texts<'c>(&self, cells: &'c [FileCell]) -> Cow<'c, [FileCell]> {
        if !self.joins() {
            return Cow::Borrowed(cells);
        }
        let text = |cell: &FileCell| match cell {
            FileCell::Text(text) => text.trim().to_owned(),
            cell => items(cell).join(" "),
        };
        let texts: Vec<String> = cells.iter().map(text).collect();
        let text = if texts.iter().all(String::is_empty) { String::new() } else { texts.join("\n") };
        Cow::Owned(vec![FileCell::Text(text)])
    }
}

fn inputs(kind: CustomTaskKind, settings: &TaskSettings) -> Result<Vec<Column>, BrokenTaskRule> {
    match (kind, &settings.input) {
        (CustomTaskKind::Pairs, Some(Columns::Several(columns))) if columns.len() == 2 => Ok(columns.clone()),
        (CustomTaskKind::Pairs, _) => {
            Err(("input", "`pairs` needs `input`, a list of two columns, as `[premise, hypothesis]`".to_owned()))
        }
        (CustomTaskKind::Table, Some(Columns::Several(columns))) => {
            let twice = columns.iter().enumerate().find(|(n, column)| columns[..*n].contains(column));
            match twice {
                Some((_, column)) => Err(("input", format!("`input` names the column `{column}` twice"))),
                None if columns.is_empty() => Err(("input", "`input` names no column".to_owned())),
                None => Ok(columns.clone()),
            }
        }
        (_, Some(Columns::Several(_))) => Err(("input", format!("`input` of `{}` is one column", kind.name()))),
        (_, Some(Columns::One(column))) => Ok(vec![column.clone()]),
        (CustomTaskKind::Sequences, None) => Ok(vec![Column::Name("source".to_owned())]),
        (_, None) => Ok(vec![Column::Name("text".to_owned())]),
    }
}

fn begin(kind: CustomTaskKind, settings: &TaskSettings) -> Result<Option<String>, BrokenTaskRule> {
    let Some(begin) = &settings.begin else { return Ok(None) };
    let why = match kind {
        CustomTaskKind::Language if begin.is_empty() => "is empty: name the token with which texts begin, as `\"<s>\"`",
        CustomTaskKind::Language => return Ok(Some(begin.clone())),
        _ => "is for `language`: rows of the other tasks begin with their own text",
    };
    Err(("begin", format!("`begin` {why}")))
}

fn documents(kind: CustomTaskKind, settings: &TaskSettings) -> Result<Option<String>, BrokenTaskRule> {
    let Some(end) = &settings.documents else { return Ok(None) };
    let why = match kind {
        CustomTaskKind::Language if end.is_empty() => "is empty: name the token that ends a document, as `\"\\n\"`",
        CustomTaskKind::Language => return Ok(Some(end.clone())),
        CustomTaskKind::Masked => {
            "is for `language`: in `masked` the end of a document may be hidden, and the numbers of the documents would tell it"
        }
        _ => "is for `language`, whose rows hold several documents: a row of the other tasks is one",
    };
    Err(("documents", format!("`documents` {why}")))
}

fn label(kind: CustomTaskKind, settings: &TaskSettings) -> Result<Option<Column>, BrokenTaskRule> {
    match (kind, &settings.label) {
        (CustomTaskKind::Language, Some(_)) => {
            Err(("label", "`language` has no labels: every token is the label of those before".to_owned()))
        }
        (CustomTaskKind::Masked, Some(_)) => {
            Err(("label", "`masked` has no labels: the hidden tokens of the text are its answers".to_owned()))
        }
        (CustomTaskKind::Language | CustomTaskKind::Masked, None) => Ok(None),
        (_, Some(label)) => Ok(Some(label.clone())),
        (CustomTaskKind::Sequences, None) => Ok(Some(Column::Name("target".to_owned()))),
        (_, None) => Ok(Some(Column::Name("label".to_owned()))),
    }
}

fn answer(kind: CustomTaskKind, settings: &TaskSettings) -> Result<(Answer, String), BrokenTaskRule> {
    let answer = settings.answer.unwrap_or_default();
    if kind != CustomTaskKind::Table && answer != Answer::Class {
        return Err(("answer", format!("`answer` belongs to `table`, and the task is `{}`", kind.name())));
    }
    match &settings.separator {
        Some(_) if answer != Answer::Labels => {
            Err(("separator", "`separator` stands between the labels of `answer: labels`".to_owned()))
        }
        Some(separator) if separator.is_empty() => Err(("separator", "`separator` is empty".to_owned())),
        separator => Ok((answer, separator.clone().unwrap_or_else(|| SEPARATOR.to_owned()))),
    }
}

fn share(kind: CustomTaskKind, settings: &TaskSettings) -> Result<f64, BrokenTaskRule> {
    match settings.share {
        Some(_) if kind != CustomTaskKind::Masked => {
            Err(("share", format!("`share` belongs to `masked`, and the task is `{}`: leave it out", kind.name())))
        }
        Some(share) if !(share > 0.0 && share < 1.0) => {
            Err(("share", format!("`share` must lie above 0 and below 1: got {share}. Use {SHARE}, say")))
        }
        share => Ok(share.unwrap_or(SHARE)),
    }
}

/// Whether shares are stratified, which needs a class in every row, and a share.
fn stratify(kind: CustomTaskKind, answer: Answer, settings: &TaskSettings) -> Result<bool, BrokenTaskRule> {
    if !settings.stratify {
        return Ok(false);
    }
    let is_class = matches!(kind, CustomTaskKind::Table | CustomTaskKind::Pairs) && answer == Answer::Class;
    if !is_class {
        let message = "`stratify` is for rows with one class: of `table` and `pairs`, with `answer: class`";
        return Err(("stratify", message.to_owned()));
    }
    let is_share = |text: &String| matches!(SplitSource::parse(text), Ok(SplitSource::Share(_)));
    if !files(settings).is_some_and(|files| files.values().any(is_share)) {
        let message = "`stratify` keeps the classes of shares equal, and no split is a share of `train`, as `dev: 10%`: leave it out";
        return Err(("stratify", message.to_owned()));
    }
    Ok(true)
}

fn cutting(kind: CustomTaskKind, settings: &TaskSettings) -> Result<Cutting, BrokenTaskRule> {
    let default = match kind {
        CustomTaskKind::Table | CustomTaskKind::Pairs => "words",
        CustomTaskKind::Tagging => "blanks",
        CustomTaskKind::Sequences | CustomTaskKind::Language => "characters",
        CustomTaskKind::Masked => "words",
    };
    let tokens = settings.tokens.as_deref().unwrap_or(default);
    if kind == CustomTaskKind::Tagging && tokens != "blanks" {
        let message =
            "`tagging` has a label per token: its tokens are the items of lists, or what stands between blanks";
        return Err(("tokens", message.to_owned()));
    }
    match TokenCut::NAMED.iter().find(|(name, _)| *name == tokens) {
        Some((_, cut)) => Ok(Cutting::By(*cut)),
        None if tokens.ends_with(".json") => Ok(Cutting::File(tokens.to_owned())),
        None => {
            let names: Vec<&str> = TokenCut::NAMED.iter().map(|(name, _)| *name).collect();
            let message =
                format!("`{tokens}` is no way to make tokens (known: {}, or a tokenizer.json)", names.join(", "));
            Err(("tokens", message))
        }
    }
}

/// The files of an experiment, by split.
pub(crate) fn files(settings: &TaskSettings) -> Option<&BTreeMap<String, String>> {
    match &settings.data {
        Some(DataSource::Files(files)) => Some(files),
        _ => None,
    }
}

/// Refuses an experiment whose task on files can't be read, and one of another task that has fields of these.
pub(super) fn check(settings: &TaskSettings) -> Option<Result<(), BrokenTaskRule>> {
    let Some(plan) = TaskPlan::of(settings) else {
        if let Some(DataSource::Program(_)) = &settings.data {
            return Some(Err(("data", format!("a program makes rows of your own: {}", names()))));
        }
        return foreign(settings)
            .map(|field| Err((field, format!("`{field}` belongs to tasks on files of your own: {}", names()))));
    };
    let data = || {
        let plan = plan?;
        if let Some(DataSource::Program(program)) = &settings.data {
            return check_program(&plan, &program.command, settings);
        }
        let files = files(settings).ok_or_else(|| {
            (
                "data",
                format!(
                    "`{}` needs a file per split, as `data: {{ train: a.csv, dev: 10%, test: b.csv }}`",
                    settings.name
                ),
            )
        })?;
        if !files.contains_key(TRAIN) {
            return Err((
                "data",
                format!("`data` names no file for `{TRAIN}`, from which vocabulary and classes are learned"),
            ));
        }
        match files.iter().find(|(_, file)| *file == GENERATED) {
            Some((split, _)) => {
                Err(("data", format!("`{}` generates nothing: name a file for `{split}`", settings.name)))
            }
            None => Ok(()),
        }
    };
    Some(data())
}

/// Refuses a program that can't be asked for rows.
fn check_program(plan: &TaskPlan, command: &[String], settings: &TaskSettings) -> Result<(), BrokenTaskRule> {
    if plan.kind.reads_windows() {
        let message = format!("a program makes rows, and `{}` reads texts: write them into a file", plan.kind.name());
        return Err(("data", message));
    }
    if command.first().is_none_or(String::is_empty) {
        return Err(("data", "`command` is empty: name a program and its arguments, as `[python, gen.py]`".to_owned()));
    }
    if settings.format.is_some() {
        return Err(("format", "a program prints JSON lines, so there is no `format`".to_owned()));
    }
    if !settings.sizes.contains_key(TRAIN) {
        let message =
            "a program is told how many rows to make: say so for every split, as `sizes: { train: 1000, dev: 100 }`";
        return Err(("sizes", message.to_owned()));
    }
    Ok(())
}

fn names() -> String {
    NAMES.map(|(name, _)| format!("`{name}`")).join(", ")
}

/// How the text of the files is written.
fn form(settings: &TaskSettings) -> Result<TextForm, BrokenTaskRule> {
    let TaskSettings { quotes, delimiter, encoding, class_names, .. } = settings;
    let delimiter = delimiter.as_deref().map(files::delimiter).transpose().map_err(|why| ("delimiter", why))?;
    let encoding = encoding.as_deref().map(files::encoding).transpose().map_err(|why| ("encoding", why))?;
    let (quotes, class_names) = (quotes.unwrap_or_default(), class_names.unwrap_or_default());
    Ok(TextForm {
        quotes: quotes == Quotes::Around,
        delimiter,
        encoding: encoding.flatten(),
        class_names: class_names == ClassNames::File,
        decimal_comma: false,
    })
}

/// A field that only tasks on files have, if it is there.
fn foreign(settings: &TaskSettings) -> Option<&'static str> {
    let TaskSettings { input, label, answer, separator, tokens, length, vocabulary, format, quotes, given, .. } =
        settings;
    let TaskSettings {
        delimiter, encoding, decimal, unlabelled, class_names, share, stratify, begin, documents, ..
    } = settings;
    let fields = [
        ("input", input.is_some()),
        ("label", label.is_some()),
        ("answer", answer.is_some()),
        ("separator", separator.is_some()),
        ("tokens", tokens.is_some()),
        ("length", length.is_some()),
        ("vocabulary", vocabulary.is_some()),
        ("format", format.is_some()),
        ("quotes", quotes.is_some()),
        ("delimiter", delimiter.is_some()),
        ("encoding", encoding.is_some()),
        ("decimal", decimal.is_some()),
        ("unlabelled", unlabelled.is_some()),
        ("class_names", class_names.is_some()),
        ("given", given.is_some()),
        ("share", share.is_some()),
        ("stratify", *stratify),
        ("begin", begin.is_some()),
        ("documents", documents.is_some()),
    ];
    fields.into_iter().find(|(_, there)| *there).map(|(field, _)| field)
}
