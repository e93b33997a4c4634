//! `rtc generate`: a trained model of next tokens writes on.

use std::io::IsTerminal;
use std::time::Instant;

use crate::limits;
use clap::Args;
use rtc_base::rng::Key;
use rtc_session::failure::SessionFailure;
use rtc_session::saved::TrainedModel;
use rtc_session::text::count;
use rtc_train::generate::{GenerationRow, Generator, Sampling, TextPieces, Writing, writes_next_tokens};
use serde_json::{Value, json};

use crate::exit::{CommandResult, Exit};
use crate::lines::InputLines;
use crate::options::ModelOptions;
use crate::terminal::Terminal;

const EXAMPLES: &str = "\
Examples:
  rtc generate runs/NAME 'ROMEO:'                    200 more tokens, as they come
  rtc generate runs/NAME 'ROMEO:' --length 50 --temperature 0     the most probable ones
  rtc generate runs/NAME 'ROMEO:' --top-k 20 --top-p 0.9 --seed 7 --count 3
  rtc generate runs/NAME 'ROMEO:' --stop '⏎⏎'        up to an empty line
  rtc generate runs/NAME --json < prompts.txt        a prompt per line, an object per continuation
  rtc generate runs/NAME 'an input' --temperature 0  the most probable target of a model of `sequences`
";

const NOTES: &str = "\
The model must be one whose answers are next tokens: `readout each` on a task such as `characters`. A token costs the work of one \
position, because keys and values of the earlier ones are kept; where a model has to compute the whole row again, `way` in the \
output of --json says so, and why. The same seed gives the same text. A model of `sequences` writes the target of an input, up to its \
end and without the input.
";

/// Arguments of `rtc generate`.
#[derive(Args)]
#[command(before_help = EXAMPLES, after_help = NOTES)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) model: ModelOptions,
    /// Texts to go on from; without any, every line of standard input is one
    prompts: Vec<String>,
    /// Tokens to write at most
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=limits::GENERATED))]
    length: u32,
    /// Divides the logits: below 1 the probable tokens are written more often, 0 writes the most probable one
    #[arg(long, value_name = "T", default_value_t = 1.0, value_parser = temperature, allow_negative_numbers = true)]
    temperature: f64,
    /// Write only from the K most probable tokens
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    top_k: Option<u32>,
    /// Write only from the most probable tokens whose probabilities sum to P
    #[arg(long, value_name = "P", value_parser = share)]
    top_p: Option<f64>,
    /// What the draws follow from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// End before this text is written; may be given several times
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Continuations of every prompt
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// Compute the whole row again for every token: the same text, slower
    #[arg(long)]
    whole_row: bool,
    /// Print as JSON, one object per continuation
    #[arg(long)]
    json: bool,
}

fn temperature(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|t: &f64| t.is_finite() && *t >= 0.0);
    found.ok_or_else(|| "a temperature is a number from 0 on".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|p: &f64| *p > 0.0 && *p <= 1.0);
    found.ok_or_else(|| "a probability is a number above 0 and up to 1".to_owned())
}

/// Writes one continuation after the other.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> CommandResult {
    let mut trained = TrainedModel::open(&options.model.choice())?;
    writes(&trained)?;
    let generator = trained.model.generator().with_documents(&*trained.task);
    let mut writer = ContinuationWriter::new(&trained, generator, options, terminal);
    if !options.prompts.is_empty() {
        for (n, prompt) in options.prompts.iter().enumerate() {
            writer.prompt(n, prompt, ("arguments", None))?;
        }
        return writer.finish();
    }
    if std::io::stdin().is_terminal() {
        terminal.message("reading prompts from standard input, one per line");
    }
    let mut lines = InputLines::of_stdin();
    while let Some(line) = lines.next()? {
        if !line.text.is_empty() && !terminal.is_deserted() {
            writer.prompt(line.number - 1, &line.text, (&lines.name, Some(line.number)))?;
        }
    }
    writer.finish()
}

/// Writes continuations.
struct ContinuationWriter<'a> {
    trained: &'a TrainedModel,
    options: &'a Options,
    terminal: &'a Terminal,
    generator: Generator<f32>,
    sampling: Sampling,
    /// Continuations and tokens so far.
    continuations: usize,
    tokens: usize,
    started: Instant,
}

/// The reason why a continuation ended.
enum EndReason {
    Length,
    Stop,
    /// The end of an answer.
    Answer,
}

impl<'a> ContinuationWriter<'a> {
    fn new(
        trained: &'a TrainedModel,
        mut generator: Generator<f32>,
        options: &'a Options,
        terminal: &'a Terminal,
    ) -> Self {
        if options.whole_row {
            generator.recompute();
        }
        let top_k = options.top_k.map(|k| k as usize);
        let sampling = Sampling { temperature: options.temperature, top_k, top_p: options.top_p };
        let started = Instant::now();
        Self { trained, options, terminal, generator, sampling, continuations: 0, tokens: 0, started }
    }

    /// All continuations of one prompt.
    fn prompt(&mut self, n: usize, prompt: &str, (file, line): (&str, Option<usize>)) -> Result<(), SessionFailure> {
        let refused = |message: String| SessionFailure::data(file, line, message);
        let tokens = self.trained.task.encode(prompt, &self.trained.options).map_err(refused)?;
        if tokens.is_empty() {
            return Err(refused("the prompt is empty: give at least one token to go on from".to_owned()));
        }
        self.fits(tokens.len()).map_err(refused)?;
        let cut = self.trained.task.cut(prompt).map_err(refused)?;
        if cut > 0 {
            self.terminal
                .message(&format!("note: {} of `{prompt}` cut to the length of the task", count(cut, "token")));
        }
        let mut row = self.generator.begin();
        let logits = self.generator.read(&mut row, &tokens)?;
        for sample in 0..self.options.count {
            let key = Key::new(self.options.seed).stream("generate").at(n as u64).at(u64::from(sample));
            self.continuation(prompt, row.clone(), logits.clone(), key)?;
        }
        Ok(())
    }

    /// Whether the model has learned enough positions.
    fn fits(&self, prompt: usize) -> Result<(), String> {
        let Some(known) = self.generator.positions() else { return Ok(()) };
        // The last token is written and not read.
        let (length, room) = (self.options.length as usize, (known + 1).saturating_sub(prompt));
        match room {
            0 => Err(format!("the prompt has {prompt} tokens, and the model has learned {known} positions")),
            room if length > room => Err(format!(
                "the model has learned {known} positions: after a prompt of {prompt} it can write {room} tokens, `--length {room}`"
            )),
            _ => Ok(()),
        }
    }

    fn continuation(
        &mut self,
        prompt: &str,
        mut row: GenerationRow<f32>,
        mut logits: Vec<f64>,
        key: Key,
    ) -> Result<(), SessionFailure> {
        let stops: Vec<String> = self.options.stop.iter().map(|stop| self.stop(stop)).collect();
        let answer = self.trained.task.written_answer();
        // An answer is a text of its own.
        let before = if answer.is_some() { &[] } else { row.tokens() };
        let (mut pieces, mut writing) = (TextPieces::behind(before), Writing::until(&stops));
        let mut written = vec![];
        self.begin(prompt)?;
        let end = loop {
            let token = self.sampling.choose(&logits, key.uniform(written.len() as u64));
            written.push(token);
            if answer.is_some_and(|answer| answer.end == token) {
                break EndReason::Answer;
            }
            self.show(writing.push(&pieces.push(token, |tokens| self.written(tokens))))?;
            if writing.is_stopped() {
                break EndReason::Stop;
            }
            if written.len() == self.options.length as usize || self.terminal.is_deserted() {
                break EndReason::Length;
            }
            logits = self.generator.read(&mut row, &[token])?;
        };
        self.show(writing.push(&pieces.rest(|tokens| self.written(tokens))))?;
        self.show(writing.finish())?;
        self.tokens += written.len();
        self.continuations += 1;
        if !self.options.json {
            return self.terminal.result("\n");
        }
        let object = self.object(prompt, writing.text(), &written, &end);
        self.terminal.result(&format!("{object}\n"))
    }

    /// A continuation for programs.
    fn object(&self, prompt: &str, text: &str, written: &[u32], end: &EndReason) -> Value {
        let mut object = json!({
            "prompt": prompt,
            "text": text,
            "tokens": self.trained.names(written),
            "end": match end { EndReason::Length => "length", EndReason::Stop => "stop", EndReason::Answer => "answer" },
            "way": if self.generator.recomputes().is_some() { "whole row" } else { "incremental" },
        });
        if let Some(why) = self.generator.recomputes() {
            object["why"] = why.into();
        }
        object
    }

    /// The prompt stands before its continuation, and not before an answer; an empty line between two of them.
    fn begin(&self, prompt: &str) -> Result<(), SessionFailure> {
        let space = if self.continuations > 0 { "\n" } else { "" };
        let prompt = if self.trained.task.written_answer().is_some() { "" } else { prompt };
        self.show(&format!("{space}{prompt}"))
    }

    /// Prints a part of a text, unless it comes as an object when it is complete.
    fn show(&self, text: &str) -> Result<(), SessionFailure> {
        if text.is_empty() || self.options.json { Ok(()) } else { self.terminal.result(text) }
    }

    fn written(&self, tokens: &[u32]) -> String {
        self.trained.task.written(tokens, &self.trained.options)
    }

    /// A stop as it will stand in the text, where it is written as a prompt is: with `⏎` or `\n` for the end of a line.
    fn stop(&self, stop: &str) -> String {
        let (task, options) = (&self.trained.task, &self.trained.options);
        let tokens = task.encode(stop, options).unwrap_or_default();
        let tokens = &tokens[usize::from(task.begin().is_some()).min(tokens.len())..];
        if task.decode(tokens, options) == stop { self.written(tokens) } else { stop.to_owned() }
    }

    fn finish(self) -> CommandResult {
        let seconds = self.started.elapsed().as_secs_f64();
        if self.tokens > 0 {
            let rate = self.tokens as f64 / seconds.max(1e-9);
            self.terminal.message(&format!("{} tokens, {rate:.0} per second", self.tokens));
        }
        if let Some(why) = self.generator.recomputes().filter(|_| !self.options.whole_row) {
            self.terminal.message(&format!("the whole row was computed again for every token: {why}"));
        }
        Ok(Exit::Done)
    }
}

/// Whether a model answers with the tokens that come next.
fn writes(trained: &TrainedModel) -> Result<(), SessionFailure> {
    let (task, options) = (&trained.task, &trained.options);
    if !writes_next_tokens(&**task, options) {
        return Err(SessionFailure::Usage(format!(
            "`rtc generate` is for models that answer with the next token; the answers of {} on {} are others: `rtc predict` \
             gives them",
            trained.name,
            task.name()
        )));
    }
    if trained.on_device {
        return Err(SessionFailure::Usage("`rtc generate` computes on the processor: leave out `--device`".to_owned()));
    }
    Ok(())
}
