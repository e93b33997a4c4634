//! Notes about inputs beside the answers: unknown tokens, and inputs that were cut.

use rtc_session::text::count;

use super::answer::SequenceAnswer;
use crate::terminal::Terminal;

/// Inputs with unknown tokens that are named one by one.
const NAMED: usize = 10;

/// Counts over all inputs.
pub(super) struct Notes {
    /// Whether inputs are named one by one.
    each: bool,
    inputs: usize,
    tokens: usize,
    unknown: usize,
    /// Inputs with unknown tokens.
    with_unknown: usize,
    /// Inputs that were cut, and the tokens that were cut off.
    cut: usize,
    left_out: usize,
}

impl Notes {
    /// No inputs yet.
    pub(super) fn new(each: bool) -> Self {
        Self { each, inputs: 0, tokens: 0, unknown: 0, with_unknown: 0, cut: 0, left_out: 0 }
    }

    /// Counts an answered input, and names it if it has unknown tokens.
    pub(super) fn see(&mut self, answer: &SequenceAnswer, terminal: &Terminal) {
        self.inputs += 1;
        self.tokens += answer.count;
        self.unknown += answer.unknown;
        self.with_unknown += usize::from(answer.unknown > 0);
        self.cut += usize::from(answer.cut > 0);
        self.left_out += answer.cut;
        if self.each && answer.unknown > 0 && answer.line > 0 && self.with_unknown <= NAMED {
            let (unknown, all) = (answer.unknown, count(answer.count, "token"));
            terminal.message(&format!("note: line {}: {unknown} of {all} unknown to the vocabulary", answer.line));
        }
    }

    /// Says the totals.
    pub(super) fn finish(&self, terminal: &Terminal) {
        let share = |part: usize, all: usize| format!("{:.1} %", 100.0 * part as f64 / all.max(1) as f64);
        if self.unknown > 0 {
            let Self { inputs, tokens, unknown, with_unknown, .. } = *self;
            terminal.message(&format!(
                "note: {unknown} of {} ({}) unknown to the vocabulary, in {with_unknown} of {}",
                count(tokens, "token"),
                share(unknown, tokens),
                count(inputs, "input"),
            ));
        }
        if self.cut > 0 {
            let all = self.tokens + self.left_out;
            terminal.message(&format!(
                "note: {} of {} cut to the length of the task: {} of the tokens left out",
                self.cut,
                count(self.inputs, "input"),
                share(self.left_out, all)
            ));
        }
    }
}
