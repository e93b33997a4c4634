//! Sequences of which a trained model is asked: the lines that they are written on, and the examples that they become.

use std::io::{self, BufRead, Read};

use super::files::records::NO_TEXT;
use super::{Example, ExampleTarget, Objective, Options, SIDES, Task, documents};
use crate::reading::MAX_LINE;
use rtc_compiler::ir::formula::bytes as size;

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedLine {
    /// Its text, without its end.
    pub text: String,
    /// Its number, from 1.
    pub number: usize,
}

/// Why there is no next line.
#[derive(Debug)]
pub enum LineError {
    /// What the system says.
    Io(io::Error),
    /// The number of a line, and what is wrong with it.
    Broken(usize, String),
}

/// The lines of a text.
pub struct Lines<R> {
    text: R,
    read: usize,
}

impl<R: BufRead> Lines<R> {
    /// Those of a text, from its beginning.
    pub fn new(text: R) -> Self {
        Self { text, read: 0 }
    }

    fn line(&mut self) -> Result<Option<NumberedLine>, LineError> {
        let mut bytes = vec![];
        if self.text.by_ref().take(MAX_LINE + 1).read_until(b'\n', &mut bytes).map_err(LineError::Io)? == 0 {
            return Ok(None);
        }
        self.read += 1;
        let broken = |why: String| LineError::Broken(self.read, why);
        if bytes.len() as u64 > MAX_LINE {
            return Err(broken(format!("this line is longer than {}", size(MAX_LINE))));
        }
        let text = String::from_utf8(bytes).map_err(|_| broken(NO_TEXT.to_owned()))?;
        let text = text.strip_suffix('\n').map_or(&*text, |text| text.strip_suffix('\r').unwrap_or(text));
        // A mark at the start of a file is no token.
        let mark = if self.read == 1 { "\u{feff}" } else { "" };
        Ok(Some(NumberedLine { text: text.strip_prefix(mark).unwrap_or(text).to_owned(), number: self.read }))
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = Result<NumberedLine, LineError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.line().transpose()
    }
}

fn sides_of(text: &str) -> Option<(&str, &str)> {
    text.split_once(SIDES).or_else(|| text.split_once('\t'))
}

/// The texts of a sequence: both of a pair.
pub fn sides<'t>(task: &dyn Task, text: &'t str) -> impl Iterator<Item = &'t str> + use<'t> {
    let pair = if task.objective() == Objective::Pair { sides_of(text) } else { None };
    let (first, second) = pair.map_or((text, None), |(first, second)| (first, Some(second)));
    std::iter::once(first).chain(second)
}

/// The example that a sequence asks about. Its answer says nothing.
///
/// # Errors
/// What is wrong with the sequence.
pub fn example(task: &dyn Task, options: &Options, text: &str) -> Result<Example, String> {
    let encode = |text: &str| match task.encode(text.trim(), options)? {
        tokens if tokens.is_empty() => Err("the sequence is empty".to_owned()),
        tokens => Ok(tokens),
    };
    if task.objective() != Objective::Pair {
        return Ok(example_of(task, options, encode(text)?, None));
    }
    let (first, second) = sides_of(text)
        .ok_or_else(|| format!("a pair is written `left {SIDES} right`, or with a tab between its sides"))?;
    let mark = if text.contains(SIDES) { SIDES } else { "\t" };
    let parts = text.split(mark).count();
    if parts > 2 {
        let name = if mark == SIDES { "`|||`" } else { "a tab" };
        return Err(format!("a pair has two sides, and this text has {parts}: {name} stands between two sides once"));
    }
    let tokens = encode(first).map_err(|why| format!("left of a pair: {why}"))?;
    let second = encode(second).map_err(|why| format!("right of a pair: {why}"))?;
    Ok(example_of(task, options, tokens, Some(second)))
}

/// The example that token ids ask about, both lists of a pair. Its answer says nothing.
pub fn example_of(task: &dyn Task, options: &Options, tokens: Vec<u32>, second: Option<Vec<u32>>) -> Example {
    let label = match task.objective() {
        Objective::Each => ExampleTarget::Each { class: vec![0; tokens.len()], weight: vec![1.0; tokens.len()] },
        Objective::Number => ExampleTarget::Number(0.0),
        Objective::Several => ExampleTarget::Several(vec![false; task.classes(options).len()]),
        Objective::Classify | Objective::Pair => ExampleTarget::Class(0),
    };
    let given = task.document_end().map(|end| documents(&tokens, end, 0));
    Example { label, second, given: given.into_iter().collect(), ..Example::classified(tokens, 0) }
}
