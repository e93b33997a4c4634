//! Sequences of which a trained model is asked: how they are written, one per line, and the examples that they become.

use std::io::{self, BufRead, Read};

use super::load::MAX_LINE;
use super::{Example, Objective, Options, SIDES, Target, Task};

/// A sequence as it was written, without the blanks around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The sequence.
    pub text: String,
    /// Its line, counted from 1.
    pub number: usize,
}

/// Why there is no next line.
#[derive(Debug)]
pub enum LineError {
    /// What the system says.
    Io(io::Error),
    /// The number of a line, and what is wrong with it.
    Broken(usize, &'static str),
}

/// The lines of a text that are not blank.
pub struct Lines<R> {
    text: R,
    read: usize,
}

impl<R: BufRead> Lines<R> {
    /// Those of a text, from its beginning.
    pub fn new(text: R) -> Self {
        Self { text, read: 0 }
    }

    fn line(&mut self) -> Result<Option<String>, LineError> {
        let mut bytes = vec![];
        if self.text.by_ref().take(MAX_LINE + 1).read_until(b'\n', &mut bytes).map_err(LineError::Io)? == 0 {
            return Ok(None);
        }
        self.read += 1;
        if bytes.len() as u64 > MAX_LINE {
            return Err(LineError::Broken(self.read, "this line is longer than 16 MiB"));
        }
        let text = String::from_utf8(bytes).map_err(|_| LineError::Broken(self.read, "this line is not UTF-8 text"))?;
        // A mark at the start of a file is no token.
        let mark = if self.read == 1 { "\u{feff}" } else { "" };
        Ok(Some(text.strip_prefix(mark).unwrap_or(&text).trim().to_owned()))
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = Result<Line, LineError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.line().transpose()? {
                Ok(text) if text.is_empty() => {}
                found => return Some(found.map(|text| Line { text, number: self.read })),
            }
        }
    }
}

/// The example that a sequence asks about. Its answer says nothing.
///
/// # Errors
/// What is wrong with the sequence.
pub fn asked(task: &dyn Task, options: &Options, text: &str) -> Result<Example, String> {
    let encode = |text: &str| match task.encode(text.trim(), options)? {
        tokens if tokens.is_empty() => Err("the sequence is empty".to_owned()),
        tokens => Ok(tokens),
    };
    let label = |length: usize| match task.objective() {
        Objective::Each => Target::Each { class: vec![0; length], weight: vec![1.0; length] },
        Objective::Number => Target::Number(0.0),
        Objective::Several => Target::Several(vec![false; task.classes(options).len()]),
        Objective::Classify | Objective::Pair => Target::Class(0),
    };
    if task.objective() != Objective::Pair {
        let tokens = encode(text)?;
        return Ok(Example { label: label(tokens.len()), ..Example::classified(tokens, 0) });
    }
    let (first, second) = text
        .split_once(SIDES)
        .or_else(|| text.split_once('\t'))
        .ok_or_else(|| format!("a pair is written `left {SIDES} right`, or with a tab between its sides"))?;
    let tokens = encode(first).map_err(|why| format!("left of a pair: {why}"))?;
    let second = encode(second).map_err(|why| format!("right of a pair: {why}"))?;
    Ok(Example { second: Some(second), ..Example::classified(tokens, 0) })
}
