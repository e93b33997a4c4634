//! `rtc predict`: what a trained model says about sequences.

mod answer;
mod frames;
mod notes;
mod output;
mod source;
mod written;

use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use rtc_exec::learner::LearnError;
use rtc_session::failure::SessionFailure;
use rtc_session::saved::TrainedModel;
use rtc_task::batching::collect;
use rtc_task::{AskedRow, Example, Format};
use rtc_train::examine::trace;

use crate::attention::named;
use crate::exit::{CommandResult, Exit};
use crate::options::ModelOptions;
use crate::terminal::Terminal;
use crate::time::TimeLimit;
use crate::trees::trees;
use answer::{SequenceAnswer, answers};
use notes::Notes;
use output::Output;
use source::RowSource;

const EXAMPLES: &str = "\
Examples:
  rtc predict runs/NAME '[MAX 2 9 [MIN 4 7 ] 0 ]'
  rtc predict runs/NAME < expressions.txt             one sequence per line
  rtc predict runs/NAME --input expressions.txt --output answers.csv      many at once, in their order
  rtc predict runs/NAME --input reviews.csv       the rows of a data file, by the columns of the task
  rtc predict runs/NAME --input-format csv < reviews.csv                  the same of standard input
  rtc predict runs/NAME --input letter.txt --input-format text            a whole file as one text
  rtc predict runs/NAME '[MAX 2 9 ]' --all            the probability and the logit of every class
  rtc predict runs/NAME '[MAX 2 9 ]' --top 3          the three most probable classes
  rtc task sample listops | cut -f2 | rtc predict runs/NAME --json
  rtc predict runs/NAME '1 0 + 1 1 > # # # # # #' --depth 2   a class for every token, after two steps
  rtc predict runs/NAME '( not a ) ||| ( a ( or b ) )'   both sides of a pair
  rtc predict runs/NAME '[MAX 2 9 ]' --show-halting   how it halts: what every state weighs in the output
  rtc predict runs/A '[MAX 2 9 ]' --weights runs/B/checkpoints/best/weights.safetensors   with other weights
  rtc predict runs/NAME '[MAX 2 9 ]' --trees      what its recursion joins with what
  rtc predict runs/NAME '[MAX 2 9 ]' --attention --json           the weights of every head
";

const COLUMNS: &str = "\
Every line of the result is: class, its probability, accepted steps of the halting recurrence, or of the loop with \
`go` or `until` (`-` without one), the sequence. Between the sides of a pair stands `|||` or a tab. With a class per token it is: one class for every token, \
the smallest of their probabilities, and the same. Of several labels it is: those that belong to the sequence with commas \
between, `-` for none, and the probability of the least sure yes or no. A number has `-` for its probability. With --json every line is one object. CSV has a row per sequence, or per token \
where each has a class. Where a file has labels, JSON and CSV have them, too, as `label`; JSON has the number of unknown tokens as \
`unknown`, and of those that were cut off as `cut`. A model of `sequences` writes a target: the line has the target in place of the \
class, JSON has it as `target`, and CSV has a row per sequence.
";

/// Sequences of a file that are computed at once.
const BATCH: usize = 32;

/// Arguments of `rtc predict`.
#[derive(Args)]
#[command(before_help = EXAMPLES, after_help = COLUMNS)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) model: ModelOptions,
    /// The tokens of one sequence, or of a pair as `left ||| right`; without any, every line of standard input is a sequence
    tokens: Vec<String>,
    /// Read this file: rows of .csv, .tsv, .jsonl, .parquet by the columns of the task, else a sequence per line
    #[arg(long, value_name = "FILE", conflicts_with = "tokens")]
    input: Option<PathBuf>,
    /// How the input is written [default: by the name of `--input`, else a sequence or JSON object per line]
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with = "tokens")]
    input_format: Option<InputFormat>,
    /// Write the results to this file: `.jsonl` or `.csv`
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How results are written [default: by the name of `--output`, else text]
    #[arg(long, value_enum)]
    format: Option<PredictionFormat>,
    /// Sequences that are computed at once; changes speed alone [default: 32 with `--input`, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    batch: Option<u32>,
    /// Give the probability of every class
    #[arg(long)]
    probabilities: bool,
    /// Give the logit of every class
    #[arg(long)]
    logits: bool,
    /// Give both
    #[arg(long)]
    all: bool,
    /// Give the N most probable classes with their probabilities
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
    /// Say how the model halts: below every result a line per halting unit with the weights of its states H0, H1, ...
    #[arg(long)]
    show_halting: bool,
    /// Say which trees its recursion makes: below every result a line per tree with what it weighs, its score, and brackets
    #[arg(long)]
    trees: bool,
    /// Say where attention looks: below every result a line per query and head with the heaviest keys; JSON has all weights
    #[arg(long)]
    attention: bool,
    /// Print as JSON, one object per line: `--format jsonl`
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Serve a program: batches as frames of bytes on standard input, logits as frames on standard output
    #[arg(long, conflicts_with_all = [
        "tokens", "input", "input_format", "output", "format", "batch", "probabilities", "logits", "all", "top", "show_halting", "trees",
        "attention", "json",
    ])]
    frames: bool,
    #[command(flatten)]
    pub(crate) time: TimeLimit,
}

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PredictionFormat {
    /// A line per sequence, for people
    Text,
    /// An object per sequence
    Jsonl,
    /// A row per sequence, or per token where each has a class
    Csv,
}

/// `--input-format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputFormat {
    /// A sequence per line, whatever it looks like.
    Lines,
    /// The whole input is one text.
    Text,
    /// Rows of columns.
    Rows(Format),
}

impl ValueEnum for InputFormat {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [InputFormat; 6] = [
            InputFormat::Lines,
            InputFormat::Text,
            InputFormat::Rows(Format::Csv),
            InputFormat::Rows(Format::Tsv),
            InputFormat::Rows(Format::Json),
            InputFormat::Rows(Format::Parquet),
        ];
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            Self::Lines => ("lines", "A sequence per line"),
            Self::Text => ("text", "The whole input is one text"),
            Self::Rows(Format::Csv) => ("csv", "Rows with commas between cells"),
            Self::Rows(Format::Tsv) => ("tsv", "Rows with tabs between cells"),
            Self::Rows(Format::Json) => ("json", "A JSON object per line"),
            Self::Rows(Format::Parquet) => ("parquet", "Apache Parquet"),
            Self::Rows(Format::Text) => return None,
        };
        Some(PossibleValue::new(name).help(help))
    }
}

/// Numbers of every class that are given besides the answer.
#[derive(Clone, Copy, Debug)]
struct ClassNumbers {
    probabilities: bool,
    logits: bool,
    top: Option<usize>,
}

impl Options {
    /// Whether the arguments are the only sequence.
    fn is_single(&self) -> bool {
        self.input.is_none() && !self.tokens.is_empty()
    }

    /// Whether they ask how the model comes to its answers.
    fn explains(&self) -> bool {
        self.show_halting || self.trees || self.attention
    }

    fn wanted(&self) -> ClassNumbers {
        let Self { probabilities, logits, all, .. } = *self;
        ClassNumbers { probabilities: probabilities || all, logits: logits || all, top: self.top.map(|n| n as usize) }
    }

    /// How results are written.
    fn written(&self) -> Result<PredictionFormat, SessionFailure> {
        if self.json {
            return Ok(PredictionFormat::Jsonl);
        }
        let named = |path: &PathBuf| match path.extension().and_then(|e| e.to_str()) {
            Some("jsonl" | "json" | "ndjson") => Ok(PredictionFormat::Jsonl),
            Some("csv") => Ok(PredictionFormat::Csv),
            _ => Err(SessionFailure::Usage(format!(
                "{} does not say how it is to be written: name it `.jsonl` or `.csv`, or give `--format`",
                path.display()
            ))),
        };
        match (self.format, &self.output) {
            (Some(format), _) => Ok(format),
            (None, Some(path)) => named(path),
            (None, None) => Ok(PredictionFormat::Text),
        }
    }
}

/// Predicts some sequences at once, and prints their results before the next are read.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> CommandResult {
    let format = options.written()?;
    if format == PredictionFormat::Csv && options.explains() {
        return Err(SessionFailure::Usage(
            "halting, trees and attention are no columns: leave out `--format csv`, or take `jsonl`".to_owned(),
        ));
    }
    let mut trained = TrainedModel::open(&options.model.choice())?;
    written::refuse(&trained, options, format)?;
    trained.remarks().iter().for_each(|remark| terminal.message(remark));
    if options.frames {
        return frames::serve(&mut trained, terminal);
    }
    let mut source = if options.is_single() {
        RowSource::of_arguments(&options.tokens)
    } else {
        RowSource::open(&trained, options.input.as_deref(), options.input_format, terminal)?
    };
    let mut output = Output::open(&trained, format, options, terminal)?;
    let size = options.batch.map_or(if options.input.is_some() { BATCH } else { 1 }, |n| n as usize);
    let mut notes = Notes::new(format == PredictionFormat::Text && options.output.is_none());
    loop {
        let (rows, read) = source.some(size, &trained);
        for answer in predict(&mut trained, &rows, &source, options)? {
            notes.see(&answer, terminal);
            output.write(&answer)?;
        }
        // What came before a row that can't be read is answered.
        read?;
        if source.ended || options.is_single() || terminal.is_deserted() {
            break;
        }
    }
    output.finish()?;
    notes.finish(terminal);
    Ok(Exit::Done)
}

/// Returns the answers of the model for rows, in their order.
fn predict(
    trained: &mut TrainedModel,
    rows: &[AskedRow],
    source: &RowSource,
    options: &Options,
) -> Result<Vec<SequenceAnswer>, SessionFailure> {
    if rows.is_empty() {
        return Ok(vec![]);
    }
    if trained.task.written_answer().is_some() {
        return written::answers(trained, rows, source, options.wanted());
    }
    let all: Vec<&Example> = rows.iter().map(|row| &row.example).collect();
    let width = all.iter().map(|example| example.length()).max().unwrap_or(0);
    let found = trained.model.answers(&collect(&all, width)).map_err(|error| match error {
        LearnError::Batch(why) => source.refused(rows[0].line, why),
        other => other.into(),
    })?;
    let mut answers = answers(rows, trained.task.unknown(), &found);
    if options.attention {
        for (answer, row) in answers.iter_mut().zip(rows) {
            answer.explanation.attention = Some(named(trained, &row.example)?);
        }
    }
    if options.show_halting || options.trees {
        for (answer, row) in answers.iter_mut().zip(rows) {
            let traced = trace(&mut *trained.model, &row.example)?;
            let trees = if options.trees { trees(trained, &row.example, &traced.trees) } else { vec![] };
            let units = if options.show_halting { traced.units } else { vec![] };
            answer.explanation.halting = options.show_halting.then_some(units);
            answer.explanation.trees = options.trees.then_some(trees);
        }
    }
    Ok(answers)
}
