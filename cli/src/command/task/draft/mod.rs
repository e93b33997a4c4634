//! The draft of an experiment for an unknown data file: which columns are the input and the label, and why.

mod attempt;
mod choose;
mod kind;
mod names;
mod text;

use clap::{Args, ValueEnum};
use rtc_task::{FileLook, Format, TextForm, delimiter, encoding};

use crate::choice::choice;
use choose::Chooser;

pub(super) use attempt::{Attempt, attempt};
pub(super) use kind::Kind;

/// Options of the command that describe the file.
#[derive(Args)]
pub(super) struct Wishes {
    /// For a data file: the task of the experiment [default: by the columns]
    #[arg(long, value_enum)]
    pub(super) task: Option<TaskArg>,
    /// For a data file: a column of the input; several times for several [default: by names and values]
    #[arg(long, value_name = "COLUMN")]
    pub(super) input: Vec<String>,
    /// For a data file: the column of the label [default: by names and values]
    #[arg(long, value_name = "COLUMN")]
    pub(super) label: Option<String>,
    /// For a data file: what the label is [default: by its values]
    #[arg(long, value_enum)]
    pub(super) answer: Option<AnswerArg>,
    /// For a data file: how it is written [default: by the ending of its name]
    #[arg(long, value_enum)]
    pub(super) format: Option<FileFormatArg>,
    /// For a .csv or .tsv file: whether `"` stands around cells [default: around]
    #[arg(long, value_enum)]
    pub(super) quotes: Option<QuotesArg>,
    /// For a .csv or .tsv file: the character between cells, as `;` [default: by the name and the first rows]
    #[arg(long, value_name = "CHARACTER", value_parser = |text: &str| delimiter(if text == "\\t" { "\t" } else { text }))]
    pub(super) delimiter: Option<u8>,
    /// For a file of text: its encoding, as `windows-1252` [default: UTF-8, or by its bytes]
    #[arg(long, value_name = "NAME", value_parser = |name: &str| Ok::<_, String>(TextForm { encoding: encoding(name)?, ..TextForm::default() }))]
    pub(super) encoding: Option<TextForm>,
    /// For a .csv or .tsv file: what stands before the fraction of a number [default: point, and comma where nothing else is possible]
    #[arg(long, value_enum)]
    pub(super) decimal: Option<DecimalArg>,
}

impl Wishes {
    /// Whether nothing is said.
    pub(super) fn are_none(&self) -> bool {
        let Self { task, input, label, answer, format, quotes, delimiter, encoding, decimal } = self;
        let columns = task.is_none() && input.is_empty() && label.is_none() && answer.is_none();
        let text = quotes.is_none() && delimiter.is_none() && encoding.is_none() && decimal.is_none();
        columns && format.is_none() && text
    }

    /// How the text of the file is written, as far as that is said.
    pub(super) fn form(&self) -> TextForm {
        let quotes = self.quotes != Some(QuotesArg::None);
        let encoding = self.encoding.and_then(|said| said.encoding);
        let decimal_comma = self.decimal == Some(DecimalArg::Comma);
        TextForm { quotes, delimiter: self.delimiter, encoding, decimal_comma, ..TextForm::default() }
    }
}

/// `--decimal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DecimalArg {
    /// `1234.5`
    Point,
    /// `1234,5`
    Comma,
}

/// `--task`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum TaskArg {
    /// A class, a number or several labels per row
    Table,
    /// A class per pair of texts
    Pairs,
    /// A class per token
    Tagging,
    /// A text for every text
    Sequences,
    /// The next token of a text
    Language,
}

impl TaskArg {
    /// The name in experiments.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Pairs => "pairs",
            Self::Tagging => "tagging",
            Self::Sequences => "sequences",
            Self::Language => "language",
        }
    }

    /// The built-in model to begin with.
    pub(super) fn model(self) -> &'static str {
        match self {
            Self::Table | Self::Pairs => "gut",
            Self::Tagging | Self::Sequences | Self::Language => "gut:causal",
        }
    }
}

/// `--answer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum AnswerArg {
    /// One class
    Class,
    /// A number
    Number,
    /// Any of some labels
    Labels,
}

impl AnswerArg {
    /// The name in experiments.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Class => "class",
            Self::Number => "number",
            Self::Labels => "labels",
        }
    }
}

choice! {
    /// `--format`.
    pub(super) enum FileFormatArg for Format {
        /// Cells with commas between them
        Csv,
        /// Cells with tabs between them
        Tsv,
        /// A JSON object per line, or a list of them
        Json,
        /// Apache Parquet
        Parquet,
        /// Text without columns
        Text,
    }
}

/// `--quotes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum QuotesArg {
    /// Around cells
    Around,
    /// A character like all others
    None,
}

/// What a file is taken for.
pub(super) struct Draft {
    pub(super) task: TaskArg,
    /// The columns of the input, by their places.
    pub(super) inputs: Vec<usize>,
    pub(super) label: Option<usize>,
    pub(super) answer: AnswerArg,
    pub(super) separator: Option<char>,
    /// Whether the numbers of the label have a decimal comma.
    pub(super) comma: bool,
    /// Whether rows without a label are left out.
    pub(super) skips: bool,
    /// Whether a share has the same part of every class.
    pub(super) stratify: bool,
    pub(super) tokens: &'static str,
    pub(super) length: Option<usize>,
    /// What to know besides.
    pub(super) notes: Vec<String>,
    /// Of every column, what it is in the experiment, and why.
    pub(super) columns: Vec<ColumnRole>,
    /// The experiment.
    pub(super) text: String,
}

impl Draft {
    /// Whether the label is a class, a number or several labels.
    pub(super) fn has_answer(&self) -> bool {
        self.label.is_some() && self.task != TaskArg::Sequences
    }
}

/// The role of a column in an experiment, and the reason.
#[derive(Clone, Debug)]
pub(super) struct ColumnRole {
    pub(super) role: &'static str,
    pub(super) why: String,
}

/// A question that only the user can answer: what is not sure, and the options that decide it.
pub(super) struct UserQuestion(pub(super) String);

/// Decides what the columns of a file are.
pub(super) fn draft(name: &str, found: &FileLook, wishes: &Wishes) -> Result<Draft, UserQuestion> {
    let mut draft = match found.format {
        Format::Text => choose::of_text(found, wishes)?,
        _ => Chooser::new(found, wishes).draft()?,
    };
    if let Some(encoding) = found.form.encoding.filter(|_| found.form.encoding != wishes.form().encoding) {
        let name = encoding.name();
        draft.notes.push(format!(
            "the file is no UTF-8: it is read as {name}, by its bytes; `--encoding` names another encoding"
        ));
    }
    draft.text = text::experiment(name, found, &draft);
    Ok(draft)
}
