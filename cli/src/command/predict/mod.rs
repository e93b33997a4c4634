//! `rtc predict`: what a trained model says about sequences.

mod answer;
mod output;
mod source;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use rtc_runtime::batching::collect;
use rtc_runtime::examine::trace;
use rtc_runtime::learner::LearnError;
use rtc_runtime::task::Example;

use crate::failure::{Exit, Failure, Outcome};
use crate::saved::{ModelOptions, Trained};
use crate::terminal::Terminal;
use crate::time::TimeLimit;
use crate::trees::trees;
use answer::{Answer, Explanation, answers};
use output::Output;
use source::{Line, Source};

const EXAMPLES: &str = "\
Examples:
  rtc predict runs/NAME '[MAX 2 9 [MIN 4 7 ] 0 ]'
  rtc predict runs/NAME < expressions.txt             one sequence per line
  rtc predict runs/NAME --input expressions.txt --output answers.csv      many at once, in their order
  rtc predict runs/NAME '[MAX 2 9 ]' --all            the probability and the logit of every class
  rtc predict runs/NAME '[MAX 2 9 ]' --top 3          the three most probable classes
  rtc task sample listops | cut -f2 | rtc predict runs/NAME --json
  rtc predict runs/NAME '1 0 + 1 1 > # # # # # #' --depth 2   a class for every token, after two steps
  rtc predict runs/NAME '( not a ) ||| ( a ( or b ) )'   both sides of a pair
  rtc predict runs/NAME '[MAX 2 9 ]' --show-halting   how it halts: what every state weighs in the output
  rtc predict runs/A '[MAX 2 9 ]' --weights runs/B/checkpoints/best/weights.safetensors   with other weights
  rtc predict runs/NAME '[MAX 2 9 ]' --trees      what its recursion joins with what
";

const COLUMNS: &str = "\
Every line of the result is: class, its probability, accepted steps of the halting recurrence, or of the loop with \
`go` or `until` (`-` without one), the sequence. Between the sides of a pair stands `|||` or a tab. With a class per token it is: one class for every token, \
the smallest of their probabilities, and the same. Of several labels it is: those that belong to the sequence with commas \
between, `-` for none, and the probability of the least sure yes or no. A number has `-` for its probability. With --json every line is one object. CSV has a row per sequence, or per token \
where each has a class.
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
    /// Read sequences from this file, one per line
    #[arg(long, value_name = "FILE", conflicts_with = "tokens")]
    input: Option<PathBuf>,
    /// Write the results to this file: `.jsonl` or `.csv`
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How results are written [default: by the name of `--output`, else text]
    #[arg(long, value_enum)]
    format: Option<Format>,
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
    /// Print as JSON, one object per line: `--format jsonl`
    #[arg(long, conflicts_with = "format")]
    json: bool,
    #[command(flatten)]
    pub(crate) time: TimeLimit,
}

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A line per sequence, for people
    Text,
    /// An object per sequence
    Jsonl,
    /// A row per sequence, or per token where each has a class
    Csv,
}

/// Which numbers of every class are given besides the answer.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    probabilities: bool,
    logits: bool,
    top: Option<usize>,
}

impl Options {
    /// Whether the arguments are the only sequence.
    fn is_single(&self) -> bool {
        self.input.is_none() && !self.tokens.is_empty()
    }

    fn wanted(&self) -> Wanted {
        let Self { probabilities, logits, all, .. } = *self;
        Wanted { probabilities: probabilities || all, logits: logits || all, top: self.top.map(|n| n as usize) }
    }

    /// How results are written.
    fn written(&self) -> Result<Format, Failure> {
        if self.json {
            return Ok(Format::Jsonl);
        }
        let named = |path: &PathBuf| match path.extension().and_then(|e| e.to_str()) {
            Some("jsonl" | "json" | "ndjson") => Ok(Format::Jsonl),
            Some("csv") => Ok(Format::Csv),
            _ => Err(Failure::Usage(format!(
                "{} does not say how it is to be written: name it `.jsonl` or `.csv`, or give `--format`",
                path.display()
            ))),
        };
        match (self.format, &self.output) {
            (Some(format), _) => Ok(format),
            (None, Some(path)) => named(path),
            (None, None) => Ok(Format::Text),
        }
    }
}

/// Predicts some sequences at once, and prints their results before the next are read.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> Outcome {
    let format = options.written()?;
    if format == Format::Csv && (options.show_halting || options.trees) {
        return Err(Failure::Usage(
            "halting and trees are no columns: leave out `--format csv`, or take `jsonl`".to_owned(),
        ));
    }
    let mut trained = Trained::open(&options.model)?;
    trained.say_where(terminal);
    let mut source = Source::open(&options.tokens, options.input.as_deref(), terminal)?;
    let mut output = Output::open(&trained, format, options.wanted(), options.output.as_deref(), terminal)?;
    let size = options.batch.map_or(if options.input.is_some() { BATCH } else { 1 }, |n| n as usize);
    loop {
        let (lines, read) = source.some(size);
        for answer in predict(&mut trained, &lines, &source, options)? {
            output.write(&answer)?;
        }
        // What came before a line that can't be read is answered.
        read?;
        if source.ended || options.is_single() || terminal.is_deserted() {
            break;
        }
    }
    output.finish()?;
    Ok(Exit::Done)
}

/// What the model says of some lines, in their order.
fn predict(trained: &mut Trained, lines: &[Line], source: &Source, options: &Options) -> Result<Vec<Answer>, Failure> {
    let example = |line: &Line| trained.example(&line.text).map_err(|why| source.refused(line.number, why));
    let (texts, examples): (Vec<String>, Vec<Example>) =
        lines.iter().map(example).collect::<Result<Vec<_>, Failure>>()?.into_iter().unzip();
    if examples.is_empty() {
        return Ok(vec![]);
    }
    let all: Vec<&Example> = examples.iter().collect();
    let width = all.iter().map(|example| example.length()).max().unwrap_or(0);
    let found = trained.model.answers(&collect(&all, width)).map_err(|error| match error {
        LearnError::Batch(why) => source.refused(lines[0].number, why),
        other => other.into(),
    })?;
    let mut answers = answers(texts, &examples, &found);
    if options.show_halting || options.trees {
        for (answer, example) in answers.iter_mut().zip(&examples) {
            let traced = trace(&mut *trained.model, example)?;
            let trees = if options.trees { trees(trained, example, &traced.trees) } else { vec![] };
            let units = if options.show_halting { traced.units } else { vec![] };
            answer.explanation =
                Explanation { halting: options.show_halting.then_some(units), trees: options.trees.then_some(trees) };
        }
    }
    Ok(answers)
}
