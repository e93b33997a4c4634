//! `rtc predict --frames`: a program asks batch after batch, in frames of bytes. docs/command.md describes them.

use std::io::{self, BufRead, Read, stdin};
use std::path::Path;

use rtc_exec::learner::LearnError;
use rtc_session::failure::SessionFailure;
use rtc_session::saved::TrainedModel;
use rtc_task::batching::pack;
use rtc_task::sequence::{example_of, sides};
use rtc_task::{AskedRow, Example, Objective};
use serde_json::json;

use super::answer::{SequenceAnswer, answers};
use crate::command::export;
use crate::exit::{CommandResult, Exit};
use crate::limits;
use crate::terminal::Terminal;

/// The name of the input in messages.
const INPUT: &str = "standard input";

/// Bytes of a head: the kind of a frame, and the bytes behind the head.
const HEAD: usize = 12;

/// Kinds of frames that are written.
const READY: u32 = 0;
const LOGITS: u32 = 1;
const FAILURE: u32 = 2;

/// A batch as it was asked for.
enum FrameRows {
    /// Token ids, kind 0.
    Tokens,
    /// Texts, kind 1.
    Texts,
    /// JSON objects, kind 2.
    Objects,
}

/// Answers batches until the input ends. A batch that the model can't be given is answered by the failure.
pub(super) fn serve(trained: &mut TrainedModel, terminal: &Terminal) -> CommandResult {
    let (classes, vocabulary) = (trained.task.classes(&trained.options), trained.task.vocabulary(&trained.options));
    let kind = export::answers(trained.task.objective());
    let (vocabulary, bytes) = (vocabulary.len(), limits::PREDICTED);
    let ready = json!({ "answers": kind, "classes": classes, "vocabulary": vocabulary, "bytes": bytes });
    write(READY, ready.to_string().as_bytes(), terminal)?;
    let mut input = stdin().lock();
    while !terminal.is_deserted() {
        let request = match read(&mut input) {
            Ok(request) => request,
            // Where the next frame begins is not known.
            Err(failure) => {
                fail(&failure, terminal)?;
                return Err(failure);
            }
        };
        let Some((kind, payload)) = request else { break };
        let found = rows(trained, &kind, &payload).map_err(|why| SessionFailure::data("batch", None, why));
        match found.and_then(|rows| answered(trained, &rows)) {
            Ok(found) => write(LOGITS, &logits(trained, &found), terminal)?,
            Err(failure) => fail(&failure, terminal)?,
        }
    }
    Ok(Exit::Done)
}

/// Writes a frame.
fn write(kind: u32, payload: &[u8], terminal: &Terminal) -> Result<(), SessionFailure> {
    let head = [&kind.to_le_bytes()[..], &(payload.len() as u64).to_le_bytes()].concat();
    terminal.bytes(&[&head[..], payload].concat())
}

/// Writes a failure: its exit code, and what a command would say.
fn fail(failure: &SessionFailure, terminal: &Terminal) -> Result<(), SessionFailure> {
    let payload = [&u32::from(failure.code()).to_le_bytes()[..], failure.to_string().as_bytes()].concat();
    write(FAILURE, &payload, terminal)
}

/// Reads a frame; nothing where the input ends.
fn read(input: &mut impl BufRead) -> Result<Option<(FrameRows, Vec<u8>)>, SessionFailure> {
    let failed = |error| SessionFailure::io("read", Path::new(INPUT), error);
    if input.fill_buf().map_err(failed)?.is_empty() {
        return Ok(None);
    }
    let mut head = [0; HEAD];
    input.read_exact(&mut head).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => cut_off(),
        _ => failed(error),
    })?;
    let [kind, low, high] = [0, 4, 8].map(|at| u32::from_le_bytes([0, 1, 2, 3].map(|n| head[at + n])));
    let length = u64::from(high) << 32 | u64::from(low);
    let kind = match kind {
        0 => FrameRows::Tokens,
        1 => FrameRows::Texts,
        2 => FrameRows::Objects,
        other => return Err(refused(format!("a frame must be of kind 0, 1 or 2: got {other}"))),
    };
    let most = limits::PREDICTED as u64;
    if length > most {
        return Err(refused(format!("a frame must have at most {most} bytes: got {length}; send fewer rows at once")));
    }
    let mut payload = vec![];
    input.take(length).read_to_end(&mut payload).map_err(failed)?;
    if (payload.len() as u64) < length {
        return Err(cut_off());
    }
    Ok(Some((kind, payload)))
}

fn refused(why: String) -> SessionFailure {
    SessionFailure::data(INPUT, None, why)
}

fn cut_off() -> SessionFailure {
    refused("the last frame is cut off".to_owned())
}

/// The rest of a payload.
struct Payload<'a>(&'a [u8]);

impl<'a> Payload<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], String> {
        let left = self.0.len();
        let (bytes, rest) =
            self.0.split_at_checked(count).ok_or_else(|| format!("{count} more bytes must follow: got {left}"))?;
        self.0 = rest;
        Ok(bytes)
    }

    fn numbers(&mut self, count: usize) -> Result<Vec<u32>, String> {
        let bytes = self.bytes(count.saturating_mul(4))?;
        Ok(bytes.as_chunks().0.iter().map(|number| u32::from_le_bytes(*number)).collect())
    }
}

/// The rows of a batch: their number, the length of each, and their content one after the other.
fn rows(trained: &TrainedModel, kind: &FrameRows, payload: &[u8]) -> Result<Vec<AskedRow>, String> {
    let mut payload = Payload(payload);
    let count = payload.numbers(1)?[0] as usize;
    let lengths = payload.numbers(count)?;
    if let Some(empty) = lengths.iter().position(|length| *length == 0) {
        return Err(format!("row {} is empty", empty + 1));
    }
    let lengths = lengths.iter().map(|length| *length as usize);
    let rows = match kind {
        FrameRows::Tokens => {
            of_tokens(trained, lengths.map(|length| payload.numbers(length)).collect::<Result<_, _>>()?)?
        }
        FrameRows::Texts | FrameRows::Objects => {
            let one =
                |(n, length)| of_text(trained, kind, payload.bytes(length)?).map_err(|why| format!("row {n}: {why}"));
            (1..).zip(lengths).map(one).collect::<Result<_, String>>()?
        }
    };
    match payload.0.len() {
        _ if rows.is_empty() => Err("a batch must have a row".to_owned()),
        0 => Ok(rows),
        more => Err(format!("{more} bytes follow the last row")),
    }
}

/// The row of a text, or of a JSON object.
fn of_text(trained: &TrainedModel, kind: &FrameRows, bytes: &[u8]) -> Result<AskedRow, String> {
    let text = str::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
    match kind {
        FrameRows::Objects => trained.asked(text, true),
        _ => {
            // The end of a side is none of its characters.
            let lines: Vec<String> = sides(&*trained.task, text).map(|side| trained.task.on_one_line(side)).collect();
            trained.asked(&lines.join("\t"), false)
        }
    }
}

/// Rows of token ids; of pairs the first sides come before all second sides.
fn of_tokens(trained: &TrainedModel, mut tokens: Vec<Vec<u32>>) -> Result<Vec<AskedRow>, String> {
    if trained.takes_values() {
        return Err("the model takes values from its rows: send JSON objects instead of token ids".to_owned());
    }
    let seconds = if trained.task.objective() == Objective::Pair {
        if tokens.len() % 2 == 1 {
            return Err(format!("pairs must have as many second sides as first ones: got {} rows", tokens.len()));
        }
        tokens.split_off(tokens.len() / 2).into_iter().map(Some).collect()
    } else {
        vec![None; tokens.len()]
    };
    let row = |(tokens, second)| {
        let example = example_of(&*trained.task, &trained.options, tokens, second);
        AskedRow { line: 0, text: String::new(), example, label: None, cut: 0 }
    };
    Ok(tokens.into_iter().zip(seconds).map(row).collect())
}

/// The answers of the model, in the order of the rows.
fn answered(trained: &mut TrainedModel, rows: &[AskedRow]) -> Result<Vec<SequenceAnswer>, SessionFailure> {
    let examples: Vec<&Example> = rows.iter().map(|row| &row.example).collect();
    let found = trained.model.answers(&pack(&examples)).map_err(|error| match error {
        LearnError::Batch(why) => SessionFailure::data("batch", None, why),
        other => other.into(),
    })?;
    Ok(answers(rows, None, &found))
}

/// Rows, numbers of an answer, answers of every row, and the numbers: logits, or what the model predicts, in the unit of the data.
fn logits(trained: &TrainedModel, found: &[SequenceAnswer]) -> Vec<u8> {
    let scale = trained.task.scale(&trained.options);
    let numbers: Vec<Vec<f64>> = found
        .iter()
        .flat_map(|answer| match answer.number {
            Some(number) => vec![vec![scale.of_model(number)]],
            None => answer.items.iter().map(|item| item.logits.clone()).collect(),
        })
        .collect();
    let width = numbers.first().map_or(0, Vec::len);
    let answers = found.iter().map(|answer| if answer.number.is_some() { 1 } else { answer.items.len() });
    let head = [found.len(), width].into_iter().chain(answers).map(|number| number as u32);
    let mut out: Vec<u8> = head.flat_map(u32::to_le_bytes).collect();
    out.extend(numbers.iter().flatten().flat_map(|number| (*number as f32).to_le_bytes()));
    out
}
