//! Rows of `sequences`: an input text, a separator, and a target text with its end as one row of next tokens.

use super::Own;
use super::language::window;
use super::plan::CustomTaskKind;
use crate::files::FileCell;
use crate::{Example, ExampleTarget};

/// Names of the tokens between an input and its target, and behind a target.
const SEPARATOR: &str = "<separator>";
const END: &str = "<end>";

impl Own {
    /// Names of the tokens that no text has. Their ids follow those of the vocabulary.
    pub(super) fn marks(&self) -> &'static [&'static str] {
        match self.plan.kind {
            CustomTaskKind::Sequences => &[SEPARATOR, END],
            CustomTaskKind::Table | CustomTaskKind::Pairs | CustomTaskKind::Tagging | CustomTaskKind::Language => &[],
        }
    }

    /// The id of a mark; `None` for a task without it.
    fn mark(&self, name: &str) -> Option<u32> {
        let at = self.marks().iter().position(|own| *own == name)?;
        Some((self.learned.tokens.count() + at) as u32)
    }

    /// The token between an input and its target.
    pub(super) fn separator(&self) -> Option<u32> {
        self.mark(SEPARATOR)
    }

    /// The token behind a target.
    pub(super) fn answer_end(&self) -> Option<u32> {
        self.mark(END)
    }

    /// Returns some tokens as text: `text` writes those of texts, and marks stand by their names.
    pub(super) fn marked(&self, tokens: &[u32], text: impl Fn(&[u32]) -> String) -> String {
        let (count, marks) = (self.learned.tokens.count(), self.marks());
        let mark = |token: u32| marks.get((token as usize).checked_sub(count)?);
        if tokens.iter().all(|token| mark(*token).is_none()) {
            return text(tokens);
        }
        let runs = tokens.chunk_by(|a, b| mark(*a).is_none() && mark(*b).is_none());
        let written = runs.map(|run| mark(run[0]).map_or_else(|| text(run), |name| (*name).to_owned()));
        written.collect::<Vec<_>>().join(self.learned.tokens.between())
    }

    /// Returns a row of an input and its target, and how many tokens of both were cut off. Targets alone are scored, with their ends;
    /// a target that was cut has no end, so that no model learns to end there.
    pub(super) fn written_row(&self, inputs: &[FileCell], target: &FileCell) -> Result<(Example, usize), String> {
        let (Example { tokens: mut row, .. }, [cut, _]) = self.texts(inputs)?;
        let unscored = row.len() - 1;
        let (target, behind) = self.sequence(target, self.plan.inputs)?;
        row.extend(target);
        row.extend(self.answer_end().filter(|_| behind == 0));
        let mut example = window(&row);
        if let ExampleTarget::Each { weight, .. } = &mut example.label {
            weight[..unscored].fill(0.0);
        }
        Ok((example, cut + behind))
    }
}
